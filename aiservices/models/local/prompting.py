"""Convert chat requests to llama.cpp's format, limit replies by grammars, and parse the replies.

Tools do not use the chat template of the weights: the system message describes them, and a grammar
constrains the reply to lines ``Call: {...}`` or to ``Answer: ...``. So they work alike with all weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

from output_parsers.result.reading import Json

from ..errors import BadRequestError, InvalidReplyError, ModelError, ModelServerError
from ..http.replies import read_logprobs
from ..messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    SystemMessage,
    TokenLogprob,
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

# A JSON object before it is encoded or after it was decoded.
JsonObject: TypeAlias = Mapping[str, Json]

# The marks at the beginning of a reply. They are words, because a small model that must choose between two
# kinds of JSON nearly always chooses the same one. Measured with 0.5 B parameters: JSON gave all calls or
# none, words gave 20 right choices of 26.
CALL_MARK = "Call: "
ANSWER_MARK = "Answer: "
_CALL_EXAMPLE = CALL_MARK + '{"name": <function name>, "arguments": {<its arguments>}}'

_DEFAULT_MAX_TOKENS = 1024
# Every request is streamed, because a request can only be stopped between chunks. return_progress adds a
# chunk for every batch of the prompt.
_STREAMED = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}


def chat_body(request: ChatRequest, options: ChatOptions, system_message: str) -> JsonObject:
    """Convert a chat request to the JSON body of a llama.cpp request, without the grammar for the reply.

    ``system_message`` is used if the request has no system message.
    """
    body: dict[str, object] = {
        "messages": _chat_messages(request, system_message),
        "temperature": 0.0 if options.temperature is None else options.temperature,
        "max_tokens": options.max_tokens or _DEFAULT_MAX_TOKENS,
    }
    optional = {"top_p": options.top_p, "seed": options.seed, "stop": options.stop and list(options.stop)}
    body |= {name: value for name, value in optional.items() if value is not None}
    if options.reasoning_effort is not None:
        effort = options.reasoning_effort
        body["chat_template_kwargs"] = {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": request.logprobs}
    return {**body, **(options.extra_body or {}), **_STREAMED}


def _chat_messages(request: ChatRequest, system_message: str) -> list[dict[str, str]]:
    """Convert messages to dicts that use only the roles ``system``, ``user`` and ``assistant``."""
    messages, tooling = request.messages, callable_tools(request)
    chat_messages: list[dict[str, str]] = []
    calls: dict[str, ToolCall] = {}
    for position, message in enumerate(messages):
        if isinstance(message, AiMessage):
            calls |= {call.id: call for call in message.tool_calls}
            chat_messages.append({"role": "assistant", "content": _assistant_text(message, tooling)})
        elif isinstance(message, ToolMessage):
            result = _tool_result_text(message, calls)
            # Some chat templates require that user and assistant alternate, so results are joined.
            if position and isinstance(messages[position - 1], ToolMessage):
                chat_messages[-1]["content"] += f"\n{result}"
            else:
                chat_messages.append({"role": "user", "content": result})
        elif isinstance(message, SystemMessage):
            chat_messages.append({"role": "system", "content": message.text})
        else:
            _refuse_media(message)
            name = {} if message.name is None else {"name": message.name}
            chat_messages.append({"role": "user", "content": message.text, **name})
    instructions = "" if tooling is None else _tool_instructions(tooling, messages)
    return _with_system_message(chat_messages, system_message, instructions)


def _refuse_media(message: UserMessage) -> None:
    """Raise BadRequestError if a message contains images or files, which the local model cannot read."""
    for part in message.contents:
        if not isinstance(part, str):
            raise BadRequestError(
                f"the embedded model reads only text, but the message contains {part.kind} {part}: "
                'leave it out, or use another model, as in create(..., model="openai:NAME")'
            )


def _assistant_text(message: AiMessage, tooling: Tooling | None) -> str:
    """Convert an earlier model message to prompt text, such as ``Call: {...}`` or ``Answer: ...``."""
    if message.tool_calls:
        return "\n".join(
            f'{CALL_MARK}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'
            for call in message.tool_calls
        )
    return message.text if tooling is None else ANSWER_MARK + message.text


def _tool_result_text(message: ToolMessage, calls: Mapping[str, ToolCall]) -> str:
    """Convert the result of a tool call to prompt text with the tool's name and arguments."""
    # The arguments are repeated because a reply may call one tool several times.
    call = calls.get(message.call_id)
    return f"{message.name}({'' if call is None else call.arguments}) returned: {message.text}"


