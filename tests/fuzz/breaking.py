"""Create a type and a text from any bytes: raw text, or a reply broken in the ways models break it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fuzz_types import SUBJECTS, Subject

__all__ = ["MAX_LENGTH", "Draws", "case_of"]

MAX_LENGTH = 64 * 1024  # characters

_TOKENS: tuple[str, ...] = (
    *"{}[]()<>\"'`“”‘’„«»,:;=/\\#*_-+.%$€|~!?&@^ \t\n\r\0\u00a0\u200b\u2028\ufeff\ud800\udc00٤四½²😀\u0301",
    *('\\"', "\\n", "\\u0041", "\\ud83d", "\\x41", "\\d", "```", "```json\n", "~~~", "//", "/*", "*/", "# "),
    *("<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "null", "None", "true", "False", "NaN"),
    *(
        "-Infinity",
        "undefined",
        "0x1F",
        "1e400",
        "1e-400",
        "-0",
        "007",
        "1_000",
        "1,000",
        "1.000",
        "0.1",
        "50%",
    ),
    *(
        "not ",
        "or ",
        "no",
        "yes",
        "if ",
        "million",
        "forty-two",
        "and",
        "per ",
        "January ",
        "2024-02-30",
        "AM",
    ),
    *(
        "12:30",
        "Z",
        "+05:30",
        "P1D",
        "\\boxed{",
        "The answer is ",
        "...",
        "…",
        "\n\n",
        "- ",
        "1. ",
        "| a | b |\n",
    ),
)
_WORD = re.compile(r"\w+")
_KEY = re.compile(r'"(\w+)"\s*:')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OTHER_DIGITS = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
_PYTHON = {"true": "True", "false": "False", "null": "None"}


class Draws:
    """Decisions that are read from bytes; zeros after the last byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def byte(self) -> int:
        self._position += 1
        return self._data[self._position - 1] if self._position <= len(self._data) else 0

    def below(self, limit: int) -> int:
        """Return a number from 0 to limit - 1, or 0 for a limit of 0."""
        number = self.byte() if limit <= 256 else self.byte() << 8 | self.byte()
        return number % limit if limit > 0 else 0

    def rest(self) -> bytes:
        return self._data[self._position :]

    def has_more(self) -> bool:
        return self._position < len(self._data)


