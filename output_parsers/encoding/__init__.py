"""Encodes a JSON Schema so that a provider's strict mode can say it, and decodes what a model then writes."""

from __future__ import annotations

from .encode import Encoding, encode
from .finding import EncodingFault, Finding
from .node import EncodedNode, EncodedParser, encoded

__all__ = ["EncodedNode", "EncodedParser", "Encoding", "EncodingFault", "Finding", "encode", "encoded"]
