"""Convert a model's reply to a typed value."""
