"""Services, tools and scripted models that the tests of tools share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AsyncStream,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    FinishReason,
    Message,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolMessage,
    create,
)
from aiservices.tools.tool import ToolRun, ToolSource

TOOLS = Capabilities(tools=True)
NATIVE = Capabilities(tools=True, json_schema=True)
STRICT = Capabilities(tools=True, json_schema=True, strict_schema=True)
ANN = '{"name": "Ann", "age": 31}'
QUICK_BUDGET = Budget(max_attempts=3, first_wait=0)


@dataclass
class Person:
    name: str
    age: int


class TextService(Protocol):
    def ask(self, text: str) -> str: ...

    def told(self, text: str) -> Result[str]: ...

    async def aask(self, text: str) -> str: ...

    def stream(self, text: str) -> Stream[str]: ...

    def astream(self, text: str) -> AsyncStream[str]: ...

    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...


class PersonService(Protocol):
    def find(self, text: str) -> Person: ...

    def told(self, text: str) -> Result[Person]: ...

    async def afind(self, text: str) -> Person: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def either(self, text: str) -> Person | str: ...


class AsyncTextService(Protocol):
    async def ask(self, text: str) -> str: ...


def tool_calls_reply(*named: tuple[str, str] | tuple[str, str, str], text: str = "") -> ChatReply:
    tool_calls = tuple(
        ToolCall(one[2] if len(one) > 2 else f"c{number}", one[0], one[1])
        for number, one in enumerate(named, 1)
    )
    return ChatReply(AiMessage(text, tool_calls), FinishReason.TOOL_CALLS)


def assert_provider_accepts(messages: tuple[Message, ...]) -> None:
    """Assert that each tool call is answered once, in order, right after the message that makes it."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, f"{message} answers no call"
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting, f"{waiting} are not answered before {message}"
        if isinstance(message, AiMessage):
            waiting = [call.id for call in message.tool_calls]
            assert all(waiting), "a call without an id"
            assert len(set(waiting)) == len(waiting), "two calls with one id"
    assert not waiting, f"{waiting} are not answered"


def strict_provider(
    *replies: str | ChatReply | Exception, capabilities: Capabilities = TOOLS
) -> ScriptedChatModel:
    """Return a scripted model that rejects the requests that a real provider rejects."""
    script = iter(replies)

    def answer(request: ChatRequest) -> str | ChatReply | Exception:
        assert_provider_accepts(request.messages)
        if request.tooling is not None:
            names = [one.name for one in request.tooling.tools]
            assert len(set(names)) == len(names), f"two tools with one name: {names}"
        return next(script)

    return ScriptedChatModel(answer, capabilities=capabilities)


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Adds."""
    return a + b


def text_service(model: Any, *tools: ToolSource, **settings: Any) -> TextService:
    return create(TextService, model, tools=tools, budget=QUICK_BUDGET, **settings)


ADD_CALL = ("add", '{"a": 1, "b": 2}')


async def joined_text(items: AsyncIterator[str]) -> str:
    return "".join([item async for item in items])


async def stream_value(stream: AsyncStream[str]) -> str:
    return (await stream.result()).value


CALL_KINDS: dict[str, Callable[[TextService], str]] = {
    "blocking": lambda service: service.ask("x"),
    "async": lambda service: asyncio.run(service.aask("x")),
    "stream": lambda service: service.stream("x").result().value,
    "async stream": lambda service: asyncio.run(stream_value(service.astream("x"))),
    "texts": lambda service: "".join(service.texts("x")),
    "async texts": lambda service: asyncio.run(joined_text(service.atexts("x"))),
}
every_call_kind = pytest.mark.parametrize("kind", CALL_KINDS)


def messages_to(model: ScriptedChatModel, number: int = -1) -> tuple[Message, ...]:
    return model.requests[number].messages


def tool_result_text(*tools: ToolSource, call: tuple[str, str], **settings: Any) -> str:
    """Return the tool message that the model receives for a call."""
    model = strict_provider(tool_calls_reply(call), "Done.")
    assert text_service(model, *tools, **settings).ask("x") == "Done."
    message = messages_to(model)[-1]
    assert isinstance(message, ToolMessage)
    return message.text


class Unsafe(Exception):
    pass


def reraise(run: ToolRun) -> str:
    assert run.error is not None
    raise run.error


def search(text: str) -> str:
    """Searches."""
    return f"found {text}"


SEARCH_CALL = ("search", '{"text": "Ann"}')


def person_service(model: Any, *tools: ToolSource, **settings: Any) -> PersonService:
    return create(PersonService, model, tools=tools or [search], budget=QUICK_BUDGET, **settings)


FIND_KINDS: dict[str, Callable[[PersonService], Person]] = {
    "blocking": lambda service: service.find("x"),
    "async": lambda service: asyncio.run(service.afind("x")),
    "stream": lambda service: service.grow("x").result().value,
}
every_find_kind = pytest.mark.parametrize("kind", FIND_KINDS)
