"""The embedded model gets a description of the tools, and its calls are constrained and parsed."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from aiservices.models.errors import BadRequestError
from aiservices.models.local import LocalChatModel
from aiservices.models.local.prompting import (
    ANY_OBJECT,
    ReplyBuilder,
    ToolCallReader,
    chat_body,
    reply_constraint,
    tool_call_grammar,
)
from aiservices.models.local.weights import is_ready, weights_named
from aiservices.models.messages import (
    AiMessage,
    ChatReply,
    FinishReason,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from aiservices.models.requests import ChatOptions, ChatRequest, JsonSchemaFormat, Tooling, ToolSpecification


def arguments(**properties: Any) -> dict[str, Any]:
    required = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties, **required}


WEATHER = ToolSpecification("weather", "The weather in a city.", arguments(city={"enum": ["Paris", "Rome"]}))
TIMES = ToolSpecification("times", "The product.", arguments(a={"type": "integer"}, b={"type": "integer"}))
BOTH = Tooling((WEATHER, TIMES))
NUMBER = JsonSchemaFormat("answer", arguments(value={"type": "integer", "maximum": 99}))
PARIS = '{"city": "Paris"}'
QUESTION = UserMessage("How is it in Paris?")
TOOL_CALL = AiMessage("", (ToolCall("c1", "weather", PARIS),))
RESULT = ToolMessage("c1", "weather", "rain")


def chat_messages(*messages: Message, tooling: Tooling | None = BOTH) -> list[tuple[str, str]]:
    body = chat_body(ChatRequest(messages, tooling=tooling), ChatOptions(), "Be brief.")
    return [(message["role"], message["content"]) for message in body["messages"]]


class TestMessages:
    def test_the_system_message_has_the_tools_and_how_to_call_them(self) -> None:
        assert chat_messages(QUESTION, tooling=Tooling((WEATHER,))) == [
            (
                "system",
                "Be brief.\n\nYou can call functions:\n"
                '{"name": "weather", "description": "The weather in a city.", '
                '"parameters": {"city": {"enum": ["Paris", "Rome"]}}}\n\n'
                "Reply with one line and nothing else, one of these two:\n"
                'Call: {"name": <function name>, "arguments": {<its arguments>}}\n'
                "Answer: <the reply to the user>\n\n"
                "Call a function for what you do not know. As soon as you know it, answer.",
            ),
            ("user", "How is it in Paris?"),
        ]

    def test_the_tools_follow_the_system_message_of_the_request(self) -> None:
        (role, system), _ = chat_messages(SystemMessage("Be kind."), QUESTION)
        assert role == "system"
        assert system.startswith("Be kind.\n\nYou can call functions:\n")

    def test_if_a_tool_must_be_called_the_instructions_mention_no_answer(self) -> None:
        system = chat_messages(QUESTION, tooling=Tooling((WEATHER,), "weather"))[0][1]
        assert system.endswith(
            'Call one now: reply with\nCall: {"name": <function name>, "arguments": {<its arguments>}}'
        )
        assert "Answer: " not in system

    def test_after_a_result_the_instructions_ask_for_an_answer(self) -> None:
        system, *rest = chat_messages(QUESTION, TOOL_CALL, RESULT)
        assert system[1].endswith("When you know enough, write: Answer: <the reply to the user>")
        assert rest == [
            ("user", "How is it in Paris?"),
            ("assistant", 'Call: {"name": "weather", "arguments": {"city": "Paris"}}'),
            ("user", 'weather({"city": "Paris"}) returned: rain'),
        ]

    def test_the_results_of_one_reply_are_one_message(self) -> None:
        rome = ToolCall("c2", "weather", '{"city": "Rome"}')
        message = AiMessage("", (*TOOL_CALL.tool_calls, rome))
        assert chat_messages(QUESTION, message, RESULT, ToolMessage("c2", "weather", "sun"))[2:] == [
            (
                "assistant",
                'Call: {"name": "weather", "arguments": {"city": "Paris"}}\n'
                'Call: {"name": "weather", "arguments": {"city": "Rome"}}',
            ),
            (
                "user",
                'weather({"city": "Paris"}) returned: rain\nweather({"city": "Rome"}) returned: sun',
            ),
        ]

    def test_an_earlier_answer_is_sent_as_the_model_wrote_it(self) -> None:
        assert chat_messages(QUESTION, AiMessage("Rain."), QUESTION)[2] == ("assistant", "Answer: Rain.")
        assert chat_messages(QUESTION, AiMessage("Rain."), QUESTION, tooling=None)[2] == (
            "assistant",
            "Rain.",
        )

    def test_a_result_without_its_call_is_sent(self) -> None:
        assert chat_messages(QUESTION, RESULT, tooling=None)[2] == ("user", "weather() returned: rain")


class TestGrammar:
    def test_a_reply_is_calls_or_an_answer(self) -> None:
        constraint = reply_constraint(ChatRequest.of("Hi", tooling=BOTH, response_format=NUMBER))
        grammar = tool_call_grammar(constraint, lambda tool: ANY_OBJECT)
        head, start, calls, call, tool0, tool1, answer = grammar.split("\n")
        assert (head, start) == ("%llguidance {}", "start: calls | answer")
        assert (calls, call) == ('calls: call ("\\n" call){0,3}', "call: tool0 | tool1")
        assert tool0.startswith(
            'tool0: "Call: {\\"name\\": \\"weather\\", \\"arguments\\": " %json {"type": "object"'
        )
        assert tool1.endswith('"}"')
        assert answer.startswith('answer: "Answer: " %json {"type": "object", "properties": {"value"')

    def test_without_parallel_calls_the_grammar_allows_one_call(self) -> None:
        constraint = reply_constraint(
            ChatRequest.of("Hi", tooling=Tooling((WEATHER,), "required", parallel_calls=False))
        )
        rules = tool_call_grammar(constraint, lambda tool: ANY_OBJECT).split("\n")
        assert rules[1:4] == ["start: calls", "calls: call", "call: tool0"]

    def test_a_named_tool_is_the_only_one_in_the_grammar(self) -> None:
        constraint = reply_constraint(ChatRequest.of("Hi", tooling=Tooling((WEATHER, TIMES), "times")))
        assert (constraint.tools, constraint.allows_answer) == ((TIMES,), False)

    def test_after_the_same_call_and_result_twice_only_an_answer_is_allowed(self) -> None:
        again = (replace_id(TOOL_CALL, "c2"), ToolMessage("c2", "weather", "rain"))
        assert reply_constraint(ChatRequest((QUESTION, TOOL_CALL, RESULT), tooling=BOTH)).allows_calls
        assert not reply_constraint(
            ChatRequest((QUESTION, TOOL_CALL, RESULT, *again), tooling=BOTH)
        ).allows_calls
        assert reply_constraint(
            ChatRequest((QUESTION, TOOL_CALL, RESULT, QUESTION, *again), tooling=BOTH)
        ).allows_calls

    def test_a_required_call_is_for_another_tool_than_the_repeated_one(self) -> None:
        messages = (
            QUESTION,
            TOOL_CALL,
            RESULT,
            replace_id(TOOL_CALL, "c2"),
            ToolMessage("c2", "weather", "rain"),
        )
        both, alone = Tooling((WEATHER, TIMES), "required"), Tooling((WEATHER,), "required")
        assert reply_constraint(ChatRequest(messages, tooling=both)).tools == (TIMES,)
        assert reply_constraint(ChatRequest(messages, tooling=alone)).tools == (WEATHER,)

    def test_a_call_with_a_changed_result_may_be_repeated(self) -> None:
        again = (replace_id(TOOL_CALL, "c2"), ToolMessage("c2", "weather", "sun"))
        assert reply_constraint(ChatRequest((QUESTION, TOOL_CALL, RESULT, *again), tooling=BOTH)).allows_calls

    def test_a_required_tool_that_is_not_offered_is_an_error(self) -> None:
        with pytest.raises(BadRequestError) as caught:
            reply_constraint(ChatRequest.of("Hi", tooling=Tooling((WEATHER, TIMES), "clock")))
        assert str(caught.value) == "the tool clock must be called, but the tools are: weather, times"

    def test_tooling_without_tools_is_an_error(self) -> None:
        with pytest.raises(BadRequestError) as caught:
            reply_constraint(ChatRequest.of("Hi", tooling=Tooling(())))
        assert (
            str(caught.value)
            == "the request has tooling without tools: pass at least one tool, or no tooling"
        )


def replace_id(message: AiMessage, id: str) -> AiMessage:
    return AiMessage("", tuple(ToolCall(id, call.name, call.arguments) for call in message.tool_calls))


def read(text: str, size: int) -> tuple[list[ReplyDelta], ChatReply]:
    """Return the deltas and the reply for a text that arrives in pieces of a size."""
    builder, deltas = ReplyBuilder("fake", 99, has_tools=True), []
    for start in range(0, len(text), size):
        delta = builder.add({"choices": [{"delta": {"content": text[start : start + size]}}]})
        deltas += [] if delta is None else [delta]
    builder.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    return deltas, builder.reply()


TWO = (
    'Call: {"name": "weather", "arguments": {"city": "Paris"}}\n'
    'Call: {"name": "times", "arguments": {"a": {"b": {}}, "c": "}\\n{"}}'
)
SIZES = [1, 2, 3, 7, 19, 500]


class TestReading:
    @pytest.mark.parametrize("size", SIZES)
    def test_calls_are_read_from_pieces_of_any_size(self, size: int) -> None:
        deltas, reply = read(TWO, size)
        assert reply.message == AiMessage(
            "",
            (
                ToolCall("call_1", "weather", PARIS),
                ToolCall("call_2", "times", '{"a": {"b": {}}, "c": "}\\n{"}'),
            ),
        )
        assert reply.finish_reason is FinishReason.TOOL_CALLS
        pieces = [piece for delta in deltas for piece in delta.tool_calls]
        for index, call in enumerate(reply.message.tool_calls):
            mine = [piece for piece in pieces if piece.index == index]
            assert {piece.name for piece in mine} == {call.name}
            assert "".join(piece.arguments for piece in mine) == call.arguments

    def test_duplicate_calls_in_a_reply_are_dropped(self) -> None:
        first, second = TWO.split("\n")
        _, reply = read("\n".join([first, second, first, second]), 5)
        assert [call.name for call in reply.message.tool_calls] == ["weather", "times"]

    def test_a_call_is_streamed_from_its_name_on(self) -> None:
        reader = ToolCallReader()
        assert reader.add("Call: ") is None
        opened = reader.add('{"name": "times", "arguments": ')
        assert opened == ReplyDelta(tool_calls=(ToolCallDelta(0, "times", ""),))
        assert reader.add('{"a": 1') == ReplyDelta(tool_calls=(ToolCallDelta(0, "times", '{"a": 1'),))
        assert reader.add("}") is None
        assert reader.add("}") == ReplyDelta(tool_calls=(ToolCallDelta(0, "times", "}"),))
        assert reader.calls == (ToolCall("call_1", "times", '{"a": 1}'),)

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("mark", ["Answer: ", ""])
    def test_an_answer_is_read_without_its_mark(self, size: int, mark: str) -> None:
        text = 'It rains.\nCall: {"name": "weather", "arguments": {}}'
        deltas, reply = read(mark + text, size)
        assert reply.message == AiMessage(text)
        assert "".join(delta.text for delta in deltas) == text
        assert reply.finish_reason is FinishReason.STOP

    @pytest.mark.parametrize("text", ["Ans", "Call: {"])
    def test_a_reply_that_ends_within_a_mark_is_text(self, text: str) -> None:
        assert read(text, 1)[1].message == AiMessage(text)

    def test_without_tools_a_mark_is_plain_text(self) -> None:
        builder = ReplyBuilder("fake", 99)
        assert builder.add({"choices": [{"delta": {"content": "Answer: 3"}}]}) == ReplyDelta("Answer: 3")


class TestCapabilities:
    def test_smollm2_does_not_support_tools(self, tmp_path: Any) -> None:
        small, other = tmp_path / "smollm2.gguf", tmp_path / "other.gguf"
        small.write_bytes(b"GGUF")
        other.write_bytes(b"GGUF")
        assert not LocalChatModel(small).capabilities.tools
        assert LocalChatModel(other).capabilities.tools


# SmolLM2 chooses tools badly, so the tests name the tool. The grammar is enforced all the same.
@pytest.fixture(scope="module")
def model() -> Iterator[LocalChatModel]:
    model = LocalChatModel("smollm2", context_tokens=1024, options=ChatOptions(max_tokens=200))
    yield model
    model.close()


@pytest.mark.peers
@pytest.mark.local_model
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="install the extra local of aiservices first")
@pytest.mark.skipif(
    not is_ready(weights_named("smollm2")),
    reason="no SmolLM2 here: aiservices models pull smollm2",
)
class TestRealCalls:
    def test_a_call_fits_the_schema_of_its_tool(self, model: LocalChatModel) -> None:
        one = Tooling((WEATHER, TIMES), "weather", parallel_calls=False)
        reply = model.complete(ChatRequest((QUESTION,), tooling=one))
        (call,) = reply.message.tool_calls
        assert call.name == "weather"
        assert json.loads(call.arguments) in ({"city": "Paris"}, {"city": "Rome"})
        assert (reply.text, reply.finish_reason) == ("", FinishReason.TOOL_CALLS)
        assert reply.usage is not None

    def test_a_streamed_call_joins_to_the_reply(self, model: LocalChatModel) -> None:
        deltas = list(model.stream(ChatRequest((QUESTION,), tooling=Tooling((TIMES,), "required"))))
        reply = deltas[-1].reply
        assert reply is not None
        pieces = [piece for delta in deltas for piece in delta.tool_calls]
        assert 1 <= len(reply.message.tool_calls) <= 4
        for index, call in enumerate(reply.message.tool_calls):
            written = "".join(piece.arguments for piece in pieces if piece.index == index)
            assert written == call.arguments
            assert list(json.loads(written)) == ["a", "b"]

    def test_a_typed_answer_is_enforced_when_tools_are_offered(self, model: LocalChatModel) -> None:
        again = (replace_id(TOOL_CALL, "c2"), ToolMessage("c2", "weather", "rain"))
        asked = ChatRequest((QUESTION, TOOL_CALL, RESULT, *again), response_format=NUMBER, tooling=BOTH)
        reply = model.complete(asked)
        assert json.loads(reply.text)["value"] <= 99
        assert reply.message.tool_calls == ()

    def test_a_tool_whose_schema_is_not_supported_can_be_called(self, model: LocalChatModel) -> None:
        odd = ToolSpecification("odd", "Odd.", arguments(code={"type": "string", "pattern": "^(?!x)y"}))
        reply = model.complete(ChatRequest((QUESTION,), tooling=Tooling((odd,), "odd", parallel_calls=False)))
        assert [call.name for call in reply.message.tool_calls] == ["odd"]

    def test_an_answer_type_that_is_not_supported_with_tools_is_an_error(self, model: LocalChatModel) -> None:
        wanted = JsonSchemaFormat("answer", arguments(code={"type": "string", "pattern": "^(?!x)y"}))
        with pytest.raises(BadRequestError) as caught:
            model.complete(ChatRequest((QUESTION,), response_format=wanted, tooling=BOTH))
        assert str(caught.value) == (
            "the embedded model smollm2 does not accept the request: invalid schema. With tools, "
            "the type of the answer cannot be enforced: use a simpler type or no tools"
        )
        assert caught.value.status == 400
