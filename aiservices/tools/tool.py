"""Convert Python functions to tools that a model may call, with descriptions and argument parsers."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload, runtime_checkable

from pydantic_core import to_json
from typing_extensions import TypedDict

from output_parsers.json.scanner import read_exact
from output_parsers.json_schema.parser import named_schema, schema_parser
from output_parsers.parser.type_parser import ParserRegistry, TypeParser, parser_for
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.result.reading import Cursor, Leniency, ValidationFailure
from output_parsers.types.node import Node
from output_parsers.types.target import Target, TypeExpression, type_name

from ..interface.parameters import (
    ToolDefinitionError,
    by_name,
    call_problem,
    function_name,
    is_async,
    media_problem,
    schema_tool_signature,
    summary_of,
    tool_signature,
    unwrapped,
)
from ..models.arguments import checks_arguments, is_at_least
from ..models.media import Media
from ..models.messages import ToolCall, ToolMessage
from ..models.requests import ToolSpecification

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
# The parser of the arguments that the model writes, the roles of the parameters that it never sees, and the
# return annotation.
ParsedSignature: TypeAlias = tuple[TypeParser[dict[str, object]], Mapping[str, type], TypeExpression]
_DECLARATION = "__aiservices_tool__"
# The attribute of methods that return an iterator of the pieces of one text.
YIELDS_TEXT = "__aiservices_yields_text__"
# The attribute of service methods that holds how they were made.
SERVICE_METHOD = "__aiservices_method__"
# Attributes of the methods of remote clients: how to resume a call, and how to make one in code of the other
# kind, blocking or async.
REMOTE_RESUME = "__aiservices_resume__"
REMOTE_CALL = "__aiservices_call__"


class ReturnBehavior(StrEnum):
    """The destination of a tool's result: the model, or the caller of the service method.

    Attributes:
        TO_LLM: The result goes to the model, which continues.
        IMMEDIATE: The result is the answer of the method, unless a tool called in the same round returns to
            the model.
        IMMEDIATE_IF_LAST: The result is the answer of the method if it is the last call of its round.

    If several results of a round could be the answer, it is the one that has the return type of the method
    and is not None. Different results of that type raise a ToolError.
    """

    TO_LLM = "to_llm"
    IMMEDIATE = "immediate"
    IMMEDIATE_IF_LAST = "immediate_if_last"


@dataclass(frozen=True)
class Denied:
    """A person's decision to reject a tool call, with a reason for the model.

    Attributes:
        reason: The reason for the refusal, sent to the model.
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"reason is {self.reason!r}; it must be a text")


class ExternalResult(NamedTuple):
    """A tool result that the program determined itself and passed to ``resume``.

    Attributes:
        value: The result.
        is_of_doubt: True if the tool is not external, but began in a process that was killed.
    """

    value: object
    is_of_doubt: bool = False


# What is known about a call that waited: the decision about it, its result if it has run already, or an
# InnerDecisions of the engine if the tool is a service method in which calls waited.
WaitingCallDecision: TypeAlias = bool | Denied | ExternalResult | ToolMessage | tuple[object, ...]


@dataclass(frozen=True)
class ToolAnswer:
    """A tool's result in two forms: text and media for the model, and data for the program.

    Attributes:
        text: The text for the model.
        contents: Images, audio and files for the model, which follow the text.
        data: A value for the program, which becomes ``ToolRun.result``.
    """

    text: str
    contents: Sequence[Media] = ()
    data: Any = None


class ToolException(Exception):
    """Raised by a tool to send an error message to the model."""


# A function gets the arguments of a call, and returns whether this call must be approved.
NeedsApproval: TypeAlias = bool | Callable[..., bool | Awaitable[bool]]


class ToolDeclaration(NamedTuple):
    """The arguments of the ``@tool`` decorator, such as the name and description of the tool."""

    name: str | None = None
    description: str | None = None
    return_behavior: ReturnBehavior = ReturnBehavior.TO_LLM
    timeout: float | None = None
    needs_approval: NeedsApproval = False
    metadata: Mapping[str, object] | None = None
    external: bool = False
    interceptors: tuple[object, ...] = ()
    max_calls: int | None = None
    compensate: Callable[..., object] | None = None
    start_early: bool = False
    idempotent: bool = False


