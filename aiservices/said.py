"""What is said to a model, in whichever way it is written: as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .messages import AiMessage, Message, SystemMessage, UserMessage

__all__ = ["Said", "messages_of"]

# One text of the user, or messages; a pair or a dict of role and text is a message too.
Said: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, Any]]

_ROLES = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "human": UserMessage,
    "assistant": AiMessage,
    "ai": AiMessage,
}


def messages_of(said: Said) -> tuple[Message, ...]:
    """What is said as messages. Raises TypeError or ValueError with what is wrong."""
    if isinstance(said, str):
        return (UserMessage(said),)
    if isinstance(said, Message):
        return (said,)
    return tuple(_message(one) for one in said)


def _message(said: Any) -> Message:
    if isinstance(said, Message):
        return said
    role, text = (said.get("role"), said.get("content")) if isinstance(said, Mapping) else said
    if role not in _ROLES:
        raise ValueError(f"the role {role!r} is unknown; there are: {', '.join(_ROLES)}")
    if not isinstance(text, str):
        raise TypeError(f"the message of the {role} is {type(text).__name__}; it must be text")
    made: Message = _ROLES[role](text)
    return made
