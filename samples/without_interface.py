"""structured: typed answers without an interface, for a class or a JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiservices import ChatModel, ScriptedChatModel, structured

from .program import run

INVOICE: dict[str, Any] = {
    "title": "Invoice",
    "type": "object",
    "properties": {
        "number": {"type": "string", "maxLength": 20},
        "total": {"type": "number", "minimum": 0},
    },
    "required": ["number", "total"],
    "additionalProperties": False,
}


@dataclass
class Person:
    name: str
    age: int


def main(model: ChatModel | str | None = None) -> None:
    """Print a record, a dict, and an answer with its raw reply. ``model`` is passed to ``create``."""
    print(structured(model, Person).invoke("Who is it?\n\nText: John is 42 years old."))
    invoices = structured(model, INVOICE)
    print(invoices.invoke([("system", "You read invoices."), ("user", "Invoice A-17: 120.50 to pay.")]))
    # With include_raw, an answer that cannot be read does not raise an error. retry=None: one attempt only.
    unsure = ScriptedChatModel(["Some time in spring."])
    answer = structured(unsure, int, include_raw=True, retry=None).invoke("In which year was it?")
    print(f"parsed: {answer.value}, raw: {answer.reply.text!r}")
    print(answer.error)


if __name__ == "__main__":
    run(main)
