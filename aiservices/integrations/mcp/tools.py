"""The tools of MCP servers (Model Context Protocol) as tools of a service. Needs the extra ``mcp``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic_core import to_json

from output_parsers.json_schema.nodes import InvalidSchemaError
from output_parsers.json_schema.parser import schema_parser

from ...tools.tool import Tool, ToolException
from .connection import Connection, LoopThread, McpServerError, awaited, waited_for

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ReadResourceResult, Resource, Tool as ServerTool

# What may bring further properties with it, so that an object beside it cannot be closed.
_OPENING = frozenset(
    "additionalProperties unevaluatedProperties patternProperties propertyNames anyOf oneOf not if "
    "dependentSchemas $ref $dynamicRef".split()
)
_OF_SCHEMAS = ("properties", "$defs", "definitions")


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in which objects with known properties have no others.

    Servers seldom say so, and strict modes would have the model write a list of further properties.
    """
    return dict(schema) if _combines(schema) else _closed(schema)


def _combines(schema: Any) -> bool:
    """Whether anything in a schema is put together of others, each of which sees properties of all."""
    if isinstance(schema, Mapping):
        return "allOf" in schema or any(map(_combines, schema.values()))
    return isinstance(schema, list) and any(map(_combines, schema))


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    inside = dict(schema)
    for key in _OF_SCHEMAS:
        if isinstance(inside.get(key), Mapping):
            inside[key] = {name: _part(part) for name, part in inside[key].items()}
    if "items" in inside:
        inside["items"] = _part(inside["items"])
    if isinstance(inside.get("anyOf"), list):
        inside["anyOf"] = [_part(part) for part in inside["anyOf"]]
    if inside.get("type") == "object" and "properties" in inside and not inside.keys() & _OPENING:
        inside["additionalProperties"] = False
    return inside


def _part(schema: Any) -> Any:
    return _closed(schema) if isinstance(schema, Mapping) else schema


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


T = TypeVar("T")
_TIMEOUT = 60.0
_URI = {"type": "string", "description": "the URI of the resource"}


