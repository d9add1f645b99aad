"""The types used in retrieval: passages of text, queries, and the retriever interface.

Also here: splitting long text into contents, and the helpers with which this package calls the user's
functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeVar

from output_parsers.result.errors import shorten

from ..engine.effects import Flow, Run
from ..engine.operations import Operation, observed
from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.plan import Invocation
from ..interface.parameters import function_name
from ..interface.templates import render_value
from ..models.arguments import checks_arguments, is_at_least
from ..models.errors import DefinitionError, DefinitionProblem, import_extra
from ..models.messages import Message, UserMessage


@dataclass(frozen=True, slots=True)
class Content:
    """A passage of text that a retriever can find.

    Attributes:
        text: The text that the model gets.
        id: The id with which a model cites the content. Contents with the same id are the same content.
        metadata: Other data about the content. Retrievers can filter by it. The metadata ``source`` names the
            document that the content is a part of.
        score: The score of the last ranking, higher is better. None if the content was not ranked.
    """

    text: str
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    score: float | None = None

    @property
    def key(self) -> str:
        """The passage's id, or its text if it has no id."""
        return self.id or self.text


def check_same(first: Content, other: Content, *, is_version: bool = False) -> None:
    """Raise ValueError if two contents have the same id, but different texts.

    With ``is_version``, ``other`` is added to a store that has ``first``: another text of the same document
    is then a new version of it.
    """
    if first.key != other.key or first.text.strip() == other.text.strip():
        return
    sources = (first.metadata.get("source"), other.metadata.get("source"))
    if not is_version or (None not in sources and sources[0] != sources[1]):
        raise ValueError(
            f"two texts have the id {first.id!r}: {shorten(first.text, 40)!r} and "
            f"{shorten(other.text, 40)!r}; give their documents different names, as in "
            "contents_of(…, name), or remove the old text first"
        )


@dataclass(frozen=True, slots=True)
class Query:
    """The text to search for, and the service call that needs the search results.

    Attributes:
        text: What to search for.
        invocation: The call of a service method that needs the contents, if there is one.
    """

    text: str
    invocation: Invocation | None = field(default=None, repr=False, compare=False)

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation's messages before the user message that started the search."""
        if self.invocation is None:
            return ()
        messages = self.invocation.request.messages
        position = last_user_position(messages)
        return () if position is None else messages[:position]

    @staticmethod
    def from_invocation(invocation: Invocation) -> Query | None:
        """Return a search query for what a service call asks; None without a user message.

        This is the last user message without the words of its template, which are not part of the question.
        """
        if last_user_position(invocation.request.messages) is None:
            return None
        return Query(question_text(invocation, invocation.plan.question_names), invocation)


class Retriever(Protocol):
    """The interface of retrievers, which find the passages that match a query, best first.

    ``retrieve`` may be async if the service methods are async.
    """

    def retrieve(self, query: Query, /) -> Sequence[Content] | Awaitable[Sequence[Content]]: ...


