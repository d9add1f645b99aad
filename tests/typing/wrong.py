# type: ignore
"""Lines that type checkers must reject: exactly those with an ``E`` comment are errors."""

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
from aiservices.structured import structured
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
judge.good(5)  # E: arg-type reportArgumentType
judge.good()  # E: call-arg reportCallIssue
judge.good("x", "y")  # E: call-arg reportCallIssue
judge.bad("x")  # E: attr-defined reportAttributeAccessIssue
text: str = judge.good("x")  # E: assignment reportAssignmentType
rating: int = judge.rated("x")  # E: assignment reportAssignmentType
name: str = judge.rated("x").value  # E: assignment reportAssignmentType
fake: Judge = Fake()  # E: assignment reportAssignmentType
create(Judge, 5)  # E: call-overload reportArgumentType
create(Judge, ScriptedChatModel([]), temperature=1)  # E: call-overload reportCallIssue
preview(judge.good)  # E: call-arg reportCallIssue
preview(judge.good, 5)  # E: arg-type reportArgumentType
number: str = parse(int, "7")  # E: assignment reportAssignmentType
options(temperature="hot")  # E: arg-type reportArgumentType
options(reasoning_effort="some")  # E: arg-type reportArgumentType
user_message(5)  # E: arg-type reportArgumentType


@user_message("{{text}}")
def decorated(self: object, text: str) -> bool:
    return bool(text)


decorated(object(), 5)  # E: arg-type reportArgumentType


class Reporter(Protocol):
    def number(self, text: str) -> Stream[int]: ...

    def each(self, text: str) -> Iterator[int | ItemError]: ...


reporter = create(Reporter, ScriptedChatModel([]))
ready: int = reporter.number("x")  # E: assignment reportAssignmentType
word: str = reporter.number("x").result().value  # E: assignment reportAssignmentType
numbers: Iterator[int] = reporter.each("x")  # E: assignment reportAssignmentType
wider: Stream[int] = create(Reporter, ScriptedChatModel([])).number("x")
narrower: Stream[bool] = wider  # E: assignment reportAssignmentType
example("x")  # E: call-arg reportCallIssue
example("x", returns=1)(5)  # E: type-var reportArgumentType
Retry("two")  # E: arg-type reportArgumentType
Retry(mode="parts")  # E: arg-type reportArgumentType
create(Reporter, ScriptedChatModel([]), retry=3)  # E: call-overload reportArgumentType
FallbackChatModel()  # E: call-arg reportCallIssue
FallbackChatModel(None)  # E: arg-type reportArgumentType
FallbackChatModel(ScriptedChatModel([]), 5)  # E: arg-type reportArgumentType
Price(1)  # E: call-arg reportCallIssue
Price("1", 2)  # E: arg-type reportArgumentType
Budget(prices={"m": 1})  # E: dict-item reportArgumentType
structured_model = structured(ScriptedChatModel([]), int)
answer: str = structured_model.invoke("x")  # E: assignment reportAssignmentType
with_raw = structured(ScriptedChatModel([]), int, include_raw=True)
raw: int = with_raw.invoke("x")  # E: assignment reportAssignmentType
structured_model.invoke(5)  # E: arg-type reportArgumentType
structured_model.invoke("x", temperature=0)  # E: call-arg reportCallIssue
structured(5, int)  # E: call-overload reportArgumentType
structured(ScriptedChatModel([]), int, strategy=5)  # E: call-overload reportArgumentType
structured(ScriptedChatModel([]), int, include_raw=1)  # E: call-overload reportArgumentType
structured(ScriptedChatModel([]))  # E: call-overload reportCallIssue
acall(reporter.number, 5)  # E: call-overload reportArgumentType
call(reporter.number)  # E: call-overload reportCallIssue
each_one: Iterator[int] = acall(reporter.each, "x")  # E: assignment reportAssignmentType
