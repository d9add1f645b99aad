"""The answer is found in a reply, past reasoning, fences, tags and prose; in linear time, never guessed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from output_parsers import OutputParsingError, parse, read


@dataclass
class Point:
    x: int


AROUND = "text around the JSON left out"


def problem(form: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(form, text)
    return "; ".join(map(str, error.value.problems))


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ('{"x": 1}', []),
        ('\ufeff {"x": 1}\u200b', []),
        ('```json\n{"x": 1}\n```', [AROUND]),
        ('~~~\n{"x": 1}\n~~~', [AROUND]),
        ('Here:\n```\n{"x": 1}\n```\nEnjoy {it}!', [AROUND]),
        ('<answer>{"x": 1}</answer>', [AROUND]),
        ('The point is {"x": 1}.', [AROUND]),
        ('Use {curly} and [square] brackets. {"x": 1}', [AROUND]),
        ('f(a) = {a: see (1)}? No! {"x": 1}', [AROUND]),
        ('<think>x is {"x": 7}</think>{"x": 1}', ["reasoning set aside"]),
        ('<THINKING>hm</THINKING>\n<reasoning>hm</reasoning>\n{"x": 1}', ["reasoning set aside"]),
        ('so x is {"x": 7}</think>\n{"x": 1}', ["reasoning set aside"]),
        ('{"x": 1}\n{"x": 1}', [AROUND]),
        ('```\n{"x": 1}\n```\nthat is\n```\n{"x": 1}\n```', [AROUND]),
        ('not {"x": 7} but\n```json\n{"x": 1}\n```', [AROUND]),
        ('```json\n{"y": 7}\n```\nso {"x": 1}', [AROUND]),
        ('"{\\"x\\": 1}"', ["JSON inside a string"]),
    ],
)
def test_the_answer_is_found_in_its_dress(text: str, rules: list[str]) -> None:
    reading = read(Point, text)
    assert reading.value == Point(1)
    assert [step.rule for step in reading.coercions] == rules


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_holds_no_one_answer_is_refused(text: str, said: str | None) -> None:
    found = problem(Point, text)
    assert said is None or found == said


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


def test_values_with_prose_between_them_are_no_lines_of_json() -> None:
    assert problem(list[Point], '{"x": 1} and {"x": 2}') == "$: expected an array, found an object with x"


def test_a_tuple_is_read_where_an_answer_begins_and_nowhere_else() -> None:
    assert parse(tuple[int, int], "(1, 2)") == (1, 2)
    assert parse(tuple[int, int], "```python\n(1, 2)\n```") == (1, 2)
    assert problem(tuple[int, int], "as I said (1, 2)") == (
        '$: expected an array of exactly 2, found "as I said (1, 2)"'
    )


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (int, "<answer>42</answer>", 42),
        (int, "```\n42\n```", 42),
        (int, "<answer>\n```\n42\n```\n</answer>", 42),
        (int, "<think>40 + 2</think>\n42", 42),
        (bool, "<result>\nyes\n</result>", True),
    ],
)
def test_a_fence_or_a_tag_around_a_scalar_is_taken_off(form: Any, text: str, value: object) -> None:
    assert parse(form, text) == value


def test_a_tag_inside_a_json_text_is_no_end_of_reasoning() -> None:
    assert parse(dict[str, str], '{"a": "</think>"}') == {"a": "</think>"}


def test_nesting_beyond_all_sense_is_refused_with_its_reason() -> None:
    assert problem(list, "[" * 600 + "]" * 600).startswith(
        "$: the JSON is broken: nested deeper than 500 levels, found "
    )


@pytest.mark.parametrize(
    ("form", "piece", "end"),
    [
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
    ],
)
def test_the_time_grows_with_the_length_of_the_reply_and_no_faster(form: Any, piece: str, end: str) -> None:
    def seconds(count: int) -> float:
        text = piece * count + end
        start = time.perf_counter()
        try:
            parse(form, text)
        except OutputParsingError:
            pass
        return time.perf_counter() - start

    small = min(seconds(500) for _ in range(3))
    large = min(seconds(4_000) for _ in range(2))
    assert large < 32 * small + 0.02  # eight times the text: 8 when linear, 64 when quadratic
