"""Every public name can be imported and is documented, and type checkers know the same names as Python."""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
import importlib.resources
import importlib.util
import inspect
import pickle
import re
import subprocess
import sys
import types
import typing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import aiservices
import aiservices.agents
import aiservices.documents
import aiservices.guardrails
import aiservices.integrations.mcp
import aiservices.interceptors
import aiservices.memory
import aiservices.moderation
import aiservices.retrieval
import aiservices.skills
import aiservices.structured_model
import aiservices.synthesis
import output_parsers
import output_parsers.text
import output_parsers.tool_calls

PACKAGES: tuple[types.ModuleType, ...] = (
    output_parsers,
    output_parsers.text,
    output_parsers.tool_calls,
    aiservices,
    aiservices.agents,
    aiservices.documents,
    aiservices.guardrails,
    aiservices.integrations.mcp,
    aiservices.interceptors,
    aiservices.memory,
    aiservices.moderation,
    aiservices.retrieval,
    aiservices.structured_model,
    aiservices.skills,
    aiservices.synthesis,
)
PUBLIC = [(module, name) for module in PACKAGES for name in module.__all__]


@pytest.mark.parametrize("package", [output_parsers, aiservices])
def test_python_and_type_checkers_import_the_same_names_from_the_same_modules(
    package: types.ModuleType,
) -> None:
    stub = Path(str(package.__file__)).with_suffix(".pyi").read_text("utf-8")
    in_stub = {
        alias.name: "." * node.level + (node.module or "")
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert in_stub == package._MODULES


def test_every_name_is_listed_once() -> None:
    assert [name for name, count in Counter(PUBLIC).items() if count > 1] == []


def test_every_public_name_can_be_imported() -> None:
    assert [
        f"{module.__name__}.{name}" for module, name in PUBLIC if getattr(module, name, None) is None
    ] == []


def is_alias(thing: Any) -> bool:
    return typing.get_origin(thing) is not None or isinstance(thing, types.UnionType)


def test_everything_public_has_a_docstring_of_its_own() -> None:
    things = {f"{module.__name__}.{name}": getattr(module, name) for module, name in PUBLIC}
    assert [name for name, thing in things.items() if not is_alias(thing) and not own_docstring(thing)] == []


def own_docstring(thing: Any) -> str | None:
    """Return the docstring in the source; a dataclass without one gets its signature as docstring."""
    said = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    return None if said and said.startswith(f"{thing.__name__}(") else said


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError) as caught:
        aiservices.Nothing  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value) == "module 'aiservices' has no attribute 'Nothing'"


def test_the_error_for_a_name_says_where_it_is_or_what_it_is_called_here() -> None:
    advice = {
        "OpenAIChatModel": "did you mean OpenAiChatModel?",
        "Budgett": "did you mean Budget?",
        "ToolGuardrails": "it is in aiservices.guardrails: from aiservices.guardrails import ToolGuardrails",
        "ToolGuardrail": "did you mean ToolGuardrails, from aiservices.guardrails?",
        "fastapi": "it is a module: import aiservices.integrations.fastapi",
        "Agent": "use ReActAgent",
        "ChatOpenAI": "use OpenAiChatModel",
    }
    for name, text in advice.items():
        message = f"module 'aiservices' has no attribute {name!r}; {text}"
        with pytest.raises(AttributeError) as caught:
            getattr(aiservices, name)
        assert str(caught.value) == message
        with pytest.raises(ImportError) as failed:
            exec(f"from aiservices import {name}")
        assert str(failed.value) == message
        assert not hasattr(aiservices, name)
    with pytest.raises(ImportError, match="cannot import name 'Nothing' from 'aiservices'"):
        exec("from aiservices import Nothing")
    with pytest.raises(ImportError, match="use FakeChatModel"):
        exec("from aiservices.testing import TestModel")


def test_all_names_in_the_advice_exist() -> None:
    from aiservices.guesses import _MODULES, _NAMES

    for name in {text for text in _NAMES.values() if text.isidentifier()}:
        assert hasattr(aiservices, name), name
    for module in _MODULES:
        assert importlib.util.find_spec(f"aiservices.{module}"), module


