"""A server that all workers ask before each model request, so that they share rate limits and a budget.

The process that started the run acts as a small server. A worker asks it before each request, and then
reports the tokens that the reply used. In this way N workers together keep the limits that a single process
would keep. If a worker is lost, its requests count as ended. If the server is lost, the workers send only
requests that it had already permitted. A machine that disappears without closing its connections, for example
after a power failure, is noticed after half a minute.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from secrets import token_hex
from typing import NamedTuple

from output_parsers.result.reading import JsonObject

from ...engine.budget import Budget, SharedBudget
from ...models.base import ChatModel
from ...models.errors import BudgetExceededError
from ...models.limits import RESET_HEADERS, Limiter, Limits, Permit, PermitChatModel, text_length
from ...models.messages import ChatReply, ReplyDelta, Usage, whole_reply_deltas
from ...models.requests import ChatRequest
from ...models.wrapper import Wait
from ..row import RowsError

_CONNECT_SECONDS = 10.0
# When the connection to a machine that does not answer ends; a system may lack some of these options.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}


class PermissionAddress(NamedTuple):
    """The network address and the secret token of a PermissionServer.

    Attributes:
        host: The host of the server.
        port: Its port.
        token: A secret that each worker must know.
        max_wait: The seconds that a request may wait for its permission.
    """

    host: str
    port: int
    token: str
    max_wait: float


class PermissionServer:
    """Decides for all workers when requests may be sent, within a run's rate limits and budget.

    Args:
        limits: The limits of the requests to each model.
        spent: The run's budget.
        prices: The prices of models that have no price in ``spent``.

    Attributes:
        limiters: The rate limiters, by the name and address of the model.
    """

    def __init__(self, limits: Limits, spent: SharedBudget, prices: Budget) -> None:
        self.limiters: dict[tuple[str, ...], Limiter] = {}
        self._limits = limits
        self._spent = spent
        self._prices = prices
        self._token = token_hex(16)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str) -> PermissionAddress:
        """Listen on a free port of the given host, and return the address to which workers connect."""
        self._server = await asyncio.start_server(self._accept, host, 0, limit=2**20)
        port = self._server.sockets[0].getsockname()[1]
        return PermissionAddress(host, port, self._token, self._limits.max_wait)

    async def close(self) -> None:
        """Stop permitting requests, and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        permitted: dict[int, Permit] = {}
        waiting: set[asyncio.Task[None]] = set()
        try:
            _end_when_lost(writer)
            async with asyncio.timeout(_CONNECT_SECONDS):
                first = await reader.readline()
            if not hmac.compare_digest(first.strip(), self._token.encode()):
                return
            while line := await reader.readline():
                message = json.loads(line)
                if message["do"] == "ask":
                    asking = asyncio.create_task(self._permit(message, permitted, writer))
                    waiting.add(asking)
                    asking.add_done_callback(waiting.discard)
                else:
                    self._note(message, permitted)
        except (OSError, ValueError, asyncio.CancelledError):  # the connection ended, or it is not a worker
            pass
        finally:
            for asking in waiting:
                asking.cancel()
            for permit in permitted.values():  # the worker was lost
                permit.failed()
            self._connections.discard(task)
            writer.close()

    async def _permit(
        self, message: JsonObject, permitted: dict[int, Permit], writer: asyncio.StreamWriter
    ) -> None:
        """Tell a worker when its request may be sent, or why it must not be sent."""
        number, characters = message["number"], message["characters"]
        key = tuple(message["model"])
        limiter = self.limiters.get(key)
        if limiter is None:
            limiter = self.limiters[key] = Limiter()
            limiter.add_bounds(self._limits)
        tokens = limiter.estimate_length(characters, message["max_tokens"])
        permit = await limiter.aacquire(tokens, time.monotonic() + message["wait"])
        answer: dict[str, object] = {"number": number}
        exceeded = self._spent.exceeded()
        if permit is None:
            answer["refused"] = "time"
        elif exceeded is not None:
            permit.failed()
            answer |= {"refused": "budget", "limit": exceeded.limit, "message": str(exceeded)}
        else:
            self._spent.add_request()
            permitted[number] = permit
        if writer.is_closing():
            lost = permitted.pop(number, None)
            if lost is not None:
                lost.failed()
        else:
            writer.write(json.dumps(answer).encode() + b"\n")

    def _note(self, message: JsonObject, permitted: dict[int, Permit]) -> None:
        """Update the rate limits and the budget after a worker reports the outcome of a request."""
        number = message["number"]
        if number not in permitted:
            return
        match message["do"]:
            case "headers":
                permitted[number].read_headers(message["headers"])
            case "done":
                usage = None if message["usage"] is None else Usage(**message["usage"])
                if usage is not None:
                    self._spent.add(usage, self._prices, *message["models"])
                permitted.pop(number).accepted(usage, message["models"])
            case "refused":
                permitted.pop(number).refused(message["retry_after"])
            case _:
                permitted.pop(number).failed()


