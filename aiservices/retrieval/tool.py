"""A retriever as a tool: the model looks for what it needs, and can cite what it found by its id."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from output_parsers.target import Description

from ..tool_run import ToolRun
from ..tools import Tool, tool, tools_of
from .content import Content, Query, Retriever, checked
from .injecting import listed

__all__ = ["Passages", "found_by", "retriever_tool"]

_NOTHING = "Nothing was found."
_Looked = Annotated[str, Description("what to look for, as a question or in keywords")]


class Passages(str):
    """What a retriever's tool found, as the model reads it: each text below its id. ``contents`` has all."""

    contents: tuple[Content, ...]

    def __new__(cls, contents: Sequence[Content]) -> Passages:
        made = super().__new__(cls, listed(contents) or _NOTHING)
        made.contents = tuple(contents)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Passages, (self.contents,)


def retriever_tool(
    retriever: Retriever,
    name: str = "search",
    description: str = "Finds passages of text. Each stands below its id in brackets; cite it by that id.",
) -> Tool:
    """A tool that looks for what the model asks; its result is ``Passages``.

    Only async methods can call that of a retriever which is async.
    """

    giver = f"{type(retriever).__name__}.retrieve"

    def search(query: _Looked) -> Passages:
        return Passages(checked(retriever.retrieve(Query(query)), giver))

    async def asearch(query: _Looked) -> Passages:
        found: Any = retriever.retrieve(Query(query))
        return Passages(checked(await found, giver))

    asynchronous = inspect.iscoroutinefunction(retriever.retrieve)
    [made] = tools_of(tool(name=name, description=description)(asearch if asynchronous else search))
    return made


def found_by(runs: Iterable[ToolRun]) -> dict[str, Content]:
    """All that the tools of a call found, by id: what an answer can cite."""
    found = (run.result.contents for run in runs if isinstance(run.result, Passages))
    return {content.key: content for contents in found for content in contents}
