"""The official tests of JSON Schema, from the source distribution of the package jsonschema.

``make test-slow`` downloads it. The environment variable JSON_SCHEMA_TEST_SUITE names another folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from output_parsers import OutputParsingError
from output_parsers.json_schema.document import InvalidSchemaError
from output_parsers.json_schema.parser import schema_parser

ROOT = Path(__file__).parents[3]
SUITE = Path(os.environ.get("JSON_SCHEMA_TEST_SUITE") or ROOT / ".venv" / "json-schema-test-suite")
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
# Nothing is downloaded, and patterns do not decide which properties are unevaluated.
REFUSED = ("other documents are not downloaded", "in a schema with 'patternProperties' is not supported")
OF_OTHER_VOCABULARIES = "schema that uses custom metaschema with with no validation vocabulary"


def cases(draft: str) -> Iterator[dict[str, Any]]:
    for path in sorted((SUITE / draft).glob("*.json")):
        yield from json.loads(path.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.skipif(not SUITE.is_dir(), reason=f"{SUITE} has no JSON-Schema-Test-Suite; run make test-slow")
@pytest.mark.parametrize("draft", DRAFTS)
def test_values_are_valid_as_the_official_tests_say(draft: str) -> None:
    wrong: list[tuple[str, str]] = []
    refused = count = 0
    for case in cases(draft):
        if case["description"] == OF_OTHER_VOCABULARIES:
            continue
        schema = (
            case["schema"] if isinstance(case["schema"], dict) else {"not": {}} if not case["schema"] else {}
        )
        try:
            parser = schema_parser({"$schema": DRAFTS[draft], **schema}, name="t")
        except InvalidSchemaError as error:
            if not any(reason in str(error) for reason in REFUSED):
                wrong.append((case["description"], str(error)))
            refused += 1
            continue
        for test in case["tests"]:
            count += 1
            if "\\f" in json.dumps(test["data"]):  # a form feed is taken for a lost backslash
                continue
            is_valid = parser.node._check.is_valid(test["data"])  # type: ignore[attr-defined]  # a SchemaNode
            try:
                value = parser.parse(json.dumps(test["data"]))
            except OutputParsingError:
                is_right = not test["valid"]
            else:  # an invalid value may have been aligned with the schema
                is_right = value == test["data"] if test["valid"] else parser.node._check.is_valid(value)  # type: ignore[attr-defined]
            if is_valid is not test["valid"] or not is_right:
                wrong.append((case["description"], test["description"]))
    assert wrong == []
    assert count > 500
    assert refused <= 30
