"""Tests of the playground without a browser: its files, paths, access control and endpoints."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from importlib.resources import files
from typing import Annotated, Any, Protocol

import pytest
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.testclient import TestClient

from aiservices import (
    AiMessage,
    ChatOptions,
    ChatReply,
    Cited,
    DefinitionError,
    Document,
    Image,
    MediaPolicy,
    MemoryId,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolContext,
    create,
    options,
    tool,
    user_message,
)
from aiservices.integrations.fastapi import ApprovalSettings, app, provide
from aiservices.page import mount


class Reader(Protocol):
    """Reads texts."""

    @user_message("Is {{text}} good?")
    def good(self, text: str) -> bool: ...

    @user_message("What does {{text}} cost?")
    async def price(self, text: str) -> Result[Decimal]: ...

    @user_message("Tell of {{text}}")
    def tell(self, text: str) -> Iterator[str]: ...

    @user_message("Numbers of {{text}}")
    def numbers(self, text: str) -> Iterator[int]: ...


def reader(*replies: Any) -> Reader:
    return create(Reader, ScriptedChatModel(replies))


def page_of(service: object, **settings: Any) -> TestClient:
    application = FastAPI()
    mount(application, service, **settings)
    return TestClient(application)


def events(answer: Any) -> list[tuple[str, Any]]:
    """Return the server-sent events of a response, without steps and durations."""
    assert answer.status_code == 200, answer.text
    events = [event for event in all_events(answer) if event[0] != "step"]
    for _, message in events:
        if isinstance(message, dict):
            message.pop("seconds", None)
    return events


def all_events(answer: Any) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [(name[7:], json.loads(data[6:], parse_float=Decimal)) for name, data, _ in blocks]


def steps(answer: Any) -> list[dict[str, Any]]:
    """Return the steps of the calls in a response, as they are at the end."""
    return list({data["id"]: data for name, data in all_events(answer) if name == "step"}.values())


def test_the_page_loads_nothing_from_other_hosts() -> None:
    client = page_of(reader())
    index = client.get("/").text
    names = set(re.findall(r'(?:src|href)="_page/([^"]+)"', index))
    assert names == {"icon.svg", "page.css", "page.js"}
    seen: set[str] = set()
    while names - seen:
        name = min(names - seen)
        seen.add(name)
        text = client.get(f"/_page/{name}").text
        names |= set(re.findall(r'from "\./([^"]+)"', text))
        without_namespace = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", without_namespace) == [], name
    static = {file.name for file in files("aiservices.page").joinpath("static").iterdir()}
    assert static == seen | {"index.html"}


def test_files_have_a_content_security_policy() -> None:
    client = page_of(reader())
    for path in ("/", "/_page/page.js", "/_page/page.css", "/_page/icon.svg"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert client.get("/_page/page.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_no_script_parses_text_as_html() -> None:
    for file in files("aiservices.page").joinpath("static").iterdir():
        assert (
            re.findall(
                r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function",
                file.read_text("utf-8"),
            )
            == []
        )


def test_the_page_is_not_in_the_openapi_document() -> None:
    application = app(service := reader())
    mount(application, service)
    assert sorted(application.openapi()["paths"]) == ["/good", "/numbers", "/price", "/tell"]


def test_the_page_can_have_another_path() -> None:
    client = page_of(reader('{"value": true}'), path="/try")
    assert client.get("/").status_code == 404
    assert client.get("/try").text == client.get("/try/").text != ""
    (described,) = client.get("/try/_page/services.json").json()
    run = described["methods"][0]["run"]
    assert run == "_page/Reader/good/run"
    assert events(client.post(f"/try/{run}", json={"text": "it"}))[0] == ("result", {"value": True})


def test_mounting_over_an_existing_route_raises_an_error() -> None:
    application = FastAPI()
    application.get("/")(lambda: "Hello")
    with pytest.raises(
        ValueError, match=r"^the application already has a route for GET /; pass another path for the page$"
    ):
        mount(application, reader())


def test_settings_are_checked_as_those_of_a_router() -> None:
    with pytest.raises(DefinitionError) as caught:
        mount(FastAPI(), reader(), max_body_size=0, approvals=ApprovalSettings(key=b""))
    assert [problem.message for problem in caught.value.problems] == [
        "max_body_size is 0; it must be at least 1",
        "the key of approvals is empty; pass a secret, for example 32 random bytes",
        "approvals has a key, but no store that records which states were resumed; pass "
        "ApprovalSettings(key=…, store=…), or no key if one process serves",
    ]


def test_services_of_the_same_name_have_different_ids() -> None:
    client = page_of({"/one": reader('{"value": true}'), "/two": reader('{"value": false}')})
    described = client.get("/_page/services.json").json()
    assert [(one["id"], one["name"], one["prefix"]) for one in described] == [
        ("Reader", "Reader", "/one"),
        ("Reader-2", "Reader", "/two"),
    ]
    answers = [
        events(client.post(f"/_page/{one['id']}/good/run", json={"text": "it"}))[0] for one in described
    ]
    assert answers == [("result", {"value": True}), ("result", {"value": False})]


def test_dependencies_restrict_access_to_the_page() -> None:
    def check_user(x_user: Annotated[str, Header()] = "") -> None:
        if x_user != "ada":
            raise HTTPException(401)

    client = page_of(reader(), dependencies=[Depends(check_user)])
    for path in ("/", "/_page/page.js", "/_page/services.json"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"X-User": "ada"}).status_code == 200
    assert client.post("/_page/Reader/good/preview", json={"text": "it"}).status_code == 401


def test_a_method_that_returns_a_bare_value_has_call_details() -> None:
    client = page_of(reader('{"value": "maybe"}', '```\n{"value": true}\n```'))
    answer = client.post("/_page/Reader/good/run", json={"text": "it"})
    result, (name, account) = events(answer)
    assert (result, name) == (("result", {"value": True}), "end")
    assert account == {
        "strategy": "json_schema",
        "reasons": ["scripted supports JSON Schema", "the value is sent in an object, under the key 'value'"],
        "input_tokens": account["input_tokens"],
        "output_tokens": 6,
        "cached_tokens": 0,
        "reasoning_tokens": 0,
        "cache_write_tokens": 0,
        "cost": None,
        "attempts": 2,
        "coercions": [{"path": "$", "rule": "text around the JSON left out", "before": "", "after": ""}],
        "quotes": None,
    }
    assert [(one["kind"], one["state"], one["texts"][-1]) for one in steps(answer)] == [
        ("call", "done", ["answer", "True"]),
        (
            "request",
            "rejected",
            ["problems", '$.value: expected true or false; the text names none of them, found "maybe"'],
        ),
        ("request", "done", ["reply", '```\n{"value": true}\n```']),
    ]


def test_results_texts_and_items_end_with_call_details() -> None:
    client = page_of(reader('{"value": 1.10}', "A long tale", '{"items": [1, 2]}'))
    price = events(client.post("/_page/Reader/price/run", json={"text": "it"}))
    assert [name for name, _ in price] == ["result", "end"]
    assert str(price[0][1]["value"]) == "1.10"
    tale = events(client.post("/_page/Reader/tell/run", json={"text": "it"}))
    assert tale[:-1] == [("text", "A "), ("text", "long "), ("text", "tale")]
    numbers = events(client.post("/_page/Reader/numbers/run", json={"text": "it"}))
    assert numbers[:-1] == [("item", 1), ("item", 2)]
    assert [answer[-1][1]["coercions"] for answer in (price, tale, numbers)] == [[], [], []]


def test_coercions_are_null_if_an_interceptor_changed_the_value() -> None:
    def always_false(invocation: Any, proceed: Any) -> Any:
        answer = yield from proceed(invocation)
        return type(answer)(False, answer.reply, answer.coercions)

    service = create(Reader, ScriptedChatModel(['{"value": true}']), interceptors=[always_false])
    result, (_, account) = events(page_of(service).post("/_page/Reader/good/run", json={"text": "it"}))
    assert result == ("result", {"value": False})
    assert account["coercions"] is None


def test_a_failed_call_has_call_details(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    client = page_of(reader(*['{"value": "maybe"}'] * 3))
    answer = client.post("/_page/Reader/good/run", json={"text": "it"})
    (name, problem), (end, account) = events(answer)
    assert (name, problem["type"], end) == ("error", "urn:aiservices:unreadable-reply", "end")
    assert account["attempts"] == 3
    assert [one["state"] for one in steps(answer)] == ["failed", "rejected", "rejected", "rejected"]


class Viewer(Protocol):
    def look(self, image: Image) -> str: ...


def test_the_page_accepts_only_the_images_of_the_policy() -> None:
    page = page_of(create(Viewer, ScriptedChatModel(["x"])), media=MediaPolicy(hosts=["images.example.com"]))
    for host, status in (("169.254.169.254", 422), ("images.example.com", 200)):
        answer = page.post("_page/Viewer/look/run", json={"image": {"url": f"https://{host}/a.png"}})
        assert answer.status_code == status, answer.text


def test_invalid_arguments_are_a_problem_and_make_no_request() -> None:
    service = create(Reader, model := ScriptedChatModel([]))
    client = page_of(service)
    for name in ("run", "preview"):
        answer = client.post(f"/_page/Reader/good/{name}", json={"text": 1})
        assert answer.status_code == 422
        assert answer.json()["problems"] == [
            {"path": "$.text", "message": "number as text is not accepted", "found": "1"}
        ]
        assert client.post(f"/_page/Reader/good/{name}", content="{}").status_code == 415
    assert model.requests == []


class Careful(Protocol):
    @options(extra_headers={"X-Key": "sk-secret"}, extra_body={"key": "sk-secret"}, temperature=0.5)
    @user_message("Hello {{name}}")
    def hello(self, name: str) -> str: ...


def test_a_preview_contains_no_key_and_makes_no_request() -> None:
    model = ScriptedChatModel([])
    answer = page_of(create(Careful, model)).post("/_page/Careful/hello/preview", json={"name": "Ada"})
    assert answer.json() == {
        "model": "scripted",
        "strategy": "text",
        "reasons": ["the type is plain text: the reply itself is the value"],
        "messages": [{"role": "user", "parts": [{"text": "Hello Ada"}]}],
        "options": {"temperature": 0.5},
        "schema": None,
        "strict": False,
        "tools": [],
    }
    assert model.requests == []


class Chat(Protocol):
    @user_message("{{it}}")
    def chat(self, message: str, user: Annotated[str, MemoryId]) -> str: ...


def test_server_arguments_cannot_be_set_on_the_page() -> None:
    def logged_in(x_user: Annotated[str, Header()]) -> str:
        return x_user

    seen: list[Any] = []

    def look(invocation: Any, proceed: Any) -> Any:
        seen.append(invocation.memory_id)
        return (yield from proceed(invocation))

    service = create(Chat, ScriptedChatModel(["Hello."]), interceptors=[look])
    client = page_of(service, server_arguments={"user": logged_in})
    (described,) = client.get("/_page/services.json").json()
    assert [one["name"] for one in described["methods"][0]["arguments"]] == ["message"]
    refused = client.post(
        "/_page/Chat/chat/run", json={"message": "Hi", "user": "eve"}, headers={"X-User": "ada"}
    )
    assert refused.status_code == 422
    answer = client.post("/_page/Chat/chat/run", json={"message": "Hi"}, headers={"X-User": "ada"})
    assert (events(answer)[0], seen) == (("result", {"value": "Hello."}), ["ada"])


class Within(Protocol):
    @user_message("{{it}}")
    def ask(
        self, message: str, limits: Annotated[dict[str, int], ToolContext], how: ChatOptions | None = None
    ) -> str: ...


def test_a_method_lists_its_missing_server_arguments() -> None:
    client = page_of(create(Within, ScriptedChatModel([]), tools=[limited]))
    (described,) = client.get("/_page/services.json").json()
    assert described["methods"][0]["missing"] == ["limits"]


def limited(limits: Annotated[dict[str, int], ToolContext]) -> int:
    """How much there may be."""
    return limits["most"]


class ByHand:
    def good(self, text: str) -> bool:
        return text == "gold"


def test_a_service_not_made_by_create_runs_without_call_details() -> None:
    client = page_of(provide(ByHand()), interface=Reader)
    (described,) = client.get("/_page/services.json").json()
    assert described["methods"][0]["preview"] is None
    answer = events(client.post("/_page/Reader/good/run", json={"text": "gold"}))
    assert answer == [("result", {"value": True}), ("end", None)]


class BothWays:
    """Asks a service twice, in plain Python."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner

    def good(self, text: str) -> bool:
        return self._inner.good(text) and not self._inner.good(f"not {text}")

    def numbers(self, text: str) -> Iterator[int]:
        yield from self._inner.numbers(text)
        yield int(self._inner.good(text))


