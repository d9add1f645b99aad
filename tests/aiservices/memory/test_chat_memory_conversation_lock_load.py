"""Many concurrent conversations over HTTP with faults: each stores exactly its own successful exchanges.

As a program, this file makes all calls with the database and the server of its arguments, until it is killed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

import pytest
from loopback import DONE, Loopback, ReceivedRequest, Reply, answer, delta, error, reset_reply, sse

from aiservices import (
    AiMessage,
    AiServiceError,
    Budget,
    MemoryId,
    Message,
    ModelError,
    OpenAiChatModel,
    Stream,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, ChatMemoryStore, InMemoryChatMemoryStore, SqliteChatMemoryStore
from aiservices.memory.windows import Exchange, join_exchanges, split_exchanges

ROOT = Path(__file__).parents[3]
CONVERSATIONS, TURNS, THREADS = 20, 5, 40
SECONDS_OF_SLOWNESS = 0.03
FAULTS = {"500": 4, "reset": 4, "cut": 6, "500 once": 4, "reset once": 4, "slow": 10, "": 68}
# A call makes at most three requests, each of which may fail once.
BUDGET = Budget(max_attempts=6, first_wait=0.005)


class Chat(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...
    def texts(self, id: Annotated[str, MemoryId], text: str) -> Iterator[str]: ...
    def growing(self, id: Annotated[str, MemoryId], text: str) -> Stream[str]: ...
    async def achat(self, id: Annotated[str, MemoryId], text: str) -> str: ...
    def atexts(self, id: Annotated[str, MemoryId], text: str) -> AsyncIterator[str]: ...


class Asking(NamedTuple):
    """A call of the load test: its kind and its question, which begins with the conversation id."""

    kind: str
    text: str

    @property
    def id(self) -> str:
        return self.text.split()[0]


def look(key: str, id: Annotated[str, MemoryId]) -> str:
    """Look something up."""
    return f"{key}, as {id} sees it"


def rounds_of(text: str) -> int:
    """Return the number of tool rounds that the server makes for a question."""
    return random.Random(f"rounds of {text}").choice((0, 1, 2))


def fault_of(text: str, step: int) -> str:
    """Return the simulated fault of a request, which is the same in each run."""
    return random.Random(f"fault of {text}, {step}").choices([*FAULTS], [*FAULTS.values()])[0]


def calls_of(text: str, step: int) -> tuple[ToolCall, ToolCall]:
    first, second = (ToolCall(f"{text} {step}{n}", "look", f'{{"key": "{text} {step}{n}"}}') for n in "ab")
    return first, second


def exchange_of(text: str) -> Exchange:
    """Return the messages that a conversation must contain for a successful call."""
    said: list[Message] = [UserMessage(text)]
    for step in range(rounds_of(text)):
        calls = calls_of(text, step)
        said.append(AiMessage("", calls))
        said += [ToolMessage(call.id, "look", f"{call.id}, as {text.split()[0]} sees it") for call in calls]
    return (*said, AiMessage(f"re {text}"))


def fails(asking: Asking) -> bool:
    """Return True if a call cannot succeed: it is abandoned, or one of its requests fails for good."""
    streamed = asking.kind not in ("chat", "achat")
    deadly = {"500", "reset", "cut"} if streamed else {"500", "reset"}
    faults = {fault_of(asking.text, step) for step in range(rounds_of(asking.text) + 1)}
    return asking.kind in ("left", "aleft") or bool(faults & deadly)


def server_script() -> Callable[[ReceivedRequest], Reply]:
    """Return a function that replies to requests and simulates each one-time fault only once."""
    tried: set[bytes] = set()

    def serve(seen: ReceivedRequest) -> Reply:
        again = seen.body in tried
        tried.add(seen.body)
        return reply_to(seen, again=again)

    return serve


def reply_to(seen: ReceivedRequest, *, again: bool) -> Reply:
    """Answer the last question or call tools for it, unless the request has a fault."""
    said = seen.json["messages"]
    user_positions = [number for number, message in enumerate(said) if message["role"] == "user"]
    text = said[user_positions[-1]]["content"]
    step = sum(message["role"] == "assistant" for message in said[user_positions[-1] :])
    if len({said[number]["content"].split()[0] for number in user_positions}) != 1:
        return error(400, "this request holds questions of several conversations")
    fault = fault_of(text, step)
    if fault == "500" or (fault == "500 once" and not again):
        return error(500, "overloaded")
    if fault == "reset" or (fault == "reset once" and not again):
        return reset_reply()
    if fault == "slow":
        time.sleep(SECONDS_OF_SLOWNESS)
    final = step == rounds_of(text)
    if seen.json.get("stream"):
        return streamed(text, None if final else calls_of(text, step), cut=fault == "cut")
    return answer(f"re {text}") if final else called(calls_of(text, step))


def written(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for index, call in enumerate(calls)
    ]


def called(calls: Sequence[ToolCall]) -> Reply:
    return answer(None, finish_reason="tool_calls", tool_calls=written(calls))


def streamed(text: str, calls: Sequence[ToolCall] | None, *, cut: bool) -> Reply:
    if calls is None:
        pieces = [delta(content="re "), *(delta(content=letter) for letter in text), delta("stop")]
    else:
        pieces = [*(delta(tool_calls=[call]) for call in written(calls)), delta("tool_calls")]
    return sse(*pieces[: len(pieces) // 2], cut_off=True) if cut else sse(*pieces, DONE)


def ask(chat: Chat, asking: Asking) -> str | None:
    """Make a blocking call and return its answer, or None if it failed or was abandoned."""
    id, text = asking.id, asking.text
    try:
        if asking.kind == "chat":
            return chat.chat(id, text)
        if asking.kind == "texts":
            return "".join(chat.texts(id, text))
        if asking.kind == "growing":
            return chat.growing(id, text).result().value
        assert asking.kind == "left"
        with closing(chat.texts(id, text)) as texts:  # type: ignore[type-var]  # a generator
            next(texts)
    except ModelError:
        pass
    except AiServiceError as error:  # the comparison of the outcomes reports other exceptions
        return repr(error)
    return None


async def aask(chat: Chat, asking: Asking) -> str | None:
    """Make an async call and return its answer, or None if it failed or was abandoned."""
    id, text = asking.id, asking.text
    try:
        if asking.kind == "achat":
            return await chat.achat(id, text)
        if asking.kind == "atexts":
            return "".join([piece async for piece in chat.atexts(id, text)])
        assert asking.kind == "aleft"
        async with aclosing(chat.atexts(id, text)) as texts:  # type: ignore[type-var]  # a generator
            await anext(texts)
    except ModelError:
        pass
    except AiServiceError as error:  # the comparison of the outcomes reports other exceptions
        return repr(error)
    return None


BLOCKING = ("chat", "texts", "growing", "chat", "left")
ASYNC = ("achat", "atexts", "achat", "atexts", "aleft")


def askings(kinds: Sequence[str], run: object = 0) -> list[Asking]:
    """Return all calls of the load test in the order of their start, with alternating conversations."""
    return [
        Asking(kinds[(invocation + number) % len(kinds)], f"c{number:02} asks {run}.{invocation}")
        for invocation in range(TURNS)
        for number in range(CONVERSATIONS)
    ]


Outcomes = dict[Asking, str | None]


def in_threads(chat: Chat, model: OpenAiChatModel) -> Outcomes:
    wanted = askings(BLOCKING)
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(wanted, pool.map(lambda asking: ask(chat, asking), wanted), strict=True))


def in_a_loop(chat: Chat, model: OpenAiChatModel) -> Outcomes:
    wanted = askings(ASYNC)

    async def scenario() -> list[str | None]:
        async with model:
            return await asyncio.gather(*(aask(chat, asking) for asking in wanted))

    return dict(zip(wanted, asyncio.run(scenario()), strict=True))


def in_threads_and_a_loop(chat: Chat, model: OpenAiChatModel) -> Outcomes:
    """Make half of the calls of each conversation in threads and half in an event loop, concurrently."""
    wanted = askings(BLOCKING)
    with ThreadPoolExecutor(THREADS // 2) as pool:
        blocking = [pool.submit(ask, chat, asking) for asking in wanted[::2]]
        awaited = [Asking(f"a{asking.kind}", asking.text) for asking in wanted[1::2]]
        awaited = [asking if asking.kind in ASYNC else Asking("atexts", asking.text) for asking in awaited]

        async def scenario() -> list[str | None]:
            async with model:
                return await asyncio.gather(*(aask(chat, asking) for asking in awaited))

        outcomes = dict(zip(awaited, asyncio.run(scenario()), strict=True))
        return outcomes | dict(zip(wanted[::2], [one.result() for one in blocking], strict=True))


@pytest.fixture(params=["in_memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChatMemoryStore]:
    if request.param == "in_memory":
        yield InMemoryChatMemoryStore()
    else:
        with SqliteChatMemoryStore(tmp_path / "memory.db") as made:
            yield made


def model_at(base_url: str) -> OpenAiChatModel:
    return OpenAiChatModel("m-1", base_url=base_url, api_key="none-is-needed")


@pytest.mark.parametrize("run", [in_threads, in_a_loop, in_threads_and_a_loop])
def test_each_conversation_stores_its_own_successful_calls(
    run: Callable[[Chat, OpenAiChatModel], Outcomes], store: ChatMemoryStore, loopback: Loopback
) -> None:
    loopback.reply(server_script())
    memory = ChatMemory(store=store)
    with model_at(loopback.base_url) as model:
        chat = create(Chat, model, tools=[look], interceptors=[memory], budget=BUDGET)
        outcomes = run(chat, model)
    assert len(outcomes) == CONVERSATIONS * TURNS
    assert outcomes == {asking: None if fails(asking) else f"re {asking.text}" for asking in outcomes}
    assert 0 < sum(said is None for said in outcomes.values()) < len(outcomes)
    for id in {asking.id for asking in outcomes}:
        kept = memory.messages(id)
        answered = sorted(asking.text for asking, said in outcomes.items() if asking.id == id and said)
        exchanges = split_exchanges(kept)
        assert join_exchanges(exchanges) == kept
        assert sorted(exchange[0].text for exchange in exchanges) == answered
        assert list(exchanges) == [exchange_of(exchange[0].text) for exchange in exchanges]
    assert memory._locks.queues == {}


def talk(path: str, base_url: str, run: str) -> None:
    """Make all calls in threads and in an event loop, and print each one that succeeded."""
    with SqliteChatMemoryStore(path) as store, model_at(base_url) as model:
        memory = ChatMemory(store=store)
        chat = create(Chat, model, tools=[look], interceptors=[memory], budget=BUDGET)

        def tell(asking: Asking, said: str | None) -> None:
            if said is not None:
                os.write(1, f"{asking.text}\n".encode())

        async def awaited(asking: Asking) -> None:
            tell(asking, await aask(chat, asking))

        async def scenario() -> None:
            async with model:
                await asyncio.gather(*map(awaited, askings(ASYNC, f"{run}a")))

        with ThreadPoolExecutor(THREADS) as pool:
            for asking in askings(BLOCKING, f"{run}b"):
                pool.submit(lambda asking: tell(asking, ask(chat, asking)), asking)
            asyncio.run(scenario())


def questions_before_kill(seconds: float, path: Path, base_url: str, run: str) -> list[str]:
    """Return the questions that a process printed before it was killed, some seconds after the first."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [sys.executable, __file__, str(path), base_url, run]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        told = [process.stdout.readline()]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
        assert process.wait() == -signal.SIGKILL
    return [line.removesuffix("\n") for line in told if line.endswith("\n")]


