"""ReActAgent calls tools and ends with a text and a typed value."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from aiservices import (
    AiMessage,
    AiServiceError,
    BadRequestError,
    Budget,
    Capabilities,
    ChatReply,
    ChatRequest,
    DefinitionError,
    Image,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    preview,
)
from aiservices.agents import GeneratedResponse, Msg, ReActAgent, Round, generate_response_parser
from aiservices.memory import ChatMemory
from aiservices.models.errors import ToolError, ToolLimitError
from aiservices.tools.tool import ToolRun, tool
from output_parsers.profiles import PROFILES
from output_parsers.strict import encode_parser


class Person(BaseModel):
    name: Annotated[str, Field(min_length=2, max_length=20)]
    age: Annotated[int, Field(ge=0, le=120)]
    mood: Literal["happy", "sad"] = "happy"


@dataclass
class Point:
    x: int
    y: int


def capital(country: str) -> str:
    """Tells the capital of a country."""
    return {"Italy": "Rome", "France": "Paris"}[country]


async def slow_capital(country: str) -> str:
    """Tells the capital of a country, after a while."""
    await asyncio.sleep(0)
    return capital(country)


def calls(name: str, text: str = "", /, **arguments: Any) -> ChatReply:
    return ChatReply(AiMessage(text, (ToolCall("call_1", name, json.dumps(arguments)),)))


def finishes(**arguments: Any) -> ChatReply:
    return calls("generate_response", **arguments)


def agent(*replies: ChatReply | str, **settings: Any) -> tuple[ReActAgent, ScriptedChatModel]:
    model = ScriptedChatModel(replies)
    return ReActAgent("Friday", "You are Friday.", model, **settings), model


def test_plain_text_ends_a_reply_without_output_type() -> None:
    friday, model = agent("Hello.")
    assert friday.reply("Hi") == Msg("Friday", "Hello.")
    assert model.requests == [ChatRequest((SystemMessage("You are Friday."), UserMessage("Hi")))]


@pytest.mark.parametrize("tools", [[], [capital]])
def test_a_call_of_generate_response_with_a_text_alone_ends_a_reply_without_output_type(
    tools: list[Any],
) -> None:
    friday, model = agent(finishes(response="ok"), tools=tools, memory=ChatMemory())
    reply = friday.reply("Hi")
    assert reply == Msg("Friday", "ok")
    assert reply.trace == (Round(AiMessage("ok")),)
    friday, model = agent(finishes(response="ok"), "Fine.", tools=tools, memory=ChatMemory())
    friday.reply("Hi")
    friday.reply("Go on.")
    assert model.requests[1].messages[1:] == (UserMessage("Hi"), AiMessage("ok"), UserMessage("Go on."))


def test_a_call_of_generate_response_with_a_value_is_answered_again_without_output_type() -> None:
    friday, model = agent(finishes(response="ok", age=3), "Hello.")
    assert friday.reply("Hi") == Msg("Friday", "Hello.")
    assert model.requests[1].messages[1:] == (
        UserMessage("Hi"),
        UserMessage(
            "That answer cannot be read:\n"
            "- $: expected the answer as text; the model called generate_response, which was not offered\n"
            "Answer again in full and fix these problems."
        ),
    )


@pytest.mark.parametrize("arguments", ['{"response": "o', '["response"]', '{"response": 1}'])
def test_a_call_of_generate_response_that_cannot_be_read_is_an_error(arguments: str) -> None:
    friday, _ = agent(ChatReply(AiMessage("", (ToolCall("c1", "generate_response", arguments),))), retry=None)
    with pytest.raises(ServiceOutputError) as caught:
        friday.reply("Hi")
    assert [str(problem) for problem in caught.value.problems] == [
        "$: expected the answer as text; the model called generate_response, which was not offered"
    ]


def test_a_reply_has_a_text_and_a_typed_value() -> None:
    friday, _ = agent(finishes(response="Ann is thirty.", name="Ann", age=30, mood="sad"))
    reply = friday.reply("Who is Ann?", Person)
    assert reply == Msg("Friday", "Ann is thirty.", metadata=Person(name="Ann", age=30, mood="sad"))


def test_tools_run_before_generate_response_ends_the_reply() -> None:
    friday, model = agent(
        calls("capital", country="Italy"), finishes(response="Rome.", x=1, y=2), tools=[capital]
    )
    assert friday.reply("Where?", Point) == Msg("Friday", "Rome.", metadata=Point(1, 2))
    assert model.requests[1].messages[2:] == (
        calls("capital", country="Italy").message,
        ToolMessage("call_1", "capital", "Rome"),
    )


def test_generate_response_is_offered_with_the_tools_and_a_call_is_required() -> None:
    friday, model = agent(finishes(response="Rome.", x=1, y=2), tools=[capital])
    friday.reply("Where?", Point)
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert ([tool.name for tool in tooling.tools], tooling.choice) == (
        ["capital", "generate_response"],
        "required",
    )


def test_the_fields_and_their_constraints_are_parameters_of_generate_response() -> None:
    model = ScriptedChatModel(
        [finishes(response="Ann.", name="Ann", age=30)], capabilities=Capabilities(tools=True)
    )
    ReActAgent("Friday", "You are Friday.", model).reply("Who?", Person)
    tooling = model.requests[0].tooling
    assert tooling is not None
    (tool,) = tooling.tools
    assert tool.description == (
        "Gives the final answer and ends the task. Call it once, when nothing is left to be done."
    )
    assert tool.parameters == {
        "type": "object",
        "description": tool.description,
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "mood": {"type": "string", "enum": ["happy", "sad"]},
            "response": {"type": "string", "description": "the answer in full, as it is to be read"},
        },
        "required": ["name", "age", "response"],
        "additionalProperties": False,
    }


def test_a_call_that_breaks_constraints_is_answered_with_its_problems() -> None:
    friday, model = agent(
        finishes(response="Ann.", name="A", age=300), finishes(response="Ann.", name="Ann", age=30)
    )
    assert friday.reply("Who?", Person).metadata == Person(name="Ann", age=30)
    assert model.requests[1].messages[-1] == ToolMessage(
        "call_1",
        "generate_response",
        "That answer cannot be read:\n"
        '- $.name: string should have at least 2 characters, found "A"\n'
        "- $.age: input should be less than or equal to 120, found 300\n"
        "Answer again in full and fix these problems.",
    )


def test_a_missing_response_is_a_problem() -> None:
    friday, model = agent(finishes(x=1), finishes(response="Here.", x=1, y=2))
    assert friday.reply("Where?", Point) == Msg("Friday", "Here.", metadata=Point(1, 2))
    assert model.requests[1].messages[-1].text.splitlines()[1:3] == [
        "- $.response: the required field 'response' is missing",
        "- $.y: the required field 'y' is missing",
    ]


def test_plain_text_is_rejected_if_there_is_an_output_type() -> None:
    friday, model = agent("Somewhere.", finishes(response="Here.", x=1, y=2))
    assert friday.reply("Where?", Point) == Msg("Friday", "Here.", metadata=Point(1, 2))
    assert model.requests[1].messages[-2] == AiMessage("Somewhere.")


def test_a_tool_that_is_called_together_with_generate_response_does_not_run() -> None:
    answer = finishes(response="R", x=1, y=2).message
    both = (ToolCall("1", "capital", '{"country": "Italy"}'), *answer.tool_calls)
    friday, _ = agent(ChatReply(AiMessage("", both)), tools=[capital])
    reply = friday.reply("Where?", Point)
    assert (reply.metadata, [one.runs for one in reply.trace]) == (Point(1, 2), [()])


def test_with_one_round_no_tools_are_offered() -> None:
    friday, model = agent("Rome.", tools=[capital], max_rounds=1)
    assert friday.reply("Where?").content == "Rome."
    assert model.requests[0].tooling is None


def test_arguments_that_never_fit_are_an_error_with_all_attempts() -> None:
    friday, _ = agent(*[finishes(response="Ann.", name="Ann", age=300)] * 3)
    with pytest.raises(ServiceOutputError) as caught:
        friday.reply("Who?", Person)
    assert [problem.path for problem in caught.value.problems] == ["$.age"]
    assert len(caught.value.attempts) == 3


def test_a_type_without_fields_is_one_parameter() -> None:
    friday, model = agent(finishes(response="Two.", metadata=[1, 2]))
    assert friday.reply("Which?", list[int]) == Msg("Friday", "Two.", metadata=[1, 2])
    tooling = model.requests[0].tooling
    assert tooling is not None
    assert tooling.tools[0].parameters["properties"]["metadata"] == {
        "type": "array",
        "items": {"type": "integer"},
    }


def test_each_reply_can_have_another_output_type() -> None:
    friday, _ = agent(finishes(response="a", x=1, y=2), "b", finishes(response="c", name="Ann", age=1))
    assert [friday.reply("?", Point).metadata, friday.reply("?"), friday.reply("?", Person).metadata] == [
        Point(1, 2),
        Msg("Friday", "b"),
        Person(name="Ann", age=1),
    ]


def test_a_model_without_tools_is_asked_with_another_strategy() -> None:
    model = ScriptedChatModel(['{"response": "Here.", "x": 1, "y": 2}'], capabilities=Capabilities())
    reply = ReActAgent("Friday", "You are Friday.", model).reply("Where?", Point)
    assert reply == Msg("Friday", "Here.", metadata=Point(1, 2))
    assert model.requests[0].messages[-1].text == (
        "Where?\n\nReply with JSON only, in this form:\n{\n"
        '  "x": integer, "y": integer,\n'
        '  "response": string,  // the answer in full, as it is to be read\n}'
    )


def test_the_output_type_may_be_a_json_schema() -> None:
    friday, model = agent(finishes(response="In Rome.", city="Rome"))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert friday.reply("Where?", schema).metadata == {"city": "Rome"}
    assert model.requests[0].tooling is not None
    assert list(model.requests[0].tooling.tools[-1].parameters["properties"]) == ["city", "response"]


def test_a_call_of_an_unknown_tool_is_answered_with_all_tools() -> None:
    friday, model = agent(calls("Point", x=1), finishes(response="Here.", x=1, y=2), tools=[capital])
    friday.reply("Where?", Point)
    assert model.requests[1].messages[-1].text == (
        "There is no tool Point. The tools are: capital, generate_response."
    )


def test_a_preview_shows_the_tool_of_the_answer() -> None:
    friday, model = agent(tools=[capital])
    shown = preview(friday.reply, "Where?", Point)
    assert ([tool.name for tool in shown.tools], shown.tool_choice) == (
        ["capital", "generate_response"],
        "required",
    )
    assert ", gives the answer]" in str(shown)
    assert model.requests == []


def test_another_spelling_of_a_key_is_understood() -> None:
    friday, _ = agent(finishes(Response="Here.", X=1, Y=2))
    assert friday.reply("Where?", Point) == Msg("Friday", "Here.", metadata=Point(1, 2))


def test_areply_can_use_async_tools() -> None:
    friday, _ = agent(
        calls("slow_capital", country="Italy"), finishes(response="Rome.", x=1, y=2), tools=[slow_capital]
    )
    reply = asyncio.run(friday.areply("Where?", Point))
    assert reply == Msg("Friday", "Rome.", metadata=Point(1, 2))
    assert [run.text for run in reply.trace[0].runs] == ["Rome"]


def test_a_blocking_reply_can_use_async_tools_too() -> None:
    friday, _ = agent(
        calls("slow_capital", country="Italy"), finishes(response="Rome.", x=1, y=2), tools=[slow_capital]
    )
    assert friday.reply("Where?", Point) == Msg("Friday", "Rome.", metadata=Point(1, 2))


def test_the_trace_shows_the_rounds() -> None:
    friday, _ = agent(
        calls("capital", "I look it up.", country="Italy"),
        finishes(response="Rome.", x="far"),
        finishes(response="Rome.", x=1, y=2),
        tools=[capital],
    )
    trace = friday.reply("Where?", Point).trace
    assert [str(one) for one in trace] == [
        'I look it up.\ncapital({"country": "Italy"}) → Rome',
        'generate_response({"response": "Rome.", "x": "far"})\n'
        "rejected: $.x: expected an integer, found \"far\"; $.y: the required field 'y' is missing",
        'generate_response({"response": "Rome.", "x": 1, "y": 2})',
    ]


def test_equal_calls_in_two_rounds_have_their_own_runs_in_the_trace() -> None:
    found = iter(["one", "two"])

    def look() -> str:
        """Looks."""
        return next(found)

    friday, _ = agent(calls("look"), calls("look"), "Done.", tools=[look])
    assert [[run.text for run in one.runs] for one in friday.reply("?").trace] == [["one"], ["two"], []]


def test_more_than_max_rounds_is_an_error() -> None:
    friday, model = agent(*[calls("capital", country="Italy")] * 3, tools=[capital], max_rounds=2)
    with pytest.raises(ToolLimitError) as caught:
        friday.reply("Where?")
    assert str(caught.value) == "Friday.reply: no answer after 2 rounds; raise max_rounds"
    assert (len(model.requests), len(caught.value.attempts)) == (2, 2)


def test_messages_of_other_agents_have_their_names() -> None:
    friday, model = agent("Fine.")
    friday.reply([Msg.of_user("Hi", "Ann"), Msg("Friday", "Hello."), Msg("Bob", "And I?", metadata=42)])
    assert model.requests[0].messages[1:] == (
        UserMessage("Hi", "Ann"),
        AiMessage("Hello."),
        UserMessage("And I?", "Bob"),
    )


def test_a_memory_stores_the_text_of_a_reply() -> None:
    memory = ChatMemory()
    friday, model = agent(finishes(response="I am Ann.", name="Ann", age=3), "Ann, I said.", memory=memory)
    friday.reply("Who are you?", Person)
    friday.reply("Who?")
    assert model.requests[1].messages == (
        SystemMessage("You are Friday."),
        UserMessage("Who are you?"),
        AiMessage("I am Ann."),
        UserMessage("Who?"),
    )


def test_agents_with_one_memory_have_conversations_of_their_own() -> None:
    model, memory = ScriptedChatModel(["a", "b", "c"]), ChatMemory()
    first = ReActAgent("A", "I am A.", model, memory=memory)
    first.reply("secret of A")
    ReActAgent("B", "I am B.", model, memory=memory).reply("hello")
    first.reply("again")
    assert [[message.text for message in request.messages] for request in model.requests] == [
        ["I am A.", "secret of A"],
        ["I am B.", "hello"],
        ["I am A.", "secret of A", "a", "again"],
    ]


def test_two_agents_of_one_name_need_a_namespace_for_one_memory() -> None:
    memory = ChatMemory()
    ReActAgent("A", "", ScriptedChatModel([]), memory=memory)
    with pytest.raises(DefinitionError) as caught:
        ReActAgent("A", "", ScriptedChatModel([]), memory=memory)
    assert str(caught.value) == (
        "A: another service or agent named A uses the same ChatMemory, so each would continue the "
        "conversation of the other; if they should, pass ChatMemory(namespace='A'), otherwise a "
        "ChatMemory with another namespace to each"
    )


def test_an_agent_with_two_memories_is_refused() -> None:
    with pytest.raises(DefinitionError) as caught:
        ReActAgent("A", "", ScriptedChatModel([]), memory=ChatMemory(), interceptors=[ChatMemory()])
    assert str(caught.value) == (
        "A.reply: 2 interceptors are memories, so the conversation would be sent 2 times; pass one of them"
    )


def test_a_memory_stores_several_input_messages_as_one() -> None:
    cat = Image.from_url("https://example.org/cat.png")
    friday, model = agent("Tea and coffee.", "Yes.", memory=ChatMemory())
    looks = UserMessage("And this?", contents=(cat,))
    friday.reply([Msg.of_user("I like tea.", "Ann"), Msg("Friday", "Fine."), looks])
    friday.reply("Sure?")
    said = "Ann: I like tea.\n\nFriday: Fine.\n\nuser: And this?"
    told = model.requests[1].messages
    assert [message.text for message in told] == ["You are Friday.", said, "Tea and coffee.", "Sure?"]
    assert isinstance(told[1], UserMessage)
    assert told[1].parts == (said, cat)


def test_a_type_with_media_is_a_definition_error() -> None:
    friday, _ = agent()
    with pytest.raises(DefinitionError) as caught:
        friday.reply("Draw.", Image)
    assert str(caught.value) == (
        "Friday.reply: it returns Image; a model writes text, so it cannot write an object of Image; use "
        "str, for example for a URL"
    )


def test_a_type_with_a_field_response_is_a_definition_error() -> None:
    class Answer(BaseModel):
        Response: str

    friday, _ = agent()
    with pytest.raises(DefinitionError) as caught:
        friday.reply("?", Answer)
    assert str(caught.value) == (
        "Friday.reply: Answer has a field 'response', which is a parameter of generate_response; "
        "give it another name"
    )


def test_all_problems_of_an_agent_are_reported_together() -> None:
    def generate_response() -> None:
        """Is not the agent's own."""

    with pytest.raises(DefinitionError) as caught:
        ReActAgent("Friday", "", ScriptedChatModel([]), [generate_response], max_rounds=0)
    assert [str(problem) for problem in caught.value.problems] == [
        "Friday.reply: max_rounds is 0; it must be at least 1",
        "Friday.reply: a tool has the name generate_response, which is the name of the agent's own tool",
    ]


