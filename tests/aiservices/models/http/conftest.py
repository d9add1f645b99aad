"""Fixtures for tests of HTTP: blocking and asynchronous callers, certificates, and an echo server."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from faulty_server import CONTENT_LENGTH, FaultyServer
from loopback import MAX_WAIT

from aiservices.models.http.base import certificates
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

HELLO = ChatRequest.of("Hello", options=ChatOptions(timeout=5))
KEY = "sk-test-0123456789"


class Caller(Protocol):
    """The interface of objects that send requests to one model by blocking or asynchronous calls."""

    def ask(self, request: ChatRequest = HELLO) -> str: ...

    def stream(self, request: ChatRequest = HELLO, *, until: int | None = None) -> str:
        """Return the text of a stream; with ``until``, the stream is closed after that number of chunks."""

    def close(self) -> None: ...

    def end(self) -> None: ...

    def settled(self, server: FaultyServer) -> bool:
        """Return True if all connections of the server are closed soon, while the event loop runs."""


class BlockingCaller:
    def __init__(self, base_url: str) -> None:
        self.model = OpenAiChatModel("m", base_url=base_url, api_key=KEY)

    def ask(self, request: ChatRequest = HELLO) -> str:
        return self.model.complete(request).text

    def stream(self, request: ChatRequest = HELLO, *, until: int | None = None) -> str:
        pieces = []
        for delta in self.model.stream(request):
            pieces.append(delta.text)
            if len(pieces) == until:
                break
        return "".join(pieces)

    def close(self) -> None:
        self.model.close()

    end = close

    def settled(self, server: FaultyServer) -> bool:
        return server.settled(0)


class AsyncCaller:
    def __init__(self, base_url: str) -> None:
        self.model = OpenAiChatModel("m", base_url=base_url, api_key=KEY)
        self._runner = asyncio.Runner()

    def ask(self, request: ChatRequest = HELLO) -> str:
        return self._runner.run(self.model.acomplete(request)).text

    def stream(self, request: ChatRequest = HELLO, *, until: int | None = None) -> str:
        return self._runner.run(self._stream(request, until))

    async def _stream(self, request: ChatRequest, until: int | None) -> str:
        pieces = []
        async with aclosing(self.model.astream(request)) as deltas:
            async for delta in deltas:
                pieces.append(delta.text)
                if len(pieces) == until:
                    break
        return "".join(pieces)

    def close(self) -> None:
        self._runner.run(self.model.aclose())

    def settled(self, server: FaultyServer) -> bool:
        return self._runner.run(asyncio.to_thread(server.settled, 0))

    def end(self) -> None:
        self.close()
        self._runner.close()


@pytest.fixture(params=[BlockingCaller, AsyncCaller])
def make_caller(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Caller]]:
    """Return a function that creates a caller for a base URL: a blocking one, then an asynchronous one."""
    callers: list[Caller] = []

    def make(base_url: str) -> Caller:
        callers.append(request.param(base_url))
        return callers[-1]

    yield make
    for caller in callers:
        caller.end()


@dataclass(frozen=True)
class Authority:
    """A certificate authority for tests; ``file`` contains its own certificate."""

    file: Path
    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def in_folder(cls, folder: Path) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "An authority for tests")])
        basic = x509.BasicConstraints(ca=True, path_length=0)
        certificate = _certificate(name, name, key).add_extension(basic, critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = certificate.add_extension(usage, critical=True).add_extension(
            identifier, critical=False
        )
        file = folder / "authority.pem"
        file.write_bytes(certificate.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return cls(file, name, key)

    def server(self, host: str = "127.0.0.1", *, days: int = 1, self_signed: bool = False) -> ssl.SSLContext:
        """Return the TLS context of a server for a host, with a certificate that is valid for some days."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        try:
            other: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            other = x509.DNSName(host)
        certificate = _certificate(name, name if self_signed else self.name, key, days)
        certificate = certificate.add_extension(x509.SubjectAlternativeName([other]), critical=False)
        issuer = key if self_signed else self.key
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
        signed = certificate.add_extension(identifier, critical=False).sign(issuer, hashes.SHA256())
        file = self.file.with_name(f"{host}-{days}-{self_signed}.pem")
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + signed.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=10),
        not_valid_after=now + timedelta(days=days),
    )


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.in_folder(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Authority]:
    """Return the authority, which models trust while the test runs."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    certificates.cache_clear()
    yield authority
    certificates.cache_clear()


class EchoServer:
    """A server that replies to each request with its last message, also to many requests at once.

    ``opened`` counts connections, ``request_count`` requests. A reply comes after ``delay`` seconds.
    """

    def __init__(self, context: ssl.SSLContext | None = None, delay: float = 0.0) -> None:
        self.opened = self.request_count = 0
        self._context = context
        self.delay = delay
        self._open: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def base_url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"{'https' if self._context else 'http'}://127.0.0.1:{port}/v1"

    def __enter__(self) -> EchoServer:
        self._thread.start()
        started = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context, backlog=2048)
        self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result(MAX_WAIT)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(MAX_WAIT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(MAX_WAIT)
        self._loop.close()

    def close_a_connection(self) -> None:
        """Close the oldest connection."""
        self._loop.call_soon_threadsafe(self._open.pop(0).close)

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self._open.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = CONTENT_LENGTH.search(head)
                body = json.loads(await reader.readexactly(int(length[1]) if length else 0))
                self.request_count += 1
                await asyncio.sleep(self.delay)
                writer.write(_echo(body["messages"][-1]["content"]))
                await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            writer.transport.abort()


def _echo(text: str) -> bytes:
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        yield server


@pytest.fixture
def secure_echo(trusted: Authority) -> Iterator[EchoServer]:
    with EchoServer(trusted.server()) as server:
        yield server


ProcessRun = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> ProcessRun:
    """Return a function that runs a script in a new process, with warnings as errors, and parses its JSON."""

    def run_script(script: str, *arguments: str, **environment: str) -> Any:
        file = tmp_path / "script.py"
        file.write_text(script)
        root = str(Path(__file__).parents[4])
        done = subprocess.run(
            [sys.executable, "-W", "error", str(file), *arguments],
            env={**os.environ, "PYTHONPATH": root, **environment},
            capture_output=True,
            text=True,
            timeout=MAX_WAIT,
        )
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run_script


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Assert that a test leaves no additional open files and threads."""
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    yield
    deadline = time.monotonic() + MAX_WAIT
    while len(os.listdir("/proc/self/fd")) > files or threading.active_count() > threads:
        assert time.monotonic() < deadline, "a test left files or threads behind"
        gc.collect()
        time.sleep(0.005)
