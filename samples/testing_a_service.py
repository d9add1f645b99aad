"""aiservices.testing: made-up answers, recorded ones, and how good answers are, without a key."""

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


def made_up() -> None:
    """Valid answers to everything, the same ones for the same seed."""
    moods = [[create(Reader, FakeChatModel(seed)).mood(letter) for letter in LETTERS] for seed in (1, 1, 2)]
    print(f"made up: {', '.join(moods[0])}; the same again: {moods[0] == moods[1]}")


def recorded(model: ChatModel | str, path: Path) -> None:
    """What a model answered is replayed without asking it."""
    asked = create(Reader, CassetteChatModel(path, model)).mood("Thank you!")
    replaying = create(Reader, CassetteChatModel(path, mode="none"))
    print(f"recorded: {asked}; replayed: {replaying.mood('Thank you!')}")
    try:
        replaying.mood("Never again!")
    except CassetteError as error:
        changed = [line for line in str(error).splitlines() if line.startswith(("-  ", "+  "))]
        print("not recorded:", *(" ".join(line.split()) for line in changed), sep="\n  ")


def main(model: ChatModel | str | None = None) -> None:
    """Test and evaluate a service. Without a model a scripted one answers, which finds all letters glad."""
    model = model or ScriptedChatModel(lambda request: '{"value": "glad"}')
    made_up()
    with TemporaryDirectory() as folder:
        recorded(model, Path(folder, "reader.json"))
    cases = [Case({"letter": letter}, mood) for letter, mood in LETTERS.items()]
    report = evaluate(create(Reader, model).mood, cases, [exact()])
    rate = report.summary("exact")
    assert rate.interval is not None
    low, high = rate.interval
    print(f"right: {rate.value:.0%} of {rate.cases} letters; 95 % sure that it is {low:.0%} to {high:.0%}")
    for one in report.outcomes:
        print(f"  {one.arguments['letter']} → {one.value}, expected {one.expected}")


if __name__ == "__main__":
    main()
