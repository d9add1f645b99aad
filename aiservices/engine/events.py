"""What happens in a call, as listeners are told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..models.messages import ChatReply, ToolCall

if TYPE_CHECKING:
    from ..models.errors import ServiceOutputError
    from .plan import Invocation
    from .tool_execution import ToolRun


class CallStarted(NamedTuple):
    """A call has begun; ``invocation`` has its arguments and its messages."""

    invocation: Invocation


class ReplyReceived(NamedTuple):
    """A model has answered a request; ``seconds`` is the wall time that it took."""

    model: str
    reply: ChatReply
    seconds: float


class ReplyFailed(NamedTuple):
    """A request came to nothing, or its reply was left before its end."""

    model: str
    error: Exception
    seconds: float


class ToolStarted(NamedTuple):
    """A tool is about to run."""

    call: ToolCall


class ToolFinished(NamedTuple):
    """A tool has run, or could not."""

    run: ToolRun


class AnswerRejected(NamedTuple):
    """An answer cannot be read as the method's type; the model is asked again."""

    error: ServiceOutputError


class CallCompleted(NamedTuple):
    """A call has its answer, as interceptors left it; its account is in ``invocation.state``."""

    invocation: Invocation
    answer: Any


class CallFailed(NamedTuple):
    """A call ended with an error, which has all attempts on it where it is one of ours; or was cancelled."""

    invocation: Invocation
    error: BaseException
