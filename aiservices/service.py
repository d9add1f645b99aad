"""Makes a working object of a declared interface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, new_class
from typing import Any, TypeVar, get_origin, overload

from typing_extensions import TypeForm

from output_parsers.registry import DEFAULT_REGISTRY, ParserFactory
from output_parsers.target import type_name

from .budget import Budget
from .declare import SystemSource, TemplateSource
from .errors import DefinitionError, Fault
from .fitting import awaited_nowhere, awaited_while_blocking, out_of_order
from .listening import Listener
from .methods import bound_of, method_of
from .models.base import ChatModel
from .pipeline import Interceptor, Pipeline
from .plan import MethodPlan, RequestTransformer
from .planning import Settings, plan_interface
from .requests import ChatOptions
from .retry import Retry
from .scopes import names_around
from .strategy import Strategy
from .stubs import has_own_init, methods_of
from .tool_parameters import inside_of
from .tool_run import ToolErrors
from .toolbox import ToolLimits
from .tools import ToolSource

__all__ = ["create", "plan_of"]

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
    faults of the interface at once, and nothing has been asked of a model by then.

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
    around = names_around(sys._getframe(1), *_functions(cls), *map(inside_of, tools))
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
    faults = [
        *budget.faults(name, models),
        *out_of_order(name, interceptors),
        *awaited_while_blocking(name, plans, interceptors, listeners),
        *awaited_nowhere(name, {"transform": transform, "system_message": system_message}),
        *awaited_nowhere("ToolErrors", tool_errors._asdict()),
    ]
    if faults:
        raise DefinitionError(faults)
    pipeline = Pipeline(interceptors if retry is None else (*interceptors, retry), listeners)
    return _implement(cls, plans, pipeline, budget)()


def plan_of(method: object) -> MethodPlan:
    """The plan behind a method of a service. Raises TypeError when there is none."""
    return bound_of(method).plan


def _listed(setting: str, given: Any, name: str) -> tuple[Any, ...]:
    if not isinstance(given, Iterable):
        raise DefinitionError([Fault(name, f"{setting} is a {type(given).__name__}; put it into a list")])
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
