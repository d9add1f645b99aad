"""A chat model that records another model's replies in a file (a cassette) and replays them later."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher, unified_diff
from enum import StrEnum
from pathlib import Path

from output_parsers.result.reading import Json, JsonObject

from ..atomic_file import write_atomically
from ..models import errors
from ..models.arguments import checks_arguments
from ..models.base import Capabilities, ChatModel, DecisionLimits
from ..models.messages import (
    ChatReply,
    ReplyDelta,
    ToolCall,
    ToolCallDelta,
    message_to_dict,
    reply_from_json,
    reply_to_json,
)
from ..models.registry import find_model
from ..models.requests import ChatRequest, DecisionFormat, ImageFormat, JsonSchemaFormat
from ..models.wrapper import DelegatingChatModel, RequestFlow, Send
from ..text_encoding import marked_encoding

# --- Requests and replies as JSON ---

# Cassettes and the seeds of fake answers depend on this JSON.

REMOVED = "(removed)"
_NOT_RECORDED = ("timeout", "extra_headers")  # they differ from run to run, or contain credentials
_SECRET_NAME = re.compile(
    r"api[-_]?key|private[-_]?key|authori[sz]ation|^auth$|password|passwd|^pwd$|secret|credential|cookie|^bearer$"
    r"|^(.*[-_])?(access|bearer|refresh|id|ad|session)?[-_]?token$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"\bsk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"  # an OpenAI key; without a digit it is a word
    r"|\b(?:AIza|gsk_|hf_|gh[pousr]_|github_pat_|xai-|AKIA|ASIA)[A-Za-z0-9_-]{16,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----"
    r"|(?<=\bBearer )[A-Za-z0-9._~+/-]{16,}=*"
    r"|(?<=//)[^/@\s\"]+(?=@)"  # user name and password in a URL
    r"|(?<=[?&](?:sig|key)=)[^&\s\"]+|(?<=[?&]token=)[^&\s\"]+|(?<=[?&]api_key=)[^&\s\"]+"
    r"|(?<=[?&]access_token=)[^&\s\"]+|(?<=[?&]X-Amz-Signature=)[^&\s\"]+"
)
_SECRET_VARIABLE = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD|_PASSWD|_CREDENTIALS|_BEDROCK)$")
_MIN_SECRET_LENGTH = 8  # a shorter value may be a word of the prompt


def request_to_json(request: ChatRequest) -> dict[str, object]:
    """Convert a model request to JSON data, leaving out headers, timeout, deadline and empty fields."""
    options = {name: value for name, value in asdict(request.options).items() if value is not None}
    for name in _NOT_RECORDED:
        options.pop(name, None)
    data: dict[str, object] = {"messages": [message_to_dict(message) for message in request.messages]}
    if options:
        data["options"] = options
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        data["response_format"] = {
            "name": response_format.name,
            "strict": response_format.strict,
            "schema": response_format.schema,
        }
    elif isinstance(response_format, DecisionFormat):
        questions = [question._asdict() for question in response_format.questions]
        data["response_format"] = {"task": response_format.task, "questions": questions}
    elif response_format is not None:
        is_image = isinstance(response_format, ImageFormat)
        data["response_format"] = "images" if is_image else "json_object"
    if request.logprobs:
        data["logprobs"] = request.logprobs
    if request.tooling is not None:
        data["tooling"] = {
            "choice": request.tooling.choice,
            "parallel": request.tooling.parallel_calls,
            "tools": [asdict(tool) for tool in request.tooling.tools],
        }
    # The round trip turns tuples into lists: a request compares equal to one that was read from a file.
    plain: dict[str, object] = json.loads(json.dumps(data, default=str))
    return plain


def delta_to_json(delta: ReplyDelta) -> str | dict[str, object]:
    """Convert a chunk of a streamed model reply to JSON data.

    The last chunk also carries the whole reply, which is left out.

    A delta that has only text becomes a string.
    """
    if not delta.tool_calls and not delta.reasoning:
        return delta.text
    data = {name: value for name, value in (("text", delta.text), ("reasoning", delta.reasoning)) if value}
    calls = [
        {name: value for name, value in asdict(call).items() if value is not None}
        for call in delta.tool_calls
    ]
    return {**data, "tool_calls": calls}


def delta_from_json(data: str | Mapping[str, Json]) -> ReplyDelta:
    """Convert JSON data back to a chunk of a streamed model reply."""
    if isinstance(data, str):
        return ReplyDelta(data)
    calls = tuple(
        [
            ToolCallDelta(**{**call, "call": ToolCall(**call["call"]) if "call" in call else None})
            for call in data.get("tool_calls", ())
        ]
    )
    return ReplyDelta(data.get("text", ""), data.get("reasoning", ""), tool_calls=calls)


def without_secrets(data: object, redact: Callable[[str], str]) -> object:
    """Replace secrets in JSON data with "(removed)".

    A secret is recognized by its key, by its form, or because an environment variable such as ``…_API_KEY``
    has it as its value. Then ``redact`` is applied to each string. Text that is JSON, such as the arguments
    of a tool call, is cleaned in the same way, and so is text in base64, such as the content of a file.
    """
    if isinstance(data, Mapping):
        return {
            _cleaned(str(key), redact): REMOVED
            if isinstance(value, str) and _SECRET_NAME.search(str(key))
            else without_secrets(value, redact)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple, set, frozenset)):
        return [without_secrets(item, redact) for item in data]
    return _cleaned(data, redact) if isinstance(data, str) else data


def _cleaned(text: str, redact: Callable[[str], str]) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            data = json.loads(text)
        except ValueError:
            pass
        else:
            cleaned = without_secrets(data, redact)
            if cleaned != data:
                return json.dumps(cleaned, ensure_ascii=False)
    decoded = _decoded(text)
    if decoded is not None and (cleaned_text := _cleaned(decoded, redact)) != decoded:
        return base64.b64encode(cleaned_text.encode("utf-8", "replace")).decode()
    return redact(_text_without_secrets(text))


_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}={0,2}")


def _decoded(data: str) -> str | None:
    """Return the text that base64 encodes, such as the content of a file; None for anything else."""
    if len(data) % 4 or _BASE64.fullmatch(data) is None:
        return None
    content = base64.b64decode(data)
    try:
        return content.decode(marked_encoding(content) or "utf-8")
    except UnicodeDecodeError:
        return None


def _text_without_secrets(text: str) -> str:
    for name, value in os.environ.items():
        if len(value) >= _MIN_SECRET_LENGTH and value in text and _SECRET_VARIABLE.search(name):
            text = text.replace(value, REMOVED)
    return _SECRET_TEXT.sub(REMOVED, text)


def canonical_json(data: object) -> str:
    """Convert JSON data to indented text with sorted keys, which is identical for equal data."""
    return json.dumps(data, indent=2, ensure_ascii=False, sort_keys=True)


class CassetteError(Exception):
    """Raised if a request has no recorded reply, or the cassette file cannot be read or written."""


class CassetteMode(StrEnum):
    """The mode of a cassette (a file of recorded replies), which determines the requests it records.

    Attributes:
        NONE: Record nothing. A request that was not recorded is an error.
        ONCE: Record everything if the file does not exist, else nothing.
        NEW: Replay what was recorded and record the rest.
        ALL: Record everything and replace the file.
    """

    NONE = "none"
    ONCE = "once"
    NEW = "new"
    ALL = "all"


@checks_arguments
class CassetteChatModel(DelegatingChatModel):
    """A chat model that replays replies from a file, and records the replies to new requests.

    Requests are compared by messages, options, response format and tools; timeouts and headers are ignored.
    Equal requests get their recorded replies in the order of recording. API keys are removed by their names,
    by their form, and by the values of environment variables. A ``ModelError`` is recorded, too; on replay
    its ``retry_after`` is 0, so that no test waits. Replies have no ``raw``. It is safe to use from several
    threads.

    Without a model it only replays, with the name and capabilities of the recorded model.

    Arguments:
        path: The cassette file. Missing folders are created.
        model: The model to record, or its name.
        mode: What is recorded, see ``CassetteMode``.
        redact: Applied to each text before it is stored or compared. It can remove other secrets and text
            that differs from run to run.

    Raises CassetteError for a file that is not a cassette and for a request that is not in the file and may
    not be recorded; the message shows the difference from the most similar recorded request. Raises
    DefinitionError without a model if the mode needs one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: ChatModel | str | None = None,
        *,
        mode: CassetteMode | str = CassetteMode.ONCE,
        redact: Callable[[str], str] = str,
    ) -> None:
        if mode not in list(CassetteMode):
            raise _definition_error(f"mode is {mode!r}; it must be one of {', '.join(CassetteMode)}")
        self._open(CassetteFile(Path(path), CassetteMode(mode)), model, redact)

    def also(self, model: ChatModel | str) -> CassetteChatModel:
        """Return a chat model that records and replays another model's replies in the same file."""
        other = CassetteChatModel.__new__(CassetteChatModel)
        other._open(self._file, model, self._redact)
        return other

    def _open(self, file: CassetteFile, model: ChatModel | str | None, redact: Callable[[str], str]) -> None:
        self._file, self._redact = file, redact
        self._model = None if model is None else find_model(model, "CassetteChatModel")
        if self._model is None:
            self._name, self._capabilities = self._recorded_model()
        else:
            self._name, self._capabilities = self._model.name, self._model.capabilities
            file.models[self._name] = _capabilities_to_json(self._capabilities)

    def _recorded_model(self) -> tuple[str, Capabilities]:
        file, models = self._file, self._file.models
        if not file.only_replays:
            message = f'to record to {file.path}, pass the model to record; mode="none" needs no model'
            raise _definition_error(message)
        if not models:
            raise CassetteError(_no_reply_message(file.path, file.mode, file.path.exists(), {}, []))
        if len(models) != 1:
            raise _definition_error(
                f"{file.path} has recordings of several models ({', '.join(models)}); pass the one to replay"
            )
        ((name, capabilities),) = models.items()
        return name, _capabilities_from_json(capabilities)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def unplayed(self) -> int:
        """The number of recorded replies in the file that have not been replayed yet."""
        return self._file.unplayed

    @property
    def inner_models(self) -> tuple[ChatModel, ...]:
        return () if self._model is None else (self._model,)

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        request_json = self._request_json(request)
        recorded = self._file.replay(request_json)
        if recorded is not None:
            yield from [delta_from_json(piece) for piece in recorded.pieces]
            return self._reply(recorded)
        assert self._model is not None, "a cassette without a model only replays"
        deltas: list[ReplyDelta] = []
        with self._recording(request_json) as exchange:
            try:
                reply: ChatReply = yield Send(self._model, request, on_delta=deltas.append)
                exchange.reply = self._public(reply_to_json(reply))
                return reply
            finally:
                exchange.pieces = self._pieces(deltas)

    def _request_json(self, request: ChatRequest) -> dict[str, object]:
        # The model is part of the request: one file can hold the exchanges of several models.
        data: dict[str, object] = self._public({"model": self._name, **request_to_json(request)})
        return data

    def _public(self, data: Json) -> Json:
        return without_secrets(data, self._redact)

    @contextmanager
    def _recording(self, request_json: JsonObject) -> Iterator[Exchange]:
        with self._file.recording(request_json) as exchange:
            try:
                yield exchange
            except errors.ModelError as error:
                fields = {name: getattr(error, name) for name in _ERROR_FIELDS}
                set_fields = {name: value for name, value in fields.items() if value is not None}
                exchange.error = self._public(
                    {"type": type(error).__name__, "message": str(error), **set_fields}
                )
                raise

    def _pieces(self, deltas: Sequence[ReplyDelta]) -> list[object]:
        """Return the parts of a streamed reply to store: one part if a secret is spread over several."""
        deltas = [delta for delta in deltas if delta.reply is None]
        channels: dict[object, list[str]] = {
            "text": [delta.text for delta in deltas],
            "reasoning": [delta.reasoning for delta in deltas],
        }
        calls: dict[int, ToolCallDelta] = {}
        for part in (part for delta in deltas for part in delta.tool_calls):
            channels.setdefault(part.index, []).append(part.arguments)
            calls[part.index] = part
        whole = {channel: "".join(texts) for channel, texts in channels.items()}
        if all(
            self._public(whole[channel]) == "".join(map(self._public, texts))
            for channel, texts in channels.items()
        ):
            return [self._public(delta_to_json(delta)) for delta in deltas]
        complete = tuple(replace(part, arguments=whole[index]) for index, part in calls.items())
        delta = ReplyDelta(whole["text"], whole["reasoning"], tool_calls=complete)
        return [self._public(delta_to_json(delta))]

    def _reply(self, exchange: Exchange) -> ChatReply:
        if exchange.error is not None:
            raise _recorded_error(exchange.error)
        if exchange.reply is None:
            raise CassetteError(
                f"{self._file.path}: the stream of this request was closed before its end when it was "
                "recorded, so its whole reply is unknown; record it again"
            )
        return reply_from_json(exchange.reply)