@dataclass(frozen=True, eq=False)
class Tool:
    """A Python function that a language model may call, with its description and settings.

    Attributes:
        name: The name by which the model calls it.
        description: The description for the model.
        function: The function itself.
        arguments: Parses the arguments that the model writes into a dict by parameter name.
        injected: The parameters that the model never sees, each with its role.
        asynchronous: True if the function is a coroutine function.
        return_behavior: The destination of the result.
        timeout: Seconds after which a call fails; None for the timeout of ToolLimits.
        needs_approval: True if each call must be approved before it runs; or a function of the arguments that
            says so.
        return_type: The return annotation of the function; ``inspect.Signature.empty`` if it has none.
        yields_text: True if the function returns an iterator of the pieces of one text.
        metadata: Further fields of the tool in the request, as the provider documents them.
        external: True if a person or another program gives the result, with ``resume``.
        interceptors: The ToolInterceptor and ToolCheck objects around each call, inside of those of the
            service.
        max_calls: The maximum number of calls in one call of a method; None sets no limit.
        compensate: Undoes a call that succeeded; None if nothing can be undone.
        start_early: True if a call may run before the reply that contains it is complete.
        idempotent: True if a call that a durable call has begun may run again.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: TypeParser[dict[str, object]]
    injected: Mapping[str, type] = field(default_factory=dict)
    _: KW_ONLY
    asynchronous: bool = False
    return_behavior: ReturnBehavior = ReturnBehavior.TO_LLM
    timeout: float | None = None
    needs_approval: NeedsApproval = False
    return_type: Any = inspect.Signature.empty
    yields_text: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict)
    external: bool = False
    interceptors: tuple[object, ...] = ()
    max_calls: int | None = None
    compensate: Callable[..., object] | None = None
    start_early: bool = False
    idempotent: bool = False

    @staticmethod
    def from_schema(
        definition: Mapping[str, object],
        function: Callable[..., object] | None = None,
        *,
        strict_keywords: bool = False,
    ) -> Tool:
        """Create a tool from a function and its description as a dict in OpenAI's or Anthropic's format.

        The function gets the arguments by name, as JSON values that are valid under the schema. Parameters
        with a role, such as ``MemoryId``, are filled in as in other tools, and the settings of ``@tool``
        apply, but the dict sets its name and description. Without a function, the tool is external: each call
        waits, and ``resume`` gets the result, a JSON value. A misspelt keyword in the schema is a warning,
        and with ``strict_keywords`` an error.

        Raises DefinitionError if the dict describes no tool.
        """
        try:
            name, description, schema, _ = named_schema(definition, strict_keywords=strict_keywords)
            arguments = schema_parser(schema, name=name)
        except (ValueError, UnsupportedTypeError) as error:  # an InvalidSchemaError is one
            raise ToolDefinitionError(f"the dict does not describe a tool: {error}") from error
        if function is None:
            return Tool(name, description or "", _run_external, arguments, external=True)
        _, injected, return_type = schema_tool_signature(function)
        return _make_tool(function, name, description or "", (arguments, injected, return_type))

    def read_result(self, value: object) -> object:
        """Convert a value or JSON data to the return type of an external tool.

        Raises ValueError if it does not fit.
        """
        if self.return_type is inspect.Signature.empty:
            try:
                to_json(value)
            except ValueError as error:
                raise ValueError(f"{type(value).__name__}: it is not a JSON value") from error
            return value
        parser = parser_for(self.return_type)
        try:
            parser.write(value)
            return value
        except ValueError as error:
            try:
                data = to_json(value).decode()
            except ValueError:  # another Python object
                raise ValueError(f"expected {parser.node.kind}, found {type(value).__name__}") from error
        try:
            # not parser.parse, which accepts any text as a str
            return parser.node.read(read_exact(data), Cursor(Leniency.NONE))
        except ValidationFailure as failure:
            raise ValueError("; ".join(map(str, failure.problems))) from failure


def _run_external(**arguments: object) -> object:
    raise AssertionError("an external tool does not run")


class ToolRun(NamedTuple):
    """One executed tool call with its arguments, its result or error, and its duration.

    Attributes:
        call: The call as the model wrote it.
        arguments: The arguments by parameter name; None if they could not be read.
        result: The result; None if the call failed. For an iterator it is the list of its items, and for a
            stream its Result.
        text: The text that the model receives.
        error: Why the call failed; None if it succeeded.
        seconds: Wall time of the function.
        cut: The number of characters of the result that were left out of ``text`` because of the limit.
        contents: The images, audio and files that the model receives after the text.
        undone: True if the call was undone by the ``compensate`` function of the tool.
        undo_error: Why the call could not be undone.
        replayed: True if an earlier run of the durable call has executed it.
    """

    call: ToolCall
    arguments: Mapping[str, Any] | None
    result: Any
    text: str
    error: Exception | None
    seconds: float
    cut: int = 0
    contents: tuple[Media, ...] = ()
    undone: bool = False
    undo_error: Exception | None = None
    replayed: bool = False

    @property
    def name(self) -> str:
        """The name of the tool that the model called."""
        return self.call.name

    @property
    def message(self) -> ToolMessage:
        """The message that sends the tool's result to the model."""
        failed = self.error is not None
        return ToolMessage(self.call.id, self.call.name, self.text, self.contents, failed=failed)


