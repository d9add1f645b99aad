"""The asynchronous HTTP client, based on libcurl (pycurl), with connections for one event loop."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from weakref import WeakMethod

import pycurl

from .base import (
    DRAIN_SECONDS,
    MAX_CONNECTIONS,
    MAX_ERROR_BYTES,
    READ_SECONDS,
    AsyncSigner,
    Attempts,
    BodyDecoder,
    Credentials,
    CurlError,
    DeadlineError,
    Headers,
    HttpRequest,
    Signer,
)
from .curl import CLOSED, FAILURES, CurlClient, Multi, Transfer, WholeResponse, header_lines, readable_sockets

_MAX_SELECTED = 240  # Python's select takes 512 sockets on Windows, and a new connection may need two
_CHECK_SECONDS = 2e-5  # for each kept connection; calls that start together need not all look for closed ones
_PAUSE = partial(max, pycurl.READFUNC_PAUSE)  # a function for the body of a request that is not sent yet
_PRUNE_SECONDS = 2.0  # libcurl closes connections that the server closed once a second, when a request starts


@dataclass(slots=True, eq=False)
class AsyncStreamedResponse:
    """An HTTP response of the asynchronous client, whose body is read while it arrives.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
        content: Always b"", because the body is unread.
    """

    status_code: int
    headers: Headers
    _client: AsyncHttpClient
    _transfer: _AsyncTransfer | None
    content: bytes = b""

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the pieces of the HTTP response body as they arrive."""
        codings = self.headers.codings
        decoder = BodyDecoder(codings) if codings else None
        while (transfer := self._transfer) is not None:
            if pieces := transfer.take():
                for piece in pieces if decoder is None else map(decoder.decode, pieces):
                    yield piece
            elif not transfer.done:
                await transfer.wait()
            else:
                await self.aclose()
                if decoder is not None:
                    decoder.end()

    async def aclose(self) -> None:
        """Release the HTTP connection: keep it for reuse if the response has ended, else close it.

        The end of the response may still arrive within a few milliseconds; this method waits that long.
        """
        transfer, self._transfer = self._transfer, None
        if transfer is None or not self._client._loop.is_running():
            return  # nothing can be awaited; the connections are closed with the client
        try:
            # a stream is left at its last event, before the empty chunk that ends the body
            transfer.deadline = time.monotonic() + DRAIN_SECONDS
            while not transfer.has_ended:
                transfer.take()
                await transfer.wait()
        except FAILURES:
            pass
        finally:
            self._client._release(transfer)
            self._client._leave()


