"""The results of parsing text: values, and the conversions and repairs that were needed.

``Cursor`` records coercions while a value is read. The results and errors of the JSON parser are here, too.
This module also has short descriptions of values for messages, functions for NaN and infinity, and
``strict_equal``, which compares two values.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring, encode_basestring_ascii
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from ..backslashes import with_clear_escapes
from ..lazy_regex import lazy_regex
from .errors import Problem, shorten

T = TypeVar("T")
_LONGEST_KEY = _LONGEST_VALUE = 60  # characters of a key or value in a message or a path

# A parsed JSON value: null, booleans, int, Decimal for numbers with a fraction or an exponent (never float,
# which would round them), strings, lists and dicts. The members of an object are known only at run time.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]


class Leniency(Enum):
    """The tolerance of a parser for replies that are not exactly in the requested format.

    Attributes:
        NONE: The reply must be the value and nothing else.
        SAFE: Steps that keep the meaning are allowed: a fence, text around the answer, ``"RED."`` for RED,
            ``"42"`` for 42.
        ALL: Steps that guess are allowed too, such as ``42.7`` for an int.
    """

    NONE = 0
    SAFE = 1
    ALL = 2


class Coercion(NamedTuple):
    """One conversion or repair of a reply that was needed to read a value, such as ``"3"`` to 3.

    Attributes:
        path: The JSON path of the value; ``$`` is the root.
        rule: The name of the conversion or repair, such as ``trailing comma``.
        before: A short description of the text or JSON value; empty if the rule is enough.
        after: A short description of the value that was read from it.
    """

    path: str
    rule: str
    before: str
    after: str

    def __str__(self) -> str:
        change = f": {self.before} → {self.after}" if self.before or self.after else ""
        return f"{self.path}: {self.rule}{change}"


class UnitCoercion(Coercion):
    """The conversion of a number whose unit was left out, although the declaration does not name it.

    Attributes:
        unit: The name of the unit.
    """

    unit = ""


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value that was parsed from text, with the conversions and repairs that were needed.

    Attributes:
        value: The value.
        coercions: The conversions and repairs that were needed; empty for exact text.
    """

    value: T
    coercions: tuple[Coercion, ...] = ()


_PACKAGE = os.path.dirname(os.path.dirname(__file__))


# It never leaves the package: when a reader raises it, the next reader is tried, and TypeParser converts
# the last failure to an OutputParsingError.
class ValidationFailure(Exception):
    """Raised inside the parsers if text or a JSON value does not fit the requested type.

    Attributes:
        problems: The reasons, each with its JSON path.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def external_cause(failure: BaseException) -> BaseException | None:
    """Return the exception from user code, such as a validator, that caused a parsing failure.

    Return None if user code did not cause the failure.

    Errors show only such causes: exceptions of this package, of pydantic and of the standard library say the
    same as the error.
    """
    from pydantic import ValidationError

    cause, seen = failure.__cause__, set[int]()
    while cause is not None and id(cause) not in seen:  # an exception may be its own cause
        seen.add(id(cause))
        if isinstance(cause, ValidationError):
            contexts = [problem.get("ctx", {}) for problem in cause.errors(include_url=False)]
            causes = [context["error"] for context in contexts if "error" in context]
        else:
            causes = [cause]
        for candidate in causes:
            if isinstance(candidate, BaseException) and _has_frame_of_user(candidate):
                return candidate
        cause = cause.__cause__
    return None


def _has_frame_of_user(error: BaseException) -> bool:
    """Return True if an exception's traceback contains user code, such as a custom validator."""
    import pydantic

    standard_library = os.path.dirname(os.__file__) + os.sep
    hidden = (_PACKAGE + os.sep, os.path.dirname(pydantic.__file__) + os.sep)
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        in_standard_library = file.startswith(standard_library) and "site-packages" not in file
        if not in_standard_library and not file.startswith(hidden) and not file.startswith("<frozen "):
            return True
        traceback = traceback.tb_next
    return False


class Ambiguity(ValidationFailure):
    """Raised if text or a JSON value can be parsed in several ways with different results."""


class Verifier(Protocol):
    """Verifies the quotes of an answer while it is read."""

    def verify(self, cited: Any, node: Any, cursor: Cursor) -> None:
        """Add the place of the quote to a Cited that was read, or raise ValidationFailure.

        ``node`` is the parser of its value; None if only the quote is verified.
        """
        ...

    def resolve(self) -> None:
        """Choose among several places of a quote, after the whole answer was read."""
        ...


