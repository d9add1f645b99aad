"""The class ``McpTools``, which gives services the tools of an MCP (Model Context Protocol) server."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, TypedDict, Unpack

from output_parsers.json_schema.document import InvalidSchemaError
from output_parsers.json_schema.parser import schema_parser

from ...models.arguments import check_settings, checks_arguments, is_positive
from ...models.base import ChatModel
from ...models.errors import require_extra
from ...models.media import Media
from ...models.messages import Message
from ...tools.tool import Tool, ToolAnswer
from .arguments import arguments_schema
from .connection import (
    AskUser,
    Connection,
    LoopThread,
    McpServer,
    McpServerError,
    OpenServer,
    Sampler,
    ServerRequests,
)
from .contents import without_control_characters

if TYPE_CHECKING:
    from httpx2 import Auth
    from mcp import Client
    from mcp_types import Prompt, Resource, Tool as ServerTool

    from ...engine.plan import Invocation

_DEFAULT_TIMEOUT = 60.0  # seconds
_MAX_NAME = 64  # characters in the name of a tool
_MAX_DESCRIPTION = 20_000  # characters; each request to the model contains all descriptions
_LOGGER = logging.getLogger("aiservices.integrations.mcp")
_UNUSABLE = (ValueError, InvalidSchemaError)  # raised for a tool that no model can call
_NO_ARGUMENTS = {"type": "object", "properties": {}}
_URI_ARGUMENT = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "the URI of the resource"}},
    "required": ["uri"],
}


class McpSettings(TypedDict, total=False):
    """The settings of McpTools that apply to all kinds of servers."""

    only: Iterable[str] | None
    exclude: Iterable[str]
    prefix: str
    resources: bool
    required: bool
    sampling: ChatModel | str | None
    ask: AskUser | None
    timeout: float


# Commands whose first arguments name the program that they start, and the form of such arguments.
_LAUNCHER = re.compile(r"(npx|bunx|uvx|uv|pipx|node|deno|bun|python|py)[\d.]*(\.exe|\.cmd)?", re.IGNORECASE)
_PROGRAM = re.compile(r"([A-Za-z]:)?[\w@./\\ ~-]+")

# Awaits a coroutine of the server on its event loop.
WaitFor: TypeAlias = Callable[
    [Callable[[McpServer], Coroutine[object, object, str | ToolAnswer]]], Awaitable[str | ToolAnswer]
]


@checks_arguments
class McpTools:
    """The tools of an MCP server, to be passed to ``create(tools=[...])``.

    >>> with McpTools.stdio("uvx", ["mcp-server-time"], prefix="time_") as tools:  # doctest: +SKIP
    ...     clerk = create(Clerk, model, tools=[tools])

    ``with`` opens the server and talks to it in a thread. ``async with`` talks to it on the running event
    loop. Both work for blocking and async methods, with one exception: after ``async with``, a blocking
    method cannot be called on the same event loop, because it would block the loop for which it waits.

    Each call of a method asks the server for its current tools. If the server says that its list may change,
    it lists them again before each further request of the call. A server that has stopped is restarted by the
    next request to it. Error messages of tools are sent to the model. Opening raises McpServerError. The
    constructor raises MissingExtraError without the extra ``mcp``.

    Programs can read resources and prompts, too. Methods whose names begin with ``a`` are for event loops.
    ``problems`` says which of the server's tools no model can call, and why; they are left out.

    Args:
        new_client: Returns a new ``mcp.Client``. ``stdio`` and ``http`` create it for the usual servers.
        name: The name of the server in error messages.
        only: The names of the tools to use, as the server calls them; ``*`` in a name matches any characters.
            None means all tools.
        exclude: The names of tools that are not used, in the same form.
        prefix: A prefix for the names of all tools, to keep the tools of several servers apart.
        resources: If true, there are also tools ``list_resources`` and ``read_resource``.
        required: True to end a call with McpServerError if the server cannot be used. Otherwise the call
            continues without its tools, and the log has a warning.
        sampling: The model to which the server may send messages while one of its tools runs. The requests
            count for the budgets of the call, and the tools run one after the other. None refuses them.
        ask: Asks the user a question of the server while one of its tools runs (elicitation): a function of
            a McpQuestion that returns a dict of the answers, True if the user opens the page of the question,
            or None to decline. It may be async. None means that the server cannot ask.
        timeout: The seconds to wait for the server to open, and for each of its responses.

    """

    # The engine asks again before each request of a call.
    dynamic: ClassVar[bool] = True

    def __init__(
        self,
        new_client: Callable[[], Client],
        name: str,
        *,
        only: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        prefix: str = "",
        resources: bool = False,
        required: bool = False,
        sampling: ChatModel | str | None = None,
        ask: AskUser | None = None,
        timeout: float = _DEFAULT_TIMEOUT,
    ) -> None:
        check_settings("McpTools", ("timeout", timeout, is_positive(timeout), "it must be greater than 0"))
        require_extra("mcp", "mcp", "McpTools")
        self._new_client = new_client
        self._name = name
        self._required = required
        self._requests = ServerRequests(ask, None if sampling is None else Sampler(sampling))
        self._timeout = timeout
        self._open_server: OpenServer | None = None
        self._model_tools = _ModelTools(
            lambda work: self._server().wait_for(work),
            name,
            None if only is None else tuple(only),
            tuple(exclude),
            prefix,
            with_resources=resources,
        )

    @classmethod
    def stdio(
        cls,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **settings: Unpack[McpSettings],
    ) -> McpTools:
        """Use the tools of a local MCP server, which a ``with`` statement starts as a process.

        The process gets ``env``, and from this process's environment only variables such as PATH and HOME. It
        writes to this process's stderr. Error messages name the command and the program that it starts, and
        no other arguments, which may contain keys. The ``settings`` are those of McpTools.
        """

        def new_client() -> Client:
            from .clients import stdio_server_client

            return stdio_server_client(command, args, env, cwd)

        return cls(new_client, f"the MCP server {_command_text(command, args)!r}", **settings)

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Auth | None = None,
        **settings: Unpack[McpSettings],
    ) -> McpTools:
        """Create McpTools for a server at a URL (streamable HTTP); a ``with`` block opens the connection.

        ``headers`` are sent with every request, and do not appear in error messages. ``auth`` signs requests
        in, such as an ``OAuthClientProvider`` of the package ``mcp``. The ``settings`` are those of McpTools.
        """

        def new_client() -> Client:
            from .clients import http_server_client

            return http_server_client(url, headers or {}, auth, settings.get("timeout", _DEFAULT_TIMEOUT))

        # Error messages must not contain a password or a key in the URL.
        name = f"the MCP server {re.sub(r'//[^/@]*@', '//', url).partition('?')[0]}"
        return cls(new_client, name, **settings)

    # --- Opening and closing ---

    def __enter__(self) -> Self:
        server, thread = self._new_server(), LoopThread("aiservices-mcp")
        opened = OpenServer(server, thread.loop, thread)
        try:
            opened.block_on(self._model_tools.open)
        except BaseException:
            opened.close()
            raise
        self._open_server = opened
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._open_server = self._server(), None
        opened.close()

    async def __aenter__(self) -> Self:
        opened = OpenServer(self._new_server(), asyncio.get_running_loop())
        try:
            await opened.wait_for(self._model_tools.open)
        except BaseException:
            await opened.aclose()
            raise
        self._open_server = opened
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        opened, self._open_server = self._server(), None
        await opened.aclose()

    def _new_server(self) -> McpServer:
        if self._open_server is not None:
            raise RuntimeError(f"{self._name} is already open")
        return McpServer(Connection(self._new_client, self._name, self._timeout, self._requests))

    def _server(self) -> OpenServer:
        if self._open_server is None:
            raise McpServerError(f"{self._name} is not open; open it first: with McpTools… as tools")
        return self._open_server

    # --- Tools for a call ---

    @property
    def problems(self) -> tuple[str, ...]:
        """One line for each tool that was left out when the server last listed its tools."""
        return self._model_tools.problems

    def tools(self, invocation: Invocation | None = None) -> list[Tool] | Awaitable[list[Tool]]:
        """Return the tools that the MCP server has now.

        Returns an awaitable of them for an async service method.
        """
        work = partial(self._tools_for, invocation=invocation)
        if invocation is not None and invocation.plan.is_async:
            return self._server().wait_for(work)
        return [_blocking(tool, self._server) for tool in self._server().block_on(work)]

    async def _tools_for(self, server: McpServer, invocation: Invocation | None) -> list[Tool]:
        is_later_request = invocation is not None and invocation.state.provided_tools is not None
        if is_later_request and not server.connection.announces_changes:
            return []  # the tools of the first request stay available
        try:
            return self._model_tools.of(await server.tools())
        except McpServerError as error:
            if self._required or invocation is None:
                raise
            _LOGGER.warning("the call continues without tools: %s", error)
            return []

    # --- Resources and prompts for programs ---

    def list_resources(self) -> list[Resource]:
        """Return the MCP server's resources, as objects of the package ``mcp``."""
        return self._server().block_on(lambda server: server.resources())

    async def alist_resources(self) -> list[Resource]:
        """Return the MCP server's resources, as objects of the package ``mcp``; async version."""
        return await self._server().wait_for(lambda server: server.resources())

    def read_resource(self, uri: str) -> list[str | Media]:
        """Return a resource's contents: a list of strings, images, sounds and files, usually of length 1.

        The contents can be passed to service methods. ``uri`` need not be in the server's list of resources.
        Raises McpServerError.
        """
        return self._server().block_on(lambda server: server.contents(uri))

    async def aread_resource(self, uri: str) -> list[str | Media]:
        """Return the contents of a resource; async version of ``read_resource``."""
        return await self._server().wait_for(lambda server: server.contents(uri))

    def list_prompts(self) -> list[Prompt]:
        """Return the MCP server's prompts with their arguments, as objects of the package ``mcp``."""
        return self._server().block_on(lambda server: server.prompts())

    async def alist_prompts(self) -> list[Prompt]:
        """Return the MCP server's prompts with their arguments; async version of ``list_prompts``."""
        return await self._server().wait_for(lambda server: server.prompts())

    def get_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Return the messages of an MCP prompt, which can be passed to a parameter with History.

        ``name`` is the prompt's name, and ``arguments`` are its arguments. Raises McpServerError.
        """
        return self._server().block_on(lambda server: server.messages(name, arguments))

    async def aget_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Return the messages of an MCP prompt; async version of ``get_prompt``."""
        return await self._server().wait_for(lambda server: server.messages(name, arguments))


