"""A report is shown as text, with rich if it is installed, or as a self-contained HTML page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from aiservices import Usage
from aiservices.testing import Outcome, Report
from aiservices.testing.report import html_report


def outcome(name: str, value: Any, **settings: Any) -> Outcome:
    scores = settings.pop("scores", {})
    error = settings.pop("error", None)
    return Outcome(name, {"text": "x <b>"}, "tea", value, error, scores, 2, Usage(10, 5), 0.25, Usage(3, 1))


def report() -> Report[Any]:
    return Report(
        "Shop.ask → openai:gpt",
        (
            outcome("one", "tea", scores={"exact": True, "length": 3}),
            outcome("two", "<script>alert(1)</script>" * 4, scores={"exact": False, "length": 100}),
            outcome("three", None, error=ValueError("no <i>tea</i>")),
            outcome("four", "tea", scores={"exact": ZeroDivisionError("by 0"), "length": 3.5}),
        ),
        ("exact", "length"),
        0.95,
        1.5,
    )


def test_the_text_of_a_report_is_its_tables() -> None:
    assert (
        str(report())
        == """\
Shop.ask → openai:gpt

scorer  kind  cases  value  low     high
------  ----  -----  -----  ------  -----
exact   rate  3      0.333  0.0615  0.792
length  mean  3      35.5   -103    174
low and high: 95% confidence, Wilson's interval of rates, Student's of means

calls  failed  attempts  input tokens  output tokens  judge tokens  seconds
-----  ------  --------  ------------  -------------  ------------  -------
4      1       8         40            20             16            1.50

case   answer                                   exact   length  attempts  tokens  seconds
-----  ---------------------------------------  ------  ------  --------  ------  -------
one    'tea'                                    yes     3       2         15      0.25
two    '<script>alert(1) ... lert(1)</script>'  no      100     2         15      0.25
three  ValueError                               -       -       2         15      0.25
four   'tea'                                    failed  3.5     2         15      0.25
three: ValueError: no <i>tea</i>
four, exact: ZeroDivisionError: by 0"""
    )


def test_without_rich_the_text_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.testing.report.find_spec", lambda name: None)
    report().show()
    assert capsys.readouterr().out == f"{report()}\n"


def test_with_rich_the_same_cells_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich", reason="the extra cli is not installed")
    monkeypatch.setenv("COLUMNS", "120")
    report().show()
    out = capsys.readouterr().out
    for cell in ("0.0615", "judge tokens", "failed", "ZeroDivisionError: by 0", "no <i>tea</i>"):
        assert cell in out


class Page(HTMLParser):
    """The tags of an HTML page with their attributes, and the text of each tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_is_self_contained_and_escapes_answers() -> None:
    text = html_report(report())
    page = Page(text)
    assert not page.named("script")
    assert not page.named("link")
    assert not page.named("img")
    assert not re.findall(r"https?://|@import|url\(|\bon\w+=", text)
    assert any("<script>alert(1)</script>" in part for part in page.texts)
    assert any("no <i>tea</i>" in part for part in page.texts)


def test_the_page_shows_the_error_of_a_scorer() -> None:
    failed = outcome("one", 3)._replace(scores={"length": StopIteration("<b>")})
    text = "".join(Page(html_report(Report("it", (failed,), ("length",), 0.9, 0.1))).texts)
    assert "length: StopIteration: <b>" in text


def test_the_page_is_accessible_to_screen_readers() -> None:
    page = Page(html_report(report()))
    assert page.named("html") == [{"lang": "en"}]
    assert "Evaluation of Shop.ask → openai:gpt" in page.texts
    (plot,) = page.named("svg")
    assert plot["role"] == "img"
    assert plot["aria-label"] == (
        "Scores with their confidence intervals. "
        "exact: rate 0.333 of 3 cases (95%: 0.0615 to 0.792); length: mean 35.5 of 3 cases (95%: -103 to 174)"
    )
    assert all(header.get("scope") in ("col", "row") for header in page.named("th"))
    assert len(page.named("caption")) == len(page.named("table")) == 2
    headings = [tag for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert headings == ["h1", "h2", "h2", "h2"]


def test_the_plot_shows_values_and_bounds_at_their_positions() -> None:
    one, two = Page(html_report(report())).named("circle")
    assert one["cx"] == str(round(180 + 440 / 3, 1))
    # the interval goes beyond 0 and 1, so the scale does too: from -200 to 200
    assert two["cx"] == str(round(180 + 440 * 235.5 / 400, 1))


def test_a_report_without_scores_has_no_plot(tmp_path: Path) -> None:
    bare = Report("it", (outcome("one", 3),), (), 0.9, 0.1)
    path = bare.write_html(tmp_path / "report.html")
    page = Page(path.read_text("utf-8"))
    assert page.named("svg") == []
    assert "0.25" in "".join(page.texts)
