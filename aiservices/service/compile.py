"""Check the interface of a service, prepare its methods, and report all mistakes at once.

The end of the file parses return annotations.
"""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field, replace
from enum import Enum
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_overloads,
    get_type_hints,
    is_typeddict,
)

from output_parsers.parser.type_parser import ParserRegistry, TypeParser, parser_for
from output_parsers.result.errors import OutputParsingError, Problem, UnsupportedTypeError
from output_parsers.result.reading import Leniency
from output_parsers.types.decisions import DecisionNode
from output_parsers.types.node import OutputParser, walk
from output_parsers.types.target import Target, TypeExpression, substitute, type_arguments_by_class, type_name

from ..engine.budget import Budget
from ..engine.model_route import ModelRoute, only_format
from ..engine.output_format import image_format, reply_format, text_format
from ..engine.plan import CallPlan, CallState, Invocation, RequestHook, Transform
from ..engine.results import Result
from ..engine.strategy_selection import StrategyError, select_strategies
from ..engine.streams import AsyncStream, Stream
from ..engine.tool_execution import awaited_parts
from ..interface.decorators import (
    Declaration,
    MemoryId,
    SystemSource,
    TemplateSource,
    UserName,
    attributes_without_value,
    declaration_of,
    has_own_init,
    is_stub,
    methods_of,
)
from ..interface.parameters import (
    Parameter,
    Role,
    RoleError,
    ToolDefinitionError,
    media_problem,
    memory_id_type_problems,
    method_parameters,
    takes_invocation,
)
from ..models.base import Capabilities, ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.fallback import members_of, rests_of
from ..models.media import Image
from ..models.messages import (
    AiMessage,
    ChatReply,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..models.registry import find_model
from ..models.requests import ChatOptions, ChatRequest
from ..tools.tool import ReturnBehavior, Tool, ToolErrors, ToolSource, default_problem
from ..tools.toolbox import (
    Toolbox,
    ToolLimits,
    make_toolbox,
    plan_toolbox,
    tool_choice_problems,
    toolbox_problems,
)
from .prompt_binding import PromptPlan, docstring_problems, plan_examples, plan_prompt
from .settings import type_problems

if TYPE_CHECKING:
    from ..models.limits import Limits

_ITERATORS = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_ASYNC_ITERATORS = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)
_UNIONS = (Union, types.UnionType)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


# Return types for which nothing is parsed: the method returns the reply, or a part of it.
_REPLY_TYPES: dict[Any, Callable[[ChatReply], Any]] = {
    ChatReply: lambda reply: reply,
    AiMessage: lambda reply: reply.message,
}
# Return types whose objects come with a reply: a model that was asked for one would invent it.
_PARTS_OF_REPLIES = (Usage, ToolCall, SystemMessage, UserMessage, ToolMessage)


class ReturnShape(Enum):
    """How a service method returns its value: directly, in a Result, or as a stream."""

    VALUE = "value"
    RESULT = "result"
    TEXT_STREAM = "text stream"
    ITEMS = "items"
    STREAM = "stream"


class ReturnType(NamedTuple):
    """A service method's return annotation: the type of the answer, and how it is returned.

    Attributes:
        output_type: The type of the value; for items, the type of one item.
        shape: The shape in which the value is returned.
        is_async: True if it is awaited or iterated with ``async for``.
        keeps_errors: True if an item that does not fit is yielded as an ItemError.
    """

    output_type: TypeExpression
    shape: ReturnShape
    is_async: bool
    keeps_errors: bool = False

    @property
    def is_stream(self) -> bool:
        """True if a service method returns an iterator or a stream."""
        return self.shape not in (ReturnShape.VALUE, ReturnShape.RESULT)


class ReturnTypeError(TypeError):  # callers turn it into a DefinitionProblem, which adds the location
    """Raised when a service method has an unsupported return annotation."""