# Verifies the quotes of the answer that is read; None if they are not verified.
VERIFIER: ContextVar[Verifier | None] = ContextVar("verifier", default=None)
# The arguments of the call whose answer is read, by name; validators get them as ``info.context``.
CALL_ARGUMENTS: ContextVar[Mapping[str, object]] = ContextVar("call_arguments", default=MappingProxyType({}))


class SignFinder(Protocol):
    """Finds out which decimal sign the numbers of a reply have."""

    def find(self, text: str) -> Any:
        """Return the NumberStyle of a text with a number such as 1.500 or 2,750; None if it is unclear."""
        ...


@contextmanager
def set_variable(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Context manager in which a context variable has another value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


MAX_FAILURES = 100  # in the parts of one value; with more problems, the value has an entirely different form


def combine_failures(failures: Sequence[ValidationFailure]) -> ValidationFailure:
    """Combine several validation failures into one that lists all their problems.

    The result is an Ambiguity if all failures are.
    """
    problems = (problem for failure in failures for problem in failure.problems)
    only_ambiguous = all(isinstance(failure, Ambiguity) for failure in failures)
    return Ambiguity(*problems) if only_ambiguous else ValidationFailure(*problems)


class Cursor:
    """The current position in the JSON that is being parsed, with the conversions recorded so far.

    All cursors of one reading share one list of coercions. A reader that tries an alternative remembers
    the length of the list, and undoes a failed alternative by cutting the list back to that length.

    Attributes:
        leniency: How far the reading may deviate from the exact text.
        coercions: The conversions and repairs recorded so far, by all cursors of one reading.
        union_cache: The results of unions by value, so that no union reads a value twice.
        declaration: The name of the field that is read and its description, which may name a unit.
        signs: Finds the decimal sign of numbers such as 1.500; None if the whole reply is not known.
        verifier: Verifies the quotes of the answer; None if they are not verified.
    """

    __slots__ = (
        "_key",
        "_parent",
        "coercions",
        "declaration",
        "leniency",
        "signs",
        "union_cache",
        "verifier",
    )

    def __init__(self, leniency: Leniency = Leniency.SAFE, path: str = "$", declaration: str = "") -> None:
        self.leniency = leniency
        self.declaration = declaration
        self.coercions: list[Coercion] = []
        self.union_cache: dict[object, Any] = {}
        self.signs: SignFinder | None = None
        self.verifier = VERIFIER.get()
        self._parent: Cursor | None = None
        self._key: str | int = path

    def child(self, key: str | int) -> Cursor:
        """Return a cursor for one field or item of the current JSON value."""
        # It is created for every field and item of a reply: without __init__, which would build containers
        # only to replace them, and without the text of the path, which is seldom needed.
        child = Cursor.__new__(Cursor)
        child.leniency = self.leniency
        child.declaration = self.declaration
        child.coercions = self.coercions
        child.union_cache = self.union_cache
        child.signs = self.signs
        child.verifier = self.verifier
        child._parent = self
        child._key = key
        return child

    @property
    def path(self) -> str:
        """The JSON path of the current value during parsing, such as ``$.people[0]["first name"]``."""
        steps: list[str] = []
        cursor = self
        while cursor._parent is not None:
            steps.append(_format_step(cursor._key))
            cursor = cursor._parent
        return str(cursor._key) + "".join(reversed(steps))

    def record(self, rule: str, before: Json, after: object, *, guess: bool = False) -> None:
        """Record that the current JSON value was converted, for example from ``"3"`` to 3.

        ``guess`` says that the step may change the meaning. Raises ValidationFailure if the leniency does
        not allow the step.
        """
        required = Leniency.ALL if guess else Leniency.SAFE
        if self.leniency.value < required.value:
            raise self.failure(f"{rule} is not permitted with Leniency.{self.leniency.name}", before)
        self.coercions.append(Coercion(self.path, rule, describe_value(before), describe_value(after)))

    def note_unit(self, unit: str) -> None:
        """Add a unit to the last coercion, so that the numbers of a reply can be compared."""
        self.coercions[-1] = coercion = UnitCoercion(*self.coercions[-1])
        coercion.unit = unit

    def record_dropped(self, rule: str) -> None:
        """Record that a part of the reply was ignored because it does not belong to the value.

        Raises ValidationFailure if the leniency does not allow ignoring it.
        """
        if self.leniency is Leniency.NONE:
            raise ValidationFailure(Problem(self.path, f"{rule} is not permitted with Leniency.NONE"))
        self.coercions.append(Coercion(self.path, rule, "", ""))

    def failure(self, message: str, value: Json) -> ValidationFailure:
        """Create a ValidationFailure about the current JSON value, without raising it."""
        return ValidationFailure(Problem(self.path, message, describe_value(value)))


def _format_step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    name = shorten(key, _LONGEST_KEY)
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name, ensure_ascii=False)}]"


