"""What an interface says to those who call it from elsewhere: its methods, their arguments and answers.

The endpoints, the client and the description of a service are all made of it, so that they agree.
"""

from __future__ import annotations

import inspect
import sys
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from output_parsers.parser.registry import DEFAULT_REGISTRY, ParserFactory, ParserRegistry
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, UnsupportedTypeError
from output_parsers.result.reading import Coercion, Leniency
from output_parsers.types.node import JsonSchema, OutputParser
from output_parsers.types.target import Description, fillings_of, substitute, type_name

from ...engine.results import Result, Returns, Shape, ShapeFault, shape_of
from ...engine.tool_execution import ToolRun
from ...interface.decorators import declaration_of
from ...interface.parameters import Parameter, Role, RoleFault, parameters_of, summary_of
from ...interface.stubs import enclosing_names, is_stub, methods_of
from ...models.errors import AiServiceError, Attempt, DefinitionError, DefinitionProblem
from ...models.media import Audio, File, Image, Media
from ...models.messages import (
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
from ...models.strategy import Strategy


@dataclass(frozen=True)
class _MediaJson:
    """Either ``data`` in base 64 with its ``media_type``, or the ``url`` that the provider fetches."""

    url: Annotated[str | None, Description("http:, https: or data:")] = None
    data: Annotated[str | None, Description("in base 64")] = None
    media_type: str | None = None
    name: str | None = None

    kind: ClassVar[type[Media]] = File

    def __post_init__(self) -> None:
        self.media()

    def media(self) -> Media:
        """What it stands for. Raises ValueError when it stands for nothing."""
        if self.data is None and self.url is not None and self.url.startswith("data:"):
            return self.kind.from_url(self.url, self.media_type)
        data = None if self.data is None else b64decode(self.data, validate=True)
        return self.kind(data, self.media_type, self.url, self.name)


@dataclass(frozen=True)
class ImageJson(_MediaJson):
    """An image: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    detail: Literal["auto", "low", "high", "original"] | None = None

    kind: ClassVar[type[Media]] = Image

    def media(self) -> Media:
        media = super().media()
        return media.with_detail(self.detail) if self.detail and isinstance(media, Image) else media


@dataclass(frozen=True)
class AudioJson(_MediaJson):
    """Sound: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = Audio


@dataclass(frozen=True)
class FileJson(_MediaJson):
    """A file: either ``data`` in base 64 with its ``media_type``, or a ``url``."""

    kind: ClassVar[type[Media]] = File


@dataclass(frozen=True)
class UserMessageJson:
    """What a user says: a text, and the media that belong to it."""

    text: str
    type: Literal["user"] = "user"
    name: str | None = None
    contents: tuple[str | ImageJson | AudioJson | FileJson, ...] = ()


@dataclass(frozen=True)
class AiMessageJson:
    """What the model said."""

    type: Literal["ai"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True)
class ToolMessageJson:
    """What a tool answered."""

    type: Literal["tool"]
    call_id: str
    name: str
    text: str


# No system message: what the model is told about its job is not for those to say who call from elsewhere.
MessageJson: TypeAlias = UserMessageJson | AiMessageJson | ToolMessageJson
_MEDIA: dict[Any, type[_MediaJson]] = {Image: ImageJson, Audio: AudioJson, File: FileJson}
_FORMS: dict[Any, Any] = {**_MEDIA, UserMessage: UserMessageJson, Message: MessageJson}
_FORMS |= {AiMessage: AiMessageJson, ToolMessage: ToolMessageJson}


def wire_form(hint: Any) -> Any:
    """A type with the records of the wire in the places of media and messages, those inside of others too."""
    if hint in _FORMS if _hashable(hint) else False:
        return _FORMS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(wire_form(args[0]), *hint.__metadata__)]
    if origin in (Union, UnionType):
        members = [arg for arg in args if arg is not SystemMessage]
        return Union[tuple(wire_form(arg) for arg in members)]  # noqa: UP007
    changed = tuple(wire_form(arg) if isinstance(arg, type) or get_origin(arg) else arg for arg in args)
    return hint if changed == args or origin is None or origin is Literal else origin[changed]


