"""Parse a model's reply, and determine and calibrate the probabilities of the answers in the reply."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem
from output_parsers.result.reading import Coercion, Reading
from output_parsers.types.decisions import Decision, collect_decisions
from output_parsers.types.records import EnvelopeNode

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import ChatReply
from .calibration import CalibrationEntry
from .output_format import OutputFormat
from .probabilities import Leaf, Probabilities, find_probabilities

_INDEX = re.compile(r"\[\d+\]")


class Adjustment(NamedTuple):
    """The calibrations and the threshold to apply to the probabilities of one answer of a method.

    Attributes:
        method: The method, for error messages.
        calibrations: The calibrations of the answer, one for each model and source; empty if there is none.
        on_mismatch: What happens if none of them is for the model of the reply: "error" or "raw".
        threshold: For a bool: the probability from which it is True. For a Decision: the probability from
            which ``at()`` returns the value; None for that of the calibration.
        members: For a ``Decision[list[…]]``: the calibrations of its members, if each has some.
    """

    method: str = ""
    calibrations: tuple[CalibrationEntry, ...] = ()
    on_mismatch: str = "error"
    threshold: float | None = None
    members: tuple[tuple[CalibrationEntry, ...], ...] = ()

    @property
    def accepted_from(self) -> float | None:
        """The probability from which the answer is accepted: the threshold, or that of a calibration."""
        if self.threshold is not None:
            return self.threshold
        promised = [_promised(entries) for entries in self.members or (self.calibrations,)]
        return None if None in promised else max(value for value in promised if value is not None)

    def calibration_for(self, path: str, source: str, model: str) -> CalibrationEntry | None:
        """Return the calibration that matches a reply's model and source of probabilities, or None.

        Raises DefinitionError if there are calibrations for others only.
        """
        for entry in self.calibrations:
            if entry.model == model and _kind(entry.source) == _kind(source):
                return entry
        if self.calibrations and self.on_mismatch == "error":
            known = ", ".join(f"{entry.model} ({entry.source})" for entry in self.calibrations)
            message = (
                f"{path} is calibrated for {known}, and the reply is from {model} ({source}); "
                'calibrate it for this model, or pass Calibration.read(FILE, on_mismatch="raw")'
            )
            raise DefinitionError([DefinitionProblem(self.method, message)])
        return None


def _promised(entries: Sequence[CalibrationEntry]) -> float | None:
    return next((entry.threshold["value"] for entry in entries if entry.threshold is not None), None)


def _kind(source: str) -> str:
    return source.partition("(")[0]  # "votes(4)" and "votes(5)" are one kind


class ProbableReading(NamedTuple):
    """A value read from a model's reply, with the probabilities of the answers in it.

    Attributes:
        reading: The value and the coercions.
        probabilities: The probabilities of the possible answers, by JSON path.
        certainty: The lowest probability of an answer in the value, with its JSON path; None if no
            probability is known.
        notes: Why there are no probabilities.
        source: Where the probabilities come from; "" if there are none.
        decisions: The decisions in the value that have probabilities.
        doubt: An answer whose probability is below its threshold: the probability, the JSON path and the
            threshold. None if there is none.
    """

    reading: Reading[object]
    probabilities: dict[str, dict[Any, float]]
    certainty: tuple[float, str] | None
    notes: tuple[str, ...] = ()
    source: str = ""
    decisions: tuple[Decision[Any], ...] = ()
    doubt: tuple[float, str, float] | None = None


def read_with_probabilities(
    output_format: OutputFormat,
    reply: ChatReply,
    *,
    required: bool,
    adjustments: Mapping[str, Adjustment],
) -> ProbableReading:
    """Parse a reply to a value, and store the probabilities of the answers in its Decision objects.

    ``adjustments`` are the calibrations and thresholds by JSON path, with ``[]`` for each index. Raises
    OutputParsingError if the probabilities of a decision cannot be read and are ``required``.
    """
    parser = output_format.parser
    found = {} if parser is None else find_probabilities(parser.node, reply)
    if parser is None or not found:
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
        found,
        lambda: output_format.read(reply),
        adjustments,
        required=required,
        model=reply.model,
    )


def complete_reading(
    parser: TypeParser[Any],
    text: str,
    found: Mapping[str, Probabilities],
    read: Callable[[], Reading[object]],
    adjustments: Mapping[str, Adjustment],
    *,
    required: bool,
    model: str,
) -> ProbableReading:
    """Parse an answer together with its probabilities, after applying calibrations and thresholds.

    ``read`` parses the text as it is. Where a calibration or a threshold changes an answer, the changed text
    is parsed instead. ``model`` is the name of the model that answered.
    """
    root = parser.node
    prefix = f"$.{root.field}" if isinstance(root, EnvelopeNode) else "$"
    public = {path: _public(path, prefix) for path in found}
    own = {path: adjustments.get(_INDEX.sub("[]", public[path]), Adjustment()) for path in found}
    entries = {
        path: own[path].calibration_for(public[path], one.source, model) for path, one in found.items()
    }
    adjusted = {path: _adjust(one, entries[path], own[path].threshold) for path, one in found.items()}
    changes = [(found[path].leaf, one.leaf) for path, one in adjusted.items() if found[path].leaf != one.leaf]
    with collect_decisions() as decisions:
        reading = parser.read(_rewritten(text, changes)) if changes else read()
    answered = _paths_by_decision(adjusted)
    accepted_from = {
        path: _promised((entry,)) for path, entry in entries.items() if entry is not None
    }  # not the threshold of a bool, from which it is True
    missing = [decision.path for decision in decisions if decision.path not in answered]
    if missing and required:
        raise _missing(text, missing)
    for decision in decisions:
        paths = answered.get(decision.path)
        if not paths:
            continue
        is_list = adjusted[paths[0]].leaf.list_path is not None
        limits = [None if (entry := entries[path]) is None else entry.threshold for path in paths]
        threshold = (
            adjustments.get(_INDEX.sub("[]", _public(decision.path, prefix))) or Adjustment()
        ).threshold
        if threshold is None and all(limit is not None for limit in limits):
            # For a list: the promises of all members hold at the highest of their thresholds.
            threshold = max(limit["value"] for limit in limits if limit is not None)
        accepted_from |= dict.fromkeys(paths, threshold)
        decision.complete(
            {adjusted[path].leaf.member: adjusted[path].shares[1] for path in paths}
            if is_list
            else adjusted[paths[0]].by_value(),
            adjusted[paths[0]].source,
            min(adjusted[path].seen for path in paths),
            calibrated=all(entries[path] is not None for path in paths),
            threshold=threshold,
        )
    coercions = tuple(
        Coercion(
            public[old.path],
            "answer by its calibrated probability or threshold",
            json.dumps(old.options[old.answer][0], ensure_ascii=False),
            json.dumps(new.options[new.answer][0], ensure_ascii=False),
        )
        for old, new in changes
    )
    return ProbableReading(
        replace(reading, coercions=(*coercions, *reading.coercions)) if coercions else reading,
        {public[path]: one.by_value() for path, one in adjusted.items()},
        min([(one.of_answer, public[path]) for path, one in adjusted.items()], default=None),
        source=next(iter(adjusted.values())).source,
        # By path: a union may have read the same decision more than once.
        decisions=tuple({one.path: one for one in decisions if one.path in answered}.values()),
        doubt=min(
            [
                (adjusted[path].of_answer, public[path], limit)
                for path, limit in accepted_from.items()
                if limit is not None and adjusted[path].of_answer < limit
            ],
            default=None,
        ),
    )


def _public(path: str, prefix: str) -> str:
    """Return the path of a value without the object in which it is sent."""
    return f"${path.removeprefix(prefix).removeprefix('$')}"


def _paths_by_decision(found: Mapping[str, Probabilities]) -> dict[str, list[str]]:
    """Map the path of each answer to the paths of its probabilities: for a list, those of its members."""
    paths: dict[str, list[str]] = {}
    for path, one in found.items():
        paths.setdefault(path if one.leaf.list_path is None else one.leaf.list_path, []).append(path)
    return paths


def _adjust(found: Probabilities, entry: CalibrationEntry | None, threshold: float | None) -> Probabilities:
    """Apply a calibration and a threshold to the probabilities, and change the answer accordingly."""
    leaf, shares = found.leaf, found.shares
    if entry is not None and entry.calibrator.kind != "none":
        shares = entry.calibrator.apply(shares)
        leaf = replace(leaf, answer=shares.index(max(shares)))
    if threshold is not None and not leaf.is_decision:
        values = [value for _, value in leaf.options]
        leaf = replace(leaf, answer=values.index(shares[values.index(True)] >= threshold))
    return found._replace(leaf=leaf, shares=shares)


def _rewritten(text: str, changes: Sequence[tuple[Leaf, Leaf]]) -> str:
    """Return the text of a model's reply with some answers replaced by other answers."""
    for old, new in sorted(changes, key=lambda change: -change[0].start):
        data = new.options[new.answer][0]
        written = str(data) if old.is_bare else json.dumps(data, ensure_ascii=False)
        text = f"{text[: old.start]}{written}{text[old.end :]}"
    return text


def _missing(text: str, paths: Sequence[str]) -> OutputParsingError:
    message = "its probabilities cannot be read from this reply"
    return OutputParsingError(text, [Problem(path, message) for path in paths])
