"""Let pydantic validate JSON once: the validators that users write run as often as pydantic runs them.

The nodes first convert a JSON value to one that has the types of the schema (``json_node_of``); they run no
validators. pydantic then validates this JSON. ``shape_schema`` is the schema without the functions of users,
so it tells whether JSON has the types of a schema without running them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from typing import Annotated, Any, ForwardRef, Literal, TypeAlias, get_args, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import (
    CoreConfig,
    PydanticSerializationError,
    SchemaError,
    SchemaValidator,
    from_json,
)

from ..json.scanner import read_exact
from ..result.errors import Problem, ValidatorError
from ..result.reading import CALL_ARGUMENTS, Cursor, Json, ValidationFailure, describe_value, set_variable
from .node import Node, json_node_of, walk
from .target import Target

CoreSchema: TypeAlias = dict[str, Any]
# The metadata of functions that are not validators of users: the constructor of a record, and others.
MAKES_RECORD: CoreSchema = {"output_parsers": "record"}
OWN_FUNCTION: CoreSchema = {"output_parsers": "function"}
_DUMP = json.JSONEncoder(ensure_ascii=False).encode  # not ``dump_json``, which is slower
BY_VALIDATORS = "converted by its validators"  # the rule of a coercion

# If a validator raises these for a value of the right type, it has a mistake.
_PROGRAMMING_ERRORS = (TypeError, AttributeError, LookupError)
# Modules whose functions pydantic puts into its own schemas, such as ``ipaddress.IPv4Address``.
_LIBRARIES = frozenset("pydantic pydantic_core output_parsers ipaddress fractions decimal pathlib re".split())
_FUNCTION_FIRST = ("function-before", "function-wrap", "function-plain")


class ValidationContext(dict[str, Any]):
    """The ``info.context`` of users' validators: the arguments of the call whose answer is read.

    Attributes:
        json_keys: The number of keys that the records in the answer have, which their constructors count.
            None if validators of users run: they may change a value, so its keys cannot be counted.
    """

    __slots__ = ("json_keys",)

    json_keys: int | None


def validation_context() -> ValidationContext:
    """Return the context for validators of users, in which they cannot change the arguments themselves."""
    context = ValidationContext(CALL_ARGUMENTS.get())
    context.json_keys = None
    return context


def arguments_for_validators(arguments: Mapping[str, object]) -> AbstractContextManager[None]:
    """Context manager in which validators get the arguments of a call as ``info.context``."""
    return set_variable(CALL_ARGUMENTS, arguments)


class JsonValidator:
    """Validates JSON data with pydantic, in the mode that the type itself has."""

    def __init__(self, adapter: TypeAdapter[object]) -> None:
        self._adapter = adapter

    @cached_property
    def runs_user_code(self) -> bool:
        """True if validating may call a function that the user wrote."""
        return has_user_code(self._adapter.core_schema)

    @cached_property
    def encoding(self) -> str | None:
        """The encoding of text in the JSON, such as ``base64``, if the type decodes it."""
        schema: Any = self._adapter.core_schema
        while not schema.get("serialization"):  # validators of the user may be around it
            schema = schema.get("schema")
            if not isinstance(schema, dict):
                return None
        format = self._adapter.json_schema().get("format")
        return format if format in ("base64", "base64url") else None

    def write(self, value: object) -> Json:
        """Convert a value to JSON data, or raise ValueError."""
        try:
            return self._adapter.dump_python(value, mode="json")
        except (PydanticSerializationError, *_PROGRAMMING_ERRORS) as error:
            raise ValueError(f"{value!r} cannot be written: {error}") from error

    @cached_property
    def _shape(self) -> SchemaValidator | None:
        try:
            return SchemaValidator(shape_schema(self._adapter.core_schema), CoreConfig(strict=True))
        except (SchemaError, TypeError, KeyError):
            return None

    def validate(self, data: Json, cursor: Cursor, name: str, *, fits: bool) -> object:
        """Convert JSON data to a value of the type, running each validator once.

        ``fits`` says that the data has the types that the schema names.

        Raises ValidationFailure if the type refuses the data, and ValidatorError if a validator fails with a
        programming error for data that fits.
        """
        text = _DUMP(data)
        with failures_of_validators(name, cursor, text, fits=fits):
            return self._adapter.validator.validate_json(text, context=validation_context())

    @cached_property
    def _restoring(self) -> list[SchemaValidator]:
        schemas = (restoring_schema(self._adapter.core_schema, any_result=result) for result in (False, True))
        try:
            return [SchemaValidator(one, CoreConfig(strict=True), _use_prebuilt=False) for one in schemas]
        except (SchemaError, TypeError, KeyError):
            return []

    def restore(self, text: str) -> Any:
        """Convert the JSON of a written value back without running validators, or raise ValueError."""
        text = _DUMP(_marked(read_exact(text)))
        error: ValueError = ValueError("pydantic cannot restore the type")
        for validator in self._restoring:
            try:
                return validator.validate_json(text)
            except ValueError as refusal:
                error = refusal
        raise error

    def shape_problems(self, data: Json, cursor: Cursor) -> list[Problem]:
        """Return why JSON data does not have the types of the schema; an empty list if it has."""
        if self._shape is None:
            return []
        try:
            self._shape.validate_json(_DUMP(data))
        except ValidationError as error:
            return problems_of(error, cursor, data)
        except (ValueError, *_PROGRAMMING_ERRORS, ArithmeticError) as error:
            return [Problem(cursor.path, str(error), describe_value(data))]
        return []


@contextmanager
def failures_of_validators(name: str, cursor: Cursor, text: str, *, fits: bool) -> Iterator[None]:
    """Convert the errors that pydantic and the validators of users raise for a JSON text.

    See ``JsonValidator.validate``.
    """
    try:
        yield
    except ValidationError as error:
        raise ValidationFailure(*problems_of(error, cursor, _data_of(text))) from error
    except (*_PROGRAMMING_ERRORS, ArithmeticError) as error:
        if fits and isinstance(error, _PROGRAMMING_ERRORS):
            raise ValidatorError(name, error) from error
        raise cursor.failure(f"{name} refuses the value: {error}", _data_of(text)) from error


def is_programming_error(error: Exception) -> bool:
    """Return True if a validator or constructor failed by a mistake in it, and did not refuse a value.

    The validators of attrs refuse values with a TypeError.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = "" if traceback is None else str(traceback.tb_frame.f_globals.get("__name__"))
    return isinstance(error, _PROGRAMMING_ERRORS) and not module.startswith("attr")


