"""Fixtures for tests of the playground: a browser, a server, and a service."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime, time as day_time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeVar

import pytest

from aiservices import (
    AiMessage,
    Budget,
    ChatReply,
    ChatRequest,
    Image,
    MemoryId,
    ModelConnectionError,
    Price,
    ReplyDelta,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    Usage,
    create,
    system_message,
    tool,
    user_message,
)
from output_parsers import ItemError

T = TypeVar("T")
LONGEST_WAIT = 20.0  # seconds; nothing in a test hangs for longer
_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --no-proxy-server"
).split()


class Tone(Enum):
    PLAIN = "plain"
    WARM = "warm"


@dataclass
class Ingredient:
    name: str
    grams: int | None = None


@dataclass
class Order:
    dish: str
    ingredients: list[Ingredient]
    vegetarian: bool = False


@dataclass
class Recipe:
    title: str
    steps: list[str]
    minutes: int


@system_message("You work in a small shop.")
class Desk(Protocol):
    """Reads letters, and answers them."""

    @user_message("Is this letter friendly?\n\n{{letter}}")
    def is_friendly(self, letter: str) -> bool:
        """Return True if the writer of a letter means well."""
        ...

    @user_message("A recipe of {{dish}}, please.")
    def recipe(self, dish: str) -> Stream[Recipe]:
        """A recipe while it is written."""
        ...

    @user_message("Cook {{order}}.")
    def cook(self, order: Order) -> Result[Recipe]: ...

    @user_message(
        "Reply in a {{tone}} and {{style}} way on {{day}} at {{hour}} for {{writer}}: {{letter}} "
        "({{copies}}, {{urgent}})"
    )
    def reply(
        self,
        letter: str,
        tone: Tone,
        copies: int,
        urgent: bool,
        day: date,
        hour: day_time = day_time(9),
        style: Literal["long", "short"] = "short",
        writer: str | None = None,
    ) -> Iterator[str]:
        """Answers a letter, word by word."""
        ...

    @user_message("What does it cost?\n\n{{letter}}")
    async def price(self, letter: str, user: Annotated[str, MemoryId] = "shop") -> Decimal: ...

    @user_message("What is on it, and on {{others}}?")
    def see(self, picture: Image, others: list[str]) -> list[str]: ...

    @user_message("Count by {{prices}} at {{moment}} up to {{most}}")
    def count(self, prices: dict[str, Decimal], moment: datetime, most: int | None) -> int: ...

    @user_message("The names in {{letter}}")
    def names(self, letter: str) -> AsyncIterator[Ingredient | ItemError]: ...


class Clerk(Protocol):
    @user_message("How many are there? {{item}}")
    def stock(self, item: str) -> int:
        """Return how many pieces of an item are in stock."""
        ...


@system_message("You decide what to buy.")
class Buyer(Protocol):
    @user_message("Decide about {{items}}")
    def decide(self, items: str) -> str: ...


def order(item: str) -> str:
    """Order an item."""
    raise AssertionError(item)


RECIPE = (
    '{"title": "Bread & <b>butter</b>", "steps": ["Mix flour and water", "Wait an hour", "Bake it"], '
    '"minutes": 90}'
)
_ANSWERS = {
    "fix these problems": '{"value": true}',
    "unclear": '{"value": "it depends"}',
    "friendly": '```json\n{"value": true}\n```',
    "burnt": '{"title": "Burnt", "steps": ["Wait"], "minutes": "too many"}',
    "recipe": RECIPE,
    "Cook": RECIPE,
    "Reply": "Dear friend, <img src=x onerror=alert(1)> thank you.",
    "cost": '{"value": 12345678901234567890.10}',
    "on it": '{"value": ["a cat"]}',
    "Count": '{"value": 7}',
    "names": '{"value": [{"name": "flour", "grams": 500}, {"grams": 1}, {"name": "salt", "grams": null}]}',
}


class Script(ScriptedChatModel):
    """A model with a fixed reply for each prompt. A streamed recipe waits after its first step."""

    def __init__(self) -> None:
        super().__init__(_reply)
        self.go_on = threading.Event()
        self.go_on.set()
        self.left = threading.Event()  # a stream was closed before its end

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        pieces = iter(super().stream(request))
        try:
            written = ""
            for delta in pieces:
                written += delta.text
                yield delta
                if written.endswith('water", '):
                    self.go_on.wait(LONGEST_WAIT)
        except GeneratorExit:
            self.left.set()
            raise


def _reply(request: ChatRequest) -> ChatReply | Exception:
    text = request.messages[-1].text
    if "offline" in text:
        return ModelConnectionError("no connection to https://example.org with the key sk-secret")
    answer = next(answer for part, answer in _ANSWERS.items() if part in text)
    return ChatReply(AiMessage(answer), usage=Usage(input_tokens=21, output_tokens=8), model="scripted")


def _buyer(script: Script) -> Buyer:
    """A service that asks another service about pears and plums at once. The answer about plums waits."""

    def count(request: ChatRequest) -> str:
        if "plums" in request.messages[0].text:
            script.go_on.wait(LONGEST_WAIT)
            return '{"value": 0}'
        is_repeated = len(request.messages) > 1
        return '{"value": 12}' if is_repeated else "<script>alert(1)</script> a dozen or so\n" * 9

    def decide(request: ChatRequest) -> ChatReply:
        names = ["order"] if "approval" in request.messages[-1].text else ["stock", "stock"]
        if len(request.messages) > 2:
            return ChatReply(AiMessage("Buy plums."), usage=Usage(30, 3), model="scripted")
        calls = tuple(
            ToolCall(f"c{number}", name, f'{{"item": "{item}"}}')
            for number, (name, item) in enumerate(zip(names, ("pears", "plums"), strict=False))
        )
        return ChatReply(AiMessage("", calls), usage=Usage(20, 5), model="scripted")

    prices = {"scripted": Price(input=1.0, output=2.0)}
    clerk = create(Clerk, ScriptedChatModel(count))
    tools = [clerk.stock, tool(needs_approval=True)(order)]
    return create(Buyer, ScriptedChatModel(decide), tools=tools, budget=Budget(prices=prices))


class Browser:
    """Chromium in a thread of its own, because Playwright runs an event loop in its thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._open = ExitStack()
        self.chromium: Any = self.do(self._start)

    def _start(self) -> Any:
        from playwright.sync_api import sync_playwright

        playwright = self._open.enter_context(sync_playwright())
        chromium = playwright.chromium.launch(executable_path=_CHROMIUM, headless=True, args=_ARGUMENTS)
        self._open.callback(chromium.close)
        return chromium

    def do(self, work: Callable[[], T]) -> T:
        """Run a function in the thread of the browser and return its result."""
        return self._thread.submit(work).result()

    def close(self) -> None:
        self.do(self._open.close)
        self._thread.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    pytest.importorskip("playwright", reason="the page is tried in a browser: pip install playwright")
    if _CHROMIUM is None:
        pytest.skip("the page is tried in a browser, and there is no Chromium: apt-get install chromium")
    opened = Browser()
    yield opened
    opened.close()


