"""Resolves the annotations of a class, with its type variables filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from typing_extensions import Format, get_annotations, get_original_bases, is_typeddict

__all__ = ["ancestry", "class_hints", "fillings_of", "substitute"]


def substitute(form: Any, filling: Mapping[Any, Any]) -> Any:
    """``form`` with its type variables replaced: ``list[T]`` and ``{T: int}`` give ``list[int]``."""
    if not filling:
        return form
    if isinstance(form, TypeVar):
        return filling.get(form, form)
    parameters = getattr(form, "__parameters__", ())
    metadata = getattr(form, "__pydantic_generic_metadata__", None)
    if metadata is not None:
        parameters = metadata["parameters"]
    elif isinstance(form, type) and get_origin(form) is None:
        return form  # a bare generic class: its variables are its own business
    if not parameters or not any(parameter in filling for parameter in parameters):
        return form
    generic: Any = form
    return generic[tuple(filling.get(parameter, parameter) for parameter in parameters)]


def class_hints(form: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a class, or of a generic alias such as ``Box[int]``, inherited ones included.

    ``namespace`` holds the local names that string annotations may use. Raises NameError when a name is
    found nowhere.
    """
    cls = get_origin(form) or form
    fillings = fillings_of(form)
    resolved = get_type_hints(cls, localns=dict(namespace), include_extras=True)
    hints: dict[str, Any] = dict.fromkeys(resolved)  # a base's fields come before those of what it becomes
    for base in ancestry(cls):
        own = resolved if base is cls else get_type_hints(base, localns=dict(namespace), include_extras=True)
        for name in _declared(base):
            if name in own:
                hints[name] = substitute(own[name], fillings.get(base, {}))
    return {name: resolved[name] if hint is None else hint for name, hint in hints.items()}


def ancestry(cls: Any) -> list[Any]:
    """A class and its bases, the farthest first; those of a TypedDict too, which is no subclass of them."""
    if not is_typeddict(cls):
        return list(reversed(cls.__mro__))
    bases = [get_origin(base) or base for base in get_original_bases(cls)]
    return [*(above for base in bases if is_typeddict(base) for above in ancestry(base)), cls]


def _declared(cls: Any) -> list[str]:
    """The names that a class itself annotates; a TypedDict has those of its bases among its own."""
    inherited = {
        name for base in ancestry(cls)[:-1] for name in get_annotations(base, format=Format.FORWARDREF)
    }
    names = get_annotations(cls, format=Format.FORWARDREF)
    return [name for name in names if not (is_typeddict(cls) and name in inherited)]


def fillings_of(form: Any) -> dict[type, dict[Any, Any]]:
    """For each class in the ancestry, what its type variables stand for."""
    found: dict[type, dict[Any, Any]] = {}

    def visit(form: Any, outer: Mapping[Any, Any]) -> None:
        cls = get_origin(form) or form
        if not isinstance(cls, type):
            return
        parameters = getattr(cls, "__parameters__", ())
        arguments = [substitute(argument, outer) for argument in get_args(form)]
        own = dict(zip(parameters, arguments, strict=False))
        found.setdefault(cls, own)
        for base in getattr(cls, "__orig_bases__", ()):
            visit(base, own)

    visit(form, {})
    return found