def _data_of(text: str) -> Json:
    try:
        return from_json(text)
    except ValueError:  # nested too deeply for pydantic-core
        return None


class JsonReader:
    """Reads the values of a type with validators: its node converts the JSON, and pydantic validates it."""

    def __init__(self, node: Node[object], validator: JsonValidator, name: str) -> None:
        self._validator = validator
        self._name = name
        self._json: Node[Json] = json_node_of(node, {})

    def read(self, data: Json, cursor: Cursor) -> object:
        """Read JSON data; raise ValidationFailure if it does not fit."""
        before = len(cursor.coercions)
        converted = self._json.read(data, cursor)
        return self._validate(converted, cursor, before)

    def read_text(self, text: str, cursor: Cursor) -> object:
        """Read a whole reply in prose; raise ValidationFailure if it does not fit."""
        before = len(cursor.coercions)
        converted = self._json.read_text(text, cursor)
        return self._validate(converted, cursor, before)

    def _validate(self, converted: Json, cursor: Cursor, before: int) -> object:
        fits = all(step.rule != BY_VALIDATORS for step in cursor.coercions[before:])
        value = self._validator.validate(converted, cursor, self._name, fits=fits)
        if not fits and cursor.coercions[before].path == cursor.path:  # the value of a field is not known
            cursor.coercions[before] = cursor.coercions[before]._replace(after=describe_value(value))
        return value


def json_validator(target: Target) -> JsonValidator | None:
    """Return pydantic's validator of a type, or None if pydantic does not know the type."""
    adapter = adapter_of(target)
    return None if adapter is None else JsonValidator(adapter)


