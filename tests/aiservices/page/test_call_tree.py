"""Tests of the tree of calls: what it records of a run, and how it shows it as text and as a page."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    ApprovalRequiredError,
    Budget,
    ChatReply,
    ChatRequest,
    InnerCalls,
    ModelServerError,
    Price,
    Result,
    ScriptedChatModel,
    SharedBudget,
    Stream,
    ToolCall,
    ToolErrors,
    Usage,
    create,
    resume,
    system_message,
    tool,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.guardrails import InputGuardrails, Verdict, passed
from aiservices.page import CallTree
from aiservices.page.call_tree import Step
from aiservices.structured_model import SideQuestion

PRICES = {"fake": Price(1_000_000, 2_000_000)}


class Clerk(Protocol):
    @user_message("{{item}}?")
    def count(self, item: str) -> int:
        """Count the pieces of an item."""
        ...


class Desk(Protocol):
    @system_message("Be brief.")
    @user_message("{{text}}")
    def answer(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def stream(self, text: str) -> Stream[str]: ...

    @user_message("{{text}}")
    def texts(self, text: str) -> Iterator[str]: ...


class AsyncDesk(Protocol):
    @user_message("{{text}}")
    async def answer(self, text: str) -> Result[str]: ...

    @user_message("{{text}}")
    def texts(self, text: str) -> AsyncIterator[str]: ...


class RecordedTree(CallTree):
    """A tree that keeps its steps as they are at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, Step] = {}

    def _step_changed(self, step: Step) -> None:
        self.steps[step.id] = step

    def paths(self) -> list[str]:
        """Return the name of each step after those of the steps around it."""
        paths: dict[int | None, str] = {None: ""}
        for step in self.steps.values():
            paths[step.id] = f"{paths[step.parent]}/{step.name}"
        return list(paths.values())[1:]


def reply(text: str, *calls: ToolCall, tokens: int = 10) -> ChatReply:
    return ChatReply(AiMessage(text, calls), usage=Usage(tokens, 1), model="fake")


def count(item: str, call_id: str = "c0", name: str = "count") -> ToolCall:
    return ToolCall(call_id, name, f'{{"item": "{item}"}}')


def scripted(*replies: ChatReply | Exception) -> ScriptedChatModel:
    return ScriptedChatModel(list(replies))


def clerk(*texts: str, **settings: Any) -> Clerk:
    return create(Clerk, scripted(*[reply(text) for text in texts]), **settings)


def without_times(tree: object) -> str:
    return re.sub(r"^ +\d+\.\d{3} s  ", "", re.sub(r"\d+ ms|\d+\.\d\d s\b", "0 ms", str(tree)), flags=re.M)


def test_calls_are_printed_as_a_tree() -> None:
    tree, helper = CallTree(), clerk("several\nor more", '{"value": 12}', budget=Budget(prices=PRICES))
    model = scripted(reply("", count("pears"), tokens=20), reply("Twelve.", tokens=30))
    desk = create(Desk, model, tools=[helper.count], budget=Budget(prices=PRICES))
    with SharedBudget(listeners=[tree]):
        desk.answer("How many?")
    assert without_times(tree).splitlines() == [
        "Desk.answer: 0 ms, 70 + 4 tokens, cost 78.000000",
        "              answer: Twelve.",
        "    request 1 to scripted (text): 0 ms, 20 + 1 tokens, cost 22.000000",
        "                  system: Be brief.",
        "                  user: How many?",
        '                  reply: count({"item": "pears"})',
        "    tool count: 0 ms",
        '                  arguments: {"item": "pears"}',
        "                  result: 12",
        "        Clerk.count: 0 ms, 20 + 2 tokens, cost 24.000000",
        "                      answer: 12",
        "            request 1 to scripted (json_schema): rejected, 0 ms, 10 + 1 tokens, cost 12.000000",
        "                          user: pears?",
        "                          reply: several or more",
        '                          problems: $: expected an integer, found "several or more"',
        "            request 2 to scripted (json_schema): 0 ms, 10 + 1 tokens, cost 12.000000",
        "                          earlier messages: 2",
        f"{'':26}user: That answer cannot be read: - $: expected an in ... "
        'e" Answer again in full and fix these problems.',
        '                          reply: {"value": 12}',
        "    request 2 to scripted (text): 0 ms, 30 + 1 tokens, cost 32.000000",
        "                  earlier messages: 3",
        "                  tool: 12",
        "                  reply: Twelve.",
    ]


