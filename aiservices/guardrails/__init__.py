"""Guardrails: functions that accept, rewrite or reject user messages and the model's answers."""

from __future__ import annotations

from .guard import (
    Guard,
    GuardFunction,
    GuardrailError,
    GuardrailRan,
    Passed,
    Refused,
    Reprompt,
    Rewritten,
    Verdict,
    ensure,
    forbidden,
    grounded,
    known_citations,
    masked,
    max_length,
    no_injection,
    passed,
    refused,
    reprompt,
    retry,
    rewritten,
)
from .inputs import InputGuardrails
from .outputs import OutputGuardrails
from .parts import Chunks, paragraphs, sentences
from .tools import ToolGuardFunction, ToolGuardrails

__all__ = [
    "Chunks",
    "Guard",
    "GuardFunction",
    "GuardrailError",
    "GuardrailRan",
    "InputGuardrails",
    "OutputGuardrails",
    "Passed",
    "Refused",
    "Reprompt",
    "Rewritten",
    "ToolGuardFunction",
    "ToolGuardrails",
    "Verdict",
    "ensure",
    "forbidden",
    "grounded",
    "known_citations",
    "masked",
    "max_length",
    "no_injection",
    "paragraphs",
    "passed",
    "refused",
    "reprompt",
    "retry",
    "rewritten",
    "sentences",
]
