"""Calls that wait for approval are finished over HTTP, by programs and by remote clients."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Protocol
from uuid import UUID

import httpx2
import pytest
from fastapi import Header
from fastapi.testclient import TestClient

from aiservices import (
    AiMessage,
    AlreadyResumedError,
    ApprovalRequiredError,
    AsyncStream,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Denied,
    MemoryId,
    Result,
    ScriptedChatModel,
    Stream,
    SuspendedCall,
    SuspendedCallError,
    ToolCall,
    ToolContext,
    UserName,
    create,
    resume,
    tool,
)
from aiservices.integrations.fastapi import ApprovalSettings, RemoteServiceError, app, client
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore, SqliteChatMemoryStore

SETTINGS = ApprovalSettings()


class Desk(Protocol):
    def ask(self, text: str) -> str: ...

    def told(self, text: str) -> Result[str]: ...

    async def aask(self, text: str) -> str: ...

    def stream(self, text: str) -> Stream[str]: ...

    def astream(self, text: str) -> AsyncStream[str]: ...

    def texts(self, text: str) -> Iterator[str]: ...

    def atexts(self, text: str) -> AsyncIterator[str]: ...


async def joined(texts: Any) -> str:
    return "".join([text async for text in texts])


async def result_of(stream: Any) -> Any:
    return (await stream.result()).value


async def awaited(coroutine: Any) -> Any:
    return await coroutine


# By method: how its return value becomes a text.
READ: dict[str, Callable[[Any], Any]] = {
    "ask": lambda value: value,
    "told": lambda result: result.value,
    "aask": lambda coroutine: asyncio.run(awaited(coroutine)),
    "stream": lambda stream: stream.result().value,
    "astream": lambda stream: asyncio.run(result_of(stream)),
    "texts": lambda texts: "".join(texts),
    "atexts": lambda texts: asyncio.run(joined(texts)),
}
every_method = pytest.mark.parametrize("method", READ)


class Till:
    """A till whose tool ``pay`` needs approval."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    @tool(needs_approval=True)
    def pay(self, amount: int) -> str:
        """Pay money."""
        self.paid.append(amount)
        return "paid"


def pays(*amounts: int) -> ChatReply:
    calls = (ToolCall(f"c{amount}", "pay", json.dumps({"amount": amount})) for amount in amounts)
    return ChatReply(AiMessage("", tuple(calls)))


def served(
    till: Till, *replies: Any, approvals: ApprovalSettings | None = SETTINGS, **settings: Any
) -> TestClient:
    model = ScriptedChatModel(replies or [pays(5), "Done."])
    return TestClient(app(create(Desk, model, tools=[till], **settings), approvals=approvals))


def waiting(http: TestClient, path: str = "/ask", user: str = "") -> dict[str, Any]:
    answer = http.post(path, json={"text": "Pay."}, headers={"x-user": user})
    assert answer.status_code == 409
    problem: dict[str, Any] = answer.json()
    return problem


def resumed(http: TestClient, state: str, approvals: object, path: str = "/ask", user: str = "") -> Any:
    return http.post(
        f"{path}/resume", json={"state": state, "approvals": approvals}, headers={"x-user": user}
    )


# the endpoint


def test_the_problem_has_the_calls_and_a_state_that_the_endpoint_resumes_once() -> None:
    till = Till()
    http = served(till)
    problem = waiting(http)
    state = problem.pop("state")
    del problem["attempts"]
    assert problem == {
        "type": "urn:aiservices:approval-required",
        "title": "A call waits for approval or a result",
        "status": 409,
        "detail": "One request was made",
        "method": "Desk.ask",
        "calls": [{"id": "c5", "name": "pay", "arguments": '{"amount": 5}'}],
    }
    assert till.paid == []
    answer = resumed(http, state, True)
    assert (answer.status_code, answer.json(), till.paid) == (200, "Done.", [5])
    again = resumed(http, state, True)
    assert (again.status_code, again.json(), till.paid) == (
        409,
        {
            "type": "urn:aiservices:already-resumed",
            "title": "The call that waited was resumed before",
            "status": 409,
            "method": "Desk.ask",
        },
        [5],
    )


def test_each_call_gets_its_decision() -> None:
    till, model = Till(), ScriptedChatModel([pays(5, 6, 7), "Done."])
    http = TestClient(app(create(Desk, model, tools=[till]), approvals=SETTINGS))
    decisions = {"c5": True, "c6": False, "c7": {"reason": "too much"}}
    assert resumed(http, waiting(http)["state"], decisions).json() == "Done."
    assert till.paid == [5]
    assert [message.text for message in model.requests[1].messages[-3:]] == [
        "paid",
        "The call was not approved: no reason was given.",
        "The call was not approved: too much.",
    ]


