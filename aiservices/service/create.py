"""The function ``create``, which implements an interface by calling a language model.

The engine and the parsers are imported when ``create`` is called, so that a program that only declares
interfaces, or prints its help, starts quickly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, cast, get_origin, overload

from .settings import ServiceSettings, check_keywords, check_types, shows_settings, type_problems

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..engine.interceptor import Interceptor
    from ..models.base import ChatModel
    from ..models.errors import DefinitionProblem
    from .call_settings import CallGroup
    from .compile import MethodPlan

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
@shows_settings(ServiceSettings)
def create(
    interface: object, model: ChatModel | str | None = None, **settings: Unpack[ServiceSettings]
) -> object:
    """Return an object that implements the methods of an interface by calling a language model.

    Methods with a body stay unchanged. The whole interface is checked before anything is sent::

        class Judge(Protocol):
            @user_message("Is this review positive? {{text}}")
            def is_positive(self, text: str) -> bool: ...

        judge = create(Judge, "openai:gpt-5-mini")
        judge.is_positive("Great!")  # True

    Args:
        interface: A Protocol, an ABC or a class whose methods have no body.
        model: A ChatModel, or a string such as ``"openai:NAME"``, ``"openai-responses:NAME"``,
            ``"azure:DEPLOYMENT"``, ``"anthropic:NAME"``, ``"google:NAME"``, ``"bedrock:NAME"``,
            ``"ollama:NAME"``, ``"local"``, ``"local:PATH.gguf"``, or ``"fake"`` for made-up answers.
            ``aiservices providers`` lists all, with those that installed packages add. The default is the
            environment variable ``AISERVICES_MODEL``, else the embedded model if it is installed.
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


class ServicePlan(NamedTuple):
    """The plans and the problems of an interface and its settings, as ``create`` finds them.

    Attributes:
        settings: The settings, with their templates.
        namespace: The local names that string annotations may use.
        methods: The plans of the methods without problems, by name.
        groups: The methods by their interceptors and limits.
        problems: All problems.
    """

    settings: ServiceSettings
    namespace: Mapping[str, object]
    methods: Mapping[str, MethodPlan]
    groups: Sequence[CallGroup]
    problems: Sequence[DefinitionProblem]


def _with_adjustments(
    plans: dict[str, MethodPlan], settings: ServiceSettings, name: str
) -> dict[str, MethodPlan]:
    """Add the calibration and the thresholds of the settings to the methods."""
    calibration, thresholds = settings.get("calibration"), settings.get("thresholds")
    if calibration is None and not thresholds:
        return plans
    from ..decisions.adjustments import with_adjustments
    from ..decisions.calibration import Calibration

    if calibration is not None and not isinstance(calibration, Calibration):
        calibration = Calibration.read(calibration)
    questions = {method: plan.question for method, plan in plans.items()}
    calls = with_adjustments(questions, calibration, thresholds or {}, name)
    return {method: plan._replace(call=calls[method]) for method, plan in plans.items()}


def plan_service(
    interface: Any, model: ChatModel | str | None, settings: ServiceSettings, caller: FrameType
) -> ServicePlan:
    """Check an interface and its settings, and plan its methods."""
    check_keywords("create", settings, ServiceSettings.__annotations__)
    # Late, for a quick start: these modules import the engine and the parsers.
    from output_parsers.types.target import type_name

    from ..interface.decorators import TemplateSource, declaration_of, enclosing_names
    from ..interface.parameters import unwrapped
    from ..tools.tool import ToolErrors
    from .call_settings import CallSettings, call_groups, group_problems
    from .compile import compile_interface
    from .methods import never_awaited_problems
    from .planner import Settings

    cls = get_origin(interface) or interface
    name = type_name(interface)
    check_types(name, settings)
    declared_in = caller.f_globals.get("__file__")  # templates may include files of its folder
    templates = {
        setting: TemplateSource(text, declared_in=declared_in)
        for setting, text in settings.items()
        if setting in ("system_message", "user_message") and isinstance(text, str)
    }
    settings = cast("ServiceSettings", {**settings, **templates})
    # String annotations may name types that are local to the function that calls create.
    namespace = enclosing_names(caller, *_functions(cls), *map(unwrapped, settings.get("tools", ())))
    problems: list[DefinitionProblem] = []
    names = {**namespace, **(settings.get("localns") or {})}
    plans = compile_interface(interface, Settings.of(settings, model, names), problems)
    if not plans or type_problems(name, declaration_of(cls).call_settings):
        return ServicePlan(settings, namespace, plans, (), problems)
    if not problems:
        plans = _with_adjustments(plans, settings, name)
    groups = call_groups(cls, name, plans, CallSettings.of(settings))
    problems += [
        *group_problems(groups),
        *never_awaited_problems(name, {"transform": settings.get("transform")}),
        *never_awaited_problems("ToolErrors", settings.get("tool_errors", ToolErrors()).formatters),
    ]
    return ServicePlan(settings, namespace, plans, groups, problems)


def _create(
    interface: Any, model: ChatModel | str | None, settings: ServiceSettings, caller: FrameType
) -> object:
    """Check an interface and its settings, and return an object that implements it."""
    service = plan_service(interface, model, settings, caller)
    from ..engine.interceptor import attributes_of
    from ..models.errors import DefinitionError
    from .methods import implement

    if service.problems:
        raise DefinitionError(service.problems)
    cls = get_origin(interface) or interface
    users: dict[int, tuple[Interceptor, list[MethodPlan]]] = {}
    for group in service.groups:
        for one in group.path.pipeline.interceptors:
            users.setdefault(id(one), (one, []))[1].extend(group.plans.values())
    for interceptor, plans in users.values():
        attributes_of(interceptor).add_service(
            cls.__name__,
            f"{cls.__module__}.{cls.__qualname__}",
            has_default_conversation=not all(plan.call.has_memory_id for plan in plans),
        )
    origin = _Origin(interface, model, service.settings, service.namespace)
    paths = {method: group.path for group in service.groups for method in group.plans}
    return implement(interface, service.methods, paths, origin.reduce)()


class _Origin(NamedTuple):
    """The arguments of ``create`` for a service, from which another process can recreate the service.

    Attributes:
        interface: The interface.
        model: The model, or its name.
        settings: The keyword arguments.
        namespace: The local names of the caller in quoted type hints.
    """

    interface: object
    model: object
    settings: Mapping[str, Any]
    namespace: Mapping[str, object]

    def reduce(self, service: object) -> tuple[object, ...]:
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
    interface: type[object], model: ChatModel | str | None, settings: dict[str, Any], names: dict[str, object]
) -> object:
    """Recreate a pickled service, in a process whose ``__main__`` may not define all its types."""
    vars(sys.modules["__main__"]).update(names)
    return create(interface, model, **settings)


def _functions(cls: object) -> list[FunctionType]:
    from ..interface.decorators import methods_of

    attributes = [attribute for _, _, attribute in methods_of(cls)] if isinstance(cls, type) else []
    return [attribute for attribute in attributes if isinstance(attribute, FunctionType)]
