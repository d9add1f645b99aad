"""The class ``McpTools``, which gives services the tools of an MCP (Model Context Protocol) server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic_core import to_json

from output_parsers.json_schema.nodes import InvalidSchemaError
from output_parsers.json_schema.parser import close_objects, schema_parser

from ...models.extras import require_extra
from ...tools.tool import Tool, ToolException
from .connection import (
    Connection,
    LoopThread,
    McpServerError,
    await_on_loop,
    http_server_client,
    run_on_loop,
    stdio_server_client,
)

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        ReadResourceResult,
        Resource,
        TextResourceContents,
        Tool as ServerTool,
    )

    from ...engine.plan import Invocation

T = TypeVar("T")
_DEFAULT_TIMEOUT = 60.0  # seconds
# The C0 and C1 control characters and DEL, except newline and tab. They can change what a terminal shows.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_URI_SCHEMA = {"type": "string", "description": "the URI of the resource"}


class McpTools:
    """The tools of one MCP server, to pass to ``create(tools=[...])``.

    >>> with McpTools.stdio("uvx", ["mcp-server-time"], prefix="time_") as tools:  # doctest: +SKIP
    ...     clerk = create(Clerk, model, tools=[tools])

    ``with`` opens the server and talks to it in a thread. ``async with`` talks to it on the running event
    loop. Both work for blocking and async methods, with one exception: after ``async with``, a blocking
    method cannot be called on the same event loop, because it would block the loop for which it waits.

    Each call of a method asks the server for its current tools. A server that has stopped is restarted by the
    next call. Error messages of tools are sent to the model. Opening raises McpServerError.
    The constructor raises MissingExtraError without the extra ``mcp``.

    Args:
        new_client: Returns a new ``mcp.Client``. ``stdio`` and ``http`` create it for the usual servers.
        name: The name of the server in error messages.
        only: The names of the tools to use, as the server calls them. None means all tools.
        prefix: A prefix for the names of all tools, to keep the tools of several servers apart.
        resources: If true, there is also a tool ``read_resource`` for the resources of the server.
        timeout: The seconds to wait for the server to open, and for each of its responses.
    """

    def __init__(
        self,
        new_client: Callable[[], Client],
        name: str,
        *,
        only: Iterable[str] | None = None,
        prefix: str = "",
        resources: bool = False,
        timeout: float = _DEFAULT_TIMEOUT,
    ) -> None:
        require_extra("mcp", "mcp", "McpTools")
        self._new_client = new_client
        self._name = name
        self._only = None if only is None else tuple(only)
        self._prefix = prefix
        self._resources = resources
        self._timeout = timeout
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._tool_cache: dict[str, tuple[ServerTool, Tool]] = {}

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
        timeout: float = _DEFAULT_TIMEOUT,
    ) -> McpTools:
        """Use the tools of a local MCP server, which a ``with`` statement starts as a process.

        The process gets ``env``, and of this process's environment only variables such as PATH and HOME. It
        writes to the stderr of this process.
        """

        def new_client() -> Client:
            return stdio_server_client(command, args, env, cwd)

        name = f"the MCP server {' '.join([command, *args])!r}"
        return cls(new_client, name, only=only, prefix=prefix, resources=resources, timeout=timeout)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        only: Iterable[str] | None = None,
        prefix: str = "",
        resources: bool = False,
        timeout: float = _DEFAULT_TIMEOUT,
    ) -> McpTools:
        """Create McpTools for a server at a URL (streamable HTTP); a ``with`` block opens the connection.

        ``headers`` are sent with every request. They do not appear in error messages.
        """

        def new_client() -> Client:
            return http_server_client(url, headers or {}, timeout)

        # Error messages must not contain a password or a key in the URL.
        name = f"the MCP server {re.sub(r'//[^/@]*@', '//', url).partition('?')[0]}"
        return cls(new_client, name, only=only, prefix=prefix, resources=resources, timeout=timeout)

    # --- opening and closing ---

    def __enter__(self) -> Self:
        self._check_can_open()
        self._thread = LoopThread("aiservices-mcp")
        self._loop = self._thread.loop
        try:
            run_on_loop(self._open(), self._loop)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, loop, thread = self._detach()
        assert thread is not None, "__exit__ follows __enter__, not __aenter__"
        try:
            if connection is not None and loop is not None:
                run_on_loop(connection.close(), loop)
        finally:
            thread.close()

    async def __aenter__(self) -> Self:
        self._check_can_open()
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
        connection, _, _ = self._detach()
        if connection is not None:
            await connection.close()

    def _check_can_open(self) -> None:
        if self._loop is not None:
            raise RuntimeError(f"{self._name} is already open")

    async def _open(self) -> None:
        connection = Connection(self._new_client, self._name, self._timeout)
        await connection.open()
        self._connection = connection
        names = [tool.name for tool in await connection.tools()]
        unknown = [name for name in self._only or () if name not in names]
        if unknown:
            raise McpServerError(
                f"{self._name} does not have the tool {', '.join(unknown)}; "
                f"its tools are: {', '.join(names) or 'none'}"
            )

    def _detach(self) -> tuple[Connection | None, asyncio.AbstractEventLoop | None, LoopThread | None]:
        """Forget the connection to the MCP server, and return it with its thread, to be closed."""
        state = self._connection, self._loop, self._thread
        self._connection = self._loop = self._thread = None
        return state

    # --- tools for a call ---

    def tools(self, invocation: Invocation | None = None) -> list[Tool] | Awaitable[list[Tool]]:
        """Return the current tools of the MCP server; for an async service method, return an awaitable."""
        if invocation is not None and invocation.plan.is_async:
            return self._await(self._list_tools(is_async=True))
        return self._block_on(self._list_tools(is_async=False))

    async def _list_tools(self, *, is_async: bool) -> list[Tool]:
        connection = self._open_connection()
        server_tools = await connection.tools()
        # The server may add or remove tools at any time, so the list is filtered on each call.
        tools = [self._tool(tool) for tool in server_tools if self._only is None or tool.name in self._only]
        if self._resources:
            resources = await connection.resources()
            if resources:
                tools.append(self._read_resource_tool(resources))
        return tools if is_async else [self._blocking(tool) for tool in tools]

    def _tool(self, server_tool: ServerTool) -> Tool:
        """Convert a tool of the MCP server to a Tool, reusing the cached one if the tool has not changed."""
        cached = self._tool_cache.get(server_tool.name)
        # Building a parser from a schema is slow, and most servers never change their tools.
        if cached is not None and cached[0] == server_tool:
            return cached[1]
        name = server_tool.name
        try:
            arguments = schema_parser(close_objects(server_tool.input_schema), name=f"{name}_arguments")
        except InvalidSchemaError as error:
            message = f"{self._name}: the tool {name} cannot be used: {error}; exclude it with only=…"
            raise McpServerError(_without_control_characters(message)) from error

        async def call(**arguments: object) -> str:
            return await self._await(self._call_tool(name, arguments))

        description = _without_control_characters(server_tool.description or server_tool.title or name)
        tool = Tool(self._tool_name(name), description, call, arguments, asynchronous=True)
        self._tool_cache[name] = server_tool, tool
        return tool

    async def _call_tool(self, name: str, arguments: Mapping[str, object]) -> str:
        try:
            return text_of_result(await self._open_connection().call(name, arguments))
        except ToolException as error:
            raise ToolException(_without_control_characters(str(error))) from error

    def _read_resource_tool(self, resources: Sequence[Resource]) -> Tool:
        async def read(uri: str) -> str:
            return await self._await(self._read_resource(uri))

        schema = {"type": "object", "properties": {"uri": _URI_SCHEMA}, "required": ["uri"]}
        lines = [
            f"- {resource.uri}: {resource.description or resource.title or resource.name}"
            for resource in resources
        ]
        description = _without_control_characters("\n".join(["Reads one of these resources:", *lines]))
        return Tool(
            self._tool_name("read_resource"), description, read, schema_parser(schema), asynchronous=True
        )

    async def _read_resource(self, uri: str) -> str:
        return text_of_resource(await self._open_connection().read(uri))

    def _tool_name(self, name: str) -> str:
        """Shorten a tool name and replace characters, so that all model providers accept the name."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self._prefix}{name}")[:64]

    def _blocking(self, tool: Tool) -> Tool:
        return replace(
            tool,
            function=lambda **arguments: self._block_on(tool.function(**arguments)),
            asynchronous=False,
        )

    # --- running coroutines on the loop of the connection ---

    async def _await(self, work: Coroutine[object, object, T]) -> T:
        return await await_on_loop(work, self._open_loop(work))

    def _block_on(self, work: Coroutine[object, object, T]) -> T:
        loop = self._open_loop(work)
        if self._thread is None and asyncio._get_running_loop() is loop:
            work.close()  # or Python warns that it was never awaited
            raise McpServerError(
                f"{self._name} was opened on this event loop, which a blocking call would block; "
                "use async methods, or open it with: with McpTools… as tools"
            )
        return run_on_loop(work, loop)

    def _open_loop(self, work: Coroutine[object, object, object]) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            work.close()
            raise self._not_open_error()
        return self._loop

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise self._not_open_error()
        return self._connection

    def _not_open_error(self) -> McpServerError:
        return McpServerError(f"{self._name} is not open; open it first: with McpTools… as tools")


