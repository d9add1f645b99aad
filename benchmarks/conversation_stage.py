"""A call with memory, a round of tools and a listener, beside the two bare calls that it consists of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    ChatReply,
    ChatRequest,
    FinishReason,
    MemoryId,
    Message,
    OpenAiChatModel,
    ScriptedChatModel,
    ToolCall,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory

from .clerk import KEY
from .conversation_server import ANSWER, CALL_ID, serving_tools
from .measure import Effort, Work, compare
from .results import Comparison, Stage

__all__ = ["run"]