class MethodPlan(NamedTuple):
    """The models, prompt and return type of one service method, prepared once for all calls.

    Attributes:
        call: The plan for the engine.
        prompt: How arguments become messages.
        returns: How the value is returned to the caller.
    """

    call: CallPlan
    prompt: PromptPlan
    returns: ReturnType

    def invocation(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], budget: Budget
    ) -> Invocation:
        """Bind the arguments of a service call, and return its Invocation with the rendered messages.

        Raises TypeError if the arguments do not fit the signature.
        """
        call, prompt = self.call, self.prompt
        try:
            arguments = prompt.bind(args, kwargs)
        except TypeError as error:
            advice = ""
            if any(isinstance(value, ChatOptions) for value in (*args, *kwargs.values())):
                advice = "; to set options for one call, declare a parameter of type ChatOptions"
            raise TypeError(f"{call.qualname}: {error}{advice}") from None
        names, options = prompt.role_names, call.options
        if names and Role.OPTIONS in names and arguments[names[Role.OPTIONS]] is not None:
            call_options: ChatOptions = arguments[names[Role.OPTIONS]]
            problems = call_options.problems(call.qualname)
            problems += tool_choice_problems(call_options, call.toolbox, call.qualname)
            if problems:
                raise DefinitionError(problems)
            options = call_options.with_defaults(options)
        toolbox = call.toolbox
        if toolbox is not None and Role.TOOLS in names:
            toolbox = self.toolbox_with(arguments[names[Role.TOOLS]], prompt.signature.parameters)
        tool_context = {}
        for name in prompt.context_names:
            tool_context[name] = arguments[name]
        messages = () if prompt.system_takes_invocation else prompt.messages(arguments)
        invocation = Invocation(
            call,
            ChatRequest(messages, options, qualname=call.qualname),
            CallState(budget),
            call.routes,
            toolbox,
            () if call.transform is None else (call.transform,),
            arguments,
            arguments[names[Role.MEMORY_ID]] if names and Role.MEMORY_ID in names else None,
            arguments[names[Role.USER_NAME]] if names and Role.USER_NAME in names else None,
            tool_context,
            prompt.rendered_examples() if prompt.examples else (),
        )
        if not prompt.system_takes_invocation:
            return invocation
        messages = prompt.messages(arguments, invocation)
        return replace(invocation, request=replace(invocation.request, messages=messages))

    def toolbox_with(self, sources: object, parameter_names: Collection[str]) -> Toolbox:
        """Return the tools of the method, with the additional tools that a call passes as ``Tools``.

        Raises DefinitionError for invalid tools, and TypeError for a value that is not a list.
        """
        call = self.call
        assert call.toolbox is not None, "a method with a Tools parameter has a toolbox"
        if not sources and sources != "":
            return call.toolbox
        if isinstance(sources, str) or not isinstance(sources, Iterable):
            message = f"{self.prompt.role_names[Role.TOOLS]} has the type {type(sources).__name__}"
            raise TypeError(f"{call.qualname}: {message}; pass a list of tools")
        try:
            toolbox = make_toolbox(tuple(sources), call.toolbox.limits, None, call.toolbox)
        except ToolDefinitionError as error:
            raise DefinitionError([DefinitionProblem(call.qualname, str(error))]) from error
        problems = toolbox_problems(
            toolbox, parameter_names, call.role_names, is_async=call.is_async, qualname=call.qualname
        )
        problems += answer_tool_problems(toolbox, call.routes, self.returns, call.qualname)
        if problems:
            raise DefinitionError(problems)
        return toolbox


class Settings(NamedTuple):
    """The settings that apply to all methods of a service, such as the model and the system message."""

    model: ChatModel | str | None
    options: ChatOptions
    strategy: Strategy | str | None
    leniency: Leniency | None
    system: SystemSource | None
    user: TemplateSource | None
    transform: RequestHook | Callable[[ChatRequest, Invocation], ChatRequest] | None
    parsers: ParserRegistry
    namespace: Mapping[str, Any]
    tools: tuple[ToolSource, ...]
    tool_limits: ToolLimits
    tool_errors: ToolErrors
    tool_interceptors: tuple[Any, ...] = ()
    votes: int = 0
    limits: Limits | None = None

    def with_tool_settings(self, declared: Mapping[str, Any]) -> Settings:
        """Return a copy with the tool settings that ``@options`` sets for an interface or a method."""
        changes = {name: declared[name] for name in ("tool_limits", "tool_errors") if name in declared}
        if "tool_interceptors" in declared:  # they are inside of the others
            changes["tool_interceptors"] = (*self.tool_interceptors, *declared["tool_interceptors"])
        return self._replace(**changes) if changes else self


