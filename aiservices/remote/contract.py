"""Describe an interface for remote callers: its methods with their arguments, return values and events.

``contract_of`` reads a Protocol or ABC once. The endpoints, the client, the OpenAPI document and the command
line are all built from the resulting ``Contract``, so they always agree.

Streaming methods respond with server-sent events, whose data is JSON:

| Return type | Events |
|---|---|
| text chunks | ``text`` (a chunk as JSON string) … ``end`` |
| items | ``item`` (a value) or ``unfit`` (an item that cannot be read) … ``end`` |
| a stream of one value | ``attempt`` (discard what came before), ``snapshot``, ``field`` … ``result`` |

Every stream may end with ``error`` instead, whose data is a problem. A stream without any of these last
events was cut off.

The ids of the events number them. A browser that reconnects after the end of a stream sends the last id, by
which the server recognizes it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, NamedTuple, NotRequired, Protocol, get_args, get_origin

from pydantic import Field
from pydantic_core import to_json

from output_parsers.parser.type_parser import DEFAULT_REGISTRY, ParserFactory, ParserRegistry
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.types.node import JsonSchema
from output_parsers.types.records import EnvelopeNode
from output_parsers.types.target import Description, Target, type_arguments_by_class, type_name

from ..documents.document import Document
from ..engine.streams import AttemptStarted, Completed, FieldCompleted
from ..interface.decorators import declaration_of, enclosing_names, is_stub, methods_of
from ..interface.parameters import Parameter, Role, parameter_docs, summary_of
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.media_policy import MediaPolicy
from ..models.messages import AiMessage, ReplyDelta, SystemMessage, ToolMessage, UserMessage
from ..service.methods import is_service_method, service_method_of
from ..service.signatures import ReturnShape, ReturnType, read_signature
from ..tools.tool import Denied
from .codec import (
    JsonCodec,
    codec_for,
    from_json_records,
    json_type,
    result_codec,
    to_json_records,
    typed_dict,
    write_result,
)
from .problems import Problem

# The model never sees these arguments, and they control what a call may do. A remote caller must not set
# them.
_SERVER_ROLES = (Role.TOOL_CONTEXT, Role.OPTIONS, Role.TOOLS)
# These arguments say who the caller is.
CALLER_ROLES = (Role.MEMORY_ID, Role.USER_NAME, Role.CALL_ID)
MAX_ID_LENGTH = 256  # characters
RESUME_PATH = "/resume"  # after the path of a method: continue a call that waits for approval
_DANGERS: dict[Role | None, str] = {
    Role.MEMORY_ID: "any memory id as {name}, and so continue the conversations of others",
    Role.USER_NAME: "the name of another user as {name}",
    Role.CALL_ID: "any call id as {name}, and so read the answers of others",
}
_SCALAR_TYPES = ("string", "integer", "number", "boolean")


class Argument(NamedTuple):
    """A service method's parameter that remote callers pass.

    Attributes:
        name: The name of the parameter.
        annotation: The declared type as a user would write it.
        role: The role of the parameter, if it is not plain data for the templates.
        codec: The codec of the type; for ``*args``, the codec of a list of that type.
        required: True if the parameter has no default.
        variadic: True for ``*args``.
        takes_document: True if it is a Document, or a list of documents.
    """

    name: str
    annotation: str
    role: Role | None
    codec: JsonCodec[object]
    required: bool
    variadic: bool
    takes_document: bool = False

    @property
    def query_parameters(self) -> tuple[QueryParameter, ...] | None:
        """The query parameters that pass this argument in a URL; None if a URL cannot contain it.

        A record is passed by its fields: ``?director=x`` for a record with the field ``director``.
        """
        parameter = _query_parameter(self.name, self.codec.schema, required=self.required)
        if parameter is not None:
            return (parameter,)
        record = _without_null(self.codec.schema, required=self.required)
        fields = record.get("properties")
        if not fields or record.get("type") != "object" or self.role is not None:
            return None
        required_fields = record.get("required", ())
        parameters = [
            _query_parameter(name, schema, required=name in required_fields, is_field=True)
            for name, schema in fields.items()
        ]
        if not self.required:  # the caller may leave all fields out
            parameters = [parameter and parameter._replace(required=False) for parameter in parameters]
        return None if None in parameters else tuple(filter(None, parameters))


class QueryParameter(NamedTuple):
    """A query parameter of a GET request, for an argument or for one field of a record argument.

    Attributes:
        name: The parameter's name in the query string.
        schema: The JSON Schema of the value, without null: a query string has no null, but a caller can leave
            an optional parameter out.
        required: True if the value has no default.
        is_field: True if the parameter is a field of the argument.
    """

    name: str
    schema: JsonSchema
    required: bool
    is_field: bool

    @property
    def is_list(self) -> bool:
        """True if the query parameter may appear several times in a URL, once for each list item."""
        return self.schema.get("type") == "array"

    @property
    def scalar_type(self) -> str:
        """The JSON type of one value of the query parameter, such as "integer"."""
        return str((self.schema["items"] if self.is_list else self.schema)["type"])


def _query_parameter(
    name: str, schema: JsonSchema, *, required: bool, is_field: bool = False
) -> QueryParameter | None:
    """Return the query parameter for a string, number, boolean or list of these; None for other types."""
    value = _without_null(schema, required=required)
    item = value.get("items") or {} if value.get("type") == "array" else value
    fits = isinstance(item.get("type"), str) and item["type"] in _SCALAR_TYPES
    return QueryParameter(name, value, required, is_field) if fits else None


def _without_null(schema: JsonSchema, *, required: bool) -> JsonSchema:
    """Remove null from the JSON Schema of an optional parameter (``T | None``)."""
    others = [member for member in schema.get("anyOf", ()) if member.get("type") != "null"]
    return others[0] if len(others) == 1 and not required else schema


@dataclass(eq=False)
class Method:
    """A service method with its signature, and converters to JSON for its arguments and return value.

    Attributes:
        qualname: ``Service.method``.
        service: The name of the interface.
        name: The name of the method.
        signature: The signature without ``self``.
        returns: The type and shape of the return annotation.
        arguments: The parameters that a remote caller passes.
        server_parameters: The names of parameters that only the server sets, or that keep their defaults.
        value_codec: The codec of the value; for an iterator, of one item.
        result_codec: The codec of a Result: the value with its ``account``.
        arguments_codec: The codec of the JSON object of all arguments.
        doc: The method's description, from its docstring.
    """

    qualname: str
    doc: str
    signature: inspect.Signature
    returns: ReturnType
    arguments: tuple[Argument, ...]
    server_parameters: tuple[str, ...]
    value_codec: JsonCodec[object]
    result_codec: JsonCodec[object]
    arguments_codec: JsonCodec[dict[str, object]]

    def __post_init__(self) -> None:
        self.service, self.name = self.qualname.split(".")

    @property
    def path(self) -> str:
        """The default URL path of a service method, such as ``/is-positive`` for ``is_positive``."""
        return "/" + self.name.strip("_").replace("_", "-")

    @property
    def streams(self) -> bool:
        """True if the service method returns an iterator or a stream."""
        return self.returns.is_stream

    def http_methods(self, *, allow_get: bool) -> tuple[str, ...]:
        """Return the endpoint's HTTP methods: POST, and GET if a URL can contain all arguments."""
        return ("POST", "GET") if allow_get and self.query_parameters is not None else ("POST",)

    @cached_property
    def query_parameters(self) -> tuple[QueryParameter, ...] | None:
        """The query parameters of a GET request; None if a URL cannot contain all arguments.

        Also None if two records, or a record and an argument, have a name in common.
        """
        parameters: list[QueryParameter] = []
        for argument in self.arguments:
            parameters_of_argument = argument.query_parameters
            if parameters_of_argument is None:
                return None
            parameters += parameters_of_argument
        # The name of a record is also in use, for its JSON.
        names = [*(parameter.name for parameter in parameters if parameter.is_field)]
        names += [argument.name for argument in self.arguments]
        return tuple(parameters) if len(set(names)) == len(names) else None

    @property
    def returns_nothing(self) -> bool:
        """True if the service method returns None, so that the HTTP response has no body."""
        return self.returns.shape is ReturnShape.VALUE and self.returns.output_type in (None, NoneType)

    @property
    def return_codec(self) -> JsonCodec[object]:
        """The converter from a service method's return value to JSON for the response body."""
        return self.result_codec if self.returns.shape is ReturnShape.RESULT else self.value_codec

    def limit_media(self, policy: MediaPolicy | None) -> None:
        """Set which images, sounds and files the arguments may contain; None for all."""
        self.arguments_codec.media = policy
        for argument in self.arguments:
            argument.codec.media = policy

    @cached_property
    def missing_parameters(self) -> tuple[str, ...]:
        """The names of required parameters that the server must set, because remote callers cannot."""
        parameters = self.signature.parameters
        return tuple(
            name for name in self.server_parameters if parameters[name].default is inspect.Parameter.empty
        )

    @cached_property
    def _variadic_name(self) -> str | None:
        return next((argument.name for argument in self.arguments if argument.variadic), None)

    def dump_arguments(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], omit: Collection[str] = ()
    ) -> str:
        """Convert a service method's arguments to a JSON object for the body of the HTTP request.

        Arguments that are not passed or are named in ``omit`` are left out. Raises TypeError if the arguments
        do not fit the signature, and ValueError if a value does not have its declared type.
        """
        try:
            values = self.signature.bind(*args, **kwargs).arguments  # without defaults, which the server has
        except TypeError as error:
            raise TypeError(f"{self.qualname}: {error}") from None
        for name in self.server_parameters:
            default = self.signature.parameters[name].default
            if name not in omit and values.get(name, default) is not default:
                raise ValueError(f"{self.qualname}: {name} is set by the server; a client cannot send it")
        names = [argument.name for argument in self.arguments]
        try:
            fields = {
                name: to_json_records(values[name]) for name in names if name in values and name not in omit
            }
            # bind returns a tuple for *args, but the codec expects a list.
            if self._variadic_name in fields:
                fields[self._variadic_name] = list(fields[self._variadic_name])
            return self.arguments_codec.write_argument(fields)
        except ValueError as error:
            raise ValueError(f"{self.qualname}: the arguments cannot be sent: {error}") from error

    def bind_arguments(self, values: Mapping[str, object]) -> tuple[list[object], dict[str, object]]:
        """Convert a dict of arguments to positional and keyword arguments for calling a service method."""
        kwargs = {name: from_json_records(value) for name, value in values.items()}
        if self._variadic_name is None or self._variadic_name not in kwargs:
            args = [
                kwargs.pop(name)
                for name, parameter in self.signature.parameters.items()
                if parameter.kind is parameter.POSITIONAL_ONLY and name in kwargs
            ]
            return args, kwargs
        # *args can only be passed if every parameter before it is passed by position too.
        before: list[object] = []
        for name, parameter in self.signature.parameters.items():
            if name == self._variadic_name:
                break
            before.append(kwargs.pop(name, parameter.default))
        return [*before, *kwargs.pop(self._variadic_name)], kwargs


