"""Shows guards what the model answers before anybody else sees it."""

from __future__ import annotations

from typing import NamedTuple, get_args

from output_parsers.errors import OutputParsingError

from ..errors import DefinitionError, Fault
from ..flow import Flow
from ..pipeline import Answer, Proceed
from ..plan import Turn
from .again import asked_again, without_answer
from .errors import GuardrailError
from .guard import Guard, GuardFunction, On, awaited, check_guards, failed, judged, name_of
from .subject import text_of, with_text, with_value
from .verdicts import AskAgain, Rewritten

__all__ = ["OutputGuardrails"]


class _Rejection(NamedTuple):
    """Which guard wants another answer, and why."""

    guard: str
    verdict: AskAgain


class OutputGuardrails:
    """Shows each answer to guards, one after the other, before anybody else sees it.

    A guard is a function of what the model wrote (``on="text"``) or of the typed value (``on="value"``), and
    of the turn. It gives ``passed()``; ``rewritten(new)``: a text is read again as the method's type, a value
    must be of that type; ``retry(reason)``: the model answers the same request again; ``reprompt(message)``:
    it is shown its answer, and told that; or ``refused(message)``, which is a GuardrailError, as is an answer
    that is rejected after ``max_retries`` further ones. Those are bounded by the budget of the call as well.
    A ``Guard`` says by itself what it is shown, whatever ``on`` says here.

    The guard after it is shown what it passed on; another answer is shown to all of them. What was rejected
    is in the attempts, but not in what memory keeps, and what was rewritten is only there as it was at first;
    tools do not run again. A guard may be async in async calls; one that is not runs in a thread there. An
    interceptor; put it after ChatMemory. Streams show nothing before an answer has passed.
    """

    holds_back = True
    stands_as = "output guard"

    def __init__(self, *guards: GuardFunction, on: On = "text", max_retries: int = 2) -> None:
        faults = check_guards("OutputGuardrails", guards)
        if on not in get_args(On):
            faults.append(Fault("OutputGuardrails", f"on is {on!r}; it must be one of text, value"))
        if max_retries < 0:
            said = f"max_retries is {max_retries}; it must not be negative"
            faults.append(Fault("OutputGuardrails", said))
        if faults:
            raise DefinitionError(faults)
        self._guards = guards
        self.awaits = awaited(guards)
        self._on: On = on
        self._max_retries = max_retries

    def __call__(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        exchanged, since, made = turn.context.exchanged, turn.told, 0
        while True:
            answer = yield from proceed(turn)
            outcome = yield from self._judge(answer, turn)
            if isinstance(outcome, Answer):
                return outcome
            made += 1
            self._check_again(outcome, made, turn)
            text = text_of(answer, turn)
            turn = asked_again(turn, since, answer, text, outcome.verdict.message)
            exchanged[:] = without_answer(answer.said)
            since = len(exchanged)

    def _judge(self, answer: Answer, turn: Turn) -> Flow[Answer | _Rejection]:
        """The answer as the guards pass it on, or who rejects it."""
        text: str | None = None  # known once a guard wants it, as a reply is read for it
        for guard in self._guards:
            on = guard.on if isinstance(guard, Guard) else self._on
            if on == "text" and text is None:
                text = text_of(answer, turn)
            verdict = yield from judged(guard, text if on == "text" else answer.value, "output", turn)
            if isinstance(verdict, Rewritten):
                answer, text = _rewritten(answer, verdict, on, guard, turn), None
            elif isinstance(verdict, AskAgain):
                return _Rejection(name_of(guard), verdict)
        return answer

    def _check_again(self, rejection: _Rejection, made: int, turn: Turn) -> None:
        """Raise GuardrailError when the model must not be asked again."""
        context = turn.context
        may = context.may_ask_again()
        if made <= self._max_retries and may:
            return
        name, reason = rejection.guard, rejection.verdict.reason
        answers = "its only answer" if made == 1 else f"all {made} answers"
        said = f"{turn.plan.where}: the output guard {name} rejected {answers}: {reason}"
        error = GuardrailError(said, guard=name, where="output", reason=reason)
        if made <= self._max_retries:
            why = context.exceeded() or "a stream has handed out text"
            error.add_note(f"not asked again: {why}")
        raise error


def _rewritten(answer: Answer, verdict: Rewritten, on: On, guard: GuardFunction, turn: Turn) -> Answer:
    try:
        if on == "value":
            return with_value(answer, verdict.new, turn)
        if not isinstance(verdict.new, str):
            raise TypeError(f"it rewrote a text as {type(verdict.new).__name__}")
        return with_text(answer, verdict.new, turn)
    except (OutputParsingError, ValueError, TypeError) as error:
        raise failed(name_of(guard), "output", turn, error) from error
