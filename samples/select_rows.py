"""Filter: select the spam in a table so that at least 95 % of it is spam, with labels of a random sample."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol

from aiservices import ChatModel, Decision, create, user_message
from aiservices.rows import FilteredRows, RowsError, filter_rows

from .program import run


class Desk(Protocol):
    @user_message("Is this message spam?\n\n{{text}}")
    def is_spam(self, text: str) -> Decision[bool]: ...


def main(
    model: ChatModel | str | None = None, table: Any = None, labels: Any = "labels.csv"
) -> FilteredRows | None:
    """Select rows of a table with the column ``text``; ``model`` is passed to create.

    The first call writes the file for labels. When a person has completed it, the second call selects rows.
    """
    desk = create(Desk, model)
    try:
        spam = filter_rows(table, by=desk.is_spam, precision=0.95, confidence=0.95, labels=labels)
    except RowsError as error:
        print(error)
        return None
    print(spam)
    return spam


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m samples.select_rows TABLE.csv")
    run(lambda: main(table=Path(sys.argv[1])))
