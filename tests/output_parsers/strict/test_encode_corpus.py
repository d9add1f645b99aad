"""Schemas from the wild keep their language when they are encoded for OpenAI's strict mode."""

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


faults = load("strict_subset").faults
nulls = load("null_defaults")


class Outcome(Enum):
    KEPT = "kept"
    GIVEN_UP = "given up"
    WRONG = "wrong"


def exact(value: Any) -> Any:
    """The same JSON with its numbers digit by digit, as the parsers read it."""
    return json.loads(json.dumps(value, default=float), parse_float=Decimal)


def validator(schema: Any) -> Any:
    chosen = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return chosen(exact(schema))


def trouble(case: dict[str, Any], encoding: Encoding) -> list[str]:
    """In what way the instances of a schema do not keep what they are."""
    asked, sent = validator(case["schema"]), validator(encoding.schema)
    names = nulls.null_by_default(case["schema"])
    found = []
    for number, test in enumerate(case["tests"]):
        value = exact(test["data"])
        try:
            written = encoding.encode(value)
        except EncodingError as fault:
            if asked.is_valid(value):
                found.append(f"{number}: a valid instance is refused: {fault}")
            continue
        back = encoding.decode(exact(written))
        if not asked.is_valid(value):
            if sent.is_valid(exact(written)) and asked.is_valid(back):
                found.append(f"{number}: an invalid instance becomes a valid one")
            continue
        if not sent.is_valid(exact(written)):
            found.append(f"{number}: a valid instance does not fit the schema that is sent")
        if not nulls.same_but_for(names, back, value) or not asked.is_valid(back):
            found.append(f"{number}: a valid instance comes back as something else")
    return found


def judged(case: dict[str, Any]) -> tuple[Outcome, list[str]]:
    encoding = encode(case["schema"], OPENAI)
    if not encoding.lossless:
        lost = [str(finding) for finding in encoding.findings if not finding.lossless]
        return (Outcome.GIVEN_UP if lost else Outcome.WRONG), lost
    found = [*faults(encoding.schema), *trouble(case, encoding)]
    return (Outcome.WRONG if found else Outcome.KEPT), found


def test_schemas_from_the_wild_keep_their_language() -> None:
    if not CORPUS.exists():
        pytest.skip(f"the corpus of schemas is not here: {CORPUS}")
    cases = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    outcomes = {case["id"]: judged(case) for case in cases}
    counts = {kind.value: sum(kind is outcome for outcome, _ in outcomes.values()) for kind in Outcome}
    print(f"\n{len(cases)} schemas: {counts}")
    assert {name: said for name, (outcome, said) in outcomes.items() if outcome is Outcome.WRONG} == {}
    assert counts["kept"] >= 0.95 * len(cases)
