"""Parsers for Python types, which read and write values and describe the types as JSON Schemas."""
