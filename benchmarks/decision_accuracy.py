"""Measure the probabilities of a yes/no decision: ``python -m benchmarks.decision_accuracy FILE``.

FILE is the sdist of vaderSentiment 0.5 (MIT), which contains tweets and product reviews with the ratings of
twenty people: ``pip download --no-deps --no-binary :all: vaderSentiment==0.5``. The question is whether the
sentiment of a text is positive. The first 300 texts are those of the protocol in ``benchmarks/README.md``, in
a fixed random order; further texts follow with ``--further N``. Every answer is written to ``--out`` at once,
so that an interrupted run continues.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tarfile
import time
import zipfile
from collections.abc import Iterator
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple, Protocol

from aiservices import Decision, create, user_message
from aiservices.decisions.reliability import find_threshold, fit, measures, reliability_svg, threshold_at
from aiservices.testing import Labelled

_ARCHIVE = "hutto_ICWSM_2014.tar.gz"
_FILES = ("tweets_GroundTruth.txt", "amazonReviewSnippets_GroundTruth.txt")
_SEED = 20261122
_FIRST = 150  # of each file
_PROTOCOL = 256  # of these have a label


class Item(NamedTuple):
    """A text with the mean rating of the people, from -4 to 4."""

    id: str
    text: str
    rating: float

    @property
    def label(self) -> bool | None:
        """True for a positive text, False for a negative one, None if the people were undecided."""
        return None if abs(self.rating) < 0.5 else self.rating > 0


class Reader(Protocol):
    @user_message("Is the sentiment of this text positive rather than negative?\n\n{{text}}")
    def is_positive(self, text: str) -> Decision[bool]: ...


def items(sdist: Path, further: int) -> list[Item]:
    """Return the texts in the order of the protocol."""
    with zipfile.ZipFile(sdist) as archive:
        name = next(name for name in archive.namelist() if name.endswith(_ARCHIVE))
        data = archive.read(name)
    shuffled = random.Random(_SEED)
    files: list[list[Item]] = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for file_name in _FILES:
            member = next(member for member in tar.getmembers() if member.name.endswith(file_name))
            content = tar.extractfile(member)
            assert content is not None
            lines = content.read().decode("utf-8", "replace").splitlines()
            found = [Item(fields[0], fields[2], float(fields[1])) for fields in map(_fields, lines) if fields]
            shuffled.shuffle(found)
            files.append(found)
    count = _FIRST + (further + 1) // 2
    pairs = zip(*(found[:count] for found in files), strict=False)
    return list(chain.from_iterable(pairs))


def _fields(line: str) -> list[str]:
    fields = line.split("\t", 2)
    return fields if len(fields) == 3 else []


def measure(model: str, texts: list[Item], out: Path) -> Iterator[dict[str, object]]:
    """Ask the model about each labelled text that is not in the file yet."""
    done = {json.loads(line)["id"] for line in out.read_text().splitlines()} if out.exists() else set()
    reader = create(Reader, model)
    with out.open("a") as file:
        for item in texts:
            if item.label is None or item.id in done:
                continue
            started, wall = time.process_time(), time.monotonic()
            decision = reader.is_positive(item.text)
            row = {
                "id": item.id,
                "label": item.label,
                "probability": decision.probabilities[True],
                "value": decision.value,
                "seen": decision.seen,
                "cpu": time.process_time() - started,
                "seconds": time.monotonic() - wall,
            }
            file.write(json.dumps(row) + "\n")
            file.flush()
            yield row


def report(rows: list[Labelled], title: str) -> str:
    """Return the measures of labelled probabilities before and after a cross-fitted calibration."""
    calibrator, after = fit(rows)
    lines = [f"{title}: {len(rows)} texts, calibration: {calibrator.kind}"]
    for name, samples in (("before", rows), ("after", after)):
        right = sum(one.is_right for one in samples) / len(samples)
        figures = ", ".join(f"{key} {value:.3f}" for key, value in measures(samples).items() if value)
        lines.append(f"  {name}: right {right:.3f}, {figures}")
    return "\n".join(lines)


def bounds(pool: list[Labelled], draws: int) -> Iterator[str]:
    """Yield how often a threshold was found, and how often its true error was above the promise.

    The pool is the population: calibration sets are drawn from it with replacement, and the true error is
    that of the whole pool.
    """
    for error, size in product((0.05, 0.1), (100, 200, 300, 600)):
        found = broken = 0
        coverage = 0.0
        for seed in range(draws):
            draw = random.Random(seed)
            calibrator, after = fit([draw.choice(pool) for _ in range(size)])
            threshold = find_threshold(after, error, 0.95)
            if threshold is None:
                continue
            corrected = [one._replace(probabilities=calibrator.apply(one.probabilities)) for one in pool]
            true = threshold_at(corrected, threshold.value, 0.95)
            found += 1
            broken += true.error > error
            coverage += true.coverage
        share = coverage / found if found else 0.0
        yield (
            f"error {error:.0%}, {size} labels: found {found / draws:.0%}, kept {1 - broken / draws:.1%}, "
            f"answered {share:.2f}"
        )


class Costs(Protocol):
    @user_message("Is the sentiment of this text positive rather than negative?\n\n{{text}}")
    def plain(self, text: str) -> bool: ...
    @user_message("Is the sentiment of this text positive rather than negative?\n\n{{text}}")
    def decided(self, text: str) -> Decision[bool]: ...
    @user_message("Text: {{text}}\n\nIs its sentiment positive rather than negative?")
    def first(self, text: str) -> Decision[bool]: ...
    @user_message("Text: {{text}}\n\nIs it about a product?")
    def second(self, text: str) -> Decision[bool]: ...


def costs(model: str, texts: list[str]) -> str:
    """Return the processor time of a decision over that of a plain bool, and of a second question."""
    service = create(Costs, model)
    spent: dict[str, float] = dict.fromkeys(("plain", "decided", "first", "second", "pause"), 0.0)

    def call(name: str, text: str) -> None:
        started = time.process_time()
        getattr(service, name)(text)
        spent[name] += time.process_time() - started

    service.plain("Hello.")  # loads the weights
    for number, text in enumerate(texts):
        # Each call but "second" begins with another prompt in the cache.
        for name in ("plain", "decided") if number % 2 else ("decided", "plain"):
            call(name, text)
            service.second("something else")
        call("first", text)
        call("second", text)
    return (
        f"a decision takes {spent['decided'] / spent['plain']:.2f} of a plain bool, "
        f"a second question on a text {spent['second'] / spent['first']:.2f} of the first"
    )


def main() -> None:
    """Run the measurement from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--model", default="local:qwen2.5-coder-1.5b")
    parser.add_argument("--further", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("decision_accuracy.jsonl"))
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    texts = items(options.sdist, options.further)
    for count, row in enumerate(measure(options.model, texts, options.out), 1):
        if count % 25 == 0:
            print(count, row, flush=True)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()]
    labelled = [Labelled((1 - row["probability"], row["probability"]), int(row["label"])) for row in rows]
    first, further = labelled[:_PROTOCOL], labelled[_PROTOCOL:]
    print(report(first, "the texts of the protocol"))
    if further:
        print(report(further, "further texts"))
    if options.plot is not None:
        series = {"before": first, "after": fit(first)[1]}
        options.plot.write_text(reliability_svg(series, "Is the sentiment positive?"))
    for line in bounds(first, options.draws):
        print(line, flush=True)
    print(costs(options.model, [item.text for item in texts[:20]]))


if __name__ == "__main__":
    main()
