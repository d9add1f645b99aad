"""The type Cited: a value with the quote that proves it, which is verified in the texts of the call."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args

from pydantic_core import core_schema

from ..result.errors import UnsupportedTypeError
from ..result.reading import VERIFIER, Cursor, Json, JsonObject, Verifier, set_variable
from .containers import Build
from .decisions import WITH_DETAILS
from .node import Definitions, JsonSchema, Node, Storage, closed_object
from .records import FieldSpec, ObjectNode, RecordSpec
from .target import Target, type_name

T_co = TypeVar("T_co", covariant=True)
MatchKind: TypeAlias = Literal["exact", "normalized", "aligned"]
_DETAILS = ("document", "start", "end", "page", "boxes", "match", "score", "value_checked", "places")


class Place(NamedTuple):
    """A place in a document.

    Attributes:
        document: The name of the document.
        start: The index of the first character in the text of the document.
        end: The index after the last character.
    """

    document: str
    start: int
    end: int


class Cited(Generic[T_co]):
    """A value with the quote that proves it.

    Use it as the return type of a method, or as the type of a field, of an item or of a member of a union::

        class Contract(BaseModel):
            party: Cited[str]
            amount: Cited[Decimal]

        @user_message("Extract the contract.\\n\\n{{document}}")
        def contract(self, document: Document) -> Contract: ...

    The model writes the value and the words that state it. These words are searched in the documents of the
    call, and the value is searched in the words. If one of them is not found, the answer is requested again.

    Attributes:
        value: The value.
        quote: The words of the document: ``document.text[start:end]``. Without a document, the words that the
            model wrote.
        document: The name of the document, or of the parameter if the document has none.
        start: The index of the first character of the quote in the text; None if it was not searched.
        end: The index after the last character of the quote; None if it was not searched.
        page: The number of the page where the quote begins, from 1; None without pages.
        boxes: Where the quote is on the pages of a PDF: a ``Box`` for each line.
        match: How the quote was found: "exact"; "normalized", if only the typography differs; "aligned", if
            the model changed words, but no numbers; "" if it was not searched or not found.
        score: How similar the words of the model are to the quote, from 0 to 1; 1 unless it is "aligned".
        value_checked: True if the value is in the quote; False if this could not be checked.
        places: All places of the quote. There are several if the same words occur several times and the other
            quotes of the answer do not show which one is meant. The first one begins at ``start``.
    """

    __slots__ = ("quote", "value", *_DETAILS)

    value: T_co
    quote: str
    document: str
    start: int | None
    end: int | None
    page: int | None
    boxes: tuple[Any, ...]
    match: MatchKind | Literal[""]
    score: float
    value_checked: bool
    places: tuple[Place, ...]

    def __init__(
        self,
        value: T_co,
        quote: str = "",
        *,
        document: str = "",
        start: int | None = None,
        end: int | None = None,
        page: int | None = None,
        boxes: Iterable[object] = (),
        match: MatchKind | Literal[""] = "",
        score: float = 1.0,
        value_checked: bool = False,
        places: Iterable[tuple[str, int, int]] = (),
    ) -> None:
        """Create a value with a quote, for example for a test or as an example for the model."""
        all_places = tuple(Place(*place) for place in places)
        if not all_places and start is not None and end is not None:
            all_places = (Place(document, start, end),)
        self._set(
            value=value, quote=quote, document=document, start=start, end=end, page=page, boxes=tuple(boxes),
            match=match, score=score, value_checked=value_checked, places=all_places,
        )  # fmt: skip

    def _set(self, **attributes: object) -> None:
        for name, attribute in attributes.items():
            object.__setattr__(self, name, attribute)

    def to_dict(self) -> JsonObject:
        """Return the value, the quote and its place as a dict for JSON; the value is not converted."""
        details = {name: getattr(self, name) for name in ("value", "quote", *_DETAILS)}
        return details | {
            "boxes": [list(box) for box in self.boxes],
            "places": [place._asdict() for place in self.places],
        }

    def __bool__(self) -> bool:
        raise TypeError("a Cited is neither true nor false; use its .value")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Cited cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Cited cannot be changed")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Cited):
            return NotImplemented
        if (
            type(self.value) is not type(other.value)
            or self.value != other.value
            or self.quote != other.quote
        ):
            return False
        # in an example or a text, only the value and the quote are written
        return not (self.match and other.match) or all(
            getattr(self, name) == getattr(other, name) for name in _DETAILS
        )

    def __hash__(self) -> int:
        return hash((type(self), self.quote))

    def __repr__(self) -> str:
        if self.start is None:
            return f"Cited({self.value!r}, {self.quote!r})"
        name = f"{self.document!r}, " if self.document else ""
        return f"Cited({self.value!r}, {self.quote!r}, {name}{self.start}:{self.end}, {self.match!r})"

    def __reduce__(self) -> tuple[object, ...]:
        details = {name: getattr(self, name) for name in _DETAILS}
        return _restore, (type(self), self.value, self.quote, details)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Any) -> core_schema.CoreSchema:
        """Return how pydantic reads a Cited: from an object with a value, a quote and perhaps its place."""
        field, anything = core_schema.typed_dict_field, core_schema.any_schema()
        value = handler.generate_schema(args[0]) if (args := get_args(source)) else anything
        fields = {name: field(anything, required=False) for name in _DETAILS}
        fields |= {"value": field(value), "quote": field(core_schema.str_schema())}
        from_object = core_schema.no_info_after_validator_function(
            _from_object, core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        )
        return core_schema.json_or_python_schema(
            from_object,
            core_schema.union_schema([core_schema.is_instance_schema(cls), from_object]),
            serialization=core_schema.plain_serializer_function_ser_schema(Cited.to_dict, when_used="json"),
        )


def _from_object(data: JsonObject) -> Cited[object]:
    """Create a Cited from the dict that ``to_dict`` returns; missing keys have their defaults."""
    details = {name: one for name, one in data.items() if name not in ("value", "quote")}
    details["places"] = [(one["document"], one["start"], one["end"]) for one in details.get("places", ())]
    details["boxes"] = [tuple(map(float, box)) for box in details.get("boxes", ())]
    details["score"] = float(details.get("score", 1))
    return Cited(data["value"], data["quote"], **details)


def _restore(cls: type[Cited[object]], value: object, quote: str, details: dict[str, Any]) -> Cited[object]:
    return cls(value, quote, **details)


def cited_from(sources: Verifier | None) -> AbstractContextManager[None]:
    """Context manager in which the quotes of Cited values are verified when the values are read."""
    return set_variable(VERIFIER, sources)


class Quote(Cited[str]):
    """Words of a document: a Cited whose value is the quote itself. In a model's reply it is a string."""

    __slots__ = ()

    def __init__(self, quote: str, **details: Any) -> None:
        """Create a quote; the arguments are the same as for ``Cited``."""
        super().__init__(quote, quote, **details)

    def __repr__(self) -> str:
        return super().__repr__().replace(f"Cited({self.value!r}, ", "Quote(", 1)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_quote, (self.quote, {name: getattr(self, name) for name in _DETAILS})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> core_schema.CoreSchema:
        schema: Any = super().__get_pydantic_core_schema__(Cited[str], handler)
        from_json = core_schema.no_info_after_validator_function(_as_quote, core_schema.any_schema())
        python = core_schema.union_schema([core_schema.is_instance_schema(cls), from_json])
        return core_schema.json_or_python_schema(from_json, python, serialization=schema["serialization"])


