"""Code shared by the blocking and async HTTP clients: requests, credentials, URLs, proxies and TLS.

Also ``PerLoop``, which keeps one client for each event loop.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
import zlib
from base64 import b64encode
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from threading import Lock
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import finalize, ref

from ..errors import AuthenticationError, DefinitionError, DefinitionProblem

# these limits are those of OpenAI's own SDK
CONNECT_SECONDS = 5.0
READ_SECONDS = 600.0
IDLE_SECONDS = 15  # routers silently drop connections that are idle for minutes
MAX_CONNECTIONS = 1000
MAX_REDIRECTS = 5
MAX_REPLY_BYTES = 64 * 2**20  # unpacked; a server, or a proxy on the way, must not fill the memory
MAX_ERROR_BYTES = 2**20
MAX_CACHED_PATHS = 256  # a path may contain the name of a model or a deployment, which callers choose
INVALID_HEADER = "a header contains a character that HTTP does not allow, such as a line break"
ENDED_EARLY = "ended before it was complete"
DRAIN_SECONDS = 0.02  # the end of a body follows its last event at once, or it does not come at all

_REDIRECTS = (307, 308)  # the other redirects require a GET request, which does not call a model
_PORTS = {"http": 80, "https": 443}
_URL_CHARACTERS = "/%:@!$&'()*+,;=~?"  # "%" is safe because the parts may be percent-encoded already
_DEFLATE, _GZIP = zlib.MAX_WBITS, zlib.MAX_WBITS + 16  # numbers of zlib
# The number of bytes to decompress at a time: zlib copies the rest of them at the end of each gzip member.
_SLICE = 4096
_FORMATS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _DEFLATE}
_UNSUPPORTED_CODINGS = ("br", "zstd", "compress", "x-compress")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110
_FORBIDDEN_IN_HEADERS = re.compile(r"[^\t\x20-\x7e\x80-\xff]")

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class HttpRequest(NamedTuple):
    """One HTTP request to a provider's API.

    Attributes:
        path: The path below the base URL, percent-encoded, with a query if the API needs one.
        body: The bytes to send.
        headers: Headers of this request only. They replace constant headers of the same names.
        method: "POST", "GET" or "DELETE".
    """

    path: str
    body: bytes
    headers: Mapping[str, str] = _NO_HEADERS
    method: str = "POST"


# Returns headers that authorize one request, given its final URL, its body and all of its other headers.
Signer: TypeAlias = Callable[[str, bytes, Mapping[str, str]], Mapping[str, str]]
AsyncSigner: TypeAlias = Callable[[str, bytes, Mapping[str, str]], Awaitable[Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The HTTP headers that authorize requests to one server.

    Attributes:
        headers: Sent with every request, for example an API key.
        secrets: Texts that error messages and logs must not contain, such as API keys.
        sign: Returns further headers for one request (AWS SigV4, short-lived tokens); None if the constant
            headers are enough. It may block, for example to fetch a token: asynchronous calls run it in a
            worker thread. If the server answers with the status 401, it is called once more, and the request
            is sent again if it returns other headers.
        async_sign: The same for asynchronous calls; by default ``sign`` in a worker thread.
    """

    headers: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    sign: Signer | None = None
    async_sign: AsyncSigner | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"  # the headers hold keys


# An API key, or a function that returns one, which may be asynchronous. It is called for every request, so it
# should keep the key.
KeyFunction: TypeAlias = Callable[[], str | Awaitable[str]]
ApiKey: TypeAlias = str | KeyFunction