def test_without_the_setting_nothing_of_the_call_is_sent() -> None:
    http = served(Till(), approvals=None)
    problem = waiting(http)
    assert {"calls", "state"}.isdisjoint(problem)
    assert resumed(http, "x", True).status_code == 404


@pytest.mark.parametrize(
    ("approvals", "path"),
    [
        ({}, "$.approvals"),
        ({"c5": True, "c6": True}, "$.approvals"),
        ({"c5": "yes"}, "$.approvals.c5"),
        ({"c5": 1}, "$.approvals.c5"),
        (None, "$.approvals"),
        ("yes", "$.approvals"),
        (1, "$.approvals"),
    ],
)
def test_wrong_decisions_are_refused_and_the_state_can_still_be_resumed(approvals: object, path: str) -> None:
    till = Till()
    http = served(till)
    state = waiting(http)["state"]
    answer = resumed(http, state, approvals)
    assert (answer.status_code, answer.json()["type"], till.paid) == (422, "urn:aiservices:arguments", [])
    assert {part["path"] for part in answer.json()["problems"]} == {path}
    assert resumed(http, state, True).json() == "Done."


def test_a_state_that_was_changed_or_is_of_another_method_is_refused() -> None:
    till = Till()
    http = served(till)
    state = waiting(http)["state"]
    other_server = waiting(served(Till()))["state"]
    cases = [
        (
            state.replace('\\"amount\\": 5', '\\"amount\\": 5000'),
            "/ask",
            "the signature of the suspended call is wrong",
        ),
        (other_server, "/ask", "the signature of the suspended call is wrong"),
        (state, "/told", "the suspended call belongs to Desk.ask, not to Desk.told"),
        ("[" * 100_000, "/ask", "the text is not a suspended call that to_json wrote"),
    ]
    for text, path, detail in cases:
        answer = resumed(http, text, True, path)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:aiservices:suspended-call")
        assert answer.json()["detail"].startswith(detail)
    assert till.paid == []


def test_a_state_expires() -> None:
    till = Till()
    http = served(till, approvals=ApprovalSettings(expires_after=0.001))
    state = waiting(http)["state"]
    answer = resumed(http, state, True)
    assert (answer.status_code, answer.json()["detail"], till.paid) == (
        422,
        "the suspended call of Desk.ask has expired; make the call again",
        [],
    )


def test_a_resumed_call_may_wait_again() -> None:
    till = Till()
    http = served(till, pays(5), pays(6), "Done.")
    second = resumed(http, waiting(http)["state"], True)
    assert (second.status_code, [call["id"] for call in second.json()["calls"]]) == (409, ["c6"])
    assert (resumed(http, second.json()["state"], True).json(), till.paid) == ("Done.", [5, 6])


def test_methods_without_tools_have_no_endpoint_to_resume() -> None:
    http = TestClient(app(create(Desk, ScriptedChatModel([])), approvals=SETTINGS))
    assert [path for path in http.get("/openapi.json").json()["paths"] if "resume" in path] == []