def to_wire(value: Any) -> Any:
    """A value with the records of the wire in it. Raises ValueError for a system message."""
    if type(value) in _MEDIA:
        return _media_to_wire(value)
    if isinstance(value, UserMessage):
        return UserMessageJson(value.text, "user", value.name, tuple(map(to_wire, value.contents)))
    if isinstance(value, AiMessage):
        return AiMessageJson("ai", value.text, value.tool_calls, value.reasoning)
    if isinstance(value, ToolMessage):
        return ToolMessageJson("tool", value.call_id, value.name, value.text)
    if isinstance(value, SystemMessage):
        raise ValueError("a system message is not taken from elsewhere; leave it out of the history")
    return type(value)(map(to_wire, value)) if type(value) in (list, tuple) else value


def _media_to_wire(media: Media) -> _MediaJson:
    kind, data = _MEDIA[type(media)], None if media.data is None else media.base64
    more = {"detail": media.detail} if isinstance(media, Image) else {}
    return kind(media.url, data, media.media_type, media.name, **more)


def from_wire(value: Any) -> Any:
    """The other direction."""
    if isinstance(value, _MediaJson):
        return value.media()
    if isinstance(value, UserMessageJson):
        return UserMessage(value.text, value.name, tuple(map(from_wire, value.contents)))
    if isinstance(value, AiMessageJson):
        return AiMessage(value.text, value.tool_calls, value.reasoning)
    if isinstance(value, ToolMessageJson):
        return ToolMessage(value.call_id, value.name, value.text)
    return type(value)(map(from_wire, value)) if type(value) in (list, tuple) else value


def _hashable(hint: Any) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


T = TypeVar("T")
_FIELD = "value"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?"
_TIMES = {"time": f"^{_CLOCK}$", "date-time": rf"^\d{{4}}-\d{{2}}-\d{{2}}T{_CLOCK}$"}
_OPENING = f'{{"{_FIELD}": '


class Codec(Generic[T]):
    """One type as JSON text: what ``write`` gives, ``read`` gives back as the same value.

    ``name`` is the type as its user would write it, ``schema`` its JSON Schema.
    """

    def __init__(self, parser: TypeParser[T]) -> None:
        self.parser = parser
        self.name = parser.name
        # A text alone would be any text: in an envelope everything is JSON, strings in quotes.
        self._enveloped = parser.enveloped(_FIELD)

    @cached_property
    def schema(self) -> JsonSchema:
        """The JSON Schema (draft 2020-12), with ``$defs`` for what stands in it twice."""
        inside = (self._enveloped.schema or {}).get("properties", {}).get(_FIELD)
        exact: JsonSchema = _exact(self.parser.schema or inside)
        return exact

    def write(self, value: T) -> str:
        """The JSON text of a value. Raises ValueError when it is none of the type, or JSON cannot say it."""
        return self._enveloped.write(value)[len(_OPENING) : -1]

    def read(self, text: str) -> T:
        """The value of a JSON text. Raises OutputParsingError for all but exact JSON of the type."""
        try:
            return self._enveloped.parse(f"{_OPENING}{text}}}", Leniency.NONE)
        except OutputParsingError as error:
            raise OutputParsingError(text, [_outside(problem) for problem in error.problems]) from error


