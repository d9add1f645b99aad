"""map_rows on worker processes gives the same rows as in one process, whatever engine starts them."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import engine_kills
import pytest
from engine_desk import Desk, LoggingModel, asked, engine_named, table
from process_engine import ProcessEngine

from aiservices import (
    AuthenticationError,
    Budget,
    ChatModel,
    DefinitionError,
    Limits,
    MissingExtraError,
    Price,
    create,
    user_message,
)
from aiservices.models.messages import ChatReply
from aiservices.models.requests import ChatRequest
from aiservices.models.scripted import ScriptedChatModel
from aiservices.rows import RayEngine, Rows, RowsError, SparkEngine, as_udf, map_rows
from aiservices.rows.engines.clusters import check_java
from aiservices.rows.engines.workers import Chunk, WorkRow, WorkSpec, worker_for

pytest.importorskip("cloudpickle", reason="cloudpickle is not installed: install the extra ray of aiservices")


class _Engines:
    """Ray and Spark, which are started at their first use."""

    def require(self, name: str) -> None:
        package = {"ray": "ray", "spark": "pyspark"}.get(name)
        if package is not None:
            pytest.importorskip(package, reason=f"{package} is not installed: make test-engines installs it")

    def get(self, name: str) -> Any:
        self.require(name)
        if name == "ray":
            import ray

            if not ray.is_initialized():
                quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
                tests = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
                ray.init(num_cpus=2, _node_ip_address="127.0.0.1", runtime_env=tests, **quiet)
        elif name == "spark":
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        return engine_named(name)

    def stop(self) -> None:
        ray, pyspark = sys.modules.get("ray"), sys.modules.get("pyspark.sql")
        if ray is not None and ray.is_initialized():
            ray.shutdown()
        session = None if pyspark is None else pyspark.SparkSession.getActiveSession()
        if session is not None:
            session.stop()


@pytest.fixture(scope="module")
def engines() -> Iterator[_Engines]:
    made = _Engines()
    yield made
    made.stop()


CLUSTERS = [pytest.param(name, marks=pytest.mark.engines) for name in ("ray", "spark")]


@pytest.fixture(params=["processes", *CLUSTERS])
def engine(request: pytest.FixtureRequest, engines: _Engines) -> Any:
    return engines.get(request.param)


pytestmark = pytest.mark.filterwarnings("ignore")  # Ray and Spark warn of their own


def run(engine: Any, log: Path, rows: int = 30, **settings: Any) -> Rows[int]:
    desk = create(Desk, LoggingModel(str(log)))
    settings = {"key": "id", "journal": log.with_name("journal"), "max_failures": 1.0, **settings}
    return map_rows(desk.team, table(rows), engine=engine, **settings)


def test_the_rows_are_those_of_one_process(engine: Any, tmp_path: Path) -> None:
    found = {}
    for name, one in (("alone", None), ("workers", engine)):
        (tmp_path / name).mkdir()
        rows = run(one, tmp_path / name / "log", to=tmp_path / name / "out.jsonl")
        summary = rows.summary
        found[name] = (
            sorted((row.key, row._value, str(row.error), row.usage, row.cost, row.attempts) for row in rows),
            (tmp_path / name / "out.jsonl").read_bytes(),
            (summary.rows, summary.errors, summary.cached, summary.requests, summary.usage, summary.cost),
        )
        assert len(asked(tmp_path / name / "log")) == 30
    assert found["workers"] == found["alone"]


def test_a_second_run_asks_only_for_what_is_missing(engine: Any, tmp_path: Path) -> None:
    run(engine, tmp_path / "log", rows=20).run()
    rows = run(engine, tmp_path / "log")
    is_known = {number: number < 20 and number % 10 != 9 for number in range(30)}  # the others had an error
    assert {row.key: row.cached for row in rows} == is_known
    assert len(asked(tmp_path / "log")) == 32
    assert not (tmp_path / "journal.parts").exists()


def test_workers_share_limits_and_a_budget(engine: Any, tmp_path: Path) -> None:
    prices = {"scripted": Price(1e6, 1e6)}
    settings = {"limits": Limits(max_concurrency=2), "budget": Budget(money=7 * 12, prices=prices)}
    with pytest.raises(
        RowsError, match=r"the budget of the run is used up: .* raise budget=Budget\(money=…\)"
    ):
        run(engine, tmp_path / "log", **settings).run()
    answered = [number for _, number in asked(tmp_path / "log") if not number.endswith("9")]
    assert 12 <= len(answered) <= 13  # 12 rows at 7 each; another one may be in flight
    again = run(engine, tmp_path / "log")
    assert again.run().rows == 30
    assert len(asked(tmp_path / "log")) <= 34  # those with an error were not stored, or one was in flight


class WrongKeyModel(LoggingModel):
    async def acomplete(self, request: ChatRequest) -> ChatReply:
        raise AuthenticationError("the key is wrong", retryable=False, status=401)


def test_an_error_that_affects_all_rows_ends_the_run(engine: Any, tmp_path: Path) -> None:
    desk = create(Desk, WrongKeyModel(str(tmp_path / "log")))
    with pytest.raises(RowsError, match="AuthenticationError: the key is wrong"):
        map_rows(desk.team, table(30), engine=engine).run()


def test_a_service_of_the_main_module_is_sent_with_its_types(engine: Any, tmp_path: Path) -> None:
    # as in a notebook, or in a script
    program = Path(__file__).with_name("worker_script.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, program, type(engine).__name__],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "bug,wish,bug,wish"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", CLUSTERS)
def test_the_program_of_the_page_runs(name: str, engines: _Engines, tmp_path: Path) -> None:
    engines.require(name)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", page_program(f"{name}.md")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "200 rows: 200 answered, 0 with an error" in ran.stdout
    teams = (tmp_path / "teams.csv").read_text().splitlines()
    assert (teams[0], len(teams)) == ("id,text,value,error", 201)
    pq = pytest.importorskip("pyarrow.parquet")
    answers = pq.read_table(tmp_path / "teams")
    assert (answers.column_names, len(answers)) == (["id", "text", "value", "error"], 200)
    assert set(answers["error"].to_pylist()) == {None}


ROOT = Path(__file__).parents[4]


def page_program(page: str) -> str:
    """Return the indented lines of a page, which are one program."""
    lines = (ROOT / "docs" / "how-to" / page).read_text("utf-8").splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    "))


# --- what does not depend on the engine ---


class Unsendable(Protocol):
    @user_message("Which team? {{text}}")
    def team(self, text: str) -> int: ...


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    lock = threading.Lock()

    def listen(event: object) -> None:
        lock.acquire()

    model = LoggingModel(str(tmp_path / "log"))
    desk = create(Unsendable, model, listeners=[listen])
    with pytest.raises(RowsError, match=r"Unsendable.team: listeners cannot be sent .* cannot pickle"):
        map_rows(desk.team, table(3), engine=ProcessEngine()).run()


def test_a_worker_that_cannot_make_the_service_ends_the_run(tmp_path: Path) -> None:
    desk = create(Desk, OnlyHereModel(os.getpid()))
    with pytest.raises(RowsError, match="could not process the rows: ValueError: not in this process"):
        map_rows(desk.team, table(3), engine=ProcessEngine()).run()


class OnlyHereModel(ScriptedChatModel):
    def __init__(self, process: int) -> None:
        super().__init__([])
        if os.getpid() != process:
            raise ValueError("not in this process")


@pytest.mark.slow
def test_workers_that_are_always_lost_end_the_run(tmp_path: Path) -> None:
    desk = create(Desk, DeadlyModel([]))
    with pytest.raises(RowsError, match="4 workers were lost while they processed the same rows"):
        map_rows(desk.team, table(3), engine=ProcessEngine(workers=1)).run()


class DeadlyModel(ScriptedChatModel):
    async def acomplete(self, request: ChatRequest) -> ChatReply:
        os._exit(1)


def test_a_row_has_its_own_timeout_in_a_worker(tmp_path: Path) -> None:
    desk = create(Desk, NeverModel([]))
    rows = map_rows(desk.team, table(2), engine=ProcessEngine(), row_timeout=0.2, max_failures=1.0)
    assert [str(row.error) for row in rows] == ["TimeoutError: the row has no answer after 0.2 seconds"] * 2


class NeverModel(ScriptedChatModel):
    async def acomplete(self, request: ChatRequest) -> ChatReply:
        await asyncio.sleep(100)
        raise AssertionError


def test_the_journal_of_workers_may_be_on_an_object_store(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    store = f"local://{tmp_path}/store"  # not a path, so it is used by fsspec
    rows = run(ProcessEngine(parts=store), tmp_path / "log")
    assert rows.run().rows == 30
    assert len(asked(tmp_path / "log")) == 30


def test_a_relative_path_is_that_of_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    engine = ProcessEngine(folder=str(tmp_path / "elsewhere"))
    desk = create(Desk, LoggingModel(str(tmp_path / "log")))
    map_rows(desk.team, table(5), key="id", to="out.jsonl", engine=engine)
    assert len(Path("out.jsonl").read_text().splitlines()) == 5
    pa = pytest.importorskip("pyarrow")
    udf, data = as_udf(desk.team, journal="journal"), pa.Table.from_pylist(table(5))
    monkeypatch.chdir("elsewhere")
    assert udf(data)["value"].to_pylist() == [0, 1, 2, 3, 4]
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RayEngine(workers=0), "workers is 0; it must be a whole number of at least 1"),
        (lambda: RayEngine(cpus=-1), "cpus is -1; it must be greater than 0"),
        (lambda: RayEngine(address="ray://host:10001"), "start the program in the cluster"),
        (lambda: SparkEngine("local"), "spark is str; pass a SparkSession"),
        (lambda: SparkEngine(chunk_rows=0), "chunk_rows is 0"),
    ],
)
def test_settings_are_checked(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.8.0_392", "Spark needs Java 17 or newer, and {java} is Java 8; set JAVA_HOME"),
        ("11.0.2", "Spark needs Java 17 or newer, and {java} is Java 11; set JAVA_HOME"),
        ("17.0.15", None),
        ("21", None),
        (None, "Spark needs Java 17 or newer: install it, or set JAVA_HOME"),
    ],
)
def test_the_version_of_java_is_checked(
    version: str | None, message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    if version is not None:
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if message is None:
        check_java()
        return
    with pytest.raises(MissingExtraError) as caught:
        check_java()
    assert str(caught.value) == message.format(java=java)


def test_killed_workers_and_drivers_lose_nothing(tmp_path: Path) -> None:
    with engine_kills.Program("processes", tmp_path / "errors") as program:
        engine_kills.check_kills(program, tmp_path, seed=0)


@pytest.mark.parametrize("name", ["processes", *CLUSTERS])
def test_many_killed_workers_and_drivers_lose_nothing(
    tmp_path: Path, name: str, engines: _Engines, campaign: Iterable[int]
) -> None:
    engines.require(name)
    killed = engine_kills.Kills()
    with engine_kills.Program(name, tmp_path / "errors") as program:
        for seed in campaign:
            folder = tmp_path / str(seed)
            folder.mkdir()
            killed = killed.plus(engine_kills.check_kills(program, folder, 100 + seed))
    assert killed.workers + killed.drivers > 0


def test_the_model_of_a_worker_is_made_once(tmp_path: Path) -> None:
    model: ChatModel = CountedModel(str(tmp_path / "made"))
    desk = create(Desk, model)
    map_rows(desk.team, table(40), engine=ProcessEngine(workers=1, chunk_rows=4)).run()
    assert len((tmp_path / "made").read_text()) == 2  # here, and in the worker


class CountedModel(ScriptedChatModel):
    def __init__(self, log: str) -> None:
        super().__init__(lambda request: '{"value": 1}')
        with open(log, "a") as file:
            file.write("x")


def test_workers_that_are_no_longer_needed_end_their_event_loops(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    answers = []
    for number in range(10):  # more than a process keeps
        desk = create(Desk, LoggingModel(str(tmp_path / f"log{number}")))
        spec = pickle.dumps(WorkSpec(desk, "team", {}, False, 4, 60.0, Budget(), None, None, None))
        chunk = Chunk("one", [WorkRow("1", {"text": f"text {number}"}, {})])
        answers.append(worker_for(spec).answer(chunk)[0].failure)
    assert answers == [None] * 9 + [""]  # the model has no answer for 9
    left = [one for one in set(threading.enumerate()) - threads if one.name == "aiservices rows"]
    assert len(left) <= 8
