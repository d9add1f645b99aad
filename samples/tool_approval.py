"""Approval: a tool that waits for somebody to permit it; the call is kept as text and goes on later."""

from __future__ import annotations

from typing import Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatModel,
    ChatReply,
    ChatRequest,
    ScriptedChatModel,
    SuspendedCall,
    ToolCall,
    ToolMessage,
    create,
    resume,
    system_message,
    tool,
)

LETTER = "My order 17 came broken. I paid 40 euros for it."


@tool(needs_approval=True)
def pay_back(order: int, euros: float) -> str:
    """Pays money back to a customer."""
    return f"{euros:.2f} euros are on their way for order {order}."


class Desk(Protocol):
    @system_message("You answer the customers of a shop. Pay back what came broken.")
    def answer(self, letter: str) -> str: ...


def scripted() -> ScriptedChatModel:
    """A model that pays back first, and then tells what came of it."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return f"Dear customer, we are sorry. {last.text}"
        return ChatReply(AiMessage("", (ToolCall("call_1", "pay_back", '{"order": 17, "euros": 40}'),)))

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None) -> None:
    """Print what waits, and how the call goes on either way. Without a model a scripted one is asked."""
    desk = create(Desk, model or scripted(), tools=[pay_back])
    try:
        print(desk.answer(LETTER))
        return
    except ApprovalRequiredError as error:
        kept = error.state.to_json()  # in a file, say, from which another process takes it
        for call in error.calls:
            print(f"waits: {call.name}({call.arguments})")
    state = SuspendedCall.from_json(kept)
    permitted = dict.fromkeys(state.pending, True)
    print(f"yes → {resume(desk.answer, state, permitted)}")
    refused = dict.fromkeys(state.pending, "above 20 euros a manager decides")
    print(f"no  → {resume(desk.answer, state, refused)}")


if __name__ == "__main__":
    main()
