"""Parsers for replies in plain text, lists, tags, XML and JSON, compatible with LangChain and AgentScope."""

from __future__ import annotations

from .simple import (
    CommaSeparatedListOutputParser,
    DatetimeOutputParser,
    EnumOutputParser,
    JsonOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
    PydanticOutputParser,
    RegexOutputParser,
    StrOutputParser,
    TextReply,
    TextResponse,
)
from .tagged import (
    MarkdownJsonDictParser,
    MultiTaggedContentParser,
    RegexTaggedContentParser,
    TaggedContent,
    XmlOutputParser,
)

__all__ = [
    "CommaSeparatedListOutputParser",
    "DatetimeOutputParser",
    "EnumOutputParser",
    "JsonOutputParser",
    "MarkdownJsonDictParser",
    "MarkdownListOutputParser",
    "MultiTaggedContentParser",
    "NumberedListOutputParser",
    "PydanticOutputParser",
    "RegexOutputParser",
    "RegexTaggedContentParser",
    "StrOutputParser",
    "TaggedContent",
    "TextReply",
    "TextResponse",
    "XmlOutputParser",
]
