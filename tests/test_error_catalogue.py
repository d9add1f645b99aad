"""Each error of a catalogue of typical mistakes has its place, its cause, and what to do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import Field

from aiservices import (
    AiMessage,
    AnthropicChatModel,
    Budget,
    ChatMemory,
    ChatOptions,
    ChatReply,
    FallbackChatModel,
    FinishReason,
    History,
    Image,
    InputGuardrails,
    Limits,
    MemoryId,
    Message,
    OpenAiChatModel,
    Price,
    ReActAgent,
    Retry,
    ScriptedChatModel,
    SystemMessage,
    ToolCall,
    ToolContext,
    ToolLimits,
    create,
    map_rows,
    options,
    preview,
    structured,
    system_message,
    tool,
    user_message,
)

ROOT = Path(__file__).parents[1]
# What to do, in the words of messages. Every error has one of them.
REMEDY = re.compile(
    r"did you mean|pip install|it takes|the parameters are|instead|continue with|cannot be called|expected"
    r"|\b(?:use|pass|add|write|remove|rename|annotate|keep|put|set|raise|increase|give|fill in|must)\b"
)


class Asks(Protocol):
    def ask(self, text: str) -> str: ...


class Numbers(Protocol):
    @user_message("{{text}}")
    def number(self, text: str) -> int: ...


class Misspelt(Protocol):
    @user_message("{{txet}}")
    def ask(self, text: str) -> str: ...


class Unused(Protocol):
    @user_message("Hello")
    def ask(self, text: str) -> str: ...


class Two(Protocol):
    def ask(self, one: str, other: str) -> str: ...


class Secret(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Callable[[], None]: ...


class Empty(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Annotated[int, Field(gt=5, lt=2)]: ...


class WithOptions(Protocol):
    @options(temperature=5, max_tokens=-1)
    def ask(self, text: str) -> str: ...


class Remembers(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str, user: Annotated[str, MemoryId]) -> str: ...


class Twice(Protocol):
    @system_message("Be kind.")
    @user_message("{{text}}")
    def ask(self, text: str, past: Annotated[list[Message], History]) -> str: ...


class Seen(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> Image: ...


class Broken(Protocol):
    @user_message("{{text")
    def ask(self, text: str) -> str: ...


def untyped(city):  # type: ignore[no-untyped-def]
    """Look."""


def needs_tenant(tenant: Annotated[str, ToolContext]) -> str:
    return tenant


@tool(needs_approval=True)
def pay(euros: int) -> str:
    return "paid"


def calling(*names: str) -> ScriptedChatModel:
    calls = tuple(ToolCall(str(index), name, '{"euros": 1}') for index, name in enumerate(names))
    return ScriptedChatModel([ChatReply(AiMessage("", calls))] * 9)


FAKE: Any = ScriptedChatModel(["x"] * 9)
ANY: Any = None
ONE_ROUND = ToolLimits(max_rounds=1)
# The place that the message must name, and what raises it.
CATALOGUE: list[tuple[str, Callable[[], object]]] = [
    ("Misspelt.ask", lambda: create(Misspelt, FAKE)),
    ("Unused.ask", lambda: create(Unused, FAKE)),
    ("Two.ask", lambda: create(Two, FAKE)),
    ("Secret.ask", lambda: create(Secret, FAKE)),
    ("Empty.ask", lambda: create(Empty, FAKE)),
    ("WithOptions.ask", lambda: create(WithOptions, FAKE)),
    ("Remembers.ask", lambda: create(Remembers, FAKE)),
    ("Broken.ask", lambda: create(Broken, FAKE)),
    ("Seen.ask", lambda: create(Seen, FAKE)),
    ("Twice.ask", lambda: create(Twice, FAKE).ask("x", [SystemMessage("x")])),
    ("Asks", lambda: create(Asks, "opnai:gpt")),
    ("Asks", lambda: create(Asks, 5)),  # type: ignore[call-overload]
    ("create()", lambda: create(Asks, FAKE, toolz=[])),  # type: ignore[call-overload]
    ("create()", lambda: create(Asks, FAKE, memory=ChatMemory())),  # type: ignore[call-overload]
    ("Asks.ask", lambda: create(Asks, FAKE, tools=[untyped])),
    ("Asks.ask", lambda: create(Asks, FAKE, tools=[needs_tenant])),
    ("Asks", lambda: create(Asks, FAKE, tools="x")),  # type: ignore[call-overload]
    ("Asks", lambda: create(Asks, FAKE, budget=3)),  # type: ignore[call-overload]
    ("Asks", lambda: create(Asks, FAKE, interceptors=[ChatMemory])),  # type: ignore[call-overload]
    ("InputGuardrails", lambda: InputGuardrails(len)),
    ("Asks", lambda: create(Asks, FAKE, retry=Retry(max_attempts=9))),
    ("Asks.ask", lambda: create(Asks, FAKE).ask(ANY)),
    ("Asks.ask", lambda: create(Asks, calling("pay"), tools=[pay]).ask("x")),
    (
        "Asks.ask",
        lambda: create(Asks, calling("no"), tools=[pay], tool_limits=ToolLimits(max_rounds=1)).ask("x"),
    ),
    ("Numbers.number", lambda: create(Numbers, _cut_off()).number("x")),
    ("Budget", lambda: Budget(max_attempts=0)),
    ("Budget()", lambda: Budget(max_atempts=1)),  # type: ignore[call-arg]
    ("Price", lambda: Price(-1, 2)),
    ("ToolLimits", lambda: ToolLimits(max_rounds=0)),
    ("Limits", lambda: Limits(requests_per_minute=-1)),
    ("ChatMemory", lambda: ChatMemory(window=20)),  # type: ignore[arg-type]
    ("ChatOptions()", lambda: ChatOptions(temprature=1)),  # type: ignore[call-arg]
    ("FallbackChatModel", lambda: FallbackChatModel(FAKE, unsure=7)),
    ("structured", lambda: structured(FAKE, Literal[()])),
    ("structured()", lambda: structured(FAKE, int, temperature=1)),  # type: ignore[call-overload]
    ("map_rows()", lambda: map_rows(create(Asks, FAKE).ask, [], max_concurency=1)),  # type: ignore[call-overload]
    ("table", lambda: map_rows(create(Asks, FAKE).ask, "no.csv")),
    ("len", lambda: preview(len, "x")),
    ("ReActAgent()", lambda: ReActAgent("a", "b", FAKE, tolls=[])),  # type: ignore[call-arg]
    ("AnthropicChatModel()", lambda: AnthropicChatModel("m", max_retrys=1)),  # type: ignore[call-arg]
    ("openai:m", lambda: create(Asks, OpenAiChatModel("m")).ask("x")),
]


def _cut_off() -> ScriptedChatModel:
    return ScriptedChatModel([ChatReply(AiMessage("1"), FinishReason.LENGTH)] * 9)


def test_each_error_of_the_catalogue_has_a_place_a_cause_and_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    without = {}
    for number, (place, make) in enumerate(CATALOGUE):
        try:
            text = f"no error: {make()}"
        except Exception as error:
            text = str(error)
        if place not in text or not REMEDY.search(text) or len(text) < 30:
            without[f"{number} {place}"] = text
    assert without == {}


# --- Extras

MISSING = """
import importlib.machinery, sys
blocked = "PACKAGES".split()
original = importlib.machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in blocked else original(name, path, target)
importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
sys.meta_path[:] = [one for one in sys.meta_path if "_frozen_importlib" in repr(one)]
from typing import Protocol
from aiservices import FakeChatModel, ScriptedChatModel, create, map_rows
class Asks(Protocol):
    def ask(self, text: str) -> str: ...