def compile_interface(interface: object, settings: Settings) -> dict[str, MethodPlan]:
    """Check the interface of a service, and return a dict from its method names to their plans.

    Raises DefinitionError with all problems of the interface.
    """
    cls = get_origin(interface) or interface
    name = type_name(interface)
    if not isinstance(cls, type) or cls is UnionType:
        message = "it is not a class; create takes a Protocol, an ABC or a class"
        raise DefinitionError([DefinitionProblem(name, message)])
    problems: list[DefinitionProblem] = []
    settings = _with_declaration(settings, cls, name, problems)
    variables = getattr(cls, "__parameters__", ())
    if TypeVar in map(type, get_args(interface)) or (cls is interface and variables):
        names = ", ".join(variable.__name__ for variable in variables)
        example = f"{cls.__name__}[{', '.join('str' for _ in variables)}]"
        problems.append(DefinitionProblem(name, f"it is generic; fill in {names}, as in {example}"))
        raise DefinitionError(problems)  # every method would report the same problem again
    models = _ModelFinder(settings.model, settings.limits, name, problems)
    plans: dict[str, MethodPlan] = {}
    type_arguments = type_arguments_by_class(interface)
    stub_count = 0
    for method, owner, attribute in methods_of(cls):
        qualname = f"{cls.__name__}.{method}"
        if not _needs_implementation(attribute, qualname, problems):
            continue
        stub_count += 1
        model = models.find(declaration_of(attribute).model, qualname)
        try:
            plans[method] = plan_method(attribute, qualname, settings, type_arguments.get(owner, {}), model)
        except DefinitionError as error:
            problems.extend(error.problems)
    problems.extend(_construction_problems(cls, name))
    if not stub_count and not problems:
        problems.append(DefinitionProblem(name, "it has no method to implement: each has a body of its own"))
    if problems:
        raise DefinitionError(problems)
    return plans


def plan_method(
    function: Callable[..., Any],
    qualname: str,
    settings: Settings,
    type_arguments: Mapping[Any, object],
    model: ChatModel | None,
) -> MethodPlan:
    """Check one method of a service interface, and prepare its prompt, models and answer parser.

    ``type_arguments`` are the types for the type variables of a generic interface. Raises DefinitionError
    with all problems of the method.
    """
    problems: list[DefinitionProblem] = []
    declared = declaration_of(function)
    namespace = {**settings.namespace, **declared.namespace}
    hints = _type_hints(function, namespace, type_arguments, qualname, problems)
    signature = inspect.signature(function)
    own_options = declared.options or ChatOptions()
    problems.extend(own_options.problems(qualname))
    wrong_types = type_problems(qualname, declared.call_settings)
    problems += wrong_types
    if not wrong_types:
        settings = settings.with_tool_settings(declared.call_settings)
    without_self = signature.replace(parameters=list(signature.parameters.values())[1:])
    prompt: PromptPlan | None = None
    parameters: tuple[Parameter, ...] = ()
    try:
        parameters = method_parameters(signature, hints or {})
        problems += memory_id_type_problems(parameters, qualname)
        problems += _default_problems(signature, hints or {}, parameters, qualname)
    except (RoleError, UnsupportedTypeError) as error:
        problems.extend(DefinitionProblem(qualname, message) for message in error.args)
    else:
        if hints is not None:  # without hints the roles of the parameters are unknown
            system = declared.system or settings.system
            user, title = declared.user, "prompt"
            if user is None and not any(one.role is Role.USER_MESSAGE for one in parameters):
                user, title = settings.user, "user message of the service"
            prompt = plan_prompt(user, system, without_self, parameters, qualname, problems, title=title)
            if declared.user is None:
                problems += docstring_problems(function.__doc__ or "", parameters, qualname)
    roles = {parameter.role: parameter.name for parameter in parameters}
    markers: dict[type, Role] = {MemoryId: Role.MEMORY_ID, UserName: Role.USER_NAME}
    role_names = {marker: roles[role] for marker, role in markers.items() if role in roles}
    returns = _return_type(function, hints, qualname, problems)
    service_strategy = Strategy(settings.strategy) if settings.strategy else None
    method_strategy = _parse_strategy(declared.strategy, qualname, problems)
    routes: tuple[ModelRoute, ...] = ()
    toolbox: Toolbox | None = None
    has_decisions, votes = False, 0
    if returns is not None:
        parser = _find_parser(returns, settings.parsers, namespace, qualname, problems)
        parser = with_leniency(parser, declared.leniency or settings.leniency, qualname, problems)
        tools = settings.tools if declared.tools is None else declared.tools
        takes_tools = any(parameter.role is Role.TOOLS for parameter in parameters)
        has_decisions = _has_decisions(parser)
        if has_decisions and returns.shape is not ReturnShape.STREAM:  # which shows its value before votes
            votes = settings.votes
        routes = _make_routes(
            returns,
            parser,
            model,
            method_strategy,
            service_strategy,
            qualname,
            problems,
            offers_tools=bool(tools) or takes_tools,
            task="" if prompt is None else prompt.task,
            votes=votes,
        )
        if prompt is not None and declared.examples and not problems:
            read_parser = None if isinstance(parser, _ImageParser) else parser
            examples = plan_examples(declared.examples, prompt, read_parser, problems)
            prompt = prompt._replace(examples=examples)
        toolbox = plan_toolbox(
            tools,
            settings.tool_limits,
            list(without_self.parameters),
            role_names,
            [route.model for route in routes],
            is_async=returns.is_async,
            qualname=qualname,
            problems=problems,
            namespace=namespace,
            takes_tools=takes_tools,
        )
        if toolbox is not None:
            problems += answer_tool_problems(toolbox, routes, returns, qualname)
            if not returns.is_async:
                problems += [
                    DefinitionProblem(qualname, f"{name} is async; only async methods can await it")
                    for name in awaited_parts((), settings.tool_interceptors)
                ]
        if toolbox is not None or not tools:  # otherwise the tools have problems of their own
            options = own_options.with_defaults(settings.options)
            problems += tool_choice_problems(options, toolbox, qualname)
    if problems or prompt is None or returns is None or not routes:
        raise DefinitionError(problems)
    unsure = getattr(model, "unsure", None)
    transform: Any = settings.transform
    if takes_invocation(transform):
        transform = Transform(transform)
    call = CallPlan(
        qualname=qualname,
        output_type=returns.output_type,
        is_async=returns.is_async,
        routes=routes,
        options=own_options.with_defaults(settings.options),
        toolbox=toolbox,
        tool_errors=settings.tool_errors,
        tool_interceptors=settings.tool_interceptors,
        transform=transform,
        role_names=role_names,
        requires_probabilities=has_decisions,
        wants_probabilities=has_decisions or unsure is not None,
        votes=votes,
        unsure=unsure,
    )
    return MethodPlan(call, prompt, returns)


