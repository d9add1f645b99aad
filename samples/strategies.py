"""Strategies: one method asked in each way for structure, and the step down when a provider refuses one."""

from __future__ import annotations

from typing import Protocol

from aiservices import (
    AiMessage,
    BadRequestError,
    Capabilities,
    ChatModel,
    ChatReply,
    Result,
    ScriptedChatModel,
    Strategy,
    ToolCall,
    create,
    preview,
    user_message,
)

# What a model can do decides how it is asked: in the first of these ways that it has.
MODELS = {
    Strategy.GRAMMAR: Capabilities(constrained=True),
    Strategy.JSON_SCHEMA: Capabilities(json_schema=True, tools=True, json_mode=True),
    Strategy.OUTPUT_TOOL: Capabilities(tools=True, json_mode=True),
    Strategy.JSON_MODE: Capabilities(json_mode=True),
    Strategy.PROMPT: Capabilities(),
}
REFUSAL = BadRequestError("response_format json_schema is not supported", status=400)
BY_TOOL = ChatReply(AiMessage("", (ToolCall("call_1", "int", '{"value": 8}'),)))


class Counter(Protocol):
    @user_message("How many legs has a {{animal}}?")
    def legs(self, animal: str) -> Result[int]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print what each strategy sends. Only a scripted model is asked, and only in the end."""
    for capabilities in MODELS.values():
        counter = create(Counter, ScriptedChatModel([], capabilities=capabilities, name="it"))
        shown = preview(counter.legs, "spider")
        asked = " ".join(shown.messages[-1].text.split())
        print(f"{shown.strategy:<11}  {'schema' if shown.schema else '-':<6}  {asked}")
    refusing = ScriptedChatModel([REFUSAL, BY_TOOL], capabilities=MODELS[Strategy.JSON_SCHEMA], name="it")
    result = create(Counter, refusing).legs("spider")
    print(f"{result.value} by {result.strategy}")
    for reason in result.reasons:
        print(f"  {reason}")


if __name__ == "__main__":
    main()
