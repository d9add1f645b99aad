"""Run a service method for a remote caller, over HTTP or MCP, and convert its errors to JSON errors."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

import anyio
from anyio.to_thread import run_sync

from output_parsers.result.errors import OutputParsingError

from ..engine.approval import AlreadyResumedError, ApprovalRequiredError, Approvals, SuspendedCall
from ..engine.durable import call_id_of, is_durable
from ..engine.plan import Invocation
from ..interface.parameters import Role, memory_id_data
from ..memory.stores import RESUMED_PREFIX, ChatMemoryStore
from ..models.arguments import checks_arguments
from ..models.errors import MemoryConflictError, SuspendedCallError
from ..models.messages import SystemMessage
from ..service.methods import invocation_to_resume, is_service_method, service_method_of
from .codec import JsonCodec
from .problems import (
    INTERNAL,
    PendingCall,
    Problem,
    argument_problem,
    overloaded_problem,
    problem_of,
    wrong_parts,
)

T = TypeVar("T")

DEFAULT_THREADS = 40  # as many as anyio's own limiter
DEFAULT_MAX_WAITING_CALLS = 400
LARGE_ARGUMENTS = 4 * 1024  # larger JSON is read in a thread
_END: object = object()


# --- Problems ---


class ProblemError(Exception):
    """Raised to answer a remote call with a JSON error (RFC 9457)."""

    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.title)
        self.problem = problem
        self.headers = headers


def read_arguments(codec: JsonCodec[dict[str, object]], text: str, qualname: str) -> dict[str, object]:
    """Parse the JSON object with a caller's arguments, or raise ProblemError with all mistakes."""
    try:
        return codec.read(text)
    except OutputParsingError as error:
        raise ProblemError(argument_problem(wrong_parts(error), qualname)) from error


async def run_reader(read: Callable[[], T], *, is_large: bool) -> T:
    """Call a function that reads arguments: in a thread if they are large, so that it does not block."""
    return await run_sync(read) if is_large else read()


def log_problem(
    error: Exception,
    qualname: str,
    logger: logging.Logger,
    approvals: ApprovalStates | None = None,
) -> Problem:
    """Log the exception of a failed call, and return the JSON error for the remote caller.

    Unexpected errors are logged with their traceback. If ``approvals`` is given, callers may approve tool
    calls, so the JSON error lists the pending tool calls.
    """
    problem = problem_of(error, qualname)
    if isinstance(error, ApprovalRequiredError) and approvals is not None:
        problem = approvals.with_state(problem, error, logger)
    if problem.type == INTERNAL.type:
        logger.error("%s failed", qualname, exc_info=error)
    else:
        logger.warning("%s: %s (%s)", qualname, problem.title, type(error).__name__)
    return problem


# --- Approvals ---


@checks_arguments
class ApprovalSettings(NamedTuple):
    """Settings for the approval of tool calls by remote callers: a signing key, a store and an expiry time.

    Attributes:
        key: The secret that signs states. By default it is random, so a state can be resumed only by the
            process that returned it, until that process ends. If several processes serve the same service,
            they need the same key, and a store.
        store: A store that all processes use. It records which states were resumed, so that each is resumed
            once. A ``key`` requires a store, which may be the store of a ChatMemory.
        expires_after: The seconds after which a state can no longer be resumed.
    """

    key: str | bytes | None = None
    store: ChatMemoryStore | None = None
    expires_after: float = 3600.0

    def problems(self) -> Iterator[str]:
        """Yield the mistakes in the settings for approving tool calls."""
        if self.key is not None and not self.key:
            yield "the key of approvals is empty; pass a secret, for example 32 random bytes"
        if self.key is not None and self.store is None:
            yield (
                "approvals has a key, but no store that records which states were resumed; pass "
                "ApprovalSettings(key=…, store=…), or no key if one process serves"
            )
        if not 0 < self.expires_after < math.inf:
            yield f"expires_after of approvals is {self.expires_after!r}; it must be greater than 0"