class McpTools:
    """The tools of one MCP server, as ``create(tools=[…])`` takes them; the server is asked for each call.

    >>> with McpTools.stdio("uvx", ["mcp-server-time"], prefix="time_") as tools:  # doctest: +SKIP
    ...     clerk = create(Clerk, model, tools=[tools])

    ``with`` opens it, and a thread of its own speaks to the server; ``async with`` speaks to it on the
    running event loop. Opened in either way it serves blocking and async methods, save that a blocking one
    cannot wait for the very loop that it holds up.

    ``only`` names the tools to take, as the server calls them, ``prefix`` stands before each name.
    ``resources`` adds a tool that reads those of the server. ``timeout`` is in seconds, for opening and for
    each call. What a server says of a fault is what the model is told. A server that has ended is started
    anew by the next call of a method. Opening raises McpServerError, and ImportError without the extra.

    A server that is reached in another way is given by ``make``, which gives a new ``mcp.Client`` of it, and
    the ``name`` by which messages call it.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        name: str,
        *,
        only: Iterable[str] | None = None,
        prefix: str = "",
        resources: bool = False,
        timeout: float = _TIMEOUT,
    ) -> None:
        self._make = make
        self._name = name
        self._only = None if only is None else tuple(only)
        self._prefix = prefix
        self._resources = resources
        self._timeout = timeout
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._known: dict[str, tuple[ServerTool, Tool]] = {}

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        only: Iterable[str] | None = None,
        prefix: str = "",
        resources: bool = False,
        timeout: float = _TIMEOUT,
    ) -> McpTools:
        """A server that is run as a process. It gets ``env``, and of this process's environment PATH, HOME
        and the like alone. What it writes to stderr goes to that of this process."""

        def make() -> Client:
            from .connection import client_of_process

            return client_of_process(command, args, env, cwd)

        name = f"the MCP server {' '.join([command, *args])!r}"
        return cls(make, name, only=only, prefix=prefix, resources=resources, timeout=timeout)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        prefix: str = "",
        resources: bool = False,
        timeout: float = _TIMEOUT,
    ) -> McpTools:
        """A server at a URL, by streamable HTTP. ``headers`` go with each request; no message tells them."""

        def make() -> Client:
            from .connection import client_of_url

            return client_of_url(url, headers or {}, timeout)

        name = f"the MCP server {re.sub(r'//[^/@]*@', '//', url).partition('?')[0]}"
        return cls(make, name, only=only, prefix=prefix, resources=resources, timeout=timeout)

    def __enter__(self) -> Self:
        self._check_closed()
        self._thread = LoopThread("aiservices-mcp")
        self._loop = self._thread.loop
        try:
            waited_for(self._open(), self._loop)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, loop, thread = self._forget()
        assert thread is not None, "it is left in the way it was entered"
        try:
            if connection is not None and loop is not None:
                waited_for(connection.close(), loop)
        finally:
            thread.close()

    async def __aenter__(self) -> Self:
        self._check_closed()
        self._loop = asyncio.get_running_loop()
        try:
            await self._open()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, _, _ = self._forget()
        if connection is not None:
            await connection.close()

    def tools(self, invocation: Any = None) -> list[Tool] | Awaitable[list[Tool]]:
        """The tools of the server, awaitable if the invocation is async."""
        if invocation is not None and invocation.plan.returns.asynchronous:
            return self._awaited(self._tools(asynchronous=True))
        return self._waited_for(self._tools(asynchronous=False))

    def _check_closed(self) -> None:
        if self._loop is not None:
            raise RuntimeError(f"{self._name} is open already")
        try:
            import mcp  # noqa: F401
        except ImportError as error:
            raise ImportError("MCP servers need the package mcp: pip install 'aiservices[mcp]'") from error

    def _forget(
        self,
    ) -> tuple[Connection | None, asyncio.AbstractEventLoop | None, LoopThread | None]:
        held = self._connection, self._loop, self._thread
        self._connection = self._loop = self._thread = None
        return held

    async def _open(self) -> None:
        connection = Connection(self._make, self._name, self._timeout)
        await connection.open()
        self._connection = connection
        names = [tool.name for tool in await connection.tools()]
        unknown = [name for name in self._only or () if name not in names]
        if unknown:
            raise McpServerError(
                f"{self._name} has no tool {', '.join(unknown)}; it has: {', '.join(names) or 'none'}"
            )

    async def _tools(self, *, asynchronous: bool) -> list[Tool]:
        connection = self._opened()
        listing = await connection.tools()
        found = [self._tool(tool) for tool in listing if self._only is None or tool.name in self._only]
        if self._resources:
            found += self._reader(await connection.resources())
        return found if asynchronous else [self._blocking(tool) for tool in found]

    def _opened(self) -> Connection:
        if self._connection is None:
            raise McpServerError(f"{self._name} is not open; use it inside of: with McpTools… as tools")
        return self._connection

    def _tool(self, tool: ServerTool) -> Tool:
        """A tool of the server, made once for as long as the server says the same of it."""
        known = self._known.get(tool.name)
        if known is not None and known[0] == tool:
            return known[1]
        try:
            arguments = schema_parser(closed(tool.input_schema), name=f"{tool.name}_arguments")
        except InvalidSchemaError as error:
            said = f"{self._name}: the tool {tool.name} cannot be used: {error}; leave it out with only=…"
            raise McpServerError(said) from error

        async def call(**given: Any) -> str:
            return await self._awaited(self._called(tool.name, given))

        made = Tool(
            self._named(tool.name), tool.description or tool.title or tool.name, call, arguments, {}, True
        )
        self._known[tool.name] = tool, made
        return made

    async def _called(self, name: str, given: Mapping[str, Any]) -> str:
        return text_of_result(await self._opened().call(name, given))

    def _reader(self, resources: Sequence[Resource]) -> list[Tool]:
        """The tool that reads resources, where there are any."""
        if not resources:
            return []

        async def read(uri: str) -> str:
            return await self._awaited(self._read(uri))

        schema = {"type": "object", "properties": {"uri": _URI}, "required": ["uri"]}
        said = f"Reads one of these resources:\n{listed(resources)}"
        return [Tool(self._named("read_resource"), said, read, schema_parser(schema), {}, True)]

    async def _read(self, uri: str) -> str:
        return text_of_resource(await self._opened().read(uri))

    def _named(self, name: str) -> str:
        """A name of which all providers take every letter."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self._prefix}{name}")[:64]

    def _blocking(self, tool: Tool) -> Tool:
        return replace(
            tool, function=lambda **given: self._waited_for(tool.function(**given)), asynchronous=False
        )

    async def _awaited(self, work: Coroutine[Any, Any, T]) -> T:
        return await awaited(work, self._open_loop(work))

    def _waited_for(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._open_loop(work)
        if self._thread is None and asyncio._get_running_loop() is loop:
            work.close()
            raise McpServerError(
                f"{self._name} is spoken to on this event loop, which a blocking call holds up; "
                "use async methods, or open it with: with McpTools… as tools"
            )
        return waited_for(work, loop)

    def _open_loop(self, work: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            work.close()
            raise McpServerError(f"{self._name} is not open; use it inside of: with McpTools… as tools")
        return self._loop
