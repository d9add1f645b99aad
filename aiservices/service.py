"""Makes a working object of a declared interface."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import wraps
from types import FunctionType, new_class
from typing import Any, TypeVar, get_origin, overload

from typing_extensions import TypeForm

from output_parsers.registry import DEFAULT_REGISTRY, ParserFactory

from .budget import Budget
from .declare import SystemSource, TemplateSource, names_around
from .flow import Flow, arun, astream, run, stream
from .messages import ReplyDelta
from .models.base import ChatModel
from .pipeline import Answer, Interceptor, Pipeline
from .plan import MethodPlan, RequestTransformer, Turn
from .planning import Settings, plan_interface
from .requests import ChatOptions
from .returns import Result, Shape
from .strategy import Strategy
from .stubs import has_own_init, methods_of

__all__ = ["create", "plan_of"]

S = TypeVar("S")
_PLAN = "__aiservices_plan__"


@overload
def create(
    interface: type[S],
    model: ChatModel | str | None = ...,
    *,
    options: ChatOptions | None = ...,
    strategy: Strategy | str | None = ...,
    system_message: str | Callable[..., str] | None = ...,
    parsers: Sequence[ParserFactory] = ...,
    interceptors: Sequence[Interceptor] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
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
    interceptors: Sequence[Interceptor] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
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
    interceptors: Sequence[Interceptor] = ...,
    transform: RequestTransformer | None = ...,
    budget: Budget | None = ...,
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
    interceptors: Sequence[Interceptor] = (),
    transform: RequestTransformer | None = None,
    budget: Budget | None = None,
    localns: Mapping[str, Any] | None = None,
) -> Any:
    """A working object of ``interface``: a Protocol, an ABC or a class whose methods have no body.

    Methods with a body are kept as they are. Everything is checked here: a DefinitionError tells all
    faults of the interface at once, and nothing has been asked of a model by then.

    ``model`` is a ChatModel, or a string: ``"openai:NAME"``, ``"azure:DEPLOYMENT"``, ``"ollama:NAME"``,
    ``"local"``, ``"local:NAME"``, ``"local:PATH.gguf"``, or a name that an installed package adds. Without
    one, ``AISERVICES_MODEL`` says it, else the embedded model is taken when it is installed.

    ``options`` and ``strategy`` hold for methods that say nothing else; ``system_message`` likewise: a
    template, or a callable of arguments. ``parsers`` are asked before the parsers that are built in.
    ``interceptors`` wrap each call, the first one outermost; ``transform`` changes each request just before
    it goes out. ``budget`` is what each call may spend. ``localns`` holds names for string annotations.
    """
    cls = get_origin(interface) or interface
    around = names_around(sys._getframe(1), *_functions(cls))
    settings = Settings(
        model=model,
        options=options or ChatOptions(),
        strategy=strategy,
        system=_system_source(system_message),
        transform=transform,
        parsers=DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY,
        namespace={**around, **(localns or {})},
    )
    plans = plan_interface(interface, settings)
    pipeline = Pipeline(interceptors)
    return _implement(cls, plans, pipeline, budget or Budget())()


def plan_of(method: object) -> MethodPlan:
    """The plan behind a method of a service. Raises TypeError when there is none."""
    plan = getattr(method, _PLAN, None)
    if not isinstance(plan, MethodPlan):
        raise TypeError(f"{method!r} is no method of a service that create made")
    return plan


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
            namespace[name] = _method(getattr(cls, name), plan, pipeline, budget)

    return new_class(cls.__name__, (cls,), exec_body=body)


def _no_arguments(self: object) -> None:
    """A service holds nothing but its plans."""


def _method(stub: FunctionType, plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> Any:
    """The function that stands in for a stub: what a call does, for each shape of return."""
    turn, flow, finish = plan.turn, pipeline.flow, _finish(plan)

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = turn(args, kwargs, budget)
        return finish(run(flow(begun)), begun)

    async def acall(self: object, /, *args: Any, **kwargs: Any) -> Any:
        begun = turn(args, kwargs, budget)
        return finish(await arun(flow(begun)), begun)

    def call_stream(self: object, /, *args: Any, **kwargs: Any) -> Iterator[str]:
        begun = turn(args, kwargs, budget)
        return _texts(flow(begun), begun)

    def acall_stream(self: object, /, *args: Any, **kwargs: Any) -> AsyncIterator[str]:
        begun = turn(args, kwargs, budget)
        return _atexts(flow(begun), begun)

    if plan.returns.shape is Shape.TEXT_STREAM:
        made: Any = acall_stream if plan.returns.asynchronous else call_stream
    else:
        made = acall if plan.returns.asynchronous else call
    method: Any = wraps(stub)(made)
    method.__isabstractmethod__ = False
    setattr(method, _PLAN, plan)
    return method


def _finish(plan: MethodPlan) -> Callable[[Answer, Turn], Any]:
    if plan.returns.shape is not Shape.RESULT:
        return lambda answer, turn: answer.value
    strategy = plan.wire.strategy

    def result(answer: Answer, turn: Turn) -> Result[Any]:
        context = turn.context
        return Result(
            answer.value, answer.reply, strategy, answer.coercions, tuple(context.attempts), context.seconds
        )

    return result


def _texts(flow: Flow[Answer], turn: Turn) -> Iterator[str]:
    with closing(stream(flow)) as events:
        for event in events:
            if isinstance(event, ReplyDelta) and event.text:
                turn.context.text_shown = True
                yield event.text


async def _atexts(flow: Flow[Answer], turn: Turn) -> AsyncIterator[str]:
    async with aclosing(astream(flow)) as events:
        async for event in events:
            if isinstance(event, ReplyDelta) and event.text:
                turn.context.text_shown = True
                yield event.text
