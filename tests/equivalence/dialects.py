"""A server that writes the reply of a case in the API of each provider, whole or as a stream.

A new dialect is one function from a ``Message`` to a reply, and a line of ``DIALECTS``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import responses_api
from equivalence.request_check import Server, check_request
from equivalence.strict_schema_check import RequestRejected
from equivalence.table import Case
from equivalence.world import USAGE, World, written
from loopback import (
    DONE,
    Loopback,
    ReceivedRequest,
    Reply,
    amazon_event,
    amazon_stream,
    answer,
    delta,
    event,
    json_reply,
    sse,
    usage_event,
)

from aiservices import (
    AnthropicChatModel,
    BedrockChatModel,
    Capabilities,
    ChatModel,
    FinishReason,
    GeminiChatModel,
    OpenAiChatModel,
    OpenAiResponsesModel,
)

__all__ = ["DIALECTS", "Dialect", "DialectServer", "Message"]

Json = Mapping[str, Any]
INPUT, OUTPUT = USAGE.input_tokens, USAGE.output_tokens


class Message(NamedTuple):
    """What the model writes.

    Attributes:
        pieces: The text, or the arguments of the tool call, in the pieces of a stream.
        tool: The name of the tool that it calls, if any.
        finish: Why it stopped.
        refusal: The text with which it refuses.
    """

    pieces: Sequence[str]
    tool: str | None
    finish: FinishReason
    refusal: str | None

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class Dialect(NamedTuple):
    """The API of a provider.

    Attributes:
        model: Creates a model with the address of the server.
        asked: Returns the schemas of the tools in a request by their names, and that of the answer.
        written: Writes a message, as a stream or whole.
        endings: The words for how a reply may end early.
    """

    model: Callable[[str], ChatModel]
    asked: Callable[[Any], tuple[dict[str, Any], Any]]
    written: Callable[[Message, bool], Reply]
    endings: frozenset[str]


# --- OpenAI's chat completions


def _asked_in_chat(body: Any) -> tuple[dict[str, Any], Any]:
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())}
    asked = body.get("response_format", {})
    hint = body["messages"][-1]["content"].rpartition("Reply with JSON only: ")[2]
    if asked.get("type") == "json_object" and hint.startswith('{"value": '):  # JSON mode with an envelope
        return tools, {"type": "object", "properties": {"value": {}}, "required": ["value"]}
    return tools, asked.get("json_schema", {}).get("schema")


def _chat(message: Message, streamed: bool) -> Reply:
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    end = "tool_calls" if message.tool else message.finish.value
    if not streamed:
        if message.tool is None:
            text = None if message.refusal else message.text
            return answer(text, usage=usage, finish_reason=end, refusal=message.refusal)
        function = {"name": message.tool, "arguments": message.text}
        calls = [{"id": "call_1", "type": "function", "function": function}]
        return answer(None, usage=usage, finish_reason=end, tool_calls=calls)
    if message.refusal:
        events = [delta(role="assistant", refusal=message.refusal)]
    elif message.tool is None:
        events = [delta(role="assistant", content=""), *(delta(content=piece) for piece in message.pieces)]
    else:
        function = {"name": message.tool, "arguments": ""}
        events = [delta(tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": function}])]
        events += [
            delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in message.pieces
        ]
    events += [delta(end), usage_event(**usage), DONE]
    # the bytes are cut anywhere, too
    return sse(*_cut(b"".join(events), random.Random(message.text), 50, 3_000))


# --- OpenAI's Responses


def _asked_in_responses(body: Any) -> tuple[dict[str, Any], Any]:
    tools = {tool["name"]: tool["parameters"] for tool in body.get("tools", ())}
    return tools, body.get("text", {}).get("format", {}).get("schema")


_LENGTH_REACHED = "max_output_tokens"


def _responses(message: Message, streamed: bool) -> Reply:
    more: dict[str, Any] = {"usage": responses_api.usage(INPUT, OUTPUT)}
    if message.finish is not FinishReason.STOP:
        is_filtered = message.finish is FinishReason.CONTENT_FILTER
        reason = "content_filter" if is_filtered else _LENGTH_REACHED
        more |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    if message.tool is not None:
        item = responses_api.function_call("c1", message.tool, message.text)
        empty = {**item, "arguments": ""}
        deltas = [responses_api.arguments_delta(piece, 0) for piece in message.pieces]
    elif message.refusal is not None:
        item, empty = responses_api.message(refusal=message.refusal), responses_api.message()
        deltas = [responses_api.refusal_delta(message.refusal)]
    else:
        item, empty = responses_api.message(message.text), responses_api.message()
        deltas = [responses_api.text_delta(piece) for piece in message.pieces]
    data = responses_api.response(item, **more)
    end = responses_api.end_event(data)
    if message.finish is FinishReason.OTHER:  # the SDK, which checks this server, knows no such reason
        data["incomplete_details"]["reason"] = "tired"
        end = end.replace(_LENGTH_REACHED.encode(), b"tired")
    if not streamed:
        return json_reply(data)
    added, done = responses_api.item_added(0, empty), responses_api.item_done(0, item)
    return sse(responses_api.start_events(), added, *deltas, done, end)


# --- Anthropic's Messages


def _asked_in_anthropic(body: Any) -> tuple[dict[str, Any], Any]:
    tools = {tool["name"]: tool["input_schema"] for tool in body.get("tools", ())}
    return tools, body.get("output_config", {}).get("format", {}).get("schema")


_ANTHROPIC_ENDS = {
    FinishReason.LENGTH: "max_tokens",
    FinishReason.STOP: "end_turn",
    FinishReason.OTHER: "tired",
}


def _anthropic(message: Message, streamed: bool) -> Reply:
    block: Json = {"type": "text", "text": message.refusal or message.text}
    empty: Json = {"type": "text", "text": ""}
    if message.tool is not None:
        block = {"type": "tool_use", "id": "t1", "name": message.tool, "input": json.loads(message.text)}
        empty = {**block, "input": {}}
    stop = "tool_use" if message.tool else "refusal" if message.refusal else _ANTHROPIC_ENDS[message.finish]
    head = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
    if not streamed:
        usage = {"input_tokens": INPUT, "output_tokens": OUTPUT}
        return json_reply({**head, "content": [block], "stop_reason": stop, "usage": usage})
    kind, member = ("text_delta", "text") if message.tool is None else ("input_json_delta", "partial_json")
    start = {**head, "content": [], "usage": {"input_tokens": INPUT, "output_tokens": 1}}
    events = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: piece}}
            for piece in message.pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": OUTPUT}},
        {"type": "message_stop"},
    ]
    return sse(*map(event, events))


# --- Google's generateContent


def _asked_in_gemini(body: Any) -> tuple[dict[str, Any], Any]:
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    tools = {one["name"]: one["parametersJsonSchema"] for one in declared}
    return tools, body.get("generationConfig", {}).get("responseJsonSchema")


_GEMINI_ENDS = {
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.OTHER: "OTHER",
}


def _gemini(message: Message, streamed: bool) -> Reply:
    usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT, "totalTokenCount": INPUT + OUTPUT}

    def body(parts: list[Json], *, is_last: bool) -> Json:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}}
        if not is_last:
            return {"candidates": [candidate], "modelVersion": "gemini-3-pro"}
        candidate["finishReason"] = _GEMINI_ENDS.get(message.finish, "STOP")
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-pro"}

    if message.tool is not None:
        call: Json = {"id": "c1", "name": message.tool, "args": json.loads(message.text)}
        last = body([{"functionCall": call}], is_last=True)
        return sse(event(last)) if streamed else json_reply(last)
    if not streamed:
        return json_reply(body([{"text": message.text}], is_last=True))
    first = [event(body([{"text": piece}], is_last=False)) for piece in message.pieces[:-1]]
    return sse(*first, event(body([{"text": "".join(message.pieces[-1:])}], is_last=True)))


# --- Amazon's Converse


def _asked_in_bedrock(body: Any) -> tuple[dict[str, Any], Any]:
    specifications = [tool["toolSpec"] for tool in body.get("toolConfig", {}).get("tools", ())]
    tools = {one["name"]: one["inputSchema"]["json"] for one in specifications}
    written = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {}).get("jsonSchema")
    return tools, written and json.loads(written["schema"])


_BEDROCK_ENDS = {
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "content_filtered",
    FinishReason.OTHER: "tired",
}


def _bedrock(message: Message, streamed: bool) -> Reply:
    usage = {"inputTokens": INPUT, "outputTokens": OUTPUT, "totalTokens": INPUT + OUTPUT}
    stop = "tool_use" if message.tool else _BEDROCK_ENDS.get(message.finish, "end_turn")
    if not streamed:
        block: Json = {"text": message.text}
        if message.tool is not None:
            block = {"toolUse": {"toolUseId": "t1", "name": message.tool, "input": json.loads(message.text)}}
        content = {"role": "assistant", "content": [block]}
        return json_reply({"output": {"message": content}, "stopReason": stop, "usage": usage})
    start = {"toolUse": {"toolUseId": "t1", "name": message.tool}} if message.tool else {}
    wrapped = (
        [{"text": piece} for piece in message.pieces]
        if message.tool is None
        else [{"toolUse": {"input": piece}} for piece in message.pieces]
    )
    frames = [
        amazon_event("messageStart", {"role": "assistant"}),
        *([amazon_event("contentBlockStart", {"contentBlockIndex": 0, "start": start})] if start else []),
        *(amazon_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": one}) for one in wrapped),
        amazon_event("contentBlockStop", {"contentBlockIndex": 0}),
        amazon_event("messageStop", {"stopReason": stop}),
        amazon_event("metadata", {"usage": usage}),
    ]
    return amazon_stream(*frames)


_LOOSE = Capabilities(json_schema=True, json_mode=True, tools=True)
_STRICT = replace(_LOOSE, strict_schema=True)
_GRAMMAR = Capabilities(json_schema=True, json_mode=True, constrained=True, profile="llama.cpp")
_NAME = "claude-sonnet-5"
_ALL = frozenset(("length", "content_filter", "refusal", "other"))


def _chat_at(server: Server, capabilities: Capabilities) -> Dialect:
    def model(url: str) -> ChatModel:
        return OpenAiChatModel(server.value, base_url=f"{url}/v1", api_key="k", capabilities=capabilities)

    return Dialect(model, _asked_in_chat, _chat, _ALL)


DIALECTS = {
    "chat": _chat_at(Server.STRICT, _STRICT),
    "chat without strict mode": _chat_at(Server.LOOSE, _LOOSE),
    "chat with a grammar": _chat_at(Server.GRAMMAR, _GRAMMAR),
    "responses": Dialect(
        lambda url: OpenAiResponsesModel("gpt-x", base_url=f"{url}/v1", api_key="k"),
        _asked_in_responses,
        _responses,
        _ALL,
    ),
    "anthropic": Dialect(
        lambda url: AnthropicChatModel(_NAME, base_url=url, api_key="k"),
        _asked_in_anthropic,
        _anthropic,
        frozenset(("length", "refusal", "other")),
    ),
    "gemini": Dialect(
        lambda url: GeminiChatModel("gemini-3-pro", base_url=f"{url}/v1beta", api_key="k"),
        _asked_in_gemini,
        _gemini,
        frozenset(("length", "content_filter", "other")),
    ),
    "bedrock": Dialect(
        lambda url: BedrockChatModel(f"anthropic.{_NAME}-v1:0", base_url=url, api_key="k"),
        _asked_in_bedrock,
        _bedrock,
        frozenset(("length", "content_filter", "other")),
    ),
}


class DialectServer:
    """A server with all APIs, which writes the reply of the current case.

    What OpenAI would refuse is refused, and the schema of a whole reply must be strict.
    """

    def __init__(self, world: World) -> None:
        self.case: Case
        self.dialect: Dialect
        self._world = world
        self._server = world.resources.enter_context(Loopback())
        self._server.reply(self._reply)

    def model(self, dialect: str) -> ChatModel:
        """Return the model of a dialect."""
        return self._world.once(("model", dialect), lambda: self._open(DIALECTS[dialect]))

    def _open(self, dialect: Dialect) -> ChatModel:
        model = dialect.model(self._server.base_url.removesuffix("/v1"))
        closing: Any = model
        self._world.resources.callback(lambda: self._world.wait(closing.aclose()))
        self._world.resources.callback(closing.close)
        return model

    def _reply(self, request: ReceivedRequest) -> Reply:
        self._server.requests.clear()
        body, case, dialect = request.json, self.case, self.dialect
        streamed = bool(body.get("stream")) or "stream" in request.path.lower()
        try:
            if dialect.written is _chat:
                _check(body, case)
            text, tool = written(case, *dialect.asked(body))
            pieces = list(_cut(text, random.Random(case.name), 1, max(9, len(text) // 8)))
            return dialect.written(Message(pieces, tool, case.finish, case.refusal), streamed)
        except RequestRejected as rejection:
            error = {"message": str(rejection), "type": "invalid_request_error", "param": rejection.param}
            return json_reply({"error": {**error, "code": rejection.code}}, status=400)
        except Exception as error:  # the test reports it; this is a thread of the server
            return json_reply({"error": {"message": f"{type(error).__name__}: {error}"}}, status=418)


def _check(body: Any, case: Case) -> None:
    server = Server(body["model"])
    check_request(body, server)
    schemas = [tool["function"] for tool in body.get("tools", ())]
    schemas += [one for key, one in body.get("response_format", {}).items() if key == "json_schema"]
    must_be_strict = server is Server.STRICT and not case.schemaless and not body.get("stream")
    if must_be_strict and not all(one.get("strict") for one in schemas):
        raise RequestRejected("The schema is not strict.")


def _cut(whole: Any, chance: random.Random, least: int, most: int) -> Iterator[Any]:
    start = 0
    while start < len(whole):
        size = chance.randint(least, most)
        yield whole[start : start + size]
        start += size
