"""Prompts of a synthesis, and a model's reply that says which contents a request has."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from aiservices import ChatRequest
from aiservices.synthesis import SynthesisPrompts

PROMPTS = SynthesisPrompts(
    answer="answer {{question}} of {{information}}",
    refine="refine {{existing}} for {{question}} by {{information}}",
    summarize="summarize for {{question}}: {{information}}",
    combine="combine for {{question}}: {{information}}",
)


@dataclass
class Counted:
    """An answer with the number of words and the ids of the contents in a request."""

    words: int
    sources: list[str]


def counting(request: ChatRequest) -> str:
    """Reply with the ids in the request, as a record or as text."""
    text = request.messages[-1].text
    ids = re.findall(r"\[(\w+)\]", text.partition(" by ")[2] or text)
    if request.response_format is None:
        return f"read {' and '.join(ids) or text}"
    return json.dumps({"words": len(text.split()), "sources": ids})
