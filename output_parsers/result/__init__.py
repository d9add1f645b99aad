"""The results of parsing text: a value with the conversions needed, or an error with its causes."""
