"""Suspend a service call until its tool calls are approved, and store its state as text."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic_core import to_jsonable_python

from output_parsers.parser.type_parser import parser_for
from output_parsers.result.errors import OutputParsingError, UnsupportedTypeError, shorten
from output_parsers.result.reading import Json, JsonObject

from ..interface.parameters import memory_id_data
from ..models.errors import AiServiceError, SuspendedCallError, ToolError
from ..models.media import Media
from ..models.messages import AiMessage, Message, ToolCall, ToolMessage, message_from_dict, message_to_dict
from ..models.requests import ChatOptions, ChatRequest
from ..tools.tool import (
    REMOTE_RESUME,
    SERVICE_METHOD,
    Denied,
    ExternalResult,
    Tool,
    ToolRun,
    WaitingCallDecision,
)
from ..tools.toolbox import Toolbox
from .budget import Budget
from .model_route import ModelRoute
from .output_format import INSTRUCTIONS_MARK
from .plan import CallPlan, CallState, Invocation

T = TypeVar("T")
# True or False for all pending tool calls, or a decision for each of them, by its id.
Approvals: TypeAlias = bool | Mapping[str, bool | Denied]
_MARK = re.compile("\ue000[0-9a-f]+\ue001")


class SuspendedCall(NamedTuple):
    """A service call that can be stored, suspended until its tool calls are approved.

    ``to_json`` and ``from_json`` convert it to and from text.

    Attributes:
        qualname: The name of the method, ``Service.method``.
        messages: The messages of the request.
        tool_messages: The messages since then; the last one has the calls that wait.
        pending: The ids of the calls that must be approved.
        external: The ids of the calls that need an external result.
        inner: The suspended calls of services used as tools, by the id of the tool call that made each. If
            there are any, nothing else waits, and the other tools have run.
        finished: The results of these other tools.
        memory_id: The argument that is the memory id.
        rounds: The number of completed rounds of tools.
        options: The options of the request, without extra headers.
        interceptor_data: JSON that interceptors need when the call is resumed.
        model: The name of the model that wrote the calls; "" if it is not known.
        user_name: The argument that is the name of the user.
        earlier_messages: Tool messages from before the answer was requested again; ``messages`` contains them
            too.
        id: A random text that identifies the state; "" if an older version wrote the state.
        expires_at: The time in seconds since 1970 after which the state cannot be resumed; None for no limit.
        signed_text: The text of a state whose signature was not checked; "" for other states.
    """

    qualname: str
    messages: tuple[Message, ...]
    tool_messages: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    memory_id: Any = None
    rounds: int = 0
    options: ChatOptions = ChatOptions()
    interceptor_data: Mapping[str, Json] = MappingProxyType({})
    model: str = ""
    user_name: Any = None
    earlier_messages: tuple[Message, ...] = ()
    id: str = ""
    expires_at: float | None = None
    signed_text: str = ""
    external: tuple[str, ...] = ()
    inner: Mapping[str, SuspendedCall] = MappingProxyType({})
    finished: tuple[ToolMessage, ...] = ()

    def to_json(self, *, key: str | bytes | None = None, expires_after: float | None = None) -> str:
        """Convert a suspended service call to JSON text, so that another process can resume the call.

        Args:
            key: A secret of the program with which the text is signed (HMAC with SHA-256). ``from_json`` then
                needs the same key, and refuses changed text. The text is not encrypted.
            expires_after: The seconds from now after which the state cannot be resumed. The default is the
                ``expires_at`` of the state. Without a signature, anybody who has the text can change it.

        Raises:
            TypeError: The memory id or the user name cannot be written as JSON.
            ValueError: The key is empty, ``expires_after`` is not greater than 0, or the state is one whose
                signature was not checked. Without arguments, the text of the latter is returned unchanged.
        """
        if self.signed_text:
            as_signed = SuspendedCall.from_json(self.signed_text, verify=False)
            if key is not None or expires_after is not None or self != as_signed:
                raise ValueError("the state was signed elsewhere and cannot be changed; call to_json()")
            return self.signed_text
        if expires_after is not None and not expires_after > 0:
            raise ValueError(f"expires_after is {expires_after!r}; it must be greater than 0")
        data = _state_to_dict(self)
        if expires_after is not None:
            data["expires_at"] = time.time() + expires_after
        text = json.dumps(data, ensure_ascii=False, default=_mapping_to_dict)
        if key is None:
            return text
        data = json.loads(text)  # as the reader will see it, with lists and with text keys
        return json.dumps({**data, "signature": _signature(data, _secret(key))}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, *, key: str | bytes | None = None, verify: bool = True) -> SuspendedCall:
        """Restore a suspended service call from JSON text.

        Text from an older version, with fewer keys, is accepted.

        Args:
            text: The text that ``to_json`` returned.
            key: The key with which the text was signed.
            verify: False to read a signed text without its key, for the method of a remote client. Such a
                state can only be sent back to the service that signed it.

        Raises:
            SuspendedCallError: The text is not a suspended call, its signature is missing or wrong, it is
                signed and no key is given, or it has expired.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}; pass the str that to_json returned")
        if key is not None and not verify:
            raise ValueError("a key was passed, but verify is False; pass one of them")
        secret = None if key is None else _secret(key)
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise TypeError(f"$ must be dict, found {shorten(repr(data), 60)}")
            if verify:
                _check_signature(data, secret)
            elif not isinstance(data.pop("signature", None), str):
                raise SuspendedCallError("the suspended call is not signed; do not pass verify=False")
            state = _state_from_dict(data)
        except SuspendedCallError:
            raise
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SuspendedCallError(f"{_NOT_A_STATE}: {error}") from error
        check_expiry(state)
        return state if verify else state._replace(signed_text=text)


