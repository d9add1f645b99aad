"""Turns an interface into plans, and gathers everything that is wrong with it on the way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from output_parsers.errors import UnsupportedTypeError
from output_parsers.hints import fillings_of, substitute
from output_parsers.registry import ParserRegistry
from output_parsers.target import type_name

from .declare import Declaration, SystemSource, declaration_of
from .errors import DefinitionError, Fault
from .messages import AiMessage, ChatOptions, ChatReply
from .models.base import ChatModel, find_model
from .parameters import Parameter, RoleFault, parameters_of
from .plan import MethodPlan
from .returns import Returns, Shape, ShapeFault, shape_of
from .strategies import StrategyFault, Wire, wire_for, wire_of_reply
from .strategy import Strategy
from .stubs import is_stub, methods_of
from .wording import Wording, word

__all__ = ["Settings", "plan_interface", "plan_method"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """What was given to ``create`` for all methods of a service."""

    model: ChatModel | str | None
    options: ChatOptions = field(default_factory=ChatOptions)
    strategy: Strategy | None = None
    system: SystemSource | None = None
    parsers: ParserRegistry = field(default_factory=ParserRegistry)
    namespace: Mapping[str, Any] = field(default_factory=dict)


def plan_interface(interface: Any, settings: Settings) -> dict[str, MethodPlan]:
    """The plans of all stubs of an interface, by name. Raises DefinitionError with all faults at once."""
    cls = get_origin(interface) or interface
    name = type_name(interface)
    if not isinstance(cls, type):
        raise DefinitionError([Fault(name, "it is no class; create takes a Protocol, an ABC or a class")])
    faults: list[Fault] = settings.options.faults(name)
    if TypeVar in map(type, get_args(interface)) or (cls is interface and _is_open(cls)):
        variables = ", ".join(str(p).lstrip("~") for p in getattr(cls, "__parameters__", ()))
        faults.append(Fault(name, f"it is generic; say what {variables} stands for, as in {name}[str]"))
        raise DefinitionError(faults)
    models = _Models(faults, name)
    service_model = models.find(settings.model, name)
    plans: dict[str, MethodPlan] = {}
    fillings = fillings_of(interface)
    found = 0
    for method, owner, attribute in methods_of(cls):
        where = f"{cls.__name__}.{method}"
        if not _is_method(attribute, where, faults):
            continue
        found += 1
        model = models.find(declaration_of(attribute).model, where) or service_model
        try:
            plans[method] = plan_method(cls, attribute, where, settings, fillings.get(owner, {}), model)
        except DefinitionError as error:
            faults.extend(error.faults)
    if not found and not faults:
        faults.append(Fault(name, "it has no method to implement: each has a body of its own"))
    if faults:
        raise DefinitionError(faults)
    return plans


def plan_method(
    cls: type,
    function: Callable[..., Any],
    where: str,
    settings: Settings,
    filling: Mapping[Any, Any],
    model: ChatModel | None,
) -> MethodPlan:
    """The plan of one stub. Raises DefinitionError with all of its faults."""
    faults: list[Fault] = []
    declared = declaration_of(function)
    interface = declaration_of(cls)
    namespace = {**settings.namespace, **declared.namespace}
    hints = _hints(function, namespace, filling, where, faults)
    signature = inspect.signature(function)
    chosen = (declared.options or ChatOptions()).over(interface.options).over(settings.options)
    if chosen != settings.options:
        faults.extend(chosen.faults(where))
    wording: Wording | None = None
    parameters: tuple[Parameter, ...] = ()
    try:
        parameters = parameters_of(signature, hints or {})
    except RoleFault as error:
        faults.append(Fault(where, str(error)))
    else:
        system = declared.system or interface.system or settings.system
        wording = word(function, declared.user, system, parameters, where, faults)
    returns = _returns(function, hints, where, faults)
    wire = None
    if returns is not None and model is not None:
        general = interface.strategy or settings.strategy
        strategies = (declared.strategy, general)
        wire = _wire(returns, settings.parsers, namespace, model, strategies, where, faults)
    if faults or wording is None or returns is None or wire is None or model is None:
        raise DefinitionError(faults)
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    return MethodPlan(
        where=where,
        signature=own,
        parameters=parameters,
        returns=returns,
        user=wording.user,
        message_argument=wording.message_argument,
        it=wording.it,
        system=wording.system,
        wire=wire,
        options=chosen,
        model=model,
    )


@dataclass(slots=True)
class _Models:
    """Finds models by name, each once, and notes those that are unknown."""

    faults: list[Fault]
    service: str
    known: dict[str, ChatModel] = field(default_factory=dict)

    def find(self, model: ChatModel | str | None, where: str) -> ChatModel | None:
        if model is None and where != self.service:
            return None
        if isinstance(model, str) and model in self.known:
            return self.known[model]
        try:
            found = find_model(model)
        except LookupError as error:
            self.faults.append(Fault(where, str(error.args[0])))
            return None
        if isinstance(model, str):
            self.known[model] = found
        return found


def _is_open(cls: type) -> bool:
    return bool(getattr(cls, "__parameters__", ())) and cls not in (Protocol, Generic)


def _is_method(attribute: Any, where: str, faults: list[Fault]) -> bool:
    """Whether an attribute is to be implemented. Notes what can be neither kept nor implemented."""
    declared = declaration_of(attribute) != Declaration() if callable(attribute) else False
    if is_stub(attribute):
        return True
    if declared:
        faults.append(Fault(where, "it has a prompt and a body; a method with a prompt has the body ..."))
    elif getattr(attribute, "__isabstractmethod__", False):
        faults.append(Fault(where, "it is abstract and no plain method; only methods can be implemented"))
    return False


def _hints(
    function: Callable[..., Any],
    namespace: Mapping[str, Any],
    filling: Mapping[Any, Any],
    where: str,
    faults: list[Fault],
) -> dict[str, Any] | None:
    try:
        hints = get_type_hints(function, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        faults.append(
            Fault(where, f"an annotation cannot be resolved: {error}; define the name, or pass it in localns")
        )
        return None
    return {name: substitute(hint, filling) for name, hint in hints.items()}


def _returns(
    function: Callable[..., Any], hints: dict[str, Any] | None, where: str, faults: list[Fault]
) -> Returns | None:
    if hints is None:
        return None
    if "return" not in hints:
        faults.append(Fault(where, "it has no return annotation; annotate the type of the answer"))
        return None
    try:
        return shape_of(hints["return"], asynchronous=inspect.iscoroutinefunction(function))
    except ShapeFault as error:
        faults.append(Fault(where, str(error)))
        return None


_REPLIES: dict[Any, Callable[[ChatReply], Any]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}


def _wire(
    returns: Returns,
    parsers: ParserRegistry,
    namespace: Mapping[str, Any],
    model: ChatModel,
    strategies: tuple[Strategy | None, Strategy | None],
    where: str,
    faults: list[Fault],
) -> Wire[Any] | None:
    if returns.shape is not Shape.TEXT_STREAM and returns.form in _REPLIES:
        return wire_of_reply(_REPLIES[returns.form])
    try:
        parser = parsers.parser_for(returns.form, namespace=namespace)
        own, general = strategies
        # what holds for a whole service holds for its methods that need structure
        asked = own or (None if parser.schema is None else general)
        return wire_for(parser, model.capabilities, asked, model.name)
    except (UnsupportedTypeError, StrategyFault) as error:
        faults.append(Fault(where, str(error)))
        return None
