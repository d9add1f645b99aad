"""Takes the events of a service elsewhere for what they tell: pieces, items, or a value that grows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from httpx2 import ServerSentEvent

from output_parsers.errors import OutputParsingError
from output_parsers.errors import Problem as Unfit
from output_parsers.reading import Reading

from ...errors import AiServiceError, InvalidReplyError, ModelConnectionError
from ...messages import ChatReply, ReplyDelta
from ...strategies import Wire
from ...strategy import Strategy
from ...streams import Accepted, AttemptStarted
from .account import read_result
from .contract import Method
from .events import EventName
from .problems import Problem
from .remote_errors import error_of

__all__ = ["Decoder", "unreadable"]


class Decoder:
    """Turns events into what an iterator gives, or a Stream is made of; ``whole`` once the last has come."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self.whole = False

    def take(self, event: ServerSentEvent) -> Iterator[Any]:
        """What one event tells. Raises the error that ended the stream."""
        try:
            yield from self._taken(event.event, event.data)
        except AiServiceError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise unreadable(self._method, error) from error

    def finish(self) -> None:
        """Raises ModelConnectionError when the last event has not come."""
        if not self.whole:
            said = f"{self._method.where}: the connection broke before the answer was whole"
            raise ModelConnectionError(said, retryable=True)

    def _taken(self, name: str, data: str) -> Iterator[Any]:
        match name:
            case EventName.TEXT | EventName.ITEM:
                yield self._method.value.read(data)
            case EventName.UNFIT:
                yield _unfit(json.loads(data))
            case EventName.ATTEMPT:
                yield self._attempt(json.loads(data))
            case EventName.DELTA:
                yield ReplyDelta(json.loads(data)["text"])
            case EventName.RESULT:
                self.whole = True
                yield Accepted(read_result(data, self._method.result))
            case EventName.END:
                self.whole = True
            case EventName.ERROR:
                raise error_of(Problem.model_validate_json(data), self._method.where)

    def _attempt(self, said: dict[str, Any]) -> AttemptStarted:
        """The beginning of an answer, with the parser that reads it in the form in which it is written."""
        parser = self._method.value.parser
        if said["field"] is not None:
            parser = parser.enveloped(said["field"])
        wire = Wire(Strategy(said["strategy"]), (), parser, _nowhere, shown=said["shown"])
        return AttemptStarted(said["number"], said["model"], wire)


def _nowhere(reply: ChatReply) -> Reading[Any]:
    raise NotImplementedError("a reply is read where the service runs")


def _unfit(said: dict[str, Any]) -> Any:
    from output_parsers.partial import ItemError

    return ItemError(said["index"], said["text"], tuple(Unfit(**problem) for problem in said["problems"]))


def unreadable(method: Method, error: Exception) -> InvalidReplyError:
    """The error of an answer that is not what the interface says: the service may have another version."""
    why = (
        "; ".join(map(str, error.problems)) if isinstance(error, OutputParsingError) else type(error).__name__
    )
    said = f"{method.where}: the service answered with something that is no {method.value.name}: {why}"
    return InvalidReplyError(said)
