"""The clerk and a chat as a server runs them, with limits, a memory in Redis, a log and a health check.

``uvicorn --factory samples.service.production:application`` starts it. AISERVICES_MODEL names the model and
REDIS_URL the server that stores the conversations.
"""

from __future__ import annotations

import logging
import os
from typing import Annotated, Protocol

from fastapi import FastAPI, Header

from aiservices import Budget, ChatModel, ChatOptions, MemoryId, create
from aiservices.call_log import log_calls
from aiservices.integrations.fastapi import app
from aiservices.memory import (
    ChatMemory,
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    MessageWindow,
    RedisChatMemoryStore,
)

from .clerk import PATHS, Clerk

LIMITS = Budget(max_attempts=3, seconds=60)
OPTIONS = ChatOptions(timeout=30)
MONTH = 30 * 24 * 60 * 60


class Chat(Protocol):
    """Talks with one user, and remembers the conversation."""

    def chat(self, message: str, user: Annotated[str, MemoryId]) -> str: ...


def current_user(x_user: Annotated[str, Header()]) -> str:
    """Return the user of a request, from a header that the proxy sets after it has checked the login."""
    return x_user


def conversation_store(url: str | None) -> ChatMemoryStore:
    """Return the store at a Redis URL, or one in this process, which is enough for a single process."""
    if url:
        return RedisChatMemoryStore(url, expires_after=MONTH)
    return InMemoryChatMemoryStore(max_conversations=10_000, expires_after=MONTH)


def application(model: ChatModel | str | None = None) -> FastAPI:
    """Return the FastAPI application. ``model`` is passed to ``create``, and servers leave it out."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    memory = ChatMemory(MessageWindow(20), store=conversation_store(os.environ.get("REDIS_URL")), timeout=30)
    clerk = create(Clerk, model, budget=LIMITS, options=OPTIONS, listeners=[log_calls])
    chat = create(Chat, model, budget=LIMITS, options=OPTIONS, listeners=[log_calls], interceptors=[memory])
    web = app({"/clerk": clerk, "/talk": chat}, paths=PATHS, server_arguments={"user": current_user})

    @web.get("/health", include_in_schema=False)
    async def health() -> dict[str, str]:  # async, so that it answers while all threads are busy
        return {"status": "ok"}

    return web
