"""A pipeline: four methods over one dataframe; each reads columns that those before have added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from aiservices import ChatModel, create, user_message
from aiservices.rows import map_rows

from .program import run

MESSAGES = [
    {"id": 1, "text": "The kettle leaks, and I was charged twice for it."},
    {"id": 2, "text": "Wo bleibt mein Paket?"},
    {"id": 3, "text": "Thank you, everything works."},
]


@dataclass
class Message:
    language: Literal["English", "German", "other"]
    urgent: bool


@dataclass
class Demand:
    product: str | None
    demand: str


@dataclass
class Demands:
    items: list[Demand]


class Desk(Protocol):
    @user_message("In which language is this message, and is it urgent?\n\n{{text}}")
    def message(self, text: str) -> Message: ...

    @user_message("Translate this text to English (it is written in: {{language}}).\n\n{{text}}")
    def translation(self, text: str, language: str) -> str: ...

    @user_message("What does the customer want? List each demand.\n\n{{english}}")
    def demands(self, english: str) -> Demands: ...

    @user_message("Which team handles this demand?\n\n{{demand}}")
    def team(self, demand: str) -> Literal["billing", "shipping", "repair"]: ...


def main(model: ChatModel | str | None = None, table: Any = MESSAGES) -> Any:
    """Add the columns of four methods to a table with a column ``text``; ``model`` is passed to create."""
    desk = create(Desk, model)
    messages = map_rows(desk.message, table, prefix="message_")
    english = map_rows(
        desk.translation, messages, columns={"language": "message_language"}, prefix="english_", usage=True
    )
    # One row for each demand; a message without a demand keeps its row, with nulls.
    demands = map_rows(
        desk.demands,
        english,
        columns={"english": "english_value"},
        explode="items",
        error_column="demands_error",
    )
    # Such a row is not an error, and nothing is requested for it.
    teams = map_rows(desk.team, demands, prefix="team_", nulls="null")
    frame = teams.dataframe()
    for row in teams:
        print(row.inputs["id"], row.inputs["demand"], "->", row.error or row.value)
    return frame


if __name__ == "__main__":
    run(main)
