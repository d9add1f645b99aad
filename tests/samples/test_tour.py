"""The tour shows right and wrong answers, continues after an error, and fits into a terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aiservices import ChatRequest, ScriptedChatModel
from aiservices.models.local.weights import WeightsError
from samples import table, tour, tour_rows
from samples.table import shortened, width_of, wrapped

RECIPE = {
    "title": "Greek Salad",
    "description": "A fresh salad.",
    "steps": ["Chop all the vegetables."],
    "preparation_time_minutes": 15,
}
FILM = {"title": "英雄", "director": "张艺谋", "publication_date": "2002-10-24", "description": "A warrior."}
# The answers of a good model, by a part of the prompt and a part of the schema.
ANSWERS: list[tuple[str, str, object]] = [
    ("great!", "boolean", {"value": True}),
    ("awful!", "boolean", {"value": False}),
    ("great!", "enum", {"value": "positive"}),
    ("don't know", "enum", {"value": "neutral"}),
    ("forty two", "", {"value": 42}),
    ("shy of midnight", '"date"', {"value": "1968-07-04"}),
    ("shy of midnight", '"time"', {"value": "23:45:00"}),
    ("shy of midnight", "date-time", {"value": "1968-07-04T23:45:00"}),
    ("surname Doe", "", {"first_name": "John", "last_name": "Doe", "birth_date": "1968-07-04"}),
    ("Currently unmarried", "", {"name": "John", "age": 42, "height": 1.75, "married": False}),
    ("张三", "", {"name": "张三", "age": 30, "skills": ["Python", "Go语言"]}),
    ("12.50 euros", "", {"value": "12.50 EUR"}),
    ("charged twice", "", {"value": "billing"}),
    ("crashes", "", {"value": "bug"}),
    ("Norway", "", {"value": "delivery"}),
    ("recipe", "", RECIPE),
    ("张艺谋", "", FILM),
    ("lighthouse", "", "A tower that shines."),
]


def good_answer(request: ChatRequest) -> str:
    schema = json.dumps(getattr(request.response_format, "schema", {}))
    for part, schema_part, answer in ANSWERS:
        if part in request.messages[-1].text and schema_part in schema:
            return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    raise LookupError(request.messages[-1].text)


def wrong_answer(part: str, answer: str) -> Callable[[ChatRequest], str]:
    return lambda request: answer if part in request.messages[0].text else good_answer(request)


@pytest.fixture
def toured(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[[ChatRequest], str]], str]:
    """Return a function that runs the tour and returns the printed text, with 0.0 for each time."""

    def run(answer: Callable[[ChatRequest], str]) -> str:
        model = ScriptedChatModel(answer)
        tour.tour(model, tour_rows.rows_of(model))
        out = capsys.readouterr().out
        out = re.sub(r"\d+\.\d$", "0.0", out, flags=re.MULTILINE)
        return re.sub(r"\d+\.\d s,", "0.0 s,", re.sub(r"\d+ s in all", "0 s in all", out))

    return run


def test_a_tour_with_a_good_model(toured: Callable[..., str]) -> None:
    printed = toured(good_answer)
    assert printed.partition("\nThe request of")[0] == TABLE
    assert printed.partition("The other fields of the Result[Film]\n\n")[2] == REST


def test_a_wrong_value_is_printed_with_the_right_one(toured: Callable[..., str]) -> None:
    printed = toured(wrong_answer("awful!", '{"value": true}'))
    assert WRONG_ROW in printed
    assert "\n15 of 16 right; 4 more have no single right value. 0 s in all.\n" in printed


def test_an_error_is_printed_in_its_row_and_the_tour_continues(toured: Callable[..., str]) -> None:
    printed = toured(wrong_answer("张三", '{"name": "张三"}'))
    assert ERROR_ROW in printed
    assert "\n15 of 16 right;" in printed


def test_values_without_a_single_right_answer_are_checked_for_limits(toured: Callable[..., str]) -> None:
    long = {**RECIPE, "steps": ["Chop all the fresh vegetables.", "Serve."]}
    printed = toured(wrong_answer("prepared using only cucumber", json.dumps(long)))
    assert "no single right value; 1 of 2 steps\n" in printed
    assert "have more than 4 words\n" in printed


def test_no_line_of_the_table_is_wider_than_100_columns(toured: Callable[..., str]) -> None:
    lines = toured(good_answer).partition("\nThe request of")[0].split("\n")
    assert max(map(width_of, lines)) <= 100


@pytest.mark.parametrize("error", [LookupError("there are no weights"), WeightsError("there are no weights")])
def test_without_a_model_the_error_tells_the_reason(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*arguments: object) -> tuple[str, str]:
        raise error

    monkeypatch.setattr(tour, "demo_weights", none)
    assert tour.main([]) == 1
    assert capsys.readouterr().err == "There is no model for the tour: there are no weights\n"


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of weights that were downloaded; each download fails."""
    names: list[str] = []

    def pull(name: str, progress: object) -> None:
        names.append(name)
        raise WeightsError("no network")

    monkeypatch.setattr(tour, "pull", pull)
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.delenv("DEMO_MODEL", raising=False)
    return names


