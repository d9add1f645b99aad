"""Uses of an MCP client other than tools: questions of servers, requests to models, prompts, resources."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.server import Server
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    SamplingMessage,
    TextContent,
    Tool as ServerTool,
    ToolsCapability,
)

from aiservices import (
    AiMessage,
    AuthenticationError,
    BudgetExceededError,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    History,
    Image,
    Message,
    ModelServerError,
    Result,
    ScriptedChatModel,
    SharedBudget,
    SystemMessage,
    ToolCall,
    Usage,
    UserMessage,
    create,
)
from aiservices.integrations.mcp import McpQuestion, McpServerError, McpTools

SERVER = str(Path(__file__).with_name("mcp_server.py"))
both_eras = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
NO_ARGUMENTS: dict[str, Any] = {"type": "object"}
SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


def sampling(*messages: SamplingMessage, **settings: Any) -> CreateMessageRequest:
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=list(messages), **{"max_tokens": 50, **settings})
    )


def said(role: Any, text: str) -> SamplingMessage:
    return SamplingMessage(role=role, content=TextContent(text=text))


REQUESTS: dict[str, ElicitRequest | CreateMessageRequest] = {
    "form": ElicitRequest(params=ElicitRequestFormParams(message="Which size?", requested_schema=SIZE)),
    "page": ElicitRequest(
        params=ElicitRequestURLParams(message="Log in.", url="https://login.example", elicitation_id="1")
    ),
    "poem": sampling(
        said("user", "Hi"),
        said("assistant", "Hello"),
        said("user", "A poem!"),
        system_prompt="You are a poet.",
        temperature=0.5,
        stop_sequences=["END"],
    ),
    "picture": sampling(
        SamplingMessage(role="user", content=ImageContent(data="R0lGODlh", mime_type="image/gif"))
    ),
    "unfinished": sampling(said("user", "Hi"), said("assistant", "Hello")),
}


class Asking:
    """A server whose tools each send one request to the client, and return the answer.

    Attributes:
        tools: The names of its tools.
        server: The server of the package mcp.
    """

    def __init__(self) -> None:
        self.tools = list(REQUESTS)
        self.server = Server[Any]("asking", on_list_tools=self._list_tools, on_call_tool=self._call_tool)

    async def _list_tools(self, context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[ServerTool(name=name, input_schema=NO_ARGUMENTS) for name in self.tools]
        )

    async def _call_tool(self, context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        request = REQUESTS[params.name]
        if context.session.can_send_request:
            kind = ElicitResult if isinstance(request, ElicitRequest) else CreateMessageResult
            answer = await context.session.send_request(request, kind)
        elif params.input_responses is None:
            return InputRequiredResult(input_requests={"it": request})
        else:
            answer = params.input_responses["it"]
        return CallToolResult(content=[TextContent(text=_text(answer))])


def _text(answer: ElicitResult | CreateMessageResult) -> str:
    if isinstance(answer, ElicitResult):
        return f"{answer.action} {answer.content}"
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text} ({answer.stop_reason})"


class Clerk(Protocol):
    def answer(self, question: str) -> Result[str]: ...

    async def aanswer(self, question: str) -> Result[str]: ...


def tools_of(mode: str, **settings: Any) -> McpTools:
    asking = Asking()
    return McpTools(lambda: Client(asking.server, mode=mode), "the asking one", **settings)


def calls(name: str) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", name, "{}"),)))


def result_text(tools: McpTools, name: str) -> str:
    """Return the text that a model gets after it has called a tool."""
    (run,) = create(Clerk, ScriptedChatModel([calls(name), "done"]), tools=[tools]).answer("?").tool_runs
    return run.text


# --- questions to the user ---


@both_eras
@pytest.mark.parametrize(
    ("name", "answer", "text"),
    [
        ("form", {"size": 5}, "accept {'size': 5}"),
        ("form", None, "decline None"),
        ("form", False, "decline None"),
        ("page", True, "accept None"),
        ("page", False, "decline None"),
    ],
)
def test_the_program_answers_a_question_of_the_server(name: str, answer: Any, text: str, mode: str) -> None:
    questions: list[McpQuestion] = []

    def ask(question: McpQuestion) -> Any:
        questions.append(question)
        return answer

    with tools_of(mode, ask=ask) as tools:
        assert result_text(tools, name) == text
    expected = {
        "form": McpQuestion("the asking one", "Which size?", SIZE, None),
        "page": McpQuestion("the asking one", "Log in.", None, "https://login.example"),
    }
    assert questions == [expected[name]]


@both_eras
def test_an_async_function_answers_a_question(mode: str) -> None:
    async def ask(question: McpQuestion) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"size": 6}

    async def run() -> str:
        async with tools_of(mode, ask=ask) as tools:
            model = ScriptedChatModel([calls("form"), "done"])
            result = await create(Clerk, model, tools=[tools]).aanswer("?")
        return result.tool_runs[0].text

    assert asyncio.run(run()) == "accept {'size': 6}"


@both_eras
@pytest.mark.parametrize(("answer", "text"), [({}, "'size': 3"), ({"size": 4}, "'size': 4")])
def test_defaults_of_the_schema_are_filled_in(
    answer: dict[str, int], text: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"size": {"type": "integer", "default": 3}, "color": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["size"]}
    params = ElicitRequestFormParams(message="Which size?", requested_schema=schema)
    monkeypatch.setitem(REQUESTS, "form", ElicitRequest(params=params))
    with tools_of(mode, ask=lambda question: answer) as tools:
        assert result_text(tools, "form") == f"accept {{{text}}}"


@both_eras
@pytest.mark.parametrize(
    ("name", "answer", "problem"),
    [
        (
            "form",
            {"size": "big"},
            " does not fit the schema: $.size: 'big' is not of type 'integer'",
        ),
        ("form", {}, " does not fit the schema: $: 'size' is a required property"),
        ("form", True, " is True; return a dict of the fields, or None to decline"),
        (
            "page",
            {"size": 5},
            " is {'size': 5}; return True if the user opens the page, else False",
        ),
    ],
)
def test_a_wrong_answer_is_not_sent(
    name: str, answer: Any, problem: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with tools_of(mode, ask=lambda question: answer) as tools:
        assert "was not answered" in result_text(tools, name)
    assert f"the asking one: its question was not answered: the answer{problem}" in caplog.text


@both_eras
def test_an_error_of_the_program_is_not_sent_to_the_server(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(question: McpQuestion) -> None:
        raise RuntimeError("sk-secret")

    with tools_of(mode, ask=ask) as tools:
        assert "secret" not in result_text(tools, "form")
    assert "sk-secret" in caplog.text


@both_eras
def test_a_server_cannot_ask_if_the_program_does_not_allow_it(mode: str) -> None:
    with tools_of(mode) as tools:
        assert "not supported" in result_text(tools, "form").lower()
        assert "not supported" in result_text(tools, "poem").lower()


@both_eras
def test_the_time_of_a_person_does_not_count_for_the_timeout(mode: str) -> None:
    def ask(question: McpQuestion) -> dict[str, int]:
        time.sleep(1.2)
        return {"size": 5}

    with tools_of(mode, ask=ask, timeout=0.5) as tools:
        assert result_text(tools, "form") == "accept {'size': 5}"


# --- requests to a model ---


@both_eras
def test_the_server_uses_the_model_that_the_program_names(mode: str) -> None:
    poet = ScriptedChatModel([ChatReply(AiMessage("Roses"), model="poet-1")])
    with tools_of(mode, sampling=poet) as tools:
        assert result_text(tools, "poem") == "poet-1: Roses (endTurn)"
    (request,) = poet.requests
    assert request.messages == (
        SystemMessage("You are a poet."),
        UserMessage("Hi"),
        AiMessage("Hello"),
        UserMessage("A poem!"),
    )
    options = request.options
    assert (options.max_tokens, options.temperature, options.stop) == (50, 0.5, ("END",))


@both_eras
def test_the_text_up_to_the_limit_of_the_server_is_sent(mode: str) -> None:
    poet = ScriptedChatModel([ChatReply(AiMessage("Ros"), FinishReason.LENGTH, model="poet-1")])
    with tools_of(mode, sampling=poet) as tools:
        assert result_text(tools, "poem").endswith(": Ros (maxTokens)")


@both_eras
def test_images_reach_the_model(mode: str) -> None:
    painter = ScriptedChatModel(["a cat"])
    with tools_of(mode, sampling=painter) as tools:
        assert result_text(tools, "picture").endswith("a cat (endTurn)")
    message = painter.requests[0].messages[0]
    assert isinstance(message, UserMessage)
    assert message.parts == (Image(b"GIF89a", "image/gif"),)


@both_eras
def test_unsupported_messages_are_refused(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    with tools_of(mode, sampling=ScriptedChatModel(["x"])) as tools:
        assert "was not answered" in result_text(tools, "unfinished")
    assert "the last message must be one of the user" in caplog.text


def priced(text: str) -> ChatReply:
    return ChatReply(AiMessage(text), usage=Usage(60, 40))


@both_eras
@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_requests_of_the_server_count_for_the_budgets_around_the_call(kind: str, mode: str) -> None:
    poet = ScriptedChatModel([priced("Roses")] * 2)
    model = ScriptedChatModel([calls("poem"), "done"] * 2)

    def blocking() -> None:
        with tools_of(mode, sampling=poet) as tools:
            service = create(Clerk, model, tools=[tools])
            with SharedBudget(tokens=10_000) as spent:
                service.answer("?")
            assert spent.usage.total_tokens >= 100
            assert spent.requests == 3

    async def run() -> None:
        async with tools_of(mode, sampling=poet) as tools:
            service = create(Clerk, model, tools=[tools])
            with SharedBudget(tokens=10_000) as spent:
                await service.aanswer("?")
            assert spent.usage.total_tokens >= 100
            assert spent.requests == 3

    blocking() if kind == "blocking" else asyncio.run(run())
    assert len(poet.requests) == 1


@both_eras
def test_requests_of_the_server_are_inner_calls(mode: str) -> None:
    model = ScriptedChatModel([calls("poem"), "done"])
    with tools_of(mode, sampling=ScriptedChatModel([priced("Roses")])) as tools:
        result = create(Clerk, model, tools=[tools]).answer("?")
    (inner,) = result.inner_calls
    assert (inner.qualname, inner.own_usage.total_tokens) == ("McpSampling.reply", 100)
    assert result.usage.total_tokens == result.own_usage.total_tokens + 100


@both_eras
@pytest.mark.parametrize(
    "error", [AuthenticationError("wrong key"), ModelServerError("down", retryable=False)]
)
def test_a_wrong_key_ends_the_call_and_other_errors_of_the_model_do_not(error: Exception, mode: str) -> None:
    def fail(request: ChatRequest) -> str:
        raise error

    with tools_of(mode, sampling=ScriptedChatModel(fail)) as tools:
        service = create(Clerk, ScriptedChatModel([calls("poem"), "done"]), tools=[tools])
        if isinstance(error, AuthenticationError):
            with pytest.raises(AuthenticationError, match="wrong key"):
                service.answer("?")
        else:
            result = service.answer("?")
            assert result.value == "done"
            assert "was not answered" in result.tool_runs[0].text


@both_eras
def test_an_exhausted_budget_stops_the_requests_of_the_server(mode: str) -> None:
    poet = ScriptedChatModel([priced("Roses")])
    model = ScriptedChatModel([calls("poem"), "done"])
    with (
        tools_of(mode, sampling=poet) as tools,
        pytest.raises(BudgetExceededError),
        SharedBudget(requests=1),
    ):
        create(Clerk, model, tools=[tools]).answer("?")
    assert (len(model.requests), poet.requests) == (1, [])


@both_eras
def test_concurrent_calls_count_for_their_own_budgets(mode: str) -> None:
    barrier = threading.Barrier(2)

    def answer(request: ChatRequest) -> ChatReply | str:
        if len(request.messages) > 1:
            return "done"
        barrier.wait(20)
        return calls("poem")

    async def spend(service: Clerk) -> int:
        with SharedBudget(tokens=10_000) as spent:
            await asyncio.to_thread(service.answer, "?")
        return spent.requests

    async def run(tools: McpTools) -> list[int]:
        service = create(Clerk, ScriptedChatModel(answer), tools=[tools])
        return await asyncio.gather(spend(service), spend(service))

    with tools_of(mode, sampling=ScriptedChatModel([priced("Roses")] * 2)) as tools:
        assert asyncio.run(run(tools)) == [3, 3]


def test_an_unknown_model_is_an_error_of_the_definition() -> None:
    with pytest.raises(DefinitionError):
        tools_of("legacy", sampling="nobody:knows")


# --- resources and prompts ---


@pytest.fixture(scope="module")
def documents() -> Iterator[McpTools]:
    with McpTools.stdio(sys.executable, [SERVER], timeout=60) as tools:
        yield tools


def test_a_program_lists_and_reads_resources(documents: McpTools) -> None:
    assert [one.uri for one in documents.list_resources()] == ["notes://today", "pictures://cat"]
    assert documents.read_resource("notes://today") == ["Water the plants."]
    assert documents.read_resource("notes://friday") == ["Rested on friday."]
    assert documents.read_resource("pictures://cat") == [Image(b"GIF89a", "image/gif", name="cat")]


def test_a_resource_can_be_passed_to_a_method(documents: McpTools) -> None:
    class Painter(Protocol):
        def describe(self, picture: Image) -> str: ...

    (picture,) = documents.read_resource("pictures://cat")
    assert isinstance(picture, Image)
    model = ScriptedChatModel(["a cat"])
    assert create(Painter, model).describe(picture) == "a cat"
    message = model.requests[0].messages[-1]
    assert isinstance(message, UserMessage)
    assert picture in message.parts


def test_a_prompt_becomes_messages_for_a_history(documents: McpTools) -> None:
    class Chat(Protocol):
        def chat(self, history: Annotated[list[Message], History], text: str) -> str: ...

    (prompt,) = documents.list_prompts()
    assert (prompt.name, prompt.description) == ("review", "Asks for a review.")
    messages = documents.get_prompt("review", text="my poem")
    assert messages == [UserMessage("Review this: my poem"), AiMessage("With pleasure.")]
    model = ScriptedChatModel(["Good."])
    create(Chat, model).chat(messages, "Thanks!")
    assert model.requests[0].messages == (*messages, UserMessage("Thanks!"))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda tools: tools.read_resource("notes:"),
            "did not send the resource notes:: Unknown resource: notes:",
        ),
        (lambda tools: tools.get_prompt("ode"), "did not send the prompt ode: "),
    ],
)
def test_an_error_of_the_server_is_one_of_the_program(
    documents: McpTools, use: Callable[[McpTools], object], message: str
) -> None:
    with pytest.raises(McpServerError) as caught:
        use(documents)
    assert message in str(caught.value)


def test_async_programs_read_resources_and_prompts() -> None:
    async def read() -> tuple[Any, ...]:
        async with McpTools.stdio(sys.executable, [SERVER], timeout=60) as tools:
            return (
                [one.name for one in await tools.alist_resources()],
                await tools.aread_resource("notes://today"),
                [one.name for one in await tools.alist_prompts()],
                len(await tools.aget_prompt("review", text="x")),
            )

    assert asyncio.run(read()) == (["notes", "cat"], ["Water the plants."], ["review"], 2)


def test_a_server_without_resources_and_prompts_has_none() -> None:
    with tools_of("legacy", resources=True) as tools:
        assert (tools.list_resources(), tools.list_prompts()) == ([], [])
        assert result_text(tools, "list_resources") == "There are none."


# --- several servers, and lists that change ---


def test_tools_of_two_servers_have_prefixes() -> None:
    model = ScriptedChatModel([calls("b_form"), "done"])
    answers = {"a": {"size": 1}, "b": {"size": 2}}

    def answering(name: str) -> Any:
        return lambda question: answers[name]

    with (
        tools_of("legacy", prefix="a_", ask=answering("a")) as first,
        tools_of("legacy", prefix="b_", ask=answering("b")) as second,
    ):
        (run,) = create(Clerk, model, tools=[first, second]).answer("?").tool_runs
    assert run.text == "accept {'size': 2}"


def test_tools_with_equal_names_are_an_error_that_names_the_prefix() -> None:
    with tools_of("legacy") as first, tools_of("legacy") as second, pytest.raises(DefinitionError) as caught:
        create(Clerk, ScriptedChatModel(["x"]), tools=[first, second]).answer("?")
    assert str(caught.value) == (
        "Clerk.answer: two tools are called form; rename one of them with tool(name=…) or McpTools(prefix=…)"
    )


class Growing(Asking):
    """A server with a tool that adds another one; it says that its list may change."""

    def __init__(self, *, announces: bool) -> None:
        super().__init__()
        self.tools = ["grow"]
        self.lists = 0
        announced = ToolsCapability(list_changed=announces)
        get_capabilities = self.server.get_capabilities

        def capabilities(*arguments: Any, **settings: Any) -> Any:
            return get_capabilities(*arguments, **settings).model_copy(update={"tools": announced})

        self.server.get_capabilities = capabilities  # type: ignore[method-assign]

    async def _list_tools(self, context: Any, params: Any) -> ListToolsResult:
        self.lists += 1
        return await super()._list_tools(context, params)

    async def _call_tool(self, context: Any, params: Any) -> CallToolResult | InputRequiredResult:
        if params.name == "grow":
            self.tools.append("new")
        return CallToolResult(content=[TextContent(text=f"{params.name} ran")])


@pytest.mark.parametrize("mode", ["auto", "legacy"])  # without a handshake, nothing is announced
@pytest.mark.parametrize(
    ("announces", "text", "lists"), [(True, "new ran", 4), (False, "There is no tool", 2)]
)
def test_new_tools_are_available_within_a_call_if_the_server_announces_changes(
    announces: bool, text: str, lists: int, mode: str
) -> None:
    growing = Growing(announces=announces)
    model = ScriptedChatModel([calls("grow"), calls("new"), "done"])
    with McpTools(lambda: Client(growing.server, mode=mode), "the growing one") as tools:
        runs = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    assert runs[0].text == "grow ran"
    assert runs[1].text.startswith(text)
    assert growing.lists == lists  # one when it was opened


# --- servers that fail ---


class Failing(Asking):
    """A server that stops to list its tools."""

    is_failing = False

    async def _list_tools(self, context: Any, params: Any) -> ListToolsResult:
        if self.is_failing:
            raise RuntimeError("broken")
        return await super()._list_tools(context, params)


@both_eras
def test_a_failing_server_does_not_end_the_call(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    with McpTools(lambda: Client(failing.server, mode=mode), "the failing one") as tools:
        failing.is_failing = True
        model = ScriptedChatModel(["done"])
        assert create(Clerk, model, tools=[tools]).answer("?").value == "done"
        assert model.requests[0].tooling is None
        assert "the call continues without tools: the failing one cannot list its tools" in caplog.text


@both_eras
def test_a_failing_server_ends_the_call_if_it_is_required(mode: str) -> None:
    failing = Failing()
    with McpTools(lambda: Client(failing.server, mode=mode), "the failing one", required=True) as tools:
        failing.is_failing = True
        with pytest.raises(McpServerError) as caught:
            create(Clerk, ScriptedChatModel(["done"]), tools=[tools]).answer("?")
        assert str(caught.value).startswith("the failing one cannot list its tools and resources: ")


def test_a_server_that_cannot_be_started_again_does_not_end_the_call(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(Path(SERVER).read_text("utf-8"), "utf-8")
    with McpTools.stdio(sys.executable, [str(script)], timeout=60) as tools:
        deadly = ChatReply(AiMessage("", (ToolCall("call_1", "deadly", "{}"),)))
        service = create(Clerk, ScriptedChatModel([deadly, "one", "two"]), tools=[tools])
        script.write_text("raise SystemExit", "utf-8")
        assert service.answer("?").tool_runs[0].text == "The server of this tool has stopped."
        assert service.answer("?").value == "two"
