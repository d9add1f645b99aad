"""Answers a question from contents, with a value of a type."""

from __future__ import annotations

import types
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_origin, overload

from typing_extensions import TypeForm

from output_parsers.types.target import type_name

from ..engine.budget import Budget
from ..engine.effects import Emit, Flow, Run, arun, astream, held, run, stream
from ..engine.iterators import ChunkSource, ItemStream, TextChunks, aiterate, iterate
from ..engine.pipeline import Answer, Interceptor
from ..engine.plan import Invocation, MethodPlan
from ..engine.results import Result, Shape
from ..engine.retry import Retry
from ..engine.streams import Accepted, AsyncStream, Stream
from ..models.base import ChatModel, find_model
from ..models.errors import AiServiceError, DefinitionError, DefinitionProblem
from ..models.requests import ChatOptions
from ..retrieval.content import Content, DocumentLike, contents_of
from ..retrieval.query import aside
from .questions import Account, Questions, Room, Runs, SideBySide, SynthesisPrompts, Tasks, Threads


class Mode(StrEnum):
    """How an answer comes of contents.

    REFINE: the first content gives an answer, each further one refines it. COMPACT: the same with as many
    contents at once as fit. TREE_SUMMARIZE: each part that fits gives a text, side by side, and these texts
    are the contents of the next round, until all that is left fits; that gives the answer. ACCUMULATE: each
    content gives an answer by itself, side by side, and one that is too long one for each of its pieces; the
    value is the list of them. SIMPLE_SUMMARIZE: one request with all contents, which are cut to fit.
    """

    REFINE = "refine"
    COMPACT = "compact"
    TREE_SUMMARIZE = "tree_summarize"
    ACCUMULATE = "accumulate"
    SIMPLE_SUMMARIZE = "simple_summarize"


def mode_of(given: Mode | str) -> Mode:
    """The mode of a name. Raises DefinitionError for one that there is not."""
    try:
        return Mode(given)
    except ValueError as error:
        said = f"the mode {given!r} is unknown; there are: {', '.join(Mode)}"
        raise DefinitionError([DefinitionProblem("Synthesizer", said)]) from error


