"""The command ``show``: what the methods of a service would send, without a key and without a request."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from ..errors import DefinitionError
from ..message_json import message_to_dict
from ..plan import MethodPlan
from ..previewing import Preview, preview
from ..prompts import Prompt
from ..service import plan_of
from ..tool_parameters import summary_of
from .arguments import read_arguments
from .failures import Mistake
from .linting import Note, notes_of
from .placeholders import placeholders_for
from .screen import heading
from .services import Found, find, make, methods_to_ask, model_named, takes_model
from .signatures import signature_text

__all__ = ["show"]

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
