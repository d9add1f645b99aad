"""ChatMemory works in blocking, async and streaming calls; a closed stream stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    AsyncStream,
    MemoryId,
    Message,
    ScriptedChatModel,
    Stream,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, SqliteChatMemoryStore


class Every(Protocol):
    def value(self, id: Annotated[str, MemoryId], text: str) -> list[str]: ...
    async def avalue(self, id: Annotated[str, MemoryId], text: str) -> list[str]: ...
    def texts(self, id: Annotated[str, MemoryId], text: str) -> Iterator[str]: ...
    def atexts(self, id: Annotated[str, MemoryId], text: str) -> AsyncIterator[str]: ...
    def items(self, id: Annotated[str, MemoryId], text: str) -> Iterator[int]: ...
    def aitems(self, id: Annotated[str, MemoryId], text: str) -> AsyncIterator[int]: ...
    def stream(self, id: Annotated[str, MemoryId], text: str) -> Stream[list[int]]: ...
    def astream(self, id: Annotated[str, MemoryId], text: str) -> AsyncStream[list[int]]: ...


NUMBERS = '{"value": [1, 2, 3]}'
STORED: tuple[Message, ...] = (UserMessage("x"), AiMessage("the reply"))


def served(memory: ChatMemory, reply: str) -> Every:
    return create(Every, ScriptedChatModel(lambda request: reply), interceptors=[memory])


def test_every_kind_of_call_stores_its_exchange(tmp_path: object) -> None:
    memory = ChatMemory()

    async def all_async() -> None:
        numbers, text = served(memory, NUMBERS), served(memory, "the reply")
        await served(memory, '{"value": ["a"]}').avalue("avalue", "x")
        assert [piece async for piece in text.atexts("atexts", "x")] == ["the ", "reply"]
        assert [item async for item in numbers.aitems("aitems", "x")] == [1, 2, 3]
        async with numbers.astream("astream", "x") as stream:
            assert (await stream.result()).value == [1, 2, 3]

    served(memory, '{"value": ["a"]}').value("value", "x")
    assert list(served(memory, "the reply").texts("texts", "x")) == ["the ", "reply"]
    assert list(served(memory, NUMBERS).items("items", "x")) == [1, 2, 3]
    with served(memory, NUMBERS).stream("stream", "x") as stream:
        assert stream.result().value == [1, 2, 3]
    asyncio.run(all_async())
    replies = {"value": '{"value": ["a"]}', "texts": "the reply", "items": NUMBERS, "stream": NUMBERS}
    stored = {f"{a}{kind}": memory.messages(f"{a}{kind}") for kind in replies for a in ("", "a")}
    assert stored == {
        f"{a}{kind}": (UserMessage("x"), AiMessage(replies[kind])) for kind in replies for a in ("", "a")
    }


def test_a_closed_stream_stores_nothing_and_frees_the_conversation() -> None:
    memory = ChatMemory(when_busy="refuse")
    service = served(memory, "the long reply")
    texts = service.texts("a", "x")
    assert next(texts) == "the "
    texts.close()  # type: ignore[attr-defined]
    with served(memory, NUMBERS).stream("a", "y") as stream:
        next(iter(stream))
    assert memory.messages("a") == ()
    assert list(service.texts("a", "z")) == ["the ", "long ", "reply"]
    assert memory.messages("a") == (UserMessage("z"), AiMessage("the long reply"))


def test_a_dropped_stream_stores_nothing_and_frees_the_conversation() -> None:
    memory = ChatMemory(when_busy="refuse")
    service = served(memory, "the long reply")
    for piece in service.texts("a", "x"):
        assert piece == "the "
        break
    assert list(service.texts("a", "z")) == ["the ", "long ", "reply"]
    assert memory.messages("a") == (UserMessage("z"), AiMessage("the long reply"))


def test_a_closed_async_stream_stores_nothing_and_frees_the_conversation() -> None:
    async def scenario() -> None:
        memory = ChatMemory(when_busy="refuse")
        service = served(memory, "the long reply")
        texts = service.atexts("a", "x")
        assert await anext(texts) == "the "
        await texts.aclose()  # type: ignore[attr-defined]
        assert memory.messages("a") == ()
        assert [piece async for piece in service.atexts("a", "z")] == ["the ", "long ", "reply"]
        assert memory.messages("a") == (UserMessage("z"), AiMessage("the long reply"))

    asyncio.run(scenario())


def test_an_async_stream_that_is_closed_in_another_context_frees_the_conversation() -> None:
    async def scenario() -> None:
        memory = ChatMemory(when_busy="refuse")
        service = served(memory, "the long reply")
        texts = service.atexts("a", "x")
        await anext(texts)
        await asyncio.create_task(texts.aclose())  # type: ignore[attr-defined]
        assert [piece async for piece in service.atexts("a", "z")] == ["the ", "long ", "reply"]

    asyncio.run(scenario())


def test_a_store_that_blocks_does_not_block_an_event_loop(tmp_path: object) -> None:
    class Slow(SqliteChatMemoryStore):
        def load(self, conversation: str, /) -> object:  # type: ignore[override]
            import time

            time.sleep(0.2)
            return super().load(conversation)

    async def scenario(memory: ChatMemory) -> int:
        service, ticks = served(memory, NUMBERS), 0
        call = asyncio.create_task(service.avalue("a", "x"))
        while not call.done():
            await asyncio.sleep(0.01)
            ticks += 1
        await call
        return ticks

    with Slow(f"{tmp_path}/memory.db") as store:
        assert asyncio.run(scenario(ChatMemory(store=store))) >= 5
