"""One call that the page makes: what came of it, and its account."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any

from pydantic_core import to_json

from output_parsers.errors import OutputParsingError
from output_parsers.reading import Coercion
from output_parsers.same import same

from ..errors import Attempt, usage_of
from ..integrations.fastapi.account import attempts_json
from ..integrations.fastapi.values import Codec
from ..messages import ChatReply, Usage
from ..methods import Bound, bound_of
from ..plan import Turn
from ..returns import Result, Shape

__all__ = ["Run"]

_NOTHING: Any = object()


class Run:
    """A call of ``function``, to be made once. Of one that ``create`` did not make there is no account.

    ``pieces`` are those that an iterator gave.
    """

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, planned: bool
    ) -> None:
        self._args, self._kwargs = tuple(args), dict(kwargs)
        self._plain = function
        self._bound: Bound | None = bound_of(function) if planned else None
        self._turn: Turn | None = None
        self._came: Any = _NOTHING
        self.pieces: list[Any] = []

    @property
    def function(self) -> Callable[[], Any]:
        """What makes the call, as the method does: blocking, or to be awaited."""
        begin = self._plain if self._bound is None else self._bound.begin
        if not iscoroutinefunction(begin):
            return self._begin

        async def begun() -> Any:
            return await self._begin()

        return begun

    def _begin(self) -> Any:
        if self._bound is None:
            return self._plain(*self._args, **self._kwargs)
        plan, budget, begin = self._bound
        self._turn = plan.turn(self._args, self._kwargs, budget)
        return begin(self._turn)

    def finished(self, came: Any, codec: Codec[Any]) -> str:
        """The JSON of what the call gave. Raises ValueError when it cannot be written."""
        self._came = came
        value = came.value if isinstance(came, Result) else came
        written = codec.write(replace(value, raw=None) if isinstance(value, ChatReply) else value)
        return f'{{"value": {written}}}'

    def account_json(self) -> str:
        """What the call took, as far as it came: ``null`` where that is not known."""
        if self._turn is None:
            return "null"
        context, wire = self._turn.context, self._turn.context.wire
        usage = usage_of(context.attempts) or Usage()
        coercions = self._coercions(self._turn)
        said = {
            "seconds": self._came.seconds if isinstance(self._came, Result) else context.seconds,
            "strategy": None if wire is None else wire.strategy,
            "reasons": () if wire is None else wire.reasons,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "attempts": _attempts(context.attempts),
            "coercions": None if coercions is None else [step._asdict() for step in coercions],
            "tool_runs": [
                {"name": run.call.name, "arguments": run.call.arguments, "text": run.text}
                for run in context.tool_runs
            ],
        }
        return to_json(said, fallback=str).decode()

    def _coercions(self, turn: Turn) -> Sequence[Coercion] | None:
        """The steps that reading the answer took; None where they are not known.

        A method that gives no Result does not tell them. They are those of the last reply, unless another
        value is read from it: then something changed the value, or put it together.
        """
        if isinstance(self._came, Result):
            return self._came.coercions
        attempts, wire = turn.context.attempts, turn.context.wire
        reply = attempts[-1].reply if attempts else None
        if reply is None or wire is None or (self._came is _NOTHING and not self.pieces):
            return None
        try:
            reading = wire.read(reply)
        except (OutputParsingError, ValueError):
            return None
        return reading.coercions if same(reading.value, self._value(turn)) else None

    def _value(self, turn: Turn) -> Any:
        shape = turn.plan.returns.shape
        if shape is Shape.TEXT_STREAM:
            return "".join(self.pieces)
        return self.pieces if shape is Shape.ITEMS else self._came


def _attempts(made: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The requests to models, with what each of them wrote and why it was rejected."""
    told = []
    for one, said in zip(made, attempts_json(made), strict=True):
        problems = one.error.problems if isinstance(one.error, OutputParsingError) else ()
        calls = () if one.reply is None else one.reply.message.tool_calls
        text = "\n".join((one.text, *(f"{call.name}({call.arguments})" for call in calls))).strip("\n")
        wrong = [{"path": p.path, "message": p.message, "found": p.found} for p in problems]
        told.append({**said.model_dump(mode="json"), "text": text, "problems": wrong})
    return told
