"""Puts the partial reader behind the face that the corpus of cut replies asks for."""

from __future__ import annotations

from typing import Any

from output_parsers import OutputParsingError, parse
from output_parsers.streaming import PartialReader


class Adapter:
    """``parse(type, text)`` gives the value, or raises one of ``errors``; ``partial`` what is shown."""

    errors = (OutputParsingError,)

    def parse(self, form: Any, text: str) -> Any:
        return parse(form, text)

    def partial(self, form: Any, text: str) -> Any:
        """Plain data of what a text that may be cut off shows; None when it shows nothing."""
        reader: PartialReader[Any] = PartialReader(form)
        reader.feed(text)
        return reader.snapshot().to_python()