def _exact(schema: Any) -> Any:
    """A schema without the formats that demand an offset from UTC of a time: one of ours may have none."""
    if isinstance(schema, list):
        return [_exact(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and schema.get("format") in _TIMES:
        rest = {key: value for key, value in schema.items() if key != "format"}
        return {**rest, "pattern": _TIMES[schema["format"]]}
    return {key: _exact(part) for key, part in schema.items()}


def _outside(problem: Problem) -> Problem:
    """A problem with the path that it has without the envelope."""
    path = problem.path.replace(f"$.{_FIELD}", "$", 1)
    return Problem(path, problem.message, problem.found)


def codec_for(form: Any, registry: ParserRegistry, namespace: Mapping[str, Any] | None = None) -> Codec[Any]:
    """The codec of a type. Raises UnsupportedTypeError when nothing reads it."""
    parser: OutputParser[Any] = registry.parser_for(form, namespace=namespace)
    known = parser if isinstance(parser, TypeParser) else TypeParser.around(parser, type_name(form))
    return Codec(known)


def record_of(name: str, fields: dict[str, Any]) -> Any:
    """The type of a dict with these fields."""
    return TypedDict(name, fields)  # type: ignore[operator]  # they are known when an interface is planned


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class UsageJson(_Frozen):
    """Tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class AttemptJson(_Frozen):
    """One request to a model, without what was said; ``replied`` says whether a reply came.

    ``error`` is the class of the error, if one came.
    """

    model: str
    seconds: float
    replied: bool = False
    strategy: str | None = None
    usage: UsageJson | None = None
    error: str | None = None


class CoercionJson(_Frozen):
    """One step away from the exact text of the reply."""

    path: str
    rule: str
    before: str = ""
    after: str = ""


class ToolRunJson(_Frozen):
    """One call of a tool: what the model wrote, and what it was told."""

    id: str
    name: str
    arguments: str
    text: str
    seconds: float
    error: str | None = None


class AccountJson(_Frozen):
    """How a value was got. ``text`` is the reply that it was read from."""

    text: str
    model: str
    finish_reason: FinishReason
    strategy: str
    seconds: float
    usage: UsageJson
    attempts: tuple[AttemptJson, ...] = ()
    coercions: tuple[CoercionJson, ...] = ()
    reasons: tuple[str, ...] = ()
    tool_runs: tuple[ToolRunJson, ...] = ()
    sources: tuple[Any, ...] = ()


def result_codec(form: Any, name: str, registry: ParserRegistry, namespace: Mapping[str, Any]) -> Codec[Any]:
    """The codec of a Result of a type, as a dict of its ``value`` and its ``account``."""
    title = "".join(part for part in name if part.isalnum())
    record = record_of(f"{title}Result", {"value": form, "account": AccountJson})
    return codec_for(record, registry, namespace)


def write_result(result: Result[Any], value: Codec[Any]) -> str:
    """The JSON text of a Result. Raises ValueError when its value cannot be written."""
    reply = result.reply
    account = AccountJson(
        text=reply.text,
        model=reply.model,
        finish_reason=reply.finish_reason,
        strategy=result.strategy,
        seconds=result.seconds,
        usage=_usage_json(result.usage),
        attempts=attempts_json(result.attempts),
        coercions=tuple(CoercionJson(**step._asdict()) for step in result.coercions),
        reasons=result.reasons,
        tool_runs=tuple(map(_run_json, result.tool_runs)),
        sources=tuple(to_jsonable_python(source, fallback=str) for source in result.sources),
    )
    return f'{{"value": {value.write(result.value)}, "account": {account.model_dump_json()}}}'


def read_result(text: str, codec: Codec[Any]) -> Result[Any]:
    """The Result of a JSON text, by its ``result_codec``. Raises OutputParsingError for a text that is none.

    Its sources are plain data, its tool runs have no result but the text, and the texts of attempts that were
    rejected are not known.
    """
    found = codec.read(text)
    account: AccountJson = found["account"]
    last = account.attempts[-1].usage if account.attempts else None
    reply = ChatReply(AiMessage(account.text), account.finish_reason, _usage(last), account.model)
    return Result(
        found["value"],
        reply,
        Strategy(account.strategy),
        tuple(Coercion(**dict(step)) for step in account.coercions),
        attempts_of(account.attempts, reply),
        account.seconds,
        account.reasons,
        tuple(map(_run, account.tool_runs)),
        account.sources,
    )


def attempts_json(attempts: Sequence[Attempt]) -> tuple[AttemptJson, ...]:
    """The requests that were made, without what was said in them."""
    return tuple(
        AttemptJson(
            model=one.model,
            seconds=one.seconds,
            replied=one.reply is not None,
            strategy=one.strategy,
            usage=None if one.reply is None or one.reply.usage is None else _usage_json(one.reply.usage),
            error=None if one.error is None else type(one.error).__name__,
        )
        for one in attempts
    )


def attempts_of(said: Sequence[AttemptJson], reply: ChatReply | None = None) -> tuple[Attempt, ...]:
    """Attempts as far as they were told; ``reply`` is that of the last one."""
    made = []
    for number, one in enumerate(said, 1):
        known = ChatReply(AiMessage(""), FinishReason.OTHER, _usage(one.usage), one.model)
        told = reply if number == len(said) and reply else known if one.replied else None
        error = None if one.error is None else AiServiceError(one.error)
        strategy = None if one.strategy is None else Strategy(one.strategy)
        made.append(Attempt(one.model, told, error, one.seconds, strategy))
    return tuple(made)


def _usage_json(usage: Usage) -> UsageJson:
    return UsageJson(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def _usage(said: UsageJson | None) -> Usage | None:
    return None if said is None else Usage(**said.model_dump())


def _run_json(run: ToolRun) -> ToolRunJson:
    call, error = run.call, None if run.error is None else type(run.error).__name__
    return ToolRunJson(
        id=call.id, name=call.name, arguments=call.arguments, text=run.text, seconds=run.seconds, error=error
    )


def _run(said: ToolRunJson) -> ToolRun:
    call = ToolCall(said.id, said.name, said.arguments)
    error = None if said.error is None else AiServiceError(said.error)
    return ToolRun(call, None, said.text, said.text, error, said.seconds)


# What tells the model nothing and may do much, so that a caller from elsewhere has no say in it.
_WITHHELD = (Role.TOOL_CONTEXT, Role.OPTIONS)


class Argument(NamedTuple):
    """One parameter of a method as it goes over the wire; ``many`` are those of ``*names``.

    ``declared`` is its type as it was written, of which ``codec`` has the form on the wire.
    """

    name: str
    declared: str
    role: Role | None
    codec: Codec[Any]
    required: bool
    many: bool


class Method:
    """One method: how it is called, what it is given and what it gives.

    ``arguments`` are the parameters that a caller gives; ``withheld`` those that are filled where the service
    runs, or keep their defaults. ``value`` is the codec of what the model is asked for, of items that of
    one; ``result`` that of the value with its account.
    """

    def __init__(
        self,
        where: str,
        function: Any,
        signature: inspect.Signature,
        returns: Returns,
        arguments: tuple[Argument, ...],
        withheld: tuple[str, ...],
        value: Codec[Any],
        result: Codec[Any],
        body: Codec[dict[str, Any]],
    ) -> None:
        self.where = where
        self.service, self.name = where.split(".")
        self.signature = signature
        self.returns = returns
        self.arguments = arguments
        self.withheld = withheld
        self.value = value
        self.result = result
        self.body = body
        self.doc = summary_of(inspect.getdoc(function) or "")

    @property
    def path(self) -> str:
        """Where it is, unless something else is said: ``/is-positive`` for ``is_positive``."""
        return "/" + self.name.strip("_").replace("_", "-")

    @property
    def streams(self) -> bool:
        """Whether it hands over its answer while it is written."""
        return self.returns.shape not in (Shape.VALUE, Shape.RESULT)

    @cached_property
    def _many(self) -> str | None:
        return next((argument.name for argument in self.arguments if argument.many), None)

    def written(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], omit: Collection[str] = ()) -> str:
        """The arguments of a call as a JSON object; those not given are left out, as those of ``omit``.

        Raises TypeError when they do not fit the signature, and ValueError for one that is none of its type.
        """
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.where}: {error}") from None
        for name in self.withheld:
            default = self.signature.parameters[name].default
            if name not in omit and given.get(name, default) is not default:
                raise ValueError(f"{self.where}: {name} is filled where the service runs; it cannot be sent")
        names = [one.name for one in self.arguments if one.name in given and one.name not in omit]
        try:
            fields = {name: to_wire(given[name]) for name in names}
            if self._many in fields:
                fields[self._many] = list(fields[self._many])
            return self.body.write(fields)
        except ValueError as error:
            raise ValueError(f"{self.where}: the arguments cannot be sent: {error}") from error

    def bound(self, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments by name as those of a call: positional ones first, where the signature wants that."""
        named = {name: from_wire(value) for name, value in given.items()}
        if self._many is None or self._many not in named:
            positional = [
                named.pop(name)
                for name, parameter in self.signature.parameters.items()
                if parameter.kind is parameter.POSITIONAL_ONLY and name in named
            ]
            return positional, named
        before: list[Any] = []
        for name, parameter in self.signature.parameters.items():
            if name == self._many:
                break
            before.append(named.pop(name, parameter.default))
        return [*before, *named.pop(self._many)], named


class Contract(NamedTuple):
    """An interface: its name, what it says of itself, and its methods by name."""

    name: str
    doc: str
    methods: Mapping[str, Method]


def contract_of(
    interface: Any, *, parsers: Sequence[ParserFactory] = (), filled: Collection[str] = ()
) -> Contract:
    """The contract of a Protocol, an ABC, or of the class of a service that ``create`` made.

    ``filled`` names parameters that callers do not give. Raises DefinitionError with all problems at once.
    """
    cls = get_origin(interface) or interface
    registry = DEFAULT_REGISTRY.with_factories(*parsers) if parsers else DEFAULT_REGISTRY
    name = type_name(interface)
    if not isinstance(cls, type):
        raise DefinitionError([DefinitionProblem(name, "it is no class; pass the interface of the service")])
    fillings = fillings_of(interface)
    problems: list[DefinitionProblem] = []
    methods: dict[str, Method] = {}
    for method, owner, attribute in methods_of(cls):
        if is_stub(inspect.unwrap(attribute)):
            where = f"{cls.__name__}.{method}"
            made = _method(attribute, where, registry, fillings.get(owner, {}), filled, problems)
            if made is not None:
                methods[method] = made
    if not methods and not problems:
        problems.append(
            DefinitionProblem(name, "it has no method without a body; pass the interface of the service")
        )
    if problems:
        raise DefinitionError(problems)
    return Contract(name, _doc_of(cls), methods)


def _doc_of(cls: type) -> str:
    """What an interface says of itself; not what Protocol and other bases say."""
    said = cls.__dict__.get("__doc__")
    return inspect.cleandoc(said) if isinstance(said, str) else ""


def _method(
    function: Any,
    where: str,
    registry: ParserRegistry,
    filling: Mapping[Any, Any],
    filled: Collection[str],
    problems: list[DefinitionProblem],
) -> Method | None:
    inner = inspect.unwrap(function)
    namespace = {**enclosing_names(sys._getframe(), inner), **declaration_of(inner).namespace}
    try:
        hints = get_type_hints(inner, localns=namespace, include_extras=True)
    except Exception as error:  # a string annotation may hold any expression
        problems.append(DefinitionProblem(where, f"an annotation cannot be resolved: {error}"))
        return None
    hints = {name: substitute(hint, filling) for name, hint in hints.items()}
    signature = inspect.signature(inner)
    try:
        returns = shape_of(hints.get("return"), asynchronous=inspect.iscoroutinefunction(inner))
        value = codec_for(returns.form, registry, namespace)
        result = result_codec(returns.form, value.name, registry, namespace)
        parameters = parameters_of(signature, hints)
    except (ShapeFault, RoleFault, UnsupportedTypeError) as error:
        problems.extend(DefinitionProblem(where, str(said)) for said in (error.args or (error,)))
        return None
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    arguments, fields, withheld = [], dict[str, Any](), []
    for parameter in parameters:
        if parameter.name in filled or parameter.role in _WITHHELD:
            withheld.append(parameter.name)
            continue
        found = _argument(parameter, hints, own, registry, namespace, where, problems)
        if found is not None:
            argument, form = found
            arguments.append(argument)
            fields[parameter.name] = form if argument.required else NotRequired[form]
    title = "".join(part[:1].upper() + part[1:] for part in where.partition(".")[2].split("_"))
    body = codec_for(record_of(f"{title}Arguments", fields), registry, namespace)
    return Method(where, inner, own, returns, tuple(arguments), tuple(withheld), value, result, body)


def _argument(
    parameter: Parameter,
    hints: Mapping[str, Any],
    signature: inspect.Signature,
    registry: ParserRegistry,
    namespace: Mapping[str, Any],
    where: str,
    problems: list[DefinitionProblem],
) -> tuple[Argument, Any] | None:
    said = signature.parameters[parameter.name]
    if said.kind is said.VAR_KEYWORD:
        problems.append(
            DefinitionProblem(
                where, f"the parameter **{said.name} has no names to be called by; name each one"
            )
        )
        return None
    many = said.kind is said.VAR_POSITIONAL
    declared = hints.get(parameter.name, Any)
    form = wire_form(declared)
    form = list[form] if many else form  # type: ignore[valid-type]
    try:
        codec = codec_for(form, registry, namespace)
    except UnsupportedTypeError as error:
        problems.append(DefinitionProblem(where, f"the parameter {said.name} cannot be sent: {error}"))
        return None
    required = said.default is said.empty and not many
    return Argument(said.name, type_name(declared), parameter.role, codec, required, many), form
