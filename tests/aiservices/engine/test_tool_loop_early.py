"""Tools that start while the reply that calls them is still streamed: ``@tool(start_early=True)``."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from loopback import DONE, MAX_WAIT, Loopback, Reply, amazon_event, amazon_stream, delta, event, sse
from responses_api import (
    arguments_delta,
    end_event,
    function_call,
    item_added,
    item_done,
    response,
    start_events,
    stream_reply,
)
from tool_calling import (
    CALL_KINDS,
    TextService,
    assert_provider_accepts,
    every_call_kind,
    messages_to,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AiMessage,
    AnthropicChatModel,
    ApprovalRequiredError,
    AsyncStream,
    AuthenticationError,
    BedrockChatModel,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    GeminiChatModel,
    ModelServerError,
    OpenAiChatModel,
    OpenAiResponsesModel,
    ReplyDelta,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    TruncatedError,
    Usage,
    create,
)
from aiservices.engine.streams import ToolFinished, ToolStarted
from aiservices.guardrails import OutputGuardrails, forbidden, sentences
from aiservices.interceptors import CallModel, map_effects
from aiservices.models.errors import ToolLimitError
from aiservices.moderation import Moderation, ModerationError, ModerationResult
from aiservices.tools.tool import tool
from aiservices.tools.toolbox import ToolLimits

CALLS = (("look", '{"place": "a"}'), ("look", '{"place": "b"}'))
LOOK_A, LOOK_B = (ToolCall(f"c{n}", name, arguments) for n, (name, arguments) in enumerate(CALLS, 1))


class AsyncTexts(Protocol):
    async def aask(self, text: str) -> str: ...

    def astream(self, text: str) -> AsyncStream[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...


class Gate(threading.Event):
    """An event whose ``was_opened`` is True if all waiting tasks saw it set."""

    was_opened = True

    def wait(self, timeout: float | None = None) -> bool:
        is_set = super().wait(MAX_WAIT if timeout is None else timeout)
        self.was_opened = self.was_opened and is_set
        return is_set


class StagedModel(ScriptedChatModel):
    """A scripted model whose streams wait for events, or fail, before the piece with a given number."""

    def __init__(self, *replies: Any, before: dict[int, Any], **settings: Any) -> None:
        super().__init__(replies, capabilities=Capabilities(tools=True), **settings)
        self.before = before
        self.streams = 0

    def _interruption(self, number: int) -> Any:
        return self.before.get(number) if self.streams == 1 else None

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.streams += 1
        for number, piece in enumerate(super().stream(request)):
            interruption = self._interruption(number)
            if isinstance(interruption, Exception):
                raise interruption
            if interruption is not None:
                interruption.wait(MAX_WAIT)
            yield piece

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        self.streams += 1
        for number, piece in enumerate(super().stream(request)):
            interruption = self._interruption(number)
            if isinstance(interruption, Exception):
                raise interruption
            if interruption is not None:
                await asyncio.to_thread(interruption.wait, MAX_WAIT)
            yield piece


class Places:
    """A tool that starts early, and what it was called with."""

    def __init__(self, *, asynchronous: bool = False) -> None:
        self.gate = Gate()
        self.looked: list[str] = []
        self.look: Any = tool(name="look", start_early=True)(self._alook if asynchronous else self._look)

    def _look(self, place: str) -> str:
        self.looked.append(place)
        self.gate.set()
        return f"saw {place}"

    async def _alook(self, place: str) -> str:
        return self._look(place)


def two_calls(places: Places) -> StagedModel:
    """Return a model that writes its second call only once the first one ran."""
    return StagedModel(tool_calls_reply(*CALLS, text="I look."), "Both.", before={4: places.gate})


# --- When calls start


@every_call_kind
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_tool_runs_before_the_second_call_arrives(kind: str, asynchronous: bool) -> None:
    places = Places(asynchronous=asynchronous)
    model = two_calls(places)
    interface: Any = AsyncTexts if "async" in kind else TextService
    assert CALL_KINDS[kind](create(interface, model, tools=[places.look])).endswith("Both.")
    assert places.gate.was_opened
    assert places.looked == ["a", "b"]
    assert messages_to(model)[1:] == (
        AiMessage("I look.", (LOOK_A, LOOK_B)),
        ToolMessage("c1", "look", "saw a"),
        ToolMessage("c2", "look", "saw b"),
    )


def test_the_events_of_the_tool_come_between_the_pieces_of_the_reply() -> None:
    places = Places()
    model = StagedModel(tool_calls_reply(*CALLS), "Both.", before={3: places.gate})
    kinds = []
    for shown in text_service(model, places.look).stream("x").events():
        if isinstance(shown, ToolStarted):
            kinds.append(f"started {shown.call.id}")
        elif isinstance(shown, ToolFinished):
            kinds.append(f"finished {shown.run.call.id}")
        elif isinstance(shown, ReplyDelta):
            kinds += [f"piece of {part.index}" for part in shown.tool_calls]
    before_second = kinds[: kinds.index("piece of 1")]
    assert before_second[:3] == ["piece of 0", "piece of 0", "started c1"]
    assert sorted(kinds) == sorted(
        ["piece of 0"] * 2 + ["piece of 1"] * 2 + ["started c1", "finished c1", "started c2", "finished c2"]
    )


def test_other_tools_of_the_reply_start_once_it_is_complete() -> None:
    order, places = [], Places()

    def write(text: str) -> str:
        order.append(list(places.looked))
        return f"wrote {text}"

    calls = (("write", '{"text": "x"}'), *CALLS)
    model = StagedModel(tool_calls_reply(*calls), "Done.", before={5: places.gate})
    result = text_service(model, write, places.look).told("x")
    assert places.gate.was_opened
    assert order == [["a", "b"]] or order == [["a"]]
    assert [run.text for run in result.tool_runs] == ["wrote x", "saw a", "saw b"]


def test_a_blocking_call_without_such_tools_does_not_ask_for_a_stream() -> None:
    def look(place: str) -> str:
        return f"saw {place}"

    model = StagedModel(tool_calls_reply(*CALLS), "Both.", before={})
    assert text_service(model, look).ask("x") == "Both."
    assert model.streams == 0


def test_nothing_starts_early_beside_a_tool_that_may_wait_for_a_person() -> None:
    places = Places()

    @tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    model = StagedModel(tool_calls_reply(*CALLS, ("pay", "{}")), "Both.", before={})
    with pytest.raises(ApprovalRequiredError):
        text_service(model, places.look, pay).stream("x").result()
    assert places.looked == []


def test_calls_that_run_one_at_a_time_run_in_their_order() -> None:
    order: list[str] = []

    def write(text: str) -> str:
        order.append(text)
        return "written"

    @tool(start_early=True)
    def look(place: str) -> str:
        order.append(place)
        return place

    calls = (CALLS[0], ("write", '{"text": "w"}'), CALLS[1])
    model = StagedModel(tool_calls_reply(*calls), "Done.", before={})
    service = text_service(model, write, look, tool_limits=ToolLimits(max_concurrency=1))
    assert service.ask("x") == "Done."
    assert order == ["a", "w", "b"]


@pytest.mark.parametrize(
    "limits", [ToolLimits(max_calls=1), ToolLimits(max_calls_per_reply=1), ToolLimits(max_rounds=1)]
)
def test_a_call_beyond_a_limit_does_not_start(limits: ToolLimits) -> None:
    places = Places()
    first = () if limits.max_rounds > 1 else (tool_calls_reply(CALLS[0]),)
    model = StagedModel(*first, tool_calls_reply(*CALLS), before={})
    with pytest.raises(ToolLimitError):
        text_service(model, places.look, tool_limits=limits).ask("x")
    assert places.looked == ["a"]


def test_a_tool_may_limit_its_calls() -> None:
    looked = []

    @tool(start_early=True, max_calls=1)
    def look(place: str) -> str:
        looked.append(place)
        return place

    model = StagedModel(tool_calls_reply(*CALLS), "Done.", before={})
    result = text_service(model, look).told("x")
    assert looked == ["a"]
    assert [run.text for run in result.tool_runs] == [
        "a",
        "The limit of 1 call of look is reached. Continue without it.",
    ]


def test_no_tool_starts_before_the_checks_of_a_stream_have_passed() -> None:
    places = Places()

    class Slow:
        def moderate(self, texts: list[str]) -> list[ModerationResult]:
            model.second.wait(MAX_WAIT)
            return [ModerationResult(flagged=True) for _ in texts]

    model: Any = StagedModel(tool_calls_reply(*CALLS), before={})
    model.second = threading.Event()
    model.before = {3: model.second}
    threading.Timer(0.05, model.second.set).start()
    service = text_service(model, places.look, interceptors=[Moderation(Slow())])
    with pytest.raises(ModerationError):
        service.stream("x").result()
    assert places.looked == []


def test_no_tool_starts_early_in_a_stream_whose_parts_are_guarded() -> None:
    places = Places()
    guards = OutputGuardrails(forbidden("secret"), chunks=sentences())
    model = StagedModel(tool_calls_reply(*CALLS), "Both.", before={})
    stream = text_service(model, places.look, interceptors=[guards]).stream("x")
    shown = [one for one in stream.events() if isinstance(one, (ToolStarted, ReplyDelta))]
    kinds = [type(one).__name__ for one in shown]
    assert kinds[:4] == ["ReplyDelta"] * 4
    assert stream.result().value == "Both."


def test_a_stream_that_guards_hold_back_still_shows_the_tools() -> None:
    places = Places()
    guards = OutputGuardrails(forbidden("secret"))
    stream = text_service(two_calls(places), places.look, interceptors=[guards]).stream("x")
    shown = list(stream.events())
    assert [one.call.id for one in shown if isinstance(one, ToolStarted)] == ["c1", "c2"]
    assert not any(isinstance(one, ReplyDelta) and one.tool_calls for one in shown)
    assert places.gate.was_opened


def test_a_held_back_stream_with_guarded_parts_shows_nothing_before_the_answer() -> None:
    guards = [OutputGuardrails(forbidden("x")), OutputGuardrails(forbidden("y"), chunks=sentences())]

    async def texts() -> list[str]:
        model = StagedModel(tool_calls_reply(*CALLS, text="I look. Now."), "Both.", before={})
        service: Any = create(AsyncTexts, model, tools=[Places().look], interceptors=guards)
        async with service.astream("x") as stream:
            return [one.text async for one in stream.events() if isinstance(one, ReplyDelta) and one.text]

    assert asyncio.run(texts()) == []


# --- What happens if the reply is not used


class Heard:
    """Listens to the events of tools."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(self, heard: object) -> None:
        if isinstance(heard, ToolStarted):
            self.events.append(f"started {heard.call.id}")
        elif isinstance(heard, ToolFinished):
            self.events.append(f"finished {heard.run.call.id}: {heard.run.error or heard.run.text}")


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_the_result_of_a_reply_that_was_cut_off_is_discarded(kind: str) -> None:
    heard, places = Heard(), Places()
    reply = replace(tool_calls_reply(*CALLS), finish_reason=FinishReason.LENGTH)
    model = StagedModel(reply, before={3: places.gate})
    with pytest.raises(TruncatedError) as caught:
        CALL_KINDS[kind](text_service(model, places.look, listeners=[heard]))
    assert places.gate.was_opened
    assert "started c1" in heard.events
    assert len(caught.value.attempts) == 1


