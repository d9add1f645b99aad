"""An agent whose reply has a text and a typed profile with constraints."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from aiservices import AiMessage, ChatModel, ChatReply, ScriptedChatModel, ToolCall
from aiservices.agents import ReActAgent

ENCYCLOPEDIA = {
    "Albert Einstein": (
        "Albert Einstein (14 March 1879 - 18 April 1955) was a German-born theoretical physicist, best known "
        "for the theory of relativity. He received the 1921 Nobel Prize in Physics for his discovery of the "
        "law of the photoelectric effect."
    )
}


class Profile(BaseModel):
    name: Annotated[str, Field(min_length=3, max_length=40)]
    age: Annotated[int, Field(ge=0, le=120, description="in years, at death")]
    field: Literal["physics", "chemistry", "medicine", "literature", "peace"]
    honors: Annotated[list[str], Field(min_length=1, max_length=3)]


def look_up(person: str) -> str:
    """Look up a person in the encyclopedia."""
    return ENCYCLOPEDIA.get(person, "There is no article of that name.")


def scripted() -> ScriptedChatModel:
    """Return a scripted model that looks up a person, gives an impossible age, and corrects it."""
    wrong = {
        "response": "Albert Einstein was the physicist who gave us relativity.",
        "name": "Albert Einstein",
        "age": 176,
        "field": "physics",
        "honors": ["Nobel Prize in Physics 1921"],
    }
    return ScriptedChatModel(
        [
            tool_call("look_up", {"person": "Albert Einstein"}, "First I look him up."),
            tool_call("generate_response", wrong),
            tool_call("generate_response", {**wrong, "age": 76}),
            "You are welcome.",
        ]
    )


def tool_call(tool: str, arguments: dict[str, object], text: str = "") -> ChatReply:
    """Return a reply that calls a tool."""
    return ChatReply(AiMessage(text, (ToolCall("call_1", tool, json.dumps(arguments)),)))


def main(model: ChatModel | str | None = None) -> None:
    """Print the steps of the agent and its reply. By default, a scripted model answers."""
    friday = ReActAgent("Friday", "You are an archivist named Friday.", model or scripted(), [look_up])
    hook = friday.on("pre_acting", lambda call: print(f"(Friday is about to call {call.name})"))
    reply = friday.reply("Who was Albert Einstein?", output_type=Profile)
    hook.remove()
    for number, step in enumerate(reply.trace, 1):
        print(f"{number}. " + str(step).replace("\n", "\n   "))
    print(f"{reply.name}: {reply.content}")
    print(repr(reply.metadata))
    print(f"{friday.reply('Thank you!').content}")


if __name__ == "__main__":
    main()
