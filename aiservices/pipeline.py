"""Around one call: interceptors inward, the model, the reading of its reply, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from output_parsers.errors import OutputParsingError
from output_parsers.reading import Coercion

from .asking import ask
from .errors import (
    AiServiceError,
    ContentFilterError,
    FinishError,
    RefusalError,
    ServiceOutputError,
    TruncatedError,
)
from .flow import Flow
from .messages import ChatReply, FinishReason
from .plan import Turn
from .strategy import Strategy

__all__ = ["Answer", "Interceptor", "Pipeline", "Proceed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a turn: the typed value, the reply it was read from, and the steps that reading took.

    ``strategy`` and ``reasons`` say how structure was asked for, and why so.
    """

    value: Any
    reply: ChatReply
    coercions: tuple[Coercion, ...]
    strategy: Strategy = Strategy.TEXT
    reasons: tuple[str, ...] = ()


Proceed: TypeAlias = Callable[[Turn], Flow[Answer]]


class Interceptor(Protocol):
    """Wraps a call: ``answer = yield from proceed(turn)`` goes on inward; written once for all kinds of call.

    It may change the turn before it proceeds, change or refuse the answer after, proceed again, or
    not at all. What it needs done it yields as a need (Ask, Do, All, Emit, Pause).
    """

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]: ...


class Pipeline:
    """The way of every call of one service; made once, holds nothing of a call."""

    def __init__(self, interceptors: Sequence[Interceptor] = ()) -> None:
        proceed: Proceed = self._ask
        for interceptor in reversed(interceptors):
            proceed = _wrapped(interceptor, proceed)
        self._proceed = proceed

    def flow(self, turn: Turn) -> Flow[Answer]:
        """One call as a flow. Errors of ours leave it with all attempts on them."""
        try:
            return (yield from self._proceed(turn))
        except AiServiceError as error:
            error.attempts = tuple(turn.context.attempts)
            error.add_note(f"in {turn.plan.where}")
            raise

    def _ask(self, turn: Turn) -> Flow[Answer]:
        reply, wire = yield from ask(turn)
        _check_finish(reply, turn.plan.where)
        try:
            reading = wire.read(reply)
        except OutputParsingError as error:
            attempts = turn.context.attempts
            attempts[-1] = replace(attempts[-1], error=error)
            failure = ServiceOutputError(turn.plan.where, error.text, error.problems, attempts)
            failure.reply = reply
            raise failure from error
        return Answer(reading.value, reply, reading.coercions, wire.strategy, wire.reasons)


def _wrapped(interceptor: Interceptor, proceed: Proceed) -> Proceed:
    return lambda turn: interceptor(turn, proceed)


def _check_finish(reply: ChatReply, where: str) -> None:
    text = reply.text
    error: FinishError
    if reply.refusal is not None:
        error = RefusalError(f"{where}: the model refused: {reply.refusal}", text=text, reason=reply.refusal)
    elif reply.finish_reason is FinishReason.LENGTH:
        said = f"{where}: the answer was cut off by a length limit; raise max_tokens or ask for less"
        error = TruncatedError(said, text=text, reason="length")
    elif reply.finish_reason is FinishReason.CONTENT_FILTER:
        said = f"{where}: the provider's content filter stopped the answer"
        error = ContentFilterError(said, text=text, reason="content_filter")
    else:
        return
    raise error
