"""Random programs of durable calls, and processes that are killed while they run them.

A program is made from a seed: what the model says depends on the seed and on what it was sent. So a program
that was killed and continued must end as one that was not disturbed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from hashlib import blake2b
from random import Random
from typing import Annotated, Any, Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    CallId,
    ChatReply,
    ChatRequest,
    Denied,
    Durable,
    FallbackChatModel,
    ModelServerError,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolException,
    UserMessage,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.guardrails import OutputGuardrails, Verdict, passed, reprompt
from aiservices.journal import JournalStore
from aiservices.memory import ChatMemory
from aiservices.memory.stores import InMemoryChatMemoryStore
from aiservices.models.messages import message_to_dict

from .killed_calls import Killed, Machine, journal_of


class Blocking(Protocol):
    @user_message("Work on {{task}}.")
    def work(self, task: str, call_id: Annotated[str, CallId]) -> str: ...


class WithResult(Protocol):
    @user_message("Work on {{task}}.")
    def work(self, task: str, call_id: Annotated[str, CallId]) -> Result[str]: ...


class Streamed(Protocol):
    @user_message("Work on {{task}}.")
    def work(self, task: str, call_id: Annotated[str, CallId]) -> Iterator[str]: ...


class Async(Protocol):
    @user_message("Work on {{task}}.")
    async def work(self, task: str, call_id: Annotated[str, CallId]) -> str: ...


class AsyncStreamed(Protocol):
    @user_message("Work on {{task}}.")
    def work(self, task: str, call_id: Annotated[str, CallId]) -> AsyncIterator[str]: ...


class Helper(Protocol):
    @user_message("Help with {{n}}.")
    def help(self, n: int) -> str:
        """Help."""
        ...


class AsyncHelper(Protocol):
    @user_message("Help with {{n}}.")
    async def help(self, n: int) -> str:
        """Help."""
        ...


_MOST_QUESTIONS = 20
SHAPES: tuple[Any, ...] = (Blocking, WithResult, Streamed, Async, AsyncStreamed)
TOOLS = ("plain", "again", "approved", "outside", "failing", "undone", "help")


class World:
    """What lasts when a process is killed: the runs of tools, the requests that were paid, conversations."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.requests = 0
        self.memory = InMemoryChatMemoryStore()


class MemoryOfProcess:
    """The store of the conversations, as a process uses it."""

    blocks = False

    def __init__(self, world: World, machine: Machine) -> None:
        self._store, self._machine = world.memory, machine

    def load(self, conversation: str) -> Any:
        self._machine.step()
        return self._store.load(conversation)

    def append(self, conversation: str, messages: Any, *, expected: int) -> int:
        version: int = self._machine.do(lambda: self._store.append(conversation, messages, expected=expected))
        return version

    def replace(self, conversation: str, messages: Any, *, expected: int) -> int:
        raise AssertionError

    def delete(self, conversation: str) -> None:
        raise AssertionError


