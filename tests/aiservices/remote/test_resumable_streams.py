"""Streams go on after a lost connection, and also after a kill of the server if the call is durable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import httpx2
import pytest
from fastapi.testclient import TestClient
from served import LONGEST_WAIT, serve_applications, wait_until_listening

from aiservices import (
    AiMessage,
    AsyncStream,
    CallId,
    ChatReply,
    Durable,
    Journal,
    JournalError,
    ModelConnectionError,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolContext,
    UserName,
    create,
    tool,
    user_message,
)
from aiservices.integrations.fastapi import ApprovalSettings, app, client
from aiservices.remote.contract import EventId, EventName, SseEvent
from aiservices.remote.resumable_streams import Received, ResumableStream, after

Id = Annotated[str, CallId]


class Desk(Protocol):
    @user_message("{{it}}")
    def tell(self, it: str, call_id: Id) -> Iterator[str]: ...

    @user_message("{{it}}")
    def atell(self, it: str, call_id: Id) -> AsyncIterator[str]: ...

    @user_message("{{it}}")
    def count(self, it: str, call_id: Id) -> Iterator[int]: ...

    @user_message("{{it}}")
    def acount(self, it: str, call_id: Id) -> AsyncIterator[int]: ...

    @user_message("{{it}}")
    def grow(self, it: str, call_id: Id) -> Stream[list[int]]: ...

    @user_message("{{it}}")
    def agrow(self, it: str, call_id: Id) -> AsyncStream[list[int]]: ...


METHODS = ("tell", "atell", "count", "acount", "grow", "agrow", "grow?events=deltas", "agrow?events=deltas")
TEXT = "Onë two 😀 three."


def reply(request: Any) -> Any:
    last = request.messages[-1]
    if type(last).__name__ != "ToolMessage":
        return ChatReply(AiMessage("", (ToolCall("c1", "pay", "{}"),)))
    return TEXT if request.messages[0].text == "tell" else '{"value": [1, 20, 300]}'


class Bank:
    """What the tool did."""

    def __init__(self) -> None:
        self.paid = 0

    def pay(self) -> str:
        """Pay."""
        self.paid += 1
        return "paid"


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    yield from serve_applications()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "calls.db") as made:
        yield made


def desk_of(journal: Journal, bank: Bank | None = None) -> tuple[Any, ScriptedChatModel]:
    model = ScriptedChatModel(reply)
    return create(Desk, model, tools=[(bank or Bank()).pay], interceptors=[Durable(journal)]), model


def events_of(http: httpx2.Client, url: str, body: Any, last_id: str = "", most: int = 10**6) -> list[Any]:
    """Return at most ``most`` events as (id, name, data), and close the connection."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    events: list[Any] = []
    with http.stream("POST", url, json=body, headers=headers) as response:
        if response.status_code == 204:
            return events
        response.raise_for_status()
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields.get("event"):
                events.append((fields["id"], fields["event"], fields["data"]))
                fields = {}
                if len(events) == most:
                    break
    return events


def test_a_client_that_drops_the_connection_at_each_event_gets_each_event_once(
    journal: Journal, serve: Callable[[Any], str]
) -> None:
    bank = Bank()
    desk, model = desk_of(journal, bank)
    url = serve(app(desk, caller_arguments=["call_id"]))
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        for number, method in enumerate(METHODS, 1):
            it = "tell" if "tell" in method else "count"
            expected = events_of(http, f"{url}/{method}", {"it": it, "call_id": f"{method} at once"})
            got: list[Any] = []
            while last := events_of(
                http, f"{url}/{method}", {"it": it, "call_id": method}, got[-1][0] if got else "", 1
            ):
                got += last
            # An attempt number and the time of a result differ, and snapshots may be left out for newer ones.
            names = ("text", "item", "delta", "end")
            assert [one[1:] for one in got if one[1] in names] == [
                one[1:] for one in expected if one[1] in names
            ]
            assert got[-1][1] == expected[-1][1]
            assert (method, len(model.requests), bank.paid) == (method, 4 * number, 2 * number)


def test_a_repeated_call_without_an_event_id_joins_the_one_that_runs(
    journal: Journal, serve: Callable[[Any], str]
) -> None:
    desk, model = desk_of(journal)
    url = serve(app(desk, caller_arguments=["call_id"]))
    body = {"it": "tell", "call_id": "a"}
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        events_of(http, f"{url}/tell", body, most=1)
        events = events_of(http, f"{url}/tell", body)
    assert "".join(json.loads(data) for _, name, data in events if name == "text") == TEXT
    assert len(model.requests) == 2


