"""Parser nodes, which parse, write and describe (as JSON Schemas) the values of Python types."""