def test_calls_are_below_the_tool_that_makes_them_also_at_the_same_time() -> None:
    both_run = threading.Barrier(2)

    def answer(request: ChatRequest) -> ChatReply:
        both_run.wait(10)
        return reply('{"value": 1}')

    tree, helper = RecordedTree(), create(Clerk, ScriptedChatModel(answer))
    model = scripted(reply("", count("pears", "a"), count("plums", "b")), reply("Done."))
    with SharedBudget(listeners=[tree]):
        create(Desk, model, tools=[helper.count]).answer("How many?")
    tools = {step.id: step.texts[0][1] for step in tree.steps.values() if step.kind == "tool"}
    calls = {step.id: step.parent for step in tree.steps.values() if step.name == "Clerk.count"}
    prompts = {step.parent: step.texts[0][1] for step in tree.steps.values() if step.parent in calls}
    assert len(calls) == 2
    for call, parent in calls.items():
        assert parent is not None
        assert tools[parent] == f'{{"item": "{prompts[call].rstrip("?")}"}}'


def test_a_service_can_have_the_tree_as_a_listener() -> None:
    tree, helper = RecordedTree(), clerk('{"value": 1}')
    model = scripted(reply("", count("pears")), reply("One."))
    create(Desk, model, tools=[helper.count], listeners=[tree, InnerCalls(tree)]).answer("How many?")
    assert tree.paths() == [
        "/Desk.answer",
        "/Desk.answer/request 1 to scripted (text)",
        "/Desk.answer/tool count",
        "/Desk.answer/tool count/Clerk.count",
        "/Desk.answer/tool count/Clerk.count/request 1 to scripted (json_schema)",
        "/Desk.answer/request 2 to scripted (text)",
    ]


def test_an_event_that_arrives_twice_counts_once() -> None:
    tree = RecordedTree()
    helper = clerk('{"value": 1}', listeners=[tree])
    model = scripted(reply("", count("pears")), reply("One."))
    with SharedBudget(listeners=[tree]), SharedBudget(listeners=[tree]):
        desk = create(Desk, model, tools=[helper.count], listeners=[tree, InnerCalls(tree)])
        result = desk.answer("How many?")
    assert len(tree.steps) == 6
    assert tree.steps[0].usage == result.usage


def test_plain_python_over_threads_is_recorded() -> None:
    tree, helper = RecordedTree(), clerk(*['{"value": 1}'] * 4)

    def stock(items: list[str]) -> int:
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda item: copy_context().run(helper.count, item), items))

    with SharedBudget(listeners=[tree]) as spent, ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(copy_context().run, helper.count, item) for item in "abcd"]
        assert sum(one.result() for one in counts) == 4
    assert (
        sorted(tree.paths())
        == ["/Clerk.count"] * 4 + ["/Clerk.count/request 1 to scripted (json_schema)"] * 4
    )
    usages = [step.usage for step in tree.steps.values() if step.parent is None]
    assert sum((usage for usage in usages if usage), Usage()) == spent.usage


def test_async_calls_streams_and_agents_are_recorded() -> None:
    tree = RecordedTree()

    async def run() -> None:
        model = scripted(reply("Hello."), reply("", count("pears", name="helper")), reply("A few."))
        desk = create(AsyncDesk, model, tools=[helper])
        await desk.answer("Hi")
        assert "".join([text async for text in desk.texts("How many?")]) == "A few."
        await ReActAgent("Friday", "Be brief.", scripted(reply("Yes."))).areply("Are you there?")

    async def helper(item: str) -> int:
        """Count the pieces of an item."""
        return 3

    desk = create(Desk, scripted(reply("One"), reply("Two words")))
    with SharedBudget(listeners=[tree]):
        asyncio.run(run())
        desk.stream("Stream").result()
        list(desk.texts("Texts"))
    tops = [step for step in tree.steps.values() if step.parent is None]
    assert [(step.name, step.state, step.texts) for step in tops] == [
        ("AsyncDesk.answer", "done", [("answer", "Hello.")]),
        ("AsyncDesk.texts", "done", [("answer", "A few.")]),
        ("Friday.reply", "done", [("answer", "Yes.")]),
        ("Desk.stream", "done", [("answer", "One")]),
        ("Desk.texts", "done", [("answer", "Two words")]),
    ]


