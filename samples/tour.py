"""Run several samples and print a table of their answers: ``python -m samples.tour [--yes] [MODEL]``.

Without ``--yes`` it asks before it downloads the weights of a model.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import partial
from time import perf_counter

from pydantic import BaseModel

from aiservices import (
    AiServiceError,
    ChatModel,
    ChatOptions,
    ChatRequest,
    DefinitionError,
    LocalChatModel,
    Result,
    create,
    preview,
)
from aiservices.models.local.weights import ProgressLine, WeightsError, pull, weights_named

from .person import NEWBORN, PersonExtractor
from .table import Colour, coloured, print_row, shortened
from .tour_rows import Row, rows_of
from .tour_weights import demo_weights, free_memory

WIDTHS = (1, 16, 23, 36, 10, 4)
LINE = sum(WIDTHS) + 2 * (len(WIDTHS) - 1)
MAX_VALUE_WIDTH = 8 * WIDTHS[3]
MARKS: dict[bool | None, tuple[str, Colour]] = {
    True: ("✓", "green"),
    False: ("✗", "red"),
    None: ("·", "grey"),
}
TUNED = """\
The prompts were tuned on these inputs with Qwen2.5-Coder-1.5B. Expect fewer right answers on other texts,
especially for times in words."""
CHOICES = "smollm2 (0.1 GB, often wrong), openai:NAME (needs OPENAI_API_KEY), or fake (made-up answers)"
ANOTHER_MODEL = """\
Another model:  make demo DEMO_MODEL=smollm2                 a small download, often wrong
                make demo DEMO_MODEL=openai:NAME             needs OPENAI_API_KEY, and costs money
                AISERVICES_MODEL=openai:NAME python -m samples.person
                create(PersonExtractor, model="openai:NAME") in a program of your own"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tour and return the exit code: 0, or 1 if there is no model. Wrong answers do not change it."""
    parser = argparse.ArgumentParser(prog="python -m samples.tour", description="Run several samples.")
    parser.add_argument(
        "model", nargs="?", default=os.environ.get("DEMO_MODEL", ""), help="openai:NAME, smollm2, fake, …"
    )
    parser.add_argument("--yes", action="store_true", help="download weights without a question")
    options = parser.parse_args(arguments)
    try:
        model, reason = choose_model(options.model, yes=options.yes)
        rows = rows_of(model)
    except (LookupError, WeightsError, DefinitionError) as error:
        print(f"There is no model for the tour: {error.args[0]}", file=sys.stderr)
        return 1
    print(reason)
    tour(model, rows)
    return 0


def choose_model(name: str, *, yes: bool) -> tuple[ChatModel | str, str]:
    """Return the model and the reason for it.

    ``name`` is "PROVIDER:NAME", "fake" or the name of embedded weights. ``yes`` downloads without a question.
    """
    if ":" in name or name == "fake":
        return name, f"Running {name}, as requested."
    weights, reason = demo_weights(name or None, partial(download, yes=yes), free_memory())
    model = LocalChatModel(weights)
    # The first request loads the weights. It is made here, so that no row of the table includes that time.
    start = perf_counter()
    model.complete(ChatRequest.of("Hello", options=ChatOptions(max_tokens=1)))
    return model, f"{reason} It was loaded in {perf_counter() - start:.1f} s."


def download(name: str, *, yes: bool) -> None:
    """Download weights if the user agrees; raise LookupError otherwise."""
    if not yes and not _agrees_to_download(name):
        raise LookupError(
            f"the weights {name} are not on this machine. "
            f"Download them with --yes, or name a model: {CHOICES}"
        )
    pull(name, ProgressLine())


def _agrees_to_download(name: str) -> bool:
    """Ask for the permission to download weights. Without a terminal, it is not possible to agree."""
    question = f"Download the weights {name} ({weights_named(name).size / 1e9:.1f} GB)? [y/N] "
    return sys.stdin.isatty() and input(question).strip().lower() in ("y", "yes")