def test_an_unknown_model_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError, match=r"^Friday\.reply: .*nobody"):
        ReActAgent("Friday", "", "nobody:else")


class Seen:
    """Records what hooks get."""

    def __init__(self, friday: ReActAgent) -> None:
        self.steps: list[str] = []
        self.handles = [
            friday.on("pre_reasoning", lambda request: self.see(f"asks with {len(request.messages)}")),
            friday.on("post_reasoning", lambda reply: self.see(f"reads {reply.text!r}")),
            friday.on("pre_acting", lambda call: self.see(f"calls {call.name}")),
            friday.on("post_acting", lambda run: self.see(f"got {run.text}")),
        ]

    def see(self, what: str) -> None:
        self.steps.append(what)


STEPS = ["asks with 2", "reads 'Hm.'", "calls capital", "got Rome", "asks with 4", "reads 'Rome.'"]


def test_hooks_get_each_step_until_they_are_removed() -> None:
    friday, _ = agent(calls("capital", "Hm.", country="Italy"), "Rome.", "Again.", tools=[capital])
    seen = Seen(friday)
    friday.reply("Where?")
    for handle in seen.handles * 2:
        handle.remove()
    friday.reply("Where?")
    assert seen.steps == STEPS


def test_async_hooks_get_the_same_values() -> None:
    friday, _ = agent(calls("capital", "Hm.", country="Italy"), "Rome.", tools=[capital])
    seen = Seen(friday)
    asyncio.run(friday.areply("Where?"))
    assert seen.steps == STEPS


