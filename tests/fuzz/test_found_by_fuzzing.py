"""Bugs that the fuzzing found, each with the text that revealed it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from output_parsers import OutputParsingError, parse


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


def message(tp: Any, text: str) -> str:
    with pytest.raises(OutputParsingError) as error:
        parse(tp, text)
    return str(error.value)


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (bytes, '"raw"'),
        (Path, '"a b/c"'),
        (int | str, "42"),
        (int | str, '"42"'),
        (dict[str, Any], '"{\\"value\\": \\"{\'value\': \'{}\'}\\"}"'),
        (bytes, "&\0"),
        (bytes, "\ufeffraw"),
    ],
)
def test_a_fence_does_not_change_the_value(tp: Any, text: str) -> None:
    for fence in ("```\n{}\n```", "```json\n{}\n```", "~~~\n{}\n~~~"):
        assert parse(tp, fence.format(text)) == parse(tp, text)


def test_a_tag_that_ends_reasoning_inside_a_fence_is_content() -> None:
    assert parse(bytes, "```\nraw</think>raw\n```") == b"raw</think>raw"
    assert parse(Path, "```\n{think>/usr/share/d</think>\n```") == Path("{think>/usr/share/d</think>")


def test_a_json_string_with_half_a_surrogate_pair_is_not_read_as_plain_text() -> None:
    for tp in (Path, bytes, int | str):
        assert message(tp, '"a\\udc00b"') == (
            "cannot read the text: $: half a surrogate pair is not a character (the text: '\"a\\\\udc00b\"')"
        )


def test_json_that_is_escaped_as_a_whole_is_read() -> None:
    text = "{\\\"value\\\": \\\"{'value': '{}'}\\\"}"
    assert parse(dict[str, Any], text) == {"value": "{'value': '{}'}"}


def test_a_key_of_sixty_thousand_characters_is_shortened_in_messages() -> None:
    key = "k" * 60_000
    text = f'{{"value": "x", "{key}": 1, "children": [{{"{key}": 1}}]}}'
    shown = text[:97] + " ... " + text[-97:]
    assert message(Tree, text) == (
        'cannot read the text: $.value: expected an integer, found "x"; '
        f"$.children[0].value: the required field 'value' is missing (the text: {shown!r})"
    )
    assert len(message(dict[str, int], f'{{"{key}": "x"}}')) < 500
    assert len(message(int, f'{{"{key}": "x"}}')) < 500


def test_a_hundred_thousand_problems_are_counted_but_not_all_listed() -> None:
    text = '["x"' + ', "x"' * 100_000 + "]"
    error_text = message(list[int], text)
    assert error_text.startswith('cannot read the text: $[0]: expected an integer, found "x"; $[1]: ')
    assert '; $[19]: expected an integer, found "x"; and 80 more problems (the text: ' in error_text


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (Any, "`" * 60_000),
        (Tree, "~" * 60_000),
        (Tree, '[{`Value`: {value: "' + '\\"value\\": 2ue' * 4_000),
        (list[Tree], '```\n"[{\\"kind\\": ' + '\\"dog\\", ' * 6_000 + "\n```"),
        (list[Tree], '{"value": "Zo\\u00eb \\"Zo\\" O, {"value": "1968-07-04"}\n' * 1_100),
        (float, "[]" * 30_000),
        (int | None, "[3], " * 12_000),
        (Tree | None, "{}" * 30_000),
    ],
)
def test_sixty_thousand_characters_are_refused_in_a_few_seconds(tp: Any, text: str) -> None:
    start = time.process_time()
    message(tp, text)
    assert time.process_time() - start < 5  # the bugs took from 1 to 40 seconds
