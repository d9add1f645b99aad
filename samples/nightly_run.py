"""A nightly run that may be killed: the next run continues, and nothing is requested or sent twice."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    AiServiceError,
    CallId,
    ChatModel,
    ChatReply,
    ChatRequest,
    Durable,
    Journal,
    ModelConnectionError,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    create,
    tool,
    user_message,
)

CUSTOMERS = ("Ann", "Bob", "Cid")


class Reporter(Protocol):
    @user_message("Write the report of {{day}} for {{customer}}, and send it.")
    def report(self, customer: str, day: str, call_id: Annotated[str, CallId]) -> str: ...


def scripted(*, fails_for: str = "") -> ScriptedChatModel:
    """Return a scripted model, whose connection breaks for a customer."""

    def reply(request: ChatRequest) -> ChatReply | str:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return f"done: {last.text}"
        customer = last.text.partition("for ")[2].partition(",")[0]
        if customer == fails_for:
            raise ModelConnectionError("the connection broke")
        return ChatReply(AiMessage("", (ToolCall("call_1", "send", f'{{"customer": "{customer}"}}'),)))

    return ScriptedChatModel(reply)


def run(path: Path, model: ChatModel | str, sent: list[str]) -> None:
    """Report to all customers. The call of an earlier run that is finished returns its answer."""

    @tool(idempotent=True)  # the mail server ignores a second mail with the same key
    def send(customer: str, call: ToolCall) -> str:
        """Send the report to a customer."""
        sent.append(customer)
        return f"sent to {customer}"

    day = date(2030, 1, 31).isoformat()
    with Journal(path) as journal:
        reporter = create(Reporter, model, tools=[send], interceptors=[Durable(journal)])
        for customer in CUSTOMERS:
            try:
                print(reporter.report(customer, day, call_id=f"{day}/{customer}"))
            except AiServiceError as error:
                print(f"{customer} failed: {error}")


def main(model: ChatModel | str | None = None) -> None:
    """Run twice: the first run has a failure. Without a model, a scripted one answers."""
    sent: list[str] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "reports.db")
        run(path, model or scripted(fails_for="Bob"), sent)
        run(path, model or scripted(), sent)
    print(f"sent to {', '.join(sent)}")


if __name__ == "__main__":
    main()
