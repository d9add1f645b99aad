"""What a synthesizer asks of its model, and the account of all that one synthesis asks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from ..budget import Budget, CallContext
from ..declare import user_message
from ..errors import Attempt
from ..flow import Flow
from ..models.base import ChatModel
from ..pipeline import Answer, Interceptor, Pipeline
from ..plan import MethodPlan, Turn
from ..requests import ChatOptions
from ..retry import Retry
from ..service import create, plan_of

__all__ = ["Account", "Questions", "SynthesisPrompts"]

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
        """Raises DefinitionError with all faults."""
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

    def turn(self, plan: MethodPlan, arguments: Mapping[str, Any]) -> Turn:
        """A question with what is left for it. Raises BudgetExceededError when that is nothing."""
        return replace(plan.turn((), arguments, self.budget), context=self._context())

    def ask(self, pipeline: Pipeline, turn: Turn) -> Flow[Answer]:
        """The answer to one question."""
        try:
            return (yield from pipeline.flow(turn))
        finally:
            self.attempts.extend(turn.context.attempts)

    def _context(self) -> CallContext:
        made = [*self.attempts]  # others that run side by side add to them meanwhile
        so_far = CallContext(replace(self.budget, attempts=len(made) + 1), self.began, made)
        exceeded = so_far.exceeded()
        if exceeded is not None:
            raise exceeded
        tokens, money = self.budget.tokens, self.budget.money
        left = replace(
            self.budget,
            tokens=None if tokens is None else tokens - so_far.tokens,
            money=None if money is None else money - so_far.money,
        )
        return CallContext(left, self.began)