def resume_codec(method: Method) -> JsonCodec[dict[str, object]]:
    """Return the JSON converter for the body of a request that resumes a suspended call."""
    title = method.arguments_codec.schema["title"].removesuffix("Arguments")
    fields: dict[str, object] = {
        "state": str,
        "approvals": NotRequired[bool | dict[str, bool | Denied]],
        "results": NotRequired[dict[str, object]],
    }
    return codec_for(typed_dict(f"{title}Resume", fields), DEFAULT_REGISTRY)


class Contract(NamedTuple):
    """A service interface described for remote callers: its name, docstring and methods.

    Attributes:
        name: The name of the interface.
        doc: Its docstring.
        methods: Its methods by name.
    """

    name: str
    doc: str
    methods: Mapping[str, Method]


def contract_of(
    interface: object,
    *,
    parsers: Sequence[ParserFactory] = (),
    server_arguments: Collection[str] = (),
    media: MediaPolicy | None = None,
) -> Contract:
    """Describe an interface (a Protocol, an ABC or a service's class) for remote callers.

    ``parsers`` are the parser factories that were passed to ``create``. ``server_arguments`` names parameters
    that remote callers do not pass, and ``media`` says which images and files they may pass. Raises a
    DefinitionError that lists all problems.
    """
    cls = get_origin(interface) or interface
    registry = DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY
    name = type_name(interface)
    if not isinstance(cls, type):
        raise DefinitionError(
            [DefinitionProblem(name, "it is not a class; pass the interface of the service")]
        )
    type_arguments = type_arguments_by_class(interface)
    problems: list[DefinitionProblem] = []
    methods: dict[str, Method] = {}
    for method_name, owner, attribute in methods_of(cls):
        if is_stub(inspect.unwrap(attribute)):
            qualname = f"{cls.__name__}.{method_name}"
            # The class of a service has methods of its own; its interface has the type arguments.
            arguments = (
                type_arguments[base]
                for base in owner.__mro__
                if method_name in vars(base) and type_arguments.get(base)
            )
            method = _method(attribute, qualname, registry, next(arguments, {}), server_arguments, problems)
            if method is not None:
                method.limit_media(media)
                methods[method_name] = method
    # Most likely a concrete class was passed instead of its interface.
    if not methods and not problems:
        message = "it does not have a method without a body; pass the interface of the service"
        problems.append(DefinitionProblem(name, message))
    if problems:
        raise DefinitionError(problems)
    # Not inspect.getdoc: a class without a docstring would show Protocol's.
    doc = cls.__dict__.get("__doc__")
    return Contract(name, inspect.cleandoc(doc) if isinstance(doc, str) else "", methods)


