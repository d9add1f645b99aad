"""Texts that repeat one mark must not make any reader slower than in proportion to their length."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from output_parsers import ItemReader, OutputParsingError, PartialReader, parse, parser_for


@dataclass
class Person:
    name: str
    age: int


class Color(Enum):
    RED = "red"
    GREEN = "green"


TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "date": date,
    "Enum": Color,
    "integers": list[int],
    "dict": dict[str, int],
    "record": Person,
    "records": list[Person],
    "union": int | str | list[int] | Person,
}
UNITS = [
    *("[", "]", "{", "}", '"', "'", "\\", "`", "(", ")", ",", ":", "<", ">", "7", " ", "\n", "a", "-", "."),
    *("[]", "{}", "()", "[ x ] ", "][", "}{", '"",', '\\"', "``", "```\n", "<>", "<a>", "</a>", "< ", "a: "),
    *(
        "- ",
        "1. ",
        "1,",
        "[1,",
        '{"a":',
        '"a" ',
        "'a' ",
        "a\n",
        "\n\n",
        "<think>",
        "</think>",
        "```json\n{",
        "é ",
    ),
]
PREFIXES = ["", "[", "{", '{"name": "', "[1, ", "<think>", "```json\n"]
MAX_GROWTH = 8  # of the time for a text that is four times as long


def read_whole(output_type: Any, text: str) -> None:
    parse(output_type, text)


def read_snapshots(size: int) -> Callable[[Any, str], None]:
    def read(output_type: Any, text: str) -> None:
        reader = PartialReader(output_type)
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
            _ = reader.snapshot().value
        reader.finish()

    return read


def read_items(size: int) -> Callable[[Any, str], None]:
    def read(output_type: Any, text: str) -> None:
        reader = ItemReader(output_type)
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
        reader.finish()

    return read


READERS: dict[str, Callable[[Any, str], None]] = {"whole": read_whole}
READERS |= {f"snapshots of {size}": read_snapshots(size) for size in (1, 64, 4096)}
READERS |= {f"items of {size}": read_items(size) for size in (1, 64, 4096)}


def process_time(read: Callable[[Any, str], object], output_type: Any, text: str) -> float:
    gc.disable()
    try:
        start = time.process_time()
        with suppress(OutputParsingError):
            read(output_type, text)
        return time.process_time() - start
    finally:
        gc.enable()


def scan(output_type: Any, text: str) -> int:
    """Look at each character 50 times, as a measure of linear time on this machine."""
    return sum(sum(map(ord, text)) for _ in range(50))


def growth(reader: str, kind: str, prefix: str, unit: str, size: int) -> float:
    """Return how much longer a reader takes for a text of four times the size; the best of several runs."""
    output_type, read = TYPES[kind], READERS[reader]
    parser_for(output_type)
    short, long = (prefix + unit * (count // len(unit)) for count in (size, 4 * size))
    growths: list[float] = []
    for _ in range(4):
        base = max(process_time(read, output_type, short), process_time(scan, None, short))
        growths.append(process_time(read, output_type, long) / base)
        if growths[-1] <= MAX_GROWTH:
            break
    return min(growths)


# Some combinations, in which each reader, type and prefix occurs.
SMALL_GRID = [
    (list(READERS)[number % 7], list(TYPES)[number % 12], PREFIXES[number * 3 % 7], unit)
    for number, unit in enumerate(UNITS[::2])
]
# A stream looks at up to 4,096 characters again before it gives up, so smaller sizes grow faster.
SIZE = 8_000


@pytest.mark.parametrize(("reader", "kind", "prefix", "unit"), SMALL_GRID)
def test_the_time_of_a_reader_grows_with_the_text(reader: str, kind: str, prefix: str, unit: str) -> None:
    assert growth(reader, kind, prefix, unit, SIZE) <= MAX_GROWTH


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("reader", READERS)
def test_the_time_of_each_reader_grows_with_the_text(reader: str, kind: str, prefix: str) -> None:
    growths = {unit: growth(reader, kind, prefix, unit, SIZE) for unit in UNITS}
    assert {unit: factor for unit, factor in growths.items() if factor > MAX_GROWTH} == {}


@pytest.mark.parametrize("unit", ["[]", "{}", "[ x ] ", "[1] a "])
@pytest.mark.parametrize("kind", ["int", "record"])
def test_a_reply_with_too_many_values_is_refused_before_all_are_read(kind: str, unit: str) -> None:
    read = READERS["whole"]
    fewer = min(process_time(read, TYPES[kind], unit * 2_000) for _ in range(3))
    more = min(process_time(read, TYPES[kind], unit * 40_000) for _ in range(3))
    assert more < 8 * fewer
    with pytest.raises(OutputParsingError, match="the reply contains more than 1000 JSON values"):
        parse(TYPES[kind], unit * 40_000)


def test_json_lines_may_have_more_values() -> None:
    assert parse(list[list[int]], "[1]\n" * 2_000) == [[1]] * 2_000
