"""The samples of durable calls print what they promise."""

from __future__ import annotations

import pytest

from samples import nightly_run, refund_over_days


def test_refund_over_days(capsys: pytest.CaptureFixture[str]) -> None:
    refund_over_days.main()
    assert capsys.readouterr().out == (
        'Monday: waits for pay_back({"order": 17, "euros": 40})\n'
        "Wednesday: letter-1 is approved\n"
        "Thursday: Dear customer, we are sorry. 40.00 euros are on their way for order 17.\n"
    )


def test_nightly_run(capsys: pytest.CaptureFixture[str]) -> None:
    nightly_run.main()
    assert capsys.readouterr().out == (
        "done: sent to Ann\nBob failed: the connection broke\ndone: sent to Cid\n"
        "done: sent to Ann\ndone: sent to Bob\ndone: sent to Cid\n"
        "sent to Ann, Cid, Bob\n"
    )