# Gets the run, and the Invocation if it has a second parameter.
ErrorFormatter: TypeAlias = Callable[[ToolRun], str] | Callable[[ToolRun, Any], str]


@checks_arguments
class ToolErrors(NamedTuple):
    """Functions that write the error text for the model when a tool call fails.

    Each function gets the ToolRun and, if it takes a second argument, the Invocation of the service call.
    It returns the text, or raises an exception to end the call of the method. The exception
    becomes the cause of a ToolError, unless it is an AiServiceError. The functions are not awaited.

    Attributes:
        unknown: For a tool that does not exist.
        arguments: For arguments that cannot be read.
        execution: For a tool that raised an exception. By default the model receives the text of a
            ToolException; for other exceptions it only learns that the tool failed.
        compensate: True to undo the earlier tools of the call when a tool raises an exception, the last one
            first. These are the tools with a ``compensate`` function. The model gets a message about it.
    """

    unknown: ErrorFormatter = lambda run: run.text
    arguments: ErrorFormatter = lambda run: run.text
    execution: ErrorFormatter = lambda run: run.text
    compensate: bool = False

    @property
    def formatters(self) -> Mapping[str, ErrorFormatter]:
        """A dict from kinds of errors to the functions that write their texts."""
        return {"unknown": self.unknown, "arguments": self.arguments, "execution": self.execution}


@runtime_checkable
class ToolProvider(Protocol):
    """An object that provides tools for each service call, such as an MCP client.

    With an attribute ``dynamic = True`` it is called before each request of a call, and may return more tools
    than before. Without it, it is called once per call.
    """

    def tools(self, invocation: object) -> Iterable[ToolSource]:
        """Return the tools that the model may use in one service call.

        ``invocation`` is an ``aiservices.interceptors.Invocation``. If a dynamic provider returns a known
        tool name again in the same call, the earlier tool stays unchanged. A tool that is no longer returned
        stays available.
        """
        ...