def test_the_document_describes_the_endpoint_and_the_problem() -> None:
    document = served(Till()).get("/openapi.json").json()
    operation = document["paths"]["/told/resume"]["post"]
    schemas = document["components"]["schemas"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    body = schemas[body["$ref"].rpartition("/")[2]] if "$ref" in body else body
    assert operation["operationId"] == "Desk.told.resume"
    assert (body["required"], list(body["properties"])) == (["state"], ["state", "approvals", "results"])
    assert {"calls", "state"} <= schemas["AiServiceProblem"]["properties"].keys()
    assert (
        operation["responses"]["200"]["content"]
        == (document["paths"]["/told"]["post"]["responses"]["200"]["content"])
    )


# several processes


def test_processes_with_the_same_key_and_store_resume_a_state_once(tmp_path: Path) -> None:
    with SqliteChatMemoryStore(tmp_path / "states.db") as store:
        settings = ApprovalSettings("a secret of all processes", store)
        tills = [Till(), Till(), Till()]
        first, second, third = (served(till, pays(5), "Done.", approvals=settings) for till in tills)
        state = waiting(first)["state"]
        assert waiting(second)  # so that its model answers next
        assert resumed(second, state, True).json() == "Done."
        assert [resumed(http, state, True).status_code for http in (first, second, third)] == [409, 409, 409]
        assert [till.paid for till in tills] == [[], [5], []]


def test_the_store_may_be_that_of_the_memory() -> None:
    class Chat(Protocol):
        def chat(self, text: str, user: Annotated[str, MemoryId]) -> str: ...

    till, store = Till(), InMemoryChatMemoryStore()
    service = create(
        Chat, ScriptedChatModel([pays(5), "Done."]), tools=[till], interceptors=[ChatMemory(store=store)]
    )
    settings = ApprovalSettings("secret", store)
    http = TestClient(app(service, caller_arguments=["user"], approvals=settings))
    state = http.post("/chat", json={"text": "Pay.", "user": "ann"}).json()["state"]
    statuses = [resumed(http, state, True, "/chat").status_code for _ in range(2)]
    assert (statuses, till.paid, store.conversations()) == ([200, 409], [5], ("Chat/ann",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (ApprovalSettings(""), "the key of approvals is empty; pass a secret, for example 32 random bytes"),
        (
            ApprovalSettings("secret"),
            "approvals has a key, but no store that records which states were resumed; pass "
            "ApprovalSettings(key=…, store=…), or no key if one process serves",
        ),
        (ApprovalSettings(expires_after=0), "expires_after of approvals is 0; it must be greater than 0"),
    ],
)
def test_settings_that_are_not_safe_are_refused(settings: ApprovalSettings, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        served(Till(), approvals=settings)
    assert message in str(caught.value)


@pytest.mark.parametrize("path", ["/ask", "/aask", "/texts"])
@pytest.mark.parametrize("stored", [False, True])
def test_of_many_clicks_at_the_same_time_one_resumes_the_call(
    path: str, stored: bool, serve: Callable[[Any], str], tmp_path: Path
) -> None:
    with SqliteChatMemoryStore(tmp_path / "states.db") as store:
        settings = ApprovalSettings("secret", store) if stored else SETTINGS
        till, model = Till(), ScriptedChatModel([pays(5), *["Done."] * 16])
        url = serve(app(create(Desk, model, tools=[till]), approvals=settings))
        with httpx2.Client(base_url=url) as http:
            body = {"state": http.post(path, json={"text": "Pay."}).json()["state"], "approvals": True}
            with ThreadPoolExecutor(16) as threads:
                answers = threads.map(lambda _: http.post(f"{path}/resume", json=body), range(16))
                statuses = sorted(answer.status_code for answer in answers)
    assert (statuses, till.paid, len(model.requests)) == ([200, *[409] * 15], [5], 2)


def test_a_state_is_not_used_up_while_too_many_calls_wait(serve: Callable[[Any], str]) -> None:
    till, may_end, has_started = Till(), threading.Event(), threading.Event()

    def reply(request: ChatRequest) -> ChatReply | str:
        if request.messages[0].text == "Wait.":
            has_started.set()
            may_end.wait(20)
        return pays(5) if len(request.messages) == 1 else "Done."

    web = app(
        create(Desk, ScriptedChatModel(reply), tools=[till]),
        approvals=SETTINGS,
        threads=1,
        max_waiting_calls=0,
    )
    with httpx2.Client(base_url=serve(web)) as http, ThreadPoolExecutor(1) as thread:
        body = {"state": http.post("/ask", json={"text": "Pay."}).json()["state"], "approvals": True}
        busy = thread.submit(http.post, "/ask", json={"text": "Wait."})
        assert has_started.wait(20)
        refused = http.post("/ask/resume", json=body)
        may_end.set()
        busy.result()
        assert (refused.status_code, till.paid) == (503, [])
        assert (http.post("/ask/resume", json=body).json(), till.paid) == ("Done.", [5])


# who resumes


class Account(Protocol):
    def ask(
        self, text: str, user: Annotated[str, MemoryId], limit: Annotated[int, ToolContext] = 0
    ) -> str: ...


def accounts() -> tuple[TestClient, list[tuple[str, int]]]:
    paid: list[tuple[str, int]] = []

    @tool(needs_approval=True)
    def pay(amount: int, user: Annotated[str, MemoryId], limit: Annotated[int, ToolContext]) -> str:
        """Pay money."""
        paid.append((user, limit))
        return "paid"

    def current_user(x_user: Annotated[str, Header()]) -> str:
        return x_user

    service = create(Account, ScriptedChatModel([pays(5), "Done."]), tools=[pay])
    arguments: dict[str, Callable[..., object]] = {"user": current_user, "limit": lambda: 100}
    return TestClient(app(service, server_arguments=arguments, approvals=SETTINGS)), paid


def test_a_state_of_another_caller_is_refused_and_tools_get_the_values_of_the_server() -> None:
    http, paid = accounts()
    state = waiting(http, user="ann")["state"]
    answer = resumed(http, state, True, user="mallory")
    assert (answer.status_code, answer.json()["detail"], paid) == (
        422,
        "the suspended call belongs to another caller",
        [],
    )
    assert (resumed(http, state, True, user="ann").json(), paid) == ("Done.", [("ann", 100)])


def test_tools_get_the_memory_id_of_the_server() -> None:
    class Chat(Protocol):
        def ask(self, text: str, user: Annotated[UUID, MemoryId]) -> str: ...

    paid: list[object] = []

    @tool(needs_approval=True)
    def pay(amount: int, user: Annotated[UUID, MemoryId]) -> str:
        """Pay money."""
        paid.append(user)
        return "paid"

    service = create(Chat, ScriptedChatModel([pays(5), "Done."]), tools=[pay])
    http = TestClient(app(service, server_arguments={"user": lambda: UUID(int=1)}, approvals=SETTINGS))
    assert (resumed(http, waiting(http)["state"], True).json(), paid) == ("Done.", [UUID(int=1)])


def test_a_state_that_json_cannot_express_is_logged_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    class Chat(Protocol):
        def ask(self, text: str, user: Annotated[UUID, UserName]) -> str: ...

    service = create(Chat, ScriptedChatModel([pays(5)]), tools=[Till()])
    web = app(service, server_arguments={"user": lambda: UUID(int=1)}, approvals=SETTINGS)
    assert {"calls", "state"}.isdisjoint(waiting(TestClient(web)))
    assert (
        "Chat.ask: its state cannot be sent to the caller: UUID cannot be written as JSON" in caplog.messages
    )


# results of external tools


@tool(external=True)
def count_cash(currency: str) -> list[int]:
    """Let the person at the till count the cash."""
    raise AssertionError("an external tool never runs")


def counts() -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("c9", "count_cash", '{"currency": "EUR"}'),)))


