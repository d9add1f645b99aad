"""A call that waits for somebody to approve a tool: where it stands, as a plain value that can be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from ..interface.parameters import Role
from ..models.errors import AiServiceError
from ..models.messages import Message, ToolCall, message_from_dict, message_to_dict
from ..models.requests import ChatOptions
from .output_format import INSTRUCTIONS_PLACE
from .plan import Invocation

T = TypeVar("T")


class SuspendedCall(NamedTuple):
    """Where a call stands that waits: what was said, and what the model wants to have done.

    ``messages`` are those of the request, ``tool_messages`` what was said since; its last message holds the
    calls that wait, of which those with an id in ``pending`` have to be approved. ``kept`` is what
    interceptors want to know when it goes on. ``model`` is the name of the model that made the calls, which
    are read in the form in which it was told to write them; "" where that is not known. ``memory_id`` and
    ``user_name`` are the arguments with these roles. ``before`` is what was said with tools before an answer
    was asked for again; ``messages`` hold that too. ``to_json`` and ``from_json`` keep it as text.
    """

    where: str
    messages: tuple[Message, ...]
    tool_messages: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    memory_id: Any = None
    rounds: int = 0
    options: ChatOptions = ChatOptions()
    kept: Mapping[str, Any] = MappingProxyType({})
    model: str = ""
    user_name: Any = None
    before: tuple[Message, ...] = ()

    def to_json(self) -> str:
        """The state as JSON text. Raises TypeError for a memory id or a user name that has no JSON form."""
        return json.dumps(
            {
                "place": INSTRUCTIONS_PLACE,
                "where": self.where,
                "messages": [message_to_dict(message) for message in self.messages],
                "exchanged": [message_to_dict(message) for message in self.tool_messages],
                "pending": list(self.pending),
                "memory_id": self.memory_id,
                "rounds": self.rounds,
                "options": {name: value for name, value in asdict(self.options).items() if value is not None},
                "kept": dict(self.kept),
                "model": self.model,
                "user_name": self.user_name,
                "before": [message_to_dict(message) for message in self.before],
            },
            ensure_ascii=False,
            default=_plain,
        )

    @staticmethod
    def from_json(text: str) -> SuspendedCall:
        """The state of ``to_json``, also of a version that kept less of it.

        Raises ValueError for what is none.
        """
        said = json.loads(text)
        try:
            place = _of(said, "place", str)
            if not place:
                raise TypeError("place is empty")
            # the place of the instructions has another mark in each process
            said = json.loads(json.dumps(said, ensure_ascii=False).replace(place, INSTRUCTIONS_PLACE))
            return SuspendedCall(
                _of(said, "where", str),
                tuple(map(message_from_dict, _of(said, "messages", list))),
                tuple(map(message_from_dict, _of(said, "exchanged", list))),
                tuple(map(str, _of(said, "pending", list))),
                said["memory_id"],
                _of(said, "rounds", int),
                _options(_of(said, "options", dict)),
                _of(said, "kept", dict),
                _of({"model": "", **said}, "model", str),
                said.get("user_name"),
                tuple(map(message_from_dict, _of({"before": [], **said}, "before", list))),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the text is no state of a call: {error!r}") from error


def _of(said: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = said[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}")
    return value


def _plain(value: Any) -> Any:
    """The JSON form of a mapping that is no dict."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


class ApprovalRequiredError(AiServiceError):
    """A tool that needs approval was called: nothing of that round has run.

    ``calls`` wait to be approved, ``state`` is where the call stands. ``resume(method, state, approvals)``
    goes on; the state can be kept as text until then, in another process too.
    """

    def __init__(self, where: str, calls: tuple[ToolCall, ...], state: SuspendedCall) -> None:
        names = ", ".join(f"{call.name}({call.arguments})" for call in calls)
        super().__init__(f"{where}: somebody has to approve {names}; go on with resume")
        self.calls = calls
        self.state = state


def state_of(invocation: Invocation, pending: Sequence[ToolCall], since: int) -> SuspendedCall:
    """Where a turn stands whose last message calls tools that have to be approved.

    ``since`` is how much of what was said since the first request is in the present one.
    """
    context = invocation.state
    named = (p.name for p in invocation.plan.parameters if p.role is Role.USER_NAME)
    return SuspendedCall(
        where=invocation.plan.where,
        messages=invocation.request.messages,
        tool_messages=tuple(context.tool_messages[since:]),
        pending=tuple(call.id for call in pending),
        memory_id=invocation.memory_id,
        rounds=context.rounds - 1,
        options=replace(invocation.request.options, extra_headers=None),  # they may hold a key
        kept=dict(context.kept),
        model="" if context.route is None else context.route.model.name,
        user_name=next((invocation.arguments.get(name) for name in named), None),
        before=tuple(context.tool_messages[:since]),
    )


def _options(said: dict[str, Any]) -> ChatOptions:
    stop = said.get("stop")
    return ChatOptions(**{**said, "stop": None if stop is None else tuple(stop)})
