"""The blocking HTTP client, based on libcurl (pycurl), whose connections are shared between threads."""

from __future__ import annotations

import select
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import SupportsIndex, TypeVar, cast

import pycurl

from .base import (
    DRAIN_SECONDS,
    MAX_ERROR_BYTES,
    Attempts,
    BodyDecoder,
    Credentials,
    CurlError,
    Headers,
    HttpRequest,
)
from .curl import FAILURES, ComputedInt, CurlClient, Multi, Transfer, WholeResponse, header_lines

_MAX_IDLE_CONNECTIONS = 100  # more threads may send at once; their connections are closed afterwards


C = TypeVar("C", bound=Transfer)


@dataclass(slots=True, eq=False)
class StreamedResponse:
    """An HTTP response of the blocking client, whose body is read while it arrives.

    Attributes:
        status_code: The HTTP status.
        headers: The headers; their names are case-insensitive.
    """

    status_code: int
    headers: Headers
    _client: SyncHttpClient
    _transfer: _StreamTransfer | None

    @property
    def content(self) -> bytes:
        """The rest of an error's body, as far as a message needs it; access waits until it has arrived."""
        transfer = self._transfer
        if transfer is None:
            return b""
        try:
            while not transfer.done and transfer.arrived() < MAX_ERROR_BYTES:
                transfer.wait()
        except FAILURES:
            pass  # an error has its status, whatever happens to its body
        content = transfer.response().content
        self.close()
        return content

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the HTTP response body as they arrive."""
        transfer, codings = self._transfer, self.headers.codings
        decoder = BodyDecoder(codings) if codings else None
        while transfer is not None:
            pieces = transfer.take()
            yield from pieces if decoder is None else map(decoder.decode, pieces)
            if transfer.done:
                self.close()
                if decoder is not None:
                    decoder.end()
                return
            transfer.wait()

    def close(self) -> None:
        """Release the HTTP connection: keep it for reuse if the response has ended, else close it.

        The end of the response may still arrive within a few milliseconds; this method waits that long.
        """
        transfer = self._transfer
        if transfer is None:
            return
        try:
            # a stream is left at its last event, before the empty chunk that ends the body
            transfer.deadline = time.monotonic() + DRAIN_SECONDS
            while not (transfer.done or transfer.is_closed):
                transfer.wait()
        except FAILURES:
            pass
        finally:
            self._transfer = None
            self._client._release(self._client._idle_streams, transfer)


class SyncHttpClient(CurlClient):
    """A blocking HTTP client for one base URL.

    Threads share its connections; a forked process opens its own. Raises TransportError if the environment
    sets a proxy that cannot be used, or if HTTP does not allow a header.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        super().__init__(base_url, credentials)
        self._sign = credentials.sign
        # the operations of a deque are atomic, so they need no lock
        self._idle: deque[_WholeTransfer] = deque()
        self._idle_streams: deque[_StreamTransfer] = deque()
        self._closed = False

    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> WholeResponse | StreamedResponse:
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
        while True:
            if self._sign is not None:  # last, since a signature may cover the URL and the other headers
                try:
                    signature = self._sign(url, request.body, headers)
                except OSError as failure:  # it may ask another server for a token
                    raise CurlError(str(failure)) from failure
                lines = header_lines(self._sign_headers(attempts, headers, signature))
            response = send(url, lines, request, timeout, deadline)
            if response.status_code < 300:
                return response
            error = WholeResponse(response.status_code, response.headers, response.content)
            url = attempts.next_url(url, error, signs=self._sign is not None)

    def close(self) -> None:
        """Close all idle HTTP connections now, and each busy connection when its request ends."""
        self._closed = True
        for idle in (self._idle, self._idle_streams):
            while idle:
                try:
                    idle.pop().close()
                except IndexError:  # another thread took the connection
                    break

    def _send(
        self,
        url: str,
        lines: list[bytes],
        request: HttpRequest,
        timeout: float | None,
        deadline: float | None,
    ) -> WholeResponse:
        try:
            transfer = self._idle.pop()
        except IndexError:
            transfer = _WholeTransfer(self._options)
        try:
            must_connect = time.monotonic() < self._distrusts_until
            transfer.prepare(url, lines, request, timeout, deadline, must_connect=must_connect)
            transfer.perform()
            response = transfer.response()
        except BaseException:
            self._note_failure(transfer)
            transfer.close()
            raise
        self._release(self._idle, transfer)
        return response

    def _start_stream(
        self,
        url: str,
        lines: list[bytes],
        request: HttpRequest,
        timeout: float | None,
        deadline: float | None,
    ) -> StreamedResponse:
        try:
            transfer = self._idle_streams.pop()
        except IndexError:
            transfer = _StreamTransfer(self._options)
        must_connect = time.monotonic() < self._distrusts_until
        try:
            try:
                transfer.prepare(url, lines, request, timeout, deadline, must_connect=must_connect)
            except pycurl.error:
                # The garbage collector, which ended an abandoned stream, may have closed the handle that the
                # stream gave back.
                transfer = _StreamTransfer(self._options)
                transfer.prepare(url, lines, request, timeout, deadline, must_connect=must_connect)
            return StreamedResponse(*transfer.start(), self, transfer)
        except BaseException:
            self._note_failure(transfer)
            transfer.close()
            raise

    def _release(self, idle: deque[C], transfer: C) -> None:
        if transfer.done and len(idle) < _MAX_IDLE_CONNECTIONS and not self._closed:
            idle.append(transfer)
        else:
            transfer.close()

    def _forget(self) -> list[object]:
        transfers: list[object] = [*self._idle, *self._idle_streams]
        self._idle, self._idle_streams = deque(), deque()
        return transfers


