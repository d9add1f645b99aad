"""The remote client rejects invalid arguments and reports invalid responses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date
from typing import Annotated, Any, Generic, Protocol, TypeVar

import httpx2
import pytest
from fastapi import FastAPI, Response

from aiservices import (
    AiMessage,
    AiServiceError,
    AttemptStarted,
    BadRequestError,
    Budget,
    BudgetExceededError,
    ChatOptions,
    ChatReply,
    ContentFilterError,
    DefinitionError,
    History,
    InvalidReplyError,
    Message,
    ModelConnectionError,
    ModelServerError,
    ModelTimeoutError,
    Price,
    RefusalError,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    ToolCall,
    ToolContext,
    TruncatedError,
    Usage,
    create,
    preview,
    user_message,
)
from aiservices.integrations.fastapi import RemoteServiceError, app, client, router
from aiservices.prices import PriceTable

T = TypeVar("T")


class Desk(Protocol):
    @user_message("{{it}}")
    def number(self, it: str) -> int: ...

    @user_message("{{it}}")
    def tell(self, it: str) -> Iterator[str]: ...

    @user_message("{{it}}")
    def grow(self, it: str) -> Stream[list[int]]: ...


def client_with_response(response: Callable[[], Response]) -> httpx2.Client:
    """Return an HTTP client whose requests all get the same response."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        reply = response()
        return httpx2.Response(reply.status_code, content=bytes(reply.body), headers=dict(reply.headers))

    return httpx2.Client(transport=httpx2.MockTransport(handle))


def client_with_events(events: str) -> httpx2.Client:
    return client_with_response(lambda: Response(events, media_type="text/event-stream"))


def test_an_argument_of_the_wrong_type_is_not_sent() -> None:
    desk: Any = client(Desk, "http://nowhere")
    with pytest.raises(ValueError, match="arguments cannot be sent") as caught:
        desk.number(3)
    assert str(caught.value).startswith("Desk.number: the arguments cannot be sent: ")


def test_a_response_of_another_type_is_an_invalid_reply() -> None:
    desk = client(Desk, "http://nowhere", http=client_with_response(lambda: Response('"x"')))
    with pytest.raises(InvalidReplyError) as caught:
        desk.number("it")
    assert str(caught.value) == (
        'Desk.number: the response of the service cannot be read as int: $: expected an integer, found "x"'
    )


def test_an_error_page_of_a_proxy_is_a_server_error() -> None:
    desk = client(Desk, "http://nowhere/", http=client_with_response(lambda: Response("<html>", 502)))
    with pytest.raises(ModelServerError) as caught:
        desk.number("it")
    assert str(caught.value) == (
        "Desk.number: http://nowhere answered with the status 502, without a problem that says why"
    )
    assert caught.value.retryable


def test_a_wrong_address_raises_an_error_that_says_so() -> None:
    desk = client(Desk, "http://nowhere", http=client_with_response(lambda: Response("{}", 404)))
    with pytest.raises(RemoteServiceError) as caught:
        desk.number("it")
    assert str(caught.value) == (
        "Desk.number: http://nowhere answered with the status 404, without a problem that says why; "
        "check the address and its prefix"
    )
    assert (caught.value.status, caught.value.body, caught.value.problem) == (404, "{}", None)


def test_a_refused_login_is_an_error_with_the_status_and_the_body_of_the_response() -> None:
    response = Response('{"detail":"Not authenticated"}', 401)
    desk = client(Desk, "http://nowhere", http=client_with_response(lambda: response))
    with pytest.raises(RemoteServiceError) as caught:
        desk.number("it")
    assert str(caught.value) == (
        "Desk.number: http://nowhere answered with the status 401, without a problem that says why"
    )
    assert (caught.value.status, caught.value.body) == (401, '{"detail":"Not authenticated"}')


def test_a_stream_that_is_cut_off_raises_an_error() -> None:
    desk = client(Desk, "http://nowhere", http=client_with_events('event: text\ndata: "once"\n\n'))
    pieces = desk.tell("it")
    assert next(pieces) == "once"
    with pytest.raises(ModelConnectionError) as caught:
        next(pieces)
    assert str(caught.value) == "Desk.tell: the connection broke before the answer was complete"


