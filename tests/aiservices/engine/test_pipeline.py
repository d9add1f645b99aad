"""Interceptors, retries within the budget, finish reasons, and the attempts on errors of a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    AuthenticationError,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    ContentFilterError,
    DefinitionError,
    DefinitionProblem,
    FinishReason,
    ModelConnectionError,
    ModelServerError,
    OutputParsingError,
    Problem,
    RateLimitError,
    RefusalError,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    TruncatedError,
    Usage,
    UserMessage,
    create,
    options,
)
from aiservices.interceptors import Answer, Emit, Flow, Invocation, Proceed, Run

AT_ONCE = Budget(first_wait=0)
PASSING = ModelServerError("500", status=500, retryable=True)


class Chat(Protocol):
    def chat(self, text: str) -> Result[str]: ...


class Counter(Protocol):
    def count(self, text: str) -> int: ...


def saying(name: str, told: list[str]) -> Any:
    def interceptor(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        told.append(f"{name} in")
        answer = yield from proceed(invocation)
        told.append(f"{name} out")
        return answer

    return interceptor


def test_the_first_interceptor_is_the_outermost() -> None:
    told: list[str] = []
    model = ScriptedChatModel(lambda request: told.append("model") or "hi")  # type: ignore[func-returns-value]
    create(Chat, model, interceptors=[saying("a", told), saying("b", told)]).chat("x")
    assert told == ["a in", "b in", "model", "b out", "a out"]


def test_an_interceptor_may_change_the_turn() -> None:
    def louder(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        request = invocation.request.plus(UserMessage("!"))
        return (yield from proceed(replace(invocation, request=request)))

    model = ScriptedChatModel(["hi"])
    create(Chat, model, interceptors=[louder]).chat("x")
    assert model.requests == [ChatRequest((UserMessage("x"), UserMessage("!")))]


def test_an_interceptor_may_change_the_answer() -> None:
    def doubled(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        return replace(answer, value=answer.value * 2)

    assert create(Counter, ScriptedChatModel(["7"]), interceptors=[doubled]).count("x") == 14


def test_an_interceptor_may_refuse_before_the_model_is_asked() -> None:
    def refuse(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        raise AiServiceError("not today")
        yield

    model = ScriptedChatModel([])
    with pytest.raises(AiServiceError) as caught:
        create(Chat, model, interceptors=[refuse]).chat("x")
    assert (str(caught.value), caught.value.attempts, model.requests) == ("not today", (), [])


def test_an_interceptor_may_answer_by_itself() -> None:
    def known(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer(7, ChatReply(AiMessage("7")), ())
        yield

    model = ScriptedChatModel([])
    assert (create(Counter, model, interceptors=[known]).count("x"), model.requests) == (7, [])


def test_an_interceptor_may_ask_again_and_every_attempt_is_kept() -> None:
    def twice(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield from proceed(invocation)
        return (yield from proceed(invocation))

    result = create(Chat, ScriptedChatModel(["a", "b b"]), interceptors=[twice]).chat("x")
    assert (result.value, [attempt.text for attempt in result.attempts], result.usage) == (
        "b b",
        ["a", "b b"],
        Usage(2, 3),
    )


def test_an_interceptor_may_ask_again_after_a_reply_that_cannot_be_read() -> None:
    def again(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        try:
            return (yield from proceed(invocation))
        except ServiceOutputError as error:
            return (
                yield from proceed(
                    replace(invocation, request=invocation.request.plus(UserMessage(str(error.problems[0]))))
                )
            )

    model = ScriptedChatModel(["many", '{"value": 7}'])
    assert create(Counter, model, interceptors=[again], retry=None).count("x") == 7
    assert [message.text for message in model.requests[1].messages] == [
        "x",
        '$: expected an integer, found "many"',
    ]


def test_an_interceptor_has_things_done_in_every_kind_of_call() -> None:
    def doing(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        done.append((yield Run(lambda: "done")))
        return (yield from proceed(invocation))

    class Both(Protocol):
        def chat(self, text: str) -> str: ...

        async def achat(self, text: str) -> str: ...

        def write(self, text: str) -> Iterator[str]: ...

    done: list[str] = []
    service = create(Both, ScriptedChatModel(["a", "b", "c"]), interceptors=[doing])
    replies = [service.chat("x"), asyncio.run(service.achat("x")), *service.write("x")]
    assert (replies, done) == (["a", "b", "c"], ["done"] * 3)


def test_what_an_interceptor_emits_is_not_a_text_of_a_stream_unless_it_is_a_delta() -> None:
    def emitting(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield Emit("an event")
        yield Emit(ReplyDelta("so: "))
        return (yield from proceed(invocation))

    class Writer(Protocol):
        def write(self, text: str) -> Iterator[str]: ...

    writer = create(Writer, ScriptedChatModel(["to be"]), interceptors=[emitting])
    assert list(writer.write("x")) == ["so: ", "to ", "be"]


def ended(reply: ChatReply, kind: type[AiServiceError]) -> Any:
    with pytest.raises(kind) as caught:
        create(Chat, ScriptedChatModel([reply])).chat("x")
    return caught.value


def test_a_refusal_is_an_error_with_the_text_of_the_model() -> None:
    reply = ChatReply(AiMessage("Well"), usage=Usage(3, 1), refusal="I cannot help with that")
    error = ended(reply, RefusalError)
    assert (str(error), error.text, error.reason, error.usage, len(error.attempts)) == (
        "Chat.chat: the model refused: I cannot help with that",
        "Well",
        "I cannot help with that",
        Usage(3, 1),
        1,
    )


def test_a_cut_off_is_an_error_with_the_text_so_far() -> None:
    reply = ChatReply(AiMessage("to b"), FinishReason.LENGTH, Usage(3, 1))
    error = ended(reply, TruncatedError)
    assert (str(error), error.text, error.reason, error.usage, len(error.attempts)) == (
        "Chat.chat: the answer was cut off by a length limit; raise max_tokens or ask for less",
        "to b",
        "length",
        Usage(3, 1),
        1,
    )


def test_a_content_filter_is_an_error_with_the_text_so_far() -> None:
    reply = ChatReply(AiMessage("to b"), FinishReason.CONTENT_FILTER, Usage(3, 1))
    error = ended(reply, ContentFilterError)
    assert (str(error), error.text, error.reason, error.usage, len(error.attempts)) == (
        "Chat.chat: the content filter of the provider stopped the answer",
        "to b",
        "content_filter",
        Usage(3, 1),
        1,
    )


@pytest.mark.parametrize("reason", [FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER])
def test_text_with_other_finishes_is_an_answer(reason: FinishReason) -> None:
    reply = ChatReply(AiMessage("hi"), reason)
    assert create(Chat, ScriptedChatModel([reply])).chat("x").finish_reason is reason


TIRED = ChatReply(AiMessage("4"), FinishReason.OTHER, stop_reason="tired")
UNKNOWN = "the model stopped for an unknown reason ('tired'), so the answer may be incomplete"


def test_text_that_ended_for_an_unknown_reason_has_a_note() -> None:
    class Noting(Protocol):
        def chat(self, text: str) -> Result[str]: ...

        @options(unknown_finish="raise")
        def strict(self, text: str) -> Result[str]: ...

    service = create(Noting, ScriptedChatModel([TIRED] * 2))
    result = service.chat("x")
    assert (result.value, result.reasons[-1]) == ("4", UNKNOWN)
    with pytest.raises(TruncatedError) as caught:
        service.strict("x")
    assert (str(caught.value), caught.value.text, caught.value.reason) == (
        f"Noting.strict: {UNKNOWN}",
        "4",
        "tired",
    )


def test_a_value_that_ended_for_an_unknown_reason_is_an_error_at_once() -> None:
    model = ScriptedChatModel([TIRED, "4"])
    with pytest.raises(TruncatedError, match="unknown reason"):
        create(Counter, model).count("x")
    assert len(model.requests) == 1


def test_a_wrong_setting_for_unknown_reasons_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match="unknown_finish is 'x'; it must be one of note, raise"):
        create(Chat, ScriptedChatModel([]), options=ChatOptions(unknown_finish="x"))  # type: ignore[arg-type]


def test_a_cut_off_number_is_never_a_value() -> None:
    reply = ChatReply(AiMessage("4"), FinishReason.LENGTH)
    with pytest.raises(TruncatedError):
        create(Counter, ScriptedChatModel([reply])).count("x")


def unreadable() -> ServiceOutputError:
    with pytest.raises(ServiceOutputError) as caught:
        create(Counter, ScriptedChatModel(["too many"]), retry=None).count("how many")
    return caught.value


def test_a_reply_that_cannot_be_read_says_where_and_why() -> None:
    assert str(unreadable()) == (
        'Counter.count: cannot read the reply: $: expected an integer, found "too many" '
        "(the reply: 'too many')"
    )


def test_a_reply_that_cannot_be_read_is_kept_with_problems_usage_and_attempt() -> None:
    error = unreadable()
    (attempt,) = error.attempts
    assert (error.text, error.problems, error.usage, attempt.text, type(attempt.error)) == (
        "too many",
        (Problem("$", "expected an integer", '"too many"'),),
        Usage(2, 2),
        "too many",
        OutputParsingError,
    )


def test_the_error_of_the_parser_is_the_cause() -> None:
    error = unreadable()
    assert (error.__cause__, error.__suppress_context__) == (None, True)


def test_an_error_notes_the_method_that_it_left() -> None:
    with pytest.raises(AuthenticationError) as caught:
        create(Chat, ScriptedChatModel([AuthenticationError("401")])).chat("x")
    assert (str(caught.value), caught.value.qualname) == ("401", "Chat.chat")


def test_a_temporary_error_is_retried() -> None:
    model = ScriptedChatModel([PASSING, ModelConnectionError("gone", retryable=True), "hi"])
    result = create(Chat, model, budget=AT_ONCE).chat("x")
    assert (result.value, [(attempt.text, str(attempt.error)) for attempt in result.attempts]) == (
        "hi",
        [("", "500"), ("", "gone"), ("hi", "None")],
    )


def test_an_attempt_names_its_model_and_its_time() -> None:
    (attempt,) = create(Chat, ScriptedChatModel(["hi"], name="tiny")).chat("x").attempts
    assert (attempt.model, attempt.seconds >= 0) == ("tiny", True)


def test_a_temporary_error_is_retried_in_async_calls() -> None:
    class Async(Protocol):
        async def chat(self, text: str) -> str: ...

    model = ScriptedChatModel([PASSING, "hi"])
    assert asyncio.run(create(Async, model, budget=AT_ONCE).chat("x")) == "hi"


def test_no_more_attempts_are_made_than_the_budget_has() -> None:
    model = ScriptedChatModel([PASSING] * 9)
    with pytest.raises(ModelServerError) as caught:
        create(Chat, model, budget=Budget(max_attempts=4, first_wait=0)).chat("x")
    assert (len(model.requests), len(caught.value.attempts)) == (4, 4)


def test_a_permanent_error_is_not_retried() -> None:
    model = ScriptedChatModel([AuthenticationError("401", status=401)] * 9)
    with pytest.raises(AuthenticationError) as caught:
        create(Chat, model, budget=AT_ONCE).chat("x")
    assert (len(model.requests), [attempt.error for attempt in caught.value.attempts]) == (1, [caught.value])


def test_another_error_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        create(Chat, ScriptedChatModel([ZeroDivisionError()] * 2), budget=AT_ONCE).chat("x")


def test_the_requested_wait_of_the_provider_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("aiservices.engine.drivers.time.sleep", waits.append)
    model = ScriptedChatModel([RateLimitError("429", retryable=True, retry_after=12.5), "hi"])
    create(Chat, model).chat("x")
    assert waits == [12.5]


def test_a_wait_beyond_the_seconds_of_the_budget_is_not_begun() -> None:
    model = ScriptedChatModel([RateLimitError("429", retryable=True, retry_after=12.5), "hi"])
    with pytest.raises(RateLimitError):
        create(Chat, model, budget=Budget(seconds=5)).chat("x")
    assert len(model.requests) == 1


@pytest.mark.parametrize("timeout", [None, 1.5, 60])
def test_a_request_has_the_deadline_of_the_budget_and_the_timeout_of_the_options(
    timeout: float | None,
) -> None:
    model = ScriptedChatModel(["hi"])
    options = ChatOptions(timeout=timeout)
    create(Chat, model, budget=Budget(seconds=500), options=options).chat("x")
    (request,) = model.requests
    assert request.deadline is not None
    assert 400 < request.deadline - time.monotonic() <= 500
    assert request.options.timeout == timeout


def test_a_request_without_a_limit_has_no_deadline() -> None:
    model = ScriptedChatModel(["hi"])
    create(Chat, model).chat("x")
    assert model.requests[0].deadline is None


def test_no_request_is_made_after_the_end_of_the_budget() -> None:
    def late(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        invocation.state.started_at -= 10
        return (yield from proceed(invocation))

    model = ScriptedChatModel(["hi"])
    with pytest.raises(BudgetExceededError) as caught:
        create(Chat, model, budget=Budget(seconds=5), interceptors=[late]).chat("x")
    assert (str(caught.value), caught.value.limit, model.requests) == (
        "budget exceeded: 10.0 of 5 seconds passed; raise Budget(seconds=…)",
        "seconds",
        [],
    )


class Breaking:
    """A model whose first stream breaks after some words, and whose other streams are complete."""

    name = "breaking"
    capabilities = Capabilities()

    def __init__(self, *first: str) -> None:
        self._first = list(first)
        self.asked = 0

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        self.asked += 1
        if self.asked == 1:
            yield from map(ReplyDelta, self._first)
            raise ModelConnectionError("it broke", retryable=True)
        yield ReplyDelta("to be", reply=ChatReply(AiMessage("to be")))

    def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    def astream(self, request: ChatRequest) -> Any:
        raise NotImplementedError


class Writer(Protocol):
    def write(self, text: str) -> Iterator[str]: ...


def test_a_stream_that_breaks_before_any_text_is_asked_again() -> None:
    assert list(create(Writer, Breaking(), budget=AT_ONCE).write("x")) == ["to be"]


def test_a_stream_that_breaks_after_some_text_is_not_begun_again() -> None:
    model = Breaking("to ")
    pieces: list[str] = []
    with pytest.raises(ModelConnectionError) as caught:
        pieces.extend(create(Writer, model, budget=AT_ONCE).write("x"))
    assert (str(caught.value), caught.value.retryable, model.asked) == ("it broke", True, 1)


def test_a_definition_error_during_a_call_has_the_attempts_so_far() -> None:
    def wrong(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        yield from proceed(invocation)
        raise DefinitionError([DefinitionProblem("Chat.chat", "wrong after all")])

    with pytest.raises(DefinitionError) as caught:
        create(Chat, ScriptedChatModel(["hi"]), interceptors=[wrong]).chat("x")
    assert [attempt.text for attempt in caught.value.attempts] == ["hi"]


def test_retries_are_made_with_the_same_request() -> None:
    class Careful(Protocol):
        @options(temperature=0)
        def chat(self, text: str) -> str: ...

    model = ScriptedChatModel([PASSING, "hi"])
    create(Careful, model, budget=AT_ONCE).chat("x")
    assert model.requests[0] == model.requests[1]
