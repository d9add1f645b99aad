"""ToolSearch: the model sees a search tool, and the tools that it has found."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from loopback import Loopback, Reply
from tool_calling import (
    CALL_KINDS,
    AsyncTextService,
    TextService,
    aadd,
    add,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    ChatReply,
    ChatRequest,
    DecisionChatModel,
    DefinitionError,
    MemoryId,
    ScriptedChatModel,
    SuspendedCall,
    Tool,
    ToolContext,
    ToolLimits,
    ToolSearch,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.memory import ChatMemory
from aiservices.retrieval import Content, EmbeddingRetriever, Query


def weather_in(city: str) -> str:
    """Return the weather forecast for a city."""
    return f"rain in {city}"


def openIssues(repository: str) -> list[int]:  # names of MCP servers look like this
    """List the tickets that nobody has closed."""
    return [17]


def send_mail(to: str, text: str) -> str:
    """Write to somebody.

    Args:
        to: the e-mail address
        text: what to write
    """
    return f"sent to {to}"


@tool(needs_approval=True)
def transfer_money(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"


OFFICE = (weather_in, openIssues, send_mail, transfer_money)


def searches(query: str, call_id: str = "s1") -> ChatReply:
    return tool_calls_reply(("search_tools", json.dumps({"query": query}), call_id))


WEATHER = ("weather_in", '{"city": "Rome"}', "w1")


def offered(model: ScriptedChatModel) -> list[list[str]]:
    return [
        [] if request.tooling is None else [one.name for one in request.tooling.tools]
        for request in model.requests
    ]


def found(search: ToolSearch, query: str) -> list[str]:
    """Return the names of the tools that a search finds."""
    model = strict_provider(searches(query), "Done.")
    text_service(model, search).ask("x")
    text = messages_to(model)[-1].text
    return [one["name"] for one in json.loads(text)] if text.startswith("[") else []


# the search in a call


@every_call_kind
def test_the_model_sees_the_search_and_then_what_it_found(kind: str) -> None:
    model = strict_provider(searches("weather forecast"), tool_calls_reply(WEATHER), "It rains.")
    assert CALL_KINDS[kind](text_service(model, add, ToolSearch(OFFICE))) == "It rains."
    before, after = ["add", "search_tools"], ["add", "search_tools", "weather_in"]
    assert offered(model) == [before, after, after]
    result = '[{"name":"weather_in","description":"Return the weather forecast for a city."}]'
    assert [message.text for message in messages_to(model)] == ["x", "", result, "", "rain in Rome"]


def test_what_was_found_earlier_stays() -> None:
    model = strict_provider(searches("weather"), searches("mail", "s2"), "Done.")
    text_service(model, ToolSearch(OFFICE)).ask("x")
    assert offered(model)[-1] == ["search_tools", "weather_in", "send_mail"]


def test_a_tool_that_was_not_found_cannot_be_called() -> None:
    model = strict_provider(tool_calls_reply(WEATHER), "Done.")
    text_service(model, ToolSearch(OFFICE)).ask("x")
    assert messages_to(model)[-1].text == "There is no tool weather_in. The tools are: search_tools."


def test_a_search_without_a_result_says_so() -> None:
    model = strict_provider(searches("dance"), "Done.")
    text_service(model, ToolSearch(OFFICE)).ask("x")
    message = "No tool was found. Describe in other words what the tool should do."
    assert (messages_to(model)[-1].text, offered(model)[-1]) == (message, ["search_tools"])


def test_some_tools_are_always_offered() -> None:
    model = strict_provider("Done.")
    search = ToolSearch(OFFICE, always=["send_mail"], name="find_tools", description="Finds office tools.")
    text_service(model, search).ask("x")
    assert offered(model) == [["find_tools", "send_mail"]]
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert tooling.tools[0].description == "Finds office tools."
    assert tooling.tools[0].parameters["properties"]["query"]["description"] == (
        "what the tool should do, in a few words"
    )


def test_a_call_that_waits_for_approval_keeps_what_was_found() -> None:
    model = strict_provider(
        searches("invoice"), tool_calls_reply(("transfer_money", '{"amount": 5}', "t1")), "Paid."
    )
    service = text_service(model, ToolSearch(OFFICE))
    with pytest.raises(ApprovalRequiredError) as caught:
        service.ask("x")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(service.ask, state, True) == "Paid."
    assert messages_to(model)[-1].text == "paid 5"
    assert offered(model)[-1] == ["search_tools", "transfer_money"]


def test_a_later_call_of_the_conversation_has_what_was_found() -> None:
    class Clerk(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, user: Annotated[str, MemoryId]) -> str: ...

    model = strict_provider(searches("weather"), "Which city?", tool_calls_reply(WEATHER), "It rains.", "Hm?")
    clerk = create(Clerk, model, tools=[ToolSearch(OFFICE)], interceptors=[ChatMemory()])
    clerk.ask("x", "ann")
    assert clerk.ask("Rome.", "ann") == "It rains."
    clerk.ask("x", "bob")
    assert offered(model)[2:] == [["search_tools", "weather_in"]] * 2 + [["search_tools"]]


def test_a_result_that_was_rewritten_or_cut_finds_nothing() -> None:
    model = strict_provider(searches("weather"), "Done.")
    service = text_service(model, ToolSearch(OFFICE), tool_limits=ToolLimits(max_characters=20))
    service.ask("x")
    assert offered(model)[-1] == ["search_tools"]


def test_an_agent_searches() -> None:
    model = strict_provider(searches("weather"), tool_calls_reply(WEATHER), "It rains.")
    assert ReActAgent("Ann", "Help.", model, [ToolSearch(OFFICE)]).reply("x").content == "It rains."


def test_calls_at_the_same_time_do_not_share_what_they_found() -> None:
    search = ToolSearch(OFFICE)

    async def both() -> list[list[list[str]]]:
        models = [strict_provider(searches(query), "Done.") for query in ("weather", "mail")]
        services = [create(AsyncTextService, model, tools=[search]) for model in models]
        await asyncio.gather(*(service.ask("x") for service in services))
        return [offered(model) for model in models]

    assert asyncio.run(both()) == [
        [["search_tools"], ["search_tools", "weather_in"]],
        [["search_tools"], ["search_tools", "send_mail"]],
    ]


# by words


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("forecast", ["weather_in"]),
        ("open issues", ["openIssues"]),
        ("OPEN ISSUE", ["openIssues"]),
        ("ticket", ["openIssues"]),
        ("e-mail address", ["send_mail"]),
        ("pay invoices", ["transfer_money"]),
        ("send money", ["transfer_money", "send_mail"]),
        ("", []),
    ],
)
def test_words_are_searched_in_names_descriptions_and_parameters(query: str, names: list[str]) -> None:
    assert sorted(found(ToolSearch(OFFICE), query)) == sorted(names)


def test_the_limit_keeps_the_best_ones() -> None:
    tools = [_named(f"list_part_{number}", "Lists parts.") for number in range(20)]
    tools.append(_named("list_orders", "Lists orders of customers."))
    assert found(ToolSearch(tools, limit=2), "list orders of a customer")[0] == "list_orders"
    assert len(found(ToolSearch(tools, limit=2), "list")) == 2


def _named(name: str, description: str) -> Callable[..., str]:
    def work() -> str:
        return name

    return tool(name=name, description=description)(work)


# by retrievers, functions and models


class Words:
    """Embeds a text as how often it has some words."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Any:
        import numpy as np

        self.texts += texts
        return np.array(
            [[text.lower().count(word) for word in ("weather", "mail", "money")] for text in texts],
            np.float32,
        )