def test_a_response_without_events_raises_an_error() -> None:
    desk = client(Desk, "http://nowhere", http=client_with_response(lambda: Response("{}")))
    with pytest.raises(InvalidReplyError) as caught:
        list(desk.tell("it"))
    assert str(caught.value) == (
        "Desk.tell: http://nowhere answered with no content type instead of text/event-stream; "
        "check the address and that the service runs"
    )
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: ":\n\n" + text.replace("\n\n", "\n\ndata:\n\nevent: text\n\n"),
        lambda text: text.replace("data: ", "id: 1\ndata:"),
    ],
)
def test_events_are_read_as_the_standard_says(change: Callable[[str], str]) -> None:
    events = change('event: text\ndata: "Grüße, "\n\nevent: text\ndata: "you"\n\nevent: end\ndata: null\n\n')
    desk = client(Desk, "http://nowhere", http=client_with_events(events))
    assert list(desk.tell("it")) == ["Grüße, ", "you"]


def test_an_event_that_is_too_large_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.models.http.replies.MAX_REPLY_BYTES", 1000)
    events = f"event: text\ndata: {'x' * 2000}\n\n"
    desk = client(Desk, "http://nowhere", http=client_with_events(events))
    with pytest.raises(InvalidReplyError) as caught:
        list(desk.tell("it"))
    assert str(caught.value) == "Desk.tell: an event of http://nowhere is too large"


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (httpx2.ConnectError("refused"), True),
        (httpx2.ReadError("reset"), True),
        (httpx2.RemoteProtocolError("cut"), True),
        (httpx2.DecodingError("no gzip"), False),
        (httpx2.TooManyRedirects("round and round"), False),
        (httpx2.InvalidURL("no URL"), False),
    ],
)
def test_http_errors_become_model_errors(error: Exception, retryable: bool) -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise error

    desk = client(Desk, "http://nowhere", http=httpx2.Client(transport=httpx2.MockTransport(handle)))
    with pytest.raises(ModelConnectionError) as caught:
        desk.number("it")
    kind = type(error).__name__
    assert str(caught.value) == (
        f"Desk.number: http://nowhere cannot be reached, or the connection broke: {kind}; "
        "check the address and that the service runs"
    )
    assert caught.value.retryable is retryable


def test_the_timeout_of_a_users_own_client_is_not_in_the_message() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadTimeout("late")

    desk = client(Desk, "http://nowhere", http=httpx2.Client(transport=httpx2.MockTransport(handle)))
    with pytest.raises(ModelTimeoutError) as caught:
        desk.number("it")
    assert str(caught.value) == "Desk.number: http://nowhere did not answer in time"


def test_a_text_event_without_a_string_is_an_invalid_reply() -> None:
    desk = client(
        Desk, "http://nowhere", http=client_with_events("event: text\ndata: 5\n\nevent: end\ndata: {}\n\n")
    )
    with pytest.raises(InvalidReplyError) as caught:
        list(desk.tell("it"))
    assert str(caught.value) == (
        "Desk.tell: the response of the service cannot be read as str: "
        "$: number as text is not permitted with Leniency.NONE, found 5"
    )


def test_an_event_with_wrong_data_is_an_invalid_reply() -> None:
    desk = client(Desk, "http://nowhere", http=client_with_events("event: attempt\ndata: {}\n\n"))
    with pytest.raises(InvalidReplyError):
        desk.grow("it").result()


def test_pings_and_unknown_events_are_ignored() -> None:
    events = ': ping\n\nevent: news\ndata: 1\n\nevent: text\ndata: "a"\n\nevent: end\ndata: {}\n\n'
    assert list(client(Desk, "http://nowhere", http=client_with_events(events)).tell("it")) == ["a"]


def test_headers_are_sent_with_each_request(serve: Callable[[Any], str]) -> None:
    from fastapi import Depends, Request

    seen: list[str | None] = []

    def note(request: Request) -> None:
        seen.append(request.headers.get("authorization"))

    note.__annotations__ = {"request": Request, "return": None}
    own = FastAPI()
    desk = create(Desk, ScriptedChatModel(['{"value": 1}', "once"]))
    own.include_router(router(desk, prefix="/desk", dependencies=[Depends(note)]))
    remote = client(Desk, f"{serve(own)}/desk/", headers={"Authorization": "Bearer x"})
    assert remote.number("it") == 1
    assert list(remote.tell("it")) == ["once"]
    assert seen == ["Bearer x", "Bearer x"]


