"""Suspend a call until its tool calls are approved, and resume it later, also in another process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from output_parsers.result.errors import shorten

from ..models.errors import AiServiceError
from ..models.messages import AiMessage, Message, ToolCall, ToolMessage, message_from_dict, message_to_dict
from ..models.requests import ChatOptions, ChatRequest
from .budget import Budget
from .model_route import ModelRoute
from .output_format import INSTRUCTIONS_MARK
from .plan import CallPlan, CallState, Invocation

T = TypeVar("T")


class SuspendedCall(NamedTuple):
    """The state of a service call that waits for the approval of tool calls.

    ``to_json`` and ``from_json`` convert it to and from text.

    Attributes:
        qualname: The name of the method, ``Service.method``.
        messages: The messages of the request.
        tool_messages: The messages since then; the last one has the calls that wait.
        pending: The ids of the calls that must be approved.
        memory_id: The argument that is the memory id.
        rounds: How many rounds of tools were completed.
        options: The options of the request, without extra headers.
        interceptor_data: JSON that interceptors need when the call is resumed.
        model: The name of the model that wrote the calls; "" if it is not known.
        user_name: The argument that is the name of the user.
        earlier_messages: Tool messages from before the answer was requested again; ``messages`` contains them
            too.
        id: A random text that no other state has; "" if an older version wrote the state.
        expires_at: The time in seconds since 1970 after which the state cannot be resumed; None for no limit.
    """

    qualname: str
    messages: tuple[Message, ...]
    tool_messages: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    memory_id: Any = None
    rounds: int = 0
    options: ChatOptions = ChatOptions()
    interceptor_data: Mapping[str, Any] = MappingProxyType({})
    model: str = ""
    user_name: Any = None
    earlier_messages: tuple[Message, ...] = ()
    id: str = ""
    expires_at: float | None = None

    def to_json(self, *, key: str | bytes | None = None, expires_after: float | None = None) -> str:
        """Return the suspended call as JSON text.

        Args:
            key: A secret of the program with which the text is signed (HMAC with SHA-256). ``from_json`` then
                needs the same key, and refuses a text that was changed. The text is not encrypted.
            expires_after: The seconds from now after which the state cannot be resumed. The default is the
                ``expires_at`` of the state. Without a signature, whoever has the text can change it.

        Raises:
            TypeError: The memory id or the user name cannot be written as JSON.
            ValueError: The key is empty, or ``expires_after`` is not greater than 0.
        """
        if expires_after is not None and not expires_after > 0:
            raise ValueError(f"expires_after is {expires_after!r}; it must be greater than 0")
        # The JSON keys are a stored format: they stay as they are when fields are renamed.
        data = {
            "place": INSTRUCTIONS_MARK,
            "where": self.qualname,
            "messages": [message_to_dict(message) for message in self.messages],
            "exchanged": [message_to_dict(message) for message in self.tool_messages],
            "pending": list(self.pending),
            "memory_id": self.memory_id,
            "rounds": self.rounds,
            "options": {name: value for name, value in asdict(self.options).items() if value is not None},
            "kept": dict(self.interceptor_data),
            "model": self.model,
            "user_name": self.user_name,
            "before": [message_to_dict(message) for message in self.earlier_messages],
            "id": self.id,
            "expires_at": self.expires_at if expires_after is None else time.time() + expires_after,
        }
        text = json.dumps(data, ensure_ascii=False, default=_mapping_to_dict)
        if key is None:
            return text
        data = json.loads(text)  # as the reader will see it, with lists and with text keys
        return json.dumps({**data, "signature": _signature(data, key)}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, *, key: str | bytes | None = None) -> SuspendedCall:
        """Parse the JSON text of a suspended call.

        Text from an older version, with fewer keys, is accepted.

        Args:
            text: The text that ``to_json`` returned.
            key: The key with which the text was signed.

        Raises:
            ValueError: The text is not a suspended call, its signature is missing or wrong, it is signed and
                no key is given, or it has expired.
        """
        try:
            data = json.loads(text)
            if not isinstance(data, dict):
                raise TypeError(f"$ must be dict, found {shorten(repr(data), 60)}")
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{_NOT_A_STATE}: {error}") from error
        _check_signature(data, key)
        try:
            mark = _get(data, "place", str)
            if not mark:
                raise TypeError("$.place is empty")
            # The mark of the process that wrote the state is replaced by that of this one.
            data = json.loads(json.dumps(data, ensure_ascii=False).replace(mark, INSTRUCTIONS_MARK))
            state = SuspendedCall(
                _get(data, "where", str),
                _messages(data, "messages"),
                _messages(data, "exchanged"),
                _texts(data, "pending"),
                _get(data, "memory_id", object),
                _get(data, "rounds", int),
                _options(_get(data, "options", dict)),
                _get(data, "kept", dict),
                _get({"model": "", **data}, "model", str),
                data.get("user_name"),
                _messages({"before": [], **data}, "before"),
                _get({"id": "", **data}, "id", str),
                None if data.get("expires_at") is None else float(_get(data, "expires_at", (int, float))),
            )
        except (TypeError, RecursionError) as error:
            raise ValueError(f"{_NOT_A_STATE}: {error}") from error
        _check_expiry(state)
        return state


class AlreadyResumedError(AiServiceError):
    """Raised when a suspended call is resumed a second time. Its tools do not run again.

    ``ChatMemory`` records in its store which states were resumed. Without a memory nothing records it.

    Attributes:
        id: The id of the state.
    """

    def __init__(self, qualname: str, state_id: str) -> None:
        super().__init__(
            f"{qualname}: the suspended call {state_id} was resumed before; its tools do not run again"
        )
        self.id = state_id


class ApprovalRequiredError(AiServiceError):
    """Raised when the model calls a tool that needs approval. No tool of that round has run.

    Attributes:
        calls: The calls that must be approved.
        state: The call so far. ``resume(method, state, approvals)`` continues it, in another process too.
    """

    def __init__(self, qualname: str, calls: tuple[ToolCall, ...], state: SuspendedCall) -> None:
        names = ", ".join(f"{call.name}({call.arguments})" for call in calls)
        super().__init__(f"{qualname}: approval required for {names}; continue with resume")
        self.calls = calls
        self.state = state


def suspend(invocation: Invocation, pending: Sequence[ToolCall], messages_sent: int) -> SuspendedCall:
    """Return the state of a call that stops until its tool calls are approved or rejected.

    ``messages_sent`` is how many of its tool messages the request already contains.
    """
    state = invocation.state
    return SuspendedCall(
        qualname=invocation.plan.qualname,
        messages=invocation.request.messages,
        tool_messages=tuple(state.tool_messages[messages_sent:]),
        pending=tuple(call.id for call in pending),
        memory_id=invocation.memory_id,
        rounds=state.tool_rounds - 1,
        options=replace(invocation.request.options, extra_headers=None),  # headers may contain a key
        interceptor_data=dict(state.interceptor_data),
        model="" if state.route is None else state.route.model.name,
        user_name=invocation.user_name,
        earlier_messages=tuple(state.tool_messages[:messages_sent]),
        id=os.urandom(16).hex(),
    )


def resumed_invocation(
    plan: CallPlan, suspended: SuspendedCall, approvals: Mapping[str, bool | str], budget: Budget
) -> Invocation:
    """Return the Invocation that continues a suspended call with the decisions about its tool calls.

    Raises TypeError if an argument has another type. Raises ValueError if the state is that of another
    method, is damaged or has expired, if the decisions are not those of the pending calls, and if the model
    that wrote the calls is not among those of the plan.
    """
    if not isinstance(suspended, SuspendedCall):
        kind = type(suspended).__name__
        raise TypeError(
            f"{plan.qualname}: the state is a {kind}; pass a SuspendedCall, "
            "for example from SuspendedCall.from_json(text)"
        )
    if suspended.qualname != plan.qualname:
        raise ValueError(f"the suspended call belongs to {suspended.qualname}, not to {plan.qualname}")
    _check_expiry(suspended)
    _check_decisions(suspended, approvals, plan.qualname)
    messages = [*suspended.earlier_messages, *suspended.tool_messages]
    state = CallState(
        budget,
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
    request = ChatRequest(suspended.messages, suspended.options.with_defaults(plan.options))
    return replace(
        plan.invocation(request, state),
        memory_id=suspended.memory_id,
        user_name=suspended.user_name,
        approvals=approvals,
    )


def _check_decisions(suspended: SuspendedCall, approvals: object, qualname: str) -> None:
    """Raise an error unless ``approvals`` has a decision for each pending tool call and for no others."""
    last = suspended.tool_messages[-1] if suspended.tool_messages else None
    calls = last.tool_calls if isinstance(last, AiMessage) else ()
    waiting = [call.id for call in calls if call.id in suspended.pending]
    if not waiting or len(waiting) != len(suspended.pending):
        raise ValueError(
            f"{qualname}: the state is damaged: the pending calls are not those of its last message"
        )
    if not isinstance(approvals, Mapping):
        raise TypeError(
            f"{qualname}: approvals is {shorten(repr(approvals), 60)}; "
            f"pass a dict with a decision for each id: {', '.join(waiting)}"
        )
    # All decisions are needed at once, because the tools of a round run together.
    undecided = [call_id for call_id in waiting if call_id not in approvals]
    if undecided:
        raise ValueError(f"{qualname}: approvals has no decision for {', '.join(undecided)}")
    for call_id, decision in approvals.items():
        if call_id not in waiting:
            raise ValueError(
                f"{qualname}: approvals has a decision for {call_id!r}, which does not wait; "
                f"the calls that wait: {', '.join(waiting)}"
            )
        if not isinstance(decision, (bool, str)):
            raise ValueError(
                f"{qualname}: the decision for {call_id} is {shorten(repr(decision), 60)}; "
                "it must be True, False, or a text with the reason for a refusal"
            )


def _route_of(suspended: SuspendedCall, plan: CallPlan) -> ModelRoute | None:
    """Return the model that requested the pending tool calls, with its settings; None if it is not known.

    The arguments must be read in the format of that model.
    """
    if not suspended.model:
        return None
    for route in plan.routes:
        if route.model.name == suspended.model:
            return route
    names = ", ".join(route.model.name for route in plan.routes)
    raise ValueError(
        f"{plan.qualname}: the pending calls were written by {suspended.model}, and the service uses "
        f"{names}; add that model, or resume with state._replace(model='') to read the calls as if the "
        "first model had written them"
    )


_NOT_A_STATE = "the text is not a suspended call that to_json wrote"


def _signature(data: Mapping[str, object], key: str | bytes) -> str:
    """Return the HMAC-SHA256 signature of the JSON data of a suspended call.

    It does not depend on the order of keys and on blanks, which a database may change.
    """
    import hmac  # late, because few programs sign states

    secret = key.encode() if isinstance(key, str) else key
    if not secret:
        raise ValueError("the key is empty; pass a secret, for example 32 random bytes")
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hmac.digest(secret, text.encode(), "sha256").hex()


def _check_signature(data: dict[str, object], key: str | bytes | None) -> None:
    """Check and remove the signature in the data of a suspended call. Raises ValueError if it is wrong."""
    signature = data.pop("signature", None)
    if key is None:
        if signature is not None:
            raise ValueError("the suspended call is signed; pass the key to from_json")
        return
    from hmac import compare_digest

    expected = _signature(data, key)
    if signature is None:
        raise ValueError("the suspended call is not signed; pass the key to to_json as well")
    if not isinstance(signature, str) or not compare_digest(signature.encode(), expected.encode()):
        raise ValueError(
            "the signature of the suspended call is wrong: it was changed, or signed with another key"
        )


def _check_expiry(state: SuspendedCall) -> None:
    """Raise ValueError if a suspended call (a call that waits for approval) has expired."""
    if state.expires_at is not None and not time.time() < state.expires_at:
        raise ValueError(f"the suspended call of {state.qualname} has expired; make the call again")


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


def _mapping_to_dict(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _options(data: dict[str, Any]) -> ChatOptions:
    stop = data.get("stop")
    try:
        # not tuple("END"), which would make a stop text of each character
        options = ChatOptions(**{**data, "stop": tuple(stop) if isinstance(stop, list) else stop})
        problems = options.problems("$.options")
    except TypeError as error:
        raise TypeError(f"$.options: {error}") from error
    if problems:
        raise TypeError(str(problems[0]))
    return options
