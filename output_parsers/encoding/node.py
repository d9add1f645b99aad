"""Reads a type in the form that its encoding has a model write."""

from __future__ import annotations

from typing import Any, TypeVar

from ..node import Definitions, JsonSchema, Node
from ..parser import TypeParser
from ..profiles import Profile
from ..reading import Json, Misfit, Place
from ..schema import described
from .defaults import schema_with_defaults
from .encode import Encoding, encode_at
from .finding import EncodingFault
from .hint import hint_of
from .notes import Where

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
        try:
            decoded = self.encoding.decode(found)
        except EncodingFault as fault:
            return self._read_plain(found, at, fault)
        before = len(at.ledger)
        try:
            return self.inner.read(decoded, at)
        except Misfit as misfit:
            del at.ledger[before:]
            try:
                return self._read_plain(found, at, None)
            except Misfit:
                raise misfit from None

    def _read_plain(self, found: Json, at: Place, fault: EncodingFault | None) -> T:
        """The value of a reply in the form that the type has without the encoding."""
        try:
            value = self.inner.read(found, at)
        except Misfit:
            if fault is None:
                raise
            raise at.misfit(f"{fault.message} (at {fault.path})", found) from fault
        at.took("encoding left out", found, value)
        return value

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
    carried = parser
    if parser.plain_text or (profile.object_root and not _is_record(parser)):
        carried = parser.enveloped()
    schema = described(schema_with_defaults(carried.node), parser._target.description)
    encoding = encode_at(schema, profile, Where(parser.name, named=True))
    return (EncodedParser(carried, encoding) if encoding.fits else parser), encoding


def _is_record(parser: TypeParser[Any]) -> bool:
    """Whether the schema of a type is an object with keys of its own, the rest of which stay objects."""
    schema = schema_with_defaults(parser.node)
    return schema.get("type") == "object" and ("properties" in schema)
