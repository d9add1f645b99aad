"""Lists of values and Series are tables with one column, and tables can be at a URL."""

from __future__ import annotations

import gc
import http.server
import json
import tempfile
import threading
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from aiservices import ChatRequest, DefinitionError, ScriptedChatModel, create, user_message
from aiservices.rows import map_rows


class Desk(Protocol):
    @user_message("{{text}}")
    def echo(self, text: str) -> str: ...

    @user_message("{{text}} {{language}}")
    def translated(self, text: str, language: str = "en") -> str: ...

    @user_message("{{one}} {{two}}")
    def both(self, one: str, two: str) -> str: ...

    @user_message("{{number}}")
    def number(self, number: int) -> str: ...


def desk() -> Any:
    def answer(request: ChatRequest) -> str:
        return request.messages[-1].text.partition("\n")[0]

    return create(Desk, ScriptedChatModel(answer))


TEXTS = ["a", "b", "a"]
LISTS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "pandas": pandas.Series,
    "polars": polars.Series,
    "numpy": numpy.array,
    "index": pandas.Index,
    "arrow": pyarrow.array,
    "chunked": lambda values: pyarrow.chunked_array([values]),
}


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_of_texts_is_a_table(kind: str) -> None:
    for method in (desk().echo, desk().translated):
        rows = map_rows(method, LISTS[kind](TEXTS))
        assert [row.value.split()[0] for row in sorted(rows, key=lambda row: row.number)] == TEXTS
        assert rows[1].inputs == {"text": "b"}
        assert list(rows.dataframe()["text"].to_numpy()) == TEXTS


def test_the_series_of_a_dataframe_keeps_its_name_and_index() -> None:
    frame = pandas.DataFrame({"body": TEXTS}, index=[7, 8, 9])
    made = map_rows(desk().echo, frame["body"]).dataframe()
    assert (list(made.columns), list(made.index), list(made.value)) == (
        ["body", "value", "error"],
        [7, 8, 9],
        TEXTS,
    )
    made = map_rows(desk().echo, polars.Series("body", TEXTS)).dataframe()
    assert (made.columns, made["value"].to_list()) == (["body", "value", "error"], TEXTS)


def test_a_dataframe_may_have_a_column_with_the_name_of_an_attribute() -> None:
    frame = pandas.DataFrame({"name": ["x", "y"], "text": ["a", "b"]})
    for source in (frame, polars.DataFrame(frame)):
        assert map_rows(desk().echo, source)[1].value == "b"


def test_cells_of_a_list_are_checked_by_the_annotation() -> None:
    rows = map_rows(desk().number, [1, 2.0, "3", None, Decimal(4), date(2026, 1, 1)], max_failures=1.0)
    assert [row.error is None for row in sorted(rows, key=lambda row: row.number)] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]


def test_names_and_columns_name_the_column_of_a_list() -> None:
    assert map_rows(desk().echo, ["a"], columns={"text": "body"})[0].inputs == {"body": "a"}
    assert map_rows(desk().translated, ["a"], names=["text"])[0].inputs == {"text": "a"}


@pytest.mark.parametrize("source", [["a"], pandas.Series(["a"]), polars.Series(["a"])])
def test_a_method_with_several_parameters_needs_columns(source: Any) -> None:
    with pytest.raises(DefinitionError, match="values without names are for methods with one parameter"):
        map_rows(desk().both, source)


# --- URLs ---


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()


def write_tables(folder: Path) -> None:
    (folder / "t.csv").write_text("text;n\na;1\nb;2\n", "utf-16")
    (folder / "t.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    (folder / "t.json").write_text(json.dumps([{"text": "a"}, {"text": "b"}]))
    table = pyarrow.table({"text": ["a", "b"]})
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    with pyarrow.ipc.new_file(str(folder / "t.arrow"), table.schema) as writer:
        writer.write_table(table)


ENDINGS = pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet", "arrow"])


@ENDINGS
def test_tables_are_read_from_a_server(ending: str, server: str, tmp_path: Path) -> None:
    write_tables(tmp_path)
    rows = map_rows(desk().echo, f"{server}/t.{ending}?version=1", to=tmp_path / "out.jsonl")
    assert [row.value for row in rows] == ["a", "b"]
    assert (tmp_path / "t.csv").exists()


@ENDINGS
def test_tables_are_read_from_stores_of_fsspec(ending: str, tmp_path: Path) -> None:
    import fsspec

    write_tables(tmp_path)
    store = fsspec.filesystem("memory")
    store.pipe_file(f"/bucket/one.{ending}", (tmp_path / f"t.{ending}").read_bytes())
    store.pipe_file(f"/bucket/two.{ending}", (tmp_path / f"t.{ending}").read_bytes())
    store.pipe_file("/bucket/_SUCCESS", b"")
    try:
        for url, count in ((f"/bucket/one.{ending}", 2), ("/bucket", 4), (f"/bucket/*.{ending}", 4)):
            rows = map_rows(desk().echo, f"memory:/{url}")
            assert len(list(rows)) == len(rows) == count
    finally:
        store.rm("/bucket", recursive=True)


@ENDINGS
def test_tables_are_read_from_s3(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto")
    s3fs = pytest.importorskip("s3fs")
    from moto.server import ThreadedMotoServer

    write_tables(tmp_path)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
        store = s3fs.S3FileSystem(skip_instance_cache=True)
        bucket = f"bucket-{ending}"  # moto keeps its buckets in this process
        store.mkdir(bucket)
        for name in ("one", "two"):
            store.pipe_file(f"{bucket}/a/{name}.{ending}", (tmp_path / f"t.{ending}").read_bytes())
        for url, count in ((f"a/one.{ending}", 2), ("a", 4), (f"a/*.{ending}", 4)):
            rows = map_rows(desk().echo, f"s3://{bucket}/{url}")
            assert sorted(row.value for row in rows) == sorted(["a", "b"] * (count // 2))
        with pytest.raises(DefinitionError, match="cannot be read: FileNotFoundError"):
            map_rows(desk().echo, f"s3://{bucket}/none.{ending}")
    finally:
        server.stop()
        s3fs.S3FileSystem.clear_instance_cache()


def test_copies_of_a_url_are_deleted_with_the_rows(server: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\na\n")
    folder = Path(tempfile.gettempdir())
    before = set(folder.glob("aiservices-rows-*"))
    rows = map_rows(desk().echo, f"{server}/t.csv", to=tmp_path / "out.csv")
    assert (len(set(folder.glob("aiservices-rows-*")) - before), rows[0].value) == (1, "a")
    del rows
    gc.collect()
    assert set(folder.glob("aiservices-rows-*")) <= before


def test_what_is_not_at_a_url_is_an_error(server: str) -> None:
    for url, expected in (
        (f"{server}/none.csv", "none.csv cannot be read: HTTPStatusError: Client error '404 File not found'"),
        ("http://127.0.0.1:9/t.csv", "http://127.0.0.1:9/t.csv cannot be read: "),
        ("unknown://x/t.csv", "unknown://x/t.csv cannot be read: ValueError: Protocol not known: unknown"),
        (f"{server}/t.txt", "cannot be read"),
    ):
        with pytest.raises(DefinitionError) as caught:
            map_rows(desk().echo, url)
        assert expected in str(caught.value)


def test_outputs_are_files_of_this_machine() -> None:
    for name in ("to", "journal", "review", "reviewed"):
        with pytest.raises(DefinitionError, match=f"{name} is s3://b/x.csv; only tables can be at a URL"):
            map_rows(desk().echo, ["a"], **{name: "s3://b/x.csv"}, unsure_below=0.5)
