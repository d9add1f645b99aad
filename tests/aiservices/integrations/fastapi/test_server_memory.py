"""Conversations over HTTP: who may choose the memory id, shared conversations, and errors of the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import pytest
from fastapi.testclient import TestClient
from served import LONGEST_WAIT

from aiservices import (
    AiMessage,
    DefinitionError,
    History,
    MemoryId,
    Message,
    ScriptedChatModel,
    ToolMessage,
    UserMessage,
    UserName,
    create,
)
from aiservices.integrations.fastapi import app, client, provide, router
from aiservices.memory import (
    ChatMemory,
    InMemoryChatMemoryStore,
    MemoryBusyError,
    MemoryConflictError,
    MemoryIdError,
    MemoryStoreError,
)
from aiservices.page import mount


class Chat(Protocol):
    def say(self, text: str, user: Annotated[str, MemoryId]) -> str: ...


class Single(Protocol):
    def say(self, text: str) -> str: ...


def single(**settings: Any) -> Single:
    return create(Single, ScriptedChatModel(["1", "2"]), interceptors=[ChatMemory(**settings)])


def mounted(service: object, **settings: Any) -> None:
    mount(app(single(shared_by_callers=True)), service, **settings)


SERVERS = pytest.mark.parametrize("serve", [app, router, mounted])


@SERVERS
def test_a_memory_id_that_every_caller_could_choose_is_refused(serve: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        serve(create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory()]))
    assert str(caught.value) == (
        "Chat.say: callers could pass any memory id as user, and so continue the conversations of others; "
        "name a dependency for it in server_arguments, or list 'user' in caller_arguments if callers may "
        "choose it"
    )


@SERVERS
def test_a_memory_id_of_the_server_or_of_the_caller_is_accepted(serve: Any) -> None:
    chat = create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory()])
    serve(chat, server_arguments={"user": lambda: "ann"})
    serve(provide(chat), caller_arguments=["user"])


@SERVERS
def test_an_unknown_caller_argument_is_refused(serve: Any) -> None:
    chat = create(Chat, ScriptedChatModel([]), interceptors=[ChatMemory()])
    with pytest.raises(DefinitionError) as caught:
        serve(chat, caller_arguments=["user", "text"])
    assert str(caught.value) == (
        "Chat: caller_arguments names text, which is not a MemoryId, UserName or CallId that callers pass"
    )


class Greeter(Protocol):
    def greet(self, text: str, name: Annotated[str | None, UserName] = None) -> str: ...


@SERVERS
def test_a_user_name_that_every_caller_could_choose_is_refused(serve: Any) -> None:
    greeter = create(Greeter, ScriptedChatModel([]))
    with pytest.raises(DefinitionError) as caught:
        serve(greeter)
    assert str(caught.value) == (
        "Greeter.greet: callers could pass the name of another user as name; name a dependency for it in "
        "server_arguments, or list 'name' in caller_arguments if callers may choose it"
    )
    serve(greeter, server_arguments={"name": lambda: "ann"})
    serve(greeter, caller_arguments=["name"])


def test_an_id_that_a_caller_chooses_has_at_most_256_characters() -> None:
    greeter = create(Greeter, ScriptedChatModel(["Hello."] * 2))
    chat = create(Chat, ScriptedChatModel(["Hello."]), interceptors=[ChatMemory()])
    web = app({"/chat": chat, "/greeter": greeter}, caller_arguments=["user", "name"])
    http = TestClient(web)
    assert http.post("/chat/say", json={"text": "x", "user": "é" * 256}).json() == "Hello."
    for path, id_name in (("/chat/say", "user"), ("/greeter/greet", "name")):
        response = http.post(path, json={"text": "x", id_name: "x" * 257})
        (part,) = response.json()["problems"]
        assert (response.status_code, part["path"]) == (422, f"$.{id_name}")
        assert part["message"] == "string should have at most 256 characters"
    schemas = web.openapi()["components"]["schemas"]
    assert schemas["SayArguments"]["properties"]["user"] == {
        "type": "string",
        "minLength": 1,
        "maxLength": 256,
        "pattern": r"[^\s\x1c-\x1f]",
    }
    assert http.post("/greeter/greet", json={"text": "x"}).json() == "Hello."


@SERVERS
def test_a_conversation_of_all_callers_is_refused(serve: Any) -> None:
    with pytest.raises(DefinitionError) as caught:
        serve(single())
    assert str(caught.value) == (
        "Single.say: all callers would share one conversation, because the service has a memory and the "
        "method has no MemoryId; add a parameter with MemoryId, or pass ChatMemory(shared_by_callers=True)"
    )


@SERVERS
def test_a_conversation_of_all_callers_is_served_if_the_memory_says_so(serve: Any) -> None:
    serve(single(shared_by_callers=True))


def problem_of(store: InMemoryChatMemoryStore, user: str, **settings: Any) -> tuple[int, dict[str, Any], Any]:
    memory = ChatMemory(store=store, **settings)
    chat = create(Chat, ScriptedChatModel(["Hello."]), interceptors=[memory])
    response = TestClient(app(chat, caller_arguments=["user"])).post("/say", json={"text": "x", "user": user})
    return response.status_code, response.json(), response.headers.get("Retry-After")


@pytest.mark.parametrize("user", ["", " "])
def test_an_empty_memory_id_is_a_mistake_of_the_caller(user: str) -> None:
    status, problem, _ = problem_of(InMemoryChatMemoryStore(), user)
    assert (status, problem["type"]) == (422, "urn:aiservices:arguments")
    assert [part["path"] for part in problem["problems"]] == ["$.user"]


@pytest.mark.parametrize("user", ["", " "])
def test_an_empty_memory_id_from_a_dependency_is_a_mistake_of_the_caller(user: str) -> None:
    chat = create(Chat, ScriptedChatModel(["Hello."]), interceptors=[ChatMemory()])
    http = TestClient(app(chat, server_arguments={"user": lambda: user}))
    response = http.post("/say", json={"text": "x"})
    assert (response.status_code, response.json()) == (
        422,
        {
            "type": "urn:aiservices:memory-id",
            "title": "The memory id does not name a conversation",
            "status": 422,
            "method": "Chat.say",
        },
    )


def test_a_conflict_in_the_memory_has_its_own_problem() -> None:
    class Changing(InMemoryChatMemoryStore):
        def load(self, conversation: str, /) -> Any:
            stored = super().load(conversation)
            self.append(conversation, (UserMessage("y"), AiMessage("1")), expected=stored.version)
            return stored

    status, problem, _ = problem_of(Changing(), "ann")
    assert (status, problem["type"], problem["retryable"]) == (409, "urn:aiservices:memory-conflict", True)


class Faulty(InMemoryChatMemoryStore):
    """A store that raises an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def load(self, conversation: str, /) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (MemoryBusyError("ann", "waited"), "Another call uses the conversation"),
        (
            MemoryConflictError("ann"),
            "The conversation was changed during the call, so the call was not stored",
        ),
        (MemoryIdError("no"), "The memory id does not name a conversation"),
        (
            MemoryStoreError("down", store="Faulty", conversation="ann", retryable=True),
            "The store of the conversations failed",
        ),
    ],
)
def test_a_remote_client_raises_the_errors_of_the_memory(
    error: Exception, title: str, serve: Callable[[Any], str]
) -> None:
    memory = ChatMemory(store=Faulty(error))
    chat = create(Chat, ScriptedChatModel(["Hello."]), interceptors=[memory])
    url = serve(app(chat, caller_arguments=["user"]))
    for service in (chat, client(Chat, url, timeout=LONGEST_WAIT)):
        with pytest.raises(type(error)) as caught:
            service.say("x", "ann")
        assert type(caught.value) is type(error)
    assert str(caught.value) == f"Chat.say: {title}"


