"""Parsers for record classes, such as pydantic models, dataclasses and TypedDicts.

NamedTuples, attrs classes and msgspec Structs are records too. ``record_spec`` describes the fields of all
these kinds of classes in one way. ``ObjectNode`` reads and writes records by this description.
``EnvelopeNode`` wraps a value in an object with a single field.
"""

from __future__ import annotations

import dataclasses
import html
import re
import types
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from decimal import Decimal
from functools import cached_property
from itertools import starmap
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import typing_extensions
from pydantic import AliasChoices, BaseModel, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.functional_validators import BeforeValidator, PlainValidator, WrapValidator
from typing_extensions import is_typeddict

from ..json.calls import call_of
from ..json.scanner import parse_json_string, read_exact
from ..lazy_regex import lazy_regex
from ..prose.lists import is_label_of_total
from ..prose.roles import Role, role_of
from ..result.errors import USER_CODE_ERRORS, Problem, UnsupportedTypeError, ValidatorError
from ..result.reading import (
    Cursor,
    Json,
    JsonObject,
    JsonSyntaxError,
    Leniency,
    ValidationFailure,
    combine_failures,
    describe_value,
    dump_json,
)
from .constraints import constrained_by, record_validated
from .node import (
    CoreSchema,
    Definitions,
    JsonLeafNode,
    JsonNodes,
    JsonSchema,
    Node,
    Storage,
    WrapperNode,
    closed_object,
    json_node_of,
    walk,
    with_description,
)
from .scalars import AnyNode, BytesEncoding, refuse_mixed_units, refuse_placeholders
from .target import Target, TypeExpression, attribute_docs, class_docstring, class_hints, type_name
from .validation import (
    MAKES_RECORD,
    JsonReader,
    JsonValidator,
    is_programming_error,
    problems_of,
    readable_by_pydantic,
)


def resolve_self_references(tp: TypeExpression, cls: object) -> object:
    """Replace pydantic's placeholder for a recursive generic model with the model itself."""

    def resolve(part: Any) -> object:
        if not hasattr(part, "type_ref"):
            return None
        generic = (getattr(cls, "__pydantic_generic_metadata__", None) or {}).get("origin")
        return cls if f":{id(generic)}[" in part.type_ref else part

    return _replace_parts(tp, resolve)


def allow_non_finite(tp: TypeExpression) -> object:
    """Return a copy of a type in which every float may also be NaN or infinite.

    Floats whose own metadata forbids it are not changed.
    """
    non_finite = Annotated[float, Field(allow_inf_nan=True)]
    return _replace_parts(tp, lambda part: non_finite if part is float else None)


def encode_bytes(tp: TypeExpression, encoding: str) -> object:
    """Return a copy of a type in which bytes are written in an encoding, such as ``base64``."""
    encoded = Annotated[bytes, BytesEncoding(encoding)]
    return _replace_parts(tp, lambda part: encoded if part is bytes else None)


def drop_unset_type(tp: Any) -> object:
    """Remove msgspec's UnsetType, which marks an omitted field, from the unions in a type."""
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        inner = drop_unset_type(args[0])
        return tp if inner is args[0] else Annotated[(inner, *tp.__metadata__)]
    if origin not in (Union, types.UnionType):
        return tp
    rest = tuple(arg for arg in args if getattr(arg, "__name__", None) != "UnsetType")
    return tp if len(rest) in (0, len(args)) else Union[rest]  # noqa: UP007


def _replace_parts(tp: Any, replacement: Callable[[object], object]) -> object:
    """Apply a function to a type and to the types inside it, such as ``int`` in ``list[int]``.

    A part is not changed if ``replacement`` returns None for it.
    """
    new = replacement(tp)
    if new is not None:
        return new
    origin, args = get_origin(tp), get_args(tp)
    if origin is Annotated:
        inner = _replace_parts(args[0], replacement)
        return tp if inner is args[0] else Annotated[(inner, *tp.__metadata__)]
    if origin is Literal:
        return tp
    changed = tuple(_replace_parts(arg, replacement) for arg in args)
    if all(old is other for old, other in zip(args, changed, strict=True)):
        return tp
    return Union[changed] if origin in (Union, types.UnionType) else origin[changed]  # noqa: UP007


_SIGNS = ("-", "+")
UNKNOWN_KEY_RULE = "unknown key left out"
# The keys, normalized, under which models write a whole answer: {"result": {…}}.
ENVELOPE_KEYS = frozenset("answer data finalanswer json object output record response result value".split())
LIST_KEYS = frozenset("answers items list objects records results values".split())
# Usual names of single answers. An object with only this key means its number, choice or date.
SCALAR_KEYS = frozenset(
    """
    sentiment sentimentlabel category class classification label tag tone mood emotion intent topic
    department team language priority prioritylevel urgency severity level rating score grade similarity
    similarityscore relevance relevancescore probability choice selection option selectedoption
    recommendation decision verdict prediction count totalcount number sum total totalamount amount
    price age year quantity integer float boolean bool date datetime time timestamp dateofbirth
    birthdate duedate invoicedate isspam isvalid istrue iscorrect ispositive
    """.split()
)
_MIN_FIELD_LINES = 2


def without_table(lines: list[str]) -> list[str]:
    """Return lines with a Markdown table of one row, or of keys and values, as lines like ``name: Ann``."""
    start = next((number for number, line in enumerate(lines) if line.startswith("|")), len(lines))
    rows = _rows_of_table(lines[start:])
    if len(rows) < 2 or (len(rows) > 2 and len(rows[0]) != 2):
        return lines
    pairs = rows[1:] if len(rows) > 2 else zip(rows[0], rows[1], strict=True)
    return [*lines[:start], *starmap(_field_line, pairs)]


def _rows_of_table(lines: list[str]) -> list[list[str]]:
    """Return the header and the rows of a Markdown table or of CSV; [] for other text."""
    if not lines:
        return []
    if "|" not in lines[0] and all("," in line and not _END_OF_SENTENCE.search(line) for line in lines):
        import csv  # rarely needed

        try:
            rows = list(csv.reader(lines, skipinitialspace=True, strict=True))
        except csv.Error:
            return []
    else:
        rows = [list(map(_cell, line.strip("| ").split("|"))) for line in lines]
        rows = [rows[0], *rows[2:]] if len(rows) > 2 and all(map(_TABLE_RULE.fullmatch, rows[1])) else []
    return rows if len(set(map(len, rows))) == 1 else []


def _fields_in_xml(text: str, name: str) -> str:
    """Return ``<name>Ann</name><age>3</age>`` as lines like ``name: Ann``; other text is unchanged."""
    root = _XML_ROOT.fullmatch(text.strip())
    inner = root[2] if root and normalize_key(root[1]) == normalize_key(name) else text
    fields = _XML_FIELD.findall(inner) if not _XML_FIELD.sub("", inner).strip() else []
    return "\n".join(_field_line(key, html.unescape(value)) for key, value in fields) or text


