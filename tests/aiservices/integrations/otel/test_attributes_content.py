"""Prompts and replies are written to spans only if content is enabled, as JSON of the conventions."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pytest
from recorded_spans import Recorded

from aiservices import (
    AiMessage,
    Audio,
    ChatReply,
    ChatRequest,
    Image,
    ScriptedChatModel,
    ServiceOutputError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    system_message,
)
from aiservices.integrations.otel import OpenTelemetry
from aiservices.integrations.otel.attributes import request_content
from aiservices.models.messages import FinishReason

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CALLS = ChatReply(AiMessage("", (ToolCall("c", "half", '{"of": 2}'),), "hm"), FinishReason.TOOL_CALLS)
PNG = b"\x89PNG\r\n\x1a\n"


def half(of: int) -> list[int]:
    """Half of a number."""
    return [of // 2]


@system_message("You count.")
class Counter(Protocol):
    def count(self, text: str) -> int: ...


def counted(recorded: Recorded, **settings: Any) -> None:
    interceptors = [recorded.telemetry(**settings)]
    model = ScriptedChatModel([CALLS, "secret"])
    with pytest.raises(ServiceOutputError):
        create(Counter, model, interceptors=interceptors, tools=[half], retry=None).count("the secret")


def content_of(recorded: Recorded) -> set[str]:
    names = {
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
    }
    return {name for span in recorded.spans for name in (span.attributes or {}) if name in names}


def test_content_is_not_written_by_default(recorded: Recorded) -> None:
    counted(recorded)
    assert content_of(recorded) == set()
    assert "secret" not in " ".join(span.to_json() for span in recorded.spans)


@pytest.mark.parametrize("setting", ["span_only", "SPAN_AND_EVENT", "true"])
def test_the_standard_variable_enables_content(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    counted(recorded)
    assert len(content_of(recorded)) == 6


@pytest.mark.parametrize("setting", ["", "no_content", "event_only", "false"])
def test_the_standard_variable_disables_content(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    counted(recorded)
    assert content_of(recorded) == set()


def test_the_argument_overrides_the_variable(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "span_only")
    counted(recorded, content=False)
    assert content_of(recorded) == set()


def test_an_unknown_value_of_the_variable_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "perhaps")
    with pytest.raises(ValueError, match="perhaps") as caught:
        OpenTelemetry()
    assert str(caught.value) == (
        f"{VARIABLE} is 'perhaps'; it must be one of no_content, span_only, event_only, span_and_event"
    )


def test_content_follows_the_conventions(recorded: Recorded) -> None:
    counted(recorded, content=True)
    call, first, run, second = (dict(span.attributes or {}) for span in recorded.spans)
    setting = [
        {"role": "user", "parts": [{"type": "text", "content": "the secret"}]},
    ]
    thought = {"type": "reasoning", "content": "hm"}
    called = {"type": "tool_call", "id": "c", "name": "half", "arguments": {"of": 2}}
    tool_response = {"type": "tool_call_response", "id": "c", "response": "[1]"}
    assert json.loads(first["gen_ai.input.messages"]) == setting
    assert json.loads(first["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [thought, called], "finish_reason": "tool_call"}
    ]
    for request in (first, second):
        instructions = json.loads(request["gen_ai.system_instructions"])
        assert instructions == [{"type": "text", "content": "You count."}]
        (tool,) = json.loads(request["gen_ai.tool.definitions"])
        assert (tool["type"], tool["name"], list(tool["parameters"]["properties"])) == (
            "function",
            "half",
            ["of"],
        )
        assert request["gen_ai.prompt.name"] == "Counter.count"
    assert (run["gen_ai.tool.call.arguments"], run["gen_ai.tool.call.result"]) == ('{"of": 2}', "[1]")
    assert json.loads(second["gen_ai.input.messages"]) == [
        *setting,
        {"role": "assistant", "parts": [thought, called]},
        {"role": "tool", "parts": [tool_response]},
    ]
    assert json.loads(second["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "secret"}], "finish_reason": "stop"}
    ]
    assert "gen_ai.output.messages" not in call


def test_with_content_a_span_has_the_error_message(recorded: Recorded) -> None:
    counted(recorded, content=True)
    assert 'found "secret"' in str(recorded.spans[0].status.description)


def test_media_are_described_and_not_copied() -> None:
    picture = Image.from_bytes(PNG + b"secret", name="a.png")
    there = Audio.from_url("https://example.com/a.mp3")
    message = UserMessage("Look: ", "ann", (picture, there))
    assert json.loads(str(request_content(ChatRequest((message,)))["gen_ai.input.messages"])) == [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Look: "},
                {
                    "type": "media",
                    "modality": "image",
                    "mime_type": "image/png",
                    "name": "a.png",
                    "bytes": 14,
                },
                {
                    "type": "uri",
                    "modality": "audio",
                    "mime_type": "audio/mpeg",
                    "uri": "https://example.com/a.mp3",
                },
            ],
            "name": "ann",
        }
    ]


def test_arguments_that_are_not_json_are_written_as_text() -> None:
    wrong = AiMessage("", (ToolCall("c", "half", "{of"),))
    messages = (SystemMessage("s"), wrong, ToolMessage("c", "half", "t"))
    content = request_content(ChatRequest(messages))
    assert json.loads(str(content["gen_ai.input.messages"]))[0]["parts"] == [
        {"type": "tool_call", "id": "c", "name": "half", "arguments": "{of"}
    ]


def test_lone_surrogates_are_replaced(recorded: Recorded) -> None:
    calls = ChatReply(AiMessage("", (ToolCall("c", "half", '{"of": "\ud800"}'),)))
    model = ScriptedChatModel([calls, "1"])
    create(Counter, model, interceptors=[recorded.telemetry(content=True)], tools=[half]).count("x")
    run = dict(recorded.named("execute_tool half").attributes or {})
    assert run["gen_ai.tool.call.arguments"] == '{"of": "?"}'
