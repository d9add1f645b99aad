"""The telemetry sample prints the spans of its call."""

from __future__ import annotations

import logging
import re

import pytest

from samples import telemetry


def test_telemetry(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiservices")
    telemetry.main()
    assert capsys.readouterr().out == (
        "pears\n"
        "invoke_agent Clerk.available  gen_ai.usage.input_tokens=42, gen_ai.usage.output_tokens=3\n"
        "   aiservices.answer_rejected\n"
        "   chat scripted  error.type='aiservices.models.errors.ModelServerError'\n"
        "   chat scripted\n"
        "   execute_tool in_stock\n"
        "   execute_tool in_stock\n"
        "   chat scripted  "
        "gen_ai.usage.input_tokens=10, gen_ai.usage.output_tokens=1, aiservices.cost=2.8e-05\n"
        "   chat scripted  "
        "gen_ai.usage.input_tokens=32, gen_ai.usage.output_tokens=2, aiservices.cost=8e-05\n"
    )
    rejected, line = caplog.messages
    assert rejected == "Clerk.available: answer rejected, asking again: $: expected an array"
    pattern = r"Clerk\.available: answered, 4 requests to scripted, 42 \+ 3 tokens, \d+\.\d{3} s"
    assert re.fullmatch(pattern, line)
