"""Check user messages and, if configured, the model's answers with a moderation service."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .engine.effects import CallModel, Effect, Emit, Flow, Gather, ReplyBlocked, Run
from .engine.flows import map_effects
from .engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from .engine.plan import Invocation
from .engine.results import Answer
from .engine.streams import ReplyFailed, ReplyReceived
from .guardrails.guard import Stage
from .guardrails.outputs import texts_to_moderate
from .guardrails.request_texts import request_texts
from .interface.parameters import is_async
from .models.arguments import check_settings, checks_arguments, is_positive
from .models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    InvalidReplyError,
    ModelError,
    ServiceOutputError,
)
from .models.http.replies import ErrorMapper
from .models.media import Audio, File, Image, Media
from .models.messages import UserMessage
from .models.openai.client import Endpoint, SdkClients, sdk_failures

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Moderation as SdkModeration

__all__ = [
    "Moderation",
    "ModerationError",
    "ModerationRan",
    "ModerationResult",
    "Moderator",
    "OpenAiModerator",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationResult:
    """A moderation service's verdict on one string or image.

    Attributes:
        flagged: True if the content must not pass.
        categories: The names of the categories in which the content is flagged.
    """

    flagged: bool
    categories: tuple[str, ...] = ()


class Moderator(Protocol):
    """The interface of moderation services, which return one result for each checked text.

    ``moderate`` may be async if all methods of the service are async. It also gets images and other media of
    the messages if the moderator has the attribute ``media_types``, a tuple such as ``(Image,)``.
    """

    def moderate(
        self, texts: Sequence[str], /
    ) -> Sequence[ModerationResult] | Awaitable[Sequence[ModerationResult]]: ...


@dataclass(slots=True)
class ModerationRan:
    """Event for listeners: a moderation service checked user messages or an answer.

    Attributes:
        stage: "input" for user messages, "output" for an answer.
        results: One result per text.
        invocation: The call; None in a stream.
        seconds: How long it took.
    """

    stage: Stage
    results: tuple[ModerationResult, ...]
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)


class ModerationError(AiServiceError):
    """Raised when a moderation service flags a user message or an answer, or fails.

    The exception of a failed moderator is the ``__cause__``.

    Attributes:
        stage: "input" for user messages, "output" for an answer.
        categories: The categories in which content is flagged. Empty if the moderator names none or failed.
        flagged: The strings and media that are flagged. They are not in the message, which may be logged.
        results: The results of the moderator, one for each text and media that it checked.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: Stage,
        categories: tuple[str, ...] = (),
        flagged: tuple[str | Media, ...] = (),
        results: tuple[ModerationResult, ...] = (),
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.categories = categories
        self.flagged = flagged
        self.results = results


