"""With ``chunks`` guards check a text part by part, and a stream shows each part once all have passed it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import pytest
from hypothesis import given, strategies as st

from aiservices import (
    AiMessage,
    AsyncStream,
    Budget,
    ChatReply,
    Completed,
    DefinitionError,
    ModelServerError,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    Usage,
    create,
)
from aiservices.guardrails import (
    Chunks,
    GuardrailError,
    GuardrailRan,
    OutputGuardrails,
    Reprompt,
    ensure,
    forbidden,
    masked,
    max_length,
    paragraphs,
    passed,
    reprompt,
    retry,
    rewritten,
    sentences,
)
from aiservices.guardrails.parts import TextParts
from aiservices.memory import ChatMemory
from aiservices.moderation import Moderation, ModerationResult
from tests.piecewise_model import EndlessModel, PiecewiseModel


class Chat(Protocol):
    def pieces(self, text: str) -> Iterator[str]: ...

    def growing(self, text: str) -> Stream[str]: ...

    def whole(self, text: str) -> Result[str]: ...

    def apieces(self, text: str) -> AsyncIterator[str]: ...

    def agrowing(self, text: str) -> AsyncStream[str]: ...

    async def awhole(self, text: str) -> Result[str]: ...


class AsyncChat(Protocol):
    def apieces(self, text: str) -> AsyncIterator[str]: ...

    def agrowing(self, text: str) -> AsyncStream[str]: ...


@dataclass
class Note:
    text: str


class Notes(Protocol):
    def notes(self, text: str) -> Iterator[Note]: ...


def drained(pieces: Iterator[Any]) -> tuple[list[Any], Exception | None]:
    """Return what an iterator yields, and the error that ends it."""
    seen: list[Any] = []
    try:
        seen.extend(pieces)
    except Exception as error:
        return seen, error
    return seen, None


def adrained(pieces: AsyncIterator[Any]) -> tuple[list[Any], Exception | None]:
    async def read() -> tuple[list[Any], Exception | None]:
        seen: list[Any] = []
        try:
            async for piece in pieces:
                seen.append(piece)  # noqa: PERF401  # the pieces before an error are needed
        except Exception as error:
            return seen, error
        return seen, None

    return asyncio.run(read())


def texts_of(drained_events: tuple[list[Any], Exception | None]) -> tuple[list[str], Exception | None]:
    events, error = drained_events
    return [event.text for event in events if isinstance(event, ReplyDelta) and event.text], error


# Each function returns the parts that a stream shows, and the error that ends it.
STREAMS: dict[str, Callable[[Any], tuple[list[str], Exception | None]]] = {
    "Iterator[str]": lambda chat: drained(chat.pieces("x")),
    "Stream[str]": lambda chat: texts_of(drained(chat.growing("x").events())),
    "AsyncIterator[str]": lambda chat: adrained(chat.apieces("x")),
    "AsyncStream[str]": lambda chat: texts_of(adrained(chat.agrowing("x").events())),
}
every_stream = pytest.mark.parametrize("kind", STREAMS)


def chat_of(model: Any, *guards: Any, chunks: Chunks | None = None, **settings: Any) -> Chat:
    guardrails = OutputGuardrails(
        *guards, chunks=chunks or sentences(), max_attempts=settings.pop("most", None)
    )
    return create(Chat, model, interceptors=[*settings.pop("outer", ()), guardrails], **settings)


@every_stream
def test_a_part_is_shown_as_the_guards_left_it(kind: str) -> None:
    model = PiecewiseModel(["One", ". Two is hun", "ter2! ", "Three"])
    assert STREAMS[kind](chat_of(model, masked("hunter2"))) == (["One. ", "Two is ***! ", "Three"], None)


def test_a_part_is_shown_before_the_next_one_is_written() -> None:
    model = PiecewiseModel(["One. ", "Two", ". ", "Three."])
    shown = chat_of(model, masked("x")).pieces("x")
    assert (next(shown), model.sent_pieces) == ("One. ", 1)
    assert (next(shown), model.sent_pieces) == ("Two. ", 3)


@every_stream
def test_a_refused_part_ends_the_call_after_the_parts_before_it(kind: str) -> None:
    model = PiecewiseModel(["One. A SEC", "RET is here. More. ", "Even more."])
    shown, error = STREAMS[kind](chat_of(model, forbidden("secret")))
    assert isinstance(error, GuardrailError)
    assert (shown, str(error).partition(": ")[2], error.text) == (
        ["One. "],
        "the output guard forbidden refused: the text contains 'SECRET', which is forbidden",
        "A SECRET is here. ",
    )
    [attempt] = error.attempts
    assert (attempt.text, attempt.error) == ("One. A SECRET is here. More. ", error)
    assert (model.sent_pieces, model.closed) == (2, 1)


@every_stream
def test_a_refused_part_ends_an_endless_reply(kind: str) -> None:
    model = EndlessModel("One. ", "la. ")
    shown, error = STREAMS[kind](chat_of(model, forbidden("la")))
    assert (shown, isinstance(error, GuardrailError), model.closed) == (["One. "], True, 1)


@every_stream
@pytest.mark.parametrize("again", [retry, reprompt])
def test_the_model_is_asked_again_before_the_first_part_was_shown(kind: str, again: Any) -> None:
    model = PiecewiseModel(["A SECRET. ", "More."], ["Tea. ", "Milk."])
    assert STREAMS[kind](chat_of(model, forbidden("secret", otherwise=again))) == (["Tea. ", "Milk."], None)
    feedback = [AiMessage("A SECRET. More.")] if again is reprompt else []
    assert list(model.requests[1].messages[1:2]) == feedback


@every_stream
@pytest.mark.parametrize("again", [retry, reprompt])
def test_the_model_is_not_asked_again_after_the_first_part_was_shown(kind: str, again: Any) -> None:
    model = PiecewiseModel(["Tea. ", "A SECRET. ", "More."], ["Tea."])
    shown, error = STREAMS[kind](chat_of(model, forbidden("secret", otherwise=again)))
    assert (shown, str(error).partition(": ")[2]) == (
        ["Tea. "],
        "the output guard forbidden rejected its only answer: the text contains 'SECRET', which is "
        "forbidden; no further request: a stream has already handed out text",
    )
    assert len(model.requests) == 1


@every_stream
def test_rejected_answers_count(kind: str) -> None:
    model = PiecewiseModel(["A SECRET."], ["A SECRET."], ["Tea."])
    guard = forbidden("secret", otherwise=retry)
    shown, error = STREAMS[kind](chat_of(model, guard, most=2))
    assert (shown, len(model.requests)) == ([], 2)
    assert str(error).partition(": ")[2] == (
        "the output guard forbidden rejected all 2 answers: the text contains 'SECRET', which is forbidden"
    )


@every_stream
def test_a_stream_that_starts_over_after_an_error_may_ask_again(kind: str) -> None:
    """An iterator cannot take back what it has yielded; a Stream can."""
    model = PiecewiseModel(["Tea. ", ModelServerError("500", retryable=True)], ["SECRET. "], ["Milk."])
    budget = Budget(first_wait=0)
    shown, error = STREAMS[kind](chat_of(model, forbidden("secret", otherwise=retry), budget=budget))
    if "Iterator" in kind:
        assert (shown, str(error)) == (["Tea. "], "500")
    else:
        assert (shown, error) == (["Tea. ", "Milk."], None)


def test_the_result_of_a_stream_is_what_was_shown() -> None:
    chat = chat_of(PiecewiseModel(["One SEC", "RET. ", "Two."]), masked("SECRET"))
    with chat.growing("x") as stream:
        events = list(stream.events())
        result = stream.result()
    assert (result.value, result.text, result.attempts[0].text) == (
        "One ***. Two.",
        "One ***. Two.",
        "One SECRET. Two.",
    )
    assert "SECRET" not in repr([event for event in events if not isinstance(event, Completed)])


def test_memory_has_what_was_shown() -> None:
    model = PiecewiseModel(["One SECRET. "], ["Two."])
    chat = chat_of(model, masked("SECRET"), outer=[ChatMemory()])
    assert [*chat.pieces("x"), *chat.pieces("y")] == ["One ***. ", "Two."]
    assert [message.text for message in model.requests[1].messages] == ["x", "One ***. ", "y"]


def test_a_blocking_call_checks_the_same_parts() -> None:
    seen: list[str] = []

    def note(text: str, invocation: Any) -> Any:
        seen.append(text)
        return rewritten(text.upper())

    result = chat_of(ScriptedChatModel(["One. Two.\nThree"]), note).whole("x")
    assert (result.value, result.text, seen) == (
        "ONE. TWO.\nTHREE",
        "ONE. TWO.\nTHREE",
        ["One. ", "Two.\n", "Three"],
    )


def test_a_blocking_call_may_ask_again_after_its_first_part() -> None:
    model = ScriptedChatModel(["Tea. A SECRET.", "Tea. Milk."])
    result = chat_of(model, forbidden("secret", otherwise=reprompt)).whole("x")
    assert (result.value, model.requests[1].messages[1]) == ("Tea. Milk.", AiMessage("Tea. A SECRET."))


def test_answers_of_other_types_are_checked_as_a_whole() -> None:
    model = ScriptedChatModel(['{"value": [{"text": "One. A SECRET."}, {"text": "tea"}]}'] * 2)
    guards = OutputGuardrails(masked("SECRET"), chunks=sentences())
    assert list(create(Notes, model, interceptors=[guards]).notes("x")) == [Note("One. A ***."), Note("tea")]
    guards = OutputGuardrails(forbidden("SECRET"), chunks=sentences())
    seen, error = drained(create(Notes, model, interceptors=[guards]).notes("x"))
    assert (seen, isinstance(error, GuardrailError)) == ([], True)


@every_stream
def test_an_empty_answer_is_checked(kind: str) -> None:
    guard = ensure(lambda text: bool(text.strip()), "Write something.", otherwise=retry)
    model = PiecewiseModel([], ["Tea. ", "\n"])
    # white space at the end is not checked
    assert STREAMS[kind](chat_of(model, guard)) == (["Tea. ", "\n"], None)


@every_stream
def test_two_output_guardrails_check_the_parts_one_after_the_other(kind: str) -> None:
    first, second = OutputGuardrails(masked("b", by="c"), chunks=sentences()), masked("c", by="d")
    outer = [OutputGuardrails(second, chunks=paragraphs())]
    model = PiecewiseModel(["a b. c", "\n\n", "e"])
    chat = create(Chat, model, interceptors=[*outer, first])
    assert STREAMS[kind](chat) == (["a d. d\n\n", "e"], None)
    refusing = [OutputGuardrails(forbidden("c"), chunks=sentences())]
    chat = create(Chat, PiecewiseModel(["a. ", "b. ", "e"]), interceptors=[*refusing, first])
    shown, error = STREAMS[kind](chat)
    assert (shown, isinstance(error, GuardrailError)) == (["a. "], True)


@every_stream
def test_guards_without_chunks_hold_everything_back(kind: str) -> None:
    guards = [OutputGuardrails(max_length(9)), OutputGuardrails(masked("b"), chunks=sentences())]
    shown, error = STREAMS[kind](create(Chat, ScriptedChatModel(["a. b. c. d. e."]), interceptors=guards))
    assert (shown, isinstance(error, GuardrailError)) == ([], True)


@every_stream
def test_moderation_comes_before_the_first_part(kind: str) -> None:
    class Moderator:
        def moderate(self, texts: Any, /) -> list[ModerationResult]:
            return [ModerationResult(flagged=text == "bad") for text in texts]

    outer = [Moderation(Moderator())]
    assert STREAMS[kind](chat_of(PiecewiseModel(["a. ", "b."]), masked("b"), outer=outer)) == (
        ["a. ", "***."],
        None,
    )


def test_text_beside_the_calls_of_tools_is_checked_too() -> None:
    call = (ToolCall("1", "look", "{}"),)
    model = ScriptedChatModel([ChatReply(AiMessage("Let me SEE. Wait.", call)), "Done. Well."])
    guards = OutputGuardrails(masked("SEE"), chunks=sentences())
    chat = create(Chat, model, interceptors=[guards], tools=[look])
    assert list(chat.pieces("x")) == ["Let me ***. ", "Wait.", "Done. ", "Well."]


def test_rejected_text_beside_the_calls_of_tools_is_not_shown() -> None:
    call = (ToolCall("1", "look", "{}"),)
    model = ScriptedChatModel([ChatReply(AiMessage("A SECRET. Wait.", call)), "Done. Well."])
    guards = OutputGuardrails(forbidden("secret", otherwise=retry), chunks=sentences())
    chat = create(Chat, model, interceptors=[guards], tools=[look])
    assert list(chat.pieces("x")) == ["Done. ", "Well."]


def look() -> str:
    """Look."""
    return "nothing"


def test_a_guard_may_be_async_in_async_streams() -> None:
    async def hide(text: str, invocation: Any) -> Any:
        await asyncio.sleep(0)
        return masked("SECRET")(text, invocation)

    guards = OutputGuardrails(hide, chunks=sentences())
    chat = create(AsyncChat, PiecewiseModel(["A SEC", "RET. ", "Tea"]), interceptors=[guards])
    assert adrained(chat.apieces("x")) == (["A ***. ", "Tea"], None)


def test_a_guard_that_hangs_ends_at_the_time_limit() -> None:
    async def hang(text: str, invocation: Any) -> Any:
        await asyncio.sleep(60)

    guards = OutputGuardrails(hang, chunks=sentences())
    budget = Budget(seconds=0.1)
    chat = create(AsyncChat, PiecewiseModel(["A. ", "B. "]), interceptors=[guards], budget=budget)
    shown, error = adrained(chat.apieces("x"))
    assert (shown, type(error).__name__) == ([], "BudgetExceededError")


@every_stream
def test_listeners_get_the_verdict_on_each_part(kind: str) -> None:
    events: list[Any] = []
    model = PiecewiseModel(["a. ", "b. c"])
    STREAMS[kind](chat_of(model, forbidden("c", otherwise=retry), listeners=[events.append], most=1))
    ran = [event for event in events if isinstance(event, GuardrailRan)]
    assert [type(event.verdict) for event in ran] == [type(passed()), type(passed()), Reprompt]
    assert {event.invocation.id for event in ran if event.invocation} == {events[0].invocation.id}


def test_the_usage_of_a_refused_reply_is_read_if_the_budget_limits_it() -> None:
    model = PiecewiseModel(["a. ", "b. ", "c. ", "d."])
    chat = chat_of(model, forbidden("b"), budget=Budget(tokens=99))
    shown, error = drained(chat.pieces("x"))
    assert isinstance(error, GuardrailError)
    assert error.attempts[0].reply is not None
    assert (shown, model.sent_pieces, error.attempts[0].reply.usage) == (["a. "], 4, Usage(1, 4))


def test_a_stream_that_is_left_early_closes_the_request() -> None:
    model = EndlessModel("One. ", "la. ")
    pieces: Any = chat_of(model, masked("x")).pieces("x")
    assert next(pieces) == "One. "
    pieces.close()
    assert model.closed == 1


# --- where parts end ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four… Five", ["One. ", "Two! ", "Three? ", "Four… ", "Five"]),
        (
            'He said "Stop!" and left. (It was late.) So',
            ['He said "Stop!" ', "and left. ", "(It was late.) ", "So"],
        ),
        ("It costs 3.14 at a.b.c", ["It costs 3.14 at a.b.c"]),
        ("- tea\n- milk\n\nEnd", ["- tea\n", "- milk\n", "\nEnd"]),
        ("是。“好！”然后", ["是。", "“好！”", "然后"]),
        ("  \n Yes. No", ["  \n Yes. ", "No"]),
        ("Wait... what?! No", ["Wait... ", "what?! ", "No"]),
        ("", [""]),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert split(text, sentences()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\nTwo.\n\nThree.\n \nFour", ["One.\nTwo.\n\n", "Three.\n \n", "Four"]),
        ("\n\nOne\r\n\r\nTwo", ["\n\nOne\r\n\r\n", "Two"]),
    ],
)
def test_where_paragraphs_end(text: str, expected: list[str]) -> None:
    assert split(text, paragraphs()) == expected


def split(text: str, chunks: Chunks, cuts: list[int] | None = None) -> list[str]:
    parts, made = TextParts(chunks), []
    borders = [0, *sorted(cuts or []), len(text)]
    for start, end in pairwise(borders):
        parts.add(text[start:end])
        made += [part for part, _ in parts.complete(is_last=False)]
    return made + [part for part, _ in parts.complete(is_last=True)]


TEXTS = st.text("ab SX.!?…。」\"')\n\r\t*", max_size=60)
LONG = st.lists(st.sampled_from(["word " * 90, "tea. ", "a\n\n", "x" * 700, "。"]), max_size=8).map("".join)
CUTS = st.lists(st.integers(0, 4000), max_size=30)


@given(TEXTS | LONG, CUTS, st.sampled_from([sentences(), paragraphs()]))
def test_the_parts_do_not_depend_on_the_pieces(text: str, cuts: list[int], chunks: Chunks) -> None:
    cuts = [cut % (len(text) + 1) for cut in cuts]
    assert split(text, chunks, cuts) == split(text, chunks)
    assert "".join(split(text, chunks)) == text


def shouted(text: str, invocation: Any) -> Any:
    return rewritten(text.replace("b", "BB")) if "b" in text else passed()


GUARDS = {
    "masked": (masked("a", by=""),),
    "rewritten": (shouted, masked("BB", by="c")),
    "refused": (forbidden("S"),),
    "retry": (forbidden("X", otherwise=retry),),
    "reprompt": (shouted, forbidden("SS", otherwise=reprompt)),
}


@given(
    replies=st.lists(TEXTS, min_size=3, max_size=3),
    cuts=CUTS,
    guards=st.sampled_from(list(GUARDS)),
    chunks=st.sampled_from([sentences(), paragraphs()]),
    kind=st.sampled_from(list(STREAMS)),
)
def test_streams_and_blocking_calls_agree(
    replies: list[str], cuts: list[int], guards: str, chunks: Chunks, kind: str
) -> None:
    def piecewise(text: str) -> list[str]:
        borders = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
        return [text[start:end] for start, end in pairwise(borders)]

    streamed = PiecewiseModel(*map(piecewise, replies))
    blocking = ScriptedChatModel(replies)
    shown, error = STREAMS[kind](chat_of(streamed, *GUARDS[guards], chunks=chunks))
    results, refused = drained(chat_of(blocking, *GUARDS[guards], chunks=chunks).whole(text) for text in "x")
    if error is None:
        assert ("".join(shown), refused) == (results[0].value, None)
        assert [request.messages for request in streamed.requests] == [
            request.messages for request in blocking.requests
        ]
    elif shown and len(blocking.requests) > len(streamed.requests):
        pass  # a blocking call has shown nothing yet, so it sent another request
    else:
        assert isinstance(error, GuardrailError)
        assert isinstance(refused, GuardrailError)
        assert (refused.reason, refused.text) == (error.reason, error.text)


@pytest.mark.parametrize(
    "text",
    ["x" * 200_000, "a. " * 70_000, "." * 200_000, "\n " * 100_000, "。」" * 100_000, "(x.) " * 40_000],
)
@pytest.mark.parametrize("step", [1, 200_000])
@pytest.mark.parametrize("chunks", [sentences(), paragraphs()])
def test_splitting_takes_time_in_proportion_to_the_length(text: str, step: int, chunks: Chunks) -> None:
    searched = 0

    def counted(window: str) -> int:
        nonlocal searched
        searched += len(window)
        return chunks(window)

    parts = TextParts(counted)
    for start in range(0, len(text), step):
        parts.add(text[start : start + step])
        for _ in parts.complete(is_last=False):
            pass
    for _ in parts.complete(is_last=True):
        pass
    assert searched < 280 * len(
        text
    )  # windows of 256 characters; the square would be 100,000 times the length


@pytest.mark.parametrize("chunks", [sentences(), paragraphs()])
@pytest.mark.parametrize("unit", ["x", ".", "\n", " ", "。", "」", '."', "\n ", "a. "])
def test_the_patterns_take_linear_time(chunks: Chunks, unit: str) -> None:
    import time

    def seconds(size: int) -> float:
        text = "x" + unit * (size // len(unit))
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            chunks(text)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(400_000) < max(40 * seconds(40_000), 0.05)


# --- mistakes ---


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (
            99,
            "ValueError: it returned 99 for a text of 3 characters; it must return the length of the first "
            "complete part, or 0",
        ),
        (
            -1,
            "ValueError: it returned -1 for a text of 3 characters; it must return the length of the first "
            "complete part, or 0",
        ),
        (
            None,
            "ValueError: it returned None for a text of 3 characters; it must return the length of the first "
            "complete part, or 0",
        ),
    ],
)
@every_stream
def test_a_wrong_length_is_an_error(kind: str, returned: Any, problem: str) -> None:
    def cut(text: str) -> Any:
        return returned

    shown, error = STREAMS[kind](chat_of(PiecewiseModel(["a. "]), masked("x"), chunks=cut))
    assert (shown, str(error).partition(": ")[2]) == ([], f"the output guard cut failed: {problem}")
    with pytest.raises(GuardrailError, match="the output guard cut failed: "):
        chat_of(ScriptedChatModel(["a. "]), masked("x"), chunks=cut).whole("x")


def test_a_text_can_only_be_rewritten_as_a_text() -> None:
    def wrong(text: str, invocation: Any) -> Any:
        return rewritten(3)

    _, error = drained(chat_of(PiecewiseModel(["a. "]), wrong).pieces("x"))
    assert str(error) == "Chat.pieces: the output guard wrong failed: TypeError: it rewrote a text as int"


async def later(text: str) -> int:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (3, "chunks has the type int; pass a function of (text)"),
        (
            sentences,
            "chunks is sentences, which cannot be called with (text): too many positional arguments",
        ),
        (later, "chunks is async, and nothing awaits it; pass a plain function"),
    ],
)
def test_chunks_must_be_a_function_of_a_text(chunks: Any, problem: str) -> None:
    with pytest.raises(DefinitionError, match=re.escape(f"OutputGuardrails: {problem}")):
        OutputGuardrails(masked("x"), chunks=chunks)
