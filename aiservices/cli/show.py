"""The commands ``show`` (print a method's model request), ``providers`` and ``models`` (list them).

None of these commands sends a request or needs an API key.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import entry_points
from typing import NamedTuple

from ..interface.parameters import summary_of
from ..interface.templates import Prompt
from ..models.base import ChatModel
from ..models.errors import DefinitionError, ModelError
from ..models.http.model import HttpChatModel
from ..models.local.weights import WEIGHTS, is_ready, models_folder, weights_path
from ..models.messages import message_to_dict
from ..models.presets import PRESETS, PROVIDERS, ModelProvider, preset_variable
from ..models.registry import find_model
from ..models.requests import ChatRequest
from ..service.compile import MethodPlan
from ..service.methods import Preview, plan_of, preview_request, service_method_of
from .check import StrictModeNote, strict_mode_notes
from .console import print_heading, print_table, signature_text
from .errors import UsageError
from .services import (
    ServiceTarget,
    accepts_model,
    find_target,
    has_local_runtime,
    make_service,
    selected_methods,
)
from .values import placeholder_arguments, read_arguments

_MODEL_VARIABLE = "AISERVICES_MODEL"
_NO_DEFAULT_MODEL = f"none, since {_MODEL_VARIABLE} is not set and the embedded model is not installed"

# --- The command show ---

_ASSUMED_MODEL = "openai:gpt-5-mini"  # the model of the preview if call would have none
_ENCODED_DATA = re.compile(r"[A-Za-z0-9+/]{500,}={0,2}")  # the data of images and files
_TEMPLATE_DATA = "data of the prompt"
_BRANCHES_NOTE = (
    "The prompt has conditions or loops: here, a missing argument counts as true and as a list of one item. "
    "Pass values to see the prompt as it is sent: NAME=VALUE"
)


class _DefaultModel(NamedTuple):
    """The model for methods that do not specify a model, and the reason why it was chosen."""

    name: str
    reason: str


class _HttpPreview(NamedTuple):
    """The HTTP request that a call of a service method would send.

    Attributes:
        url: The URL; "" if the request cannot be shown.
        body: The JSON of the body, as it is sent.
        error: Why the request cannot be shown; "" if it can.
    """

    url: str
    body: str
    error: str


class _MethodPreview(NamedTuple):
    """A service method, and the model request that calling it would send.

    Attributes:
        plan: The plan of the method.
        doc: The first paragraph of its docstring.
        preview: The request.
        model_reason: Why this model was chosen; "" if the user named the model.
        notes: The features of the method's types that strict mode does not support.
        has_branches: True if conditions or loops of the prompt depend on missing arguments.
        http: The HTTP request; None if the model is not called over HTTP.
    """

    plan: MethodPlan
    doc: str
    preview: Preview
    model_reason: str
    notes: tuple[StrictModeNote, ...]
    has_branches: bool
    http: _HttpPreview | None


def show(target_name: str, model: str | None, argument_texts: Sequence[str], *, as_json: bool) -> None:
    """Print the requests that ``call`` would send for a service's methods, without sending them."""
    target = find_target(target_name)
    service, default = _make_service(target, model)
    names = selected_methods(target, service)
    if argument_texts and len(names) > 1:
        raise UsageError(
            f"arguments belong to one method; name it as {target_name}.METHOD: {', '.join(names)}"
        )
    # All previews are built before the first is printed, so that an error leaves no partial output.
    previews = [_preview_method(target, service, name, argument_texts, default) for name in names]
    if as_json:
        data = [_as_dict(method_preview) for method_preview in previews]
        print(json.dumps(data, indent=2, ensure_ascii=False, default=str))
        return
    for number, method_preview in enumerate(previews):
        if number:
            print()
        _print(method_preview)


