"""Checks of the arguments of public classes and functions: their names, their types and their ranges.

The messages say what is wrong, and what to write instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, wraps
from inspect import iscoroutinefunction
from os import PathLike
from types import UnionType
from typing import Any, ForwardRef, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from .errors import DefinitionError, DefinitionProblem

F = TypeVar("F", bound=Callable[..., object])
_OPTIONS = frozenset("temperature top_p max_tokens stop seed reasoning_effort timeout tool_choice".split())


def is_at_least(value: Any, minimum: float) -> bool:
    """Return True if ``value >= minimum``; False for NaN, bools and values that are not numbers."""
    try:
        return not isinstance(value, bool) and bool(value >= minimum)
    except TypeError:
        return False


def is_count(value: Any, minimum: int) -> bool:
    """Return True for a whole number that is not below the minimum."""
    return isinstance(value, int) and is_at_least(value, minimum)


def is_positive(value: Any) -> bool:
    """Return True for a number above 0, False for NaN and for values that are not numbers."""
    try:
        return not isinstance(value, bool) and bool(value > 0)
    except TypeError:
        return False


def check_settings(location: str, *settings: tuple[str, object, bool, str]) -> None:
    """Raise DefinitionError if settings of a class are invalid.

    Each setting is a tuple: its name, its value, whether the value is valid, and the rule, such as "it must
    be above 0".
    """
    problems = [
        DefinitionProblem(location, f"{name} is {value!r}; {advice}")
        for name, value, is_right, advice in settings
        if not is_right
    ]
    if problems:
        raise DefinitionError(problems)


def check_counts(location: str, minimum: int, **counts: float | None) -> None:
    """Raise DefinitionError for numbers that are not whole or below the minimum; None means no limit."""
    advice = f"it must be at least {minimum}"
    check_settings(
        location,
        *((name, one, one is None or is_count(one, minimum), advice) for name, one in counts.items()),
    )


def count_problems(**counts: object) -> Iterator[str]:
    """Yield a message for each value that is not a whole number of at least 1; None means no limit."""
    for name, value in counts.items():
        if value is not None and not is_count(value, 1):
            yield f"{name} is {value!r}; it must be a whole number of at least 1"


def checks_keywords(target: F) -> F:
    """Decorator of classes and functions: the error for an unknown keyword suggests what to write."""
    return _with_checks(target, has_types=False)


def checks_arguments(target: F) -> F:
    """Decorator of classes and functions that checks the types and the names of the arguments of their calls.

    An argument whose type is not the annotated one raises DefinitionError. Annotations that cannot be
    resolved at runtime accept everything. An unknown keyword raises a TypeError with a suggestion.
    A class checks its arguments itself before types that are not simple are checked, because its messages say
    more.
    """
    return _with_checks(target, has_types=True)


def _with_checks(target: F, *, has_types: bool) -> F:
    if not isinstance(target, type):
        return cast("F", _checked(target, has_types=has_types))
    is_tuple = issubclass(target, tuple)
    constructor = "__new__" if is_tuple else "__init__"
    post_init = getattr(target, "__post_init__", None) if is_tuple else None  # dataclasses call it themselves
    function = getattr(target, constructor)
    if is_tuple:
        function.__module__ = target.__module__  # the generated one is not a module
    setattr(target, constructor, _checked(function, post_init, has_types=has_types))
    return cast("F", target)


def _checked(
    function: Callable[..., object], post_init: Callable[[object], None] | None = None, *, has_types: bool
) -> Callable[..., object]:
    is_async = iscoroutinefunction(function)  # its own checks run when it is awaited

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        # Only arguments that are wrong now can be wrong later: the types of most calls are checked once.
        is_right = not has_types or _check_types(function, args, kwargs, only_simple=not is_async)
        try:
            result = function(*args, **kwargs)
        except DefinitionError:
            raise
        except (TypeError, ValueError, AttributeError) as error:
            message = _keyword_problem(function, args, kwargs)
            if message is not None:
                raise TypeError(message) from error.__cause__
            has_run = error.__traceback__ is not None and error.__traceback__.tb_next is not None
            if has_run and not is_right:
                _check_types(function, args, kwargs)
            raise
        if not is_right:
            _check_types(function, args, kwargs)
        if post_init is not None:
            post_init(result)
        return result

    return call


def _called_name(function: Callable[..., object], args: tuple[object, ...]) -> str:
    """Return the name of a function, or of the class whose constructor it is."""
    if function.__name__ not in ("__init__", "__new__"):
        return function.__name__
    return (args[0] if isinstance(args[0], type) else type(args[0])).__name__


def _keyword_problem(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> str | None:
    from difflib import get_close_matches
    from inspect import signature

    parameters = signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    unknown = [name for name in kwargs if name not in names]
    if not unknown or any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    name = unknown[0]
    if function.__name__ in ("__init__", "__new__"):
        names = names[1:]
    message = f"{_called_name(function, args)}() got an unexpected keyword argument {name!r}"
    similar = get_close_matches(name, names, 1, 0.6)
    if similar:
        return f"{message}; did you mean {similar[0]!r}?"
    if name in _OPTIONS:
        return f"{message}; instead, pass options=ChatOptions({name}=…) to create"
    return f"{message}; it takes: {', '.join(names)}"


# --- The types of arguments ---


class _Rule(NamedTuple):
    """The values that an annotation accepts, and their name, such as "a number".

    A rule is simple for numbers, strings and bools.
    """

    accepts: Callable[[object], bool]
    noun: str
    is_simple: bool = False


class _Parameter(NamedTuple):
    name: str
    default: object
    rule: _Rule | None


def _check_types(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    *,
    only_simple: bool = False,
) -> bool:
    """Raise DefinitionError for arguments whose type is wrong; return True if all types are right.

    With ``only_simple`` it does not raise for types that are not simple.
    """
    positional, by_name = _parameters_of(function)
    arguments = [*zip(positional, args, strict=False)]
    arguments += [(by_name[name], value) for name, value in kwargs.items() if name in by_name]
    wrong = [(one, value) for one, value in arguments if not _is_accepted(one, value)]
    if not wrong:
        return True
    location = _called_name(function, args)
    swapped = _swapped(positional[: len(args)], args)
    if swapped:
        raise DefinitionError([DefinitionProblem(location, f"the arguments {swapped} are swapped")])
    problems = [
        DefinitionProblem(location, f"{one.name} {_described(one.name, value)}; {_advice(one.rule, value)}")
        for one, value in wrong
        if not only_simple or (one.rule is not None and one.rule.is_simple)
    ]
    if problems:
        raise DefinitionError(problems)
    return False


def _is_accepted(parameter: _Parameter, value: object) -> bool:
    return value is parameter.default or parameter.rule is None or parameter.rule.accepts(value)


def _swapped(parameters: tuple[_Parameter, ...], args: tuple[object, ...]) -> str:
    """Return the names of two neighbouring arguments that were swapped; "" if none were."""
    for position in range(min(len(args), len(parameters)) - 1):
        first, second = parameters[position : position + 2]
        if first.name in ("self", "cls", "_cls"):
            continue
        one, other = args[position : position + 2]
        is_right = _is_accepted(first, one) and _is_accepted(second, other)
        if not is_right and _is_accepted(first, other) and _is_accepted(second, one):
            return f"{first.name} and {second.name}"
    return ""


def _described(name: str, value: object) -> str:
    """Describe a wrong value; only by its type if it may be secret or long."""
    is_short = value is None or isinstance(value, (bool, int, float))
    if is_short or (isinstance(value, str) and len(value) <= 60 and "key" not in name):
        return f"is {value!r}"
    if isinstance(value, type):
        return f"is the class {value.__name__}"
    return f"has the type {type(value).__name__}"


def _advice(rule: _Rule | None, value: object) -> str:
    noun = "" if rule is None else rule.noun
    if isinstance(value, type) and noun.partition(" or ")[0].endswith(f" {value.__name__}"):
        return f"pass an object: {value.__name__}(…)"
    if noun.startswith("a list of ") and rule is not None and rule.accepts([value]):
        return "put it into a list"
    advice = f"it must be {noun}"
    if isinstance(value, str) and "number" in noun and re.fullmatch(r"\s*-?\d+(\.\d+)?\s*", value):
        advice += f", without quotes: {value.strip()}"
    return advice


@cache
def _parameters_of(
    function: Callable[..., object],
) -> tuple[tuple[_Parameter, ...], Mapping[str, _Parameter]]:
    """Return the positional parameters of a function, and all that can be passed by name."""
    from inspect import signature

    names = vars(sys.modules[function.__module__])
    positional, by_name = [], {}
    for one in signature(function).parameters.values():
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        hint = one.annotation
        hint = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
        rule = _rule_of(hint, names) if isinstance(hint, str) else None
        parameter = _Parameter(one.name, one.default, rule)
        if one.kind is not one.KEYWORD_ONLY:
            positional.append(parameter)
        if one.kind is not one.POSITIONAL_ONLY:
            by_name[one.name] = parameter
    return tuple(positional), by_name


def _rule_of(hint: str, names: Mapping[str, object]) -> _Rule | None:
    """Return the rule of an annotation; None if it accepts everything, or cannot be resolved."""
    rules = []
    has_none = False
    for part in _alternatives(hint):
        if part == "None":
            has_none = True
            continue
        rule = _rule_of_part(part, names)
        if rule is None:
            return None
        rules.append(rule)
    return _any_of(rules, has_none=has_none)


def _any_of(rules: list[_Rule], *, has_none: bool) -> _Rule:
    nouns = [rule.noun for rule in rules] or ["None"]
    return _Rule(
        lambda value: (value is None and has_none) or any(rule.accepts(value) for rule in rules),
        " or ".join(dict.fromkeys(nouns)),
        all(rule.is_simple for rule in rules),
    )


def _alternatives(hint: str) -> list[str]:
    """Split an annotation at the | outside of its brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(hint):
        depth += (character in "([") - (character in ")]")
        if character == "|" and not depth:
            parts.append(hint[start:position].strip())
            start = position + 1
    return [*parts, hint[start:].strip()]


