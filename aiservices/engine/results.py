"""``Result``, which a service call returns, and ``Answer``, which interceptors receive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Generic, TypeVar

from pydantic_core import to_jsonable_python

from output_parsers.result.reading import Coercion, JsonObject
from output_parsers.types.cited import Cited
from output_parsers.types.decisions import Decision

from ..guesses import explains_guesses
from ..models.conversation import is_empty
from ..models.errors import Attempt, InnerCall, Strategy, total_usage, usage_of
from ..models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ServerToolRun,
    ToolMessage,
    Usage,
    UserMessage,
)
from ..tools.tool import ToolRun

T_co = TypeVar("T_co", covariant=True)


@explains_guesses(
    **dict.fromkeys(("output", "data", "parsed", "content", "answer", "result", "final_output"), "value"),
    **dict.fromkeys(("all_messages", "history", "to_input_list"), "messages"),
    raw="reply.raw, or reply",
    tool_calls="tool_runs",
    tool_executions="tool_runs",
    token_usage="usage",
)
@dataclass(frozen=True, slots=True, repr=False)
class Result(Generic[T_co]):
    """The typed value of a service call, with details such as the model's reply and the token usage.

    Attributes:
        value: The typed value.
        reply: The reply from which it was read.
        strategy: How structured output was requested.
        coercions: How the text of the reply differs from the exact form of the value; empty for exact JSON.
        attempts: All requests of the call, in order; the last one succeeded.
        seconds: Wall time of the whole call.
        reasons: Why the strategy was chosen, including what the provider refused.
        tool_runs: The tool calls that were executed, in order.
        sources: The passages that retrieval added to the prompt.
        cost: What the requests cost, those of inner calls included, by the prices of the budget; None if a
            price is not known.
        probabilities: For each bool, Enum, Literal and Decision in the value, by JSON path, the probability
            of each possible answer. Empty unless they were requested; ``reasons`` says if the model has none.
        inner_calls: The calls of service methods that tools made, each with the calls inside it, and the
            requests about the parts of a document that was split.
        earlier_messages: The messages of the first request before the user message: the history that the
            caller passed or a memory added. The system message of the method, which each call adds, and
            few-shot examples are not among them. Empty in results from another process.
        new_messages: The messages of this call: the user message as it was sent, without format instructions,
            tool calls, their results, and the answer. Rejected answers are not among them. Empty if the
            answer is, and in results from another process or a Synthesizer.
        conflicts: The fields for which parts of a document have different values; see ``Split``. In results
            from another process they are plain data.
    """

    value: T_co
    reply: ChatReply
    strategy: Strategy
    coercions: tuple[Coercion, ...]
    attempts: tuple[Attempt, ...]
    seconds: float
    reasons: tuple[str, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    sources: tuple[Any, ...] = ()
    cost: float | None = None
    probabilities: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    inner_calls: tuple[InnerCall, ...] = ()
    earlier_messages: tuple[Message, ...] = ()
    new_messages: tuple[Message, ...] = ()
    conflicts: tuple[Any, ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, which a ``History`` parameter of the next call can take.

        ``messages_to_json`` and ``messages_from_json`` convert it to text and back.
        """
        return (*self.earlier_messages, *self.new_messages)

    @property
    def cached(self) -> bool:
        """True if the reply comes from a ResponseCache, so that no request was sent for it."""
        return self.reply.cached

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self._summary())
        return f"Result({parts})"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        yield from self._summary()

    def _repr_html_(self) -> str:
        """Return an HTML table of the most important details, for display in notebooks."""
        rows = "".join(
            f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in self._summary()
        )
        return f"<table>{rows}</table>"

    def _summary(self) -> Iterator[tuple[str, object]]:
        """Yield the names and values of the result's most important details, for display."""
        yield "value", self.value
        yield "model", self.model
        yield "strategy", str(self.strategy)
        yield "tokens", f"{self.usage.input_tokens} + {self.usage.output_tokens}"
        if self.cost is not None:
            yield "cost", self.cost
        yield "attempts", len(self.attempts)
        yield "seconds", round(self.seconds, 3)
        if self.coercions:
            yield "coercions", len(self.coercions)
        if self.tool_runs:
            yield "tools", [run.name for run in self.tool_runs]
        if self.inner_calls:
            yield "inner calls", len(self.inner_calls)
        if self.sources:
            yield "sources", len(self.sources)

    def to_dict(self) -> JsonObject:
        """Return the value and the details of the call as JSON data.

        Values without a JSON form, such as instances of plain classes, are converted to strings.
        """
        data = {
            "value": self.value,
            "text": self.text,
            "model": self.model,
            "strategy": self.strategy,
            "finish_reason": self.finish_reason,
            "usage": self.usage,
            "own_usage": self.own_usage,
            "cost": self.cost,
            "seconds": self.seconds,
            "reasons": self.reasons,
            "coercions": self.coercions,
            "attempts": [
                {
                    "model": attempt.model,
                    "text": attempt.text,
                    "error": None if attempt.error is None else str(attempt.error),
                    "seconds": attempt.seconds,
                    "usage": None if attempt.reply is None else attempt.reply.usage,
                }
                for attempt in self.attempts
            ],
            "tool_runs": [
                {"name": run.name, "arguments": run.arguments, "text": run.text, "seconds": run.seconds}
                for run in self.tool_runs
            ],
            "inner_calls": [_inner_call_to_dict(call) for call in self.inner_calls],
            "sources": self.sources,
            "conflicts": conflicts_to_json(self.conflicts),
            "probabilities": {
                path: [{"value": value, "probability": share} for value, share in shares.items()]
                for path, shares in self.probabilities.items()
            },
        }
        plain: dict[str, object] = to_jsonable_python(data, fallback=_to_jsonable)
        return plain

    def to_json(self) -> str:
        """Return the data of ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @property
    def text(self) -> str:
        """The text of the model's last reply."""
        return self.reply.text

    @property
    def finish_reason(self) -> FinishReason:
        """The reason why the model stopped writing its last reply, such as "stop" or "length"."""
        return self.reply.finish_reason

    @property
    def server_tool_runs(self) -> tuple[ServerToolRun, ...]:
        """The tool runs, such as web searches, that the provider performed during the service call."""
        replies = [attempt.reply for attempt in self.attempts if attempt.reply is not None]
        return tuple([run for reply in replies for run in reply.server_tool_runs])

    @property
    def model(self) -> str:
        """The name of the model that gave the answer, as reported by the provider."""
        return self.reply.model

    @property
    def usage(self) -> Usage:
        """The tokens used by the service call and its inner calls; zeros if the provider reported none."""
        return total_usage(usage_of(self.attempts), self.inner_calls) or Usage()

    @property
    def own_usage(self) -> Usage:
        """The tokens used by the service call's own requests, excluding its inner calls."""
        return usage_of(self.attempts) or Usage()