def _make_service(target: ServiceTarget, model: str | None) -> tuple[object, _DefaultModel | None]:
    """Create the service as the command ``call`` does, and return it with the default model or None.

    If ``call`` would have no model, the service is created with a substitute model, since nothing is sent.
    """
    try:
        service = make_service(target, model)
    except DefinitionError as error:
        if model is not None or not error.unavailable or not accepts_model(target):
            raise
        reason = f"assumed, because call has no model: {error.problems[0].message}"
        return make_service(target, _ASSUMED_MODEL), _DefaultModel(_ASSUMED_MODEL, reason)
    if model is not None or not target.is_interface:
        return service, None
    try:
        return service, _DefaultModel(find_model(None).name, _default_model_text())
    except DefinitionError:  # each method names its model
        return service, None


def _preview_method(
    target: ServiceTarget,
    service: object,
    name: str,
    argument_texts: Sequence[str],
    default: _DefaultModel | None,
) -> _MethodPreview:
    method = getattr(service, name)
    plan = plan_of(method)
    supplied = _supplied_arguments(target, service, name, argument_texts) if argument_texts else {}
    args, kwargs, has_placeholders = placeholder_arguments(plan, supplied)
    try:
        request, chat_model, chat_request = preview_request(method, *args, **kwargs)
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
    # A method may have its own model.
    reason = default.reason if default is not None and default.name == request.model else ""
    http = _http_preview(chat_model, chat_request, is_streamed=service_method_of(method).is_streamed)
    if http is not None and http.error:
        problem = "it cannot be sent"
        if has_placeholders:
            problem = "it cannot be shown with placeholders, so pass values: NAME=VALUE"
        http = http._replace(error=f"{problem} ({http.error})")
    return _MethodPreview(plan, doc, request, reason, tuple(strict_mode_notes(plan)), has_branches, http)


def _http_preview(model: ChatModel, request: ChatRequest, *, is_streamed: bool) -> _HttpPreview | None:
    if not isinstance(model, HttpChatModel):
        return None
    try:
        http_request = model.http_request(request, stream=is_streamed)
    except ModelError as error:
        return _HttpPreview("", "", str(error))
    return _HttpPreview(model.request_url(http_request.path), http_request.body.decode(), "")


def _has_branches(plan: MethodPlan) -> bool:
    # Only templates have a source. A prompt that a function builds is not inspected.
    prompts = (plan.prompt.user, plan.prompt.system)
    return any(isinstance(prompt, Prompt) and "{%" in prompt.source for prompt in prompts)


def _supplied_arguments(
    target: ServiceTarget, service: object, name: str, argument_texts: Sequence[str]
) -> Mapping[str, object]:
    from ..remote.contract import contract_of  # builds the codecs of all parameter types

    method = contract_of(target.interface_of(service)).methods[name]
    args, kwargs = method.bind_arguments(read_arguments(argument_texts, method, allow_missing=True))
    return dict(method.signature.bind_partial(*args, **kwargs).arguments)


def _print(method_preview: _MethodPreview) -> None:
    plan, request = method_preview.plan, method_preview.preview
    print_heading(signature_text(plan.call.qualname, plan.prompt.signature))
    if method_preview.doc:
        print(method_preview.doc)
    reason = f" ({method_preview.model_reason})" if method_preview.model_reason else ""
    print(f"\nmodel: {request.model}{reason}")
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
    if method_preview.http is not None:
        url, body, error = method_preview.http
        print(f"\n[request body, POST {url}]" if url else "\n[request body]")
        print(_ENCODED_DATA.sub(_shortened, body) or error)
    if method_preview.has_branches:
        print(f"\n{_BRANCHES_NOTE}")


def _shortened(encoded: re.Match[str]) -> str:
    return f"{encoded[0][:20]}… ({len(encoded[0])} characters)"


