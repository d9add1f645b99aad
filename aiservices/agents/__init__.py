"""AI agents that reason and call tools until they have an answer, modelled on the library AgentScope."""

from __future__ import annotations

from .message import Msg, Round
from .react import HookHandle, ReActAgent

__all__ = ["HookHandle", "Msg", "ReActAgent", "Round"]
