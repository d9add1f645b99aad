"""A test case of an evaluation or a calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from ..models.arguments import checks_arguments

E = TypeVar("E")


class _NotGiven(Enum):
    EXPECTED = "no expected value"

    def __repr__(self) -> str:
        return f"<{self.value}>"


# The default of Case.expected. It cannot be None: None is a value that a call may be expected to return.
NOT_GIVEN: Any = _NotGiven.EXPECTED


@checks_arguments
@dataclass(frozen=True)
class Case(Generic[E]):
    """A test case of an evaluation: the arguments of a method call and the expected value.

    Attributes:
        arguments: The arguments of the call, by parameter name.
        expected: The value that scorers compare with; None is a value like any other. If it is not given, a
            scorer that needs it fails with an error in the report.
        name: The name of the case in the report. The default is its number, counted from 1.
        tags: Names of groups of cases. The report has the scores for each tag.
    """

    arguments: Mapping[str, Any]
    expected: E | None = NOT_GIVEN
    name: str = ""
    tags: tuple[str, ...] = ()
