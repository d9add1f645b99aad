"""Convert the arguments and return values of service methods to JSON text and back.

``JsonCodec`` writes and reads one type. Media, messages and ``Result`` have special JSON forms, defined here
as the records ``ImageJson``, ``UserMessageJson``, ``AccountJson`` and so on.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic_core import to_json, to_jsonable_python
from typing_extensions import TypedDict, is_typeddict

from output_parsers.json.scanner import read_exact
from output_parsers.parser.type_parser import ParserRegistry, TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, ValidatorError
from output_parsers.result.reading import Coercion, Json, Leniency, dump_json, set_variable, strict_equal
from output_parsers.types.constraints import PydanticNode
from output_parsers.types.decisions import values_with_details
from output_parsers.types.node import JsonSchema, OutputParser, schema_of, walk
from output_parsers.types.target import Description, is_hashable, type_name
from output_parsers.types.validation import JsonValidator, json_validator

from ..engine.results import Result, conflicts_to_json
from ..models.errors import AiServiceError, Attempt, InnerCall, Strategy
from ..models.media import Audio, File, Image, Media
from ..models.media_policy import MediaPolicy
from ..models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..tools.tool import ToolRun

T = TypeVar("T")

# --- Converting any type to JSON text ---

# Every type is written and read as the only field of an object, the envelope, which is removed afterwards.
_FIELD = "value"
ENVELOPE_PATH = f"$.{_FIELD}"  # the path of the value while it is converted
_ENVELOPE_START = f'{{"{_FIELD}": '
# A time of day as Python writes it, with an optional UTC offset.
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?"
# Months with their days. That 29 February exists only in some years is checked when the value is read.
_DATE = (
    r"([1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])-"
    r"((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|[12]\d))"
)
_TIME_PATTERNS = {"time": f"^{_CLOCK}$", "date-time": f"^{_DATE}T{_CLOCK}$"}


class JsonCodec(Generic[T]):
    """Converts values of one type to JSON text and back without loss.

    Attributes:
        parser: The type's parser.
        name: The type as a user would write it, such as ``list[int]``.
        media: Which images, sounds and files ``read`` accepts; None for all.
    """

    media: MediaPolicy | None = None

    def __init__(self, parser: TypeParser[T], tp: object = None) -> None:
        self.parser = parser
        self._type = tp
        self.name = parser.name
        # The parser of str accepts any text as it is. Inside an object every value must be JSON, strings in
        # quotes.
        self._enveloped = parser.with_envelope(_FIELD)
        self._context = values_with_details if parser.has_details else nullcontext
        self._writes_with_pydantic = not parser.has_details

    @cached_property
    def _validator(self) -> JsonValidator | None:
        validator = json_validator(self.parser.target)
        return validator if validator is not None and validator.runs_user_code else None

    @property
    def write_problem(self) -> str:
        """Why values cannot be written and read back; empty if they can."""
        if not any(isinstance(node, PydanticNode) and node.is_masked for node in walk(self.parser.node)):
            return ""
        return (
            f"the values of {self.name} cannot be written, because pydantic masks the secrets in them; "
            "use str instead"
        )

    @cached_property
    def schema(self) -> JsonSchema:
        """The JSON Schema (draft 2020-12) of the converted type, with shared definitions in ``$defs``."""
        value_schema = (self._enveloped.schema or {}).get("properties", {}).get(_FIELD)
        with self._context():
            own = None if self.parser.schema is None else schema_of(self.parser.node)
        schema = _without_time_formats(own or value_schema)
        examples: dict[str, dict[str, list[object]]] = {}
        _collect_examples(self._type, examples)
        documented: JsonSchema = _with_examples(schema, examples) if any(examples.values()) else schema
        return documented

    def write(self, value: T) -> str:
        """Convert a value to JSON text that ``restore`` converts back.

        Raises ValueError if the value has the wrong type.
        """
        try:
            return self.write_argument(value)
        except (ValueError, ValidatorError):
            if self._validator is None:
                raise
            text = dump_json(self.parser.node.write(value))
            if not strict_equal(self.restore(text), value):
                raise
            return text

    def write_argument(self, value: T) -> str:
        """Convert a value to JSON text that ``read`` converts back, although it runs the validators.

        Raises ValueError if the value has the wrong type, or if a validator would change it again.
        """
        with self._context():
            return self._enveloped.write(value)[len(_ENVELOPE_START) : -1]

    def write_any(self, value: T) -> str:
        """Convert a value to any JSON text that ``read`` converts back to the same value.

        Unlike with ``write``, the text may have another form than the schema describes, which is faster for
        most types. Raises ValueError as ``write`` does.
        """
        if self._writes_with_pydantic and self._validator is None:
            try:
                text = to_json(value).decode()
                if strict_equal(self.read(text), value):
                    return text
            except (ValueError, RecursionError):  # of OutputParsingError, too
                pass
            self._writes_with_pydantic = False
        return self.write(value)

    def read(self, text: str) -> T:
        """Parse JSON text as a value of the type without repairing mistakes, or raise OutputParsingError."""
        try:
            with (
                self._context(),
                nullcontext() if self.media is None else set_variable(_media_policy, self.media),
            ):
                return self._enveloped.parse(f"{_ENVELOPE_START}{text}}}", Leniency.NONE)
        except OutputParsingError as error:
            raise OutputParsingError(
                text, [_outside_envelope(problem) for problem in error.problems]
            ) from error

    def restore(self, text: str) -> T:
        """Convert a value that ``write`` has written, or raise OutputParsingError.

        If a validator would change it again, it is restored without validators.
        """
        if self._validator is None:
            return self.read(text)
        failure = None
        try:
            value = self.read(text)
            if dump_json(self.parser.node.write(value)) == dump_json(read_exact(text)):  # -0.0 is not 0.0
                return value
        except OutputParsingError as error:
            failure = error
        except (ValidatorError, ValueError):  # of a validator that refuses its own result
            pass
        try:
            restored: T = self._validator.restore(text)
        except ValueError as error:
            problem = Problem("$", f"it cannot be restored: {error}")
            raise failure or OutputParsingError(text, [problem]) from error
        return restored


def _without_time_formats(schema: Json) -> Json:
    """Return a copy of a JSON Schema that also accepts times without an offset from UTC.

    The formats ``time`` and ``date-time`` require an offset, but a naive ``datetime`` has no offset. The copy
    uses patterns instead.
    """
    if isinstance(schema, list):
        return [_without_time_formats(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and schema.get("format") in _TIME_PATTERNS:
        others = {key: value for key, value in schema.items() if key != "format"}
        return {**others, "pattern": _TIME_PATTERNS[schema["format"]]}
    return {key: _without_time_formats(part) for key, part in schema.items()}


def _hints_of(cls: type) -> Mapping[str, object] | None:
    """Return the annotations of a dataclass or TypedDict; None if they cannot be resolved."""
    if not is_dataclass(cls) and not is_typeddict(cls):
        return {}
    try:
        return get_type_hints(cls, include_extras=True)
    except Exception:  # a string annotation may contain any expression
        return None


def _collect_examples(tp: object, examples: dict[str, dict[str, list[object]]]) -> None:
    """Collect the ``Field(examples=…)`` values of pydantic models and dataclasses, including nested types."""
    for argument in get_args(tp):
        _collect_examples(argument, examples)
    cls, title = get_origin(tp) or tp, type_name(tp)
    if not isinstance(cls, type) or title in examples:
        return
    # Models and dataclasses of pydantic have resolved annotations and FieldInfos.
    infos: Mapping[str, Any] = getattr(cls, "__pydantic_fields__", {})
    hints = {name: info.annotation for name, info in infos.items()} if infos else _hints_of(cls)
    if hints is None:
        return
    of_record = examples[title] = {}
    for name, hint in hints.items():
        _collect_examples(hint, examples)
        annotated = get_args(hint)[0] if get_origin(hint) in (NotRequired, Required) else hint
        for one in (*getattr(annotated, "__metadata__", ()), infos.get(name)):
            if isinstance(one, FieldInfo) and one.examples:
                keys = (name, one.validation_alias, one.alias)
                of_record.update({key: one.examples for key in keys if isinstance(key, str)})


def _with_examples(schema: Json, examples: Mapping[str, Mapping[str, list[object]]]) -> Json:
    """Return a copy of a JSON Schema in which properties have the ``examples`` of their pydantic fields."""
    if isinstance(schema, list):
        return [_with_examples(part, examples) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {key: _with_examples(value, examples) for key, value in schema.items()}
    title, properties = schema.get("title"), schema.get("properties")
    if isinstance(title, str) and isinstance(properties, dict):
        for key, values in examples.get(title, {}).items():
            if key in properties:
                copy["properties"][key]["examples"] = to_jsonable_python(values, fallback=str)
    return copy


def _outside_envelope(problem: Problem) -> Problem:
    path = problem.path.replace(ENVELOPE_PATH, "$", 1)
    return Problem(path, problem.message, problem.found)


def codec_for(
    tp: Any, registry: ParserRegistry, namespace: Mapping[str, object] | None = None
) -> JsonCodec[Any]:
    """Return a converter between values of a type and JSON text, or raise UnsupportedTypeError."""
    if _holds_media(tp):
        return _MediaCodec(codec_for(json_type(tp), registry).parser, tp)
    parser: OutputParser[object] = registry.parser_for(tp, namespace=namespace)
    return JsonCodec(parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser, type_name(tp)), tp)


class _MediaCodec(JsonCodec[object]):
    """Converts values that contain media or messages to JSON and back."""

    def __init__(self, parser: TypeParser[object], tp: object) -> None:
        super().__init__(parser, tp)
        self.name = type_name(tp)
        self._writes_with_pydantic = False

    def write(self, value: object) -> str:
        return super().write(to_json_records(value))

    def read(self, text: str) -> object:
        return from_json_records(super().read(text))

    def restore(self, text: str) -> object:
        return self.read(text)


def is_json(text: str) -> bool:
    """Return True if a string is a JSON text."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def typed_dict(name: str, fields: dict[str, object]) -> object:
    """Create a TypedDict class with the given name and fields."""
    return TypedDict(name, fields)  # type: ignore[operator]  # the fields are known at run time only


