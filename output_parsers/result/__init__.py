"""The results of parsing text."""
