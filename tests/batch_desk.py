"""A service and models for tests of batches; as a program, it maps a table, and the tests kill it.

Arguments: the kind of model, the URL of the server and the path of the journal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from aiservices import create, user_message
from aiservices.models.base import ChatModel
from aiservices.models.openai import OpenAiChatModel, OpenAiResponsesModel
from aiservices.models.providers.anthropic import AnthropicChatModel
from aiservices.models.providers.gemini import GeminiChatModel
from aiservices.rows import BatchEngine, map_rows

MakeModel = Callable[[str], ChatModel]
MODELS: dict[str, MakeModel] = {
    "openai": lambda url: OpenAiChatModel("gpt-x", base_url=f"{url}/v1", api_key="k"),
    "openai-responses": lambda url: OpenAiResponsesModel("gpt-x", base_url=f"{url}/v1", api_key="k"),
    "anthropic": lambda url: AnthropicChatModel("claude-x", base_url=url, api_key="k"),
    "gemini": lambda url: GeminiChatModel("gemini-x", base_url=f"{url}/v1beta", api_key="k"),
}


@dataclass
class Person:
    name: str
    age: int


class Desk(Protocol):
    @user_message("Extract the person.\n\n{{text}}")
    def person(self, text: str) -> Person: ...


def answer(prompt: str) -> str:
    """Return the person of a prompt such as "… Ann is 42"."""
    name, _, age = prompt.rpartition("\n")[2].partition(" is ")
    return json.dumps({"name": name, "age": int(age)})


def table(rows: int) -> list[dict[str, Any]]:
    return [{"id": number, "text": f"P{number} is {number}"} for number in range(rows)]


def main() -> None:
    kind, url, journal = sys.argv[1:]
    desk = create(Desk, MODELS[kind](url))
    engine = BatchEngine(poll=0.02, max_waves=1000, max_requests=7)
    rows = map_rows(desk.person, table(20), key="id", journal=journal, engine=engine)
    found = {row.key: row.value.age for row in rows}
    Path(f"{journal}.done").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main()
