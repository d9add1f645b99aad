"""Read the parameters of service methods and tools, including their roles, and check memory ids."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial, wraps
from types import NoneType
from typing import Annotated, Any, NamedTuple, NotRequired, TypeVar, Union, cast, get_origin, get_type_hints
from uuid import UUID

from pydantic_core import to_json

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.constraints import SECRETS
from output_parsers.types.node import Node, OutputParser
from output_parsers.types.records import ObjectNode
from output_parsers.types.target import Description, Target, TypeExpression, type_name

from ..models.errors import DefinitionProblem, MemoryIdError
from ..models.media import Audio, File, Image
from ..models.messages import ToolCall, UserMessage
from ..models.requests import ChatOptions
from .decorators import CallContext, CallId, History, MemoryId, ToolContext, Tools, UserName

T = TypeVar("T")

# --- The ids of conversations ---

_PLAIN = (str, int, UUID)
_MAX_LENGTH = 256  # characters
_EXPECTED = "a str, an int, a UUID, or a frozen record of them"


def memory_id_type_problem(kind: object) -> str | None:
    """Return an error message if values of a class cannot be memory ids, else None.

    The message continues a sentence that begins with "it is a memory id, and".
    """
    cls = get_origin(kind) or kind
    if not isinstance(cls, type) or _is_plain(cls) or cls is NoneType:
        return None
    fields = _fields_of(cls)
    if fields is None:
        return f"{type_name(cls)} cannot be one; use {_EXPECTED}"
    if not _is_frozen(cls):
        return f"{cls.__name__} is not frozen, so an id could change; make it frozen, or use a NamedTuple"
    if not fields:
        return f"{cls.__name__} has no fields, so it does not name a conversation"
    if getattr(cls, "model_config", {}).get("extra") == "allow":
        return f"{cls.__name__} allows extra fields, which are not part of an id; forbid them"
    for name, hint in fields.items():
        target = Target.of(hint)
        if not (isinstance(target.type, type) and _is_plain(target.type)):
            return f"{cls.__name__}.{name} is {type_name(target.type)}; use str, int and UUID"
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def memory_id_problem(memory_id: object) -> str | None:
    """Return an error message if a value is not a valid memory id, else None.

    The message continues a sentence that begins with "the memory id".
    """
    values: Mapping[str, object] = {"": memory_id}
    if not _is_plain(type(memory_id)):
        fields = _values_of(memory_id)
        if not fields:
            kind = "None" if memory_id is None else type(memory_id).__name__
            return f"is {kind}; it must be {_EXPECTED}"
        values = fields
    for name, value in values.items():
        place = f" has the field {name}, which" if name else ""
        if not _is_plain(type(value)):
            kind = "None" if value is None else type(value).__name__
            return f"{place} is {kind}; it must be a str, an int or a UUID".lstrip()
        if not str(value).strip():
            advice = "pass the id of a conversation, because all users with an empty id would share one"
            return f"{place} is {value!r}; {advice}".lstrip()
        if isinstance(value, str) and not value.isascii() and _SURROGATE.search(value):
            return f"{place} is {value!r}, which is not valid Unicode".lstrip()
    size = len(memory_id_text(memory_id))
    if size > _MAX_LENGTH:
        return f"has {size} characters; it may have at most {_MAX_LENGTH}"
    return None


_INT_KEY = "int:"


def memory_id_text(memory_id: object) -> str:
    """Return the string key under which a memory id's conversation is stored.

    The key of a record is its canonical JSON, and the key of an int begins with "int:", because 1 and "1" may
    be two users. A str that looks like such a key is stored as JSON, so that it cannot equal one.
    """
    if not isinstance(memory_id, str):
        data = memory_id_data(memory_id)
        if isinstance(data, dict):
            return _to_json(data)
        return f"{_INT_KEY}{data}" if isinstance(data, int) else str(data)
    text = str(memory_id)
    return _to_json(text) if text.startswith(("{", '"', _INT_KEY)) else text


def memory_id_data(memory_id: object) -> object:
    """Convert a memory id to JSON data, for example a UUID to a string or a record to a dict."""
    if isinstance(memory_id, UUID):
        return str(memory_id)
    fields = None if _is_plain(type(memory_id)) else _values_of(memory_id)
    if not fields:
        return memory_id
    return {name: str(value) if isinstance(value, UUID) else value for name, value in fields.items()}


def memory_id_from_data(data: object, hint: object) -> object:
    """Convert JSON data to a memory id of a given type, or raise MemoryIdError."""
    classes = list(_classes(hint))
    if isinstance(data, str) and UUID in classes and not any(issubclass(cls, str) for cls in classes):
        return UUID(data)
    if not isinstance(data, dict):
        return data
    for cls in classes:
        fields = _fields_of(cls)
        if fields is not None and fields.keys() == data.keys():
            values = {name: memory_id_from_data(data[name], one) for name, one in fields.items()}
            return _record(cls, values)
    raise MemoryIdError(f"the fields {', '.join(map(str, data))} are not those of a memory id of the method")


def _to_json(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _is_plain(cls: type) -> bool:
    return issubclass(cls, _PLAIN) and cls is not bool


def _classes(hint: object) -> Iterator[type]:
    target = Target.of(hint)
    if isinstance(target.type, type):
        yield target.type
    for arg in target.args:
        yield from _classes(arg)


def _fields_of(cls: type) -> dict[str, object] | None:
    """Return the fields of a record class with their types; None for other classes."""
    names = _field_names(cls)
    if names is None:
        return None
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:  # a string annotation may name anything, for example a local of a function
        hints = {}
    return {name: hints.get(name, Any) for name in names}


def _field_names(cls: type) -> list[str] | None:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return list(cls._fields)
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    names = getattr(cls, "model_fields", None) or getattr(cls, "__struct_fields__", None)
    return None if names is None else list(names)  # pydantic models and msgspec Structs


def _is_frozen(cls: Any) -> bool:
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None:
        return bool(params.frozen)
    if issubclass(cls, tuple):
        return True
    if hasattr(cls, "__attrs_attrs__"):
        return bool(cls.__setattr__.__name__ == "_frozen_setattrs")
    config = getattr(cls, "__struct_config__", None)
    if config is not None:
        return bool(config.frozen)
    return bool(cls.model_config.get("frozen"))


def _values_of(record: object) -> dict[str, object] | None:
    names = _field_names(type(record))
    return None if names is None else {name: getattr(record, name) for name in names}


def _record(cls: Any, values: dict[str, object]) -> object:
    """Create an object of a record class from the values of its fields."""
    if hasattr(cls, "model_construct"):
        return cls.model_construct(**values)  # by the names of the fields, which may have aliases
    aliases = {one.name: one.alias for one in getattr(cls, "__attrs_attrs__", ())}
    try:
        return cls(**{aliases.get(name, name): value for name, value in values.items()})
    except Exception as error:  # __init__ and __post_init__ may raise anything
        raise MemoryIdError(f"{cls.__name__} cannot be made from {', '.join(values)}: {error}") from error


class Role(StrEnum):
    """The special purpose of a method parameter, such as the id or the history of a conversation."""

    MEMORY_ID = "MemoryId"
    USER_NAME = "UserName"
    CALL_ID = "CallId"
    HISTORY = "History"
    TOOL_CONTEXT = "ToolContext"
    TOOLS = "Tools"
    USER_MESSAGE = "UserMessage"
    OPTIONS = "ChatOptions"
    MEDIA = "media"


_MARKERS: dict[object, Role] = {
    MemoryId: Role.MEMORY_ID,
    UserName: Role.USER_NAME,
    CallId: Role.CALL_ID,
    History: Role.HISTORY,
    ToolContext: Role.TOOL_CONTEXT,
    Tools: Role.TOOLS,
    UserMessage: Role.USER_MESSAGE,
}
_MEDIA = frozenset((Image, Audio, File))
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_LISTS = (list, tuple, Sequence, Collection, Iterable)


class RoleError(TypeError):  # callers turn it into DefinitionProblems, which add the location
    """Raised if one parameter has two markers (such as MemoryId), or two parameters have the same marker.

    Each of ``args`` is the text of one problem.
    """


class Parameter(NamedTuple):
    """A parameter of a service method, with its type and its special purpose, if any.

    Attributes:
        name: The name.
        role: The role; None for data that templates can use.
        types: The classes that the annotation names, the members of unions included.
        parts: The classes in the annotation, those inside lists and other generic types included.
        hint: The annotation with all names resolved; None without an annotation.
    """

    name: str
    role: Role | None
    types: tuple[Any, ...]
    parts: tuple[Any, ...]
    hint: object = None


def method_parameters(
    signature: inspect.Signature, hints: Mapping[str, TypeExpression]
) -> tuple[Parameter, ...]:
    """Return the parameters of a service method, except ``self``, with their special purposes."""
    problems: list[str] = []
    parameters = []
    for name in list(signature.parameters)[1:]:
        hint = hints.get(name)
        roles, parts = _roles(hint), tuple(_parts(hint))
        problems += _problems_of(name, hint, roles, parts, signature.parameters[name].kind)
        parameters.append(Parameter(name, roles[0] if roles else None, _types(hint), parts, hint))
    # Several parameters may be for tools or contain media; all other roles are unique.
    for role in Role:
        holders = [parameter.name for parameter in parameters if parameter.role is role]
        if len(holders) > 1 and role not in (Role.TOOL_CONTEXT, Role.MEDIA):
            problems.append(f"the parameters {' and '.join(holders)} have the same role, {role.value}")
    if problems:
        raise RoleError(*problems)
    return tuple(parameters)


def _problems_of(
    name: str, hint: object, roles: Sequence[Role], parts: Sequence[object], kind: object
) -> Iterator[str]:
    """Yield why a parameter cannot have its annotation."""
    if len(roles) > 1:
        both = " and ".join(role.value for role in roles)
        yield f"the parameter {name} has two roles: {both}; keep one of them"
    if Role.MEDIA in roles:
        yield from _media_problems(name, hint, kind)
    if Role.TOOLS in roles and not _is_list(hint, kind):
        yield f"the parameter {name} takes tools; annotate it as Annotated[Sequence[Any], Tools]"
    secret = next((one for one in parts if isinstance(one, type) and issubclass(one, SECRETS)), None)
    if secret is not None and not roles:
        yield f"the parameter {name} is {type_name(secret)}, which is sent as asterisks; annotate it as str"


def _is_list(hint: object, kind: object) -> bool:
    members = [target.origin or target.type for target in _members(hint) if target.origin is not Union]
    return kind not in _VARIADIC and all(one in _LISTS or one in (None, NoneType) for one in members)


def _roles(hint: object) -> list[Role]:
    marks = [item if isinstance(item, type) else type(item) for item in _metadata(hint)]
    roles = [_MARKERS[mark] for mark in marks if mark in _MARKERS]
    types = _types(hint)
    if ChatOptions in types:
        roles.append(Role.OPTIONS)
    if UserMessage in types and Role.USER_MESSAGE not in roles:
        roles.append(Role.USER_MESSAGE)
    if not _MEDIA.isdisjoint(_parts(hint)):
        roles.append(Role.MEDIA)
    return roles


def memory_id_type_problems(parameters: Iterable[Parameter], qualname: str) -> list[DefinitionProblem]:
    """Return an error for each memory id parameter whose type is not allowed for ids."""
    return [
        DefinitionProblem(qualname, f"the parameter {parameter.name} is a memory id, and {problem}")
        for parameter in parameters
        if parameter.role is Role.MEMORY_ID
        for problem in map(memory_id_type_problem, parameter.types)
        if problem is not None
    ]


def _parts(hint: object) -> Iterator[TypeExpression]:
    """Yield the classes inside a type hint, such as ``int`` and ``str`` for ``list[int | str]``."""
    for target in _members(hint):
        if target.origin is Union:
            continue
        if target.origin not in _LISTS or not target.args:
            yield target.type
        for arg in target.args:
            origin = get_origin(arg)  # an alias may be recursive, so it is not expanded
            if isinstance(arg, type) or isinstance(origin, type) or origin is Union:
                yield from _parts(arg)


def _media_problems(name: str, hint: object, kind: object) -> Iterator[str]:
    if kind is inspect.Parameter.VAR_KEYWORD:
        yield f"the parameter **{name} takes media by any name; declare each one, or take *{name}"
    if not all(part is None or part in _MEDIA for part in _parts(hint)):
        forms = "an Image, Audio or File, a list of them, or None"
        yield f"the parameter {name} takes media and something else; it can take {forms}"


def _members(hint: object) -> tuple[Target, ...]:
    """Yield a type hint and, for a union such as ``int | None``, each member of the union."""
    target = Target.of(hint)
    if target.origin is not Union:
        return (target,)
    return (target, *(member for arg in target.args for member in _members(arg)))


def _metadata(hint: object) -> tuple[object, ...]:
    """Return the ``Annotated`` metadata of a type hint, including the metadata of union members."""
    return tuple(item for target in _members(hint) for item in target.metadata)


def _types(hint: object) -> tuple[object, ...]:
    return tuple(target.type for target in _members(hint) if target.origin is not Union)


def media_problem(parser: OutputParser[object]) -> str | None:
    """Return an error message if an output type contains images or other media, else None."""
    if not isinstance(parser, TypeParser):
        return None
    media_type = _find_media(parser.node, "", set())
    if media_type is None:
        return None
    return (
        f"a model writes text, so it cannot write an object of {media_type}; use str, for example for a URL"
    )


def _find_media(node: Node[object], path: str, visited: set[int]) -> str | None:
    """Return the class name and path of the first image or other media in a type, or None."""
    if id(node) in visited:  # the type is recursive
        return None
    visited.add(id(node))
    if not isinstance(node, ObjectNode):
        parts: Iterable[tuple[str, Node[object]]] = ((path, part) for part in node.parts)
    elif node.spec.cls in _MEDIA:
        return f"{node.name} (in {path})" if path else node.name
    else:
        parts = ((f"{node.name}.{name}", part) for name, part in node.nodes.items())
    return next(filter(None, (_find_media(part, place, visited) for place, part in parts)), None)


# The parameters that the model does not write: arguments of the method, the tool call, and the Invocation.
_INJECTED = (ToolContext, MemoryId, UserName, ToolCall, CallContext)
# These belong to the call of the method. The model and the engine do not pass them to a tool.
_CALL_ONLY = (History, ChatOptions, Tools)
_SECTIONS = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Returns|Raises|Yields)[ \t]*(?::|\n[ \t]*---)"
    r"|:(?:param|returns?)\b)",
    re.MULTILINE,
)
_PARAMETER = re.compile(
    r"[ \t]*(?::param (?:\S+ )?(\w+):|(\w+)(?: \([^)]*\))?:(?=.*\S)|(\w+) : .*$)[ \t]*(.*)"
)


class ToolDefinitionError(TypeError):  # callers turn it into a DefinitionProblem, which adds the location
    """Raised if a function cannot be a tool for the model, for example because type hints are missing."""


def unwrapped(function: Any) -> Any:
    """Return the original function inside decorators and ``functools.partial`` objects."""
    while True:
        inner = function.func if isinstance(function, partial) else inspect.unwrap(function)
        if inner is function:
            return function
        function = inner


def by_name(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function that takes all arguments by name, as models write them.

    A function without positional-only parameters is returned as it is.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function
    names = [one.name for one in signature.parameters.values() if one.kind is one.POSITIONAL_ONLY]
    if not names:
        return function
    changed = [
        one.replace(kind=one.POSITIONAL_OR_KEYWORD) if one.name in names else one
        for one in signature.parameters.values()
    ]
    named = signature.replace(parameters=changed)

    def call(**arguments: object) -> T:
        bound = named.bind(**arguments)
        bound.apply_defaults()
        positional = [bound.arguments.pop(name) for name in names]
        return function(*positional, **{k: v for k, v in arguments.items() if k not in names})

    async def acall(**arguments: object) -> object:
        return await cast("Callable[..., Awaitable[object]]", call)(**arguments)

    wrapper: Any = wraps(function)(acall if is_async(function) else call)
    wrapper.__signature__ = named
    return cast("Callable[..., T]", wrapper)


def function_name(function: object) -> str:
    """Return the name of a function for messages, or the class name of a callable object."""
    name: str = getattr(function, "__name__", "__call__")
    return name if name != "__call__" else type(getattr(function, "__self__", function)).__name__


def is_async(function: object) -> bool:
    """Return True if a function or callable object is defined with ``async def``."""
    called = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def is_generator_function(function: object) -> bool:
    """Return True if a function or callable object contains ``yield``, as the flows of interceptors do."""
    return inspect.isgeneratorfunction(function if inspect.isroutine(function) else type(function).__call__)


def summary_of(docs: str) -> str:
    """Return a docstring without its sections on parameters, results and errors."""
    return _SECTIONS.split(docs, maxsplit=1)[0].strip()


class ToolSignature(NamedTuple):
    """The signature of a tool: the arguments that the model gives, hidden arguments, and the return type.

    Attributes:
        parameters: The types of the parameters that the model writes, by name.
        injected: The roles of the other parameters, by name.
        return_type: The return annotation; ``inspect.Signature.empty`` without one.
    """

    parameters: dict[str, TypeExpression]
    injected: dict[str, type]
    return_type: TypeExpression


def tool_signature(
    function: object, inner: object, name: str, docs: str, namespace: Mapping[str, object]
) -> ToolSignature:
    """Analyze the parameters, descriptions and return type of a function that a model can call.

    Raises ToolDefinitionError if a parameter cannot be passed by a model.
    """
    hints = _hints(inner, name, namespace)
    bound = function.keywords if isinstance(function, partial) else {}
    descriptions = dict(parameter_docs(docs))
    fields: dict[str, TypeExpression] = {}
    injected: dict[str, type] = {}
    for parameter in _signature(function, name).parameters.values():
        if parameter.kind in _VARIADIC:
            raise ToolDefinitionError(
                f"the tool {name} has the parameter {parameter}; models pass arguments by name"
            )
        if parameter.name in bound:
            continue
        if parameter.name not in hints:
            raise ToolDefinitionError(
                f"the parameter {parameter.name} of the tool {name} has no type annotation; annotate it"
            )
        marks = list(_marks(hints[parameter.name]))
        role = _injected_role(marks)
        if role is not None:
            injected[parameter.name] = role
        elif not any(mark in _CALL_ONLY for mark in marks):
            fields[parameter.name] = _described(
                hints[parameter.name], parameter, descriptions.get(parameter.name)
            )
        elif parameter.default is parameter.empty:
            message = f"the tool {name} needs {parameter.name}, which tools do not get; give it a default"
            raise ToolDefinitionError(message)
    return ToolSignature(fields, injected, hints.get("return", inspect.Signature.empty))


def schema_tool_signature(function: object) -> ToolSignature:
    """Analyze a tool function whose arguments are described by a JSON Schema.

    Both are unknown if an annotation cannot be resolved.
    """
    try:
        hints = _hints(unwrapped(function), "", {})
    except ToolDefinitionError:
        hints = {}
    bound = function.keywords if isinstance(function, partial) else {}
    roles = {name: _injected_role(_marks(hint)) for name, hint in hints.items() if name != "return"}
    injected = {name: role for name, role in roles.items() if role is not None and name not in bound}
    return ToolSignature({}, injected, hints.get("return", inspect.Signature.empty))


def _injected_role(marks: Iterable[type]) -> type | None:
    return next((role for mark in marks for role in _INJECTED if issubclass(mark, role)), None)


def invocation_parameters(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the function's parameters that receive the ``Invocation``, by their annotation or their name.

    A function whose signature is unknown has none.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    try:
        hints = get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
    except Exception:  # a name that only type checkers see; then the text of the annotation decides
        hints = {}
    names = []
    for parameter in parameters:
        hint = hints.get(parameter.name, parameter.annotation)
        if hint is parameter.empty:
            is_invocation = parameter.name == "invocation"
        elif isinstance(hint, str):
            is_invocation = hint.rpartition(".")[2] == "Invocation"
        else:
            is_invocation = any(issubclass(mark, CallContext) for mark in _marks(hint))
        if is_invocation:
            names.append(parameter.name)
    return tuple(names)


def takes_invocation(function: Callable[..., object]) -> bool:
    """Return True if a function takes the ``Invocation`` of the call as its second argument.

    A second parameter that has a default, and another type or name, does not count.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name in invocation_parameters(function)