def test_a_caller_joins_a_continued_stream_only_where_it_begins(
    journal: Journal, serve: Callable[[Any], str]
) -> None:
    def text_of(events: list[Any]) -> str:
        return "".join(json.loads(data) for _, name, data in events if name == "text")

    url, restarted = (serve(app(desk_of(journal)[0], caller_arguments=["call_id"])) for _ in range(2))
    body = {"it": "tell", "call_id": "a"}
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        events = events_of(http, f"{url}/tell", body)
        texts = [one for one in events if one[1] == "text"]
        for count in (2, 2, 0, 1, 2):
            last_id = texts[count - 1][0] if count else ""
            rest = text_of(events_of(http, f"{restarted}/tell", body, last_id))
            assert (count, text_of(texts[:count]) + rest) == (count, TEXT)


class Cut:
    """ASGI middleware that breaks the connection of each stream after some chunks."""

    def __init__(self, app: Any, chunks: int) -> None:
        self.app, self.chunks, self.requests = app, chunks, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sent = 0
        self.requests += scope["type"] == "http"

        async def send_some(message: Any) -> None:
            nonlocal sent
            sent += bool(message.get("body"))
            if sent > self.chunks:
                await asyncio.sleep(0.01)  # a reset discards what the client has not read
                raise ConnectionResetError("the proxy broke the connection")
            await send(message)

        await self.app(scope, receive, send_some)


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_remote_client_continues_streams_by_itself(
    chunks: int, journal: Journal, serve: Callable[[Any], str]
) -> None:
    bank = Bank()
    service, model = desk_of(journal, bank)
    cut = Cut(app(service, caller_arguments=["call_id"]), chunks)
    desk = client(Desk, serve(cut), timeout=LONGEST_WAIT)

    async def read() -> Any:
        text = "".join([part async for part in desk.atell("tell", "b")])
        items = [item async for item in desk.acount("count", "d")]
        async with desk.agrow("count", "f") as stream:
            return text, items, (await stream.result()).value

    assert "".join(desk.tell("tell", "a")) == TEXT
    assert list(desk.count("count", "c")) == [1, 20, 300]
    assert desk.grow("count", "e").result().value == [1, 20, 300]
    assert asyncio.run(read()) == (TEXT, [1, 20, 300], [1, 20, 300])
    assert (len(model.requests), bank.paid) == (12, 6)
    assert cut.requests > 12


class Plain(Protocol):
    @user_message("{{it}}")
    def tell(self, it: str) -> Iterator[str]: ...


def test_a_remote_client_does_not_repeat_a_stream_that_cannot_be_continued(
    serve: Callable[[Any], str],
) -> None:
    model = ScriptedChatModel([TEXT] * 3)
    cut = Cut(app(create(Plain, model)), 1)
    with pytest.raises(ModelConnectionError):
        list(client(Plain, serve(cut), timeout=LONGEST_WAIT).tell("x"))
    assert (cut.requests, len(model.requests)) == (1, 1)


def test_streams_of_other_calls_are_kept_if_the_server_is_told_so(serve: Callable[[Any], str]) -> None:
    model = ScriptedChatModel([TEXT] * 3)
    cut = Cut(app(create(Plain, model), keep_streams=30.0), 1)
    url = serve(cut)
    assert "".join(client(Plain, url, timeout=LONGEST_WAIT).tell("x")) == TEXT
    assert len(model.requests) == 1
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        cut.chunks = 10**6
        ((event_id, _, _),) = events_of(http, f"{url}/tell", {"it": "x"}, most=1)
        assert events_of(http, f"{url}/tell", {"it": "other arguments"}, event_id) == []
        name = event_id.partition(".")[0]
        assert events_of(http, f"{url}/tell", {"it": "x"}, event_id.replace(name, "0" * 32)) == []
        assert len(events_of(http, f"{url}/tell", {"it": "x"}, event_id)) > 1
    assert len(model.requests) == 2


def test_a_stream_that_is_not_durable_is_not_called_again_for_events_that_are_not_kept(
    serve: Callable[[Any], str],
) -> None:
    model = ScriptedChatModel(lambda request: " ".join(["x" * 10_000] * 200))
    url = serve(app(create(Plain, model), keep_streams=30.0))
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        ((event_id, _, _),) = events_of(http, f"{url}/tell", {"it": "x"}, most=1)
        left = next((count for count in range(100) if not read_on(http, url, event_id)), None)
    assert left is not None
    assert len(model.requests) == 1


