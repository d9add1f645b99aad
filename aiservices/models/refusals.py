"""Read from the error of a provider which part of a request it refuses.

A server may quote the request in its error, so a caller could write words there that look like a refusal.
Only named fields of the error count, and its message without the texts of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pydantic_core import from_json

from .errors import ModelError
from .messages import AiMessage, Message

_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(r"\\[nrtf\"']")
_WINDOW = 3  # a quotation is recognized by this number of words in a row, or by all words of a shorter text
_QUOTED = "input"  # the member in which servers built with FastAPI return what they were sent
_PARAMETERS = ("param", "field")


def message_texts(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the texts of messages that a caller or a model may have written."""
    for message in messages:
        yield message.text
        if isinstance(message, AiMessage):
            for call in message.tool_calls:
                yield from (call.name, call.arguments)


def refusal_text(error: ModelError, texts: Iterable[str]) -> str:
    """Return what the provider itself says in an error, in lower case.

    Everything that quotes one of ``texts`` is left out. The exception's own message is read only if there is
    no body, because the name and the address of the model in it could contain the searched words.
    """
    text = "\n".join(_strings(_parsed(error))) if error.body else str(error)
    return _without_quotations(_ESCAPE.sub(" ", text).lower(), texts)


def refused_parameter(error: ModelError) -> str | None:
    """Return the parameter that a field of the error names, such as ``reasoning.effort``, in lower case.

    None without such a field.
    """
    return next((name.lower() for name in _parameters(_parsed(error)) if name), None)


def _parsed(error: ModelError) -> object:
    try:
        return from_json(error.body or "")
    except ValueError:
        return error.body


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name != _QUOTED:
                yield from _strings(one)


def _parameters(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _parameters(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _PARAMETERS and isinstance(one, str):
                yield one
            elif name == "loc" and isinstance(one, list):
                yield ".".join(str(part) for part in one if part != "body")
            elif name != _QUOTED:
                yield from _parameters(one)


def _without_quotations(text: str, quoted: Iterable[str]) -> str:
    matches = list(_WORD.finditer(text))
    words = [match[0] for match in matches]
    if not words:
        return text
    runs = {run for own in quoted for run in _runs(_WORD.findall(own.lower()), _WINDOW)}
    own_words: set[int] = set()
    for length in range(1, _WINDOW + 1):
        for start, run in enumerate(_runs(words, length)):
            if run in runs:
                own_words.update(range(start, start + length))
    pieces, end = [], 0
    for index in sorted(own_words):
        start, after = matches[index].span()
        pieces += [text[end:start], " "]
        end = after
    return "".join((*pieces, text[end:]))


def _runs(words: Sequence[str], length: int) -> Iterator[tuple[str, ...]]:
    """Yield all runs of a number of words; all words as one run if they are fewer."""
    length = min(length, len(words))
    for start in range(len(words) - length + 1 if length else 0):
        yield tuple(words[start : start + length])
