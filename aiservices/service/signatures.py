"""The signature of a service method: its parameters, and the type and shape of what it returns."""

from __future__ import annotations

import collections.abc
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import NoneType
from typing import Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_overloads, get_type_hints

from output_parsers.parser.type_parser import TypeParser, parser_for
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.types.node import OutputParser
from output_parsers.types.target import TypeExpression, substitute, type_name

from ..engine.results import Result
from ..engine.streams import AsyncStream, Stream
from ..interface.decorators import CallId, MemoryId, UserName
from ..interface.parameters import Parameter, Role, RoleError, memory_id_type_problems, method_parameters
from ..models.errors import DefinitionProblem
from ..models.messages import AiMessage, ChatReply, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from ..tools.tool import default_problem

_ITERATORS = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_ASYNC_ITERATORS = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)
_UNIONS = (Union, types.UnionType)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


# Return types whose objects come with a reply; a model would invent them.
_PARTS_OF_REPLIES = (Usage, ToolCall, SystemMessage, UserMessage, ToolMessage)


class ReturnShape(Enum):
    """The form in which a service method returns its value: directly, in a Result, or as a stream."""

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


class MethodSignature(NamedTuple):
    """The parameters and the return annotation of a service method, or of another call of a model.

    Attributes:
        signature: The signature without ``self``.
        parameters: The parameters with their roles; None if one of them or an annotation is wrong.
        returns: The type and shape of the answer; None if the return annotation is wrong.
    """

    signature: inspect.Signature
    parameters: tuple[Parameter, ...] | None
    returns: ReturnType | None

    @property
    def role_names(self) -> dict[type, str]:
        """The names of the parameters that are ids or the name of the user, by their markers."""
        markers: dict[Role, type] = {
            Role.MEMORY_ID: MemoryId,
            Role.USER_NAME: UserName,
            Role.CALL_ID: CallId,
        }
        return {
            markers[one.role]: one.name
            for one in self.parameters or ()
            if one.role is not None and one.role in markers
        }

    def has_role(self, role: Role) -> bool:
        """Return True if a parameter of the method has a role."""
        return any(parameter.role is role for parameter in self.parameters or ())


def call_signature(output_type: object, qualname: str, problems: list[DefinitionProblem]) -> MethodSignature:
    """Return the signature of a call without a method, such as one of ``structured``.

    Adds a problem if a method could not return the type.
    """
    returns = ReturnType(output_type, ReturnShape.VALUE, is_async=True)
    try:
        shape = parse_return_type(output_type, is_async=False).shape
        if shape in (ReturnShape.RESULT, ReturnShape.STREAM):
            name, value = type_name(output_type), type_name(get_args(output_type)[0])
            raise ReturnTypeError(f"{name} is for methods of a service; pass {value}")
    except ReturnTypeError as error:
        problems.append(DefinitionProblem(qualname, str(error)))
        return MethodSignature(inspect.Signature(), (), None)
    return MethodSignature(inspect.Signature(), (), returns)


def read_signature(
    function: Callable[..., object],
    qualname: str,
    namespace: Mapping[str, object],
    type_arguments: Mapping[object, object],
    problems: list[DefinitionProblem],
) -> MethodSignature:
    """Read the signature of a method, and add its mistakes to ``problems``.

    String annotations may use the names in ``namespace``. ``type_arguments`` are the types for the type
    variables of a generic interface.
    """
    hints = _type_hints(function, namespace, type_arguments, qualname, problems)
    signature = inspect.signature(function)
    parameters: tuple[Parameter, ...] | None = None
    try:
        parameters = method_parameters(signature, hints or {})
        problems += memory_id_type_problems(parameters, qualname)
        problems += _default_problems(signature, hints or {}, parameters, qualname)
    except (RoleError, UnsupportedTypeError) as error:
        problems.extend(DefinitionProblem(qualname, message) for message in error.args)
    without_self = signature.replace(parameters=list(signature.parameters.values())[1:])
    returns = _return_type(function, hints, qualname, problems)
    return MethodSignature(without_self, None if hints is None else parameters, returns)


def _default_problems(
    signature: inspect.Signature, hints: Mapping[str, object], parameters: Iterable[Parameter], qualname: str
) -> Iterator[DefinitionProblem]:
    """Yield an error for each str, number or bool default that does not fit its parameter's type.

    Other defaults, such as None, may mean "no value".
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
    # if all definitions are overloads, typing replaces the method with a function of its own
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
    # For ``Person | ItemError``, a ``Person`` is requested.
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
