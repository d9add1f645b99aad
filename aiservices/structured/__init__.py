"""Typed answers without an interface: a model that answers every message with a value of one type."""

from __future__ import annotations

from ..service.structured import Structured, StructuredModel, structured

__all__ = ["Structured", "StructuredModel", "structured"]
