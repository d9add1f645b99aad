"""The sample that selects rows with a bound on how many are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiservices import Decision
from aiservices.testing import FakeChatModel
from samples import select_rows


def test_the_sample_asks_for_labels_and_selects_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = FakeChatModel(values={Decision[bool]: Decision(True, {True: 0.97, False: 0.03})})
    table, labels = [{"text": f"buy {number}"} for number in range(400)], tmp_path / "labels.csv"
    assert select_rows.main(model, table, labels) is None
    assert f"300 rows of {labels} need a label" in capsys.readouterr().out
    labels.write_text(labels.read_text().replace('""', "true").replace(",\n", ",true\n"))
    spam = select_rows.main(model, table, labels)
    assert spam is not None
    assert len(spam) == 400
    assert "400 of 400 rows selected, with a probability of at least 0.97" in capsys.readouterr().out
