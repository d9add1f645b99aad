"""Chat models for decision endpoints, which answer questions with probabilities instead of writing text.

Three formats are known: OpenAI's Decisions API, Gemini's Decisions API, and TypeSafe's System One,
which other services and servers use too. The first two follow the types in the SDKs of OpenAI (3.54) and
Google (3.4). The third follows published documentation and was not tested with the services.
"""

from __future__ import annotations

import json
import logging
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import urlsplit

from output_parsers.result.reading import Json, JsonObject

from ...models.arguments import checks_arguments
from ..base import Capabilities, DecisionLimits
from ..errors import DefinitionError, DefinitionProblem
from ..http.api import ApiDialect, CallSettings, RequestWriter, json_request_writer
from ..http.base import ApiKey, Credentials, display_url, key_credentials
from ..http.model import HttpChatModel, HttpClients, check_name, model_label
from ..http.replies import (
    ErrorDetails,
    ErrorMapper,
    StreamReader,
    UnreadableReplyError,
    UnsupportedRequestError,
    WholeReplyReader,
    parse_object,
    read_error_details,
)
from ..http.usage import UsageFields, read_usage
from ..media import Image, Media
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    SystemMessage,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..openai.client import Endpoint, check_url, read_credentials
from ..openai.responses import USAGE as OPENAI_USAGE
from ..presets import PRESETS, DecisionServer
from ..requests import AnswerOption, ChatOptions, ChatRequest, DecisionFormat, Question, decision_reply
from ..wrapper import FlowChatModel, RequestFlow, Send
from .gemini import read_google_error

DecisionProvider: TypeAlias = Literal["openai-decisions", "google-decisions", "systemone"]

_LOGGER = logging.getLogger("aiservices.decisions")
_NO_OPTIONS = ChatOptions()
_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "aiservices"}
_GOOGLE_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_TYPESAFE_URL, _TYPESAFE_KEY = "https://api.typesafe.ai", "TYPESAFE_API_KEY"
_EXAMPLES: dict[DecisionProvider, str] = {
    "openai-decisions": "gpt-6-luna",
    "google-decisions": "gemini-decision-1",
    "systemone": "jev-1.13.0",
}
# Options without effect on a decision endpoint, because it writes no text.
_UNUSED_OPTIONS = (
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "seed",
    "reasoning_effort",
    "cache",
    "server_tools",
    "service_tier",
)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_NONE_OF_THESE = "none of these"
_SUM_TOLERANCE = 0.02  # equal requests differ in the second decimal, and some services round to two
_ROUNDING_ERROR = 0.005  # the rounding error of a probability with two decimals
_EPSILON = 1e-6  # the tolerance for sums of floating-point numbers


