"""Synthesizer streams only the last request of a synthesis."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
from synthesis_replies import PROMPTS, Counted, counting

from aiservices import (
    AttemptStarted,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    Completed,
    DefinitionError,
    FieldCompleted,
    ModelServerError,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
)
from aiservices.guardrails import OutputGuardrails, ensure
from aiservices.retrieval import Content
from aiservices.synthesis import PartAnswered, ResponseMode, Synthesizer

PARTS = [Content("one", "a"), Content("two two", "b"), Content("three", "c")]
ONE_ANSWER = [mode for mode in ResponseMode if mode is not ResponseMode.ACCUMULATE]


def made(model: ScriptedChatModel, mode: Any, output_type: Any, **more: Any) -> Any:
    return Synthesizer(model, mode, output_type, **{"max_characters": 26, "prompts": PROMPTS, **more})


def kinds(events: Iterable[Any]) -> list[type]:
    return list(dict.fromkeys(map(type, events)))


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


# How to get the parts, the events and the result in each kind of call.
PIECES: dict[str, Callable[[Any], list[Any]]] = {
    "blocking": lambda s: list(s.iterate("how?", PARTS)),
    "awaited": lambda s: asyncio.run(listed(s.aiterate("how?", PARTS))),
}
EVENTS: dict[str, Callable[[Any], list[Any]]] = {
    "blocking": lambda s: list(s.stream("how?", PARTS).events()),
    "awaited": lambda s: asyncio.run(listed(s.astream("how?", PARTS).events())),
}
pieces = pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
events = pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)


@events
@pytest.mark.parametrize("mode", ONE_ANSWER)
def test_a_stream_shows_only_the_last_request(mode: ResponseMode, events: Callable[[Any], list[Any]]) -> None:
    model = ScriptedChatModel(counting)
    seen = events(made(model, mode, Counted))
    assert kinds(seen) == [AttemptStarted, ReplyDelta, FieldCompleted, Completed]
    result = seen[-1].result
    assert "".join(event.text for event in seen if isinstance(event, ReplyDelta)) == result.text
    assert [type(event) for event in seen].count(AttemptStarted) == 1
    assert (len(result.attempts), result.sources) == (len(model.requests), tuple(PARTS))


@pytest.mark.parametrize("mode", ResponseMode)
def test_a_stream_returns_the_same_result_as_a_blocking_call(mode: ResponseMode) -> None:
    whole = made(ScriptedChatModel(counting), mode, Counted).synthesize("how?", PARTS)
    stream: Stream[Any] = made(ScriptedChatModel(counting), mode, Counted).stream("how?", PARTS)
    *_, last = stream
    assert (last.value, last.done, stream.result().value) == (whole.value, True, whole.value)
    assert stream.result().coercions == whole.coercions


@pieces
@pytest.mark.parametrize("mode", ONE_ANSWER)
def test_iterate_yields_text_while_it_is_written(
    mode: ResponseMode, pieces: Callable[[Any], list[Any]]
) -> None:
    whole = made(ScriptedChatModel(counting), mode, str).synthesize("how?", PARTS).value
    model = ScriptedChatModel(counting)
    got = pieces(made(model, mode, str))
    assert ("".join(got), len(got) > 1) == (whole, True)


@pieces
def test_iterate_yields_a_list_item_by_item(pieces: Callable[[Any], list[Any]]) -> None:
    model = ScriptedChatModel(['{"value": [1]}', '{"value": [1, 2, 3]}'])
    assert pieces(made(model, "compact", list[int])) == [1, 2, 3]


@pieces
@pytest.mark.parametrize("output_type", [str, Counted])
def test_iterate_yields_accumulated_answers_one_by_one(
    output_type: Any, pieces: Callable[[Any], list[Any]]
) -> None:
    whole = made(ScriptedChatModel(counting), "accumulate", output_type).synthesize("how?", PARTS).value
    assert pieces(made(ScriptedChatModel(counting), "accumulate", output_type)) == whole
    assert len(whole) == 3


@events
def test_a_stream_of_accumulate_emits_an_event_for_each_answer(events: Callable[[Any], list[Any]]) -> None:
    seen = events(made(ScriptedChatModel(counting), "accumulate", str))
    assert seen[:3] == [
        PartAnswered(0, "read a"),
        PartAnswered(1, "read b"),
        PartAnswered(2, "read c"),
    ]
    assert seen[-1].result.value == ["read a", "read b", "read c"]


def test_accumulate_returns_a_list_for_one_content() -> None:
    stream = made(ScriptedChatModel(counting), "accumulate", str).stream("how?", PARTS[:1])
    assert [snapshot.value for snapshot in stream] == [["read a"]]


def test_an_answer_is_yielded_before_the_later_ones_are_complete() -> None:
    handed = threading.Event()

    def answered(request: ChatRequest) -> str:
        if "[c]" in request.messages[-1].text:
            assert handed.wait(30), "the first answer was not handed out before the last one came"
        return counting(request)

    answers = made(ScriptedChatModel(answered), "accumulate", str).iterate("how?", PARTS)
    assert next(answers) == "read a"
    handed.set()
    assert list(answers) == ["read b", "read c"]


class Waiting(ScriptedChatModel):
    """A model that waits for an event before it answers requests with the content "c"."""

    def __init__(self) -> None:
        super().__init__(counting)
        self.gate = asyncio.Event()
        self.cancelled = 0

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        if "[c]" in request.messages[-1].text:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return await super().acomplete(request)


def test_an_async_iterator_yields_an_answer_before_the_later_ones_are_complete() -> None:
    async def ask() -> list[str]:
        model = Waiting()
        answers = made(model, "accumulate", str).aiterate("how?", PARTS)
        first = await anext(answers)
        model.gate.set()
        return [first, *[answer async for answer in answers]]

    assert asyncio.run(ask()) == ["read a", "read b", "read c"]


def test_closing_an_async_iterator_early_cancels_running_questions() -> None:
    async def ask() -> int:
        model = Waiting()
        answers = made(model, "accumulate", str).aiterate("how?", PARTS)
        await anext(answers)
        await answers.aclose()
        for _ in range(10):  # cancelled tasks end when the event loop runs them again
            await asyncio.sleep(0)
        return model.cancelled

    assert asyncio.run(ask()) == 1


def test_closing_an_iterator_early_starts_no_more_questions() -> None:
    model = ScriptedChatModel(counting)
    answers = made(model, "accumulate", str, max_concurrency=1).iterate("how?", PARTS * 40)
    next(answers)
    answers.close()
    asked = len(model.requests)
    assert asked < 120
    threading.Event().wait(0.05)
    assert len(model.requests) <= asked + 1


def test_an_error_is_raised_while_other_questions_still_run() -> None:
    class Failing(Waiting):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            if "[b]" in request.messages[-1].text:
                raise ModelServerError("down")
            return await super().acomplete(request)

    async def ask() -> int:
        model = Failing()
        with pytest.raises(ModelServerError, match=r"^down"):
            await made(model, "accumulate", str).asynthesize("how?", [PARTS[2], PARTS[1]])
        return model.cancelled

    assert asyncio.run(ask()) == 1


def test_no_request_is_sent_before_a_stream_is_read() -> None:
    model = ScriptedChatModel(counting)
    made(model, "refine", Counted).stream("how?", PARTS)
    made(model, "refine", str).iterate("how?", PARTS)
    assert model.requests == []


def test_an_unreadable_last_answer_is_requested_again() -> None:
    model = ScriptedChatModel(['{"value": 1}', "none", '{"value": 2}'])
    seen = list(made(model, "refine", int).stream("how?", PARTS[:2]).events())
    assert [event.number for event in seen if isinstance(event, AttemptStarted)] == [1, 2]
    assert (seen[-1].result.value, len(seen[-1].result.attempts)) == (2, 3)


def test_nothing_is_requested_again_after_a_part_was_yielded() -> None:
    model = ScriptedChatModel(['{"value": []}', '{"value": [1, "x"]}', '{"value": [1, 2]}'])
    items = made(model, "refine", list[int]).iterate("how?", PARTS[:2])
    assert next(items) == 1
    with pytest.raises(ServiceOutputError) as caught:
        next(items)
    assert (len(model.requests), len(caught.value.attempts)) == (2, 2)


def test_an_error_before_the_last_request_ends_the_stream_with_all_attempts() -> None:
    model = ScriptedChatModel(['{"value": 1}', "none", "none"])
    stream = made(model, "refine", int, budget=Budget(max_attempts=2)).stream("how?", PARTS)
    with pytest.raises(ServiceOutputError) as caught:
        stream.result()
    assert len(caught.value.attempts) == 3


@pieces
def test_a_guard_sees_an_answer_before_it_is_shown(pieces: Callable[[Any], list[Any]]) -> None:
    guard = OutputGuardrails(ensure(lambda text: text == "Good.", "Say: Good."))
    model = ScriptedChatModel(["Bad.", "Good."])
    assert pieces(made(model, "simple_summarize", str, max_characters=100, interceptors=[guard])) == ["Good."]


def test_only_what_is_shown_gives_up_strictness_to_keep_its_shape() -> None:
    model = ScriptedChatModel(
        ['{"value": []}', '{"a": 1}'], capabilities=Capabilities(json_schema=True, strict_schema=True)
    )
    synthesizer = made(model, "refine", dict[str, int])
    assert synthesizer.stream("how?", PARTS[:2]).result().value == {"a": 1}
    formats: list[Any] = [request.response_format for request in model.requests]
    assert [one.strict for one in formats] == [True, False]


@pytest.mark.parametrize("output_type", [int, Counted, dict[str, int]])
def test_iterate_refuses_types_without_parts(output_type: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        made(ScriptedChatModel([]), "refine", output_type).iterate("how?", PARTS)
    name = "dict[str, int]" if output_type == dict[str, int] else output_type.__name__
    assert str(caught.value) == (
        f"Synthesizer.iterate: {name} is neither text nor a list, so it has no parts; use stream"
    )


@pytest.mark.parametrize("form", [Stream[int], Result[int]])
def test_output_type_must_be_the_type_of_one_answer(form: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        Synthesizer(ScriptedChatModel([]), "refine", form)
    assert str(caught.value) == (
        "Synthesizer: output_type must be the type of one answer; call stream or iterate to get it while it "
        "is written"
    )
