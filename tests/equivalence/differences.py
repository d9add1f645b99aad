"""Where an entry point gives another result: on purpose, or because of a fault that is known.

A rule names the entry points (a pattern of their names) and the cases that it is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from equivalence.table import Case

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


ON_PURPOSE = [
    Rule(
        "An Iterator[str] yields the text as it arrives, and not the items of a list.",
        "(Async)?Iterator",
        lambda case: case.form == list[str],
        ("how-to/structured-answers.md", "yields text as the model writes it"),
    ),
    Rule(
        "In strict mode, null stands for a property that is left out.",
        "(json_schema|output_tool), (blocking|async)",
        replying('{"name": "a", "tags": null}'),
        ("how-to/structured-answers.md", "cannot express every part of a type, for example a map, a default"),
    ),
]

FAULTS = [
    Rule(
        "An iterator takes the first of several lists, and ends without the error that the list raises.",
        "(Async)?Iterator",
        replying("[1, 2] or [3]", "```json\n[1]\n```\n```json\n[2]\n```"),
    ),
    Rule(
        "An iterator accepts a list under another key, and one object, where the list refuses them.",
        "(Async)?Iterator",
        replying(
            '{"items": [1, 2]}', '{"people": [{"name": "Ann", "age": 42}]}', '{"name": "Ann", "age": 42}'
        ),
    ),
]