@pytest.mark.parametrize("retryable", [True, False])
def test_a_store_that_fails_has_its_own_problem(retryable: bool) -> None:
    error = MemoryStoreError("no such table", store="Faulty", conversation="ann", retryable=retryable)
    status, problem, retry_after = problem_of(Faulty(error), "ann")
    assert (status, retry_after) == (503, "1" if retryable else None)
    assert problem == {
        "type": "urn:aiservices:memory-store",
        "title": "The store of the conversations failed",
        "status": 503,
        "method": "Chat.say",
        **({"retryable": True, "retry_after": 1.0} if retryable else {}),
    }


class Archive(Protocol):
    def say(self, text: str, history: Annotated[list[Message], History]) -> str: ...


def test_the_result_of_a_tool_can_be_in_a_history() -> None:
    model = ScriptedChatModel(["Hello."])
    messages = [
        {"type": "user", "text": "x"},
        {"type": "ai", "text": "", "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]},
        {"type": "tool", "call_id": "1", "name": "f", "text": "y"},
    ]
    http = TestClient(app(create(Archive, model)))
    response = http.post("/say", json={"text": "z", "history": messages})
    assert (response.status_code, response.json()) == (200, "Hello.")
    assert model.requests[0].messages[2] == ToolMessage("1", "f", "y")


def test_a_busy_conversation_has_its_own_problem() -> None:
    memory = ChatMemory(when_busy="refuse")
    inside: list[Any] = []

    def reply(request: Any) -> str:
        if not inside:
            inside.append(None)
            inside.append(http.post("/say", json={"text": "y", "user": "ann"}))
        return "Hello."

    chat = create(Chat, ScriptedChatModel(reply), interceptors=[memory])
    http = TestClient(app(chat, caller_arguments=["user"]))
    assert http.post("/say", json={"text": "x", "user": "ann"}).json() == "Hello."
    assert (inside[1].status_code, inside[1].headers["Retry-After"], inside[1].json()) == (
        409,
        "1",
        {
            "type": "urn:aiservices:memory-busy",
            "title": "Another call uses the conversation",
            "status": 409,
            "method": "Chat.say",
            "retryable": True,
            "retry_after": 1.0,
        },
    )