def key_credentials(
    model_name: str,
    api_key: ApiKey | None,
    variables: Sequence[str],
    *,
    headers: Mapping[str, str],
    header: str,
    prefix: str = "",
    advice: str,
    is_required: bool = True,
) -> Credentials:
    """Return the credentials of an API with a key in a header.

    Args:
        model_name: The name of the model in error messages.
        api_key: The key or a function that returns it; by default the key in the environment.
        variables: The environment variables that may have the key, the first one first.
        headers: The other headers of every request.
        header: The header of the key.
        prefix: The text before the key in this header.
        advice: How to set the key, for error messages.
        is_required: True to raise AuthenticationError if there is no key.
    """
    if callable(api_key):
        return key_function_credentials(api_key, headers, header, prefix, model_name)
    key = api_key
    if key is None:
        key = next((value for variable in variables if (value := os.environ.get(variable))), "")
    if key.strip():
        return Credentials({**headers, header: f"{prefix}{key}"}, (key,))
    if is_required:
        raise AuthenticationError(f"{model_name}: there is no API key; {advice}")
    return Credentials(headers)


def key_function_credentials(
    get_key: KeyFunction,
    headers: Mapping[str, str],
    key_header: str,
    prefix: str,
    model_name: str,
    source: str = "the function for the API key",
) -> Credentials:
    """Return credentials whose API key comes from a function of the user, called for each request.

    Args:
        get_key: Returns the key. It may block, for example to fetch a token, or be asynchronous.
        headers: The other headers of every request.
        key_header: The name of the HTTP header for the key.
        prefix: The text before the key in the header, such as "Bearer ".
        model_name: The name of the model, for error messages.
        source: What returns the key, for error messages.
    """

    def key_headers(key: object) -> Mapping[str, str]:
        if not isinstance(key, str) or not key.strip():
            kind = "an empty text" if isinstance(key, str) else type(key).__name__
            raise AuthenticationError(f"{model_name}: {source} returned {kind}")
        return {key_header: f"{prefix}{key}"}

    def sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        key = get_key()
        if isawaitable(key):
            if iscoroutine(key):
                key.close()  # otherwise Python warns that it was not awaited
            message = f"{source} is asynchronous; pass a blocking function, or call an asynchronous method"
            raise DefinitionError([DefinitionProblem(model_name, message)])
        return key_headers(key)

    async def async_sign(url: str, body: bytes, headers: Mapping[str, str]) -> Mapping[str, str]:
        # a coroutine function returns at once; others may block, so they run in a thread
        key = get_key() if iscoroutinefunction(get_key) else await asyncio.to_thread(get_key)
        return key_headers(await key if isawaitable(key) else key)

    return Credentials(headers, (), sign, async_sign)


_SECRET_HEADERS = ("authorization", "key", "token", "secret", "cookie")  # the ends of their names
_MAX_SECRETS = 32


def is_secret_header(name: str) -> bool:
    """Return True if HTTP headers of this name usually contain a key or a token."""
    return name.lower().endswith(_SECRET_HEADERS)


class Secrets:
    """The strings that error messages and logs of one HTTP client must not contain, such as API keys.

    Args:
        constant: The secrets that are known when the client is created.
    """

    def __init__(self, constant: tuple[str, ...]) -> None:
        self._constant = constant
        # Two dicts instead of one that drops its oldest entries: a token that is still used stays in it.
        self._recent: dict[str, None] = {}
        self._older: dict[str, None] = {}

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add the secrets in a signed request's headers, so that errors and logs can hide them."""
        for name, value in headers.items():
            if value not in self._recent and is_secret_header(name):
                if len(self._recent) >= _MAX_SECRETS:
                    self._older, self._recent = self._recent, {}
                self._recent[value] = self._recent[value.rpartition(" ")[2]] = None  # without "Bearer"

    def texts(self) -> tuple[str, ...]:
        """Return all secrets, the longest first."""
        texts = (*self._constant, *list(self._older), *list(self._recent))
        return tuple(sorted(texts, key=len, reverse=True))


