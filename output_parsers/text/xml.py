"""Reads the XML element in a reply as nested dicts and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .frame import TextParser, misfit, without_reasoning
from .xml_scanner import XmlElement, find_tag, read_element

__all__ = ["XmlOutputParser"]


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
            raise misfit(f"expected an XML element{f' <{self.root}>' if self.root else ''}; there is none")
        first = found[0]
        if any(other != first for other in found[1:]):
            outermost = ", ".join(dict.fromkeys(f"<{tag}>" for element in found[:20] for tag in element))
            raise misfit(f"the reply holds {len(found)} different outermost elements: {outermost}; write one")
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