# --- Media and messages ---


# The policy for the media in the arguments that are being read.
_media_policy: ContextVar[MediaPolicy | None] = ContextVar("media_policy", default=None)


@dataclass(frozen=True)
class _MediaJson:
    """The JSON form of an image, sound or file: ``data`` in base64, or a ``url``."""

    url: Annotated[str | None, Description("http:, https: or data:")] = None
    data: Annotated[str | None, Description("in base 64")] = None
    media_type: Annotated[str | None, Description("such as image/png")] = None
    name: Annotated[str | None, Description("the file name")] = None

    kind: ClassVar[type[Media]] = File

    def __post_init__(self) -> None:
        # reports a bad value while the arguments are read, with the path of the argument
        media = self.to_media().checked(is_declared=False)
        policy = _media_policy.get()
        if policy is not None:
            policy.check(media)

    def to_media(self) -> Media:
        """Convert the JSON form to an image, sound or file; raise ValueError without data or a URL."""
        if self.data is None and self.url is not None and self.url.startswith("data:"):
            return self.kind.from_url(self.url, self.media_type)
        data = None if self.data is None else b64decode(self.data, validate=True)
        return self.kind(data, self.media_type, self.url, self.name)


@dataclass(frozen=True)
class ImageJson(_MediaJson):
    """The JSON form of an image: ``data`` in base64 with its ``media_type``, or a ``url``."""

    detail: Literal["auto", "low", "high", "original"] | None = None

    kind: ClassVar[type[Media]] = Image

    def to_media(self) -> Media:
        media = super().to_media()
        return media.with_detail(self.detail) if self.detail and isinstance(media, Image) else media


