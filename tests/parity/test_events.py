"""Behaviour of events and streams in LangChain4j and Quarkus that no other test checks."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    ADD_CALL,
    CALL_KINDS,
    add,
    every_call_kind,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    CallCompleted,
    CallFailed,
    CallStarted,
    Completed,
    MemoryId,
    ModelServerError,
    ReplyDelta,
    ReplyReceived,
    ScriptedChatModel,
    ToolException,
    ToolFinished,
    create,
)
from aiservices.call_log import log_content
from aiservices.guardrails import InputGuardrails, OutputGuardrails, passed, refused
from aiservices.memory import ChatMemory


@every_call_kind
def test_guards_are_heard_before_the_request_and_after_the_reply(kind: str) -> None:
    heard: list[str] = []
    guards = [
        InputGuardrails(lambda text, invocation: passed()),
        OutputGuardrails(lambda text, invocation: passed()),
    ]
    listeners = [lambda event: heard.append(type(event).__name__)]
    CALL_KINDS[kind](text_service(strict_provider("Hello."), interceptors=guards, listeners=listeners))
    assert heard == [
        "CallStarted",
        "GuardrailRan",
        "AttemptStarted",
        "ReplyReceived",
        "GuardrailRan",
        "CallCompleted",
    ]


@every_call_kind
def test_a_refused_message_is_heard_and_no_request(kind: str) -> None:
    heard: list[str] = []
    guards = [InputGuardrails(lambda text, invocation: refused("no"))]
    service = text_service(
        strict_provider(), interceptors=guards, listeners=[lambda event: heard.append(type(event).__name__)]
    )
    with pytest.raises(Exception, match="refused: no"):
        CALL_KINDS[kind](service)
    assert heard == ["CallStarted", "GuardrailRan", "CallFailed"]


@every_call_kind
def test_listeners_of_one_service_do_not_hear_another(kind: str) -> None:
    heard: list[object] = []
    text_service(strict_provider("a"), listeners=[heard.append])
    CALL_KINDS[kind](text_service(strict_provider("a")))
    assert heard == []


@every_call_kind
def test_a_listener_hears_all_services_that_it_is_passed_to(kind: str) -> None:
    heard: list[Any] = []
    for _ in range(2):
        CALL_KINDS[kind](text_service(strict_provider("a"), listeners=[heard.append]))
    assert [type(event).__name__ for event in heard].count("ReplyReceived") == 2
    assert len({event.invocation.id for event in heard}) == 2


@every_call_kind
def test_all_events_of_a_call_name_the_method_and_have_one_id(kind: str) -> None:
    heard: list[Any] = []
    service = text_service(strict_provider(tool_calls_reply(ADD_CALL), "3"), add, listeners=[heard.append])
    CALL_KINDS[kind](service)
    (method,) = {event.invocation.plan.qualname for event in heard}
    assert method.startswith("TextService.")
    assert len({event.invocation.id for event in heard}) == 1
    assert {tuple(event.invocation.arguments.items()) for event in heard} == {(("text", "x"),)}


@every_call_kind
def test_the_event_of_a_tool_has_its_arguments_and_its_result_or_error(kind: str) -> None:
    def fail() -> None:
        raise ToolException("no")

    heard: list[Any] = []
    model = strict_provider(tool_calls_reply(ADD_CALL, ("fail", "{}")), "Done.")
    CALL_KINDS[kind](text_service(model, add, fail, listeners=[heard.append]))
    runs = sorted((event.run for event in heard if isinstance(event, ToolFinished)), key=lambda run: run.name)
    assert [(run.name, run.arguments, run.result, run.text, str(run.error)) for run in runs] == [
        ("add", {"a": 1, "b": 2}, 3, "3", "None"),
        ("fail", {}, None, "no", "no"),
    ]


@every_call_kind
def test_a_failed_request_has_no_reply_in_the_events(kind: str) -> None:
    heard: list[Any] = []
    down = ModelServerError("LLM invocation failed", status=500)
    with pytest.raises(ModelServerError):
        CALL_KINDS[kind](text_service(strict_provider(down), listeners=[heard.append]))
    names = [type(event).__name__ for event in heard]
    assert names == ["CallStarted", "AttemptStarted", "ReplyFailed", "CallFailed"]
    assert heard[-1].error.args == down.args


@pytest.mark.parametrize("fails", [False, True])
def test_a_listener_records_the_history_of_all_conversations(fails: bool) -> None:
    class Desk(Protocol):
        def chat(self, room: Annotated[str, MemoryId], text: str) -> str: ...

    recorded: list[tuple[str, object, str]] = []

    def record(event: object) -> None:
        if isinstance(event, CallStarted):
            user_text = event.invocation.request.messages[-1].text
            recorded.append(("user", event.invocation.memory_id, user_text))
        elif isinstance(event, CallCompleted):
            recorded.append(("agent", event.invocation.memory_id, event.answer.reply.text))
        elif isinstance(event, CallFailed):
            recorded.append(("failed", event.invocation.memory_id, type(event.error).__name__))

    reply = ModelServerError("down", status=500) if fails else "Hello."
    desk = create(Desk, ScriptedChatModel([reply]), interceptors=[ChatMemory()], listeners=[record])
    if fails:
        with pytest.raises(ModelServerError):
            desk.chat("r1", "hello")
    else:
        desk.chat("r1", "hello")
    outcome = ("failed", "r1", "ModelServerError") if fails else ("agent", "r1", "Hello.")
    assert recorded == [("user", "r1", "hello"), outcome]


@every_call_kind
def test_requests_replies_and_results_of_tools_are_logged_with_their_content(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    service = text_service(strict_provider(tool_calls_reply(ADD_CALL), "3"), add, listeners=[log_content])
    with caplog.at_level(logging.INFO, logger="aiservices.content"):
        CALL_KINDS[kind](service)
    lines = [message.split(" ", 2)[2] for message in caplog.messages]
    question = 'to scripted: {"type": "user", "text": "x"}'
    call = '{"id": "c1", "name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}'
    calls = f'scripted: {{"type": "ai", "text": "", "tool_calls": [{call}]}}'
    assert lines == [
        question,
        f"from {calls}",
        "tool add: 3",
        question,
        f"to {calls}",
        'to scripted: {"type": "tool", "call_id": "c1", "name": "add", "text": "3"}',
        'from scripted: {"type": "ai", "text": "3"}',
    ]


# streams


def test_a_stream_has_partial_tool_calls_intermediate_replies_and_the_result() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL, text="Let me see"), "It is 3.")
    events = list(text_service(model, add).stream("x").events())
    deltas = [event for event in events if isinstance(event, ReplyDelta)]
    arguments = "".join(call.arguments for delta in deltas for call in delta.tool_calls)
    replies = [delta.reply.text for delta in deltas if delta.reply is not None]
    assert arguments == '{"a": 1, "b": 2}'
    assert replies == ["Let me see", "It is 3."]
    assert isinstance(events[-1], Completed)
    assert events[-1].result.value == "It is 3."
    assert [run.text for run in events[-1].result.tool_runs] == ["3"]


def test_the_attempts_of_a_result_are_the_intermediate_replies() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "It is 3.")
    heard: list[ReplyReceived] = []
    service = text_service(
        model,
        add,
        listeners=[lambda event: heard.append(event) if isinstance(event, ReplyReceived) else None],
    )
    result = service.told("x")
    assert [attempt.reply for attempt in result.attempts] == [event.reply for event in heard]
    assert [len(attempt.reply.message.tool_calls) for attempt in result.attempts if attempt.reply] == [1, 0]
