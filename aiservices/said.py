"""What is said to a model, in whichever way it is written: as messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .errors import Fault
from .messages import AiMessage, Message, SystemMessage, UserMessage

__all__ = ["Said", "messages_of"]

# One text of the user, or messages; a pair or a dict of role and text is a message too.
Said: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, Any]]

_ROLES: dict[Any, type[SystemMessage | UserMessage | AiMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "human": UserMessage,
    "assistant": AiMessage,
    "ai": AiMessage,
}
_FORMS = "a message, a pair of role and text, or a dict with role and content"


def messages_of(said: Said, where: str, faults: list[Fault]) -> tuple[Message, ...]:
    """What is said as messages; what is wrong with any of them goes to ``faults``."""
    if isinstance(said, str):
        return (UserMessage(said),)
    if isinstance(said, Message):
        return (said,)
    if isinstance(said, (bytes, Mapping)) or not isinstance(said, Iterable):
        wanted = f"it takes a text, a message, or a list in which each is {_FORMS}"
        faults.append(Fault(where, f"what is said is {type(said).__name__}; {wanted}"))
        return ()
    messages = []
    for number, one in enumerate(said, 1):
        message = _message(one, f"{where}, message {number}", faults)
        if message is not None:
            messages.append(message)
    if not messages and not faults:
        faults.append(Fault(where, "nothing is said; give at least one message"))
    return tuple(messages)


def _message(said: Any, where: str, faults: list[Fault]) -> Message | None:
    if isinstance(said, Message):
        return said
    if isinstance(said, Mapping):
        role, text = said.get("role"), said.get("content")
    elif isinstance(said, (tuple, list)) and len(said) == 2:
        role, text = said
    else:
        faults.append(Fault(where, f"it is {type(said).__name__}; it must be {_FORMS}"))
        return None
    known = isinstance(role, str) and role in _ROLES
    if not known:
        faults.append(Fault(where, f"the role {role!r} is unknown; there are: {', '.join(_ROLES)}"))
    if not isinstance(text, str):
        faults.append(Fault(where, f"its content is {type(text).__name__}; it must be text"))
        return None
    return _ROLES[role](text) if known else None
