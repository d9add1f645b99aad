"""The limits of one call: requests, seconds, tokens and money."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Usage


class Price(NamedTuple):
    """The price of a model per million tokens, in the currency of ``Budget.money``.

    Attributes:
        input: Price of input tokens.
        output: Price of output tokens.
        cached: Price of input tokens that the provider had cached; None if they cost as much as other input.
    """

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """Return the cost of the tokens that one reply used."""
        cached = self.input if self.cached is None else self.cached
        uncached_tokens = usage.input_tokens - usage.cached_tokens
        cost = uncached_tokens * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return cost / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one call, including its retries and its requests to fallback models.

    None sets no limit. Tokens and money are only known when a reply has arrived: a reply that exceeds them is
    still used, and no further request is made. A reply without usage does not count, nor does one that was
    abandoned.

    Attributes:
        max_attempts: Requests for the answer, the first included. Rounds of tools are limited by ToolLimits.
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

    def problems(self, location: str, models: Iterable[str]) -> list[DefinitionProblem]:
        """Return a problem for each model that has no price although the budget limits the cost."""
        if self.money is None:
            return []
        return [
            DefinitionProblem(location, f"the budget limits money, but its prices do not name {name}")
            for name in models
            if self.price_of(name) is None
        ]

    def price_of(self, *names: str) -> Price | None:
        """Look up a model in the price list under each of its names, and return the first price, or None."""
        for name in names:
            for key in (name, name.partition(":")[2]):
                if key in self.prices:
                    return self.prices[key]
        return None
