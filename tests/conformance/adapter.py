"""Adapt ``output_parsers`` to the interface that the corpus of replies expects."""

from __future__ import annotations

from typing import Any

from output_parsers import OutputParsingError, UnsupportedTypeError, parse


class Adapter:
    """``parse(type, text)`` returns the value or raises one of ``errors``."""

    errors = (OutputParsingError, UnsupportedTypeError)  # the latter for types without any value

    def parse(self, tp: Any, text: str) -> Any:
        return parse(tp, text)
