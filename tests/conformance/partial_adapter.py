"""Adapt PartialReader to the interface that the corpus of truncated replies expects."""

from __future__ import annotations

from typing import Any

from output_parsers import OutputParsingError, parse
from output_parsers.streaming import PartialReader


class Adapter:
    """``parse`` returns the value or raises one of ``errors``; ``partial`` returns the value so far."""

    errors = (OutputParsingError,)

    def parse(self, tp: Any, text: str) -> Any:
        return parse(tp, text)

    def partial(self, tp: Any, text: str) -> Any:
        """Return the plain data in a text that may be truncated; None if there is none yet."""
        reader: PartialReader[Any] = PartialReader(tp)
        reader.feed(text)
        return reader.snapshot().to_python()