def test_the_result_of_an_external_tool_is_sent_to_the_endpoint() -> None:
    till, model = Till(), ScriptedChatModel([_both(), "Done."])
    http = TestClient(app(create(Desk, model, tools=[till, count_cash]), approvals=SETTINGS))
    problem = waiting(http)
    assert problem["calls"] == [
        {"id": "c5", "name": "pay", "arguments": '{"amount": 5}'},
        {"id": "c9", "name": "count_cash", "arguments": '{"currency": "EUR"}', "external": True},
    ]
    for body, path in (
        ({"approvals": True}, "$.results"),
        ({"approvals": True, "results": {"c9": "many"}}, "$.results"),
        ({"approvals": True, "results": {"c9": [1], "c5": 1}}, "$.results"),
        ({"approvals": True, "results": 5}, "$.results"),
        ({"results": {"c9": [1]}}, "$.approvals"),
    ):
        answer = http.post("/ask/resume", json={"state": problem["state"], **body})
        assert (answer.status_code, [part["path"] for part in answer.json()["problems"]]) == (422, [path])
    body = {"state": problem["state"], "approvals": {"c5": True}, "results": {"c9": [5, 10]}}
    assert (http.post("/ask/resume", json=body).json(), till.paid) == ("Done.", [5])
    assert [message.text for message in model.requests[1].messages[-2:]] == ["paid", "[5,10]"]


def _both() -> ChatReply:
    return ChatReply(AiMessage("", (*pays(5).message.tool_calls, *counts().message.tool_calls)))


@every_method
def test_a_remote_client_sends_results(method: str, serve: Callable[[Any], str]) -> None:
    model = ScriptedChatModel([counts(), "Done."])
    remote = client(Desk, serve(app(create(Desk, model, tools=[count_cash]), approvals=SETTINGS)))
    bound = getattr(remote, method)
    with pytest.raises(ApprovalRequiredError) as caught:
        READ[method](bound("Count."))
    error = caught.value
    assert (error.calls, error.external_calls) == ((), counts().message.tool_calls)
    state = SuspendedCall.from_json(error.state.to_json(), verify=False)
    with pytest.raises(RemoteServiceError, match="does not fit the tool count_cash"):
        READ[method](resume(bound, state, results={"c9": "many"}))
    assert READ[method](resume(bound, state, results={"c9": (5, 10)})) == "Done."
    assert model.requests[1].messages[-1].text == "[5,10]"
    with pytest.raises(ValueError, match="the results cannot be sent"):
        resume(bound, state, results={"c9": object()})


