"""The promises hold on broken replies."""

from __future__ import annotations

import random
from collections.abc import Iterable

from fuzz_types import SUBJECTS
from promises import check, fuzz_one


def check_broken_replies(seed: int, replies: int) -> None:
    source = random.Random(seed)
    for _ in range(replies):
        fuzz_one(source.randbytes(source.choice((2, 4, 6, 8, 12, 20, 40))))


def test_the_promises_hold_on_broken_replies() -> None:
    check_broken_replies(0, 800)


def test_the_promises_hold_on_many_broken_replies(campaign: Iterable[int]) -> None:
    for seed in campaign:
        check_broken_replies(seed, 1_000)


def test_the_promises_hold_on_the_texts_that_are_mutated() -> None:
    for subject in SUBJECTS:
        for text in subject.texts:
            check(subject, text)
