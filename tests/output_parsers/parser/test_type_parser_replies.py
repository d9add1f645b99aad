"""Replies as models write them: clear replies are read, and ambiguous ones are refused."""

from __future__ import annotations

import dataclasses
import html
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, cast

import pytest
from annotated_types import Len
from pydantic import BaseModel, Field

from output_parsers import ItemReader, OutputParsingError, parse, parser_for


class Mood(Enum):
    POSITIVE = "positive"
    NEGATIVE = "negative"
    NEUTRAL = "neutral"


class Priority(Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Shade(Enum):
    RED = "red"
    DARK_RED = "dark red"


class City(BaseModel):
    name: str
    population: int = 0


class Person(BaseModel):
    first_name: str
    age: int
    tags: list[str] = []


class Book(BaseModel):
    title: str
    year: int


class Film(BaseModel):
    title: str
    director: str


PARIS, LYON = '{"name": "Paris"}', '{"name": "Lyon"}'
ANN = Person(first_name="Ann", age=30)
DAY = date(2024, 2, 13)
HOUR = timedelta(hours=1)

READ: list[tuple[Any, str, Any]] = [
    # numbers
    (int, "Total: 42 items.", 42),
    (int, "**42**", 42),
    (int, "minus forty-two", -42),
    (int, "1,00,000", 100_000),
    (int, "1.000.000", 1_000_000),
    (int, "2.5 billion dollars", 2_500_000_000),
    (int, "First 10, then 20. The answer is 30.", 30),
    (int, "<answer>42</answer>", 42),
    (int, "$\\boxed{42}$", 42),
    (int, "La respuesta es 42", 42),
    (int, "१२३", 123),
    (int, "6e23", 6 * 10**23),
    (float, "Temperature: -3.5°C", -3.5),
    (Decimal, "1.10", Decimal("1.10")),
    (dict[str, int], '{"a": 1,000, "b": 2}', {"a": 1000, "b": 2}),
    # dates, times, spans of time
    (date, "Tuesday, February 13, 2024", DAY),
    (date, "2024年2月13日", DAY),
    (date, "13.02.2024", DAY),
    (date, "2024-02-13 (Tuesday)", DAY),
    (datetime, "10:30 on February 13, 2024", datetime(2024, 2, 13, 10, 30)),
    (datetime, "The event starts at 2024-02-13T10:30:00.", datetime(2024, 2, 13, 10, 30)),
    (time, "The event starts at 10:30.", time(10, 30)),
    (time, "12 AM", time(0)),
    (timedelta, "1 hour and 30 minutes", HOUR * 1.5),
    (timedelta, "ninety minutes", HOUR * 1.5),
    # one of several
    (Mood, "Sentiment: positive\nReason: the user likes the food.", Mood.POSITIVE),
    (Mood, "positive - the user was happy", Mood.POSITIVE),
    (Mood, "Positive. The review mentions only good things.", Mood.POSITIVE),
    (Mood, "Positive (95% confidence)", Mood.POSITIVE),
    (Mood, "The answer is: **positive**.", Mood.POSITIVE),
    (Mood, "I would say it is negative", Mood.NEGATIVE),
    (Mood, "Label → positive", Mood.POSITIVE),
    (Mood, "positive ✅", Mood.POSITIVE),
    (Mood, "positive\n\npositive", Mood.POSITIVE),
    (Mood, "Ｐositive", Mood.POSITIVE),
    (Priority, "HIGH - very urgent", Priority.HIGH),
    (Shade, "It's a dark red.", Shade.DARK_RED),
    (Shade, "DARK_RED", Shade.DARK_RED),
    (Level, "The level is 2.", Level.HIGH),
    (Literal[2, 3], "2 is the answer", 2),
    (bool, "Yes, it is.", True),
    (bool, "No, not at all", False),
    (bool, "Unfortunately no", False),
    (bool, "Yes.\n\nExplanation: it is raining.", True),
    (bool, "1. Yes", True),
    (bool, "The answer is no.", False),
    # records
    (Person, "{first_name: Ann, age: 30,}", ANN),
    (Person, '{"First Name": "Ann", "AGE": "30"}', ANN),
    (Person, '{"first_name": "Ann" "age": 30}', ANN),
    (Person, '{"first_name": "Ann", "age": 30}}', ANN),
    (Person, '{"first_name": "Ann", "age": 30}<|im_end|>', ANN),
    (
        Person,
        'The schema is {"first_name": "string", "age": "integer"}.\n{"first_name": "Ann", "age": 30}',
        ANN,
    ),
    (Person, 'Is {"first_name": "Bo", "age": 3} wrong? </think> {"first_name": "Ann", "age": 30}', ANN),
    (Person, '"{\\"first_name\\": \\"Ann\\", \\"age\\": 30}"', ANN),
    (Person, '{"first_name": "Ann", "age": 30, "tags": "[\\"x\\"]"}', ANN.model_copy(update={"tags": ["x"]})),
    (dict[str, Any], '{"a": "He said, "no", and left", "b": 1}', {"a": 'He said, "no", and left', "b": 1}),
    (dict[str, Any], 'f(x) = {x | x > 0} and {"a": 1}', {"a": 1}),
    (dict[str, Any], "{'a': 'x', 'b': 'it's'}", {"a": "x", "b": "it's"}),
    # several blocks
    (City, f'```json\n{PARIS}\n```\nNote: this matches {{"type": "object"}}.', City(name="Paris")),
    (City, f"{LYON} was my first idea.\n```json\n{PARIS}\n```", City(name="Paris")),
    (City, f"Wrong: {LYON}\nRight: {PARIS}", City(name="Paris")),
    (City, f"Not {LYON} but {PARIS}", City(name="Paris")),
    (list[City], f"{PARIS}\n{LYON}", [City(name="Paris"), City(name="Lyon")]),
    (int | str, "```\n42\n```", 42),
    # lists
    (list[int], "1,2,3", [1, 2, 3]),
    (list[int], "1000,2000", [1000, 2000]),
    (list[int], "1. 5\n2. 6", [5, 6]),
    (list[int], "[1, 2, 3]\n\nThe sum is 6", [1, 2, 3]),
    (list[str], '["http://x.y/z", "//c"]', ["http://x.y/z", "//c"]),
    (list[str], "['it's', 'b']", ["it's", "b"]),
    # unions
    (Book | Film, '{"title": "X", "director": "Y"}', Film(title="X", director="Y")),
    (date | datetime, "2024-02-13", DAY),
    (int | float, "1.0", 1.0),
    (int | None, "None", None),
]

REFUSED: list[tuple[Any, str]] = [
    # numbers
    *(
        (int, text)
        for text in (
            "3 + 4 = 8",
            "at least 42",
            "42 max",
            "42-43",
            "#42",
            "42%",
            "10 minus 5",
        )
    ),
    *(
        (int, text)
        for text in ("1.000", "42.000", "(42)", "42 or so", "It isn't 42", "nicht 42", "不是42", "1 2/3")
    ),
    *(
        (int, text)
        for text in ("42nd", "3 dozen", "half a million", "5kx", "COVID-19", "8/10", "Answer: 1\nAnswer: 2")
    ),
    *(
        (int, text)
        for text in (
            "I'm 90% sure it's 42",
            "Python 3 gives 42",
            "4 out of 5",
            "seven or eight",
            "one of them",
        )
    ),
    (dict[str, int], '{"a": 350.000}'),
    (dict[str, int], '{"a": 1-2}'),
    (dict[str, int], '{"a": "5 zebras"}'),
    # dates, times, spans of time
    *((date, text) for text in ("01/02/2024", "Monday, February 13, 2024", "2024-02-30", "after 2024-02-13")),
    *((date, text) for text in ("two days after 2024-02-13", "13/02/24", "Born 1968-07-04, died 2001-01-01")),
    *(
        (datetime, text)
        for text in ("2024-02-13", "2024-02-13 9:05", "2024-02-13T10:30:00 PST", "1707820200")
    ),
    *((time, text) for text in ("9:05", "10:30-11:00", "13:30 PM", "10.30")),
    *(
        (timedelta, text)
        for text in ("90", "1 month", "at least 1 hour", "1 hour max", "every 5 minutes", "5m")
    ),
    # one of several: denied, bounded, asked, compared, crossed out, a word of another word
    *(
        (Mood, text)
        for text in ("positive?", "!positive", "¬positive", "~~positive~~", "❌ positive", "positive ❌")
    ),
    *(
        (Mood, text)
        for text in ("non-positive", "unpositive", "positivity", "not at all positive", "It isnt positive")
    ),
    *(
        (Mood, text)
        for text in ("far from positive", "lacks a positive tone", "fails to be positive", "less positive")
    ),
    *((Mood, text) for text in ("It avoids being negative", "rejected: positive", "nothing positive here")),
    *(
        (Mood, text)
        for text in ("Nobody calls it negative", "labelled positive by mistake", "would be positive")
    ),
    *((Mood, text) for text in ("Previously positive", "It used to be positive", "whether it is positive")),
    *(
        (Mood, text)
        for text in ("Positive: false", "positive: 0.1", "positive = 0", "Positive, if you ask me")
    ),
    *(
        (Mood, text)
        for text in ("nicht positive", "pas positive", "не positive", "positive 不是", "no es positive")
    ),
    *((Mood, text) for text in ("[ ] positive", "Possible labels: positive", "Is it positive? No.")),
    *(
        (Priority, text)
        for text in ("at least medium", "above medium", "up to high", "less than high", "medium-high")
    ),
    (Shade, "blue-ish, non-red"),
    (Level, "There is 1 issue"),
    (Literal[2, 3], "2 or 3"),
    *(
        (bool, text)
        for text in ("No idea", "no one knows", "There is no answer.", "I have no information", "No. 5")
    ),
    *(
        (bool, text)
        for text in ("Based on the text, he is old.", "He is on vacation", "Claim 1 is supported")
    ),
    *(
        (bool, text)
        for text in ("Yes, if it rains", "Yes?", "Yes and no", "not false", "It would be true", "Y/N")
    ),
    # records
    (Person, '{"first_name": "Ann", "age": 30, "age": 31}'),
    (Person, '{"first_name": "Ann", "age": 30, ...}'),
    (Person, '{"first_name": "Ann"}\n{"age": 30}'),
    (Person, '{"first_name": "Ann", "age": NaN}'),
    (Person, '{"first_name": "Ann", "age": 30, "tags": ["x", null]}'),
    (dict[str, Any], '{"a": "x", "b": "y}'),
    (dict[str, Any], '{"a": "x,"b": "y"}'),
    (dict[str, Any], '{"a": 1e400}'),
    (dict[str, Any], '{"a": [1, 2}'),
    # several blocks that differ, one that is taken back, one that is cut off
    (City, f"{PARIS}\n{LYON}"),
    (City, f"```json\n{PARIS}\n```\nor perhaps {LYON}"),
    (City, f'```json\n{PARIS}\n```\n```json\n{LYON}\n```\n{{"name": "Rome"}}'),
    (City, f"{PARIS} is not right"),
    (City, f"`{PARIS}` isn’t it"),
    (City, f'{PARIS}\nCorrection: {{"name": "Ly'),
    (City, f"{PARIS}\nCorrection: {{name: Ly: on"),
    (list[City], f"{PARIS}\n{LYON}\n{{"),
    (City, f'{PARIS}, "population": 5}}'),
    (City, f'{PARIS},\npopulation": 5}}'),
    (list[City], f"[{PARIS}] {LYON}]"),
    # lists
    (list[int], "1,234"),
    (list[int], "1,234, 5"),
    (list[int], "1 2 3"),
    (list[int], "[1, 2, ...]"),
    (list[str], "[link](http://x)"),
    (list[str], '["a, "b"]'),
    # unions
    (Book | Film, '{"title": "X", "director": "Y", "year": 1999}'),
    (Book | Film, '{"title": "X"}'),
    (int | None, "not applicable"),
]


@pytest.mark.parametrize(("tp", "text", "value"), READ)
def test_a_clear_reply_is_read(tp: Any, text: str, value: Any) -> None:
    found = parse(tp, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("tp", "text"), REFUSED)
def test_an_ambiguous_reply_is_refused(tp: Any, text: str) -> None:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    assert error.value.text == text
    assert error.value.problems != ()


PERSON = '{"first_name": "Ann \\"Lee\\"", "age": 30, "tags": ["x", "y, {z}"]}'
PEOPLE = f"[{PERSON}, {PERSON}]"


@pytest.mark.parametrize("before", ["", "```json\n", "Here it is: ", "<think>{</think>\n"])
@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (Person, PERSON),
        (Person, PERSON.replace('\\"', "*").replace('"', "'")),
        (dict[str, Any], PERSON),
        (list[Person], PEOPLE),
        (list[Any], PEOPLE),
        (Any, PEOPLE),
        (Person | list[Person] | None, PEOPLE),
    ],
)
def test_a_truncated_reply_is_never_a_value(tp: Any, text: str, before: str) -> None:
    parse(tp, before + text)
    for end in range(1, len(text)):
        with pytest.raises(OutputParsingError):
            parse(tp, before + text[:end])


