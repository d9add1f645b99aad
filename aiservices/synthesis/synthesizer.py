"""Answers a question from contents, with a value of a type."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from ..budget import Budget
from ..errors import DefinitionError, Fault
from ..flow import Emit, Flow, arun, astream, run, stream
from ..models.base import ChatModel, find_model
from ..pieces import Pieces, aiterate, iterate
from ..pipeline import Answer, Interceptor
from ..plan import Turn
from ..requests import ChatOptions
from ..retrieval.content import Content, DocumentLike, contents_of
from ..retry import Retry
from ..returns import Result, Shape
from ..streams import Accepted, AsyncStream, Stream
from ..through import held
from .modes import Mode, Synthesis, mode_of, synthesis
from .packing import Room
from .questions import Account, Questions, SynthesisPrompts
from .shown import Shown, iterated
from .side_by_side import Runs, Tasks, Threads

__all__ = ["Synthesizer"]

T = TypeVar("T")
V = TypeVar("V")
Chunks: TypeAlias = Iterable[str | DocumentLike | Content]
_OneValue: TypeAlias = Literal[
    Mode.REFINE,
    Mode.COMPACT,
    Mode.TREE_SUMMARIZE,
    Mode.SIMPLE_SUMMARIZE,
    "refine",
    "compact",
    "tree_summarize",
    "simple_summarize",
]
_NO_OPTIONS = ChatOptions()
_ASKED_AGAIN = Retry()
_PROMPTS = SynthesisPrompts()


class Synthesizer(Generic[T]):
    """Answers questions from contents in one of the modes of ``Mode``; ``form`` is the type of an answer.

    ``limit`` is how much text of contents one request shows, as ``measure`` counts it: in characters, or
    with another function in tokens. Leave room for the question, the answer so far and the instructions.
    ``budget`` is for each question to the model as to its attempts; its seconds, tokens and money are for
    the whole synthesis, which does at most ``at_once`` things side by side. All else is as with ``create``.
    Raises DefinitionError with all faults.
    """

    @overload
    def __init__(
        self: Synthesizer[list[V]],
        model: ChatModel | str | None,
        mode: Literal[Mode.ACCUMULATE, "accumulate"],
        form: TypeForm[V],
        *,
        limit: int = ...,
        measure: Callable[[str], int] = ...,
        prompts: SynthesisPrompts = ...,
        options: ChatOptions = ...,
        budget: Budget | None = ...,
        retry: Retry | None = ...,
        interceptors: Sequence[Interceptor] = ...,
        at_once: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Synthesizer[V],
        model: ChatModel | str | None,
        mode: _OneValue,
        form: TypeForm[V],
        *,
        limit: int = ...,
        measure: Callable[[str], int] = ...,
        prompts: SynthesisPrompts = ...,
        options: ChatOptions = ...,
        budget: Budget | None = ...,
        retry: Retry | None = ...,
        interceptors: Sequence[Interceptor] = ...,
        at_once: int = ...,
    ) -> None: ...
    def __init__(
        self,
        model: ChatModel | str | None,
        mode: Mode | str,
        form: Any,
        *,
        limit: int = 12_000,
        measure: Callable[[str], int] = len,
        prompts: SynthesisPrompts = _PROMPTS,
        options: ChatOptions = _NO_OPTIONS,
        budget: Budget | None = None,
        retry: Retry | None = _ASKED_AGAIN,
        interceptors: Sequence[Interceptor] = (),
        at_once: int = 8,
    ) -> None:
        self._mode = mode_of(mode)
        self._form = form
        self._room = Room(limit, measure)
        self._budget = budget or Budget()
        self._at_once = _at_once(at_once)
        self._asking = partial(
            Questions.of,
            _model(model),
            prompts=prompts,
            options=options,
            budget=self._budget,
            retry=retry,
            interceptors=interceptors,
        )
        self._questions = _of_one_value(self._asking(form))

    def synthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """The answer to a question from texts, documents or contents, which are the sources of the Result.

        Its ``attempts`` are all requests that were made, its ``reply`` is the last one. Raises ValueError
        when there are no chunks, and what a method of a service raises.
        """
        work = self._work(question, chunks, Threads, self._questions)
        return self._result(work, run(synthesis(self._mode, work)))

    async def asynthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """As ``synthesize``, awaited."""
        work = self._work(question, chunks, Tasks, self._questions)
        return self._result(work, await arun(synthesis(self._mode, work)))

    def stream(self, question: str, chunks: Chunks) -> Stream[T]:
        """The answer while it is written, which is the last request; those before it are not shown.

        The answers of ACCUMULATE come as the events PartAnswered. Raises DefinitionError for a form that
        cannot grow, such as ChatReply.
        """
        work = self._work(question, chunks, Threads, self._growing)
        return Stream(stream(self._to_the_end(work)), partial(self._result, work))

    def astream(self, question: str, chunks: Chunks) -> AsyncStream[T]:
        """As ``stream``, for an event loop."""
        work = self._work(question, chunks, Tasks, self._growing)
        return AsyncStream(astream(self._to_the_end(work)), partial(self._result, work))

    @overload
    def iterate(self: Synthesizer[str], question: str, chunks: Chunks) -> Generator[str, None, None]: ...
    @overload
    def iterate(self: Synthesizer[list[V]], question: str, chunks: Chunks) -> Generator[V, None, None]: ...
    def iterate(self, question: str, chunks: Chunks) -> Generator[Any, None, None]:
        """The answer piece by piece: text as it is written, a list item by item, ACCUMULATE answer by answer.

        Once a piece was handed out, nothing is asked again. Raises DefinitionError for other forms.
        """
        pieces, last = self._pieces
        shown = Shown(pieces)
        work = self._work(question, chunks, Threads, last, shown.begins)
        return iterate(self._to_the_end(work), shown)

    @overload
    def aiterate(self: Synthesizer[str], question: str, chunks: Chunks) -> AsyncGenerator[str, None]: ...
    @overload
    def aiterate(self: Synthesizer[list[V]], question: str, chunks: Chunks) -> AsyncGenerator[V, None]: ...
    def aiterate(self, question: str, chunks: Chunks) -> AsyncGenerator[Any, None]:
        """As ``iterate``, for an event loop."""
        pieces, last = self._pieces
        shown = Shown(pieces)
        work = self._work(question, chunks, Tasks, last, shown.begins)
        return aiterate(self._to_the_end(work), shown)

    @cached_property
    def _growing(self) -> Questions:
        """The questions whose answer is shown while it is written."""
        return self._asking(types.GenericAlias(Stream, self._form))

    @cached_property
    def _pieces(self) -> tuple[Callable[[Turn], Pieces], Questions]:
        """What an iterator gives, and the questions that it is asked with."""
        pieces, form = iterated(self._mode, self._form)
        return pieces, self._questions if form is self._form else self._asking(form)

    def _work(
        self,
        question: str,
        chunks: Chunks,
        side_by_side: Callable[[Sequence[Flow[Answer]], int], Runs],
        last: Questions,
        begins: Callable[[Turn], None] = lambda turn: None,
    ) -> Synthesis:
        contents = contents_of(chunks)
        if not contents:
            raise ValueError("there are no chunks to answer from; give at least one")
        return Synthesis(
            question,
            contents,
            self._questions,
            last,
            self._room,
            Account(self._budget),
            lambda flows: side_by_side(flows, self._at_once),
            begins,
        )

    def _to_the_end(self, work: Synthesis) -> Flow[None]:
        """The same with the answer as its last event, since a stream hands over nothing else."""
        flow = synthesis(self._mode, work)
        answer = yield from held(flow) if work.last.pipeline.holds_back else flow
        yield Emit(Accepted(answer))

    def _result(self, work: Synthesis, answer: Answer) -> Result[T]:
        return Result(
            cast("T", answer.value),
            answer.reply,
            answer.strategy,
            answer.coercions,
            tuple(work.account.attempts),
            work.account.seconds,
            answer.reasons,
            answer.tool_runs,
            tuple(work.contents),
        )


def _model(given: ChatModel | str | None) -> ChatModel:
    try:
        return find_model(given)
    except LookupError as error:
        raise DefinitionError([Fault("Synthesizer", str(error.args[0]))]) from error


def _of_one_value(asked: Questions) -> Questions:
    if asked.answer.returns.shape is not Shape.VALUE:
        said = "the form is the type of one answer; whether it is streamed, the method says that is called"
        raise DefinitionError([Fault("Synthesizer", said)])
    return asked


def _at_once(given: int) -> int:
    if given < 1:
        raise DefinitionError([Fault("Synthesizer", f"at_once is {given}; it must be at least 1")])
    return given
