"""The command ``check``: find problems in services, and types that strict mode does not support."""

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

from ..models.base import Capabilities
from ..models.errors import DefinitionError
from ..models.scripted import ScriptedChatModel
from ..models.strategy import Strategy
from ..service.compile import MethodPlan, ReturnShape
from ..service.methods import plan_of
from .console import count_text, print_table
from .errors import UsageError, suggestion
from .services import (
    ServiceTarget,
    find_target,
    has_prompts,
    load_module,
    make_service,
    selected_methods,
    service_names,
    split_target,
)


class CheckedMethod(NamedTuple):
    """The result for one method, or for a whole service if it cannot be created.

    Attributes:
        service: The service as ``module:name``.
        qualname: The name as ``Service.method``.
        returns: The name of the return type; "" if the service cannot be created.
        problems: The problems of the definition.
        notes: What strict mode does not support.
    """

    service: str
    qualname: str
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


def check(targets: Sequence[str], profile: str, *, strict: bool, as_json: bool) -> bool:
    """Print the problems of the services of modules, and return True if there are none.

    With ``strict`` a type that cannot use strict mode is a problem, too. Raises UsageError for an unknown
    profile, and if there is no service.
    """
    if profile not in PROFILES:
        raise UsageError(f"there is no profile {profile}{suggestion(profile, list(PROFILES))}")
    checked: list[CheckedMethod] = []
    skipped: list[str] = []
    for text in targets:
        for target in _find_services(text, skipped):
            checked += _check(target, profile)
    if not checked:
        others = f"; skipped, because they have no prompts: {', '.join(skipped)}" if skipped else ""
        raise UsageError(f"there is no service in {', '.join(targets)}{others}")
    # Without --strict a lost strict mode is only a note: the value is still validated when it is read.
    passes = not any(one.problems or (strict and not one.is_strict) for one in checked)
    if as_json:
        print(json.dumps(_as_dict(checked, skipped, profile, passes=passes), indent=2))
    else:
        _print(checked, skipped, profile)
    return passes


def _find_services(text: str, skipped: list[str]) -> Iterator[ServiceTarget]:
    """Yield the service of a target, or all services of a module.

    A Protocol without prompts may have another purpose: in a whole module it is added to ``skipped``.
    """
    module_name, name, _ = split_target(text)
    if name:
        yield find_target(text)
        return
    module = load_module(module_name)
    for service_name in service_names(module):
        value = getattr(module, service_name)
        if isinstance(value, type) and not has_prompts(value):
            skipped.append(f"{module_name}:{service_name}")
        else:
            yield ServiceTarget(module, service_name, value)


def _check(target: ServiceTarget, profile: str) -> Iterator[CheckedMethod]:
    # Definitions are checked for a model that supports everything, so that strict mode is planned.
    capabilities = Capabilities(
        json_schema=True, strict_schema=True, json_mode=True, tools=True, profile=profile
    )
    model = ScriptedChatModel([], capabilities=capabilities, name=profile)
    service_name = f"{target.module.__name__}:{target.name}"
    try:
        service = make_service(target, model if target.is_interface else None)
    except DefinitionError as error:
        by_location: dict[str, list[str]] = {}
        for problem in error.problems:
            by_location.setdefault(problem.location, []).append(problem.message)
        for location, messages in by_location.items():
            yield CheckedMethod(service_name, location, "", tuple(messages), ())
        return
    for method in selected_methods(target, service):
        plan = plan_of(getattr(service, method))
        qualname, returns = f"{target.name}.{method}", type_name(plan.returns.output_type)
        yield CheckedMethod(service_name, qualname, returns, (), tuple(strict_mode_notes(plan, profile)))


