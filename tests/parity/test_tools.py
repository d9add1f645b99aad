"""Behaviour of tools in LangChain4j and Quarkus that no other test checks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, Protocol, TypeVar

import pytest
from tool_calling import (
    ADD_CALL,
    CALL_KINDS,
    STRICT,
    TOOLS,
    Unsafe,
    add,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
    tool_result_text,
)

from aiservices import (
    ApprovalRequiredError,
    AttemptStarted,
    ChatRequest,
    DefinitionError,
    Int32,
    MemoryId,
    ReplyReceived,
    ScriptedChatModel,
    SystemMessage,
    ToolContext,
    ToolErrors,
    ToolException,
    ToolFinished,
    ToolLimits,
    ToolMessage,
    ToolRun,
    ToolSearch,
    ToolStarted,
    create,
    resume,
    tool,
    user_message,
)
from aiservices.guardrails import GuardrailError, ToolGuardrails, Verdict, passed, refused
from aiservices.interceptors import (
    Answer,
    CallModel,
    Effect,
    Flow,
    Invocation,
    Proceed,
    ToolInvocation,
    ToolProceed,
    map_effects,
)
from aiservices.memory import ChatMemory, MessageWindow
from aiservices.tools.tool import Tool, ToolDefinitionError, tools_of

T = TypeVar("T")
(ADD,) = tools_of(add)


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Person:
    name: str
    children: list[Person]


def arguments_read(function: Any, arguments: str) -> Mapping[str, Any] | None:
    """Return the arguments with which a tool runs; None if it does not."""
    name = tools_of(function)[0].name
    model = ScriptedChatModel([tool_calls_reply((name, arguments)), "Done."], capabilities=TOOLS)
    return text_service(model, function).told("x").tool_runs[0].arguments


def offered(model: ScriptedChatModel) -> list[list[str]]:
    return [[one.name for one in r.tooling.tools] if r.tooling else [] for r in model.requests]


# objects that are tools


def test_a_tool_method_that_a_subclass_overrides_is_that_of_the_subclass() -> None:
    class Parent:
        @tool(description="parent")
        def compute(self, text: str) -> str:
            return f"parent: {text}"

        @tool(description="inherited")
        def other(self) -> str:
            return "inherited"

    class Child(Parent):
        @tool(description="child")
        def compute(self, text: str) -> str:
            return f"child: {text}"

    assert {one.name: one.description for one in tools_of(Child())} == {
        "compute": "child",
        "other": "inherited",
    }
    assert tool_result_text(Child(), call=("compute", '{"text": "x"}')) == "child: x"


def test_methods_with_a_body_of_a_protocol_and_static_and_private_methods_are_tools() -> None:
    class Named(Protocol):
        @tool
        def name(self) -> str:
            return "from the protocol"

    class Desk(Named):
        @staticmethod
        @tool
        def static() -> str:
            return "static"

        @tool(name="hidden")
        def _private(self) -> str:
            return "private"

    assert sorted(one.name for one in tools_of(Desk())) == ["hidden", "name", "static"]
    assert tool_result_text(Desk(), call=("name", "{}")) == "from the protocol"
    assert tool_result_text(Desk(), call=("static", "{}")) == "static"


def test_a_type_variable_that_is_not_bound_cannot_be_an_argument() -> None:
    class Store(Generic[T]):
        @tool
        def update(self, values: dict[str, T]) -> None: ...

    with pytest.raises(ToolDefinitionError, match=r"the tool update: no parser reads ~T .* it is not bound"):
        tools_of(Store())


# arguments


def test_a_recursive_record_is_an_argument() -> None:
    seen: list[Person] = []

    def process(person: Person) -> None:
        seen.append(person)

    family = '{"person": {"name": "Ann", "children": [{"name": "Bo", "children": []}]}}'
    assert tool_result_text(process, call=("process", family)) == "Done."
    assert seen == [Person("Ann", [Person("Bo", [])])]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ('{"whole": 2, "exact": 1.5, "unit": "celsius"}', (2, "1.5")),
        ('{"whole": 2.0, "exact": 1.5, "unit": "celsius"}', (2, "1.5")),
        ('{"whole": "2", "exact": "1.5", "unit": "CELSIUS"}', (2, "1.5")),
        ('{"whole": 2, "exact": 0.1, "unit": "celsius"}', (2, "0.1")),
        (
            '{"whole": 2147483647, "exact": 1234567890.12345678901234567890, "unit": "celsius"}',
            (2147483647, "1234567890.12345678901234567890"),
        ),
    ],
)
def test_arguments_are_converted_to_the_types_of_their_parameters(
    arguments: str, values: tuple[int, str]
) -> None:
    def measure(whole: Int32, exact: Decimal, unit: Unit) -> None: ...

    whole, exact = values
    assert arguments_read(measure, arguments) == {
        "whole": whole,
        "exact": Decimal(exact),
        "unit": Unit.CELSIUS,
    }


@pytest.mark.parametrize(
    "arguments",
    ['{"whole": 2.5}', '{"whole": 2147483648}', '{"whole": -2147483649}', '{"whole": "abc"}', "{}", "{ no }"],
)
def test_arguments_that_do_not_fit_their_types_run_nothing(arguments: str) -> None:
    def measure(whole: Int32) -> None: ...

    assert arguments_read(measure, arguments) is None


def test_large_integers_keep_all_digits() -> None:
    def count(number: int) -> None: ...

    for number in (2**53 + 1, 2**63 - 1, 2**63 + 10):
        assert arguments_read(count, f'{{"number": {number}}}') == {"number": number}


def test_the_items_of_collections_are_converted() -> None:
    def sort(numbers: list[int], units: set[Unit], counts: dict[str, int]) -> None: ...

    written = '{"numbers": [1.0, "2"], "units": ["celsius", "FAHRENHEIT"], "counts": {"a": 1.0}}'
    assert arguments_read(sort, written) == {
        "numbers": [1, 2],
        "units": {Unit.CELSIUS, Unit.FAHRENHEIT},
        "counts": {"a": 1},
    }


@pytest.mark.parametrize(
    "arguments",
    ['{"text": "x",}', '"{\\"text\\": \\"x\\"}"', '```json\n{"text": "x"}\n```', '{"text": "x", "other": 1}'],
)
def test_arguments_in_slightly_broken_json_are_read(arguments: str) -> None:
    def note(text: str) -> None: ...

    assert arguments_read(note, arguments) == {"text": "x"}


def test_a_record_that_the_model_leaves_out_is_not_none() -> None:
    def process(person: Person) -> None: ...

    told = tool_result_text(process, call=("process", "{}"))
    assert told == "The arguments cannot be read:\n- $.person: the required field 'person' is missing"


def test_a_default_is_for_an_argument_that_is_left_out_and_null_only_if_the_model_was_told_so() -> None:
    def find(text: str = "all", unit: Unit = Unit.CELSIUS, limit: int | None = 5) -> str:
        return f"{text} {unit.value} {limit}"

    calls = ("find", "{}"), ("find", '{"limit": null}'), ("find", '{"text": null}')
    model = strict_provider(tool_calls_reply(*calls), "Done.")
    text_service(model, find).ask("x")
    assert [message.text for message in messages_to(model)[-3:]] == [
        "all celsius 5",
        "all celsius None",
        "The arguments cannot be read:\n- $.text: expected text, found null",
    ]
    strict = strict_provider(
        tool_calls_reply(("find", '{"text": null, "unit": null, "limit": null}')),
        "Done.",
        capabilities=STRICT,
    )
    text_service(strict, find).ask("x")
    assert "null: left out" in str(strict.requests[0].tooling)
    assert messages_to(strict)[-1].text == "all celsius 5"


# results and errors


@every_call_kind
def test_a_failed_immediate_tool_is_not_the_answer_and_the_model_may_call_it_again(kind: str) -> None:
    calls: list[int] = []

    @tool(return_behavior="immediate")
    def work() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ToolException("bad input")
        return "the answer"

    model = strict_provider(tool_calls_reply(("work", "{}")), tool_calls_reply(("work", "{}", "c2")))
    assert CALL_KINDS[kind](text_service(model, work)) == "the answer"
    assert messages_to(model)[-1] == ToolMessage("c1", "work", "bad input", failed=True)


def test_the_cause_of_a_tool_exception_is_not_for_the_model() -> None:
    def order() -> str:
        try:
            raise Unsafe("password=hunter2")
        except Unsafe as error:
            raise ToolException("There is no such order.") from error

    model = strict_provider(tool_calls_reply(("order", "{}")), "Done.")
    (run,) = text_service(model, order).told("x").tool_runs
    assert messages_to(model)[-1].text == "There is no such order."
    assert isinstance(run.error, ToolException)
    assert isinstance(run.error.__cause__, Unsafe)


def test_an_exception_without_a_message_says_which_tool_failed() -> None:
    def fail() -> str:
        raise RuntimeError

    assert tool_result_text(fail, call=("fail", "{}")) == "The tool fail failed."


def test_some_exceptions_may_end_the_call_and_others_not() -> None:
    def bypass(run: ToolRun) -> str:
        if isinstance(run.error, Unsafe):
            raise run.error
        return run.text

    def boom(marked: bool) -> str:
        raise Unsafe("not allowed") if marked else ValueError("x")

    errors = ToolErrors(execution=bypass)
    assert tool_result_text(boom, call=("boom", '{"marked": false}'), tool_errors=errors) == (
        "The tool boom failed."
    )
    model = strict_provider(tool_calls_reply(("boom", '{"marked": true}')))
    with pytest.raises(Exception, match="not allowed") as caught:
        text_service(model, boom, tool_errors=errors).ask("x")
    assert isinstance(caught.value.__cause__, Unsafe)


@every_call_kind
def test_the_text_for_an_invented_tool_name_can_be_chosen(kind: str) -> None:
    errors = ToolErrors(unknown=lambda run: f"Error: there is no tool called {run.name}")
    model = strict_provider(tool_calls_reply(("extract_town", "{}")), "Rome")
    assert CALL_KINDS[kind](text_service(model, add, tool_errors=errors)) == "Rome"
    assert messages_to(model)[-1].text == "Error: there is no tool called extract_town"


def test_an_immediate_tool_may_come_from_a_provider() -> None:
    @tool(return_behavior="immediate")
    def now() -> str:
        return "at once"

    class Provider:
        def tools(self, invocation: Invocation) -> list[Any]:
            return [now]

    model = strict_provider(tool_calls_reply(("now", "{}")))
    assert text_service(model, Provider()).ask("x") == "at once"


# limits


def test_a_tool_at_its_limit_stays_in_the_request_and_the_model_answers_without_it() -> None:
    @tool(max_calls=1)
    def search(text: str) -> str:
        return f"found {text}"

    model = strict_provider(
        tool_calls_reply(("search", '{"text": "a"}')),
        tool_calls_reply(("search", '{"text": "b"}', "c2")),
        "The answer.",
    )
    assert text_service(model, search, add).ask("x") == "The answer."
    assert offered(model) == [["search", "add"]] * 3


def test_an_interceptor_may_end_the_call_at_the_limit_of_a_tool() -> None:
    ran: list[str] = []

    def at_most_once(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        if call.name in [run.name for run in call.invocation.state.tool_runs]:
            raise Unsafe(f"{call.name} was called before")
        return (yield from proceed(call))

    def search(text: str) -> str:
        ran.append(text)
        return "found"

    call = ("search", '{"text": "a"}')
    model = strict_provider(tool_calls_reply(call), tool_calls_reply((*call, "c2")))
    with pytest.raises(Exception, match="search was called before"):
        text_service(model, search, tool_interceptors=[at_most_once]).ask("x")
    assert ran == ["a"]


def test_how_often_each_tool_was_called_is_in_the_result() -> None:
    def search() -> str:
        return "found"

    rounds = [("search", "{}"), ADD_CALL, ("search", "{}")]
    model = strict_provider(*[tool_calls_reply((*call, f"c{i}")) for i, call in enumerate(rounds)], "Done.")
    runs = text_service(model, search, add).told("x").tool_runs
    assert Counter(run.name for run in runs) == {"search": 2, "add": 1}


# providers and search


def test_a_provider_chooses_tools_by_what_the_user_wrote() -> None:
    def booking(number: str) -> str:
        return "from 1 July"

    class Bookings:
        def tools(self, invocation: Invocation) -> list[Any]:
            return [booking] if "booking" in invocation.request.messages[-1].text else []

    model = strict_provider("no tools", tool_calls_reply(("booking", '{"number": "1"}')), "1 July")
    service = text_service(model, add, Bookings())
    assert service.ask("When is my holiday?") == "no tools"
    assert service.ask("When is my booking?") == "1 July"
    assert offered(model) == [["add"], ["add", "booking"], ["add", "booking"]]


def test_a_provider_gets_the_conversation_and_the_values_that_the_model_does_not_see() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def ask(
            self, text: str, room: Annotated[str, MemoryId], role: Annotated[str, ToolContext]
        ) -> str: ...

    class ByRole:
        def tools(self, invocation: Invocation) -> list[Any]:
            return [add] if (invocation.memory_id, invocation.tool_context["role"]) == ("r1", "boss") else []

    model = ScriptedChatModel(["a", "b"])
    desk = create(Desk, model, tools=[ByRole()])
    desk.ask("x", "r1", "boss")
    desk.ask("x", "r1", "guest")
    assert offered(model) == [["add"], []]


def test_a_provider_that_returns_nothing_is_an_error() -> None:
    class Forgets:
        def tools(self, invocation: Invocation) -> Any: ...

    model = strict_provider("Done.")
    with pytest.raises(DefinitionError) as caught:
        text_service(model, Forgets()).ask("x")
    message = "TextService.ask: Forgets.tools returned NoneType; it must return a list of tools"
    assert (str(caught.value), model.requests) == (message, [])


@every_call_kind
def test_several_dynamic_providers_are_asked_before_each_request(kind: str) -> None:
    asked: list[str] = []

    class Dynamic:
        dynamic = True

        def __init__(self, name: str) -> None:
            self.name = name

        def tools(self, invocation: Invocation) -> list[Any]:
            asked.append(self.name)
            return [replace(ADD, name=f"{self.name}_{number}") for number in range(1 + len(asked) // 3)]

    model = strict_provider(tool_calls_reply(("a_0", '{"a": 1, "b": 2}')), "3")
    CALL_KINDS[kind](text_service(model, Dynamic("a"), Dynamic("b")))
    assert asked == ["a", "b", "a", "b"]
    assert [sorted(names) for names in offered(model)] == [["a_0", "b_0"], ["a_0", "a_1", "b_0", "b_1"]]


@every_call_kind
def test_a_window_smaller_than_the_rounds_of_a_call_loses_nothing_of_the_call(kind: str) -> None:
    class Clock:
        dynamic = True

        def tools(self, invocation: Invocation) -> list[Any]:
            assert invocation.request.messages[-1].text == "x"
            return [time_of_day]

    def time_of_day() -> str:
        return "12:00"

    call = ("time_of_day", "{}")
    model = strict_provider(tool_calls_reply(call), tool_calls_reply((*call, "c2")), "It is 12:00.")
    service = text_service(model, Clock(), interceptors=[ChatMemory(MessageWindow(2))])
    assert CALL_KINDS[kind](service) == "It is 12:00."
    assert [message.text for message in messages_to(model)] == ["x", "", "12:00", "", "12:00"]


def test_tools_are_searched_by_a_regular_expression() -> None:
    def matching(query: str, tools: Sequence[Tool]) -> list[str]:
        try:
            pattern = re.compile(query, re.IGNORECASE)
        except re.error as error:
            raise ToolException(f"not a regular expression: {error}") from error
        return [one.name for one in tools if pattern.search(f"{one.name} {one.description}")]

    def named(name: str, description: str) -> Any:
        return tool(name=name, description=description)(lambda: name)

    mails = [named("send", "Sends an email."), named("user", "Creates a user."), named("status", "Mailbox.")]
    model = strict_provider(
        tool_calls_reply(("search_tools", '{"query": "[unclosed"}')),
        tool_calls_reply(("search_tools", '{"query": "email|mail"}', "c2")),
        "Done.",
    )
    text_service(model, ToolSearch(mails, by=matching)).ask("x")
    assert messages_to(model)[2].text.startswith("not a regular expression: ")
    assert offered(model)[-1] == ["search_tools", "send", "status"]


def test_a_tool_that_was_found_earlier_and_is_gone_is_not_offered() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def ask(self, room: Annotated[str, MemoryId], text: str) -> str: ...

    class Changing:
        names = ("weather", "time")

        def tools(self, invocation: Invocation) -> list[Any]:
            return [replace(ADD, name=name, description=f"about {name}") for name in self.names]

    provider = Changing()
    model = ScriptedChatModel(
        [tool_calls_reply(("search_tools", '{"query": "weather time"}')), "a", "b"], capabilities=TOOLS
    )
    desk = create(Desk, model, tools=[ToolSearch([provider])], interceptors=[ChatMemory()])
    desk.ask("r1", "x")
    provider.names = ("weather",)
    desk.ask("r1", "y")
    assert offered(model)[1:] == [["search_tools", "weather", "time"], ["search_tools", "weather"]]


def test_a_tool_that_is_always_offered_and_found_is_offered_once() -> None:
    search = ToolSearch([add], always=["add"])
    model = strict_provider(tool_calls_reply(("search_tools", '{"query": "adds"}')), "3")
    text_service(model, search).ask("x")
    assert offered(model) == [["search_tools", "add"]] * 2


# the call


def test_the_function_of_the_system_message_knows_the_model() -> None:
    def system(invocation: Invocation) -> str:
        return f"You are {invocation.routes[0].model.name}."

    model = ScriptedChatModel(["Hello."], name="claude")
    text_service(model, system_message=system).ask("x")
    assert model.requests[0].messages[0] == SystemMessage("You are claude.")


def test_a_transform_changes_the_system_message_in_all_rounds() -> None:
    def brief(request: ChatRequest) -> ChatRequest:
        system, *others = request.messages
        return replace(request, messages=(SystemMessage(f"{system.text} Be brief."), *others))

    model = strict_provider(tool_calls_reply(ADD_CALL), "3")
    text_service(model, add, system_message="You add.", transform=brief).ask("x")
    assert [request.messages[0].text for request in model.requests] == ["You add. Be brief."] * 2


# guards and hooks


@every_call_kind
def test_a_guard_that_raises_ends_the_call_before_the_tool_runs(kind: str) -> None:
    def never(arguments: Mapping[str, Any], call: ToolInvocation) -> Verdict:
        raise PermissionError("tools are disabled for this tenant")

    def write(page: str) -> str:
        raise AssertionError

    model = strict_provider(tool_calls_reply(("write", '{"page": "a"}')), "Done.", "Done.")
    service = text_service(model, write, tool_interceptors=[ToolGuardrails(arguments=[never])])
    with pytest.raises(GuardrailError) as caught:
        CALL_KINDS[kind](service)
    assert isinstance(caught.value.__cause__, PermissionError)
    assert service.ask("the next call works") == "Done."


def test_a_guard_of_results_sees_the_arguments_of_the_call() -> None:
    def public(text: str, call: ToolInvocation) -> Verdict:
        return refused("This page is secret.") if call.arguments["page"].startswith("raw/") else passed()

    def read(page: str) -> str:
        return f"the text of {page}"

    pages = [("read", '{"page": "raw/a"}'), ("read", '{"page": "b"}')]
    model = strict_provider(tool_calls_reply(*pages), "Done.")
    text_service(model, read, tool_interceptors=[ToolGuardrails(results=[public])]).ask("x")
    assert [message.text for message in messages_to(model)[-2:]] == [
        "This page is secret.",
        "the text of b",
    ]


def test_no_guard_runs_after_one_that_refused_the_call() -> None:
    seen: list[str] = []

    def first(arguments: Mapping[str, Any], call: ToolInvocation) -> Verdict:
        return refused("no")

    def second(arguments: Mapping[str, Any], call: ToolInvocation) -> Verdict:
        seen.append(call.name)
        return passed()

    guards = ToolGuardrails(arguments=[first, second])
    assert tool_result_text(add, call=ADD_CALL, tool_interceptors=[guards]) == "no"
    assert seen == []


def test_one_list_of_guards_can_be_for_all_tools_of_an_object() -> None:
    guarded = tool(interceptors=[ToolGuardrails(arguments=[lambda arguments, call: refused("read-only")])])

    class Wiki:
        @guarded
        def write(self, page: str) -> str:
            raise AssertionError

        @guarded
        def delete(self, page: str) -> str:
            raise AssertionError

    model = strict_provider(
        tool_calls_reply(("write", '{"page": "a"}'), ("delete", '{"page": "a"}'), ADD_CALL), "Done."
    )
    text_service(model, Wiki(), add).ask("x")
    assert [message.text for message in messages_to(model)[-3:]] == ["read-only", "read-only", "3"]


@every_call_kind
def test_listeners_hear_all_calls_of_a_round_before_the_first_tool_runs(kind: str) -> None:
    heard: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, AttemptStarted):
            heard.append("request")
        elif isinstance(event, ReplyReceived) and event.reply.message.tool_calls:
            heard.append(f"calls of {[call.name for call in event.reply.message.tool_calls]}")
        elif isinstance(event, ToolStarted):
            heard.append(f"before {event.call.name}")
        elif isinstance(event, ToolFinished):
            heard.append(f"after {event.run.name}")

    def half(of: int) -> int:
        return of // 2

    model = strict_provider(tool_calls_reply(ADD_CALL, ("half", '{"of": 4}')), "Done.")
    one_by_one = ToolLimits(max_concurrency=1)
    CALL_KINDS[kind](text_service(model, add, half, listeners=[listen], tool_limits=one_by_one))
    assert heard == [
        "request",
        "calls of ['add', 'half']",
        "before add",
        "after add",
        "before half",
        "after half",
        "request",
    ]


@every_call_kind
def test_an_interceptor_may_end_the_call_before_the_tools_of_a_round_run(kind: str) -> None:
    def no_deletion(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        def perform(effect: Effect) -> Flow[Any]:
            outcome = yield effect
            if isinstance(effect, CallModel) and any(c.name == "delete" for c in outcome.message.tool_calls):
                raise PermissionError("nothing may be deleted")
            return outcome

        return (yield from map_effects(proceed(invocation), perform))

    def delete() -> str:
        raise AssertionError

    model = strict_provider(tool_calls_reply(("delete", "{}"), ADD_CALL))
    service = text_service(model, delete, add, interceptors=[no_deletion])
    with pytest.raises(PermissionError, match="nothing may be deleted"):
        CALL_KINDS[kind](service)


# calls that wait


def test_a_stream_waits_for_the_result_of_an_external_tool_and_goes_on() -> None:
    @tool(external=True)
    def ask_human(question: str) -> str: ...

    model = strict_provider(tool_calls_reply(("ask_human", '{"question": "Which seat?"}')), "12A it is.")
    service = text_service(model, ask_human)
    with pytest.raises(ApprovalRequiredError) as caught:
        list(service.texts("x"))
    (call,) = caught.value.external_calls
    assert (call.name, call.arguments) == ("ask_human", '{"question": "Which seat?"}')
    answer = resume(service.texts, caught.value.state, results={call.id: "12A"})
    assert list(answer) == ["12A ", "it ", "is."]