def _method(
    attribute: Any,
    qualname: str,
    registry: ParserRegistry,
    type_arguments: Mapping[object, object],
    server_arguments: Collection[str],
    problems: list[DefinitionProblem],
) -> Method | None:
    """Return the description of an interface method for remote callers; add errors to ``problems``.

    Returns None if there are errors.
    """
    function = inspect.unwrap(attribute)
    # String annotations may name types that are local to the function that defines the interface.
    namespace = {**enclosing_names(sys._getframe(), function), **declaration_of(function).namespace}
    signature = read_signature(function, qualname, namespace, type_arguments, problems)
    parameters, returns = signature.parameters, signature.returns
    if parameters is None or returns is None:
        return None
    codecs = _codecs_of(returns.output_type, registry, namespace, qualname, problems)
    if codecs is None:
        return None
    without_self = signature.signature
    arguments: list[Argument] = []
    fields: dict[str, object] = {}
    server_parameters: list[str] = []
    descriptions = dict(parameter_docs(inspect.getdoc(function) or ""))
    for parameter in parameters:
        # The schema of the arguments omits these parameters, so a caller who sends one gets an error.
        if parameter.name in server_arguments or parameter.role in _SERVER_ROLES:
            server_parameters.append(parameter.name)
            continue
        declared = Any if parameter.hint is None else parameter.hint
        pair = _argument(parameter, declared, without_self, registry, namespace, qualname, problems)
        if pair is not None:
            argument, tp = pair
            if descriptions.get(parameter.name) and Target.of(declared).description is None:
                tp = Annotated[tp, Description(descriptions[parameter.name])]
            arguments.append(argument)
            fields[parameter.name] = tp if argument.required else NotRequired[tp]
    # The title of the arguments in the OpenAPI document, such as IsPositiveArguments.
    title = "".join(part[:1].upper() + part[1:] for part in qualname.partition(".")[2].split("_"))
    arguments_codec = codec_for(typed_dict(f"{title}Arguments", fields), registry, namespace)
    return Method(
        qualname,
        summary_of(inspect.getdoc(function) or ""),
        without_self,
        returns,
        tuple(arguments),
        tuple(server_parameters),
        *codecs,
        arguments_codec,
    )


