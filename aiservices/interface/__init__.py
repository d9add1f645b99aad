"""Read the interface that a user writes: decorators, prompt templates, and parameters."""
