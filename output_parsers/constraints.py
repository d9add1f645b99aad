"""Enforces what Annotated and Field say of a value, and shows it in the schema."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from .errors import UnsupportedTypeError
from .foreign import problems_of
from .node import Definitions, JsonSchema, Node
from .reading import Json, Misfit, Place
from .target import Target, type_name

__all__ = ["constrained"]

_WORDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
    "pattern": "matching {}",
}

_OF_ANY: dict[Any, Any] = {
    list: list[Any],
    tuple: tuple[Any, ...],
    set: set[Any],
    frozenset: frozenset[Any],
    dict: dict[Any, Any],
}


class ConstrainedNode(Node[Any]):
    """A part whose values must hold what was declared of them."""

    def __init__(self, inner: Node[Any], adapter: TypeAdapter[Any], keywords: JsonSchema) -> None:
        self.inner = inner
        self.kind = inner.kind
        self.exact = inner.exact
        self.prose = inner.prose
        self._adapter = adapter
        self._keywords = keywords

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self.inner,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {**self.inner.schema(definitions), **self._keywords}

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        said = [words.format(self._keywords[key]) for key, words in _WORDS.items() if key in self._keywords]
        inner = self.inner.hint(within)
        return f"{inner} ({', '.join(said)})" if said else inner

    def read(self, found: Json, at: Place) -> Any:
        return self._check(self.inner.read(found, at), at)

    def read_text(self, text: str, at: Place) -> Any:
        return self._check(self.inner.read_text(text, at), at)

    def _check(self, value: Any, at: Place) -> Any:
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise Misfit(*problems_of(error, at)) from error

    def count_keys(self, value: Any) -> int:
        return self.inner.count_keys(value)


def constrained(target: Target, node: Node[Any]) -> Node[Any]:
    """The node with the constraints that the target carries; the node itself when there are none."""
    metadata = [item for item in target.metadata if _constrains(item)]
    if not metadata:
        return node
    base = _base(target)
    try:
        form: Any = Annotated[(base, *metadata)]
        adapter: TypeAdapter[Any] = TypeAdapter(form)
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError, ValueError, RuntimeError) as error:
        reason = f"its constraints do not suit it ({error})"
        raise UnsupportedTypeError(type_name(target.form), target.path, ["constraints"], reason) from error
    if base is Decimal:  # pydantic writes a decimal as a number or a string
        schema = next((s for s in schema.get("anyOf", ()) if s.get("type") == "number"), schema)
    return ConstrainedNode(node, adapter, {key: schema[key] for key in _WORDS if key in schema})


def _constrains(item: Any) -> bool:
    if isinstance(item, FieldInfo):
        return bool(item.metadata)
    module = type(item).__module__.partition(".")[0]
    return module in ("annotated_types", "pydantic", "pydantic_core")


def _base(target: Target) -> Any:
    """A type that pydantic knows, and on which it says the same of a constraint as on the target."""
    origin = target.origin
    if origin in _OF_ANY:
        return _OF_ANY[origin]
    if isinstance(origin, type) and origin.__module__ in (
        "builtins",
        "datetime",
        "decimal",
        "fractions",
        "uuid",
    ):
        return target.form
    return Any
