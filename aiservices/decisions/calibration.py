"""Correct probabilities by a ``Calibration``, which is fitted to labelled examples and stored in a file."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from output_parsers.result.reading import JsonObject

from ..models.errors import DefinitionError, DefinitionProblem

FORMAT = 1
_SMALLEST = 1e-6  # no probability is 0 or 1, which examples cannot prove
Kind: TypeAlias = Literal["none", "platt", "temperature", "isotonic"]


def logit(probability: float) -> float:
    """Return the logarithm of the odds of a probability."""
    clipped = min(max(probability, _SMALLEST), 1 - _SMALLEST)
    return math.log(clipped / (1 - clipped))


def sigmoid(value: float) -> float:
    """Convert log-odds (the logarithm of the odds) to a probability."""
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    odds = math.exp(value)
    return odds / (1 + odds)


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Corrects the probabilities that a model gives for the possible answers to one question.

    Attributes:
        kind: "platt" (a slope and an offset for the logit of the second of two answers), "temperature" (an
            inverse temperature, and an offset for each answer), "isotonic" (steps for the probability of
            the second of two answers), or "none".
        parameters: The numbers of the correction. For "isotonic", the limits of the steps and their values.
    """

    kind: Kind = "none"
    parameters: tuple[float, ...] = ()

    def apply(self, probabilities: Sequence[float]) -> tuple[float, ...]:
        """Return the corrected probabilities of the possible answers, which add up to 1."""
        match self.kind:
            case "platt":
                slope, offset = self.parameters
                second = sigmoid(slope * logit(probabilities[1]) + offset)
                return _clipped((1 - second, second))
            case "isotonic":
                count = len(self.parameters) // 2
                step = bisect_right(self.parameters[1:count], probabilities[1])
                second = self.parameters[count + step]
                return _clipped((1 - second, second))
            case "temperature":
                factor, *offsets = self.parameters
                logs = [
                    factor * math.log(max(share, _SMALLEST)) + offset
                    for share, offset in zip(probabilities, offsets, strict=True)
                ]
                highest = max(logs)
                return _clipped([math.exp(value - highest) for value in logs])
            case _:
                return tuple(probabilities)


def _clipped(shares: Sequence[float]) -> tuple[float, ...]:
    total = sum(shares)
    clipped = [min(max(share / total, _SMALLEST), 1 - _SMALLEST) for share in shares]
    total = sum(clipped)
    return tuple(share / total for share in clipped)


@dataclass(frozen=True, slots=True)
class CalibrationEntry:
    """The correction for the probabilities of one answer of a method, and how accurate the answers are.

    Attributes:
        method: The method, ``Service.method``.
        path: The JSON path of the answer.
        question: The SHA-256 hash of the prompt and the description of the answer.
        options: The possible answers as JSON values.
        source: Where the probabilities came from, such as "logprobs".
        model: The model, as its replies name it.
        n: The number of labelled examples.
        calibrator: The correction of the probabilities.
        before: Measures of the probabilities as they were: "brier", "log_loss", "auroc", "ece" and
            "ece_if_perfect".
        after: The same measures of the corrected probabilities, each from a correction that was fitted
            without the example.
        threshold: The probability from which an answer is accepted: its "value", the promised "error" and
            "confidence", the "coverage" and the "upper" bound of the error; None if no threshold keeps it.
        made: The date.
    """

    method: str
    path: str
    question: str
    options: tuple[Any, ...]
    source: str
    model: str
    n: int
    calibrator: Calibrator
    before: Mapping[str, float | None] = field(default_factory=dict)
    after: Mapping[str, float | None] = field(default_factory=dict)
    threshold: Mapping[str, float] | None = None
    made: str = ""