def _restore_quote(quote: str, details: dict[str, object]) -> Quote:
    return Quote(quote, **details)


def _as_quote(data: object) -> Quote:
    """Create a Quote from its text, or from the dict that ``to_dict`` returns."""
    if isinstance(data, str):
        return Quote(data)
    if not isinstance(data, dict) or not isinstance(data.get("quote"), str):
        raise ValueError("expected a quote")
    details = {name: one for name, one in data.items() if name != "value"}
    cited = _from_object({"value": "", **details})
    return Quote(cited.quote, **{name: getattr(cited, name) for name in _DETAILS})


@dataclass(frozen=True)
class CitedSentence:
    """A sentence of an answer, with the quotes that prove it.

    Attributes:
        text: The sentence.
        quotes: Words of the documents, copied exactly; empty if the sentence is not based on them.
    """

    text: str
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True)
class CitedText:
    """An answer in sentences, each with the quotes that prove it.

    The quotes are verified, the sentences are not. If the provider runs tools, such as a web search
    (``server_tools``), the citations that it sends are the quotes, and are not verified.

    Attributes:
        sentences: The sentences of the answer, in their order.
    """

    sentences: tuple[CitedSentence, ...]

    @property
    def text(self) -> str:
        """The whole answer."""
        texts = (one.text for one in self.sentences)
        return "".join(text if text[-1:].isspace() else f"{text} " for text in texts).strip()

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """The quotes of all sentences."""
        return tuple(quote for sentence in self.sentences for quote in sentence.quotes)

    def __str__(self) -> str:
        return self.text


