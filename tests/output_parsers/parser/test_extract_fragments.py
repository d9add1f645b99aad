"""A value from inside broken JSON, or one that the reply denies, is not the answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from output_parsers import OutputParsingError, read
from output_parsers.parser.extract import FRAGMENT_MESSAGE


class Node(BaseModel):
    value: int
    next: Node | None = None


@dataclass
class Address:
    street: str
    city: str


@dataclass
class Employee:
    name: str
    address: Address


ADDRESS = '{"street": "Oak 5", "city": "Rome"}'


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (Node, '{value": 1, "next": {"value": 2, "next": null}}'),
        (Node, '{"value"}0: 1, "next": {"value": 2, "next": null}}'),
        (Node, '{"value": 1, "next": }{"value": 2, "next": null}}'),
        (Node, '```json\n{\n1 "value": 1,\n "next": {"value": 2}\n}\n```'),
        (Node, '"next": {"value": 2, "next": null}\n}'),
        (Employee | Address, f'{{"name": "Ann"], "address": {ADDRESS}}}'),
        (Employee | Address, f'{{"name": "Ann", "address"1]: {ADDRESS}}}'),
        (list[int], "[10], 20, 30]"),
        (list[int], "[10, 20, 3]0, -4]"),
        (list[int], "[10, 20, 3]0"),
        (list[int], '{"value": [10, 20, 3]}0'),
        (list[int], '{"value": []}7'),
        (list[int], "[10, 20, 3]\n0\n"),
        (list[int], "[10, 20, ]30"),
        (list[int], "1[0, 20]"),
        (list[int], "1,[2, 3]"),
        (list[int], "[]8]"),
        (list[int], "8[]"),
        (list[list[int]], "[]]"),
        (list[list[int]], "1, 2], [3, 4]]"),
        (dict[str, int], '{"ab": 10, "ef": 3}0}'),
        (dict[str, Any], '{"ok": tru}e, "xs": [1]}'),
        (dict[str, int], '{"a": 1}, "b": 2}'),
    ],
)
def test_a_part_of_broken_json_is_an_error(tp: Any, text: str) -> None:
    with pytest.raises(OutputParsingError) as caught:
        read(tp, text)
    assert [str(problem) for problem in caught.value.problems] == [f"$: {FRAGMENT_MESSAGE}"]


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Address, f"{ADDRESS}}}", Address("Oak 5", "Rome")),
        (Address, f"The brace }} is noise. Here it is: {ADDRESS}", Address("Oak 5", "Rome")),
        (Address, f"The list [b] and the set {{a}} are in the text. {ADDRESS}", Address("Oak 5", "Rome")),
        (Address, f"`items[0]` is\n```json\n{ADDRESS}\n```", Address("Oak 5", "Rome")),
        (Address, f"```python\nx[2] = {{4}}]\n```\n```json\n{ADDRESS}\n```", Address("Oak 5", "Rome")),
        (list[int], "The answer is \\boxed{[1, 2]}.", [1, 2]),
        (list[int], "Here you are: [1, 2]. Enjoy!", [1, 2]),
        (list[str], '["a"]\n2. This is the list', ["a"]),
    ],
)
def test_text_that_is_not_json_beside_the_answer_does_not_matter(tp: Any, text: str, value: object) -> None:
    assert read(tp, text).value == value


def test_extra_closing_brackets_are_an_error_if_keys_are_unknown() -> None:
    # the line with the key and the brace of an inner object may be missing
    with pytest.raises(OutputParsingError, match=r"\$: the JSON is broken: it closes more brackets than it"):
        read(Address, '{"street": "Oak 5", "city": "Rome", "name": "Ann"}}')


@pytest.mark.parametrize(
    "text",
    [
        "{}\nThat answer is wrong.",
        "{}\n\nThis is not correct.",
        "{}. It isn't the answer.",
        "I cannot say {} because I do not know.",
        "I can't answer. The format would be {}",
        "If the text were longer I would say {}.",
        'You asked me to parse "{}" but it is incomplete.',
        "```json\n{}\n```\nThe JSON is invalid.",
        "I'm sorry, but I cannot assist with that request.\n\n{}",
        "I was unable to complete your request because the service is down.\n{}",
        "I cannot answer this question without more data. Format: {}",
        "If the user had given an address, the answer would be {}",
        "{}\n\nWait, that's wrong.",
        "{}\n\nThe text says otherwise in one place, but that is wrong.",
        "{}\n\nThe claim is about Paris. It is not true.",
        "{}\n\nThis is not valid for 2023.",
        "{}\n\nIt is not true that the street has another name.",
        "{}\n\nNote: I couldn't tell whether the house number is right.",
        "If I had to choose, I would say {}",
        "{}\n\nI misread the text. Unfortunately, my answer above is wrong.",
    ],
)
def test_json_that_the_text_around_it_denies_is_an_error(text: str) -> None:
    with pytest.raises(
        OutputParsingError, match=r"\$: the text around the JSON may say that it is not the answer"
    ):
        read(Address, text.replace("{}", ADDRESS))


@pytest.mark.parametrize(
    "text",
    [
        "The previous answer was wrong. Corrected: {}",
        "I could not find a middle name.\n{}",
        "{}\nThis is correct.",
        "Based on the text, the answer would be {}",
        "{}\nIf this is not enough, ask again.",
        "{}\n\nLet me know if this is incorrect.",
        "{}\n\nIf the output is incorrect, tell me.",
        "{}\n\nI can't help but notice the typo in the street.",
        "I cannot do this as a table, so here is JSON:\n{}",
        "You asked me to parse the letter, so {}",
        "I can't answer questions about the owner. The address is:\n{}",
        "I cannot help with the legal part, but here is the address: {}",
        "I was unable to parse the footer; the address is {}",
        "As you asked me, here is the JSON: {}",
        "If you would like JSON, here it is: {}",
        'The answer: "{}"',
        'The "address": {}',
    ],
)
def test_json_that_the_text_around_it_explains_is_read(text: str) -> None:
    assert read(Address, text.replace("{}", ADDRESS)).value == Address("Oak 5", "Rome")


def test_json_that_does_not_fit_but_has_the_keys_of_the_answer_is_an_error() -> None:
    """Either may be the answer: a person would ask."""
    other_addresses = [
        '{"street": "Elm 1"}',
        '{"street": "Elm 1", "town": "Bonn"}',
        '{"street": "Elm 1", "city": ["Bonn", "Bern"]}',
        '{"city": null}',
    ]
    for other, fence in product(other_addresses, ("{}", "```json\n{}\n```")):
        for text in (f"{ADDRESS}\n{fence.format(other)}", f"{fence.format(other)}\n\n{ADDRESS}"):
            with pytest.raises(OutputParsingError):
                read(Address, text)
            assert read(Address, f"Example: {other}\nAnswer: {ADDRESS}").value == Address("Oak 5", "Rome")
    for text in ('[1, 2, "x y"]\n[3, 4]', '[3, 4]\n[1, 2, "x y"]', "[3]\n[[1], 4]"):
        with pytest.raises(OutputParsingError):
            read(list[int], text)
    for text in (
        f'{{"tool": "search", "query": "Rome"}}\n{ADDRESS}',
        f"```json\n{ADDRESS}\n```\n```js\nf({{a: 1}})\n```",
    ):
        assert read(Address, text).value == Address("Oak 5", "Rome")
    assert read(list[int], '["a", "b"]\n[3, 4]').value == [3, 4]


def test_the_turn_of_the_assistant_in_a_chat_template_is_left_out() -> None:
    for start, end in (
        ("<|im_start|>assistant\n", "<|im_end|>"),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
        ("<start_of_turn>model\n", "<end_of_turn>"),
        ("<|assistant|>\n", ""),
    ):
        assert read(Address, f"{start}{ADDRESS}{end}").value == Address("Oak 5", "Rome")
