"""Interceptors around tool calls: what they may change, and in which kinds of calls they work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from tool_calling import (
    ADD_CALL,
    CALL_KINDS,
    STRICT,
    TOOLS,
    TextService,
    aadd,
    add,
    every_call_kind,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    Budget,
    BudgetExceededError,
    DefinitionError,
    Denied,
    Result,
    ScriptedChatModel,
    SuspendedCall,
    ToolAnswer,
    ToolException,
    ToolLimits,
    create,
    options,
    resume,
)
from aiservices.agents import ReActAgent
from aiservices.engine.streams import ToolFinished, ToolStarted
from aiservices.interceptors import (
    CallModel,
    Flow,
    Gather,
    Invocation,
    Run,
    Sleep,
    ToolInvocation,
    ToolProceed,
)
from aiservices.models.errors import ToolError
from aiservices.models.requests import ChatRequest
from aiservices.structured_model import structured
from aiservices.tools.tool import Tool, ToolRun, tool


def results_of(model: ScriptedChatModel) -> list[str]:
    return [
        message.text for message in model.requests[-1].messages if type(message).__name__ == "ToolMessage"
    ]


def one_call(*more: Any, capabilities: Any = TOOLS) -> ScriptedChatModel:
    return strict_provider(tool_calls_reply(ADD_CALL, *more), "Done.", capabilities=capabilities)


@every_call_kind
def test_an_interceptor_sees_the_call_with_its_arguments(kind: str) -> None:
    seen: list[Any] = []

    def watch(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        seen.append((call.name, dict(call.arguments), call.invocation.qualname.partition(".")[0]))
        run = yield from proceed(call)
        seen.append((run.result, run.text, run.error))
        return run

    model = one_call()
    CALL_KINDS[kind](text_service(model, add, tool_interceptors=[watch]))
    assert seen == [("add", {"a": 1, "b": 2}, "TextService"), (3, "3", None)]
    assert results_of(model) == ["3"]


@every_call_kind
def test_an_interceptor_changes_arguments_and_results(kind: str) -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call.with_arguments(b=10))
        return call.answer({"sum": run.result})

    model = one_call()
    CALL_KINDS[kind](text_service(model, add, tool_interceptors=[change]))
    assert results_of(model) == ['{"sum":11}']


@every_call_kind
def test_an_interceptor_answers_or_refuses_without_running_the_tool(kind: str) -> None:
    ran: list[int] = []

    @tool(name="add")
    def counted(a: int, b: int) -> int:
        """Adds."""
        ran.append(a)
        return a + b

    def decide(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return call.refuse("Only small numbers.") if call.arguments["a"] > 5 else call.answer(40)
        yield

    model = one_call(("add", '{"a": 9, "b": 2}', "c2"))
    CALL_KINDS[kind](text_service(model, counted, tool_interceptors=[decide]))
    assert (results_of(model), ran) == (["40", "Only small numbers."], [])


def test_the_runs_of_the_result_are_those_of_the_interceptor() -> None:
    def decide(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        if call.call.id == "c1":
            return call.answer(ToolAnswer("forty", data=40))
        return call.refuse("No.")
        yield

    result = text_service(one_call(("add", '{"a": 9, "b": 2}', "c2")), add, tool_interceptors=[decide]).told(
        "x"
    )
    answered, refused = result.tool_runs
    assert (answered.result, answered.text, answered.error) == (40, "forty", None)
    assert (refused.text, type(refused.error), refused.message.failed) == ("No.", ToolError, True)


@every_call_kind
def test_an_interceptor_repeats_a_tool_that_failed(kind: str) -> None:
    attempts: list[int] = []

    def flaky() -> str:
        """Fails once."""
        attempts.append(1)
        if len(attempts) == 1:
            raise ToolException("busy")
        return "ready"

    def again(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call)
        if run.error is not None:
            yield Sleep(0)
            run = yield from proceed(call)
        return run

    model = strict_provider(tool_calls_reply(("flaky", "{}")), "Done.")
    CALL_KINDS[kind](text_service(model, flaky, tool_interceptors=[again]))
    assert (results_of(model), len(attempts)) == (["ready"], 2)


def test_those_of_the_service_are_around_those_of_the_tool() -> None:
    order: list[str] = []

    def named(name: str) -> Any:
        def interceptor(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
            order.append(name)
            run = yield from proceed(call)
            order.append(f"/{name}")
            return run

        return interceptor

    @tool(name="add", interceptors=[named("tool 1"), named("tool 2")])
    def intercepted(a: int, b: int) -> int:
        """Adds."""
        order.append("run")
        return a + b

    class Service(Protocol):
        @options(tool_interceptors=[named("method")])
        def ask(self, text: str) -> str: ...

    create(Service, one_call(), tools=[intercepted], tool_interceptors=[named("service")]).ask("x")
    names = ["service", "method", "tool 1", "tool 2"]
    assert order == [*names, "run", *[f"/{name}" for name in reversed(names)]]


@every_call_kind
def test_an_interceptor_does_input_and_output_with_effects(kind: str) -> None:
    judge = ScriptedChatModel(["allowed", "allowed"])

    def ask(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        (reply,) = yield Gather((CallModel(judge, ChatRequest.of("May it?")),))
        looked_up = yield Run(lambda: "looked up", in_thread=True)
        run = yield from proceed(call)
        return run._replace(text=f"{run.text} {reply.text} {looked_up}")

    model = one_call(("add", '{"a": 3, "b": 4}', "c2"))
    assert CALL_KINDS[kind](text_service(model, add, tool_interceptors=[ask])).endswith("Done.")
    assert results_of(model) == ["3 allowed looked up", "7 allowed looked up"]


def test_an_async_tool_is_intercepted() -> None:
    class Async(Protocol):
        async def ask(self, text: str) -> str: ...

    async def check() -> int:
        return 100

    def raise_b(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        b = yield Run(check)
        return (yield from proceed(call.with_arguments(b=b)))

    model = strict_provider(tool_calls_reply(("aadd", '{"a": 1, "b": 2}')), "Done.")
    asyncio.run(create(Async, model, tools=[aadd], tool_interceptors=[raise_b]).ask("x"))
    assert results_of(model) == ["101"]


def test_a_tool_exception_of_an_interceptor_is_for_the_model() -> None:
    def closed(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        raise ToolException("We are closed.")
        yield

    model = one_call()
    result = text_service(model, add, tool_interceptors=[closed]).told("x")
    assert results_of(model) == ["We are closed."]
    error = result.tool_runs[0].error
    assert isinstance(error, ToolError)
    assert isinstance(error.__cause__, ToolException)


@every_call_kind
def test_another_exception_of_an_interceptor_ends_the_call(kind: str) -> None:
    def broken(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        raise RuntimeError("broken")
        yield

    with pytest.raises(RuntimeError, match="broken"):
        CALL_KINDS[kind](text_service(one_call(), add, tool_interceptors=[broken]))


def test_calls_that_cannot_run_are_not_intercepted() -> None:
    seen: list[str] = []

    def watch(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        seen.append(call.call.id)
        return (yield from proceed(call))

    model = one_call(("add", '{"a": "x"}', "c2"), ("nope", "{}", "c3"))
    text_service(model, add, tool_interceptors=[watch]).ask("x")
    assert seen == ["c1"]


# changed arguments


@dataclass
class Order:
    article: str
    count: int


def buy(order: Order, tags: dict[str, int]) -> str:
    """Buys."""
    return f"{order.count} {order.article} {tags}"


BUY_CALLS = {
    TOOLS: '{"order": {"article": "lamp", "count": 1}, "tags": {"x": 1}}',
    STRICT: '{"order": {"article": "lamp", "count": 1}, "tags": [{"key": "x", "value": 1}]}',
}


@pytest.mark.parametrize("capabilities", BUY_CALLS)
def test_changed_arguments_are_values_of_the_parameters(capabilities: Any) -> None:
    def double(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        order = call.arguments["order"]
        return (yield from proceed(call.with_arguments(order=Order(order.article, 2), tags={"y": 3})))

    model = strict_provider(
        tool_calls_reply(("buy", BUY_CALLS[capabilities])), "Done.", capabilities=capabilities
    )
    text_service(model, buy, tool_interceptors=[double]).ask("x")
    assert results_of(model) == ["2 lamp {'y': 3}"]


@pytest.mark.parametrize("changes", [{"b": "2"}, {"c": 3}, {"b": None}])
def test_arguments_that_do_not_fit_the_tool_end_the_call(changes: dict[str, Any]) -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return (yield from proceed(call.with_arguments(**changes)))

    with pytest.raises(ToolError, match="the arguments of add were changed, and they do not fit"):
        text_service(one_call(), add, tool_interceptors=[change]).ask("x")


def test_only_the_arguments_can_be_changed() -> None:
    other = Tool.from_schema({"name": "other", "description": "", "parameters": {"type": "object"}}, print)

    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        changed = ToolInvocation(call.call, other, call.arguments, call.invocation, call.parser)
        return (yield from proceed(changed))

    model = one_call()
    text_service(model, add, tool_interceptors=[change]).ask("x")
    assert results_of(model) == ["3"]


# approval, limits, streams, agents


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def test_an_interceptor_runs_once_a_call_is_approved() -> None:
    seen: list[str] = []

    def watch(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        seen.append(call.name)
        return (yield from proceed(call))

    model = strict_provider(tool_calls_reply(("pay", '{"amount": 5}')), "Done.", "Done.")
    service = text_service(model, pay, tool_interceptors=[watch])
    with pytest.raises(ApprovalRequiredError) as waiting:
        service.ask("x")
    assert seen == []
    state = SuspendedCall.from_json(waiting.value.state.to_json())
    resume(service.ask, state, True)
    assert (seen, results_of(model)) == (["pay"], ["paid 5"])
    resume(service.ask, state, {"c1": Denied("too much")})
    assert seen == ["pay"]


def test_what_a_person_approved_is_what_runs() -> None:
    def more(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return (yield from proceed(call.with_arguments(amount=500)))

    model = strict_provider(tool_calls_reply(("pay", '{"amount": 5}')), "Done.")
    service = text_service(model, pay, tool_interceptors=[more])
    with pytest.raises(ApprovalRequiredError) as waiting:
        service.ask("x")
    with pytest.raises(ToolError) as caught:
        resume(service.ask, waiting.value.state, True)
    assert str(caught.value) == (
        "TextService.ask: pay: its arguments were changed after the call had waited for a person"
    )


def test_the_timeout_is_that_of_the_tool_and_not_of_the_interceptor() -> None:
    @tool(timeout=0.2)
    def quick() -> str:
        """Is quick."""
        return "quick"

    def slow(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        yield Sleep(0.3)
        return (yield from proceed(call))

    model = strict_provider(tool_calls_reply(("quick", "{}")), "Done.")
    text_service(model, quick, tool_interceptors=[slow]).ask("x")
    assert results_of(model) == ["quick"]


def test_the_budget_ends_an_interceptor_that_waits() -> None:
    async def wait() -> None:
        await asyncio.sleep(10)

    def slow(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        yield Run(wait)
        return (yield from proceed(call))

    service = create(
        TextService, one_call(), tools=[add], tool_interceptors=[slow], budget=Budget(seconds=0.2)
    )
    with pytest.raises(BudgetExceededError):
        asyncio.run(service.aask("x"))


def test_a_stream_shows_when_an_intercepted_tool_starts_and_ends() -> None:
    def watch(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call)
        return run._replace(text="changed")

    events = list(text_service(one_call(), add, tool_interceptors=[watch]).stream("x").events())
    assert [event.call.name for event in events if isinstance(event, ToolStarted)] == ["add"]
    assert [event.run.text for event in events if isinstance(event, ToolFinished)] == ["changed"]


def test_an_immediate_result_of_an_interceptor_is_the_answer() -> None:
    @tool(return_behavior="immediate")
    def hours() -> str:
        """Returns the hours."""
        return "nine"

    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        run = yield from proceed(call)
        return call.answer(f"{run.result} to five")

    model = strict_provider(tool_calls_reply(("hours", "{}")))
    assert text_service(model, hours, tool_interceptors=[change]).ask("x") == "nine to five"


def test_a_long_result_of_an_interceptor_is_cut() -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return call.answer("x" * 100)
        yield

    result = text_service(
        one_call(), add, tool_interceptors=[change], tool_limits=ToolLimits(max_characters=10)
    ).told("x")
    assert result.tool_runs[0].cut == 90


def test_agents_and_structured_models_have_interceptors() -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return (yield from proceed(call.with_arguments(b=10)))

    model = one_call()
    ReActAgent("Friday", "Help.", model, [add], tool_interceptors=[change]).reply("x")
    assert results_of(model) == ["11"]
    model = one_call()
    structured(model, str, tools=[add], tool_interceptors=[change]).invoke("x")
    assert results_of(model) == ["11"]


def test_the_hooks_of_an_agent_see_calls_that_an_interceptor_answered() -> None:
    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return call.answer("known")
        yield

    seen: list[str] = []
    friday = ReActAgent("Friday", "Help.", one_call(), [add], tool_interceptors=[change])
    friday.on("pre_acting", lambda call: seen.append(call.name))
    friday.on("post_acting", lambda run: seen.append(run.text))
    friday.reply("x")
    assert seen == ["add", "known"]


def test_tools_of_a_provider_are_intercepted() -> None:
    class Provides:
        def tools(self, invocation: Invocation) -> list[Any]:
            definition = {
                "name": "add",
                "description": "Adds.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                },
            }
            return [Tool.from_schema(definition, add)]

    def change(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        return (yield from proceed(call.with_arguments(b=10)))

    model = one_call()
    text_service(model, Provides(), tool_interceptors=[change]).ask("x")
    assert results_of(model) == ["11"]


# mistakes


async def is_async(call: ToolInvocation, proceed: ToolProceed) -> Any: ...


class Plain:
    pass


@pytest.mark.parametrize(
    ("interceptor", "message"),
    [
        (
            lambda call: call,
            "an item of tool_interceptors is <lambda>, which cannot be called with (call, proceed): too many "
            "positional arguments",
        ),
        (3, "an item of tool_interceptors has the type int; pass a function of (call, proceed)"),
        (
            is_async,
            "an item of tool_interceptors is is_async, which is async; write a generator function that "
            "yields effects",
        ),
        (Plain, "an item of tool_interceptors is the class Plain; pass Plain(…)"),
    ],
)
def test_wrong_interceptors_are_definition_errors(interceptor: Any, message: str) -> None:
    model = strict_provider("x")
    decorated = tool(name="add", interceptors=[interceptor])(lambda: None)
    made: dict[str, Callable[[], object]] = {
        "TextService": lambda: text_service(model, add, tool_interceptors=[interceptor]),
        "Friday.reply": lambda: ReActAgent("Friday", "x", model, [add], tool_interceptors=[interceptor]),
        "structured": lambda: structured(model, str, tools=[add], tool_interceptors=[interceptor]),
    }
    for place, make in made.items():
        with pytest.raises(DefinitionError) as caught:
            make()
        assert str(caught.value) == f"{place}: {message}"
    with pytest.raises(DefinitionError) as caught:
        text_service(model, decorated)
    of_tool = message.replace("an item of tool_interceptors", "an interceptor of the tool add")
    assert f"TextService.ask: {of_tool}" in str(caught.value)


def test_an_interceptor_that_is_no_generator_function_is_an_error_of_the_call() -> None:
    def forgets(call: ToolInvocation, proceed: ToolProceed) -> Any:
        return proceed

    with pytest.raises(DefinitionError, match="forgets is not a generator function"):
        text_service(one_call(), add, tool_interceptors=[forgets]).ask("x")


@pytest.mark.parametrize("returned", [None, 3])
def test_an_interceptor_that_returns_no_run_is_an_error_of_the_call(returned: Any) -> None:
    def wrong(call: ToolInvocation, proceed: ToolProceed) -> Any:
        yield from proceed(call)
        return returned

    with pytest.raises(
        DefinitionError, match=f"returned a {type(returned).__name__}; it must return a ToolRun"
    ):
        text_service(one_call(), add, tool_interceptors=[wrong]).ask("x")


def test_an_interceptor_that_proceeds_with_something_else_is_an_error_of_the_call() -> None:
    def wrong(call: ToolInvocation, proceed: Any) -> Any:
        return (yield from proceed(call.arguments))

    with pytest.raises(DefinitionError, match="proceeded with a dict; pass the call"):
        text_service(one_call(), add, tool_interceptors=[wrong]).ask("x")


def test_a_method_with_interceptors_of_tools_has_a_result() -> None:
    class Told(Protocol):
        def ask(self, text: str) -> Result[str]: ...

    def twice(call: ToolInvocation, proceed: ToolProceed) -> Flow[ToolRun]:
        yield from proceed(call)
        return (yield from proceed(call))

    result = create(Told, one_call(), tools=[add], tool_interceptors=[twice]).ask("x")
    assert [run.result for run in result.tool_runs] == [3]