def test_a_hook_that_was_added_twice_is_removed_once() -> None:
    friday, _ = agent("One.", "Two.")
    seen: list[str] = []

    def see(reply: ChatReply) -> None:
        seen.append(reply.text)

    first, _ = friday.on("post_reasoning", see), friday.on("post_reasoning", see)
    friday.reply("?")
    first.remove()
    friday.reply("?")
    assert seen == ["One.", "One.", "Two."]


def test_hooks_can_change_a_request_a_reply_and_a_result() -> None:
    friday, model = agent(calls("capital", country="Italy"), "It is Rome.", tools=[capital])

    def hint(request: ChatRequest) -> ChatRequest:
        return request.plus(UserMessage("Be brief."))

    def shout(reply: ChatReply) -> ChatReply | None:
        return ChatReply(AiMessage(reply.text.upper())) if reply.text else None

    def hide(run: ToolRun) -> ToolRun:
        return ToolRun(run.call, run.arguments, run.result, "a city", run.error, run.seconds)

    friday.on("pre_reasoning", hint)
    friday.on("post_reasoning", shout)
    friday.on("post_acting", hide)
    reply = friday.reply("Where?")
    assert reply.content == "IT IS ROME."
    assert [message.text for message in model.requests[1].messages] == [
        "You are Friday.",
        "Where?",
        "",
        "a city",
        "Be brief.",
    ]
    assert [run.text for run in reply.trace[0].runs] == ["a city"]


