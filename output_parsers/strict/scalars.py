"""How parts without parts are written: scalars, choices, and JSON text for what nothing else can say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from ..json.reader import read_exact
from ..json.result import JsonSyntaxError
from ..result.reading import Cursor, Json, describe_value, dump_json
from ..types.node import JsonSchema
from ..types.records import plain_key
from .codec import Code, EncodingFault, Kind, Spot, keyed, likeliest
from .schema_queries import KINDS, breaks, is_integral, kind_of

_OPENINGS = ("{", "[", '"', "'", "`")
_WORDS_OF_JSON = ("", "true", "false", "null", "none", "nan")


class ScalarCode(Code):
    """null, a boolean, a number or a text, as it is."""

    def __init__(self, kind: str, keywords: Mapping[str, Any]) -> None:
        self.kind = kind
        self.keywords = keywords

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("number" if self.kind == "integer" else self.kind,))

    def bare_schema(self) -> JsonSchema:
        return {"type": self.kind, **self.keywords}

    def encode(self, value: Json, at: Cursor) -> Json:
        broken = breaks(self.keywords, value) if self._fits(value) else f"expected {self.kind}"
        if broken:
            raise EncodingFault(at.path, f"{broken}, found {describe_value(value)}")
        return value

    def undo(self, value: Json, at: Spot) -> Json:
        if not self._fits(value):
            at.leaf(f"expected {self.kind}", value, heavy=not self._resembles(value))
        return value

    def _resembles(self, value: Json) -> bool:
        """Whether a reader may know what is meant: many a value is read from a text."""
        if self.kind == "null":
            return isinstance(value, str) and value.casefold() in _WORDS_OF_JSON
        return self.kind == "string" or isinstance(value, str) or kind_of(value) in self.kinds

    def _fits(self, value: Json) -> bool:
        return kind_of(value) in self.kinds and (self.kind != "integer" or is_integral(value))


class ChoiceCode(Code):
    """One of several values; those that are objects or arrays stand as their JSON text.

    ``listed`` names the kinds of values whose enums are sent; of others their type is.
    """

    def __init__(self, values: Sequence[Json], listed: frozenset[str] = frozenset(KINDS)) -> None:
        self.listed = listed
        structured = {dump_json(value) for value in values if isinstance(value, (dict, list))}
        # a text that is the JSON text of another member must not stand for both
        self.all_as_text = any(isinstance(value, str) and value in structured for value in values)
        self.plain = not structured
        self._shown = {_key(self._show(value)): self._show(value) for value in values}
        self._values = {_key(self._show(value)): value for value in values}

    def _show(self, value: Json) -> Json:
        return dump_json(value) if self.all_as_text or isinstance(value, (dict, list)) else value

    @property
    def shown(self) -> frozenset[tuple[str, Json]]:
        """What stands for the members, as it can be compared."""
        return frozenset(self._shown)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(kind for kind, _ in self._shown)

    def bare_schema(self) -> JsonSchema:
        listed = (self.listed | ({"integer"} if "number" in self.listed else set())) - {"null"}
        by_type: dict[str, list[Json]] = {}
        for value in self._shown.values():
            by_type.setdefault(_type_of(value), []).append(value)
        schemas = [
            {"type": kind} if kind not in listed else {"type": kind, "enum": values}
            for kind, values in by_type.items()
        ]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def encode(self, value: Json, at: Cursor) -> Json:
        key = _key(self._show(value))
        if key not in self._shown or kind_of(self._values[key]) != kind_of(value):
            raise EncodingFault(at.path, f"expected one of {len(self._shown)} values, found {describe_value(value)}")
        return self._shown[key]

    def undo(self, value: Json, at: Spot) -> Json:
        key = _key(value)
        if key not in self._values:
            at.leaf(f"expected one of {len(self._shown)} values", value, heavy=not self._resembles(value))
            return value
        return value if self.plain else self._values[key]

    def _resembles(self, value: Json) -> bool:
        """Whether a value is a member in another form."""
        if isinstance(value, (dict, list)):
            return False
        return plain_key(str(value)) in {plain_key(str(shown)) for _, shown in self._shown}


def _key(value: Json) -> tuple[str, Json]:
    kind = kind_of(value)
    return (kind, dump_json(value) if kind in ("array", "object") else value)


def _type_of(value: Json) -> str:
    kind = kind_of(value)
    return "integer" if kind == "number" and not isinstance(value, (float, Decimal)) else kind


class TextCode(Code):
    """A JSON value as its JSON text; ``only`` names the kinds of value where not any may be meant."""

    plain = False

    def __init__(self, only: frozenset[str] | None = None) -> None:
        self.only = only

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("string",))

    def bare_schema(self) -> JsonSchema:
        return {"type": "string"}

    def encode(self, value: Json, at: Cursor) -> Json:
        if not self._takes(value):
            raise EncodingFault(at.path, f"expected the text of another kind of value, found {describe_value(value)}")
        return dump_json(value)

    def undo(self, value: Json, at: Spot) -> Json:
        if not isinstance(value, str):
            return self._as_it_is("expected JSON text in a string", value, at)
        try:
            inside = read_exact(value)
        except JsonSyntaxError as fault:
            said = f"expected JSON text in a string: {fault}"
            if value.strip()[:1] in _OPENINGS or value.strip().casefold() in _WORDS_OF_JSON:
                at.fails(said, value)  # JSON was meant, and it is broken
                return value
            return self._as_it_is(said, value, at)
        if not self._takes(inside):
            at.fails("expected the text of another kind of value", inside)
        return inside

    def _as_it_is(self, said: str, value: Json, at: Spot) -> Json:
        if self._takes(value):
            at.left_plain(said, value)
        else:
            at.fails(said, value, Kind.FOREIGN)
        return value

    def _takes(self, value: Json) -> bool:
        return self.only is None or kind_of(value) in self.only


class AnyCode(Code):
    """Any JSON, as it is."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(KINDS)

    def bare_schema(self) -> JsonSchema:
        return {}

    def encode(self, value: Json, at: Cursor) -> Json:
        return value

    def undo(self, value: Json, at: Spot) -> Json:
        return value


