"""Plots and tables that compare the probabilities of decisions with the answers that were right."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from output_parsers import Decision

from .calibration_math import (
    Labelled,
    ReliabilityBin,
    Threshold,
    calibration_error,
    calibration_error_if_perfect,
    reliability_bins,
    threshold_table,
)

BIN_COLUMNS = ("stated", "cases", "mean", "observed", "low", "high")
THRESHOLD_COLUMNS = ("threshold", "coverage", "error", "upper bound")


class Reliability(NamedTuple):
    """How well the probabilities of decisions agree with the answers that were expected.

    Attributes:
        options: The possible answers. With two, the probability of the second one is compared, otherwise that
            of the most likely one.
        samples: The probabilities of the possible answers for each case, with the expected answer.
        confidence: The level of the intervals and bounds, for example 0.95.
    """

    options: tuple[Any, ...]
    samples: tuple[Labelled, ...]
    confidence: float

    @property
    def bins(self) -> list[ReliabilityBin]:
        """Stated and observed frequencies, in bins with about equal numbers of cases."""
        return reliability_bins(self.samples, self.confidence)

    @property
    def thresholds(self) -> list[Threshold]:
        """The share and the error rate of the accepted answers for each of several thresholds."""
        return threshold_table(self.samples, self.confidence)

    @property
    def title(self) -> str:
        """What is compared, such as "stated probability of True"."""
        return stated_text(self.options)

    @property
    def calibration_error(self) -> str:
        """The calibration error, and the one that perfect probabilities would have, as a text."""
        error, chance = calibration_error(self.samples), calibration_error_if_perfect(self.samples)
        return f"calibration error {error:.3f}; perfect probabilities would have {chance:.3f} by chance"

    @property
    def bins_note(self) -> str:
        """What the reliability table shows, as a text."""
        return (
            f"{self.title}, and how often it was right in {len(self.samples)} cases; "
            f"low and high: {self.confidence:.0%} confidence, Clopper and Pearson's interval"
        )

    @property
    def thresholds_note(self) -> str:
        """What the table of thresholds shows, as a text."""
        return (
            f"upper bound: of the error with {self.confidence:.0%} confidence (Clopper and Pearson), for a "
            "threshold that was not chosen with this table; calibrate chooses one"
        )

    def bin_cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the reliability table, with a cell for each of BIN_COLUMNS."""
        return [
            (
                f"{one.lowest:.2f} to {one.highest:.2f}",
                str(one.cases),
                *(f"{share:.2f}" for share in (one.stated, one.observed, one.low, one.high)),
            )
            for one in self.bins
        ]

    def threshold_cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the table of thresholds, with a cell for each of THRESHOLD_COLUMNS."""
        return [
            (
                f"{one.value:.2f}",
                f"{one.coverage:.0%}",
                *((f"{one.error:.1%}", f"{one.upper:.1%}") if one.coverage else ("-", "-")),
            )
            for one in self.thresholds
        ]

    def svg(self) -> str:
        """Return a plot of stated and observed frequencies with their intervals, as SVG."""
        title = f"Reliability of {len(self.samples)} decisions"
        return reliability_svg({"": self.samples}, title, self.title, self.confidence)


def reliability_of(pairs: Iterable[tuple[object, object]], confidence: float) -> Reliability | None:
    """Compare decisions with the expected answers; None if there are none with probabilities.

    ``pairs`` are values and expected values. Each member of a list counts as a decision of its own. Other
    values than decisions are left out, and so are decisions whose expected value is not one of the possible
    answers of the first decision.
    """
    options: list[Any] = []
    samples: list[Labelled] = []
    for value, expected in pairs:
        if not isinstance(value, Decision) or not value.probabilities:
            continue
        shares = value.probabilities
        if value.is_list:
            # Each member is a question of its own.
            options = [False, True]
            if isinstance(expected, Collection):
                samples += [Labelled((1 - p, p), int(one in expected)) for one, p in shares.items()]
            continue
        if not options:
            # False before True, so that the probability of True is compared.
            options = sorted(shares) if all(isinstance(one, bool) for one in shares) else list(shares)
        label = _position(expected, options)
        if label is not None and shares.keys() == set(options):
            samples.append(Labelled(tuple(shares[option] for option in options), label))
    return Reliability(tuple(options), tuple(samples), confidence) if samples else None


def _position(expected: object, options: Sequence[object]) -> int | None:
    for position, option in enumerate(options):
        if type(option) is type(expected) and option == expected:
            return position
    return None


def stated_text(options: Sequence[object]) -> str:
    """Return which probability is compared with observed frequencies, as the label of an axis."""
    if len(options) != 2:
        return "stated probability of the most likely answer"
    return f"stated probability of {getattr(options[1], 'value', options[1])}"


# --- the plot ---

_SIZE, _MARGIN = 300, 40
_COLOURS = ("#999999", "#2a78d6")


def reliability_svg(
    series: Mapping[str, Sequence[Labelled]],
    title: str,
    stated: str = "stated probability",
    confidence: float = 0.95,
) -> str:
    """Return a plot of the frequencies that were stated and observed, with their intervals, as SVG.

    ``series`` are the names and labelled probabilities of one or two sets of points, ``stated`` is the label
    of the horizontal axis.
    """
    side = _SIZE + 2 * _MARGIN

    def x(value: float) -> float:
        return _MARGIN + value * _SIZE

    def y(value: float) -> float:
        return _MARGIN + (1 - value) * _SIZE

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side + 20}" role="img" '
        f'font-family="sans-serif" font-size="11" fill="#777">',
        f"<title>{escape(title)}</title>",
        f'<text x="{_MARGIN}" y="24" font-size="13">{escape(title)}</text>',
        f'<rect x="{_MARGIN}" y="{_MARGIN}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#999"/>',
        f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="#999" stroke-dasharray="4 4"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<text x="{x(tick)}" y="{y(0) + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{x(0) - 6}" y="{y(tick) + 4}" text-anchor="end">{tick:g}</text>')
    # A single set of points has the colour of the last one.
    colours = _COLOURS[-len(series) :]
    for number, ((name, samples), colour) in enumerate(zip(series.items(), colours, strict=True)):
        for one in reliability_bins(samples, confidence):
            centre = f'cx="{x(one.stated):.1f}" cy="{y(one.observed):.1f}"'
            parts.append(
                f'<line x1="{x(one.stated):.1f}" x2="{x(one.stated):.1f}" y1="{y(one.low):.1f}" '
                f'y2="{y(one.high):.1f}" stroke="{colour}"/><circle {centre} r="4" fill="{colour}"/>'
            )
        if len(series) > 1:
            legend = 110 + 80 * number
            parts.append(f'<circle cx="{legend}" cy="{side + 8}" r="4" fill="{colour}"/>')
            parts.append(f'<text x="{legend + 8}" y="{side + 12}">{escape(name)}</text>')
    parts.append(f'<text x="{x(0.5)}" y="{side - 6}" text-anchor="middle">{escape(stated)}</text>')
    parts.append(
        f'<text transform="translate(12 {y(0.5)}) rotate(-90)" text-anchor="middle">observed frequency</text>'
    )
    return "\n".join([*parts, "</svg>"])