service = create(Asks, ScriptedChatModel(["x"] * 9))
rows = [{"text": "x"}]
for extra, program in PROGRAMS:
    try:
        exec(program)
    except Exception as error:
        print(extra, "|", error)
    else:
        print(extra, "| no error")
"""
PACKAGES = """
xllamacpp huggingface_hub mcp mcp_types redis sqlalchemy bm25s semantic_text_splitter fastapi uvicorn httpx2
opentelemetry pyarrow fsspec tqdm ray pyspark yaml hypothesis text_to_num
"""
PROGRAMS = [
    ("local", "create(Asks, 'local').ask('x')"),
    ("words", "from output_parsers import parse; parse(int, 'forty two')"),
    ("mcp", "from aiservices.integrations.mcp import McpTools; McpTools.http('http://localhost:1')"),
    ("mcp", "from aiservices.integrations.mcp import mcp_server; mcp_server(service)"),
    (
        "redis",
        "from aiservices.memory import RedisChatMemoryStore; RedisChatMemoryStore('redis://localhost')",
    ),
    ("sqlalchemy", "from aiservices.memory import SqlAlchemyChatMemoryStore as S; S('sqlite://')"),
    ("retrieval", "from aiservices.retrieval import KeywordRetriever; KeywordRetriever()"),
    ("retrieval", "from aiservices.retrieval import split; split('a' * 9999)"),
    ("fastapi", "from aiservices.integrations.fastapi import app"),
    ("fastapi", "from aiservices.integrations.fastapi import client"),
    ("otel", "from aiservices.integrations.otel import AiServicesInstrumentor"),
    ("tables", "list(map_rows(service.ask, rows, to='answers.parquet'))"),
    ("tables", "list(map_rows(service.ask, 's3://bucket/table.csv'))"),
    ("ray", "from aiservices.rows import RayEngine; list(map_rows(service.ask, rows, engine=RayEngine()))"),
    (
        "spark",
        "from aiservices.rows import SparkEngine; list(map_rows(service.ask, rows, engine=SparkEngine()))",
    ),
    ("skills", "from aiservices.skills import Skills; Skills.from_folder('skills')"),
    ("testing", "FakeChatModel(draw=lambda strategy: 1)"),
    ("testing", "from aiservices.testing import strategy_of"),
]


def test_a_missing_extra_is_an_error_with_the_command_that_installs_it(tmp_path: Path) -> None:
    program = MISSING.replace("PACKAGES", " ".join(PACKAGES.split())).replace("PROGRAMS", repr(PROGRAMS))
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
    )
    printed = [line for line in done.stdout.splitlines() if " | " in line]
    assert len(printed) == len(PROGRAMS), done.stderr
    without = [line for line in printed if f'pip install "aiservices[{line.split(" | ")[0]}]"' not in line]
    assert without == []