@checks_arguments
class DecisionChatModel(FlowChatModel, HttpChatModel):
    """A chat model that answers by choosing from fixed options, and gives a probability for each option.

    Its names in ``create`` are ``"openai-decisions:gpt-6-luna"``, ``"google-decisions:gemini-decision-1"``
    and ``"systemone:jev-1.13.0"``. It returns a probability for each possible answer. It writes no text, so
    a request for text, for JSON of any other kind, or with tools is an error. Creating a model opens no
    connection and needs no key.

    A ``systemone`` model calls TypeSafe, or another server with the System One API: Perplexity, OpenRouter
    and Fireworks are known by the host in ``base_url``. For any other server, such as llama.cpp, Ollama or
    SGLang, the requests go to ``/v1/systemone`` below ``base_url``, or to ``base_url`` itself if it ends with
    ``/systemone`` or ``/decisions``. The System One format was not tested with these services.

    Args:
        model: The name of the model.
        provider: The API: "openai-decisions", "google-decisions" or "systemone".
        base_url: The URL of the server; by default OPENAI_BASE_URL, GEMINI_BASE_URL or TYPESAFE_BASE_URL, or
            the provider's server.
        api_key: The key, or a function that returns it for each request. By default OPENAI_API_KEY;
            GEMINI_API_KEY or GOOGLE_API_KEY; TYPESAFE_API_KEY, PERPLEXITY_API_KEY, OPENROUTER_API_KEY or
            FIREWORKS_API_KEY. Other System One servers need no key.
        options: Options for all requests; those of a request have priority. Only ``model``, ``timeout``,
            ``extra_body`` and ``extra_headers`` have an effect.
        limits: The limits of one request, if the known limits are wrong. More questions
            are sent in several requests, one after the other.
        log_level: The level at which requests and replies are logged, without keys.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: DecisionProvider = "openai-decisions",
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        options: ChatOptions = _NO_OPTIONS,
        limits: DecisionLimits | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        if provider not in _EXAMPLES:
            raise _definition_error(f"provider is {provider!r}; it must be one of {', '.join(_EXAMPLES)}")
        if base_url:
            check_url(base_url, "base_url", provider)
        name = f"{provider}:{model}"
        service = _SERVICES[provider](name, base_url, api_key, limits)
        super().__init__(
            model,
            provider=provider,
            dialect=service.dialect,
            clients=HttpClients(name, service.url, service.credentials),
            address=display_url(service.url),
            key_advice=service.key_advice,
            capabilities=Capabilities(decisions=service.dialect.limits),
            options=options,
            logger=_LOGGER,
            log_level=log_level,
        )
        self._decisions = service.dialect

    @classmethod
    def openai(cls, name: str) -> Self:
        """Return a model for OpenAI's Decisions API, or for the server at OPENAI_BASE_URL."""
        return cls._named(name, "openai-decisions")

    @classmethod
    def google(cls, name: str) -> Self:
        """Return a model for Gemini's Decisions API, or for the server at GEMINI_BASE_URL."""
        return cls._named(name, "google-decisions")

    @classmethod
    def systemone(cls, name: str) -> Self:
        """Return a model for the System One API of TypeSafe, or of the server at TYPESAFE_BASE_URL."""
        return cls._named(name, "systemone")

    @classmethod
    def _named(cls, name: str, provider: DecisionProvider) -> Self:
        return cls(check_name(name, f"{provider}:{_EXAMPLES[provider]}"), provider=provider)

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        """Ask a request's multiple-choice questions; the reply has a probability for each option."""
        parts = self._parts(request)
        sender: Any = super(FlowChatModel, self)  # the methods of HttpChatModel, which send one request
        replies: list[ChatReply] = []
        for part in parts:  # not at the same time: later requests find the state in the prompt cache
            replies.append((yield Send(sender, part, streamed=False)))
            if replies[-1].finish_reason is not FinishReason.STOP:
                break
        return self._join(parts, replies) if len(replies) == len(parts) > 1 else replies[-1]

    def _parts(self, request: ChatRequest) -> list[ChatRequest]:
        """Split a request with too many questions for the endpoint into several requests."""
        answer_format, limit = request.response_format, self._decisions.limits.questions
        if not isinstance(answer_format, DecisionFormat) or len(answer_format.questions) <= limit:
            return [request]
        try:
            for question in answer_format.questions:  # before the first of several requests is sent
                self._decisions.check(question)
        except UnsupportedRequestError as error:
            label = model_label(self, request.options.model)
            raise ErrorMapper(label).invalid_request(error) from error
        return [replace(request, response_format=part) for part in _split(answer_format, limit)]

    def _join(self, parts: Sequence[ChatRequest], replies: Sequence[ChatReply]) -> ChatReply:
        """Join the replies to the parts of a split request.

        ``raw`` becomes a JSON array of their bodies.
        """
        questions: list[Question] = []
        answers: list[Sequence[float] | None] = []
        usage: Usage | None = None
        for part, reply in zip(parts, replies, strict=True):
            assert isinstance(part.response_format, DecisionFormat)
            questions += part.response_format.questions
            data = parse_object(reply.raw or b"")
            answers += self._decisions.read_answers(data, part.response_format.questions)
            if reply.usage is not None:
                usage = reply.usage if usage is None else usage + reply.usage
        raw = b"[%s]" % b",".join(reply.raw or b"null" for reply in replies)
        last = replies[-1]
        joined = decision_reply(questions, answers, usage=usage, model=last.model, id=last.id, raw=raw)
        return replace(joined, notes=last.notes)


def _definition_error(message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem("DecisionChatModel", message)])


