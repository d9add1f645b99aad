"""Turns a request into llama.cpp's chat body, its chunks into a reply, its errors into ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from ..errors import BadRequestError, InvalidReplyError, ModelError, ModelServerError
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..requests import (
    ChatOptions,
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    ResponseFormat,
    Tooling,
    ToolSpecification,
)

# The first words of a reply are the model's choice, made in words: between two kinds of JSON a small model
# takes nearly always the same one (measured on 0.5 B: all calls or none; so 20 of 26 choices were right).
CALL = "Call: "
ANSWER = "Answer: "
_CALLING = CALL + '{"name": <function name>, "arguments": {<its arguments>}}'


def section_of(tooling: Tooling, messages: Sequence[Message]) -> str:
    """What the system message says of the tools, as the conversation stands."""
    if tooling.choice != "auto":
        return f"You can call functions:\n{_list(tooling)}\n\nCall one now: reply with\n{_CALLING}"
    if isinstance(messages[-1], ToolMessage):  # the other words would make it call without an end
        return (
            f"These functions know what you do not know:\n{_list(tooling)}\n\n"
            f"To call one, write: {_CALLING}\n"
            f"You get its result. When you know enough, write: {ANSWER}<the reply to the user>"
        )
    return (
        f"You can call functions:\n{_list(tooling)}\n\n"
        "Reply with one line and nothing else, one of these two:\n"
        f"{_CALLING}\n{ANSWER}<the reply to the user>\n\n"
        "Call a function for what you do not know. As soon as you know it, answer."
    )


def _list(tooling: Tooling) -> str:
    return "\n".join(_short(tool) for tool in tooling.tools)


def _short(tool: ToolSpecification) -> str:
    """A tool as a line: small models read a short one better, and the grammar has the whole schema."""
    schema = tool.parameters
    told: dict[str, Any] = {"name": tool.name, "description": tool.description}
    told["parameters"] = schema.get("properties", {})
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return json.dumps({**told, **definitions}, ensure_ascii=False)


def said_with(message: AiMessage, tooling: Tooling | None) -> str:
    """A reply as the model wrote it: its calls one a line; else its text, marked where tools are offered."""
    if message.tool_calls:
        return "\n".join(CALL + _written(call) for call in message.tool_calls)
    return message.text if tooling is None else ANSWER + message.text


def _written(call: ToolCall) -> str:
    return f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def result_of(message: ToolMessage, calls: Mapping[str, ToolCall]) -> str:
    """What a tool answered, beside the arguments, as one tool may be called several times at once."""
    call = calls.get(message.call_id)
    return f"{message.name}({'' if call is None else call.arguments}) returned: {message.text}"


def repeated(messages: Sequence[Message]) -> frozenset[str]:
    """The tools that since the last message of the user were called twice alike, with the same result.

    A small model does so again and again; as it learns nothing by it, it has to go on then.
    """
    users = (at for at, said in enumerate(messages) if isinstance(said, UserMessage))
    since = messages[max(users, default=0) :]
    calls = {call.id: call for said in since if isinstance(said, AiMessage) for call in said.tool_calls}
    results = [
        (said.name, calls[said.call_id].arguments, said.text)
        for said in since
        if isinstance(said, ToolMessage) and said.call_id in calls
    ]
    return frozenset(result[0] for result in results if results.count(result) > 1)


_OPENING = re.compile(re.escape(CALL) + r'\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')


class CallReading:
    """What has been read of one reply: lines that each call a tool, or else a text.

    The text of a reply without either mark, which another grammar may have made, is the text itself.
    """

    def __init__(self) -> None:
        self._waiting = ""
        self._is_text = False
        self._name: str | None = None
        self._calls: list[tuple[str, list[str]]] = []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that were begun, each once, with the arguments that were written so far.

        A small model writes one again and again, and what a tool does must not be done so often.
        """
        made = dict.fromkeys((name, "".join(said)) for name, said in self._calls)
        return tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(made, 1))

    def take(self, written: str) -> ReplyDelta | None:
        """What a piece adds to the text or the calls, None when that cannot be known yet."""
        if self._is_text:
            return ReplyDelta(written)
        self._waiting += written
        pieces: list[ToolCallDelta] = []
        while not self._is_text and (piece := self._next()) is not None:
            pieces.append(piece)
        if self._is_text:
            text, self._waiting = self._waiting, ""
            return ReplyDelta(text) if text else None
        return ReplyDelta(tool_calls=tuple(pieces)) if pieces else None

    def end(self) -> str:
        """The rest of a text that broke off within its mark; nothing else is to come."""
        return "" if self._calls or self._is_text else self._waiting

    def _next(self) -> ToolCallDelta | None:
        """The next piece of a call; None when more has to be written, or the reply is a text."""
        if self._name is not None:
            return self._piece()
        opening = _OPENING.match(self._waiting)
        if opening is not None:
            self._name = name = str(json.loads(opening[1]))
            self._waiting = self._waiting[opening.end() :]
            self._calls.append((name, []))
            return ToolCallDelta(len(self._calls) - 1, name, "")
        if not self._calls and not _begins_with(self._waiting, CALL):
            self._is_text = not _begins_with(self._waiting, ANSWER) or len(self._waiting) >= len(ANSWER)
            if self._is_text:
                self._waiting = self._waiting.removeprefix(ANSWER)
        return None

    def _piece(self) -> ToolCallDelta | None:
        """A piece of the arguments. They are JSON on one line, and the brace at its end is the call's."""
        line, line_feed, after = self._waiting.partition("\n")
        closed = line.endswith("}")
        said = line[:-1] if closed else line
        self._waiting = after if line_feed else line[len(said) :]
        if line_feed:
            self._name = None
        if said:
            name, arguments = self._calls[-1]
            arguments.append(said)
            return ToolCallDelta(len(self._calls) - 1, name, said)
        return self._next() if line_feed else None


