"""The ``check`` command, which finds mistakes in services and types that strict JSON output cannot handle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from output_parsers import parser_for
from output_parsers.lint import Finding, lint
from output_parsers.parser.type_parser import TypeParser
from output_parsers.profiles import PROFILES
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.strict import encode
from output_parsers.strict.codec import ENFORCED_LATER, NOT_STRICT
from output_parsers.types.target import type_name

from ..models.base import Capabilities, ChatModel, DecisionLimits
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.scripted import ScriptedChatModel
from ..service.compile import MethodPlan
from ..service.methods import plan_of
from ..service.signatures import ReturnShape
from .console import count_text, print_table
from .errors import UsageError, suggestion
from .services import (
    ServiceTarget,
    check_method,
    find_target,
    has_prompts,
    is_bodiless_protocol,
    load_module,
    make_service,
    plan_target,
    selected_methods,
    service_names,
    split_target,
)


class CheckedMethod(NamedTuple):
    """The result of checking one service method, or one service that cannot be created.

    Attributes:
        service: The service as ``module:name``.
        qualname: The name as ``Service.method``.
        returns: The name of the return type; "" if the service cannot be created.
        problems: The mistakes in the definition.
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
    """Check services, print their problems, and return True if all services fit.

    With ``strict``, a type that cannot use strict mode also counts as a problem. Raises UsageError for an
    unknown profile, or if no service is found.
    """
    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile}{suggestion(profile, list(PROFILES))}")
    results: list[CheckedMethod] = []
    skipped: list[str] = []
    without_prompts: list[str] = []
    for text in targets:
        for target in _find_services(text, skipped, without_prompts):
            results += _check(target, profile)
    if not results:
        others = f"; skipped because of missing prompts: {', '.join(skipped)}" if skipped else ""
        raise UsageError(f"no service was found in {', '.join(targets)}{others}")
    # Without --strict a lost strict mode is only a note: the value is still validated when it is read.
    passes = not any(result.problems or (strict and not result.is_strict) for result in results)
    if as_json:
        print(json.dumps(_as_dict(results, skipped, profile, passes=passes), indent=2))
    else:
        _print(results, skipped, without_prompts, profile)
    return passes


def _find_services(text: str, skipped: list[str], without_prompts: list[str]) -> Iterator[ServiceTarget]:
    """Yield the service named on the command line, or all services of the module that is named there.

    In a whole module, a Protocol without prompts is checked if its methods have no body, and added to
    ``without_prompts``. Other classes without prompts may have another purpose and are added to ``skipped``.
    """
    module_name, name, _ = split_target(text)
    if name:
        yield find_target(text)
        return
    module = load_module(module_name)
    for service_name in service_names(module):
        value = getattr(module, service_name)
        lacks_prompts = isinstance(value, type) and not has_prompts(value)
        if lacks_prompts and not is_bodiless_protocol(value):
            skipped.append(f"{module_name}:{service_name}")
        else:
            if lacks_prompts:
                without_prompts.append(f"{module.__name__}:{service_name}")
            yield ServiceTarget(module, service_name, value)


def _check(target: ServiceTarget, profile: str) -> Iterator[CheckedMethod]:
    """Yield the results of the methods of a service, those with problems first."""
    service_name = f"{target.module.__name__}:{target.name}"
    plans, problems = _plan(target, profile)
    by_location: dict[str, list[str]] = {}
    for problem in problems:
        by_location.setdefault(problem.location, []).append(problem.message)
    for location, messages in by_location.items():
        yield CheckedMethod(service_name, location, "", tuple(messages), ())
    for method, plan in plans.items():
        if plan.call.qualname not in by_location and target.method in ("", method):
            returns, notes = type_name(plan.returns.output_type), tuple(strict_mode_notes(plan, profile))
            yield CheckedMethod(service_name, f"{target.name}.{method}", returns, (), notes)


def _plan(
    target: ServiceTarget, profile: str
) -> tuple[Mapping[str, MethodPlan], Sequence[DefinitionProblem]]:
    """Return the plans of a service's methods without problems, by name, and the problems of the others."""
    if not target.is_interface:
        try:
            service = make_service(target, None)
        except DefinitionError as error:
            return {}, error.problems
        return {name: plan_of(getattr(service, name)) for name in selected_methods(target, service)}, ()
    planned = plan_target(target, _model(profile, _FEATURES))
    plans, problems = dict(planned.methods), planned.problems
    if problems:  # the strategy "decision" is only for decision endpoints
        others = plan_target(target, _model(profile, Capabilities(decisions=DecisionLimits()))).methods
        added = {name: plan for name, plan in others.items() if name not in plans}
        plans |= added
        possible = {plan.call.qualname for plan in added.values()}
        problems = [problem for problem in problems if problem.location not in possible]
    elif target.method:
        check_method(target, list(plans))
    return plans, problems


# Definitions are checked for a model that supports everything, because the real one is not known.
_FEATURES = Capabilities(
    json_schema=True,
    strict_schema=True,
    json_mode=True,
    constrained=True,
    tools=True,
    logprobs=1,
    image_output=True,
)


