"""Runs a check beside the first request of a flow."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from ..engine.effects import CallModel, Effect, Emit, Flow, Gather, ReplyBlocked, Run, through
from ..engine.events import ReplyFailed, ReplyReceived
from ..engine.output_format import INSTRUCTIONS_PLACE
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation
from ..interface.parameters import is_async
from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    InvalidReplyError,
    ModelError,
    ServiceOutputError,
)
from ..models.messages import UserMessage
from ..models.openai.client import Clients, place_at, place_of, sdk_failures
from ..models.openai.errors import Blame
from .output import text_of

if TYPE_CHECKING:
    from openai import OpenAI

Where: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class ModerationResult:
    """What a moderator says of one text: whether it is flagged, and in which categories."""

    flagged: bool
    categories: tuple[str, ...] = ()


class Moderator(Protocol):
    """Says of each text whether it may be said, in their order; may be async where all methods are."""

    def moderate(
        self, texts: Sequence[str], /
    ) -> Sequence[ModerationResult] | Awaitable[Sequence[ModerationResult]]: ...


class ModerationRan(NamedTuple):
    """A moderator has checked what was said; an event for listeners."""

    where: Where
    results: tuple[ModerationResult, ...]


class ModerationError(AiServiceError):
    """What was said is flagged in these ``categories``; ``where``: at the "input" or the "output".

    Without categories, where the moderator names none, or failed by itself, as the ``__cause__`` says.
    """

    def __init__(self, message: str, *, where: Where, categories: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.where = where
        self.categories = categories


_TO_COME: Any = object()


class Check:
    """One question to a moderator, asked beside a request; ``is_open`` until there is a verdict."""

    def __init__(
        self, moderator: Moderator, texts: tuple[str, ...], where: Where, invocation: Invocation
    ) -> None:
        self._moderator = moderator
        self._texts = texts
        self._where: Where = where
        self._turn = invocation
        self._outcome: Any = _TO_COME
        self.is_open = bool(texts)

    def need(self) -> Run:
        """The need that asks the moderator; the outcome is whether all may pass. ``verdict`` says why not."""
        moderate, texts = self._moderator.moderate, self._texts

        async def aask() -> bool:
            try:
                awaited: Any = moderate(texts)
                self._outcome = await awaited
            except Exception as error:
                self._outcome = error
            return self._passes()

        def ask() -> bool:
            try:
                self._outcome = moderate(texts)
            except Exception as error:
                self._outcome = error
            return self._passes()

        asynchronous = inspect.iscoroutinefunction(moderate)
        asked: Callable[[], Any] = aask if asynchronous else ask
        asked.__qualname__ = getattr(moderate, "__qualname__", "moderate")
        return Run(asked, in_thread=not asynchronous)

    def run(self) -> Flow[None]:
        """Ask the moderator. Raises what ``verdict`` gives."""
        yield self.need()
        refusal = yield from self.verdict()
        if refusal is not None:
            raise refusal

    def verdict(self) -> Flow[AiServiceError | None]:
        """Why what the moderator was asked for may not pass; None where it may, or no answer has come yet.

        A ModerationError for what is flagged, or for what the moderator failed with; a ModelError as it is.
        """
        if self._outcome is _TO_COME:
            return None
        refusal: AiServiceError | None
        try:
            results = self._results()
            refusal = self._flagged(results)
        except ModelError as error:
            refusal = error
        except Exception as error:
            refusal = self._failed(error)
        else:
            yield Emit(ModerationRan(self._where, results), shown=False)
        self.is_open = False
        return refusal

    def _passes(self) -> bool:
        try:
            return not any(result.flagged for result in self._results())
        except Exception:  # ``verdict`` tells
            return False

    def _results(self) -> tuple[ModerationResult, ...]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        self._outcome = results = tuple(self._outcome)
        if len(results) != len(self._texts):
            raise ValueError(f"it gave {len(results)} results for {len(self._texts)} texts")
        return results

    def _failed(self, error: Exception) -> ModerationError:
        said = f"{self._turn.plan.where}: the moderator failed: {type(error).__name__}: {error}"
        failure = ModerationError(said, where=self._where)
        failure.__cause__ = error
        return failure

    def _flagged(self, results: tuple[ModerationResult, ...]) -> ModerationError | None:
        if not any(result.flagged for result in results):
            return None
        named = tuple(dict.fromkeys(name for one in results if one.flagged for name in one.categories))
        what = "what the user says" if self._where == "input" else "the answer"
        said = f"{what} is flagged by moderation: {', '.join(named) or 'no category is named'}"
        return ModerationError(f"{self._turn.plan.where}: {said}", where=self._where, categories=named)


class _Refused(GeneratorExit):
    """Has ``through`` close a flow: nothing in it is to catch what is refused, or to go on."""


def beside(flow: Flow[Answer], check: Check, invocation: Invocation) -> Flow[Answer]:
    """A flow with a check beside its first request. Raises what the check refuses with.

    Then the flow is told what came of the request, for its account, and is closed before it goes on.
    """
    refusal: AiServiceError | None = None

    def fulfil(need: Effect) -> Flow[Any]:
        nonlocal refusal
        if refusal is not None:
            yield from _noted(need, refusal)
            return None
        gated = _gated(need, check) if check.is_open else None
        if gated is None:
            return (yield need)
        try:
            outcome = yield gated
        except ReplyBlocked as withheld:
            refusal = yield from check.verdict()
            if refusal is None or isinstance(need, Gather):  # it is for another check to say why
                raise
            if withheld.reply is None:
                raise _left(invocation) from refusal
            return withheld.reply
        except Exception:
            refusal = yield from check.verdict()
            raise
        refusal = yield from check.verdict()
        return outcome[:-1] if isinstance(need, Gather) else outcome

    try:
        answer = yield from through(flow, fulfil)
        if refusal is not None:
            raise _Refused
    except (Exception, _Refused):
        if refusal is None:
            raise
        raise refusal from refusal.__cause__
    if check.is_open:  # nothing was asked
        yield from check.run()
    return answer


def _gated(need: Effect, check: Check) -> Effect | None:
    """The need with the check beside it; None where it asks no model."""
    if isinstance(need, CallModel):
        return need._replace(gates=(*need.gates, check.need()))
    if isinstance(need, Gather) and any(isinstance(one, CallModel) for one in need.needs):
        return Gather((*need.needs, check.need()), need.at_once and need.at_once + 1)
    return None


def _noted(need: Effect, refusal: AiServiceError) -> Flow[None]:
    """Hand on what a flow notes of a request that is refused. Raises _Refused when it has, or goes on."""
    event = need.event if isinstance(need, Emit) else None
    if isinstance(event, ReplyFailed) and event.error.__cause__ is refusal:  # the reply was left
        event = event._replace(error=refusal)
    if isinstance(event, (ReplyReceived, ReplyFailed, ModerationRan)):
        yield Emit(event, shown=False)
    if not isinstance(event, ModerationRan):  # after that of a check within, the reply is still to be noted
        raise _Refused


def _left(invocation: Invocation) -> ServiceOutputError:
    """What a flow is told of a request whose reply is left before its end."""
    return ServiceOutputError(invocation.plan.where, "", (), invocation.state.attempts)


class Moderation:
    """Has the messages of the user moderated while the model answers; with ``answers`` the answer, too.

    What is flagged is a ModerationError, before anything of an answer is handed over and before a tool runs.
    A moderator that fails lets nothing through: ModelErrors of it leave as they are, all else as a
    ModerationError. Streams hold what comes before the verdict, and flow from then on; with ``answers`` they
    show nothing before the answer has passed. What is flagged ends the request, but for a whole reply in a
    blocking call, which is waited for. An interceptor; all messages of the user that it sees in the request
    are moderated, so before ChatMemory it is those of this call.
    """

    def __init__(self, moderator: Moderator, *, answers: bool = False) -> None:
        if not callable(getattr(moderator, "moderate", None)):
            raise DefinitionError(
                [DefinitionProblem("Moderation", f"{moderator!r} has no method moderate(texts)")]
            )
        self._moderator = moderator
        self._answers = answers
        self.blocks_streaming = answers
        self.position_name = "answer check" if answers else None
        self.awaits = (f"{type(moderator).__name__}.moderate",) if is_async(moderator.moderate) else ()

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        texts = () if invocation.is_resumed else _said_by_users(invocation)
        check = Check(self._moderator, texts, "input", invocation)
        answer = yield from beside(proceed(invocation), check, invocation)
        if self._answers and (text := text_of(answer, invocation)).strip():
            yield from Check(self._moderator, (text,), "output", invocation).run()
        return answer


def _said_by_users(invocation: Invocation) -> tuple[str, ...]:
    said = (message.text for message in invocation.request.messages if isinstance(message, UserMessage))
    texts = (text.replace(INSTRUCTIONS_PLACE, "") for text in said)
    return tuple(text for text in texts if text.strip())


class OpenAiModerator:
    """Asks the moderations API of OpenAI, or of a server that speaks it, over the ``openai`` SDK.

    Nothing is imported or opened before the first text. ``client`` is used as it is, but for its retries.
    Raises ModelErrors. It blocks, and runs in a thread in async calls. ``timeout`` is in seconds.
    """

    def __init__(
        self,
        model: str = "omni-moderation-latest",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: OpenAI | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._place = place_at("openai", base_url) if client is None else place_of(client)
        self._clients = Clients(self.name, self._place, api_key, client, None)
        self._timeout = timeout

    def moderate(self, texts: Sequence[str], /) -> list[ModerationResult]:
        client = self._clients.blocking().with_options(timeout=self._timeout, max_retries=0)
        where = f"{self.name} at {self._place.shown}"
        try:
            answer = client.moderations.create(model=self._model, input=list(texts))
        except Exception as error:
            if not isinstance(error, sdk_failures()):
                raise
            blame = Blame(where, (client.api_key,), self._place.key_advice, self._timeout)
            raise blame.failure(error) from error
        try:
            return [_result(one) for one in answer.results]
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidReplyError(f"{where}: the answer is no moderation: {error}") from error

    def close(self) -> None:
        """Close the connections of a client that was made here."""
        self._clients.close()


def _result(one: Any) -> ModerationResult:
    flags = one.categories.model_dump(by_alias=True)
    flagged = one.flagged
    if not isinstance(flagged, bool):
        raise ValueError(f"flagged is {flagged!r}")
    return ModerationResult(flagged, tuple(name for name, found in flags.items() if found))
