"""The limits of one service call: number of requests, seconds, tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Usage


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

    def of(self, usage: Usage) -> float:
        """Return the cost of one model reply, calculated from its token counts."""
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        other_tokens = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cost = other_tokens * self.input + usage.output_tokens * self.output
        cost += usage.cached_tokens * cached + usage.cache_write_tokens * cache_write
        return cost / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of requests, time, tokens and money for one service call, including all retries.

    None sets no limit. Tokens and money are only known when a reply has arrived: a reply that exceeds them is
    still used, and no further request is made. Negative counts of a server count as 0. If a server reports no
    usage, four characters of the messages and the reply count as one token. When an item of an ``Iterator``
    does not fit, the rest of its reply is read for the usage if the budget limits tokens or money, up to
    64,000 characters. A failed request does not count.

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
    """

    max_attempts: int = 3
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        messages = []
        if self.max_attempts < 1:
            messages.append(f"max_attempts is {self.max_attempts}; it must be at least 1")
        for name in ("seconds", "tokens", "money"):
            value = getattr(self, name)
            if value is not None and not value > 0:  # "not >" also refuses NaN
                messages.append(f"{name} is {value}; it must be greater than 0")
        if self.money is not None and not self.prices:
            messages.append("money is limited, but prices is empty; give the price of each model")
        if not self.first_wait >= 0:
            messages.append(f"first_wait is {self.first_wait}; it must not be negative")
        if messages:
            raise DefinitionError([DefinitionProblem("Budget", message) for message in messages])

    @property
    def limits_usage(self) -> bool:
        """True if the budget limits tokens or money."""
        return self.tokens is not None or self.money is not None

    def problems(self, location: str, models: Iterable[str]) -> list[DefinitionProblem]:
        """Return an error for each model without a price, if the cost of a service call is limited."""
        if self.money is None:
            return []
        return [
            DefinitionProblem(location, f"the budget limits money, but its prices do not name {name}")
            for name in models
            if self.price_of(name) is None
        ]

    def price_of(self, *names: str) -> Price | None:
        """Return the token price for the first of several model names in the price list, or None."""
        for name in names:
            for key in (name, name.partition(":")[2]):
                if key in self.prices:
                    return self.prices[key]
        return None
