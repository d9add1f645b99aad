"""The events of a service call that listeners receive.

Streams yield AttemptStarted, ToolStarted and ToolFinished, too. Each event that a listener receives has the
call in ``invocation``, whose ``id`` tells concurrent calls apart. The classes are not frozen, because each
call creates some of them, and a frozen dataclass takes twice as long to create.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from ..models.errors import ServiceOutputError
from ..models.messages import ChatReply, ToolCall
from ..models.requests import ChatRequest
from ..models.strategy import Strategy
from ..tools.tool import ToolRun
from .output_format import OutputFormat
from .plan import Invocation
from .results import Answer


@dataclass(slots=True)
class CallStarted:
    """An event for listeners: a service method was called.

    Attributes:
        invocation: The call with its arguments and messages.
    """

    invocation: Invocation


@dataclass(slots=True)
class AttemptStarted:
    """An event for listeners: a request is about to be sent to a language model.

    If it is not the first of the call, a stream starts over: discard the snapshots of the earlier answer.

    Attributes:
        number: The number of the request in this call, from 1.
        model: The name of the model.
        output_format: How the answer is requested and read.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    number: int
    model: str
    output_format: OutputFormat
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)

    @property
    def strategy(self) -> Strategy:
        """The strategy: the method of requesting structured output, such as JSON Schema or JSON mode."""
        return self.output_format.strategy


@dataclass(slots=True)
class ReplyReceived:
    """An event for listeners: a language model has replied to a request.

    Attributes:
        model: The name of the model.
        reply: The reply.
        seconds: Wall time of the request.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    model: str
    reply: ChatReply
    seconds: float
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ReplyFailed:
    """An event for listeners: a model request failed, or its streamed reply was not read to the end.

    Attributes:
        model: The name of the model.
        error: The error.
        seconds: Wall time of the request.
        reply: The part of the reply that had arrived; None if nothing did.
        invocation: The call; None in a stream.
        request: The request as it is sent.
    """

    model: str
    error: Exception
    seconds: float
    _: KW_ONLY
    reply: ChatReply | None = None
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    request: ChatRequest | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolStarted:
    """An event for listeners: a tool that the model called is about to run.

    Attributes:
        call: The call as the model wrote it.
        invocation: The call; None in a stream.
    """

    call: ToolCall
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolFinished:
    """An event for listeners: a tool call of the model succeeded or failed.

    It is reported when the tool ends, even if other tools of the same reply are still running.

    Attributes:
        run: The call with its result or error.
        invocation: The call; None in a stream.
    """

    run: ToolRun
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class ToolUndone:
    """An event for listeners: a tool call was undone by the ``compensate`` function of its tool.

    Attributes:
        run: The call; ``undo_error`` says why it could not be undone.
        invocation: The call; None in a stream.
    """

    run: ToolRun
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class AnswerRejected:
    """An event for listeners: the model will be asked again because its answer does not fit the type.

    Attributes:
        error: The problems of the answer.
        invocation: The call; None in a stream.
    """

    error: ServiceOutputError
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class CallCompleted:
    """An event for listeners: a call of a service method succeeded.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        answer: The answer as interceptors left it.
    """

    invocation: Invocation
    answer: Answer


@dataclass(slots=True)
class CallFailed:
    """An event for listeners: a call of a service method raised an error or was cancelled.

    Attributes:
        invocation: The call; its attempts are in ``invocation.state``.
        error: The error; an AiServiceError has all attempts on it.
    """

    invocation: Invocation
    error: BaseException
