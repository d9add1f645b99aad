"""The samples about telemetry print the spans of a call and a tree of calls."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from samples import call_tree, telemetry


def test_telemetry(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiservices")
    telemetry.main()
    assert capsys.readouterr().out == (
        "pears\n"
        "invoke_agent Clerk.available  gen_ai.usage.input_tokens=41, gen_ai.usage.output_tokens=3\n"
        "   aiservices.answer_rejected\n"
        "   chat scripted  error.type='aiservices.models.errors.ModelServerError'\n"
        "   chat scripted\n"
        "   execute_tool in_stock\n"
        "   execute_tool in_stock\n"
        "   chat scripted  "
        "gen_ai.usage.input_tokens=10, gen_ai.usage.output_tokens=1, aiservices.cost=2.8e-05\n"
        "   chat scripted  "
        "gen_ai.usage.input_tokens=31, gen_ai.usage.output_tokens=2, aiservices.cost=7.8e-05\n"
    )
    rejected, line = caplog.messages
    assert rejected == "Clerk.available: answer rejected, requesting another: $: expected an array"
    pattern = r"Clerk\.available: answered, 4 requests to scripted, 41 \+ 3 tokens, \d+\.\d{3} s"
    assert re.fullmatch(pattern, line)


def test_call_tree(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call_tree.main(path=str(tmp_path / "calls.html"))
    lines = capsys.readouterr().out.splitlines()
    steps = [
        re.sub(r"^ +\d+\.\d{3} s  (.*?)(: .*)?$", r"\1", line) for line in lines if re.match(r" +\d", line)
    ]
    assert steps == [
        "Supervisor.serve",
        "    request 1 to scripted (text)",
        "    tool exchange",
        "    request 2 to scripted (text)",
        "    tool withdraw",
        "        Teller.withdraw",
        "            request 1 to scripted (text)",
        "            tool book",
        "            request 2 to scripted (text)",
        "    request 3 to scripted (text)",
        "    tool credit",
        "        Teller.credit",
        "            request 1 to scripted (text)",
        "            tool book",
        "            request 2 to scripted (text)",
        "    request 4 to scripted (text)",
    ]
    assert lines[-1] == f"see {tmp_path / 'calls.html'}"
    assert "115 dollars went from Mario to Georgios." in (tmp_path / "calls.html").read_text("utf-8")