def test_objects_say_what_their_attributes_are_called_here() -> None:
    reply = aiservices.ChatReply(aiservices.AiMessage("x"))
    result = aiservices.Result("x", reply, aiservices.Strategy.TEXT, (), (), 0.0)
    guesses = {
        "content": (reply.message, "AiMessage", "text"),
        "output": (result, "Result", "value"),
        "prompt_tokens": (aiservices.Usage(), "Usage", "input_tokens"),
    }
    for name, (thing, kind, attribute) in guesses.items():
        with pytest.raises(AttributeError) as caught:
            getattr(thing, name)
        assert str(caught.value) == f"{kind!r} object has no attribute {name!r}; use {attribute}"
        assert hasattr(thing, attribute)
    with pytest.raises(AttributeError, match=r"^'Usage' object has no attribute 'anything'$"):
        getattr(aiservices.Usage(), "anything")  # noqa: B009
    assert copy.deepcopy(pickle.loads(pickle.dumps(result))) == result


# Objects that the library or a model makes, and small values; their constructors are not settings.
VALUES = """
AiMessage Attempt Audio Calibrated Calibration CalibrationEntry Calibrator ChatReply ChatRequest Comparison
Conflict Content ContentsRetrieved DefinitionProblem Difference Document Excerpts Exchange File GuardrailRan
Image ImageFormat InnerCall Interval Invocation JsonSchemaFormat McpQuestion McpResource ModerationRan
ModerationResult Msg Outcome Page Preview Query ReplyDelta Report Reprompt Result Round Row Scale
ScorerInput ServerToolRun Split StoredCall StoredConversation Structured SuspendedCall SystemMessage
TokenLogprob Tool ToolAnswer ToolCall ToolCallDelta ToolMessage ToolRun ToolSpecification Tooling Usage
UserMessage Verdict WindowView
""".split()


def settings_classes() -> dict[str, type]:
    """Return the public classes with settings: those that have parameters with defaults."""
    classes = {}
    for module in {*PACKAGES} - {aiservices.interceptors}:  # it has what the engine makes
        for name in module.__all__:
            thing = getattr(module, name)
            is_class = isinstance(thing, type) and thing.__module__.startswith("aiservices")
            if (
                not is_class
                or issubclass(thing, (BaseException, enum.Enum, tuple))
                or thing.__module__.endswith("streams")
            ):
                continue
            if name in VALUES or name in MADE_BY_LIBRARY or getattr(thing, "_is_protocol", False):
                continue
            parameters = inspect.signature(thing).parameters.values()
            is_variable = any(one.kind is one.VAR_KEYWORD for one in parameters)
            if not is_variable and any(one.default is not one.empty for one in parameters):
                classes[name] = thing
    return classes


def test_all_settings_classes_and_functions_suggest_names_for_unknown_keywords() -> None:
    wrong = {}
    for name, cls in settings_classes().items():
        parameters = inspect.signature(cls).parameters.values()
        named = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
        with pytest.raises(TypeError) as caught:
            cls(**{f"{named[-1]}x": 1})
        expected = f"{name}() got an unexpected keyword argument '{named[-1]}x'; did you mean '{named[-1]}'?"
        if str(caught.value) != expected:
            wrong[name] = str(caught.value)
    assert wrong == {}
    for function in (aiservices.tool, aiservices.options):
        with pytest.raises(TypeError, match="unexpected keyword argument 'timeot'; did you mean 'timeout'"):
            function(timeot=1)  # type: ignore[operator]
    with pytest.raises(TypeError, match=r"'temperature'; instead, pass options=ChatOptions\(temperature=…\)"):
        aiservices.OpenAiChatModel("m", temperature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"takes from 1 to \d+ positional arguments"):
        aiservices.Budget(*range(30))  # type: ignore[arg-type]


