"""Break valid JSON replies in a systematic way, and count which damaged texts are read as a wrong value.

``python -m benchmarks.damage [--cases N] [--seed N] [--by damage|type|frame] [--show KIND] [--examples N]
[--streams] [--out FILE] [--root PATH]``. The same seed gives the same texts, so that two versions of the
library can be compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel, TypeAdapter

from .damage_types import DAMAGED_TYPES

Json: TypeAlias = Any
Tree: TypeAlias = Any
JsonPath: TypeAlias = tuple[object, ...]

RIGHT, SAME_STRUCTURE, ERROR, WRONG = "right", "same structure", "error", "wrong"
INNER_VALUE = "inner value"
KINDS_OF_WRONG = (
    INNER_VALUE,
    "lost items",
    "default taken",
    "trailing comma",
    "swallowed structure",
    "literal as text",
    "one of two answers",
    "other",
    "other exception",
)

_INSERTED = "{}[]:,\"\\'x e10\n/"
_SEPARATORS = ("", " ", "\n", ", ", "\n\nor\n\n")
_FRAMES = {
    "bare": ("", ""),
    "fence": ("```json\n", "\n```"),
    "prose": ("Here is the result: ", "\nLet me know if you need more."),
    "envelope": ('{"value": ', "}"),  # the form of a JSON Schema whose root must be an object
}
_FRAME_CHARACTERS = 8  # of the text around the JSON are edited too, on each side
_EXAMPLES_PER_UNIT = 8  # of each kind


class Reply(NamedTuple):
    """A valid reply.

    Attributes:
        text: The whole text.
        start: The index where its JSON begins.
        end: The index after its JSON.
        frame: The name of the frame around the JSON.
        value: The true value, as a tree.
        answer: The index of the valid JSON among those of its type.
    """

    text: str
    start: int
    end: int
    frame: str
    value: Tree
    answer: int


class Site(NamedTuple):
    """One replacement in a text.

    Attributes:
        start: The index of the first character that is replaced.
        end: The index after the last one.
        text: The text in their place.
    """

    start: int
    end: int
    text: str


class Record(NamedTuple):
    """An instance of a record class, as a part of a tree."""

    cls: Any
    fields: dict[str, Tree]


class Difference(NamedTuple):
    """A part of the true value that differs in the value that was read.

    Attributes:
        path: The path of the part in the JSON.
        is_leaf: True if both parts are strings, numbers or similar values.
        true: The true part.
        read: The part that was read.
        is_default: True if it was read as the default of its field.
    """

    path: JsonPath
    is_leaf: bool
    true: Tree
    read: Tree
    is_default: bool = False


class Example(NamedTuple):
    """A text that was read as a wrong value."""

    kind: str
    damage: str
    type: str
    frame: str
    text: str
    original: str
    read: str
    true: str
    coercions: tuple[str, ...]


@dataclass
class Summary:
    """The counts of one run.

    Attributes:
        counts: The number of texts by damage, type, frame and outcome. The outcome of a wrong text is the
            kind of its mistake.
        examples: Some texts of each kind of mistake.
        streams: The number of texts that were also read in chunks.
        stream_differences: Descriptions of the texts for which that gave another result.
        outcomes: The outcome of each text, if they are kept.
    """

    counts: Counter[tuple[str, str, str, str]]
    examples: list[Example]
    streams: int
    stream_differences: list[str]
    outcomes: list[tuple[str, str, str, str, str]]

    def total(self, *outcomes: str) -> int:
        """Return the number of texts with one of the outcomes, or of all texts."""
        return sum(n for key, n in self.counts.items() if not outcomes or key[3] in outcomes)

    @property
    def wrong(self) -> int:
        return self.total(*KINDS_OF_WRONG)


# Damage: each function returns the number of edits of a reply, and the edit with a given number.


def _area(reply: Reply) -> tuple[int, int]:
    """Return the first and the last index of the characters that are edited."""
    start = max(0, reply.start - _FRAME_CHARACTERS)
    return start, min(len(reply.text), reply.end + _FRAME_CHARACTERS)


def _delete(width: int) -> Callable[[str, int, int], Site]:
    return lambda text, position, _: Site(position, position + width, "")


def _double(width: int) -> Callable[[str, int, int], Site]:
    def site(text: str, position: int, _: int) -> Site:
        end = position + width
        return Site(end, end, text[position:end])

    return site


def _swap(width: int) -> Callable[[str, int, int], Site]:
    def site(text: str, position: int, _: int) -> Site:
        middle, end = position + width, position + 2 * width
        return Site(position, end, text[middle:end] + text[position:middle])

    return site


def _insert_one(text: str, position: int, choice: int) -> Site:
    return Site(position, position, _INSERTED[choice])


def _insert_two(text: str, position: int, choice: int) -> Site:
    first, second = divmod(choice, len(_INSERTED))
    return Site(position, position, _INSERTED[first] + _INSERTED[second])


class Edit(NamedTuple):
    """An edit of neighbouring characters.

    Attributes:
        width: The number of characters that it needs.
        choices: The number of edits at each position.
        site: Returns the edit of a text at a position with a given choice.
    """

    width: int
    choices: int
    site: Callable[[str, int, int], Site]

    def count(self, reply: Reply) -> int:
        start, end = _area(reply)
        return max(0, end - start - self.width + 1) * self.choices

    def sites(self, reply: Reply, index: int) -> list[Site]:
        position, choice = divmod(index, self.choices)
        return [self.site(reply.text, _area(reply)[0] + position, choice)]


_EDITS = {
    "delete one": Edit(1, 1, _delete(1)),
    "delete two": Edit(2, 1, _delete(2)),
    "insert one": Edit(0, len(_INSERTED), _insert_one),
    "insert two": Edit(0, len(_INSERTED) ** 2, _insert_two),
    "double one": Edit(1, 1, _double(1)),
    "double two": Edit(2, 1, _double(2)),
    "swap one": Edit(2, 1, _swap(1)),
    "swap two": Edit(4, 1, _swap(2)),
}
_SINGLE_EDITS = [_EDITS[name] for name in ("delete one", "insert one", "double one", "swap one")]
_DAMAGES = (*_EDITS, "two edits", "cut", "drop line", "join")


def _count(damage: str, reply: Reply, answers: int) -> int:
    """Return the number of edits of a reply by one class of damage."""
    if damage in _EDITS:
        return _EDITS[damage].count(reply)
    if damage == "two edits":
        return sum(edit.count(reply) for edit in _SINGLE_EDITS) ** 2
    if damage == "cut":
        return len(reply.text)
    if damage == "drop line":
        return reply.text.count("\n") + 1 if "\n" in reply.text else 0
    return len(_SEPARATORS) * answers


def _single_site(reply: Reply, index: int) -> Site:
    for edit in _SINGLE_EDITS:
        if index < edit.count(reply):
            return edit.sites(reply, index)[0]
        index -= edit.count(reply)
    raise IndexError(index)


def _sites(damage: str, reply: Reply, index: int) -> list[Site]:
    """Return the edit with a number; an empty list if it changes nothing or its parts overlap."""
    if damage in _EDITS:
        sites = _EDITS[damage].sites(reply, index)
    elif damage == "two edits":
        number = sum(edit.count(reply) for edit in _SINGLE_EDITS)
        sites = sorted(_single_site(reply, part) for part in divmod(index, number))
        if sites[0].end >= sites[1].start:
            return []
    elif damage == "cut":
        sites = [Site(index, len(reply.text), "")]
    else:
        lines = reply.text.splitlines(keepends=True)
        start = sum(map(len, lines[:index]))
        sites = [Site(start, start + len(lines[index]), "")] if index < len(lines) else []
    return [] if _apply(reply.text, sites) == reply.text else sites


def _apply(text: str, sites: Sequence[Site]) -> str:
    for site in reversed(sites):
        text = text[: site.start] + site.text + text[site.end :]
    return text


# Trees: values with plain dicts and lists, so that values of all record classes are compared in one way.


def tree_of(value: Any) -> Tree:
    """Return a value as records, dicts, lists and leaves."""
    if isinstance(value, BaseModel):
        return Record(type(value), {name: tree_of(getattr(value, name)) for name in type(value).model_fields})
    if is_dataclass(value) and not isinstance(value, type):
        return Record(type(value), {part.name: tree_of(getattr(value, part.name)) for part in fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Record(type(value), {name: tree_of(getattr(value, name)) for name in value._fields})
    if isinstance(value, dict):
        return {key: tree_of(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [tree_of(item) for item in value]
    return value


@cache
def _defaults(cls: Any) -> dict[str, Tree]:
    """Return the default of each field of a record class that has one."""
    if issubclass(cls, BaseModel):
        optional = {name: part for name, part in cls.model_fields.items() if not part.is_required()}
        return {name: tree_of(part.get_default(call_default_factory=True)) for name, part in optional.items()}
    if is_dataclass(cls):
        made = {
            part.name: part.default_factory() for part in fields(cls) if part.default_factory is not MISSING
        }
        given = {part.name: part.default for part in fields(cls) if part.default is not MISSING}
        return {name: tree_of(value) for name, value in (made | given).items()}
    return dict(getattr(cls, "_field_defaults", {}))


def differences(true: Tree, read: Tree, path: JsonPath = ()) -> Iterator[Difference]:
    """Yield the parts in which a tree differs from the true tree."""
    if isinstance(true, Record) and isinstance(read, Record) and true.cls is read.cls:
        defaults = _defaults(true.cls)
        for name, part in true.fields.items():
            other = read.fields[name]
            found = list(differences(part, other, (*path, name)))
            if found and name in defaults and not any(differences(defaults[name], other)):
                yield Difference((*path, name), _is_leaf(part), part, other, is_default=True)
            else:
                yield from found
    elif type(true) is dict and type(read) is dict:
        lost, added = true.keys() - read.keys(), read.keys() - true.keys()
        if len(lost) != len(added):
            yield Difference(path, False, true, read)
            return
        lost_in_order = [key for key in true if key in lost]
        names = dict(zip(lost_in_order, [key for key in read if key in added], strict=True))
        for key, part in true.items():
            if key in names:
                yield Difference((*path, ("key", key)), True, key, names[key])
            yield from differences(part, read[names.get(key, key)], (*path, key))
    elif type(true) is list and type(read) is list and len(true) == len(read):
        for index, (part, other) in enumerate(zip(true, read, strict=True)):
            yield from differences(part, other, (*path, index))
    elif not _is_leaf(true) or not _is_leaf(read):
        yield Difference(path, False, true, read)
    elif type(true) is not type(read) or true != read:
        yield Difference(path, True, true, read)


def _is_leaf(tree: Tree) -> bool:
    return not isinstance(tree, (Record, dict, list))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def means(data: Json, tree: Tree, *, unknown_keys: bool = False) -> bool:
    """Return True if a tree is what parsed JSON says, with defaults for absent fields only."""
    if isinstance(tree, Record):
        if not isinstance(data, dict) or not (unknown_keys or data.keys() <= tree.fields.keys()):
            return False
        defaults = _defaults(tree.cls)
        return all(
            means(data[name], part, unknown_keys=unknown_keys)
            if name in data
            else name in defaults and not any(differences(defaults[name], part))
            for name, part in tree.fields.items()
        )
    if isinstance(tree, dict):
        if not isinstance(data, dict) or not (unknown_keys or data.keys() == tree.keys()):
            return False
        if not tree.keys() <= data.keys():
            return False
        return all(means(data[key], part, unknown_keys=unknown_keys) for key, part in tree.items())
    if isinstance(tree, list):
        if not isinstance(data, list) or len(data) != len(tree):
            return False
        return all(means(*pair, unknown_keys=unknown_keys) for pair in zip(data, tree, strict=True))
    if isinstance(tree, Enum):
        return means(data, tree.value)
    if isinstance(tree, (date, datetime)):
        return bool(data == tree.isoformat())
    if isinstance(tree, str) and _is_number(data):  # 1 for a string is "1"
        return str(data) == tree
    if _is_number(tree):
        return _is_number(data) and Decimal(str(data)) == Decimal(str(tree))
    return type(data) is type(tree) and bool(data == tree)


# JSON: the exact reading, and where each part is in the text.


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_unique, strict=True
)
_INVALID: Json = object()


def exact_json(text: str) -> Json:
    """Return the value of a text that is exact JSON, and ``_INVALID`` for any other text."""
    try:
        return _DECODER.decode(text)
    except (ValueError, ArithmeticError):
        return _INVALID


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def leaf_spans(text: str, start: int) -> dict[JsonPath, tuple[int, int]]:
    """Return the span of each key and leaf of the valid JSON at ``start``, by its path.

    The last step of the path of a key is ``("key", key)``.
    """
    tokens = _TOKEN.finditer(text, start)
    spans: dict[JsonPath, tuple[int, int]] = {}

    def read(token: re.Match[str], path: JsonPath) -> None:
        if token[0] == "{":
            while (key := next(tokens))[0] != "}":
                if key[0] == ",":
                    continue
                name = json.loads(key[0])
                spans[(*path, ("key", name))] = key.span()
                next(tokens)  # the colon
                read(next(tokens), (*path, name))
        elif token[0] == "[":
            index = 0
            while (item := next(tokens))[0] != "]":
                if item[0] != ",":
                    read(item, (*path, index))
                    index += 1
        else:
            spans[path] = token.span()

    read(next(tokens), ())
    return spans


# As in JSON5, but without zeros at the beginning, which may be the rest of another number.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_KNOWN_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_LITERALS: dict[str, object] = {"true": True, "false": False, "null": None}


def _unescaped(body: str) -> str:
    return _KNOWN_ESCAPE.sub(lambda escape: str(json.loads(f'"{escape[0]}"')), body)


def spells(spelling: str, true: object, read: object) -> bool:
    """Return True if the text of a leaf means the value that was read; both are of one kind."""
    spelling = spelling.strip()
    if _is_number(true):
        if not _is_number(read):
            return False
        if re.fullmatch("0[xX][0-9a-fA-F]+", spelling):
            return int(spelling, 16) == read
        return _NUMBER.fullmatch(spelling) is not None and Decimal(spelling) == Decimal(str(read))
    if true is None or isinstance(true, bool):
        return spelling in _LITERALS and _LITERALS[spelling] is read
    if type(read) is not type(true) or len(spelling) < 2 or spelling[0] != '"' or spelling[-1] != '"':
        return False
    body = spelling[1:-1]
    if isinstance(read, (date, datetime)):
        return [int(part) for part in re.findall(r"\d+", body)] == [
            int(part) for part in re.findall(r"\d+", read.isoformat())
        ]
    if isinstance(read, Enum):
        return bool(body == read.value)
    # A backslash that begins no escape is text, or escapes the character after it.
    quotes = re.sub(r"\\(['`])", r"\1", body)
    without = re.sub(r"\\([^\"\\/bfnrtu])", r"\1", body)
    return read in (body, _unescaped(body), _unescaped(quotes), _unescaped(without))


# The outcome of one text.


class Case(NamedTuple):
    """A damaged text.

    Attributes:
        reply: The valid reply.
        sites: The edits; empty for two joined replies.
        text: The damaged text.
        other: The other reply, for two joined replies.
    """

    reply: Reply
    sites: list[Site]
    text: str
    other: Reply | None = None

    def edited_json(self) -> str:
        """Return the part of the damaged text that was the JSON of the reply."""
        start, end = self.reply.start, self.reply.end
        for site in self.sites:
            if site.start < self.reply.start < site.end:
                start = site.start
            if site.start < self.reply.end < site.end:
                end = site.end
        inside = [site for site in self.sites if site.end >= start and site.start <= end]
        before = [site for site in self.sites if site.end < start]
        start += sum(len(site.text) - (site.end - site.start) for site in before)
        end += sum(len(site.text) - (site.end - site.start) for site in (*before, *inside))
        return self.text[start:end]


def classify(case: Case, value: Any) -> str:
    """Return the outcome of a damaged text that was read as a value: RIGHT, SAME_STRUCTURE or a mistake."""
    true, read = case.reply.value, tree_of(value)
    if case.other is not None:
        if any(differences(true, case.other.value)):
            equal = not any(differences(true, read)) or not any(differences(case.other.value, read))
            return "one of two answers" if equal else _kind_of_mistake(case, read)
        return RIGHT if not any(differences(true, read)) else _kind_of_mistake(case, read)
    parts = list(islice(differences(true, read), 5))
    if not parts:
        return RIGHT
    data = exact_json(case.edited_json())
    if data is not _INVALID and means(_opened(data, case.reply), read):
        return RIGHT
    if len(parts) <= len(case.sites) and all(_is_spelled(case, part) for part in parts):
        return SAME_STRUCTURE
    return _kind_of_mistake(case, read)


def _opened(data: Json, reply: Reply) -> Json:
    """Return the value in the envelope of a reply, if it has one."""
    is_enveloped = reply.frame == "envelope" and isinstance(data, dict) and set(data) == {"value"}
    return data["value"] if is_enveloped else data


def _is_spelled(case: Case, part: Difference) -> bool:
    """Return True if a leaf that differs is what the damaged text spells in its place."""
    if not part.is_leaf:
        return False
    path = ("value", *part.path) if case.reply.frame == "envelope" else part.path
    start = 0 if case.reply.frame == "envelope" else case.reply.start
    span = leaf_spans(case.reply.text, start).get(path)
    if span is None:
        return False
    start, end = span
    is_string = case.reply.text[start] == '"'
    sites = [site for site in case.sites if site.start <= end and site.end >= start]
    if not sites:
        return False
    # An edit next to a number belongs to it; an edit next to a string is outside of its quotes.
    margin = 1 if is_string else 0
    sites = [_moved_into(site, start + margin, end - margin, case.reply.text) for site in sites]
    if all(start + margin <= site.start and site.end <= end - margin for site in sites):
        if spells(_edited(case.reply.text, start, end, sites), part.true, part.read):
            return True
        if is_string:
            return False
    # The edit crosses the end of the leaf: the text spells what is now one token there. A string that took
    # in a bracket, a colon or a comma is a mistake even so.
    start, end = min(start, sites[0].start), max(end, sites[-1].end)
    tokens = _TOKEN.findall(_edited(case.reply.text, start, end, sites))
    if is_string:
        added = [Counter(token) - Counter(str(part.true)) for token in tokens]
        tokens = [t for t, new in zip(tokens, added, strict=True) if not any(c in "{}[]:," for c in new)]
    else:
        tokens = [token for token in tokens if token not in "{}[]:,"]
        if len(tokens) != 1:
            return False
    return any(spells(token, part.true, part.read) for token in tokens)


def _moved_into(site: Site, start: int, end: int, text: str) -> Site:
    """Return the equivalent of an insertion or a deletion that lies inside a span, if there is one.

    To insert ``"e`` before the quote of ``"one"`` and ``e"`` after it gives the same text.
    """
    moved = site
    for _ in range(2):
        first, last, new = moved
        if first < start or last <= end or (new and first < last):
            break
        if new and text[first - 1] == new[-1]:
            moved = Site(first - 1, last - 1, new[-1] + new[:-1])
        elif not new and text[first - 1] == text[last - 1]:
            moved = Site(first - 1, last - 1, "")
    for _ in range(2):
        first, last, new = moved
        if first >= start or (new and first < last) or last >= len(text):
            break
        if new and text[first] == new[0]:
            moved = Site(first + 1, last + 1, new[1:] + new[0])
        elif not new and text[first] == text[last]:
            moved = Site(first + 1, last + 1, "")
    return moved if start <= moved.start and moved.end <= end else site


def _edited(text: str, start: int, end: int, sites: Sequence[Site]) -> str:
    """Return a part of a text after the edits inside that part."""
    return _apply(text[start:end], [Site(site.start - start, site.end - start, site.text) for site in sites])


_TRAILING_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])')


def _without_comma(match: re.Match[str]) -> str:
    return "" if match[0] == "," else match[0]


def _kind_of_mistake(case: Case, read: Tree) -> str:
    if _is_inner_value(case, read):
        return INNER_VALUE
    data = exact_json(_TRAILING_COMMA.sub(_without_comma, case.edited_json()))
    if data is not _INVALID and means(_opened(data, case.reply), read):
        return "trailing comma"
    parts = list(islice(differences(case.reply.value, read), 20))
    for part in parts:
        if isinstance(part.read, str) and not isinstance(part.true, (str, Enum)):
            return "literal as text"
    for part in parts:
        if isinstance(part.true, str) and isinstance(part.read, str):
            added = Counter(part.read) - Counter(part.true)
            if any(char in '{}[]:,"' for char in added):
                return "swallowed structure"
    if any(part.is_default for part in parts):
        return "default taken"
    return "lost items" if any(_lost(part) for part in parts) else "other"


def _lost(part: Difference) -> bool:
    true, read = part.true, part.read
    return type(true) is type(read) and isinstance(true, (list, dict)) and len(read) < len(true)


def _is_inner_value(case: Case, read: Tree) -> bool:
    """Return True if a value is what a smaller part of the text says."""
    if _is_leaf(read):
        return False
    edited = case.edited_json() if case.other is None else case.text
    content = edited.strip()
    whole = exact_json(content)
    for opening in re.finditer(r"[{\[]", case.text):
        try:
            data, end = _DECODER.raw_decode(case.text, opening.start())
        except (ValueError, ArithmeticError):
            continue
        is_whole = case.text[opening.start() : end] == content or data == _opened(whole, case.reply)
        if not is_whole and _may_come_from(data, read):
            return True
    if whole is not _INVALID:
        return False
    original = exact_json(case.reply.text[case.reply.start : case.reply.end])
    return any(_may_come_from(part, read) for part in _inner_parts(_opened(original, case.reply)))


def _may_come_from(data: Json, read: Tree) -> bool:
    return isinstance(data, (dict, list)) and means(data, read, unknown_keys=True)


def _inner_parts(data: Json) -> Iterator[Json]:
    for part in data.values() if isinstance(data, dict) else data:
        if isinstance(part, (dict, list)):
            yield part
            yield from _inner_parts(part)


# Running.


def _replies(name: str, *, with_envelope: bool) -> list[Reply]:
    """Return the valid replies of a type in all frames, on one line and on several."""
    tp, answers = DAMAGED_TYPES[name]
    adapter = TypeAdapter(tp)
    replies = []
    for answer, compact in enumerate(answers):
        value = tree_of(adapter.validate_json(compact))
        for frame, (before, after) in _FRAMES.items():
            if frame == "envelope" and not with_envelope:
                continue
            for indent in (None, 2):
                text = json.dumps(json.loads(compact), ensure_ascii=False, indent=indent)
                whole = before + text + after
                inside = frame != "envelope"
                start = len(before) if inside else 0
                end = start + len(text) if inside else len(whole)
                replies.append(Reply(whole, start, end, frame, value, answer))
    return replies


def _joined(reply: Reply, replies: Sequence[Reply], index: int) -> Case:
    number, separator = divmod(index, len(_SEPARATORS))
    # The other reply has the same frame and layout.
    alike = [other for other in replies if other.frame == reply.frame]
    layout = alike.index(reply) % 2
    other = [item for item in alike if item.answer == number][layout]
    return Case(reply, [], reply.text + _SEPARATORS[separator] + other.text, other)


class _Unit(NamedTuple):
    type: str
    damage: str
    cases: int
    seed: int
    streams: int  # every n-th text is also read in chunks; 0 for none
    keep: bool


class _Parsers(NamedTuple):
    plain: Any
    enveloped: Any  # None if the type is an object anyway


@cache
def _parsers(name: str) -> _Parsers:
    from output_parsers import parser_for

    parser: Any = parser_for(DAMAGED_TYPES[name][0])
    if parser.schema.get("type") == "object" or "$ref" in parser.schema:
        return _Parsers(parser, None)
    wrap = getattr(parser, "with_envelope", None) or parser.enveloped  # the name before
    return _Parsers(parser, wrap())


def _cases(unit: _Unit) -> Iterator[Case]:
    """Yield different damaged texts of one type, chosen at random."""
    replies = _replies(unit.type, with_envelope=_parsers(unit.type).enveloped is not None)
    answers = len(DAMAGED_TYPES[unit.type][1])
    counts = [_count(unit.damage, reply, answers) for reply in replies]
    chosen = random.Random(f"{unit.seed} {unit.type} {unit.damage}")
    for index in sorted(chosen.sample(range(sum(counts)), min(unit.cases, sum(counts)))):
        number, position = index, 0
        while number >= counts[position]:
            number -= counts[position]
            position += 1
        reply = replies[position]
        if unit.damage == "join":
            yield _joined(reply, replies, number)
        elif sites := _sites(unit.damage, reply, number):
            yield Case(reply, sites, _apply(reply.text, sites))


def _run_unit(unit: _Unit) -> Summary:
    from output_parsers import OutputParsingError

    summary = Summary(Counter(), [], 0, [], [])
    parsers = _parsers(unit.type)
    shown: Counter[str] = Counter()
    for number, case in enumerate(_cases(unit)):
        parser = parsers.enveloped if case.reply.frame == "envelope" else parsers.plain
        reading: Any = None
        try:
            reading = parser.read(case.text)
            outcome = classify(case, reading.value)
        except OutputParsingError:
            outcome = ERROR
        except Exception as error:
            reading, outcome = error, "other exception"
        summary.counts[unit.damage, unit.type, case.reply.frame, outcome] += 1
        if unit.keep:
            summary.outcomes.append((unit.damage, unit.type, case.reply.frame, case.text, outcome))
        if outcome in KINDS_OF_WRONG and shown[outcome] < _EXAMPLES_PER_UNIT:
            shown[outcome] += 1
            summary.examples.append(_example(unit, case, outcome, reading))
        if unit.streams and number % unit.streams == 0:
            summary.streams += 1
            difference = _stream_difference(parser, case.text, number % 7 + 1, reading)
            if difference:
                summary.stream_differences.append(f"{unit.type} {case.text!r}: {difference}")
    return summary


def _example(unit: _Unit, case: Case, outcome: str, reading: Any) -> Example:
    value = getattr(reading, "value", reading)
    rules = tuple(coercion.rule for coercion in getattr(reading, "coercions", ()))
    true = _shown(case.reply.value) if case.other is None else "an error, as the answers differ"
    return Example(
        outcome,
        unit.damage,
        unit.type,
        case.reply.frame,
        case.text,
        case.reply.text,
        _shown(tree_of(value)),
        true,
        rules,
    )


def _shown(tree: Tree) -> str:
    if isinstance(tree, Record):
        return f"{tree.cls.__name__}({', '.join(f'{k}={_shown(v)}' for k, v in tree.fields.items())})"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(part)}" for key, part in tree.items()) + "}"
    return f"[{', '.join(map(_shown, tree))}]" if isinstance(tree, list) else repr(tree)


def _stream_difference(parser: Any, text: str, size: int, reading: Any) -> str:
    """Read a text in chunks; return how the result differs from that of the whole text, or ""."""
    from output_parsers import OutputParsingError, PartialReader

    reader: Any = PartialReader(parser)
    try:
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
            reader.snapshot()
        streamed = reader.finish()
    except OutputParsingError as error:
        return "" if reading is None else f"an error in chunks of {size}: {error}"
    except Exception as error:
        return f"{type(error).__name__} in chunks of {size}: {error}"
    if reading is None:
        return f"an error only when read at once; in chunks of {size}: {streamed.value!r}"
    if any(differences(tree_of(reading.value), tree_of(streamed.value))):
        return f"in chunks of {size}: {streamed.value!r}, at once: {reading.value!r}"
    return ""


def _quotas(cases: int) -> dict[tuple[str, str], int]:
    """Divide the cases evenly over types and damages; a pair with fewer edits leaves its share to others."""
    sizes = {}
    for name, (_, answers) in DAMAGED_TYPES.items():
        replies = _replies(name, with_envelope=_parsers(name).enveloped is not None)
        for damage in _DAMAGES:
            sizes[name, damage] = sum(_count(damage, reply, len(answers)) for reply in replies)
    quotas: dict[tuple[str, str], int] = {}
    rest = cases
    for position, (pair, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        quotas[pair] = min(size, rest // (len(sizes) - position))
        rest -= quotas[pair]
    return quotas


def run(
    cases: int, seed: int = 0, *, processes: int = 1, streams: int = 0, keep_outcomes: bool = False
) -> Summary:
    """Read damaged texts and return the counts.

    Args:
        cases: The number of texts. A few fewer are read, because edits that change nothing are left out.
        seed: Decides which texts are chosen.
        processes: How many processes read them.
        streams: Every n-th text is also read in chunks; 0 for none.
        keep_outcomes: True to return the outcome of each text.
    """
    quotas = _quotas(cases)
    units = [
        _Unit(name, damage, quotas[name, damage], seed, streams, keep_outcomes)
        for name in DAMAGED_TYPES
        for damage in _DAMAGES
    ]
    total = Summary(Counter(), [], 0, [], [])

    def add(parts: Iterator[Summary] | Any) -> Summary:
        for part in parts:
            total.counts.update(part.counts)
            total.examples.extend(part.examples)
            total.streams += part.streams
            total.stream_differences.extend(part.stream_differences)
            total.outcomes.extend(part.outcomes)
        return total

    if processes == 1:
        return add(map(_run_unit, units))
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return add(pool.imap(_run_unit, units))


def table(summary: Summary, by: str = "damage") -> list[str]:
    """Return the lines of a table of the outcomes by damage, type or frame."""
    column = ("damage", "type", "frame").index(by)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for key, number in summary.counts.items():
        for name in (key[column], "all"):
            groups[name][key[3]] += number
    order = [*dict.fromkeys(key[column] for key in summary.counts), "all"]
    head = ("texts", RIGHT, SAME_STRUCTURE, ERROR, WRONG, "share wrong", "inner values")
    lines = [f"{by:<22}" + "".join(f"{title:>16}" for title in head)]
    for name in order:
        counts = groups[name]
        texts, wrong = counts.total(), sum(counts[kind] for kind in KINDS_OF_WRONG)
        numbers = (texts, counts[RIGHT], counts[SAME_STRUCTURE], counts[ERROR], wrong)
        share = f"{100 * wrong / max(texts, 1):.3f} %"
        cells = [*(f"{number:,}" for number in numbers), share, f"{counts[INNER_VALUE]:,}"]
        lines.append(f"{name:<22}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def kinds(summary: Summary) -> list[str]:
    """Return the lines of a table of the mistakes by damage."""
    shown = [kind for kind in KINDS_OF_WRONG if summary.total(kind)]
    lines = [f"{'mistakes':<22}" + "".join(f"{kind:>21}" for kind in shown)]
    for name in (*_DAMAGES, "all"):
        numbers = [
            sum(n for key, n in summary.counts.items() if key[3] == kind and name in (key[0], "all"))
            for kind in shown
        ]
        lines.append(f"{name:<22}" + "".join(f"{number:>21,}" for number in numbers))
    return lines


def examples(summary: Summary, kind: str, limit: int) -> list[Example]:
    """Return examples of one kind of mistake, or of all kinds for ``all``, spread over types and damages."""
    groups: dict[tuple[str, str, str], list[Example]] = defaultdict(list)
    for example in summary.examples:
        if kind in (example.kind, "all"):
            groups[example.kind, example.type, example.damage].append(example)
    rounds = (
        group[number]
        for number in range(_EXAMPLES_PER_UNIT)
        for group in groups.values()
        if number < len(group)
    )
    return list(islice(rounds, limit))


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks.damage", description=__doc__)
    options.add_argument("--cases", type=int, default=200_000, help="the number of damaged texts")
    options.add_argument("--seed", type=int, default=0, help="decides which texts are chosen")
    options.add_argument("--by", choices=("damage", "type", "frame"), default="damage", help="the rows")
    options.add_argument("--show", choices=(*KINDS_OF_WRONG, "all"), help="show examples of a mistake")
    options.add_argument("--examples", type=int, default=20, help="how many to show")
    options.add_argument("--streams", action="store_true", help="also read one of 20 texts in chunks")
    options.add_argument(
        "--out", type=Path, help="write the outcome of each text to this file, as JSON Lines"
    )
    options.add_argument("--root", type=Path, help="the checkout whose output_parsers is tested")
    options.add_argument("--processes", type=int, default=2)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the damage test and print its table."""
    options = _options().parse_args(arguments)
    if options.root is not None:
        sys.path.insert(0, str(options.root))
    summary = run(
        options.cases,
        options.seed,
        processes=options.processes,
        streams=20 if options.streams else 0,
        keep_outcomes=options.out is not None,
    )
    print("\n".join([*table(summary, options.by), "", *kinds(summary)]))
    if options.streams:
        print(f"\n{summary.streams:,} texts read in chunks; {len(summary.stream_differences)} results differ")
        print("\n".join(summary.stream_differences[: options.examples]))
    for example in examples(summary, options.show, options.examples) if options.show else ():
        print(f"\n{example.kind} / {example.damage} / {example.type} / {example.frame}")
        print(f"  text     {example.text!r}\n  original {example.original!r}")
        print(
            f"  read     {example.read}\n  expected {example.true}\n  by       {', '.join(example.coercions)}"
        )
    if options.out is not None:
        with options.out.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(outcome, ensure_ascii=False) + "\n" for outcome in summary.outcomes)


if __name__ == "__main__":
    main()
