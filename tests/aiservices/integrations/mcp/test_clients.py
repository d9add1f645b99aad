"""McpTools with servers that lose sessions, answer with errors, or send odd tools and odd results."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest

pytest.importorskip("mcp")

from httpx2 import Auth, Request
from mcp import Client

from aiservices import AiMessage, ChatReply, Result, ScriptedChatModel, ToolCall, create
from aiservices.integrations.mcp import McpServerError, McpTools
from aiservices.tools.tool import Tool, ToolException

SERVER = str(Path(__file__).with_name("mcp_server.py"))
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
REPLY = ChatReply(AiMessage("", (ToolCall("1", "t", "{}"),)))
NULL_ID: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "Session not found"},
}


class Answer(NamedTuple):
    """What a server sends: a JSON value, or the bytes themselves."""

    status: int
    body: Any = None
    kind: str = "application/json"


CLOSED = Answer(0)  # the server closes the connection without an answer


class RawServer:
    """A server with sessions over HTTP, which remembers the methods that it received.

    Attributes:
        methods: The methods of the requests, and of the notifications.
        sessions: The sessions that it knows.
        tools: The tools that it lists.
        lost: The answer to a request in a session that it does not know.
        answers: Answers to requests, by method, instead of the usual ones.
    """

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.sessions: set[str] = set()
        self.tools: list[Any] = [{"name": "t", "inputSchema": OBJECT}]
        self.lost = Answer(404, NULL_ID)
        self.answers: dict[str, Answer] = {}
        self._count = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None: ...

            def do_GET(self) -> None:
                self._send(Answer(405))

            def do_DELETE(self) -> None:
                server.sessions.discard(self.headers["mcp-session-id"])
                self._send(Answer(200))

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._send(server.answer(message, self.headers.get("mcp-session-id")))

            def _send(self, answer: Answer) -> None:
                if answer is CLOSED:
                    self.close_connection = True
                    return
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("content-length", str(len(body)))
                if answer.body and "protocolVersion" in str(answer.body):
                    self.send_header("mcp-session-id", f"s{server._count}")
                self.end_headers()
                self.wfile.write(body)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/mcp"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, message: dict[str, Any], session: str | None) -> Answer:
        method = message.get("method", "")
        self.methods.append(method)
        if method in self.answers:
            return self.answers[method]
        if method == "initialize":
            self._count += 1
            self.sessions.add(f"s{self._count}")
            info = {"name": "raw", "version": "1"}
            return _result(message, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=info)
        if method == "server/discover":
            return Answer(404, b"", "text/plain")
        if session not in self.sessions:
            return self.lost
        if method == "tools/list":
            return _result(message, tools=self.tools)
        if method == "tools/call":
            time.sleep(0.05)
            return _result(message, content=[{"type": "text", "text": session}])
        return Answer(202)

    def count(self, method: str) -> int:
        return self.methods.count(method)


def _result(message: dict[str, Any], **members: Any) -> Answer:
    return Answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": members})


@pytest.fixture
def server() -> Iterator[RawServer]:
    raw = RawServer()
    yield raw
    raw.close()


class Clerk(Protocol):
    def answer(self, question: str) -> Result[str]: ...

    async def aanswer(self, question: str) -> Result[str]: ...


def model() -> ScriptedChatModel:
    return ScriptedChatModel([REPLY, "done"])


def first(tools: McpTools) -> Tool:
    listed = tools.tools()
    assert isinstance(listed, list)
    return listed[0]


def result_text(tools: McpTools) -> str:
    (run,) = create(Clerk, model(), tools=[tools]).answer("?").tool_runs
    return run.text


LOST = [
    Answer(404, NULL_ID),
    Answer(404, b"", "text/plain"),
    Answer(404, b"<html>", "text/html"),
    Answer(404, {**NULL_ID, "id": "server-error"}),
    Answer(400, {**NULL_ID, "error": {"code": -32000, "message": "No valid session ID provided"}}),
]


@pytest.mark.parametrize("lost", LOST)
def test_a_lost_session_is_opened_again_and_the_call_repeated(server: RawServer, lost: Answer) -> None:
    server.lost = lost
    with McpTools.http(server.url, timeout=20) as tools:
        assert first(tools).function() == "s1"
        server.sessions.clear()
        assert first(tools).function() == "s2"  # noticed by the list of tools
        tool = first(tools)
        server.sessions.clear()
        assert tool.function() == "s3"  # noticed by the call
        server.sessions.clear()
        assert result_text(tools) == "s4"
    assert server.count("initialize") == server.count("notifications/initialized") == 4
    assert not server.sessions


def test_async_methods_and_required_servers_open_a_session_again(server: RawServer) -> None:
    async def run() -> list[str]:
        async with McpTools.http(server.url, timeout=20, required=True) as tools:
            clerk, texts = create(Clerk, ScriptedChatModel([REPLY, "done"] * 2), tools=[tools]), []
            for _ in range(2):
                texts.append((await clerk.aanswer("?")).tool_runs[0].text)
                server.sessions.clear()
        return texts

    assert asyncio.run(run()) == ["s1", "s2"]


def test_calls_at_the_same_time_open_one_session_and_none_is_lost(server: RawServer) -> None:
    with McpTools.http(server.url, timeout=20) as tools, ThreadPoolExecutor(8) as pool:
        tool = first(tools)
        for session in ("s2", "s3"):
            server.sessions.clear()
            assert list(pool.map(lambda _: tool.function(), range(16))) == [session] * 16


def test_a_session_that_cannot_be_opened_again_is_an_error_at_once(server: RawServer) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool = first(tools)
        server.sessions.clear()
        server.answers["initialize"] = Answer(503, b"", "text/plain")
        began = time.monotonic()
        with pytest.raises(ToolException, match=r"^The server of this tool has stopped\.$"):
            tool.function()
        with pytest.raises(McpServerError) as caught:
            tools.tools()
        assert str(caught.value) == (
            f"the MCP server {server.url} cannot be reached: "
            "the session has ended, and cannot be opened: HTTP 503 Service Unavailable"
        )
        assert time.monotonic() - began < 10
        del server.answers["initialize"]
        assert first(tools).function() == "s2"


@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_an_error_without_the_id_of_the_request_ends_the_call(server: RawServer, status: int) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool = first(tools)
        error = {"code": -32601, "message": "not here"}
        server.answers["tools/call"] = Answer(status, {"jsonrpc": "2.0", "id": None, "error": error})
        began = time.monotonic()
        with pytest.raises(ToolException, match=r"^not here"):
            tool.function()
        assert time.monotonic() - began < 10
        assert server.count("tools/call") == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(401, {"error": "invalid_token"}), "HTTP 401 Unauthorized"),
        (Answer(403, b"", "text/plain"), "HTTP 403 Forbidden"),
        (
            Answer(429, {**NULL_ID, "error": {"code": 1, "message": "slow down"}}),
            "slow down (HTTP 429 Too Many Requests)",
        ),
        (Answer(500, b"{", "application/json"), "HTTP 500 Internal Server Error"),
    ],
)
def test_the_status_of_a_refusal_is_in_the_message(server: RawServer, answer: Answer, text: str) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool = first(tools)
        server.answers["tools/call"] = answer
        with pytest.raises(ToolException) as failed:
            tool.function()
        assert str(failed.value) == text
        server.answers |= {"tools/list": answer, "initialize": answer}
        with pytest.raises(McpServerError) as caught:
            tools.tools()
        assert str(caught.value) == f"the MCP server {server.url} cannot list its tools and resources: {text}"
    with pytest.raises(McpServerError) as caught, McpTools.http(server.url, timeout=20):
        pass
    assert str(caught.value) == f"the MCP server {server.url} cannot be opened: {text}"


def test_a_call_that_the_server_has_received_is_not_repeated(server: RawServer) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool = first(tools)
        server.answers["tools/call"] = CLOSED
        began = time.monotonic()
        with pytest.raises(ToolException, match=r"^The server of this tool has stopped\.$"):
            tool.function()
        assert time.monotonic() - began < 10
        assert server.count("tools/call") == 1
        del server.answers["tools/call"]
        assert tool.function() == "s1"


NAMELESS = "cannot be used: it has no name, or no schema of its arguments"
ODD_TOOLS = [
    {"name": "t", "inputSchema": {"properties": {"a": {"type": "string"}}}},
    {"name": "t", "inputSchema": {}},
    {"name": "t", "inputSchema": {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}}},
    {"name": "t", "inputSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}},
    {"name": "t", "inputSchema": {"anyOf": [OBJECT, {"type": "object", "properties": {}}]}},
    {"name": "t", "inputSchema": {"type": "object", "properties": None, "required": None}},
    {"name": "t", "inputSchema": OBJECT, "outputSchema": {"type": "array"}, "annotations": 3},
]


@pytest.mark.parametrize("tool", ODD_TOOLS)
def test_an_odd_tool_can_be_called(server: RawServer, tool: dict[str, Any]) -> None:
    server.tools = [tool, {"name": "good", "inputSchema": OBJECT}]
    with McpTools.http(server.url, timeout=20) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        assert ([one.name for one in listed], tools.problems) == (["t", "good"], ())
        assert result_text(tools) == "s1"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"name": "t"}, f"the tool t {NAMELESS}"),
        (
            {"inputSchema": {}},
            "the tool number 1 cannot be used: it has no name, or no schema of its arguments",
        ),
        (None, "the tool number 1 cannot be used: it has no name, or no schema of its arguments"),
        (
            {"name": "t", "inputSchema": {"type": "string"}},
            "the tool t cannot be used: its arguments are of the type string, not an object",
        ),
        (
            {"name": "t", "inputSchema": {"type": 5}},
            "the tool t cannot be used: the schema of its arguments is not a valid JSON Schema",
        ),
        (
            {"name": "t", "inputSchema": {"type": "object", "description": "x" * 1_000_000}},
            "the tool t cannot be used: the schema of its arguments has more than 1,000,000 bytes",
        ),
        (
            {"name": "t", "inputSchema": {}, "execution": {"taskSupport": "required"}},
            "the tool t cannot be used: it must be called as a task, which McpTools does not do",
        ),
    ],
)
def test_a_tool_that_cannot_be_called_does_not_stop_the_others(
    server: RawServer, tool: Any, problem: str
) -> None:
    server.tools = [tool, {"name": "good", "inputSchema": OBJECT}]
    with McpTools.http(server.url, timeout=20, required=True) as tools:
        assert tools.problems == (problem,)
        assert first(tools).name == "good"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")
@pytest.mark.parametrize("before", ["", "sleep 60 & "])  # a process that keeps the pipe open
def test_a_killed_process_ends_the_running_call_at_once(before: str) -> None:
    command = f"{before}exec {sys.executable} {SERVER}"
    with McpTools.stdio("sh", ["-c", command], timeout=60) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        by_name = {tool.name: tool for tool in listed}
        process = int(by_name["number"].function())
        began = time.monotonic()
        threading.Timer(0.5, os.kill, (process, signal.SIGKILL)).start()
        with pytest.raises(ToolException, match=r"^The server of this tool has stopped\.$"):
            by_name["slow"].function()
        assert time.monotonic() - began < 20
        process = int(by_name["number"].function())
        os.kill(process, signal.SIGKILL)
        time.sleep(2)
        assert int(by_name["number"].function()) != process  # it had not begun


TEXT = {"content": [{"type": "text", "text": "x"}]}
INVALID = "The answer is not valid JSON-RPC."
# answers to tools/call, without "jsonrpc" and "id", and what the model reads; an error begins with "!"
ODD_ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"result": TEXT}, "x"),
    ({"result": TEXT, "id": "3"}, "x"),
    ({"result": {"content": "x"}}, "x"),
    ({"result": {"content": ["x", "y"]}}, "x\ny"),
    ({"result": {"content": {"type": "text", "text": "x"}}}, "x"),
    ({"result": {**TEXT, "isError": None, "structuredContent": None}}, "x"),
    ({"result": {"structuredContent": {"a": 1}}}, '{"a":1}'),
    ({"result": {"content": [], "structuredContent": [1]}}, "[1]"),
    ({"result": {**TEXT, "structuredContent": 5}}, "x"),
    (
        {"result": {"content": [{"type": "hologram", "x": 1}, *TEXT["content"]]}},
        "[hologram left out: None]\nx",
    ),
    ({"result": {"content": [{"type": "image", "data": "eA=="}]}}, "[image left out: None]"),
    ({"result": {"content": [None]}}, "[content left out: None]"),
    ({"result": {}}, "!The server sent an invalid result."),
    ({"result": None}, f"!{INVALID}"),
    ({"result": []}, f"!{INVALID}"),
    ({}, f"!{INVALID}"),
    ({"error": "boom"}, "!boom"),
    ({"error": {"code": "E1", "message": "boom"}}, "!boom"),
    ({"error": {"message": "boom"}}, "!boom"),
    ({"error": {"code": 1}}, f"!{INVALID}"),
    # codes of the package mcp for its own errors
    ({"error": {"code": -32000, "message": "boom"}}, "!boom"),
    ({"error": {"code": -32001, "message": "boom"}}, "!boom"),
    ({"error": {"code": 1, "message": "a\x1b[2J\x9bb"}}, "!a[2Jb"),
    ({"result": {"content": [{"type": "text", "text": "a\ud83d"}]}}, "a\ufffd"),
]


def text_of(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except ToolException as error:
        return f"!{error}"


def test_an_odd_answer_over_http_is_read_or_an_error_at_once(server: RawServer) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool, texts = first(tools), []
        began = time.monotonic()
        for answer, _ in ODD_ANSWERS:
            server.answers["tools/call"] = Answer(200, {"jsonrpc": "2.0", "id": None, **answer})
            texts.append(text_of(tool.function))
        assert texts == [expected for _, expected in ODD_ANSWERS]
        assert (server.count("tools/call"), server.count("initialize")) == (len(ODD_ANSWERS), 1)
        assert time.monotonic() - began < 15


ODD_PROCESS = r"""
import json, sys
answers = json.loads(sys.argv[1])
def send(message):
    print(json.dumps(message), flush=True)
