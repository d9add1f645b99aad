"""find_model returns a model for an object, a string or None, and reports problems with their location."""

from __future__ import annotations

import pytest

from aiservices import DefinitionError, DefinitionProblem, ScriptedChatModel
from aiservices.models import base
from aiservices.models.base import find_model, members_of
from aiservices.models.openai import OpenAiChatModel


def test_a_model_object_is_returned() -> None:
    model = ScriptedChatModel([])
    assert find_model(model) is model


def test_a_string_names_a_provider_and_a_model() -> None:
    model = find_model("openai:gpt-x")
    assert (type(model), model.name) == (OpenAiChatModel, "openai:gpt-x")


def test_the_environment_variable_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "openai:gpt-x")
    assert find_model(None).name == "openai:gpt-x"


def test_without_a_default_and_a_runtime_the_problem_tells_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    monkeypatch.setattr(base, "find_spec", lambda name: None)
    with pytest.raises(DefinitionError) as caught:
        find_model(None, "Service")
    assert caught.value.problems == (
        DefinitionProblem(
            "Service",
            'no model is set: pass model="openai:NAME" (or another) to create, set AISERVICES_MODEL, '
            'or install the embedded model with pip install "aiservices[local]"',
        ),
    )


def test_a_problem_of_the_model_class_gets_the_location_of_the_caller() -> None:
    with pytest.raises(DefinitionError) as caught:
        find_model("local:nope", "Service.method")
    (problem,) = caught.value.problems
    assert problem.location == "Service.method"
    assert problem.message.startswith("there are no weights named 'nope': choose one of ")


def test_a_model_without_members_is_its_only_member() -> None:
    model = ScriptedChatModel([])
    assert members_of(model) == (model,)
