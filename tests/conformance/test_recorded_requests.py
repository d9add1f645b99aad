"""Recorded requests to providers, stated as our messages, tools and options: we write the same JSON.

The functions ``…_call`` state each recorded request in the terms of this library. They read the JSON that the
provider documents, and do not use the code that writes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest
from loopback import Loopback, Reply

from aiservices import (
    AiMessage,
    ChatOptions,
    ChatRequest,
    Image,
    JsonObjectFormat,
    ModelError,
    OpenAiChatModel,
    OpenAiResponsesModel,
    SystemMessage,
)
from aiservices.models.http.model import HttpChatModel
from aiservices.models.media import File, Media
from aiservices.models.messages import Message, ToolCall, ToolMessage, UserMessage
from aiservices.models.providers.anthropic import AnthropicChatModel
from aiservices.models.providers.bedrock import AwsKeys, BedrockChatModel
from aiservices.models.providers.gemini import GeminiChatModel
from aiservices.models.requests import JsonSchemaFormat, Tooling, ToolSpecification

EXCHANGES = Path(__file__).parents[3] / "shared" / "recorded" / "exchanges.jsonl"
pytestmark = pytest.mark.skipif(not EXCHANGES.exists(), reason="the recorded exchanges are not here")


class RecordedRequest(NamedTuple):
    """A recorded request.

    Attributes:
        name: The id of the exchange.
        host: The host of the URL.
        path: The path of the URL.
        body: The JSON of the body.
    """

    name: str
    host: str
    path: str
    body: Any


def requests(api: str) -> Iterator[RecordedRequest]:
    for line in EXCHANGES.read_text().splitlines():
        exchange = json.loads(line)
        if exchange["api"] == api:
            body = exchange["request"]
            body = json.loads(body) if isinstance(body, str) else body
            yield RecordedRequest(exchange["id"], exchange["host"], exchange["path"], body)


def user_message(parts: list[str | Media]) -> UserMessage:
    text = "".join(part for part in parts if isinstance(part, str))
    return UserMessage(text) if parts == [text] else UserMessage(text, contents=tuple(parts))


def differences(
    api: str,
    make_model: Callable[[str, RecordedRequest], HttpChatModel],
    call: Callable[[Any, HttpChatModel], ChatRequest],
    normal: Callable[[Any], Any],
) -> tuple[int, dict[str, str]]:
    """Return how many requests are written the same, and what differs in the others."""
    same, different = 0, {}
    for exchange in requests(api):
        name, recorded = exchange.name, exchange.body
        with Loopback().reply(Reply()) as server:
            model = make_model(server.base_url, exchange)
            try:
                request = call(recorded, model)
            except (KeyError, ValueError) as error:
                different[name] = f"it cannot be stated: {error!r}"
                continue
            try:
                model.complete(request)
            except ModelError as error:
                if not server.requests:
                    different[name] = str(error)
                    continue
            ours, theirs = normal(server.requests[0].json), normal(recorded)
        if ours == theirs:
            same += 1
        else:
            keys = [key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)]
            different[name] = "; ".join(
                f"{key}: {json.dumps(ours.get(key))[:700]} INSTEAD OF {json.dumps(theirs.get(key))[:700]}"
                for key in keys
            )
    return same, different


def blocks_of(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


# --- Anthropic ---

STATE_BLOCKS = ("text", "tool_use")


def anthropic_part(block: Any) -> str | Media:
    if block["type"] == "text":
        return str(block["text"])
    source = block["source"]
    media: type[Media] = Image if block["type"] == "image" else File
    if source["type"] == "url":
        return media.from_url(source["url"], "application/pdf" if media is File else None)
    if source["type"] == "text":
        return File.from_bytes(source["data"].encode(), source["media_type"])
    return media.from_url(f"data:{source['media_type']};base64,{source['data']}")


def anthropic_messages(recorded: Any, address: str) -> Iterator[Message]:
    for block in blocks_of(recorded.get("system") or []):
        yield SystemMessage(block["text"])
    names: dict[str, str] = {}
    for message in recorded["messages"]:
        blocks = blocks_of(message["content"])
        if message["role"] == "assistant":
            calls = [
                ToolCall(block["id"], block["name"], json.dumps(block["input"]))
                for block in blocks
                if block["type"] == "tool_use"
            ]
            names |= {call.id: call.name for call in calls}
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            answer = AiMessage(text, tuple(calls))
            is_plain = all(block["type"] in STATE_BLOCKS for block in blocks) and len(text.strip()) == len(
                text
            )
            yield answer if is_plain else answer.with_state(f"anthropic at {address}", "m", blocks)
        elif message["role"] == "system":
            yield SystemMessage("\n".join(block["text"] for block in blocks))
        else:
            for block in blocks:
                if block["type"] == "tool_result":
                    parts = [anthropic_part(part) for part in blocks_of(block.get("content") or [])]
                    made = user_message(parts)
                    call_id = block["tool_use_id"]
                    failed = bool(block.get("is_error"))
                    yield ToolMessage(call_id, names[call_id], made.text, made.contents, failed=failed)
            parts = [anthropic_part(block) for block in blocks if block["type"] != "tool_result"]
            if parts:
                yield user_message(parts)


def anthropic_call(recorded: Any, model: HttpChatModel) -> ChatRequest:
    tools, server_tools = [], []
    for tool in recorded.get("tools", ()):
        if tool.get("type", "custom") != "custom" or "input_schema" not in tool:
            server_tools.append(tool)
            continue
        known = {"name", "description", "input_schema", "strict", "type"}
        metadata = {name: value for name, value in tool.items() if name not in known}
        tools.append(
            ToolSpecification(
                tool["name"],
                tool.get("description", ""),
                tool["input_schema"],
                strict=tool.get("strict", False),
                metadata=metadata,
            )
        )
    choice = recorded.get("tool_choice") or {"type": "auto"}
    kind = {"any": "required", "tool": choice.get("name")}.get(choice["type"], choice["type"])
    tooling = Tooling(tuple(tools), kind, parallel_calls=not choice.get("disable_parallel_tool_use"))
    config = dict(recorded.get("output_config") or {})
    schema = config.pop("format", None)
    known = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "output_config"}
    extra = {name: value for name, value in recorded.items() if name not in known}
    if config:
        extra["output_config"] = config
    return ChatRequest(
        tuple(anthropic_messages(recorded, model.endpoint)),
        ChatOptions(
            max_tokens=recorded["max_tokens"], server_tools=tuple(server_tools) or None, extra_body=extra
        ),
        JsonSchemaFormat("answer", schema["schema"], strict=True) if schema else None,
        tooling if tools else None,
    )


def without(data: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in names}


def anthropic_normal(body: Any) -> Any:
    body = without(body, "stream")
    if body.get("tool_choice") == {"type": "auto"}:
        del body["tool_choice"]
    if "system" in body:
        body["system"] = "\n\n".join(block["text"] for block in blocks_of(body["system"]))
    if "tools" in body:
        tools = [without(tool, "type") if "input_schema" in tool else tool for tool in body["tools"]]
        body["tools"] = sorted(tools, key=lambda tool: str(tool.get("name")))
    messages: list[Any] = []
    for message in body["messages"]:
        blocks = []
        for block in blocks_of(message["content"]):
            block = without(block, "cache_control", "citations", "caller", "title")
            if block["type"] == "tool_result":
                if not block.get("is_error"):
                    block.pop("is_error", None)
                block["content"] = blocks_of(block.get("content") or [])
            blocks.append(block)
        add_message(messages, message["role"], "content", blocks)
    return {**body, "messages": messages}


def add_message(messages: list[Any], role: str, name: str, blocks: list[Any]) -> None:
    """Add a message; neighbours of one role are one message for all of these APIs, and so are texts."""
    if messages and messages[-1]["role"] == role:
        blocks = [*messages.pop()[name], *blocks]
    joined: list[Any] = []
    for block in blocks:
        is_text = "text" in block and block.keys() <= {"text", "type"}
        if is_text and joined and "text" in joined[-1] and joined[-1].keys() == block.keys():
            joined[-1] = {**block, "text": joined[-1]["text"] + block["text"]}
        else:
            joined.append(block)
    messages.append({"role": role, name: joined})


# --- Gemini ---


def media_from(kind: str | None, data: str) -> Media:
    media: type[Media] = Image if (kind or "").startswith("image/") else File
    return media.from_url(f"data:{kind};base64,{data}")


_CAMEL = {"file_uri": "fileUri", "mime_type": "mimeType"}  # the API takes both


def gemini_part(part: Any) -> str | Media:
    if "text" in part:
        return str(part["text"])
    if "inlineData" in part:
        return media_from(part["inlineData"]["mimeType"], part["inlineData"]["data"])
    if "videoMetadata" in part:
        raise KeyError("videoMetadata")
    data = {_CAMEL.get(name, name): value for name, value in part["fileData"].items()}
    kind = data.get("mimeType")
    return (Image if (kind or "").startswith("image/") else File).from_url(data["fileUri"], kind)


def gemini_messages(recorded: Any, address: str) -> Iterator[Message]:
    for part in (recorded.get("systemInstruction") or {"parts": ()})["parts"]:
        yield SystemMessage(part["text"])
    for content in recorded["contents"]:
        parts = content["parts"]
        if content["role"] == "model":
            calls = []
            for number, part in enumerate(parts):
                if "functionCall" in part:
                    call = part["functionCall"]
                    arguments = json.dumps(call.get("args") or {})
                    calls.append(ToolCall(call.get("id") or f"no_id_{number}", call["name"], arguments))
            text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
            answer = AiMessage(text, tuple(calls))
            is_plain = all(part.keys() <= {"text", "functionCall"} for part in parts)
            yield answer if is_plain else answer.with_state(f"gemini at {address}", "m", parts)
            continue
        for part in parts:
            if "functionResponse" in part:
                response = part["functionResponse"]
                text = json.dumps(response["response"])
                failed = "error" in response["response"]
                call_id = response.get("id") or "no_id_"
                yield ToolMessage(call_id, response["name"], text, failed=failed)
        others = [gemini_part(part) for part in parts if "functionResponse" not in part]
        if others:
            yield user_message(others)


def gemini_call(recorded: Any, model: HttpChatModel) -> ChatRequest:
    tools, server_tools = [], []
    declared = recorded.get("tools") or []
    for tool in [declared] if isinstance(declared, dict) else declared:
        functions = tool.get("functionDeclarations") or tool.get("function_declarations")
        if functions is None:
            server_tools.append(tool)
        for one in functions or ():
            schema = (
                one.get("parametersJsonSchema") or one.get("parameters_json_schema") or one.get("parameters")
            )
            tools.append(ToolSpecification(one["name"], one["description"], schema or {"type": "object"}))
    config = dict(recorded.get("generationConfig") or {})
    options = {
        "temperature": config.pop("temperature", None),
        "max_tokens": config.pop("maxOutputTokens", None),
    }
    schema = config.pop("responseJsonSchema", None)
    if schema is not None:
        config.pop("responseMimeType")
    known = {"contents", "systemInstruction", "tools", "generationConfig", "toolConfig"}
    extra = {name: value for name, value in recorded.items() if name not in known}
    extra |= {"generationConfig": config} if config else {}
    tool_config = recorded.get("toolConfig") or {}
    calling = tool_config.get("functionCallingConfig", {})
    names = calling.get("allowedFunctionNames", ())
    choice = {"ANY": "required", "NONE": "none"}.get(calling.get("mode"), "auto")
    if choice == "required" and len(names) == 1:
        choice = names[0]
    elif names or calling.get("mode") == "VALIDATED" or len(tool_config) > len(calling and [calling]):
        extra["toolConfig"] = tool_config  # what has no words here
    return ChatRequest(
        tuple(gemini_messages(recorded, model.endpoint)),
        ChatOptions(**options, server_tools=tuple(server_tools) or None, extra_body=extra),
        None if schema is None else JsonSchemaFormat("answer", schema),
        Tooling(tuple(tools), choice) if tools else None,
    )


def gemini_normal(body: Any) -> Any:
    contents: list[Any] = []
    for content in body["contents"]:
        parts = []
        for part in content["parts"]:
            if "functionResponse" in part:  # the result may be in any member of the response
                part = {"functionResponse": without(part["functionResponse"], "response")}
            if "fileData" in part:
                part = {
                    "fileData": {_CAMEL.get(name, name): value for name, value in part["fileData"].items()}
                }
            parts.append(part)
        add_message(contents, content["role"], "parts", parts)
    tools = []
    declared = body.get("tools") or []
    for tool in [declared] if isinstance(declared, dict) else declared:
        functions = tool.get("functionDeclarations") or tool.get("function_declarations")
        tools += [function["name"] for function in functions] if functions else [json.dumps(tool)]
    calling = body.get("toolConfig")
    if calling in ({"functionCallingConfig": {"mode": "AUTO"}}, None):
        calling = None
    system = (body.get("systemInstruction") or {"parts": ()})["parts"]
    known = ("contents", "tools", "toolConfig", "systemInstruction")
    return {
        **without(body, *known),
        "generationConfig": body.get("generationConfig") or {},
        "contents": contents,
        "tools": sorted(tools),
        "toolConfig": calling,
        "systemInstruction": [part["text"] for part in system],
    }


# --- Bedrock ---


def bedrock_part(block: Any) -> str | Media:
    if "text" in block:
        return str(block["text"])
    document = block["document"]
    kinds = {"txt": "text/plain", "pdf": "application/pdf"}
    file = media_from(kinds[document["format"]], document["source"]["bytes"])
    return File(file.data, file.media_type, None, document["name"])


def bedrock_messages(recorded: Any, address: str) -> Iterator[Message]:
    for block in recorded.get("system") or ():
        if "text" in block:
            yield SystemMessage(block["text"])
    names: dict[str, str] = {}
    for message in recorded["messages"]:
        blocks = [block for block in message["content"] if "cachePoint" not in block]
        if message["role"] == "assistant":
            calls = []
            for block in blocks:
                if "toolUse" in block and block["toolUse"].get("type") != "server_tool_use":
                    use = block["toolUse"]
                    names[use["toolUseId"]] = use["name"]
                    calls.append(ToolCall(use["toolUseId"], use["name"], json.dumps(use["input"])))
            text = "".join(block["text"] for block in blocks if "text" in block)
            answer = AiMessage(text, tuple(calls))
            is_plain = all(block.keys() <= {"text", "toolUse"} for block in blocks)
            yield answer if is_plain else answer.with_state(f"bedrock at {address}", "m", blocks)
            continue
        for block in blocks:
            if "toolResult" in block:
                result = block["toolResult"]
                call_id = result["toolUseId"]
                made = user_message([bedrock_part(part) for part in result["content"]])
                failed = result.get("status") == "error"
                yield ToolMessage(call_id, names[call_id], made.text, made.contents, failed=failed)
        parts = [bedrock_part(block) for block in blocks if "toolResult" not in block]
        if parts:
            yield user_message(parts)


def bedrock_call(recorded: Any, model: HttpChatModel) -> ChatRequest:
    config = recorded.get("toolConfig") or {}
    tools, server_tools = [], []
    for tool in config.get("tools", ()):
        if "cachePoint" in tool:
            continue
        if "toolSpec" not in tool:
            server_tools.append(tool)
            continue
        spec = tool["toolSpec"]
        description, strict = spec.get("description", ""), spec.get("strict", False)
        tools.append(ToolSpecification(spec["name"], description, spec["inputSchema"]["json"], strict=strict))
    choice = config.get("toolChoice") or {"auto": {}}
    kind = "required" if "any" in choice else choice.get("tool", {}).get("name", "auto")
    schema = None
    if "outputConfig" in recorded:
        answer = recorded["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
        schema = JsonSchemaFormat(answer["name"], json.loads(answer["schema"]), strict=True)
    known = {"messages", "system", "toolConfig", "outputConfig", "inferenceConfig"}
    extra = {name: value for name, value in recorded.items() if name not in known}
    limits = recorded.get("inferenceConfig") or {}
    return ChatRequest(
        tuple(bedrock_messages(recorded, model.endpoint)),
        ChatOptions(
            temperature=limits.get("temperature"),
            max_tokens=limits.get("maxTokens"),
            server_tools=tuple(server_tools) or None,
            extra_body=extra,
        ),
        schema,
        Tooling(tuple(tools), kind) if tools else None,
    )


def bedrock_normal(body: Any) -> Any:
    messages: list[Any] = []
    for message in body["messages"]:
        blocks = []
        for block in message["content"]:
            if "cachePoint" in block:
                continue
            if "toolResult" in block and block["toolResult"].get("status") != "error":
                block = {"toolResult": without(block["toolResult"], "status")}
            blocks.append(block)
        add_message(messages, message["role"], "content", blocks)
    for message in messages:  # line ends next to a document are not sent
        message["content"] = [
            {"text": block["text"].strip("\n")} if "text" in block else block for block in message["content"]
        ]
    config = dict(body.get("toolConfig") or {})
    config["tools"] = [tool for tool in config.get("tools", ()) if "cachePoint" not in tool]
    if config.get("toolChoice") == {"auto": {}}:
        del config["toolChoice"]
    output = body.get("outputConfig")
    if output is not None:
        answer = output["textFormat"]["structure"]["jsonSchema"]
        output = answer["name"], json.loads(answer["schema"])
    system = [block["text"] for block in body.get("system") or () if "text" in block]
    known = ("messages", "system", "toolConfig", "inferenceConfig", "outputConfig")
    return {
        **without(body, *known),
        "messages": messages,
        "system": system,
        "toolConfig": config,
        "outputConfig": output,
    }


# --- Chat completions ---

PROVIDER_OF_HOST = {
    "openrouter.ai": "openrouter",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.z.ai": "zai",
    "api.cerebras.ai": "cerebras",
    "api.deepseek.com": "deepseek",
    "ollama.com": "ollama",
    "api.inference.crusoecloud.com": "vllm",  # which this service runs
}
REASONING_MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")


def chat_model(url: str, recorded: RecordedRequest) -> OpenAiChatModel:
    provider = PROVIDER_OF_HOST.get(recorded.host, "openai")
    return OpenAiChatModel(recorded.body["model"], provider=provider, base_url=url, api_key="k")


def chat_part(part: Any) -> str | Media:
    if part["type"] == "text":
        return str(part["text"])
    if part["type"] == "image_url":
        return Image.from_url(part["image_url"]["url"])
    return File.from_url(part["file"]["file_data"])


def chat_messages(recorded: Any, model: HttpChatModel) -> Iterator[Message]:
    provider = f"{model.name.partition(':')[0]} at {model.endpoint}"
    names: dict[str, str] = {}
    for message in recorded["messages"]:
        content = message.get("content")
        parts = blocks_of(content or [])
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        match message["role"]:
            case "system":
                yield SystemMessage(text)
            case "tool":
                yield ToolMessage(message["tool_call_id"], names[message["tool_call_id"]], text)
            case "user":
                made = user_message([chat_part(part) for part in parts])
                yield replace(made, name=message.get("name"))
            case _:
                calls = [
                    ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                    for call in message.get("tool_calls") or ()
                ]
                names |= {call.id: call.name for call in calls}
                state = {name: message[name] for name in REASONING_MEMBERS if name in message}
                if any(part["type"] == "thinking" for part in parts):
                    state["content"] = content
                answer = AiMessage(text, tuple(calls))
                yield answer.with_state(provider, "m", [state]) if state else answer


def chat_call(recorded: Any, model: HttpChatModel) -> ChatRequest:
    tools, server_tools = [], []
    for tool in recorded.get("tools", ()):
        if "function" not in tool:
            server_tools.append(tool)
            continue
        one = tool["function"]
        metadata = without(tool, "type", "function")
        tools.append(
            ToolSpecification(
                one["name"],
                one["description"],
                one["parameters"],
                strict=one.get("strict", False),
                metadata=metadata,
            )
        )
    choice = recorded.get("tool_choice") or "auto"
    kind = choice if isinstance(choice, str) else choice["function"]["name"]
    response_format = recorded.get("response_format")
    answer_format: JsonObjectFormat | JsonSchemaFormat | None = None
    if response_format is not None:
        answer_format = JsonObjectFormat()
        if response_format["type"] == "json_schema":
            schema = response_format["json_schema"]
            answer_format = JsonSchemaFormat(
                schema["name"], schema["schema"], strict=schema.get("strict", False)
            )
    known = {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options"}
    options = {
        "temperature": "temperature",
        "top_p": "top_p",
        "max_tokens": "max_completion_tokens",
        "stop": "stop",
        "reasoning_effort": "reasoning_effort",
        "service_tier": "service_tier",
    }
    extra = {name: value for name, value in recorded.items() if name not in {*known, *options.values()}}
    return ChatRequest(
        tuple(chat_messages(recorded, model)),
        ChatOptions(
            **{name: recorded.get(member) for name, member in options.items()},
            server_tools=tuple(server_tools) or None,
            extra_body=extra,
        ),
        answer_format,
        Tooling(tuple(tools), {"any": "required"}.get(kind, kind)) if tools else None,
    )


def chat_normal(body: Any) -> Any:
    body = {name: value for name, value in body.items() if value not in (None, [])}
    body = without(body, "stream", "stream_options")
    for name in ("max_completion_tokens", "max_tokens"):  # the name depends on the address
        if name in body:
            body["limit"] = body.pop(name)
    choice = body.pop("tool_choice", "auto")
    if choice != "auto":
        is_name = isinstance(choice, dict)
        body["tool_choice"] = {**choice, "type": "function"} if is_name else choice
    messages = []
    for message in body["messages"]:
        # Mistral's SDK says of each message that it is not a prefix
        message = {name: value for name, value in message.items() if value not in (None, False, [])}
        if isinstance(message.get("content"), list):
            message["content"] = [
                {
                    name: value
                    for name, value in part.items()
                    if value is not None and name not in ("cache_control", "prompt_cache_breakpoint")
                }
                for part in message["content"]
            ]
            if all(part["type"] == "text" for part in message["content"]):
                message["content"] = "".join(part["text"] for part in message["content"])
        messages.append(message)
    if "tools" in body:
        body["tools"] = [chat_tool(tool) for tool in body["tools"]]
    return {**body, "messages": messages}


def chat_tool(tool: Any) -> Any:
    if "function" not in tool:
        return tool
    function = tool["function"] if tool["function"].get("strict") else without(tool["function"], "strict")
    return {**tool, "type": "function", "function": function}


# --- Responses ---


def responses_model(url: str, recorded: RecordedRequest) -> OpenAiResponsesModel:
    return OpenAiResponsesModel(recorded.body["model"], base_url=url, api_key="k")


def responses_part(part: Any) -> str | Media:
    match part["type"]:
        case "input_text":
            return str(part["text"])
        case "input_image":
            return Image.from_url(part["image_url"])
        case _:
            return File.from_url(part["file_url"])


def responses_messages(recorded: Any, model: HttpChatModel) -> Iterator[Message]:
    if recorded.get("instructions"):
        yield SystemMessage(recorded["instructions"])
    written = recorded["input"]
    items = [{"role": "user", "content": written}] if isinstance(written, str) else written
    names: dict[str, str] = {}
    turn: list[Any] = []  # the items that the model wrote, in order
    for item in [*items, None]:
        role = None if item is None else item.get("role")
        is_of_caller = role in ("user", "system") or (item or {}).get("type") == "function_call_output"
        if item is not None and not is_of_caller:
            turn.append(item)
            continue
        if turn:
            yield responses_turn(turn, model, names)
            turn = []
        if item is None:
            return
        if role == "system":
            yield SystemMessage(item["content"])
        elif role == "user":
            content = item["content"]
            parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
            yield user_message([responses_part(part) for part in parts])
        else:
            yield ToolMessage(item["call_id"], names.get(item["call_id"], "?"), item["output"])


def responses_turn(items: list[Any], model: HttpChatModel, names: dict[str, str]) -> AiMessage:
    text, calls = "", []
    for item in items:
        content = item.get("content") if item.get("role") == "assistant" else None
        text += content if isinstance(content, str) else "".join(part["text"] for part in content or ())
        if item.get("type") == "function_call":
            calls.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
    names |= {call.id: call.name for call in calls}
    plain = [{"role": "assistant", "content": text}] if text else []
    plain += [
        {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments} for c in calls
    ]
    answer = AiMessage(text, tuple(calls))
    is_plain = [without(item, "id") for item in items] == plain
    return answer if is_plain else answer.with_state(f"openai-responses at {model.endpoint}", "m", items)


def responses_call(recorded: Any, model: HttpChatModel) -> ChatRequest:
    tools, server_tools = [], []
    for tool in recorded.get("tools", ()):
        if tool["type"] != "function":
            server_tools.append(tool)
            continue
        known = ("type", "name", "description", "parameters", "strict")
        tools.append(
            ToolSpecification(
                tool["name"],
                tool["description"],
                tool["parameters"],
                strict=tool["strict"],
                metadata=without(tool, *known),
            )
        )
    reasoning = dict(recorded.get("reasoning") or {})
    effort = reasoning.pop("effort", None)
    answer_format = None
    text = dict(recorded.get("text") or {})
    if text.get("format", {}).get("type") == "json_schema":
        schema = text.pop("format")
        answer_format = JsonSchemaFormat(schema["name"], schema["schema"], strict=schema["strict"])
    known_members = {"model", "input", "instructions", "tools", "tool_choice", "stream", "reasoning", "text"}
    options = {"temperature", "service_tier"}
    extra = {name: value for name, value in recorded.items() if name not in {*known_members, *options}}
    extra |= {"reasoning": reasoning} if reasoning else {}
    extra |= {"text": text} if text else {}
    return ChatRequest(
        tuple(responses_messages(recorded, model)),
        ChatOptions(
            temperature=recorded.get("temperature"),
            service_tier=recorded.get("service_tier"),
            reasoning_effort=effort,
            server_tools=tuple(server_tools) or None,
            extra_body=extra,
        ),
        answer_format,
        Tooling(tuple(tools), recorded.get("tool_choice") or "auto") if tools else None,
    )


def responses_normal(body: Any) -> Any:
    body = without(body, "stream", "store")
    if body.get("tool_choice") == "auto":
        del body["tool_choice"]
    body["include"] = sorted({*body.get("include", ())} - {"reasoning.encrypted_content"})
    written = body["input"]
    items = [{"role": "user", "content": written}] if isinstance(written, str) else list(written)
    instructions = body.pop("instructions", None)  # ours are the first item of the input
    if instructions:
        items.insert(0, {"role": "system", "content": instructions})
    body["input"] = []
    for item in items:
        if isinstance(item.get("content"), list):
            parts = [without(part, "prompt_cache_breakpoint") for part in item["content"]]
            item = {**item, "content": parts}
            if all(part["type"] == "input_text" for part in parts):
                item["content"] = "".join(part["text"] for part in parts)
        body["input"].append(without(item, "id") if item.get("type") == "function_call" else item)
    body["tools"] = sorted(body.get("tools", ()), key=lambda tool: json.dumps(tool, sort_keys=True))
    if "reasoning" in body:
        body["reasoning"] = {name: value for name, value in body["reasoning"].items() if value is not None}
    return body


def test_requests_to_chat_completions() -> None:
    same, different = differences("openai-chat", chat_model, chat_call, chat_normal)
    assert same == 225, different
    by_test = {name.rpartition("/")[2]: difference for name, difference in different.items()}
    # OpenRouter fetches files, which OpenAI does not.
    file_by_url = by_test.pop("test_openrouter_document_url_no_force_download#0")
    assert "the chat completions API does not fetch a file" in file_by_url
    # There is no class for videos.
    assert by_test.pop("test_openrouter_video_url_public_api#0") == "it cannot be stated: KeyError('file')"
    # It is always said whether a schema is strict.
    assert '"strict": false}} INSTEAD OF' in by_test.pop("test_snowflake_native_output#0")
    # Mistral takes both words.
    other_word = by_test.pop("test_tool_choice_matrix[none_with_output-mistral]#0")
    assert other_word == 'tool_choice: "required" INSTEAD OF "any"'
    assert by_test == {}


def test_requests_to_responses() -> None:
    same, different = differences("openai-responses", responses_model, responses_call, responses_normal)
    # By design, and therefore not compared: `store` is false, and the encrypted reasoning is always included;
    # the instructions are the first item of the input; the ids of calls are left out.
    assert (same, different) == (144, {})


def test_requests_to_anthropic() -> None:
    same, different = differences(
        "anthropic-messages",
        lambda url, recorded: AnthropicChatModel(recorded.body["model"], base_url=url, api_key="k"),
        anthropic_call,
        anthropic_normal,
    )
    # Not stated: tools that a result or a system message adds, and files that were uploaded to a container.
    assert same == 107, different
    assert set(different.values()) == {
        "it cannot be stated: KeyError('source')",
        "it cannot be stated: KeyError('text')",
    }


def test_requests_to_gemini() -> None:
    same, different = differences(
        "google-generate",
        lambda url, recorded: GeminiChatModel(
            recorded.path.rpartition("/")[2].partition(":")[0], base_url=url, api_key="k"
        ),
        gemini_call,
        gemini_normal,
    )
    web_only = "must begin with http:// or https://, or be a data URL"
    assert same == 117, different
    assert set(different.values()) == {
        "it cannot be stated: KeyError('videoMetadata')",
        f"it cannot be stated: ValueError('the url of a file {web_only}')",
        f"it cannot be stated: ValueError('the url of an image {web_only}')",
    }


def test_requests_to_bedrock() -> None:
    same, different = differences(
        "bedrock-converse",
        lambda url, recorded: BedrockChatModel(
            unquote(recorded.path.split("/")[-2]), base_url=url, keys=lambda: AwsKeys("a", "s")
        ),
        bedrock_call,
        bedrock_normal,
    )
    assert (same, different) == (61, {})
