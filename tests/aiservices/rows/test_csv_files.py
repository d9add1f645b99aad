"""The delimiter and the encoding of a CSV file are recognized, stated, and an error if they are uncertain."""

from __future__ import annotations

import csv
import gzip
import io
import logging
import random
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from aiservices import DefinitionError, ScriptedChatModel, create, user_message
from aiservices.rows import map_rows
from aiservices.rows.csv_files import USUAL, csv_dialect
from aiservices.rows.row import RowsError
from aiservices.rows.tables import open_table
from aiservices.testing import FakeChatModel
from output_parsers import DateOrder, NumberStyle

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252")
WORDS = (
    "Grüße",
    "Déjà vu",
    "naïve",
    "5 €",
    "“so”",
    "plain",
    "a;b",
    "c,d",
    "e|f",
    "g\th",
    'say "no"',
    "1\n2",
    "",
)


def csv_text(rows: Sequence[Sequence[str]], delimiter: str, end: str = "\r\n") -> str:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=end).writerows(rows)
    return file.getvalue()


def rows_of(path: Path, **settings: Any) -> list[dict[str, Any]]:
    return list(open_table(path, **settings).rows())


class Desk(Protocol):
    @user_message("{{text}}")
    def ask(self, text: str) -> bool: ...


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_tables_with_any_delimiter_and_encoding_are_read(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    chance = random.Random(f"{delimiter} {encoding}")
    path = tmp_path / "table.csv"
    for size in (1, 2, 5, 3000):
        for end in ("\r\n", "\n"):
            rows = [[str(number), chance.choice(WORDS), chance.choice(WORDS)] for number in range(size)]
            names = ["id", "text", "grüße"]
            path.write_bytes(csv_text([names, *rows], delimiter, end).encode(encoding))
            table = open_table(path)
            found = [list(row.values()) for row in table.rows()]
            assert (table.columns, found, table.count) == (tuple(names), rows, size)


def test_the_encoding_and_the_delimiter_are_stated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id;text\n1;Grüße\n", "cp1252")
    with caplog.at_level(logging.WARNING, "aiservices"):
        rows = map_rows(create(Desk, FakeChatModel()).ask, path)
        rows.run()
    assert rows.summary.read_as == "cp1252, separated by semicolons"
    assert "read as: cp1252, separated by semicolons\n" in f"{rows.summary}\n"
    assert caplog.messages == [
        f"{path} is not UTF-8 text; it is read as Windows-1252. Pass encoding= for another"
    ]
    path.write_text("id,text\n1,Grüße\n", "utf-8")
    assert map_rows(create(Desk, FakeChatModel()).ask, path).run().read_as == ""
    (tmp_path / "other.csv").write_text("id\ttext\n1\ta\n", "utf-16")
    assert (
        open_table(tmp_path).read_as
        == "other.csv: utf-16, separated by tabs; table.csv: UTF-8, separated by commas"
    )


@pytest.mark.parametrize(
    "encoding", ["cp1251", "shift_jis", "gbk", "cp1253", "koi8-r", "cp874", "big5", "euc-kr"]
)
def test_other_encodings_are_not_guessed(tmp_path: Path, encoding: str) -> None:
    texts = {
        "cp1251": "Привет, мир",
        "shift_jis": "こんにちは世界",
        "gbk": "你好世界",
        "cp1253": "Καλημέρα κόσμε",
        "koi8-r": "Привет, мир",
        "cp874": "สวัสดีชาวโลก",
        "big5": "你好世界",
        "euc-kr": "안녕하세요 세계",
    }
    path = tmp_path / "table.csv"
    path.write_bytes(csv_text([["id", "text"], ["1", texts[encoding]]], ";").encode(encoding))
    with pytest.raises(DefinitionError) as caught:
        open_table(path)
    assert 'cannot be recognized; pass encoding=, such as encoding="cp1251"' in str(caught.value)
    assert rows_of(path, encoding=encoding) == [{"id": "1", "text": texts[encoding]}]


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_utf8_with_a_mistake_is_not_read_as_another_encoding(tmp_path: Path, place: float) -> None:
    data = csv_text([["text"], *[["Grüße aus Köln, “schön”"]] * 200], ",").encode()
    cut = next(index for index in range(int(len(data) * place), len(data)) if data[index] >= 0xC2) + 1
    for broken in (data[:cut] + data[cut + 1 :], data[:cut] + b"\xff" + data[cut:], data[:cut]):
        path = tmp_path / "table.csv"
        path.write_bytes(broken)
        with pytest.raises(RowsError, match="the file is not UTF-8 text"):
            csv_dialect(path)


def test_a_delimiter_that_cannot_be_known_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b;c\n1,2;3\n")
    with pytest.raises(
        DefinitionError, match="the fields may be separated by commas or semicolons; pass delimiter="
    ):
        open_table(path)
    assert rows_of(path, delimiter=";") == [{"a,b": "1,2", "c": "3"}]
    assert rows_of(path, delimiter=",") == [{"a": "1", "b;c": "2;3"}]
    path.write_text("a^b\n1^2\n")
    assert rows_of(path, delimiter="^") == [{"a": "1", "b": "2"}]


def test_a_line_for_excel_names_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("sep=;\r\na;b,c\r\n1;2,3\r\n", newline="")
    assert rows_of(path) == [{"a": "1", "b,c": "2,3"}]
    path.write_text("sep=;\r\na;b\r\n1\r\n", newline="")
    with pytest.raises(
        RowsError, match="line 3: the row has 1 fields, but the header has 2; a field with a semi"
    ):
        rows_of(path)


def test_a_file_with_one_column_has_commas(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for text in ("text\na\n", "text\n'a;b'\n", 'text\n"a,b"\n', "text\n"):
        path.write_text(text)
        assert csv_dialect(path) == USUAL
    path = tmp_path / "table.tsv.gz"
    path.write_bytes(gzip.compress("a\tb\n1\tü\n".encode("utf-16")))
    assert rows_of(path) == [{"a": "1", "b": "ü"}]


def test_texts_with_other_delimiters_do_not_change_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    text = "word; word, word\t word| " * 40
    for delimiter in DELIMITERS:
        path.write_text(
            csv_text([["id", "text"], *[[str(number), text] for number in range(500)]], delimiter)
        )
        assert csv_dialect(path).delimiter == delimiter
    path.write_text("id,text\n1,a;b\n2,c;d;e\n")
    assert csv_dialect(path).delimiter == ","


def test_settings_for_csv_files_are_refused_for_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text('{"id": 1}\n')
    for source, settings in ((path, {"delimiter": ";"}), ([{"id": 1}], {"encoding": "utf-8"})):
        with pytest.raises(
            DefinitionError, match="delimiter= and encoding= are only for CSV files; leave them out"
        ):
            open_table(source, **settings)


def test_wrong_settings_for_csv_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("text;n\na;1\n", "utf-8")
    for delimiter in ("", "::", '"', "\n", "\r"):
        with pytest.raises(DefinitionError, match=r"delimiter is .* pass one character"):
            open_table(path, delimiter=delimiter)
    for encoding in ("utf-99", "base64"):
        with pytest.raises(DefinitionError, match=r"encoding is .* pass one of Python"):
            open_table(path, encoding=encoding)
    path.write_text("text;n\nä;1\n", "utf-8")
    with pytest.raises(DefinitionError, match="the file is not ascii text"):
        open_table(path, encoding="ascii")


def cells_of(hint: Any, path: Path, **settings: Any) -> list[Any]:
    def said(self: Any, n: Any) -> str: ...

    said.__annotations__ = {"n": hint, "return": str}
    desk = create(
        type("Desk", (), {"said": user_message("{{n}}")(said)}),
        ScriptedChatModel(lambda one: one.messages[-1].text),
        **settings,
    )
    made: Any = map_rows(desk.said, path, max_failures=1.0)
    return [None if row.error else row.value for row in sorted(made, key=lambda row: row.number)]


def test_numbers_are_written_in_the_style_of_the_service(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('n,id\n"1.234,50",1\n1.234,1\n12,1\n', "utf-8")
    comma, point = NumberStyle.COMMA, NumberStyle.POINT
    assert cells_of(Decimal, path, number_style=comma) == ["1234.50", "1234", "12"]
    assert cells_of(float | None, path, number_style=comma) == ["1234.5", "1234.0", "12.0"]
    assert cells_of(Annotated[Decimal, point], path, number_style=comma) == [None, "1.234", "12"]
    assert cells_of(str, path, number_style=comma) == ["1.234,50", "1.234", "12"]


def test_the_error_of_a_number_with_a_comma_says_how_to_annotate_it(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text('n\n"1.234,50"\n', "utf-8")

    class Desk(Protocol):
        @user_message("{{n}}")
        def said(self, n: Decimal) -> str: ...

    made: Any = map_rows(create(Desk, ScriptedChatModel([])).said, path, max_failures=1.0)
    assert [str(row.error) for row in made] == [
        "ValueError: column n: '1.234,50' is not Decimal; "
        "annotate it as Annotated[Decimal, NumberStyle.COMMA], or with NumberStyle.POINT"
    ]


def test_numbers_and_dates_are_written_as_their_annotation_says(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    cells = ["1.234,50", "1.234", "1,5", "0.125", "12", "1/2"]
    dates = ["31.12.2024", "01.02.2024", "2024-03-04"]
    for delimiter in ",;":
        for hint, texts, expected in (
            (Annotated[Decimal, NumberStyle.COMMA], cells, ["1234.50", "1234", "1.5", "0.125", "12", None]),
            (
                Annotated[float, NumberStyle.COMMA] | None,
                cells,
                ["1234.5", "1234.0", "1.5", "0.125", "12.0", None],
            ),
            (Annotated[Decimal, NumberStyle.POINT], cells, [None, "1.234", None, "0.125", "12", None]),
            (Annotated[date, DateOrder.DMY], dates, ["2024-12-31", "2024-02-01", "2024-03-04"]),
            (Annotated[date, DateOrder.MDY], dates, [None, "2024-01-02", "2024-03-04"]),
            (date, dates, [None, None, "2024-03-04"]),
            # a spreadsheet that writes semicolons may mean 1234
            (Decimal, cells, [None, "1.234" if delimiter == "," else None, None, "0.125", "12", None]),
        ):
            path.write_text(csv_text([["n", "id"], *([text, "1"] for text in texts)], delimiter), "utf-8")
            assert cells_of(hint, path) == expected, (hint, delimiter)
