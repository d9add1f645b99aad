"""Random trees of services that are tools of each other: their usage, budgets, approvals and interruptions.

A tree has three levels of services. Their tools are functions that succeed, fail, need an approval or get
their result from outside, methods of other services, and Python functions that call services in turn, in
threads or in tasks. What a model replies depends only on the seed, on the path of its call in the tree and on
the results so far. So each tree runs three times: without interruption, with approvals and results that come
later through JSON and new services, and with an interruption at a random request.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import threading
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from types import new_class
from typing import Any, Protocol

from aiservices import (
    AiMessage,
    AiServiceError,
    ApprovalRequiredError,
    AsyncStream,
    AttemptStarted,
    AuthenticationError,
    Budget,
    BudgetExceededError,
    CallFailed,
    CallStarted,
    Capabilities,
    ChatReply,
    ChatRequest,
    Denied,
    FinishReason,
    InnerCall,
    InnerCalls,
    ModelServerError,
    Price,
    ReplyDelta,
    ReplyFailed,
    ReplyReceived,
    Result,
    ScriptedChatModel,
    SharedBudget,
    Stream,
    SuspendedCall,
    ToolCall,
    ToolError,
    ToolException,
    ToolLimits,
    ToolMessage,
    TruncatedError,
    Usage,
    create,
    resume,
    tool,
    user_message,
)

LEVELS = 3
LEAVES = ("good", "good", "bad", "broken", "approved", "approved", "external")
PRICES = {"fake": Price(1_000_000, 2_000_000)}  # whole numbers, so that sums are exact


def interface(returns: Any, *, is_async: bool) -> Any:
    """Return an interface with one method."""

    def ask(self: Any, path: str) -> Any: ...

    async def aask(self: Any, path: str) -> Any: ...

    stub = user_message("{{path}}")(aask if is_async else ask)
    stub.__annotations__["return"], stub.__name__ = returns, "ask"
    return new_class("Service", (Protocol,), exec_body=lambda namespace: namespace.update(ask=stub))


# The interfaces of services, by whether they are async, and by their kind
INTERFACES = {
    False: {
        "text": interface(str, is_async=False),
        "number": interface(int, is_async=False),
        "pieces": interface(Iterator[str], is_async=False),
        "result": interface(Result[str], is_async=False),
        "stream": interface(Stream[str], is_async=False),
    },
    True: {
        "text": interface(str, is_async=True),
        "number": interface(int, is_async=True),
        "pieces": interface(AsyncIterator[str], is_async=False),
        "result": interface(Result[str], is_async=True),
        "stream": interface(AsyncStream[str], is_async=False),
    },
}


def value_of(returned: Any) -> str:
    """Return the value of a call of any blocking method."""
    if isinstance(returned, Stream):
        returned = returned.result()
    if isinstance(returned, Result):
        return str(returned.value)
    return "".join(returned) if isinstance(returned, Iterator) else str(returned)


async def avalue_of(returned: Any) -> str:
    """Return the value of a call of any async or blocking method."""
    if isinstance(returned, AsyncStream):
        returned = returned.result()
    if isinstance(returned, AsyncIterator):
        return "".join([piece async for piece in returned])
    return value_of(await returned if isinstance(returned, Awaitable) else returned)


def joined(values: Sequence[str | BaseException]) -> str:
    """Return two values as one, or raise the error that does not depend on which call ended first."""
    errors = [value for value in values if isinstance(value, BaseException)]
    if errors:
        raise next((error for error in errors if isinstance(error, AuthenticationError)), errors[0])
    return " ".join(map(str, values))


# --- Trees --------------------------------------------------------------------------------------------------


@dataclass
class Node:
    """A tool in a tree: a service, a function that calls a service, or a leaf.

    Attributes:
        name: Its first letter says which of them it is: s, f or l.
        kind: The method of a service, how a function calls its service, or what a leaf does.
        tools: The tools of a service, or the service of a function.
    """

    name: str
    kind: str
    is_async: bool
    tools: tuple[Node, ...] = ()
    budget: Budget = field(default_factory=Budget)
    concurrency: int = 8
    is_immediate: bool = False

    @property
    def uses_threads(self) -> bool:
        at_once = self.kind == "at once" or (self.name[0] == "s" and self.concurrency > 1)
        calls_blocking = any(not one.is_async for one in self.tools)
        own = at_once if not self.is_async else calls_blocking
        return own or any(one.uses_threads for one in self.tools)


class Trees:
    """Makes random trees.

    Args:
        limited: True if the budgets of some services are small.
    """

    def __init__(self, chance: random.Random, *, limited: bool) -> None:
        self.chance, self.limited = chance, limited
        self.in_threads = chance.random() < 0.7

    def service(self, name: str, level: int, *, is_async: bool, may_wait: bool = True) -> Node:
        """Return a service. Without ``may_wait`` no leaf below it waits for a person."""
        chance, tools = self.chance, list[Node]()
        kind = chance.choice(list(INTERFACES[False])) if level > 1 else chance.choice(["result", "stream"])
        for index in range(chance.randint(1, 3)):
            async_tool = is_async and (not self.in_threads or chance.random() < 0.7)
            letter = chance.choice("lsssf") if level < LEVELS else "l"
            if letter == "s":
                service = self.service(f"s{index}", level + 1, is_async=async_tool, may_wait=may_wait)
                can_be_answer = kind != "number" and service.kind in ("text", "result")
                tools.append(replace(service, is_immediate=can_be_answer and chance.random() < 0.2))
            elif letter == "f":
                hows = ["in turn", "decides", *(["at once"] if self.in_threads or async_tool else [])]
                how = chance.choice(hows)
                inner = self.service("s", level + 1, is_async=async_tool, may_wait=how == "decides")
                tools.append(Node(f"f{index}", how, async_tool, (inner,)))
            else:
                leaf = chance.choice(LEAVES if may_wait else LEAVES[:4])
                tools.append(Node(f"l{index}", leaf, async_tool))
        concurrency = chance.choice([1, 2, 8]) if self.in_threads or is_async else 1
        return Node(name, kind, is_async, tuple(tools), self.budget(), concurrency)

    def budget(self) -> Budget:
        return Budget(max_attempts=20, prices=PRICES, first_wait=0, **self.limits(0.4))

    def limits(self, share: float) -> dict[str, Any]:
        if not self.limited or self.chance.random() > share:
            return {}
        name = self.chance.choice(["tokens", "money", "requests"])
        return {name: self.chance.randint(1, 8) * (1 if name == "requests" else 60)}


# --- What happens -------------------------------------------------------------------------------------------


@dataclass
class Call:
    """The data about one service call that its events contain, until its end or its suspension.

    Attributes:
        started_at: The number of events of requests before the call.
    """

    path: str
    parent: str | None
    budget: Budget
    started_at: int
    replies: list[Usage] = field(default_factory=list)

    @property
    def usage(self) -> Usage | None:
        return sum(self.replies, Usage()) if self.replies else None


class Record:
    """The events of all calls in one run of a tree.

    Attributes:
        calls: The calls by their ids.
        requests: The call and the usage of each request: None when it starts, later that of its reply.
        heard: The ids of the calls whose start the root has heard.
        is_exceeded: True once a call has exceeded a budget.
        is_cut_short: True once a call has ended while its tools may have been running.
    """

    def __init__(self) -> None:
        self.calls: dict[str, Call] = {}
        self.requests: list[tuple[str, Usage | None]] = []
        self.heard: set[str] = set()
        self.is_exceeded = False
        self.is_cut_short = False
        self._lock = threading.Lock()

    def __call__(self, event: Any) -> None:
        invocation, usage = event.invocation, Usage()
        with self._lock:
            match event:
                case CallStarted():
                    path = invocation.request.messages[0].text.split()[0]
                    call = Call(path, invocation.parent_id, invocation.state.budget, len(self.requests))
                    self.calls[invocation.id] = call
                case AttemptStarted():
                    self.requests.append((invocation.id, None))
                case ReplyReceived() | ReplyFailed():
                    if isinstance(event, ReplyReceived):
                        usage = event.reply.usage or usage
                        self.calls[invocation.id].replies.append(usage)
                    self.requests.append((invocation.id, usage))
                case CallFailed(error=BudgetExceededError()):
                    self.is_exceeded = self.is_cut_short = True
                case CallFailed(error=AuthenticationError()):
                    self.is_cut_short = True

    def hear(self, event: Any) -> None:
        if isinstance(event, CallStarted):
            self.heard.add(event.invocation.id)

    def children(self, call_id: str | None) -> list[str]:
        return [one for one, call in self.calls.items() if call.parent == call_id]

    def within(self, call_id: str) -> set[str]:
        """Return the ids of a call and of the calls inside it."""
        return {call_id}.union(*map(self.within, self.children(call_id)))

    def usage(self, calls: Iterable[str]) -> Usage:
        return sum((self.calls[one].usage or Usage() for one in calls), Usage())


def cost(usage: Usage) -> float:
    return PRICES["fake"].of(usage)


class Killed(BaseException):
    """Interrupts a blocking call."""


ERRORS = (AuthenticationError, BudgetExceededError, ModelServerError, ToolError, TruncatedError)
FAILURES = {error.__name__ for error in ERRORS}


def _call(method: Any) -> Any:
    return method("s")


class TreeModel(ScriptedChatModel):
    """The model of one service in a run of a tree."""

    def __init__(self, run: TreeRun, node: Node) -> None:
        capabilities = Capabilities(tools=True, json_schema=True)
        super().__init__(self._reply, capabilities=capabilities, name="fake")
        self._run, self._node = run, node

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        await self._let_others_go_first()
        return await super().acomplete(request)

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        await self._let_others_go_first()
        async for delta in super().astream(request):
            yield delta

    async def _let_others_go_first(self) -> None:
        for _ in range(self._run.pace.randint(0, 5)):
            await asyncio.sleep(0)

    def _reply(self, request: ChatRequest) -> ChatReply | Exception:
        path = request.messages[0].text.split()[0]
        # A resumed call keeps the answers that were rejected before, so the replies do not depend on them.
        tool_messages = [one for one in request.messages if isinstance(one, ToolMessage)]
        is_rejected = any("answer cannot be read" in message.text for message in request.messages)
        rounds = [one for one in request.messages if isinstance(one, AiMessage) and one.tool_calls]
        number = len(rounds) + is_rejected
        is_first = self._run.send(path, number)
        chance = random.Random(f"{self._run.seed} {path} {number}")
        usage = Usage(chance.randint(1, 50), chance.randint(1, 50))
        failure = chance.choices(["", "busy", "secret", "key", "cut"], [90, 6, 2, 0.5, 1.5])[0]
        if failure == "busy" and is_first:
            return ModelServerError("busy", retryable=True)
        if failure == "secret":
            return ModelServerError("secret", retryable=False)
        if failure == "key":
            return AuthenticationError("no such key")
        if failure == "cut":
            return ChatReply(AiMessage("This is"), FinishReason.LENGTH, usage, "fake")
        if self._node.tools and number < 3 and chance.random() < 0.75:
            calls = tuple([self._call(chance, path, number, index) for index in range(chance.randint(1, 3))])
            return ChatReply(AiMessage("", calls), FinishReason.TOOL_CALLS, usage, "fake")
        seen = "\n".join([message.text for message in tool_messages])
        text = f"{path} saw {zlib.crc32(seen.encode())}"  # so the answer shows whether all results were equal
        if self._node.kind == "number" and (is_rejected or chance.random() < 0.8):
            text = json.dumps({"value": zlib.crc32(seen.encode())})
        return ChatReply(AiMessage(text), FinishReason.STOP, usage, "fake")

    def _call(self, chance: random.Random, path: str, number: int, index: int) -> ToolCall:
        name = "unknown" if chance.random() < 0.03 else chance.choice(self._node.tools).name
        arguments = {} if chance.random() < 0.03 else {"path": f"{path}/{name}.{number}{index}"}
        return ToolCall(f"call_{number}_{index}", name, json.dumps(arguments))


class TreeRun:
    """Runs a tree.

    Args:
        seed: The replies of the models depend on it.
        root: The tree.
        waits: True if tools wait for approvals and results; otherwise they do at once what is decided.
    """

    def __init__(self, seed: int, root: Node, *, waits: bool) -> None:
        self.seed, self.root, self.waits = seed, root, waits
        self.pace = random.Random(seed)
        self._lock = threading.Lock()
        self._start_over()
        self._method = self.method(root)

    def _start_over(self, interrupt_at: int = 0) -> None:
        self.record = Record()
        self.used_tools: Counter[str] = Counter()  # by the paths of their calls
        self.sent: Counter[tuple[str, int]] = Counter()  # by the path of the call and the number of replies
        self.suspensions = 0
        self.is_interrupted = False
        self._interrupt_at = interrupt_at
        self._task: asyncio.Task[Any] | None = None
        self._requests_at_end = 0

    # --- The services ---

    def method(self, node: Node) -> Any:
        listeners: list[Any] = [lambda event: self.record(event)]
        if node is self.root:
            listeners.append(InnerCalls(lambda event: self.record.hear(event)))
        service = create(
            INTERFACES[node.is_async][node.kind],
            TreeModel(self, node),
            tools=[self._tool(one) for one in node.tools],
            budget=node.budget,
            tool_limits=ToolLimits(max_concurrency=node.concurrency),
            listeners=listeners,
        )
        return service.ask

    def _tool(self, node: Node) -> Any:
        if node.name[0] == "s":
            behavior = "immediate" if node.is_immediate else "to_llm"
            return tool(name=node.name, return_behavior=behavior)(self.method(node))
        if node.name[0] == "f":
            return tool(name=node.name)(self._function(node, self.method(node.tools[0])))

        def leaf(path: str) -> str:
            self._count_tool(path)
            if node.kind == "bad":
                raise ToolException(f"no result of {path}")
            if node.kind == "broken":
                raise OSError("secret")
            denied = self._denied(path) if node.kind in ("approved", "external") else None
            if denied is not None:
                raise ToolException(f"The call was not approved: {denied.reason}.")
            return f"result of {path}"

        async def aleaf(path: str) -> str:
            await asyncio.sleep(0)
            return leaf(path)

        return tool(
            name=node.name,
            needs_approval=self.waits and node.kind == "approved",
            external=self.waits and node.kind == "external",
        )(aleaf if node.is_async else leaf)

    def _function(self, node: Node, method: Any) -> Callable[[str], Any]:
        """Return a function that calls a service twice, or once and decides itself what may run."""

        def in_turn(path: str) -> str:
            with self._block():
                return " ".join([value_of(method(f"{path}/s{number}")) for number in range(2)])

        async def ain_turn(path: str) -> str:
            with self._block():
                return " ".join([await avalue_of(method(f"{path}/s{number}")) for number in range(2)])

        def in_threads(path: str) -> str:
            def call(number: int) -> str:
                return value_of(method(f"{path}/s{number}"))

            with ThreadPoolExecutor(2) as pool:
                futures = [pool.submit(copy_context().run, call, number) for number in range(2)]
            return joined([one.exception() or one.result() for one in futures])

        async def in_tasks(path: str) -> str:
            async def call(number: int) -> str:
                return await avalue_of(method(f"{path}/s{number}"))

            return joined(await asyncio.gather(call(0), call(1), return_exceptions=True))

        def decides(path: str) -> str:
            call = partial(method, f"{path}/s")
            while True:
                try:
                    return value_of(call())
                except ApprovalRequiredError as error:
                    call = partial(self._resume, error.state, error, method)

        async def adecides(path: str) -> str:
            call = partial(method, f"{path}/s")
            while True:
                try:
                    return await avalue_of(call())
                except ApprovalRequiredError as error:
                    call = partial(self._resume, error.state, error, method)

        blocking = {"in turn": in_turn, "at once": in_threads, "decides": decides}
        awaited = {"in turn": ain_turn, "at once": in_tasks, "decides": adecides}
        return awaited[node.kind] if node.is_async else blocking[node.kind]

    @contextmanager
    def _block(self) -> Iterator[None]:
        with SharedBudget(keep_calls=True, prices=PRICES) as spent:
            yield
        assert sum((call.usage or Usage() for call in spent.calls), Usage()) == spent.usage
        assert sum(call.cost or 0 for call in spent.calls) == spent.cost == cost(spent.usage)

    # --- What a person decides ---

    def _denied(self, path: str) -> Denied | None:
        is_denied = random.Random(f"{self.seed} decision {path}").random() < 0.3
        return Denied(f"not {path}") if is_denied else None

    def _resume(self, state: SuspendedCall, error: ApprovalRequiredError, method: Any) -> Any:
        approvals, results = dict[str, bool | Denied](), dict[str, str]()
        for call in (*error.calls, *error.external_calls):
            path = json.loads(call.arguments)["path"]
            denied = self._denied(path)
            if denied is not None:
                approvals[call.id] = denied
            elif call in error.calls:
                approvals[call.id] = True
            else:
                results[call.id] = f"result of {path}"
            if denied is not None or call in error.external_calls:
                self._count_tool(path)  # its function does not run
        return resume(method, state, approvals, results=results)

    # --- The run ---

    def send(self, path: str, number: int) -> bool:
        """Count a request; return True if it was not sent before."""
        with self._lock:
            self.sent[path, number] += 1
            is_first, total = self.sent[path, number] == 1, self.sent.total()
        if total == self._interrupt_at:
            self.is_interrupted = True
            if self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            elif self.root.kind == "result":
                raise Killed  # the reader of a stream closes it instead
        return is_first

    def _count_tool(self, path: str) -> None:
        with self._lock:
            self.used_tools[path] += 1

    def outcome(self, limits: dict[str, Any], *, interrupt_at: int = 0) -> str:
        """Run the tree to its end, check what it used, and return the answer or the name of the error.

        ``interrupt_at`` is the number of the request at which the run is interrupted; 0 for never.
        """
        self._start_over(interrupt_at)
        with SharedBudget(keep_calls=True, prices=PRICES, **limits) as spent:
            outcome = self._outcome()
        self._check_spent(spent)
        assert set(self.used_tools.values()) <= {1}
        for call_id, call in self.record.calls.items():
            self._check_budget(call.budget, self.record.within(call_id))
        return outcome

    def _outcome(self) -> str:
        start: Callable[[Any], Any] = _call
        while True:
            earlier = set(self.record.calls)
            try:
                result = self._run_root(start)
            except ApprovalRequiredError as error:
                self._check_error(error, earlier)
                self.suspensions += 1
                key = self.pace.choice([None, "secret"])
                state = SuspendedCall.from_json(error.state.to_json(key=key), key=key)
                start = partial(self._resume, state, error)
                if self.pace.random() < 0.5:
                    self._method = self.method(self.root)  # as another process would make it
            except ERRORS as error:
                self._check_error(error, earlier)
                return type(error).__name__
            except (Killed, asyncio.CancelledError):
                return "interrupted"
            else:
                if result is None:
                    return "interrupted"
                self._check_result(result, earlier)
                return result.value

    def _run_root(self, start: Callable[[Any], Any]) -> Result[str] | None:
        """Call the root, or resume it; return None if the reader of its stream has closed it."""
        if self.root.is_async:
            try:
                return asyncio.run(self._arun_root(start))
            finally:
                self._check_requests_after_end()
        returned = start(self._method)
        if isinstance(returned, Result):
            return returned
        with returned as stream:
            for _ in stream:
                if self.is_interrupted:
                    return None
        return stream.result()

    async def _arun_root(self, start: Callable[[Any], Any]) -> Result[str] | None:
        async def call() -> Result[str] | None:
            returned = start(self._method)
            if not isinstance(returned, AsyncStream):
                return await returned
            async with returned as stream:
                async for _ in stream:
                    if self.is_interrupted and self.pace.random() < 0.5:
                        return None
            return await stream.result()

        self._task = asyncio.ensure_future(call())
        try:
            return await self._task
        finally:
            self._requests_at_end = len(self.record.requests)

    # --- Checks ---

    def _check_requests_after_end(self) -> None:
        """Check that nothing was sent after the root ended, except by threads that were about to send."""
        late = [call_id for call_id, usage in self.record.requests[self._requests_at_end :] if usage is None]
        assert len(late) == len(set(late))
        assert not late or self.root.uses_threads

    def _root_call(self, earlier: set[str]) -> str:
        (root,) = [one for one in self.record.children(None) if one not in earlier]
        return root

    def _check_result(self, result: Result[str], earlier: set[str]) -> None:
        root, record = self._root_call(earlier), self.record
        assert result.own_usage == (record.calls[root].usage or Usage())
        assert result.cost == cost(result.usage)
        self._check_used(result.usage, result.inner_calls, root)

    def _check_error(self, error: AiServiceError, earlier: set[str]) -> None:
        self._check_used(error.usage or Usage(), error.inner_calls, self._root_call(earlier))

    def _check_used(self, usage: Usage, inner_calls: Iterable[InnerCall], root: str) -> None:
        used = self.record.usage(self.record.within(root))
        if self.record.is_cut_short and self.root.is_async and self.root.uses_threads:
            # Threads cannot be cancelled, so a reply may have arrived later.
            assert usage.input_tokens <= used.input_tokens
            return
        assert usage == used
        self._check_inner_calls(inner_calls, root)

    def _check_inner_calls(self, calls: Iterable[InnerCall], parent: str) -> None:
        record, by_id = self.record, {call.id: call for call in calls}
        assert set(by_id) == set(record.children(parent))
        assert set(by_id) <= record.heard
        for call_id, call in by_id.items():
            recorded = record.calls[call_id]
            assert recorded.path.startswith(record.calls[parent].path + "/")
            assert call.own_usage == recorded.usage
            assert call.own_cost == cost(recorded.usage or Usage())
            self._check_inner_calls(call.inner_calls, call_id)

    def _check_spent(self, spent: SharedBudget) -> None:
        record = self.record
        assert spent.usage == record.usage(record.calls)
        assert spent.cost == cost(spent.usage)
        assert spent.requests == sum(usage is None for _, usage in record.requests)
        assert [call.id for call in spent.calls] == record.children(None)
        for call in spent.calls:
            assert (call.usage or Usage()) == record.usage(record.within(call.id))
        self._check_budget(spent.limits, set(record.calls))

    def _check_budget(self, budget: Budget, calls: set[str]) -> None:
        """Check that nothing was sent after a limit was reached, except by calls that were about to send."""
        used, count, reached_at, late = Usage(), 0, -1, list[str]()
        for position, (call_id, usage) in enumerate(self.record.requests):
            if call_id not in calls:
                continue
            if usage is None and reached_at >= 0:
                late.append(call_id)
            if usage is not None:
                used, count = used + usage, count + 1
                is_reached = (
                    (budget.tokens is not None and used.total_tokens >= budget.tokens)
                    or (budget.money is not None and cost(used) >= budget.money)
                    or (budget.requests is not None and count >= budget.requests)
                )
                if is_reached and reached_at < 0:
                    reached_at = position
        assert len(late) == len(set(late))
        assert all(self.record.calls[one].started_at <= reached_at for one in late)
        assert not late or self.root.uses_threads


# --- The tests ----------------------------------------------------------------------------------------------


def check(seed: int) -> Counter[str]:
    chance = random.Random(seed)
    trees = Trees(chance, limited=seed % 3 == 0)
    root, limits = trees.service("s", 1, is_async=seed % 2 == 0), trees.limits(0.3)
    whole, parts = TreeRun(seed, root, waits=False), TreeRun(seed, root, waits=True)
    outcome, outcome_of_parts = whole.outcome(limits), parts.outcome(limits)
    has_failed, is_exceeded = outcome in FAILURES, whole.record.is_exceeded or parts.record.is_exceeded
    if not is_exceeded:  # else the outcome depends on what ran first
        assert outcome_of_parts == outcome
        if not has_failed:
            assert (parts.used_tools, parts.sent) == (whole.used_tools, whole.sent)
    counts = Counter(trees=1, calls=len(whole.record.calls), answered=not has_failed, exceeded=is_exceeded)
    counts.update(suspended=parts.suspensions > 0, in_threads=root.uses_threads)
    if parts.sent:
        interrupted = parts.outcome(limits, interrupt_at=chance.randint(1, parts.sent.total()))
        counts.update(interrupted=interrupted == "interrupted")
    return counts


def check_all(seeds: Iterable[int]) -> None:
    logging.disable()  # many tools fail on purpose
    try:
        counts = sum(map(check, seeds), Counter[str]())
    finally:
        logging.disable(logging.NOTSET)
    assert counts["calls"] > 5 * counts["trees"]
    assert counts["answered"] > counts["trees"] / 2
    for kind in ("exceeded", "suspended", "in_threads", "interrupted"):
        assert counts[kind] > counts["trees"] / 20, kind


def test_random_trees_count_everything_once_and_resume_to_the_same_answer() -> None:
    check_all(range(40))


def test_more_random_trees_count_everything_once(campaign: Iterable[int]) -> None:
    check_all(map((1_000).__add__, campaign))