def _options(request: Preview) -> dict[str, object]:
    """Return the options set for a model request, except headers, which may contain API keys."""
    names = [field.name for field in fields(request.options) if field.name != "extra_headers"]
    values = {name: getattr(request.options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _default(plan: MethodPlan, name: str) -> str:
    default = plan.prompt.signature.parameters[name].default
    return "" if default is inspect.Parameter.empty else f", default {default!r}"


def _as_dict(method_preview: _MethodPreview) -> dict[str, object]:
    plan, request = method_preview.plan, method_preview.preview
    return {
        "method": plan.call.qualname,
        "signature": signature_text(plan.call.qualname, plan.prompt.signature),
        "doc": method_preview.doc,
        "model": request.model,
        "model_reason": method_preview.model_reason,
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
        "questions": [
            {**question._asdict(), "options": [option._asdict() for option in question.options]}
            for question in request.questions
        ],
        "notes": [note._asdict() for note in method_preview.notes],
        "has_branches": method_preview.has_branches,
        "http": _http_as_dict(method_preview.http),
    }


def _http_as_dict(http: _HttpPreview | None) -> dict[str, object] | None:
    if http is None:
        return None
    if http.error:
        return {"error": http.error}
    return {"method": "POST", "url": http.url, "body": json.loads(http.body)}


# --- The command models ---


_FEATURES_NOTE = (
    "Some models of a provider have fewer features; with services that speak OpenAI's API, images depend on "
    'the model. "reasoning" means that the reasoning of a model is kept and sent back to it.'
)


def list_providers(*, as_json: bool) -> None:
    """Print the model providers, with their features and the environment variables that they read.

    For each environment variable it prints only whether the variable is set, because its value may be an API
    key.
    """
    providers = [*PROVIDERS, *_presets(), *_installed_providers()]
    if as_json:
        data = _models_as_dict(providers)
        print(json.dumps({name: data[name] for name in ("providers", "default_is_set")}, indent=2))
        return
    _print_providers(providers)


def list_models(*, as_json: bool) -> None:
    """Print the model providers, and the weights of the embedded model."""
    providers = [*PROVIDERS, *_presets(), *_installed_providers()]
    if as_json:
        print(json.dumps(_models_as_dict(providers), indent=2))
        return
    _print_providers(providers)
    print()
    print_heading("weights of the embedded model")
    for weights in WEIGHTS:
        source = str(weights_path(weights)) if is_ready(weights) else f"aiservices models pull {weights.name}"
        print(f"local:{weights.name}  {weights.needs}: {source}")
    if not has_local_runtime():
        print("To run them, install the runtime: the extra local of aiservices")


def _print_providers(providers: Sequence[ModelProvider]) -> None:
    print_table(
        ("--model", "features", "variables"),
        [
            (provider.model_syntax, ", ".join(provider.features), _variables_text(provider))
            for provider in providers
        ],
    )
    print(f"\n{_FEATURES_NOTE}\n")
    print(f"Without --model: {_default_model_text() or _NO_DEFAULT_MODEL}.")


def _presets() -> Iterator[ModelProvider]:
    """Yield the model providers whose API is compatible with the OpenAI API."""
    for name, preset in PRESETS.items():
        features = {
            "schema": preset.capabilities.json_schema,
            "strict schema": preset.capabilities.strict_schema,
            "tools": preset.capabilities.tools,
            "stream": True,
            "reasoning": bool(preset.returned),
        }
        key = preset.key_variable or preset_variable(name, "API_KEY")
        yield ModelProvider(
            name,
            tuple(feature for feature, has_feature in features.items() if has_feature),
            (key, preset_variable(name, "BASE_URL")),
        )


def _installed_providers() -> Iterator[ModelProvider]:
    """Yield the model providers that other installed packages define."""
    for entry_point in entry_points(group="aiservices.models"):
        yield ModelProvider(entry_point.name)


def _variables_text(provider: ModelProvider) -> str:
    if provider.name == "fake":
        return "made-up answers: no key, no weights"
    return ", ".join(
        f"{name} ({'set' if os.environ.get(name) else 'not set'})" for name in provider.variables
    )


def _default_model_text() -> str:
    """Describe the model used for an interface without ``--model``; return "" if no model is available."""
    if os.environ.get(_MODEL_VARIABLE):
        return f"the model in {_MODEL_VARIABLE}"
    if has_local_runtime():  # the second choice of create, after the environment variable
        return f"the embedded model, since {_MODEL_VARIABLE} is not set"
    return ""


def _models_as_dict(providers: list[ModelProvider]) -> dict[str, object]:
    return {
        "providers": [
            {
                "name": provider.name,
                "written": provider.model_syntax,
                "features": provider.features,
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
                for weights in WEIGHTS
            ],
        },
    }
