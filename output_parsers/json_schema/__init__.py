"""Parsers for JSON Schemas given as dicts."""
