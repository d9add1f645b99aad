"""Asks a model again when its answer cannot be read, with the problems that it has to put right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from .errors import DefinitionError, Fault, ServiceOutputError
from .events import AnswerRejected
from .feedback import feedback, told
from .flow import Emit, Flow
from .pipeline import Answer, Proceed
from .plan import Turn

__all__ = ["Retry"]


Mode = Literal["whole", "fields"]


@dataclass(frozen=True, slots=True)
class Retry:
    """Asks again when an answer cannot be read as the method's type; the model sees it and its problems.

    ``max_attempts`` is how many answers are asked for, the first included; None: as many as the budget of
    the call permits, which bounds them in any case. ``mode``: the model writes the "whole" answer again, or
    only the "fields" that do not fit, which are put into the answer that it gave; where the whole does not
    fit, it writes the whole. The ``reply`` of the Result is the last one, which may be such a part. An
    interceptor; ``create(retry=…)`` puts it innermost.
    """

    max_attempts: int | None = None
    mode: Mode = "whole"
    stands_as: ClassVar = "retry"

    def __post_init__(self) -> None:
        faults = []
        if self.max_attempts is not None and self.max_attempts < 1:
            faults.append(Fault("Retry", f"max_attempts is {self.max_attempts}; it must be at least 1"))
        if self.mode not in get_args(Mode):
            faults.append(Fault("Retry", f"mode is {self.mode!r}; it must be one of whole, fields"))
        if faults:
            raise DefinitionError(faults)

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        ask, made = proceed, 0
        begun, since = turn, turn.told
        while True:
            try:
                return (yield from ask(turn))
            except ServiceOutputError as error:
                made += 1
                if made == self.max_attempts or not turn.context.may_ask_again():
                    _explain(error, turn)
                    raise
                yield Emit(AnswerRejected(error), shown=False)
                ask, turn = self._again(begun, since, error, proceed)

    def _again(
        self, begun: Turn, since: int, error: ServiceOutputError, proceed: Proceed
    ) -> tuple[Proceed, Turn]:
        """How the next answer is asked for, and the turn to ask it with."""
        rounds = begun.context.exchanged[since:]
        if self.mode == "fields":
            from .mending import parts_of  # few answers are mended

            parts = parts_of(begun, rounds, error, proceed)
            if parts is not None:
                return parts.ask, parts.turn
        said = told(error.problems, "Answer again in full, with these problems put right.")
        return proceed, replace(begun, request=begun.request.plus(*rounds, *feedback(begun, said)))


def _explain(error: ServiceOutputError, turn: Turn) -> None:
    """Note what keeps the model from being asked again, where it is another limit than that of attempts."""
    exceeded = turn.context.exceeded()
    if exceeded is not None and exceeded.limit != "attempts":
        error.add_note(f"not asked again: {exceeded}")