@pytest.mark.parametrize(
    "text",
    [
        "```json [1, 2]```",
        "```json[1, 2]\n```",
        "```JSON [1, 2] ```",
        "``` [1, 2] ```",
        "~~~json [1, 2]\n~~~",
    ],
)
def test_a_list_on_the_line_that_opens_its_code_block_is_read(text: str) -> None:
    assert parse(list[int], text) == [1, 2]


@pytest.mark.parametrize("language", ["jsno", "jsson", "JSN", "son", "json5"])
def test_the_language_of_a_code_block_may_be_misspelt(language: str) -> None:
    assert parse(list[int], f"```{language}\n[1, 2]\n```") == [1, 2]


@pytest.mark.parametrize("language", ["no", "non", "example", "exemplo"])
def test_another_word_at_a_code_block_may_say_that_it_is_not_the_answer(language: str) -> None:
    with pytest.raises(OutputParsingError, match="may say that it is not the answer"):
        parse(list[int], f"```{language}\n[1, 2]\n```")


@dataclasses.dataclass
class Visitor:
    name: str
    age: int


VISITORS = [Visitor("Ann", 31), Visitor("Bo", 4)]


def test_json_whose_signs_are_spelled_in_another_way_is_read() -> None:
    for text in (
        '[{\\"name\\": \\"Ann\\", \\"age\\": 31}, {\\"name\\": \\"Bo\\", \\"age\\": 4}]',
        html.escape('[{"name": "Ann", "age": 31}, {"name": "Bo", "age": 4}]'),
        '［｛"name"："Ann"，"age"：31｝，｛"name"："Bo"，"age"：4｝］',
        "[{„name“: „Ann“, „age“: 31}, {„name”: „Bo”, „age”: 4}]",
    ):
        for wrapped in (text, f"```json\n{text}\n```", f"<think>Two people.</think>{text}"):
            assert parse(list[Visitor], wrapped) == VISITORS
        if "&" not in text:  # the iterator has refused an item before the reply is complete
            assert _items_of(Visitor, text) == VISITORS
    assert parse(Visitor, '{{"name": "Ann", "age": 31}}') == VISITORS[0]
    assert parse(dict[str, dict[str, int]], '{{"a": {{"b": 1}}}}') == {"a": {"b": 1}}
    assert parse(list[float], "[.5, -.25, 1.5]") == [0.5, -0.25, 1.5]
    assert parse(list[str], '["full，width：signs ｛｝", ".5"，"b"]') == [
        "full，width：signs ｛｝",
        ".5",
        "b",
    ]
    reading = parser_for(Visitor).read('{{"name": "Ann", "age": 31}}')
    assert [step.rule for step in reading.coercions] == ["JSON in other signs"]


