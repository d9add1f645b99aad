"""A call that waits for somebody to approve a tool: where it stands, as a plain value that can be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from .errors import AiServiceError
from .message_json import message_from_dict, message_to_dict
from .messages import Message, ToolCall
from .plan import Turn
from .requests import ChatOptions
from .strategies import INSTRUCTIONS_PLACE

__all__ = ["ApprovalRequiredError", "TurnState", "state_of"]


class TurnState(NamedTuple):
    """Where a call stands that waits: what was said, and what the model wants to have done.

    ``messages`` are those of the request, ``exchanged`` what was said since; its last message holds the
    calls that wait, of which those with an id in ``pending`` have to be approved. ``kept`` is what
    interceptors want to know when it goes on. ``to_json`` and ``from_json`` keep it as text.
    """

    where: str
    messages: tuple[Message, ...]
    exchanged: tuple[Message, ...]
    pending: tuple[str, ...] = ()
    memory_id: Any = None
    rounds: int = 0
    options: ChatOptions = ChatOptions()
    kept: Mapping[str, Any] = MappingProxyType({})

    def to_json(self) -> str:
        """The state as JSON text. Raises TypeError for a memory id that has no JSON form."""
        return json.dumps(
            {
                "place": INSTRUCTIONS_PLACE,
                "where": self.where,
                "messages": [message_to_dict(message) for message in self.messages],
                "exchanged": [message_to_dict(message) for message in self.exchanged],
                "pending": list(self.pending),
                "memory_id": self.memory_id,
                "rounds": self.rounds,
                "options": {name: value for name, value in asdict(self.options).items() if value is not None},
                "kept": dict(self.kept),
            },
            ensure_ascii=False,
            default=_plain,
        )

    @staticmethod
    def from_json(text: str) -> TurnState:
        """The state of ``to_json``. Raises ValueError for what is none."""
        said = json.loads(text)
        try:
            here = json.dumps(said, ensure_ascii=False).replace(said["place"], INSTRUCTIONS_PLACE)
            said = json.loads(here)  # the place of the instructions has another mark in each process
            return TurnState(
                said["where"],
                tuple(map(message_from_dict, said["messages"])),
                tuple(map(message_from_dict, said["exchanged"])),
                tuple(said["pending"]),
                said["memory_id"],
                said["rounds"],
                _options(said["options"]),
                said["kept"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the text is no state of a call: {error!r}") from error


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

    def __init__(self, where: str, calls: tuple[ToolCall, ...], state: TurnState) -> None:
        names = ", ".join(f"{call.name}({call.arguments})" for call in calls)
        super().__init__(f"{where}: somebody has to approve {names}; go on with resume")
        self.calls = calls
        self.state = state


def state_of(turn: Turn, pending: Sequence[ToolCall], since: int) -> TurnState:
    """Where a turn stands whose last message calls tools that have to be approved.

    ``since`` is how much of what was said since the first request is in the present one.
    """
    context = turn.context
    return TurnState(
        turn.plan.where,
        turn.request.messages,
        tuple(context.exchanged[since:]),
        tuple(call.id for call in pending),
        turn.memory_id,
        context.rounds - 1,
        replace(turn.request.options, extra_headers=None),  # they may hold a key
        dict(context.kept),
    )


def _options(said: dict[str, Any]) -> ChatOptions:
    stop = said.get("stop")
    return ChatOptions(**{**said, "stop": None if stop is None else tuple(stop)})
