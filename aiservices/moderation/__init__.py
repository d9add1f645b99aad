"""Moderation: what users say, and what a model answers, is checked before it is handed over."""

from __future__ import annotations

from ..guardrails.moderation import (
    Moderation,
    ModerationError,
    ModerationRan,
    ModerationResult,
    Moderator,
    OpenAiModerator,
)

__all__ = [
    "Moderation",
    "ModerationError",
    "ModerationRan",
    "ModerationResult",
    "Moderator",
    "OpenAiModerator",
]