class AsyncHttpClient(CurlClient):
    """An asynchronous HTTP client for one base URL and one event loop.

    Its transfers run in the event loop, which watches their sockets. Raises TransportError if the environment
    sets a proxy that cannot be used, or if HTTP does not allow a header.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        super().__init__(base_url, credentials)
        self._sign = credentials.async_sign or _in_thread(credentials.sign)
        self._loop = asyncio.get_running_loop()
        # the default event loop on Windows cannot watch sockets
        self._needs_thread = type(self._loop).add_reader is asyncio.AbstractEventLoop.add_reader
        self._is_closing = self._is_closed = False
        self._open()

    def _open(self) -> None:
        self._active = 0  # requests whose response is not read to its end
        limit = min(MAX_CONNECTIONS, _MAX_SELECTED) if self._needs_thread else MAX_CONNECTIONS
        self._places = asyncio.Semaphore(limit)
        self._multi: Multi[_AsyncTransfer] = Multi(MAX_CONNECTIONS)
        self._sockets: _Sockets = (_ThreadSockets if self._needs_thread else _LoopSockets)(
            self._loop, self._act
        )
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None  # when libcurl wants to act, in the time of the loop
        self._idle: list[_AsyncTransfer] = []
        self._idle_streams: list[_AsyncTransfer] = []
        # the sockets of idle connections, and when it was noticed that the server had closed them
        self._kept: dict[int, float | None] = {}
        self._checked_at = 0.0
        self._is_any_closed = False

    async def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> WholeResponse | AsyncStreamedResponse:
        """Send an HTTP request and return the response, or raise StatusError for an error status.

        Redirects of 307 and 308 to the same server are followed. Raises one of ``failures``.

        Args:
            request: The request.
            timeout: The seconds for connecting, and for the whole response; for a stream, for each wait.
            unread: Return before the body is read, as a stream needs.
            deadline: When the whole response must have arrived, in the time of ``time.monotonic()``.
        """
        url, headers, lines = self._target(request)
        send = self._start_stream if unread else self._send
        attempts = Attempts()
        await self._enter(READ_SECONDS if timeout is None else timeout, deadline)
        try:
            while True:
                if self._sign is not None:  # last, since a signature may cover the URL and the other headers
                    try:
                        signature = await self._sign(url, request.body, headers)
                    except OSError as failure:  # it may ask another server for a token
                        raise CurlError(str(failure)) from failure
                    lines = header_lines(self._sign_headers(attempts, headers, signature))
                idle = self._idle_streams if unread else self._idle
                transfer = idle.pop() if idle else _AsyncTransfer(self, is_stream=unread)
                try:
                    must_connect = time.monotonic() < self._distrusts_until
                    transfer.prepare(url, lines, request, timeout, deadline, must_connect=must_connect)
                    response = await send(transfer)
                except BaseException:
                    self._note_failure(transfer)
                    self._release(transfer)
                    raise
                if response.status_code < 300:
                    break
                url = attempts.next_url(url, response, signs=self._sign is not None)
        except BaseException:
            self._leave()
            raise
        if not unread:
            self._leave()
        return response

    async def close(self) -> None:
        """Close all HTTP connections after the running requests have ended."""
        self._is_closing = True
        if not self._active:
            self.abandon()

    def abandon(self) -> None:
        """Close all HTTP connections now; the event loop may already be closed."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._sockets.close()
        self._multi.close()
        for transfer in (*self._idle, *self._idle_streams):
            transfer.close()

    async def _enter(self, seconds: float, deadline: float | None) -> None:
        """Wait until a request may be sent, because there are not too many at the same time."""
        self._active += 1
        try:
            if not self._places.locked():
                await self._places.acquire()
                return
            if deadline is not None:
                seconds = min(seconds, deadline - time.monotonic())
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except BaseException as error:
            self._active -= 1
            if isinstance(error, TimeoutError):
                late = deadline is not None and time.monotonic() >= deadline
                raise (DeadlineError() if late else CurlError("too many requests")) from error
            raise

    def _leave(self) -> None:
        self._places.release()
        self._active -= 1
        if self._is_closing and not self._active:
            self.abandon()

    async def _send(self, transfer: _AsyncTransfer) -> WholeResponse:
        await self._begin(transfer)
        response = transfer.response()
        self._release(transfer)
        return response

    async def _start_stream(self, transfer: _AsyncTransfer) -> WholeResponse | AsyncStreamedResponse:
        self._begin(transfer)
        while (head := transfer.head()) is None:
            if transfer.done:
                raise transfer.error()
            await transfer.wait()
        if head[0] < 300:
            return AsyncStreamedResponse(*head, self, transfer)
        try:
            while not transfer.has_ended and transfer.arrived() < MAX_ERROR_BYTES:
                await transfer.wait()
        except FAILURES:
            pass  # an error has its status, whatever happens to its body
        response = transfer.response()
        self._release(transfer)
        return response

    def _begin(self, transfer: _AsyncTransfer) -> asyncio.Future[None]:
        """Send the request of a transfer, and return the future that is done when something happens to it."""
        for _ in range(len(self._kept)):
            if not self._has_closed_connection():
                break
            # libcurl may choose a closed connection, and notices only after it has sent the headers
            transfer.curl.setopt(pycurl.READFUNCTION, _PAUSE)
            waiter = self._start(transfer)
            is_reused = not transfer.info(pycurl.NUM_CONNECTS)
            transfer.send_body()
            if not (is_reused and transfer.has_response) or transfer.interrupts:
                self._act(pycurl.SOCKET_TIMEOUT, 0)
                return waiter
            self._multi.remove(transfer)
            transfer.rewind()
        return self._start(transfer)

    def _start(self, transfer: _AsyncTransfer) -> asyncio.Future[None]:
        waiter = transfer.waiter = self._loop.create_future()
        self._multi.add(transfer)
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        return waiter

    def _release(self, transfer: _AsyncTransfer) -> None:
        """Keep a transfer for other requests if its response has ended, else close its connection."""
        if self._is_closed or transfer.is_closed:
            return
        transfer.stop_timer()
        if transfer.done:
            (self._idle_streams if transfer.is_stream else self._idle).append(transfer)
            return
        self._multi.remove(transfer)
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        transfer.close()

    def _act(self, descriptor: int, events: int) -> None:
        """Let libcurl act on the events of a socket, or on those of its timer."""
        if self._is_closed:
            return
        try:
            self._multi.act(descriptor, events)
            self._watch()
        except BaseException as error:  # of the handler of a signal
            transfers = tuple(self._multi.transfers.values())
            for transfer in transfers:
                self._multi.remove(transfer)
                transfer.interrupt(error)
            if not (transfers and isinstance(error, Exception)):
                raise

    def _watch(self) -> None:
        """Watch what libcurl wants to be watched now."""
        for descriptor, action in self._multi.sockets():
            self._sockets.watch(descriptor, action)
            if action:
                self._kept.pop(descriptor, None)
            else:
                self._kept[descriptor] = None
        milliseconds = self._multi.timer()
        if milliseconds is None:
            return
        if milliseconds < 0:
            self._timer_at = None
            return
        self._timer_at = when = self._loop.time() + milliseconds / 1000
        # a timer that is too early is cheaper than one that is replaced for each request
        if self._timer is None or self._timer.when() > when:
            self._set_timer(when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._timer_at is None:
            return
        if self._loop.time() < self._timer_at - 0.001:
            self._set_timer(self._timer_at)
        else:
            self._timer_at = None
            self._act(pycurl.SOCKET_TIMEOUT, 0)

    def _has_closed_connection(self) -> bool:
        """Return True if the server closed a kept connection, or sent data that was not requested.

        libcurl itself looks for closed connections only once a second.
        """
        if not self._kept:
            return False
        now = self._loop.time()
        if self._is_any_closed or now - self._checked_at > _CHECK_SECONDS * len(self._kept):
            self._checked_at = now
            self._is_any_closed = False
            for descriptor, events in readable_sockets(self._kept):
                since = self._kept[descriptor] or now
                if not events & CLOSED and now - since < _PRUNE_SECONDS:
                    self._kept[descriptor] = since
                    self._is_any_closed = True
                else:  # libcurl has closed it, and the number may now belong to another file
                    del self._kept[descriptor]
        return self._is_any_closed

    def _forget(self) -> list[object]:
        connections = [self._multi, *self._multi.transfers.values(), *self._idle, *self._idle_streams]
        self._open()
        return [self._sockets, *connections]


def _receive(data: list[bytes], transfer: _AsyncTransfer, limit: float) -> Generator[int | None, bytes, None]:
    """Add what arrives to a list, wake the reader, and pause the transfer at a number of bytes.

    A generator continues within its ``try`` block, so it can keep the exception of a signal handler.
    """
    answer: int | None = None
    while True:
        try:
            while True:
                piece = yield answer
                answer = None
                if transfer.buffered >= limit:
                    transfer.is_paused = True
                    answer = pycurl.WRITEFUNC_PAUSE
                else:
                    data.append(piece)
                    transfer.buffered += len(piece)
                transfer.wake()
        except GeneratorExit:
            raise
        except BaseException as error:
            transfer.interrupts.append(error)
            answer = 0  # which ends the transfer


class _AsyncTransfer(Transfer):
    """A libcurl handle whose user waits in an event loop.

    Attributes:
        waiter: Done when the transfer has ended or, in a stream, when something has arrived.
        buffered: The number of bytes that have arrived and have not been taken.
        is_paused: True if too many bytes have not been taken.
    """

    def __init__(self, client: AsyncHttpClient, *, is_stream: bool) -> None:
        super().__init__(client._options, is_stream=is_stream)
        self.waiter: asyncio.Future[None] | None = None
        self.buffered = 0
        self.is_paused = False
        self._client = client
        self._timer: asyncio.TimerHandle | None = None
        self._until = self._timer_at = 0.0  # in the time of time.monotonic()
        if is_stream:
            receive_head = _receive(self._head, self, float("inf"))
            receive_body = _receive(self._pieces, self, MAX_ERROR_BYTES)
            next(receive_head)
            next(receive_body)
            self.curl.setopt(pycurl.HEADERFUNCTION, receive_head.send)
            self.curl.setopt(pycurl.WRITEFUNCTION, receive_body.send)

    def _has_closed_connection(self) -> bool:
        return False  # the client looks at all connections, of which libcurl chooses one

    @property
    def has_response(self) -> bool:
        """True if the transfer has ended, or if anything has arrived."""
        return self.has_ended or bool(self._head)

    def send_body(self) -> None:
        """Continue a transfer whose body was held back."""
        self.curl.setopt(pycurl.READFUNCTION, self._body.read)
        if not self.has_ended:
            self.curl.pause(pycurl.PAUSE_CONT)

    def end(self, failure: tuple[int, str] | None) -> None:
        self.failure, self.done = failure, failure is None
        self.wake()

    def wake(self) -> None:
        """Continue the task that waits for the transfer."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def interrupt(self, error: BaseException) -> None:
        """Let the transfer fail with the exception of a signal handler."""
        self.interrupts.append(error)
        self.end((pycurl.E_ABORTED_BY_CALLBACK, "interrupted"))

    def take(self) -> list[bytes]:
        pieces = super().take()
        self.buffered = 0
        if self.is_paused:
            self.is_paused = False
            self.curl.pause(pycurl.PAUSE_CONT)
            self._client._act(pycurl.SOCKET_TIMEOUT, 0)
        return pieces

    async def wait(self) -> None:
        """Wait until something arrives or the transfer ends.

        Raises one of the failures of the client, such as DeadlineError.
        """
        self._until = until = self.limit()
        if self._timer is None or self._timer_at > until:
            self._set_timer(until)
        self.waiter = self._client._loop.create_future()
        await self.waiter

    def _set_timer(self, when: float) -> None:
        self.stop_timer()
        self._timer_at = when
        self._timer = self._client._loop.call_later(when - time.monotonic(), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.waiter is None or self.waiter.done():
            return
        if time.monotonic() < self._until:
            self._set_timer(self._until)
            return
        self.failure = pycurl.E_OPERATION_TIMEDOUT, "no data arrived"
        self.wake()

    def stop_timer(self) -> None:
        """Cancel the timer of the waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Sockets(Protocol):
    """The interface of objects that watch the sockets of transfers."""

    def watch(self, descriptor: int, action: int) -> None:
        """Change what a socket is watched for: POLL_IN, POLL_OUT or both; 0 ends it."""

    def close(self) -> None: ...


class _LoopSockets:
    """Sockets that the event loop watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[int, int], None]) -> None:
        self._loop = loop
        self._act = act
        self._actions: dict[int, int] = {}

    def watch(self, descriptor: int, action: int) -> None:
        before = self._actions.pop(descriptor, 0)
        ended, begun = before & ~action, action & ~before
        if ended & pycurl.POLL_IN:
            self._loop.remove_reader(descriptor)
        if ended & pycurl.POLL_OUT:
            self._loop.remove_writer(descriptor)
        try:
            if begun & pycurl.POLL_IN:
                self._loop.add_reader(descriptor, self._act, descriptor, pycurl.CSELECT_IN)
            if begun & pycurl.POLL_OUT:
                self._loop.add_writer(descriptor, self._act, descriptor, pycurl.CSELECT_OUT)
        except OSError:
            return  # libcurl has closed it without a callback
        if action:
            self._actions[descriptor] = action

    def close(self) -> None:
        if not self._loop.is_closed():
            for descriptor in tuple(self._actions):
                self.watch(descriptor, 0)


class _ThreadSockets:
    """Sockets that a thread watches, for event loops that do not watch sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Callable[[int, int], None]) -> None:
        self._loop = loop
        self._act = WeakMethod(act)  # the thread must not keep the transfers of a closed loop
        self._actions: dict[int, int] = {}
        self._wakes, self._wakened = socket.socketpair()
        self._wakes.setblocking(False)
        self._reported = threading.Event()  # the loop has acted on all events
        self._is_closed = False
        threading.Thread(target=self._run, name="aiservices-sockets", daemon=True).start()

    def watch(self, descriptor: int, action: int) -> None:
        if action:
            self._actions[descriptor] = action
        else:
            self._actions.pop(descriptor, None)
        try:
            self._wakes.send(b".")
        except BlockingIOError:
            pass  # the thread has not read the bytes before it

    def close(self) -> None:
        self._is_closed = True
        self._reported.set()
        self._wakes.close()  # the thread closes the other one

    def _run(self) -> None:
        with self._wakened:
            while not self._is_closed:
                actions = tuple(self._actions.items())
                reading = [descriptor for descriptor, action in actions if action & pycurl.POLL_IN]
                writing = [descriptor for descriptor, action in actions if action & pycurl.POLL_OUT]
                reading.append(self._wakened.fileno())
                try:
                    readable, writable, failed = select.select(reading, writing, writing)
                except (OSError, ValueError):  # a socket has been closed
                    time.sleep(0.001)
                    continue
                if readable and readable[-1] == reading[-1]:
                    self._wakened.recv(4096)
                    readable.pop()
                events = [(descriptor, pycurl.CSELECT_IN) for descriptor in readable]
                events += [(descriptor, pycurl.CSELECT_OUT) for descriptor in {*writable, *failed}]
                if events:
                    try:
                        self._loop.call_soon_threadsafe(self._report, events)
                    except RuntimeError:  # the loop is closed
                        return
                    self._reported.wait()
                    self._reported.clear()

    def _report(self, events: list[tuple[int, int]]) -> None:
        act = self._act()
        try:
            for descriptor, event in events:
                if act is not None and self._actions.get(descriptor, 0) & event:
                    act(descriptor, event)
        finally:
            self._reported.set()


def _in_thread(sign: Signer | None) -> AsyncSigner | None:
    """Return an async function that signs a request in a thread, because signing may block."""
    if sign is None:
        return None

    async def async_sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        return await asyncio.to_thread(sign, url, body, headers)

    return async_sign
