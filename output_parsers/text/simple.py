"""Parsers for plain text, regex groups, dates, lists and typed values, as in LangChain.

``TextParser`` is the base class of all parsers in this package that do not read JSON. ``DictParser`` is the
base class of the parsers that return a dict, as in AgentScope.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload

from typing_extensions import TypeForm

from ..json.scanner import read_tolerant
from ..parser.extract import strip_reasoning
from ..parser.reasoning import find_answer
from ..parser.type_parser import TypeParser, parser_for
from ..result.errors import OutputParsingError, Problem
from ..result.reading import (
    Cursor,
    Json,
    JsonObject,
    JsonSyntaxError,
    Leniency,
    Reading,
    ValidationFailure,
    describe_value,
)

T_co = TypeVar("T_co", covariant=True)


class TextReply(Protocol):
    """Protocol for objects that contain a reply's text, such as ``aiservices.ChatReply``."""

    @property
    def text(self) -> str:
        """The text of the reply or message."""
        ...


def reply_text(reply: str | TextReply, parser: object) -> str:
    """Return the text of a str or reply object, or raise TypeError for an object without text."""
    text = reply if isinstance(reply, str) else getattr(reply, "text", None)
    if not isinstance(text, str):
        raise TypeError(
            f"{type(parser).__name__} got {type(reply).__name__}; "
            "pass a str, or a reply whose attribute text is a str"
        )
    return text


class TextParser(ABC, Generic[T_co]):
    """Base class of parsers for replies in plain text, which have no JSON Schema."""

    @property
    def schema(self) -> None:
        """Always None, because plain-text replies have no JSON Schema."""
        return

    @abstractmethod
    def format_instructions(self) -> str:
        """Return prompt instructions that describe the reply format; "" if any text is accepted."""

    def get_format_instructions(self) -> str:
        """Return the prompt instructions for the model (LangChain's name for this method)."""
        return self.format_instructions()

    def parse(self, text: str | TextReply) -> T_co:
        """Parse a string, or the text of a reply object, and return the typed value.

        Raises OutputParsingError if the text does not fit, and TypeError for an object without text.
        """
        text = reply_text(text, self)
        try:
            return self._read(text)
        except ValidationFailure as error:
            raise OutputParsingError(text, error.problems) from error

    @abstractmethod
    def _read(self, text: str) -> T_co:
        """Parse the text and return the value, or raise ValidationFailure or OutputParsingError."""


# Possessive quantifiers (``*+``) keep the time of these expressions linear in the length of the text.
_TAG = re.compile(r"\s*+<(\w+)>")


def failure(message: str, *, path: str = "$", found: str = "") -> ValidationFailure:
    """Create a ValidationFailure from a message, a JSON path, and the text that was found there."""
    return ValidationFailure(Problem(path, message, found))


def without_reasoning(text: str, expected: str = "") -> str:
    """Remove the ``<think>`` sections that reasoning models write before their reply.

    ``expected`` is the text that the caller looks for. If it mentions the tag, the section is part of the
    content and is not removed. Raises ValidationFailure if the reply ends inside the section.
    """
    if "<think" in expected.lower():
        return text
    tag = _TAG.match(text)
    if tag is not None and tag[1].lower() not in ("think", "thinking"):
        return text  # another tag may be what the caller looks for
    answer = find_answer(text)
    if answer.is_cut_off:
        raise failure("the reply ends inside its reasoning")
    return answer.text


