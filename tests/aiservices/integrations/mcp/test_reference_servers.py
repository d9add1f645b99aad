"""McpTools with the seven reference servers of MCP, which npm and pip install into private folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol, TypeAlias

import pytest
from served import wait_until_listening

pytest.importorskip("mcp")

from aiservices import AiMessage, Audio, ChatReply, Image, Result, ScriptedChatModel, ToolCall, create
from aiservices.integrations.mcp import McpQuestion, McpTools
from aiservices.models.media import Media

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]  # a busy machine starts processes slowly

NPM_VERSION = "2026.8.31"
NPM_SERVERS = ("everything", "filesystem", "memory", "sequential-thinking")
PYTHON_SERVERS = ("mcp-server-fetch==2026.10.24", "mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19")
BIG = "x" * 1_000_000
PNG, WAV = b"\x89PNG\r\n\x1a\n", b"RIFF\x00\x00\x00\x00WAVE"
PAGE = b"<html><body><h1>Lamps</h1><p>A red lamp.</p></body></html>"


class Server(NamedTuple):
    """How a server is started, and the folder that it may use."""

    command: list[str]
    env: dict[str, str]
    folder: Path

    def tools(self, **settings: Any) -> McpTools:
        # A busy machine starts Node slowly.
        chosen = {"timeout": 60, **settings}
        return McpTools.stdio(self.command[0], self.command[1:], env=self.env, **chosen)


Start: TypeAlias = Callable[[str], Server]


@pytest.fixture(scope="module")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so four reference servers of MCP cannot be run")
    folder = tmp_path_factory.mktemp("npm")
    packages = [f"@modelcontextprotocol/server-{name}@{NPM_VERSION}" for name in NPM_SERVERS]
    options = ("--prefer-offline", "--no-audit", "--no-fund", "--prefix", str(folder))
    _install([npm, "install", *options, *packages])
    return folder / "node_modules" / ".bin"


@pytest.fixture(scope="module")
def python_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    options = ("--quiet", "--disable-pip-version-check", "--target", str(folder))
    _install([sys.executable, "-m", "pip", "install", *options, *PYTHON_SERVERS])
    return folder


def _install(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"the reference servers of MCP cannot be installed: {done.stderr[-300:]}")


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    def new_server(name: str) -> Server:
        if name in NPM_SERVERS:
            folder = request.getfixturevalue("npm_folder")
            command = [str(folder / f"mcp-server-{name}")]
            env = {"PATH": os.environ["PATH"], "MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
        else:
            command = [sys.executable, "-m", f"mcp_server_{name}"]
            # If fetch finds npm, it installs packages during its first call.
            path = str(tmp_path) if name == "fetch" else os.environ["PATH"]
            env = {"PYTHONPATH": str(request.getfixturevalue("python_folder")), "PATH": path}
        arguments = {
            "filesystem": [str(tmp_path)],
            "git": ["--repository", str(tmp_path)],
            "fetch": ["--ignore-robots-txt", "--allow-private-ips"],
        }
        return Server([*command, *arguments.get(name, [])], env, tmp_path)

    return new_server


class Clerk(Protocol):
    def answer(self, question: str) -> Result[str]: ...


class Answer(NamedTuple):
    """What the model reads of the result of a tool; ``text`` begins with "!" if the tool failed."""

    text: str
    media: list[Media]


def call(tools: McpTools, name: str, **arguments: object) -> Answer:
    reply = ChatReply(AiMessage("", (ToolCall("1", name, json.dumps(arguments)),)))
    model = ScriptedChatModel([reply, "done"])
    (run,) = create(Clerk, model, tools=[tools]).answer("?").tool_runs
    message: Any = model.requests[1].messages[-1]
    media = [part for part in message.contents if not isinstance(part, str)]
    return Answer(f"!{run.text}" if run.error else run.text, media)


def read(tools: McpTools, name: str, **arguments: object) -> Any:
    return json.loads(call(tools, name, **arguments).text)


def test_everything(start: Start) -> None:
    questions: list[McpQuestion] = []

    def ask(question: McpQuestion) -> dict[str, object]:
        questions.append(question)
        return {"name": "Ann"}

    model = ScriptedChatModel(["It is nine."])
    with start("everything").tools(ask=ask, sampling=model, resources=True) as tools:
        assert tools.problems == (
            "the tool simulate-research-query cannot be used: "
            "it must be called as a task, which McpTools does not do",
        )
        assert call(tools, "echo", message="größe 🙂") == Answer("Echo: größe 🙂", [])
        assert call(tools, "get-sum", a=2, b=3).text == "The sum of 2 and 3 is 5."
        assert call(tools, "echo").text.startswith("!The arguments cannot be read:")
        (image,) = call(tools, "get-tiny-image").media
        assert (type(image), image.media_type) == (Image, "image/png")
        note = call(tools, "get-annotated-message", messageType="error", includeImage=True)
        assert (note.text, len(note.media)) == ("Error: Operation failed", 1)
        weather = read(tools, "get-structured-content", location="New York")
        assert weather == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
        assert "[resource Text Resource 2: demo://" in call(tools, "get-resource-links", count=3).text
        for kind in ("Text", "Blob"):
            text = call(tools, "get-resource-reference", resourceType=kind, resourceId=1).text
            assert "Resource 1: This is a" in text
        done = call(tools, "trigger-long-running-operation", duration=1, steps=4).text
        assert done == "Long running operation completed. Duration: 1 seconds, Steps: 4."
        assert call(tools, "toggle-simulated-logging").text.startswith("Started simulated")
        filled = call(tools, "trigger-elicitation-request").text
        assert "Ann" in filled
        assert "It was a dark and stormy night." in filled  # the default of the schema
        assert len(questions) == 1
        assert "It is nine." in call(tools, "trigger-sampling-request", prompt="What time is it?").text
        assert "demo://resource/static/document/architecture.md" in call(tools, "list_resources").text
        uri = "demo://resource/dynamic/blob/1"
        assert call(tools, "read_resource", uri=uri).text.startswith("Resource 1: This is a base64 blob")
        assert call(tools, "read_resource", uri="demo://no").text.startswith("!MCP error -32602: Resource")
        assert [prompt.name for prompt in tools.list_prompts()][:2] == ["simple-prompt", "args-prompt"]
        (prompt,) = tools.get_prompt("args-prompt", city="Rome")
        assert prompt.text == "What's weather in Rome?"
        assert len(tools.get_prompt("resource-prompt", resourceType="Text", resourceId="1")) == 2


def test_filesystem(start: Start) -> None:
    server = start("filesystem")
    folder = server.folder.resolve()
    (folder / "big.txt").write_text(BIG)
    (folder / "a.png").write_bytes(PNG)
    (folder / "a.wav").write_bytes(WAV)
    with server.tools() as tools:
        path = str(folder / "größe.txt")
        assert "Successfully wrote" in read(tools, "write_file", path=path, content="a\nb")["content"]
        assert read(tools, "read_text_file", path=path) == {"content": "a\nb"}
        assert read(tools, "read_text_file", path=path, head=1) == {"content": "a"}
        edits = [{"oldText": "b", "newText": "c"}]
        assert "+c" in read(tools, "edit_file", path=path, edits=edits)["content"]
        assert (folder / "größe.txt").read_text() == "a\nc"
        read_text = next(tool for tool in tools.tools() if tool.name == "read_text_file")  # type: ignore[union-attr]
        assert json.loads(str(read_text.function(path=str(folder / "big.txt")))) == {"content": BIG}
        picture = call(tools, "read_media_file", path=str(folder / "a.png"))
        assert picture.media == [Image(PNG, "image/png")]
        assert json.loads(picture.text)["content"][0]["data"] == "[image]"
        assert call(tools, "read_media_file", path=str(folder / "a.wav")).media == [Audio(WAV, "audio/wav")]
        assert call(tools, "read_text_file", path="/etc/passwd").text.startswith("!Access denied")
        assert call(tools, "list_directory", path=str(folder / "none")).text.startswith("!ENOENT")
        assert "big.txt" in read(tools, "search_files", path=str(folder), pattern="*.txt")["content"]
        both = read(tools, "read_multiple_files", paths=[path, str(folder / "none")])["content"]
        assert "a\nc" in both
        assert "ENOENT" in both


def test_memory(start: Start) -> None:
    server = start("memory")
    ann = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    knows = {"from": "Ann", "to": "Bob", "relationType": "knows"}
    with server.tools() as tools:
        assert read(tools, "create_entities", entities=[ann]) == {"entities": [ann]}
        assert read(tools, "create_relations", relations=[knows]) == {"relations": [knows]}
        assert read(tools, "search_nodes", query="tea")["entities"] == [ann]
        wrong = [{"entityName": "Nobody", "contents": ["x"]}]
        assert (
            call(tools, "add_observations", observations=wrong).text == "!Entity with name Nobody not found"
        )
        assert call(tools, "create_entities", entities="x").text.startswith("!The arguments cannot be read")
    with server.tools() as tools:  # another process
        assert read(tools, "read_graph") == {"entities": [ann], "relations": [knows]}


def test_sequential_thinking(start: Start) -> None:
    with start("sequential-thinking").tools() as tools:
        for number in (1, 2):
            thought = {"thought": "a", "nextThoughtNeeded": True, "thoughtNumber": number, "totalThoughts": 2}
            assert read(tools, "sequentialthinking", **thought)["thoughtHistoryLength"] == number
        assert call(tools, "sequentialthinking", thought="a").text.startswith("!The arguments cannot be read")


@pytest.fixture
def web() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

    pages = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=pages.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{pages.server_port}"
    pages.shutdown()
    pages.server_close()


def test_fetch(start: Start, web: str) -> None:
    with start("fetch").tools() as tools:
        assert "A red lamp." in call(tools, "fetch", url=f"{web}/").text
        assert PAGE.decode() in call(tools, "fetch", url=f"{web}/", raw=True).text
        assert "status code 404" in call(tools, "fetch", url=f"{web}/none").text
        assert call(tools, "fetch", url="nonsense").text.startswith("!")
        assert call(tools, "fetch", url="http://127.0.0.1:1/").text.startswith("!")
        assert [prompt.name for prompt in tools.list_prompts()] == ["fetch"]


def test_git(start: Start) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    server = start("git")
    repository = str(server.folder)
    (server.folder / "a.txt").write_text("hello\n")
    author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=repository, check=True)
    with server.tools() as tools:
        assert "nothing to commit" in call(tools, "git_status", repo_path=repository).text
        assert "Message: first" in call(tools, "git_log", repo_path=repository, max_count=1).text
        (server.folder / "a.txt").write_text(BIG + "\n")
        assert "+xxx" in call(tools, "git_diff_unstaged", repo_path=repository).text
        branch = call(tools, "git_create_branch", repo_path=repository, branch_name="b").text
        assert branch == "Created branch 'b' from 'main'"
        missing = call(tools, "git_checkout", repo_path=repository, branch_name="none").text
        assert missing.startswith("!Error executing tool git_checkout")
        assert "outside the allowed" in call(tools, "git_status", repo_path="/").text


def test_time(start: Start) -> None:
    with start("time").tools() as tools:
        wanted = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        assert read(tools, "convert_time", **wanted)["time_difference"] == "+9.0h"
        assert read(tools, "get_current_time", timezone="Europe/Rome")["timezone"] == "Europe/Rome"
        assert "Invalid timezone" in call(tools, "get_current_time", timezone="Mars/North").text


def _children() -> set[int]:
    files = Path("/proc/self/task").glob("*/children")
    return {int(process) for file in files for process in file.read_text().split()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it needs the processes of Linux")
@pytest.mark.parametrize(
    "name", ["everything", "filesystem", "memory", "sequential-thinking", "fetch", "git", "time"]
)
def test_a_killed_server_is_started_again(start: Start, name: str) -> None:
    server = start(name)
    if name == "git":
        subprocess.run(["git", "init", "-q", str(server.folder)], check=True)
    others = _children()
    with server.tools(required=True) as tools:
        names = [tool.name for tool in tools.tools()]  # type: ignore[union-attr]
        (process,) = _children() - others
        os.kill(process, signal.SIGKILL)
        time.sleep(1)
        assert [tool.name for tool in tools.tools()] == names  # type: ignore[union-attr]
    assert _children() - others == set()


def test_everything_over_http_is_found_again_after_a_restart(start: Start) -> None:
    server = start("everything")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command, env = [*server.command, "streamableHttp"], {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_listening(port)
        with McpTools.http(f"http://127.0.0.1:{port}/mcp", required=True, timeout=60) as tools:
            for _ in range(2):
                assert call(tools, "echo", message="hi").text == "Echo: hi"
                assert len(call(tools, "get-tiny-image").media) == 1
                process.kill()
                process.wait()
                process = subprocess.Popen(
                    command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                wait_until_listening(port)
            assert call(tools, "get-sum", a=2, b=3).text == "The sum of 2 and 3 is 5."
    finally:
        process.kill()
        process.wait()
