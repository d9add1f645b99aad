"""ChatMemory: middleware that stores conversations and lets one call at a time use a conversation."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast, get_args
from weakref import WeakKeyDictionary

from ..engine.approval import AlreadyResumedError
from ..engine.effects import Flow, Run, Sleep
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.operations import Operation, observed
from ..engine.plan import Invocation
from ..engine.results import Answer, exchange_of
from ..interface.parameters import memory_id_problem, memory_id_text
from ..models.arguments import checks_arguments, is_at_least
from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    MemoryBusyError,
    MemoryConflictError,
    MemoryIdError,
    MemoryStoreError,
)
from ..models.messages import Message, SystemMessage, UserMessage, message_to_dict
from .stores import (
    RESUMED_PREFIX,
    ChatMemoryStore,
    InMemoryChatMemoryStore,
    StoredConversation,
    store_error,
)
from .windows import (
    Exchange,
    MessageWindow,
    SentMessageRecorder,
    Window,
    WindowView,
    join_exchanges,
    last_system_message,
    split_exchanges,
    user_message_from_dict,
    user_message_of,
)

# --- The lock of a conversation ---

# ``ChatMemory`` takes a ticket, polls until it is the first in the queue, and releases it when the exchange
# is written. Nothing in this module blocks, so the same code serves blocking and async calls.

T = TypeVar("T")
_log = logging.getLogger("aiservices")


class ConversationLocks:
    """The locks of all conversations in one store; each lock has a queue of waiting calls."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: dict[str, deque[Ticket]] = {}

    def enqueue(self, conversation: str) -> Ticket:
        """Add a call to the queue for a conversation, and return the call's ticket.

        Raises:
            MemoryBusyError: if this call runs inside another call of the same conversation, which would
                wait for itself forever.
        """
        if any(ticket.is_first and ticket.is_for(self, conversation) for ticket in _OWN_TICKETS.get()):
            raise MemoryBusyError(
                conversation,
                "this call is made inside another call of the same conversation and would wait for itself",
            )
        ticket = Ticket(self, conversation)
        with self.lock:
            self.queues.setdefault(conversation, deque()).append(ticket)
        return ticket

    def mark_forgotten(self, conversation: str) -> None:
        """Tell the calls that use or wait for a conversation that it was deleted."""
        with self.lock:
            for ticket in self.queues.get(conversation, ()):
                ticket.is_forgotten = True


class Ticket:
    """A service call's place in the queue of calls that wait to use the same conversation.

    The call at the front holds the lock.
    """

    def __init__(self, locks: ConversationLocks, conversation: str) -> None:
        self._locks = locks
        self.conversation = conversation
        self.is_forgotten = False
        self._released = False
        self._finishing = False

    @property
    def is_first(self) -> bool:
        """True if this call is at the front of the queue, so that it may use the conversation."""
        with self._locks.lock:
            queue = self._locks.queues.get(self.conversation)
            return queue is not None and queue[0] is self

    def is_for(self, locks: ConversationLocks, conversation: str) -> bool:
        """Return True if this ticket belongs to the given conversation and store."""
        return self._locks is locks and self.conversation == conversation

    def register(self) -> None:
        """Remember that this call holds a conversation's lock, to detect deadlocks."""
        _OWN_TICKETS.set((*(ticket for ticket in _OWN_TICKETS.get() if ticket.is_first), self))

    def release_after(self, work: Callable[[], T]) -> Callable[[], T | None]:
        """Wrap a function so that the lock of the conversation is released when the function ends.

        The function may run in a thread, and cancelling a call does not stop its thread. So the work does
        not start if the ticket was released before, and once it runs, only its end releases the ticket.
        """

        def finish() -> T | None:
            with self._locks.lock:
                if self._released:
                    return None
                self._finishing = True
            try:
                return work()
            finally:
                self._finishing = False
                self.release()

        return finish

    def release(self) -> None:
        """Release the conversation's lock, so that the next waiting call can use the conversation.

        Does nothing if the ticket is released already, or while the function of ``release_after`` runs.
        """
        with self._locks.lock:
            if self._released or self._finishing:
                return
            self._released = True
            queue = self._locks.queues[self.conversation]
            queue.remove(self)
            if not queue:
                del self._locks.queues[self.conversation]
        tickets = _OWN_TICKETS.get()
        if self in tickets:
            _OWN_TICKETS.set(tuple(ticket for ticket in tickets if ticket is not self))


