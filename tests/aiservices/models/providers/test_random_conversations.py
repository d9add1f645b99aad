"""Random conversations are written as requests that follow the rules of each API."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from provider_rules import CHECKS, STATES

from aiservices import AiMessage, Image, SystemMessage, ToolCall, ToolMessage, UserMessage
from aiservices.models.messages import Message, message_from_dict, message_to_dict

PROVIDERS = ("anthropic", "gemini", "bedrock", "openai", "responses")
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(
    lambda text: text.strip() != ""
)
NAMES = st.sampled_from(
    ["weather", "look up", "a.b/c", "x" * 70, "búscar", "", "browser.tabs.open", "weather<|channel|>json"]
)
IDS = st.sampled_from(["call", "toolu_1", "fc|1", "käse", "a b", "x" * 80])
ARGUMENTS = st.sampled_from(
    ["{}", '{"a": 1}', "", "[1", "[1]", "null", "{}{}", '{"a": NaN}', '```json\n{"a": 1}\n```', '"{}"']
)


@st.composite
def rounds(draw: st.DrawFn, number: int) -> list[Message]:
    """Return a message of the model that calls tools, and their results, perhaps in another order."""
    count = draw(st.integers(1, 3))
    calls = tuple(
        ToolCall(f"{draw(IDS)}{number}{index}", draw(NAMES), draw(ARGUMENTS)) for index in range(count)
    )
    message = with_state(draw, AiMessage(draw(st.just("") | TEXTS), calls, draw(st.none() | TEXTS)))
    results = [
        ToolMessage(
            call.id,
            call.name,
            draw(st.just("") | TEXTS),
            draw(st.sampled_from([(), (PICTURE,)])),
            failed=draw(st.booleans()),
        )
        for call in message.tool_calls
    ]
    return [message, *draw(st.permutations(results))]


def with_state(draw: st.DrawFn, message: AiMessage) -> AiMessage:
    """Return the message as one of the providers might have sent it, perhaps edited afterwards."""
    provider = draw(st.none() | st.sampled_from(PROVIDERS))
    if provider is None:
        return message
    text, calls = message.text, message.tool_calls
    numbered = [(f"{draw(st.integers(0, 2**62))}_{index}", call) for index, call in enumerate(calls)]
    parts: list[Any]
    match provider:
        case "anthropic":
            calls = tuple(replace(call, id=f"toolu_{number}") for number, call in numbered)
            parts = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
            parts += [{"type": "text", "text": text}] if text.strip() else []
            parts += [{"type": "tool_use", "id": call.id, "name": "f", "input": {}} for call in calls]
        case "gemini":
            parts = [{"text": text, "thoughtSignature": "s"}] if text else []
            parts += [
                {"functionCall": {"id": call.id, "name": "f", "args": {}}, "thoughtSignature": "s"}
                for call in calls
            ]
        case "bedrock":
            calls = tuple(replace(call, id=f"t{number}") for number, call in numbered)
            parts = [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}]
            parts += [{"text": text}] if text.strip() else []
            parts += [{"toolUse": {"toolUseId": call.id, "name": "weather", "input": {}}} for call in calls]
        case "openai":
            parts = [{"reasoning_content": "Hm."}]
        case _:
            parts = [{"type": "reasoning", "id": "rs_1", "encrypted_content": "e", "summary": []}]
            parts += [{"role": "assistant", "content": text}] if text else []
            parts += [
                {"type": "function_call", "call_id": call.id, "name": "f", "arguments": "{}"}
                for call in calls
            ]
    made = replace(message, tool_calls=calls).with_state(STATES[provider], "m", parts)
    return replace(made, text="edited") if draw(st.integers(0, 3)) == 0 else made


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages: list[Message] = [SystemMessage(draw(TEXTS))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, 3))):
        text = draw(TEXTS)
        contents = draw(st.sampled_from([(), (text, PICTURE), (PICTURE, text)]))
        messages.append(UserMessage(text, draw(st.none() | st.just("ann")), contents))
        for index in range(draw(st.integers(0, 2))):
            messages += draw(rounds(10 * turn + index))
        messages.append(with_state(draw, AiMessage(draw(TEXTS))))
        if draw(st.integers(0, 4)) == 0:
            messages.append(SystemMessage(draw(TEXTS)))
    return [*messages, UserMessage(draw(TEXTS))]


@st.composite
def damaged_conversations(draw: st.DrawFn) -> list[Message]:
    """Return a conversation with messages that are missing, twice, moved, empty, or have ids of others."""
    messages = draw(conversations())
    for _ in range(draw(st.integers(1, 4))):
        index, other = (draw(st.integers(0, len(messages) - 1)) for _ in range(2))
        message = messages[index]
        match draw(st.sampled_from(["missing", "twice", "moved", "empty", "same ids", "no ids"])):
            case "missing" if len(messages) > 1:
                del messages[index]
            case "twice":
                messages.insert(index, message)
            case "moved":
                messages.insert(other, messages.pop(index))
            case "empty":
                messages.insert(index, AiMessage(draw(st.sampled_from(["", " \n"]))))
            case "same ids" | "no ids" as kind if isinstance(message, AiMessage):
                new_id = "call" if kind == "same ids" else ""
                calls = tuple(replace(call, id=new_id) for call in message.tool_calls)
                messages[index] = replace(message, tool_calls=calls)
            case _:
                pass
    return [*messages, UserMessage(draw(TEXTS))]


EXAMPLES = [100, pytest.param(2_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("api", CHECKS)
def test_a_request_follows_the_rules_of_its_api(api: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(conversations() | damaged_conversations())
    def check(messages: list[Message]) -> None:
        stored = [json.dumps(message_to_dict(message)) for message in messages]
        CHECKS[api]([message_from_dict(json.loads(text)) for text in stored])

    check()
