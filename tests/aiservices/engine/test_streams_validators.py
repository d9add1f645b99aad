"""Validators of the return type, of tool arguments and of HTTP bodies run once, however a reply is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle
from typing import Annotated, Any, Protocol

import attrs
import pytest
from fastapi.testclient import TestClient
from loopback import Loopback, stream_reply
from pydantic import AfterValidator, BaseModel, WrapValidator, field_validator
from tool_calling import tool_calls_reply

from aiservices import (
    AsyncStream,
    CallFailed,
    OpenAiChatModel,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    ValidatorError,
    create,
    user_message,
)
from aiservices.integrations.fastapi import app
from aiservices.structured_model import structured

RUNS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def no_runs() -> None:
    RUNS.clear()


def add_one(value: int) -> int:
    RUNS["validator"] += 1
    return value + 1


class Item(BaseModel):
    count: Annotated[int, AfterValidator(add_one)]
    price: Decimal


class Shelf(BaseModel):
    count: int
    rooms: dict[str, int] = {}  # a map is encoded in strict mode

    @field_validator("count")
    @classmethod
    def one_more(cls, value: int) -> int:
        return add_one(value)


class Reader(Protocol):
    @user_message("{{text}}")
    def item(self, text: str) -> Item: ...

    @user_message("{{text}}")
    def shelf(self, text: str) -> Shelf: ...

    @user_message("{{text}}")
    def items(self, text: str) -> list[Item]: ...

    @user_message("{{text}}")
    def each(self, text: str) -> Iterator[Item]: ...

    @user_message("{{text}}")
    def each_shelf(self, text: str) -> Iterator[Shelf]: ...

    @user_message("{{text}}")
    def growing(self, text: str) -> Stream[Item]: ...

    @user_message("{{text}}")
    def growing_shelves(self, text: str) -> Stream[list[Shelf]]: ...


_ITEM, _SHELF = '{"count": 1, "price": 1.50}', '{"count": 1, "rooms": {"a": 1}}'
_ONE = Item.model_construct(count=2, price=Decimal("1.50"))
_ONE_SHELF = Shelf.model_construct(count=2, rooms={"a": 1})


@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "Here it is: {}"])
@pytest.mark.parametrize(
    ("call", "text", "value"),
    [
        (lambda service: service.item("x"), _ITEM, _ONE),
        (lambda service: service.shelf("x"), _SHELF, _ONE_SHELF),
        (lambda service: service.items("x"), f"[{_ITEM}]", [_ONE]),
        (lambda service: list(service.each("x")), f"[{_ITEM}]", [_ONE]),
        (lambda service: list(service.each_shelf("x")), f"[{_SHELF}]", [_ONE_SHELF]),
        (lambda service: service.growing("x").result().value, _ITEM, _ONE),
        (lambda service: list(service.growing("x"))[-1].value, _ITEM, _ONE),
        (lambda service: service.growing_shelves("x").result().value, f"[{_SHELF}]", [_ONE_SHELF]),
    ],
)
def test_a_validator_of_the_answer_runs_once(
    form: str, call: Callable[[Reader], object], text: str, value: object
) -> None:
    assert call(create(Reader, ScriptedChatModel([form.replace("{}", text)]))) == value
    assert RUNS == {"validator": 1}


def test_a_validator_of_a_tool_argument_runs_once() -> None:
    stored = []

    def store(item: Item, count: Annotated[int, AfterValidator(add_one)]) -> str:
        """Store an item."""
        stored.append((item, count))
        return "stored"

    class Shop(Protocol):
        @user_message("{{text}}")
        def answer(self, text: str) -> str: ...

    call = tool_calls_reply(("store", f'{{"item": {_ITEM}, "count": "5"}}'))
    assert create(Shop, ScriptedChatModel([call, "Done."]), tools=[store]).answer("x") == "Done."
    assert stored == [(_ONE, 6)]
    assert RUNS == {"validator": 2}


def pass_on(value: Any, handler: Callable[[Any], Any]) -> Any:
    RUNS["validator"] += 1
    return handler(value)


class Order(BaseModel):
    price: Decimal
    tags: Annotated[frozenset[str], WrapValidator(pass_on)]


class Orders(Protocol):
    @user_message("{{order.price}}")
    def answer(self, order: Order) -> str: ...


def test_a_route_accepts_what_pydantic_accepts() -> None:
    http = TestClient(app(create(Orders, ScriptedChatModel(["Done."]))))
    answer = http.post("/answer", json={"order": {"price": "2.5", "tags": ["a"]}})
    assert (answer.status_code, answer.text) == (200, '"Done."')
    assert RUNS == {"validator": 1}


class Wrong(BaseModel):
    count: int

    @field_validator("count")
    @classmethod
    def misspelt(cls, value: Any) -> Any:
        return value.fooo


def test_a_programming_error_in_a_validator_costs_no_further_request() -> None:
    class Counting(Protocol):
        @user_message("{{text}}")
        def count(self, text: str) -> Wrong: ...

    model = ScriptedChatModel(['{"count": 1}', '{"count": 2}'])
    with pytest.raises(ValidatorError) as error:
        create(Counting, model).count("x")
    assert str(error.value) == (
        "a validator of Wrong failed with AttributeError: 'int' object has no attribute 'fooo'. "
        "Correct it, or raise ValueError for a value that it refuses"
    )
    assert isinstance(error.value.__cause__, AttributeError)
    assert len(model.requests) == 1


def _refuse(value: str) -> None:
    raise ValueError(f"{value} is refused")


_MISTAKES: dict[str, Callable[[Any], object]] = {
    "AttributeError": lambda value: value.fooo,
    "TypeError": lambda value: value + 1,
    "KeyError": lambda value: {}[value],
    "IndexError": lambda value: [][3],
}


@pytest.mark.parametrize("name", _MISTAKES)
def test_a_programming_error_in_a_class_costs_no_further_request_either(name: str) -> None:
    mistake = _MISTAKES[name]

    @dataclass
    class Plain:
        text: str

        def __post_init__(self) -> None:
            mistake(self.text)

    @attrs.define
    class Attrs:
        text: str = attrs.field(validator=lambda _, __, value: mistake(value))

    for cls in (Plain, Attrs):
        for output_type, text in ((cls, '{"text": "a"}'), (list[cls], '[{"text": "a"}]')):  # type: ignore[valid-type]
            model = ScriptedChatModel([text] * 3)
            with pytest.raises(ValidatorError) as caught:
                structured(model, output_type).invoke("x")
            assert type(caught.value.__cause__).__name__ == name
            assert len(model.requests) == 1


def test_a_value_that_a_class_refuses_is_requested_again() -> None:
    @attrs.define
    class Typed:
        text: Any = attrs.field(validator=attrs.validators.instance_of(str))

    @attrs.define
    class Refusing:
        text: str = attrs.field(validator=lambda _, __, value: _refuse(value))

    for cls, text in ((Typed, '{"text": 1}'), (Refusing, '{"text": "a"}')):
        model = ScriptedChatModel([text] * 3)
        with pytest.raises(ServiceOutputError):
            structured(model, cls).invoke("x")
        assert len(model.requests) == 3


def test_a_mistake_in_a_class_ends_the_call_of_a_stream_with_it(loopback: Loopback) -> None:
    @dataclass
    class Mistaken:
        name: str

        def __post_init__(self) -> None:
            {}[self.name]

    class Grows(Protocol):
        @user_message("{{text}}")
        def blocking(self, text: str) -> Stream[Mistaken]: ...

        @user_message("{{text}}")
        def awaited(self, text: str) -> AsyncStream[Mistaken]: ...

        @user_message("{{text}}")
        def items(self, text: str) -> Iterator[Mistaken]: ...

    async def result(stream: AsyncStream[Any]) -> None:
        await stream.result()

    def ask(service: Grows, number: int) -> None:
        if number % 3 == 0:
            list(service.items("x"))
        elif number % 3 == 1:
            service.blocking("x").result()
        else:
            asyncio.run(result(service.awaited("x")))

    object_text, list_text = ['{"name"', ': "Ann"}'], ['{"value": [{"name"', ': "Ann"}', "]}"]
    replies = cycle([list_text, object_text, object_text])
    loopback.reply(lambda request: stream_reply(next(replies)))
    events: list[object] = []
    kept = []
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k") as model:
        grows = create(Grows, model, listeners=[events.append])
        for number in range(20):  # their connections are used again
            with pytest.raises(ValidatorError) as caught:
                ask(grows, number)
            kept.append(caught.value)
            assert isinstance(events[-1], CallFailed)
            assert events[-1].error is caught.value
