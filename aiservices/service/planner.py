"""Plan a call of a model: the models to ask, the strategies for the type of the answer, and the tools.

``create``, ``structured`` and agents all plan their calls with ``plan_call``, which finds all problems.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, is_typeddict

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, ParserRegistry, TypeParser
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.result.reading import Leniency
from output_parsers.types.cited import CitedText
from output_parsers.types.decisions import DecisionNode
from output_parsers.types.node import OutputParser, walk
from output_parsers.types.target import Target, type_name

from ..decisions.requests import request_with_probabilities
from ..engine.model_route import ModelRoute, StrategyFallbacks, only_format
from ..engine.output_format import OutputFormat, image_format, reply_format, text_format
from ..engine.plan import CallPlan, DecisionPlan, Invocation, RequestHook, Transform
from ..engine.results import Result
from ..engine.strategy_selection import StrategyError, select_strategies
from ..engine.streams import AsyncStream, Stream
from ..engine.tool_execution import awaited_parts
from ..interface.decorators import Declaration, SystemSource, TemplateSource
from ..interface.parameters import Role, media_problem, takes_invocation
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.fallback import CircuitBreaker, members_of, rests_of
from ..models.media import Image
from ..models.media_policy import MediaPolicy
from ..models.messages import AiMessage, ChatReply
from ..models.registry import find_model
from ..models.requests import ChatOptions, ChatRequest
from ..tools.tool import ReturnBehavior, Tool, ToolErrors, ToolSource
from ..tools.toolbox import Toolbox, ToolLimits, plan_toolbox, tool_choice_problems
from .settings import type_problems
from .signatures import MethodSignature, ReturnShape, ReturnType

if TYPE_CHECKING:
    from output_parsers.types.evidence import Check, Cite

    from ..documents.merging import By, Rule
    from ..documents.splitting import Split
    from ..models.limits import Limits


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
    namespace: Mapping[str, object] = {}
    tools: tuple[ToolSource, ...] = ()
    tool_limits: ToolLimits = ToolLimits()
    tool_errors: ToolErrors = ToolErrors()
    tool_interceptors: tuple[object, ...] = ()
    votes: int = 0
    check: Check = "value"
    cite: Cite = "quotes"
    split: Split | None = None
    merge: Mapping[str, Rule | By] = {}
    limits: Limits | None = None
    media: MediaPolicy | None = None
    has_thresholds: bool = False
    strict_keywords: bool = False

    @classmethod
    def of(
        cls,
        settings: Mapping[str, Any],
        model: ChatModel | str | None,
        namespace: Mapping[str, object] = {},
    ) -> Settings:
        """Return the settings from keyword arguments of ``create`` or ``structured``."""
        fields: dict[str, Any] = {name: settings.get(name) for name in cls._fields}
        fields |= {name: tuple(fields[name] or ()) for name in ("tools", "tool_interceptors")}
        fields |= {"model": model, "namespace": namespace, "parsers": None}
        factories, style = tuple(settings.get("parsers") or ()), settings.get("number_style")
        if factories or style:
            fields["parsers"] = ParserRegistry(factories, style)
        fields["has_thresholds"] = settings.get("calibration") is not None or bool(settings.get("thresholds"))
        return cls(**{name: value for name, value in fields.items() if value is not None})

    def with_declaration(
        self, declared: Declaration, location: str, problems: list[DefinitionProblem]
    ) -> Settings:
        """Return the settings, changed by the decorators of an interface or a method."""
        options, call_settings = declared.options or ChatOptions(), declared.call_settings
        wrong_types = type_problems(location, call_settings)
        problems += [*options.problems(location), *wrong_types]
        changes: dict[str, Any] = {
            "model": declared.model,
            "leniency": declared.leniency,
            "system_message": declared.system,
            "tools": declared.tools,
        }
        if not wrong_types:
            names = ("tool_limits", "tool_errors", "check", "cite", "split", "merge")
            changes |= {name: call_settings.get(name) for name in names}
            # a method's interceptors are inside those of its service
            added = call_settings.get("tool_interceptors", ())
            changes["tool_interceptors"] = (*self.tool_interceptors, *added)
        changed = {name: value for name, value in changes.items() if value is not None}
        return self._replace(options=options.with_defaults(self.options), **changed)


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
    """Return the strategy of a name; ``aliases`` are additional names."""
    try:
        return None if strategy is None else aliases.get(strategy) or Strategy(strategy)
    except (ValueError, TypeError):  # TypeError: the value has no hash
        names = ", ".join([*Strategy, *aliases])
        message = f"the strategy {strategy!r} is unknown; use one of: {names}"
        problems.append(DefinitionProblem(location, message))
        return None


@dataclass(frozen=True)
class CallDefinition:
    """The data from which a call of a model is planned.

    Attributes:
        qualname: The name of the method in messages.
        signature: The parameters, and the type and shape of the answer.
        model: The model; None if it is not known, which is a problem already.
        settings: The settings of the service and the method.
        strategy: The only strategy for this type. The strategy of the settings is only for structured types.
        make_parser: Returns the parser for the type of the answer; None to use the settings' parser.
        task: The question of the prompt without the data, for decision endpoints.
        is_agent: True to ask for a structured answer by a tool first. The results of tools are not compared
            with the type of the answer, because each reply of an agent may have another one.
        parser: Reads the answers. ``plan_call`` finds it.
    """

    qualname: str
    signature: MethodSignature
    model: ChatModel | None
    settings: Settings
    strategy: Strategy | None = None
    make_parser: Callable[[object], OutputParser[object]] | None = None
    task: str = ""
    is_agent: bool = False
    parser: OutputParser[object] | None = None

    @property
    def returns(self) -> ReturnType:
        """The type and shape of the answer."""
        assert self.signature.returns is not None, "it is checked before a call is planned"
        return self.signature.returns

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The models, in the order in which they are tried."""
        return () if self.model is None else members_of(self.model)

    @property
    def rests(self) -> Mapping[int, CircuitBreaker]:
        """The circuit breakers of the models, by the ``id`` of the model."""
        return {} if self.model is None else rests_of(self.model)

    @property
    def offers_tools(self) -> bool:
        """True if the model may call tools of the user."""
        return bool(self.settings.tools) or self.signature.has_role(Role.TOOLS)

    @cached_property
    def has_decisions(self) -> bool:
        """True if the type contains a Decision, which needs probabilities."""
        parser = self.parser
        return isinstance(parser, TypeParser) and any(isinstance(n, DecisionNode) for n in walk(parser.node))

    @property
    def votes(self) -> int:
        """The number of samples that replace missing probabilities; 0 for none."""
        if not self.has_decisions or self.returns.shape is ReturnShape.STREAM:
            return 0  # a stream shows its value before the votes are counted
        return self.settings.votes

    @property
    def unsure(self) -> float | Literal["threshold"] | None:
        """Ask the next model if the probability is lower."""
        return getattr(self.model, "unsure", None)

    def with_shape(self, shape: ReturnShape) -> CallDefinition:
        """Return the definition of a call that returns the type in another shape."""
        returns = self.returns._replace(shape=shape)
        return replace(self, signature=self.signature._replace(returns=returns))

    def problem(self, message: str) -> DefinitionProblem:
        """Return a problem of this call."""
        return DefinitionProblem(self.qualname, message)


