"""Guards at both ends of a call: what a user says passes them, and what a model answers."""

from __future__ import annotations

from .errors import GuardrailError
from .guard import Guard, GuardFunction
from .incoming import InputGuardrails
from .outgoing import OutputGuardrails
from .ready import ensure, forbidden, masked, max_length, no_injection
from .verdicts import (
    AskAgain,
    GuardrailRan,
    Passed,
    Refused,
    Rewritten,
    Verdict,
    passed,
    refused,
    reprompt,
    retry,
    rewritten,
)

__all__ = [
    "AskAgain",
    "Guard",
    "GuardFunction",
    "GuardrailError",
    "GuardrailRan",
    "InputGuardrails",
    "OutputGuardrails",
    "Passed",
    "Refused",
    "Rewritten",
    "Verdict",
    "ensure",
    "forbidden",
    "masked",
    "max_length",
    "no_injection",
    "passed",
    "refused",
    "reprompt",
    "retry",
    "rewritten",
]
