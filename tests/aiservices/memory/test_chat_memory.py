"""ChatMemory adds earlier exchanges to a request and stores accepted exchanges completely."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Protocol
from uuid import UUID

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    ChatReply,
    DefinitionError,
    FinishReason,
    History,
    MemoryId,
    Message,
    ModelServerError,
    RefusalError,
    Retry,
    ScriptedChatModel,
    ServiceOutputError,
    SystemMessage,
    ToolCall,
    TruncatedError,
    UserMessage,
    create,
    system_message,
    user_message,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from aiservices.memory import (
    ChatMemory,
    InMemoryChatMemoryStore,
    MessageWindow,
    StoredConversation,
    WindowView,
)


class Chat(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...


class Single(Protocol):
    def chat(self, text: str) -> str: ...


class Counter(Protocol):
    @user_message("Count {{text}}.\n\n{{format_instructions}}")
    def count(self, text: str) -> int: ...


def test_a_call_gets_the_earlier_messages_of_its_conversation() -> None:
    model = ScriptedChatModel(["hello Ann", "you are Ann", "who are you"])
    chat = create(Chat, model, interceptors=[ChatMemory()])
    chat.chat("a", "I am Ann")
    chat.chat("a", "who am I?")
    chat.chat("b", "who am I?")
    assert [request.messages for request in model.requests] == [
        (UserMessage("I am Ann"),),
        (UserMessage("I am Ann"), AiMessage("hello Ann"), UserMessage("who am I?")),
        (UserMessage("who am I?"),),
    ]


def test_each_conversation_stores_its_own_messages() -> None:
    memory = ChatMemory()
    chat = create(Chat, ScriptedChatModel(["1", "2", "3"]), interceptors=[memory])
    for id, text in (("a", "x"), ("b", "y"), ("a", "z")):
        chat.chat(id, text)
    assert (memory.messages("a"), memory.messages("b")) == (
        (UserMessage("x"), AiMessage("1"), UserMessage("z"), AiMessage("3")),
        (UserMessage("y"), AiMessage("2")),
    )


def test_methods_without_a_memory_id_share_one_conversation() -> None:
    memory = ChatMemory()
    create(Single, ScriptedChatModel(["1"]), interceptors=[memory]).chat("x")
    assert memory.messages() == memory.store.load("Single").messages == (UserMessage("x"), AiMessage("1"))


def test_a_conversation_can_be_forgotten_without_naming_it() -> None:
    memory = ChatMemory()
    create(Single, ScriptedChatModel(["1"]), interceptors=[memory]).chat("x")
    memory.forget()
    assert memory.messages() == ()


@pytest.mark.parametrize(("memory_id", "named"), [(7, 7), (UUID(int=7), str(UUID(int=7)))])
def test_an_int_or_a_uuid_can_be_the_memory_id(memory_id: Any, named: int | str) -> None:
    class Numbered(Protocol):
        def chat(self, id: Annotated[int | UUID, MemoryId], text: str) -> str: ...

    memory = ChatMemory()
    create(Numbered, ScriptedChatModel(["1"]), interceptors=[memory]).chat(memory_id, "x")
    assert memory.messages(named) == (UserMessage("x"), AiMessage("1"))
    assert memory.messages("7") == ()


EXPECTED = "it must be a str, an int, a UUID, or a frozen record of them"


@pytest.mark.parametrize(
    ("id", "kind", "expected"),
    [
        (
            None,
            TypeError,
            f"Chat.chat: the memory id is None; {EXPECTED}",
        ),
        (
            True,
            TypeError,
            f"Chat.chat: the memory id is bool; {EXPECTED}",
        ),
        (
            ("a", 1),
            TypeError,
            f"Chat.chat: the memory id is tuple; {EXPECTED}",
        ),
        (
            " ",
            ValueError,
            "Chat.chat: the memory id is ' '; pass the id of a conversation, because all users with an empty "
            "id would share one",
        ),
        (
            "ann\ud800",
            ValueError,
            "Chat.chat: the memory id is 'ann\\ud800', which is not valid Unicode",
        ),
    ],
)
def test_an_unusable_memory_id_is_refused(id: Any, kind: type[Exception], expected: str) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(kind) as caught:
        create(Chat, model, interceptors=[ChatMemory()]).chat(id, "x")
    assert (str(caught.value), model.requests) == (expected, [])


def test_the_system_message_of_the_method_comes_first_and_is_not_stored() -> None:
    class Two(Protocol):
        @system_message("Be brief.")
        def brief(self, text: str) -> str: ...

        @system_message("Be kind.")
        def kind(self, text: str) -> str: ...

    memory, model = ChatMemory(), ScriptedChatModel(["1", "2"])
    service = create(Two, model, interceptors=[memory])
    service.brief("x")
    service.kind("y")
    assert model.requests[1].messages == (
        SystemMessage("Be kind."),
        UserMessage("x"),
        AiMessage("1"),
        UserMessage("y"),
    )
    assert memory.messages() == (UserMessage("x"), AiMessage("1"), UserMessage("y"), AiMessage("2"))


@pytest.mark.parametrize(("own", "sent"), [(None, "new"), ("own", "own")])
def test_a_stored_system_message_is_sent_if_the_method_has_none(own: str | None, sent: str) -> None:
    store = InMemoryChatMemoryStore()
    before = (SystemMessage("old"), UserMessage("x"), SystemMessage("new"), AiMessage("1"))
    store.append("Single", before, expected=0)
    model = ScriptedChatModel(["2"])
    create(Single, model, interceptors=[ChatMemory(store=store)], system_message=own).chat("y")
    expected = (SystemMessage(sent), UserMessage("x"), AiMessage("1"), UserMessage("y"))
    assert model.requests[0].messages == expected


def test_a_history_argument_follows_the_stored_messages_and_is_not_stored() -> None:
    class WithHistory(Protocol):
        def chat(self, past: Annotated[list[Message], History], text: str) -> str: ...

    memory, model = ChatMemory(), ScriptedChatModel(["1", "2"])
    service = create(WithHistory, model, interceptors=[memory])
    service.chat([], "x")
    service.chat([UserMessage("p"), AiMessage("q")], "y")
    expected = ("x", "1", "p", "q", "y")
    assert tuple(message.text for message in model.requests[1].messages) == expected
    assert memory.messages() == (UserMessage("x"), AiMessage("1"), UserMessage("y"), AiMessage("2"))


def retrieving(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
    *before, question = invocation.request.messages
    question_with_text = replace(question, text=f"{question.text}\nUse this: 42")
    request = replace(invocation.request, messages=(*before, question_with_text))
    return (yield from proceed(replace(invocation, request=request)))


def test_retrieved_text_and_instructions_are_sent_but_not_stored() -> None:
    memory = ChatMemory()
    model = ScriptedChatModel(["7"])
    create(Counter, model, strategy="prompt", interceptors=[memory, retrieving]).count("x")
    sent = "Count x.\n\nReply with the value only, in this form: integer\nUse this: 42"
    assert model.requests[0].messages == (UserMessage(sent),)
    assert memory.messages() == (UserMessage("Count x."), AiMessage("7"))


def test_store_as_sent_stores_the_sent_message() -> None:
    memory = ChatMemory(store_as_sent=True)
    model = ScriptedChatModel(["many", "7"])
    create(Counter, model, strategy="prompt", interceptors=[memory, retrieving]).count("x")
    assert memory.messages() == (model.requests[1].messages[0], AiMessage("7"))
    assert "Use this: 42" in memory.messages()[0].text


def test_a_transformer_still_runs_with_store_as_sent() -> None:
    memory = ChatMemory(store_as_sent=True)
    model = ScriptedChatModel(["1", "2"])
    service = create(
        Single,
        model,
        interceptors=[memory],
        transform=lambda request: replace(
            request, messages=(*request.messages[:-1], UserMessage(request.messages[-1].text.upper()))
        ),
    )
    service.chat("x")
    service.chat("y")
    assert memory.messages() == (UserMessage("X"), AiMessage("1"), UserMessage("Y"), AiMessage("2"))
    assert model.requests[1].messages == (UserMessage("X"), AiMessage("1"), UserMessage("Y"))


def test_text_that_was_removed_before_the_memory_is_not_stored() -> None:
    def redact(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        messages = tuple(
            replace(one, text=one.text.replace("Ann", "***")) for one in invocation.request.messages
        )
        return (
            yield from proceed(replace(invocation, request=replace(invocation.request, messages=messages)))
        )

    memory = ChatMemory()
    create(Single, ScriptedChatModel(["hi"]), interceptors=[redact, memory, retrieving]).chat("I am Ann")
    assert memory.messages() == (UserMessage("I am ***"), AiMessage("hi"))


class Refused(AiServiceError):
    """An error for an answer that a guardrail refused."""


def refusing(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
    yield from proceed(invocation)
    raise Refused("not that")


FAILED: list[tuple[Any, type[AiServiceError], list[Any]]] = [
    (ModelServerError("500", status=500), ModelServerError, []),
    (ChatReply(AiMessage("no"), refusal="no"), RefusalError, []),
    (ChatReply(AiMessage("4"), FinishReason.LENGTH), TruncatedError, []),
    ("many", ServiceOutputError, []),
    ('{"value": 7}', Refused, [refusing]),
]


@pytest.mark.parametrize(("reply", "kind", "inner"), FAILED)
def test_a_failed_call_stores_nothing(reply: Any, kind: type[AiServiceError], inner: list[Any]) -> None:
    memory = ChatMemory(namespace="Counter")  # of both services
    model = ScriptedChatModel(['{"value": 1}', reply, '{"value": 2}'])
    counter = create(Counter, model, interceptors=[memory], retry=None)
    counter.count("x")
    before = memory.messages()
    failing = create(Counter, model, interceptors=[memory, *inner], retry=None)
    with pytest.raises(kind):
        failing.count("y")
    assert memory.messages() == before
    counter.count("z")
    assert memory.messages() == (*before, UserMessage("Count z."), AiMessage('{"value": 2}'))


def test_the_accepted_answer_is_stored_and_the_rejected_one_is_not() -> None:
    memory = ChatMemory()
    model = ScriptedChatModel(["many", '{"value": 7}'])
    create(Counter, model, interceptors=[memory], retry=Retry()).count("x")
    assert memory.messages() == (UserMessage("Count x."), AiMessage('{"value": 7}'))


def test_an_answer_of_an_interceptor_is_stored_like_one_of_the_model() -> None:
    def answering(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        return Answer(7, ChatReply(AiMessage("7")), ())
        yield

    memory = ChatMemory(store_as_sent=True)
    create(Counter, ScriptedChatModel([]), interceptors=[memory, answering]).count("x")
    assert memory.messages() == (UserMessage("Count x."), AiMessage("7"))


def test_an_answer_that_is_a_tool_call_is_stored_as_text() -> None:
    memory = ChatMemory()
    call = ToolCall("1", "answer", '{"value": 7}')
    model = ScriptedChatModel(
        lambda request: ChatReply(AiMessage("", (replace(call, name=request.tooling.choice),)))  # type: ignore[union-attr]
    )
    assert create(Counter, model, strategy="output_tool", interceptors=[memory]).count("x") == 7
    assert memory.messages() == (UserMessage("Count x."), AiMessage('{"value": 7}'))


def test_the_store_keeps_all_messages_and_the_model_sees_the_window() -> None:
    memory, model = ChatMemory(MessageWindow(3)), ScriptedChatModel(["1", "2", "3"])
    chat = create(Single, model, interceptors=[memory])
    for text in "xyz":
        chat.chat(text)
    assert [message.text for message in model.requests[2].messages] == ["y", "2", "z"]
    assert [message.text for message in memory.messages()] == ["x", "1", "y", "2", "z", "3"]


def test_forget_evicted_removes_exchanges_outside_the_window() -> None:
    memory = ChatMemory(MessageWindow(3), forget_evicted=True)
    chat = create(Single, ScriptedChatModel(["1", "2", "3"]), interceptors=[memory])
    for text in "xyz":
        chat.chat(text)
    assert [message.text for message in memory.messages()] == ["y", "2", "z", "3"]


def test_a_stored_system_message_stays_when_exchanges_are_forgotten() -> None:
    memory = ChatMemory(MessageWindow(4), forget_evicted=True)
    memory.store.append("Single", (SystemMessage("s"), UserMessage("w"), AiMessage("0")), expected=0)
    chat = create(Single, ScriptedChatModel(["1", "2"]), interceptors=[memory])
    chat.chat("x")
    chat.chat("y")
    assert [message.text for message in memory.messages()] == ["s", "x", "1", "y", "2"]


def test_an_unknown_when_busy_is_a_definition_error() -> None:
    with pytest.raises(DefinitionError) as caught:
        ChatMemory(when_busy="maybe")  # type: ignore[arg-type]
    assert str(caught.value) == "ChatMemory: when_busy is 'maybe'; it must be one of wait, refuse"


# whose conversation


class Sales(Protocol):
    def chat(self, id: Annotated[str, MemoryId], text: str) -> str: ...


class Agent(Protocol):
    def chat(self, text: str) -> str: ...


@pytest.mark.parametrize("shared_store", [True, False])
def test_services_with_one_memory_or_store_have_conversations_of_their_own(shared_store: bool) -> None:
    model, store = ScriptedChatModel(["1", "2", "3", "4"]), InMemoryChatMemoryStore()
    first = ChatMemory(store=store)
    second = ChatMemory(store=store) if shared_store else first
    create(Chat, model, interceptors=[first]).chat("ann", "secret of Chat")
    create(Sales, model, interceptors=[second]).chat("ann", "hello")
    create(Single, model, interceptors=[first]).chat("secret of Single")
    create(Agent, model, interceptors=[second]).chat("hello")
    assert [len(request.messages) for request in model.requests] == [1, 1, 1, 1]
    assert store.conversations() == ("Chat/ann", "Sales/ann", "Single", "Agent")


def test_services_with_one_namespace_share_conversations() -> None:
    model, memory = ScriptedChatModel(["1", "2"]), ChatMemory(namespace="shop")
    create(Chat, model, interceptors=[memory]).chat("ann", "x")
    create(Sales, model, interceptors=[memory]).chat("ann", "y")
    assert [message.text for message in memory.messages("ann")] == ["x", "1", "y", "2"]
    assert memory.store.load("shop/ann").messages == memory.messages("ann")


def test_an_empty_namespace_stores_the_memory_id_as_it_is() -> None:
    store = InMemoryChatMemoryStore()
    model, memory = ScriptedChatModel(["1", "2"]), ChatMemory(store=store, namespace="")
    create(Chat, model, interceptors=[memory]).chat("ann", "x")
    create(Single, model, interceptors=[memory]).chat("x")
    assert store.conversations() == ("ann", "default")


def test_a_name_with_a_slash_does_not_lead_to_a_conversation_of_another_name() -> None:
    store = InMemoryChatMemoryStore()
    create(Chat, ScriptedChatModel(["1"]), interceptors=[ChatMemory(store=store)]).chat("ann", "x")
    other = ChatMemory(store=store, namespace="Chat/ann")
    create(Single, ScriptedChatModel(["1"]), interceptors=[other]).chat("x")
    assert store.conversations() == ("Chat/ann", "Chat%2Fann")


def test_two_services_of_one_name_need_a_namespace_for_one_memory() -> None:
    memory = ChatMemory()
    create(Single, ScriptedChatModel([]), interceptors=[memory])
    with pytest.raises(DefinitionError) as caught:
        create(Single, ScriptedChatModel([]), interceptors=[memory])
    assert str(caught.value) == (
        "Single: another service or agent named Single uses the same ChatMemory, so each would continue the "
        "conversation of the other; if they should, pass ChatMemory(namespace='Single'), otherwise a "
        "ChatMemory with another namespace to each"
    )


def test_a_service_may_be_created_again_if_all_its_methods_have_a_memory_id() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["1", "2"])
    for text in ("x", "y"):
        create(Chat, model, interceptors=[memory]).chat("ann", text)
    assert [message.text for message in memory.messages("ann")] == ["x", "1", "y", "2"]


def test_messages_of_a_memory_with_several_services_need_the_service() -> None:
    memory, model = ChatMemory(), ScriptedChatModel(["1", "2"])
    create(Chat, model, interceptors=[memory]).chat("ann", "x")
    create(Sales, model, interceptors=[memory]).chat("ann", "y")
    with pytest.raises(ValueError, match="service=") as caught:
        memory.messages("ann")
    assert str(caught.value) == (
        "ChatMemory: pass service=, the name of the service or agent that has the conversation; "
        "those that use this memory: Chat, Sales"
    )
    memory.forget("ann", service="Chat")
    assert [memory.messages("ann", service=name) for name in ("Chat", "Sales")] == [
        (),
        (UserMessage("y"), AiMessage("2")),
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 20}, "20 is not a window; pass MessageWindow(20)"),
        ({"store": {}}, "store is of the type dict; pass a store such as SqliteChatMemoryStore(path)"),
        ({"store": "redis://:SECRET@h"}, "store is of the type str; pass RedisChatMemoryStore(url)"),
        ({"store": "postgresql://h/db"}, "store is of the type str; pass SqlAlchemyChatMemoryStore(url)"),
        (
            {"store": InMemoryChatMemoryStore},
            "store is a class; pass an object of it, as in InMemoryChatMemoryStore(…)",
        ),
    ],
)
def test_arguments_of_a_wrong_type_are_definition_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ChatMemory(**settings)
    assert str(caught.value) == f"ChatMemory: {message}"


def test_an_empty_answer_is_not_stored() -> None:
    memory = ChatMemory()
    model = ScriptedChatModel(["1", "", " \n", "2"])
    chat = create(Single, model, interceptors=[memory])
    assert [chat.chat(text) for text in ("a", "b", "c", "d")] == ["1", "", " \n", "2"]
    expected = (UserMessage("a"), AiMessage("1"), UserMessage("d"), AiMessage("2"))
    assert (memory.messages(), model.requests[-1].messages) == (expected, expected[:3])


def test_an_empty_answer_after_tools_leaves_their_results() -> None:
    def look(word: str) -> str:
        return "found"

    call = ChatReply(AiMessage("", (ToolCall("c", "look", '{"word": "x"}'),)))
    memory = ChatMemory()
    assert create(Single, ScriptedChatModel([call, ""]), tools=[look], interceptors=[memory]).chat("a") == ""
    kinds = [type(message).__name__ for message in memory.messages()]
    assert kinds == ["UserMessage", "AiMessage", "ToolMessage"]


def test_only_the_messages_that_a_window_needs_are_loaded() -> None:
    class CountingStore(InMemoryChatMemoryStore):
        def load(self, conversation: str, /, *, last: int | None = None) -> StoredConversation:
            loaded = super().load(conversation, last=last)
            counts.append(len(loaded.messages))
            return loaded

    counts: list[int] = []
    window = MessageWindow(2)
    messages = [message for number in range(200) for message in (UserMessage(f"{number}"), AiMessage("x"))]
    store = CountingStore()
    store.append("a", messages, expected=0)
    memory = ChatMemory(window, store=store, namespace="", timeout=None)
    model = ScriptedChatModel(["hello"])
    assert create(Chat, model, interceptors=[memory]).chat("a", "hi") == "hello"
    assert (counts, len(model.requests[0].messages)) == ([window.messages_to_load], 1)


def test_more_is_loaded_while_a_window_selects_all_that_was_loaded() -> None:
    class Whole:
        messages_to_load = 2

        def view(self, past: Any, current: Any, invocation: Invocation) -> Flow[WindowView]:
            seen.append(len(past))
            return WindowView(past)
            yield

    seen: list[int] = []
    messages = [message for number in range(10) for message in (UserMessage(f"{number}"), AiMessage("x"))]
    store = InMemoryChatMemoryStore()
    store.append("a", messages, expected=0)
    model = ScriptedChatModel(["hello"])
    create(Chat, model, interceptors=[ChatMemory(Whole(), store=store, namespace="")]).chat("a", "hi")
    assert model.requests[0].messages == (*messages, UserMessage("hi"))
    assert seen == sorted({*seen})
    assert seen[-1] == 10
