"""Moderation checks user messages before an answer is handed out, in every kind of call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import pytest
from loopback import Loopback, Reply, error, json_reply, raw_reply

from aiservices import (
    AiMessage,
    AsyncStream,
    AuthenticationError,
    Budget,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Image,
    InvalidReplyError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    UserMessage,
    create,
    tool,
    user_message,
)
from aiservices.guardrails import InputGuardrails, masked
from aiservices.interceptors import Answer, CallModel, Flow, Gather, Invocation, Proceed, Run
from aiservices.memory import ChatMemory
from aiservices.moderation import (
    Moderation,
    ModerationError,
    ModerationRan,
    ModerationResult,
    OpenAiModerator,
)

FINE = ModerationResult(flagged=False)


class Kinds(Protocol):
    def blocking(self, text: str) -> str: ...

    async def asynchronous(self, text: str) -> str: ...

    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...

    def items(self, text: str) -> Iterator[int]: ...

    def aitems(self, text: str) -> AsyncIterator[int]: ...

    def growing(self, text: str) -> Stream[list[int]]: ...

    def agrowing(self, text: str) -> AsyncStream[list[int]]: ...


class AsyncKinds(Protocol):
    """An interface with all kinds of async methods, which can await a moderator."""

    async def asynchronous(self, text: str) -> str: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...

    def aitems(self, text: str) -> AsyncIterator[int]: ...


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...


async def gathered(pieces: Any, into: list[Any]) -> None:
    async for piece in pieces:
        into.append(piece)  # noqa: PERF401  # what came before an error is kept


CALLS: dict[str, Callable[[Kinds, list[Any]], Any]] = {
    "blocking": lambda kinds, into: into.append(kinds.blocking("bad")),
    "async": lambda kinds, into: into.append(asyncio.run(kinds.asynchronous("bad"))),  # type: ignore[arg-type]
    "Iterator[str]": lambda kinds, into: into.extend(kinds.texts("bad")),
    "AsyncIterator[str]": lambda kinds, into: asyncio.run(gathered(kinds.atexts("bad"), into)),
    "Iterator[Item]": lambda kinds, into: into.extend(kinds.items("bad")),
    "AsyncIterator[Item]": lambda kinds, into: asyncio.run(gathered(kinds.aitems("bad"), into)),
    "Stream": lambda kinds, into: into.extend(kinds.growing("bad")),
    "AsyncStream": lambda kinds, into: asyncio.run(gathered(kinds.agrowing("bad"), into)),
}
every_kind = pytest.mark.parametrize("kind", CALLS)


class Flagging:
    """A moderator that flags texts with a word and records the texts."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.checked_texts: list[list[str]] = []

    def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        self.checked_texts.append(list(texts))
        return [self._of(text) for text in texts]

    def _of(self, text: str) -> ModerationResult:
        flagged_words = tuple(word for word in self.words if word in text)
        return ModerationResult(flagged=bool(flagged_words), categories=flagged_words)


class AsyncFlagging(Flagging):
    async def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:  # type: ignore[override]
        return super().moderate(texts)


def failing(moderator: Any, *, replies: Sequence[Any] = ("ok",), **settings: Any) -> ModerationError:
    service = create(Chat, ScriptedChatModel(replies), interceptors=[Moderation(moderator)], **settings)
    with pytest.raises(ModerationError) as caught:
        service.chat("bad")
    return caught.value


@every_kind
@pytest.mark.parametrize("answers", [True, False])
def test_a_flagged_message_is_an_error_before_anything_is_shown(kind: str, answers: bool) -> None:
    seen: list[Any] = []
    moderation = Moderation(Flagging("bad", "ba"), answers=answers)
    with pytest.raises(ModerationError) as caught:
        CALLS[kind](create(Kinds, ScriptedChatModel(["[1, 2]"]), interceptors=[moderation]), seen)
    where = caught.value.qualname
    assert (str(caught.value), caught.value.categories, caught.value.stage, seen) == (
        f"{where}: the user message is flagged by moderation: bad, ba",
        ("bad", "ba"),
        "input",
        [],
    )


@every_kind
def test_an_unflagged_message_passes(kind: str) -> None:
    seen: list[Any] = []
    moderator = Flagging("worse")
    kinds = create(Kinds, ScriptedChatModel(["[1, 2]"]), interceptors=[Moderation(moderator)])
    CALLS[kind](kinds, seen)
    assert (bool(seen), moderator.checked_texts) == (True, [["bad"]])


