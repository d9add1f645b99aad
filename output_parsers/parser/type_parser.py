"""Find the parser for a Python type, and convert a model's reply to a value of the type.

``parser_for``, ``parse`` and ``read`` use the default ParserRegistry. A custom registry can add parsers for
further types. A ``TypeParser`` also writes values as text from which it reads the same values again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, Protocol, Self, TypeGuard, TypeVar, cast

from typing_extensions import TypeForm

from ..prose.numbers import NumberStyle
from ..result.errors import OutputParsingError, UnsupportedTypeError
from ..result.reading import (
    Json,
    Leniency,
    Reading,
    ValidationFailure,
    dump_json,
    external_cause,
    first_difference,
    strict_equal,
)
from ..types.choices import choice_node
from ..types.cited import CITED_NODES, cited_node
from ..types.constraints import is_read_by_metadata, pydantic_node, unwrapped, with_constraints
from ..types.containers import ListNode, mapping_node, sequence_node, union_node
from ..types.decisions import DecisionNode, decision_node
from ..types.node import (
    CustomNode,
    JsonSchema,
    Node,
    OutputParser,
    RecursiveNode,
    described_hint,
    json_node_of,
    schema_of,
    walk,
    with_description,
)
from ..types.records import (
    EnvelopeNode,
    ObjectNode,
    object_node,
)
from ..types.scalars import TextNode, scalar_node
from ..types.target import Target, is_hashable, type_name
from ..types.validation import runs_validators
from .fast_path import NOT_EXACT, FastReader, compile_fast_reader, never_exact
from .reasoning import may_have_reasoning
from .reply_reader import ReplyReader

T = TypeVar("T")


class TypeParser(Generic[T]):
    """Converts a model's reply to a value of one Python type.

    It is an OutputParser that also has a ``hint`` for prompts, records coercions (``read``), and writes
    values (``write``). ``parser_for`` creates it.

    Attributes:
        leniency: How far replies may deviate from the exact format, unless a method is called with another
            leniency.
        node: The root of this parser's tree, in which each item type, field and so on has its own parser.
            It includes the envelope if there is one.
        target: The Python type that this parser reads, with the metadata from ``Annotated``.
        reply_reader: Reads replies that are not exact JSON of the type as a whole.
    """

    def __init__(
        self, target: Target, node: Node[T], *, field: str | None = None, leniency: Leniency = Leniency.SAFE
    ) -> None:
        self.leniency = leniency
        self.target = target
        self._value_node: Node[T] = node
        self.node: Node[T] = node if field is None else EnvelopeNode(field, node)
        self._field = field
        self._schema: JsonSchema | None = None  # made when it is first used
        self._read_exact: FastReader = self._first_read_exact
        self.reply_reader = ReplyReader(self.node, node, field, target, is_plain_text=self.plain_text)

    @staticmethod
    def wrap(parser: OutputParser[T], name: str = "value") -> TypeParser[T]:
        """Return a TypeParser that parses replies with a user-written OutputParser.

        ``name`` is the name of the type in error messages.
        """
        return TypeParser(Target(Any), CustomNode(name, parser))

    @cached_property
    def name(self) -> str:
        """The name of the type, as it is written in source code."""
        return self.target.name

    @cached_property
    def plain_text(self) -> bool:
        """True if the type is plain text, so that the model's whole reply is the value."""
        return isinstance(unwrapped(self.node), TextNode)

    @cached_property
    def has_decisions(self) -> bool:
        """True if a part of the type is a Decision, which gets its probabilities after it was read."""
        return any(isinstance(node, DecisionNode) for node in walk(self.node))

    @property
    def has_details(self) -> bool:
        """True if a value has more than the JSON of the reply: the details of decisions or quotes."""
        return self.has_decisions or self.has_citations

    @cached_property
    def has_citations(self) -> bool:
        """True if a part of the type is Cited, whose quote is verified in the texts of the call."""
        return any(isinstance(node, CITED_NODES) for node in walk(self.node))

    @property
    def schema(self) -> JsonSchema | None:
        """The JSON Schema that the model's reply must follow; None if the reply is plain text."""
        if self._schema is None and not self.plain_text:
            self._schema = with_description(schema_of(self.node), self.target.description)
        return self._schema

    @property
    def hint(self) -> str:
        """A short description of the expected reply for prompts, in a notation similar to TypeScript."""
        return described_hint(self.node.hint(), self.target.description)

    def format_instructions(self) -> str:
        """Return prompt instructions that tell the model in which format to reply.

        Return "" for plain text, because then any reply is valid.
        """
        if self.plain_text:
            return ""
        schema = self.schema or {}
        if "type" in schema and schema["type"] in ("object", "array"):
            return f"Reply with JSON only, in this form:\n{self.hint}"
        if self.node.prose:
            return f"Reply with the value only, in this form: {self.hint}"
        return f"Reply with JSON only, in one of these forms:\n{self.hint}"

    def with_envelope(self, field: str = "value") -> TypeParser[T]:
        """Return a parser that expects the value in a JSON object with one key, such as ``{"value": 42}``.

        Some providers accept only an object as the root of a schema.
        """
        return TypeParser(self.target, self._value_node, field=field, leniency=self.leniency)

    def with_leniency(self, leniency: Leniency) -> Self:
        """Return a parser for the same type that tolerates fewer or more mistakes in replies."""
        if leniency is self.leniency:
            return self
        parser = copy.copy(self)
        parser.leniency = leniency
        parser._read_exact = parser._first_read_exact
        return parser

    def parse(self, text: str, leniency: Leniency | None = None) -> T:
        """Parse text as a value of the type.

        Raises OutputParsingError if the text does not fit, and no other error.
        """
        try:
            value = self._read_exact(text)
        except ValidationFailure as failure:  # of a validator of the user
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        if value is NOT_EXACT:
            leniency = self.leniency if leniency is None else leniency
            return self.reply_reader.read(text, leniency, self._read_exact).value
        exact: T = value
        return exact

    def read(self, text: str, leniency: Leniency | None = None) -> Reading[T]:
        """Parse text as a value of the type, and also return the repairs and conversions that were needed.

        Raises OutputParsingError if the text does not fit, and no other error.
        """
        try:
            value = self._read_exact(text)
        except ValidationFailure as failure:
            raise OutputParsingError(text, failure.problems) from external_cause(failure)
        if value is not NOT_EXACT:
            return Reading(value)
        return self.reply_reader.read(text, self.leniency if leniency is None else leniency, self._read_exact)

    @cached_property
    def fast_reader(self) -> FastReader | None:
        """A function that parses valid JSON quickly, without repairs; None if the type does not support it.

        For any other text the function returns ``NOT_EXACT``. It raises ValidationFailure if a validator of
        the user refuses the value, and ValidatorError if the validator is wrong.
        """
        if self.plain_text:
            return None
        return compile_fast_reader(self.target.annotated, self._value_node, field=self._field)

    @cached_property
    def is_pure(self) -> bool:
        """True if the fast reader always gives the same value for a text.

        Then it runs no code of the user, and no field has a default value.
        """
        records = [part.spec for part in walk(self.node) if isinstance(part, ObjectNode)]
        is_made = any(one.created_by_make for one in records)
        is_whole = all(field.required for one in records for field in one.fields)
        return bool(self.fast_reader) and is_whole and not is_made and not runs_validators(self.node)

    @cached_property
    def fast_list_reader(self) -> FastReader | None:
        """A ``fast_reader`` of a list of such values; None if the type has none, or runs validators."""
        if self._field is not None or runs_validators(self.node):
            return None
        items = ListNode(self._value_node, list, exact=True)
        return compile_fast_reader(list[self.target.annotated], items)  # type: ignore[name-defined]

    @cached_property
    def json_parser(self) -> TypeParser[Json] | None:
        """A parser of the same texts that returns JSON and runs no validators; None if the type has none."""
        if not runs_validators(self.node):
            return None
        parser: TypeParser[Any] = copy.copy(self)
        built: dict[Node[object], Node[Json]] = {}
        parser.node = json_node_of(self.node, built)
        parser._value_node = json_node_of(self._value_node, built)
        parser.reply_reader = ReplyReader(
            parser.node, parser._value_node, self._field, self.target, is_plain_text=self.plain_text
        )
        parser._read_exact = never_exact
        return parser

    # Compiling the fast reader takes long, so it waits for the first text. It then replaces this method, so
    # that later calls do not pay for the check.
    def _first_read_exact(self, text: str) -> object:
        is_text = type(self.node) is TextNode
        self._read_exact = _read_text_without_reasoning if is_text else self.fast_reader or never_exact
        return self._read_exact(text)

    def write(self, value: T) -> str:
        """Write a value as text that ``restore`` converts back to the same value.

        Raises ValueError if the value is not of this type, or if JSON cannot express it.
        """
        try:
            try:
                data = self.node.write(value)
            except ValueError as error:
                if repr(value) in str(error):
                    raise
                raise ValueError(f"{value!r} cannot be written as {self.name}: {error}") from error
            return _checked_text(self, value, data)
        except RecursionError as error:
            raise ValueError(f"expected {self.node.kind}, nested less deeply") from error

    def restore(self, text: str) -> T:
        """Read a text that ``write`` has written.

        Unlike in a reply, a text such as ``...`` or ``<name>`` in it is a value. Raises OutputParsingError.
        """
        try:
            return self.parse(text, Leniency.SAFE)
        except OutputParsingError:
            return self.parse(text, Leniency.NONE)