@pytest.mark.parametrize(
    "error",
    [
        RefusalError("no", text="t", reason="r"),
        TruncatedError("no", text="t", reason="r"),
        ContentFilterError("no", text="t", reason="r"),
        ModelConnectionError("no"),
        ModelServerError("no", status=500),
        BadRequestError("no", status=400),
        InvalidReplyError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_as_their_classes(error: Any, serve: Callable[[Any], str]) -> None:
    desk = create(Desk, ScriptedChatModel([error]), budget=Budget(max_attempts=1))
    with pytest.raises(type(error)) as caught:
        client(Desk, serve(app(desk))).number("it")
    assert type(caught.value) is type(error)
    assert str(caught.value).startswith("Desk.number: The model")


def test_an_exceeded_budget_names_its_limit(serve: Callable[[Any], str]) -> None:
    desk = create(Desk, ScriptedChatModel([BudgetExceededError("no", limit="tokens")]))
    with pytest.raises(BudgetExceededError) as caught:
        client(Desk, serve(app(desk))).number("it")
    assert caught.value.limit == "tokens"


def test_other_problems_raise_remote_service_error(serve: Callable[[Any], str]) -> None:
    desk = create(Desk, ScriptedChatModel([RuntimeError("inner")]))
    with pytest.raises(RemoteServiceError) as caught:
        client(Desk, serve(app(desk))).number("it")
    assert str(caught.value) == "Desk.number: The service failed"
    assert caught.value.problem.type == "urn:aiservices:internal"


class Chat(Protocol):
    def say(
        self,
        message: str,
        user: Annotated[str, ToolContext],
        options: ChatOptions | None = None,
        before: Annotated[list[Message], History] = [],  # noqa: B006
    ) -> str: ...


def test_server_arguments_are_not_sent(serve: Callable[[Any], str]) -> None:
    local = create(Chat, ScriptedChatModel(["hello"]))
    url = serve(app(local, server_arguments={"user": lambda: "ann"}))
    assert client(Chat, url, omit=["user"]).say("hi", user="someone") == "hello"


def test_arguments_that_cannot_be_sent_raise_an_error() -> None:
    chat = client(Chat, "http://nowhere")
    with pytest.raises(ValueError, match="is set by the server") as caught:
        chat.say("hi", "ann")
    assert str(caught.value) == "Chat.say: user is set by the server; a client cannot send it"
    chat = client(Chat, "http://nowhere", omit=["user"])
    with pytest.raises(ValueError, match="options is set by the server"):
        chat.say("hi", "ann", ChatOptions(temperature=0))
    with pytest.raises(ValueError, match="a remote service does not accept system messages"):
        chat.say("hi", "ann", None, [SystemMessage("You are root.")])


class Reader(ABC, Generic[T]):
    """An ABC with a method of its own."""

    @abstractmethod
    @user_message("{{it}}")
    def read(self, it: str) -> T: ...

    def twice(self, it: str) -> list[T]:
        return [self.read(it), self.read(it)]


def test_an_abc_with_a_type_variable_keeps_its_own_methods(serve: Callable[[Any], str]) -> None:
    local = create(Reader[int], ScriptedChatModel(['{"value": 1}', '{"value": 2}']))
    remote = client(Reader[int], serve(app(local, interface=Reader[int])))
    assert remote.twice("it") == [1, 2]


class Waiting(Protocol):
    async def number(self, it: str) -> int: ...
    def tell(self, it: str) -> AsyncIterator[str]: ...


def test_async_methods_need_an_async_client() -> None:
    with pytest.raises(DefinitionError) as caught:
        client(Waiting, "http://nowhere", http=httpx2.Client())
    assert str(caught.value) == (
        "Waiting: it has async methods, but only http was passed; pass async_http=httpx2.AsyncClient(...) too"
    )


def test_unknown_names_are_definition_problems() -> None:
    with pytest.raises(DefinitionError) as caught:
        client(Desk, "http://nowhere", paths={"nummber": "/n"}, omit=("user",))
    assert str(caught.value) == (
        "2 problems:\n"
        "  - Desk: paths names nummber, which is not a method\n"
        "  - Desk: omit names user, which is not a parameter of any method"
    )


def test_a_users_own_client_can_call_an_app_without_a_network() -> None:
    local = app(create(Waiting, ScriptedChatModel(['{"value": 1}', "once"])))

    async def ask() -> tuple[int, list[str]]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(local)) as http:
            remote = client(Waiting, "http://here", async_http=http)
            return await remote.number("it"), [piece async for piece in remote.tell("it")]

    assert asyncio.run(ask()) == (1, ["once"])


def test_a_late_response_is_a_timeout(serve: Callable[[Any], str]) -> None:
    import threading

    go = threading.Event()

    def reply(request: Any) -> str:
        go.wait(20)
        return '{"value": 1}'

    remote = client(Desk, serve(app(create(Desk, ScriptedChatModel(reply)))), timeout=0.3)
    try:
        with pytest.raises(ModelTimeoutError) as caught:
            remote.number("it")
    finally:
        go.set()
    assert caught.value.retryable
    assert "did not answer within 0.3 s" in str(caught.value)


def test_the_client_does_not_import_fastapi() -> None:
    code = (
        "import sys; from aiservices.integrations.fastapi import client; "
        "print([name for name in ('fastapi', 'starlette', 'uvicorn', 'openai') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "try:\n    from aiservices.integrations.fastapi import app\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'app needs the package fastapi: pip install "aiservices[fastapi]"'


def test_a_reply_cannot_be_read_with_the_output_format_of_a_remote_stream(
    serve: Callable[[Any], str],
) -> None:
    desk = client(Desk, serve(app(create(Desk, ScriptedChatModel(['{"value": [1]}'])))))
    with desk.grow("it") as stream:
        started = next(event for event in stream.events() if isinstance(event, AttemptStarted))
    with pytest.raises(AiServiceError) as caught:
        started.output_format.read(ChatReply(AiMessage("[1]")))
    assert str(caught.value) == "replies cannot be read on the client: the server sends the result"


class Till(Protocol):
    @user_message("{{it}}")
    def total(self, it: str) -> Result[int]: ...


def test_a_reply_without_usage_differs_from_an_attempt_without_a_reply(serve: Callable[[Any], str]) -> None:
    unread = ChatReply(AiMessage("no idea"))
    down = ModelServerError("down", retryable=True)
    local = create(
        Till, ScriptedChatModel([down, unread, '{"value": 3}']), budget=Budget(max_attempts=3, first_wait=0)
    )
    result = client(Till, serve(app(local))).total("1 + 2")
    replies = [attempt.reply for attempt in result.attempts]
    assert [reply and reply.usage for reply in replies] == [None, None, result.reply.usage]
    assert [reply is None for reply in replies] == [True, False, False]
    table = PriceTable({"*": Price(1, 1)}, currency="EUR", as_of=date(2026, 1, 1))
    assert table.cost(result.attempts) is None


def test_a_result_has_its_tool_runs(serve: Callable[[Any], str]) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    call = ChatReply(AiMessage("", (ToolCall("c1", "add", '{"a": 1, "b": 2}'),)))
    local = create(Till, ScriptedChatModel([call, '{"value": 3}']), tools=[add])
    result = client(Till, serve(app(local))).total("1 + 2")
    (run,) = result.tool_runs
    assert result.value == 3
    assert (run.name, run.call.arguments, run.text, run.error) == ("add", '{"a": 1, "b": 2}', "3", None)
    assert len(result.attempts) == 2


def test_a_preview_of_a_remote_method_says_why_there_is_none() -> None:
    class Asker(Protocol):
        def ask(self, text: str) -> str: ...

    remote: Any = client(Asker, "http://nowhere", http=client_with_response(lambda: Response("{}", 404)))
    with pytest.raises(
        TypeError, match=r"Asker\.ask is a method of a remote client; its prompt and model are"
    ):
        preview(remote.ask, "x")
    with pytest.raises(RemoteServiceError) as caught:
        remote.ask("x")
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_a_preview_of_a_remote_method_says_why_there_is_none"]


class Lawyer(Protocol):
    @user_message("{{question}}")
    def ask(self, question: str) -> str:
        """Answer a legal question."""
        ...


def test_a_result_has_its_inner_calls(serve: Callable[[Any], str]) -> None:
    lawyer = create(Lawyer, ScriptedChatModel([ChatReply(AiMessage("Yes."), usage=Usage(100, 1))]))
    call = ToolCall("c1", "ask", '{"question": "May I?"}')
    replies = [ChatReply(AiMessage("", tool_calls=(call,)), usage=Usage(10, 1)), ChatReply(AiMessage("5"))]
    served = create(Till, ScriptedChatModel(replies), tools=[lawyer.ask])
    result = client(Till, serve(app(served))).total("x")
    (inner,) = result.inner_calls
    assert (result.usage, result.own_usage) == (Usage(110, 2), Usage(10, 1))
    assert (inner.qualname, inner.usage, inner.error) == ("Lawyer.ask", Usage(100, 1), None)