def _codecs_of(
    tp: object,
    registry: ParserRegistry,
    namespace: Mapping[str, object],
    qualname: str,
    problems: list[DefinitionProblem],
) -> tuple[JsonCodec[object], JsonCodec[object]] | None:
    """Return the converters of a method's values and of its Results; add an error to ``problems``, if any."""
    try:
        codec = codec_for(tp, registry, namespace)
        codec_of_result = result_codec(tp, codec.name, registry, namespace)
    except UnsupportedTypeError as error:
        problems.append(DefinitionProblem(qualname, str(error)))
        return None
    if codec.write_problem:
        problems.append(DefinitionProblem(qualname, codec.write_problem))
        return None
    return codec, codec_of_result


def _argument(
    parameter: Parameter,
    declared: object,
    signature: inspect.Signature,
    registry: ParserRegistry,
    namespace: Mapping[str, object],
    qualname: str,
    problems: list[DefinitionProblem],
) -> tuple[Argument, object] | None:
    """Describe a method parameter for remote callers; add an error to ``problems`` if it is unsupported.

    The result is the description and the argument's JSON type.
    """
    name = parameter.name
    declaration = signature.parameters[name]
    if declaration.kind is declaration.VAR_KEYWORD:
        message = f"the parameter **{name} accepts any name; declare each parameter instead"
        problems.append(DefinitionProblem(qualname, message))
        return None
    if parameter.role is Role.HISTORY and not _leaf_types(declared) <= _MESSAGE_TYPES:
        message = f"a remote caller could send system messages in {name}; declare it as list[Message]"
        problems.append(DefinitionProblem(qualname, message))
        return None
    variadic = declaration.kind is declaration.VAR_POSITIONAL
    tp = json_type(declared)
    if variadic:
        tp = list[tp]  # type: ignore[valid-type]  # the type is known at run time only
    try:
        codec = codec_for(tp, registry, namespace)
    except UnsupportedTypeError as error:
        problems.append(DefinitionProblem(qualname, f"the parameter {name} cannot be sent: {error}"))
        return None
    # Otherwise a caller could choose the size of the keys in a store.
    if parameter.role in CALLER_ROLES and _leaf_types(declared) <= {str, NoneType}:
        if "maxLength" not in str(codec.schema):
            tp = Annotated[tp, Field(max_length=MAX_ID_LENGTH)]
        if parameter.role is Role.MEMORY_ID:
            tp = Annotated[tp, Field(min_length=1, pattern=r"[^\s\x1c-\x1f]")]  # not blank
        codec = codec_for(tp, registry, namespace)
    required = declaration.default is declaration.empty and not variadic
    takes_document = Document in parameter.parts
    argument = Argument(name, type_name(declared), parameter.role, codec, required, variadic, takes_document)
    return argument, tp


