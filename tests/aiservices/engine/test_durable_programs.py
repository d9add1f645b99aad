"""Random programs that are killed end like those that are not disturbed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from aiservices.journal.sqlite import SqliteJournalStore
from tests.durable_programs import differences, undisturbed


def killed_differences(seed: int, random: Random) -> list[str]:
    """Return the differences of a program that is killed one to three times at random steps."""
    answer, world, steps = undisturbed(seed, SqliteJournalStore(":memory:"))
    kills = [random.randrange(steps) for _ in range(random.randint(1, 3))]
    return differences(seed, SqliteJournalStore(":memory:"), kills, (answer, world))


@pytest.mark.filterwarnings("ignore")
def test_killed_programs_end_like_undisturbed_ones() -> None:
    random = Random(0)
    assert [one for seed in range(15) for one in killed_differences(seed, random)] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_kill_at_each_step_changes_nothing() -> None:
    problems = []
    for seed in range(20):
        answer, world, steps = undisturbed(seed, SqliteJournalStore(":memory:"))
        for step in range(steps):
            problems += differences(seed, SqliteJournalStore(":memory:"), [step], (answer, world))
    assert problems == []


@pytest.mark.filterwarnings("ignore")
def test_many_killed_programs_end_like_undisturbed_ones(campaign: Iterable[int]) -> None:
    random = Random()
    for _ in campaign:
        seed = random.getrandbits(32)
        assert killed_differences(seed, random) == []
