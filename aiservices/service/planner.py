"""Plan a call of a model: the models to ask, the ways to ask for a type of answer, and the tools.

``create``, ``structured`` and agents all plan their calls with ``plan_call``, which finds all problems.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, is_typeddict

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, ParserRegistry, TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, UnsupportedTypeError
from output_parsers.result.reading import Leniency
from output_parsers.types.decisions import DecisionNode
from output_parsers.types.node import OutputParser, walk
from output_parsers.types.target import Target, type_name

from ..engine.model_route import ModelRoute, StrategyFallbacks, only_format
from ..engine.output_format import OutputFormat, image_format, reply_format, text_format
from ..engine.plan import CallPlan, Invocation, RequestHook, Transform
from ..engine.results import Result
from ..engine.strategy_selection import StrategyError, select_strategies
from ..engine.streams import AsyncStream, Stream
from ..engine.tool_execution import awaited_parts
from ..interface.decorators import SystemSource, TemplateSource
from ..interface.parameters import Role, media_problem, takes_invocation
from ..models.base import Capabilities, ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.fallback import CircuitBreaker, members_of, rests_of
from ..models.media import Image
from ..models.messages import AiMessage, ChatReply
from ..models.registry import find_model
from ..models.requests import ChatOptions, ChatRequest
from ..tools.tool import ReturnBehavior, Tool, ToolErrors, ToolSource
from ..tools.toolbox import Toolbox, ToolLimits, plan_toolbox, tool_choice_problems
from .signatures import MethodSignature, ReturnShape, ReturnType

if TYPE_CHECKING:
    from ..models.limits import Limits

# Return types for which nothing is parsed: the method returns the reply, or a part of it.
_REPLY_TYPES: dict[Any, Callable[[ChatReply], Any]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}


class Settings(NamedTuple):
    """The settings of a service, a structured model or an agent from which its calls are planned.

    ``has_thresholds`` is True if answers have thresholds, below which FallbackChatModel asks the next model.
    """

    model: ChatModel | str | None = None
    options: ChatOptions = ChatOptions()
    strategy: Strategy | str | None = None
    leniency: Leniency | None = None
    system_message: SystemSource | None = None
    user_message: TemplateSource | None = None
    transform: RequestHook | Callable[[ChatRequest, Invocation], ChatRequest] | None = None
    parsers: ParserRegistry = DEFAULT_REGISTRY
    namespace: Mapping[str, Any] = {}
    tools: tuple[ToolSource, ...] = ()
    tool_limits: ToolLimits = ToolLimits()
    tool_errors: ToolErrors = ToolErrors()
    tool_interceptors: tuple[Any, ...] = ()
    votes: int = 0
    limits: Limits | None = None
    has_thresholds: bool = False

    @classmethod
    def of(
        cls, settings: Mapping[str, Any], model: ChatModel | str | None, namespace: Mapping[str, Any] = {}
    ) -> Settings:
        """Return the settings from keyword arguments of ``create`` or ``structured``."""
        given: dict[str, Any] = {name: settings.get(name) for name in cls._fields}
        given |= {name: tuple(given[name] or ()) for name in ("tools", "tool_interceptors")}
        given |= {"model": model, "namespace": namespace, "parsers": None}
        if settings.get("parsers"):
            given["parsers"] = DEFAULT_REGISTRY.with_factories(*settings["parsers"])
        given["has_thresholds"] = settings.get("calibration") is not None or bool(settings.get("thresholds"))
        return cls(**{name: value for name, value in given.items() if value is not None})

    def with_tool_settings(self, declared: Mapping[str, Any]) -> Settings:
        """Return a copy with the tool settings that ``@options`` sets for an interface or a method."""
        changes = {name: declared[name] for name in ("tool_limits", "tool_errors") if name in declared}
        if "tool_interceptors" in declared:  # they are inside of the others
            changes["tool_interceptors"] = (*self.tool_interceptors, *declared["tool_interceptors"])
        return self._replace(**changes) if changes else self


def find_chat_model(
    model: ChatModel | str | None, settings: Settings, location: str, problems: list[DefinitionProblem]
) -> ChatModel | None:
    """Return the model of a call, with the limits of the settings; None, and a problem, if it is wrong."""
    try:
        chat_model = find_model(model, location)
    except DefinitionError as error:
        problems.extend(error.problems)
        return None
    if getattr(chat_model, "unsure", None) == "threshold" and not settings.has_thresholds:
        message = 'FallbackChatModel(unsure="threshold") needs create(calibration=…) or create(thresholds=…)'
        problems.append(DefinitionProblem(location, message))
    if settings.limits is None:
        return chat_model
    from ..models.limits import LimitedChatModel  # few services have limits

    return LimitedChatModel(chat_model, settings.limits)


def find_strategy(
    strategy: Strategy | str | None,
    location: str,
    problems: list[DefinitionProblem],
    aliases: Mapping[str, Strategy] = {},
) -> Strategy | None:
    """Return the strategy of a name; ``aliases`` are more names than those of the strategies."""
    try:
        return None if strategy is None else aliases.get(strategy) or Strategy(strategy)
    except (ValueError, TypeError):  # TypeError: the value has no hash
        names = ", ".join([*Strategy, *aliases])
        message = f"the strategy {strategy!r} is unknown; use one of: {names}"
        problems.append(DefinitionProblem(location, message))
        return None


class PlannedCall(NamedTuple):
    """The plan of a call, and the parser of its answers.

    Attributes:
        plan: The plan; None if there is no model to ask.
        parser: The parser for the type of the answer; None for the reply itself, or a wrong type.
    """

    plan: CallPlan | None
    parser: OutputParser[Any] | None


def plan_call(
    qualname: str,
    signature: MethodSignature,
    model: ChatModel | None,
    settings: Settings,
    problems: list[DefinitionProblem],
    *,
    parser: OutputParser[Any] | None = None,
    strategy: Strategy | None = None,
    task: str = "",
    is_agent: bool = False,
) -> PlannedCall:
    """Plan a call of a model, and add all problems of its definition to ``problems``.

    Args:
        qualname: The name of the method in messages.
        signature: The parameters, and the type and shape of the answer.
        model: The model; None if it is not known, which is a problem already.
        settings: The settings of the service and the method.
        problems: The problems found so far.
        parser: Reads the answers instead of the parser for the type.
        strategy: The strategy for this type. That of the settings is only for structured types.
        task: The question of the prompt without the data, for decision endpoints.
        is_agent: True to ask for a structured answer by a tool first. Its tools are not compared with the
            type of the answer, because each reply may have another one.
    """
    returns = signature.returns
    if returns is None:
        return PlannedCall(None, None)
    if parser is None:
        parser = _find_parser(returns, settings, qualname, problems)
    elif media_problem(parser) is not None:
        message = f"it returns {type_name(returns.output_type)}; {media_problem(parser)}"
        problems.append(DefinitionProblem(qualname, message))
    parser = _with_leniency(parser, settings.leniency, qualname, problems)
    has_decisions, unsure = _has_decisions(parser), getattr(model, "unsure", None)
    shows_partial_value = returns.shape is ReturnShape.STREAM  # it shows its value before the votes
    votes = settings.votes if has_decisions and not shows_partial_value else 0
    takes_tools = signature.has_role(Role.TOOLS)
    planner = _RoutePlanner(
        qualname=qualname,
        returns=returns,
        members=() if model is None else members_of(model),
        rests={} if model is None else rests_of(model),
        strategy=strategy,
        default_strategy=Strategy(settings.strategy) if settings.strategy else None,
        offers_tools=bool(settings.tools) or takes_tools,
        prefers_tool=is_agent,
        requires_probabilities=has_decisions,
        wants_probabilities=has_decisions or unsure is not None,
        votes=votes,
        task=task,
    )
    routes = planner.routes(parser, problems)
    toolbox = plan_toolbox(
        settings.tools,
        settings.tool_limits,
        list(signature.signature.parameters),
        signature.role_names,
        [route.model for route in routes],
        is_async=returns.is_async,
        qualname=qualname,
        problems=problems,
        namespace=settings.namespace,
        takes_tools=takes_tools,
    )
    if toolbox is not None:
        problems += answer_tool_problems(toolbox, routes, returns, qualname, is_agent=is_agent)
        if not returns.is_async:
            problems += [
                DefinitionProblem(qualname, f"{name} is async; only async methods can await it")
                for name in awaited_parts((), settings.tool_interceptors)
            ]
    if toolbox is not None or not settings.tools:  # otherwise the tools have problems of their own
        problems += tool_choice_problems(settings.options, toolbox, qualname)
    if not routes:
        return PlannedCall(None, parser)
    transform: Any = settings.transform
    plan = CallPlan(
        qualname=qualname,
        output_type=returns.output_type,
        is_async=returns.is_async,
        routes=routes,
        options=settings.options,
        toolbox=toolbox,
        tool_errors=settings.tool_errors,
        tool_interceptors=settings.tool_interceptors,
        transform=Transform(transform) if takes_invocation(transform) else transform,
        role_names=signature.role_names,
        requires_probabilities=planner.requires_probabilities,
        wants_probabilities=planner.wants_probabilities,
        votes=votes,
        unsure=unsure,
    )
    return PlannedCall(plan, parser)


# --- The parser of the answers ---


class _NoValueParser:
    """Accepts any text and returns None, for methods that return None and only run tools."""

    schema = None

    def format_instructions(self) -> str:
        return ""

    def parse(self, text: str) -> None:
        pass


class _ImageParser(NamedTuple):
    """Marks methods that return images, which are taken from the reply without parsing text.

    Attributes:
        several: True for a list of images.
        problem: What is wrong if no model of the method makes images.
    """

    several: bool
    problem: str
    schema: None = None

    def format_instructions(self) -> str:
        return ""

    def parse(self, text: str) -> None:
        raise OutputParsingError(text, [Problem("$", "expected an image")])


def _is_reply_type(output_type: object) -> bool:
    return isinstance(output_type, type) and output_type in _REPLY_TYPES


def _find_parser(
    returns: ReturnType, settings: Settings, qualname: str, problems: list[DefinitionProblem]
) -> OutputParser[Any] | None:
    """Return the parser that converts model replies to the type of the answer.

    Returns None if the answer is the reply itself, and adds a problem if no parser supports the type, or if a
    model cannot write its values.
    """
    output_type: Any = returns.output_type
    if _is_reply_type(output_type):
        return None
    if returns.output_type in (None, NoneType):
        return _NoValueParser()
    try:
        parser = settings.parsers.parser_for(output_type, namespace=settings.namespace)
        problem = media_problem(parser)
        if problem is not None and output_type in (Image, list[Image]) and not returns.is_stream:
            return _ImageParser(output_type is not Image, problem)
        if problem is not None:
            problems.append(DefinitionProblem(qualname, f"it returns {type_name(output_type)}; {problem}"))
            return None
        if returns.shape is not ReturnShape.ITEMS:
            return parser
        from output_parsers.streaming import ItemPolicy  # few methods return items
        from output_parsers.streaming.reader import ItemListParser

        item_parser = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
        return ItemListParser(item_parser, ItemPolicy.KEEP if returns.keeps_errors else ItemPolicy.RAISE)
    except UnsupportedTypeError as error:
        problems.append(DefinitionProblem(qualname, str(error)))
        return None


def readable_parser(parser: OutputParser[Any] | None) -> OutputParser[Any] | None:
    """Return the parser of answers that are read from text, for examples; None for images and replies."""
    return None if isinstance(parser, _ImageParser) else parser


def _has_decisions(parser: OutputParser[object] | None) -> bool:
    return isinstance(parser, TypeParser) and any(isinstance(one, DecisionNode) for one in walk(parser.node))


def _with_leniency(
    parser: OutputParser[object] | None,
    leniency: Leniency | None,
    qualname: str,
    problems: list[DefinitionProblem],
) -> OutputParser[Any] | None:
    """Return a copy of the parser with another tolerance for mistakes, or the parser itself for None."""
    if leniency is not None and not isinstance(leniency, Leniency):
        message = f"leniency is {leniency!r}; use one of: {', '.join(map(str, Leniency))}"
        problems.append(DefinitionProblem(qualname, message))
    elif leniency is not None and isinstance(parser, TypeParser):  # other parsers have rules of their own
        return parser.with_leniency(leniency)
    return parser


# --- The models, and the ways to ask them ---


class _RoutePlanner(NamedTuple):
    """Finds the models that can answer for a type, each with the ways to ask it.

    Attributes:
        qualname: The name of the method in messages.
        returns: The type and shape of the answer.
        members: The models in the order in which they are asked.
        rests: Their circuit breakers.
        strategy: The only strategy that may be used for the type.
        default_strategy: The only strategy that may be used if the type is structured.
        offers_tools: True if the model may also call tools of the user.
        prefers_tool: True to ask for a structured answer by a tool first.
        requires_probabilities: True if the type contains a Decision.
        wants_probabilities: True if the probabilities of all answers are requested.
        votes: How many samples replace missing probabilities; 0 for none.
        task: The question of the prompt without the data.
    """

    qualname: str
    returns: ReturnType
    members: tuple[ChatModel, ...]
    rests: Mapping[int, CircuitBreaker]
    strategy: Strategy | None
    default_strategy: Strategy | None
    offers_tools: bool
    prefers_tool: bool
    requires_probabilities: bool
    wants_probabilities: bool
    votes: int
    task: str

    def routes(
        self, parser: OutputParser[Any] | None, problems: list[DefinitionProblem]
    ) -> tuple[ModelRoute, ...]:
        """Return the models to ask, each with its strategies, the best one first."""
        if parser is None:
            if not _is_reply_type(self.returns.output_type):  # no parser reads the type
                return ()
            read = _REPLY_TYPES[self.returns.output_type]
            return self._only(self.members, lambda: reply_format(read))
        if isinstance(parser, _NoValueParser) and self.strategy is None:
            writers = [member for member in self.members if member.capabilities.decisions is None]
            if writers:
                reason = "it returns None: the text of the reply is discarded"
                return self._only(writers, lambda: text_format(parser, reason))
        if isinstance(parser, _ImageParser):
            painters = [member for member in self.members if member.capabilities.image_output]
            if self.members and not painters:
                name, advice = type_name(self.returns.output_type), "or a model that makes images"
                message = f"it returns {name}; {parser.problem}, {advice}"
                problems.append(DefinitionProblem(self.qualname, message))
            return self._only(painters, lambda: image_format(several=parser.several))
        if self.requires_probabilities and self.returns.shape is ReturnShape.ITEMS:
            message = "a Decision cannot be an item of a stream; return a list or a Stream"
            problems.append(DefinitionProblem(self.qualname, message))
            return ()
        return self._value_routes(parser, problems)

    def _only(
        self, models: Iterable[ChatModel], make_format: Callable[[], OutputFormat]
    ) -> tuple[ModelRoute, ...]:
        return tuple(ModelRoute(model, only_format(make_format()), self.rests) for model in models)

    def _value_routes(
        self, parser: OutputParser[Any], problems: list[DefinitionProblem]
    ) -> tuple[ModelRoute, ...]:
        """Return the models that can answer with a value.

        A decision endpoint that cannot answer for the type is left out if there are other models.
        """
        routes: list[ModelRoute] = []
        left_out: list[str] = []
        is_fatal = False
        for member in self.members:
            try:
                routes.append(ModelRoute(member, self._strategies(parser, member), self.rests))
            except (StrategyError, UnsupportedTypeError) as error:
                left_out.append(str(error))
                is_fatal = is_fatal or member.capabilities.decisions is None
        if is_fatal or not routes:
            problems += [DefinitionProblem(self.qualname, message) for message in left_out]
            return ()
        for route in routes:
            notes = tuple(f"{message}; it is not asked for this method" for message in left_out)
            route.strategies.notes = notes
            route.strategies.prepare()
        return tuple(routes)

    def _strategies(self, parser: OutputParser[Any], model: ChatModel) -> StrategyFallbacks:
        logprobs = model.capabilities.logprobs
        return select_strategies(
            parser,
            _usable_capabilities(model, offers_tools=self.offers_tools),
            # The strategy of a service is for its methods with a structured type; plain text needs none.
            self.strategy or (None if parser.schema is None else self.default_strategy),
            model.name,
            partial_values=self.returns.shape in (ReturnShape.ITEMS, ReturnShape.STREAM),
            offers_tools=self.offers_tools,
            # The arguments of tools have no probabilities.
            prefers_tool=self.prefers_tool and not (self.wants_probabilities and logprobs),
            requires_probabilities=self.requires_probabilities and (not self.votes or logprobs > 0),
            task=self.task,
        )


def _usable_capabilities(model: ChatModel, *, offers_tools: bool) -> Capabilities:
    """Return a model's features, without JSON output if the model cannot combine it with tools."""
    capabilities = model.capabilities
    if offers_tools and not capabilities.schema_with_tools:
        return replace(capabilities, json_schema=False, json_mode=False)
    return capabilities