def test_a_hook_may_be_async() -> None:
    friday, _ = agent("Hello.")
    seen: list[str] = []

    async def see(reply: ChatReply) -> None:
        await asyncio.sleep(0)
        seen.append(reply.text)

    friday.on("post_reasoning", see)
    assert asyncio.run(friday.areply("Hi")).content == "Hello."
    assert seen == ["Hello."]


def test_an_exception_of_a_hook_ends_the_reply() -> None:
    friday, model = agent(calls("capital", country="Italy"), "Rome.", tools=[capital])

    class Forbidden(AiServiceError):
        pass

    def forbid(call: ToolCall) -> None:
        raise Forbidden(f"{call.name} is forbidden")

    friday.on("pre_acting", forbid)
    with pytest.raises(Forbidden) as caught:
        friday.reply("Where?")
    assert (str(caught.value), len(caught.value.attempts)) == ("capital is forbidden", 1)
    assert len(model.requests) == 1


def test_an_unknown_step_is_a_definition_error() -> None:
    friday, _ = agent()
    with pytest.raises(DefinitionError) as caught:
        friday.on("pre_print", print)  # type: ignore[call-overload]
    assert str(caught.value) == (
        "ReActAgent.on: the step 'pre_print' is unknown; the steps are: pre_reasoning, post_reasoning, "
        "pre_acting, post_acting"
    )


