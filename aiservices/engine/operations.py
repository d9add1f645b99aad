"""Operations other than requests and tool calls that telemetry observes: searches, embeddings, memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from inspect import isawaitable
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

OperationName: TypeAlias = Literal[
    "embeddings", "retrieval", "search_memory", "upsert_memory", "delete_memory"
]


@dataclass(frozen=True, slots=True)
class Operation:
    """A step that a part of the library performs for a call, or outside of calls.

    Attributes:
        name: The name in the OpenTelemetry conventions for generative AI.
        target: The object that does it: an embedding model, a retriever or a store of conversations.
        input: The texts that are embedded, the text that is searched for, or the messages that are stored.
        conversation: The id of the stored conversation; None if it is not about one.
    """

    name: OperationName
    target: object
    input: Any = None
    conversation: str | None = None


class Observation(Protocol):
    """What an observer records about one operation until its end.

    Attributes:
        context: Surrounds the code of the operation. It is entered again when async code continues.
    """

    @property
    def context(self) -> AbstractContextManager[None]: ...
    def end(self, result: object = None, error: BaseException | None = None) -> None: ...


# Telemetry adds a function here when it is imported. It returns None for what it does not observe.
OBSERVERS: list[Callable[[Operation], Observation | None]] = []


def observed(operation: Operation, function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that also tells the observers about its call; it may return an awaitable."""
    if not OBSERVERS:
        return function

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        observation = next(filter(None, (observe(operation) for observe in OBSERVERS)), None)
        if observation is None:
            return function(*arguments, **named)
        try:
            with observation.context:
                outcome = function(*arguments, **named)
        except BaseException as error:
            observation.end(error=error)
            raise
        if isawaitable(outcome):
            return cast("R", _awaited(outcome, observation))
        observation.end(outcome)
        return outcome

    return call


async def _awaited(outcome: Awaitable[object], observation: Observation) -> object:
    try:
        with observation.context:
            value = await outcome
    except BaseException as error:
        observation.end(error=error)
        raise
    observation.end(value)
    return value
