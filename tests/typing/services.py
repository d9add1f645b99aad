"""What type checkers know of services: this file is checked by mypy and pyright, and never run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Protocol, TypeVar, assert_type

from aiservices import (
    Budget,
    ChatModel,
    ChatOptions,
    Description,
    Preview,
    Result,
    ScriptedChatModel,
    create,
    options,
    preview,
    structured_prompt,
    system_message,
    user_message,
)
from output_parsers import OutputParser, Reading, TypeParser, parse, parser_for, read

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

# A service is its interface.
judge = create(Judge, model)
assert_type(judge, Judge)
assert_type(create(Judge), Judge)
assert_type(create(Judge, "openai:gpt-x", options=ChatOptions(), budget=Budget()), Judge)
assert_type(create(Base, model), Base)
assert_type(create(Plain, model), Plain)
assert_type(create(Extractor[Person], model), Extractor[Person])
assert_type(create(Extractor[list[int]], model), Extractor[list[int]])
assert_type(create(Ints, model), Ints)

# Its methods return what they say.
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


# A result of a narrower type is one of a wider type.
def widened(narrow: Result[bool]) -> Result[int]:
    return narrow


# A plain class with the same methods is a fake, without us.
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


# Decorators keep what they decorate.
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

# Parsers give what they are asked for.
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