@lru_cache(maxsize=64)  # equal objects for equal calls, because a model keeps what it prepared for each
def _split(answer_format: DecisionFormat, limit: int) -> tuple[DecisionFormat, ...]:
    questions = answer_format.questions
    return tuple(
        DecisionFormat(questions[start : start + limit]) for start in range(0, len(questions), limit)
    )


# --- Shared by all formats ---


class DecisionDialect(ApiDialect):
    """Base class for the API formats of decision endpoints, which return each answer's probability.

    Args:
        path: The path of the requests.
        limits: The limits of one request to the endpoint.
    """

    reply_name = "valid decision reply"
    usage_fields: ClassVar[UsageFields] = OPENAI_USAGE  # where the token counts are

    def __init__(self, path: str, limits: DecisionLimits) -> None:
        self.limits = limits
        self._path = path

    @abstractmethod
    def _members(
        self, questions: Sequence[Question]
    ) -> tuple[JsonObject, dict[str, Callable[[Sequence[Message]], object]]]:
        """Return the constant JSON fields of a request, and functions that compute fields from messages."""

    @abstractmethod
    def read_answers(
        self, data: JsonObject, questions: Sequence[Question]
    ) -> Iterator[Sequence[float] | None]:
        """Yield the option probabilities for each question, or None for a refused question."""

    def request_writer(self, settings: CallSettings) -> RequestWriter:
        answer_format = settings.response_format
        if not isinstance(answer_format, DecisionFormat) or settings.tooling is not None:
            raise UnsupportedRequestError(
                "a decision endpoint only answers questions with a fixed set of answers; it writes no text "
                "and calls no tools: use another model, or a return type such as bool, an enum or a Literal"
            )
        for question in answer_format.questions:
            self.check(question)
        members, message_members = self._members(answer_format.questions)
        members = {"model": settings.model, **members}
        return json_request_writer(self._path, members, message_members, settings.options.extra_body)

    def check(self, question: Question) -> None:
        """Raise UnsupportedRequestError if a question has too many or too few possible answers."""
        word = "levels" if question.kind == "scale" else "options"
        limit = self.limits.levels if question.kind == "scale" else self.limits.options
        number = len(question.options)
        if number > limit:
            raise UnsupportedRequestError(
                f"the question {question.path} has {number} {word}; the decision endpoint accepts {limit}: "
                f"use fewer {word}, several questions, or another model"
            )
        if number < 2:
            raise UnsupportedRequestError(f"the question {question.path} needs at least two {word}")

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        return self._read(settings, body)

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        return WholeReplyReader(partial(self._read, settings))

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        details = read_error_details(headers, body)
        return details._replace(request_id=headers.get("x-typesafe-request-id") or details.request_id)

    def _read(self, settings: CallSettings, body: bytes) -> ChatReply:
        answer_format, data = settings.response_format, parse_object(body)
        assert isinstance(answer_format, DecisionFormat)
        usage = read_usage(data.get("usage"), self.usage_fields)
        model, reply_id = data.get("model") or "", data.get("id") or ""
        blocked = (data.get("prompt_feedback") or {}).get("block_reason")
        if blocked:  # only Gemini documents it
            return ChatReply(
                AiMessage(""),
                FinishReason.CONTENT_FILTER,
                usage,
                model,
                reply_id,
                raw=body,
                stop_reason=blocked,
            )
        questions = answer_format.questions
        answers = list(self.read_answers(data, questions))
        reply = decision_reply(questions, answers, usage=usage, model=model, id=reply_id, raw=body)
        unused = [name for name in _UNUSED_OPTIONS if getattr(settings.options, name) is not None]
        notes = (f"{name} was left out: a decision endpoint writes no text" for name in unused)
        return replace(reply, notes=tuple(notes))


def _labels(question: Question, *, typed: bool = False) -> list[str | bool]:
    """Return a unique label for each option of a question; requests and replies contain the labels.

    A string is its own label, unless it is blank, begins or ends with a space or has control characters,
    which some endpoints reject. With ``typed``, true and false are labels too.
    """
    labels: list[str | bool | None] = []
    used: set[str] = set()
    for option in question.options:
        value = option.value
        is_label = (typed and isinstance(value, bool)) or (
            isinstance(value, str) and value != "" and value == _clean(value) and value not in used
        )
        labels.append(value if is_label else None)
        if is_label and isinstance(value, str):
            used.add(value)
    folded = {text.casefold() for text in used}
    for index, (label, option) in enumerate(zip(labels, question.options, strict=True)):
        if label is None:
            labels[index] = new_label = _free_label(option, folded)
            folded.add(new_label.casefold())
    return [label for label in labels if label is not None]


