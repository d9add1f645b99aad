"""Remembers conversations: a call is given what was said before, and what it says is kept once accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from ..engine.effects import Flow, Run, Sleep
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation
from ..interface.parameters import Role
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import Message, SystemMessage, UserMessage, message_from_dict, message_to_dict
from .conversation_lock import Line, MemoryBusyError, Place, line_of
from .history import Exchange, Sent, asked_of, exchange_of, exchanges_of, flat, system_of
from .stores import ChatMemoryStore, InMemoryChatMemoryStore, Stored
from .windows import MessageWindow, Seen, Window

_DEFAULT = MessageWindow(40)
_KEPT = "memory.asked"
_CONVERSATION = "default"  # of methods without a MemoryId
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.02
WhenBusy = Literal["wait", "refuse"]


class _Recalled(NamedTuple):
    """A turn that holds the past, and how its exchange is to be written."""

    invocation: Invocation
    write: Callable[[Exchange], int]


class ChatMemory:
    """Gives a service a memory; an interceptor, for ``create(…, interceptors=[ChatMemory()])``.

    A conversation is named by the parameter ``Annotated[str, MemoryId]`` of a method (an int or a UUID will
    do); the methods that have none share one. ``window`` says how much of it a model is shown, ``store``
    where it is kept: by default in this process.

    What is kept are the user message, the calls of tools with their results, and the answer, all at once and
    only when the answer was accepted: a call that fails, is refused, cancelled, or whose stream is left
    before its end leaves no trace. So put it before the interceptors that may refuse an answer or put what
    they retrieved into the message, and after those that change what the user said, such as one that takes
    out names. With ``store_as_sent`` the user message is kept as the model saw it, with what was retrieved
    and with format instructions.

    The system message is that of the method; where it has none, the newest that the store holds. It goes
    first, and is not written to the store. All exchanges stay in the store as a history, unless
    ``forget_evicted``: then those that do not fit the window any more are removed.

    Calls in one conversation wait for each other, in the order in which they come, but no longer than their
    budget has seconds, or ``longest_wait`` seconds (None: without end); with ``when_busy="refuse"`` they
    raise MemoryBusyError at once. Other processes do not wait: of two that wrote at the same time, the later
    gets a MemoryConflictError, and nothing is written over.
    """

    def __init__(
        self,
        window: Window = _DEFAULT,
        *,
        store: ChatMemoryStore | None = None,
        when_busy: WhenBusy = "wait",
        longest_wait: float | None = 300.0,
        store_as_sent: bool = False,
        forget_evicted: bool = False,
    ) -> None:
        if when_busy not in get_args(WhenBusy):
            said = f"when_busy is {when_busy!r}; it must be one of wait, refuse"
            raise DefinitionError([DefinitionProblem("ChatMemory", said)])
        self.window = window
        self.store: ChatMemoryStore = InMemoryChatMemoryStore() if store is None else store
        self._line: Line = line_of(self.store)
        self._in_thread: bool = getattr(self.store, "blocks", True)
        self._refuse = when_busy == "refuse"
        self._longest_wait = longest_wait
        self._as_sent = store_as_sent
        self.position_name = "memory as sent" if store_as_sent else "memory"
        self._forget = forget_evicted

    def messages(self, conversation: str = _CONVERSATION) -> tuple[Message, ...]:
        """All that the store holds of a conversation. Blocks as the store does."""
        return self.store.load(conversation).messages

    def forget(self, conversation: str = _CONVERSATION) -> None:
        """Remove a conversation from the store. Blocks as the store does."""
        self.store.delete(conversation)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        place = self._line.join(_conversation_of(invocation))
        try:
            yield from self._wait(place, invocation)
            place.enter()
            stored = yield Run(partial(self.store.load, place.conversation), self._in_thread)
            invocation, write = yield from self._recall(place.conversation, stored, invocation)
            asked, sent = _asked(invocation), Sent()
            answer = yield from proceed(sent.noting(invocation) if self._as_sent else invocation)
            exchange = exchange_of(sent.message or asked, answer)
            yield Run(place.finishing(partial(write, exchange)), self._in_thread)
            return answer
        finally:
            place.leave()

    def _wait(self, place: Place, invocation: Invocation) -> Flow[None]:
        """Wait until the conversation is free. Raises MemoryBusyError or BudgetExceededError."""
        wait, waited, context = _FIRST_WAIT, 0.0, invocation.state
        while not place.first:
            if self._refuse:
                raise MemoryBusyError(place.conversation, "another call is in it; make this one later")
            if self._longest_wait is not None and waited >= self._longest_wait:
                said = f"another call was in it for {waited:.1f} s; raise longest_wait"
                raise MemoryBusyError(place.conversation, said)
            exceeded = context.exceeded()
            if exceeded is not None:
                raise exceeded
            left = context.seconds_left
            wait = wait if left is None else min(wait, max(left, 0.0))
            yield Sleep(wait)
            waited, wait = waited + wait, min(wait * 2, _LONGEST_WAIT)

    def _recall(self, conversation: str, stored: Stored, invocation: Invocation) -> Flow[_Recalled]:
        """The turn with what was said before it."""
        append = partial(self.store.append, conversation, stored.version)
        if invocation.is_resumed:
            return _Recalled(invocation, append)
        own = invocation.request.messages
        system = system_of(own) or system_of(stored.messages)
        first: tuple[Message, ...] = () if system is None else (system,)
        rest = tuple(message for message in own if not isinstance(message, SystemMessage))
        past = exchanges_of(stored.messages)
        seen: Seen = yield from self.window.view(past, (*first, *rest), invocation)
        request = replace(invocation.request, messages=(*first, *flat(seen.exchanges), *rest))
        recalled = replace(invocation, request=request)
        evicted = self._forget and len(seen.exchanges) < len(past)
        if not (evicted if seen.instead is None else seen.instead):
            return _Recalled(recalled, append)
        kept_system = system_of(stored.messages)
        kept = (*(() if kept_system is None else (kept_system,)), *flat(seen.exchanges))

        def rewrite(exchange: Exchange) -> int:
            return self.store.replace(conversation, stored.version, (*kept, *exchange))

        return _Recalled(recalled, rewrite)


def _conversation_of(invocation: Invocation) -> str:
    """The id of the conversation that a turn belongs to. Raises TypeError or ValueError when it is none."""
    given: Any = invocation.memory_id
    where = invocation.plan.where
    if given is None and all(
        parameter.role is not Role.MEMORY_ID for parameter in invocation.plan.parameters
    ):
        return _CONVERSATION
    if isinstance(given, bool) or not isinstance(given, (str, int, UUID)):
        kind = "None" if given is None else type(given).__name__
        raise TypeError(f"{where}: the memory id is {kind}; it must be a str, an int or a UUID")
    named = str(given)
    if not named.strip():
        said = "it must name a conversation, else all users without a name would share one"
        raise ValueError(f"{where}: the memory id is {named!r}; {said}")
    return named


def _asked(invocation: Invocation) -> UserMessage | None:
    """What the user says; of a call that waited, what was said then, without what was put into it since."""
    kept = invocation.state.kept
    if invocation.is_resumed and _KEPT in kept:
        message = message_from_dict(kept[_KEPT])
        return message if isinstance(message, UserMessage) else None
    asked = asked_of(invocation)
    if asked is not None:
        kept[_KEPT] = message_to_dict(asked)
    return asked
