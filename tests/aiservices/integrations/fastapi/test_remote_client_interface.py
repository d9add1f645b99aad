"""A remote service behaves like a local one. Each test runs with both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from aiservices import (
    AsyncStream,
    Budget,
    Completed,
    FieldCompleted,
    History,
    Image,
    MemoryId,
    Message,
    ModelTimeoutError,
    RateLimitError,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Stream,
    UserMessage,
    UserName,
    create,
    structured_prompt,
    user_message,
)
from aiservices.integrations.fastapi import app, client
from output_parsers import ItemError

PIXEL = Image.from_bytes(b"\x89PNG\r\n\x1a\nnothing more")


@dataclass
class Person:
    name: str
    age: int


class Trip(BaseModel):
    """A trip, whose JSON keys are in camel case and whose fields are in snake case."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)

    first_stop: str
    days_there: int


@structured_prompt("Who is the {{role}} of {{place}}?")
@dataclass
class Question:
    role: str
    place: str


class Clerk(Protocol):
    @user_message("Is {{text}} good?")
    def good(self, text: str) -> bool: ...

    @user_message("Is {{text}} good?")
    async def agood(self, text: str) -> bool: ...

    @user_message("Who? {{names}}")
    def person(self, *names: str) -> Person: ...

    @user_message("{{it}}")
    def described(self, question: str | Question) -> Result[Person]: ...

    @user_message("{{it}}")
    async def adescribed(self, question: str | Question) -> Result[Person]: ...

    @user_message("Where to from {{start}}, in {{days}} days?")
    def trip(self, start: str, days: int = 3) -> Trip: ...

    @user_message("Tell {{it}}")
    def tell(self, it: str) -> Iterator[str]: ...

    @user_message("Tell {{it}}")
    def atell(self, it: str) -> AsyncIterator[str]: ...

    @user_message("People of {{it}}")
    def people(self, it: str) -> Iterator[Person]: ...

    @user_message("People of {{it}}")
    def apeople(self, it: str) -> AsyncIterator[Person | ItemError]: ...

    @user_message("Grow {{it}}")
    def grow(self, it: str) -> Stream[Trip]: ...

    @user_message("Grow {{it}}")
    def agrow(self, it: str) -> AsyncStream[list[int]]: ...

    @user_message("What colour has {{picture}}?")
    def colour(self, picture: Image) -> str: ...

    def chat(
        self,
        message: str,
        who: Annotated[str, UserName],
        memory: Annotated[int, MemoryId],
        before: Annotated[list[Message], History],
    ) -> str: ...


Make = Callable[..., Clerk]


def ignore(event: object) -> None:
    """A listener, which might read the memory id; create refuses one that nothing could read."""


@pytest.fixture(params=["local", "remote"])
def make(request: pytest.FixtureRequest, serve: Callable[[Any], str]) -> Make:
    def make_clerk(model: Any, **settings: Any) -> Clerk:
        local = create(Clerk, model, **{"listeners": [ignore], **settings})
        return (
            local
            if request.param == "local"
            else client(Clerk, serve(app(local, caller_arguments=["memory", "who"])), timeout=20)
        )

    return make_clerk


def test_a_method_returns_its_value(make: Make) -> None:
    assert make(ScriptedChatModel(['{"value": true}'])).good("This") is True


def test_an_async_method_is_awaited(make: Make) -> None:
    clerk = make(ScriptedChatModel(['{"value": true}'] * 3))

    async def ask() -> list[bool]:
        return await asyncio.gather(*(clerk.agood("This") for _ in range(3)))

    assert asyncio.run(ask()) == [True, True, True]


def test_a_client_serves_one_event_loop_after_the_other(make: Make) -> None:
    clerk = make(ScriptedChatModel(['{"value": true}', '{"value": false}']))
    assert asyncio.run(clerk.agood("This")) is True
    assert asyncio.run(clerk.agood("That")) is False


def test_variadic_arguments_are_sent(make: Make) -> None:
    model = ScriptedChatModel(['{"name": "Ann", "age": 3}'] * 2)
    clerk = make(model)
    assert clerk.person("Ann", "Bob") == Person("Ann", 3)
    clerk.person()
    assert model.requests[0].messages[-1].text.startswith("Who? Ann")