def _model(profile: str, capabilities: Capabilities) -> ChatModel:
    return ScriptedChatModel([], capabilities=replace(capabilities, profile=profile), name=profile)


def _print(
    results: Sequence[CheckedMethod], skipped: Sequence[str], without_prompts: Sequence[str], profile: str
) -> None:
    print_table(
        ("method", "answer", "verdict"),
        [(result.qualname, result.returns, result.verdict) for result in results],
    )
    for result in results:
        for message in (*result.problems, *result.notes):
            print(f"\n{result.qualname}: {message}", end="")
    if any(result.problems or result.notes for result in results):
        print()
    counts = (
        count_text(len({result.service for result in results}), "service"),
        count_text(len(results), "method"),
        count_text(sum(len(result.problems) for result in results), "problem"),
    )
    not_strict = sum(not result.is_strict for result in results)
    print(f"\n{', '.join(counts)}; without strict mode for {profile}: {not_strict}")
    wrong_services = {result.service for result in results if result.problems}
    for name in without_prompts:
        if name in wrong_services:
            print(
                f"{name} has no prompts; if it is not a service, name the services to check instead of the "
                "module"
            )
    for name in skipped:
        print(f"skipped: {name} has no prompts; check it by its name")


def _as_dict(
    results: Sequence[CheckedMethod], skipped: Sequence[str], profile: str, *, passes: bool
) -> dict[str, object]:
    return {
        "passes": passes,
        "profile": profile,
        "methods": [
            {
                "service": result.service,
                "method": result.qualname,
                "returns": result.returns,
                "problems": result.problems,
                "strict": result.is_strict,
                "notes": [note._asdict() for note in result.notes],
            }
            for result in results
        ],
        "skipped": list(skipped),
    }


# --- Features that strict mode does not support ---


class StrictModeNote(NamedTuple):
    """A feature of a Python type that the provider's strict mode does not support, and the workaround.

    Attributes:
        about: "answer", or "tool NAME".
        path: The field inside the type.
        feature: The feature that is not supported.
        action: What the library does about it.
        strict: False if strict mode cannot be used because of it.
    """

    about: str
    path: str
    feature: str
    action: str
    strict: bool

    def __str__(self) -> str:
        return f"{self.about}: {self.path}: {self.feature}: {self.action}"


def strict_mode_notes(plan: MethodPlan, profile: str | None = None) -> Iterator[StrictModeNote]:
    """Yield a note for each type in a service method that the provider's strict mode does not support.

    The default is the profile of the model, if the model has a strict mode. Types that only a custom parser
    can read get no notes.
    """
    capabilities = plan.call.model.capabilities
    if profile is None and not capabilities.strict_schema:
        return
    profile = profile or capabilities.profile
    if plan.call.output_format.strategy is not Strategy.TEXT:
        tp: Any = plan.returns.output_type
        # A stream of items is requested as one list.
        answer_type = list[tp] if plan.returns.shape is ReturnShape.ITEMS else tp
        findings = _findings(answer_type, profile)
        if plan.returns.shape in (ReturnShape.ITEMS, ReturnShape.STREAM):
            findings = _streaming_findings(answer_type, profile, findings)
        yield from (_note("answer", finding) for finding in findings)
    for tool in () if plan.call.toolbox is None else plan.call.toolbox.declared:
        yield from (_note(f"tool {tool.name}", finding) for finding in _findings(tool.arguments, profile))


def _note(about: str, finding: Finding) -> StrictModeNote:
    return StrictModeNote(about, finding.path, finding.feature, finding.action, finding.lossless)


def _findings(tp: object, profile: str) -> list[Finding]:
    try:
        return lint(tp, profile)
    except UnsupportedTypeError:  # only a custom parser reads the type, and its format is not known here
        return []


def _streaming_findings(tp: object, profile: str, findings: list[Finding]) -> list[Finding]:
    """Return the problems that strict mode causes for streamed return values.

    A value that is encoded for strict mode cannot be decoded until it is complete.
    """
    if not findings or not all(finding.lossless for finding in findings) or _keeps_its_shape(tp, profile):
        return findings
    # Constraints that are checked after parsing do not change the JSON, so they do not prevent streaming.
    encoded = [finding for finding in findings if finding.action != ENFORCED_LATER]
    return [
        Finding(finding.path, f"{finding.feature}, in a value that is streamed", NOT_STRICT, False)
        for finding in encoded or findings
    ]


def _keeps_its_shape(tp: Any, profile: str) -> bool:
    """Return True if strict mode does not change the JSON that a model writes for a type.

    A root that is not an object is wrapped in one first.
    """
    parser = parser_for(tp)
    is_object = (parser.schema or {}).get("type") == "object"
    if not is_object and isinstance(parser, TypeParser):
        parser = parser.with_envelope()
    return encode(dict(parser.schema or {}), PROFILES[profile]).identity