def _checked_text(parser: TypeParser[T], value: T, data: Json) -> str:
    """Write a value as text, and check that reading the text gives the same value.

    Raises ValueError if no text passes the check.
    """
    accepts_bare_text = isinstance(data, str) and parser._field is None and parser.node.prose
    texts: list[str] = [data] if accepts_bare_text else []
    if not parser.plain_text:
        texts.append(dump_json(data))
    # Validators, custom parsers and similar choices may turn the text into another value, so it is read.
    message = ""
    for text in texts:
        try:
            again = parser.restore(text)
        except OutputParsingError as error:
            message = f"{value!r} is not read as {parser.name}: {'; '.join(map(str, error.problems))}"
        else:
            if strict_equal(again, value):
                return text
            message = _difference_message(value, again)
    raise ValueError(message or f"expected {parser.node.kind}, found {value!r}")


def _difference_message(value: object, again: object) -> str:
    """Return an error message for a value that changes when it is written as text and parsed again."""
    path, part, other = first_difference(value, again)
    if path == "$":
        return f"{value!r} is read as {again!r}"
    return f"{path} cannot be written so that it is read back: {part!r} becomes {other!r}"


def _read_text_without_reasoning(text: str) -> object:
    return NOT_EXACT if may_have_reasoning(text) else text