def _free_label(option: AnswerOption, used: set[str]) -> str:
    """Return a label for an answer option, with a number if another option has the same label."""
    value = option.value
    if value is None:
        text = _NONE_OF_THESE
    elif isinstance(value, str):
        text = _clean(value) or "empty text"
    else:
        text = json.dumps(value, ensure_ascii=False)
    label, number = text, 2
    while label.casefold() in used:
        label, number = f"{text} ({number})", number + 1
    return label


def _clean(text: str) -> str:
    return _CONTROL_CHARACTERS.sub(" ", text).strip()


def _described(label: str | bool, option: AnswerOption) -> str:
    """Return a label with the description of its option, for APIs without a field for descriptions."""
    return f"{label}: {option.description}" if option.description else str(label)


def _yes_no_descriptions(question: Question) -> tuple[str, str]:
    """Return the descriptions of the two answers to a yes/no question: false first, then true."""
    by_value = {option.value is True: option.description for option in question.options}
    return by_value[False], by_value[True]


def _yes_no_probabilities(question: Question, probability: object) -> list[float]:
    """Return the probabilities of the answers to a yes/no question, given the probability of yes."""
    yes = _checked_probability(question, probability)
    return [yes if option.value is True else 1 - yes for option in question.options]


def _option_probabilities(
    question: Question, probabilities: Sequence[tuple[object, object]], keys: Sequence[object]
) -> list[float]:
    """Return the probabilities in a reply in the order of the options.

    ``keys`` are the keys of the options in the reply.
    """
    # As JSON, because true and 1 are equal in Python.
    by_key = {json.dumps(key): probability for key, probability in probabilities}
    expected = [json.dumps(key) for key in keys]
    for key in expected:
        if key not in by_key:
            raise UnreadableReplyError(f"the answer to {question.path} has no probability of {key}")
    if len(probabilities) != len(expected):
        raise UnreadableReplyError(
            f"the answer to {question.path} has {len(probabilities)} probabilities of {len(expected)} options"
        )
    values = [_checked_probability(question, by_key[key]) for key in expected]
    total, tolerance = sum(values), _SUM_TOLERANCE
    if all(abs(value - round(value, 2)) < _EPSILON for value in values):
        # Values with two decimals do not sum to 1 if there are many of them.
        tolerance = max(tolerance, _ROUNDING_ERROR * len(values))
    if total <= 0 or abs(total - 1) > tolerance + _EPSILON:
        raise UnreadableReplyError(f"the probabilities of the answers to {question.path} sum to {total:g}")
    return values


def _checked_probability(question: Question, value: object) -> float:
    # NaN fails the comparison
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not -_EPSILON <= value <= 1 + _EPSILON
    ):
        raise UnreadableReplyError(f"a probability in the answer to {question.path} is {value!r}")
    return min(max(float(value), 0.0), 1.0)


def _check_number(answers: object, questions: Sequence[Question]) -> None:
    """Raise UnreadableReplyError if the reply does not have one answer to each question."""
    number = len(answers) if isinstance(answers, list | dict) else 0
    if number != len(questions):
        raise UnreadableReplyError(f"it has {number} answers to {len(questions)} questions")


# --- OpenAI ---


