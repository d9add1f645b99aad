"""What the strict mode of a provider cannot say of the types of a method, and what is done about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from output_parsers.errors import UnsupportedTypeError
from output_parsers.lint import lint

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
        yield from _found("answer", list[form] if plan.returns.shape is Shape.ITEMS else form, profile)
    for tool in () if plan.toolbox is None else plan.toolbox.tools.values():
        yield from _found(f"tool {tool.name}", tool.arguments, profile)


def _found(about: str, form: Any, profile: str) -> Iterator[Note]:
    try:
        findings = lint(form, profile)
    except UnsupportedTypeError:
        return
    for one in findings:
        yield Note(about, one.path, one.what, one.done, one.lossless)
