"""Lists, sets and tuples are read completely or not at all, from JSON, lines of text and JSON in a string."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

import pytest
from annotated_types import MaxLen
from pydantic import BaseModel, RootModel, field_validator

from output_parsers import ItemReader, Leniency, OutputParsingError, parse, parser_for, read


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (list[int], "[]", []),
        (list[int], "[1, 2]", [1, 2]),
        (list, '[1, "a", 0.5]', [1, "a", 0.5]),
        (list[list[int]], "[[1], [], [2, 3]]", [[1], [], [2, 3]]),
        (Sequence[int], "[1]", [1]),
        (set[int], "[1, 1, 2]", {1, 2}),
        (frozenset[str], '["a"]', frozenset({"a"})),
        (AbstractSet[int], "[1]", frozenset({1})),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (tuple, '[1, "a"]', (1, "a")),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (tuple[()], "[]", ()),
        (list[tuple[str, int]], '[["a", 1], ["b", 2]]', [("a", 1), ("b", 2)]),
        (list[int], "Here you are: [1, 2]. Enjoy!", [1, 2]),
        (list[int], "1\n2\n", [1, 2]),
        (list[int], "- 1\n- 2", [1, 2]),
        (list[int], "1. 10\n2. 20", [10, 20]),
        (list[int], "* 1,000\n* 2", [1000, 2]),
        (list[int], "1, 2", [1, 2]),
        (tuple[int, ...], "1\n2", (1, 2)),
        (list[int], '"[1, 2]"', [1, 2]),
        (list[list[int]], '["[1]", [2]]', [[1], [2]]),
        (list[list[int]], "[1]\n[2]", [[1], [2]]),
        (tuple[int, str], '```\n(1, "a")\n```', (1, "a")),
    ],
)
def test_a_sequence_is_read(tp: Any, text: str, value: object) -> None:
    result = parse(tp, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("tp", "text", "message"),
    [
        (list[int], "", '$: expected an array; the reply is empty, found ""'),
        (list[int], "null", "$: expected an array, found null"),
        (list[int], "none", '$: expected an array, found "none"'),
        (list[int], '{"count": [1]}', "$: expected an array, found an object with count"),
        (
            list[int],
            '[1, "x", null]',
            '$[1]: expected an integer, found "x"; $[2]: expected an integer, found null',
        ),
        (list[int], "1\na lot", '$[1]: expected an integer, found "a lot"'),
        (list[int], "- 1\nand 2", '$: expected an array, found "- 1\nand 2"'),
        (tuple[int, str], "[1]", "$: expected an array of exactly 2, found an array of 1"),
        (tuple[()], "[1]", "$: expected an array of exactly 0, found an array of 1"),
        (tuple[int, str], '["x", "a"]', '$[0]: expected an integer, found "x"'),
    ],
)
def test_wrong_items_of_a_sequence_are_reported_one_by_one(tp: Any, text: str, message: str) -> None:
    assert problem(tp, text) == message


@pytest.mark.parametrize("text", ["a\nb", "- a\n- b", "1. a\n2. b", "```\na\n\nb\n```"])
@pytest.mark.parametrize(
    ("tp", "items"),
    [
        (list[str], ["a", "b"]),
        (list[str | None], ["a", "b"]),
        (list[Annotated[str, MaxLen(1)]], ["a", "b"]),
        (list[RootModel[str]], [RootModel[str]("a"), RootModel[str]("b")]),
        (list[Path], [Path("a"), Path("b")]),
        (list[bytes], [b"a", b"b"]),
    ],
)
def test_short_lines_and_lines_with_bullets_become_items_of_text(tp: Any, items: object, text: str) -> None:
    assert parse(tp, text) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a, b", ["a", "b"]),
        ("- a", ["a"]),
        ("I cannot help with that.\nPlease ask again.", ["I cannot help with that.", "Please ask again."]),
        ("Here is the list\na", ["Here is the list", "a"]),
        ("the quick brown fox jumps\nover the lazy dog", ["the quick brown fox jumps", "over the lazy dog"]),
        ("Fruits:\na", ["Fruits:", "a"]),
        ("Name: Ann\nAge: 3", ["Name: Ann", "Age: 3"]),
        ("# Fruits\na", ["# Fruits", "a"]),
        ("|a|b|\n|-|-|", ["|a|b|", "|-|-|"]),
        ("**a**\n**b**", ["**a**", "**b**"]),
        ("a" * 61 + "\nb", ["a" * 61, "b"]),
    ],
)
def test_other_text_becomes_items_only_if_guesses_are_allowed(text: str, items: list[str]) -> None:
    message = "$: expected an array; write the items as a JSON array, found "
    assert problem(list[str], text).startswith(message)
    assert parse(list[str], text, leniency=Leniency.ALL) == items


@pytest.mark.parametrize(
    "text",
    [
        "– a\n– b",
        "● a\n● b",
        "→ a\n→ b",
        "① a\n② b",
        "一、a\n二、b",
        "(1) a\n(2) b",
        "1 - a\n2 - b",
        "a) a\nb) b",
        "i. a\nii. b",
        "#1 a\n#2 b",
        '- "a"\n- "b"',
        '1. "a"\n2. "b"',
        "“a”\n“b”",
        "`a`\n`b`",
        '"a",\n"b"',
        "a,\nb,",
        "- a,\n- b",
        "Here are the items:\n- a\n- b",
        "- a\n- b\n\nLet me know if you need more.",
    ],
)
def test_every_usual_way_of_writing_a_list_is_read(text: str) -> None:
    assert parse(list[str], text) == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "- a\n  - a1\n- b",
        "b) x\nc) y",
        "- a\n1. b",
        "Not mentioned\nNot available",
        "No items found\nin the text",
        "- Not mentioned\n- Unknown",
        "没有\n未知",
        "Error occurred\nTry again",
        "Answer\na\nb",
        "Do not include:\n- a\n- b",
        "Excluded:\n- a\n- b",
        "Examples:\n- a\n- b",
        "Missing fields:\n- a\n- b",
        "I need more information:\n- a\n- b",
        "例如：\n- a\n- b",
        "- a\n- b\n\nThis list is wrong.",
        "- a\n- etc.",
        "- a\n- ~~b~~",
        "- [ ] a\n- [x] b",
        "✅ a\n❌ b",
        "7. a\n9. b",
        "1. a\n1. b",
        "a\nb\nDone",
    ],
)
def test_lists_inside_of_lists_and_words_for_nothing_are_not_items(text: str) -> None:
    assert problem(list[str], text).startswith("$: expected an array")


@pytest.mark.parametrize("tp", [list[int], list[float], list[Decimal]])
@pytest.mark.parametrize("text", ["3,14", "12,50, 13,75", "1,234"])
def test_a_comma_between_two_digits_does_not_separate_numbers(tp: Any, text: str) -> None:
    assert problem(tp, text).startswith("$: expected an array")
    assert parse(tp, "1, 2, 3") == parse(tp, "1,2,3") == [1, 2, 3]


def test_lines_are_not_items_without_leniency() -> None:
    with pytest.raises(OutputParsingError) as caught:
        parse(list[str], "a\nb", leniency=Leniency.NONE)
    assert list(map(str, caught.value.problems)) == [
        '$: items in a text is not permitted with Leniency.NONE, found "a\nb"'
    ]


def test_every_coercion_from_lines_to_items_is_recorded() -> None:
    assert list(map(str, read(list[int], "- 1\n- 2").coercions)) == [
        '$: items in a text: "- 1\n- 2" → an array of 2',
        '$[0]: number as text: "1" → 1',
        '$[1]: number as text: "2" → 2',
    ]


@pytest.mark.parametrize(
    ("tp", "schema", "hint"),
    [
        (list[int], {"type": "array", "items": {"type": "integer"}}, "[integer, ...]"),
        (set[str], {"type": "array", "items": {"type": "string"}}, "[string, ...]"),
        (list, {"type": "array", "items": {}}, "[any JSON, ...]"),
        (
            tuple[int, str],
            {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "items": False,
            },
            "[integer, string]",
        ),
        (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, "[]"),
    ],
)
def test_the_schema_and_the_hint_show_the_items(tp: Any, schema: dict[str, Any], hint: str) -> None:
    assert parser_for(tp).schema == schema
    assert parser_for(tp).hint == hint


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (list[Literal["red", "blue"]], "I'd pick red, I'd choose blue"),
        (list[bool], "Yes, it is true"),
    ],
)
def test_the_commas_of_a_sentence_do_not_separate_items(tp: Any, text: str) -> None:
    assert problem(tp, text).startswith("$: expected an array; its commas may be those of a sentence")


def test_commas_between_bare_choices_separate_items() -> None:
    assert parse(list[Literal["red", "blue"]], "Red, **blue**") == ["red", "blue"]


@pytest.mark.parametrize(
    "text",
    [
        "Steps:\n1. Open the box\n2. Count the nails",
        "Por ejemplo:\n- uno\n- dos",
        "Entwurf:\n- eins\n- zwei",
        "I need more details:\n- the colour\n- the size",
        "Would you tell me this:\n- Which colour?\n- Which size?",
        "Could you provide the following:\n- colour\n- size",
        "Not found:\n- nails\n- bolts",
        "To answer this, I will:\n- open the box\n- count the nails",
        "- nails\n- bolts\n\nThis is only a draft.",
        "- nails\n- bolts\n\nShall I go on?",
        "- nails\n- bolts\n\nI guessed the bolts.",
        "- nails\n- bolts\n\nOnly the first two are shown.",
        "- nails\n- <name of a part>",
        "- [part]\n- [part]",
        "- nails\n- {more}",
        "- nails\n- …",
        "- nails\n- bolts, ...",
        "1. nails\n2. bolts\n3. (",
        "- nails\n- TBD",
    ],
)
def test_plans_requests_examples_and_placeholders_in_lists_are_not_items(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parse(list[str], text)


@pytest.mark.parametrize(
    "text",
    [
        "Parts:\n- nails\n- bolts",
        "**Parts:**\n- nails\n- bolts",
        "The parts are:\n1. nails\n2. bolts",
        "Teile:\n- nails\n- bolts",
        "Here are the parts named in the text:\n\n1. **nails**\n2. **bolts**",
        "- _nails_\n- _bolts_",
        "I found the following parts:\n- nails\n- bolts\n\nLet me know if you need more.",
    ],
)
def test_a_label_or_an_announcement_leads_to_items_and_their_emphasis_is_taken_off(text: str) -> None:
    assert parse(list[str], text) == ["nails", "bolts"]


def test_numbers_of_one_value_have_one_unit_unless_the_declaration_names_it() -> None:
    @dataclass
    class Box:
        width: float
        height: float

    @dataclass
    class Leg:
        km: float

    pairs = [("5 km", "300 m"), ("10 kg", "20 lb"), ("$5", "5 €"), ("5 CAD", "6 USD"), ("5 min", "30 s")]
    for one, two in pairs:
        same = one.replace("5", "7").replace("10", "7")
        for type_, form in [
            (list[float], '["{}", "{}"]'),
            (set[Decimal], '["{}", "{}"]'),
            (tuple[float, float], '["{}", "{}"]'),
            (dict[str, float], '{{"a": "{}", "b": "{}"}}'),
            (Box, '{{"width": "{}", "height": "{}"}}'),
            (list[list[float]], '[["{}"], ["{}"]]'),
            (list[float], "- {}\n- {}"),
        ]:
            with pytest.raises(OutputParsingError, match="some numbers are in"):
                parse(cast(Any, type_), form.format(one, two))
            parse(cast(Any, type_), form.format(one, same))
        reader = ItemReader(float)
        with pytest.raises(OutputParsingError, match="some numbers are in"):
            _ = [*reader.feed(f'["{one}", "{two}"]'), *reader.finish()]
    for text in ('["5 km", 3]', '["5 km", "3"]', '["5 km", "3 kg"]'):
        with pytest.raises(OutputParsingError, match="only some"):
            parse(list[float], text)
    for type_, text in [
        (tuple[float, float], '["5 km", 3]'),
        (dict[str, float], '{"a": "5 km", "b": 3}'),
        (dict[str, int], '{"a": 5, "b": "3 km"}'),
    ]:
        with pytest.raises(OutputParsingError, match="only some"):
            parse(cast(Any, type_), text)
    assert parse(dict[str, float], '{"a": "5 km", "b": "3 km"}') == {"a": 5, "b": 3}
    assert parse(dict[str, float], '{"a": "5 km", "b": "3 USD"}') == {"a": 5, "b": 3}
    assert parse(tuple[str, float, int], '["tea", "$3", 2]') == ("tea", 3, 2)
    assert parse(list[Leg], '[{"km": "5 km"}, {"km": 3}]') == [Leg(5), Leg(3)]
    assert parse(tuple[float, float], '["5 kg", "180 cm"]') == (5, 180)


def test_texts_that_are_not_values_are_not_items_or_fields_in_exact_json_and_in_other() -> None:
    @dataclass
    class Stone:
        name: str
        metals: list[str]

    class Rock(TypedDict):
        metals: list[str]

    for word in ("...", "…", "etc.", "and so on", "u. s. w.", "等等", "<name>"):
        for form in ("{}", "```json\n{}\n```", "{}\n\nLet me know if you need more."):
            for type_, text in [
                (list[str], f'["iron", "{word}"]'),
                (list[str], f'["iron", "{word}", "zinc"]'),
                (tuple[str, ...], f'["iron", "{word}"]'),
                (Stone, f'{{"name": "ore", "metals": ["iron", "{word}"]}}'),
                (Rock, f'{{"metals": ["iron", "{word}"]}}'),
            ]:
                with pytest.raises(OutputParsingError, match="an item is not a value"):
                    parse(cast(Any, type_), form.format(text))
    for type_, text in [
        (dict[str, str], '{"a": "<capital>"}'),
        (Stone, '{"name": "<name>", "metals": []}'),
        (dict[str, str], '{"title": "<title>"}'),
        (dict[str, str], '{"Title" : "<title>"}'),
    ]:
        for damaged in (text, text.replace("}", ",}")):
            with pytest.raises(OutputParsingError, match="placeholder"):
                parse(cast(Any, type_), damaged)
    assert parse(dict[str, str], '{"tag": "<title>"}') == {"tag": "<title>"}
    for items in (
        ["...", "!"],
        ["string", "int"],
        ["TODO", "DONE"],
        ["<div>", "<br>"],
        ["a < b"],
        ["{not it}"],
    ):
        assert parse(list[str], json.dumps(items)) == items
    with pytest.raises(OutputParsingError):
        parse(list[str], '["string"]')
    reader = ItemReader(str)
    assert reader.feed('["iron", "...') == ["iron"]
    with pytest.raises(OutputParsingError):
        _ = [*reader.feed('"]'), *reader.finish()]


def test_an_ellipsis_in_an_inner_list_is_not_an_item_in_exact_json_and_in_other() -> None:
    @dataclass
    class Stone:
        name: str
        metals: list[str]

    class Rock(TypedDict):
        metals: list[str]

    class Checked(BaseModel):
        metals: list[str]

        @field_validator("metals")
        @classmethod
        def check(cls, metals: list[str]) -> list[str]:
            return metals

    class Open(BaseModel):
        metals: list[str] | None = None
        stones: list[Stone] = []
        more: Stone | Checked | None = None

    stone = '{"name": "ore", "metals": ["iron", "..."]}'
    for type_, text in [
        (dict[str, int], '{"a": 1, "...": 0}'),
        (dict[str, str], '{"a": "b", "etc.": "c"}'),
        (dict[str, list[int]], '{"a": [1], "...": []}'),
        (list[dict[str, int]], '[{"a": 1}, {"...": 0}]'),
        (dict[str, int], '{"<name>": 1}'),
        (tuple[str, str], '["iron", "..."]'),
        (tuple[str, int], '["...", 0]'),
        (tuple[list[str], int], '[["iron", "..."], 0]'),
        (tuple[str, str] | None, '["iron", "..."]'),
        (list[str | int], '["iron", 1, "..."]'),
        (list[str | list[str]], '["iron", ["zinc", "..."]]'),
        (list[str | None], '[null, "..."]'),
        (list[str] | list[dict[str, int]], '["iron", "..."]'),
        (list[str] | list[dict[str, int]], '[{"...": 1}]'),
        (list[Annotated[str, MaxLen(9)]], '["iron", "..."]'),
        (set[str], '["iron", "..."]'),
        (frozenset[str | int], '["iron", "..."]'),
        (list[list[str]], '[["iron", "..."]]'),
        (dict[str, list[str]], '{"a": ["iron", "..."]}'),
        (list[Stone], f"[{stone}]"),
        (list[Rock], '[{"metals": ["iron", "..."]}]'),
        (Open, '{"metals": ["iron", "..."]}'),
        (Open, f'{{"stones": [{stone}]}}'),
        (Open, f'{{"more": {stone}}}'),
        (Checked, '{"metals": ["iron", "..."]}'),
    ]:
        for damaged in (text, text.replace("]", ",]", 1)):
            with pytest.raises(OutputParsingError):
                parse(cast(Any, type_), damaged)
    for type_, text, value in [
        (dict[str, int], '{"a": 1, "TODO": 2}', {"a": 1, "TODO": 2}),
        (dict[str, str], '{"a": "..."}', {"a": "..."}),
        (tuple[str, int], '["TODO", 3]', ("TODO", 3)),
        (list[str | int], '["TODO", 3]', ["TODO", 3]),
        (list[Literal["...", "a"]], '["...", "a"]', ["...", "a"]),
    ]:
        for damaged in (text, text[:-1] + "," + text[-1]):
            assert parse(cast(Any, type_), damaged) == value
        assert parser_for(cast(Any, type_)).parse(text, Leniency.NONE) == value
    for type_, text in [(dict[str, int], '{"...": 0}'), (tuple[str, str], '["a", "..."]')]:
        parser_for(cast(Any, type_)).parse(text, Leniency.NONE)
    with pytest.raises(OutputParsingError):
        ItemReader(cast(Any, str | int)).feed('["..."]')
    assert parse(Open, '{"metals": null, "stones": []}') == Open(metals=None, stones=[])
    whole = Open(metals=["iron"], stones=[Stone("ore", ["iron"])], more=Stone("a", []))
    assert parse(Open, whole.model_dump_json()) == whole
    assert parser_for(Open).read(whole.model_dump_json()).coercions == ()
