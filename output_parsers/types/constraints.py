"""Enforce constraints such as ``Field(ge=1)``, and show them in JSON Schemas and prompts.

The parser for types that only pydantic can read, such as URLs and network addresses, is here, too.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import (
    Discriminator,
    Field,
    PydanticUserError,
    Secret,
    SecretBytes,
    SecretStr,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo
from pydantic.functional_validators import AfterValidator, BeforeValidator, PlainValidator, WrapValidator
from pydantic_core import SchemaError, SchemaValidator

from ..result.errors import USER_CODE_ERRORS, UnsupportedTypeError
from ..result.reading import NON_FINITE_SCHEMA, Coercion, Cursor, Json, ValidationFailure, describe_value
from .node import (
    CoreSchema,
    Definitions,
    JsonLeafNode,
    JsonNodes,
    JsonSchema,
    Node,
    RecursiveNode,
    WrapperNode,
    described_hint,
    json_node_of,
    storage_kind_of,
    with_description,
)
from .scalars import AnyNode, FloatNode, NumberNode
from .target import Target, TypeExpression, type_name
from .validation import (
    BY_VALIDATORS,
    JsonReader,
    JsonValidator,
    adapter_of,
    json_validator,
    problems_of,
    readable_by_pydantic,
    runs_before_reading,
    without_after_functions,
)

# --- Types that pydantic reads ---


class PydanticNode(Node[object]):
    """Reads a value with pydantic, if the JSON has the types that pydantic expects in strict mode.

    A validator of the user that runs first gets any JSON. pydantic may then convert other types, which is
    recorded.

    Attributes:
        name: The name of the type.
        is_masked: True if a value is masked when it is written, as by SecretStr.
    """

    is_masked = False

    def __init__(self, name: str, adapter: TypeAdapter[object]) -> None:
        self._validator = JsonValidator(adapter)
        self.runs_user_code = self._validator.runs_user_code
        schema = without_after_functions(_core_schema(adapter))
        self._takes_any = runs_before_reading(schema)
        self._is_json = schema["type"] == "json"
        while "schema" in schema:
            schema = schema["schema"]
        self._is_decimal = schema["type"] == "decimal"
        self.name = name
        self.kind = f"a value for {name}"
        try:
            self._schema = adapter.json_schema()
        except PydanticInvalidForJsonSchema:
            if not self._takes_any:
                raise
            self._schema = {}  # only the validator knows what it accepts
        self.prose = self._schema.get("type") not in ("array", "object")
        format = str(self._schema.get("format"))  # such as the format of PastDate
        is_temporal = format in ("date", "date-time", "time")
        self.storage_kind = format if is_temporal else storage_kind_of(self._schema)
        if name == "NaiveDatetime":
            self.storage_kind = "naive-date-time"
        self._definitions = self._schema.pop("$defs", {})
        self._schema.pop("title", None)

    def schema(self, definitions: Definitions) -> JsonSchema:
        definitions.schemas.update(self._definitions)
        return dict(self._schema)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        hint = f"{self.name} ({self._schema.get('format') or self._schema.get('type') or 'value'})"
        return f'"{hint}"' if self._schema.get("type") == "string" else hint

    def convert_json(self, data: Json, cursor: Cursor) -> Json:
        plain = AnyNode().read(data, cursor)
        problems = self._validator.shape_problems(plain, cursor)
        if problems and not self._takes_any:
            raise ValidationFailure(*problems)
        if problems:
            record_validated(data, cursor)
        is_rounded = isinstance(data, Decimal) and data != Decimal(repr(plain))
        return str(data) if is_rounded and self._is_decimal else plain

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return _JsonPydanticNode(self)

    def write(self, value: object) -> Json:
        if self._is_json:
            return json.dumps(self._validator.write(value))
        # only the class or the encoding knows its JSON form
        if hasattr(type(value), "__get_pydantic_core_schema__") or self._validator.encoding is not None:
            return self._validator.write(value)
        return super().write(value)

    @cached_property
    def _json_reader(self) -> JsonReader:
        return JsonReader(self, self._validator, self.name)

    def read(self, data: Json, cursor: Cursor) -> object:
        return self._json_reader.read(data, cursor)

    def read_text(self, text: str, cursor: Cursor) -> object:
        return self._json_reader.read(text.strip(), cursor)


class _JsonPydanticNode(JsonLeafNode):
    """Leaves JSON and text to pydantic, which runs the validators on it once."""

    def read_text(self, text: str, cursor: Cursor) -> Json:
        return self.inner.convert_json(text.strip(), cursor)


def _core_schema(adapter: TypeAdapter[object]) -> CoreSchema:
    schema = adapter.core_schema
    return dict(schema)


def record_validated(data: Json, cursor: Cursor) -> None:
    """Record that a JSON value has another type than its schema names, and only a validator can read it.

    The validator gets it with every leniency.
    """
    cursor.coercions.append(Coercion(cursor.path, BY_VALIDATORS, describe_value(data), ""))


_NOT_JSON = ("is-subclass", "is-instance")  # pydantic's schemas of types such as type[int]


def pydantic_node(target: Target) -> Node[object] | None:
    """Return the parser for a type that pydantic can validate, or None for other types."""
    try:
        adapter: TypeAdapter[object] = TypeAdapter(target.annotated)
        if adapter.core_schema["type"] in _NOT_JSON:
            return None
        node = PydanticNode(type_name(target.type), adapter)
        node.is_masked = isinstance(target.origin, type) and issubclass(target.origin, SECRETS)
        return node
    except ImportError as error:  # EmailStr without its package
        raise UnsupportedTypeError(type_name(target.type), target.path, ["pydantic"], str(error)) from error
    except (PydanticUserError, TypeError, NotImplementedError, AttributeError):
        return None  # pydantic does not know the type; the caller reports it as unsupported


SECRETS = (Secret, SecretBytes, SecretStr)


def is_read_by_metadata(target: Target) -> bool:
    """Return True if the metadata of a type decides which JSON it accepts, so the type does not describe it.

    An example is a validator that runs before pydantic reads the value.
    """
    if not any(map(_validates, target.metadata)):
        return False
    first = (BeforeValidator, PlainValidator, WrapValidator)
    if any(isinstance(item, first) for item in target.metadata):
        return True
    if all(isinstance(item, AfterValidator) or not _validates(item) for item in target.metadata):
        return False
    adapter, bare = adapter_of(target), adapter_of(replace(target, metadata=()))
    if adapter is None or bare is None:
        return False
    inside = without_after_functions(_core_schema(adapter))
    return bool(inside["type"] != _core_schema(bare)["type"])


def _validates(item: object) -> bool:
    """Return True if one item of an Annotated type's metadata may change how pydantic reads a value."""
    return hasattr(item, "__get_pydantic_core_schema__") and not isinstance(item, (Discriminator, Tag))


