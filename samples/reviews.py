"""Rows: classify the product reviews of a table, and collect the unsure answers for a person."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Protocol

from aiservices import ChatModel, Decision, create, user_message
from aiservices.rows import estimate, map_rows

from .program import run

REVIEWS = [
    {"id": 1, "text": "The battery lasts two days, and the screen is bright."},
    {"id": 2, "text": "It broke after a week. The shop does not answer."},
    {"id": 3, "text": "Good price. The strap is too short, but one gets used to it."},
    {"id": 4, "text": "I have used it for a month."},
    {"id": 5, "text": "It broke after a week. The shop does not answer."},
]


class Reader(Protocol):
    @user_message("Is the sentiment of this text positive rather than negative?\n\n{{text}}")
    def is_positive(self, text: str) -> Decision[bool]: ...


def main(model: ChatModel | str | None = None, table: object = REVIEWS, folder: Path | None = None) -> None:
    """Classify the rows of a table with the columns ``id`` and ``text``; ``model`` is passed to create."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            main(model, table, Path(temporary))
        return
    reader = create(Reader, model)
    answers, review = folder / "answers.csv", folder / "review.csv"
    print(estimate(reader.is_positive, table, sample=20, key="id", to=answers), end="\n\n")
    rows = map_rows(
        reader.is_positive, table, key="id", to=answers, review=review, unsure_below=0.8, progress=_show
    )
    print(rows.summary, end="\n\n")
    for row in rows:
        if row.error is None and row.value.at(0.8) is None:
            print(f"unsure ({row.value.probability:.2f}): {str(row.inputs['text'])[:60]}")


def _show(progress: object) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr)


if __name__ == "__main__":
    run(lambda: main(table=sys.argv[1], folder=Path.cwd()) if sys.argv[1:] else main())
