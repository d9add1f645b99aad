"""Reasoning is removed in the same way from whole replies, streams and plain text, whatever marks it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from output_parsers import OutputParsingError, PartialReader, parse
from output_parsers.parser.reasoning import Answer, ReasoningFilter, find_answer


@dataclass
class Person:
    name: str
    age: int


# The marks around the reasoning, and around the answer after it.
MARKS = {
    "think": ("<think>", "</think>", ""),
    "thinking": ("<Thinking>", "</THINKING>", ""),
    "seed": ("<seed:think>", "</seed:think>", ""),
    "longcat": ("<longcat_think>", "</longcat_think>\n", ""),
    "magistral": ("[THINK]", "[/THINK]", ""),
    "kimi": ("◁think▷", "◁/think▷", ""),
    "thought": (
        "<|begin_of_thought|>",
        "<|end_of_thought|>\n<|begin_of_solution|>",
        "<|end_of_solution|>",
    ),
    "command": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>", "<|END_RESPONSE|>"),
    "medgemma": ("<unused94>thought\n", "<unused95>", ""),
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>", ""),
    "gemma": ("<|channel>thought\n", "<channel|>", ""),
    "harmony": (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
        "<|return|>",
    ),
    "harmony without marks": ("analysisWe see: ", "assistantfinal", ""),
}
DRAFT, ANSWER = '{"name": "Bob", "age": 3}', '{"name": "Ann", "age": 31}'
mark = pytest.mark.parametrize(("opening", "closing", "end"), MARKS.values(), ids=MARKS)


def streamed(text: str, size: int) -> tuple[str, ReasoningFilter]:
    reasoning = ReasoningFilter()
    pieces = [reasoning.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + reasoning.finish(), reasoning


@mark
def test_the_answer_after_the_reasoning_is_read(opening: str, closing: str, end: str) -> None:
    text = f"{opening}maybe {DRAFT}{closing}{ANSWER}{end}"
    assert parse(Person, text) == Person("Ann", 31)
    assert parse(str, f"{opening}hmm{closing}Hello!{end}") == "Hello!"
    for size in (1, 2, 7, 1000):
        assert streamed(text, size)[0] == ANSWER
        reader = PartialReader(Person)
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
            assert getattr(reader.snapshot().value, "name", None) != "Bob"
        assert reader.finish().value == Person("Ann", 31)


@mark
def test_a_draft_in_the_reasoning_is_never_the_answer(opening: str, closing: str, end: str) -> None:
    for text in (f"{opening}maybe {DRAFT}", f"{opening}maybe {DRAFT}{closing}I do not know.{end}"):
        with pytest.raises(OutputParsingError):
            parse(Person, text)


@mark
def test_reasoning_without_its_opening_mark_ends_at_the_closing_mark(
    opening: str, closing: str, end: str
) -> None:
    assert parse(Person, f"maybe {DRAFT}{closing}{ANSWER}{end}") == Person("Ann", 31)


@pytest.mark.parametrize(
    ("text", "answer", "reasoned"),
    [
        ("  Hello", "  Hello", False),
        ("<think>a</think> b", "b", True),
        ("\ufeff <Thinking>a</think></THINKING>\n<reasoning>c</reasoning>b", "b", True),
        ("<table>", "<table>", False),
        ("<thin", "<thin", False),
        ("analysis shows", "analysis shows", False),
        ("[TODO] x", "[TODO] x", False),
        ("<think>a</think>1 < 2 <b", "1 < 2 <b", True),
    ],
)
def test_reasoning_is_removed(text: str, answer: str, reasoned: bool) -> None:
    for size in (1, 3, 1000):
        found, reasoning = streamed(text, size)
        assert (found, reasoning.has_reasoning) == (answer, reasoned)
    assert find_answer(text) == Answer(answer, reasoned)


def test_a_reply_that_ends_inside_its_reasoning_has_no_answer() -> None:
    assert find_answer("<think>a") == Answer("", True, is_cut_off=True)


@pytest.mark.parametrize(
    "text", ['{"name": "</think>", "age": 1}', "```\n</think>\n```", "the <think> and </think> tags"]
)
def test_a_mark_inside_an_answer_belongs_to_it(text: str) -> None:
    assert find_answer(text) == Answer(text, has_reasoning=False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[[ ## answer ## ]]\n6\n\n[[ ## completed ## ]]", "6"),
        ("[[ ## reasoning ## ]]\nAdd 2 and 4.\n\n[[ ## answer ## ]]\n6", "6"),
        ("[[ ## one ## ]]\n1\n\n[[ ## two ## ]]\n2", "[[ ## one ## ]]\n1\n\n[[ ## two ## ]]\n2"),
        ("Not this: [[ ## answer ## ]]\n6", "Not this: [[ ## answer ## ]]\n6"),
    ],
)
def test_the_answer_is_under_the_only_heading_that_is_not_of_reasoning(text: str, answer: str) -> None:
    assert find_answer(text).text == answer
