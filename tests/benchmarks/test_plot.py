"""The picture of time ratios draws the right rows, and its labels are text."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.plot import PANELS, Bar, bars

ROWS = [
    {"case": "Person", "baseline": "SDK create + validate_json", "median": 0.25},
    {"case": "Person", "baseline": "instructor create", "median": 0.05},
    {"case": "Person", "baseline": "BAML function", "median": 2.0},
    {"case": "bool", "baseline": "SDK create + validate_json", "median": 0.2},
]


@pytest.fixture
def figures(tmp_path: Path) -> Path:
    path = tmp_path / "out.json"
    path.write_text(json.dumps({"stages": {"call": {"comparisons": ROWS}}}), encoding="utf-8")
    return path


def test_bars_are_the_rows_of_one_case_fastest_first() -> None:
    assert bars({"call": {"comparisons": ROWS}}, PANELS[0]) == [
        Bar("BAML", 0.5),
        Bar("openai SDK, create", 4.0),
        Bar("instructor", 20.0),
    ]
    assert bars({"call": {"comparisons": ROWS}}, PANELS[1]) == []


def test_the_labels_of_the_picture_are_text(figures: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    to = figures.parent / "figures" / "peers.svg"
    main(["plot", str(figures), "--to", str(to)])
    drawn = to.read_text(encoding="utf-8")
    for text in ("A call that returns a record", "aiservices", "instructor", "20", "BAML", "0.5"):
        assert f">{text}</text>" in drawn
    assert "An object of 10 KB" not in drawn
    main(["plot", str(figures), "--to", str(to)])
    assert to.read_text(encoding="utf-8") == drawn


def test_figures_of_other_stages_cannot_be_drawn(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text('{"stages": {"parse": {"comparisons": []}}}', encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["plot", str(path), "--to", str(tmp_path / "p.svg")])
    assert str(caught.value) == "there are no rows to draw: the stages are call, stream, import"


def test_without_matplotlib_the_error_says_so(figures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SystemExit) as caught:
        main(["plot", str(figures), "--to", str(figures.with_suffix(".svg"))])
    assert str(caught.value) == "matplotlib is not installed: install the extra bench of aiservices"
