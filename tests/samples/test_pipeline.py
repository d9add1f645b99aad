"""The sample with four steps over one dataframe."""

from __future__ import annotations

import json
from typing import Any

import pandas
import polars
import pytest

from aiservices import ChatRequest, ScriptedChatModel
from samples import pipeline

DEMANDS = {
    "The kettle leaks, and I was charged twice for it.": [
        {"product": "kettle", "demand": "repair the kettle"},
        {"product": None, "demand": "pay back one charge"},
    ],
    "Where is my parcel?": [{"product": None, "demand": "send the parcel"}],
}
TEAMS = {"repair the kettle": "repair", "pay back one charge": "billing", "send the parcel": "shipping"}


def answer(request: ChatRequest) -> str:
    question, _, text = request.messages[-1].text.partition("\n\n")
    if question.startswith("In which"):
        return json.dumps({"language": "German" if "Wo" in text else "English", "urgent": True})
    if question.startswith("Translate"):
        return "Where is my parcel?" if "German" in question else text
    if question.startswith("What"):
        return json.dumps({"items": DEMANDS.get(text, [])})
    return json.dumps({"value": TEAMS[text]})


COLUMNS = [
    *("id", "text", "message_language", "message_urgent", "message_error"),
    *("english_value", "english_tokens", "english_cost", "english_attempts", "english_seconds"),
    *("english_error", "product", "demand", "demands_error", "team_value", "team_error"),
]


@pytest.mark.parametrize("make", [lambda rows: rows, pandas.DataFrame, polars.DataFrame])
def test_four_steps_add_their_columns_to_one_dataframe(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedChatModel(answer)
    frame = pipeline.main(model, make(pipeline.MESSAGES))
    assert list(getattr(frame, "column_names", None) or frame.columns) == COLUMNS
    values = {name: list(map(str, frame[name].to_numpy().tolist())) for name in ("id", "team_value")}
    assert values["id"] == ["1", "1", "2", "3"]
    assert values["team_value"] in [["repair", "billing", "shipping", missing] for missing in ("None", "nan")]
    assert len(model.requests) == 3 + 3 + 3 + 3  # nothing is requested for the message without a demand
    assert "2 send the parcel -> shipping\n3 None -> None\n" in capsys.readouterr().out