@dataclass(frozen=True)
class StrOutputParser(TextParser[str]):
    """Returns the text exactly as the model wrote it, like LangChain's StrOutputParser.

    >>> StrOutputParser().parse(" Hello! ")
    ' Hello! '
    """

    def format_instructions(self) -> str:
        """Return an empty string instead of prompt instructions, because any text is accepted."""
        return ""

    def _read(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class RegexOutputParser(TextParser[dict[str, str | None]]):
    """Parses a reply with a regular expression and returns its groups, like LangChain's RegexParser.

    >>> parser = RegexOutputParser(r"Grade: (\\w)\\nWhy: (.*)", ["grade", "why"])
    >>> parser.parse("Grade: A\\nWhy: It is clear.")
    {'grade': 'A', 'why': 'It is clear.'}

    The value is a dict. The first match anywhere in the reply counts. A group outside the match is None. A
    ``<think>`` section before the answer is ignored, unless the pattern mentions it. The time of a search
    depends on the pattern, so avoid nested repetition.

    Raises ValueError if the pattern is invalid or has fewer groups than there are keys.

    Attributes:
        pattern: The regular expression.
        output_keys: The keys of the groups, in order.
        default_output_key: If nothing matches, the whole reply is the value of this key, and the other values
            are "". Without such a key, a reply that does not match is an error.
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
                f"the default output key {self.default_output_key!r} is not one of the output keys "
                f"{', '.join(self.output_keys)}"
            )

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"the pattern {self.pattern!r} is invalid: {error}") from error

    def format_instructions(self) -> str:
        return f"Reply with text that this regular expression matches: {self._compiled.pattern}"

    def _read(self, text: str) -> dict[str, str | None]:
        match = self._compiled.search(without_reasoning(text, self._compiled.pattern))
        if match is not None:
            return {key: match[index] for index, key in enumerate(self.output_keys, start=1)}
        if self.default_output_key is None:
            keys = ", ".join(self.output_keys)
            raise failure(f"expected text that matches {self._compiled.pattern!r}, which gives {keys}")
        return {key: text if key == self.default_output_key else "" for key in self.output_keys}


_EXAMPLE = datetime(2023, 7, 4, 14, 30, 59, 250_000, tzinfo=UTC)
_MAX_LENGTH = 200  # characters; a longer text is not a datetime
_DECORATION = " \t\r\n\"'`*"


@dataclass(frozen=True)
class DatetimeOutputParser(TextParser[datetime]):
    """Parses datetimes in a ``strptime`` format, like LangChain's DatetimeOutputParser.

    >>> DatetimeOutputParser("%d.%m.%Y %H:%M").parse("04.07.2023 14:30")
    datetime.datetime(2023, 7, 4, 14, 30)

    A fence, quotes, bold markers and a full stop around the datetime are ignored, and so is reasoning before
    it. Any other text is an error. For dates in other formats and in words, use ``parser_for(datetime)``.

    Raises ValueError if the format is invalid.

    Attributes:
        format: The format. The default is LangChain's, in which ``Z`` is just a letter: the value has a time
            zone only if the format contains ``%z``.
    """

    format: str = "%Y-%m-%dT%H:%M:%S.%fZ"

    def __post_init__(self) -> None:
        try:
            datetime.strptime(self._example, self.format)
        except ValueError as error:
            raise ValueError(f"{self.format!r} is not a valid datetime format: {error}") from error

    @property
    def _example(self) -> str:
        return _EXAMPLE.strftime(self.format)

    def format_instructions(self) -> str:
        return f"Reply only with a date and time in the format {self.format}, such as {self._example}"

    def _read(self, text: str) -> datetime:
        answer = strip_reasoning(text, Cursor()).without_wrapping().text.strip(_DECORATION)
        # The full stop is removed only in the second attempt, because the format may end with one.
        for candidate in (answer, answer.removesuffix(".").rstrip(_DECORATION)):
            if len(candidate) <= _MAX_LENGTH:
                try:
                    return datetime.strptime(candidate, self.format)
                except (ValueError, OverflowError):
                    pass
        raise failure(
            f"expected a date and time in the format {self.format}, such as {self._example}",
            found=describe_value(answer),
        )


_SPACE = re.compile(r"[ \t]*+")
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"[ \t]*+')
_PLAIN = re.compile(r"[^,\r\n]*+")
_ENDS = (",", "\r", "\n", "")


@dataclass(frozen=True)
class CommaSeparatedListOutputParser(TextParser[list[str]]):
    """Parses values separated by commas, like LangChain's CommaSeparatedListOutputParser.

    >>> CommaSeparatedListOutputParser().parse('foo, "bar, baz", qux')
    ['foo', 'bar, baz', 'qux']

    All lines of the text are read as CSV. Spaces around an item and a comma at the end of a line are
    ignored. ``a,,b`` has an empty item in the middle, and ``""`` is an empty item anywhere. A fence, a first
    line that ends with a colon, and reasoning are ignored. A JSON array is accepted too.

    An empty reply, a quote that is never closed, and a comma inside quotes that do not enclose a whole item
    are errors.
    """

    def format_instructions(self) -> str:
        return "Reply with values separated by commas and nothing else, such as: foo, bar, baz"

    def _read(self, text: str) -> list[str]:
        rest = _without_heading(strip_reasoning(text, Cursor()).without_wrapping().text)
        items = _json_items(rest)
        if items is None:
            items = _csv_items(rest)
        if not items:
            raise failure("expected values separated by commas; the reply contains none")
        return items


def _without_heading(text: str) -> str:
    heading, _, rest = text.partition("\n")
    return rest if heading.rstrip().endswith(":") and rest.strip() else text


def _json_items(text: str) -> list[str] | None:
    """Return the items of a JSON array; None if the text is not an array."""
    if not text.startswith("["):
        return None
    try:
        # Text after the array means that the reply is CSV whose first item begins with a bracket.
        if read_tolerant(text).end < len(text):
            return None
    except JsonSyntaxError:
        return None
    try:
        return parser_for(list[str]).parse(text)
    except OutputParsingError as error:
        raise ValidationFailure(*error.problems) from error


def _csv_items(text: str) -> list[str]:
    """Return the items of CSV text; an empty list if the text has only commas and spaces."""
    items: list[str] = []
    position, has_content = 0, False
    while position <= len(text):
        item, quoted, position = _csv_item(text, position, len(items))
        separator = text[position : position + 1]
        position += 1
        if item or quoted or separator == ",":
            items.append(item)
            has_content = has_content or quoted or bool(item)
    return items if has_content else []


def _csv_item(text: str, position: int, index: int) -> tuple[str, bool, int]:
    """Read the CSV item at a position; return the item, whether it is quoted, and the position after it."""
    start = _end(_SPACE, text, position)
    if text.startswith('"', start):
        quoted = _QUOTED.match(text, start)
        if quoted is None:
            raise failure("the quote that opens this item is never closed", path=f"$[{index}]")
        if text[quoted.end() : quoted.end() + 1] in _ENDS:
            return quoted[1].replace('""', '"'), True, quoted.end()
        # In ``"a" b, c`` the quotes are part of an item, but in ``"a, b" c, d`` the commas are ambiguous.
        if re.search(r"[,\r\n]", quoted[1]):
            raise failure("there is text after the closing quote of this item", path=f"$[{index}]")
    end = _end(_PLAIN, text, start)
    return text[start:end].rstrip(), False, end


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


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
    """Parses the items of a numbered list, like LangChain's NumberedListOutputParser.

    >>> NumberedListOutputParser().parse("Items:\\n1. foo\\n2) bar")
    ['foo', 'bar']

    Each item begins on a new line; the first one may also follow the words that announce the list. Indented
    lines continue the item above them. Other lines are ignored. A reply such as "There are no items." is the
    empty list; any other reply without items is an error.
    """

    def format_instructions(self) -> str:
        return "Reply with a numbered list, each item on a line of its own, such as:\n1. foo\n2. bar\n3. baz"

    def _read(self, text: str) -> list[str]:
        return _list_items(text, _NUMBER, "a numbered list")


@dataclass(frozen=True)
class MarkdownListOutputParser(TextParser[list[str]]):
    """Parses the items of a Markdown list, like LangChain's MarkdownListOutputParser.

    >>> MarkdownListOutputParser().parse("Items:\\n- foo\\n  - bar")
    ['foo', 'bar']

    Nested items are items too. Other indented lines continue the item above them. The remaining lines are
    ignored. A reply such as "There are no items." is the empty list; any other reply without items is an
    error.
    """

    def format_instructions(self) -> str:
        return "Reply with a markdown list, each item on a line of its own, such as:\n- foo\n- bar\n- baz"

    def _read(self, text: str) -> list[str]:
        return _list_items(text, _BULLET, "a markdown list")


def _list_items(text: str, marker: re.Pattern[str], kind: str) -> list[str]:
    """Return the items of a list in a reply; each item begins with a marker, such as ``1.`` or ``-``."""
    rest = strip_reasoning(text, Cursor()).text
    items = _item_lines(rest, marker)
    # A reply that says that there are no items is a valid answer, so it is the empty list.
    if not items and not _NOTHING.fullmatch(rest):
        raise failure(f"expected {kind}; the reply has no items")
    for index, item in enumerate(items):
        if not item:
            raise failure("this item is empty", path=f"$[{index}]")
    return ["\n".join(item) for item in items]


def _item_lines(text: str, marker: re.Pattern[str]) -> list[list[str]]:
    """Split a plain-text list into its items, each as a list of lines."""
    items: list[list[str]] = []
    announced: str | None = None  # the possible first item, in the line before the list
    in_item = False
    for line in text.replace("\r\n", "\n").split("\n"):
        # "* * *" is a horizontal rule of Markdown and not an item.
        match = None if _RULE.match(line) else marker.match(line)
        content = line.strip()
        if match:
            # "The colors: 1. red" may contain the first item of a list. A second item proves that it does.
            if not items and announced and match[1] == "2":
                items.append([announced])
            items.append([match[2].strip()] if match[2] and match[2].strip() else [])
            in_item = True
        elif in_item and content and (line[0] in " \t" or not items[-1]):
            items[-1].append(content)
        else:
            in_item = False
            first = _FIRST.search(line)
            announced = first[1].strip() if first else announced if not content else None
    return items


T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True)
class _TypeBasedParser(Generic[T]):
    """Base class of the LangChain-compatible parsers that convert replies to one Python type."""

    _parser: TypeParser[T] = field(init=False, repr=False, compare=False)

    @property
    def schema(self) -> Mapping[str, Json] | None:
        """The JSON Schema that the model's reply must follow; None if the reply is plain text."""
        return self._parser.schema

    def format_instructions(self) -> str:
        """Return prompt instructions that describe the type; "" if any text is accepted."""
        return self._parser.format_instructions()

    def get_format_instructions(self) -> str:
        """Return the prompt instructions for the model (LangChain's name for this method)."""
        return self.format_instructions()

    def parse(self, text: str | TextReply, leniency: Leniency = Leniency.SAFE) -> T:
        """Parse a string, or the text of a reply object, and return the typed value.

        Raises OutputParsingError if the text does not fit, and TypeError for an object without text.
        """
        return self._parser.parse(reply_text(text, self), leniency)

    def read(self, text: str | TextReply, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
        """Parse a string or reply object, and return the value with the corrections that it needed."""
        return self._parser.read(reply_text(text, self), leniency)

    def _use_type(self, output_type: TypeForm[T]) -> None:
        object.__setattr__(self, "_parser", parser_for(output_type))


@dataclass(frozen=True, init=False)
class JsonOutputParser(_TypeBasedParser[T]):
    """Parses JSON, of any kind or of one type, like LangChain's JsonOutputParser.

    >>> JsonOutputParser().parse('Here you are: {"a": [1, 2]}')
    {'a': [1, 2]}
    >>> JsonOutputParser(dict[str, list[int]]).parse('{"a": ["1", 2]}')
    {'a': [1, 2]}

    Raises UnsupportedTypeError if no parser can read the type.

    Attributes:
        output_type: The type of the value; None accepts any JSON.
    """

    output_type: TypeForm[T] | None

    @overload
    def __init__(self: JsonOutputParser[Any], output_type: None = None) -> None: ...
    @overload
    def __init__(self, output_type: TypeForm[T]) -> None: ...
    @overload
    def __init__(self, *, pydantic_object: TypeForm[T]) -> None: ...
    def __init__(self, output_type: Any = None, *, pydantic_object: Any = None) -> None:
        if pydantic_object is not None:  # the name that LangChain has
            output_type = pydantic_object
        object.__setattr__(self, "output_type", output_type)
        self._use_type(Any if output_type is None else output_type)


@dataclass(frozen=True, init=False)
class PydanticOutputParser(_TypeBasedParser[T]):
    """Parses a pydantic model or another type, like LangChain's PydanticOutputParser.

    >>> class Person(BaseModel):
    ...     name: str
    >>> PydanticOutputParser(Person).parse('{"name": "Ann"}')
    Person(name='Ann')

    Raises UnsupportedTypeError if no parser can read the type.

    Attributes:
        pydantic_object: The type of the value.
    """

    pydantic_object: TypeForm[T]

    def __init__(self, pydantic_object: TypeForm[T]) -> None:
        object.__setattr__(self, "pydantic_object", pydantic_object)
        self._use_type(pydantic_object)


@dataclass(frozen=True)
class EnumOutputParser(_TypeBasedParser[E]):
    """Parses enum members by value or by name, like LangChain's EnumOutputParser.

    >>> class Color(Enum):
    ...     RED = "red"
    >>> EnumOutputParser(Color).parse(" Red. ")
    <Color.RED: 'red'>

    Upper and lower case make no difference, and the values may be of any type. A reply that names two
    members, or denies one ("not red"), is an error.

    Attributes:
        enum: The enum.
    """

    enum: type[E]

    def __post_init__(self) -> None:
        self._use_type(self.enum)


# A selection of keys of a dict. DictParser describes the meanings.
Keys: TypeAlias = bool | str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class TextResponse:
    """A reply's text and the dict that was parsed from it, like AgentScope's ModelResponse.

    Attributes:
        text: The text of the reply.
        parsed: The parsed dict; None before parsing.
        metadata: Anything else that the caller wants to keep with the reply.
    """

    text: str
    parsed: JsonObject | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DictParser(TextParser[JsonObject]):
    """Base class of AgentScope-compatible parsers that convert replies to dicts.

    Each attribute selects a part: ``True`` selects the whole dict, ``False`` and ``None`` select nothing, a
    string selects the value of that key, and a sequence selects a dict of those keys.

    Attributes:
        keys_to_memory: The part for the memory of an agent.
        keys_to_content: The part that other agents and users see.
        keys_to_metadata: The part for the metadata of a message.

    With ``allow_missing=True`` the methods omit keys that the parsed dict does not have.
    """

    keys_to_memory: Keys = True
    keys_to_content: Keys = True
    keys_to_metadata: Keys = False

    @overload  # type: ignore[override]  # a response is returned for a response, as in AgentScope
    def parse(self, text: str) -> JsonObject: ...
    @overload
    def parse(self, text: TextResponse) -> TextResponse: ...
    @overload
    def parse(self, text: TextReply) -> Any: ...
    def parse(  # pyright: ignore[reportIncompatibleMethodOverride]  # a response is returned for a response
        self, text: str | TextReply
    ) -> object:
        """Parse a string to a dict.

        For a reply object, it returns a response with the dict in ``parsed``.

        An object that has ``parsed``, such as a TextResponse or AgentScope's ModelResponse, is copied. For
        another reply, such as ``aiservices.ChatReply``, the response is a new TextResponse.

        Raises OutputParsingError if the text does not fit, and TypeError for an object without text.
        """
        parsed = super().parse(text)
        if isinstance(text, str):
            return parsed
        if not hasattr(text, "parsed"):
            return TextResponse(text.text, parsed)
        if isinstance(text, TextResponse):
            return replace(text, parsed=parsed)
        response: Any = copy(text)
        response.parsed = parsed
        return response

    @property
    def format_instruction(self) -> str:
        """Return the prompt instructions for the model (AgentScope's name for this method)."""
        return self.format_instructions()

    def to_memory(self, parsed: Mapping[str, object], *, allow_missing: bool = False) -> Json:
        """Return the keys of a parsed dict that an agent remembers.

        Raises ValueError for a missing key.
        """
        return _select(parsed, self.keys_to_memory, "keys_to_memory", allow_missing)

    def to_content(self, parsed: Mapping[str, object], *, allow_missing: bool = False) -> Json:
        """Return the part of a parsed dict that users see.

        Raises ValueError for a missing key.
        """
        return _select(parsed, self.keys_to_content, "keys_to_content", allow_missing)

    def to_metadata(self, parsed: Mapping[str, object], *, allow_missing: bool = False) -> Json:
        """Return the keys of a parsed dict for the metadata of a message.

        Raises ValueError for a missing key.
        """
        return _select(parsed, self.keys_to_metadata, "keys_to_metadata", allow_missing)


# A missing key is an error by default, because a silent gap in an agent's memory is hard to find.
def _select(parsed: Mapping[str, object], keys: Keys, option: str, allow_missing: bool) -> object:
    if keys is None or isinstance(keys, bool):
        return dict(parsed) if keys else None
    required = (keys,) if isinstance(keys, str) else keys
    missing = [key for key in required if key not in parsed]
    if missing and not allow_missing:
        raise ValueError(
            f"{option} names {', '.join(missing)}, but the parsed reply has: {', '.join(parsed) or 'none'}; "
            "require these keys, or pass allow_missing=True"
        )
    if isinstance(keys, str):
        return parsed.get(keys)
    return {key: parsed[key] for key in keys if key in parsed}
