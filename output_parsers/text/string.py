"""The reply itself."""

from __future__ import annotations

from dataclasses import dataclass

from .frame import TextParser

__all__ = ["StrOutputParser"]


@dataclass(frozen=True)
class StrOutputParser(TextParser[str]):
    """The text as the model wrote it, to the last space, as LangChain's.

    >>> StrOutputParser().parse(" Hello! ")
    ' Hello! '
    """

    def format_instructions(self) -> str:
        return ""

    def _read(self, text: str) -> str:
        return text