class AlreadyResumedError(AiServiceError):
    """Raised when a suspended service call is resumed a second time; its tools do not run again.

    ``ChatMemory`` and the routes that serve a method over HTTP record which states were resumed. Without
    them, a second resumption is not detected.

    Attributes:
        id: The id of the state.
    """

    def __init__(self, qualname: str, state_id: str) -> None:
        super().__init__(
            f"{qualname}: the suspended call {state_id} was resumed before; its tools do not run again"
        )
        self.id = state_id


class ApprovalRequiredError(AiServiceError):
    """Raised when a model calls a tool that needs a person's approval or an externally supplied result.

    No tool of that reply has run yet. If the tool belongs to a service that is itself used as a tool, the
    outer call waits, too: its error has the same calls, with ids such as "outer/inner", and the other tools
    of the outer reply have run.

    Attributes:
        calls: The calls that must be approved.
        external_calls: The calls of external tools, whose results are wanted.
        in_doubt: Those of ``calls`` that were started by a process that was killed, so that they may have
            run. True runs such a call again; if it has run, pass its result in ``results`` instead.
        state: The call so far. ``resume(method, state, approvals, results={id: value})`` continues it, in
            another process too.
    """

    def __init__(
        self,
        qualname: str,
        calls: tuple[ToolCall, ...],
        state: SuspendedCall,
        external_calls: tuple[ToolCall, ...] = (),
        in_doubt: tuple[ToolCall, ...] = (),
    ) -> None:
        pending = tuple([call for call in calls if call not in in_doubt])
        requirements = (
            ("approval required for", pending),
            ("result required of", external_calls),
            ("not known whether it ran:", in_doubt),
        )
        texts = [f"{text} {', '.join(map(_call_text, some))}" for text, some in requirements if some]
        super().__init__(f"{qualname}: {'; '.join(texts)}; continue with resume")
        self.calls = calls
        self.external_calls = external_calls
        self.in_doubt = in_doubt
        self.state = state


def _call_text(call: ToolCall) -> str:
    return f"{call.name}({call.arguments})"


# In the stored data: the ids of the calls that may have run already, and decisions about the others.
DOUBT_KEY, DECIDED_KEY = "tools.in_doubt", "tools.decided"
DURABLE_KEY = "durable"  # in the stored data: the place of a durable call in its journal


