"""Reading text, beside pydantic-core's own reading of JSON and beside the usual repair of broken JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel

from output_parsers import parser_for

from .measure import Effort, Work, compare
from .records import Agenda, Customers
from .results import Comparison, Skipped, Stage
from .values import event, in_fence, records_text

_FLOOR = "validate_json"
_SIZES = {"1 KB": 1_000, "100 KB": 100_000}


def run(effort: Effort) -> Stage:
    """The stage ``parse``."""
    return Stage("parse", [*_against_core(effort), *_against_repair(effort)])


def _against_core(effort: Effort) -> Iterator[Comparison]:
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size))
        yield _compare(f"clean, {name}", Customers, text, text, 1.10, effort)
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size), indent=2)
        yield _compare(f"in a fence with prose, {name}", Customers, in_fence(text), text, 1.30, effort)
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size), event)
        yield _compare(f"aligned (dates), {name}", Agenda, text, text, None, effort)


def _compare(
    case: str, tp: type[BaseModel], ours: str, bare: str, target: float | None, effort: Effort
) -> Comparison:
    """Ours on a text as it came, pydantic-core on the JSON in it."""
    validate: Callable[[str], Any] = tp.__pydantic_validator__.validate_json
    parse = parser_for(tp).parse
    if parse(ours) != validate(bare):
        raise AssertionError(f"{case}: the two readings should be equal")
    pairs = compare(partial(parse, ours), partial(validate, bare), effort)
    return Comparison.of(case, _FLOOR, pairs, target)


def _against_repair(effort: Effort) -> Iterator[Comparison | Skipped]:
    texts = broken(min(100_000, effort.max_text_size))
    parse = parser_for(Customers).parse
    if find_spec("json_repair") is None:
        yield Skipped("broken JSON", "json_repair is not installed")
        return
    import json_repair

    for case, text in texts.items():
        repair: Work = partial(_repaired, json_repair.loads, text)
        note = "" if _reads_alike(repair, parse(text)) else "json_repair reads another value"
        pairs = compare(partial(parse, text), repair, effort)
        yield Comparison.of(f"{case}, 100 KB", "json_repair + pydantic", pairs, 0.5, note=note)


def _repaired(loads: Callable[[str], Any], text: str) -> Customers | None:
    found = loads(text)
    try:
        return Customers.model_validate(found)
    except ValueError:
        return None


def _reads_alike(repair: Work, ours: Customers) -> bool:
    return bool(repair() == ours)


def broken(size: int) -> dict[str, str]:
    """JSON of about ``size`` characters that is complete, but written as models often do."""
    clean = json.dumps(json.loads(records_text(size)), indent=1)
    trailing = clean.replace("\n ]", ",\n ]").replace('"\n   }', '",\n   }')
    single = clean.replace('"', "'")
    lines = clean.split("\n")
    commented = "\n".join(f"{line}  // the next customer" if line.strip() == "{" else line for line in lines)
    return {
        "trailing commas": trailing,
        "single quotes": single,
        "comments": commented,
        "all three": commented.replace('"', "'").replace("\n ]", ",\n ]").replace("'\n   }", "',\n   }"),
    }
