"""A refund that waits for days: the call is in a journal, and each step may be in another process."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    ApprovalRequiredError,
    CallId,
    ChatModel,
    ChatReply,
    ChatRequest,
    Durable,
    Journal,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
    decide,
    recover,
    tool,
    user_message,
)


@tool(needs_approval=True)
def pay_back(order: int, euros: float, call: ToolCall) -> str:
    """Pay money back to a customer."""
    # The bank ignores a second payment with the same key.
    assert call.idempotency_key
    return f"{euros:.2f} euros are on their way for order {order}."


class Desk(Protocol):
    @user_message("Answer the letter, and pay back what came broken.\n\n{{letter}}")
    def answer(self, letter: str, call_id: Annotated[str, CallId]) -> str: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that calls the refund tool and then reports the result."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return f"Dear customer, we are sorry. {last.text}"
        return ChatReply(AiMessage("", (ToolCall("call_1", "pay_back", '{"order": 17, "euros": 40}'),)))

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None) -> None:
    """Print what happens on each day. Without a model, a scripted one answers."""
    model = model or scripted()
    with TemporaryDirectory() as folder:
        path = Path(folder, "calls.db")

        # Monday: the letter arrives.
        with Journal(path) as journal:
            desk = create(Desk, model, tools=[pay_back], interceptors=[Durable(journal)])
            try:
                print(desk.answer("My order 17 came broken. I paid 40 euros.", call_id="letter-1"))
            except ApprovalRequiredError as error:
                for call in error.calls:
                    print(f"Monday: waits for {call.name}({call.arguments})")

        # Wednesday: a person decides, in a program that needs neither the service nor the model.
        with Journal(path) as journal:
            for waiting in journal.list("suspended"):
                print(f"Wednesday: {waiting.id} is approved")
                decide(journal, waiting.id, True)

        # Thursday: the server starts again, and continues the remaining work.
        with Journal(path) as journal:
            desk = create(Desk, model, tools=[pay_back], interceptors=[Durable(journal)])
            for done in recover(journal, services=[desk]):
                print(f"Thursday: {done.value}")


if __name__ == "__main__":
    main()
