"""Agents: ReActAgent reasons and calls tools until it has an answer, in the terms of AgentScope."""

from __future__ import annotations

from .message import Msg, Round
from .react import HookHandle, ReActAgent

__all__ = ["HookHandle", "Msg", "ReActAgent", "Round"]
