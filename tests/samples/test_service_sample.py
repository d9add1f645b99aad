"""The service sample answers each request of its .http file as its OpenAPI document says."""

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
EXPECTED: dict[str, Any] = {
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
    """Yield the HTTP method, the path and the body of each request in the file."""
    text = FILE.read_text("utf-8")
    assert f"@base = {BASE}" in text
    for part in text.split("###")[1:]:
        match = re.search(r"^(GET|POST) \{\{base\}\}(\S+)$", part, re.MULTILINE)
        assert match is not None
        body = part[match.end() :].partition("\n\n")[2].strip()
        yield match[1], match[2], body


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(application(scripted()))


@pytest.mark.parametrize(("method", "path", "body"), list(requests()), ids=lambda part: str(part)[:30])
def test_each_request_in_the_file_has_the_right_response(
    client: TestClient, method: str, path: str, body: str
) -> None:
    headers = {"content-type": "application/json"} if body else {}
    answer = client.request(method, path, content=body.encode() or None, headers=headers)
    if body == '{"prompt": 42}':
        assert answer.status_code == 422
        assert Problem.model_validate(answer.json()).problems[0].path == "$.prompt"
        return
    assert answer.status_code == 200
    plain = path.partition("?")[0]
    if plain in EXPECTED:
        assert answer.json() == EXPECTED[plain]
    if plain.startswith("/recipe") and "stream" not in plain:
        assert answer.json()["title"] == "Greek Salad"
        assert answer.json()["preparationTimeMinutes"] == 15
    if plain == "/film":
        assert answer.json()["value"]["publicationDate"] == "2002-10-24"
        assert answer.json()["account"]["usage"]["output_tokens"] > 0
    if plain in ("/recipe/stream", "/story"):
        last = answer.text.strip().split("\n\n")[-1]
        assert last.startswith(("event: result\n", "event: end\n"))


def test_the_file_contains_a_request_for_each_path(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {path.partition("?")[0] for _, path, _ in requests()} - {"/services.json"}


def test_an_unknown_model_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--model", "nobody:nothing"]) == 1
    assert capsys.readouterr().err.startswith(
        "The service cannot start: Clerk: the model 'nobody:nothing' is unknown"
    )


def test_all_schema_references_in_the_openapi_document_exist(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document))) <= known