def test_a_stream_that_is_closed_early_is_stopped() -> None:
    tree, desk = CallTree(), create(Desk, scripted(reply("One two three")))
    with SharedBudget(listeners=[tree]):
        stream = desk.stream("Count")
    with stream:
        next(iter(stream))
        assert without_times(tree).splitlines()[0] == "Desk.stream: running"
    assert without_times(tree).splitlines() == [
        "Desk.stream: stopped, 0 ms",
        "    request 1 to scripted (text): stopped, 0 ms",
        "                  user: Count",
    ]


def test_a_cancelled_call_is_stopped() -> None:
    class Waiting(ScriptedChatModel):
        async def acomplete(self, request: ChatRequest) -> ChatReply:
            await asyncio.sleep(60)
            raise AssertionError

    async def cancel() -> None:
        await asyncio.wait_for(create(AsyncDesk, Waiting([])).answer("Hi"), 0.05)

    tree = CallTree()
    with SharedBudget(listeners=[tree]), pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert without_times(tree).splitlines() == [
        "AsyncDesk.answer: stopped, 0 ms",
        "              error: CancelledError",
        "    request 1 to scripted (text): stopped, 0 ms",
        "                  user: Hi",
    ]


def test_a_value_that_cannot_be_shown_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    def replace_value(invocation: Any, proceed: Any) -> Any:
        answer = yield from proceed(invocation)
        return replace(answer, value=Broken())

    tree = CallTree()
    with SharedBudget(listeners=[tree]):
        create(Clerk, scripted(reply('{"value": 1}')), interceptors=[replace_value]).count("pears")
    assert without_times(tree).splitlines()[:2] == [
        "Clerk.count: 0 ms, 10 + 1 tokens",
        "              answer: Broken cannot be shown: ValueError('no')",
    ]


def test_failures_are_shown_with_their_reasons() -> None:
    def fail(item: str) -> str:
        """Fail."""
        raise KeyError("secret")

    tree, down = CallTree(), ModelServerError("overloaded", status=503, retryable=True)
    model = scripted(
        down, reply("", count("pears", name="fail"), count("plums", "c1", "none")), ValueError("broken")
    )
    desk = create(Desk, model, tools=[fail], budget=Budget(first_wait=0))
    with SharedBudget(listeners=[tree]), pytest.raises(ValueError, match="broken"):
        desk.answer("Hi")
    assert without_times(tree).splitlines() == [
        "Desk.answer: failed, 0 ms, 10 + 1 tokens",
        "              error: ValueError: broken",
        "    request 1 to scripted (text): failed, 0 ms",
        "                  system: Be brief.",
        "                  user: Hi",
        "                  error: ModelServerError: overloaded",
        "    request 2 to scripted (text): 0 ms, 10 + 1 tokens",
        "                  earlier messages: 2",
        '                  reply: fail({"item": "pears"}) none({"item": "plums"})',
        "    tool fail: failed, 0 ms",
        '                  arguments: {"item": "pears"}',
        "                  result: The tool fail failed.",
        "                  error: KeyError: 'secret'",
        "    tool none: failed, 0 ms",
        '                  arguments: {"item": "plums"}',
        "                  result: There is no tool none. The tools are: fail.",
        "                  error: ToolError: There is no tool none. The tools are: fail.",
        "    request 3 to scripted (text): stopped, 0 ms",
        "                  earlier messages: 3",
        "                  tool: The tool fail failed.",
        "                  tool: There is no tool none. The tools are: fail.",
    ]


