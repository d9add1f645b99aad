"""The tool whose arguments are the answer, offered together with other tools."""

from __future__ import annotations

import pytest
from tool_calling import (
    ANN,
    FIND_KINDS,
    NATIVE,
    SEARCH_CALL,
    TOOLS,
    Person,
    every_find_kind,
    messages_to,
    person_service,
    strict_provider,
    tool_calls_reply,
)

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    ChatRequest,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    Strategy,
    Tooling,
    ToolMessage,
    UserMessage,
)
from aiservices.memory import ChatMemory
from aiservices.tools.tool import tool
from output_parsers import Coercion


@every_find_kind
def test_the_output_tool_is_offered_with_the_others_and_ends_the_loop(kind: str) -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), tool_calls_reply(("Person", ANN)))
    assert FIND_KINDS[kind](person_service(model)) == Person("Ann", 31)
    tooling = model.requests[1].tooling
    assert isinstance(tooling, Tooling)
    assert ([one.name for one in tooling.tools], tooling.choice, tooling.parallel_calls) == (
        ["search", "Person"],
        "required",
        True,
    )
    assert model.requests[0].tooling is tooling
    assert messages_to(model) == (
        UserMessage("x"),
        tool_calls_reply(SEARCH_CALL).message,
        ToolMessage("c1", "search", "found Ann"),
    )


@every_find_kind
@pytest.mark.parametrize("first", [True, False])
def test_calls_next_to_the_answer_are_not_run_and_are_seen_in_the_attempt(kind: str, first: bool) -> None:
    ran: list[str] = []

    @tool(name="search")
    def noted(text: str) -> None:
        ran.append(text)

    both = [("Person", ANN), SEARCH_CALL] if first else [SEARCH_CALL, ("Person", ANN)]
    reply = tool_calls_reply(*both)
    assert FIND_KINDS[kind](person_service(strict_provider(reply), noted)) == Person("Ann", 31)
    result = person_service(strict_provider(reply), noted).told("x")
    assert (result.value, result.tool_runs, ran) == (Person("Ann", 31), (), [])
    assert result.attempts[0].reply is reply
    assert [call.name for call in result.reply.message.tool_calls] == ["Person"]


def test_text_in_the_place_of_the_answer_is_read() -> None:
    result = person_service(strict_provider(tool_calls_reply(SEARCH_CALL), ANN)).told("x")
    assert (result.value, result.coercions[0]) == (
        Person("Ann", 31),
        Coercion("$", "text instead of a call of Person", "", ""),
    )


@every_find_kind
def test_text_that_cannot_be_read_is_asked_for_again_after_the_tools(kind: str) -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), "Ann is old.", tool_calls_reply(("Person", ANN)))
    assert FIND_KINDS[kind](person_service(model)) == Person("Ann", 31)
    asked = messages_to(model)
    assert asked[:4] == (
        UserMessage("x"),
        tool_calls_reply(SEARCH_CALL).message,
        ToolMessage("c1", "search", "found Ann"),
        AiMessage("Ann is old."),
    )
    assert isinstance(asked[4], UserMessage)
    assert (len(asked), asked[4].text.splitlines()[0]) == (5, "That answer cannot be read:")


@every_find_kind
def test_an_answer_that_does_not_fit_is_asked_for_again_with_all_rounds_in_order(kind: str) -> None:
    model = strict_provider(
        tool_calls_reply(SEARCH_CALL),
        tool_calls_reply(("Person", '{"name": "Ann", "age": "old"}', "p1")),
        tool_calls_reply(("search", '{"text": "her age"}', "c2")),
        tool_calls_reply(("Person", '{"name": "Ann"}', "p2"), ("search", '{"text": "no"}', "c3")),
        tool_calls_reply(("Person", ANN, "p3")),
    )
    assert FIND_KINDS[kind](person_service(model)) == Person("Ann", 31)
    names = [
        f"{type(said).__name__} {said.call_id}" if isinstance(said, ToolMessage) else type(said).__name__
        for said in messages_to(model)
    ]
    assert names == [
        "UserMessage",
        "AiMessage",
        "ToolMessage c1",
        "AiMessage",
        "ToolMessage c2",
        "AiMessage",
        "ToolMessage p2",
        "ToolMessage c3",
    ]


