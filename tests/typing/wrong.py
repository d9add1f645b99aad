# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Lines that type checkers must reject.

mypy and pyright report each comment that ignores an error which they do not find, and each other error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from aiservices import (
    Budget,
    FallbackChatModel,
    Price,
    Result,
    Retry,
    ScriptedChatModel,
    Stream,
    acall,
    call,
    create,
    example,
    options,
    preview,
    user_message,
)
from aiservices.structured_model import structured
from output_parsers import ItemError, parse


class Judge(Protocol):
    @user_message("Is {{text}} good?")
    def good(self, text: str) -> bool: ...

    def rated(self, text: str) -> Result[int]: ...


class Fake:
    def good(self, text: str) -> str:
        return "yes"

    def rated(self, text: str) -> Result[int]:
        raise NotImplementedError


judge = create(Judge, ScriptedChatModel([]))
judge.good(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
judge.good()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
judge.good("x", "y")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
judge.bad("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
text: str = judge.good("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
rating: int = judge.rated("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
name: str = judge.rated("x").value  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
fake: Judge = Fake()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
create(Judge, 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
create(Judge, ScriptedChatModel([]), temperature=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
preview(judge.good)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
preview(judge.good, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
number: str = parse(int, "7")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
options(temperature="hot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
options(reasoning_effort="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
user_message(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@user_message("{{text}}")
def decorated(self: object, text: str) -> bool:
    return bool(text)


decorated(object(), 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Reporter(Protocol):
    def number(self, text: str) -> Stream[int]: ...

    def each(self, text: str) -> Iterator[int | ItemError]: ...


reporter = create(Reporter, ScriptedChatModel([]))
ready: int = reporter.number("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
word: str = reporter.number("x").result().value  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
numbers: Iterator[int] = reporter.each("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
wider: Stream[int] = create(Reporter, ScriptedChatModel([])).number("x")
narrower: Stream[bool] = wider  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
example("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
example("x", returns=1)(5)  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]
Retry("two")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Retry(mode="parts")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
create(Reporter, ScriptedChatModel([]), retry=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
FallbackChatModel()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
FallbackChatModel(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
FallbackChatModel(ScriptedChatModel([]), 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Price(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Price("1", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Budget(prices={"m": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
structured_model = structured(ScriptedChatModel([]), int)
answer: str = structured_model.invoke("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
with_raw = structured(ScriptedChatModel([]), int, include_raw=True)
raw: int = with_raw.invoke("x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
structured_model.invoke(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
structured_model.invoke("x", temperature=0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
structured(5, int)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
structured(ScriptedChatModel([]), int, strategy=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
structured(ScriptedChatModel([]), int, include_raw=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
structured(ScriptedChatModel([]))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
acall(reporter.number, 5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
call(reporter.number)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
each_one: Iterator[int] = acall(reporter.each, "x")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
