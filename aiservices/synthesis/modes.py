"""The ways from contents to an answer, each as a flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from ..errors import AiServiceError, DefinitionError, Fault
from ..flow import Do, Emit, Flow
from ..pipeline import Answer
from ..plan import MethodPlan, Turn
from ..retrieval.aside import aside
from ..retrieval.content import Content
from .packing import Room
from .questions import Account, Questions
from .side_by_side import Runs, SideBySide

__all__ = ["Mode", "PartAnswered", "Synthesis", "mode_of", "synthesis"]


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
        raise DefinitionError([Fault("Synthesizer", said)]) from error


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
    begins: Callable[[Turn], None]

    def ask(self, plan: MethodPlan, information: str, **more: str) -> Flow[Answer]:
        turn = self._turn(plan, information, more)
        return (yield from aside(self.account.ask(self.questions.pipeline, turn)))

    def ask_last(self, plan: MethodPlan, information: str, **more: str) -> Flow[Answer]:
        turn = self._turn(plan, information, more)
        self.begins(turn)
        return (yield from self.account.ask(self.last.pipeline, turn))

    def ask_each(self, plan: MethodPlan, parts: Sequence[str]) -> Flow[list[Answer]]:
        """The answers to the same from each part, side by side; told of one after the other."""
        flows = [self.ask(plan, part) for part in parts]
        runs: Runs = yield Do(lambda: self.side_by_side(flows))
        answers: list[Answer] = []
        try:
            for number in range(len(parts)):
                answers.append((yield Do(lambda at=number: runs.outcome(at))))  # type: ignore[misc]
                yield Emit(PartAnswered(number, answers[-1].value))
        except GeneratorExit:  # nothing can be waited for any more
            runs.stop()
            raise
        except BaseException:
            yield Do(runs.ended)
            raise
        yield Do(runs.ended)
        return answers

    def _turn(self, plan: MethodPlan, information: str, more: Mapping[str, str]) -> Turn:
        return self.account.turn(plan, {"information": information, "question": self.question, **more})


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