sys.stdout.buffer.write(b"Starting \xff\n\n[1]\n")
for line in sys.stdin:
    request = json.loads(line)
    method, answer = request.get("method"), {"jsonrpc": "2.0", "id": request.get("id")}
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        send({**answer, "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}})
    elif method == "tools/list":
        tool = {"name": "t", "inputSchema": {}, "outputSchema": {"type": "object", "required": ["b"]}}
        send({**answer, "result": {"tools": [tool], "nextCursor": ""}})
    elif method == "tools/call":
        sys.stdout.buffer.write(b"Working \xff\n")
        send({**answer, **answers.pop(0), "id": request["id"]})
    elif "id" in request:
        send({**answer, "error": {"code": -32601, "message": "no"}})
"""


def test_an_odd_answer_of_a_process_is_read_or_an_error_at_once() -> None:
    answers = json.dumps([answer for answer, _ in ODD_ANSWERS])
    with McpTools.stdio(sys.executable, ["-c", ODD_PROCESS, answers], timeout=20) as tools:
        tool, began = first(tools), time.monotonic()
        texts = [text_of(tool.function) for _ in ODD_ANSWERS]
        assert texts == [expected for _, expected in ODD_ANSWERS]
        assert time.monotonic() - began < 15


def test_a_client_of_the_program_reads_odd_tools_and_opens_sessions_again(server: RawServer) -> None:
    server.tools = [{"name": "t"}, {"name": "good", "inputSchema": {}}]
    with McpTools(lambda: Client(server.url), "the MCP server raw", timeout=20) as tools:
        assert tools.problems == (f"the tool t {NAMELESS}",)
        tool = first(tools)
        assert tool.function() == "s1"
        server.sessions.clear()
        assert tool.function() == "s2"


def test_an_invalid_first_answer_is_described(server: RawServer) -> None:
    server.answers["initialize"] = Answer(200, {"jsonrpc": "2.0", "id": 1, "result": {"capabilities": {}}})
    with pytest.raises(McpServerError) as caught, McpTools.http(server.url, timeout=20):
        pass
    assert str(caught.value) == (
        f"the MCP server {server.url} cannot be opened: "
        "its answer is invalid: protocolVersion: Field required"
    )


def test_every_request_is_signed_in(server: RawServer) -> None:
    class Counted(Auth):
        count = 0

        def auth_flow(self, request: Request) -> Generator[Request, Any, None]:
            self.count += 1
            yield request

    auth = Counted()
    with McpTools.http(server.url, auth=auth, timeout=20) as tools:
        assert first(tools).function() == "s1"
        server.sessions.clear()
        assert first(tools).function() == "s2"
    assert auth.count >= len(server.methods)


def test_a_failed_sign_in_is_an_error_of_its_call_only(server: RawServer) -> None:
    class Failing(Auth):
        fails = False

        def auth_flow(self, request: Request) -> Generator[Request, Any, None]:
            if self.fails:
                raise RuntimeError("the token cannot be renewed")
            yield request

    auth = Failing()
    with McpTools.http(server.url, auth=auth, timeout=20) as tools:
        tool = first(tools)
        auth.fails = True
        with pytest.raises(ToolException, match=r"^the token cannot be renewed$"):
            tool.function()
        auth.fails = False
        assert tool.function() == "s1"


def test_no_two_tools_have_the_same_name(server: RawServer) -> None:
    number = sha256(b"a b").hexdigest()[:8]
    names = ["a_b", f"a_b_{number}", "a b", "c" * 200, "c" * 199 + "d", "x", "x"]
    server.tools = [{"name": name, "inputSchema": OBJECT} for name in names]
    with McpTools.http(server.url, timeout=20) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        assert [len(tool.name) for tool in listed] == [3, 12, 64, 64, 1]
        assert len({tool.name for tool in listed}) == 5
        assert tools.problems == (
            f"the tool a b cannot be used: another tool has the name a_b_{number}",
            "the tool x cannot be used: the server lists several tools of this name",
        )


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("code", [-32601, -32602, -32603])
def test_an_error_about_another_session_is_not_a_lost_session(
    server: RawServer, status: int, code: int
) -> None:
    with McpTools.http(server.url, timeout=20) as tools:
        tool = first(tools)
        error = {"code": code, "message": "There is no training session 17."}
        server.answers["tools/call"] = Answer(status, {"jsonrpc": "2.0", "id": 3, "error": error})
        with pytest.raises(ToolException, match=r"^There is no training session 17\.$"):
            tool.function()
        assert (server.count("tools/call"), server.count("initialize")) == (1, 1)


CUT = Answer(200, b"data: {", "text/event-stream")


@pytest.mark.parametrize("failure", [CLOSED, CUT, Answer(500), Answer(404, NULL_ID), Answer(401)])
def test_a_call_that_fails_does_not_end_those_beside_it(server: RawServer, failure: Answer) -> None:
    answer, is_waiting, may_end = server.answer, threading.Event(), threading.Event()

    def answer_slowly(message: dict[str, Any], session: str | None) -> Answer:
        if message.get("params", {}).get("arguments") == {"a": "slow"}:
            is_waiting.set()
            may_end.wait(20)
            return _result(message, content=[{"type": "text", "text": "slow"}])
        return answer(message, session)

    server.answer = answer_slowly  # type: ignore[method-assign]
    with McpTools.http(server.url, timeout=20) as tools, ThreadPoolExecutor(1) as pool:
        tool = first(tools)
        slow = pool.submit(tool.function, a="slow")
        assert is_waiting.wait(20)
        server.answers["tools/call"] = failure
        with pytest.raises(ToolException):
            tool.function()
        del server.answers["tools/call"]
        assert str(tool.function()).startswith("s")
        may_end.set()
        assert slow.result() == "slow"
