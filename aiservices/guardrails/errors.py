"""The error of a guard that does not let something through."""

from __future__ import annotations

from ..errors import AiServiceError
from .verdicts import Where

__all__ = ["GuardrailError"]


class GuardrailError(AiServiceError):
    """A guard refused what was said, rejected every answer, or failed by itself, as the ``__cause__`` says.

    ``guard`` is its name, ``where`` it stands: at the "input" or the "output". ``reason`` is what it said.
    """

    def __init__(self, message: str, *, guard: str, where: Where, reason: str) -> None:
        super().__init__(message)
        self.guard = guard
        self.where = where
        self.reason = reason
