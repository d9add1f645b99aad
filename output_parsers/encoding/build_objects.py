"""Makes the codes of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..node import JsonSchema
from .boxes import NullableCode
from .build_scalars import kept
from .code import Code
from .leaves import ChoiceCode, NeverCode, ScalarCode
from .merge import is_regex, of_key
from .notes import ENFORCED_LATER, Where
from .objects import Absence, Extra, Field, ObjectCode
from .pairs import PairsCode
from .unions import union_of
from .words import PAIRS, in_words, left_out, said

if TYPE_CHECKING:
    from .build import Builder

__all__ = ["object_code"]

# An object of which these speak may be another one for a key that is null.
_MINDFUL = frozenset(
    "minProperties maxProperties dependencies dependentRequired dependentSchemas not if".split()
)


def object_code(builder: Builder, plain: JsonSchema, words: list[str], at: Where) -> Code:
    """The code of an object: its known keys, and those that are data."""
    fields = _fields(builder, plain, at)
    if fields is None:
        return NeverCode()
    if not builder.profile.closed_objects:
        code: Code = _native(builder, plain, fields, words, at)
    else:
        extras = _extras(builder, plain, set(fields), words, at)
        alone = len(extras) == 1 and not fields
        code = extras[0].pairs if alone else ObjectCode(fields, extras, None)
        if alone:
            words.insert(0, PAIRS)
        _counts(builder, plain, code, words, at)
    code.title = plain.get("title") if "title" in builder.profile.keywords else None
    code.description = said(plain.get("description"), words)
    return code


def _counts(builder: Builder, plain: JsonSchema, code: Code, words: list[str], at: Where) -> None:
    """How many keys there must be: of pairs that is how many items."""
    said_of_keys = {"minItems": "minProperties", "maxItems": "maxProperties"}
    if isinstance(code, PairsCode):
        counts = {item: plain[key] for item, key in said_of_keys.items() if key in plain}
        code.keywords = kept(builder, "array", counts, words, at)
        return
    for keyword in said_of_keys.values():
        if keyword in plain:
            words.append(in_words(keyword, plain[keyword]))
            builder.notes.note(at, keyword, ENFORCED_LATER)


def _fields(builder: Builder, plain: JsonSchema, at: Where) -> dict[str, Field] | None:
    """The known keys; None where one is required that nothing fits."""
    required = set(plain.get("required", ()))
    fields: dict[str, Field] = {}
    for key in dict.fromkeys([*plain.get("properties", {}), *plain.get("required", ())]):
        schema = of_key(plain, key)
        here = at.property(key, plain.get("title"))
        code = builder.inside(schema, here)
        if isinstance(code, NeverCode):
            if key in required:
                return None
        elif key in required:
            fields[key] = Field(code, Absence.NEVER)
        elif not builder.profile.all_required:
            fields[key] = Field(code, Absence.MISSING)
        else:
            alike = _MINDFUL.isdisjoint(plain)
            fields[key] = Field(_nullable(builder, schema, code, here, alike=alike), Absence.NULL)
    return fields


def _nullable(builder: Builder, schema: JsonSchema | bool, code: Code, at: Where, *, alike: bool) -> Code:
    """The code of what may be left out; ``alike``: that is the same as null where null is the default."""
    has_default = isinstance(schema, dict) and "default" in schema
    default: Any = schema["default"] if isinstance(schema, dict) and has_default else None
    alike = alike and has_default and default is None
    nullable = NullableCode(code, null_default=alike)
    if not alike:
        nullable.description = left_out(default, has_default=has_default)
    done = "sent as required; null where it is left out"
    if alike and not at.named:  # the reader of a type fills its default in
        done += ", which is its default, and comes back as null"
    builder.notes.note(at, "an optional property", done)
    return nullable


def _extras(builder: Builder, plain: JsonSchema, taken: set[str], words: list[str], at: Where) -> list[Extra]:
    """The keys that are data, as lists of pairs: one for each pattern, one for all others."""
    extras: list[Extra] = []
    patterns = plain.get("patternProperties", {})
    schemas = [*patterns.items(), (None, plain.get("additionalProperties", True))]
    for pattern, schema in schemas:
        step = ("additionalProperties",) if pattern is None else ("patternProperties", pattern)
        value = builder.inside(schema, at.below(*step).deeper().deeper())
        if isinstance(value, NeverCode):
            continue
        name = _free_name("additional_properties" if pattern is None else "matching_properties", taken)
        known = pattern if pattern is None or is_regex(pattern) else None
        pairs = PairsCode(_key(builder, plain, pattern, words, at), value, {})
        pairs.description = PAIRS if pattern is None else f"{PAIRS}; keys match {pattern}"
        extras.append(Extra(name, known, pairs))
        what = "additional properties" if pattern is None else f"keys that match {pattern}"
        builder.notes.note(at, what, "sent as a list of keys and values")
    return extras


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _key(builder: Builder, plain: JsonSchema, pattern: str | None, words: list[str], at: Where) -> Code:
    """The code of a key: a text that is what propertyNames say, or that matches a pattern."""
    names = plain.get("propertyNames", True)
    if names is True or names == {}:
        return ScalarCode("string", kept(builder, "string", {"pattern": pattern} if pattern else {}, [], at))
    code = builder.inside(names, at.below("propertyNames"))
    if isinstance(code, ScalarCode) and code.kind == "string":
        return code
    if isinstance(code, ChoiceCode) and code.plain and code.kinds == {"string"}:
        return code
    words.append(in_words("propertyNames", names))
    builder.notes.note(at, "propertyNames", ENFORCED_LATER)
    return ScalarCode("string", {})


def _native(
    builder: Builder, plain: JsonSchema, fields: dict[str, Field], words: list[str], at: Where
) -> ObjectCode:
    """An object for a profile that takes further keys as they are."""
    schemas = [*plain.get("patternProperties", {}).values(), plain.get("additionalProperties", True)]
    others = [builder.inside(schema, at.below("additionalProperties").deeper()) for schema in schemas]
    for keyword in ("patternProperties", "propertyNames", "minProperties", "maxProperties"):
        if plain.get(keyword):
            words.append(in_words(keyword, plain[keyword]))
            builder.notes.note(at, keyword, ENFORCED_LATER)
    rest = union_of(others)
    return ObjectCode(fields, (), None if isinstance(rest, NeverCode) else rest)
