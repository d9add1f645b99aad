"""Analyze Python types: their aliases, annotations, type variables, names and attribute docstrings.

``Target`` is a type without its wrappers. The functions resolve what the standard library does not: type
variables of generic classes, string annotations, docstrings under attributes.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    ForwardRef,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from annotated_types import Interval
from pydantic import JsonValue
from typing_extensions import Format, get_annotations, get_original_bases, is_typeddict

from ..result.errors import UnsupportedTypeError

# A class, a generic alias, a union, a string …: Python has no common type of them.
TypeExpression: TypeAlias = object


def substitute(tp: TypeExpression, arguments: Mapping[object, object]) -> object:
    """Replace type variables in a type: ``list[T]`` with ``{T: int}`` gives ``list[int]``."""
    if not arguments:
        return tp
    if isinstance(tp, TypeVar):
        return arguments.get(tp, tp)
    parameters = getattr(tp, "__parameters__", ())
    metadata = getattr(tp, "__pydantic_generic_metadata__", None)
    if metadata is not None:
        parameters = metadata["parameters"]
    elif isinstance(tp, type) and get_origin(tp) is None:
        return tp  # ``Box`` without arguments: the class itself decides about its variables
    if not parameters or not any(parameter in arguments for parameter in parameters):
        return tp
    generic: Any = tp
    return generic[tuple(arguments.get(parameter, parameter) for parameter in parameters)]


def class_hints(tp: TypeExpression, namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the resolved annotations of a class, or of a generic alias such as ``Box[int]``.

    Inherited annotations are included. ``namespace`` holds the local names that string annotations may use.
    Raises NameError for an unknown name.
    """
    cls = get_origin(tp) or tp
    arguments_by_class = type_arguments_by_class(tp)
    resolved = get_type_hints(cls, localns=dict(namespace), include_extras=True)
    hints: dict[str, Any] = dict.fromkeys(resolved)  # inherited fields come first
    for base in base_classes(cls):
        own = resolved if base is cls else get_type_hints(base, localns=dict(namespace), include_extras=True)
        for name in _own_annotations(base):
            if name in own:
                hints[name] = substitute(own[name], arguments_by_class.get(base, {}))
    return {name: resolved[name] if hint is None else hint for name, hint in hints.items()}


def base_classes(cls: Any) -> list[Any]:
    """Return a class and its base classes, the most distant base class first.

    A TypedDict is not a subclass of the TypedDicts it inherits from, so ``__mro__`` does not name them.
    """
    if not is_typeddict(cls):
        return list(reversed(cls.__mro__))
    bases = [get_origin(base) or base for base in get_original_bases(cls)]
    return [*(above for base in bases if is_typeddict(base) for above in base_classes(base)), cls]


def _own_annotations(cls: object) -> list[str]:
    """Return the names that are annotated in a class itself, not in its base classes.

    A TypedDict lists inherited annotations as its own.
    """
    inherited = {
        name for base in base_classes(cls)[:-1] for name in get_annotations(base, format=Format.FORWARDREF)
    }
    names = get_annotations(cls, format=Format.FORWARDREF)
    return [name for name in names if not (is_typeddict(cls) and name in inherited)]


def type_arguments_by_class(tp: TypeExpression) -> dict[type, dict[object, object]]:
    """Map a generic type and each of its generic base classes to their type arguments.

    The arguments are listed by type variable.
    """
    arguments_by_class: dict[type, dict[object, object]] = {}

    def visit(tp: TypeExpression, outer: Mapping[object, object]) -> None:
        cls = get_origin(tp) or tp
        if not isinstance(cls, type):
            return
        parameters = getattr(cls, "__parameters__", ())
        arguments = [substitute(argument, outer) for argument in get_args(tp)]
        own: dict[object, object] = dict(zip(parameters, arguments, strict=False))
        arguments_by_class.setdefault(cls, own)
        for base in getattr(cls, "__orig_bases__", ()):
            visit(base, own)

    visit(tp, {})
    return arguments_by_class


# Wrappers that describe how a field is used, and do not change its type.
_QUALIFIERS = (
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
    typing_extensions.Final,
)


@dataclass(frozen=True, slots=True)
class Description:
    """An explanation of a value for the model: ``Annotated[int, Description("in metres")]``.

    Attributes:
        text: The explanation; it becomes the ``description`` in the JSON Schema and a comment in the hint.
    """

    text: str


