"""A stream yields snapshots and events while the value is written, and a Result at the end."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol, TypedDict

import pytest
from loopback import DONE, MAX_WAIT, Loopback, delta, error, sse, stream_reply
from piecewise_model import EndlessModel, PiecewiseModel
from pydantic import BaseModel, Field, field_validator

from aiservices import (
    AsyncStream,
    AttemptStarted,
    AuthenticationError,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatRequest,
    Completed,
    FieldCompleted,
    FinishReason,
    InvalidReplyError,
    ModelConnectionError,
    ModelServerError,
    OpenAiChatModel,
    ReplyDelta,
    Result,
    ServiceOutputError,
    Strategy,
    Stream,
    StreamConsumedError,
    Usage,
    create,
)
from aiservices.interceptors import Answer, Emit, Flow, Invocation, Proceed

PLAIN = Capabilities(json_schema=True)
AT_ONCE = Budget(first_wait=0)
ANN = '{"name": "Ann Lee", "age": 31}'
PIECES = ['{"name": "Ann', ' Lee", "age"', ": 31", "}"]
PERSON_SO_FAR = [{"name": "Ann"}, {"name": "Ann Lee"}, {"name": "Ann Lee"}, {"name": "Ann Lee", "age": 31}]


@dataclass
class Person:
    name: str
    age: int


class People(Protocol):
    def grow(self, text: str) -> Stream[Person]: ...

    def agrow(self, text: str) -> AsyncStream[Person]: ...

    def all(self, text: str) -> Stream[list[int]]: ...

    def count(self, text: str) -> Stream[int]: ...

    def write(self, text: str) -> Stream[str]: ...

    def awrite(self, text: str) -> AsyncStream[str]: ...


def people(model: Any, **settings: Any) -> People:
    return create(People, model, **{"budget": AT_ONCE, **settings})


async def all_of(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def snapshots_of(service: People, kind: str) -> list[Any]:
    """Return all snapshots of a person as plain data."""
    if kind == "blocking":
        return [snapshot.to_python() for snapshot in service.grow("x")]

    async def snapshots() -> list[Any]:
        return [snapshot.to_python() async for snapshot in service.agrow("x")]

    return asyncio.run(snapshots())


def events_of(service: People, kind: str) -> list[Any]:
    if kind == "blocking":
        return list(service.grow("x").events())

    async def results() -> list[Any]:
        return await all_of(service.agrow("x").events())

    return asyncio.run(results())


def result_of(service: People, kind: str) -> Result[Person]:
    if kind == "blocking":
        return service.grow("x").result()

    async def awaited() -> Result[Person]:
        return await service.agrow("x").result()

    return asyncio.run(awaited())


both = pytest.mark.parametrize("kind", ["blocking", "async"])


# snapshots


@both
def test_snapshots_grow_with_the_text(kind: str) -> None:
    assert snapshots_of(people(PiecewiseModel(PIECES)), kind) == PERSON_SO_FAR


def test_the_last_snapshot_is_the_whole_value() -> None:
    *before, last = people(PiecewiseModel(PIECES)).grow("x")
    assert (last.value, last.done, [snapshot.done for snapshot in before]) == (
        Person("Ann Lee", 31),
        True,
        [False] * 3,
    )


def test_the_whole_value_is_shown_once() -> None:
    done = [snapshot for snapshot in people(PiecewiseModel(PIECES)).grow("x") if snapshot.done]
    assert len(done) == 1


def test_a_snapshot_does_not_change_when_more_comes() -> None:
    snapshots = list(people(PiecewiseModel(PIECES)).grow("x"))
    assert [snapshot.to_python() for snapshot in snapshots] == PERSON_SO_FAR


def test_half_a_number_is_never_shown() -> None:
    model = PiecewiseModel(['{"value": 1', "2", "3", "}"])
    assert [snapshot.value for snapshot in people(model).count("x")] == [None, None, None, 123]


def test_a_list_grows_out_of_its_envelope() -> None:
    model = PiecewiseModel(['{"value": [1', "2, ", "3", "4]", "}"])
    assert [snapshot.to_python() for snapshot in people(model).all("x")] == [
        [],
        [12],
        [12],
        [12, 34],
        [12, 34],
    ]


@both
def test_text_grows_piece_by_piece(kind: str) -> None:
    service = people(PiecewiseModel(["to ", "be ", "or"]))

    async def snapshots() -> list[Any]:
        return [(snapshot.value, snapshot.done) async for snapshot in service.awrite("x")]

    if kind == "blocking":
        results = [(snapshot.value, snapshot.done) for snapshot in service.write("x")]
    else:
        results = asyncio.run(snapshots())
    assert results == [("to ", False), ("to be ", False), ("to be or", False), ("to be or", True)]


def test_the_snapshot_can_be_read_without_waiting() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    results = [(stream.snapshot.value, stream.snapshot.done)]
    next(iter(stream))
    results.append((stream.snapshot.to_python(), stream.snapshot.done))
    stream.result()
    results.append((stream.snapshot.value, stream.snapshot.done))
    assert results == [(None, False), ({"name": "Ann"}, False), (Person("Ann Lee", 31), True)]


def test_any_cut_of_the_text_ends_with_the_same_value() -> None:
    for at in range(len(ANN) + 1):
        *_, last = people(PiecewiseModel([ANN[:at], ANN[at:]])).grow("x")
        assert (last.value, last.done) == (Person("Ann Lee", 31), True)


@both
def test_the_value_of_an_interceptor_is_the_last_snapshot_too(kind: str) -> None:
    def older(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        return replace(answer, value=replace(answer.value, age=99))

    service = people(PiecewiseModel(PIECES, PIECES), interceptors=[older])
    assert snapshots_of(service, kind)[-1] == {"name": "Ann Lee", "age": 99}
    assert result_of(service, kind).value == Person("Ann Lee", 99)


# events


@both
def test_events_tell_of_the_attempt_each_piece_each_field_and_the_result(kind: str) -> None:
    events = events_of(people(PiecewiseModel(PIECES)), kind)
    first, *results, last = events
    assert (first.number, first.model, first.strategy) == (1, "piecewise", Strategy.JSON_SCHEMA)
    assert [event for event in results if not getattr(event, "reply", None)] == [
        ReplyDelta(PIECES[0]),
        ReplyDelta(PIECES[1]),
        FieldCompleted("name", "Ann Lee"),
        ReplyDelta(PIECES[2]),
        ReplyDelta(PIECES[3]),
        FieldCompleted("age", 31),
    ]
    assert (type(last), last.result.value, last.result.text) == (Completed, Person("Ann Lee", 31), ANN)


def completed_fields(form: Any, *pieces: str) -> list[tuple[str | int, Any]]:
    """Return the FieldCompleted events of a stream of ``form``."""

    class Any_(Protocol):
        def grow(self, text: str) -> Stream[form]: ...

    service = create(Any_, PiecewiseModel(list(pieces)), localns={"form": form})
    return [tuple(event) for event in service.grow("x").events() if type(event) is FieldCompleted]


def test_items_of_a_list_are_reported_by_their_index() -> None:
    assert completed_fields(list[int], '{"value": [1', "2, 3", "4", "]}") == [(0, 12), (1, 34)]


def test_members_of_a_dict_are_reported_by_their_key() -> None:
    assert completed_fields(dict[str, int], '{"a": 1', "2, ", '"b": 3}') == [("a", 12), ("b", 3)]


class Aliased(BaseModel):
    full_name: str = Field(alias="fullName")
    age: int


def test_a_field_with_an_alias_is_told_once_by_its_name() -> None:
    assert completed_fields(Aliased, '{"fullName": "Ann", ', '"age": 31', "}") == [
        ("full_name", "Ann"),
        ("age", 31),
    ]


class Post(BaseModel):
    title: str
    body: str

    @field_validator("title")
    @classmethod
    def upper(cls, title: str) -> str:
        return title.upper()


def test_a_validated_field_is_an_event_before_the_next_field_is_complete() -> None:
    class Blog(Protocol):
        def write(self, text: str) -> Stream[Post]: ...

    pieces = ['{"title": "rome", "body": ', '"It ', 'is old."}']
    blog = create(Blog, PiecewiseModel(pieces))
    events = list(blog.write("x").events())
    fields = [FieldCompleted("title", "ROME"), FieldCompleted("body", "It is old.")]
    assert [event for event in events if isinstance(event, FieldCompleted)] == fields
    assert events.index(fields[0]) == events.index(fields[1]) - 3  # two deltas are between them


class Titled(TypedDict):
    title: str


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Counted:
    made: ClassVar[int] = 0
    name: str = ""
    tags: list[str] = field(default_factory=list)


def test_the_fields_of_a_typed_dict_are_events() -> None:
    assert completed_fields(Titled, '{"title": "A', ' b"}') == [("title", "A b")]


def test_each_field_of_a_named_tuple_is_one_event() -> None:
    results = completed_fields(Pair, '{"left": 1, ', '"right": 2}')
    assert results == [("left", 1), ("right", 2)]


def test_a_class_variable_is_not_a_field() -> None:
    assert completed_fields(Counted, '{"name": "Ann", ', '"tags": ["a"]}') == [
        ("name", "Ann"),
        ("tags", ["a"]),
    ]


def test_a_field_that_the_model_left_out_is_reported_with_its_default() -> None:
    assert completed_fields(Counted, '{"name": "Ann"', "}") == [("name", "Ann"), ("tags", [])]


def test_text_and_numbers_have_no_fields() -> None:
    assert [completed_fields(str, "to ", "be"), completed_fields(int, '{"value": 1', "}")] == [[], []]


def test_events_contain_the_reasoning_of_a_model() -> None:
    thought = ReplyDelta(reasoning="Who is it?")
    events = events_of(people(PiecewiseModel([thought, ANN])), "blocking")
    assert events[1] == thought


@both
def test_events_of_an_interceptor_do_not_change_the_snapshots(kind: str) -> None:
    def emitting(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield Emit("before")
        answer = yield from proceed(invocation)
        yield Emit("after")
        return answer

    service = people(PiecewiseModel(PIECES, PIECES, PIECES), interceptors=[emitting])
    events = events_of(service, kind)
    assert [event for event in events if isinstance(event, str)] == ["before", "after"]
    assert (events[0], events[-2], type(events[-1])) == ("before", "after", Completed)
    assert snapshots_of(service, kind) == PERSON_SO_FAR
    assert result_of(service, kind).value == Person("Ann Lee", 31)


def test_the_events_of_a_long_list_take_time_that_grows_with_its_length() -> None:
    def seconds(count: int) -> float:
        text = json.dumps({"value": list(range(count))})
        service = people(PiecewiseModel([text[at : at + 8] for at in range(0, len(text), 8)]))
        began = time.process_time()
        for _ in service.all("x").events():
            pass
        return time.process_time() - began

    seconds(100)
    assert seconds(3000) < 8 * seconds(750) + 0.05


# the result


@both
def test_the_result_is_that_of_a_call_that_blocks(kind: str) -> None:
    result = result_of(people(PiecewiseModel(PIECES)), kind)
    assert (result.value, result.text, result.strategy, result.usage, result.finish_reason) == (
        Person("Ann Lee", 31),
        ANN,
        Strategy.JSON_SCHEMA,
        Usage(1, 4),
        FinishReason.STOP,
    )
    assert ([attempt.model for attempt in result.attempts], result.seconds > 0) == (["piecewise"], True)


def test_the_result_can_be_read_again() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    assert stream.result() is stream.result()


def test_the_result_is_there_after_all_snapshots() -> None:
    model = PiecewiseModel(PIECES)
    stream = people(model).grow("x")
    list(stream)
    assert (stream.result().value, len(model.requests)) == (Person("Ann Lee", 31), 1)


READ_BEFORE = (
    "the stream was read to its end before, and a stream can be read only once; "
    "keep its snapshots, or call the method again"
)


@pytest.mark.parametrize("first", [list, lambda stream: list(stream.events()), Stream.result])
@pytest.mark.parametrize("second", [list, lambda stream: list(stream.events())])
def test_a_stream_that_is_read_a_second_time_raises_an_error(
    first: Callable[[Any], object], second: Callable[[Any], object]
) -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    first(stream)
    for _ in range(2):
        with pytest.raises(StreamConsumedError) as caught:
            second(stream)
        assert str(caught.value) == READ_BEFORE
    assert stream.result().value == Person("Ann Lee", 31)


def test_an_async_stream_that_is_read_a_second_time_raises_an_error() -> None:
    async def messages() -> list[str]:
        stream = people(PiecewiseModel(PIECES)).agrow("x")
        await all_of(aiter(stream))
        messages = []
        for items in (aiter(stream), stream.events()):
            with pytest.raises(StreamConsumedError) as caught:
                await all_of(items)
            messages.append(str(caught.value))
        assert await stream.result() is await stream.result()
        return messages

    assert asyncio.run(messages()) == [READ_BEFORE] * 2


def test_a_closed_stream_cannot_be_read() -> None:
    async def message() -> str:
        stream = people(PiecewiseModel(PIECES)).agrow("x")
        await stream.aclose()
        with pytest.raises(StreamConsumedError) as caught:
            await all_of(aiter(stream))
        return str(caught.value)

    model = PiecewiseModel(PIECES)
    stream = people(model).grow("x")
    stream.close()
    with pytest.raises(StreamConsumedError) as caught:
        list(stream)
    expected = READ_BEFORE.replace("read to its end", "closed")
    assert (str(caught.value), asyncio.run(message()), model.requests) == (expected, expected, [])


def test_a_stream_may_be_closed_in_its_loop() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    count = 0
    for _ in stream:
        count += 1
        stream.close()
    assert count == 1


# leaving an iteration and continuing


def test_iteration_continues_after_a_break() -> None:
    model = PiecewiseModel(PIECES)
    stream = people(model).grow("x")
    for snapshot in stream:
        first = snapshot.to_python()
        break
    second = next(iter(stream)).to_python()
    rest = [snapshot.to_python() for snapshot in stream]
    assert ([first, second, *rest], len(model.requests)) == (PERSON_SO_FAR, 1)


def test_async_iteration_continues_after_a_break() -> None:
    async def results() -> list[Any]:
        stream = people(PiecewiseModel(PIECES)).agrow("x")
        snapshots: list[Any] = []
        for _ in range(4):
            async for snapshot in stream:
                snapshots.append(snapshot.to_python())
                break
        return [*snapshots, (await stream.result()).value]

    assert asyncio.run(results()) == [*PERSON_SO_FAR, Person("Ann Lee", 31)]


def test_events_continue_after_the_last_snapshot() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    next(iter(stream))
    results = [type(event) for event in stream.events()]
    assert results == [
        ReplyDelta,
        FieldCompleted,
        ReplyDelta,
        ReplyDelta,
        FieldCompleted,
        ReplyDelta,
        Completed,
    ]


# sending and closing


@both
def test_nothing_is_sent_before_the_first_read(kind: str) -> None:
    model = PiecewiseModel(PIECES)
    service = people(model)
    if kind == "blocking":
        service.grow("x").close()
    else:
        asyncio.run(service.agrow("x").aclose())
    assert model.requests == []


@both
def test_a_stream_that_is_never_read_sends_nothing_and_does_not_warn(kind: str) -> None:
    model = PiecewiseModel(PIECES)
    if kind == "blocking":
        people(model).grow("x")
    else:

        async def made() -> None:
            people(model).agrow("x")

        asyncio.run(made())
    gc.collect()
    assert model.requests == []


def test_the_call_itself_reports_a_wrong_argument() -> None:
    service: Any = people(PiecewiseModel())
    with pytest.raises(TypeError, match=r"^People\.grow: missing a required argument: 'text'$"):
        service.grow()


def test_close_ends_a_stream_that_never_ends() -> None:
    model = EndlessModel()
    stream = people(model).write("x")
    for number, _ in enumerate(stream):
        if number == 5:
            stream.close()
            break
    sent_pieces = model.sent_pieces
    with pytest.raises(StreamConsumedError):
        list(stream)
    assert (model.closed, model.sent_pieces) == (1, sent_pieces)


def test_close_ends_an_async_stream_that_never_ends() -> None:
    model = EndlessModel()

    async def close() -> None:
        stream = people(model).awrite("x")
        async for _ in stream:
            break
        await stream.aclose()
        with pytest.raises(StreamConsumedError):
            await all_of(aiter(stream))

    asyncio.run(close())
    assert model.closed == 1


def test_the_with_block_ends_the_request() -> None:
    model = EndlessModel()
    with people(model).write("x") as stream:
        next(iter(stream))
        assert model.closed == 0
    assert model.closed == 1


def test_the_async_with_block_ends_the_request() -> None:
    model = EndlessModel()

    async def read() -> int:
        async with people(model).awrite("x") as stream:
            async for _ in stream:
                break
            return model.closed

    assert (asyncio.run(read()), model.closed) == (0, 1)


def test_an_error_in_the_with_block_ends_the_request_and_continues() -> None:
    model = EndlessModel()
    with pytest.raises(ZeroDivisionError), people(model).write("x") as stream:
        _ = 1 // int(next(iter(stream)).done)
    assert model.closed == 1


def test_result_raises_after_close() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    next(iter(stream))
    stream.close()
    with pytest.raises(StreamConsumedError) as caught:
        stream.result()
    assert str(caught.value) == "the stream was closed before the answer was complete: there is no result"


def test_a_result_outlives_the_with_block() -> None:
    with people(PiecewiseModel(PIECES)).grow("x") as stream:
        result = stream.result()
    stream.close()
    assert stream.result() is result


def test_the_snapshot_stays_after_close() -> None:
    stream = people(PiecewiseModel(PIECES)).grow("x")
    next(iter(stream))
    stream.close()
    assert (stream.snapshot.to_python(), stream.snapshot.done) == ({"name": "Ann"}, False)


def test_a_stream_that_is_forgotten_ends_its_request() -> None:
    model = EndlessModel()
    stream = people(model).write("x")
    next(iter(stream))
    del stream
    gc.collect()
    assert model.closed == 1


def test_a_cancelled_task_ends_the_request() -> None:
    class Hanging(PiecewiseModel):
        async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
            try:
                yield ReplyDelta("to ")
                await asyncio.Event().wait()
            finally:
                self.closed += 1

    model = Hanging()

    async def cancelled() -> None:
        async with asyncio.timeout(0.05):
            await people(model).awrite("x").result()

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
    assert model.closed == 1


# errors


@both
def test_an_error_is_that_of_a_call_that_blocks(kind: str) -> None:
    model = PiecewiseModel([AuthenticationError("401", status=401)])
    with pytest.raises(AuthenticationError) as caught:
        result_of(people(model), kind)
    where = "grow" if kind == "blocking" else "agrow"
    assert ([str(one.error) for one in caught.value.attempts], caught.value.qualname) == (
        ["401"],
        f"People.{where}",
    )


def test_an_error_is_raised_where_the_next_snapshot_is_asked_for_and_again_by_the_result() -> None:
    stream = people(PiecewiseModel([PIECES[0], AuthenticationError("gone")])).grow("x")
    snapshots = iter(stream)
    assert next(snapshots).to_python() == {"name": "Ann"}
    with pytest.raises(AuthenticationError) as first:
        next(snapshots)
    with pytest.raises(AuthenticationError) as second:
        stream.result()
    assert first.value is second.value


def test_an_error_of_an_async_stream_is_raised_again_by_the_result() -> None:
    async def results() -> list[str]:
        stream = people(PiecewiseModel([AuthenticationError("gone")])).agrow("x")
        messages = []
        for _ in range(2):
            try:
                await stream.result()
            except AuthenticationError as error:
                messages.append(str(error))
        return messages

    assert asyncio.run(results()) == ["gone", "gone"]


def test_a_stream_that_failed_does_not_pass_for_one_that_is_at_its_end() -> None:
    stream = people(PiecewiseModel([AuthenticationError("gone")])).grow("x")
    with pytest.raises(AuthenticationError):
        list(stream)
    with pytest.raises(AuthenticationError):
        list(stream)
    with pytest.raises(AuthenticationError):
        list(stream.events())


def test_an_unrelated_error_is_raised_unchanged() -> None:
    stream = people(PiecewiseModel([ZeroDivisionError()])).grow("x")
    with pytest.raises(ZeroDivisionError):
        stream.result()


@both
def test_a_stream_without_its_complete_reply_is_an_error(kind: str) -> None:
    model = PiecewiseModel(PIECES, is_complete=False)
    with pytest.raises(InvalidReplyError) as caught:
        result_of(people(model), kind)
    assert str(caught.value) == "the stream of piecewise ended before the reply was complete"


# starting again


@both
def test_snapshots_start_again_after_an_answer_that_does_not_fit(kind: str) -> None:
    model = PiecewiseModel(['{"name": "Bob"', ', "age": "old"}'], PIECES)
    snapshots = snapshots_of(people(model), kind)
    assert snapshots == [{"name": "Bob"}, {"name": "Bob"}, *PERSON_SO_FAR]


@both
def test_events_report_that_the_answer_starts_again(kind: str) -> None:
    model = PiecewiseModel(['{"name": "Bob"', ', "age": "old"}'], [ANN])
    events = events_of(people(model), kind)
    results = [event for event in events if not isinstance(event, (ReplyDelta, Completed))]
    assert [(one.number if isinstance(one, AttemptStarted) else tuple(one)) for one in results] == [
        1,
        ("name", "Bob"),
        2,
        ("name", "Ann Lee"),
        ("age", 31),
    ]


@both
def test_a_request_is_repeated_after_a_broken_connection(kind: str) -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    model = PiecewiseModel([PIECES[0], broken], PIECES)
    assert snapshots_of(people(model), kind) == [PERSON_SO_FAR[0], *PERSON_SO_FAR]
    assert (len(model.requests), model.closed) == (2, 2)


def test_text_snapshots_start_again_after_a_broken_connection() -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    stream = people(PiecewiseModel(["no, ", broken], ["to ", "be"])).write("x")
    assert [snapshot.value for snapshot in stream] == ["no, ", "to ", "to be", "to be"]
    assert stream.result().attempts[0].error is broken


def test_the_snapshot_is_empty_when_a_new_attempt_starts() -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    stream = people(PiecewiseModel([PIECES[0], broken], PIECES)).grow("x")
    for event in stream.events():
        if isinstance(event, AttemptStarted):
            assert (stream.snapshot.value, stream.snapshot.done) == (None, False)


@both
def test_no_more_attempts_are_made_than_the_budget_has(kind: str) -> None:
    model = PiecewiseModel(*[[PIECES[0], ModelServerError("500", retryable=True)] for _ in range(9)])
    with pytest.raises(ModelServerError) as caught:
        result_of(people(model, budget=Budget(max_attempts=4, first_wait=0)), kind)
    assert (len(model.requests), len(caught.value.attempts)) == (4, 4)


@both
def test_an_answer_that_never_fits_is_the_error_of_the_result(kind: str) -> None:
    model = PiecewiseModel(*[["old"] for _ in range(9)])
    with pytest.raises(ServiceOutputError) as caught:
        result_of(people(model), kind)
    assert ([one.text for one in caught.value.attempts], caught.value.usage) == (["old"] * 3, Usage(3, 3))


# the seconds of the budget


@both
def test_the_seconds_of_the_budget_end_a_stream_that_never_ends(kind: str) -> None:
    class Bounded(EndlessModel):
        def _deltas(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            for number, piece in enumerate(super()._deltas(request)):
                if number > 100:
                    raise AssertionError("the stream was not ended")
                yield piece

    model = Bounded('{"name": "', seconds=0.005)
    with pytest.raises(BudgetExceededError) as caught:
        result_of(people(model, budget=Budget(seconds=0.05)), kind)
    assert (caught.value.limit, len(caught.value.attempts), model.closed) == ("seconds", 1, 1)


# over HTTP


def over_http(loopback: Loopback) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=PLAIN)


def unfinished_reply() -> Any:
    """Return a stream whose second chunk never arrives."""
    return sse(delta(content='{"name": "An'), delta(content='n"'), wait_before={1: threading.Event()})


def test_the_server_sees_nothing_of_a_stream_that_was_not_read(loopback: Loopback) -> None:
    with over_http(loopback) as model:
        people(model).grow("x").close()
    assert loopback.requests == []


def test_the_server_sees_that_a_stream_was_closed(loopback: Loopback) -> None:
    loopback.reply(unfinished_reply())
    with over_http(loopback) as model:
        stream = people(model).grow("x")
        assert next(iter(stream)).to_python() == {"name": "An"}
        assert not loopback.hung_up.is_set()
        stream.close()
        assert loopback.hung_up.wait(MAX_WAIT)


def test_the_server_sees_that_an_async_stream_was_closed(loopback: Loopback) -> None:
    loopback.reply(unfinished_reply())

    async def read() -> tuple[bool, bool]:
        async with over_http(loopback) as model:
            async with people(model).agrow("x") as stream:
                async for _ in stream:
                    break
                before = loopback.hung_up.is_set()
            return before, await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert asyncio.run(read()) == (False, True)


def test_the_server_sees_that_the_task_was_cancelled(loopback: Loopback) -> None:
    loopback.reply(unfinished_reply())

    async def read() -> bool:
        begun = asyncio.Event()

        async def grow() -> None:
            async for _ in people(model).agrow("x"):
                begun.set()

        async with over_http(loopback) as model:
            task = asyncio.create_task(grow())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert asyncio.run(read())


def test_chunks_are_yielded_as_the_server_sends_them(loopback: Loopback) -> None:
    second = threading.Event()
    pieces = (delta(content='{"name": "Ann"'), delta(content=', "age": 31}'), delta("stop"), DONE)
    loopback.reply(sse(*pieces, wait_before={1: second}))
    with over_http(loopback) as model:
        snapshots = iter(people(model).grow("x"))
        assert next(snapshots).to_python() == {"name": "Ann"}
        second.set()
        assert [snapshot.value for snapshot in snapshots] == [Person("Ann", 31)]


@both
def test_a_connection_that_the_server_cuts_is_made_again(loopback: Loopback, kind: str) -> None:
    loopback.reply(sse(delta(content='{"name": "An'), cut_off=True), stream_reply(PIECES))
    model = over_http(loopback)
    assert snapshots_of(people(model), kind) == [{"name": "An"}, *PERSON_SO_FAR]
    model.close()
    assert len(loopback.requests) == 2


@both
def test_a_server_that_cuts_every_connection_gets_exactly_the_budget(loopback: Loopback, kind: str) -> None:
    loopback.reply(sse(delta(content='{"name": "An'), cut_off=True))
    model = over_http(loopback)
    with pytest.raises(ModelConnectionError) as caught:
        result_of(people(model, budget=Budget(max_attempts=4, first_wait=0)), kind)
    model.close()
    assert (len(loopback.requests), len(caught.value.attempts)) == (4, 4)


@both
def test_the_wait_that_the_server_asks_for_is_respected(loopback: Loopback, kind: str) -> None:
    loopback.reply(error(429, "slow down", headers={"retry-after-ms": "150"}), stream_reply(PIECES))
    model = over_http(loopback)
    result = result_of(people(model), kind)
    model.close()
    assert (result.value, result.seconds >= 0.15, len(loopback.requests)) == (Person("Ann Lee", 31), True, 2)


def test_snapshots_only_ever_grow_within_an_attempt(loopback: Loopback) -> None:
    loopback.reply(stream_reply(list(ANN)))
    with over_http(loopback) as model:
        snapshots = [snapshot.to_python() for snapshot in people(model).grow("x")]
    for before, after in pairwise(snapshots):
        for name, value in (before or {}).items():
            assert after[name] == value or str(after[name]).startswith(value)