@pytest.fixture
def look() -> dict[str, Any]:
    """The settings of the browser context, which a test can parametrize."""
    return {"viewport": {"width": 1280, "height": 860}}


@pytest.fixture
def page(browser: Browser, serving: Serving, look: dict[str, Any]) -> Iterator[Any]:
    """The open playground page. It must load nothing from other hosts and log no errors."""
    wrong: list[str] = []
    requested: list[str] = []

    def opened() -> Any:
        page = browser.chromium.new_context(**look).new_page()
        page.set_default_timeout(LONGEST_WAIT * 1000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda text: wrong.append(text.text) if text.type == "error" else None)
        page.on("request", lambda request: requested.append(request.url))
        page.goto(serving.url)
        page.locator("#call").wait_for()
        return page

    made = browser.do(opened)
    yield made
    browser.do(made.context.close)
    assert [text for text in wrong if not text.startswith("Failed to load resource")] == []
    assert [url for url in requested if not url.startswith((serving.url, "data:"))] == []


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that use the page in the thread of the browser."""
    names = pyfuncitem._fixtureinfo.argnames
    if "page" not in names:
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in names}
    pyfuncitem.funcargs["browser"].do(lambda: pyfuncitem.obj(**fixtures))
    return True


class Serving(NamedTuple):
    """The URL of the playground page and the model of its service."""

    url: str
    script: Script


@pytest.fixture(scope="session")
def serving() -> Iterator[Serving]:
    uvicorn = pytest.importorskip("uvicorn")
    from aiservices.integrations.fastapi import ApprovalSettings, app
    from aiservices.page import mount

    script = Script()
    desk = create(Desk, script, listeners=[lambda event: None])  # it might read the memory id
    made = app(desk, caller_arguments=["user"])
    mount(made, desk, caller_arguments=["user"])
    mount(made, _buyer(script), path="/buyer", approvals=ApprovalSettings())
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(made, log_level="critical", ws="none", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    end = time.monotonic() + LONGEST_WAIT
    while not server.started and time.monotonic() < end:
        time.sleep(0.005)
    assert server.started
    yield Serving(f"http://127.0.0.1:{listening.getsockname()[1]}/", script)
    server.should_exit = True
    thread.join(LONGEST_WAIT)
    listening.close()
    assert not thread.is_alive()


@pytest.fixture
def script(serving: Serving) -> Iterator[Script]:
    """The model of the service on the page, without the requests of earlier tests."""
    serving.script.requests.clear()
    serving.script.left.clear()
    serving.script.go_on.set()
    yield serving.script
    serving.script.go_on.set()
