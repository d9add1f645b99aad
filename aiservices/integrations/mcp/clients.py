"""Clients of the package ``mcp`` that tolerate lost sessions, HTTP errors, and invalid tools and results."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
from anyio import CancelScope
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
)
from mcp_types.methods import validate_server_result
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from output_parsers.result.reading import Json, JsonObject

from .arguments import ORIGINAL_SCHEMA
from .json_rpc import INVALID_ANSWER, MessageStream, json_of, members_of, valid_answer

# Codes of errors that the server did not send. The request did not reach it or its session, or the connection
# ended before the answer.
NOT_BEGUN = -31_404
ENDED = -31_405
_MAX_STREAM_SILENCE = 300.0  # seconds for which an HTTP server may hold a stream open without sending
_EXIT_INTERVAL = 0.25  # seconds between two checks of whether a process has ended
_VERSION = "2025-11-25"  # the protocol version by which tools and results are checked
_SESSION = "mcp-session-id"
_SESSION_HEADERS = ("accept", _SESSION, "mcp-protocol-version")  # headers of all requests in a session


def stdio_server_client(
    command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | Path | None
) -> Client:
    """Return an MCP client that runs a local MCP server process while the client is open."""
    server = StdioServerParameters(
        command=command,
        args=list(args),
        env=None if env is None else dict(env),
        cwd=cwd,
        encoding_error_handler="replace",
    )
    # Notebooks and pytest replace sys.stderr with objects that have no file descriptor. A process cannot
    # write to them.
    return Client(stdio_client(server, errlog=sys.__stderr__ or sys.stderr))


def http_server_client(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, timeout: float
) -> Client:
    """Return an MCP client for a server at a URL (streamable HTTP)."""
    return Client(_http_streams(url, headers, auth, timeout))


def tolerant_client(client: Client, timeout: float) -> Client:
    """Return the client with streams that correct invalid tools and results and notice a dead process."""
    streams = client.server
    if isinstance(streams, (Server, MCPServer)):  # of the same process, without a transport
        return client
    if isinstance(streams, str):
        streams = _http_streams(streams, {}, None, timeout)
    elif isinstance(streams, StdioServerParameters):
        streams = stdio_client(streams)
    return replace(client, server=_Transport(streams))


def has_ended(client: Client) -> bool:
    """Return True if the streams of a client have ended, because its server has stopped."""
    return isinstance(client.server, _Transport) and client.server.has_ended


@asynccontextmanager
async def _http_streams(
    url: str, headers: Mapping[str, str], auth: httpx2.Auth | None, timeout: float
) -> AsyncIterator[Any]:
    async with (
        _SessionClient(headers, auth, timeout) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


# --- Messages ---


class _Transport(AbstractAsyncContextManager[Any]):
    """The streams of a server, whose messages are made acceptable for the package mcp.

    Attributes:
        has_ended: True if the server has closed its stream.
        waiting: The scope in which the client waits for a message.
    """

    def __init__(self, streams: AbstractAsyncContextManager[Any]) -> None:
        self._streams = streams
        self.has_ended = False
        self.waiting = CancelScope()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Any:
        read, write = await self._streams.__aenter__()
        # The package mcp reads until all processes that inherited the pipe have closed it, and does not say
        # which process it has started.
        frame = getattr(getattr(self._streams, "gen", None), "ag_frame", None)
        process = frame and frame.f_locals.get("process")
        if process is not None:
            self._watch = asyncio.create_task(self._end_with(process))
        return _ReadStream(read, self), write

    async def __aexit__(self, *details: Any) -> bool | None:
        if self._watch is not None:
            self._watch.cancel()
        return await self._streams.__aexit__(*details)

    async def _end_with(self, process: Any) -> None:
        """End the stream of a process after its last messages have been read."""
        while process.returncode is None:
            await asyncio.sleep(_EXIT_INTERVAL)
        await asyncio.sleep(_EXIT_INTERVAL)
        self.has_ended = True
        self.waiting.cancel()


class _ReadStream(MessageStream):
    """Reads the messages of a server, until the transport has ended."""

    def __init__(self, stream: object, transport: _Transport) -> None:
        super().__init__(stream)
        self._transport = transport

    async def __aexit__(self, *details: object) -> bool | None:
        self._transport.has_ended = True
        return await super().__aexit__(*details)

    async def __anext__(self) -> object:
        item: object = None
        if not self._transport.has_ended:
            with CancelScope() as self._transport.waiting:
                item = await super().__anext__()
        if item is None:
            raise StopAsyncIteration
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCResponse):
            _make_acceptable(message.result)
        elif isinstance(message, JSONRPCError):
            message.error = _error_of_server(message.error)
        return item


def _error_of_server(error: ErrorData) -> ErrorData:
    """Return an error with a code that differs from the client's own errors."""
    if error.code == PARSE_ERROR and error.message.startswith("Failed to parse"):
        return ErrorData(code=PARSE_ERROR, message=INVALID_ANSWER)
    if error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
        return error
    # The package mcp writes these about the response to one request.
    code = ENDED if error.message.startswith("SSE stream ") else INTERNAL_ERROR
    return error.model_copy(update={"code": code})


