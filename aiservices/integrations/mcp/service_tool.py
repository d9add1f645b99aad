"""A method of a service as a tool of an MCP server: schemas, calls, and the approval of tool calls."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from anyio.to_thread import run_sync
from mcp import MCPError
from mcp.server import ServerRequestContext
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
    Tool,
)

from output_parsers.result.errors import OutputParsingError
from output_parsers.types.node import JsonSchema

from ...engine.approval import ApprovalRequiredError, SuspendedCall
from ...engine.events import AttemptStarted
from ...engine.streams import Completed, FieldCompleted
from ...models.errors import SuspendedCallError
from ...models.media import Image
from ...models.messages import ReplyDelta
from ...service.compile import ReturnShape
from ...tools.tool import Denied
from ..fastapi.calls import (
    ApprovalStates,
    MethodCall,
    ProblemError,
    ResumedCall,
    Threads,
    iterate,
    log_problem,
)
from ..fastapi.codec import write_value
from ..fastapi.contract import Method
from ..fastapi.problems import Problem, argument_problem, suspended_call_problem, wrong_parts
from .contents import content_block

# What the functions of server_arguments get: the request of a client.
McpRequest: TypeAlias = ServerRequestContext[Any, Any]

LOGGER = logging.getLogger("aiservices.integrations.mcp")
_LARGE_TEXT = 64 * 1024  # larger arguments are read in a thread, because the event loop would stop meanwhile
_VALUE = "value"  # the field of the envelope around values that are not JSON objects
_UNFIT = "unfit"  # the field beside it for items that cannot be read
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
    """A tool of an MCP server that calls a method of a service.

    Args:
        method: The description of the method.
        function: The bound method of the service.
        server_arguments: For each parameter that the server sets, a function of the request. It may be async.
        threads: The threads for blocking methods.
        states: Which suspended calls were resumed; None if clients cannot approve tool calls.
    """

    def __init__(
        self,
        method: Method,
        function: Callable[..., Any],
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
        """Call the method for a request of a client, and return its value or a description of its error."""
        try:
            server_values = await self.server_values(request)
            text = json.dumps(params.arguments or {})
            is_large = len(text) > _LARGE_TEXT
            if params.request_state is not None:
                call: MethodCall = self._resumed_call(params, server_values)
            else:
                values = await run_sync(self._read, text) if is_large else self._read(text)
                call = self._new_call({**values, **server_values})
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
                    decision = await request.session.elicit_form(
                        question.message, question.requested_schema, request.request_id
                    )
                    call = self._decided_call(error.state, ids, decision, server_values)
        except MCPError:
            raise
        except ProblemError as error:
            return _failed(error.problem)
        except Exception as error:
            return _failed(log_problem(error, self.method.qualname, logger=LOGGER))

    async def server_values(self, request: McpRequest) -> dict[str, object]:
        """Return the arguments that the server sets for a request, by parameter name."""
        values: dict[str, object] = {}
        for name in self.method.server_parameters:
            if name in self._server_arguments:
                value = self._server_arguments[name](request)
                values[name] = await value if inspect.isawaitable(value) else value
        return values

    def _read(self, text: str) -> dict[str, Any]:
        try:
            return self.method.arguments_codec.read(text)
        except OutputParsingError as error:
            raise ProblemError(argument_problem(wrong_parts(error), self.method.qualname)) from error

    def _new_call(self, values: Mapping[str, object]) -> MethodCall:
        return MethodCall(self.function, *self.method.bind_arguments(values))

    # --- values ---

    async def _result(self, request: McpRequest, call: MethodCall, *, is_large: bool) -> CallToolResult:
        method = self.method
        if method.streams:
            return await self._streamed_result(request, call)
        value = await call.run(method.qualname, self._threads, is_large=is_large)
        if method.returns.shape is ReturnShape.RESULT:
            value = value.value
        return complete_result(method, value, write_value(value, method.value_codec))

    async def _streamed_result(self, request: McpRequest, call: MethodCall) -> CallToolResult:
        """Read a stream to its end; report its parts as progress, and return the complete value."""
        method, shape = self.method, self.method.returns.shape
        is_stream = shape is ReturnShape.STREAM
        source = call.start() if method.returns.is_async else await call.run(method.qualname, self._threads)
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

    # --- approvals ---

    def _approval_question(
        self, request: McpRequest, error: ApprovalRequiredError
    ) -> ElicitRequestFormParams:
        """Return the question whether pending tool calls are approved, or raise ProblemError."""
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
        problem = log_problem(error, self.method.qualname, logger=LOGGER)
        raise ProblemError(problem.model_copy(update={"detail": detail}))

    def _resumed_call(self, params: CallToolRequestParams, server_values: Mapping[str, object]) -> MethodCall:
        """Return the suspended call that a request continues with the decision of a person."""
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
        """Return the call that continues after a person has decided about the pending tool calls ``ids``."""
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


# --- streams ---


class _TextReader:
    """Collects the chunks of a text."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._chunks: list[str] = []

    def add(self, item: Any) -> str | None:
        """Add the next part of a stream, and return the text with which to report it, if there is one."""
        self._chunks.append(item)
        return str(item)

    def result(self) -> CallToolResult:
        """Return the complete value after the last part of a stream."""
        text = "".join(self._chunks)
        return complete_result(self._method, text, json.dumps(text, ensure_ascii=False))


