"""The commands ``show``, which prints the request of a method, and ``models``, which lists models.

Neither command sends a request or needs an API key.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from ..interface.parameters import summary_of
from ..interface.templates import Prompt
from ..models.errors import DefinitionError
from ..models.local.weights import KNOWN_WEIGHTS, is_ready, models_folder, weights_path
from ..models.messages import message_to_dict
from ..models.openai.presets import PRESETS
from ..service.compile import MethodPlan
from ..service.methods import plan_of
from ..service.preview import Preview, preview
from .check import StrictModeNote, strict_mode_notes
from .console import print_heading, print_table, signature_text
from .errors import UsageError
from .services import (
    ServiceTarget,
    accepts_model,
    find_target,
    has_local_runtime,
    make_service,
    model_from_option,
    selected_methods,
)
from .values import placeholder_arguments, read_arguments

_MODEL_VARIABLE = "AISERVICES_MODEL"

# --- The command show ---

_PREVIEW_MODEL = "openai:gpt-5-mini"  # the default model of the preview; it is not called
_TEMPLATE_DATA = "data of the prompt"
_BRANCHES_NOTE = (
    "The prompt has conditions or loops: here, a missing argument counts as true and as a list of one item. "
    "Pass values to see the prompt as it is sent: NAME=VALUE"
)


class _MethodPreview(NamedTuple):
    """A service method, with the model request that a call of the method would send.

    Attributes:
        plan: The plan of the method.
        doc: The first paragraph of its docstring.
        preview: The request.
        notes: What strict mode does not support in its types.
        has_branches: True if conditions or loops of the prompt depend on missing arguments.
    """

    plan: MethodPlan
    doc: str
    preview: Preview
    notes: tuple[StrictModeNote, ...]
    has_branches: bool


def show(target_name: str, model: str | None, argument_texts: Sequence[str], *, as_json: bool) -> None:
    """Print the requests that the methods of a service would send, without sending them."""
    target = find_target(target_name)
    service = make_service(target, model_from_option(_model_name(target, model)))
    names = selected_methods(target, service)
    if argument_texts and len(names) > 1:
        raise UsageError(
            f"arguments belong to one method; name it as {target_name}.METHOD: {', '.join(names)}"
        )
    # All previews are built before the first is printed, so that an error leaves no partial output.
    previews = [_preview_method(target, service, name, argument_texts) for name in names]
    if as_json:
        data = [_as_dict(method_preview) for method_preview in previews]
        print(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        return
    for number, method_preview in enumerate(previews):
        if number:
            print()
        _print(method_preview)


def _model_name(target: ServiceTarget, model: str | None) -> str | None:
    """Return the model name with which a request is previewed, or None if the service has a model."""
    if model is not None or not accepts_model(target):
        return model
    return os.environ.get(_MODEL_VARIABLE) or _PREVIEW_MODEL


def _preview_method(
    target: ServiceTarget, service: object, name: str, argument_texts: Sequence[str]
) -> _MethodPreview:
    method = getattr(service, name)
    plan = plan_of(method)
    supplied = _supplied_arguments(target, service, name, argument_texts) if argument_texts else {}
    args, kwargs, has_placeholders = placeholder_arguments(plan, supplied)
    try:
        request = preview(method, *args, **kwargs)
    except (DefinitionError, TypeError, ValueError, AttributeError) as error:
        # A template may do something that a placeholder cannot, such as arithmetic.
        if not has_placeholders:
            raise
        raise UsageError(
            f"{plan.call.qualname} cannot be shown with placeholders, because its prompt needs real "
            f"arguments ({error}); pass values: {' '.join(f'{p.name}=…' for p in plan.prompt.parameters)}"
        ) from error
    doc = summary_of(inspect.getdoc(method) or "")
    has_branches = has_placeholders and _has_branches(plan)
    return _MethodPreview(plan, doc, request, tuple(strict_mode_notes(plan)), has_branches)


def _has_branches(plan: MethodPlan) -> bool:
    # Only templates have a source. A prompt that a function builds is not inspected.
    prompts = (plan.prompt.user, plan.prompt.system)
    return any(isinstance(prompt, Prompt) and "{%" in prompt.source for prompt in prompts)


def _supplied_arguments(
    target: ServiceTarget, service: object, name: str, argument_texts: Sequence[str]
) -> Mapping[str, Any]:
    from ..integrations.fastapi.contract import contract_of  # builds the codecs of all parameter types

    method = contract_of(target.interface_of(service)).methods[name]
    args, kwargs = method.bind_arguments(read_arguments(argument_texts, method, allow_missing=True))
    return dict(method.signature.bind_partial(*args, **kwargs).arguments)


def _print(method_preview: _MethodPreview) -> None:
    plan, request = method_preview.plan, method_preview.preview
    print_heading(signature_text(plan.call.qualname, plan.prompt.signature))
    if method_preview.doc:
        print(method_preview.doc)
    print(f"\nmodel: {request.model}")
    options = _options(request)
    if options:
        print(f"options: {', '.join(f'{name}={value!r}' for name, value in options.items())}")
    print(str(request).partition("\n")[2])  # the first line repeats the method and the model
    if plan.prompt.parameters:
        print("\n[parameters]")
        for parameter in plan.prompt.parameters:
            role = parameter.role.value if parameter.role else _TEMPLATE_DATA
            print(f"{parameter.name}: {role}{_default(plan, parameter.name)}")
    if method_preview.notes:
        print("\n[notes]")
        for note in method_preview.notes:
            print(note)
    if method_preview.has_branches:
        print(f"\n{_BRANCHES_NOTE}")


def _options(request: Preview) -> dict[str, Any]:
    """Return the options that are set for a request, without headers, which may contain API keys."""
    names = [field.name for field in fields(request.options) if field.name != "extra_headers"]
    values = {name: getattr(request.options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _default(plan: MethodPlan, name: str) -> str:
    default = plan.prompt.signature.parameters[name].default
    return "" if default is inspect.Parameter.empty else f", default {default!r}"


def _as_dict(method_preview: _MethodPreview) -> dict[str, Any]:
    plan, request = method_preview.plan, method_preview.preview
    return {
        "method": plan.call.qualname,
        "signature": signature_text(plan.call.qualname, plan.prompt.signature),
        "doc": method_preview.doc,
        "model": request.model,
        "strategy": request.strategy,
        "reasons": request.reasons,
        "strict": request.strict,
        "parameters": [
            {"name": parameter.name, "role": parameter.role.value if parameter.role else None}
            for parameter in plan.prompt.parameters
        ],
        "messages": [message_to_dict(message) for message in request.messages],
        "options": _options(request),
        "schema": request.schema,
        "tools": [asdict(tool) for tool in request.tools],
        "notes": [note._asdict() for note in method_preview.notes],
        "has_branches": method_preview.has_branches,
    }


# --- The command models ---


class ModelProvider(NamedTuple):
    """A provider of models, with the environment variables that it reads.

    Attributes:
        name: The name of the provider.
        model_syntax: How to write a model of this provider, for example ``openai:NAME``.
        variables: The environment variables that the provider reads.
    """

    name: str
    model_syntax: str
    variables: tuple[str, ...]


_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
_GEMINI = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_BEDROCK = ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
_LOCAL = ("AISERVICES_LOCAL_MODEL", "AISERVICES_CACHE")
PROVIDERS = (
    ModelProvider("openai", "openai:NAME", _OPENAI),
    ModelProvider("openai-responses", "openai-responses:NAME", _OPENAI),
    ModelProvider("azure", "azure:DEPLOYMENT", _AZURE),
    ModelProvider("azure-responses", "azure-responses:DEPLOYMENT", _AZURE),
    ModelProvider("anthropic", "anthropic:NAME", ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")),
    ModelProvider("gemini", "gemini:NAME", _GEMINI),
    ModelProvider("google", "google:NAME", _GEMINI),
    ModelProvider("google-vertex", "google-vertex:NAME", ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")),
    ModelProvider("bedrock", "bedrock:NAME", _BEDROCK),
    ModelProvider("ollama", "ollama:NAME", ("OLLAMA_HOST",)),
    ModelProvider("local", "local, local:NAME, local:PATH.gguf", _LOCAL),
)


def list_models(*, as_json: bool) -> None:
    """Print the providers of models and the weights of the embedded model.

    Of an environment variable it prints only if it is set, because the value may be an API key.
    """
    providers = [*PROVIDERS, *_presets(), *_installed_providers()]
    if as_json:
        print(json.dumps(_models_as_dict(providers), indent=2))
        return
    rows = [
        (provider.model_syntax, ", ".join(f"{name} ({_set_or_not(name)})" for name in provider.variables))
        for provider in providers
    ]
    print_table(("--model", "variables"), [*rows, ("fake", "made-up answers: no key, no weights")])
    print(f"\nWithout --model: {_default_model_text()}.\n")
    print_heading("weights of the embedded model")
    for weights in KNOWN_WEIGHTS:
        source = str(weights_path(weights)) if is_ready(weights) else f"aiservices models pull {weights.name}"
        print(
            f"local:{weights.name}  {weights.size / 1e9:.1f} GB, {weights.memory / 1e9:.1f} GB of memory, "
            f"{weights.licence}: {source}"
        )
    if not has_local_runtime():
        print("To run them, install the runtime: pip install 'aiservices[local]'")


def _presets() -> Iterator[ModelProvider]:
    """Yield the services and servers that speak OpenAI's API."""
    for name, preset in PRESETS.items():
        variables = () if preset.key_variable is None else (preset.key_variable,)
        yield ModelProvider(name, f"{name}:NAME", (*variables, f"{name.upper()}_BASE_URL"))