@pytest.mark.slow
def test_a_process_killed_during_many_conversations_leaves_complete_exchanges(
    tmp_path: Path, loopback: Loopback
) -> None:
    """All calls that the process had reported are stored, and the next process uses the same file."""
    loopback.reply(server_script())
    path, told, chance = tmp_path / "memory.db", list[str](), random.Random(11)
    for run in range(3):
        told += questions_before_kill(chance.uniform(0.02, 0.4), path, loopback.base_url, str(run))
    begun = {asking for run in range(3) for asking in askings(BLOCKING, f"{run}b")}
    begun |= {asking for run in range(3) for asking in askings(ASYNC, f"{run}a")}
    possible_questions = {asking.text for asking in begun if not fails(asking)}
    stored_questions: list[str] = []
    with SqliteChatMemoryStore(path) as store:
        for id in store.conversations():
            kept = store.load(id).messages
            exchanges = split_exchanges(kept)
            assert join_exchanges(exchanges) == kept
            assert {exchange[0].text.split()[0] for exchange in exchanges} == {id.removeprefix("Chat/")}
            assert list(exchanges) == [exchange_of(exchange[0].text) for exchange in exchanges]
            stored_questions += [exchange[0].text for exchange in exchanges]
    assert [text for text, times in Counter(stored_questions).items() if times > 1] == []
    assert set(told) <= set(stored_questions) <= possible_questions
    assert len(stored_questions) < len(possible_questions)  # the call was running when the process was killed


if __name__ == "__main__":
    talk(*sys.argv[1:])
