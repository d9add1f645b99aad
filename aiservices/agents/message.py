"""Messages between agents and users, and records of an agent's model requests and tool calls.

When a reply waits for approval, its earlier rounds are stored with the suspended call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeAlias, cast, get_args

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Json, JsonObject
from output_parsers.types.target import type_name

from ..engine.approval import (
    ApprovalRequiredError,
    Approvals,
    SuspendedCall,
    resumed_invocation,
)
from ..engine.budget import Budget
from ..engine.effects import Flow
from ..engine.interceptor import Proceed
from ..engine.plan import CallPlan, CallState, Invocation
from ..engine.results import Answer
from ..models.errors import Attempt, DefinitionError, DefinitionProblem, SuspendedCallError, ToolError
from ..models.media import Media
from ..models.messages import (
    AiMessage,
    Message,
    SystemMessage,
    ToolCall,
    UserMessage,
    message_from_dict,
    message_to_dict,
)
from ..models.requests import list_to_messages
from ..tools.tool import ToolRun

T_co = TypeVar("T_co", covariant=True, default=None)
MsgRole: TypeAlias = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class Round:
    """One step of an agent's work: a model message and the results of the tool calls in it.

    ``str(round)`` is readable text. If the reply waited for approval, arguments and results of earlier rounds
    are plain JSON values, because they were stored as JSON.

    Attributes:
        message: The message of the model, with its tool calls.
        runs: The tool calls that ran.
        problem: Why the answer was rejected, or None.
    """

    message: AiMessage
    runs: tuple[ToolRun, ...] = ()
    problem: str | None = None

    def __str__(self) -> str:
        lines = [self.message.text] if self.message.text else []
        for call, run in zip_longest(self.message.tool_calls, self.runs):
            result = "" if run is None else f" → {run.text}"
            lines.append(f"{call.name}({call.arguments}){result}")
        if self.problem is not None:
            lines.append(f"rejected: {self.problem}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Msg(Generic[T_co]):
    """A message from an agent or a user, similar to AgentScope's class ``Msg``.

    Raises ValueError for an unknown role, and TypeError for content that is not text.

    Attributes:
        name: The name of the agent or user.
        content: The text.
        role: "user", "assistant" or "system". The text of a system message is added to the system message
            of the agent that receives it.
        metadata: The typed value of an agent's reply, or None.
        trace: The rounds in which an agent came to its reply. Not compared: messages with the same content
            are equal.
    """

    name: str
    content: str
    role: MsgRole = "assistant"
    _: KW_ONLY
    metadata: T_co = field(default=cast(Any, None))  # the default of the type variable
    trace: tuple[Round, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.role not in get_args(MsgRole):
            raise ValueError(f"the role of a Msg is {self.role!r}; it must be user, assistant or system")
        if not isinstance(self.content, str):
            raise TypeError(
                f"the content of a Msg is {type(self.content).__name__}; it must be a str. "
                "Pass images and other media in a UserMessage"
            )

    @staticmethod
    def of_user(content: str, name: str = "user") -> Msg[None]:
        """Create a user message from a string."""
        return Msg(name, content, "user")


# A text of the user, a message with media, or the messages since the agent spoke last. A dict has a role and
# a content, as in the APIs of OpenAI and LangChain.
AgentInput: TypeAlias = (
    str | UserMessage | Msg[Any] | Mapping[str, Any] | Sequence[Msg[Any] | UserMessage | Mapping[str, Any]]
)


def to_chat_messages(agent: str, messages: AgentInput) -> tuple[Message, ...]:
    """Convert an agent's input (a string, a message or a list of messages) to chat messages for its model.

    The agent's own messages become AI messages, messages with the role "system" become system messages, and
    all others become user messages. Raises TypeError for other objects, and for dicts of tool calls and their
    results.
    """
    if isinstance(messages, str):
        return (UserMessage(messages),)
    items = messages if isinstance(messages, Sequence) else (messages,)
    return tuple(_to_chat_message(agent, item) for item in items)


def _to_chat_message(agent: str, message: object) -> Message:
    if isinstance(message, UserMessage):
        return message
    if isinstance(message, Mapping):
        return _dict_to_chat_message(agent, message)
    if not isinstance(message, Msg):
        raise TypeError(
            f"{agent} got {type(message).__name__}; pass a str, a UserMessage, a Msg, a dict with role and "
            "content, or a list of these messages"
        )
    if message.role == "system":
        return SystemMessage(message.content)
    is_own = message.name == agent and message.role == "assistant"
    return AiMessage(message.content) if is_own else UserMessage(message.content, message.name)


def _dict_to_chat_message(agent: str, fields: Mapping[str, Json]) -> Message:
    problems: list[DefinitionProblem] = []
    messages = list_to_messages((fields,), agent, problems)
    if problems:
        raise DefinitionError(problems)
    message, speaker = messages[0], fields.get("name") or agent
    if isinstance(message, AiMessage) and not message.tool_calls:
        return message if speaker == agent else UserMessage(message.text, speaker)
    if not isinstance(message, (UserMessage, SystemMessage)):
        raise TypeError(
            f"{agent} got a message with a tool call or its result; pass the messages of users and other "
            "agents. The agent has its own tools"
        )
    return message


def with_system_texts(system_message: SystemMessage, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merge all system messages of a chat request into one message at the start.

    Many providers accept only one system message, and only as the first message.
    """
    texts = [message.text for message in messages if isinstance(message, SystemMessage)]
    if not texts:
        return (system_message, *messages)
    others = (message for message in messages if not isinstance(message, SystemMessage))
    return (SystemMessage("\n\n".join(filter(None, [system_message.text, *texts]))), *others)


