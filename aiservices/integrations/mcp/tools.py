"""The class ``McpTools``, which gives services the tools of an MCP (Model Context Protocol) server."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TypedDict, TypeVar, Unpack

from output_parsers.json_schema.document import InvalidSchemaError
from output_parsers.json_schema.parser import schema_parser

from ...models.base import ChatModel
from ...models.errors import require_extra
from ...models.media import Media
from ...models.messages import Message
from ...tools.tool import Tool, ToolAnswer, ToolException
from .arguments import arguments_schema
from .connection import (
    AskUser,
    Connection,
    LoopThread,
    McpServerError,
    Sampler,
    ServerRequests,
    answer_of_resource,
    answer_of_result,
    await_on_loop,
    message_of,
    part_of,
    resource_part,
    run_on_loop,
    without_control_characters,
)

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Prompt, Resource, Tool as ServerTool

    from ...engine.plan import Invocation

T = TypeVar("T")
_DEFAULT_TIMEOUT = 60.0  # seconds
_MAX_NAME = 64  # characters in the name of a tool
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


class McpTools:
    """The tools of an MCP server, to be passed to ``create(tools=[...])``.

    >>> with McpTools.stdio("uvx", ["mcp-server-time"], prefix="time_") as tools:  # doctest: +SKIP
    ...     clerk = create(Clerk, model, tools=[tools])

    ``with`` opens the server and talks to it in a thread. ``async with`` talks to it on the running event
    loop. Both work for blocking and async methods, with one exception: after ``async with``, a blocking
    method cannot be called on the same event loop, because it would block the loop for which it waits.

    Each call of a method asks the server for its current tools. If the server says that its list may change,
    it is asked again before each further request of the call. A server that has stopped is restarted by the
    next request to it. Error messages of tools are sent to the model. Opening raises McpServerError. The
    constructor raises MissingExtraError without the extra ``mcp``.

    Programs can read resources and prompts, too. Methods whose names begin with ``a`` are for event loops.
    ``problems`` says which of the server's tools no model can call, and why; they are left out.

    Args:
        new_client: Returns a new ``mcp.Client``. ``stdio`` and ``http`` create it for the usual servers.
        name: The name of the server in error messages.
        only: The names of the tools to use, as the server calls them; ``*`` in a name stands for any
            characters. None means all tools.
        exclude: The names of tools that are not used, in the same form.
        prefix: A prefix for the names of all tools, to keep the tools of several servers apart.
        resources: If true, there are also tools ``list_resources`` and ``read_resource``.
        required: True to end a call with McpServerError if the server cannot be used. Otherwise the call goes
            on without its tools, and the log has a warning.
        sampling: The model to which the server may send messages while one of its tools runs. The requests
            count for the budgets of the call, and the tools run one after the other. None refuses them.
        ask: Asks the user a question of the server while one of its tools runs (elicitation): a function of
            a McpQuestion that returns a dict of the answers, True if the user opens the page of the question,
            or None to decline. It may be async. None means that the server cannot ask.
        timeout: The seconds to wait for the server to open, and for each of its responses.

    Attributes:
        problems: One line for each tool that was left out when the server was last asked for its tools.
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
        require_extra("mcp", "mcp", "McpTools")
        self._new_client = new_client
        self._name = name
        self._only = None if only is None else tuple(only)
        self._exclude = tuple(exclude)
        self._prefix = prefix
        self._resources = resources
        self._required = required
        self._requests = ServerRequests(ask, None if sampling is None else Sampler(sampling))
        self._timeout = timeout
        self._connection: Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._tool_cache: dict[str, tuple[ServerTool, Tool | Exception]] = {}
        self.problems: tuple[str, ...] = ()

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
        writes to this process's stderr. The ``settings`` are those of McpTools.
        """

        def new_client() -> Client:
            from .clients import stdio_server_client

            return stdio_server_client(command, args, env, cwd)

        return cls(new_client, f"the MCP server {' '.join([command, *args])!r}", **settings)

    @classmethod
    def http(
        cls, url: str, *, headers: Mapping[str, str] | None = None, **settings: Unpack[McpSettings]
    ) -> McpTools:
        """Create McpTools for a server at a URL (streamable HTTP); a ``with`` block opens the connection.

        ``headers`` are sent with every request, and do not appear in error messages. The ``settings`` are
        those of McpTools.
        """

        def new_client() -> Client:
            from .clients import http_server_client

            return http_server_client(url, headers or {}, settings.get("timeout", _DEFAULT_TIMEOUT))

        # Error messages must not contain a password or a key in the URL.
        name = f"the MCP server {re.sub(r'//[^/@]*@', '//', url).partition('?')[0]}"
        return cls(new_client, name, **settings)

    # --- Opening and closing ---

    def __enter__(self) -> Self:
        self._check_can_open()
        self._thread = LoopThread("aiservices-mcp")
        self._loop = self._thread.loop
        try:
            run_on_loop(self._open(), self._loop)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, loop, thread = self._detach()
        assert thread is not None, "__exit__ follows __enter__, not __aenter__"
        try:
            if connection is not None and loop is not None:
                run_on_loop(connection.close(), loop)
        finally:
            thread.close()

    async def __aenter__(self) -> Self:
        self._check_can_open()
        self._loop = asyncio.get_running_loop()
        try:
            await self._open()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, _, _ = self._detach()
        if connection is not None:
            await connection.close()

    def _check_can_open(self) -> None:
        if self._loop is not None:
            raise RuntimeError(f"{self._name} is already open")

    async def _open(self) -> None:
        connection = Connection(self._new_client, self._name, self._timeout, self._requests)
        await connection.open()
        self._connection = connection
        server_tools = await connection.tools()
        names = [tool.name for tool in server_tools]
        # A misspelt name in exclude would let the model use the tool.
        patterns = (*(self._only or ()), *self._exclude)
        unknown = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
        if unknown:
            raise McpServerError(
                f"{self._name} does not have the tool {', '.join(unknown)}; "
                f"its tools are: {', '.join(names) or 'none'}"
            )
        self._convert(server_tools)

    def _detach(self) -> tuple[Connection | None, asyncio.AbstractEventLoop | None, LoopThread | None]:
        """Remove the connection to the MCP server and its thread from this object, and return both."""
        state = self._connection, self._loop, self._thread
        self._connection = self._loop = self._thread = None
        return state

    # --- Tools for a call ---

    def tools(self, invocation: Invocation | None = None) -> list[Tool] | Awaitable[list[Tool]]:
        """Return the tools that the MCP server has now.

        Returns an awaitable of them for an async service method.
        """
        if invocation is not None and invocation.plan.is_async:
            return self._await(self._tools_for(invocation, is_async=True))
        return self._block_on(self._tools_for(invocation, is_async=False))

    async def _tools_for(self, invocation: Invocation | None, *, is_async: bool) -> list[Tool]:
        connection = self._open_connection()
        is_later_request = invocation is not None and invocation.state.provided_tools is not None
        if is_later_request and not connection.announces_changes:
            return []  # the tools of the first request stay available
        try:
            server_tools = await connection.tools()
        except McpServerError as error:
            if self._required or invocation is None:
                raise
            _LOGGER.warning("the call goes on without tools: %s", error)
            return []
        # The server may add or remove tools at any time, so the list is filtered on each call.
        tools = self._convert(server_tools)
        if self._resources:
            tools += self._resource_tools
        return tools if is_async else [self._blocking(tool) for tool in tools]

    def _convert(self, server_tools: Iterable[ServerTool]) -> list[Tool]:
        """Convert the tools that are used; ``problems`` names those that no model can call."""
        tools: dict[str, Tool] = {tool.name: tool for tool in self._resource_tools if self._resources}
        count, problems, seen = len(tools), list[str](), set[str]()
        for server_tool in server_tools:
            if not self._is_used(server_tool.name):
                continue
            try:
                if server_tool.name in seen:
                    raise ValueError("the server lists several tools of this name")
                seen.add(server_tool.name)
                tool = self._tool(server_tool, self._tool_name(server_tool.name, tools))
                tools[tool.name] = tool
            except _UNUSABLE as error:
                message = f"the tool {server_tool.name} cannot be used: {error}"
                problems.append(without_control_characters(message))
        for problem in problems:
            if problem not in self.problems:
                _LOGGER.warning("%s: %s; leave it out with exclude=[…]", self._name, problem)
        self.problems = tuple(problems)
        return list(tools.values())[count:]

    def _is_used(self, name: str) -> bool:
        is_chosen = self._only is None or any(fnmatchcase(name, pattern) for pattern in self._only)
        return is_chosen and not any(fnmatchcase(name, pattern) for pattern in self._exclude)

    def _tool(self, server_tool: ServerTool, model_name: str) -> Tool:
        """Convert a tool of the MCP server to a Tool; an unchanged tool is converted only once.

        Raises one of _UNUSABLE if no model can call it.
        """
        name = server_tool.name
        known, converted = self._tool_cache.get(name, (None, None))
        # Building a parser from a schema is slow, and most servers never change their tools.
        if known == server_tool:
            if isinstance(converted, Exception):
                raise converted
            if converted is not None and converted.name == model_name:
                return converted
        try:
            arguments = schema_parser(arguments_schema(server_tool), name=f"{name}_arguments")
        except _UNUSABLE as error:
            self._tool_cache[name] = server_tool, error
            raise

        async def call(**arguments: object) -> str | ToolAnswer:
            return await self._await(self._call_tool(name, arguments))

        description = without_control_characters(server_tool.description or server_tool.title or name)
        tool = Tool(model_name, description, call, arguments, asynchronous=True)
        self._tool_cache[name] = server_tool, tool
        return tool

    async def _call_tool(self, name: str, arguments: Mapping[str, object]) -> str | ToolAnswer:
        try:
            return answer_of_result(await self._open_connection().call(name, arguments))
        except ToolException as error:
            raise ToolException(without_control_characters(str(error))) from error

    @cached_property
    def _resource_tools(self) -> list[Tool]:
        async def list_resources() -> str:
            return await self._await(self._resource_lines())

        async def read_resource(uri: str) -> str | ToolAnswer:
            return await self._await(self._resource_answer(uri))

        list_name, read_name = self._tool_name("list_resources"), self._tool_name("read_resource")
        list_description = "Lists the resources that can be read, with their URIs."
        list_arguments, read_arguments = schema_parser(_NO_ARGUMENTS), schema_parser(_URI_ARGUMENT)
        return [
            Tool(list_name, list_description, list_resources, list_arguments, asynchronous=True),
            Tool(read_name, "Reads a resource.", read_resource, read_arguments, asynchronous=True),
        ]

    async def _resource_lines(self) -> str:
        connection = self._open_connection()
        lines = [
            f"- {one.uri}: {one.description or one.title or one.name}" for one in await connection.resources()
        ]
        lines += [
            f"- {one.uri_template}: {one.description or one.title or one.name}"
            for one in await connection.templates()
        ]
        return without_control_characters("\n".join(lines)) or "There are none."

    async def _resource_answer(self, uri: str) -> str | ToolAnswer:
        return answer_of_resource(await self._open_connection().read(uri))

    def _tool_name(self, name: str, taken: Container[str] = ()) -> str:
        """Return a name that all model providers accept, and that is not taken.

        If it must be shortened, or is taken, it ends with a number made of the original name.
        """
        accepted = re.sub(r"[^a-zA-Z0-9_-]", "_", f"{self._prefix}{name}")
        if 0 < len(accepted) <= _MAX_NAME and accepted not in taken:
            return accepted
        return f"{accepted[: _MAX_NAME - 9]}_{sha256(name.encode()).hexdigest()[:8]}"

    def _blocking(self, tool: Tool) -> Tool:
        return replace(
            tool,
            function=lambda **arguments: self._block_on(tool.function(**arguments)),
            asynchronous=False,
        )

    # --- Resources and prompts for programs ---

    def list_resources(self) -> list[Resource]:
        """Return the MCP server's resources, as objects of the package ``mcp``."""
        return self._block_on(self._open_connection().resources())

    async def alist_resources(self) -> list[Resource]:
        """Return the MCP server's resources, as objects of the package ``mcp``; async version."""
        return await self._await(self._open_connection().resources())

    def read_resource(self, uri: str) -> list[str | Media]:
        """Return a resource's contents: a list of strings, images, sounds and files, usually of length 1.

        The contents can be passed to service methods. ``uri`` need not be in the server's list of resources.
        Raises McpServerError.
        """
        return self._block_on(self._read_resource(uri))

    async def aread_resource(self, uri: str) -> list[str | Media]:
        """Return the contents of a resource; async version of ``read_resource``."""
        return await self._await(self._read_resource(uri))

    def list_prompts(self) -> list[Prompt]:
        """Return the MCP server's prompts with their arguments, as objects of the package ``mcp``."""
        return self._block_on(self._open_connection().prompts())

    async def alist_prompts(self) -> list[Prompt]:
        """Return the MCP server's prompts with their arguments; async version of ``list_prompts``."""
        return await self._await(self._open_connection().prompts())

    def get_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Return the messages of an MCP prompt, which can be passed to a parameter with History.

        ``name`` is the prompt's name, and ``arguments`` are its arguments. Raises McpServerError.
        """
        return self._block_on(self._get_prompt(name, arguments))

    async def aget_prompt(self, name: str, /, **arguments: str) -> list[Message]:
        """Return the messages of an MCP prompt; async version of ``get_prompt``."""
        return await self._await(self._get_prompt(name, arguments))

    async def _read_resource(self, uri: str) -> list[str | Media]:
        result = await self._for_program(self._open_connection().read(uri), f"the resource {uri}")
        return [resource_part(contents) for contents in result.contents]

    async def _get_prompt(self, name: str, arguments: Mapping[str, str]) -> list[Message]:
        work = self._open_connection().prompt(name, arguments)
        result = await self._for_program(work, f"the prompt {name}")
        try:
            return [message_of(one.role, [part_of(one.content)]) for one in result.messages]
        except ValueError as error:
            raise McpServerError(f"{self._name}: the prompt {name} cannot be used: {error}") from error

    async def _for_program(self, work: Awaitable[T], what: str) -> T:
        """Await a request that the program makes; errors become McpServerError instead of ToolException."""
        try:
            return await work
        except TimeoutError as error:
            message = f"{self._name} did not send {what} within {self._timeout:g} s"
            raise McpServerError(message) from error
        except ToolException as error:
            raise McpServerError(f"{self._name} did not send {what}: {error}") from error

    # --- Running coroutines on the loop of the connection ---

    async def _await(self, work: Coroutine[object, object, T]) -> T:
        return await await_on_loop(work, self._open_loop(work))

    def _block_on(self, work: Coroutine[object, object, T]) -> T:
        loop = self._open_loop(work)
        if self._thread is None and asyncio._get_running_loop() is loop:
            work.close()  # otherwise Python warns that it was never awaited
            raise McpServerError(
                f"{self._name} was opened on this event loop, which a blocking call would block; "
                "use async methods, or open it with: with McpTools… as tools"
            )
        return run_on_loop(work, loop)

    def _open_loop(self, work: Coroutine[object, object, object]) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            work.close()
            raise self._not_open_error()
        return self._loop

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise self._not_open_error()
        return self._connection

    def _not_open_error(self) -> McpServerError:
        return McpServerError(f"{self._name} is not open; open it first: with McpTools… as tools")
