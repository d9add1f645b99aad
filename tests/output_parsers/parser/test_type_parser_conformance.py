"""In a corpus of real replies nothing is silently misread, nothing crashes, and nearly all is read."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import TypeAdapter

ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus"
ERROR = {"error": True}


def module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def corpuslib() -> Iterator[ModuleType]:
    if not CORPUS.is_dir():
        pytest.skip(f"the corpus of replies is not here: {CORPUS}")
    limit, known = sys.getrecursionlimit(), set(sys.modules)
    yield module("corpuslib", CORPUS / "corpuslib.py")
    sys.setrecursionlimit(limit)  # the library raises it
    for name in set(sys.modules) - known:
        if name.startswith("corpus_case_"):
            del sys.modules[name]


def judge(case: dict[str, Any], corpuslib: ModuleType, adapter: Any) -> str:
    """Return the verdict on a reply: read, refused, wrong, missed or crashed.

    "wrong" is another value than the expected one, and "missed" means that a value was expected but refused.
    """
    tp, _ = corpuslib.load_type(case)
    text = case["text"] if case["text"] is not None else eval(case["text_gen"])
    expected = eval(case["expect_gen"]) if "expect_gen" in case else case["expect"]
    accepted = [
        expected,
        *case.get("accept", []),
        *(eval(case["accept_gen"]) if "accept_gen" in case else []),
    ]
    try:
        value = adapter.parse(tp, text)
    except adapter.errors:
        return "refused" if ERROR in accepted else "missed"
    except Exception as error:
        return f"crashed: {type(error).__name__}: {error}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dumped = TypeAdapter(tp).dump_python(value, mode="json", warnings="error")
    unordered = case["type"].startswith(("set[", "frozenset["))
    good = any(corpuslib.same(dumped, answer, unordered) for answer in accepted if answer != ERROR)
    return "read" if good else f"wrong: {str(dumped)[:200]}"


@pytest.mark.parametrize("name", ["final.jsonl", "adversarial.jsonl"])
def test_clear_cases_are_read_or_refused_and_never_misread(name: str, corpuslib: ModuleType) -> None:
    adapter = module("conformance_adapter", ROOT / "tests" / "conformance" / "adapter.py").Adapter()
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    cases = [case for line in lines if (case := json.loads(line))["ambiguity"] == "clear"]
    outcomes = {case["id"]: judge(case, corpuslib, adapter) for case in cases}
    bad = {id: outcome for id, outcome in outcomes.items() if outcome.startswith(("wrong", "crashed"))}
    assert bad == {}
    due = Counter(outcomes[case["id"]] for case in cases if case["expect"] != ERROR)
    assert due["missed"] <= 0.02 * due.total()
    accepts_value = ("accept", "accept_gen")
    strict = [c["id"] for c in cases if c["expect"] == ERROR and not any(map(c.get, accepts_value))]
    assert {id: outcomes[id] for id in strict if outcomes[id] != "refused"} == {}
