"""Validate values against JSON Schemas written as dicts, and build parsers for these schemas.

``SchemaCheck`` validates values with the jsonschema package. ``SchemaTree`` converts a schema to nodes, which
align a reply that is not quite valid with the schema, as with any Python type.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Literal, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic_core import SchemaError, SchemaValidator, ValidationError

from ..result.errors import USER_CODE_ERRORS, Problem, shorten
from ..result.reading import MAX_FAILURES, Ambiguity, Cursor, Json, ValidationFailure, describe_value
from ..types.choices import BoolNode, ChoiceNode, choice_node
from ..types.constraints import CONSTRAINTS_IN_WORDS, ConstrainedNode, constraint_in_words, unwrapped
from ..types.containers import DictNode, ListNode, UnionNode
from ..types.node import JsonSchema, Node, RecursiveNode
from ..types.records import Extra, FieldSpec, ObjectNode, RecordSpec, normalize_key
from ..types.scalars import AnyNode, FloatNode, IntNode, NoneNode, NumberNode, TextNode
from ..types.target import Target
from .document import (
    ASSERTIONS,
    DATA,
    KEYWORDS,
    MAPS,
    MAX_PARTS,
    InvalidSchemaError,
    all_schemas,
    draft_of,
    escape_pointer,
    is_multiple,
    referenced_part,
    to_pointer,
)

_KEYWORDS_BY_LOWER_CASE = {keyword.lower(): keyword for keyword in KEYWORDS}
NO_ALTERNATIVE = "it fits none of the alternatives"
_MAX_MESSAGE = 160  # the maximum length of a message from jsonschema
_MAX_MEMBERS = 20  # the maximum number of enum values in a message
_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
# Keywords about the kind of a value; None represents the schema ``false``.
_KIND_KEYWORDS = ("type", "enum", "const", None)


# Keywords whose schemas apply to the same value as the schema that has them.
_IN_PLACE = frozenset("allOf anyOf oneOf not if then else dependentSchemas dependencies".split())
_REFERENCES = frozenset(("$ref", "$dynamicRef", "$recursiveRef"))
_UNEVALUATED = frozenset(("unevaluatedProperties", "unevaluatedItems"))
_MAX_HINT_PARTS = 1_000

KeywordCheck: TypeAlias = Callable[[Any, Any, object, Any], Iterator[Any]]  # of the package jsonschema


class SchemaCheck:
    """Validates values against a JSON Schema with the jsonschema package.

    Creating it raises InvalidSchemaError if the schema is invalid. Nothing is downloaded: a reference to
    another document is an error.

    Attributes:
        name: The name of the schema, for error messages.
        references: The values of all ``$ref`` and ``$dynamicRef`` in the schema.
        has_ids: Some part of the schema has an ``$id``, so that references may be relative to it.
    """

    def __init__(self, schema: JsonSchema, name: str) -> None:
        from jsonschema import FormatChecker
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, extend, validator_for
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # has no types
        from referencing.jsonschema import DRAFT202012, specification_with

        self.name = name
        self.references: list[str] = []
        self.has_ids = False
        self._patterns: dict[str, SchemaValidator] = {}
        draft = validator_for(schema, default=Draft202012Validator)
        # Python's re refuses patterns that JSON Schema allows; _compile_pattern checks them
        formats = FormatChecker(())
        formats.checkers = {
            key: check for key, check in draft.FORMAT_CHECKER.checkers.items() if key != "regex"
        }

        def check_syntax(part: object, pointer: str) -> None:
            try:
                cast(Any, draft).check_schema(part, format_checker=formats)
            except SchemaError as error:
                steps = to_pointer(error.absolute_path).removeprefix("#")
                reason = shorten(error.message, _MAX_MESSAGE)
                raise InvalidSchemaError(name, f"{pointer}{steps}", reason) from error

        check_syntax(schema, "#")
        self._check_syntax = check_syntax
        dialect = str(draft.META_SCHEMA.get("$schema") or "")
        self._specification: Any = specification_with(dialect, default=DRAFT202012)
        # with "$schema", jsonschema would choose its own class again, whose patterns can be slow
        bare = {key: value for key, value in schema.items() if key != "$schema"}
        resource = self._specification.create_resource(bare)
        registry = REGISTRY.with_resource(resource.id() or "", resource)
        self._in_place = set(map(id, all_schemas(bare)))
        self._id_keyword = "id" if draft_of(schema) <= 4 else "$id"
        self._walked: set[int] = set()
        self._resolvers: dict[int, object] = {}  # with the base address of each part, by its id
        self._conflicting: set[str] = set()
        self._targets: dict[int, list[object]] = {}  # the reference targets of each part, by its id
        self._is_dynamic = False  # a reference may lead to different parts, depending on those before it
        self._resolve_references(bare, "#", registry.resolver(resource.id() or ""))
        self._check_parts_of_same_value(bare)
        keywords = {"pattern": self._pattern, "patternProperties": self._pattern_properties}
        keywords["additionalProperties"] = self._additional_properties
        keywords["anyOf"] = self._any_of
        keywords["multipleOf"] = _multiple_of
        for key in _REFERENCES & draft.VALIDATORS.keys():
            keywords[key] = self._cached(key, draft.VALIDATORS[key])
        checks: object = {key: check for key, check in keywords.items() if key in draft.VALIDATORS}
        linear = extend(draft, validators=checks)  # type: ignore[no-untyped-call]  # has no types
        # jsonschema accepts 3.0 as an integer; the exact validator does not
        whole: object = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
        strict = extend(linear, type_checker=whole)  # type: ignore[no-untyped-call]  # has no types
        self._exact: Any = strict(bare, registry=registry)
        self._validator: Any = linear(bare, registry=registry)

    def _resolver_of(self, part: dict[str, object], resolver: Any, *, is_target: bool) -> object:
        """Return the resolver of a part below the root, which may have an id of its own."""
        # in a keyword that JSON Schema does not know, "id" may be the name of a part
        if not isinstance(part.get(self._id_keyword), str):
            return resolver
        subresource = self._specification.create_resource(part)
        if not subresource.id():
            return resolver
        self.has_ids = True
        return resolver if is_target else resolver.in_subresource(subresource)

    def _resolve_references(
        self, part: object, pointer: str, resolver: object, *, is_target: bool = False
    ) -> None:
        """Check that each ``$ref`` in a part of the JSON Schema leads to an existing definition.

        ``resolver`` belongs to the target if a reference leads to the part, and otherwise to the enclosing
        part. Raises InvalidSchemaError if a reference does not lead to a definition.
        """
        if isinstance(part, list):
            for index, item in enumerate(part):
                self._resolve_references(item, f"{pointer}/{index}", resolver)
        if not isinstance(part, dict) or id(part) in self._walked:
            return
        self._walked.add(id(part))
        self._compile_patterns(part, pointer)
        if pointer != "#":
            resolver = self._resolver_of(part, resolver, is_target=is_target)
        self._resolvers[id(part)] = resolver
        for key in ("$ref", "$dynamicRef"):
            if isinstance(part.get(key), str):
                target = self._resolve(part[key], f"{pointer}/{key}", resolver)
                self._targets.setdefault(id(part), []).append(target)
        self._is_dynamic |= not {"$dynamicRef", "$recursiveRef"}.isdisjoint(part)
        for key, value in part.items():
            inside = f"{pointer}/{escape_pointer(key)}"
            if key in MAPS and isinstance(value, dict):
                for name, child in value.items():
                    self._resolve_references(child, f"{inside}/{escape_pointer(name)}", resolver)
            elif key not in DATA:
                self._resolve_references(value, inside, resolver)

    def _resolve(self, reference: str, pointer: str, resolver: Any) -> object:
        """Return the part of the JSON Schema that a ``$ref`` points to.

        Raises InvalidSchemaError if the ``$ref`` does not point to a schema.
        """
        from referencing.exceptions import Unresolvable

        self.references.append(reference)
        try:
            resolved = resolver.lookup(reference)
        except (Unresolvable, ValueError, *USER_CODE_ERRORS) as error:
            reason = f"{shorten(reference)!r} is not in the schema, and other documents are not downloaded"
            raise InvalidSchemaError(self.name, pointer, reason) from error
        data = resolved.contents
        if not isinstance(data, (dict, bool)):
            raise InvalidSchemaError(self.name, pointer, f"{shorten(reference)!r} is not a schema")
        if "://json-schema.org/" in reference:
            self._is_dynamic = True
        else:
            if id(data) not in self._in_place:  # the check of the whole has not seen it as a schema
                self._in_place.update(map(id, all_schemas(data)))
                self._check_syntax(data, pointer)
            self._resolve_references(data, pointer, resolved.resolver, is_target=True)
        return data

    def _check_parts_of_same_value(self, root: JsonSchema) -> None:
        """Raise InvalidSchemaError if references in the JSON Schema lead to endless validation."""
        sizes: dict[int, int] = {}
        pointers: dict[int, str] = {}

        def size(part: object, pointer: str) -> int:
            """Count a schema and all subschemas that check the same value, such as those under allOf."""
            if not isinstance(part, dict):
                return 1
            if id(part) not in sizes:
                sizes[id(part)], pointers[id(part)] = 0, pointer  # while its parts are counted
                targets = [(target, f"{pointer}/$ref") for target in self._targets.get(id(part), ())]
                children = [*targets, *_parts_of_same_value(part, pointer)]
                sizes[id(part)] = 1 + sum(size(child, inner) for child, inner in children)
            elif sizes[id(part)] == 0:
                raise InvalidSchemaError(self.name, pointers[id(part)], "it refers only to itself")
            # jsonschema visits all of them, even repeatedly
            if sizes[id(part)] > MAX_PARTS and not part.keys().isdisjoint(_UNEVALUATED):
                reason = (
                    f"'unevaluatedProperties' and 'unevaluatedItems' apply to more than {MAX_PARTS:,} parts"
                )
                raise InvalidSchemaError(self.name, pointer, reason)
            return sizes[id(part)]

        seen: set[int] = set()
        waiting: list[tuple[object, str]] = [(root, "#")]
        while waiting:
            part, pointer = waiting.pop()
            if id(part) in seen:
                continue
            if isinstance(part, dict):
                seen.add(id(part))
                if id(part) in self._walked:  # a schema, and not the value of a keyword
                    size(part, pointer)
                waiting.extend(
                    (child, f"{pointer}/{escape_pointer(str(key))}") for key, child in part.items()
                )
            elif isinstance(part, list):
                waiting.extend((child, f"{pointer}/{index}") for index, child in enumerate(part))

    # --- Patterns, which may come from elsewhere and must not take exponential time ---

    def _compile_patterns(self, part: JsonSchema, pointer: str) -> None:
        """Compile the regular expressions in a part of the JSON Schema.

        Raises InvalidSchemaError if one of them is not supported.
        """
        by_pattern = part.get("patternProperties")
        # jsonschema applies its own patterns to find unevaluated properties, also those of other parts
        self._conflicting |= {"patternProperties", "unevaluatedProperties"} & part.keys()
        if len(self._conflicting) > 1:
            reason = "'unevaluatedProperties' in a schema with 'patternProperties' is not supported"
            raise InvalidSchemaError(self.name, pointer, f"{reason}; use 'additionalProperties'")
        patterns = [(pattern, "patternProperties") for pattern in by_pattern or ()]
        if isinstance(part.get("pattern"), str):
            patterns.append((part["pattern"], "pattern"))
        for pattern, key in patterns:
            try:
                self._patterns[pattern] = _compile_pattern(pattern)
            except ValueError as error:
                reason = f"the pattern {shorten(pattern)!r} cannot be used: {error}"
                raise InvalidSchemaError(self.name, f"{pointer}/{key}", reason) from error

    def _matches(self, pattern: str, text: str) -> bool:
        try:
            self._patterns[pattern].validate_python(text)
        except ValidationError:
            return False
        return True

    def _pattern(self, validator: object, pattern: str, value: object, schema: object) -> Iterator[object]:
        from jsonschema.exceptions import ValidationError

        if isinstance(value, str) and not self._matches(pattern, value):
            yield ValidationError(f"{value!r} does not match {pattern!r}")

    def _pattern_properties(
        self, validator: Any, patterns: Mapping[str, object], value: object, schema: object
    ) -> Iterator[object]:
        for pattern, part in patterns.items():
            for key, item in value.items() if isinstance(value, dict) else ():
                if self._matches(pattern, key):
                    yield from validator.descend(item, part, path=key, schema_path=pattern)

    def _additional_properties(
        self, validator: Any, others: object, value: object, schema: JsonSchema
    ) -> Iterator[object]:
        from jsonschema.exceptions import ValidationError

        if not isinstance(value, dict):
            return
        extra_keys = [key for key in value if self.is_extra(key, schema)]
        if isinstance(others, dict):
            for key in extra_keys:
                yield from validator.descend(value[key], others, path=key)
        elif others is False and extra_keys:
            yield ValidationError(f"{extra_keys!r} are not allowed")

    def _any_of(
        self, validator: Any, options: list[object], value: object, schema: object
    ) -> Iterator[object]:
        from jsonschema.exceptions import ValidationError

        errors: list[Any] = []
        for index, option in enumerate(options):
            problems = list(islice(validator.descend(value, option, schema_path=index), MAX_FAILURES))
            if not problems:
                return
            errors += problems
        yield ValidationError(NO_ALTERNATIVE, context=errors)

    def _cached(self, keyword: str, check: KeywordCheck) -> KeywordCheck:
        """Return a version of a ``$ref`` check that runs only once per value during a validation.

        Without the cache, a chain of definitions that each refer twice to the next takes exponential time.
        """

        def check_once(validator: Any, reference: object, value: object, schema: object) -> Iterator[object]:
            scope = tuple(uri for uri, _ in validator._resolver.dynamic_scope()) if self._is_dynamic else ()
            key = (keyword, id(schema), id(value), scope)
            results = _REFERENCE_RESULTS.get()
            if key not in results:
                first_errors = islice(check(validator, reference, value, schema), MAX_FAILURES)
                # several parts of the schema may report the same problem
                errors = {
                    (tuple(error.path), error.validator, error.message): error for error in first_errors
                }
                results[key] = (value, list(errors.values()))
            _, distinct_errors = results[key]
            yield from map(_copied, distinct_errors)

        return check_once

    def is_extra(self, key: str, schema: JsonSchema) -> bool:
        """Return True if ``properties`` and ``patternProperties`` of a schema do not cover a key."""
        patterns = schema.get("patternProperties", {})
        return key not in schema.get("properties", {}) and not any(self._matches(p, key) for p in patterns)

    def of(self, part: JsonSchema) -> SchemaCheck:
        """Return a validator for a nested part of the JSON Schema.

        References are still resolved in the whole schema.
        """
        resolver = self._resolvers.get(id(part), self._validator._resolver)
        other = copy(self)
        other._validator = self._validator.evolve(schema=part, _resolver=resolver)
        other._exact = self._exact.evolve(schema=part, _resolver=resolver)
        return other

    def is_valid(self, value: object) -> bool:
        """Return True if a plain JSON value satisfies the JSON Schema."""
        return self._accepts(self._validator, value)

    def is_exact(self, value: object) -> bool:
        """Return True if no integer in a value is written as a float, such as ``3.0``."""
        return not _has_whole_float(value) or self._accepts(self._exact, value)

    @staticmethod
    def _accepts(validator: Any, value: object) -> bool:
        from jsonschema.exceptions import UnknownType

        try:
            with _one_validation():
                return bool(validator.is_valid(value))
        # jsonschema fails on numbers beyond a float, and on parts that are under no keyword that it knows
        except (ValueError, UnknownType, *USER_CODE_ERRORS):
            return False

    def problems(self, value: object, cursor: Cursor) -> list[Problem]:
        """Validate a JSON value against the JSON Schema, and return a list of the problems found.

        The paths of the problems begin at ``cursor``.
        """
        # by path and message, because two parts of the schema may report the same problem
        problems: dict[tuple[str, str], Problem] = {}
        try:
            with _one_validation():
                for error in self._validator.iter_errors(value):
                    for problem in _problems_of(error, cursor, self):
                        problems.setdefault((problem.path, problem.message), problem)
                    if len(problems) >= MAX_FAILURES:
                        break
        except (ValueError, *USER_CODE_ERRORS) as error:
            reason = shorten(str(error), _MAX_MESSAGE)
            return [Problem(cursor.path, f"the schema cannot be checked here: {reason}")]
        return list(problems.values())


# The errors of each value at each reference, during one validation: they are found once.
_REFERENCE_RESULTS: ContextVar[dict[object, tuple[object, list[object]]]] = ContextVar("_REFERENCE_RESULTS")


@contextmanager
def _one_validation() -> Generator[None]:
    """Cache the results of ``$ref`` checks while a ``with`` block validates one JSON value.

    Raises RecursionError if the value is nested too deeply.
    """
    token = _REFERENCE_RESULTS.set({})
    try:
        yield
    except BaseException as error:
        # the Rust code that jsonschema calls panics if the recursion limit is reached in it
        if type(error).__name__ == "PanicException":
            raise RecursionError("the value is nested too deeply") from error
        raise
    finally:
        _REFERENCE_RESULTS.reset(token)


def _multiple_of(validator: object, divisor: Any, value: object, schema: object) -> Iterator[object]:
    from jsonschema.exceptions import ValidationError

    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and not is_multiple(cast(float, value), divisor):
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


def _copied(error: Any) -> object:
    """Copy a jsonschema validation error, because callers change the error's path.

    The nested errors about alternatives are shared with the original.
    """
    from jsonschema.exceptions import ValidationError

    other = ValidationError(
        error.message,
        validator=error.validator,
        path=error.path,
        validator_value=error.validator_value,
        instance=error.instance,
        schema=error.schema,
        schema_path=error.schema_path,
    )
    other.context = error.context
    return other


def _parts_of_same_value(schema: JsonSchema, pointer: str) -> Iterator[tuple[object, str]]:
    """Yield the subschemas that check the same value as a JSON Schema, such as those under anyOf.

    Each subschema comes with its JSON pointer.
    """
    for key in _IN_PLACE & schema.keys():
        value = schema[key]
        if isinstance(value, list):
            yield from ((part, f"{pointer}/{key}/{index}") for index, part in enumerate(value))
        elif isinstance(value, dict) and key in MAPS:
            yield from ((part, f"{pointer}/{key}/{escape_pointer(name)}") for name, part in value.items())
        else:
            yield value, f"{pointer}/{key}"


# The tokens of a pattern that JSON Schema and the regular expressions of pydantic-core may write differently.
_PATTERN_TOKEN = re.compile(r"\\[pPux]\{[^{}]*\}|\\c[A-Za-z]|\\[\s\S]|\{\d+(?:,\d*)?\}|[\s\S]")
_PATTERN_ESCAPES = {
    r"\0": r"\x00",
    r"\<": "<",
    r"\>": ">",
    r"\Z": r"\z",
    r"\d": "[0-9]",  # JSON Schema has the patterns of JavaScript, without the digits of other scripts
    r"\D": "[^0-9]",
}


def _compile_pattern(pattern: str) -> SchemaValidator:
    """Compile a JSON Schema pattern into a string validator that runs in linear time.

    Raises ValueError for look-around, back references and invalid patterns.
    """
    tokens: list[str] = _PATTERN_TOKEN.findall(pattern)
    parts: list[str] = []
    class_start: int | None = None  # the number of parts before the content of the character class
    for index, token in enumerate(tokens):
        previous, following = "".join(tokens[index - 1 : index]), "".join(tokens[index + 1 : index + 2])
        part = _PATTERN_ESCAPES.get(token, token)
        if token.startswith(r"\c") and len(token) == 3:
            part = f"\\x{ord(token[2]) % 32:02x}"
        elif class_start is None:
            if token == "[":
                class_start = index + (2 if following == "^" else 1)
            elif token == "{" and following != ",":
                part = r"\{"
        elif token == "]" and index > class_start:  # as the first character, it is a member of the class
            class_start = None
        else:
            part = _in_class(token, previous, following) or part
        parts.append(part)
    try:
        return SchemaValidator({"type": "str", "pattern": "".join(parts), "regex_engine": "rust-regex"})
    except SchemaError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(reason.removeprefix("error: ").removeprefix("SchemaError: ")) from error


def _distinct_options(options: list[object]) -> Iterator[tuple[int, object]]:
    """Yield the options of an anyOf with their indexes, leaving out duplicates."""
    first = {repr(option): index for index, option in reversed(list(enumerate(options)))}
    return ((index, options[index]) for index in sorted(first.values()))


def _in_class(token: str, previous: str, following: str) -> str:
    """Return a token of a character class as it is written for the Rust engine; "" if it needs no change."""
    if token == r"\b":
        return r"\x08"
    if token == "-" == following:
        raise ValueError("it has '--' between brackets; write '\\-' for a minus sign")
    if token == "-" and (_is_class_escape(previous) or _is_class_escape(following)):
        return r"\-"
    # nested and combined sets exist in one of the languages only
    return f"\\{token}" if token in ("[", "&", "~") else ""


def _is_class_escape(token: str) -> bool:
    return re.match(r"\\[dDwWsSpP]", token) is not None


def check_keywords(schema: Mapping[str, object], name: str, *, strict: bool) -> None:
    """Warn if a JSON Schema has a misspelt keyword, such as ``minLenght``, which JSON Schema ignores.

    This is only for schemas that the user wrote. In other schemas, unknown keywords are ignored.

    Raises InvalidSchemaError instead if ``strict``, and for a schema without any keyword.
    """
    try:
        for pointer, reason in _keyword_problems(schema, "#", name):
            if strict:
                raise InvalidSchemaError(name, pointer, reason)
            warnings.warn(f"the JSON Schema {name!r} at {pointer}: {reason}", UserWarning, stacklevel=2)
    except RecursionError as error:
        raise InvalidSchemaError(name, "#", "it is nested too deeply") from error


def _keyword_problems(part: object, pointer: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield a JSON pointer and a reason for each misspelt keyword in a JSON Schema."""
    if not isinstance(part, Mapping):
        return
    # any key may be an annotation; one that begins with "_" or "x-" is not a misspelling
    unknown = [key for key in part if key not in KEYWORDS and re.match(r"\$|(?!x-)[A-Za-z]", str(key))]
    for key in unknown:
        keyword = _similar_keyword(key, part[key])
        if keyword is not None and keyword not in part:
            yield pointer, f"{shorten(key)!r} is not a keyword of JSON Schema; did you mean {keyword!r}?"
    # below the root, a schema with only other systems' annotations is a common way to allow any JSON
    if pointer == "#" and unknown and not part.keys() & ASSERTIONS:
        keys = ", ".join(repr(shorten(key)) for key in unknown[:_MAX_MEMBERS])
        reason = f"it has no keyword of JSON Schema such as 'type' or 'properties', only {keys}"
        raise InvalidSchemaError(name, pointer, reason)
    for schema, inside in _subschemas(part, pointer):
        yield from _keyword_problems(schema, inside, name)