def suspend(
    invocation: Invocation,
    messages_sent: int,
    pending: Sequence[ToolCall] = (),
    external: Sequence[ToolCall] = (),
    inner: Mapping[str, SuspendedCall] = MappingProxyType({}),
    finished: Sequence[ToolMessage] = (),
) -> SuspendedCall:
    """Create the saved state from which a service call resumes once its tool calls are approved.

    ``messages_sent`` is the number of tool messages that the request already contains. ``external`` lists the
    calls whose results are supplied later. The other arguments are attributes of the state.
    """
    state, data = invocation.state, dict(invocation.state.interceptor_data)
    if state.conversation is not None and len(state.conversation) < len(invocation.request.messages):
        data[_CONVERSATION] = len(state.conversation)  # rejected answers follow in the request
    if invocation.request.sources is not None:
        from output_parsers.types.evidence import Sources  # few answers are cited

        from ..documents.document import Document, to_json_data

        assert isinstance(invocation.request.sources, Sources)
        documents = invocation.request.sources.documents
        data[SOURCES] = {
            name: to_json_data(one) for name, one in documents.items() if isinstance(one, Document)
        }
    return SuspendedCall(
        qualname=invocation.plan.qualname,
        messages=invocation.request.messages,
        tool_messages=tuple(state.tool_messages[messages_sent:]),
        pending=tuple(call.id for call in pending),
        memory_id=invocation.memory_id,
        rounds=state.tool_rounds - 1,
        options=replace(invocation.request.options, extra_headers=None),  # headers may contain a key
        interceptor_data=data,
        model="" if state.route is None else state.route.model.name,
        user_name=invocation.user_name,
        earlier_messages=tuple(state.tool_messages[:messages_sent]),
        id=os.urandom(16).hex(),
        external=tuple(call.id for call in external),
        inner=dict(inner),
        finished=tuple(finished),
    )


# Parts of stored states, so they must not change.
_CONVERSATION = "conversation"
SOURCES = "sources"  # the texts in which quotes are searched
_NOT_A_STATE = "the text is not a suspended call that to_json wrote"


def _state_to_dict(state: SuspendedCall) -> dict[str, object]:
    # The JSON keys are a stored format: they stay as they are when fields are renamed.
    data = {
        "place": INSTRUCTIONS_MARK,
        "where": state.qualname,
        "messages": [message_to_dict(message) for message in state.messages],
        "exchanged": [message_to_dict(message) for message in state.tool_messages],
        "pending": list(state.pending),
        "external": list(state.external),
        "memory_id": memory_id_data(state.memory_id),
        "rounds": state.rounds,
        "options": {name: value for name, value in asdict(state.options).items() if value is not None},
        "kept": dict(state.interceptor_data),
        "model": state.model,
        "user_name": state.user_name,
        "before": [message_to_dict(message) for message in state.earlier_messages],
        "id": state.id,
        "expires_at": state.expires_at,
    }
    if state.inner or state.finished:
        data["inner"] = {
            # A state that another service signed stays the text that it wrote.
            call_id: inner.to_json() if inner.signed_text else _state_to_dict(inner)
            for call_id, inner in state.inner.items()
        }
        data["finished"] = [message_to_dict(message) for message in state.finished]
    return data


def _state_from_dict(data: dict[str, object]) -> SuspendedCall:
    mark = _get(data, "place", str)
    if not _MARK.fullmatch(mark):
        raise TypeError(f"$.place is {shorten(repr(mark), 60)}, which to_json does not write")
    # The mark of the process that wrote the state is replaced by the mark of this one.
    data = json.loads(json.dumps(data, ensure_ascii=False).replace(mark, INSTRUCTIONS_MARK))
    return SuspendedCall(
        _get(data, "where", str),
        _messages(data, "messages"),
        _messages(data, "exchanged"),
        _texts(data, "pending"),
        _get(data, "memory_id", object),
        _rounds(data),
        options_from_json(_get(data, "options", dict)),
        _get(data, "kept", dict),
        _get({"model": "", **data}, "model", str),
        data.get("user_name"),
        _messages({"before": [], **data}, "before"),
        _get({"id": "", **data}, "id", str),
        None if data.get("expires_at") is None else float(_get(data, "expires_at", (int, float))),
        external=_texts({"external": [], **data}, "external"),
        inner=_inner_states(_get({"inner": {}, **data}, "inner", dict)),
        finished=_tool_messages({"finished": [], **data}, "finished"),
    )


def _inner_states(data: dict[str, object]) -> Mapping[str, SuspendedCall]:
    states = {}
    for call_id, item in data.items():
        try:
            if isinstance(item, str):
                states[call_id] = SuspendedCall.from_json(item, verify=False)
            elif isinstance(item, dict):
                states[call_id] = _state_from_dict(item)
            else:
                raise TypeError(f"it must be dict, found {shorten(repr(item), 60)}")
        except SuspendedCallError:  # also a ValueError
            raise
        except (TypeError, ValueError) as error:
            raise TypeError(f"$.inner.{call_id}: {error}") from error
    return states


