"""What a synthesizer asks of its model, and the account of all that one synthesis asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from ..engine.budget import Budget, CallState
from ..engine.effects import Flow, arun, run
from ..engine.pipeline import Answer, Interceptor, Pipeline
from ..engine.plan import Invocation, MethodPlan
from ..engine.retry import Retry
from ..interface.decorators import user_message
from ..models.base import ChatModel
from ..models.errors import Attempt, DefinitionError, DefinitionProblem
from ..models.requests import ChatOptions
from ..retrieval.augmentor import listed
from ..retrieval.content import Content, needed
from ..service.create import create, plan_of

T_co = TypeVar("T_co", covariant=True)
_BETWEEN = "---------------------"


@dataclass(frozen=True, slots=True)
class SynthesisPrompts:
    """The templates of what is asked. ``information`` are the contents, each below its id.

    ``answer``, ``summarize`` and ``combine`` know ``information`` and ``question``, ``refine`` also
    ``existing``, which is the answer so far. ``summarize`` is asked of each part of a text that is more than
    one request shows, and ``combine`` of what was said of the parts.
    """

    answer: str = (
        f"Context information is below.\n{_BETWEEN}\n{{{{information}}}}\n{_BETWEEN}\n"
        "Given the context information and not prior knowledge, answer the query.\nQuery: {{question}}"
    )
    refine: str = (
        "The original query is: {{question}}\nThere is an existing answer: {{existing}}\n"
        "Refine the existing answer, only if needed, with the further context below.\n"
        f"{_BETWEEN}\n{{{{information}}}}\n{_BETWEEN}\n"
        "Answer the original query, with the new context taken into account. If it is not useful, repeat the "
        "existing answer."
    )
    summarize: str = (
        f"Context information from several sources is below.\n{_BETWEEN}\n{{{{information}}}}\n{_BETWEEN}\n"
        "Given the information from several sources and not prior knowledge, write down what helps to answer "
        "the query. Name the ids in brackets of the sources that it comes from.\nQuery: {{question}}"
    )
    combine: str = (
        f"Context information from several sources is below.\n{_BETWEEN}\n{{{{information}}}}\n{_BETWEEN}\n"
        "Given the information from several sources and not prior knowledge, answer the query.\n"
        "Query: {{question}}"
    )


class Questions(NamedTuple):
    """What can be asked: ``answer``, ``refine`` and ``combine`` give the form, ``summarize`` gives text."""

    answer: MethodPlan
    refine: MethodPlan
    combine: MethodPlan
    summarize: MethodPlan
    pipeline: Pipeline

    @staticmethod
    def of(
        model: ChatModel | str | None,
        form: Any,
        prompts: SynthesisPrompts,
        options: ChatOptions,
        budget: Budget,
        retry: Retry | None,
        interceptors: Sequence[Interceptor],
    ) -> Questions:
        """Raises DefinitionError with all problems."""
        interface: Any = _interface(prompts)
        service: Any = create(interface[form], model, options=options, budget=budget)
        return Questions(
            plan_of(service.answer),
            plan_of(service.refine),
            plan_of(service.combine),
            plan_of(service.summarize),
            Pipeline(interceptors if retry is None else (*interceptors, retry)),
        )

    def written(self, value: Any) -> str:
        """An answer as the model is shown it again: in the form that it wrote it in."""
        parser = self.refine.wire.parser
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
class Account:
    """What one synthesis has asked, and what it may still spend.

    ``seconds``, ``tokens`` and ``money`` of the budget hold for all that it asks, ``attempts`` for each
    question. What is asked side by side begins with what is left then.
    """

    budget: Budget
    began: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall time since the synthesis began."""
        return time.monotonic() - self.began

    def invocation(self, plan: MethodPlan, arguments: Mapping[str, Any]) -> Invocation:
        """A question with what is left for it. Raises BudgetExceededError when that is nothing."""
        return replace(plan.invocation((), arguments, self.budget), state=self._context())

    def ask(self, pipeline: Pipeline, invocation: Invocation) -> Flow[Answer]:
        """The answer to one question."""
        try:
            return (yield from pipeline.flow(invocation))
        finally:
            self.attempts.extend(invocation.state.attempts)

    def _context(self) -> CallState:
        made = [*self.attempts]  # others that run side by side add to them meanwhile
        so_far = CallState(replace(self.budget, attempts=len(made) + 1), self.began, made)
        exceeded = so_far.exceeded()
        if exceeded is not None:
            raise exceeded
        tokens, money = self.budget.tokens, self.budget.money
        left = replace(
            self.budget,
            tokens=None if tokens is None else tokens - so_far.tokens,
            money=None if money is None else money - so_far.money,
        )
        return CallState(left, self.began)


