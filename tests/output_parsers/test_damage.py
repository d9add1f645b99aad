"""Damaged JSON is read as the value that it spells, or it is an error."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from benchmarks.damage import INNER_VALUE, Summary, examples, run

EXPLAINED = "trailing comma"  # a lost line leaves exact JSON but for a trailing comma, which models write too


@pytest.fixture(scope="module")
def summary() -> Summary:
    return run(3000, seed=1, streams=10)


def test_no_value_from_inside_damaged_json_is_the_answer(summary: Summary) -> None:
    assert summary.total() > 2900
    assert examples(summary, INNER_VALUE, 5) == []


def test_at_most_one_damaged_text_in_a_thousand_is_read_as_a_wrong_value(summary: Summary) -> None:
    unexplained = summary.wrong - summary.total(EXPLAINED)
    assert unexplained <= 0.001 * summary.total(), [
        example for example in summary.examples if example.kind != EXPLAINED
    ]
    assert summary.total(EXPLAINED) <= 0.01 * summary.total()


def test_damaged_json_in_chunks_gives_the_same_result_as_at_once(summary: Summary) -> None:
    assert summary.streams >= 300
    assert summary.stream_differences == []


def test_few_of_many_damaged_texts_are_read_as_a_wrong_value(campaign: Iterable[int]) -> None:
    for seed in campaign:
        summary = run(20_000, seed=seed, streams=4)
        assert summary.total(INNER_VALUE) <= 0.0002 * summary.total()
        assert summary.wrong - summary.total(EXPLAINED) <= 0.001 * summary.total()
        assert summary.stream_differences == []