def _with_system_message(
    chat_messages: list[dict[str, str]], default: str, instructions: str
) -> list[dict[str, str]]:
    """Add instructions to the system message of a prompt; if there is no system message, create one."""
    system = next((message for message in chat_messages if message["role"] == "system"), None)
    parts = (default if system is None else system["content"], instructions)
    text = "\n\n".join(part for part in parts if part)
    if system is not None:
        return [{**message, "content": text} if message is system else message for message in chat_messages]
    # Without a system message, a chat template adds its own, and SmolLM2's makes the answers worse.
    return [{"role": "system", "content": text}, *chat_messages] if text else chat_messages


def _tool_instructions(tooling: Tooling, messages: Sequence[Message]) -> str:
    """Return the part of the system message that lists the tools and explains how to call them."""
    tools = "\n".join(_tool_line(tool) for tool in tooling.tools)
    if tooling.choice != "auto":
        return f"You can call functions:\n{tools}\n\nCall one now: reply with\n{_CALL_EXAMPLE}"
    if isinstance(messages[-1], ToolMessage):
        # With the other text, a model calls tools again and again after the first result.
        return (
            f"These functions know what you do not know:\n{tools}\n\n"
            f"To call one, write: {_CALL_EXAMPLE}\n"
            f"You get its result. When you know enough, write: {ANSWER_MARK}<the reply to the user>"
        )
    return (
        f"You can call functions:\n{tools}\n\n"
        "Reply with one line and nothing else, one of these two:\n"
        f"{_CALL_EXAMPLE}\n{ANSWER_MARK}<the reply to the user>\n\n"
        "Call a function for what you do not know. As soon as you know it, answer."
    )


def _tool_line(tool: ToolSpecification) -> str:
    """Return the description of a tool as one line of JSON for the prompt.

    It has only the properties of the parameters: small models understand a short line better, and the grammar
    has the whole schema.
    """
    schema = tool.parameters
    line: dict[str, object] = {"name": tool.name, "description": tool.description}
    line["parameters"] = schema.get("properties", {})
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return json.dumps({**line, **definitions}, ensure_ascii=False)


# Grammars are written for llguidance and not for the converter behind response_format: llguidance writes JSON
# on one line, so the model cannot pad it with white space (half the tokens, measured), and it enforces
# ranges, patterns, tuples and maxProperties.
_GRAMMAR_HEAD = "%llguidance {}\n"
_JSON_LAYOUT = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", ", "lenient": True}
_ANY_TEXT = r"/(.|\n)+/"
# Without a limit, a small model may write the same call until its tokens are used up.
_MAX_CALLS = 4
ANY_OBJECT: JsonObject = {"type": "object"}


@dataclass(frozen=True, slots=True)
class ReplyConstraint:
    """The allowed content of a llama.cpp reply: tool calls, an answer in a given format, or either.

    Attributes:
        response_format: The format of the answer, as a field of llama.cpp's request; None if the answer is
            free text.
        tools: The tools that the model may call.
        parallel_calls: True if the reply may contain several tool calls.
        allows_calls: True if the reply may consist of tool calls.
        allows_answer: True if the reply may be an answer.
    """

    response_format: JsonObject | None = None
    tools: tuple[ToolSpecification, ...] = ()
    parallel_calls: bool = True
    allows_calls: bool = True
    allows_answer: bool = True

    @property
    def key(self) -> str:
        """The key under which the llama.cpp grammar for this constraint is cached."""
        tools = [[tool.name, tool.parameters] for tool in self.tools]
        return json.dumps(
            [self.response_format, tools, self.parallel_calls, self.allows_calls, self.allows_answer]
        )


def callable_tools(request: ChatRequest) -> Tooling | None:
    """Return the tools of a chat request, or None if the model must not call any."""
    tooling = request.tooling
    return None if tooling is None or tooling.choice == "none" else tooling


