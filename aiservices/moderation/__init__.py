"""Moderation: what users say, and what a model answers, is checked before it is handed over."""

from __future__ import annotations

from .interceptor import Moderation
from .openai_moderator import OpenAiModerator
from .results import ModerationError, ModerationRan, ModerationResult, Moderator

__all__ = [
    "Moderation",
    "ModerationError",
    "ModerationRan",
    "ModerationResult",
    "Moderator",
    "OpenAiModerator",
]
