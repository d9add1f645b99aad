"""Random scripts of the tool loop over a memory: what is stored stays valid for each provider.

A script has several turns of one conversation. In each turn the model calls tools in rounds: tools that
succeed, fail or do not exist, and those that need an approval or are external, or in other scripts those that
start while the reply is streamed. A turn may be read as a stream and abandoned, killed inside a tool, or
suspended, stored as JSON and resumed by another service. Streams may break, and replies may be cut off.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Protocol

from provider_rules import CHECKS

from aiservices import (
    AiMessage,
    AsyncStream,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    FinishReason,
    MemoryId,
    ModelServerError,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    TruncatedError,
    Usage,
    UserMessage,
    create,
    resume,
    user_message,
)
from aiservices.engine.approval import ApprovalRequiredError, SuspendedCall
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore
from aiservices.models.errors import ToolLimitError
from aiservices.tools.tool import ToolException, tool
from aiservices.tools.toolbox import ToolLimits

TURNS = 4
NAMES = ("good", "bad", "unknown")
WAITING = ("approved", "external")


class Chat(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str, conversation: Annotated[str, MemoryId]) -> Result[str]: ...

    @user_message("{{text}}")
    def tell(self, text: str, conversation: Annotated[str, MemoryId]) -> Stream[str]: ...


class AsyncChat(Protocol):
    @user_message("{{text}}")
    async def ask(self, text: str, conversation: Annotated[str, MemoryId]) -> Result[str]: ...

    @user_message("{{text}}")
    def tell(self, text: str, conversation: Annotated[str, MemoryId]) -> AsyncStream[str]: ...


class Killed(BaseException):
    """Simulates the end of the process while a tool runs."""


class Script:
    """A random conversation, with the model and the tools that take part in it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = InMemoryChatMemoryStore()
        self.runs: Counter[int] = Counter()  # how often the tool of each call ran
        self.used = Usage()  # since the call began or was resumed
        self.calls = 0
        self.kill_at = 0
        self.outcomes: Counter[str] = Counter()
        self.starts_early = self.chance.random() < 0.5
        self.is_async = self.starts_early and self.chance.random() < 0.3
        self.names = (*NAMES, *(("early", "early") if self.starts_early else WAITING))

    def service(self) -> Any:
        """Return a new service, as another process would create it, over the same memory."""
        tools: Any = [self.good, self.bad]
        if self.starts_early:
            tools.append(tool(name="early", start_early=True)(self.aearly if self.is_async else self.early))
        else:
            tools += [self.approved, self.external]
        interface: Any = AsyncChat if self.is_async else Chat
        return create(
            interface,
            FlakyModel(self),
            tools=tools,
            interceptors=[ChatMemory(store=self.store)],
            budget=Budget(max_attempts=20, first_wait=0),
            tool_limits=ToolLimits(max_concurrency=self.chance.choice([1, 2, 8])),
        )

    def reply(self, request: ChatRequest) -> ChatReply:
        usage = Usage(self.chance.randint(1, 50), self.chance.randint(1, 50))
        if self.chance.random() < 0.45:
            return ChatReply(AiMessage(f"Answer {self.calls}"), usage=usage)
        calls = []
        for _ in range(self.chance.randint(1, 3)):
            self.calls += 1
            arguments = '{"number": "x"}' if self.chance.random() < 0.1 else f'{{"number": {self.calls}}}'
            calls.append(ToolCall(f"call_{self.calls}", self.chance.choice(self.names), arguments))
        message = AiMessage(self.chance.choice(["", "I look it up."]), tuple(calls))
        is_cut_off = self.chance.random() < 0.03
        return ChatReply(message, FinishReason.LENGTH if is_cut_off else FinishReason.TOOL_CALLS, usage=usage)

    def good(self, number: int) -> str:
        self._run(number)
        return f"result {number}"

    def bad(self, number: int) -> str:
        self._run(number)
        raise ToolException(f"no result {number}")

    def early(self, number: int) -> str:
        self._run(number)
        return f"early result {number}"

    async def aearly(self, number: int) -> str:
        await asyncio.sleep(0)
        return self.early(number)

    @tool(needs_approval=True)
    def approved(self, number: int) -> str:
        self._run(number)
        return f"approved result {number}"

    @tool(external=True)
    def external(self, number: int) -> str:
        raise AssertionError("the function of an external tool never runs")

    def _run(self, number: int) -> None:
        self.runs[number] += 1
        if self.kill_at and number >= self.kill_at:
            self.kill_at = 0
            raise Killed

    def turn(self, number: int) -> None:
        self.used = Usage()
        kind = self.chance.choice(["call", "call", "stream", "abandoned", "killed"])
        self.kill_at = self.calls + 1 if kind == "killed" else 0
        before = self.stored()
        service = self.service()
        try:
            if kind == "abandoned":
                self._abandon(service.tell(f"Question {number}?", "c"))
            elif kind == "stream":
                self._finish(self._outcome(service.tell(f"Question {number}?", "c").result()))
            else:
                self._finish(self._outcome(service.ask(f"Question {number}?", "c")))
        except ApprovalRequiredError as error:
            self._resume(error, streamed=kind in ("stream", "abandoned"))
        except Killed:
            self.outcomes["killed"] += 1
            assert self.stored() == before
        except ToolLimitError:
            self.outcomes["limited"] += 1
        except TruncatedError:
            self.outcomes["cut off"] += 1
            assert self.stored() == before
        self.kill_at = 0

    def _outcome(self, outcome: Any) -> Any:
        return asyncio.run(outcome) if self.is_async else outcome

    def _abandon(self, stream: Any) -> None:
        last = self.chance.randint(0, 6)
        if self.is_async:
            asyncio.run(self._aabandon(stream, last))
        else:
            with stream:
                for count, _ in enumerate(stream.events()):
                    if count == last:
                        break
        self.outcomes["abandoned"] += 1

    async def _aabandon(self, stream: AsyncStream[str], last: int) -> None:
        async with stream:
            count = 0
            async for _ in stream.events():
                if count == last:
                    break
                count += 1

    def _resume(self, error: ApprovalRequiredError, *, streamed: bool) -> None:
        """Resume a suspended turn in another service until it ends, or forget it."""
        while True:
            self.outcomes["suspended"] += 1
            if self.chance.random() < 0.1:
                return
            state = SuspendedCall.from_json(error.state.to_json())
            approvals = {call.id: self.chance.random() < 0.7 for call in error.calls}
            results = {call.id: f"outside {call.id}" for call in error.external_calls}
            self.used = Usage()
            try:
                service = self.service()
                if streamed:
                    self._finish(resume(service.tell, state, approvals, results=results).result())
                else:
                    self._finish(resume(service.ask, state, approvals, results=results))
                return
            except ApprovalRequiredError as again:
                error = again
            except Killed:
                self.outcomes["killed"] += 1
                return
            except ToolLimitError:
                self.outcomes["limited"] += 1
                return
            except TruncatedError:
                self.outcomes["cut off"] += 1
                return

    def _finish(self, result: Result[str]) -> None:
        self.outcomes["answered"] += 1
        assert result.usage == self.used
        assert self.stored()[-1] == AiMessage(result.value)

    def stored(self) -> list[Any]:
        return list(self.store.load("AsyncChat/c" if self.is_async else "Chat/c").messages)


