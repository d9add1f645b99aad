"""Compile prompt templates, and render them with the arguments of a service call.

The second half of the file converts values to prompt text, and marks the positions of images and other media
in a prompt.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, RootModel

from output_parsers.types.constraints import SECRETS

from ..documents.document import Document, unique_names
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.media import Media
from ..models.messages import AiMessage, SystemMessage, ToolMessage, UserMessage
from .decorators import TemplateSource, structured_prompt_of

if TYPE_CHECKING:  # imported late, because services without templates do not need Jinja
    from jinja2 import TemplateSyntaxError
    from jinja2.nodes import Name
    from jinja2.sandbox import SandboxedEnvironment

FORMAT_INSTRUCTIONS = "format_instructions"
_JINJA_FUNCTIONS = frozenset({"cycler", "dict", "joiner", "namespace", "range"})
_CLOCK: dict[str, Callable[[], str]] = {
    "current_date": lambda: datetime.now().date().isoformat(),
    "current_time": lambda: datetime.now().time().isoformat("seconds"),
    "current_date_time": lambda: datetime.now().isoformat(timespec="seconds"),
}
_INCLUDE = re.compile(r"\{%[-+]?\s*include\b")
# The names that need no parameter: in the templates of structured prompt classes, and in those of methods.
RECORD_TEMPLATE_NAMES = _JINJA_FUNCTIONS | _CLOCK.keys()
METHOD_TEMPLATE_NAMES = RECORD_TEMPLATE_NAMES | {FORMAT_INSTRUCTIONS}
# The templates of structured prompt classes. The class is the weak key, so that local classes can be
# collected.
_RECORD_PROMPTS: WeakKeyDictionary[type, Prompt] = WeakKeyDictionary()


class TemplateError(ValueError):  # callers turn it into a DefinitionProblem, which adds the location
    """Raised when a prompt template has a syntax error or its file cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled Jinja2 prompt template.

    Attributes:
        source: The text of the template.
        variables: The names that the template uses, including predefined ones such as ``current_date``.
    """

    source: str
    variables: frozenset[str]
    _render: Callable[[Mapping[str, object]], str]

    def render(self, values: Mapping[str, object], qualname: str) -> str:
        """Render the prompt template with the given values, and return the text.

        Values are data: ``{{`` in them has no meaning. Raises DefinitionError if the template uses an
        attribute that a value does not have.
        """
        clock = self.variables & _CLOCK.keys()
        if clock:
            values = {**{name: _CLOCK[name]() for name in clock}, **values}
        try:
            return self._render(values)
        except Exception as error:
            problem = DefinitionProblem(qualname, f"the prompt cannot be rendered: {error}")
            raise DefinitionError([problem]) from error


def compile_prompt(source: TemplateSource) -> Prompt:
    """Compile a Jinja2 prompt template from text or a file, or raise TemplateError if it is invalid."""
    folder = Path() if source.declared_in is None else Path(source.declared_in).parent
    if source.text is None:
        path = Path(str(source.file))
        # an absolute path is a choice of the program
        text = _read(path.parent, path.name) if path.is_absolute() else _read(folder, str(path))
    else:
        text = textwrap.dedent(source.text).strip("\n")
    return _compile_with_files(text, folder) if _INCLUDE.search(text) else _compile(text)


def _read(folder: Path, name: str) -> str:
    """Return the text of a template file without empty lines around it, or raise TemplateError."""
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise TemplateError(
            f"the template file {name!r} is not in the folder of the module that declares the interface; "
            "move it there"
        )
    try:
        return (folder / name).read_text(encoding="utf-8-sig").strip("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TemplateError(
            f"the template file {name!r} cannot be read ({reason}); "
            "its path is relative to the folder of the module that declares the interface"
        ) from error


def record_prompt(cls: type) -> Prompt | None:
    """Compile the prompt template of a ``@structured_prompt`` class; return None without a template."""
    source = structured_prompt_of(cls)
    if source is None:
        return None
    prompt = _RECORD_PROMPTS[cls] = compile_prompt(source)
    return prompt


def field_names(cls: Any) -> list[str]:
    """Return the names of the fields that the template of a ``@structured_prompt`` class can use."""
    if hasattr(cls, "model_fields"):
        return list(cls.model_fields)
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(get_type_hints(cls))


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined, nodes
    from jinja2.sandbox import SandboxedEnvironment

    class Environment(SandboxedEnvironment):
        """A Jinja environment that also gives sets inside values a fixed order."""

        def getattr(self, obj: object, attribute: str) -> object:
            return _with_fixed_order(super().getattr(obj, attribute))

        def getitem(self, obj: object, argument: object) -> object:
            return _with_fixed_order(super().getitem(obj, argument))

        def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
            """Parse a template; an inline ``if`` without an ``else`` renders as nothing otherwise."""
            tree = super()._parse(source, name, filename)
            for condition in tree.find_all(nodes.CondExpr):
                if condition.expr2 is None:  # StrictUndefined would be an error in the call
                    condition.expr2 = nodes.Const("", lineno=condition.lineno)
            return tree

    environment = Environment(
        undefined=StrictUndefined, finalize=render_value, autoescape=False, keep_trailing_newline=True
    )
    del environment.globals["lipsum"]  # random filler text is not useful in a prompt
    return environment


@cache
def _compile(text: str) -> Prompt:
    environment = _environment()
    names = _checked_variables(text, "the template", environment, {}, Path())
    template = environment.from_string(text)
    template.globals = dict(template.globals)  # a ChainMap, which is slow to read at each rendering
    has_loops = "{%" in text or "|" in text  # filters loop, too
    render = _with_sorted_sets(template.render) if has_loops else template.render
    return Prompt(text, frozenset(names), render)


def _compile_with_files(text: str, folder: Path) -> Prompt:
    """Compile a prompt template together with its included files, so that calls do not read files."""
    from jinja2 import DictLoader

    files: dict[str, str] = {}
    environment = _environment()
    names = _checked_variables(text, "the template", environment, files, folder)
    template = environment.overlay(loader=DictLoader(files)).from_string(text)
    return Prompt(text, frozenset(names), _with_sorted_sets(template.render))


class _SortedSet(frozenset[object]):
    """A set whose loops have the same order in each process."""

    def __iter__(self) -> Iterator[object]:
        return iter(sorted(super().__iter__(), key=render_value))


def _with_fixed_order(value: object) -> object:
    return _SortedSet(value) if isinstance(value, (set, frozenset)) else value


def _with_sorted_sets(render: Callable[[Mapping[str, object]], str]) -> Callable[[Mapping[str, object]], str]:
    """Return a function that renders a template with loops, in which sets are sorted."""

    def render_sorted(values: Mapping[str, object]) -> str:
        return render({name: _with_fixed_order(value) for name, value in values.items()})

    return render_sorted


def _checked_variables(
    text: str, title: str, environment: SandboxedEnvironment, files: dict[str, str], folder: Path
) -> set[str]:
    """Check a template, and return the variables that it and its included files use.

    The included files are added to ``files``. ``title`` names the template in errors.
    """
    from jinja2 import TemplateSyntaxError, meta, nodes

    if not text.strip():
        raise TemplateError(f"{title} is empty")
    try:
        tree = environment.parse(text)
        names = meta.find_undeclared_variables(tree) | _predefined_names(tree.find_all(nodes.Name))
        environment.from_string(text)
    except TemplateSyntaxError as error:
        line, column = _error_position(environment, text, error)
        message = (error.message or "invalid syntax").rstrip(".")
        raise TemplateError(f"{title} has an error in line {line}, column {column}: {message}") from error
    if any(True for _ in tree.find_all((nodes.Extends, nodes.Import, nodes.FromImport))):
        raise TemplateError(f"{title} imports or extends another; include it, or write its text here")
    assigned = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    for include in tree.find_all(nodes.Include):
        name = include.template.value if isinstance(include.template, nodes.Const) else None
        if not isinstance(name, str) or include.ignore_missing or not include.with_context:
            raise TemplateError(
                f'{title} has an include in line {include.lineno} that is not {{% include "FILE" %}}; '
                "write the name of one file, in quotes, and nothing else"
            )
        names |= _included_variables(name, environment, files, folder) - assigned
    return names


def _included_variables(
    name: str, environment: SandboxedEnvironment, files: dict[str, str], folder: Path
) -> set[str]:
    """Read an included template file, and return the variables that it uses."""
    if name in files:  # it was read before, or it includes itself
        if not files[name]:
            raise TemplateError(f"the template file {name!r} includes itself")
        return set()
    # a name with .., an absolute path or a symbolic link could lead elsewhere
    if not (folder / name).resolve().is_relative_to(folder.resolve()):
        raise TemplateError(
            f"the template includes {name!r}, which is not in the folder of the module that declares it"
        )
    files[name] = ""
    text = _read(folder, name)
    names = _checked_variables(text, f"the template file {name!r}", environment, files, folder)
    files[name] = text
    return names


def _predefined_names(names: Iterable[Name]) -> set[str]:
    """Return the names that Jinja defines in every prompt template, such as ``range``."""
    return {name.name for name in names} & (_JINJA_FUNCTIONS | {"self"})


def _error_position(
    environment: SandboxedEnvironment, text: str, error: TemplateSyntaxError
) -> tuple[int, int]:
    """Return the line and column of a syntax error in a prompt template, counted from 1.

    Jinja itself only reports the line.
    """
    from jinja2 import TemplateSyntaxError

    offset = re.search(r" at (\d+)$", error.message or "")
    if offset is not None:
        before = text[: int(offset[1])]
        return before.count("\n") + 1, len(before) - before.rfind("\n")
    line = text.split("\n")[error.lineno - 1]
    tags = [tag.start() for tag in re.finditer(r"\{[{%#]", line)] or [0]
    for start, end in zip(tags, [*tags[1:], len(line)], strict=True):
        try:
            environment.from_string(line[start:end])
        except TemplateSyntaxError as tag_error:
            if tag_error.message == error.message:
                return error.lineno, start + 1
    return error.lineno, tags[0] + 1


_LISTS = (list, tuple, set, frozenset)


def render_value(value: object) -> str:
    """Convert the value of an argument, such as a date, list or object, to text for a prompt.

    - Text unchanged; None as ``none``; booleans as ``true`` and ``false``.
    - Dates and times in ISO 8601. Enum members by their value if it is text, else by their name.
    - Structured prompts by their template; lists of them as paragraphs.
    - Messages as lines with their role, such as ``user: Hello``.
    - A document as its text; a list of documents in tags with their names.
    - Lists, tuples and sets of other such values separated by commas; sets sorted.
    - Other records, dicts, and lists of them as JSON. Inside JSON, values that JSON cannot express are
      written as text by these rules.
    - Everything else by ``str``.

    Raises TypeError for a SecretStr, whose text would be asterisks, and for bytes.
    """
    if isinstance(value, str) and not isinstance(value, Enum):
        return value
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name or ""  # flags may have none
    if isinstance(value, RootModel):
        return render_value(value.root)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    prompt = _prompt_of(value)
    if prompt is not None:
        fields = {name: getattr(value, name) for name in field_names(type(value))}
        return prompt.render(fields, type(value).__name__)
    if isinstance(value, _MESSAGES):
        return _render_message(value)
    if _is_record(value):
        return _to_json(value)
    if isinstance(value, _LISTS):
        return _render_list(value)
    _check_is_readable(value)
    return str(value)


def _check_is_readable(value: object) -> None:
    """Raise TypeError for a value whose text does not show its content."""
    if isinstance(value, SECRETS):
        raise TypeError(
            f"a {type(value).__name__} is sent as asterisks; pass its get_secret_value() as a text"
        )
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"{type(value).__name__} is not text; pass value.decode(), or an Image or File made from_bytes"
        )


_MESSAGES = (SystemMessage, UserMessage, AiMessage, ToolMessage)


def _render_message(message: SystemMessage | UserMessage | AiMessage | ToolMessage) -> str:
    if isinstance(message, SystemMessage):
        return f"system: {message.text}"
    parts = " ".join(map(str, message.parts))
    if isinstance(message, AiMessage):
        calls = [f"assistant calls {call.name}({call.arguments})" for call in message.tool_calls]
        return "\n".join([*([f"assistant: {parts}"] if parts or not calls else []), *calls])
    if isinstance(message, ToolMessage):
        return f"tool {message.name}: {parts}"
    return f"user: {parts}" if message.name is None else f"user {message.name}: {parts}"


def _prompt_of(value: object) -> Prompt | None:
    """Return the prompt template of an object's class if the class has ``@structured_prompt``, else None."""
    cls = type(value)
    if structured_prompt_of(cls) is None:
        return None
    return _RECORD_PROMPTS.get(cls) or record_prompt(cls)


def _is_record(value: object) -> bool:
    return not isinstance(value, type) and record_fields(value) is not None


def record_fields(value: Any) -> Mapping[str, object] | None:
    """Return a dict of the fields of a dataclass, pydantic or similar object; None for other values."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, RootModel):
        return record_fields(value.root)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if hasattr(value, "_asdict"):
        fields: Mapping[str, object] = value._asdict()
        return fields
    if isinstance(value, Media):
        name = type(value).__name__
        raise TypeError(f"{value.kind} is not text; pass it as a parameter of type {name}")
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif hasattr(value, "__attrs_attrs__"):
        names = [attribute.name for attribute in value.__attrs_attrs__]
    elif hasattr(type(value), "__struct_fields__"):  # msgspec
        names = list(value.__struct_fields__)
    else:
        return None
    return {name: getattr(value, name) for name in names}


def _render_list(values: Iterable[object]) -> str:
    items = list(values)
    if not items:
        return ""
    if all(isinstance(item, _MESSAGES) for item in items):
        return "\n".join(map(render_value, items))
    if all(isinstance(item, Document) for item in items):
        documents = cast("list[Document]", items)
        return "\n\n".join(map(_render_document, documents, unique_names([one.name for one in documents])))
    is_prompt_list = any(structured_prompt_of(cls) is not None for cls in set(map(type, items)))
    if not is_prompt_list and any(isinstance(item, _LISTS) or _is_record(item) for item in items):
        return _to_json(items)
    texts = [render_value(item) for item in items]
    if isinstance(values, (set, frozenset)):
        texts.sort()  # a set has no order; sorted, the same set gives the same prompt in each process
    return ("\n\n" if is_prompt_list else ", ").join(texts)


def _render_document(document: Document, name: str) -> str:
    name = f' name="{escape(name)}"' if document.name else ""
    return f"<document{name}>\n{document.text}\n</document>"


def _to_json(value: object) -> str:
    return json.dumps(_to_plain(value), ensure_ascii=False)


def _to_plain(value: object) -> object:
    """Convert a value in a prompt to JSON data, in which dates and enum members become text."""
    if value is None or (isinstance(value, (str, bool, int, float)) and not isinstance(value, Enum)):
        return value
    if _prompt_of(value) is not None:
        return render_value(value)
    if isinstance(value, RootModel):
        return _to_plain(value.root)
    fields = None if isinstance(value, type) else record_fields(value)
    if fields is not None:
        return {render_value(name): _to_plain(part) for name, part in fields.items()}
    if isinstance(value, _LISTS):
        return [_to_plain(item) for item in value]
    return render_value(value)


# Marks are random in each process, so that no argument of a call can contain one.
_SECRET = os.urandom(8).hex()
_MARK = re.compile(f"\ue000{_SECRET}:([0-9]+)\ue001")


class _Mark(str):
    """A placeholder string for an image, sound or file while a prompt template is rendered."""

    media: Media

    def __getattr__(self, name: str) -> object:
        return getattr(self.media, name)


class _Marks(Sequence[Any]):
    """Placeholder strings for a list of images, sounds or files while a prompt template is rendered."""

    def __init__(self, marks: Iterable[Any]) -> None:
        self._marks = tuple(marks)

    def __getitem__(self, index: Any) -> Any:
        return self._marks[index]

    def __len__(self) -> int:
        return len(self._marks)

    def __str__(self) -> str:
        return "".join(self._marks)


class MediaMarks:
    """Replaces images in prompt arguments with placeholders, and restores them in the rendered prompt."""

    def __init__(self) -> None:
        self.media: list[Media] = []

    def mark(self, value: object, location: str) -> object:
        """Return a placeholder string for an image, sound or file while a prompt is rendered.

        Raises TypeError for other values.
        """
        if value is None:
            return ""
        if isinstance(value, Media):
            mark = _Mark(f"\ue000{_SECRET}:{len(self.media)}\ue001")
            mark.media = value
            self.media.append(value)
            return mark
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            advice = "make one with Image.from_path, from_bytes or from_url"
            raise TypeError(f"{location} takes an Image, Audio or File, not {type(value).__name__}; {advice}")
        return _Marks([self.mark(one, location) for one in value])

    def split(self, text: str) -> list[str | Media] | None:
        """Split a rendered prompt into strings and the media that belong between them.

        Media without a placeholder are added at the end. Returns None if the text has no placeholder.
        """
        pieces = _MARK.split(text)
        if len(pieces) == 1:
            return None
        indexes = [int(index) for index in pieces[1::2]]
        parts: list[str | Media] = [pieces[0]]
        for index, piece in zip(indexes, pieces[2::2], strict=True):
            parts += [self.media[index], piece]
        return parts + [media for index, media in enumerate(self.media) if index not in indexes]