def _items_of(item: Any, text: str) -> list[Any]:
    reader = ItemReader(item)
    found = [one for character in text for one in reader.feed(character)]
    return [*found, *reader.finish()]


def test_json_in_other_signs_that_is_not_exact_is_an_error() -> None:
    for text in (
        "{{name}}",
        '{{"name": "Ann", "age": }}',
        '{\\"name\\": \\"Ann\\", \\"age\\": 31',
        '{\\"name\\": "Ann", \\"age\\": 31}',
        '｛"name"："Ann"，"age"：31',
        '{&quot;name&quot;: "Ann", &quot;age&quot;: 31}',
    ):
        with pytest.raises(OutputParsingError):
            parse(Visitor, text)


def test_records_are_read_from_tables_csv_yaml_and_xml() -> None:
    for text in (
        "| name | age |\n|---|---|\n| Ann | 31 |\n| **Bo** | 4 |",
        "| Age | Name |\n|:--|--:|\n| 31 | Ann |\n| 4 | Bo |",
        "name,age\nAnn,31\nBo,4",
        '```csv\nname, age\n"Ann", 31\n"Bo", 4\n```',
        "- name: Ann\n  age: 31\n- name: Bo\n  age: 4",
    ):
        assert parse(list[Visitor], text) == VISITORS, text
    for text in (
        'name = "Ann"\nage = 31',
        "---\nname: Ann\nage: 31",
        "<visitor><name>Ann</name><age>31</age></visitor>",
        "<name>Ann</name>\n<age>31</age>",
    ):
        assert parse(Visitor, text) == VISITORS[0], text
    assert parse(list[str], "  - a\n  - b") == ["a", "b"]
    assert parse(list[str], '```yaml\n- "yes: quoted"\n- plain\n```') == ["yes: quoted", "plain"]