# --- Tools whose result is the answer ---


def answer_tool_problems(
    toolbox: Toolbox,
    routes: Iterable[ModelRoute],
    returns: ReturnType,
    qualname: str,
    *,
    is_agent: bool = False,
) -> list[DefinitionProblem]:
    """Return an error for each tool that conflicts with the way in which the model answers."""
    is_list = returns.shape is ReturnShape.ITEMS
    answer_type = list[returns.output_type] if is_list else returns.output_type  # type: ignore[name-defined]
    problems = _tool_name_problems(toolbox, routes, qualname)
    if not is_agent and answer_type not in (None, NoneType):  # then the results of tools are discarded, too
        problems += _immediate_tool_problems(toolbox, answer_type, qualname)
    return problems


def _tool_name_problems(
    toolbox: Toolbox, routes: Iterable[ModelRoute], qualname: str
) -> list[DefinitionProblem]:
    """Return an error for each tool that has the same name as the internal tool for the final answer."""
    output_tool_names = {name for route in routes for name in route.strategies.output_tool_names()}
    message = "has the name of the tool that gives the answer; rename it"
    return [
        DefinitionProblem(qualname, f"the tool {tool.name} {message}")
        for tool in toolbox.declared
        if tool.name in output_tool_names
    ]


def _immediate_tool_problems(
    toolbox: Toolbox, answer_type: object, qualname: str
) -> Iterator[DefinitionProblem]:
    """Yield an error for each tool whose result cannot be the answer of the method.

    Tools without a return annotation are checked only when they have run.
    """
    for tool in toolbox.declared:
        if tool.return_behavior is ReturnBehavior.TO_LLM or tool.return_type is inspect.Signature.empty:
            continue
        result_type = _result_type(tool)
        if not _may_be(result_type, answer_type):
            yield DefinitionProblem(
                qualname,
                f"the tool {tool.name} gives the answer, but its result is of type {type_name(result_type)} "
                f"and the method returns {type_name(answer_type)}; make them equal, or choose the tools of "
                "the method with @options(tools=…)",
            )