# A function, a Tool, an object with methods that are tools, or a provider.
ToolSource: TypeAlias = Callable[..., object] | Tool | ToolProvider | object


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = ...,
    description: str | None = ...,
    return_behavior: ReturnBehavior | str = ...,
    timeout: float | None = ...,
    needs_approval: NeedsApproval = ...,
    metadata: Mapping[str, object] | None = ...,
    external: bool = ...,
    interceptors: Sequence[object] = ...,
    max_calls: int | None = ...,
    compensate: Callable[..., object] | None = ...,
    start_early: bool = ...,
    idempotent: bool = ...,
) -> Callable[[F], F]: ...
@checks_arguments
def tool(
    function: object = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    return_behavior: ReturnBehavior | str = ReturnBehavior.TO_LLM,
    timeout: float | None = None,
    needs_approval: NeedsApproval = False,
    metadata: Mapping[str, object] | None = None,
    external: bool = False,
    interceptors: Sequence[object] = (),
    max_calls: int | None = None,
    compensate: Callable[..., object] | None = None,
    start_early: bool = False,
    idempotent: bool = False,
) -> object:
    """Decorator that marks a function or method as a tool, which a language model may call.

    Plain functions are accepted as tools without this decorator. A bound method cannot be marked itself, so a
    partial of it is returned.

    Args:
        function: The function or method.
        name: The name that the model sees; by default the function's name.
        description: The description for the model; by default the docstring without its sections. Parameters
            are described by their types, defaults, ``Description``, ``Field`` or a docstring line
            ``name: text``.
        return_behavior: The destination of the result.
        timeout: Seconds after which a call fails.
        needs_approval: True to wait for an approval before each call. Or a function, which may be async, that
            returns True for the calls that wait, and False for the others. It gets those of the tool's
            arguments that it has parameters for, such as ``lambda euros: euros > 50``. If it raises an
            exception or returns anything else, the call waits.
        metadata: Further fields of the tool in the request, as the provider documents them, for example
            ``{"cache_control": {"type": "ephemeral"}}``. The embedded model ignores them.
        external: True if a person or another program gives the result: each call waits, the function never
            runs, and ``resume(…, results={id: value})`` checks the value against the return annotation.
        interceptors: Run around each call of the tool, the first one outermost: functions of a
            ``ToolInvocation`` and ``proceed``, or ToolGuardrails.
        max_calls: The maximum number of calls in one call of a method. Further calls do not run, and the
            model gets a message about it.
        compensate: A function that undoes a call of the tool. It is called when the call of the method fails
            after the tool succeeded, and, with ``ToolErrors(compensate=True)``, when a later tool fails. It
            gets those of the tool's arguments that it has parameters for, and the result in a parameter
            ``result``. In a class, name a method that is defined above.
        idempotent: True for a tool that may run again if a durable call was killed while it ran, for example
            because it passes on the ``idempotency_key`` of its ToolCall parameter.
        start_early: True for a tool that only reads. A call of it starts as soon as its arguments are
            complete, while the rest of the reply is still streamed. If the reply is not used after that, for
            example because it was cut off, the result is discarded.
    """
    behavior = ReturnBehavior(return_behavior)
    declaration = ToolDeclaration(
        name,
        description,
        behavior,
        timeout,
        needs_approval,
        metadata,
        external,
        tuple(interceptors),
        max_calls,
        compensate,
        start_early,
        idempotent,
    )

    def decorate(decorated: Any) -> Any:
        # Of static and class methods the function inside is marked.
        holder = decorated.__func__ if type(decorated) in (staticmethod, classmethod) else decorated
        try:
            setattr(holder, _DECLARATION, declaration)
        except AttributeError:  # bound methods take no attributes
            decorated = partial(decorated)
            setattr(decorated, _DECLARATION, declaration)
        return decorated

    if isinstance(function, str):
        raise TypeError(f"@tool takes the name of the tool by keyword: @tool(name={function!r})")
    return decorate if function is None else decorate(function)


def tools_of(source: ToolSource, namespace: Mapping[str, object] | None = None) -> list[Tool]:
    """Convert a function, or the ``@tool`` methods of an object, to a list of tools for the model.

    ``namespace`` contains local names that string annotations may use. Raises ToolDefinitionError if there
    are no tools, or if a model cannot call one.
    """
    if isinstance(source, Tool):
        return [source]
    if isinstance(source, (Mapping, ToolSpecification)):
        kind = type(source).__name__
        raise ToolDefinitionError(
            f"a {kind} describes a tool, but cannot run it; pass Tool.from_schema(DICT, function)"
        )
    if isinstance(source, type):
        raise ToolDefinitionError(f"{source.__name__} is a class; pass an object of it, or its methods")
    if inspect.isroutine(source) or isinstance(source, partial):
        return [_tool(source, namespace or {})]
    methods = tool_methods(source)
    if methods:
        return [_tool(method, namespace or {}) for method in methods]
    if callable(source):
        return [_tool(source, namespace or {})]
    raise ToolDefinitionError(_why_not_a_tool(source))


