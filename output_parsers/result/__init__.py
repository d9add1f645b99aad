"""The results of reading text: values with coercions, problems and errors."""
