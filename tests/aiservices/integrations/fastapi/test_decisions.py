"""Decisions keep their probabilities over HTTP: in values, in records, in results and in streams."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from fastapi.testclient import TestClient

from aiservices import Decision, Result, Scale, Stream, create, user_message
from aiservices.integrations.fastapi import app, client
from aiservices.testing import FakeChatModel


class Team(Enum):
    BILLING = "billing"
    SUPPORT = "support"


@dataclass
class Triage:
    team: Decision[Team]
    level: Scale[Team]
    note: str


class Desk(Protocol):
    @user_message("Spam? {{text}}")
    def is_spam(self, text: str) -> Decision[bool]: ...
    @user_message("Triage. {{text}}")
    def triage(self, text: str) -> Result[Triage]: ...
    @user_message("Triage. {{text}}")
    def watch(self, text: str) -> Stream[Triage]: ...


def test_decisions_arrive_with_their_probabilities() -> None:
    service = create(Desk, FakeChatModel())
    http = TestClient(app(service, interface=Desk))
    remote: Any = client(Desk, "http://testserver", http=http)
    local = service.is_spam("x")
    assert (remote.is_spam("x"), repr(remote.is_spam("x"))) == (local, repr(local))
    assert repr(remote.triage("x").value) == repr(service.triage("x").value)
    assert http.post("/is-spam", json={"text": "x"}).json() == {
        "value": local.value,
        "probabilities": [
            {"value": value, "probability": share} for value, share in local.probabilities.items()
        ],
        "source": "decisions",
        "calibrated": False,
        "seen": 1.0,
    }
    stream = remote.watch("x")
    assert repr(stream.result().value) == repr(service.watch("x").result().value)


def test_the_document_describes_a_decision() -> None:
    paths = (
        TestClient(app(create(Desk, FakeChatModel()), interface=Desk)).get("/openapi.json").json()["paths"]
    )
    schema = paths["/is-spam"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["value", "probabilities", "source", "calibrated", "seen"]