# The tickets of the calls that contain the current code. A generator may be closed in another context
# than the one where it started, and its ticket then stays in this variable. Therefore a ticket counts only
# while it is the first of its queue.
_OWN_TICKETS: ContextVar[tuple[Ticket, ...]] = ContextVar("aiservices_memory_held_tickets", default=())
_LOCKS_OF_STORES: WeakKeyDictionary[object, ConversationLocks] = WeakKeyDictionary()
_REGISTRY_LOCK = threading.Lock()


def locks_of(store: object) -> ConversationLocks:
    """Return the locks of a store's conversations, which all chat memories with this store share."""
    try:
        with _REGISTRY_LOCK:
            return _LOCKS_OF_STORES.setdefault(store, ConversationLocks())
    except TypeError:  # the store is unhashable or has no weak references, so its locks cannot be shared
        return ConversationLocks()


_DEFAULT_WINDOW = MessageWindow(40)
_DEFAULT_CONVERSATION = "default"  # the id for methods without a MemoryId and without a namespace
_STATE_KEY = "memory.asked"  # part of stored states, so it must not change
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.02  # seconds between two checks of the queue
WhenBusy = Literal["wait", "refuse"]


def _window_problems(window: object) -> Iterator[str]:
    if isinstance(window, type) or not callable(getattr(window, "view", None)):
        hint = f"MessageWindow({window})" if isinstance(window, int) else "one such as MessageWindow(20)"
        yield f"{window!r} is not a window; pass {hint}"


def _store_problems(store: object) -> Iterator[str]:
    is_object = not isinstance(store, type)
    if store is None or (is_object and callable(getattr(store, "load", None))):
        return
    hint = "a store such as SqliteChatMemoryStore(path)"
    if isinstance(store, str) and "://" in store:
        is_redis = store.startswith(("redis", "unix"))
        hint = "RedisChatMemoryStore(url)" if is_redis else "SqlAlchemyChatMemoryStore(url)"
    elif isinstance(store, type):
        hint = f"an object of it, as in {store.__name__}(…)"
    # the value is not quoted: a URL may have a password
    kind = "a class" if isinstance(store, type) else f"of the type {type(store).__name__}"
    yield f"store is {kind}; pass {hint}"


class _Recalled(NamedTuple):
    """A service call with earlier messages in its request, and how the new messages are stored."""

    invocation: Invocation
    write: Callable[[Exchange], int]
    version: int


