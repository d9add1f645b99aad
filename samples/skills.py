"""Skills: the model loads instructions when it needs them, runs a script of them, and gets their tools.

The skills are in ``samples/data/skills``. Needs the extra ``skills``.
"""

from __future__ import annotations

import json
from pathlib import Path
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
    create,
    system_message,
)
from aiservices.skills import ScriptSettings, Skills

LETTER = "The lamp that I bought 20 days ago for 40 euros came broken. Can I have my money back?"
FOLDER = Path(__file__).with_name("data") / "skills"


def pay_back(euros: float) -> str:
    """Pay money back to the customer who writes."""
    return f"{euros:.2f} euros are on their way"


class Desk(Protocol):
    @system_message("You answer the customers of a shop.")
    def answer(self, letter: str) -> Result[str]: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that follows the instructions of the skill."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if not isinstance(last, ToolMessage):
            return _calls("activate_skill", skill="refunds")
        match last.name:
            case "activate_skill":
                arguments = ["40", "20", "broken"]
                script = "scripts/amount.py"
                return _calls("run_skill_script", skill="refunds", script=script, arguments=arguments)
            case "run_skill_script":
                return _calls("pay_back", euros=float(last.text))
            case _:
                return f"We are sorry that your lamp is broken. {last.text}."

    return ScriptedChatModel(reply)


def _calls(tool: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def main(model: ChatModel | str | None = None) -> None:
    """Print what the model does, and its answer. Without a model, a scripted one answers."""
    # pay_back is offered only after the skill was activated, and scripts run only because of ScriptSettings
    skills = Skills.from_folder(FOLDER, tools={"refunds": [pay_back]}, scripts=ScriptSettings(timeout=10))
    result = create(Desk, model or scripted(), tools=[skills]).answer(LETTER)
    for run in result.tool_runs:
        print(f"{run.call.name}({run.call.arguments}) → {run.text.splitlines()[0]}")
    print(result.value)


if __name__ == "__main__":
    main()
