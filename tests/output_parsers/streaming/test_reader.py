"""Snapshots of an incomplete reply show only values that later text cannot change."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from growth import MAX_GROWTH, growing, growth
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import to_jsonable_python

from output_parsers import OutputParsingError, parser_for, read
from output_parsers.prose.fillers import is_value
from output_parsers.streaming import PartialList, PartialObject, PartialReader, Snapshot

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"


class Mood(Enum):
    GLAD = "glad"
    GLOOMY = "gloomy"


class Skill(BaseModel):
    name: str
    years: int = 0


class Person(BaseModel):
    first_name: str
    age: int
    mood: Mood | None = None
    born: date | None = None
    skills: list[Skill] = []
    notes: str | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str
    tricks: list[str] = []


class Tree(BaseModel):
    label: str
    children: list[Tree] = []


@dataclass
class Point:
    x: float
    y: float
    tags: set[str] = field(default_factory=set)


class Pair(NamedTuple):
    left: int
    right: str


class Movie(TypedDict):
    title: str
    year: int


class Loud(BaseModel):
    name: str
    word: str

    @field_validator("word")
    @classmethod
    def loud(cls, word: str) -> str:
        return word.upper()


class Sum(BaseModel):
    first: int
    second: int
    note: str = ""

    @field_validator("second")
    @classmethod
    def total(cls, second: int, info: ValidationInfo) -> int:
        return int(info.data["first"]) + second

    @field_validator("note", mode="before")
    @classmethod
    def short(cls, note: str) -> str:
        if note == "bad":
            raise ValueError("it is bad")
        return note[:2]


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, frozen=True)
    name: str
    kids: list[Stripped] = []


class Aliased(BaseModel):
    model_config = ConfigDict(extra="allow")
    first: str = Field(alias="firstValue")
    second: str = ""


def partial_value(form: Any, *chunks: str) -> Any:
    reader: PartialReader[Any] = PartialReader(form)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.snapshot().to_python()


TABLE: list[tuple[Any, str, Any]] = [
    (Person, "", None),
    (Person, "Here you", None),
    (Person, "{", {}),
    (Person, '{"first_na', {}),
    (Person, '{"first_name":', {}),
    (Person, '{"first_name": "', {"first_name": ""}),
    (Person, '{"first_name": "An', {"first_name": "An"}),
    (Person, '{"first_name": "A\\u00e', {"first_name": "A"}),
    (Person, '{"first_name": "A\\u00e9', {"first_name": "Aé"}),
    (Person, '{"first_name": "A\\ud83d', {"first_name": "A"}),
    (Person, '{"first_name": "A\\ud83d\\ude0', {"first_name": "A"}),
    (Person, '{"first_name": "A\\ud83d\\ude00', {"first_name": "A😀"}),
    (Person, '{"first_name": "A\\', {"first_name": "A"}),
    (Person, '{"first_name": "A\\n', {"first_name": "A"}),  # which may become \\neq
    (Person, '{"first_name": "A\\nB', {"first_name": "A\nB"}),
    (Person, '{"first_name": "A\\nab ', {"first_name": "A\nab "}),
    (Person, '{"first_name": "A\\neq ', {"first_name": "A"}),
    (Person, '{"first_name": "C:\\temp\\rust', {"first_name": "C:"}),
    (Person, '{"age": 4', {}),
    (Person, '{"age": 42', {}),
    (Person, '{"age": 42,', {}),  # it may yet be 42,000
    (Person, '{"age": 42, ', {"age": 42}),
    (Person, '{"age": 42}', {"age": 42}),
    (Person, '{"age": 42 // years', {"age": 42}),
    (Person, '{"age": 42\n', {}),
    (Person, '{"age": 42\n"first_name": "A', {"age": 42, "first_name": "A"}),
    (Person, '{"age": 1,234, ', {}),
    (Person, '{"age": "42', {}),
    (Person, '{"age": "forty two", "', {"age": 42}),
    (Person, '{"age": "no idea", "first_name": "A', {"first_name": "A"}),
    (Person, '{"mood": "gl', {}),
    (Loud, '{"word": "hey', {}),  # the validator may change the text
    (Loud, '{"word": "hey", "', {"word": "HEY"}),
    (Loud, '{"word": "hey", "name": "A', {"word": "HEY", "name": "A"}),
    (Sum, '{"first": 1, "second": 2, ', {"first": 1, "second": 3}),
    (Sum, '{"second": 2, "note": "long", "f', {"note": "lo"}),  # the validator of second needs first
    (Sum, '{"second": 2, "first": 1}', {"first": 1, "second": 3, "note": ""}),
    (Sum, '{"first": 1, "note": "bad", ', {"first": 1}),
    (Stripped, '{"name": " Ann ", "ki', {"name": "Ann"}),
    (Stripped, '{"name": " Ann ", "kids": [{"name": " Ben', {"name": "Ann"}),
    (
        Stripped,
        '{"name": " Ann ", "kids": [{"name": " Ben "}], ',
        {"name": "Ann", "kids": [{"name": "Ben", "kids": []}]},
    ),
    (Person, '{"mood": "glad"', {}),
    (Person, '{"mood": "glad", "', {"mood": "glad"}),
    (Person, '{"mood": null, "', {"mood": None}),
    (Person, '{"born": "1968-07-04", "', {"born": "1968-07-04"}),
    (Person, '{"notes": "n', {"notes": "n"}),
    (Person, '{"notes": nul', {}),
    (Person, '{"notes": null, "', {"notes": None}),
    (Person, '{"FirstName": "A', {"first_name": "A"}),
    (Person, '{"first name": "A", "first_name": "B', {"first_name": "A"}),
    (Person, '{"unknown": "A', {}),
    (Person, '{"unknown": {"age": [1, 2]}, "age": 3, ', {"age": 3}),
    (Person, "{'first_name': 'it\\'s", {"first_name": "it's"}),
    (Person, "{'first_name': 'it's", {"first_name": "it's"}),
    (Person, "{first_name: 'A', age: 4, ", {"first_name": "A", "age": 4}),
    (Person, '{/* hi */ "age": /* 3 */ 4 /* , */, ', {"age": 4}),
    (Person, '{"skills": [', {"skills": []}),
    (Person, '{"skills": [{', {"skills": [{}]}),
    (Person, '{"skills": [{"name": "Py', {"skills": [{"name": "Py"}]}),
    (Person, '{"skills": [{"name": "Py"}', {"skills": [{"name": "Py", "years": 0}]}),
    (Person, '{"skills": [{"years": 3}, {"na', {"skills": [{"years": 3}, {}]}),
    (Person, '{"skills": [7, {"name": "a"', {"skills": [{"name": "a"}]}),
    (Person, '{"first_name": "say "hi" to', {"first_name": 'say "hi" to'}),
    (Person, '{"first_name": "6" or 7", "age": 3, ', {"first_name": '6" or 7', "age": 3}),
    (Person, '{"first_name": "6", or 7", "age": 3, ', {"first_name": "6"}),  # the complete text is refused
    (Person, '<think>{"age": 1, "', None),
    (Person, '<think>{"age": 1}</think>\n{"age": 2, ', {"age": 2}),
    (Person, 'Sure [see {name}]:\n```json\n{"age": 2, ', {"age": 2}),
    (Person, '{} and now {"age": 2, ', {"age": 2}),
    (Skill, '{"name": "A", "years": 3} {"years": 4, ', {"name": "A", "years": 3}),
    (list[int], "[1", []),
    (list[int], "[1, 2", [1]),
    (list[int], "[1, 2 # two", [1, 2]),
    (list[int], "{'a': [1, 2, 3]} [4, ", [4]),
    (list[str], '["a", "b', ["a", "b"]),
    (list[str], '["a", "b", ', ["a", "b"]),
    (list[list[int]], "[[1, 2], [3, ", [[1, 2], [3]]),
    (set[str], '["a", "b', ["a", "b"]),
    (tuple[int, str, list[int]], '[1, "a', [1, "a"]),
    (tuple[int, str, list[int]], '[1, "a", [2, ', [1, "a", [2]]),
    (dict[str, int], '{"a": 1, "b": 2', {"a": 1}),
    (dict[int, list[str]], '{"1": ["a", "b', {"1": ["a", "b"]}),
    (dict[str, Any], '{"a": {"b": [1.5, "c', {"a": {"b": [1.5, "c"]}}),
    (Any, '[{"a": "b', [{"a": "b"}]),
    (Cat | Dog, '{"kind": "do', None),
    (Cat | Dog, '{"kind": "dog", "name": "Re', {"kind": "dog", "name": "Re"}),
    (
        Cat | Dog,
        '{"name": "Rex", "kind": "dog", "tricks": ["si',
        {"name": "Rex", "kind": "dog", "tricks": ["si"]},
    ),
    (list[Cat | Dog], '[{"kind": "cat", "name": "T"}, {"kind": "dog"', [{"kind": "cat", "name": "T"}]),
    (Skill | Tree, '{"name": "a", "years": 1', None),
    (Skill | Tree, '{"name": "a", "years": 1}', {"name": "a", "years": 1}),
    (dict[str, int | str], '{"a": "1', {"a": "1"}),
    (dict[str, date | str], '{"a": "1968', {}),
    (dict[str, Mood | str], '{"a": "glad", "', {"a": "glad"}),
    (
        Tree,
        '{"label": "a", "children": [{"label": "b", "children": [{"label": "c',
        {"label": "a", "children": [{"label": "b", "children": [{"label": "c"}]}]},
    ),
    (Point, '{"x": 1.5, "y": 2, "tags": ["a", "b', {"x": 1.5, "y": 2.0, "tags": ["a", "b"]}),
    (Pair, '{"left": 1, "right": "a', {"left": 1, "right": "a"}),
    (Movie, '{"title": "M", "year": 1931', {"title": "M"}),
    (Loud, '{"word": "abc", "name": "d', {"name": "d", "word": "ABC"}),
    (Loud, '{"word": "abc", "name": "d"}', {"name": "d", "word": "ABC"}),
    (Aliased, '{"firstValue": "a", "third": [1], "second": "b', {"first": "a", "second": "b"}),
    (Aliased, '{"firstValue": "a", "third": [1]}', {"first": "a", "second": "", "third": [1]}),
    (Annotated[list[int], Field(max_length=2)], "[1, 2, ", [1, 2]),
    (Annotated[list[int], AfterValidator(sorted)], "[2, 1, ", None),
    (dict[str, Annotated[str, Field(min_length=2)]], '{"a": "bc', {}),
    (str, "", None),
    (str, "Hello wor", "Hello wor"),
    (str, " <th", None),
    (str, " <the", " <the"),
    (str, "<think>a</think>\n Hello ", "Hello"),
    (str, "<think>a</think>\n Hello w", "Hello w"),
    (int, "42", None),
    (bool | None, "true", None),
    (Mood, "glad", None),
]


@pytest.mark.parametrize(("form", "text", "expected"), TABLE)
def test_a_snapshot_shows_only_certain_values(form: Any, text: str, expected: Any) -> None:
    assert partial_value(form, text) == expected
    assert partial_value(form, *text) == expected  # one character a chunk


def test_views_are_read_by_name_and_by_index() -> None:
    reader = PartialReader(Person)
    reader.feed('{"first_name": "Ann", "age": 3, "skills": [{"name": "Py", "years": 2}, {"name": "G')
    view = reader.snapshot().value
    assert isinstance(view, PartialObject)
    assert view.first_name == "Ann"
    assert view["age"] == 3
    assert view.mood is None
    assert view.keys() == ["first_name", "age", "skills"] == list(view)
    assert len(view) == 3
    assert "mood" not in view
    assert view.skills[0] == Skill(name="Py", years=2)
    assert view.skills[-1] == {"name": "G"}
    assert view.skills[:1] == [Skill(name="Py", years=2)]
    assert isinstance(view.skills, PartialList)
    assert [view.done(name) for name in ("first_name", "skills", "mood")] == [True, False, False]
    assert [view.skills.done(index) for index in (0, 1, 2, -1)] == [True, False, False, False]
    assert repr(view) == (
        "PartialObject({'first_name': 'Ann', 'age': 3, "
        "'skills': PartialList([Skill(name='Py', years=2), PartialObject({'name': 'G'})])})"
    )
    with pytest.raises(KeyError, match="mood"):
        view["mood"]
    with pytest.raises(AttributeError, match="there is no field 'moood'; the fields are: first_name, age"):
        _ = view.moood
    with pytest.raises(IndexError, match="there is no item 2 yet"):
        view.skills[2]


def test_is_done_of_a_name_that_is_not_a_field_is_an_error() -> None:
    @dataclass
    class City:
        name: str
        population: int

    reader = PartialReader(City)
    reader.feed('{"name": "Ro')
    assert reader.snapshot().is_done("population") is False
    with pytest.raises(AttributeError, match="no field 'populaton'; the fields are: name, population"):
        reader.snapshot().is_done("populaton")
    counts = PartialReader(dict[str, int])
    counts.feed('{"a": 1')
    assert counts.snapshot().is_done("b") is False


def test_is_done_tells_if_the_part_at_a_path_is_complete() -> None:
    reader = PartialReader(Person)
    reader.feed('{"age": 3, "skills": [{"name": "Py", "years": 2}, {"name": "Go", "years": 1')
    paths: list[tuple[str | int, ...]] = [
        (), ("age",), ("skills",), ("skills", 0), ("skills", 0, "name"), ("skills", 1), ("skills", 1, "name"),
        ("skills", 1, "years"), ("first_name",), ("first_name", "x"),
    ]  # fmt: skip
    done = [path for path in paths if reader.snapshot().is_done(*path)]
    assert done == [("age",), ("skills", 0), ("skills", 0, "name"), ("skills", 1, "name")]
    reader.feed('}], "first_name": "A"}')
    assert all(reader.snapshot().is_done(*path) for path in paths)


def test_complete_parts_are_instances_of_their_classes() -> None:
    reader = PartialReader(dict[str, Point | Pair])
    reader.feed('{"a": {"x": 1, "y": 2, "tags": ["t"]}, "b": {"left": 1, "right": "r"}, "c": {')
    value = reader.snapshot().value
    assert value == {"a": Point(1.0, 2.0, {"t"}), "b": Pair(1, "r")}
    reader.feed('"left": 2, "right": "s"}}')
    snapshot = reader.snapshot()
    assert snapshot.done
    assert snapshot.value == {"a": Point(1.0, 2.0, {"t"}), "b": Pair(1, "r"), "c": Pair(2, "s")}
    assert type(snapshot.value) is dict


def test_decimals_are_exact() -> None:
    reader = PartialReader(dict[str, Decimal])
    reader.feed('{"a": 0.1000000000000000000000001, "')
    assert reader.snapshot().value == {"a": Decimal("0.1000000000000000000000001")}


def test_snapshots_do_not_show_the_envelope() -> None:
    enveloped = parser_for(list[str]).with_envelope()
    for text, expected in [
        ('{"val', None),
        ('{"value": [', []),
        ('{"value": ["a", "b', ["a", "b"]),
        ('["a", "b', ["a", "b"]),
        ('{"value": ["a", "b"]', ["a", "b"]),
    ]:
        reader: PartialReader[list[str]] = PartialReader(enveloped)
        reader.feed(text)
        assert reader.snapshot().to_python() == expected
    text_reader: PartialReader[str] = PartialReader(parser_for(str).with_envelope("answer"))
    text_reader.feed('{"answer": "gro')
    assert text_reader.snapshot().value == "gro"
    person: PartialReader[Person] = PartialReader(parser_for(Person).with_envelope())
    person.feed('{"first_name": "A')
    assert person.snapshot().to_python() == {"first_name": "A"}
    number: PartialReader[int] = PartialReader(parser_for(int).with_envelope())
    number.feed('{"value": 42')
    assert number.snapshot().value is None
    number.feed("}")
    assert (number.snapshot().value, number.snapshot().done) == (42, True)


def test_finish_reads_the_whole_text_as_read_does() -> None:
    text = 'Sure:\n```json\n{"FirstName": "A", "age": "3"}\n```'
    reader = PartialReader(Person)
    for char in text:
        reader.feed(char)
    assert reader.text == text
    assert reader.finish() == read(Person, text)
    assert reader.snapshot().value == Person(first_name="A", age=3)


def test_finish_raises_for_a_text_that_is_cut_off() -> None:
    reader = PartialReader(Person)
    reader.feed('{"first_name": "A", "age": 3')
    with pytest.raises(OutputParsingError) as error:
        reader.finish()
    with pytest.raises(OutputParsingError) as same:
        read(Person, reader.text)
    assert str(error.value) == str(same.value)


def test_an_object_that_turns_out_invalid_stays_visible() -> None:
    reader = PartialReader(dict[str, Skill])
    reader.feed('{"a": {"name": "Py", "years": "?"')
    assert reader.snapshot().value == {"a": {"name": "Py"}}
    reader.feed('}, "b": {"years": 1}, "c": {"na')
    snapshot = reader.snapshot()
    assert snapshot.value == {"a": {"name": "Py"}, "b": {"years": 1}, "c": {}}
    assert [snapshot.is_done(name) for name in "abc"] == [False, False, False]


def test_an_earlier_snapshot_never_changes() -> None:
    text = '{"first_name": "Ann", "age": 3, "skills": [{"name": "Py", "years": 2}, {"name": "Go"}]}'
    looked_at_early, looked_at_late = [], []
    reader = PartialReader(Person)
    for char in text:
        reader.feed(char)
        late, once = reader.snapshot(), reader.snapshot()
        looked_at_late.append(late)
        looked_at_early.append((once, repr(once)))
    assert [repr(snapshot) for snapshot, _ in looked_at_early] == [before for _, before in looked_at_early]
    assert [repr(snapshot) for snapshot in looked_at_late] == [before for _, before in looked_at_early]


def test_complete_parts_are_converted_to_plain_data_once() -> None:
    reader = PartialReader(Person)
    reader.feed('{"skills": [{"name": "Py"}, {"name": "G')
    before = reader.snapshot().to_python()
    reader.feed("o")
    after = reader.snapshot().to_python()
    assert before == {"skills": [{"name": "Py", "years": 0}, {"name": "G"}]}
    assert after == {"skills": [{"name": "Py", "years": 0}, {"name": "Go"}]}
    assert after["skills"][0] is before["skills"][0]
    before["skills"].clear()
    assert reader.snapshot().to_python() == after


# Every snapshot agrees with the final value.

NAMES = st.text(max_size=12).filter(is_value)
TEXTS = st.one_of(
    st.text(max_size=30).filter(is_value),
    st.sampled_from(['"', 'a"b', "{}", "\\n", "1,000", "it's", "// no", "\u2028"]),
)
VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Person, st.builds(
        Person, first_name=TEXTS, age=st.integers(), mood=st.sampled_from([*Mood, None]),
        born=st.one_of(st.none(), st.dates()), notes=st.one_of(st.none(), TEXTS),
        skills=st.lists(st.builds(Skill, name=TEXTS, years=st.integers(0, 99)), max_size=3),
    )),
    (list[int], st.lists(st.integers(), max_size=5)),
    (list[float], st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=4)),
    (list[str], st.lists(TEXTS, max_size=5)),
    (list[list[str]], st.lists(st.lists(TEXTS, max_size=3), max_size=3)),
    (dict[str, int | str], st.dictionaries(TEXTS, st.one_of(st.integers(), TEXTS), max_size=4)),
    (dict[str, Any], st.dictionaries(TEXTS, st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
        lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(TEXTS, inside, max_size=3)),
        max_leaves=6), max_size=4)),
    (list[Cat | Dog], st.lists(st.one_of(
        st.builds(Cat, kind=st.just("cat"), name=TEXTS),
        st.builds(Dog, kind=st.just("dog"), name=TEXTS, tricks=st.lists(TEXTS, max_size=2))), max_size=3)),
    (Tree, st.recursive(
        st.builds(Tree, label=TEXTS),
        lambda inside: st.builds(Tree, label=TEXTS, children=st.lists(inside, max_size=2)),
        max_leaves=4)),
    (tuple[int, str, list[bool]], st.tuples(st.integers(), TEXTS, st.lists(st.booleans(), max_size=3))),
    (Point, st.builds(Point, x=st.floats(-9, 9), y=st.floats(-9, 9), tags=st.sets(NAMES, max_size=3))),
]  # fmt: skip


def dump(value: Any, draw: Any) -> str:
    """Dump a value as a model may write it, in JSON that the parser of complete replies accepts."""
    data = to_jsonable_python(value)
    text = json.dumps(data, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
    frame: str = draw(
        st.sampled_from(["{}", "Here it is:\n```json\n{}\n```\nBye", "<think>[1] {{}}</think>{}", "```{}"])
    )
    return frame.replace("{{}}", '{"a": 1}').replace("{}", text, 1)


def pieces(text: str, draw: Any) -> Iterator[str]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=40)))
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        yield text[start:end]


def agrees(part: Any, end: Any, *, done: bool) -> bool:
    """Return True if the value so far may become the final value."""
    if part is None and not done:
        return True
    if isinstance(part, PartialObject):
        return all(agrees(part[key], _member(end, key), done=part.done(key)) for key in part)
    if isinstance(part, PartialList):
        if isinstance(end, (set, frozenset)):
            return all(item in list(end) or not part.done(index) for index, item in enumerate(part))
        return len(part) <= len(end) and all(
            agrees(item, end[index], done=part.done(index)) for index, item in enumerate(part)
        )
    if isinstance(part, str) and type(part) is str and not done:
        return isinstance(end, str) and end.startswith(part)
    return bool(part == end) and type(part) is type(end)


def _member(value: Any, key: Any) -> Any:
    return value[key] if isinstance(value, dict) else getattr(value, key)


def _done_paths(part: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    if not isinstance(part, (PartialObject, PartialList)):
        return set()
    keys: list[Any] = part.keys() if isinstance(part, PartialObject) else list(range(len(part)))
    done_paths = {(*path, key) for key in keys if part.done(key)}
    return done_paths.union(*(_done_paths(part[key], (*path, key)) for key in keys))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_snapshot_agrees_with_the_final_value(data: st.DataObject) -> None:
    form, values = data.draw(st.sampled_from(VALUES))
    text = dump(data.draw(values), data.draw)
    reader: PartialReader[Any] = PartialReader(form)
    snapshots = []
    for piece in pieces(text, data.draw):
        reader.feed(piece)
        snapshots.append((reader.snapshot(), repr(reader.snapshot()) if data.draw(st.booleans()) else ""))
    last = reader.snapshot()
    end = reader.finish().value
    assert last.done
    assert last.value == end
    done: set[tuple[Any, ...]] = set()
    for snapshot, before in snapshots:
        assert not before or repr(snapshot) == before
        assert agrees(snapshot.value, end, done=snapshot.done)
        assert all(snapshot.is_done(*path) for path in done)
        done = _done_paths(snapshot.value)


ODD = st.text(alphabet=st.sampled_from("{}[]\"':,\\ntrue1.-e/*#<think>a \n`("), max_size=60)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_snapshots_do_not_depend_on_when_they_are_looked_at(data: st.DataObject) -> None:
    form, values = data.draw(st.sampled_from(VALUES))
    text = dump(data.draw(values), data.draw)
    text = text[: data.draw(st.integers(0, len(text)))] + data.draw(st.one_of(st.just(""), ODD))
    often: PartialReader[Any] = PartialReader(form)
    seldom: PartialReader[Any] = PartialReader(form)
    looked_at = []
    for piece in pieces(text, data.draw):
        often.feed(piece)
        seldom.feed(piece)
        snapshot = often.snapshot()
        looked_at.append((snapshot, repr(snapshot), json.dumps(snapshot.to_python())))
        if data.draw(st.booleans()):
            same = seldom.snapshot()
            assert repr(same) == repr(snapshot)
            assert same.to_python() == snapshot.to_python()
            assert _done_paths(same.value) == _done_paths(snapshot.value)
    for snapshot, shown, plain in looked_at:
        assert repr(snapshot) == shown
        assert json.dumps(snapshot.to_python()) == plain


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.one_of(ODD, st.text(max_size=40)))
def test_feed_raises_for_no_text_and_chunks_do_not_matter(data: st.DataObject, text: str) -> None:
    form = data.draw(st.sampled_from([form for form, _ in VALUES] + [str, Any, int | None, Aliased, Loud]))
    text = data.draw(st.sampled_from(["", "{", "[", '{"first_name": "', '[{"kind": "cat", "name'])) + text
    whole: PartialReader[Any] = PartialReader(form)
    whole.feed(text)
    parts: PartialReader[Any] = PartialReader(form)
    shown_before: Any = None
    for piece in pieces(text, data.draw):
        parts.feed(piece)
        shown_now = parts.snapshot().to_python()
        assert _grew(shown_before, shown_now), (shown_before, shown_now)
        shown_before = shown_now
    assert parts.snapshot().to_python() == whole.snapshot().to_python()
    try:
        whole.finish()
    except OutputParsingError:
        pass


def _grew(before: Any, now: Any) -> bool:
    if before is None:
        return True
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in now and _grew(before[key], now[key]) for key in before)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) <= len(now) and all(map(_grew, before, now))
    return bool(before == now) or (
        isinstance(before, str) and isinstance(now, str) and now.startswith(before)
    )


# Cost.


def in_chunks(output_type: Any, look: Callable[[Snapshot[Any]], Any]) -> Callable[[str], None]:
    """Return a function that reads a text in chunks of 50 characters and looks at each snapshot."""

    def read(text: str) -> None:
        reader = PartialReader(output_type)
        for start in range(0, len(text), 50):
            reader.feed(text[start : start + 50])
            look(reader.snapshot())

    return read


def test_cost_is_linear_in_the_text() -> None:
    read = in_chunks(dict[str, Any], lambda snapshot: snapshot.value)
    bodies = ["a", "\\u00e9", "\\d", "1", " ", "[", '{"a":', '"', "x, ", "<", "\\", "\n"]
    assert growing(read, bodies, '{"a": "') == {}


LOOKS: list[Callable[[Snapshot[Any]], Any]] = [
    lambda snapshot: snapshot.value,
    lambda snapshot: snapshot.to_python(),
]


@pytest.mark.parametrize("look", LOOKS)
def test_cost_per_chunk_does_not_grow_with_the_text(look: Callable[[Snapshot[Any]], Any]) -> None:
    person = {"first_name": "Ann \u00e9", "age": 33, "skills": [{"name": "Py", "years": 3}], "notes": "a\nb"}
    assert growth(in_chunks(list[Person], look), json.dumps(person) + ", ", "[") <= MAX_GROWTH


def test_escaped_quotes_in_json_that_is_skipped_take_linear_time() -> None:
    assert growth(lambda text: PartialReader(Point).feed(text), '\\"', "[1, ") <= MAX_GROWTH


def test_the_corpus_of_partial_replies_is_read() -> None:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of replies is missing")
    sys.path[:0] = [str(CORPUS), str(Path(__file__).parents[2] / "conformance")]
    try:
        import partial_adapter  # type: ignore[import-not-found]
        import run  # type: ignore[import-not-found]

        adapter = partial_adapter.Adapter()
        clear = [case for case in run.load(CORPUS / "partial.jsonl") if case["ambiguity"] == "clear"]
        passed = [case["id"] for case in clear if run.judge(case, adapter, adapter.errors)[0] == "pass"]
    finally:
        del sys.path[:2]
    assert (len(passed), len(clear)) == (42, 42)
