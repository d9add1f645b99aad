"""Other libraries are found and measured, and their failures are reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import QUICK, Sample
from benchmarks.new_process import environment, running_server
from benchmarks.peer import PEERS, Peer, compare_with_peer
from benchmarks.results import Comparison, Skipped

JSON = Peer("json", "JSON", "json", "none", "import json", "loads")


def test_a_peer_runs_in_its_own_environment(tmp_path: Path) -> None:
    own = tmp_path / "json" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert JSON.python(tmp_path) == str(own)
    assert JSON.python(tmp_path / "elsewhere") == sys.executable
    assert Peer("nothing", "Nothing", "no_such_module", "none", "", "loads").python(tmp_path) is None


def test_another_interpreter_does_not_see_our_packages() -> None:
    assert environment("elsewhere/bin/python")["PYTHONPATH"] == str(Path(__file__).resolve().parents[2])


def test_a_failed_peer_is_skipped_with_its_last_line_of_output() -> None:
    def fails() -> Sample:
        raise subprocess.CalledProcessError(1, "python", stderr="Traceback\nValueError: no\n")

    row = compare_with_peer(JSON, "python", "c", "JSON loads", lambda: Sample(1, 1), fails, QUICK)
    assert row == Skipped("c beside JSON loads", "json failed: ValueError: no")


def test_a_peer_is_compared_with_ours() -> None:
    row = compare_with_peer(JSON, "python", "c", "a", lambda: Sample(1, 1), lambda: Sample(4, 2), QUICK, 0.5)
    assert row == Comparison("c", "a", (0.25,), 0.5, 0.5)


def test_each_peer_has_a_program() -> None:
    programs = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
    assert {peer.program for peer in PEERS} == {path.stem for path in programs.glob("with_*.py")}


PROGRAM = """
from benchmarks.peers.timing import print_times
from benchmarks.values import PERSON, records_data
def call(base_url, model):
    assert base_url.startswith("http") and model == "person"
    return lambda: {answer}
def stream(base_url, model):
    return {{"records": records_data(int(model.split("-")[1]))}}
print_times(call, stream)
"""


@pytest.mark.parametrize(
    "arguments", [("call", "http://x", "person", "0"), ("stream", "x", "records-9-1", "records-1-1")]
)
def test_a_program_prints_its_times(arguments: tuple[str, ...]) -> None:
    done = _run(PROGRAM.format(answer="PERSON"), *arguments)
    assert done.returncode == 0, done.stderr
    assert len([float(text) for text in done.stdout.split()]) == 2


def test_a_program_refuses_an_unexpected_answer() -> None:
    done = _run(PROGRAM.format(answer="{'name': 'Ada'}"), "call", "http://x", "person", "0")
    assert done.stderr == "unexpected object: {'name': 'Ada'}\n"


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment(), capture_output=True, text=True
    )


TOOL_REQUEST = """
import json, sys, urllib.request
tool = {"type": "function", "function": {"name": "found", "parameters": {}}}
request_data = {"model": "person", "stream": True, "tools": [tool], "tool_choice": "required"}
request = urllib.request.Request(sys.argv[1] + "/chat/completions", json.dumps(request_data).encode())
lines = urllib.request.urlopen(request).read().splitlines()
datas = [line[6:] for line in lines if line.startswith(b"data: {")]
(call,) = [c for data in datas for c in json.loads(data)["choices"][0]["delta"].get("tool_calls", ())]
print(call["function"]["name"], json.loads(call["function"]["arguments"])["name"])
"""


def test_the_server_calls_a_tool_if_the_request_demands_it() -> None:
    with running_server() as base_url:
        done = _run(TOOL_REQUEST, base_url)
    assert done.stdout == "found Grace Hopper\n", done.stderr