def _command_text(command: str, args: Sequence[str]) -> str:
    """Return a command with the arguments that name the program: the others may contain a key."""
    words = [command]
    for arg in args if _LAUNCHER.fullmatch(re.split(r"[/\\]", command)[-1]) else ():
        if not _PROGRAM.fullmatch(arg):
            break
        words.append(arg)
        if not arg.startswith("-"):
            break
    return " ".join(words if len(words) > len(args) else [*words, "…"])


def _blocking(tool: Tool, server: Callable[[], OpenServer]) -> Tool:
    def call(**arguments: object) -> object:
        return server().block_on(lambda _: tool.function(**arguments))

    return replace(tool, function=call, asynchronous=False)


class _ModelTools:
    """Converts the tools of an MCP server to tools that models can call.

    Args:
        wait_for: Awaits a coroutine of the server on its event loop.
        server_name: The name of the server in messages.
        only: Patterns of the names of the tools that are used; None for all.
        exclude: Patterns of the names of tools that are not used.
        prefix: Goes before all names.
        with_resources: True for tools that list and read resources.

    Attributes:
        problems: One line for each tool of the last list that no model can call.
    """

    def __init__(
        self,
        wait_for: WaitFor,
        server_name: str,
        only: tuple[str, ...] | None,
        exclude: tuple[str, ...],
        prefix: str,
        *,
        with_resources: bool,
    ) -> None:
        self._wait_for = wait_for
        self._server_name = server_name
        self._only = only
        self._exclude = exclude
        self._prefix = prefix
        self._with_resources = with_resources
        self._cache: dict[str, tuple[ServerTool, Tool | Exception]] = {}
        self.problems: tuple[str, ...] = ()

    async def open(self, server: McpServer) -> None:
        """Connect to the server, and raise McpServerError for a pattern that fits none of its tools."""
        await server.connection.open()
        server_tools = await server.tools()
        names = [tool.name for tool in server_tools]
        # A misspelt name in exclude would let the model use the tool.
        patterns = (*(self._only or ()), *self._exclude)
        unknown = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
        if unknown:
            raise McpServerError(
                f"{self._server_name} does not have the tool {', '.join(unknown)}; "
                f"its tools are: {', '.join(names) or 'none'}"
            )
        self.of(server_tools)

    def of(self, server_tools: Iterable[ServerTool]) -> list[Tool]:
        """Convert the tools that are used; ``problems`` names those that no model can call."""
        resource_tools = self._resource_tools if self._with_resources else []
        tools = {tool.name: tool for tool in resource_tools}
        problems, seen = list[str](), set[str]()
        # The server may add or remove tools at any time, so the list is filtered on each call.
        for server_tool in filter(self._is_used, server_tools):
            try:
                if server_tool.name in seen:
                    raise ValueError("the server lists several tools of this name")
                seen.add(server_tool.name)
                model_name = self._model_name(server_tool.name, tools)
                if model_name in tools:
                    raise ValueError(f"another tool has the name {model_name}")
                tools[model_name] = self._tool(server_tool, model_name)
            except _UNUSABLE as error:
                message = f"the tool {server_tool.name} cannot be used: {error}"
                problems.append(without_control_characters(message))
        for problem in problems:
            if problem not in self.problems:
                _LOGGER.warning("%s: %s; leave it out with exclude=[…]", self._server_name, problem)
        self.problems = tuple(problems)
        return [*list(tools.values())[len(resource_tools) :], *resource_tools]

    def _is_used(self, server_tool: ServerTool) -> bool:
        name = server_tool.name
        is_chosen = self._only is None or any(fnmatchcase(name, pattern) for pattern in self._only)
        return is_chosen and not any(fnmatchcase(name, pattern) for pattern in self._exclude)

    def _tool(self, server_tool: ServerTool, model_name: str) -> Tool:
        """Convert a tool of the MCP server to a Tool; an unchanged tool is converted only once.

        Raises one of _UNUSABLE if no model can call it.
        """
        name = server_tool.name
        cached_tool, converted = self._cache.get(name, (None, None))
        # Building a parser from a schema is slow, and most servers never change their tools.
        if cached_tool == server_tool:
            if isinstance(converted, Exception):
                raise converted
            if converted is not None and converted.name == model_name:
                return converted
        try:
            arguments = schema_parser(arguments_schema(server_tool), name=f"{name}_arguments")
        except _UNUSABLE as error:
            self._cache[name] = server_tool, error
            raise

        async def call(**arguments: object) -> str | ToolAnswer:
            return await self._wait_for(lambda server: server.call(name, arguments))

        description = without_control_characters(server_tool.description or server_tool.title or name)
        if len(description) > _MAX_DESCRIPTION:
            description = f"{description[:_MAX_DESCRIPTION]}…"
        tool = Tool(model_name, description, call, arguments, asynchronous=True)
        self._cache[name] = server_tool, tool
        return tool

    @cached_property
    def _resource_tools(self) -> list[Tool]:
        async def list_resources() -> str | ToolAnswer:
            return await self._wait_for(lambda server: server.resource_lines())

        async def read_resource(uri: str) -> str | ToolAnswer:
            return await self._wait_for(lambda server: server.read(uri))

        list_name, read_name = self._model_name("list_resources"), self._model_name("read_resource")
        list_description = "Lists the resources that can be read, with their URIs."
        list_arguments, read_arguments = schema_parser(_NO_ARGUMENTS), schema_parser(_URI_ARGUMENT)
        return [
            Tool(list_name, list_description, list_resources, list_arguments, asynchronous=True),
            Tool(read_name, "Reads a resource.", read_resource, read_arguments, asynchronous=True),
        ]

    def _model_name(self, name: str, used_names: Container[str] = ()) -> str:
        """Return a name that all model providers accept and that is not among ``used_names``.

        A name that is shortened or already used ends with a number made of the original name.
        """
        accepted = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self._prefix}{name}")
        if 0 < len(accepted) <= _MAX_NAME and accepted not in used_names:
            return accepted
        return f"{accepted[: _MAX_NAME - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