# --- Finding the parser for a type ---


def parser_for(output_type: TypeForm[T]) -> TypeParser[T]:
    """Return the parser for a Python type.

    The parser is created once for each ``output_type``.

    Raises UnsupportedTypeError if the type, or a part of it, has no parser.
    """
    return cast(TypeParser[T], DEFAULT_REGISTRY.parser_for(output_type))


def parse(output_type: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> T:
    """Parse text as a value of a Python type.

    ``output_type`` is the type, and ``leniency`` says which lenient steps are allowed.

    Raises OutputParsingError if the text does not fit the type, and UnsupportedTypeError if the type has no
    parser. Example::

        parse(list[int], "Sure! [1, 2, 3]")  # [1, 2, 3]
    """
    return parser_for(output_type).parse(text, leniency)


def read(output_type: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
    """Parse text as a value of a Python type, and also return the repairs and conversions that were needed.

    ``output_type`` and ``leniency`` mean the same as in ``parse``, which raises the same errors.
    """
    return parser_for(output_type).read(text, leniency)


class ParserFactory(Protocol):
    """A user-written function that returns parsers for some Python types.

    It gets a type as a Target and the registry, from which it may request parsers for parts of the type. It
    returns None for a type that it does not support. An exception that it raises is not caught.
    """

    def __call__(self, target: Target, parsers: ParserRegistry, /) -> OutputParser[Any] | None: ...


# The groups of built-in types, in the order in which they are tried; for the message of UnsupportedTypeError.
_BUILT_IN = (
    "scalars",
    "dates and times",
    "choices",
    "decisions",
    "citations",
    "sequences",
    "mappings",
    "unions",
    "records",
    "pydantic",
)


class ParserRegistry:
    """Creates and caches the parsers for Python types.

    The user's factories are tried first, then the built-in types. A registry never changes;
    ``with_factories`` returns a new one.

    Args:
        factories: Functions that make parsers for further types.
        number_style: The sign that is the decimal point of numbers in text, where the type declares none.
        cites_lines: True if the model writes the numbers of lines for the quotes of Cited values.
    """

    def __init__(
        self,
        factories: tuple[ParserFactory, ...] = (),
        number_style: NumberStyle | None = None,
        *,
        cites_lines: bool = False,
    ) -> None:
        self._factories = factories
        self.cites_lines = cites_lines
        self.number_style = number_style  # of numbers whose type does not declare one
        self._cache: dict[object, OutputParser[Any]] = {}

    def with_factories(self, *more: ParserFactory) -> ParserRegistry:
        """Return a copy of this parser registry that tries the given parser factories first."""
        return ParserRegistry((*more, *self._factories), self.number_style, cites_lines=self.cites_lines)

    def citing_lines(self) -> ParserRegistry:
        """Return a copy of this parser registry for models that cite numbered lines instead of words."""
        return ParserRegistry(self._factories, self.number_style, cites_lines=True)

    def parser_for(
        self,
        output_type: TypeForm[T],
        *,
        after: ParserFactory | None = None,
        namespace: Mapping[str, object] | None = None,
    ) -> OutputParser[T]:
        """Return the parser for a Python type.

        Raises UnsupportedTypeError if the type has no parser.

        ``after`` skips the factories up to and including this one, so that a factory can build on the parser
        that the type would have without it. ``namespace`` maps local names in string annotations to types.
        """
        cacheable = after is None and not namespace and is_hashable(output_type)
        # int | str equals str | int, but a prompt shows their members in order: the key must differ.
        key = output_type if isinstance(output_type, type) else (output_type, repr(output_type))
        if cacheable and key in self._cache:
            return self._cache[key]
        target = Target.of(output_type, namespace=namespace)
        parser = self._custom_parser(target, after)
        if parser is None:
            parser = TypeParser(target, _NodeBuilder(self, after).build(target))
        if cacheable:
            self._cache[key] = parser
        return parser

    def _custom_parser(self, target: Target, after: ParserFactory | None) -> OutputParser[Any] | None:
        """Return the user's own parser for a type, or None.

        It comes from the metadata of the type or from a parser factory.
        """
        for item in target.metadata:
            if _is_parser(item):
                return item
        factories = self._factories
        if after is not None and after in factories:
            factories = factories[factories.index(after) + 1 :]
        for factory in factories:
            parser = factory(target, self)
            if parser is not None:
                return parser
        return None


class _NodeBuilder:
    """Builds a type's parser as a tree: for ``list[Person]``, a list parser that contains an item parser."""

    def __init__(self, registry: ParserRegistry, after: ParserFactory | None) -> None:
        self._registry = registry
        self._after = after
        # The types that are being built. A type that contains itself gets a RecursiveNode at its inner
        # occurrence.
        self._unfinished: dict[object, RecursiveNode[object]] = {}
        # The nodes of record classes: a class is built once, however often it occurs in the type.
        self._records: dict[object, Node[object]] = {}
        # All nodes, so that a type that occurs often is built once. Types are distinguished by identity,
        # because int | str equals str | int. The targets keep the types alive, so that no identity is reused.
        self._nodes: dict[object, tuple[Target, Node[object]]] = {}

    def build(self, target: Target) -> Node[object]:
        identity = (id(target.type), *map(id, target.metadata), target.alias, target.enclosing_aliases)
        if identity in self._nodes:
            return self._nodes[identity][1]
        node = self._build(target)
        if not isinstance(node, RecursiveNode):
            self._nodes[identity] = target, node
        return node

    def _build(self, target: Target) -> Node[object]:
        if not is_hashable(target.type):  # so it is not a type
            return self._require(target, None)
        key = (target.type, target.metadata) if is_hashable(target.metadata) else None
        if key is not None and key in self._unfinished:
            self._unfinished[key].name = target.name
            return self._unfinished[key]
        custom = self._registry._custom_parser(target, self._after) if target.outer else None
        if custom is not None:
            return CustomNode(type_name(target.type), custom)
        if is_read_by_metadata(target):
            return self._require(target, pydantic_node(target))
        unfinished: RecursiveNode[object] = RecursiveNode("")  # named if the type contains itself
        if key is not None:
            self._unfinished[key] = unfinished
        try:
            node = with_constraints(target, self._build_built_in(target, unfinished))
            unfinished.node = node
        finally:
            if key is not None:
                del self._unfinished[key]
        return node

    def _build_built_in(self, target: Target, unfinished: RecursiveNode[object]) -> Node[object]:
        if target.type in self._records:
            return self._records[target.type]

        # A record is registered before its fields are built, because they may refer to it.
        def register(node: Node[object]) -> None:
            unfinished.node = node
            self._records[target.type] = node

        node = (
            scalar_node(target, self._registry.number_style)
            or choice_node(target)
            or decision_node(target, self.build)
            or cited_node(target, self.build, by_lines=self._registry.cites_lines)
            or sequence_node(target, self.build)
            or mapping_node(target, self.build)
            or union_node(target, self.build)
            or object_node(target, self.build, register)
            or pydantic_node(replace(target, metadata=()))  # build() adds the constraints
        )
        return self._require(target, node)

    def _require(self, target: Target, node: Node[object] | None) -> Node[object]:
        if node is None:
            tried = [*map(_factory_name, self._registry._factories), *_BUILT_IN]
            reason = ""
            if any(
                base.__module__.startswith("pydantic.v1.") for base in getattr(target.type, "__mro__", ())
            ):
                reason = "it is a model of pydantic.v1; derive it from pydantic.BaseModel"
            raise UnsupportedTypeError(type_name(target.type), target.path, tried, reason)
        return node


def _is_parser(value: object) -> TypeGuard[OutputParser[object]]:
    names = ("parse", "format_instructions", "schema")
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _factory_name(factory: Callable[..., object]) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


DEFAULT_REGISTRY = ParserRegistry()