def _default_problems(
    signature: inspect.Signature, hints: Mapping[str, object], parameters: Iterable[Parameter], qualname: str
) -> Iterator[DefinitionProblem]:
    """Yield an error for each str, number or bool default that does not fit its parameter's type.

    Other defaults, such as None, may stand for "no value".
    """
    for parameter in parameters:
        default = signature.parameters[parameter.name].default
        if parameter.role is not None or not isinstance(default, (str, int, float)):
            continue
        try:
            parser: OutputParser[object] = parser_for(cast("Any", hints[parameter.name]))
        except (UnsupportedTypeError, KeyError):  # no annotation, or any type that templates can show
            continue
        problem = default_problem(default, parser.node) if isinstance(parser, TypeParser) else None
        if problem is not None:
            yield DefinitionProblem(qualname, f"the default of {parameter.name} is {problem}")


def _with_declaration(
    settings: Settings, cls: type, name: str, problems: list[DefinitionProblem]
) -> Settings:
    """Return a service's settings, changed by the decorators on the interface class."""
    declared = declaration_of(cls)
    options = (declared.options or ChatOptions()).with_defaults(settings.options)
    problems.extend(options.problems(name))
    wrong_types = type_problems(name, declared.call_settings)
    problems += wrong_types
    if not wrong_types:
        settings = settings.with_tool_settings(declared.call_settings)
    if declared.examples:
        message = "an example belongs to a method; move it from the interface to a method"
        problems.append(DefinitionProblem(name, message))
    return settings._replace(
        model=settings.model if declared.model is None else declared.model,
        options=options,
        strategy=_parse_strategy(declared.strategy or settings.strategy, name, problems),
        leniency=declared.leniency or settings.leniency,
        system=declared.system or settings.system,
        tools=settings.tools if declared.tools is None else declared.tools,
    )


