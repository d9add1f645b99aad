"""Create services: check an interface, render prompts from arguments and implement the methods."""
