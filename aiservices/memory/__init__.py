"""Conversations that are remembered: ChatMemory, its windows, and the stores that keep what was said."""

from __future__ import annotations

from .chat_memory import ChatMemory
from .in_memory import InMemoryChatMemoryStore
from .line import MemoryBusyError
from .redis_store import RedisChatMemoryStore
from .sqlalchemy_store import SqlAlchemyChatMemoryStore
from .sqlite_store import SqliteChatMemoryStore
from .store import ChatMemoryStore, MemoryConflictError, Stored
from .summarizing import SummarizingWindow
from .windows import Exchange, MessageWindow, Seen, TokenWindow, Window, estimated_tokens

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
