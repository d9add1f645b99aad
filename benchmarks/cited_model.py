"""Measure cited values with the embedded model on real texts.

``python -m benchmarks.cited_model [COUNT] [--lines]``. The texts are copyright files of installed packages of
Debian, in the machine-readable format. Their headers say what is right: the name, the source and the year. It
counts the right values and the invented quotes, as the model writes them and as they are accepted.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from aiservices import Cited, Document, Result, ServiceOutputError, create, user_message

MODEL = "local:qwen2.5-coder-1.5b"
FILES = Path("/usr/share/doc")


@dataclass
class Package:
    """What a copyright file says about a program."""

    name: Cited[str]
    source: Cited[str]
    year: Cited[int]


class Reader(Protocol):
    """Reads copyright files."""

    @user_message("Extract the name, the source and the first copyright year of the program.\n\n{{document}}")
    def package(self, document: Document) -> Result[Package]: ...


class Passage(NamedTuple):
    """The beginning of a copyright file, with the facts of its header."""

    text: str
    name: str
    source: str
    year: int


def passages(count: int) -> list[Passage]:
    """Return the beginnings of copyright files that state all three facts."""
    found = []
    for path in sorted(FILES.glob("*/copyright")):
        text = path.read_text("utf-8", "replace")[:900]
        facts = [
            re.search(pattern, text, re.MULTILINE)
            for pattern in (
                r"^Upstream-Name: *(\S.*)$",
                r"^Source: *(\S+)$",
                r"^Copyright: *(?:\(C\) *)?(\d{4})",
            )
        ]
        if all(facts):
            name, source, year = (str(one and one[1]).strip() for one in facts)
            found.append(Passage(text, name, source, int(year)))
    distinct = {passage.name: passage for passage in found}
    return list(distinct.values())[:count]


def measure(count: int, cite: Literal["quotes", "lines"]) -> Counter[str]:
    """Ask the embedded model about each passage, and count the fields by what is right."""
    counts: Counter[str] = Counter()
    reader = create(Reader, MODEL, cite=cite, retry=None)
    for passage in passages(count):
        problems: set[str] = set()
        try:
            result = reader.package(Document(passage.text, name=passage.name))
            reply = result.reply
        except ServiceOutputError as error:
            problems = {problem.path for problem in error.problems}
            (attempt,) = error.attempts
            assert attempt.reply is not None
            reply = attempt.reply
        counts["output tokens"] += reply.usage.output_tokens if reply.usage else 0
        try:
            written: dict[str, Any] = json.loads(reply.message.text)
        except ValueError:
            counts["unreadable"] += 1
            continue
        for field in ("name", "source", "year"):
            _count(counts, written.get(field), passage, field, problems)
    return counts


def _count(counts: Counter[str], written: Any, passage: Passage, field: str, problems: set[str]) -> None:
    if not isinstance(written, dict) or "value" not in written:
        counts["unreadable fields"] += 1
        return
    is_right = str(written["value"]).strip().casefold() == str(getattr(passage, field)).casefold()
    is_refused = any(path == "$" or path.startswith(f"$.{field}") for path in problems)
    counts["fields"] += 1
    counts["right as written"] += is_right
    counts["accepted"] += not is_refused
    counts["accepted and right"] += is_right and not is_refused
    quote = written.get("quote")
    if isinstance(quote, str):
        is_invented = " ".join(quote.split()) not in " ".join(passage.text.split())
        counts["invented as written"] += is_invented
        counts["invented and accepted"] += is_invented and not is_refused


if __name__ == "__main__":
    arguments = [one for one in sys.argv[1:] if one != "--lines"]
    found = measure(int((arguments or ["30"])[0]), "lines" if "--lines" in sys.argv else "quotes")
    for name, number in found.items():
        print(f"{name:24}{number:6}")
