"""Offer the methods of a service as tools of an MCP server: ``mcp_server`` and ``mount_mcp``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.provider import OAuthAuthorizationServerProvider, ProviderTokenVerifier, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
)
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from output_parsers.parser.registry import ParserFactory
from output_parsers.result.errors import OutputParsingError

from ...models.errors import DefinitionError, DefinitionProblem
from ...service.methods import is_service_method
from ...service.preview import preview
from ..fastapi.calls import (
    DEFAULT_MAX_WAITING_CALLS,
    DEFAULT_THREADS,
    ApprovalSettings,
    ApprovalStates,
    ProblemError,
    Threads,
    log_problem,
)
from ..fastapi.contract import Contract, Method, caller_problems, contract_of, server_argument_problems
from ..fastapi.problems import argument_problem, wrong_parts
from ..fastapi.request_check import RequestCheck, host_problems
from .contents import prompt_messages
from .service_tool import LOGGER, McpRequest, ServiceTool, error_text

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # the specification of MCP allows no others


class _Session(NamedTuple):
    """What a server keeps for one connection: over stdio, the client; over HTTP, the whole application."""

    id: str


def session_id(request: McpRequest) -> str:
    """Return the id of the client's session, for a MemoryId in the ``server_arguments`` of an MCP server.

    ``request`` is the ``ServerRequestContext`` of the package ``mcp``. Over stdio, each client has its own
    process, and a random id. Over HTTP it is the id that the server gave the session, which clients know only
    of their own. Since version 2026-07-28 of the protocol, there are no sessions over HTTP: such clients get
    an error, so use the user who is logged in instead.
    """
    connection_id = request.session._connection.session_id  # the header alone could name any session
    if connection_id is not None:
        return connection_id
    if request.request is None:
        session: _Session = request.lifespan_context
        return session.id
    raise MCPError(INVALID_REQUEST, "this server needs a session, which the client did not open")


def mcp_server(
    service: object,
    *,
    interface: object = None,
    server_arguments: Mapping[str, Callable[[McpRequest], object]] | None = None,
    caller_arguments: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    prompts: bool = False,
    approvals: ApprovalSettings | None = None,
    threads: int = DEFAULT_THREADS,
    max_waiting_calls: int = DEFAULT_MAX_WAITING_CALLS,
) -> Server[Any]:
    """Return an MCP server with one tool for each method of a service, as the package ``mcp`` runs it.

    Args:
        service: A service that ``create`` returned.
        interface: The Protocol or ABC, if the service is another kind of object.
        server_arguments: Functions for parameters that callers must not pass, by parameter name. Each gets
            the ``ServerRequestContext`` of the package ``mcp``, and may be async. ``session_id`` is one.
        caller_arguments: The MemoryId and UserName parameters that callers may pass. Each caller can then
            continue every conversation.
        parsers: The parser factories that were passed to ``create``.
        prompts: True to offer the messages of each method as a prompt. Callers then see the system messages.
        approvals: Lets callers approve tool calls. The server asks the user of the client (elicitation). None
            leaves approvals to the program, and a call that needs one fails.
        threads: How many blocking methods run at the same time.
        max_waiting_calls: How many more blocking calls wait for a thread. Further calls fail.

    The result of a tool is a JSON object. Other values are in an envelope: ``{"value": 42}``. The parts of
    streams are reported as progress. Errors contain no prompts, no keys and no texts of models. Raises
    DefinitionError with all problems at once.
    """
    if isinstance(service, type):
        name = service.__name__
        message = f"{name} is an interface; pass the object that create({name}, model) returns"
        raise DefinitionError([DefinitionProblem("mcp", message)])
    functions = dict(server_arguments or {})
    contract = contract_of(interface or type(service), parsers=parsers, server_arguments=tuple(functions))
    _check_settings(contract, service, functions, caller_arguments, approvals, threads, max_waiting_calls)
    limit, states = Threads(threads, max_waiting_calls), None
    if approvals is not None:
        states = ApprovalStates(approvals)
    tools = {
        method.name: ServiceTool(method, getattr(service, method.name), functions, limit, states)
        for method in contract.methods.values()
    }
    handlers = _Handlers(tools)
    with_prompts = prompts and any(is_service_method(tool.function) for tool in tools.values())
    server = Server[Any](
        contract.name,
        instructions=contract.doc or None,
        lifespan=_new_session,
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_prompts=handlers.list_prompts if with_prompts else None,
        on_get_prompt=handlers.get_prompt if with_prompts else None,
    )
    if approvals is not None:
        # Encrypts the state that a client sends back, and binds it to the user, the tool and the arguments.
        server.middleware.append(RequestStateBoundary(_security(approvals), default_audience=contract.name))
    return server


def mount_mcp(
    app: Starlette,
    service: object,
    *,
    path: str = "/mcp",
    allowed_hosts: Collection[str] = (),
    auth: AuthSettings | None = None,
    token_verifier: TokenVerifier | None = None,
    auth_server_provider: OAuthAuthorizationServerProvider[Any, Any, Any] | None = None,
    interface: object = None,
    server_arguments: Mapping[str, Callable[[McpRequest], object]] | None = None,
    caller_arguments: Collection[str] = (),
    parsers: Sequence[ParserFactory] = (),
    prompts: bool = False,
    approvals: ApprovalSettings | None = None,
    threads: int = DEFAULT_THREADS,
    max_waiting_calls: int = DEFAULT_MAX_WAITING_CALLS,
    **settings: Any,
) -> Server[Any]:
    """Add an MCP server (streamable HTTP) for a service to a FastAPI or Starlette application.

    Args:
        app: The application. Its lifespan starts and stops the MCP server.
        service: A service that ``create`` returned.
        path: The URL path of the MCP server.
        allowed_hosts: The host names of the application, such as ``"api.example.com"``. Requests for others
            are refused, except for IP addresses and localhost; ``["*"]`` allows all. Requests that a browser
            sends from pages of other origins are always refused.
        auth: The authorization of the package ``mcp``: the issuer of tokens and the scopes that are required.
        token_verifier: Checks the bearer token of each request. ``mcp.server.auth.middleware.auth_context``
            has ``get_access_token`` for functions in ``server_arguments``.
        auth_server_provider: An authorization server that is part of the application.
        settings: Other arguments of ``Server.streamable_http_app`` in the package ``mcp``.

    The other arguments (``interface``, ``server_arguments``, ``caller_arguments``, ``parsers``, ``prompts``,
    ``approvals``, ``threads`` and ``max_waiting_calls``) are those of ``mcp_server``. Returns the server.
    Raises DefinitionError with all problems at once.
    """
    server = mcp_server(
        service,
        interface=interface,
        server_arguments=server_arguments,
        caller_arguments=caller_arguments,
        parsers=parsers,
        prompts=prompts,
        approvals=approvals,
        threads=threads,
        max_waiting_calls=max_waiting_calls,
    )
    problems = host_problems(server.name, allowed_hosts)
    if auth_server_provider is not None and token_verifier is None:
        token_verifier = ProviderTokenVerifier(auth_server_provider)
    if (auth is None) != (token_verifier is None):
        # The package mcp would check no tokens, or none of the scopes.
        message = "pass auth=AuthSettings(…) together with a token_verifier or an auth_server_provider"
        problems.append(DefinitionProblem(server.name, message))
    if not path.startswith("/") or path.endswith("/"):
        problems.append(
            DefinitionProblem(server.name, f"the path {path!r} must start with '/' and not end with it")
        )
    if problems:
        raise DefinitionError(problems)

    def new_application() -> Starlette:
        return server.streamable_http_app(
            streamable_http_path=path,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            auth=auth,
            token_verifier=token_verifier,
            auth_server_provider=auth_server_provider,
            **settings,
        )

    mounted = _MountedServer(server, new_application)
    endpoint = RequestCheck(mounted, allowed_hosts=allowed_hosts, same_origin=True)
    for route in new_application().routes:
        assert isinstance(route, Route), "streamable_http_app makes no others"
        app.router.routes.append(Route(route.path, endpoint, include_in_schema=False))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(application: Any) -> AsyncIterator[Any]:
        async with mounted.run(), inner(application) as state:
            yield state

    app.router.lifespan_context = lifespan
    return server


class _MountedServer:
    """The ASGI application of an MCP server, which runs as long as the application that contains it."""

    def __init__(self, server: Server[Any], new_application: Callable[[], Starlette]) -> None:
        self._server = server
        self._new_application = new_application
        self._application: ASGIApp | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Serve requests as long as the context is open. It can be opened again."""
        application = self._new_application()  # a session manager runs only once
        async with self._server.session_manager.run():
            self._application = application
            try:
                yield
            finally:
                self._application = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._application is None:
            raise RuntimeError(
                f"the MCP server of {self._server.name} does not run; start the lifespan of the application "
                "to which mount_mcp added it"
            )
        await self._application(scope, receive, send)


