"""The tool loop: rounds, concurrent tool calls, and unique ids of calls."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any, Protocol

import pytest
from tool_calling import (
    ADD_CALL,
    CALL_KINDS,
    NATIVE,
    TOOLS,
    AsyncTextService,
    add,
    assert_provider_accepts,
    every_call_kind,
    messages_to,
    person_service,
    reraise,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AiMessage,
    AiServiceError,
    Capabilities,
    ChatReply,
    FinishReason,
    Message,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    TruncatedError,
    UserMessage,
    create,
    preview,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.models.errors import ToolError
from aiservices.tools.tool import ToolErrors, tool
from aiservices.tools.toolbox import ToolLimits

# rounds


@every_call_kind
def test_the_model_continues_with_the_results_of_its_tools(kind: str) -> None:
    model = strict_provider(
        tool_calls_reply(ADD_CALL),
        tool_calls_reply(("add", '{"a": 3, "b": 4}', "c9"), text="More."),
        "It is 7.",
    )
    assert CALL_KINDS[kind](text_service(model, add)).endswith("It is 7.")
    assert [request.messages for request in model.requests] == [
        (UserMessage("x"),),
        (UserMessage("x"), tool_calls_reply(ADD_CALL).message, ToolMessage("c1", "add", "3")),
        (
            UserMessage("x"),
            tool_calls_reply(ADD_CALL).message,
            ToolMessage("c1", "add", "3"),
            tool_calls_reply(("add", '{"a": 3, "b": 4}', "c9"), text="More.").message,
            ToolMessage("c9", "add", "7"),
        ),
    ]


def test_each_request_offers_the_same_tools_and_leaves_the_choice() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    text_service(model, add).ask("x")
    first, second = (request.tooling for request in model.requests)
    assert first is second
    assert first is not None
    (told,) = first.tools
    assert (first.choice, first.parallel_calls, told.name, told.description) == ("auto", True, "add", "Adds.")


def test_a_model_that_calls_nothing_runs_nothing() -> None:
    result = text_service(strict_provider("Hello."), add).told("x")
    assert (result.value, result.tool_runs) == ("Hello.", ())


def test_the_result_has_the_tool_runs() -> None:
    result = text_service(strict_provider(tool_calls_reply(ADD_CALL, ("nope", "{}")), "3"), add).told("x")
    known, unknown = result.tool_runs
    assert (known.name, known.arguments, known.result, known.text, known.error) == (
        "add",
        {"a": 1, "b": 2},
        3,
        "3",
        None,
    )
    assert known.call == ToolCall("c1", *ADD_CALL)
    assert 0 <= known.seconds < 5
    said = "There is no tool nope. The tools are: add."
    assert (unknown.arguments, unknown.result, unknown.text, str(unknown.error)) == (None, None, said, said)
    assert len(result.attempts) == 2


@every_call_kind
def test_calls_at_once_are_answered_in_their_order(kind: str) -> None:
    gate = threading.Event()

    def slow() -> str:
        assert gate.wait(5)
        return "slow"

    def fast() -> str:
        gate.set()
        return "fast"

    model = strict_provider(tool_calls_reply(("slow", "{}"), ("fast", "{}")), "Done.")
    assert CALL_KINDS[kind](text_service(model, slow, fast)) == "Done."
    assert messages_to(model)[-2:] == (
        ToolMessage("c1", "slow", "slow"),
        ToolMessage("c2", "fast", "fast"),
    )


class Gauge:
    """A tool that records how many of its calls ran at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def _in(self) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def _out(self) -> None:
        with self.lock:
            self.now -= 1

    @tool
    def work(self) -> None:
        self._in()
        time.sleep(0.02)
        self._out()


class AsyncGauge(Gauge):
    @tool
    async def work(self) -> None:  # type: ignore[override]
        self._in()
        await asyncio.sleep(0.02)
        self._out()


@pytest.mark.parametrize("at_once", [1, 2])
@every_call_kind
def test_no_more_calls_run_at_once_than_the_limit_permits(kind: str, at_once: int) -> None:
    gauge = Gauge()
    model = strict_provider(tool_calls_reply(*[("work", "{}")] * 6), "Done.")
    CALL_KINDS[kind](text_service(model, gauge, tool_limits=ToolLimits(max_concurrency=at_once)))
    assert gauge.most == at_once


def test_async_tools_too_run_no_more_at_once() -> None:
    gauge = AsyncGauge()
    model = strict_provider(tool_calls_reply(*[("work", "{}")] * 6), "Done.")
    service = create(AsyncTextService, model, tools=[gauge], tool_limits=ToolLimits(max_concurrency=2))
    assert asyncio.run(service.ask("x")) == "Done."
    assert gauge.most == 2


def test_a_single_call_of_a_blocking_method_stays_in_its_thread() -> None:
    def where() -> int:
        return threading.get_ident()

    model = strict_provider(tool_calls_reply(("where", "{}")), "Done.")
    result = text_service(model, where).told("x")
    assert result.tool_runs[0].result == threading.get_ident()


def test_a_tool_that_blocks_does_not_block_the_event_loop() -> None:
    loop_moved = threading.Event()

    def block() -> bool:
        return loop_moved.wait(5)

    model = strict_provider(tool_calls_reply(("block", "{}")), "Done.")

    async def both() -> str:
        service = text_service(model, block)
        call = asyncio.ensure_future(service.aask("x"))
        await asyncio.sleep(0.01)
        loop_moved.set()
        return await call

    asyncio.run(both())
    assert messages_to(model)[-1] == ToolMessage("c1", "block", "true")


