"""The production sample answers health checks, keeps users apart, and is what its container files start."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from aiservices import ScriptedChatModel
from samples import service
from samples.service.production import application

FOLDER = Path(str(service.__file__)).parent


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Remove the handler and the level that the sample sets."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)


def test_the_health_check_answers_without_a_model() -> None:
    assert TestClient(application(ScriptedChatModel([]))).get("/health").json() == {"status": "ok"}


def test_each_user_has_a_conversation_and_a_request_without_a_user_is_refused() -> None:
    model = ScriptedChatModel(["Hello Ann.", "Hello Ben.", "You are Ann."])
    client = TestClient(application(model))
    for user in ("ann", "ben", "ann"):
        client.post("/talk/chat", json={"message": "Who am I?"}, headers={"x-user": user}).raise_for_status()
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]
    assert client.post("/talk/chat", json={"message": "Who am I?"}).status_code == 422


def test_the_container_starts_the_application_of_the_sample() -> None:
    dockerfile = FOLDER.joinpath("Dockerfile").read_text("utf-8")
    assert f'"{application.__module__}:{application.__name__}"' in dockerfile
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile, re.MULTILINE)
    root = FOLDER.parents[1]
    assert [name for line in copied for name in line.split() if not (root / name).exists()] == []
    assert "dockerfile: samples/service/Dockerfile" in FOLDER.joinpath("compose.yaml").read_text("utf-8")