_CONSTANTS = {None: "null", True: "true", False: "false"}


def dump_json(value: Json) -> str:
    """Write a parsed JSON value as JSON text, without rounding its numbers."""
    # json.dumps cannot write a Decimal, and its hook for other types cannot return a number's own text. Its
    # functions for texts are used directly, because it makes an encoder for each call.
    kind = type(value)
    if kind is str:
        text = encode_basestring(value)
        return with_clear_escapes(text) if "\\" in text else text
    if value is None or kind is bool:
        return _CONSTANTS[value]
    if kind is int:
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{_dump_key(key)}: {dump_json(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(dump_json, value))}]"
    if isinstance(value, Decimal):
        return str(value)
    return with_clear_escapes(json.dumps(value, ensure_ascii=False))


def _dump_key(key: str) -> str:
    text = encode_basestring_ascii(key) if type(key) is str else json.dumps(key)
    return with_clear_escapes(text) if "\\" in text else text


def describe_value(value: object) -> str:
    """Describe a value briefly for an error message: ``"text"``, ``null``, ``an array of 3``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{shorten(value, _LONGEST_VALUE)}"'
    if isinstance(value, dict):
        keys = ", ".join(shorten(str(key), _LONGEST_KEY) for key in list(value)[:6])
        return f"an object with {keys}" if value else "an empty object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    try:
        return shorten(str(value), _LONGEST_VALUE)
    except ValueError:  # an int with more digits than str() is willing to convert
        return "a very long number"


def expected_message(kind: str, error: Exception) -> str:
    """Return an error message such as "expected a date", followed by the reason from an exception."""
    detail = str(error)
    return f"expected {kind}" if detail.startswith("expected") else f"expected {kind}: {detail}"


_MISSING = object()


def strict_equal(one: Any, other: Any) -> bool:
    """Return True if two values are equal in value and type, unlike 1 and True.

    This also holds inside containers. Records (dataclasses, pydantic models, attrs and msgspec classes) are
    compared field by field, whatever their ``__eq__`` says. Objects of classes without an ``__eq__`` are
    compared by their attributes.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) in (str, int, float, bool):  # the most frequent types
        return bool(one == other) or bool(one != one and other != other)  # NaN differs from itself
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(strict_equal, one, other))
    if isinstance(one, dict):
        return _same_members(one, other) and all(strict_equal(item, other[key]) for key, item in one.items())
    if isinstance(one, (set, frozenset)):
        return _same_members(dict.fromkeys(one), dict.fromkeys(other))
    return _equal_objects(one, other)


def _equal_objects(one: object, other: object) -> bool:
    """Return True if two objects of the same class, which is not a container, are equal in all types."""
    names = _field_names(type(one))
    if names is None:
        if any("__eq__" in vars(cls) for cls in type(one).__mro__[:-1]):  # without ``object`` itself
            return bool(one == other) or bool(one != one and other != other)
        return hasattr(one, "__dict__") and strict_equal(one.__dict__, other.__dict__)
    return all(
        strict_equal(getattr(one, name, _MISSING), getattr(other, name, _MISSING))
        for name in (*names, "__pydantic_extra__")
    )


def first_difference(one: object, other: object, path: str = "$") -> tuple[str, object, object]:
    """Find the first difference between two values; return its JSON path and the two different parts."""
    for step, part, counterpart in _paired_parts(one, other):
        if not strict_equal(part, counterpart):
            return first_difference(part, counterpart, path + step)
    return path, one, other


