"""What models cost: tables of one's own, and published prices. None is built in, since prices change."""

from __future__ import annotations

from ..integrations.prices import Prices, PriceTable, PublishedPrices

__all__ = ["PriceTable", "Prices", "PublishedPrices"]
