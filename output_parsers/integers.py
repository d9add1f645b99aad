"""Integers of the sizes that other languages have, range-checked."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from annotated_types import Interval

__all__ = ["Int8", "Int16", "Int32", "Int64"]

Int8: TypeAlias = Annotated[int, Interval(ge=-(2**7), le=2**7 - 1)]
Int16: TypeAlias = Annotated[int, Interval(ge=-(2**15), le=2**15 - 1)]
Int32: TypeAlias = Annotated[int, Interval(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)]
