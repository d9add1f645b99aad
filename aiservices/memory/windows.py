"""How much of a conversation a model is shown: so many messages, or so many tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from ..errors import DefinitionError, Fault
from ..flow import Flow
from ..messages import AiMessage, Message, UserMessage
from ..plan import Turn
from .exchanges import Exchange

__all__ = [
    "Exchange",
    "Fitting",
    "MessageWindow",
    "Seen",
    "TokenWindow",
    "Window",
    "estimated_tokens",
]

_CHARACTERS_OF_A_TOKEN = 4
_TOKENS_AROUND_A_MESSAGE = 4
_TOKENS_OF_A_MEDIUM = 1000


class Seen(NamedTuple):
    """What a model is shown of the past.

    ``instead``: whether the store is to hold this in the place of the past; None: if it forgets what is
    evicted.
    """

    exchanges: tuple[Exchange, ...]
    instead: bool | None = None


class Window(Protocol):
    """Says what a model is shown of ``past``, oldest first, when ``beside`` goes with it.

    ``beside`` is what this call sends in any case: the system message and what the user says now. What is
    seen are whole exchanges. A generator, as interceptors are, so that it may ask a model.
    """

    def view(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], turn: Turn, /) -> Flow[Seen]: ...


@runtime_checkable
class Fitting(Protocol):
    """A window that needs nothing but the messages: it shows the newest exchanges that fit."""

    def fitting(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], /) -> tuple[Exchange, ...]: ...


@dataclass(frozen=True, slots=True)
class MessageWindow:
    """Shows the newest exchanges, so that a request begins with ``max_messages`` messages at most.

    The system message and what the user says now are among them, and are sent in any case; what the model
    says to tools in the call comes on top.
    """

    max_messages: int

    def __post_init__(self) -> None:
        _at_least_one("MessageWindow", "max_messages", self.max_messages)

    def fitting(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], /) -> tuple[Exchange, ...]:
        return _newest(past, self.max_messages - len(beside), len)

    def view(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], turn: Turn, /) -> Flow[Seen]:
        return Seen(self.fitting(past, beside))
        yield


def estimated_tokens(message: Message) -> int:
    """About how many tokens a message has, rather too many than too few.

    Four ASCII characters are one token, each other character is one, and a message has four of its own.
    English text has 4 to 5 characters a token in the tokenizers of today, Chinese 1 to 1.5. An image, a sound
    or a file is taken for 1000, though providers count very differently: pass a ``count`` of your own.
    """
    texts = [message.text]
    if isinstance(message, AiMessage):
        texts += [part for call in message.tool_calls for part in (call.name, call.arguments)]
    tokens = _TOKENS_AROUND_A_MESSAGE
    if isinstance(message, UserMessage):
        tokens += _TOKENS_OF_A_MEDIUM * sum(not isinstance(part, str) for part in message.contents)
    for text in texts:
        if text.isascii():
            tokens += -(-len(text) // _CHARACTERS_OF_A_TOKEN)
        else:
            ascii_only = len(text.encode("ascii", "ignore"))
            tokens += len(text) - ascii_only + -(-ascii_only // _CHARACTERS_OF_A_TOKEN)
    return tokens


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """Shows the newest exchanges, so that a request begins with ``max_tokens`` tokens at most.

    ``count`` gives the tokens of a message; by default they are estimated. As with MessageWindow, the system
    message and what the user says now are counted and sent in any case. Examples, tools and schemas are not
    counted: leave room for them, and for the answer.
    """

    max_tokens: int
    count: Callable[[Message], int] = estimated_tokens

    def __post_init__(self) -> None:
        _at_least_one("TokenWindow", "max_tokens", self.max_tokens)

    def fitting(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], /) -> tuple[Exchange, ...]:
        return _newest(past, self.max_tokens - self._size(beside), self._size)

    def view(self, past: tuple[Exchange, ...], beside: tuple[Message, ...], turn: Turn, /) -> Flow[Seen]:
        return Seen(self.fitting(past, beside))
        yield

    def _size(self, messages: Sequence[Message]) -> int:
        return sum(map(self.count, messages))


def _newest(past: tuple[Exchange, ...], room: int, size: Callable[[Exchange], int]) -> tuple[Exchange, ...]:
    """The newest exchanges that fit into the room; one that does not ends it, for there must be no gap."""
    first = len(past)
    while first and (room := room - size(past[first - 1])) >= 0:
        first -= 1
    return past[first:]


def _at_least_one(window: str, name: str, value: int) -> None:
    if value < 1:
        raise DefinitionError([Fault(window, f"{name} is {value}; it must be at least 1")])
