"""A refund with two payments as a workflow of DBOS, with aiservices."""

from typing import Annotated, Protocol

from dbos import DBOS, SetWorkflowID

from aiservices import (
    AiMessage,
    CallId,
    ChatReply,
    ChatRequest,
    Durable,
    Journal,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
    user_message,
)
from aiservices.integrations.dbos import answer, waits_for, workflow

from ..durable_world import ACTION, CONFIG, FOLDER, ORDER, note, paid, reply, transfer


def model_reply(request: ChatRequest) -> ChatReply | str:
    results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
    answer = reply(results)
    if isinstance(answer, str):
        return answer
    calls = [ToolCall(f"c{euros}", "pay", f'{{"euros": {euros}}}') for euros in answer]
    return ChatReply(AiMessage("", tuple(calls)))


# --- The program ---


class Desk(Protocol):
    @user_message("{{order}}")
    def refund(self, order: str, call_id: Annotated[str, CallId]) -> str: ...


def pay(euros: int) -> str:
    """Pay an amount back."""
    return transfer(euros)


durable = Durable(Journal(FOLDER / "app.db"))
desk = create(Desk, ScriptedChatModel(model_reply), tools=[pay], interceptors=[durable])
refund = workflow(desk.refund)

DBOS(config=CONFIG)  # type: ignore[arg-type]
DBOS.launch()
if ACTION == "start":
    with SetWorkflowID("order-17"):
        DBOS.start_workflow(refund, ORDER)
handle = DBOS.retrieve_workflow("order-17")

# --- The operator, who says whether a payment in doubt was made ---

answered = ""
while handle.get_status().status in ("PENDING", "ENQUEUED"):
    for call in waits_for("order-17", timeout=0.05):
        if call["id"] != answered:
            answered, euros = call["id"], int(call["id"][1:])
            note("question")
            results = {call["id"]: f"paid {euros}"} if paid(euros) else {}
            answer(desk.refund, "order-17", {} if results else True, results=results)
print(handle.get_result())
DBOS.destroy()
