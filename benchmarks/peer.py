"""Other libraries that do the same: installed by choice, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from .new_process import time_in_new_process
from .measure import Effort, Sample, measure_pairs
from .results import Comparison, Skipped

_ROUNDS = 3  # each starts a process, and a stream may take many seconds


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, what its users import, and what it calls the things that are timed.

    ``name`` is that of its environment, ``program`` the module of ``benchmarks.peers`` that makes its calls;
    ``stream`` is empty where no object is shown that grows with each event; ``stream_aim`` is the largest
    ratio of ours that is aimed at there.
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
        """An interpreter with the library: of the environment by its name, else this one; None: neither."""
        own = None if environments is None else _python_of(environments / self.name)
        if own is not None:
            return str(own)
        return sys.executable if find_spec(self.module) is not None else None

    def measure(self, python: str | None, *arguments: str) -> Callable[[], Sample]:
        """Runs the peer's program: the seconds that it prints."""
        return partial(time_in_new_process, "-m", f"benchmarks.peers.{self.program}", *arguments, python=python or "")


def _python_of(environment: Path) -> Path | None:
    places = (environment / "bin" / "python", environment / "Scripts" / "python.exe")
    return next((place.absolute() for place in places if place.exists()), None)


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
    """Ours beside a peer's; skipped where ``python``, its interpreter, is None, or where it fails."""
    skipped = f"{case} beside {baseline}"
    if python is None:
        return Skipped(skipped, f"{peer.name} is not installed")
    try:
        pairs = measure_pairs(ours, theirs, min(effort.rounds, _ROUNDS))
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["it said nothing"]
        return Skipped(skipped, f"{peer.name} failed: {said[-1]}")
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
