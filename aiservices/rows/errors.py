"""The exceptions of ``map_rows``, which calls a service method for each row of a table."""

from __future__ import annotations

from ..models.errors import AiServiceError


class RowsError(AiServiceError):
    """Raised when a table, an output or a journal cannot be read or written, or a run cannot go on."""


class RowError(AiServiceError):
    """The reason why a row has no value.

    Attributes:
        type: The name of the exception, such as "ServiceOutputError".
        message: Its message.
    """

    def __init__(self, type: str, message: str) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.message = message