def plan_call(
    call: CallDefinition, problems: list[DefinitionProblem]
) -> tuple[CallPlan | None, OutputParser[object] | None]:
    """Plan a call of a model, and add all problems of its definition to ``problems``.

    Returns the plan, which is None if there is no model to ask, and the parser of the answers, which is None
    for answers that are not parsed.
    """
    if call.signature.returns is None:
        return None, None
    call = replace(call, parser=_find_parser(call, problems))
    routes, settings = _make_routes(call, problems), call.settings
    toolbox = _make_toolbox(call, routes, problems)
    parser = None if isinstance(call.parser, _ReplyParser) else call.parser
    if not routes:
        return None, parser
    transform: Any = settings.transform
    has_decisions = call.has_decisions
    plan = CallPlan(
        qualname=call.qualname,
        output_type=call.returns.output_type,
        is_async=call.returns.is_async,
        routes=routes,
        options=settings.options,
        toolbox=toolbox,
        tool_errors=settings.tool_errors,
        tool_interceptors=settings.tool_interceptors,
        transform=Transform(transform) if takes_invocation(transform) else transform,
        role_names=call.signature.role_names,
        decisions=DecisionPlan(
            is_required=has_decisions,
            is_wanted=has_decisions or call.unsure is not None,
            votes=call.votes,
            unsure=call.unsure,
            interceptor=request_with_probabilities,
        ),
        check=settings.check if isinstance(parser, TypeParser) and parser.has_citations else None,
        media=settings.media,
        cites_lines=settings.cite == "lines",
    )
    return plan, parser


# --- The parser of the answers ---

# Return types for which nothing is parsed: the method returns the reply, or a part of it.
_REPLY_TYPES: dict[object, Callable[[ChatReply], object]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}


