"""What is looked for and what is found: queries, contents, and who retrieves them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar

from ..engine.effects import Flow, Run
from ..engine.output_format import INSTRUCTIONS_PLACE
from ..engine.plan import Invocation
from ..interface.parameters import name_of
from ..models.messages import Message, UserMessage


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of text that was found, or that can be.

    ``id`` is what a model cites it by; two contents with one id are the same. ``score`` is that of whoever
    ranked it last, the higher the better; None when nobody did.
    """

    text: str
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    score: float | None = None

    @property
    def key(self) -> str:
        """What tells it from other contents: the id, else the text."""
        return self.id or self.text


@dataclass(frozen=True, slots=True)
class Query:
    """A search query. ``invocation`` is the call that needs it, if any."""

    text: str
    invocation: Invocation | None = field(default=None, repr=False, compare=False)

    @property
    def history(self) -> tuple[Message, ...]:
        """What was said in the conversation before the message that is asked for now."""
        if self.invocation is None:
            return ()
        messages = self.invocation.request.messages
        at = last_said(messages)
        return () if at is None else messages[:at]

    @staticmethod
    def of(invocation: Invocation) -> Query | None:
        """The query of a call: its last user message; None when it has none."""
        messages = invocation.request.messages
        at = last_said(messages)
        return (
            None
            if at is None
            else Query(messages[at].text.replace(INSTRUCTIONS_PLACE, "").strip(), invocation)
        )


class Retriever(Protocol):
    """Finds contents, the best first. ``retrieve`` may be ``async def``, for async calls."""

    def retrieve(self, query: Query, /) -> Sequence[Content] | Awaitable[Sequence[Content]]: ...


class DocumentLike(Protocol):
    """A document as the loaders and splitters of LangChain give it."""

    @property
    def page_content(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


def contents_of(pieces: Iterable[str | DocumentLike | Content], name: str = "chunk") -> list[Content]:
    """Texts or documents as contents. Those without an id get one: ``name``, and their number from 1.

    A document's id is taken from its ``id``, where it has one that is a text. Raises TypeError for one text
    alone, whose pieces would be its letters.
    """
    if isinstance(pieces, str):
        raise TypeError("it is one text; put it into a list, or cut it into contents with split")
    return [_content(piece, f"{name}-{number}") for number, piece in enumerate(pieces, 1)]


def _content(piece: str | DocumentLike | Content, name: str) -> Content:
    if isinstance(piece, Content):
        return piece if piece.id else Content(piece.text, name, piece.metadata, piece.score)
    if isinstance(piece, str):
        return Content(piece, name)
    own = getattr(piece, "id", None)
    return Content(piece.page_content, own if isinstance(own, str) and own else name, dict(piece.metadata))


def last_said(messages: Sequence[Message]) -> int | None:
    """Where the last user message is; None when there is none."""
    places = [at for at, message in enumerate(messages) if isinstance(message, UserMessage)]
    return places[-1] if places else None


def checked(found: Any, giver: str) -> tuple[Content, ...]:
    """The contents that somebody gave. Raises TypeError where they are none."""
    if isinstance(found, Sequence) and not isinstance(found, str):
        other = next((one for one in found if not isinstance(one, Content)), None)
        if other is None:
            return tuple(found)
        found = f"a list with {type(other).__name__} in it"
    else:
        found = type(found).__name__
    raise TypeError(f"{giver} gave {found}; it must give a list of Content, which contents_of makes of texts")


def needed(module: str, extra: str) -> Any:
    """A module of an optional dependency. Raises ImportError that names the extra which brings it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        said = f'{module} is not installed; install it with pip install "aiservices[{extra}]"'
        raise ImportError(said, name=module) from error


def split(
    text: str,
    name: str = "chunk",
    *,
    size: int = 900,
    overlap: int = 0,
    form: Literal["text", "markdown"] = "text",
) -> list[Content]:
    """A text in pieces of at most ``size`` characters, of which ``overlap`` are those of the piece before.

    It is cut between paragraphs, else sentences, else words; Markdown between its sections too. The ids are
    ``name`` and a number from 1; the metadata have ``source``, which is the name, and ``start``, the place of
    the first character. Needs semantic-text-splitter.
    """
    library = needed("semantic_text_splitter", "retrieval")
    kind = library.MarkdownSplitter if form == "markdown" else library.TextSplitter
    pieces = kind(size, overlap=overlap).chunk_indices(text)
    return [
        Content(piece, f"{name}-{number}", {"source": name, "start": start})
        for number, (start, piece) in enumerate(pieces, 1)
    ]


T = TypeVar("T")


def doing(function: Callable[..., Any], *arguments: Any) -> Run:
    """Call a function with arguments; one that blocks runs beside an event loop, in a thread."""

    @wraps(function)  # so that what goes wrong names it
    def work() -> Any:
        return function(*arguments)

    return Run(work, in_thread=not inspect.iscoroutinefunction(function))


def flowing(function: Callable[..., Flow[T]], *arguments: Any) -> Flow[T]:
    """The flow that a function gives. Raises TypeError for what is none."""
    made: Any = function(*arguments)
    if isinstance(made, Generator):
        return made
    if inspect.iscoroutine(made):
        made.close()
    said = "it must be a flow, which a function with yield gives; where nothing is to be done, yield from ()"
    raise TypeError(f"{name_of(function)} gave {type(made).__name__}; {said}")