class PermissionClient:
    """A worker's connection to the PermissionServer, which must permit each model request."""

    def __init__(self, address: PermissionAddress) -> None:
        self.address = address
        self._writer: asyncio.StreamWriter | None = None
        self._connecting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._number = 0
        self._reading: asyncio.Task[None] | None = None
        self._is_lost = False

    async def ask(self, model: ChatModel, request: ChatRequest, wait: float) -> int | None:
        """Wait until a request may be sent, and return the request's number; None if the wait is too long.

        Raises BudgetExceededError, and RowsError if the server cannot be reached.
        """
        await self._connect()
        self._number += 1
        number = self._number
        answered = self._answers[number] = asyncio.get_running_loop().create_future()
        key = model.name, getattr(model, "endpoint", ""), getattr(model, "account", "")
        try:
            self.tell(
                "ask",
                number,
                model=key,
                characters=text_length(request),
                max_tokens=request.options.max_tokens or 0,
                wait=wait,
            )
            answer = await answered
        except BaseException:
            self.tell("failed", number)
            raise
        finally:
            self._answers.pop(number, None)
        if answer.get("refused") == "budget":
            raise BudgetExceededError(answer["message"], limit=answer["limit"])
        return None if "refused" in answer else number

    def tell(self, what: str, number: int, **details: object) -> None:
        """Send the PermissionServer a message about a request, for example that the request failed."""
        if self._writer is not None and not self._is_lost:
            self._writer.write(json.dumps({"do": what, "number": number, **details}).encode() + b"\n")

    async def _connect(self) -> None:
        async with self._connecting:
            if self._writer is None and not self._is_lost:
                host, port = self.address.host, self.address.port
                try:
                    async with asyncio.timeout(_CONNECT_SECONDS):
                        reader, self._writer = await asyncio.open_connection(host, port)
                except (OSError, TimeoutError):
                    self._is_lost = True
                else:
                    _end_when_lost(self._writer)
                    self._writer.write(f"{self.address.token}\n".encode())
                    self._reading = asyncio.create_task(self._read(reader))
        if self._is_lost:
            raise self._lost()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                answer = json.loads(line)
                answered = self._answers.get(answer["number"])
                if answered is not None and not answered.done():
                    answered.set_result(answer)
        self._is_lost = True
        for answered in self._answers.values():
            if not answered.done():
                answered.set_exception(self._lost())

    async def close(self) -> None:
        """Close the connection; the server then counts unfinished requests as ended."""
        self._is_lost = True
        if self._writer is not None and self._reading is not None:
            self._writer.close()
            await self._reading
            with suppress(OSError):
                await self._writer.wait_closed()

    def _lost(self) -> RowsError:
        return RowsError(
            f"the process that started the run cannot be reached at {self.address.host}:{self.address.port}; "
            "without its permission, this worker sends no requests"
        )


def _end_when_lost(writer: asyncio.StreamWriter) -> None:
    """Enable TCP keep-alive, so that a connection closes if the other machine stops responding."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _RemotePermit(Permit):
    """The permission of the PermissionServer to send one request, by its number."""

    def __init__(self, client: PermissionClient, number: int) -> None:
        self._client = client
        self._number = number

    def read_headers(self, headers: Mapping[str, str]) -> None:
        limits = {name: headers[name] for names in RESET_HEADERS for name in names if name in headers}
        if limits:
            self._client.tell("headers", self._number, headers=limits)

    def accepted(self, usage: Usage | None, models: Sequence[str]) -> None:
        tokens = None if usage is None else asdict(usage)
        self._client.tell("done", self._number, usage=tokens, models=models)

    def refused(self, retry_after: float | None) -> None:
        self._client.tell("refused", self._number, retry_after=retry_after)

    def failed(self) -> None:
        self._client.tell("failed", self._number)


class PermittedChatModel(PermitChatModel):
    """A chat model that asks the PermissionServer before sending each request.

    Requests run in the worker's event loop; a blocking call must come from another thread.
    """

    def __init__(self, model: ChatModel, client: PermissionClient, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(model)
        self._client = client
        self._loop = loop
        self._max_wait = client.address.max_wait

    def permission(self, request: ChatRequest, deadline: float) -> Wait:
        async def ask() -> Permit | None:
            number = await self._client.ask(self._model, request, max(0.0, deadline - time.monotonic()))
            return None if number is None else _RemotePermit(self._client, number)

        return Wait(lambda: asyncio.run_coroutine_threadsafe(ask(), self._loop).result(), ask)

    def complete(self, request: ChatRequest) -> ChatReply:
        """Run ``acomplete`` in the worker's event loop, and block until the reply arrives."""
        return asyncio.run_coroutine_threadsafe(self.acomplete(request), self._loop).result()

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        """Send a chat request, and yield the parts of the complete reply."""
        yield from whole_reply_deltas(self.complete(request))
