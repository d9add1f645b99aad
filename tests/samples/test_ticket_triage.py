"""The sample that triages tickets with probabilities."""

from __future__ import annotations

import pytest

from aiservices import Decision, Scale
from aiservices.testing import FakeChatModel
from samples import ticket_triage
from samples.ticket_triage import Severity, Team, Triage


def test_unsure_tickets_are_collected(capsys: pytest.CaptureFixture[str]) -> None:
    team = Decision(Team.BILLING, {Team.BILLING: 0.6, Team.TECHNICAL: 0.3, Team.OTHER: 0.1})
    severity = Scale(Severity.LOW, {Severity.LOW: 0.5, Severity.MEDIUM: 0.25, Severity.HIGH: 0.25})
    ticket_triage.main(FakeChatModel(values={Triage: Triage(team, True, severity)}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  team billing (0.60), urgent True (0.90), severity 1.8"
    assert lines[-1] == "3 for a person to look at"


@pytest.mark.peers
@pytest.mark.local_model
def test_the_embedded_model_triages_tickets(capsys: pytest.CaptureFixture[str]) -> None:
    ticket_triage.main("local:smollm2")
    assert len(capsys.readouterr().out.splitlines()) == 7
