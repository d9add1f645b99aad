"""Prices of models from a PriceTable or from PublishedPrices."""

from __future__ import annotations

import sys
from datetime import date
from typing import Any, Protocol

import pytest

from aiservices import (
    Budget,
    DefinitionError,
    ModelServerError,
    Price,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    create,
)
from aiservices.models.errors import Attempt
from aiservices.models.messages import AiMessage, ChatReply, Usage
from aiservices.prices import PriceTable, PublishedPrices

TODAY = date(2026, 11, 1)
CHEAP, DEAR, OTHER = Price(0.1, 0.4), Price(2, 8, cached=0.5), Price(1, 1)


def table(prices: dict[str, Price], **settings: Any) -> PriceTable:
    return PriceTable(prices, **{"currency": "EUR", "as_of": TODAY, **settings})


def test_an_exact_name_has_priority_over_patterns_and_the_first_pattern_over_others() -> None:
    prices = table({"gpt-*": OTHER, "gpt-x-????-??-??": DEAR, "gpt-x": CHEAP})
    assert prices["gpt-x"] == CHEAP
    assert prices["gpt-x-2026-01-31"] == OTHER


def test_a_pattern_can_match_only_the_dated_versions_of_a_model() -> None:
    prices = table({"gpt-x-????-??-??": DEAR})
    assert prices["gpt-x-2026-01-31"] == DEAR
    assert [name in prices for name in ("gpt-x", "gpt-x-mini", "GPT-X-2026-01-31")] == [False] * 3


def test_a_model_that_the_table_does_not_name_is_looked_up_in_the_fallback() -> None:
    prices = table({"a": CHEAP}, fallback=table({"a": DEAR, "b": OTHER}))
    assert (prices["a"], prices["b"], prices.get("c")) == (CHEAP, OTHER, None)
    assert (list(prices), len(prices)) == (["a", "b"], 2)
    assert repr(prices) == "PriceTable(1 prices in EUR as of 2026-11-01)"


def test_values_that_are_not_prices_and_two_currencies_are_rejected() -> None:
    wrong: Any = (1, 2)
    with pytest.raises(DefinitionError) as caught:
        table({"a": wrong}, fallback=table({}, currency="USD"))
    assert str(caught.value) == (
        "2 problems:\n"
        "  - PriceTable: the price of a is (1, 2); pass Price(input, output)\n"
        "  - PriceTable: prices are in EUR, those of fallback in USD; use one currency"
    )


class Counter(Protocol):
    def count(self, text: str) -> Result[int]: ...


def test_a_budget_uses_the_prices_of_a_table() -> None:
    budget = Budget(money=0.00001, prices=table({"scr*": DEAR}))
    service = create(Counter, ScriptedChatModel(["many", "1"]), budget=budget)
    with pytest.raises(ServiceOutputError) as caught:
        service.count("How many are two?")
    assert str(caught.value).endswith(
        "; no further request: budget exceeded: 1.6e-05 of 1e-05 spent; raise Budget(money=…)"
    )


def test_a_budget_rejects_a_model_without_a_price() -> None:
    with pytest.raises(DefinitionError) as caught:
        create(Counter, ScriptedChatModel([]), budget=Budget(money=1, prices=table({"gpt-*": DEAR})))
    assert str(caught.value) == "Counter: the budget limits money, but its prices do not name scripted"


def test_the_cost_of_a_result_includes_all_attempts() -> None:
    down = ModelServerError("500", status=500, retryable=True)
    model = ScriptedChatModel([down, "many", "1"])
    result = create(Counter, model, budget=Budget(first_wait=0)).count("How many?")
    prices = table({"scripted": Price(1, 10)})
    assert result.usage == Usage(25, 2)
    assert prices.cost(result.attempts) == pytest.approx((25 * 1 + 2 * 10) / 1_000_000)


def test_the_cost_is_none_without_a_price_or_tokens() -> None:
    without_tokens = Attempt("a", ChatReply(AiMessage("x")), None, 0.1)
    with_tokens = Attempt("b", ChatReply(AiMessage("x"), usage=Usage(1, 1)), None, 0.1)
    assert (table({"a": OTHER}).cost([without_tokens]), table({"a": OTHER}).cost([with_tokens])) == (
        None,
        None,
    )
    assert table({}).cost([]) == 0


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ImportError) as caught:
        PublishedPrices("openai")
    assert (
        str(caught.value)
        == 'PublishedPrices needs the package genai-prices: pip install "aiservices[prices]"'
    )


class TestPublished:
    """Tests of PublishedPrices, which reads prices from the package genai-prices."""

    @pytest.fixture(autouse=True)
    def needs_the_package(self) -> None:
        pytest.importorskip("genai_prices", reason="the extra prices is not installed")

    def test_prices_are_those_of_genai_prices(self) -> None:
        from genai_prices import Usage as Tokens, calc_price

        price = PublishedPrices("openai")["gpt-4.1"]
        tokens = Tokens(input_tokens=1000, output_tokens=10, cache_read_tokens=100)
        expected = float(calc_price(tokens, "gpt-4.1", provider_id="openai").total_price)
        assert price.of(Usage(1000, 10, 100)) == expected > 0
        assert price.input * 900 + price.output * 10 + (price.cached or 0) * 100 == pytest.approx(
            expected * 1_000_000
        )

    def test_a_long_request_has_the_price_of_long_requests(self) -> None:
        price = PublishedPrices("anthropic")["claude-sonnet-4-5"]
        assert price.of(Usage(300_000, 0)) > 300_000 * price.input / 1_000_000

    def test_dated_names_have_a_price_and_names_of_other_providers_have_none(self) -> None:
        prices = PublishedPrices("openai")
        assert prices["gpt-4.1-2025-04-14"] == prices["gpt-4.1"]
        for unknown in ("gpt-4.1-of-nobody", "claude-sonnet-4-5", "no-model", "tts-1"):
            assert unknown not in prices

    def test_a_budget_finds_prices_by_the_name_with_the_provider(self) -> None:
        budget = Budget(money=1, prices=PublishedPrices("openai"))
        assert budget.price_of("openai:gpt-4.1") == PublishedPrices("openai")["gpt-4.1"]
        assert budget.price_of("ollama:qwen") is None

    def test_every_listed_model_has_a_price(self) -> None:
        prices = PublishedPrices("anthropic")
        assert len(prices) == len(list(prices)) > 3
        assert all(prices[name].input > 0 for name in prices)
        assert (bool(prices), prices.currency, repr(prices)) == (True, "USD", "PublishedPrices('anthropic')")

    def test_an_unknown_provider_raises_an_error_that_lists_the_providers(self) -> None:
        with pytest.raises(DefinitionError) as caught:
            PublishedPrices("nobody")
        message = (
            "PublishedPrices: genai-prices does not know the provider 'nobody'; it must be one of anthropic, "
        )
        assert str(caught.value).startswith(message)


def test_a_price_that_is_not_a_price_is_a_definition_error() -> None:
    price: Any = 3
    with pytest.raises(DefinitionError, match="the price of gpt-x is"):
        Budget(money=1, prices={"gpt-x": price})
    with pytest.raises(DefinitionError, match="the price of gpt-x is"):
        table({"gpt-x": price})