def test_a_result_has_the_details_of_its_call(make: Make) -> None:
    replies = ["no person", '{"name": "Ann", "age": 3}']
    result = make(ScriptedChatModel(replies)).described(Question("mayor", "Rome"))
    assert result.value == Person("Ann", 3)
    assert result.text == '{"name": "Ann", "age": 3}'
    assert (result.model, result.finish_reason, result.strategy) == ("scripted", "stop", "json_schema")
    assert [attempt.model for attempt in result.attempts] == ["scripted", "scripted"]
    assert result.usage.output_tokens == 2 + 4
    assert result.reasons == ("scripted supports JSON Schema",)
    assert result.seconds > 0


def test_an_async_result_has_its_coercions(make: Make) -> None:
    clerk = make(ScriptedChatModel(['{"name": "Ann", "age": "3"}']))
    result = asyncio.run(clerk.adescribed("Who?"))
    assert result.value == Person("Ann", 3)
    assert [str(step) for step in result.coercions] == ['$.age: number as text: "3" → 3']


def test_a_structured_prompt_is_rendered_by_the_server(make: Make) -> None:
    model = ScriptedChatModel(['{"name": "Ann", "age": 3}'])
    make(model).described(Question("mayor", "Rome"))
    assert model.requests[0].messages[-1].text.startswith("Who is the mayor of Rome?")


def test_aliases_and_defaults(make: Make) -> None:
    model = ScriptedChatModel(['{"firstStop": "Rome", "daysThere": 2}'])
    assert make(model).trip("Bari") == Trip(first_stop="Rome", days_there=2)
    assert model.requests[0].messages[-1].text == "Where to from Bari, in 3 days?"


def test_text_arrives_in_chunks(make: Make) -> None:
    clerk = make(ScriptedChatModel(["once upon\n a time"]))
    assert list(clerk.tell("it")) == ["once ", "upon\n ", "a ", "time"]


def test_async_text_arrives_in_chunks(make: Make) -> None:
    clerk = make(ScriptedChatModel(["once upon"]))

    async def read() -> list[str]:
        return [piece async for piece in clerk.atell("it")]

    assert asyncio.run(read()) == ["once ", "upon"]


def test_items_arrive_one_by_one(make: Make) -> None:
    clerk = make(ScriptedChatModel(['[{"name": "Ann", "age": 3}, {"name": "Bob", "age": 4}]']))
    assert list(clerk.people("Rome")) == [Person("Ann", 3), Person("Bob", 4)]


def test_invalid_items_arrive_as_item_errors(make: Make) -> None:
    clerk = make(ScriptedChatModel(['[{"name": "Ann", "age": 3}, {"name": "Bob"}]']))

    async def read() -> list[Person | ItemError]:
        return [item async for item in clerk.apeople("Rome")]

    person, error = asyncio.run(read())
    assert person == Person("Ann", 3)
    assert isinstance(error, ItemError)
    assert [str(problem) for problem in error.problems] == ["$[1].age: the required field 'age' is missing"]


def test_a_reply_that_denies_its_list_is_an_error_after_the_items(make: Make) -> None:
    text = '[{"name": "Ann", "age": 3}, {"name": "Bob"}] Wait, the first is Cy.'
    clerk = make(ScriptedChatModel([text] * 5))
    items: list[Person | ItemError] = []

    async def read() -> None:
        async for item in clerk.apeople("Rome"):
            items.append(item)  # noqa: PERF401  # what came before the error is wanted

    with pytest.raises(ServiceOutputError):
        asyncio.run(read())
    assert [type(item) for item in items] == [Person, ItemError]


def test_a_stream_has_the_same_snapshots_as_a_local_one(make: Make) -> None:
    clerk = make(ScriptedChatModel(['{"firstStop": "Rome and on", "daysThere": 2}']))
    with clerk.grow("it") as stream:
        snapshots = [snapshot.to_python() for snapshot in stream]
        result = stream.result()
    assert snapshots[-5:] == [
        {"first_stop": "Rome "},
        {"first_stop": "Rome and "},
        {"first_stop": "Rome and on"},
        {"first_stop": "Rome and on"},
        {"first_stop": "Rome and on", "days_there": 2},
    ]
    assert result.value == Trip(first_stop="Rome and on", days_there=2)
    assert result.usage.output_tokens == 6


