"""Conversations are written as each API requires them, whatever wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import pytest
from loopback import Loopback, json_reply

from aiservices import (
    AiMessage,
    AnthropicChatModel,
    ChatRequest,
    Image,
    MemoryId,
    OpenAiChatModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.models.conversation import (
    ConversationRules,
    ConversationWriter,
    arguments_text,
    prepare,
)
from aiservices.models.messages import Message
from aiservices.models.presets import CHAT_RULES, PRESETS

MISTRAL = PRESETS["mistral"].conversation
PICTURE = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
QUESTION, ANSWER = UserMessage("How warm is it?"), AiMessage("21 degrees")
CALL = ToolCall("call_1", "weather", "{}")
RESULT = ToolMessage("call_1", "weather", "21")
ROUND: list[Message] = [QUESTION, AiMessage("", (CALL,)), RESULT, ANSWER]


def prepared(*messages: Message, rules: ConversationRules = CHAT_RULES) -> list[Message]:
    return prepare(messages, rules, "p")


# --- Names, ids and arguments ---


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("weather", "weather"),
        ("browser.tabs.open", "browser_tabs_open"),
        ("weather<|channel|>json", "weather__channel__json"),
        ("", "unnamed"),
        ("x" * 64, "x" * 64),
    ],
)
def test_the_name_of_a_tool_has_only_characters_that_apis_accept(name: str, expected: str) -> None:
    assert CHAT_RULES.tool_name(name) == expected


def test_long_names_that_differ_at_their_end_stay_different() -> None:
    names = {CHAT_RULES.tool_name("x" * 70 + end) for end in "abc"}
    assert len(names) == 3
    assert {len(name) for name in names} == {64}


def test_an_api_may_require_a_letter_at_the_beginning_of_a_name() -> None:
    rules = ConversationRules(tool_names="[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
    assert [rules.tool_name(name) for name in ("3d", "-x", "a")] == ["_3d", "_-x", "a"]
    assert re.fullmatch(rules.tool_names, rules.tool_name("3" * 64))


@pytest.mark.parametrize("call_id", ["call_1", "", "toolu_01AbCdEf", "käse", "x" * 80, "\ud800"])
def test_mistral_gets_ids_of_9_letters_or_digits(call_id: str) -> None:
    assert re.fullmatch("[a-zA-Z0-9]{9}", MISTRAL.call_id(call_id))
    assert MISTRAL.call_id(call_id) == MISTRAL.call_id(call_id)


def test_an_id_that_an_api_accepts_is_not_changed() -> None:
    assert MISTRAL.call_id("D681PevKs") == "D681PevKs"
    assert CHAT_RULES.call_id("functions.weather:0") == "functions.weather:0"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ("[1]", '{"arguments":[1]}'),
        ("null", '{"arguments":null}'),
        ('{"a": 1', '{"arguments":"{\\"a\\": 1"}'),
        ("{}{}", '{"arguments":"{}{}"}'),
        ('```json\n{"a": 1}\n```', '{"arguments":"```json\\n{\\"a\\": 1}\\n```"}'),
        ('{"a": NaN}', '{"arguments":"{\\"a\\": NaN}"}'),
        ('{"arguments": "x"}', '{"arguments": "x"}'),
    ],
)
def test_arguments_are_the_text_of_a_json_object(arguments: str, expected: str) -> None:
    assert arguments_text(arguments) == expected
    assert isinstance(json.loads(arguments_text(arguments)), dict)


# --- Calls and results ---


def test_a_conversation_that_follows_the_rules_is_not_changed() -> None:
    assert prepared(SystemMessage("Be brief."), *ROUND) == [SystemMessage("Be brief."), *ROUND]


def test_calls_with_the_same_id_or_none_get_ids_of_their_own_and_so_do_their_results() -> None:
    calls = (ToolCall("", "a", "{}"), ToolCall("", "b", "{}"), ToolCall("x", "c", "{}"))
    again = (ToolCall("x", "c", "{}"),)
    messages = prepared(
        QUESTION,
        AiMessage("", calls),
        ToolMessage("", "a", "1"),
        ToolMessage("", "b", "2"),
        ToolMessage("x", "c", "3"),
        AiMessage("", again),
        ToolMessage("x", "c", "4"),
    )
    ids = [call.id for message in messages if isinstance(message, AiMessage) for call in message.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert len(set(ids)) == 4
    assert "" not in ids
    assert [(one.call_id, one.text) for one in results] == list(zip(ids, "1234", strict=True))


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    assert prepared(QUESTION, AiMessage("", (CALL,)), UserMessage("And now?")) == [
        QUESTION,
        AiMessage("", (CALL,)),
        ToolMessage("call_1", "weather", "(no result: the call was not finished)", failed=True),
        UserMessage("And now?"),
    ]


def test_the_calls_of_the_last_message_may_wait() -> None:
    assert prepared(QUESTION, AiMessage("", (CALL,))) == [QUESTION, AiMessage("", (CALL,))]


def test_a_result_without_a_call_is_a_message_of_the_user() -> None:
    assert prepared(RESULT, QUESTION) == [
        UserMessage("The result of the tool weather:\n21"),
        QUESTION,
    ]


def test_results_are_moved_to_their_calls() -> None:
    assert prepared(QUESTION, AiMessage("", (CALL,)), UserMessage("Hurry!"), RESULT, ANSWER) == [
        QUESTION,
        AiMessage("", (CALL,)),
        RESULT,
        UserMessage("Hurry!"),
        ANSWER,
    ]


def test_answers_in_a_row_with_calls_are_one_answer_for_apis_that_require_it() -> None:
    other = ToolCall("call_2", "time", "{}")
    messages = [
        QUESTION,
        AiMessage("", (CALL,)),
        AiMessage("", (other,)),
        RESULT,
        ToolMessage("call_2", "time", "9"),
    ]
    assert prepared(*messages)[1] == AiMessage("", (CALL, other))
    assert prepared(*messages, rules=ConversationRules()) == messages


# --- Empty answers, order and images ---


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_left_out(text: str) -> None:
    assert prepared(QUESTION, AiMessage(text), QUESTION) == [QUESTION, QUESTION]


def test_an_empty_answer_with_provider_state_is_kept_only_where_the_state_is_its_content() -> None:
    answer = AiMessage("").with_state("p", "m", [{"type": "reasoning"}])
    assert prepared(QUESTION, answer, QUESTION, rules=ConversationRules()) == [QUESTION, answer, QUESTION]
    assert prepared(QUESTION, answer, QUESTION) == [QUESTION, QUESTION]


def test_users_alternate_with_the_model_for_servers_that_require_it() -> None:
    messages: list[Message] = [
        SystemMessage("Be brief."),
        SystemMessage("Be kind."),
        QUESTION,
        AiMessage(""),
        UserMessage("Well?", "ann"),
        ANSWER,
        SystemMessage("Be quick."),
        UserMessage("Look:", contents=("Look:", PICTURE)),
    ]
    assert prepared(*messages, rules=MISTRAL) == [
        SystemMessage("Be brief.\n\nBe kind."),
        UserMessage("How warm is it?\n\nann:\n\nWell?"),
        ANSWER,
        UserMessage("Be quick.Look:", contents=("Be quick.", "Look:", PICTURE)),
    ]


def test_a_conversation_that_begins_with_the_model_gets_a_message_of_the_user() -> None:
    first, *others = prepared(ANSWER, QUESTION, rules=MISTRAL)
    assert first == UserMessage("(The beginning of the conversation is left out.)")
    assert others == [ANSWER, QUESTION]


def test_system_messages_before_answers_stay_and_others_become_the_users() -> None:
    rules = ConversationRules(system="before answers")
    system = SystemMessage("Be brief.")
    messages = [QUESTION, system, ANSWER, system, ANSWER, system, QUESTION, system]
    as_user = UserMessage("Be brief.")
    assert prepared(*messages, rules=rules) == [
        QUESTION,
        system,
        ANSWER,
        as_user,
        ANSWER,
        as_user,
        QUESTION,
        system,
    ]


def test_images_of_answers_and_results_are_sent_by_the_user_after_the_results() -> None:
    answer = AiMessage("Look", (CALL,), contents=("Look", PICTURE))
    result = ToolMessage("call_1", "weather", "21", contents=(PICTURE,))
    *_, last = prepared(QUESTION, answer, result)
    assert isinstance(last, UserMessage)
    assert last.contents == ("From your answer:", PICTURE, "From the result of the tool weather:", PICTURE)
    assert prepared(QUESTION, answer, result, rules=ConversationRules(answer_images="any"))[1:] == [
        answer,
        result,
    ]


# --- Writing ---


def encode(message: Message) -> tuple[str, Sequence[object]]:
    WRITTEN.append(message)
    role = "model" if isinstance(message, AiMessage) else "user"
    return role, [message.text]


WRITTEN: list[Message] = []


def long_conversation(rounds: int) -> list[Message]:
    messages: list[Message] = [UserMessage("How warm is it?")]
    for number in range(rounds):
        call = ToolCall(f"call_{number}", "weather", "{}")
        messages += [AiMessage(f"Round {number}", (call,)), ToolMessage(call.id, "weather", "21")]
    return messages


@pytest.mark.parametrize("content", ["", "blocks"])
@pytest.mark.parametrize("rules", [ConversationRules(), MISTRAL])
def test_a_further_round_of_tools_encodes_only_its_own_messages(
    content: str, rules: ConversationRules
) -> None:
    write = ConversationWriter(rules, "p", encode, content=content)
    messages = long_conversation(20)
    for count in range(1, len(messages) + 1, 2):
        WRITTEN.clear()
        written = write(tuple(messages[:count]))
        assert [id(one) for one in WRITTEN] == [id(one) for one in messages[max(count - 2, 0) : count]]
        fresh = ConversationWriter(rules, "p", encode, content=content, variant="fresh")
        assert written == fresh(tuple(long_conversation(20)[:count]))
        assert json.loads(written)


def test_the_steps_for_a_round_of_tools_do_not_grow_with_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = ConversationWriter(CHAT_RULES, "p", encode)
    checked: list[int] = []
    follows_rules = write.follows_rules

    def counted(messages: Sequence[Message], *args: Any, **settings: Any) -> bool:
        checked.append(len(messages))
        return follows_rules(messages, *args, **settings)

    monkeypatch.setattr(write, "follows_rules", counted)
    messages = long_conversation(200)
    write(tuple(messages[:399]))
    write(tuple(messages))
    assert checked == [399, 2]


def test_a_writer_keeps_few_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.models.conversation._MAX_BEGINNINGS", 3)
    write = ConversationWriter(CHAT_RULES, "p", encode)
    conversations = [long_conversation(10) for _ in range(5)]
    for messages in conversations:
        write(tuple(messages))
    assert list(write._beginnings) == [id(messages[-1]) for messages in conversations[-3:]]


def test_calls_that_wait_at_the_end_get_their_missing_results_in_the_next_request() -> None:
    write = ConversationWriter(CHAT_RULES, "p", encode)
    messages = [*long_conversation(10), AiMessage("", (ToolCall("last", "weather", "{}"),))]
    write(tuple(messages))
    written = json.loads(write((*messages, ANSWER)))
    assert written[-3:] == ["", "(no result: the call was not finished)", ANSWER.text]


def test_an_edited_message_in_the_middle_is_noticed() -> None:
    write = ConversationWriter(CHAT_RULES, "p", encode)
    messages = long_conversation(20)
    write(tuple(messages[:39]))
    messages[4] = ToolMessage("call_1", "weather", "22")
    assert json.loads(write(tuple(messages)))[4] == "22"


def test_an_answer_that_lost_its_provider_state_is_written_again() -> None:
    def with_state(message: Message) -> tuple[str, Sequence[object]]:
        return "", [message.state is not None if isinstance(message, AiMessage) else message.text]

    write = ConversationWriter(CHAT_RULES, "p", with_state)
    messages = long_conversation(20)
    plain = messages[1]
    assert isinstance(plain, AiMessage)
    messages[1] = plain.with_state("p", "m", [1])
    assert json.loads(write(tuple(messages[:39])))[1] is True
    messages[1] = plain
    assert json.loads(write(tuple(messages)))[1] is False


def test_the_kept_json_is_not_a_part_of_a_message() -> None:
    message = UserMessage("Hi")
    ConversationWriter(CHAT_RULES, "p", encode)((message,))
    assert message == UserMessage("Hi")
    assert repr(message) == "UserMessage(text='Hi', name=None, contents=())"


def test_a_message_does_not_keep_a_large_file() -> None:
    write = ConversationWriter(CHAT_RULES, "p", encode)
    small, large = UserMessage("x"), UserMessage("x" * 2**20)
    for message in (small, large):
        write((message,))
    assert [hasattr(message, "encoded") for message in (small, large)] == [True, False]


# --- Strict servers ---


def chat_reply(text: str | None, *calls: tuple[Any, str, str]) -> Any:
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if calls else {})}
    return json_reply({"choices": [{"message": message, "finish_reason": "stop"}]})


class Chat(Protocol):
    @user_message("{{text}}")
    def ask(self, talk: Annotated[str, MemoryId], text: str) -> str: ...


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("provider", ["mistral", "moonshot", "llamacpp", "openai"])
def test_a_conversation_with_an_empty_answer_goes_on(loopback: Loopback, provider: str) -> None:
    loopback.reply(chat_reply(""), chat_reply("Hello"))
    model = OpenAiChatModel("m", provider=provider, base_url=loopback.base_url, api_key="k")
    service = create(Chat, model, interceptors=[ChatMemory()])
    assert service.ask("1", "Hi") == ""
    assert service.ask("1", "Well?") == "Hello"
    assert all(one["role"] != "assistant" for one in loopback.requests[1].json["messages"])


@pytest.mark.parametrize(
    "call",
    [
        (None, "weather", '{"city": "Oslo"}'),
        ("call_7", "weather<|channel|>json", "{}"),
        ("x" * 70, "browser.tabs.open", '{"a": 1'),
        ("call_8", "weather", '{"city": "Oslo"}{"city": "Rome"}'),
    ],
)
def test_what_a_model_wrote_is_sent_back_in_a_form_that_mistral_accepts(
    loopback: Loopback, call: tuple[Any, str, str]
) -> None:
    loopback.reply(chat_reply(None, call), chat_reply("Sunny"))
    model = OpenAiChatModel("m", provider="mistral", base_url=loopback.base_url, api_key="k")
    service = create(Chat, model, tools=[weather], interceptors=[ChatMemory()])
    assert service.ask("1", "Weather in Oslo?") == "Sunny"
    *_, answer, result = loopback.requests[1].json["messages"]
    (sent,) = answer["tool_calls"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", sent["id"])
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", sent["function"]["name"])
    assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert result["tool_call_id"] == sent["id"]


def test_a_history_of_the_caller_follows_the_same_rules(loopback: Loopback) -> None:
    loopback.reply(chat_reply("Hello"))
    model = OpenAiChatModel("m", provider="mistral", base_url=loopback.base_url, api_key="k")
    model.complete(ChatRequest((AiMessage(""), *ROUND, UserMessage("Why?"), UserMessage("Well?"))))
    roles = [one["role"] for one in loopback.requests[0].json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_an_image_that_another_model_made_reaches_claude() -> None:
    model = AnthropicChatModel("claude-opus-5-5", api_key="k")
    messages = (QUESTION, AiMessage("Look", contents=("Look", PICTURE)), UserMessage("Brighter!"))
    sent = json.loads(model.http_request(ChatRequest(messages)).body)["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent[2]["content"]] == ["text", "image", "text"]
