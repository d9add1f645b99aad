"""Fixtures that run the command line in this process, and a module with services."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from aiservices.cli.main import application

ROOT = Path(__file__).parents[3]


class CommandResult(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


CommandRun = Callable[..., CommandResult]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandRun]:
    """Runs a command line in this process, in the project folder or the current folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    modules_before = set(sys.modules)

    def runs(*arguments: str, stdin: str = "") -> CommandResult:
        result = CliRunner().invoke(
            application, arguments, input=stdin, prog_name="aiservices", catch_exceptions=False
        )
        return CommandResult(result.exit_code, result.stdout, result.stderr)

    yield runs
    for name in set(sys.modules) - modules_before:
        if not name.startswith(("aiservices", "output_parsers")):
            file = getattr(sys.modules[name], "__file__", None) or ""
            if not file.startswith(sys.prefix) and "site-packages" not in file:
                del sys.modules[name]


@pytest.fixture
def shop(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary current folder with a module ``shop`` that contains services."""
    (tmp_path / "shop.py").write_text(SHOP, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SHOP = '''
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Protocol, TypeVar

from aiservices import (
    AsyncStream, ChatOptions, Image, MemoryId, Result, ScriptedChatModel, Stream, ToolContext,
    UserMessage, create, options, system_message, user_message,
)
from aiservices.memory import ChatMemory
from output_parsers import ItemError


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Order:
    article: str
    price: Decimal


def stock(article: str) -> int:
    """How many there are."""
    return len(article)


@system_message("You keep a shop.")
class Shop(Protocol):
    """A shop."""

    @user_message("{{text}}|{{count}}|{{ratio}}|{{day}}|{{size}}|{{tags}}|{{order}}|{{note}}|{{flag}}")
    def all_kinds(
        self, text: str, count: int, ratio: float, day: date, size: Size, tags: list[str], order: Order,
        note: str | None = None, flag: bool = False,
    ) -> str: ...

    @user_message("Which is it: {{either}}?")
    def union(self, either: int | str) -> str: ...

    @user_message("{{'text' if names is string else 'list'}} {{count}}")
    @options(temperature=0.5, extra_headers={"X-Key": "secret"})
    def several(self, names: str | list[str], count: list[int] | None = None) -> str: ...

    @user_message("{{'str' if either is string else 'int'}}")
    def text_or_int(self, either: int | str) -> str: ...

    @user_message("Join {{words}}.")
    def join(self, *words: str) -> str: ...

    def ask(self, message: UserMessage, customer: Annotated[str, MemoryId] = "ann") -> str: ...

    @user_message("Order {{what}}.")
    def order(self, what: str) -> Result[Order]: ...

    @user_message("Sell {{what}}.")
    def sell(self, what: str, till: Annotated[Any, ToolContext]) -> str: ...


class Detailed(Protocol):
    @user_message("{{text}}")
    def price(self, text: str) -> Decimal: ...

    @user_message("{{text}}")
    async def price_async(self, text: str) -> Decimal: ...

    @user_message("{{text}}")
    def order(self, text: str) -> Order: ...

    @user_message("{{text}}")
    def result(self, text: str) -> Result[Order]: ...

    @user_message("{{text}}")
    def words(self, text: str) -> Iterator[str]: ...

    @user_message("{{text}}")
    def words_async(self, text: str) -> AsyncIterator[str]: ...

    @user_message("{{text}}")
    def orders(self, text: str) -> Iterator[Order]: ...

    @user_message("{{text}}")
    def orders_async(self, text: str) -> AsyncIterator[Order]: ...

    @user_message("{{text}}")
    def orders_or_errors(self, text: str) -> Iterator[Order | ItemError]: ...

    @user_message("{{text}}")
    def growing(self, text: str) -> Stream[Order]: ...

    @user_message("{{text}}")
    def growing_async(self, text: str) -> AsyncStream[Order]: ...


def _says(reply: str) -> Detailed:
    return create(Detailed, ScriptedChatModel([reply] * 9), retry=None)


priced = _says('{"value": "19.90"}')
detailed = _says('{"article": "lamp", "price": "1234567890.12345678901234567890"}')
loose = _says('```json\\n{"article": "lamp", "price": 40}\\n```')
listed = _says('{"value": [{"article": "lamp", "price": "1.50"}, {"article": "desk"}]}')
items = _says('{"value": [{"article": "lamp", "price": 1.50}, {"article": "desk", "price": 2}]}')
spoken = _says("Once upon a time.")
result = create(Detailed, ScriptedChatModel([]))
echo = create(
    Shop,
    ScriptedChatModel(lambda request: request.messages[-1].text),
    tools=[stock],
    interceptors=[ChatMemory()],
)


def made(model: Any = None) -> Detailed:
    return create(Detailed, model)


def scripted_one() -> Detailed:
    return priced


def stock_of_nothing() -> int:
    return 0


def needs(colour: str, model: Any = None) -> Detailed:
    return create(Detailed, model)


class Eye(Protocol):
    @user_message("{{picture}}")
    def look(self, picture: Image) -> str: ...


def seen() -> Eye:
    return create(Eye, ScriptedChatModel(lambda request: str(request.messages[-1].contents[0])))


class Loops(Protocol):
    @user_message("{% for name in names %}Hello {{name.upper()}}!{% endfor %}")
    def greet(self, names: list[str]) -> str: ...

    @user_message("{{count + 1}}")
    def count(self, count: int) -> str: ...


class Quiet(Protocol):
    def closes(self, day: date) -> bool: ...


class Wrong(Protocol):
    @user_message("Sell {{whta}}.")
    def sell(self, what: str) -> str: ...

    def untold(self, a: str, b: str) -> str: ...


class Open(Protocol):
    @user_message("{{text}}")
    def anything(self, text: str) -> dict[str, Any]: ...


T = TypeVar("T")


class Finder(Protocol[T]):
    @user_message("{{text}}{{number}}")
    def find(self, text: str, number: T) -> T: ...


Found = Finder[int]


def _stops(request: Any) -> str:
    raise KeyboardInterrupt


class Stopping(Protocol):
    @user_message("{{text}}")
    def stop(self, text: str) -> str: ...


stopped = create(Stopping, ScriptedChatModel(_stops))
SOMETHING = 3
'''