@dataclass(frozen=True)
class Target:
    """A Python type to parse, with its aliases resolved and its Annotated metadata separated.

    Attributes:
        type: The type without aliases, NewType, Annotated and qualifiers such as Required.
        metadata: The metadata of all Annotated around the type, the outermost last.
        namespace: Local names that string annotations may use.
        alias: The name of the type alias with which the type was written, if any.
        enclosing_aliases: The type aliases in whose definitions the type is written, the outermost first.
        outer: The type of which this type is a part; None at the root.
        field_name: The name of the field of ``outer`` that has this type, if it is a field.
    """

    type: Any
    metadata: tuple[object, ...] = ()
    namespace: Mapping[str, object] = field(default_factory=dict, compare=False)
    alias: str | None = field(default=None, compare=False)
    enclosing_aliases: tuple[object, ...] = field(default=(), compare=False)
    outer: Target | None = field(default=None, compare=False, repr=False)
    field_name: str | None = field(default=None, compare=False)

    @staticmethod
    def of(
        tp: Any,
        namespace: Mapping[str, object] | None = None,
        outer: Target | None = None,
        field_name: str | None = None,
    ) -> Target:
        """Separate a Python type from its aliases, its Annotated metadata and other wrappers.

        The other wrappers are NewType, qualifiers such as Required, and forward references. ``outer`` and
        ``field_name`` say where the type is used.

        Raises UnsupportedTypeError for a name that cannot be resolved, for a type variable without a bound,
        and for an alias that refers only to itself.
        """
        metadata: tuple[object, ...] = ()
        alias: str | None = None
        names = namespace or {}
        aliases = outer.enclosing_aliases if outer is not None else ()
        for _ in range(100):  # an alias of itself would never end
            origin = get_origin(tp)
            if origin is Annotated:
                metadata = tp.__metadata__ + metadata
                tp = tp.__origin__
            elif origin in _QUALIFIERS:
                (tp,) = get_args(tp)
            elif isinstance(tp, (str, ForwardRef)):
                tp = _resolve(tp, _alias_namespace(aliases, names), _path(outer, field_name))
            elif isinstance(tp, NewType):
                tp = tp.__supertype__
            elif _is_alias(origin):
                aliases = (*aliases, origin)
                arguments = dict(zip(origin.__type_params__, get_args(tp), strict=True))
                tp = substitute(origin.__value__, arguments)
            elif tp is not JsonValue and _is_alias(tp):  # JsonValue is read like Any, not as its union
                aliases, alias = (*aliases, tp), alias or tp.__name__
                tp = tp.__value__
            elif isinstance(tp, TypeVar):
                tp = _bound_of(tp, _path(outer, field_name))
            else:
                tp = None if tp is types.NoneType else tp
                return Target(tp, metadata, names, alias, aliases, outer, field_name)
        path = _path(outer, field_name)
        raise UnsupportedTypeError(type_name(tp), path, ["type aliases"], "it refers only to itself")

    @property
    def path(self) -> str:
        """The place of the type, from the inside out (``Person.name, in list[Person]``); "" at the root."""
        return _path(self.outer, self.field_name)

    @property
    def origin(self) -> Any:
        """The type without its arguments: ``list`` for ``list[int]``.

        It is ``Union`` for both spellings of a union.
        """
        origin = get_origin(self.type)
        return Union if origin is types.UnionType else origin or self.type

    @property
    def name(self) -> str:
        """The name of the type's alias if it has one, else the type as written in source code."""
        return self.alias or type_name(self.type)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the type: ``(str, int)`` for ``dict[str, int]``."""
        return get_args(self.type)

    @property
    def description(self) -> str | None:
        """The description of the type that is shown to the model, taken from the Annotated metadata.

        It is the text of the outermost Description, Field(description=…) or Doc, else the outermost string.
        """
        for item in reversed(self.metadata):
            if isinstance(item, Description):
                return item.text
            text = getattr(item, "description", None) or getattr(item, "documentation", None)
            if isinstance(text, str):
                return text
        return next((item for item in reversed(self.metadata) if isinstance(item, str)), None)

    def child(self, tp: TypeExpression, field: str | None = None) -> Target:
        """Return a Target for a nested type, such as the type of a field.

        ``field`` is the name of the field that has the nested type, if any.
        """
        return Target.of(tp, self.namespace, self, field)

    @property
    def annotated(self) -> Any:
        """The type with its Annotated metadata, and with its aliases resolved."""
        return Annotated[(self.type, *self.metadata)] if self.metadata else self.type


def _path(outer: Target | None, field_name: str | None) -> str:
    positions = []
    while outer is not None:
        positions.append(type_name(outer.type) + (f".{field_name}" if field_name else ""))
        field_name, outer = outer.field_name, outer.outer
    return ", in ".join(positions)


def type_name(tp: TypeExpression) -> str:
    """Return the name of a type as it is written in source code: ``list[Person | None]``."""
    if tp is None or tp is types.NoneType:
        return "None"
    if isinstance(tp, type) and not get_args(tp):
        return tp.__qualname__.rpartition("<locals>.")[2]
    arguments = get_args(tp)
    origin = get_origin(tp)
    if origin in (Union, types.UnionType):
        return " | ".join(type_name(argument) for argument in arguments)
    if origin is Annotated:
        return type_name(arguments[0])
    if arguments and origin is not None:
        name = getattr(origin, "__name__", None) or getattr(tp, "_name", None) or str(origin)
        arguments_text = ", ".join(map(_argument_name, arguments))
        return f"{name}[{arguments_text}]"
    name = getattr(tp, "__name__", None) or getattr(tp, "_name", None)
    return name if isinstance(name, str) else repr(tp)


def _argument_name(argument: object) -> str:
    if argument is ...:
        return "..."
    if isinstance(argument, (str, int, bytes)) or (argument is not None and not _is_type(argument)):
        return repr(argument)
    return type_name(argument)


def _is_type(argument: object) -> bool:
    """Return True if a type argument is a type; False for a value, such as those in Literal."""
    return (
        isinstance(argument, (type, TypeVar))
        or get_origin(argument) is not None
        or hasattr(argument, "__name__")
        or argument is Any
    )


def _is_alias(tp: TypeExpression) -> bool:
    if isinstance(tp, typing_extensions.TypeAliasType):
        return True
    # from Python 3.12 on, the classes of typing and typing_extensions are different
    builtin = getattr(sys.modules["typing"], "TypeAliasType", None)
    return builtin is not None and isinstance(tp, builtin)


def _alias_namespace(aliases: tuple[Any, ...], names: Mapping[str, object]) -> dict[str, object]:
    """Return the names for resolving the definition of a type alias, or of the innermost of nested aliases.

    Local names come first, then the alias itself, the names of its module and those of the enclosing alias.
    """
    namespace: dict[str, object] = {}
    for alias in aliases:
        module = sys.modules.get(getattr(alias, "__module__", None) or "")
        namespace |= {**(vars(module) if module else {}), alias.__name__: alias}
    return namespace | dict(names)


def is_hashable(value: object) -> bool:
    """Return True if a value, such as a type or its metadata, can be a key; ``Annotated[int, {}]`` cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


