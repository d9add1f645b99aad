"""The strategies for requesting structured output from a model, such as JSON Schema or a tool.

``Strategy`` has its own module because both ``errors`` and the engine need it, and ``errors`` imports little
else.
"""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """A strategy for requesting structured output from a model, such as JSON Schema or a tool.

    JSON_SCHEMA: the request contains the JSON Schema, and the provider makes sure that the answer matches it.
    OUTPUT_TOOL: the model must call a tool, and the arguments of the call are the value.
    GRAMMAR: the schema constrains the tokens that are generated; the prompt contains a short description.
    JSON_MODE: the provider guarantees only that the answer is a JSON object; the prompt describes the value.
    PROMPT: only the prompt asks for JSON that matches the schema.
    DECISION: the request asks questions with fixed answers, and the reply has a probability for each answer.
    TEXT: the text of the reply is the value.
    """

    JSON_SCHEMA = "json_schema"
    OUTPUT_TOOL = "output_tool"
    GRAMMAR = "grammar"
    JSON_MODE = "json_mode"
    PROMPT = "prompt"
    DECISION = "decision"
    TEXT = "text"
