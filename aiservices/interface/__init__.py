"""Read the interface of a service: its decorators, prompt templates and method parameters."""