def _field_line(key: str, value: str) -> str:
    """Return a line of a key and a value, which is in quotes if it would mean something else without them."""
    is_plain = all(_value_in_line(value, is_text=is_text) == value for is_text in (True, False))
    return f"{key}: {value if is_plain else dump_json(value)}"


def _value_in_line(text: str, *, is_text: bool) -> str | None:
    """Return the value in a line like ``name: "Ann"``; None if it has syntax of YAML that is not decoded.

    ``is_text`` says that the field may be any text, such as ``010``, which is the number 8 in YAML.
    """
    quoted = _QUOTED_VALUE.fullmatch(text)
    if quoted is None:
        other = _LIST_OF_YAML if is_text else _OCTAL_OF_YAML
        return None if _OTHER_YAML.search(text) or other.match(text) else text
    if quoted["double"]:
        try:
            value = read_exact(quoted["double"])
        except JsonSyntaxError:
            return None
        return str(value)
    if _DOUBLED_BACKSLASH in text:  # it may have been one before lost backslashes were restored
        return None
    return quoted["other"] or quoted["single"].replace("''", "'")


_ITEM_OF_YAML = lazy_regex(r"^- (?=\w)", re.MULTILINE)
_END_OF_SENTENCE = lazy_regex(r"[.!?…:)]\Z")
_QUOTED_VALUE = lazy_regex(
    r"(?:(?P<double>\"(?:[^\"\\]|\\.)*\")|'(?P<single>(?:[^']|'')*)'|`(?P<other>[^`]+)`),?"
)
_DOUBLED_BACKSLASH = "\\\\"
# A quote that is not closed, an anchor, alias, tag, block or null, a comment, and a separator.
_OTHER_YAML = lazy_regex(r"\A[\"'`&*!]|\A(?:[|>][-+\d]*|~)\Z|(?:\A|\s)#|[,;]\Z|\\\\")
_LIST_OF_YAML = lazy_regex(r"\A[\[{]")
_OCTAL_OF_YAML = lazy_regex(r"\A[-+]?0[\d_]+\Z")
_XML_ROOT = lazy_regex(r"<([\w-]{1,80})>\s*(<.*>)\s*</\1>", re.DOTALL)
_XML_FIELD = lazy_regex(r"<([\w-]{1,80})>([^<>\n]*)</\1>")


def _cell(text: str) -> str:
    return _EMPHASIS.sub(r"\2", text.strip())


_TABLE_RULE = lazy_regex(":?-+:?")
_EMPHASIS = lazy_regex(r"\A(\*\*|__|\*|_|`)(?=\S)([^*_`]+)(?<=\S)\1\Z")
_FIELD_LINE = lazy_regex(
    r"(?:(?:[-*•]|\d{1,2}[.)])\s+)?[*_`\"]*(?P<key>[^\W\d][\w -]{0,60}?)[*_`\"]*\s*(?::[*_]*|=)\s+"
    r"(?P<value>.+)"
)
_NO_VALUE = lazy_regex(r"(?:n/a|null|none|nil)?", re.IGNORECASE)
_MAX_LISTED_KEYS = 8  # in an error message
_LONG_KEY = 5  # letters; two mistakes turn a shorter key into another word
Extra: TypeAlias = Literal["ignore", "forbid", "allow"]


class FieldSpec(NamedTuple):
    """The name, type, JSON keys and default of one field of a record class, such as a dataclass.

    Attributes:
        name: The name of the constructor's parameter.
        keys: The JSON keys that are accepted; schemas, hints and written values have the first.
        type: The type of its values, with Annotated.
        required: A value without this field is an error.
        description: The explanation of the field for the model.
        raw: A validator of the class runs before pydantic reads the field, so it receives the unchanged JSON.
    """

    name: str
    keys: tuple[str, ...]
    type: TypeExpression
    required: bool
    description: str | None = None
    raw: bool = False


class RecordSpec(NamedTuple):
    """The fields and the constructor of a record class, such as a dataclass or a pydantic model.

    Attributes:
        cls: The class.
        fields: Its fields, in the order in which they are shown.
        make: Creates an instance from a dict of values. Raises ValueError, TypeError or AssertionError if the
            values do not fit together.
        exact: The fast path creates the same instances from exact JSON as the node does.
        extra: What happens to unknown keys, in pydantic's words.
        by_key: ``make`` takes the first key of each field, and not its name.
        description: The docstring of the class.
        adapter: pydantic's adapter of the class, if pydantic knows it.
        sees_whole_object: A validator of the class runs before pydantic reads the whole JSON object.
        plain_dataclass: The class is a standard dataclass without defaults that runs no code of its own on
            creation, so that pydantic-core can create its instances.
        arguments: The names of the constructor's arguments by the names of the fields, if ``make`` only calls
            the class; else None.
    """

    cls: type
    fields: tuple[FieldSpec, ...]
    make: Callable[[dict[str, object]], object]
    exact: bool = False
    extra: Extra = "ignore"
    by_key: bool = False
    description: str | None = None
    adapter: TypeAdapter[object] | None = None
    sees_whole_object: bool = False
    plain_dataclass: bool = False
    arguments: Mapping[str, str] | None = None

    @property
    def created_by_make(self) -> bool:
        """True if pydantic-core only validates the fields, and another function creates the instance."""
        return self.adapter is None and not self.plain_dataclass


def record_spec(target: Target) -> RecordSpec | None:
    """Describe the fields and constructor of a class such as a dataclass; return None for other types.

    Record classes are pydantic models, dataclasses, TypedDicts, NamedTuples, attrs classes and msgspec
    Structs.
    """
    cls = target.origin
    if not isinstance(cls, type):
        return None
    if typing_extensions.is_typeddict(cls):
        return _typed_dict(target)
    if issubclass(cls, BaseModel):
        return _pydantic_model(cls, target.namespace)
    if hasattr(cls, "__pydantic_fields__") and dataclasses.is_dataclass(cls):
        return _pydantic_dataclass(target)
    if hasattr(cls, "__attrs_attrs__"):
        return _attrs_class(target)
    if hasattr(cls, "__struct_fields__"):
        return _struct(target)
    if dataclasses.is_dataclass(cls):
        return _dataclass(target)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple(target)
    return None


def _pydantic_fields(cls: Any, fields: Mapping[str, FieldInfo]) -> tuple[FieldSpec, ...]:
    """Describe each field of a pydantic model or dataclass: its name, type, JSON keys and default."""
    config = getattr(cls, "model_config", None) or getattr(cls, "__pydantic_config__", None) or {}
    docs = attribute_docs(cls)
    infos = [validator.info for validator in cls.__pydantic_decorators__.field_validators.values()]
    raw = {field for info in infos if info.mode != "after" for field in info.fields}
    specs = []
    for name, info in fields.items():
        if info.init is False:  # the constructor of the dataclass does not take it
            continue
        keys = _keys_of(name, info, config, cls)
        description = info.description or docs.get(name)
        is_raw = not raw.isdisjoint({name, "*"}) or _has_before_validator(info.metadata)
        tp = _field_type(info, config, cls)
        specs.append(FieldSpec(name, keys, tp, info.is_required(), description, is_raw))
    return tuple(specs)