# The codec of the messages refuses system messages. Dicts would become messages later, in the service.
_MESSAGE_TYPES = {SystemMessage, UserMessage, AiMessage, ToolMessage, NoneType, ...}


def _leaf_types(hint: object) -> set[object]:
    """Return the innermost types of a type hint: ``str`` and ``int`` for ``dict[str, list[int]]``."""
    arguments = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
    return set().union(*map(_leaf_types, arguments)) if arguments else {hint}


# --- Arguments of the caller and of the server ---


def caller_problems(
    served: Sequence[tuple[Contract, object]], caller_arguments: Collection[str]
) -> list[DefinitionProblem]:
    """Return an error for each service method through which a caller could pose as another user.

    Callers can do so if they can choose a MemoryId, UserName or CallId, or if all share one conversation.
    ``served`` are the contracts with their services.
    """
    problems = []
    names: set[str] = set()
    for contract, service in served:
        for method in contract.methods.values():
            roles = {one.name: one.role for one in method.arguments if one.role in CALLER_ROLES}
            names.update(roles)
            for name, role in roles.items():
                if name not in caller_arguments:
                    message = (
                        f"callers could pass {_DANGERS[role].format(name=name)}; name a dependency for it in "
                        f"server_arguments, or list {name!r} in caller_arguments if callers may choose it"
                    )
                    problems.append(DefinitionProblem(method.qualname, message))
            function = getattr(service, method.name, None)
            if is_service_method(function) and service_method_of(function).shares_conversation:
                message = (
                    "all callers would share one conversation, because the service has a memory and the "
                    "method has no MemoryId; add a parameter with MemoryId, or pass "
                    "ChatMemory(shared_by_callers=True)"
                )
                problems.append(DefinitionProblem(method.qualname, message))
    services = ", ".join(contract.name for contract, _ in served)
    problems += [
        DefinitionProblem(
            services,
            f"caller_arguments names {name}, which is not a MemoryId, UserName or CallId that callers pass",
        )
        for name in caller_arguments
        if name not in names
    ]
    return problems


def server_argument_problems(
    contracts: Sequence[Contract], server_arguments: Collection[str]
) -> list[DefinitionProblem]:
    """Return an error for each parameter without a value and each unknown name in ``server_arguments``."""
    # With several services, a setting applies to every service that has the name.
    methods = [method for contract in contracts for method in contract.methods.values()]
    parameters = {name for method in methods for name in method.server_parameters}
    services = ", ".join(contract.name for contract in contracts)
    problems = [
        DefinitionProblem(
            method.qualname,
            f"callers cannot pass the parameter {name}; name a dependency for it in server_arguments",
        )
        for method in methods
        for name in method.missing_parameters
        if name not in server_arguments
    ]
    problems += [
        DefinitionProblem(services, f"server_arguments names {name}, which is not a parameter of any method")
        for name in server_arguments
        if name not in parameters
    ]
    return problems


