"""Select the rows of a table for which a method answers true, with a bound on how many of them are wrong.

The probabilities of the answers order the rows. Labels of a random sample then show how far down the order
the rows can be taken. The bound holds even if the model's probabilities are wrong; good probabilities only
select more rows.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias, Unpack, cast

from output_parsers.types.decisions import Decision

from ..decisions.adjustments import answers_of
from ..decisions.reliability import binomial_tail, labels_needed
from ..engine.results import Result
from ..models.arguments import checks_arguments
from ..models.errors import DefinitionError, DefinitionProblem, counted
from ..service.methods import ServiceMethod, service_method_of
from ..service.settings import check_keywords, shows_settings
from .mapping import Rows, RowSettings, job_for, refuse_iterator
from .outputs import select_rows
from .review import read_reviewed, write_for_labels
from .row import Row, RowsError, Summary, content_id
from .runner import Job

Judge: TypeAlias = Callable[..., "bool | Decision[bool] | Result[bool] | Awaitable[bool]"]
Labels: TypeAlias = "str | PathLike[str] | Judge"
# Settings of the files and columns of an output, which a filter does not have.
_OTHER_SETTINGS = frozenset(
    "to prefix error_column usage explode ordered review unsure_below reviewed".split()
)
_STEPS = 20  # the number of parts of the table that are tried
_FIRST = 0.2  # the share of the permitted risk for the set of all candidates
_SIZES = 50  # the number of candidate counts that are compared
_MARGIN = 1.2  # the best number of candidates is only an estimate, and is multiplied by this
_CANDIDATE = 0.5  # rows with a lower probability of True are never selected


class Bound(NamedTuple):
    """A threshold above which enough answers are right.

    Attributes:
        threshold: Rows with at least this probability of True are selected.
        labelled: The number of them that have a label.
        wrong: The number of these labels that are False.
    """

    threshold: float
    labelled: int
    wrong: int


def find_bound(
    probabilities: Sequence[float], labels: Mapping[int, bool], precision: float, confidence: float
) -> Bound | None:
    """Return the lowest threshold above which the share of True is at least ``precision``, or None.

    The sets of rows above 20 thresholds are tested, each with the exact bound of Clopper and Pearson. They
    are tested in an order that depends only on the probabilities and on which rows have a label, the most
    promising ones first, up to the first that fails (fixed-sequence testing). Before that, a fifth of the
    permitted risk is spent on the set of all candidates, for a model that is less sure than it could be. So
    the confidence holds for the set that is returned, although it is chosen with the same labels.

    Args:
        probabilities: The probability of True of each candidate, from high to low.
        labels: Whether True is right, for a random sample of the candidates, by their places.
        precision: The share.
        confidence: The probability of a right result, over the choice of the sample.
    """
    count, places = len(probabilities), sorted(labels)
    sums = [0.0, *accumulate(probabilities)]
    wrong_before = [0, *accumulate(not labels[place] for place in places)]
    ends = sorted({_end(probabilities, math.ceil(count * step / _STEPS)) for step in range(1, _STEPS + 1)})
    labelled = {end: bisect_left(places, end) for end in ends}
    if wrong_before[-1] <= _allowed(len(labels), precision, 1 - _FIRST * (1 - confidence)):
        return Bound(probabilities[-1], len(labels), wrong_before[-1])
    confidence = _rest(confidence)
    power = {end: _power(labelled[end], 1 - sums[end] / end, precision, confidence) for end in ends}
    bound: Bound | None = None
    largest = 0
    for end in sorted(ends, key=lambda end: (-power[end], -end)):
        if end <= largest:
            continue  # a stricter threshold than one that is good enough already
        wrong = wrong_before[labelled[end]]
        if wrong > _allowed(labelled[end], precision, confidence):
            break
        bound, largest = Bound(probabilities[end - 1], labelled[end], wrong), end
    return bound


def _rest(confidence: float) -> float:
    """Return the confidence that remains after the test of all candidates."""
    return 1 - (1 - _FIRST) * (1 - confidence)


def count_candidates(
    probabilities: Sequence[float], labelled: int, precision: float, confidence: float
) -> int:
    """Return how many of the rows with the highest probabilities should be candidates for labels.

    Labels of rows that are probably too bad are of no use, and too few rows leave out good ones.
    """
    count = len(probabilities)
    if count <= labelled:
        return count
    sums, best, most = [0.0, *accumulate(probabilities)], count, 0.0
    for step in range(1, _SIZES + 1):
        end = _end(probabilities, max(labelled, math.ceil(count * step / _SIZES)))
        expected = _power(labelled, 1 - sums[end] / end, precision, confidence) * end
        if expected > most:
            best, most = end, expected
    return _end(probabilities, min(count, math.ceil(_MARGIN * best)))


def _end(probabilities: Sequence[float], count: int) -> int:
    """Return the number of rows with at least the probability of the last of ``count`` rows."""
    return bisect_right(probabilities, -probabilities[count - 1], key=lambda one: -one)


def _power(labelled: int, error: float, precision: float, confidence: float) -> float:
    """Return the probability that a number of labels shows the precision if a number of rows is wrong."""
    # a model that is too sure of itself must not make small sets with few labels the most promising ones
    error = max(error, (1 - precision) / 4)
    return binomial_tail(_allowed(labelled, precision, confidence), labelled, error)


@lru_cache(10_000)
def _allowed(labelled: int, precision: float, confidence: float) -> int:
    """Return how many labels may be False; -1 if there are too few labels even if all are True.

    It is the largest number for which the upper bound of Clopper and Pearson is not above ``1 - precision``.
    """
    tail = partial(binomial_tail, accepted=labelled, rate=1 - precision)
    return bisect_right(range(labelled), 1 - confidence, key=tail) - 1


class FilteredRows:
    """The rows that ``filter_rows`` has selected, in the order of the table.

    Attributes:
        threshold: Rows with at least this probability of True are selected; None if all candidates have a
            label.
        precision: At least this share of the selected rows is right, with the confidence.
        confidence: The probability of this, over the choice of the rows that were labelled.
        labelled: The number of labels among the rows above the threshold.
        wrong: The number of these that were False. These rows are not selected.
        summary: What the run over the table did.
    """

    def __init__(
        self, job: Job, numbers: array[int], bound: Bound | None, precision: float, confidence: float
    ) -> None:
        self._job = job
        self._numbers = numbers
        self.threshold = None if bound is None else bound.threshold
        self.labelled, self.wrong = (len(numbers), 0) if bound is None else (bound.labelled, bound.wrong)
        self.precision = precision
        self.confidence = confidence

    @property
    def summary(self) -> Summary:
        return self._job.summary

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Row[Any]]:
        numbers = iter(self._numbers)
        number = next(numbers, None)
        for row in self._job.finished_rows():
            if row.number == number:
                yield row
                number = next(numbers, None)

    def dataframe(self) -> Any:
        """Return the selected rows of the table, with the same columns, as ``Rows.dataframe`` does."""
        return select_rows(self._job.table, self._job.fields, self, self._numbers)

    def __repr__(self) -> str:
        return f"<FilteredRows: {self}>"

    def __str__(self) -> str:
        selected = f"{len(self):,} of {counted(self.summary.rows, 'row')} selected"
        if self.threshold is None:
            return f"{selected}, all of them labelled"
        return (
            f"{selected}, with a probability of at least {self.threshold:.4g}; right: at least "
            f"{self.precision:.1%} with a confidence of {self.confidence:.1%} ({self.wrong} of "
            f"{counted(self.labelled, 'label')} wrong)"
        )


@checks_arguments
@shows_settings(RowSettings)
def filter_rows(
    table: object,
    /,
    *,
    by: Callable[..., object],
    labels: Labels,
    precision: float = 0.95,
    confidence: float = 0.95,
    labelled: int = 300,
    seed: int = 0,
    **settings: Unpack[RowSettings],
) -> FilteredRows:
    """Select the rows for which a method answers True, so that most of them are right.

    The method is called for each row. Some rows with high probabilities of True are chosen at random
    and labelled. Then the rows above the lowest threshold are returned at which the labels show the
    precision::

        spam = filter_rows("mails.csv", by=desk.is_spam, precision=0.95, labels="labels.csv")
        print(spam)
        frame = spam.dataframe()

    If ``labels`` is a file, the first call writes it and ends with a RowsError. A person writes true or false
    into the column ``reviewed answer``, and the same call then continues.

    Args:
        table: The table, as for ``map_rows``, but not an iterator.
        by: A method that returns ``Decision[bool]``.
        labels: A CSV file for the labels of a person; a function that gets the columns of a row as a dict and
            returns a bool; or a method of a service, for example with a larger model.
        precision: The share of the selected rows that must be right.
        confidence: The probability of this, over the choice of the labelled rows.
        labelled: The number of labelled rows.
        seed: The seed of the random choice.
        **settings: As for ``map_rows``, without those of its outputs. By default, the journal belongs to the
            file for labels.

    Raises:
        DefinitionError: The method does not return a Decision of a bool, or a setting is wrong.
        RowsError: Labels are missing, or they do not show the precision at any threshold.
    """
    check_keywords("filter_rows", settings, RowSettings.__annotations__)
    problems = list(_problems(by, labels, precision, confidence, labelled, settings))
    if problems:
        raise DefinitionError([DefinitionProblem("filter_rows", problem) for problem in problems])
    if isinstance(labels, (str, PathLike)) and settings.get("journal") is None:
        settings["journal"] = Path(labels).with_name(f"{Path(labels).name}.journal")
    job = job_for(by, table, settings)
    refuse_iterator(job, "filter_rows")
    rows: Rows[object] = Rows(job)
    rows.run()
    probabilities = array("d", map(_probability, rows))
    candidates, ordered = _candidates(probabilities, labelled, precision, confidence)
    sample = Random(seed).sample(range(len(candidates)), min(labelled, len(candidates)))
    places = {candidates[place]: place for place in sample}
    chosen = [row for row in rows if row.number in places]
    chosen_labels = _labels_of(chosen, labels, job, settings)
    by_place = {places[row.number]: label for row, label in zip(chosen, chosen_labels, strict=True)}
    return _selected(job, candidates, ordered, by_place, precision, confidence)


def _selected(
    job: Job,
    candidates: Sequence[int],
    ordered: Sequence[float],
    by_place: Mapping[int, bool],
    precision: float,
    confidence: float,
) -> FilteredRows:
    """Return the rows above the lowest threshold at which the labels show the precision.

    ``by_place`` has the labels by their places in ``candidates``, and ``ordered`` begins with their
    probabilities.
    """
    if len(by_place) == len(candidates) == len(ordered):
        right = array("q", sorted(candidates[place] for place, label in by_place.items() if label))
        return FilteredRows(job, right, None, 1.0, 1.0)
    bound = find_bound(ordered[: len(candidates)], by_place, precision, confidence)
    if bound is None:
        wrong = list(by_place.values()).count(False)
        raise RowsError(
            f"the labels do not show a precision of {precision:.1%} at any threshold: {wrong} of "
            f"{counted(len(by_place), 'labelled row')} are false. Label more rows (labelled=), or ask for a "
            "lower precision="
        )
    above = ((place, number) for place, number in enumerate(candidates))
    accepted = [number for place, number in above if by_place.get(place, ordered[place] >= bound.threshold)]
    return FilteredRows(job, array("q", sorted(accepted)), bound, precision, confidence)


def _candidates(
    probabilities: Sequence[float], labelled: int, precision: float, confidence: float
) -> tuple[list[int], list[float]]:
    """Return the numbers of the rows that may be labelled, and the probabilities of all likely rows.

    Both begin with the highest probability.
    """
    likely = [number for number, one in enumerate(probabilities) if one >= _CANDIDATE]
    likely.sort(key=lambda number: -probabilities[number])
    ordered = [probabilities[number] for number in likely]
    return likely[: count_candidates(ordered, labelled, precision, confidence)], ordered


def _problems(
    by: Callable[..., object],
    labels: object,
    precision: float,
    confidence: float,
    labelled: int,
    settings: RowSettings,
) -> Iterator[str]:
    for name in sorted(_OTHER_SETTINGS & set(settings)):
        yield f"{name} is not a setting of filter_rows; write its dataframe() to a file"
    for name, share in (("precision", precision), ("confidence", confidence)):
        if not (isinstance(share, (int, float)) and 0 < share < 1):
            yield f"{name} is {share!r}; it must be between 0 and 1"
            return
    needed = labels_needed(1 - precision, _rest(confidence))
    if not isinstance(labelled, int) or isinstance(labelled, bool) or labelled < needed:
        yield (
            f"labelled is {labelled!r}; to show a precision of {precision:.1%} with a confidence of "
            f"{confidence:.1%}, at least {needed} labels are needed, all of them true"
        )
    if not isinstance(labels, (str, PathLike)) and not callable(labels):
        yield f"labels is {labels!r}; pass a CSV file, a function of a row, or a method"
    method = _service_method(by)
    if method is None:
        return  # map_rows says what is wrong
    answers = answers_of(method.plan.call).get("$")
    if answers is None or {value for _, value in answers.options} != {True, False}:
        name = method.plan.call.qualname
        yield f"{name} does not return a Decision[bool], so its answers have no probability"


def _service_method(function: object) -> ServiceMethod | None:
    try:
        return service_method_of(function)
    except TypeError:
        return None


def _probability(row: Row[object]) -> float:
    """Return the probability of True; -1 for a row without an answer."""
    if row.error is not None or row.is_unanswered:
        return -1.0
    shares = row.probabilities.get("$")
    if not shares:
        raise RowsError(f"row {row.number} has no probability; the model of the method states none")
    return float(shares.get(True, 0.0))


def _labels_of(chosen: Sequence[Row[object]], labels: Labels, job: Job, settings: RowSettings) -> list[bool]:
    if isinstance(labels, (str, PathLike)):
        return _labels_of_people(Path(labels), chosen, job)
    if _service_method(labels) is not None:
        return _labels_of_method(chosen, labels, settings)
    return [_label(labels(dict(row.inputs))) for row in chosen]


def _label(value: Any) -> bool:
    if not isinstance(value, bool) and hasattr(value, "item"):
        value = value.item()  # of numpy
    if not isinstance(value, bool):
        raise RowsError(f"the function for labels returned {value!r}; it must return True or False")
    return value


def _labels_of_method(chosen: Sequence[Row[object]], labels: Judge, settings: RowSettings) -> list[bool]:
    shared = ("columns", "budget", "limits", "cache")
    own = cast(RowSettings, {name: value for name, value in settings.items() if name in shared})
    judged: Rows[object] = Rows(job_for(labels, [row.inputs for row in chosen], own))
    judged.run()
    failed = next((row.error for row in judged if row.error is not None), None)
    if failed is not None:
        raise RowsError(f"a row has no label; without it, the others are not a random sample: {failed}")
    return [_is_true(row.value) for row in judged]


def _is_true(answer: object) -> bool:
    return bool(answer.value if isinstance(answer, Decision) else answer)


def _labels_of_people(path: Path, chosen: Sequence[Row[object]], job: Job) -> list[bool]:
    method = job.method
    ids = [content_id(method.arguments(row.inputs)) for row in chosen]
    again = f"write true or false into the column 'reviewed answer' of {path}, and make the same call again"
    if not path.exists():
        write_for_labels(path, method, job.table.columns, chosen)
        raise RowsError(f"{counted(len(set(ids)), 'row')} of {path} need a label: {again}")
    answers = read_reviewed(path, method)
    missing = {one for one in ids if one not in answers}
    if missing:
        raise RowsError(
            f"{len(missing)} of {counted(len(set(ids)), 'row')} have no label: {again}. If the table or the "
            "answers have changed since it was written, move the file away"
        )
    return [_is_true(answers[one]) for one in ids]