# --- Constraints ---


CONSTRAINTS_IN_WORDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
    "pattern": "matching {}",
}

_COUNTS = ("Length", "Items", "Properties")


def constraint_in_words(keyword: str, value: object) -> str:
    """Describe a constraint in words, such as "at least 1 item"."""
    words = CONSTRAINTS_IN_WORDS[keyword].format(value)
    return words.removesuffix("s") if value == 1 and keyword.endswith(_COUNTS) else words


_OPPOSITE_BOUNDS = [
    *((low, high) for low in ("minimum", "exclusiveMinimum") for high in ("maximum", "exclusiveMaximum")),
    *((f"min{kind}", f"max{kind}") for kind in _COUNTS),
]

# The bounds of 16, 32 and 64 bits are not shown in hints: a model that reads such a number may write it.
_MACHINE_BOUNDS = {bound for bits in (15, 31, 63) for bound in (2**bits - 1, -(2**bits))}
_UNCONSTRAINED = ({"type": "null"}, NON_FINITE_SCHEMA)
_TEXT_KEYWORDS = ("minLength", "maxLength", "pattern")

_ERASED: dict[object, object] = {
    list: list[Any],
    tuple: tuple[Any, ...],
    set: set[Any],
    frozenset: frozenset[Any],
    dict: dict[Any, Any],
}


