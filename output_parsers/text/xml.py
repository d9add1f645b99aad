"""A parser that converts XML to nested dicts and lists, like LangChain's XMLOutputParser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.entities import html5
from typing import TypeAlias

from ..json.result import DEPTH
from .simple import TextParser, failure, without_reasoning

XmlElement: TypeAlias = "dict[str, str | list[XmlElement] | None]"

_NAME = r"[^\W\d][\w.:-]*+"
_MARKUP = re.compile(
    rf"""<(?:(?P<comment>!--)|(?P<data>!\[CDATA\[)|(?P<instruction>\?)|(?P<declaration>![A-Za-z\[])
    |/(?P<closed>{_NAME})\s*+>
    |(?P<opened>{_NAME})(?=[\s/>])(?P<attributes>(?:[^<>"']++|"[^"<]*+"|'[^'<]*+')*+)>)""",
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
        sentences = ["Reply with one XML element. Close every tag, and do not put text beside tags."]
        if self.root:
            sentences.append(f"The outermost tag is <{self.root}>.")
        if self.tags:
            sentences.append(f"Use these tags: {', '.join(f'<{tag}>' for tag in self.tags)}.")
        return " ".join(sentences)

    def _read(self, text: str) -> XmlElement:
        wanted = " ".join(f"<{tag}>" for tag in (*(self.tags or ()), self.root or ""))
        # XML parsers normalize line ends in this way.
        rest = _unfenced(without_reasoning(text, wanted)).replace("\r\n", "\n").replace("\r", "\n")
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