class Headers(Mapping[str, str]):
    """The headers of an HTTP response, as a mapping with case-insensitive names.

    Args:
        lines: The lines of the response. The values of repeated headers are joined by commas.

    Attributes:
        codings: The content codings of the body, such as "gzip"; "" for none.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.decode("latin-1").partition(":")
            name, value = name.strip().lower(), value.strip()
            self._headers[name] = f"{self._headers[name]}, {value}" if name in self._headers else value
        self.codings = self._headers.get("content-encoding", "")

    def __getitem__(self, name: str) -> str:
        return self._headers[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)


class HttpResponse(Protocol):
    """The interface of HTTP responses: status and headers; the body may still be arriving."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class SyncResponse(HttpResponse, Protocol):
    """The interface of HTTP responses whose body is read by blocking calls."""

    @property
    def content(self) -> bytes: ...
    def iter_bytes(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class AsyncResponse(HttpResponse, Protocol):
    """The interface of HTTP responses whose body is read in an event loop."""

    @property
    def content(self) -> bytes: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class TransportError(OSError):
    """Raised when a request cannot be sent because of a header, a proxy or a TLS certificate."""


class CurlError(OSError):
    """Raised when an HTTP request or response fails; the cause may be more specific.

    A class of its own, because the handler of a signal may raise any OSError during a request.
    """

    @property
    def origin(self) -> BaseException:
        """The most specific exception for the failure, such as a ConnectionRefusedError."""
        return self.__cause__ or self


class StatusError(Exception):
    """Raised when the server replied with an error status; ``response`` is the complete HTTP response."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(f"status {response.status_code}")
        self.response = response


class DeadlineError(TimeoutError):
    """Raised when the deadline of a call passed before the HTTP response was complete."""


class ReplyTooLargeError(Exception):
    """Raised when an HTTP response, or one event of a stream, is too large to be a model's reply."""


class ProxyError(OSError):
    """Raised when an HTTP proxy cannot be reached or refuses the connection.

    The message contains no credentials.
    """


class ContentCodingError(OSError):
    """Raised when the compressed body of a response is damaged or incomplete, or cannot be decoded."""


class BodyDecoder:
    """Decodes the body of an HTTP response piece by piece.

    Codings with unknown names are ignored: some servers write names of character sets there.

    Args:
        codings: The content codings, as in the header, in the order in which the server applied them.
    """

    def __init__(self, codings: str) -> None:
        names = [name.strip().lower() for name in codings.split(",")]
        for name in names:
            if name in _UNSUPPORTED_CODINGS:
                raise ContentCodingError(f"the response has the coding {name}, which was not requested")
        self._inflaters = [_Inflater(_FORMATS[name]) for name in reversed(names) if name in _FORMATS]

    def decode(self, piece: bytes) -> bytes:
        """Decode a piece of the body. Raises ContentCodingError, or ReplyTooLargeError."""
        for inflater in self._inflaters:
            piece = inflater.decode(piece)
        return piece

    def end(self) -> None:
        """Raise ContentCodingError if the body has ended too early."""
        if not all(inflater.is_complete for inflater in self._inflaters):
            raise ContentCodingError(f"the compressed response {ENDED_EARLY}")


class _Inflater:
    """Decompresses gzip files, with any number of members, or the two forms of deflate.

    Other bytes after the end are ignored.

    Attributes:
        is_complete: True if the compressed data could end here.
    """

    def __init__(self, window: int) -> None:
        self.is_complete = False
        self._window = window
        self._start = b""  # of deflate, until the form is known
        self._decoder = zlib.decompressobj(window)

    def decode(self, data: bytes) -> bytes:
        if self._window == _DEFLATE and len(self._start) < 2:
            data = self._choose_deflate(data)
        pieces: list[bytes] = []
        left = MAX_REPLY_BYTES
        for start in range(0, len(data), _SLICE):
            rest = data[start : start + _SLICE]
            while rest and not (self._decoder.eof and self._window == _DEFLATE):
                if self._decoder.eof:
                    self._decoder = zlib.decompressobj(self._window)
                try:
                    piece = self._decoder.decompress(rest, left + 1)
                except zlib.error:
                    if self.is_complete:  # what follows is not another member
                        return b"".join(pieces)
                    raise ContentCodingError("the compressed response is damaged") from None
                pieces.append(piece)
                left -= len(piece)
                if left < 0:
                    raise ReplyTooLargeError
                if piece or self._decoder.eof:
                    self.is_complete = self._decoder.eof
                rest = self._decoder.unconsumed_tail or self._decoder.unused_data
        return b"".join(pieces)

    def _choose_deflate(self, data: bytes) -> bytes:
        """Choose the form of deflate by the first two bytes, and return the bytes to decode so far."""
        self._start += data
        start = self._start
        if len(start) < 2:
            return b""
        if start[0] & 15 != 8 or int.from_bytes(start[:2], "big") % 31:  # it has no header of zlib
            self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)
        return start