def _rule_of_part(part: str, names: Mapping[str, object]) -> _Rule | None:
    origin, _, inner = part.removesuffix("]").partition("[")
    if origin in _SIMPLE:
        return _SIMPLE[origin]
    if origin == "Literal":
        return _one_of(ast.literal_eval(f"({inner},)"))
    if origin in ("Sequence", "list", "tuple", "Iterable", "Collection"):
        item = inner.removesuffix(", ...")
        return _list_of(None if "," in item else _rule_of(item, names))
    return _rule_of_object(names.get(origin))


def _rule_of_object(hint: object) -> _Rule | None:
    if get_origin(hint) is Literal:
        return _one_of(get_args(hint))
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return _rule_of_union(get_args(hint))
    if get_origin(hint) is Callable:
        return _SIMPLE["Callable"]
    origin = get_origin(hint)
    if isinstance(origin, type):
        return _SIMPLE["Mapping"] if issubclass(origin, Mapping) else _list_of(None)
    if not isinstance(hint, type) or hint is Any:
        return None
    noun = f"{'an' if hint.__name__[0] in 'AEIOU' else 'a'} {hint.__name__}"
    if getattr(hint, "_is_protocol", False):
        return _rule_of_protocol(hint, noun)
    return _Rule(lambda value: isinstance(value, hint), noun)