def test_an_answer_that_is_rejected_at_last_is_shown_with_its_problems() -> None:
    tree = CallTree()
    with SharedBudget(listeners=[tree]), pytest.raises(AiServiceError):
        clerk("many", budget=Budget(max_attempts=1)).count("pears")
    assert without_times(tree).splitlines() == [
        "Clerk.count: failed, 0 ms, 10 + 1 tokens",
        '              error: $: expected an integer, found "many"',
        "    request 1 to scripted (json_schema): rejected, 0 ms, 10 + 1 tokens",
        "                  user: pears?",
        "                  reply: many",
        '                  problems: $: expected an integer, found "many"',
    ]


def test_a_suspended_and_a_resumed_call_are_two_calls() -> None:
    def order(item: str) -> str:
        """Order an item."""
        return f"{item} ordered"

    needs_approval = tool(needs_approval=True)(order)
    inner_model = scripted(reply("", count("pears", name="order")), reply('{"value": 1}'))
    helper = create(Clerk, inner_model, tools=[needs_approval])
    desk = create(Desk, scripted(reply("", count("pears")), reply("Done.")), tools=[helper.count])
    tree = CallTree()
    with SharedBudget(listeners=[tree]):
        with pytest.raises(ApprovalRequiredError) as caught:
            desk.answer("Order")
        resume(desk.answer, caught.value.state, True)
    lines = [line for line in without_times(tree).splitlines() if not line.startswith(" " * 14)]
    assert lines == [
        "Desk.answer: waiting, 0 ms, 20 + 2 tokens",
        "    request 1 to scripted (text): 0 ms, 10 + 1 tokens",
        "    tool count: waiting, 0 ms",
        "        Clerk.count: waiting, 0 ms, 10 + 1 tokens",
        "            request 1 to scripted (json_schema): 0 ms, 10 + 1 tokens",
        "Desk.answer, resumed: 0 ms, 20 + 2 tokens",
        "    tool count: 0 ms",
        "        Clerk.count, resumed: 0 ms, 10 + 1 tokens",
        "            tool order: 0 ms",
        "            request 2 to scripted (json_schema): 0 ms, 10 + 1 tokens",
        "    request 2 to scripted (text): 0 ms, 10 + 1 tokens",
    ]
    assert '              waits for: order({"item": "pears"})' in without_times(tree).splitlines()


def test_a_tool_that_was_undone_says_so() -> None:
    def reserve(item: str) -> str:
        """Reserve an item."""
        return "reserved"

    undoable = tool(compensate=lambda item: None)(reserve)
    tree, model = CallTree(), scripted(reply("", count("pears", name="reserve")), ValueError("broken"))
    with SharedBudget(listeners=[tree]), pytest.raises(ValueError, match="broken"):
        create(Desk, model, tools=[undoable], tool_errors=ToolErrors(compensate=True)).answer("Hi")
    assert "                  undone:" in without_times(tree).splitlines()


def test_the_requests_of_a_side_question_are_in_the_call_that_asks_it() -> None:
    question = SideQuestion(Clerk, "count", scripted(reply('{"value": 7}')))

    def ask_first(invocation: Any, proceed: Any) -> Any:
        yield from question.ask(invocation, {"item": "pears"})
        return (yield from proceed(invocation))

    tree = RecordedTree()
    with SharedBudget(listeners=[tree]):
        result = create(Desk, scripted(reply("Yes.")), interceptors=[ask_first]).answer("Hi")
    assert tree.paths() == [
        "/Desk.answer",
        "/Desk.answer/request 1 to scripted (json_schema)",
        "/Desk.answer/request 1 to scripted (text)",
    ]
    assert tree.steps[0].usage == result.usage == Usage(20, 2)


def test_other_events_are_steps_of_their_call() -> None:
    def polite(subject: Any, invocation: Any) -> Verdict:
        return passed()

    tree = RecordedTree()
    with SharedBudget(listeners=[tree]):
        create(Desk, scripted(reply("Yes.")), interceptors=[InputGuardrails(polite)]).answer("Hi")
    assert tree.paths()[1] == "/Desk.answer/GuardrailRan"