def test_a_retriever_searches_by_embeddings_and_gets_each_tool_once() -> None:
    pytest.importorskip("numpy")
    words = Words()
    search = ToolSearch(OFFICE, by=EmbeddingRetriever(words, max_results=1))
    assert found(search, "weather") == ["weather_in"]
    assert found(search, "my money") == ["transfer_money"]
    assert len(words.texts) == 4 + 2


class AsyncRetriever:
    def __init__(self) -> None:
        self.contents: list[Content] = []

    def add(self, contents: Sequence[Content]) -> None:
        self.contents += contents

    async def retrieve(self, query: Query, /) -> list[Content]:
        await asyncio.sleep(0)
        return [content for content in self.contents if query.text in content.text]


def test_an_async_retriever_serves_async_and_blocking_methods() -> None:
    model = strict_provider(searches("forecast"), "Done.", searches("forecast"), "Done.")
    asyncio.run(create(AsyncTextService, model, tools=[ToolSearch(OFFICE, by=AsyncRetriever())]).ask("x"))
    assert offered(model)[-1] == ["search_tools", "weather_in"]
    create(TextService, model, tools=[ToolSearch(OFFICE, by=AsyncRetriever())]).ask("x")
    assert offered(model)[-1] == ["search_tools", "weather_in"]