def _rule_of_union(options: tuple[object, ...]) -> _Rule | None:
    parts = [part for part in options if part is not type(None)]
    rules = [_SIMPLE.get(getattr(part, "__name__", "")) or _rule_of_object(part) for part in parts]
    accepted = [rule for rule in rules if rule is not None]
    return _any_of(accepted, has_none=len(parts) < len(options)) if len(accepted) == len(parts) else None


def _rule_of_protocol(hint: type, noun: str) -> _Rule | None:
    members = [name for name in {*dir(hint), *getattr(hint, "__annotations__", ())} if name[0] != "_"]
    if not members:
        return _SIMPLE["Callable"] if "__call__" in vars(hint) else None

    def has_a_member(value: object) -> bool:
        return not isinstance(value, type) and any(hasattr(value, name) for name in members)

    return _Rule(has_a_member, noun)


def _one_of(values: Collection[object]) -> _Rule:
    *most, last = (f'"{value}"' if isinstance(value, str) else repr(value) for value in values)
    listed = f"{', '.join(most)} or {last}" if most else last
    return _Rule(lambda value: isinstance(value, (str, int)) and value in values, listed)


def _list_of(item: _Rule | None) -> _Rule:
    def accepts(value: object) -> bool:
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            return False
        is_repeatable = isinstance(value, Collection)  # an iterator could only be read once
        return item is None or not is_repeatable or all(item.accepts(one) for one in value)

    article, _, noun = ("", "", "") if item is None else item.noun.partition(" ")
    of_what = f" of {noun}s" if article in ("a", "an") and " or " not in noun else ""
    return _Rule(accepts, f"a list{of_what}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) or hasattr(type(value), "__index__")


def _is_number(value: object) -> bool:
    if isinstance(value, float) or type(value).__name__ in ("float16", "float32"):
        return bool(value == value)  # not nan
    return _is_whole(value)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # numpy's, too


_SIMPLE: dict[str, _Rule] = {
    "bool": _Rule(_is_bool, "True or False", is_simple=True),
    "int": _Rule(lambda value: _is_whole(value) and not _is_bool(value), "a whole number", is_simple=True),
    "float": _Rule(lambda value: _is_number(value) and not _is_bool(value), "a number", is_simple=True),
    "str": _Rule(lambda value: isinstance(value, str), "a string", is_simple=True),
    "Path": _Rule(lambda value: isinstance(value, PathLike), "a path"),
    "PathLike": _Rule(lambda value: isinstance(value, PathLike), "a path"),
    "Mapping": _Rule(lambda value: isinstance(value, Mapping), "a dict"),
    "dict": _Rule(lambda value: isinstance(value, Mapping), "a dict"),
    "Callable": _Rule(callable, "a function or method"),
    "type": _Rule(lambda value: isinstance(value, type), "a class"),
}
