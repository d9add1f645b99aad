"""Other libraries that the benchmarks compare with, each installed in its own environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from .measure import Effort, Sample, measure_pairs
from .new_process import time_in_new_process
from .results import Comparison, Skipped

_ROUNDS = 3  # each round starts a process, and a stream may take many seconds


@dataclass(frozen=True, slots=True)
class Peer:
    """Another library that the benchmarks compare with.

    Attributes:
        name: The name of its environment.
        title: Its name in tables.
        module: The module to look for in this environment.
        program: The module of ``benchmarks.peers`` that calls it.
        imports: The import statement that its users write.
        call: The name of its call in tables.
        stream: The name of its stream in tables; "" if it does not stream partial objects.
        stream_aim: The target for the ratio of our stream to its stream.
    """

    name: str
    title: str
    module: str
    program: str
    imports: str
    call: str
    stream: str = ""
    stream_aim: float = 0.04

    def python(self, environments: Path | None) -> str | None:
        """Return a Python interpreter that can import the library, or None if it is not installed."""
        own = None if environments is None else _python_of(environments / self.name)
        if own is not None:
            return str(own)
        return sys.executable if find_spec(self.module) is not None else None

    def measure(self, python: str | None, *arguments: str) -> Callable[[], Sample]:
        """Return a function that runs the benchmark program of the library and returns its times."""
        return partial(
            time_in_new_process, "-m", f"benchmarks.peers.{self.program}", *arguments, python=python or ""
        )


def _python_of(environment: Path) -> Path | None:
    candidates = (environment / "bin" / "python", environment / "Scripts" / "python.exe")
    return next((path.absolute() for path in candidates if path.exists()), None)


def compare_with_peer(
    peer: Peer,
    python: str | None,
    case: str,
    baseline: str,
    ours: Callable[[], Sample],
    theirs: Callable[[], Sample],
    effort: Effort,
    target: float | None = None,
) -> Comparison | Skipped:
    """Compare our time to that of another library.

    Skip the comparison if ``python``, the interpreter of the library, is None, or if its program fails.
    """
    skipped_case = f"{case} beside {baseline}"
    if python is None:
        return Skipped(skipped_case, f"{peer.name} is not installed")
    try:
        pairs = measure_pairs(ours, theirs, min(effort.rounds, _ROUNDS))
    except subprocess.CalledProcessError as error:
        stderr = error.stderr.strip().splitlines() or ["no error message"]
        return Skipped(skipped_case, f"{peer.name} failed: {stderr[-1]}")
    return Comparison.of(case, baseline, pairs, target)


PEERS = (
    Peer(
        "instructor",
        "instructor",
        "instructor",
        "with_instructor",
        "import instructor, openai",
        "instructor create",
        "instructor create_partial",
    ),
    Peer(
        "pydantic-ai",
        "pydantic-ai",
        "pydantic_ai",
        "with_pydantic_ai",
        "from pydantic_ai import Agent; from pydantic_ai.models.openai import OpenAIChatModel",
        "pydantic-ai run_sync",
        "pydantic-ai stream_output",
    ),
    Peer(
        "langchain",
        "LangChain",
        "langchain_openai",
        "with_langchain",
        "from langchain_openai import ChatOpenAI",
        "LangChain with_structured_output",
        "LangChain with_structured_output",
    ),
    Peer(
        "mirascope",
        "mirascope",
        "mirascope",
        "with_mirascope",
        "from mirascope import llm; llm.call",
        "mirascope llm.call",
        "mirascope structured_stream",
        stream_aim=0.08,
    ),
    Peer(
        "magentic",
        "magentic",
        "magentic",
        "with_magentic",
        "from magentic import OpenaiChatModel, prompt",
        "magentic @prompt",
    ),
    Peer(
        "baml",
        "BAML",
        "baml_py",
        "with_baml",
        "import sys; sys.path.append(sys.prefix); from baml_client import b",
        "BAML function",
    ),
)
