"""Completes ``MODULE:Service.method`` and the names of its arguments while they are typed."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any

import typer

__all__ = ["argument_names", "targets"]


def targets(incomplete: str) -> list[str]:
    """What a target may go on with. Its module is imported when a colon stands behind the name."""
    return [one for one in _quietly(_targets, incomplete) if one.startswith(incomplete)]


def argument_names(context: typer.Context, incomplete: str) -> list[str]:
    """``NAME=`` for each parameter that is not given yet.

    bash takes a colon for a word of its own, so that the rest of a target comes here too.
    """
    target, given = str(context.params.get("target") or ""), list(context.params.get("arguments") or ())
    if given == [":"]:
        return [one.rpartition(":")[2] for one in targets(f"{target}:{incomplete}")]
    if given[:1] == [":"]:
        target, given = f"{target}:{given[1]}", given[2:]
    names = {one.partition("=")[0].removesuffix(":") for one in given}
    return [f"{name}=" for name in _quietly(_parameters, target) if name not in names]


def _quietly(find: Callable[[str], Iterator[str]], text: str) -> list[str]:
    """What is found; nothing when that fails, for what a module prints or raises would end up in the line."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return list(find(text))
    except Exception:
        return []


def _targets(text: str) -> Iterator[str]:
    from .modules import module_named
    from .services import services_in, split

    module_name, name, _ = split(text)
    if ":" not in text:
        return
    module = module_named(module_name)
    for one in services_in(module):
        yield f"{module_name}:{one}"
        if one == name:
            yield from (f"{module_name}:{one}.{method}" for method in _methods(getattr(module, one)))


def _parameters(target: str) -> Iterator[str]:
    from .services import find

    found = find(target)
    methods = _methods(found.value)
    method = methods[found.method] if found.method or len(methods) != 1 else next(iter(methods.values()))
    yield from list(inspect.signature(method).parameters)[1:]


def _methods(service: Any) -> dict[str, Any]:
    """The methods of an interface, or of a service that is made."""
    from ..stubs import is_stub, methods_of
    from .services import method_names

    if isinstance(service, type):
        return {name: one for name, _, one in methods_of(service) if is_stub(one)}
    return {name: getattr(type(service), name) for name in method_names(service)}
