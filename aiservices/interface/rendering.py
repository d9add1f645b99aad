"""Writes a value into a prompt as a reader would write it, and keeps the places of what is no text."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ..models.media import Media

_LISTS = (list, tuple, set, frozenset)


def render_value(value: Any) -> str:
    """One rule for all values that a template shows.

    Text as it is; None as ``none``; booleans as ``true`` and ``false``; numbers in their shortest exact
    form; dates and times in ISO 8601; an enum member by its value when that is text, else by its name;
    lists, tuples and sets of such values with commas between them (sets in sorted order); records, dicts,
    and lists that hold any of these, as JSON; all else by ``str``. Inside JSON, numbers, booleans and null
    are JSON's own, and what JSON has no form for is the text that it is outside.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if _is_record(value):
        return _as_json(value)
    if isinstance(value, _LISTS):
        return _listed(value)
    return str(value)


def _is_record(value: Any) -> bool:
    return not isinstance(value, type) and _fields(value) is not None


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """What a record or mapping holds, by name; None for all else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        return value.model_dump()
    if hasattr(value, "_asdict"):
        fields: Mapping[str, Any] = value._asdict()
        return fields
    if isinstance(value, Media):
        raise TypeError(f"{value.kind} is no text; give it by a parameter of type {type(value).__name__}")
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "__attrs_attrs__"):
        names = [attribute.name for attribute in value.__attrs_attrs__]
    elif hasattr(type(value), "__struct_fields__"):  # msgspec
        names = list(value.__struct_fields__)
    else:
        return None
    return {name: getattr(value, name) for name in names}


def _listed(values: Iterable[Any]) -> str:
    items = list(values)
    if any(_is_record(item) or isinstance(item, _LISTS) for item in items):
        return _as_json(items)
    shown = [render_value(item) for item in items]
    return ", ".join(sorted(shown) if isinstance(values, (set, frozenset)) else shown)


def _as_json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON holds it; what JSON has no form for is the text that it is outside of JSON."""
    if value is None or (isinstance(value, (str, bool, int, float)) and not isinstance(value, Enum)):
        return value
    fields = None if isinstance(value, type) else _fields(value)
    if fields is not None:
        return {render_value(name): _plain(part) for name, part in fields.items()}
    if isinstance(value, _LISTS):
        return [_plain(item) for item in value]
    return render_value(value)


# No argument of a call can hold a mark by accident or on purpose: it differs in each process.
_SECRET = os.urandom(8).hex()
_MARK = re.compile(f"\ue000{_SECRET}:([0-9]+)\ue001")


class _Mark(str):
    """Stands in a prompt for media; a template may ask it for what they are (``image.name``)."""

    media: Media

    def __getattr__(self, name: str) -> Any:
        return getattr(self.media, name)


class _Marks(Sequence[Any]):
    """Several of them, with nothing between."""

    def __init__(self, marks: Iterable[Any]) -> None:
        self._marks = tuple(marks)

    def __getitem__(self, index: Any) -> Any:
        return self._marks[index]

    def __len__(self) -> int:
        return len(self._marks)

    def __str__(self) -> str:
        return "".join(self._marks)


class MediaMarks:
    """Media on their way through a template, where marks stand for them."""

    def __init__(self) -> None:
        self.media: list[Media] = []

    def mark(self, value: Any, where: str) -> Any:
        """What a template is given in the place of media, or of a list of them; of None, no text.

        Raises TypeError when the value is neither.
        """
        if value is None:
            return ""
        if isinstance(value, Media):
            mark = _Mark(f"\ue000{_SECRET}:{len(self.media)}\ue001")
            mark.media = value
            self.media.append(value)
            return mark
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            how = "make one with Image.from_path, from_bytes or from_url"
            raise TypeError(f"{where} takes an Image, Audio or File, not {type(value).__name__}; {how}")
        return _Marks([self.mark(one, where) for one in value])

    def split(self, text: str) -> list[str | Media] | None:
        """A rendered text cut at its marks, with the media there and those without a mark at the end.

        None when there is no mark in it.
        """
        pieces = _MARK.split(text)
        if len(pieces) == 1:
            return None
        placed = [int(number) for number in pieces[1::2]]
        said: list[str | Media] = [pieces[0]]
        for number, piece in zip(placed, pieces[2::2], strict=True):
            said += [self.media[number], piece]
        return said + [media for number, media in enumerate(self.media) if number not in placed]