def _keys_of(name: str, info: FieldInfo, config: Mapping[str, Any], cls: object) -> tuple[str, ...]:
    """Return the JSON keys of a field of a pydantic class, from its aliases and the settings of the class."""
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    if not config.get("validate_by_alias", True) or alias is None:
        return (name,)
    choices = alias.choices if isinstance(alias, AliasChoices) else (alias,)
    keys = tuple(choice for choice in choices if isinstance(choice, str))
    # AliasPath("home", "city") reads a part of another field, so this field has no key
    if not keys and not by_name:
        reason = f"its field {name!r} has an alias that is a path into other fields"
        raise UnsupportedTypeError(type_name(cls), "", ["records"], reason)
    return (*keys, name) if by_name and name not in keys else keys


def _field_type(info: FieldInfo, config: Mapping[str, Any], cls: object) -> TypeExpression:
    """Return the type of a field of a pydantic class, with the settings of the class as metadata."""
    tp: TypeExpression = resolve_self_references(info.annotation, cls)
    if config.get("allow_inf_nan"):  # an explicit setting: by default nothing is in the config
        tp = allow_non_finite(tp)
    if (encoding := config.get("val_json_bytes", "utf8")) != "utf8":
        tp = encode_bytes(tp, encoding)
    extras = list(info.metadata)
    if info.discriminator is not None:
        extras.append(FieldInfo(discriminator=info.discriminator))
    return Annotated[(tp, *extras)] if extras else tp


def _has_before_validator(metadata: Iterable[object]) -> bool:
    """Return True if an annotation has a validator that runs before pydantic reads the value."""
    return any(isinstance(item, (BeforeValidator, PlainValidator, WrapValidator)) for item in metadata)


def _pydantic_model(cls: type[BaseModel], namespace: Mapping[str, object]) -> RecordSpec:
    if not cls.__pydantic_complete__:  # a forward reference to a class that is defined later or locally
        cls.model_rebuild(_types_namespace=dict(namespace))
    fields = _pydantic_fields(cls, cls.model_fields)
    extra = cls.model_config.get("extra") or "ignore"
    return RecordSpec(
        cls,
        fields,
        cls.model_validate,
        exact=extra != "allow",  # pydantic accepts NaN in extra fields
        extra=extra,
        by_key=True,
        description=class_docstring(cls),
        adapter=TypeAdapter(cls),
        sees_whole_object=_has_model_before_validator(cls),
    )


def _has_model_before_validator(cls: Any) -> bool:
    """Return True if a pydantic class has a validator that runs before pydantic reads the object."""
    validators = cls.__pydantic_decorators__.model_validators.values()
    return any(validator.info.mode != "after" for validator in validators)


def _pydantic_dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    adapter = TypeAdapter(target.type)
    fields = _pydantic_fields(cls, cls.__pydantic_fields__)
    extra: Extra = (getattr(cls, "__pydantic_config__", None) or {}).get("extra") or "ignore"
    return RecordSpec(
        cls,
        fields,
        adapter.validate_python,
        extra=extra,
        by_key=True,
        description=class_docstring(cls),
        adapter=adapter,
        sees_whole_object=_has_model_before_validator(cls),
    )


def _plain_specs(
    target: Target, required: Collection[str], optional: Collection[str]
) -> tuple[FieldSpec, ...]:
    """Describe each annotated field of a class: its name, type, JSON keys and default.

    A field without an annotation accepts any JSON.
    """
    docs = attribute_docs(target.origin)
    hints = class_hints(target.type, target.namespace)
    names = [*required, *optional]
    specs = []
    for name in [*(n for n in hints if n in names), *(n for n in names if n not in hints)]:
        tp: object = hints.get(name, Any)
        if isinstance(tp, dataclasses.InitVar):
            tp = tp.type
        specs.append(FieldSpec(name, (name,), tp, name in required, docs.get(name)))
    return tuple(specs)


def _dataclass(target: Target) -> RecordSpec:
    cls = target.origin
    missing = dataclasses.MISSING
    hints = class_hints(target.type, target.namespace)
    all_fields: dict[str, dataclasses.Field[object]] = cls.__dataclass_fields__  # fields() omits InitVar
    inits = {n: f for n, f in all_fields.items() if f.init and not _is_class_var(hints.get(n))}
    optional = [n for n, f in inits.items() if f.default is not missing or f.default_factory is not missing]
    specs = tuple(
        spec._replace(description=text)
        if isinstance(text := inits[spec.name].metadata.get("description"), str)
        else spec
        for spec in _plain_specs(target, [name for name in inits if name not in optional], optional)
    )
    plain = not optional and _is_plain_dataclass(target, inits)
    return RecordSpec(
        cls,
        specs,
        lambda values: cls(**values),
        exact=True,
        description=class_docstring(cls),
        plain_dataclass=plain,
        arguments={spec.name: spec.name for spec in specs},
    )


def _is_plain_dataclass(target: Target, fields: Collection[str]) -> bool:
    """Return True if the constructor of a dataclass only sets its fields and runs no other code.

    pydantic-core sets the attributes without calling the constructor. Everything that could run or intervene
    during ``cls(**values)`` excludes a class: its own ``__init__``, ``__new__``, ``__post_init__`` or
    ``__setattr__``, descriptors, a metaclass, type parameters.
    """
    cls = target.origin
    init = getattr(cls.__init__, "__code__", None)
    attributes = {name for base in cls.__mro__ for name in vars(base) if not _is_slot(vars(base)[name])}
    return (
        target.type is cls
        and Generic not in cls.__mro__
        and "__dataclass_fields__" in vars(cls)
        # without pseudo-fields (InitVar, ClassVar), and fields that the constructor does not take
        and set(cls.__dataclass_fields__) == {field.name for field in dataclasses.fields(cls)} == set(fields)
        # the name of the constructor that dataclasses generates; one that the user wrote has another name
        and getattr(init, "co_qualname", None) == "__create_fn__.<locals>.__init__"
        and getattr(init, "co_filename", None) == "<string>"
        and cls.__new__ is object.__new__
        and cls.__getattribute__ is object.__getattribute__
        and (cls.__dataclass_params__.frozen or cls.__setattr__ is object.__setattr__)
        and not attributes.intersection(("__post_init__", *fields))
        and type(cls) is type
    )


def _is_slot(attribute: object) -> bool:
    """Return True if a class attribute is a descriptor that ``__slots__`` created.

    Such a descriptor only stores a value.
    """
    return isinstance(attribute, types.MemberDescriptorType)


def _is_class_var(tp: TypeExpression) -> bool:
    return tp is ClassVar or get_origin(tp) is ClassVar


