"""aiservices.testing: fake answers, recorded answers, and an evaluation, all without an API key."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Protocol

from aiservices import ChatModel, ScriptedChatModel, create, user_message
from aiservices.testing import Case, CassetteChatModel, CassetteError, FakeChatModel, evaluate, exact

Mood = Literal["glad", "angry"]
LETTERS: dict[str, Mood] = {"Thank you!": "glad", "Never again!": "angry", "So long.": "glad"}


class Reader(Protocol):
    @user_message("In which mood was this letter written?\n\nLetter: {{letter}}")
    def mood(self, letter: str) -> Mood: ...


def print_fake_answers() -> None:
    """Print answers of a fake model. They are valid, and the same for the same seed."""
    moods = [[create(Reader, FakeChatModel(seed)).mood(letter) for letter in LETTERS] for seed in (1, 1, 2)]
    print(f"fake: {', '.join(moods[0])}; equal with the same seed: {moods[0] == moods[1]}")


def print_recorded_answers(model: ChatModel | str, path: Path) -> None:
    """Record an answer of a model, and print it again without calling the model."""
    recorded = create(Reader, CassetteChatModel(path, model)).mood("Thank you!")
    replaying = create(Reader, CassetteChatModel(path, mode="none"))
    print(f"recorded: {recorded}; replayed: {replaying.mood('Thank you!')}")
    try:
        replaying.mood("Never again!")
    except CassetteError as error:
        changed = [line for line in str(error).splitlines() if line.startswith(("-  ", "+  "))]
        print("not recorded:", *(" ".join(line.split()) for line in changed), sep="\n  ")


def main(model: ChatModel | str | None = None) -> None:
    """Test and evaluate a service. Without a model, a scripted one answers "glad" for all letters."""
    model = model or ScriptedChatModel(lambda request: '{"value": "glad"}')
    print_fake_answers()
    with TemporaryDirectory() as folder:
        print_recorded_answers(model, Path(folder, "reader.json"))
    cases = [Case({"letter": letter}, mood) for letter, mood in LETTERS.items()]
    report = evaluate(create(Reader, model).mood, cases, [exact()])
    rate = report.summary("exact")
    assert rate.interval is not None
    low, high = rate.interval
    print(f"right: {rate.value:.0%} of {rate.cases} letters (95 % confidence: {low:.0%} to {high:.0%})")
    for outcome in report.outcomes:
        print(f"  {outcome.arguments['letter']} → {outcome.value}, expected {outcome.expected}")


if __name__ == "__main__":
    main()