def _tool_messages(data: Mapping[str, object], name: str) -> tuple[ToolMessage, ...]:
    messages = []
    for index, message in enumerate(_messages(data, name)):
        if not isinstance(message, ToolMessage):
            raise TypeError(f"$.{name}[{index}] is not the result of a tool")
        messages.append(message)
    return tuple(messages)


def _secret(key: str | bytes) -> bytes:
    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise ValueError("the key is empty; pass a secret, for example 32 random bytes")
    return secret


def _signature(data: Mapping[str, object], secret: bytes) -> str:
    """Return an HMAC-SHA256 signature for the JSON data of a suspended service call.

    The signature does not depend on key order or white space, which a database may change.
    """
    import hmac  # late, because few programs sign states

    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode(), "sha256").hex()


def _check_signature(data: dict[str, object], secret: bytes | None) -> None:
    """Verify and remove the HMAC signature in the JSON data of a suspended service call.

    Raises SuspendedCallError if the signature is wrong.
    """
    signature = data.pop("signature", None)
    if secret is None:
        if signature is not None:
            raise SuspendedCallError("the suspended call is signed; pass the key to from_json")
        return
    from hmac import compare_digest

    expected = _signature(data, secret)
    if signature is None:
        raise SuspendedCallError("the suspended call is not signed; pass the key to to_json as well")
    if not isinstance(signature, str) or not compare_digest(signature.encode(), expected.encode()):
        raise SuspendedCallError(
            "the signature of the suspended call is wrong: it was changed, or signed with another key"
        )


def check_expiry(state: SuspendedCall) -> None:
    """Raise SuspendedCallError if a service call has waited for approval longer than allowed."""
    if state.expires_at is not None and not time.time() < state.expires_at:
        raise SuspendedCallError(f"the suspended call of {state.qualname} has expired; make the call again")


def _get(data: Mapping[str, object], name: str, kind: type[T] | tuple[type[T], ...]) -> T:
    if name not in data:
        raise TypeError(f"$.{name} is missing")
    value = data[name]
    # True is an int for isinstance, but not in JSON
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not object):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(one.__name__ for one in kinds)
        raise TypeError(f"$.{name} must be {names}, found {shorten(repr(value), 60)}")
    return value


def _messages(data: Mapping[str, object], name: str) -> tuple[Message, ...]:
    messages = []
    for index, item in enumerate(_get(data, name, list)):
        try:
            messages.append(message_from_dict(item))
        except (ValueError, TypeError) as error:
            raise TypeError(f"$.{name}[{index}]: {error}") from error
    return tuple(messages)


