"""The promises hold on a fixed set of broken replies, and the harness detects a broken promise."""

from __future__ import annotations

import random

import promises
import pytest
from breaking import MAX_LENGTH, case_of
from fuzz_types import SUBJECTS, Subject
from promises import BrokenPromiseError, check, fuzz_one, strict_same

from output_parsers import OutputParsingError, read


def seeds(number: int) -> list[bytes]:
    source = random.Random(number)
    return [source.randbytes(source.choice((2, 4, 6, 8, 12, 20, 40))) for _ in range(40)]


@pytest.mark.parametrize("number", range(40))
def test_the_promises_hold_on_broken_replies(number: int) -> None:
    for data in seeds(number):
        fuzz_one(data)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: str(subject.tp))
def test_the_promises_hold_on_the_texts_that_are_mutated(subject: Subject) -> None:
    for text in subject.texts:
        check(subject, text)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: str(subject.tp))
def test_each_type_reads_at_least_one_of_its_texts(subject: Subject) -> None:
    values = []
    for text in subject.texts:
        try:
            values.append(read(subject.tp, text).value)
        except OutputParsingError:
            pass
    assert values != []


def test_the_same_bytes_give_the_same_case_of_limited_length() -> None:
    for data in seeds(0):
        assert case_of(data) == case_of(data)
        assert len(case_of(data)[1]) <= MAX_LENGTH
    assert case_of(b"") == case_of(b"\0\0")


def test_a_value_of_another_type_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "read", lambda tp, text, **options: read(str, text))
    with pytest.raises(BrokenPromiseError) as error:
        check(Subject(int, ()), "42")
    assert str(error.value) == "<class 'int'> read '42' as '42', which is not one"


def test_equal_numbers_of_different_types_differ() -> None:
    assert strict_same({"a": [1, (2.0, True)]}, {"a": [1, (2.0, True)]})
    assert not strict_same({"a": [1]}, {"a": [True]})
    assert not strict_same([1], [1.0])
    assert not strict_same([1], [1, 2])
