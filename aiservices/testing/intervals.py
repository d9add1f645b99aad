"""Confidence intervals: how far a figure from a few cases may be from the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

__all__ = ["Interval", "mean_interval", "t_quantile", "wilson_interval"]


class Interval(NamedTuple):
    """Two bounds, both included."""

    low: float
    high: float


def wilson_interval(hits: int, cases: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a rate.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. Brown, Cai and DasGupta, "Interval estimation for a
    binomial proportion", Statistical Science 16 (2001), 101-133, advise it for few cases. Without a case it
    is from 0 to 1.
    """
    if cases == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, square = hits / cases, z * z / cases
    middle = rate + square / 2
    reach = z * math.sqrt(rate * (1 - rate) / cases + square / (4 * cases))
    low, high = (middle - reach) / (1 + square), (middle + reach) / (1 + square)
    return Interval(0.0 if hits == 0 else low, 1.0 if hits == cases else high)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's t interval of a mean; None with fewer than two values, of which nothing is known to vary.

    Student, "The probable error of a mean", Biometrika 6 (1908), 1-25. It supposes that the mean of so many
    cases is about normally distributed.
    """
    if len(values) < 2:
        return None
    middle = fmean(values)
    reach = t_quantile((1 + confidence) / 2, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(middle - reach, middle + reach)


def t_quantile(probability: float, freedom: int) -> float:
    """The value below which Student's t lies with a probability of 0.5 or more, by bisection."""
    low, high = 0.0, 1.0
    while _t_below(high, freedom) < probability:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if _t_below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_below(t: float, freedom: int) -> float:
    """The probability of a value below ``t``, which is not negative.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4: finite sums for
    whole degrees of freedom.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    term = cosine if freedom % 2 else 1.0
    total = 0.0 if freedom == 1 else term
    for step in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    share = 2 / math.pi * (angle + math.sin(angle) * total) if freedom % 2 else math.sin(angle) * total
    return (1 + share) / 2