def test_a_function_searches() -> None:
    def by_length(query: str, tools: Sequence[Tool]) -> list[str]:
        return [one.name for one in sorted(tools, key=lambda one: len(one.name))]

    async def first(query: str, tools: Sequence[Tool]) -> list[str]:
        return [tools[0].name, "unknown"]

    assert found(ToolSearch(OFFICE, by=by_length, limit=2), "x") == ["send_mail", "weather_in"]
    model = strict_provider(searches("x"), "Done.")
    asyncio.run(create(AsyncTextService, model, tools=[ToolSearch(OFFICE, by=first)]).ask("x"))
    assert offered(model)[-1] == ["search_tools", "weather_in"]


def test_a_function_that_returns_tools_instead_of_names_fails(caplog: pytest.LogCaptureFixture) -> None:
    assert found(ToolSearch(OFFICE, by=lambda query, tools: tools), "x") == []  # type: ignore[arg-type,return-value]
    assert "it must return the names of tools" in caplog.text


def test_a_model_searches() -> None:
    chooser = ScriptedChatModel(['{"value": ["send_mail", "openIssues"]}'])
    assert found(ToolSearch(OFFICE, by=chooser), "report a bug") == ["send_mail", "openIssues"]
    prompt = chooser.requests[0].messages[-1].text
    assert "Task: report a bug" in prompt
    assert "- transfer_money: Pay an invoice." in prompt


def test_a_decision_endpoint_says_for_each_tool_whether_it_fits() -> None:
    shares = {"weather_in": 0.7, "openIssues": 0.1, "send_mail": 0.9, "transfer_money": 0.2}
    answers = [
        {"type": "predicate", "name": f"q{number}", "probability": share}
        for number, share in enumerate(shares.values(), 1)
    ]
    body = {"id": "d", "model": "luna", "answers": answers, "usage": {"input_tokens": 9}}
    with Loopback() as server:
        server.reply(lambda request: Reply(200, json.dumps(body).encode()))
        chooser = DecisionChatModel(
            "luna", provider="openai-decisions", base_url=server.base_url, api_key="k"
        )
        assert found(ToolSearch(OFFICE, by=chooser), "tell Ann about rain") == ["send_mail", "weather_in"]
        sent = server.requests[0].json
    assert "Is this tool useful for the task?" in sent["questions"][0]["instructions"]
    assert "tell Ann about rain" in json.dumps(sent)


# providers


class Later:
    def __init__(self, *rounds: Sequence[Any], dynamic: bool = False) -> None:
        self.rounds, self.dynamic, self.asked = rounds, dynamic, 0

    def tools(self, invocation: object) -> list[Any]:
        self.asked += 1
        return list(self.rounds[min(self.asked, len(self.rounds)) - 1])


class AsyncLater(Later):
    async def tools(self, invocation: object) -> list[Any]:  # type: ignore[override]
        return super().tools(invocation)


def test_the_tools_of_a_provider_are_collected_once_per_call() -> None:
    provider = Later(OFFICE)
    model = strict_provider(searches("weather"), searches("mail", "s2"), "Done.")
    text_service(model, ToolSearch([provider, add], always=["openIssues"])).ask("x")
    assert offered(model)[-1] == ["search_tools", "openIssues", "weather_in", "send_mail"]
    assert provider.asked == 1


def test_a_dynamic_provider_inside_is_asked_before_each_request() -> None:
    provider = Later([weather_in], [weather_in, send_mail], dynamic=True)
    model = strict_provider(searches("mail"), searches("mail", "s2"), "Done.")
    text_service(model, ToolSearch([provider])).ask("x")
    assert offered(model) == [["search_tools"], ["search_tools"], ["search_tools", "send_mail"]]


def test_an_async_provider_inside_is_for_async_methods() -> None:
    model = strict_provider(searches("add"), "Done.")
    search = ToolSearch([AsyncLater([aadd])])
    asyncio.run(create(AsyncTextService, model, tools=[search]).ask("x"))
    assert offered(model)[-1] == ["search_tools", "aadd"]
    with pytest.raises(DefinitionError, match=r"AsyncLater\.tools is async; only async methods can await it"):
        create(TextService, strict_provider(), tools=[search])