@checks_arguments
class Moderation(BaseInterceptor):
    """Interceptor that checks user messages with a moderation service while the model answers.

    Flagged content raises a ModerationError before any part of the answer is handed out and before a tool
    runs. If the moderator fails, nothing passes either: its ModelErrors are raised as they are, other
    exceptions as a ModerationError. Streams hold back the answer until the verdict is there. Flagged content
    cancels the request to the model; only a blocking call has to wait for the whole reply.

    All texts of callers in the request that this interceptor gets are checked, as ``InputGuardrails`` checks
    them. So before ChatMemory only the messages of this call are checked, after it the whole conversation.

    Images and other media are checked if the moderator can check them. Otherwise ``create`` refuses methods
    with media, and a call with media raises a ModerationError.

    Args:
        moderator: Checks the content, for example an ``OpenAiModerator``.
        answers: Also check the answer. Streams then show nothing before the whole answer has passed.
        media: "check" to let only media pass that the moderator checked, "skip" to let media pass unchecked
            if the moderator cannot check them.
    """

    def __init__(
        self, moderator: Moderator, *, answers: bool = False, media: Literal["check", "skip"] = "check"
    ) -> None:
        messages = []
        if not callable(getattr(moderator, "moderate", None)):
            messages.append(f"{moderator!r} has no method moderate(texts)")
        if media not in ("check", "skip"):
            messages.append(f"media is {media!r}; it must be one of check, skip")
        if messages:
            raise DefinitionError([DefinitionProblem("Moderation", message) for message in messages])
        self._moderator = moderator
        self._media_types: tuple[type, ...] = tuple(getattr(moderator, "media_types", ()))
        # ``create`` refuses methods with these media
        self.unchecked_media: tuple[type, ...] = ()
        if media == "check":
            self.unchecked_media = tuple(one for one in _MEDIA if one not in self._media_types)
        self._answers = answers
        self.blocks_streaming = answers
        self.position_name = InterceptorKind.ANSWER_CHECK if answers else InterceptorKind.MODERATION
        self.async_parts = (f"{type(moderator).__name__}.moderate",) if is_async(moderator.moderate) else ()

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        contents = () if invocation.is_resumed else self._user_contents(invocation)
        check = ModerationCheck(self._moderator, contents, "input", invocation)
        answer = yield from check_concurrently(proceed(invocation), check, invocation)
        if self._answers and (texts := texts_to_moderate(answer, invocation)):
            yield from ModerationCheck(self._moderator, texts, "output", invocation).run()
        return answer

    def _user_contents(self, invocation: Invocation) -> tuple[str | Media, ...]:
        """Return the texts and media of the caller; raise ModerationError for unsupported media."""
        texts = (one.text.replace(one.placeholder, "") for one in request_texts(invocation))
        contents: list[str | Media] = [text for text in texts if text.strip()]
        for message in invocation.request.messages:
            for part in message.contents if isinstance(message, UserMessage) else ():
                if isinstance(part, str):
                    continue
                if isinstance(part, self.unchecked_media):
                    problem = f"the user message has {part.kind}, which is not checked; {_MEDIA_ADVICE}"
                    raise ModerationError(f"{invocation.plan.qualname}: {problem}", stage="input")
                if isinstance(part, self._media_types):
                    contents.append(part)
        return tuple(contents)


_MEDIA: tuple[type[Media], ...] = (Image, Audio, File)
_MEDIA_ADVICE = 'use a moderator with such media_types, or pass Moderation(moderator, media="skip")'


_PENDING: object = object()


