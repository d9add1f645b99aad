"""Limits for one service call: requests, seconds, tokens and money."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from ..interface.parameters import function_name, is_async, unwrapped
from ..models.arguments import checks_arguments, is_at_least, is_positive
from ..models.errors import Attempt, BudgetExceededError, DefinitionError, DefinitionProblem, InnerCall
from ..models.messages import CHARACTERS_PER_TOKEN, AiMessage, ChatReply, Message, Usage
from ..models.requests import ChatRequest

# Receives each event of a call. Its return value is ignored, and an exception is logged.
Listener: TypeAlias = Callable[[Any], Awaitable[None] | None]


class CallRecord(Protocol):
    """The interface for reading a running service call's usage, including calls made by its tools."""

    @property
    def tokens(self) -> int:
        """The tokens that the call has used, including estimates for replies without token counts."""
        ...

    @property
    def money(self) -> float:
        """The cost of the tokens that the call has used."""
        ...

    @property
    def requests(self) -> int:
        """The number of requests that the call has sent."""
        ...

    def inner_call(self, prices: Budget | None = None) -> InnerCall:
        """Return a snapshot of the call's usage and its cost.

        If ``prices`` are given, they are used instead of the prices in the call's budget.

        With ``prices``, tokens are estimated where a server reported none, as in a SharedBudget.
        """
        ...


class Account(Protocol):
    """The interface of limits that apply to several calls, such as those of a SharedBudget."""

    @property
    def deadline(self) -> float | None:
        """The ``time.monotonic()`` value at which the time limit ends; None without a limit."""
        ...

    @property
    def limits_usage(self) -> bool:
        """True if the number of tokens or the cost is limited."""
        ...

    @property
    def keeps_calls(self) -> bool:
        """True if the limits need a record of each call, which ``add_call`` receives."""
        ...

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The functions that receive the events of the limited calls."""
        ...

    def add_call(self, call: CallRecord) -> None:
        """Add the record of a call that has just started."""
        ...

    def add_request(self, count: int = 1) -> None:
        """Count requests that are about to be sent."""
        ...

    def add(self, usage: Usage, budget: Budget, *models: str, share: float = 1.0) -> None:
        """Add a reply's tokens to the usage; see ``SharedBudget.add`` for the arguments."""
        ...

    def price_of(self, *names: str) -> Price | None:
        """Return the price for the first of a model's names that has one; None if no name has a price."""
        ...

    def limit_remaining(self, remaining: Remaining) -> Remaining:
        """Return a copy of ``remaining`` in which no amount is larger than these limits allow."""
        ...

    def exceeded(self) -> BudgetExceededError | None:
        """Return an error if a limit has been reached, else None."""
        ...


# The shared budgets and outer calls that limit a call made here, the outermost first.
active_accounts: ContextVar[tuple[Account, ...]] = ContextVar("accounts", default=())


@contextmanager
def using_accounts(accounts: tuple[Account, ...]) -> Iterator[None]:
    """Context manager that applies the limits of shared budgets and outer calls to the calls inside it."""
    token = active_accounts.set(accounts)
    try:
        yield
    finally:
        active_accounts.reset(token)


