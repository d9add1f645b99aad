"""Behaviour of services and memory in LangChain4j and Quarkus that no other test checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import pytest
from tool_calling import ADD_CALL, add, strict_provider, tool_calls_reply

from aiservices import (
    AiMessage,
    AuthenticationError,
    ChatOptions,
    ChatReply,
    FinishReason,
    Image,
    MemoryId,
    Message,
    Result,
    ScriptedChatModel,
    SystemMessage,
    Usage,
    UserMessage,
    create,
    example,
    system_message,
    user_message,
)
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore
from aiservices.retrieval import Content, Query, RetrievalAugmentor


@runtime_checkable
class Chat(Protocol):
    def chat(self, text: str) -> str: ...


class Rooms(Protocol):
    def chat(self, room: Annotated[str, MemoryId], text: str) -> str: ...


# services


def test_a_service_is_equal_to_itself_alone_and_asks_nothing_for_it() -> None:
    model = ScriptedChatModel([])
    one, other = create(Chat, model), create(Chat, model)
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2
    assert isinstance(one, Chat)
    assert model.requests == []


def test_a_parameter_with_annotations_of_others_is_the_user_message() -> None:
    class Tasks(Protocol):
        def task(self, text: Annotated[str, "a comment", object()]) -> str: ...

    model = ScriptedChatModel(["Hi"])
    assert create(Tasks, model).task("Hello") == "Hi"
    assert model.requests[0].messages == (UserMessage("Hello"),)


# messages


def test_the_file_of_a_prompt_is_read_as_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes("Übersetze „{{text}}“ – 你好".encode())

    class Translator(Protocol):
        @user_message(from_file=path)
        def translate(self, text: str) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(Translator, model).translate("tea")
    assert model.requests[0].messages[0].text == "Übersetze „tea“ – 你好"


def test_the_entries_of_a_dict_can_be_used_in_a_template() -> None:
    class Teller(Protocol):
        @user_message("Tell of {{about.animal}} in {{about['place']}}.")
        def tell(self, about: dict[str, str]) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(Teller, model).tell({"animal": "a cat", "place": "Rome"})
    assert model.requests[0].messages[0].text == "Tell of a cat in Rome."


def test_literal_braces_in_an_argument_are_kept() -> None:
    class Summaries(Protocol):
        @system_message("Summarize in up to {{maximum}} words.")
        def summarize(self, text: Annotated[str, UserMessage], maximum: int) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(Summaries, model).summarize("Connect to {{ host }} and {port} please", 9)
    assert [message.text for message in model.requests[0].messages] == [
        "Summarize in up to 9 words.",
        "Connect to {{ host }} and {port} please",
    ]


def test_the_options_of_a_call_may_be_left_out_or_none() -> None:
    class Tuned(Protocol):
        def chat(self, text: str, options: ChatOptions | None = None) -> str: ...

    model = ScriptedChatModel(["a", "b", "c"])
    tuned = create(Tuned, model, options=ChatOptions(temperature=0.1, max_tokens=9))
    tuned.chat("x")
    tuned.chat("x", None)
    tuned.chat("x", ChatOptions(temperature=0.9, model="other"))
    chosen = [(one.options.temperature, one.options.max_tokens, one.options.model) for one in model.requests]
    assert chosen == [(0.1, 9, None), (0.1, 9, None), (0.9, 9, "other")]


def test_the_conversation_of_a_service_can_be_in_the_prompt_of_another() -> None:
    class Summaries(Protocol):
        @user_message("Summarize:\n{{dialogue}}")
        def summarize(self, dialogue: list[Message]) -> str: ...

    memory = ChatMemory()
    create(Rooms, ScriptedChatModel(["Hello Ann."]), interceptors=[memory]).chat("r1", "I am Ann.")
    model = ScriptedChatModel(["Ann said hello."])
    create(Summaries, model).summarize(list(memory.messages("r1")))
    assert model.requests[0].messages[0].text == "Summarize:\nuser: I am Ann.\nassistant: Hello Ann."


def test_the_text_of_a_message_is_searched_and_its_images_stay() -> None:
    asked: list[str] = []

    class Rules:
        def retrieve(self, query: Query, /) -> list[Content]:
            asked.append(query.text)
            return [Content("Lamps cost 9.")]

    class Shop(Protocol):
        def price(self, text: Annotated[str, UserMessage], picture: Image) -> str: ...

    model = ScriptedChatModel(["9"])
    lamp = Image(b"\x89PNG\r\n\x1a\n", "image/png")
    create(Shop, model, interceptors=[RetrievalAugmentor(Rules())]).price("What does it cost?", lamp)
    (message,) = model.requests[0].messages
    assert asked == ["What does it cost?"]
    assert "Lamps cost 9." in message.text
    assert isinstance(message, UserMessage)
    assert lamp in message.contents


# results


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_usage_of_all_rounds_of_tools_is_added_up(rounds: int) -> None:
    class Asks(Protocol):
        def ask(self, text: str) -> Result[str]: ...

    def reply(number: int) -> ChatReply:
        calls = tool_calls_reply((*ADD_CALL, f"c{number}")).message if number < rounds else AiMessage("3")
        reason = FinishReason.TOOL_CALLS if number < rounds else FinishReason.STOP
        return ChatReply(calls, reason, usage=Usage(10 + number, 5))

    model = ScriptedChatModel([reply(number) for number in range(rounds + 1)])
    result = create(Asks, model, tools=[add]).ask("x")
    assert result.usage.input_tokens == sum(10 + number for number in range(rounds + 1))
    assert result.usage.output_tokens == 5 * (rounds + 1)
    assert result.finish_reason is FinishReason.STOP


def test_another_method_can_be_the_fallback_of_one_that_failed() -> None:
    class Poet(Protocol):
        @user_message("Write a poem about {{topic}}.")
        def poem(self, topic: str) -> str: ...

        def poem_or_excuse(self, topic: str) -> str:
            try:
                return self.poem(topic)
            except AuthenticationError:
                return f"I cannot write about {topic}."

    model = ScriptedChatModel([AuthenticationError("no key"), "Roses."])
    poet = create(Poet, model)
    assert poet.poem_or_excuse("roses") == "I cannot write about roses."
    assert poet.poem_or_excuse("roses") == "Roses."


# memory


def test_a_conversation_may_begin_with_messages_that_the_program_stored() -> None:
    store = InMemoryChatMemoryStore()
    store.append("Rooms/r1", [UserMessage("great!"), AiMessage("POSITIVE")], expected=0)
    model = ScriptedChatModel(["NEUTRAL"])
    create(Rooms, model, interceptors=[ChatMemory(store=store)]).chat("r1", "The earth is round.")
    assert [message.text for message in model.requests[0].messages] == [
        "great!",
        "POSITIVE",
        "The earth is round.",
    ]


def test_examples_come_before_each_conversation_and_are_not_stored() -> None:
    class Moods(Protocol):
        @example("great!", returns="POSITIVE")
        @user_message("{{text}}")
        def mood(self, room: Annotated[str, MemoryId], text: str) -> str: ...

    memory = ChatMemory()
    model = ScriptedChatModel(["NEUTRAL", "NEGATIVE"])
    moods = create(Moods, model, interceptors=[memory])
    moods.mood("r1", "The earth is round.")
    moods.mood("r1", "It rains.")
    assert [message.text for message in model.requests[1].messages] == [
        "great!",
        "POSITIVE",
        "The earth is round.",
        "NEUTRAL",
        "It rains.",
    ]
    assert len(memory.messages("r1")) == 4


def test_a_call_with_rounds_of_tools_reads_and_writes_the_store_once() -> None:
    class Counting(InMemoryChatMemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.used: list[str] = []

        def load(self, *args: Any, **kwargs: Any) -> Any:
            self.used.append("load")
            return super().load(*args, **kwargs)

        def append(self, *args: Any, **kwargs: Any) -> Any:
            self.used.append("append")
            return super().append(*args, **kwargs)

    store = Counting()
    model = strict_provider(tool_calls_reply(ADD_CALL), tool_calls_reply((*ADD_CALL, "c2")), "3")
    create(Rooms, model, tools=[add], interceptors=[ChatMemory(store=store)]).chat("r1", "x")
    assert store.used == ["load", "append"]


def test_the_system_message_of_the_service_follows_the_conversation() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["a", "b"])
    first = create(Rooms, model, system_message="Be brief.", interceptors=[memory])
    first.chat("r1", "x")
    later = create(Rooms, model, system_message="Be kind.", interceptors=[memory])
    later.chat("r1", "y")
    assert model.requests[1].messages == (
        SystemMessage("Be kind."),
        UserMessage("x"),
        AiMessage("a"),
        UserMessage("y"),
    )


def test_a_stream_that_is_left_in_a_round_of_tools_stores_nothing_and_asks_nothing_more() -> None:
    class Streams(Protocol):
        def chat(self, room: Annotated[str, MemoryId], text: str) -> Iterator[str]: ...

    memory = ChatMemory()
    model = strict_provider(tool_calls_reply(ADD_CALL, text="Let me see"), "3")
    pieces = create(Streams, model, tools=[add], interceptors=[memory]).chat("r1", "x")
    assert next(pieces) == "Let "
    pieces.close()  # type: ignore[attr-defined]
    assert len(model.requests) == 1
    assert memory.messages("r1") == ()
