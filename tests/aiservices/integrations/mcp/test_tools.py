"""Tests of McpTools with a real MCP server that runs as a process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from served import wait_until_listening

pytest.importorskip("mcp")

from mcp import Client, MCPError
from mcp.server import Server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool as ServerTool,
)

from aiservices import (
    AiMessage,
    Audio,
    ChatReply,
    File,
    Image,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    create,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.integrations.mcp import McpServerError, McpTools
from aiservices.integrations.mcp.contents import answer_of_result
from aiservices.tools.tool import Tool, ToolAnswer, ToolException

SERVER = str(Path(__file__).with_name("mcp_server.py"))
NAME = f"the MCP server '{sys.executable} {SERVER}'"


class Clerk(Protocol):
    @user_message("{{it}}")
    def answer(self, question: str) -> Result[str]: ...

    @user_message("{{it}}")
    async def aanswer(self, question: str) -> Result[str]: ...

    @user_message("{{it}}")
    def stream(self, question: str) -> Stream[str]: ...


class Blocking(Protocol):
    @user_message("{{it}}")
    def answer(self, question: str) -> Result[str]: ...


def server(**settings: Any) -> McpTools:
    return McpTools.stdio(sys.executable, [SERVER], **{"timeout": 60, **settings})


def calls(name: str, **arguments: Any) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", name, json.dumps(arguments)),)))


def listed(tools: McpTools) -> dict[str, Tool]:
    server_tools = tools.tools()
    assert isinstance(server_tools, list)
    return {tool.name: tool for tool in server_tools}


def result_text(tools: McpTools, reply: ChatReply) -> str:
    """Return the text that the model receives for its tool call."""
    model = ScriptedChatModel([reply, "done"])
    (run,) = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    assert model.requests[1].messages[-1] == run.message
    return run.text


@pytest.fixture(scope="module")
def tools() -> Iterator[McpTools]:
    with server(resources=True) as opened:
        yield opened


def test_the_model_receives_the_servers_description_of_a_tool(tools: McpTools) -> None:
    model = ScriptedChatModel(["Sunny."])
    create(Clerk, model, tools=[tools]).answer("?")
    tooling = model.requests[0].tooling
    assert tooling is not None
    tools_by_name = {tool.name: tool for tool in tooling.tools}
    assert tools_by_name["weather"].description == "Tells the weather."
    assert tools_by_name["weather"].strict
    assert tools_by_name["weather"].parameters == {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "name of a city (at least 2 characters)"}},
        "required": ["city"],
        "additionalProperties": False,
    }


def test_structured_content_becomes_json(tools: McpTools) -> None:
    assert result_text(tools, calls("weather", city="Rome")) == '{"city":"Rome","degrees":21.5}'


def test_text_content_is_passed_on_unchanged(tools: McpTools) -> None:
    assert result_text(tools, calls("joined", words=["a", "b"], by="-")) == "a-b"


def test_an_omitted_argument_has_the_default_of_the_server(tools: McpTools) -> None:
    assert result_text(tools, calls("joined", words=["a", "b"], by=None)) == "a b"


def test_an_image_reaches_the_model(tools: McpTools) -> None:
    model = ScriptedChatModel([calls("drawn"), "done"])
    (run,) = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    assert run.message.parts == ("A cat.", Image(b"GIF89a", "image/gif"))
    assert (model.requests[1].messages[-1], run.result) == (run.message, "A cat.")


def test_an_image_of_a_resource_reaches_the_model(tools: McpTools) -> None:
    model = ScriptedChatModel([calls("read_resource", uri="pictures://cat"), "done"])
    (run,) = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    assert run.message.parts == ("[image/gif, 6 bytes]", Image(b"GIF89a", "image/gif", name="cat"))


def test_a_tool_without_content_returns_done(tools: McpTools) -> None:
    assert result_text(tools, calls("nothing")) == "Done."


def test_the_model_receives_the_error_message_of_the_server(tools: McpTools) -> None:
    assert result_text(tools, calls("broken")) == "Error executing tool broken: the shelf is empty"


def test_arguments_are_checked_before_the_server_is_called(tools: McpTools) -> None:
    assert result_text(tools, calls("weather", city="R")) == (
        'The arguments cannot be read:\n- $.city: expected at least 2 characters, found "R"'
    )


def test_characters_that_providers_reject_are_replaced_in_names(tools: McpTools) -> None:
    assert result_text(tools, calls("env_value", variable="HOME")) != "unset"


def test_the_tools_for_resources_list_and_read_them(tools: McpTools) -> None:
    assert result_text(tools, calls("list_resources")) == (
        "- notes://today: What is to be done today\n- pictures://cat: cat\n"
        "- notes://{day}: What was done on a day"
    )
    assert result_text(tools, calls("read_resource", uri="notes://today")) == "Water the plants."
    assert result_text(tools, calls("read_resource", uri="notes://monday")) == "Rested on monday."


def test_a_missing_resource_is_an_error_of_the_server(tools: McpTools) -> None:
    assert result_text(tools, calls("read_resource", uri="x://none")) == "Unknown resource: x://none"


def test_an_async_method_awaits_the_tools(tools: McpTools) -> None:
    model = ScriptedChatModel([calls("weather", city="Rome"), "21.5"])
    result = asyncio.run(create(Clerk, model, tools=[tools]).aanswer("?"))
    assert (result.value, [run.text for run in result.tool_runs]) == (
        "21.5",
        ['{"city":"Rome","degrees":21.5}'],
    )


def test_a_stream_runs_the_tools(tools: McpTools) -> None:
    model = ScriptedChatModel([calls("joined", words=["a"]), "a it is"])
    result = create(Clerk, model, tools=[tools]).stream("?").result()
    assert (result.value, [run.text for run in result.tool_runs]) == ("a it is", ["a"])


def test_several_tool_calls_run_in_parallel(tools: McpTools) -> None:
    both = (ToolCall("1", "joined", '{"words": ["a"]}'), ToolCall("2", "weather", '{"city": "Rome"}'))
    model = ScriptedChatModel([ChatReply(AiMessage("", both)), "done"])
    runs = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    assert [run.text for run in runs] == ["a", '{"city":"Rome","degrees":21.5}']


def test_a_single_tool_of_a_server_can_be_passed_to_create(tools: McpTools) -> None:
    model = ScriptedChatModel([calls("weather", city="Rome"), "done"])
    result = create(Blocking, model, tools=[listed(tools)["weather"]]).answer("?")
    assert [run.text for run in result.tool_runs] == ['{"city":"Rome","degrees":21.5}']


def test_after_async_with_the_connection_uses_the_running_loop() -> None:
    def connection_threads() -> int:
        return sum(thread.name == "aiservices-mcp" for thread in threading.enumerate())

    async def ask() -> list[str]:
        before = connection_threads()
        async with server() as tools:
            model = ScriptedChatModel([calls("weather", city="Rome"), "done"])
            result = await create(Clerk, model, tools=[tools]).aanswer("?")
            assert connection_threads() == before
        return [run.text for run in result.tool_runs]

    assert asyncio.run(ask()) == ['{"city":"Rome","degrees":21.5}']


def test_a_blocking_method_can_run_in_another_thread_than_the_loop() -> None:
    async def ask() -> str:
        async with server() as tools:
            return await asyncio.to_thread(result_text, tools, calls("joined", words=["a"]))

    assert asyncio.run(ask()) == "a"


def test_a_blocking_method_on_the_loop_of_the_connection_raises_an_error() -> None:
    async def ask() -> None:
        async with server() as tools:
            create(Clerk, ScriptedChatModel(["x"]), tools=[tools]).answer("?")

    with pytest.raises(McpServerError) as caught:
        asyncio.run(ask())
    assert str(caught.value) == (
        f"{NAME} was opened on this event loop, which a blocking call would block; use async methods, "
        "or open it with: with McpTools… as tools"
    )


@pytest.mark.slow
def test_new_tools_of_the_server_are_available_in_the_next_call() -> None:
    with server(only=["add_tool"]) as tools:
        assert list(listed(tools)) == ["add_tool"]
    with server() as tools:
        assert "new_tool" not in listed(tools)
        assert result_text(tools, calls("add_tool")) == "Added."
        assert result_text(tools, calls("new_tool")) == "42"


def test_an_unchanged_tool_is_created_once(tools: McpTools) -> None:
    assert listed(tools)["weather"].arguments is listed(tools)["weather"].arguments


def test_only_and_prefix_select_and_rename_tools() -> None:
    with server(only=["weather", "env.value"], prefix="x_", env={"LIBRARY_TEST": "yes"}) as tools:
        assert list(listed(tools)) == ["x_weather", "x_env_value"]
        assert result_text(tools, calls("x_env_value", variable="LIBRARY_TEST")) == "yes"


def test_names_with_stars_stand_for_several_tools() -> None:
    with server(only=["*r", "no*"], exclude=["number", "caller"]) as tools:
        assert list(listed(tools)) == ["weather", "nothing"]


@pytest.mark.parametrize("setting", ["only", "exclude"])
def test_an_unknown_name_in_only_or_exclude_raises_an_error_when_opened(setting: str) -> None:
    with pytest.raises(McpServerError) as caught, server(**{setting: ["wether"]}):
        pass
    assert str(caught.value).startswith(
        f"{NAME} does not have the tool wether; its tools are: weather, joined, "
    )


@pytest.mark.slow
def test_a_slow_tool_call_times_out() -> None:
    for timeout in (1, 4, 16, 32):  # it also limits the start of the server, which is slow on a busy machine
        with suppress(McpServerError), server(timeout=timeout) as tools:
            began = time.monotonic()
            assert result_text(tools, calls("slow")) == "The tool slow did not finish in time."
            assert time.monotonic() - began < timeout + 25
            assert result_text(tools, calls("joined", words=["still", "there"])) == "still there"
            return
    pytest.fail("the server did not start")


@pytest.mark.slow
def test_a_crashed_server_is_reported_to_the_model_and_restarted_by_the_next_call() -> None:
    with server() as tools:
        assert result_text(tools, calls("deadly")) == "The server of this tool has stopped."
        assert result_text(tools, calls("joined", words=["back"])) == "back"


def test_a_crashed_server_is_restarted_within_a_call() -> None:
    with server() as tools:
        model = ScriptedChatModel([calls("deadly"), calls("joined", words=["back"]), "done"])
        runs = create(Clerk, model, tools=[tools]).answer("?").tool_runs
        assert [run.text for run in runs] == ["The server of this tool has stopped.", "back"]


@pytest.mark.slow
def test_a_crashed_server_is_restarted_by_async_methods() -> None:
    async def ask() -> list[str]:
        async with server() as tools:
            model = ScriptedChatModel([calls("deadly"), "oh", calls("joined", words=["back"]), "well"])
            clerk = create(Clerk, model, tools=[tools])
            results = [await clerk.aanswer("?"), await clerk.aanswer("?")]
        return [run.text for result in results for run in result.tool_runs]

    assert asyncio.run(ask()) == ["The server of this tool has stopped.", "back"]


def test_a_server_that_cannot_start_is_named_in_the_error() -> None:
    with pytest.raises(McpServerError) as caught, McpTools.stdio("no-such-command", ["--x"]):
        pass
    assert str(caught.value) == (
        "the MCP server 'no-such-command …' cannot be opened: "
        "[Errno 2] No such file or directory: 'no-such-command'"
    )


@pytest.mark.parametrize(
    ("command", "args", "shown"),
    [
        ("npx", ["-y", "@shop/server@1.2", "--api-key", "KEY"], "npx -y @shop/server@1.2 …"),
        ("/opt/bin/python3.13", ["-m", "shop.server"], "/opt/bin/python3.13 -m shop.server"),
        ("python", ["-c", "key = 'KEY'"], "python -c …"),
        ("uvx", ["shop-server", "KEY"], "uvx shop-server …"),
        ("uvx", ["--from", "git+https://ann:KEY@example.org/shop", "shop-server"], "uvx --from …"),
        (r"C:\Tools\NPX.CMD", [r"C:\shop\server.js", "KEY"], r"C:\Tools\NPX.CMD C:\shop\server.js …"),
        ("shop-server", ["KEY"], "shop-server …"),
        ("docker", ["run", "-e", "API_KEY=KEY", "shop"], "docker …"),
        ("shop-server", [], "shop-server"),
    ],
)
def test_keys_in_the_arguments_of_a_command_are_not_shown(command: str, args: list[str], shown: str) -> None:
    with pytest.raises(McpServerError) as caught:
        McpTools.stdio(command, args).tools()
    assert str(caught.value) == (
        f"the MCP server {shown!r} is not open; open it first: with McpTools… as tools"
    )


def test_opening_a_silent_server_times_out() -> None:
    with (
        pytest.raises(McpServerError) as caught,
        McpTools.stdio(sys.executable, [SERVER, "silent"], timeout=0.7),
    ):
        pass
    assert str(caught.value) == (
        f"the MCP server '{sys.executable} {SERVER} …' did not answer within 0.7 s; "
        "check that it starts, or increase timeout"
    )


def test_a_server_that_exits_at_once_is_named_in_the_error() -> None:
    with pytest.raises(McpServerError) as caught, McpTools.stdio(sys.executable, ["-c", "pass"]):
        pass
    assert (
        str(caught.value) == f"the MCP server '{sys.executable} -c pass' cannot be opened: Connection closed"
    )


@pytest.mark.parametrize(
    "use", [McpTools.tools, lambda tools: result_text(tools, calls("weather", city="Rome"))]
)
def test_using_a_closed_server_raises_an_error(use: Callable[[McpTools], object]) -> None:
    with pytest.raises(McpServerError) as caught:
        use(server())
    assert str(caught.value) == f"{NAME} is not open; open it first: with McpTools… as tools"


def test_a_tool_of_a_closed_server_raises_an_error() -> None:
    with server() as tools:
        tool = listed(tools)["weather"]
    with pytest.raises(McpServerError) as caught:
        tool.function(city="Rome")
    assert str(caught.value) == f"{NAME} is not open; open it first: with McpTools… as tools"


@pytest.mark.slow
def test_a_server_can_be_reopened_but_not_opened_twice() -> None:
    tools = server()
    with tools:
        with pytest.raises(RuntimeError) as caught, tools:
            pass
        assert str(caught.value) == f"{NAME} is already open"
    with tools:
        assert result_text(tools, calls("joined", words=["again"])) == "again"


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ImportError) as caught:
        server()
    assert str(caught.value) == 'McpTools needs the package mcp: pip install "aiservices[mcp]"'


def test_without_the_packages_the_import_names_the_command() -> None:
    program = (
        "import sys\nsys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
        "try:\n    from aiservices.integrations.mcp import McpTools\nexcept ImportError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ('McpTools needs the package mcp-types: pip install "aiservices[mcp]"')


def test_a_server_at_a_url_receives_the_headers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, str(port)])
    try:
        wait_until_listening(port)
        with McpTools.http(f"http://127.0.0.1:{port}/mcp", headers={"X-Caller": "Ann"}, timeout=20) as tools:
            assert result_text(tools, calls("caller")) == "Ann"
            assert result_text(tools, calls("weather", city="Rome")) == '{"city":"Rome","degrees":21.5}'
    finally:
        process.kill()
        process.wait()


def test_an_unreachable_url_is_named_without_its_secrets() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    url = f"http://ann:secret@127.0.0.1:{port}/mcp?token=secret"
    with pytest.raises(McpServerError) as caught, McpTools.http(url, timeout=5):
        pass
    assert str(caught.value).startswith(f"the MCP server http://127.0.0.1:{port}/mcp cannot be opened: ")
    assert "secret" not in str(caught.value)


def test_a_blocking_tool_raises_the_error_of_the_server(tools: McpTools) -> None:
    with pytest.raises(ToolException) as caught:
        listed(tools)["broken"].function()
    assert str(caught.value) == "Error executing tool broken: the shelf is empty"


def test_many_threads_share_one_server(tools: McpTools) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda n: result_text(tools, calls("joined", words=[str(n)])), range(24)))
    assert texts == [str(n) for n in range(24)]


def test_a_cancelled_call_leaves_the_connection_usable() -> None:
    async def ask() -> str:
        async with server() as tools:
            clerk = create(Clerk, ScriptedChatModel([calls("slow"), "late"]), tools=[tools])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(clerk.aanswer("?"), 1)
            model = ScriptedChatModel([calls("joined", words=["on"]), "done"])
            result = await create(Clerk, model, tools=[tools]).aanswer("?")
        return result.tool_runs[0].text

    assert asyncio.run(ask()) == "on"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signal 0 is of POSIX")
def test_the_process_of_a_server_ends_with_the_block() -> None:
    with server() as tools:
        number = int(result_text(tools, calls("number")))
        os.kill(number, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
def test_a_server_killed_between_two_calls_is_restarted() -> None:
    with server() as tools:
        number = int(result_text(tools, calls("number")))
        os.kill(number, signal.SIGKILL)
        assert int(result_text(tools, calls("number"))) != number


def test_an_agent_uses_the_tools_of_a_server(tools: McpTools) -> None:
    script = [calls("weather", city="Rome"), "21.5 degrees."] * 2
    friday = ReActAgent("Friday", "You are Friday.", ScriptedChatModel(script), [tools])
    replies = [friday.reply("How warm?"), asyncio.run(friday.areply("How warm?"))]
    assert [(reply.content, [str(done) for done in reply.trace]) for reply in replies] == [
        (
            "21.5 degrees.",
            ['weather({"city": "Rome"}) → {"city":"Rome","degrees":21.5}', "21.5 degrees."],
        )
    ] * 2


async def _two_tools(context: Any, params: Any) -> ListToolsResult:
    good, broken = {"type": "object"}, {"type": "object", "properties": {"a": {"type": "number?"}}}
    return ListToolsResult(
        tools=[ServerTool(name="good", input_schema=good), ServerTool(name="broken", input_schema=broken)]
    )


@pytest.mark.parametrize("required", [False, True])
def test_a_tool_with_an_invalid_schema_is_left_out_and_named(
    required: bool, caplog: pytest.LogCaptureFixture
) -> None:
    odd = Server[Any]("odd", on_list_tools=_two_tools)
    with McpTools(lambda: Client(odd), "the odd one", required=required) as tools:
        model = ScriptedChatModel(["x"])
        create(Clerk, model, tools=[tools]).answer("?")
        assert model.requests[0].tooling is not None
        assert [one.name for one in model.requests[0].tooling.tools] == ["good"]
        (problem,) = tools.problems
        assert problem.startswith("the tool broken cannot be used: the JSON Schema 'broken_arguments' is inv")
        assert [record.message for record in caplog.records if "broken" in record.message] == [
            f"the odd one: {problem}; leave it out with exclude=[…]"
        ]
    with McpTools(lambda: Client(odd), "the odd one", exclude=["bro*"]) as tools:
        assert {name: tool.description for name, tool in listed(tools).items()} == {"good": "good"}
        assert tools.problems == ()


def _tools_named(*names: str, **settings: Any) -> McpTools:
    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[ServerTool(name=name, input_schema={"type": "object"}) for name in names]
        )

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(text=f"{params.name} was called")])

    odd = Server[Any]("odd", on_list_tools=list_tools, on_call_tool=call_tool)
    return McpTools(lambda: Client(odd), "the odd one", **settings)


@pytest.mark.parametrize(("first", "second"), [("n" * 64 + "a", "n" * 64 + "b"), ("a.b", "a_b"), ("é", "è")])
def test_names_that_are_equal_after_shortening_get_a_number(first: str, second: str) -> None:
    with _tools_named(first, second) as tools:
        names = list(listed(tools))
        assert len(set(names)) == 2
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
        assert [result_text(tools, calls(name)) for name in names] == [
            f"{first} was called",
            f"{second} was called",
        ]
        assert list(listed(tools)) == names


def test_a_tool_of_a_server_may_have_the_name_of_a_tool_for_resources() -> None:
    with _tools_named("read_resource", resources=True) as tools:
        first, *others = listed(tools)
        assert re.fullmatch("read_resource_[0-9a-f]{8}", first)
        assert others == ["list_resources", "read_resource"]


def test_a_tool_that_is_listed_twice_is_used_once() -> None:
    with _tools_named("a", "a") as tools:
        assert list(listed(tools)) == ["a"]
        assert tools.problems == ("the tool a cannot be used: the server lists several tools of this name",)


async def _refused(context: Any, params: Any) -> ListToolsResult:
    raise MCPError(-32001 - 10, "not today")


def test_a_server_that_cannot_list_its_tools_is_named_in_the_error() -> None:
    with (
        pytest.raises(McpServerError) as caught,
        McpTools(lambda: Client(Server[Any]("odd", on_list_tools=_refused)), "the odd one"),
    ):
        pass
    assert str(caught.value) == "the odd one cannot list its tools and resources: not today"


@pytest.mark.slow
def test_an_error_inside_async_with_closes_the_connection() -> None:
    async def ask() -> None:
        tools = server(only=["wether"])
        for _ in range(2):
            with pytest.raises(McpServerError, match="does not have the tool wether"):
                async with tools:
                    pass

    asyncio.run(ask())


def test_texts_and_links_of_a_result_are_text_and_resources_that_no_model_takes_become_notes() -> None:
    text = TextResourceContents(uri="notes://a", text="Milk.")
    blob = BlobResourceContents(uri="notes://b", mime_type="application/zip", blob="aGk=")
    result = CallToolResult(
        content=[
            EmbeddedResource(type="resource", resource=text),
            EmbeddedResource(type="resource", resource=blob),
            ResourceLink(type="resource_link", name="c", uri="notes://c"),
        ]
    )
    assert answer_of_result(result) == (
        "Milk.\n[resource left out: notes://b, application/zip]\n[resource c: notes://c]"
    )


def test_media_follow_the_structured_content() -> None:
    csv = BlobResourceContents(uri="notes://a.csv", mime_type="text/csv", blob="YSxi")
    pdf = BlobResourceContents(uri="notes://b.pdf", mime_type="application/pdf", blob="JVBERg==")
    result = CallToolResult(
        content=[
            TextContent(text='{"n": 1}'),
            AudioContent(data="UklGRg==", mime_type="audio/x-wav"),
            EmbeddedResource(resource=csv),
            EmbeddedResource(resource=pdf),
            ImageContent(data="", mime_type="image/png"),
            ImageContent(data="PHN2Zz4=", mime_type="image/svg+xml"),
            ImageContent(data="!", mime_type="gif"),
        ],
        structured_content={"n": 1},
    )
    answer = answer_of_result(result)
    assert isinstance(answer, ToolAnswer)
    assert answer.text == (
        '{"n":1}\na,b\n[image left out: image/png]\n[image left out: image/svg+xml]\n[image left out: gif]'
    )
    assert answer.contents == [
        Audio(b"RIFF", "audio/wav"),
        File(b"%PDF", "application/pdf", name="b.pdf"),
    ]
    assert answer.data == {"n": 1}


@pytest.mark.parametrize(
    ("mime_type", "base64", "expected"),
    [
        ("application/json", "e30=", "{}"),
        ("application/ld+json; charset=utf-8", "e30=", "{}"),
        ("application/x-yaml", "YTog4pyT", "a: ✓"),
        ("TEXT/PLAIN", "YQ==", "a"),
        (None, "iVBORw0KGgo=", [Image(b"\x89PNG\r\n\x1a\n", "image/png", name="c d")]),
        ("application/octet-stream", "JVBERi0=", [File(b"%PDF-", "application/pdf", name="c d")]),
        (None, "AAAA", "[resource left out: a://b/c%20d, of an unknown type]"),
        ("application/octet-stream", "AAAA", "[resource left out: a://b/c%20d, application/octet-stream]"),
    ],
)
def test_a_file_is_text_or_media_by_its_type_or_its_first_bytes(
    mime_type: str | None, base64: str, expected: object
) -> None:
    contents = BlobResourceContents(uri="a://b/c%20d", blob=base64, mime_type=mime_type)
    answer = answer_of_result(CallToolResult(content=[EmbeddedResource(resource=contents)]))
    assert (answer if isinstance(answer, str) else answer.contents) == expected


def test_media_that_structured_content_repeats_are_no_text() -> None:
    png, pdf = "iVBORw0KGgo=", "JVBERg=="
    blob = BlobResourceContents(uri="notes://b.pdf", mime_type="application/pdf", blob=pdf)
    structured = {"image": {"data": png}, "file": pdf, "empty": ""}
    result = CallToolResult(
        content=[
            ImageContent(data=png, mime_type="image/png"),
            EmbeddedResource(resource=blob),
            ImageContent(data="", mime_type="image/png"),
        ],
        structured_content=structured,
    )
    answer = answer_of_result(result)
    assert isinstance(answer, ToolAnswer)
    assert answer.text.splitlines()[0] == '{"image":{"data":"[image]"},"file":"[resource]","empty":""}'
    assert (len(answer.contents), answer.data) == (2, structured)


def test_an_error_without_a_message_has_a_default_text() -> None:
    with pytest.raises(ToolException) as caught:
        answer_of_result(CallToolResult(content=[], is_error=True))
    assert str(caught.value) == "The tool failed."


@pytest.mark.slow
def test_a_stopped_server_at_a_url_is_an_error_until_it_runs_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, str(port)])
    try:
        wait_until_listening(port)
        with McpTools.http(f"http://127.0.0.1:{port}/mcp", timeout=10) as tools:
            tool = listed(tools)["weather"]
            process.kill()
            process.wait()
            with pytest.raises(McpServerError):
                listed(tools)
            with pytest.raises(ToolException) as caught:
                tool.function(city="Rome")
            assert str(caught.value) == "The server of this tool has stopped."
            with pytest.raises(McpServerError) as caught:
                listed(tools)
            assert str(caught.value).startswith(f"the MCP server http://127.0.0.1:{port}/mcp c")
            process = subprocess.Popen([sys.executable, SERVER, str(port)])
            wait_until_listening(port)
            assert listed(tools)["weather"].function(city="Rome") == '{"city":"Rome","degrees":21.5}'
    finally:
        process.kill()
        process.wait()