# --- results as text ---


def text_of_result(result: CallToolResult) -> str:
    """Convert the result of an MCP tool to text: structured content as JSON, other content as its texts.

    Images and other content are replaced by a note. Raises ToolException with the text if the result is an
    error.
    """
    texts = [block.text for block in result.content if block.type == "text"]
    notes = [_note(block) for block in result.content if block.type != "text"]
    # The text of an error is written for the model, so that it can correct its arguments.
    if result.is_error:
        raise ToolException("\n".join(texts + notes) or "The tool failed.")
    if result.structured_content is not None:
        # The texts repeat the structured content for clients that do not support it.
        texts = [to_json(result.structured_content).decode()]
    return _without_control_characters("\n".join(texts + notes)) or "Done."


def text_of_resource(result: ReadResourceResult) -> str:
    """Convert the contents of an MCP resource to text."""
    return _without_control_characters("\n".join(map(_resource_text, result.contents))) or "It is empty."


def _without_control_characters(text: str) -> str:
    """Remove control characters, except newlines and tabs, from a text that an MCP server sent."""
    return _CONTROL_CHARACTERS.sub("", text)


def _note(block: ContentBlock) -> str:
    if block.type == "resource":
        return _resource_text(block.resource)
    if block.type == "resource_link":
        return f"[resource {block.name}: {block.uri}]"
    return f"[{block.type} left out: {getattr(block, 'mime_type', None)}]"


def _resource_text(contents: TextResourceContents | BlobResourceContents) -> str:
    text = getattr(contents, "text", None)
    if text is not None:
        return str(text)
    return f"[resource left out: {contents.uri}, {contents.mime_type or 'of an unknown type'}]"