# --- Reading and writing ---


class CitedNode(ObjectNode):
    """Reads a Cited from an object with a value and a quote, and verifies both."""

    pydantic_reads_json = False
    named = False

    def schema(self, definitions: Definitions) -> JsonSchema:
        value = self.nodes["value"].schema(definitions)
        field = self.spec.fields[0]
        properties = {field.keys[0]: {"type": "string", "description": field.description}, "value": value}
        if WITH_DETAILS.get():
            properties = {"value": value, "quote": {"type": "string"}, **_DETAILS_SCHEMA}
        return closed_object(properties, ["quote", "value"] if WITH_DETAILS.get() else None)

    def read(self, data: Json, cursor: Cursor) -> Cited[object]:
        if not WITH_DETAILS.get():
            return cast(Cited[Any], super().read(data, cursor))
        try:
            value = self.nodes["value"].read(data["value"], cursor.child("value"))
            return _from_object({**data, "value": value})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise cursor.failure("expected a value with its quote", data) from error

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        value = self.nodes["value"].hint((*enclosing, self))
        field = self.spec.fields[0]
        return f'{{"{field.keys[0]}": string ({_HINTS[field.keys[0]]}), "value": {value}}}'

    def make(self, values: dict[str, object], data: Json, cursor: Cursor) -> Cited[object]:
        cited: Cited[object] = Cited(values["value"], cast(str, values["quote"]))
        if cursor.verifier is not None:
            cursor.verifier.verify(cited, self.nodes["value"], cursor)
        return cited

    def write(self, value: object) -> Json:
        if not isinstance(value, Cited):
            raise ValueError(f"expected a Cited, found {value!r}")
        key = "quote" if WITH_DETAILS.get() else self.spec.fields[0].keys[0]
        data = {key: value.quote, "value": self.nodes["value"].write(value.value)}
        return data | _json_details(value) if WITH_DETAILS.get() else data

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        columns = {name: Storage(kind) for name, kind in PLACE_COLUMNS.items()}
        value = self.nodes["value"].storage((*enclosing, self))
        return Storage("struct", (("value", value), *columns.items()))


# The columns of a table in addition to the value, with the kinds of storage.
PLACE_COLUMNS = {"quote": "text", "document": "text", "page": "int", "start": "int", "end": "int"}
_QUOTE = "The words of the text that state the value, copied exactly."
_LINES = 'The numbers of the lines that state the value, such as "3" or "3-5".'
_HINTS = {"quote": "words copied from the text", "lines": 'numbers of lines, such as "3" or "3-5"'}


