"""Real schemas accept the same values after they are encoded for OpenAI's strict mode."""

from __future__ import annotations

import importlib.util
import json
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from output_parsers.profiles import OPENAI
from output_parsers.strict import Encoding, EncodingError, encode

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "schemas.jsonl"
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed; it judges the schemas")


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


problems_of = load("strict_subset").problems_of
nulls = load("null_defaults")


class Outcome(Enum):
    KEPT = "kept"
    GIVEN_UP = "given up"
    WRONG = "wrong"


def exact(value: Any) -> Any:
    """Return the same JSON with exact numbers, as the parsers read it."""
    return json.loads(json.dumps(value, default=float), parse_float=Decimal)


def validator(schema: Any) -> Any:
    chosen = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return chosen(exact(schema))


def round_trip_problems(case: dict[str, Any], encoding: Encoding) -> list[str]:
    """Return a problem for each value of a schema that changes when it is encoded and decoded."""
    original, sent = validator(case["schema"]), validator(encoding.schema)
    names = nulls.null_by_default(case["schema"])
    problems = []
    for number, test in enumerate(case["tests"]):
        value = exact(test["data"])
        try:
            encoded = encoding.encode(value)
        except EncodingError as error:
            if original.is_valid(value):
                problems.append(f"{number}: a valid instance is refused: {error}")
            continue
        decoded = encoding.decode(exact(encoded))
        if not original.is_valid(value):
            if sent.is_valid(exact(encoded)) and original.is_valid(decoded):
                problems.append(f"{number}: an invalid instance becomes a valid one")
            continue
        if not sent.is_valid(exact(encoded)):
            problems.append(f"{number}: a valid instance does not fit the schema that is sent")
        if not nulls.equal_except_nulls(names, decoded, value) or not original.is_valid(decoded):
            problems.append(f"{number}: a valid instance is decoded as something else")
    return problems


def judge(case: dict[str, Any]) -> tuple[Outcome, list[str]]:
    encoding = encode(case["schema"], OPENAI)
    if not encoding.lossless:
        lost = [str(finding) for finding in encoding.findings if not finding.lossless]
        return (Outcome.GIVEN_UP if lost else Outcome.WRONG), lost
    problems = [*problems_of(encoding.schema), *round_trip_problems(case, encoding)]
    return (Outcome.WRONG if problems else Outcome.KEPT), problems


def test_real_schemas_keep_their_values() -> None:
    if not CORPUS.exists():
        pytest.skip(f"the corpus of schemas is missing: {CORPUS}")
    cases = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    outcomes = {case["id"]: judge(case) for case in cases}
    counts = {kind.value: sum(kind is outcome for outcome, _ in outcomes.values()) for kind in Outcome}
    print(f"\n{len(cases)} schemas: {counts}")
    assert {
        name: problems for name, (outcome, problems) in outcomes.items() if outcome is Outcome.WRONG
    } == {}
    assert counts["kept"] >= 0.95 * len(cases)