class ApprovalStates:
    """Signs the state of calls that wait for approval, and makes sure that each call resumes only once."""

    def __init__(self, settings: ApprovalSettings) -> None:
        self._key = os.urandom(32) if settings.key is None else settings.key
        self._store = settings.store
        self._expires_after = settings.expires_after
        # Without a store: the ids of the states that were resumed, and when they expire.
        self._resumed: dict[str, float] = {}
        self._lock = threading.Lock()

    def with_state(self, problem: Problem, error: ApprovalRequiredError, logger: logging.Logger) -> Problem:
        """Return the JSON error for a call that waits for approval, with signed data to resume it."""
        calls = tuple(
            PendingCall(id=one.id, name=one.name, arguments=one.arguments, external=is_external)
            for is_external, waiting in ((False, error.calls), (True, error.external_calls))
            for one in waiting
        )
        try:
            state = error.state.to_json(key=self._key, expires_after=self._expires_after)
        except TypeError as wrong:  # the memory id or user name that the server set
            logger.error("%s: its state cannot be sent to the caller: %s", error.state.qualname, wrong)
            return problem
        return problem.model_copy(update={"calls": calls, "state": state})

    def read(self, text: str) -> SuspendedCall:
        """Verify and parse the signed data of a suspended call, or raise SuspendedCallError."""
        return SuspendedCall.from_json(text, key=self._key)

    def claim(self, state: SuspendedCall) -> None:
        """Mark a suspended call as resumed; raise AlreadyResumedError if that happened before.

        As in ChatMemory, the mark is set before the tools run, so a call that fails cannot run them again.
        """
        if self._store is None:
            if not self._claim_here(state.id, state.expires_at or math.inf):
                raise AlreadyResumedError(state.qualname, state.id)
            return
        record = SystemMessage(f"resumed: {state.qualname}")
        try:
            # Not the prefix of ChatMemory, which may use the same store.
            self._store.append(f"{RESUMED_PREFIX}http:{state.id}", [record], expected=0)
        except MemoryConflictError as error:
            raise AlreadyResumedError(state.qualname, state.id) from error

    def _claim_here(self, state_id: str, expires_at: float) -> bool:
        with self._lock:
            # An expired state is refused because of its time. The first ids expire first, or nearly so.
            while self._resumed and next(iter(self._resumed.values())) < time.time():
                del self._resumed[next(iter(self._resumed))]
            if state_id in self._resumed:
                return False
            self._resumed[state_id] = expires_at
            return True


# --- Running methods ---


class Threads:
    """A thread pool of limited size, in which a server runs blocking service methods.

    Args:
        threads: The maximum number of methods at the same time.
        max_waiting: The maximum number of further calls that wait for a thread. Further calls are refused.
    """

    def __init__(self, threads: int, max_waiting: int) -> None:
        # A limiter of its own: slow model calls must not use up the threads of the rest of the application.
        self.limiter = anyio.CapacityLimiter(threads)
        self._most_calls = threads + max_waiting
        self._calls: set[object] = set()  # those that run or wait, also if their clients have left

    async def run(self, function: Callable[[], T], qualname: str) -> T:
        """Run a blocking function in a thread, or raise ProblemError if too many calls are waiting."""
        if len(self._calls) >= self._most_calls:
            raise ProblemError(overloaded_problem(qualname))
        call, has_started = object(), False
        self._calls.add(call)

        def work() -> T:
            nonlocal has_started
            has_started = True
            try:
                return function()
            finally:
                self._calls.discard(call)

        try:
            # Python cannot stop a thread. If the client disconnects, the result is dropped.
            return await run_sync(work, abandon_on_cancel=True, limiter=self.limiter)
        finally:
            if not has_started:
                self._calls.discard(call)


