"""What every test gets: no way out to the network, no settings of the shell, a server on request."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from loopback import Loopback, NetworkBlockedError

try:  # runs of pytest inside of tests forget what they load, and numpy cannot be loaded twice
    import numpy  # noqa: F401
except ImportError:
    pass

_SETTINGS = ("OPENAI_", "AZURE_OPENAI_", "OLLAMA_", "AISERVICES_")


def _refuse_elsewhere(host: object) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        if ipaddress.ip_address(str(name).partition("%")[0]).is_loopback:
            return
    except ValueError:
        pass
    raise NetworkBlockedError(f"a test tried to reach {name}; only the loopback interface is open to tests")


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Sockets connect to this machine and nowhere else; AF_UNIX sockets are left alone."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_elsewhere(address[0])
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_elsewhere(address[0])
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_elsewhere(host)
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


@pytest.fixture(autouse=True)
def no_settings_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the developer's shell says about models is not a test's business."""
    for name in tuple(os.environ):
        if name.startswith(_SETTINGS) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
