"""Parsers of text by its form, as LangChain and AgentScope have them."""

from .by_type import EnumOutputParser, JsonOutputParser, PydanticOutputParser
from .comma_list import CommaSeparatedListOutputParser
from .date_time import DatetimeOutputParser
from .markdown_json import MarkdownJsonDictParser
from .marked_list import MarkdownListOutputParser, NumberedListOutputParser
from .multi_tagged import MultiTaggedContentParser, TaggedContent
from .regex import RegexOutputParser
from .regex_tagged import RegexTaggedContentParser
from .response import TextResponse
from .string import StrOutputParser
from .xml import XmlOutputParser

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
    "TextResponse",
    "XmlOutputParser",
]
