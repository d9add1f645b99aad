"""Offer a service's methods as tools of an MCP server: ``mcp_server`` and ``mount_mcp``."""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
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
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    TextContent,
    Tool,
)
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from output_parsers.parser.type_parser import ParserFactory
from output_parsers.result.errors import OutputParsingError
from output_parsers.types.node import JsonSchema

from ...engine.approval import ApprovalRequiredError, SuspendedCall
from ...engine.streams import AttemptStarted, Completed, FieldCompleted
from ...models.arguments import is_count
from ...models.errors import DefinitionError, DefinitionProblem, SuspendedCallError
from ...models.media import Media
from ...models.media_policy import MediaPolicy
from ...models.messages import ReplyDelta
from ...remote.calls import (
    DEFAULT_MAX_WAITING_CALLS,
    DEFAULT_THREADS,
    LARGE_ARGUMENTS,
    ApprovalSettings,
    ApprovalStates,
    MethodCall,
    ProblemError,
    ResumedCall,
    Threads,
    iterate,
    log_problem,
    read_arguments,
    run_reader,
)
from ...remote.codec import is_json, write_value
from ...remote.contract import Contract, Method, caller_problems, contract_of, server_argument_problems
from ...remote.problems import Problem, suspended_call_problem
from ...remote.request_check import RequestCheck, host_problems
from ...service.methods import is_service_method, preview
from ...service.signatures import ReturnShape
from ...tools.tool import Denied
from .contents import content_block, prompt_messages

# --- A method as a tool ---

# The argument of the functions in server_arguments: the request of a client.
McpRequest: TypeAlias = ServerRequestContext[Any, Any]

