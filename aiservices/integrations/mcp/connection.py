"""Connect to an MCP server: open it again when it has stopped, send requests, and answer its requests.

The package ``mcp`` is imported only when it is used, so this module can be imported without it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from output_parsers.result.reading import JsonObject

from ...engine.results import Result
from ...engine.tool_execution import FINAL_ERRORS
from ...interface.decorators import History
from ...models.base import ChatModel
from ...models.errors import AiServiceError, BudgetExceededError, TruncatedError
from ...models.media import Media
from ...models.messages import Message, SystemMessage, UserMessage
from ...models.requests import ChatOptions
from ...tools.tool import ToolAnswer, ToolException
from .contents import (
    answer_of_resource,
    answer_of_result,
    message_of,
    part_of,
    resource_part,
    without_control_characters,
)

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        Prompt,
        Resource,
        ResourceTemplate,
        ServerCapabilities,
        Tool as ServerTool,
    )

# --- Questions of a server to the user, and requests to a model ---


class McpQuestion(NamedTuple):
    """A question that an MCP server asks the user while one of its tools runs.

    Attributes:
        server: The name of the server, as in error messages.
        message: The question.
        schema: The answer's JSON Schema, an object of strings, numbers, booleans and choices; None if the
            user should open ``url`` instead.
        url: The address of a page that the user should open; None for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None


# The answer to a question: the fields of the form, True if the user has agreed to open the page, or None or
# False if the user declines.
McpAnswer: TypeAlias = Mapping[str, Any] | bool | None
AskUser: TypeAlias = Callable[[McpQuestion], McpAnswer | Awaitable[McpAnswer]]


class WrongAnswerError(ValueError):
    """Raised if the program's answer to an MCP server's question does not fit the question."""


async def elicit(ask: AskUser, server: str, params: ElicitRequestParams) -> ElicitResult:
    """Ask the user a question from an MCP server, and return the answer in MCP's format.

    A blocking ``ask`` function runs in a thread. Raises WrongAnswerError, and any exception of ``ask``.
    """
    from jsonschema import Draft202012Validator, ValidationError
    from mcp_types import ElicitRequestFormParams, ElicitResult

    if isinstance(params, ElicitRequestFormParams):
        question = McpQuestion(server, params.message, schema=params.requested_schema)
    else:
        question = McpQuestion(server, params.message, url=params.url)
    if inspect.iscoroutinefunction(ask):
        answer = await ask(question)
    else:
        answer = await asyncio.to_thread(ask, question)
        if inspect.isawaitable(answer):
            answer = await answer
    if answer is None or answer is False:
        return ElicitResult(action="decline")
    if question.schema is None:
        if answer is not True:
            raise WrongAnswerError(
                f"the answer is {answer!r}; return True if the user opens the page, else False"
            )
        return ElicitResult(action="accept")
    if not isinstance(answer, Mapping):
        raise WrongAnswerError(f"the answer is {answer!r}; return a dict of the fields, or None to decline")
    properties: JsonObject = question.schema.get("properties", {})
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    content = {**defaults, **answer}
    try:
        Draft202012Validator(question.schema).validate(content)
    except ValidationError as error:
        raise WrongAnswerError(
            f"the answer does not fit the schema: {error.json_path}: {error.message}"
        ) from error
    return ElicitResult(action="accept", content=content)


class McpSampling(Protocol):
    """The interface of the service that sends an MCP server's messages to a model."""

    async def reply(
        self, history: Annotated[Sequence[Message], History], message: UserMessage, options: ChatOptions
    ) -> Result[str]: ...


