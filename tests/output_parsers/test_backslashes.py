"""Backslashes that a model did not escape in JSON are restored where nothing else can be meant."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import product

import pytest

from output_parsers import Leniency, PartialReader, parse, parser_for, read


@dataclass
class Text:
    v: str


@pytest.mark.parametrize(
    "v",
    [
        r"$\frac{1}{2}$",
        r"$\beta$",
        r"$\times$",
        r"$\forall$",
        r"$\neq$",
        r"$\right)$",
        r"$\to$",
        r"$\not$",
        r"C:\new\folder",
        r"C:\temp\notes",
        r"C:\new\table",
        r"E:\backup\notes\r.txt",
        r"C:\tools\bin\rust\target",
        r"a \times b",
    ],
)
def test_a_backslash_of_latex_or_of_a_path_is_restored(v: str) -> None:
    reading = read(Text, f'{{"v": "{v}"}}')
    assert reading.value == Text(v)
    assert [step.rule for step in reading.coercions] == ["backslash that was not escaped"]


@pytest.mark.parametrize(
    "v", ["line\nnext", "a\tb", "one\ttwo\tthree", "\n- item", "end\r\nnext", "tab\tan apple"]
)
def test_white_space_in_prose_stays(v: str) -> None:
    assert read(Text, parser_for(Text).write(Text(v))) == read(Text, parser_for(Text).write(Text(v)))
    assert parse(Text, parser_for(Text).write(Text(v))) == Text(v)


_LABELS = [
    "A:",
    "Option B:",
    "Q: x\nA:",
    "Answer:",
    "5 $:",
    r"C:\Users\bob",
    r"D:\new",
    r"$\alpha$",
    r"a \times b",
]
_WORDS = "Paris the because not now next exists angle floor text times red ran tab table able no to eg rest"


def test_a_line_break_or_tab_before_a_word_stays_after_labels_paths_and_formulas() -> None:
    for label, word, space in product(_LABELS, _WORDS.split(), ["\n", "\n\n", "\r\n", "\n\t", "\t"]):
        value = Text(f"{label}{space}{word}s and $6")
        reading = read(Text, json.dumps(asdict(value)))
        assert (reading.value, reading.coercions) == (value, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"C:\temp\nthe end", "C:\\temp\nthe end"),
        (r"C:\temp\n\nmore", "C:\\temp\n\nmore"),
        (r"C:\temp\n", "C:\\temp\n"),
        (r"in C:\temp\ndone", "in C:\\temp\ndone"),
    ],
)
def test_a_line_break_after_a_path_stays(text: str, value: str) -> None:
    assert parse(Text, f'{{"v": "{text}"}}') == Text(value)


@pytest.mark.parametrize(
    "text", [r"\bA", r"C:\new\table", r"a \times b", r"$x$ \neq", r"one\nnot two", r"\frac{1}{2}", r"a\tb c"]
)
def test_a_stream_shows_only_beginnings_of_the_final_text(text: str) -> None:
    whole = f'{{"{text}": "{text}"}}'
    for size in range(1, len(whole)):
        reader = PartialReader(dict[str, str])
        shown = []
        for start in range(0, len(whole), size):
            reader.feed(whole[start : start + size])
            shown.append(reader.snapshot().to_python())
        [(key, value)] = reader.finish().value.items()
        assert all(value.startswith(one) for part in shown for one in (part or {}).values())
        assert {one for part in shown for one in part or {}} <= {key}


def test_exact_json_stays_as_json_defines_it_without_leniency() -> None:
    assert parse(Text, r'{"v": "\frac"}', leniency=Leniency.NONE) == Text("\frac")


@pytest.mark.parametrize("v", ["\bA", "\fx", "$\times$", "C:\new"])
def test_every_text_is_read_back_from_what_is_written(v: str) -> None:
    assert parse(Text, parser_for(Text).write(Text(v))) == Text(v)
