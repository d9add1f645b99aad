"""Parsers for text between tags, for JSON in a code block, and for XML, as in AgentScope and LangChain."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.entities import html5
from typing import Any, TypeAlias

from pydantic import BaseModel

from ..json.scanner import read_exact
from ..parser.type_parser import parser_for
from ..result.errors import OutputParsingError, Problem
from ..result.reading import (
    DEPTH,
    Cursor,
    Json,
    JsonObject,
    JsonSyntaxError,
    ValidationFailure,
    describe_value,
)
from .simple import DictParser, Keys, TextParser, failure, without_reasoning

# The pattern of AgentScope. It takes quadratic time for tags that are never closed, so it is never run.
# ``_find_tags`` finds the same tags in linear time.
TAGGED_CONTENT = r"<(?P<name>[^>]+)>(?P<content>.*?)</\1?>"

_OPENING = re.compile(r"<([^<>/][^<>]*+)>")
_CLOSING = re.compile(r"</([^<>]*+)>")
_NAME = re.compile(r"(?!br$|hr$)[A-Za-z][\w-]*+")


@dataclass(frozen=True)
class RegexTaggedContentParser(DictParser):
    """Parses text between tags to a dict by tag name, like AgentScope's RegexTaggedContentParser.

    >>> RegexTaggedContentParser().parse("<thought>Easy.</thought><number>42</number>")
    {'thought': 'Easy.', 'number': 42}

    Errors are a reply without tags, a tag that is never closed, a tag inside the same tag, and a tag that
    occurs twice with different contents. A ``<think>`` section before the answer is ignored, unless it is a
    required key.

    Raises ValueError if the pattern is invalid or lacks a group.

    Attributes:
        tagged_content_pattern: A regular expression with the groups ``name`` and ``content``. The default
            finds ``<x>…</x>`` and ``<x>…</>`` in linear time; the time of another one depends on the pattern.
        format_instruction: The instructions for the prompt. If they are empty, they are written from the
            required keys, unless there is another pattern.
        try_parse_json: Content that is exact JSON becomes its value. Other content remains text.
        required_keys: Tags that a reply must have.
    """

    tagged_content_pattern: str = TAGGED_CONTENT
    format_instruction: str | None = ""  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]  # a field of this parser
    try_parse_json: bool = True
    required_keys: Sequence[str] | None = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "required_keys", tuple(self.required_keys or ()))
        for group in ("name", "content"):
            if group not in self._compiled.groupindex:
                raise ValueError(f"the pattern {self.tagged_content_pattern!r} has no group named {group!r}")
        if not self.format_instruction and self.required_keys and self._default:
            lines = "\n".join(f"<{key}>your {key}</{key}>" for key in self.required_keys or ())
            object.__setattr__(self, "format_instruction", f"Reply with these tags:\n{lines}")

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        try:
            return re.compile(self.tagged_content_pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"the pattern {self.tagged_content_pattern!r} is invalid: {error}") from error

    def format_instructions(self) -> str:
        """Return the prompt instructions that the user passed as ``format_instruction``."""
        return self.format_instruction or ""

    @property
    def _default(self) -> bool:
        return self.tagged_content_pattern == TAGGED_CONTENT

    def _read(self, text: str) -> JsonObject:
        tags = " ".join(f"<{key}>" for key in self.required_keys or ())
        rest = without_reasoning(text, tags if self._default else tags + self.tagged_content_pattern)
        contents = _contents_by_name(_find_tags(rest) if self._default else self._find_matches(rest))
        missing = [f"<{key}>" for key in self.required_keys or () if key not in contents]
        if missing:
            present = ", ".join(f"<{name}>" for name in list(contents)[:20]) or "none"
            raise failure(f"these tags are missing: {', '.join(missing)}; there are: {present}")
        if not contents:
            raise failure("expected tagged content, such as <name>content</name>; the reply contains none")
        return (
            {key: _parse_content(content) for key, content in contents.items()}
            if self.try_parse_json
            else contents
        )

    def _find_matches(self, text: str) -> Iterator[tuple[str, str]]:
        for match in self._compiled.finditer(text):
            if match["name"] is not None and match["content"] is not None:
                yield match["name"], match["content"]


def _find_tags(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each tag in a reply that is not nested in another, and the text inside."""
    # Closing tags are indexed first, so that a tag that is never closed does not cost another search.
    closings: dict[str, list[int]] = {"": []}
    for closing in _CLOSING.finditer(text):
        closings.setdefault(closing[1], []).append(closing.start())
    position = 0
    while opening := _OPENING.search(text, position):
        name, position = opening[1], opening.end()
        ends = [
            (starts[index], len(closed))
            for closed, starts in ((name, closings.get(name, [])), ("", closings[""]))
            if (index := bisect_left(starts, position)) < len(starts)
        ]
        if ends:
            end, length = min(ends)
            content = text[position:end]
            # The closing tag may belong to either of the two opening tags.
            if opening[0] in content:
                raise failure(f"{opening[0]} is inside another {opening[0]}")
            yield name, content
            position = end + length + len("</>")
        elif _NAME.fullmatch(name):  # <br> and prose such as "1 < 2 > 0" do not need a closing tag
            raise failure(f"the tag </{name}> is missing after {opening[0]}")


