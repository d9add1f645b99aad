"""Makes the codes of scalars and of choices between values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..node import JsonSchema
from ..profiles import Profile
from .checks import sendable_pattern
from .code import Code
from .kinds import kind_of
from .leaves import ChoiceCode, NeverCode, ScalarCode
from .notes import ENFORCED_LATER, Where
from .words import in_words, said

if TYPE_CHECKING:
    from .build import Builder

__all__ = ["choice_code", "is_sent", "kept", "keywords_of", "scalar_code"]

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_OF_KIND = {
    "integer": (*_BOUNDS, "multipleOf"),
    "number": (*_BOUNDS, "multipleOf"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}


def scalar_code(builder: Builder, kind: str, plain: JsonSchema, words: list[str], at: Where) -> Code:
    """The code of null, a boolean, a number or a text."""
    keywords = kept(builder, kind, plain, words, at)
    code = ScalarCode(kind, keywords)
    code.description = said(plain.get("description"), words)
    return code


def kept(builder: Builder, kind: str, plain: JsonSchema, words: list[str], at: Where) -> dict[str, Any]:
    """The keywords that are sent; the others are added to the words."""
    keywords: dict[str, Any] = {}
    for keyword in _OF_KIND.get(kind, ()):
        if keyword not in plain:
            continue
        if is_sent(builder.profile, kind, keyword, plain):
            keywords[keyword] = plain[keyword]
        else:
            words.append(in_words(keyword, plain[keyword]))
            what = f"format {plain[keyword]!r}" if keyword == "format" else keyword
            builder.notes.note(at, what, ENFORCED_LATER)
    return keywords


def keywords_of(kind: str) -> tuple[str, ...]:
    """The keywords that may bound a value of a kind."""
    return _OF_KIND.get(kind, ())


def is_sent(profile: Profile, kind: str, keyword: str, plain: JsonSchema) -> bool:
    """Whether a profile enforces a keyword of a schema for a value of a kind."""
    value = plain[keyword]
    if keyword not in profile.keywords:
        return False
    if keyword in _BOUNDS and kind == "number":
        return profile.bounds_of_numbers
    if keyword == "format":
        return value in profile.formats
    if keyword == "pattern":
        return sendable_pattern(value, whole=profile.whole_patterns)
    if keyword in ("minLength", "maxLength"):  # grammars hold to one of them or to the form of the text
        return "pattern" not in plain and "format" not in plain
    if keyword == "minItems" and profile.most_min_items is not None:
        return bool(value <= profile.most_min_items)
    return True


def choice_code(builder: Builder, plain: JsonSchema, words: list[str], at: Where) -> Code | None:
    """The code of an enum or a const; None where there are too many values to send."""
    values = [plain["const"]] if "const" in plain else plain["enum"]
    if "const" in plain and "enum" in plain:
        values = [value for value in values if value in plain["enum"]]
    kinds = plain.get("type")
    if kinds is not None:
        named = {kinds} if isinstance(kinds, str) else set(kinds)
        values = [value for value in values if _is_of(value, named)]
    if not values:
        return NeverCode()
    if _is_too_long(builder, values):
        builder.notes.note(at, f"an enum of {len(values)} values", ENFORCED_LATER)
        words.append(in_words("enum", values))
        return None
    if any(isinstance(value, (dict, list)) for value in values):
        builder.notes.note(at, "an enum of objects or arrays", "sent as their JSON text")
    if any(isinstance(value, bool) for value in values) and "boolean" not in builder.profile.enum_kinds:
        builder.notes.note(at, "an enum of booleans", ENFORCED_LATER)
        words.append(in_words("enum", values))
    code = ChoiceCode(values, builder.profile.enum_kinds)
    code.description = said(plain.get("description"), words)
    return code


def _is_too_long(builder: Builder, values: list[Any]) -> bool:
    limits, most = builder.profile.limits, builder.thrift.most_enum
    if most is not None and len(values) > most:
        return True
    if limits.long_enum is None or limits.long_enum_text is None or len(values) <= limits.long_enum:
        return False
    return sum(len(value) for value in values if isinstance(value, str)) > limits.long_enum_text


def _is_of(value: Any, kinds: set[str]) -> bool:
    kind = kind_of(value)
    return (
        kind in kinds or (kind == "number" and "integer" in kinds and value == value // 1) or "any" in kinds
    )
