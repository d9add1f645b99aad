"""Encodes a JSON Schema so that a provider's strict mode can say it, and decodes what a model then writes."""

from __future__ import annotations

from .codec import EncodingFault, Finding
from .encode import EncodedNode, EncodedParser, Encoding, encode, encoded

__all__ = ["EncodedNode", "EncodedParser", "Encoding", "EncodingFault", "Finding", "encode", "encoded"]