def _texts(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    items = _get(data, name, list)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise TypeError(f"$.{name}[{index}] must be str, found {shorten(repr(item), 60)}")
    return tuple(items)


def _rounds(data: Mapping[str, object]) -> int:
    rounds = _get(data, "rounds", int)
    if rounds < 0:
        raise TypeError(f"$.rounds must not be negative, found {rounds}")
    return rounds


def _mapping_to_dict(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def options_from_json(data: JsonObject) -> ChatOptions:
    """Restore options from JSON data; raise TypeError for wrong data."""
    stop = data.get("stop")
    if "extra_headers" in data:  # to_json does not write them
        raise TypeError("$.options.extra_headers: a suspended call has no headers")
    try:
        # not tuple("END"), which would make a stop text of each character
        options = ChatOptions(**{**data, "stop": tuple(stop) if isinstance(stop, list) else stop})
        problems = options.problems("$.options")
    except TypeError as error:
        raise TypeError(f"$.options: {error}") from error
    if problems:
        raise TypeError(str(problems[0]))
    return options


# --- Resuming a suspended call ---


def resumed_invocation(
    plan: CallPlan,
    suspended: SuspendedCall,
    approvals: Approvals,
    budget: Budget,
    results: Mapping[str, object] = MappingProxyType({}),
    toolbox: Toolbox | None = None,
) -> Invocation:
    """Prepare a suspended service call to continue after its tool calls were approved or denied.

    ``results`` maps the ids of external tool calls to their results. ``toolbox`` contains the tools of the
    call if they differ from those of the plan.

    Raises TypeError if an argument has another type, SuspendedCallError if the state cannot be resumed, and
    ValueError if the decisions are not those of the pending calls, or if a result has a wrong type.
    """
    decisions = decisions_for(suspended, approvals, results, plan.qualname)
    if suspended.signed_text:
        raise SuspendedCallError(
            f"{plan.qualname}: the signature of the state was not checked; pass the key to from_json"
        )
    toolbox = toolbox or plan.toolbox
    by_call = {**_earlier_decisions(suspended), **_decisions_by_call(suspended, decisions)}
    _check_decisions(by_call, suspended, plan, toolbox)
    messages = [*suspended.earlier_messages, *suspended.tool_messages]
    count = suspended.interceptor_data.get(_CONVERSATION)
    state = CallState(
        budget,
        conversation=suspended.messages[: count if isinstance(count, int) else None],
        route=_route_of(suspended, plan),
        tool_messages=messages,
        tool_rounds=suspended.rounds,
        tool_calls=sum(isinstance(message, ToolMessage) for message in messages),
        resumed_messages=len(suspended.earlier_messages),
        # One request for each completed round, and the one that called the pending tools.
        earlier_requests=suspended.rounds + 1,
        interceptor_data=dict(suspended.interceptor_data),
        suspended_id=suspended.id,
    )
    request = ChatRequest(
        suspended.messages, suspended.options.with_defaults(plan.options), qualname=plan.qualname
    )
    return replace(
        plan.invocation(request, state),
        toolbox=toolbox,
        memory_id=suspended.memory_id,
        user_name=suspended.user_name,
        approvals=by_call,
    )


def _check_decisions(
    decisions: Mapping[str, WaitingCallDecision],
    suspended: SuspendedCall,
    plan: CallPlan,
    toolbox: Toolbox | None,
) -> None:
    """Raise an error if an approval decision does not fit the service's current tools.

    Services used as tools are checked, too, before anything runs.
    """
    _route_of(suspended, plan)
    for call in _last_calls(suspended):
        decision = decisions.get(call.id)
        if toolbox is not None and toolbox.is_open and call.name not in toolbox.tools:
            continue  # the tools of providers are checked when they are known
        if isinstance(decision, ExternalResult):
            check_external_call(call, toolbox, decision, plan.qualname)
        elif isinstance(decision, InnerDecisions):
            method = suspended_method(call, toolbox, decision, plan.qualname)
            inner_plan = method.call_plan
            if inner_plan is not None:  # the plan of a remote service is checked where the service runs
                by_call = _decisions_by_call(decision.state, decision.decisions)
                _check_decisions(by_call, decision.state, inner_plan, inner_plan.toolbox)


# --- Services that are used as tools ---


class InnerDecisions(NamedTuple):
    """The state of a suspended inner service call, with the decisions about its pending tool calls.

    Attributes:
        state: The suspended call of the service.
        decisions: The decisions, by the ids of the calls in it.
    """

    state: SuspendedCall
    decisions: Mapping[str, bool | Denied | ExternalResult]


class SuspendableMethod(Protocol):
    """A service method that is used as a tool and can be suspended and resumed."""

    @property
    def call_plan(self) -> CallPlan | None:
        """The CallPlan of the method, or None for a method of a remote service."""
        ...

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        tool_context: Mapping[str, object],
        results: Mapping[str, object],
    ) -> Any:
        """Continue a suspended call of the method, and return the method's result."""
        ...


class _RemoteMethod(NamedTuple):
    """A method of a remote service that is used as a tool."""

    function: Any
    call_plan: CallPlan | None = None

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        tool_context: Mapping[str, object],
        results: Mapping[str, object],
    ) -> object:
        return self.function(state, approvals, results)


def suspendable_method(tool: Tool) -> SuspendableMethod | None:
    """Return the service method that a tool calls, or None if the tool is an ordinary function."""
    function: object = tool.function
    while isinstance(function, partial):
        function = function.func
    for name in (SERVICE_METHOD, REMOTE_RESUME):
        # functools.wraps copies the attribute to functions that do more than the method
        if hasattr(function, name) and not hasattr(getattr(function, "__wrapped__", None), name):
            method: SuspendableMethod = getattr(function, name)
            return _RemoteMethod(method) if name == REMOTE_RESUME else method
    return None


def suspended_method(
    call: ToolCall, toolbox: Toolbox | None, decision: InnerDecisions, qualname: str
) -> SuspendableMethod:
    """Return the service method whose suspended call must be resumed to answer a tool call.

    Raises SuspendedCallError if the tools of the service have changed since then.
    """
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    method = None if tool is None else suspendable_method(tool)
    plan = None if method is None else method.call_plan
    if method is None or (plan is not None and plan.qualname != decision.state.qualname):
        problem = "has no such tool" if tool is None else "has another tool of this name"
        raise SuspendedCallError(
            f"{qualname}: the call {call.id} of the tool {call.name} waits in {decision.state.qualname}, and "
            f"the service {problem}"
        )
    return method


