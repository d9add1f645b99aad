"""A patch asks only for the invalid parts of a reply and inserts the new parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from output_parsers import OutputParsingError, TypeParser, parser_for
from output_parsers.json_schema.parser import schema_parser
from output_parsers.patch import Patch, patch_for
from output_parsers.profiles import OPENAI
from output_parsers.strict import encode_parser


@dataclass
class Person:
    name: str
    age: int
    born: date | None = None
    paid: Decimal = Decimal(0)


@dataclass
class Team:
    people: list[Person]
    places: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, Person] | None = None


@dataclass
class Tree:
    size: int
    children: list[Tree] = field(default_factory=list)


class Aliased(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first_name: str = Field(alias="firstName", description="as it is called")
    sizes: list[int] = Field(default_factory=list, max_length=2)


def patch_of(of: Any, text: str) -> Patch[Any] | None:
    parser: TypeParser[Any] = of if isinstance(of, TypeParser) else parser_for(of)
    with pytest.raises(OutputParsingError) as caught:
        parser.parse(text)
    return patch_for(parser, text, caught.value.problems)


def patched(of: Any, text: str, parts: str) -> Any:
    patch = patch_of(of, text)
    assert patch is not None
    return patch.read(patch.parts.parse(parts)).value


@pytest.mark.parametrize(
    ("of", "text", "parts", "value"),
    [
        (Person, '{"name": "Ann", "age": "old"}', '{"age": 31}', Person("Ann", 31)),
        (Person, 'Here:\n```json\n{"name": "Ann", "age": "old"}\n```', '{"age": 31}', Person("Ann", 31)),
        (Person, '{"name": "Ann"}', '{"age": 31}', Person("Ann", 31)),
        (Person, '{"name": [], "age": "x"}', '{"name": "Ann", "age": 31}', Person("Ann", 31)),
        (
            Person,
            '{"name": "Ann", "age": 1, "born": "soon"}',
            '{"born": "1968-07-04"}',
            Person("Ann", 1, date(1968, 7, 4)),
        ),
        (Person, '{"name": "Ann", "age": 1, "born": "soon"}', '{"born": null}', Person("Ann", 1)),
        (
            Team,
            '{"people": [{"name": "Ann", "age": 1}, {"name": "Bob", "age": "x"}]}',
            '{"people_1_age": 2}',
            Team([Person("Ann", 1), Person("Bob", 2)]),
        ),
        (Team, '{"people": [], "places": {"a b": "x"}}', '{"places_a_b": 2}', Team([], {"a b": 2})),
        (
            Team,
            '{"people": [], "pair": [1, {"name": "Ann", "age": "x"}]}',
            '{"pair_1_age": 2}',
            Team([], {}, (1, Person("Ann", 2))),
        ),
        (
            Tree,
            '{"size": 1, "children": [{"size": 2, "children": [{"size": "x"}]}]}',
            '{"children_0_children_0_size": 3}',
            Tree(1, [Tree(2, [Tree(3)])]),
        ),
        (list[int], '[1, "x", 3]', '{"1": 2}', [1, 2, 3]),
        (dict[str, list[int]], '{"a": [1, "x"]}', '{"a_1": 2}', {"a": [1, 2]}),
        (Aliased, '{"firstName": 5.5e1000, "sizes": ["x"]}', '{"firstName": "A", "sizes_0": 1}', None),
    ],
)
def test_new_parts_are_put_into_the_reply(of: Any, text: str, parts: str, value: Any) -> None:
    if value is None:
        value = Aliased(firstName="A", sizes=[1])
        text = text.replace("5.5e1000", "[]")
    assert patched(of, text, parts) == value


def test_a_reply_in_an_envelope_is_patched_inside_the_envelope() -> None:
    assert patched(parser_for(list[int]).with_envelope(), '{"value": [1, "x"]}', '{"value_1": 2}') == [1, 2]


def test_an_encoded_reply_is_patched_in_its_plain_form() -> None:
    parser, _ = encode_parser(parser_for(dict[str, Person]), OPENAI)
    pair = '{"key": "a", "value": {"name": "Ann", "age": %s, "born": null, "paid": null}}'
    patch = patch_of(parser, '{"value": [' + pair % '"x"' + "]}")
    assert patch is not None
    assert list(patch.paths_by_name.values()) == [("value", "a", "age")]
    assert patch.read({"value_a_age": 31}).value == {"a": Person("Ann", 31)}


def test_the_parts_are_requested_with_their_schemas() -> None:
    patch = patch_of(Aliased, '{"firstName": [], "sizes": [1, "x"]}')
    assert patch is not None
    assert patch.parts.schema == {
        "type": "object",
        "properties": {
            "firstName": {"type": "string", "description": "the part at $.firstName (as it is called)"},
            "sizes_1": {"type": "integer", "description": "the part at $.sizes[1]"},
        },
        "required": ["firstName", "sizes_1"],
        "additionalProperties": False,
    }
    assert patch.paths == ["$.firstName", "$.sizes[1]"]


def test_the_parts_have_format_instructions() -> None:
    patch = patch_of(Person, '{"name": "Ann", "age": "old"}')
    assert patch is not None
    assert patch.parts.format_instructions() == (
        'Reply with JSON only, in this form:\n{\n  "age": integer,  // the part at $.age\n}'
    )


def test_the_schema_of_the_parts_has_the_definitions_they_refer_to() -> None:
    patch = patch_of(Tree, '{"size": 1, "children": [5]}')
    assert patch is not None
    assert patch.parts.schema is not None
    assert list(patch.parts.schema["$defs"]) == ["Tree"]
    assert patch.read(patch.parts.parse('{"children_0": {"size": 2}}')).value == Tree(1, [Tree(2)])


def test_a_part_inside_another_part_is_not_requested_twice() -> None:
    patch = patch_of(Team, '{"people": [5, {"name": [], "age": 1}], "places": 5}')
    assert patch is not None
    assert patch.paths == ["$.places", "$.people[0]", "$.people[1].name"]


def test_a_number_in_a_part_keeps_all_digits() -> None:
    text = '{"name": "Ann", "age": 1, "paid": "much"}'
    paid = Decimal("0.10000000000000000000000000001")
    assert patched(Person, text, f'{{"paid": {paid}}}') == Person("Ann", 1, None, paid)


def test_coercions_in_the_parts_have_their_paths_in_the_reply() -> None:
    patch = patch_of(Team, '{"people": [{"name": "Ann", "age": "x"}]}')
    assert patch is not None
    reading = patch.read(patch.parts.parse('{"people_0_age": "31"}'))
    assert [str(step) for step in reading.coercions] == ['$.people[0].age: number as text: "31" → 31']


def test_problems_of_new_parts_have_their_paths_in_the_reply() -> None:
    patch = patch_of(Person, '{"name": "Ann", "age": "old"}')
    assert patch is not None
    with pytest.raises(OutputParsingError) as caught:
        patch.read(patch.parts.parse('{"age": "older"}'))
    assert [str(p) for p in caught.value.problems] == ['$.age: expected an integer, found "older"']
    assert caught.value.text == '{"name": "Ann", "age": "older"}'


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ("{}", "$.age: this part is missing"),
        ("[1]", "$: expected an object with age, found an array of 1"),
        (
            '{"age": 1, "Age": 2}',
            '$.Age: expected each key once; another key is read as the same key, found "Age"',
        ),
    ],
)
def test_a_reply_without_the_parts_is_an_error(parts: str, problem: str) -> None:
    patch = patch_of(Person, '{"name": "Ann", "age": "old"}')
    assert patch is not None
    with pytest.raises(OutputParsingError) as caught:
        patch.parts.parse(parts)
    assert [str(p) for p in caught.value.problems] == [problem]


def test_the_keys_of_parts_may_be_spelled_differently() -> None:
    patch = patch_of(Team, '{"people": [{"name": "Ann", "age": "x"}]}')
    assert patch is not None
    reading = patch.parts.read('{"people0Age": 31, "more": 1}')
    assert (reading.value, [step.rule for step in reading.coercions]) == (
        {"people_0_age": 31},
        ["unknown key left out"],
    )


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (Person, "I do not know."),
        (Person, "[]"),
        (Person, '{"name": "Ann", "age": '),
        (Person, '{"name": "Ann", "age": "x"} or {"name": "Bob", "age": "y"}'),
        (Person, '{"name": "Ann", "age": 1, "Name": "Bob", "NAME": "Cy", "nAME": 3}'),
        (Aliased, '{"firstName": "A", "more": 1}'),
        (int, "many"),
        (list[int], "5"),
        (int | list[int], '["x"]'),
        (dict[str, int], '{"a b": "x", "a_b": "y"}'),  # both would have the same name
        (dict[str, int], '{"' + "long " * 30 + '": "x"}'),  # the path has a shortened key
    ],
)
def test_there_is_no_patch_if_the_invalid_parts_cannot_be_identified(of: Any, text: str) -> None:
    try:
        parser_for(of).parse(text)
    except OutputParsingError:
        assert patch_of(of, text) is None


def test_a_list_that_is_too_long_is_replaced_as_a_whole() -> None:
    patch = patch_of(Aliased, '{"firstName": "A", "sizes": [1, 2, 3]}')
    assert patch is not None
    assert patch.paths == ["$.sizes"]


AGE = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


def of_person(reference: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"p": {"$ref": reference}}, "required": ["p"], **more}


@pytest.mark.parametrize(
    "schema",
    [
        of_person("#/$defs/P", **{"$defs": {"P": AGE}}),
        of_person("#/definitions/P", definitions={"P": AGE}),
        of_person("#/definitions/a~1b%20c", definitions={"a/b c": AGE}),
        of_person("#/definitions/Q", definitions={"P": AGE, "Q": {"$ref": "#/definitions/P"}}),
        {"type": "object", "properties": {"p": {"anyOf": [AGE, {"type": "null"}]}}, "required": ["p"]},
    ],
    ids=["$defs", "definitions", "escaped", "two steps", "or null"],
)
def test_references_in_a_schema_are_followed(schema: Mapping[str, Any]) -> None:
    patch = patch_of(schema_parser(schema), '{"p": {"age": "old"}}')
    assert patch is not None
    assert patch.paths == ["$.p.age"]
    assert patch.read(patch.parts.parse('{"p_age": 31}')).value == {"p": {"age": 31}}


def test_a_recursive_schema_is_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["n"],
    }
    value = patched(schema_parser(schema), '{"n": 1, "kids": [{"n": "x"}]}', '{"kids_0_n": 4}')
    assert value == {"n": 1, "kids": [{"n": 4}]}


def test_a_value_behind_an_anchor_is_replaced_as_a_whole() -> None:
    schema = of_person("#P", **{"$defs": {"P": {**AGE, "$anchor": "P"}}})
    patch = patch_of(schema_parser(schema), '{"p": {"age": "old"}}')
    assert patch is not None
    assert (patch.paths, patch.read({"p": {"age": 31}}).value) == (["$.p"], {"p": {"age": 31}})
