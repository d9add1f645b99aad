"""Finds the interpreters that have the other libraries, which are installed by choice, each by itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["PEERS", "Peer"]


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, the call that is timed, and the program in ``benchmarks.peers`` that makes it."""

    name: str
    call: str
    module: str
    program: str

    def python(self, environments: Path | None) -> str | None:
        """An interpreter with the library: of the environment by its name, else this one; None: neither."""
        own = None if environments is None else _python_of(environments / self.name)
        if own is not None:
            return str(own)
        return sys.executable if find_spec(self.module) is not None else None


def _python_of(environment: Path) -> Path | None:
    places = (environment / "bin" / "python", environment / "Scripts" / "python.exe")
    return next((place.absolute() for place in places if place.exists()), None)


PEERS = (
    Peer("instructor", "instructor create_partial", "instructor", "instructor_stream"),
    Peer("pydantic-ai", "pydantic-ai stream_output", "pydantic_ai", "pydantic_ai_stream"),
    Peer("langchain", "LangChain with_structured_output", "langchain_openai", "langchain_stream"),
)