@pytest.mark.parametrize("kind", CALL_KINDS)
def test_a_tool_that_has_not_ended_when_the_stream_fails_is_reported_as_not_needed(kind: str) -> None:
    heard, started, over = Heard(), Gate(), Gate()

    @tool(start_early=True)
    def look(place: str) -> str:
        if started.is_set():
            over.set()
        else:
            started.set()
            over.wait()
        return f"saw {place}"

    failure = ModelServerError("broken", retryable=True)
    model = StagedModel(
        tool_calls_reply(*CALLS), tool_calls_reply(CALLS[0]), "Fine.", before={2: started, 3: failure}
    )
    assert CALL_KINDS[kind](text_service(model, look, listeners=[heard])).endswith("Fine.")
    assert heard.events == [
        "started c1",
        "finished c1: the result of look is no longer needed",
        "started c1",
        "finished c1: saw a",
    ]
    assert_provider_accepts(messages_to(model))
    assert len(messages_to(model)) == 3


def test_runs_of_a_stream_that_failed_are_not_in_the_result() -> None:
    places = Places()
    failure = ModelServerError("broken", retryable=True)
    model = StagedModel(
        tool_calls_reply(*CALLS), tool_calls_reply(CALLS[1]), "Fine.", before={2: places.gate, 3: failure}
    )
    result = text_service(model, places.look).told("x")
    assert places.looked == ["a", "b"]
    assert [run.text for run in result.tool_runs] == ["saw b"]
    assert [attempt.error for attempt in result.attempts] == [failure, None, None]


