"""The results of reading text: a value with its coercions, or an error with its problems."""
