"""Each call writes one line to the log, without the texts of prompts and replies."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Annotated, Any, Protocol

import pytest
from pydantic import AfterValidator

from aiservices import (
    ApprovalRequiredError,
    AsyncStream,
    AuthenticationError,
    Budget,
    ChatRequest,
    ModelServerError,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ToolCall,
    create,
    tool,
)
from aiservices.call_log import log_calls
from aiservices.guardrails import OutputGuardrails, Verdict, passed, reprompt
from aiservices.models.messages import AiMessage, ChatReply, Usage

ONE = '{"value": 1}'
DOWN = ModelServerError("the secret", status=500, retryable=True)


def calling(*names: str) -> ChatReply:
    return ChatReply(AiMessage("", tuple(ToolCall(name, name, '{"of": 2}') for name in names)))


class Counter(Protocol):
    def count(self, text: str) -> int: ...

    async def acount(self, text: str) -> int: ...

    def grow(self, text: str) -> Stream[int]: ...


@tool
def half(of: int) -> int:
    """Half of a number."""
    return of // 2


@tool
def broken(of: int) -> int:
    """Fails."""
    raise KeyError("the secret")


@tool(needs_approval=True)
def pay(of: int) -> int:
    """Pays."""
    return of


def counter(*script: Any, **settings: Any) -> Counter:
    budget = Budget(max_attempts=9, first_wait=0)
    return create(Counter, ScriptedChatModel(script), listeners=[log_calls], budget=budget, **settings)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines with their levels, but without durations."""
    timeless = re.compile(r"\d+\.\d{3} s")
    # the engine logs the error of a tool with its traceback, with and without this listener
    records = [record for record in caplog.records if record.name == "aiservices.calls"]
    return [f"{one.levelname} {timeless.sub('… s', one.getMessage())}" for one in records]


@pytest.mark.parametrize("kind", ["count", "acount", "grow"])
def test_a_call_is_one_line_with_requests_tokens_and_seconds(
    caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO, "aiservices.calls")
    service = counter("many", ChatReply(AiMessage(ONE), usage=Usage(12, 3)))
    if kind == "acount":
        asyncio.run(service.acount("the secret"))
    elif kind == "grow":
        service.grow("the secret").result()
    else:
        service.count("the secret")
    assert lines(caplog) == [
        f"INFO Counter.{kind}: answer rejected, requesting another: $: expected an integer",
        f"INFO Counter.{kind}: answered, 2 requests to scripted, 14 + 4 tokens, … s",
    ]


def test_an_answer_that_a_guard_rejects_is_a_line_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    def picky(text: str, invocation: object) -> Verdict:
        return passed() if text == "1" else reprompt(f"not {text}, the secret")

    caplog.set_level(logging.INFO, "aiservices.calls")
    counter('{"value": 2}', ONE, interceptors=[OutputGuardrails(picky)]).count("x")
    assert lines(caplog) == [
        "INFO Counter.count: answer rejected by the guard picky",
        "INFO Counter.count: answered, 2 requests to scripted, 8 + 4 tokens, … s",
    ]


def test_the_reasons_of_a_rejection_do_not_quote_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def check(value: int) -> int:
        raise ValueError("the secret")

    class Checker(Protocol):
        def check(self, text: str) -> list[Annotated[int, AfterValidator(check)]]: ...

    caplog.set_level(logging.INFO, "aiservices.calls")
    service = create(
        Checker, ScriptedChatModel(["[1, 2, 3, 4, 5, 6, 7]"] * 2), listeners=[log_calls], retry=None
    )
    with pytest.raises(ServiceOutputError):
        service.check("x")
    assert "$[0]: it does not fit; " in lines(caplog)[0]
    assert "secret" not in lines(caplog)[0]


def test_at_debug_each_request_and_each_tool_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiservices.calls")
    counter(DOWN, calling("half", "broken"), ONE, tools=[half, broken]).count("the secret")
    assert [line for line in lines(caplog) if not line.startswith("INFO")] == [
        "DEBUG request to scripted: failed with ModelServerError, … s",
        "DEBUG request to scripted: tokens unknown, … s",
        "DEBUG tool half: done, … s",
        "DEBUG tool broken: failed with KeyError, … s",
        "DEBUG request to scripted: 7 + 2 tokens, … s",
    ]
    assert "secret" not in "".join(lines(caplog))