class QuoteNode(Node[Quote]):
    """Reads a Quote from a text, and verifies it."""

    kind = "a quote"
    pydantic_reads_json = False

    def __init__(self, *, by_lines: bool = False) -> None:
        self._hint = _HINTS["lines" if by_lines else "quote"]

    def schema(self, definitions: Definitions) -> JsonSchema:
        if WITH_DETAILS.get():
            return closed_object({"quote": {"type": "string"}, **_DETAILS_SCHEMA}, ["quote"])
        return {"type": "string", "description": f"{self._hint[0].upper()}{self._hint[1:]}."}

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        return f"string ({self._hint})"

    def read(self, data: Json, cursor: Cursor) -> Quote:
        if WITH_DETAILS.get() and isinstance(data, dict):
            try:
                return _as_quote(data)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise cursor.failure("expected a quote with its place", data) from error
        if not isinstance(data, str):
            raise cursor.failure(f"expected {self.kind}", data)
        quote = Quote(data)
        if cursor.verifier is not None:
            cursor.verifier.verify(quote, None, cursor)
        return quote

    def write(self, value: object) -> Json:
        if not isinstance(value, Quote):
            raise ValueError(f"expected a Quote, found {value!r}")
        return _json_details(value) | {"quote": value.quote} if WITH_DETAILS.get() else value.quote

    def storage(self, enclosing: tuple[Node[object], ...] = ()) -> Storage:
        return Storage("struct", tuple((name, Storage(kind)) for name, kind in PLACE_COLUMNS.items()))


CITED_NODES = (CitedNode, QuoteNode)


def _json_details(cited: Cited[object]) -> dict[str, Json]:
    """Return the place of a quote as JSON data, without the value."""
    data = cited.to_dict()
    boxes = [[Decimal(repr(edge)) for edge in box] for box in cited.boxes]
    return {name: data[name] for name in _DETAILS} | {"score": Decimal(repr(cited.score)), "boxes": boxes}


_INDEX: JsonSchema = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
_PLACE: dict[str, JsonSchema] = {
    "document": {"type": "string"},
    "start": {"type": "integer"},
    "end": {"type": "integer"},
}
_DETAILS_SCHEMA: dict[str, JsonSchema] = {
    "document": {"type": "string"},
    "start": _INDEX,
    "end": _INDEX,
    "page": _INDEX,
    "boxes": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    "match": {"type": "string", "enum": ["exact", "normalized", "aligned", ""]},
    "score": {"type": "number"},
    "value_checked": {"type": "boolean"},
    "places": {"type": "array", "items": closed_object(_PLACE)},
}


def cited_node(target: Target, build: Build, *, by_lines: bool) -> Node[object] | None:
    """Return the parser for ``Cited[T]`` or ``Quote``, or None for other types.

    ``by_lines`` says that the model writes the numbers of lines instead of their words.
    """
    cls = target.origin or target.type
    if not (isinstance(cls, type) and issubclass(cls, Cited)):
        return None
    if issubclass(cls, Quote):
        return QuoteNode(by_lines=by_lines)
    if len(target.args) != 1:
        reason = "write what is cited, as in Cited[str]"
        raise UnsupportedTypeError(type_name(target.type), target.path, ["citations"], reason)
    # The quote comes first, because a model that has copied the words writes the value that they state.
    fields = (
        FieldSpec("quote", ("lines",), str, required=True, description=_LINES)
        if by_lines
        else FieldSpec("quote", ("quote",), str, required=True, description=_QUOTE),
        FieldSpec("value", ("value",), target.args[0], required=True),
    )
    # shown in a stream when both are complete and verified
    node = CitedNode(RecordSpec(Cited, fields, dict, sees_whole_object=True), "Cited")
    for field in fields:
        node.nodes[field.name] = build(target.child(field.type, field.name))
        node.descriptions[field.name] = None
    return node
