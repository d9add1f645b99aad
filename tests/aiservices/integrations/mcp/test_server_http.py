"""``mount_mcp``: a service as an MCP server in a FastAPI application, over streamable HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Protocol, TypeVar

import pytest

pytest.importorskip("mcp")

import httpx2
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp_types import CallToolResult, ElicitResult, TextContent
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.testclient import TestClient

from aiservices import DefinitionError, MemoryId, ScriptedChatModel, create
from aiservices.integrations.fastapi import app as fastapi_app
from aiservices.integrations.mcp import ApprovalSettings, McpTools, mcp_server, mount_mcp, session_id
from aiservices.memory import ChatMemory
from samples import tool_approval

T = TypeVar("T")
Serve = Callable[[Any], str]
both_eras = pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])


class Clerk(Protocol):
    def text(self, letter: str) -> str: ...

    def words(self, letter: str) -> Iterator[str]: ...


class Chat(Protocol):
    def chat(self, text: str, customer: Annotated[str, MemoryId]) -> str: ...


def clerk(reply: str = "Dear Ann") -> Clerk:
    return create(Clerk, ScriptedChatModel([reply] * 3))


def chat() -> Chat:
    model = ScriptedChatModel(lambda request: " | ".join(one.text for one in request.messages))
    return create(Chat, model, interceptors=[ChatMemory()])


def application(service: object, **settings: Any) -> FastAPI:
    app = FastAPI()
    mount_mcp(app, service, **settings)
    return app


@asynccontextmanager
async def client_of(
    url: str, mode: str = "auto", headers: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[Client]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=20))
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=mode, **settings))


def use(url: str, work: Callable[[Client], Awaitable[T]], mode: str = "auto", **settings: Any) -> T:
    async def run() -> T | MCPError:
        async with client_of(url, mode, **settings) as client:
            try:
                return await work(client)
            except MCPError as error:  # the task groups of the client would wrap it
                return error

    outcome = asyncio.run(run())
    if isinstance(outcome, MCPError):
        raise outcome
    return outcome


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@both_eras
def test_a_service_answers_over_http(serve: Serve, mode: str) -> None:
    async def call(client: Client) -> tuple[str, Any]:
        result = await client.call_tool("text", {"letter": "x"})
        return text_of(result), result.structured_content

    assert use(serve(application(clerk())), call, mode) == ("Dear Ann", {"value": "Dear Ann"})


@both_eras
def test_progress_arrives_over_http(serve: Serve, mode: str) -> None:
    messages: list[str | None] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        messages.append(message)

    async def call(client: Client) -> str:
        return text_of(await client.call_tool("words", {"letter": "x"}, progress_callback=progress))

    assert use(serve(application(clerk("one two"))), call, mode) == "one two"
    assert messages == ["one ", "two"]


@both_eras
def test_an_approval_is_asked_over_http(serve: Serve, mode: str) -> None:
    async def approve(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"call_1": True})

    async def call(client: Client) -> str:
        return text_of(await client.call_tool("answer", {"letter": tool_approval.LETTER}))

    desk = create(tool_approval.Desk, tool_approval.scripted(), tools=[tool_approval.pay_back])
    url = serve(application(desk, approvals=ApprovalSettings()))
    assert use(url, call, mode, elicitation_callback=approve) == (
        "Dear customer, we are sorry. 40.00 euros are on their way for order 17."
    )


def test_a_cancelled_request_ends_the_call(serve: Serve) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    class Slow(Protocol):
        async def text(self) -> str: ...

    class Waiting:
        async def text(self) -> str:
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return "late"

    async def call(client: Client) -> None:
        task = asyncio.create_task(client.call_tool("text", {}))
        while not started.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        for _ in range(500):
            if cancelled.is_set():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the call was not cancelled")

    for mode in ("2026-07-28", "legacy"):
        started.clear()
        cancelled.clear()
        use(serve(application(Waiting(), interface=Slow)), call, mode)


def test_our_client_uses_our_server(serve: Serve) -> None:
    with McpTools.http(f"{serve(application(clerk()))}/mcp", timeout=20) as tools:
        listed = tools.tools()
        assert isinstance(listed, list)
        assert [one.name for one in listed] == ["text", "words"]
        assert listed[0].function(letter="x") == '{"value":"Dear Ann"}'


def test_the_application_keeps_its_own_routes_and_lifespan(serve: Serve) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        events.append("start")
        yield
        events.append("stop")

    service = clerk()
    app = fastapi_app(service, lifespan=lifespan)
    mount_mcp(app, service)
    with TestClient(app) as http:
        assert http.post("/text", json={"letter": "x"}).json() == "Dear Ann"
        assert "/mcp" not in http.get("/openapi.json").json()["paths"]
    assert events == ["start", "stop"]
    with TestClient(app):  # an application can be started again
        pass


def test_two_services_have_two_paths(serve: Serve) -> None:
    app = Starlette()
    mount_mcp(app, clerk("one"), path="/one/mcp")
    mount_mcp(app, clerk("two"), path="/two/mcp")
    url = serve(app)

    async def call(client: Client) -> str:
        return text_of(await client.call_tool("text", {"letter": "x"}))

    assert [use(f"{url}/{name}", call) for name in ("one", "two")] == ["one", "two"]


def test_a_request_before_the_lifespan_is_an_error() -> None:
    http = TestClient(application(clerk()), base_url="http://127.0.0.1")
    with pytest.raises(RuntimeError) as caught:
        http.post("/mcp", json={})
    assert str(caught.value) == (
        "the MCP server of Clerk does not run; start the lifespan of the application to which mount_mcp "
        "added it"
    )


# --- who may call ---


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Host": "evil.example"}, "urn:aiservices:host-not-allowed"),
        ({"Origin": "https://evil.example"}, "urn:aiservices:origin-not-allowed"),
        ({"Sec-Fetch-Site": "cross-site"}, "urn:aiservices:origin-not-allowed"),
    ],
)
def test_unknown_hosts_and_other_origins_are_refused(headers: dict[str, str], kind: str) -> None:
    with TestClient(application(clerk()), base_url="http://127.0.0.1") as http:
        response = http.post("/mcp", json={}, headers=headers)
    assert (response.status_code, response.json()["type"]) == (403, kind)


@pytest.mark.parametrize("allowed", ["api.example", "*"])
def test_hosts_can_be_allowed(allowed: str) -> None:
    with TestClient(application(clerk(), allowed_hosts=[allowed]), base_url="http://api.example") as http:
        response = http.post("/mcp", json={}, headers={"Accept": "application/json, text/event-stream"})
    assert response.status_code == 400  # by the package mcp, because it is not a message


class Verifier:
    """Knows the tokens ``ann`` and ``ben`` of the users of these names."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in ("ann", "ben"):
            return None
        return AccessToken(token=token, client_id="shop", scopes=["chat"], subject=token)


