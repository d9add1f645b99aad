"""Tools whose results come from a person or another program: the call waits for ``resume``."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    CALL_KINDS,
    TextService,
    add,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    AlreadyResumedError,
    ApprovalRequiredError,
    DefinitionError,
    Denied,
    Result,
    SuspendedCall,
    SuspendedCallError,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolLimits,
    ToolRun,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.interceptors import Flow, ToolInvocation, ToolProceed
from aiservices.memory import ChatMemory
from aiservices.rows import map_rows
from aiservices.structured_model import structured


@dataclass
class Room:
    number: int
    since: date


@tool(external=True)
def ask_person(question: str) -> str:
    """Ask the person at the desk."""
    raise AssertionError("an external tool never runs")


@tool(external=True)
async def free_room(beds: int) -> Room | None:
    """Return a free room."""
    raise AssertionError("an external tool never runs")


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


ASK = ("ask_person", '{"question": "Who?"}', "c1")
ROOM = ("free_room", '{"beds": 2}', "c1")
PAY = ("pay", '{"amount": 5}', "c2")
END_RESUMED: dict[str, Callable[[Any], Any]] = {
    "blocking": lambda value: value,
    "async": lambda value: asyncio.run(_awaited(value)),
    "stream": lambda value: value.result().value,
    "async stream": lambda value: asyncio.run(_awaited(value.result())).value,
    "texts": lambda value: "".join(value),
    "async texts": lambda value: asyncio.run(_joined(value)),
}
METHODS = {
    "blocking": "ask",
    "async": "aask",
    "stream": "stream",
    "async stream": "astream",
    "texts": "texts",
    "async texts": "atexts",
}


async def _awaited(value: Any) -> Any:
    return await value


async def _joined(items: Any) -> str:
    return "".join([item async for item in items])


def waiting(call: Callable[[], object]) -> ApprovalRequiredError:
    with pytest.raises(ApprovalRequiredError) as caught:
        call()
    return caught.value


def stored(error: ApprovalRequiredError) -> SuspendedCall:
    return SuspendedCall.from_json(error.state.to_json())


@every_call_kind
def test_a_call_of_an_external_tool_waits_for_its_result(kind: str) -> None:
    model = strict_provider(tool_calls_reply(ASK), "It is Leo.")
    service = text_service(model, ask_person)
    error = waiting(lambda: CALL_KINDS[kind](service))
    assert (error.calls, [call.id for call in error.external_calls]) == ((), ["c1"])
    method = METHODS[kind]
    assert str(error) == (
        f'TextService.{method}: result required of ask_person({{"question": "Who?"}}); continue with resume'
    )
    answer = resume(getattr(service, method), stored(error), results={"c1": "Leo"})
    assert END_RESUMED[kind](answer) == "It is Leo."
    assert messages_to(model)[-1].text == "Leo"


@pytest.mark.parametrize(
    ("value", "room", "text"),
    [
        (Room(7, date(2025, 1, 2)), Room(7, date(2025, 1, 2)), '{"number":7,"since":"2025-01-02"}'),
        (
            {"number": 7, "since": "2025-01-02"},
            Room(7, date(2025, 1, 2)),
            '{"number":7,"since":"2025-01-02"}',
        ),
        (None, None, "null"),
    ],
)
def test_a_result_gets_the_return_type_of_the_tool(value: Any, room: Any, text: str) -> None:
    model = strict_provider(tool_calls_reply(ROOM), "Done.")
    service = text_service(model, free_room)
    error = waiting(lambda: service.told("x"))
    result: Result[str] = resume(service.told, stored(error), results={"c1": value})
    (run,) = result.tool_runs
    assert (run.result, run.text, run.arguments, run.error) == (room, text, {"beds": 2}, None)
    assert messages_to(model)[-1].text == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("free", 'expected an object (Room) or null, found "free"'),
        (
            {"number": "7", "since": "2025-01-02"},
            'not permitted with Leniency.NONE, found "7"',
        ),
        ({"number": 7}, "the required field 'since' is missing"),
        (object(), "found object"),
    ],
)
def test_a_result_of_another_type_is_refused_and_the_call_still_waits(value: Any, message: str) -> None:
    model = strict_provider(tool_calls_reply(ROOM), "Done.")
    service = create(TextService, model, tools=[free_room], interceptors=[ChatMemory()])
    state = stored(waiting(lambda: service.ask("x")))
    with pytest.raises(ValueError, match="the result for c1 does not fit the tool free_room") as caught:
        resume(service.ask, state, results={"c1": value})
    assert str(caught.value).endswith(message)
    assert len(model.requests) == 1
    assert resume(service.ask, state, results={"c1": None}) == "Done."
    with pytest.raises(AlreadyResumedError):
        resume(service.ask, state, results={"c1": None})


def test_a_tool_without_a_return_annotation_takes_json_values() -> None:
    definition = {
        "name": "pick",
        "description": "Let the user pick.",
        "parameters": {
            "type": "object",
            "properties": {"of": {"type": "array", "items": {"type": "string"}}},
        },
    }
    model = strict_provider(tool_calls_reply(("pick", '{"of": ["a", "b"]}')), "Done.")
    service = text_service(model, Tool.from_schema(definition))
    state = stored(waiting(lambda: service.told("x")))
    with pytest.raises(ValueError, match="it is not a JSON value"):
        resume(service.told, state, results={"c1": object()})
    result = resume(service.told, state, results={"c1": {"picked": ["b"]}})
    assert result.tool_runs[0].result == {"picked": ["b"]}
    assert messages_to(model)[-1].text == '{"picked":["b"]}'


def test_approvals_and_results_of_one_round_are_given_together() -> None:
    model = strict_provider(tool_calls_reply(ASK, PAY, ("add", '{"a": 1, "b": 2}', "c3")), "Done.")
    service = text_service(model, ask_person, pay, add)
    error = waiting(lambda: service.ask("x"))
    assert [call.id for call in error.calls] == ["c2"]
    assert [call.id for call in error.external_calls] == ["c1"]
    assert "approval required for pay" in str(error)
    assert "result required of ask_person" in str(error)
    state = stored(error)
    with pytest.raises(ValueError, match=r"^TextService\.ask: results has no value for c1$"):
        resume(service.ask, state, True)
    with pytest.raises(ValueError, match=r"^TextService\.ask: approvals has no decision for c2$"):
        resume(service.ask, state, results={"c1": "Leo"})
    assert resume(service.ask, state, {"c2": True}, results={"c1": "Leo"}) == "Done."
    assert [message.text for message in messages_to(model)[-3:]] == ["Leo", "paid 5", "3"]


@pytest.mark.parametrize(
    ("approvals", "results", "message"),
    [
        ({}, {}, "results has no value for c1"),
        (True, {}, "results has no value for c1"),
        (
            {},
            {"c9": 1},
            "results has a value for 'c9', which does not wait for a result; the calls that do: c1",
        ),
        ({"c1": True}, {}, "approvals has a decision for 'c1', which waits for a result; pass it in results"),
        ({"c1": False}, {"c1": "x"}, "approvals has a decision for 'c1', which has a result, too"),
        ({"c9": True}, {"c1": "x"}, "approvals has a decision for 'c9', which does not wait; "),
    ],
)
def test_other_decisions_than_those_of_the_waiting_calls_are_refused(
    approvals: Any, results: Any, message: str
) -> None:
    service = text_service(strict_provider(tool_calls_reply(ASK)), ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    with pytest.raises(ValueError, match=r"approvals|results") as caught:
        resume(service.ask, state, approvals, results=results)
    assert str(caught.value).startswith(f"TextService.ask: {message}")


def test_results_that_are_not_a_dict_are_a_type_error() -> None:
    service = text_service(strict_provider(tool_calls_reply(ASK)), ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    with pytest.raises(TypeError, match="results is 'Leo'; pass a dict with the result for each id: c1"):
        resume(service.ask, state, results="Leo")  # type: ignore[arg-type]


@pytest.mark.parametrize("refusal", [False, {"c1": False}, {"c1": Denied("nobody is there")}])
def test_a_person_may_refuse_to_give_a_result(refusal: Any) -> None:
    model = strict_provider(tool_calls_reply(ASK), "Nobody knows.")
    service = text_service(model, ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    assert resume(service.ask, state, refusal) == "Nobody knows."
    reason = "nobody is there" if isinstance(refusal, dict) and refusal["c1"] else "no reason was given"
    assert messages_to(model)[-1].text == f"The call was not approved: {reason}."


def test_a_call_whose_arguments_cannot_be_read_does_not_wait() -> None:
    model = strict_provider(tool_calls_reply(("ask_person", '{"q": 1}')), tool_calls_reply(ASK), "Done.")
    service = text_service(model, ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    assert messages_to(model)[-1].text.startswith("The arguments cannot be read:")
    assert resume(service.ask, state, results={state.external[0]: "Leo"}) == "Done."


def test_the_result_of_an_external_tool_is_limited_like_others() -> None:
    model = strict_provider(tool_calls_reply(ASK), "Done.")
    service = text_service(model, ask_person, tool_limits=ToolLimits(max_characters=5))
    state = stored(waiting(lambda: service.told("x")))
    (run,) = resume(service.told, state, results={"c1": "0123456789"}).tool_runs
    assert (run.result, run.cut) == ("0123456789", 5)
    assert messages_to(model)[-1].text.startswith("01234\n\n[The result is cut here")


def test_interceptors_of_tools_see_the_result_of_an_external_tool() -> None:
    seen: list[str] = []

    def shout(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        seen.append(call.tool.name)
        run = yield from proceed(call)
        return run._replace(text=run.text.upper())

    model = strict_provider(tool_calls_reply(ASK), "Done.")
    service = text_service(model, ask_person, tool_interceptors=[shout])
    state = stored(waiting(lambda: service.told("x")))
    assert seen == []
    (run,) = resume(service.told, state, results={"c1": "Leo"}).tool_runs
    assert (run.result, messages_to(model)[-1].text, seen) == ("Leo", "LEO", ["ask_person"])


def test_a_result_may_have_a_text_for_the_model_and_data_for_the_program() -> None:
    @tool(external=True)
    def look(where: str):  # type: ignore[no-untyped-def]
        """Look somewhere."""

    model = strict_provider(tool_calls_reply(("look", '{"where": "shop"}')), "Done.")
    service = text_service(model, look)
    state = stored(waiting(lambda: service.told("x")))
    (run,) = resume(service.told, state, results={"c1": ToolAnswer("a lamp", data=[17])}).tool_runs
    assert (run.text, run.result) == ("a lamp", [17])


def test_the_result_of_an_external_tool_may_be_the_answer() -> None:
    @tool(external=True, return_behavior="immediate")
    def decide(question: str) -> Room:
        """Let a person decide."""
        raise AssertionError("an external tool never runs")

    class Desk(Protocol):
        def room(self, text: str) -> Room: ...

    model = strict_provider(tool_calls_reply(("decide", '{"question": "?"}')))
    desk = create(Desk, model, tools=[decide])
    state = stored(waiting(lambda: desk.room("x")))
    room = resume(desk.room, state, results={"c1": {"number": 3, "since": "2025-05-05"}})
    assert room == Room(3, date(2025, 5, 5))


def test_a_call_may_wait_several_times() -> None:
    model = strict_provider(tool_calls_reply(ASK), tool_calls_reply(("ask_person", ASK[1], "c2")), "Done.")
    service = text_service(model, ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    state = stored(waiting(lambda: resume(service.ask, state, results={"c1": "Leo"})))
    assert resume(service.ask, state, results={"c2": "Ann"}) == "Done."
    assert [message.text for message in messages_to(model)] == ["x", "", "Leo", "", "Ann"]


# damaged states and other services


def test_a_service_without_the_tool_cannot_resume() -> None:
    service = text_service(strict_provider(tool_calls_reply(ASK)), ask_person)
    state = stored(waiting(lambda: service.ask("x")))
    for tools, problem in (([], "has no tool"), ([add], "has no tool"), ([_inside], "runs the tool")):
        other = text_service(strict_provider(), *tools)
        with pytest.raises(SuspendedCallError) as caught:
            resume(other.ask, state, results={"c1": "Leo"})
        assert str(caught.value) == (
            "TextService.ask: the call c1 waits for a result of the external tool ask_person, but the "
            f"service {problem} ask_person"
        )


@tool(name="ask_person")
def _inside(question: str) -> str:
    raise AssertionError("a changed state ran a tool")


def test_a_changed_state_gives_no_result_to_a_tool_that_runs_and_runs_no_external_one() -> None:
    model = strict_provider(tool_calls_reply(ASK, PAY, ("add", '{"a": 1, "b": 2}', "c3")))
    service = text_service(model, ask_person, pay, add)
    state = waiting(lambda: service.ask("x")).state
    changes: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [
        ({"pending": [], "external": ["c1", "c2"]}, {}, {"c1": "Leo", "c2": "paid"}),
        ({"external": ["c1", "c3"]}, True, {"c1": "Leo", "c3": 3}),
        ({"pending": ["c1", "c2"], "external": []}, True, {}),
        ({"external": ["c1", "c9"]}, True, {"c1": "Leo", "c9": "x"}),
        ({"external": ["c1", "c2"]}, True, {"c1": "Leo", "c2": "x"}),
        ({"pending": [], "external": []}, {}, {}),
        ({"external": "c1"}, True, {"c1": "Leo"}),
        ({"external": [1]}, True, {"c1": "Leo"}),
    ]
    for change, approvals, results in changes:
        text = json.dumps({**json.loads(state.to_json()), **change})
        with pytest.raises(SuspendedCallError):
            resume(service.ask, SuspendedCall.from_json(text), approvals, results=results)
    # A call that was removed from the lists waits again.
    removed: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [
        ({"external": []}, True, {}),
        ({"pending": []}, {}, {"c1": "Leo"}),
    ]
    for change, approvals, results in removed:
        text = json.dumps({**json.loads(state.to_json()), **change})
        with pytest.raises(ApprovalRequiredError) as caught:
            resume(service.ask, SuspendedCall.from_json(text), approvals, results=results)
        assert len(caught.value.calls) + len(caught.value.external_calls) == 1
    assert len(model.requests) == 1


class Later:
    """A provider whose tools may change between the call and its continuation."""

    def __init__(self, *tools: Any) -> None:
        self.given = tools

    def tools(self, invocation: object) -> list[Any]:
        return list(self.given)


def test_a_provider_may_give_external_tools() -> None:
    model = strict_provider(tool_calls_reply(ROOM), "Done.")
    provider = Later(free_room)
    service = text_service(model, provider)
    state = stored(waiting(lambda: service.ask("x")))
    for tools, message in (([], "has no tool"), ([add], "has no tool")):
        provider.given = tuple(tools)
        with pytest.raises(SuspendedCallError, match=message):
            resume(service.ask, state, results={"c1": None})
    provider.given = (free_room,)
    with pytest.raises(ValueError, match="the result for c1 does not fit the tool free_room"):
        resume(service.ask, state, results={"c1": "x"})
    assert resume(service.ask, state, results={"c1": None}) == "Done."


# definitions


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            tool(external=True, needs_approval=True)(lambda: None),
            "is external and has needs_approval; its calls wait in any case, so remove needs_approval",
        ),
        (
            tool(external=True, timeout=3, name="slow")(lambda: None),
            "the tool slow is external and has a timeout; its calls wait in any case, so remove a timeout",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(declared: Any, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        text_service(strict_provider(), declared)
    assert message in str(caught.value)


def test_the_return_annotation_must_be_readable() -> None:
    class Opaque:
        def __init__(self, *, secret: Any) -> None: ...

        def __str__(self) -> str:
            return ""

    def find() -> Opaque:
        raise AssertionError

    with pytest.raises(DefinitionError, match="the result of the external tool find: "):
        text_service(strict_provider(), tool(external=True)(find))


def test_a_method_with_external_tools_is_not_for_rows() -> None:
    class Desk(Protocol):
        def ask(self, text: str) -> str: ...

    desk = create(Desk, strict_provider(), tools=[ask_person])
    with pytest.raises(DefinitionError, match="its tools ask_person need an approval or a result"):
        map_rows(desk.ask, [{"text": "x"}])


def test_a_context_parameter_called_results_does_not_get_the_results() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, results: Annotated[Any, ToolContext]) -> str: ...

    model = strict_provider(tool_calls_reply(ASK), tool_calls_reply(PAY), "Done.")
    desk = create(Desk, model, tools=[ask_person, pay])
    state = stored(waiting(lambda: desk.ask("x", 5)))
    with pytest.raises(TypeError, match="has a parameter called results, as resume has; rename it"):
        resume(desk.ask, state, results={"c1": "Leo"})
    state = stored(waiting(lambda: desk.ask("x", 5)))
    assert resume(desk.ask, state, True, results={"any": "value"}) == "Done."


# agents, structured models, other processes


def test_an_agent_waits_for_a_result() -> None:
    model = strict_provider(tool_calls_reply(ASK), "It is Leo.", tool_calls_reply(ASK), "It is Ann.")
    agent = ReActAgent("Eve", "Help.", model, [ask_person])
    state = stored(waiting(lambda: agent.reply("Who is it?")))
    reply = agent.resume(state, results={"c1": "Leo"})
    assert (reply.content, [run.result for one in reply.trace for run in one.runs]) == ("It is Leo.", ["Leo"])
    state = stored(waiting(lambda: asyncio.run(agent.areply("Who is it?"))))
    assert asyncio.run(agent.aresume(state, results={"c1": "Ann"})).content == "It is Ann."


def test_a_structured_model_waits_for_a_result() -> None:
    answer = '{"number": 7, "since": "2025-01-02"}'
    model = strict_provider(*[tool_calls_reply(ASK), tool_calls_reply(("Room", answer, "c9"))] * 2)
    rooms = structured(model, Room, tools=[ask_person])
    state = stored(waiting(lambda: rooms.invoke("Which room?")))
    assert rooms.resume(state, results={"c1": "7"}) == Room(7, date(2025, 1, 2))
    state = stored(waiting(lambda: asyncio.run(rooms.ainvoke("Which room?"))))
    assert asyncio.run(rooms.aresume(state, results={"c1": "7"})) == Room(7, date(2025, 1, 2))


PROGRAM = """
import sys
from typing import Protocol
from aiservices import ScriptedChatModel, SuspendedCall, create, resume, tool

class TextService(Protocol):
    def ask(self, text: str) -> str: ...

@tool(external=True)
def ask_person(question: str) -> str: ...

model = ScriptedChatModel(lambda request: "It is " + request.messages[-1].text)
service = create(TextService, model, tools=[ask_person])
print(resume(service.ask, SuspendedCall.from_json(sys.stdin.read()), results={"c1": "Leo"}))
"""


def test_another_process_continues_with_the_result() -> None:
    service = text_service(strict_provider(tool_calls_reply(ASK)), ask_person)
    state = waiting(lambda: service.ask("x")).state
    root = str(Path(__file__).parents[3])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=state.to_json(),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert ran.stdout == "It is Leo\n"
