"""Answers a question from contents, with a value of a type."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from ..budget import Budget
from ..errors import AiServiceError, DefinitionError, Fault
from ..flow import Do, Flow, arun, run
from ..models.base import ChatModel
from ..pipeline import Answer, Interceptor
from ..requests import ChatOptions
from ..retrieval.content import Content, DocumentLike, contents_of
from ..retry import Retry
from ..returns import Result
from .modes import MODES, Mode, SideBySide, Synthesis
from .packing import Room
from .questions import Account, Questions, SynthesisPrompts

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
        self._mode = _mode(mode)
        self._room = Room(limit, measure)
        self._budget = budget or Budget()
        self._questions = Questions.of(model, form, prompts, options, self._budget, retry, interceptors)
        self._at_once = at_once

    def synthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """The answer to a question from texts, documents or contents, which are the sources of the Result.

        Its ``attempts`` are all requests that were made, its ``reply`` is the last one. Raises ValueError
        when there are no chunks, and what a method of a service raises.
        """
        work = self._work(question, chunks, lambda flows: Do(lambda: _in_threads(flows, self._at_once)))
        try:
            return self._result(run(MODES[self._mode](work)), work)
        except AiServiceError as error:
            error.attempts = tuple(work.account.attempts)
            raise

    async def asynthesize(self, question: str, chunks: Chunks) -> Result[T]:
        """As ``synthesize``, awaited."""
        work = self._work(question, chunks, lambda flows: Do(lambda: _as_tasks(flows, self._at_once)))
        try:
            return self._result(await arun(MODES[self._mode](work)), work)
        except AiServiceError as error:
            error.attempts = tuple(work.account.attempts)
            raise

    def _work(self, question: str, chunks: Chunks, side_by_side: SideBySide) -> Synthesis:
        contents = contents_of(chunks)
        if not contents:
            raise ValueError("there are no chunks to answer from; give at least one")
        account = Account(self._budget)
        return Synthesis(question, contents, self._questions, self._room, account, side_by_side)

    def _result(self, answer: Answer, work: Synthesis) -> Result[T]:
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


def _mode(given: Mode | str) -> Mode:
    try:
        return Mode(given)
    except ValueError as error:
        said = f"the mode {given!r} is unknown; there are: {', '.join(Mode)}"
        raise DefinitionError([Fault("Synthesizer", said)]) from error


def _in_threads(flows: Sequence[Flow[Answer]], at_once: int) -> list[Answer]:
    """The outcomes of flows that run side by side. Where one fails, those that wait are not begun."""
    from concurrent.futures import ThreadPoolExecutor
    from contextvars import copy_context

    failed = threading.Event()

    def one(flow: Flow[Answer]) -> Answer | None:
        return None if failed.is_set() else run(_noting(flow, failed))

    with ThreadPoolExecutor(min(len(flows), at_once)) as pool:
        runs = [pool.submit(copy_context().run, one, flow) for flow in flows]
    return [cast("Answer", ended.result()) for ended in runs]  # or the error, so no flow is without an answer


async def _as_tasks(flows: Sequence[Flow[Answer]], at_once: int) -> list[Answer]:
    """The same in the running event loop. Where one fails, the others are cancelled."""
    import asyncio

    room, failed = asyncio.Semaphore(at_once), threading.Event()

    async def one(flow: Flow[Answer]) -> Answer | None:
        async with room:
            return None if failed.is_set() else await arun(_noting(flow, failed))

    tasks = [asyncio.ensure_future(one(flow)) for flow in flows]
    try:
        return cast("list[Answer]", await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _noting(flow: Flow[Answer], failed: threading.Event) -> Flow[Answer]:
    """The same flow; where it fails, that is noted for those which have not begun."""
    try:
        return (yield from flow)
    except BaseException:
        failed.set()
        raise