class _ItemReader:
    """Collects the items of a list, and those that cannot be read."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._items: list[str] = []
        self._unfit: list[dict[str, object]] = []

    def add(self, item: Any) -> str | None:
        """Add the next item, and return it as JSON."""
        from output_parsers.streaming import ItemError  # late: most services do not stream items

        if isinstance(item, ItemError):
            problems = [f"{problem.path}: {problem.message}" for problem in item.problems]
            self._unfit.append({"index": item.index, "text": item.text, "problems": problems})
            return f"item {item.index} cannot be read"
        self._items.append(self._method.value_codec.write(item))
        return self._items[-1]

    def result(self) -> CallToolResult:
        """Return the list of all items."""
        others = {_UNFIT: self._unfit} if self._method.returns.keeps_errors else {}
        return complete_result(self._method, None, f"[{', '.join(self._items)}]", others)


class _StreamReader:
    """Waits for the value of a stream, and reports its text or the names of complete fields."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._is_text = method.returns.output_type is str
        self._value: Any = None

    def add(self, item: Any) -> str | None:
        """Read an event of the stream."""
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
        """Return the complete value."""
        return complete_result(self._method, self._value, write_value(self._value, self._method.value_codec))


_STREAM_READERS: dict[ReturnShape, Callable[[Method], _TextReader | _ItemReader | _StreamReader]] = {
    ReturnShape.TEXT_STREAM: _TextReader,
    ReturnShape.ITEMS: _ItemReader,
    ReturnShape.STREAM: _StreamReader,
}


# --- results ---


class _ValueSchema(NamedTuple):
    """The schema of the value of a method, and further fields of the envelope around it."""

    schema: JsonSchema
    other_fields: Mapping[str, JsonSchema] = {}


def output_schema(method: Method) -> JsonSchema:
    """Return the JSON Schema of the structured result of a service method, which is always an object.

    A value that is not an object travels in an envelope, as ``{"value": …}``.
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
    """Return the result of a call: structured, and as text, which is JSON unless the value is a text.

    Images are blocks of their own.
    """
    data = json.loads(json_text)
    is_object = _value_schema(method).schema.get("type") == "object"
    structured = data if is_object else {_VALUE: data, **(other_fields or {})}
    content: list[ContentBlock] = [TextContent(text=value if type(value) is str else json_text)]
    values = value if isinstance(value, list) else [value]
    images = [one for one in values if isinstance(one, Image)]
    if images and len(images) == len(values):
        content = [content_block(image) for image in images]
    return CallToolResult(content=content, structured_content=structured)


def _failed(problem: Problem) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=error_text(problem))], is_error=True)


def error_text(problem: Problem) -> str:
    """Describe why a call failed in words that are safe for every caller, as in HTTP responses."""
    lines = [f"{problem.title}: {problem.detail}" if problem.detail else problem.title]
    lines += [
        f"- {part.path}: {part.message}{f', found {part.found}' if part.found else ''}"
        for part in problem.problems
    ]
    if problem.retry_after is not None:
        lines.append(f"Try again after {problem.retry_after:g} s.")
    elif problem.retryable:
        lines.append("The same call may succeed later.")
    return "\n".join(lines)
