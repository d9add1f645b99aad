"""Measure how reliable the probabilities of decisions are, fit calibrations, and choose thresholds."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from operator import itemgetter
from typing import Any, NamedTuple

from output_parsers import Decision

from .calibration import Calibrator, logit, sigmoid

# --- Measuring ---

# This is written with the standard library: the only function that SciPy would add is the bound of Clopper
# and Pearson, and scikit-learn has no fit with an offset for each answer.

_FOLDS = 5
_SEED = 20261122
_ISOTONIC_FROM = 1000  # with fewer labels its steps are mostly noise
_MAX_STEPS = 100
_BINS = 15
_BIN_SIZE, _MAX_BINS = 20, 10  # of reliability tables; an interval of a bin with fewer examples is too wide
_DRAWS = 200  # the number of random draws of labels, for the calibration error of perfect probabilities
# The thresholds that are tried, strictest first. They are fixed, so that the bound holds for the one that is
# chosen.
GRID = tuple(position / 100 for position in range(99, 49, -1))
_TABLE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # the thresholds that tables show


class Labelled(NamedTuple):
    """The probabilities that a model gave for the possible answers, and the index of the correct answer.

    Attributes:
        probabilities: The probability of each possible answer.
        answer: The index of the correct answer.
    """

    probabilities: tuple[float, ...]
    answer: int

    @property
    def confidence(self) -> float:
        """The highest of the probabilities that the model gave for the possible answers."""
        return max(self.probabilities)

    @property
    def is_right(self) -> bool:
        """True if the most likely answer is the correct one."""
        return self.probabilities.index(self.confidence) == self.answer


class Threshold(NamedTuple):
    """A minimum probability for accepting an answer, with the measured coverage and error rate.

    Attributes:
        value: Answers with at least this probability are accepted.
        coverage: The share of the examples with such an answer.
        error: The share of wrong answers among them.
        upper: The upper bound of the error at the requested confidence.
    """

    value: float
    coverage: float
    error: float
    upper: float


class ReliabilityBin(NamedTuple):
    """Examples with similar stated probabilities, and how often the answer was observed.

    Attributes:
        lowest: The lowest stated probability.
        highest: The highest stated probability.
        cases: The number of examples.
        stated: The mean of the stated probabilities.
        observed: The share of the examples that had this answer.
        low: The lower bound of the confidence interval of ``observed``.
        high: The upper bound.
    """

    lowest: float
    highest: float
    cases: int
    stated: float
    observed: float
    low: float
    high: float


def brier(samples: Sequence[Labelled]) -> float:
    """Return the mean squared distance between the probabilities and the correct answer, from 0 to 1."""
    total = 0.0
    for sample in samples:
        squares = [
            (share - (position == sample.answer)) ** 2 for position, share in enumerate(sample.probabilities)
        ]
        total += sum(squares) / 2
    return total / len(samples)


def log_loss(samples: Sequence[Labelled]) -> float:
    """Return the mean negative logarithm of the correct answer's probability."""
    return -sum(math.log(max(one.probabilities[one.answer], 1e-6)) for one in samples) / len(samples)


def auroc(samples: Sequence[Labelled]) -> float | None:
    """Return the area under the ROC curve (AUROC) for two possible answers, or None if undefined.

    It is undefined for more than two answers, or if all examples have the same answer.
    """
    if len(samples[0].probabilities) != 2:
        return None
    ranked = sorted(samples, key=lambda one: one.probabilities[1])
    positives = sum(one.answer for one in samples)
    if positives in (0, len(samples)):
        return None
    rank_sum, start = 0.0, 0
    while start < len(ranked):
        end = start
        while end < len(ranked) and ranked[end].probabilities[1] == ranked[start].probabilities[1]:
            end += 1
        rank_sum += (start + end + 1) / 2 * sum(one.answer for one in ranked[start:end])
        start = end
    return (rank_sum - positives * (positives + 1) / 2) / (positives * (len(samples) - positives))


def calibration_error(samples: Sequence[Labelled], bins: int = _BINS) -> float:
    """Return the mean gap between stated and observed frequencies (expected calibration error).

    With two possible answers, it is measured for the second answer, otherwise for the most likely answer.
    """
    return _error_in_bins([_stated(one) for one in samples], bins)


def calibration_error_if_perfect(samples: Sequence[Labelled], bins: int = _BINS) -> float:
    """Return the calibration error that perfect probabilities would have, by chance alone.

    With few examples this error is far from 0, because the observed frequencies vary by chance.
    """
    draw = random.Random(_SEED)
    stated = [probability for probability, _ in map(_stated, samples)]
    errors = [_error_in_bins([(p, draw.random() < p) for p in stated], bins) for _ in range(_DRAWS)]
    return sum(errors) / len(errors)


