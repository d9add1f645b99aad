"""Runs the programs of a documentation page in order, with scripted replies, and collects their output."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from aiservices import Capabilities, ChatModel, ChatReply, ChatRequest, ScriptedChatModel
from aiservices.models import registry

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_INSTALLED = any("aiservices" in point.value for point in entry_points(group="pytest11"))
_PLUGIN = () if _INSTALLED else ("-p", "aiservices.testing.plugin")
_WEIGHTS = "qwen2.5-coder-1.5b"  # the weights that the pages tell the reader to download
_LOCAL = Capabilities(json_schema=True, json_mode=True, constrained=True, tools=True, logprobs=20)

Reply = str | ChatReply | Exception


class Block(NamedTuple):
    """A fenced code block.

    Attributes:
        language: The language after the fence.
        title: The title; "" if there is none.
        text: The content.
    """

    language: str
    title: str
    text: str


class Printed(NamedTuple):
    """One output block of a page.

    Attributes:
        expected: The output that the page shows.
        printed: The output of the programs before it.
    """

    expected: str
    printed: str


@dataclass
class PageRun:
    """The result of running a page.

    Attributes:
        outputs: The expected and the real outputs.
        requests: The requests to models.
        unused_replies: The number of scripted replies that were not requested.
    """

    outputs: list[Printed] = field(default_factory=list)
    requests: list[ChatRequest] = field(default_factory=list)
    unused_replies: int = 0


def path_of(page: str) -> Path:
    return ROOT / page if page == "README.md" else DOCS / page


def blocks_of(page: str) -> list[Block]:
    blocks = _FENCE.findall(path_of(page).read_text("utf-8"))
    return [Block(language, title, text) for language, title, text in blocks]


def run_program(
    program: str, folder: Path, environment: Mapping[str, str], *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run a program alone in a folder, in a new process with more environment variables."""
    (folder / "program.py").write_text(program, "utf-8")
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_page(
    page: str,
    replies: Sequence[Reply],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    foreign: Sequence[str] = (),
) -> PageRun:
    """Run the code blocks of a page in a folder.

    Blocks whose title is in ``foreign`` are for other libraries and are not run.
    """
    page_run = PageRun()
    script = iter(replies)
    _answer_with(script, page_run, monkeypatch)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    module = ModuleType(re.sub(r"\W", "_", f"docs_{page}"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    printed = ""
    for block in blocks_of(page):
        if block.title in foreign and block.title:
            continue
        if block.language == "text":
            page_run.outputs.append(Printed(block.text, printed))
            printed = ""
            continue
        assert printed == "", f"{page} does not show the output: {printed}"
        printed = _run(block, module, page, folder)
    assert printed == "", f"{page} does not show its last output: {printed}"
    page_run.unused_replies = sum(1 for _ in script)
    _forget_modules(folder)
    return page_run


def _forget_modules(folder: Path) -> None:
    """Let other tests import modules of the same names."""
    for name, module in tuple(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


def _answer_with(script: Iterator[Reply], page_run: PageRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all models that a page names with scripted models that share one script."""
    find = registry._find_factory

    def answer(request: ChatRequest) -> Reply:
        page_run.requests.append(request)
        reply = next(script, None)
        assert reply is not None, f"no reply is left for: {request.messages[-1].text}"
        return reply

    def factory(provider: str, name_in_page: str) -> Callable[[str], ChatModel]:
        def create_model(name: str) -> ChatModel:
            if provider == "local":
                return ScriptedChatModel(answer, name=f"local:{name or _WEIGHTS}", capabilities=_LOCAL)
            real = find(provider, name_in_page)(name)
            return ScriptedChatModel(answer, name=real.name, capabilities=real.capabilities)

        return create_model

    monkeypatch.setattr(registry, "_find_factory", factory)
    monkeypatch.setattr(registry, "_embedded_model", lambda: "local")


def _run(block: Block, module: ModuleType, page: str, folder: Path) -> str:
    """Run a code block, a program or commands, and return the output.

    For an exception only the last line is printed.
    """
    if block.title.endswith((".py", ".md")):
        (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.title).write_text(block.text, "utf-8")
        return ""
    if block.language == "python":
        return _execute(block.text, page, vars(module))
    if block.language == "console":
        return "".join(_command(line, folder) for line in block.text.splitlines())
    raise AssertionError(f"{page}: a block of {block.language} is not run by any test")


def _execute(code: str, name: str, namespace: dict[str, Any]) -> str:
    with redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(code, name, "exec", dont_inherit=True), namespace)
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            print(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    return out.getvalue()


def _command(line: str, folder: Path) -> str:
    """Run a console command of a page if it runs a program or tests; ignore other commands."""
    words = line.split()
    if words[0] == "python" and words[1].endswith(".py"):
        path = folder / words[1]
        _forget_modules(folder)
        return _execute(path.read_text("utf-8"), str(path), {"__name__": "__main__"})
    if words[0] == "pytest":
        return _run_pytest(words, folder)
    return ""


def _run_pytest(words: list[str], folder: Path) -> str:
    command = [sys.executable, "-m", *words, "-p", "no:cacheprovider", *_PLUGIN]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=100, check=False
    )
    return re.sub(r" in \d+\.\d+s", " in 0.30s", done.stdout)
