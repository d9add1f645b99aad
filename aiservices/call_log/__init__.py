"""The public import path of ``log_calls``: a listener that logs one line for each call."""

from __future__ import annotations

from ..integrations.logging import log_calls

__all__ = ["log_calls"]
