"""The reply itself."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar, overload

from typing_extensions import TypeForm

from ..json.reader import read_tolerant
from ..json.result import JsonSyntaxError
from ..parser.extract import strip_reasoning
from ..parser.registry import parser_for
from ..parser.type_parser import TypeParser
from ..result.errors import OutputParsingError, Problem
from ..result.reading import Cursor, Leniency, Reading, ValidationFailure, describe_value

T_co = TypeVar("T_co", covariant=True)

_REASONING = re.compile(r"\s*+<(think|thinking)>", re.IGNORECASE)
_BLOCK_ENDS = {tag: re.compile(f"</{tag}>", re.IGNORECASE) for tag in ("think", "thinking")}
_STRAY_END = re.compile(r"</(think|thinking)>", re.IGNORECASE)


class TextParser(ABC, Generic[T_co]):
    """An OutputParser of a reply that is no JSON, so that it has no schema."""

    @property
    def schema(self) -> None:
        """None: plain text is wanted."""
        return

    @abstractmethod
    def format_instructions(self) -> str:
        """What a prompt must say so that a model writes this form; "" when anything goes."""

    def parse(self, text: str) -> T_co:
        """The value. Raises OutputParsingError, and nothing else, when the text is unfit."""
        try:
            return self._read(text)
        except ValidationFailure as error:
            raise OutputParsingError(text, error.problems) from error

    @abstractmethod
    def _read(self, text: str) -> T_co:
        """The value of a text. Raises Misfit or OutputParsingError."""


def failure(message: str, *, path: str = "$", found: str = "") -> ValidationFailure:
    """The fault of a text: where, what is wrong, what was found."""
    return ValidationFailure(Problem(path, message, found))


def without_reasoning(text: str, wanted: str = "") -> str:
    """A reply without the ``<think>`` section before it, as reasoning models write one.

    ``wanted`` is what the caller looks for: where it mentions the tag, the section is content and stays.
    Raises Misfit when the reply ends inside the section: what it holds is no answer.
    """
    if "<think" in wanted.lower():
        return text
    start = 0
    while opening := _REASONING.match(text, start):
        closing = _BLOCK_ENDS[opening[1].lower()].search(text, opening.end())
        if closing is None:
            raise failure("the reply ends inside its reasoning")
        start = closing.end()
    stray = _STRAY_END.search(text, start)  # the template of the chat may hold the opening tag
    if stray is not None and f"<{stray[1]}>".lower() not in text[start : stray.start()].lower():
        start = stray.end()
    return text[start:]


@dataclass(frozen=True)
class StrOutputParser(TextParser[str]):
    """The text as the model wrote it, to the last space, as LangChain's.

    >>> StrOutputParser().parse(" Hello! ")
    ' Hello! '
    """

    def format_instructions(self) -> str:
        return ""

    def _read(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class RegexOutputParser(TextParser[dict[str, str | None]]):
    """The groups of a pattern under the names ``output_keys``, in order, as LangChain's RegexParser.

    >>> parser = RegexOutputParser(r"Grade: (\\w)\\nWhy: (.*)", ["grade", "why"])
    >>> parser.parse("Grade: A\\nWhy: It is clear.")
    {'grade': 'A', 'why': 'It is clear.'}

    The first match anywhere in the reply counts; a group that took no part in it is None. Where nothing
    matches, the whole reply is the value of ``default_output_key`` and the other values are "", or without
    such a key the reply is refused. A ``<think>`` section before the answer is passed over, unless the
    pattern mentions it. How long a search takes is up to the pattern: keep it free of nested repetition.

    Raises ValueError when the pattern is broken or has fewer groups than there are keys.
    """

    pattern: str | re.Pattern[str]
    output_keys: Sequence[str]
    default_output_key: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output_keys", tuple(self.output_keys))
        if not self.output_keys:
            raise ValueError("RegexOutputParser needs at least one output key")
        if self._compiled.groups < len(self.output_keys):
            raise ValueError(
                f"the pattern {self._compiled.pattern!r} has {self._compiled.groups} groups for the "
                f"{len(self.output_keys)} output keys {', '.join(self.output_keys)}"
            )
        if self.default_output_key is not None and self.default_output_key not in self.output_keys:
            raise ValueError(
                f"the default output key {self.default_output_key!r} is none of the output keys "
                f"{', '.join(self.output_keys)}"
            )

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"the pattern {self.pattern!r} is broken: {error}") from error

    def format_instructions(self) -> str:
        return f"Reply with text that this regular expression matches: {self._compiled.pattern}"

    def _read(self, text: str) -> dict[str, str | None]:
        found = self._compiled.search(without_reasoning(text, self._compiled.pattern))
        if found is not None:
            return {key: found[index] for index, key in enumerate(self.output_keys, start=1)}
        if self.default_output_key is None:
            keys = ", ".join(self.output_keys)
            raise failure(f"expected text that matches {self._compiled.pattern!r}, which gives {keys}")
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}


_EXAMPLE = datetime(2023, 7, 4, 14, 30, 59, 250_000, tzinfo=UTC)
_LONGEST = 200
_AROUND = " \t\r\n\"'`*"


@dataclass(frozen=True)
class DatetimeOutputParser(TextParser[datetime]):
    """A datetime in the format that ``datetime.strptime`` takes, as LangChain's, which also set the default.

    >>> DatetimeOutputParser("%d.%m.%Y %H:%M").parse("04.07.2023 14:30")
    datetime.datetime(2023, 7, 4, 14, 30)

    A fence, quotes, bold and a full stop around it, and reasoning before it, are passed over; nothing else
    is. The ``Z`` of the default format is a letter, as LangChain's: the value has a time zone only where
    the format has ``%z``. For dates in any form, in words too, use ``parser_for(datetime)``.

    Raises ValueError when the format is none.
    """

    format: str = "%Y-%m-%dT%H:%M:%S.%fZ"

    def __post_init__(self) -> None:
        try:
            datetime.strptime(self._example, self.format)
        except ValueError as error:
            raise ValueError(f"{self.format!r} is no format of a datetime: {error}") from error

    @property
    def _example(self) -> str:
        return _EXAMPLE.strftime(self.format)

    def format_instructions(self) -> str:
        return f"Reply only with a date and time in the format {self.format}, such as {self._example}"

    def _read(self, text: str) -> datetime:
        said = strip_reasoning(text, Cursor()).without_wrapping().text.strip(_AROUND)
        for written in (said, said.removesuffix(".").rstrip(_AROUND)):
            if len(written) <= _LONGEST:
                try:
                    return datetime.strptime(written, self.format)
                except (ValueError, OverflowError):
                    pass
        raise failure(
            f"expected a date and time in the format {self.format}, such as {self._example}",
            found=describe_value(said),
        )


_SPACE = re.compile(r"[ \t]*+")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"[ \t]*+')
_PLAIN = re.compile(r"[^,\r\n]*+")
_ENDS = (",", "\r", "\n", "")


@dataclass(frozen=True)
class CommaSeparatedListOutputParser(TextParser[list[str]]):
    """The items of a text such as ``foo, "bar, baz", qux``, as LangChain's: CSV, over all lines.

    >>> CommaSeparatedListOutputParser().parse('foo, "bar, baz", qux')
    ['foo', 'bar, baz', 'qux']

    Space around an item is not part of it, nor is a comma at the end of a line an item; ``a,,b`` has an
    empty item in the middle, ``""`` is one anywhere. A fence, a first line that ends in a colon and
    reasoning are passed over, and a JSON array is read as what it is. Refused are an empty
    reply, a quote that is never closed, and commas between quotes that do not enclose a whole item.
    """

    def format_instructions(self) -> str:
        return "Reply with values separated by commas and nothing else, such as: foo, bar, baz"

    def _read(self, text: str) -> list[str]:
        rest = _without_heading(strip_reasoning(text, Cursor()).without_wrapping().text)
        items = _json_items(rest)
        if items is None:
            items = _csv_items(rest)
        if not items:
            raise failure("expected values separated by commas; the reply holds none")
        return items


def _without_heading(text: str) -> str:
    heading, _, rest = text.partition("\n")
    return rest if heading.rstrip().endswith(":") and rest.strip() else text


def _json_items(text: str) -> list[str] | None:
    if not text.startswith("["):
        return None
    try:
        if read_tolerant(text).end < len(text):
            return None
    except JsonSyntaxError:
        return None
    try:
        return parser_for(list[str]).parse(text)
    except OutputParsingError as error:
        raise ValidationFailure(*error.problems) from error


def _csv_items(text: str) -> list[str]:
    items: list[str] = []
    position, said = 0, False
    while position <= len(text):
        item, quoted, position = _item(text, position, len(items))
        separator = text[position : position + 1]
        position += 1
        if item or quoted or separator == ",":
            items.append(item)
            said = said or quoted or bool(item)
    return items if said else []


def _item(text: str, position: int, index: int) -> tuple[str, bool, int]:
    """The item that begins here, whether it is quoted, and the index after it."""
    start = _end(_SPACE, text, position)
    if text.startswith('"', start):
        quoted = _QUOTED.match(text, start)
        if quoted is None:
            raise failure("the quote that opens this item is never closed", path=f"$[{index}]")
        if text[quoted.end() : quoted.end() + 1] in _ENDS:
            return quoted[1].replace('""', '"'), True, quoted.end()
        if re.search(r"[,\r\n]", quoted[1]):
            raise failure("there is text after the closing quote of this item", path=f"$[{index}]")
    end = _end(_PLAIN, text, start)
    return text[start:end].rstrip(), False, end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


_NUMBER = re.compile(r"[ \t]*+(\d{1,9})[.)](?:[ \t]++(.*))?$")
_BULLET = re.compile(r"[ \t]*+([-*+•])(?:[ \t]++(.*))?$")
_RULE = re.compile(r"[ \t]*+([-*])(?:[ \t]*+\1){2,}+[ \t]*+$")
_FIRST = re.compile(r"(?<!\S)1[.)][ \t]++(\S.*)$")
_NOTHING = re.compile(
    r"\W*+(?:none|nothing|n/a|empty(?: list)?|the list is empty|"
    r"(?:there are )?no (?:items?|results?|entries|elements|matches)(?: (?:in|on) the list| found)?)\W*+",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NumberedListOutputParser(TextParser[list[str]]):
    """The items of a list such as ``1. foo``, ``2. bar``, a line each, as LangChain's.

    >>> NumberedListOutputParser().parse("Items:\\n1. foo\\n2) bar")
    ['foo', 'bar']

    A number counts at the beginning of a line; a first item may stand after the words that announce it.
    Indented lines go on with the item above them. Other lines are prose around the list. A text that says
    that there are no items is the empty list; any other text without items is refused.
    """

    def format_instructions(self) -> str:
        return "Reply with a numbered list, each item on a line of its own, such as:\n1. foo\n2. bar\n3. baz"

    def _read(self, text: str) -> list[str]:
        return _items(text, _NUMBER, "a numbered list")


@dataclass(frozen=True)
class MarkdownListOutputParser(TextParser[list[str]]):
    """The items of a list such as ``- foo``, ``* bar``, a line each, as LangChain's; nested ones too.

    >>> MarkdownListOutputParser().parse("Items:\\n- foo\\n  - bar")
    ['foo', 'bar']

    Indented lines go on with the item above them. Other lines are prose around the list. A text that says
    that there are no items is the empty list; any other text without items is refused.
    """

    def format_instructions(self) -> str:
        return "Reply with a markdown list, each item on a line of its own, such as:\n- foo\n- bar\n- baz"

    def _read(self, text: str) -> list[str]:
        return _items(text, _BULLET, "a markdown list")


def _items(text: str, marker: re.Pattern[str], kind: str) -> list[str]:
    rest = strip_reasoning(text, Cursor()).text
    items = _marked(rest, marker)
    if not items and not _NOTHING.fullmatch(rest):
        raise failure(f"expected {kind}; the reply holds no item of one")
    for index, item in enumerate(items):
        if not item:
            raise failure("this item is empty", path=f"$[{index}]")
    return ["\n".join(item) for item in items]


def _marked(text: str, marker: re.Pattern[str]) -> list[list[str]]:
    """The items, each as its lines."""
    items: list[list[str]] = []
    announced: str | None = None
    within = False
    for line in text.replace("\r\n", "\n").split("\n"):
        found = None if _RULE.match(line) else marker.match(line)
        said = line.strip()
        if found:
            if not items and announced and found[1] == "2":
                items.append([announced])
            items.append([found[2].strip()] if found[2] and found[2].strip() else [])
            within = True
        elif within and said and (line[0] in " \t" or not items[-1]):
            items[-1].append(said)
        else:
            within = False
            first = _FIRST.search(line)
            announced = first[1].strip() if first else announced if not said else None
    return items


T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class _ByType(Generic[T]):
    """An OutputParser that reads with the parser of one type, with all its leniency and its ledger."""

    _parser: TypeParser[T] = field(init=False, repr=False, compare=False)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of what a model is to write; None when plain text is wanted."""
        return self._parser.schema

    def format_instructions(self) -> str:
        """What a prompt must say so that a model writes this type; "" when anything goes."""
        return self._parser.format_instructions()

    def parse(self, text: str, leniency: Leniency = Leniency.SAFE) -> T:
        """The value. Raises OutputParsingError, and nothing else, when the text is unfit."""
        return self._parser.parse(text, leniency)

    def read(self, text: str, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
        """The value with the steps away from the exact text that reading it took."""
        return self._parser.read(text, leniency)

    def _read_by(self, output_type: Any) -> None:
        object.__setattr__(self, "_parser", parser_for(output_type))


@dataclass(frozen=True, init=False)
class JsonOutputParser(_ByType[T]):
    """The JSON in a reply, as LangChain's; given a type, a value of that type.

    >>> JsonOutputParser().parse('Here you are: {"a": [1, 2]}')
    {'a': [1, 2]}
    >>> JsonOutputParser(dict[str, list[int]]).parse('{"a": ["1", 2]}')
    {'a': [1, 2]}

    Raises UnsupportedTypeError when nothing reads the type.
    """

    output_type: TypeForm[T] | None

    @overload
    def __init__(self: JsonOutputParser[Any], output_type: None = None) -> None: ...
    @overload
    def __init__(self, output_type: TypeForm[T]) -> None: ...
    def __init__(self, output_type: TypeForm[T] | None = None) -> None:
        object.__setattr__(self, "form", output_type)
        self._read_by(Any if output_type is None else output_type)


@dataclass(frozen=True, init=False)
class PydanticOutputParser(_ByType[T]):
    """A pydantic model, as LangChain's, or a value of any other type that has a parser.

    >>> class Person(BaseModel):
    ...     name: str
    >>> PydanticOutputParser(Person).parse('{"name": "Ann"}')
    Person(name='Ann')

    Raises UnsupportedTypeError when nothing reads the type.
    """

    pydantic_object: TypeForm[T]

    def __init__(self, pydantic_object: TypeForm[T]) -> None:
        object.__setattr__(self, "pydantic_object", pydantic_object)
        self._read_by(pydantic_object)


@dataclass(frozen=True)
class EnumOutputParser(_ByType[E]):
    """A member of an enum by its value, as LangChain's, or by its name, in any case.

    >>> class Color(Enum):
    ...     RED = "red"
    >>> EnumOutputParser(Color).parse(" Red. ")
    <Color.RED: 'red'>

    Values need not be text. A text that names two members, or denies one, is refused.
    """

    enum: type[E]

    def __post_init__(self) -> None:
        self._read_by(self.enum)


# True: all of them; False and None: nothing; a text: the value under that key; several: a dict of those.
Keys: TypeAlias = bool | str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class TextResponse:
    """What a model answered: its text, what was parsed from it, and what else the caller knows about it."""

    text: str
    parsed: dict[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DictParser(TextParser[dict[str, Any]]):
    """A parser that gives a dict, of which memory, content and metadata get what ``keys_to_*`` says.

    ``True`` is the whole dict, ``False`` or ``None`` is None, a text is the value under that key, a
    sequence is a dict of those keys.
    """

    keys_to_memory: Keys = True
    keys_to_content: Keys = True
    keys_to_metadata: Keys = False

    @overload
    def parse(self, text: str) -> dict[str, Any]: ...
    @overload
    def parse(self, text: TextResponse) -> TextResponse: ...
    def parse(self, text: str | TextResponse) -> dict[str, Any] | TextResponse:
        """The dict of a text; or, as AgentScope's, for a response the same response with ``parsed`` filled.

        Raises OutputParsingError, and nothing else, when the text is unfit.
        """
        if isinstance(text, TextResponse):
            return replace(text, parsed=super().parse(text.text))
        return super().parse(text)

    def to_memory(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What is remembered. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_memory, "keys_to_memory", allow_missing)

    def to_content(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What others are told. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_content, "keys_to_content", allow_missing)

    def to_metadata(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What goes along. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_metadata, "keys_to_metadata", allow_missing)


def _chosen(parsed: Mapping[str, Any], keys: Keys, option: str, allow_missing: bool) -> Any:
    if keys is None or isinstance(keys, bool):
        return dict(parsed) if keys else None
    wanted = (keys,) if isinstance(keys, str) else keys
    missing = [key for key in wanted if key not in parsed]
    if missing and not allow_missing:
        raise ValueError(
            f"{option} names {', '.join(missing)}, but the parsed reply has: {', '.join(parsed) or 'none'}; "
            "require these keys, or permit them to be missing"
        )
    if isinstance(keys, str):
        return parsed.get(keys)
    return {key: parsed[key] for key in keys if key in parsed}
