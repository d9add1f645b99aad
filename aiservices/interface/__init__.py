"""Read what users declare in an interface: decorators, templates, and parameters with their roles."""