def _typed_dict(target: Target) -> RecordSpec:
    cls = target.origin
    hints = class_hints(target.type, target.namespace)
    # __required_keys__ is wrong for annotations that are strings, so the resolved qualifiers count first
    qualified = {name: _is_required(tp) for name, tp in hints.items()}
    required = [n for n in hints if (n in cls.__required_keys__ if qualified[n] is None else qualified[n])]
    fields = _plain_specs(target, required, [name for name in hints if name not in required])
    return RecordSpec(cls, fields, dict, exact=True, description=class_docstring(cls))


def _is_required(tp: TypeExpression) -> bool | None:
    """Return True for ``Required[...]``, False for ``NotRequired[...]``, and None for other types."""
    origin = get_origin(tp)
    if origin is typing_extensions.Required:
        return True
    if origin is typing_extensions.NotRequired:
        return False
    if origin in (Annotated, typing_extensions.ReadOnly):
        return _is_required(get_args(tp)[0])
    return None


def _named_tuple(target: Target) -> RecordSpec:
    cls = target.origin
    required = [name for name in cls._fields if name not in cls._field_defaults]
    fields = _plain_specs(target, required, cls._field_defaults)
    return RecordSpec(
        cls,
        fields,
        lambda values: cls(**values),
        exact=True,
        description=class_docstring(cls),
        arguments={field.name: field.name for field in fields},
    )


def _attrs_class(target: Target) -> RecordSpec:
    import attrs  # imported late: only users of attrs have it installed

    cls = target.origin
    attributes = {attribute.name: attribute for attribute in attrs.fields(cls) if attribute.init}
    optional = [name for name, attribute in attributes.items() if attribute.default is not attrs.NOTHING]
    fields = tuple(
        _attrs_field(spec, attributes[spec.name])
        for spec in _plain_specs(target, [name for name in attributes if name not in optional], optional)
    )
    arguments = {name: attribute.alias for name, attribute in attributes.items()}

    def make(values: dict[str, object]) -> object:
        return cls(**{arguments[name]: value for name, value in values.items()})

    return RecordSpec(cls, fields, make, exact=True, description=class_docstring(cls), arguments=arguments)


def _attrs_field(spec: FieldSpec, attribute: Any) -> FieldSpec:
    """Add the description and validator limits of an attrs field to its FieldSpec."""
    text = attribute.metadata.get("description")
    if isinstance(text, str):
        spec = spec._replace(description=text)
    # a converter runs before the validator, so the bounds need not hold for the value in the reply
    if attribute.validator is None or attribute.converter is not None:
        return spec
    return spec._replace(type=constrained_by(attribute.validator, spec.type))


def _struct(target: Target) -> RecordSpec:
    import msgspec  # imported late: only users of msgspec have it installed

    cls = target.origin
    docs = attribute_docs(cls)
    hints = class_hints(target.type, target.namespace)
    fields = []
    config = cls.__struct_config__
    tag = config.tag_field  # a tagged Struct has a key for its name, which is not among its fields
    if tag is not None:
        fields.append(FieldSpec(tag, (tag,), Literal[config.tag], True))
    for field in msgspec.structs.fields(cls):
        keys = (field.encode_name,)
        tp = drop_unset_type(hints[field.name])
        fields.append(FieldSpec(field.name, keys, tp, field.required, docs.get(field.name)))

    def make(values: dict[str, object]) -> object:
        return cls(**{name: value for name, value in values.items() if name != tag})

    extra: Extra = "forbid" if config.forbid_unknown_fields else "ignore"
    return RecordSpec(
        cls,
        tuple(fields),
        make,
        exact=True,
        extra=extra,
        description=class_docstring(cls),
        arguments={field.name: field.name for field in fields} if tag is None else None,
    )


class RawNode(WrapperNode[object]):
    """Leaves the JSON of a field unparsed, for pydantic validators that must see the original value."""

    def __init__(self, inner: Node[object]) -> None:
        super().__init__(inner)
        self.exact = inner.exact

    def read(self, data: Json, cursor: Cursor) -> object:
        return AnyNode().read(data, cursor)

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return _JsonRawNode(json_node_of(self.inner, built))


class _JsonRawNode(JsonLeafNode):
    """Leaves the JSON of a field unchanged, and records if only the validators of the field can read it."""

    def read(self, data: Json, cursor: Cursor) -> Json:
        if isinstance(data, Decimal) and data != Decimal(repr(float(data))):  # for a validator of a Decimal
            return self.inner.read(data, cursor)
        plain = AnyNode().read(data, cursor)
        scratch = Cursor(Leniency.NONE, cursor.path)
        try:
            self.inner.read(data, scratch)
        except ValidationFailure:
            record_validated(data, cursor)
        else:
            cursor.coercions += scratch.coercions  # only those of ``record_validated`` need no leniency
        return plain

    def read_text(self, text: str, cursor: Cursor) -> Json:
        return text