class ConstrainedNode(WrapperNode[object]):
    """Checks parsed values against constraints such as ``Field(ge=1)``.

    Attributes:
        inner: The node without the constraints.
    """

    def __init__(self, inner: Node[object], adapter: TypeAdapter[object], keywords: JsonSchema) -> None:
        super().__init__(inner)
        self.exact = inner.exact
        self._adapter = adapter
        self._keywords = keywords

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return self.inner.json_types

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._with_keywords(self.inner.schema(definitions))

    def core_schema(self) -> CoreSchema:
        if not self.inner.core_type:  # the adapter of a constrained container does not check its items
            return super().core_schema()
        return _core_schema(self._adapter)

    def _with_keywords(self, schema: JsonSchema) -> JsonSchema:
        """Add constraints such as ``Field(ge=1)`` to a JSON Schema as keywords."""
        options = schema.get("anyOf", [])
        # the constraints of ``int | None`` apply to the integer only
        if len(options) == 2 and any(option in _UNCONSTRAINED for option in options):
            new = [option if option in _UNCONSTRAINED else self._with_keywords(option) for option in options]
            return {**schema, "anyOf": new}
        if schema.get("type") == "string":  # for example a Fraction, whose bounds JSON Schema cannot express
            return {**schema, **{key: self._keywords[key] for key in _TEXT_KEYWORDS if key in self._keywords}}
        return {**schema, **self._keywords}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        constraints = [
            constraint_in_words(key, value)
            for key in CONSTRAINTS_IN_WORDS
            if (value := self._keywords.get(key)) is not None and value not in _MACHINE_BOUNDS
        ]
        inner = self.inner.hint((*enclosing, self))
        return f"{inner} ({', '.join(constraints)})" if constraints else inner

    def read(self, data: Json, cursor: Cursor) -> object:
        return self.check(self.inner.read(data, cursor), cursor)

    def read_text(self, text: str, cursor: Cursor) -> object:
        return self.check(self.inner.read_text(text, cursor), cursor)

    def check(self, value: object, cursor: Cursor) -> object:
        """Check a value against its constraints with pydantic, and return it.

        Raises ValidationFailure if a constraint is violated.
        """
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValidationFailure(*problems_of(error, cursor, value)) from error
        except USER_CODE_ERRORS as error:  # a constraint may not apply to this member of a union
            raise cursor.failure(str(error)[:1].lower() + str(error)[1:], value) from error

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return json_node_of(self.inner, built)

    def fixed_keys(self) -> int | None:
        return self.inner.fixed_keys()

    def count_keys(self, value: object) -> int:
        return self.inner.count_keys(value)


def unwrapped(node: Node[object]) -> Node[object]:
    """Return the parser of a type without the wrappers that check constraints or mark a recursion."""
    while isinstance(node, (ConstrainedNode, RecursiveNode)):
        (node,) = node.parts
    return node


class ValidatedNode(ConstrainedNode):
    """Reads a type with a validator that runs after pydantic has read the value.

    Its values are checked as a ConstrainedNode does if pydantic does not know the type.
    """

    @property
    def json_types(self) -> frozenset[type] | None:  # type: ignore[override]  # a property in place of an attribute
        return None

    def __init__(
        self,
        inner: Node[object],
        adapter: TypeAdapter[object],
        keywords: JsonSchema,
        target: Target,
        validator: JsonValidator,
    ) -> None:
        super().__init__(inner, adapter, keywords)
        self._name = target.name
        self._validator = validator
        self.runs_user_code = validator.runs_user_code
        self._encoding = validator.encoding

    def schema(self, definitions: Definitions) -> JsonSchema:
        return with_description(super().schema(definitions), self._encoding)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return described_hint(super().hint(enclosing), self._encoding)

    def write(self, value: object) -> Json:
        return super().write(value) if self._encoding is None else self._validator.write(value)

    @cached_property
    def _json_reader(self) -> JsonReader | None:
        if not readable_by_pydantic(self.inner):
            return None
        return JsonReader(self.inner, self._validator, self._name)

    def read(self, data: Json, cursor: Cursor) -> object:
        return (
            super().read(data, cursor) if self._json_reader is None else self._json_reader.read(data, cursor)
        )

    def read_text(self, text: str, cursor: Cursor) -> object:
        if self._json_reader is None:
            return super().read_text(text, cursor)
        return self._json_reader.read_text(text, cursor)


