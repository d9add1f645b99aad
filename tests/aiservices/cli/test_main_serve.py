"""Tests of the command serve as a real process, and of errors before the server starts."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from fastapi.testclient import TestClient

from aiservices import Image, ScriptedChatModel, create
from aiservices.cli.serve import ServeSettings, application_of

from .conftest import ROOT, CommandRun

SMALL = """
from typing import Protocol
class Desk(Protocol):
    def title(self, text: str) -> str: ...
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "aiservices", "serve", *arguments],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_a_service_answers_over_http_until_it_is_stopped(shop: Path) -> None:
    served = subprocess.Popen(
        [sys.executable, "-m", "aiservices", "serve", "shop:priced", "--port", "0"],
        cwd=shop,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert served.stderr is not None
    try:
        address = next(match[0] for line in served.stderr if (match := re.search(r"http://[\d.:]+", line)))
        request = Request(f"{address}/price", b'{"text": "x"}', {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            assert answer.read() == b"19.90"
        with urlopen(f"{address}/openapi.json", timeout=60) as answer:
            assert "/growing-async" in json.load(answer)["paths"]
        with urlopen(address, timeout=60) as page:
            assert page.headers["content-type"] == "text/html; charset=utf-8"
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(address, headers={"Host": "models.example"}), timeout=60)
        with caught.value as refused:
            assert (refused.code, json.load(refused)["type"]) == (403, "urn:aiservices:host-not-allowed")
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=60)
    assert served.returncode == 0


def test_media_hosts_limit_the_images_of_callers_and_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    class Viewer(Protocol):
        def look(self, image: Image) -> str: ...

    module: Any = ModuleType("viewers")
    module.viewer = create(Viewer, ScriptedChatModel(["x"] * 3))
    monkeypatch.setitem(sys.modules, "viewers", module)
    settings = ServeSettings("viewers:viewer", None, "127.0.0.1", [], [], ["a.example"])
    served = TestClient(application_of(settings), base_url="http://127.0.0.1")
    for path in ("/look", "_page/Viewer/look/run"):
        for host, status in (("169.254.169.254", 422), ("a.example", 200)):
            answer = served.post(path, json={"image": {"url": f"https://{host}/a.png"}})
            assert answer.status_code == status, answer.text


def test_the_form_for_approvals_needs_this_machine_and_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clerk(Protocol):
        def work(self, text: str) -> str: ...

    module: Any = ModuleType("clerks")
    module.clerk = create(Clerk, ScriptedChatModel([]))
    monkeypatch.setitem(sys.modules, "clerks", module)
    statuses = []
    for host, workers in (("127.0.0.1", 1), ("127.0.0.1", 2), ("192.0.2.1", 1)):
        application = application_of(ServeSettings("clerks:clerk", None, host, [], [], [], workers))
        served = TestClient(application, base_url=f"http://{host}")
        statuses.append(served.post("/_page/Clerk/work/resume", json={}).status_code)
    assert statuses == [422, 404, 404]


def test_a_port_in_use_is_an_error(shop: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        served = subprocess.run(
            [sys.executable, "-m", "aiservices", "serve", "shop:priced", "--port", str(port)],
            cwd=shop,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
            timeout=100,
        )
    assert served.returncode == 1
    assert served.stderr == (
        f"error: cannot serve at 127.0.0.1:{port}: Address already in use; choose another address with "
        "--host and --port\n"
    )


def opened(request: Request | str) -> Any:
    """Send a request. A process of uvicorn accepts connections shortly after it reports its start."""
    for _ in range(50):
        try:
            return urlopen(request, timeout=60)
        except URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError("the server does not accept connections")


@pytest.mark.parametrize("options", [("--workers", "2"), pytest.param(("--reload",), marks=pytest.mark.slow)])
def test_uvicorn_starts_the_processes_for_workers_and_reload(shop: Path, options: tuple[str, ...]) -> None:
    (shop / "small.py").write_text(SMALL, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    served = start(shop, "small:Desk", "-m", "fake", "--port", port, *options)
    assert served.stderr is not None
    try:
        next(line for line in served.stderr if "Application startup complete" in line)
        request = Request(
            f"http://127.0.0.1:{port}/title", b'{"text": "x"}', {"Content-Type": "application/json"}
        )
        with opened(request) as answer:
            assert isinstance(json.load(answer), str)
        if options == ("--reload",):
            (shop / "small.py").write_text(SMALL.replace("title", "heading"), "utf-8")
            next(line for line in served.stderr if "Application startup complete" in line)
            with opened(f"http://127.0.0.1:{port}/openapi.json") as answer:
                assert "/heading" in json.load(answer)["paths"]
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=60)
    assert served.returncode == 0


def test_workers_report_a_port_in_use(shop: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        served = start(shop, "shop:priced", "--port", port, "--workers", "2")
        _, err = served.communicate(timeout=100)
    assert served.returncode == 1
    assert err.endswith(f"error: cannot serve at 127.0.0.1:{port}; the lines above say why\n")
    assert "startup complete" not in err


def test_reload_and_workers_exclude_each_other(run: CommandRun) -> None:
    assert run("serve", "samples.sentiment:SentimentAnalyzer", "--reload", "--workers", "2") == (
        2,
        "",
        "error: --reload needs a single process; omit --workers\n",
    )


def test_a_single_method_cannot_be_served(run: CommandRun) -> None:
    assert run("serve", "samples.sentiment:SentimentAnalyzer.is_positive", "-m", "fake") == (
        2,
        "",
        "error: only a whole service can be served: omit .is_positive\n",
    )


def test_without_its_extra_the_error_says_what_to_install(
    run: CommandRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.cli.serve.find_spec", lambda name: None if name == "uvicorn" else 1)
    assert run("serve", "samples.sentiment:SentimentAnalyzer") == (
        1,
        "",
        'error: serve needs uvicorn, which is not installed: pip install "aiservices[cli,fastapi]"\n',
    )


def test_a_wrong_definition_is_reported_before_the_server_starts(run: CommandRun, shop: Path) -> None:
    code, out, err = run("serve", "shop:Wrong", "-m", "fake")
    assert (code, out) == (2, "")
    assert err.startswith("error: 2 problems:\n  - Wrong.sell: the prompt uses {{whta}}")


def test_a_memory_id_that_callers_may_choose_must_be_named(run: CommandRun, shop: Path) -> None:
    till = "Shop.sell: callers cannot pass the parameter till; name a dependency for it in server_arguments"
    code, out, err = run("serve", "shop:Shop", "-m", "fake")
    assert (code, out) == (2, "")
    assert "Shop.ask: callers could pass any memory id as customer" in err
    _, _, err = run("serve", "shop:Shop", "-m", "fake", "--caller-argument", "customer")
    assert err == f"error: {till}\n"


def test_an_allowed_host_must_be_a_host_name(run: CommandRun, shop: Path) -> None:
    code, out, err = run("serve", "shop:priced", "--allowed-host", "http://shop.example:80/")
    assert (code, out) == (2, "")
    assert err == (
        "error: --allowed-host: 'http://shop.example:80/' is not a host name; pass one such as "
        "'api.example.com', without port and path\n"
    )


def test_another_host_name_can_be_allowed(shop: Path) -> None:
    served = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "aiservices",
            "serve",
            "shop:priced",
            "--port",
            "0",
            "--allowed-host",
            "shop.example",
        ],
        cwd=shop,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert served.stderr is not None
    try:
        address = next(match[0] for line in served.stderr if (match := re.search(r"http://[\d.:]+", line)))
        with urlopen(Request(address, headers={"Host": "shop.example"}), timeout=60) as page:
            assert page.status == 200
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(address, headers={"Host": "other.example"}), timeout=60)
        caught.value.close()
        assert caught.value.code == 403
    finally:
        served.send_signal(signal.SIGINT)
        served.communicate(timeout=60)
