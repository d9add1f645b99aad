"""Services that call services: accounts, budgets, events and errors of the calls inside a call."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    AuthenticationError,
    Budget,
    BudgetExceededError,
    CallCompleted,
    CallStarted,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    InnerCall,
    InnerCalls,
    ModelServerError,
    Price,
    Result,
    ScriptedChatModel,
    SharedBudget,
    Stream,
    ToolCall,
    ToolLimits,
    ToolMessage,
    Usage,
    create,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.structured_model import SideQuestion


class Helper(Protocol):
    @user_message("{{question}}")
    def ask(self, question: str) -> str:
        """Answer a question."""
        ...

    @user_message("{{question}}")
    async def aask(self, question: str) -> str:
        """Answer a question."""
        ...

    @user_message("{{question}}")
    def stream(self, question: str) -> Stream[str]:
        """Answer a question."""
        ...

    @user_message("{{question}}")
    def texts(self, question: str) -> Iterator[str]:
        """Answer a question."""
        ...

    @user_message("{{question}}")
    def atexts(self, question: str) -> AsyncIterator[str]:
        """Answer a question."""
        ...


class Desk(Protocol):
    @user_message("{{text}}")
    def answer(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...


class AsyncDesk(Protocol):
    @user_message("{{text}}")
    async def answer(self, text: str) -> Result[str]: ...


def reply(text: str, tokens: int = 10) -> ChatReply:
    return ChatReply(AiMessage(text), FinishReason.STOP, Usage(tokens, 0), "fake")


def calls(*names: str, tokens: int = 10) -> ChatReply:
    requested = tuple(
        ToolCall(f"c{number}", name, '{"question": "Why?"}') for number, name in enumerate(names)
    )
    return ChatReply(AiMessage("", tool_calls=requested), FinishReason.TOOL_CALLS, Usage(tokens, 0), "fake")


def helper(*replies: ChatReply | Exception, **settings: Any) -> Helper:
    return create(Helper, ScriptedChatModel(list(replies)), **settings)


def model_of(*tools: Any) -> ScriptedChatModel:
    return ScriptedChatModel([calls(*[one.__name__ for one in tools]), reply("done")])


def desk(*tools: Any, **settings: Any) -> Desk:
    return create(Desk, model_of(*tools), tools=tools, **settings)


def async_desk(*tools: Any, **settings: Any) -> AsyncDesk:
    return create(AsyncDesk, model_of(*tools), tools=tools, **settings)


def tokens(call: InnerCall | Result[Any]) -> int:
    return 0 if call.usage is None else call.usage.total_tokens


def test_usage_and_cost_include_inner_calls_and_own_usage_does_not() -> None:
    inner = helper(reply("yes", tokens=100))
    budget = Budget(prices={"fake": Price(1_000_000, 0)})
    result = desk(inner.ask, budget=budget).answer("Hi")
    assert (result.usage, result.own_usage, result.cost) == (Usage(120, 0), Usage(20, 0), 120.0)
    (call,) = result.inner_calls
    assert (call.qualname, call.usage, call.cost, call.error) == ("Helper.ask", Usage(100, 0), 100.0, None)
    assert 0 < call.seconds < result.seconds
    assert pickle.loads(pickle.dumps(result)).inner_calls == result.inner_calls
    assert result.to_dict()["inner_calls"][0]["usage"]["input_tokens"] == 100


def test_the_cost_is_unknown_if_that_of_an_inner_call_is() -> None:
    inner = helper(ChatReply(AiMessage("yes"), FinishReason.STOP, Usage(1, 1), "unknown"))
    budget = Budget(prices={"fake": Price(1, 1)})
    result = desk(inner.ask, budget=budget).answer("Hi")
    assert result.cost is None
    assert result.inner_calls[0].cost is None


def test_inner_calls_are_a_tree() -> None:
    deep = helper(reply("deep", tokens=1000))
    middle = create(
        Helper, ScriptedChatModel([calls("deeper"), reply("mid", 100)]), tools=[tool(name="deeper")(deep.ask)]
    )
    result = desk(middle.ask).answer("Hi")
    (outer,) = result.inner_calls
    (inner,) = outer.inner_calls
    assert (tokens(result), tokens(outer), tokens(inner)) == (1130, 1110, 1000)
    assert outer.own_usage == Usage(110, 0)


@pytest.mark.parametrize("name", ["ask", "stream", "texts"])
def test_blocking_values_streams_and_iterators_are_inner_calls(name: str) -> None:
    result = desk(getattr(helper(reply("yes", 100)), name)).answer("Hi")
    assert tokens(result) == 120
    assert [call.qualname for call in result.inner_calls] == [f"Helper.{name}"]


@pytest.mark.parametrize("name", ["aask", "ask", "atexts"])
def test_async_calls_have_inner_calls(name: str) -> None:
    result = asyncio.run(async_desk(getattr(helper(reply("yes", 100)), name)).answer("Hi"))
    assert (tokens(result), len(result.inner_calls)) == (120, 1)


def test_the_result_of_a_stream_has_inner_calls() -> None:
    result = desk(helper(reply("yes", 100)).ask).stream("Hi").result()
    assert (tokens(result), len(result.inner_calls)) == (120, 1)


def test_a_python_function_calls_services_in_threads() -> None:
    inner = helper(*[reply("yes", 100)] * 4)

    def ask_all(question: str) -> str:
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(copy_context().run, inner.ask, question) for _ in range(4)]
            return " ".join(answer.result() for answer in answers)

    result = desk(ask_all).answer("Hi")
    assert (tokens(result), len(result.inner_calls)) == (420, 4)


def test_a_python_function_calls_services_in_tasks() -> None:
    inner = helper(*[reply("yes", 100)] * 4)

    async def ask_all(question: str) -> str:
        return " ".join(await asyncio.gather(*[inner.aask(question) for _ in range(4)]))

    result = asyncio.run(async_desk(ask_all).answer("Hi"))
    assert (tokens(result), len(result.inner_calls)) == (420, 4)


def test_the_calls_of_an_agent_are_inner_calls() -> None:
    agent = ReActAgent(
        "bob", "You help.", ScriptedChatModel([calls("ask"), reply("yes", 50)]), [helper(reply("no", 7)).ask]
    )

    def consult(question: str) -> str:
        return agent.reply(question).content

    result = desk(consult).answer("Hi")
    (call,) = result.inner_calls
    assert (call.qualname, tokens(call), tokens(result)) == ("bob.reply", 67, 87)


def test_failed_inner_calls_count() -> None:
    class Counter(Protocol):
        @user_message("{{question}}")
        def count(self, question: str) -> int:
            """Count."""
            ...

    counter = create(Counter, ScriptedChatModel([reply("many", 100)]), retry=None)
    result = desk(counter.count).answer("Hi")
    (call,) = result.inner_calls
    assert (tokens(result), type(call.error).__name__) == (120, "ServiceOutputError")


def test_a_failed_outer_call_has_its_inner_calls() -> None:
    inner = helper(reply("yes", 100))
    model = ScriptedChatModel([calls("ask"), ModelServerError("broken")])
    with pytest.raises(ModelServerError) as caught:
        create(Desk, model, tools=[inner.ask]).answer("Hi")
    assert (caught.value.usage, len(caught.value.inner_calls)) == (Usage(110, 0), 1)


# --- A with block -------------------------------------------------------------------------------------------


def test_a_with_block_has_the_calls_of_plain_python() -> None:
    inner = helper(reply("one", 100), reply("two", 200))
    prices = {"fake": Price(1_000_000, 0)}
    with SharedBudget(keep_calls=True, prices=prices) as spent:
        inner.ask("1")
        desk(inner.ask).answer("Hi")
    assert [(call.qualname, tokens(call)) for call in spent.calls] == [
        ("Helper.ask", 100),
        ("Desk.answer", 220),
    ]
    assert [call.qualname for call in spent.calls[1].inner_calls] == ["Helper.ask"]
    assert (spent.usage, spent.cost) == (Usage(320, 0), 320.0)
    assert sum(call.cost or 0 for call in spent.calls) == spent.cost


def test_a_with_block_inside_a_tool_has_the_calls_of_the_tool() -> None:
    inner = helper(reply("one", 100))
    blocks = []

    def consult(question: str) -> str:
        with SharedBudget(keep_calls=True) as spent:
            blocks.append(spent)
            return inner.ask(question)

    result = desk(consult).answer("Hi")
    assert blocks[0].calls == result.inner_calls


def test_a_with_block_keeps_no_calls_unless_it_is_asked_to() -> None:
    with SharedBudget() as spent:
        helper(reply("yes")).ask("Hi")
    with pytest.raises(RuntimeError, match=r"create it with SharedBudget\(keep_calls=True\)"):
        _ = spent.calls


def test_estimated_tokens_are_in_the_calls_of_a_with_block() -> None:
    model = ScriptedChatModel([ChatReply(AiMessage("x" * 40), FinishReason.STOP, None, "fake")])
    with SharedBudget(tokens=1000, keep_calls=True) as spent:
        create(Helper, model).ask("y" * 40)
    assert spent.calls[0].usage == spent.usage
    assert spent.usage.total_tokens > 0


# --- Budgets ------------------------------------------------------------------------------------------------


def test_the_tokens_of_a_call_limit_its_inner_calls() -> None:
    inner = ScriptedChatModel([calls("noop", tokens=60)] * 10)

    def noop(question: str) -> str:
        """Do nothing."""
        return question

    service = create(Helper, inner, tools=[noop])
    with pytest.raises(BudgetExceededError) as caught:
        desk(service.ask, budget=Budget(tokens=100)).answer("Hi")
    assert str(caught.value) == "budget exceeded: 130 of 100 tokens used; raise Budget(tokens=…)"
    assert str(caught.value.__cause__) == (
        "Desk.answer: budget exceeded: 130 of 100 tokens used; raise Budget(tokens=…)"
    )
    assert (len(inner.requests), caught.value.usage) == (2, Usage(130, 0))


def test_the_money_of_a_call_limits_its_inner_calls() -> None:
    inner = helper(*[reply("yes", 100)] * 5)

    def ask_often(question: str) -> str:
        return " ".join(inner.ask(question) for _ in range(5))

    budget = Budget(
        money=150, prices={"fake": Price(1_000_000, 0), "desk": Price(0, 0), "scripted": Price(0, 0)}
    )
    with pytest.raises(BudgetExceededError) as caught:
        desk(ask_often, budget=budget).answer("Hi")
    assert str(caught.value) == "budget exceeded: 210 of 150 spent; raise Budget(money=…)"


def test_a_limit_of_money_needs_the_prices_of_inner_models() -> None:
    inner = create(Helper, ScriptedChatModel([reply("yes")], name="unknown"))
    budget = Budget(money=150, prices={"scripted": Price(1, 1)})
    with pytest.raises(DefinitionError) as caught:
        desk(inner.ask, budget=budget).answer("Hi")
    assert str(caught.value) == (
        "Desk.answer: the budget limits money, and a tool calls Helper.ask, whose model unknown has no "
        "price; add it to the prices"
    )


def test_the_requests_of_a_call_include_those_of_inner_calls() -> None:
    inner = helper(*[reply("yes")] * 5)

    def ask_often(question: str) -> str:
        return " ".join(inner.ask(question) for _ in range(5))

    with pytest.raises(BudgetExceededError) as caught:
        desk(ask_often, budget=Budget(requests=3)).answer("Hi")
    assert str(caught.value) == "budget exceeded: 3 of 3 requests sent; raise Budget(requests=…)"


def test_attempts_of_inner_calls_do_not_count_for_the_outer_call() -> None:
    inner = helper(*[reply("yes")] * 5)

    def ask_often(question: str) -> str:
        return " ".join(inner.ask(question) for _ in range(5))

    assert desk(ask_often, budget=Budget(max_attempts=1)).answer("Hi").value == "done"


class SlowModel(ScriptedChatModel):
    def complete(self, request: ChatRequest) -> ChatReply:
        time.sleep(0.05)
        return super().complete(request)


def test_the_seconds_of_a_call_limit_its_inner_calls() -> None:
    slow = SlowModel([reply("yes")] * 100)
    inner = create(Helper, slow)

    def ask_often(question: str) -> str:
        return " ".join(inner.ask(question) for _ in range(100))

    with pytest.raises(BudgetExceededError) as caught:
        desk(ask_often, budget=Budget(seconds=0.3)).answer("Hi")
    assert caught.value.limit == "seconds"
    assert len(slow.requests) < 10


def test_the_seconds_of_an_async_call_interrupt_its_inner_calls() -> None:
    class Hanging(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(60)
            raise AssertionError

    inner = create(Helper, Hanging([]))
    started_at = time.monotonic()
    with pytest.raises(BudgetExceededError):
        asyncio.run(async_desk(inner.aask, budget=Budget(seconds=0.2)).answer("Hi"))
    assert time.monotonic() - started_at < 5


def test_a_budget_of_the_inner_call_alone_does_not_end_the_outer_call() -> None:
    model = ScriptedChatModel([calls("noop", tokens=60)] * 10)

    def noop(question: str) -> str:
        """Do nothing."""
        return question

    inner = create(Helper, model, tools=[noop], budget=Budget(tokens=50))
    service = desk(inner.ask)
    result = service.answer("Hi")
    assert result.value == "done"
    assert result.tool_runs[0].text == "The tool ask failed: it reached a limit of its own."


def test_a_tool_that_took_too_long_sends_no_further_requests() -> None:
    slow = SlowModel([reply("yes")] * 100)
    inner = create(Helper, slow)
    errors: list[Exception] = []
    ended = threading.Event()

    def ask_often(question: str) -> str:
        try:
            return " ".join(inner.ask(question) for _ in range(100))
        except BudgetExceededError as error:
            errors.append(error)
            raise
        finally:
            ended.set()

    result = desk(ask_often, tool_limits=ToolLimits(timeout=0.12)).answer("Hi")
    assert result.tool_runs[0].text == "The tool ask_often did not finish in time."
    assert ended.wait(5)
    assert str(errors[0]) == "Desk.answer: the tool took too long, so the call no longer waits for it"
    assert len(slow.requests) < 10


# --- Events -------------------------------------------------------------------------------------------------


def test_listeners_hear_inner_calls_of_all_levels_with_their_parents() -> None:
    deep = helper(reply("deep"))
    middle = create(Helper, ScriptedChatModel([calls("ask"), reply("mid")]), tools=[deep.ask])

    def consult(question: str) -> str:
        return middle.ask(question)

    own: list[Any] = []
    heard: list[Any] = []
    desk(consult, listeners=[own.append, InnerCalls(heard.append)]).answer("Hi")
    (root,) = [event.invocation for event in own if isinstance(event, CallStarted)]
    first, second = [event.invocation for event in heard if isinstance(event, CallStarted)]
    assert (root.parent, root.parent_id) == (None, None)
    assert (first.parent_id, second.parent_id) == (root.id, first.id)
    assert second.parent is not None
    assert second.parent.plan.qualname == "Helper.ask"
    assert {event.invocation.id for event in own} == {root.id}
    assert len([event for event in heard if isinstance(event, CallCompleted)]) == 2


def test_listeners_of_a_with_block_hear_each_event_of_all_calls_once() -> None:
    heard: list[Any] = []
    inner = helper(reply("yes"), reply("no"))
    agent = ReActAgent("Friday", "Be brief.", ScriptedChatModel([calls("ask"), reply("done")]), [inner.ask])
    with SharedBudget(), SharedBudget(listeners=[heard.append]):
        agent.reply("Hi")
        inner.ask("Really?")
    inner_calls = [event.invocation for event in heard if isinstance(event, CallStarted)]
    assert [call.qualname for call in inner_calls] == ["Friday.reply", "Helper.ask", "Helper.ask"]
    assert [call.parent_id for call in inner_calls] == [None, inner_calls[0].id, None]
    assert len({id(event) for event in heard}) == len(heard)
    assert [type(event).__name__ for event in heard if event.invocation is inner_calls[1]] == [
        "CallStarted",
        "AttemptStarted",
        "ReplyReceived",
        "CallCompleted",
    ]


def test_an_inner_call_knows_the_tool_call_that_makes_it() -> None:
    heard: list[Any] = []
    inner = helper(reply("yes"))
    with SharedBudget(listeners=[heard.append]):
        desk(inner.ask).answer("Hi")
    outer_call, inner_call = [event.invocation for event in heard if isinstance(event, CallStarted)]
    assert outer_call.parent_tool_call is None
    assert inner_call.parent_tool_call == ToolCall("c0", "ask", '{"question": "Why?"}')


def test_the_events_of_a_side_question_in_an_inner_call_are_heard_once() -> None:
    question = SideQuestion(Helper, "ask", ScriptedChatModel([reply("what")]))

    def ask_first(invocation: Any, proceed: Any) -> Any:
        yield from question.ask(invocation, {"question": "What?"})
        return (yield from proceed(invocation))

    heard: list[Any] = []
    inner = helper(reply("yes"), interceptors=[ask_first])
    desk(inner.ask, listeners=[InnerCalls(heard.append)]).answer("Hi")
    assert [type(event).__name__ for event in heard] == [
        "CallStarted",
        "AttemptStarted",
        "ReplyReceived",
        "AttemptStarted",
        "ReplyReceived",
        "CallCompleted",
    ]


def test_inner_calls_are_heard_by_a_function_that_is_not_async() -> None:
    async def listen(event: object) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        SharedBudget(listeners=[listen])  # type: ignore[list-item]
    assert str(caught.value) == "SharedBudget: listen is async; pass a function that is not"
    with pytest.raises(DefinitionError) as caught:
        InnerCalls(listen)  # type: ignore[arg-type]
    assert str(caught.value) == "InnerCalls: listen is async; pass a function that is not"


# --- Errors -------------------------------------------------------------------------------------------------


def wrong_definition(question: str) -> str:
    return create(Helper, ScriptedChatModel([]), tools=[5]).ask(question)


@pytest.mark.parametrize(
    ("make_tool", "error_class"),
    [
        (lambda: helper(AuthenticationError("no such key", status=401)).ask, AuthenticationError),
        (lambda: wrong_definition, DefinitionError),
    ],
)
def test_a_wrong_key_or_definition_ends_the_outer_call(
    make_tool: Callable[[], Any], error_class: type[AiServiceError], caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedChatModel([calls(make_tool().__name__), reply("done")])
    with pytest.raises(error_class) as caught:
        create(Desk, model, tools=[make_tool()]).answer("Hi")
    assert len(model.requests) == 1
    assert caught.value.attempts[0].reply is not None
    assert caplog.records == []


def test_other_errors_of_inner_calls_reach_the_model_without_their_text() -> None:
    inner = helper(ModelServerError("secret", status=500, retryable=True), budget=Budget(max_attempts=1))
    model = ScriptedChatModel([calls("ask"), reply("done")])
    result = create(Desk, model, tools=[inner.ask]).answer("Hi")
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert (result.value, message.text) == ("done", "The tool ask is not available at the moment.")
