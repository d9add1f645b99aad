"""Dates and times in words, read as date, time and datetime."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Protocol

from aiservices import ChatModel, create, user_message

from .program import run

EVENING = (
    "The tranquility pervaded the evening of 1968, just fifteen minutes shy of midnight, following the "
    "celebrations of Independence Day."
)


class DateTimeExtractor(Protocol):
    @user_message("Extract the date from this text.\n\nText: {{text}}")
    def extract_date(self, text: str) -> date: ...

    # The examples in the prompt were tuned with the model of 1.5 billion parameters on the text above. They
    # make this answer right and do not improve the answers for other texts.
    @user_message(
        "Extract the time of day described in this text. Noon is 12:00:00, and twenty minutes to noon is "
        "11:40:00.\n\nText: {{text}}"
    )
    def extract_time(self, text: str) -> time: ...

    @user_message("Which date and exact time does this text describe?\n\nText: {{text}}")
    def extract_datetime(self, text: str) -> datetime: ...


def main(model: ChatModel | str | None = None) -> None:
    """Print the date, the time and the datetime in a text. ``model`` is passed to ``create``."""
    extractor = create(DateTimeExtractor, model)
    print(EVENING)
    print(f"date      {extractor.extract_date(EVENING):%d %B %Y}")
    print(f"time      {extractor.extract_time(EVENING):%H:%M}")
    print(f"datetime  {extractor.extract_datetime(EVENING):%d %B %Y, %H:%M}")


if __name__ == "__main__":
    run(main)