def with_resumption(tool: Tool, method: SuspendableMethod, decision: InnerDecisions) -> Tool:
    """Return a copy of a tool; calling the copy resumes the suspended call of a service method."""
    keywords, function = dict[str, object](), tool.function
    while isinstance(function, partial):
        keywords = {**function.keywords, **keywords}
        function = function.func
    approvals: dict[str, bool | Denied] = {}
    results: dict[str, object] = {}
    for call_id, one in decision.decisions.items():
        if isinstance(one, ExternalResult):
            results[call_id] = one.value
        else:
            approvals[call_id] = one

    def resume(**arguments: object) -> object:
        return method.resume(decision.state, approvals, {**keywords, **arguments}, results)

    # of a service in this process, a durable call records what it does
    return replace(tool, function=resume, idempotent=tool.idempotent or method.call_plan is not None)


def finished_run(call: ToolCall, message: ToolMessage, tool: Tool | None) -> ToolRun:
    """Recreate the record of a tool call that ran before the suspension, using its tool message."""
    result: object = message.text
    method = None if tool is None else suspendable_method(tool)
    plan = None if method is None else method.call_plan
    if tool is not None and not message.failed:
        try:
            result = parser_for(tool.return_type if plan is None else plan.output_type).parse(message.text)
        except (UnsupportedTypeError, OutputParsingError):
            pass  # the text is all that is known
    error = ToolError(message.text, call=call) if message.failed else None
    result = None if message.failed else result
    media = tuple(part for part in message.contents if isinstance(part, Media))
    return ToolRun(call, None, result, message.text, error, 0.0, contents=media)


class WaitingCalls(NamedTuple):
    """The pending tool calls of a suspended service call, including those of inner service calls.

    The id of an inner call is the outer call's id, a slash, and the inner call's own id.

    Attributes:
        approvals: The calls that must be approved.
        results: The calls of external tools.
        in_doubt: Those of ``approvals`` that may have run already.
    """

    approvals: tuple[ToolCall, ...]
    results: tuple[ToolCall, ...]
    in_doubt: tuple[ToolCall, ...] = ()


def _check_pending(suspended: SuspendedCall, calls: Sequence[ToolCall], pending: Sequence[ToolCall]) -> None:
    """Raise SuspendedCallError unless the pending calls of a state are those of its last message."""
    waiting = sorted([*(call.id for call in pending), *suspended.inner])
    expected = sorted({*suspended.pending, *suspended.external, *suspended.inner})
    settled = [*suspended.inner, *(message.call_id for message in suspended.finished)]
    is_nest = bool(suspended.inner or suspended.finished)
    is_wrong_nest = is_nest and (pending or sorted(settled) != sorted(call.id for call in calls))
    if not waiting or waiting != expected or is_wrong_nest:
        raise SuspendedCallError(
            f"{suspended.qualname}: the state is damaged: the pending calls are not those of its last message"
        )


def waiting_calls(suspended: SuspendedCall) -> WaitingCalls:
    """List the pending tool calls of a suspended service call, including those of inner service calls.

    Raises SuspendedCallError if the state is damaged, or a part of it has expired.
    """
    check_expiry(suspended)
    calls = _last_calls(suspended)
    approvals = [call for call in calls if call.id in suspended.pending]
    results = [call for call in calls if call.id in suspended.external]
    _check_pending(suspended, calls, [*approvals, *results])
    doubts = suspended.interceptor_data.get(DOUBT_KEY, [])
    in_doubt = [call for call in approvals if call.id in doubts]
    for call_id, inner in suspended.inner.items():
        nested, prefix = waiting_calls(inner), call_id_prefix(call_id)
        in_doubt += [replace(call, id=f"{prefix}{call.id}") for call in nested.in_doubt]
        approvals += [replace(call, id=f"{prefix}{call.id}") for call in nested.approvals]
        results += [replace(call, id=f"{prefix}{call.id}") for call in nested.results]
    return WaitingCalls(tuple(approvals), tuple(results), tuple(in_doubt))