def _result_type(tool: Tool) -> Any:
    """Return the type of a tool's result; for a tool that yields ints it is ``list[int]``."""
    try:
        target = Target.of(tool.return_type)
    except UnsupportedTypeError:
        return Any
    first: Any = target.args[0] if target.args else Any
    if target.origin in (Result, Stream, AsyncStream, Awaitable):
        return first
    if target.origin is Coroutine:
        return target.args[-1] if target.args else Any
    if isinstance(target.origin, type) and issubclass(target.origin, (Iterator, AsyncIterable)):
        return str if tool.yields_text else list[first]
    return tool.return_type


def _may_be(result_type: object, answer_type: object) -> bool:
    """Return False only if no value of one type can be an instance of another type."""
    try:
        result, answer = Target.of(result_type), Target.of(answer_type)
    except UnsupportedTypeError:
        return True
    if result.origin is Union:
        return any(_may_be(member, answer_type) for member in result.args)
    if answer.origin is Union:
        return any(_may_be(result_type, member) for member in answer.args)
    result_class, answer_class = _class_of(result), _class_of(answer)
    if result_class is None or answer_class is None:
        return True
    try:
        if not (issubclass(result_class, answer_class) or issubclass(answer_class, result_class)):
            return False
    except TypeError:  # some protocols do not support it
        return True
    if result_class is not answer_class or len(result.args) != len(answer.args):
        return True
    pairs = zip(result.args, answer.args, strict=True)
    return all(first is second or _may_be(first, second) for first, second in pairs)


def _class_of(target: Target) -> type | None:
    """Return the class of a type hint, such as ``list`` for ``list[int]``; None for hints such as Any."""
    if target.type is None:
        return NoneType
    if is_typeddict(target.origin):
        return dict
    if target.origin in (Any, Literal, object):  # in Python 3.11 Any is a class
        return None
    return target.origin if isinstance(target.origin, type) else None