def test_a_round_is_a_plain_value() -> None:
    assert str(Round(AiMessage("Hello."))) == "Hello."


class Tree(BaseModel):
    """A tree."""

    name: str
    sizes: dict[str, int] = {}
    children: list[Tree] = []


Tree.model_rebuild()


class Place(TypedDict):
    city: str
    country: NotRequired[str]


@pytest.mark.parametrize(
    "capabilities", [Capabilities(tools=True), Capabilities(tools=True, strict_schema=True)]
)
@pytest.mark.parametrize(
    ("output_type", "value"),
    [
        (Tree, Tree(name="a", sizes={"x": 1}, children=[Tree(name="b")])),
        (Place, {"city": "Rome"}),
        (Person | Point, Point(1, 2)),
        (dict[str, int], {"a": 1}),
        (Annotated[list[str], Field(min_length=1)], ["a"]),
        (bool, True),
    ],
)
def test_types_of_every_kind_are_written_and_read(
    output_type: Any, value: Any, capabilities: Capabilities
) -> None:
    written = generate_response_parser(output_type).write(GeneratedResponse("Here.", value))
    call = ChatReply(
        AiMessage("", (ToolCall("1", "generate_response", _as_sent(output_type, written, capabilities)),))
    )
    model = ScriptedChatModel([call], capabilities=capabilities)
    assert ReActAgent("Friday", "", model).reply("?", output_type) == Msg("Friday", "Here.", metadata=value)


