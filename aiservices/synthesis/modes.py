"""The ways from contents to an answer, each as a flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from ..flow import Do, Flow
from ..pipeline import Answer
from ..plan import MethodPlan
from ..retrieval.content import Content
from .packing import Room
from .questions import Account, Questions

__all__ = ["MODES", "Mode", "SideBySide", "Synthesis"]

# Has flows run at the same time: in threads, or as tasks of an event loop. The outcome is their answers.
SideBySide: TypeAlias = Callable[[Sequence[Flow[Answer]]], Do]


class Mode(StrEnum):
    """How an answer comes of contents.

    REFINE: the first content gives an answer, each further one refines it. COMPACT: the same with as many
    contents at once as fit. TREE_SUMMARIZE: each part that fits gives a text, side by side, and these texts
    are the contents of the next round, until all that is left fits; that gives the answer. ACCUMULATE: each
    content gives an answer by itself, side by side, and one that is too long one for each of its pieces; the
    value is the list of them. SIMPLE_SUMMARIZE: one
    request with all contents, which are cut to fit.
    """

    REFINE = "refine"
    COMPACT = "compact"
    TREE_SUMMARIZE = "tree_summarize"
    ACCUMULATE = "accumulate"
    SIMPLE_SUMMARIZE = "simple_summarize"


@dataclass(frozen=True, slots=True)
class Synthesis:
    """One question to some contents on its way."""

    question: str
    contents: Sequence[Content]
    questions: Questions
    room: Room
    account: Account
    side_by_side: SideBySide

    def ask(self, plan: MethodPlan, information: str, **more: str) -> Flow[Answer]:
        given = {"information": information, "question": self.question, **more}
        return (yield from self.account.ask(self.questions.pipeline, plan, given))

    def ask_each(self, plan: MethodPlan, parts: Sequence[str]) -> Flow[list[Answer]]:
        if len(parts) == 1:
            return [(yield from self.ask(plan, parts[0]))]
        answers: list[Answer] = yield self.side_by_side([self.ask(plan, part) for part in parts])
        return answers


def _refined(work: Synthesis, parts: Sequence[str]) -> Flow[Answer]:
    answer = yield from work.ask(work.questions.answer, parts[0])
    for part in parts[1:]:
        existing = work.questions.written(answer.value)
        answer = yield from work.ask(work.questions.refine, part, existing=existing)
    return answer


def _refine(work: Synthesis) -> Flow[Answer]:
    return (yield from _refined(work, work.room.pieces(work.contents)))


def _compact(work: Synthesis) -> Flow[Answer]:
    return (yield from _refined(work, work.room.packed(work.contents)))


def _tree_summarize(work: Synthesis) -> Flow[Answer]:
    parts = work.room.packed(work.contents)
    while len(parts) > 1:
        answers = yield from work.ask_each(work.questions.summarize, parts)
        fewer = work.room.packed([Content(answer.value) for answer in answers])
        if len(fewer) >= len(parts):  # texts that do not become fewer would be asked for without end
            return (yield from _refined(work, fewer))
        parts = fewer
    return (yield from work.ask(work.questions.combine, parts[0]))


def _accumulate(work: Synthesis) -> Flow[Answer]:
    answers = yield from work.ask_each(work.questions.answer, work.room.pieces(work.contents))
    steps = tuple(step for answer in answers for step in answer.coercions)
    return replace(answers[-1], value=[answer.value for answer in answers], coercions=steps)


def _simple_summarize(work: Synthesis) -> Flow[Answer]:
    return (yield from work.ask(work.questions.answer, work.room.truncated(work.contents)))


MODES: Mapping[Mode, Callable[[Synthesis], Flow[Any]]] = {
    Mode.REFINE: _refine,
    Mode.COMPACT: _compact,
    Mode.TREE_SUMMARIZE: _tree_summarize,
    Mode.ACCUMULATE: _accumulate,
    Mode.SIMPLE_SUMMARIZE: _simple_summarize,
}
