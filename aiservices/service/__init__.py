"""Build services: compile an interface, bind arguments to prompts, and implement the methods."""
