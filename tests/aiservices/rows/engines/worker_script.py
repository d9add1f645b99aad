from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal, Protocol

from process_engine import ProcessEngine

from aiservices import create, user_message
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RayEngine, SparkEngine, map_rows

ENGINES = {"ProcessEngine": ProcessEngine(), "RayEngine": RayEngine(workers=1), "SparkEngine": SparkEngine()}
Kind = Literal["bug", "wish"]


@dataclass
class Ticket:
    kind: Kind
    lines: list[Line]


@dataclass
class Line:
    text: str


class Desk(Protocol):
    @user_message("Sort {{text}}")
    def ticket(self, text: str) -> Ticket: ...


if __name__ == "__main__":
    reply = '{"kind": "%s", "lines": [{"text": "a"}]}'
    model = ScriptedChatModel(lambda request: reply % request.messages[-1].text.split()[-1])
    desk = create(Desk, model)
    table = [{"text": kind} for kind in ("bug", "wish", "bug", "wish")]
    rows = map_rows(desk.ticket, table, engine=ENGINES[sys.argv[1]], dedupe=False, ordered=True)
    print(",".join(row.value.kind for row in rows))