class RootModelNode(WrapperNode[object]):
    """Reads a pydantic RootModel from the JSON of the single value in the model."""

    def __init__(self, cls: type[BaseModel], inner: Node[object]) -> None:
        super().__init__(inner)
        self.cls = cls
        self.part_descriptions = (class_docstring(cls),)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self.part_schemas(definitions)[0]

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return self.part_hints(enclosing)[0] if self not in enclosing else self.cls.__name__

    @cached_property
    def _json_reader(self) -> JsonReader | None:
        return JsonReader(self, self._validator, self.cls.__name__) if readable_by_pydantic(self) else None

    @cached_property
    def _validator(self) -> JsonValidator:
        return JsonValidator(TypeAdapter(self.cls))

    @cached_property
    def runs_user_code(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return self._validator.runs_user_code

    def read(self, data: Json, cursor: Cursor) -> object:
        if self._json_reader is not None:
            return self._json_reader.read(data, cursor)
        return self.check(self.inner.read(data, cursor), cursor)

    def read_text(self, text: str, cursor: Cursor) -> object:
        if self._json_reader is not None:
            return self._json_reader.read_text(text, cursor)
        return self.check(self.inner.read_text(text, cursor), cursor)

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return json_node_of(self.inner, built)

    def write(self, value: object) -> Json:
        if not isinstance(value, self.cls):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        model: Any = value
        return self.inner.write(model.root)

    def check(self, value: object, cursor: Cursor) -> object:
        """Wrap a value in an instance of a pydantic RootModel.

        Raises ValidationFailure if the model rejects it.
        """
        try:
            return self.cls.model_validate(value)
        except ValidationError as error:
            raise ValidationFailure(*problems_of(error, cursor, value)) from error


Build = Callable[[Target], Node[object]]


# Normalized keys for an error or a status.
_ERROR_KEYS = frozenset(
    "error errors errormessage errormsg exception failure failurereason fehler fehlermeldung erreur".split()
)
_SUCCESS_KEYS = frozenset("ok success succeeded successful found".split())
_NO_ERROR = lazy_regex(
    r"\W*(?:no|none|null|nil|n/?a|ok|okay|success\w*|false|0|keiner?|aucun)?(?: errors?| fehler| erreur)?\W*",
    re.IGNORECASE,
)
_FAILED = lazy_regex(r"\W*(?:error\w*|fail(?:ed|ure)?)\W*", re.IGNORECASE)


def _reports_failure(key: str, value: Json) -> bool:
    """Return True if a key next to those of a record says that its values are not an answer."""
    name = normalize_key(key)
    if name in _ERROR_KEYS:
        return bool(value) and not (isinstance(value, str) and _NO_ERROR.fullmatch(value))
    if name == "status":
        return isinstance(value, str) and _FAILED.fullmatch(value) is not None
    return value is False and name in _SUCCESS_KEYS


class ObjectNode(Node[object]):
    """Reads a JSON object as an instance of a record class, such as a dataclass.

    Each field has its own node.

    Attributes:
        spec: The description of the class.
        name: The name of the class.
        nodes: The node of each field, by the name of the field.
        descriptions: The explanation of each field for the model, by the name of the field.
        class_is_hidden: True if the values may be those of another class, as in a union of TypedDicts.
    """

    named = True
    class_is_hidden = False
    json_types = frozenset((dict,))

    def __init__(self, spec: RecordSpec, name: str | None = None) -> None:
        self.spec = spec
        self.name = name or spec.cls.__name__
        self.kind = f"an object ({self.name})"
        self.nodes: dict[str, Node[object]] = {}
        self.descriptions: dict[str, str | None] = {}
        self._by_key = {key: field for field in spec.fields for key in field.keys}
        self._by_normalized_key: dict[str, FieldSpec | None] = {}
        for key, field in self._by_key.items():
            first = self._by_normalized_key.setdefault(normalize_key(key), field)
            if first is not field:  # two fields with similar names: only exact keys are accepted
                self._by_normalized_key[normalize_key(key)] = None

    @property
    def exact(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return self.spec.exact

    @property
    def declared_keys(self) -> Set[str]:
        """The keys of all fields, with their other names."""
        return self._by_key.keys()

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return tuple(self.nodes.values())

    def parts_of(self, data: Json) -> dict[object, Node[object]]:
        if not isinstance(data, dict):
            return {}
        fields = (
            (next((key for key in one.keys if key in data), None), one.name) for one in self.spec.fields
        )
        return {key: self.nodes[name] for key, name in fields if key is not None}

    def core_schema(self) -> CoreSchema:
        """Return the pydantic-core schema of a record class, such as a pydantic model or a dataclass.

        A model must not contain plain dataclasses, because pydantic has already resolved them itself.
        """
        spec = self.spec
        if spec.created_by_make:
            return self._made_record_schema()
        if spec.adapter is not None:
            if has_own_schema(self):
                raise TypeError(f"pydantic resolved the records inside {self.name} itself")
            schema = spec.adapter.core_schema
            return dict(schema)
        fields = [
            {"type": "dataclass-field", "name": name, "schema": part.core_schema()}
            for name, part in self.nodes.items()
        ]
        return {
            "type": "dataclass",
            "cls": spec.cls,
            "fields": list(self.nodes),
            "schema": {"type": "dataclass-args", "dataclass_name": self.name, "fields": fields},
            # without slots pydantic-core replaces ``__dict__`` as a whole, which such classes may not have
            "slots": hasattr(spec.cls, "__slots__"),
        }

    def _made_record_schema(self) -> CoreSchema:
        """Return the pydantic-core schema of a non-pydantic record class, such as a NamedTuple."""
        spec = self.spec
        schemas = {field.name: self.nodes[field.name].core_schema() for field in spec.fields}
        if spec.arguments is not None and not self.counts_own_keys:
            arguments = [
                {
                    "name": spec.arguments[field.name],
                    "mode": "keyword_only",
                    "alias": field.keys[0],
                    "schema": schemas[field.name],
                }
                for field in spec.fields
            ]
            arguments_schema = {"type": "arguments", "arguments_schema": arguments}
            return {"type": "call", "function": spec.cls, "arguments_schema": arguments_schema}
        fields = {
            field.name: {
                "type": "typed-dict-field",
                "schema": schemas[field.name],
                "required": field.required,
                "validation_alias": field.keys[0],
            }
            for field in spec.fields
        }
        values_schema = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}
        if is_typeddict(spec.cls) and not self.counts_own_keys:
            return values_schema
        return {
            "type": "function-after",
            "function": self._make_function(),
            "schema": values_schema,
            "metadata": MAKES_RECORD,
        }

    def _make_function(self) -> CoreSchema:
        """Return the pydantic-core schema for the function that creates a record from its fields."""
        make = self.spec.make
        if not self.counts_own_keys:
            return {"type": "no-info", "function": make}
        required = {field.name for field in self.spec.fields if field.required}
        always, others = 0, []
        for name, part in self.nodes.items():
            fixed = part.fixed_keys()
            if fixed is not None and name in required:
                always += fixed
            elif fixed != 0:  # 0 also if the part counts its own keys
                others.append((name, part))

        def count_and_make(values: dict[str, object], info: Any) -> object:
            if info.context.json_keys is not None:
                keys = always + len(values)
                for name, part in others:
                    if name in values:
                        keys += part.count_keys(values[name])
                info.context.json_keys += keys
            return make(values)

        return {"type": "with-info", "function": count_and_make}

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        # a struct cannot hold keys that are not known before; it needs a field
        if self in enclosing or self.spec.extra == "allow" or not self.spec.fields:
            return Storage("json")
        inside = (*enclosing, self)
        fields = ((field.keys[0], self.nodes[field.name].storage(inside)) for field in self.spec.fields)
        return Storage("struct", tuple(fields))

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.define(self, self.name, self._schema)

    def _schema(self, definitions: Definitions) -> JsonSchema:
        properties = {
            field.keys[0]: with_description(
                self.nodes[field.name].schema(definitions), self.descriptions[field.name]
            )
            for field in self.spec.fields
        }
        schema: JsonSchema = {
            "type": "object",
            "title": self.name,
            "properties": properties,
            "required": [field.keys[0] for field in self.spec.fields if field.required],
            "additionalProperties": self.spec.extra == "allow",
        }
        return with_description(schema, self.spec.description)

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        if self in enclosing:
            return self.name
        enclosing = (*enclosing, self)
        lines = []
        for field in self.spec.fields:
            optional = "" if field.required else "?"
            description = self.descriptions[field.name] or ""
            text = f"{dump_json(field.keys[0])}{optional}: {self.nodes[field.name].hint(enclosing)}"
            lines.append((text, " ".join(description.split())))
        return _hint_of(lines, self.spec.description or "")

    def read(self, data: Json, cursor: Cursor) -> object:
        if isinstance(data, str):
            data = parse_json_string(data, "{", cursor)
        if isinstance(data, list):
            data = self._open_array(data, cursor)
        if not isinstance(data, dict):
            raise cursor.failure(f"expected {self.kind}", data)
        if self._json_reader is not None:
            return self._json_reader.read(data, cursor)
        call = call_of(data)
        if call is not None and self.field_for_key(call.key)[0] is None:
            if normalize_key(call.name) != normalize_key(self.name):
                raise cursor.failure(f"expected {self.kind}, not a call of {call.name}", data)
            cursor.record_dropped("object in a tool call")
            data, cursor = call.arguments, cursor.child(call.key)
            if isinstance(data, str):
                data = parse_json_string(data, "{", cursor)
            if not isinstance(data, dict):
                raise cursor.failure(f"expected {self.kind}", data)
        if len(data) == 1 and self.spec.extra != "allow" and not self.spec.sees_whole_object:
            data, cursor = self._open_envelope(data, cursor)
        return self._read_fields(data, cursor)

    def _open_array(self, data: list[Json], cursor: Cursor) -> Json:
        """Return the fields of a NamedTuple that is written as an array; other arrays are unchanged."""
        fields = self.spec.fields
        required = sum(field.required for field in fields)
        if hasattr(self.spec.cls, "_fields") and required <= len(data) <= len(fields):
            by_name = {field.keys[0]: value for field, value in zip(fields, data, strict=False)}
            cursor.record("array for a NamedTuple", data, by_name)
            return by_name
        return data

    @cached_property
    def _json_reader(self) -> JsonReader | None:
        if self._validator is None or not readable_by_pydantic(self):
            return None
        return JsonReader(self, self._validator, self.name)

    @cached_property
    def _validator(self) -> JsonValidator | None:
        return None if self.spec.adapter is None else JsonValidator(self.spec.adapter)

    @cached_property
    def runs_user_code(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return self._validator is not None and self._validator.runs_user_code

    def json_node(self, built: JsonNodes) -> Node[Json]:
        spec = self.spec._replace(make=dict, adapter=None, by_key=True)
        node = (_JsonWholeNode if spec.sees_whole_object else _JsonObjectNode)(spec, self.name)
        node.descriptions = self.descriptions
        for name, part in self.nodes.items():
            node.nodes[name] = json_node_of(part, built)
        return node

    def _open_envelope(self, data: dict[str, Json], cursor: Cursor) -> tuple[dict[str, Json], Cursor]:
        """Unwrap an object that is inside an outer JSON object with only one key, such as ``result``.

        Any other object is returned unchanged.
        """
        ((key, inner),) = data.items()
        is_envelope = (
            isinstance(inner, dict)
            and normalize_key(key) in ENVELOPE_KEYS
            and self.field_for_key(key)[0] is None
            and any(inner_key in self._by_key for inner_key in inner)
        )
        if not is_envelope or not isinstance(inner, dict):
            return data, cursor
        cursor.child(key).record_dropped("object in an envelope")
        return inner, cursor.child(key)

    def _read_fields(self, data: dict[str, Json], cursor: Cursor) -> object:
        before = len(cursor.coercions)
        matches, extra, problems = self._assign_keys(data, cursor)
        values: dict[str, object] = {}
        failures = [ValidationFailure(*problems)] if problems else []
        for field in self.spec.fields:
            if field.name not in matches:
                if field.required:
                    message = f"the required field {field.keys[0]!r} is missing"
                    failures.append(ValidationFailure(Problem(cursor.child(field.keys[0]).path, message)))
                continue
            key, value = matches[field.name]
            if type(value) is self.nodes[field.name].identity_type:
                values[field.keys[0] if self.spec.by_key else field.name] = value
                continue
            try:
                child = cursor.child(key)
                child.declaration = f"{field.name} {self.descriptions[field.name] or ''}"
                read = self.nodes[field.name].read(value, child)
            except ValidationFailure as failure:  # continue, so that all problems are reported together
                failures.append(failure)
            else:
                values[field.keys[0] if self.spec.by_key else field.name] = read
        if failures:
            raise combine_failures(failures)
        refuse_placeholders({key: value for key, value in values.items() if type(value) is str}, cursor)
        if len(cursor.coercions) > before:
            refuse_mixed_units(cursor, before)
        return self.make({**extra, **values}, data, cursor)

    def field_for_key(self, key: str) -> tuple[FieldSpec | None, bool]:
        """Return the field that a JSON key refers to, and True if the key is spelled exactly.

        The field is None for an unknown key.
        """
        field = self._by_key.get(key)
        return (self._by_normalized_key.get(normalize_key(key)), False) if field is None else (field, True)

    def read_text(self, text: str, cursor: Cursor) -> object:
        """Read a record that is written as lines of a key and a value: ``name: Ann``."""
        text = _fields_in_xml(text.strip().removeprefix("---\n"), self.name)
        lines = without_table([line.strip() for line in text.splitlines() if line.strip()])
        if len(lines) > 1 and lines[0].endswith((":", "：")):
            end = len(lines[0])
            words = frozenset(word for key in self._by_normalized_key for word in key.split("_"))
            if role_of(text, end, len(text), own_words=lambda: words).role in (Role.UNSAID, Role.ANSWER):
                lines = lines[1:]
        data = self._fields_in(lines)
        if data is None:
            raise cursor.failure(f"expected {self.kind}", text)
        cursor.record_dropped("lines of keys and values")
        return self.read(data, cursor)

    def _fields_in(self, lines: list[str]) -> JsonObject | None:
        """Return the JSON of a record that is written as lines like ``name: Ann``; None for other lines."""
        data: JsonObject = {}
        for line in lines:
            match = _FIELD_LINE.fullmatch(line.strip())
            field = self.field_for_key(match["key"])[0] if match else None
            if match is None or field is None or match["key"] in data:
                return None
            value = _value_in_line(match["value"], is_text=self.nodes[field.name].any_text)
            if value is None:
                return None
            data[match["key"]] = None if value and _NO_VALUE.fullmatch(value) else value
        return data if len(data) >= _MIN_FIELD_LINES else None

    def read_records(self, text: str, cursor: Cursor) -> list[Json] | None:
        """Return the JSON of records in rows of a table, in CSV or in items of YAML; None for other text."""
        if text.startswith("- "):
            records = [self._fields_in(item.splitlines()) for item in _ITEM_OF_YAML.split(text)[1:]]
        else:
            records = self._fields_in_rows([line.strip() for line in text.strip().splitlines()])
        whole = [record for record in records if record is not None]
        if not whole or len(whole) < len(records) or self._is_total(whole[-1], cursor):
            return None
        cursor.record_dropped("lines of keys and values")
        return whole

    def _is_total(self, record: JsonObject, cursor: Cursor) -> bool:
        """Return True if a last row is the total of the others, and the type does not ask for it."""
        key, label = next(((key, value) for key, value in record.items() if value is not None), ("", None))
        field = self.field_for_key(key)[0]
        is_any = field is not None and self.nodes[field.name].any_text
        return is_any and isinstance(label, str) and is_label_of_total(label, cursor.declaration)

    def _fields_in_rows(self, lines: list[str]) -> list[JsonObject | None]:
        """Return the JSON of records in a table or in CSV; [] if its header is not one of names of fields."""
        header, *rows = _rows_of_table(lines) or [[]]
        fields = [self.field_for_key(key)[0] for key in header]
        if len(fields) < _MIN_FIELD_LINES or None in fields or len(set(fields)) < len(fields):
            return []
        if any(cell and not cell.strip(".…") for row in rows for cell in row):  # some rows are left out
            return []
        values = ([None if _NO_VALUE.fullmatch(cell) else cell for cell in row] for row in rows)
        return [dict(zip(header, row, strict=True)) for row in values]

    def _similar_key(self, key: str) -> FieldSpec | None:
        """Return the field that a key in another case or spelling means."""
        # the sign may belong to the value, as in {"y -": 2}
        return None if key.endswith(_SIGNS) else self._by_normalized_key.get(normalize_key(key))

    def _assign_keys(
        self, data: dict[str, Json], cursor: Cursor
    ) -> tuple[dict[str, tuple[str, Json]], dict[str, Json], list[Problem]]:
        """Assign the keys of a JSON object to the fields of a record class.

        Exact names come first, then names in another case or spelling.

        Returns the key and value of each field, the unknown keys that are kept, and the problems.
        """
        # exact names win over similar ones, wherever they are in the object, so there are two passes
        matches: dict[str, tuple[str, Json]] = {}
        problems: list[Problem] = []
        others: list[tuple[str, Json]] = []
        extra: dict[str, Json] = {}
        for key, value in data.items():
            field = self._by_key.get(key)
            if field is None or field.name in matches:
                others.append((key, value))
            else:
                matches[field.name] = (key, value)
        exact_matches = set(matches)
        for key, value in others:
            field = self._similar_key(key)
            if field is not None and field.name not in exact_matches:
                if field.name in matches:
                    problems.append(
                        Problem(cursor.child(key).path, f"another key refers to {field.keys[0]!r} too")
                    )
                    continue
                cursor.child(key).record("key in another form", key, field.keys[0])
                matches[field.name] = (key, value)
            elif self.spec.extra == "allow":
                extra[key] = AnyNode().read(value, cursor.child(key))
            elif problem := self._problem_of_key(key, value, matches, cursor):
                problems.append(problem)
            else:
                cursor.child(key).record_dropped(UNKNOWN_KEY_RULE)
        if data and self._optional_keys and not (matches or extra or problems):
            message = f"the object has none of the keys of {self.name} ({self._optional_keys})"
            problems.append(Problem(cursor.path, message, describe_value(data)))
        return matches, extra, problems

    def _problem_of_key(
        self, key: str, value: Json, matches: Collection[str], cursor: Cursor
    ) -> Problem | None:
        """Return the problem of a key that is not one of the class, or None if it can be left out."""
        unknown = f"{self.name} has no field of this name"
        path = cursor.child(key).path
        if self.spec.extra == "forbid":
            return Problem(path, unknown)
        if value is not None and (similar := self._similar_field(key, value, matches, cursor)):
            return Problem(path, f"{unknown}; did you mean {similar!r}?")
        if matches and _reports_failure(key, value):
            return Problem(path, f"{unknown}, which says that there is no answer", describe_value(value))
        return None

    @cached_property
    def _optional_keys(self) -> str:
        """List the keys of a class for an error message if all its fields are optional; else return ""."""
        if any(field.required for field in self.spec.fields):
            return ""
        return ", ".join(field.keys[0] for field in self.spec.fields[:_MAX_LISTED_KEYS])

    def _similar_field(self, key: str, value: Json, matches: Collection[str], cursor: Cursor) -> str | None:
        """Return the key that was probably meant by an unknown key such as ``"nmae"``, or None.

        A value that the field cannot have belongs to another key, unless the key is the plural or the
        beginning of the field's: ``{"lim":it 2}`` may be a broken ``limit``.
        """
        if self._by_normalized_key.get(normalize_key(key), key) is None:  # it is like the keys of two fields
            return None
        for field in self.spec.fields:
            if field.name in matches or not any(_is_similar(key, name) for name in field.keys):
                continue
            stem = normalize_key(key).removesuffix("s")
            if any(normalize_key(name).startswith(stem) for name in field.keys):
                return field.keys[0]
            try:
                self.nodes[field.name].read(value, Cursor(cursor.leniency))
            except ValidationFailure:
                continue
            return field.keys[0]
        return None

    def make(self, values: dict[str, object], data: Json, cursor: Cursor) -> object:
        """Create an instance of a record class, such as a dataclass, from its field values.

        The error message shows ``data``.

        Raises ValidationFailure if the class rejects the values.
        """
        try:
            return self.spec.make(values)
        except ValidationError as error:
            raise ValidationFailure(*problems_of(error, cursor, data)) from error
        except (ValueError, *USER_CODE_ERRORS) as error:
            if is_programming_error(error):
                raise ValidatorError(self.name, error) from error
            raise cursor.failure(f"{self.name} refuses the values: {error}", data) from error

    def write(self, value: object) -> Json:
        values = self.field_values(value)
        data = {
            field.keys[0]: self.nodes[field.name].write(values.pop(field.name))
            for field in self.spec.fields
            if field.name in values
        }
        if self.spec.extra == "allow":
            data |= {name: AnyNode().write(other) for name, other in values.items()}
        return data

    def field_values(self, value: object) -> dict[str, object]:
        """Return the fields of a dataclass or similar object as a dict, including extra values."""
        # The objects of JSON Schemas are plain dicts; their class only has the name.
        is_dict = is_typeddict(self.spec.cls) or issubclass(self.spec.cls, dict)
        if not isinstance(value, dict if is_dict else self.spec.cls):
            raise ValueError(f"expected {self.kind}, found {value!r}")
        if isinstance(value, dict):
            return dict(value)
        struct = getattr(value, "__struct_config__", None)
        tag = {} if struct is None or struct.tag_field is None else {struct.tag_field: struct.tag}
        names = [field.name for field in self.spec.fields if hasattr(value, field.name)]
        more = getattr(value, "__pydantic_extra__", None) or {}
        if self.spec.extra == "allow" and not more:
            more = getattr(value, "__dict__", {})  # where pydantic dataclasses keep extra values
        values = {name: getattr(value, name) for name in names}
        if struct is not None:  # unset fields are not written
            values = {name: one for name, one in values.items() if type(one).__name__ != "UnsetType"}
        return {**more, **values, **tag}

    def fixed_keys(self) -> int | None:
        return self._fixed

    @cached_property
    def _fixed(self) -> int | None:
        # cached, because the fast path asks for every reply
        return 0 if self.counts_own_keys else self._same_number_of_keys

    @property
    def counts_own_keys(self) -> bool:
        """True if the JSON keys of an object must be counted before its Python instance is created.

        An instance does not show which of its keys had a default, or what its class did with the values.
        """
        is_counted = self._same_number_of_keys is None or self.class_is_hidden
        return self.spec.created_by_make and is_counted

    @cached_property
    def _same_number_of_keys(self) -> int | None:
        if self.spec.extra == "allow" or not all(field.required for field in self.spec.fields):
            return None
        total = len(self.nodes)
        for node in self.nodes.values():
            count = node.fixed_keys()
            if count is None:
                return None
            total += count
        return total

    def count_keys(self, value: Any) -> int:
        if self._fixed is not None:
            return self._fixed
        # only exact records are counted: plain dataclasses, which have no defaults, and pydantic models
        names = self.nodes if self.spec.plain_dataclass else value.__pydantic_fields_set__
        count = len(names)
        for name, node in self._nodes_with_parts:
            if name in names:
                count += node.count_keys(getattr(value, name))
        return count

    @cached_property
    def _nodes_with_parts(self) -> list[tuple[str, Node[object]]]:
        return [(name, node) for name, node in self.nodes.items() if node.fixed_keys() != 0]


def has_own_schema(node: Node[object]) -> bool:
    """Return True if a type contains a record class, such as a dataclass, that is not a pydantic model."""
    return any(isinstance(part, ObjectNode) and part.spec.adapter is None for part in walk(node))


class _JsonObjectNode(ObjectNode):
    """Reads the JSON object of a record class, and returns it with the keys and values for pydantic."""

    @property
    def exact(self) -> bool:  # type: ignore[override]  # a property in place of an attribute
        return False

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return self


class _JsonWholeNode(_JsonObjectNode):
    """Leaves JSON unchanged if only the validators of a record class can read it."""

    def __init__(self, spec: RecordSpec, name: str | None = None) -> None:
        super().__init__(spec._replace(extra="allow"), name)

    def read(self, data: Json, cursor: Cursor) -> Json:
        before = len(cursor.coercions)
        try:
            return super().read(data, cursor)
        except ValidationFailure:
            del cursor.coercions[before:]
            record_validated(data, cursor)
            return AnyNode().read(data, cursor)


def _is_similar(key: str, name: str) -> bool:
    """Return True if a JSON key may be the name of a field with one or two spelling mistakes.

    One mistake is a letter that is missing or added, or two neighbors that are exchanged. A key of up to four
    letters may have two only if it has no letter that the name lacks: ``kind`` is not meant for ``id``.
    """
    one, other = normalize_key(key), normalize_key(name)
    if not -2 <= len(other) - len(one) <= 2:
        return False
    mistakes = _count_mistakes(one, other)
    return mistakes < 2 or (mistakes == 2 and len(one) >= _LONG_KEY) or _has_only_letters_of(one, other)


def _has_only_letters_of(key: str, name: str) -> bool:
    """Return True if a key is a field name with its letters reordered or with some letters left out."""
    rest = iter(name)
    return sorted(key) == sorted(name) or all(char in rest for char in key)


def _count_mistakes(one: str, other: str) -> int:
    """Count the letters to add, remove or swap with a neighbour until two words are equal."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, char in enumerate(one, 1):
        before, previous, row = row, before, [i]
        for j, letter in enumerate(other, 1):
            if char == letter:
                row.append(before[j - 1])
                continue
            count = min(before[j], row[j - 1]) + 1
            if i > 1 and j > 1 and char == other[j - 2] and one[i - 2] == letter:
                count = min(count, previous[j - 2] + 1)
            row.append(count)
    return row[-1]


def normalize_key(key: str) -> str:
    """Normalize the case, accents, spaces and punctuation of a JSON key, to compare spellings.

    For example, firstName, first_name and First Name become equal.
    """
    parts = unicodedata.normalize("NFKD", key).casefold()
    return re.sub(r"[\W_]+", "", "".join(c for c in parts if not unicodedata.combining(c)))


def object_node(
    target: Target, build: Build, register: Callable[[Node[object]], None]
) -> Node[object] | None:
    """Return the parser for a record class, or None for other types.

    ``register`` is called with the node before its fields are built: a field may refer to its own class.
    """
    try:
        spec = record_spec(target)
    except (NameError, PydanticUserError) as error:
        reason = f"its annotations cannot be resolved ({error})"
        raise UnsupportedTypeError(type_name(target.type), target.path, ["records"], reason) from error
    if spec is None:
        return None
    # issubclass(…, RootModel) would import it, and pydantic would then search all packages for plugins
    if getattr(spec.cls, "__pydantic_root_model__", False):
        return RootModelNode(spec.cls, build(target.child(spec.fields[0].type)))
    node = ObjectNode(spec)
    register(node)
    for field in spec.fields:
        field_target = target.child(field.type, field.name)
        field_node = build(field_target)
        node.nodes[field.name] = RawNode(field_node) if field.raw else field_node
        node.descriptions[field.name] = field_target.description or field.description
    return node


T = TypeVar("T")


class EnvelopeNode(WrapperNode[T]):
    """Reads a value that is wrapped in a JSON object with one field, such as ``{"value": …}``.

    Providers require an object at the root of a schema. A reply without the envelope is accepted too.

    Attributes:
        field: The key of the value.
        inner: The node of the value.
    """

    inner: Node[T]

    def __init__(self, field: str, inner: Node[T]) -> None:
        super().__init__(inner)
        self.field = field
        self.kind = f"an object with {field!r}"
        self.exact = inner.exact

    def schema(self, definitions: Definitions) -> JsonSchema:
        return closed_object({self.field: self.inner.schema(definitions)})

    def parts_of(self, data: Json) -> dict[object, Node[object]]:
        return {self.field: self.inner} if isinstance(data, dict) and set(data) == {self.field} else {}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f'{{"{self.field}": {self.inner.hint((*enclosing, self))}}}'

    def read(self, data: Json, cursor: Cursor) -> T:
        # an object with only this key is always the envelope, even if the value has such a key itself
        if isinstance(data, dict) and set(data) == {self.field}:
            return self.inner.read(data[self.field], cursor.child(self.field))
        value = self.inner.read(data, cursor)
        cursor.record("envelope left out", data, value)
        return value

    def json_node(self, built: JsonNodes) -> Node[Json]:
        return EnvelopeNode(self.field, json_node_of(self.inner, built))

    def write(self, value: object) -> Json:
        return {self.field: self.inner.write(value)}

    def read_text(self, text: str, cursor: Cursor) -> T:
        value = self.inner.read_text(text, cursor)
        cursor.record("envelope left out", text, value)
        return value


def _hint_of(lines: list[tuple[str, str]], description: str) -> str:
    """Return the hint of a record for prompts. ``lines`` are the hints of its fields with their comments."""
    short = "{" + ", ".join(text for text, _ in lines) + "}"
    remarks = [f"// {line}" for line in description.splitlines() if line.strip()]
    has_comments = remarks or any(comment for _, comment in lines)
    # a small record without comments needs fewer tokens on one line
    if len(short) <= 100 and not has_comments and "\n" not in short:
        return short
    rows = [*remarks, *(f"{text},  // {comment}" if comment else f"{text}," for text, comment in lines)]
    return "{\n" + "\n".join("  " + row.replace("\n", "\n  ") for row in rows) + "\n}"
