"""The strategies by which a model is asked for a value of a type.

It has a module of its own because both ``errors`` and the engine need it, and ``errors`` imports little else.
"""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How a model is asked for a value of a type, and what it must answer with.

    JSON_SCHEMA: the request contains the JSON Schema, and the provider sees to it that the answer fits.
    OUTPUT_TOOL: the model must call a tool, and the arguments of the call are the value.
    GRAMMAR: the schema constrains the tokens that are generated; the prompt describes it shortly.
    JSON_MODE: the provider guarantees some JSON object; the prompt shows the form of the value.
    PROMPT: the prompt alone asks for JSON of the schema.
    TEXT: the text of the reply is the value.
    """

    JSON_SCHEMA = "json_schema"
    OUTPUT_TOOL = "output_tool"
    GRAMMAR = "grammar"
    JSON_MODE = "json_mode"
    PROMPT = "prompt"
    TEXT = "text"
