"""The command ``check``: the definitions of services, and what strict mode makes of their types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from output_parsers import parser_for
from output_parsers.lint import Finding, lint
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.strict import encode
from output_parsers.strict.codec import ENFORCED_LATER, GIVEN_UP
from output_parsers.strict.profiles import PROFILES
from output_parsers.types.target import type_name

from ..engine.plan import MethodPlan
from ..engine.results import Shape
from ..models.base import Capabilities
from ..models.errors import DefinitionError
from ..models.scripted import ScriptedChatModel
from ..models.strategy import Strategy
from ..service.create import plan_of
from .console import count_text, print_table
from .services import (
    ServiceTarget,
    UsageError,
    find_target,
    has_prompts,
    make_service,
    suggestion,
    selected_methods,
    load_module,
    service_names,
    split_target,
)


class StrictModeNote(NamedTuple):
    """One finding: what it is about (the answer, or a tool), where in it, and what is done.

    ``strict`` is False where strict mode has to be given up for it.
    """

    about: str
    path: str
    what: str
    done: str
    strict: bool

    def __str__(self) -> str:
        return f"{self.about}: {self.path}: {self.what}: {self.done}"


def strict_mode_notes(plan: MethodPlan, profile: str | None = None) -> Iterator[StrictModeNote]:
    """The findings for a profile; without one for that of the model, where its strict mode is used.

    A type that only a parser of the program reads is passed over.
    """
    can = plan.model.capabilities
    if profile is None and not can.strict_schema:
        return
    profile = profile or can.profile
    if plan.wire.strategy is not Strategy.TEXT:
        form: Any = plan.returns.form
        asked = list[form] if plan.returns.shape is Shape.ITEMS else form
        found = _found(asked, profile)
        if plan.returns.shape in (Shape.ITEMS, Shape.STREAM):
            found = _of_growing(asked, profile, found)
        yield from (_note("answer", one) for one in found)
    for tool in () if plan.toolbox is None else plan.toolbox.tools.values():
        yield from (_note(f"tool {tool.name}", one) for one in _found(tool.arguments, profile))


def _note(about: str, found: Finding) -> StrictModeNote:
    return StrictModeNote(about, found.path, found.feature, found.action, found.lossless)


def _found(form: Any, profile: str) -> list[Finding]:
    try:
        return lint(form, profile)
    except UnsupportedTypeError:
        return []


def _of_growing(form: Any, profile: str, found: list[Finding]) -> list[Finding]:
    """The findings for a value that is shown while it is written, of which no half can be decoded."""
    if not found or not all(one.lossless for one in found) or _stays_as_it_is(form, profile):
        return found
    changing = [one for one in found if one.action != ENFORCED_LATER]
    return [
        Finding(one.path, f"{one.feature}, in a value that is shown while it is written", GIVEN_UP, False)
        for one in changing or found
    ]


def _stays_as_it_is(form: Any, profile: str) -> bool:
    """Whether strict mode has it written in its own shape; a root that is no object gets an envelope."""
    parser = parser_for(form)
    is_object = (parser.schema or {}).get("type") == "object"
    if not is_object and isinstance(parser, TypeParser):
        parser = parser.with_envelope()
    return encode(dict(parser.schema or {}), PROFILES[profile]).identity


class _Checked(NamedTuple):
    """One method, or a service that has no methods because it is wrong."""

    service: str
    where: str
    returns: str
    problems: tuple[str, ...]
    notes: tuple[StrictModeNote, ...]

    @property
    def is_strict(self) -> bool:
        return all(note.strict for note in self.notes)

    @property
    def verdict(self) -> str:
        if self.problems:
            return count_text(len(self.problems), "problem")
        return "fits" if self.is_strict else "fits, without strict mode"


def check(complete_target: Sequence[str], profile: str, *, strict: bool, as_json: bool) -> bool:
    """Print what is wrong with the services of modules; whether they pass.

    With ``strict`` a type for which strict mode has to be given up is wrong too. Raises Mistake for a profile
    that is not known, and where there is no service.
    """
    if profile not in PROFILES:
        raise UsageError(f"no profile is named {profile}{suggestion(profile, list(PROFILES))}")
    checked: list[_Checked] = []
    passed_over: list[str] = []
    for target in complete_target:
        for found in _services(target, passed_over):
            checked += _check(found, profile)
    if not checked:
        others = f"; passed over, since they say nothing to a model: {', '.join(passed_over)}"
        raise UsageError(f"there is no service in {', '.join(complete_target)}{others if passed_over else ''}")
    passes = not any(one.problems or (strict and not one.is_strict) for one in checked)
    if as_json:
        print(json.dumps(_as_dict(checked, passed_over, profile, passes=passes), indent=2))
    else:
        _print(checked, passed_over, profile)
    return passes


def _services(target: str, passed_over: list[str]) -> Iterator[ServiceTarget]:
    """The services that a target stands for. A Protocol without a prompt is one only if it is named."""
    module_name, name, _ = split_target(target)
    if name:
        yield find_target(target)
        return
    module = load_module(module_name)
    for one in service_names(module):
        value = getattr(module, one)
        if isinstance(value, type) and not has_prompts(value):
            passed_over.append(f"{module_name}:{one}")
        else:
            yield ServiceTarget(module, one, value)


def _check(found: ServiceTarget, profile: str) -> Iterator[_Checked]:
    can = Capabilities(json_schema=True, strict_schema=True, json_mode=True, tools=True, profile=profile)
    model = ScriptedChatModel([], capabilities=can, name=profile)
    name = f"{found.module.__name__}:{found.name}"
    try:
        service = make_service(found, model if found.is_interface else None)
    except DefinitionError as error:
        by_place: dict[str, list[str]] = {}
        for problem in error.problems:
            by_place.setdefault(problem.location, []).append(problem.message)
        for where, messages in by_place.items():
            yield _Checked(name, where, "", tuple(messages), ())
        return
    for method in selected_methods(found, service):
        plan = plan_of(getattr(service, method))
        where = f"{found.name}.{method}"
        yield _Checked(name, where, type_name(plan.returns.form), (), tuple(strict_mode_notes(plan, profile)))


def _print(checked: Sequence[_Checked], passed_over: Sequence[str], profile: str) -> None:
    print_table(("method", "answer", "verdict"), [(one.where, one.returns, one.verdict) for one in checked])
    for one in checked:
        for said in (*one.problems, *one.notes):
            print(f"\n{one.where}: {said}", end="")
    if any(one.problems or one.notes for one in checked):
        print()
    problems = sum(len(one.problems) for one in checked)
    loose = sum(not one.is_strict for one in checked)
    services = len({one.service for one in checked})
    print(
        f"\n{count_text(services, 'service')}, {count_text(len(checked), 'method')}, {count_text(problems, 'problem')}; "
        f"without strict mode for {profile}: {loose}"
    )
    for name in passed_over:
        print(f"passed over: {name} says nothing to a model; name it to have it checked")


def _as_dict(
    checked: Sequence[_Checked], passed_over: Sequence[str], profile: str, *, passes: bool
) -> dict[str, Any]:
    return {
        "passes": passes,
        "profile": profile,
        "methods": [
            {
                "service": one.service,
                "method": one.where,
                "returns": one.returns,
                "problems": one.problems,
                "strict": one.is_strict,
                "notes": [note._asdict() for note in one.notes],
            }
            for one in checked
        ],
        "passed_over": list(passed_over),
    }
