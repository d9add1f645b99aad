"""The function ``create``, which implements an interface by calling a language model.

The engine and the parsers are imported when ``create`` is called, so that a program that only declares
interfaces, or prints its help, starts quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, cast, get_origin, overload

from .settings import ServiceSettings, check_keywords, check_types

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..models.base import ChatModel

S = TypeVar("S")


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
def create(
    interface: object, model: ChatModel | str | None = None, **settings: Unpack[ServiceSettings]
) -> Any:
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
            ``"local"``, ``"local:NAME"``, ``"local:PATH.gguf"``, ``"fake"`` for made-up answers, or a name
            that an installed package adds. The default is the environment variable ``AISERVICES_MODEL``, else
            the embedded model if it is installed.
        **settings: See ``ServiceSettings``.

    Raises:
        DefinitionError: With all problems of the interface and the settings.
    """
    try:
        return _create(interface, model, settings, sys._getframe(1))
    except Exception as error:
        from ..models.errors import AiServiceError, hide_library_frames

        if isinstance(error, AiServiceError):
            hide_library_frames(error)
        raise


def _create(
    interface: Any, model: ChatModel | str | None, settings: ServiceSettings, caller: FrameType
) -> Any:
    """Check an interface and its settings, and return an object that implements it."""
    check_keywords("create", settings, ServiceSettings.__annotations__)
    # Late, for a quick start: these modules import the engine and the parsers.
    from output_parsers.parser.type_parser import DEFAULT_REGISTRY
    from output_parsers.types.target import type_name

    from ..interface.decorators import TemplateSource, enclosing_names
    from ..interface.parameters import unwrapped
    from ..models.errors import DefinitionError
    from ..models.requests import ChatOptions
    from ..tools.tool import ToolErrors
    from ..tools.toolbox import ToolLimits
    from . import methods
    from .call_settings import CallSettings, call_groups, group_problems
    from .compile import compile_interface
    from .planner import Settings

    cls = get_origin(interface) or interface
    name = type_name(interface)
    check_types(name, settings)
    tools = tuple(settings.get("tools", ()))
    parsers = settings.get("parsers")
    declared_in = caller.f_globals.get("__file__")  # templates may include files of its folder
    templates = {
        setting: TemplateSource(text, declared_in=declared_in)
        for setting, text in settings.items()
        if setting in ("system_message", "user_message") and isinstance(text, str)
    }
    settings = cast("ServiceSettings", {**settings, **templates})
    system: Any = settings.get("system_message")
    tool_errors, transform = settings.get("tool_errors", ToolErrors()), settings.get("transform")
    # String annotations may name types that are local to the function that calls create.
    namespace = enclosing_names(caller, *_functions(cls), *map(unwrapped, tools))
    calibration, thresholds = settings.get("calibration"), settings.get("thresholds")
    plans = compile_interface(
        interface,
        Settings(
            model=model,
            options=settings.get("options") or ChatOptions(),
            strategy=settings.get("strategy"),
            leniency=settings.get("leniency"),
            system=system,
            user=cast("TemplateSource | None", settings.get("user_message")),
            transform=transform,
            parsers=DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY,
            namespace={**namespace, **(settings.get("localns") or {})},
            tools=tools,
            tool_limits=settings.get("tool_limits", ToolLimits()),
            tool_errors=tool_errors,
            tool_interceptors=tuple(settings.get("tool_interceptors", ())),
            votes=settings.get("votes") or 0,
            limits=settings.get("limits"),
            has_thresholds=calibration is not None or bool(thresholds),
        ),
    )
    if calibration is not None or thresholds:
        from ..engine.probabilities import Calibration
        from .decisions import with_adjustments

        if calibration is not None and not isinstance(calibration, Calibration):
            calibration = Calibration.read(calibration)
        plans = with_adjustments(plans, calibration, thresholds or {}, name)
    groups = call_groups(cls, name, plans, CallSettings.of(settings))
    problems = [
        *group_problems(groups),
        *methods.never_awaited_problems(name, {"transform": transform, "system_message": system}),
        *methods.never_awaited_problems("ToolErrors", tool_errors.formatters),
    ]
    if problems:
        raise DefinitionError(problems)
    users = {
        id(one): (
            one,
            [p for group in groups if one in group.path.pipeline.interceptors for p in group.plans.values()],
        )
        for group in groups
        for one in group.path.pipeline.interceptors
    }
    for interceptor, its_plans in users.values():
        methods.add_service_to_interceptors(
            cls.__name__,
            f"{cls.__module__}.{cls.__qualname__}",
            [interceptor],
            has_default_conversation=not all(plan.call.has_memory_id for plan in its_plans),
        )
    origin = _Origin(interface, model, settings, namespace)
    paths = {method: group.path for group in groups for method in group.plans}
    return methods.implement(cls, plans, paths, origin.reduce)()


class _Origin(NamedTuple):
    """The arguments of ``create`` for a service, from which another process can recreate the service.

    Attributes:
        interface: The interface.
        model: The model, or its name.
        settings: The keyword arguments.
        namespace: The local names of the caller in quoted type hints.
    """

    interface: Any
    model: Any
    settings: Mapping[str, Any]
    namespace: Mapping[str, Any]

    def reduce(self, service: object) -> tuple[Any, ...]:
        """Return the data from which pickle creates the service again, by a call of ``create``."""
        from ..interface.decorators import names_in_hints

        settings = dict(self.settings)
        names = names_in_hints(self.interface)
        is_main = getattr(self.interface, "__module__", "") == "__main__"
        local_names = {**names, **self.namespace, **(settings.get("localns") or {})}
        if local_names:
            settings["localns"] = local_names
        return (
            _create_after_pickling,
            (self.interface, self.model, settings, names if is_main else {}),
            service.__dict__ or None,
        )


def _create_after_pickling(
    interface: Any, model: Any, settings: dict[str, Any], names: dict[str, Any]
) -> Any:
    """Recreate a pickled service, in a process whose ``__main__`` may not define all its types."""
    vars(sys.modules["__main__"]).update(names)
    return create(interface, model, **settings)


def _functions(cls: object) -> list[FunctionType]:
    from ..interface.decorators import methods_of

    attributes = [attribute for _, _, attribute in methods_of(cls)] if isinstance(cls, type) else []
    return [attribute for attribute in attributes if isinstance(attribute, FunctionType)]