def _contents_by_name(tagged: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a dict from tag names to the text inside.

    A tag that repeats with different text is an error.
    """
    contents: dict[str, str] = {}
    for name, content in tagged:
        # A model may repeat its answer, but two different answers are ambiguous.
        if contents.setdefault(name, content).strip() != content.strip():
            raise failure(f"<{name}> occurs twice with different contents")
    return contents


def _parse_content(content: str) -> object:
    """Parse the text inside a tag if it is valid JSON; return other text unchanged."""
    try:
        # Only exact JSON is accepted. With repairs, ordinary text could become a value.
        read_exact(content)
        return parser_for(Any).parse(content)
    except (JsonSyntaxError, OutputParsingError):
        return content


@dataclass(frozen=True, slots=True)
class TaggedContent:
    """An opening and a closing tag to find in a reply, and a description of the text between them.

    Attributes:
        name: The key of the content in the parsed dict.
        tag_begin: The opening tag.
        content_hint: Tells the model what to write between the tags.
        tag_end: The closing tag.
        parse_json: True if the content is JSON.
    """

    name: str
    tag_begin: str
    content_hint: str
    tag_end: str
    parse_json: bool = False

    def __str__(self) -> str:
        return f"{self.tag_begin}{self.content_hint}{self.tag_end}"


@dataclass(frozen=True, init=False)
class MultiTaggedContentParser(DictParser):
    """Parses text between pairs of tags, like AgentScope's MultiTaggedContentParser.

    >>> speak = TaggedContent("speak", "[SPEAK]", "what you say", "[/SPEAK]")
    >>> done = TaggedContent("done", "[DONE]", "true or false", "[/DONE]", parse_json=True)
    >>> MultiTaggedContentParser(speak, done).parse("[SPEAK]Hi![/SPEAK] [DONE]true[/DONE]")
    {'speak': 'Hi!', 'done': True}

    Content is returned as text, or read as JSON with the usual leniency if the tag has ``parse_json``. Tags
    inside the content are part of it. Errors are missing tags, a tag that is never closed, content that
    should be JSON but is not, and a pair that occurs twice with different contents. A ``<think>`` section
    before the answer is ignored, unless one of the tags is ``<think>``.

    Raises ValueError if there are no tags, or two with the same name or opening tag.

    Attributes:
        tagged_contents: The pairs of tags.
        keys_allow_missing: The names of tags that a reply may omit.
    """

    tagged_contents: tuple[TaggedContent, ...]
    keys_allow_missing: Sequence[str]

    def __init__(
        self,
        *tagged_contents: TaggedContent,
        keys_to_memory: Keys = True,
        keys_to_content: Keys = True,
        keys_to_metadata: Keys = False,
        keys_allow_missing: Sequence[str] = (),
    ) -> None:
        super().__init__(
            keys_to_memory=keys_to_memory, keys_to_content=keys_to_content, keys_to_metadata=keys_to_metadata
        )
        object.__setattr__(self, "tagged_contents", tagged_contents)
        object.__setattr__(self, "keys_allow_missing", tuple(keys_allow_missing))
        _check_tags(tagged_contents, self.keys_allow_missing)

    def format_instructions(self) -> str:
        """Return prompt instructions that list the tags and what to write between them."""
        lines = "\n".join(map(str, self.tagged_contents))
        pairs = [f"{tag.tag_begin} and {tag.tag_end}" for tag in self.tagged_contents if tag.parse_json]
        json_wanted = f"; the content between {', '.join(pairs)} must be JSON" if pairs else ""
        return f"Reply with these tags{json_wanted}:\n{lines}"

    @cached_property
    def _opening_tags(self) -> re.Pattern[str]:
        # If one tag is the beginning of another one, the longer tag must match.
        longest_first = sorted((tag.tag_begin for tag in self.tagged_contents), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    def _read(self, text: str) -> dict[str, object]:
        tags = " ".join(tag.tag_begin for tag in self.tagged_contents)
        contents, unclosed = self._contents(without_reasoning(text, tags))
        parsed: dict[str, object] = {}
        problems: list[Problem] = []
        for tag in self.tagged_contents:
            tag_contents = contents.get(tag.name, [])
            try:
                if tag_contents or tag.name in unclosed or tag.name not in self.keys_allow_missing:
                    parsed[tag.name] = _tagged_value(tag, tag_contents, unclosed=tag.name in unclosed)
            except ValidationFailure as error:
                problems += error.problems
        if problems:
            raise ValidationFailure(*problems)
        return parsed

    def _contents(self, text: str) -> tuple[dict[str, list[str]], set[str]]:
        """Return the text inside each tag, and the tags that are not closed."""
        by_beginning = {tag.tag_begin: tag for tag in self.tagged_contents}
        contents: dict[str, list[str]] = {}
        unclosed: set[str] = set()
        position = 0
        while beginning := self._opening_tags.search(text, position):
            tag, position = by_beginning[beginning[0]], beginning.end()
            # After a failed search there is no closing tag later either, and a new search would be quadratic.
            end = -1 if tag.name in unclosed else text.find(tag.tag_end, position)
            if end < 0:
                unclosed.add(tag.name)
            else:
                contents.setdefault(tag.name, []).append(text[position:end])
                position = end + len(tag.tag_end)
        return contents, unclosed


def _check_tags(tags: Sequence[TaggedContent], allowed: Sequence[str]) -> None:
    """Raise ValueError if the configured tags are repeated or empty, or ``allowed`` has an unknown name."""
    if not tags:
        raise ValueError("MultiTaggedContentParser needs at least one TaggedContent")
    names = [tag.name for tag in tags]
    for kind, values in (("name", names), ("tag_begin", [tag.tag_begin for tag in tags])):
        twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
        if twice:
            raise ValueError(f"two TaggedContents have the same {kind}: {', '.join(twice)}")
    empty = [tag.name for tag in tags if not tag.tag_begin or not tag.tag_end]
    if empty:
        raise ValueError(f"these TaggedContents have an empty tag: {', '.join(empty)}")
    unknown_names = [key for key in allowed if key not in names]
    if unknown_names:
        raise ValueError(
            f"keys_allow_missing names {', '.join(unknown_names)}; the names are: {', '.join(names)}"
        )


def _tagged_value(tag: TaggedContent, contents: list[str], *, unclosed: bool) -> object:
    """Parse the text between a pair of tags; error messages mention the name of the tag."""
    cursor = Cursor().child(tag.name)
    if unclosed:
        raise ValidationFailure(
            Problem(cursor.path, f"the tag {tag.tag_end} is missing after {tag.tag_begin}")
        )
    if not contents:
        raise ValidationFailure(
            Problem(cursor.path, f"the tags {tag.tag_begin} and {tag.tag_end} are missing")
        )
    if any(other.strip() != contents[0].strip() for other in contents):
        raise ValidationFailure(Problem(cursor.path, f"{tag.tag_begin} occurs twice with different contents"))
    if not tag.parse_json:
        return contents[0]
    try:
        return parser_for(Any).parse(contents[0])
    except OutputParsingError as error:
        requirement = f"the content between {tag.tag_begin} and {tag.tag_end} must be JSON"
        raise ValidationFailure(
            *(
                Problem(cursor.path + p.path[1:], f"{requirement}: {p.message}", p.found)
                for p in error.problems
            )
        ) from error


@dataclass(frozen=True)
class MarkdownJsonDictParser(DictParser):
    """Parses a JSON object in a Markdown code block, like AgentScope's MarkdownJsonDictParser.

    >>> parser = MarkdownJsonDictParser({"thought": "what you think"}, required_keys=["thought"])
    >>> parser.parse('```json\\n{"thought": "Hm."}\\n```')
    {'thought': 'Hm.'}

    JSON is read with the usual leniency, and the fence may be missing. Truncated JSON and two different
    objects are errors.

    Attributes:
        content_hint: The content that the instructions ask for. Text is used unchanged, a dict is written as
            JSON, and a pydantic model as a description of its fields. A model also validates and converts
            the values.
        required_keys: Keys that the object must have.
    """

    content_hint: str | Mapping[str, Json] | type[BaseModel] | None = "{your_json_dictionary}"
    required_keys: Sequence[str] | None = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "required_keys", tuple(self.required_keys or ()))

    def format_instructions(self) -> str:
        """Return prompt instructions that show the JSON object that the model should write."""
        keys = (
            f"\nIt must have these keys: {', '.join(self.required_keys or ())}." if self.required_keys else ""
        )
        return f"Reply with a JSON object in a fenced block, as follows:\n```json\n{self._hint}\n```{keys}"

    @property
    def _hint(self) -> str:
        hint = "{your_json_dictionary}" if self.content_hint is None else self.content_hint
        if isinstance(hint, str):
            return hint
        if isinstance(hint, type):
            return parser_for(hint).hint
        return json.dumps(dict(hint), ensure_ascii=False)

    def _read(self, text: str) -> dict[str, object]:
        if isinstance(self.content_hint, type):
            parsed = dict(parser_for(self.content_hint).parse(text))
        else:
            parsed = parser_for(dict[str, Any]).parse(text)
        missing = [key for key in self.required_keys or () if key not in parsed]
        if missing:
            raise failure(
                f"these required keys are missing: {', '.join(missing)}", found=describe_value(parsed)
            )
        return parsed


XmlElement: TypeAlias = "dict[str, str | list[XmlElement] | None]"

_ELEMENT_NAME = r"[^\W\d][\w.:-]*+"
# --- XML ---


_MARKUP = re.compile(
    rf"""<(?:(?P<comment>!--)|(?P<data>!\[CDATA\[)|(?P<instruction>\?)|(?P<declaration>![A-Za-z\[])
    |/(?P<closed>{_ELEMENT_NAME})\s*+>
    |(?P<opened>{_ELEMENT_NAME})(?=[\s/>])(?P<attributes>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>)""",
    re.VERBOSE,
)
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,31}));")


@dataclass(slots=True)
class _OpenElement:
    """An XML element whose closing tag has not been read yet."""

    tag: str
    texts: list[str] = field(default_factory=list)
    children: list[XmlElement] = field(default_factory=list)


def find_tag(text: str, position: int) -> re.Match[str] | None:
    """Return the next opening XML tag that is not in a comment; None if no opening tag follows.

    Raises ValidationFailure for a document type, a closing tag without an opening tag, and a comment that is
    never closed.
    """
    while markup := _MARKUP.search(text, position):
        if markup["opened"]:
            return markup
        if markup["closed"]:
            raise failure(f"{markup[0]} has no opening tag")
        _, position = _skip_section(text, markup, "$")
    return None


def read_element(text: str, opening: re.Match[str]) -> tuple[XmlElement, int]:
    """Parse the XML element whose opening tag is given; return its value and the position after it.

    The format is LangChain's: ``{tag: text}``, ``{tag: [elements]}``, ``{tag: None}`` for an empty
    element inside another one, ``{tag: []}`` for an empty outermost element. Attributes are ignored. Raises
    ValidationFailure, also for text between elements, which this format cannot represent.
    """
    stack: list[_OpenElement] = []  # instead of recursion, so that deep nesting cannot overflow
    markup: re.Match[str] | None = opening
    position = opening.start()
    while markup is not None:
        if stack:
            stack[-1].texts.append(_decoded(text[position : markup.start()], stack))
        position = markup.end()
        if markup["opened"]:
            if len(stack) == DEPTH:
                raise failure(f"it is nested deeper than {DEPTH} levels")
            stack.append(_OpenElement(markup["opened"]))
        elif not markup["closed"]:
            data, position = _skip_section(text, markup, _path(stack))
            stack[-1].texts.append(data)
        elif markup["closed"] != stack[-1].tag:
            raise failure(f"<{stack[-1].tag}> is not closed before {markup[0]}", path=_path(stack))
        if markup["closed"] or (markup["opened"] and markup["attributes"].endswith("/")):
            element = _close_element(stack)
            if not stack:
                return element, position
            stack[-1].children.append(element)
        markup = _MARKUP.search(text, position)
    raise failure(f"the reply is cut off: <{stack[-1].tag}> is never closed", path=_path(stack))


def _close_element(stack: list[_OpenElement]) -> XmlElement:
    """Close the innermost open XML element, and return its value."""
    path = _path(stack)  # computed before the element is removed, because the path contains it
    done = stack.pop()
    text = "".join(done.texts)
    if done.children and text.strip():
        raise failure(f"<{done.tag}> mixes text and tags; write one or the other", path=path)
    if done.children or (not stack and not text.strip()):
        return {done.tag: done.children}
    return {done.tag: text or None}


def _skip_section(text: str, markup: re.Match[str], path: str) -> tuple[str, int]:
    """Skip an XML comment, instruction or CDATA section; return its text and the position after it.

    Comments and instructions have no text.
    """
    # Document types can define entities, which expand a short text to gigabytes.
    if markup["declaration"]:
        raise failure("document types and declarations are not permitted", path=path)
    end = "-->" if markup["comment"] else "]]>" if markup["data"] else "?>"
    closing = text.find(end, markup.end())
    if closing < 0:
        raise failure(f"the reply is cut off: {end} is missing after {markup[0]}", path=path)
    return (text[markup.end() : closing] if markup["data"] else ""), closing + len(end)


def _decoded(text: str, stack: list[_OpenElement]) -> str:
    """Replace XML character references such as ``&lt;``; leave other ampersands unchanged."""

    def character(reference: re.Match[str]) -> str:
        if reference[3]:
            return html5.get(f"{reference[3]};", reference[0])
        code = int(reference[1]) if reference[1] else int(reference[2], 16)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:  # not a character in XML
            raise failure(f"{reference[0]} is not a valid character reference", path=_path(stack))
        return chr(code)

    return _ENTITY.sub(character, text) if "&" in text else text


def _path(stack: list[_OpenElement]) -> str:
    # Only the ends of a long path are shown: a deeply nested reply would make the message unreadable.
    tags = [element.tag for element in stack]
    return ".".join(["$", *tags] if len(tags) <= 10 else ["$", *tags[:5], "..", *tags[-5:]])


@dataclass(frozen=True)
class XmlOutputParser(TextParser[XmlElement]):
    """Parses an XML element to dicts and lists, like LangChain's XMLOutputParser.

    >>> XmlOutputParser().parse("<film><title>Heat</title><year>1995</year></film>")
    {'film': [{'title': 'Heat'}, {'year': '1995'}]}

    A fence, prose and reasoning around the element are ignored. A bare ``&`` and a ``<`` that does not begin
    a tag are text. An element that is not closed is an error. Untrusted text is safe: document types are
    rejected, so entities cannot be defined, and reading takes linear time.

    Attributes:
        tags: The tags that the instructions ask for; other tags are accepted too.
        root: The outermost tag. With it, other elements around that element are ignored. Without it, two
            different outermost elements are an error.
    """

    tags: Sequence[str] | None = None
    root: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", None if self.tags is None else tuple(self.tags))

    def format_instructions(self) -> str:
        """Return prompt instructions that ask for one XML element, and list the tags to use in it."""
        sentences = ["Reply with one XML element. Close every tag, and do not put text next to tags."]
        if self.root:
            sentences.append(f"The outermost tag is <{self.root}>.")
        if self.tags:
            sentences.append(f"Use these tags: {', '.join(f'<{tag}>' for tag in self.tags)}.")
        return " ".join(sentences)

    def _read(self, text: str) -> XmlElement:
        tags = " ".join(f"<{tag}>" for tag in (*(self.tags or ()), self.root or ""))
        # XML parsers normalize line ends in this way.
        rest = _unfenced(without_reasoning(text, tags)).replace("\r\n", "\n").replace("\r", "\n")
        elements = self._elements(rest)
        if not elements:
            raise failure(
                f"expected an XML element{f' <{self.root}>' if self.root else ''}; the reply contains none"
            )
        first = elements[0]
        if any(other != first for other in elements[1:]):
            outermost = ", ".join(dict.fromkeys(f"<{tag}>" for element in elements[:20] for tag in element))
            raise failure(
                f"the reply contains {len(elements)} different outermost elements: {outermost}; write one"
            )
        return first

    def _elements(self, text: str) -> list[XmlElement]:
        elements: list[XmlElement] = []
        position = self._start(text, 0)
        while position is not None and (opening := find_tag(text, position)):
            element, end = read_element(text, opening)
            elements.append(element)
            position = self._start(text, end)
        return elements

    def _start(self, text: str, position: int) -> int | None:
        """Return the position of the next XML element in a reply; None if the root element has ended."""
        if self.root is None:
            return position
        opening = re.compile(rf"<{re.escape(self.root)}(?=[\s/>])").search(text, position)
        return opening.start() if opening else None


def _unfenced(text: str) -> str:
    """Return the content of the code block around the XML in a reply, or else the whole reply."""
    # A code block after the first tag is part of the content of an element.
    fence, tag = text.find("```"), text.find("<")
    if fence < 0 or tag < fence:
        return text
    end = text.rfind("```")
    return text[fence + 3 :] if end == fence else text[fence + 3 : end]
