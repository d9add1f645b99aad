"""People review uncertain answers in their own tools, and their answers are kept."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal, Protocol

import pandas
import pytest

from aiservices import Cited, Decision, Result, create, user_message
from aiservices.models.errors import DefinitionError
from aiservices.rows import RowsError, map_rows
from aiservices.rows.mapping import job_for
from aiservices.rows.review import compare, read_reviewed, write_for_labels
from aiservices.rows.row import Agreement, MappedMethod, Row
from aiservices.testing import FakeChatModel

Team = Literal["billing", "shipping", "=cmd", "01"]


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Desk(Protocol):
    @user_message("Is this spam? {{text}}")
    def is_spam(self, text: str) -> Decision[bool]: ...

    @user_message("Which team? {{text}}")
    def team(self, text: str) -> Decision[Team]: ...

    @user_message("How urgent? {{text}}")
    def level(self, text: str) -> Decision[Level]: ...


VALUES: dict[object, object] = {
    Decision[bool]: Decision(True, {True: 0.6, False: 0.4}),
    Decision[Team]: Decision("billing", {"billing": 0.6, "shipping": 0.4}),
    Decision[Level]: Decision(Level.LOW, {Level.LOW: 0.6, Level.HIGH: 0.4}),
}
TEXTS = ("Straße", "=1+1", "two\nlines", "a;b,c", "-5")


def desk() -> Desk:
    return create(Desk, FakeChatModel(values=VALUES))


def mapped(method: Callable[..., object]) -> MappedMethod:
    return job_for(method, [{"text": "a"}], {}).method


def review_of(method: Callable[..., object], folder: Path, *texts: str) -> Path:
    """Write a file for review of all texts, and return its path."""
    path = folder / "review.csv"
    table = [{"id": number, "text": text} for number, text in enumerate(texts)]
    map_rows(method, table, to=folder / "out.csv", review=path, unsure_below=0.9)
    return path


def filled(path: Path, answers: Sequence[str]) -> list[dict[str, str]]:
    """Return the records of a file for review with answers."""
    records = list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"))))
    for record, answer in zip(records, answers, strict=False):
        record["reviewed answer"] = answer
    return records


def written(records: Sequence[dict[str, Any]], delimiter: str = ",") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_excel(records: list[dict[str, str]]) -> bytes:
    """The file as a German Excel writes it, sorted, with an empty column and empty rows at the end."""
    rows = [{**one, "": "", "note": "x"} for one in reversed(records)]
    return (written(rows, ";") + ";;;;;;;\r\n;;;;;;;\r\n").encode("cp1252")


def as_unicode_text(records: list[dict[str, str]]) -> bytes:
    return written(records, "\t").encode("utf-16")


def as_libreoffice(records: list[dict[str, str]]) -> bytes:
    """With other columns in another order, and line ends of Unix."""
    rows = [{"Reviewed_Answer ": one["reviewed answer"], "ROW ID": one["row id"]} for one in records]
    return written(rows).replace("\r\n", "\n").encode("utf-8-sig")


def as_excel_with_a_separator_line(records: list[dict[str, str]]) -> bytes:
    return ("sep=;\r\n" + written(records, ";")).encode()


def as_pandas(records: list[dict[str, str]]) -> bytes:
    frame = pandas.read_csv(io.StringIO(written(records)))
    frame["due"] = "31.12.2024"
    return bytes(frame.sort_values("text").to_csv(index=True).encode())


PROGRAMS = (as_excel, as_unicode_text, as_libreoffice, as_excel_with_a_separator_line, as_pandas)


@pytest.mark.parametrize("save", PROGRAMS)
def test_files_that_other_programs_saved_are_read(
    save: Callable[[list[dict[str, str]]], bytes], tmp_path: Path
) -> None:
    is_spam = desk().is_spam
    path = review_of(is_spam, tmp_path, *TEXTS)
    path.write_bytes(save(filled(path, ["TRUE", "False", "", "1", "no"])))
    rows = map_rows(
        is_spam, [{"id": 0, "text": text} for text in TEXTS], to=tmp_path / "out.csv", reviewed=path
    )
    assert [(row.value.value, row.reviewed) for row in rows] == [
        (True, True),
        (False, True),
        (True, False),
        (True, True),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("method", "delimiter", "cells"),
    [
        (
            "is_spam",
            ",",
            {
                True: "true TRUE True yes ja WAHR VRAI ИСТИНА 1 1.0 y J",
                False: "false FALSE no nein FALSCH 0 0.0 n",
            },
        ),
        (
            "team",
            ",",
            {"billing": "billing Billing BILLING", "=cmd": "=cmd '=cmd", "01": "01 1 1.0"},
        ),
        ("level", ",", {Level.LOW: "1 1.0 LOW low 1,0", Level.HIGH: "2 2.0 2.000"}),
        ("level", ";", {Level.LOW: "1 1.0 1,0 1,000"}),
    ],
)
def test_cells_that_every_person_would_read_are_read(
    method: str, delimiter: str, cells: dict[object, str], tmp_path: Path
) -> None:
    function = getattr(desk(), method)
    path = review_of(function, tmp_path, "a")
    records = filled(path, [""])
    for value, texts in cells.items():
        for text in texts.split():
            records[0]["reviewed answer"] = text
            path.write_text(written(records, delimiter), "utf-8")
            (answer,) = read_reviewed(path, mapped(function)).values()
            assert (text, getattr(answer, "value", None)) == (text, value)


@pytest.mark.parametrize(
    ("method", "delimiter", "cells"),
    [
        ("is_spam", ",", "maybe|x|2|never true|yes, no"),
        ("team", ",", "bill|not billing|billing or shipping|31.12.2024"),
        ("level", ",", "3|1,000|1.5|1.000,0"),
        ("level", ";", "1.000|1.000,0"),
    ],
)
def test_cells_with_no_or_several_meanings_are_refused(
    method: str, delimiter: str, cells: str, tmp_path: Path
) -> None:
    function = getattr(desk(), method)
    path = review_of(function, tmp_path, "a")
    records = filled(path, [""])
    for text in cells.split("|"):
        records[0]["reviewed answer"] = text
        path.write_text(written(records, delimiter), "utf-8")
        with pytest.raises(RowsError, match=f"line 2: {re.escape(repr(text))} is not "):
            read_reviewed(path, mapped(function))


def test_all_cells_that_cannot_be_read_are_reported_with_what_to_write(tmp_path: Path) -> None:
    is_spam = desk().is_spam
    path = review_of(is_spam, tmp_path, *TEXTS)
    records = filled(path, ["maybe", "true", "x", "", "yes"])
    records[4]["row id"] = "1.2E+05"
    records.append({**records[1], "reviewed answer": "false"})
    path.write_text(written(records), "utf-8")
    with pytest.raises(RowsError) as caught:
        map_rows(is_spam, [{"text": "a"}], reviewed=path)
    assert str(caught.value) == (
        f"{path}: 4 cells cannot be read:\n"
        "  - line 2: 'maybe' is not Decision[bool]; write true | false\n"
        "  - line 5: 'x' is not Decision[bool]; write true | false\n"
        "  - line 7: '1.2E+05' is not a row id; the ids of the file must not be changed\n"
        "  - line 8: 'false' is not 'true', the answer to the same row in line 3"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", "is not a file for review: it has no column row id, reviewed answer"),
        (b"row id;a\n", "is not a file for review: it has no column reviewed answer"),
        (b"row id,row id,reviewed answer\n", "has two columns row id; remove one of them"),
        (b"PK\x03\x04rest", "is a workbook; save the sheet as a CSV file"),
    ],
)
def test_other_files_are_refused(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "review.csv"
    path.write_bytes(content)
    with pytest.raises(RowsError, match=re.escape(f"{path} {expected}")):
        read_reviewed(path, mapped(desk().is_spam))


def test_letters_of_an_unknown_encoding_are_read_only_as_options(tmp_path: Path) -> None:
    path, tickets = tmp_path / "review.csv", create(Tickets, FakeChatModel()).ticket
    answer = '{"team": "billing", "urgent": true, "summary": "Москва"}'
    record = {"row id": f"row-{'0' * 32}", "text": "Жук", "reviewed answer": answer}
    path.write_bytes(written([record]).encode("cp1251"))
    with pytest.raises(RowsError, match="has letters in an unknown encoding; save it as CSV UTF-8"):
        read_reviewed(path, mapped(tickets))
    path.write_bytes(written([{**record, "reviewed answer": "true"}]).encode("cp1251"))
    assert len(read_reviewed(path, mapped(desk().is_spam))) == 1


def test_a_file_for_review_may_have_long_documents(tmp_path: Path) -> None:
    path = review_of(desk().is_spam, tmp_path, "a" * 200_000)
    path.write_text(path.read_text("utf-8").replace(",0.6000,", ",0.6000,no"), "utf-8")
    csv.field_size_limit(131_072)  # the limit of Python, which other tests may have changed
    (answer,) = read_reviewed(path, mapped(desk().is_spam)).values()
    assert getattr(answer, "value", None) is False


def test_a_file_for_review_may_be_in_a_new_folder(tmp_path: Path) -> None:
    table, folder = [{"text": "a"}], tmp_path / "new"
    map_rows(desk().is_spam, table, review=folder / "review.csv", unsure_below=0.9).run()
    assert [path.name for path in folder.iterdir()] == ["review.csv"]
    (tmp_path / "file").write_text("")
    wrong = map_rows(desk().is_spam, table, review=tmp_path / "file" / "review.csv", unsure_below=0.9)
    with pytest.raises(RowsError, match=r"review\.csv cannot be written: "):
        wrong.run()


def test_a_file_for_labels_has_no_formulas_either(tmp_path: Path) -> None:
    path, texts = tmp_path / "labels.csv", ("=1+1", "=1+1", "Straße")
    rows: list[Row[Any]] = [
        Row(number, None, {"text": text, "=a": None}) for number, text in enumerate(texts)
    ]
    write_for_labels(path, mapped(desk().is_spam), ["text", "=a"], rows)
    with path.open(newline="", encoding="utf-8-sig") as file:
        cells = [record[1:] for record in csv.reader(file)]
    assert cells == [["text", "'=a", "reviewed answer"], ["'=1+1", "", ""], ["Straße", "", ""]]
    assert path.read_bytes().startswith(codecs.BOM_UTF8)


def test_the_file_has_no_formulas_and_says_that_it_is_utf_8(tmp_path: Path) -> None:
    path = review_of(desk().is_spam, tmp_path, "=1+1", "'=x", "@a", "+49 170", "\tb", "-5", "Straße")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    records = filled(path, [])
    texts = [record["text"] for record in records]
    assert texts == ["'=1+1", "''=x", "'@a", "'+49 170", "'\tb", "-5", "Straße"]
    assert all(record["row id"].startswith("row-") for record in records)


def test_columns_with_the_names_of_the_file_get_other_names(tmp_path: Path) -> None:
    path = tmp_path / "review.csv"
    table = [{"text": "a", "Row_ID": 7, "answer": "b"}]
    map_rows(desk().is_spam, table, review=path, unsure_below=0.9).run()
    first = path.read_text().splitlines()[0]
    assert first == "row id,text,input Row_ID,input answer,answer,probability,reviewed answer"


def test_answers_of_people_stay_and_are_compared_with_those_of_the_model(tmp_path: Path) -> None:
    is_spam, table = desk().is_spam, [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    path, to = review_of(is_spam, tmp_path, *TEXTS), tmp_path / "out.csv"
    path.write_text(written(filled(path, ["true", "false", "", "true"])), "utf-8")
    summary = map_rows(is_spam, table, to=to, reviewed=path).summary
    assert "answered by people: 3\n" in str(summary)
    assert "the model agrees with people in 2 of 3 answers (true: 2 of 2, false: 0 of 1)" in str(summary)
    path.unlink()
    later = map_rows(is_spam, [*table, {"id": 9, "text": "new"}], to=to)
    assert [row.value.value for row in later] == [True, False, True, True, True, True]
    assert later.summary.reviewed == 3
    assert later.summary.agreement is not None
    assert (later.summary.agreement.same, later.summary.agreement.rows) == (2, 3)


@dataclass
class Ticket:
    team: Literal["billing", "shipping"]
    urgent: bool
    summary: str


class Tickets(Protocol):
    @user_message("{{text}}")
    def ticket(self, text: str) -> Result[Ticket]: ...


def test_the_fields_of_records_are_compared_separately() -> None:
    method = mapped(create(Tickets, FakeChatModel()).ticket)
    agreement = Agreement()
    for own, model in (
        (Ticket("billing", True, "a"), Ticket("billing", False, "a")),
        (Ticket("billing", True, "b"), Ticket("billing", True, "b")),
    ):
        compare(agreement, method, own, method.codec.write(model))
    assert str(agreement) == "1 of 2 answers (team billing: 2 of 2, urgent true: 1 of 2)"


class Colour(Enum):
    RED = 7
    BLUE = "blau"


@dataclass
class Paint:
    colour: Colour
    day: date


class Painter(Protocol):
    @user_message("{{text}}")
    def paint(self, text: str) -> Result[Paint]: ...


def test_answers_are_compared_whatever_their_form_in_the_journal() -> None:
    method, agreement = mapped(create(Painter, FakeChatModel()).paint), Agreement()
    for paint in (Paint(Colour.RED, date(2024, 1, 2)), Paint(Colour.BLUE, date(2024, 1, 3))):
        compare(agreement, method, paint, method.codec.write_any(paint))
    assert str(agreement) == "2 of 2 answers (colour RED: 1 of 1, colour BLUE: 1 of 1)"


def test_a_restart_keeps_the_old_journal_and_the_answers_of_people(tmp_path: Path) -> None:
    is_spam, to = desk().is_spam, tmp_path / "out.csv"
    path, table = review_of(is_spam, tmp_path, "a", "b"), [{"text": "a"}, {"text": "b"}]
    path.write_text(written(filled(path, ["false"])), "utf-8")
    map_rows(is_spam, table, to=to, reviewed=path)
    journal = tmp_path / "out.csv.journal"
    before = journal.read_bytes()
    again = map_rows(is_spam, table, to=to, restart=True)
    assert (tmp_path / "out.csv.journal.bak").read_bytes() == before
    assert (again.summary.requests, [row.value.value for row in again]) == (1, [False, True])
    middle = journal.read_bytes()
    other = map_rows(desk().team, table, to=to, restart=True)  # another question
    assert (other.summary.requests, other.summary.reviewed) == (2, 0)
    assert (tmp_path / "out.csv.journal.bak2").read_bytes() == middle


def test_a_file_with_answers_is_not_overwritten_before_they_are_read(tmp_path: Path) -> None:
    is_spam, table = desk().is_spam, [{"text": "a"}, {"text": "b"}]
    path, to = review_of(is_spam, tmp_path, "a", "b"), tmp_path / "out.csv"
    content = written(filled(path, ["false"]))
    path.write_text(content, "utf-8")
    with pytest.raises(RowsError, match="has 1 answer by people that would be lost; pass reviewed="):
        map_rows(is_spam, table, to=to, review=path, unsure_below=0.9)
    assert path.read_bytes().decode() == content
    rows = map_rows(is_spam, table, to=to, review=path, unsure_below=0.9, reviewed=path)
    assert (rows.summary.reviewed, rows.summary.unsure) == (1, 1)
    with pytest.raises(DefinitionError, match="review and reviewed are the same file"):
        map_rows(is_spam, table, review=path, unsure_below=0.9, reviewed=path)


def test_a_review_needs_to_know_what_is_unsure(tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionError, match=r"pass unsure_below=0\.9, or create the service with a calibration"
    ):
        map_rows(desk().is_spam, [{"text": "a"}], review=tmp_path / "review.csv")


@dataclass
class Verdict:
    spam: Decision[bool]
    reason: Cited[str]


class Sorter(Protocol):
    @user_message("Is this spam? {{text}}")
    def verdict(self, text: str) -> Verdict: ...


def test_the_quotes_of_uncertain_answers_are_shown_in_their_texts(tmp_path: Path) -> None:
    def verdict(share: float) -> Verdict:
        decision = Decision(True, {True: share, False: 1 - share})
        return Verdict(decision, Cited("Win money", "Win money"))

    texts = ["Win money today", "You <i>Win money"]
    for share, expected in ((0.6, ["Win money", "Win money"]), (0.99, None)):
        sorter = create(Sorter, FakeChatModel(values={Verdict: verdict(share)}))
        path = tmp_path / f"{share}.csv"
        map_rows(sorter.verdict, texts, to=tmp_path / f"out{share}.csv", review=path, unsure_below=0.9)
        page = tmp_path / f"{share}.quotes.html"
        assert page.exists() is (expected is not None)
        if expected is not None:
            text = page.read_text("utf-8")
            assert re.findall("<mark[^>]*>(.*?)</mark>", text) == expected
            assert "You &lt;i&gt;<a id=" in text
            ids = [record["row id"] for record in csv.DictReader(io.StringIO(path.read_text("utf-8-sig")))]
            assert re.findall("<h2>(.*?): text</h2>", text) == ids
            assert f"{ids[1]}: reason" in text