def call_id_prefix(call_id: str) -> str:
    """Return the prefix for the ids of tool calls inside an inner service call: the outer id and "/"."""
    return call_id.replace("%", "%25").replace("/", "%2F") + "/"


def _decisions_by_call(
    suspended: SuspendedCall, decisions: Mapping[str, bool | Denied | ExternalResult]
) -> dict[str, WaitingCallDecision]:
    """Map each tool call in the last message of a suspended service call to its decision or result."""
    by_call: dict[str, WaitingCallDecision] = {message.call_id: message for message in suspended.finished}
    for call_id, inner in suspended.inner.items():
        prefix = call_id_prefix(call_id)
        own = {key[len(prefix) :]: value for key, value in decisions.items() if key.startswith(prefix)}
        by_call[call_id] = InnerDecisions(inner, own)
    return by_call or dict(decisions)


# --- Decisions ---


def decisions_to_json(decisions: Mapping[str, object], *, own_only: bool = False) -> dict[str, object]:
    """Return decisions about tool calls as JSON data.

    Those about inner calls have a prefix; with ``own_only`` they are left out.
    """
    data: dict[str, object] = {}
    for call_id, one in decisions.items():
        if isinstance(one, InnerDecisions):
            if own_only:
                continue
            prefix = call_id_prefix(call_id)
            data |= {f"{prefix}{inner}": value for inner, value in decisions_to_json(one.decisions).items()}
        elif isinstance(one, ExternalResult):
            data[call_id] = {"result": to_jsonable_python(one.value), "is_of_doubt": one.is_of_doubt}
        elif isinstance(one, Denied):
            data[call_id] = {"denied": one.reason}
        elif not isinstance(one, ToolMessage):
            data[call_id] = one
    return data


class Decisions(NamedTuple):
    """Decisions about tool calls, as ``resume`` takes them."""

    approvals: dict[str, bool | Denied]
    results: dict[str, object]

    @classmethod
    def of(cls, data: Mapping[str, object]) -> Decisions:
        """Restore decisions from the data of ``decisions_to_json``."""
        approvals: dict[str, bool | Denied] = {}
        results: dict[str, object] = {}
        for call_id, one in data.items():
            if isinstance(one, dict) and "result" in one:
                results[call_id] = one["result"]
            else:
                approvals[call_id] = Denied(one["denied"]) if isinstance(one, dict) else bool(one)
        return cls(approvals, results)


def _earlier_decisions(suspended: SuspendedCall) -> dict[str, WaitingCallDecision]:
    """Return the decisions about other calls of the round, made before it was suspended again."""
    earlier = Decisions.of(suspended.interceptor_data.get(DECIDED_KEY, {}))
    return {**earlier.approvals, **{key: ExternalResult(one, True) for key, one in earlier.results.items()}}


class ExternalResultError(ValueError):
    """Raised by ``resume`` if a tool result is missing, unexpected, or of the wrong type for the tool."""


def check_external_call(call: ToolCall, toolbox: Toolbox | None, decision: object, qualname: str) -> None:
    """Raise an error if a tool call is not for an external tool, or if its result does not fit.

    Raises SuspendedCallError, because the state or the tools of the service have changed, and
    ExternalResultError for the value.
    """
    tool = None if toolbox is None else toolbox.tools.get(call.name)
    is_of_doubt = isinstance(decision, ExternalResult) and decision.is_of_doubt
    if tool is None or not (tool.external or is_of_doubt):
        problem = "has no tool" if tool is None else "runs the tool"
        raise SuspendedCallError(
            f"{qualname}: the call {call.id} waits for a result of the external tool {call.name}, but the "
            f"service {problem} {call.name}"
        )
    if not isinstance(decision, ExternalResult):
        raise SuspendedCallError(
            f"{qualname}: the state is damaged: the tool {call.name} of the call {call.id} is external, and "
            "its result is missing"
        )
    try:
        tool.read_result(decision.value)
    except ValueError as error:
        raise ExternalResultError(
            f"{qualname}: the result for {call.id} does not fit the tool {call.name}: {error}"
        ) from error


def _last_calls(suspended: SuspendedCall) -> tuple[ToolCall, ...]:
    last = suspended.tool_messages[-1] if suspended.tool_messages else None
    return last.tool_calls if isinstance(last, AiMessage) else ()