def adapter_of(target: Target) -> TypeAdapter[object] | None:
    """Return pydantic's adapter of a type with its metadata, or None if pydantic does not know the type."""
    if contains_type_name(target.annotated):  # pydantic would look up the name in the wrong module
        return None
    try:
        return TypeAdapter(target.annotated)
    except (PydanticUserError, SchemaError, TypeError, NameError, NotImplementedError, AttributeError):
        return None


def contains_type_name(output_type: object) -> bool:
    """Return True if a type contains a forward reference, such as ``"Person"`` in ``list["Person"]``.

    pydantic would look up the name in the wrong module.
    """
    if get_origin(output_type) is Literal:
        return False
    if get_origin(output_type) is Annotated:
        return contains_type_name(get_args(output_type)[0])
    return isinstance(output_type, (str, ForwardRef)) or any(map(contains_type_name, get_args(output_type)))


def readable_by_pydantic(node: Node[object]) -> bool:
    """Return True if pydantic can read the JSON of a type and of all its parts."""
    return all(part.pydantic_reads_json for part in walk(node))


def runs_validators(node: Node[object]) -> bool:
    """Return True if reading a type may call a validator that the user wrote."""
    return any(part.runs_user_code for part in walk(node))


def problems_of(error: ValidationError, cursor: Cursor, data: Json) -> list[Problem]:
    """Convert a pydantic ValidationError to Problem objects, one for each error.

    Their paths begin at the path of ``cursor``, where ``data`` is. Steps that are not keys or indices of the
    data are left out: pydantic also names the members of unions.
    """
    problems = []
    for details in error.errors(include_url=False, include_context=False):
        part, value = cursor, data
        steps = list(details["loc"])
        for index, step in enumerate(steps):
            is_missing = details["type"] == "missing" and index == len(steps) - 1
            if isinstance(value, dict) and (is_missing or step in value):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                continue
            part = part.child(step)
        message = details["msg"]
        if not message[:2].isupper():  # "URL scheme …" stays as it is
            message = message[:1].lower() + message[1:]
        problems.append(Problem(part.path, message, describe_value(details["input"])))
    return problems


# --- Schemas without the functions of users ---


def has_user_code(schema: object) -> bool:
    """Return True if validating with a pydantic-core schema may call a function that the user wrote."""
    return any(
        _is_user_function(part) or part.get("post_init") or part.get("custom_init") for part in _parts(schema)
    )


def runs_before_reading(schema: CoreSchema) -> bool:
    """Return True if a validator of the user is the first that gets the JSON."""
    return schema["type"] in _FUNCTION_FIRST and _is_user_function(schema)


def without_after_functions(schema: CoreSchema) -> CoreSchema:
    """Return the schema inside validators that run after it."""
    while schema["type"] == "function-after":
        schema = schema["schema"]
    return schema


