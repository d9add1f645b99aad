"""Clients of MCP servers: of one that is run as a process, and of one at a URL."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

__all__ = ["client_of_process", "client_of_url"]

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