def random_service(chance: random.Random, depth: int) -> Any:
    """Return a service that calls others with tools, some of which fail or give wrong answers first."""
    inner = [random_service(chance, depth - 1) for _ in range(chance.randint(0, 3) if depth else 0)]
    tools = [tool(name=f"t{number}")(one.count) for number, one in enumerate(inner)]
    calls = tuple(count("x", f"c{number}", f"t{number}") for number in range(len(tools)))
    first = [reply("", *calls, tokens=chance.randint(1, 99))] if calls else []
    wrong = [reply("none", tokens=chance.randint(1, 99))] * chance.randint(0, 3)
    model = scripted(*first, *wrong, reply('{"value": 1}', tokens=chance.randint(1, 99)))
    return create(Clerk, model, tools=tools)


@pytest.mark.parametrize("seed", range(20))
def test_tokens_and_costs_of_random_trees_are_those_of_the_budget(seed: int) -> None:
    chance, tree = random.Random(seed), RecordedTree()
    with SharedBudget(listeners=[tree], prices=PRICES, keep_calls=True) as spent:
        try:
            random_service(chance, 3).count("x")
        except AiServiceError:
            pass
    (call,) = spent.calls
    root = tree.steps[0]
    assert (root.usage, root.cost) == (call.usage, pytest.approx(call.cost))
    requests = [step for step in tree.steps.values() if step.kind == "request"]
    assert sum((step.usage for step in requests if step.usage), Usage()) == spent.usage
    assert not [step for step in tree.steps.values() if step.state == "running"]


# --- The page ---

LONG = "<script>document.title = 'changed'</script> & <b>bold</b>\n" * 40


def on_page(browser: Any, file: Path, work: Callable[[Any], Any], **settings: Any) -> Any:
    """Run a function with a page of the browser that shows a file. It must log nothing and load nothing."""

    def run() -> Any:
        page = browser.chromium.new_context(**settings).new_page()
        logged: list[str] = []
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("console", lambda message: logged.append(message.text))
        page.on("request", lambda request: logged.append(request.url))
        page.goto(file.as_uri())
        outcome = work(page)
        page.context.close()
        assert logged == [file.as_uri()]
        return outcome

    return browser.do(run)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tree, helper = CallTree(), clerk(LONG, '{"value": 12}')
    model = scripted(reply("", count("</script><script>alert(1)</script>".replace('"', ""))), reply(LONG))
    with SharedBudget(listeners=[tree]):
        create(Desk, model, tools=[helper.count]).answer("<!-- <script> ]]> \u2028 \ud800")
    return tree.write_html(tmp_path / "run.html")


def test_a_page_shows_the_tree(browser: Any, file: Path) -> None:
    def look(page: Any) -> Any:
        names = page.locator(".step .name").all_inner_texts()
        return names, page.title(), page.locator(".rejected .facts-line").first.inner_text()

    names, title, facts = on_page(browser, file, look)
    assert names == [
        "Desk.answer",
        "request 1 to scripted (text)",
        "tool count",
        "Clerk.count",
        "request 1 to scripted (json_schema)",
        "request 2 to scripted (json_schema)",
        "request 2 to scripted (text)",
    ]
    assert title == "Desk.answer"
    assert re.fullmatch(r"rejected · \d+ ms · 10 \+ 1 tokens", facts)


def test_a_page_shows_texts_of_models_as_text_and_long_ones_when_they_are_opened(
    browser: Any, file: Path
) -> None:
    def look(page: Any) -> Any:
        answer = page.locator(".step.call > details > .texts > details").first
        hidden = answer.locator("pre").is_visible()
        answer.locator("summary").click()
        return hidden, answer.locator("pre").inner_text(), page.locator("main script, main b").count()

    assert on_page(browser, file, look) == (False, LONG, 0)


def test_a_page_shows_the_text_of_the_tree_without_javascript(browser: Any, file: Path) -> None:
    text = on_page(
        browser, file, lambda page: page.locator("main pre").inner_text(), java_script_enabled=False
    )
    assert text.splitlines()[0].endswith("tokens")
    assert "<script>document.title" in text


@pytest.mark.parametrize("width", [390, 1200])
def test_a_page_fits_its_screen(browser: Any, file: Path, width: int) -> None:
    def look(page: Any) -> Any:
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        return page.evaluate("document.documentElement.scrollWidth")

    assert on_page(browser, file, look, viewport={"width": width, "height": 800}) == width
