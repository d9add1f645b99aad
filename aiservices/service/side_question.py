"""Ask a model something during another service call, for example whether an answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..engine.budget import Budget
from ..engine.effects import Effect, Emit, Flow, map_effects, without_streaming
from ..engine.pipeline import Pipeline
from ..engine.plan import CallState, Invocation
from ..engine.retry import Retry
from ..models.base import ChatModel
from ..models.errors import Attempt, AttemptPurpose
from .compile import MethodPlan
from .create import create
from .methods import plan_of

T = TypeVar("T")
_PIPELINE = Pipeline([Retry()])


class SideQuestion:
    """A service method that is called inside another service call, for example to rephrase a query.

    Its requests are recorded in the other call and count against the seconds, tokens and money of its budget,
    but not against its number of attempts. Streams show nothing of them. Raises DefinitionError like
    ``create``.
    """

    def __init__(self, interface: Any, method: str, model: ChatModel | str | None) -> None:
        self._plan: MethodPlan = plan_of(getattr(create(interface, model), method))

    def ask(self, invocation: Invocation | None, arguments: Mapping[str, object]) -> Flow[Any]:
        """Call a service method from inside another service call, and return the answer's value.

        ``invocation`` is the other call. Without one the requests are not recorded anywhere.
        """
        question = self._plan.invocation((), arguments, Budget())
        if invocation is None:
            return (yield from hide_from_stream(_PIPELINE.flow(question))).value
        outer = invocation.state
        question = replace(question, state=state_within(outer))
        try:
            answer = yield from hide_from_stream(_PIPELINE.flow(question))
        finally:
            outer.attempts += map(_of_side_question, question.state.attempts[len(outer.attempts) :])
            outer.estimated_usage = question.state.estimated_usage
        return answer.value


def state_within(outer: CallState) -> CallState:
    """Return the state of a call that is made inside another one, with what is left of its budget.

    The requests of the other call do not count as attempts at the answer of this one.
    """
    return CallState(
        outer.budget,
        outer.started_at,
        [*map(_of_side_question, outer.attempts)],
        enclosing=outer.enclosing,
        inner=outer.inner,
        estimated_usage=outer.estimated_usage,
        is_abandoned=outer.is_abandoned,
        _id=outer.id,
    )


def _of_side_question(attempt: Attempt) -> Attempt:
    return attempt._replace(purpose=AttemptPurpose.SIDE_QUESTION)


def hide_from_stream(flow: Flow[T]) -> Flow[T]:
    """Run a part of a service call without showing its events in the user's stream."""
    return map_effects(flow, _perform_hidden)


def _perform_hidden(effect: Effect) -> Flow[Any]:
    if isinstance(effect, Emit):
        effect = replace(effect, streamed=False)
    return (yield from without_streaming(effect))