def _why_not_a_tool(source: object) -> str:
    name = type(source).__name__
    if isinstance(source, (list, tuple, set, frozenset)):
        return f"a {name} is not a tool; pass its items: tools=[*LIST]"
    methods_of_service = [one for one in dir(source) if hasattr(getattr(source, one, None), SERVICE_METHOD)]
    if methods_of_service:
        return (
            f"{name} is a service; pass its methods, as in tools=[service.{methods_of_service[0]}], or "
            "decorate methods of its interface with @tool"
        )
    if hasattr(source, "args_schema") and callable(getattr(source, "func", None)):
        label = getattr(source, "name", name)
        return f"{label} is a tool of LangChain; pass its function: {label}.func"
    return f"{name} has no tools: decorate its methods with @tool"


def interceptor_problem(interceptor: object) -> str | None:
    """Return an error message if an object is not a tool interceptor or a tool check, else None.

    The message continues a sentence that begins with the object.
    """
    if isinstance(interceptor, type):
        return f"is the class {interceptor.__name__}; pass {interceptor.__name__}(…)"
    if hasattr(interceptor, "check_arguments") and hasattr(interceptor, "check_result"):
        return None
    if callable(interceptor) and is_async(interceptor):
        name = function_name(interceptor)
        return f"is {name}, which is async; write a generator function that yields effects"
    return call_problem(interceptor, "call", "proceed")


def tool_methods(source: object) -> list[Callable[..., object]]:
    """Return the methods of an object that are decorated with ``@tool``."""
    cls = type(source)
    names = [name for name in dir(cls) if _declaration(getattr(cls, name, None)) is not None]
    return [method for name in names if callable(method := getattr(source, name))]


def _declaration(function: object) -> ToolDeclaration | None:
    declaration = getattr(function, _DECLARATION, None)
    return declaration if isinstance(declaration, ToolDeclaration) else None


def _declared(function: object) -> ToolDeclaration:
    return _declaration(function) or _declaration(unwrapped(function)) or ToolDeclaration()


def _tool(function: Callable[..., object], namespace: Mapping[str, object]) -> Tool:
    inner = unwrapped(function)
    declaration = _declared(function)
    name = str(declaration.name or function_name(inner))
    docs = inspect.getdoc(inner) or ""
    # A provider gives the same functions, or methods of another object, in each call: parse them only once.
    plain = getattr(function, "__func__", function)
    if function is inner and type(plain) is FunctionType and not plain.__closure__ and not namespace:
        signature = _cached_signature(plain, plain is not function, name, docs)
    else:
        signature = _parse_signature(function, inner, name, docs, namespace)
    return _make_tool(function, name, declaration.description or summary_of(docs) or name, signature)


def _make_tool(
    function: Callable[..., object], name: str, description: str, signature: ParsedSignature
) -> Tool:
    """Create a tool from a function and its ``@tool`` settings, and check the settings."""
    inner, declaration = unwrapped(function), _declared(function)
    _check_declaration(declaration, name)
    arguments, injected, return_type = signature
    names = _argument_names(arguments, injected)
    compensate = _compensation(declaration, function, name, names)
    needs_approval = _approval_rule(declaration, function, name, names)
    if declaration.external:
        return _external_tool(declaration, name, description, arguments, return_type, compensate)
    return Tool(
        name=name,
        description=description,
        function=by_name(function),
        arguments=arguments,
        injected=injected,
        # a decorator may hide that the function is async
        asynchronous=is_async(function) or is_async(inner) or _is_async_iterable(inner, return_type),
        return_behavior=declaration.return_behavior,
        timeout=declaration.timeout,
        needs_approval=needs_approval,
        return_type=return_type,
        yields_text=_yields_text(function),
        metadata=declaration.metadata or {},
        interceptors=declaration.interceptors,
        max_calls=declaration.max_calls,
        compensate=compensate,
        start_early=declaration.start_early,
        idempotent=declaration.idempotent,
    )


