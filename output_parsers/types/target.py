"""A type taken apart once: what is to be read, and what was said about it."""

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
from typing_extensions import Format, get_annotations, get_original_bases, is_typeddict

from ..result.errors import UnsupportedTypeError


def substitute(tp: Any, arguments: Mapping[Any, Any]) -> Any:
    """``tp`` with its type variables replaced: ``list[T]`` and ``{T: int}`` give ``list[int]``."""
    if not arguments:
        return tp
    if isinstance(tp, TypeVar):
        return arguments.get(tp, tp)
    parameters = getattr(tp, "__parameters__", ())
    metadata = getattr(tp, "__pydantic_generic_metadata__", None)
    if metadata is not None:
        parameters = metadata["parameters"]
    elif isinstance(tp, type) and get_origin(tp) is None:
        return tp  # a bare generic class: its variables are its own business
    if not parameters or not any(parameter in arguments for parameter in parameters):
        return tp
    generic: Any = tp
    return generic[tuple(arguments.get(parameter, parameter) for parameter in parameters)]


def class_hints(tp: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a class, or of a generic alias such as ``Box[int]``, inherited ones included.

    ``namespace`` holds the local names that string annotations may use. Raises NameError when a name is
    found nowhere.
    """
    cls = get_origin(tp) or tp
    arguments_by_class = type_arguments_by_class(tp)
    resolved = get_type_hints(cls, localns=dict(namespace), include_extras=True)
    hints: dict[str, Any] = dict.fromkeys(resolved)  # a base's fields come before those of what it becomes
    for base in base_classes(cls):
        own = resolved if base is cls else get_type_hints(base, localns=dict(namespace), include_extras=True)
        for name in _declared(base):
            if name in own:
                hints[name] = substitute(own[name], arguments_by_class.get(base, {}))
    return {name: resolved[name] if hint is None else hint for name, hint in hints.items()}


def base_classes(cls: Any) -> list[Any]:
    """A class and its bases, the farthest first; those of a TypedDict too, which is no subclass of them."""
    if not is_typeddict(cls):
        return list(reversed(cls.__mro__))
    bases = [get_origin(base) or base for base in get_original_bases(cls)]
    return [*(above for base in bases if is_typeddict(base) for above in base_classes(base)), cls]


def _declared(cls: Any) -> list[str]:
    """The names that a class itself annotates; a TypedDict has those of its bases among its own."""
    inherited = {
        name for base in base_classes(cls)[:-1] for name in get_annotations(base, format=Format.FORWARDREF)
    }
    names = get_annotations(cls, format=Format.FORWARDREF)
    return [name for name in names if not (is_typeddict(cls) and name in inherited)]


def type_arguments_by_class(tp: Any) -> dict[type, dict[Any, Any]]:
    """For each class in the ancestry, what its type variables stand for."""
    found: dict[type, dict[Any, Any]] = {}

    def visit(tp: Any, outer: Mapping[Any, Any]) -> None:
        cls = get_origin(tp) or tp
        if not isinstance(cls, type):
            return
        parameters = getattr(cls, "__parameters__", ())
        arguments = [substitute(argument, outer) for argument in get_args(tp)]
        own = dict(zip(parameters, arguments, strict=False))
        found.setdefault(cls, own)
        for base in getattr(cls, "__orig_bases__", ()):
            visit(base, own)

    visit(tp, {})
    return found


_QUALIFIERS = (
    typing_extensions.Required,
    typing_extensions.NotRequired,
    typing_extensions.ReadOnly,
    typing_extensions.Final,
)


@dataclass(frozen=True, slots=True)
class Description:
    """What a value means, for the model: ``Annotated[int, Description("in metres")]``."""

    text: str


@dataclass(frozen=True)
class Target:
    """One type to be read.

    ``tp`` is the type without aliases, NewType and Annotated; ``metadata`` what Annotated held
    (outermost last); ``path`` says what it is a part of, from the inside out (``""`` at the root);
    ``namespace`` holds local names that string annotations may use, ``scope`` besides them those of the
    module of the alias around it; a class knows those of its own module.
    """

    type: Any
    metadata: tuple[Any, ...] = ()
    path: str = ""
    namespace: Mapping[str, Any] = field(default_factory=dict, compare=False)
    alias: str | None = field(default=None, compare=False)
    scope: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(
        tp: Any,
        path: str = "",
        namespace: Mapping[str, Any] | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> Target:
        """Take aliases, NewType, Annotated, qualifiers and forward references off a type."""
        metadata: tuple[Any, ...] = ()
        alias: str | None = None
        names = namespace or {}
        known = names if scope is None else scope
        for _ in range(100):  # an alias of itself has no end
            origin = get_origin(tp)
            if origin is Annotated:
                metadata = tp.__metadata__ + metadata
                tp = tp.__origin__
            elif origin in _QUALIFIERS:
                (tp,) = get_args(tp)
            elif isinstance(tp, (str, ForwardRef)):
                tp = _resolve(tp, known, path)
            elif isinstance(tp, NewType):
                tp = tp.__supertype__
            elif _is_alias(origin):
                known = _around(origin, known, names)
                arguments = dict(zip(origin.__type_params__, get_args(tp), strict=True))
                tp = substitute(origin.__value__, arguments)
            elif _is_alias(tp):
                known, alias = _around(tp, known, names), alias or tp.__name__
                tp = tp.__value__
            elif isinstance(tp, TypeVar):
                tp = _bound(tp, path)
            else:
                return Target(None if tp is types.NoneType else tp, metadata, path, names, alias, known)
        raise UnsupportedTypeError(type_name(tp), path, ["type aliases"], "it stands for itself")

    @property
    def origin(self) -> Any:
        """``list`` for ``list[int]``, ``Union`` for both spellings of a union, the class for a class."""
        origin = get_origin(self.type)
        return Union if origin is types.UnionType else origin or self.type

    @property
    def name(self) -> str:
        """The name of the alias that it was written with, else the type as its user would write it."""
        return self.alias or type_name(self.type)

    @property
    def args(self) -> tuple[Any, ...]:
        return get_args(self.type)

    @property
    def description(self) -> str | None:
        """What was said about it nearest to its use: Description, Field(description=…) or Doc."""
        for item in reversed(self.metadata):
            if isinstance(item, Description):
                return item.text
            said = getattr(item, "description", None) or getattr(item, "documentation", None)
            if isinstance(said, str):
                return said
        return None

    def child(self, tp: Any, field: str | None = None) -> Target:
        """The target of a part: of a field by its name; of an item, a key or a member of a union without."""
        here = type_name(self.type) + (f".{field}" if field else "")
        return Target.of(tp, f"{here}, in {self.path}" if self.path else here, self.namespace, self.scope)

    @property
    def annotated(self) -> Any:
        """The type with what Annotated held, as it was written but for aliases."""
        return Annotated[(self.type, *self.metadata)] if self.metadata else self.type


def type_name(tp: Any) -> str:
    """A type as its user would write it."""
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
        inside = ", ".join("..." if a is ... else _argument_name(a) for a in arguments)
        return f"{name}[{inside}]"
    name = getattr(tp, "__name__", None) or getattr(tp, "_name", None)
    return name if isinstance(name, str) else repr(tp)


def _argument_name(argument: Any) -> str:
    if isinstance(argument, (str, int, bytes)) or (argument is not None and not _is_type(argument)):
        return repr(argument)
    return type_name(argument)


def _is_type(argument: Any) -> bool:
    return (
        isinstance(argument, (type, TypeVar))
        or get_origin(argument) is not None
        or hasattr(argument, "__name__")
        or argument is Any
    )


def _is_alias(tp: Any) -> bool:
    if isinstance(tp, typing_extensions.TypeAliasType):
        return True
    builtin = getattr(sys.modules["typing"], "TypeAliasType", None)
    return builtin is not None and isinstance(tp, builtin)


def _around(alias: Any, outer: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the value of an alias may use: local, its own, its module's, then those around it."""
    module = sys.modules.get(getattr(alias, "__module__", None) or "")
    return {**outer, **(vars(module) if module else {}), alias.__name__: alias, **names}


def _resolve(tp: str | ForwardRef, namespace: Mapping[str, Any], path: str) -> Any:
    text = tp if isinstance(tp, str) else tp.__forward_arg__
    module = None if isinstance(tp, str) else tp.__forward_module__
    known = dict(vars(sys.modules[module])) if isinstance(module, str) and module in sys.modules else {}
    try:
        return eval(text, {**vars(types), **vars(sys.modules["typing"]), **known, **namespace})
    except Exception as error:
        raise UnsupportedTypeError(repr(text), path, ["forward references"], str(error)) from error


def _bound(tp: TypeVar, path: str) -> Any:
    if tp.__bound__ is not None:
        return tp.__bound__
    if tp.__constraints__:
        return Union[tp.__constraints__]  # noqa: UP007  # a tuple of forms cannot be written with |
    raise UnsupportedTypeError(
        str(tp), path, ["type variables"], "it stands for nothing here; write the type in its place"
    )


_NOT_THE_USERS = ("builtins", "enum", "msgspec", "pydantic", "typing", "typing_extensions")


def attribute_docs(cls: type) -> dict[str, str]:
    """What is said under each attribute of a class and of its bases; empty where there is no source."""
    docs: dict[str, str] = {}
    for base in base_classes(cls):
        if base.__module__.partition(".")[0] not in _NOT_THE_USERS:
            docs |= _docs_in(base.__module__).get(base.__qualname__, {})
    return docs


@lru_cache(maxsize=256)
def _docs_in(module: str) -> dict[str, dict[str, str]]:
    """For each class of a module, by its qualified name, its attributes' docstrings."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return {name: docs for name, body in _classes(tree, "") if (docs := _docs_of(body))}


def _classes(tree: ast.AST, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node.body
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.stmt):
            yield from _classes(node, prefix)


def _docs_of(body: list[ast.stmt]) -> dict[str, str]:
    docs: dict[str, str] = {}
    for statement, following in pairwise(body):
        if not isinstance(following, ast.Expr) or not isinstance(following.value, ast.Constant):
            continue
        targets: list[Any] = getattr(statement, "targets", [getattr(statement, "target", None)])
        if isinstance(following.value.value, str) and isinstance(targets[0], ast.Name):
            docs[targets[0].id] = inspect.cleandoc(following.value.value)
    return docs


Int8: TypeAlias = Annotated[int, Interval(ge=-(2**7), le=2**7 - 1)]
Int16: TypeAlias = Annotated[int, Interval(ge=-(2**15), le=2**15 - 1)]
Int32: TypeAlias = Annotated[int, Interval(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, Interval(ge=-(2**63), le=2**63 - 1)]