class FlakyModel(ScriptedChatModel):
    """The model of a script, whose streams sometimes break."""

    def __init__(self, script: Script) -> None:
        super().__init__(script.reply, capabilities=Capabilities(tools=True))
        self._conversation = script

    def complete(self, request: ChatRequest) -> ChatReply:
        reply = super().complete(request)
        self._conversation.used += reply.usage or Usage()
        return reply

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        used = self._conversation.used
        deltas = list(super().stream(request))
        if self._conversation.chance.random() < 0.1:
            self._conversation.used = used
            yield from deltas[: self._conversation.chance.randrange(len(deltas))]
            self._conversation.outcomes["broken"] += 1
            raise ModelServerError("the stream broke", retryable=True)
        yield from deltas


def check(seed: int) -> Counter[str]:
    script = Script(seed)
    for number in range(TURNS):
        script.turn(number)
        messages = script.stored()
        for rules in CHECKS.values():
            rules([*messages, UserMessage("And then?")])
    assert set(script.runs.values()) <= {1}
    return script.outcomes


def check_all(seeds: Iterable[int]) -> None:
    scripts, outcomes = 0, Counter[str]()
    for seed in seeds:
        outcomes += check(seed)
        scripts += 1
    assert all(outcomes[name] > scripts / 10 for name in ("answered", "suspended", "killed", "abandoned"))


def test_random_scripts_leave_valid_conversations_and_run_no_tool_twice() -> None:
    check_all(range(150))


def test_more_random_scripts_leave_valid_conversations(campaign: Iterable[int]) -> None:
    check_all(map((1_000).__add__, campaign))
