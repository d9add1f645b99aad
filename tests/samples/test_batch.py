"""The sample that sends reviews as a batch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from batch_server import BatchServer, Faults

from samples import batch


def judge(prompt: str) -> str:
    verdict = "bad" if "stopped" in prompt else "mixed" if "Nothing" in prompt else "good"
    return json.dumps({"verdict": verdict, "reason": "as it says"})


def test_the_reviews_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with BatchServer(judge, Faults(polls=0)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setattr(sys, "argv", ["batch", "openai:gpt-x"])
        batch.main()
        assert (len(server.batches), server.direct) == (1, [])
    assert capsys.readouterr().out.splitlines() == [
        "1 good: as it says",
        "2 bad: as it says",
        "3 mixed: as it says",
    ]