def test_an_async_tool_is_cancelled_if_the_stream_is_abandoned() -> None:
    running, cancelled = Gate(), []

    @tool(start_early=True)
    async def look(place: str) -> str:
        running.set()
        try:
            await asyncio.sleep(MAX_WAIT)
        except asyncio.CancelledError:
            cancelled.append(place)
            raise
        return place

    async def abandon() -> None:
        model = StagedModel(tool_calls_reply(*CALLS), before={2: running})
        async with create(AsyncTexts, model, tools=[look]).astream("x") as stream:
            async for shown in stream.events():
                if isinstance(shown, ReplyDelta) and running.is_set():
                    break
        assert cancelled == ["a"]

    asyncio.run(abandon())


def test_closing_a_blocking_stream_does_not_wait_for_the_tool() -> None:
    running, over = Gate(), Gate()

    @tool(start_early=True)
    def look(place: str) -> str:
        running.set()
        over.wait()
        return place

    model = StagedModel(tool_calls_reply(*CALLS), before={2: running})
    with text_service(model, look).stream("x") as stream:
        for shown in stream.events():
            if isinstance(shown, ReplyDelta) and running.is_set():
                break
    assert not over.is_set()
    over.set()


def test_an_error_that_ends_the_call_is_raised_once_the_reply_is_complete() -> None:
    @tool(start_early=True)
    def look(place: str) -> str:
        raise AuthenticationError(f"wrong key for {place}")

    model = StagedModel(tool_calls_reply(*CALLS), before={})
    with pytest.raises(AuthenticationError, match="wrong key for a"):
        text_service(model, look).ask("x")


