"""The fixtures of other folders that the tests of the engine use."""

from __future__ import annotations

from conversation_stores import redis_url

__all__ = ["redis_url"]
