"""Let a moderation service check user messages and answers.

The code is in ``aiservices.guardrails.moderation``.
"""

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
