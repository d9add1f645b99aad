"""``python -m benchmarks.call_functions``: counts the functions and files that a warm call runs.

Each case is called twice over a loopback server and counted the second time, so that the
preparations of a first call are not counted. ``--list`` prints the functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import output_parsers
from aiservices import OpenAiChatModel, Stream, create, user_message
from output_parsers import parser_for

from .clerk import KEY
from .new_process import running_server
from .records import Customers

_ROOT = str(Path(output_parsers.__file__).parents[1])
_PACKAGES = tuple(f"{_ROOT}/{package}/" for package in ("aiservices", "output_parsers"))
_BROKEN = "Here it is:\n```json\n{'name': 'Ada', \"age\": 36, height: 1.6, \"married\": true,}\n```\n"


class CallFunctions(NamedTuple):
    """The functions of the two packages that one call ran.

    Attributes:
        case: The kind of call.
        functions: The distinct functions as ``(file, line, name)``.
    """

    case: str
    functions: frozenset[tuple[str, int, str]]

    @property
    def files(self) -> int:
        return len({file for file, _, _ in self.functions})


@dataclass
class Person:
    """A person who is named in a text."""

    name: str
    age: int
    height: float
    married: bool


class Service(Protocol):
    @user_message("Who is named here? {{text}}")
    def person(self, text: str) -> Person: ...
    @user_message("Who is named here? {{text}}")
    def streamed(self, text: str) -> Stream[Customers]: ...
    def talk(self, text: str) -> str: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def call_counts() -> Iterator[CallFunctions]:
    """Yield the counts of a blocking call, a stream, a call with a tool, and the parsing of broken JSON."""
    with running_server() as base_url, OpenAiChatModel("person", base_url=base_url, api_key=KEY) as model:
        service = create(Service, model)
        yield _count("a blocking call to a dataclass", lambda: service.person("Ada is 36."))
    with (
        running_server() as base_url,
        OpenAiChatModel("records-1000-20", base_url=base_url, api_key=KEY) as model,
    ):
        streaming = create(Service, model)
        yield _count("a stream", lambda: [snapshot.value for snapshot in streaming.streamed("Ada is 36.")])
    tool_server = running_server(module="benchmarks.conversation_stage")
    with tool_server as base_url, OpenAiChatModel("truth", base_url=base_url, api_key=KEY) as model:
        with_tools = create(Service, model, tools=[weather])
        yield _count("a round of tools", lambda: with_tools.talk("How is the weather in Delft?"))
    parser = parser_for(Person)
    yield _count("broken JSON in a fence", lambda: parser.read(_BROKEN))


def _count(case: str, call: Callable[[], object]) -> CallFunctions:
    called = set()

    def record(frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGES):
            called.add((code.co_filename.removeprefix(_ROOT + "/"), code.co_firstlineno, code.co_name))

    call()  # warm up: plans, parsers and connections are created once
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
    return CallFunctions(case, frozenset(called))


def main() -> None:
    for count in call_counts():
        print(f"{count.case}: {len(count.functions)} functions in {count.files} files")
        if "--list" in sys.argv:
            print(*(f"  {file}:{line} {name}" for file, line, name in sorted(count.functions)), sep="\n")


if __name__ == "__main__":
    main()