def _progress(interrupts: list[BaseException]) -> Generator[int, None, None]:
    """Yield 0, so that Python handles signals such as Ctrl-C while libcurl waits.

    A generator continues within its ``try`` block, so it can keep the exception of a signal handler.
    """
    try:
        while True:
            yield 0
    except GeneratorExit:
        raise
    except BaseException as error:
        interrupts.append(error)
    raise KeyboardInterrupt  # the only exception that pycurl does not print


class _WholeTransfer(Transfer):
    """A libcurl handle with a connection of its own, which waits for a whole response."""

    def __init__(self, options: Mapping[int, object]) -> None:
        super().__init__(options, is_stream=False)
        progress = _progress(self.interrupts)
        next(progress)
        # it has four arguments, which the least common multiple of 0 ignores
        index = ComputedInt()
        index.__index__ = progress.__next__
        self.curl.setopt(pycurl.XFERINFOFUNCTION, partial(lcm, cast("SupportsIndex", index)))

    def perform(self) -> None:
        """Send the HTTP request, and wait until the response has arrived or the transfer has failed."""
        # Python handles Ctrl-C when its main thread runs Python code, so libcurl must call some there
        is_main = threading.get_ident() == threading.main_thread().ident
        self.curl.setopt(pycurl.NOPROGRESS, not is_main)
        try:
            self.curl.perform()
            self.end(None)
        except KeyboardInterrupt:
            if not self.interrupts:
                raise
        except pycurl.error as error:
            self.end(cast("tuple[int, str]", error.args))


class _StreamTransfer(Transfer):
    """A libcurl handle for streaming with a connection of its own, whose response is read while it arrives.

    libcurl names the socket and this class waits for it, so that a wait can end at a deadline or at Ctrl-C.
    """

    def __init__(self, options: Mapping[int, object]) -> None:
        super().__init__(options, is_stream=True)
        self._timer_at: float | None = None  # when libcurl wants to act, in the time of time.monotonic()
        self._poll = _Poll()
        self._multi: Multi[_StreamTransfer] = Multi(1)

    def start(self) -> tuple[int, Headers]:
        """Send the HTTP request that ``prepare`` set up, and return the response's status and headers."""
        self._multi.add(self)
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        while (head := self.head()) is None:
            if self.done:
                raise self.error()
            self.wait()
        return head

    def wait(self) -> None:
        """Wait until the connection can send or receive data, and let libcurl process the data.

        Raises one of the failures of the client, such as DeadlineError.
        """
        try:
            until = self.limit()
            now = time.monotonic()
            while not self.done and self.failure is None:
                timer = self._timer_at
                events = self._poll.wait((until if timer is None or until < timer else timer) - now)
                if events:
                    for descriptor, mask in events:
                        self._act(descriptor, mask)
                    return
                now = time.monotonic()
                if now >= until:
                    if until != self.deadline:
                        self.failure = pycurl.E_OPERATION_TIMEDOUT, "no data arrived"
                    raise self.error()
                self._act(pycurl.SOCKET_TIMEOUT, 0)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if not self.is_closed:
            self._multi.close()
            super().close()

    def _act(self, descriptor: int, events: int) -> None:
        if self.done or self.failure is not None:
            return
        if descriptor == pycurl.SOCKET_TIMEOUT:
            self._timer_at = None
        self._multi.act(descriptor, events)
        for descriptor, action in self._multi.sockets():
            self._poll.watch(descriptor, action)
        milliseconds = self._multi.timer()
        if milliseconds is not None:
            self._timer_at = None if milliseconds < 0 else time.monotonic() + milliseconds / 1000


class _Poll:
    """The sockets that libcurl wants to read from or write to."""

    def __init__(self) -> None:
        self._actions: dict[int, int] = {}
        self._poll = None if sys.platform == "win32" else select.poll()

    def watch(self, descriptor: int, action: int) -> None:
        """Change what a socket is watched for; 0 ends it."""
        was_watched = self._actions.pop(descriptor, 0)
        if action:
            self._actions[descriptor] = action
        if self._poll is None:
            return
        if action:
            reading = select.POLLIN if action & pycurl.POLL_IN else 0
            writing = select.POLLOUT if action & pycurl.POLL_OUT else 0
            self._poll.register(descriptor, reading | writing)
        elif was_watched:
            self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Wait until sockets are ready, and return a list of sockets with their events as libcurl flags."""
        seconds = max(seconds, 0.0)
        if self._poll is not None:
            sockets = []
            for descriptor, events in self._poll.poll(seconds * 1000):
                mask = pycurl.CSELECT_IN if events & select.POLLIN else 0
                mask |= pycurl.CSELECT_OUT if events & select.POLLOUT else 0
                mask |= pycurl.CSELECT_ERR if events & ~(select.POLLIN | select.POLLOUT) else 0
                sockets.append((descriptor, mask))
            return sockets
        reading = [number for number, action in self._actions.items() if action & pycurl.POLL_IN]
        writing = [number for number, action in self._actions.items() if action & pycurl.POLL_OUT]
        if not (reading or writing):  # select does not wait without sockets on Windows
            time.sleep(min(seconds, 0.01))
            return []
        ready = select.select(reading, writing, writing, seconds)
        flags = (pycurl.CSELECT_IN, pycurl.CSELECT_OUT, pycurl.CSELECT_ERR)
        return [(number, flag) for numbers, flag in zip(ready, flags, strict=True) for number in numbers]