def tour(model: ChatModel | str, rows: Sequence[Row]) -> None:
    """Call the model for each row of the tour, and print a table of the answers."""
    start = perf_counter()
    print()
    print_row(("", "method", "input", "value", "type", "s"), WIDTHS, "bold")
    outcomes = [show_row(row) for row in rows]
    print_request(model)
    print_results([outcome.answer for outcome in outcomes if isinstance(outcome.answer, Result)])
    verdicts = [outcome.right for outcome in outcomes if outcome.right is not None]
    print(
        f"\n{sum(verdicts)} of {len(verdicts)} right; {len(outcomes) - len(verdicts)} more have no single "
        f"right value. {perf_counter() - start:.0f} s in all."
    )
    print(TUNED)
    print(f"\n{ANOTHER_MODEL}")


@dataclass(frozen=True)
class Outcome:
    """The answer of the model for one row of the tour.

    Attributes:
        answer: What the method returned or raised.
        right: True if it is the expected value; None if several values are right.
    """

    answer: object
    right: bool | None


def show_row(row: Row) -> Outcome:
    """Call the method of a row of the tour, compare the answer, and print the row."""
    start = perf_counter()
    try:
        answer = row.call()
    except AiServiceError as error:
        outcome = Outcome(error, None if row.expected is None else False)
        text, type_name, note = f"{type(error).__name__}: {error}", "error", "✗ no value"
    else:
        value = answer.value if isinstance(answer, Result) else answer
        text, type_name = describe(value), type(value).__name__
        right, note = compare(row, value)
        outcome = Outcome(answer, right)
    mark, colour = MARKS[outcome.right]
    seconds = f"{perf_counter() - start:.1f}"
    argument, text = shortened(row.argument, WIDTHS[2]), shortened(text, MAX_VALUE_WIDTH)
    print_row((mark, row.method, argument, text, type_name, seconds), WIDTHS, first=colour)
    if note:
        print_row(("", "", "", note, "", ""), WIDTHS, colour)
    return outcome


def compare(row: Row, value: object) -> tuple[bool | None, str]:
    """Return whether a value is right, and a note for the table.

    The first item is None if several values are right.
    """
    if row.expected is None:
        return None, "; ".join(filter(None, ("no single right value", row.problem(value))))
    right = type(value) is type(row.expected) and value == row.expected
    return right, "" if right else f"✗ expected {describe(row.expected)}"


def describe(value: object) -> str:
    """Return the repr of a value, with a short form for dates, times and enum members."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(describe, value))}]"
    names: list[str] = []
    if isinstance(value, BaseModel):
        names = list(type(value).model_fields)
    elif is_dataclass(value):
        names = [field.name for field in fields(value)]
    if not names:
        return repr(value)
    return f"{type(value).__name__}({', '.join(f'{n}={describe(getattr(value, n))}' for n in names)})"


def print_request(model: ChatModel | str) -> None:
    """Print the preview of one call: the prompt, the strategy and the schema."""
    print_heading("The request of one of these calls: print(preview(extractor.person, text))")
    print(preview(create(PersonExtractor, model).person, NEWBORN))


def print_results(results: Sequence[Result[object]]) -> None:
    """Print the text, tokens and attempts of each Result of the tour."""
    for result in results:
        usage, attempts = result.usage, len(result.attempts)
        print_heading(f"The other fields of the Result[{type(result.value).__name__}]")
        print(f"text       {shortened(result.text, LINE - 11)}")
        print(f"usage      {usage.input_tokens} input tokens, {usage.output_tokens} output tokens")
        print(f"finished   {result.finish_reason}, {result.seconds:.1f} s, attempts: {attempts}")
        print(f"strategy   {result.strategy}")
        print(f"coercions  {'; '.join(map(str, result.coercions)) or 'none: the text was exact'}")


def print_heading(text: str) -> None:
    """Print the heading of a section of the tour."""
    print(f"\n{coloured(text, 'bold')}\n")


if __name__ == "__main__":
    sys.exit(main())
