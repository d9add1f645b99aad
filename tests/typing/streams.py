"""The types that type checkers infer for the events of a stream. This file is never run."""

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
    ToolUndone,
    create,
)


class Reporter(Protocol):
    def lengths(self, text: str) -> Stream[list[int]]: ...

    def alengths(self, text: str) -> AsyncStream[list[int]]: ...


reporter = create(Reporter, ScriptedChatModel([]))


def events() -> None:
    for event in reporter.lengths("x").events():
        match event:
            case AttemptStarted():
                assert_type(event.number, int)
            case ReplyDelta():
                assert_type(event.text, str)
            case ToolStarted():
                assert_type(event.call, ToolCall)
            case ToolFinished():
                assert_type(event.run, ToolRun)
            case ToolUndone():
                assert_type(event.run, ToolRun)
            case FieldCompleted():
                assert_type(event.name, str | int)
            case Completed():
                result: Result[list[int]] = event.result
                assert_type(result.value, list[int])
            case _:
                assert_never(event)


async def events_async() -> None:
    async for event in reporter.alengths("x").events():
        if isinstance(event, ToolStarted):
            assert_type(event.call, ToolCall)
        elif isinstance(event, ToolFinished):
            assert_type(event.run, ToolRun)
