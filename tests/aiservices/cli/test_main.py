"""Tests of the command line as a process: its help, imports, and output to pipes and terminals."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from .conftest import ROOT, CommandRun

HELP = """\
Usage: aiservices [OPTIONS] COMMAND [ARGS]...

  Show, call, map, check, calibrate and serve services that are declared as typed interfaces.

  Exit codes: 0 success; 1 the call failed, the check found problems, or
  something is missing, such as weights, a key or a package; 2 the command
  line or the definition of the service is wrong; 130 stopped with Ctrl+C.

Options:
  --version             Show the version.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  --help                Show this message and exit.

Commands:
  show          Show the request of a method, and its strategy.
  call          Call a method and print its answer.
  check         Check the services in modules for problems.
  map           Call a method for each row of a table.
  extract       Call a method with each document.
  index         Keep an index of a folder up to date.
  calibrate     Calibrate the probabilities of a method.
  serve         Serve a service over HTTP.
  mcp           Serve a service to an MCP client over stdio.
  agent-skills  List or install skills for coding agents.
  providers     List the providers of models.
  models        List models and download weights.
  batch         Manage the batches of the command map.
  calls         Manage durable calls.
"""


def process(
    *arguments: str, folder: Path = ROOT, stdin: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aiservices", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **variables},
        check=False,
        timeout=100,
    )


def test_help_lists_options_and_commands(run: CommandRun) -> None:
    code, out, err = run("--help")
    assert (code, out.split(), err) == (0, HELP.split(), "")


def test_the_version_is_that_of_the_distribution(run: CommandRun) -> None:
    assert run("--version") == (0, f"aiservices {version('aiservices')}\n", "")


def test_an_unknown_command_ends_with_exit_code_2(run: CommandRun) -> None:
    code, out, err = run("shwo")
    assert (code, out) == (2, "")
    assert "No such command 'shwo'" in err


def test_help_imports_neither_models_nor_servers() -> None:
    program = """
import sys
sys.argv = ["aiservices", "--help"]
from aiservices.cli import main
try:
    main()
except SystemExit as end:
    heavy = "openai xllamacpp fastapi uvicorn pydantic jinja2 rich asyncio aiservices.service".split()
    print(end.code, [name for name in heavy if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.stderr == "0 []\n"


def test_without_its_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys\nsys.modules['typer'] = None\nfrom aiservices.cli import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'aiservices: the command line needs typer, which is not installed: pip install "aiservices[cli]"\n'
    )


def test_a_process_imports_the_module_from_its_folder_and_prints_plain_text(shop: Path) -> None:
    done = process("call", "shop:echo.ask", "message=-", folder=shop, stdin="hello\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    checked = process("check", "shop:Quiet", folder=shop)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "\x1b" not in checked.stdout


def test_force_color_turns_colours_on(shop: Path) -> None:
    assert "\x1b[1m" in process("check", "shop:Quiet", folder=shop, FORCE_COLOR="1", TERM="xterm").stdout


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    done = subprocess.run(
        f"{sys.executable} -m aiservices show samples.service.clerk:Clerk | head -n 1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.stdout, done.stderr) == ("Clerk.is_positive(prompt: str) -> bool\n", "")
