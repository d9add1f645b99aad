"""Convert the reply of a model to a typed value."""