def test_records_in_tables_and_calls_fit_lists_with_constraints_and_lists_in_unions() -> None:
    table = "| name | age |\n|---|---|\n| Ann | 31 |\n| Bo | 4 |"
    assert parser_for(Annotated[list[Visitor], Len(2)]).parse(table) == VISITORS
    assert parser_for(list[Visitor] | None).parse(table) == VISITORS
    with pytest.raises(OutputParsingError, match="at least 3 items"):
        parser_for(Annotated[list[Visitor], Len(3)]).parse(table)
    calls = 'Visitor(name="Ann", age=31)', '{"name": "Ann", "age": 31}'
    for call in (*calls, f'<tool_call>{{"name": "Visitor", "arguments": {calls[1]}}}</tool_call>'):
        assert parser_for(Annotated[list[Visitor], Len(1)]).parse(call) == VISITORS[:1]
        assert parser_for(list[Visitor] | None).parse(call) == VISITORS[:1]
        with pytest.raises(OutputParsingError):
            parser_for(Annotated[list[Visitor], Len(2)]).parse(call)


@dataclasses.dataclass
class Note:
    text: str
    stars: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"Ann"', "Ann"),
        ('"Ann",', "Ann"),
        ("'it''s'", "it's"),
        (r'"a\nb \u00e9"', "a\nb é"),
        ("`x`", "x"),
        ("C#", "C#"),
        ("Dune: Part 2", "Dune: Part 2"),
        ("010", "010"),
        ("@ann, 'Bo' & Cy", "@ann, 'Bo' & Cy"),
    ],
)
def test_quotes_of_yaml_are_decoded_in_lines_of_keys_and_values(value: str, text: str) -> None:
    note = Note(text, 3)
    assert parse(Note, f"text: {value}\nstars: 3") == note
    assert parse(Note, f'"text" = {value}\nstars = 3') == note
    assert parse(list[Note], f"- text: {value}\n  stars: 3\n- stars: 3\n  text: {value}") == [note, note]


