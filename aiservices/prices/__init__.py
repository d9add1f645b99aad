"""The public import path of prices: ``PriceTable`` for your own, ``PublishedPrices`` for list prices."""

from __future__ import annotations

from ..integrations.prices import Prices, PriceTable, PublishedPrices

__all__ = ["PriceTable", "Prices", "PublishedPrices"]
