"""Tools: Python functions that a language model may call."""
