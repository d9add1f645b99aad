"""ResponseCache answers equal requests with replies that were accepted before."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest
from loopback import Loopback, answer
from openai import OpenAI
from recorded_spans import Recorded

from aiservices import (
    AiMessage,
    Budget,
    Capabilities,
    ChatOptions,
    ChatReply,
    Decision,
    DefinitionError,
    FinishReason,
    OpenAiChatModel,
    Price,
    ResponseCache,
    Result,
    ScriptedChatModel,
    ServerToolRun,
    TokenLogprob,
    ToolCall,
    Usage,
    create,
)
from aiservices.engine.budget import SharedBudget
from aiservices.guardrails import GuardrailError, OutputGuardrails, passed, refused
from aiservices.models.messages import reply_from_json, reply_to_json
from aiservices.rows import map_rows

USED = Usage(10, 2)


class Judge(Protocol):
    def is_good(self, text: str) -> bool: ...
    def detailed(self, text: str) -> Result[bool]: ...
    async def later(self, text: str) -> Result[bool]: ...
    def likely(self, text: str) -> Decision[bool]: ...
    def words(self, text: str) -> Iterator[str]: ...
    def words_later(self, text: str) -> AsyncIterator[str]: ...


def reply(text: str) -> ChatReply:
    return ChatReply(AiMessage(text), usage=USED, model="scripted-1")


def scripted(*texts: str, **settings: Any) -> ScriptedChatModel:
    return ScriptedChatModel([reply(text) for text in texts], **settings)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    with ResponseCache(tmp_path / "replies.sqlite") as cache:
        yield cache


def test_an_equal_request_is_sent_once(cache: ResponseCache) -> None:
    model = scripted("true", "false")
    judge = create(Judge, model, cache=cache)
    results = [judge.detailed("a"), judge.detailed("a"), judge.detailed("b")]
    assert [(result.value, result.cached, result.usage) for result in results] == [
        (True, False, USED),
        (True, True, Usage()),
        (False, False, USED),
    ]
    assert len(model.requests) == 2


def test_other_services_and_processes_use_the_reply(cache: ResponseCache, tmp_path: Path) -> None:
    create(Judge, scripted("true"), cache=cache).is_good("a")
    program = (
        "import sys\nfrom typing import Protocol\n"
        "from aiservices import ResponseCache, ScriptedChatModel, create\n"
        "class Judge(Protocol):\n    def is_good(self, text: str) -> bool: ...\n"
        "cache = ResponseCache(sys.argv[1])\n"
        "print(create(Judge, ScriptedChatModel([]), cache=cache).is_good('a'))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "replies.sqlite")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_another_model_schema_or_option_is_another_request(cache: ResponseCache) -> None:
    create(Judge, scripted("true"), cache=cache).is_good("a")
    for model, settings in (
        (scripted("false", name="other"), {}),
        (scripted("false"), {"options": ChatOptions(max_tokens=5)}),
        (scripted("false"), {"system_message": "Be strict."}),
    ):
        assert create(Judge, model, cache=cache, **settings).is_good("a") is False


def test_async_calls(cache: ResponseCache) -> None:
    model = scripted("true")
    judge = create(Judge, model, cache=cache)

    async def both() -> list[Result[bool]]:
        return [await judge.later("a"), await judge.later("a")]

    assert [(result.value, result.cached) for result in asyncio.run(both())] == [(True, False), (True, True)]


def test_streams_yield_the_stored_text(cache: ResponseCache) -> None:
    model = scripted("one two", "three four")
    judge = create(Judge, model, cache=cache)
    assert [list(judge.words("a")) for _ in range(2)] == [["one ", "two"], ["one two"]]

    async def later() -> list[str]:
        return [piece async for piece in judge.words_later("b")]

    assert [asyncio.run(later()) for _ in range(2)] == [["three ", "four"], ["three four"]]
    assert len(model.requests) == 2


def test_a_reply_that_cannot_be_read_is_not_stored(cache: ResponseCache) -> None:
    first, second = scripted("perhaps", "true"), scripted("false")
    judge = create(Judge, first, cache=cache)
    assert judge.detailed("a").value is True
    assert create(Judge, second, cache=cache).is_good("a") is False  # the first request was not stored
    assert len(second.requests) == 1


def test_a_reply_that_a_guardrail_refuses_is_not_stored(cache: ResponseCache) -> None:
    def refuses(text: Any, invocation: Any) -> Any:
        return passed() if "false" in text else refused("no good news")

    guards = OutputGuardrails(refuses)
    judge = create(Judge, scripted("true"), cache=cache, interceptors=[guards], retry=None)
    with pytest.raises(GuardrailError):
        judge.is_good("a")
    model = scripted("false")
    assert create(Judge, model, cache=cache, interceptors=[guards]).is_good("a") is False
    assert len(model.requests) == 1


@pytest.mark.parametrize("temperature", [0.7, 1])
def test_a_temperature_above_zero_is_not_stored(cache: ResponseCache, temperature: float) -> None:
    model = scripted("true", "false")
    judge = create(Judge, model, cache=cache, options=ChatOptions(temperature=temperature))
    assert [judge.is_good("a"), judge.is_good("a")] == [True, False]


def test_votes_have_an_entry_for_each_sample(cache: ResponseCache) -> None:
    plain = Capabilities(json_schema=True, strict_schema=True)
    first = scripted("true", "true", "false", capabilities=plain)
    found = create(Judge, first, cache=cache, votes=3).likely("a")
    again = create(Judge, scripted(capabilities=plain), cache=cache, votes=3).likely("a")
    assert (found.probabilities, found.source) == (again.probabilities, "votes(3)")


def test_a_call_that_ran_tools_is_not_stored(cache: ResponseCache) -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sun"

    call = ChatReply(
        AiMessage("", (ToolCall("1", "weather", '{"city": "Rome"}'),)), FinishReason.TOOL_CALLS, USED
    )
    for _ in range(2):
        model = ScriptedChatModel([call, reply("true")])
        assert create(Judge, model, tools=[weather], cache=cache).is_good("a") is True
        assert len(model.requests) == 2
    searched = ChatReply(AiMessage("true"), server_tool_runs=(ServerToolRun("search", {}, {}),))
    for _ in range(2):
        model = ScriptedChatModel([searched])
        create(Judge, model, cache=cache).is_good("b")
        assert len(model.requests) == 1


def test_a_cached_reply_does_not_count_in_budgets(cache: ResponseCache) -> None:
    prices = {"scripted": Price(1e6, 1e6)}
    judge = create(Judge, scripted("true"), cache=cache, budget=Budget(prices=prices))
    with SharedBudget(prices=prices) as spent:
        assert [judge.detailed("a").cost, judge.detailed("a").cost] == [12.0, 0.0]
    assert (spent.requests, spent.cost, spent.usage) == (1, 12.0, USED)


def test_rows_use_the_cache(cache: ResponseCache, tmp_path: Path) -> None:
    table = [{"text": "a"}, {"text": "b"}]
    judge = create(Judge, scripted("true", "false"))
    first = list(map_rows(judge.is_good, table, cache=cache))
    second = list(map_rows(create(Judge, scripted()).is_good, table, cache=cache))
    assert [[row.value for row in rows] for rows in (first, second)] == [[True, False]] * 2
    assert [[row.cached for row in rows] for rows in (first, second)] == [[False, False], [True, True]]


def test_entries_expire(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "replies", expires=timedelta(milliseconds=1)) as cache:
        cache.put("key", reply("true"))
        while cache.get("key") is not None:
            pass


def test_the_oldest_entries_are_deleted(tmp_path: Path) -> None:
    with ResponseCache(tmp_path / "replies", max_bytes=2000) as cache:
        for number in range(50):
            cache.put(str(number), reply("true"))
        found = [number for number in range(50) if cache.get(str(number)) is not None]
    assert found == list(range(found[0], 50))
    assert 5 <= len(found) < 20


def test_entries_are_encrypted(tmp_path: Path) -> None:
    def turn(data: bytes) -> bytes:
        return bytes(byte ^ 0x55 for byte in data)

    path = tmp_path / "replies"
    with ResponseCache(path, encrypt=turn, decrypt=turn) as cache:
        create(Judge, scripted("true"), cache=cache).is_good("a secret")
        (key,) = cache._store._file._connected().execute("SELECT key FROM reply").fetchone()  # type: ignore[attr-defined]
        assert cache.get(key) == reply("true")
    assert b"true" not in path.read_bytes()
    assert b"a secret" not in path.read_bytes()
    with ResponseCache(path) as cache:
        assert cache.get(key) is None


def test_damaged_entries_are_not_used(cache: ResponseCache, tmp_path: Path) -> None:
    cache.put("key", reply("true"))
    connection = sqlite3.connect(tmp_path / "replies.sqlite")
    for data in (b"", b"{", b'{"format": 99, "reply": {}}', b'{"format": 1}', b"\xff"):
        with connection:
            connection.execute("UPDATE reply SET data = ?", (data,))
        assert cache.get("key") is None
    connection.close()


def test_clear_deletes_everything(cache: ResponseCache, tmp_path: Path) -> None:
    cache.put("key", reply("a private text"))
    cache.clear()
    assert cache.get("key") is None
    cache.close()
    assert b"private" not in (tmp_path / "replies.sqlite").read_bytes()


def test_threads_share_a_cache(cache: ResponseCache) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: cache.put(str(number % 20), reply(f"{number % 20}")), range(200)))
        found = list(pool.map(lambda number: cache.get(str(number)), range(20)))
    assert [one and one.text for one in found] == [str(number) for number in range(20)]


def test_a_store_that_fails_is_logged_and_the_request_is_sent(
    cache: ResponseCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = sqlite3.connect(tmp_path / "replies.sqlite")
    with connection:
        connection.execute("DROP TABLE reply")
    connection.close()
    with caplog.at_level(logging.WARNING, "aiservices"):
        assert create(Judge, scripted("true"), cache=cache).is_good("a") is True
    assert [record.message for record in caplog.records] == [
        "the response cache cannot be read, so the request is sent: no such table: reply",
        "the reply is not stored in the response cache: no such table: reply",
    ]


def test_wrong_settings_are_definition_errors(tmp_path: Path) -> None:
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (3, {}, r"store is int; pass the path of a file, or a redis:// URL"),
        (tmp_path, {}, "cannot be used as an SQLite file"),
        (tmp_path / "x", {"expires": -1}, "expires is -1; it must be greater than 0"),
        (tmp_path / "x", {"max_bytes": 0}, "max_bytes is 0"),
        (tmp_path / "x", {"encrypt": bytes}, "encrypt and decrypt are needed together"),
        (tmp_path / "x", {"namespace": 3}, "namespace is 3; it must be a string"),
        ("redis://localhost", {"max_bytes": 5}, "set maxmemory of Redis"),
    ]
    for store, settings, message in wrong:
        with pytest.raises(DefinitionError, match=message):
            ResponseCache(store, **settings)
    with pytest.raises(DefinitionError, match="cache has the type str; pass a ResponseCache"):
        create(Judge, scripted(), cache="x")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="cache is str; pass a ResponseCache"):
        map_rows(create(Judge, scripted()).is_good, [{"text": "a"}], cache="x")  # type: ignore[arg-type]


def test_no_span_of_a_request_is_recorded_for_a_cached_reply(cache: ResponseCache) -> None:
    recorded = Recorded()
    telemetry = recorded.telemetry(content=False)
    judge = create(Judge, scripted("true"), cache=cache, interceptors=[telemetry])
    judge.is_good("a")
    judge.is_good("a")
    assert recorded.tree.splitlines() == [
        "invoke_workflow Judge.is_good",
        "  chat scripted",
        "invoke_workflow Judge.is_good",
    ]


def test_replies_are_stored_without_loss() -> None:
    whole = ChatReply(
        AiMessage("ä", (ToolCall("1", "f", "{}"),)),
        FinishReason.LENGTH,
        Usage(1, 2, 3, 4, 5),
        "m",
        "id",
        refusal="no",
        stop_reason="max",
        notes=("a note",),
        citations=({"url": "x"},),
        logprobs=(TokenLogprob(b"\xc3", -0.5, ((b"\xc3", -0.5), (b"a", -1.0))),),
        probabilities={"$": ((True, 0.5), (False, 0.5))},
    )
    again = reply_from_json(reply_to_json(whole))
    assert (again, again.stop_reason) == (whole, "max")


def test_redis_keeps_replies(redis_url: str) -> None:
    with ResponseCache(redis_url, expires=60) as cache:
        model = scripted("true")
        judge = create(Judge, model, cache=cache)

        async def later() -> Result[bool]:
            return await judge.later("a")

        assert [asyncio.run(later()).cached for _ in range(2)] == [False, True]
        cache.clear()
        assert cache.get("key") is None
    with ResponseCache("unix:///nowhere.sock") as cache:
        assert create(Judge, scripted("true"), cache=cache).is_good("a") is True


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"options": ChatOptions(extra_headers={"x-tenant": "a"})}, {}),
        (
            {"options": ChatOptions(extra_headers={"x-tenant": "a"})},
            {"options": ChatOptions(extra_headers={"X-Tenant": "b"})},
        ),
        ({"api_key": "a"}, {"api_key": "b"}),
        ({"query": "?api-version=1"}, {"query": "?api-version=2"}),
        ({"query": ""}, {"query": "?deployment=b"}),
        ({"sdk": {}}, {"sdk": {"default_headers": {"x-model": "b"}}}),
        ({"sdk": {}}, {"sdk": {"default_query": {"model": "b"}}}),
        ({"sdk": {}}, {"sdk": {"organization": "b"}}),
    ],
)
def test_whatever_selects_the_answer_is_in_the_key(
    cache: ResponseCache, loopback: Loopback, first: Any, second: Any
) -> None:
    loopback.reply(lambda request: answer("{}"))

    def ask(api_key: str = "k", query: str = "", sdk: Any = None, **settings: Any) -> None:
        url = loopback.base_url + query
        with ExitStack() as stack:
            if sdk is None:
                model = OpenAiChatModel("m", base_url=url, api_key=api_key, **settings)
            else:
                client = stack.enter_context(OpenAI(base_url=url, api_key=api_key, **sdk))
                model = OpenAiChatModel("m", client=client)
            create(Chats, stack.enter_context(model), cache=cache).chat("x")

    for settings, requests in ((first, 1), (second, 2), (first, 2), (second, 2)):
        ask(**settings)
        assert len(loopback.requests) == requests


class Chats(Protocol):
    def chat(self, text: str) -> str: ...


def test_headers_of_a_model_without_http_are_in_the_key(cache: ResponseCache) -> None:
    model = scripted("a", "b")
    options = [ChatOptions(extra_headers={"x": value}) for value in "ab"]
    answers = [create(Chats, model, cache=cache, options=one).chat("x") for one in (*options, *options)]
    assert answers == ["a", "b"] * 2


def test_other_namespaces_share_nothing(tmp_path: Path) -> None:
    model = scripted("a", "b")
    for _ in range(2):
        for name in "ab":
            with ResponseCache(tmp_path / "c.sqlite", namespace=name) as cache:
                assert create(Chats, model, cache=cache).chat("x") == name
    assert len(model.requests) == 2


def test_what_selects_the_answer_of_a_model_without_http_is_in_the_key(cache: ResponseCache) -> None:
    class Own(ScriptedChatModel):
        destination = ""
        default_options = ChatOptions()

    def own(text: str, **attributes: object) -> Own:
        model = Own([text])
        for name, value in attributes.items():
            setattr(model, name, value)
        return model

    settings: list[dict[str, object]] = [
        {},
        {"account": "a"},
        {"destination": "a"},
        {"default_options": ChatOptions(max_tokens=5)},
    ]
    for number, attributes in enumerate(settings):
        assert create(Chats, own(str(number), **attributes), cache=cache).chat("x") == str(number)
    for number, attributes in enumerate(settings):
        assert create(Chats, own("again", **attributes), cache=cache).chat("x") == str(number)