# --- Server-sent events ---


_EMPTY_SNAPSHOT = '{"value":null,"done":false}'


class EventName(StrEnum):
    """The names of the server-sent events that streaming service methods send to HTTP clients."""

    TEXT = "text"
    ITEM = "item"
    UNFIT = "unfit"
    END = "end"
    ATTEMPT = "attempt"
    SNAPSHOT = "snapshot"
    DELTA = "delta"
    FIELD = "field"
    RESULT = "result"
    ERROR = "error"
    STEP = "step"  # of a call, on the page for trying services only


class StreamMode(StrEnum):
    """The form in which a stream sends an incomplete value: JSON snapshots or the model's text."""

    SNAPSHOTS = "snapshots"
    DELTAS = "deltas"


class SseEvent(NamedTuple):
    """One server-sent event.

    Attributes:
        name: The event's name.
        data: The event's data, as JSON text without line breaks.
    """

    name: EventName
    data: str

    def to_bytes(self, event_id: object = None) -> bytes:
        """Return the event as bytes in the text format of server-sent events."""
        last_line = "" if event_id is None else f"id: {event_id}\n"
        return f"event: {self.name}\ndata: {self.data}\n{last_line}\n".encode()


_EVENT_ID = re.compile(r"([0-9a-f]{32})\.(\d{1,15})\.(\d{1,15})\.([0-9a-f]{16})(\.end)?", re.ASCII)


class EventId(NamedTuple):
    """The id of an event of a stream that can be continued.

    Attributes:
        stream: The name of the stream, which cannot be guessed.
        number: The number of the event in the stream.
        received: The number of characters, or of items, up to this event.
        digest: A hash of these characters or items.
        is_last: True for the last event of a stream.
    """

    stream: str
    number: int
    received: int
    digest: str
    is_last: bool = False

    def __str__(self) -> str:
        end = ".end" if self.is_last else ""
        return f"{self.stream}.{self.number}.{self.received}.{self.digest}{end}"

    @classmethod
    def parse(cls, text: str) -> EventId | None:
        """Read an id; return None for those of streams that cannot be continued."""
        match = _EVENT_ID.fullmatch(text)
        if match is None:
            return None
        stream, number, received, digest, end = match.groups()
        return cls(stream, int(number), int(received), digest, end is not None)


class EventEncoder(Protocol):
    """Converts the items that a streaming service method yields to server-sent events."""

    def encode(self, item: Any) -> Iterator[SseEvent]:
        """Yield the server-sent events for one item from a streaming service method."""
        ...

    def finish(self) -> Iterator[SseEvent]:
        """Yield the server-sent events to send after the last item of a streaming service method."""
        ...


class ItemEncoder:
    """Converts text chunks or list items from a service method's iterator to server-sent events."""

    def __init__(self, method: Method) -> None:
        self._codec = method.value_codec
        self._is_text = method.returns.shape is ReturnShape.TEXT_STREAM

    def encode(self, item: object) -> Iterator[SseEvent]:
        if self._is_text:
            yield SseEvent(EventName.TEXT, _json(item))
            return
        from output_parsers.streaming import ItemError  # late: most services do not stream items

        if isinstance(item, ItemError):
            yield SseEvent(EventName.UNFIT, _json(item))
        else:
            yield SseEvent(EventName.ITEM, self._codec.write(item))

    def finish(self) -> Iterator[SseEvent]:
        yield SseEvent(EventName.END, "{}")