def _subschemas(part: Mapping[object, object], pointer: str) -> Iterator[tuple[object, str]]:
    """Yield each value that may be a schema inside of a schema, with its JSON pointer."""
    for key, value in part.items():
        inside = f"{pointer}/{escape_pointer(str(key))}"
        if key in MAPS and isinstance(value, Mapping):
            for child, schema in value.items():
                yield schema, f"{inside}/{escape_pointer(str(child))}"
        elif key in ASSERTIONS - DATA - {"dependentRequired"}:
            for index, item in enumerate(value if isinstance(value, (list, tuple)) else ()):
                yield item, f"{inside}/{index}"
            yield value, inside


def _similar_keyword(key: str, value: object) -> str | None:
    """Return the JSON Schema keyword that a misspelt key such as ``minLenght`` resembles, or None.

    The key's value must fit the keyword: ``{"note": "x"}`` does not mean ``not``.
    """
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator

    keyword = _nearest_keyword(key)
    if keyword not in ASSERTIONS - {"const"}:  # every value fits const
        return None
    if keyword.endswith("ref") and not (isinstance(value, str) and value.startswith("#")):
        return None
    try:
        Draft202012Validator.check_schema({keyword: value})
    except SchemaError:
        return None
    return keyword


@lru_cache(maxsize=1_000)
def _nearest_keyword(key: str) -> str | None:
    nearest = get_close_matches(key.lower(), _KEYWORDS_BY_LOWER_CASE, 1, 0.8)
    return _KEYWORDS_BY_LOWER_CASE[nearest[0]] if nearest else None