def user(request: object) -> str | None:
    token = get_access_token()
    return token and token.subject


def protected(**settings: Any) -> FastAPI:
    auth = AuthSettings(
        issuer_url=AnyHttpUrl("https://login.example"),
        resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
        required_scopes=["chat"],
        validate_token_resource=False,
    )
    arguments = {"customer": user}
    return application(chat(), auth=auth, token_verifier=Verifier(), server_arguments=arguments, **settings)


@both_eras
def test_the_user_of_the_token_has_a_conversation(serve: Serve, mode: str) -> None:
    url = serve(protected())

    async def talk(client: Client) -> list[str]:
        return [text_of(await client.call_tool("chat", {"text": text})) for text in "ab"]

    for name in ("ann", "ben"):
        assert use(url, talk, mode, headers={"Authorization": f"Bearer {name}"}) == ["a", "a | a | b"]


@pytest.mark.parametrize("token", [None, "eve"])
def test_without_a_valid_token_the_request_is_refused(token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with TestClient(protected(), base_url="http://127.0.0.1") as http:
        response = http.post("/mcp", json={}, headers=headers)
        metadata = http.get("/.well-known/oauth-protected-resource/mcp").json()
    assert response.status_code == 401
    assert "resource_metadata" in response.headers["www-authenticate"]
    assert metadata["authorization_servers"] == ["https://login.example/"]


def test_authorization_without_a_verifier_is_an_error() -> None:
    auth = AuthSettings(issuer_url=AnyHttpUrl("https://login.example"), resource_server_url=None)
    for settings in ({"auth": auth}, {"token_verifier": Verifier()}):
        with pytest.raises(DefinitionError) as caught:
            mount_mcp(FastAPI(), clerk(), **settings)
        assert str(caught.value) == (
            "Clerk: pass auth=AuthSettings(…) together with a token_verifier or an auth_server_provider"
        )


def test_wrong_paths_and_hosts_are_reported_together() -> None:
    with pytest.raises(DefinitionError) as caught:
        mount_mcp(FastAPI(), clerk(), path="mcp/", allowed_hosts=["http://x"])
    assert [str(problem) for problem in caught.value.problems] == [
        "Clerk: 'http://x' is not a host name; pass one such as 'api.example.com', without port and path",
        "Clerk: the path 'mcp/' must start with '/' and not end with it",
    ]


def test_a_session_of_http_has_a_conversation_of_its_own(serve: Serve) -> None:
    url = serve(application(chat(), server_arguments={"customer": session_id}))

    async def talk(client: Client) -> list[str]:
        return [text_of(await client.call_tool("chat", {"text": text})) for text in "ab"]

    assert [use(url, talk, "legacy") for _ in range(2)] == [["a", "a | a | b"]] * 2
    with pytest.raises(MCPError) as caught:
        use(url, talk, "2026-07-28")
    assert caught.value.message == "this server needs a session, which the client did not open"


def test_a_session_id_cannot_be_invented(serve: Serve) -> None:
    server = mcp_server(chat(), server_arguments={"customer": session_id})
    url = serve(server.streamable_http_app(stateless_http=True))  # then nothing checks the header

    async def talk(client: Client) -> None:
        await client.call_tool("chat", {"text": "a"})

    with pytest.raises(MCPError) as caught:
        use(url, talk, "legacy", headers={"Mcp-Session-Id": "of-another-client"})
    assert caught.value.message == "this server needs a session, which the client did not open"


def test_too_large_requests_are_refused() -> None:
    with TestClient(application(clerk(), max_request_body_size=100), base_url="http://127.0.0.1") as http:
        response = http.post("/mcp", content=json.dumps({"a": "x" * 200}))
    assert response.status_code == 413