def _make_acceptable(result: JsonObject) -> None:
    """Change a result so that the package mcp accepts it, although one of its tools or blocks is invalid."""
    if isinstance(result.get("tools"), list):
        result["tools"] = [_acceptable_tool(tool, index + 1) for index, tool in enumerate(result["tools"])]
    if "content" not in result and "structuredContent" not in result:
        return
    blocks, structured = result.get("content"), result.get("structuredContent")
    blocks = blocks if isinstance(blocks, list) else [] if blocks is None else [blocks]
    if structured is not None and not isinstance(structured, dict):
        blocks = blocks or [to_json(structured).decode()]
        structured = None
    result["content"] = [_acceptable_block(block) for block in blocks]
    if structured is None:
        result.pop("structuredContent", None)
    if result.get("isError") is None:
        result.pop("isError", None)


def _acceptable_block(block: object) -> object:
    """Return a block of content that the package mcp accepts: a note for one of an unknown kind."""
    try:
        validate_server_result("tools/call", _VERSION, {"content": [block]})
        return block
    except ValidationError:
        members = members_of(block)
        text = block if isinstance(block, str) else members.get("text")
        note = f"[{members.get('type', 'content')} left out: {members.get('mimeType')}]"
        return {"type": "text", "text": text if isinstance(text, str) else note}


def _acceptable_tool(tool: Json, number: int) -> object:
    """Return a tool that the package mcp accepts, without the schema of its results.

    The model can read a result even if it does not fit the schema.
    """
    try:
        validate_server_result("tools/list", _VERSION, {"tools": [tool]})
        return {key: value for key, value in tool.items() if key != "outputSchema"}
    except ValidationError:
        members = members_of(tool)
        texts = {key: members[key] for key in ("description", "title") if isinstance(members.get(key), str)}
        if members_of(members.get("execution")).get("taskSupport") == "required":
            texts["execution"] = {"taskSupport": "required"}
        name, schema = members.get("name"), members.get("inputSchema")
        if not isinstance(name, str):
            name, schema = f"number {number}", None
        return {
            "name": name,
            "inputSchema": {"type": "object"},
            "_meta": {ORIGINAL_SCHEMA: schema},
            **texts,
        }


# --- Sessions over HTTP ---