def _check_declaration(declaration: ToolDeclaration, name: str) -> None:
    """Raise ToolDefinitionError if settings of ``@tool`` are wrong or do not fit each other."""
    if declaration.timeout is not None and declaration.timeout <= 0:
        raise ToolDefinitionError(
            f"the timeout of the tool {name} is {declaration.timeout:g}; it must be greater than 0"
        )
    if declaration.max_calls is not None and not is_at_least(declaration.max_calls, 1):
        raise ToolDefinitionError(
            f"max_calls of the tool {name} is {declaration.max_calls!r}; it must be at least 1"
        )
    if declaration.external and (declaration.needs_approval or declaration.timeout is not None):
        setting = "needs_approval" if declaration.needs_approval else "a timeout"
        raise ToolDefinitionError(
            f"the tool {name} is external and has {setting}; its calls wait in any case, so remove {setting}"
        )
    if declaration.start_early:
        settings = ("needs_approval", "external", "compensate")
        conflict = next((one for one in settings if getattr(declaration, one)), None)
        if conflict is not None:
            message = (
                f"has start_early, which is for tools that only read, and {conflict}; remove one of them"
            )
            raise ToolDefinitionError(f"the tool {name} {message}")
    for interceptor in declaration.interceptors:
        problem = interceptor_problem(interceptor)
        if problem is not None:
            raise ToolDefinitionError(f"an interceptor of the tool {name} {problem}")


def _external_tool(
    declaration: ToolDeclaration,
    name: str,
    description: str,
    arguments: TypeParser[dict[str, object]],
    return_type: Any,
    compensate: Callable[..., object] | None,
) -> Tool:
    if return_type is not inspect.Signature.empty:
        try:
            parser_for(return_type)
        except UnsupportedTypeError as error:
            raise ToolDefinitionError(f"the result of the external tool {name}: {error}") from error
    return Tool(
        name=name,
        description=description,
        function=_run_external,
        arguments=arguments,
        return_behavior=declaration.return_behavior,
        return_type=return_type,
        metadata=declaration.metadata or {},
        external=True,
        interceptors=declaration.interceptors,
        max_calls=declaration.max_calls,
        compensate=compensate,
    )


def _argument_names(arguments: TypeParser[dict[str, object]], injected: Mapping[str, type]) -> list[str]:
    described = getattr(arguments.node, "nodes", None) or (arguments.schema or {}).get("properties", {})
    return [*described, *injected]


def _compensation(
    declaration: ToolDeclaration, function: object, name: str, names: Sequence[str]
) -> Callable[..., object] | None:
    """Return the function that undoes calls of a tool, bound to the same object as the tool.

    Raises ToolDefinitionError if that function has a parameter that the tool does not have.
    """
    if declaration.compensate is None:
        return None
    label = f"compensate of the tool {name}"
    if "result" in names:
        raise ToolDefinitionError(f"the tool {name} has a parameter called result; {label} needs the name")
    return _function_of_arguments(declaration.compensate, function, label, [*names, "result"])


def _approval_rule(
    declaration: ToolDeclaration, function: object, name: str, names: Sequence[str]
) -> NeedsApproval:
    """Return whether calls of a tool must be approved, or the function that decides, bound like the tool."""
    rule, label = declaration.needs_approval, f"needs_approval of the tool {name}"
    if isinstance(rule, bool):
        return rule
    if not callable(rule):
        raise ToolDefinitionError(f"{label} is {rule!r}; pass True, False or a function of the arguments")
    return _function_of_arguments(rule, function, label, names)


def _function_of_arguments(
    value: Callable[..., R], function: object, label: str, names: Sequence[str]
) -> Callable[..., R]:
    """Return a function that gets arguments of a tool by their names, bound to the same object as the tool.

    Raises ToolDefinitionError if it has a parameter that is not one of ``names``.
    """
    if not callable(value):
        raise ToolDefinitionError(f"{label} has the type {type(value).__name__}; pass a function")
    owner = getattr(function.func if isinstance(function, partial) else function, "__self__", None)
    own_name = getattr(value, "__name__", "")
    if owner is not None and getattr(type(owner), own_name, None) is value:
        value = getattr(owner, own_name)
    for parameter in _parameters(value, label):
        if parameter.kind is parameter.VAR_KEYWORD or parameter.name in names:
            continue
        if parameter.default is parameter.empty or parameter.kind is parameter.VAR_POSITIONAL:
            raise ToolDefinitionError(
                f"{label} takes {parameter.name}, which is not a parameter of the tool; it can take "
                f"{', '.join(names)}"
            )
    return by_name(value)


def _parameters(function: Callable[..., object], label: str) -> Iterable[inspect.Parameter]:
    try:
        return inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"the signature of {label} is unknown: {error}") from error