def test_a_stream_has_the_same_events_as_a_local_one(make: Make) -> None:
    clerk = make(ScriptedChatModel(["no trip", '{"firstStop": "Rome", "daysThere": 2}']))
    events = list(clerk.grow("it").events())
    assert [event.number for event in events if type(event).__name__ == "AttemptStarted"] == [1, 2]
    assert [event.name for event in events if isinstance(event, FieldCompleted)] == [
        "first_stop",
        "days_there",
    ]
    assert isinstance(events[-1], Completed)


def test_an_async_stream_of_a_list_has_snapshots(make: Make) -> None:
    clerk = make(ScriptedChatModel(['{"value": [1, 22, 333]}']))

    async def read() -> tuple[list[Any], list[int]]:
        async with clerk.agrow("it") as stream:
            snapshots = [snapshot.to_python() async for snapshot in stream]
            return snapshots, (await stream.result()).value

    snapshots, value = asyncio.run(read())
    assert value == [1, 22, 333]
    assert snapshots[-2:] == [[1, 22], [1, 22, 333]]


def test_an_image_arrives(make: Make) -> None:
    model = ScriptedChatModel(["red"])
    assert make(model).colour(PIXEL) == "red"
    message = model.requests[0].messages[-1]
    assert isinstance(message, UserMessage)
    assert PIXEL in message.contents


def test_roles_arrive(make: Make) -> None:
    model = ScriptedChatModel(["hello"])
    seen: list[Any] = []

    def note(invocation: Any, proceed: Any) -> Any:
        seen.append(invocation.memory_id)
        return (yield from proceed(invocation))

    clerk = make(model, interceptors=[note])
    before: list[Message] = [UserMessage("Hi", None, ("Hi", PIXEL))]
    assert clerk.chat("How are you?", "ann", 7, before) == "hello"
    first, last = model.requests[0].messages
    assert first == before[0]
    assert isinstance(last, UserMessage)
    assert (last.text, last.name) == ("How are you?", "ann")
    assert seen == [7]


def test_an_unreadable_reply_raises_the_same_error(make: Make) -> None:
    clerk = make(ScriptedChatModel(["perhaps", "who knows"]), budget=Budget(max_attempts=2))
    with pytest.raises(ServiceOutputError) as caught:
        clerk.good("This")
    assert caught.value.qualname == "Clerk.good"
    assert len(caught.value.attempts) == 2
    assert caught.value.usage is not None
    assert caught.value.usage.output_tokens == 3


@pytest.mark.parametrize(
    "error",
    [
        RateLimitError("slow down", status=429, retry_after=7.0, retryable=True),
        ModelTimeoutError("late", retryable=True),
    ],
)
def test_errors_of_models_have_the_same_class(make: Make, error: Exception) -> None:
    clerk = make(ScriptedChatModel([error]), budget=Budget(max_attempts=1))
    with pytest.raises(type(error)) as caught:
        clerk.good("This")
    assert isinstance(caught.value, RateLimitError | ModelTimeoutError)
    assert caught.value.retryable
    assert caught.value.retry_after == getattr(error, "retry_after", None)


def test_a_stream_raises_after_the_items_that_came_before_the_error(make: Make) -> None:
    clerk = make(
        ScriptedChatModel(['[{"name": "Ann", "age": 3}, {"name": "Bob"}]']), budget=Budget(max_attempts=1)
    )
    people = clerk.people("Rome")
    assert next(people) == Person("Ann", 3)
    with pytest.raises(ServiceOutputError):
        next(people)


def test_arguments_that_do_not_fit_the_signature_raise_type_error(make: Make) -> None:
    clerk: Any = make(ScriptedChatModel([]))
    with pytest.raises(TypeError) as caught:
        clerk.good()
    assert str(caught.value) == "Clerk.good: missing a required argument: 'text'"