def decode_body(status: int, codings: str, body: bytes) -> bytes:
    """Decode the body of a complete HTTP response; for an error, what can be decoded.

    Raises ContentCodingError, or ReplyTooLargeError.
    """
    try:
        decoder = BodyDecoder(codings)
        content = decoder.decode(body)
        if status < 300:
            decoder.end()
        return content
    except (ContentCodingError, ReplyTooLargeError):
        if status < 300:
            raise
        return b""


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The base URL of a server, with the HTTP headers that every request to the server has.

    A user name and a password in the URL become basic authorization. A query in the URL is appended
    to the URL of every request.

    Attributes:
        parts: The URL without credentials and fragment.
        headers: The headers of every request, with names in lower case.
    """

    parts: SplitResult
    headers: dict[str, str]

    @classmethod
    def parse(cls, url: str, headers: Mapping[str, str]) -> BaseUrl:
        """Parse a base URL; a user name and password in it become an Authorization header.

        Raises TransportError if HTTP does not allow a header, or if the host is not a valid name.
        """
        try:
            parts = _to_ascii(url)
        except ValueError as error:
            raise TransportError("the host in base_url is not a valid name") from error
        user, at, host = parts.netloc.rpartition("@")
        all_headers = {"accept-encoding": "gzip, deflate", **validate_headers(headers)}
        if at:
            all_headers["authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
        return cls(parts._replace(netloc=host, path=parts.path.strip("/"), fragment=""), all_headers)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values in the URL's query, which may be secrets such as API keys."""
        return tuple(value for _, value in parse_qsl(self.parts.query))

    def url(self, path: str) -> str:
        """Return the full URL of an HTTP request: the base URL joined with a path."""
        path, _, query = path.partition("?")
        path = "/".join(part for part in (self.parts.path, path.strip("/")) if part)
        query = "&".join(part for part in (query, self.parts.query) if part)
        return self.parts._replace(path=f"/{path}", query=query).geturl()


@lru_cache(maxsize=256)  # each request names its server
def display_url(url: str) -> str:
    """Return a URL without its credentials and query, for error messages and logs."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl().rstrip("/")


def validate_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Check HTTP headers and return them with lower-case names; raise TransportError for an invalid one.

    The error does not quote the header, because it may contain a key.
    """
    for name, value in headers.items():
        if _FORBIDDEN_IN_HEADERS.search(value) or not _HEADER_NAME.fullmatch(name):
            raise TransportError(INVALID_HEADER)
    return {name.lower(): value for name, value in headers.items()}


class BaseHttpClient:
    """The parts of an HTTP client that are the same for blocking and asynchronous calls.

    Attributes:
        headers: Sent with every request.
    """

    def __init__(self, base_url: str, credentials: Credentials) -> None:
        self.headers = credentials.headers
        self._base = BaseUrl.parse(base_url, credentials.headers)
        self._secrets = Secrets((*credentials.secrets, *self._base.secrets))

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that error messages and logs must not contain, such as API keys."""
        return self._secrets.texts()

    def _sign_headers(
        self, attempts: Attempts, headers: Mapping[str, str], signature: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Return the headers of a request with its signature; raise StatusError if it was refused before."""
        attempts.check_signature(signature)
        self._secrets.add_headers(signature)
        return {**headers, **validate_headers(signature)}