@every_kind
def test_a_flagged_answer_is_never_shown(kind: str) -> None:
    seen: list[Any] = []
    model = ScriptedChatModel(["[1, 666]"])
    moderation = Moderation(Flagging("666"), answers=True)
    with pytest.raises(ModerationError) as caught:
        CALLS[kind](create(Kinds, model, interceptors=[moderation]), seen)
    where = caught.value.qualname
    assert (str(caught.value), caught.value.stage, seen, len(caught.value.attempts)) == (
        f"{where}: the answer is flagged by moderation: 666",
        "output",
        [],
        1,
    )


@pytest.mark.parametrize("kind", [kind for kind in CALLS if "sync" in kind.lower() and "Stream" not in kind])
def test_a_moderator_may_be_async_in_async_calls(kind: str) -> None:
    moderator = AsyncFlagging("bad")
    kinds = create(AsyncKinds, ScriptedChatModel(["[1]"]), interceptors=[Moderation(moderator)])
    with pytest.raises(ModerationError):
        CALLS[kind](cast(Kinds, kinds), [])


def test_an_async_moderator_is_refused_for_blocking_methods() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Kinds, ScriptedChatModel([]), interceptors=[Moderation(AsyncFlagging())])
    assert str(caught.value) == (
        "Kinds: AsyncFlagging.moderate is async; only async methods can await it, and these are blocking: "
        "blocking, texts, items, growing"
    )


def test_streams_continue_after_the_verdict() -> None:
    kinds = create(Kinds, ScriptedChatModel(["to be"]), interceptors=[Moderation(Flagging())])
    assert list(kinds.texts("x")) == ["to ", "be"]


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_the_moderator_and_the_model_run_concurrently(kind: str) -> None:
    met = threading.Barrier(2, timeout=10)

    class Meeting(Flagging):
        def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            met.wait()
            return [FINE]

    class MeetingModel(ScriptedChatModel):
        def complete(self, request: ChatRequest) -> ChatReply:
            met.wait()
            return super().complete(request)

        async def acomplete(self, request: ChatRequest) -> ChatReply:
            return await asyncio.to_thread(self.complete, request)

    CALLS[kind](create(Kinds, MeetingModel(["a"]), interceptors=[Moderation(Meeting())]), [])
    assert met.broken is False


def test_the_reply_to_a_flagged_message_is_in_the_attempts() -> None:
    failure = failing(Flagging("bad"), replies=["a b"])
    assert [attempt.text for attempt in failure.attempts] == ["a b"]


def test_no_tool_runs_for_a_flagged_message() -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "seen"

    reply = ChatReply(AiMessage("", (ToolCall("1", "look", "{}"),)))
    failure = failing(Flagging("bad"), replies=[reply, "a"], tools=[look])
    assert (ran, len(failure.attempts)) == ([], 1)


def test_a_call_is_moderated_once_however_often_it_asks() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> Result[int]: ...

    moderator = Flagging()
    replies = [ModelServerError("500", retryable=True), "many", "7"]
    service = create(
        Counter, ScriptedChatModel(replies), interceptors=[Moderation(moderator)], budget=Budget(first_wait=0)
    )
    result = service.count("x")
    assert (result.value, len(result.attempts), moderator.checked_texts) == (7, 3, [["x"]])


def test_a_flagged_message_is_not_sent_again_after_a_failed_request() -> None:
    model = ScriptedChatModel([ModelServerError("500", retryable=True), "a"])
    service = create(Chat, model, interceptors=[Moderation(Flagging("bad"))], budget=Budget(first_wait=0))
    with pytest.raises(ModerationError) as caught:
        service.chat("bad")
    assert (len(model.requests), [str(one.error) for one in caught.value.attempts]) == (1, ["500"])


