"""Reads a model's tool calls as typed values, as LangChain's tool parsers do."""

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