def case_of(data: bytes) -> tuple[Subject, str]:
    """Return a type and a text; the same bytes always give the same case."""
    draws = Draws(data)
    subject = SUBJECTS[draws.below(len(SUBJECTS))]
    kind = draws.below(8)
    if kind == 0:
        return subject, draws.rest().decode("utf-8", "replace")[:MAX_LENGTH]
    if kind == 1:
        rest = draws.rest()
        return subject, rest[: len(rest) // 2 * 2].decode("utf-16-le", "surrogatepass")[:MAX_LENGTH]
    if kind == 2:
        return subject, _random_tokens(draws)
    source = subject if kind < 7 else SUBJECTS[draws.below(len(SUBJECTS))]
    text = source.texts[draws.below(len(source.texts))]
    for _ in range(40):
        if not draws.has_more():
            break
        text = _MUTATIONS[draws.below(len(_MUTATIONS))](draws, text)[:MAX_LENGTH]
    return subject, text


def _random_tokens(draws: Draws) -> str:
    tokens: list[str] = []
    while draws.has_more() and len(tokens) < 2000:
        tokens.append(_TOKENS[draws.below(len(_TOKENS))])
    return "".join(tokens)


def _drop(draws: Draws, text: str) -> str:
    position = draws.below(len(text))
    return text[:position] + text[position + 1 + draws.below(4) :]


def _cut(draws: Draws, text: str) -> str:
    return text[: draws.below(len(text))]


def _cut_front(draws: Draws, text: str) -> str:
    return text[draws.below(len(text)) :]


def _insert(draws: Draws, text: str) -> str:
    position = draws.below(len(text) + 1)
    return text[:position] + _TOKENS[draws.below(len(_TOKENS))] + text[position:]


def _replace(draws: Draws, text: str) -> str:
    position = draws.below(len(text))
    return text[:position] + _TOKENS[draws.below(len(_TOKENS))] + text[position + 1 :]


def _double(draws: Draws, text: str) -> str:
    start = draws.below(len(text))
    end = start + draws.below(len(text) - start + 1)
    return text[:end] + text[start:end] + text[end:]


def _repeat(draws: Draws, text: str) -> str:
    """Repeat a slice many times, which makes quadratic time visible."""
    start = draws.below(len(text))
    piece = text[start : start + 1 + draws.below(12)]
    if draws.below(8) or not piece:
        return text[:start] + piece * draws.below(12) + text[start:]
    return text[:start] + piece * ((MAX_LENGTH - len(text)) // len(piece)) + text[start:]


def _swap(draws: Draws, text: str) -> str:
    one, other = sorted((draws.below(len(text)), draws.below(len(text))))
    if one == other:
        return text
    return text[:one] + text[other] + text[one + 1 : other] + text[one] + text[other + 1 :]


def _nth(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> Callable[[Draws, str], str]:
    """Return a mutation that changes one match of a pattern."""

    def apply_to(draws: Draws, text: str) -> str:
        matches = list(pattern.finditer(text, 0, 5000))
        if not matches:
            return text
        match = matches[draws.below(len(matches))]
        return text[: match.start()] + change(match) + text[match.end() :]

    return apply_to


def _always(change: Callable[[str], str]) -> Callable[[Draws, str], str]:
    return lambda draws, text: change(text)


def _beside_another_text(template: str) -> Callable[[Draws, str], str]:
    """Return a mutation that adds the text of another type, or of the same type, to a text."""

    def apply_to(draws: Draws, text: str) -> str:
        source = SUBJECTS[draws.below(len(SUBJECTS))]
        return template.format(text, source.texts[draws.below(len(source.texts))])

    return apply_to


_MUTATIONS: tuple[Callable[[Draws, str], str], ...] = (
    *(_drop, _cut, _cut_front, _insert, _insert, _replace, _double, _repeat, _swap),
    _nth(_KEY, lambda m: f"{m[1]}:"),
    _nth(_KEY, lambda m: f"'{m[1]}':"),
    _nth(_KEY, lambda m: m[0].title()),
    _nth(_STRING, lambda m: f"'{m[1]}'"),
    _nth(_STRING, lambda m: f"“{m[1]}”"),
    _nth(_STRING, lambda m: f"`{m[1]}`"),
    _nth(_STRING, lambda m: f'"""{m[1]}"""'),
    _nth(_STRING, lambda m: m[1]),
    _nth(_STRING, lambda m: f'"say "{m[1]}" now"'),
    _nth(_STRING, lambda m: f'"{m[1]}\n{m[1]}"'),
    _nth(_STRING, lambda m: f'{m[0]} // it is "so"\n'),
    _nth(_STRING, lambda m: f"/* {m[1]} */ {m[0]}"),
    _nth(_WORD, lambda m: _PYTHON.get(m[0], m[0].upper())),
    _nth(_WORD, lambda m: f'"{m[0]}"'),
    _nth(_WORD, lambda m: f"not {m[0]}"),
    _nth(_WORD, lambda m: f"**{m[0]}**"),
    _nth(re.compile(r"\d+"), lambda m: m[0].translate(_OTHER_DIGITS)),
    _nth(re.compile(r"\d+"), lambda m: f"{m[0]},{m[0]}"),
    _nth(re.compile(r"\d+"), lambda m: f"{m[0]}.0"),
    _nth(re.compile(r"\d+"), lambda m: m[0] * 30),
    _nth(re.compile(r"[}\]]"), lambda m: f",{m[0]}"),
    _nth(re.compile(r"[}\]]"), lambda m: m[0] * 2),
    _nth(re.compile(r"[}\]]"), lambda m: ""),
    _nth(re.compile(r","), lambda m: ""),
    _nth(re.compile(r","), lambda m: "\n"),
    _nth(re.compile(r"\n"), lambda m: "\\n"),
    _always(lambda text: text.replace('"', "'")),
    _always(lambda text: text.replace("{", "{{").replace("}", "}}")),
    _always(lambda text: json.dumps(text)),
    _always(lambda text: json.dumps({"value": text})),
    _always(lambda text: f"```json\n{text}\n```"),
    _always(lambda text: f"```\n{text}"),
    _always(lambda text: f"<think>{text}</think>\n{text}"),
    _always(lambda text: f"<think>no {text}</think>"),
    _always(lambda text: f"{text}</think>{text}"),
    _always(lambda text: f"<answer>{text}</answer>"),
    _always(lambda text: f"Here it is: {text}\nHope that helps!"),
    _always(lambda text: f"[{text}]"),
    _always(lambda text: f'{{"value": {text}}}'),
    _always(lambda text: f'{{"name": "f", "arguments": {text}}}'),
    _always(lambda text: f"\ufeff{text}\0"),
    _always(lambda text: f"{text}\n{text}"),
    _always(lambda text: f"{text}, {text}"),
    _always(str.upper),
    _beside_another_text("{}\n{}"),
    _beside_another_text("{} or {}"),
    _beside_another_text("```\n{}\n```\n{}"),
)