def _begins_with(text: str, mark: str) -> bool:
    """Whether a text begins with a mark, as far as it goes."""
    return text.startswith(mark) or mark.startswith(text)


_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
# RFC 3339 demands an offset, which a text seldom tells; forced to write one, a model writes "Z" for anything.
_REST = r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_PATTERNS = {"time": f"^{_TIME}{_REST}$", "date-time": f"^{_DATE}T{_TIME}{_REST}$"}
_VALUES = ("const", "default", "enum", "examples")


def bounded(schema: Any) -> Any:
    """The schema with a pattern in place of ``"format": "time"`` and ``"date-time"``, wherever they stand."""
    if isinstance(schema, list):
        return [bounded(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: part if key in _VALUES else bounded(part) for key, part in schema.items()}
    form = schema.get("format")
    if isinstance(form, str) and form in _PATTERNS and "pattern" not in schema:
        del inner["format"]
        inner["pattern"] = _PATTERNS[form]
    return inner


# llguidance, not the converter behind response_format: it writes JSON on one line, so a model cannot pad
# it (half the tokens, measured), and it enforces ranges, patterns, tuples and maxProperties.
_HEAD = "%llguidance {}\n"
_LAYOUT = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", ", "lenient": True}
_TEXT = r"/(.|\n)+/"
# A small model may write the same call again and again, to the limit of its tokens.
_MOST_CALLS = 4
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class LlamaForm:
    """What a reply may be.

    ``response_format`` is the form of the answer as llama.cpp is told of it, None for free text; ``tools``
    are those that are offered, several of them in one reply where ``parallel``; ``calls`` and ``answers``
    say whether the reply may be calls, and whether it may be an answer.
    """

    response_format: Mapping[str, Any] | None = None
    tools: tuple[ToolSpecification, ...] = ()
    parallel: bool = True
    calls: bool = True
    answers: bool = True

    @property
    def key(self) -> str:
        """The same for forms that are constrained in the same way."""
        tools = [[tool.name, tool.parameters] for tool in self.tools]
        return json.dumps([self.response_format, tools, self.parallel, self.calls, self.answers])


