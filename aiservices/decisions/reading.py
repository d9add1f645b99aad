"""Read replies together with the probabilities of the answers in them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem
from output_parsers.result.reading import Coercion, Reading
from output_parsers.types.decisions import Decision, collect_decisions
from output_parsers.types.records import EnvelopeNode

from ..engine.output_format import OutputFormat
from ..models.messages import ChatReply
from .answers import Leaf
from .calibration import Adjustment, CalibrationEntry, promised_threshold
from .probabilities import Probabilities, find_probabilities

_INDEX = re.compile(r"\[\d+\]")


class ProbableReading(NamedTuple):
    """A value read from a model's reply, with the probabilities of the answers in it.

    Attributes:
        reading: The value and the coercions.
        probabilities: The probabilities of the possible answers, by JSON path.
        certainty: The lowest probability of an answer in the value, with its JSON path; None if no
            probability is known.
        notes: Why there are no probabilities.
        source: Where the probabilities come from; "" without probabilities.
        decisions: The decisions in the value that have probabilities.
        doubt: An answer whose probability is below its threshold: the probability, the JSON path and the
            threshold. None if all are certain enough.
    """

    reading: Reading[object]
    probabilities: dict[str, dict[object, float]]
    certainty: tuple[float, str] | None
    notes: tuple[str, ...] = ()
    source: str = ""
    decisions: tuple[Decision[object], ...] = ()
    doubt: tuple[float, str, float] | None = None


def read_with_probabilities(
    output_format: OutputFormat,
    reply: ChatReply,
    *,
    required: bool,
    adjustments: Mapping[str, Adjustment],
) -> ProbableReading:
    """Parse a reply to a value whose Decision objects contain the probabilities of the answers.

    ``adjustments`` are the calibrations and thresholds by JSON path, with ``[]`` for each index. Raises
    OutputParsingError if the probabilities of a decision cannot be read and are ``required``.
    """
    parser = output_format.parser
    probabilities = {} if parser is None else find_probabilities(parser.node, reply)
    if parser is None or not probabilities:
        with collect_decisions() as decisions:
            reading = output_format.read(reply)
        if decisions and required:
            raise _missing(reply.text, [decision.path for decision in decisions])
        has_none = not reply.logprobs and not reply.probabilities
        notes = ("no probabilities: the reply has none" if has_none else "no probabilities for this text",)
        return ProbableReading(reading, {}, None, notes)
    return complete_reading(
        parser,
        reply.text,
        probabilities,
        lambda: output_format.read(reply),
        adjustments,
        required=required,
        model=reply.model,
    )


def complete_reading(
    parser: TypeParser[object],
    text: str,
    probabilities: Mapping[str, Probabilities],
    read: Callable[[], Reading[object]],
    adjustments: Mapping[str, Adjustment],
    *,
    required: bool,
    model: str,
) -> ProbableReading:
    """Apply calibrations and thresholds to an answer's probabilities, then parse the answer.

    ``read`` parses the text as it is. Where a calibration or a threshold changes an answer, the changed text
    is parsed instead. ``model`` is the name of the model that answered.
    """
    root = parser.node
    prefix = f"$.{root.field}" if isinstance(root, EnvelopeNode) else "$"

    def adjustment(path: str) -> Adjustment:
        return adjustments.get(_INDEX.sub("[]", _public(path, prefix))) or Adjustment()

    answers = {
        path: _adjusted(one, _public(path, prefix), adjustment(path), model)
        for path, one in probabilities.items()
    }
    changed = [answer for answer in answers.values() if answer.is_changed]
    with collect_decisions() as decisions:
        reading = parser.read(_rewritten(text, changed)) if changed else read()
    groups = _by_decision(answers)
    # By path: a union may have read the same decision more than once.
    complete = {one.path: one for one in decisions if one.path in groups}
    missing = [one.path for one in decisions if one.path not in groups]
    if missing and required:
        raise _missing(text, missing)
    # not the threshold of a bool, from which it is True
    accepted_from = {answer.path: answer.promised for answer in answers.values()}
    for decision in filter(lambda one: one.path in groups, decisions):
        threshold = _complete(decision, groups[decision.path], adjustment(decision.path).threshold)
        accepted_from |= dict.fromkeys((answer.path for answer in groups[decision.path]), threshold)
    return _with_probabilities(reading, list(answers.values()), tuple(complete.values()), accepted_from)


def _with_probabilities(
    reading: Reading[object],
    answers: Sequence[_Answer],
    decisions: tuple[Decision[object], ...],
    accepted_from: Mapping[str, float | None],
) -> ProbableReading:
    """Return a value with the probabilities of its answers.

    ``accepted_from`` are the thresholds by the paths of the answers.
    """
    coercions = [_coercion(answer) for answer in answers if answer.is_changed]
    certainties = [(answer.probabilities.of_answer, answer.path) for answer in answers]
    limits = [(share, path, accepted_from[path]) for share, path in certainties]
    return ProbableReading(
        replace(reading, coercions=(*coercions, *reading.coercions)) if coercions else reading,
        {answer.path: answer.probabilities.by_value() for answer in answers},
        min(certainties, default=None),
        source=answers[0].probabilities.source,
        decisions=decisions,
        doubt=min(
            ((share, path, limit) for share, path, limit in limits if limit is not None and share < limit),
            default=None,
        ),
    )


class _Answer(NamedTuple):
    """An answer in a reply, after its calibration and threshold were applied.

    Attributes:
        path: Its JSON path in the value.
        written: The answer that the reply gives.
        entry: Its calibration, if it has one.
        probabilities: Its probabilities after the calibration, with the answer that they give.
    """

    path: str
    written: Leaf
    entry: CalibrationEntry | None
    probabilities: Probabilities

    @property
    def is_changed(self) -> bool:
        """True if the calibration or the threshold gives another answer."""
        return self.written != self.probabilities.leaf

    @property
    def promised(self) -> float | None:
        """The probability from which its calibration accepts it."""
        return None if self.entry is None else promised_threshold((self.entry,))


def _by_decision(answers: Mapping[str, _Answer]) -> dict[str, list[_Answer]]:
    """Return the answers by the path of their decision; the members of a list have the list's path."""
    groups: dict[str, list[_Answer]] = {}
    for path, answer in answers.items():
        groups.setdefault(answer.written.list_path or path, []).append(answer)
    return groups