def read_on(http: httpx2.Client, url: str, event_id: str) -> list[Any]:
    """Return the next event after one, some time after it."""
    time.sleep(0.02)
    return events_of(http, f"{url}/tell", {"it": "x"}, event_id, 1)


def numbers(stopped: asyncio.Event | None = None) -> AsyncGenerator[SseEvent, None]:
    async def endless() -> AsyncGenerator[SseEvent, None]:
        try:
            number = 0
            while True:
                yield SseEvent(EventName.ITEM, str(number).zfill(1000))
                number += 1
                await asyncio.sleep(0)
        finally:
            if stopped is not None:
                stopped.set()

    return endless()


def report(error: Exception) -> SseEvent:
    return SseEvent(EventName.ERROR, json.dumps(str(error)))


def test_a_stream_ends_some_time_after_its_last_reader_has_left() -> None:
    async def run() -> None:
        stopped, forgotten = asyncio.Event(), list[bool]()
        stream = ResumableStream(numbers(stopped), report, Received(), 0.02)
        stream.on_end = lambda: forgotten.append(True)
        reader = stream.begin_reading()
        await stream.wait_until_visible()
        await asyncio.sleep(0.05)
        assert not stopped.is_set()
        await reader.aclose()
        await reader.aclose()
        await asyncio.wait_for(stopped.wait(), LONGEST_WAIT)
        assert forgotten == [True]

    asyncio.run(run())


def test_a_slow_reader_bounds_what_is_kept() -> None:
    async def run() -> None:
        stream = ResumableStream(numbers(), report, Received(), 60.0)
        reader = stream.begin_reading()
        first = stream.read(0, b"", 60.0)
        got = [await anext(first)]
        await asyncio.sleep(0.2)
        assert 1_000_000 < stream.size < 1_060_000  # the stream waits
        got += [await anext(first) for _ in range(3000)]
        ids = [one.decode().split("id: ")[1].split(".")[1] for one in got]
        assert ids == [str(number) for number in range(1, 3002)]
        await reader.aclose()
        await asyncio.sleep(0.2)
        assert stream.size < 1_060_000  # without a reader the oldest are dropped
        assert not stream.has_all_after(3001)
        assert [one async for one in stream.read(3001, b"", 60.0)] == []
        stream.end()

    asyncio.run(run())


def texts(*parts: str) -> AsyncGenerator[SseEvent, None]:
    async def events() -> AsyncGenerator[SseEvent, None]:
        for part in parts:
            yield SseEvent(EventName.TEXT, json.dumps(part, ensure_ascii=False))
        yield SseEvent(EventName.END, "{}")

    return events()


def test_what_was_received_is_left_out_wherever_the_text_is_divided() -> None:
    whole = "añ😀b\u2028c"

    async def rest(parts: list[str], length: int) -> str:
        received = Received()
        received.add(SseEvent(EventName.TEXT, json.dumps(whole[:length])))
        last = EventId("0" * 32, 1, length, received.digest)
        again = Received()
        shown = [one async for one in after(last, texts(*parts), again)]
        return "".join(json.loads(one.data) for one in shown if one.name is EventName.TEXT)

    for cut in range(len(whole) + 1):
        for parts in ([whole], list(whole), [whole[:3], whole[3:]]):
            assert asyncio.run(rest(parts, cut)) == whole[cut:]
        if cut:
            for other in (["x" + whole[1:]], [whole[: cut - 1]], ["", *list(whole[: cut - 1]), "y"]):
                if other != [whole]:
                    with pytest.raises(JournalError, match="begins differently"):
                        asyncio.run(rest(other, cut))


def test_ids_of_events_are_read_only_in_their_own_form() -> None:
    event_id = EventId("ab" * 16, 3, 12, "01" * 8)
    assert EventId.parse(str(event_id)) == event_id
    assert EventId.parse(str(event_id._replace(is_last=True))) == event_id._replace(is_last=True)
    for wrong in ("", "1", "x", f"{event_id}.", f"{event_id}\n", f" {event_id}", f"{event_id}.end.end", "١"):
        assert EventId.parse(wrong) is None


