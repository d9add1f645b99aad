"""Asks a model for something besides the answer, within the account of the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..budget import Budget
from ..flow import Emit, Flow, Need
from ..models.base import ChatModel
from ..pipeline import Pipeline
from ..plan import MethodPlan, Turn
from ..retry import Retry
from ..service import create, plan_of
from ..through import asked_as_a_whole, through

__all__ = ["Question", "aside"]

T = TypeVar("T")
_PIPELINE = Pipeline([Retry()])


class Question:
    """One method of an interface, to be asked from inside of another call.

    Its requests are in the account of that call and count against its seconds, tokens and money, but not as
    attempts at the answer; streams show nothing of them. Raises DefinitionError, as ``create`` does.
    """

    def __init__(self, interface: Any, method: str, model: ChatModel | str | None) -> None:
        self._plan: MethodPlan = plan_of(getattr(create(interface, model), method))

    def ask(self, turn: Turn | None, arguments: Mapping[str, Any]) -> Flow[Any]:
        """The value that the model answers with. Without a turn, the account is one of its own."""
        begun = self._plan.turn((), arguments, Budget())
        if turn is not None:
            begun = replace(begun, context=turn.context)
        context, before = begun.context, len(begun.context.attempts)
        try:
            answer = yield from aside(_PIPELINE.flow(begun))
        finally:
            context.aside += len(context.attempts) - before
        return answer.value


def aside(flow: Flow[T]) -> Flow[T]:
    """The same flow, of which a stream shows nothing: listeners alone are told of its events."""
    return through(flow, _quietly)


def _quietly(need: Need) -> Flow[Any]:
    if isinstance(need, Emit):
        need = need._replace(shown=False)
    return (yield from asked_as_a_whole(need))