def test_a_failed_call_is_a_warning_without_the_error_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ServiceOutputError):
        counter("the secret", retry=None).count("x")
    assert lines(caplog) == [
        "WARNING Counter.count: failed with ServiceOutputError ($: expected an integer), "
        "1 request to scripted, 1 + 2 tokens, … s"
    ]


def test_a_call_that_waits_for_approval_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiservices.calls")
    with pytest.raises(ApprovalRequiredError):
        counter(calling("pay"), tools=[pay]).count("x")
    assert lines(caplog) == [
        "INFO Counter.count: waits for approval of pay, 1 request to scripted, tokens unknown, … s"
    ]


def test_a_call_without_requests_names_no_model(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LookupError):
        counter().count("x")
    assert lines(caplog) == [
        "WARNING Counter.count: failed with LookupError, 0 requests, tokens unknown, … s"
    ]


# how a call ends


def test_a_stream_that_is_closed_early_is_one_line_with_its_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiservices.calls")
    stream = counter(ONE).grow("x")
    next(iter(stream))
    stream.close()
    assert lines(caplog) == [
        "INFO Counter.grow: the stream was closed, 1 request to scripted, tokens unknown, … s"
    ]


def test_an_async_stream_that_is_closed_early_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    class Talk(Protocol):
        def tell(self, text: str) -> AsyncStream[str]: ...

    async def first() -> None:
        stream = create(Talk, ScriptedChatModel(["one two three"]), listeners=[log_calls, ignores]).tell("x")
        async for _ in stream:
            break
        await stream.aclose()

    async def ignores(event: object) -> None:
        """An async listener."""

    caplog.set_level(logging.INFO, "aiservices.calls")
    asyncio.run(first())
    assert lines(caplog) == [
        "INFO Talk.tell: the stream was closed, 1 request to scripted, tokens unknown, … s"
    ]


def test_a_cancelled_call_is_one_line_with_its_request(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            started.set()
            await asyncio.sleep(60)
            raise AssertionError

    started = asyncio.Event()

    async def cancelled() -> None:
        service = create(Counter, Slow([]), listeners=[log_calls])
        task = asyncio.ensure_future(service.acount("x"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    caplog.set_level(logging.INFO, "aiservices.calls")
    asyncio.run(cancelled())
    assert lines(caplog) == ["INFO Counter.acount: cancelled, 1 request to scripted, tokens unknown, … s"]


def test_the_records_have_the_data_as_attributes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiservices.calls")
    counter(calling("half"), "many", ChatReply(AiMessage(ONE), usage=Usage(12, 3)), tools=[half]).count("x")
    with pytest.raises(ServiceOutputError):
        counter("many", retry=None).count("x")
    records = {(one.levelname, one.__dict__["outcome"]): one.__dict__ for one in caplog.records}
    answered, failed = records["INFO", "answered"], records["WARNING", "failed"]
    names = ("method", "models", "requests", "input_tokens", "output_tokens", "cost", "error_type")
    assert [answered[name] for name in names] == ["Counter.count", ["scripted"], 3, 14, 4, None, None]
    assert (failed["error_type"], failed["requests"]) == ("ServiceOutputError", 1)
    assert answered["seconds"] > 0
    assert answered["call_id"] == records["INFO", "rejected"]["call_id"] != failed["call_id"]
    assert records["DEBUG", "done"]["tool"] == "half"
    assert records["DEBUG", "answered"]["model"] == "scripted"


def test_a_call_without_a_key_counts_no_request(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with caplog.at_level(logging.INFO, "aiservices.calls"), pytest.raises(AuthenticationError):
        create(Counter, "openai:gpt-5-mini", listeners=[log_calls]).count("lamp")
    (record,) = [one for one in caplog.records if one.name == "aiservices.calls"]
    assert (vars(record)["requests"], "0 requests to openai:gpt-5-mini" in record.message) == (0, True)


def test_lines_of_requests_and_tools_have_the_method_and_the_id_of_their_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "aiservices.calls"):
        model = ScriptedChatModel([calling("half"), ONE])
        create(Counter, model, tools=[half], listeners=[log_calls]).count("lamp")
    records = [vars(one) for one in caplog.records if one.name == "aiservices.calls"]
    assert [record["method"] for record in records] == ["Counter.count"] * 4
    assert len({record["call_id"] for record in records}) == 1
