"""Streams are moderated while the model writes, and show nothing before the verdict."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Protocol

import pytest
from loopback import Loopback, delta, json_reply, sse

from aiservices import (
    AiMessage,
    AsyncStream,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    ModelServerError,
    ReplyDelta,
    ScriptedChatModel,
    Stream,
    ToolCall,
    Usage,
    create,
    tool,
)
from aiservices.guardrails import OutputGuardrails, max_length
from aiservices.interceptors import Answer, CallModel, Flow, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.models.openai import OpenAiChatModel
from aiservices.moderation import Moderation, ModerationError, ModerationResult, OpenAiModerator

PATIENCE = 20  # seconds after which a test that hangs fails


class Teller(Protocol):
    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...

    def items(self, text: str) -> Iterator[int]: ...

    def aitems(self, text: str) -> AsyncIterator[int]: ...

    def growing(self, text: str) -> Stream[list[int]]: ...

    def agrowing(self, text: str) -> AsyncStream[list[int]]: ...

    async def whole(self, text: str) -> str: ...


async def gathered(pieces: AsyncIterator[Any] | AsyncStream[Any], into: list[Any]) -> None:
    async for piece in pieces:
        into.append(piece)  # noqa: PERF401  # what came before an error is kept


CALLS: dict[str, Callable[[Teller, list[Any]], Any]] = {
    "Iterator[str]": lambda teller, into: into.extend(teller.texts("x")),
    "AsyncIterator[str]": lambda teller, into: asyncio.run(gathered(teller.atexts("x"), into)),
    "Iterator[Item]": lambda teller, into: into.extend(teller.items("x")),
    "AsyncIterator[Item]": lambda teller, into: asyncio.run(gathered(teller.aitems("x"), into)),
    "Stream": lambda teller, into: into.extend(teller.growing("x")),
    "AsyncStream": lambda teller, into: asyncio.run(gathered(teller.agrowing("x"), into)),
}
TEXTS = ["Iterator[str]", "AsyncIterator[str]"]
every_stream = pytest.mark.parametrize("kind", CALLS)
both = pytest.mark.parametrize("kind", TEXTS)
Step = str | threading.Event | Exception


def waited(event: threading.Event) -> None:
    assert event.wait(PATIENCE), "what is waited for did not happen"


class Writing:
    """A model that streams deltas, waits for events between them, and records its progress."""

    name = "writing"
    capabilities = Capabilities(json_schema=True, tools=True)

    def __init__(self, *steps: Step) -> None:
        self._steps = steps
        self.begun, self.silent, self.written, self.closed = (threading.Event() for _ in range(4))
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        (*_, last) = self.stream(request)
        assert last.reply is not None
        return last.reply

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        deltas = [delta async for delta in self.astream(request)]
        assert deltas[-1].reply is not None
        return deltas[-1].reply

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self._begin(request)
        try:
            for step in self._steps:
                if isinstance(step, threading.Event):
                    self.silent.set()
                    waited(step)
                else:
                    yield self._delta(step)
            yield self._end()
        finally:
            self.closed.set()

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        self._begin(request)
        try:
            for step in self._steps:
                if isinstance(step, threading.Event):
                    self.silent.set()
                    while not step.is_set():
                        await asyncio.sleep(0.001)
                else:
                    yield self._delta(step)
            yield self._end()
        finally:
            self.closed.set()

    def _begin(self, request: ChatRequest) -> None:
        self.requests.append(request)
        self.begun.set()

    def _delta(self, step: str | Exception) -> ReplyDelta:
        if isinstance(step, Exception):
            raise step
        return ReplyDelta(step)

    def _end(self) -> ReplyDelta:
        self.written.set()
        text = "".join(step for step in self._steps if isinstance(step, str))
        return ReplyDelta(reply=ChatReply(AiMessage(text), usage=Usage(1, 2)))


class Judge:
    """A moderator that waits for an event before it returns its verdict, and counts its calls."""

    def __init__(
        self, event: threading.Event, *, flags: bool = False, then: Callable[[], object] = bool
    ) -> None:
        self._event, self._flags, self._then = event, flags, then
        self.moderated = 0

    def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        self.moderated += 1
        waited(self._event)
        self._then()
        return [
            ModerationResult(flagged=self._flags, categories=("rude",) if self._flags else ()) for _ in texts
        ]


class AtOnce(Judge):
    """A moderator that returns its verdict immediately."""

    def __init__(self, *, flags: bool = False) -> None:
        event = threading.Event()
        event.set()
        super().__init__(event, flags=flags)


def chat_with(model: Any, judge: Any, kind: str, **settings: Any) -> list[Any]:
    seen: list[Any] = []
    CALLS[kind](create(Teller, model, interceptors=[Moderation(judge)], **settings), seen)
    return seen


def refused(model: Any, judge: Any, kind: str, **settings: Any) -> ModerationError:
    seen: list[Any] = []
    inside = settings.pop("inside", [])
    teller = create(Teller, model, interceptors=[Moderation(judge), *inside], **settings)
    with pytest.raises(ModerationError) as caught:
        CALLS[kind](teller, seen)
    assert seen == []
    return caught.value


@every_stream
def test_the_model_is_called_while_the_moderator_works(kind: str) -> None:
    model = Writing("[1, 2]")
    assert chat_with(model, Judge(model.begun), kind)
    assert len(model.requests) == 1


@every_stream
def test_nothing_is_shown_before_the_verdict_and_all_of_it_after(kind: str) -> None:
    model, seen, before = Writing("[1", ", 2", ", 3]"), list[Any](), list[Any]()
    judge = Judge(model.written, then=lambda: before.extend(seen))
    CALLS[kind](create(Teller, model, interceptors=[Moderation(judge)]), seen)
    unmoderated = create(Teller, Writing("[1", ", 2", ", 3]"))
    plain: list[Any] = []
    CALLS[kind](unmoderated, plain)
    assert (before, [repr(one) for one in seen]) == ([], [repr(one) for one in plain])


@every_stream
def test_a_message_flagged_while_the_model_writes_cancels_the_request(kind: str) -> None:
    never = threading.Event()
    model = Writing("[1, 2", never, ", 3]")
    failure = refused(model, Judge(model.silent, flags=True), kind)
    where = failure.qualname
    assert str(failure) == f"{where}: the user message is flagged by moderation: rude"
    never.set()  # a blocking stream is closed after its next delta
    waited(model.closed)
    assert not model.written.is_set()


def test_buffered_text_is_shown_after_the_verdict_even_if_the_model_pauses() -> None:
    go = threading.Event()
    model = Writing("to ", "be", go, " or")
    teller = create(Teller, model, interceptors=[Moderation(Judge(model.silent))])
    pieces = teller.texts("x")
    first = [next(pieces), next(pieces)]
    go.set()
    assert (first, list(pieces)) == (["to ", "be"], [" or"])


def test_async_buffered_text_is_shown_after_the_verdict_even_if_the_model_pauses() -> None:
    go = threading.Event()
    model = Writing("to ", "be", go, " or")

    async def read() -> tuple[list[str], list[str]]:
        teller = create(Teller, model, interceptors=[Moderation(Judge(model.silent))])
        pieces = teller.atexts("x")
        first = [await anext(pieces), await anext(pieces)]
        go.set()
        return first, [piece async for piece in pieces]

    assert asyncio.run(read()) == (["to ", "be"], [" or"])


@both
def test_a_cancelled_request_is_in_the_attempts(kind: str) -> None:
    never = threading.Event()
    events: list[Any] = []
    model = Writing("to ", never, "be")
    failure = refused(model, Judge(model.begun, flags=True), kind, listeners=[events.append])
    never.set()
    (attempt,) = failure.attempts
    assert (attempt.model, attempt.reply, attempt.error) == ("writing", None, failure)
    names = [type(event).__name__ for event in events]
    assert names == ["CallStarted", "AttemptStarted", "ModerationRan", "ReplyFailed", "CallFailed"]
    assert events[3].error is failure
    assert (failure.__cause__, failure.__suppress_context__) == (None, True)


@both
def test_a_reply_that_was_complete_before_the_verdict_is_in_the_attempts(kind: str) -> None:
    model = Writing("to ", "be")
    failure = refused(model, Judge(model.closed, flags=True), kind)
    (attempt,) = failure.attempts
    assert (attempt.text, attempt.error, failure.usage) == ("to be", None, Usage(1, 2))


@both
def test_a_request_that_failed_before_the_verdict_is_repeated_after_it(kind: str) -> None:
    model = ScriptedChatModel([ModelServerError("500", retryable=True), "to be"])
    judge = AtOnce()
    assert chat_with(model, judge, kind, budget=Budget(first_wait=0)) == ["to ", "be"]
    assert judge.moderated == 1


@both
def test_a_failed_request_is_not_repeated_for_a_flagged_message(kind: str) -> None:
    model = Writing(ModelServerError("500", retryable=True))
    failure = refused(model, Judge(model.closed, flags=True), kind, budget=Budget(first_wait=0))
    assert (len(model.requests), len(failure.attempts)) == (1, 1)


@pytest.mark.parametrize("kind", ["Iterator[Item]", "AsyncIterator[Item]"])
def test_an_invalid_item_is_requested_again_and_moderated_once(kind: str) -> None:
    model, judge = ScriptedChatModel(['["many"]', "[1]"]), AtOnce()
    assert (chat_with(model, judge, kind), judge.moderated, len(model.requests)) == ([1], 1, 2)


@both
def test_a_failing_moderator_blocks_a_stream(kind: str) -> None:
    model = Writing("to ", "be")

    def fail() -> None:
        raise KeyError("gone")

    failure = refused(model, Judge(model.begun, then=fail), kind)
    where = failure.qualname
    assert (str(failure), type(failure.__cause__)) == (
        f"{where}: the moderator failed: KeyError: 'gone'",
        KeyError,
    )


@every_stream
def test_a_moderator_without_results_blocks_a_stream(kind: str) -> None:
    class Mute(AtOnce):
        def moderate(self, texts: Sequence[str], /) -> Any:
            return None

    failure = refused(Writing("[1]"), Mute(), kind)
    where = failure.qualname
    assert str(failure) == f"{where}: the moderator failed: TypeError: 'NoneType' object is not iterable"


@every_stream
def test_memory_stores_nothing_of_a_flagged_stream(kind: str) -> None:
    memory, model = ChatMemory(), Writing("[1]")
    refused(model, Judge(model.closed, flags=True), kind, inside=[memory])
    assert memory.messages() == ()
    assert chat_with(ScriptedChatModel(["[1]"]), AtOnce(), kind) != []


@both
def test_no_tool_of_a_stream_runs_for_a_flagged_message(kind: str) -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    def model() -> ScriptedChatModel:
        calling = ChatReply(AiMessage("", (ToolCall("1", "look", "{}"),)))
        return ScriptedChatModel([calling, "seen it"], capabilities=Capabilities(tools=True))

    refused(model(), AtOnce(flags=True), kind, tools=[look])
    assert ran == []
    assert (chat_with(model(), AtOnce(), kind, tools=[look]), ran) == (["seen ", "it"], ["look"])


@both
@pytest.mark.parametrize("flagging", [0, 1])
def test_two_moderators_of_a_stream_both_block(kind: str, flagging: int) -> None:
    model = Writing("to be")
    judges = [Judge(model.begun, flags=flagging == place) for place in range(2)]
    failure = refused(model, judges[0], kind, inside=[Moderation(judges[1])])
    assert ([judge.moderated for judge in judges], failure.categories) == ([1, 1], ("rude",))
    assert len(failure.attempts) == 1


@both
def test_no_inner_interceptor_can_answer_a_flagged_message(kind: str) -> None:
    def soothing(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        try:
            return (yield from proceed(invocation))
        except Exception:
            return (yield from proceed(invocation))

    model = Writing("to be")
    refused(model, Judge(model.begun, flags=True), kind, inside=[soothing])
    assert len(model.requests) == 1


@pytest.mark.parametrize("kind", CALLS)
def test_a_flagged_answer_is_only_in_the_attempts(kind: str) -> None:
    answers: list[Any] = []

    def keeping(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        answers.append(answer)
        return answer

    model = Writing("[1]")
    failure = refused(model, Judge(model.closed, flags=True), kind, inside=[keeping])
    assert (answers, [one.text for one in failure.attempts]) == ([], ["[1]"])


@both
def test_an_answer_of_an_interceptor_is_refused_too(kind: str) -> None:
    def itself(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        reply: ChatReply = yield CallModel(invocation.plan.model, invocation.request)
        return Answer(reply.text, reply, ())

    model = Writing("to be")
    refused(model, Judge(model.closed, flags=True), kind, inside=[itself])
    assert chat_with(ScriptedChatModel(["to be"]), AtOnce(), kind) == ["to ", "be"]


@every_stream
def test_a_stream_that_other_interceptors_hold_back_is_moderated_too(kind: str) -> None:
    guards = OutputGuardrails(max_length(100))
    model = Writing("[1]")
    refused(model, Judge(model.begun, flags=True), kind, inside=[guards])
    model = Writing("[1]")
    teller = create(Teller, model, interceptors=[Moderation(Judge(model.begun)), guards])
    seen: list[Any] = []
    CALLS[kind](teller, seen)
    assert seen


def test_leaving_a_stream_after_the_verdict_closes_that_of_the_model() -> None:
    go = threading.Event()
    model = Writing("[1", go, ", 2", ", 3")
    with create(Teller, model, interceptors=[Moderation(AtOnce())]).growing("x") as stream:
        events = stream.events()
        while next(events) != ReplyDelta("[1"):
            pass
        go.set()
        while next(events) != ReplyDelta(", 2"):
            pass
    waited(model.closed)
    assert not model.written.is_set()


def test_leaving_an_async_stream_after_the_verdict_closes_that_of_the_model() -> None:
    never = threading.Event()
    model = Writing("[1", never)

    async def read() -> bool:
        async with create(Teller, model, interceptors=[Moderation(AtOnce())]).agrowing("x") as stream:
            events = stream.events()
            while await anext(events) != ReplyDelta("[1"):
                pass
        return model.closed.is_set()

    assert asyncio.run(read())


def test_cancelling_an_async_stream_before_the_verdict_closes_that_of_the_model() -> None:
    never = threading.Event()
    model = Writing("to ", never)

    class Silent:
        async def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            await asyncio.Event().wait()
            return []

    class AsyncTeller(Protocol):
        def atexts(self, text: str) -> AsyncIterator[str]: ...

    async def cancelled() -> None:
        teller = create(AsyncTeller, model, interceptors=[Moderation(Silent())])
        reading = asyncio.create_task(gathered(teller.atexts("x"), []))
        while not model.begun.is_set():
            await asyncio.sleep(0.001)
        reading.cancel()
        await reading

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert model.closed.is_set()


def test_a_flagged_message_cancels_the_request_of_an_async_call() -> None:
    never = threading.Event()
    model = Writing("to ", never)
    teller = create(Teller, model, interceptors=[Moderation(Judge(model.begun, flags=True))])
    with pytest.raises(ModerationError) as caught:
        asyncio.run(teller.whole("x"))  # type: ignore[arg-type]
    assert model.closed.is_set()
    assert [attempt.error for attempt in caught.value.attempts] == [caught.value]


def moderation(*flagged: str) -> dict[str, Any]:
    """Return a response of the moderations API for one text."""
    result = {
        "flagged": bool(flagged),
        "categories": dict.fromkeys(flagged, True),
        "category_scores": {},
        "category_applied_input_types": {},
    }
    return {"id": "modr-1", "model": "omni-moderation-latest", "results": [result]}


@both
def test_the_connection_to_openai_is_closed_for_a_flagged_message(kind: str, loopback: Loopback) -> None:
    go, never = threading.Event(), threading.Event()
    loopback.reply(
        sse(delta(content="to "), delta(content="be "), delta(content="or"), wait_before={1: go, 2: never})
    )
    with Loopback() as other:
        other.reply(json_reply(moderation("violence")))
        moderator = OpenAiModerator(base_url=other.base_url, api_key="sk-secret-key")
        with OpenAiChatModel("m", base_url=loopback.base_url, api_key="sk-secret-key") as model:
            assert refused(model, moderator, kind).categories == ("violence",)
            go.set()
            waited(loopback.hung_up)
        moderator.close()


@both
def test_openai_streams_what_passes(kind: str, loopback: Loopback) -> None:
    loopback.reply(sse(delta(content="to "), delta(content="be"), delta("stop"), b"data: [DONE]\n\n"))
    with Loopback() as other:
        other.reply(json_reply(moderation()))
        moderator = OpenAiModerator(base_url=other.base_url, api_key="sk-secret-key")
        with OpenAiChatModel("m", base_url=loopback.base_url, api_key="sk-secret-key") as model:
            assert chat_with(model, moderator, kind) == ["to ", "be"]
        moderator.close()
    assert (len(loopback.requests), len(other.requests)) == (1, 1)
