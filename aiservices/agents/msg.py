"""What agents and users say to each other, and what an agent did before it said it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from output_parsers.errors import OutputParsingError

from ..errors import Attempt
from ..messages import AiMessage, Message, ToolCall, UserMessage
from ..tool_run import ToolRun

__all__ = ["Heard", "Msg", "Round", "messages_for", "rounds_of"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of an agent: what the model said, the tools that ran for it, why its answer was not taken.

    ``print(round)`` shows it.
    """

    message: AiMessage
    runs: tuple[ToolRun, ...] = ()
    problem: str | None = None

    def __str__(self) -> str:
        said = [self.message.text] if self.message.text else []
        for call, run in zip_longest(self.message.tool_calls, self.runs):
            result = "" if run is None else f" → {run.text}"
            said.append(f"{call.name}({call.arguments}){result}")
        if self.problem is not None:
            said.append(f"not taken: {self.problem}")
        return "\n".join(said)


@dataclass(frozen=True, slots=True)
class Msg(Generic[T_co]):
    """What somebody said: who, the text, and beside it a typed value or None.

    ``trace`` holds the rounds in which an agent came to it; two messages that say the same are equal,
    whatever it took.
    """

    name: str
    content: str
    metadata: T_co
    role: Literal["user", "assistant"] = "assistant"
    trace: tuple[Round, ...] = field(default=(), compare=False, repr=False)

    @staticmethod
    def of_user(content: str, name: str = "user") -> Msg[None]:
        """What a user says."""
        return Msg(name, content, None, "user")


# A text of the user, or what was said since the agent spoke last.
Heard: TypeAlias = str | Msg[Any] | Sequence[Msg[Any]]


def messages_for(agent: str, heard: Heard) -> tuple[Message, ...]:
    """What an agent heard, as its model is told: its own words as the model's, all others as a user's."""
    if isinstance(heard, str):
        return (UserMessage(heard),)
    said = (heard,) if isinstance(heard, Msg) else tuple(heard)
    return tuple(
        AiMessage(msg.content)
        if msg.name == agent and msg.role == "assistant"
        else UserMessage(msg.content, msg.name)
        for msg in said
    )


def rounds_of(attempts: Sequence[Attempt], runs: Sequence[ToolRun]) -> tuple[Round, ...]:
    """The rounds of a call, by its account; a request that got no reply is none."""
    left = deque(runs)
    rounds = []
    for attempt in attempts:
        if attempt.reply is None:
            continue
        message = attempt.reply.message
        ran = tuple(left.popleft() for call in message.tool_calls if left and _is_of(left[0], call))
        rounds.append(Round(message, ran, _problem(attempt.error)))
    return tuple(rounds)


def _is_of(run: ToolRun, call: ToolCall) -> bool:
    """Whether a run is that of a call; its id may have been another one, to tell it from calls before."""
    return (run.call.name, run.call.arguments) == (call.name, call.arguments)


def _problem(error: Exception | None) -> str | None:
    if isinstance(error, OutputParsingError):
        return "; ".join(map(str, error.problems))
    return None if error is None else str(error)
