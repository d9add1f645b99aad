"""The base class for writing requests and parsing replies in a provider's HTTP API format.

A provider implements ``ApiDialect``: it writes the HTTP request of a call, and reads the reply or the
stream. Everything else is the same for all providers and is done by
``aiservices.models.http.model.HttpChatModel``: sending, timeouts, error mapping, logging. The dialect does
not deal with the address, the key and the signing of requests: the model class of the provider passes them
to its HTTP clients as ``Credentials``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, get_args

from pydantic_core import from_json, to_json

from ..errors import ModelError, Remedy
from ..messages import ChatReply, Message
from ..refusals import refusal_text, refused_parameter
from ..requests import ChatOptions, ReasoningEffort, ResponseFormat, Tooling
from .base import HttpRequest
from .replies import ErrorDetails, StreamReader, read_error_details


@dataclass(frozen=True, slots=True, eq=False)
class CallSettings:
    """The parts of a chat request other than its messages, such as the model, options and tools.

    It has no messages, so that its request writer can be reused for calls with other messages.

    Attributes:
        model: The name of the model, as the provider knows it.
        options: The options of the call, with those of the model as defaults.
        response_format: The format that the reply must have, if any.
        tooling: The tools that the model may call, if any.
        stream: Request a stream instead of a whole reply.
        logprobs: The number of most likely tokens to request for each token of the reply; 0 for none.
        notes: What the requests leave out because the model does not support it; the request writer adds it.
        refusable: The options in the requests that the model may refuse, each with a word, in lower case and
            without underscores, by which errors name it; the request writer adds them.
        refused: The options that the model has refused, each with the values that it accepts instead, if any.
    """

    model: str
    options: ChatOptions
    response_format: ResponseFormat | None
    tooling: Tooling | None
    stream: bool
    logprobs: int = 0
    notes: list[str] = field(default_factory=list)
    refusable: dict[str, str] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


RequestWriter: TypeAlias = Callable[[Sequence[Message]], HttpRequest]

# The options that each model refused, with the values that it accepts instead, if any.
RefusedOptions: TypeAlias = dict[str, dict[str, tuple[str, ...]]]
_REFUSED_OPTIONS: dict[str, RefusedOptions] = {}


def refused_options_at(server: str) -> RefusedOptions:
    """Return the options that models of a server have refused; all clients of the process share them.

    An option counts only if a request without it has succeeded. ``server`` is the API with its address.
    """
    return _REFUSED_OPTIONS.setdefault(server, {})


def has_member(request: HttpRequest, name: str) -> bool:
    """Return True if the JSON body of a request has a key; snake case and camel case are equal."""
    body = request.body.lower().replace(b"_", b"")
    return b'"%s":' % name.replace("_", "").encode() in body


class ApiDialect(ABC):
    """Base class for writing requests and parsing replies in one provider's HTTP API format.

    Attributes:
        reply_name: The name of a valid reply in error messages, as in "the reply is not a chat completion".
    """

    reply_name: ClassVar[str] = "chat reply"

    @abstractmethod
    def request_writer(self, settings: CallSettings) -> RequestWriter:
        """Return a function that converts chat messages to an HTTP request for this provider's API.

        The model calls this once for each combination of settings and keeps the writer. So work that depends
        on the settings alone, such as the JSON of the tools, is done here, and work that depends on the
        messages (a system text that is not one of the API's messages, for example) is done by the writer.
        Both raise UnsupportedRequestError if the API does not support something, and ValueError for a value
        that cannot be written as JSON.
        """

    @abstractmethod
    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        """Convert the body of an HTTP response to the reply of the model.

        Raises UnreadableReplyError, or ReportedError if the body reports an error. An AttributeError,
        LookupError, TypeError or ValueError means that the reply has an unexpected shape.
        """

    @abstractmethod
    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        """Return a parser that converts the bytes of a streamed HTTP response to parts of the reply."""

    def check_options(self, options: ChatOptions) -> None:  # noqa: B027  # most APIs have all options
        """Raise UnsupportedRequestError if an option is set that the provider's API does not support."""

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        """Return advice on how to fix a request that the provider refused; "" if unknown.

        "drop state" means that the provider refused the state of earlier messages, such as encrypted
        reasoning. "send again" means that the next request should leave out ``error.refused_options``, which
        the dialect has set; they are in ``CallSettings.refused`` then, and are remembered if that request
        succeeds. Only the words of the provider may count (``own_words``), not what it quotes of the request.
        """
        return ""

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        """Return the details of a provider's HTTP error response, such as its message and status.

        ``headers`` is empty for an error within a stream.
        """
        return read_error_details(headers, body)


def json_request_writer(
    path: str,
    settings_members: Mapping[str, object],
    message_members: Mapping[str, Callable[[Sequence[Message]], object]],
    extra_body: Mapping[str, object] | None = None,
    *,
    merged: Sequence[str] = (),
) -> RequestWriter:
    """Return a function that writes chat messages as an HTTP request with a JSON body.

    Args:
        path: The path of every request.
        settings_members: The members that do not depend on the messages. Their JSON is written only once. A
            member that is None is left out.
        message_members: Functions that return the other members for the messages of a request, by name. A
            member that is None is left out. Bytes are JSON, as a ConversationWriter returns it.
        extra_body: Members that replace those of the same name.
        merged: Names of members whose own members ``extra_body`` replaces one by one.
    """
    extra = extra_body or {}
    members = {name: value for name, value in settings_members.items() if value is not None}
    for name, value in extra.items():
        own = members.get(name) if name in merged else None
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            value = {**own, **value}
        members[name] = value
    # without the braces, so that the other members can be appended
    constant = to_json(members, fallback=_as_json_value)[1:-1]
    per_request = [(to_json(name), write) for name, write in message_members.items() if name not in extra]

    def write_request(messages: Sequence[Message]) -> HttpRequest:
        parts = [constant] if constant else []  # an API with the model in its path may need no other member
        for name, write in per_request:
            value = write(messages)
            if value is not None:
                parts.append(b"%s:%s" % (name, value if isinstance(value, bytes) else to_json(value)))
        return HttpRequest(path, b"{%s}" % b",".join(parts))

    return write_request


def _as_json_value(value: object) -> object:
    # a read-only mapping is an example of a type that pydantic_core does not know
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


# --- Options that a model refuses ---

# The options, with their names in the requests of both APIs. `stop` is not among them: without it, the answer
# would be another one.
_MEMBERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "reasoning_effort": "effort",  # the last part of `reasoning.effort` and of `reasoning_effort`
    "service_tier": "service_tier",
    "parallel_tool_calls": "parallel_tool_calls",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_completion_tokens",
}
_EFFORTS: tuple[str, ...] = get_args(ReasoningEffort)
_REFUSAL = re.compile(
    r"support|unknown|unrecogni|unexpected|not permitted|not allowed|extra inputs|only the default"
)
# The engine handles refusals of these.
_OF_STRATEGIES = re.compile(r"tool_choice|response_format|json_schema|text\.format")
_TEXT_MEMBERS = frozenset(
    ("content", "text", "input", "output", "arguments", "thinking", "instructions", "system")
)
_WITHOUT_TEXTS = frozenset(("tools", "response_format", "toolConfig", "output_config", "generationConfig"))
_VALUES = re.compile(r"(?:(?:supported|allowed) values|must be one of|expected one of)(.{0,300})", re.S)


