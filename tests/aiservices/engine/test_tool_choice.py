"""The option tool_choice: which tool the model must call in the first round of a call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from tool_calling import (
    ADD_CALL,
    ANN,
    CALL_KINDS,
    Person,
    PersonService,
    TextService,
    add,
    every_call_kind,
    search,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AnthropicChatModel,
    ApprovalRequiredError,
    BadRequestError,
    BedrockChatModel,
    ChatOptions,
    ChatRequest,
    DefinitionError,
    OpenAiChatModel,
    OpenAiResponsesModel,
    ScriptedChatModel,
    SuspendedCall,
    create,
    options,
    preview,
    resume,
    tool,
)
from aiservices.agents import ReActAgent
from aiservices.models.local.prompting import chat_body, reply_constraint
from aiservices.models.providers.gemini import GeminiChatModel
from aiservices.service.methods import preview_request
from aiservices.structured_model import structured

REQUIRED = ChatOptions(tool_choice="required")


def choices(model: ScriptedChatModel) -> list[str | None]:
    return [None if one.tooling is None else one.tooling.choice for one in model.requests]


def offered(model: ScriptedChatModel, number: int) -> list[str]:
    tooling = model.requests[number].tooling
    return [] if tooling is None else [one.name for one in tooling.tools]


@every_call_kind
@pytest.mark.parametrize("choice", ["required", "add"])
def test_the_choice_holds_for_the_first_round(kind: str, choice: str) -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), tool_calls_reply((*ADD_CALL, "c2")), "3")
    service = text_service(model, add, search, options=ChatOptions(tool_choice=choice, temperature=0.5))
    assert CALL_KINDS[kind](service) == "3"
    assert choices(model) == [choice, "auto", "auto"]
    assert {request.options for request in map(_hashable, model.requests)} == {(0.5, None)}


def _hashable(request: ChatRequest) -> Any:
    sent = request.options
    return type("Sent", (), {"options": (sent.temperature, sent.tool_choice)})


def test_a_method_and_a_call_have_choices_of_their_own() -> None:
    class Clerk(Protocol):
        def free(self, text: str) -> str: ...

        @options(tool_choice="none")
        def silent(self, text: str) -> str: ...

        @options(tool_choice="add")
        def chosen(self, text: str, how: ChatOptions) -> str: ...

    model = strict_provider("a", "b", "c", "d")
    clerk = create(Clerk, model, tools=[add], options=REQUIRED)
    clerk.free("x")
    clerk.silent("x")
    clerk.chosen("x", ChatOptions())
    clerk.chosen("x", ChatOptions(tool_choice="auto"))
    assert choices(model) == ["required", "none", "add", "auto"]


def test_a_typed_method_must_call_a_tool_before_it_can_answer() -> None:
    model = strict_provider(
        tool_calls_reply(("search", '{"text": "a"}')), tool_calls_reply(("Person", ANN, "c2"))
    )
    service = create(PersonService, model, tools=[search], options=REQUIRED)
    assert service.find("x") == Person("Ann", 31)
    assert (offered(model, 0), offered(model, 1)) == (["search"], ["search", "Person"])
    assert choices(model) == ["required", "required"]  # the second one is for a tool or the answer


def test_a_typed_method_that_must_not_call_tools_answers_at_once() -> None:
    model = strict_provider(tool_calls_reply(("Person", ANN)))
    service = create(PersonService, model, tools=[search], options=ChatOptions(tool_choice="none"))
    assert service.find("x") == Person("Ann", 31)
    assert (offered(model, 0), choices(model)) == (["Person"], ["Person"])


def test_a_call_that_was_not_allowed_does_not_run() -> None:
    runs = []

    def work() -> str:
        runs.append(1)
        return "done"

    model = strict_provider(tool_calls_reply(("work", "{}")), "Nothing to do.")
    service = text_service(model, work, options=ChatOptions(tool_choice="none"))
    assert service.ask("x") == "Nothing to do."
    assert (runs, choices(model)) == ([], ["none", "none"])


def test_a_resumed_call_is_past_its_first_round() -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    model = strict_provider(tool_calls_reply(("pay", "{}")), "Done.")
    service = text_service(model, pay, options=ChatOptions(tool_choice="pay"))
    with pytest.raises(ApprovalRequiredError) as caught:
        service.ask("x")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(service.ask, state, True) == "Done."
    assert choices(model) == ["pay", "auto"]


class Provides:
    def tools(self, invocation: object) -> list[Any]:
        return [add]


def test_a_choice_may_name_a_tool_of_a_provider() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    assert text_service(model, Provides(), options=ChatOptions(tool_choice="add")).ask("x") == "3"
    assert choices(model) == ["add", "auto"]


def test_a_choice_that_no_provider_has_is_reported_before_a_request() -> None:
    model = strict_provider()
    with pytest.raises(DefinitionError) as caught:
        text_service(model, Provides(), options=ChatOptions(tool_choice="sub")).ask("x")
    message = "TextService.ask: tool_choice is 'sub'; it must be one of auto, required, none, add"
    assert (str(caught.value), model.requests) == (message, [])


@pytest.mark.parametrize(
    ("choice", "tools", "message"),
    [
        ("sub", [add], "tool_choice is 'sub'; it must be one of auto, required, none, add"),
        ("required", [], "tool_choice is 'required', and there are no tools"),
        (7, [add], "tool_choice is 7; it must be a text"),
        (
            "none",
            [tool(name="none")(lambda: None)],
            "tool_choice is 'none', which is also the name of a tool; rename the tool",
        ),
    ],
)
def test_create_checks_the_choice(choice: Any, tools: list[Any], message: str) -> None:
    model, wanted = strict_provider(), ChatOptions(tool_choice=choice)
    with pytest.raises(DefinitionError) as caught:
        create(TextService, model, tools=tools, options=wanted)
    assert message in {problem.message for problem in caught.value.problems}
    with pytest.raises(DefinitionError) as caught:
        structured(model, str, tools=tools, options=wanted)
    assert message in {problem.message for problem in caught.value.problems}
    with pytest.raises(DefinitionError) as caught:
        ReActAgent("Ann", "Help.", model, tools, options=wanted)
    assert message in {problem.message for problem in caught.value.problems}


def test_the_choice_of_a_call_is_checked() -> None:
    class Clerk(Protocol):
        def ask(self, text: str, how: ChatOptions) -> str: ...

    with pytest.raises(DefinitionError, match="tool_choice is 'sub'; it must be one of"):
        create(Clerk, strict_provider(), tools=[add]).ask("x", ChatOptions(tool_choice="sub"))
    with pytest.raises(DefinitionError, match="tool_choice is 'sub'; it must be one of"):
        structured(strict_provider(), str, tools=[add]).invoke("x", options=ChatOptions(tool_choice="sub"))


def test_agents_and_structured_models_have_the_choice() -> None:
    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    assert ReActAgent("Ann", "Help.", model, [add], options=REQUIRED).reply("x").content == "3"
    assert choices(model) == ["required", "auto"]
    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    assert structured(model, str, tools=[add]).invoke("x", options=REQUIRED) == "3"
    assert choices(model) == ["required", "auto"]


# the requests


@dataclass
class Sent:
    model: Any
    required: Any
    named: Any
    none: Any


OPENAI = OpenAiChatModel("gpt-5-mini", api_key="k")
SENT = {
    "openai": Sent(
        OPENAI, {"tool_choice": "required"}, {"function": {"name": "add"}}, {"tool_choice": "none"}
    ),
    "responses": Sent(
        OpenAiResponsesModel("gpt-5-mini", api_key="k"),
        {"tool_choice": "required"},
        {"type": "function", "name": "add"},
        {"tool_choice": "none"},
    ),
    "anthropic": Sent(
        AnthropicChatModel("claude-sonnet-4-5", api_key="k"),
        {"type": "any"},
        {"type": "tool", "name": "add"},
        {"type": "none"},
    ),
    "gemini": Sent(
        GeminiChatModel("gemini-2.5-flash", api_key="k"),
        {"mode": "ANY"},
        {"mode": "ANY", "allowedFunctionNames": ["add"]},
        {"mode": "NONE"},
    ),
    "bedrock": Sent(
        BedrockChatModel("amazon.nova-pro-v1:0", region="us-east-1", api_key="k"),
        {"any": {}},
        {"tool": {"name": "add"}},
        {},
    ),
}


@pytest.mark.parametrize("provider", SENT)
def test_every_api_gets_the_choice(provider: str) -> None:
    sent = SENT[provider]
    for choice, part in (("required", sent.required), ("add", sent.named), ("none", sent.none)):
        service = text_service(sent.model, add, options=ChatOptions(tool_choice=choice))
        request = preview_request(service.ask, "x").request
        body = json.loads(sent.model.http_request(request, stream=False).body)
        text = json.dumps(part)[1:-1]
        assert text in json.dumps(body), body


def test_the_embedded_model_gets_the_choice() -> None:
    def constraint(choice: str) -> Any:
        service = text_service(strict_provider(), add, search, options=ChatOptions(tool_choice=choice))
        return reply_constraint(preview_request(service.ask, "x").request)

    assert [one.name for one in constraint("required").tools] == ["add", "search"]
    assert [one.name for one in constraint("search").tools] == ["search"]
    assert not constraint("search").allows_answer
    assert constraint("none").tools == ()


def test_the_embedded_model_is_not_told_of_tools_that_it_must_not_call() -> None:
    service = text_service(strict_provider(), add, options=ChatOptions(tool_choice="none"))
    body = chat_body(preview_request(service.ask, "x").request, ChatOptions(), "")
    assert body["messages"] == [{"role": "user", "content": "x"}]


def test_preview_shows_the_choice() -> None:
    service = text_service(strict_provider(), add, options=REQUIRED)
    assert preview(service.ask, "x").tool_choice == "required"


def test_a_model_cannot_have_a_choice_of_its_own() -> None:
    model = OpenAiChatModel("gpt-5-mini", api_key="k", options=REQUIRED)
    with pytest.raises(BadRequestError) as caught:
        model.complete(ChatRequest.of("x"))
    assert str(caught.value).endswith(
        "tool_choice is an option of services, methods and calls; pass Tooling(tools, choice) in the request "
        "of a model"
    )