@lru_cache(maxsize=1024)
def _cached_signature(function: FunctionType, bound: bool, name: str, docs: str) -> ParsedSignature:
    """Return the argument parser and the return type of a tool function, cached for each function.

    The function must not have a closure.
    """
    called = MethodType(function, function) if bound else function  # only the missing "self" matters
    return _parse_signature(called, called, name, docs, {})


def _yields_text(function: object) -> bool:
    while isinstance(function, partial):  # of a bound method that is decorated
        function = function.func
    return getattr(function, YIELDS_TEXT, False)


def _is_async_iterable(function: object, return_type: object) -> bool:
    """Return True if a tool function yields values asynchronously."""
    result_class = Target.of(return_type).origin or return_type
    is_iterable = isinstance(result_class, type) and issubclass(result_class, AsyncIterable)
    return is_iterable or inspect.isasyncgenfunction(function)


def _parse_signature(
    function: Callable[..., object], inner: object, name: str, docs: str, namespace: Mapping[str, object]
) -> ParsedSignature:
    try:
        fields, injected, return_type = tool_signature(function, inner, name, docs, namespace)
        record: Any = _make_typed_dict(f"{name}_arguments", fields)
        # Not parser_for, which would keep the parser of this new type for ever.
        arguments = cast(TypeParser[dict[str, object]], ParserRegistry().parser_for(record))
    except UnsupportedTypeError as error:
        raise ToolDefinitionError(f"the tool {name}: {error}") from error
    problem = media_problem(arguments) or _default_problem(function, arguments)
    if problem is not None:
        raise ToolDefinitionError(f"the tool {name}: {problem}")
    if _is_plain_class(return_type):
        message = f"it returns {type_name(return_type)}, which cannot be written as JSON for the model"
        raise ToolDefinitionError(f"the tool {name}: {message}; return text, a dataclass or other data")
    return arguments, injected, return_type


# The attributes that show that a class is a dataclass, pydantic model, attrs class or msgspec struct, or that
# it is iterable.
_DATA_ATTRIBUTES = (
    "__dataclass_fields__",
    "__pydantic_core_schema__",
    "__get_pydantic_core_schema__",
    "__attrs_attrs__",
    "__struct_fields__",
    "__iter__",
    "__next__",
    "__aiter__",
    "__await__",
)


def has_own_text(cls: Any) -> bool:
    """Return True if a class has a ``__str__`` that shows its objects as meaningful text."""
    return cls.__str__ is not object.__str__


def _is_plain_class(cls: object) -> bool:
    """Return True if objects of a class cannot be shown to a model, as it has no fields and no ``__str__``.

    A class with subclasses gives False, because an object may be an instance of a subclass.
    """
    if not isinstance(cls, type) or cls is inspect.Signature.empty or cls.__module__ == "builtins":
        return False
    if has_own_text(cls) or any(hasattr(cls, name) for name in _DATA_ATTRIBUTES) or cls.__subclasses__():
        return False
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return False
    try:
        parser_for(cls)
    except UnsupportedTypeError:
        return True
    return False


def _default_problem(function: Callable[..., object], arguments: TypeParser[dict[str, object]]) -> str | None:
    """Return an error if a default value of a tool parameter has the wrong type; None if all fit.

    Only strings, numbers and bools are checked. Other defaults, such as None, may mean "no value".
    """
    nodes = getattr(arguments.node, "nodes", {})
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in nodes:
            problem = default_problem(parameter.default, nodes[parameter.name])
            if problem is not None:
                return f"the default of {parameter.name} is {problem}"
    return None


def default_problem(default: object, node: Node[object]) -> str | None:
    """Return an error if a default value does not fit the type of its parameter, else None."""
    if not isinstance(default, (str, int, float)):
        return None
    if isinstance(default, float) and not math.isfinite(default):  # JSON cannot express it
        return None
    try:
        node.read(read_exact(to_json(default).decode()), Cursor(Leniency.NONE))
    except ValidationFailure as failure:
        return f"{default!r}: {failure.problems[0].message}"
    return None


def _make_typed_dict(name: str, fields: dict[str, object]) -> object:
    return TypedDict(name, fields)  # type: ignore[operator]  # mypy wants to know the fields