class DocumentLike(Protocol):
    """The interface of LangChain documents, so that LangChain's loaders and splitters can be used."""

    @property
    def page_content(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


def contents_of(
    pieces: Iterable[str | DocumentLike | Content], name: str | None = None, *, id: str | None = None
) -> list[Content]:
    """Convert strings or LangChain documents to Content objects, which retrievers can search.

    Args:
        pieces: The strings or documents.
        name: The name of the document. A piece without an id gets the id ``{name}-{number}``, counted from 1,
            and the name as its metadata ``source``. Without a name the id is made from the text and the
            metadata ``source``, so that the ids of two documents differ.
        id: The name of the metadata that have the id of each document, such as a page number. By default a
            document keeps its ``id`` if that is a string.

    Raises TypeError for a single text, because its pieces would be its characters, and ValueError if two
    pieces with different texts have the same id, or if a piece does not have the metadata ``id``.
    """
    if isinstance(pieces, str):
        raise TypeError("contents_of takes a list of texts, not one text; use split to cut a long text")
    contents: list[Content] = []
    numbers: dict[str, int] = {}  # the pieces by their ids
    for number, piece in enumerate(pieces, 1):
        content = _content(piece, name, id, number)
        contents.append(content)
        first = numbers.setdefault(content.id, number)
        if content.text != contents[first - 1].text:
            raise ValueError(
                f"the pieces {first} and {number} have the same id {content.id!r} and different texts; "
                "a search would return only one of them"
            )
    return contents


def _content(
    piece: str | DocumentLike | Content, name: str | None, id_name: str | None, number: int
) -> Content:
    if isinstance(piece, str):
        content = Content(piece)
    elif isinstance(piece, Content):
        content = piece
    else:
        document_id = getattr(piece, "id", None)
        own_id = document_id if isinstance(document_id, str) else ""
        content = Content(piece.page_content, own_id, dict(piece.metadata))
    if id_name is None:
        if content.id:
            return content
        if name is None:
            return replace(content, id=_id_of_text(content.text, content.metadata.get("source")))
        return replace(content, id=f"{name}-{number}", metadata={"source": name, **content.metadata})
    value = content.metadata.get(id_name)
    if not isinstance(value, (str, int)) or isinstance(value, bool) or value == "":
        reason = f"{id_name} is {value!r}" if id_name in content.metadata else f"there is no {id_name}"
        raise ValueError(
            f"piece {number} has no id in its metadata: {reason}; it must be a text or an integer"
        )
    return replace(content, id=str(value))


def _id_of_text(text: str, source: object = None, prefix: str = "chunk") -> str:
    return f"{prefix}-{sha256(repr((text, source)).encode()).hexdigest()[:10]}"


@checks_arguments
def split(
    text: str,
    *,
    name: str | None = None,
    max_characters: int = 900,
    overlap: int = 0,
    format: Literal["text", "markdown"] = "text",
) -> list[Content]:
    """Split a long text into passages for retrievers, at the ends of paragraphs, sentences or words.

    Needs the package semantic-text-splitter.

    Args:
        text: The text.
        name: The name of the document. The ids are ``{name}-{number}``, counted from 1. The metadata contain
            it as ``source``, and the position of the first character as ``start``. By default the name is
            made from the text.
        max_characters: The largest length of a content.
        overlap: The number of characters that a content shares with the one before.
        format: "markdown" also splits between the sections of a Markdown text.
    """
    if not is_at_least(max_characters, 1):
        message = f"max_characters is {max_characters!r}; it must be at least 1"
        raise DefinitionError([DefinitionProblem("split", message)])
    if not is_at_least(overlap, 0) or overlap >= max_characters:
        message = f"overlap is {overlap!r}; it must be at least 0 and less than max_characters"
        raise DefinitionError([DefinitionProblem("split", message)])
    library = import_extra("semantic_text_splitter", "retrieval", "split")
    splitter_class = library.MarkdownSplitter if format == "markdown" else library.TextSplitter
    name = _id_of_text(text, prefix="text") if name is None else name
    pieces = splitter_class(max_characters, overlap=overlap).chunk_indices(text)
    return [
        Content(piece, f"{name}-{number}", {"source": name, "start": start})
        for number, (start, piece) in enumerate(pieces, 1)
    ]


def last_user_position(messages: Sequence[Message]) -> int | None:
    """Return the index of the last user message in a list of messages, or None."""
    positions = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
    return positions[-1] if positions else None


def question_text(invocation: Invocation, names: Sequence[str]) -> str:
    """Return the values of parameters that the last user message shows, or else the whole message.

    A value that is not in the message was changed since, for example masked by an input guard.
    """
    messages = invocation.request.messages
    position = last_user_position(messages)
    message = "" if position is None else messages[position].text.replace(INSTRUCTIONS_MARK, "").strip()
    values = [render_value(invocation.arguments[name]).strip() for name in names]
    if any(values) and all(value in message for value in values):
        return "\n".join(filter(None, values))
    return message


def check_contents(value: object, source: str) -> tuple[Content, ...]:
    """Check that a retriever returned a list of Content objects, and return them as a tuple.

    ``source`` is the name of the function that returned the value, for the error message.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        other = next((item for item in value if not isinstance(item, Content)), None)
        if other is None:
            return tuple(value)
        description = f"a list with {type(other).__name__} in it"
    else:
        description = type(value).__name__
    raise TypeError(
        f"{source} returned {description}; it must return a list of Content; "
        "contents_of converts texts to contents"
    )


def to_contents(contents: Sequence[Content | str], location: str) -> list[Content]:
    """Convert a list of strings and Content objects to a list of Content objects.

    Raises DefinitionError for other objects, and for a single string.
    """
    if isinstance(contents, (str, Content)) or not isinstance(contents, Iterable):
        message = f"the contents are {type(contents).__name__}; pass a list of texts or contents"
        raise DefinitionError([DefinitionProblem(location, message)])
    converted = [Content(content) if isinstance(content, str) else content for content in contents]
    for number, content in enumerate(converted, 1):
        if not isinstance(content, Content):
            kind = type(content).__name__
            message = f"content {number} is {kind}; pass a text or a Content (contents_of converts documents)"
            raise DefinitionError([DefinitionProblem(location, message)])
    return converted


def to_query(query: Query | str, location: str) -> Query:
    """Convert a string to a Query, and return a Query unchanged.

    Raises DefinitionError for other objects.
    """
    if isinstance(query, str):
        return Query(query)
    if not isinstance(query, Query):
        message = f"the query is {type(query).__name__}; pass a text or a Query"
        raise DefinitionError([DefinitionProblem(location, message)])
    return query


T = TypeVar("T")


def call_effect(
    function: Callable[..., object], *arguments: object, operation: Operation | None = None
) -> Run:
    """Return an effect (a step that a flow yields) that calls a user's function.

    A blocking function runs in a thread if the service method is async. Telemetry observes ``operation``.
    """

    @wraps(function)  # errors of the drivers name the function
    def call() -> object:
        return (function if operation is None else observed(operation, function))(*arguments)

    return Run(call, in_thread=not inspect.iscoroutinefunction(function))


def call_flow(function: Callable[..., Flow[T]], *arguments: object) -> Flow[T]:
    """Call a user's generator function, and return the generator.

    Raises TypeError if the function returns another type.
    """
    result: object = function(*arguments)
    if isinstance(result, Generator):
        return result
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that it was never awaited
    advice = "it must be a generator function: use yield, or yield from () if there is nothing to yield"
    raise TypeError(f"{function_name(function)} returned {type(result).__name__}; {advice}")
