"""Parsers that read a model's tool calls as typed values, compatible with LangChain."""

from __future__ import annotations

from ..text.tool_calls import (
    JsonOutputKeyToolsParser,
    JsonOutputToolsParser,
    ParsedToolCall,
    PydanticToolsParser,
    ToolCallLike,
)

__all__ = [
    "JsonOutputKeyToolsParser",
    "JsonOutputToolsParser",
    "ParsedToolCall",
    "PydanticToolsParser",
    "ToolCallLike",
]