def _definition_error(message: str) -> errors.DefinitionError:
    return errors.DefinitionError([errors.DefinitionProblem("CassetteChatModel", message)])


_ERROR_FIELDS = ("status", "request_id", "retryable", "retry_after", "body")
_MAX_RETRY_AFTER = 60.0  # seconds; a call does not retry if the provider asks for a longer wait


def _recorded_error(data: JsonObject) -> errors.ModelError:
    """Return the recorded model error to raise, without the time to wait before a retry."""
    fields = dict(data)
    error_type = getattr(errors, fields.pop("type"), None)
    if not isinstance(error_type, type) or not issubclass(error_type, errors.ModelError):
        error_type = errors.ModelError  # the recorded model raised its own exception class
    if fields.get("retryable") and fields.get("retry_after", 0.0) <= _MAX_RETRY_AFTER:
        fields["retry_after"] = 0.0
    return error_type(fields.pop("message"), **fields)


# --- The file ---

_FORMAT_VERSION = 1


@dataclass(eq=False)
class Exchange:
    """A recorded model request with its reply or error, as JSON data.

    Attributes:
        request: The request, with the name of the model.
        pieces: The deltas of a stream.
        reply: The whole reply; None if it failed, or if the stream was closed early.
        error: The type, message and fields of the ModelError that was raised.
    """

    request: JsonObject
    pieces: list[Json] = field(default_factory=list)
    reply: JsonObject | None = None
    error: JsonObject | None = None

    def check(self) -> None:
        """Raise an error, such as KeyError, if the recorded request or reply is damaged."""
        dict(self.request)
        for piece in self.pieces:
            delta_from_json(piece)
        if self.reply is not None:
            reply_from_json(self.reply)
        if self.error is not None:
            _recorded_error(self.error)

    def to_json(self) -> JsonObject:
        data = {"request": self.request, "pieces": self.pieces, "reply": self.reply, "error": self.error}
        return {name: value for name, value in data.items() if value not in (None, [])}


