"""Cases of the shared corpus: texts that models have written, which may be elsewhere or missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from equivalence.table import Case

from output_parsers import parser_for

__all__ = ["CORPUS", "FILES", "cases_of"]

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FILES = ("final", "adversarial", "reports-passes", "reports-fails")


def cases_of(name: str) -> Iterator[Case]:
    """Yield the cases of a file; each must give at every entry point what ``parse`` gives."""
    for number, line in enumerate((CORPUS / f"{name}.jsonl").read_text("utf-8").splitlines()):
        entry = json.loads(line)
        # other entries describe large texts
        form = _form(entry["type"], entry.get("defs") or "") if entry.get("text") is not None else None
        if form is not None:
            yield Case(f"{name} {number}: {entry['type']} from {entry['text']!r}", form, entry["text"])


@cache
def _form(expression: str, definitions: str) -> Any:
    """Return the type of a case, which is declared in a module of its own; None if it cannot be read."""
    module = ModuleType(f"corpus_{abs(hash((expression, definitions)))}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(_IMPORTS + definitions, module.__name__, "exec"), module.__dict__)
        form = eval(expression, module.__dict__)
        parser_for(form)
    except Exception:  # an incomplete declaration, or a type that no parser reads
        return None
    return form


_IMPORTS = """
import enum
import typing

import attrs
import msgspec
import pydantic
from dataclasses import dataclass, field
from datetime import *
from decimal import Decimal
from fractions import Fraction
from enum import *
from pathlib import *
from typing import *
from uuid import UUID
from pydantic import *
"""