@pytest.mark.parametrize("kind", ["async", "async stream"])
def test_the_time_of_the_call_limits_the_tool(kind: str) -> None:
    @tool(start_early=True)
    async def look(place: str) -> str:
        await asyncio.sleep(MAX_WAIT)
        return place

    model = StagedModel(tool_calls_reply(*CALLS), before={})
    service: Any = create(AsyncTexts, model, tools=[look], budget=Budget(seconds=0.2))
    with pytest.raises(BudgetExceededError):
        CALL_KINDS[kind](service)


def test_a_call_that_an_interceptor_changes_runs_as_it_was_changed() -> None:
    places = Places()

    def to_z(invocation: Any, proceed: Any) -> Any:
        def perform(effect: Any) -> Any:
            reply = yield effect
            if isinstance(effect, CallModel) and reply.message.tool_calls:
                call = replace(reply.message.tool_calls[0], arguments='{"place": "z"}')
                reply = replace(reply, message=replace(reply.message, tool_calls=(call,)))
            return reply

        return map_effects(proceed(invocation), perform)

    model = StagedModel(tool_calls_reply(*CALLS), "Done.", before={})
    result = text_service(model, places.look, interceptors=[to_z]).told("x")
    assert [run.text for run in result.tool_runs] == ["saw z"]
    assert messages_to(model)[1].tool_calls == (ToolCall("c1", "look", '{"place": "z"}'),)  # type: ignore[union-attr]


def test_calls_without_ids_of_their_own_get_the_same_ids_as_in_the_whole_reply() -> None:
    seen = []

    @tool(start_early=True)
    def look(place: str, call: ToolCall) -> str:
        seen.append(call.id)
        return place

    calls = ((*CALLS[0], "same"), (*CALLS[1], "same"), ("look", '{"place": "c"}', ""))
    model = StagedModel(tool_calls_reply(*calls), tool_calls_reply((*CALLS[0], "same")), "Done.", before={})
    result = text_service(model, look).told("x")
    assert sorted(seen) == sorted(run.call.id for run in result.tool_runs)
    assert len(set(seen)) == 4
    assert_provider_accepts(messages_to(model))


def test_usage_counts_each_reply_once() -> None:
    places = Places()
    replies = [
        replace(tool_calls_reply(*CALLS), usage=Usage(5, 7)),
        ChatReply(AiMessage("Hi"), usage=Usage(1, 2)),
    ]
    result = text_service(StagedModel(*replies, before={}), places.look).told("x")
    assert result.usage == Usage(6, 9)


@pytest.mark.parametrize("setting", ["needs_approval", "external", "compensate"])
def test_a_tool_that_does_more_than_read_cannot_start_early(setting: str) -> None:
    value: Any = (lambda: None) if setting == "compensate" else True
    settings: dict[str, Any] = {setting: value}

    @tool(start_early=True, **settings)
    def look(place: str) -> str:
        return place

    with pytest.raises(
        DefinitionError, match=f"the tool look has start_early, .*, and {setting}; remove one"
    ):
        text_service(ScriptedChatModel([]), look)


# --- Over HTTP


def chat_replies(gate: threading.Event) -> list[Reply]:
    def head(index: int) -> bytes:
        function = {"name": "look", "arguments": ""}
        return delta(
            tool_calls=[{"index": index, "id": f"c{index + 1}", "type": "function", "function": function}]
        )

    def rest(index: int, arguments: str) -> bytes:
        return delta(tool_calls=[{"index": index, "function": {"arguments": arguments}}])

    first = sse(
        head(0), rest(0, '{"place": '), rest(0, '"a"}'), head(1), rest(1, '{"place": "b"}'),
        delta("tool_calls"), DONE, wait_before={4: gate},
    )  # fmt: skip
    return [first, sse(delta(content="Both."), delta("stop"), DONE)]