def _checked_keywords(schema: dict[str, object], target: Target) -> JsonSchema:
    """Return the constraints of a JSON Schema; raise UnsupportedTypeError if they exclude all values."""
    keywords = {key: schema[key] for key in CONSTRAINTS_IN_WORDS if key in schema}
    for key in ("minLength", "minItems", "minProperties"):
        if keywords.get(key) == 0:  # a minimum length of 0 has no effect
            del keywords[key]
    for lower, upper in _OPPOSITE_BOUNDS:
        if lower in keywords and upper in keywords and _exclude_all(keywords, lower, upper):
            words = " and ".join(constraint_in_words(key, keywords[key]) for key in (lower, upper))
            reason = f"no value can be {words}"
            raise UnsupportedTypeError(type_name(target.type), target.path, ["constraints"], reason)
    return keywords


def with_constraints(target: Target, node: Node[object]) -> Node[object]:
    """Return a parser node that also checks the constraints of the type, such as ``Field(ge=1)``.

    Return the node unchanged if the type has no constraints. Raises UnsupportedTypeError for constraints that
    do not apply to the type.
    """
    metadata = [_as_pydantic(item) for item in target.metadata if _constrains(item)]
    if not metadata:
        return node
    _apply_non_finite(target, node)
    base = _erased_type(target.type)
    try:
        tp: Any = Annotated[(base, *metadata)]
        adapter: TypeAdapter[object] = TypeAdapter(tp)
        schema = adapter.json_schema()
    except (PydanticUserError, SchemaError, TypeError, ValueError, RuntimeError) as error:
        reason = f"its constraints do not apply to it ({error})"
        raise UnsupportedTypeError(type_name(target.type), target.path, ["constraints"], reason) from error
    # the keywords of X for ``X | None``; the first ones for a Decimal, which is a number or a string
    schema = next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema)
    keywords = _checked_keywords(schema, target)
    if isinstance(node, NumberNode) and isinstance(keywords.get("maximum"), (int, float)):
        node.rules = node.rules._replace(highest=keywords["maximum"])
    validator = json_validator(target) if any(map(_validates, metadata)) else None
    if validator is not None:
        return ValidatedNode(node, adapter, keywords, target, validator)
    return ConstrainedNode(node, adapter, keywords)


def _exclude_all(keywords: JsonSchema, lower: str, upper: str) -> bool:
    """Return True if no value satisfies both a lower and an upper bound."""
    low, high = keywords[lower], keywords[upper]
    try:
        return bool(low > high or (low == high and (lower.startswith("ex") or upper.startswith("ex"))))
    except TypeError:
        return False


def _apply_non_finite(target: Target, node: Node[object]) -> None:
    """Apply the ``allow_inf_nan`` setting of a type to the floats in the type.

    The setting of ``float | None`` applies to the float.
    """
    allowed = _allow_inf_nan(target.metadata)
    for part in node.parts if target.origin is Union else (node,):
        bare = part.inner if isinstance(part, ConstrainedNode) else part
        if isinstance(bare, FloatNode) and allowed is not None:
            bare.finite = not allowed


