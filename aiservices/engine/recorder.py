"""Record the replies of models, and use the recorded replies when a call runs again.

``map_rows`` records the requests of each row, and ``Durable`` the requests and tools of a call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from ..models.base import ChatModel
from ..models.messages import ChatReply
from ..models.requests import ChatRequest
from ..models.wrapper import FlowChatModel, RequestFlow
from .effects import CallModel, Flow, Gather, Outcome, ReplyBlocked

K = TypeVar("K")


class RecordedReply(FlowChatModel):
    """Replaces a model whose reply to a request is recorded, so that nothing is sent."""

    def __init__(self, model: ChatModel, reply: ChatReply) -> None:
        self.name = model.name
        self.capabilities = model.capabilities
        self.reply = reply

    def request_flow(self, request: ChatRequest, *, streamed: bool) -> RequestFlow:
        yield from ()  # nothing is sent
        return self.reply


class RequestRecorder(ABC, Generic[K]):
    """Performs requests to models: those with a recorded reply are not sent, and new replies are recorded.

    A subclass says under which key a request is recorded, and where.
    """

    @abstractmethod
    def identify(self, effect: CallModel) -> K:
        """Return the key of the next request. It is called once for each request, in their order."""

    @abstractmethod
    def recall(self, key: K, effect: CallModel) -> ChatReply | None:
        """Return the recorded reply to a request, or None. Raises the error with which the request failed."""

    @abstractmethod
    def before_sending(self, requests: Mapping[K, CallModel]) -> None:
        """Prepare for requests without a recorded reply; may raise an error to send none of them."""

    @abstractmethod
    def record(self, key: K, effect: CallModel, reply: ChatReply) -> None:
        """Record the reply to a request."""

    def record_error(self, key: K, error: Exception) -> None:
        """Record that a request failed. By default, failures are not recorded."""

    def to_send(self, effect: CallModel) -> CallModel:
        """Return the effect that sends a request."""
        return effect

    def request(self, effect: CallModel) -> Flow[ChatReply]:
        """Return the recorded reply to a request, or send the request."""
        key = self.identify(effect)
        reply = self.recall(key, effect)
        if reply is not None:
            if effect.policy.streamed or effect.policy.filters:  # the driver knows who reads it
                recorded: ChatReply = yield effect._replace(model=RecordedReply(effect.model, reply))
                return recorded
            if effect.checks and not all((yield Gather(effect.checks))):
                raise ReplyBlocked(reply)
            return reply
        self.before_sending({key: effect})
        try:
            received: ChatReply = yield self.to_send(effect)
        except Exception as error:
            self.record_error(key, error)
            raise
        self.record(key, effect, received)
        return received

    def gather(self, effect: Gather) -> Flow[list[object]]:
        """Perform several effects at the same time; only the requests without a recorded reply are sent."""
        requests = {
            place: (self.identify(one), one)
            for place, one in enumerate(effect.effects)
            if isinstance(one, CallModel)
        }
        outcomes: list[Outcome] = [None] * len(effect.effects)
        for place, request in requests.items():
            outcomes[place] = self.recall(*request)
        missing = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if missing:
            unanswered = {place: requests[place] for place in missing if place in requests}
            received = yield from self._send_missing(effect, missing, dict(unanswered.values()))
            for place, outcome in zip(missing, received, strict=True):
                outcomes[place] = outcome
            for place, (key, one) in unanswered.items():
                self.record(key, one, outcomes[place])
        return outcomes

    def _send_missing(
        self, effect: Gather, missing: Sequence[int], unanswered: Mapping[K, CallModel]
    ) -> Flow[list[object]]:
        """Perform those effects of a Gather that have no recorded outcome."""
        if unanswered:
            self.before_sending(unanswered)
        effects = [effect.effects[place] for place in missing]
        sent = tuple([self.to_send(one) if isinstance(one, CallModel) else one for one in effects])
        try:
            received: list[object] = yield effect._replace(effects=sent)
        except Exception as error:
            if unanswered:
                self.record_error(next(iter(unanswered)), error)
            raise
        return received
