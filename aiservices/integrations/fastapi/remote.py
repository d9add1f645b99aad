"""An interface whose methods are called on another machine: the other end of ``router``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import wraps
from inspect import unwrap
from types import new_class
from typing import Any, TypeVar, get_origin, overload

import httpx2
from typing_extensions import TypeForm

from output_parsers.errors import OutputParsingError
from output_parsers.registry import ParserFactory

from ...errors import DefinitionError, Fault
from ...returns import Shape
from ...streams import AsyncStream, Stream
from ...stubs import has_own_init
from .account import read_result
from .contract import Contract, Method, contract_of
from .remote_streams import Decoder, unreadable
from .transport import Transport

__all__ = ["client"]

S = TypeVar("S")
_TIMEOUT = 600.0


@overload
def client(
    interface: type[S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
@overload
def client(
    interface: Callable[..., S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
@overload
def client(
    interface: TypeForm[S],
    base_url: str,
    *,
    paths: Mapping[str, str] | None = ...,
    omit: Collection[str] = ...,
    parsers: Sequence[ParserFactory] = ...,
    headers: Mapping[str, str] | None = ...,
    timeout: float = ...,
    http: httpx2.Client | None = ...,
    async_http: httpx2.AsyncClient | None = ...,
) -> S: ...
def client(
    interface: Any,
    base_url: str,
    *,
    paths: Mapping[str, str] | None = None,
    omit: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    headers: Mapping[str, str] | None = None,
    timeout: float = _TIMEOUT,
    http: httpx2.Client | None = None,
    async_http: httpx2.AsyncClient | None = None,
) -> Any:
    """An object of ``interface`` whose methods are those of a service at ``base_url``, prefix included.

    ``paths`` and ``parsers`` are those of the ``router`` there; ``omit`` names the parameters that it fills
    by itself, which are then not sent. ``headers`` go with each request, ``timeout`` is in seconds for each
    wait. ``http`` and ``async_http`` are clients of one's own; those are closed by whoever made them.

    Blocking methods block, async ones are awaited, and streams are as those of a local service. Arguments
    have to be of the types that are declared: ValueError tells of others, TypeError of those that do not fit
    the signature. Errors are those of a local service as far as they can be told, without any text of a
    model; RemoteServiceError is all else. Raises DefinitionError with all faults at once.
    """
    cls = get_origin(interface) or interface
    contract = contract_of(interface, parsers=parsers)
    half = http is not None and async_http is None
    faults = [Fault(contract.name, said) for said in _wrong(contract, paths or {}, omit, half=half)]
    if faults:
        raise DefinitionError(faults)
    transport = Transport(base_url, headers or {}, timeout, http, async_http)

    def body(namespace: dict[str, Any]) -> None:
        namespace["__module__"], namespace["__doc__"] = cls.__module__, cls.__doc__
        if not has_own_init(cls):
            namespace["__init__"] = _no_arguments
        for name, method in contract.methods.items():
            path = (paths or {}).get(name, method.path)
            namespace[name] = _method(unwrap(getattr(cls, name)), method, path, transport, frozenset(omit))

    return new_class(cls.__name__, (cls,), exec_body=body)()


def _wrong(
    contract: Contract, paths: Mapping[str, str], omit: Collection[str], *, half: bool
) -> Iterator[str]:
    """What was given and cannot be meant."""
    methods = contract.methods.values()
    if half and any(method.returns.asynchronous for method in methods):
        yield "it has async methods, and http is given alone; pass async_http=httpx2.AsyncClient(...) too"
    for name in paths:
        if name not in contract.methods:
            yield f"paths names {name}, which is no method of it"
    parameters = {name for method in methods for name in method.signature.parameters}
    for name in omit:
        if name not in parameters:
            yield f"omit names {name}, which no method has"


def _no_arguments(self: object) -> None:
    """It holds nothing but the way to the service."""


def _method(stub: Any, method: Method, path: str, transport: Transport, omit: Collection[str]) -> Any:
    """The function that stands in for a stub."""
    asynchronous = method.returns.asynchronous
    where, written = method.where, method.written

    def call(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return _answer(method, transport.call(where, path, written(args, kwargs, omit)))

    async def acall(self: object, /, *args: Any, **kwargs: Any) -> Any:
        return _answer(method, await transport.acall(where, path, written(args, kwargs, omit)))

    def stream(self: object, /, *args: Any, **kwargs: Any) -> Any:
        body = written(args, kwargs, omit)
        given = (_apieces if asynchronous else _pieces)(method, path, transport, body)
        if method.returns.shape is not Shape.STREAM:
            return given
        made: Any = AsyncStream if asynchronous else Stream
        return made(given, _itself)

    made: Any = wraps(stub)(stream if method.streams else acall if asynchronous else call)
    made.__isabstractmethod__ = False
    return made


def _itself(result: Any) -> Any:
    return result


def _answer(method: Method, text: str) -> Any:
    try:
        return (
            read_result(text, method.result)
            if method.returns.shape is Shape.RESULT
            else method.value.read(text)
        )
    except OutputParsingError as error:
        raise unreadable(method, error) from error


def _pieces(method: Method, path: str, transport: Transport, body: str) -> Generator[Any, None, None]:
    decoder = Decoder(method)
    growing = method.returns.shape is Shape.STREAM
    with closing(transport.events(method.where, path, body, growing=growing)) as events:
        for event in events:
            yield from decoder.take(event)
    decoder.finish()


async def _apieces(method: Method, path: str, transport: Transport, body: str) -> AsyncGenerator[Any, None]:
    decoder = Decoder(method)
    growing = method.returns.shape is Shape.STREAM
    async with aclosing(transport.aevents(method.where, path, body, growing=growing)) as events:
        async for event in events:
            for piece in decoder.take(event):
                yield piece
    decoder.finish()
