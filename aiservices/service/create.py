"""The function ``create``, which implements an interface by calling a language model.

The engine and the parsers are imported when ``create`` is called, so that a program that only declares
interfaces, or prints its help, starts quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, get_origin, overload

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from output_parsers.parser.registry import ParserFactory
    from output_parsers.result.reading import Leniency

    from ..engine.budget import Budget
    from ..engine.pipeline import Interceptor, Listener
    from ..engine.plan import RequestHook
    from ..engine.retry import Retry
    from ..models.base import ChatModel
    from ..models.requests import ChatOptions
    from ..models.strategy import Strategy
    from ..tools.tool import ToolErrors, ToolSource
    from ..tools.toolbox import ToolLimits

S = TypeVar("S")


class ServiceSettings(TypedDict, total=False):
    """The keyword arguments of ``create``, which makes a service from an interface and a model.

    Attributes:
        options: Options of the requests, such as the temperature. Methods may override them with
            ``@options``.
        strategy: How structured output is requested; by default the most reliable strategy that the model
            supports.
        leniency: How far answers may deviate from the requested format; by default ``Leniency.SAFE``. Methods
            may override it with ``@options``.
        system_message: A template, or a function of arguments of the call. Methods with a system message of
            their own do not use it.
        parsers: Factories that make parsers for types before the built-in ones.
        tools: Functions, objects with ``@tool`` methods, or tool providers, which the model may call.
        tool_limits: The limits of tool use in one call.
        tool_errors: Functions that choose the text for the model when a tool call fails.
        interceptors: Run around each call, the first one outermost.
        listeners: Functions that receive each event of a call.
        transform: A function that changes each request just before it is sent.
        budget: The limits of each call; by default 3 attempts.
        retry: Asks the model again when an answer cannot be read; None raises the error at once.
        localns: Names for string annotations that are not found in the module of the interface.
    """

    options: ChatOptions | None
    strategy: Strategy | str | None
    leniency: Leniency | None
    system_message: str | Callable[..., str] | None
    parsers: Sequence[ParserFactory]
    tools: Sequence[ToolSource]
    tool_limits: ToolLimits
    tool_errors: ToolErrors
    interceptors: Sequence[Interceptor]
    listeners: Sequence[Listener]
    transform: RequestHook | None
    budget: Budget | None
    retry: Retry | None
    localns: Mapping[str, Any] | None


# The first overload is for classes, the second for protocols and abstract classes, which are not types of
# their instances for mypy, the third for all other type expressions.
@overload
def create(
    interface: type[S], model: ChatModel | str | None = ..., **settings: Unpack[ServiceSettings]
) -> S: ...
@overload
def create(
    interface: Callable[..., S], model: ChatModel | str | None = ..., **settings: Unpack[ServiceSettings]
) -> S: ...
@overload
def create(
    interface: TypeForm[S], model: ChatModel | str | None = ..., **settings: Unpack[ServiceSettings]
) -> S: ...
def create(interface: Any, model: ChatModel | str | None = None, **settings: Unpack[ServiceSettings]) -> Any:
    """Return an object that implements the methods of an interface by calling a language model.

    Methods with a body stay unchanged. The whole interface is checked before anything is sent::

        class Judge(Protocol):
            @user_message("Is this review positive? {{text}}")
            def is_positive(self, text: str) -> bool: ...

        judge = create(Judge, "openai:gpt-5-mini")
        judge.is_positive("Great!")  # True

    Args:
        interface: A Protocol, an ABC or a class whose methods have no body.
        model: A ChatModel, or a string: ``"openai:NAME"``, ``"azure:DEPLOYMENT"``, ``"ollama:NAME"``,
            ``"local"``, ``"local:NAME"``, ``"local:PATH.gguf"``, or a name that an installed package adds.
            The default is the environment variable ``AISERVICES_MODEL``, else the embedded model if it is
            installed.
        **settings: See ``ServiceSettings``.

    Raises:
        DefinitionError: With all problems of the interface and the settings.
    """
    unknown = [name for name in settings if name not in ServiceSettings.__annotations__]
    if unknown:
        accepted = ", ".join(ServiceSettings.__annotations__)
        raise TypeError(f"create() got an unexpected keyword argument {unknown[0]!r}; it takes: {accepted}")
    # Late, for a quick start: these modules import the engine and the parsers.
    from output_parsers.parser.registry import DEFAULT_REGISTRY
    from output_parsers.types.target import type_name

    from ..engine.budget import Budget
    from ..engine.pipeline import Pipeline
    from ..engine.retry import Retry, retry_problems
    from ..interface.decorators import TemplateSource
    from ..interface.parameters import unwrapped
    from ..interface.stubs import enclosing_names
    from ..models.errors import DefinitionError
    from ..models.requests import ChatOptions
    from ..tools.tool import ToolErrors
    from ..tools.toolbox import ToolLimits
    from . import methods
    from .compile import Settings, compile_interface

    cls = get_origin(interface) or interface
    name = type_name(interface)
    _check_types(name, settings)
    tools, interceptors = tuple(settings.get("tools", ())), tuple(settings.get("interceptors", ()))
    listeners, parsers = tuple(settings.get("listeners", ())), settings.get("parsers")
    system = settings.get("system_message")
    tool_errors, transform = settings.get("tool_errors", ToolErrors()), settings.get("transform")
    # String annotations may name types that are local to the function that calls create.
    namespace = enclosing_names(sys._getframe(1), *_functions(cls), *map(unwrapped, tools))
    plans = compile_interface(
        interface,
        Settings(
            model=model,
            options=settings.get("options") or ChatOptions(),
            strategy=settings.get("strategy"),
            leniency=settings.get("leniency"),
            system=TemplateSource(system) if isinstance(system, str) else system,
            transform=transform,
            parsers=DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY,
            namespace={**namespace, **(settings.get("localns") or {})},
            tools=tools,
            tool_limits=settings.get("tool_limits", ToolLimits()),
            tool_errors=tool_errors,
        ),
    )
    budget = settings.get("budget") or Budget()
    retry = settings.get("retry", Retry())
    if retry is not None:
        interceptors = (*interceptors, retry)  # innermost
    models = dict.fromkeys(route.model.name for plan in plans.values() for route in plan.call.routes)
    problems = [
        *budget.problems(name, models),
        *retry_problems(name, interceptors, budget),
        *methods.interceptor_order_problems(name, interceptors),
        *methods.async_in_blocking_problems(name, plans, interceptors, listeners),
        *methods.never_awaited_problems(name, {"transform": transform, "system_message": system}),
        *methods.never_awaited_problems("ToolErrors", tool_errors._asdict()),
    ]
    if problems:
        raise DefinitionError(problems)
    methods.add_service_to_interceptors(
        cls.__name__,
        f"{cls.__module__}.{cls.__qualname__}",
        interceptors,
        has_default_conversation=not all(plan.call.has_memory_id for plan in plans.values()),
    )
    return methods.implement(cls, plans, Pipeline(interceptors, listeners), budget)()


def _check_types(name: str, settings: Mapping[str, object]) -> None:
    """Raise DefinitionError if an argument for creating a service has a wrong type."""
    from ..engine.budget import Budget
    from ..engine.retry import Retry
    from ..models.errors import DefinitionError, DefinitionProblem
    from ..models.requests import ChatOptions
    from ..tools.tool import ToolErrors
    from ..tools.toolbox import ToolLimits

    classes: dict[str, type] = {
        "options": ChatOptions,
        "tool_limits": ToolLimits,
        "tool_errors": ToolErrors,
        "budget": Budget,
        "retry": Retry,
        "localns": Mapping,
    }
    messages = []
    for setting, value in settings.items():
        optional = setting not in ("tool_limits", "tool_errors", *_SEQUENCES)
        if value is None and optional:
            continue
        kind = type(value).__name__
        expected = classes.get(setting)
        if expected is not None and not isinstance(value, expected):
            messages.append(f"{setting} has the type {kind}; pass a {expected.__name__}")
        elif setting == "transform" and not callable(value):
            messages.append(f"{setting} has the type {kind}; pass a function")
        elif setting == "system_message" and not (isinstance(value, str) or callable(value)):
            messages.append(f"{setting} has the type {kind}; pass a template or a function")
        elif setting in _SEQUENCES and (isinstance(value, str) or not isinstance(value, Iterable)):
            messages.append(f"{setting} has the type {kind}; put it into a list")
        elif setting in _SEQUENCES and setting != "tools" and isinstance(value, Sequence):
            messages += [
                f"{setting} contains a value of the type {type(item).__name__}; pass functions"
                for item in value
                if not callable(item)
            ]
    if messages:
        raise DefinitionError([DefinitionProblem(name, message) for message in messages])


_SEQUENCES = ("tools", "interceptors", "listeners", "parsers")


def _functions(cls: object) -> list[FunctionType]:
    from ..interface.stubs import methods_of

    attributes = [attribute for _, _, attribute in methods_of(cls)] if isinstance(cls, type) else []
    return [attribute for attribute in attributes if isinstance(attribute, FunctionType)]