def _inner_call_to_dict(call: InnerCall) -> dict[str, object]:
    return {
        "qualname": call.qualname,
        "id": call.id,
        "usage": call.usage,
        "own_usage": call.own_usage,
        "cost": call.cost,
        "own_cost": call.own_cost,
        "seconds": call.seconds,
        "error": None if call.error is None else str(call.error),
        "inner_calls": [_inner_call_to_dict(one) for one in call.inner_calls],
    }


def _to_jsonable(value: object) -> object:
    return value.to_dict() if isinstance(value, (Decision, Cited)) else str(value)


def conflicts_to_json(conflicts: Iterable[Any]) -> list[dict[str, object]]:
    """Return the conflicts of a document that was split as JSON data."""
    data = [one if isinstance(one, dict) else one._asdict() for one in conflicts]
    plain: list[dict[str, object]] = to_jsonable_python(data, fallback=_to_jsonable)
    return plain


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a service call as interceptors see it: the value, the model's reply and the messages.

    Attributes:
        value: The typed value.
        reply: The reply from which it was read.
        coercions: How the text of the reply differs from the exact form of the value.
        strategy: How structured output was requested.
        reasons: Why the strategy was chosen.
        messages: The messages that followed the request: tool calls, their results, and the reply.
        tool_runs: The tool calls that were executed.
        sources: The passages that an interceptor added to the prompt.
        tool_run: The tool call whose result is the value; None if the value was read from the reply.
        probabilities: The probabilities of the possible answers, by JSON path.
        source_of_probabilities: Where they come from, such as "logprobs"; "" if there are none.
        decisions: The decisions in the value that have probabilities.
        conflicts: The fields for which parts of a document have different values.
    """

    value: Any
    reply: ChatReply
    coercions: tuple[Coercion, ...]
    strategy: Strategy = Strategy.TEXT
    reasons: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    tool_runs: tuple[ToolRun, ...] = ()
    sources: tuple[Any, ...] = ()
    tool_run: ToolRun | None = None
    probabilities: Mapping[str, Mapping[Any, float]] = field(default_factory=dict)
    source_of_probabilities: str = ""
    decisions: tuple[Decision[Any], ...] = ()
    conflicts: tuple[Any, ...] = ()

    def messages_before_tools(self) -> Iterator[AiMessage]:
        """Return the messages in which the model called tools before it answered, in their order."""
        end = len(self.messages) - (self.tool_run is None)
        return (message for message in self.messages[:end] if isinstance(message, AiMessage))

    def result(
        self,
        attempts: list[Attempt],
        seconds: float,
        cost: float | None = None,
        inner_calls: tuple[InnerCall, ...] = (),
        conversation: Sequence[Message] = (),
    ) -> Result[Any]:
        """Convert the answer to a Result for the caller, which also has the call's requests and duration.

        ``conversation`` is the messages of the first request.
        """
        question = conversation[-1] if conversation and isinstance(conversation[-1], UserMessage) else None
        return Result(
            self.value,
            self.reply,
            self.strategy,
            self.coercions,
            tuple(attempts),
            seconds,
            self.reasons,
            self.tool_runs,
            self.sources,
            cost,
            dict(self.probabilities),  # the constant for none cannot be pickled
            inner_calls,
            tuple(conversation if question is None else conversation[:-1]),
            exchange_of(question, self) if conversation else (),
            conflicts=self.conflicts,
        )


def exchange_of(user_message: UserMessage | None, answer: Answer) -> tuple[Message, ...]:
    """Return the messages of a finished call for later requests, from the user message to the answer.

    An answer that is a tool call is recorded as the text of its arguments, and an answer that is the result
    of a tool as the text of that result. Otherwise providers would reject the conversation in the next call,
    since the last tool call has no result or no reply. An empty answer is left out, because some providers
    reject it; so is a question that got nothing else.
    """
    messages = answer.messages or (answer.reply.message,)
    last = messages[-1]
    question: tuple[Message, ...] = () if user_message is None else (user_message,)
    if isinstance(last, AiMessage) and is_empty(last):
        return (*question, *messages[:-1]) if len(messages) > 1 else ()
    if isinstance(last, AiMessage) and last.tool_calls:
        by_tool = answer.strategy is Strategy.OUTPUT_TOOL or not last.text
        return (*question, *messages[:-1], AiMessage(last.tool_calls[0].arguments if by_tool else last.text))
    if answer.tool_run is None:
        return (*question, *messages)
    call_id = answer.tool_run.call.id
    # not the text of the run, because an interceptor may have replaced it in the message
    results = (one for one in messages if isinstance(one, ToolMessage) and one.call_id == call_id)
    return (*question, *messages, *(AiMessage(one.text) for one in results))
