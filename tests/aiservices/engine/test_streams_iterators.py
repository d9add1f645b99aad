"""The items of a list are yielded one by one, each as soon as it is complete."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from loopback import DONE, MAX_WAIT, Loopback, delta, error, sse, stream_reply
from piecewise_model import EndlessModel, PiecewiseModel

from aiservices import (
    AiMessage,
    AuthenticationError,
    Budget,
    Capabilities,
    ChatReply,
    FinishReason,
    InvalidReplyError,
    JsonSchemaFormat,
    ModelConnectionError,
    ModelServerError,
    OpenAiChatModel,
    Problem,
    RefusalError,
    ServiceOutputError,
    TruncatedError,
    Usage,
    create,
)
from aiservices.interceptors import Answer, Emit, Flow, Invocation, Proceed
from output_parsers import ItemError, OutputParsingError

PLAIN = Capabilities(json_schema=True)
AT_ONCE = Budget(first_wait=0)
ANN, BOB = '{"name": "Ann", "age": 31}', '{"name": "Bob", "age": 5}'
OLD = '{"name": "Cid", "age": "old"}'
PROBLEM = "expected an integer"


@dataclass
class Person:
    name: str
    age: int


PEOPLE = [Person("Ann", 31), Person("Bob", 5)]


class People(Protocol):
    def each(self, text: str) -> Iterator[Person]: ...

    def aeach(self, text: str) -> AsyncIterator[Person]: ...

    def kept(self, text: str) -> Iterator[Person | ItemError]: ...

    def akept(self, text: str) -> AsyncIterator[Person | ItemError]: ...

    def numbers(self, text: str) -> Iterator[int]: ...

    def words(self, text: str) -> Iterator[str | int]: ...


def people(model: Any, **settings: Any) -> People:
    return create(People, model, **{"budget": AT_ONCE, **settings})


def listed(*items: str) -> str:
    return f'{{"value": [{", ".join(items)}]}}'


def words_of(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def items_of(service: People, kind: str, *, kept: bool = False) -> tuple[list[Any], Exception | None]:
    """Return all items that an iterator yields, and the error that ends it."""
    items: list[Any] = []

    async def aread() -> None:
        async for item in service.akept("x") if kept else service.aeach("x"):
            items.append(item)  # noqa: PERF401  # what came before an error is wanted

    try:
        if kind == "async":
            asyncio.run(aread())
        else:
            items.extend(service.kept("x") if kept else service.each("x"))
    except Exception as error:
        return items, error
    return items, None


both = pytest.mark.parametrize("kind", ["blocking", "async"])


# handing over


@both
def test_items_come_in_their_order_each_once(kind: str) -> None:
    assert items_of(people(PiecewiseModel(words_of(listed(ANN, BOB)))), kind) == (PEOPLE, None)


@both
def test_an_item_is_yielded_as_soon_as_it_is_complete(kind: str) -> None:
    model = PiecewiseModel(['{"value": [' + ANN, ", ", BOB, "]}"])
    service = people(model)

    async def steps() -> list[tuple[Person, int]]:
        return [(person, model.sent_pieces) async for person in service.aeach("x")]

    if kind == "async":
        told = asyncio.run(steps())
    else:
        told = [(person, model.sent_pieces) for person in service.each("x")]
    assert told == [(PEOPLE[0], 1), (PEOPLE[1], 3)]


def test_any_cut_of_the_text_gives_the_same_items() -> None:
    text = listed(ANN, BOB)
    for at in range(len(text) + 1):
        assert list(people(PiecewiseModel([text[:at], text[at:]])).each("x")) == PEOPLE


@both
def test_a_list_without_items_gives_none(kind: str) -> None:
    assert items_of(people(PiecewiseModel([listed()])), kind) == ([], None)


def test_numbers_wait_until_no_digit_can_follow() -> None:
    model = PiecewiseModel(['{"value": [1', "2", ", 3", "4", "]}"])
    assert [(number, model.sent_pieces) for number in people(model).numbers("x")] == [(12, 3), (34, 5)]


def test_items_may_be_of_several_types_with_text_among_them() -> None:
    model = PiecewiseModel(['{"value": ["to be", 7', "]}"])
    assert list(people(model).words("x")) == ["to be", 7]


def test_the_request_asks_for_a_list_in_an_envelope() -> None:
    model = PiecewiseModel([listed(ANN)])
    list(people(model).each("x"))
    form = model.requests[0].response_format
    assert isinstance(form, JsonSchemaFormat)
    assert (form.schema["required"], form.schema["properties"]["value"]["type"]) == (["value"], "array")


def test_the_schema_does_not_contain_item_errors() -> None:
    model = PiecewiseModel([listed(ANN)], [listed(ANN)])
    list(people(model).each("x"))
    list(people(model).kept("x"))
    first, second = (request.response_format for request in model.requests)
    assert isinstance(first, JsonSchemaFormat)
    assert isinstance(second, JsonSchemaFormat)
    assert first.schema == second.schema


@pytest.mark.parametrize(
    "text",
    [
        f"[{ANN}, {BOB}]",
        f"```json\n[{ANN}, {BOB}]\n```",
        f'{{"people": [{ANN}, {BOB}]}}',
        f"Here they are:\n{listed(ANN, BOB)}",
    ],
)
def test_a_list_in_another_format_is_read_too(text: str) -> None:
    assert list(people(PiecewiseModel(words_of(text))).each("x")) == PEOPLE


@both
def test_an_answer_of_an_interceptor_is_returned_item_by_item(kind: str) -> None:
    def known(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer(PEOPLE, ChatReply(AiMessage("known")), ())
        yield

    model = PiecewiseModel()
    assert items_of(people(model, interceptors=[known]), kind) == (PEOPLE, None)
    assert model.requests == []


@both
def test_an_event_of_an_interceptor_is_not_an_item(kind: str) -> None:
    def emitting(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield Emit("an event")
        answer = yield from proceed(invocation)
        yield Emit(["another"])
        return answer

    service = people(PiecewiseModel([listed(ANN, BOB)]), interceptors=[emitting])
    assert items_of(service, kind) == (PEOPLE, None)


# items that do not fit


@both
def test_the_items_before_an_invalid_one_are_yielded_first(kind: str) -> None:
    model = PiecewiseModel(words_of(listed(ANN, BOB, OLD, ANN)))
    items, error = items_of(people(model), kind)
    assert isinstance(error, ServiceOutputError)
    assert (items, error.text, error.problems) == (
        PEOPLE,
        OLD,
        (Problem("$[2].age", PROBLEM, '"old"'),),
    )
    assert (len(model.requests), model.closed) == (1, 1)


@both
def test_the_error_of_an_item_names_its_method_and_the_attempt(kind: str) -> None:
    items, error = items_of(people(PiecewiseModel([listed(ANN, OLD)])), kind)
    where = "each" if kind == "blocking" else "aeach"
    assert isinstance(error, ServiceOutputError)
    assert (items, error.qualname) == (PEOPLE[:1], f"People.{where}")
    (attempt,) = error.attempts
    assert attempt.model == "piecewise"
    assert isinstance(attempt.error, OutputParsingError)
    assert attempt.error.problems == error.problems
    assert error.__cause__ is None  # the error itself says the same


@both
def test_an_item_that_does_not_fit_ends_the_request(kind: str) -> None:
    model = PiecewiseModel([listed(ANN, OLD)[:-2], ", ", BOB, "]}"])
    items_of(people(model), kind)
    assert (model.sent_pieces, model.closed) == (1, 1)


@both
def test_an_item_that_does_not_fit_becomes_an_item_error_on_request(kind: str) -> None:
    model = PiecewiseModel(words_of(listed(ANN, OLD, BOB)))
    assert items_of(people(model), kind, kept=True) == (
        [PEOPLE[0], ItemError(1, OLD, (Problem("$[1].age", PROBLEM, '"old"'),)), PEOPLE[1]],
        None,
    )


@both
def test_with_item_errors_a_list_of_bad_items_is_not_an_error(kind: str) -> None:
    items, error = items_of(people(PiecewiseModel([listed(OLD, OLD)])), kind, kept=True)
    assert ([type(item) for item in items], [item.index for item in items], error) == (
        [ItemError, ItemError],
        [0, 1],
        None,
    )


@both
def test_with_item_errors_a_reply_that_is_denied_or_has_another_answer_is_an_error(kind: str) -> None:
    for text in (f"[{ANN}, {OLD}] Wait, the second is Bob.", f"Example: [{ANN}, {OLD}]\nAnswer: [{BOB}]"):
        items, error = items_of(people(PiecewiseModel(words_of(text))), kind, kept=True)
        assert [type(item) for item in items] == [Person, ItemError]
        assert error is not None


@both
def test_with_item_errors_a_reply_without_a_list_is_repeated(kind: str) -> None:
    model = PiecewiseModel(["There are none."], [listed(ANN)])
    assert items_of(people(model), kind, kept=True) == (PEOPLE[:1], None)
    assert len(model.requests) == 2


# once something was handed over


@both
def test_a_list_that_is_cut_off_gives_the_complete_items_and_an_error(kind: str) -> None:
    model = PiecewiseModel([f'{{"value": [{ANN}, ', '{"name": "Bo'])
    items, error = items_of(people(model), kind)
    assert (items, type(error), len(model.requests)) == (PEOPLE[:1], ServiceOutputError, 1)


@both
def test_a_truncated_list_gives_the_complete_items_and_a_truncated_error(kind: str) -> None:
    end = ChatReply(AiMessage(""), FinishReason.LENGTH, Usage(1, 2))
    model = PiecewiseModel([f'{{"value": [{ANN}, '], end=end)
    items, error = items_of(people(model), kind)
    assert isinstance(error, TruncatedError)
    assert (items, len(model.requests), error.usage) == (PEOPLE[:1], 1, Usage(1, 2))


@both
def test_a_refusal_is_not_a_list(kind: str) -> None:
    model = PiecewiseModel([""], end=ChatReply(AiMessage(""), refusal="No."))
    items, error = items_of(people(model), kind)
    assert (items, type(error), len(model.requests)) == ([], RefusalError, 1)


@both
def test_a_connection_that_breaks_after_an_item_is_not_made_again(kind: str) -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    model = PiecewiseModel([f'{{"value": [{ANN}, ', broken], [listed(BOB)])
    assert items_of(people(model), kind) == (PEOPLE[:1], broken)
    assert len(model.requests) == 1


@both
def test_a_connection_that_breaks_before_an_item_is_made_again(kind: str) -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    model = PiecewiseModel(['{"value": [{"name": "Zoe"', broken], [listed(ANN, BOB)])
    assert items_of(people(model), kind) == (PEOPLE, None)
    assert (len(model.requests), model.closed) == (2, 2)


@both
def test_a_failed_request_is_made_again_within_the_budget(kind: str) -> None:
    model = PiecewiseModel(*[[ModelServerError("500", retryable=True)] for _ in range(9)])
    items, error = items_of(people(model, budget=Budget(max_attempts=4, first_wait=0)), kind)
    assert isinstance(error, ModelServerError)
    assert (items, len(model.requests), len(error.attempts)) == ([], 4, 4)


@both
def test_a_missing_list_is_requested_until_the_budget_is_used(kind: str) -> None:
    model = PiecewiseModel(*[["none"] for _ in range(9)])
    items, error = items_of(people(model), kind)
    assert isinstance(error, ServiceOutputError)
    assert (items, len(model.requests), len(error.attempts), error.usage) == ([], 3, 3, Usage(3, 3))


@both
def test_an_authentication_error_is_not_retried(kind: str) -> None:
    model = PiecewiseModel([AuthenticationError("401")], [listed(ANN)])
    items, error = items_of(people(model), kind)
    assert (items, str(error), len(model.requests)) == ([], "401", 1)


@both
def test_a_stream_without_its_complete_reply_is_an_error(kind: str) -> None:
    items, error = items_of(people(PiecewiseModel([listed(ANN)], is_complete=False)), kind)
    assert (items, type(error), str(error)) == (
        PEOPLE[:1],
        InvalidReplyError,
        "the stream of piecewise ended before the reply was complete",
    )


# sending and leaving


@both
def test_nothing_is_sent_before_the_first_item_is_read(kind: str) -> None:
    model = PiecewiseModel([listed(ANN)])
    service = people(model)
    if kind == "blocking":
        service.each("x")
    else:

        async def made() -> None:
            service.aeach("x")

        asyncio.run(made())
    gc.collect()
    assert model.requests == []


def test_the_call_itself_reports_a_wrong_argument() -> None:
    service: Any = people(PiecewiseModel())
    with pytest.raises(TypeError, match=r"^People\.each: missing a required argument: 'text'$"):
        service.each()


def test_a_list_that_never_ends_ends_when_it_is_left() -> None:
    model = EndlessModel('{"value": [', ANN + ", ")
    for number, _ in enumerate(people(model).each("x")):
        if number == 9:
            break
    gc.collect()
    assert (model.closed, model.sent_pieces) == (1, 10)


def test_an_async_list_that_never_ends_ends_when_it_is_closed() -> None:
    model = EndlessModel('{"value": [', ANN + ", ")

    async def read() -> None:
        items: Any = people(model).aeach("x")
        await anext(items)
        await items.aclose()

    asyncio.run(read())
    assert (model.closed, model.sent_pieces) == (1, 1)


def test_a_long_list_is_read_in_time_that_grows_with_its_length() -> None:
    def seconds(count: int) -> float:
        text = json.dumps({"value": list(range(count))})
        service = people(PiecewiseModel([text[at : at + 8] for at in range(0, len(text), 8)]))
        began = time.process_time()
        assert len(list(service.numbers("x"))) == count
        return time.process_time() - began

    seconds(100)
    assert seconds(4000) < 8 * seconds(1000) + 0.05


# over HTTP


def over_http(loopback: Loopback) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=PLAIN)


def test_items_are_yielded_while_the_server_is_still_writing(loopback: Loopback) -> None:
    rest = threading.Event()
    pieces = (delta(content='{"value": [' + ANN + ","), delta(content=BOB + "]}"), delta("stop"), DONE)
    loopback.reply(sse(*pieces, wait_before={1: rest}))
    with over_http(loopback) as model:
        items = people(model).each("x")
        assert next(items) == PEOPLE[0]
        rest.set()
        assert list(items) == PEOPLE[1:]


def test_the_server_sees_that_a_list_was_left(loopback: Loopback) -> None:
    loopback.reply(
        sse(delta(content='{"value": [' + ANN + ","), delta(content=BOB), wait_before={1: threading.Event()})
    )
    with over_http(loopback) as model:
        for _ in people(model).each("x"):
            break
        gc.collect()
        assert loopback.hung_up.wait(MAX_WAIT)


def test_the_server_sees_that_an_async_list_was_cancelled(loopback: Loopback) -> None:
    loopback.reply(
        sse(delta(content='{"value": [' + ANN + ","), delta(content=BOB), wait_before={1: threading.Event()})
    )

    items: list[Person] = []

    async def read() -> bool:
        begun = asyncio.Event()

        async def collect() -> None:
            async for person in people(model).aeach("x"):
                items.append(person)
                begun.set()

        async with over_http(loopback) as model:
            task = asyncio.create_task(collect())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert (asyncio.run(read()), items) == (True, PEOPLE[:1])


def test_the_server_sees_that_a_list_with_a_bad_item_was_left(loopback: Loopback) -> None:
    pieces = (delta(content='{"value": [' + ANN + "," + OLD + ","), delta(content=BOB))
    loopback.reply(sse(*pieces, wait_before={1: threading.Event()}))
    with over_http(loopback) as model:
        items, error = items_of(people(model), "blocking")
        assert loopback.hung_up.wait(MAX_WAIT)
    assert (items, type(error)) == (PEOPLE[:1], ServiceOutputError)


@both
@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_a_server_that_never_writes_a_list_gets_exactly_the_budget(
    loopback: Loopback, kind: str, attempts: int
) -> None:
    loopback.reply(stream_reply(["none"]))
    model = over_http(loopback)
    _, error = items_of(people(model, budget=Budget(max_attempts=attempts, first_wait=0)), kind)
    model.close()
    assert (type(error), len(loopback.requests)) == (ServiceOutputError, attempts)


@both
@pytest.mark.parametrize("attempts", [1, 3, 5])
def test_a_server_that_fails_for_ever_gets_exactly_the_budget(
    loopback: Loopback, kind: str, attempts: int
) -> None:
    loopback.reply(error(500, "boom"))
    model = over_http(loopback)
    _, failure = items_of(people(model, budget=Budget(max_attempts=attempts, first_wait=0)), kind)
    model.close()
    assert (type(failure), len(loopback.requests)) == (ModelServerError, attempts)
