"""Says in words what is not sent as a keyword."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..result.errors import shorten
from ..types.constraints import CONSTRAINTS_IN_WORDS
from ..types.node import JsonSchema
from .codec import ENFORCED_LATER, Code, Definition, Notes, RefCode, Where
from .containers import Absence, Extra, Field, ListCode, NativeTupleCode, ObjectCode, PairsCode, TupleCode
from .profiles import Profile
from .scalars import AnyCode, ChoiceCode, NeverCode, NullableCode, ScalarCode, TextCode
from .schema_queries import (
    ANNOTATIONS,
    EXTERNAL,
    KINDS,
    Document,
    Whole,
    both,
    canonical,
    closed,
    gathered,
    is_regex,
    kind_of,
    kinds_of,
    names_in,
    of_key,
    order_of,
    refers,
    sendable_pattern,
    stands_for,
    tells,
)
from .unions import UnionCode, union_of

_WORDS = {
    **CONSTRAINTS_IN_WORDS,
    "format": "format {}",
    "required": "required: {}",
    "not": "not {}",
    "propertyNames": "each key: {}",
    "contains": "with an item that is {}",
    "enum": "one of {}",
    "const": "{}",
}
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
ANY_TEXT = "any JSON value, written as JSON text in this string"
PAIRS = "as a list of keys and values, each key once"
TUPLE = "items by their position"
_LONGEST = 300  # characters of one constraint; what is longer tells a model nothing more


def in_words(keyword: str, value: Any) -> str:
    """A keyword and its value in words."""
    if keyword == "uniqueItems":
        return "no item twice"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    words = _WORDS.get(keyword, keyword + ": {}").format(shorten(text, _LONGEST))
    return words.removesuffix("s") if value == 1 and keyword in _COUNTS else words


def left_out(default: Any, *, has_default: bool) -> str:
    """What null means where a property need not be given."""
    if not has_default:
        return "null: left out"
    return f"null: left out, which means {shorten(json.dumps(default, ensure_ascii=False, default=str))}"


def said(description: object, words: Iterable[str]) -> str | None:
    """A description with further words; None where nothing is said."""
    text = "; ".join(words)
    if not isinstance(description, str) or not description.strip():
        return text or None
    return f"{description} ({text})" if text else description


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


_MOST_ALTERNATIVES = 16  # that choices beside one another are multiplied out to
_OF_OBJECTS = frozenset(
    "properties patternProperties additionalProperties required propertyNames minProperties maxProperties "
    "dependencies dependentRequired dependentSchemas unevaluatedProperties".split()
)
_OF_ARRAYS = frozenset(
    "items prefixItems minItems maxItems uniqueItems contains minContains maxContains "
    "unevaluatedItems".split()
)
_NEVER_SENT = frozenset(
    "not if then else dependencies dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems "
    "$dynamicRef $recursiveRef".split()
)


class Thrift(NamedTuple):
    """What is saved where a schema is too large for a profile; None: nothing."""

    most_enum: int | None = None  # longer enums are not sent
    deepest: int | None = None  # objects inside of so many others are sent as JSON text


class Builder:
    """Takes one document apart for one profile. What is referred to is taken apart once, under a name."""

    def __init__(self, profile: Profile, document: Document, thrift: Thrift) -> None:
        self.profile = profile
        self.notes = Notes()
        self.thrift = thrift
        self._document = document
        self._made: dict[str, Definition] = {}
        self._names: set[str] = set()
        self._level: list[str] = []  # the definitions that are open with no object or array in between

    def root(self, at: Where) -> Code:
        """The code of the whole document."""
        return self.code(self._document.schema("#"), at)

    def code(self, schema: JsonSchema | bool, at: Where) -> Code:
        """The code of a part."""
        pointer = stands_for(schema)
        if pointer is not None:
            return self._referred(pointer, schema, at)
        if refers(schema):
            name = names_in(schema) or "Part"
            return self._defined(canonical(schema), name, schema, at)
        return self.whole(schema, at)

    def inside(self, schema: JsonSchema | bool, at: Where) -> Code:
        """The code of a part that stands in an object or an array."""
        level, self._level = self._level, []
        try:
            return self.code(schema, at)
        finally:
            self._level = level

    def _referred(self, pointer: str, schema: JsonSchema | bool, at: Where) -> Code:
        name = pointer.rpartition("/")[2].lstrip("#") or "Root"
        there = at if at.named else at._replace(path=pointer)
        code = self._defined(pointer, name, self._document.schema(pointer), there)
        if isinstance(schema, dict) and "description" in schema and isinstance(code, RefCode):
            code.description = schema["description"]
        return code

    def _defined(self, key: str, name: str, schema: JsonSchema | bool, at: Where) -> Code:
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = Definition(self._free_name(name))
            self._level.append(key)
            known.code = self.whole(schema, at)
            if key in self._level:
                self._level.remove(key)
        elif known.code is None and key in self._level:
            self.notes.give_up(at, "a reference that leads back to itself")
            return NeverCode()
        elif known.code is None and not self.profile.recursion:
            self.notes.note(at, "recursion", "sent as JSON text")
            return self.any_json(at, [])
        # what nothing fits is told where it stands: there it is left out
        return known.code if isinstance(known.code, NeverCode) else RefCode(known)

    def _free_name(self, name: str) -> str:
        bare = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "Part"
        free, number = bare, 2
        while free in self._names:
            free, number = f"{bare}{number}", number + 1
        self._names.add(free)
        return free

    def whole(self, schema: JsonSchema | bool, at: Where) -> Code:
        """The code of all that is said of a part, here and in what it refers to."""
        whole = gathered(schema, self._document)
        if whole.never:
            return NeverCode()
        if EXTERNAL in whole.plain:
            self.notes.give_up(at, f"a reference out of the document ({whole.plain[EXTERNAL]})")
            return self.any_json(at, [])
        words = [f"all that is said of {keyword}" for keyword in whole.passed_over]
        for keyword in whole.passed_over:
            self.notes.note(at, keyword, ENFORCED_LATER)
        if not whole.choices:
            return self._plain(closed(whole.plain), words, at)
        return self._chosen(whole, words, at)

    def _chosen(self, whole: Whole, words: list[str], at: Where) -> Code:
        base: Any = {key: value for key, value in whole.plain.items() if key not in ANNOTATIONS}
        base.pop("unevaluatedProperties", None)  # several branches together may evaluate what each does not
        options: list[JsonSchema | bool] = [base]
        chosen = False
        for choice in whole.choices:
            many = len(options) * len(choice) > _MOST_ALTERNATIVES and (chosen or base)
            if many or not any(isinstance(option, dict) and tells(option) for option in choice):
                words.append(in_words("anyOf", list(choice)))
                self.notes.note(at, "anyOf", ENFORCED_LATER)
            else:
                options = [self._both(left, right) for left in options for right in choice]
                chosen = True
        if not chosen:
            return self._plain(whole.plain, words, at)
        code = union_of([self.code(option, at) for option in options])
        if isinstance(code, UnionCode):
            code.child = at
            code.description = said(whole.plain.get("description"), words)
        return code

    def _both(self, base: Any, option: JsonSchema | bool) -> JsonSchema | bool:
        """What fits both; an option that says the type of the base itself is left as it is."""
        if isinstance(base, dict) and base.keys() <= {"type"} and isinstance(option, dict):
            kinds = gathered(option, self._document).plain.get("type")
            if not base or (kinds is not None and kinds_of(kinds) <= kinds_of(base["type"])):
                return option
        return both(base, option)

    def _plain(self, plain: JsonSchema, words: list[str], at: Where) -> Code:
        """The code of a schema without references and compositions."""
        for keyword in sorted(_NEVER_SENT & plain.keys()):
            words.append(in_words(keyword, plain[keyword]))
            self.notes.note(at, keyword, ENFORCED_LATER)
        if "enum" in plain or "const" in plain:
            code = choice_code(self, plain, words, at)
            if code is not None:
                return code
        if "type" not in plain:
            return self._untyped(plain, words, at)
        return self._of_kinds(sorted(kinds_of(plain["type"]), key=order_of), plain, words, at)

    def _untyped(self, plain: JsonSchema, words: list[str], at: Where) -> Code:
        structured = [
            kind
            for kind, keywords in (("object", _OF_OBJECTS), ("array", _OF_ARRAYS))
            if keywords & plain.keys()
        ]
        if not structured:
            rest = {key: value for key, value in plain.items() if key not in ANNOTATIONS | _NEVER_SENT}
            for keyword in sorted(rest):
                words.append(in_words(keyword, rest[keyword]))
                self.notes.note(at, keyword, ENFORCED_LATER)
            return self.any_json(at, words, plain)
        others = [kind for kind in KINDS if kind not in structured]
        if self.profile.any_json:
            return self._of_kinds([*structured, *others], plain, words, at)
        text = TextCode(frozenset(others))
        text.description = f"{' or '.join(others)}, written as JSON text in this string"
        self.notes.note(at, "no type", "what is no " + " or ".join(structured) + " is sent as JSON text")
        return self._of_kinds(structured, plain, words, at, text)

    def _of_kinds(
        self, kinds: list[str], plain: JsonSchema, words: list[str], at: Where, *more: Code
    ) -> Code:
        """The code of one of several types, and of what else there may be; what is said is said of all."""
        if len(kinds) == 1 and not more:
            return self._of_kind(kinds[0], plain, words, at)
        bare = {key: value for key, value in plain.items() if key != "description"}
        code = union_of([*(self._of_kind(kind, bare, [], at) for kind in kinds), *more])
        if isinstance(code, UnionCode):
            code.child = at
            code.description = said(plain.get("description"), words)
        return code

    def _of_kind(self, kind: str, plain: JsonSchema, words: list[str], at: Where) -> Code:
        deepest = self.thrift.deepest
        if deepest is not None and at.depth >= deepest and kind in ("object", "array"):
            self.notes.note(at, "deep nesting", "sent as JSON text")
            return self.any_json(at, words, plain)
        if kind == "object":
            return object_code(self, plain, list(words), at)
        if kind == "array":
            return array_code(self, plain, list(words), at)
        return scalar_code(self, kind, plain, list(words), at)

    def any_json(self, at: Where, words: list[str], plain: JsonSchema | None = None) -> Code:
        """The code of any JSON."""
        description = (plain or {}).get("description")
        if self.profile.any_json:
            code: Code = AnyCode()
            code.description = said(description, words)
            return code
        self.notes.note(at, "any JSON", "sent as JSON text in a string")
        code = TextCode()
        code.description = said(description, [ANY_TEXT, *words])
        return code
