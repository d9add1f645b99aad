"""Connections of event streams that break, and browsers that connect again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from browser import in_browser
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.testclient import TestClient
from loopback import MAX_WAIT
from served import serve_applications

from aiservices import CallId, Durable, Journal, ScriptedChatModel, create
from aiservices.integrations.fastapi import app


class Writer(Protocol):
    def write(self, about: str) -> Iterator[str]: ...


PAGE = """<!doctype html><p></p><script>
const shown = document.querySelector("p");
const source = new EventSource("/write?about=x");
source.addEventListener("text", (event) => {
  shown.textContent += JSON.parse(event.data);
  fetch("/shown");
});
source.addEventListener("error", () => {
  if (source.readyState === EventSource.CLOSED) shown.textContent += "(closed)";
});
</script>"""


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    yield from serve_applications()


class CutStreams:
    """ASGI middleware that breaks the connection of each event stream after some chunks."""

    def __init__(self, app: Any, chunks: int) -> None:
        self.app, self.chunks, self.statuses = app, chunks, list[int]()
        self.shown = asyncio.Semaphore(0)  # the chunks that the page has shown

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sent = 0

        async def send_some(message: Any) -> None:
            nonlocal sent
            if message["type"] == "http.response.start":
                self.statuses.append(message["status"])
            elif message.get("body"):
                sent += 1
                if sent > self.chunks:
                    for _ in range(self.chunks):  # a reset discards what the browser has not read
                        await asyncio.wait_for(self.shown.acquire(), MAX_WAIT)
                    raise ConnectionResetError("the proxy broke the connection")
            await send(message)

        if scope["type"] == "http" and scope["path"] == "/shown":
            self.shown.release()
        is_stream = scope["type"] == "http" and scope["path"] == "/write"
        await self.app(scope, receive, send_some if is_stream else send)


def writing(model: ScriptedChatModel) -> FastAPI:
    web = app(create(Writer, model), allow_get=True)
    web.get("/page", response_class=HTMLResponse)(lambda: PAGE)
    return web


@pytest.mark.parametrize(
    ("chunks", "shown"),
    [
        pytest.param(1, "One ", marks=pytest.mark.peers),
        (2, "One two "),
        pytest.param(9, "One two three.", marks=pytest.mark.peers),
    ],
)
def test_a_browser_whose_stream_breaks_calls_the_model_once(
    chunks: int, shown: str, serve: Callable[[Any], str]
) -> None:
    model = ScriptedChatModel(["One two three."] * 5)
    cut = CutStreams(writing(model), chunks)
    url = serve(cut)

    def work(page: Any) -> str:
        page.goto(f"{url}/page")
        page.get_by_text("(closed)").wait_for()
        text: str = page.locator("p").inner_text()
        return text

    assert in_browser(work) == f"{shown}(closed)"
    assert (cut.statuses, len(model.requests)) == ([200, 204], 1)


@pytest.mark.peers
def test_a_browser_continues_the_stream_of_a_durable_call(
    serve: Callable[[Any], str], tmp_path: Path
) -> None:
    class DurableWriter(Protocol):
        def write(self, about: str, call_id: Annotated[str, CallId]) -> Iterator[str]: ...

    model = ScriptedChatModel(["One two three."])
    with Journal(tmp_path / "calls.db") as journal:
        writer = create(DurableWriter, model, interceptors=[Durable(journal)])
        web = app(writer, allow_get=True, caller_arguments=["call_id"])
        page_text = PAGE.replace("about=x", "about=x&call_id=a")
        web.get("/page", response_class=HTMLResponse)(lambda: page_text)
        cut = CutStreams(web, 1)
        url = serve(cut)

        def work(page: Any) -> str:
            page.goto(f"{url}/page")
            page.get_by_text("(closed)").wait_for()
            text: str = page.locator("p").inner_text()
            return text

        assert in_browser(work) == "One two three.(closed)"
    assert (cut.statuses, len(model.requests)) == ([200, 200, 200, 200, 204], 1)


@pytest.mark.parametrize("last_id", ["1", "0", "999", "x", "", f"{'0' * 32}.1.1.{'0' * 16}"])
@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_no_request_that_continues_a_stream_calls_the_model(verb: str, last_id: str) -> None:
    model = ScriptedChatModel(["One."])
    http = TestClient(writing(model))
    arguments: Any = {"params": {"about": "x"}} if verb == "GET" else {"json": {"about": "x"}}
    for _ in range(3):
        answer = http.request(verb, "/write", headers={"Last-Event-ID": last_id}, **arguments)
        assert (answer.status_code, answer.content) == (204, b"")
    assert model.requests == []


@pytest.mark.peers
def test_an_error_before_the_first_event_is_not_tried_again_by_a_browser(serve: Callable[[Any], str]) -> None:
    model = ScriptedChatModel([RuntimeError("down")] * 5)
    url = serve(writing(model))

    def work(page: Any) -> None:
        page.goto(f"{url}/page")
        page.get_by_text("(closed)").wait_for()
        page.wait_for_timeout(4_000)  # a browser connects again after 3 seconds

    in_browser(work)
    assert len(model.requests) == 1
