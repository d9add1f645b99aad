"""What agents and users say to each other, and what an agent did before it said it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic_core import to_jsonable_python

from output_parsers.result.errors import OutputParsingError
from output_parsers.types.target import type_name

from ..engine.approval import ApprovalRequiredError, SuspendedCall
from ..engine.budget import Budget, CallState
from ..engine.effects import Flow
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation, MethodPlan
from ..engine.tool_execution import ToolRun
from ..models.errors import Attempt, ToolError
from ..models.media import Media
from ..models.messages import AiMessage, Message, ToolCall, UserMessage, message_from_dict, message_to_dict
from ..service.create import resumed_turn

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Round:
    """One round of an agent: what the model said, the tools that ran for it, why its answer was not taken.

    ``print(round)`` shows it. In the rounds before a reply waited for approval, arguments and results are
    plain JSON, since they were kept as that.
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


# What a user says, as text or with media in it; or what was said since the agent spoke last.
Heard: TypeAlias = str | UserMessage | Msg[Any] | Sequence[Msg[Any] | UserMessage]


def messages_for(agent: str, notify: Heard) -> tuple[Message, ...]:
    """What an agent heard, as its model is told: its own words as the model's, all others as a user's.

    Raises TypeError for what nobody can have said.
    """
    if isinstance(notify, str):
        return (UserMessage(notify),)
    said = notify if isinstance(notify, Sequence) else (notify,)
    return tuple(_message(agent, one) for one in said)


def _message(agent: str, said: Any) -> Message:
    if isinstance(said, UserMessage):
        return said
    if not isinstance(said, Msg):
        kind = type(said).__name__
        raise TypeError(
            f"{agent} is told {kind}; it hears text, a UserMessage, a Msg, or a list of these two"
        )
    own = said.name == agent and said.role == "assistant"
    return AiMessage(said.content) if own else UserMessage(said.content, said.name)


def together(agent: str, said: Sequence[Message]) -> tuple[Message, ...]:
    """The same as one message of a user, since a memory keeps one for each answer; each after its speaker."""
    if len(said) < 2:
        return tuple(said)
    parts: list[str | Media] = []
    for one in said:
        speaker = agent if isinstance(one, AiMessage) else getattr(one, "name", None) or "user"
        parts.append(f"\n\n{speaker}: " if parts else f"{speaker}: ")
        parts += one.parts if isinstance(one, UserMessage) else [one.text]
    texts = [part for part in parts if isinstance(part, str)]
    return (UserMessage("".join(texts), contents=tuple(parts) if len(texts) < len(parts) else ()),)


def rounds_of(attempts: Sequence[Attempt], runs: deque[ToolRun]) -> tuple[Round, ...]:
    """The rounds of a call, by its account; a request that got no reply is none."""
    replied = [(attempt.reply.message, attempt.error) for attempt in attempts if attempt.reply is not None]
    return tuple(Round(message, runs_of(message, runs), _problem(error)) for message, error in replied)


def runs_of(message: AiMessage, left: deque[ToolRun]) -> tuple[ToolRun, ...]:
    """The runs of what a message calls, taken from those that are left."""
    return tuple(left.popleft() for call in message.tool_calls if left and _is_of(left[0], call))


def _is_of(run: ToolRun, call: ToolCall) -> bool:
    """Whether a run is that of a call; its id may have been another one, to tell it from calls before."""
    return (run.call.name, run.call.arguments) == (call.name, call.arguments)


def _problem(error: Exception | None) -> str | None:
    if isinstance(error, OutputParsingError):
        return "; ".join(map(str, error.problems))
    return None if error is None else str(error)


# By the ids of the calls that wait: whether each is approved, or the reason why not.
Approvals: TypeAlias = Mapping[str, bool | str]
_KEPT = "agent"


def keeping(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """Has the state of a reply that waits keep what it is to give, and the rounds so far."""
    try:
        return (yield from proceed(invocation))
    except ApprovalRequiredError as error:
        kept = {
            "form": _form(invocation.plan),
            "trace": [_to_dict(one) for one in trace_of(invocation.state)],
        }
        error.state = error.state._replace(kept={**error.state.kept, _KEPT: kept})
        raise


def resumed(plan: MethodPlan, budget: Budget, state: SuspendedCall, approvals: Approvals) -> Invocation:
    """The turn of a reply that waited, at that place.

    Raises ValueError when the state is none of this agent, when the reply was to give another type, and what
    ``resumed_turn`` raises.
    """
    invocation = resumed_turn(plan, budget, state, approvals, {})
    kept = state.kept.get(_KEPT)
    if kept is None:
        raise ValueError(f"the state is one of the method {state.where} of a service, not of an agent")
    if kept["form"] != _form(plan):
        raise ValueError(
            f"{plan.where}: the reply that waits is to give {kept['form']}, not {_form(plan)}; pass the "
            "output_type that it had"
        )
    return invocation


def trace_of(context: CallState) -> tuple[Round, ...]:
    """All rounds of a reply, those before it waited included."""
    before = [_from_dict(one) for one in context.kept.get(_KEPT, {}).get("trace", ())]
    left = deque(context.tool_runs)
    if before:  # what waited has run since
        before[-1] = replace(before[-1], runs=runs_of(before[-1].message, left))
    return (*before, *rounds_of(context.attempts, left))


def _form(plan: MethodPlan) -> str:
    """What a reply is to give, by its name."""
    parser = plan.wire.parser
    return "text alone" if parser is None or parser.schema is None else type_name(plan.returns.form)


def _to_dict(one: Round) -> dict[str, Any]:
    return {
        "message": message_to_dict(one.message),
        "runs": [_run_to_dict(run) for run in one.runs],
        "problem": one.problem,
    }


def _run_to_dict(run: ToolRun) -> dict[str, Any]:
    said = {"call": asdict(run.call), "arguments": run.arguments, "result": run.result, "text": run.text}
    error = None if run.error is None else str(run.error)
    plain: dict[str, Any] = to_jsonable_python(
        {**said, "error": error, "seconds": run.seconds}, fallback=str, bytes_mode="base64"
    )
    return plain


def _from_dict(said: Mapping[str, Any]) -> Round:
    message = message_from_dict(said["message"])
    assert isinstance(message, AiMessage), "a round begins with what the model said"
    return Round(message, tuple(map(_run_from_dict, said["runs"])), said["problem"])


def _run_from_dict(said: Mapping[str, Any]) -> ToolRun:
    call = ToolCall(**said["call"])
    error = None if said["error"] is None else ToolError(said["error"], call=call)
    return ToolRun(call, said["arguments"], said["result"], said["text"], error, said["seconds"])
