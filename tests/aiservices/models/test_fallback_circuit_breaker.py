"""A member of a FallbackChatModel that fails again and again rests, and is then tried by one request."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pytest

from aiservices import (
    BadRequestError,
    Budget,
    ChatModel,
    ChatRequest,
    DefinitionError,
    FallbackChatModel,
    LimitedChatModel,
    Limits,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
    Result,
    ScriptedChatModel,
    Stream,
    UserMessage,
    create,
)
from aiservices.agents import ReActAgent
from aiservices.models.fallback import CircuitBreaker
from aiservices.structured_model import structured

REQUEST = ChatRequest((UserMessage("x"),))


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that puts the clock forward: on a loaded machine a call may outlast a short rest."""
    clock, passed = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(passed))
    return passed.append


class Chat(Protocol):
    def say(self, text: str) -> Result[str]: ...

    async def asay(self, text: str) -> Result[str]: ...

    def pieces(self, text: str) -> Iterator[str]: ...

    def grow(self, text: str) -> Stream[str]: ...


class Server:
    """Models that fail while they are down, and record which of them were called."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down: dict[str, Exception] = {}
        self.seconds = 0.0

    def model(self, name: str) -> ScriptedChatModel:
        def reply(request: ChatRequest) -> Any:
            self.asked.append(name)
            time.sleep(self.seconds)
            return self.down.get(name, f"from {name}")

        return ScriptedChatModel(reply, name=name)

    def fallback(self, names: str = "ab", **settings: Any) -> FallbackChatModel:
        return FallbackChatModel(*map(self.model, names), **settings)

    def asked_now(self) -> str:
        """Return the models that were called since the last time."""
        asked = "".join(self.asked)
        self.asked.clear()
        return asked


def failure() -> ModelServerError:
    return ModelServerError("500", status=500, retryable=True)


def chat_of(model: ChatModel, **settings: Any) -> Chat:
    return create(Chat, model, budget=Budget(first_wait=0), **settings)


CALLS: dict[str, Callable[[FallbackChatModel], str]] = {
    "blocking": lambda model: chat_of(model).say("x").text,
    "async": lambda model: asyncio.run(chat_of(model).asay("x")).text,  # type: ignore[arg-type]
    "Iterator[str]": lambda model: "".join(chat_of(model).pieces("x")),
    "Stream[str]": lambda model: chat_of(model).grow("x").result().text,
    "structured": lambda model: str(structured(model, str).invoke("x")),
    "agent": lambda model: str(ReActAgent("a", "b", model).reply("x").content),
    "complete": lambda model: model.complete(REQUEST).text,
    "acomplete": lambda model: asyncio.run(model.acomplete(REQUEST)).text,
    "stream": lambda model: "".join(delta.text for delta in model.stream(REQUEST)),
    "astream": lambda model: asyncio.run(astreamed(model)),
}
every_call = pytest.mark.parametrize("call", CALLS)


async def astreamed(model: FallbackChatModel) -> str:
    return "".join([delta.text async for delta in model.astream(REQUEST)])


@every_call
def test_a_model_is_skipped_after_failures_in_a_row_and_then_tried_again(
    call: str, pass_time: Callable[[float], None]
) -> None:
    server = Server()
    model = server.fallback(rest_after=2, rest_for=60)
    server.down["a"] = failure()
    for _ in range(4):
        assert CALLS[call](model) == "from b"
    assert server.asked_now() == "ababbb"
    pass_time(61)
    for _ in range(2):  # one request tries it, and it rests again
        assert CALLS[call](model) == "from b"
    assert server.asked_now() == "abb"
    pass_time(61)
    server.down.clear()
    for _ in range(2):
        assert CALLS[call](model) == "from a"
    assert server.asked_now() == "aa"


@every_call
def test_a_success_forgets_the_failures_before_it(call: str) -> None:
    server = Server()
    model = server.fallback(rest_after=2)
    for _ in range(3):
        server.down["a"] = failure()
        CALLS[call](model)
        server.down.clear()
        CALLS[call](model)
    assert server.asked_now() == "aba" * 3


@every_call
def test_if_all_models_rest_they_are_asked_as_if_none_did(call: str) -> None:
    server = Server()
    model = server.fallback(rest_after=1)
    server.down.update(a=failure(), b=failure())
    with pytest.raises(ModelServerError):
        CALLS[call](model)
    server.asked_now()
    server.down.clear()
    assert (CALLS[call](model), server.asked_now()) == ("from a", "a")


def test_without_the_setting_no_model_rests() -> None:
    server = Server()
    model = server.fallback()
    server.down["a"] = failure()
    for _ in range(9):
        chat_of(model).say("x")
    assert server.asked_now() == "ab" * 9


def test_the_next_awake_model_is_asked() -> None:
    server = Server()
    chat = chat_of(server.fallback("abc", rest_after=1))
    server.down["b"] = server.down["a"] = failure()
    assert (chat.say("x").text, server.asked_now()) == ("from c", "abc")
    assert (chat.say("x").text, server.asked_now()) == ("from c", "c")


def test_a_call_goes_on_with_resting_models_if_all_rest() -> None:
    server = Server()
    chat = chat_of(server.fallback(rest_after=2))
    server.down["b"] = server.down["a"] = failure()
    for _ in range(2):
        with pytest.raises(ModelServerError):
            chat.say("x")
    assert server.asked_now() == "ababab"  # a rests after its second failure, and then b


def test_services_and_methods_share_what_is_known() -> None:
    server = Server()
    model = server.fallback(rest_after=2)
    server.down["a"] = failure()
    chat_of(model).say("x")
    list(chat_of(model).pieces("x"))
    server.asked_now()
    assert structured(model, str).invoke("x") == "from b"
    assert model.complete(REQUEST).text == "from b"
    assert server.asked_now() == "bb"


def test_the_result_says_who_was_skipped() -> None:
    server = Server()
    chat = chat_of(server.fallback(rest_after=2, rest_for=30))
    server.down["a"] = failure()
    first = chat.say("x")
    chat.say("x")
    skipped = [reason for reason in chat.say("x").reasons if reason not in first.reasons]
    assert skipped == ["a was skipped: it rests for 30 seconds after 2 failures in a row"]


def test_the_log_says_when_a_rest_begins_and_ends(
    caplog: pytest.LogCaptureFixture, pass_time: Callable[[float], None]
) -> None:
    server = Server()
    chat = chat_of(server.fallback(rest_after=1, rest_for=60))
    server.down["a"] = failure()
    with caplog.at_level(logging.INFO, "aiservices"):
        chat.say("x")
        server.down.clear()
        pass_time(61)
        chat.say("x")
    assert [record.getMessage() for record in caplog.records] == [
        "a rests for 60 seconds after 1 failure in a row: 500",
        "a answers again",
    ]


def test_errors_of_a_request_do_not_count() -> None:
    server = Server()
    chat = chat_of(server.fallback(rest_after=1))
    server.down["a"] = BadRequestError("400: the prompt is too long", status=400)
    chat.say("x")
    chat.say("x")
    assert server.asked_now() == "abab"
    server.down["a"] = ModelTimeoutError("late", retryable=True)
    chat.say("x")
    chat.say("x")
    assert server.asked_now() == "abb"


def test_a_refused_strategy_does_not_count() -> None:
    class Numbers(Protocol):
        def number(self, text: str) -> int: ...

    asked: list[str] = []

    def reply(request: ChatRequest) -> Any:
        asked.append(type(request.response_format).__name__)
        refused = request.response_format is not None
        return BadRequestError("response_format is not supported", status=400) if refused else "3"

    model = FallbackChatModel(ScriptedChatModel(reply), ScriptedChatModel([]), rest_after=1)
    service = create(Numbers, model)
    assert [service.number("x"), service.number("x")] == [3, 3]


def test_only_one_of_many_threads_tries_a_model_after_its_rest(pass_time: Callable[[float], None]) -> None:
    server = Server()
    model = server.fallback(rest_after=3, rest_for=60)
    server.down["a"] = failure()
    chat = chat_of(model)
    for _ in range(3):
        chat.say("x")
    server.asked_now()
    pass_time(61)
    server.seconds = 0.05
    barrier = threading.Barrier(16)

    def call(_: int) -> str:
        barrier.wait()
        return chat.say("x").text

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(call, range(16))) == {"from b"}
    assert server.asked_now().count("a") == 1


def test_failures_of_many_threads_are_all_counted() -> None:
    rest = CircuitBreaker("a", 1000, 60)
    error = failure()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: rest.failed(error), range(999)))
    assert rest.admits()
    rest.failed(error)
    assert not rest.admits()


def test_a_request_that_never_ends_does_not_lock_the_others_out(pass_time: Callable[[float], None]) -> None:
    rest = CircuitBreaker("a", 1, 60)
    rest.failed(failure())
    assert not rest.admits()
    pass_time(61)
    assert (rest.admits(), rest.admits()) == (True, False)
    pass_time(61)
    assert rest.admits()


def test_a_stream_that_breaks_counts_and_one_that_is_left_early_does_not() -> None:
    server = Server()
    model = server.fallback(rest_after=1)
    for _ in range(2):
        pieces: Any = chat_of(model).pieces("x")
        next(pieces)
        pieces.close()
    assert server.asked_now() == "aa"


def test_limits_and_rests_go_together() -> None:
    server = Server()
    server.down["a"] = failure()
    for model in (
        LimitedChatModel(server.fallback(rest_after=1)),
        FallbackChatModel(LimitedChatModel(server.model("a")), server.model("b"), rest_after=1),
        FallbackChatModel(server.fallback(rest_after=1), server.model("c")),
        FallbackChatModel(LimitedChatModel(server.fallback(rest_after=1)), server.model("c")),
    ):
        chat = chat_of(model)
        assert [chat.say("x").text, chat.say("x").text, server.asked_now()] == ["from b", "from b", "abb"]
    chat = chat_of(server.fallback(rest_after=1), limits=Limits())
    assert [chat.say("x").text, chat.say("x").text, server.asked_now()] == ["from b", "from b", "abb"]


@pytest.mark.parametrize("status", [503, 529])
@every_call
def test_the_next_model_does_not_wait_for_the_end_of_an_outage(call: str, status: int) -> None:
    server = Server()
    server.down["a"] = ModelServerError("overloaded", status=status, retryable=True)
    limits = Limits(max_wait=60)
    started = time.monotonic()
    for model in (
        FallbackChatModel(LimitedChatModel(server.model("a"), limits), server.model("b")),
        FallbackChatModel(LimitedChatModel(server.fallback(), limits)),
    ):
        assert [CALLS[call](model) for _ in range(3)] == ["from b"] * 3
    assert time.monotonic() - started < 5
    assert server.asked_now() == "ab" * 6


def test_a_limit_is_waited_for_although_there_is_another_model() -> None:
    server = Server()
    server.down["a"] = RateLimitError("429", status=429, retryable=True, retry_after=0.05)
    model = FallbackChatModel(LimitedChatModel(server.model("a"), Limits(max_wait=0.3)), server.model("b"))
    assert chat_of(model).say("x").text == "from b"
    assert server.asked_now().count("a") > 1


def test_the_last_model_waits_for_the_end_of_an_outage() -> None:
    script = [ModelServerError("503", status=503, retryable=True), "hello"]
    last = LimitedChatModel(ScriptedChatModel(script))
    model = FallbackChatModel(ScriptedChatModel([failure()]), last)
    assert len(chat_of(model).say("x").attempts) == 2


def test_a_pickled_model_has_its_settings_and_begins_awake() -> None:
    model = FallbackChatModel("fake", "fake", rest_after=1, rest_for=9)
    for rest in model.rests.values():
        rest.failed(failure())
    copy = pickle.loads(pickle.dumps(model))
    assert [rest.admits() for rest in copy.rests.values()] == [True, True]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"rest_after": 0}, "rest_after is 0; it must be a whole number above 0, or None"),
        ({"rest_after": 2.5}, "rest_after is 2.5; it must be a whole number"),
        ({"rest_for": 0}, "rest_for is 0; it must be greater than 0"),
    ],
)
def test_wrong_settings_are_definition_errors(settings: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        FallbackChatModel(ScriptedChatModel([]), **settings)
    assert str(caught.value) == f"FallbackChatModel: {problem}"
