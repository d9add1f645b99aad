"""The types that type checkers infer for services. Mypy and pyright check this file; it is never run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Protocol, TypeVar, assert_type

from typing_extensions import TypedDict

from aiservices import (
    AsyncStream,
    Budget,
    ChatModel,
    ChatOptions,
    Cited,
    CitedText,
    Decision,
    Description,
    FallbackChatModel,
    Preview,
    Price,
    Result,
    Retry,
    ScriptedChatModel,
    Stream,
    UserMessage,
    acall,
    call,
    create,
    example,
    options,
    preview,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.structured_model import Structured, StructuredModel, structured
from output_parsers import ItemError, OutputParser, Reading, TypeParser, parse, parser_for, read

T_co = TypeVar("T_co", covariant=True)


class Sentiment(Enum):
    POSITIVE = "positive"


@dataclass
class Person:
    name: str


@system_message("Be strict")
@options(temperature=0)
class Judge(Protocol):
    @user_message("Is {{text}} good?")
    def good(self, text: str, *, strict: bool = False) -> bool: ...

    @options(model="openai:gpt-x")
    async def sentiment(self, text: str) -> Result[Sentiment]: ...

    def write(self, text: str) -> Iterator[str]: ...

    def awrite(self, text: str) -> AsyncIterator[str]: ...


class Base(ABC):
    @abstractmethod
    def person(self, text: str) -> Person: ...


class Plain:
    def person(self, text: str) -> Person:
        raise NotImplementedError


class Extractor(Protocol[T_co]):
    def extract(self, text: str) -> T_co: ...

    def detailed(self, text: str) -> Result[T_co]: ...


class Ints(Extractor[int], Protocol): ...


model: ChatModel = ScriptedChatModel(["true"])

# A service has the type of its interface.
judge = create(Judge, model)
assert_type(judge, Judge)
assert_type(create(Judge), Judge)
assert_type(create(Judge, "openai:gpt-x", options=ChatOptions(), budget=Budget()), Judge)
assert_type(create(Base, model), Base)
assert_type(create(Plain, model), Plain)
assert_type(create(Extractor[Person], model), Extractor[Person])
assert_type(create(Extractor[list[int]], model), Extractor[list[int]])
assert_type(create(Ints, model), Ints)

# Its methods have the declared return types.
assert_type(judge.good("x", strict=True), bool)
assert_type(judge.write("x"), Iterator[str])
assert_type(judge.awrite("x"), AsyncIterator[str])
assert_type(create(Base, model).person("x"), Person)
assert_type(create(Extractor[Person], model).extract("x"), Person)
assert_type(create(Extractor[Person], model).detailed("x").value, Person)
assert_type(create(Ints, model).extract("x"), int)


async def awaited() -> None:
    assert_type((await judge.sentiment("x")).value, Sentiment)
    async for piece in judge.awrite("x"):
        assert_type(piece, str)


# Result is covariant.
def widened(narrow: Result[bool]) -> Result[int]:
    return narrow


# A plain class with the same methods can replace a service in tests.
class FakeJudge:
    def good(self, text: str, *, strict: bool = False) -> bool:
        return True

    async def sentiment(self, text: str) -> Result[Sentiment]:
        raise NotImplementedError

    def write(self, text: str) -> Iterator[str]:
        yield "x"

    async def awrite(self, text: str) -> AsyncIterator[str]:
        yield "x"


class FakeExtractor:
    def extract(self, text: str) -> int:
        return 7

    def detailed(self, text: str) -> Result[int]:
        raise NotImplementedError


def use(judge: Judge, extractor: Extractor[int]) -> bool:
    return judge.good("x") and extractor.extract("x") == 7


use(FakeJudge(), FakeExtractor())
use(judge, create(Extractor[int], model))
use(judge, create(Ints, model))


# Decorators keep the signature.
@user_message("{{a}} {{b}}")
@system_message(lambda a: str(a))
@options(temperature=0, stop=["."], strategy="prompt")
def decorated(self: object, a: int, *, b: str = "") -> bool:
    return bool(a)


assert_type(decorated(object(), 1, b="x"), bool)


@structured_prompt("{{dish}}")
@dataclass
class Recipe:
    dish: str


assert_type(Recipe(dish="soup"), Recipe)
assert_type(Recipe("soup").dish, str)

# A preview takes the arguments of the method.
assert_type(preview(judge.good, "x", strict=True), Preview)

# Parsers return the requested type.
assert_type(parse(int, "7"), int)
assert_type(parse(int | str, "7"), int | str)
assert_type(parse(list[int], "[7]"), list[int])
assert_type(parse(Person | None, "null"), Person | None)
assert_type(parse(Annotated[int, Description("in metres")], "7"), int)
assert_type(parser_for(list[int]), TypeParser[list[int]])
assert_type(parser_for(dict[str, Person]).parse("{}"), dict[str, Person])
assert_type(read(Person, "{}"), Reading[Person])
assert_type(read(bool, "true").value, bool)


# A class with the methods of a parser is a parser.
class Backwards:
    schema = None

    def format_instructions(self) -> str:
        return ""

    def parse(self, text: str) -> str:
        return text[::-1]


parser: OutputParser[str] = Backwards()
assert_type(parser.parse("x"), str)


# A streamed value has the declared type.
class Reporter(Protocol):
    @example("It's awful!", returns=Person("Ann"))
    def person(self, text: str) -> Stream[Person]: ...

    def aperson(self, text: str) -> AsyncStream[Person]: ...

    def each(self, text: str) -> Iterator[Person | ItemError]: ...

    def aeach(self, text: str) -> AsyncIterator[Person]: ...


reporter = create(Reporter, model, retry=Retry(2, mode="fields"))
assert_type(create(Reporter, model, retry=None), Reporter)
assert_type(reporter.person("x"), Stream[Person])
assert_type(reporter.person("x").result(), Result[Person])
assert_type(reporter.person("x").result().value, Person)


def streamed() -> None:
    with reporter.person("x") as stream:
        assert_type(stream, Stream[Person])
        for snapshot in stream:
            assert_type(snapshot.done, bool)
    for item in reporter.each("x"):
        assert_type(item, Person | ItemError)
        if isinstance(item, ItemError):
            assert_type(item.index, int)
        else:
            assert_type(item, Person)


async def streamed_async() -> None:
    async with reporter.aperson("x") as stream:
        assert_type(stream, AsyncStream[Person])
        async for snapshot in stream:
            assert_type(snapshot.done, bool)
    assert_type((await stream.result()).value, Person)
    async for item in reporter.aeach("x"):
        assert_type(item, Person)


# Stream is covariant.
def widened_stream(narrow: Stream[bool]) -> Stream[int]:
    return narrow


# The decorator example keeps the signature.
@example("x", 1, b="y", returns=False)
@user_message("{{a}} {{b}}")
def with_example(self: object, a: int, *, b: str = "") -> bool:
    return bool(a)


assert_type(with_example(object(), 1, b="x"), bool)


# Structured answers have the type of the schema.
class Table(TypedDict):
    name: str


SCHEMA = {"type": "object"}
assert_type(structured(model, Person), StructuredModel[Person, Person])
assert_type(structured(model, Person).invoke("x"), Person)
assert_type(structured(model, Table).invoke("x"), Table)
assert_type(structured(model, int).invoke([("user", "x")]), int)
assert_type(structured(model, list[int]).invoke([UserMessage("x")]), list[int])
assert_type(structured(model, Person | None).invoke(UserMessage("x")), Person | None)
assert_type(structured(model, SCHEMA).invoke([{"role": "user", "content": "x"}]), dict[str, Any])
assert_type(structured(model, Person, include_raw=False).invoke("x"), Person)
assert_type(structured(model, Person, include_raw=True).invoke("x"), Structured[Person])
assert_type(structured(model, Person, include_raw=True).invoke("x").value, Person | None)
assert_type(structured(model, list[int], include_raw=True).invoke("x"), Structured[list[int]])
assert_type(structured(model, SCHEMA, include_raw=True).invoke("x"), Structured[dict[str, Any]])
assert_type(structured(model, Table, include_raw=True).stream("x"), Stream[Table])
assert_type(structured(model, Person, strategy="function_calling").stream("x"), Stream[Person])
assert_type(structured(model, Person).astream("x", options=ChatOptions()), AsyncStream[Person])
assert_type(structured(None, Person, retry=None, budget=Budget()).invoke("x"), Person)


async def structured_awaited() -> None:
    assert_type(await structured(model, int).ainvoke("x"), int)
    assert_type(await structured(model, int, include_raw=True).ainvoke("x"), Structured[int])


# A fallback of several models is a model, and a budget has prices.
several = FallbackChatModel("openai:gpt-x", model)
assert_type(several.members, tuple[ChatModel, ...])
assert_type(FallbackChatModel(several, model), FallbackChatModel)
fallback: ChatModel = several
assert_type(create(Judge, several, budget=Budget(money=1, prices={"gpt-x": Price(1, 2.5)})), Judge)


class Decider(Protocol):
    @user_message("{{text}}")
    def one(self, text: str) -> Decision[Sentiment]: ...
    @user_message("{{text}}")
    def several(self, text: str) -> Decision[list[Sentiment]]: ...
    @user_message("{{text}}")
    def named(self, text: str) -> Decision[set[Literal["a", "b"]]]: ...


decider = create(Decider, model)
assert_type(decider.one("x").value, Sentiment)
assert_type(decider.one("x").probabilities, Mapping[Sentiment, float])
assert_type(decider.several("x").at(0.9), list[Sentiment] | None)
assert_type(decider.several("x").probabilities, Mapping[Sentiment, float])
assert_type(decider.named("x").probabilities, Mapping[Literal["a", "b"], float])
assert_type(Cited(5, "five").value, int)
assert_type(Cited(5, "five").start, int | None)
assert_type([quote.value for quote in CitedText(()).quotes], list[str])
assert_type(Decision([Sentiment.POSITIVE], {Sentiment.POSITIVE: 0.9}).value, list[Sentiment])
assert_type(Decision(True, {True: 0.9, False: 0.1}), Decision[bool])


# A method can be called in the other kind of code, blocking or async, with the same types.
class Both(Protocol):
    def ticket(self, text: str, *, urgent: bool = False) -> Person: ...
    def told(self, text: str) -> Result[Person]: ...
    def nothing(self, text: str) -> None: ...
    def growing(self, text: str) -> Stream[Person]: ...
    def each(self, text: str) -> Iterator[Person]: ...
    async def aticket(self, text: str, *, urgent: bool = False) -> Person: ...
    async def atold(self, text: str) -> Result[Person]: ...
    async def anothing(self, text: str) -> None: ...
    def agrowing(self, text: str) -> AsyncStream[Person]: ...
    def aeach(self, text: str) -> AsyncIterator[Person]: ...


both = create(Both, model)


async def awaited_calls() -> None:
    assert_type(await acall(both.ticket, "x", urgent=True), Person)
    assert_type(await acall(both.told, text="x"), Result[Person])
    await acall(both.nothing, "x")
    assert_type(acall(both.growing, "x"), AsyncStream[Person])
    assert_type(acall(both.each, "x"), AsyncIterator[Person])
    assert_type(await acall(both.aticket, "x"), Person)
    assert_type(acall(both.agrowing, "x"), AsyncStream[Person])
    assert_type(acall(both.aeach, "x"), AsyncIterator[Person])


assert_type(call(both.aticket, "x", urgent=True), Person)
assert_type(call(both.atold, text="x"), Result[Person])
call(both.anothing, "x")
assert_type(call(both.agrowing, "x"), Stream[Person])
assert_type(call(both.aeach, "x"), Iterator[Person])
assert_type(call(both.ticket, "x"), Person)
assert_type(call(both.growing, "x"), Stream[Person])