class ModerationCheck:
    """A check of user messages or of an answer by a moderation service.

    ``is_open`` is True until the verdict was read.
    """

    def __init__(
        self, moderator: Moderator, contents: Sequence[str | Media], stage: Stage, invocation: Invocation
    ) -> None:
        self._moderator = moderator
        self._contents = tuple(contents)
        self._stage: Stage = stage
        self._qualname = invocation.plan.qualname
        self._outcome: Any = _PENDING  # later the results of the moderator, or its exception
        self._seconds = 0.0
        self.is_open = bool(contents)

    def effect(self) -> Run:
        """Return an effect that calls the moderation service.

        Its outcome is True if nothing is flagged.

        It never raises, because it runs at the same time as a request to the model: ``verdict`` reports why
        the content may not pass.
        """
        # the contents have media only if the moderator takes them
        moderate: Any = self._moderator.moderate
        contents = self._contents

        async def acall_moderator() -> bool:
            started_at = time.monotonic()
            try:
                results: Any = moderate(contents)
                self._outcome = await results
            except Exception as error:
                self._outcome = error
            self._seconds = time.monotonic() - started_at
            return self._passes()

        def call_moderator() -> bool:
            started_at = time.monotonic()
            try:
                self._outcome = moderate(contents)
            except Exception as error:
                self._outcome = error
            self._seconds = time.monotonic() - started_at
            return self._passes()

        asynchronous = inspect.iscoroutinefunction(moderate)
        function: Callable[[], bool | Awaitable[bool]] = acall_moderator if asynchronous else call_moderator
        function.__qualname__ = getattr(moderate, "__qualname__", "moderate")
        return Run(function, in_thread=not asynchronous)

    def run(self) -> Flow[None]:
        """Call the moderation service, and raise an error if it flags the content or fails."""
        yield self.effect()
        error = yield from self.verdict()
        if error is not None:
            raise error

    def verdict(self) -> Flow[AiServiceError | None]:
        """Return an error if the moderation service flagged the content or failed, else None.

        None is also returned while the moderator has not answered yet.

        The error is a ModerationError for flagged content and failures of the moderator, or its ModelError.
        """
        if self._outcome is _PENDING:
            return None
        verdict: AiServiceError | None
        try:
            results = self._results()
            verdict = self._flagged_error(results)
        except ModelError as error:
            verdict = error
        except Exception as error:
            verdict = self._failure(error)
        else:
            yield Emit(ModerationRan(self._stage, results, seconds=self._seconds), streamed=False)
        self.is_open = False
        return verdict

    def _passes(self) -> bool:
        try:
            return not any(result.flagged for result in self._results())
        except Exception:  # ``verdict`` reports the exception
            return False

    def _results(self) -> tuple[ModerationResult, ...]:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        self._outcome = results = tuple(self._outcome)
        if len(results) != len(self._contents):
            raise ValueError(f"it returned {len(results)} results for {len(self._contents)} texts")
        return results

    def _failure(self, error: Exception) -> ModerationError:
        message = f"{self._qualname}: the moderator failed: {type(error).__name__}: {error}"
        failure = ModerationError(message, stage=self._stage)
        failure.__cause__ = error
        return failure

    def _flagged_error(self, results: tuple[ModerationResult, ...]) -> ModerationError | None:
        if not any(result.flagged for result in results):
            return None
        categories = tuple(
            dict.fromkeys(name for result in results if result.flagged for name in result.categories)
        )
        subject = "the user message" if self._stage == "input" else "the answer"
        detail = ", ".join(categories) or "the moderator named no category"
        message = f"{self._qualname}: {subject} is flagged by moderation: {detail}"
        pairs = zip(self._contents, results, strict=True)
        flagged = tuple(content for content, result in pairs if result.flagged)
        return ModerationError(
            message, stage=self._stage, categories=categories, flagged=flagged, results=results
        )


class _FlowClosed(GeneratorExit):
    """Raised to end a service call after moderation blocked a model request.

    It is a GeneratorExit so that no interceptor in the flow catches it or asks the model again.
    """


def check_concurrently(flow: Flow[Answer], check: ModerationCheck, invocation: Invocation) -> Flow[Answer]:
    """Moderate content during the first model request, and raise an error if the content is rejected.

    If the check blocks the reply, the flow still emits the event that records the request in the call state.
    Then it is closed before it continues.
    """
    blocked_by: AiServiceError | None = None

    def perform(effect: Effect) -> Flow[object]:
        nonlocal blocked_by
        if blocked_by is not None:
            yield from _forward_record(effect, blocked_by)
            return None
        checked_effect = _with_check(effect, check) if check.is_open else None
        if checked_effect is None:
            return (yield effect)
        try:
            outcome = yield checked_effect
        except ReplyBlocked as blocked:
            blocked_by = yield from check.verdict()
            if blocked_by is None or isinstance(effect, Gather):  # another check blocked it and reports why
                raise
            if blocked.reply is None:  # blocked before the reply was complete
                error = ServiceOutputError(invocation.plan.qualname, "", (), invocation.state.attempts)
                raise error from blocked_by
            return blocked.reply
        except Exception:
            blocked_by = yield from check.verdict()
            raise
        blocked_by = yield from check.verdict()
        return outcome[:-1] if isinstance(effect, Gather) else outcome

    try:
        answer = yield from map_effects(flow, perform)
        if blocked_by is not None:
            raise _FlowClosed
    except (Exception, _FlowClosed):
        if blocked_by is None:
            raise
        raise blocked_by from blocked_by.__cause__
    if check.is_open:  # the flow sent no request
        yield from check.run()
    return answer


def _with_check(effect: Effect, check: ModerationCheck) -> Effect | None:
    """Add a moderation check to a model request; return None for an effect that is not a request."""
    if isinstance(effect, CallModel):
        return effect._replace(checks=(*effect.checks, check.effect()))
    if isinstance(effect, Gather) and any(isinstance(one, CallModel) for one in effect.effects):
        return Gather(
            (*effect.effects, check.effect()), effect.max_concurrency and effect.max_concurrency + 1
        )
    return None