def _stated(sample: Labelled) -> tuple[float, bool]:
    """Return the stated probability of an answer, and whether the answer was right."""
    if len(sample.probabilities) == 2:
        return sample.probabilities[1], sample.answer == 1
    return sample.confidence, sample.is_right


def bins_of(samples: Sequence[Labelled], bins: int = _BINS) -> list[list[tuple[float, bool]]]:
    """Sort stated probabilities into bins with about equal numbers of examples."""
    return _bins([_stated(one) for one in samples], bins)


def reliability_bins(samples: Sequence[Labelled], confidence: float) -> list[ReliabilityBin]:
    """Compare stated and observed frequencies in bins with about equal numbers of examples.

    The intervals of the observed frequencies are those of Clopper and Pearson.
    """
    side = (1 + confidence) / 2
    bins = []
    for pairs in bins_of(samples, min(_MAX_BINS, max(1, len(samples) // _BIN_SIZE))):
        stated, cases, hits = [one for one, _ in pairs], len(pairs), sum(true for _, true in pairs)
        low, high = 1 - upper_bound(cases - hits, cases, side), upper_bound(hits, cases, side)
        bins.append(
            ReliabilityBin(stated[0], stated[-1], cases, sum(stated) / cases, hits / cases, low, high)
        )
    return bins


def _bins(stated: list[tuple[float, bool]], bins: int) -> list[list[tuple[float, bool]]]:
    """Sort pairs by probability into bins; equal probabilities go into the same bin.

    As a result, the bins do not depend on the order of the examples. Bins can differ in size, and there can
    be fewer than requested.
    """
    filled: dict[int, list[tuple[float, bool]]] = {}
    start = 0
    for _, group in itertools.groupby(sorted(stated), key=itemgetter(0)):
        pairs = list(group)
        # The bin of the middle of the group.
        number = (2 * start + len(pairs)) * bins // (2 * len(stated))
        filled.setdefault(number, []).extend(pairs)
        start += len(pairs)
    return list(filled.values())


def _error_in_bins(stated: list[tuple[float, bool]], bins: int) -> float:
    return sum(
        abs(sum(probability for probability, _ in one) - sum(true for _, true in one))
        for one in _bins(stated, bins)
    ) / len(stated)


def measures(samples: Sequence[Labelled]) -> dict[str, float | None]:
    """Return a dict of all quality measures of the probabilities, such as ``brier`` and ``auroc``."""
    return {
        "brier": brier(samples),
        "log_loss": log_loss(samples),
        "auroc": auroc(samples),
        "ece": calibration_error(samples),
        "ece_if_perfect": calibration_error_if_perfect(samples),
    }


# --- Fitting ---


def fit_platt(samples: Sequence[Labelled]) -> Calibrator:
    """Fit a calibration for two possible answers by Platt scaling: a slope and an offset for the logit."""
    positives = sum(one.answer for one in samples)
    negatives = len(samples) - positives
    # Smoothed labels, so that few examples do not lead to extreme parameters.
    targets = ((1 / (negatives + 2)), (positives + 1) / (positives + 2))
    points = [(logit(one.probabilities[1]), targets[one.answer]) for one in samples]
    slope, offset = 1.0, 0.0

    def loss(slope: float, offset: float) -> float:
        shares = [(sigmoid(slope * x + offset), target) for x, target in points]
        return -sum(t * math.log(max(p, 1e-12)) + (1 - t) * math.log(max(1 - p, 1e-12)) for p, t in shares)

    current = loss(slope, offset)
    for _ in range(_MAX_STEPS):
        g1 = g2 = 0.0
        h11 = h22 = 1e-9
        h12 = 0.0
        for x, target in points:
            p = sigmoid(slope * x + offset)
            weight = p * (1 - p)
            g1, g2 = g1 + (p - target) * x, g2 + p - target
            h11, h12, h22 = h11 + weight * x * x, h12 + weight * x, h22 + weight
        determinant = h11 * h22 - h12 * h12
        if (abs(g1) < 1e-6 and abs(g2) < 1e-6) or determinant <= 0:
            break
        step1, step2 = (h22 * g1 - h12 * g2) / determinant, (h11 * g2 - h12 * g1) / determinant
        size = 1.0
        while size > 1e-4:
            new = loss(slope - size * step1, offset - size * step2)
            if new < current:
                slope, offset, current = slope - size * step1, offset - size * step2, new
                break
            size /= 2
        else:
            break
    return Calibrator("platt", (max(slope, 0.0), offset))  # a higher probability never means less


def fit_temperature(samples: Sequence[Labelled]) -> Calibrator:
    """Fit a calibration by temperature scaling: one temperature, and an offset for each answer."""
    count = len(samples[0].probabilities)
    logs = [[math.log(max(share, 1e-6)) for share in one.probabilities] for one in samples]
    factor, offsets = 1.0, [0.0] * count
    penalty = 1.0 / len(samples)
    rate = 0.5
    for _ in range(300):
        gradient, changes = 0.0, [penalty * offset for offset in offsets]
        for values, sample in zip(logs, samples, strict=True):
            shares = Calibrator("temperature", (factor, *offsets)).apply(sample.probabilities)
            for position, share in enumerate(shares):
                difference = (share - (position == sample.answer)) / len(samples)
                gradient += difference * max(values[position], -10.0)
                changes[position] += difference
        factor = max(0.01, factor - rate * 0.2 * gradient)
        offsets = [offset - rate * change for offset, change in zip(offsets, changes, strict=True)]
    return Calibrator("temperature", (factor, *offsets))


def fit_isotonic(samples: Sequence[Labelled]) -> Calibrator:
    """Fit a step function that never decreases, to correct the probability of the second of two answers."""
    labels: dict[float, list[int]] = {}
    for sample in samples:
        labels.setdefault(sample.probabilities[1], []).append(sample.answer)
    blocks: list[list[float]] = []  # lowest probability, sum of labels, number of labels
    # Examples with equal probabilities are one block from the start, because they get the same correction.
    for probability in sorted(labels):
        answers = labels[probability]
        blocks.append([probability, float(sum(answers)), float(len(answers))])
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] >= blocks[-1][1] / blocks[-1][2]:
            _, total, number = blocks.pop()
            blocks[-1][1] += total
            blocks[-1][2] += number
    starts = [block[0] for block in blocks]
    margin = 0.5 / len(samples)  # no step is certain
    values = [min(max(block[1] / block[2], margin), 1 - margin) for block in blocks]
    return Calibrator("isotonic", (*starts, *values))


def _candidates(samples: Sequence[Labelled]) -> list[Callable[[Sequence[Labelled]], Calibrator]]:
    if len(samples[0].probabilities) != 2:
        return [fit_temperature]
    return [fit_platt, fit_isotonic] if len(samples) >= _ISOTONIC_FROM else [fit_platt]


def fit(samples: Sequence[Labelled]) -> tuple[Calibrator, list[Labelled]]:
    """Fit the calibration with the lowest log loss, and return it with the corrected examples.

    Each example is corrected by a fit that excludes it (five folds). A calibration is kept only if these
    probabilities have a lower log loss than the original probabilities.
    """
    best, best_samples = Calibrator(), list(samples)
    if len({one.answer for one in samples}) < 2 or len(samples) < 2 * _FOLDS:
        return best, best_samples
    for make in _candidates(samples):
        crossed = _cross_fitted(samples, make)
        if log_loss(crossed) < log_loss(best_samples):
            best, best_samples = make(samples), crossed
    return best, best_samples


def _cross_fitted(
    samples: Sequence[Labelled], make: Callable[[Sequence[Labelled]], Calibrator]
) -> list[Labelled]:
    order = list(range(len(samples)))
    random.Random(_SEED).shuffle(order)
    corrected: dict[int, Labelled] = {}
    for fold in range(_FOLDS):
        held_out = set(order[fold::_FOLDS])
        calibrator = make([one for position, one in enumerate(samples) if position not in held_out])
        for position in held_out:
            sample = samples[position]
            corrected[position] = sample._replace(probabilities=calibrator.apply(sample.probabilities))
    return [corrected[position] for position in range(len(samples))]


# --- Thresholds ---


def upper_bound(errors: int, accepted: int, confidence: float) -> float:
    """Return the upper bound of the error rate, given ``errors`` wrong answers among ``accepted`` answers.

    It is the one-sided bound of Clopper and Pearson: the true rate is above it with a probability of at most
    ``1 - confidence``.
    """
    if errors >= accepted:
        return 1.0
    low, high = errors / accepted, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(errors, accepted, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def binomial_tail(errors: int, accepted: int, rate: float) -> float:
    """Return the probability that a given error rate leads to at most ``errors`` wrong answers."""
    if rate <= 0:
        return 1.0
    if rate >= 1:
        return 0.0
    constant = math.lgamma(accepted + 1)
    total = 0.0
    for wrong in range(errors + 1):
        total += math.exp(
            constant
            - math.lgamma(wrong + 1)
            - math.lgamma(accepted - wrong + 1)
            + wrong * math.log(rate)
            + (accepted - wrong) * math.log1p(-rate)
        )
    return min(1.0, total)


def threshold_at(samples: Sequence[Labelled], value: float, confidence: float) -> Threshold:
    """Measure the share of answers that a probability threshold accepts, and how many of them are wrong."""
    accepted = [one for one in samples if one.confidence >= value]
    errors = sum(not one.is_right for one in accepted)
    if not accepted:
        return Threshold(value, 0.0, 0.0, 1.0)
    bound = upper_bound(errors, len(accepted), confidence)
    return Threshold(value, len(accepted) / len(samples), errors / len(accepted), bound)


def threshold_table(samples: Sequence[Labelled], confidence: float) -> list[Threshold]:
    """For several confidence thresholds, measure the share of accepted answers and their error rate."""
    return [threshold_at(samples, value, confidence) for value in _TABLE]


def find_threshold(samples: Sequence[Labelled], error: float, confidence: float) -> Threshold | None:
    """Return the lowest threshold that keeps the error rate below a limit with a confidence, or None.

    The thresholds of a fixed grid are tested, strictest first, up to the first that fails (fixed sequence
    testing). So the promise holds for the threshold that is returned, although it was chosen with the same
    examples. A threshold with too few accepted answers to show the limit even without an error is skipped,
    which does not depend on the labels.
    """
    needed = labels_needed(error, confidence)
    best: Threshold | None = None
    for value in GRID:
        if sum(one.confidence >= value for one in samples) < needed:
            continue
        measured = threshold_at(samples, value, confidence)
        if measured.upper > error:
            break
        best = measured
    return best


def labels_needed(error: float, confidence: float) -> int:
    """Return how many answers, all correct, are needed to show that the error rate is below a limit."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - error))


BIN_COLUMNS = ("stated", "cases", "mean", "observed", "low", "high")
THRESHOLD_COLUMNS = ("threshold", "coverage", "error", "upper bound")


class Reliability(NamedTuple):
    """The agreement of the probabilities of decisions with the expected answers.

    Attributes:
        options: The possible answers. With two, the probability of the second one is compared, otherwise the
            probability of the most likely one.
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
        """The share and error rate of accepted answers for each of several thresholds."""
        return threshold_table(self.samples, self.confidence)

    @property
    def title(self) -> str:
        """A description of the compared probability, such as "stated probability of True"."""
        return stated_text(self.options)

    @property
    def calibration_error(self) -> str:
        """Text that states the calibration error, and the error that perfect probabilities would have."""
        error, chance = calibration_error(self.samples), calibration_error_if_perfect(self.samples)
        return f"calibration error {error:.3f}; perfect probabilities would have {chance:.3f} by chance"

    @property
    def bins_note(self) -> str:
        """A note that explains the reliability table."""
        return (
            f"{self.title}, and how often it was right in {len(self.samples)} cases; "
            f"low and high: {self.confidence:.0%} confidence, Clopper and Pearson's interval"
        )

    @property
    def thresholds_note(self) -> str:
        """A note that explains the table of thresholds."""
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
        """Return an SVG plot of stated and observed frequencies with their confidence intervals."""
        title = f"Reliability of {len(self.samples)} decisions"
        return reliability_svg({"": self.samples}, title, self.title, self.confidence)


def reliability_of(pairs: Iterable[tuple[object, object]], confidence: float) -> Reliability | None:
    """Compare decisions with the expected answers; return None if no decisions have probabilities.

    ``pairs`` are values and expected values. Each member of a list counts as a separate decision. Values
    other than decisions are left out, and so are decisions whose expected value is not one of the first
    decision's possible answers.
    """
    options: list[object] = []
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
    """Return the axis label for a plot, such as "stated probability of True"."""
    if len(options) != 2:
        return "stated probability of the most likely answer"
    return f"stated probability of {getattr(options[1], 'value', options[1])}"


# --- The plot ---

_SIZE, _MARGIN = 300, 40
_COLOURS = ("#999999", "#2a78d6")


def reliability_svg(
    series: Mapping[str, Sequence[Labelled]],
    title: str,
    stated: str = "stated probability",
    confidence: float = 0.95,
) -> str:
    """Return an SVG plot of stated and observed frequencies with their confidence intervals.

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
