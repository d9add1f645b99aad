"""filter_rows: the promised share of right rows holds, whatever the probabilities of the model are worth."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol

import numpy
import pandas
import polars
import pyarrow
import pytest

from aiservices import (
    AiMessage,
    BadRequestError,
    Capabilities,
    ChatReply,
    ChatRequest,
    Decision,
    DefinitionError,
    ScriptedChatModel,
    TokenLogprob,
    create,
    user_message,
)
from aiservices.rows import FilteredRows, RowsError, filter_rows
from aiservices.rows.filtering import count_candidates, find_bound

# --- The bound ---

# From the probability that the model states to that of a right answer.
WORLDS: dict[str, Callable[[float], float]] = {
    "calibrated": lambda stated: stated,
    "too sure": lambda stated: 0.5 + (stated - 0.5) * 0.7,
    "far too sure": lambda stated: 0.6,
    "not sure enough": lambda stated: min(1.0, stated + 0.2),
    "just too bad everywhere": lambda stated: 0.949,
    "bad at the top": lambda stated: 0.94 if stated > 0.9 else 0.99,
    "bad below": lambda stated: 0.99 if stated > 0.8 else 0.5,
    "without meaning": lambda stated: 0.97 if hash(round(stated, 4)) % 2 else 0.92,
}


def simulate(world: Callable[[float], float], chance: Random, size: int, labelled: int) -> float | None:
    """Return the share of right rows among the selected rows; None without selected rows."""
    power = chance.choice([0.2, 0.5, 1.0])
    stated = sorted((0.5 + 0.5 * chance.random() ** power for _ in range(size)), reverse=True)
    truth = [chance.random() < world(one) for one in stated]
    count = count_candidates(stated, labelled, 0.95, 0.95)
    sample = {place: truth[place] for place in chance.sample(range(count), labelled)}
    bound = find_bound(stated[:count], sample, 0.95, 0.95)
    if bound is None:
        return None
    selected = [right for one, right in zip(stated, truth, strict=True) if one >= bound.threshold]
    return sum(selected) / len(selected)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_the_precision_is_broken_in_at_most_5_percent_of_500_simulations(world: str) -> None:
    chance = Random(world)
    found = [simulate(WORLDS[world], chance, 3000, 300) for _ in range(500)]
    broken = sum(one is not None and one < 0.95 for one in found)
    print(f"{world}: {broken} of 500 broken, {sum(one is None for one in found)} without a threshold")
    assert broken <= 25


def test_good_probabilities_select_a_large_part_of_what_an_oracle_would_select() -> None:
    chance, shares = Random(1), []
    for _ in range(50):
        stated = sorted((0.5 + 0.5 * chance.random() ** 0.3 for _ in range(3000)), reverse=True)
        truth = [chance.random() < one for one in stated]
        size = count_candidates(stated, 300, 0.95, 0.95)
        sample = {one: truth[one] for one in chance.sample(range(size), 300)}
        bound = find_bound(stated[:size], sample, 0.95, 0.95)
        best = max(n for n in range(1, 3001) if sum(truth[:n]) >= 0.95 * n)
        shares.append(0 if bound is None else sum(one >= bound.threshold for one in stated) / best)
    assert sum(shares) / len(shares) > 0.35, shares


def test_equal_probabilities_are_above_the_threshold_together() -> None:
    stated = [0.9] * 500 + [0.6] * 500
    bound = find_bound(stated, {place: place < 500 for place in range(0, 1000, 4)}, 0.95, 0.95)
    assert bound == (0.9, 125, 0)
    assert find_bound(stated, dict.fromkeys(range(0, 1000, 4), False), 0.95, 0.95) is None
    assert find_bound([0.9], {}, 0.95, 0.95) is None


# --- Tables ---


class Desk(Protocol):
    @user_message("Is this spam? {{text}}")
    def spam(self, text: str) -> Decision[bool]: ...

    @user_message("Which one? {{text}}")
    def team(self, text: str) -> Decision[Literal["a", "b"]]: ...

    @user_message("What? {{text}}")
    def plain(self, text: str) -> str: ...


def probably(probability: float) -> ChatReply:
    shares = ((b"true", math.log(probability)), (b"false", math.log(1 - probability)))
    best = max(shares, key=lambda one: one[1])
    tokens = (TokenLogprob(b'{"value": ', 0.0), TokenLogprob(*best, shares), TokenLogprob(b"}", 0.0))
    return ChatReply(AiMessage(f'{{"value": {best[0].decode()}}}'), logprobs=tokens, model="scripted")


def answer(request: ChatRequest) -> Any:
    text = request.messages[-1].text.partition("? ")[2]
    if "fail" in text:
        raise BadRequestError("no", status=413)
    return probably(float(text.split()[0]))


class Model(ScriptedChatModel):
    capabilities = Capabilities(json_schema=True, logprobs=20)


def desk() -> Any:
    return create(Desk, Model(answer))


def table(size: int, seed: int = 0) -> list[dict[str, Any]]:
    chance = Random(seed)
    rows = []
    for number in range(size):
        stated = round(chance.uniform(0.02, 0.999), 4)
        rows.append({"id": number, "text": f"{stated} {number}", "truth": chance.random() < stated**0.2})
    rows[3]["text"] = "fail"
    return rows


def truth(row: dict[str, Any]) -> bool:
    return bool(row["truth"])


def test_the_selected_rows_are_right_as_often_as_promised() -> None:
    rows = table(2000)
    found = filter_rows(rows, by=desk().spam, labels=truth, max_failures=1.0)
    chosen = list(found)
    assert type(found) is FilteredRows
    assert 300 < len(found) == len(chosen) < 1100
    assert [row.number for row in chosen] == sorted(row.number for row in chosen)
    assert sum(row.inputs["truth"] for row in chosen) / len(chosen) >= 0.95
    assert "selected, with a probability of at least" in str(found)
    assert found.summary.rows == 2000


@pytest.mark.parametrize("make", [list, pandas.DataFrame, polars.DataFrame, pyarrow.Table.from_pylist])
def test_the_dataframe_has_the_selected_rows_of_the_table(make: Callable[[Any], Any]) -> None:
    rows = table(400)
    found = filter_rows(
        make(rows), by=desk().spam, labels=truth, precision=0.9, labelled=100, max_failures=1.0
    )
    frame = found.dataframe()
    assert list(getattr(frame, "column_names", None) or frame.columns) == ["id", "text", "truth"]
    ids = frame["id"].to_pylist() if hasattr(frame["id"], "to_pylist") else list(frame["id"])
    assert ids == [row.inputs["id"] for row in found]
    assert isinstance(frame, pyarrow.Table if make is list else type(make(rows)))


def test_labels_of_people_come_from_a_file_that_does_not_show_the_answers(tmp_path: Path) -> None:
    rows, path, model = table(300), tmp_path / "labels.csv", desk()
    settings: dict[str, Any] = {
        "by": model.spam,
        "labels": path,
        "precision": 0.9,
        "labelled": 60,
        "max_failures": 1.0,
    }
    with pytest.raises(RowsError, match=r"60 rows of .*labels\.csv need a label: write true or false into"):
        filter_rows(rows, **settings)
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == ["row id", "id", "text", "truth", "reviewed answer"]
    for line in lines[1:]:
        line["reviewed answer"] = "yes" if line["truth"] == "true" else "no"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0], delimiter=";")
        writer.writeheader()
        writer.writerows(sorted(lines, key=lambda line: line["text"]))
    with pytest.raises(RowsError, match="1 of 60 rows have no label"):
        filter_rows(rows, **settings)
    lines[0]["reviewed answer"] = lines[0]["truth"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    found = filter_rows(rows, **settings)
    assert [row.number for row in found] == [
        row.number for row in filter_rows(rows, **{**settings, "labels": truth, "journal": tmp_path / "j"})
    ]
    assert (
        found.summary.requests <= 1
    )  # the answers are in the journal; only the failed row is requested again
    wrong = {int(line["id"]) for line in lines if line["truth"] == "false"}
    assert wrong
    assert not wrong & {row.inputs["id"] for row in found}


def test_a_method_with_a_larger_model_can_label() -> None:
    rows = table(300)
    judge = create(Desk, Model(lambda request: probably(0.99)))
    found = filter_rows(rows, by=desk().spam, labels=judge.spam, labelled=60, precision=0.9, max_failures=1.0)
    assert len(found) > 50
    assert (found.wrong, found.labelled) == (0, 60)


def test_all_candidates_may_be_labelled() -> None:
    rows = table(100)
    found = filter_rows(rows, by=desk().spam, labels=truth, labelled=1000, max_failures=1.0)
    assert found.threshold is None
    assert all(row.inputs["truth"] for row in found)
    assert str(found).endswith("of 100 rows selected, all of them labelled")


def test_labels_that_show_nothing_are_an_error() -> None:
    rows = table(1000)
    with pytest.raises(RowsError, match=r"do not show a precision of 95\.0% at any threshold: 300 of 300"):
        filter_rows(rows, by=desk().spam, labels=lambda row: False, max_failures=1.0)
    for label in ("yes", None, 1):
        with pytest.raises(RowsError, match=f"the function for labels returned {label!r}; it must"):
            filter_rows(rows, by=desk().spam, labels=lambda row, label=label: label, max_failures=1.0)  # type: ignore[misc]


def test_labels_may_be_booleans_of_numpy() -> None:
    rows, own = table(300), numpy.bool_
    settings: Any = {"by": desk().spam, "precision": 0.5, "max_failures": 1.0}
    found = filter_rows(rows, labels=lambda row: own(truth(row)), **settings)  # type: ignore[arg-type,return-value]
    assert str(found) == str(filter_rows(rows, labels=truth, **settings))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"to": "x.csv"}, "to is not a setting of filter_rows; write its dataframe() to a file"),
        ({"precision": 1}, "precision is 1; it must be between 0 and 1"),
        ({"confidence": 0}, "confidence is 0; it must be between 0 and 1"),
        (
            {"labelled": 58},
            "labelled is 58; to show a precision of 95.0% with a confidence of 95.0%, at",
        ),
        ({"labels": 3}, "labels is 3; pass a CSV file, a function of a row, or a method"),
        ({"by": "team"}, "Desk.team does not return a Decision[bool], so its answers have no probability"),
        ({"by": "plain"}, "Desk.plain does not return a Decision[bool]"),
    ],
)
def test_wrong_settings_are_found_before_the_first_request(settings: dict[str, Any], expected: str) -> None:
    model = desk()
    by = getattr(model, settings.pop("by", "spam"))
    with pytest.raises(DefinitionError) as caught:
        filter_rows(table(10), by=by, **{"labels": truth, **settings})
    assert expected in str(caught.value)


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"filter_rows\(\) got an unexpected keyword argument 'wrong'"):
        filter_rows(table(10), by=desk().spam, labels=truth, **{"wrong": 1})


def test_an_iterator_is_refused() -> None:
    with pytest.raises(DefinitionError, match="the table is an iterator, which can be read only once"):
        filter_rows(iter(table(10)), by=desk().spam, labels=truth)