def _construction_problems(cls: type, name: str) -> list[DefinitionProblem]:
    """Return the reasons why an interface cannot be instantiated without arguments.

    ``create`` passes no arguments to ``__init__`` and sets no attributes.
    """
    message = "the attribute has no value, and a service cannot set it; give it a value or remove it"
    problems = [
        DefinitionProblem(f"{cls.__name__}.{attribute}", message)
        for attribute in attributes_without_value(cls)
    ]
    if has_own_init(cls):
        # mypy warns that a subclass may change __init__, but this class itself is instantiated
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
        if required:
            message = f"its __init__ needs {', '.join(required)}, and create calls it without arguments"
            problems.append(DefinitionProblem(name, message))
    return problems


@dataclass(slots=True)
class _ModelFinder:
    """Finds the language model for each method of a service, and reports unknown model names."""

    service_model: ChatModel | str | None
    limits: Limits | None
    service: str
    problems: list[DefinitionProblem]
    models: dict[Any, ChatModel | None] = field(default_factory=dict)

    def find(self, method_model: ChatModel | str | None, qualname: str) -> ChatModel | None:
        """Return the language model of a method; without one, return the model of the whole service."""
        if method_model is None:
            model, location = self.service_model, self.service
        else:
            model, location = method_model, qualname
        key = model if isinstance(model, str) else id(model)
        if key not in self.models:
            try:
                chat_model = find_model(model, location)
                self.models[key] = (
                    chat_model if self.limits is None else _with_limits(chat_model, self.limits)
                )
            except DefinitionError as error:
                self.problems.extend(error.problems)
                self.models[key] = None
        return self.models[key]


def _with_limits(model: ChatModel, limits: Limits) -> ChatModel:
    from ..models.limits import LimitedChatModel  # few services have limits

    return LimitedChatModel(model, limits)


def _parse_strategy(
    strategy: Strategy | str | None, location: str, problems: list[DefinitionProblem]
) -> Strategy | None:
    try:
        return None if strategy is None else Strategy(strategy)
    except ValueError:
        message = f"the strategy {strategy!r} is unknown; use one of: {', '.join(Strategy)}"
        problems.append(DefinitionProblem(location, message))
        return None


def _needs_implementation(attribute: object, qualname: str, problems: list[DefinitionProblem]) -> bool:
    """Return True if an attribute is a method without a body, which the service must implement.

    Adds a problem for attributes that cannot be implemented.
    """
    if is_stub(attribute):
        return True
    inner = getattr(attribute, "fget", None) or getattr(attribute, "__func__", None)
    message = None
    if declaration_of(attribute) != Declaration():
        message = "it has a prompt and a body; write ... as the body of a method with a prompt"
    elif is_stub(inner):
        message = f"it is a {type(attribute).__name__} without a body; only plain methods can be implemented"
    elif getattr(attribute, "__isabstractmethod__", False):
        message = "it is abstract and has a body; keep one of them"
    if message is not None:
        problems.append(DefinitionProblem(qualname, message))
    return False