class PartAnswered(NamedTuple):
    """One of the contents has its answer, and so have those before it: an event of ACCUMULATE."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Synthesis:
    """One question to some contents on its way.

    ``questions`` are asked on the way to the answer, of which a stream shows nothing; ``last`` for the answer
    itself, once ``begins`` was told of the turn.
    """

    question: str
    contents: Sequence[Content]
    questions: Questions
    last: Questions
    room: Room
    account: Account
    side_by_side: SideBySide
    begins: Callable[[Invocation], None]

    def ask(self, plan: MethodPlan, information: str, **more: str) -> Flow[Answer]:
        invocation = self._turn(plan, information, more)
        return (yield from aside(self.account.ask(self.questions.pipeline, invocation)))

    def ask_last(self, plan: MethodPlan, information: str, **more: str) -> Flow[Answer]:
        invocation = self._turn(plan, information, more)
        self.begins(invocation)
        return (yield from self.account.ask(self.last.pipeline, invocation))

    def ask_each(self, plan: MethodPlan, parts: Sequence[str]) -> Flow[list[Answer]]:
        """The answers to the same from each part, side by side; told of one after the other."""
        flows = [self.ask(plan, part) for part in parts]
        runs: Runs = yield Run(lambda: self.side_by_side(flows))
        answers: list[Answer] = []
        try:
            for number in range(len(parts)):
                answers.append((yield Run(lambda at=number: runs.outcome(at))))  # type: ignore[misc]
                yield Emit(PartAnswered(number, answers[-1].value))
        except GeneratorExit:  # nothing can be waited for any more
            runs.stop()
            raise
        except BaseException:
            yield Run(runs.ended)
            raise
        yield Run(runs.ended)
        return answers

    def _turn(self, plan: MethodPlan, information: str, more: Mapping[str, str]) -> Invocation:
        return self.account.invocation(plan, {"information": information, "question": self.question, **more})


def _refined(work: Synthesis, parts: Sequence[str]) -> Flow[Answer]:
    if len(parts) == 1:
        return (yield from work.ask_last(work.last.answer, parts[0]))
    answer = yield from work.ask(work.questions.answer, parts[0])
    for part in parts[1:-1]:
        answer = yield from work.ask(
            work.questions.refine, part, existing=work.questions.written(answer.value)
        )
    existing = work.questions.written(answer.value)
    return (yield from work.ask_last(work.last.refine, parts[-1], existing=existing))


def _refine(work: Synthesis) -> Flow[Answer]:
    return (yield from _refined(work, work.room.pieces(work.contents)))


def _compact(work: Synthesis) -> Flow[Answer]:
    return (yield from _refined(work, work.room.packed(work.contents)))


def _tree_summarize(work: Synthesis) -> Flow[Answer]:
    parts = work.room.packed(work.contents)
    while len(parts) > 1:
        answers = yield from aside(work.ask_each(work.questions.summarize, parts))
        fewer = work.room.packed([Content(answer.value) for answer in answers])
        if len(fewer) >= len(parts):  # texts that do not become fewer would be asked for without end
            return (yield from _refined(work, fewer))
        parts = fewer
    return (yield from work.ask_last(work.last.combine, parts[0]))


def _accumulate(work: Synthesis) -> Flow[Answer]:
    answers = yield from work.ask_each(work.questions.answer, work.room.pieces(work.contents))
    steps = tuple(step for answer in answers for step in answer.coercions)
    return replace(answers[-1], value=[answer.value for answer in answers], coercions=steps)


def _simple_summarize(work: Synthesis) -> Flow[Answer]:
    return (yield from work.ask_last(work.last.answer, work.room.truncated(work.contents)))


_MODES: Mapping[Mode, Callable[[Synthesis], Flow[Any]]] = {
    Mode.REFINE: _refine,
    Mode.COMPACT: _compact,
    Mode.TREE_SUMMARIZE: _tree_summarize,
    Mode.ACCUMULATE: _accumulate,
    Mode.SIMPLE_SUMMARIZE: _simple_summarize,
}


def synthesis(mode: Mode, work: Synthesis) -> Flow[Answer]:
    """The whole of a synthesis. Errors of ours leave it with all attempts on them."""
    try:
        answer: Answer = yield from _MODES[mode](work)
    except AiServiceError as error:
        error.attempts = tuple(work.account.attempts)
        raise
    return answer


class Iterated(NamedTuple):
    """What is made of the turn of the last question, and the form in which that is asked."""

    pieces: Callable[[Invocation], ChunkSource]
    form: Any


def iterated(mode: Mode, form: Any) -> Iterated:
    """How the answer of a mode is given piece by piece. Raises DefinitionError where it has no pieces."""
    if form is str or mode is Mode.ACCUMULATE:
        return Iterated(TextChunks, form)
    if get_origin(form) is list:
        return Iterated(ItemStream, Iterator[get_args(form)[0]])  # type: ignore[misc]
    said = f"{type_name(form)} is neither text nor a list, of which there are pieces; take stream"
    raise DefinitionError([DefinitionProblem("Synthesizer.iterate", said)])


class PartShown:
    """The pieces of one synthesis; those of its last question once that ``begins``."""

    def __init__(self, pieces: Callable[[Invocation], ChunkSource]) -> None:
        self._made = pieces
        self._pieces: ChunkSource | None = None

    def begins(self, invocation: Invocation) -> None:
        self._pieces = self._made(invocation)

    def take(self, event: Any) -> Iterator[Any]:
        if type(event) is PartAnswered:
            yield event.value
        elif self._pieces is not None:
            yield from self._pieces.take(event)


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
    Raises DefinitionError with all problems.
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
            find_model(model, "Synthesizer"),
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
        shown = PartShown(pieces)
        work = self._work(question, chunks, Threads, last, shown.begins)
        return iterate(self._to_the_end(work), shown)

    @overload
    def aiterate(self: Synthesizer[str], question: str, chunks: Chunks) -> AsyncGenerator[str, None]: ...
    @overload
    def aiterate(self: Synthesizer[list[V]], question: str, chunks: Chunks) -> AsyncGenerator[V, None]: ...
    def aiterate(self, question: str, chunks: Chunks) -> AsyncGenerator[Any, None]:
        """As ``iterate``, for an event loop."""
        pieces, last = self._pieces
        shown = PartShown(pieces)
        work = self._work(question, chunks, Tasks, last, shown.begins)
        return aiterate(self._to_the_end(work), shown)

    @cached_property
    def _growing(self) -> Questions:
        """The questions whose answer is shown while it is written."""
        return self._asking(types.GenericAlias(Stream, self._form))

    @cached_property
    def _pieces(self) -> tuple[Callable[[Invocation], ChunkSource], Questions]:
        """What an iterator gives, and the questions that it is asked with."""
        pieces, form = iterated(self._mode, self._form)
        return pieces, self._questions if form is self._form else self._asking(form)

    def _work(
        self,
        question: str,
        chunks: Chunks,
        side_by_side: Callable[[Sequence[Flow[Answer]], int], Runs],
        last: Questions,
        begins: Callable[[Invocation], None] = lambda invocation: None,
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
        answer = yield from held(flow) if work.last.pipeline.blocks_streaming else flow
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


def _of_one_value(asked: Questions) -> Questions:
    if asked.answer.returns.shape is not Shape.VALUE:
        said = "the form is the type of one answer; whether it is streamed, the method says that is called"
        raise DefinitionError([DefinitionProblem("Synthesizer", said)])
    return asked


def _at_once(given: int) -> int:
    if given < 1:
        raise DefinitionError(
            [DefinitionProblem("Synthesizer", f"at_once is {given}; it must be at least 1")]
        )
    return given
