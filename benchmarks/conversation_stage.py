"""The stage ``conversation``: a call with memory, a tool and a listener, compared to its two bare requests.

Run as a program, it is the server of the other stages, except that it first calls the tool of the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Protocol

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    FinishReason,
    MemoryId,
    Message,
    OpenAiChatModel,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
)
from aiservices.memory import ChatMemory, InMemoryChatMemoryStore

from . import server
from .clerk import KEY
from .measure import Effort, Work, compare
from .new_process import running_server
from .results import Comparison, Stage

_ID, _TEXT = "conversation-1", "How is the weather in Delft, and what should I wear?"
_STORED_ID = f"Guide/{_ID}"  # each interface has conversations of its own
_MODEL, _ANSWER = "truth", '{"value": true}'  # short, and read as a text
_CALL = ToolCall("call_1", "weather", '{"city": "Delft"}')
_ROUND: tuple[Message, ...] = (AiMessage("", (_CALL,)), ToolMessage("call_1", "weather", "rain in Delft"))
_EXCHANGE: tuple[Message, ...] = (UserMessage(_TEXT), *_ROUND, AiMessage(_ANSWER))
_PAST_EXCHANGES = 9  # exchanges: with the new message they fit the window of 40 messages
_TARGET = 1.25
_SERVER = "benchmarks.conversation_stage"


class Guide(Protocol):
    def talk(self, id: Annotated[str, MemoryId], text: str) -> str: ...


class BareGuide(Protocol):
    def talk(self, text: str) -> str: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """Run the stage ``conversation``."""
    with (
        running_server(server_core, module=_SERVER) as base_url,
        OpenAiChatModel(_MODEL, base_url=base_url, api_key=KEY) as model,
    ):
        return Stage("conversation", list(_rows(effort, model)))


def _rows(effort: Effort, model: OpenAiChatModel) -> Iterator[Comparison]:
    for case, past in (("first turn", ()), (f"after {_PAST_EXCHANGES} turns", _EXCHANGE * _PAST_EXCHANGES)):
        _check_equal(past)
        ours, bare = _ours(model, past), _bare(model, past)
        if ours() != bare():
            raise AssertionError(f"{case}: {ours()!r} and {bare()!r} must be equal")
        name = f"memory, tool, listener: {case}"
        yield Comparison.of(name, "the same two requests, bare", compare(ours, bare, effort), _TARGET)


def _ours(model: ChatModel, past: tuple[Message, ...]) -> Work:
    """Return a function that makes a call in a conversation, after resetting the memory."""
    store, events = InMemoryChatMemoryStore(), [0]

    def listen(event: object) -> None:
        events[0] += 1

    guide = create(Guide, model, tools=[weather], interceptors=[ChatMemory(store=store)], listeners=[listen])

    def work() -> str:
        store.delete(_STORED_ID)
        if past:
            store.append(_STORED_ID, past, expected=0)
        return guide.talk(_ID, _TEXT)

    return work


def _bare(model: ChatModel, past: tuple[Message, ...]) -> Work:
    """Return a function that sends the two requests of a conversation call without memory and tools."""
    first = create(BareGuide, model, transform=_with_messages((*past, UserMessage(_TEXT))))
    second = create(BareGuide, model, transform=_with_messages((*past, UserMessage(_TEXT), *_ROUND)))

    def work() -> str:
        first.talk(_TEXT)
        return second.talk(_TEXT)

    return work


def _with_messages(messages: tuple[Message, ...]) -> Callable[[ChatRequest], ChatRequest]:
    return lambda request: replace(request, messages=messages)


def _check_equal(past: tuple[Message, ...]) -> None:
    """Raise AssertionError unless both sides send the same messages."""

    tool_call = ChatReply(AiMessage("", (_CALL,)), FinishReason.TOOL_CALLS)
    our_model, bare_model = ScriptedChatModel([tool_call, _ANSWER]), ScriptedChatModel([_ANSWER, _ANSWER])
    _ours(our_model, past)()
    _bare(bare_model, past)()
    ours, bare = ([request.messages for request in model.requests] for model in (our_model, bare_model))
    if ours != bare:
        raise AssertionError(f"{ours!r} and {bare!r} must be equal")


def _with_tool_call(answer: bytes) -> bytes:
    """Return the HTTP response with a tool call instead of the text."""
    head, body = answer.split(b"\r\n\r\n", 1)
    data = json.loads(body)
    (choice,) = data["choices"]
    function = {"name": _CALL.name, "arguments": _CALL.arguments}
    tool_calls = [{"id": _CALL.id, "type": "function", "function": function}]
    choice["message"] |= {"content": None, "tool_calls": tool_calls}
    choice["finish_reason"] = "tool_calls"
    new_body = json.dumps(data).encode()
    return head.replace(b"length: %d" % len(body), b"length: %d" % len(new_body)) + b"\r\n\r\n" + new_body


def _serve() -> None:
    plain = server._completion

    def completion(request: dict[str, Any]) -> bytes:
        answer = plain(request)
        calls = bool(request.get("tools")) and request["messages"][-1]["role"] == "user"
        return _with_tool_call(answer) if calls else answer

    server._completion = completion
    server.main()


if __name__ == "__main__":
    _serve()
