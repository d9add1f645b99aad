"""If a provider refuses a strategy, the next one is used, and the refusal is remembered."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from growth import MAX_GROWTH, growth
from loopback import Loopback, ReceivedRequest, Reply, answer, error

from aiservices import (
    AiMessage,
    AsyncStream,
    BadRequestError,
    Budget,
    Capabilities,
    ChatModel,
    ChatOptions,
    ChatReply,
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    OpenAiChatModel,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Strategy,
    Stream,
    ToolCall,
    create,
    preview,
)
from aiservices.engine.model_route import ModelRoute
from aiservices.engine.strategy_selection import select_strategies
from output_parsers import parser_for

ALL = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
TOOLS = Capabilities(json_mode=True, tools=True)
AT_ONCE = Budget(max_attempts=9, first_wait=0)
ANN = '{"name": "Ann"}'
NO_SCHEMA = "response_format of type json_schema is not supported"
NO_TOOLS = "tools are not supported"
NO_MODE = "json_object is not supported"
BAD_SCHEMA = "Invalid schema for response_format 'Person'"
BAD_TOOL = "Invalid schema for function 'Person'"


@dataclass
class Person:
    name: str


@dataclass
class Place:
    name: str


class People(Protocol):
    def person(self, text: str) -> Result[Person]: ...

    def place(self, text: str) -> Result[Place]: ...

    async def aperson(self, text: str) -> Result[Person]: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def agrow(self, text: str) -> AsyncStream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def aeach(self, text: str) -> AsyncIterator[Person]: ...

    def tuned(self, text: str, options: ChatOptions) -> Result[Person]: ...


def strategy_option_of(request: ChatRequest) -> str:
    """Return the strategy option of a request as a provider recognizes it."""
    if request.tooling is not None:
        return "strict tool" if request.tooling.tools[0].strict else "tool"
    form = request.response_format
    if isinstance(form, JsonSchemaFormat):
        return "strict schema" if form.strict else "schema"
    return "mode" if isinstance(form, JsonObjectFormat) else "prompt"


def replied(request: ChatRequest, text: str = ANN) -> ChatReply:
    if request.tooling is not None:
        return ChatReply(AiMessage("", (ToolCall("c", request.tooling.choice, text),)))
    return ChatReply(AiMessage(text))


def refusal(message: str, status: int = 400, body: str | None = None) -> BadRequestError:
    return BadRequestError(message, status=status, body=body)


class Refusing:
    """A provider that refuses some strategies, each with its own error message."""

    def __init__(self, text: str = ANN, **refused: str) -> None:
        self.refused = {name.replace("_", " "): said for name, said in refused.items()}
        self.text = text
        self.model = ScriptedChatModel(self.answer, capabilities=ALL)

    def answer(self, request: ChatRequest) -> ChatReply | Exception:
        said = self.refused.get(strategy_option_of(request))
        return replied(request, self.text) if said is None else refusal(said, body=said)

    @property
    def requested_options(self) -> list[str]:
        return [strategy_option_of(request) for request in self.model.requests]


def no_schema() -> Refusing:
    return Refusing(strict_schema=NO_SCHEMA, schema=NO_SCHEMA)


def people(model: ChatModel, budget: Budget = AT_ONCE) -> People:
    return create(People, model, budget=budget)


def test_a_provider_that_refuses_schemas_is_asked_by_a_tool() -> None:
    provider = no_schema()
    result = people(provider.model).person("x")
    assert (result.value, result.strategy, provider.requested_options) == (
        Person("Ann"),
        Strategy.OUTPUT_TOOL,
        ["strict schema", "strict tool"],
    )


def test_the_result_has_the_refusal_and_both_attempts() -> None:
    result = people(no_schema().model).person("x")
    assert result.reasons == (
        f"the provider refused json_schema in strict mode: {NO_SCHEMA}",
        "scripted calls tools",
    )
    assert [(attempt.strategy, str(attempt.error)) for attempt in result.attempts] == [
        (Strategy.JSON_SCHEMA, NO_SCHEMA),
        (Strategy.OUTPUT_TOOL, "None"),
    ]


def test_the_same_step_is_taken_in_every_kind_of_call() -> None:
    async def awaited(service: People) -> Result[Person]:
        return await service.aperson("x")

    async def streamed(service: People) -> Result[Person]:
        return await service.agrow("x").result()

    told = []
    for call in (
        lambda service: service.person("x"),
        lambda service: asyncio.run(awaited(service)),
        lambda service: service.grow("x").result(),
        lambda service: asyncio.run(streamed(service)),
    ):
        provider = no_schema()
        result = call(people(provider.model))
        told.append((result.value, result.strategy, provider.requested_options))
    assert told == [(Person("Ann"), Strategy.OUTPUT_TOOL, ["strict schema", "strict tool"])] * 4


def test_items_are_read_from_whatever_option_was_accepted() -> None:
    provider = Refusing(f'{{"value": [{ANN}, {ANN}]}}', strict_schema=NO_SCHEMA, schema=NO_SCHEMA)
    service = people(provider.model)

    async def collected() -> list[Person]:
        return [person async for person in service.aeach("x")]

    assert (list(service.each("x")), asyncio.run(collected())) == ([Person("Ann")] * 2,) * 2
    assert provider.requested_options == ["strict schema", "strict tool", "strict tool"]


def test_a_refusal_of_strictness_steps_down_to_the_same_without_it() -> None:
    provider = Refusing(strict_schema="response_format.json_schema.strict is unknown")
    result = people(provider.model).person("x")
    assert (result.strategy, provider.requested_options) == (
        Strategy.JSON_SCHEMA,
        ["strict schema", "schema"],
    )


def test_a_refusal_of_one_schema_steps_down_to_the_same_without_strictness() -> None:
    provider = Refusing(strict_schema=BAD_SCHEMA)
    people(provider.model).person("x")
    assert provider.requested_options == ["strict schema", "schema"]


def test_a_provider_that_refuses_everything_else_is_asked_by_the_prompt() -> None:
    provider = Refusing(
        strict_schema=NO_SCHEMA, schema=NO_SCHEMA, strict_tool=NO_TOOLS, tool=NO_TOOLS, mode=NO_MODE
    )
    result = people(provider.model).person("x")
    assert (result.strategy, provider.requested_options) == (
        Strategy.PROMPT,
        ["strict schema", "strict tool", "mode", "prompt"],
    )
    assert result.reasons == (
        f"the provider refused json_mode: {NO_MODE}",
        "every model understands a prompt",
    )


def test_a_refusal_of_the_last_option_is_the_error() -> None:
    provider = Refusing(
        strict_schema=NO_SCHEMA,
        schema=NO_SCHEMA,
        strict_tool=NO_TOOLS,
        tool=NO_TOOLS,
        mode=NO_MODE,
        prompt="the schema of your words is not supported",
    )
    with pytest.raises(BadRequestError) as caught:
        people(provider.model).person("x")
    assert (str(caught.value), len(caught.value.attempts)) == ("the schema of your words is not supported", 4)


def test_refused_requests_do_not_use_up_the_attempts() -> None:
    provider = Refusing(
        strict_schema=NO_SCHEMA, schema=NO_SCHEMA, strict_tool=NO_TOOLS, tool=NO_TOOLS, mode=NO_MODE
    )
    result = people(provider.model, Budget(max_attempts=1)).person("x")
    assert (result.value, result.strategy) == (Person("Ann"), Strategy.PROMPT)
    purposes = [attempt.purpose.value for attempt in result.attempts]
    assert purposes == ["refused", "refused", "refused", "answer"]


def test_a_router_without_a_server_for_the_strategy_refuses_it_with_404() -> None:
    def reply(request: ChatRequest) -> ChatReply | Exception:
        if request.tooling is None and request.response_format is None:
            return ChatReply(AiMessage(ANN))
        message = "No endpoints found that can handle the requested parameters."
        return ModelNotFoundError(message, status=404, body=json.dumps({"error": {"message": message}}))

    service = people(ScriptedChatModel(reply, capabilities=ALL))
    assert [service.person("x").strategy for _ in range(2)] == [Strategy.PROMPT] * 2


def test_refused_requests_count_as_requests_of_the_budget() -> None:
    provider = Refusing(strict_schema=NO_SCHEMA, schema=NO_SCHEMA, strict_tool=NO_TOOLS, tool=NO_TOOLS)
    with pytest.raises(BadRequestError) as caught:
        people(provider.model, Budget(requests=2)).person("x")
    assert (str(caught.value), provider.requested_options) == (NO_TOOLS, ["strict schema", "strict tool"])


@pytest.mark.parametrize(
    "message",
    [
        "json mode cannot be combined with tool/function calling",
        "Function calling with a response mime type: 'application/json' is unsupported",
        "these two cannot be combined",
        "Bad Request",
        "",
    ],
)
def test_a_refused_combination_with_tools_is_left_and_remembered_for_the_method(message: str) -> None:
    def look(word: str) -> str:
        return word

    def reply(request: ChatRequest) -> ChatReply | Exception:
        if request.tooling is not None and request.response_format is not None:
            return BadRequestError(message, status=400, body=f'{{"error": {{"message": "{message}"}}}}')
        return ChatReply(AiMessage(ANN))

    model = ScriptedChatModel(reply, capabilities=ALL)
    service = create(People, model, tools=[look], budget=Budget(max_attempts=1))
    assert [service.person("x").value, service.person("x").value] == [Person("Ann")] * 2
    assert model.requests[-1].response_format is None
    first_call = [request for request in model.requests if request.response_format is not None]
    create(People, model).person("x")  # without tools, the schema is still sent
    assert (len(first_call), strategy_option_of(model.requests[-1])) == (
        len(model.requests) - 3,
        "strict schema",
    )


def test_a_request_that_is_refused_for_an_unnamed_reason_is_sent_with_a_simpler_strategy() -> None:
    provider = Refusing(strict_schema="Bad Request")
    service = people(provider.model, Budget(max_attempts=1))
    assert [service.person("x").value, service.person("x").value] == [Person("Ann")] * 2
    service.place("x")  # nothing says that other methods are refused
    assert provider.requested_options == [
        "strict schema",
        *["strict tool"] * 2,
        "strict schema",
        "strict tool",
    ]


def test_nothing_is_learnt_from_a_prompt_that_is_refused_with_each_strategy() -> None:
    prompt = "response_format is unsupported, tools are unsupported, json_object is unsupported"

    def reply(request: ChatRequest) -> ChatReply | Exception:
        text = request.messages[-1].text
        if "unsupported" in text:
            return BadRequestError("400", status=400, body=f'{{"error": {{"message": "bad: {prompt}"}}}}')
        return replied(request)

    model = ScriptedChatModel(reply, capabilities=ALL)
    service = people(model)
    with pytest.raises(BadRequestError):
        service.person(prompt)
    service.person("x")
    assert strategy_option_of(model.requests[-1]) == "strict schema"


def test_an_error_that_comes_with_each_strategy_is_sent_once_from_then_on() -> None:
    model = ScriptedChatModel(lambda request: refusal("Bad Request", body=""), capabilities=ALL)
    service, made = people(model), []
    for _ in range(2):
        with pytest.raises(BadRequestError):
            service.person("x")
        made.append(len(model.requests))
    assert made == [4, 5]


def test_words_of_the_prompt_in_an_error_do_not_name_a_strategy_for_other_methods() -> None:
    provider = Refusing(strict_schema="invalid request: response_format is unsupported, says Ann")
    service = people(provider.model)
    service.person("Ann: response_format is unsupported, says Ann")
    service.place("x")
    assert provider.requested_options == ["strict schema", "strict tool"] * 2


def test_a_strategy_that_was_asked_for_is_not_left() -> None:
    provider = no_schema()
    service = create(People, provider.model, strategy="json_schema", budget=AT_ONCE)
    with pytest.raises(BadRequestError) as caught:
        service.person("x")
    assert (str(caught.value), provider.requested_options) == (NO_SCHEMA, ["strict schema"])


def test_a_strategy_that_was_asked_for_gives_up_strictness_where_that_is_refused() -> None:
    provider = Refusing(strict_schema="strict is unknown")
    service = create(People, provider.model, strategy="json_schema", budget=AT_ONCE)
    assert (service.person("x").value, provider.requested_options) == (
        Person("Ann"),
        ["strict schema", "schema"],
    )


@pytest.mark.parametrize("status", [400, 404, 405, 415, 422, 501])
def test_these_statuses_may_be_a_refusal(status: int) -> None:
    model = ScriptedChatModel([refusal(NO_SCHEMA, status), replied_by_tool()], capabilities=ALL)
    assert people(model).person("x").strategy is Strategy.OUTPUT_TOOL


def replied_by_tool() -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("c", "Person", ANN),)))


@pytest.mark.parametrize("status", [None, 401, 403, 409, 413])
def test_other_statuses_are_not_refusals(status: int | None) -> None:
    model = ScriptedChatModel([BadRequestError(NO_SCHEMA, status=status)], capabilities=ALL)
    with pytest.raises(BadRequestError):
        people(model).person("x")
    assert len(model.requests) == 1


def test_a_bad_request_about_something_else_is_not_a_refusal() -> None:
    provider = Refusing(strict_schema="temperature must not exceed 2")
    with pytest.raises(BadRequestError) as caught:
        people(provider.model).person("x")
    assert (str(caught.value), provider.requested_options) == (
        "temperature must not exceed 2",
        ["strict schema"],
    )


def test_what_is_refused_may_stand_in_the_body_only() -> None:
    model = ScriptedChatModel(
        [BadRequestError("400", status=400, body=f'{{"error": "{NO_SCHEMA}"}}'), replied_by_tool()],
        capabilities=ALL,
    )
    assert people(model).person("x").value == Person("Ann")


def test_too_long_a_conversation_is_not_a_refusal_of_tools() -> None:
    said = (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8200 tokens "
        "(8000 in the messages, 200 in the functions). Please reduce the length of the messages or functions."
    )
    body = '{"error": {"code": "context_length_exceeded"}}'
    model = ScriptedChatModel([BadRequestError(said, status=400, body=body)] * 9, capabilities=TOOLS)
    with pytest.raises(BadRequestError):
        people(model).person("x")
    assert len(model.requests) == 1


def test_a_long_refusal_is_shortened_in_the_reasons() -> None:
    provider = Refusing(strict_schema=f"{NO_SCHEMA}:\n  " + "x" * 500, schema=NO_SCHEMA)
    (first, _) = people(provider.model).person("x").reasons
    told = first.removeprefix("the provider refused json_schema in strict mode: ")
    assert (len(told), told[:60], told[-1]) == (200, (f"{NO_SCHEMA}: " + "x" * 60)[:60], "…")


def test_a_type_that_goes_without_strict_mode_is_not_sent_twice_in_the_same_way() -> None:
    class Counts(Protocol):
        def counts(self, text: str) -> Stream[dict[str, int]]: ...

    replies: list[ChatReply | Exception] = [
        refusal(BAD_SCHEMA),
        refusal(BAD_TOOL),
        ChatReply(AiMessage('{"a": 1}')),
    ]
    model = ScriptedChatModel(replies, capabilities=ALL)
    assert create(Counts, model, budget=AT_ONCE).counts("x").result().value == {"a": 1}
    assert [strategy_option_of(request) for request in model.requests] == ["schema", "tool", "mode"]


# the remembered refusals


def test_the_next_call_begins_where_the_last_one_was_accepted() -> None:
    provider = no_schema()
    service = people(provider.model)
    service.person("x")
    result = service.person("x")
    assert (result.reasons, len(result.attempts), provider.requested_options[2:]) == (
        (f"the provider refused json_schema in strict mode: {NO_SCHEMA}", "scripted calls tools"),
        1,
        ["strict tool"],
    )


def test_the_refusal_of_a_model_applies_to_all_its_methods_and_services() -> None:
    provider = no_schema()
    people(provider.model).person("x")
    people(provider.model).place("x")
    people(provider.model).grow("x").result()
    assert provider.requested_options == ["strict schema", "strict tool", "strict tool", "strict tool"]


def test_the_refusal_of_one_model_does_not_count_for_another() -> None:
    people(no_schema().model).person("x")
    other = Refusing()
    people(other.model).person("x")
    assert other.requested_options == ["strict schema"]


def test_a_schema_that_was_refused_is_remembered_for_its_method_only() -> None:
    provider = Refusing(strict_schema=BAD_SCHEMA)
    service = people(provider.model)
    service.person("x")
    service.person("x")
    assert provider.requested_options == ["strict schema", "schema", "schema"]
    provider.refused.clear()
    service.place("x")
    assert provider.requested_options[3:] == ["strict schema"]


def test_refusing_tools_after_a_bad_schema_is_not_refusing_schemas() -> None:
    provider = Refusing(strict_schema=BAD_SCHEMA, schema=BAD_SCHEMA, strict_tool=NO_TOOLS, tool=NO_TOOLS)
    service = people(provider.model)
    assert service.person("x").strategy is Strategy.JSON_MODE
    provider.refused = {"strict tool": NO_TOOLS, "tool": NO_TOOLS}
    assert service.place("x").strategy is Strategy.JSON_SCHEMA
    assert service.person("x").strategy is Strategy.JSON_MODE


def test_a_bad_tool_after_refusing_schemas_is_still_refusing_schemas() -> None:
    provider = Refusing(strict_schema=NO_SCHEMA, schema=NO_SCHEMA, strict_tool=BAD_TOOL)
    service = people(provider.model)
    service.person("x")
    provider.refused.pop("strict tool")
    service.place("x")
    assert provider.requested_options == ["strict schema", "strict tool", "tool", "strict tool"]


def test_a_refusal_is_kept_although_the_call_fails() -> None:
    replies: list[ChatReply | Exception] = [
        refusal(NO_SCHEMA),
        BadRequestError("no money", status=402),
        replied_by_tool(),
        ChatReply(AiMessage("", (ToolCall("c", "Place", ANN),))),
    ]
    model = ScriptedChatModel(replies, capabilities=ALL)
    service = people(model)
    with pytest.raises(BadRequestError, match="no money"):
        service.person("x")
    service.person("x")
    assert [strategy_option_of(request) for request in model.requests] == [
        "strict schema",
        "strict tool",
        "strict tool",
    ]
    service.place("x")  # the success has confirmed it for all methods
    assert strategy_option_of(model.requests[-1]) == "strict tool"


def test_nothing_is_kept_if_all_strategies_are_refused() -> None:
    model = ScriptedChatModel([refusal(NO_SCHEMA)] * 2 + [refusal(NO_TOOLS)] * 9, capabilities=ALL)
    service = people(model)
    with pytest.raises(BadRequestError):
        service.person("x")
    made = len(model.requests)
    with pytest.raises(BadRequestError):
        service.person("x")
    assert strategy_option_of(model.requests[made]) == "strict schema"


def test_a_option_that_was_accepted_is_remembered_though_its_reply_cannot_be_read() -> None:
    provider = Refusing("[]", strict_schema=NO_SCHEMA, schema=NO_SCHEMA)
    with pytest.raises(Exception, match="cannot read the reply"):
        people(provider.model, Budget(max_attempts=3)).person("x")
    assert provider.requested_options == ["strict schema", *["strict tool"] * 3]


def test_a_request_that_fails_on_a_lower_option_is_made_again_on_it() -> None:
    model = ScriptedChatModel(
        [refusal(NO_SCHEMA), ModelServerError("500", status=500, retryable=True), replied_by_tool()],
        capabilities=ALL,
    )
    result = people(model, Budget(max_attempts=3, first_wait=0)).person("x")
    assert [strategy_option_of(request) for request in model.requests] == [
        "strict schema",
        "strict tool",
        "strict tool",
    ]
    assert result.value == Person("Ann")


def test_a_refusal_that_comes_while_another_call_has_learnt_of_it_is_still_one() -> None:
    class Slow:
        """Refuses the first call after the second has started, and the second after the first is done."""

        name = "slow"
        capabilities = ALL

        def __init__(self) -> None:
            self.requested_options: list[str] = []
            self.second, self.learnt = asyncio.Event(), asyncio.Event()

        async def acomplete(self, request: ChatRequest) -> ChatReply:
            self.requested_options.append(strategy_option_of(request))
            if request.tooling is not None:
                return replied(request)
            if len(self.requested_options) == 1:
                await self.second.wait()
            else:
                self.second.set()
                await self.learnt.wait()
            raise refusal(NO_SCHEMA)

        def complete(self, request: ChatRequest) -> ChatReply:
            raise NotImplementedError

        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            raise NotImplementedError

        def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
            raise NotImplementedError

    async def both() -> list[Result[Person]]:
        model = Slow()
        service = people(model)

        async def first() -> Result[Person]:
            result = await service.aperson("x")
            model.learnt.set()
            return result

        return list(await asyncio.gather(first(), service.aperson("x")))

    assert [result.value for result in asyncio.run(both())] == [Person("Ann")] * 2


SMALL = ChatOptions(model="small")


def test_the_refusal_of_another_model_at_the_address_does_not_count() -> None:
    provider = no_schema()
    service = people(provider.model)
    service.tuned("x", SMALL)
    provider.refused.clear()
    service.tuned("x", ChatOptions())
    service.tuned("x", SMALL)
    assert provider.requested_options == ["strict schema", "strict tool", "strict schema", "strict tool"]


def test_a_schema_that_another_model_refused_is_still_sent() -> None:
    provider = Refusing(strict_schema=BAD_SCHEMA)
    service = people(provider.model)
    service.tuned("x", SMALL)
    provider.refused.clear()
    service.tuned("x", ChatOptions())
    service.tuned("x", SMALL)
    assert provider.requested_options == ["strict schema", "schema", "strict schema", "schema"]


def test_the_preview_shows_the_option_that_would_be_asked_now() -> None:
    provider = no_schema()
    service = people(provider.model)
    before = preview(service.person, "x")
    service.person("x")
    after = preview(service.person, "x")
    assert (before.strategy, after.strategy, after.reasons[0]) == (
        Strategy.JSON_SCHEMA,
        Strategy.OUTPUT_TOOL,
        f"the provider refused json_schema in strict mode: {NO_SCHEMA}",
    )


def test_what_is_remembered_of_a_model_goes_with_it() -> None:
    from aiservices.engine import model_route as route

    gc.collect()
    before = len(route._BY_MODEL)
    people(no_schema().model).person("x")
    gc.collect()
    assert len(route._BY_MODEL) == before


def test_refusals_of_a_model_without_weak_references_are_not_shared() -> None:
    class Slotted:
        __slots__ = ("requests",)
        name = "slotted"
        capabilities = ALL

        def __init__(self) -> None:
            self.requests: list[str] = []

        def complete(self, request: ChatRequest) -> ChatReply:
            self.requests.append(strategy_option_of(request))
            if request.tooling is None:
                raise refusal(NO_SCHEMA)
            return replied(request)

        async def acomplete(self, request: ChatRequest) -> ChatReply:
            raise NotImplementedError

        def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
            raise NotImplementedError

        def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
            raise NotImplementedError

    model = Slotted()
    service = people(model)
    service.person("x")
    service.person("x")
    service.place("x")
    assert model.requests == ["strict schema", "strict tool", "strict tool", "strict schema", "strict tool"]


class Addressed(ScriptedChatModel):
    """A model that has an address."""

    def __init__(self, provider: Refusing, endpoint: str, name: str) -> None:
        super().__init__(provider.answer, capabilities=ALL, name=name)
        self.endpoint = endpoint


@pytest.mark.parametrize(
    ("endpoint", "name", "first"),
    [
        ("http://here", "m", "strict tool"),
        ("http://there", "m", "strict schema"),
        ("http://here", "n", "strict schema"),
    ],
)
def test_what_is_remembered_applies_to_the_same_name_at_the_same_address(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, name: str, first: str
) -> None:
    monkeypatch.setattr("aiservices.engine.model_route._BY_ADDRESS", {})
    people(Addressed(no_schema(), "http://here", "m")).person("x")
    other = Addressed(no_schema(), endpoint, name)
    people(other).person("x")
    assert strategy_option_of(other.requests[0]) == first


def test_there_is_no_fallback_after_an_error_that_is_not_a_refusal() -> None:
    made = ModelRoute(ScriptedChatModel([]), select_strategies(parser_for(Person), ALL, None, "m"))
    told: ModelError = ModelServerError("the schema store is down", status=500, retryable=True)
    assert made.fallback_after(made.best_option(None)[0], told, ChatRequest.of("x")) is None


@pytest.mark.parametrize("unit", ["max_", "max_a ", "model ", "effor"])
def test_the_time_to_read_an_error_grows_linearly(unit: str) -> None:
    made = ModelRoute(ScriptedChatModel([]), select_strategies(parser_for(Person), ALL, None, "m"))

    def read(body: str) -> None:
        refused = BadRequestError("bad", status=400, body=body, retryable=False)
        made.fallback_after(made.best_option(None)[0], refused, ChatRequest.of("x"))

    assert growth(read, unit) <= MAX_GROWTH


# over HTTP


def by_tool_only(seen: ReceivedRequest) -> Reply:
    body = seen.json
    if "response_format" in body:
        return error(400, NO_SCHEMA)
    call = {"id": "c", "type": "function", "function": {"name": "Person", "arguments": ANN}}
    return answer(None, tool_calls=[call], finish_reason="tool_calls")


def test_a_server_sees_one_refused_request_and_then_only_the_other_way(loopback: Loopback) -> None:
    loopback.reply(by_tool_only)
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=ALL) as model:
        service = people(model)
        values = [service.person("x").value for _ in range(3)]
    assert (values, ["response_format" in seen.json for seen in loopback.requests]) == (
        [Person("Ann")] * 3,
        [True, False, False, False],
    )


def test_two_models_of_one_name_at_one_address_share_what_is_remembered(loopback: Loopback) -> None:
    loopback.reply(by_tool_only)
    for _ in range(2):
        with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=ALL) as model:
            people(model).person("x")
    assert ["response_format" in seen.json for seen in loopback.requests] == [True, False, False]


def test_the_name_of_a_model_or_its_address_is_not_a_refusal_of_tools(loopback: Loopback) -> None:
    loopback.reply(error(400, "temperature must not exceed 2"))
    name = "firefunction-v2"
    model = OpenAiChatModel(name, base_url=loopback.base_url, api_key="k", capabilities=TOOLS)
    with model, pytest.raises(BadRequestError):
        people(model).person("x")
    assert len(loopback.requests) == 1


def replies_in_json_only(seen: ReceivedRequest) -> Reply:
    """Return an error that contains the whole request, as servers built with FastAPI send it."""
    return Reply(422, b'{"detail": [{"msg": "temperature is too high", "input": ' + seen.body + b"}]}")


def test_an_error_that_quotes_the_whole_request_ends_without_asking_for_ever(loopback: Loopback) -> None:
    loopback.reply(replies_in_json_only)
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=ALL)
    with model, pytest.raises(BadRequestError) as caught:
        people(model).person("x")
    assert len(caught.value.attempts) == len(loopback.requests) <= 6


def test_what_a_stream_is_refused_for_steps_down_before_anything_is_shown(loopback: Loopback) -> None:
    loopback.reply(by_tool_only)
    with OpenAiChatModel("m", base_url=loopback.base_url, api_key="k", capabilities=ALL) as model:
        shown: list[Any] = [snapshot.value for snapshot in people(model).grow("x")]
    assert (shown[-1], len(loopback.requests)) == (Person("Ann"), 2)


def test_a_refused_request_for_text_has_no_simpler_strategy(loopback: Loopback) -> None:
    class Chat(Protocol):
        def chat(self, text: str) -> str: ...

    loopback.reply(error(400, "Bad Request"))
    model = OpenAiChatModel("m", base_url=loopback.base_url, api_key="k")
    with model, pytest.raises(BadRequestError, match="Bad Request"):
        create(Chat, model).chat("x")
    assert len(loopback.requests) == 1
