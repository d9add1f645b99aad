"""Conversation memory: ChatMemory, the windows that limit what a model sees, and the stores."""

from __future__ import annotations

from .chat_memory import ChatMemory
from .conversation_lock import MemoryBusyError
from .history import Exchange
from .stores import ChatMemoryStore, InMemoryChatMemoryStore, MemoryConflictError, StoredConversation
from .stores.redis import RedisChatMemoryStore
from .stores.sqlalchemy import SqlAlchemyChatMemoryStore
from .stores.sqlite import SqliteChatMemoryStore
from .windows import MessageWindow, SummarizingWindow, TokenWindow, Window, WindowView, estimate_tokens

__all__ = [
    "ChatMemory",
    "ChatMemoryStore",
    "Exchange",
    "InMemoryChatMemoryStore",
    "MemoryBusyError",
    "MemoryConflictError",
    "MessageWindow",
    "RedisChatMemoryStore",
    "SqlAlchemyChatMemoryStore",
    "SqliteChatMemoryStore",
    "StoredConversation",
    "SummarizingWindow",
    "TokenWindow",
    "Window",
    "WindowView",
    "estimate_tokens",
]
