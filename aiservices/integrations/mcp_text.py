"""What an MCP server gave, as the text that a model reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ..tools import ToolException

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ReadResourceResult

__all__ = ["listed", "text_of_resource", "text_of_result"]


def text_of_result(result: CallToolResult) -> str:
    """A result as text: structured content as JSON, else its texts; what is no text is left out with a note.

    Raises ToolException with that text where the result is an error.
    """
    texts = [block.text for block in result.content if block.type == "text"]
    others = [_noted(block) for block in result.content if block.type != "text"]
    if result.is_error:
        raise ToolException("\n".join(texts + others) or "The tool failed.")
    if result.structured_content is not None:
        texts = [to_json(result.structured_content).decode()]
    return "\n".join(texts + others) or "Done."


def text_of_resource(result: ReadResourceResult) -> str:
    """The contents of a resource as text."""
    return "\n".join(map(_content, result.contents)) or "It is empty."


def _noted(block: Any) -> str:
    if block.type == "resource":
        return _content(block.resource)
    if block.type == "resource_link":
        return f"[resource {block.name}: {block.uri}]"
    return f"[{block.type} left out: {block.mime_type}]"


def _content(contents: Any) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    return f"[resource left out: {contents.uri}, {contents.mime_type or 'of an unknown type'}]"


def listed(resources: Iterable[Any]) -> str:
    """Resources, one a line, for the description of a tool."""
    return "\n".join(f"- {one.uri}: {one.description or one.title or one.name}" for one in resources)
