"""Token prices of language models: your own table, or a provider's published prices.

No prices are built in, because they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase

from .engine.budget import Budget, Price
from .models.arguments import checks_arguments
from .models.errors import Attempt, DefinitionError, DefinitionProblem, import_extra
from .models.messages import Usage

__all__ = ["PriceTable", "Prices", "PublishedPrices"]

_MILLION = 1_000_000


class Prices(Mapping[str, Price]):
    """A mapping from model names to token prices, for cost limits and cost reports.

    A model whose price is unknown is not a key. It never counts as free.

    Attributes:
        currency: The currency of all prices, such as "USD".
    """

    currency: str

    def cost(self, attempts: Iterable[Attempt]) -> float | None:
        """Return the total cost of a service call's model requests, or None if it is unknown.

        The cost is unknown if a model has no price or its provider did not report tokens. An attempt without
        a reply costs nothing.
        """
        # A Budget looks prices up under the names of a model; the cost must follow the same rules.
        return Budget(prices=self).cost_of(attempts)


@checks_arguments
class PriceTable(Prices):
    """A user-written table of token prices for model names or patterns such as ``gpt-x*``.

    In a pattern ``*`` matches any text and ``?`` one character: ``"gpt-x*"`` matches "gpt-x-mini" too, and
    ``"gpt-x-????-??-??"`` only the dated versions of "gpt-x". An exact name has priority over patterns, and
    an earlier pattern over a later one.

    Args:
        prices: The prices per million tokens, by name or pattern.
        currency: The currency of all prices.
        as_of: The date of the prices, as a reminder for readers.
        fallback: Prices for models that the table does not name.

    Raises DefinitionError for a value that is not a Price, and if ``fallback`` has another currency.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        *,
        currency: str,
        as_of: date,
        fallback: Prices | None = None,
    ) -> None:
        self._prices = dict(prices)
        self._patterns = tuple(name for name in self._prices if any(character in name for character in "*?["))
        self._fallback = fallback
        self.currency = currency
        self.as_of = as_of
        problems = [
            DefinitionProblem("PriceTable", f"the price of {name} is {price!r}; pass Price(input, output)")
            for name, price in self._prices.items()
            if not isinstance(price, Price)
        ]
        if fallback is not None and fallback.currency != currency:
            message = f"prices are in {currency}, those of fallback in {fallback.currency}; use one currency"
            problems.append(DefinitionProblem("PriceTable", message))
        if problems:
            raise DefinitionError(problems)

    def __getitem__(self, name: str) -> Price:
        if name in self._prices:
            return self._prices[name]
        for pattern in self._patterns:
            if fnmatchcase(name, pattern):
                return self._prices[pattern]
        if self._fallback is None:
            raise KeyError(name)
        return self._fallback[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._prices
        yield from (name for name in self._fallback or () if name not in self._prices)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"PriceTable({len(self._prices)} prices in {self.currency} as of {self.as_of})"


@checks_arguments
class PublishedPrices(Prices):
    """A model provider's published token prices in US dollars, from the package genai-prices.

    The prices come from the package ``genai-prices`` and are as recent as the installed version; its
    ``UpdatePrices`` downloads newer ones. Prices that depend on the length or the time of a request are
    computed for each request. Discounts, batch prices and searches are not included. A model
    without a price for input or output is not a key.

    Args:
        provider: The name of the provider in genai-prices, such as "openai" or "azure".
            The same model has different prices at different providers.

    Raises MissingExtraError without the extra, and DefinitionError for an unknown provider.
    """

    currency = "USD"

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._package = import_extra("genai_prices", "prices", "PublishedPrices")
        self._cache: dict[str, Price] = {}
        snapshot = self._package.data_snapshot.get_snapshot()
        self._models = next((entry.models for entry in snapshot.providers if entry.id == provider), None)
        if self._models is None:
            names = ", ".join(sorted(entry.id for entry in snapshot.providers))
            message = f"genai-prices does not know the provider {provider!r}; it must be one of {names}"
            raise DefinitionError([DefinitionProblem("PublishedPrices", message)])

    def __getitem__(self, name: str) -> Price:
        price = self._cache.get(name)
        if price is None:
            price = self._cache[name] = self._look_up(name)
        return price

    def _look_up(self, name: str) -> Price:
        new_usage = self._package.Usage
        # A price in genai-prices can have tiers. The cost of a single token is its base price as one number.
        usages = (
            new_usage(input_tokens=1),
            new_usage(output_tokens=1),
            new_usage(input_tokens=1, cache_read_tokens=1),
            new_usage(input_tokens=1, cache_write_tokens=1),
        )
        try:
            costs = [self._package.calc_price(usage, name, provider_id=self.provider) for usage in usages]
        except LookupError:
            raise KeyError(name) from None
        model_price = costs[0].model_price
        if model_price.input_mtok is None or model_price.output_mtok is None:
            raise KeyError(name)
        price = _PublishedPrice(*(float(cost.total_price * _MILLION) for cost in costs))
        price.model, price.provider = name, self.provider
        return price

    def __iter__(self) -> Iterator[str]:
        return (model.id for model in self._models or () if model.id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # without counting the models, each of which would be looked up

    def __repr__(self) -> str:
        return f"PublishedPrices({self.provider!r})"


class _PublishedPrice(Price):
    """A model's published token price, including special rates such as the one for cached tokens."""

    model: str
    provider: str

    def of(self, usage: Usage) -> float:
        package = import_extra("genai_prices", "prices", "PublishedPrices")
        tokens = package.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        return float(package.calc_price(tokens, self.model, provider_id=self.provider).total_price)