class MethodCall:
    """A service method call for a remote caller, which may disconnect before the answer is complete.

    ``args`` and ``kwargs`` are the arguments for ``function``, a bound method of the service.

    Attributes:
        invocation: The data of the call, if ``create`` made the function and the call has started.
        may_block: True if ``prepare`` may block the event loop even if the arguments are small.
    """

    may_block: ClassVar[bool] = False

    def __init__(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> None:
        self._function, self._args, self._kwargs = function, tuple(args), dict(kwargs)
        # A decorator with functools.wraps copies the attributes of the method that it wraps. What it does
        # must not be skipped.
        is_wrapper = is_service_method(getattr(function, "__wrapped__", None))
        made_by_create = is_service_method(function) and not is_wrapper
        self._service_method = service_method_of(function) if made_by_create else None
        self._is_abandoned = False
        self.invocation: Invocation | None = None

    @property
    def arguments(self) -> object:
        """The arguments that distinguish the call from other calls of the method."""
        return self._args, self._without_context(self._kwargs)

    def _without_context(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Leave out arguments for tools only, which the server creates for each request."""
        prompt = None if self._service_method is None else self._service_method.plan.prompt
        names = () if prompt is None else (*prompt.context_names, prompt.role_names.get(Role.TOOLS))
        return {name: value for name, value in arguments.items() if name not in names}

    @property
    def durable_id(self) -> str | None:
        """The id under which the call is recorded, if it is durable."""
        method = self._service_method
        if method is None or not is_durable(method.pipeline.interceptors):
            return None
        prompt = method.plan.prompt
        bound = prompt.signature.bind_partial(*self._args, **self._kwargs)
        call_id = bound.arguments.get(prompt.role_names.get(Role.CALL_ID, ""))
        return call_id if isinstance(call_id, str) else None

    def again(self) -> MethodCall:
        """Return a new call with the same arguments."""
        return type(self)(self._function, self._args, self._kwargs)

    @property
    def is_coroutine(self) -> bool:
        """True if the service method is async, so that its result must be awaited."""
        return inspect.iscoroutinefunction(self._function)

    def prepare(self) -> None:
        """Render the prompt of a service method before the method is called.

        Without this, ``start`` renders the prompt. A function that ``create`` did not make has no prompt.
        """
        if self._service_method is not None:
            method = self._service_method
            self.invocation = method.plan.invocation(self._args, self._kwargs, method.budget)
            self.invocation.state.is_abandoned = self._is_abandoned  # another thread may have set it

    def start(self) -> Any:
        """Call the service method and return its result, which is a coroutine for an async method."""
        if self._service_method is None:
            return self._function(*self._args, **self._kwargs)
        if self.invocation is None:
            self.prepare()
        return self._service_method.start(cast("Invocation", self.invocation))

    def abandon(self) -> None:
        """Make the call stop before its next model request, because the caller has disconnected."""
        self._is_abandoned = True
        if self.invocation is not None:
            self.invocation.state.is_abandoned = True

    async def run(self, qualname: str, threads: Threads, *, is_large: bool = False) -> Any:
        """Call the service method and return the final result; a blocking method runs in a thread.

        ``is_large`` is True if rendering the prompt may take long, so that it must not block the event loop.
        """
        if self.is_coroutine:
            if is_large or self.may_block:
                await run_sync(self.prepare)
            return await self.start()
        try:
            return await threads.run(self.start, qualname)
        except BaseException:
            self.abandon()
            raise

    async def open_stream(self, qualname: str, threads: Threads, *, is_async: bool, is_large: bool) -> Any:
        """Call a service method that streams, and return its stream; ``is_large`` is as for ``run``."""
        if not is_async:
            return await self.run(qualname, threads)
        if is_large or self.may_block:
            await run_sync(self.prepare)
        return self.start()


class ResumedCall(MethodCall):
    """A service call that continues after its tool calls were approved or rejected.

    ``states`` records which states were resumed. ``arguments`` are the arguments that the server sets, by
    name.

    Raises SuspendedCallError if the call belongs to another caller, and the errors of ``resume``.
    """

    may_block: ClassVar[bool] = True  # the store of states

    def __init__(
        self,
        function: Callable[..., object],
        state: SuspendedCall,
        approvals: Approvals,
        states: ApprovalStates,
        arguments: Mapping[str, object],
        results: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        super().__init__(function, (), {})
        if self._service_method is None:
            raise TypeError(f"{function!r} is not a method of a service made by create")
        self._state, self._states, self._is_claimed = state, states, False
        self._decisions = approvals, arguments, results
        self.invocation = self._suspended_invocation()

    def _suspended_invocation(self) -> Invocation:
        """Return the data of the call with its decisions, for the budgets and listeners of the context."""
        method, state = cast("Any", self._service_method), self._state
        approvals, arguments, results = self._decisions
        prompt = method.plan.prompt
        callers: dict[str, object] = {}
        for role, of_state in ((Role.MEMORY_ID, state.memory_id), (Role.USER_NAME, state.user_name)):
            name = prompt.role_names.get(role)
            if name is not None and name in arguments:
                callers[name] = arguments[name]
                # The state has the value as JSON, where a UUID is a text.
                data = memory_id_data(arguments[name])
                if json.loads(json.dumps(data, default=str)) != of_state:
                    raise SuspendedCallError("the suspended call belongs to another caller")
        names = list(prompt.context_names)
        if Role.TOOLS in prompt.role_names:
            names.append(prompt.role_names[Role.TOOLS])
        tool_context = {
            name: arguments.get(name, prompt.signature.parameters[name].default) for name in names
        }
        invocation = invocation_to_resume(method, state, approvals, tool_context, results)
        return replace(invocation, arguments={**invocation.arguments, **callers})

    @property
    def arguments(self) -> object:
        approvals, arguments, results = self._decisions
        return self._state.id, approvals, self._without_context(arguments), results

    @property
    def durable_id(self) -> str | None:
        if self._service_method is None or not is_durable(self._service_method.pipeline.interceptors):
            return None
        return call_id_of(cast("Invocation", self.invocation))

    def again(self) -> ResumedCall:
        approvals, arguments, results = self._decisions
        return type(self)(self._function, self._state, approvals, self._states, arguments, results)

    def prepare(self) -> None:
        """Mark the suspended call as resumed; raise AlreadyResumedError if that happened before.

        The journal of a durable call does this: if the process is killed, the call can be resumed again, with
        the same decisions.
        """
        if self.durable_id is None:
            self._states.claim(self._state)
        self._is_claimed = True

    def start(self) -> object:
        if not self._is_claimed:
            self.prepare()
        return super().start()


# --- Iterators ---


async def iterate(
    iterator: Any, source: Any, thread_limiter: anyio.CapacityLimiter
) -> AsyncGenerator[object, None]:
    """Yield the items of a blocking or async iterator, and close the iterator at the end."""
    is_async = hasattr(iterator, "__aiter__")
    try:
        if is_async:
            async for item in iterator:
                yield item
        else:
            items: Iterator[object] = iter(iterator)
            while True:
                item = await _finish_step(run_sync(next, items, _END, limiter=thread_limiter))
                if item is _END:
                    break
                yield item
    finally:
        with anyio.CancelScope(shield=True):
            if is_async and hasattr(source, "aclose"):
                await source.aclose()
            elif hasattr(source, "close"):  # a list does not have it
                await run_sync(source.close, limiter=thread_limiter)


async def _finish_step(step: Awaitable[T]) -> T:
    """Wait until work in a thread has ended, even if the waiting task is cancelled.

    A generator that is running in a thread cannot be closed.
    """
    task = asyncio.ensure_future(step)
    try:
        await asyncio.wait((task,))
        return task.result()
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # asyncio does not log it then
        raise
