"""A refund with two payments as a workflow of DBOS, with pydantic-ai."""

import time

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ..durable_world import ACTION, CONFIG, ORDER, reply, transfer


def model_reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    results = [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    answer = reply(results)
    if isinstance(answer, str):
        return ModelResponse(parts=[TextPart(answer)])
    return ModelResponse(parts=[ToolCallPart("pay", {"euros": n}, tool_call_id=f"c{n}") for n in answer])


# --- The program ---

desk = Agent(FunctionModel(model_reply), name="desk", capabilities=[DBOSDurability()])


@desk.tool_plain
@DBOS.step()
def pay(euros: int) -> str:
    """Pay an amount back."""
    return transfer(euros)


@DBOS.workflow(name="refund")
def refund(order: str) -> str:
    return desk.run_sync(order).output


DBOS(config=CONFIG)  # type: ignore[arg-type]
DBOS.launch()
if ACTION == "start":
    with SetWorkflowID("order-17"):
        DBOS.start_workflow(refund, ORDER)
handle = DBOS.retrieve_workflow("order-17")

# --- The end ---

while handle.get_status().status in ("PENDING", "ENQUEUED"):
    time.sleep(0.05)
print(handle.get_result())
DBOS.destroy()