class _NoValueParser:
    """Accepts any text and returns None, for methods that return None and only run tools."""

    schema = None

    def format_instructions(self) -> str:
        return ""

    def parse(self, text: str) -> None:
        pass


class _ReplyParser(_NoValueParser):
    """The parser for types whose values are taken from the reply without parsing its text, such as images.

    Attributes:
        output_format: The format of the requests.
        problem: What is wrong if no model makes images; "" for values that all models give.
    """

    def __init__(self, output_format: OutputFormat, problem: str = "") -> None:
        self.output_format = output_format
        self.problem = problem


def _searches(options: ChatOptions) -> bool:
    """Return True if the provider runs tools, such as a search, and sends citations."""
    return bool(options.server_tools) or "web_search_options" in (options.extra_body or {})


def _find_parser(call: CallDefinition, problems: list[DefinitionProblem]) -> OutputParser[object] | None:
    """Return the parser that converts model replies to the type of the answer.

    Returns None, and adds a problem, if no parser supports the type, or if a model cannot write its values.
    """
    output_type: object = call.returns.output_type
    if call.make_parser is None and isinstance(output_type, type) and output_type in _REPLY_TYPES:
        return _ReplyParser(reply_format(_REPLY_TYPES[output_type]))
    if call.make_parser is None and output_type is CitedText and _searches(call.settings.options):
        from ..engine.citations import cited_text_of  # few methods cite

        return _ReplyParser(reply_format(cited_text_of))
    if output_type in (None, NoneType):
        return _NoValueParser()
    try:
        parser = (call.make_parser or partial(_parser_of, call.settings))(output_type)
    except (UnsupportedTypeError, ValueError) as error:
        problems.append(call.problem(str(error)))
        return None
    media = media_problem(parser)
    if media is not None:
        problem = f"it returns {type_name(output_type)}; {media}"
        if output_type in (Image, list[Image]) and not call.returns.is_stream and call.make_parser is None:
            image = image_format(several=output_type is not Image)
            return _ReplyParser(image, f"{problem}, or a model that makes images")
        problems.append(call.problem(problem))
        return None
    return _adapted(parser, call, problems)


def _adapted(
    parser: OutputParser[object], call: CallDefinition, problems: list[DefinitionProblem]
) -> OutputParser[object]:
    """Return the parser for the items of a stream, if it is one, and with the leniency of the settings."""
    if call.returns.shape is ReturnShape.ITEMS:
        from output_parsers.streaming import ItemPolicy  # few methods return items
        from output_parsers.streaming.reader import ItemListParser

        items = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
        policy = ItemPolicy.KEEP if call.returns.keeps_errors else ItemPolicy.RAISE
        parser = ItemListParser(items, policy)
    leniency = call.settings.leniency
    if leniency is not None and not isinstance(leniency, Leniency):
        message = f"leniency is {leniency!r}; use one of: {', '.join(map(str, Leniency))}"
        problems.append(call.problem(message))
    elif leniency is not None and isinstance(parser, TypeParser):  # other parsers have rules of their own
        return parser.with_leniency(leniency)
    return parser


def _parser_of(settings: Settings, output_type: Any) -> OutputParser[object]:
    """Return the parser for a type, or for a JSON Schema or a function or tool that contains one.

    Raises UnsupportedTypeError, and ValueError for other dicts.
    """
    if not isinstance(output_type, Mapping):
        parsers = settings.parsers.citing_lines() if settings.cite == "lines" else settings.parsers
        return parsers.parser_for(output_type, namespace=settings.namespace)
    from output_parsers.json_schema.parser import named_schema, schema_parser

    name, description, schema, _ = named_schema(output_type, strict_keywords=settings.strict_keywords)
    described = {} if description is None else {"description": description}
    return schema_parser({**schema, **described}, name=name)


# --- The models and their strategies ---


def _make_routes(call: CallDefinition, problems: list[DefinitionProblem]) -> tuple[ModelRoute, ...]:
    """Return the models to ask, each with its strategies, the best one first."""
    parser, members = call.parser, call.members
    if isinstance(parser, _ReplyParser):
        able = [one for one in members if not parser.problem or one.capabilities.image_output]
        if members and not able:
            problems.append(call.problem(parser.problem))
        return _only(call, able, parser.output_format)
    if isinstance(parser, _NoValueParser) and call.strategy is None:
        writers = [member for member in members if member.capabilities.decisions is None]
        if writers:
            reason = "it returns None: the text of the reply is discarded"
            return _only(call, writers, text_format(parser, reason))
    if call.has_decisions and call.returns.shape is ReturnShape.ITEMS:
        message = "a Decision cannot be an item of a stream; return a list or a Stream"
        problems.append(call.problem(message))
        return ()
    return () if parser is None else _value_routes(call, parser, members, problems)


