"""Convert the validators of attrs fields to constraints, so that the model is told about them.

attrs calls its validators itself. Their bounds, lengths, patterns and options are repeated in the type of the
field, so that schemas and hints have them, and so that a problem has the path of the field.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import Field
from pydantic_core import SchemaError, SchemaValidator

from .target import TypeExpression

_BOUNDS: dict[str, Callable[[Any], object]] = {">=": Ge, ">": Gt, "<=": Le, "<": Lt}
_ORDERED = (int, float, Decimal, Fraction, date, datetime, time, timedelta)
_SIZED = (str, bytes, list, tuple, set, frozenset, dict)


def constrained_by(validator: object, tp: TypeExpression) -> Any:
    """Return the type of an attrs field with the constraints of its validator.

    A validator that cannot be expressed as a constraint is left to attrs.
    """
    # The classes of attrs' validators are private. Their names and attributes are known since attrs 21.
    kind = type(validator).__name__
    details: Any = validator
    if kind == "_AndValidator":
        for part in details._validators:
            tp = constrained_by(part, tp)
        return tp
    if kind == "_OptionalValidator":
        parts = details.validator if isinstance(details.validator, tuple) else (details.validator,)
        for part in parts:
            tp = constrained_by(part, tp)
        return tp
    if kind == "_DeepIterable":
        tp = _with_constrained_arguments(tp, (details.member_validator,))
        return constrained_by(details.iterable_validator, tp)
    if kind == "_DeepMapping":
        tp = _with_constrained_arguments(tp, (details.key_validator, details.value_validator))
        return constrained_by(details.mapping_validator, tp)
    if kind == "_InValidator":
        return _with_options(tp, details.options)
    constraints = [constraint for constraint, bases in _constraints(kind, details) if _fits(tp, bases)]
    return Annotated[(tp, *constraints)] if constraints else tp


def _constraints(kind: str, validator: Any) -> Iterator[tuple[object, tuple[type, ...]]]:
    """Yield the constraint of an attrs validator such as ``ge(1)``, and the types that it applies to."""
    if kind == "_NumberValidator" and validator.compare_op in _BOUNDS:
        yield _BOUNDS[validator.compare_op](validator.bound), _ORDERED
    elif kind == "_MinLengthValidator":
        yield MinLen(validator.min_length), _SIZED
    elif kind == "_MaxLengthValidator":
        yield MaxLen(validator.max_length), _SIZED
    elif kind == "_MatchesReValidator":
        pattern = _pattern_of(validator)
        if pattern is not None:
            yield Field(pattern=pattern), (str,)


def _pattern_of(validator: Any) -> str | None:
    """Return the regular expression of attrs' ``matches_re``, adapted so that ``re.search`` can be used.

    Return None if pydantic's engine does not support it.
    """
    pattern: re.Pattern[str] = validator.pattern
    forms = {"fullmatch": f"^(?:{pattern.pattern})$", "match": f"^(?:{pattern.pattern})"}
    text = forms.get(validator.match_func.__name__, pattern.pattern)
    if pattern.flags & ~re.UNICODE:
        return None
    try:
        SchemaValidator({"type": "str", "pattern": text})
    except SchemaError:  # look-around and backreferences
        return None
    return text


def _fits(tp: TypeExpression, bases: tuple[type, ...]) -> bool:
    """Return True if a type, without its None option, is one of the given built-in types."""
    origin = get_origin(tp) or tp
    if origin is Annotated:
        return _fits(get_args(tp)[0], bases)
    if origin in (Union, types.UnionType):
        return all(arg is types.NoneType or _fits(arg, bases) for arg in get_args(tp))
    return origin in bases


def _with_constrained_arguments(tp: Any, validators: tuple[object, ...]) -> Any:
    """Return a container type such as ``list[int]`` whose items have the constraints of attrs validators."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        return Annotated[(_with_constrained_arguments(args[0], validators), *tp.__metadata__)]
    if origin in (Union, types.UnionType):
        options = tuple(
            arg if arg is types.NoneType else _with_constrained_arguments(arg, validators) for arg in args
        )
        return Union[options]  # noqa: UP007  # a tuple of types has no | syntax
    generic: Any = origin
    if args[1:] == (...,):
        return generic[(constrained_by(validators[0], args[0]), ...)]
    if origin is tuple or len(args) != len(validators):
        return tp
    return generic[tuple(map(constrained_by, validators, args))]


def _with_options(tp: TypeExpression, options: Any) -> Any:
    """Convert the attrs validator ``in_(["a", "b"])`` to ``Literal["a", "b"]``, if the options permit it."""
    if tp not in (str, int) or not isinstance(options, (list, tuple, set, frozenset)):
        return tp
    values = sorted(options, key=repr) if isinstance(options, (set, frozenset)) else list(options)
    if not values or any(type(value) is not tp for value in values):
        return tp
    return Literal[tuple(values)]
