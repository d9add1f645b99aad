"""Makes of what a user said the queries that are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ..declare import user_message
from ..flow import Flow
from ..messages import AiMessage, Message, UserMessage
from ..models.base import ChatModel
from .aside import Question
from .content import Query

__all__ = ["CompressingQueryTransformer", "ExpandingQueryTransformer", "QueryTransformer", "unchanged"]


class QueryTransformer(Protocol):
    """Makes one or more queries of one, as a flow: what it needs done it yields."""

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]: ...


def unchanged(query: Query, /) -> Flow[Sequence[Query]]:
    """The query as it is."""
    yield from ()
    return [query]


class _Compressing(Protocol):
    @user_message(
        "Read the conversation between the user and the AI. Then read the new query from the user. Identify "
        "all relevant details, terms and context from both. Reformulate the query into a clear, concise and "
        "self-contained one that is suitable for information retrieval. Write the query and nothing else.\n\n"
        "Conversation:\n{{conversation}}\n\nUser query: {{query}}"
    )
    def compressed(self, conversation: str, query: str) -> str: ...


class CompressingQueryTransformer:
    """Has a model put what was said before and the question into one query that can be understood alone.

    Where nothing was said before, the query stays as it is and no model is asked.
    """

    def __init__(self, model: ChatModel | str | None = None) -> None:
        self._question = Question(_Compressing, "compressed", model)

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        said = [line for line in map(_line, query.history) if line]
        if not said:
            return [query]
        given = {"conversation": "\n".join(said), "query": query.text}
        text: str = yield from self._question.ask(query.turn, given)
        return [replace(query, text=text.strip())] if text.strip() else [query]


class _Expanding(Protocol):
    @user_message(
        "Write {{count}} different versions of the user query below. Each version is worded differently, "
        "with synonyms or another structure, and all keep the original meaning. They are used to find "
        "relevant documents.\n\nUser query: {{query}}"
    )
    def expanded(self, query: str, count: int) -> list[str]: ...


class ExpandingQueryTransformer:
    """Has a model word the query in ``n`` other ways, which are looked for besides it."""

    def __init__(self, model: ChatModel | str | None = None, n: int = 3) -> None:
        self._question = Question(_Expanding, "expanded", model)
        self._n = n

    def __call__(self, query: Query, /) -> Flow[Sequence[Query]]:
        given = {"query": query.text, "count": self._n}
        texts: list[str] = yield from self._question.ask(query.turn, given)
        others = dict.fromkeys(text.strip() for text in texts[: self._n])
        return [query, *(replace(query, text=text) for text in others if text and text != query.text)]


def _line(message: Message) -> str:
    """A message as a line of the conversation; "" for what neither side said."""
    if isinstance(message, UserMessage):
        return f"User: {message.text}"
    return f"AI: {message.text}" if isinstance(message, AiMessage) and message.text else ""