def own_words(error: ModelError, request: HttpRequest) -> str:
    """Return what the provider itself says in an error, in lower case, without texts of the request."""
    try:
        body = from_json(request.body)
    except ValueError:
        return refusal_text(error, [request.body.decode(errors="replace")])
    return refusal_text(error, _texts(body))


def _texts(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        if name in _TEXT_MEMBERS:
            yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, name)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in _WITHOUT_TEXTS:
                yield from _texts(one, key)


def refused_options_of(error: ModelError, request: HttpRequest, text: str) -> dict[str, tuple[str, ...]]:
    """Return the options that a model refused in a request, each with the values that it accepts, if any.

    ``text`` are the provider's ``own_words``. Only an error that says that an option is not supported counts.
    One about a wrong value, such as a temperature of 5, is the error of the caller.
    """
    if not _REFUSAL.search(text):
        return {}
    parameter = refused_parameter(error)
    if parameter is not None:
        named = {parameter.replace("reasoning.", "reasoning_")}
    elif _OF_STRATEGIES.search(text):
        return {}
    else:
        named = set(re.findall(r"[a-z_]+", text.replace("reasoning.", "reasoning_")))
    names = [name for name, member in _MEMBERS.items() if name in named and _sends(request, member)]
    refused: dict[str, tuple[str, ...]] = {}
    for name in names:
        values: tuple[str, ...] = ()
        if name == "reasoning_effort" and (listed := _VALUES.search(text)) is not None:
            words = re.findall(r"[a-z]+", listed[1])
            values = tuple(effort for effort in _EFFORTS if effort in words)
        refused[name] = values
    return refused


def _sends(request: HttpRequest, member: str) -> bool:
    return has_member(request, member) or (member == "effort" and has_member(request, "reasoning_effort"))


def accepted_options(
    options: ChatOptions, refused: Mapping[str, tuple[str, ...]]
) -> tuple[ChatOptions, tuple[str, ...]]:
    """Return the options without those that the model refuses, and a note about each change."""
    changes: dict[str, str | None] = {}
    notes = []
    for name, values in refused.items():
        value = getattr(options, name, None)
        if value is None or value in values or name == "max_tokens":  # the limit may have another name
            continue
        if values:
            changes[name] = _nearest_effort(value, values)
            accepted = ", ".join(values)
            notes.append(f"{name} was {changes[name]} instead of {value}: the model accepts {accepted}")
        else:
            changes[name] = None
            notes.append(f"{name} was left out: the model refuses it")
    return (replace(options, **changes) if changes else options), tuple(notes)  # type: ignore[arg-type]


def _nearest_effort(effort: str, accepted: tuple[str, ...]) -> str:
    """Return the accepted reasoning effort that is nearest to the requested one.

    It is the highest up to the requested one, or else the lowest.
    """
    lower = [one for one in accepted if _EFFORTS.index(one) <= _EFFORTS.index(effort)]
    return lower[-1] if lower else accepted[0]
