"""Prompt templates: compiled when an interface is planned, rendered when it is called."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints
from weakref import WeakKeyDictionary

from ..models.errors import DefinitionError, DefinitionProblem
from .decorators import TemplateSource, structured_prompt_of
from .rendering import render_value

if TYPE_CHECKING:
    from jinja2.nodes import Name
    from jinja2.sandbox import SandboxedEnvironment

FORMAT_INSTRUCTIONS = "format_instructions"
_FUNCTIONS = frozenset({"cycler", "dict", "joiner", "namespace", "range"})  # jinja2's own
_CLOCK: dict[str, Callable[[], str]] = {
    "current_date": lambda: datetime.now().date().isoformat(),
    "current_time": lambda: datetime.now().time().isoformat("seconds"),
    "current_date_time": lambda: datetime.now().isoformat(timespec="seconds"),
}
_RECORDS: WeakKeyDictionary[type, Prompt] = WeakKeyDictionary()  # compiled once, when a plan meets the class
KNOWN_IN_RECORDS = _FUNCTIONS | _CLOCK.keys()
ALWAYS_KNOWN = KNOWN_IN_RECORDS | {FORMAT_INSTRUCTIONS}


class TemplateError(ValueError):  # becomes a Fault once it is known where it stands
    """A template that cannot be compiled; the message says where in it and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled template. ``variables`` are the names that it needs, the always known ones included."""

    source: str
    variables: frozenset[str]
    _render: Callable[[Mapping[str, Any]], str]

    def render(self, values: Mapping[str, Any], where: str) -> str:
        """The text, with each value written once and never read as a template itself.

        Raises DefinitionError when the template asks of a value what it has not.
        """
        clock = self.variables & _CLOCK.keys()
        known = {**{name: _CLOCK[name]() for name in clock}, **values} if clock else values
        try:
            return self._render(known)
        except Exception as error:
            raise DefinitionError(
                [DefinitionProblem(where, f"the prompt cannot be rendered: {error}")]
            ) from error


def compile_prompt(source: TemplateSource) -> Prompt:
    """A template from its text or file. Raises TemplateError."""
    return _compile(_text_of(source))


def record_prompt(cls: type) -> Prompt | None:
    """The template of a structured prompt class; None for all others. Raises TemplateError."""
    source = structured_prompt_of(cls)
    if source is None:
        return None
    prompt = _RECORDS[cls] = compile_prompt(source)
    return prompt


def field_names(cls: Any) -> list[str]:
    """The fields that the template of a structured prompt may name."""
    if hasattr(cls, "model_fields"):
        return list(cls.model_fields)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(get_type_hints(cls))


def _text_of(source: TemplateSource) -> str:
    if source.text is not None:
        return textwrap.dedent(source.text).strip("\n")
    path = Path(str(source.file))
    if source.beside is not None:
        path = Path(source.beside).parent / path
    try:
        return path.read_text(encoding="utf-8").strip("\n")
    except OSError as error:
        reason = error.strerror or str(error)
        raise TemplateError(
            f"the template file {str(source.file)!r} cannot be read ({reason}); "
            "its path is taken from the folder of the module that declares the interface"
        ) from error


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, finalize=_finalize, autoescape=False, keep_trailing_newline=True
    )
    del environment.globals["lipsum"]
    return environment


@cache
def _compile(text: str) -> Prompt:
    from jinja2 import TemplateSyntaxError, meta, nodes

    if not text.strip():
        raise TemplateError("the template is empty")
    environment = _environment()
    try:
        tree = environment.parse(text)
        variables = meta.find_undeclared_variables(tree) | _shadowing(tree.find_all(nodes.Name))
        template = environment.from_string(text)
    except TemplateSyntaxError as error:
        line, column = _where(environment, text, error)
        message = (error.message or "wrong syntax").rstrip(".")
        raise TemplateError(f"the template has a fault in line {line}, column {column}: {message}") from error
    if any(True for _ in meta.find_referenced_templates(tree)):
        raise TemplateError("a template cannot include, import or extend another; write its text here")
    return Prompt(text, frozenset(variables), template.render)


def _shadowing(names: Iterable[Name]) -> set[str]:
    """The names that jinja2 has a meaning of its own for, and does not count as variables."""
    return {name.name for name in names} & (_FUNCTIONS | {"self"})


def _where(environment: SandboxedEnvironment, text: str, error: Any) -> tuple[int, int]:
    """The line and column (from 1) of the tag that does not parse; jinja2 itself tells the line only."""
    from jinja2 import TemplateSyntaxError

    at = re.search(r" at (\d+)$", error.message or "")
    if at is not None:
        before = text[: int(at[1])]
        return before.count("\n") + 1, len(before) - before.rfind("\n")
    line = text.split("\n")[error.lineno - 1]
    tags = [tag.start() for tag in re.finditer(r"\{[{%#]", line)] or [0]
    for start, end in zip(tags, [*tags[1:], len(line)], strict=True):
        try:
            environment.from_string(line[start:end])
        except TemplateSyntaxError as alone:
            if alone.message == error.message:
                return error.lineno, start + 1
    return error.lineno, tags[0] + 1


def _finalize(value: Any) -> str:
    prompt = None if isinstance(value, str) else _RECORDS.get(type(value)) or record_prompt(type(value))
    if prompt is not None:
        fields = {name: getattr(value, name) for name in field_names(type(value))}
        return prompt.render(fields, type(value).__name__)
    return render_value(value)


def render_argument(value: Any) -> str:
    """An argument as the user message: a structured prompt by its template, all else as a value."""
    return _finalize(value)
