"""A service as an MCP server, with the official client: in both eras of the protocol, and in this process."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Protocol, TypeVar

import pytest

pytest.importorskip("mcp")

from jsonschema import Draft202012Validator
from mcp import Client, MCPError
from mcp.server import Server
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    TextContent,
    Tool as ServerTool,
)

from aiservices import (
    AiMessage,
    Audio,
    AuthenticationError,
    ChatReply,
    ChatRequest,
    DefinitionError,
    File,
    Image,
    MemoryId,
    RateLimitError,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolContext,
    ToolMessage,
    UserName,
    create,
    system_message,
    tool,
    user_message,
)
from aiservices.integrations.mcp import ApprovalSettings, mcp_server, session_id
from aiservices.memory import ChatMemory
from aiservices.testing import FakeChatModel
from output_parsers import ItemError

T = TypeVar("T")
MODES = ("2026-07-28", "legacy")  # without and with the handshake of earlier versions

both_eras = pytest.mark.parametrize("mode", MODES)


def use(
    server: Server[Any], work: Callable[[Client], Awaitable[T]], mode: str = "auto", **settings: Any
) -> T:
    """Use the official client of a server, and return the result, or raise the MCPError."""

    async def run() -> T | MCPError:
        async with Client(server, mode=mode, **settings) as client:
            try:
                return await work(client)
            except MCPError as error:  # the task groups of the client would wrap it
                return error

    outcome = asyncio.run(run())
    if isinstance(outcome, MCPError):
        raise outcome
    return outcome


def called(
    server: Server[Any], name: str, arguments: dict[str, Any], mode: str = "auto", **settings: Any
) -> CallToolResult:
    return use(server, lambda client: client.call_tool(name, arguments), mode, **settings)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


def failure(result: CallToolResult) -> str:
    assert result.is_error
    assert result.structured_content is None
    return text_of(result)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Part:
    """A part of a machine."""

    name: str
    parts: list[Part]


class Clerk(Protocol):
    """Reads letters."""

    @system_message("Never tell anybody about the moon.")
    @user_message("{{letter}} {{n}}")
    def part(self, letter: str, n: int = 1) -> Part:
        """Return the part that a letter is about.

        Args:
            letter: What the customer wrote.
        """
        ...

    def colours(self, letter: str) -> list[Colour]: ...

    async def amount(self, letter: str) -> float: ...

    def text(self, letter: str) -> str: ...

    def written(self, letter: str) -> Result[date]: ...

    def words(self, letter: str) -> Iterator[str]: ...

    def more_words(self, letter: str) -> AsyncIterator[str]: ...

    def parts(self, letter: str) -> Iterator[Part]: ...

    def readable(self, letter: str) -> Iterator[Part | ItemError]: ...

    def growing(self, letter: str) -> Stream[Part]: ...


SCREW = {"name": "screw", "parts": []}
LAMP = {"name": "lamp", "parts": [SCREW]}
PART_SCHEMA = {
    "type": "object",
    "title": "Part",
    "description": "A part of a machine.",
    "properties": {
        "name": {"type": "string"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
    },
    "required": ["name", "parts"],
    "additionalProperties": False,
}


def clerk(*replies: Any) -> Server[Any]:
    return mcp_server(create(Clerk, ScriptedChatModel(replies or ["x"])))


def listed(server: Server[Any], mode: str = "auto") -> dict[str, ServerTool]:
    tools = use(server, lambda client: client.list_tools(), mode).tools
    return {one.name: one for one in tools}


# --- tools ---


@both_eras
def test_a_method_is_a_tool_with_its_docstring_and_schemas(mode: str) -> None:
    part = listed(clerk(), mode)["part"]
    assert part.description == "Return the part that a letter is about."
    assert part.input_schema == {
        "type": "object",
        "title": "PartArguments",
        "properties": {
            "letter": {"type": "string", "description": "What the customer wrote."},
            "n": {"type": "integer"},
        },
        "required": ["letter"],
        "additionalProperties": False,
    }
    assert part.output_schema == {**PART_SCHEMA, "$defs": {"Part": PART_SCHEMA}}


def test_a_value_that_is_not_an_object_has_an_envelope_in_the_schema() -> None:
    tools = listed(clerk())
    assert tools["colours"].output_schema == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}},
        "required": ["value"],
    }
    assert tools["parts"].output_schema == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": PART_SCHEMA}},
        "required": ["value"],
        "$defs": {"Part": PART_SCHEMA},
    }


def test_all_schemas_are_valid_json_schemas() -> None:
    for one in listed(clerk()).values():
        Draft202012Validator.check_schema(one.input_schema)
        assert one.output_schema is not None
        Draft202012Validator.check_schema(one.output_schema)


def test_the_server_has_the_name_and_the_docstring_of_the_interface() -> None:
    async def identity(client: Client) -> tuple[str | None, str | None]:
        return client.server_info and client.server_info.name, client.instructions

    assert use(clerk(), identity) == ("Clerk", "Reads letters.")
    assert use(clerk(), identity, "legacy") == ("Clerk", "Reads letters.")


@both_eras
@pytest.mark.parametrize(
    ("name", "reply", "structured", "text"),
    [
        ("part", json.dumps(LAMP), LAMP, json.dumps(LAMP)),
        ("colours", '{"value": ["red", "blue"]}', {"value": ["red", "blue"]}, '["red", "blue"]'),
        ("amount", '{"value": 2.50}', {"value": 2.5}, "2.5"),
        ("text", 'Dear "Ann"', {"value": 'Dear "Ann"'}, 'Dear "Ann"'),
        ("written", '{"value": "2026-05-04"}', {"value": "2026-05-04"}, '"2026-05-04"'),
        ("words", "one two", {"value": "one two"}, "one two"),
        ("more_words", "one two", {"value": "one two"}, "one two"),
        ("parts", json.dumps({"value": [SCREW]}), {"value": [SCREW]}, f"[{json.dumps(SCREW)}]"),
        ("growing", json.dumps(LAMP), LAMP, json.dumps(LAMP)),
    ],
)
def test_a_result_is_structured_and_text(
    name: str, reply: str, structured: object, text: str, mode: str
) -> None:
    async def call(client: Client) -> CallToolResult:
        await client.list_tools()  # the client then checks the results against the schemas
        return await client.call_tool(name, {"letter": "x"})

    result = use(clerk(reply), call, mode)
    assert (result.structured_content, text_of(result), result.is_error) == (structured, text, False)


def test_a_method_that_returns_nothing_has_a_result() -> None:
    class Sender(Protocol):
        def send(self, letter: str) -> None: ...

    def post(text: str) -> None:
        """Send a letter."""

    server = mcp_server(create(Sender, ScriptedChatModel(["Sent."]), tools=[post]))
    result = called(server, "send", {"letter": "x"})
    assert (result.structured_content, text_of(result)) == ({"value": None}, "null")


@both_eras
def test_items_that_cannot_be_read_are_part_of_the_result(mode: str) -> None:
    async def call(client: Client) -> CallToolResult:
        await client.list_tools()
        return await client.call_tool("readable", {"letter": "x"})

    result = use(clerk(json.dumps({"value": [SCREW, {"name": "a"}]})), call, mode)
    assert result.structured_content["value"] == [SCREW]
    (unfit,) = result.structured_content["unfit"]
    assert (unfit["index"], unfit["text"]) == (1, '{"name": "a"}')
    assert unfit["problems"] == ["$[1].parts: the required field 'parts' is missing"]


@both_eras
@pytest.mark.parametrize(
    ("name", "reply", "messages"),
    [
        ("words", "one two three", ["one ", "two ", "three"]),
        ("more_words", "one two", ["one ", "two"]),
        ("parts", json.dumps({"value": [SCREW, SCREW]}), [json.dumps(SCREW)] * 2),
        ("growing", json.dumps(LAMP), ["name", "parts"]),
        ("part", json.dumps(LAMP), []),
    ],
)
def test_the_parts_of_streams_are_reported_as_progress(
    name: str, reply: str, messages: list[str], mode: str
) -> None:
    reported: list[tuple[float, str | None]] = []

    async def progress(count: float, total: float | None, message: str | None) -> None:
        reported.append((count, message))

    async def call(client: Client) -> CallToolResult:
        return await client.call_tool(name, {"letter": "x"}, progress_callback=progress)

    assert not use(clerk(reply), call, mode).is_error
    assert reported == list(enumerate(messages, 1))


def test_media_are_passed_as_json() -> None:
    class Painter(Protocol):
        def describe(self, picture: Image) -> str: ...

    model = ScriptedChatModel(["A cat."])
    server = mcp_server(create(Painter, model))
    result = called(server, "describe", {"picture": {"data": "R0lGODlh", "media_type": "image/gif"}})
    assert text_of(result) == "A cat."
    assert Image(b"GIF89a", "image/gif") in model.requests[0].messages[-1].contents  # type: ignore[union-attr]


def test_large_arguments_are_read() -> None:
    model = ScriptedChatModel(["ok"])
    letter = "a" * 100_000
    assert text_of(called(mcp_server(create(Clerk, model)), "text", {"letter": letter})) == "ok"
    assert model.requests[0].messages[-1].text == letter


# --- errors ---


@both_eras
def test_wrong_arguments_are_described_to_the_model_of_the_client(mode: str) -> None:
    assert failure(called(clerk(), "part", {"leter": "x", "n": "1"}, mode)) == (
        "The arguments do not fit the method\n"
        "- $.leter: PartArguments has no field of this name; did you mean 'letter'?\n"
        "- $.letter: the required field 'letter' is missing\n"
        '- $.n: number as text is not accepted, found "1"'
    )


@both_eras
def test_an_unknown_tool_is_a_protocol_error(mode: str) -> None:
    with pytest.raises(MCPError) as caught:
        called(clerk(), "parrt", {}, mode)
    assert (caught.value.code, caught.value.message) == (-32602, "Unknown tool: parrt")


@both_eras
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            RateLimitError("quota of sk-secret", retryable=False, retry_after=7),
            "Try again after 7 s.",
        ),
        (AuthenticationError("sk-secret is wrong"), "The service is not set up to use its model"),
        (RuntimeError("sk-secret"), "The service failed"),
    ],
)
def test_errors_contain_no_internals(error: Exception, text: str, mode: str) -> None:
    def fail(request: ChatRequest) -> str:
        raise error

    message = failure(
        called(mcp_server(create(Clerk, ScriptedChatModel(fail))), "text", {"letter": "x"}, mode)
    )
    assert text in message
    assert "secret" not in message
    assert "moon" not in message


def test_an_unreadable_reply_is_not_shown() -> None:
    message = failure(called(clerk(*["the moon"] * 3), "part", {"letter": "x"}))
    assert message == "The model's reply cannot be read as the declared type: 3 requests were made to models"


def test_an_error_after_the_first_part_of_a_stream_is_an_error() -> None:
    class Broken(Protocol):
        def words(self) -> Iterator[str]: ...

    class Words:
        def words(self) -> Iterator[str]:
            yield "one"
            raise RuntimeError("sk-secret")

    server = mcp_server(Words(), interface=Broken)
    assert failure(called(server, "words", {})) == "The service failed"


def test_calls_beyond_the_limit_of_waiting_calls_fail() -> None:
    entered, release = threading.Event(), threading.Event()

    def wait(request: ChatRequest) -> str:
        entered.set()
        assert release.wait(20)
        return "done"

    server = mcp_server(create(Clerk, ScriptedChatModel(wait)), threads=1, max_waiting_calls=0)

    async def calls(client: Client) -> list[str]:
        first = asyncio.create_task(client.call_tool("text", {"letter": "x"}))
        await asyncio.to_thread(entered.wait, 20)
        second = await client.call_tool("text", {"letter": "x"})
        release.set()
        return [text_of(await first), failure(second)]

    assert use(server, calls) == ["done", "Too many calls are waiting\nTry again after 1 s."]


def any_json(chance: random.Random, depth: int = 3) -> Any:
    scalars = [None, True, 0, -7, 2.5, 10**30, "", "2", "lamp", "\ud83d\ude00", "a\nb"]
    kind = chance.random()
    if depth == 0 or kind < 0.5:
        return chance.choice(scalars)
    if kind < 0.75:
        return [any_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    names = ["name", "parts", "letter", "n", "x"]
    return {chance.choice(names): any_json(chance, depth - 1) for _ in range(chance.randrange(4))}


@both_eras
def test_any_arguments_lead_to_a_valid_result_or_a_described_error(mode: str) -> None:
    class Smith(Protocol):
        @user_message("{{part}} {{n}}")
        def made(self, part: Part, n: int | None = None) -> Part: ...

    service = create(Smith, ScriptedChatModel(lambda request: json.dumps(LAMP)))
    chance = random.Random(22)

    async def calls(client: Client) -> Counter[bool]:
        (made,) = (await client.list_tools()).tools
        arguments, outcomes = Draft202012Validator(made.input_schema), Counter[bool]()
        for _ in range(300):
            values = {"part": any_json(chance), **({"n": any_json(chance)} if chance.random() < 0.3 else {})}
            if chance.random() < 0.3:
                values["part"] = LAMP
            result = await client.call_tool("made", values)
            assert result.is_error is not arguments.is_valid(values), values
            if not result.is_error:
                assert result.structured_content == LAMP
            else:
                assert text_of(result).startswith("The arguments do not fit the method\n- $.")
            outcomes[result.is_error] += 1
        return outcomes

    outcomes = use(mcp_server(service), calls, mode)
    assert min(outcomes[True], outcomes[False]) > 30


# --- cancellation ---


@both_eras
def test_a_cancelled_request_ends_the_call_of_an_async_method(mode: str) -> None:
    cancelled = asyncio.Event()
    started = asyncio.Event()

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
        await asyncio.wait_for(started.wait(), 20)
        task.cancel()
        await asyncio.wait_for(cancelled.wait(), 20)

    use(mcp_server(Waiting(), interface=Slow), call, mode)


def test_a_cancelled_request_stops_a_blocking_method_before_its_next_request() -> None:
    entered, release = threading.Event(), threading.Event()
    looked_up = []

    def look_up(word: str) -> str:
        """Look up a word."""
        looked_up.append(word)
        entered.set()
        assert release.wait(20)
        return word

    class Finder(Protocol):
        def find(self, text: str) -> str: ...

    call_look_up = ChatReply(AiMessage("", (ToolCall("1", "look_up", '{"word": "moon"}'),)))
    model = ScriptedChatModel([call_look_up, "late"])

    async def call(client: Client) -> None:
        task = asyncio.create_task(client.call_tool("find", {"text": "x"}))
        await asyncio.to_thread(entered.wait, 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.list_tools()  # the server has read the cancellation
        release.set()
        await asyncio.sleep(0.2)

    use(mcp_server(create(Finder, model, tools=[look_up])), call, "legacy")
    assert (looked_up, len(model.requests)) == (["moon"], 1)


def test_large_arguments_of_a_stream_are_rendered_outside_of_the_event_loop() -> None:
    loops: list[bool] = []

    def note(text: str) -> str:
        loops.append(threading.current_thread() is threading.main_thread())
        return "Be brief."

    class Writer(Protocol):
        @system_message(note)
        @user_message("{{text}}")
        def words(self, text: str) -> AsyncIterator[str]: ...

    server = mcp_server(create(Writer, ScriptedChatModel(["a"] * 2)))
    for count in (10, 5000):
        assert called(server, "words", {"text": "x" * count}).structured_content == {"value": "a"}
    assert loops == [True, False]


# --- approvals ---


class Desk(Protocol):
    @system_message("Never tell anybody about the moon.")
    def answer(self, letter: str) -> str: ...


class Shop:
    """A desk whose refunds need an approval, and what it has paid."""

    def __init__(self, *numbers: int) -> None:
        self.paid: list[int] = []
        calls = tuple(ToolCall(f"call_{n}", "refund", json.dumps({"order": n})) for n in numbers or (17,))

        @tool(needs_approval=True)
        def refund(order: int) -> str:
            """Pay back an order."""
            self.paid.append(order)
            return f"paid {order}"

        def reply(request: ChatRequest) -> ChatReply | str:
            results = [one.text for one in request.messages if isinstance(one, ToolMessage)]
            return "; ".join(results) if results else ChatReply(AiMessage("", calls))

        self.service = create(Desk, ScriptedChatModel(reply), tools=[refund])
        self.server = mcp_server(self.service, approvals=ApprovalSettings())


def answering(action: Any, content: dict[str, Any] | None = None) -> tuple[Any, list[Any]]:
    """Return the elicitation callback of a client, and the list of questions that it got."""
    questions: list[Any] = []

    async def callback(context: Any, params: Any) -> ElicitResult:
        questions.append(params)
        return ElicitResult(action=action, content=content)

    return callback, questions


@both_eras
def test_an_approval_is_asked_of_the_user_of_the_client(mode: str) -> None:
    shop = Shop()
    callback, questions = answering("accept", {"call_17": True})
    result = called(shop.server, "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    assert (text_of(result), shop.paid) == ("paid 17", [17])
    (question,) = questions
    assert question.message == 'Approval required:\n- refund({"order": 17})'
    assert question.requested_schema == {
        "type": "object",
        "properties": {
            "call_17": {"type": "boolean", "title": "Approve refund?", "description": '{"order": 17}'}
        },
        "required": ["call_17"],
    }


@both_eras
@pytest.mark.parametrize(
    ("action", "content", "text"),
    [
        ("decline", None, "The call was not approved: no reason was given."),
        ("accept", {"call_17": False}, "The call was not approved: no reason was given."),
        ("cancel", None, "The call that waited cannot be resumed: the approval was cancelled"),
        ("accept", None, "The call that waited cannot be resumed: the answer has no decision for call_17"),
        (
            "accept",
            {"call_17": "yes"},
            "The call that waited cannot be resumed: the answer has no decision for call_17",
        ),
    ],
)
def test_without_an_approval_the_tool_does_not_run(action: str, content: Any, text: str, mode: str) -> None:
    shop = Shop()
    callback, _ = answering(action, content)
    result = called(shop.server, "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    assert (text_of(result), shop.paid) == (text, [])


@both_eras
def test_each_pending_call_is_decided(mode: str) -> None:
    shop = Shop(17, 23)
    callback, _ = answering("accept", {"call_17": False, "call_23": True})
    result = called(shop.server, "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    assert text_of(result) == "The call was not approved: no reason was given.; paid 23"
    assert shop.paid == [23]


@both_eras
def test_a_client_without_elicitation_gets_an_error(mode: str) -> None:
    shop = Shop()
    assert failure(called(shop.server, "answer", {"letter": "x"}, mode)) == (
        "A call waits for approval or a result: this client cannot ask for the approval, because it does "
        "not support elicitation"
    )


@both_eras
def test_the_program_decides_whether_clients_may_approve(mode: str) -> None:
    shop = Shop()
    callback, questions = answering("accept", {"call_17": True})
    result = called(mcp_server(shop.service), "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    message = "A call waits for approval or a result: calls cannot be approved over MCP here"
    assert (failure(result), questions, shop.paid) == (message, [], [])


@both_eras
def test_the_result_of_an_external_tool_cannot_be_sent(mode: str) -> None:
    @tool(external=True)
    def weigh(order: int) -> float:
        """Let a person weigh the parcel of an order."""
        raise AssertionError("an external tool never runs")

    weighs = ChatReply(AiMessage("", (ToolCall("c1", "weigh", '{"order": 17}'),)))
    service = create(Desk, ScriptedChatModel([weighs]), tools=[weigh])
    callback, questions = answering("accept", {})
    server = mcp_server(service, approvals=ApprovalSettings())
    result = called(server, "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    assert (failure(result), questions) == (
        "A call waits for approval or a result: the results of external tools cannot be sent over MCP: weigh",
        [],
    )


ANSWER = {"approval": ElicitResult(action="accept", content={"call_17": True})}


async def waiting_state(client: Client) -> str:
    result = await client.session.call_tool("answer", {"letter": "x"}, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    assert result.request_state is not None
    return result.request_state


def asks_and(work: Callable[[Client, str], Awaitable[T]], *, server: Server[Any]) -> T:
    async def run(client: Client) -> T:
        return await work(client, await waiting_state(client))

    callback, _ = answering("accept")
    return use(server, run, "2026-07-28", elicitation_callback=callback)


def test_a_state_is_resumed_once() -> None:
    shop = Shop()

    async def twice(client: Client, state: str) -> list[str]:
        calls = [
            await client.call_tool("answer", {"letter": "x"}, input_responses=ANSWER, request_state=state)
            for _ in range(2)
        ]
        return [text_of(result) for result in calls]

    assert asks_and(twice, server=shop.server) == ["paid 17", "The call that waited was resumed before"]
    assert shop.paid == [17]


def test_the_state_that_the_client_sends_back_is_encrypted() -> None:
    async def state(client: Client, state: str) -> str:
        return state

    text = asks_and(state, server=Shop().server)
    assert text.startswith("v1.")
    assert "moon" not in text


@pytest.mark.parametrize(
    ("arguments", "change"), [({"letter": "y"}, ""), ({"letter": "x"}, "a")], ids=["other call", "changed"]
)
def test_a_state_belongs_to_its_call(arguments: dict[str, Any], change: str) -> None:
    shop = Shop()

    async def changed(client: Client, state: str) -> None:
        await client.call_tool("answer", arguments, input_responses=ANSWER, request_state=state + change)

    with pytest.raises(MCPError) as caught:
        asks_and(changed, server=shop.server)
    assert (caught.value.message, shop.paid) == ("Invalid or expired requestState", [])


def test_a_state_of_another_server_is_refused() -> None:
    shop, other = Shop(), Shop()

    async def elsewhere(client: Client, state: str) -> str:
        async with Client(other.server, mode="2026-07-28") as second:
            with pytest.raises(MCPError) as caught:
                await second.call_tool("answer", {"letter": "x"}, input_responses=ANSWER, request_state=state)
        return caught.value.message

    assert asks_and(elsewhere, server=shop.server) == "Invalid or expired requestState"


def test_processes_with_the_same_key_share_states() -> None:
    from aiservices.memory import InMemoryChatMemoryStore

    settings = ApprovalSettings(key="secret", store=InMemoryChatMemoryStore())
    shop, other = Shop(), Shop()

    async def elsewhere(client: Client, state: str) -> str:
        async with Client(mcp_server(other.service, approvals=settings), mode="2026-07-28") as second:
            return text_of(
                await second.call_tool("answer", {"letter": "x"}, input_responses=ANSWER, request_state=state)
            )

    text = asks_and(elsewhere, server=mcp_server(shop.service, approvals=settings))
    assert (text, shop.paid, other.paid) == ("paid 17", [], [17])


@both_eras
def test_the_store_of_states_does_not_block_the_event_loop(mode: str) -> None:
    from aiservices.memory import InMemoryChatMemoryStore

    loops: list[bool] = []

    class Store(InMemoryChatMemoryStore):
        def append(self, *args: Any, **settings: Any) -> None:
            loops.append(threading.current_thread() is threading.main_thread())
            super().append(*args, **settings)

    class AsyncDesk(Protocol):
        async def answer(self, letter: str) -> str: ...

    @tool(needs_approval=True)
    async def refund(order: int) -> str:
        """Pay back an order."""
        return f"paid {order}"

    asks = ChatReply(AiMessage("", (ToolCall("call_17", "refund", '{"order": 17}'),)))
    desk = create(AsyncDesk, ScriptedChatModel([asks, "done"]), tools=[refund])
    server = mcp_server(desk, approvals=ApprovalSettings(store=Store()))
    callback, _ = answering("accept", {"call_17": True})
    result = called(server, "answer", {"letter": "x"}, mode, elicitation_callback=callback)
    assert (text_of(result), loops) == ("done", [False])


def test_an_invented_state_is_refused() -> None:
    shop = Shop()

    async def invented(client: Client) -> None:
        await client.call_tool("answer", {"letter": "x"}, input_responses=ANSWER, request_state="{}")

    for server in (mcp_server(shop.service), shop.server):
        with pytest.raises(MCPError) as caught:
            use(server, invented, "2026-07-28")
        assert "requestState" in caught.value.message


def test_a_state_without_an_answer_is_refused() -> None:
    async def unanswered(client: Client, state: str) -> None:
        await client.call_tool("answer", {"letter": "x"}, request_state=state)

    with pytest.raises(MCPError) as caught:
        asks_and(unanswered, server=Shop().server)
    assert caught.value.message == "inputResponses has no answer to 'approval'"


# --- conversations and users ---


class Chat(Protocol):
    def chat(self, text: str, customer: Annotated[str, MemoryId]) -> str: ...


def echo() -> ScriptedChatModel:
    return ScriptedChatModel(lambda request: " | ".join(one.text for one in request.messages))


def chat_service() -> Chat:
    return create(Chat, echo(), interceptors=[ChatMemory()])


@both_eras
def test_a_memory_id_comes_from_the_program(mode: str) -> None:
    server = mcp_server(chat_service(), server_arguments={"customer": lambda request: "ann"})
    assert listed(server, mode)["chat"].input_schema["properties"] == {"text": {"type": "string"}}

    async def talk(client: Client) -> list[str]:
        return [text_of(await client.call_tool("chat", {"text": text})) for text in "ab"]

    assert use(server, talk, mode) == ["a", "a | a | b"]


@both_eras
def test_a_client_cannot_pass_an_argument_of_the_server(mode: str) -> None:
    async def customer(request: object) -> str:
        return "ann"

    server = mcp_server(chat_service(), server_arguments={"customer": customer})
    message = failure(called(server, "chat", {"text": "a", "customer": "ben"}, mode))
    assert "$.customer" in message


@both_eras
def test_each_session_has_a_conversation_of_its_own(mode: str) -> None:
    server = mcp_server(chat_service(), server_arguments={"customer": session_id})

    async def talk(client: Client) -> list[str]:
        return [text_of(await client.call_tool("chat", {"text": text})) for text in "ab"]

    assert [use(server, talk, mode) for _ in range(2)] == [["a", "a | a | b"]] * 2


def test_a_client_may_choose_the_conversation_if_the_program_allows_it() -> None:
    server = mcp_server(chat_service(), caller_arguments=["customer"])
    assert text_of(called(server, "chat", {"text": "a", "customer": "ben"})) == "a"


def test_conversations_are_never_shared_silently() -> None:
    class Forgetful(Protocol):
        def chat(self, text: str) -> str: ...

    with pytest.raises(DefinitionError) as caught:
        mcp_server(create(Forgetful, echo(), interceptors=[ChatMemory()]))
    assert "all callers would share one conversation" in str(caught.value)
    with pytest.raises(DefinitionError) as caught:
        mcp_server(chat_service())
    assert "callers could pass any memory id as customer" in str(caught.value)


def test_an_error_of_a_server_argument_is_not_shown() -> None:
    def customer(request: object) -> str:
        raise LookupError("no row for sk-secret")

    server = mcp_server(chat_service(), server_arguments={"customer": customer})
    assert failure(called(server, "chat", {"text": "a"})) == "The service failed"


def test_a_state_of_another_user_is_refused() -> None:
    class Users(Protocol):
        def answer(self, letter: str, user: Annotated[str, UserName]) -> str: ...

    @tool(needs_approval=True)
    def refund(order: int) -> str:
        """Pay back an order."""
        raise AssertionError("it must not run")

    users = iter(["ann", "ben"])
    reply = ChatReply(AiMessage("", (ToolCall("call_17", "refund", '{"order": 17}'),)))
    service = create(Users, ScriptedChatModel([reply]), tools=[refund])
    server = mcp_server(
        service, server_arguments={"user": lambda request: next(users)}, approvals=ApprovalSettings()
    )
    callback, _ = answering("accept", {"call_17": True})
    result = called(server, "answer", {"letter": "x"}, "2026-07-28", elicitation_callback=callback)
    assert failure(result) == (
        "The call that waited cannot be resumed: the suspended call belongs to another caller"
    )


# --- prompts ---


class Poet(Protocol):
    @system_message("You are a poet.")
    @user_message("Write about {{subject}} in {{lines}} lines{% if day %}, for {{day}}{% endif %}.")
    def poem(self, subject: str, lines: int, day: date | None = None) -> str:
        """Write a poem.

        Args:
            subject: What it is about.
        """
        ...

    def picture(self, text: str, picture: Image) -> str: ...


def poet() -> Server[Any]:
    return mcp_server(create(Poet, ScriptedChatModel(["x"])), prompts=True)


@both_eras
def test_the_messages_of_a_method_are_a_prompt(mode: str) -> None:
    async def prompts(client: Client) -> tuple[Any, Any]:
        listed_prompts = (await client.list_prompts()).prompts
        return listed_prompts[0], await client.get_prompt("poem", {"subject": "42", "lines": "3"})

    poem, shown = use(poet(), prompts, mode)
    assert (poem.name, poem.description) == ("poem", "Write a poem.")
    assert [(one.name, one.description, one.required) for one in poem.arguments] == [
        ("subject", "What it is about.", True),
        ("lines", None, True),
        ("day", None, False),
    ]
    assert [(one.role, one.content.text) for one in shown.messages] == [
        ("user", "You are a poet."),
        ("user", "Write about 42 in 3 lines."),
    ]


def test_images_in_a_prompt_are_contents() -> None:
    arguments = {"text": "Look:", "picture": '{"data": "R0lGODlh", "media_type": "image/gif"}'}
    shown = use(poet(), lambda client: client.get_prompt("picture", arguments))
    assert [block.content.model_dump(exclude_none=True) for block in shown.messages] == [
        {"type": "text", "text": "Look:"},
        {"type": "image", "data": "R0lGODlh", "mime_type": "image/gif"},
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "poem",
            {"subject": "x", "lines": "three"},
            'The arguments do not fit the method\n- $.lines: number in words is not accepted, found "three"',
        ),
        ("ode", {}, "Unknown prompt: ode"),
    ],
)
def test_wrong_arguments_of_a_prompt_are_an_error(name: str, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(MCPError) as caught:
        use(poet(), lambda client: client.get_prompt(name, arguments))
    assert (caught.value.code, caught.value.message) == (-32602, message)


@both_eras
def test_without_prompts_system_messages_are_not_shown(mode: str) -> None:
    async def prompts(client: Client) -> None:
        assert client.server_capabilities.prompts is None
        await client.get_prompt("part", {"letter": "x"})

    with pytest.raises(MCPError):
        use(clerk(), prompts, mode)


# --- definitions ---


def problems_of(*arguments: Any, **settings: Any) -> Sequence[str]:
    with pytest.raises(DefinitionError) as caught:
        mcp_server(*arguments, **settings)
    return [str(problem) for problem in caught.value.problems]


def test_an_interface_is_not_a_service() -> None:
    assert problems_of(Clerk) == [
        "mcp: Clerk is an interface; pass the object that create(Clerk, model) returns"
    ]


def test_parameters_that_nobody_sets_are_reported_with_unknown_names() -> None:
    class Tools(Protocol):
        def answer(self, text: str, shop: Annotated[object, ToolContext]) -> str: ...

    service = create(Tools, ScriptedChatModel(["x"]))
    assert problems_of(
        service, server_arguments={"user": session_id}, caller_arguments=["id"], threads=0
    ) == [
        "Tools.answer: callers cannot pass the parameter shop; name a dependency for it in server_arguments",
        "Tools: server_arguments names user, which is not a parameter of any method",
        "Tools: caller_arguments names id, which is not a MemoryId, UserName or CallId that callers pass",
        "Tools: threads is 0; it must be at least 1",
    ]


def test_a_name_that_mcp_does_not_allow_is_reported() -> None:
    class Names(Protocol):
        def prüfe(self, text: str) -> str: ...

    assert problems_of(create(Names, ScriptedChatModel(["x"]))) == [
        "Names.prüfe: MCP does not allow prüfe as the name of a tool"
    ]


def test_a_key_for_approvals_needs_a_store() -> None:
    problems = problems_of(Shop().service, approvals=ApprovalSettings(key="secret"))
    assert problems[0].startswith("Desk: approvals has a key, but no store")


class Painter(Protocol):
    def tidy(self, wish: str) -> None: ...

    def told(self, wish: str) -> Result[None]: ...

    def paint(self, what: str) -> Image: ...

    def paint_all(self, what: str) -> list[Image]: ...


def test_methods_that_return_nothing_and_images() -> None:
    def tidy_room() -> str:
        return "tidied"

    picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n cat")
    painter = create(Painter, FakeChatModel(values={Image: picture}, calls=[]), tools=[tidy_room])
    server = mcp_server(painter)
    assert called(server, "tidy", {"wish": "x"}).structured_content == {"value": None}
    assert called(server, "told", {"wish": "x"}).is_error is False
    for name, count in (("paint", 1), ("paint_all", 1)):
        result = called(server, name, {"what": "a cat"})
        assert [(block.type, block.data) for block in result.content] == [("image", picture.base64)] * count


class Archive(Protocol):
    def sound(self) -> Audio: ...

    def scan(self) -> File: ...

    def page(self) -> list[str | Image | File]: ...

    def link(self) -> tuple[str, Image]: ...

    def pair(self) -> tuple[int, Image]: ...


class Shelf:
    """An Archive without a model."""

    png = Image.from_bytes(b"\x89PNG\r\n\x1a\n\xff")
    pdf = File.from_bytes(b"%PDF-\xff", name="a.pdf")

    def sound(self) -> Audio:
        return Audio.from_bytes(b"ID3\xff")

    def scan(self) -> File:
        return self.pdf

    def page(self) -> list[str | Image | File]:
        return ["Page 1", self.png, self.pdf]

    def link(self) -> tuple[str, Image]:
        return "Page 2", Image.from_url("https://example.org/a.png", "image/png")

    def pair(self) -> tuple[int, Image]:
        return 3, self.png


def test_media_are_blocks_of_content_and_base64_in_structured_content() -> None:
    server = mcp_server(Shelf(), interface=Archive)
    kinds = {
        name: [block.type for block in called(server, name, {}).content]
        for name in ("sound", "scan", "page", "link", "pair")
    }
    assert kinds == {
        "sound": ["audio"],
        "scan": ["resource"],
        "page": ["text", "image", "resource"],
        "link": ["text", "resource_link"],
        "pair": ["text"],  # a number is not content
    }
    assert called(server, "scan", {}).structured_content["data"] == Shelf.pdf.base64


def test_a_cursor_that_the_server_did_not_send_is_an_error() -> None:
    server = mcp_server(Shop().service, prompts=True)
    with pytest.raises(MCPError, match=r"^Unknown cursor: x$"):
        use(server, lambda client: client.list_tools(cursor="x"))
    with pytest.raises(MCPError, match=r"^Unknown cursor: x$"):
        use(server, lambda client: client.list_prompts(cursor="x"))
