"""Create typed answers from text that is too long for one model request, as LlamaIndex does."""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import (
    Any,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from typing_extensions import TypeForm

from output_parsers.types.target import type_name

from .engine.budget import Budget
from .engine.drivers import arun, astream, run, stream
from .engine.effects import Emit, Flow, Run
from .engine.flows import hold_back
from .engine.interceptor import Interceptor
from .engine.pipeline import Pipeline
from .engine.plan import CallState, Invocation
from .engine.results import Answer, Result
from .engine.retry import Retry
from .engine.streams import (
    Accepted,
    AsyncStream,
    ChunkSource,
    ItemStream,
    Stream,
    TextChunks,
    aiterate,
    iterate,
)
from .interface.decorators import user_message
from .models.arguments import checks_arguments
from .models.base import ChatModel
from .models.errors import AiServiceError, Attempt, DefinitionError, DefinitionProblem, import_extra
from .models.registry import find_model
from .models.requests import ChatOptions
from .retrieval.augmentor import format_contents
from .retrieval.content import Content, DocumentLike, contents_of
from .service.compile import MethodPlan
from .service.create import create
from .service.methods import plan_of
from .service.signatures import ReturnShape
from .structured_model import hide_from_stream

__all__ = ["PartAnswered", "ResponseMode", "SynthesisPrompts", "Synthesizer"]


T_co = TypeVar("T_co", covariant=True)
_LINE = "---------------------"


@checks_arguments
@dataclass(frozen=True, slots=True)
class SynthesisPrompts:
    """Prompt templates for answering a question from passages, and for refining the answer.

    All templates have the variables ``information`` (the contents, each below its id) and ``question``.

    Attributes:
        answer: Asks for an answer from contents.
        refine: Asks to improve an answer with more contents. Its variable ``existing`` is the answer so far.
        summarize: Asks for a text about one part of the contents, in the mode "tree_summarize".
        combine: Asks for the answer from these texts.
    """

    answer: str = (
        f"Context information is below.\n{_LINE}\n{{{{information}}}}\n{_LINE}\n"
        "Given the context information and not prior knowledge, answer the query.\nQuery: {{question}}"
    )
    refine: str = (
        "The original query is: {{question}}\nThere is an existing answer: {{existing}}\n"
        "Refine the existing answer, only if needed, with the further context below.\n"
        f"{_LINE}\n{{{{information}}}}\n{_LINE}\n"
        "Answer the original query, with the new context taken into account. If it is not useful, repeat the "
        "existing answer."
    )
    summarize: str = (
        f"Context information from several sources is below.\n{_LINE}\n{{{{information}}}}\n{_LINE}\n"
        "Given the information from several sources and not prior knowledge, write down what helps to answer "
        "the query. Name the ids in brackets of the sources that it comes from.\nQuery: {{question}}"
    )
    combine: str = (
        f"Context information from several sources is below.\n{_LINE}\n{{{{information}}}}\n{_LINE}\n"
        "Given the information from several sources and not prior knowledge, answer the query.\n"
        "Query: {{question}}"
    )


class SynthesisQuestions(NamedTuple):
    """The service methods for answering a question from many passages, such as refining an answer.

    Attributes:
        answer: Returns the output type.
        refine: Returns the output type.
        combine: Returns the output type.
        summarize: Returns text.
        pipeline: The interceptors of the synthesizer.
    """

    answer: MethodPlan
    refine: MethodPlan
    combine: MethodPlan
    summarize: MethodPlan
    pipeline: Pipeline

    @staticmethod
    def plan(
        model: ChatModel | str | None,
        output_type: object,
        prompts: SynthesisPrompts,
        options: ChatOptions,
        budget: Budget,
        retry: Retry | None,
        interceptors: Sequence[Interceptor],
    ) -> SynthesisQuestions:
        """Prepare the model calls that answer a question from passages.

        Raises DefinitionError for invalid prompts or models.
        """
        interface: Any = _interface(prompts)
        service = create(interface[output_type], model, options=options, budget=budget, retry=retry)
        return SynthesisQuestions(
            plan_of(service.answer),
            plan_of(service.refine),
            plan_of(service.combine),
            plan_of(service.summarize),
            Pipeline(interceptors if retry is None else (*interceptors, retry)),
        )

    def write(self, value: Any) -> str:
        """Convert a preliminary answer to text for the prompt that asks for a better one."""
        parser = self.refine.call.output_format.parser
        return value if isinstance(value, str) or parser is None else parser.write(value)


def _interface(prompts: SynthesisPrompts) -> type:
    class Synthesis(Protocol[T_co]):
        @user_message(prompts.answer)
        def answer(self, information: str, question: str) -> T_co: ...
        @user_message(prompts.refine)
        def refine(self, information: str, question: str, existing: str) -> T_co: ...
        @user_message(prompts.combine)
        def combine(self, information: str, question: str) -> T_co: ...
        @user_message(prompts.summarize)
        def summarize(self, information: str, question: str) -> str: ...

    return Synthesis


@dataclass(slots=True)
class SynthesisBudget:
    """Shared limits of time, tokens and money for all the model calls that produce one answer.

    The budget's seconds, tokens and money apply to the whole synthesis, and its number of attempts to each
    question. A question gets what is left when it starts, so concurrent questions can exceed a limit.

    Attributes:
        budget: The limits.
        began: When the synthesis began, on the clock of ``time.monotonic``.
        attempts: All requests so far.
    """

    budget: Budget
    began: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The seconds since work on the answer began."""
        return time.monotonic() - self.began

    def invocation(self, plan: MethodPlan, arguments: Mapping[str, object]) -> Invocation:
        """Return the Invocation of one of an answer's model calls, within the remaining budget.

        Raises BudgetExceededError if the budget is used up.
        """
        return replace(plan.invocation((), arguments, self.budget), state=self._call_state())

    def ask(self, pipeline: Pipeline, invocation: Invocation) -> Flow[Answer]:
        """Run one of the model calls that share this budget, and count its requests."""
        try:
            return (yield from pipeline.flow(invocation))
        finally:
            self.attempts.extend(invocation.state.attempts)

    def _call_state(self) -> CallState:
        attempts = [*self.attempts]  # a copy, because concurrent questions append to the list
        # attempts are counted for each question, so this check must not fail because of them
        total = CallState(replace(self.budget, max_attempts=len(attempts) + 1), self.began, attempts)
        exceeded = total.exceeded()
        if exceeded is not None:
            raise exceeded
        tokens, money = self.budget.tokens, self.budget.money
        remaining = replace(
            self.budget,
            tokens=None if tokens is None else tokens - total.tokens,
            money=None if money is None else money - total.money,
        )
        return CallState(remaining, self.began)


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The size limit of one model request, with methods that split and join text to fit.

    Attributes:
        limit: The maximum size of the text in a request.
        measure: Returns the size of a string, in characters or tokens.
        setting: The name of the setting of the synthesizer that gave the limit, for error messages.
    """

    limit: int
    measure: Callable[[str], int] = len
    setting: str = "max_characters"

    def __post_init__(self) -> None:
        if self.limit < 1:
            problem = f"{self.setting} is {self.limit}; it must be at least 1"
            raise DefinitionError([DefinitionProblem("Synthesizer", problem)])

    def pieces(self, contents: Sequence[Content]) -> list[str]:
        """Split passages into strings that each fit in one model request.

        Splitting needs semantic-text-splitter. Raises ValueError if an id alone is longer than the limit.
        """
        return [piece for content in contents for piece in self._cut(content)]

    def pack(self, contents: Sequence[Content]) -> list[str]:
        """Join passages into as few strings as possible, each short enough for one model request."""
        packs: list[str] = []
        for piece in self.pieces(contents):
            joined = f"{packs[-1]}\n\n{piece}" if packs else piece
            if packs and self.measure(joined) <= self.limit:
                packs[-1] = joined
            else:
                packs.append(piece)
        return packs

    def truncate(self, contents: Sequence[Content]) -> str:
        """Join all passages into one string, using only the beginning of each if it would be too long."""
        whole = format_contents(contents)
        if self.measure(whole) <= self.limit:
            return whole
        left = self.limit - self.measure("\n\n") * (len(contents) - 1)
        by_size = sorted(enumerate(contents), key=lambda item: self.measure(format_contents([item[1]])))
        texts: dict[int, str] = {}
        for index, content in by_size:  # shortest first: what they do not use is left for the longer ones
            share = replace(self, limit=max(left // (len(contents) - len(texts)), 1))
            texts[index] = share.pieces([content])[0]
            left -= self.measure(texts[index])
        return "\n\n".join(texts[index] for index in range(len(contents)))

    def _cut(self, content: Content) -> list[str]:
        whole = format_contents([content])
        if self.measure(whole) <= self.limit:
            return [whole]
        heading = whole.removesuffix(content.text)
        left = self.limit - self.measure(heading)
        if left < 1:
            raise ValueError(
                f"the id {content.id!r} leaves no room for text within {self.setting}={self.limit}; "
                f"raise {self.setting} or shorten the ids"
            )
        # imported only here: short contents need no splitter
        library = import_extra("semantic_text_splitter", "retrieval", "Synthesizer")
        splitter = library.TextSplitter.from_callback(self.measure, left)
        return [f"{heading}{piece}" for piece in splitter.chunks(content.text) or [""]]


class ResponseMode(StrEnum):
    """The way in which an answer is made from several passages, such as refining it with each passage.

    Attributes:
        REFINE: The first content gives an answer, and each further content refines it.
        COMPACT: Like REFINE, but each request contains as many contents as fit.
        TREE_SUMMARIZE: Contents are packed into requests, which run concurrently and each return a text.
            These texts are packed again, until all of them fit in one request, which returns the answer.
        ACCUMULATE: Each content gives an answer of its own, concurrently. The value is the list of the
            answers. A content that is too long gives one answer for each of its pieces.
        SIMPLE_SUMMARIZE: One request with all contents, which are truncated to fit.
    """

    REFINE = "refine"
    COMPACT = "compact"
    TREE_SUMMARIZE = "tree_summarize"
    ACCUMULATE = "accumulate"
    SIMPLE_SUMMARIZE = "simple_summarize"


class PartAnswered(NamedTuple):
    """A stream event with the answer from one of several passages (in the mode ACCUMULATE).

    The events are emitted in the order of the passages.

    Attributes:
        number: The number of the answer, counted from 0.
        value: The answer.
    """

    number: int
    value: Any


T = TypeVar("T")
V = TypeVar("V")
Chunks: TypeAlias = Iterable[str | DocumentLike | Content]
_OneValue: TypeAlias = Literal[
    ResponseMode.REFINE,
    ResponseMode.COMPACT,
    ResponseMode.TREE_SUMMARIZE,
    ResponseMode.SIMPLE_SUMMARIZE,
    "refine",
    "compact",
    "tree_summarize",
    "simple_summarize",
]
_NO_OPTIONS = ChatOptions()
_DEFAULT_RETRY = Retry()
_DEFAULT_PROMPTS = SynthesisPrompts()


@checks_arguments
class Synthesizer(Generic[T]):
    """Answers questions from text that may be too long for one request, using several model calls.

    The answer is a value of the output type.

    ``options``, ``retry`` and ``interceptors`` have the same meaning as in ``create``. Raises DefinitionError
    with all problems.

    Args:
        model: The model, as in ``create``.
        mode: How the answer is made from the contents; see ``ResponseMode``.
        output_type: The type of an answer. With "accumulate" the value is a list of such answers.
        max_characters: The maximum number of characters of contents in one request. Leave room for the
            question, the instructions and the answer so far.
        max_tokens: The same limit in tokens, used instead of ``max_characters``. Requires ``count_tokens``.
        count_tokens: Returns the number of tokens of a text.
        prompts: The prompt templates.
        budget: Its number of attempts is for each question to the model; its seconds, tokens and money are
            for the whole synthesis.
        max_concurrency: The maximum number of requests at the same time.
    """

    @overload
    def __init__(
        self: Synthesizer[list[V]],
        model: ChatModel | str | None,
        mode: Literal[ResponseMode.ACCUMULATE, "accumulate"],
        output_type: TypeForm[V],
        *,
        max_characters: int = ...,
        max_tokens: int | None = ...,
        count_tokens: Callable[[str], int] | None = ...,
        prompts: SynthesisPrompts = ...,
        options: ChatOptions = ...,
        budget: Budget | None = ...,
        retry: Retry | None = ...,
        interceptors: Sequence[Interceptor] = ...,
        max_concurrency: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Synthesizer[V],
        model: ChatModel | str | None,
        mode: _OneValue,
        output_type: TypeForm[V],
        *,
        max_characters: int = ...,
        max_tokens: int | None = ...,
        count_tokens: Callable[[str], int] | None = ...,
        prompts: SynthesisPrompts = ...,
        options: ChatOptions = ...,
        budget: Budget | None = ...,
        retry: Retry | None = ...,
        interceptors: Sequence[Interceptor] = ...,
        max_concurrency: int = ...,
    ) -> None: ...
    def __init__(
        self,
        model: ChatModel | str | None,
        mode: ResponseMode | str,
        output_type: object,
        *,
        max_characters: int = 12_000,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        prompts: SynthesisPrompts = _DEFAULT_PROMPTS,
        options: ChatOptions = _NO_OPTIONS,
        budget: Budget | None = None,
        retry: Retry | None = _DEFAULT_RETRY,
        interceptors: Sequence[Interceptor] = (),
        max_concurrency: int = 8,
    ) -> None:
        self._mode = _parse_mode(mode)
        self._output_type = output_type
        self._limit = _text_limit(max_characters, max_tokens, count_tokens)
        self._budget = budget or Budget()
        if max_concurrency < 1:
            raise _definition_error(f"max_concurrency is {max_concurrency}; it must be at least 1")
        self._max_concurrency = max_concurrency
        self._plan_questions = partial(
            SynthesisQuestions.plan,
            find_model(model, "Synthesizer"),
            prompts=prompts,
            options=options,
            budget=self._budget,
            retry=retry,
            interceptors=interceptors,
        )
        self._questions = self._plan_questions(output_type)
        if self._questions.answer.returns.shape is not ReturnShape.VALUE:
            # Stream, Result and iterators describe a whole call, which the method of the synthesizer decides
            raise _definition_error(
                "output_type must be the type of one answer; call stream or iterate to get it while it is "
                "written"
            )

    def synthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """Answer a question from strings or documents that may be too long for one model request.

        The Result has all requests in ``attempts``, the last one in ``reply``, and the contents in
        ``sources``. Raises ValueError if there are no chunks, and the errors of a service method.
        """
        synthesis = self._start(question, chunks, ThreadedFlows, self._questions)
        return self._result(synthesis, run(_run_mode(self._mode, synthesis)))

    async def asynthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """Answer a question from strings or documents; async version of ``synthesize``."""
        synthesis = self._start(question, chunks, TaskFlows, self._questions)
        return self._result(synthesis, await arun(_run_mode(self._mode, synthesis)))

    def stream(self, question: str, chunks: Chunks) -> Stream[T]:
        """Answer a question from strings or documents, streaming the answer.

        With ACCUMULATE the stream contains the answers as PartAnswered events. Raises DefinitionError if
        values of the output type cannot be shown while they are written, such as ChatReply.
        """
        synthesis = self._start(question, chunks, ThreadedFlows, self._stream_questions)
        return Stream(stream(self._emit_answer(synthesis)), partial(self._result, synthesis))

    def astream(self, question: str, chunks: Chunks) -> AsyncStream[T]:
        """Answer a question, streaming the answer; async version of ``stream``."""
        synthesis = self._start(question, chunks, TaskFlows, self._stream_questions)
        return AsyncStream(astream(self._emit_answer(synthesis)), partial(self._result, synthesis))

    @overload
    def iterate(self: Synthesizer[str], question: str, chunks: Chunks) -> Generator[str, None, None]: ...
    @overload
    def iterate(self: Synthesizer[list[V]], question: str, chunks: Chunks) -> Generator[V, None, None]: ...
    def iterate(self, question: str, chunks: Chunks) -> Generator[object, None, None]:
        """Answer a question from strings or documents, yielding text chunks or list items of the answer.

        Once the first part of the answer has been yielded, no answer is requested again. Raises
        DefinitionError for other output types.
        """
        chunk_source, questions = self._iterator_plan
        parts = AnswerParts(chunk_source)
        synthesis = self._start(question, chunks, ThreadedFlows, questions, parts.start)
        return iterate(self._emit_answer(synthesis), parts)

    @overload
    def aiterate(self: Synthesizer[str], question: str, chunks: Chunks) -> AsyncGenerator[str, None]: ...
    @overload
    def aiterate(self: Synthesizer[list[V]], question: str, chunks: Chunks) -> AsyncGenerator[V, None]: ...
    def aiterate(self, question: str, chunks: Chunks) -> AsyncGenerator[object, None]:
        """Yield text chunks or list items of the answer to a question; async version of ``iterate``."""
        chunk_source, questions = self._iterator_plan
        parts = AnswerParts(chunk_source)
        synthesis = self._start(question, chunks, TaskFlows, questions, parts.start)
        return aiterate(self._emit_answer(synthesis), parts)

    @cached_property
    def _stream_questions(self) -> SynthesisQuestions:
        """The prompts and model calls for an answer that is streamed as partial values."""
        # planned separately, because a value that is shown early must be sent in its own shape
        return self._plan_questions(types.GenericAlias(Stream, self._output_type))

    @cached_property
    def _iterator_plan(self) -> tuple[Callable[[Invocation], ChunkSource], SynthesisQuestions]:
        """Prepare the model calls for yielding an answer as text chunks or list items.

        Raises DefinitionError unless the output type is text or a list.
        """
        output_type = self._output_type
        if output_type is str or self._mode is ResponseMode.ACCUMULATE:
            return TextChunks, self._questions
        if get_origin(output_type) is list:
            item_type = get_args(output_type)[0]
            iterator_type: object = Iterator[item_type]  # type: ignore[valid-type]  # known at run time only
            return ItemStream, self._plan_questions(iterator_type)
        raise DefinitionError(
            [
                DefinitionProblem(
                    "Synthesizer.iterate",
                    f"{type_name(output_type)} is neither text nor a list, so it has no parts; use stream",
                )
            ]
        )

    def _start(
        self,
        question: str,
        chunks: Chunks,
        flows_class: Callable[[Sequence[Flow[Answer]], int], ConcurrentFlows],
        last_questions: SynthesisQuestions,
        on_last_question: Callable[[Invocation], None] = lambda invocation: None,
    ) -> SynthesisRun:
        contents = contents_of(chunks, "chunk")
        if not contents:
            raise ValueError("there are no chunks to answer from; pass at least one")
        return SynthesisRun(
            question,
            contents,
            self._questions,
            last_questions,
            self._limit,
            SynthesisBudget(self._budget),
            lambda flows: flows_class(flows, self._max_concurrency),
            on_last_question,
        )

    def _emit_answer(self, synthesis: SynthesisRun) -> Flow[None]:
        """Run the model calls that answer the question, and emit the answer as the last stream event."""
        flow = _run_mode(self._mode, synthesis)
        answer = yield from hold_back(flow) if synthesis.last_questions.pipeline.blocks_streaming else flow
        yield Emit(Accepted(answer))

    def _result(self, synthesis: SynthesisRun, answer: Answer) -> Result[T]:
        answer = replace(answer, sources=tuple(synthesis.contents))
        return answer.result(synthesis.budget.attempts, synthesis.budget.seconds)


def _definition_error(problem: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem("Synthesizer", problem)])


def _parse_mode(mode: ResponseMode | str) -> ResponseMode:
    try:
        return ResponseMode(mode)
    except ValueError as error:
        problem = f"the mode {mode!r} is unknown; the modes are: {', '.join(ResponseMode)}"
        raise _definition_error(problem) from error


def _text_limit(
    max_characters: int, max_tokens: int | None, count_tokens: Callable[[str], int] | None
) -> TextLimit:
    if max_tokens is None and count_tokens is None:
        return TextLimit(max_characters)
    if max_tokens is None or count_tokens is None:
        raise _definition_error("max_tokens and count_tokens must be passed together")
    return TextLimit(max_tokens, count_tokens, "max_tokens")


class AnswerParts:
    """Converts a streamed answer's events to text chunks or list items."""

    def __init__(self, chunk_source: Callable[[Invocation], ChunkSource]) -> None:
        self._make_chunk_source = chunk_source
        self._chunks: ChunkSource | None = None

    def start(self, invocation: Invocation) -> None:
        """Prepare to convert the events of the last model call, which starts now."""
        self._chunks = self._make_chunk_source(invocation)

    def chunks(self, event: object) -> Iterator[object]:
        """Yield the text chunks or list items that are complete after a stream event."""
        if type(event) is PartAnswered:
            yield event.value
        elif self._chunks is not None:
            yield from self._chunks.chunks(event)


@dataclass(frozen=True, slots=True)
class SynthesisRun:
    """The data for answering one question: the passages, the limits and the progress.

    Attributes:
        question: The question.
        contents: What to answer from.
        questions: The questions for requests before the last one, which streams do not show.
        last_questions: The questions for the request that returns the answer.
        limit: The maximum length of the text of one request.
        budget: The budget that all requests share.
        start_flows: Starts flows that run concurrently.
        on_last_question: Called with the invocation of the last question before it is sent.
    """

    question: str
    contents: Sequence[Content]
    questions: SynthesisQuestions
    last_questions: SynthesisQuestions
    limit: TextLimit
    budget: SynthesisBudget
    start_flows: StartFlows
    on_last_question: Callable[[Invocation], None]

    def ask(self, plan: MethodPlan, information: str, **variables: str) -> Flow[Answer]:
        """Ask the model a preliminary question, without showing its answer in the user's stream."""
        invocation = self._invocation(plan, information, variables)
        return (yield from hide_from_stream(self.budget.ask(self.questions.pipeline, invocation)))

    def ask_last(self, plan: MethodPlan, information: str, **variables: str) -> Flow[Answer]:
        """Make the last of several model calls, which returns the answer for the user."""
        invocation = self._invocation(plan, information, variables)
        self.on_last_question(invocation)
        return (yield from self.budget.ask(self.last_questions.pipeline, invocation))

    def ask_each(self, plan: MethodPlan, texts: Sequence[str]) -> Flow[list[Answer]]:
        """Ask the same question about each string concurrently, and return the answers in order.

        Emits a PartAnswered event for each answer.
        """
        flows = [self.ask(plan, text) for text in texts]
        running: ConcurrentFlows = yield Run(lambda: self.start_flows(flows))
        answers: list[Answer] = []
        try:
            for number in range(len(texts)):
                answers.append((yield Run(partial(running.result, number))))
                yield Emit(PartAnswered(number, answers[-1].value))
        except GeneratorExit:  # the stream was closed, and a closed generator cannot wait for the flows
            running.stop()
            raise
        except BaseException:
            yield Run(running.join)
            raise
        yield Run(running.join)
        return answers

    def _invocation(self, plan: MethodPlan, information: str, variables: Mapping[str, str]) -> Invocation:
        arguments = {"information": information, "question": self.question, **variables}
        return self.budget.invocation(plan, arguments)


def _run_mode(mode: ResponseMode, synthesis: SynthesisRun) -> Flow[Answer]:
    """Answer a question from several passages by the given method, such as REFINE or ACCUMULATE.

    If an AiServiceError is raised, it contains the attempts of all requests of the synthesis.
    """
    try:
        answer: Answer = yield from _MODES[mode](synthesis)
    except AiServiceError as error:
        error.attempts = tuple(synthesis.budget.attempts)
        raise
    return answer


def _refine(synthesis: SynthesisRun) -> Flow[Answer]:
    return (yield from _refine_texts(synthesis, synthesis.limit.pieces(synthesis.contents)))


def _compact(synthesis: SynthesisRun) -> Flow[Answer]:
    return (yield from _refine_texts(synthesis, synthesis.limit.pack(synthesis.contents)))


def _refine_texts(synthesis: SynthesisRun, texts: Sequence[str]) -> Flow[Answer]:
    """Ask the model for an answer from the first text, and to refine the answer with each further text."""
    if len(texts) == 1:
        return (yield from synthesis.ask_last(synthesis.last_questions.answer, texts[0]))
    answer = yield from synthesis.ask(synthesis.questions.answer, texts[0])
    for text in texts[1:-1]:
        existing = synthesis.questions.write(answer.value)
        answer = yield from synthesis.ask(synthesis.questions.refine, text, existing=existing)
    existing = synthesis.questions.write(answer.value)
    return (yield from synthesis.ask_last(synthesis.last_questions.refine, texts[-1], existing=existing))


def _tree_summarize(synthesis: SynthesisRun) -> Flow[Answer]:
    texts = synthesis.limit.pack(synthesis.contents)
    while len(texts) > 1:
        answers = yield from hide_from_stream(synthesis.ask_each(synthesis.questions.summarize, texts))
        summaries = synthesis.limit.pack([Content(answer.value) for answer in answers])
        if len(summaries) >= len(texts):  # summaries that do not get shorter would be summarized forever
            return (yield from _refine_texts(synthesis, summaries))
        texts = summaries
    return (yield from synthesis.ask_last(synthesis.last_questions.combine, texts[0]))


def _accumulate(synthesis: SynthesisRun) -> Flow[Answer]:
    answers = yield from synthesis.ask_each(
        synthesis.questions.answer, synthesis.limit.pieces(synthesis.contents)
    )
    # the reply and the strategy of the result are those of the last answer
    coercions = tuple(coercion for answer in answers for coercion in answer.coercions)
    return replace(answers[-1], value=[answer.value for answer in answers], coercions=coercions)


def _simple_summarize(synthesis: SynthesisRun) -> Flow[Answer]:
    return (
        yield from synthesis.ask_last(
            synthesis.last_questions.answer, synthesis.limit.truncate(synthesis.contents)
        )
    )


_MODES: Mapping[ResponseMode, Callable[[SynthesisRun], Flow[Answer]]] = {
    ResponseMode.REFINE: _refine,
    ResponseMode.COMPACT: _compact,
    ResponseMode.TREE_SUMMARIZE: _tree_summarize,
    ResponseMode.ACCUMULATE: _accumulate,
    ResponseMode.SIMPLE_SUMMARIZE: _simple_summarize,
}


class ConcurrentFlows(Protocol):
    """A group of model calls that run concurrently; after a failure, no further calls are started.

    The methods of ``ThreadedFlows`` are blocking; those of ``TaskFlows`` are awaited.
    """

    def result(self, index: int, /) -> Answer | Awaitable[Answer]:
        """Wait for the answer of the model call with this index.

        Raises the first error of any of the calls.
        """
        ...

    def stop(self) -> None:
        """Do not start the remaining model calls, and do not wait for the running calls."""
        ...

    def join(self) -> Awaitable[None] | None:
        """Wait until all concurrent model calls have ended."""
        ...


# Starts flows, and returns the object that waits for them.
StartFlows: TypeAlias = Callable[[Sequence[Flow[Answer]]], ConcurrentFlows]


class ThreadedFlows:
    """Model calls that run concurrently in threads; running calls cannot be stopped."""

    def __init__(self, flows: Sequence[Flow[Answer]], max_concurrency: int) -> None:
        self._pool = ThreadPoolExecutor(min(len(flows), max_concurrency))
        # each thread gets a copy of the context, so that context variables such as spans are visible in it
        self._futures = [self._pool.submit(copy_context().run, run, flow) for flow in flows]
        self._running = set(self._futures)
        for future in self._futures:
            future.add_done_callback(self._stop_after_failure)

    def result(self, index: int, /) -> Answer:
        while self._futures[index] in self._running:
            done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
        return self._futures[index].result()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _stop_after_failure(self, future: Future[Answer]) -> None:
        if not future.cancelled() and future.exception() is not None:
            self.stop()


class TaskFlows:
    """Model calls that run concurrently, each in its own task of an event loop."""

    def __init__(self, flows: Sequence[Flow[Answer]], max_concurrency: int) -> None:
        self._semaphore = asyncio.Semaphore(max_concurrency)
        self._tasks = [asyncio.ensure_future(self._run(flow)) for flow in flows]
        self._running = set(self._tasks)

    async def result(self, index: int, /) -> Answer:
        while self._tasks[index] in self._running:
            done, self._running = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # the error is in the task whose failure cancelled this one
                if not task.cancelled():
                    task.result()
        return self._tasks[index].result()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def join(self) -> None:
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, flow: Flow[Answer]) -> Answer:
        async with self._semaphore:
            try:
                return await arun(flow)
            except BaseException:
                # At once, because a callback of this task would run after the next call has started.
                for task in self._tasks:
                    if task is not asyncio.current_task():
                        task.cancel()
                raise