def _type_hints(
    function: Callable[..., object],
    namespace: Mapping[str, object],
    type_arguments: Mapping[object, object],
    qualname: str,
    problems: list[DefinitionProblem],
) -> dict[str, TypeExpression] | None:
    try:
        hints = get_type_hints(function, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may contain any expression
        message = f"an annotation cannot be resolved: {error}; define the name, or pass it in localns"
        problems.append(DefinitionProblem(qualname, message))
        return None
    return {name: substitute(hint, type_arguments) for name, hint in hints.items()}


def _return_type(
    function: Callable[..., object],
    hints: dict[str, TypeExpression] | None,
    qualname: str,
    problems: list[DefinitionProblem],
) -> ReturnType | None:
    if hints is None:
        return None
    # if all definitions are overloads, the method is a function of typing that stands for them
    if get_overloads(function) or function.__name__ == "_overload_dummy":
        message = "it has several overloads; write one method whose parameters have union types"
        problems.append(DefinitionProblem(qualname, message))
        return None
    if "return" not in hints:
        message = "it has no return annotation; annotate the type of the answer"
        problems.append(DefinitionProblem(qualname, message))
        return None
    try:
        return parse_return_type(hints["return"], is_async=inspect.iscoroutinefunction(function))
    except ReturnTypeError as error:
        problems.append(DefinitionProblem(qualname, str(error)))
        return None


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


def _find_parser(
    returns: ReturnType,
    parsers: ParserRegistry,
    namespace: Mapping[str, object],
    qualname: str,
    problems: list[DefinitionProblem],
) -> OutputParser[Any] | None:
    """Return the parser that converts model replies to the return type of a service method.

    Returns None if the method returns the reply itself, and adds a problem if no parser supports the type, or
    if a model cannot write its values.
    """
    output_type: Any = returns.output_type
    if isinstance(output_type, type) and output_type in _REPLY_TYPES:
        return None
    if returns.output_type in (None, NoneType):
        return _NoValueParser()
    try:
        parser = parsers.parser_for(output_type, namespace=namespace)
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


def _has_decisions(parser: OutputParser[object] | None) -> bool:
    return isinstance(parser, TypeParser) and any(isinstance(one, DecisionNode) for one in walk(parser.node))


def with_leniency(
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


def _make_routes(
    returns: ReturnType,
    parser: OutputParser[object] | None,
    model: ChatModel | None,
    method_strategy: Strategy | None,
    service_strategy: Strategy | None,
    qualname: str,
    problems: list[DefinitionProblem],
    *,
    offers_tools: bool,
    task: str,
    votes: int,
) -> tuple[ModelRoute, ...]:
    """Return the models of a service method, each with the strategies for requesting the return type.

    A decision endpoint that cannot answer for the type is left out if there are other models.
    """
    members = () if model is None else members_of(model)
    rests = None if model is None else rests_of(model)
    if parser is None:
        read = _REPLY_TYPES.get(returns.output_type)
        if read is None:
            return ()
        return tuple(ModelRoute(member, only_format(reply_format(read)), rests) for member in members)
    if isinstance(parser, _NoValueParser) and method_strategy is None:
        text_models = [member for member in members if member.capabilities.decisions is None]
        if text_models:
            text = text_format(parser, "it returns None: the text of the reply is discarded")
            return tuple(ModelRoute(member, only_format(text), rests) for member in text_models)
    if isinstance(parser, _ImageParser):
        routes_with_images = [
            ModelRoute(member, only_format(image_format(several=parser.several)))
            for member in members
            if member.capabilities.image_output
        ]
        if members and not routes_with_images:
            advice = "or a model that makes images"
            message = f"it returns {type_name(returns.output_type)}; {parser.problem}, {advice}"
            problems.append(DefinitionProblem(qualname, message))
        return tuple(routes_with_images)
    # The strategy of a service is for its methods with a structured type; plain text needs none.
    requested = method_strategy or (None if parser.schema is None else service_strategy)
    partial_values = returns.shape in (ReturnShape.ITEMS, ReturnShape.STREAM)
    has_decisions = _has_decisions(parser)
    if has_decisions and returns.shape is ReturnShape.ITEMS:
        message = "a Decision cannot be an item of a stream; return a list or a Stream"
        problems.append(DefinitionProblem(qualname, message))
        return ()
    routes: list[ModelRoute] = []
    left_out: list[str] = []
    is_fatal = False
    for member in members:
        capabilities = usable_capabilities(member, offers_tools=offers_tools)
        try:
            strategies = select_strategies(
                parser,
                capabilities,
                requested,
                member.name,
                partial_values=partial_values,
                offers_tools=offers_tools,
                requires_probabilities=has_decisions and (not votes or capabilities.logprobs > 0),
                task=task,
            )
        except (StrategyError, UnsupportedTypeError) as error:
            left_out.append(str(error))
            is_fatal = is_fatal or capabilities.decisions is None
        else:
            routes.append(ModelRoute(member, strategies, rests))
    if is_fatal or not routes:
        problems += [DefinitionProblem(qualname, message) for message in left_out]
        return ()
    for route in routes:
        route.strategies.notes = tuple(f"{message}; it is not asked for this method" for message in left_out)
        route.strategies.prepare()
    return tuple(routes)


def usable_capabilities(model: ChatModel, *, offers_tools: bool) -> Capabilities:
    """Return a model's features, without JSON output if the model cannot combine it with tools."""
    capabilities = model.capabilities
    if offers_tools and not capabilities.schema_with_tools:
        return replace(capabilities, json_schema=False, json_mode=False)
    return capabilities


def answer_tool_problems(
    toolbox: Toolbox, routes: Iterable[ModelRoute], returns: ReturnType, qualname: str
) -> list[DefinitionProblem]:
    """Return an error for each tool that conflicts with the way in which the model answers."""
    is_list = returns.shape is ReturnShape.ITEMS
    answer_type = list[returns.output_type] if is_list else returns.output_type  # type: ignore[name-defined]
    problems = tool_name_problems(toolbox, routes, qualname)
    if answer_type not in (None, NoneType):  # then the results of tools are discarded, too
        problems += immediate_tool_problems(toolbox, answer_type, qualname)
    return problems


def tool_name_problems(
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


def parse_return_type(hint: object, *, is_async: bool) -> ReturnType:
    """Parse the return annotation of a service method.

    ``is_async`` is True for coroutine functions. Raises ReturnTypeError, which says what to write instead.
    """
    origin = get_origin(hint) or hint
    misplaced = _misplaced_type(get_args(hint), outer=origin)
    if misplaced is not None:
        raise ReturnTypeError(
            f"it returns {type_name(hint)}, but {type_name(misplaced)} describes the whole reply and cannot "
            "be part of another type"
        )
    invented = next((arg for arg in _with_arguments(hint) if arg in _PARTS_OF_REPLIES), None)
    if invented is not None:
        name = type_name(invented)
        raise ReturnTypeError(
            f"it returns {type_name(hint)}, but a model would make up the {name}; return AiMessage, "
            "ChatReply or Result, which have what belongs to the reply"
        )
    if origin in _AWAITABLES:
        raise ReturnTypeError(
            f"it returns {type_name(hint)}; write async def and the type of the awaited value"
        )
    if origin in _ITERATORS or origin in _ASYNC_ITERATORS:
        return _parse_iterator(hint, origin, is_async)
    if origin in (Stream, AsyncStream):
        if is_async:
            message = f"async def with {type_name(hint)} is a coroutine that returns a stream; write def"
            raise ReturnTypeError(message)
        return ReturnType(_type_argument(hint, origin), ReturnShape.STREAM, origin is AsyncStream)
    if origin is Result:
        return ReturnType(_type_argument(hint, origin), ReturnShape.RESULT, is_async)
    return ReturnType(hint, ReturnShape.VALUE, is_async)


def _type_argument(hint: object, origin: type) -> object:
    args = get_args(hint)
    if not args or isinstance(args[0], TypeVar):
        name = origin.__name__
        raise ReturnTypeError(f"{name} needs the type of its value, as in {name}[bool]")
    return args[0]


def _misplaced_type(args: tuple[object, ...], outer: object) -> object:
    """Return a type that is nested although it must not be, such as Stream in ``list[Stream]``."""
    for arg in args:
        cls = get_origin(arg) or arg
        if cls in (Result, Stream, AsyncStream) or (cls in (ChatReply, AiMessage) and outer is not Result):
            return arg
        inner = _misplaced_type(get_args(arg), cls)
        if inner is not None:
            return inner
    return None


def _with_arguments(hint: object) -> Iterator[type]:
    """Yield the classes inside a type hint, such as ``int`` and ``str`` for ``int | str``."""
    if isinstance(hint, type):
        yield hint
    for arg in get_args(hint):
        yield from _with_arguments(arg)


def _parse_iterator(hint: TypeExpression, origin: Any, is_async: bool) -> ReturnType:
    name = origin.__name__
    args = get_args(hint)
    if is_async:
        item = type_name(args[0]) if args else "str"
        raise ReturnTypeError(
            f"async def with {name} is a coroutine that returns an iterator; "
            f"write def and AsyncIterator[{item}]"
        )
    if not args:
        raise ReturnTypeError(f"{name} needs the type of its items, as in {name}[str]")
    is_async = origin in _ASYNC_ITERATORS
    if args[0] in (None, NoneType):
        stream = "AsyncStream" if is_async else "Stream"
        raise ReturnTypeError(f"{type_name(hint)} has no items; return None, Result[None] or {stream}[None]")
    if args[0] is str:
        return ReturnType(str, ReturnShape.TEXT_STREAM, is_async)
    # Of ``Person | ItemError`` the model is asked for ``Person``.
    members = get_args(args[0]) if get_origin(args[0]) in _UNIONS else ()
    items = [member for member in members if not _is_item_error(member)]
    if len(items) == len(members):
        return ReturnType(args[0], ReturnShape.ITEMS, is_async)
    return ReturnType(
        Union[tuple(items)],  # noqa: UP007  # the members are only known at run time
        ReturnShape.ITEMS,
        is_async,
        keeps_errors=True,
    )


def _is_item_error(member: Any) -> bool:
    # Compared by name, because the module that defines ItemError is imported only for streams.
    module = getattr(member, "__module__", "")
    return module == "output_parsers.streaming.reader" and member.__name__ == "ItemError"


def immediate_tool_problems(
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
