"""The connections of urllib3, with patience while they send, and none that were idle for long."""

from __future__ import annotations

import socket
import time
from collections import deque
from queue import Empty, Full
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Timeout, make_headers

from .base import CONNECT_SECONDS, IDLE_SECONDS, READ_SECONDS
from .trust import ssl_context

__all__ = ["PATIENCE", "manager_of", "used"]

_KEPT = 100
_PIECE = 65536
_SOCKET: Final = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]


class _Unasked(float):
    """The seconds of connecting where a call has no timeout: one that asks for as many is another call."""


PATIENCE: Final = Timeout(connect=_Unasked(CONNECT_SECONDS), read=READ_SECONDS)


class _Patient(HTTPConnection):
    """Sends in pieces, each of which may take as long as the server may think.

    urllib3 gives a whole body the seconds of connecting, which an image over a slow line exceeds.
    """

    used_at = 0.0

    @property
    def is_connected(self) -> bool:
        return time.monotonic() - self.used_at < IDLE_SECONDS and super().is_connected

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        sock: Any = self.sock
        # the timeout of a call bounds each wait; a call without one has another for connecting
        sock.settimeout(READ_SECONDS if isinstance(self.timeout, _Unasked) else self.timeout)
        for start in range(0, len(data), _PIECE):
            super().send(data[start : start + _PIECE])

    def getresponse(self) -> Any:
        response = super().getresponse()
        self.used_at = time.monotonic()
        return response


class _PatientTls(_Patient, HTTPSConnection):
    pass


class _Free:
    """The connections that are free, the last used first.

    It has no lock: a process that is forked while a thread holds one would wait for it for ever.
    """

    def __init__(self, maxsize: int) -> None:
        self._most = maxsize
        self._free: deque[Any] = deque()

    def put(self, connection: Any, block: bool = False) -> None:
        if len(self._free) >= self._most:
            raise Full
        self._free.append(connection)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            raise Empty from None

    def qsize(self) -> int:
        return len(self._free)


class _Pool(HTTPConnectionPool):
    ConnectionCls: Any = _Patient
    QueueCls: Any = _Free


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls: Any = _PatientTls
    QueueCls: Any = _Free


def manager_of(proxy: str | None) -> PoolManager:
    """A manager of connections, to servers or to a proxy."""
    settings: dict[str, Any] = {"maxsize": _KEPT, "ssl_context": ssl_context(), "socket_options": _SOCKET}
    manager = _proxied(proxy, settings) if proxy else PoolManager(**settings)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager


def used(connection: Any) -> None:
    """Notes that a connection has just been read from."""
    connection.used_at = time.monotonic()


def _proxied(proxy: str, settings: dict[str, Any]) -> PoolManager:
    user = urlsplit(proxy).netloc.rpartition("@")[0]
    headers = make_headers(proxy_basic_auth=unquote(user)) if user else None
    return ProxyManager(proxy, proxy_headers=headers, proxy_ssl_context=ssl_context(), **settings)
