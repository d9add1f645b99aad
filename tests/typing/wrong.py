# type: ignore
"""What type checkers refuse: each line with an ``E`` is an error for mypy and pyright, and no other is."""

from __future__ import annotations

from typing import Protocol

from aiservices import Result, ScriptedChatModel, create, options, preview, user_message
from output_parsers import parse


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
