"""Where an entry point gives another result: on purpose, or because of a fault that is known.

A rule names the entry points (a pattern of their names) and the cases that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from equivalence.return_types import Cat, Open, Order, Person, Prices
from equivalence.table import Case
from pydantic import SecretStr

__all__ = ["FAULTS", "ON_PURPOSE", "Rule", "rule_for"]


class Rule(NamedTuple):
    """A difference, in a sentence.

    Attributes:
        reason: What the entry point does, and, if it is wrong, what it should do.
        entry_points: A pattern of the names of the entry points.
        applies: Tells whether the rule is about a case.
        page: The page of the documentation that says so, for differences on purpose, and its words.
    """

    reason: str
    entry_points: str
    applies: Callable[[Case], bool]
    page: tuple[str, str] = ("", "")

    def covers(self, entry_point: str, case: Case) -> bool:
        return re.fullmatch(self.entry_points, entry_point) is not None and self.applies(case)


def rule_for(entry_point: str, case: Case) -> Rule | None:
    """Return the rule that explains a difference of a case at an entry point, if there is one."""
    return next((rule for rule in (*ON_PURPOSE, *FAULTS) if rule.covers(entry_point, case)), None)


def named(*names: str) -> Callable[[Case], bool]:
    """Return a condition for cases with these names."""
    return lambda case: case.name in names


def replying(*replies: str, form: Any = None) -> Callable[[Case], bool]:
    """Return a condition for cases with these replies."""
    return lambda case: case.reply in replies and (form is None or case.form == form)


COLUMNS = "as_udf|map_rows to Parquet"  # entry points whose answers have types of Arrow
IN_UTC = "datetime, UTC"
DOCUMENTS = (
    "Document",
    "Document, text",
    "Document, text like JSON",
    "Document, no text",
    "Optional of Document",
)
JSON_COLUMNS = {
    "Union of list and text",
    "Union of record and text",
    "Union of record and text: text",
    "tag or text or null",
    "JsonValue",
    "dict[str, Any]",
    "list[Any]",
    "Literal, text and number alike",
    "Literal, text and number alike: text",
    "deque",
    "tuple, bare",
    "fields of any JSON",
    "fields of any JSON: text",
    *DOCUMENTS,
    "list of documents",
    "dict of documents",
}


def has_secret(case: Case) -> bool:
    """Tell whether a part of the type is a SecretStr."""
    return case.name == "pydantic types" or case.reply == '{"pw":"x"}' or case.form is SecretStr


ON_PURPOSE = [
    Rule(
        "An Iterator[str] yields the text as it arrives, and not the items of a list.",
        "(.*, )?(Async)?Iterator",
        lambda case: case.form == list[str],
        ("how-to/structured-answers.md", "yields text as the model writes it"),
    ),
    Rule(
        "A client of MCP reads decimals as floats.",
        "McpTools",
        lambda case: case.form in (Decimal, Order) and not case.exact,
        ("how-to/mcp.md", "Numbers of the structured content are as exact as those of the client"),
    ),
    Rule(
        "Votes are for methods that return a whole value, and not for streams.",
        "(.*, )?(blocking|async|Stream|AsyncStream)",
        named("plan: three votes"),
        ("how-to/decisions.md", "A stream cannot vote."),
    ),
    Rule(
        "In strict mode, null stands for a property that is left out.",
        "(json_schema|output_tool), (blocking|async)",
        replying('{"name": "a", "tags": null}'),
        ("how-to/strategies.md", "Only in such a strict mode, null stands for a field that is left out"),
    ),
    Rule(
        "In strict mode, a dict is a list of pairs in an envelope, and its key value is taken for that.",
        "(json_schema|output_tool), (blocking|async)",
        replying('{"value": 82_461_110}'),
        ("how-to/strategies.md", "cannot express every part of a type, for example a map, a default"),
    ),
    Rule(
        "In strict mode, the extra keys of a model are pairs, under a key that may also be one of them.",
        "(json_schema|output_tool), (blocking|async)",
        lambda case: '"additional_properties"' in case.reply,
        ("how-to/strategies.md", "cannot express every part of a type, for example a map, a default"),
    ),
    Rule(
        "A column holds unions and Any as JSON text.",
        COLUMNS,
        lambda case: case.form in (int | str, Any, object, dict, list) or case.name in JSON_COLUMNS,
        ("how-to/tables.md", "other unions are JSON text, as is `Any`"),
    ),
    Rule(
        "Unknown keys of a record are in a column of their own.",
        f"{COLUMNS}|map_rows to JSONL",
        lambda case: case.form is Open,
        ("how-to/tables.md", "The output has one column for each field of a record"),
    ),
    Rule(
        "A column of decimals has 18 places.",
        COLUMNS,
        lambda case: (
            case.form in (Decimal, Order, Prices)
            or case.name in ("constrained Decimal", "validator: Discounted")
        ),
        ("how-to/tables.md", "Decimals have 18 places"),
    ),
    Rule(
        "A column of integers has 64 bits.",
        COLUMNS,
        named("int, large", "constrained large"),
        ("how-to/tables.md", "integers 64 bits"),
    ),
    Rule(
        "A column of datetimes is in UTC.",
        COLUMNS,
        lambda case: case.form is datetime and isinstance(case.expected, datetime) and case.name != IN_UTC,
        ("how-to/tables.md", "datetimes are in UTC, where one without an offset counts as UTC"),
    ),
    Rule(
        "A column has null for a key that a record leaves out.",
        f"{COLUMNS}|map_rows to JSONL",
        named(
            "TypedDict, not required: left out",
            "TypedDict, not total",
            "TypedDict, inherited",
            "not required and nullable: left out",
            "msgspec.Struct, unset",
        ),
        ("how-to/tables.md", "a key that a record leaves out is null"),
    ),
    Rule(
        "A cell of CSV is text if its parameter accepts text.",
        "row of CSV",
        lambda case: (
            case.form in (int | str, list[str] | str, Person | str, Cat | str | None)
            or case.name in (*DOCUMENTS, "Optional of Document: null")
        ),
        ("cli.md", "taken as text if the type accepts a text, else read as JSON"),
    ),
    Rule(
        "A SecretStr cannot be written.",
        "HTTP response|remote client, .*|MCP tool|aiservices call|a?map_rows.*|as_udf|BatchEngine",
        has_secret,
        ("how-to/own-types.md", "A type with a `SecretStr` is refused by all of them"),
    ),
    Rule(
        "A prompt does not contain the asterisks of a SecretStr, or bytes.",
        "argument.*|row of .*",
        lambda case: has_secret(case) or case.name in ("bytes", "bytes, empty", "validator: Decoded"),
        ("how-to/own-types.md", "An argument with a `SecretStr` or `bytes` in a prompt is an error"),
    ),
    Rule(
        "A client cannot send a value that the validators of the server would change, or a SecretStr.",
        "argument of a remote client.*",
        lambda case: case.name in ("validator: Discounted", "validator: Doubled") or has_secret(case),
        ("how-to/own-types.md", "Only a client cannot send such a value as an argument"),
    ),
    Rule(
        "A remote caller does not learn of mistakes in the program.",
        "HTTP response|remote client, .*|MCP tool|McpTools",
        lambda case: case.name.startswith("mistake in "),
        ("reference/http-errors.md", "an unexpected error; it is logged by the logger"),
    ),
]

FAULTS: list[Rule] = []
