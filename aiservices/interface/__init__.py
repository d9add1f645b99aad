"""What users write: decorators, templates, parameters and their roles."""
