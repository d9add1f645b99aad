"""Find the parser for a Python type, and parse text with it.

``parser_for``, ``parse`` and ``read`` use the default ParserRegistry. A custom registry can add parsers for
further types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeGuard, TypeVar, cast

from typing_extensions import TypeForm

from ..result.errors import UnsupportedTypeError
from ..result.reading import Leniency, Reading
from ..types.choices import choice_node
from ..types.constraints import with_constraints
from ..types.containers import mapping_node, sequence_node
from ..types.decisions import decision_node
from ..types.node import CustomNode, Node, OutputParser, RecursiveNode
from ..types.pydantic import has_before_validator, pydantic_node
from ..types.records import object_node
from ..types.scalars import scalar_node, temporal_node
from ..types.target import Target, type_name
from ..types.unions import union_node
from .type_parser import TypeParser

T = TypeVar("T")


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
    """

    def __init__(self, factories: tuple[ParserFactory, ...] = ()) -> None:
        self._factories = factories
        self._cache: dict[Any, OutputParser[Any]] = {}

    def with_factories(self, *more: ParserFactory) -> ParserRegistry:
        """Return a copy of this parser registry that tries the given parser factories first."""
        return ParserRegistry((*more, *self._factories))

    def parser_for(
        self,
        output_type: TypeForm[T],
        *,
        after: ParserFactory | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> OutputParser[T]:
        """Return the parser for a Python type.

        Raises UnsupportedTypeError if the type has no parser.

        ``after`` skips the factories up to and including this one, so that a factory can build on the parser
        that the type would have without it. ``namespace`` maps local names in string annotations to types.
        """
        cacheable = after is None and not namespace and _is_hashable(output_type)
        # int | str equals str | int, but a prompt shows their members in order: the key must differ.
        key = (output_type, repr(output_type))
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
        """Return the user's own parser for a type, from its metadata or a parser factory, or None."""
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
        self._unfinished: dict[Any, RecursiveNode[Any]] = {}
        # The nodes of record classes: a class is built once, however often it occurs in the type.
        self._records: dict[Any, Node[Any]] = {}
        # All nodes, so that a type that occurs often is built once. Types are told apart by identity, because
        # int | str equals str | int. The targets keep the types alive, so that no identity is reused.
        self._nodes: dict[Any, tuple[Target, Node[Any]]] = {}

    def build(self, target: Target) -> Node[Any]:
        identity = (id(target.type), *map(id, target.metadata), target.alias, target.enclosing_aliases)
        if identity in self._nodes:
            return self._nodes[identity][1]
        node = self._build(target)
        if not isinstance(node, RecursiveNode):
            self._nodes[identity] = target, node
        return node

    def _build(self, target: Target) -> Node[Any]:
        if not _is_hashable(target.type):  # so it is not a type
            return self._require(target, None)
        key = (target.type, target.metadata) if _is_hashable(target.metadata) else None
        if key is not None and key in self._unfinished:
            self._unfinished[key].name = target.name
            return self._unfinished[key]
        custom = self._registry._custom_parser(target, self._after) if target.outer else None
        if custom is not None:
            return CustomNode(type_name(target.type), custom)
        if has_before_validator(target):
            return self._require(target, pydantic_node(target))
        unfinished: RecursiveNode[Any] = RecursiveNode("")  # named if the type contains itself
        if key is not None:
            self._unfinished[key] = unfinished
        try:
            node = with_constraints(target, self._build_built_in(target, unfinished))
            unfinished.node = node
        finally:
            if key is not None:
                del self._unfinished[key]
        return node

    def _build_built_in(self, target: Target, unfinished: RecursiveNode[Any]) -> Node[Any]:
        if target.type in self._records:
            return self._records[target.type]

        # A record is registered before its fields are built, because they may refer to it.
        def register(node: Node[object]) -> None:
            unfinished.node = node
            self._records[target.type] = node

        node = (
            scalar_node(target)
            or temporal_node(target)
            or choice_node(target)
            or decision_node(target, self.build)
            or sequence_node(target, self.build)
            or mapping_node(target, self.build)
            or union_node(target, self.build)
            or object_node(target, self.build, register)
            or pydantic_node(replace(target, metadata=()))  # build() adds the constraints
        )
        return self._require(target, node)

    def _require(self, target: Target, node: Node[object] | None) -> Node[Any]:
        if node is None:
            tried = [*map(_factory_name, self._registry._factories), *_BUILT_IN]
            reason = ""
            if any(
                base.__module__.startswith("pydantic.v1.") for base in getattr(target.type, "__mro__", ())
            ):
                reason = "it is a model of pydantic.v1; derive it from pydantic.BaseModel"
            raise UnsupportedTypeError(type_name(target.type), target.path, tried, reason)
        return node


def _is_parser(value: object) -> TypeGuard[OutputParser[Any]]:
    names = ("parse", "format_instructions", "schema")
    return not isinstance(value, type) and all(hasattr(value, name) for name in names)


def _factory_name(factory: Callable[..., Any]) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


DEFAULT_REGISTRY = ParserRegistry()