class NeverCode(Code):
    """What no value fits."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset()

    def bare_schema(self) -> JsonSchema:
        return {"type": "null"}

    def encode(self, value: Json, at: Cursor) -> Json:
        raise EncodingFault(at.path, f"expected nothing here, found {describe_value(value)}")

    def undo(self, value: Json, at: Spot) -> Json:
        at.leaf("expected nothing here", value, heavy=True)
        return value


class BoxCode(Code):
    """``{"value": …}``."""

    plain = False

    def __init__(self, inner: Code, key: str = "value") -> None:
        self.inner = inner
        self.key = key

    @property
    def parts(self) -> Sequence[Code]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(("object",))

    def bare_schema(self) -> JsonSchema:
        return closed_object({self.key: self.inner.schema()})

    def encode(self, value: Json, at: Cursor) -> Json:
        return {self.key: self.inner.encode(value, at)}

    def undo(self, value: Json, at: Spot) -> Json:
        found = at.apart().opened(value, "{")
        if not isinstance(found, dict) or [plain_key(key) for key in found] != [plain_key(self.key)]:
            return self._without(value, at)
        trial = at.apart()
        inside = self._inside(value, trial)
        content = trial.under(self.key).written.path
        if not any(step.heavy and step.written.path == content for step in trial.steps):
            at.steps.extend(trial.steps)
            return inside
        # what is in it is of another shape: what has this one key may be the value itself, without its box
        return likeliest([partial(self._inside, value), partial(self._without, value)], value, at)

    def _inside(self, value: Json, at: Spot) -> Json:
        given = keyed(at.opened(value, "{"), [self.key], at)
        return self.inner.undo(given[self.key], at.under(self.key))

    def _without(self, value: Json, at: Spot) -> Json:
        at.left_plain(f"expected an object with {self.key!r} alone", value)
        return self.inner.undo(value, at)


def closed_object(properties: dict[str, JsonSchema]) -> JsonSchema:
    """The schema of an object with all of these keys and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def nullable(schema: JsonSchema) -> JsonSchema:
    """A schema that takes null too; what is said of the value is said of both."""
    null = {"type": "null"}
    description = schema.get("description")
    said = {} if description is None else {"description": description}
    rest = {key: value for key, value in schema.items() if key != "description"}
    options = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {"anyOf": [*options, *([] if null in options else [null])], **said}


class NullableCode(Code):
    """A value, or null where it is left out: what stands in a place that must not be empty.

    A value that may be null itself stands in a box, so that null says one thing; but with
    ``null_default`` to be null and to be left out is the same, and null stays null.
    """

    def __init__(self, value: Code, *, null_default: bool = False) -> None:
        self._value = value
        self._null_default = null_default

    @property
    def bare(self) -> Code:
        """The code of what is there, as it is where nothing may be left out."""
        return self._value

    @cached_property
    def inner(self) -> Code:
        """The code of what is there; known when all definitions are."""
        return BoxCode(self._value) if "null" in self._value.kinds and not self.keeps_null else self._value

    @cached_property
    def keeps_null(self) -> bool:
        """Whether null is a value, and not the sign that there is none."""
        return self._null_default and "null" in self._value.kinds

    @property
    def plain(self) -> bool:  # type: ignore[override]
        return self.keeps_null

    @property
    def parts(self) -> Sequence[Code]:
        return (self.inner,)

    @property
    def kinds(self) -> frozenset[str]:
        return self.inner.kinds | {"null"}

    def bare_schema(self) -> JsonSchema:
        return nullable(self.inner.schema())

    def encode(self, value: Json, at: Cursor) -> Json:
        return self.inner.encode(value, at)

    def undo(self, value: Json, at: Spot) -> Json:
        return self.inner.undo(value, at)
