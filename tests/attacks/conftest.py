"""Fixtures of the attack tests."""

from conversation_stores import opened, redis_url

__all__ = ["opened", "redis_url"]