# remote clients


@every_method
def test_a_remote_call_waits_and_is_resumed_like_a_local_one(
    method: str, serve: Callable[[Any], str]
) -> None:
    till, model = Till(), ScriptedChatModel([pays(5, 6), "Done."])
    remote = client(Desk, serve(app(create(Desk, model, tools=[till]), approvals=SETTINGS)))
    bound = getattr(remote, method)
    with pytest.raises(ApprovalRequiredError) as caught:
        READ[method](bound("Pay."))
    error = caught.value
    assert str(error) == (
        f'Desk.{method}: approval required for pay({{"amount": 5}}), pay({{"amount": 6}}); '
        "continue with resume"
    )
    assert error.calls == pays(5, 6).message.tool_calls
    assert (error.state.qualname, error.state.pending, till.paid) == (f"Desk.{method}", ("c5", "c6"), [])
    assert len(error.attempts) == 1
    stored = error.state.to_json()  # for another process
    state = SuspendedCall.from_json(stored, verify=False)
    assert state == error.state
    assert READ[method](resume(bound, state, {"c5": Denied("no"), "c6": True})) == "Done."
    assert till.paid == [6]
    assert model.requests[1].messages[-2].text == "The call was not approved: no."
    with pytest.raises(AlreadyResumedError):
        READ[method](resume(bound, error.state, True))
    assert till.paid == [6]


def test_a_remote_client_reports_states_and_decisions_that_are_wrong(serve: Callable[[Any], str]) -> None:
    till = Till()
    url = serve(app(create(Desk, ScriptedChatModel([pays(5)]), tools=[till]), approvals=SETTINGS))
    remote = client(Desk, url)
    with pytest.raises(ApprovalRequiredError) as caught:
        remote.ask("Pay.")
    state = caught.value.state
    with pytest.raises(TypeError, match="the decision for c5 is 'yes'; it must be True, False or Denied"):
        resume(remote.ask, state, {"c5": "yes"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="approvals has no decision for c5"):
        resume(remote.ask, state, {})
    with pytest.raises(ValueError, match="cannot be changed"):
        resume(remote.ask, state._replace(memory_id="victim"), True)
    with pytest.raises(SuspendedCallError) as refused:
        resume(remote.told, state, True)
    assert str(refused.value) == (
        "Desk.told: The call that waited cannot be resumed: "
        "the suspended call belongs to Desk.ask, not to Desk.told"
    )
    with pytest.raises(TypeError, match="limit: the server sets these values"):
        resume(remote.ask, state, True, limit=5)
    assert till.paid == []


def test_a_remote_call_that_the_program_must_approve_says_so(serve: Callable[[Any], str]) -> None:
    url = serve(app(create(Desk, ScriptedChatModel([pays(5)]), tools=[Till()])))
    with pytest.raises(RemoteServiceError) as caught:
        client(Desk, url).ask("Pay.")
    assert caught.value.problem.type == "urn:aiservices:approval-required"


def test_a_remote_service_that_is_a_tool_waits_and_is_resumed_once(serve: Callable[[Any], str]) -> None:
    till = Till()
    served = create(Desk, ScriptedChatModel([pays(5), "Paid.", "Paid."]), tools=[till])
    remote = client(Desk, serve(app(served, approvals=SETTINGS)))
    call = ToolCall("o1", "ask", '{"text": "Pay."}')
    outer_model = ScriptedChatModel([ChatReply(AiMessage("", (call,))), "Done.", "Done."])
    outer = create(Desk, outer_model, tools=[remote.ask])
    with pytest.raises(ApprovalRequiredError) as caught:
        outer.told("Pay.")
    assert [call.id for call in caught.value.calls] == ["o1/c5"]
    state = SuspendedCall.from_json(caught.value.state.to_json(key="outer"), key="outer")
    assert resume(outer.told, state, {"o1/c5": True}).value == "Done."
    assert (outer_model.requests[1].messages[-1].text, till.paid) == ("Paid.", [5])
    with pytest.raises(AlreadyResumedError):
        resume(outer.told, state, True)
    assert till.paid == [5]
