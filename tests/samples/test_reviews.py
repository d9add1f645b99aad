"""The sample that classifies the rows of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices import Decision
from aiservices.testing import FakeChatModel
from samples import reviews


def test_reviews_are_classified_and_unsure_ones_are_collected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    unsure = Decision(True, {True: 0.6, False: 0.4})
    reviews.main(FakeChatModel(values={Decision[bool]: unsure}), folder=tmp_path)
    printed = capsys.readouterr().out
    assert "5 rows, 4 to process; used for this estimate: 4" in printed
    assert "5 rows: 5 answered, 0 with an error" in printed
    assert "to review: 5" in printed
    assert printed.count("unsure (0.60): ") == 5
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 6
    assert len((tmp_path / "review.csv").read_text().splitlines()) == 6


@pytest.mark.peers
@pytest.mark.local_model
def test_the_embedded_model_classifies_reviews(capsys: pytest.CaptureFixture[str]) -> None:
    reviews.main("local:smollm2")
    assert "5 rows: 5 answered, 0 with an error" in capsys.readouterr().out