class CassetteFile:
    """The model requests and replies recorded in a cassette file.

    It is safe to use from several threads, and the file is written atomically.

    Attributes:
        path: The path of the file.
        mode: What is recorded.
        models: The capabilities of each recorded model, by its name.
    """

    def __init__(self, path: Path, mode: CassetteMode) -> None:
        self.path = path
        self.mode = mode
        self.models: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()
        self._exchanges: list[Exchange | None] = []  # None reserves the position of a call that is running
        self._not_replayed: list[Exchange] = []
        self._text = self._text_on_disk()
        self._is_loaded = self._text is not None and mode is not CassetteMode.ALL
        if self._text is not None and self._is_loaded:
            self._load(self._text)

    @property
    def only_replays(self) -> bool:
        """True if recorded replies are only replayed, so that no request is sent to a model."""
        return self.mode is CassetteMode.NONE or (self.mode is CassetteMode.ONCE and self._is_loaded)

    @property
    def unplayed(self) -> int:
        """The number of recorded replies in the file that have not been replayed yet."""
        return len(self._not_replayed)

    def replay(self, request: Mapping[str, object]) -> Exchange | None:
        """Return the next recorded reply or error for a model request; None if it must be recorded.

        Raises CassetteError if the request was not recorded and must not be recorded now.
        """
        key = canonical_json(request)
        with self._lock:
            matches = (one for one in self._not_replayed if canonical_json(one.request) == key)
            exchange = next(matches, None)
            if exchange is not None:
                self._not_replayed.remove(exchange)
                return exchange
            if not self.only_replays:
                return None
            recorded = [one.request for one in self._exchanges if one is not None]
            message = _no_reply_message(self.path, self.mode, self._is_loaded, request, recorded)
            raise CassetteError(message)

    @contextmanager
    def recording(self, request: JsonObject) -> Iterator[Exchange]:
        """Context manager that records a model request and its reply, and saves them at the end.

        Concurrent exchanges are stored in the order in which they began, so that the file is reproducible.
        """
        exchange = Exchange(request)
        with self._lock:
            position = len(self._exchanges)
            self._exchanges.append(None)
        try:
            yield exchange
        finally:
            if exchange.reply is not None or exchange.error is not None or exchange.pieces:
                with self._lock:
                    self._exchanges[position] = exchange
                    self._save()

    def _text_on_disk(self) -> str | None:
        try:
            return self.path.read_text("utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise CassetteError(f"{self.path} cannot be read: {error}") from error

    def _load(self, text: str) -> None:
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT_VERSION:
                raise CassetteError(
                    f"{self.path} has the format {data['format']}; this version reads {_FORMAT_VERSION}"
                )
            self.models = dict(data["models"])
            for capabilities in self.models.values():
                _capabilities_from_json(capabilities)
            exchanges = [Exchange(**exchange) for exchange in data["exchanges"]]
            for exchange in exchanges:
                exchange.check()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise CassetteError(
                f"{self.path} is not a cassette: {error!r}; delete it and record it again"
            ) from error
        self._exchanges = [*exchanges]
        self._not_replayed = exchanges

    def _save(self) -> None:
        # Two cassettes on one file would each overwrite the exchanges of the other.
        if self._text_on_disk() != self._text:
            raise CassetteError(
                f"{self.path} was changed by another program or cassette during the recording; give each "
                "test its own file, and use cassette.also(model) for models that share a file"
            )
        exchanges = [exchange.to_json() for exchange in self._exchanges if exchange is not None]
        data = {"format": _FORMAT_VERSION, "models": self.models, "exchanges": exchanges}
        written = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        # UTF-8 cannot encode a lone surrogate. It becomes an escape that JSON reads back.
        text = written.encode("utf-8", "backslashreplace").decode()
        write_atomically(self.path, text)
        self._text = text


# --- The message for a request without a reply ---

_MAX_DIFF_LINES = 60


def _no_reply_message(
    path: Path,
    mode: str,
    is_loaded: bool,
    request: Mapping[str, object],
    recorded: Sequence[Mapping[str, object]],
) -> str:
    """Explain why a model request has no recorded reply, and how to record one."""
    if not is_loaded:
        return (
            f"{path} does not exist, and the mode {mode} records nothing; "
            'record it with the mode "once" (pytest --cassettes=once)'
        )
    advice = 'record new requests with the mode "new" (pytest --cassettes=new), or all of them with "all"'
    repetitions = sum(canonical_json(one) == canonical_json(request) for one in recorded)
    if repetitions:
        times = "once" if repetitions == 1 else f"{repetitions} times"
        return f"{path}: this request was recorded {times}, but is made more often now; {advice}"
    if not recorded:
        return f"{path} contains no exchange; {advice}"
    number, nearest = max(enumerate(recorded, 1), key=lambda numbered: _similarity(numbered[1], request))
    diff = list(
        unified_diff(
            canonical_json(nearest).splitlines(),
            canonical_json(request).splitlines(),
            "recorded",
            "requested",
            lineterm="",
        )
    )
    omitted = len(diff) - _MAX_DIFF_LINES
    return "\n".join(
        [
            f"{path} has no reply to this request; {advice}.",
            f"The most similar recorded request is exchange {number} of {len(recorded)}:",
            *diff[:_MAX_DIFF_LINES],
            *([f"… and {omitted} more lines"] if omitted > 0 else []),
        ]
    )


def _similarity(one: Mapping[str, object], other: Mapping[str, object]) -> float:
    lines, other_lines = canonical_json(one).splitlines(), canonical_json(other).splitlines()
    return SequenceMatcher(None, lines, other_lines, autojunk=False).ratio()


def _capabilities_to_json(capabilities: Capabilities) -> dict[str, object]:
    data = asdict(capabilities)
    for name in (
        "logprobs",
        "decisions",
        "continues_replies",
        "image_output",
    ):  # most models have none of them
        if not data[name]:
            del data[name]
    return data


def _capabilities_from_json(data: JsonObject) -> Capabilities:
    limits = data.get("decisions")
    return Capabilities(**{**data, "decisions": None if limits is None else DecisionLimits(**limits)})