def merge_messages(agent: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merge several messages into one user message, with the speaker's name before each part.

    A memory stores one user message per answer.
    """
    if len(messages) < 2:
        return tuple(messages)
    parts: list[str | Media] = []
    for message in messages:
        speaker = agent if isinstance(message, AiMessage) else getattr(message, "name", None) or "user"
        parts.append(f"\n\n{speaker}: " if parts else f"{speaker}: ")
        parts += message.parts if isinstance(message, UserMessage) else [message.text]
    texts = [part for part in parts if isinstance(part, str)]
    return (UserMessage("".join(texts), contents=tuple(parts) if len(texts) < len(parts) else ()),)


_STATE_KEY = "agent"


def save_trace(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """Interceptor that saves an agent's progress when a tool call has to wait for a person's approval.

    It also stores the output type, because the reply can only be resumed with the same type.
    """
    try:
        return (yield from proceed(invocation))
    except ApprovalRequiredError as error:
        saved = {
            "form": _output_type_name(invocation.plan),
            "trace": [_round_to_dict(one) for one in trace_of(invocation.state)],
        }
        data = {**error.state.interceptor_data, _STATE_KEY: saved}
        error.state = error.state._replace(interceptor_data=data)
        raise


def resume_reply(
    plan: CallPlan, budget: Budget, state: SuspendedCall, approvals: Approvals, results: Mapping[str, object]
) -> Invocation:
    """Prepare to continue an agent's reply after a person approved or rejected its tool calls.

    Raises SuspendedCallError if the state belongs to another agent or if the reply had another output type,
    and the errors of ``resumed_invocation``.
    """
    invocation = resumed_invocation(plan, state, approvals, budget, results)
    saved = state.interceptor_data.get(_STATE_KEY)
    if saved is None:
        raise SuspendedCallError(
            f"the suspended call belongs to the service method {state.qualname}, not to an agent"
        )
    output_type, _ = invocation.stored_data(_STATE_KEY, _saved_from_dict) or ("", ())
    if output_type != _output_type_name(plan):
        raise SuspendedCallError(
            f"{plan.qualname}: the suspended reply returns {output_type}, not {_output_type_name(plan)}; "
            "pass the output_type of the reply"
        )
    return invocation


def _output_type_name(plan: CallPlan) -> str:
    parser = plan.output_format.parser
    return "text alone" if parser is None or parser.schema is None else type_name(plan.output_type)


def trace_of(state: CallState) -> tuple[Round, ...]:
    """Return the history of an agent's reply: the model's messages with the results of their tool calls.

    It includes the rounds before the reply waited for approval.
    """
    saved = state.interceptor_data.get(_STATE_KEY, {}).get("trace", ())
    earlier = [_round_from_dict(one) for one in saved]
    runs = deque(state.tool_runs)
    if earlier:  # the tools of the last earlier round were waiting, and have run since then
        earlier[-1] = replace(earlier[-1], runs=_take_runs(earlier[-1].message, runs))
    return (*earlier, *_rounds_of(state.attempts, runs))


def _rounds_of(attempts: Sequence[Attempt], runs: deque[ToolRun]) -> tuple[Round, ...]:
    """Return an agent's steps: each model message together with the results of its tool calls."""
    return tuple(
        Round(attempt.reply.message, _take_runs(attempt.reply.message, runs), _describe(attempt.error))
        for attempt in attempts
        if attempt.reply is not None
    )


def _take_runs(message: AiMessage, runs: deque[ToolRun]) -> tuple[ToolRun, ...]:
    """Remove the results of one message's tool calls from the front of a queue, and return them."""
    return tuple(runs.popleft() for call in message.tool_calls if runs and _is_run_of(runs[0], call))


def _is_run_of(run: ToolRun, call: ToolCall) -> bool:
    # The engine replaces an id that an earlier call has, and guards may change the arguments of a call.
    is_same = run.call.id == call.id or run.call.arguments == call.arguments
    return is_same and run.call.name == call.name


def _describe(error: Exception | None) -> str | None:
    if isinstance(error, OutputParsingError):
        return "; ".join(map(str, error.problems))
    return None if error is None else str(error)


# The keys of these dicts are part of stored states, so they must not change.


def _round_to_dict(one: Round) -> dict[str, object]:
    return {
        "message": message_to_dict(one.message),
        "runs": [_run_to_dict(run) for run in one.runs],
        "problem": one.problem,
    }


def _run_to_dict(run: ToolRun) -> dict[str, object]:
    fields = {
        "call": asdict(run.call),
        "arguments": run.arguments,
        "result": run.result,
        "text": run.text,
        "error": None if run.error is None else str(run.error),
        "seconds": run.seconds,
    }
    data: dict[str, object] = to_jsonable_python(fields, fallback=str, bytes_mode="base64")
    return data


def _saved_from_dict(data: JsonObject) -> tuple[str, tuple[Round, ...]]:
    """Restore a suspended agent's output type and earlier model messages from a saved dict."""
    return str(data["form"]), tuple(map(_round_from_dict, data["trace"]))


def _round_from_dict(data: JsonObject) -> Round:
    message = message_from_dict(data["message"])
    if not isinstance(message, AiMessage):
        raise ValueError("the message of a round is not an AI message")
    return Round(message, tuple(map(_run_from_dict, data["runs"])), data["problem"])


def _run_from_dict(data: JsonObject) -> ToolRun:
    call = ToolCall(**data["call"])
    error = None if data["error"] is None else ToolError(data["error"], call=call)
    return ToolRun(call, data["arguments"], data["result"], data["text"], error, data["seconds"])
