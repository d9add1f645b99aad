"""The types of fields as their class means them, where that is not what their annotations say."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import Field

__all__ = ["tied", "with_non_finite", "without_unset"]


def tied(form: Any, cls: Any) -> Any:
    """A type in which a generic model of pydantic, that refers to itself by a mark, stands for itself."""

    def tie(part: Any) -> Any:
        if not hasattr(part, "type_ref"):
            return None
        generic = (getattr(cls, "__pydantic_generic_metadata__", None) or {}).get("origin")
        return cls if f":{id(generic)}[" in part.type_ref else part

    return _changed(form, tie)


def with_non_finite(form: Any) -> Any:
    """A type whose floats may be NaN and the infinities, where they do not say otherwise themselves."""
    asking = Annotated[float, Field(allow_inf_nan=True)]
    return _changed(form, lambda part: asking if part is float else None)


def without_unset(form: Any) -> Any:
    """A type without the mark of msgspec for a field that is left out; what is nothing else stays."""
    origin, args = get_origin(form), get_args(form)
    if origin is Annotated:
        inner = without_unset(args[0])
        return form if inner is args[0] else Annotated[(inner, *form.__metadata__)]
    if origin not in (Union, types.UnionType):
        return form
    rest = tuple(arg for arg in args if getattr(arg, "__name__", None) != "UnsetType")
    return form if len(rest) in (0, len(args)) else Union[rest]  # noqa: UP007


def _changed(form: Any, change: Callable[[Any], Any]) -> Any:
    """A type with those of its parts replaced for which ``change`` gives another; itself if none is."""
    new = change(form)
    if new is not None:
        return new
    origin, args = get_origin(form), get_args(form)
    if origin is Annotated:
        inner = _changed(args[0], change)
        return form if inner is args[0] else Annotated[(inner, *form.__metadata__)]
    if origin is Literal:
        return form
    changed = tuple(_changed(arg, change) for arg in args)
    if all(old is other for old, other in zip(args, changed, strict=True)):
        return form
    return Union[changed] if origin in (Union, types.UnionType) else origin[changed]  # noqa: UP007
