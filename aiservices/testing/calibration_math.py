"""Fit calibrations to labelled probabilities, measure them, and find thresholds with a bound on the error.

This is written with the standard library: the only function that SciPy would add is the bound of Clopper and
Pearson, and scikit-learn has no fit with an offset for each answer.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from ..engine.calibration import Calibrator, logit, sigmoid

_FOLDS = 5
_SEED = 20261122
_ISOTONIC_FROM = 1000  # with fewer labels its steps are mostly noise
_MAX_STEPS = 100
_BINS = 15
_BIN_SIZE, _MAX_BINS = 20, 10  # of reliability tables: with fewer examples in a bin its interval says nothing
_DRAWS = 200  # of labels, for the calibration error of perfect probabilities
# The thresholds that are tried, from the strictest on. They are fixed, so that the bound holds for the one
# that is chosen.
GRID = tuple(position / 100 for position in range(99, 49, -1))
_TABLE = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # the thresholds that tables show


class Labelled(NamedTuple):
    """The probabilities that a model gave for the possible answers, and the index of the right answer.

    Attributes:
        probabilities: The probability of each possible answer.
        answer: The position of the right answer.
    """

    probabilities: tuple[float, ...]
    answer: int

    @property
    def confidence(self) -> float:
        """The highest of the probabilities that the model gave for the possible answers."""
        return max(self.probabilities)

    @property
    def is_right(self) -> bool:
        """True if the most likely answer is the right one."""
        return self.probabilities.index(self.confidence) == self.answer


class Threshold(NamedTuple):
    """A minimum probability for accepting an answer, with the measured coverage and error rate.

    Attributes:
        value: Answers with at least this probability are accepted.
        coverage: The share of the examples with such an answer.
        error: The share of wrong answers among them.
        upper: The upper bound of the error at the confidence that was asked for.
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
    """Return the mean squared distance between the probabilities and the right answer, from 0 to 1."""
    total = 0.0
    for sample in samples:
        squares = [
            (share - (position == sample.answer)) ** 2 for position, share in enumerate(sample.probabilities)
        ]
        total += sum(squares) / 2
    return total / len(samples)


def log_loss(samples: Sequence[Labelled]) -> float:
    """Return the mean negative logarithm of the probability of the right answer."""
    return -sum(math.log(max(one.probabilities[one.answer], 1e-6)) for one in samples) / len(samples)


def auroc(samples: Sequence[Labelled]) -> float | None:
    """Return the area under the ROC curve (AUROC) for two possible answers, or None if undefined.

    None for more than two answers, or if all examples have the same answer.
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
    """Return the expected calibration error: the mean gap between stated and observed frequencies, in bins.

    For two answers it is that of the second answer, otherwise that of the most likely one.
    """
    return _error_in_bins([_stated(one) for one in samples], bins)


def calibration_error_if_perfect(samples: Sequence[Labelled], bins: int = _BINS) -> float:
    """Return the calibration error that chance alone would cause if all probabilities were perfect.

    With few examples it is far from 0, because the observed frequencies vary by chance.
    """
    draw = random.Random(_SEED)
    stated = [probability for probability, _ in map(_stated, samples)]
    errors = [_error_in_bins([(p, draw.random() < p) for p in stated], bins) for _ in range(_DRAWS)]
    return sum(errors) / len(errors)


def _stated(sample: Labelled) -> tuple[float, bool]:
    """Return the probability predicted for an example's answer, and whether the prediction was right."""
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
    """Sort pairs by their probability into bins; equal probabilities are in the same bin.

    So the bins do not depend on the order of the examples. Bins can differ in size, and there can be fewer.
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
    """Return all quality measures of labelled probabilities, as a dict with the names as keys."""
    return {
        "brier": brier(samples),
        "log_loss": log_loss(samples),
        "auroc": auroc(samples),
        "ece": calibration_error(samples),
        "ece_if_perfect": calibration_error_if_perfect(samples),
    }


# --- fitting ---


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
    """Fit an inverse temperature and an offset for each answer, by gradient descent with a small penalty."""
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
    """Fit a non-decreasing step function that corrects the probabilities of the second of two answers."""
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

    Each example is corrected by a fit without it (five folds). A calibration is only kept if the log loss of
    these probabilities is lower than that of the original ones.
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


# --- thresholds ---


def upper_bound(errors: int, accepted: int, confidence: float) -> float:
    """Return the upper bound of an error rate after ``errors`` wrong of ``accepted`` answers.

    It is the one-sided bound of Clopper and Pearson: the true rate is above it with a probability of at most
    ``1 - confidence``.
    """
    if errors >= accepted:
        return 1.0
    low, high = errors / accepted, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _binomial_tail(errors, accepted, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _binomial_tail(errors: int, accepted: int, rate: float) -> float:
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
    """Measure which share of answers a probability threshold accepts, and how many of those are wrong."""
    accepted = [one for one in samples if one.confidence >= value]
    errors = sum(not one.is_right for one in accepted)
    if not accepted:
        return Threshold(value, 0.0, 0.0, 1.0)
    bound = upper_bound(errors, len(accepted), confidence)
    return Threshold(value, len(accepted) / len(samples), errors / len(accepted), bound)


def threshold_table(samples: Sequence[Labelled], confidence: float) -> list[Threshold]:
    """Measure each of several thresholds from 0.5 to 0.99."""
    return [threshold_at(samples, value, confidence) for value in _TABLE]


def find_threshold(samples: Sequence[Labelled], error: float, confidence: float) -> Threshold | None:
    """Return the lowest threshold whose error is below a limit with a confidence, or None.

    The thresholds of a fixed grid are tested from the strictest on, up to the first that fails (fixed
    sequence testing). So the promise holds for the threshold that is returned, although it was chosen with
    the same examples. A threshold with too few accepted answers to show the limit even without an error is
    skipped, which does not depend on the labels.
    """
    needed = labels_needed(error, confidence)
    found: Threshold | None = None
    for value in GRID:
        if sum(one.confidence >= value for one in samples) < needed:
            continue
        measured = threshold_at(samples, value, confidence)
        if measured.upper > error:
            break
        found = measured
    return found


def labels_needed(error: float, confidence: float) -> int:
    """Return how many answers, all of them right, show that the error rate is below a limit."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - error))