def test_the_tour_downloads_nothing_without_a_terminal(
    pulled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tour.main(["smollm2"]) == 1
    assert pulled == []
    assert capsys.readouterr().err == (
        "There is no model for the tour: the weights smollm2 are not on this machine. Download them with "
        "--yes, or name a model: smollm2 (0.1 GB, often wrong), openai:NAME (needs OPENAI_API_KEY), or fake "
        "(made-up answers)\n"
    )


def test_the_tour_asks_before_a_download(
    pulled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer in ("\n", "n\n", "yes\n"):
        stdin = io.StringIO(answer)
        monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", stdin)
        assert tour.main(["smollm2"]) == 1
        assert "Download the weights smollm2 (0.1 GB)? [y/N] " in capsys.readouterr().out
    assert pulled == ["smollm2"]


def test_the_option_yes_downloads_without_a_question(pulled: list[str]) -> None:
    assert tour.main(["--yes", "smollm2"]) == 1
    assert pulled == ["smollm2"]


def test_an_unknown_model_string_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert tour.main(["nobody:x"]) == 1
    assert capsys.readouterr().err.startswith("There is no model for the tour: ")


def test_the_tour_runs_with_the_named_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tour, "rows_of", lambda model: [])
    monkeypatch.setattr(tour, "print_request", lambda model: None)
    monkeypatch.setenv("DEMO_MODEL", "openai:NAME")
    assert tour.main([]) == 0
    assert tour.main(["ollama:NAME"]) == 0
    assert tour.main(["fake"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Running openai:NAME, as requested.\n")
    assert "Running ollama:NAME, as requested.\n" in shown


class TestTable:
    def test_wide_characters_take_two_columns_and_combining_marks_none(self) -> None:
        assert width_of("张三 a") == 6
        assert width_of("e\u0301") == 1

    def test_a_text_is_shortened_to_columns_and_not_to_characters(self) -> None:
        assert shortened("张三今年30岁", 12) == "张三今年30岁"
        assert shortened("张三今年30岁", 7) == "张三今…"
        assert shortened("two\nlines", 20) == "two lines"

    def test_a_text_is_wrapped_at_spaces_and_a_long_word_is_cut(self) -> None:
        assert list(wrapped("one two three", 7)) == ["one two", "three"]
        assert list(wrapped("abcdefghij", 4)) == ["abcd", "efgh", "ij"]
        assert list(wrapped("", 4)) == [""]

    def test_colours_are_only_for_terminals_without_no_color(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert table.coloured("yes", "green") == "yes"
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        assert table.coloured("yes", "green") == "\x1b[32myes\x1b[0m"
        monkeypatch.setenv("NO_COLOR", "1")
        assert table.coloured("yes", "green") == "yes"


TABLE = """\

   method            input                    value                                 type        s
✓  is_positive       This is great!           True                                  bool        0.0
✓  is_positive       It's awful!              False                                 bool        0.0
✓  sentiment_of      This is great!           Sentiment.POSITIVE                    Sentiment   0.0
✓  sentiment_of      I don't know.            Sentiment.NEUTRAL                     Sentiment   0.0
✓  to_int            After countless millen…  42                                    int         0.0
✓  to_int32          After countless millen…  42                                    int         0.0
✓  to_float          After countless millen…  42.0                                  float       0.0
✓  to_decimal        After countless millen…  Decimal('42')                         Decimal     0.0
✓  extract_date      The tranquility pervad…  1968-07-04                            date        0.0
✓  extract_time      The tranquility pervad…  23:45:00                              time        0.0
✓  extract_datetime  The tranquility pervad…  1968-07-04T23:45:00                   datetime    0.0
✓  person            In 1968, amidst the fa…  Person(first_name='John',             Person      0.0
                                              last_name='Doe',
                                              birth_date=1968-07-04)
✓  profile           John is 42 years old a…  Profile(name='John', age=42,          Profile     0.0
                                              height=1.75, married=False)
✓  info              张三今年30岁,他擅长Pyt…  PersonInfo(name='张三', age=30,       PersonInfo  0.0
                                              skills=['Python', 'Go语言'])
✓  price             The book cost me 12.50…  Money(amount=Decimal('12.50'),        Money       0.0
                                              currency='EUR')
✓  topic_of × 3      I was charged twice fo…  ['billing', 'bug', 'delivery']        list        0.0
·  recipe_from       cucumber, tomato, feta…  Recipe(title='Greek Salad',           Recipe      0.0
                                              description='A fresh salad.',
                                              steps=['Chop all the vegetables.'],
                                              preparation_time_minutes=15)
                                              no single right value
·  recipe            CreateRecipePrompt: sa…  Recipe(title='Greek Salad',           Recipe      0.0
                                              description='A fresh salad.',
                                              steps=['Chop all the vegetables.'],
                                              preparation_time_minutes=15)
                                              no single right value
·  most_popular      FilmPrompt: 张艺谋       Film(title='英雄',                    Film        0.0
                                              director='张艺谋',
                                              publication_date=2002-10-24,
                                              description='A warrior.')
                                              no single right value
·  tell              a lighthouse             'A tower that shines.'                str         0.0
                                              no single right value
"""
REST = """\
text       {"title": "英雄", "director": "张艺谋", "publication_date": "2002-10-24", "description":…
usage      16 input tokens, 9 output tokens
finished   stop, 0.0 s, attempts: 1
strategy   json_schema
coercions  none: the text was exact

16 of 16 right; 4 more have no single right value. 0 s in all.
The prompts were tuned on these inputs with Qwen2.5-Coder-1.5B. Expect fewer right answers on other texts,
especially for times in words.

Another model:  make demo DEMO_MODEL=smollm2                 a small download, often wrong
                make demo DEMO_MODEL=openai:NAME             needs OPENAI_API_KEY, and costs money
                AISERVICES_MODEL=openai:NAME python -m samples.person
                create(PersonExtractor, model="openai:NAME") in a program of your own
"""
WRONG_ROW = """\
✗  is_positive       It's awful!              True                                  bool        0.0
                                              ✗ expected False
"""
ERROR_ROW = """\
✗  info              张三今年30岁,他擅长Pyt…  ServiceOutputError:                   error       0.0
                                              PersonExtractor.info: cannot read
                                              the reply: $.age: the required field
                                              'age' is missing; $.skills: the
                                              required field 'skills' is missing
                                              (the reply: '{"name": "张三"}')
                                              ✗ no value
"""
