"""Has a model write only those parts of its answer again that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from output_parsers.errors import OutputParsingError, Problem
from output_parsers.parser import TypeParser
from output_parsers.reading import Coercion

from .errors import Attempt, ServiceOutputError
from .feedback import feedback, told
from .flow import Flow
from .ladder import ladder_for
from .messages import AiMessage, Message, UserMessage
from .pipeline import Answer, Proceed
from .plan import Turn
from .route import Route

if TYPE_CHECKING:
    from output_parsers.patch import Patch

__all__ = ["Parts", "parts_of"]


class Unmended(ServiceOutputError):
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


class Parts:
    """The parts of an answer that do not fit, to be asked for alone; ``turn`` asks for them."""

    def __init__(self, patch: Patch[Any], error: ServiceOutputError, turn: Turn, proceed: Proceed) -> None:
        self._patch = patch
        self._error = error
        self._proceed = proceed
        self.turn = turn

    def ask(self, turn: Turn) -> Flow[Answer]:
        """The answer with the parts that the model writes put into it.

        Raises Unmended when they do not fit either, or cannot be read: then the answer is what it was.
        """
        last, attempts, whole = self._error, turn.context.attempts, self._patch.whole
        try:
            answer = yield from self._proceed(turn)
        except ServiceOutputError as error:
            raise Unmended(last.where, last.text, last.problems, attempts, whole) from error
        try:
            reading = self._patch.read(answer.value)
        except OutputParsingError as error:
            attempts[-1] = attempts[-1]._replace(error=error)
            raise Unmended(last.where, error.text, error.problems, attempts, whole) from error
        mended = [Coercion(path, "asked for again", "", "") for path in self._patch.paths]
        steps = (*mended, *answer.coercions, *reading.coercions)
        said = (*answer.said[:-1], AiMessage(whole.write(reading.value)))  # and not the parts alone
        return replace(answer, value=reading.value, coercions=steps, said=said)


def parts_of(
    begun: Turn, rounds: Sequence[Message], error: ServiceOutputError, proceed: Proceed
) -> Parts | None:
    """The parts of an answer that do not fit; None where the whole of it has to be written again.

    ``rounds`` is what was said with tools since the request of ``begun``.
    """
    from output_parsers.patch import patch_for  # few answers are mended

    context = begun.context
    parser = error.parser if isinstance(error, Unmended) else None
    if parser is None and context.wire is not None:
        parser = context.wire.parser
    patch = None if parser is None else patch_for(parser, error.text, error.problems)
    if patch is None or context.wire is None or context.route is None:
        return None
    model = context.route.model
    ladder = ladder_for(patch.parts, model.capabilities, context.wire.strategy, model.name, shown=False)
    said = told(error.problems, "Write only these parts again, with the problems put right.")
    if isinstance(error, Unmended):
        conversation: tuple[Message, ...] = (AiMessage(error.text), UserMessage(said))
    else:
        conversation = feedback(begun, said)
    turn = replace(
        begun,
        plan=begun.plan._replace(routes=(Route(model, ladder),), toolbox=None),
        request=begun.request.plus(*rounds, *conversation),
        examples=(),
    )
    return Parts(patch, error, turn, proceed)