class Attempts:
    """The reactions to error statuses of one request: redirects, and other credentials after a 401."""

    _redirects = 0
    _signature: Mapping[str, str] = _NO_HEADERS
    _was_refused = False
    _refusal: StatusError | None = None  # of the last signature

    def check_signature(self, signature: Mapping[str, str]) -> None:
        """Raise the error of the last response if the server refused the same signature."""
        if self._refusal is not None and signature == self._signature:
            raise self._refusal
        self._refusal, self._signature = None, signature

    def next_url(self, url: str, response: HttpResponse, *, signs: bool) -> str:
        """Return the URL of the next request after an error status; raise StatusError if there is none.

        ``signs`` means that the client can get other credentials: a token may have expired.
        """
        if response.status_code == 401 and signs and not self._was_refused:
            self._was_refused, self._refusal = True, StatusError(response)
            return url
        if self._redirects == MAX_REDIRECTS:
            raise StatusError(response)
        self._redirects += 1
        return _redirect_url(url, response)


def _redirect_url(url: str, response: HttpResponse) -> str:
    """Return the URL of a redirect on the same server; raise StatusError for other responses.

    A redirect to another server is not followed, because the prompt and the key would be sent there. Raises
    StatusError if the response is not a redirect, has no valid new URL, or requires a GET request.
    """
    try:
        new_url = _to_ascii(urljoin(url, response.headers.get("location", ""))).geturl()
        is_same_server = _origin(new_url) == _origin(url)
    except ValueError:
        raise StatusError(response) from None
    if response.status_code not in _REDIRECTS or new_url == url or not is_same_server:
        raise StatusError(response)
    return new_url


