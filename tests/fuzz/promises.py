"""Reads texts made from any bytes as many types, and checks what output_parsers promises of every text.

A text is read, and the value is of the type, or OutputParsingError is raised: nothing else, and in time.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from functools import cache
from typing import Any, get_origin

from breaking import LONGEST, case_of
from fuzz_types import Subject
from pydantic import TypeAdapter, ValidationError

from output_parsers import Leniency, OutputParsingError, Reading, parse, parser_for, read

__all__ = ["BrokenPromiseError", "check", "fuzz_one", "same"]

_SECONDS = 2.0  # of the processor, for a text of LONGEST: atheris slows what it watches to half its speed
_MARKS = ("```", "~~~", "<")  # a fence in a fence, and reasoning in one, are content
_SPACES = (" ", "\n", "\t\r\n ", "\n\n\n")


class BrokenPromiseError(AssertionError):
    """A text was read as it must not be."""


def fuzz_one(data: bytes) -> None:
    """Check one text. Raises BrokenPromiseError, or whatever reading raised beside OutputParsingError."""
    check(*case_of(data))


def check(subject: Subject, text: str) -> None:
    """Read the text as the type of the subject, as it is and in ways that may not change its value."""
    form = subject.form
    reading = _timed(form, text)
    strictly = _reading(form, text, Leniency.NONE)
    if strictly is not None and (reading is None or not same(strictly.value, reading.value)):
        raise BrokenPromiseError(f"{form} read {text!r} only without leniency: {strictly.value!r}")
    if reading is None:
        return
    value = reading.value
    _check_type(subject, value, text)
    if not same(parse(form, text), value):
        raise BrokenPromiseError(f"{form}: parse and read differ on {text!r}")
    for other in _disguises(form, text):
        again = _reading(form, other)
        if again is not None and not same(again.value, value):
            raise BrokenPromiseError(f"{form} read {text!r} as {value!r}, but {other!r} as {again.value!r}")
    if not reading.coercions:
        _check_against_pydantic(subject, value, text)


def same(one: Any, other: Any) -> bool:
    """Equality that keeps 1, 1.0 and true apart, at every depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _reading(form: Any, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[Any] | None:
    try:
        return read(form, text, leniency=leniency)
    except OutputParsingError as error:
        if not error.problems or error.text != text or len(str(error)) > 20_000:
            raise BrokenPromiseError(f"{form}: the error for {text!r} says nothing or too much") from error
        return None


def _timed(form: Any, text: str) -> Reading[Any] | None:
    """The reading, which must come in time; a slow one is repeated, for the machine may be busy."""
    slowest = []
    for _ in range(3):
        start = time.process_time()
        reading = _reading(form, text)
        slowest.append(time.process_time() - start)
        if slowest[-1] < _SECONDS or len(text) > LONGEST:
            return reading
    raise BrokenPromiseError(f"{form}: {min(slowest):.1f} s for {len(text)} characters: {text[:200]!r}")


def _disguises(form: Any, text: str) -> list[str]:
    """The text with white space around it, and in a fence; neither is part of a value, except of text."""
    if parser_for(form).plain_text:
        return []
    space = _SPACES[len(text) % len(_SPACES)]
    others = [space + text, text + space, space + text + space]
    if not any(mark in text for mark in _MARKS):
        others += [f"```\n{text}\n```", f"```json\n{text}\n```"]
    return others


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _check_type(subject: Subject, value: Any, text: str) -> None:
    form = subject.form
    if not subject.known_to_pydantic:
        fits = isinstance(value, get_origin(form) or form)
    else:
        try:
            fits = same(_adapter(form).validate_python(value, strict=True), value)
        except ValidationError:
            fits = False
    if not fits:
        raise BrokenPromiseError(f"{form} read {text!r} as {value!r}, which is none")


def _check_against_pydantic(subject: Subject, value: Any, text: str) -> None:
    """A text that is JSON and needed no step must not mean another value to pydantic."""
    if not subject.known_to_pydantic or parser_for(subject.form).plain_text:
        return
    try:
        adapter = _adapter(subject.form)
        exactly = "'decimal'" in repr(adapter.core_schema)
        theirs = adapter.validate_python(json.loads(text, parse_float=Decimal if exactly else float))
    except (ValueError, RecursionError):
        return
    if theirs != value:
        raise BrokenPromiseError(f"{subject.form} read {text!r} as {value!r}, pydantic as {theirs!r}")
