"""Takes a JSON Schema apart into the codes of its parts."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..node import JsonSchema
from ..profiles import Profile
from .build_arrays import array_code
from .build_objects import object_code
from .build_scalars import choice_code, scalar_code
from .code import Code, Definition, RefCode
from .document import ANNOTATIONS, EXTERNAL, Document
from .kinds import KINDS
from .leaves import AnyCode, NeverCode, TextCode
from .merge import Whole, both, canonical, gathered, stands_for
from .notes import ENFORCED_LATER, Notes, Where
from .sayings import closed, kinds_of, names_in, order_of, refers, tells
from .unions import UnionCode, union_of
from .words import ANY_TEXT, in_words, said

__all__ = ["Builder", "Thrift"]

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
            code.at = at
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
            code.at = at
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