class OpenAiDecisions(DecisionDialect):
    """Writes requests and parses replies in OpenAI's Decisions API format.

    A yes/no question becomes the statement that the answer is yes, because the API estimates the probability
    of statements. System messages are sent as developer messages.
    """

    def _members(
        self, questions: Sequence[Question]
    ) -> tuple[JsonObject, dict[str, Callable[[Sequence[Message]], object]]]:
        written = [_openai_question(f"q{number}", one) for number, one in enumerate(questions, 1)]
        return {"questions": written}, {"input": _openai_input}

    def read_answers(
        self, data: JsonObject, questions: Sequence[Question]
    ) -> Iterator[Sequence[float] | None]:
        answers: Json = data.get("answers")
        _check_number(answers, questions)
        for number, (question, answer) in enumerate(zip(questions, answers, strict=True), 1):
            if answer.get("name") not in (None, f"q{number}"):
                raise UnreadableReplyError(f"answer {number} belongs to the question {answer['name']!r}")
            if answer["type"] == "refusal":
                yield None
            elif question.kind == "yes_no":
                yield _yes_no_probabilities(question, answer["probability"])
            else:
                pairs = [(one["value"], one["probability"]) for one in answer["probabilities"]]
                is_scale = question.kind == "scale"
                keys = range(len(question.options)) if is_scale else _labels(question, typed=True)
                yield _option_probabilities(question, pairs, keys)


def _openai_question(name: str, question: Question) -> JsonObject:
    if question.kind == "yes_no":
        no, yes = _yes_no_descriptions(question)
        lines = [f"The answer to this question is yes: {question.text}"]
        lines += [f"{answer}: {text}" for answer, text in (("Yes", yes), ("No", no)) if text]
        return {"type": "predicate", "name": name, "instructions": "\n".join(lines)}
    name_key = "label" if question.kind == "scale" else "value"
    options: list[JsonObject] = []
    for label, option in zip(
        _labels(question, typed=question.kind != "scale"), question.options, strict=True
    ):
        description = {"description": option.description} if option.description else {}
        options.append({name_key: label, **description})
    members = (
        {"type": "score", "levels": options}
        if question.kind == "scale"
        else {"type": "choice", "choices": options}
    )
    return {"name": name, "instructions": question.text, **members}


def _openai_input(messages: Sequence[Message]) -> list[JsonObject]:
    return [item for message in messages for item in _openai_items(message)]


def _openai_items(message: Message) -> Iterator[JsonObject]:
    if isinstance(message, SystemMessage):
        yield {"role": "developer", "content": message.text}
    elif isinstance(message, AiMessage):
        if message.text or not message.tool_calls:
            yield {"role": "assistant", "content": message.text}
        for call in message.tool_calls:
            members = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
            yield {"type": "function_call", **members}
    elif isinstance(message, ToolMessage):
        output = [_openai_part(part) for part in message.parts] if message.contents else message.text
        yield {"type": "function_call_output", "call_id": message.call_id, "output": output}
    elif message.contents or message.name is not None:
        names = [] if message.name is None else [f"{message.name}:"]
        yield {"role": "user", "content": [_openai_part(part) for part in (*names, *message.parts)]}
    else:
        yield {"role": "user", "content": message.text}


def _openai_part(part: str | Media) -> JsonObject:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    if not isinstance(part, Image):
        raise UnsupportedRequestError(f"OpenAI's Decisions API takes text and images only, not {part}")
    detail = {} if part.detail is None else {"detail": part.detail}
    return {"type": "input_image", "image_url": part.address, **detail}


# --- System One ---

_OLLAMA_PORT = 11434


