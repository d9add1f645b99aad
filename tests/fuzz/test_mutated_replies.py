"""Replies of providers that are damaged at random give documented errors, the same in all kinds of calls."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from mutated_replies import Reply, check, damaged, own_replies, recorded_replies

_PER_ROUND = 100


def check_round(seed: int, replies: Sequence[Reply], count: int) -> None:
    rng = random.Random(seed)
    for number in range(count):
        reply = damaged(rng.choice(replies), rng)
        try:
            check(reply, rng)
        except Exception as error:
            error.add_note(f"reply {number} of seed {seed}: {reply.dialect.name} {reply}")
            raise


def test_damaged_replies_give_documented_errors() -> None:
    check_round(0, own_replies(), _PER_ROUND)


def test_many_damaged_replies_give_documented_errors(
    campaign: Iterable[int], pytestconfig: pytest.Config
) -> None:
    recorded: Path | None = pytestconfig.getoption("--exchanges")
    replies = [*own_replies(), *(() if recorded is None else recorded_replies(recorded))]
    for seed in campaign:
        check_round(seed, replies, _PER_ROUND)
