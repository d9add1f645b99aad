"""Limit a model's requests per minute, tokens per minute and concurrency, adapting to its server.

A ``Limiter`` adapts to a server. It raises the number of requests in flight until the server refuses one. If
fewer requests in flight are accepted, their number was the reason. Otherwise it is a limit per time: the
limiter measures how many requests were accepted in which time, pauses included, sends at that rate, and
occasionally tries a higher one, rarely after refusals.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal
from weakref import WeakKeyDictionary

from .arguments import checks_arguments, is_positive
from .base import Capabilities, ChatModel, PickledByArguments
from .errors import DefinitionError, DefinitionProblem, ModelError, ModelTimeoutError
from .fallback import CircuitBreaker, members_of, rests_of, smallest
from .messages import CHARACTERS_PER_TOKEN, AiMessage, ChatReply, Message, Usage
from .presets import PROVIDERS
from .registry import find_model
from .requests import ChatRequest
from .wrapper import RequestFlow, Send, Wait, WrappingChatModel

MAX_CONCURRENCY = 256
_FIRST_CONCURRENCY = 8
REFUSED = (429, 503, 529)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
_FIRST_HOLD, _LONGEST_HOLD = 0.5, 60.0  # seconds at the measured rate before a higher one is tried
_STEADY = 5.0  # seconds after which a rate counts as accepted
_LOWERED = 60.0  # seconds within which a lowered rate must have an effect
_CAP_HOLD, _CAP_REQUESTS = 1.0, 300  # seconds and requests before one more request in flight is tried
_FIRST_GROWTH, _LAST_GROWTH = 0.5, 0.03  # how much higher a rate is tried; less after each refusal
_SLACK = 0.02  # seconds by which requests may be sent early, because timers are late


@checks_arguments
@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a user sets for requests to one server with one API key.

    The server may allow less.

    Attributes:
        requests_per_minute: Requests per minute, sent at even intervals; None for no bound.
        tokens_per_minute: Input and output tokens per minute. They are estimated before a request, and
            corrected by the usage of the reply.
        max_concurrency: Requests at the same time; at most 256.
        max_wait: The seconds that a request may wait, all refusals included, before the error is raised.
            The wait until it is first sent is not time of the call: ``Budget(seconds=)`` does not limit it.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrency: int | None = None
    max_wait: float = 600.0

    def __post_init__(self) -> None:
        problems = []
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if (value is not None or name == "max_wait") and not is_positive(value):
                problems.append(f"{name} is {value!r}; it must be greater than 0")
        if problems:
            raise DefinitionError([DefinitionProblem("Limits", problem) for problem in problems])


class _Waiter:
    """A model request that waits to be sent, with the function that wakes its thread or event loop."""

    __slots__ = ("permit", "wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.permit: Permit | None = None


class Permit:
    """The permission of a limiter to send one request; it reports how the request ends."""

    def __init__(self, limiter: Limiter, tokens: float) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._sent_at = time.monotonic()
        self._in_flight = limiter.in_flight

    def read_headers(self, headers: Mapping[str, str]) -> None:
        """Report the headers of the response, which may say that a limit is exhausted."""
        self._limiter.read_headers(headers)

    def accepted(self, usage: Usage | None, models: Sequence[str]) -> None:
        """Report that the request succeeded, with its tokens and the names of the model."""
        self._limiter.accepted(self._sent_at, self._tokens, usage)
        self._limiter.release()

    def refused(self, retry_after: float | None) -> None:
        """Report that the server refused the request because of a rate limit."""
        self._limiter.refuse(self._sent_at, self._in_flight, retry_after)
        self._limiter.release()

    def failed(self) -> None:
        """Report that the request ended in another way, such as another error or a cancellation."""
        self._limiter.release()


class _Evenly:
    """Spaces requests or tokens evenly over time, so that a rate per second is not exceeded."""

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self.free_at = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next request or token may be used."""
        return self.free_at - now

    def use(self, amount: float, now: float) -> None:
        """Count requests or tokens as used.

        A negative amount corrects an estimate that was too high.
        """
        self.free_at = max(self.free_at, now - _SLACK) + amount / self.per_second