def _paired_parts(one: Any, other: Any) -> list[tuple[str, object, object]]:
    if type(one) is not type(other):
        return []
    if isinstance(one, (list, tuple)) and len(one) == len(other):
        return [(f"[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    if isinstance(one, dict) and one.keys() == other.keys():
        return [(f"[{key!r}]", item, other[key]) for key, item in one.items()]
    names = _field_names(type(one)) or ()
    return [(f".{name}", getattr(one, name, _MISSING), getattr(other, name, _MISSING)) for name in names]


def _same_members(one: Mapping[object, None], other: Mapping[object, None]) -> bool:
    """Return True if two sets or the keys of two dicts are equal in value and type."""
    if one.keys() != other.keys():
        return False
    # A dict lookup would find 1 for True: get the stored key itself and compare it strictly.
    other_keys = {key: key for key in other}
    return all(strict_equal(key, other_keys[key]) for key in one)


def _field_names(cls: object) -> Sequence[str] | None:
    """Return the field names of a dataclass or similar class; None for other classes."""
    for attribute in ("__pydantic_fields__", "__dataclass_fields__", "__struct_fields__"):
        names = getattr(cls, attribute, None)
        if names is not None:
            return tuple(names)
    attrs_fields = getattr(cls, "__attrs_attrs__", None)
    return None if attrs_fields is None else [field.name for field in attrs_fields]


# --- Results of parsing JSON ---


# The deepest nesting that is accepted. It is deeper than any realistic answer, and shallow enough for the
# recursive functions that validate the value afterwards.
DEPTH = 500


class JsonSyntaxError(ValueError):
    """Raised if text cannot be parsed as JSON.

    Attributes:
        message: What is wrong.
        position: The index of the wrong character.
        truncated: True if the text ends inside a value, so that more text could complete it.
    """

    def __init__(self, message: str, position: int, *, truncated: bool = False) -> None:
        super().__init__(f"{message} (at character {position})")
        self.message = message
        self.position = position
        self.truncated = truncated


class Repair(NamedTuple):
    """A syntax mistake in JSON that the parser repaired, such as a trailing comma.

    Attributes:
        rule: The name of the deviation, such as ``trailing comma``.
        position: The index of the character where it first occurred.
    """

    rule: str
    position: int


# The position where each repair rule was first needed. It is filled with setdefault.
RepairLog: TypeAlias = dict[str, int]


class ParsedJson(NamedTuple):
    """A parsed JSON value, with the repairs that were needed to parse it.

    Attributes:
        value: The value.
        repairs: The tolerated deviations in the order of their first use; empty for exact JSON.
        end: The index after the last character of the value.
    """

    value: Json
    repairs: tuple[Repair, ...]
    end: int


def truncation_error(kind: str, position: int) -> JsonSyntaxError:
    """Return the error for JSON text that is cut off inside an array, object or string."""
    message = f"the text is cut off: the {kind} that begins here is not closed"
    return JsonSyntaxError(message, position, truncated=True)


def nesting_error(position: int) -> JsonSyntaxError:
    """Return the error for JSON that is nested deeper than the parser allows."""
    return JsonSyntaxError(f"nested deeper than {DEPTH} levels", position)


def surrogate_error(position: int) -> JsonSyntaxError:
    """Return the error for an incomplete surrogate pair in JSON: an escape such as ``\\ud83d`` alone."""
    return JsonSyntaxError("half a surrogate pair is not a character", position)


def add_field(fields: dict[str, Json], key: str, value: Json, position: int) -> None:
    """Add a field to a parsed JSON object.

    Raises JsonSyntaxError if the key already has another value.
    """
    if key in fields and not _json_equal(fields[key], value):
        raise JsonSyntaxError(f'the key "{key}" appears twice with different values', position)
    fields[key] = value


def _json_equal(one: Json, other: Json) -> bool:
    """Return True if two JSON values are equal, treating ``1``, ``1.0`` and ``true`` as different values."""
    # Without recursion, because 500 levels would come near the recursion limit of Python.
    pairs: list[tuple[Json, Json]] = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs += _zip(left.values(), (right[key] for key in left))
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs += _zip(left, right)
        elif left != right:
            return False
    return True


def _zip(left: Iterable[Json], right: Iterable[Json]) -> list[tuple[Json, Json]]:
    return list(zip(left, right, strict=True))


# JSON has no numbers for NaN and infinity. A schema describes them as the strings that pydantic writes.
NON_FINITE_RULE = "NaN or Infinity without quotes"
NON_FINITE_SCHEMA = {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}
# The spellings of JavaScript, Python and pandas.
_NON_FINITE_NAME = lazy_regex(r"(?P<sign>[+-]?)(?:(?P<nan>NaN|nan)|Infinity|inf)")


def parse_non_finite(text: str) -> Decimal | None:
    """Parse ``NaN``, ``Infinity``, ``inf`` or ``-Infinity`` as a Decimal; return None for other text."""
    name = _NON_FINITE_NAME.fullmatch(text)
    if name is None:
        return None
    return Decimal("NaN") if name["nan"] else Decimal(f"{name['sign']}Infinity")


def is_non_finite(value: object) -> bool:
    """Return True if a parsed JSON value is NaN or an infinity."""
    return isinstance(value, Decimal) and not value.is_finite()


def non_finite_name(value: float) -> str | None:
    """Return the name of NaN or an infinity, such as ``"-Infinity"``; return None for a finite float."""
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