def reply_constraint(request: ChatRequest) -> ReplyConstraint:
    """Return what llama.cpp's reply to a request may contain: the answer format and the tools.

    Raises BadRequestError if the request requires a call of a tool that it does not offer.
    """
    response_format, tooling = _response_format(request.response_format), callable_tools(request)
    if tooling is None:
        return ReplyConstraint(response_format)
    if not tooling.tools:
        raise BadRequestError("the request has tooling without tools: pass at least one tool, or no tooling")
    repeated = _repeated_tools(request.messages)
    if tooling.choice == "auto":
        return ReplyConstraint(
            response_format, tooling.tools, tooling.parallel_calls, allows_calls=not repeated
        )
    candidates = tuple(tool for tool in tooling.tools if tooling.choice in (tool.name, "required"))
    if not candidates:
        offered = ", ".join(tool.name for tool in tooling.tools)
        raise BadRequestError(f"the tool {tooling.choice} must be called, but the tools are: {offered}")
    unrepeated = tuple(tool for tool in candidates if tool.name not in repeated)
    return ReplyConstraint(None, unrepeated or candidates, tooling.parallel_calls, allows_answer=False)


def _response_format(response_format: ResponseFormat | None) -> JsonObject | None:
    """Convert a response format to the dict that llama.cpp expects; None if the answer is free text."""
    if isinstance(response_format, JsonSchemaFormat):
        schema = {"name": response_format.name, "schema": dict(response_format.schema)}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if isinstance(response_format, JsonObjectFormat) else None


