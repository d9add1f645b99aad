"""Memory for conversations: stores for messages, and limits on how many are sent to the model."""

from __future__ import annotations

from ..models.errors import MemoryBusyError, MemoryConflictError, MemoryIdError, MemoryStoreError
from ..models.messages import message_from_dict, message_to_dict
from .chat_memory import ChatMemory
from .stores import ChatMemoryStore, InMemoryChatMemoryStore, StoredConversation
from .stores.redis import RedisChatMemoryStore
from .stores.sql import SqlAlchemyChatMemoryStore, SqliteChatMemoryStore
from .windows import (
    Exchange,
    MessageWindow,
    SummarizingWindow,
    TokenWindow,
    Window,
    WindowView,
    estimate_tokens,
)

__all__ = [
    "ChatMemory",
    "ChatMemoryStore",
    "Exchange",
    "InMemoryChatMemoryStore",
    "MemoryBusyError",
    "MemoryConflictError",
    "MemoryIdError",
    "MemoryStoreError",
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
    "message_from_dict",
    "message_to_dict",
]
