"""Prompts, text sizes and limits for the model calls that answer a question from long texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from ..engine.budget import Budget
from ..engine.effects import Flow
from ..engine.pipeline import Interceptor, Pipeline
from ..engine.plan import CallState, Invocation
from ..engine.results import Answer
from ..engine.retry import Retry
from ..interface.decorators import user_message
from ..models.base import ChatModel
from ..models.errors import Attempt, DefinitionError, DefinitionProblem
from ..models.extras import import_extra
from ..models.requests import ChatOptions
from ..retrieval.augmentor import format_contents
from ..retrieval.content import Content
from ..service.compile import MethodPlan
from ..service.create import create
from ..service.methods import plan_of

T_co = TypeVar("T_co", covariant=True)
_LINE = "---------------------"


@dataclass(frozen=True, slots=True)
class SynthesisPrompts:
    """Prompt templates for answering a question from texts, and for refining the answer.

    All templates have the variables ``information``, the contents, each below its id, and ``question``.

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
    """The service methods for answering a question from many texts, such as refining an answer.

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
        """Prepare the model calls for answering a question from many texts, or raise DefinitionError."""
        interface: Any = _interface(prompts)
        service: Any = create(interface[output_type], model, options=options, budget=budget, retry=retry)
        return SynthesisQuestions(
            plan_of(service.answer),
            plan_of(service.refine),
            plan_of(service.combine),
            plan_of(service.summarize),
            Pipeline(interceptors if retry is None else (*interceptors, retry)),
        )

    def write(self, value: Any) -> str:
        """Convert a preliminary answer to text, for the prompt that asks the model to refine it."""
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
    """Limits of time, tokens and money for all the model calls that produce one answer together.

    The seconds, tokens and money of the budget are for the whole synthesis, its number of attempts is for
    each question. A question gets what is left when it starts, so concurrent questions can exceed a limit.

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
        """Prepare one of the model calls for an answer, within the remaining budget.

        Raises BudgetExceededError if nothing of the budget is left.
        """
        return replace(plan.invocation((), arguments, self.budget), state=self._call_state())

    def ask(self, pipeline: Pipeline, invocation: Invocation) -> Flow[Answer]:
        """Run one of several model calls, counting its requests towards their shared limits."""
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
    """The size limit for texts in one model request, with methods to split and join texts accordingly.

    Attributes:
        limit: The largest size of a text.
        measure: Returns the size of a text, in characters or tokens.
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
        """Convert retrieved texts to texts that each fit in one model request, splitting long ones.

        Cutting needs semantic-text-splitter. Raises ValueError if an id alone is longer than the limit.
        """
        return [piece for content in contents for piece in self._cut(content)]

    def pack(self, contents: Sequence[Content]) -> list[str]:
        """Join texts into as few larger texts as possible, each small enough for one model request."""
        packs: list[str] = []
        for piece in self.pieces(contents):
            joined = f"{packs[-1]}\n\n{piece}" if packs else piece
            if packs and self.measure(joined) <= self.limit:
                packs[-1] = joined
            else:
                packs.append(piece)
        return packs

    def truncate(self, contents: Sequence[Content]) -> str:
        """Join all retrieved texts to one text, using only the beginning of each if it would be too long."""
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
