"""The interceptors, limits and retries of service methods, merged with the settings of each method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.budget import Budget, Listener
from ..engine.interceptor import Interceptor, InterceptorKind, attributes_of
from ..engine.pipeline import Pipeline
from ..engine.retry import Retry
from ..interface.decorators import declaration_of
from ..models.errors import DefinitionProblem
from .compile import MethodPlan
from .methods import (
    CallPath,
    async_in_blocking_problems,
    call_id_problems,
    memory_id_problems,
    never_awaited_problems,
    no_effect_problems,
    unchecked_media_problems,
)


class CallSettings(NamedTuple):
    """The interceptors, the budget and the retries that apply to calls.

    Attributes:
        interceptors: The interceptors, the first one outermost.
        budget: The limits of each call.
        retry: The retries; None for no retries.
        listeners: Functions that receive the events of the calls.
        cache: The response cache, which encloses all interceptors.
        votes: The interceptor that takes several samples.
        reading: The interceptor that reads a document in parts.
    """

    interceptors: tuple[Interceptor, ...]
    budget: Budget
    retry: Retry | None
    listeners: tuple[Listener, ...] = ()
    cache: Interceptor | None = None
    votes: Interceptor | None = None
    reading: Interceptor | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> CallSettings:
        """Return the settings from keyword arguments of ``create`` or ``structured``."""
        votes: Interceptor | None = None
        if settings.get("votes"):
            from ..decisions.votes import Votes  # few services need it

            votes = Votes()
        return cls(
            tuple(settings.get("interceptors", ())),
            settings.get("budget") or Budget(),
            settings.get("retry", Retry()),
            tuple(settings.get("listeners", ())),
            settings.get("cache"),
            votes,
        )

    def with_declaration(self, declared: Mapping[str, Any]) -> CallSettings:
        """Return a copy with the settings that ``@options`` sets for an interface or a method."""
        return self._replace(
            interceptors=merged_interceptors(self.interceptors, declared.get("interceptors", ())),
            budget=declared.get("budget", self.budget),
            retry=declared.get("retry", self.retry),
        )

    @property
    def path(self) -> CallPath:
        """The pipeline of the calls, in which the retry is innermost, and their limits."""
        interceptors = (self.cache, *self.interceptors, self.reading, self.votes, self.retry)
        present = [one for one in interceptors if one is not None]
        return CallPath(Pipeline(present, self.listeners), self.budget)


class CallGroup(NamedTuple):
    """Methods of a service that have the same interceptors and limits.

    Attributes:
        location: The name of the service, or of the method if it has settings of its own.
        plans: The methods by name.
        path: The interceptors, listeners and limits of their calls.
        declared: The settings of the method itself, by name.
    """

    location: str
    plans: Mapping[str, MethodPlan]
    path: CallPath
    declared: Mapping[str, Any] = {}

    def problems(self) -> Iterator[DefinitionProblem]:
        """Yield an error for each mistake in the settings of the group's methods."""
        plans, pipeline = self.plans.values(), self.path.pipeline
        interceptors, listeners = pipeline.interceptors, pipeline.listeners
        yield from self.path.problems(self.location, [route for plan in plans for route in plan.call.routes])
        yield from unchecked_media_problems(plans, interceptors)
        yield from memory_id_problems(plans, interceptors, listeners)
        yield from call_id_problems(plans, interceptors)
        yield from no_effect_problems(plans, interceptors)
        yield from async_in_blocking_problems(self.location, self.plans, interceptors, listeners)
        if "tool_errors" in self.declared:
            functions = self.declared["tool_errors"].formatters
            yield from never_awaited_problems(f"{self.location}, ToolErrors", functions)


def call_groups(
    cls: type, name: str, plans: Mapping[str, MethodPlan], settings: CallSettings
) -> list[CallGroup]:
    """Group the methods of a service by their interceptors and limits.

    The first group contains the methods without their own settings. ``settings`` are the arguments of
    ``create``.
    """
    of_service = settings.with_declaration(declaration_of(cls).call_settings)
    shared = {}
    groups = []
    for method, plan in plans.items():
        declared = declaration_of(getattr(cls, method)).call_settings
        if declared or plan.reading is not None:
            path = of_service.with_declaration(declared)._replace(reading=plan.reading).path
            groups.append(CallGroup(plan.call.qualname, {method: plan}, path, declared))
        else:
            shared[method] = plan
    return [CallGroup(name, shared, of_service.path), *groups]


def group_problems(groups: Sequence[CallGroup]) -> list[DefinitionProblem]:
    """Return the mistakes in the settings of all methods; a mistake of the whole service appears once."""
    of_service, *of_methods = groups
    problems = list(of_service.problems())
    inherited = {problem.message for problem in problems if problem.location == of_service.location}
    for group in of_methods:
        problems += [one for one in group.problems() if one.message not in inherited]
    return problems


def merged_interceptors(
    interceptors: Sequence[Interceptor], added: Sequence[Interceptor]
) -> tuple[Interceptor, ...]:
    """Return a service's interceptors, with those of the method added or in place of the same kind."""
    if not interceptors:
        return tuple(added)
    of_method: dict[str, list[Interceptor]] = {}
    for one in added:
        of_method.setdefault(_replaced_name(one), []).append(one)
    without_name = of_method.pop("", [])
    replaced = {_replaced_name(one) for one in interceptors} & of_method.keys()
    merged: list[Interceptor] = []
    for one in interceptors:
        name = _replaced_name(one)
        # all of them take the place of the first one
        merged += of_method.pop(name, []) if name in replaced else [one]
    start = 0
    for name, ones in (*of_method.items(), ("", without_name)):
        index = max(_first_inside(merged, InterceptorKind.of(name)), start)
        merged[index:index] = ones
        start = index + len(ones)  # those of the method keep their order
    return tuple(merged)


def _first_inside(interceptors: Sequence[Interceptor], kind: InterceptorKind) -> int:
    """Return the index of the first interceptor that is usually inside interceptors of this kind."""
    for index, one in enumerate(interceptors):
        other = attributes_of(one).kind
        if other is not InterceptorKind.OTHER and other.rank > kind.rank:
            return index
    return len(interceptors)


def _replaced_name(interceptor: Interceptor) -> str:
    """Return the ``position_name`` of the interceptors that this one replaces; "" if it is added."""
    attributes = attributes_of(interceptor)
    if attributes.kind.is_memory:
        return InterceptorKind.MEMORY
    name = attributes.position_name
    return name if isinstance(name, str) else ""  # anything may be called position_name
