"""Makes the methods of a service: what a call does, for each shape in which a value is handed back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from .approval import TurnState
from .budget import Budget, CallContext
from .flow import Emit, Flow, arun, astream, run, stream
from .messages import AiMessage, ToolMessage
from .parameters import Role
from .pieces import Items, Texts, aiterate, iterate
from .pipeline import Answer, Pipeline
from .plan import MethodPlan, Turn
from .requests import ChatRequest
from .returns import Result, Shape
from .route import Route
from .streams import Accepted, AsyncStream, Stream
from .through import held

__all__ = ["bound_of", "is_planned", "method_of", "result_of", "resume", "resumed_turn", "to_the_end"]

P = ParamSpec("P")
R = TypeVar("R")
_BOUND = "__aiservices_bound__"


class Bound(NamedTuple):
    """What stands behind a method of a service: its plan, what a call may spend, and what a turn does."""

    plan: MethodPlan
    budget: Budget
    begin: Callable[[Turn], Any]


def method_of(stub: FunctionType, plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Any:
    """The function that stands in for a stub."""
    shape, asynchronous = plan.returns.shape, plan.returns.asynchronous
    turn, whole = plan.turn, shape in (Shape.VALUE, Shape.RESULT)
    begin = (_whole if whole else _streamed if shape is Shape.STREAM else _iterated)(plan, pipeline)

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return begin(turn(args, kwargs, budget))

    async def acall(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return await begin(turn(args, kwargs, budget))

    method: Any = wraps(stub)(acall if whole and asynchronous else call)
    method.__isabstractmethod__ = False
    setattr(method, _BOUND, Bound(plan, budget, begin))
    return method


def bound_of(method: object) -> Bound:
    """What stands behind a method of a service. Raises TypeError when it is none."""
    bound = getattr(method, _BOUND, None)
    if not isinstance(bound, Bound):
        raise TypeError(f"{method!r} is no method of a service that create made")
    return bound


def is_planned(method: object) -> bool:
    """Whether it is a method that ``create`` made: what it sends, and what it costs, is known of no other."""
    try:
        bound_of(method)
    except TypeError:
        return False
    return True


def resume(
    method: Callable[P, R],
    state: TurnState,
    approvals: Mapping[str, bool | str],
    /,
    **tool_context: Any,
) -> R:
    """Go on with a call that waited for approval; gives what ``method`` gives, in the way it gives it.

    ``approvals`` says by the ids of the tool calls which are approved: True, or False, or the reason why
    not, which the model is told. ``tool_context`` are the values that tools are given beside their
    arguments, by the names of their parameters: they are no part of the state, but for MemoryId and UserName.
    The budget begins anew, and the models are asked from the first one on. Raises ValueError when the state
    is that of another method, when a call is not decided, and when the model that made it is not asked here.
    """
    plan, budget, begin = bound_of(method)
    value: R = begin(resumed_turn(plan, budget, state, approvals, tool_context))
    return value


def resumed_turn(
    plan: MethodPlan,
    budget: Budget,
    state: TurnState,
    approvals: Mapping[str, bool | str],
    tool_context: Mapping[str, Any],
) -> Turn:
    """The turn of a call that waited, at that place. Raises ValueError as ``resume`` does."""
    if state.where != plan.where:
        raise ValueError(f"the state is one of {state.where}, not of {plan.where}")
    waiting = state.exchanged[-1] if state.exchanged else None
    calls = waiting.tool_calls if isinstance(waiting, AiMessage) else ()
    undecided = [call.id for call in calls if call.id in state.pending and call.id not in approvals]
    if undecided:
        raise ValueError(f"{plan.where}: it is not said whether {', '.join(undecided)} is approved")
    context = CallContext(
        budget,
        exchanged=[*state.before, *state.exchanged],
        before=len(state.before),
        rounds=state.rounds,
        calls=sum(isinstance(said, ToolMessage) for said in (*state.before, *state.exchanged)),
        aside=-(state.rounds + 1),  # the request that made the calls was one of those before
        kept=dict(state.kept),
        route=_route_of(state, plan),
    )
    request = ChatRequest(state.messages, state.options.over(plan.options))
    given, shown = _arguments_of(state, plan), plan.shown()
    return Turn(plan, given, request, context, state.memory_id, tool_context, shown, approvals=approvals)


def _route_of(state: TurnState, plan: MethodPlan) -> Route | None:
    """The model that made the calls, since others may be told to write arguments in another form."""
    if not state.model:
        return None
    found = next((route for route in plan.routes if route.model.name == state.model), None)
    if found is None:
        named = ", ".join(route.model.name for route in plan.routes)
        raise ValueError(
            f"{plan.where}: the calls that wait were made by {state.model}, and the models of the service "
            f"are: {named}; add it to them, or go on with state._replace(model='') to have the calls read as "
            "if the first had made them"
        )
    return found


def _arguments_of(state: TurnState, plan: MethodPlan) -> dict[str, Any]:
    """The arguments that the state keeps. Where it kept no user name, tools are not given None for it."""
    values = {Role.MEMORY_ID: state.memory_id, Role.USER_NAME: state.user_name}
    kept = {p.name: values[p.role] for p in plan.parameters if p.role in values}
    optional = {name for name, one in plan.signature.parameters.items() if one.default is None}
    return {name: value for name, value in kept.items() if value is not None or name in optional}


def result_of(answer: Answer, turn: Turn) -> Result[Any]:
    """An answer with the account of its call."""
    context = turn.context
    return Result(
        answer.value,
        answer.reply,
        answer.strategy,
        answer.coercions,
        tuple(context.attempts),
        context.seconds,
        answer.reasons,
        answer.tool_runs,
        answer.sources,
    )


def _value_of(answer: Answer, turn: Turn) -> Any:
    return answer.value


def _whole(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Turn], Any]:
    flow = pipeline.flow
    finish = result_of if plan.returns.shape is Shape.RESULT else _value_of

    def begin(turn: Turn) -> Any:
        return finish(run(flow(turn)), turn)

    async def abegin(turn: Turn) -> Any:
        return finish(await arun(flow(turn)), turn)

    return abegin if plan.returns.asynchronous else begin


def _streamed(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Turn], Any]:
    def begin(turn: Turn) -> Any:
        flow = to_the_end(pipeline, turn)
        finish = partial(_result, turn)
        return (
            AsyncStream(astream(flow), finish) if plan.returns.asynchronous else Stream(stream(flow), finish)
        )

    return begin


def _result(turn: Turn, answer: Answer) -> Result[Any]:
    return result_of(answer, turn)


def _iterated(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Turn], Any]:
    pieces = Texts if plan.returns.shape is Shape.TEXT_STREAM else Items

    def begin(turn: Turn) -> Any:
        flow = to_the_end(pipeline, turn)
        return (aiterate if plan.returns.asynchronous else iterate)(flow, pieces(turn))

    return begin


def to_the_end(pipeline: Pipeline, turn: Turn) -> Flow[None]:
    """A call whose answer is its last event, since a stream hands over nothing else.

    Where an interceptor may still rewrite or refuse what was said, nothing is shown before it has passed.
    """
    flow = pipeline.flow(turn)
    answer = yield from held(flow) if pipeline.holds_back else flow
    yield Emit(Accepted(answer))