def _forward_record(effect: Effect, blocked_by: AiServiceError) -> Flow[None]:
    """Report to listeners that moderation blocked a model request, and end the call."""
    event = effect.event if isinstance(effect, Emit) else None
    if isinstance(event, ReplyFailed) and event.error.__cause__ is blocked_by:  # the reply was not read
        event = replace(event, error=blocked_by)
    if isinstance(event, (ReplyReceived, ReplyFailed, ModerationRan)):
        yield Emit(event, streamed=False)
    # The event of a nested check comes before the event of the reply.
    if not isinstance(event, ModerationRan):
        raise _FlowClosed


@checks_arguments
class OpenAiModerator:
    """A moderation service that calls the moderations API of OpenAI or a compatible server.

    It checks text and images. It uses the openai SDK. Nothing is imported and no connection is opened before
    the first check. ``moderate`` blocks; async calls run it in a thread. It raises ModelErrors and does not
    retry.

    Args:
        model: The name of the moderation model.
        base_url: The address of a compatible server.
        api_key: The key. By default the variable OPENAI_API_KEY.
        client: A client of the SDK to use instead of ``base_url`` and ``api_key``, without its retries.
        timeout: Seconds to wait for an answer.
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
        check_settings(
            "OpenAiModerator",
            ("model", model, isinstance(model, str), "pass the name of a model"),
            ("base_url", base_url, base_url is None or isinstance(base_url, str), "pass a URL"),
            ("timeout", timeout, is_positive(timeout), "it must be greater than 0"),
        )
        self.name = f"openai:{model}"
        # the older models check texts only
        self.media_types: tuple[type[Media], ...] = () if model.startswith("text-") else (Image,)
        self._model = model
        has_client = client is not None
        self._endpoint = (
            Endpoint.of_client(client) if has_client else Endpoint.of_provider("openai", base_url)
        )
        self._clients = SdkClients(self.name, self._endpoint, api_key, client, None)
        self._timeout = timeout

    def moderate(self, contents: Sequence[str | Media], /) -> list[ModerationResult]:
        """Return a moderation result for each string and each image.

        The API gives one result for an image and all text with it, so each image is sent in its own request.
        """
        texts = [content for content in contents if isinstance(content, str)]
        results = iter(self._send(texts) if texts else [])
        return [
            next(results) if isinstance(content, str) else self._send_image(content) for content in contents
        ]

    def _send_image(self, image: Media) -> ModerationResult:
        [result] = self._send([{"type": "image_url", "image_url": {"url": image.address}}])
        return result

    def _send(self, contents: Sequence[object]) -> list[ModerationResult]:
        client = self._clients.sync_client().sdk.with_options(timeout=self._timeout, max_retries=0)
        source = f"{self.name} at {self._endpoint.address}"
        try:
            response = client.moderations.create(model=self._model, input=contents)
        except Exception as error:
            if not isinstance(error, sdk_failures()):
                raise
            mapper = ErrorMapper(source, (client.api_key,), self._endpoint.key_advice, self._timeout)
            raise mapper.from_exception(error) from error
        try:
            results = [_moderation_result(result) for result in response.results]
            if len(results) != len(contents):
                raise ValueError(f"it has {len(results)} results for {len(contents)} texts or images")
            return results
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidReplyError(f"{source}: the response is not a moderation result: {error}") from error

    def close(self) -> None:
        """Close the HTTP connections of the openai client, unless the user created the client."""
        self._clients.close()


def _moderation_result(result: SdkModeration) -> ModerationResult:
    """Convert a moderation result of the openai SDK to a ModerationResult, or raise ValueError."""
    # the SDK does not validate the responses of compatible servers
    flags = result.categories.model_dump(by_alias=True)
    flagged = result.flagged
    if not isinstance(flagged, bool):
        raise ValueError(f"flagged is {flagged!r}")
    return ModerationResult(flagged=flagged, categories=tuple(name for name, flag in flags.items() if flag))