def test_help_and_editors_show_each_setting_with_a_default_and_a_sentence() -> None:
    from aiservices.rows import as_udf, estimate
    from aiservices.rows.engines import UdfSettings
    from aiservices.rows.mapping import RowSettings
    from aiservices.service.settings import ServiceSettings
    from aiservices.structured_model import StructuredSettings

    functions: dict[Any, Any] = {
        aiservices.create: ServiceSettings,
        aiservices.structured: StructuredSettings,
        as_udf: UdfSettings,
        **dict.fromkeys(
            (aiservices.map_rows, aiservices.amap_rows, aiservices.filter_rows, estimate), RowSettings
        ),
    }
    for function, settings in functions.items():
        parameters = inspect.signature(function).parameters
        sentences = dict(re.findall(r"^ +(\w+): (.+)$", settings.__doc__, re.MULTILINE))
        assert sentences.keys() == settings.__annotations__.keys()
        for name, sentence in sentences.items():
            assert f"        {name}: {sentence}" in function.__doc__, (function, name)
            assert parameters[name].default is not inspect.Parameter.empty
        assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    shown = str(inspect.signature(aiservices.create))
    assert "retry: 'Retry | None' = Retry()" in shown
    assert "tools: 'Sequence[ToolSource]' = ()" in shown


@pytest.mark.parametrize(
    "first", ["from aiservices import structured", "import aiservices.structured_model", "import aiservices"]
)
def test_structured_is_the_function_whatever_is_imported_first(first: str) -> None:
    others = "import aiservices.structured_model; from aiservices import structured"
    program = (
        f"{first}; {others}; import aiservices; print(callable(structured), callable(aiservices.structured))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_models_are_loaded_when_they_are_asked_for_and_then_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(aiservices), "OpenAiChatModel", raising=False)
    from aiservices.models.openai import OpenAiChatModel

    assert aiservices.OpenAiChatModel is OpenAiChatModel
    assert vars(aiservices)["OpenAiChatModel"] is OpenAiChatModel


@pytest.mark.parametrize("module", [output_parsers, aiservices])
def test_each_package_says_that_it_is_typed(module: types.ModuleType) -> None:
    assert importlib.resources.files(module.__name__).joinpath("py.typed").is_file()


# Modules with parameters that readers of the reference see, in addition to those of PACKAGES.
MORE_MODULES = (
    "aiservices.call_log",
    "aiservices.integrations.fastapi",
    "aiservices.integrations.dbos",
    "aiservices.integrations.otel",
    "aiservices.page",
    "aiservices.prices",
    "aiservices.testing",
    "output_parsers.lint",
)
# The library makes objects of these classes, so their constructors are not for readers.
MADE_BY_LIBRARY = {
    "AsyncStream",
    "HookHandle",
    "PartialList",
    "PartialObject",
    "Snapshot",
    "Stream",
    "StructuredModel",
    "TypeParser",
}


@pytest.mark.parametrize("module", [*(package.__name__ for package in PACKAGES), *MORE_MODULES])
def test_every_parameter_and_field_is_named_in_the_docstring(module: str) -> None:
    package = pytest.importorskip(module)
    things = [getattr(package, name) for name in package.__all__]
    assert [problem for thing in things for problem in undocumented(thing)] == []


def undocumented(thing: Any) -> list[str]:
    """Return the parameters or fields of a function or class that its docstring does not name."""
    if inspect.isfunction(thing):
        names, docs = parameters_of(thing), inspect.getdoc(thing) or ""
    elif isinstance(thing, type):
        names = fields_of(thing)
        if not names and "__init__" in vars(thing) and not issubclass(thing, BaseException):
            names = [] if thing.__name__ in MADE_BY_LIBRARY else parameters_of(vars(thing)["__init__"])
        own = [base for base in thing.__mro__ if base.__module__.startswith(("aiservices", "output_parsers"))]
        docs = "\n".join(f"{base.__doc__}\n{base.__init__.__doc__}" for base in own)
    else:
        return []
    return [f"{thing.__name__}: {name}" for name in names if not re.search(rf"\b{name}\b", docs)]


def fields_of(cls: type) -> list[str]:
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
    else:
        names = list(getattr(cls, "_fields", ())) if issubclass(cls, tuple) else []
    return [name for name in names if not name.startswith("_")]


def parameters_of(function: Any) -> list[str]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind not in variable and not parameter.name.startswith("_") and parameter.name != "self"
    ]