class _SessionClient(httpx2.AsyncClient):
    """The HTTP client of an MCP client, which opens a session again if the server has lost it.

    Failed requests are answered with JSON-RPC errors that have the status in their message. For some of them
    the package mcp would end the whole connection, or wait forever.
    """

    def __init__(self, headers: Mapping[str, str], auth: httpx2.Auth | None, timeout: float) -> None:
        # A tool may work for minutes before the server sends the first byte on its stream.
        limits = httpx2.Timeout(timeout, read=max(timeout, _MAX_STREAM_SILENCE))
        super().__init__(headers=dict(headers), auth=auth, timeout=limits)
        self._wait = timeout
        self._session: str | None = None
        self._opening: httpx2.Request | None = None  # the request that has opened the session
        self._lock = asyncio.Lock()

    async def send(self, request: httpx2.Request, **settings: object) -> httpx2.Response:
        if request.method != "POST":
            return await self._send(request, settings)
        message = from_json(await request.aread())
        try:
            response = await self._send(request, settings)
            if message.get("method") == "initialize" and response.is_success:
                self._opening, self._session = request, response.headers.get(_SESSION)
            elif "id" in message and "method" in message and await _has_lost_session(response):
                sent = request.headers[_SESSION]
                async with self._lock:  # several calls may notice it; the first one opens the session
                    if self._session == sent:
                        await self._open_again(request)
                response = await self._send(request, settings)
            return await _answer(response, message)
        except Exception as error:  # signing in may raise any
            is_lost = isinstance(error, httpx2.RequestError)
            code = NOT_BEGUN if isinstance(error, _NOT_SENT) else ENDED if is_lost else INTERNAL_ERROR
            details = {"code": code, "message": str(error) or type(error).__name__}
            return _error_response(httpx2.Response(503, request=request), message, details)

    async def _send(self, request: httpx2.Request, settings: Mapping[str, Any]) -> httpx2.Response:
        if self._session is not None and _SESSION in request.headers:
            request.headers[_SESSION] = self._session
        return await super().send(request, **settings)

    async def _open_again(self, request: httpx2.Request) -> None:
        opening = self._opening
        assert opening is not None
        async with asyncio.timeout(self._wait):
            response = await super().send(opening, stream=True, follow_redirects=False)
            try:
                async for line in response.aiter_lines():
                    if '"protocolVersion"' in line:  # a server may keep its stream open
                        break
            finally:
                await response.aclose()
            if not response.is_success:
                raise _LostSessionError(f"the session has ended, and cannot be opened: {_status(response)}")
            self._session = response.headers.get(_SESSION)
            headers = {name: request.headers[name] for name in _SESSION_HEADERS if name in request.headers}
            body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._send(self.build_request("POST", opening.url, json=body, headers=headers), {})


class _LostSessionError(httpx2.TransportError):
    """Raised if a server has lost a session, and does not open another one."""


_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, _LostSessionError, TimeoutError)


async def _has_lost_session(response: httpx2.Response) -> bool:
    """Return True if a response says that the session of the request does not exist."""
    if _SESSION not in response.request.headers or response.status_code not in (400, 404):
        return False
    body = await response.aread()
    code = members_of(members_of(json_of(body)).get("error")).get("code")
    if code in (METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR):  # the session exists
        return False
    return response.status_code == 404 or b"session" in body.lower()  # some servers send 400


async def _answer(response: httpx2.Response, message: Mapping[str, object]) -> httpx2.Response:
    """Return a response as the package mcp understands it: its JSON has the id of the request."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    if (
        (response.is_success and not is_json)
        or response.is_redirect
        or not {"id", "method"} <= message.keys()
    ):
        return response
    content = await response.aread()
    body = members_of(json_of(content))
    if response.is_success:
        is_valid = body.get("id") == message["id"] and isinstance(body.get("result"), Mapping)
        if is_valid and b"\\ud" not in content:
            return response
        headers = {name: response.headers[name] for name in (_SESSION,) if name in response.headers}
        answer = valid_answer(body, message["id"])
        return httpx2.Response(200, headers=headers, json=answer, request=response.request)
    error, status = members_of(body.get("error")), _status(response)
    if not isinstance(error.get("code"), int) or not isinstance(error.get("message"), str):
        code = METHOD_NOT_FOUND if response.status_code == 404 else INTERNAL_ERROR
        error = {"code": code, "message": status}
    elif response.status_code not in (400, 404):  # the protocol gives these to ordinary errors
        error = {**error, "message": f"{error['message']} ({status})"}
    return _error_response(response, message, error)


def _error_response(
    response: httpx2.Response, message: Mapping[str, object], error: Mapping[str, object]
) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
    return httpx2.Response(response.status_code, json=body, request=response.request)


def _status(response: httpx2.Response) -> str:
    return f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
