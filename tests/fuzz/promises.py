"""Read texts made from any bytes as many types, and check what output_parsers promises for every text.

Reading returns a value of the type or raises OutputParsingError, within a time limit.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from functools import cache
from typing import Any, get_origin

from breaking import MAX_LENGTH, case_of
from fuzz_types import Subject
from pydantic import TypeAdapter, ValidationError

from output_parsers import Leniency, OutputParsingError, Reading, parse, parser_for, read

__all__ = ["BrokenPromiseError", "check", "fuzz_one", "strict_same"]

_SECONDS = 2.0  # of processor time, for a text of MAX_LENGTH; atheris halves the speed
_MARKS = ("```", "~~~", "<")  # a fence inside a fence, and reasoning inside one, are content
_SPACES = (" ", "\n", "\t\r\n ", "\n\n\n")


class BrokenPromiseError(AssertionError):
    """A text was read in a way that breaks a promise."""


def fuzz_one(data: bytes) -> None:
    """Check one text. Raises BrokenPromiseError, or any unexpected error of reading."""
    check(*case_of(data))


def check(subject: Subject, text: str) -> None:
    """Read a text as the type of the subject, and again with changes that must not change its value."""
    tp = subject.tp
    reading = _timed(tp, text)
    strictly = _reading(tp, text, Leniency.NONE)
    if strictly is not None and (reading is None or not strict_same(strictly.value, reading.value)):
        raise BrokenPromiseError(f"{tp} read {text!r} only without leniency: {strictly.value!r}")
    if reading is None:
        return
    value = reading.value
    _check_type(subject, value, text)
    if not strict_same(parse(tp, text), value):
        raise BrokenPromiseError(f"{tp}: parse and read differ on {text!r}")
    for other in _disguises(tp, text):
        again = _reading(tp, other)
        if again is not None and not strict_same(again.value, value):
            raise BrokenPromiseError(f"{tp} read {text!r} as {value!r}, but {other!r} as {again.value!r}")
    if not reading.coercions:
        _check_against_pydantic(subject, value, text)


def strict_same(one: Any, other: Any) -> bool:
    """Compare two values, keeping 1, 1.0 and true apart at every depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(strict_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(strict_same, one, other))
    return bool(one == other)


def _reading(tp: Any, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[Any] | None:
    try:
        return read(tp, text, leniency=leniency)
    except OutputParsingError as error:
        if not error.problems or error.text != text or len(str(error)) > 20_000:
            raise BrokenPromiseError(
                f"{tp}: the error for {text!r} has no problems or too much text"
            ) from error
        return None


def _timed(tp: Any, text: str) -> Reading[Any] | None:
    """Read within the time limit. A slow reading is repeated, because the machine may be busy."""
    slowest = []
    for _ in range(3):
        start = time.process_time()
        reading = _reading(tp, text)
        slowest.append(time.process_time() - start)
        if slowest[-1] < _SECONDS or len(text) > MAX_LENGTH:
            return reading
    raise BrokenPromiseError(f"{tp}: {min(slowest):.1f} s for {len(text)} characters: {text[:200]!r}")


def _disguises(tp: Any, text: str) -> list[str]:
    """Return the text with white space around it and in a fence, which change no value except text."""
    if parser_for(tp).plain_text:
        return []
    space = _SPACES[len(text) % len(_SPACES)]
    others = [space + text, text + space, space + text + space]
    if not any(mark in text for mark in _MARKS):
        others += [f"```\n{text}\n```", f"```json\n{text}\n```"]
    return others


@cache
def _adapter(tp: Any) -> TypeAdapter[Any]:
    return TypeAdapter(tp)


def _check_type(subject: Subject, value: Any, text: str) -> None:
    tp = subject.tp
    if not subject.supported_by_pydantic:
        fits = isinstance(value, get_origin(tp) or tp)
    else:
        try:
            fits = strict_same(_adapter(tp).validate_python(value, strict=True), value)
        except ValidationError:
            fits = False
    if not fits:
        raise BrokenPromiseError(f"{tp} read {text!r} as {value!r}, which is not one")


def _check_against_pydantic(subject: Subject, value: Any, text: str) -> None:
    """Check that pydantic reads the same value from a text that is JSON and took no coercion."""
    if not subject.supported_by_pydantic or parser_for(subject.tp).plain_text:
        return
    try:
        adapter = _adapter(subject.tp)
        exactly = "'decimal'" in repr(adapter.core_schema)
        theirs = adapter.validate_python(json.loads(text, parse_float=Decimal if exactly else float))
    except (ValueError, RecursionError):
        return
    if theirs != value:
        raise BrokenPromiseError(f"{subject.tp} read {text!r} as {value!r}, pydantic as {theirs!r}")