def call_problem(function: object, *parameters: str, may_take_invocation: bool = False) -> str | None:
    """Return an error message if a value cannot be called with the given argument names, else None.

    The arguments are passed by position. With ``may_take_invocation`` the function may take the invocation as
    the second argument. The message continues a sentence that begins with the value.
    """
    expected = f"({', '.join(parameters)})"
    if may_take_invocation:
        expected += f" or ({', '.join(parameters)}, invocation)"
    if not callable(function):
        return f"has the type {type(function).__name__}; pass a function of {expected}"
    if may_take_invocation and takes_invocation(function):
        parameters = (*parameters, "invocation")
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError as error:
        return f"is {function_name(function)}, which cannot be called with {expected}: {error}"
    except ValueError:  # the signatures of some functions in C are unknown
        pass
    return None


def _signature(function: Any, name: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"the signature of the tool {name} is unknown: {error}") from error


def _hints(function: object, name: str, namespace: Mapping[str, object]) -> dict[str, TypeExpression]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, localns=dict(namespace), include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        raise ToolDefinitionError(f"an annotation of the tool {name} cannot be resolved: {error}") from error


def _marks(hint: object) -> Iterator[type]:
    """Yield the classes in a type hint: ``UserName`` and ``str`` for ``Annotated[str, UserName]``."""
    target = Target.of(hint)
    yield from (mark if isinstance(mark, type) else type(mark) for mark in target.metadata)
    if target.origin is Union:
        for member in target.args:
            yield from _marks(member)
    elif isinstance(target.type, type):
        yield target.type


def _described(hint: object, parameter: inspect.Parameter, documented: str | None) -> object:
    """Add a tool parameter's description to its type hint, and mark it optional if it has a default."""
    description = Target.of(hint).description or documented
    default = parameter.default
    if default is parameter.empty:
        return hint if description is None else Annotated[hint, Description(description)]
    if isinstance(default, (str, int, float)):
        default = f"Default: {to_json(default).decode()}"
        description = f"{description.rstrip('.')}. {default}" if description else default
    return NotRequired[hint if description is None else Annotated[hint, Description(description)]]


def parameter_docs(docs: str) -> Iterator[tuple[str, str]]:
    """Yield the name and description of each parameter in a docstring (Google, NumPy or Sphinx style)."""
    name, name_indent, description = "", 0, ""
    for line in docs.splitlines():
        match, indent = _PARAMETER.match(line), len(line) - len(line.lstrip())
        if name and line.strip() and indent > name_indent:  # a continuation line of the description
            description = f"{description} {line.strip()}".strip()
            continue
        yield name, description
        name, name_indent, description = "", 0, ""
        if match is not None:
            name, name_indent, description = match[1] or match[2] or match[3], indent, match[4].strip()
    yield name, description