SERVER = """
from mcp.server import MCPServer

server = MCPServer("shelf")
for number in range(300):
    def work(title: str, number: int = number) -> str:
        return f"{number}: {title}"
    server.add_tool(work, name=f"shelf_{number}", description=f"Puts a book on shelf number {number}.")
server.run()
"""


def test_the_tools_of_an_mcp_server_with_hundreds_of_tools_are_searched(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    from aiservices.integrations.mcp import McpTools

    script = tmp_path / "server.py"
    script.write_text(SERVER)
    call = ("shelf_217", '{"title": "Emma"}', "b1")
    with McpTools.stdio(sys.executable, [str(script)]) as tools:
        model = strict_provider(searches("book on shelf 217"), tool_calls_reply(call), "Done.")
        text_service(model, ToolSearch([tools], limit=3)).ask("x")
        assert messages_to(model)[-1].text == '{"result":"217: Emma"}'
        names = offered(model)
        assert (names[0], len(names[1]), names[1][1]) == (["search_tools"], 4, "shelf_217")
        model = strict_provider(searches("book on shelf 217"), tool_calls_reply(call), "Done.")
        asyncio.run(create(AsyncTextService, model, tools=[ToolSearch([tools])]).ask("x"))
        assert messages_to(model)[-1].text == '{"result":"217: Emma"}'


# definitions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ToolSearch([add, add]),
            "two tools are called add; rename one of them with tool(name=…)",
        ),
        (
            lambda: ToolSearch([_named("search_tools", "")]),
            "two tools are called search_tools; rename ",
        ),
        (
            lambda: ToolSearch([add], name="a b"),
            "'a b' is not a valid tool name; use 1 to 64 ",
        ),
        (lambda: ToolSearch([add], always=["sub"]), "always names sub; the tools are: add"),
        (lambda: ToolSearch([add], always="add"), "always is 'add'; pass a list of names"),
        (lambda: ToolSearch([add], limit=0), "limit is 0; it must be at least 1"),
        (lambda: ToolSearch([add], by=lambda query: []), "cannot be called with (query, tools)"),  # type: ignore[arg-type,misc]
        (lambda: ToolSearch([add], by=EmbeddingRetriever), "it is a class; pass an object of it"),  # type: ignore[arg-type]
        (lambda: ToolSearch([add], by=Finds()), "it has no method add for the descriptions"),  # type: ignore[arg-type]
        (lambda: ToolSearch([add], by=5), "has the type int; pass a function of (query, tools)"),  # type: ignore[arg-type]
    ],
)
def test_wrong_settings_are_reported_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        make()
    assert message in str(caught.value)
    assert str(caught.value).startswith("ToolSearch: ")


class Finds:
    def retrieve(self, query: Query, /) -> list[Content]:
        return []


def test_create_checks_the_tools_inside() -> None:
    def needs_user(user: Annotated[str, ToolContext]) -> str:
        return user

    with pytest.raises(DefinitionError) as caught:
        create(AsyncTextService, strict_provider(), tools=[ToolSearch([needs_user])])
    assert "the tool needs_user needs user, and the method has no such parameter" in str(caught.value)


def test_two_tools_with_one_name_from_providers_end_the_call() -> None:
    model = strict_provider()
    for sources in ([Later([add]), Later([add])], [add, Later([add])], [Later([add, add])]):
        with pytest.raises(DefinitionError) as caught:
            text_service(model, ToolSearch(sources)).ask("x")
        message = "TextService.ask: two tools are called add; rename one of them with tool(name=…)"
        assert str(caught.value).startswith(message)
    with pytest.raises(DefinitionError, match="always names sub; the tools are: add"):
        text_service(model, ToolSearch([Later([add])], always=["sub"])).ask("x")
    assert model.requests == []


def test_a_request_without_a_search_costs_only_the_search_tool() -> None:
    sent: list[ChatRequest] = []

    def answer(request: ChatRequest) -> str:
        sent.append(request)
        return "Done."

    tools = [_named(f"tool_{number}", "Does something.") for number in range(300)]
    text_service(ScriptedChatModel(answer), ToolSearch(tools)).ask("x")
    assert sent[0].tooling is not None
    assert len(sent[0].tooling.tools) == 1
