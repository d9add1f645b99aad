"""Asks a model again when its answer cannot be read, with the problems that it has to put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem
from output_parsers.result.reading import Coercion

from ..models.errors import Attempt, DefinitionError, DefinitionProblem, ServiceOutputError
from ..models.messages import AiMessage, Message, ToolMessage, UserMessage
from .effects import Emit, Flow
from .events import AnswerRejected
from .model_route import ModelRoute
from .pipeline import Answer, Proceed
from .plan import Invocation
from .strategy_selection import ladder_for

if TYPE_CHECKING:
    from output_parsers.strict.patch import Patch

_MOST_PROBLEMS = 20  # that a model is told of at once


def told(problems: Sequence[Problem], wish: str) -> str:
    """What is wrong with an answer, and what to do, as the model is told."""
    told = [f"- {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        told.append(f"- and {len(problems) - _MOST_PROBLEMS} more")
    return "\n".join(["That answer cannot be read:", *told, wish])


def feedback(invocation: Invocation, said: str) -> tuple[Message, ...]:
    """The last answer, and what is said of it."""
    reply = invocation.state.attempts[-1].reply
    if reply is None or not (reply.text or reply.message.tool_calls):
        return (UserMessage(said),)
    calls = reply.message.tool_calls
    if not calls:
        return AiMessage(reply.text), UserMessage(said)
    return reply.message, *(ToolMessage(call.id, call.name, said) for call in calls)


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
    position_name: ClassVar = "retry"

    def __post_init__(self) -> None:
        problems = []
        if self.max_attempts is not None and self.max_attempts < 1:
            problems.append(
                DefinitionProblem("Retry", f"max_attempts is {self.max_attempts}; it must be at least 1")
            )
        if self.mode not in get_args(Mode):
            problems.append(
                DefinitionProblem("Retry", f"mode is {self.mode!r}; it must be one of whole, fields")
            )
        if problems:
            raise DefinitionError(problems)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        ask, made = proceed, 0
        begun, since = invocation, invocation.told
        while True:
            try:
                return (yield from ask(invocation))
            except ServiceOutputError as error:
                made += 1
                if made == self.max_attempts or not invocation.state.may_ask_again():
                    _explain(error, invocation)
                    raise
                yield Emit(AnswerRejected(error), shown=False)
                ask, invocation = self._again(begun, since, error, proceed)

    def _again(
        self, begun: Invocation, since: int, error: ServiceOutputError, proceed: Proceed
    ) -> tuple[Proceed, Invocation]:
        """How the next answer is asked for, and the turn to ask it with."""
        rounds = begun.state.tool_messages[since:]
        if self.mode == "fields":
            parts = parts_of(begun, rounds, error, proceed)
            if parts is not None:
                return parts.ask, parts.invocation
        said = told(error.problems, "Answer again in full, with these problems put right.")
        return proceed, replace(begun, request=begun.request.plus(*rounds, *feedback(begun, said)))


def _explain(error: ServiceOutputError, invocation: Invocation) -> None:
    """Note what keeps the model from being asked again, where it is another limit than that of attempts."""
    exceeded = invocation.state.exceeded()
    if exceeded is not None and exceeded.limit != "attempts":
        error.add_note(f"not asked again: {exceeded}")


class FieldRepairError(ServiceOutputError):
    """An answer that does not fit with its new parts either; ``parser`` reads it."""

    def __init__(
        self,
        where: str,
        text: str,
        problems: Sequence[Problem],
        attempts: Sequence[Attempt],
        parser: TypeParser[Any],
    ) -> None:
        super().__init__(where, text, problems, attempts)
        self.parser = parser


class FieldRepair:
    """The parts of an answer that do not fit, to be asked for alone; ``invocation`` asks for them."""

    def __init__(
        self, patch: Patch[Any], error: ServiceOutputError, invocation: Invocation, proceed: Proceed
    ) -> None:
        self._patch = patch
        self._error = error
        self._proceed = proceed
        self.invocation = invocation

    def ask(self, invocation: Invocation) -> Flow[Answer]:
        """The answer with the parts that the model writes put into it.

        Raises Unmended when they do not fit either, or cannot be read: then the answer is what it was.
        """
        last, attempts, whole = self._error, invocation.state.attempts, self._patch.whole
        try:
            answer = yield from self._proceed(invocation)
        except ServiceOutputError as error:
            raise FieldRepairError(last.qualname, last.text, last.problems, attempts, whole) from error
        try:
            reading = self._patch.read(answer.value)
        except OutputParsingError as error:
            attempts[-1] = attempts[-1]._replace(error=error)
            raise FieldRepairError(last.qualname, error.text, error.problems, attempts, whole) from error
        mended = [Coercion(path, "asked for again", "", "") for path in self._patch.paths]
        steps = (*mended, *answer.coercions, *reading.coercions)
        said = (*answer.said[:-1], AiMessage(whole.write(reading.value)))  # and not the parts alone
        return replace(answer, value=reading.value, coercions=steps, said=said)


def parts_of(
    begun: Invocation, rounds: Sequence[Message], error: ServiceOutputError, proceed: Proceed
) -> FieldRepair | None:
    """The parts of an answer that do not fit; None where the whole of it has to be written again.

    ``rounds`` is what was said with tools since the request of ``begun``.
    """
    from output_parsers.strict.patch import patch_for  # few answers are mended

    context = begun.state
    parser = error.parser if isinstance(error, FieldRepairError) else None
    if parser is None and context.wire is not None:
        parser = context.wire.parser
    patch = None if parser is None else patch_for(parser, error.text, error.problems)
    if patch is None or context.wire is None or context.route is None:
        return None
    model = context.route.model
    ladder = ladder_for(patch.parts, model.capabilities, context.wire.strategy, model.name, shown=False)
    said = told(error.problems, "Write only these parts again, with the problems put right.")
    if isinstance(error, FieldRepairError):
        conversation: tuple[Message, ...] = (AiMessage(error.text), UserMessage(said))
    else:
        conversation = feedback(begun, said)
    invocation = replace(
        begun,
        plan=begun.plan._replace(routes=(ModelRoute(model, ladder),), toolbox=None),
        request=begun.request.plus(*rounds, *conversation),
        examples=(),
    )
    return FieldRepair(patch, error, invocation, proceed)
