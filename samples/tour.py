"""A tour of the samples on the embedded model: ``python -m samples.tour [MODEL]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time
from enum import Enum
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
from aiservices.models.local.download import WeightsError, demo_weights

from .person import NEWBORN, PersonExtractor
from .table import Colour, coloured, print_row, shortened
from .tour_rows import Row, rows_of

WIDTHS = (1, 16, 23, 36, 10, 4)
LINE = sum(WIDTHS) + 2 * (len(WIDTHS) - 1)
LONGEST = 8 * WIDTHS[3]
MARKS: dict[bool | None, tuple[str, Colour]] = {
    True: ("✓", "green"),
    False: ("✗", "red"),
    None: ("·", "grey"),
}
TUNED = """\
The prompts were worded on these very inputs with Qwen2.5-Coder-1.5B. On other texts expect fewer right
answers from it, least of all for times that are told in words."""
ANOTHER_MODEL = """\
Another model:  make demo DEMO_MODEL=smollm2                 a small download; it errs often
                make demo DEMO_MODEL=openai:NAME             needs OPENAI_API_KEY, and costs money
                AISERVICES_MODEL=openai:NAME python -m samples.person
                create(PersonExtractor, model="openai:NAME") in a program of your own"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tour; 0 when it ran, whatever the answers were, and 1 when there is no model for it."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        model, why = chosen_model(given[0] if given else os.environ.get("DEMO_MODEL", ""))
        rows = rows_of(model)
    except (LookupError, WeightsError, DefinitionError) as error:
        print(f"There is no model for the tour: {error.args[0]}", file=sys.stderr)
        return 1
    print(why)
    tour(model, rows)
    return 0


def chosen_model(asked: str) -> tuple[ChatModel | str, str]:
    """The model, loaded, and why it is this one: weights by name, or a model string with a colon in it."""
    if ":" in asked:
        return asked, f"Running {asked}, as requested."
    name, why = demo_weights(asked or None)
    model = LocalChatModel(name)
    began = perf_counter()
    model.complete(ChatRequest.of("Hello", options=ChatOptions(max_tokens=1)))
    return model, f"{why} It was loaded in {perf_counter() - began:.1f} s."


def tour(model: ChatModel | str, rows: Sequence[Row]) -> None:
    """Ask all that the samples ask, and print it."""
    began = perf_counter()
    print()
    print_row(("", "method", "input", "value", "type", "s"), WIDTHS, "bold")
    outcomes = [show_row(row) for row in rows]
    print_what_was_sent(model)
    print_results([outcome.answer for outcome in outcomes if isinstance(outcome.answer, Result)])
    judged = [outcome.right for outcome in outcomes if outcome.right is not None]
    print(
        f"\n{sum(judged)} of {len(judged)} right; {len(outcomes) - len(judged)} more have no single right "
        f"value. {perf_counter() - began:.0f} s in all."
    )
    print(TUNED)
    print(f"\n{ANOTHER_MODEL}")


@dataclass(frozen=True)
class Outcome:
    """What a row gave; ``right`` is None where there is no single right value."""

    answer: object
    right: bool | None


def show_row(row: Row) -> Outcome:
    """Call, print, and judge; an error is what the row shows, and no end of the tour."""
    began = perf_counter()
    try:
        answer = row.call()
    except AiServiceError as error:
        outcome = Outcome(error, None if row.expected is None else False)
        shown, kind, note = f"{type(error).__name__}: {error}", "error", "✗ no value"
    else:
        value = answer.value if isinstance(answer, Result) else answer
        shown, kind = written(value), type(value).__name__
        right, note = judgement(row, value)
        outcome = Outcome(answer, right)
    mark, colour = MARKS[outcome.right]
    taken = f"{perf_counter() - began:.1f}"
    given, shown = shortened(row.given, WIDTHS[2]), shortened(shown, LONGEST)
    print_row((mark, row.method, given, shown, kind, taken), WIDTHS, first=colour)
    if note:
        print_row(("", "", "", note, "", ""), WIDTHS, colour)
    return outcome


def judgement(row: Row, value: object) -> tuple[bool | None, str]:
    """Whether a value is right, and what is to be said of it."""
    if row.expected is None:
        return None, "; ".join(filter(None, ("no single right value", row.problem(value))))
    right = type(value) is type(row.expected) and value == row.expected
    return right, "" if right else f"✗ expected {written(row.expected)}"


def written(value: object) -> str:
    """A value as Python writes it, but for dates, times and enum members, which are written short."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    names: list[str] = []
    if isinstance(value, BaseModel):
        names = list(type(value).model_fields)
    elif is_dataclass(value):
        names = [part.name for part in fields(value)]
    if not names:
        return repr(value)
    return f"{type(value).__name__}({', '.join(f'{n}={written(getattr(value, n))}' for n in names)})"


def print_what_was_sent(model: ChatModel | str) -> None:
    """Print the prompt, the strategy and the schema of one method, as preview gives them."""
    print_heading("What was sent for one of them: print(preview(extractor.person, text))")
    print(preview(create(PersonExtractor, model).person, NEWBORN))


def print_results(results: Sequence[Result[object]]) -> None:
    """Print what each Result holds beside its value."""
    for result in results:
        usage, attempts = result.usage, len(result.attempts)
        print_heading(f"What the Result[{type(result.value).__name__}] holds beside its value")
        print(f"text       {shortened(result.text, LINE - 11)}")
        print(f"usage      {usage.input_tokens} tokens read, {usage.output_tokens} written")
        print(f"finished   {result.finish_reason}, {result.seconds:.1f} s, attempts: {attempts}")
        print(f"strategy   {result.strategy}")
        print(f"coercions  {'; '.join(map(str, result.coercions)) or 'none: the text was exact'}")


def print_heading(text: str) -> None:
    """Print a line that begins a part."""
    print(f"\n{coloured(text, 'bold')}\n")


if __name__ == "__main__":
    sys.exit(main())
