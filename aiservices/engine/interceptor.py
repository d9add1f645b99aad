"""Interceptors: their interface, their optional attributes, their kinds, and their orders.

A new kind is a member of ``InterceptorKind``, and perhaps a line in ``_WRONG_ORDERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from ..models.errors import DefinitionProblem
from .effects import Flow
from .plan import Invocation
from .results import Answer

Proceed: TypeAlias = Callable[[Invocation], Flow[Answer]]


class Interceptor(Protocol):
    """A generator function that wraps each service call, as middleware wraps HTTP requests.

    Because it is a generator, it works in blocking, async and streaming calls. It may change the invocation
    before it proceeds, change or refuse the answer, proceed again, or not proceed at all. It does no input or
    output itself, but yields effects (CallModel, Run, Gather, GatherFlows, Emit, Sleep).

    These attributes are optional:

    - ``blocks_streaming``: True if it may change or refuse an answer; streams then show nothing before it has
      decided.
    - ``position_name``: The kind of interceptor, so that ``create`` can refuse orders that give wrong
      results: "input guard", "memory", "memory as sent", "retrieval", "output guard", "answer check" or
      "retry".
    - ``shared_by_callers``: True if a memory may be served over HTTP for methods without a MemoryId.
    - ``add_service(name, owner, *, has_default_conversation)``: A method that is called for each service and
      agent with the interceptor; it may refuse them with a DefinitionError.
    - ``unchecked_media``: The classes of media, such as Image, that it would have to check and cannot;
      ``create`` refuses methods with parameters of these classes.
    - ``async_parts``: The names of parts that must be awaited; ``create`` refuses them in blocking services.
    - ``trace_rows(name)``: A method that starts the trace of a run of ``map_rows``, as OpenTelemetry has it.
    """

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]: ...


class InterceptorKind(StrEnum):
    """The kinds of interceptors, in their usual order, the outermost first.

    Attributes:
        rank: The place in the usual order. Two kinds with the same rank may be in any order.
    """

    rank: int

    def __new__(cls, name: str, rank: int) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.rank = rank
        return kind

    CACHE = "cache", 0
    DURABLE = "durable", 1
    INPUT_GUARD = "input guard", 1
    MODERATION = "moderation", 2
    MEMORY = "memory", 3
    MEMORY_AS_SENT = "memory as sent", 3
    RETRIEVAL = "retrieval", 4
    OUTPUT_GUARD = "output guard", 5
    ANSWER_CHECK = "answer check", 5
    OTHER = "", 6  # interceptors of users, which may do anything
    VOTES = "votes", 7
    RETRY = "retry", 7

    @classmethod
    def of(cls, position_name: object) -> InterceptorKind:
        """Return the kind with a name; OTHER for an unknown name, which is allowed."""
        return _BY_NAME.get(position_name, cls.OTHER) if isinstance(position_name, str) else cls.OTHER

    @property
    def is_memory(self) -> bool:
        """True if it stores the messages of a conversation."""
        return self in (InterceptorKind.MEMORY, InterceptorKind.MEMORY_AS_SENT)

    @property
    def uses_memory_id(self) -> bool:
        """True if it may use the id of a conversation, as filters of retrievers do."""
        return self.is_memory or self in (InterceptorKind.RETRIEVAL, InterceptorKind.OTHER)

    @property
    def has_effects(self) -> bool:
        """True if a call has an effect through it, even if the method has no tools and returns nothing."""
        return self.is_memory or self is InterceptorKind.OTHER

    @property
    def requests_again(self) -> bool:
        """True if its ``max_attempts`` must not exceed the budget."""
        return self in (InterceptorKind.OUTPUT_GUARD, InterceptorKind.RETRY)


_BY_NAME: dict[str, InterceptorKind] = {kind.value: kind for kind in InterceptorKind}

_BEFORE_MEMORY = "memory stores an answer before it was accepted"
_AS_USER_MESSAGE = "memory stores the problems of an answer as if the user had written them"
_BEFORE_DURABLE = "it does its work again when a durable call continues"
# Why an interceptor of the first kind must not enclose one of the second.
_WRONG_ORDERS = {
    (InterceptorKind.MEMORY, InterceptorKind.INPUT_GUARD): (
        "memory stores what the guards remove, and the model sees it in later calls"
    ),
    (InterceptorKind.MEMORY_AS_SENT, InterceptorKind.INPUT_GUARD): (
        "a call that waits for approval stores what the guards remove"
    ),
    (InterceptorKind.RETRIEVAL, InterceptorKind.MEMORY): (
        "memory stores what was retrieved as if the user had written it"
    ),
    (InterceptorKind.OUTPUT_GUARD, InterceptorKind.MEMORY): _BEFORE_MEMORY,
    (InterceptorKind.OUTPUT_GUARD, InterceptorKind.MEMORY_AS_SENT): _BEFORE_MEMORY,
    (InterceptorKind.OUTPUT_GUARD, InterceptorKind.RETRIEVAL): (
        "after a rejected answer, retrieval searches for the words of the guards"
    ),
    (InterceptorKind.ANSWER_CHECK, InterceptorKind.MEMORY): _BEFORE_MEMORY,
    (InterceptorKind.ANSWER_CHECK, InterceptorKind.MEMORY_AS_SENT): _BEFORE_MEMORY,
    (InterceptorKind.RETRY, InterceptorKind.MEMORY): _AS_USER_MESSAGE,
    (InterceptorKind.RETRY, InterceptorKind.MEMORY_AS_SENT): _AS_USER_MESSAGE,
    **{
        (kind, InterceptorKind.DURABLE): _BEFORE_DURABLE
        for kind in (
            InterceptorKind.MODERATION,
            InterceptorKind.MEMORY,
            InterceptorKind.MEMORY_AS_SENT,
            InterceptorKind.RETRIEVAL,
            InterceptorKind.OUTPUT_GUARD,
            InterceptorKind.ANSWER_CHECK,
            InterceptorKind.VOTES,
            InterceptorKind.RETRY,
        )
    },
}


class BaseInterceptor:
    """The optional attributes of ``Interceptor``, with their defaults."""

    __slots__ = ()

    position_name: str | None = None
    blocks_streaming: bool = False
    shared_by_callers: bool = False
    unchecked_media: tuple[type, ...] = ()
    async_parts: tuple[str, ...] = ()
    max_attempts: int | None = None

    if TYPE_CHECKING:  # so that type checkers take a list of different interceptors

        def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]: ...

    @property
    def kind(self) -> InterceptorKind:
        """The kind of the interceptor, by its ``position_name``."""
        return InterceptorKind.of(self.position_name)

    def add_service(self, name: str, owner: str, *, has_default_conversation: bool) -> None:
        """Accept every service and agent."""

    def trace_rows(self, name: str) -> Any:
        """Return None, because runs of ``map_rows`` are not traced."""
        return None


_ATTRIBUTES = [name for name in vars(BaseInterceptor) if not name.startswith("_") and name != "kind"]


class _OtherInterceptor(BaseInterceptor):
    """The attributes of an interceptor without the base class, such as a function."""

    def __init__(self, interceptor: object) -> None:
        for name in _ATTRIBUTES:
            if hasattr(interceptor, name):
                setattr(self, name, getattr(interceptor, name))


def attributes_of(interceptor: object) -> BaseInterceptor:
    """Return an object with all optional attributes of an interceptor."""
    return interceptor if isinstance(interceptor, BaseInterceptor) else _OtherInterceptor(interceptor)


def interceptor_order_problems(
    location: str, interceptors: Sequence[Interceptor]
) -> Iterator[DefinitionProblem]:
    """Yield an error for each pair of interceptors that are in the wrong order.

    ``interceptors`` are in their order of nesting, outermost first.
    """
    kinds = [attributes_of(one).kind for one in interceptors]
    memories = sum(kind.is_memory for kind in kinds)
    if memories > 1:
        message = f"{memories} interceptors are memories, so the conversation would be sent {memories} times"
        yield DefinitionProblem(location, f"{message}; pass one of them")
    for inner_index, inner in enumerate(kinds):
        if inner is InterceptorKind.INPUT_GUARD and InterceptorKind.RETRIEVAL in kinds[:inner_index]:
            continue  # guards inside retrieval check the retrieved texts
        for outer_index, outer in enumerate(kinds[:inner_index]):
            reason = _WRONG_ORDERS.get((outer, inner))
            if reason is not None:
                first, then = (type(interceptors[index]).__name__ for index in (outer_index, inner_index))
                message = f"{first} comes before {then}, so {reason}; put {then} first"
                yield DefinitionProblem(location, message)
