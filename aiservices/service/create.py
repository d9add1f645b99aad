"""Makes a working object of a declared interface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from types import FunctionType, new_class
from typing import Any, NamedTuple, ParamSpec, TypeVar, get_origin, overload

from typing_extensions import TypeForm

from output_parsers.parser.registry import DEFAULT_REGISTRY, ParserFactory
from output_parsers.types.target import type_name

from ..engine.approval import SuspendedCall
from ..engine.budget import Budget, CallState
from ..engine.effects import Emit, Flow, arun, astream, held, run, stream
from ..engine.iterators import ItemStream, TextChunks, aiterate, iterate
from ..engine.model_route import ModelRoute
from ..engine.pipeline import Answer, Interceptor, Listener, Pipeline
from ..engine.plan import Invocation, MethodPlan, RequestTransformer
from ..engine.results import Result, Shape
from ..engine.retry import Retry
from ..engine.streams import Accepted, AsyncStream, Stream
from ..engine.tool_execution import ToolErrors
from ..interface.decorators import SystemSource, TemplateSource
from ..interface.parameters import Role, inside_of, is_async, name_of
from ..interface.stubs import enclosing_names, has_own_init, methods_of
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import AiMessage, ToolMessage
from ..models.requests import ChatOptions, ChatRequest
from ..models.strategy import Strategy
from ..tools.tool import ToolSource
from ..tools.toolbox import ToolLimits
from .compile import Settings, plan_interface

P = ParamSpec("P")
R = TypeVar("R")
_BOUND = "__aiservices_bound__"


class ServiceMethod(NamedTuple):
    """What stands behind a method of a service: its plan, what a call may spend, and what a turn does."""

    plan: MethodPlan
    budget: Budget
    begin: Callable[[Invocation], Any]


def method_of(stub: FunctionType, plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Any:
    """The function that stands in for a stub."""
    shape, asynchronous = plan.returns.shape, plan.returns.asynchronous
    invocation, whole = plan.invocation, shape in (Shape.VALUE, Shape.RESULT)
    begin = (_whole if whole else _streamed if shape is Shape.STREAM else _iterated)(plan, pipeline)

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return begin(invocation(args, kwargs, budget))

    async def acall(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return await begin(invocation(args, kwargs, budget))

    method: Any = wraps(stub)(acall if whole and asynchronous else call)
    method.__isabstractmethod__ = False
    setattr(method, _BOUND, ServiceMethod(plan, budget, begin))
    return method


def bound_of(method: object) -> ServiceMethod:
    """What stands behind a method of a service. Raises TypeError when it is none."""
    bound = getattr(method, _BOUND, None)
    if not isinstance(bound, ServiceMethod):
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
    state: SuspendedCall,
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
    state: SuspendedCall,
    approvals: Mapping[str, bool | str],
    tool_context: Mapping[str, Any],
) -> Invocation:
    """The turn of a call that waited, at that place. Raises ValueError as ``resume`` does."""
    if state.where != plan.where:
        raise ValueError(f"the state is one of {state.where}, not of {plan.where}")
    waiting = state.tool_messages[-1] if state.tool_messages else None
    calls = waiting.tool_calls if isinstance(waiting, AiMessage) else ()
    undecided = [call.id for call in calls if call.id in state.pending and call.id not in approvals]
    if undecided:
        raise ValueError(f"{plan.where}: it is not said whether {', '.join(undecided)} is approved")
    context = CallState(
        budget,
        tool_messages=[*state.before, *state.tool_messages],
        before=len(state.before),
        rounds=state.rounds,
        calls=sum(isinstance(said, ToolMessage) for said in (*state.before, *state.tool_messages)),
        aside=-(state.rounds + 1),  # the request that made the calls was one of those before
        kept=dict(state.kept),
        route=_route_of(state, plan),
    )
    request = ChatRequest(state.messages, state.options.with_defaults(plan.options))
    given, shown = _arguments_of(state, plan), plan.shown()
    return Invocation(
        plan, given, request, context, state.memory_id, tool_context, shown, approvals=approvals
    )


def _route_of(state: SuspendedCall, plan: MethodPlan) -> ModelRoute | None:
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


def _arguments_of(state: SuspendedCall, plan: MethodPlan) -> dict[str, Any]:
    """The arguments that the state keeps. Where it kept no user name, tools are not given None for it."""
    values = {Role.MEMORY_ID: state.memory_id, Role.USER_NAME: state.user_name}
    kept = {p.name: values[p.role] for p in plan.parameters if p.role in values}
    optional = {name for name, one in plan.signature.parameters.items() if one.default is None}
    return {name: value for name, value in kept.items() if value is not None or name in optional}


def result_of(answer: Answer, invocation: Invocation) -> Result[Any]:
    """An answer with the account of its call."""
    context = invocation.state
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


def _value_of(answer: Answer, invocation: Invocation) -> Any:
    return answer.value


def _whole(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Invocation], Any]:
    flow = pipeline.flow
    finish = result_of if plan.returns.shape is Shape.RESULT else _value_of

    def begin(invocation: Invocation) -> Any:
        return finish(run(flow(invocation)), invocation)

    async def abegin(invocation: Invocation) -> Any:
        return finish(await arun(flow(invocation)), invocation)

    return abegin if plan.returns.asynchronous else begin


def _streamed(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Invocation], Any]:
    def begin(invocation: Invocation) -> Any:
        flow = to_the_end(pipeline, invocation)
        finish = partial(_result, invocation)
        return (
            AsyncStream(astream(flow), finish) if plan.returns.asynchronous else Stream(stream(flow), finish)
        )

    return begin


def _result(invocation: Invocation, answer: Answer) -> Result[Any]:
    return result_of(answer, invocation)


def _iterated(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Invocation], Any]:
    pieces = TextChunks if plan.returns.shape is Shape.TEXT_STREAM else ItemStream

    def begin(invocation: Invocation) -> Any:
        flow = to_the_end(pipeline, invocation)
        return (aiterate if plan.returns.asynchronous else iterate)(flow, pieces(invocation))

    return begin


def to_the_end(pipeline: Pipeline, invocation: Invocation) -> Flow[None]:
    """A call whose answer is its last event, since a stream hands over nothing else.

    Where an interceptor may still rewrite or refuse what was said, nothing is shown before it has passed.
    """
    flow = pipeline.flow(invocation)
    answer = yield from held(flow) if pipeline.blocks_streaming else flow
    yield Emit(Accepted(answer))


_TOO_EARLY = "memory keeps an answer before it has passed"
_AS_IF_SAID = "memory keeps what the model is told of an answer as if the user had said it"
# What comes of the first one around the second. Interceptors say by ``position_name`` what
# they are; those that say nothing may stand anywhere.
_WRONG = {
    ("memory", "input guard"): "memory keeps what the guards take out, and the model sees it in later calls",
    ("memory as sent", "input guard"): "a call that waits for approval keeps what the guards take out",
    ("retrieval", "memory"): "memory keeps what was retrieved as if the user had said it",
    ("output guard", "memory"): _TOO_EARLY,
    ("output guard", "memory as sent"): _TOO_EARLY,
    ("output guard", "retrieval"): "after a rejected answer is retrieved what fits the words of the guards",
    ("answer check", "memory"): _TOO_EARLY,
    ("answer check", "memory as sent"): _TOO_EARLY,
    ("retry", "memory"): _AS_IF_SAID,
    ("retry", "memory as sent"): _AS_IF_SAID,
}


def out_of_order(where: str, interceptors: Sequence[Interceptor]) -> Iterator[DefinitionProblem]:
    """The pairs of interceptors that give wrong results in this order, the first one being the outermost."""
    kinds = [getattr(one, "position_name", None) for one in interceptors]
    for at, inner in enumerate(kinds):
        if inner == "input guard" and "retrieval" in kinds[:at]:
            continue  # it guards what was retrieved
        for before, outer in enumerate(kinds[:at]):
            why = _WRONG.get((outer, inner)) if isinstance(outer, str) and isinstance(inner, str) else None
            if why is not None:
                first, then = (type(interceptors[one]).__name__ for one in (before, at))
                yield DefinitionProblem(where, f"{first} stands before {then}, so {why}; put {then} first")


def awaited_while_blocking(
    where: str,
    plans: Mapping[str, MethodPlan],
    interceptors: Iterable[Interceptor],
    listeners: Iterable[Listener],
) -> Iterator[DefinitionProblem]:
    """What has to be awaited, and is given to methods that block; interceptors name it in ``awaits``."""
    blocking = ", ".join(name for name, plan in plans.items() if not plan.returns.asynchronous)
    if not blocking:
        return
    names = [name for one in interceptors for name in getattr(one, "awaits", ())]
    names += [f"the listener {name_of(inside_of(one))}" for one in listeners if is_async(one)]
    for name in names:
        yield DefinitionProblem(
            where, f"{name} is async; only async methods can await it, and these block: {blocking}"
        )


def awaited_nowhere(where: str, functions: Mapping[str, Any]) -> Iterator[DefinitionProblem]:
    """What is async of functions, by their names, that all kinds of methods call without awaiting them."""
    for name, function in functions.items():
        if is_async(function):
            yield DefinitionProblem(
                where, f"{name} is an async function, and nothing awaits it; make it a plain one"
            )


S = TypeVar("S")
_ASKED_AGAIN = Retry()
_TOOL_LIMITS = ToolLimits()
_TOOL_ERRORS = ToolErrors()


@overload
def create(
    interface: type[S],
    model: ChatModel | str | None = ...,
    *,
    options: ChatOptions | None = ...,
    strategy: Strategy | str | None = ...,
    system_message: str | Callable[..., str] | None = ...,
    parsers: Sequence[ParserFactory] = ...,
    tools: Sequence[ToolSource] = ...,
    tool_limits: ToolLimits = ...,
    tool_errors: ToolErrors = ...,
    interceptors: Sequence[Interceptor] = ...,
    listeners: Sequence[Listener] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    localns: Mapping[str, Any] | None = ...,
) -> S: ...
@overload
def create(
    interface: Callable[..., S],
    model: ChatModel | str | None = ...,
    *,
    options: ChatOptions | None = ...,
    strategy: Strategy | str | None = ...,
    system_message: str | Callable[..., str] | None = ...,
    parsers: Sequence[ParserFactory] = ...,
    tools: Sequence[ToolSource] = ...,
    tool_limits: ToolLimits = ...,
    tool_errors: ToolErrors = ...,
    interceptors: Sequence[Interceptor] = ...,
    listeners: Sequence[Listener] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    localns: Mapping[str, Any] | None = ...,
) -> S: ...
@overload
def create(
    interface: TypeForm[S],
    model: ChatModel | str | None = ...,
    *,
    options: ChatOptions | None = ...,
    strategy: Strategy | str | None = ...,
    system_message: str | Callable[..., str] | None = ...,
    parsers: Sequence[ParserFactory] = ...,
    tools: Sequence[ToolSource] = ...,
    tool_limits: ToolLimits = ...,
    tool_errors: ToolErrors = ...,
    interceptors: Sequence[Interceptor] = ...,
    listeners: Sequence[Listener] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    localns: Mapping[str, Any] | None = ...,
) -> S: ...
def create(
    interface: Any,
    model: ChatModel | str | None = None,
    *,
    options: ChatOptions | None = None,
    strategy: Strategy | str | None = None,
    system_message: str | Callable[..., str] | None = None,
    parsers: Sequence[ParserFactory] = (),
    tools: Sequence[ToolSource] = (),
    tool_limits: ToolLimits = _TOOL_LIMITS,
    tool_errors: ToolErrors = _TOOL_ERRORS,
    interceptors: Sequence[Interceptor] = (),
    listeners: Sequence[Listener] = (),
    transform: RequestTransformer | None = None,
    budget: Budget | None = None,
    retry: Retry | None = _ASKED_AGAIN,
    localns: Mapping[str, Any] | None = None,
) -> Any:
    """A working object of ``interface``: a Protocol, an ABC or a class whose methods have no body.

    Methods with a body are kept as they are. Everything is checked here: a DefinitionError tells all
    problems of the interface at once, and nothing has been asked of a model by then.

    ``model`` is a ChatModel, or a string: ``"openai:NAME"``, ``"azure:DEPLOYMENT"``, ``"ollama:NAME"``,
    ``"local"``, ``"local:NAME"``, ``"local:PATH.gguf"``, or a name that an installed package adds. Without
    one, ``AISERVICES_MODEL`` says it, else the embedded model is taken when it is installed.

    ``options`` and ``strategy`` hold for methods that say nothing else; ``system_message`` likewise: a
    template, or a callable of arguments. ``parsers`` are asked before the parsers that are built in.
    ``tools`` are functions, or objects with methods that are ``@tool``, which the model may call before it
    answers, within ``tool_limits``; ``tool_errors`` says what it is told when one fails.
    ``interceptors`` wrap each call, the first one outermost, and an order that gives wrong results is a
    fault; ``listeners`` are told of each event of it; ``transform`` changes each request just before it goes
    out. ``budget`` is what each call may spend. ``retry`` asks again when an answer cannot be read; None
    never does. ``localns`` holds names for string annotations.
    """
    cls = get_origin(interface) or interface
    name = type_name(interface)
    tools = _listed("tools", tools, name)
    interceptors = _listed("interceptors", interceptors, name)
    listeners = _listed("listeners", listeners, name)
    around = enclosing_names(sys._getframe(1), *_functions(cls), *map(inside_of, tools))
    settings = Settings(
        model=model,
        options=options or ChatOptions(),
        strategy=strategy,
        system=_system_source(system_message),
        transform=transform,
        parsers=DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY,
        namespace={**around, **(localns or {})},
        tools=tools,
        tool_limits=tool_limits,
        tool_errors=tool_errors,
    )
    plans = plan_interface(interface, settings)
    budget = budget or Budget()
    models = dict.fromkeys(route.model.name for plan in plans.values() for route in plan.routes)
    problems = [
        *budget.problems(name, models),
        *out_of_order(name, interceptors),
        *awaited_while_blocking(name, plans, interceptors, listeners),
        *awaited_nowhere(name, {"transform": transform, "system_message": system_message}),
        *awaited_nowhere("ToolErrors", tool_errors._asdict()),
    ]
    if problems:
        raise DefinitionError(problems)
    pipeline = Pipeline(interceptors if retry is None else (*interceptors, retry), listeners)
    return _implement(cls, plans, pipeline, budget)()


def plan_of(method: object) -> MethodPlan:
    """The plan behind a method of a service. Raises TypeError when there is none."""
    return bound_of(method).plan


def _listed(setting: str, given: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(given, Iterable):
        raise DefinitionError(
            [DefinitionProblem(name, f"{setting} is a {type(given).__name__}; put it into a list")]
        )
    return tuple(given)


def _functions(cls: Any) -> list[FunctionType]:
    attributes = [attribute for _, _, attribute in methods_of(cls)] if isinstance(cls, type) else []
    return [attribute for attribute in attributes if isinstance(attribute, FunctionType)]


def _system_source(given: str | Callable[..., str] | None) -> SystemSource | None:
    return TemplateSource(given) if isinstance(given, str) else given


def _implement(cls: type, plans: Mapping[str, MethodPlan], pipeline: Pipeline, budget: Budget) -> type[Any]:
    def body(namespace: dict[str, Any]) -> None:
        namespace["__module__"] = cls.__module__
        namespace["__doc__"] = cls.__doc__
        if not has_own_init(cls):
            namespace["__init__"] = _no_arguments
        for name, plan in plans.items():
            namespace[name] = method_of(getattr(cls, name), plan, pipeline, budget)

    return new_class(cls.__name__, (cls,), exec_body=body)


def _no_arguments(self: object) -> None:
    """A service holds nothing but its plans."""
