"""The stage ``parse``: parsing replies, compared to pydantic-core and to json_repair."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from pydantic import BaseModel, JsonValue

from output_parsers import parser_for

from .measure import Effort, Work, compare
from .record_kinds import AttrsAgenda, NamedTupleAgenda, StructAgenda, TypedDictAgenda
from .records import Agenda, Customers, DataclassAgenda, DataclassCustomers
from .results import Comparison, Skipped, Stage
from .values import event, in_fence, records_text

_BASELINE = "validate_json"
_KINDS = {
    "dataclass": DataclassAgenda,
    "attrs": AttrsAgenda,
    "msgspec": StructAgenda,
    "TypedDict": TypedDictAgenda,
    "NamedTuple": NamedTupleAgenda,
}
_SIZES = {"1 KB": 1_000, "100 KB": 100_000}


def run(effort: Effort) -> Stage:
    """Run the stage ``parse``."""
    return Stage("parse", [*_compare_with_pydantic(effort), *_compare_with_json_repair(effort)])


def _compare_with_pydantic(effort: Effort) -> Iterator[Comparison]:
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size))
        yield _compare(f"exact JSON, {name}", Customers, text, text, 1.10, effort)
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size), indent=2)
        yield _compare(f"in a fence with prose, {name}", Customers, in_fence(text), text, 1.30, effort)
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size), event)
        yield _compare(f"dates, {name}", Agenda, text, text, 3.0, effort)
        for kind, tp in _KINDS.items():
            yield _compare_times(f"dates, {kind}, {name}", tp, Agenda, text, 3.0, effort)
    for name, size in _SIZES.items():
        text = records_text(min(size, effort.max_text_size))
        yield _compare_times(
            f"exact JSON, dataclass with a default, {name}", DataclassCustomers, Customers, text, None, effort
        )
        any_json, json_value = (
            partial(parser_for(Any).parse, text),
            partial(parser_for(JsonValue).parse, text),
        )
        pairs = compare(json_value, any_json, effort)
        yield Comparison.of(f"JsonValue, {name}", "our own Any", pairs, 1.1)


def _compare(
    case: str, tp: type[BaseModel], ours: str, json_text: str, target: float | None, effort: Effort
) -> Comparison:
    """Compare our parser on a reply to pydantic-core on the JSON inside the reply."""
    validate: Callable[[str], Any] = tp.__pydantic_validator__.validate_json
    parse = parser_for(tp).parse
    if parse(ours) != validate(json_text):
        raise AssertionError(f"{case}: the two readings must be equal")
    pairs = compare(partial(parse, ours), partial(validate, json_text), effort)
    return Comparison.of(case, _BASELINE, pairs, target)


def _compare_times(
    case: str, tp: Any, model: type[BaseModel], text: str, target: float | None, effort: Effort
) -> Comparison:
    """Compare our parser of another kind of record to pydantic-core's validation of the model."""
    parser = parser_for(tp)
    parse, validate = parser.parse, model.__pydantic_validator__.validate_json
    if parser_for(model).parse(parser.write(parse(text))) != validate(text):
        raise AssertionError(f"{case}: the two readings must be equal")
    pairs = compare(partial(parse, text), partial(validate, text), effort)
    return Comparison.of(case, _BASELINE, pairs, target)


def _compare_with_json_repair(effort: Effort) -> Iterator[Comparison | Skipped]:
    texts = broken_json(min(100_000, effort.max_text_size))
    parse = parser_for(Customers).parse
    if find_spec("json_repair") is None:
        yield Skipped("broken JSON", "json_repair is not installed")
        return
    import json_repair

    for case, text in texts.items():
        repair: Work = partial(_repaired, json_repair.loads, text)
        note = "" if _same_value(repair, parse(text)) else "json_repair reads another value"
        pairs = compare(partial(parse, text), repair, effort)
        yield Comparison.of(f"{case}, 100 KB", "json_repair + pydantic", pairs, 0.5, note=note)


def _repaired(loads: Callable[[str], Any], text: str) -> Customers | None:
    data = loads(text)
    try:
        return Customers.model_validate(data)
    except ValueError:
        return None


def _same_value(repair: Work, ours: Customers) -> bool:
    return bool(repair() == ours)


def broken_json(size: int) -> dict[str, str]:
    """Return complete but invalid JSON of about ``size`` characters, with typical errors of models."""
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
