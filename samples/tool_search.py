"""Tool search: of 90 tools, the model sees a search tool, and those that it has found."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from typing import Protocol

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    ToolSearch,
    create,
    system_message,
    tool,
)

METRES = {
    **{"metre": 1.0, "kilometre": 1000.0, "inch": 0.0254, "foot": 0.3048, "yard": 0.9144, "mile": 1609.344},
    **{"fathom": 1.8288, "furlong": 201.168, "league": 4828.032, "light_second": 299_792_458.0},
}


def conversion(source: str, target: str) -> Callable[[float], float]:
    """Return a tool that converts one unit to another."""

    @tool(name=f"{source}_to_{target}", description=f"Converts a length from {source} to {target}.")
    def convert(value: float) -> float:
        return round(value * METRES[source] / METRES[target], 6)

    return convert


class Calculator(Protocol):
    @system_message("You convert units. Never compute yourself.")
    def answer(self, question: str) -> Result[str]: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that searches, calls one of the tools that it found, and answers."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            return _calls("search_tools", query="fathom to metre")
        if last.name == "search_tools":
            found = [one["name"] for one in json.loads(last.text)]
            return _calls(next(name for name in found if name.startswith("fathom_to")), value=20)
        return f"20 fathoms are {last.text} metres."

    return ScriptedChatModel(reply)


def _calls(name: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", name, json.dumps(arguments)),)))


def main(model: ChatModel | str | None = None) -> None:
    """Print the tools that each request offers, and the answer. Without a model, a scripted one answers."""
    conversions = [conversion(source, target) for source, target in permutations(METRES, 2)]
    tools = [ToolSearch(conversions, limit=2, description="Finds tools that convert lengths.")]

    def show(request: ChatRequest) -> ChatRequest:
        offered = () if request.tooling is None else request.tooling.tools
        print("offered:", ", ".join(one.name for one in offered))
        return request

    print(f"{len(conversions)} tools")
    calculator = create(Calculator, model or scripted(), tools=tools, transform=show)
    print(calculator.answer("How deep are 20 fathoms?").value)


if __name__ == "__main__":
    main()