class SystemOneDecisions(DecisionDialect):
    """Writes requests and parses replies in TypeSafe's System One API format.

    The state is the text of the user message, or a list of messages if there are several. The system message
    precedes each question, because the state is data for the model.

    Args:
        limits: The limits of one request to the server.
        images: Where images are sent, as in ``DecisionServer``.
    """

    _criteria_names = ("false", "true")
    _no_description: str | None = None

    def __init__(self, limits: DecisionLimits, images: str = "") -> None:
        super().__init__("", limits)
        self._images = images

    def _members(
        self, questions: Sequence[Question]
    ) -> tuple[JsonObject, dict[str, Callable[[Sequence[Message]], object]]]:
        return {}, {
            "state": self._state,
            "images": self._image_list,
            "questions": partial(self._questions, questions),
        }

    def _questions(self, questions: Sequence[Question], messages: Sequence[Message]) -> JsonObject:
        task = [message.text for message in messages if isinstance(message, SystemMessage)]
        return {
            f"q{number}": {"instructions": "\n\n".join([*task, question.text]), **self._criteria(question)}
            for number, question in enumerate(questions, 1)
        }

    def _criteria(self, question: Question) -> JsonObject:
        """Convert a question to JSON: its type and the descriptions of its possible answers."""
        if question.kind == "yes_no":
            pairs = zip(self._criteria_names, _yes_no_descriptions(question), strict=True)
            criteria = {name: text for name, text in pairs if text}
            return {"type": "noul", "criteria": criteria} if criteria else {"type": "noul"}
        options = list(zip(_labels(question), question.options, strict=True))
        if question.kind == "scale":
            return {"type": "score", "criteria": [_described(*option) for option in options]}
        return {
            "type": "choice",
            "criteria": {label: option.description or self._no_description for label, option in options},
        }

    def read_answers(
        self, data: JsonObject, questions: Sequence[Question]
    ) -> Iterator[Sequence[float] | None]:
        answers: Json = data.get("answers")
        _check_number(answers, questions)
        for number, question in enumerate(questions, 1):
            answer = answers.get(f"q{number}")
            if answer is None:
                raise UnreadableReplyError(f"it has no answer to {question.path}")
            if question.kind == "yes_no":
                yield _yes_no_probabilities(question, answer["noul"])
                continue
            keys = _labels(question)
            if question.kind == "scale":
                keys = [str(index) for index in range(len(keys))]
            yield _option_probabilities(question, list(answer["probabilities"].items()), keys)

    def _state(self, messages: Sequence[Message]) -> object:
        images: list[Image] = []
        turns = [
            {"role": role, "content": self._text(parts, images)} for role, parts in _conversation(messages)
        ]
        state: object = turns
        if len(turns) == 1 and turns[0]["role"] == "user":
            state = turns[0]["content"]
        if images and self._images == "parts":
            own = state if isinstance(state, list) else [state]
            return [*own, *({"type": "image_url", "image_url": {"url": one.address}} for one in images)]
        return state

    def _image_list(self, messages: Sequence[Message]) -> list[str] | None:
        images: list[Image] = []
        for _, parts in _conversation(messages):
            self._text(parts, images)
        if not images or self._images == "parts":
            return None
        return [image.base64 if self._images == "base64" else image.address for image in images]

    def _text(self, parts: Sequence[str | Media], images: list[Image]) -> str:
        """Join a message's parts into one string.

        Images are added to ``images``, and the string has a marker for each.
        """
        texts = []
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            if not isinstance(part, Image) or not self._images:
                accepted = "text and images" if self._images else "text"
                raise UnsupportedRequestError(f"this System One server takes {accepted} only, not {part}")
            if part.data is None:
                raise UnsupportedRequestError(
                    f"System One servers do not fetch images ({part}); use Image.from_path or from_bytes"
                )
            images.append(part)
            texts.append(f"[image {len(images)}]")
        return "\n".join(texts)


def _conversation(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[str | Media]]]:
    """Yield the role and the parts of each message, leaving out system messages."""
    for message in messages:
        if isinstance(message, UserMessage):
            parts = message.parts if message.contents else (message.text,)
            yield "user", parts if message.name is None else (f"{message.name}:", *parts)
        elif isinstance(message, AiMessage):
            calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
            yield "assistant", [message.text, *calls] if message.text or not calls else calls
        elif isinstance(message, ToolMessage):
            yield "tool", message.parts if message.contents else (message.text,)


# --- Gemini ---


class GeminiDecisions(SystemOneDecisions):
    """Writes requests and parses replies in Gemini's Decisions API format.

    The questions are almost those of System One. The input may also have audio, video and documents. It has
    no roles, so in a conversation the role precedes the text of each message.
    """

    _criteria_names = ("false_description", "true_description")
    _no_description = ""
    usage_fields = UsageFields(("total_input_tokens",), ("total_output_tokens",), ("total_cached_tokens",))

    def __init__(self, limits: DecisionLimits) -> None:
        super().__init__(limits)
        self._path = "/decisions"

    def _members(
        self, questions: Sequence[Question]
    ) -> tuple[JsonObject, dict[str, Callable[[Sequence[Message]], object]]]:
        return {}, {"input": _gemini_input, "questions": partial(self._questions, questions)}

    def error_details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        return read_google_error(headers, body)


