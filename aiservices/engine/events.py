"""The events of a call, which listeners receive; streams also yield those of tools."""

from __future__ import annotations

from typing import NamedTuple

from ..models.errors import ServiceOutputError
from ..models.messages import ChatReply, ToolCall
from ..models.strategy import Strategy
from ..tools.tool import ToolRun
from .output_format import OutputFormat
from .plan import Invocation
from .results import Answer


class CallStarted(NamedTuple):
    """A call began.

    Attributes:
        invocation: The call with its arguments and messages.
    """

    invocation: Invocation


class AttemptStarted(NamedTuple):
    """A request is sent to a model. From the second one on, a stream starts over: discard what it showed.

    Attributes:
        number: The number of the request in this call, from 1.
        model: The name of the model.
        output_format: How the answer is requested and read.
    """

    number: int
    model: str
    output_format: OutputFormat

    @property
    def strategy(self) -> Strategy:
        """How structured output is requested."""
        return self.output_format.strategy


class ReplyReceived(NamedTuple):
    """A model answered a request.

    Attributes:
        model: The name of the model.
        reply: The reply.
        seconds: Wall time of the request.
    """

    model: str
    reply: ChatReply
    seconds: float


class ReplyFailed(NamedTuple):
    """A request failed, or its reply was abandoned before its end.

    Attributes:
        model: The name of the model.
        error: The error.
        seconds: Wall time of the request.
    """

    model: str
    error: Exception
    seconds: float


class ToolStarted(NamedTuple):
    """A tool is about to run.

    Attributes:
        call: The call as the model wrote it.
    """

    call: ToolCall


class ToolFinished(NamedTuple):
    """A tool call is done, or has failed.

    Attributes:
        run: The call and what came of it.
    """

    run: ToolRun


class AnswerRejected(NamedTuple):
    """An answer could not be read as the type of the method; the model is asked again.

    Attributes:
        error: The problems of the answer.
    """

    error: ServiceOutputError


class CallCompleted(NamedTuple):
    """A call succeeded.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        answer: The answer as interceptors left it.
    """

    invocation: Invocation
    answer: Answer


class CallFailed(NamedTuple):
    """A call ended with an error, or was cancelled.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        error: The error; an AiServiceError has all attempts on it.
    """

    invocation: Invocation
    error: BaseException