# The standard library resolves forward references only inside classes and functions.
def _resolve(tp: str | ForwardRef, namespace: Mapping[str, object], path: str) -> object:
    text = tp if isinstance(tp, str) else tp.__forward_arg__
    module = None if isinstance(tp, str) else tp.__forward_module__
    defined_in = sys.modules.get(module) if isinstance(module, str) else None
    module_names = vars(defined_in) if defined_in else {}
    try:
        return eval(text, {**vars(types), **vars(sys.modules["typing"]), **module_names, **namespace})
    except Exception as error:
        raise UnsupportedTypeError(repr(text), path, ["forward references"], str(error)) from error


def _bound_of(tp: TypeVar, path: str) -> object:
    if tp.__bound__ is not None:
        return tp.__bound__
    if tp.__constraints__:
        return Union[tp.__constraints__]  # noqa: UP007  # a tuple of types has no | syntax
    raise UnsupportedTypeError(
        str(tp), path, ["type variables"], "it is not bound to a type here; write the type in its place"
    )


# Bases from these packages have no docstrings about the fields of a user's class.
_LIBRARIES = ("builtins", "enum", "msgspec", "pydantic", "typing", "typing_extensions")


def class_docstring(cls: type) -> str | None:
    """Return the docstring of a class, unless it is inherited or generated by ``@dataclass``."""
    generic = (getattr(cls, "__pydantic_generic_metadata__", None) or {}).get("origin")
    doc = (generic or cls).__dict__.get("__doc__")
    if not isinstance(doc, str) or not doc.strip() or doc.startswith(f"{cls.__name__}("):
        return None
    # some metaclasses copy the docstring of the base class
    inherited = any(base.__doc__ == doc for base in (generic or cls).__mro__[1:])
    return None if inherited else inspect.cleandoc(doc)


def attribute_docs(cls: type) -> dict[str, str]:
    """Map the attributes of a class and its base classes to the docstrings below their definitions.

    The result is empty if the source code is not available.
    """
    docs: dict[str, str] = {}
    for base in base_classes(cls):
        if base.__module__.partition(".")[0] not in _LIBRARIES:
            docs |= _docs_in_module(base.__module__).get(base.__qualname__, {})
    return docs


@lru_cache(maxsize=256)
def _docs_in_module(module: str) -> dict[str, dict[str, str]]:
    """Map each class in a module to the docstrings of its attributes."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):  # no source: a shell, an archive, a compiled module
        return {}
    return {name: docs for name, body in _classes(tree, "") if (docs := _docs_in_body(body))}


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield the qualified name and the body of each class in a syntax tree, including nested classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node.body
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt):
            yield from _classes(node, prefix)


def _docs_in_body(body: list[ast.stmt]) -> dict[str, str]:
    """Map each name that a class body assigns to the docstring below the assignment."""
    docs: dict[str, str] = {}
    for statement, following in pairwise(body):
        if not isinstance(following, ast.Expr) or not isinstance(following.value, ast.Constant):
            continue
        targets: list[object] = getattr(statement, "targets", [getattr(statement, "target", None)])
        if isinstance(following.value.value, str) and isinstance(targets[0], ast.Name):
            docs[targets[0].id] = inspect.cleandoc(following.value.value)
    return docs


Int8: TypeAlias = Annotated[int, Interval(ge=-(2**7), le=2**7 - 1)]
Int16: TypeAlias = Annotated[int, Interval(ge=-(2**15), le=2**15 - 1)]
Int32: TypeAlias = Annotated[int, Interval(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)]