def _complete(
    decision: Decision[object], answers: Sequence[_Answer], threshold: float | None
) -> float | None:
    """Give a decision the probabilities of its answers, and return its threshold."""
    promised = [answer.promised for answer in answers]
    if threshold is None and None not in promised:
        # For a list: the promises of all members hold at the highest of their thresholds.
        threshold = max(limit for limit in promised if limit is not None)
    first = answers[0].probabilities
    is_list = first.leaf.list_path is not None
    decision.complete(
        {answer.written.member: answer.probabilities.shares[1] for answer in answers}
        if is_list
        else first.by_value(),
        first.source,
        min(answer.probabilities.seen for answer in answers),
        calibrated=all(answer.entry is not None for answer in answers),
        threshold=threshold,
    )
    return threshold


def _coercion(answer: _Answer) -> Coercion:
    old, new = answer.written, answer.probabilities.leaf
    return Coercion(
        answer.path,
        "answer by its calibrated probability or threshold",
        json.dumps(old.options[old.answer][0], ensure_ascii=False),
        json.dumps(new.options[new.answer][0], ensure_ascii=False),
    )


def _public(path: str, prefix: str) -> str:
    """Return the JSON path of a value in the answer, without the path of the wrapper object that was sent."""
    return f"${path.removeprefix(prefix).removeprefix('$')}"


def _adjusted(one: Probabilities, path: str, adjustment: Adjustment, model: str) -> _Answer:
    """Apply a calibration and a threshold to an answer's probabilities, and change the answer to match."""
    entry = adjustment.calibration_for(path, one.source, model)
    leaf, shares, threshold = one.leaf, one.shares, adjustment.threshold
    if entry is not None and entry.calibrator.kind != "none":
        shares = entry.calibrator.apply(shares)
        leaf = replace(leaf, answer=shares.index(max(shares)))
    if threshold is not None and not leaf.is_decision:
        values = [value for _, value in leaf.options]
        leaf = replace(leaf, answer=values.index(shares[values.index(True)] >= threshold))
    return _Answer(path, one.leaf, entry, one._replace(leaf=leaf, shares=shares))


def _rewritten(text: str, changed: Sequence[_Answer]) -> str:
    """Return the text of a model's reply with some answers replaced by other answers."""
    for answer in sorted(changed, key=lambda one: -one.written.start):
        old, new = answer.written, answer.probabilities.leaf
        data = new.options[new.answer][0]
        written = str(data) if old.is_bare else json.dumps(data, ensure_ascii=False)
        text = f"{text[: old.start]}{written}{text[old.end :]}"
    return text


def _missing(text: str, paths: Sequence[str]) -> OutputParsingError:
    message = "its probabilities cannot be read from this reply"
    return OutputParsingError(text, [Problem(path, message) for path in paths])