def _installed_providers() -> Iterator[ModelProvider]:
    """Yield the model providers that other installed packages add."""
    for entry_point in entry_points(group="aiservices.models"):
        yield ModelProvider(entry_point.name, f"{entry_point.name}:NAME", ())


def _set_or_not(variable: str) -> str:
    return "set" if os.environ.get(variable) else "not set"


def _default_model_text() -> str:
    if os.environ.get(_MODEL_VARIABLE):
        return f"the model in {_MODEL_VARIABLE}"
    if has_local_runtime():  # the second choice of create, after the environment variable
        return f"the embedded model, since {_MODEL_VARIABLE} is not set"
    return f"none, since {_MODEL_VARIABLE} is not set and the embedded model is not installed"


def _models_as_dict(providers: list[ModelProvider]) -> dict[str, object]:
    return {
        "providers": [
            {
                "name": provider.name,
                "written": provider.model_syntax,
                "variables": {name: bool(os.environ.get(name)) for name in provider.variables},
            }
            for provider in providers
        ],
        "default_is_set": bool(os.environ.get(_MODEL_VARIABLE)),
        "embedded": {
            "installed": has_local_runtime(),
            "folder": str(models_folder()),
            "weights": [
                {
                    "name": weights.name,
                    "aliases": list(weights.aliases),
                    "bytes": weights.size,
                    "memory_bytes": weights.memory,
                    "licence": weights.licence,
                    "path": str(weights_path(weights)) if is_ready(weights) else None,
                }
                for weights in KNOWN_WEIGHTS
            ],
        },
    }
