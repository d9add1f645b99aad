"""Conversations that are remembered: ChatMemory, its windows, and the stores that keep what was said."""

from __future__ import annotations

from .chat_memory import ChatMemory
from .conversation_lock import MemoryBusyError
from .history import Exchange
from .stores import ChatMemoryStore, InMemoryChatMemoryStore, MemoryConflictError, Stored
from .stores.redis import RedisChatMemoryStore
from .stores.sqlalchemy import SqlAlchemyChatMemoryStore
from .stores.sqlite import SqliteChatMemoryStore
from .windows import MessageWindow, Seen, SummarizingWindow, TokenWindow, Window, estimated_tokens

__all__ = [
    "ChatMemory",
    "ChatMemoryStore",
    "Exchange",
    "InMemoryChatMemoryStore",
    "MemoryBusyError",
    "MemoryConflictError",
    "MessageWindow",
    "RedisChatMemoryStore",
    "Seen",
    "SqlAlchemyChatMemoryStore",
    "SqliteChatMemoryStore",
    "Stored",
    "SummarizingWindow",
    "TokenWindow",
    "Window",
    "estimated_tokens",
]