@pytest.mark.parametrize(
    "value",
    """Ann # not sure|#1|&a Ann|*a|**Ann**|!!str Ann|>-|~|[a, b]|{a: b}|"Ann" Lee|"a" and "b"|'Ann' Lee"""
    r"""|"Ann|Ann,|Ann;|"\e"|'C:\\new'""".split("|"),
)
def test_yaml_that_is_not_decoded_in_lines_of_keys_and_values_is_an_error(value: str) -> None:
    for reply in (f"text: {value}\nstars: 3", f"stars: 3\ntext: {value}"):
        with pytest.raises(OutputParsingError):
            parse(Note, reply)
    with pytest.raises(OutputParsingError):
        parse(list[Note], f"- text: {value}\n  stars: 3\n- text: b\n  stars: 4")


def test_numbers_of_lines_are_not_octal_and_cells_are_not_yaml() -> None:
    for reply in ("text: a\nstars: 010", "text: a\nstars: 3 # guess", "text: a\nstars: |"):
        with pytest.raises(OutputParsingError):
            parse(Note, reply)
    for cell in ("Ann # 1", '"Ann" Lee', "[a]", "*a"):
        note = Note(cell, 10)
        assert parse(Note, f"| text | stars |\n|---|---|\n| {cell} | 010 |") == note
        assert parse(Note, f"<text>{cell}</text><stars>10</stars>") == note


