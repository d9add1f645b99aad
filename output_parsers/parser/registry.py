"""Finds the parser for a type: the user's factories first, then the types that are built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from typing_extensions import TypeForm

from ..result.errors import UnsupportedTypeError
from ..result.reading import Leniency, Reading
from ..types.choices import choice_node
from ..types.constraints import with_constraints
from ..types.containers import mapping_node, sequence_node
from ..types.node import CustomNode, Node, OutputParser, RecursiveNode
from ..types.pydantic import has_before_validator, pydantic_node
from ..types.records import object_node
from ..types.scalars import scalar_node, temporal_node
from ..types.target import Target, type_name
from ..types.unions import union_node
from .type_parser import TypeParser

T = TypeVar("T")


class ParserFactory(Protocol):
    """Makes parsers for the types that it knows. None means "not mine"; an exception means broken."""

    def __call__(self, target: Target, parsers: ParserRegistry, /) -> OutputParser[Any] | None: ...


_TRIED = ("scalars", "dates and times", "choices", "sequences", "mappings", "unions", "records", "pydantic")


class ParserRegistry:
    """The parsers by type. Immutable: ``with_factories`` gives a new registry."""

    def __init__(self, factories: tuple[ParserFactory, ...] = ()) -> None:
        self._factories = factories
        self._known: dict[Any, OutputParser[Any]] = {}

    def with_factories(self, *more: ParserFactory) -> ParserRegistry:
        """A registry that asks these factories first, in this order, then those that it had."""
        return ParserRegistry((*more, *self._factories))

    def parser_for(
        self,
        form: TypeForm[T],
        *,
        after: ParserFactory | None = None,
        namespace: Mapping[str, Any] | None = None,
    ) -> OutputParser[T]:
        """The parser for a type. Raises UnsupportedTypeError when nothing reads it.

        ``after`` skips the factories up to and including that one, so that a factory can build on
        what would have read the type without it. ``namespace`` holds local names that string
        annotations may use.
        """
        cached = after is None and not namespace and _hashable(form)
        key = (form, repr(form))  # int | str equals str | int, but a prompt shows its members in order
        if cached and key in self._known:
            return self._known[key]
        parser = self._make(Target.of(form, namespace=namespace), after)
        if cached:
            self._known[key] = parser
        return parser

    def _make(self, target: Target, after: ParserFactory | None) -> OutputParser[Any]:
        own = self._users(target, after)
        if own is not None:
            return own
        return TypeParser(target, _Builder(self, after).build(target))

    def _users(self, target: Target, after: ParserFactory | None) -> OutputParser[Any] | None:
        factories = self._factories
        if after is not None and after in factories:
            factories = factories[factories.index(after) + 1 :]
        for factory in factories:
            parser = factory(target, self)
            if parser is not None:
                return parser
        return None


class _Builder:
    """Takes one whole type apart; knows the parts that it is inside of, so that recursion ends."""

    def __init__(self, registry: ParserRegistry, after: ParserFactory | None) -> None:
        self._registry = registry
        self._after = after
        self._open: dict[Any, RecursiveNode[Any]] = {}
        self._records: dict[Any, Node[Any]] = {}  # a class is taken apart once, however often it stands there

    def build(self, target: Target) -> Node[Any]:
        if not _hashable(target.type):  # no type, whatever it is
            return self._known(target, None)
        key = (target.type, target.metadata) if _hashable(target.metadata) else None
        if key is not None and key in self._open:
            return self._open[key]
        own = self._registry._users(target, self._after) if target.path else None
        if own is not None:
            return CustomNode(type_name(target.type), own)
        if has_before_validator(target):
            return self._known(target, pydantic_node(target))
        shared: RecursiveNode[Any] = RecursiveNode(target.name)
        if key is not None:
            self._open[key] = shared
        try:
            node = with_constraints(target, self._built_in(target, shared))
            shared.node = node
        finally:
            if key is not None:
                del self._open[key]
        return node

    def _built_in(self, target: Target, shared: RecursiveNode[Any]) -> Node[Any]:
        if target.type in self._records:
            return self._records[target.type]

        def register(node: Node[Any]) -> None:
            shared.node = node
            self._records[target.type] = node

        plain = replace(target, metadata=())
        node = (
            scalar_node(target)
            or temporal_node(target)
            or choice_node(target)
            or sequence_node(target, self.build)
            or mapping_node(target, self.build)
            or union_node(target, self.build)
            or object_node(target, self.build, register)
            or pydantic_node(plain)
        )
        return self._known(target, node)

    def _known(self, target: Target, node: Node[Any] | None) -> Node[Any]:
        if node is None:
            tried = [*map(_factory_name, self._registry._factories), *_TRIED]
            raise UnsupportedTypeError(type_name(target.type), target.path, tried)
        return node


def _factory_name(factory: Callable[..., Any]) -> str:
    return getattr(factory, "__name__", type(factory).__name__)


def _hashable(form: Any) -> bool:
    try:
        hash(form)
    except TypeError:
        return False
    return True


DEFAULT_REGISTRY = ParserRegistry()


def parser_for(form: TypeForm[T]) -> TypeParser[T]:
    """The parser for a type, made once. Raises UnsupportedTypeError when nothing reads the type."""
    return cast(TypeParser[T], DEFAULT_REGISTRY.parser_for(form))


def parse(form: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> T:
    """The value of type ``form`` that ``text`` stands for.

    Raises OutputParsingError, and nothing else, when the text is unfit, and UnsupportedTypeError when
    nothing reads the type.
    """
    return parser_for(form).parse(text, leniency)


def read(form: TypeForm[T], text: str, *, leniency: Leniency = Leniency.SAFE) -> Reading[T]:
    """As ``parse``, with the steps away from the exact text that reading took."""
    return parser_for(form).read(text, leniency)
