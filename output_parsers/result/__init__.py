"""The results of reading text: a value with the conversions needed, or an error with its causes."""
