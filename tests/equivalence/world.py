"""What entry points work with: models that write the reply of a case, services, an event loop, a folder."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Protocol, TypeVar, cast

import httpx2
from equivalence.schema_fit import fit_to_schema
from equivalence.table import Case
from served import Served

from aiservices import (
    AiMessage,
    AsyncStream,
    CallId,
    ChatModel,
    ChatReply,
    ChatRequest,
    JsonSchemaFormat,
    Result,
    ScriptedChatModel,
    Strategy,
    Stream,
    ToolCall,
    ToolMessage,
    Usage,
    create,
    user_message,
)
from aiservices.integrations.fastapi import client
from output_parsers import parser_for

__all__ = [
    "MODEL",
    "PERMITTED",
    "SCRIPT",
    "USAGE",
    "DurableItems",
    "DurableWhole",
    "Items",
    "Mounts",
    "Nothing",
    "Plain",
    "Takes",
    "Whole",
    "World",
    "written",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
USAGE = Usage(7, 5)
PERMITTED = "Permitted."  # after this result of a tool, the model writes the reply


class Whole(Protocol[T_co]):
    """A method for each way to return a whole value."""

    @user_message("Give {{what}}.")
    def blocking(self, what: str) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    async def awaited(self, what: str) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed(self, what: str) -> Stream[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed_awaited(self, what: str) -> AsyncStream[T_co]: ...


class Items(Protocol[T_co]):
    """A method for each way to return items."""

    @user_message("Give {{what}}.")
    def each(self, what: str) -> Iterator[T_co]: ...

    @user_message("Give {{what}}.")
    def each_awaited(self, what: str) -> AsyncIterator[T_co]: ...


class DurableWhole(Protocol[T_co]):
    """A method for each way to return a whole value, and for items, with the id of a durable call."""

    @user_message("Give {{what}}.")
    def blocking(self, what: str, call_id: Annotated[str, CallId]) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    async def awaited(self, what: str, call_id: Annotated[str, CallId]) -> Result[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed(self, what: str, call_id: Annotated[str, CallId]) -> Stream[T_co]: ...

    @user_message("Give {{what}}.")
    def streamed_awaited(self, what: str, call_id: Annotated[str, CallId]) -> AsyncStream[T_co]: ...


class DurableItems(Protocol[T_co]):
    """A method for each way to return items, with the id of a durable call."""

    @user_message("Give {{what}}.")
    def each(self, what: str, call_id: Annotated[str, CallId]) -> Iterator[T_co]: ...

    @user_message("Give {{what}}.")
    def each_awaited(self, what: str, call_id: Annotated[str, CallId]) -> AsyncIterator[T_co]: ...


class Plain(Protocol[T_co]):
    """A method that returns the value itself."""

    @user_message("Give {{what}}.")
    def value(self, what: str) -> T_co: ...


class Takes(Protocol[T_contra]):
    """Methods with a parameter of the type."""

    @user_message("Take {{what}}.")
    def take(self, what: T_contra) -> str: ...

    @user_message("Take {{what}}.")
    async def awaited(self, what: T_contra) -> str: ...

    @user_message("Take {{what}}.")
    def streamed(self, what: T_contra) -> Stream[str]: ...

    @user_message("Take {{what}}.")
    def streamed_awaited(self, what: T_contra) -> AsyncStream[str]: ...


def written(case: Case, tools: Mapping[str, Any], schema: Any) -> tuple[str, str | None]:
    """Return what the model writes, and the tool that it calls.

    An exact reply has the form of the schema, as with constrained decoding. A text is not changed.
    """
    name = next(iter(tools), None)
    schema = schema if name is None else tools[name]
    if schema is None or not case.exact:
        return case.reply, name
    value = case.plain
    if name == "take":
        value = {"what": value}
    elif name == "generate_response":
        fields = schema["properties"]
        value = {"metadata": value} if set(fields) == {"metadata", "response"} else value
        value = {**value, "response": "Here."}
    return json.dumps(fit_to_schema(schema, value), ensure_ascii=False), name


class Script:
    """Replies to the requests of all services, with the reply of the current case. It can be pickled."""

    def __init__(self) -> None:
        self.case = Case("none", str, "")
        self.first: list[ChatReply] = []

    def __call__(self, request: ChatRequest) -> ChatReply:
        if self.first:
            return self.first.pop(0)
        last = request.messages[-1]
        if isinstance(last, ToolMessage) and last.text != PERMITTED:
            return ChatReply(AiMessage("Done."), usage=USAGE, model="scripted")
        case, answer_format = self.case, request.response_format
        offered = () if request.tooling is None else request.tooling.tools
        tools = {one.name: one.parameters for one in offered if one.name != "permit"}
        schema = dict(answer_format.schema) if isinstance(answer_format, JsonSchemaFormat) else None
        text, tool = written(case, tools, schema)
        message = AiMessage(text) if tool is None else AiMessage("", (ToolCall("c1", tool, text),))
        return ChatReply(message, case.finish, USAGE, "scripted", refusal=case.refusal)

    def __reduce__(self) -> str:
        return "SCRIPT"


SCRIPT = Script()
MODEL = ScriptedChatModel(SCRIPT)


class Nothing:
    """Represents an argument that did not arrive."""


class World:
    """Creates services, and keeps those that many cases can use.

    Attributes:
        folder: An empty folder.
        loop: The event loop of all async entry points.
        resources: What is closed after all cases.
        taken: The argument of the last call of a taker.
        stored: What entry points keep for later cases, such as servers, by a key of their own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.resources = ExitStack()
        self.taken: Any = Nothing
        self.stored: dict[Any, Any] = {}
        self._numbers = count()

    def close(self) -> None:
        self.resources.close()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def wait(self, awaitable: Awaitable[T]) -> T:
        return self.loop.run_until_complete(cast("Any", awaitable))

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return what was made for a key, and make it the first time."""
        if key not in self.stored:
            self.stored[key] = make()
        return cast("T", self.stored[key])

    def key(self, case: Case) -> Any:
        """Return what cases have in common that can use the same service."""
        return case.name if case.model or case.settings else id(case.form)

    def service(
        self, case: Case, interface: Any, *, strategy: Strategy | None = Strategy.PROMPT, **settings: Any
    ) -> Any:
        """Return a service of a case, with a model that writes its reply."""
        SCRIPT.case = case
        if parser_for(case.form).plain_text and interface is not Takes:
            strategy = None

        def make() -> Any:
            model = settings.pop("model", None) or (MODEL if case.model is None else case.model())
            asked = {"retry": None, "strategy": strategy, **settings, **case.settings}
            form = case.form.__args__[0] if interface in (Items, DurableItems) else case.form
            return create(interface[form], model, **asked)

        if case.model or case.settings or settings:
            return make()
        return self.once((id(case.form), interface, strategy), make)

    def taker(self, case: Case) -> Any:
        """Return a service with a parameter of the type of a case; ``taken`` has the last argument."""
        SCRIPT.case = case
        self.taken = Nothing

        def note(invocation: Any, proceed: Any) -> Any:
            self.taken = invocation.arguments["what"]
            return (yield from proceed(invocation))

        return self.once(
            ("takes", id(case.form)),
            lambda: create(Takes[case.form], MODEL, interceptors=[note], retry=None),
        )

    def model(self, case: Case) -> ChatModel:
        """Return the model of a case."""
        SCRIPT.case = case
        return MODEL if case.model is None else case.model()

    def new_path(self, suffix: str) -> Path:
        """Return the path of a file that does not exist."""
        return self.folder / f"{next(self._numbers)}{suffix}"

    def module(self, name: str) -> Any:
        """Return a new module that can be imported."""
        module = ModuleType(name)
        sys.modules[name] = module
        self.resources.callback(sys.modules.pop, name)
        return module


class Mounts:
    """A server of this process for many applications, each below a path of its own, and clients of them."""

    def __init__(self, world: World) -> None:
        self._applications: dict[str, Any] = {}
        self._world = world
        served = Served(self)
        served.start()
        world.resources.callback(served.stop)
        self._url = served.url
        self._http = world.resources.enter_context(httpx2.Client())
        self._async_http = httpx2.AsyncClient()
        world.resources.callback(lambda: world.wait(self._async_http.aclose()))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        key, _, path = scope["path"].removeprefix("/").partition("/")
        inner = {**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}
        await self._applications[key](inner, receive, send)

    def add(self, key: str, application: Any) -> str:
        """Serve an application, and return its URL."""
        self._applications[key] = application
        return f"{self._url}/{key}"

    def client(self, interface: Any, url: str) -> Any:
        return client(interface, url, http=self._http, async_http=self._async_http)