def test_a_message_that_is_answered_without_a_model_is_moderated_too() -> None:
    def answering(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer("known", ChatReply(AiMessage("known")), ())
        yield

    service = create(Chat, ScriptedChatModel([]), interceptors=[Moderation(Flagging("bad")), answering])
    with pytest.raises(ModerationError):
        service.chat("bad")


@pytest.mark.parametrize("at_once", [None, 2])
def test_gathered_requests_are_checked_concurrently(at_once: int | None) -> None:
    def twice(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        ask = CallModel(invocation.plan.model, invocation.request)
        replies = yield Gather((ask, Run(lambda: 1), ask), at_once)
        said.append([replies[0].text, replies[1], replies[2].text])
        return (yield from proceed(invocation))

    said: list[Any] = []
    model = ScriptedChatModel(lambda request: "a")
    moderator = Flagging("bad")
    service = create(Chat, model, interceptors=[Moderation(moderator), twice])
    assert (service.chat("x").value, said, moderator.checked_texts) == ("a", [["a", 1, "a"]], [["x"]])
    with pytest.raises(ModerationError):
        service.chat("bad")
    assert len(said) == 2  # the flow gets the event that records the request, and nothing after it


def test_two_moderators_both_block() -> None:
    for flagging in ([Flagging("bad"), Flagging()], [Flagging(), Flagging("bad")]):
        interceptors = [Moderation(one) for one in flagging]
        with pytest.raises(ModerationError):
            create(Chat, ScriptedChatModel(["a"]), interceptors=interceptors).chat("bad")
        assert [one.checked_texts for one in flagging] == [[["bad"]], [["bad"]]]


def test_a_failing_moderator_blocks_the_call() -> None:
    class Broken:
        def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            raise KeyError("gone")

    failure = failing(Broken())
    assert (str(failure), failure.categories, type(failure.__cause__)) == (
        "Chat.chat: the moderator failed: KeyError: 'gone'",
        (),
        KeyError,
    )


def test_an_async_moderator_that_fails_lets_nothing_through() -> None:
    class Broken:
        async def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            raise KeyError("gone")

    kinds = create(AsyncKinds, ScriptedChatModel(["a"]), interceptors=[Moderation(Broken())])
    with pytest.raises(ModerationError) as caught:
        asyncio.run(kinds.asynchronous("x"))  # type: ignore[arg-type]
    assert str(caught.value) == "AsyncKinds.asynchronous: the moderator failed: KeyError: 'gone'"


def test_an_unreadable_reply_to_a_flagged_message_raises_the_moderation_error() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> int: ...

    interceptors = [Moderation(Flagging("bad"))]
    service = create(Counter, ScriptedChatModel(["many"]), interceptors=interceptors, retry=None)
    with pytest.raises(ModerationError) as caught:
        service.count("bad")
    assert [attempt.text for attempt in caught.value.attempts] == ["many"]


def test_a_moderator_must_return_one_result_per_text() -> None:
    class Silent:
        def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            return []

    assert str(failing(Silent())) == (
        "Chat.chat: the moderator failed: ValueError: it returned 0 results for 1 texts"
    )


def test_a_moderator_without_results_blocks_the_call() -> None:
    class Mute:
        def moderate(self, texts: Sequence[str], /) -> Any:
            return None

    assert str(failing(Mute())) == (
        "Chat.chat: the moderator failed: TypeError: 'NoneType' object is not iterable"
    )


def test_a_wrong_result_of_a_moderator_blocks_the_call() -> None:
    class Loose:
        def moderate(self, texts: Sequence[str], /) -> Any:
            return [{"flagged": False}]

    assert str(failing(Loose())) == (
        "Chat.chat: the moderator failed: AttributeError: 'dict' object has no attribute 'flagged'"
    )


def test_an_object_without_moderate_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        Moderation("strictly")  # type: ignore[arg-type]
    assert str(caught.value) == "Moderation: 'strictly' has no method moderate(texts)"


class Viewer(Protocol):
    @user_message("{{text}} {{image}}")
    def look(self, text: str, image: Image) -> str: ...


class Forwarder(Protocol):
    def send(self, message: UserMessage) -> str: ...


IMAGE = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")


class FlaggingImages(Flagging):
    media_types = (Image,)

    def _of(self, text: Any) -> ModerationResult:
        return ModerationResult(flagged=isinstance(text, Image), categories=("sexual",))


def test_media_that_the_moderator_cannot_check_are_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Viewer, ScriptedChatModel([]), interceptors=[Moderation(Flagging())])
    assert str(caught.value) == (
        "Viewer.look: Moderation cannot check an image; pass a moderator whose media_types include it, or "
        'let it pass unchecked with media="skip"'
    )
    with pytest.raises(DefinitionError, match="Moderation: media is 'ignore'; it must be one of check, skip"):
        Moderation(Flagging(), media="ignore")  # type: ignore[arg-type]


def test_unchecked_media_in_a_message_block_the_call() -> None:
    model = ScriptedChatModel(["ok"])
    service = create(Forwarder, model, interceptors=[Moderation(Flagging())])
    with pytest.raises(ModerationError) as caught:
        service.send(UserMessage("look", contents=(IMAGE,)))
    assert str(caught.value) == (
        "Forwarder.send: the user message has an image, which is not checked; use a moderator with such "
        'media_types, or pass Moderation(moderator, media="skip")'
    )
    assert model.requests == []


def test_media_can_pass_unchecked() -> None:
    moderator = Flagging()
    service = create(Viewer, ScriptedChatModel(["ok"]), interceptors=[Moderation(moderator, media="skip")])
    assert service.look("see", IMAGE) == "ok"
    assert [[text.strip() for text in texts] for texts in moderator.checked_texts] == [["see"]]


def test_an_error_has_what_was_flagged_and_the_results() -> None:
    service = create(Viewer, ScriptedChatModel(["ok"]), interceptors=[Moderation(FlaggingImages())])
    with pytest.raises(ModerationError) as caught:
        service.look("see", IMAGE)
    assert (caught.value.categories, caught.value.flagged) == (("sexual",), (IMAGE,))
    assert [result.flagged for result in caught.value.results] == [False, True]
    assert failing(Flagging("bad")).flagged == ("bad",)


def test_an_error_without_categories_is_reported_as_such() -> None:
    class Vague:
        def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            return [ModerationResult(flagged=True)]

    assert str(failing(Vague())) == (
        "Chat.chat: the user message is flagged by moderation: the moderator named no category"
    )


def test_memory_stores_nothing_of_a_flagged_call_and_its_past_is_not_moderated_again() -> None:
    memory, moderator = ChatMemory(), Flagging("bad")
    service = create(Chat, ScriptedChatModel(["a", "b", "c"]), interceptors=[Moderation(moderator), memory])
    service.chat("x")
    with pytest.raises(ModerationError):
        service.chat("bad")
    service.chat("y")
    assert moderator.checked_texts == [["x"], ["bad"], ["y"]]
    assert memory.messages() == (UserMessage("x"), AiMessage("a"), UserMessage("y"), AiMessage("c"))


def test_the_moderator_gets_the_rewritten_message() -> None:
    moderator = Flagging("bad")
    interceptors = [InputGuardrails(masked("bad")), Moderation(moderator)]
    create(Chat, ScriptedChatModel(["a"]), interceptors=interceptors).chat("bad")
    assert moderator.checked_texts == [["***"]]


def test_instructions_and_blank_texts_are_not_moderated() -> None:
    class Counter(Protocol):
        @user_message("{{format_instructions}}")
        def count(self) -> int: ...

    moderator = Flagging()
    create(Counter, ScriptedChatModel(["7"]), interceptors=[Moderation(moderator, answers=True)]).count()
    assert moderator.checked_texts == [["7"]]


def test_listeners_get_the_results_of_a_moderator() -> None:
    events: list[Any] = []
    moderation = Moderation(Flagging(), answers=True)
    create(Chat, ScriptedChatModel(["a"]), interceptors=[moderation], listeners=[events.append]).chat("x")
    assert [event for event in events if isinstance(event, ModerationRan)] == [
        ModerationRan("input", (FINE,)),
        ModerationRan("output", (FINE,)),
    ]


def test_listeners_get_the_reply_to_a_flagged_message() -> None:
    events: list[Any] = []
    failing(Flagging("bad"), listeners=[events.append])
    names = [type(event).__name__ for event in events]
    assert names == ["CallStarted", "AttemptStarted", "ModerationRan", "ReplyReceived", "CallFailed"]


def test_a_cancelled_call_does_not_wait_for_the_verdict() -> None:
    class Slow:
        async def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
            await asyncio.sleep(30)
            return [FINE]

    async def cancelled() -> None:
        kinds = create(AsyncKinds, ScriptedChatModel(["a"]), interceptors=[Moderation(Slow())])
        async with asyncio.timeout(0.05):
            await kinds.asynchronous("x")

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    assert time.monotonic() - began < 10


def moderations(*flagged: Sequence[str]) -> Reply:
    """Return a response of the moderations API with the flagged categories of each text."""
    names = ("harassment/threatening", "illicit", "violence")
    results = [
        {
            "flagged": bool(flagged_words),
            "categories": {name: name in flagged_words for name in names},
            "category_scores": dict.fromkeys(names, 0.5),
            "category_applied_input_types": {},
        }
        for flagged_words in flagged
    ]
    return json_reply({"id": "modr-1", "model": "omni-moderation-latest", "results": results})


def openai(loopback: Loopback, **settings: Any) -> OpenAiModerator:
    return OpenAiModerator(base_url=loopback.base_url, api_key="sk-secret-key", **settings)


def test_openai_gets_the_texts_and_its_categories_are_reported(loopback: Loopback) -> None:
    loopback.reply(moderations([], ["violence", "harassment/threatening"]))
    moderator = openai(loopback)
    assert moderator.moderate(["a", "b"]) == [
        FINE,
        ModerationResult(flagged=True, categories=("harassment/threatening", "violence")),
    ]
    moderator.close()
    (seen,) = loopback.requests
    assert (seen.path, seen.json) == (
        "/v1/moderations",
        {"model": "omni-moderation-latest", "input": ["a", "b"]},
    )


def test_openai_gets_each_image_in_a_request_of_its_own(loopback: Loopback) -> None:
    loopback.reply(moderations([], []))
    loopback.reply(moderations(["violence"]))
    moderator = openai(loopback)
    assert moderator.moderate(["a", IMAGE, "b"]) == [
        FINE,
        ModerationResult(flagged=True, categories=("violence",)),
        FINE,
    ]
    moderator.close()
    assert [seen.json["input"] for seen in loopback.requests] == [
        ["a", "b"],
        [{"type": "image_url", "image_url": {"url": IMAGE.address}}],
    ]
    assert OpenAiModerator("text-moderation-latest", api_key="k").media_types == ()


@every_kind
def test_openai_moderates_every_kind_of_call(kind: str, loopback: Loopback) -> None:
    loopback.reply(moderations(["violence"]))
    moderator, seen = openai(loopback), list[Any]()
    with pytest.raises(ModerationError) as caught:
        CALLS[kind](create(Kinds, ScriptedChatModel(["[1]"]), interceptors=[Moderation(moderator)]), seen)
    moderator.close()
    assert (caught.value.categories, seen) == (("violence",), [])


def refused(moderator: OpenAiModerator, kind: type[Exception]) -> str:
    service = create(Chat, ScriptedChatModel(["a", "b"]), interceptors=[Moderation(moderator)])
    with pytest.raises(kind) as caught:
        service.chat("x")
    moderator.close()
    return str(caught.value)


def test_a_failure_of_openai_is_a_model_error_and_the_model_is_not_asked_again(loopback: Loopback) -> None:
    loopback.reply(error(429, "slow down, sk-secret-key"))
    assert refused(openai(loopback), RateLimitError) == (
        f"openai:omni-moderation-latest at {loopback.base_url}: 429 too many requests: "
        "slow down, [redacted]; send fewer requests"
    )
    assert len(loopback.requests) == 1


def test_a_response_that_is_not_a_moderation_is_an_error(loopback: Loopback) -> None:
    loopback.reply(json_reply({"results": [{"flagged": "no", "categories": {}}]}))
    assert refused(openai(loopback), InvalidReplyError).startswith(
        f"openai:omni-moderation-latest at {loopback.base_url}: the response is not a moderation result: "
    )


def test_an_html_page_is_not_a_moderation(loopback: Loopback) -> None:
    loopback.reply(raw_reply(b"<html>", content_type="text/html"))
    assert refused(openai(loopback), InvalidReplyError).startswith(
        f"openai:omni-moderation-latest at {loopback.base_url}: the response is not a moderation result: "
    )


def test_a_silent_openai_moderation_times_out(loopback: Loopback) -> None:
    silent = threading.Event()
    loopback.reply(Reply(wait_for=silent))
    assert refused(openai(loopback, timeout=0.1), ModelTimeoutError).startswith(
        f"openai:omni-moderation-latest at {loopback.base_url}: no reply within 0.1 s"
    )
    silent.set()


def test_openai_without_a_key_says_what_to_do() -> None:
    assert refused(OpenAiModerator(), AuthenticationError) == (
        "openai:omni-moderation-latest: no API key; set OPENAI_API_KEY or pass api_key"
    )


def test_a_client_that_is_passed_in_is_used(loopback: Loopback) -> None:
    from openai import OpenAI

    loopback.reply(moderations([]))
    with OpenAI(base_url=loopback.base_url, api_key="k" * 9) as client:
        assert OpenAiModerator("my-guard", client=client).moderate(["a"]) == [FINE]
    assert loopback.requests[0].json == {"model": "my-guard", "input": ["a"]}
