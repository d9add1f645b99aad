"""Sort reviews with the batch service of a provider, at half the price: ``python -m samples.batch``.

The model is that of AISERVICES_MODEL, such as ``openai:gpt-5-mini``, or the first argument. Stop the program
whenever you want: it continues with the same batches when you start it again.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from aiservices import create, user_message
from aiservices.rows import BatchEngine, map_rows

REVIEWS = [
    "The battery lasts for two days, and the screen is bright.",
    "It stopped working after a week, and nobody answers my letters.",
    "It does what it says. Nothing special.",
]


class Verdict(Enum):
    GOOD = "good"
    BAD = "bad"
    MIXED = "mixed"


@dataclass
class Review:
    verdict: Verdict
    reason: str


class Reviewer(Protocol):
    @user_message("Judge this product review, and give the reason in a few words.\n\n{{text}}")
    def review(self, text: str) -> Review: ...


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("AISERVICES_MODEL", "openai:gpt-5-mini")
    if not Path("reviews.csv").exists():
        with Path("reviews.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "text"), *enumerate(REVIEWS, 1)])
    reviewer = create(Reviewer, model)
    rows = map_rows(
        reviewer.review, "reviews.csv", key="id", to="judged.csv", engine=BatchEngine(), progress=True
    )
    for row in sorted(rows, key=lambda row: row.number):
        print(row.key, row.error or f"{row.value.verdict.value}: {row.value.reason}")


if __name__ == "__main__":
    main()