def _as_sent(output_type: Any, written: str, capabilities: Capabilities) -> str:
    """Return the arguments as a model writes them in strict mode or without it."""
    if not capabilities.strict_schema:
        return written
    parser, encoding = encode_parser(generate_response_parser(output_type), PROFILES["openai"])
    return (
        parser.write(generate_response_parser(output_type).parse(written)) if encoding.lossless else written
    )


def test_the_schema_of_a_recursive_type_has_its_fields_at_the_root() -> None:
    schema = generate_response_parser(Tree).schema or {}
    assert list(schema["properties"]) == ["name", "sizes", "children", "response"]
    assert schema["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert list(schema["$defs"]["Tree"]["properties"]) == ["name", "sizes", "children"]


def test_only_invalid_fields_are_requested_again() -> None:
    model = ScriptedChatModel(
        ['{"response": "Ann.", "name": "Ann", "age": 300}', '{"age": 30}'],
        capabilities=Capabilities(json_mode=True),
    )
    reply = ReActAgent("Friday", "", model, retry=Retry(mode="fields")).reply("?", Person)
    assert reply.metadata == Person(name="Ann", age=30)


def test_a_budget_bounds_a_reply() -> None:
    friday, _ = agent(finishes(response="Ann."), budget=Budget(max_attempts=1))
    with pytest.raises(ServiceOutputError) as caught:
        friday.reply("Who?", Person)
    assert len(caught.value.attempts) == 1


def test_a_provider_that_rejects_tools_is_asked_with_another_strategy() -> None:
    refusal = BadRequestError("tools are not supported", status=400)
    model = ScriptedChatModel([refusal, '{"response": "Here.", "x": 1, "y": 2}'])
    reply = ReActAgent("Friday", "", model).reply("Where?", Point)
    assert reply == Msg("Friday", "Here.", metadata=Point(1, 2))
    assert [one.tooling is None for one in model.requests] == [False, True]


def test_a_tool_whose_result_is_the_answer_ends_a_reply_without_output_type() -> None:
    @tool(return_behavior="immediate")
    def clock() -> str:
        """Tells the time."""
        return "noon"

    friday, _ = agent(calls("clock"), calls("clock"), tools=[clock])
    assert friday.reply("When?") == Msg("Friday", "noon")
    with pytest.raises(ToolError) as caught:
        friday.reply("When?", Point)
    assert str(caught.value) == (
        "Friday.reply: a tool must return the answer, of type Point; the result of clock is 'noon'"
    )


def test_one_agent_can_reply_to_many_callers_concurrently() -> None:
    def said(request: ChatRequest) -> ChatReply:
        return finishes(response=request.messages[1].text, metadata=len(request.messages))

    friday = ReActAgent("Friday", "", ScriptedChatModel(said))

    async def ask() -> list[Msg[int]]:
        return await asyncio.gather(*[friday.areply(str(number), int) for number in range(5)])

    assert asyncio.run(ask()) == [Msg("Friday", str(number), metadata=2) for number in range(5)]


@pytest.mark.parametrize(
    ("step", "given", "wanted"),
    [
        ("pre_reasoning", "text", "ChatRequest or None"),
        ("post_reasoning", "text", "ChatReply or None"),
        ("pre_acting", ToolCall("1", "capital", "{}"), "None"),
        ("post_acting", "text", "ToolRun or None"),
    ],
)
def test_a_wrong_return_value_of_a_hook_is_an_error(step: Any, given: Any, wanted: str) -> None:
    friday, _ = agent(calls("capital", country="Italy"), "Rome.", tools=[capital])

    def change(value: Any) -> Any:
        return given

    friday.on(step, change)
    with pytest.raises(TypeError) as caught:
        friday.reply("Where?")
    kind = type(given).__name__
    assert str(caught.value) == f"the {step} hook change returned {kind}; it may return {wanted}"


def test_a_blocking_reply_with_an_async_hook_is_an_error_that_names_areply() -> None:
    friday, model = agent("Hello.")

    async def see(reply: ChatReply) -> None: ...

    handle = friday.on("post_reasoning", see)
    with pytest.raises(TypeError) as caught:
        friday.reply("Hi")
    assert str(caught.value) == "Friday.reply: the hook see can only be awaited; use areply or aresume"
    assert model.requests == []
    handle.remove()
    assert friday.reply("Hi").content == "Hello."


def test_a_user_message_can_contain_an_image() -> None:
    friday, model = agent("A cat.", "A dog.")
    seen = UserMessage("What is it?", contents=(Image.from_url("https://example.org/cat.png"),))
    friday.reply(seen)
    friday.reply([Msg("Bob", "Look:"), seen])
    assert model.requests[0].messages[1:] == (seen,)
    assert model.requests[1].messages[1:] == (UserMessage("Look:", "Bob"), seen)


def test_message_dicts_are_messages_of_users_and_agents() -> None:
    friday, model = agent("Hi.")
    friday.reply(
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}], "name": "Ann"},
            {"role": "assistant", "content": "b"},
            {"role": "assistant", "content": "c", "name": "Friday"},
            {"role": "assistant", "content": "d", "name": "Bob"},
        ]
    )
    assert model.requests[0].messages[1:] == (
        UserMessage("a", "Ann"),
        AiMessage("b"),
        AiMessage("c"),
        UserMessage("d", "Bob"),
    )


