"""The fixtures with every conversation store whose package or server is available."""

from conversation_stores import opened, redis_url

__all__ = ["opened", "redis_url"]
