"""find_model returns a model for an object, a string or None, and reports problems with their location."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from aiservices import DefinitionError, DefinitionProblem, ScriptedChatModel
from aiservices.models import errors, registry
from aiservices.models.errors import MissingExtraError
from aiservices.models.fallback import members_of
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.registry import find_model
from aiservices.testing import FakeChatModel


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
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(DefinitionError) as caught:
        find_model(None, "Service")
    assert caught.value.problems == (
        DefinitionProblem(
            "Service",
            'no model is set: pass one, as in create(Interface, "openai:NAME") or, for made-up answers, '
            '"fake", or set AISERVICES_MODEL; the embedded model is not installed: '
            'pip install "aiservices[local]"',
            unavailable=True,
        ),
    )
    assert caught.value.unavailable


def test_the_fake_model_is_named_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "fake")
    assert (type(find_model(None)), find_model("fake").name) == (FakeChatModel, "fake")
    with pytest.raises(DefinitionError, match='"fake:x" is not a model: write "fake", or pass FakeChatModel'):
        find_model("fake:x")


def test_without_weights_the_problem_first_tells_how_to_choose_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.setattr(registry, "find_spec", lambda name: object())
    monkeypatch.setattr(errors, "find_spec", lambda name: object())
    with pytest.raises(DefinitionError) as caught:
        find_model(None, "Service")
    assert str(caught.value).startswith(
        'Service: no model is set: pass one, as in create(Interface, "openai:NAME") or, for made-up '
        'answers, "fake", or set AISERVICES_MODEL; the embedded model has no weights yet: get some with '
    )
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_a_missing_runtime_is_reported_before_missing_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError) as caught:
        find_model("local", "Service")
    assert (str(caught.value), caught.value.name) == (
        'the embedded model needs the package xllamacpp: pip install "aiservices[local]"',
        "xllamacpp",
    )
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.name) == (str(caught.value), "xllamacpp")


def test_a_problem_of_the_model_class_gets_the_location_of_the_caller() -> None:
    with pytest.raises(DefinitionError) as caught:
        find_model("local:nope", "Service.method")
    (problem,) = caught.value.problems
    assert problem.location == "Service.method"
    assert problem.message.startswith("there are no weights named 'nope': choose one of ")


def test_a_model_without_members_is_its_only_member() -> None:
    model = ScriptedChatModel([])
    assert members_of(model) == (model,)


def test_a_provider_that_is_neither_a_preset_nor_a_function_is_a_definition_error() -> None:
    wrong: Any = 5
    with pytest.raises(DefinitionError, match="provider has the type int; pass a Preset"):
        registry.register_provider("five", wrong)