@pytest.mark.parametrize(
    "label", ["Total", "**Total**", "Grand total:", "Summe", "Gesamt", "合計", "总计：", "कुल", "Sub-total"]
)
def test_a_last_row_that_is_a_total_is_not_a_record(label: str) -> None:
    for reply in (
        f"text,stars\na,5\n{label},5",
        f"| text | stars |\n|---|---|\n| a | 5 |\n| {label} | **5** |",
        f"- text: a\n  stars: 5\n- text: {label.strip('*:')}\n  stars: 5",
    ):
        with pytest.raises(OutputParsingError):
            parse(list[Note], reply)
    with pytest.raises(OutputParsingError):
        parse(dict[str, int], f"- a: 5\n- b: 2\n- {label.rstrip(':：')}: 7")
    for item in (f"{label.rstrip(':：')}: 7", f"{label.rstrip(':：')} 7", f"{label.rstrip(':：')} – $7"):
        with pytest.raises(OutputParsingError):
            parse(list[str], f"- a\n- b\n- {item}")


def test_a_word_for_a_total_is_a_value_before_the_last_row_and_if_the_type_has_it() -> None:
    @dataclasses.dataclass
    class Sum:
        text: Literal["a", "Total"]
        stars: int

    csv = "text,stars\n{},5\n{},5"
    assert parse(list[Note], csv.format("Total", "a")) == [Note("Total", 5), Note("a", 5)]
    assert parse(list[Note], csv.format("a", "Total Recall")) == [Note("a", 5), Note("Total Recall", 5)]
    assert parse(list[Sum], csv.format("a", "Total")) == [Sum("a", 5), Sum("Total", 5)]
    asked = Annotated[list[Note], Field(description="All rows, with the total.")]
    assert parser_for(asked).parse(csv.format("a", "Total")) == [Note("a", 5), Note("Total", 5)]
    assert parse(list[str], "- Name\n- Total") == ["Name", "Total"]


def test_a_sentence_after_csv_is_not_a_record() -> None:
    @dataclasses.dataclass
    class Resident:
        name: str
        city: str

    assert parse(list[Resident], "name,city\nAnn,Rome\nBo,Oslo") == [
        Resident("Ann", "Rome"),
        Resident("Bo", "Oslo"),
    ]
    for ending in (
        "\nSorry, this is a guess.",
        "\n\nBut wait, no",
        "\nNote: Cy, unknown (not sure)",
        "\nOr, is it Oslo?",
    ):
        with pytest.raises(OutputParsingError):
            parse(list[Resident], f"name,city\nAnn,Rome{ending}")


def test_a_record_whose_fields_look_like_a_tool_call_is_read_as_its_fields() -> None:
    @dataclasses.dataclass
    class Step:
        name: str
        input: dict[str, str]

    assert parse(Step, '{"name": "Step", "input": {"name": "x"},}') == Step("Step", {"name": "x"})


def test_tables_and_xml_that_are_not_complete_records_are_errors() -> None:
    for text in (
        "| name | age |\n|---|---|\n| Ann | 31 |\n| Bo | |",
        "| name | age |\n|---|---|\n| Ann | 31 |\n| ... | ... |",
        "| name | height |\n|---|---|\n| Ann | 31 |\n| Bo | 4 |",
        "For example:\n\n| name | age |\n|---|---|\n| Ann | 31 |\n| Bo | 4 |",
        "name,age\nAnn,31\nBo",
        "name,age\nAnn,31\n\nBo,4",
        "name,age\nAnn,31,5\nBo,4,6",
        "- name: Ann\n- age: 31",
    ):
        with pytest.raises(OutputParsingError):
            parse(list[Visitor], text)
    for text in (
        "<draft><name>Ann</name><age>31</age></draft>",
        "<name>Ann</name> maybe <age>31</age>",
        "<name>Ann</name><age>31</age><age>32</age>",
    ):
        with pytest.raises(OutputParsingError):
            parse(Visitor, text)


