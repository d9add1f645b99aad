"""The official conformance suite of MCP, which npm installs: its scenarios for clients and servers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from served import wait_until_listening

pytest.importorskip("mcp")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: install the extra fastapi of aiservices")

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]  # a busy machine starts processes slowly

FOLDER = Path(__file__).parent
EXPECTED_FAILURES = FOLDER / "conformance_expected_failures.yml"
PACKAGES = ("@modelcontextprotocol/conformance@0.1.16", "node@22")  # it needs this version of Node
RunSuite: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run_suite(tmp_path_factory: pytest.TempPathFactory) -> RunSuite:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so the conformance suite of MCP cannot be run")
    folder = tmp_path_factory.mktemp("conformance")
    options = ("--prefer-offline", "--no-audit", "--no-fund", "--prefix", str(folder))
    install = [npm, "install", *options, *PACKAGES]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=300, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install the conformance suite of MCP: {installed.stderr[-300:]}")
    binaries = folder / "node_modules" / ".bin"
    path = os.pathsep.join((str(FOLDER.parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])))
    env = {
        **os.environ,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": path,
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(binaries / "conformance"), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=env, cwd=folder, check=False
        )

    return run


def test_a_client_passes_all_scenarios_but_those_of_the_list(run_suite: RunSuite) -> None:
    command = f"{sys.executable} {FOLDER / 'conformance_client.py'}"

    def passes(scenario: str) -> bool:
        # One after another, because some scenarios measure times.
        done = run_suite("client", "--command", command, "--scenario", scenario, "--timeout", "120000")
        return "OVERALL: PASSED" in done.stderr

    scenarios = re.findall(r"^  - (\S+) ", run_suite("list").stdout.partition("Client scenarios")[2], re.M)
    known = EXPECTED_FAILURES.read_text().partition("client:")[2]
    failed = [name for name in scenarios if not passes(name) and not passes(name)]
    assert (len(scenarios), failed) == (26, re.findall(r"- (\S+)", known))


def test_a_server_passes_all_scenarios_but_those_of_the_list(run_suite: RunSuite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(FOLDER / "conformance_server.py"), str(port)])
    try:
        wait_until_listening(port)
        known = ("--expected-failures", str(EXPECTED_FAILURES))
        done = run_suite("server", "--url", f"http://127.0.0.1:{port}/mcp", "--suite", "all", *known)
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Total: 20 passed" in done.stdout, done.stdout