class _Capacity:
    """An estimate of what a server accepts: the requests in flight, and the requests per time.

    Attributes:
        pace: Spaces the requests at the rate that the server accepted; None before it limits a rate.
        pause_until: When the next request may be sent to the server.
    """

    def __init__(self) -> None:
        # Requests in flight ...
        self._cap = float(_FIRST_CONCURRENCY)
        self._cap_was_refused = False
        self._cap_step, self._cap_changed_at, self._cap_accepted = 1.0, 0.0, 0
        self._accepted_cap = 0.0  # this concurrency was accepted after a higher one was refused
        self._reduced_at = self._refused_at = 0.0
        # ... and requests per time.
        self.pace: _Evenly | None = None
        self._hold, self._probe_at = _FIRST_HOLD, 0.0
        self._growth, self._step, self._held = _FIRST_GROWTH, 0.0, 0.0
        self._cycle_start, self._accepted, self._calm_since = 0.0, 0, time.monotonic()
        self.pause_until, self._pause, self._is_probing = 0.0, _FIRST_PAUSE, False
        # Outages: when the last one was, and the rate before it was lowered in case it is a limit.
        self._outage_at, self._has_outages = 0.0, False
        self._lowered_from, self._lowered_at = 0.0, 0.0

    @property
    def concurrency(self) -> float:
        """The number of requests that may be in flight."""
        return 1.0 if self._is_probing else self._cap

    def sent(self, now: float) -> None:
        """Record that a request was sent."""
        if self._cycle_start == 0.0:
            self._cycle_start = now

    def accepted(self, sent_at: float, now: float, in_flight: int) -> None:
        """Record that the server accepted a request, and raise the concurrency if possible."""
        self._accepted += 1
        self._cap_accepted += 1
        if self._is_probing and sent_at >= self.pause_until:
            self._end_pause(now)
        self._grow(now, in_flight)

    def pause(self, until: float) -> None:
        """Send no requests before a time."""
        self.pause_until = max(self.pause_until, until)

    def refused(self, sent_at: float, now: float, in_flight: int, retry_after: float | None) -> None:
        """Record that the server refused a request because of a rate limit, and slow down.

        ``in_flight`` is how many requests were in flight when it was sent, itself included.
        """
        if retry_after is not None:
            self.pause(now + retry_after)
        if sent_at < self._reduced_at:
            return  # it was sent before the last refusal was known
        is_rate = (
            self._is_probing
            or self.pace is not None
            or (self._cap_was_refused and in_flight <= int(self._accepted_cap))
        )
        self._reduced_at = now
        if retry_after is not None and retry_after < _FIRST_PAUSE:
            retry_after = None  # a wait of 0 would be a loop of requests
        if not is_rate and in_flight > 1:
            self._cap = self._accepted_cap = float(in_flight - 1)
            self._cap_was_refused = True
            self._cap_step, self._cap_changed_at, self._cap_accepted = 1.0, now, 0
            return
        # A limit per time: wait, and measure the accepted rate until requests are accepted again.
        if not self._is_probing:
            self._refused_at = now
            short = _FIRST_PAUSE if self.pace is None else 3 / self.pace.per_second
            self._pause = max(_SLACK, min(_FIRST_PAUSE, short))
        self._is_probing = True
        pause = self._pause if retry_after is None else retry_after
        self._pause = min(1.5 * self._pause, _LONGEST_PAUSE)
        self.pause(now + pause)

    def _grow(self, now: float, in_flight: int) -> None:
        """Raise the concurrency and the rate: quickly until the server refuses a request, then slowly."""
        if in_flight >= int(self._cap) - 1:  # a limit that is not used up says nothing about the server
            if not self._cap_was_refused:
                self._cap = min(self._cap + 1, MAX_CONCURRENCY)
            elif self._cap_accepted >= _CAP_REQUESTS and now >= self._cap_changed_at + _CAP_HOLD:
                self._accepted_cap = self._cap
                self._cap = min(self._cap + self._cap_step, MAX_CONCURRENCY)
                self._cap_step *= 2
                self._cap_changed_at, self._cap_accepted = now, 0
        if self.pace is not None and now >= self._probe_at:
            self._held = self.pace.per_second  # the rate was not refused
            self.pace.per_second *= 1 + self._step
            self._step = min(self._step * 1.5, 1.0)
            self._probe_at = now + min(self._hold, _STEADY)

    def _end_pause(self, now: float) -> None:
        """End the pause after a refused request, and choose the request rate to continue with."""
        self._is_probing = False
        if self._cap_was_refused and self.pace is None:  # the requests in flight were not the reason
            self._cap, self._cap_was_refused = float(max(self._cap, _FIRST_CONCURRENCY)), False
        seconds = now - self._cycle_start
        measured = self._accepted / seconds if seconds > 0 else self._accepted / _FIRST_PAUSE
        if self.pace is None:
            self.pace = _Evenly(measured)
            if now - self._refused_at > 1 + 5 / measured:
                self._hold, self._growth = _STEADY, _LAST_GROWTH  # a wrong rate shows late
            self._probe_at = now + self._hold
        elif now - self._refused_at > 1 + 5 / self.pace.per_second:
            # Nothing was accepted for longer than a limit of this rate needs. If much was accepted before, it
            # may be an outage; else it is a limit for a long time.
            if self._refused_at - self._calm_since > (now - self._refused_at) / 2:
                self.pace.per_second = self._rate_after_outage(self.pace.per_second, measured, now)
            else:
                self.pace.per_second = measured
                self._hold, self._growth = _STEADY, _LAST_GROWTH  # a wrong rate shows late
            self._probe_at, self._calm_since = now + min(self._hold, _STEADY), now
        else:
            self.pace.per_second = self._next_rate(self.pace.per_second, measured, seconds)
            self._hold = min(2 * self._hold, _LONGEST_HOLD)
            self._growth = max(self._growth / 2, _LAST_GROWTH)
            self._probe_at = now + self._hold
        self.pace.free_at = now
        self._step, self._held = self._growth, 0.0
        self._cycle_start, self._accepted = now, 0

    def _rate_after_outage(self, refused: float, measured: float, now: float) -> float:
        """Return the request rate to use after a time in which the server accepted no requests.

        The first time, the rate is kept. The second time, the measured rate is tried, because a server may
        limit the requests in each 10 seconds, for example. If that does not help, these are outages.
        """
        rate = self._held or refused
        if self._has_outages or not self._outage_at:
            self._outage_at = now
            return rate
        if self._lowered_from and now - self._lowered_at < _LOWERED:
            self._has_outages = True
            return self._lowered_from
        self._lowered_from, self._lowered_at = rate, now
        self._hold, self._growth = _STEADY, _LAST_GROWTH
        return 0.98 * measured

    def _next_rate(self, refused: float, measured: float, seconds: float) -> float:
        """Return a lower request rate to use after the server refused a request."""
        if self._held:
            return 0.98 * self._held
        if seconds > 1:  # long enough at one rate for a reliable measurement
            return 0.98 * measured
        return min(0.9 * refused, max(measured, 0.5 * refused))


