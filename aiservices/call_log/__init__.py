"""Logs each call of a service in a line; what was said is not in it."""

from __future__ import annotations

from ..integrations.logging import log_calls

__all__ = ["log_calls"]