def responses_replies(gate: threading.Event) -> list[Reply]:
    items = [function_call(f"c{index}", "look", arguments) for index, (_, arguments) in enumerate(CALLS, 1)]
    chunks: list[bytes] = [start_events()]
    for index, item in enumerate(items):
        chunks += [item_added(index, {**item, "arguments": ""}), arguments_delta(item["arguments"], index)]
        chunks += [item_done(index, item)]
    return [sse(*chunks, end_event(response(*items)), wait_before={4: gate}), stream_reply("Both.")]


def anthropic_replies(gate: threading.Event) -> list[Reply]:
    start = {"type": "message_start", "message": {"id": "m", "model": "c", "usage": {"input_tokens": 9}}}

    def call(index: int, arguments: str) -> list[dict[str, Any]]:
        block = {"type": "tool_use", "id": f"c{index + 1}", "name": "look", "input": {}}
        return [
            {"type": "content_block_start", "index": index, "content_block": block},
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": arguments},
            },
            {"type": "content_block_stop", "index": index},
        ]

    def end(reason: str) -> list[dict[str, Any]]:
        return [
            {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ]

    events = [start, *call(0, CALLS[0][1]), *call(1, CALLS[1][1]), *end("tool_use")]
    text = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Both."}}
    return [
        sse(*map(event, events), wait_before={4: gate}),
        sse(*map(event, [start, text, *end("end_turn")])),
    ]


def gemini_replies(gate: threading.Event) -> list[Reply]:
    def said(part: Any, **members: Any) -> bytes:
        return event({"candidates": [{"content": {"role": "model", "parts": [part]}, **members}]})

    # without ids, as Gemini sends them
    calls = [{"functionCall": {"name": name, "args": json.loads(arguments)}} for name, arguments in CALLS]
    return [
        sse(said(calls[0]), said(calls[1], finishReason="STOP"), wait_before={1: gate}),
        sse(said({"text": "Both."}, finishReason="STOP")),
    ]


def bedrock_replies(gate: threading.Event) -> list[Reply]:
    def reply(*chunks: bytes, stop: str, **settings: Any) -> Reply:
        end = (amazon_event("messageStop", {"stopReason": stop}), amazon_event("metadata", {"usage": {}}))
        return amazon_stream(*chunks, *end, **settings)

    chunks = []
    for index, (name, arguments) in enumerate(CALLS):
        place = {"contentBlockIndex": index}
        start = {"toolUse": {"toolUseId": f"c{index + 1}", "name": name}}
        chunks += [
            amazon_event("contentBlockStart", {**place, "start": start}),
            amazon_event("contentBlockDelta", {**place, "delta": {"toolUse": {"input": arguments}}}),
            amazon_event("contentBlockStop", place),
        ]
    text = amazon_event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Both."}})
    return [reply(*chunks, stop="tool_use", wait_before={3: gate}), reply(text, stop="end_turn")]


PROVIDERS: dict[str, tuple[Callable[[str], Any], Callable[[threading.Event], list[Reply]]]] = {
    "chat": (lambda url: OpenAiChatModel("m", base_url=url, api_key="sk-test"), chat_replies),
    "responses": (lambda url: OpenAiResponsesModel("m", base_url=url, api_key="sk-test"), responses_replies),
    "anthropic": (lambda url: AnthropicChatModel("m", base_url=url, api_key="key"), anthropic_replies),
    "gemini": (lambda url: GeminiChatModel("m", base_url=url, api_key="key"), gemini_replies),
    "bedrock": (lambda url: BedrockChatModel("m", base_url=url, api_key="key"), bedrock_replies),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["blocking", "async", "stream", "async stream"])
def test_a_provider_sends_the_second_call_after_the_first_one_ran(
    provider: str, kind: str, loopback: Loopback
) -> None:
    make, replies = PROVIDERS[provider]
    places = Places()
    loopback.reply(*replies(places.gate))
    with make(loopback.base_url) as model:
        assert CALL_KINDS[kind](text_service(model, places.look)) == "Both."
    assert places.gate.was_opened
    assert places.looked == ["a", "b"]
    assert len(loopback.requests) == 2
    sent = json.dumps(loopback.requests[1].json)
    assert sent.count("saw a") == sent.count("saw b") == 1
    assert "no_id_" not in sent
