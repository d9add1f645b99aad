"""The sample of a service answers each request of its .http file, and keeps to its own OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from aiservices.integrations.fastapi import Problem
from samples import service
from samples.service.__main__ import application, main
from samples.service.scripted import scripted

FILE = Path(str(service.__file__)).with_name("clerk.http")
BASE = "http://127.0.0.1:8000"
GIVES: dict[str, Any] = {
    "/boolean": True,
    "/enum": "positive",
    "/int": 42,
    "/long": 42,
    "/integer": 42,
    "/float": 42.0,
    "/double": 42.0,
    "/bigDecimal": 42,
    "/pojo": {"firstName": "John", "lastName": "Doe", "birthDate": "1968-07-04"},
    "/extract-date": "1968-07-04",
    "/extract-time": "23:45:00",
    "/extract-datetime": "1968-07-04T23:45:00",
}


def requests() -> Iterator[tuple[str, str, str]]:
    """Each request of the file: the HTTP method, the path, and the body."""
    text = FILE.read_text("utf-8")
    assert f"@base = {BASE}" in text
    for part in text.split("###")[1:]:
        found = re.search(r"^(GET|POST) \{\{base\}\}(\S+)$", part, re.MULTILINE)
        assert found is not None
        body = part[found.end() :].partition("\n\n")[2].strip()
        yield found[1], found[2], body


@pytest.fixture(scope="module")
def here() -> TestClient:
    return TestClient(application(scripted()))


@pytest.mark.parametrize(("method", "path", "body"), list(requests()), ids=lambda part: str(part)[:30])
def test_each_request_of_the_file_has_its_answer(here: TestClient, method: str, path: str, body: str) -> None:
    headers = {"content-type": "application/json"} if body else {}
    answer = here.request(method, path, content=body.encode() or None, headers=headers)
    if body == '{"text": 42}':
        assert answer.status_code == 422
        assert Problem.model_validate(answer.json()).problems[0].path == "$.text"
        return
    assert answer.status_code == 200
    plain = path.partition("?")[0]
    if plain in GIVES:
        assert answer.json() == GIVES[plain]
    if plain.startswith("/recipe") and "growing" not in plain:
        assert answer.json()["title"] == "Greek Salad"
    if plain == "/film":
        assert answer.json()["value"]["title"] == "Hero"
        assert answer.json()["account"]["usage"]["output_tokens"] > 0
    if plain in ("/recipe/growing", "/story"):
        last = answer.text.strip().split("\n\n")[-1]
        assert last.startswith(("event: result\n", "event: end\n"))


def test_the_file_has_a_request_for_each_path(here: TestClient) -> None:
    paths = here.get("/openapi.json").json()["paths"]
    assert set(paths) == {path.partition("?")[0] for _, path, _ in requests()} - {"/services.json"}


def test_a_model_that_is_unknown_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "nobody:nothing"]) == 1
    assert capsys.readouterr().err.startswith(
        "It cannot be served: Clerk: the model 'nobody:nothing' is unknown"
    )


def test_the_document_is_json_to_the_last_schema(here: TestClient) -> None:
    document = here.get("/openapi.json").json()
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))) <= known