@dataclass(frozen=True)
class Calibration:
    """Corrections for the answer probabilities of a service, applied by ``create(calibration=…)``.

    Attributes:
        entries: The calibrations of single answers.
        on_mismatch: What happens if a reply comes from another model or source: "error", or "raw" to use its
            probabilities as they are.
    """

    entries: tuple[CalibrationEntry, ...]
    on_mismatch: Literal["error", "raw"] = "error"

    def __post_init__(self) -> None:
        if self.on_mismatch not in ("error", "raw"):
            message = f'on_mismatch is {self.on_mismatch!r}; it must be "error" or "raw"'
            raise DefinitionError([DefinitionProblem("Calibration", message)])

    @classmethod
    def read(cls, path: str | Path, *, on_mismatch: Literal["error", "raw"] = "error") -> Calibration:
        """Read calibrations from a JSON file; raise DefinitionError if the file is missing or damaged."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
            if data["format"] != FORMAT:
                raise ValueError(f"it has the format {data['format']!r}, this version reads {FORMAT}")
            entries = tuple(map(_entry_from_dict, data["calibrations"]))
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
            raise DefinitionError([DefinitionProblem(str(path), problem)]) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problem = f"it is not a calibration file: {reason}"
            raise DefinitionError([DefinitionProblem(str(path), problem)]) from error
        return cls(entries, on_mismatch)

    def write(self, path: str | Path) -> None:
        """Write the calibrations to a JSON file, keeping the other calibrations that it already contains."""
        target = Path(path)
        others = Calibration.read(target).entries if target.exists() else ()
        merged = {_key(entry): entry for entry in (*others, *self.entries)}
        data = {"format": FORMAT, "calibrations": [asdict(merged[key]) for key in sorted(merged)]}
        target.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def find(self, method: str, path: str) -> tuple[CalibrationEntry, ...]:
        """Return the calibrations for an answer, one for each model and source of probabilities."""
        return tuple(entry for entry in self.entries if (entry.method, entry.path) == (method, path))

    def __str__(self) -> str:
        return "\n".join(map(_entry_text, self.entries)) or "no calibrations"


def _key(entry: CalibrationEntry) -> tuple[str, str, str, str]:
    return entry.method, entry.path, entry.model, entry.source


def _entry_from_dict(data: JsonObject) -> CalibrationEntry:
    entry = CalibrationEntry(**data)
    calibrator = Calibrator(data["calibrator"]["kind"], tuple(data["calibrator"]["parameters"]))
    entry = replace(entry, calibrator=calibrator, options=tuple(data["options"]))
    if calibrator.kind not in get_args(Kind):
        raise ValueError(f"the kind {calibrator.kind!r} is unknown")
    shares = [1 / len(entry.options)] * len(entry.options)
    if not math.isclose(sum(calibrator.apply(shares)), 1):  # also fails for a wrong number of parameters
        raise ValueError(f"the parameters of {entry.method} {entry.path} are wrong")
    return entry


def _entry_text(entry: CalibrationEntry) -> str:
    lines = [
        f"{entry.method} {entry.path}: {entry.n} examples, {entry.model}, {entry.source}",
        f"  calibration: {entry.calibrator.kind}",
    ]
    for name, label in (
        ("brier", "Brier score"),
        ("log_loss", "log loss"),
        ("auroc", "AUROC"),
        ("ece", "calibration error"),
        ("ece_if_perfect", "  of perfect probabilities"),
    ):
        before, after = entry.before.get(name), entry.after.get(name)
        if before is not None and after is not None:
            lines.append(f"  {label:28} {before:.3f} -> {after:.3f}")
    if entry.threshold is None:
        lines.append("  threshold: none keeps the error below the limit; label more examples")
    else:
        lines.append(
            "  threshold: {value:.2f} answers {coverage:.0%} with an error of at most {error:.0%} "
            "(confidence {confidence:.0%}, bound {upper:.1%})".format_map(entry.threshold)
        )
    return "\n".join(lines)


class Adjustment(NamedTuple):
    """The calibrations and the threshold that are applied to the probabilities of one answer.

    Attributes:
        method: The method, for error messages.
        calibrations: The calibrations of the answer, one for each model and source; may be empty.
        on_mismatch: What happens if no calibration is for the reply's model: "error" or "raw".
        threshold: For a bool: the probability from which it is True. For a Decision: the probability from
            which ``at()`` returns the value; None to use the threshold of the calibration.
        members: For a ``Decision[list[…]]``: the calibrations of its members, if each has some.
    """

    method: str = ""
    calibrations: tuple[CalibrationEntry, ...] = ()
    on_mismatch: str = "error"
    threshold: float | None = None
    members: tuple[tuple[CalibrationEntry, ...], ...] = ()

    @property
    def accepted_from(self) -> float | None:
        """The lowest probability at which an answer is accepted, from a threshold or the calibration."""
        if self.threshold is not None:
            return self.threshold
        promised = [promised_threshold(entries) for entries in self.members or (self.calibrations,)]
        return None if None in promised else max(value for value in promised if value is not None)

    def calibration_for(self, path: str, source: str, model: str) -> CalibrationEntry | None:
        """Return the calibration for a reply's model and source of probabilities, or None.

        Raises DefinitionError if all calibrations are for other models or sources, unless ``on_mismatch`` is
        "raw".
        """
        for entry in self.calibrations:
            if entry.model == model and _kind(entry.source) == _kind(source):
                return entry
        if self.calibrations and self.on_mismatch == "error":
            calibrated = ", ".join(f"{entry.model} ({entry.source})" for entry in self.calibrations)
            message = (
                f"{path} is calibrated for {calibrated}, and the reply is from {model} ({source}); "
                'calibrate it for this model, or pass Calibration.read(FILE, on_mismatch="raw")'
            )
            raise DefinitionError([DefinitionProblem(self.method, message)])
        return None


def promised_threshold(entries: Sequence[CalibrationEntry]) -> float | None:
    return next((entry.threshold["value"] for entry in entries if entry.threshold is not None), None)


def _kind(source: str) -> str:
    return source.partition("(")[0]  # "votes(4)" and "votes(5)" are one kind
