"""Reads the XML element in a reply as nested dicts and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.entities import html5
from typing import TypeAlias

from ..json.result import DEPTH
from ..result.reading import ValidationFailure
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
class _Open:
    """An element that is not closed yet."""

    tag: str
    texts: list[str] = field(default_factory=list)
    children: list[XmlElement] = field(default_factory=list)


def find_tag(text: str, position: int) -> re.Match[str] | None:
    """The next opening tag outside comments; None when there is none.

    Raises Misfit for a document type, a closing tag that closes nothing, and a comment without an end.
    """
    while found := _MARKUP.search(text, position):
        if found["opened"]:
            return found
        if found["closed"]:
            raise failure(f"{found[0]} closes nothing")
        _, position = _passed(text, found, "$")
    return None


def read_element(text: str, opening: re.Match[str]) -> tuple[XmlElement, int]:
    """The element that an opening tag begins, and the index after it.

    Its shape is LangChain's: ``{tag: text}``, ``{tag: [elements]}``, ``{tag: None}`` for an empty one inside
    another, ``{tag: []}`` for an empty outermost one; attributes are left out. Text between the elements
    inside an element has no place in that shape and is refused. Raises Misfit, and nothing else.
    """
    stack: list[_Open] = []
    found: re.Match[str] | None = opening
    position = opening.start()
    while found is not None:
        if stack:
            stack[-1].texts.append(_decoded(text[position : found.start()], stack))
        position = found.end()
        if found["opened"]:
            if len(stack) == DEPTH:
                raise failure(f"it is nested deeper than {DEPTH} levels")
            stack.append(_Open(found["opened"]))
        elif not found["closed"]:
            data, position = _passed(text, found, _path(stack))
            stack[-1].texts.append(data)
        elif found["closed"] != stack[-1].tag:
            raise failure(f"<{stack[-1].tag}> is not closed before {found[0]}", path=_path(stack))
        if found["closed"] or (found["opened"] and found["attributes"].endswith("/")):
            element = _closed(stack)
            if not stack:
                return element, position
            stack[-1].children.append(element)
        found = _MARKUP.search(text, position)
    raise failure(f"the reply is cut off: <{stack[-1].tag}> is never closed", path=_path(stack))


def _closed(stack: list[_Open]) -> XmlElement:
    path = _path(stack)
    done = stack.pop()
    text = "".join(done.texts)
    if done.children and text.strip():
        raise failure(f"<{done.tag}> mixes text and tags; write one or the other", path=path)
    if done.children or (not stack and not text.strip()):
        return {done.tag: done.children}
    return {done.tag: text or None}


def _passed(text: str, found: re.Match[str], path: str) -> tuple[str, int]:
    """What a comment, an instruction or a CDATA section says as text, and the index after it."""
    if found["declaration"]:
        raise failure("document types and declarations are not permitted", path=path)
    end = "-->" if found["comment"] else "]]>" if found["data"] else "?>"
    closing = text.find(end, found.end())
    if closing < 0:
        raise failure(f"the reply is cut off: {end} is missing after {found[0]}", path=path)
    return (text[found.end() : closing] if found["data"] else ""), closing + len(end)


def _decoded(text: str, stack: list[_Open]) -> str:
    """Text with its references to characters replaced; an ampersand that begins none is itself."""

    def character(found: re.Match[str]) -> str:
        if found[3]:
            return html5.get(f"{found[3]};", found[0])
        code = int(found[1]) if found[1] else int(found[2], 16)
        if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise _no_character(found[0], stack)
        return chr(code)

    return _ENTITY.sub(character, text) if "&" in text else text


def _no_character(reference: str, stack: list[_Open]) -> ValidationFailure:
    return failure(f"{reference} stands for no character", path=_path(stack))


def _path(stack: list[_Open]) -> str:
    tags = [element.tag for element in stack]
    return ".".join(["$", *tags] if len(tags) <= 10 else ["$", *tags[:5], "..", *tags[-5:]])


@dataclass(frozen=True)
class XmlOutputParser(TextParser[XmlElement]):
    """The XML in a reply in the shape of LangChain's XMLOutputParser.

    >>> XmlOutputParser().parse("<film><title>Heat</title><year>1995</year></film>")
    {'film': [{'title': 'Heat'}, {'year': '1995'}]}

    ``tags`` are the tags that the model is told to use; others are read too. ``root`` is the outermost tag:
    with it, what stands around that element is passed over, other tags included. Without it the reply may
    hold one outermost element, besides prose. A fence and reasoning are passed over. Safe for any
    text: document types are refused, so that no entities are ever defined, and time is linear. A bare ``&``
    and a ``<`` before no name are text. An element that is not closed is refused.
    """

    tags: Sequence[str] | None = None
    root: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", None if self.tags is None else tuple(self.tags))

    def format_instructions(self) -> str:
        said = ["Reply with one XML element. Close every tag, and do not put text beside tags."]
        if self.root:
            said.append(f"The outermost tag is <{self.root}>.")
        if self.tags:
            said.append(f"Use these tags: {', '.join(f'<{tag}>' for tag in self.tags)}.")
        return " ".join(said)

    def _read(self, text: str) -> XmlElement:
        wanted = " ".join(f"<{tag}>" for tag in (*(self.tags or ()), self.root or ""))
        rest = _unfenced(without_reasoning(text, wanted)).replace("\r\n", "\n").replace("\r", "\n")
        found = self._elements(rest)
        if not found:
            raise failure(f"expected an XML element{f' <{self.root}>' if self.root else ''}; there is none")
        first = found[0]
        if any(other != first for other in found[1:]):
            outermost = ", ".join(dict.fromkeys(f"<{tag}>" for element in found[:20] for tag in element))
            raise failure(
                f"the reply holds {len(found)} different outermost elements: {outermost}; write one"
            )
        return first

    def _elements(self, text: str) -> list[XmlElement]:
        found: list[XmlElement] = []
        position = self._start(text, 0)
        while position is not None and (opening := find_tag(text, position)):
            element, end = read_element(text, opening)
            found.append(element)
            position = self._start(text, end)
        return found

    def _start(self, text: str, position: int) -> int | None:
        """Where to look for the next outermost element; None when there is no more of the one wanted."""
        if self.root is None:
            return position
        opening = re.compile(rf"<{re.escape(self.root)}(?=[\s/>])").search(text, position)
        return opening.start() if opening else None


def _unfenced(text: str) -> str:
    """What a fence encloses, when it stands before the first tag."""
    fence, tag = text.find("```"), text.find("<")
    if fence < 0 or tag < fence:
        return text
    end = text.rfind("```")
    return text[fence + 3 :] if end == fence else text[fence + 3 : end]
