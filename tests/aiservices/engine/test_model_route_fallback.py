"""The members of a fallback model are called one after another, within one budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer, delta as piece_of, error, sse, stream_reply

from aiservices import (
    AsyncStream,
    AttemptStarted,
    AuthenticationError,
    BadRequestError,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatModel,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionError,
    JsonObjectFormat,
    JsonSchemaFormat,
    ModelConnectionError,
    ModelServerError,
    OpenAiChatModel,
    RateLimitError,
    RefusalError,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    Stream,
    Usage,
    UserMessage,
    create,
    preview,
)
from aiservices.models.messages import AiMessage, ToolCall

PLAIN = Capabilities(json_schema=True)
TOOLS = Capabilities(tools=True)
MODE = Capabilities(json_mode=True)
NOTHING = Capabilities()
ANN = '{"name": "Ann"}'
NO_SCHEMA = "response_format of type json_schema is not supported"


@dataclass
class Person:
    name: str


class People(Protocol):
    def person(self, text: str) -> Result[Person]: ...

    async def aperson(self, text: str) -> Result[Person]: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def agrow(self, text: str) -> AsyncStream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def write(self, text: str) -> Iterator[str]: ...

    def tuned(self, text: str, options: ChatOptions) -> Result[Person]: ...


class Group:
    """A model that consists of other models and never gets a request itself."""

    name = "group"
    capabilities = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)

    def __init__(self, *members: ChatModel) -> None:
        self.members = members

    def complete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise NotImplementedError

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        raise NotImplementedError

    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        raise NotImplementedError


class RequestRecorder:
    """Members of a fallback model that record the order and the times of their requests."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.times: dict[str, list[float]] = {}

    def member(self, name: str, *script: Any, capabilities: Capabilities = PLAIN) -> ScriptedChatModel:
        """Return a member that gives these replies in turn, and then repeats the last one."""
        left = list(script)

        def reply(request: ChatRequest) -> Any:
            self.order.append(name)
            self.times.setdefault(name, []).append(time.monotonic())
            return left.pop(0) if len(left) > 1 else left[0]

        return ScriptedChatModel(reply, capabilities=capabilities, name=name)


def people(*members: ChatModel, attempts: int = 9, **budget: Any) -> People:
    return create(
        People, Group(*members), budget=Budget(**{"max_attempts": attempts, "first_wait": 0, **budget})
    )


async def result_of(stream: AsyncStream[Person]) -> Result[Person]:
    return await stream.result()


CALLS: dict[str, Callable[[People], Result[Person]]] = {
    "blocking": lambda service: service.person("x"),
    "async": lambda service: asyncio.run(service.aperson("x")),
    "stream": lambda service: service.grow("x").result(),
    "async stream": lambda service: asyncio.run(result_of(service.agrow("x"))),
}
every_kind = pytest.mark.parametrize("kind", CALLS)


def down(**settings: Any) -> ModelServerError:
    return ModelServerError("500", status=500, retryable=True, **settings)


def denied() -> AuthenticationError:
    return AuthenticationError("401", status=401)


def busy(seconds: float) -> RateLimitError:
    return RateLimitError("429", status=429, retryable=True, retry_after=seconds)


# order


@every_kind
def test_the_first_member_is_asked_as_long_as_it_answers(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", ANN), recorder.member("b", ANN))
    values = [CALLS[kind](service).value for _ in range(2)]
    assert (values, recorder.order) == ([Person("Ann")] * 2, ["a", "a"])


@every_kind
def test_the_next_member_is_asked_at_once_when_one_fails(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", busy(50)), recorder.member("b", down()), recorder.member("c", ANN))
    result = CALLS[kind](service)
    assert (result.value, result.model, recorder.order, result.seconds < 10) == (
        Person("Ann"),
        "c",
        ["a", "b", "c"],
        True,
    )
    assert [(attempt.model, str(attempt.error)) for attempt in result.attempts] == [
        ("a", "429"),
        ("b", "500"),
        ("c", "None"),
    ]


def test_each_call_begins_with_the_first_member() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down(), ANN), recorder.member("b", ANN))
    service.person("x")
    service.person("x")
    assert recorder.order == ["a", "b", "a"]