class StreamEncoder:
    """Converts the events of a service method's stream to server-sent events, with partial values."""

    def __init__(self, method: Method, stream: Any, mode: StreamMode) -> None:
        self._codec = method.value_codec
        self._stream = stream
        self._mode = mode
        self._answer_text: Callable[[ReplyDelta], str] = str
        self._last_snapshot = _EMPTY_SNAPSHOT

    def encode(self, item: object) -> Iterator[SseEvent]:
        if isinstance(item, AttemptStarted):
            self._answer_text, self._last_snapshot = item.output_format.text_extractor(), _EMPTY_SNAPSHOT
            yield SseEvent(EventName.ATTEMPT, _json(self._attempt_data(item)))
        elif isinstance(item, Completed):
            yield SseEvent(EventName.RESULT, write_result(item.result, self._codec))
        elif isinstance(item, FieldCompleted):
            if self._mode is StreamMode.SNAPSHOTS:
                yield SseEvent(EventName.FIELD, _json({"name": item.name}))
        elif isinstance(item, ReplyDelta):
            text = self._answer_text(item)
            if text and self._mode is StreamMode.DELTAS:
                yield SseEvent(EventName.DELTA, _json({"text": text}))
            elif text:
                yield from self._changed_snapshot()

    def _attempt_data(self, event: AttemptStarted) -> dict[str, object]:
        data: dict[str, object] = {"number": event.number, "model": event.model, "strategy": event.strategy}
        if self._mode is StreamMode.SNAPSHOTS:
            return data
        # With deltas the client parses the text itself, so it must know whether the value is inside an
        # envelope.
        parser = event.output_format.parser
        node = None if parser is None else parser.node
        field = node.field if isinstance(node, EnvelopeNode) else None
        return {**data, "field": field, "shown": event.output_format.is_streamed and parser is not None}

    def _changed_snapshot(self) -> Iterator[SseEvent]:
        snapshot = self._stream.snapshot
        data = _json({"value": snapshot.to_python(), "done": snapshot.done})
        # Many deltas change nothing that can be shown yet, such as the first half of a key.
        if data != self._last_snapshot:
            self._last_snapshot = data
            yield SseEvent(EventName.SNAPSHOT, data)

    def finish(self) -> Iterator[SseEvent]:
        yield from ()  # the result was the last event


def error_event(problem: Problem) -> SseEvent:
    """Return the server-sent event that reports an error and ends the stream."""
    return SseEvent(EventName.ERROR, problem.json_bytes().decode())


def event_schema(method: Method) -> dict[str, object]:
    """Return the JSON Schema of a method's server-sent events, with one alternative for each event name."""
    shape = method.returns.shape
    data_schemas: dict[str, JsonSchema]
    if shape is ReturnShape.STREAM:
        integer, string = {"type": "integer"}, {"type": "string"}
        data_schemas = {
            EventName.ATTEMPT: _object_schema(
                "a request to a model starts: discard the snapshots and deltas before it",
                {"number": integer, "model": string, "strategy": string},
            ),
            EventName.SNAPSHOT: _object_schema(
                "the value as far as it is known", {"value": {}, "done": {"type": "boolean"}}
            ),
            EventName.FIELD: _object_schema(
                "a field or item is complete", {"name": {"type": ["string", "integer"]}}
            ),
            EventName.DELTA: _object_schema("the next text of the model", {"text": string}),
            EventName.RESULT: method.result_codec.schema,
        }
    elif shape is ReturnShape.ITEMS:
        data_schemas = {EventName.ITEM: method.value_codec.schema}
        if method.returns.keeps_errors:
            data_schemas[EventName.UNFIT] = _object_schema(
                "an item that cannot be read, and why",
                {"index": {"type": "integer"}, "text": {"type": "string"}, "problems": {"type": "array"}},
            )
    else:
        data_schemas = {EventName.TEXT: {"type": "string"}}
    if shape is not ReturnShape.STREAM:
        data_schemas[EventName.END] = _object_schema("the stream is complete", {})
    data_schemas[EventName.ERROR] = _object_schema(
        "a problem, as in the responses with an error status", {"type": {"type": "string"}}
    )
    # References in the schemas of the data are relative to the root, so their definitions move there.
    definitions = {
        name: definition
        for schema in data_schemas.values()
        for name, definition in schema.get("$defs", {}).items()
    }
    alternatives = [
        _event_schema(name, {key: value for key, value in schema.items() if key != "$defs"})
        for name, schema in data_schemas.items()
    ]
    return {"oneOf": alternatives, "$defs": definitions}


def _object_schema(description: str, properties: dict[str, object]) -> JsonSchema:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
    }


def _event_schema(name: str, data_schema: JsonSchema) -> JsonSchema:
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": data_schema}
    properties = {"event": {"const": str(name)}, "data": data}
    return {"type": "object", "properties": properties, "required": ["event", "data"]}


def _json(value: object) -> str:
    # NaN and Infinity are written as such. A client could not tell null from a missing value.
    return to_json(value, inf_nan_mode="constants").decode()