LOGGER = logging.getLogger("aiservices.integrations.mcp")
_VALUE = "value"  # the field of the envelope around values that are not JSON objects
_UNFIT = "unfit"  # the second field, for items that cannot be read
_APPROVAL = "approval"  # the name of the question in the results that ask for an approval
_UNFIT_SCHEMA: JsonSchema = {
    "type": "array",
    "description": "items of the model that cannot be read",
    "items": {
        "type": "object",
        "properties": {
            "index": {"type": "integer"},
            "text": {"type": "string"},
            "problems": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["index", "text", "problems"],
    },
}


class ServiceTool:
    """A tool of an MCP server that calls a service method.

    Args:
        method: The method's description.
        function: The bound method of the service.
        server_arguments: For each parameter that the server sets, a (maybe async) function of the request.
        threads: The threads for blocking methods.
        states: Records which suspended calls were resumed; None if clients cannot approve tool calls.
    """

    def __init__(
        self,
        method: Method,
        function: Callable[..., object],
        server_arguments: Mapping[str, Callable[[McpRequest], object]],
        threads: Threads,
        states: ApprovalStates | None,
    ) -> None:
        self.method = method
        self.function = function
        self._server_arguments = server_arguments
        self._threads = threads
        self._states = states
        self.specification = Tool(
            name=method.name,
            description=method.doc or None,
            input_schema=method.arguments_codec.schema,
            output_schema=output_schema(method),
        )

    async def call(
        self, request: McpRequest, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call the service method for an MCP client, and return its value or a description of the error."""
        try:
            server_values = await self.server_values(request)
            text = json.dumps(params.arguments or {})
            is_large = len(text) > LARGE_ARGUMENTS
            if params.request_state is not None:
                call: MethodCall = self._resumed_call(params, server_values)
            else:
                read = partial(read_arguments, self.method.arguments_codec, text, self.method.qualname)
                values = await run_reader(read, is_large=is_large)
                args, kwargs = self.method.bind_arguments({**values, **server_values})
                call = MethodCall(self.function, args, kwargs)
            while True:
                try:
                    return await self._result(request, call, is_large=is_large)
                except ApprovalRequiredError as error:
                    question = self._approval_question(request, error)
                    ids = [one.id for one in error.calls]
                    if not request.session.can_send_request:
                        # Since version 2026-07-28 of the protocol, the client answers with a new request.
                        return InputRequiredResult(
                            input_requests={_APPROVAL: ElicitRequest(params=question)},
                            request_state=json.dumps([ids, error.state.to_json()]),
                        )
                    decision = await self._ask(request, question)
                    call = self._decided_call(error.state, ids, decision, server_values)
        except MCPError:
            raise
        except ProblemError as error:
            return _failed(error.problem)
        except Exception as error:
            return _failed(log_problem(error, self.method.qualname, LOGGER))

    async def server_values(self, request: McpRequest) -> dict[str, object]:
        """Return a dict from parameter names to the arguments that the server sets, not the client."""
        values: dict[str, object] = {}
        for name in self.method.server_parameters:
            if name in self._server_arguments:
                value = self._server_arguments[name](request)
                values[name] = await value if inspect.isawaitable(value) else value
        return values

    # --- Results ---

    async def _result(self, request: McpRequest, call: MethodCall, *, is_large: bool) -> CallToolResult:
        method = self.method
        if method.streams:
            return await self._streamed_result(request, call, is_large=is_large)
        value = await call.run(method.qualname, self._threads, is_large=is_large)
        if method.returns.shape is ReturnShape.RESULT:
            value = value.value
        return complete_result(method, value, write_value(value, method.value_codec))

    async def _streamed_result(
        self, request: McpRequest, call: MethodCall, *, is_large: bool
    ) -> CallToolResult:
        """Read a streamed answer to its end, report partial results as progress, and return the value."""
        method, shape = self.method, self.method.returns.shape
        is_stream, is_async = shape is ReturnShape.STREAM, method.returns.is_async
        source = await call.open_stream(method.qualname, self._threads, is_async=is_async, is_large=is_large)
        reader = _STREAM_READERS[shape](method)
        items = iterate(source.events() if is_stream else source, source, self._threads.limiter)
        count = 0
        try:
            async for item in items:
                message = reader.add(item)
                if message is not None:
                    count += 1
                    await request.session.report_progress(count, message=message)
        finally:
            await items.aclose()
        return reader.result()

    # --- Approvals ---

    def _approval_question(
        self, request: McpRequest, error: ApprovalRequiredError
    ) -> ElicitRequestFormParams:
        """Return the question by which the MCP client asks a person to approve tool calls.

        Raises ProblemError if the client cannot ask.
        """
        capabilities = request.session.client_capabilities
        elicitation = None if capabilities is None else capabilities.elicitation
        if self._states is None:
            detail = "calls cannot be approved over MCP here"
        elif error.external_calls:
            names = ", ".join(call.name for call in error.external_calls)
            detail = f"the results of external tools cannot be sent over MCP: {names}"
        elif elicitation is None or (elicitation.form is None and elicitation.url is not None):
            detail = "this client cannot ask for the approval, because it does not support elicitation"
        else:
            return _question(error)
        problem = log_problem(error, self.method.qualname, LOGGER)
        raise ProblemError(problem.model_copy(update={"detail": detail}))

    async def _ask(self, request: McpRequest, question: ElicitRequestFormParams) -> ElicitResult:
        schema = question.requested_schema
        try:
            return await request.session.elicit_form(question.message, schema, request.request_id)
        except ValidationError as error:
            detail = "the client sent an invalid answer to the question"
            raise ProblemError(suspended_call_problem(detail, self.method.qualname)) from error

    def _resumed_call(self, params: CallToolRequestParams, server_values: Mapping[str, object]) -> MethodCall:
        """Return the suspended call from an MCP request, to resume it with the approvals in the request."""
        if self._states is None or params.request_state is None:
            raise MCPError(INVALID_PARAMS, "this server did not send a requestState")
        decision = (params.input_responses or {}).get(_APPROVAL)
        if not isinstance(decision, ElicitResult):
            raise MCPError(INVALID_PARAMS, f"inputResponses has no answer to {_APPROVAL!r}")
        ids, text = json.loads(params.request_state)  # this server wrote it, because it was encrypted
        try:
            state = SuspendedCall.from_json(text)
        except SuspendedCallError as error:
            raise ProblemError(suspended_call_problem(str(error), self.method.qualname)) from error
        return self._decided_call(state, ids, decision, server_values)

    def _decided_call(
        self,
        state: SuspendedCall,
        ids: Sequence[str],
        decision: ElicitResult,
        server_values: Mapping[str, object],
    ) -> MethodCall:
        """Return the suspended call that continues with a person's decision about the calls in ``ids``."""
        qualname = self.method.qualname
        if decision.action == "cancel":
            raise ProblemError(suspended_call_problem("the approval was cancelled", qualname))
        approvals: dict[str, bool | Denied] = dict.fromkeys(ids, False)
        if decision.action == "accept":
            for call_id in ids:
                approved = (decision.content or {}).get(call_id)
                if not isinstance(approved, bool):
                    detail = f"the answer has no decision for {call_id}"
                    raise ProblemError(suspended_call_problem(detail, qualname))
                approvals[call_id] = approved
        assert self._states is not None, "the question was asked"
        try:
            return ResumedCall(self.function, state, approvals, self._states, server_values)
        except SuspendedCallError as error:
            raise ProblemError(suspended_call_problem(str(error), qualname)) from error


def _question(error: ApprovalRequiredError) -> ElicitRequestFormParams:
    properties: dict[str, JsonSchema] = {
        call.id: {"type": "boolean", "title": f"Approve {call.name}?", "description": call.arguments}
        for call in error.calls
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    lines = [f"- {call.name}({call.arguments})" for call in error.calls]
    message = "\n".join(["Approval required:", *lines])
    return ElicitRequestFormParams(message=message, requested_schema=schema)


# --- Streams ---


class _TextReader:
    """Joins the chunks of streamed text."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._chunks: list[str] = []

    def add(self, item: object) -> str | None:
        """Add the next chunk, and return it as the text of a progress report."""
        self._chunks.append(str(item))
        return str(item)

    def result(self) -> CallToolResult:
        """Return the complete text as the result for the MCP client."""
        text = "".join(self._chunks)
        return complete_result(self._method, text, json.dumps(text, ensure_ascii=False))


class _ItemReader:
    """Collects a streamed list's items, and separately the items that cannot be read."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._items: list[str] = []
        self._unfit: list[dict[str, object]] = []

    def add(self, item: object) -> str | None:
        """Add the next list item, and return it as JSON for a progress report."""
        from output_parsers.streaming import ItemError  # late: most services do not stream items

        if isinstance(item, ItemError):
            problems = [f"{problem.path}: {problem.message}" for problem in item.problems]
            self._unfit.append({"index": item.index, "text": item.text, "problems": problems})
            return f"item {item.index} cannot be read"
        self._items.append(self._method.value_codec.write(item))
        return self._items[-1]

    def result(self) -> CallToolResult:
        """Return the list of all items as the result for the MCP client."""
        others = {_UNFIT: self._unfit} if self._method.returns.keeps_errors else {}
        return complete_result(self._method, None, f"[{', '.join(self._items)}]", others)


class _StreamReader:
    """Waits for a stream's final value, and reports new text or the names of complete fields."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._is_text = method.returns.output_type is str
        self._value: object = None

    def add(self, item: object) -> str | None:
        """Process an event of the stream, and return the text of a progress report, if any."""
        if isinstance(item, Completed):
            self._value = item.result.value
        elif isinstance(item, AttemptStarted):
            return f"attempt {item.number}" if item.number > 1 else None
        elif isinstance(item, FieldCompleted):
            return item.name if isinstance(item.name, str) else f"item {item.name}"
        elif isinstance(item, ReplyDelta) and self._is_text:
            return item.text or None
        return None

    def result(self) -> CallToolResult:
        """Return the final value as the result for the MCP client."""
        return complete_result(self._method, self._value, write_value(self._value, self._method.value_codec))


_STREAM_READERS: dict[ReturnShape, Callable[[Method], _TextReader | _ItemReader | _StreamReader]] = {
    ReturnShape.TEXT_STREAM: _TextReader,
    ReturnShape.ITEMS: _ItemReader,
    ReturnShape.STREAM: _StreamReader,
}


# --- Results ---


class _ValueSchema(NamedTuple):
    """The JSON Schema of a method's return value, and the schemas of other fields of the result."""

    schema: JsonSchema
    other_fields: Mapping[str, JsonSchema] = {}


def output_schema(method: Method) -> JsonSchema:
    """Return the JSON Schema of a tool's structured result, which is always an object.

    A value that is not an object is wrapped in an envelope, as ``{"value": …}``.
    """
    value_schema, other_fields = _value_schema(method)
    if value_schema.get("type") == "object":
        return value_schema
    # References are relative to the root, so the definitions move there.
    definitions = value_schema.get("$defs")
    properties = {_VALUE: {key: part for key, part in value_schema.items() if key != "$defs"}, **other_fields}
    envelope = {"type": "object", "properties": properties, "required": list(properties)}
    return {**envelope, "$defs": definitions} if definitions else envelope


def _value_schema(method: Method) -> _ValueSchema:
    schema = method.value_codec.schema
    if method.returns.shape is ReturnShape.TEXT_STREAM:
        return _ValueSchema({"type": "string"})
    if method.returns.shape is not ReturnShape.ITEMS:
        return _ValueSchema(schema)
    item_schema = {key: part for key, part in schema.items() if key != "$defs"}
    list_schema = {"type": "array", "items": item_schema}
    if "$defs" in schema:
        list_schema["$defs"] = schema["$defs"]
    return _ValueSchema(list_schema, {_UNFIT: _UNFIT_SCHEMA} if method.returns.keeps_errors else {})


def complete_result(
    method: Method, value: object, json_text: str, other_fields: Mapping[str, object] | None = None
) -> CallToolResult:
    """Return the MCP result of a call, which has the value as structured JSON and as text.

    Images, sounds and files, also in a list with texts, are blocks of their own.
    """
    data = json.loads(json_text)
    is_object = _value_schema(method).schema.get("type") == "object"
    structured = data if is_object else {_VALUE: data, **(other_fields or {})}
    content: list[ContentBlock] = [TextContent(text=value if type(value) is str else json_text)]
    parts: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(part, Media) for part in parts) and all(
        isinstance(part, (str, Media)) for part in parts
    ):
        content = [content_block(part) for part in parts]
    return CallToolResult(content=content, structured_content=structured)


def _failed(problem: Problem) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=error_text(problem))], is_error=True)