@every_kind
def test_when_all_have_failed_they_are_asked_again_in_the_same_order(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(
        recorder.member("a", down()), recorder.member("b", down()), recorder.member("c", down()), attempts=8
    )
    with pytest.raises(ModelServerError):
        CALLS[kind](service)
    assert recorder.order == ["a", "b", "c", "a", "b", "c", "a", "b"]


def test_the_order_of_a_round_is_not_left_to_chance() -> None:
    for _ in range(12):
        recorder = RequestRecorder()
        service = people(
            recorder.member("a", down()), recorder.member("b", down()), attempts=4, first_wait=0.002
        )
        with pytest.raises(ModelServerError):
            service.person("x")
        assert recorder.order == ["a", "b", "a", "b"]


def test_a_group_of_one_is_that_one() -> None:
    recorder = RequestRecorder()
    assert (people(recorder.member("a", down(), ANN)).person("x").value, recorder.order) == (
        Person("Ann"),
        ["a", "a"],
    )


def test_a_group_without_members_is_asked_itself() -> None:
    with pytest.raises(NotImplementedError):
        people().person("x")


def test_the_plan_and_the_preview_show_the_first_member() -> None:
    service = people(ScriptedChatModel([], name="a"), ScriptedChatModel([], name="b"))
    assert preview(service.person, "x").model == "a"


def test_events_tell_which_member_is_asked_in_which_way() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", ANN, capabilities=NOTHING))
    told = [event for event in service.grow("x").events() if isinstance(event, AttemptStarted)]
    assert [(event.number, event.model, event.strategy) for event in told] == [
        (1, "a", Strategy.JSON_SCHEMA),
        (2, "b", Strategy.PROMPT),
    ]


# what will not pass


@every_kind
def test_a_member_whose_error_will_not_pass_is_asked_once(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", denied()), recorder.member("b", down()), attempts=5)
    with pytest.raises(ModelServerError):
        CALLS[kind](service)
    assert recorder.order == ["a", "b", "b", "b", "b"]


def test_the_last_error_is_raised_when_none_can_be_asked_any_more() -> None:
    recorder = RequestRecorder()
    with pytest.raises(BadRequestError) as caught:
        people(
            recorder.member("a", denied()), recorder.member("b", BadRequestError("400", status=400))
        ).person("x")
    assert ([str(attempt.error) for attempt in caught.value.attempts], recorder.order) == (
        ["401", "400"],
        ["a", "b"],
    )


def test_a_member_that_asks_to_wait_for_more_than_a_minute_is_not_waited_for() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", busy(61)), recorder.member("b", down(), ANN))
    assert (service.person("x").value, recorder.order) == (Person("Ann"), ["a", "b", "b"])


@every_kind
def test_a_member_that_was_dropped_stays_so_when_the_answer_is_asked_for_again(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", denied()), recorder.member("b", "{}", ANN), attempts=3)
    assert (CALLS[kind](service).value, recorder.order) == (Person("Ann"), ["a", "b", "b"])


@every_kind
def test_an_answer_that_cannot_be_read_is_asked_of_the_member_that_gave_it(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", "{}", ANN), attempts=3)
    assert (CALLS[kind](service).value, recorder.order) == (Person("Ann"), ["a", "b", "b"])


def test_an_answer_that_was_refused_is_not_asked_of_the_next_member() -> None:
    recorder = RequestRecorder()
    refusing = recorder.member("a", ChatReply(AiMessage(""), refusal="No."))
    with pytest.raises(RefusalError):
        people(refusing, recorder.member("b", ANN)).person("x")
    assert recorder.order == ["a"]


def test_another_error_is_not_hidden_by_the_next_member() -> None:
    recorder = RequestRecorder()
    with pytest.raises(ZeroDivisionError):
        people(recorder.member("a", ZeroDivisionError()), recorder.member("b", ANN)).person("x")
    assert recorder.order == ["a"]


# waits


def waits_of(monkeypatch: pytest.MonkeyPatch, *members: ChatModel, **budget: Any) -> list[float]:
    """Return the waits in seconds until a member answers or no member is left."""
    waits: list[float] = []
    clock = time.monotonic
    monkeypatch.setattr("aiservices.engine.drivers.time.sleep", waits.append)
    monkeypatch.setattr("aiservices.engine.request_loop.time.monotonic", lambda: clock() + sum(waits))
    try:
        people(*members, **budget).person("x")
    except ModelServerError:
        pass
    return [wait for wait in waits if wait > 0.1]  # the requests themselves take less time


def test_only_after_a_whole_round_is_there_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = RequestRecorder()
    waits = waits_of(monkeypatch, recorder.member("a", busy(3), ANN), recorder.member("b", busy(7)))
    assert ([round(wait) for wait in waits], recorder.order) == ([3], ["a", "b", "a"])


def test_the_wait_is_that_of_the_member_that_is_ready_first(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = RequestRecorder()
    waits = waits_of(monkeypatch, recorder.member("a", busy(7)), recorder.member("b", busy(3), ANN))
    assert ([round(wait) for wait in waits], recorder.order) == ([3], ["a", "b", "b"])


def test_waits_grow_with_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = RequestRecorder()
    waits = waits_of(
        monkeypatch, recorder.member("a", down()), recorder.member("b", down()), attempts=6, first_wait=4.0
    )
    assert len(waits) == 2
    assert 2.9 <= waits[0] <= 4.0
    assert 5.9 <= waits[1] <= 8.0


@every_kind
def test_no_member_is_asked_before_the_time_that_it_asked_for(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", busy(0.2)), recorder.member("b", busy(0.05)), attempts=6)
    with pytest.raises(RateLimitError):
        CALLS[kind](service)
    for name, seconds in (("a", 0.2), ("b", 0.05)):
        for before, after in pairwise(recorder.times[name]):
            assert after - before >= seconds - 0.005, recorder.order


# one budget


@every_kind
@pytest.mark.parametrize("attempts", [1, 2, 3, 7])
def test_one_budget_spans_all_members(kind: str, attempts: int) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", down()), attempts=attempts)
    with pytest.raises(ModelServerError) as caught:
        CALLS[kind](service)
    assert (len(recorder.order), len(caught.value.attempts)) == (attempts, attempts)


@every_kind
def test_bad_answers_and_failures_of_all_members_share_the_budget(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", "none"), attempts=4)
    with pytest.raises((ServiceOutputError, ModelServerError)):
        CALLS[kind](service)
    assert len(recorder.order) == 4


def test_tokens_of_all_members_are_added_up() -> None:
    recorder = RequestRecorder()

    def used(text: str, tokens: int) -> ChatReply:
        return ChatReply(AiMessage(text), usage=Usage(tokens, tokens))

    service = people(
        recorder.member("a", used("none", 4), down()), recorder.member("b", used(ANN, 2)), tokens=100
    )
    assert service.person("x").usage == Usage(6, 6)


def test_the_seconds_of_the_budget_hold_for_all_members() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", busy(30)), recorder.member("b", busy(30)), seconds=5)
    with pytest.raises(RateLimitError):
        service.person("x")
    assert recorder.order == ["a", "b"]


def test_no_member_is_asked_after_the_seconds_of_the_budget() -> None:
    def slow(request: ChatRequest) -> Exception:
        time.sleep(0.06)
        return down()

    recorder = RequestRecorder()
    service = people(ScriptedChatModel(slow, name="a"), recorder.member("b", ANN), seconds=0.05)
    with pytest.raises(BudgetExceededError) as caught:
        service.person("x")
    assert (caught.value.limit, recorder.order, str(caught.value.__cause__)) == ("seconds", [], "500")


# each in its own way


@pytest.mark.parametrize(
    ("capabilities", "strategy", "reply"),
    [
        (PLAIN, Strategy.JSON_SCHEMA, ANN),
        (TOOLS, Strategy.OUTPUT_TOOL, ChatReply(AiMessage("", (ToolCall("c", "Person", ANN),)))),
        (MODE, Strategy.JSON_MODE, ANN),
        (NOTHING, Strategy.PROMPT, ANN),
    ],
)
@every_kind
def test_each_member_is_asked_in_its_own_strategy(
    kind: str, capabilities: Capabilities, strategy: Strategy, reply: Any
) -> None:
    recorder = RequestRecorder()
    other = MODE if capabilities is not MODE else PLAIN
    service = people(
        recorder.member("a", down(), capabilities=other),
        recorder.member("b", reply, capabilities=capabilities),
    )
    result = CALLS[kind](service)
    assert (result.value, result.strategy, [attempt.strategy for attempt in result.attempts][1]) == (
        Person("Ann"),
        strategy,
        strategy,
    )


def test_the_capabilities_of_a_fallback_model_are_ignored() -> None:
    model = ScriptedChatModel([ANN], capabilities=MODE)
    people(model).person("x")
    assert isinstance(model.requests[0].response_format, JsonObjectFormat)


def test_a_member_gets_nothing_of_the_way_in_which_another_was_asked() -> None:
    first = ScriptedChatModel([down()], capabilities=NOTHING, name="a")
    second = ScriptedChatModel([ANN], capabilities=PLAIN, name="b")
    people(first, second).person("x")
    assert first.requests[0].response_format is None
    assert isinstance(second.requests[0].response_format, JsonSchemaFormat)
    assert second.requests[0].messages == (UserMessage("x"),)


def test_a_strategy_that_one_member_lacks_is_a_problem_of_the_declaration() -> None:
    members = (ScriptedChatModel([], name="a"), ScriptedChatModel([], name="b", capabilities=NOTHING))
    with pytest.raises(DefinitionError) as caught:
        create(People, Group(*members), strategy="json_mode")
    said = "b does not support the strategy json_mode; its capabilities: none"
    assert caught.value.problems[0].message == said


def refusing(recorder: RequestRecorder, name: str) -> ScriptedChatModel:
    """Return a member that refuses JSON Schema."""

    def reply(request: ChatRequest) -> Any:
        recorder.order.append(f"{name} {'schema' if request.response_format else 'tool'}")
        if request.response_format is not None:
            return BadRequestError(NO_SCHEMA, status=400)
        return ChatReply(AiMessage("", (ToolCall("c", "Person", ANN),)))

    return ScriptedChatModel(reply, capabilities=Capabilities(json_schema=True, tools=True), name=name)


@every_kind
def test_a_member_that_refuses_a_strategy_is_asked_in_another_before_the_next_member(kind: str) -> None:
    recorder = RequestRecorder()
    service = people(refusing(recorder, "a"), recorder.member("b", ANN))
    result = CALLS[kind](service)
    assert (result.value, recorder.order) == (Person("Ann"), ["a schema", "a tool"])


def test_the_refusal_of_one_member_does_not_count_for_another() -> None:
    recorder = RequestRecorder()
    model = refusing(recorder, "a")
    people(model, refusing(recorder, "b")).person("x")
    people(down_once(recorder), refusing(recorder, "b")).person("x")
    assert recorder.order == ["a schema", "a tool", "c", "b schema", "b tool"]


def down_once(recorder: RequestRecorder) -> ScriptedChatModel:
    return recorder.member("c", down())


def test_a_refusal_is_remembered_although_the_member_failed_in_between() -> None:
    recorder = RequestRecorder()
    called = ChatReply(AiMessage("", (ToolCall("c", "Person", ANN),)))
    replies: list[Any] = [BadRequestError(NO_SCHEMA, status=400), down(), called, called]
    sent: list[str] = []

    def reply(request: ChatRequest) -> Any:
        sent.append("schema" if request.response_format else "tool")
        return replies.pop(0)

    model = ScriptedChatModel(reply, capabilities=Capabilities(json_schema=True, tools=True), name="a")
    assert people(model, recorder.member("b", down())).person("x").value == Person("Ann")
    assert sent == ["schema", "tool", "tool"]


def test_another_model_in_the_options_is_for_the_member_that_has_it_only() -> None:
    """``ChatOptions.model`` names another model of the same provider, and members may be of several."""
    first = ScriptedChatModel([down()], capabilities=PLAIN, name="openai:a")
    second = ScriptedChatModel([ANN], capabilities=PLAIN, name="ollama:b")
    people(first, second).tuned("x", ChatOptions(model="a-small"))
    assert [model.requests[0].options.model for model in (first, second)] == ["a-small", None]


# streams


def test_text_that_was_yielded_is_not_started_over_by_the_next_member() -> None:
    class Breaking(ScriptedChatModel):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            yield ReplyDelta("to ")
            raise ModelConnectionError("it broke", retryable=True)

    recorder = RequestRecorder()
    given: list[str] = []
    with pytest.raises(ModelConnectionError):
        given.extend(people(Breaking([], name="a"), recorder.member("b", "to be")).write("x"))
    assert (given, recorder.order) == (["to "], [])


def test_text_is_written_by_the_next_member_while_none_was_yielded() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", "to be"))
    assert (list(service.write("x")), recorder.order) == (["to ", "be"], ["a", "b"])


def test_items_come_from_the_next_member_while_none_was_yielded() -> None:
    recorder = RequestRecorder()
    service = people(recorder.member("a", down()), recorder.member("b", f'{{"value": [{ANN}]}}'))
    assert (list(service.each("x")), recorder.order) == ([Person("Ann")], ["a", "b"])


def test_snapshots_start_over_with_the_next_member() -> None:
    class Breaking(ScriptedChatModel):
        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            yield ReplyDelta('{"name": "Zo')
            raise ModelConnectionError("it broke", retryable=True)

    recorder = RequestRecorder()
    service = people(Breaking([], name="a", capabilities=PLAIN), recorder.member("b", ANN))
    shown = [snapshot.to_python() for snapshot in service.grow("x")]
    assert (shown[0], shown[1], shown[-1]) == ({"name": "Zo"}, {}, {"name": "Ann"})


# over HTTP


@pytest.fixture
def other() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def over_http(server: Loopback, name: str) -> OpenAiChatModel:
    return OpenAiChatModel(name, base_url=server.base_url, api_key="k", capabilities=PLAIN)


@every_kind
@pytest.mark.parametrize(("attempts", "first", "second"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (6, 3, 3)])
def test_two_servers_that_fail_for_ever_get_exactly_the_budget(
    loopback: Loopback, other: Loopback, kind: str, attempts: int, first: int, second: int
) -> None:
    loopback.reply(error(500, "boom"))
    other.reply(error(503, "boom"))
    members = over_http(loopback, "a"), over_http(other, "b")
    with pytest.raises(ModelServerError) as caught:
        CALLS[kind](people(*members, attempts=attempts))
    for model in members:
        model.close()
    assert (len(loopback.requests), len(other.requests), len(caught.value.attempts)) == (
        first,
        second,
        attempts,
    )


@every_kind
def test_a_server_that_accepts_no_key_costs_one_request(
    loopback: Loopback, other: Loopback, kind: str
) -> None:
    loopback.reply(error(401, "no key"))
    other.reply(
        error(500, "boom"), error(500, "boom"), stream_reply([ANN]) if "stream" in kind else answer(ANN)
    )
    members = over_http(loopback, "a"), over_http(other, "b")
    result = CALLS[kind](people(*members))
    for model in members:
        model.close()
    assert (result.value, len(loopback.requests), len(other.requests)) == (Person("Ann"), 1, 3)


@pytest.mark.parametrize("kind", ["stream", "async stream"])
def test_a_stream_that_one_server_cuts_is_written_by_the_other(
    loopback: Loopback, other: Loopback, kind: str
) -> None:
    loopback.reply(sse(piece_of(content='{"name": "Zo'), cut_off=True))
    other.reply(stream_reply([ANN]))
    members = over_http(loopback, "a"), over_http(other, "b")
    result = CALLS[kind](people(*members))
    for model in members:
        model.close()
    assert (result.value, len(loopback.requests), len(other.requests)) == (Person("Ann"), 1, 1)
