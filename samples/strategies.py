"""Strategies for structured output: what each one sends, and the fallback when a provider rejects one."""

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

# The default strategy is the first of these that the capabilities of the model allow.
MODELS = {
    Strategy.GRAMMAR: Capabilities(constrained=True),
    Strategy.JSON_SCHEMA: Capabilities(json_schema=True, tools=True, json_mode=True),
    Strategy.OUTPUT_TOOL: Capabilities(tools=True, json_mode=True),
    Strategy.JSON_MODE: Capabilities(json_mode=True),
    Strategy.PROMPT: Capabilities(),
}
REJECTION = BadRequestError("response_format json_schema is not supported", status=400)
TOOL_CALL = ChatReply(AiMessage("", (ToolCall("call_1", "int", '{"value": 8}'),)))


class Counter(Protocol):
    @user_message("How many legs has a {{animal}}?")
    def legs(self, animal: str) -> Result[int]: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print what each strategy sends, and the reasons of a fallback. Only a scripted model is called."""
    for capabilities in MODELS.values():
        counter = create(Counter, ScriptedChatModel([], capabilities=capabilities, name="it"))
        request = preview(counter.legs, "spider")
        text = " ".join(request.messages[-1].text.split())
        print(f"{request.strategy:<11}  {'schema' if request.schema else '-':<6}  {text}")
    capabilities = MODELS[Strategy.JSON_SCHEMA]
    rejecting = ScriptedChatModel([REJECTION, TOOL_CALL], capabilities=capabilities, name="it")
    result = create(Counter, rejecting).legs("spider")
    print(f"{result.value} by {result.strategy}")
    for reason in result.reasons:
        print(f"  {reason}")


if __name__ == "__main__":
    main()