def _has_whole_float(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


def _problems_of(error: Any, root: Cursor, check: SchemaCheck) -> Iterator[Problem]:
    """Convert a jsonschema validation error to Problem objects, each with a path and a message.

    Their paths begin at ``root``.
    """
    cursor = root
    for step in error.relative_path:
        cursor = cursor.child(step)
    keyword, expected, value = error.validator, error.validator_value, error.instance
    if keyword == "required" and isinstance(expected, list):
        for key in expected:
            if key not in value:
                yield Problem(cursor.child(key).path, f"the required field {key!r} is missing")
    elif keyword == "additionalProperties" and expected is False:
        for key in value:
            if check.is_extra(key, error.schema):
                yield Problem(
                    cursor.child(key).path, "the schema has no field of this name", describe_value(value[key])
                )
    elif keyword in ("anyOf", "oneOf"):
        yield from _alternatives_problems(error, cursor, check)
    else:
        yield Problem(cursor.path, _message(keyword, expected, error), describe_value(value))


def _alternatives_problems(error: Any, cursor: Cursor, check: SchemaCheck) -> Iterator[Problem]:
    """Yield the reasons why a value does not fit the closest option of an anyOf or oneOf.

    If no option is clearly closest, yield one problem about all options.
    """
    if not error.context:
        # oneOf is the only keyword that fails because several alternatives are valid
        message = "it fits more than one alternative, and must fit exactly one"
        yield Problem(cursor.path, message, describe_value(error.instance))
        return
    alternatives: dict[int, list[object]] = {}
    for suberror in error.context:
        alternatives.setdefault(suberror.relative_schema_path[0], []).append(suberror)
    nearest = _nearest(list(alternatives.values()))
    if nearest is None:
        yield Problem(cursor.path, _expected_kinds(error.validator_value), describe_value(error.instance))
        return
    for suberror in nearest:
        yield from _problems_of(suberror, cursor, check)


def _nearest(alternatives: list[list[Any]]) -> list[object] | None:
    """Return the errors of the anyOf option that fits a value best, or None if no option is clearly best.

    An alternative whose errors lie deeper inside the value fits better, and so does one with fewer errors, or
    the only one that accepts this kind of value.
    """
    deeper = [errors for errors in alternatives if any(error.relative_path for error in errors)]
    if deeper:
        return min(deeper, key=len)
    same_kind = [
        errors for errors in alternatives if all(error.validator not in _KIND_KEYWORDS for error in errors)
    ]
    return same_kind[0] if len(same_kind) == 1 else None


def _expected_kinds(alternatives: list[object]) -> str:
    kinds = [option.get("type") if isinstance(option, dict) else None for option in alternatives]
    descriptions = [_KINDS[kind] for kind in kinds if isinstance(kind, str) and kind in _KINDS]
    return f"expected {' or '.join(descriptions)}" if len(descriptions) == len(kinds) else NO_ALTERNATIVE


def _message(keyword: str | None, expected: Any, error: Any) -> str:
    """Return an error message for a value that violates the given JSON Schema keyword.

    ``keyword`` is None for the schema ``false``; ``expected`` is the value of the keyword.
    """
    if keyword == "type":
        kinds = expected if isinstance(expected, list) else [expected]
        return f"expected {' or '.join(_KINDS.get(kind, str(kind)) for kind in kinds)}"
    if keyword in ("enum", "const"):
        members = expected if keyword == "enum" else [expected]
        member_list = ", ".join(
            shorten(json.dumps(member, ensure_ascii=False), 60) for member in members[:_MAX_MEMBERS]
        )
        return f"expected {'one of ' if len(members) > 1 else ''}{member_list}"
    if keyword == "pattern":
        return f"expected text matching {expected}"
    if keyword in CONSTRAINTS_IN_WORDS and not isinstance(expected, bool):
        return f"expected {constraint_in_words(keyword, expected)}"
    if keyword == "uniqueItems":
        return "expected no item twice"
    if keyword == "not":
        return "the schema excludes this value"
    return "no value is allowed here" if keyword is None else shorten(error.message, _MAX_MESSAGE)


_NUMBER_LIMITS = frozenset("minimum exclusiveMinimum maximum exclusiveMaximum multipleOf".split())
_LIMITS = {
    "integer": _NUMBER_LIMITS,
    "number": _NUMBER_LIMITS,
    "string": frozenset(("minLength", "maxLength", "pattern")),
    "array": frozenset(("minItems", "maxItems", "uniqueItems")),
    "object": frozenset(("minProperties", "maxProperties")),
}
# Keywords that a hint expresses, or that are only comments. A schema with other keywords is shown in full.
_HINT_KEYWORDS = frozenset.union(*_LIMITS.values()) - {"uniqueItems"} | frozenset(
    "type properties required additionalProperties items enum const anyOf oneOf $ref format description "
    "title default examples $defs definitions $schema $id $comment deprecated readOnly writeOnly".split()
)
_ANNOTATIONS = frozenset("description title default examples $comment deprecated $defs definitions".split())


Align: TypeAlias = Callable[[Json, Cursor], object]


@cache
def any_adapter() -> TypeAdapter[object]:
    """Return a pydantic adapter that accepts any value.

    It is used for nodes whose values the jsonschema package validates.
    """
    return TypeAdapter(Any)


def plain_json(data: Json, cursor: Cursor) -> object:
    """Convert parsed JSON to plain Python values, keeping whole numbers exact.

    Raises ValidationFailure for a number beyond the range of a float.
    """
    if isinstance(data, dict):
        return {key: plain_json(value, cursor.child(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [plain_json(value, cursor.child(index)) for index, value in enumerate(data)]
    return _plain_number(data, cursor) if isinstance(data, Decimal) else data


def _plain_number(data: Decimal, cursor: Cursor) -> int | float:
    number = FloatNode().convert(data, cursor)
    if number.is_integer() and Decimal(repr(number)) != data == data.to_integral_value():
        return int(data)
    return number


def valid_or_aligned(check: SchemaCheck, align: Align, data: Json, cursor: Cursor) -> object:
    """Convert JSON data with ``align``, unless the data is already valid under a JSON Schema.

    A valid 3.0 in the place of an integer becomes 3, unless aligning fails.
    """
    plain = plain_json(data, cursor)
    if not check.is_valid(plain):
        return align(data, cursor)
    if check.is_exact(plain):
        return plain
    before = len(cursor.coercions)
    try:
        return align(data, cursor)
    except ValidationFailure:
        del cursor.coercions[before:]
        return plain


class JsonNode(AnyNode):
    """Reads any JSON value, for parts of a JSON Schema that no more specific parser supports.

    The part is validated later, together with the whole value.
    """

    any_text = True  # text is valid JSON data too, so reading the lines of a reply as items is a guess

    def read(self, data: Json, cursor: Cursor) -> object:
        return plain_json(data, cursor)


class JsonNumberNode(NumberNode[int | float]):
    """Reads a number: an ``int`` if it is written without a fraction, else a ``float``."""

    kind = "a number"

    def convert(self, number: int | Decimal, cursor: Cursor) -> int | float:
        if isinstance(number, int):
            return number
        return int(number) if number.as_tuple().exponent == 0 else _plain_number(number, cursor)


class FormatNode(TextNode):
    """Reads a string with a JSON Schema format such as ``date``, and returns it as a string."""

    def __init__(self, format: str) -> None:
        self._format = format

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f"string ({self._format})"


class EnumNode(ChoiceNode[object]):
    """Reads one of the strings, numbers or other scalars that a JSON Schema lists under ``enum``.

    An exact member is never read as another member that looks similar.
    """

    def __init__(self, values: list[object]) -> None:
        node = choice_node(Target(cast(Any, Literal)[tuple(values)]))
        assert isinstance(node, ChoiceNode), "a Literal always has a ChoiceNode"
        super().__init__("enum", node.choices.choices, exact=False)
        self._values = values

    def read(self, data: Json, cursor: Cursor) -> object:
        plain = plain_json(data, cursor)
        if any(_equal(value, plain) for value in self._values):
            return plain
        return super().read(data, cursor)


def _equal(one: object, other: object) -> bool:
    """Return True if two JSON scalars are equal; 1 equals 1.0, but does not equal true."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def without_optional_nulls(node: Node[object], data: Json, seen: set[tuple[int, int]]) -> Json:
    """Return JSON data without the nulls of properties that may be left out, or the same data if it has none.

    ``seen`` holds pairs of a node and data that need not be visited again.
    """
    node = unwrapped(node)
    if not isinstance(data, (dict, list)) or (id(node), id(data)) in seen:
        return data
    seen.add((id(node), id(data)))
    if isinstance(node, UnionNode):
        for option in node.options:
            data = without_optional_nulls(option, data, seen)
        return data
    parts = node.parts_of(data)
    optional = _optional_names(node)
    pairs = list(data.items() if isinstance(data, dict) else enumerate(data))
    fewer = {
        key: without_optional_nulls(parts[key], item, seen) if key in parts else item
        for key, item in pairs
        if item is not None or key not in optional
    }
    if len(fewer) == len(data) and all(fewer[key] is item for key, item in pairs):
        return data
    return fewer if isinstance(data, dict) else list(fewer.values())


def _optional_names(node: Node[object]) -> set[str]:
    """Return the names of the properties that may be left out, if the node reads an object."""
    return (
        {one.name for one in node.spec.fields if not one.required} if isinstance(node, ObjectNode) else set()
    )


class PropertiesNode(ObjectNode):
    """Reads a JSON object whose properties are declared in a JSON Schema.

    If additional properties are allowed, a key in another spelling may be one of them. It is then read as a
    known property only if that property is required and missing.
    """

    def __init__(self, name: str, fields: tuple[FieldSpec, ...], extra: Extra) -> None:
        super().__init__(RecordSpec(type(name or "the object", (dict,), {}), fields, dict, extra=extra))
        self.kind = f"an object ({name})" if name else "an object"
        if extra == "allow":
            for field in fields:
                if not field.required:
                    self._by_normalized_key[normalize_key(field.name)] = None


class AlternativesNode(UnionNode):
    """Reads a value that must fit one of several JSON Schemas, such as those under anyOf.

    Alternatives come from anyOf, oneOf, or several types. Valid data is returned unchanged.
    """

    def __init__(self, options: tuple[Node[object], ...], check: SchemaCheck) -> None:
        super().__init__(options, None)
        self.exact = False
        self._check = check

    def _read(self, data: Json, cursor: Cursor) -> object:
        return valid_or_aligned(self._check, self._aligned, data, cursor)

    def _aligned(self, data: Json, cursor: Cursor) -> object:
        try:
            return super()._read(data, cursor)
        except Ambiguity:
            raise
        except ValidationFailure as failure:  # a limit of one alternative is the better message
            problems = self._check.problems(plain_json(data, cursor), cursor)
            deeper = any(problem.path != cursor.path for problem in failure.problems)
            if deeper or not problems or problems[0].message == NO_ALTERNATIVE:
                raise
            raise ValidationFailure(*problems) from failure


class LimitsNode(ConstrainedNode):
    """Checks values against limits in a JSON Schema, such as ``minLength``, ``maximum`` and ``pattern``."""

    def __init__(self, inner: Node[object], limits: JsonSchema, check: SchemaCheck) -> None:
        hint_limits = {key: limit for key, limit in limits.items() if not isinstance(limit, bool)}
        super().__init__(inner, any_adapter(), hint_limits)
        self.exact = False
        self._check = check.of(limits)

    def check(self, value: object, cursor: Cursor) -> object:
        problems = self._check.problems(value, cursor)
        if problems:
            raise ValidationFailure(*problems)
        return value


class SchemaTree:
    """Builds the parser for a JSON Schema as a tree, with one node for each nested schema.

    Attributes:
        hint_is_complete: The hint of the nodes expresses every keyword of the schema.
        root: The node of the whole schema.
    """

    def __init__(self, schema: JsonSchema, check: SchemaCheck, name: str) -> None:
        self.hint_is_complete = True
        self._schema = schema
        self._check = check
        self._name = name
        self._built: dict[str, Node[object]] = {}
        self._open: dict[str, RecursiveNode[object]] = {}
        self.root = self._node_of_reference("#", frozenset())
        # a hint repeats what several references refer to
        self.hint_is_complete &= _hint_size(self.root, {}) <= _MAX_HINT_PARTS

    def target(self, reference: str) -> object:
        """Return the part of the JSON Schema at a JSON pointer, such as ``#/$defs/Person``.

        Return None for other kinds of references.
        """
        return None if self._check.has_ids else referenced_part(self._schema, reference)

    def _node_of_reference(self, reference: str, followed: frozenset[str]) -> Node[object]:
        """Return the parser for the part of a JSON Schema that a ``$ref`` points to.

        ``followed`` holds the references that were followed without going deeper into the value.
        Following one of them again would never end.
        """
        if reference in followed:
            raise InvalidSchemaError(self._check.name, reference, "it refers only to itself")
        if reference in self._built or reference in self._open:
            return self._built.get(reference) or self._open[reference]
        part = self._schema if reference == "#" else self.target(reference)
        if part is None:
            return self._not_in_hint()
        name = self._name if reference == "#" else reference.rpartition("/")[2]
        shared: RecursiveNode[object] = RecursiveNode(_class_name(name) or "the value")
        self._open[reference] = shared
        shared.node = self._built[reference] = self._node(part, followed | {reference}, name)
        del self._open[reference]
        return shared.node

    def _not_in_hint(self) -> Node[object]:
        """Return a parser that accepts any JSON, and record that the hint for prompts is incomplete."""
        self.hint_is_complete = False
        return JsonNode()

    def _node(self, schema: object, followed: frozenset[str] = frozenset(), name: str = "") -> Node[object]:
        if not isinstance(schema, dict):  # the schemas true and false accept everything and nothing
            return JsonNode() if schema is True else self._not_in_hint()
        self.hint_is_complete &= schema.keys() <= _HINT_KEYWORDS
        if "$ref" in schema:
            self.hint_is_complete &= not (schema.keys() - _ANNOTATIONS - {"$ref", "$schema", "$id"})
            return self._node_of_reference(schema["$ref"], followed)
        if "const" in schema or "enum" in schema:
            return self._choice([schema["const"]] if "const" in schema else schema["enum"], schema)
        kinds = schema.get("type") or next((kind for key, kind in _IMPLIED if key in schema), None)
        if isinstance(kinds, list) and len(kinds) > 1:
            options = (self._of_kind(kind, schema, name) for kind in kinds)
            return AlternativesNode(tuple(options), self._check.of(schema))
        if kinds:  # a list with a single type is the same as the type
            return self._of_kind(kinds if isinstance(kinds, str) else kinds[0], schema, name)
        return self._combined(schema, followed, name)

    def _combined(self, schema: JsonSchema, followed: frozenset[str], name: str) -> Node[object]:
        alternatives = schema.get("anyOf") or schema.get("oneOf")
        all_of = schema.get("allOf", ())
        if schema.get("anyOf"):
            alternatives = [option for _, option in _distinct_options(schema["anyOf"])]
        if alternatives and not all_of:
            options = tuple(self._node(option, followed, name) for option in alternatives)
            if len(options) == 1:
                return options[0]
            union = AlternativesNode(options, self._check.of(schema))
            union.part_descriptions = tuple(map(_description_of, alternatives))
            return union
        if len(all_of) == 1 and not alternatives:
            return self._node(all_of[0], followed, name)
        return JsonNode() if not schema.keys() - _ANNOTATIONS else self._not_in_hint()

    def _choice(self, values: list[object], schema: JsonSchema) -> Node[object]:
        # an enum may contain objects and arrays, which no choice can be
        if any(isinstance(value, (dict, list)) for value in values) or not values:
            return self._not_in_hint()
        scalars = [value for value in values if value is not None]
        if not scalars:
            return NoneNode()
        node = EnumNode(scalars)
        return node if None not in values else AlternativesNode((node, NoneNode()), self._check.of(schema))

    def _of_kind(self, kind: str, schema: JsonSchema, name: str) -> Node[object]:
        node = self._without_limits(kind, schema, name)
        limits = {key: schema[key] for key in _LIMITS.get(kind, ()) if key in schema}
        return LimitsNode(node, limits, self._check) if limits else node

    def _without_limits(self, kind: str, schema: JsonSchema, name: str) -> Node[object]:
        if kind == "string" and isinstance(schema.get("format"), str):
            return FormatNode(schema["format"])
        if kind == "array":
            items = schema.get("items", True)
            self.hint_is_complete &= not isinstance(items, list)
            alike = isinstance(items, dict) and "prefixItems" not in schema
            array = ListNode(self._node(items) if alike else JsonNode(), list, exact=False)
            array.part_descriptions = (_description_of(items),)
            return array
        if kind == "object":
            return self._object(schema, name)
        make = _SCALARS.get(kind)
        return make() if make is not None else self._not_in_hint()

    def _object(self, schema: JsonSchema, name: str) -> Node[object]:
        """Return the parser for a JSON Schema of type ``object``.

        Objects that declare no properties but allow some become dicts, other objects records.
        """
        properties: Mapping[str, object] = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        if not properties and others is not False:
            alike = isinstance(others, dict) and "patternProperties" not in schema
            mapping = DictNode(TextNode(), self._node(others) if alike else JsonNode(), dict)
            mapping.part_descriptions = (None, _description_of(others))
            return mapping
        self.hint_is_complete &= not isinstance(others, dict)
        required = schema.get("required")
        names = frozenset(required if isinstance(required, list) else ())
        fields = tuple(FieldSpec(key, (key,), Any, key in names) for key in properties)
        # keys that match a pattern are allowed even if additional properties are not
        closed = others is False and "patternProperties" not in schema
        title = schema.get("title")
        node = PropertiesNode(_class_name(title or name), fields, "forbid" if closed else "allow")
        for key, part in properties.items():
            node.nodes[key] = self._node(part)
            node.descriptions[key] = _description_of(part)
        return node


def _hint_size(node: Node[object], sizes: dict[int, int]) -> int:
    """Count the types in the hint that prompts show for a parser node.

    ``sizes`` holds the counts known so far.
    """
    if isinstance(node, RecursiveNode):  # its hint is its name
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = 1 + sum(_hint_size(part, sizes) for part in node.parts)
    return sizes[id(node)]


def _description_of(schema: object) -> str | None:
    """Return the description in a JSON Schema, or None if the schema has no description."""
    description = schema.get("description") if isinstance(schema, dict) else None
    return description if isinstance(description, str) else None


_IMPLIED = (("properties", "object"), ("items", "array"), ("prefixItems", "array"))
_SCALARS: dict[str, type[Node[object]]] = {
    "string": TextNode,
    "integer": IntNode,
    "number": JsonNumberNode,
    "boolean": BoolNode,
    "null": NoneNode,
}


def _class_name(name: str) -> str:
    """Replace punctuation in the name of a JSON Schema: ``order-item`` becomes ``order item``.

    Names are cut to 60 characters.
    """
    return re.sub(r"\W+", " ", name).strip()[:60]
