"""Classify 200 product reviews on the embedded model: ``python -m benchmarks.review_rows FILE``.

FILE is the sdist of vaderSentiment 0.5, as for ``benchmarks.decision_accuracy``. The method is calibrated
with other reviews first. Then a sample estimates the run, and the answers, the rows for review and the
promised error are compared with the ratings of the people. The files are written to ``--folder``.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from aiservices import create
from aiservices.decisions.reliability import Threshold
from aiservices.rows import estimate, map_rows
from aiservices.testing import Case, calibrate

from .decision_accuracy import Item, Reader, items

_ROWS = 200


def reviews(sdist: Path) -> list[Item]:
    """Return the labelled product reviews, whose ids have two numbers, in the order of the protocol."""
    return [item for item in items(sdist, 4000) if "_" in item.id and item.label is not None]


def draw(thresholds: Sequence[Threshold], picture: Path) -> None:
    """Draw the share of answers above each threshold, and how many of them are wrong."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    found = [one.value for one in thresholds]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3))
    left.plot(found, [100 * one.coverage for one in thresholds], color="#00796b", marker="o")
    left.set(title="Answers above the threshold (%)", xlabel="threshold", ylim=(0, 105))
    right.plot(found, [100 * one.error for one in thresholds], color="#00796b", marker="o", label="wrong")
    right.plot(
        found,
        [100 * one.upper for one in thresholds],
        color="#c62828",
        linestyle="--",
        label="upper bound (95 %)",
    )
    right.axhline(5, color="#999", linewidth=1)
    right.set(title="Wrong among them (%)", xlabel="threshold", ylim=(0, None))
    right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--model", default="local")
    parser.add_argument("--labels", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=Path())
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    found = reviews(arguments.sdist)
    rows, labelled = found[:_ROWS], found[_ROWS : _ROWS + arguments.labels]
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows((item.id, item.text) for item in rows)

    plain = create(Reader, arguments.model)
    calibrated = calibrate(
        plain.is_positive,
        [Case({"text": item.text}, item.label) for item in labelled],
        error=0.05,
        confidence=0.95,
    )
    calibrated.write(folder / "reviews.json")
    print(calibrated, end="\n\n")
    draw(calibrated.thresholds(), folder / "thresholds.svg")

    reader = create(Reader, arguments.model, calibration=folder / "reviews.json")
    to, table = folder / "answers.csv", folder / "reviews.csv"
    print(estimate(reader.is_positive, table, sample=20, key="id", to=to), end="\n\n")
    done = map_rows(reader.is_positive, table, key="id", to=to, review=folder / "review.csv")
    print(done.summary, end="\n\n")

    labels = {item.id: item.label for item in rows}
    sure = [row for row in done if row.error is None and row.value.at() is not None]
    wrong = sum(row.value.value != labels[str(row.key)] for row in sure)
    wrong_all = sum(row.value.value != labels[str(row.key)] for row in done)
    print(f"wrong: {wrong} of {len(sure)} sure answers, {wrong_all} of all {len(rows)}")


if __name__ == "__main__":
    main()