def _print(checked: Sequence[CheckedMethod], skipped: Sequence[str], profile: str) -> None:
    print_table(
        ("method", "answer", "verdict"), [(one.qualname, one.returns, one.verdict) for one in checked]
    )
    for one in checked:
        for message in (*one.problems, *one.notes):
            print(f"\n{one.qualname}: {message}", end="")
    if any(one.problems or one.notes for one in checked):
        print()
    counts = (
        count_text(len({one.service for one in checked}), "service"),
        count_text(len(checked), "method"),
        count_text(sum(len(one.problems) for one in checked), "problem"),
    )
    not_strict = sum(not one.is_strict for one in checked)
    print(f"\n{', '.join(counts)}; without strict mode for {profile}: {not_strict}")
    for name in skipped:
        print(f"skipped: {name} has no prompts; check it by its name")


def _as_dict(
    checked: Sequence[CheckedMethod], skipped: Sequence[str], profile: str, *, passes: bool
) -> dict[str, object]:
    return {
        "passes": passes,
        "profile": profile,
        "methods": [
            {
                "service": one.service,
                "method": one.qualname,
                "returns": one.returns,
                "problems": one.problems,
                "strict": one.is_strict,
                "notes": [note._asdict() for note in one.notes],
            }
            for one in checked
        ],
        "skipped": list(skipped),
    }


# --- What strict mode does not support ---


class StrictModeNote(NamedTuple):
    """Something in a type that strict mode does not support, and what is done about it.

    Attributes:
        about: "answer", or "tool NAME".
        path: The field inside the type.
        feature: What is not supported.
        action: What is done about it.
        strict: False if strict mode has to be given up because of it.
    """

    about: str
    path: str
    feature: str
    action: str
    strict: bool

    def __str__(self) -> str:
        return f"{self.about}: {self.path}: {self.feature}: {self.action}"


def strict_mode_notes(plan: MethodPlan, profile: str | None = None) -> Iterator[StrictModeNote]:
    """Yield what strict mode does not support in the answer and the tools of a method.

    The default profile is that of the model, if the model has a strict mode. A type that only a custom parser
    can read has no notes.
    """
    capabilities = plan.call.model.capabilities
    if profile is None and not capabilities.strict_schema:
        return
    profile = profile or capabilities.profile
    if plan.call.output_format.strategy is not Strategy.TEXT:
        tp: Any = plan.returns.output_type
        answer_type = list[tp] if plan.returns.shape is ReturnShape.ITEMS else tp
        findings = _findings(answer_type, profile)
        if plan.returns.shape in (ReturnShape.ITEMS, ReturnShape.STREAM):
            findings = _streaming_findings(answer_type, profile, findings)
        yield from (_note("answer", finding) for finding in findings)
    for tool in () if plan.call.toolbox is None else plan.call.toolbox.tools.values():
        yield from (_note(f"tool {tool.name}", finding) for finding in _findings(tool.arguments, profile))


def _note(about: str, finding: Finding) -> StrictModeNote:
    return StrictModeNote(about, finding.path, finding.feature, finding.action, finding.lossless)


def _findings(tp: object, profile: str) -> list[Finding]:
    try:
        return lint(tp, profile)
    except UnsupportedTypeError:
        return []


def _streaming_findings(tp: object, profile: str, findings: list[Finding]) -> list[Finding]:
    """Return the findings for a streamed value: an encoded value cannot be decoded before its end."""
    if not findings or not all(one.lossless for one in findings) or _keeps_its_shape(tp, profile):
        return findings
    encoded = [one for one in findings if one.action != ENFORCED_LATER]
    return [
        Finding(one.path, f"{one.feature}, in a value that is streamed", GIVEN_UP, False)
        for one in encoded or findings
    ]


def _keeps_its_shape(tp: Any, profile: str) -> bool:
    """Return True if the strict schema has the shape of the type. A root that is not an object is wrapped."""
    parser = parser_for(tp)
    is_object = (parser.schema or {}).get("type") == "object"
    if not is_object and isinstance(parser, TypeParser):
        parser = parser.with_envelope()
    return encode(dict(parser.schema or {}), PROFILES[profile]).identity
