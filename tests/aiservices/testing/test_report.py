"""A report is shown as text, with rich if it is installed, or as a self-contained HTML page."""

from __future__ import annotations

import re
from enum import Enum
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from aiservices import Decision, Usage
from aiservices.testing import Outcome, Reliability, Report
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


# decisions


class Team(Enum):
    BILLING = "<billing>"
    SUPPORT = "support"
    SALES = "sales"


def decided(pairs: list[tuple[Any, Any]], **settings: Any) -> Report[Any]:
    """Return the report of an evaluation with these values and expected values."""
    outcomes = [
        outcome(str(number), value)._replace(expected=expected)
        for number, (value, expected) in enumerate(pairs, 1)
    ]
    outcomes.append(outcome("failed", None, error=ValueError("no")))
    return Report("Desk.ask → fake", tuple(outcomes), (), settings.get("confidence", 0.95), 1.0)


def yes(share: float) -> Decision[bool]:
    return Decision(share >= 0.5, {True: share, False: 1 - share})


def reliability_of(report: Report[Any]) -> Reliability:
    found = report.reliability
    assert found is not None
    return found


def test_the_text_compares_probabilities_with_expected_answers() -> None:
    pairs = [(yes(0.95), True)] * 20 + [(yes(0.75), True)] * 14 + [(yes(0.75), False)] * 6
    text = str(decided(pairs))
    tables = text[text.index("stated") : text.index("calls")]
    assert (
        tables
        == """\
stated        cases  mean  observed  low   high
------------  -----  ----  --------  ----  ----
0.75 to 0.75  20     0.75  0.70      0.46  0.88
0.95 to 0.95  20     0.95  1.00      0.83  1.00
stated probability of True, and how often it was right in 40 cases; low and high: 95% confidence, \
Clopper and Pearson's interval
calibration error 0.050; perfect probabilities would have 0.057 by chance

threshold  coverage  error  upper bound
---------  --------  -----  -----------
0.50       100%      15.0%  27.5%
0.60       100%      15.0%  27.5%
0.70       100%      15.0%  27.5%
0.80       50%       0.0%   13.9%
0.90       50%       0.0%   13.9%
0.95       50%       0.0%   13.9%
0.99       0%        -      -
upper bound: of the error with 95% confidence (Clopper and Pearson), for a threshold that was not chosen \
with this table; calibrate chooses one

"""
    )


def test_with_several_answers_the_most_likely_one_is_compared() -> None:
    team = Decision(Team.SALES, {Team.BILLING: 0.2, Team.SUPPORT: 0.2, Team.SALES: 0.6})
    found = reliability_of(decided([(team, Team.SALES), (team, Team.BILLING)]))
    assert found.title == "stated probability of the most likely answer"
    (one,) = found.bins
    assert (one.cases, one.stated, one.observed) == (2, 0.6, 0.5)
    pair = Decision(Team.BILLING, {Team.SUPPORT: 0.2, Team.BILLING: 0.8})
    assert reliability_of(decided([(pair, Team.BILLING)])).title == "stated probability of <billing>"


def test_the_bounds_have_the_confidence_of_the_report() -> None:
    found = reliability_of(decided([(yes(0.9), True)] * 59, confidence=0.9))
    assert found.thresholds[0].upper == pytest.approx(1 - 0.1 ** (1 / 59))
    assert found.bins[0].low == pytest.approx(0.05 ** (1 / 59))


def test_values_without_probabilities_or_labels_are_left_out() -> None:
    other = Decision("a", {"a": 0.5, "b": 0.5})
    rest: list[tuple[Any, Any]] = [
        (Decision(True), True),
        (3, 3),
        (other, "a"),
        (yes(0.9), 1),
        (yes(0.9), []),
    ]
    assert reliability_of(decided([(yes(0.9), True), *rest])).samples == (((1 - 0.9, 0.9), 1),)
    assert decided([(Decision(True), True), (3, 3), (yes(0.9), "yes")]).reliability is None


def test_the_page_has_a_plot_and_tables_of_the_probabilities() -> None:
    pair = Decision(Team.BILLING, {Team.SUPPORT: 0.2, Team.BILLING: 0.8})
    text = html_report(decided([(pair, Team.BILLING), (pair, Team.SUPPORT)]))
    page = Page(text)
    (plot,) = page.named("svg")
    assert plot["role"] == "img"
    assert "stated probability of <billing>" in page.texts
    assert [one["cx"] for one in page.named("circle")] == ["280.0"]
    assert not re.findall(r"https?://", text)
    assert all(header.get("scope") in ("col", "row") for header in page.named("th"))
    assert len(page.named("caption")) == len(page.named("table")) == 4
    assert "upper bound" in page.texts


def test_with_rich_the_tables_of_the_probabilities_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich", reason="the extra cli is not installed")
    monkeypatch.setenv("COLUMNS", "150")
    decided([(yes(0.9), True)]).show()
    out = capsys.readouterr().out
    for cell in ("0.90 to 0.90", "upper bound", "stated probability of True", "calibration error 0.100"):
        assert cell in out
