"""The programs and tables of docs/telemetry.md are correct."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiservices.integrations.otel import attributes as otel_names

PAGE = (Path(__file__).parents[4] / "docs" / "telemetry.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@contextmanager
def fresh_log() -> Iterator[None]:
    """A root logger without handlers, as at the start of a program."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_each_program_of_the_page_prints_the_output_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"__name__": "docs"}
    outputs: list[str] = []
    for language, text in BLOCKS:
        if language == "python":
            with fresh_log():
                exec(compile(text, "telemetry.md", "exec", dont_inherit=True), namespace)
        else:
            outputs.append(text)
            assert timeless(capsys.readouterr().out) == timeless(text)
    assert len(outputs) == 5


def timeless(text: str) -> str:
    return re.sub(r"\d+\.\d{3} s|\d+ ms", "… s", text)


def test_the_page_lists_all_metrics_events_and_attributes_of_decisions() -> None:
    written = {
        value
        for name, value in vars(otel_names).items()
        if name.endswith(("_DURATION", "_METRIC", "_USAGE"))
        or name.startswith("DECISION_")
        or name in ("ANSWER_REJECTED", "GUARDRAIL", "MODERATION", "RETRIEVED", "BACKOFF", "APPROVAL_REQUIRED")
    }
    assert sorted(name for name in written if f"`{name}`" not in PAGE) == []
