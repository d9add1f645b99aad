"""Builds texts from bytes: raw ones, and replies that are broken in the ways in which models break them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from fuzz_types import SUBJECTS, Subject

__all__ = ["LONGEST", "Draws", "case_of"]

LONGEST = 64 * 1024  # characters

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
    """Decisions drawn from bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1; 0 where there is none."""
        number = self.byte() if limit <= 256 else self.byte() << 8 | self.byte()
        return number % limit if limit > 0 else 0

    def rest(self) -> bytes:
        return self._data[self._at :]

    def left(self) -> bool:
        return self._at < len(self._data)


def case_of(data: bytes) -> tuple[Subject, str]:
    """A type and a text for any bytes, the same for the same bytes."""
    draws = Draws(data)
    subject = SUBJECTS[draws.below(len(SUBJECTS))]
    kind = draws.below(8)
    if kind == 0:
        return subject, draws.rest().decode("utf-8", "replace")[:LONGEST]
    if kind == 1:
        rest = draws.rest()
        return subject, rest[: len(rest) // 2 * 2].decode("utf-16-le", "surrogatepass")[:LONGEST]
    if kind == 2:
        return subject, _of_tokens(draws)
    giver = subject if kind < 7 else SUBJECTS[draws.below(len(SUBJECTS))]
    text = giver.texts[draws.below(len(giver.texts))]
    for _ in range(40):
        if not draws.left():
            break
        text = _BREAKS[draws.below(len(_BREAKS))](draws, text)[:LONGEST]
    return subject, text


def _of_tokens(draws: Draws) -> str:
    tokens: list[str] = []
    while draws.left() and len(tokens) < 2000:
        tokens.append(_TOKENS[draws.below(len(_TOKENS))])
    return "".join(tokens)


def _drop(draws: Draws, text: str) -> str:
    at = draws.below(len(text))
    return text[:at] + text[at + 1 + draws.below(4) :]


def _cut(draws: Draws, text: str) -> str:
    return text[: draws.below(len(text))]


def _cut_front(draws: Draws, text: str) -> str:
    return text[draws.below(len(text)) :]


def _insert(draws: Draws, text: str) -> str:
    at = draws.below(len(text) + 1)
    return text[:at] + _TOKENS[draws.below(len(_TOKENS))] + text[at:]


def _replace(draws: Draws, text: str) -> str:
    at = draws.below(len(text))
    return text[:at] + _TOKENS[draws.below(len(_TOKENS))] + text[at + 1 :]


def _double(draws: Draws, text: str) -> str:
    start = draws.below(len(text))
    end = start + draws.below(len(text) - start + 1)
    return text[:end] + text[start:end] + text[end:]


def _repeat(draws: Draws, text: str) -> str:
    """A slice, many times: what takes time that is quadratic shows."""
    start = draws.below(len(text))
    piece = text[start : start + 1 + draws.below(12)]
    if draws.below(8) or not piece:
        return text[:start] + piece * draws.below(12) + text[start:]
    return text[:start] + piece * ((LONGEST - len(text)) // len(piece)) + text[start:]


def _swap(draws: Draws, text: str) -> str:
    one, other = sorted((draws.below(len(text)), draws.below(len(text))))
    if one == other:
        return text
    return text[:one] + text[other] + text[one + 1 : other] + text[one] + text[other + 1 :]


def _nth(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> Callable[[Draws, str], str]:
    """Change one match of the pattern."""

    def apply(draws: Draws, text: str) -> str:
        matches = list(pattern.finditer(text, 0, 5000))
        if not matches:
            return text
        match = matches[draws.below(len(matches))]
        return text[: match.start()] + change(match) + text[match.end() :]

    return apply


def _of(change: Callable[[str], str]) -> Callable[[Draws, str], str]:
    return lambda draws, text: change(text)


def _with_other(form: str) -> Callable[[Draws, str], str]:
    """Set a text beside the text of some other type, or of the same."""

    def apply(draws: Draws, text: str) -> str:
        giver = SUBJECTS[draws.below(len(SUBJECTS))]
        return form.format(text, giver.texts[draws.below(len(giver.texts))])

    return apply


_BREAKS: tuple[Callable[[Draws, str], str], ...] = (
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
    _of(lambda text: text.replace('"', "'")),
    _of(lambda text: text.replace("{", "{{").replace("}", "}}")),
    _of(lambda text: json.dumps(text)),
    _of(lambda text: json.dumps({"value": text})),
    _of(lambda text: f"```json\n{text}\n```"),
    _of(lambda text: f"```\n{text}"),
    _of(lambda text: f"<think>{text}</think>\n{text}"),
    _of(lambda text: f"<think>no {text}</think>"),
    _of(lambda text: f"{text}</think>{text}"),
    _of(lambda text: f"<answer>{text}</answer>"),
    _of(lambda text: f"Here it is: {text}\nHope that helps!"),
    _of(lambda text: f"[{text}]"),
    _of(lambda text: f'{{"value": {text}}}'),
    _of(lambda text: f'{{"name": "f", "arguments": {text}}}'),
    _of(lambda text: f"\ufeff{text}\0"),
    _of(lambda text: f"{text}\n{text}"),
    _of(lambda text: f"{text}, {text}"),
    _of(str.upper),
    _with_other("{}\n{}"),
    _with_other("{} or {}"),
    _with_other("```\n{}\n```\n{}"),
)