def test_the_calls_of_a_service_in_plain_python_are_steps() -> None:
    answers = ['{"value": true}', '{"value": false}', '{"items": [1, 2]}', '{"value": true}']
    client = page_of(provide(BothWays(reader(*answers))), interface=Reader)
    good = client.post("/_page/Reader/good/run", json={"text": "gold"})
    numbers = client.post("/_page/Reader/numbers/run", json={"text": "gold"})
    assert events(good) == [("result", {"value": True}), ("end", None)]
    assert [one["name"] for one in steps(good) if one["kind"] == "call"] == ["Reader.good", "Reader.good"]
    assert events(numbers) == [("item", 1), ("item", 2), ("item", 1), ("end", None)]
    assert [one["name"] for one in steps(numbers) if one["kind"] == "call"] == [
        "Reader.numbers",
        "Reader.good",
    ]


def test_the_steps_contain_no_messages_of_exceptions(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    service = create(Reader, ScriptedChatModel([RuntimeError("the key is sk-secret")]))
    answer = page_of(service).post("/_page/Reader/good/run", json={"text": "it"})
    assert "sk-secret" not in answer.text
    assert [one["texts"][-1] for one in steps(answer)] == [
        ["error", "The service failed"],
        ["user", "Is it good?"],
    ]


class Bare(Protocol):
    @user_message("{{it}}")
    def reply(self, message: str) -> ChatReply: ...


def test_a_chat_reply_is_sent_without_the_raw_response() -> None:
    service = create(Bare, ScriptedChatModel([ChatReply(AiMessage("Hello."), raw=object())]))
    result = events(page_of(service).post("/_page/Bare/reply/run", json={"message": "Hi"}))[0]
    assert result[1]["value"]["message"]["text"] == "Hello."


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "try:\n    from aiservices.page import mount\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'mount needs the package fastapi: pip install "aiservices[fastapi]"'


def test_the_quotes_of_an_answer_are_shown_in_its_documents() -> None:
    class Clerk(Protocol):
        @user_message("{{documents}}")
        def rent(self, documents: list[Document]) -> list[Cited[int]]: ...

    reply = '{"value": [{"quote": "is 500", "value": 500}, {"quote": "is <7>", "value": 7}]}'
    client = page_of(create(Clerk, ScriptedChatModel([reply])))
    documents = ["The rent is 500.", {"text": "It is <7>.", "name": "b.txt"}]
    answer = client.post("/_page/Clerk/rent/run", json={"documents": documents})
    path = dict(events(answer))["end"]["quotes"]
    shown = client.get(f"/{path}")
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert "script-src" not in shown.headers["content-security-policy"]
    assert re.findall("<mark[^>]*>(.*?)</mark>", shown.text) == ["is 500", "is &lt;7&gt;"]
    assert "<h2>b.txt</h2>" in shown.text
    assert client.get("/_page/quotes/other").status_code == 404


def test_a_missing_key_is_named_and_no_request_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    client = page_of(create(Reader, "openai:gpt-5-mini"))
    (error, (end, account)) = events(client.post("/_page/Reader/good/run", json={"text": "Rome"}))
    assert (error[0], error[1]["detail"]) == (
        "error",
        "openai:gpt-5-mini: no API key; set OPENAI_API_KEY or pass api_key",
    )
    assert (end, account["attempts"]) == ("end", 0)


def test_a_call_that_waits_for_approval_continues_once_with_its_steps() -> None:
    call = ChatReply(AiMessage("", (ToolCall("c1", "pay", '{"order": 17}'),)))
    paid: list[int] = []

    @tool(needs_approval=True)
    def pay(order: int) -> str:
        """Pay."""
        paid.append(order)
        return "paid"

    class Clerk(Protocol):
        def work(self, text: str) -> Result[str]: ...

    clerk = create(Clerk, ScriptedChatModel([call, call, "Done."]), tools=[pay])
    (without, _) = events(page_of(clerk).post("/_page/Clerk/work/run", json={"text": "Pay."}))
    assert (without[1]["status"], "state" in without[1]) == (409, False)
    client = page_of(clerk, approvals=ApprovalSettings())
    (error, _) = events(client.post("/_page/Clerk/work/run", json={"text": "Pay."}))
    assert (error[1]["status"], error[1]["calls"]) == (
        409,
        [{"id": "c1", "name": "pay", "arguments": '{"order": 17}'}],
    )
    decision = {"state": error[1]["state"], "approvals": {"c1": True}}
    answer = client.post("/_page/Clerk/work/resume", json=decision)
    assert (events(answer)[0], paid) == (("result", {"value": "Done."}), [17])
    assert [step["name"] for step in steps(answer)] == [
        "Clerk.work, resumed",
        "tool pay",
        "request 2 to scripted (text)",
    ]
    (again, _) = events(client.post("/_page/Clerk/work/resume", json=decision))
    assert (again[1]["type"], paid) == ("urn:aiservices:already-resumed", [17])
