"""What models cost: tables of one's own, and published prices. None is built in, since prices change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from ..engine.budget import Budget, Price
from ..models.errors import Attempt, DefinitionError, DefinitionProblem
from ..models.messages import Usage

_MILLION = 1_000_000


class Prices(Mapping[str, Price]):
    """Prices by the names of models, all in one ``currency`` (as "USD"); what ``Budget(prices=…)`` takes.

    What has no price is not there: nothing is guessed, and nothing is free.
    """

    currency: str

    def cost(self, attempts: Iterable[Attempt]) -> float | None:
        """What the requests of a call cost, as a Result or an error has them.

        None where it is not known: a model has no price, or its provider told no tokens. A request without
        a reply costs nothing.
        """
        budget, spent = Budget(prices=self), 0.0
        for attempt in attempts:
            reply = attempt.reply
            if reply is None:
                continue
            price = budget.price_of(reply.model, attempt.model)
            if price is None or reply.usage is None:
                return None
            spent += price.of(reply.usage)
        return spent


class PriceTable(Prices):
    """Prices that you know, by the names of models or patterns of them, as they were at ``as_of``.

    In a pattern ``*`` stands for anything and ``?`` for one character. A whole name goes before patterns,
    and of those the first one that fits is taken. ``"gpt-x*"`` is the price of "gpt-x-mini" too; the dated
    versions of one model are ``"gpt-x-????-??-??"``. What the table does not name is looked up in
    ``otherwise``. Raises DefinitionError for a price below zero, and for two currencies.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        *,
        currency: str,
        as_of: date,
        otherwise: Prices | None = None,
    ) -> None:
        self._prices = dict(prices)
        self._patterns = tuple(name for name in self._prices if any(sign in name for sign in "*?["))
        self._otherwise = otherwise
        self.currency = currency
        self.as_of = as_of
        problems = [
            DefinitionProblem("PriceTable", f"the price of {name} is {price}; none of it must be negative")
            for name, price in self._prices.items()
            if any(part is not None and not part >= 0 for part in price)
        ]
        if otherwise is not None and otherwise.currency != currency:
            said = f"prices are in {currency}, those of otherwise in {otherwise.currency}; use one currency"
            problems.append(DefinitionProblem("PriceTable", said))
        if problems:
            raise DefinitionError(problems)

    def __getitem__(self, name: str) -> Price:
        if name in self._prices:
            return self._prices[name]
        for pattern in self._patterns:
            if fnmatchcase(name, pattern):
                return self._prices[pattern]
        if self._otherwise is None:
            raise KeyError(name)
        return self._otherwise[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._prices
        yield from (name for name in self._otherwise or () if name not in self._prices)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"PriceTable({len(self._prices)} prices in {self.currency} as of {self.as_of})"


class PublishedPrices(Prices):
    """The list prices of one provider for tokens, in US dollars, as the package ``genai-prices`` has them.

    Needs the extra ``prices``. ``provider`` is the name in that package, as "openai", "azure", "anthropic" or
    "google": elsewhere the same model costs otherwise. They are as new as the installed package; its
    ``UpdatePrices`` fetches newer ones. What depends on the length of a request, or on the time, is that of
    each request. Discounts, batches, searches and the writing of caches are not known here. A model of which
    it has no price for input or output is not there. Raises ImportError without the extra, and
    DefinitionError for an unknown provider.
    """

    currency = "USD"

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._package = _package()
        self._found: dict[str, Price] = {}
        self._providers = {one.id: one for one in self._package.data_snapshot.get_snapshot().providers}
        if provider not in self._providers:
            known = ", ".join(sorted(self._providers))
            said = f"genai-prices knows no provider {provider!r}; it must be one of {known}"
            raise DefinitionError([DefinitionProblem("PublishedPrices", said)])

    def __getitem__(self, name: str) -> Price:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look_up(name)
        return found

    def _look_up(self, name: str) -> Price:
        tokens = self._package.Usage
        kinds = (
            tokens(input_tokens=1),
            tokens(output_tokens=1),
            tokens(input_tokens=1, cache_read_tokens=1),
        )
        try:
            costs = [self._package.calc_price(kind, name, provider_id=self.provider) for kind in kinds]
        except LookupError:
            raise KeyError(name) from None
        of_model = costs[0].model_price
        if of_model.input_mtok is None or of_model.output_mtok is None:
            raise KeyError(name)
        price = _Published(*(float(cost.total_price * _MILLION) for cost in costs))
        price.model, price.provider = name, self.provider
        return price

    def __iter__(self) -> Iterator[str]:
        return (model.id for model in self._providers[self.provider].models if model.id in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"PublishedPrices({self.provider!r})"


class _Published(Price):
    """The base prices of a model, as they were when they were looked up; ``of`` reckons with all of them."""

    model: str
    provider: str

    def of(self, usage: Usage) -> float:
        package = _package()
        tokens = package.Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
        )
        return float(package.calc_price(tokens, self.model, provider_id=self.provider).total_price)


def _package() -> Any:
    try:
        return import_module("genai_prices")
    except ImportError as error:
        said = 'published prices need genai-prices: pip install "aiservices[prices]"'
        raise ImportError(said) from error
