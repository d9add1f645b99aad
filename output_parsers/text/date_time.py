"""Reads a date and time that is written in one given format."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ..extract import open_reply
from ..reading import Place, show
from .frame import TextParser, misfit

__all__ = ["DatetimeOutputParser"]

_EXAMPLE = datetime(2023, 7, 4, 14, 30, 59, 250_000, tzinfo=UTC)
_LONGEST = 200
_AROUND = " \t\r\n\"'`*"


@dataclass(frozen=True)
class DatetimeOutputParser(TextParser[datetime]):
    """A datetime in the format that ``datetime.strptime`` takes, as LangChain's, which also set the default.

    >>> DatetimeOutputParser("%d.%m.%Y %H:%M").parse("04.07.2023 14:30")
    datetime.datetime(2023, 7, 4, 14, 30)

    A fence, quotes, bold and a full stop around it, and reasoning before it, are passed over; nothing else
    is. The ``Z`` of the default format is a letter, as LangChain's: the value has a time zone only where
    the format has ``%z``. For dates in any form, in words too, use ``parser_for(datetime)``.

    Raises ValueError when the format is none.
    """

    format: str = "%Y-%m-%dT%H:%M:%S.%fZ"

    def __post_init__(self) -> None:
        try:
            datetime.strptime(self._example, self.format)
        except ValueError as error:
            raise ValueError(f"{self.format!r} is no format of a datetime: {error}") from error

    @property
    def _example(self) -> str:
        return _EXAMPLE.strftime(self.format)

    def format_instructions(self) -> str:
        return f"Reply only with a date and time in the format {self.format}, such as {self._example}"

    def _read(self, text: str) -> datetime:
        said = open_reply(text, Place()).prose().text.strip(_AROUND)
        for written in (said, said.removesuffix(".").rstrip(_AROUND)):
            if len(written) <= _LONGEST:
                try:
                    return datetime.strptime(written, self.format)
                except (ValueError, OverflowError):
                    pass
        raise misfit(
            f"expected a date and time in the format {self.format}, such as {self._example}",
            found=show(said),
        )