def _gemini_input(messages: Sequence[Message]) -> object:
    turns = list(_conversation(messages))
    if len(turns) == 1 and turns[0][0] == "user":
        parts = turns[0][1]
        return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else list(map(_gemini_part, parts))
    return [_gemini_part(part) for role, parts in turns for part in (f"{role}:", *parts)]


def _gemini_part(part: str | Media) -> JsonObject:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    media_type = part.media_type or ""
    kind = media_type.partition("/")[0]
    content = {"uri": part.url} if part.data is None else {"data": part.base64}
    return {
        "type": kind if kind in ("image", "audio", "video") else "document",
        **content,
        **({"mime_type": media_type} if media_type else {}),
    }


# --- Servers and keys ---


class _Service(NamedTuple):
    """A decision service: its URL, the format of its API, and how to find its API key.

    Attributes:
        url: The base URL.
        dialect: Writes requests and reads replies.
        credentials: Returns the credentials, or raises AuthenticationError.
        key_advice: How to set a key, for error messages.
    """

    url: str
    dialect: DecisionDialect
    credentials: Callable[[], Credentials]
    key_advice: str


def _openai_service(
    name: str, base_url: str | None, api_key: ApiKey | None, limits: DecisionLimits | None
) -> _Service:
    endpoint = Endpoint.of_provider("openai", base_url)
    return _Service(
        endpoint.base_url,
        OpenAiDecisions("/decisions", limits or DecisionLimits()),
        partial(read_credentials, name, endpoint, api_key),
        endpoint.key_advice,
    )


def _google_service(
    name: str, base_url: str | None, api_key: ApiKey | None, limits: DecisionLimits | None
) -> _Service:
    url = base_url or os.environ.get("GEMINI_BASE_URL") or "https://generativelanguage.googleapis.com/v1beta"
    advice = f"set {' or '.join(_GOOGLE_KEYS)}, or pass api_key"
    return _Service(
        url,
        GeminiDecisions(limits or DecisionLimits(questions=1000, levels=255)),
        partial(
            key_credentials,
            name,
            api_key,
            _GOOGLE_KEYS,
            headers=_HEADERS,
            header="x-goog-api-key",
            advice=advice,
        ),
        advice,
    )


def _system_one_service(
    name: str, base_url: str | None, api_key: ApiKey | None, limits: DecisionLimits | None
) -> _Service:
    parts = urlsplit(base_url or os.environ.get("TYPESAFE_BASE_URL") or _TYPESAFE_URL)
    path = parts.path.rstrip("/")
    host = parts.hostname or ""
    servers_by_host = {
        urlsplit(preset.base_url).hostname: (preset.decisions, preset.key_variable or "")
        for preset in PRESETS.values()
        if preset.decisions is not None
    }
    servers_by_host[urlsplit(_TYPESAFE_URL).hostname] = DecisionServer(), _TYPESAFE_KEY
    if host in servers_by_host:
        server, key_variable = servers_by_host[host]
    else:
        # A key of TypeSafe is only for TypeSafe, and for the server at TYPESAFE_BASE_URL.
        key_variable = "" if base_url else _TYPESAFE_KEY
        images: Literal["base64", "data URLs"] = "base64" if parts.port == _OLLAMA_PORT else "data URLs"
        server = DecisionServer(path.removesuffix("/v1") + "/v1/systemone", images)
    if not path.endswith(("/systemone", "/decisions")):
        path = server.path
    advice = f"set {key_variable} or pass api_key" if key_variable else "pass api_key"
    variables = (key_variable,) if key_variable else ()
    return _Service(
        parts._replace(path=path).geturl(),
        SystemOneDecisions(limits or server.limits, server.images),
        partial(
            key_credentials,
            name,
            api_key,
            variables,
            headers=_HEADERS,
            header="authorization",
            prefix="Bearer ",
            advice=advice,
            is_required=host in servers_by_host,
        ),
        advice,
    )


_SERVICES: dict[
    DecisionProvider,
    Callable[[str, str | None, ApiKey | None, DecisionLimits | None], _Service],
] = {
    "openai-decisions": _openai_service,
    "google-decisions": _google_service,
    "systemone": _system_one_service,
}
