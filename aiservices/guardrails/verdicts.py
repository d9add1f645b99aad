"""What a guard may say of what it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = [
    "AskAgain",
    "GuardrailRan",
    "Passed",
    "Refused",
    "Rewritten",
    "Verdict",
    "Where",
    "passed",
    "refused",
    "reprompt",
    "retry",
    "rewritten",
]

Where: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class Passed:
    """It may go on as it is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """It may go on as ``new``, which the guards after this one are shown."""

    new: Any


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The model is to answer again; it is told ``message`` after its answer, nothing where that is None."""

    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The call ends here, with a GuardrailError."""

    message: str


Verdict: TypeAlias = Passed | Rewritten | AskAgain | Refused


class GuardrailRan(NamedTuple):
    """A guard has given its verdict; an event for listeners."""

    name: str
    where: Where
    verdict: Verdict


_PASSED = Passed()


def passed() -> Verdict:
    """Let it through."""
    return _PASSED


def rewritten(new: Any) -> Verdict:
    """Let something else through in its place."""
    return Rewritten(new)


def retry(reason: str) -> Verdict:
    """Have the model answer the same request again. For the output only."""
    return AskAgain(reason)


def reprompt(message: str) -> Verdict:
    """Have the model answer again, with this message after the rejected answer. For the output only."""
    return AskAgain(message, message)


def refused(message: str) -> Verdict:
    """End the call with a GuardrailError."""
    return Refused(message)
