"""The answer is found in a reply with reasoning, fences, tags and prose, without guessing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from growth import MAX_GROWTH, growth

from output_parsers import OutputParsingError, parse, read


@dataclass
class Point:
    x: int


TEXT_AROUND = "text around the JSON left out"


def problem(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('{"x": 1}', []),
        ('\ufeff {"x": 1}\u200b', []),
        ('```json\n{"x": 1}\n```', [TEXT_AROUND]),
        ('~~~\n{"x": 1}\n~~~', [TEXT_AROUND]),
        ('Here:\n```\n{"x": 1}\n```\nEnjoy {it}!', [TEXT_AROUND]),
        ('<answer>{"x": 1}</answer>', [TEXT_AROUND]),
        ('The point is {"x": 1}.', [TEXT_AROUND]),
        ('Use {curly} and [square] brackets. {"x": 1}', [TEXT_AROUND]),
        ('The data is in {a: see (1)}. {"x": 1}', [TEXT_AROUND]),
        ('<think>x is {"x": 7}</think>{"x": 1}', ["reasoning set aside"]),
        ('<THINKING>hm</THINKING>\n<reasoning>hm</reasoning>\n{"x": 1}', ["reasoning set aside"]),
        ('so x is {"x": 7}</think>\n{"x": 1}', ["reasoning set aside"]),
        ('{"x": 1}\n{"x": 1}', [TEXT_AROUND]),
        ('```\n{"x": 1}\n```\nthat is\n```\n{"x": 1}\n```', [TEXT_AROUND]),
        ('not {"x": 7} but\n```json\n{"x": 1}\n```', [TEXT_AROUND]),
        ('```json\n{"y": 7}\n```\nso {"x": 1}', [TEXT_AROUND]),
        ('"{\\"x\\": 1}"', ["JSON inside a string"]),
    ],
)
def test_the_answer_is_found_inside_other_text(text: str, rules: list[str]) -> None:
    reading = read(Point, text)
    assert reading.value == Point(1)
    assert [step.rule for step in reading.coercions] == rules


def test_the_check_of_a_value_after_a_fence_records_no_coercions() -> None:
    reading = read(Point, '```\n{"x": "1"}\n```\nthat is {"x": "1"}')
    assert [step.rule for step in reading.coercions] == [TEXT_AROUND, "number as text"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '$: expected an object (Point); the reply is empty, found ""'),
        ("```\n```", '$: expected an object (Point), found ""'),
        ('<think>{"x": 1}', '$: the reply ends inside its reasoning, found "<think>{"x": 1}"'),
        (
            '<think>{"x": 1}</think>',
            '$: expected an object (Point); the reply is empty, found "<think>{"x": 1}</think>"',
        ),
        ('{"x": 1}\n{"x": 2}', "$: the reply holds 2 different answers that fit"),
        ('```\n{"x": 1}\n```\nor\n```\n{"x": 2}\n```', "$: the reply holds 2 different answers that fit"),
        (
            '{"x": 1',
            "$: the JSON is cut off: the text is cut off: the object that begins here is not closed",
        ),
        (
            'First {"x": 1}, then {"x":',
            "$: the JSON is cut off: the text is cut off: the object that begins here is not closed",
        ),
        ('{"x": 1, "x": 2}', '$: the key "x" appears twice with different values'),
        (
            '```\n{"x": 1, "x": 2}\n```',
            '$: the JSON is broken: the key "x" appears twice with different values, '
            'found "```\n{"x": 1, "x": 2}\n```"',
        ),
        ('{"x": 1, ...}', None),
        ("I cannot do that.", '$: expected an object (Point), found "I cannot do that."'),
    ],
)
def test_a_reply_without_exactly_one_answer_is_refused(text: str, message: str | None) -> None:
    found = problem(Point, text)
    assert message is None or found == message


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('{"x": 1}\n{"x": 2}', ["JSON Lines"]),
        ('{"x": 1}\n\n{"x": 2}\n', ["JSON Lines"]),
        ('{"x": 1},\n{"x": 2}', ["JSON Lines"]),
        ('- {"x": 1}\n- {"x": 2}', ["JSON Lines"]),
        ('1. {"x": 1}\n2. {"x": 2}', ["JSON Lines"]),
        ('```jsonl\n{"x": 1}\n{"x": 2}\n```', ["JSON Lines"]),
    ],
)
def test_lines_of_json_are_the_items_of_a_list(text: str, rules: list[str]) -> None:
    reading = read(list[Point], text)
    assert reading.value == [Point(1), Point(2)]
    assert [step.rule for step in reading.coercions] == rules


def test_values_with_prose_between_them_are_not_json_lines() -> None:
    assert problem(list[Point], '{"x": 1} and {"x": 2}') == "$: expected an array, found an object with x"


def test_a_tuple_is_read_only_at_the_beginning_of_an_answer() -> None:
    assert parse(tuple[int, int], "(1, 2)") == (1, 2)
    assert parse(tuple[int, int], "```python\n(1, 2)\n```") == (1, 2)
    assert problem(tuple[int, int], "as I said (1, 2)") == (
        '$: expected an array of exactly 2, found "as I said (1, 2)"'
    )


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (int, "<answer>42</answer>", 42),
        (int, "```\n42\n```", 42),
        (int, "<answer>\n```\n42\n```\n</answer>", 42),
        (int, "<think>40 + 2</think>\n42", 42),
        (bool, "<result>\nyes\n</result>", True),
    ],
)
def test_a_fence_or_a_tag_around_a_scalar_is_removed(tp: Any, text: str, value: object) -> None:
    assert parse(tp, text) == value


def test_a_tag_inside_a_json_string_does_not_end_reasoning() -> None:
    assert parse(dict[str, str], '{"a": "</think>"}') == {"a": "</think>"}


def test_extreme_nesting_is_refused_with_the_reason() -> None:
    assert problem(list, "[" * 600 + "]" * 600).startswith(
        "$: the JSON is broken: nested deeper than 500 levels, found "
    )


REPEATED: list[tuple[Any, str, str]] = [
    (int, "<think></think>", "42"),
    (int, "</think>", ""),
    (int, "<a>", ""),
    (int, "```\n", ""),
    (int, "7 ", ""),
    (bool, "not ", ""),
    (dict[str, int], '{"a": 1} and ', ""),
    (dict[str, int], "{", ""),
    (dict[str, int], '{"a": ', ""),
    (dict[str, int], '{"a": "', ""),
    (dict[str, int], "{x} ", ""),
    (dict[str, int], '{"a": 1} "', ""),
    (dict[str, int], "{a: [1} ", ""),
    (dict[str, int], "```\n", ""),
    (list[int], "[1] ", ""),
    (list[int], "[1,", ""),
    (list[int], "(1 ", ""),
    (list[int], "- 1\n", ""),
    (dict[str, str], '{"a": "\\', ""),
]


def test_the_time_grows_in_proportion_to_the_reply() -> None:
    def grows(tp: Any, piece: str, end: str) -> float:
        return growth(lambda text: parse(tp, text), piece, tail=end, short=500 * len(piece))

    assert [row for row in REPEATED if grows(*row) > MAX_GROWTH] == []