class Limiter:
    """Decides when the next request may be sent to a server; safe for threads and event loops.

    Attributes:
        sent: The number of requests.
        refused: The number of requests that the server refused because of a limit.
    """

    def __init__(self) -> None:
        self.sent = self.refused = 0
        self._lock = threading.Lock()
        self._waiters: deque[_Waiter] = deque()
        self._in_flight = 0
        self._bounds: list[Limits] = []
        self._max_concurrency = MAX_CONCURRENCY
        self._requests: _Evenly | None = None  # the limits that the user set
        self._tokens: _Evenly | None = None
        self._mean_output = 0.0
        self._capacity = _Capacity()

    def add_bounds(self, limits: Limits) -> None:
        """Apply the limits that a user set; of several limits, the strictest applies."""
        with self._lock:
            if limits in self._bounds:
                return
            self._bounds.append(limits)
            self._requests = self._strictest("requests_per_minute", self._requests)
            self._tokens = self._strictest("tokens_per_minute", self._tokens)
            counts = [one.max_concurrency for one in self._bounds if one.max_concurrency is not None]
            self._max_concurrency = min([MAX_CONCURRENCY, *counts])

    def _strictest(self, name: str, old: _Evenly | None) -> _Evenly | None:
        values = [getattr(one, name) for one in self._bounds if getattr(one, name) is not None]
        if not values:
            return None
        strictest = _Evenly(min(values) / 60)
        strictest.free_at = 0.0 if old is None else old.free_at
        return strictest

    # --- Waiting for a turn ---

    def acquire(self, tokens: float, deadline: float) -> Permit | None:
        """Block until a request may be sent; return None if the deadline passes first."""
        woken = threading.Event()
        waiter = _Waiter(woken.set)
        with closing(self._waits(waiter, tokens, deadline)) as waits:
            for seconds in waits:
                woken.wait(seconds)
                woken.clear()
        return waiter.permit

    async def aacquire(self, tokens: float, deadline: float) -> Permit | None:
        """Wait until a request may be sent; async version of ``acquire``."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(_finish, woken)
            except RuntimeError:  # the loop is closed, so nothing waits
                pass

        waiter = _Waiter(wake)
        with closing(self._waits(waiter, tokens, deadline)) as waits:
            for seconds in waits:
                await asyncio.wait((woken,), timeout=seconds)
                if woken.done():
                    woken = loop.create_future()
        return waiter.permit

    def _waits(self, waiter: _Waiter, tokens: float, deadline: float) -> Generator[float, None, None]:
        """Yield the seconds to wait until the waiter is woken; at the end it has a permit, or is late."""
        wait = self._enter(waiter, tokens)
        try:
            while wait > 0:
                now = time.monotonic()
                if now >= deadline:
                    self._leave(waiter)
                    return
                yield min(wait, deadline - now)
                wait = self._retry(waiter, tokens)
        except BaseException:
            self._leave(waiter)
            raise
        waiter.permit = Permit(self, tokens)

    def _enter(self, waiter: _Waiter, tokens: float) -> float:
        with self._lock:
            if not self._waiters:
                wait = self._try(tokens)
                if wait <= 0:
                    return 0.0
            else:
                wait = 3600.0  # only the first one in the queue has to watch the clock
            self._waiters.append(waiter)
            return wait

    def _retry(self, waiter: _Waiter, tokens: float) -> float:
        """Check a waiting request again: return 0 if it may be sent now, else the seconds to wait.

        If the request may be sent, it leaves the queue.
        """
        with self._lock:
            if self._waiters[0] is not waiter:
                return 3600.0
            wait = self._try(tokens)
            if wait <= 0:
                self._waiters.popleft()
                self._wake_first()
            return wait

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self._wake_first()

    def _wake_first(self) -> None:
        if self._waiters:
            self._waiters[0].wake()

    def _try(self, tokens: float) -> float:
        """Return the seconds to wait before a request may be sent; if 0, count the request as sent."""
        now = time.monotonic()
        capacity = self._capacity
        if self._in_flight >= int(min(capacity.concurrency, self._max_concurrency)):
            return 3600.0  # the end of a request wakes the first one in the queue
        spreads = [one for one in (self._requests, capacity.pace) if one is not None]
        wait = max([capacity.pause_until - now, *(one.wait(now) for one in spreads)])
        if self._tokens is not None:
            wait = max(wait, self._tokens.wait(now))
        if wait > 0:
            return wait
        self._in_flight += 1
        self.sent += 1
        for one in spreads:
            one.use(1, now)
        if self._tokens is not None:
            self._tokens.use(tokens, now)
        capacity.sent(now)
        return 0.0

    def release(self) -> None:
        """Count a request as finished, so that another one may be sent."""
        with self._lock:
            self._in_flight -= 1
            self._wake_first()

    # --- Adapting to the server ---

    def estimate(self, request: ChatRequest) -> float:
        """Estimate the tokens of a request and its reply; return 0 if tokens are not limited."""
        if self._tokens is None:  # tokens are not limited
            return 0.0
        return self.estimate_length(text_length(request), request.options.max_tokens or 0)

    def estimate_length(self, characters: int, max_tokens: float) -> float:
        """Estimate the tokens of a request and its reply from the number of characters sent.

        Returns 0 if tokens are not limited.
        """
        if self._tokens is None:
            return 0.0
        return characters / CHARACTERS_PER_TOKEN + (self._mean_output or max_tokens)

    def accepted(self, sent_at: float, estimated: float, usage: Usage | None) -> None:
        """Record that the server accepted a request, and raise the concurrency if possible."""
        with self._lock:
            now = time.monotonic()
            if usage is not None and self._tokens is not None:
                weight = 0.1 if self._mean_output else 1.0
                self._mean_output += weight * (usage.output_tokens - self._mean_output)
                self._tokens.use(usage.total_tokens - estimated, now)
            self._capacity.accepted(sent_at, now, self._in_flight)

    def refuse(self, sent_at: float, in_flight: int, retry_after: float | None) -> None:
        """Record that the server refused a request because of a rate limit, and slow down.

        ``in_flight`` is how many requests were in flight when it was sent, itself included.
        """
        with self._lock:
            self.refused += 1
            self._capacity.refused(sent_at, time.monotonic(), in_flight, retry_after)

    def read_headers(self, headers: Mapping[str, str]) -> None:
        """If the response headers report an exhausted rate limit, send no requests until it is reset."""
        for left, reset in RESET_HEADERS:
            if headers.get(left) != "0" or reset not in headers:
                continue
            seconds = _seconds_of(headers[reset])
            if seconds is not None:
                with self._lock:
                    self._capacity.pause(time.monotonic() + seconds)

    @property
    def in_flight(self) -> int:
        """The number of requests that have been sent but have not ended."""
        return self._in_flight


def _finish(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


# The headers that say how much of each limit is left, and when the limit is reset.
RESET_HEADERS = [
    (form.format("remaining", kind), form.format("reset", kind))
    for kind in ("requests", "tokens")
    for form in ("x-ratelimit-{0}-{1}", *(one.limit_headers for one in PROVIDERS if one.limit_headers))
]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?:[\d.]+(?:ms|[smhd]))+")


def _seconds_of(reset: str) -> float | None:
    """Convert a rate-limit reset time, such as ``"6m0s"``, ``"12"`` or a date, to seconds from now."""
    if _DURATION.fullmatch(reset):
        return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|[smhd])", reset))
    try:
        return float(reset)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(reset)
    except ValueError:
        return None
    return max(0.0, (at - datetime.now(UTC)).total_seconds()) if at.tzinfo is not None else None


def text_length(request: ChatRequest) -> int:
    """Return the number of characters in the messages of a request."""
    return sum([_characters(message) for message in request.messages])


def _characters(message: Message) -> int:
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    return len(message.text) + sum([len(call.arguments) for call in calls])


_by_address: dict[tuple[str, str], Limiter] = {}
_by_model: WeakKeyDictionary[object, Limiter] = WeakKeyDictionary()
_registry_lock = threading.Lock()


def limiter_for(model: ChatModel) -> Limiter:
    """Return the rate limiter of a model, shared by all models with the same server and API key."""
    endpoint = getattr(model, "endpoint", None)
    with _registry_lock:
        if isinstance(endpoint, str):
            return _by_address.setdefault((endpoint, getattr(model, "account", "")), Limiter())
        return _by_model.setdefault(model, Limiter())


class PermitChatModel(WrappingChatModel):
    """Base class of chat models that need a permit for each request to another model.

    A request that the server refuses because of a limit waits for another permit and is sent again. Only the
    wait for the first permit is measured as ``ChatRequest.waiting``, and moves the deadline.
    """

    _max_wait = math.inf
    _waits_for: tuple[int, ...] = REFUSED

    @abstractmethod
    def permission(self, request: ChatRequest, deadline: float) -> Wait:
        """Return the step that waits for the Permit of a request; its outcome is None after the deadline."""

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        """Send the request with a permit; repeat this while a limit refuses it and there is time."""
        began_at = time.monotonic()
        deadline = began_at + self._max_wait
        last_error: ModelError | None = None
        permit: Permit | None
        if request.waiting is None:
            if request.deadline is not None:
                deadline = min(deadline, request.deadline)
            permit = yield self.permission(request, deadline)
        else:
            with request.waiting:
                permit = yield self.permission(request, deadline)
            if request.deadline is not None:
                moved = request.deadline + time.monotonic() - began_at
                request = replace(request, deadline=moved)
                deadline = min(deadline, moved)
        while True:
            if permit is None:
                raise self._too_late(last_error, time.monotonic() - began_at)
            send = Send(self._model, request, permit.read_headers)
            try:
                reply: ChatReply = yield send
            except ModelError as error:
                if error.status not in self._waits_for or not error.retryable:
                    permit.failed()
                    raise
                permit.refused(error.retry_after)
                if send.has_started:
                    raise
                last_error = error
                permit = None
                if time.monotonic() < deadline:
                    permit = yield self.permission(request, deadline)
            except BaseException:
                permit.failed()
                raise
            else:
                permit.accepted(reply.usage, (reply.model, self.name))
                return reply

    def _too_late(self, last_error: ModelError | None, waited: float) -> ModelError:
        if last_error is not None:
            last_error.args = (f"{last_error}; waited {waited:.1f} seconds for its turn",)
            return last_error
        message = f"{self.name}: the limits did not allow the request within {waited:.1f} seconds"
        return ModelTimeoutError(message, retryable=True)


@checks_arguments
class LimitedChatModel(PermitChatModel, PickledByArguments):
    """A chat model that sends requests to another model within rate limits.

    All services and models of the process with the same address and key share the limits. A request that the
    server refuses because of a limit waits and is sent again, without using an attempt of the call's budget,
    until ``Limits.max_wait`` or the deadline of the call. ``create(…, limits=Limits(…))`` does this for all
    models of a service.

    Arguments:
        model: The model, or its name.
        limits: The limits. Without them, only what the server accepts limits the requests.
    """

    def __init__(self, model: ChatModel | str, limits: Limits | None = None) -> None:
        if limits is not None and not isinstance(limits, Limits):
            message = f"limits is {type(limits).__name__}; pass Limits(…)"
            raise DefinitionError([DefinitionProblem("LimitedChatModel", message)])
        unlimited, self._bounds = _without_limits(find_model(model, "LimitedChatModel"))
        super().__init__(unlimited)
        self._limits = limits or Limits()
        self._bounds += (self._limits,)
        self._max_wait = self._limits.max_wait
        self._limiter: Limiter | None = None
        members = members_of(self._model)
        limited = (
            [] if members == (self._model,) else [LimitedChatModel(one, self._limits) for one in members]
        )
        self._members = (*(one.failing_at_once() for one in limited[:-1]), *limited[-1:])

    @property
    def capabilities(self) -> Capabilities:
        """The features of the model, and how many requests the limits allow at the same time."""
        capabilities = self._model.capabilities
        most = smallest([capabilities.max_concurrency, *(one.max_concurrency for one in self._bounds)])
        if most == capabilities.max_concurrency:
            return capabilities
        return replace(capabilities, max_concurrency=most)

    def failing_at_once(self) -> LimitedChatModel:
        """Return a copy that raises an error at once in an outage, so that a fallback can answer.

        It still waits when the provider's rate limit is reached (status 429).
        """
        model = copy(self)  # with the limits that the model had before
        model._waits_for = (429,)
        return model

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The members of the wrapped FallbackChatModel, each with these limits; () for other models."""
        return self._members

    @property
    def rests(self) -> Mapping[int, CircuitBreaker]:
        """A dict from the ``id()`` of each FallbackChatModel member to its circuit breaker."""
        rests = rests_of(self._model)
        pairs = zip(members_of(self._model), self._members, strict=False)
        return {id(limited): rests[id(member)] for member, limited in pairs if id(member) in rests}

    @property
    def unsure(self) -> float | Literal["threshold"] | None:
        """The probability below which a FallbackChatModel asks its next member; None for other models."""
        return getattr(self._model, "unsure", None)

    @property
    def limiter(self) -> Limiter:
        """The rate limiter of this model, with counts of its sent and refused requests."""
        if self._limiter is None:
            self._limiter = _limiter_with(self._model, *self._bounds)
        return self._limiter

    def permission(self, request: ChatRequest, deadline: float) -> Wait:
        return _wait_for(self.limiter, request, deadline)