@checks_arguments
class ChatMemory(BaseInterceptor):
    """Interceptor that stores conversations and adds the earlier messages to each request.

    The parameter ``Annotated[str, MemoryId]`` of a method names the conversation. An int, a UUID and a frozen
    record of them are accepted, too; records are stored under their canonical JSON. Without such a parameter,
    a service has one conversation, and an agent always has one. Services over HTTP are refused then, because
    all callers would share it, unless ``shared_by_callers`` is set.

    Each service and each agent has conversations of its own, under its name, even if several use one memory
    or one store. With the same ``namespace`` they share them.

    An exchange is stored as a whole when its answer was accepted: the user message, the tool calls with their
    results, and the answer. An empty answer is not stored, and neither is its question. A call that fails or
    is cancelled, and a stream that is not read to its end, store nothing. Place ChatMemory before
    interceptors that reject answers or add retrieved text to the message, and after interceptors that change
    what the user wrote, for example by masking names.

    A request contains the system message of the method, or the newest one in the store if the method has
    none. System messages are not written to the store. Calls of one conversation run one after the other, in
    the order of their arrival. A call that waited for approval can be resumed once: the store records it.
    Other processes are not locked out: if two of them write to a conversation at
    the same time, the later one gets a MemoryConflictError and nothing is overwritten.

    Args:
        window: Selects the part of the conversation that the model sees. By default the last 40 messages.
        store: Stores the conversations. By default they are held in this process.
        when_busy: "wait" until other calls of the conversation are done, or "refuse" with a MemoryBusyError.
        timeout: Seconds to wait for other calls of the conversation, or None to wait without a limit. The
            seconds of the call's budget limit the wait as well.
        store_as_sent: Store the user message as the model saw it, with retrieved text and format
            instructions, instead of as the user wrote it.
        namespace: The name under which the conversations are stored, instead of the name of the service or
            agent. The id of a conversation in the store is ``NAMESPACE/MEMORY_ID``; with "" it is the memory
            id.
        shared_by_callers: Serve methods without a MemoryId over HTTP, although all callers then share one
            conversation and see what the others wrote.
        forget_evicted: Remove exchanges from the store that no longer fit the window. By default the
            store keeps the whole history.
    """

    def __init__(
        self,
        window: Window = _DEFAULT_WINDOW,
        *,
        store: ChatMemoryStore | None = None,
        when_busy: WhenBusy = "wait",
        timeout: float | None = 300.0,
        store_as_sent: bool = False,
        forget_evicted: bool = False,
        namespace: str | None = None,
        shared_by_callers: bool = False,
    ) -> None:
        messages = [*_window_problems(window), *_store_problems(store)]
        if when_busy not in get_args(WhenBusy):
            messages.append(f"when_busy is {when_busy!r}; it must be one of wait, refuse")
        if timeout is not None and not is_at_least(timeout, 0):
            messages.append(f"timeout is {timeout!r}; it must not be negative")
        if messages:
            raise DefinitionError([DefinitionProblem("ChatMemory", message) for message in messages])
        self.window = window
        self.store: ChatMemoryStore = InMemoryChatMemoryStore() if store is None else store
        self._locks: ConversationLocks = locks_of(self.store)
        self._load = _loader(self.store)
        self._in_thread: bool = getattr(self.store, "blocks", True)
        self._refuse = when_busy == "refuse"
        self._timeout = timeout
        self._as_sent = store_as_sent
        kinds = InterceptorKind
        self.position_name = kinds.MEMORY_AS_SENT if store_as_sent else kinds.MEMORY
        self._forget_evicted = forget_evicted
        self._namespace = namespace
        self.shared_by_callers = shared_by_callers
        self._owners: dict[str, str] = {}  # by the names of the services and agents that use this memory

    def messages(self, memory_id: object = None, *, service: str | None = None) -> tuple[Message, ...]:
        """Return all stored messages of a conversation.

        Blocks if reading from the store blocks.

        Args:
            memory_id: The memory id; None for the conversation of methods without one.
            service: The name of the service or agent, if several use this memory.
        """
        conversation = self._stored_id(memory_id, service)
        with self._store_errors("read", conversation):
            return self.store.load(conversation).messages

    def forget(self, memory_id: object = None, *, service: str | None = None) -> None:
        """Delete all stored messages of a conversation.

        Calls of the conversation that run in this process end without being stored. Blocks if writing to the
        store blocks. The arguments are the same as for ``messages``.
        """
        conversation = self._stored_id(memory_id, service)
        self._locks.mark_forgotten(conversation)
        deletion = Operation("delete_memory", self.store, conversation=conversation)
        with self._store_errors("delete", conversation):
            observed(deletion, self.store.delete)(conversation)

    def add_service(self, name: str, owner: str, *, has_default_conversation: bool) -> None:
        """Register a service or agent that uses this memory, or raise an error if its name is taken.

        Args:
            name: The name of the service or agent.
            owner: The module and name of the interface, which tells services of the same name apart.
            has_default_conversation: True if some calls have no memory id.

        Raises:
            DefinitionError: Another one of the same name uses this memory, so both would continue the same
                conversation.
        """
        same_name = self._namespace is None and name in self._owners
        if same_name and (has_default_conversation or self._owners[name] != owner):
            problem = (
                f"another service or agent named {name} uses the same ChatMemory, so each would continue "
                f"the conversation of the other; if they should, pass ChatMemory(namespace={name!r}), "
                "otherwise a ChatMemory with another namespace to each"
            )
            raise DefinitionError([DefinitionProblem(name, problem)])
        self._owners[name] = owner

    def _stored_id(self, memory_id: object, service: str | None) -> str:
        """Return the id under which a conversation of a service or agent is stored.

        Raises ValueError without a name if several services use this memory.
        """
        if service is None and self._namespace is None:
            if len(self._owners) != 1:
                names = ", ".join(self._owners) or "none yet"
                raise ValueError(
                    "ChatMemory: pass service=, the name of the service or agent that has the conversation; "
                    f"those that use this memory: {names}"
                )
            (service,) = self._owners
        conversation = None if memory_id is None else memory_id_text(memory_id)
        return self._id_in_namespace(conversation, service or "")

    def _id_in_namespace(self, memory_id: str | None, service: str) -> str:
        namespace = service if self._namespace is None else self._namespace
        if not namespace:
            return _DEFAULT_CONVERSATION if memory_id is None else memory_id
        # so that an agent named "A/b" does not get the conversation of the user b of the service A
        prefix = namespace.replace("%", "%25").replace("/", "%2F")
        return prefix if memory_id is None else f"{prefix}/{memory_id}"

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        qualname = invocation.plan.qualname
        service = qualname.rpartition(".")[0] or qualname  # "structured" has no method
        self._owners.setdefault(service, service)
        ticket = self._locks.enqueue(self._id_in_namespace(_memory_id_of(invocation), service))
        try:
            yield from self._wait(ticket, invocation)
            ticket.register()
            conversation = ticket.conversation
            is_claimed = invocation.state.recording is not None  # a durable call resumes once by itself
            if invocation.is_resumed and invocation.state.suspended_id and not is_claimed:
                with self._store_errors("write", conversation):
                    claim = partial(self._claim_state, invocation)
                    yield Run(claim, in_thread=self._in_thread, deadline=math.inf)
            invocation, write, version = yield from self._recall(conversation, invocation)
            user_message, recorder = _recorded_user_message(invocation), SentMessageRecorder()
            answer = yield from proceed(recorder.watch(invocation) if self._as_sent else invocation)
            # the recorder is empty if an interceptor answered and no request was sent
            exchange = exchange_of(recorder.message or user_message, answer)
            if not exchange or ticket.is_forgotten:  # an empty answer is not stored
                return answer
            try:
                if (yield from self._is_stored(conversation, exchange, version, invocation)):
                    return answer
                with self._store_errors("write", conversation):
                    writing = Operation("upsert_memory", self.store, exchange, conversation)
                    save = ticket.release_after(
                        partial(self._save, ticket, observed(writing, write), exchange)
                    )
                    yield Run(save, in_thread=self._in_thread, deadline=math.inf)
            except (MemoryConflictError, MemoryStoreError) as error:
                if isinstance(error, MemoryConflictError) and ticket.is_forgotten:
                    return answer
                error.reply, error.value = answer.reply, answer.value
                raise
            return answer
        finally:
            ticket.release()

    def _is_stored(
        self, conversation: str, exchange: Exchange, version: int, invocation: Invocation
    ) -> Flow[bool]:
        """Return True if a durable call has stored its exchange before its process was killed."""
        recording = invocation.state.recording
        if recording is None:
            return False
        begun = yield from recording.begin("memory", {"version": version})
        if begun is None or begun["version"] == version:
            return False
        stored = yield from self._loaded(conversation, None, invocation)
        return tuple(exchange) in split_exchanges(stored.messages)

    def _save(
        self, ticket: Ticket, write: Callable[[Exchange], int], exchange: Exchange
    ) -> Awaitable[None] | None:
        """Write an exchange, and delete it again if the conversation was forgotten in the meantime."""
        version: object = write(exchange)
        if inspect.isawaitable(version):  # an async store
            return self._asave(ticket, version)
        if ticket.is_forgotten:
            self.store.delete(ticket.conversation)
        return None

    async def _asave(self, ticket: Ticket, write: Awaitable[object]) -> None:
        await write
        if ticket.is_forgotten:
            delete: Any = self.store.delete
            await delete(ticket.conversation)

    @contextmanager
    def _store_errors(self, action: str, conversation: str) -> Iterator[None]:
        """Context manager that converts a conversation store's exceptions to MemoryStoreError.

        Errors of this package are raised unchanged.
        """
        try:
            yield
        except AiServiceError:
            raise
        except Exception as error:  # a store may raise anything
            raise store_error(self.store, action, conversation, error) from error

    def _wait(self, ticket: Ticket, invocation: Invocation) -> Flow[None]:
        """Wait until all earlier calls with the same conversation have ended.

        Raises MemoryBusyError or BudgetExceededError if that takes too long.
        """
        # Polling, because the calls may run in threads and in several event loops, which share no condition
        # variable. The waits get longer, so that long waits cost little.
        wait, waited, state = _FIRST_WAIT, 0.0, invocation.state
        while not ticket.is_first:
            if self._refuse:
                raise MemoryBusyError(ticket.conversation, "another call uses it; make this call later")
            if self._timeout is not None and waited >= self._timeout:
                reason = f"another call used it for {waited:.1f} s; raise timeout"
                raise MemoryBusyError(ticket.conversation, reason)
            exceeded = state.exceeded()
            if exceeded is not None:
                raise exceeded
            left = state.seconds_left
            wait = wait if left is None else min(wait, max(left, 0.0))
            yield Sleep(wait)
            waited, wait = waited + wait, min(wait * 2, _LONGEST_WAIT)

    def _loaded(
        self, conversation: str, last: int | None, invocation: Invocation
    ) -> Flow[StoredConversation]:
        """Return the newest ``last`` messages of a conversation; all messages if ``last`` is None.

        Raises BudgetExceededError if the store answered after the end of the budget.
        """
        load = observed(Operation("search_memory", self.store, conversation=conversation), self._load)
        with self._store_errors("read", conversation):
            stored: StoredConversation = yield Run(
                partial(load, conversation, last), in_thread=self._in_thread
            )
        left = invocation.state.seconds_left
        exceeded = None if left is None or left > 0 else invocation.state.exceeded()
        if exceeded is not None:
            raise exceeded
        return stored

    def _claim_state(self, invocation: Invocation) -> None:
        """Record that a suspended call continues, so that it cannot continue a second time.

        Raises AlreadyResumedError if the call was continued before. The record is written before the tools
        run, so a resumed call that fails cannot run them again either.
        """
        state_id = invocation.state.suspended_id
        record = SystemMessage(f"resumed: {invocation.plan.qualname}")
        try:
            # in a separate conversation, so that every store writes it atomically
            self.store.append(f"{RESUMED_PREFIX}{state_id}", [record], expected=0)
        except MemoryConflictError as error:
            raise AlreadyResumedError(invocation.plan.qualname, state_id) from error

    def _recall(self, conversation: str, invocation: Invocation) -> Flow[_Recalled]:
        """Load a conversation, and add the messages that the window selects to the chat request."""
        if invocation.is_resumed:  # the earlier messages were added before the call waited for approval
            stored = yield from self._loaded(conversation, 1, invocation)
            return _Recalled(invocation, self._writer(conversation, stored, None), stored.version)
        messages = invocation.request.messages
        rest = tuple(message for message in messages if not isinstance(message, SystemMessage))
        own_system_message = last_system_message(messages)
        last: int | None = getattr(self.window, "messages_to_load", None)
        while True:
            stored = yield from self._loaded(conversation, last, invocation)
            system_message = own_system_message or last_system_message(stored.messages)
            first: tuple[Message, ...] = () if system_message is None else (system_message,)
            past = split_exchanges(stored.messages)
            view: WindowView = yield from self.window.view(past, (*first, *rest), invocation)
            # if the window selects all that was loaded, older exchanges may fit, too
            if stored.is_complete or last is None or view.exchanges != past:
                break
            last *= 2
        request = replace(invocation.request, messages=(*first, *join_exchanges(view.exchanges), *rest))
        recalled = replace(invocation, request=request)
        has_evicted = view.exchanges != past or not stored.is_complete
        if not view.replaces_past:  # a summary leaves out nothing
            _log_left_out(invocation.qualname, past, view.exchanges)
        replaces_past = view.replaces_past
        if replaces_past is None:
            replaces_past = self._forget_evicted and has_evicted
        write = self._writer(conversation, stored, view.exchanges if replaces_past else None)
        return _Recalled(recalled, write, stored.version)

    def _writer(
        self, conversation: str, stored: StoredConversation, new_past: Sequence[Exchange] | None
    ) -> Callable[[Exchange], int]:
        """Return the function that stores the new messages; ``new_past`` replaces the earlier messages."""
        if new_past is None:
            return partial(self.store.append, conversation, expected=stored.version)
        # the system message of the method is not written to the store, but one that is there stays
        stored_system = last_system_message(stored.messages)
        start = () if stored_system is None else (stored_system,)
        earlier = (*start, *join_exchanges(new_past))
        return lambda new: self.store.replace(conversation, (*earlier, *new), expected=stored.version)


