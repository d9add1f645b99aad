"""Suspend a call until its tool calls are approved, and resume it later, also in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

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

    def to_json(self) -> str:
        """Return the suspended call as JSON text.

        Raises TypeError if the memory id or the user name cannot be written as JSON.
        """
        # The JSON keys are a stored format: they stay as they are when fields are renamed.
        return json.dumps(
            {
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
            },
            ensure_ascii=False,
            default=_mapping_to_dict,
        )

    @staticmethod
    def from_json(text: str) -> SuspendedCall:
        """Parse the JSON text of a suspended call.

        Text from an older version, with fewer keys, is accepted. Raises ValueError for other text.
        """
        data = json.loads(text)
        try:
            mark = _get(data, "place", str)
            if not mark:
                raise TypeError("place is empty")
            # The mark of the process that wrote the state is replaced by that of this one.
            data = json.loads(json.dumps(data, ensure_ascii=False).replace(mark, INSTRUCTIONS_MARK))
            return SuspendedCall(
                _get(data, "where", str),
                tuple(map(message_from_dict, _get(data, "messages", list))),
                tuple(map(message_from_dict, _get(data, "exchanged", list))),
                tuple(map(str, _get(data, "pending", list))),
                data["memory_id"],
                _get(data, "rounds", int),
                _options(_get(data, "options", dict)),
                _get(data, "kept", dict),
                _get({"model": "", **data}, "model", str),
                data.get("user_name"),
                tuple(map(message_from_dict, _get({"before": [], **data}, "before", list))),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the text is not a suspended call that to_json wrote: {error!r}") from error


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
    """Return the state of a call that stops because tool calls must be approved.

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
    )


def resumed_invocation(
    plan: CallPlan, suspended: SuspendedCall, approvals: Mapping[str, bool | str], budget: Budget
) -> Invocation:
    """Return the invocation that continues a suspended call.

    Raises ValueError if the state is that of another method, if a pending call is not decided, and if the
    model that wrote the calls is not among those of the plan.
    """
    if suspended.qualname != plan.qualname:
        raise ValueError(f"the suspended call belongs to {suspended.qualname}, not to {plan.qualname}")
    last = suspended.tool_messages[-1] if suspended.tool_messages else None
    calls = last.tool_calls if isinstance(last, AiMessage) else ()
    # All decisions are needed at once, because the tools of a round run together.
    undecided = [call.id for call in calls if call.id in suspended.pending and call.id not in approvals]
    if undecided:
        raise ValueError(f"{plan.qualname}: approvals has no decision for {', '.join(undecided)}")
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
    )
    request = ChatRequest(suspended.messages, suspended.options.with_defaults(plan.options))
    return replace(
        plan.invocation(request, state),
        memory_id=suspended.memory_id,
        user_name=suspended.user_name,
        approvals=approvals,
    )


def _route_of(suspended: SuspendedCall, plan: CallPlan) -> ModelRoute | None:
    """Return the route of the model that wrote the pending tool calls; None if it is not known.

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


def _get(data: Mapping[str, object], name: str, kind: type[T]) -> T:
    value = data[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {kind.__name__}, found {value!r}")
    return value


def _mapping_to_dict(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _options(data: dict[str, Any]) -> ChatOptions:
    stop = data.get("stop")
    return ChatOptions(**{**data, "stop": None if stop is None else tuple(stop)})
