"""What a method hands back: the shape of its return annotation, and Result."""

from __future__ import annotations

import collections.abc
import types
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from output_parsers.result.reading import Coercion
from output_parsers.types.target import type_name

from ..models.errors import Attempt, usage_of
from ..models.messages import AiMessage, ChatReply, FinishReason, Usage
from ..models.strategy import Strategy
from .streams import AsyncStream, Stream

if TYPE_CHECKING:
    from .tool_execution import ToolRun

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Result(Generic[T_co]):
    """A value with everything about how it was got.

    ``attempts`` are all requests made for it, the successful one last; ``usage`` is summed over them.
    ``coercions`` are the steps away from the exact text that reading the value took (none for a clean
    reply). ``reasons`` say why the strategy was chosen, also what the provider refused before.
    ``seconds`` is the wall time of the whole call. ``tool_runs`` are the tools that ran, in their order.
    ``sources`` are what the model was given to read, where something was retrieved for it.
    """

    value: T_co
    reply: ChatReply
    strategy: Strategy
    coercions: tuple[Coercion, ...]
    attempts: tuple[Attempt, ...]
    seconds: float
    reasons: tuple[str, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    sources: tuple[Any, ...] = ()

    @property
    def text(self) -> str:
        """What the model wrote."""
        return self.reply.text

    @property
    def finish_reason(self) -> FinishReason:
        return self.reply.finish_reason

    @property
    def model(self) -> str:
        """The model's name as its provider gave it."""
        return self.reply.model

    @property
    def usage(self) -> Usage:
        """Tokens summed over all attempts; zeros where the provider told none."""
        return usage_of(self.attempts) or Usage()


class Shape(Enum):
    """How a value is handed back."""

    VALUE = "value"
    RESULT = "result"
    TEXT_STREAM = "text stream"
    ITEMS = "items"
    STREAM = "stream"


class Returns(NamedTuple):
    """What a return annotation says: the type of the value, its shape, and whether it is awaited.

    Of items, ``form`` is the type of one, and ``keeps_errors`` says that one which does not fit is handed
    over as an ItemError.
    """

    form: Any
    shape: Shape
    asynchronous: bool
    keeps_errors: bool = False


class ShapeFault(TypeError):  # becomes a Fault once it is known where it stands
    """A return annotation that says nothing that can be done."""


_ITERATORS = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator)
_ASYNC_ITERATORS = (
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)
_UNIONS = (Union, types.UnionType)
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)


def shape_of(hint: Any, *, asynchronous: bool) -> Returns:
    """Take a return annotation apart. Raises ShapeFault with what to write instead."""
    origin = get_origin(hint) or hint
    misplaced = _misplaced(get_args(hint), within=origin)
    if misplaced is not None:
        raise ShapeFault(
            f"it returns {type_name(hint)}, but {type_name(misplaced)} tells of the whole reply and cannot "
            "be a part of a type"
        )
    if hint is None or hint is types.NoneType:
        raise ShapeFault("it returns None; annotate the type that the model's answer is to have")
    if origin in _AWAITABLES:
        raise ShapeFault(f"it returns {type_name(hint)}; write async def and the type of the awaited value")
    if origin in _ITERATORS or origin in _ASYNC_ITERATORS:
        return _stream(hint, origin, asynchronous)
    if origin in (Stream, AsyncStream):
        if asynchronous:
            raise ShapeFault(
                f"async def with {type_name(hint)} is a coroutine that returns a stream; write def"
            )
        return Returns(_inside(hint, origin), Shape.STREAM, origin is AsyncStream)
    if origin is Result:
        return Returns(_inside(hint, origin), Shape.RESULT, asynchronous)
    return Returns(hint, Shape.VALUE, asynchronous)


def _inside(hint: Any, origin: type) -> Any:
    """The type between the brackets."""
    args = get_args(hint)
    if not args or isinstance(args[0], TypeVar):
        raise ShapeFault(f"{origin.__name__} needs the type of its value, as in {origin.__name__}[bool]")
    return args[0]


def _misplaced(parts: tuple[Any, ...], within: Any) -> Any:
    """What no model can be asked to write, where it stands inside another type; None when nothing does."""
    for part in parts:
        cls = get_origin(part) or part
        if cls in (Result, Stream, AsyncStream) or (cls in (ChatReply, AiMessage) and within is not Result):
            return part
        below = _misplaced(get_args(part), cls)
        if below is not None:
            return below
    return None


def _stream(hint: Any, origin: Any, asynchronous: bool) -> Returns:
    name = origin.__name__
    args = get_args(hint)
    if asynchronous:
        item = type_name(args[0]) if args else "str"
        raise ShapeFault(
            f"async def with {name} is a coroutine that returns an iterator; "
            f"write def and AsyncIterator[{item}]"
        )
    if not args:
        raise ShapeFault(f"{name} needs the type of its items, as in {name}[str]")
    awaited = origin in _ASYNC_ITERATORS
    if args[0] is str:
        return Returns(str, Shape.TEXT_STREAM, awaited)
    return Returns(_without_errors(args[0]), Shape.ITEMS, awaited, _keeps_errors(args[0]))


def _keeps_errors(item: Any) -> bool:
    return get_origin(item) in _UNIONS and any(_is_error(part) for part in get_args(item))


def _without_errors(item: Any) -> Any:
    """The type of the items that a model is asked for: ``Person`` of ``Person | ItemError``."""
    if not _keeps_errors(item):
        return item
    return Union[tuple(part for part in get_args(item) if not _is_error(part))]  # noqa: UP007


def _is_error(part: Any) -> bool:
    # by its name, for the module that defines it is loaded only where something is streamed
    module = getattr(part, "__module__", "")
    return module == "output_parsers.streaming.items" and part.__name__ == "ItemError"
