"""A connection to one MCP server, and the event loop on which it runs.

The package ``mcp`` is imported late, so that importing this module does not need it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...models.errors import AiServiceError
from ...tools.tool import ToolException

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ListToolsResult, ReadResourceResult, Resource, Tool as ServerTool

T = TypeVar("T")
# A server that sends a cursor with every page of its list of tools must not block a call forever.
_MAX_PAGES = 100
_MAX_TOOLS = 1_000
_MAX_STREAM_SILENCE = 300.0  # seconds for which an HTTP server may hold a stream open without sending


class McpServerError(AiServiceError):
    """Raised if an MCP server cannot be started or reached, has stopped, or has an unusable tool."""


class _ServerStoppedError(McpServerError):
    """Raised if the MCP server stopped after the connection had been opened."""


class Connection:
    """A connection to one MCP server, whose coroutines must all run on the same event loop.

    Args:
        new_client: Returns a new client of the server.
        name: The name of the server in error messages.
        timeout: The seconds to wait for the server to open, and for each of its responses.
    """

    def __init__(self, new_client: Callable[[], Client], name: str, timeout: float) -> None:
        self.name = name
        self._new_client = new_client
        self._timeout = timeout
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._reopening = asyncio.Lock()

    async def open(self) -> None:
        """Connect to an MCP server, starting a local server as a process, or raise McpServerError."""
        # The owner task reports through this future that the client is open, or why it cannot be opened.
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._owner = asyncio.create_task(self._own_client(ready, self._stop))
        try:
            async with asyncio.timeout(self._timeout):
                self._client = await ready
        except TimeoutError as error:
            await self._cancel_owner()
            message = f"{self.name} did not answer within {self._timeout:g} s"
            raise McpServerError(f"{message}; check that it starts, or raise timeout") from error
        except asyncio.CancelledError:
            await self._cancel_owner()
            raise
        except Exception as error:
            await self._cancel_owner()
            raise McpServerError(f"{self.name} cannot be opened: {_error_text(error)}") from error

    async def close(self) -> None:
        """Close the connection to the MCP server; a local server process is stopped."""
        self._client = None
        self._stop.set()
        if self._owner is not None:
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def _own_client(self, ready: asyncio.Future[Client], stop: asyncio.Event) -> None:
        """Open the connection of an MCP client, and close it when an event is set.

        The client opens anyio task groups, which must be closed by the task that opened them. Therefore one
        task owns the client from beginning to end, even if other tasks call ``open`` and ``close``.
        """
        try:
            async with self._new_client() as client:
                ready.set_result(client)
                await stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)

    async def _cancel_owner(self) -> None:
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def tools(self) -> list[ServerTool]:
        """Return the current tools of the MCP server, restarting the server if it has stopped.

        Raises McpServerError if the server cannot be restarted or cannot list its tools.
        """
        client = self._client
        try:
            return await self._list_tools()
        except _ServerStoppedError:
            async with self._reopening:  # several calls may notice the stop; the first one opens it again
                if self._client is client:
                    await self.close()
                    await self.open()
            return await self._list_tools()

    async def _list_tools(self) -> list[ServerTool]:
        tools: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._list(partial(_tools_page, cursor))
            tools += page.tools
            cursor = page.next_cursor
            if len(tools) > _MAX_TOOLS:
                raise McpServerError(f"{self.name} lists more than {_MAX_TOOLS:,} tools, which is the limit")
            if cursor is None:
                return tools
        raise McpServerError(
            f"{self.name} sends its list of tools in more than {_MAX_PAGES} pages, the limit"
        )

    async def resources(self) -> list[Resource]:
        """Return the first page of the MCP server's resources, or an empty list if it has none.

        Raises McpServerError if the server cannot list them.
        """
        if self._client is None or self._client.server_capabilities.resources is None:
            return []
        page = await self._list(lambda client: client.list_resources())
        return list(page.resources)

    async def _list(self, request: Callable[[Client], Awaitable[T]]) -> T:
        try:
            return await self._request(request)
        except TimeoutError as error:
            message = f"{self.name} did not list its tools and resources within {self._timeout:g} s"
            raise McpServerError(message) from error
        except McpServerError:
            raise
        except Exception as error:
            message = f"{self.name} cannot list its tools and resources: {_error_text(error)}"
            raise McpServerError(message) from error

    async def call(self, tool: str, arguments: Mapping[str, object]) -> CallToolResult:
        """Call a tool of the MCP server, or raise TimeoutError or (for a server error) ToolException."""
        return await self._tool_request(lambda client: client.call_tool(tool, dict(arguments)))

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource of the MCP server, or raise TimeoutError or (for a server error) ToolException."""
        return await self._tool_request(lambda client: client.read_resource(uri))

    async def _tool_request(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a tool request to the MCP server; errors become a ToolException that the model can read."""
        from mcp import MCPError

        try:
            return await self._request(request)
        except _ServerStoppedError as error:
            raise ToolException("The server of this tool has stopped.") from error
        except MCPError as error:
            raise ToolException(error.message) from error

    async def _request(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request to the MCP server and return its response.

        Raises _ServerStoppedError, TimeoutError, or the MCPError of the server.
        """
        from anyio import ClosedResourceError, fail_after
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        # The next call of tools() tries to open the server again.
        if self._client is None:  # reopening has failed
            raise _ServerStoppedError(f"{self.name} has stopped")
        try:
            with fail_after(self._timeout):
                return await request(self._client)
        except ClosedResourceError as error:
            raise _ServerStoppedError(f"{self.name} has stopped") from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise _ServerStoppedError(f"{self.name} has stopped") from error
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError(error.message) from error
            raise


def _tools_page(cursor: str | None, client: Client) -> Awaitable[ListToolsResult]:
    return client.list_tools(cursor=cursor)


def _error_text(error: BaseException) -> str:
    """Return the message of an error, or of the first error inside an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


# --- clients of the package mcp ---


def stdio_server_client(
    command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | Path | None
) -> Client:
    """Return an MCP client that runs a local MCP server as a process while the client is open."""
    from mcp import Client, StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=command, args=list(args), env=None if env is None else dict(env), cwd=cwd
    )
    # Notebooks and pytest replace sys.stderr with objects that have no file descriptor. A process cannot
    # write to them.
    return Client(stdio_client(server, errlog=sys.__stderr__ or sys.stderr))


def http_server_client(url: str, headers: Mapping[str, str], timeout: float) -> Client:
    """Return an MCP client for a server at a URL (streamable HTTP)."""
    from mcp import Client

    return Client(_http_streams(url, headers, timeout))


@asynccontextmanager
async def _http_streams(url: str, headers: Mapping[str, str], timeout: float) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # A tool may work for minutes before the server sends the first byte on its stream.
    limits = httpx2.Timeout(timeout, read=max(timeout, _MAX_STREAM_SILENCE))
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=limits) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


# --- event loops ---


class LoopThread:
    """An event loop that runs in a thread of its own until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def close(self) -> None:
        """Stop the event loop and wait for its thread to end."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def run_on_loop(work: Coroutine[object, object, T], loop: asyncio.AbstractEventLoop) -> T:
    """Run a coroutine on the event loop of another thread, and block until it returns."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # for example after KeyboardInterrupt; no effect if the coroutine itself failed
        raise


async def await_on_loop(work: Coroutine[object, object, T], loop: asyncio.AbstractEventLoop) -> T:
    """Await a coroutine that must run on a specific event loop, possibly of another thread."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
