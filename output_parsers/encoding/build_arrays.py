"""Makes the codes of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..node import JsonSchema
from .arrays import ListCode, NativeTupleCode, TupleCode
from .build_scalars import kept
from .code import Code
from .leaves import NeverCode
from .notes import ENFORCED_LATER, Where
from .words import TUPLE, in_words, said

if TYPE_CHECKING:
    from .build import Builder

__all__ = ["array_code"]

_CHECKED_LATER = ("uniqueItems", "contains", "minContains", "maxContains")


def array_code(builder: Builder, plain: JsonSchema, words: list[str], at: Where) -> Code:
    """The code of an array: a list, or a tuple where its items differ by position."""
    for keyword in _CHECKED_LATER:
        if keyword in plain and plain[keyword] is not False:
            words.append(in_words(keyword, plain[keyword]))
            builder.notes.note(at, keyword, ENFORCED_LATER)
    prefix = plain.get("prefixItems", [])
    code = _tuple(builder, plain, prefix, words, at) if prefix else _list(builder, plain, words, at)
    code.description = said(plain.get("description"), words)
    return code


def _list(builder: Builder, plain: JsonSchema, words: list[str], at: Where) -> Code:
    item = builder.inside(plain.get("items", True), at.below("items").deeper())
    if isinstance(item, NeverCode):
        plain = {**plain, "maxItems": 0}
    return ListCode(item, kept(builder, "array", plain, words, at))


def _tuple(builder: Builder, plain: JsonSchema, prefix: list[Any], words: list[str], at: Where) -> Code:
    most = plain.get("maxItems")
    prefix = prefix if most is None else prefix[: int(most)]
    first: list[Code] = []
    rest: Code | None = NeverCode() if most is not None and most <= len(prefix) else None
    for index, schema in enumerate(prefix):
        code = builder.inside(schema, at.below("prefixItems", index).deeper())
        if isinstance(code, NeverCode):  # nothing can stand here, and so nothing after it
            rest = code
            break
        first.append(code)
    if rest is None:
        rest = builder.inside(plain.get("items", True), at.below("items").deeper())
    if "prefixItems" in builder.profile.keywords:
        return NativeTupleCode(first, rest, kept(builder, "array", plain, words, at))
    least = plain.get("minItems", 0)
    longer = [keyword for keyword in ("minItems", "maxItems") if plain.get(keyword, 0) > len(first)]
    words.extend(in_words(keyword, plain[keyword]) for keyword in longer)
    builder.notes.note(at, "items by position", "sent as an object with item_0 and so on")
    words.append(TUPLE)
    return TupleCode(first, min(int(least), len(first)), rest)
