"""``structured`` returns a model that answers with values of one type, as in LangChain."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from aiservices import (
    AiMessage,
    Budget,
    BudgetExceededError,
    Capabilities,
    ChatOptions,
    ChatReply,
    ContentFilterError,
    DefinitionError,
    FallbackChatModel,
    FinishError,
    FinishReason,
    Image,
    JsonObjectFormat,
    JsonSchemaFormat,
    ModelError,
    Price,
    RefusalError,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    SystemMessage,
    ToolCall,
    TruncatedError,
    Usage,
    UserMessage,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.structured_model import Structured, structured

ALL = Capabilities(json_schema=True, json_mode=True, tools=True)
STRICT = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True)
ANN = '{"name": "Ann", "age": 31}'
ONCE = Budget(max_attempts=1)


class Model(BaseModel):
    """Somebody."""

    name: str
    age: int = Field(ge=0)


@dataclass
class Record:
    name: str
    age: int


class Table(TypedDict):
    name: str
    age: int


SCHEMA = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
FUNCTION = {"name": "tell_person", "description": "Tells of somebody.", "parameters": SCHEMA}
PLAIN = {"name": "Ann", "age": 31}
FORMS: dict[str, tuple[Any, Any]] = {
    "pydantic": (Model, Model(name="Ann", age=31)),
    "dataclass": (Record, Record("Ann", 31)),
    "TypedDict": (Table, PLAIN),
    "JSON Schema": (SCHEMA, PLAIN),
    "function": (FUNCTION, PLAIN),
    "function, new form": ({"type": "function", "function": FUNCTION}, PLAIN),
    "function, flat": ({"type": "function", **FUNCTION, "strict": True}, PLAIN),
    "tool of Anthropic": ({"name": "tell_person", "input_schema": SCHEMA}, PLAIN),
    "response format": ({"type": "json_schema", "json_schema": {"name": "P", "schema": SCHEMA}}, PLAIN),
}


def scripted(*replies: Any, capabilities: Capabilities = ALL, name: str = "scripted") -> ScriptedChatModel:
    return ScriptedChatModel(replies, capabilities=capabilities, name=name)


def called(name: str, arguments: str) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("c", name, arguments),)), FinishReason.TOOL_CALLS)


# the schema and the method


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["json_schema", "json_mode", "function_calling", "prompt", None])
def test_each_form_of_schema_is_answered_in_each_method(form: str, method: str | None) -> None:
    schema, value = FORMS[form]
    model = scripted(ANN)
    answer = structured(model, schema, strategy=method).invoke("x")
    assert (answer, type(answer)) == (value, type(value))


@pytest.mark.parametrize(
    ("method", "strategy"),
    [
        ("json_schema", Strategy.JSON_SCHEMA),
        ("json_mode", Strategy.JSON_MODE),
        ("function_calling", Strategy.OUTPUT_TOOL),
        ("output_tool", Strategy.OUTPUT_TOOL),
        (Strategy.PROMPT, Strategy.PROMPT),
    ],
)
def test_a_method_can_choose_the_strategy(method: str, strategy: Strategy) -> None:
    model = scripted(ANN)
    result = structured(model, Record, strategy=method).stream("x").result()
    assert result.strategy is strategy
    request = model.requests[0]
    kinds = {
        Strategy.JSON_SCHEMA: (JsonSchemaFormat, False, "x"),
        Strategy.JSON_MODE: (
            JsonObjectFormat,
            False,
            'x\n\nReply with JSON only: {"name": string, "age": integer}',
        ),
        Strategy.OUTPUT_TOOL: (type(None), True, "x"),
        Strategy.PROMPT: (
            type(None),
            False,
            'x\n\nReply with JSON only, in this form:\n{"name": string, "age": integer}',
        ),
    }
    found = type(request.response_format), request.tooling is not None, request.messages[-1].text
    assert found == kinds[strategy]


@pytest.mark.parametrize(
    ("form", "name"), [("function", "tell_person"), ("JSON Schema", "Person"), ("pydantic", "Model")]
)
def test_a_tool_goes_by_the_name_of_the_schema(form: str, name: str) -> None:
    model = scripted(called(name, ANN))
    assert structured(model, FORMS[form][0], strategy="function_calling").invoke("x") == FORMS[form][1]
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert (tooling.choice, [tool.name for tool in tooling.tools]) == (name, [name])


def test_the_description_of_a_function_is_that_of_the_tool() -> None:
    model = scripted(ANN)
    structured(model, FUNCTION, strategy="function_calling").invoke("x")
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert tooling.tools[0].description == "Tells of somebody."


@pytest.mark.parametrize(
    ("schema", "reply", "value"),
    [
        (int, '{"value": 42}', 42),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int | None, '{"value": null}', None),
        (str, "to be", "to be"),
        (Decimal, '{"value": 0.10}', Decimal("0.10")),
        ({"type": "array", "items": {"type": "integer"}}, '{"value": [1]}', [1]),
    ],
)
def test_a_schema_need_not_be_a_record(schema: Any, reply: str, value: Any) -> None:
    assert structured(scripted(reply), schema).invoke("x") == value


# messages


@pytest.mark.parametrize(
    ("said", "messages"),
    [
        ("hello", (UserMessage("hello"),)),
        (UserMessage("hello", "Ann"), (UserMessage("hello", "Ann"),)),
        ([SystemMessage("s"), UserMessage("u")], (SystemMessage("s"), UserMessage("u"))),
        ([("system", "s"), ("user", "u")], (SystemMessage("s"), UserMessage("u"))),
        ([("developer", "s"), ("human", "u"), ("ai", "a"), ("assistant", "b")],
         (SystemMessage("s"), UserMessage("u"), AiMessage("a"), AiMessage("b"))),
        ([["user", "u"]], (UserMessage("u"),)),
        ([{"role": "user", "content": "u"}], (UserMessage("u"),)),
        ([{"role": "assistant", "content": ""}, ("user", "u")], (AiMessage(""), UserMessage("u"))),
        ((UserMessage("a"), ("user", "b"), {"role": "user", "content": "c"}),
         (UserMessage("a"), UserMessage("b"), UserMessage("c"))),
        (("{{x}}"), (UserMessage("{{x}}"),)),
    ],
)  # fmt: skip
def test_messages_are_accepted_in_many_forms(said: Any, messages: Any) -> None:
    model = scripted(ANN)
    structured(model, Record).invoke(said)
    assert model.requests[0].messages == messages


MESSAGE_FORMS = "a message, a pair of role and text, or a dict with role and content"
TAKES = f"pass a text, a message, or a list in which each item is {MESSAGE_FORMS}"
ROLES = "system, developer, user, human, assistant, ai, tool"


@pytest.mark.parametrize(
    ("said", "problems"),
    [
        ([("nobody", "x")], [f"structured, message 1: the role 'nobody' is unknown; use one of: {ROLES}"]),
        ([("tool", "x")], ["structured, message 1: a result of a tool needs the tool_call_id of its call"]),
        ([([], "x")], [f"structured, message 1: the role [] is unknown; use one of: {ROLES}"]),
        ([{"content": "x"}], [f"structured, message 1: the role None is unknown; use one of: {ROLES}"]),
        (
            [{"role": "user"}],
            ["structured, message 1: its content is NoneType; it must be text or a list of parts"],
        ),
        (
            [("user", "x"), ("nobody", 5), "hi"],
            [
                f"structured, message 2: the role 'nobody' is unknown; use one of: {ROLES}",
                f"structured, message 3: it is str; it must be {MESSAGE_FORMS}",
            ],
        ),
        ([("user",)], [f"structured, message 1: it is tuple; it must be {MESSAGE_FORMS}"]),
        ([5], [f"structured, message 1: it is int; it must be {MESSAGE_FORMS}"]),
        (
            {"role": "user", "content": "x"},
            [f"structured: the input is dict; {TAKES}"],
        ),
        (
            None,
            [f"structured: the input is NoneType; {TAKES}"],
        ),
        ([], ["structured: the input is empty; pass at least one message"]),
    ],
)
def test_all_invalid_messages_are_reported_together(said: Any, problems: list[str]) -> None:
    model = scripted()
    with pytest.raises(DefinitionError) as caught:
        structured(model, Record).invoke(said)
    assert ([str(problem) for problem in caught.value.problems], model.requests) == (problems, [])


def test_wrong_options_and_wrong_messages_of_a_call_are_reported_together() -> None:
    made = structured(scripted(), Record)
    for call in (made.invoke, made.stream, made.astream):
        with pytest.raises(DefinitionError) as caught:
            call([("nobody", "x")], options=ChatOptions(temperature=9))
        assert len(caught.value.problems) == 2


def test_options_of_the_call_win_over_those_of_the_model() -> None:
    model = scripted(ANN, ANN)
    made = structured(model, Record, options=ChatOptions(temperature=0.5, seed=1))
    made.invoke("x", options=ChatOptions(temperature=0.0))
    made.invoke("x")
    assert [request.options for request in model.requests] == [
        ChatOptions(temperature=0.0, seed=1),
        ChatOptions(temperature=0.5, seed=1),
    ]


# strict mode


def test_a_strict_schema_gains_no_field() -> None:
    model = scripted('{"name": "Ann", "age": 31}', capabilities=STRICT)
    assert structured(model, FUNCTION).invoke("x") == PLAIN
    sent = model.requests[0].response_format
    assert isinstance(sent, JsonSchemaFormat)
    assert sent.strict
    assert sent.schema == {**SCHEMA, "description": "Tells of somebody.", "additionalProperties": False}


@pytest.mark.parametrize(
    "nullable",
    [
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"type": ["integer", "null"]},
        {"$ref": "#/$defs/age"},
        {"enum": [1, None]},
    ],
)
@pytest.mark.parametrize("others", [{}, {"additionalProperties": False}, {"additionalProperties": True}])
@pytest.mark.parametrize("required", [[], ["age"]])
def test_a_null_that_the_schema_allows_is_kept_in_strict_mode(
    nullable: Any, others: Any, required: list[str]
) -> None:
    schema = {"type": "object", "properties": {"age": nullable}, "required": required, **others}
    schema["$defs"] = {"age": {"type": ["integer", "null"]}}
    model = scripted('{"age": null}', capabilities=STRICT)
    assert structured(model, schema, retry=None).invoke("x") == {"age": None}


def test_a_null_of_an_optional_property_that_must_not_be_null_means_that_it_is_left_out() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    model = scripted('{"age": null}', capabilities=STRICT)
    assert structured(model, schema, retry=None).invoke("x") == {}


def test_further_properties_that_the_schema_allows_are_kept() -> None:
    model = scripted('{"name": "Ann", "age": 31, "note": "hi"}', capabilities=STRICT)
    assert structured(model, SCHEMA).invoke("x") == {**PLAIN, "note": "hi"}


# mistakes in the declaration


KNOWN = "json_schema, output_tool, grammar, json_mode, prompt, decision, text, function_calling"


@pytest.mark.parametrize(
    ("schema", "settings", "problem"),
    [
        (Record, {"strategy": "some"}, f"the strategy 'some' is unknown; use one of: {KNOWN}"),
        (Record, {"strategy": []}, f"the strategy [] is unknown; use one of: {KNOWN}"),
        (Record, {"strategy": "text"}, "the strategy text is for str; Record needs a structured strategy"),
        (
            str,
            {"strategy": "json_mode"},
            "the strategy json_mode needs a structured type, and the type is plain text",
        ),
        (
            Record,
            {"strategy": "grammar"},
            "scripted does not support the strategy grammar; its capabilities: json_schema, json_mode, tools",
        ),
        (
            Record,
            {"options": ChatOptions(max_tokens=0)},
            "max_tokens is 0; it must be an integer greater than 0",
        ),
        ({"type": "function", "function": {}}, {}, 'a function needs a "name"'),
        ({"parameters": SCHEMA}, {}, 'a function needs a "name"'),
        ({}, {}, "the dict is empty; pass a JSON Schema, or Any for any JSON"),
        (
            {"propertys": {"answer": {"type": "string"}}},
            {"strict_keywords": True},
            "the JSON Schema 'value' is invalid at #: 'propertys' is not a keyword of JSON Schema; "
            "did you mean 'properties'?",
        ),
        (
            {"type": "function", "name": "f", "parameters": 5},
            {},
            "the \"parameters\" of the function 'f' must be a JSON Schema",
        ),
        (
            Record,
            {"budget": Budget(money=1, prices={"other": Price(1, 1)})},
            "the budget limits money, but its prices do not name scripted",
        ),
    ],
)
def test_problems_are_reported_before_any_request(schema: Any, settings: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        structured(scripted(), schema, **settings)
    assert str(caught.value) == f"structured: {problem}"


@pytest.mark.parametrize(
    ("schema", "begins"),
    [
        ({"type": "nope"}, "structured: the JSON Schema 'value' is invalid at #/type: 'nope' is not"),
        (
            {**FUNCTION, "parameters": {"type": "nope"}},
            "structured: the JSON Schema 'tell_person' is invalid at ",
        ),
        (5, "structured: no parser reads 5; tried: "),
        (
            list[Image],
            "structured: it returns list[Image]; a model writes text, so it cannot write an object of Image",
        ),
        (Record("a", 1), "structured: no parser reads Record(name='a', age=1); tried: "),
    ],
)
def test_a_broken_schema_is_reported(schema: Any, begins: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        structured(scripted(), schema)
    assert str(caught.value).startswith(begins)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(DefinitionError) as caught:
        structured("nope:x", {"type": 5}, strategy="some", options=ChatOptions(temperature=9))
    assert [str(problem).partition(";")[0][:60] for problem in caught.value.problems] == [
        "structured: temperature is 9",
        "structured: the strategy 'some' is unknown",
        "structured: the model 'nope:x' is unknown: write PROVIDER:NA",
        "structured: the JSON Schema 'value' is invalid at #/type: 5 ",
    ]


def test_each_model_that_does_not_support_the_strategy_is_reported() -> None:
    plain = Capabilities()
    models = FallbackChatModel(scripted(capabilities=plain, name="a"), scripted(capabilities=plain, name="b"))
    with pytest.raises(DefinitionError) as caught:
        structured(models, Record, strategy="function_calling")
    said = "structured: {} does not support the strategy output_tool; its capabilities: none"
    assert [str(problem) for problem in caught.value.problems] == [said.format("a"), said.format("b")]


# what cannot be read


UNREADABLE = 'structured: cannot read the reply: $.age: expected an integer, found "old" '


def test_an_answer_that_cannot_be_read_is_asked_for_again() -> None:
    model = scripted('{"name": "Ann", "age": "old"}', ANN)
    assert structured(model, Record).invoke("x") == Record("Ann", 31)
    assert model.requests[1].messages[1] == AiMessage('{"name": "Ann", "age": "old"}')


def test_without_retry_it_raises_at_once() -> None:
    model = scripted('{"name": "Ann", "age": "old"}')
    with pytest.raises(ServiceOutputError) as caught:
        structured(model, Record, retry=None).invoke("x")
    assert str(caught.value).startswith(UNREADABLE)


def test_include_raw_returns_the_reply_with_the_value() -> None:
    reply = ChatReply(AiMessage(ANN), usage=Usage(3, 4))
    answer = structured(scripted(reply), Record, include_raw=True).invoke("x")
    assert answer == Structured(reply, Record("Ann", 31), None)
    assert dict(answer) == {"raw": reply, "parsed": Record("Ann", 31), "parsing_error": None}
    assert ("raw" in answer, "value" in answer, len(answer)) == (True, False, 3)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_with_raw_an_answer_that_cannot_be_read_does_not_raise(asynchronous: bool) -> None:
    made = structured(scripted("a", "b", "c"), Record, include_raw=True)
    answer = asyncio.run(made.ainvoke("x")) if asynchronous else made.invoke("x")
    assert (answer.reply.text, answer.value) == ("c", None)
    assert isinstance(answer.error, ServiceOutputError)
    assert [attempt.text for attempt in answer.error.attempts] == ["a", "b", "c"]
    assert answer.error.usage is not None


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (ChatReply(AiMessage('{"name": "A'), FinishReason.LENGTH), TruncatedError),
        (ChatReply(AiMessage(ANN), FinishReason.LENGTH), TruncatedError),
        (ChatReply(AiMessage(""), refusal="no"), RefusalError),
        (ChatReply(AiMessage("half"), FinishReason.CONTENT_FILTER), ContentFilterError),
    ],
)
def test_with_raw_an_answer_that_was_not_finished_does_not_raise(
    reply: ChatReply, error: type[FinishError]
) -> None:
    answer = structured(scripted(reply), Record, include_raw=True).invoke("x")
    assert (answer.reply, answer.value, type(answer.error)) == (reply, None, error)
    with pytest.raises(error):
        structured(scripted(reply), Record).invoke("x")


def test_none_may_be_the_value_that_was_read() -> None:
    answer = structured(scripted('{"value": null}'), int | None, include_raw=True).invoke("x")
    assert (answer.value, answer.error) == (None, None)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_model_that_fails_raises_with_raw_too(asynchronous: bool) -> None:
    made = structured(scripted(ModelError("down")), Record, include_raw=True)
    with pytest.raises(ModelError, match=r"^down"):
        asyncio.run(made.ainvoke("x")) if asynchronous else made.invoke("x")


def test_a_budget_limits_the_call() -> None:
    spent = ChatReply(AiMessage("nothing"), usage=Usage(50, 50))
    made = structured(scripted(spent, ANN), Record, budget=Budget(tokens=100))
    with pytest.raises((ServiceOutputError, BudgetExceededError)) as caught:
        made.invoke("x")
    assert len(caught.value.attempts) == 1


# streams and async


def test_an_answer_may_be_awaited() -> None:
    assert asyncio.run(structured(scripted(ANN), Record).ainvoke("x")) == Record("Ann", 31)


@dataclass
class Grown:
    name: str
    tags: list[str] = field(default_factory=list)


def test_a_stream_shows_the_value_grow() -> None:
    stream = structured(scripted('{"name": "Ann", "tags": ["a", "b c"]}'), Grown).stream("x")
    shown = [snapshot.value for snapshot in stream]
    assert shown[-1] == Grown("Ann", ["a", "b c"])
    assert len(shown) > 2
    assert stream.result().value == Grown("Ann", ["a", "b c"])


def test_an_async_stream_shows_the_value_grow() -> None:
    async def shown() -> list[Any]:
        stream = structured(scripted(ANN), Record).astream("x")
        return [snapshot.value async for snapshot in stream]

    assert asyncio.run(shown())[-1] == Record("Ann", 31)


def test_a_stream_of_a_type_that_strict_mode_reshapes_grows_in_its_own_shape() -> None:
    """As in a service, a streamed value is not encoded for strict mode."""
    model = scripted('{"value": [{"key": "a", "value": 1}]}', '{"a": 1, "b": 22}', capabilities=STRICT)
    made = structured(model, dict[str, int])
    assert made.invoke("x") == {"a": 1}
    shown = [dict(snapshot.value) for snapshot in made.stream("x") if snapshot.value]
    assert {"a": 1} in shown
    assert shown[-1] == {"a": 1, "b": 22}
    forms = [request.response_format for request in model.requests]
    assert [isinstance(form, JsonSchemaFormat) and form.strict for form in forms] == [True, False]


def test_a_stream_raises_what_cannot_be_read_with_raw_too() -> None:
    with pytest.raises(ServiceOutputError):
        structured(scripted("a"), Record, include_raw=True, budget=ONCE).stream("x").result()


# as with create


def test_a_fallback_is_asked_when_a_model_fails() -> None:
    first, second = scripted(ModelError("down"), name="a"), scripted(ANN, capabilities=STRICT, name="b")
    assert structured(FallbackChatModel(first, second), Record).invoke("x") == Record("Ann", 31)
    assert len(second.requests) == 1


def test_interceptors_wrap_each_call() -> None:
    seen: list[Any] = []

    def watching(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        seen.append(invocation.plan.qualname)
        return (yield from proceed(invocation))

    structured(scripted("nothing", ANN), Record, interceptors=[watching]).invoke("x")
    assert seen == ["structured"]


def test_one_model_may_be_asked_many_times() -> None:
    made = structured(scripted(ANN, '{"name": "Bob", "age": 5}'), Record)
    assert [made.invoke("x"), made.invoke("y")] == [Record("Ann", 31), Record("Bob", 5)]


def test_a_schema_that_is_changed_afterwards_changes_nothing() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    made = structured(scripted('{"age": 1}'), schema)
    schema["required"] = ["name"]
    assert made.invoke("x") == {"age": 1}


def test_structured_models_with_one_memory_need_a_namespace() -> None:
    memory = ChatMemory()
    answers = structured(ScriptedChatModel(["1"]), int, interceptors=[memory])
    answers.invoke("x")
    assert [message.text for message in memory.messages()] == ["x", "1"]
    with pytest.raises(DefinitionError) as caught:
        structured(ScriptedChatModel([]), str, interceptors=[memory])
    assert str(caught.value) == (
        "structured: another service or agent named structured uses the same ChatMemory, so each would "
        "continue the conversation of the other; if they should, pass ChatMemory(namespace='structured'), "
        "otherwise a ChatMemory with another namespace to each"
    )


def test_interceptors_in_a_wrong_order_are_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        structured(ScriptedChatModel([]), int, interceptors=[ChatMemory(), ChatMemory()])
    assert str(caught.value) == (
        "structured: 2 interceptors are memories, so the conversation would be sent 2 times; pass one of them"
    )


def test_examples_come_before_the_question() -> None:
    model = ScriptedChatModel(['{"value": 3}'])
    count = structured(model, int, examples=[("one two", 2), ("one", 1)])
    assert count.invoke("one two three") == 3
    assert [message.text for message in model.requests[0].messages] == [
        "one two",
        '{"value": 2}',
        "one",
        '{"value": 1}',
        "one two three",
    ]


def test_the_answer_of_an_example_may_be_json_data() -> None:
    class Dog(BaseModel):
        name: str

    model = ScriptedChatModel(['{"name": "Rex"}'])
    assert structured(model, Dog, examples=[("I am Bello", {"name": "Bello"})]).invoke("Hi") == Dog(
        name="Rex"
    )
    assert model.requests[0].messages[1].text == '{"name": "Bello"}'


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ([("one", "many")], "structured, example 1: its answer does not fit: 'many' is not read as int"),
        ([("one", 1), "two"], "structured, example 2: 'two' is not a tuple of a message and its answer"),
    ],
)
def test_a_wrong_example_is_explained(examples: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        structured(ScriptedChatModel([]), int, examples=examples)