def _parts(schema: object) -> Iterator[CoreSchema]:
    """Yield a pydantic-core schema and all schemas inside it, without those for serialization."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("type"), str):
                yield part
            waiting += [value for key, value in part.items() if key not in ("serialization", "metadata")]
        elif isinstance(part, (list, tuple)):
            waiting += part


def _is_user_function(schema: CoreSchema) -> bool:
    kind = schema["type"]
    if not kind.startswith("function-") or schema.get("metadata") in (MAKES_RECORD, OWN_FUNCTION):
        return False
    function = schema["function"]["function"]
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] not in _LIBRARIES


def shape_schema(schema: object) -> Any:
    """Return a strict copy of a pydantic-core schema without the functions of users.

    Classes become plain objects, so that no code of theirs runs.
    """
    if isinstance(schema, (list, tuple)):
        return type(schema)(map(shape_schema, schema))
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # a dict of parts by name, where "type" may be the name of a part
        return {key: shape_schema(value) for key, value in schema.items()}
    inner = _shape_inside(schema)
    if inner is not None:
        return {**inner, "ref": schema["ref"]} if "ref" in schema else inner
    skipped = ("serialization", "metadata")
    copy = {key: shape_schema(value) for key, value in schema.items() if key not in skipped}
    if kind == "float":
        copy.setdefault("allow_inf_nan", False)
    return {**copy, "strict": True}


def restoring_schema(schema: object, *, any_result: bool) -> Any:
    """Return a strict copy of a pydantic-core schema that restores written values without running validators.

    With ``any_result``, validators may have returned anything, and else values of the schemas inside them.
    """
    restoring = partial(restoring_schema, any_result=any_result)
    if isinstance(schema, (list, tuple)):
        return type(schema)(map(restoring, schema))
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {key: restoring(value) for key, value in schema.items()}
    if _is_user_function(schema):
        inner = restoring(schema.get("schema", {"type": "any"}))
        if any_result:
            choices = [inner, _plain_function(_to_any)]
            inner = {"type": "union", "mode": "left_to_right", "choices": choices}
        return {**inner, "ref": schema["ref"]} if "ref" in schema else inner
    if kind == "decimal":
        return _plain_function(_to_decimal)
    if kind == "any":
        return _plain_function(_to_any)
    if kind == "float":
        before = {"type": "no-info", "function": _to_any}
        return {"type": "function-before", "function": before, "schema": {"type": "float", "strict": True}}
    skipped = ("serialization", "metadata", "post_init", "custom_init")
    copy = {
        key: value if key == "default" else restoring(value)
        for key, value in schema.items()
        if key not in skipped
    }
    return {**copy, "strict": True}


# pydantic-core rounds numbers with a fraction or an exponent. For ``restore`` they are objects with this key.
_NUMBER_MARK = "\0number"


def _marked(data: Json) -> Json:
    if isinstance(data, dict):
        return {key: _marked(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_marked(item) for item in data]
    return {_NUMBER_MARK: str(data)} if isinstance(data, Decimal) else data


def _to_decimal(data: Json) -> Decimal:
    digits = data.get(_NUMBER_MARK) if isinstance(data, dict) else data
    if isinstance(digits, bool) or not isinstance(digits, (int, str)):
        raise ValueError("expected a decimal number")
    try:
        return Decimal(digits)
    except InvalidOperation as error:
        raise ValueError("expected a decimal number") from error


def _to_any(data: Json) -> Json:
    if isinstance(data, list):
        return [_to_any(item) for item in data]
    if not isinstance(data, dict):
        return data
    if _NUMBER_MARK in data:
        return float(data[_NUMBER_MARK])
    return {key: _to_any(value) for key, value in data.items()}


def _plain_function(function: Callable[[Json], object]) -> CoreSchema:
    return {"type": "function-plain", "function": {"type": "no-info", "function": function}}


def _shape_inside(schema: CoreSchema) -> CoreSchema | None:
    """Return the shape of the schema inside a class, a function or a default; None for other schemas."""
    kind = schema["type"]
    inner: CoreSchema | None = None
    if _is_user_function(schema) or schema.get("metadata") == MAKES_RECORD:
        inner = shape_schema(schema.get("schema", {"type": "any"}))
    elif kind in ("model", "dataclass", "default"):
        inner = shape_schema(schema["schema"])
    elif kind == "call":
        inner = shape_schema(schema["arguments_schema"])
    elif kind in ("model-fields", "dataclass-args"):
        inner = _fields_shape(schema["fields"], "validation_alias")
    elif kind == "arguments" and all(
        part.get("mode") == "keyword_only" for part in schema["arguments_schema"]
    ):
        inner = _fields_shape(schema["arguments_schema"], "alias")
    return inner


def _fields_shape(fields: Any, alias: str) -> CoreSchema:
    """Return the shape of the fields of a class; ``alias`` is the attribute that has the key of a field."""
    named = fields.items() if isinstance(fields, dict) else ((field["name"], field) for field in fields)
    shapes: CoreSchema = {}
    for name, field in named:
        shapes[name] = {
            "type": "typed-dict-field",
            "schema": shape_schema(field["schema"]),
            "required": field["schema"]["type"] != "default",
        }
        if alias in field:
            shapes[name]["validation_alias"] = field[alias]
    return {"type": "typed-dict", "fields": shapes, "extra_behavior": "forbid"}
