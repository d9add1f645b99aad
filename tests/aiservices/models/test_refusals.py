"""What a provider refuses is read from its own words, not from those of a prompt that it quotes."""

from __future__ import annotations

import json
import time

import pytest

from aiservices import BadRequestError
from aiservices.models.refusals import refusal_text, refused_parameter


def error(body: object) -> BadRequestError:
    return BadRequestError("400", status=400, body=body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    ("body", "prompt", "text"),
    [
        ({"error": {"message": "No tools."}}, "x", "no tools."),
        ({"error": {"message": "Bad: no tools here!"}}, "No tools here", "bad:      !"),
        ({"error": {"message": 'Bad: "tools"'}}, "Tools", 'bad: " "'),
        ({"error": {"message": "Bad: 'a\\ntools\\nb'"}}, "a\ntools\nb", "bad: '     '"),
        ({"detail": [{"msg": "No", "input": "tools"}]}, "x", "no"),
        ("no tools", "x", "no tools"),
        ('"no tools"', "x", "no tools"),
        ("[" * 300, "x", "[" * 300),
    ],
)
def test_quotations_of_the_request_are_left_out(body: object, prompt: str, text: str) -> None:
    assert refusal_text(error(body), [prompt]) == text


def test_a_word_that_the_prompt_has_in_another_sentence_stays() -> None:
    said = "temperature is not supported with this model"
    prompt = "What is the temperature in Rome?"
    assert refusal_text(error({"error": said}), [prompt]) == said


def test_the_message_is_read_if_there_is_no_body() -> None:
    assert refusal_text(BadRequestError("No tools", status=400), []) == "no tools"


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"error": {"message": "m", "param": "reasoning.Effort"}}, "reasoning.effort"),
        ({"error": {"message": "m", "param": None}}, None),
        ({"detail": [{"loc": ["body", "tools", 0], "input": {"param": "x"}}]}, "tools.0"),
        ({"error": {"details": [{"fieldViolations": [{"field": "tool_config"}]}]}}, "tool_config"),
        ({"error": {"message": '"param": "seed"'}}, None),
        ('the prompt was {"param": "seed"}', None),
        ("", None),
    ],
)
def test_only_fields_of_the_error_name_a_parameter(body: object, parameter: str | None) -> None:
    assert refused_parameter(error(body)) == parameter


def test_long_prompts_and_errors_are_compared_in_linear_time() -> None:
    began = time.monotonic()
    refusal_text(error({"error": "a b " * 100_000}), ["b a " * 100_000])
    assert time.monotonic() - began < 5
