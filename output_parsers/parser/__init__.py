"""Read the reply of a model as a typed value."""
