"""Results of reading, coercions and errors."""