def schema_of(response_format: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the answer."""
    schema: Mapping[str, Any] = response_format.get("json_schema", {}).get("schema", ANY_OBJECT)
    return schema


def grammar_of_schema(schema: Mapping[str, Any]) -> str:
    """The grammar of an answer that is JSON and nothing else."""
    return f"{_HEAD}start: {_json(schema)}"


def grammar_of_calls(form: LlamaForm, arguments: Callable[[ToolSpecification], Mapping[str, Any]]) -> str:
    """The grammar of calls, or an answer where one is allowed; ``arguments`` gives the schema of a tool's."""
    names = [f"tool{number}" for number in range(len(form.tools))]
    several = rf' ("\n" call){{0,{_MOST_CALLS - 1}}}' if form.parallel else ""
    starts = [start for start, may in (("calls", form.calls), ("answer", form.answers)) if may]
    rules = [f"start: {' | '.join(starts)}", f"calls: call{several}", f"call: {' | '.join(names)}"]
    for name, tool in zip(names, form.tools, strict=True):
        opening = f'{CALL}{{"name": {json.dumps(tool.name)}, "arguments": '
        rules.append(f'{name}: {json.dumps(opening)} {_json(arguments(tool))} "}}"')
    if form.answers:
        answer = _TEXT if form.response_format is None else _json(schema_of(form.response_format))
        rules.append(f"answer: {json.dumps(ANSWER)} {answer}")
    return _HEAD + "\n".join(rules)


def _json(schema: Mapping[str, Any]) -> str:
    return "%json " + json.dumps({**bounded(schema), "x-guidance": _LAYOUT})


_MAX_TOKENS = 1024
_FINISHES = {reason.value: reason for reason in FinishReason}
# Every request is streamed, since only between chunks can one be stopped; return_progress makes a chunk of
# every batch of the prompt too.
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}


