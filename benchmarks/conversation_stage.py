"""A call with memory, a round of tools and a listener, beside the two bare calls that it consists of.

As a program it is the server of the other stages, which calls the tool that it is offered before it answers.
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
from .new_process import running_server
from .measure import Effort, Work, compare
from .results import Comparison, Stage

_ID, _TEXT = "conversation-1", "How is the weather in Delft, and what should I wear?"
_MODEL, _ANSWER = "truth", '{"value": true}'  # it is short, and taken as a text
_CALL = ToolCall("call_1", "weather", '{"city": "Delft"}')
_ROUND: tuple[Message, ...] = (AiMessage("", (_CALL,)), ToolMessage("call_1", "weather", "rain in Delft"))
_TURN: tuple[Message, ...] = (UserMessage(_TEXT), *_ROUND, AiMessage(_ANSWER))
_LONGER = 9  # turns: with what is asked now, they fit the window of 40 messages
_TARGET = 1.25
_SERVER = "benchmarks.conversation_stage"


class Guide(Protocol):
    def talk(self, id: Annotated[str, MemoryId], text: str) -> str: ...


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """The stage ``conversation``."""
    with (
        running_server(server_core, module=_SERVER) as base_url,
        OpenAiChatModel(_MODEL, base_url=base_url, api_key=KEY) as model,
    ):
        return Stage("conversation", list(_rows(effort, model)))


def _rows(effort: Effort, model: OpenAiChatModel) -> Iterator[Comparison]:
    for case, past in (("first turn", ()), (f"after {_LONGER} turns", _TURN * _LONGER)):
        _check_equal(past)
        ours, bare = _ours(model, past), _bare(model, past)
        if ours() != bare():
            raise AssertionError(f"{case}: {ours()!r} and {bare()!r} should be equal")
        name = f"memory, tool, listener: {case}"
        yield Comparison.of(name, "the same two requests, bare", compare(ours, bare, effort), _TARGET)


def _ours(model: ChatModel, past: tuple[Message, ...]) -> Work:
    """A turn of a conversation, which is set back to its past each time."""
    store, events = InMemoryChatMemoryStore(), [0]

    def listen(event: object) -> None:
        events[0] += 1

    guide = create(Guide, model, tools=[weather], interceptors=[ChatMemory(store=store)], listeners=[listen])

    def work() -> str:
        store.delete(_ID)
        if past:
            store.append(_ID, 0, past)
        return guide.talk(_ID, _TEXT)

    return work


def _bare(model: ChatModel, past: tuple[Message, ...]) -> Work:
    """The two requests of such a turn, each as a call of its own."""
    asking = create(Guide, model, transform=_with_messages((*past, UserMessage(_TEXT))))
    answering = create(Guide, model, transform=_with_messages((*past, UserMessage(_TEXT), *_ROUND)))

    def work() -> str:
        asking.talk(_ID, _TEXT)
        return answering.talk(_ID, _TEXT)

    return work


def _with_messages(messages: tuple[Message, ...]) -> Callable[[ChatRequest], ChatRequest]:
    return lambda request: replace(request, messages=messages)


def _check_equal(past: tuple[Message, ...]) -> None:
    """Both sides must send the same messages, or there is nothing to compare."""

    def script() -> ScriptedChatModel:
        return ScriptedChatModel([ChatReply(AiMessage("", (_CALL,)), FinishReason.TOOL_CALLS), _ANSWER])

    ours_value, other = script(), script()
    _ours(ours_value, past)()
    _bare(other, past)()
    said, also = ([request.messages for request in side.requests] for side in (ours_value, other))
    if said != also:
        raise AssertionError(f"{said!r} and {also!r} should be equal")


def _calling(answer: bytes) -> bytes:
    """The same answer, with the call of the tool in the place of the text."""
    head, body = answer.split(b"\r\n\r\n", 1)
    told = json.loads(body)
    (choice,) = told["choices"]
    function = {"name": _CALL.name, "arguments": _CALL.arguments}
    called = [{"id": _CALL.id, "type": "function", "function": function}]
    choice["message"] |= {"content": None, "tool_calls": called}
    choice["finish_reason"] = "tool_calls"
    calling = json.dumps(told).encode()
    return head.replace(b"length: %d" % len(body), b"length: %d" % len(calling)) + b"\r\n\r\n" + calling


def _serve() -> None:
    plain = server._completion

    def completion(request: dict[str, Any]) -> bytes:
        answer = plain(request)
        calls = bool(request.get("tools")) and request["messages"][-1]["role"] == "user"
        return _calling(answer) if calls else answer

    server._completion = completion
    server.main()


if __name__ == "__main__":
    _serve()