def _allow_inf_nan(metadata: Iterable[object]) -> bool | None:
    """Return the ``allow_inf_nan`` setting in an Annotated type's metadata, or None if it is not set.

    The last setting wins: it is the one nearest to the use of the type.
    """
    setting = None
    # a FieldInfo has its own list of metadata
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else (item,):
            allowed = getattr(part, "allow_inf_nan", None)
            setting = allowed if isinstance(allowed, bool) else setting
    return setting


def _constrains(item: object) -> bool:
    """Return True if one item of an Annotated type's metadata is a constraint, such as ``Field(ge=1)``.

    Other items only describe the value.
    """
    if isinstance(item, FieldInfo):
        return bool(item.metadata)
    if isinstance(item, (Discriminator, Tag)):
        return False
    module = type(item).__module__.partition(".")[0]
    return _validates(item) or module in ("annotated_types", "msgspec", "pydantic", "pydantic_core")


def _as_pydantic(item: object) -> object:
    """Convert a msgspec constraint to the equivalent pydantic one; return other metadata unchanged."""
    if type(item).__module__.partition(".")[0] != "msgspec":
        return item
    names = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
    constraints = {name: value for name in names if (value := getattr(item, name, None)) is not None}
    return Field(**constraints)


def _erased_type(tp: TypeExpression) -> object:
    """Remove the item types from a type, so that pydantic checks only constraints such as a length.

    The nodes have already checked the types of the items.
    """
    origin = get_origin(tp) or tp
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_erased_type, get_args(tp)))]  # noqa: UP007
    if origin is Annotated:
        return _erased_type(get_args(tp)[0])
    if tp is None or tp is types.NoneType:
        return None
    if origin in _ERASED:
        return _ERASED[origin]
    if isinstance(origin, type) and origin.__module__ in (
        "builtins",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
    ):
        return tp
    return Any


_BOUNDS: dict[str, Callable[[Any], object]] = {">=": Ge, ">": Gt, "<=": Le, "<": Lt}
_ORDERED = (int, float, Decimal, Fraction, date, datetime, time, timedelta)
_SIZED = (str, bytes, list, tuple, set, frozenset, dict)


def constrained_by(validator: object, tp: TypeExpression) -> object:
    """Return the type of an attrs field, annotated with the limits that the field's validator sets.

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
    """Yield the limits that an attrs validator such as ``ge(1)`` sets, with the types that support them."""
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
    """Convert the pattern of the attrs validator ``matches_re`` to an equivalent one for ``re.search``.

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
    """Return True if a type is one of the given built-in types, optionally combined with None."""
    origin = get_origin(tp) or tp
    if origin is Annotated:
        return _fits(get_args(tp)[0], bases)
    if origin in (Union, types.UnionType):
        return all(arg is types.NoneType or _fits(arg, bases) for arg in get_args(tp))
    return origin in bases


def _with_constrained_arguments(tp: Any, validators: tuple[object, ...]) -> object:
    """Add the limits of attrs validators to the items of a container type such as ``list[int]``."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        return Annotated[(_with_constrained_arguments(args[0], validators), *tp.__metadata__)]
    if origin in (Union, types.UnionType):
        options = tuple(
            arg if arg is types.NoneType else _with_constrained_arguments(arg, validators) for arg in args
        )
        return Union[options]  # noqa: UP007  # a tuple of types has no | syntax
    generic = origin
    if args[1:] == (...,):
        return generic[(constrained_by(validators[0], args[0]), ...)]
    if origin is tuple or len(args) != len(validators):
        return tp
    return generic[tuple(map(constrained_by, validators, args))]


def _with_options(tp: TypeExpression, options: object) -> object:
    """Convert the attrs validator ``in_(["a", "b"])`` to ``Literal["a", "b"]`` if its options allow this."""
    if tp not in (str, int) or not isinstance(options, (list, tuple, set, frozenset)):
        return tp
    values = sorted(options, key=repr) if isinstance(options, (set, frozenset)) else list(options)
    if not values or any(type(value) is not tp for value in values):
        return tp
    return Literal[tuple(values)]
