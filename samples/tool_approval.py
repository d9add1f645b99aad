"""A tool that needs approval: the call is suspended, saved as text, and resumed after the decision."""

from __future__ import annotations

from typing import Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    ChatModel,
    ChatReply,
    ChatRequest,
    Denied,
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
    """Pay money back to a customer."""
    return f"{euros:.2f} euros are on their way for order {order}."


class Desk(Protocol):
    @system_message("You answer the customers of a shop. Pay back what came broken.")
    def answer(self, letter: str) -> str: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that calls the refund tool and then reports the result."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return f"Dear customer, we are sorry. {last.text}"
        return ChatReply(AiMessage("", (ToolCall("call_1", "pay_back", '{"order": 17, "euros": 40}'),)))

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None) -> None:
    """Print the answers with and without approval. Without a model, a scripted one answers."""
    desk = create(Desk, model or scripted(), tools=[pay_back])
    try:
        print(desk.answer(LETTER))
        return
    except ApprovalRequiredError as error:
        saved = error.state.to_json()  # Usually it is saved in a file or database, for another process.
        for call in error.calls:
            print(f"waits: {call.name}({call.arguments})")
    state = SuspendedCall.from_json(saved)
    print(f"yes → {resume(desk.answer, state, True)}")
    refused = dict.fromkeys(state.pending, Denied("above 20 euros a manager decides"))
    print(f"no  → {resume(desk.answer, state, refused)}")


if __name__ == "__main__":
    main()
