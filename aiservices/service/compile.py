"""Turns an interface into plans, and gathers everything that is wrong with it on the way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from output_parsers.parser.registry import ParserRegistry
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.types.node import OutputParser
from output_parsers.types.target import type_arguments_by_class, substitute, type_name

from ..engine.model_route import ModelRoute
from ..engine.output_format import wire_of_reply
from ..engine.plan import Example, MethodPlan, RequestTransformer
from ..engine.results import Returns, Shape, ShapeFault, shape_of
from ..engine.strategy_selection import StrategyFault, ladder_for, ladder_of_one
from ..engine.tool_execution import ToolErrors
from ..interface.decorators import Declaration, SystemSource, declaration_of
from ..interface.parameters import Parameter, RoleFault, parameters_of
from ..interface.stubs import attributes_without_value, has_own_init, is_stub, methods_of
from ..models.base import ChatModel, find_model, members_of
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import AiMessage, ChatReply
from ..models.requests import ChatOptions
from ..models.strategy import Strategy
from ..tools.tool import ToolSource
from ..tools.toolbox import Toolbox, ToolLimits, plan_toolbox
from .prompt_binding import PromptBinding, plan_examples, word

_REPLIES: dict[Any, Callable[[ChatReply], Any]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}


def routes_of(
    returns: Returns,
    parser: OutputParser[Any] | None,
    model: ChatModel | None,
    strategies: tuple[Strategy | None, Strategy | None],
    where: str,
    problems: list[DefinitionProblem],
) -> tuple[ModelRoute, ...]:
    """The models that may be asked, each with the ways to ask it for the type."""
    members = () if model is None else members_of(model)
    if parser is None:
        read = _REPLIES.get(returns.form)
        return (
            () if read is None else tuple(ModelRoute(m, ladder_of_one(wire_of_reply(read))) for m in members)
        )
    own, general = strategies
    # what holds for a whole service holds for its methods that need structure
    asked = own or (None if parser.schema is None else general)
    growing = returns.shape in (Shape.ITEMS, Shape.STREAM)
    try:
        ladders = [ladder_for(parser, m.capabilities, asked, m.name, growing=growing) for m in members]
        for ladder in ladders:
            ladder.prepare()
    except (StrategyFault, UnsupportedTypeError) as error:
        problems.append(DefinitionProblem(where, str(error)))
        return ()
    return tuple(map(ModelRoute, members, ladders))


def parser_of(
    returns: Returns,
    parsers: ParserRegistry,
    namespace: Mapping[str, Any],
    where: str,
    problems: list[DefinitionProblem],
) -> OutputParser[Any] | None:
    """The parser of what the model is to write; None where it is the reply itself, or nothing reads it."""
    if isinstance(returns.form, type) and returns.form in _REPLIES:
        return None
    try:
        parser = parsers.parser_for(returns.form, namespace=namespace)
        if returns.shape is not Shape.ITEMS:
            return parser
        from output_parsers.streaming import ItemPolicy  # few methods hand over items
        from output_parsers.streaming.items import ItemListParser

        item = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
        return ItemListParser(item, ItemPolicy.KEEP if returns.keeps_errors else ItemPolicy.RAISE)
    except UnsupportedTypeError as error:
        problems.append(DefinitionProblem(where, str(error)))
        return None


class Settings(NamedTuple):
    """What was given to ``create`` for all methods of a service."""

    model: ChatModel | str | None
    options: ChatOptions
    strategy: Strategy | str | None
    system: SystemSource | None
    transform: RequestTransformer | None
    parsers: ParserRegistry
    namespace: Mapping[str, Any]
    tools: tuple[ToolSource, ...]
    tool_limits: ToolLimits
    tool_errors: ToolErrors


def plan_interface(interface: Any, settings: Settings) -> dict[str, MethodPlan]:
    """The plans of all stubs of an interface, by name. Raises DefinitionError with all problems at once."""
    cls = get_origin(interface) or interface
    name = type_name(interface)
    if not isinstance(cls, type) or cls is UnionType:
        raise DefinitionError(
            [DefinitionProblem(name, "it is no class; create takes a Protocol, an ABC or a class")]
        )
    problems: list[DefinitionProblem] = []
    settings = _with_interface(settings, cls, name, problems)
    variables = getattr(cls, "__parameters__", ())
    if TypeVar in map(type, get_args(interface)) or (cls is interface and variables):
        named = ", ".join(variable.__name__ for variable in variables)
        example = f"{cls.__name__}[{', '.join('str' for _ in variables)}]"
        problems.append(DefinitionProblem(name, f"it is generic; say what {named} stands for, as in {example}"))
        raise DefinitionError(problems)
    models = _Models(settings.model, name, problems)
    plans: dict[str, MethodPlan] = {}
    fillings = type_arguments_by_class(interface)
    found = 0
    for method, owner, attribute in methods_of(cls):
        where = f"{cls.__name__}.{method}"
        if not _is_method(attribute, where, problems):
            continue
        found += 1
        model = models.find(declaration_of(attribute).model, where)
        try:
            plans[method] = plan_method(attribute, where, settings, fillings.get(owner, {}), model)
        except DefinitionError as error:
            problems.extend(error.problems)
    problems.extend(_construction(cls, name))
    if not found and not problems:
        problems.append(DefinitionProblem(name, "it has no method to implement: each has a body of its own"))
    if problems:
        raise DefinitionError(problems)
    return plans


def _construction(cls: type, name: str) -> list[DefinitionProblem]:
    """What stands against making an object of a class: create gives it no arguments and no attributes."""
    said = "it is an attribute without a value, which a service cannot have; give it a value or leave it out"
    problems = [
        DefinitionProblem(f"{cls.__name__}.{attribute}", said) for attribute in attributes_without_value(cls)
    ]
    if has_own_init(cls):
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        flexible = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [p.name for p in parameters if p.default is p.empty and p.kind not in flexible]
        if needed:
            named = ", ".join(needed)
            problems.append(
                DefinitionProblem(name, f"its __init__ needs {named}, and create calls it without arguments")
            )
    return problems


def _with_interface(settings: Settings, cls: type, name: str, problems: list[DefinitionProblem]) -> Settings:
    """The settings of ``create`` with what the interface itself says over them."""
    said = declaration_of(cls)
    options = (said.options or ChatOptions()).with_defaults(settings.options)
    problems.extend(options.problems(name))
    if said.examples:
        problems.append(DefinitionProblem(name, "an example belongs to a method, and stands on the interface"))
    return settings._replace(
        model=settings.model if said.model is None else said.model,
        options=options,
        strategy=_strategy(said.strategy or settings.strategy, name, problems),
        system=said.system or settings.system,
        tools=settings.tools if said.tools is None else said.tools,
    )


def plan_method(
    function: Callable[..., Any],
    where: str,
    settings: Settings,
    filling: Mapping[Any, Any],
    model: ChatModel | None,
) -> MethodPlan:
    """The plan of one stub. Raises DefinitionError with all of its problems."""
    problems: list[DefinitionProblem] = []
    declared = declaration_of(function)
    namespace = {**settings.namespace, **declared.namespace}
    hints = _hints(function, namespace, filling, where, problems)
    signature = inspect.signature(function)
    own_options = declared.options or ChatOptions()
    problems.extend(own_options.problems(where))
    wording: PromptBinding | None = None
    parameters: tuple[Parameter, ...] = ()
    try:
        parameters = parameters_of(signature, hints or {})
    except (RoleFault, UnsupportedTypeError) as error:
        problems.extend(DefinitionProblem(where, problem) for problem in error.args)
    else:
        if hints is not None:  # without them no role is known
            wording = word(declared.user, declared.system or settings.system, parameters, where, problems)
    returns = _returns(function, hints, where, problems)
    general = Strategy(settings.strategy) if settings.strategy else None
    strategies = (_strategy(declared.strategy, where, problems), general)
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    routes: tuple[ModelRoute, ...] = ()
    examples: tuple[Example, ...] = ()
    if returns is not None:
        parser = parser_of(returns, settings.parsers, namespace, where, problems)
        routes = routes_of(returns, parser, model, strategies, where, problems)
        if wording is not None and declared.examples and not problems:
            examples = plan_examples(declared.examples, own, parameters, wording, parser, where, problems)
    toolbox = None
    if returns is not None:
        toolbox = plan_toolbox(
            settings.tools if declared.tools is None else declared.tools,
            settings.tool_limits,
            list(own.parameters),
            [route.model for route in routes],
            asynchronous=returns.asynchronous,
            where=where,
            problems=problems,
            namespace=namespace,
        )
        if toolbox is not None:
            problems += _taken(toolbox, routes, where)
    if problems or wording is None or returns is None or not routes:
        raise DefinitionError(problems)
    return MethodPlan(
        where=where,
        signature=own,
        parameters=parameters,
        returns=returns,
        user=wording.user,
        message_argument=wording.message_argument,
        it=wording.it,
        system=wording.system,
        routes=routes,
        options=own_options.with_defaults(settings.options),
        transform=settings.transform,
        examples=examples,
        toolbox=toolbox,
        tool_errors=settings.tool_errors,
    )


def _taken(toolbox: Toolbox, routes: Iterable[ModelRoute], where: str) -> list[DefinitionProblem]:
    """The tools with a name that the tool which gives the answer has, on a rung that may come to be asked."""
    asked = [route.ladder.wire(rung) for route in routes for rung in route.ladder.rungs]
    names = {wire.tooling.choice for wire in asked if wire.tooling is not None}
    said = "has the name of the tool that gives the answer; give it another"
    return [DefinitionProblem(where, f"the tool {name} {said}") for name in toolbox.tools if name in names]


@dataclass(slots=True)
class _Models:
    """Finds each model once, when a method needs it, and notes those that are unknown."""

    general: ChatModel | str | None
    service: str
    problems: list[DefinitionProblem]
    known: dict[Any, ChatModel | None] = field(default_factory=dict)

    def find(self, own: ChatModel | str | None, where: str) -> ChatModel | None:
        """The model of a method; ``own`` is what it says itself."""
        model, place = (self.general, self.service) if own is None else (own, where)
        key = model if isinstance(model, str) else id(model)
        if key not in self.known:
            try:
                self.known[key] = find_model(model, place)
            except DefinitionError as error:
                self.problems.extend(error.problems)
                self.known[key] = None
        return self.known[key]


def _strategy(said: Strategy | str | None, where: str, problems: list[DefinitionProblem]) -> Strategy | None:
    try:
        return None if said is None else Strategy(said)
    except ValueError:
        problems.append(
            DefinitionProblem(where, f"the strategy {said!r} is unknown; there are: {', '.join(Strategy)}")
        )
        return None


def _is_method(attribute: Any, where: str, problems: list[DefinitionProblem]) -> bool:
    """Whether an attribute is to be implemented. Notes what can be neither kept nor implemented."""
    if is_stub(attribute):
        return True
    inside = getattr(attribute, "fget", None) or getattr(attribute, "__func__", None)
    if declaration_of(attribute) != Declaration():
        problems.append(
            DefinitionProblem(where, "it has a prompt and a body; a method with a prompt has the body ...")
        )
    elif is_stub(inside):
        kind = type(attribute).__name__
        problems.append(
            DefinitionProblem(where, f"it is a {kind} without a body; only plain methods can be implemented")
        )
    elif getattr(attribute, "__isabstractmethod__", False):
        problems.append(DefinitionProblem(where, "it is abstract and has a body; keep one of them"))
    return False


def _hints(
    function: Callable[..., Any],
    namespace: Mapping[str, Any],
    filling: Mapping[Any, Any],
    where: str,
    problems: list[DefinitionProblem],
) -> dict[str, Any] | None:
    try:
        hints = get_type_hints(function, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        problems.append(
            DefinitionProblem(
                where, f"an annotation cannot be resolved: {error}; define the name, or pass it in localns"
            )
        )
        return None
    return {name: substitute(hint, filling) for name, hint in hints.items()}


def _returns(
    function: Callable[..., Any], hints: dict[str, Any] | None, where: str, problems: list[DefinitionProblem]
) -> Returns | None:
    if hints is None:
        return None
    if "return" not in hints:
        problems.append(
            DefinitionProblem(where, "it has no return annotation; annotate the type of the answer")
        )
        return None
    try:
        return shape_of(hints["return"], asynchronous=inspect.iscoroutinefunction(function))
    except ShapeFault as error:
        problems.append(DefinitionProblem(where, str(error)))
        return None
