"""AI agents that reason and call tools until they have an answer, similar to AgentScope's agents."""

from __future__ import annotations

from .message import Msg, Round
from .react import HookHandle, ReActAgent

__all__ = ["HookHandle", "Msg", "ReActAgent", "Round"]
