"""Parsers for Python types, which read and write their values and describe them as JSON Schemas."""