def test_without_tools_left_to_ask_the_answer_is_an_error_with_all_attempts() -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), "No.", "No.")
    with pytest.raises(ServiceOutputError) as caught:
        person_service(model, retry=Retry(max_attempts=2)).find("x")
    assert (caught.value.text, [attempt.text for attempt in caught.value.attempts]) == (
        "No.",
        ["", "No.", "No."],
    )


def test_fields_alone_are_asked_for_after_tools_too() -> None:
    model = strict_provider(
        tool_calls_reply(SEARCH_CALL),
        tool_calls_reply(("Person", '{"name": "Ann", "age": "old"}', "p1")),
        '{"age": 31}',
    )

    def answer(request: ChatRequest) -> str | ChatReply | Exception:
        reply = model.complete(request)
        tooling = request.tooling
        if len(model.requests) == 3 and tooling is not None:
            (part,) = tooling.tools
            return tool_calls_reply((part.name, '{"age": 31}', "p2"))
        return reply

    service = person_service(ScriptedChatModel(answer, capabilities=TOOLS), retry=Retry(mode="fields"))
    assert service.find("x") == Person("Ann", 31)
    assert messages_to(model)[1:3] == (
        tool_calls_reply(SEARCH_CALL).message,
        ToolMessage("c1", "search", "found Ann"),
    )


def test_a_native_schema_is_offered_with_the_tools() -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), ANN, capabilities=NATIVE)
    result = person_service(model).told("x")
    assert (result.value, result.strategy) == (Person("Ann", 31), Strategy.JSON_SCHEMA)
    for request in model.requests:
        assert request.response_format is not None
        assert request.tooling is not None
        assert ([one.name for one in request.tooling.tools], request.tooling.choice) == (["search"], "auto")


@pytest.mark.parametrize("capabilities", [TOOLS, NATIVE])
def test_where_the_type_admits_text_plain_text_ends_the_loop(capabilities: Capabilities) -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), "I do not know her.", capabilities=capabilities)
    assert person_service(model).either("x") == "I do not know her."


def test_where_the_type_admits_text_the_answer_may_be_the_other() -> None:
    model = strict_provider(tool_calls_reply(SEARCH_CALL), tool_calls_reply(("Person", ANN)))
    service = person_service(model)
    first = model.requests
    try:
        value: Person | str = service.either("x")
    finally:
        tooling = first[0].tooling
        assert tooling is not None
        assert [tool.name for tool in tooling.tools] == ["search", "Person"]
        assert tooling.choice == "auto"
    assert value == Person("Ann", 31)


@pytest.mark.parametrize(
    ("capabilities", "replies"),
    [
        (NATIVE, [tool_calls_reply(SEARCH_CALL), ANN]),
        (TOOLS, [tool_calls_reply(SEARCH_CALL), tool_calls_reply(("Person", ANN, "p1"))]),
        (TOOLS, [tool_calls_reply(SEARCH_CALL, ("Person", ANN, "p1"))]),
        (
            TOOLS,
            [
                tool_calls_reply(SEARCH_CALL),
                "She is old.",
                tool_calls_reply(SEARCH_CALL),
                tool_calls_reply(("Person", ANN, "p1")),
            ],
        ),
    ],
)
def test_a_memory_stores_tool_messages_that_a_provider_accepts(
    capabilities: Capabilities, replies: list[str | ChatReply]
) -> None:
    model = strict_provider(*replies, *replies, capabilities=capabilities)
    service = person_service(model, interceptors=[ChatMemory()])
    assert (service.find("x"), service.find("x")) == (Person("Ann", 31), Person("Ann", 31))
    first, second = messages_to(model, 0), messages_to(model, len(replies))
    assert second[0] == first[0]
    assert second[-2:] == (AiMessage(ANN), UserMessage("x"))