@dataclass(frozen=True)
class AudioJson(_MediaJson):
    """The JSON form of a sound: ``data`` in base64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = Audio


@dataclass(frozen=True)
class FileJson(_MediaJson):
    """The JSON form of a file: ``data`` in base64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = File


# The docstrings of these records and of their fields become descriptions in the OpenAPI document.
@dataclass(frozen=True)
class UserMessageJson:
    """The JSON form of a user message: text with images, sounds and files."""

    text: str
    type: Literal["user"] = "user"
    name: str | None = None
    contents: tuple[str | ImageJson | AudioJson | FileJson, ...] = ()


@dataclass(frozen=True)
class AiMessageJson:
    """The JSON form of a message that the model wrote."""

    type: Literal["ai"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    contents: tuple[str | ImageJson | AudioJson | FileJson, ...] = ()


@dataclass(frozen=True)
class ToolMessageJson:
    """The JSON form of a message with the result of a tool call."""

    type: Literal["tool"]
    call_id: str
    name: str
    text: str


# System messages are missing on purpose: a remote caller must not change the instructions of the model.
MessageJson: TypeAlias = UserMessageJson | AiMessageJson | ToolMessageJson
_MEDIA_RECORDS: dict[type[Media], type[_MediaJson]] = {Image: ImageJson, Audio: AudioJson, File: FileJson}
_RECORDS: dict[object, object] = {
    Image: ImageJson,
    Audio: AudioJson,
    File: FileJson,
    UserMessage: UserMessageJson,
    Message: MessageJson,
    AiMessage: AiMessageJson,
    ToolMessage: ToolMessageJson,
}


def _holds_media(tp: object) -> bool:
    """Return True for media, and for lists, tuples and unions with media."""
    if get_origin(tp) in (list, tuple, Union, UnionType, Annotated):
        return any(map(_holds_media, get_args(tp)))
    return tp in (Image, Audio, File)


def json_type(tp: Any) -> object:
    """Replace media and message classes in a type annotation with the classes of their JSON form."""
    if is_hashable(tp) and tp in _RECORDS:
        return _RECORDS[tp]
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        return Annotated[(json_type(args[0]), *tp.__metadata__)]
    # A system message is removed from the union, because remote callers must not send one.
    if origin in (Union, UnionType):
        members = [arg for arg in args if arg is not SystemMessage]
        return Union[tuple(json_type(arg) for arg in members)]  # noqa: UP007  # the members are known at run time only
    changed = tuple(json_type(arg) if isinstance(arg, type) or get_origin(arg) else arg for arg in args)
    return tp if changed == args or origin is None or origin is Literal else origin[changed]


def to_json_records(value: Any) -> Any:
    """Convert media and messages in a value to JSON objects; raise ValueError for a system message."""
    # Exact types: a subclass may have fields that the record cannot hold, so the codec rejects it.
    if type(value) in _MEDIA_RECORDS:
        return _media_record(value)
    if isinstance(value, UserMessage):
        return UserMessageJson(value.text, "user", value.name, tuple(map(to_json_records, value.contents)))
    if isinstance(value, AiMessage):
        contents = tuple(map(to_json_records, value.contents))
        return AiMessageJson("ai", value.text, value.tool_calls, value.reasoning, contents)
    if isinstance(value, ToolMessage):
        return ToolMessageJson("tool", value.call_id, value.name, value.text)
    if isinstance(value, SystemMessage):
        raise ValueError("a remote service does not accept system messages; leave them out of the history")
    return type(value)(map(to_json_records, value)) if type(value) in (list, tuple) else value


def from_json_records(value: Any) -> Any:
    """Convert JSON objects for media and messages in a value back to media and message objects."""
    if isinstance(value, _MediaJson):
        return value.to_media()
    if isinstance(value, UserMessageJson):
        return UserMessage(value.text, value.name, tuple(map(from_json_records, value.contents)))
    if isinstance(value, AiMessageJson):
        contents = tuple(map(from_json_records, value.contents))
        return AiMessage(value.text, value.tool_calls, value.reasoning, contents=contents)
    if isinstance(value, ToolMessageJson):
        return ToolMessage(value.call_id, value.name, value.text)
    return type(value)(map(from_json_records, value)) if type(value) in (list, tuple) else value


def _media_record(media: Media) -> _MediaJson:
    data = None if media.data is None else media.base64
    detail = {"detail": media.detail} if isinstance(media, Image) else {}
    return _MEDIA_RECORDS[type(media)](media.url, data, media.media_type, media.name, **detail)


# --- Results and attempts ---


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class UsageJson(_FrozenModel):
    """The JSON form of the number of tokens that model requests used."""

    input_tokens: int = 0
    """Tokens of the requests."""
    output_tokens: int = 0
    """Tokens of the replies."""
    cached_tokens: int = 0
    """The part of ``input_tokens`` that the provider read from its cache."""
    reasoning_tokens: int = 0
    """The part of ``output_tokens`` that the model spent on reasoning."""
    cache_write_tokens: int = 0
    """The part of ``input_tokens`` that the provider wrote to its cache."""


class AttemptJson(_FrozenModel):
    """The JSON form of a model request, without the text of the request or the reply."""

    model: str
    """The name of the model."""
    seconds: float
    """The duration."""
    replied: bool = False
    """True if the model sent a reply, even one that was rejected."""
    strategy: str | None = None
    """The way in which the output format was requested."""
    usage: UsageJson | None = None
    """The tokens, if the provider reported them."""
    error: str | None = None
    """The class name of the error, if the attempt failed."""


class CoercionJson(_FrozenModel):
    """The JSON form of a change that the parser made to a model's reply in order to read it."""

    path: str
    """The JSON path of the changed part."""
    rule: str
    """The rule that allowed the change."""
    before: str = ""
    """The text before the change."""
    after: str = ""
    """The text after the change."""


class ToolRunJson(_FrozenModel):
    """The JSON form of a tool call, with its arguments and its result."""

    id: str
    """The id of the call."""
    name: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    text: str
    """The result as it was sent to the model."""
    seconds: float
    """The duration."""
    error: str | None = None
    """The class name of the error, if the tool failed."""


class InnerCallJson(_FrozenModel):
    """The JSON form of a service method call that a tool made."""

    qualname: str
    """The method."""
    seconds: float
    """The duration."""
    usage: UsageJson | None = None
    """The tokens of its own requests, if they are known."""
    error: str | None = None
    """The class name of the error, if the call failed."""
    inner_calls: tuple[InnerCallJson, ...] = ()
    """The calls that its own tools made."""


class AccountJson(_FrozenModel):
    """The JSON form of a service call's details: the reply, model requests, tokens and tool calls."""

    text: str
    """The reply from which the value was read."""
    model: str
    """The model that wrote the reply."""
    finish_reason: FinishReason
    """Why the model stopped."""
    strategy: str
    """The way in which the output format was requested."""
    seconds: float
    """The duration of the whole call."""
    usage: UsageJson
    """The tokens of all attempts together, with those of inner calls."""
    attempts: tuple[AttemptJson, ...] = ()
    """All requests, the successful one last."""
    coercions: tuple[CoercionJson, ...] = ()
    """The changes that were made to the reply while it was read."""
    reasons: tuple[str, ...] = ()
    """Why this strategy was chosen."""
    tool_runs: tuple[ToolRunJson, ...] = ()
    """The tool calls in their order."""
    sources: tuple[object, ...] = ()
    """The retrieved contents, as plain JSON."""
    inner_calls: tuple[InnerCallJson, ...] = ()
    """The calls of service methods that tools made."""
    conflicts: tuple[object, ...] = ()
    """The fields for which parts of a document have different values, as plain JSON."""


def result_codec(
    tp: object, name: str, registry: ParserRegistry, namespace: Mapping[str, object]
) -> JsonCodec[Any]:
    """Return a JSON converter for a service call's Result object, including request details."""
    title = "".join(character for character in name if character.isalnum())
    value_type = json_type(tp) if _holds_media(tp) else tp
    record = typed_dict(f"{title}Result", {"value": value_type, "account": AccountJson})
    return codec_for(record, registry, namespace)


def write_value(value: object, codec: JsonCodec[object]) -> str:
    """Convert a service call's value to JSON text, or raise ValueError if it cannot be converted."""
    # The raw response of the provider may hold anything, so a ChatReply is sent without it.
    return codec.write(replace(value, raw=None) if isinstance(value, ChatReply) else value)


def write_result(result: Result[object], value_codec: JsonCodec[object]) -> str:
    """Convert a service call's Result to JSON text, or raise ValueError if it cannot be converted."""
    reply = result.reply
    account = AccountJson(
        text=reply.text,
        model=reply.model,
        finish_reason=reply.finish_reason,
        strategy=result.strategy,
        seconds=result.seconds,
        usage=_usage_to_json(result.usage),
        attempts=attempts_to_json(result.attempts),
        coercions=tuple(CoercionJson(**coercion._asdict()) for coercion in result.coercions),
        reasons=result.reasons,
        tool_runs=tuple(map(_tool_run_to_json, result.tool_runs)),
        sources=tuple(to_jsonable_python(source, fallback=str) for source in result.sources),
        inner_calls=tuple(map(_inner_call_to_json, result.inner_calls)),
        conflicts=tuple(conflicts_to_json(result.conflicts)),
    )
    return f'{{"value": {value_codec.write(result.value)}, "account": {account.model_dump_json()}}}'


def read_result(text: str, codec: JsonCodec[Any]) -> Result[Any]:
    """Parse the JSON text of a service call's Result.

    Raises OutputParsingError for other text. Some parts of the original are lost: sources become plain data,
    tool runs have text but no result, rejected attempts have no text, costs are unknown, and there are no
    messages or probabilities.
    """
    record = codec.restore(text)
    account: AccountJson = record["account"]
    # The accepted reply is the reply of the last attempt.
    last_usage = account.attempts[-1].usage if account.attempts else None
    reply = ChatReply(
        AiMessage(account.text), account.finish_reason, _usage_from_json(last_usage), account.model
    )
    return Result(
        from_json_records(record["value"]),
        reply,
        Strategy(account.strategy),
        tuple(Coercion(**dict(coercion)) for coercion in account.coercions),
        attempts_from_json(account.attempts, reply),
        account.seconds,
        account.reasons,
        tuple(map(_tool_run_from_json, account.tool_runs)),
        account.sources,
        inner_calls=tuple(map(_inner_call_from_json, account.inner_calls)),
        conflicts=account.conflicts,
    )


def _inner_call_to_json(call: InnerCall) -> InnerCallJson:
    return InnerCallJson(
        qualname=call.qualname,
        seconds=call.seconds,
        usage=None if call.own_usage is None else _usage_to_json(call.own_usage),
        error=None if call.error is None else type(call.error).__name__,
        inner_calls=tuple(map(_inner_call_to_json, call.inner_calls)),
    )


def _inner_call_from_json(record: InnerCallJson) -> InnerCall:
    return InnerCall(
        record.qualname,
        "",
        _usage_from_json(record.usage),
        None,
        record.seconds,
        None if record.error is None else AiServiceError(record.error),
        tuple(map(_inner_call_from_json, record.inner_calls)),
    )


def attempts_to_json(attempts: Sequence[Attempt]) -> tuple[AttemptJson, ...]:
    """Convert the records of model requests to JSON objects, without the text of requests or replies."""
    return tuple(
        AttemptJson(
            model=attempt.model,
            seconds=attempt.seconds,
            replied=attempt.reply is not None,
            strategy=attempt.strategy,
            usage=None
            if attempt.reply is None or attempt.reply.usage is None
            else _usage_to_json(attempt.reply.usage),
            error=None if attempt.error is None else type(attempt.error).__name__,
        )
        for attempt in attempts
    )


def attempts_from_json(
    records: Sequence[AttemptJson], last_reply: ChatReply | None = None
) -> tuple[Attempt, ...]:
    """Convert JSON objects back to the records of model requests.

    Replies have no text, except ``last_reply``, which becomes the reply of the last attempt.
    """
    attempts = []
    for number, record in enumerate(records, 1):
        reply = None
        # The same object as result.reply, as in a local Result.
        if number == len(records) and last_reply:
            reply = last_reply
        elif record.replied:
            reply = ChatReply(AiMessage(""), FinishReason.OTHER, _usage_from_json(record.usage), record.model)
        error = None if record.error is None else AiServiceError(record.error)
        strategy = None if record.strategy is None else Strategy(record.strategy)
        attempts.append(Attempt(record.model, reply, error, record.seconds, strategy))
    return tuple(attempts)


def _usage_to_json(usage: Usage) -> UsageJson:
    return UsageJson(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )


def _usage_from_json(record: UsageJson | None) -> Usage | None:
    return None if record is None else Usage(**record.model_dump())


def _tool_run_to_json(run: ToolRun) -> ToolRunJson:
    return ToolRunJson(
        id=run.call.id,
        name=run.call.name,
        arguments=run.call.arguments,
        text=run.text,
        seconds=run.seconds,
        error=None if run.error is None else type(run.error).__name__,
    )


# Only the class name of an error is sent, so the error becomes an AiServiceError with this name.
def _tool_run_from_json(record: ToolRunJson) -> ToolRun:
    call = ToolCall(record.id, record.name, record.arguments)
    error = None if record.error is None else AiServiceError(record.error)
    return ToolRun(call, None, record.text, record.text, error, record.seconds)