def error_text(problem: Problem) -> str:
    """Describe why a call failed, without details that callers must not see."""
    lines = [f"{problem.title}: {problem.detail}" if problem.detail else problem.title]
    lines += [f"- {part}" for part in problem.problems]
    if problem.retry_after is not None:
        lines.append(f"Try again after {problem.retry_after:g} s.")
    elif problem.retryable:
        lines.append("The same call may succeed later.")
    return "\n".join(lines)


_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")  # the specification of MCP allows no others


class _Session(NamedTuple):
    """Identifies an MCP session, for state that is kept for each session.

    One key per client over stdio, a shared key over HTTP.
    """

    id: str


def session_id(request: McpRequest) -> str:
    """Return the id of the client's session, as a MemoryId for the ``server_arguments`` of an MCP server.

    ``request`` is the ``ServerRequestContext`` of the package ``mcp``. Over stdio, each client has its own
    process and a random id. Over HTTP it is the id that the server gave the session; each client knows only
    its own id. Since version 2026-07-28 of the protocol, there are no sessions over HTTP: clients of this
    version get an error, so use the logged-in user instead.
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
    media: MediaPolicy | None = None,
) -> Server[Any]:
    """Return an MCP server (of the package ``mcp``) with one tool for each method of a service.

    Args:
        service: A service that ``create`` returned.
        interface: The Protocol or ABC, if the service is another kind of object.
        server_arguments: Functions for parameters that callers must not pass, by parameter name. Each gets
            the ``ServerRequestContext`` of the package ``mcp``, and may be async. ``session_id`` is one.
        caller_arguments: The MemoryId, UserName and CallId parameters that callers may pass. Each can then
            continue every conversation.
        parsers: The parser factories that were passed to ``create``.
        prompts: True to offer the messages of each method as a prompt. Callers then see the system messages.
        approvals: Lets callers approve tool calls. The server asks the user of the client (elicitation). None
            leaves approvals to the program, and a call that needs one fails.
        threads: The maximum number of blocking methods at the same time.
        max_waiting_calls: The maximum number of further blocking calls that wait for a thread. Further calls
            fail.
        media: Which images, sounds and files callers may pass; None for all.

    The result of a tool is a JSON object. Other values are in an envelope: ``{"value": 42}``. The parts of
    streams are reported as progress. Errors contain no prompts, no keys and no texts of models. Raises
    DefinitionError with all problems at once.
    """
    if isinstance(service, type):
        name = service.__name__
        message = f"{name} is an interface; pass the object that create({name}, model) returns"
        raise DefinitionError([DefinitionProblem("mcp", message)])
    functions = dict(server_arguments or {})
    contract = contract_of(
        interface or type(service), parsers=parsers, server_arguments=tuple(functions), media=media
    )
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
    media: MediaPolicy | None = None,
    **settings: Any,
) -> Server[Any]:
    """Add an MCP server (streamable HTTP) for a service to a FastAPI or Starlette application.

    Args:
        app: The application. Its lifespan starts and stops the MCP server.
        service: A service that ``create`` returned.
        path: The URL path of the MCP server.
        allowed_hosts: The application's host names, such as ``"api.example.com"``. Requests for other hosts
            are refused, except for IP addresses and localhost; ``["*"]`` allows all. Requests that a browser
            sends from pages of other origins are always refused.
        auth: The authorization of the package ``mcp``: the issuer of tokens and the scopes that are required.
        token_verifier: Checks the bearer token of each request. ``mcp.server.auth.middleware.auth_context``
            has ``get_access_token`` for functions in ``server_arguments``.
        auth_server_provider: An authorization server that is part of the application.
        settings: Other arguments of ``Server.streamable_http_app`` in the package ``mcp``.

    The other arguments (``interface``, ``server_arguments``, ``caller_arguments``, ``parsers``, ``prompts``,
    ``approvals``, ``threads``, ``max_waiting_calls`` and ``media``) are those of ``mcp_server``. Returns
    the server. Raises DefinitionError with all problems at once.
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
        media=media,
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
    async def lifespan(application: object) -> AsyncIterator[Any]:
        async with mounted.run(), inner(application) as state:
            yield state

    app.router.lifespan_context = lifespan
    return server


