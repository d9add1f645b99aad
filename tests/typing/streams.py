"""What type checkers know of the events of a stream: checked by mypy and pyright, and never run."""

from __future__ import annotations

from typing import Protocol, assert_never, assert_type

from aiservices import (
    AsyncStream,
    AttemptStarted,
    Completed,
    FieldCompleted,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolFinished,
    ToolRun,
    ToolStarted,
    create,
)


class Teller(Protocol):
    def lengths(self, text: str) -> Stream[list[int]]: ...

    def alengths(self, text: str) -> AsyncStream[list[int]]: ...


teller = create(Teller, ScriptedChatModel([]))


def shown() -> None:
    for event in teller.lengths("x").events():
        match event:
            case AttemptStarted():
                assert_type(event.number, int)
            case ReplyDelta():
                assert_type(event.text, str)
            case ToolStarted():
                assert_type(event.call, ToolCall)
            case ToolFinished():
                assert_type(event.run, ToolRun)
            case FieldCompleted():
                assert_type(event.name, str | int)
            case Completed():
                result: Result[list[int]] = event.result
                assert_type(result.value, list[int])
            case _:
                assert_never(event)


async def ashown() -> None:
    async for event in teller.alengths("x").events():
        if isinstance(event, ToolStarted):
            assert_type(event.call, ToolCall)
        elif isinstance(event, ToolFinished):
            assert_type(event.run, ToolRun)