def test_a_provider_that_blocks_does_not_block_the_event_loop() -> None:
    loop_moved = threading.Event()

    class Slow:
        def tools(self, invocation: Invocation) -> list[Any]:
            assert loop_moved.wait(5)
            return [add]

    async def both() -> str:
        call = asyncio.ensure_future(text_service(strict_provider("Done."), Slow()).aask("x"))
        await asyncio.sleep(0.01)
        loop_moved.set()
        return await call

    assert asyncio.run(both()) == "Done."


USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER")


@every_call_kind
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("limits", [ToolLimits(), ToolLimits(timeout=5)])
def test_context_variables_reach_the_tools(kind: str, number: int, limits: ToolLimits) -> None:
    def who() -> str:
        return USER.get()

    token = USER.set("ann")
    try:
        model = strict_provider(tool_calls_reply(*[("who", "{}")] * number), "Done.")
        CALL_KINDS[kind](text_service(model, who, tool_limits=limits))
    finally:
        USER.reset(token)
    assert {said.text for said in messages_to(model)[-number:]} == {"ann"}


@every_call_kind
def test_tools_that_call_a_service_run_side_by_side(kind: str) -> None:
    inner_model = ScriptedChatModel(
        lambda request: "3" if isinstance(request.messages[-1], ToolMessage) else tool_calls_reply(ADD_CALL),
        capabilities=TOOLS,
    )
    inner = text_service(inner_model, add)

    @tool(name="helper")
    def helper(text: str) -> str:
        return inner.ask(text)

    model = strict_provider(tool_calls_reply(*[("helper", '{"text": "?"}')] * 4), "Done.")
    assert CALL_KINDS[kind](text_service(model, helper)) == "Done."
    assert [said.text for said in messages_to(model)[-4:]] == ["3"] * 4


def test_the_method_of_another_service_is_called_as_a_tool() -> None:
    class Sums(Protocol):
        def total(self, text: str) -> Result[int]: ...

    inner = create(Sums, ScriptedChatModel(['{"value": 12}'], capabilities=NATIVE))
    model = strict_provider(tool_calls_reply(("total", '{"text": "5 and 7"}')), "It is 12.")
    result = text_service(model, inner.total).told("x")
    assert messages_to(model)[-1] == ToolMessage("c1", "total", "12")
    assert result.tool_runs[0].result.value == 12


@every_call_kind
def test_calls_that_were_cut_off_are_never_run(kind: str) -> None:
    ran: list[Any] = []

    @tool(name="add")
    def noted(a: int, b: int = 0) -> None:
        ran.append((a, b))

    reply = ChatReply(AiMessage("", (ToolCall("c1", "add", '{"a": 1}'),)), FinishReason.LENGTH)
    with pytest.raises(TruncatedError):
        CALL_KINDS[kind](text_service(strict_provider(reply), noted))
    assert ran == []


def test_an_interceptor_may_proceed_twice_with_tools() -> None:
    said: list[tuple[Message, ...]] = []

    def twice(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield from proceed(invocation)
        answer = yield from proceed(invocation)
        said.append(answer.messages)
        return answer

    model = strict_provider(tool_calls_reply(ADD_CALL), "3", tool_calls_reply(ADD_CALL), "3")
    assert text_service(model, add, interceptors=[twice]).ask("x") == "3"
    assert len(messages_to(model)) == 3
    assert_provider_accepts(said[0])


def test_after_a_round_that_an_error_ended_a_call_may_be_made_again() -> None:
    def once_more(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        try:
            return (yield from proceed(invocation))
        except ToolError:
            return (yield from proceed(invocation))

    model = strict_provider(tool_calls_reply(("sub", "{}")), "Done.")
    service = text_service(model, add, interceptors=[once_more], tool_errors=ToolErrors(unknown=reraise))
    assert service.ask("x") == "Done."
    assert messages_to(model) == (UserMessage("x"),)


def test_errors_of_the_library_hold_all_attempts_of_all_rounds() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), ChatReply(AiMessage("It i"), FinishReason.LENGTH))
    with pytest.raises(AiServiceError) as caught:
        text_service(model, add).ask("x")
    assert [attempt.text for attempt in caught.value.attempts] == ["", "It i"]


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_a_preview_shows_the_tools(capabilities: Capabilities) -> None:
    service = person_service(strict_provider(capabilities=capabilities))
    shown = str(preview(service.find, "x"))
    assert "search" in shown
    assert "Searches." in shown


# ids


@pytest.mark.parametrize("ids", [("", ""), ("same", "same"), ("call_1", ""), ("", "call_1")])
def test_calls_without_ids_get_unique_ids(ids: tuple[str, str]) -> None:
    first, second = (("add", f'{{"a": {number}, "b": 0}}', id) for number, id in enumerate(ids))
    model = strict_provider(tool_calls_reply(first, second), tool_calls_reply(first), "Done.")
    assert text_service(model, add).ask("x") == "Done."
    answered = [said for said in messages_to(model) if isinstance(said, ToolMessage)]
    assert [said.text for said in answered] == ["0", "1", "0"]
    assert len({said.call_id for said in answered}) == 3
