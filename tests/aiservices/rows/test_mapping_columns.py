"""Settings for the columns of an output: prefixes, errors, usage and lists whose items become rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from pydantic import BaseModel, RootModel

from aiservices import (
    BadRequestError,
    Budget,
    ChatRequest,
    DefinitionError,
    Price,
    ScriptedChatModel,
    create,
    user_message,
)
from aiservices.rows import RowsError, map_rows


@dataclass
class Item:
    name: str
    total: float | None


class Invoice(BaseModel):
    total: float
    items: list[Item]
    notes: list[str] | None = None


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Nested:
    words: set[str] = field(default_factory=set)
    pair: Pair | None = None


class Score(BaseModel):
    value: int


class Scores(RootModel[list[Score]]):
    pass


class Scored(BaseModel):
    scores: Scores


class Desk(Protocol):
    @user_message("{{text}}")
    def invoice(self, text: str) -> Invoice: ...

    @user_message("{{text}}")
    def items(self, text: str) -> list[Item]: ...

    @user_message("{{text}}")
    def numbers(self, text: str) -> tuple[int, ...] | None: ...

    @user_message("{{text}}")
    def nested(self, text: str) -> Nested: ...

    @user_message("{{text}}")
    def scored(self, text: str) -> Scored: ...

    @user_message("{{text}}")
    def scores(self, text: str) -> Scores: ...


INVOICES = [
    {"total": 3.5, "items": [{"name": "a", "total": 1.5}, {"name": "b", "total": 2.0}], "notes": ["n"]},
    {"total": 0.0, "items": [], "notes": None},
]
TEXTS = [json.dumps(INVOICES[0]), json.dumps(INVOICES[1]), "fail", json.dumps(INVOICES[0])]


def answer(request: ChatRequest) -> str:
    text = request.messages[-1].text.partition("\n")[0]
    if text == "fail":
        raise BadRequestError("no", status=413)
    return text


def desk() -> Any:
    return create(Desk, ScriptedChatModel(answer))


def table(texts: list[str]) -> dict[str, list[Any]]:
    return {"id": list(range(len(texts))), "text": texts}


FRAMES: list[Callable[[Any], Any]] = [dict, pandas.DataFrame, polars.DataFrame, pyarrow.table]


def columns_of(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    if isinstance(frame, pandas.DataFrame):
        frame = pyarrow.Table.from_pandas(frame)
    columns = [
        frame[name].to_list() if isinstance(frame, polars.DataFrame) else frame.column(name).to_pylist()
        for name in names
    ]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("make", FRAMES)
def test_each_item_of_a_list_is_a_row(make: Callable[[Any], Any]) -> None:
    rows = map_rows(desk().invoice, make(table(TEXTS)), explode="items", prefix="i_")
    frame = rows.dataframe()
    assert columns_of(frame, "id", "i_total", "i_name", "i_items_total", "i_notes") == [
        (0, 3.5, "a", 1.5, ["n"]),
        (0, 3.5, "b", 2.0, ["n"]),
        (1, 0.0, None, None, None),
        (2, None, None, None, None),
        (3, 3.5, "a", 1.5, ["n"]),
        (3, 3.5, "b", 2.0, ["n"]),
    ]
    errors = [error for (error,) in columns_of(frame, "i_error")]
    assert [error is None for error in errors] == [True, True, True, False, True, True]
    assert [row.number for row in rows] == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow"])
def test_files_have_a_row_for_each_item(ending: str, tmp_path: Path) -> None:
    to = tmp_path / f"out.{ending}"
    map_rows(
        desk().items,
        {"text": ['[{"name": "a", "total": 1}, {"name": "b", "total": null}]']},
        to=to,
        explode="value",
    )
    if ending == "csv":
        with to.open(newline="") as file:
            found = [(row["name"], float(row["total"] or -1)) for row in csv.DictReader(file)]
    elif ending == "jsonl":
        lines = map(json.loads, to.read_text().splitlines())
        found = [(row["name"], -1 if row["total"] is None else row["total"]) for row in lines]
    else:
        read = pyarrow.parquet.read_table if ending == "parquet" else pyarrow.ipc.open_file
        made = read(to) if ending == "parquet" else read(to).read_all()
        found = [(row["name"], -1 if row["total"] is None else row["total"]) for row in made.to_pylist()]
    assert found == [("a", 1), ("b", -1)]


def test_lists_of_values_and_optional_lists_are_exploded() -> None:
    made = map_rows(desk().numbers, {"text": ["[1, 2]", "null", "[]"]}, explode="value").dataframe()
    assert made.column("value").to_pylist() == [1, 2, None, None]
    made = map_rows(desk().nested, {"text": ['{"words": ["x"]}']}, explode="words").dataframe()
    assert made.column("words").to_pylist() == ["x"]


def test_a_list_may_be_a_root_model_whose_items_have_one_field() -> None:
    text = '{"scores": [{"value": 1}, {"value": 2}]}'
    made = map_rows(desk().scored, {"text": [text]}, explode="scores").dataframe()
    assert columns_of(made, "value") == [(1,), (2,)]
    made = map_rows(desk().scores, {"text": ['[{"value": 1}, {"value": 2}]']}, explode="value").dataframe()
    assert columns_of(made, "value") == [(1,), (2,)]


def test_explode_names_a_list_of_the_answer() -> None:
    for method, name, expected in (
        (
            desk().invoice,
            "total",
            "explode is 'total', but the answer has no list of that name; its lists are: items, notes",
        ),
        (desk().invoice, "nothing", "its lists are: items, notes"),
        (desk().nested, "pair", "its lists are: words"),
        (desk().items, "items", "its lists are: value"),
        (desk().items, "", "explode is ''; pass a text"),
    ):
        with pytest.raises(DefinitionError) as caught:
            map_rows(method, {"text": ["a"]}, explode=name)
        assert expected in str(caught.value)


def test_the_usage_of_each_row_is_in_columns(tmp_path: Path) -> None:
    budget = Budget(money=1e9, prices={"scripted": Price(1.0, 1.0)})
    to = tmp_path / "out.parquet"
    rows = map_rows(desk().invoice, table(TEXTS), to=to, usage=True, explode="items", budget=budget)
    made = pyarrow.parquet.read_table(to)
    assert made.column_names[-5:] == ["tokens", "cost", "attempts", "seconds", "error"]
    assert [str(made.schema.field(name).type) for name in made.column_names[-5:]] == [
        "int64",
        "double",
        "int64",
        "double",
        "string",
    ]
    by_row = {row.number: row for row in rows}
    assert made.column("attempts").to_pylist() == [1, 0, 1, 1, 0, 0]  # the last row equals the first
    assert made.column("tokens").to_pylist()[0] == by_row[0].usage.total_tokens > 0
    assert sum(made.column("cost").to_pylist()[:3]) == pytest.approx(rows.summary.cost)
    assert made.column("seconds").to_pylist()[0] == by_row[0].seconds > 0


def test_all_new_columns_have_the_prefix_and_the_error_its_own_name() -> None:
    def names(**settings: Any) -> list[str]:
        found: list[str] = map_rows(desk().items, {"text": ["[]"]}, **settings).dataframe().column_names[1:]
        return found

    assert names(prefix="x_") == ["x_value", "x_error"]
    assert names(prefix="x_", usage=True) == [
        "x_value",
        "x_tokens",
        "x_cost",
        "x_attempts",
        "x_seconds",
        "x_error",
    ]
    assert names(error_column="why") == ["value", "why"]
    assert names(prefix="x_", error_column="why") == ["x_value", "why"]


def test_a_name_that_exists_is_an_error() -> None:
    for settings, expected in (
        ({"prefix": "te"}, "the column 'text' exists already; choose another prefix= or error_column="),
        ({"error_column": "text"}, "the column 'text' exists already"),
        ({"prefix": ""}, "prefix is ''; pass a text"),
        ({"error_column": 3}, "error_column is 3; it must be a string"),
    ):
        with pytest.raises(DefinitionError) as caught:
            map_rows(create(Other, "fake").xt, {"text": ["a"]}, **settings)
        assert expected in str(caught.value)


@dataclass
class Xt:
    xt: str


class Other(Protocol):
    @user_message("{{text}}")
    def xt(self, text: str) -> Xt: ...


def test_the_rows_of_a_step_are_the_table_of_the_next() -> None:
    first = map_rows(desk().invoice, table(TEXTS[:2]), explode="items")
    second = map_rows(desk().items, first, prefix="next_", max_failures=1.0)
    assert second.dataframe().column_names == [
        "id",
        "text",
        "total",
        "name",
        "items_total",
        "notes",
        "error",
        "next_value",
        "next_error",
    ]


def test_a_limit_keeps_the_first_rows_of_a_dataframe() -> None:
    for make in FRAMES:
        made = map_rows(desk().invoice, make(table(TEXTS)), limit=2).dataframe()
        assert columns_of(made, "id", "total") == [(0, 3.5), (1, 0.0)]
    relation = duckdb.sql("SELECT '[]' AS text FROM range(3)")
    assert len(map_rows(desk().items, relation, limit=2).dataframe()) == 2


class Greeter(Protocol):
    @user_message("{{text}}/{{language}}")
    def greet(self, text: str, language: str = "en") -> str: ...


def greeted(table: Any, **settings: Any) -> Any:
    model = ScriptedChatModel(lambda request: request.messages[-1].text)
    return map_rows(create(Greeter, model).greet, table, **settings)


_UNEQUAL = [{"text": "a"}, {"language": "de", "text": "b"}, {"text": "=c", "note": [1]}]


def unequal_tables(folder: Path) -> list[Any]:
    lines, array = folder / "in.jsonl", folder / "in.json"
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in _UNEQUAL), "utf-8")
    array.write_text(json.dumps(_UNEQUAL), "utf-8")
    return [_UNEQUAL, iter(_UNEQUAL), lines, array]


def test_columns_that_only_later_rows_have_are_kept(tmp_path: Path) -> None:
    for number, table in enumerate(unequal_tables(tmp_path)):
        to = tmp_path / f"{number}.csv"
        made = greeted(table, to=to, ordered=True)
        assert made.summary.formulas == 2
        assert to.read_text("utf-8").splitlines() == [
            "text,language,note,value,error",
            "a,,,a/en,",
            "b,de,,b/de,",
            "=c,,[1],=c/en,",
        ]
    for table in unequal_tables(tmp_path):
        frame = greeted(table).dataframe()
        assert frame.column_names == ["text", "language", "note", "value", "error"]
        assert sorted(frame["value"].to_pylist()) == ["=c/en", "a/en", "b/de"]


def test_a_later_column_with_the_name_of_a_new_one_is_an_error_and_not_lost(tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": "b", "value": 1}]
    journal = tmp_path / "journal"
    with pytest.raises(RowsError, match=r"has a column 'value', .* rename it, or choose another prefix="):
        greeted(iter(rows), to=tmp_path / "out.jsonl", journal=journal)
    made = greeted(iter(rows), to=tmp_path / "out.jsonl", journal=journal, prefix="new_")
    assert made.summary.requests == 0
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert {row["text"]: row.get("value") for row in written} == {"a": None, "b": 1}


def test_a_column_without_a_text_as_its_name_is_the_only_parameter() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def say(self, text: str) -> str: ...

    desk = create(Desk, ScriptedChatModel(lambda request: request.messages[-1].text))
    for name in (None, 1, ("a", "b"), ""):
        assert [row.value for row in map_rows(desk.say, pandas.Series(["x"], name=name))] == ["x"]


def test_decimals_of_a_step_have_no_further_zeros_in_the_prompt_of_the_next(tmp_path: Path) -> None:
    class Prices(Protocol):
        @user_message("{{text}}")
        def price(self, text: str) -> Decimal: ...

        @user_message("{{price}}")
        def shown(self, price: Decimal) -> str: ...

    prices = create(Prices, ScriptedChatModel(lambda request: request.messages[-1].text))
    first = map_rows(
        prices.price, ["1.50", "100", "0", "-0.000000000000000001"], to=tmp_path / "first.parquet"
    )
    for source in (first, tmp_path / "first.parquet"):
        shown = map_rows(prices.shown, source, columns={"price": "value"}, prefix="next_").dataframe()
        assert shown["next_value"].to_pylist() == ["1.5", "100", "0", "-1E-18"]


def test_columns_of_polars_that_arrow_does_not_have_are_kept(tmp_path: Path) -> None:
    things = polars.Series([object()], dtype=polars.Object)
    frame = polars.DataFrame(
        {"text": ["a"], "wide": polars.Series([2**100], dtype=polars.Int128), "o": things}
    )
    made = greeted(frame, to=tmp_path / "out.parquet").dataframe()
    assert (made["wide"].to_list(), made["wide"].dtype, made["value"].to_list()) == (
        [2**100],
        polars.Int128,
        ["a/en"],
    )
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet")["wide"].to_pylist() == [str(2**100)]


def test_answers_that_are_json_in_a_column_are_values_in_the_next_steps() -> None:
    class Steps(Protocol):
        @user_message("{{text}}")
        def either(self, text: str) -> int | str: ...

        @user_message("<{{value}}>")
        def again(self, value: int | str) -> str: ...

        @user_message("<{{value}}>")
        def text(self, value: str) -> str: ...

    steps = create(Steps, ScriptedChatModel(lambda request: request.messages[-1].text))
    for make in (
        list,
        lambda texts: pandas.DataFrame({"text": texts}),
        lambda texts: polars.DataFrame({"text": texts}),
    ):
        first = map_rows(steps.either, make(['"a"', "5"]))
        second = map_rows(steps.again, first, prefix="b_")
        third = map_rows(steps.text, second, prefix="c_").dataframe()
        assert list(third["value"]) == ['"a"', "5"] or third["value"].to_pylist() == ['"a"', "5"]
        assert [row.value for row in second] == ["<a>", "<5>"]
        assert [str(one) for one in third["c_value"]] == ["<a>", "<5>"]


def test_numbers_that_are_json_in_a_column_keep_all_their_digits_in_the_next_step() -> None:
    class Steps(Protocol):
        @user_message("{{text}}")
        def rates(self, text: str) -> Decimal | list[Decimal]: ...

        @user_message("<{{value}}>")
        def again(self, value: Decimal | list[Decimal]) -> str: ...

    digits = "0.1234567890123456789012"
    steps = create(Steps, ScriptedChatModel(lambda request: request.messages[-1].text))
    rows = map_rows(steps.again, map_rows(steps.rates, [digits, f"[{digits}, 2]"]), prefix="b_")
    first, second = [row.value for row in rows]
    assert first == f"<{digits}>"
    assert digits in second
