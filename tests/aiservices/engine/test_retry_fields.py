"""With ``Retry(mode="fields")`` only the invalid fields of an answer are requested again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Protocol

import pytest
from pydantic import AfterValidator, BaseModel

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatReply,
    Coercion,
    FallbackChatModel,
    FinishReason,
    JsonSchemaFormat,
    OutputParsingError,
    Result,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    Stream,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    example,
    options,
    user_message,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed

PLAIN = Capabilities(json_schema=True)
STRICT = Capabilities(json_schema=True, strict_schema=True)
OLD = '{"name": "Ann", "age": "old"}'
PROBLEMS_MESSAGE = (
    "That answer cannot be read:\n"
    '- $.age: expected an integer, found "old"\n'
    "Write only these parts again and fix the problems."
)


@dataclass
class Person:
    name: str
    age: int


@dataclass
class Bill:
    amount: Decimal
    due: date


class Service(Protocol):
    def person(self, text: str) -> Person: ...

    def told(self, text: str) -> Result[Person]: ...

    async def aperson(self, text: str) -> Person: ...

    def grow(self, text: str) -> Stream[Person]: ...

    def each(self, text: str) -> Iterator[Person]: ...

    def bill(self, text: str) -> Bill: ...

    def team(self, text: str) -> dict[str, Person]: ...

    def everyone(self, text: str) -> list[Person]: ...

    def number(self, text: str) -> int: ...

    @example("Bob is 5.", returns=Person("Bob", 5))
    def shown(self, text: str) -> Person: ...

    @user_message("{{text}} {{format_instructions}}")
    @options(strategy="prompt")
    def instructed(self, text: str) -> Person: ...


def scripted(*replies: Any, capabilities: Capabilities = PLAIN, name: str = "scripted") -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=capabilities, name=name)


def service(model: Any, *interceptors: Any, attempts: int = 5, retry: Retry | None = None) -> Service:
    retry = retry or Retry(mode="fields")
    return create(
        Service, model, retry=retry, budget=Budget(attempts, first_wait=0), interceptors=interceptors
    )


def schema_of(model: ScriptedChatModel, number: int) -> Any:
    form = model.requests[number].response_format
    assert isinstance(form, JsonSchemaFormat)
    return form.schema


# the request for the fields


def test_the_model_gets_its_answer_and_is_asked_for_the_field_only() -> None:
    model = scripted(OLD, '{"age": 31}')
    assert service(model).person("x") == Person("Ann", 31)
    assert model.requests[1].messages == (UserMessage("x"), AiMessage(OLD), UserMessage(PROBLEMS_MESSAGE))
    assert schema_of(model, 1) == {
        "type": "object",
        "properties": {"age": {"type": "integer", "description": "the part at $.age"}},
        "required": ["age"],
        "additionalProperties": False,
    }


def test_an_answer_in_an_envelope_is_repaired_inside_it() -> None:
    model = scripted('{"value": [{"name": "Ann", "age": "x"}]}', '{"value_0_age": 31}')
    assert service(model).everyone("x") == [Person("Ann", 31)]


def test_an_answer_in_strict_mode_is_repaired_in_strict_mode() -> None:
    pairs = '{"value": [{"key": "a", "value": {"name": "Ann", "age": "x"}}]}'
    model = scripted(pairs, '{"value_a_age": 31}', capabilities=STRICT)
    assert service(model).team("x") == {"a": Person("Ann", 31)}
    forms = [request.response_format for request in model.requests]
    assert [isinstance(form, JsonSchemaFormat) and form.strict for form in forms] == [True, True]


def test_parts_are_asked_for_by_the_call_of_a_tool_where_the_answer_was_one() -> None:
    def call(name: str, arguments: str) -> ChatReply:
        return ChatReply(AiMessage("", (ToolCall("c", name, arguments),)), FinishReason.TOOL_CALLS)

    first = call("Person", OLD)
    model = scripted(first, call("parts", '{"age": 31}'), capabilities=Capabilities(tools=True))
    assert service(model).person("x") == Person("Ann", 31)
    request = model.requests[1]
    assert request.messages == (UserMessage("x"), first.message, ToolMessage("c", "Person", PROBLEMS_MESSAGE))
    assert request.tooling is not None
    assert (request.tooling.choice, [tool.name for tool in request.tooling.tools]) == ("parts", ["parts"])


@pytest.mark.parametrize("strategy", ["prompt", "json_mode"])
def test_where_no_schema_is_sent_the_instructions_are_those_of_the_parts(strategy: str) -> None:
    model = scripted(OLD, '{"age": 31}', capabilities=Capabilities(json_mode=True))
    made = create(Service, model, retry=Retry(mode="fields"), strategy=strategy, budget=Budget(first_wait=0))
    assert made.person("x") == Person("Ann", 31)
    assert model.requests[1].messages[-1].text.startswith(PROBLEMS_MESSAGE + "\n\n")
    assert '"age": integer' in model.requests[1].messages[-1].text
    assert '"name"' not in model.requests[1].messages[-1].text


def test_examples_are_not_sent_with_a_request_for_fields() -> None:
    """Examples show whole answers, but only a part is requested."""
    model = scripted(OLD, '{"age": 31}')
    assert service(model).shown("x") == Person("Ann", 31)
    assert [len(request.messages) for request in model.requests] == [3, 3]
    assert model.requests[1].messages == (UserMessage("x"), AiMessage(OLD), UserMessage(PROBLEMS_MESSAGE))


def test_examples_are_sent_again_when_the_whole_answer_is_requested() -> None:
    model = scripted("none", '{"name": "Ann", "age": 31}')
    assert service(model).shown("x") == Person("Ann", 31)
    assert model.requests[1].messages[:2] == model.requests[0].messages[:2]


def test_a_number_is_asked_for_in_full() -> None:
    model = scripted('{"value": "many"}', '{"value": 7}')
    assert service(model).number("x") == 7


# how the fields are read


def test_parts_that_do_not_fit_are_asked_for_again() -> None:
    model = scripted(OLD, '{"age": "older"}', '{"age": 31}')
    result = service(model).told("x")
    assert (result.value, len(result.attempts)) == (Person("Ann", 31), 3)
    assert model.requests[2].messages == (
        UserMessage("x"),
        AiMessage('{"name": "Ann", "age": "older"}'),
        UserMessage(PROBLEMS_MESSAGE.replace('"old"', '"older"')),
    )
    assert [str(attempt.error) for attempt in result.attempts if attempt.error] == [
        'cannot read the text: $.age: expected an integer, found "old" '
        '(the text: \'{"name": "Ann", "age": "old"}\')',
        'cannot read the text: $.age: expected an integer, found "older" '
        '(the text: \'{"name": "Ann", "age": "older"}\')',
    ]


@pytest.mark.parametrize("second", ["{}", '{"other": 1}', "I do not know.", '{"age": '])
def test_a_reply_without_the_parts_leaves_the_answer_to_be_repaired(second: str) -> None:
    """The final answer has the return type, after a second request for the fields or for the whole."""
    model = scripted(OLD, second, '{"name": "Ann", "age": 31}')
    assert service(model).person("x") == Person("Ann", 31)


def test_a_model_that_writes_the_whole_after_all_is_understood() -> None:
    model = scripted(OLD, '{"name": "Ann", "age": 31}')
    assert service(model).person("x") == Person("Ann", 31)


def test_a_decimal_that_is_asked_for_again_keeps_its_digits() -> None:
    model = scripted('{"amount": "much", "due": "2024-02-29"}', '{"amount": 0.1000000000000000000000001}')
    assert service(model).bill("x") == Bill(Decimal("0.1000000000000000000000001"), date(2024, 2, 29))


def test_a_part_may_fit_its_schema_and_not_the_type() -> None:
    model = scripted('{"amount": 1, "due": "soon"}', '{"due": "later"}', '{"due": "2024-02-29"}')
    assert service(model).bill("x") == Bill(Decimal(1), date(2024, 2, 29))


def test_each_step_of_the_reading_is_on_the_result() -> None:
    result = service(scripted(OLD, 'Here: {"age": "31"}')).told("x")
    assert {(step.path, step.rule) for step in result.coercions} >= {
        ("$.age", "requested again"),
        ("$.age", "number as text"),
    }


def test_coercions_of_the_repaired_fields_are_on_the_result() -> None:
    """The Result lists all coercions, including those of the second answer."""
    result = service(scripted(OLD, 'Here: {"age": 31}')).told("x")
    assert result.coercions == (
        Coercion("$.age", "requested again", "", ""),
        Coercion("$", "text around the JSON left out", "", ""),
    )


def test_the_final_error_has_the_whole_answer_and_all_attempts() -> None:
    model = scripted(OLD, '{"age": "older"}')
    with pytest.raises(ServiceOutputError) as caught:
        service(model, attempts=2).person("x")
    assert (caught.value.text, len(caught.value.attempts)) == ('{"name": "Ann", "age": "older"}', 2)
    errors = [attempt.error for attempt in caught.value.attempts]
    assert all(isinstance(error, OutputParsingError) for error in errors)
    assert [error.problems[0].found for error in errors] == ['"old"', '"older"']  # type: ignore[union-attr]


# streams


def test_a_stream_shows_nothing_but_the_type() -> None:
    """A snapshot of the repaired fields would have another type than the stream."""
    shown = [snapshot.value for snapshot in service(scripted(OLD, '{"age": 31}')).grow("x")]
    assert shown[-1] == Person("Ann", 31)
    assert not [value for value in shown if type(value) is dict]


def test_the_result_of_a_stream_is_whole() -> None:
    assert service(scripted(OLD, '{"age": 31}')).grow("x").result().value == Person("Ann", 31)


def test_items_are_asked_for_in_full() -> None:
    """Their problems name positions in the list, but the reply contains only some of the items."""
    model = scripted(f'{{"value": [{OLD}]}}', '{"value": [{"name": "Ann", "age": 31}]}')
    assert list(service(model).each("x")) == [Person("Ann", 31)]


def test_parts_are_asked_for_in_async_calls() -> None:
    made = service(scripted(OLD, '{"age": 31}'))
    assert asyncio.run(made.aperson("x")) == Person("Ann", 31)  # type: ignore[arg-type]


# with other features


def test_the_model_that_gave_the_answer_is_asked_for_its_parts() -> None:
    first = scripted(ChatReply(AiMessage(OLD)), '{"age": 31}', name="first")
    second = scripted(name="second")
    assert service(FallbackChatModel(first, second)).person("x") == Person("Ann", 31)
    assert (len(first.requests), len(second.requests)) == (2, 0)


def test_an_interceptor_inside_sees_the_parts_and_one_outside_the_answer() -> None:
    seen: list[Any] = []

    def watching(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        answer = yield from proceed(invocation)
        seen.append((answer.value, len(invocation.examples)))
        return answer

    model = scripted(OLD, '{"age": 31}')
    made = create(
        Service,
        model,
        retry=None,
        budget=Budget(first_wait=0),
        interceptors=[watching, Retry(mode="fields"), watching],
    )
    assert made.shown("x") == Person("Ann", 31)
    assert seen == [({"age": 31}, 0), (Person("Ann", 31), 1)]


def test_an_answer_of_the_prompt_has_the_instructions_where_the_template_has_them() -> None:
    model = scripted(OLD, '{"age": 31}')
    assert service(model).instructed("x") == Person("Ann", 31)
    assert [json.dumps(r.messages[0].text).count("Reply with JSON only") for r in model.requests] == [1, 1]


def test_the_strategy_of_the_answer_is_kept() -> None:
    result = service(scripted(OLD, '{"age": 31}')).told("x")
    assert (result.strategy, [attempt.strategy for attempt in result.attempts]) == (
        Strategy.JSON_SCHEMA,
        [Strategy.JSON_SCHEMA] * 2,
    )


def test_a_value_that_its_validators_would_change_again_is_repaired() -> None:
    class Offer(BaseModel):
        name: str
        discount: Annotated[float, AfterValidator(lambda percent: percent / 100)]

    class Shop(Protocol):
        def offer(self, text: str) -> Offer: ...

    model = scripted('{"name": "a", "discount": "half"}', '{"discount": 50}')
    shop = create(Shop, model, retry=Retry(mode="fields"), budget=Budget(first_wait=0))
    assert shop.offer("x") == Offer.model_construct(name="a", discount=0.5)
