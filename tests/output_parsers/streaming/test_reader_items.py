"""Each item of a list is returned once, as soon as it is complete."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Any, Literal

import pytest
from growth import MAX_GROWTH, growth, process_time
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel
from pydantic_core import to_json

from output_parsers import OutputParsingError, parse, parser_for
from output_parsers.backslashes import with_clear_escapes
from output_parsers.prose.fillers import is_value
from output_parsers.streaming import ItemError, ItemPolicy, ItemReader, PartialReader


class Skill(BaseModel):
    name: str
    years: int = 0


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


def items_by_chunk(reader: ItemReader[Any], *chunks: str) -> list[list[Any]]:
    return [*(reader.feed(chunk) for chunk in chunks), reader.finish()]


def all_items(reader: ItemReader[Any], *chunks: str) -> list[Any]:
    return list(chain.from_iterable(items_by_chunk(reader, *chunks)))


A, B = Skill(name="a", years=1), Skill(name="b")


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "a", "years": 1}, {"name": "b"}]',
        "```json\n[{'name': 'a', years: 1}, {name: 'b',},]\n```\nThat is all [2].",
        '{"value": [{"name": "a", "years": 1}, {"name": "b"}]}',
        '<think>[{"name": "no"}]</think>{"skills": [{"name": "a", "years": 1}, {"name": "b"}]}',
        '{"name": "a", "years": 1}\n{"name": "b"}\n',
        '1. {"name": "a", "years": 1},\n2. {"name": "b"}\nHope this helps!',
        '[{"name": "a", "years": "one"}, {"Name": "b", "more": [1, {"x": 2}]}]',
    ],
)
def test_items_are_read_from_a_list_in_any_form(text: str) -> None:
    for chunks in ([text], list(text), [text[:20], text[20:]]):
        assert all_items(ItemReader(Skill), *chunks) == [A, B]


def test_an_item_is_returned_as_soon_as_it_is_complete() -> None:
    reader = ItemReader(Skill)
    chunks = ['[{"name": "a", "ye', 'ars": 1', "}", ', {"name": "b"}', "]"]
    assert items_by_chunk(reader, *chunks) == [[], [], [A], [B], [], []]
    numbers = ItemReader(int)
    assert items_by_chunk(numbers, "[1", "2", ", 3", "4]") == [[], [], [12], [34], []]
    texts = ItemReader(str)
    assert items_by_chunk(texts, '["a', '", ', '"b, c', '"]') == [[], [], ["a"], ["b, c"], []]


def test_items_may_be_scalars_unions_and_lists() -> None:
    assert all_items(ItemReader(str), '["a", "b" , "say "hi" to"]') == ["a", "b", 'say "hi" to']
    assert all_items(ItemReader(list[int]), "[[1, 2], [3], []]") == [[1, 2], [3], []]
    assert all_items(ItemReader(dict[str, int]), '{"a": 1}\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert all_items(ItemReader(dict[str, int]), '{"items": [{"a": 1}]}') == [{"a": 1}]
    text = '{"kind": "cat", "name": "T"}\n{"kind": "dog", "name": "R"}'
    items = [Cat(kind="cat", name="T"), Dog(kind="dog", name="R")]
    assert all_items(ItemReader(Cat | Dog), text) == items
    assert items_by_chunk(ItemReader(Skill), "[]") == [[], []]


BAD = '[{"name": "a", "years": 1}, {"years": "x"}, {"name": "b"}]'


def test_a_bad_item_raises_after_the_items_before_it() -> None:
    reader = ItemReader(Skill)
    assert reader.feed(BAD) == [A]
    with pytest.raises(OutputParsingError) as error:
        reader.feed("")
    assert error.value.text == '{"years": "x"}'
    assert {problem.path for problem in error.value.problems} == {"$[1].name", "$[1].years"}
    assert reader.feed("") == [B]
    assert reader.finish() == []


def test_finish_raises_for_a_bad_item_that_was_not_reported() -> None:
    reader = ItemReader(Skill)
    assert reader.feed(BAD) == [A]
    with pytest.raises(OutputParsingError, match=r"\$\[1\]\.name"):
        reader.finish()
    assert reader.finish() == [B]


def test_a_bad_item_is_skipped_or_kept_by_policy() -> None:
    assert all_items(ItemReader(Skill, ItemPolicy.SKIP), *BAD) == [A, B]
    first, bad, last = all_items(ItemReader(Skill, on_error=ItemPolicy.KEEP), *BAD)
    assert (first, last) == (A, B)
    assert isinstance(bad, ItemError)
    assert (bad.index, bad.text) == (1, '{"years": "x"}')
    assert {problem.path for problem in bad.problems} == {"$[1].name", "$[1].years"}
    numbers = all_items(ItemReader(int, ItemPolicy.KEEP), '[1, "x", 2.5, {"a": 1}, 3]')
    assert [item.text if isinstance(item, ItemError) else item for item in numbers] == [
        1,
        '"x"',
        "2.5",
        '{"a": 1}',
        3,
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "$: expected a list of items, each an object (Skill); the reply contains none"),
        ("I know of none.", "$: expected a list of items, each an object (Skill); the reply contains none"),
        ("[", "$: the JSON is cut off: the list is not closed"),
        ('[{"name": "a"}', "$: the JSON is cut off: the list is not closed"),
        ('{"skills": [{"name": "a"}]', "$: the JSON is cut off: the list is not closed"),
        ('{"name": "a"}\n{"name": "b', "$: the JSON is cut off: the list is not closed"),
        ('{"skills": [{"name": "a"}], "x": 1}', "$: the object around the list has other keys too"),
        ('{"name": "a"} or rather {"name": "b"}', "$: there is text between the items"),
    ],
)
def test_an_incomplete_list_is_an_error(text: str, expected: str) -> None:
    for chunks in ([text], list(text)):
        reader = ItemReader(Skill, ItemPolicy.SKIP)
        for chunk in chunks:
            reader.feed(chunk)
        with pytest.raises(OutputParsingError) as error:
            reader.finish()
        assert [str(problem) for problem in error.value.problems] == [expected]
        assert error.value.text == text == reader.text


OTHER_FORMS = [
    (int, "[1; 2; 3]", [1, 2, 3]),
    (int, "[1，2，3]", [1, 2, 3]),
    (int, r"\[[1, 2, 3]\]", [1, 2, 3]),
    (str, "<item>a</item>\n<item>b</item>", ["a", "b"]),
    (str, "- a\n- b", ["a", "b"]),
    (Skill, "| name | years |\n|---|---|\n| a | 1 |\n| b | 0 |", [A, B]),
    (Skill, "name,years\na,1\nb,0", [A, B]),
    (Skill, "[{&quot;name&quot;: &quot;a&quot;, &quot;years&quot;: 1}]", [A]),
    (
        Skill,
        '[TOOL_CALLS][{"name": "Skill", "arguments": {"name": "a", "years": 1}}]'
        '[TOOL_CALLS][{"name": "Skill", "arguments": {"name": "b"}}]',
        [A, B],
    ),
]


@pytest.mark.parametrize(("form", "text", "expected"), OTHER_FORMS)
def test_the_items_of_a_list_in_another_form_are_those_of_the_whole_reply(
    form: Any, text: str, expected: list[Any]
) -> None:
    assert parse(list[form], text) == expected
    for policy in ItemPolicy:
        for size in (1, 7, len(text)):
            chunks = [text[start : start + size] for start in range(0, len(text), size)]
            assert all_items(ItemReader(form, policy), *chunks) == expected


def test_a_first_item_in_other_signs_that_is_not_a_list_is_an_error() -> None:
    reader = ItemReader(int)
    assert reader.feed('["1; x", 2]') == []
    with pytest.raises(OutputParsingError, match=r"\$\[0\]"):
        reader.finish()
    assert reader.finish() == [2]
    kept = all_items(ItemReader(int, ItemPolicy.KEEP), '["1; x", 2]')
    assert [item.text if isinstance(item, ItemError) else item for item in kept] == ['"1; x"', 2]


def test_numbers_of_which_only_some_have_a_unit_are_an_error_at_the_end() -> None:
    for text in ('["3 km", 4]', '[4, "3 km"]'):
        reader = ItemReader(int)
        assert len(reader.feed(text)) == 2
        with pytest.raises(OutputParsingError, match="only some of the numbers are in km"):
            reader.finish()
    assert all_items(ItemReader(int), '["3 km", "4 km"]') == [3, 4]


def read_with_error(reader: ItemReader[Any], text: str, size: int) -> tuple[list[Any], str]:
    """Return the items, the texts of bad ones, and the message of the error that ends them."""
    items: list[Any] = []
    message = ""
    try:
        for start in range(0, len(text), size):
            items += reader.feed(text[start : start + size])
        items += reader.finish()
    except OutputParsingError as error:
        message = str(error)
    return [item.text if isinstance(item, ItemError) else item for item in items], message


@pytest.mark.parametrize(
    ("text", "items", "message"),
    [
        ("Example: [1, 2]\nAnswer: [3]", [1, 2], "another answer"),
        ("[1, 2]\n\nCorrection: [1, 3]", [1, 2], "another answer"),
        ("[1,2] Wait, the second is 3.", [1, 2], "may say that it is not the answer"),
        ("I do not know. For example: [1]", [1], "may say that it is not the answer"),
        ("[1, // a guess\n 2]", [1, 2], "a comment"),
        ('["3 km", 4]', [3, 4], "only some of the numbers are in km"),
        ('["3 km", "5 m"]', [3], "some numbers are in km and others in m"),
        ('[1, "x"] Wait, the second is 3.', [1, '"x"'], "may say that it is not the answer"),
        ('["x", 1]\nAnswer: [3]', ['"x"', 1], "another answer"),
        ('[1, // a guess\n "x"]', [1, '"x"'], "a comment"),
        ('["3 km", "x", 4]', [3, '"x"', 4], "only some of the numbers are in km"),
        ('{"items": [1, "x"]}\n{"items": [2]}', [1, '"x"'], "different answers"),
        ('[1, "x"]\nThat is all.', [1, '"x"'], ""),
        ('[1, // the first\n "x"]', [1, '"x"'], ""),
        ('Here are {two} of them: ["x", 1, "y"]', ['"x"', 1, '"y"'], ""),
        ('{"items": [1, "x"]}', [1, '"x"'], ""),
    ],
)
def test_the_whole_reply_is_compared_with_items_that_are_kept_or_skipped(
    text: str, items: list[Any], message: str
) -> None:
    for size in (1, 7, len(text)):
        kept, error = read_with_error(ItemReader(int, ItemPolicy.KEEP), text, size)
        assert kept == items
        assert message in error if message else not error
        skipped, error = read_with_error(ItemReader(int, ItemPolicy.SKIP), text, size)
        assert skipped == [item for item in items if isinstance(item, int)]
        assert message in error if message else not error


def test_finish_returns_the_items_after_the_scanner_gave_up_once() -> None:
    text = '[{"name": "a", "years": 1}, {"name": """b"""}, {"name": "c"}]'
    for policy in ItemPolicy:
        assert items_by_chunk(ItemReader(Skill, policy), *text)[-1] == [B, Skill(name="c")]
        assert all_items(ItemReader(Skill, policy), *text) == [A, B, Skill(name="c")]
    cut = ItemReader(Skill)
    assert cut.feed(text[:50]) == [A]
    with pytest.raises(OutputParsingError, match="cut off"):
        cut.finish()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.builds(Skill, name=st.text(max_size=20).filter(is_value), years=st.integers(0, 9))), st.data()
)
def test_any_chunks_give_the_items_of_the_whole_text(items: list[Skill], data: st.DataObject) -> None:
    dumped = [item.model_dump() for item in items]
    text = with_clear_escapes(json.dumps(dumped, ensure_ascii=data.draw(st.booleans())))
    text = data.draw(st.sampled_from(["{}", '{{"all": {}}}', "Here:\n```\n{}\n```"])).replace("{}", text)
    if text.startswith("{{"):
        text = text[1:-1]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=20)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert all_items(ItemReader(Skill), *chunks) == items


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from('{}[]":,name1 \n'), max_size=40), st.sampled_from([Skill, int, str]))
def test_no_text_raises_another_error(text: str, form: Any) -> None:
    reader: ItemReader[Any] = ItemReader(form, ItemPolicy.KEEP)
    items = [item for char in text for item in reader.feed(char)]
    try:
        items += reader.finish()
    except OutputParsingError:
        return
    whole: ItemReader[Any] = ItemReader(form, ItemPolicy.KEEP)
    assert _valid(whole.feed(text) + whole.finish()) == _valid(items)


def _valid(items: list[Any]) -> list[Any]:
    return [item for item in items if not isinstance(item, ItemError)]


def test_backslashes_that_were_not_escaped_are_restored_in_items_as_in_lists() -> None:
    texts = (
        r'[{"name": "$\frac{1}{2}$"}, {"name": "C:\new\folder"}]',
        r'["$\frac{1}{2}$", "C:\new\folder", "x"]',
    )
    for text, form in zip(texts, (Skill, str), strict=True):
        for chunks in ([text], list(text)):
            assert all_items(ItemReader(form), *chunks) == parse(list[form], text)  # type: ignore[valid-type]


@pytest.mark.parametrize(
    ("form", "items"),
    [
        (int, "1, 2, 2.5, 3"),
        (int | str, '1, "a", 2, "b", true, "c"'),
        (Skill, '{"name": "a"}, {"name": 1}, {"name": "b" "years": 2}, {"name": "c"}'),
        (list[Any], "[1], [[[[[[[[[[2]]]]]]]]]], [3], [{'a': 4}], [5]"),
    ],
)
def test_items_keep_their_order_and_their_numbers_around_one_that_is_not_exact(form: Any, items: str) -> None:
    text = f"[{items}]"
    expected = all_items(ItemReader(form, ItemPolicy.KEEP), *text)
    for size in (len(text), 20, 5):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert all_items(ItemReader(form, ItemPolicy.KEEP), *chunks) == expected


def test_reading_items_takes_at_most_eight_times_as_long_as_reading_the_list() -> None:
    for item in (Skill(name="a" * 20, years=1), 12345, 1.5, "a" * 10, True):
        form: Any = type(item)
        text = to_json([item] * 5_000).decode()
        read = parser_for(list[form])
        read.parse(text)
        assert all_items(ItemReader(form), text) == [item] * 5_000
        ratio = min(
            process_time(partial(all_items, ItemReader(form)), text) / process_time(read.parse, text)
            for _ in range(8)
        )
        assert ratio <= 8, form


@pytest.mark.parametrize("item", ["[[[[[[[[[[1]]]]]]]]]], 1", '{"a" 1}, {"a": 1}', "1 2, 3"])
def test_cost_is_linear_in_items_that_are_not_exact(item: str) -> None:
    def read(text: str) -> object:
        return ItemReader[Any](Any, ItemPolicy.SKIP).feed(text)

    assert growth(read, f", {item}", "[0", "]") <= MAX_GROWTH


def test_cost_is_linear_in_the_items() -> None:
    def read(text: str) -> None:
        reader = ItemReader(Skill)
        items = [item for start in range(0, len(text), 40) for item in reader.feed(text[start : start + 40])]
        assert len(items) == text.count("name")
        assert reader.finish() == []

    item = json.dumps({"name": "a" * 20, "years": 1})
    assert growth(read, f", {item}", f"[{item}", "]", short=20_000) <= MAX_GROWTH


@dataclass
class Measure:
    value: int


@pytest.mark.parametrize("text", ['{"value": [{"value": 7}, {"value": 8}]}', '{"value": 7}\n{"value": 8}'])
def test_the_requested_envelope_is_not_an_item_even_if_items_have_its_key(text: str) -> None:
    reader = ItemReader(Measure, envelope="value")
    items = [item for letter in text for item in reader.feed(letter)]
    assert items + reader.finish() == [Measure(7), Measure(8)]


COMMENTS = [
    ("// years", "# the first", "/* as the text says */", "/* in years */", "// name", "// in the text"),
    ("// a guess", "# and so on", "/* placeholder */", "/* 3 more */", "// ... more", "// for example"),
]
LISTS = [
    '[{"name": "a", "years": 1@}@, @{"name": "b"}@]',
    '{"skills": [@{"name": "a",@ "years": 1}, {"name": "b"}]}',
    '{"name": "a",@ "years": 1}\n{"name": "b"@}',
]


@pytest.mark.parametrize(
    ("comments", "is_harmless"), [(COMMENTS[0], True), (COMMENTS[1], False)], ids=["harmless", "denies"]
)
def test_comments_are_judged_alike_by_parse_and_by_readers_of_chunks(
    comments: tuple[str, ...], is_harmless: bool
) -> None:
    differences = []
    for form, comment in product(LISTS, comments):
        head, *parts = form.split("@")
        for place in range(len(parts)):
            pieces = [f"\n{comment}\n" * (index == place) + part for index, part in enumerate(parts)]
            text = head + "".join(pieces)
            partial: PartialReader[list[Skill]] = PartialReader(list[Skill])
            for chunk in text:
                partial.feed(chunk)
            outcomes = [
                outcome_of(lambda text=text: parse(list[Skill], text)),
                outcome_of(lambda partial=partial: partial.finish().value),
                outcome_of(lambda text=text: all_items(ItemReader(Skill), *text)),
                outcome_of(lambda text=text: all_items(ItemReader(Skill), text)),
            ]
            if outcomes != [[A, B] if is_harmless else None] * 4:
                differences.append((text, outcomes))
    assert differences == []


def outcome_of(read: Callable[[], list[Any]]) -> list[Any] | None:
    try:
        return read()
    except OutputParsingError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "a", "years": 1}\n{"name": "b"}\nWait, the second name is c.',
        '{"name": "a", "years": 1}\n{"name": "b"}\nThis is only an example.',
        'Dummy data: {"name": "a"}',
    ],
)
def test_text_around_objects_without_a_list_may_deny_them(text: str) -> None:
    with pytest.raises(OutputParsingError):
        all_items(ItemReader(Skill), *text)


@pytest.mark.parametrize("text", ['Skills: [{"name": "b"}]', "Skill list:\n[{'name': “b”}]"])
def test_the_name_of_the_type_may_stand_before_the_list(text: str) -> None:
    assert all_items(ItemReader(Skill), *text) == parse(list[Skill], text) == [B]


def test_objects_are_read_again_as_a_whole_if_one_is_not_clear_before_its_end() -> None:
    assert all_items(ItemReader(Skill), '{"name": "a", "years": 1}\n{"name": “b”}') == [A, B]
