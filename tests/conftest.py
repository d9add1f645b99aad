"""Fixtures of all tests: no network beyond loopback, no model settings from the shell, servers."""

from __future__ import annotations

import gc
import ipaddress
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pycurl
import pytest
from hypothesis import settings
from loopback import Loopback, NetworkBlockedError
from served import serve_applications

try:  # pytest runs inside tests unload their imports, and numpy cannot be imported twice
    import numpy  # noqa: F401
except ImportError:
    pass

# On a loaded machine, any example may take longer than the usual deadline of Hypothesis.
settings.register_profile("any_load", deadline=None)
settings.load_profile("any_load")

_SETTINGS = ("OPENAI_", "AZURE_OPENAI_", "OLLAMA_", "AISERVICES_", "GOOGLE_", "AWS_", "GITHUB_TOKEN")
_ENDINGS = ("_API_KEY", "_BASE_URL")


def _refuse_other_hosts(host: object) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        if ipaddress.ip_address(str(name).partition("%")[0]).is_loopback:
            return
    except ValueError:
        pass
    raise NetworkBlockedError(f"a test tried to reach {name}; tests may only use the loopback interface")


class _CurlSocket(socket.socket):
    """A socket for libcurl, which duplicates it and drops it without closing it."""

    def __del__(self) -> None:
        self.close()


def _open_socket(purpose: int, address: Any) -> Any:
    if address.family in (socket.AF_INET, socket.AF_INET6):
        host = address.addr[0]
        _refuse_other_hosts(host.decode() if isinstance(host, bytes) else host)
    return _CurlSocket(address.family, address.socktype, address.protocol)


@pytest.fixture(scope="session", autouse=True)
def only_loopback() -> Iterator[None]:
    """Restrict internet sockets to this machine. AF_UNIX sockets are not affected."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_other_hosts(address[0])
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_other_hosts(address[0])
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_other_hosts(host)
        return getaddrinfo(host, *args, **kwargs)

    class GuardedCurl(pycurl.Curl):
        def __init__(self) -> None:
            super().__init__()
            self.setopt(pycurl.OPENSOCKETFUNCTION, _open_socket)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pycurl, "Curl", GuardedCurl)
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_model_settings() -> Iterator[None]:
    """Remove the environment variables of models and proxies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in tuple(os.environ):
            if name.startswith(_SETTINGS) or name.endswith(_ENDINGS) or name.lower().endswith("_proxy"):
                patch.delenv(name)
        yield


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    """Return a function that serves an application until the test ends and returns its URL."""
    yield from serve_applications()


class Campaign(Iterable[int]):
    """The numbers of the rounds of a search for rare faults, from 1 on, until its time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __iter__(self) -> Iterator[int]:
        for number in itertools.count(1):
            yield number
            if time.monotonic() >= self._end:
                print(f"{number} rounds")
                break


@pytest.fixture
def campaign(pytestconfig: pytest.Config) -> Campaign:
    return Campaign(pytestconfig.getoption("--campaign-seconds"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign-seconds", type=float, default=45.0, help="the time of each campaign")
    parser.addoption("--exchanges", type=Path, help="recorded exchanges with providers, for campaigns")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of campaigns, and the parts that are not in `make test`, as slow."""
    for item in items:
        if "campaign" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.campaign)
            item.add_marker(pytest.mark.timeout(0))
        if any(item.get_closest_marker(part) for part in ("campaign", "engines", "peers")):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    _exempt_from_collection()


@pytest.fixture(scope="module", autouse=True)
def only_own_garbage() -> Iterator[None]:
    yield
    _exempt_from_collection()


def _exempt_from_collection() -> None:
    """Let later garbage collections, which several tests wait for, skip the objects that are here now."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that extension modules find nothing that was not released


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server
