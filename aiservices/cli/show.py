"""The command ``show``: what the methods of a service would send, without a key and without a request."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from ..engine.plan import MethodPlan
from ..interface.parameters import summary_of
from ..interface.templates import Prompt
from ..models.errors import DefinitionError
from ..models.local.weights import KNOWN, is_ready, models_folder, place_of
from ..models.messages import message_to_dict
from ..service.create import plan_of
from ..service.preview import Preview, preview
from .check import Note, notes_of
from .console import heading, signature_text, table
from .services import Found, Mistake, find, has_runtime, make, methods_to_ask, model_named, takes_model
from .values import placeholders_for, read_arguments

_ANY_MODEL = "openai:gpt-5-mini"  # for whom nothing is sent
_DATA = "data of the prompt"
_BRANCHES = (
    "The prompt has conditions or loops: here, what is not given counts as true, and as a list of one. "
    "Give values to see it as it is sent: NAME=VALUE"
)


class _Shown(NamedTuple):
    """One method, and what a call of it would send."""

    plan: MethodPlan
    doc: str
    preview: Preview
    notes: tuple[Note, ...]
    branches: bool


def show(target: str, model: str | None, typed: Sequence[str], *, as_json: bool) -> None:
    """Print what would be sent. Raises Mistake and DefinitionError."""
    found = find(target)
    service = make(found, model_named(_model_for(found, model)))
    names = methods_to_ask(found, service)
    if typed and len(names) > 1:
        raise Mistake(f"arguments are those of one method; put .METHOD behind {target}: {', '.join(names)}")
    shown = [_shown(found, service, name, typed) for name in names]
    if as_json:
        print(json.dumps([_as_dict(one) for one in shown], indent=2, ensure_ascii=False, default=str))
        return
    for number, one in enumerate(shown):
        if number:
            print()
        _print(one)


def _model_for(found: Found, model: str | None) -> str | None:
    """The model that is shown: of a service that is made, its own."""
    if model is not None or not takes_model(found):
        return model
    return os.environ.get("AISERVICES_MODEL") or _ANY_MODEL


def _shown(found: Found, service: object, name: str, typed: Sequence[str]) -> _Shown:
    method = getattr(service, name)
    plan = plan_of(method)
    given = _given(found, service, name, typed) if typed else {}
    args, kwargs, stands_for_something = placeholders_for(plan, given)
    try:
        seen = preview(method, *args, **kwargs)
    except (DefinitionError, TypeError, ValueError, AttributeError) as error:
        if not stands_for_something:
            raise
        raise Mistake(
            f"{plan.where} cannot be shown with placeholders, since its prompt asks more of its arguments "
            f"({error}); give values: {' '.join(f'{p.name}=…' for p in plan.parameters)}"
        ) from error
    branches = stands_for_something and _has_branches(plan)
    return _Shown(plan, summary_of(inspect.getdoc(method) or ""), seen, tuple(notes_of(plan)), branches)


def _has_branches(plan: MethodPlan) -> bool:
    """Whether a template says other things for other arguments."""
    prompts = (plan.user, plan.system)
    return any(isinstance(prompt, Prompt) and "{%" in prompt.source for prompt in prompts)


def _given(found: Found, service: object, name: str, typed: Sequence[str]) -> Mapping[str, Any]:
    from ..integrations.fastapi.contract import contract_of  # makes codecs of all types

    method = contract_of(found.interface_of(service)).methods[name]
    args, kwargs = method.bound(read_arguments(typed, method, partly=True))
    return dict(method.signature.bind_partial(*args, **kwargs).arguments)


def _print(shown: _Shown) -> None:
    heading(signature_text(shown.plan.where, shown.plan.signature))
    if shown.doc:
        print(shown.doc)
    print(f"\nmodel: {shown.preview.model}")
    options = _options(shown.preview)
    if options:
        print(f"options: {', '.join(f'{name}={value!r}' for name, value in options.items())}")
    print(str(shown.preview).partition("\n")[2])  # its first line names the method and the model
    if shown.plan.parameters:
        print("\n[parameters]")
        for parameter in shown.plan.parameters:
            role = parameter.role.value if parameter.role else _DATA
            print(f"{parameter.name}: {role}{_default(shown.plan, parameter.name)}")
    if shown.notes:
        print("\n[notes]")
        for note in shown.notes:
            print(note)
    if shown.branches:
        print(f"\n{_BRANCHES}")


def _options(seen: Preview) -> dict[str, Any]:
    """The options that are set; but for headers, which may hold keys."""
    names = [field.name for field in fields(seen.options) if field.name != "extra_headers"]
    values = {name: getattr(seen.options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _default(plan: MethodPlan, name: str) -> str:
    default = plan.signature.parameters[name].default
    return "" if default is inspect.Parameter.empty else f", {default!r} when it is left out"


def _as_dict(shown: _Shown) -> dict[str, Any]:
    plan, seen = shown.plan, shown.preview
    return {
        "method": plan.where,
        "signature": signature_text(plan.where, plan.signature),
        "doc": shown.doc,
        "model": seen.model,
        "strategy": seen.strategy,
        "reasons": seen.reasons,
        "strict": seen.strict,
        "parameters": [
            {"name": one.name, "role": one.role.value if one.role else None} for one in plan.parameters
        ],
        "messages": [message_to_dict(message) for message in seen.messages],
        "options": _options(seen),
        "schema": seen.schema,
        "tools": [asdict(tool) for tool in seen.tools],
        "notes": [note._asdict() for note in shown.notes],
        "has_branches": shown.branches,
    }


class Provider(NamedTuple):
    """A provider: how its models are named, and the variables that it looks at."""

    name: str
    written: str
    variables: tuple[str, ...]


_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
PROVIDERS = (
    Provider("openai", "openai:NAME", _OPENAI),
    Provider("openai-responses", "openai-responses:NAME", _OPENAI),
    Provider("azure", "azure:DEPLOYMENT", _AZURE),
    Provider("azure-responses", "azure-responses:DEPLOYMENT", _AZURE),
    Provider("ollama", "ollama:NAME", ("OLLAMA_HOST",)),
    Provider("local", "local, local:NAME, local:PATH.gguf", ("AISERVICES_LOCAL_MODEL", "AISERVICES_CACHE")),
)
_DEFAULT = "AISERVICES_MODEL"


def list_models(*, as_json: bool) -> None:
    """Print what there is. Of a variable only whether it is set, never what it holds."""
    providers = [*PROVIDERS, *_of_packages()]
    if as_json:
        print(json.dumps(_provider_dict(providers), indent=2))
        return
    rows = [
        (one.written, ", ".join(f"{name} ({_whether(name)})" for name in one.variables)) for one in providers
    ]
    table(("--model", "variables"), [*rows, ("fake", "answers are made up: no key, no weights")])
    print(f"\nWithout --model: {_without()}.\n")
    heading("weights of the embedded model")
    for weights in KNOWN:
        place = str(place_of(weights)) if is_ready(weights) else f"aiservices models pull {weights.name}"
        print(
            f"local:{weights.name}  {weights.size / 1e9:.1f} GB, {weights.memory / 1e9:.1f} GB of memory, "
            f"{weights.licence}: {place}"
        )
    if not has_runtime():
        print("They are run by a library that is not installed: pip install 'aiservices[local]'")


def _of_packages() -> Iterator[Provider]:
    """The providers that other packages add."""
    for point in entry_points(group="aiservices.models"):
        yield Provider(point.name, f"{point.name}:NAME", ())


def _whether(variable: str) -> str:
    return "set" if os.environ.get(variable) else "not set"


def _without() -> str:
    if os.environ.get(_DEFAULT):
        return f"what {_DEFAULT} names"
    if has_runtime():
        return f"the embedded model, since {_DEFAULT} is not set"
    return f"none, since {_DEFAULT} is not set and the embedded model is not installed"


def _provider_dict(providers: list[Provider]) -> dict[str, object]:
    return {
        "providers": [
            {
                "name": one.name,
                "written": one.written,
                "variables": {name: bool(os.environ.get(name)) for name in one.variables},
            }
            for one in providers
        ],
        "default_is_set": bool(os.environ.get(_DEFAULT)),
        "embedded": {
            "installed": has_runtime(),
            "folder": str(models_folder()),
            "weights": [
                {
                    "name": weights.name,
                    "aliases": list(weights.aliases),
                    "bytes": weights.size,
                    "memory_bytes": weights.memory,
                    "licence": weights.licence,
                    "path": str(place_of(weights)) if is_ready(weights) else None,
                }
                for weights in KNOWN
            ],
        },
    }
