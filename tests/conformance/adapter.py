"""Puts ``output_parsers`` behind the face that the corpus of replies asks for."""

from __future__ import annotations

from typing import Any

from output_parsers import OutputParsingError, parse


class Adapter:
    """``parse(type, text)`` gives the value, or raises one of ``errors``."""

    errors = (OutputParsingError,)

    def parse(self, form: Any, text: str) -> Any:
        return parse(form, text)