def _to_ascii(url: str) -> SplitResult:
    """Return the parts of a URL with its non-ASCII characters encoded.

    Raises ValueError if the URL is invalid.
    """
    parts = urlsplit(url)
    host, number = parts.netloc, parts.port
    if not host.isascii() and parts.hostname:  # an international name, such as bücher.example
        user, at, _ = host.rpartition("@")
        port = "" if number is None else f":{number}"
        host = f"{user}{at}{parts.hostname.encode('idna').decode()}{port}"
    path, query = quote(parts.path, _URL_CHARACTERS), quote(parts.query, _URL_CHARACTERS)
    return urlsplit(parts._replace(netloc=host, path=path, query=query).geturl())


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def find_proxy(url: str) -> str | None:
    """Return the URL of the HTTP proxy that environment variables set for a URL, or None.

    HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY are read, else the settings of the operating system.
    Raises TransportError if the proxy is not an HTTP proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # NO_PROXY lists hosts with or without their port, and IPv6 addresses without brackets
    hosts = (parts.netloc.rpartition("@")[2], parts.hostname or "")
    if not proxy or any(proxy_bypass(host) for host in hosts):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    scheme = urlsplit(proxy).scheme
    if scheme not in ("http", "https"):
        raise TransportError(
            f"the environment sets a {scheme.upper()} proxy, which is not supported; set an HTTP proxy, "
            "exclude the host with NO_PROXY, or pass a client of the SDK that uses the proxy"
        )
    return proxy


class Certificates(NamedTuple):
    """The TLS certificate authorities that the HTTP clients trust.

    Attributes:
        file: A file of certificates, or None.
        folder: A folder of certificates, or None.
        system: True if the certificate store of macOS or Windows is used.
    """

    file: str | None = None
    folder: str | None = None
    system: bool = False


@cache
def certificates() -> Certificates:
    """Return the TLS certificate authorities that the HTTP clients of this process trust.

    SSL_CERT_FILE and SSL_CERT_DIR are read at the first call. Without them, macOS and Windows use the
    certificate store of the system; other systems use the certificates of OpenSSL, or those of certifi if
    OpenSSL has none. Raises TransportError if the files that these variables name cannot be read.
    """
    file, folder = os.environ.get("SSL_CERT_FILE") or None, os.environ.get("SSL_CERT_DIR") or None
    if file or folder:
        try:
            ssl.create_default_context(cafile=file, capath=folder)
        except OSError as error:
            if error.errno is None and not isinstance(error, ssl.SSLError):
                raise  # of a signal handler, such as a TimeoutError
            raise TransportError(
                f"the certificates that SSL_CERT_FILE and SSL_CERT_DIR name cannot be read: {error}"
            ) from error
        return Certificates(file, folder)
    paths = ssl.get_default_verify_paths()
    if sys.platform not in ("darwin", "win32") and (
        paths.cafile or (paths.capath and os.listdir(paths.capath))
    ):
        return Certificates(paths.cafile, paths.capath)
    import certifi

    # certifi completes the store of the system, which the libraries do not read on all of its versions
    return Certificates(certifi.where(), system=sys.platform in ("darwin", "win32"))


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _LoopEntry(Generic[T]):
    """An object cached for one event loop, and the async generator that will close the object.

    Attributes:
        value: The object.
        closer: A suspended generator that closes the object when it is closed itself.
    """

    value: T
    closer: AsyncGenerator[None]


class PerLoop(Generic[T]):
    """A cache with one object, such as an HTTP client, for each event loop.

    The connections of an asynchronous client belong to one event loop, so a model that several loops use
    needs a client in each. The object of a loop is closed when the loop shuts down its asynchronous
    generators, as asyncio.run does at its end. The object of a loop that was closed without that is abandoned
    when another loop asks for one. When the PerLoop itself is collected, all of its objects are closed or
    abandoned.

    Args:
        make: Makes an object; it is called in the event loop.
        close: Closes an object in its event loop.
        abandon: Releases an object whose loop is closed already, so that nothing can be awaited.
    """

    def __init__(
        self,
        make: Callable[[], T],
        close: Callable[[T], Awaitable[None]],
        abandon: Callable[[T], None],
    ) -> None:
        self._make = make
        self._close = close
        self._abandon = abandon
        self._entries: dict[asyncio.AbstractEventLoop, _LoopEntry[T]] = {}
        self._lock = Lock()
        # not __del__: when all is collected as one cycle, the clients would warn that they were not closed
        finalize(self, _close_all, self._entries, abandon)

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self) -> T:
        """Return the cached object, such as an HTTP client, for the running event loop, or create it."""
        loop = asyncio.get_running_loop()
        entry = self._entries.get(loop)
        if entry is not None:
            return entry.value
        self._abandon_closed_loops()  # here, because a closed loop does not notify its users
        value = self._make()
        entry = _LoopEntry(value, _close_with_loop(value, self._close, ref(self)))
        with self._lock:
            self._entries[loop] = entry
        await anext(entry.closer)  # the loop registers a generator when it first runs
        return value

    async def aclose(self) -> None:
        """Close the object, such as an HTTP client, that was created for the running event loop."""
        entry = self.pop(asyncio.get_running_loop())
        if entry is not None:
            await entry.closer.aclose()

    def _abandon_closed_loops(self) -> None:
        with self._lock:
            entries = [self._entries.pop(loop) for loop in tuple(self._entries) if loop.is_closed()]
        for entry in entries:
            self._abandon(entry.value)

    def pop(self, loop: asyncio.AbstractEventLoop) -> _LoopEntry[T] | None:
        """Remove an event loop's cached object, such as an HTTP client, and return it without closing it."""
        with self._lock:
            return self._entries.pop(loop, None)


def _close_all(entries: dict[asyncio.AbstractEventLoop, _LoopEntry[T]], abandon: Callable[[T], None]) -> None:
    for loop, entry in entries.items():
        if loop.is_closed():
            abandon(entry.value)
        else:
            loop.call_soon_threadsafe(_schedule_close, loop, entry.closer)


def _schedule_close(loop: asyncio.AbstractEventLoop, closer: AsyncGenerator[None]) -> None:
    loop.create_task(closer.aclose())


async def _close_with_loop(
    value: T, close: Callable[[T], Awaitable[None]], owner: ref[PerLoop[T]]
) -> AsyncGenerator[None]:
    """Async generator that closes an object, such as an HTTP client, when the event loop shuts down."""
    try:
        yield
    finally:
        per_loop = owner()  # a weak reference, since the loop holds this generator
        if per_loop is not None:
            per_loop.pop(asyncio.get_running_loop())
        await close(value)