@pytest.mark.parametrize("memory", [None, ChatMemory()])
def test_the_texts_of_system_messages_are_added_to_the_system_message(memory: ChatMemory | None) -> None:
    friday, model = agent("Hi.", memory=memory)
    friday.reply(
        [
            Msg("system", "Be brief.", "system"),
            Msg("Ann", "Hello.", "user"),
            {"role": "system", "content": "Be kind."},
        ]
    )
    (system, user) = model.requests[0].messages
    assert system == SystemMessage("You are Friday.\n\nBe brief.\n\nBe kind.")
    assert user == UserMessage("Hello.", "Ann")


def test_the_third_argument_of_a_message_is_its_role() -> None:
    assert Msg("user", "介绍下爱因斯坦", "user") == Msg.of_user("介绍下爱因斯坦")
    assert Msg("Bob", "Hi.") == Msg("Bob", "Hi.", "assistant", metadata=None)


def test_an_unknown_role_of_a_message_is_an_error() -> None:
    role: Any = "robot"
    with pytest.raises(ValueError, match="role") as caught:
        Msg("Bob", "Hi.", role)
    assert str(caught.value) == "the role of a Msg is 'robot'; it must be user, assistant or system"


def test_the_content_of_a_message_is_text() -> None:
    content: Any = [{"type": "text", "text": "Hi."}]
    with pytest.raises(TypeError) as caught:
        Msg("Bob", content)
    assert str(caught.value) == (
        "the content of a Msg is list; it must be a str. Pass images and other media in a UserMessage"
    )


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (
            {"role": "tool", "content": "s", "tool_call_id": "c1", "name": "look"},
            "Friday got a message with a tool call or its result; pass the messages of users and other "
            "agents. The agent has its own tools",
        ),
        ({"role": "user"}, "Friday, message 1: its content is NoneType; it must be text or a list of parts"),
    ],
)
def test_another_message_dict_is_an_error(message: Any, error: str) -> None:
    friday, _ = agent()
    with pytest.raises(TypeError) as caught:
        friday.reply(message)
    assert str(caught.value) == error


@pytest.mark.parametrize("heard", [7, ["text"], None])
def test_a_wrong_message_type_is_an_error(heard: Any) -> None:
    friday, _ = agent()
    kind = "str" if isinstance(heard, list) else type(heard).__name__
    with pytest.raises(TypeError) as caught:
        friday.reply(heard)
    assert str(caught.value) == (
        f"Friday got {kind}; pass a str, a UserMessage, a Msg, a dict with role and content, "
        "or a list of these messages"
    )