class Sampler:
    """Answers the requests of an MCP server to a model (sampling) with calls of a service.

    Raises DefinitionError if the model does not exist.
    """

    def __init__(self, model: ChatModel | str) -> None:
        from ...service.create import create  # late: few programs let servers use a model

        self._service = create(McpSampling, model)

    async def reply(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Send an MCP server's messages to the model, and return the reply.

        Raises ValueError for unsupported messages.
        """
        from mcp_types import CreateMessageResult, TextContent

        if params.tools or params.tool_choice:
            raise ValueError("requests with tools are not supported")
        messages: list[Message] = [SystemMessage(params.system_prompt)] if params.system_prompt else []
        messages += [
            message_of(one.role, [part_of(block) for block in one.content_as_list]) for one in params.messages
        ]
        last = messages.pop() if messages else None
        if not isinstance(last, UserMessage):
            raise ValueError("the last message must be one of the user")
        options = ChatOptions(
            temperature=params.temperature,
            max_tokens=params.max_tokens,
            stop=tuple(params.stop_sequences) if params.stop_sequences else None,
        )
        try:
            result = await self._service.reply(messages, last, options)
        except TruncatedError as error:  # the server has set the limit
            model, text, stop_reason = error.attempts[-1].model, error.text, "maxTokens"
        else:
            model, text, stop_reason = result.reply.model, result.value, "endTurn"
        return CreateMessageResult(
            role="assistant", content=TextContent(text=text), model=model, stop_reason=stop_reason
        )


class _Page(Protocol):
    """One page of a list, such as the list of tools, that an MCP server returns."""

    @property
    def next_cursor(self) -> str | None: ...


Page = TypeVar("Page", bound=_Page)
T = TypeVar("T")
# A server that sends a cursor with every page of its list of tools must not block a call forever.
_MAX_PAGES = 100
_MAX_TOOLS = 1_000


class McpServerError(AiServiceError):
    """Raised if an MCP server cannot be reached, has stopped, or offers an unusable tool."""


class _ServerStoppedError(McpServerError):
    """Raised if the MCP server stopped after the connection had been opened."""


class _NotBegunError(_ServerStoppedError):
    """Raised if the MCP server stopped, or lost the session, before it received the request."""


class ServerRequests(NamedTuple):
    """The functions that answer an MCP server's requests to its client.

    Attributes:
        ask: Asks the user a question; None if the server may not ask questions.
        sampler: Sends messages to a model; None if the server may not use a model.
    """

    ask: AskUser | None
    sampler: Sampler | None


class Connection:
    """A connection to one MCP server, whose coroutines must all run on the same event loop.

    Args:
        new_client: Returns a new client for the server.
        name: The name of the server in error messages.
        timeout: The seconds to wait for the server to open, and for each of its responses.
        requests: Answers the server's requests.
    """

    def __init__(
        self,
        new_client: Callable[[], Client],
        name: str,
        timeout: float,
        requests: ServerRequests,
    ) -> None:
        self.name = name
        self._new_client = new_client
        self.timeout = timeout
        self._requests = requests
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._is_closed = False
        self._stop = asyncio.Event()
        self._reopening = asyncio.Lock()
        # A server does not say to which call a request to the model belongs, so there is one call at a time.
        self._sampling_call = nullcontext() if requests.sampler is None else asyncio.Lock()
        self._caller: Context | None = None
        self._final_error: Exception | None = None
        self._deadlines = _Deadlines(timeout)

    # --- Opening and closing ---

    async def open(self) -> None:
        """Connect to an MCP server, starting a local server as a process, or raise McpServerError."""
        # The owner task reports through this future that the client is open, or why it cannot be opened.
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._owner = asyncio.create_task(self._own_client(ready, self._stop))
        try:
            async with asyncio.timeout(self.timeout):
                self._client = await ready
        except TimeoutError as error:
            await self._cancel_owner()
            message = f"{self.name} did not answer within {self.timeout:g} s"
            raise McpServerError(f"{message}; check that it starts, or increase timeout") from error
        except asyncio.CancelledError:
            await self._cancel_owner()
            raise
        except Exception as error:
            await self._cancel_owner()
            raise McpServerError(f"{self.name} cannot be opened: {_error_text(error)}") from error

    async def close(self) -> None:
        """Close the connection to the MCP server permanently, and stop a local server process."""
        self._is_closed = True
        await self._close_client()

    async def _close_client(self) -> None:
        self._client = None
        self._stop.set()
        if self._owner is not None:
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def _own_client(self, ready: asyncio.Future[Client], stop: asyncio.Event) -> None:
        """Open an MCP client's connection, and keep it open until the event ``stop`` is set.

        The client opens anyio task groups, which must be closed by the task that opened them. Therefore one
        task owns the client from beginning to end, even if other tasks call ``open`` and ``close``.
        """
        try:
            from .clients import tolerant_client

            client = tolerant_client(self._new_client(), self.timeout)
            if self._requests.ask is not None:
                client.elicitation_callback = self._answer_question
            if self._requests.sampler is not None:
                client.sampling_callback = self._answer_from_model
            async with client:
                ready.set_result(client)
                await stop.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)

    async def _cancel_owner(self) -> None:
        if self._owner is not None:
            self._owner.cancel()
            await asyncio.gather(self._owner, return_exceptions=True)
            self._owner = None

    async def _open_client(self) -> Client:
        """Return the connected MCP client; reconnect if the server has stopped.

        Raises McpServerError if that fails.
        """
        from .clients import has_ended

        if self._client is not None and has_ended(self._client):
            self._client = None
        if self._client is None:
            async with self._reopening:  # several calls may notice the stop; the first one opens it again
                if self._is_closed:
                    raise _ServerStoppedError(f"{self.name} was closed")
                if self._client is None:
                    await self._close_client()
                    await self.open()
                    if self._is_closed:  # it was closed in the meantime
                        await self._close_client()
                        raise _ServerStoppedError(f"{self.name} was closed")
        assert self._client is not None
        return self._client

    # --- Sending requests ---

    @property
    def announces_changes(self) -> bool:
        """True if the MCP server may announce changes of its tool list."""
        tools = None if self._client is None else self._client.server_capabilities.tools
        return tools is None or bool(tools.list_changed)

    async def capabilities(self) -> ServerCapabilities:
        """Return what the MCP server offers."""
        return (await self._open_client()).server_capabilities

    async def request(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request to the MCP server and return the response; reconnect if the server has stopped.

        Raises _ServerStoppedError, McpServerError, TimeoutError, or the MCPError of the server.
        """
        from anyio import ClosedResourceError
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        from .clients import ENDED, NOT_BEGUN

        client = await self._open_client()
        try:
            with self._deadlines.limit():
                return await request(client)
        except ClosedResourceError as error:
            raise self._stopped(client, _NotBegunError) from error
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise self._stopped(client, _ServerStoppedError) from error
            if error.code in (ENDED, NOT_BEGUN):  # other requests of the client continue
                kind = _NotBegunError if error.code == NOT_BEGUN else _ServerStoppedError
                raise kind(f"{self.name} cannot be reached: {error.message}") from error
            if error.code == REQUEST_TIMEOUT:
                raise TimeoutError(error.message) from error
            raise

    @asynccontextmanager
    async def tool_call(self) -> AsyncIterator[None]:
        """Context manager for a call of a tool; raises an error of its requests to the model at the end."""
        async with self._sampling_call:
            self._caller, self._final_error = copy_context(), None
            try:
                yield
            finally:
                if self._final_error is not None:
                    raise self._final_error

    def _stopped(self, client: Client, kind: type[_ServerStoppedError]) -> _ServerStoppedError:
        if self._client is client:  # the next request opens the server again
            self._client = None
        return kind(f"{self.name} has stopped")

    # --- Answering requests of the server ---

    async def _answer_question(
        self, context: object, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        assert self._requests.ask is not None
        return await self._answer(elicit(self._requests.ask, self.name, params), "question")

    async def _answer_from_model(
        self, context: object, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        assert self._requests.sampler is not None
        # In the context of the call of the tool, so that its budgets count the request.
        reply = asyncio.create_task(self._requests.sampler.reply(params), context=self._caller)
        try:
            return await self._answer(reply, "request to the model")
        finally:
            error = reply.exception() if reply.done() and not reply.cancelled() else None
            if isinstance(error, (*FINAL_ERRORS, BudgetExceededError)):
                self._final_error = error  # it ends the call, like an error of an inner call

    async def _answer(self, work: Awaitable[T], kind: str) -> T | ErrorData:
        """Answer an MCP server's request; if that fails, log the error and reply with a general message."""
        from mcp_types import INTERNAL_ERROR, ErrorData

        try:
            with self._deadlines.pause():
                return await work
        except Exception as error:
            logging.getLogger("aiservices.integrations.mcp").warning(
                "%s: its %s was not answered: %s", self.name, kind, error
            )
            return ErrorData(code=INTERNAL_ERROR, message=f"The {kind} was not answered.")


class McpServer:
    """The tools, resources and prompts of a connected MCP server.

    Lists and contents for programs raise McpServerError. Calls of tools for a model raise TimeoutError, and
    ToolException with a text for the model.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    # --- Lists ---

    async def tools(self) -> list[ServerTool]:
        """Return the MCP server's current tools, restarting the server if it has stopped."""
        tools: list[ServerTool] = []
        async for page in self._pages(lambda client, cursor: client.list_tools(cursor=cursor)):
            tools += page.tools
            if len(tools) > _MAX_TOOLS:
                name = self.connection.name
                raise McpServerError(f"{name} lists more than {_MAX_TOOLS:,} tools, which is the limit")
        return tools

    async def resources(self) -> list[Resource]:
        """Return the MCP server's resources, or an empty list if it has none."""
        if (await self.connection.capabilities()).resources is None:
            return []
        pages = self._pages(lambda client, cursor: client.list_resources(cursor=cursor))
        return [resource async for page in pages for resource in page.resources]

    async def prompts(self) -> list[Prompt]:
        """Return the MCP server's prompts, or an empty list if it has none."""
        if (await self.connection.capabilities()).prompts is None:
            return []
        pages = self._pages(lambda client, cursor: client.list_prompts(cursor=cursor))
        return [prompt async for page in pages for prompt in page.prompts]

    async def resource_lines(self) -> str:
        """Return a text for a model with the URIs of the resources, and the patterns of URIs (templates)."""
        resources: list[Resource | ResourceTemplate] = [*await self.resources()]
        if (await self.connection.capabilities()).resources is not None:
            pages = self._pages(lambda client, cursor: client.list_resource_templates(cursor=cursor))
            resources += [template async for page in pages for template in page.resource_templates]
        lines = [
            f"- {getattr(one, 'uri', None) or getattr(one, 'uri_template', None)}: "
            f"{one.description or one.title or one.name}"
            for one in resources
        ]
        return without_control_characters("\n".join(lines)) or "There are none."

    async def _pages(self, get_page: Callable[[Client, str | None], Awaitable[Page]]) -> AsyncIterator[Page]:
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._list(lambda client: get_page(client, cursor))  # noqa: B023  # it is called at once
            yield page
            cursor = page.next_cursor
            if not cursor:  # some servers send an empty one with the last page
                return
        name = self.connection.name
        raise McpServerError(f"{name} sends a list in more than {_MAX_PAGES} pages, the limit")

    async def _list(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a list request, such as ``tools/list``, and repeat it once if the server has stopped."""
        name, timeout = self.connection.name, self.connection.timeout
        try:
            try:
                return await self.connection.request(request)
            except _ServerStoppedError:
                return await self.connection.request(request)
        except TimeoutError as error:
            message = f"{name} did not list its tools and resources within {timeout:g} s"
            raise McpServerError(message) from error
        except McpServerError:
            raise
        except Exception as error:
            message = f"{name} cannot list its tools and resources: {_error_text(error)}"
            raise McpServerError(message) from error

    # --- For models ---

    async def call(self, tool: str, arguments: Mapping[str, object]) -> str | ToolAnswer:
        """Call a tool of the MCP server."""
        async with self.connection.tool_call():
            result = await self._single(lambda client: client.call_tool(tool, dict(arguments)))
        return answer_of_result(result)

    async def read(self, uri: str) -> str | ToolAnswer:
        """Read a resource of the MCP server."""
        return answer_of_resource(await self._single(lambda client: client.read_resource(uri)))

    async def _single(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request to the MCP server; errors become a ToolException with a text for the model.

        A request that the server has received is not repeated, because it may have been carried out.
        """
        from mcp import MCPError

        try:
            try:
                return await self.connection.request(request)
            except _NotBegunError:
                return await self.connection.request(request)
        except McpServerError as error:
            raise ToolException("The server of this tool has stopped.") from error
        except MCPError as error:
            raise ToolException(without_control_characters(error.message)) from error
        except ValidationError as error:
            raise ToolException("The server sent an invalid result.") from error

    # --- For programs ---

    async def contents(self, uri: str) -> list[str | Media]:
        """Return the contents of a resource."""
        with self._program_errors(f"the resource {uri}"):
            result = await self._single(lambda client: client.read_resource(uri))
            return [resource_part(contents) for contents in result.contents]

    async def messages(self, prompt: str, arguments: Mapping[str, str]) -> list[Message]:
        """Return the messages of a prompt."""
        with self._program_errors(f"the prompt {prompt}"):
            result = await self._single(lambda client: client.get_prompt(prompt, dict(arguments)))
            return [message_of(one.role, [part_of(one.content)]) for one in result.messages]

    @contextmanager
    def _program_errors(self, what: str) -> Iterator[None]:
        """Context manager for a request that the program makes: errors become McpServerError."""
        name = self.connection.name
        try:
            yield
        except TimeoutError as error:
            raise McpServerError(
                f"{name} did not send {what} within {self.connection.timeout:g} s"
            ) from error
        except ToolException as error:
            raise McpServerError(f"{name} did not send {what}: {error}") from error
        except ValueError as error:
            raise McpServerError(f"{name}: {what} cannot be used: {error}") from error


class _Deadlines:
    """The time limits of requests to an MCP server; they pause while the server waits for the program.

    Args:
        timeout: The seconds for each request, and for the rest of the request after the program has answered.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._scopes: set[CancelScope] = set()
        self._pauses = 0

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Context manager that raises TimeoutError if the block takes longer than the timeout."""
        from anyio import fail_after

        with fail_after(None if self._pauses else self._timeout) as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Context manager that suspends the time limits of all running requests."""
        self._set_deadlines(math.inf)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._set_deadlines(asyncio.get_running_loop().time() + self._timeout)

    def _set_deadlines(self, deadline: float) -> None:
        for scope in self._scopes:
            scope.deadline = deadline


def _error_text(error: BaseException) -> str:
    """Return an error's message, or the message of the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"its answer is invalid: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) or type(error).__name__


# --- Event loops ---


class LoopThread:
    """An event loop that runs in its own thread until it is closed."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def close(self) -> None:
        """Stop the event loop and wait for its thread to end."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


class OpenServer:
    """An MCP server to which a connection is open, and the event loop on which all its requests run.

    Args:
        server: The server.
        loop: The event loop.
        thread: The thread of the loop, which ends with the connection; None for a loop of the program.
    """

    def __init__(
        self, server: McpServer, loop: asyncio.AbstractEventLoop, thread: LoopThread | None = None
    ) -> None:
        self._server = server
        self._loop = loop
        self._thread = thread

    async def wait_for(self, work: Callable[[McpServer], Coroutine[object, object, T]]) -> T:
        """Await a coroutine of the server on its event loop, which may be in another thread."""
        if asyncio.get_running_loop() is self._loop:
            return await work(self._server)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(self._server), self._loop))

    def block_on(self, work: Callable[[McpServer], Coroutine[object, object, T]]) -> T:
        """Run a coroutine of the server on its event loop, and block until it returns."""
        if self._thread is None and asyncio._get_running_loop() is self._loop:
            raise McpServerError(
                f"{self._server.connection.name} was opened on this event loop, which a blocking call would "
                "block; use async methods, or open it with: with McpTools… as tools"
            )
        future = asyncio.run_coroutine_threadsafe(work(self._server), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # for example after KeyboardInterrupt; no effect if the coroutine itself failed
            raise

    def close(self) -> None:
        """Close the connection, and end the thread."""
        assert self._thread is not None, "otherwise aclose is called"
        try:
            self.block_on(lambda server: server.connection.close())
        finally:
            self._thread.close()

    async def aclose(self) -> None:
        """Close the connection; async version of ``close``."""
        await self._server.connection.close()