def test_an_answer_is_read_from_tool_calls_beside_explanations_and_before_reasoning() -> None:
    fields = '{"name": "Ann", "age": 31}'
    for text in (
        f'{{"name": "Visitor", "parameters": {fields}}}',
        f'{{"name": "Visitor", "input": {fields}}}',
        f'{{"name": "Visitor", "arguments": {json.dumps(fields)}}}',
        f'{{"type": "function", "function": {{"name": "Visitor", "arguments": {fields}}}}}',
        f"{fields}\n<think>Both fields are filled in.</think>",
    ):
        assert parse(Visitor, text) == VISITORS[0], text
    for text in (
        f'{{"name": "Other", "parameters": {fields}}}',
        f"{fields}\n<think>Wait, the age should be 4.</think>",
    ):
        with pytest.raises(OutputParsingError):
            parse(Visitor, text)
    assert parse(list[str], '{"answer": ["rye"], "explanation": "It is a cereal."}') == ["rye"]
    assert parse(int, '{"score": 4, "reason": "The text is good."}') == 4
    for text in ('{"answer": 4, "explanation": "I am not sure."}', '{"answer": 4, "value": 5}'):
        with pytest.raises(OutputParsingError):
            parse(int, text)


def test_other_separators_quotes_and_wrappings_of_formulas_are_read_if_all_of_the_json_has_them() -> None:
    @dataclasses.dataclass
    class Person:
        name: str
        age: int

    ann = Person("Ann", 3)
    for type_, text, value in [
        (Person, '\\boxed{{"name": "Ann", "age": 3}}', ann),
        (Person, '{"name": "Ann"; "age": 3}', ann),
        (Person, '{"name": "Ann", "age": "3 years old"}', ann),
        (list[int], "\\[ [2, 3] \\]", [2, 3]),
        (list[int], "$\\boxed{[9, 27]}$", [9, 27]),
        (list[float], "[−1.5, 2.]", [-1.5, 2.0]),
        (list[float], "[1.5; 2.5]", [1.5, 2.5]),
        (list[str], '["東京"、"大阪"]', ["東京", "大阪"]),
        (list[str], "[«a», « b »]", ["a", "b"]),
        (list[str], '"a", "b"', ["a", "b"]),
        (list[str], "<answer>\n<item>a</item>\n<item>b &amp; c</item>\n</answer>", ["a", "b & c"]),
        (
            dict[str, int],
            "| Team | Points |\n|---|---|\n| Ajax | 41 |\n| PSV | 44 |",
            {"Ajax": 41, "PSV": 44},
        ),
        (
            list[Person],
            '```json\n{"name": "Ann", "age": 3}\n```\n\n```json\n{"name": "Bo", "age": 4}\n```',
            [ann, Person("Bo", 4)],
        ),
    ]:
        assert parse(cast(Any, type_), text) == value
    for type_, text in [
        (list[float], "[1,5; 2,5]"),  # decimal commas
        (list[float], "[1;2,5]"),
        (list[float], "[1−5]"),
        (list[str], '"a", "b'),
        (list[str], '"a", "b" or "c"'),
        (list[str], "[«a», b]"),
        (list[str], "<item>a</item>\n<item>...</item>"),
        (list[str], "<item>a</item>\n<item>b"),
        (dict[str, int], "| Team | Points |\n|---|---|\n| Ajax | 41 |\n| PSV | … |"),
        (dict[str, int], "| Team | Points |\n|---|---|\n| Ajax | 41 |\n| Total | 41 |"),
        (Person, '```json\n{"name": "Ann", "age": 3}\n```\n\n```json\n{"name": "Bo", "age": 4}\n```'),
    ]:
        with pytest.raises(OutputParsingError):
            parse(cast(Any, type_), text)
