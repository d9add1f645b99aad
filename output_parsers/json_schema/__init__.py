"""Parsers for JSON Schemas that are written as dicts."""