def body_of(request: ChatRequest, options: ChatOptions, system_prompt: str) -> dict[str, Any]:
    """The body of a streamed chat completion, without the constraint on its form."""
    messages = _turns(request, system_prompt)
    body: dict[str, Any] = {
        "messages": messages,
        "temperature": 0.0 if options.temperature is None else options.temperature,
        "max_tokens": options.max_tokens or _MAX_TOKENS,
    }
    optional = {"top_p": options.top_p, "seed": options.seed, "stop": options.stop and list(options.stop)}
    body |= {name: value for name, value in optional.items() if value is not None}
    if options.reasoning_effort is not None:
        effort = options.reasoning_effort
        body["chat_template_kwargs"] = {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    return {**body, **(options.extra_body or {}), **_STREAMED}


def _turns(request: ChatRequest, system_prompt: str) -> list[dict[str, Any]]:
    """The messages as the turns that each chat template has: of the system, the user and the model."""
    messages, tooling = request.messages, request.tooling
    turns: list[dict[str, Any]] = []
    calls: dict[str, ToolCall] = {}
    for at, message in enumerate(messages):
        if isinstance(message, AiMessage):
            calls |= {call.id: call for call in message.tool_calls}
            turns.append({"role": "assistant", "content": said_with(message, tooling)})
        elif isinstance(message, ToolMessage):
            told = result_of(message, calls)
            if at and isinstance(messages[at - 1], ToolMessage):  # a template may want turns to alternate
                turns[-1]["content"] += f"\n{told}"
            else:
                turns.append({"role": "user", "content": told})
        else:
            turns.append(_told(message))
    return _with_system(turns, system_prompt, "" if tooling is None else section_of(tooling, messages))


def _with_system(turns: list[dict[str, Any]], system_prompt: str, section: str) -> list[dict[str, Any]]:
    system = next((invocation for invocation in turns if invocation["role"] == "system"), None)
    if system is not None:
        told = "\n\n".join(part for part in (system["content"], section) if part)
        return [
            invocation if invocation is not system else {**invocation, "content": told}
            for invocation in turns
        ]
    told = "\n\n".join(part for part in (system_prompt, section) if part)
    # A template without a system message puts its own in, and SmolLM2's makes its answers worse.
    return [{"role": "system", "content": told}, *turns] if told else turns


def _told(message: SystemMessage | UserMessage) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if message.contents:
        _refuse_media(message)
    named = {} if message.name is None else {"name": message.name}
    return {"role": "user", "content": message.text, **named}


def _refuse_media(message: UserMessage) -> None:
    for part in message.contents:
        if not isinstance(part, str):
            raise BadRequestError(
                f"the embedded model reads text alone, and the message holds {part.kind} {part}: "
                'leave it out, or use another model, as in create(..., model="openai:NAME")'
            )


def form_of(request: ChatRequest) -> LlamaForm:
    """What the reply may be. Raises BadRequestError where a tool is to be called that is not offered."""
    wanted, tooling = _format_of(request.response_format), request.tooling
    if tooling is None:
        return LlamaForm(wanted)
    if not tooling.tools:
        raise BadRequestError("the request has tooling without tools: name one at least, or leave it out")
    again = repeated(request.messages)
    if tooling.choice == "auto":
        return LlamaForm(wanted, tooling.tools, tooling.parallel_calls, calls=not again)
    named = tuple(tool for tool in tooling.tools if tooling.choice in (tool.name, "required"))
    if not named:
        offered = ", ".join(tool.name for tool in tooling.tools)
        raise BadRequestError(f"the tool {tooling.choice} is to be called, but the tools are: {offered}")
    fresh = tuple(tool for tool in named if tool.name not in again)
    return LlamaForm(None, fresh or named, tooling.parallel_calls, answers=False)


def _format_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """The ``response_format`` of the reply's form; None for free text."""
    if isinstance(wanted, JsonSchemaFormat):
        return {"type": "json_schema", "json_schema": {"name": wanted.name, "schema": dict(wanted.schema)}}
    return {"type": "json_object"} if isinstance(wanted, JsonObjectFormat) else None


@dataclass(slots=True)
class Answer:
    """A reply that is put together from its chunks; ``calls`` says that it may call tools."""

    label: str
    context_tokens: int
    calls: InitVar[bool] = False
    _calls: CallReading | None = field(init=False)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finish: str | None = None
    _usage: Usage | None = None
    _id: str = ""

    def __post_init__(self, calls: bool) -> None:
        self._calls = CallReading() if calls else None

    def take(self, chunk: Mapping[str, Any]) -> ReplyDelta | None:
        """What a chunk adds to the reply, None when that is no text. Raises ModelError for an error."""
        if "error" in chunk:
            raise error_of(chunk["error"], self.label, self.context_tokens)
        self._id = chunk.get("id", self._id)
        if "usage" in chunk:
            self._usage = _usage(chunk["usage"])
        for choice in chunk.get("choices", ()):
            self._finish = choice.get("finish_reason") or self._finish
            delta = choice.get("delta", {})
            text, reasoning = delta.get("content") or "", delta.get("reasoning_content") or ""
            if text or reasoning:
                return self._added(text, reasoning)
        return None

    def _added(self, text: str, reasoning: str) -> ReplyDelta | None:
        read = ReplyDelta(text) if self._calls is None else self._calls.take(text) or ReplyDelta()
        self._text.append(read.text)
        self._reasoning.append(reasoning)
        added = read._replace(reasoning=reasoning)
        return None if added == ReplyDelta() else added

    def reply(self) -> ChatReply:
        """The whole reply, when no chunk is to come any more."""
        if self._finish is None:
            raise InvalidReplyError(
                f"the embedded model {self.label} ended its reply without saying why: ask again",
                retryable=True,
            )
        finish = _FINISHES.get(self._finish, FinishReason.OTHER)
        calls: tuple[ToolCall, ...] = ()
        if self._calls is not None:
            calls = self._calls.calls
            self._text.append(self._calls.end())
        if calls and finish is FinishReason.STOP:
            finish = FinishReason.TOOL_CALLS
        message = AiMessage("".join(self._text), calls, "".join(self._reasoning) or None)
        return ChatReply(message, finish, self._usage, self.label, self._id)


def _usage(said: Mapping[str, Any]) -> Usage:
    cached = said.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Usage(said["prompt_tokens"], said["completion_tokens"], cached_tokens=cached)


def error_of(said: Mapping[str, Any], label: str, context_tokens: int) -> ModelError:
    """The error that llama.cpp's ``error`` object stands for."""
    status, body = said.get("code"), json.dumps(said)
    if said.get("type") == "exceed_context_size_error":
        return BadRequestError(
            f"the request has {said.get('n_prompt_tokens')} tokens, but the embedded model {label} was "
            f"loaded to read {context_tokens}: shorten it, or raise context_tokens of LocalChatModel",
            status=status,
            body=body,
        )
    if isinstance(status, int) and status < 500:
        return BadRequestError(
            f"the embedded model {label} does not accept the request: {said.get('message')}",
            status=status,
            body=body,
        )
    return ModelServerError(
        f"the embedded model {label} failed: {said.get('message')}", status=status, body=body
    )