def _repeated_tools(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of tools that were called more than once with equal arguments and results.

    Only calls after the last user message count. A small model repeats such a call endlessly, although it
    learns nothing from it. So the next reply must not call these tools.
    """
    users = (position for position, message in enumerate(messages) if isinstance(message, UserMessage))
    recent = messages[max(users, default=0) :]
    calls = {
        call.id: call for message in recent if isinstance(message, AiMessage) for call in message.tool_calls
    }
    results = [
        (message.name, calls[message.call_id].arguments, message.text)
        for message in recent
        if isinstance(message, ToolMessage) and message.call_id in calls
    ]
    return frozenset(result[0] for result in results if results.count(result) > 1)


def answer_schema(response_format: JsonObject) -> JsonObject:
    """Extract the JSON Schema from the ``response_format`` dict of a llama.cpp request."""
    schema: JsonObject = response_format.get("json_schema", {}).get("schema", ANY_OBJECT)
    return schema


def answer_grammar(schema: JsonObject) -> str:
    """Return a llama.cpp grammar that allows only JSON matching a schema."""
    return f"{_GRAMMAR_HEAD}start: {_json_rule(schema)}"


def tool_call_grammar(
    constraint: ReplyConstraint, parameters: Callable[[ToolSpecification], JsonObject]
) -> str:
    """Return a llama.cpp grammar for replies that call tools or, if allowed, give an answer.

    ``parameters`` returns the JSON Schema for the arguments of a tool.
    """
    names = [f"tool{number}" for number in range(len(constraint.tools))]
    more_calls = rf' ("\n" call){{0,{_MAX_CALLS - 1}}}' if constraint.parallel_calls else ""
    starts = ["calls"] if constraint.allows_calls else []
    starts += ["answer"] if constraint.allows_answer else []
    rules = [f"start: {' | '.join(starts)}", f"calls: call{more_calls}", f"call: {' | '.join(names)}"]
    for name, tool in zip(names, constraint.tools, strict=True):
        opening = f'{CALL_MARK}{{"name": {json.dumps(tool.name)}, "arguments": '
        rules.append(f'{name}: {json.dumps(opening)} {_json_rule(parameters(tool))} "}}"')
    if constraint.allows_answer:
        response_format = constraint.response_format
        answer = _ANY_TEXT if response_format is None else _json_rule(answer_schema(response_format))
        rules.append(f"answer: {json.dumps(ANSWER_MARK)} {answer}")
    return _GRAMMAR_HEAD + "\n".join(rules)


def _json_rule(schema: JsonObject) -> str:
    """Return a llama.cpp grammar rule that allows only JSON matching a schema."""
    return "%json " + json.dumps({**with_time_patterns(schema), "x-guidance": _JSON_LAYOUT})


_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
# RFC 3339 requires an offset from UTC, but texts seldom mention one, and a model that must write one writes
# "Z" for any time. So it is optional here.
_FRACTION_AND_OFFSET = r"(\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
_FORMAT_PATTERNS = {
    "time": f"^{_TIME}{_FRACTION_AND_OFFSET}$",
    "date-time": f"^{_DATE}T{_TIME}{_FRACTION_AND_OFFSET}$",
}
# The values of these keywords are data: they may contain a key "format" that is not the keyword.
_DATA_KEYWORDS = ("const", "default", "enum", "examples")


def with_time_patterns(schema: object) -> Json:
    """Replace the formats ``time`` and ``date-time`` with regex patterns everywhere in a JSON Schema."""
    if isinstance(schema, list):
        return [with_time_patterns(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        key: part if key in _DATA_KEYWORDS else with_time_patterns(part) for key, part in schema.items()
    }
    format_name = schema.get("format")
    if isinstance(format_name, str) and format_name in _FORMAT_PATTERNS and "pattern" not in schema:
        del result["format"]
        result["pattern"] = _FORMAT_PATTERNS[format_name]
    return result


_FINISH_REASONS = {reason.value: reason for reason in FinishReason}


@dataclass(slots=True)
class ReplyBuilder:
    """Joins the chunks of a streamed chat completion into a complete reply.

    Attributes:
        label: The short name of the weights.
        context_tokens: The size of the context, for error messages.
        has_tools: True if the reply may contain tool calls.
    """

    label: str
    context_tokens: int
    has_tools: InitVar[bool] = False
    _tool_calls: ToolCallReader | None = field(init=False)
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _finish_reason: str | None = None
    _usage: Usage | None = None
    _id: str = ""
    _logprobs: list[TokenLogprob] = field(default_factory=list)

    def __post_init__(self, has_tools: bool) -> None:
        self._tool_calls = ToolCallReader() if has_tools else None

    def add(self, chunk: JsonObject) -> ReplyDelta | None:
        """Add a chunk of a streamed reply; return the new part of the reply, or None.

        Raises ModelError if the chunk reports an error.
        """
        if "error" in chunk:
            raise _model_error(chunk["error"], self.label, self.context_tokens)
        self._id = chunk.get("id", self._id)
        if "usage" in chunk:
            self._usage = _usage(chunk["usage"])
        for choice in chunk.get("choices", ()):
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
            if choice.get("logprobs"):
                self._logprobs += read_logprobs(choice["logprobs"].get("content"))
            delta = choice.get("delta", {})
            text, reasoning = delta.get("content") or "", delta.get("reasoning_content") or ""
            if text or reasoning:
                return self._add_text(text, reasoning)
        return None

    def _add_text(self, text: str, reasoning: str) -> ReplyDelta | None:
        """Add the text of a chunk to the reply; return the new part of the reply, or None if it is empty."""
        delta = ReplyDelta(text) if self._tool_calls is None else self._tool_calls.add(text) or ReplyDelta()
        self._text.append(delta.text)
        self._reasoning.append(reasoning)
        delta = delta._replace(reasoning=reasoning)
        return None if delta == ReplyDelta() else delta

    def reply(self) -> ChatReply:
        """Return the complete reply after the last chunk, or raise InvalidReplyError if it is cut off."""
        if self._finish_reason is None:
            raise InvalidReplyError(
                f"the embedded model {self.label} ended its reply without a finish reason: ask again",
                retryable=True,
            )
        finish_reason = _FINISH_REASONS.get(self._finish_reason, FinishReason.OTHER)
        calls: tuple[ToolCall, ...] = ()
        if self._tool_calls is not None:
            calls = self._tool_calls.calls
            self._text.append(self._tool_calls.remaining_text())
        if calls and finish_reason is FinishReason.STOP:
            finish_reason = FinishReason.TOOL_CALLS
        message = AiMessage("".join(self._text), calls, "".join(self._reasoning) or None)
        logprobs = tuple(self._logprobs)
        return ChatReply(message, finish_reason, self._usage, self.label, self._id, logprobs=logprobs)


def _usage(usage: JsonObject) -> Usage:
    """Convert the token counts of llama.cpp to a Usage object."""
    cached = usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    return Usage(usage["prompt_tokens"], usage["completion_tokens"], cached_tokens=cached)


_CALL_OPENING = re.compile(re.escape(CALL_MARK) + r'\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')


class ToolCallReader:
    """Parses the streamed text of a llama.cpp reply, which contains either tool calls or an answer.

    Each line of tool calls has one call. A reply without a mark is an answer too: it can come from a grammar
    in ``extra_body``.
    """

    def __init__(self) -> None:
        self._unread = ""
        self._is_answer = False
        # The tool whose arguments are being read; None between two calls.
        self._name: str | None = None
        self._calls: list[tuple[str, list[str]]] = []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in a streamed reply so far, without duplicates; the last may be incomplete.

        Small models write the same call several times. A tool with side effects must not run several times.
        """
        distinct = dict.fromkeys((name, "".join(pieces)) for name, pieces in self._calls)
        return tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(distinct, 1))

    def add(self, text: str) -> ReplyDelta | None:
        """Parse more generated text; return the new part of the reply, or None if more text is needed."""
        if self._is_answer:
            return ReplyDelta(text)
        self._unread += text
        deltas: list[ToolCallDelta] = []
        while not self._is_answer and (delta := self._next_delta()) is not None:
            deltas.append(delta)
        if self._is_answer:
            answer, self._unread = self._unread, ""
            return ReplyDelta(answer) if answer else None
        return ReplyDelta(tool_calls=tuple(deltas)) if deltas else None

    def remaining_text(self) -> str:
        """Return the rest of a reply that ended inside a marker, such as ``Answ`` of ``Answer:``."""
        return "" if self._calls or self._is_answer else self._unread

    def _next_delta(self) -> ToolCallDelta | None:
        """Return the next part of a tool call, or None if more text is needed."""
        if self._name is not None:
            return self._next_arguments()
        opening = _CALL_OPENING.match(self._unread)
        if opening is not None:
            self._name = name = str(json.loads(opening[1]))
            self._unread = self._unread[opening.end() :]
            self._calls.append((name, []))
            return ToolCallDelta(len(self._calls) - 1, name, "")
        if not self._calls and not _may_begin_with(self._unread, CALL_MARK):
            has_whole_mark = len(self._unread) >= len(ANSWER_MARK)
            self._is_answer = has_whole_mark or not _may_begin_with(self._unread, ANSWER_MARK)
            if self._is_answer:
                self._unread = self._unread.removeprefix(ANSWER_MARK)
        return None

    def _next_arguments(self) -> ToolCallDelta | None:
        """Parse the next part of a tool call's arguments, which are JSON on one line.

        A closing brace at the end of the unread text is held back: the last brace of the line belongs to the
        call and not to the arguments.
        """
        line, line_feed, rest = self._unread.partition("\n")
        arguments = line.removesuffix("}")
        self._unread = rest if line_feed else line[len(arguments) :]
        if line_feed:
            self._name = None
        if arguments:
            name, pieces = self._calls[-1]
            pieces.append(arguments)
            return ToolCallDelta(len(self._calls) - 1, name, arguments)
        return self._next_delta() if line_feed else None


def _may_begin_with(text: str, mark: str) -> bool:
    """Return True if text begins with a marker such as ``Answer:``, or may do so when more text arrives."""
    return text.startswith(mark) or mark.startswith(text)


def _model_error(error: JsonObject, label: str, context_tokens: int) -> ModelError:
    """Convert an ``error`` object of llama.cpp to an exception."""
    status, body = error.get("code"), json.dumps(error)
    if error.get("type") == "exceed_context_size_error":
        return BadRequestError(
            f"the request has {error.get('n_prompt_tokens')} tokens, but the embedded model {label} was "
            f"loaded with a context of {context_tokens} tokens: shorten the request, or raise context_tokens "
            "of LocalChatModel",
            status=status,
            body=body,
        )
    if isinstance(status, int) and status < 500:
        return BadRequestError(
            f"the embedded model {label} does not accept the request: {error.get('message')}",
            status=status,
            body=body,
        )
    return ModelServerError(
        f"the embedded model {label} failed: {error.get('message')}", status=status, body=body
    )