class QueuedChatModel(PermitChatModel):
    """A chat model that sends another model at most ``Capabilities.max_concurrency`` requests at a time.

    A stream keeps its place until it has been read to its end or closed.
    """

    _waits_for = ()

    def permission(self, request: ChatRequest, deadline: float) -> Wait:
        return _wait_for(_limiter_with(self._model), request, deadline)


def _without_limits(model: ChatModel) -> tuple[ChatModel, tuple[Limits, ...]]:
    """Return the model inside models with limits, which would wait for two places at one server."""
    bounds: tuple[Limits, ...] = ()
    while isinstance(model, (LimitedChatModel, QueuedChatModel)) and not getattr(model, "members", ()):
        if isinstance(model, LimitedChatModel):
            bounds += model._bounds
        model = model.wrapped_model
    return model, bounds


def _limiter_with(model: ChatModel, *bounds: Limits) -> Limiter:
    limiter = limiter_for(model)
    most = None if getattr(model, "has_queue", False) else model.capabilities.max_concurrency
    for one in bounds if most is None else (*bounds, Limits(max_concurrency=most)):
        limiter.add_bounds(one)
    return limiter


def _wait_for(limiter: Limiter, request: ChatRequest, deadline: float) -> Wait:
    tokens = limiter.estimate(request)
    return Wait(partial(limiter.acquire, tokens, deadline), partial(limiter.aacquire, tokens, deadline))