def _log_left_out(qualname: str, past: Sequence[Exchange], sent: Sequence[Exchange]) -> None:
    """Log what a window leaves out of a request, as a warning if even the last exchange does not fit."""
    if past and (not sent or sent[-1] != past[-1]):
        left_out = "its tool calls are left out" if sent else "nothing of the conversation is sent"
        message = "%s: the window has no room for the last exchange, %s messages; %s"
        _log.warning(message, qualname, len(past[-1]), left_out)
    if len(sent) < len(past):
        count = len(past) - len(sent)
        _log.info("%s: the window leaves out %s of %s exchanges", qualname, count, len(past))


def _loader(store: ChatMemoryStore) -> Callable[[str, int | None], StoredConversation]:
    """Return a function that loads a conversation's newest messages from its store.

    The second argument of the function is the number of messages; None loads all. If the store's ``load`` has
    no parameter ``last``, all messages are loaded in any case.
    """
    try:
        has_last = "last" in inspect.signature(store.load).parameters
    except (TypeError, ValueError):  # a function of an extension module may have no signature
        has_last = False
    if not has_last:
        return lambda conversation, last: store.load(conversation)
    return lambda conversation, last: cast(_LoadsLast, store).load(conversation, last=last)


class _LoadsLast(Protocol):
    def load(self, conversation: str, /, *, last: int | None) -> StoredConversation: ...


def _memory_id_of(invocation: Invocation) -> str | None:
    """Return the conversation id (memory id) that was passed to a service method, or None.

    Returns None if the method has no parameter for it. Raises MemoryIdError for an invalid id.
    """
    memory_id: object = invocation.memory_id
    qualname = invocation.plan.qualname
    if memory_id is None and not invocation.plan.has_memory_id:
        return None
    problem = memory_id_problem(memory_id)
    if problem is not None:
        raise MemoryIdError(f"{qualname}: the memory id {problem}")
    return memory_id_text(memory_id)


def _recorded_user_message(invocation: Invocation) -> UserMessage | None:
    """Return the user message of a call, and save it in case the call is suspended.

    A resumed call gets the recorded message: interceptors may have added text to the message in its request.
    """
    data = invocation.state.interceptor_data
    if invocation.is_resumed and _STATE_KEY in data:
        return invocation.stored_data(_STATE_KEY, user_message_from_dict)
    user_message = user_message_of(invocation)
    if user_message is not None:
        data[_STATE_KEY] = message_to_dict(user_message)
    return user_message