SERVER = """
import sys, time, os
import uvicorn
sys.path[:0] = {path!r}
from tests.aiservices.remote.test_resumable_streams import Desk, reply
from aiservices import Durable, Journal, ReplyDelta, ScriptedChatModel, create
from aiservices.integrations.fastapi import app

def note(text):
    with open({log!r}, "a") as log:
        log.write(text + "\\n")

class Slow(ScriptedChatModel):
    def stream(self, request):
        note("request")
        for delta in super().stream(request):
            yield delta
            time.sleep(0.15)

def pay() -> str:
    "Pay."
    note("paid")
    return "paid"

desk = create(Desk, Slow(reply), tools=[pay], interceptors=[Durable(Journal({db!r}))])
uvicorn.run(app(desk, caller_arguments=["call_id"]), port={port}, log_level="critical")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("method", "events"), [("tell", 1), ("count", 3), ("grow", 2)])
def test_a_remote_client_continues_after_a_kill_of_the_server(
    method: str, events: int, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path / "log"
    program = SERVER.format(
        path=[os.getcwd(), *sys.path], log=str(log), db=str(tmp_path / "calls.db"), port=port
    )

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program])
        wait_until_listening(port)
        return process

    process = start()
    try:
        desk = client(Desk, f"http://127.0.0.1:{port}", timeout=LONGEST_WAIT)
        parts = iter(getattr(desk, method)("tell" if method == "tell" else "count", "a"))
        got = [next(parts) for _ in range(events)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start()
        got += list(parts)
    finally:
        process.kill()
        process.wait()
    if method == "tell":
        assert "".join(got) == TEXT
    elif method == "count":
        assert got == [1, 20, 300]
    else:
        assert got[-1].to_python() == [1, 20, 300]
    notes = log.read_text().split()
    assert (notes.count("paid"), notes.count("request") <= 3) == (1, True)


def test_problems_of_durable_calls_have_their_own_kinds(
    journal: Journal, serve: Callable[[Any], str]
) -> None:
    desk, model = desk_of(journal)
    url = serve(app(desk, caller_arguments=["call_id"]))
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        events_of(http, f"{url}/tell", {"it": "tell", "call_id": "a"})
        changed = http.post(f"{url}/tell", json={"it": "x", "call_id": "a"})
        wrong = [http.post(f"{url}/tell", json={"it": "x", "call_id": one}) for one in ("", "\0")]
    assert (changed.status_code, changed.json()["type"]) == (409, "urn:aiservices:call-changed")
    assert [(one.status_code, one.json()["type"]) for one in wrong] == [(422, "urn:aiservices:call-id")] * 2
    assert len(model.requests) == 2


def test_arguments_that_the_server_makes_for_tools_do_not_keep_a_stream_from_being_continued(
    journal: Journal, serve: Callable[[Any], str]
) -> None:
    class Session(Protocol):
        @user_message("{{it}}")
        def tell(
            self, it: str, user: Annotated[str, UserName], db: Annotated[object, ToolContext], call_id: Id
        ) -> Iterator[str]: ...

    users = iter(("Ann", "Ann", "Bob"))
    model = ScriptedChatModel([TEXT] * 2)
    service = create(Session, model, interceptors=[Durable(journal)])
    arguments: Any = {"user": lambda: next(users), "db": lambda: object()}
    url = serve(app(service, caller_arguments=["call_id"], server_arguments=arguments))
    body = {"it": "x", "call_id": "a"}
    with httpx2.Client(timeout=LONGEST_WAIT) as http:
        ((event_id, _, first),) = events_of(http, f"{url}/tell", body, most=1)
        rest = events_of(http, f"{url}/tell", body, event_id)
        assert json.loads(first) + "".join(json.loads(one[2]) for one in rest[:-1]) == TEXT
        other = http.post(f"{url}/tell", json=body, headers={"Last-Event-ID": event_id})
        assert (other.status_code, other.json()["type"]) == (409, "urn:aiservices:call-changed")
    assert len(model.requests) == 1


def test_a_durable_call_can_be_resumed_again_over_http_with_the_same_decision(journal: Journal) -> None:
    bank, failures = Bank(), [ModelConnectionError("no connection")]

    def failing_once(request: Any) -> Any:
        answer = reply(request)
        if isinstance(answer, str) and failures:
            raise failures.pop()
        return answer

    pay = tool(needs_approval=True)(bank.pay)
    desk = create(Desk, ScriptedChatModel(failing_once), tools=[pay], interceptors=[Durable(journal)])
    http = TestClient(app(desk, caller_arguments=["call_id"], approvals=ApprovalSettings()))
    waiting = http.post("/tell", json={"it": "tell", "call_id": "a"}).json()

    def resume(approved: bool) -> httpx2.Response:  # a decision
        body = {"state": waiting["state"], "approvals": {"c1": approved}}
        return http.post("/tell/resume", json=body)

    assert (resume(True).status_code, bank.paid) == (503, 1)
    assert resume(False).json()["type"] == "urn:aiservices:already-resumed"
    again = resume(True)
    assert (again.status_code, bank.paid) == (200, 1)
    assert "three" in again.text
