"""Write SQL for a question; a guard lets the database check it before the caller gets it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Protocol

from pydantic import Field

from aiservices import (
    ChatModel,
    Description,
    Result,
    ScriptedChatModel,
    create,
    example,
    system_message,
)
from aiservices.guardrails import OutputGuardrails, Verdict, passed, reprompt
from aiservices.interceptors import Invocation

SCHEMA = """
CREATE TABLE records (
    created_at TEXT NOT NULL,
    level TEXT CHECK (level IN ('debug', 'info', 'warning', 'error')),
    service TEXT NOT NULL,
    message TEXT NOT NULL,
    tags TEXT NOT NULL
)
"""


@dataclass
class Query:
    sql: Annotated[str, Field(min_length=1)]
    explanation: Annotated[str, Description("In Markdown")] = ""


@dataclass
class Refusal:
    reason: Annotated[str, Description("What the request leaves open")]


def instructions() -> str:
    return f"Write a query for SQLite. The table is:\n{SCHEMA}\nToday is {date.today()}."


class Analyst(Protocol):
    @system_message(instructions)
    @example("all warnings", returns=Query("SELECT * FROM records WHERE level = 'warning'"))
    @example("of today", returns=Query("SELECT * FROM records WHERE date(created_at) = date('now')"))
    @example(
        "errors of the shop",
        returns=Query("SELECT * FROM records WHERE level = 'error' AND service = 'shop'"),
    )
    @example("show me something", returns=Refusal("Which records?"))
    def query(self, request: str) -> Result[Query | Refusal]: ...


def analyst(model: ChatModel | str, database: sqlite3.Connection) -> Analyst:
    """Return a service whose queries the database can run."""

    def is_valid(answer: Query | Refusal, invocation: Invocation) -> Verdict:
        if isinstance(answer, Refusal):
            return passed()
        if not answer.sql.upper().startswith("SELECT"):
            return reprompt("Write a SELECT.")
        try:
            database.execute(f"EXPLAIN {answer.sql}")
        except sqlite3.Error as error:
            return reprompt(f"The query is invalid: {error}")
        return passed()

    return create(Analyst, model, interceptors=[OutputGuardrails(is_valid, on="value")])


def scripted() -> ScriptedChatModel:
    """Return a scripted model whose first query names a column that does not exist."""
    wrong, right = (
        f"SELECT message FROM records WHERE level = 'error' AND date({column}) = date('now', '-1 day')"
        for column in ("time", "created_at")
    )
    replies = [
        {"sql": wrong},
        {"sql": right, "explanation": "Errors of **yesterday**."},
        {"reason": "Of which?"},
    ]
    return ScriptedChatModel([json.dumps({"value": reply}) for reply in replies])


def main(model: ChatModel | str | None = None) -> None:
    """Print two answers. Without a model, a scripted one answers."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(SCHEMA)
        service = analyst(model or scripted(), database)
        for request in ("show me errors from yesterday", "how many?"):
            result = service.query(request)
            print(f"{request}: {result.value} ({len(result.attempts)} answers)")


if __name__ == "__main__":
    main()
