"""The names of the ways in which structure is asked for."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How a model is asked for a type.

    JSON_SCHEMA: the provider is given the schema. OUTPUT_TOOL: the model is told to call a tool whose
    arguments are the value. GRAMMAR: decoding is constrained by the schema and the prompt hints at it.
    JSON_MODE: the provider is asked for JSON and the prompt says which. PROMPT: the prompt alone says it.
    TEXT: the reply itself is the value.
    """

    JSON_SCHEMA = "json_schema"
    OUTPUT_TOOL = "output_tool"
    GRAMMAR = "grammar"
    JSON_MODE = "json_mode"
    PROMPT = "prompt"
    TEXT = "text"