def decisions_for(
    suspended: SuspendedCall, approvals: Approvals, results: Mapping[str, object], qualname: str
) -> Mapping[str, bool | Denied | ExternalResult]:
    """Check the approvals and results for a suspended service call; return a dict from call ids to decisions.

    Raises TypeError for an argument of the wrong type, SuspendedCallError if the state belongs to another
    method or is not waiting, and ValueError unless exactly the pending calls have a decision or a result.
    """
    _check_state(suspended, qualname)
    calls = waiting_calls(suspended)
    in_doubt = [call.id for call in calls.in_doubt]
    waiting, external = [call.id for call in calls.approvals], [call.id for call in calls.results]
    pending = [*waiting, *external]
    _check_results(results, external, in_doubt, qualname)
    waiting = [call_id for call_id in waiting if not (call_id in in_doubt and call_id in results)]
    decisions: dict[str, bool | Denied | ExternalResult] = {}
    if isinstance(approvals, bool):
        decisions |= dict.fromkeys(waiting if approvals else pending, approvals)
    elif isinstance(approvals, Mapping):
        decisions |= _checked_approvals(approvals, waiting, external, results, qualname)
    else:
        raise TypeError(
            f"{qualname}: approvals is {shorten(repr(approvals), 60)}; pass True or False for all calls, "
            f"or a dict with a decision for each id: {', '.join(pending)}"
        )
    decisions |= {call_id: ExternalResult(value, call_id in in_doubt) for call_id, value in results.items()}
    missing = [call_id for call_id in external if call_id not in decisions]
    if missing:
        raise ExternalResultError(f"{qualname}: results has no value for {', '.join(missing)}")
    return decisions


def _check_state(suspended: object, qualname: str) -> None:
    if not isinstance(suspended, SuspendedCall):
        raise TypeError(
            f"{qualname}: the state is a {type(suspended).__name__}; pass a SuspendedCall, "
            "for example from SuspendedCall.from_json(text)"
        )
    if suspended.qualname != qualname:
        raise SuspendedCallError(f"the suspended call belongs to {suspended.qualname}, not to {qualname}")


def _check_results(results: object, external: Sequence[str], in_doubt: Sequence[str], qualname: str) -> None:
    if not isinstance(results, Mapping):
        raise TypeError(
            f"{qualname}: results is {shorten(repr(results), 60)}; pass a dict with the result for each id: "
            f"{', '.join(external)}"
        )
    unexpected = [call_id for call_id in results if call_id not in (*external, *in_doubt)]
    if unexpected:
        raise ExternalResultError(
            f"{qualname}: results has a value for {unexpected[0]!r}, which does not wait for a result; "
            f"the calls that do: {', '.join(external) or 'none'}"
        )


def _checked_approvals(
    approvals: Mapping[str, bool | Denied],
    waiting: Sequence[str],
    external: Sequence[str],
    results: Mapping[str, object],
    qualname: str,
) -> Mapping[str, bool | Denied]:
    undecided = [call_id for call_id in waiting if call_id not in approvals]
    # All decisions are needed at once, because the tools of a round run together.
    if undecided:
        raise ValueError(f"{qualname}: approvals has no decision for {', '.join(undecided)}")
    for call_id, decision in approvals.items():
        if call_id not in waiting and call_id not in external:
            raise ValueError(
                f"{qualname}: approvals has a decision for {call_id!r}, which does not wait; "
                f"the calls that wait: {', '.join((*waiting, *external))}"
            )
        if not isinstance(decision, (bool, Denied)):
            raise TypeError(
                f"{qualname}: the decision for {call_id} is {shorten(repr(decision), 60)}; "
                "it must be True, False or Denied(reason)"
            )
        if call_id in external and (decision is True or call_id in results):
            reason = "has a result, too" if call_id in results else "waits for a result; pass it in results"
            raise ValueError(f"{qualname}: approvals has a decision for {call_id!r}, which {reason}")
    return approvals


def _route_of(suspended: SuspendedCall, plan: CallPlan) -> ModelRoute | None:
    """Return the model that made a suspended call's pending tool calls, or None if it is unknown.

    The arguments of the tool calls must be parsed in that model's format.
    """
    if not suspended.model:
        return None
    for route in plan.routes:
        if route.model.name == suspended.model:
            return route
    names = ", ".join(route.model.name for route in plan.routes)
    raise SuspendedCallError(
        f"{plan.qualname}: the pending calls were written by {suspended.model}, and the service uses "
        f"{names}; add that model, or resume with state._replace(model='') to read the calls as if the "
        "first model had written them"
    )