@asynccontextmanager
async def _new_session(_: Server[Any]) -> AsyncIterator[_Session]:
    yield _Session(os.urandom(16).hex())


def _security(approvals: ApprovalSettings) -> RequestStateSecurity:
    if approvals.key is None:
        return RequestStateSecurity.ephemeral(ttl=approvals.expires_after)
    key = approvals.key.encode() if isinstance(approvals.key, str) else approvals.key
    # The package mcp demands 32 bytes.
    return RequestStateSecurity(keys=[hashlib.sha256(key).digest()], ttl=approvals.expires_after)


def _check_settings(
    contract: Contract,
    service: object,
    server_arguments: Mapping[str, object],
    caller_arguments: Collection[str],
    approvals: ApprovalSettings | None,
    threads: int,
    max_waiting_calls: int,
) -> None:
    """Raise DefinitionError for wrong settings of the MCP server, and for names that MCP does not allow."""
    problems = server_argument_problems([contract], server_arguments)
    problems += caller_problems([(contract, service)], caller_arguments)
    problems += [
        DefinitionProblem(method.qualname, f"MCP does not allow {method.name} as the name of a tool")
        for method in contract.methods.values()
        if not _TOOL_NAME.fullmatch(method.name)
    ]
    problems += [
        DefinitionProblem(contract.name, f"{name} is {value}; it must be at least {least}")
        for name, value, least in (("threads", threads, 1), ("max_waiting_calls", max_waiting_calls, 0))
        if not value >= least
    ]
    if approvals is not None:
        problems += [DefinitionProblem(contract.name, message) for message in approvals.problems()]
    if problems:
        raise DefinitionError(problems)


