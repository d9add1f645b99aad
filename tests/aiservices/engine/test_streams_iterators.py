"""The items of a list are yielded one by one, each as soon as it is complete."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pytest
from loopback import DONE, MAX_WAIT, Loopback, delta, error, sse, stream_reply

from aiservices import (
    AiMessage,
    AuthenticationError,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    FinishReason,
    InvalidReplyError,
    JsonSchemaFormat,
    ModelConnectionError,
    ModelServerError,
    OpenAiChatModel,
    Problem,
    RefusalError,
    ReplyDelta,
    ServiceOutputError,
    TruncatedError,
    Usage,
    create,
)
from aiservices.interceptors import Answer, Emit, Flow, Invocation, Proceed
from output_parsers import ItemError

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


class Telling:
    """A model that streams one list of chunks for each request, and records how the streams end."""

    name = "telling"
    capabilities = PLAIN

    def __init__(self, *replies: list[Any], end: ChatReply | None = None, whole: bool = True) -> None:
        self._replies = list(replies)
        self._end = end
        self._whole = whole
        self.requests: list[ChatRequest] = []
        self.given = 0
        self.closed = 0

    def _next(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.requests.append(request)
        pieces = self._replies.pop(0)
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            self.given += 1
            yield ReplyDelta(piece)
        if self._whole:
            reply = self._end or ChatReply(AiMessage(""), usage=Usage(1, len(pieces)))
            yield ReplyDelta(reply=replace(reply, message=AiMessage("".join(pieces))))

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        try:
            yield from self._next(request)
        finally:
            self.closed += 1

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        try:
            for piece in self._next(request):
                await asyncio.sleep(0)
                yield piece
        finally:
            self.closed += 1

    def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError


def people(model: Any, **settings: Any) -> People:
    return create(People, model, **{"budget": AT_ONCE, **settings})


def listed(*items: str) -> str:
    return f'{{"value": [{", ".join(items)}]}}'


def words_of(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def items_of(service: People, kind: str, *, kept: bool = False) -> tuple[list[Any], Exception | None]:
    """Return all items that an iterator yields, and the error that ends it."""
    given: list[Any] = []

    async def aread() -> None:
        async for item in service.akept("x") if kept else service.aeach("x"):
            given.append(item)  # noqa: PERF401  # what came before an error is wanted

    try:
        if kind == "async":
            asyncio.run(aread())
        else:
            given.extend(service.kept("x") if kept else service.each("x"))
    except Exception as error:
        return given, error
    return given, None


both = pytest.mark.parametrize("kind", ["blocking", "async"])


# handing over


@both
def test_items_come_in_their_order_each_once(kind: str) -> None:
    assert items_of(people(Telling(words_of(listed(ANN, BOB)))), kind) == (PEOPLE, None)


@both
def test_an_item_is_handed_over_as_soon_as_it_is_complete(kind: str) -> None:
    model = Telling(['{"value": [' + ANN, ", ", BOB, "]}"])
    service = people(model)

    async def steps() -> list[tuple[Person, int]]:
        return [(person, model.given) async for person in service.aeach("x")]

    if kind == "async":
        told = asyncio.run(steps())
    else:
        told = [(person, model.given) for person in service.each("x")]
    assert told == [(PEOPLE[0], 1), (PEOPLE[1], 3)]


def test_any_cut_of_the_text_gives_the_same_items() -> None:
    text = listed(ANN, BOB)
    for at in range(len(text) + 1):
        assert list(people(Telling([text[:at], text[at:]])).each("x")) == PEOPLE


@both
def test_a_list_without_items_gives_none(kind: str) -> None:
    assert items_of(people(Telling([listed()])), kind) == ([], None)


def test_numbers_wait_until_no_digit_can_follow() -> None:
    model = Telling(['{"value": [1', "2", ", 3", "4", "]}"])
    assert [(number, model.given) for number in people(model).numbers("x")] == [(12, 3), (34, 5)]


def test_items_may_be_of_several_types_with_text_among_them() -> None:
    model = Telling(['{"value": ["to be", 7', "]}"])
    assert list(people(model).words("x")) == ["to be", 7]


def test_the_model_is_asked_for_a_list_in_an_envelope() -> None:
    model = Telling([listed(ANN)])
    list(people(model).each("x"))
    form = model.requests[0].response_format
    assert isinstance(form, JsonSchemaFormat)
    assert (form.schema["required"], form.schema["properties"]["value"]["type"]) == (["value"], "array")


def test_the_schema_says_nothing_of_item_errors() -> None:
    model = Telling([listed(ANN)], [listed(ANN)])
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
def test_a_list_in_another_dress_is_read_as_well(text: str) -> None:
    assert list(people(Telling(words_of(text))).each("x")) == PEOPLE


@both
def test_what_an_interceptor_answers_by_itself_is_handed_over_too(kind: str) -> None:
    def known(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer(PEOPLE, ChatReply(AiMessage("known")), ())
        yield

    model = Telling()
    assert items_of(people(model, interceptors=[known]), kind) == (PEOPLE, None)
    assert model.requests == []


@both
def test_what_an_interceptor_emits_is_no_item(kind: str) -> None:
    def emitting(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield Emit("an event")
        answer = yield from proceed(invocation)
        yield Emit(["another"])
        return answer

    service = people(Telling([listed(ANN, BOB)]), interceptors=[emitting])
    assert items_of(service, kind) == (PEOPLE, None)


# items that do not fit


@both
def test_the_items_before_one_that_does_not_fit_are_handed_over_first(kind: str) -> None:
    model = Telling(words_of(listed(ANN, BOB, OLD, ANN)))
    given, error = items_of(people(model), kind)
    assert isinstance(error, ServiceOutputError)
    assert (given, error.text, error.problems) == (
        PEOPLE,
        OLD,
        (Problem("$[2].age", PROBLEM, '"old"'),),
    )
    assert (len(model.requests), model.closed) == (1, 1)


@both
def test_the_error_of_an_item_tells_its_method_and_the_attempt(kind: str) -> None:
    given, error = items_of(people(Telling([listed(ANN, OLD)])), kind)
    where = "each" if kind == "blocking" else "aeach"
    assert isinstance(error, ServiceOutputError)
    assert (given, error.qualname, error.__notes__) == (PEOPLE[:1], f"People.{where}", [f"in People.{where}"])
    (attempt,) = error.attempts
    assert (attempt.model, attempt.error) == ("telling", error.__cause__)


@both
def test_an_item_that_does_not_fit_ends_the_request(kind: str) -> None:
    model = Telling([listed(ANN, OLD)[:-2], ", ", BOB, "]}"])
    items_of(people(model), kind)
    assert (model.given, model.closed) == (1, 1)


@both
def test_an_item_that_does_not_fit_is_kept_where_that_was_asked_for(kind: str) -> None:
    model = Telling(words_of(listed(ANN, OLD, BOB)))
    assert items_of(people(model), kind, kept=True) == (
        [PEOPLE[0], ItemError(1, OLD, (Problem("$[1].age", PROBLEM, '"old"'),)), PEOPLE[1]],
        None,
    )


@both
def test_where_items_are_kept_a_list_of_misfits_is_no_error(kind: str) -> None:
    given, error = items_of(people(Telling([listed(OLD, OLD)])), kind, kept=True)
    assert ([type(item) for item in given], [item.index for item in given], error) == (
        [ItemError, ItemError],
        [0, 1],
        None,
    )


@both
def test_where_items_are_kept_a_reply_without_a_list_is_asked_for_again(kind: str) -> None:
    model = Telling(["There are none."], [listed(ANN)])
    assert items_of(people(model), kind, kept=True) == (PEOPLE[:1], None)
    assert len(model.requests) == 2


# once something was handed over


@both
def test_a_list_that_is_cut_off_gives_what_came_and_an_error(kind: str) -> None:
    model = Telling([f'{{"value": [{ANN}, ', '{"name": "Bo'])
    given, error = items_of(people(model), kind)
    assert (given, type(error), len(model.requests)) == (PEOPLE[:1], ServiceOutputError, 1)


@both
def test_a_truncated_list_gives_what_came_and_says_that_it_was_truncated(kind: str) -> None:
    end = ChatReply(AiMessage(""), FinishReason.LENGTH, Usage(1, 2))
    model = Telling([f'{{"value": [{ANN}, '], end=end)
    given, error = items_of(people(model), kind)
    assert isinstance(error, TruncatedError)
    assert (given, len(model.requests), error.usage) == (PEOPLE[:1], 1, Usage(1, 2))


@both
def test_a_refusal_is_no_list(kind: str) -> None:
    model = Telling([""], end=ChatReply(AiMessage(""), refusal="No."))
    given, error = items_of(people(model), kind)
    assert (given, type(error), len(model.requests)) == ([], RefusalError, 1)


@both
def test_a_connection_that_breaks_after_an_item_is_not_made_again(kind: str) -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    model = Telling([f'{{"value": [{ANN}, ', broken], [listed(BOB)])
    assert items_of(people(model), kind) == (PEOPLE[:1], broken)
    assert len(model.requests) == 1


@both
def test_a_connection_that_breaks_before_an_item_is_made_again(kind: str) -> None:
    broken = ModelConnectionError("it broke", retryable=True)
    model = Telling(['{"value": [{"name": "Zoe"', broken], [listed(ANN, BOB)])
    assert items_of(people(model), kind) == (PEOPLE, None)
    assert (len(model.requests), model.closed) == (2, 2)


@both
def test_a_failed_request_is_made_again_within_the_budget(kind: str) -> None:
    model = Telling(*[[ModelServerError("500", retryable=True)] for _ in range(9)])
    given, error = items_of(people(model, budget=Budget(max_attempts=4, first_wait=0)), kind)
    assert isinstance(error, ModelServerError)
    assert (given, len(model.requests), len(error.attempts)) == ([], 4, 4)


@both
def test_a_list_that_never_comes_is_asked_for_as_often_as_the_budget_permits(kind: str) -> None:
    model = Telling(*[["none"] for _ in range(9)])
    given, error = items_of(people(model), kind)
    assert isinstance(error, ServiceOutputError)
    assert (given, len(model.requests), len(error.attempts), error.usage) == ([], 3, 3, Usage(3, 3))


@both
def test_what_will_not_pass_is_asked_once(kind: str) -> None:
    model = Telling([AuthenticationError("401")], [listed(ANN)])
    given, error = items_of(people(model), kind)
    assert (given, str(error), len(model.requests)) == ([], "401", 1)


@both
def test_a_stream_without_its_whole_reply_is_no_answer(kind: str) -> None:
    given, error = items_of(people(Telling([listed(ANN)], whole=False)), kind)
    assert (given, type(error), str(error)) == (
        PEOPLE[:1],
        InvalidReplyError,
        "the stream of telling ended before the reply was complete",
    )


# sending and leaving


@both
def test_nothing_is_sent_before_the_first_item_is_asked_for(kind: str) -> None:
    model = Telling([listed(ANN)])
    service = people(model)
    if kind == "blocking":
        service.each("x")
    else:

        async def made() -> None:
            service.aeach("x")

        asyncio.run(made())
    gc.collect()
    assert model.requests == []


def test_a_wrong_argument_is_told_by_the_call_itself() -> None:
    service: Any = people(Telling())
    with pytest.raises(TypeError, match=r"^People\.each: missing a required argument: 'text'$"):
        service.each()


class Endless(Telling):
    """A model whose list never ends."""

    def _next(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.requests.append(request)
        yield ReplyDelta('{"value": [')
        while True:
            self.given += 1
            yield ReplyDelta(ANN + ", ")


def test_a_list_that_never_ends_ends_when_it_is_left() -> None:
    model = Endless()
    for number, _ in enumerate(people(model).each("x")):
        if number == 9:
            break
    gc.collect()
    assert (model.closed, model.given) == (1, 10)


def test_an_async_list_that_never_ends_ends_when_it_is_closed() -> None:
    model = Endless()

    async def read() -> None:
        items: Any = people(model).aeach("x")
        await anext(items)
        await items.aclose()

    asyncio.run(read())
    assert (model.closed, model.given) == (1, 1)


def test_a_long_list_is_read_in_time_that_grows_with_its_length() -> None:
    def seconds(count: int) -> float:
        text = json.dumps({"value": list(range(count))})
        service = people(Telling([text[at : at + 8] for at in range(0, len(text), 8)]))
        began = time.perf_counter()
        assert len(list(service.numbers("x"))) == count
        return time.perf_counter() - began

    seconds(100)
    assert seconds(4000) < 8 * seconds(1000) + 0.05


# over HTTP


def over_http(loopback: Loopback) -> OpenAiChatModel:
    return OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=PLAIN)


def test_items_are_handed_over_while_the_server_is_still_writing(loopback: Loopback) -> None:
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

    given: list[Person] = []

    async def read() -> bool:
        begun = asyncio.Event()

        async def collect() -> None:
            async for person in people(model).aeach("x"):
                given.append(person)
                begun.set()

        async with over_http(loopback) as model:
            task = asyncio.create_task(collect())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await asyncio.to_thread(loopback.hung_up.wait, MAX_WAIT)

    assert (asyncio.run(read()), given) == (True, PEOPLE[:1])


def test_the_server_sees_that_a_list_with_a_misfit_was_left(loopback: Loopback) -> None:
    pieces = (delta(content='{"value": [' + ANN + "," + OLD + ","), delta(content=BOB))
    loopback.reply(sse(*pieces, wait_before={1: threading.Event()}))
    with over_http(loopback) as model:
        given, error = items_of(people(model), "blocking")
        assert loopback.hung_up.wait(MAX_WAIT)
    assert (given, type(error)) == (PEOPLE[:1], ServiceOutputError)


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
