"""Reads the types that JSON writes as a string of some form: bytes, identifiers, paths."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any, TypeVar
from uuid import UUID

from .node import Definitions, JsonSchema, Node
from .reading import Json, Place
from .target import Target

__all__ = ["StringFormNode", "string_form_node"]

T = TypeVar("T")


class StringFormNode(Node[T]):
    """A type that JSON writes as a string of some form: bytes, UUID, paths."""

    prose = True

    def __init__(self, kind: str, hint: str, read: Callable[[str], T], schema: JsonSchema) -> None:
        self.kind = kind
        self._hint = hint
        self._read = read
        self._schema = schema
        self.any_text = "uuid" not in schema.values()

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self._schema)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._hint

    def read(self, found: Json, at: Place) -> T:
        if not isinstance(found, str):
            raise at.misfit(f"expected {self.kind}", found)
        try:
            return self._read(found)
        except ValueError as error:
            raise at.misfit(f"expected {self.kind}", found) from error

    def read_text(self, text: str, at: Place) -> T:
        return self.read(text.strip(), at)


def string_form_node(target: Target) -> Node[Any] | None:
    """The node of bytes, UUID or a path; None for all others."""
    form = target.form
    if form is bytes:
        return StringFormNode("text for bytes", "string", _encode, {"type": "string"})
    if form is UUID:
        return StringFormNode("a UUID", '"UUID"', _read_uuid, {"type": "string", "format": "uuid"})
    if isinstance(form, type) and issubclass(form, PurePath):
        cls = Path if form is Path else form
        return StringFormNode("a path", '"path"', _read_path(cls), {"type": "string", "format": "path"})
    return None


def _read_uuid(text: str) -> UUID:
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        raise ValueError("not a UUID")
    return UUID(text)


def _read_path(cls: type[PurePath]) -> Callable[[str], PurePath]:
    def read(text: str) -> PurePath:
        if not text or "\n" in text or "\0" in text:
            raise ValueError("not a path")
        return cls(text)

    return read


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("text that cannot be encoded") from error