class _Handlers:
    """The functions that answer the requests of MCP clients."""

    def __init__(self, tools: Mapping[str, ServiceTool]) -> None:
        self._tools = tools
        self._prompts = {name: tool for name, tool in tools.items() if is_service_method(tool.function)}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the JSON Schema of the arguments of a tool; None for an unknown one."""
        return self._tools[name].specification.input_schema if name in self._tools else None

    async def list_tools(self, request: McpRequest, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return all tools."""
        return ListToolsResult(tools=[tool.specification for tool in self._tools.values()])

    async def call_tool(
        self, request: McpRequest, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool."""
        if params.name not in self._tools:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self._tools[params.name].call(request, params)

    async def list_prompts(
        self, request: McpRequest, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Return a prompt for each method that has one."""
        prompts = [
            Prompt(name=name, description=tool.method.doc or None, arguments=_prompt_arguments(tool.method))
            for name, tool in self._prompts.items()
        ]
        return ListPromptsResult(prompts=prompts)

    async def get_prompt(self, request: McpRequest, params: GetPromptRequestParams) -> GetPromptResult:
        """Return the messages that a method would send to its model."""
        if params.name not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        tool = self._prompts[params.name]
        try:
            values = {**_read_texts(params.arguments or {}, tool.method), **await tool.server_values(request)}
            args, kwargs = tool.method.bind_arguments(values)
            shown = await run_sync(lambda: preview(tool.function, *args, **kwargs))
        except MCPError:
            raise
        except ProblemError as error:
            raise MCPError(INVALID_PARAMS, error_text(error.problem)) from error
        except Exception as error:
            problem = log_problem(error, tool.method.qualname, logger=LOGGER)
            raise MCPError(INTERNAL_ERROR, error_text(problem)) from error
        return GetPromptResult(description=tool.method.doc or None, messages=prompt_messages(shown.messages))


def _prompt_arguments(method: Method) -> list[PromptArgument]:
    properties = method.arguments_codec.schema.get("properties", {})
    return [
        PromptArgument(
            name=argument.name,
            description=properties.get(argument.name, {}).get("description"),
            required=argument.required,
        )
        for argument in method.arguments
    ]


def _read_texts(texts: Mapping[str, str], method: Method) -> dict[str, Any]:
    """Read the arguments of a prompt, which are texts, or raise ProblemError.

    A text is used unchanged if the type accepts it. Otherwise it is read as JSON.
    """
    fields = []
    arguments = {argument.name: argument for argument in method.arguments}
    for name, text in texts.items():
        quoted = json.dumps(text, ensure_ascii=False)
        fields.append(f"{json.dumps(name)}: {quoted}")
        if name in arguments:
            try:
                arguments[name].codec.read(quoted)
            except OutputParsingError:
                if _is_json(text):
                    fields[-1] = f"{json.dumps(name)}: {text}"
    try:
        return method.arguments_codec.read(f"{{{', '.join(fields)}}}")
    except OutputParsingError as error:
        raise ProblemError(argument_problem(wrong_parts(error), method.qualname)) from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
