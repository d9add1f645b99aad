"""Reads a type in the form that its encoding has a model write."""

from __future__ import annotations

from typing import Any, TypeVar

from ..envelope import EnvelopeNode
from ..errors import Problem
from ..node import Definitions, JsonSchema, Node
from ..parser import TypeParser
from ..profiles import Profile
from ..reading import Ambiguity, Json, Misfit, Place, show
from ..same import same
from ..schema import described
from .boxes import closed_object
from .defaults import schema_with_defaults
from .encode import Encoding, encode_at
from .hint import hint_of
from .kinds import same_json
from .notes import Where
from .undo import Kind, Undone

__all__ = ["EncodedNode", "EncodedParser", "encoded"]

T = TypeVar("T")


class EncodedNode(Node[T]):
    """A value in its encoded form; a model that leaves the encoding out is understood."""

    def __init__(self, inner: Node[T], encoding: Encoding) -> None:
        self.inner = inner
        self.encoding = encoding
        self.kind = inner.kind
        self.prose = inner.prose

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self.encoding.schema)
        definitions.schemas.update(schema.pop("$defs", {}))
        return schema

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return hint_of(self.encoding.schema)

    def read(self, found: Json, at: Place) -> T:
        field = self._missing_envelope(found)
        undone = self.encoding.undo(found if field is None else {field: found}, at)
        doubts = undone.of(Kind.DOUBT)
        if doubts:
            raise Ambiguity(*(step.problem for step in doubts))
        before = len(at.ledger)
        try:
            value = self._read_undone(undone, at)
        except Misfit as misfit:
            del at.ledger[before:]
            return self._read_plain(found, at, misfit)
        if undone.of(Kind.PLAIN, Kind.FOREIGN) and not same_json(undone.value, found):
            self._agrees(value, found, at)
        if field is not None:
            at.took("envelope left out", found, value)
        return value

    def _missing_envelope(self, found: Json) -> str | None:
        """The field of the envelope that a reply lacks; None where it has one, or needs none."""
        inner = self.inner
        if not isinstance(inner, EnvelopeNode) or (isinstance(found, dict) and set(found) == {inner.field}):
            return None
        return inner.field

    def _read_undone(self, undone: Undone, at: Place) -> T:
        """The value of a reply without its encoding. Raises Misfit with all that is wrong."""
        for step in undone.steps:
            step.note()
        try:
            value = self.inner.read(undone.value, at)
        except Misfit as misfit:
            problems = undone.problems(misfit.problems)
            raise type(misfit)(*problems) from misfit
        faults = undone.problems(())
        if faults:
            raise Misfit(*faults)
        return value

    def _read_plain(self, found: Json, at: Place, misfit: Misfit) -> T:
        """The value of a reply in the form that the type has without the encoding."""
        before = len(at.ledger)
        try:
            value = self.inner.read(found, at)
            at.took("encoding left out", found, value)
        except Misfit:
            del at.ledger[before:]
            raise misfit from None
        return value

    def _agrees(self, value: T, found: Json, at: Place) -> None:
        """Raise Ambiguity when a reply that leaves some of the encoding out has another value without it."""
        try:
            other = self.inner.read(found, Place(at.leniency, at.path))
        except Misfit:
            return
        if not same(other, value):
            message = "it can be read in more than one way: with its encoding and without"
            raise Ambiguity(Problem(at.path, message, show(found)))

    def write(self, value: Any) -> Json:
        return self.encoding.encode(self.inner.write(value))

    def read_text(self, text: str, at: Place) -> T:
        value = self.inner.read_text(text, at)
        at.took("encoding left out", text, value)
        return value


class EncodedParser(TypeParser[T]):
    """A parser that asks for the encoded form of its type. Where that is plain, it reads as before."""

    def __init__(self, parser: TypeParser[T], encoding: Encoding) -> None:
        plain = parser.node if encoding.identity else EncodedNode(parser.node, encoding)
        super().__init__(parser._target, parser._node if encoding.identity else plain, field=None)
        if encoding.identity:
            self._read_node = plain
            self._field = parser._field
        self._encoding = encoding

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema of what a model is to write."""
        return self._encoding.schema


def encoded(parser: TypeParser[T], profile: Profile) -> tuple[TypeParser[T], Encoding]:
    """A parser of the same type whose schema is one that the profile can say, and the encoding.

    A type that is no object is put into an envelope first, where the profile wants an object; so is text,
    which in JSON is not what it is by itself. Where strict mode has to be given up, the parser is the one
    that was given.
    """
    carried, schema = parser, schema_with_defaults(parser.node)
    if parser.plain_text or (profile.object_root and not _is_record(schema)):
        carried = parser.enveloped()
        inside = "$defs" not in schema
        schema = closed_object({"value": schema}) if inside else schema_with_defaults(carried.node)
    schema = described(schema, parser.target.description)
    encoding = encode_at(schema, profile, Where(parser.name, named=True))
    return (EncodedParser(carried, encoding) if encoding.fits else parser), encoding


def _is_record(schema: JsonSchema) -> bool:
    """Whether a schema is of an object with keys of its own, the rest of which stay objects."""
    return schema.get("type") == "object" and "properties" in schema