class Process:
    """A process that runs the program of a seed."""

    def __init__(self, seed: int, world: World, store: JournalStore, machine: Machine) -> None:
        self.world, self.machine, self._seed = world, machine, seed
        random = Random(seed)
        self.shape = random.choice(SHAPES)
        self.is_async = self.shape in (Async, AsyncStreamed)
        self._rounds = random.choice((0, 1, 1, 2, 3))
        self._names = random.sample(TOOLS, random.randint(1, len(TOOLS)))
        self._guarded = random.random() < 0.3
        self._failing = random.random() < 0.3
        helper = self._helper() if "help" in self._names else None
        interceptors: list[Any] = [Durable(journal_of(store, machine))]
        if random.random() < 0.5:
            interceptors.append(ChatMemory(store=MemoryOfProcess(world, machine)))
        if self._guarded:
            interceptors.append(OutputGuardrails(self._guard))
        self.service = create(
            self.shape,
            FallbackChatModel(self._model("first", self._rounds), self._model("second", self._rounds)),
            tools=[*self._tools(), *([helper.help] if helper else [])],
            interceptors=interceptors,
        )

    def _guard(self, text: str, invocation: object) -> Verdict:
        return reprompt("be good") if text.startswith("bad") else passed()

    def _helper(self) -> Any:
        inner = [one for one in self._tools() if one.__name__ in ("plain", "approved")]
        kind = AsyncHelper if self.is_async else Helper
        return create(kind, self._model("helper", 1, ("plain", "approved")), tools=inner)

    def _model(self, name: str, rounds: int, names: Sequence[str] = ()) -> ScriptedChatModel:
        names = names or self._names

        def reply(request: ChatRequest) -> Any:
            def answer() -> Any:
                said = self._reply(name, request, rounds, names)
                self.world.requests += not isinstance(said, Exception)  # failed requests are not paid
                return said

            return self.machine.do(answer)

        return ScriptedChatModel(reply, name=name)

    def _reply(self, name: str, request: ChatRequest, rounds: int, names: Sequence[str]) -> Any:
        messages = [message_to_dict(message) for message in request.messages]
        random = Random(f"{self._seed} {json.dumps(messages)}")
        if name == "first" and self._failing:
            return ModelServerError("down", status=500)
        last = max(index for index, one in enumerate(request.messages) if isinstance(one, UserMessage))
        asked = sum(bool(getattr(one, "tool_calls", ())) for one in request.messages[last:])
        text = f"{blake2b(json.dumps(messages).encode(), digest_size=4).hexdigest()} end"
        if asked >= rounds or "be good" in request.messages[last].text:
            is_bad = self._guarded and "be good" not in str(request.messages) and random.random() < 0.5
            return f"bad {text}" if is_bad else f"good {text}"
        calls = [
            ToolCall(
                f"c{random.randint(0, 3)}{index}", random.choice(names), f'{{"n": {random.getrandbits(30)}}}'
            )
            for index in range(random.choice((1, 1, 2, 3)))
        ]
        return ChatReply(AiMessage(random.choice(("", "let me see ")), tuple(calls)))

    def _run(self, name: str, n: int) -> str:
        self.machine.do(lambda: self.world.runs.update([f"{name} {n}"]))
        return result_of(name, n)

    def _tools(self) -> list[Any]:
        def plain(n: int) -> str:
            """Do it."""
            return self._run("plain", n)

        @tool(idempotent=True)
        def again(n: int) -> str:
            """Do it."""
            return self._run("again", n)

        @tool(needs_approval=True)
        def approved(n: int) -> str:
            """Do it."""
            return self._run("approved", n)

        @tool(external=True)
        def outside(n: int) -> str:
            """Do it."""
            raise AssertionError

        @tool(idempotent=True)
        def failing(n: int) -> str:
            """Do it."""
            raise ToolException(self._run("failing", n))

        def undo(n: int) -> None:
            self.machine.do(lambda: self.world.runs.update([f"undo {n}"]))

        @tool(compensate=undo)
        def undone(n: int) -> str:
            """Do it."""
            return self._run("undone", n)

        tools = [plain, again, approved, outside, failing, undone]
        return [one for one in tools if one.__name__ in self._names or one.__name__ in ("plain", "approved")]

    # --- Running it ---

    def call(self) -> str:
        """Make the call, and answer its questions like an honest operator."""
        return asyncio.run(self._acall()) if self.is_async else self._call()

    def _call(self) -> str:
        start: Callable[[], Any] = lambda: self.service.work("it", call_id="call")  # noqa: E731
        for _ in range(_MOST_QUESTIONS):
            try:
                answer = start()
                if self.shape is Streamed:
                    answer = "".join(answer).rpartition("let me see ")[2]
                return str(getattr(answer, "value", answer))
            except ApprovalRequiredError as error:
                state, approvals, results = error.state, *self._answers(error)
                start = lambda: resume(self.service.work, state, approvals, results=results)  # noqa: E731, B023

        raise AssertionError("the call asks again and again")

    async def _acall(self) -> str:
        start: Callable[[], Any] = lambda: self.service.work("it", call_id="call")  # noqa: E731
        for _ in range(_MOST_QUESTIONS):
            try:
                answer = start()
                if self.shape is AsyncStreamed:
                    return "".join([part async for part in answer]).rpartition("let me see ")[2]
                return str(await answer)
            except ApprovalRequiredError as error:
                state, approvals, results = error.state, *self._answers(error)
                start = lambda: resume(self.service.work, state, approvals, results=results)  # noqa: E731, B023

        raise AssertionError("the call asks again and again")

    def _answers(self, error: ApprovalRequiredError) -> tuple[dict[str, bool | Denied], dict[str, object]]:
        approvals: dict[str, bool | Denied] = {}
        results: dict[str, object] = {}
        for call in (*error.calls, *error.external_calls):
            n = json.loads(call.arguments)["n"]
            if call in error.external_calls:
                results[call.id] = f"outside {n}"
            elif call not in error.in_doubt:
                approvals[call.id] = Denied("no") if n % 3 == 0 else True
            elif self.world.runs[f"{call.name} {n}"]:
                results[call.id] = result_of(call.name, n)
            else:
                approvals[call.id] = True
        return approvals, results


def result_of(name: str, n: int) -> str:
    return f"{name} gave {n}"


def undisturbed(seed: int, store: JournalStore) -> tuple[str, World, int]:
    """Return the answer of a program, the world after it, and the number of its steps."""
    world, machine = World(), Machine()
    return Process(seed, world, store, machine).call(), world, machine.steps


def disturbed(seed: int, store: JournalStore, kills: Sequence[int]) -> tuple[str, World]:
    """Return the answer of a program that is killed after some steps of its first, second, … process."""
    world = World()
    for kill_at in kills:
        try:
            return Process(seed, world, store, Machine(kill_at)).call(), world
        except Killed:
            pass
    return Process(seed, world, store, Machine()).call(), world


def differences(
    seed: int, store: JournalStore, kills: Sequence[int], expected: tuple[str, World]
) -> list[str]:
    """Return how a program that is killed differs from one that is not disturbed."""
    answer, world = disturbed(seed, store, kills)
    wanted, ideal = expected
    problems = []
    if answer != wanted:
        problems.append(f"the answer is {answer!r}, not {wanted!r}")
    for run in {*world.runs, *ideal.runs}:
        is_again = run.startswith(("again", "failing")) and world.runs[run] > 0
        if world.runs[run] != ideal.runs[run] and not (is_again and ideal.runs[run]):
            problems.append(f"{run} ran {world.runs[run]} times, not {ideal.runs[run]}")
    if world.requests > ideal.requests + len(kills):
        problems.append(f"{world.requests} requests instead of {ideal.requests}")
    stored = [world.memory.load(one).messages for one in world.memory.conversations()]
    if stored != [ideal.memory.load(one).messages for one in ideal.memory.conversations()]:
        problems.append(f"the memory is {stored}")
    return [f"seed {seed}, kills {tuple(kills)}: {problem}" for problem in problems]