@checks_arguments
class Price(NamedTuple):
    """The price of a language model per million input tokens and per million output tokens.

    Attributes:
        input: Price of input tokens.
        output: Price of output tokens.
        cached: Price of input tokens that the provider had cached; None if they cost as much as other input.
        cache_write: Price of input tokens that the provider writes to its cache; None if they cost as much as
            other input.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None

    def __post_init__(self) -> None:
        for name, price in self._asdict().items():
            if price is not None and not (is_at_least(price, 0) and math.isfinite(price)):
                message = f"{name} is {price}; it must be a number that is not negative"
                raise DefinitionError([DefinitionProblem("Price", message)])

    def of(self, usage: Usage) -> float:
        """Calculate the cost of one model reply from its token counts."""
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        other_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cost = other_tokens * self.input + usage.output_tokens * self.output
        cost += usage.cached_tokens * cached + usage.cache_write_tokens * cache_write
        return cost / 1_000_000


@checks_arguments
@dataclass(frozen=True, slots=True)
class Budget:
    """Limits for one service call, including all retries: requests, seconds, tokens and money.

    None sets no limit. Tokens and money are only known when a reply has arrived: a reply that exceeds them is
    still used, and no further request is made. Negative counts of a server count as 0. If a server reports no
    usage, four characters of the messages and the reply count as one token. When an item of an ``Iterator``
    does not fit, the rest of its reply is read for the usage if the budget limits tokens or money, up to
    64,000 characters. A failed request counts as no tokens.

    An attempt is one request for the answer. These are attempts: the first request, one after an answer that
    cannot be read, for the whole answer or for single fields, one after an error of the provider, and one to
    a fallback model or with a simpler strategy. These are not: a request whose reply calls tools, which
    ToolLimits limits, and side questions of interceptors, such as the summary of a conversation. The HTTP
    client repeats nothing itself. The ``attempts`` of a Result or an error list all requests.

    Attributes:
        max_attempts: Attempts to get the answer, the first included.
        seconds: Wall time of the whole call, waiting included.
        tokens: Input and output tokens of all replies.
        money: Cost of all replies, by ``prices``.
        prices: The price of each model, by the provider's name for it ("gpt-4.1") or the full name
            ("openai:gpt-4.1").
        first_wait: Seconds before a failed request is repeated. Each further wait is twice as long, with
            jitter, unless the provider says how long to wait.
        requests: Requests of all kinds, those that are not attempts included.
        limits_usage: True if the budget limits tokens or money.
    """

    max_attempts: int = 3
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    first_wait: float = 0.5
    requests: int | None = None
    limits_usage: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits_usage", self.tokens is not None or self.money is not None)
        messages = []
        if not is_at_least(self.max_attempts, 1):
            messages.append(f"max_attempts is {self.max_attempts!r}; it must be at least 1")
        for name in ("seconds", "tokens", "money", "requests"):
            value = getattr(self, name)
            if value is not None and not is_positive(value):
                messages.append(f"{name} is {value!r}; it must be greater than 0")
        if not isinstance(self.prices, Mapping):
            messages.append(f"prices is {self.prices!r}; pass a dict from names of models to Price(…)")
        elif isinstance(self.prices, dict) and (wrong := _wrong_price(self.prices)):
            messages.append(wrong)
        elif self.money is not None and not self.prices:
            messages.append("money is limited, but prices is empty; give the price of each model")
        if not is_at_least(self.first_wait, 0):
            messages.append(f"first_wait is {self.first_wait!r}; it must not be negative")
        if messages:
            raise DefinitionError([DefinitionProblem("Budget", message) for message in messages])

    def problems(self, location: str, models: Iterable[str]) -> list[DefinitionProblem]:
        """Return an error for each model without a known price if the budget limits the cost."""
        if self.money is None:
            return []
        return [
            DefinitionProblem(location, f"the budget limits money, but its prices do not name {name}")
            for name in models
            if self.price_of(name) is None
        ]

    def cost_of(self, attempts: Iterable[Attempt]) -> float | None:
        """Return the total cost of model requests; None if a price or the number of tokens is unknown.

        An attempt without a reply costs nothing.
        """
        cost = 0.0
        for attempt in attempts:
            reply = attempt.reply
            if reply is None:
                continue
            price = self.price_of(reply.model, attempt.model)
            if price is None or reply.usage is None:
                return None
            cost += price.of(reply.usage)
        return cost

    def price_of(self, *names: str) -> Price | None:
        """Return the price for the first given model name that is in the price list, or None."""
        for name in names:
            for key in (name, name.partition(":")[2]):
                if key in self.prices:
                    return self.prices[key]
        return None


def _wrong_price(prices: Mapping[str, object]) -> str:
    """Return a message about the first value that is not a price; "" if all are prices."""
    for name, price in prices.items():
        if not isinstance(price, Price):
            return f"the price of {name} is {price!r}; pass Price(input, output)"
    return ""


class Remaining(NamedTuple):
    """The amounts that a service call may still use, such as tokens or seconds. None means no limit.

    Attributes:
        attempts: Requests for the answer.
        seconds: Wall time.
        tokens: Input and output tokens.
        money: Cost.
        requests: Requests of all kinds.
    """

    attempts: int
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None
    requests: int | None = None

    def limited_to(self, limits: Budget, tokens: int, money: float, requests: int) -> Remaining:
        """Return a copy in which no amount is larger than ``limits`` minus the given usage."""
        left: dict[str, Any] = {}
        for name, spent in {"tokens": tokens, "money": money, "requests": requests}.items():
            limit, own = getattr(limits, name), getattr(self, name)
            if limit is not None:
                left[name] = min(max(0, limit - spent), limit if own is None else own)
        return self._replace(**left)


@checks_arguments
class SharedBudget:
    """Shared limits on time, tokens, cost and requests for all service calls in a ``with`` block.

    Each call also has its own Budget. A call that finds a limit reached raises BudgetExceededError
    before its next request; a reply that exceeds the limit is still used::

        with SharedBudget(money=5.0, prices=prices) as spent:
            tickets = [desk.ticket(text) for text in texts]
        print(spent.cost, spent.usage.total_tokens)

    The limits hold for calls in async tasks that the block starts, and in threads of ``asyncio.to_thread``.
    For other threads, run the call in ``contextvars.copy_context().run``. Blocks may be nested.

    Args:
        seconds: Seconds from the beginning of the block.
        tokens: Input and output tokens of all replies.
        money: Cost of all replies, by ``prices``.
        requests: Requests of all kinds.
        prices: The price of each model, as in Budget; for other models the prices of the call's budget.
        keep_calls: True to keep a record of each call in ``calls``.
        listeners: Functions that receive each event of the calls in the block and of the calls that their
            tools make. They are not async, because calls may be blocking.

    Attributes:
        usage: The tokens that were used so far.
        cost: What the replies cost so far, where prices are known.
        requests: The number of requests so far.
        listeners: The functions that receive the events of the calls.

    Raises DefinitionError for a wrong limit or an async listener.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        money: float | None = None,
        requests: int | None = None,
        prices: Mapping[str, Price] = MappingProxyType({}),
        keep_calls: bool = False,
        listeners: Sequence[Callable[[Any], None]] = (),
    ) -> None:
        check_listeners("SharedBudget", listeners)
        self._limits = Budget(seconds=seconds, tokens=tokens, money=money, requests=requests, prices=prices)
        self._lock = Lock()
        self._started_at: float | None = None
        self._token: Token[tuple[Account, ...]] | None = None
        self._calls: list[CallRecord] | None = [] if keep_calls else None
        self.usage = Usage()
        self.cost = 0.0
        self.requests = 0
        self.listeners: tuple[Callable[[Any], None], ...] = tuple(listeners)

    def __enter__(self) -> Self:
        if self._token is not None:
            raise RuntimeError("this SharedBudget is in use by another with block; create one for each")
        self._started_at = time.monotonic()
        self._token = active_accounts.set((*active_accounts.get(), self))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            active_accounts.reset(self._token)
            self._token = None

    @property
    def limits(self) -> Budget:
        """The limits of the ``with`` block as a Budget object."""
        return self._limits

    @property
    def deadline(self) -> float | None:
        """The ``time.monotonic()`` value at which the block's time limit ends; None without a limit."""
        seconds = self._limits.seconds
        return None if seconds is None or self._started_at is None else self._started_at + seconds

    @property
    def limits_usage(self) -> bool:
        """True if the budget limits the tokens or the cost of the calls in its ``with`` block."""
        return self._limits.limits_usage

    @property
    def keeps_calls(self) -> bool:
        """True if the budget keeps a record of each call of the ``with`` block in ``calls``."""
        return self._calls is not None

    @property
    def calls(self) -> tuple[InnerCall, ...]:
        """The service calls made in the ``with`` block so far, each with the calls that its tools made.

        The sums of their tokens and costs are ``usage`` and ``cost``. Raises RuntimeError without
        ``keep_calls=True``.
        """
        if self._calls is None:
            raise RuntimeError("the calls were not kept; create it with SharedBudget(keep_calls=True)")
        return tuple([call.inner_call(self._limits) for call in self._calls])

    def add_call(self, call: CallRecord) -> None:
        """Store the record of a service call that has just started."""
        if self._calls is not None:
            self._calls.append(call)

    def price_of(self, *names: str) -> Price | None:
        """Return the price for the first of a model's names that has one; None if no name has a price."""
        return self._limits.price_of(*names)

    def add(self, usage: Usage, budget: Budget, *models: str, share: float = 1.0) -> None:
        """Add a reply's tokens and their cost to the totals of the ``with`` block.

        ``budget`` is the call's own budget. ``models`` are the names of the model, the most exact name first.
        ``share`` is the fraction of the normal price that the reply costs.
        """
        price = self._limits.price_of(*models) or budget.price_of(*models)
        with self._lock:
            self.usage += usage
            self.cost += 0.0 if price is None else price.of(usage) * share

    def add_totals(self, usage: Usage, cost: float) -> None:
        """Add the tokens and the cost of replies received by another process."""
        with self._lock:
            self.usage += usage
            self.cost += cost

    def add_request(self, count: int = 1) -> None:
        """Count requests that are about to be sent."""
        with self._lock:
            self.requests += count

    def limit_remaining(self, remaining: Remaining) -> Remaining:
        """Return a copy of ``remaining`` in which no amount is larger than these limits allow."""
        return remaining.limited_to(self._limits, self.usage.total_tokens, self.cost, self.requests)

    def exceeded(self) -> BudgetExceededError | None:
        """Return an error if the service calls in the ``with`` block have reached a limit, else None."""
        limits, deadline = self._limits, self.deadline
        if limits.tokens is not None and self.usage.total_tokens >= limits.tokens:
            return self._limit_error("tokens", f"{self.usage.total_tokens} of {limits.tokens} tokens used")
        if limits.money is not None and self.cost >= limits.money:
            return self._limit_error("money", f"{self.cost:.6g} of {limits.money:g} spent")
        if limits.requests is not None and self.requests >= limits.requests:
            return self._limit_error("requests", f"{self.requests} of {limits.requests} requests sent")
        if deadline is not None and time.monotonic() >= deadline:
            return self._limit_error("seconds", f"{limits.seconds:g} seconds passed")
        return None

    def _limit_error(self, limit: str, message: str) -> BudgetExceededError:
        """Return the error for a limit that was reached; it says how to raise the limit."""
        return BudgetExceededError(
            f"shared budget exceeded: {message}; raise SharedBudget({limit}=…)", limit=limit
        )


def check_listeners(location: str, listeners: Iterable[Callable[[Any], object]]) -> None:
    """Raise DefinitionError if a listener is async, because blocking calls cannot await it."""
    problems = [
        DefinitionProblem(location, f"{function_name(one)} is async; pass a function that is not")
        for one in listeners
        if is_async(unwrapped(one))
    ]
    if problems:
        raise DefinitionError(problems)


def estimated_usage(request: ChatRequest, reply: ChatReply, discarded_characters: int) -> Usage:
    """Estimate the token counts of a request and its reply from their lengths."""
    sent = sum([_text_length(message) for message in request.messages])
    received = _text_length(reply.message) + len(reply.refusal or "") + discarded_characters
    return Usage(-(-sent // CHARACTERS_PER_TOKEN), -(-received // CHARACTERS_PER_TOKEN))


def _text_length(message: Message) -> int:
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    return len(message.text) + sum([len(call.name) + len(call.arguments) for call in calls])
