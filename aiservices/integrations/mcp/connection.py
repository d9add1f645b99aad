"""A connection to an MCP server: opened once, held by one task, opened anew when the server has ended."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from ...models.errors import AiServiceError
from ...tools.tool import ToolException

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ListToolsResult, ReadResourceResult, Resource, Tool as ServerTool

_MOST_PAGES = 100  # of a listing


class McpServerError(AiServiceError):
    """An MCP server cannot be started or reached, has ended, or lists what is no tool."""


class _EndedError(McpServerError):
    """The server has ended since it was opened."""


class Connection:
    """One MCP server. All of its coroutines run on one event loop.

    ``make`` gives a new client of the server, ``name`` is how messages call it; no wait is longer than
    ``timeout`` seconds.
    """

    def __init__(self, make: Callable[[], Client], name: str, timeout: float) -> None:
        self.name = name
        self._make = make
        self._timeout = timeout
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Start or reach the server. Raises McpServerError."""
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._owner = asyncio.create_task(self._own(ready, self._stop))
        try:
            async with asyncio.timeout(self._timeout):
                self._client = await ready
        except TimeoutError as error:
            await self._ended()
            said = f"{self.name} did not answer within {self._timeout:g} s"
            raise McpServerError(f"{said}; see whether it starts, or raise timeout") from error
        except asyncio.CancelledError:
            await self._ended()
            raise
        except Exception as error:
            await self._ended()
            said = _innermost(error)
            raise McpServerError(f"{self.name} cannot be opened: {said}") from error

    async def close(self) -> None:
        """End the connection, and with it a server that runs as a process."""
        self._client = None
        self._stop.set()
        if self._owner is not None:
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def _own(self, ready: asyncio.Future[Client], stop: asyncio.Event) -> None:
        """Hold the client: what it opens has to be closed by the task that opened it."""
        try:
            async with self._make() as client:
                ready.set_result(client)
                await stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)

    async def _ended(self) -> None:
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def tools(self) -> list[ServerTool]:
        """The tools that the server has now. One that has ended is opened anew. Raises McpServerError."""
        client = self._client
        try:
            return await self._listed_tools()
        except _EndedError:
            async with self._opening:  # several calls may find it ended; one of them opens it
                if self._client is client:
                    await self.close()
                    await self.open()
            return await self._listed_tools()

    async def _listed_tools(self) -> list[ServerTool]:
        found: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._listing(partial(_page_of_tools, cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def resources(self) -> list[Resource]:
        """The resources that the server lists first; none where it has none. Raises McpServerError."""
        if self._client is None or self._client.server_capabilities.resources is None:
            return []
        page = await self._listing(lambda client: client.list_resources())
        return list(page.resources)

    async def _listing(self, ask: Callable[[Client], Any]) -> Any:
        try:
            return await self._in_time(ask)
        except TimeoutError as error:
            raise McpServerError(
                f"{self.name} did not list what it has within {self._timeout:g} s"
            ) from error
        except McpServerError:
            raise
        except Exception as error:
            raise McpServerError(f"{self.name} cannot list what it has: {_innermost(error)}") from error

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """What a tool gives. Raises ToolException with what the server said of its fault, TimeoutError."""
        result: CallToolResult = await self._told(lambda client: client.call_tool(tool, dict(arguments)))
        return result

    async def read(self, uri: str) -> ReadResourceResult:
        """A resource. Raises ToolException with what the server said of its fault, TimeoutError."""
        result: ReadResourceResult = await self._told(lambda client: client.read_resource(uri))
        return result

    async def _told(self, ask: Callable[[Client], Any]) -> Any:
        from mcp import MCPError

        try:
            return await self._in_time(ask)
        except _EndedError as error:
            raise ToolException("The server of this tool has ended.") from error
        except MCPError as error:
            raise ToolException(error.message) from error

    async def _in_time(self, ask: Callable[[Client], Any]) -> Any:
        """What is asked of the client. Raises _EndedError, TimeoutError, and what the server says."""
        from anyio import ClosedResourceError, fail_after
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        if self._client is None:
            raise _EndedError(f"{self.name} has ended")  # and could not be opened anew since
        try:
            with fail_after(self._timeout):
                return await ask(self._client)
        except ClosedResourceError as error:
            raise _EndedError(f"{self.name} has ended") from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise _EndedError(f"{self.name} has ended") from error
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError(error.message) from error
            raise


def _page_of_tools(cursor: str | None, client: Client) -> Awaitable[ListToolsResult]:
    return client.list_tools(cursor=cursor)


def _innermost(error: BaseException) -> str:
    """The text of an error, or of the first one in a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


_LONGEST_SILENCE = 300.0  # seconds for which a server may hold a stream open and say nothing


def client_of_process(
    command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | Path | None
) -> Client:
    """The client of a server that it starts when it is entered, and ends when it is left."""
    server = StdioServerParameters(
        command=command, args=list(args), env=None if env is None else dict(env), cwd=cwd
    )
    # notebooks and tests put in the place of stderr what no process can write to
    return Client(stdio_client(server, errlog=sys.__stderr__ or sys.stderr))


def client_of_url(url: str, headers: Mapping[str, str], timeout: float) -> Client:
    """The client of a server by streamable HTTP; ``timeout`` is in seconds."""
    return Client(_transport(url, headers, timeout))


@asynccontextmanager
async def _transport(url: str, headers: Mapping[str, str], timeout: float) -> AsyncIterator[Any]:
    limits = httpx2.Timeout(timeout, read=max(timeout, _LONGEST_SILENCE))
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=limits) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, until it is closed."""

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
        """End the loop, and wait for its thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def waited_for(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """What a coroutine gives that runs on another thread's loop; this thread waits for it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # it has ended, or nobody waits for it any more
        raise


async def awaited(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """What a coroutine gives that runs on ``loop``, be it the running one or that of another thread."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
