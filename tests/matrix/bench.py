"""Creates services for any return type, strategy and return mode, and calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any, Protocol, TypeVar

from loopback import Loopback
from matrix.corner_types import CORNERS
from matrix.provider import Provider
from matrix.request_check import Server
from matrix.return_types import CASES, ITEMS, TEXTS, Case
from pydantic import BaseModel

from aiservices import (
    AsyncStream,
    Capabilities,
    ChatOptions,
    OpenAiChatModel,
    Result,
    Strategy,
    Stream,
    create,
    user_message,
)

__all__ = ["SETUPS", "Bench", "Outcome", "ReturnMode", "Setup", "typed"]

T_co = TypeVar("T_co", covariant=True)


class ReturnMode(Enum):
    """How a method returns its value."""

    BLOCKING = "blocking"
    ASYNC = "async"
    STREAM = "stream"
    ASYNC_STREAM = "async stream"
    ITERATOR = "iterator"
    ASYNC_ITERATOR = "async iterator"


@dataclass(frozen=True)
class Setup:
    """A strategy and the kind of server it is used with."""

    name: str
    strategy: Strategy
    server: Server
    capabilities: Capabilities


_LOOSE = Capabilities(json_schema=True, json_mode=True, tools=True)
_STRICT = replace(_LOOSE, strict_schema=True)
_GRAMMAR = Capabilities(json_schema=True, json_mode=True, constrained=True, profile="llama.cpp")

SETUPS = [
    Setup("json_schema, strict", Strategy.JSON_SCHEMA, Server.STRICT, _STRICT),
    Setup("json_schema", Strategy.JSON_SCHEMA, Server.LOOSE, _LOOSE),
    Setup("output_tool, strict", Strategy.OUTPUT_TOOL, Server.STRICT, _STRICT),
    Setup("output_tool", Strategy.OUTPUT_TOOL, Server.LOOSE, _LOOSE),
    Setup("grammar", Strategy.GRAMMAR, Server.GRAMMAR, _GRAMMAR),
    Setup("json_mode", Strategy.JSON_MODE, Server.STRICT, _STRICT),
    Setup("prompt", Strategy.PROMPT, Server.STRICT, _STRICT),
]


@dataclass(frozen=True)
class Outcome:
    """The result of a call and, of a stream, the last snapshot."""

    result: Result[Any]
    last_snapshot: Any = None


class Bench:
    """A provider with a model for each kind of server."""

    def __init__(self, server: Loopback, loop: asyncio.AbstractEventLoop) -> None:
        values = {case.name: case.plain for case in (*CASES, *CORNERS, *ITEMS)}
        self.provider = Provider(values, {case.name: case.plain for case in TEXTS})
        self._loop = loop
        self._services: dict[Any, Any] = {}
        server.reply(self.provider)
        self._models = {
            capabilities: OpenAiChatModel(
                "none", base_url=server.base_url, api_key="none", capabilities=capabilities
            )
            for capabilities in (_LOOSE, _STRICT, _GRAMMAR)
        }

    def close(self) -> None:
        for model in self._models.values():
            model.close()
            self._loop.run_until_complete(model.aclose())

    def call(self, case: Case, setup: Setup, mode: ReturnMode) -> Outcome:
        """Call the method that returns the value of a case in one mode."""
        service = self._service(case, setup, _Whole)
        if mode is ReturnMode.BLOCKING:
            return Outcome(service.blocking("it"))
        if mode is ReturnMode.ASYNC:
            return Outcome(self._wait(service.awaited("it")))
        if mode is ReturnMode.STREAM:
            stream: Stream[Any] = service.streamed("it")
            last = [(snapshot.value, snapshot)[1] for snapshot in stream][-1]
            return Outcome(stream.result(), last)
        watched: Outcome = self._wait(_watched(service.streamed_awaited("it")))
        return watched

    def items(self, case: Case, setup: Setup, mode: ReturnMode) -> list[Any]:
        """Have the items of a case handed over one by one."""
        service = self._service(case, setup, _Items)
        if mode is ReturnMode.ITERATOR:
            return list(service.each("it"))
        given: list[Any] = self._wait(_gathered(service.each_awaited("it")))
        return given

    @property
    def strictness(self) -> bool:
        """Whether the schema of the only request was sent as one that the provider is to enforce."""
        (body,) = self.provider.sent
        if "tools" in body:
            return bool(body["tools"][0]["function"].get("strict"))
        return bool(body["response_format"]["json_schema"].get("strict"))

    def _wait(self, awaited: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(awaited)

    def _service(self, case: Case, setup: Setup, interface: Any) -> Any:
        self.provider.sent.clear()
        self.provider.errors.clear()
        key = (case.name, setup.name, interface)
        if key not in self._services:
            # an answer that does not fit is not asked for again: it is what the test is about
            self._services[key] = create(
                interface[case.form],
                self._models[setup.capabilities],
                strategy=setup.strategy,
                options=ChatOptions(model=f"{setup.server.value}/{case.name}"),
                retry=None,
            )
        return self._services[key]


class _Whole(Protocol[T_co]):
    """A method for each mode that returns a whole value."""

    @user_message("Give {{what}}.")
    def blocking(self, what: str) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    async def awaited(self, what: str) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed(self, what: str) -> Stream[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed_awaited(self, what: str) -> AsyncStream[T_co]: ...


class _Items(Protocol[T_co]):
    """A method for each mode that returns items."""

    @user_message("Give {{what}}.")
    def each(self, what: str) -> Iterator[T_co]: ...

    @user_message("Give {{what}}.")
    def each_awaited(self, what: str) -> AsyncIterator[T_co]: ...


async def _watched(stream: AsyncStream[Any]) -> Outcome:
    last = [(snapshot.value, snapshot)[1] async for snapshot in stream][-1]
    return Outcome(await stream.result(), last)


async def _gathered(given: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in given]


def typed(value: Any) -> Any:
    """A value together with the types of all of its parts, so that True is not 1 and 1 is not 1.0."""
    kind = type(value)
    if isinstance(value, Mapping):
        return kind, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return kind, sorted((typed(item) for item in value), key=repr)
    if isinstance(value, datetime):  # pydantic has time zones of its own
        return kind, value.isoformat()
    names = _fields(value)
    if names:
        return kind, [(name, typed(getattr(value, name))) for name in names]
    if isinstance(value, (list, tuple)):
        return kind, [typed(item) for item in value]
    return kind, repr(value)


def _fields(value: Any) -> list[str]:
    if isinstance(value, BaseModel):
        return [*type(value).model_fields, *(value.model_extra or {})]
    for attribute in ("__dataclass_fields__", "__struct_fields__", "_fields"):
        names = getattr(type(value), attribute, None)
        if names is not None:
            return list(names)
    return [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
