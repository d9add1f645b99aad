"""What a call may spend, and what it has spent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..models.errors import Attempt, BudgetExceededError, DefinitionError, DefinitionProblem, ModelError
from ..models.messages import Usage

if TYPE_CHECKING:
    from ..models.messages import Message
    from .model_route import ModelFailover, ModelRoute
    from .output_format import OutputFormat
    from .tool_execution import ToolRun

_LONGEST_WAIT = 30.0


class Price(NamedTuple):
    """What a model costs, for a million tokens each, in whatever currency the budget's ``money`` is.

    ``cached`` is the price of input that the provider had cached; None when it costs as other input.
    """

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """What the tokens cost."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        sums = fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return sums / 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """What one call may spend in all: HTTP retries, re-asking and fallback models together.

    ``attempts``: requests to models, the first included. ``seconds``: wall time for the whole call,
    waiting included. ``tokens``: input and output tokens of all replies. ``money``: what they cost by
    ``prices``, which names each model as its provider does ("gpt-4.1") or as it is asked for
    ("openai:gpt-4.1"). None sets no limit. Tokens and money are known when a reply has come: a reply that
    goes beyond them is used, and no further request is made. A reply without usage counts nothing, as one
    that is left before its end.
    ``first_wait``: seconds before a failed request is made again; each wait is twice the one before,
    with jitter, unless the provider says how long to wait.
    """

    attempts: int = 3
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    first_wait: float = 0.5

    def __post_init__(self) -> None:
        problems = []
        if self.attempts < 1:
            problems.append(DefinitionProblem("Budget", f"attempts is {self.attempts}; it must be at least 1"))
        for name in ("seconds", "tokens", "money"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                problems.append(DefinitionProblem("Budget", f"{name} is {value}; it must be greater than 0"))
        if self.money is not None and not self.prices:
            problems.append(DefinitionProblem("Budget", "money is limited, but prices names no model"))
        if not self.first_wait >= 0:
            problems.append(
                DefinitionProblem("Budget", f"first_wait is {self.first_wait}; it must not be negative")
            )
        if problems:
            raise DefinitionError(problems)

    def problems(self, where: str, models: Iterable[str]) -> list[DefinitionProblem]:
        """What stands against the budget for these models: money cannot be counted without a price."""
        if self.money is None:
            return []
        unknown = [name for name in models if self.price_of(name) is None]
        return [
            DefinitionProblem(where, f"the budget limits money, but its prices do not name {name}")
            for name in unknown
        ]

    def price_of(self, *names: str) -> Price | None:
        """The price under the first of a model's names that ``prices`` knows."""
        known = (self.prices.get(part) for name in names for part in (name, name.partition(":")[2]))
        return next((price for price in known if price is not None), None)


@dataclass(slots=True)
class CallState:
    """The account of one call: its budget, when it began, each attempt, and whether text was handed out.

    ``wire`` is how the last request was asked, ``route`` of whom. ``ways`` are those taken so far, by the
    models that were to be asked. ``tool_messages`` is what was said with tools since the request, in so many
    ``rounds`` and ``calls``, and ``tool_runs`` what ran; of a call that waited for approval, the first
    ``before`` of what was said are in its request. ``aside`` counts the attempts that were not made at the
    answer, as those at a summary. ``kept`` is what interceptors want to know of the call when it goes on
    after it waited for approval: plain JSON, under names of their own.
    """

    budget: Budget
    began: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)
    text_shown: bool = False
    wire: OutputFormat[Any] | None = None
    route: ModelRoute | None = None
    ways: dict[tuple[ModelRoute, ...], ModelFailover] = field(default_factory=dict)
    tool_messages: list[Message] = field(default_factory=list)
    tool_runs: list[ToolRun] = field(default_factory=list)
    before: int = 0
    rounds: int = 0
    calls: int = 0
    aside: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    _spread: float = 0.0

    @property
    def seconds(self) -> float:
        """Wall time since the call began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget's seconds; None when it sets no limit."""
        return None if self.budget.seconds is None else self.budget.seconds - self.seconds

    @property
    def tokens(self) -> int:
        """The tokens of all replies so far."""
        used = (one.reply.usage for one in self.attempts if one.reply is not None)
        return sum(usage.total_tokens for usage in used if usage is not None)

    @property
    def money(self) -> float:
        """What all replies so far cost by the budget's prices."""
        spent = 0.0
        for one in self.attempts:
            if one.reply is not None and one.reply.usage is not None:
                price = self.budget.price_of(one.reply.model, one.model)
                spent += 0.0 if price is None else price.of(one.reply.usage)
        return spent

    def exceeded(self) -> BudgetExceededError | None:
        """Why no further request may be made; None when one may."""
        budget, left = self.budget, self.seconds_left
        # a request that led to a round of tools was no vain attempt
        made = len(self.attempts) - self.rounds - self.aside
        if made >= budget.attempts:
            return _exceeded("attempts", f"{made} of {budget.attempts} attempts were made")
        if left is not None and left <= 0:
            return _exceeded("seconds", f"{self.seconds:.1f} of {budget.seconds:g} seconds have passed")
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return _exceeded("tokens", f"{self.tokens} of {budget.tokens} tokens were used")
        if budget.money is not None and self.money >= budget.money:
            return _exceeded("money", f"{self.money:.6g} of {budget.money:g} was spent")
        return None

    def may_ask_again(self) -> bool:
        """Whether another request may be made after one that failed, or whose reply does not fit.

        It may not once a stream has handed out text: another answer would begin in the midst of the first.
        """
        return not self.text_shown and self.exceeded() is None

    def wait_before_retry(self, error: ModelError, failures: int) -> float | None:
        """Seconds to wait before the same request is made again; None when it must not be."""
        if not error.retryable or not self.may_ask_again():
            return None
        if error.retry_after is not None:
            wait = error.retry_after
        else:
            wait = min(self.budget.first_wait * 2 ** (failures - 1), _LONGEST_WAIT) * self._jitter()
        if wait > _LONGEST_WAIT * 2 or (self.seconds_left is not None and wait >= self.seconds_left):
            return None
        return wait

    def _jitter(self) -> float:
        """The same within a call, so that chance does not change the order of its models."""
        if not self._spread:
            from random import uniform  # loads OpenSSL's hashes, and few calls are retried

            self._spread = uniform(0.75, 1.0)
        return self._spread


def _exceeded(limit: str, said: str) -> BudgetExceededError:
    return BudgetExceededError(
        f"the budget does not permit to go on: {said}; raise Budget({limit}=…)", limit=limit
    )