@dataclass(frozen=True, slots=True)
class Room:
    """How much text of contents one request shows: ``limit``, as ``measure`` counts it."""

    limit: int
    measure: Callable[[str], int] = len

    def __post_init__(self) -> None:
        if self.limit < 1:
            said = f"limit is {self.limit}; it must be at least 1"
            raise DefinitionError([DefinitionProblem("Synthesizer", said)])

    def pieces(self, contents: Sequence[Content]) -> list[str]:
        """Each content by itself, below its id; one that is too long in several pieces with that id.

        Cutting needs semantic-text-splitter. Raises ValueError where an id alone leaves no room for text.
        """
        return [piece for content in contents for piece in self._cut(content)]

    def packed(self, contents: Sequence[Content]) -> list[str]:
        """As many contents together as fit, in their order."""
        packs: list[str] = []
        for piece in self.pieces(contents):
            joined = f"{packs[-1]}\n\n{piece}" if packs else piece
            if packs and self.measure(joined) <= self.limit:
                packs[-1] = joined
            else:
                packs.append(piece)
        return packs

    def truncated(self, contents: Sequence[Content]) -> str:
        """All contents in one text; where that is too long, the beginning of each."""
        whole = listed(contents)
        if self.measure(whole) <= self.limit:
            return whole
        left = self.limit - self.measure("\n\n") * (len(contents) - 1)
        by_size = sorted(enumerate(contents), key=lambda one: self.measure(listed([one[1]])))
        shown: dict[int, str] = {}
        for at, content in by_size:  # what the short ones leave over is for the long ones
            share = Room(max(left // (len(contents) - len(shown)), 1), self.measure)
            shown[at] = share.pieces([content])[0]
            left -= self.measure(shown[at])
        return "\n\n".join(shown[at] for at in range(len(contents)))

    def _cut(self, content: Content) -> list[str]:
        whole = listed([content])
        if self.measure(whole) <= self.limit:
            return [whole]
        head = whole.removesuffix(content.text)
        left = self.limit - self.measure(head)
        if left < 1:
            said = f"the id {content.id!r} leaves no room for text within the limit of {self.limit}"
            raise ValueError(f"{said}; raise limit or shorten the ids")
        splitter = needed("semantic_text_splitter", "retrieval").TextSplitter.from_callback(
            self.measure, left
        )
        return [f"{head}{piece}" for piece in splitter.chunks(content.text) or [""]]


class Runs(Protocol):
    """Flows that have begun. Where one fails, those that wait for their turn are not begun any more."""

    def outcome(self, number: int, /) -> Answer | Awaitable[Answer]:
        """The answer of one flow, by its place. Raises the error of any of them, as soon as it is there."""
        ...

    def stop(self) -> None:
        """Begin no more of them, and wait for none."""
        ...

    def ended(self) -> Awaitable[None] | None:
        """Wait until none of them runs any more, however it ends."""
        ...


# Begins flows.
SideBySide: TypeAlias = Callable[[Sequence[Flow[Answer]]], Runs]


class Threads:
    """Flows in threads. What runs in one cannot be stopped: it is left to come to its end."""

    def __init__(self, flows: Sequence[Flow[Answer]], at_once: int) -> None:
        self._pool = ThreadPoolExecutor(min(len(flows), at_once))
        self._runs = [self._pool.submit(copy_context().run, run, flow) for flow in flows]
        self._open = set(self._runs)
        for one in self._runs:
            one.add_done_callback(self._noted)

    def outcome(self, number: int, /) -> Answer:
        while self._runs[number] in self._open:
            ended, self._open = wait(self._open, return_when=FIRST_COMPLETED)
            for one in ended:
                one.result()
        return self._runs[number].result()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ended(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _noted(self, one: Future[Answer]) -> None:
        if not one.cancelled() and one.exception() is not None:
            self.stop()


class Tasks:
    """Flows as tasks of the running event loop."""

    def __init__(self, flows: Sequence[Flow[Answer]], at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._runs = [asyncio.ensure_future(self._run(flow)) for flow in flows]
        self._open = set(self._runs)
        for one in self._runs:
            one.add_done_callback(self._noted)

    async def outcome(self, number: int, /) -> Answer:
        while self._runs[number] in self._open:
            ended, self._open = await asyncio.wait(self._open, return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                if not one.cancelled():  # that follows from the error of another one
                    one.result()
        return self._runs[number].result()

    def stop(self) -> None:
        for one in self._runs:
            one.cancel()

    async def ended(self) -> None:
        self.stop()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def _run(self, flow: Flow[Answer]) -> Answer:
        async with self._room:
            return await arun(flow)

    def _noted(self, one: asyncio.Task[Answer]) -> None:
        if not one.cancelled() and one.exception() is not None:
            self.stop()
