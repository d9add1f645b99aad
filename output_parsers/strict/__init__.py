"""Adapt JSON Schemas to providers' strict modes for structured outputs, and convert the replies back.

A strict mode guarantees that a reply follows the schema, but supports only a part of JSON Schema.
``encode`` converts a schema to a supported one. ``encode_parser`` does the same for the parser of a type.
"""

from __future__ import annotations

from .codec import EncodingError, Finding
from .encode import EncodedNode, EncodedParser, Encoding, encode, encode_parser

__all__ = ["EncodedNode", "EncodedParser", "Encoding", "EncodingError", "Finding", "encode", "encode_parser"]