class _MountedServer:
    """The ASGI application of an MCP server that is mounted in another application."""

    def __init__(self, server: Server[object], new_application: Callable[[], Starlette]) -> None:
        self._server = server
        self._new_application = new_application
        self._application: ASGIApp | None = None

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Context manager that serves requests until the block ends; it is reusable."""
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
async def _new_session(_: Server[object]) -> AsyncIterator[_Session]:
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
    """Raise DefinitionError for invalid MCP server settings, and for names that MCP does not allow."""
    problems = server_argument_problems([contract], server_arguments)
    problems += caller_problems([(contract, service)], caller_arguments)
    problems += [
        DefinitionProblem(method.qualname, f"MCP does not allow {method.name} as the name of a tool")
        for method in contract.methods.values()
        if not _TOOL_NAME.fullmatch(method.name)
    ]
    problems += [
        DefinitionProblem(contract.name, f"{name} is {value!r}; it must be at least {least}")
        for name, value, least in (("threads", threads, 1), ("max_waiting_calls", max_waiting_calls, 0))
        if not is_count(value, least)
    ]
    if approvals is not None:
        problems += [DefinitionProblem(contract.name, message) for message in approvals.problems()]
    if problems:
        raise DefinitionError(problems)


class _Handlers:
    """The functions that answer MCP clients' requests."""

    def __init__(self, tools: Mapping[str, ServiceTool]) -> None:
        self._tools = tools
        self._prompts = {name: tool for name, tool in tools.items() if is_service_method(tool.function)}

    def input_schema(self, name: str) -> Mapping[str, object] | None:
        """Return the JSON Schema of a tool's arguments, or None if the tool does not exist."""
        return self._tools[name].specification.input_schema if name in self._tools else None

    async def list_tools(self, request: McpRequest, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return the descriptions of all tools."""
        _check_cursor(params)
        return ListToolsResult(tools=[tool.specification for tool in self._tools.values()])

    async def call_tool(
        self, request: McpRequest, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call the tool that a client's request names."""
        if params.name not in self._tools:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return await self._tools[params.name].call(request, params)

    async def list_prompts(
        self, request: McpRequest, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Return the MCP prompts, one for each service method that has a prompt."""
        _check_cursor(params)
        prompts = [
            Prompt(name=name, description=tool.method.doc or None, arguments=_prompt_arguments(tool.method))
            for name, tool in self._prompts.items()
        ]
        return ListPromptsResult(prompts=prompts)

    async def get_prompt(self, request: McpRequest, params: GetPromptRequestParams) -> GetPromptResult:
        """Return the messages that a service method would send to its model, as an MCP prompt."""
        if params.name not in self._prompts:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")
        tool = self._prompts[params.name]
        try:
            values = {**_read_texts(params.arguments or {}, tool.method), **await tool.server_values(request)}
            args, kwargs = tool.method.bind_arguments(values)
            prompt = await run_sync(lambda: preview(tool.function, *args, **kwargs))
        except MCPError:
            raise
        except ProblemError as error:
            raise MCPError(INVALID_PARAMS, error_text(error.problem)) from error
        except Exception as error:
            problem = log_problem(error, tool.method.qualname, LOGGER)
            raise MCPError(INTERNAL_ERROR, error_text(problem)) from error
        return GetPromptResult(description=tool.method.doc or None, messages=prompt_messages(prompt.messages))


def _check_cursor(params: PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:  # lists have one page
        raise MCPError(INVALID_PARAMS, f"Unknown cursor: {params.cursor}")


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


def _read_texts(texts: Mapping[str, str], method: Method) -> dict[str, object]:
    """Parse the arguments of an MCP prompt, which arrive as strings, or raise ProblemError.

    A string is used unchanged if the type accepts it. Otherwise it is read as JSON.
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
                if is_json(text):
                    fields[-1] = f"{json.dumps(name)}: {text}"
    return read_arguments(method.arguments_codec, f"{{{', '.join(fields)}}}", method.qualname)
