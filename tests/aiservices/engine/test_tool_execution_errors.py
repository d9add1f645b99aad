"""The text that a model receives when a tool fails, and how the call continues."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import traceback
from contextlib import suppress
from typing import Any

import pytest
from tool_calling import (
    CALL_KINDS,
    STRICT,
    AsyncTextService,
    Unsafe,
    add,
    every_call_kind,
    messages_to,
    reraise,
    strict_provider,
    text_service,
    tool_calls_reply,
    tool_result_text,
)

from aiservices import (
    Budget,
    BudgetExceededError,
    ChatReply,
    ChatRequest,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
)
from aiservices.models.errors import ToolError
from aiservices.tools.tool import ToolErrors, ToolException, ToolRun, tool
from aiservices.tools.toolbox import ToolLimits


@every_call_kind
def test_the_model_does_not_get_the_text_of_an_error(kind: str) -> None:
    def fail() -> None:
        raise Unsafe("password is 1234")

    model = strict_provider(tool_calls_reply(("fail", "{}")), "Sorry.")
    assert CALL_KINDS[kind](text_service(model, fail)) == "Sorry."
    assert messages_to(model)[-1] == ToolMessage("c1", "fail", "The tool fail failed.", failed=True)


@every_call_kind
def test_an_unexpected_error_of_a_tool_is_logged_with_its_traceback(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise Unsafe("no such table")

    CALL_KINDS[kind](text_service(strict_provider(tool_calls_reply(("fail", "{}")), "Sorry."), fail))
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        "aiservices",
        "ERROR",
        "the tool fail failed",
    )
    assert record.exc_info is not None
    assert [frame.name for frame in traceback.extract_tb(record.exc_info[2])][-1] == "fail"


@pytest.mark.parametrize("formatter", [None, reraise])
def test_an_error_that_reaches_the_model_or_the_caller_is_not_logged(
    formatter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ToolException("no such city") if formatter is None else Unsafe("no such table")

    errors = ToolErrors() if formatter is None else ToolErrors(execution=formatter)
    model = strict_provider(tool_calls_reply(("fail", "{}")), "Sorry.")
    with suppress(ToolError):
        text_service(model, fail, tool_errors=errors)
    assert caplog.records == []


def test_the_result_has_the_error_itself() -> None:
    def fail() -> None:
        raise Unsafe("password is 1234")

    (run,) = (
        text_service(strict_provider(tool_calls_reply(("fail", "{}")), "Sorry."), fail).told("x").tool_runs
    )
    assert isinstance(run.error, Unsafe)
    assert (run.result, run.arguments, str(run.error)) == (None, {}, "password is 1234")


def test_the_model_gets_the_text_of_a_tool_exception() -> None:
    def fail() -> None:
        raise ToolException("There is no such city; ask for another.")

    for timeout in (None, 5.0):
        limits = ToolLimits(timeout=timeout)
        text = tool_result_text(fail, call=("fail", "{}"), tool_limits=limits)
        assert text == "There is no such city; ask for another."


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_has_so_much_time(asynchronous: bool) -> None:
    left = threading.Event()

    @tool(timeout=0.02)
    def slow() -> None:
        left.wait(5)

    @tool(name="slow", timeout=0.02)
    async def aslow() -> None:
        await asyncio.sleep(5)

    model = strict_provider(tool_calls_reply(("slow", "{}")), "Done.")
    if asynchronous:
        asyncio.run(create(AsyncTextService, model, tools=[aslow]).ask("x"))
    else:
        text_service(model, slow).ask("x")
    left.set()
    assert messages_to(model)[-1] == ToolMessage(
        "c1", "slow", "The tool slow did not finish in time.", failed=True
    )


def test_the_timeout_of_the_limits_applies_to_tools_without_one() -> None:
    left = threading.Event()

    @tool(timeout=5)
    def patient() -> str:
        return "done"

    def slow() -> None:
        left.wait(5)

    model = strict_provider(tool_calls_reply(("slow", "{}"), ("patient", "{}")), "Done.")
    text_service(model, slow, patient, tool_limits=ToolLimits(timeout=0.05)).ask("x")
    left.set()
    assert [text_for_model.text for text_for_model in messages_to(model)[-2:]] == [
        "The tool slow did not finish in time.",
        "done",
    ]


def test_an_async_tool_has_no_more_time_than_the_call() -> None:
    async def slow() -> None:
        await asyncio.sleep(5)

    model = strict_provider(tool_calls_reply(("slow", "{}")), "Done.")
    service = create(AsyncTextService, model, tools=[slow], budget=Budget(seconds=0.05))
    began = time.monotonic()
    with pytest.raises(BudgetExceededError):
        asyncio.run(service.ask("x"))
    assert time.monotonic() - began < 2


def test_the_time_that_a_tool_waits_for_its_turn_is_not_its_own() -> None:
    def work() -> None:
        time.sleep(0.05)

    model = strict_provider(tool_calls_reply(*[("work", "{}")] * 3), "Done.")
    result = text_service(model, work, tool_limits=ToolLimits(max_concurrency=1)).told("x")
    assert 0.15 <= sum(run.seconds for run in result.tool_runs) <= result.seconds


@pytest.mark.parametrize("interface", ["ask", "aask", "texts"])
def test_an_interrupt_in_a_tool_ends_the_call(interface: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    model = strict_provider(tool_calls_reply(("interrupt", "{}")), "Done.")
    kind = {"ask": "blocking", "aask": "async", "texts": "texts"}[interface]
    with pytest.raises(KeyboardInterrupt):
        CALL_KINDS[kind](text_service(model, interrupt))
    assert len(model.requests) == 1


@pytest.mark.parametrize("number", [1, 2])
@every_call_kind
def test_a_tool_that_cancels_itself_does_not_cancel_the_call(kind: str, number: int) -> None:
    def stop() -> None:
        raise asyncio.CancelledError

    model = strict_provider(tool_calls_reply(*[("stop", "{}")] * number), "Done.")
    assert CALL_KINDS[kind](text_service(model, stop)) == "Done."
    assert messages_to(model)[-1].text == "The tool stop failed."


def test_an_async_tool_that_cancels_itself_does_not_cancel_the_call() -> None:
    async def stop() -> None:
        raise asyncio.CancelledError

    model = strict_provider(tool_calls_reply(("stop", "{}"), ("stop", "{}")), "Done.")
    assert asyncio.run(create(AsyncTextService, model, tools=[stop]).ask("x")) == "Done."
    assert messages_to(model)[-1].text == "The tool stop failed."


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_cancelling_a_call_cancels_its_tools(timeout: float | None) -> None:
    seen: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    model = strict_provider(tool_calls_reply(("slow", "{}"), ("slow", "{}")), "Done.")
    service = create(AsyncTextService, model, tools=[slow], tool_limits=ToolLimits(timeout=timeout))

    async def cancelled() -> None:
        call = asyncio.ensure_future(service.ask("x"))
        await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert (seen, len(model.requests)) == (["cancelled"] * 2, 1)


def test_an_unknown_tool_is_answered_with_the_names_of_the_tools() -> None:
    assert tool_result_text(add, call=("sub", "{}")) == "There is no tool sub. The tools are: add."


@pytest.mark.parametrize(
    ("arguments", "text_for_model"),
    [
        ('{"a": 1}', "The arguments cannot be read:\n- $.b: the required field 'b' is missing"),
        ('{"a": 1, "b": null}', "The arguments cannot be read:\n- $.b: expected an integer, found null"),
        (
            "",
            "The arguments cannot be read:\n- $.a: the required field 'a' is missing\n"
            "- $.b: the required field 'b' is missing",
        ),
        ('{"a": 1, "b": "x"}', 'The arguments cannot be read:\n- $.b: expected an integer, found "x"'),
    ],
)
def test_arguments_that_do_not_fit_are_reported_with_their_problems(
    arguments: str, text_for_model: str
) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int) -> None:
        ran.append((a, b))

    assert tool_result_text(noted, call=("add", arguments)) == text_for_model
    assert ran == []


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "b": 2', "[1, 2]", "null", "one and two", '{"a": 1, "b": 2.5}']
)
def test_arguments_that_cannot_be_read_run_nothing(arguments: str) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int) -> None:
        ran.append((a, b))

    assert tool_result_text(noted, call=("add", arguments)).startswith("The arguments cannot be read:\n- $")
    assert ran == []


@pytest.mark.parametrize("arguments", ["", " ", "{}", " {} "])
def test_a_tool_without_parameters_needs_no_arguments(arguments: str) -> None:
    def ping() -> str:
        return "pong"

    assert tool_result_text(ping, call=("ping", arguments)) == "pong"


def test_arguments_in_the_words_of_strict_mode_are_read_back() -> None:
    seen: list[Any] = []

    def find(tags: dict[str, int], pair: tuple[int, str], days: int = 3, note: str | None = "n") -> None:
        seen.append((tags, pair, days, note))

    def write(request: ChatRequest) -> ChatReply | str:
        if seen:
            return "Done."
        assert request.tooling is not None
        (told,) = request.tooling.tools
        assert told.strict
        pair = told.parameters["properties"]["pair"]
        names = list(pair["properties"]) if pair.get("type") == "object" else None
        written = dict(zip(names, (1, "a"), strict=True)) if names else [1, "a"]
        tags = [{"key": "k", "value": 2}]
        return tool_calls_reply(
            ("find", json.dumps({"tags": tags, "pair": written, "days": None, "note": None}))
        )

    service = text_service(ScriptedChatModel(write, capabilities=STRICT), find)
    assert service.ask("x") == "Done."
    assert seen in ([({"k": 2}, (1, "a"), 3, "n")], [({"k": 2}, (1, "a"), 3, None)])


# messages of errors


def test_a_function_of_tool_errors_gets_the_call() -> None:
    seen: list[ToolRun] = []

    def noted(run: ToolRun) -> str:
        seen.append(run)
        return f"<{run.text}>"

    def fail() -> None:
        raise Unsafe("secret")

    errors = ToolErrors(unknown=noted, arguments=noted, execution=noted)
    model = strict_provider(tool_calls_reply(("sub", "{}"), ("add", '{"a": 1}'), ("fail", "{}")), "Done.")
    text_service(model, add, fail, tool_errors=errors).ask("x")
    assert [text_for_model.text for text_for_model in messages_to(model)[-3:]] == [
        "<There is no tool sub. The tools are: add, fail.>",
        "<The arguments cannot be read:\n- $.b: the required field 'b' is missing>",
        "<The tool fail failed.>",
    ]
    assert [(run.name, type(run.error)) for run in seen] == [
        ("sub", ToolError),
        ("add", type(seen[1].error)),
        ("fail", Unsafe),
    ]


@pytest.mark.parametrize("number", [1, 2])
@every_call_kind
def test_a_function_of_tool_errors_may_end_the_call(kind: str, number: int) -> None:
    def fail() -> None:
        raise Unsafe("secret")

    model = strict_provider(tool_calls_reply(*[("fail", "{}")] * number), "Done.")
    with pytest.raises(ToolError) as caught:
        CALL_KINDS[kind](text_service(model, fail, tool_errors=ToolErrors(execution=reraise)))
    assert str(caught.value) == "ToolErrors failed for the call of fail: secret"
    assert isinstance(caught.value.__cause__, Unsafe)
    assert (caught.value.call.name, len(caught.value.attempts)) == ("fail", 1)


def test_an_error_of_the_library_that_ends_the_call_is_not_wrapped() -> None:
    with pytest.raises(ToolError) as caught:
        text_service(
            strict_provider(tool_calls_reply(("sub", "{}"))), add, tool_errors=ToolErrors(unknown=reraise)
        ).ask("x")
    assert (str(caught.value), caught.value.call) == (
        "There is no tool sub. The tools are: add.",
        ToolCall("c1", "sub", "{}"),
    )


def test_a_function_of_tool_errors_that_returns_no_text_ends_the_call() -> None:
    errors = ToolErrors(unknown=lambda run: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(ToolError) as caught:
        text_service(strict_provider(tool_calls_reply(("sub", "{}"))), add, tool_errors=errors).ask("x")
    assert str(caught.value) == (
        "ToolErrors failed for the call of sub: it returned NoneType, but it must "
        "return the text for the model"
    )


def test_an_async_tool_is_cancelled_at_its_timeout_while_others_go_on() -> None:
    ended: list[str] = []

    @tool(timeout=0.05)
    async def slow() -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def patient() -> str:
        await asyncio.sleep(0.1)
        return "done"

    model = strict_provider(tool_calls_reply(("slow", "{}"), ("patient", "{}")), "Done.")
    asyncio.run(create(AsyncTextService, model, tools=[slow, patient]).ask("x"))
    texts = [message.text for message in messages_to(model)[-2:]]
    assert (texts, ended) == (["The tool slow did not finish in time.", "done"], ["cancelled"])
