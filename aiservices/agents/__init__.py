"""Agents that reason and act until they have an answer, in the terms of AgentScope."""

from __future__ import annotations

from .hooks import HookHandle
from .msg import Msg, Round
from .react import ReActAgent

__all__ = ["HookHandle", "Msg", "ReActAgent", "Round"]