def _only(call: CallDefinition, models: Iterable[ChatModel], one: OutputFormat) -> tuple[ModelRoute, ...]:
    """Return the models with the only format of their requests."""
    return tuple(ModelRoute(model, only_format(one), call.rests) for model in models)


def _value_routes(
    call: CallDefinition,
    parser: OutputParser[object],
    members: Iterable[ChatModel],
    problems: list[DefinitionProblem],
) -> tuple[ModelRoute, ...]:
    """Return the models that can answer with a value.

    A decision endpoint that cannot answer for the type is left out if there are other models.
    """
    routes: list[ModelRoute] = []
    left_out: list[str] = []
    is_fatal = False
    for member in members:
        try:
            routes.append(ModelRoute(member, _strategies(call, parser, member), call.rests))
        except (StrategyError, UnsupportedTypeError) as error:
            left_out.append(str(error))
            is_fatal = is_fatal or member.capabilities.decisions is None
    if is_fatal or not routes:
        problems += map(call.problem, left_out)
        return ()
    for route in routes:
        route.strategies.notes = tuple(f"{message}; it is not used for this method" for message in left_out)
        route.strategies.prepare()
    return tuple(routes)


def _strategies(call: CallDefinition, parser: OutputParser[object], model: ChatModel) -> StrategyFallbacks:
    """Return the strategies for requesting a value from a model, the best one first."""
    capabilities = model.capabilities
    if call.offers_tools and not capabilities.schema_with_tools:
        capabilities = replace(capabilities, json_schema=False, json_mode=False)
    # The strategy of a service is for its methods with a structured type; plain text needs none.
    default = None if parser.schema is None else call.settings.strategy
    # The arguments of tools have no probabilities.
    by_text = capabilities.logprobs > 0 and (call.has_decisions or call.unsure is not None)
    return select_strategies(
        parser,
        capabilities,
        call.strategy or (Strategy(default) if default else None),
        model.name,
        partial_values=call.returns.shape in (ReturnShape.ITEMS, ReturnShape.STREAM),
        offers_tools=call.offers_tools,
        prefers_tool=call.is_agent and not by_text,
        requires_probabilities=call.has_decisions and (not call.votes or capabilities.logprobs > 0),
        task=call.task,
    )


# --- Tools ---


def _make_toolbox(
    call: CallDefinition, routes: Iterable[ModelRoute], problems: list[DefinitionProblem]
) -> Toolbox | None:
    """Return the tools of a call; None without tools, or if they cannot be used."""
    settings, is_async = call.settings, call.returns.is_async
    toolbox = plan_toolbox(
        settings.tools,
        settings.tool_limits,
        list(call.signature.signature.parameters),
        call.signature.role_names,
        [route.model for route in routes],
        is_async=is_async,
        qualname=call.qualname,
        problems=problems,
        namespace=settings.namespace,
        takes_tools=call.signature.has_role(Role.TOOLS),
    )
    if toolbox is not None:
        problems += answer_tool_problems(toolbox, routes, call.returns, call.qualname, is_agent=call.is_agent)
        awaited = [] if is_async else awaited_parts((), settings.tool_interceptors)
        problems += [call.problem(f"{name} is async; only async methods can await it") for name in awaited]
    if toolbox is not None or not settings.tools:  # otherwise the tools have problems of their own
        problems += tool_choice_problems(settings.options, toolbox, call.qualname)
    return toolbox


def answer_tool_problems(
    toolbox: Toolbox,
    routes: Iterable[ModelRoute],
    returns: ReturnType,
    qualname: str,
    *,
    is_agent: bool = False,
) -> list[DefinitionProblem]:
    """Return an error for each tool that conflicts with how the model answers."""
    is_list = returns.shape is ReturnShape.ITEMS
    answer_type = list[returns.output_type] if is_list else returns.output_type  # type: ignore[name-defined]
    output_tools = {name for route in routes for name in route.strategies.output_tool_names()}
    message = "has the name of the tool that gives the answer; rename it"
    names = [tool.name for tool in toolbox.declared if tool.name in output_tools]
    problems = [DefinitionProblem(qualname, f"the tool {name} {message}") for name in names]
    if not is_agent and answer_type not in (None, NoneType):  # then the results of tools are discarded, too
        problems += _immediate_tool_problems(toolbox, answer_type, qualname)
    return problems


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


def _result_type(tool: Tool) -> object:
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
