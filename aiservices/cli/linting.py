"""What the strict mode of a provider cannot say of the types of a method, and what is done about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from output_parsers import parser_for
from output_parsers.encoding import Finding, encode
from output_parsers.encoding.notes import ENFORCED_LATER, GIVEN_UP
from output_parsers.errors import UnsupportedTypeError
from output_parsers.lint import lint
from output_parsers.parser import TypeParser
from output_parsers.profiles import PROFILES

from ..plan import MethodPlan
from ..returns import Shape
from ..strategy import Strategy

__all__ = ["Note", "notes_of"]


class Note(NamedTuple):
    """One finding: what it is about (the answer, or a tool), where in it, and what is done.

    ``strict`` is False where strict mode has to be given up for it.
    """

    about: str
    path: str
    what: str
    done: str
    strict: bool

    def __str__(self) -> str:
        return f"{self.about}: {self.path}: {self.what}: {self.done}"


def notes_of(plan: MethodPlan, profile: str | None = None) -> Iterator[Note]:
    """The findings for a profile; without one for that of the model, where its strict mode is used.

    A type that only a parser of the program reads is passed over.
    """
    can = plan.model.capabilities
    if profile is None and not can.strict_schema:
        return
    profile = profile or can.profile
    if plan.wire.strategy is not Strategy.TEXT:
        form: Any = plan.returns.form
        asked = list[form] if plan.returns.shape is Shape.ITEMS else form
        found = _found(asked, profile)
        if plan.returns.shape in (Shape.ITEMS, Shape.STREAM):
            found = _of_growing(asked, profile, found)
        yield from (_note("answer", one) for one in found)
    for tool in () if plan.toolbox is None else plan.toolbox.tools.values():
        yield from (_note(f"tool {tool.name}", one) for one in _found(tool.arguments, profile))


def _note(about: str, found: Finding) -> Note:
    return Note(about, found.path, found.what, found.done, found.lossless)


def _found(form: Any, profile: str) -> list[Finding]:
    try:
        return lint(form, profile)
    except UnsupportedTypeError:
        return []


def _of_growing(form: Any, profile: str, found: list[Finding]) -> list[Finding]:
    """The findings for a value that is shown while it is written, of which no half can be decoded."""
    if not found or not all(one.lossless for one in found) or _stays_as_it_is(form, profile):
        return found
    changing = [one for one in found if one.done != ENFORCED_LATER]
    return [
        Finding(one.path, f"{one.what}, in a value that is shown while it is written", GIVEN_UP, False)
        for one in changing or found
    ]


def _stays_as_it_is(form: Any, profile: str) -> bool:
    """Whether strict mode has it written in its own shape; a root that is no object gets an envelope."""
    parser = parser_for(form)
    is_object = (parser.schema or {}).get("type") == "object"
    if not is_object and isinstance(parser, TypeParser):
        parser = parser.enveloped()
    return encode(dict(parser.schema or {}), PROFILES[profile]).identity
