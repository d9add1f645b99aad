"""Find the methods without a body in a service interface, and resolve names in their type hints."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType, FunctionType
from typing import Any, Generic, Protocol, get_origin

from typing_extensions import Format, get_annotations

_BODIES = (
    "...",
    "pass",
    "return",
    "raise NotImplementedError",
    "raise NotImplementedError()",
    "raise NotImplementedError('…')",
)


def methods_of(interface: type) -> Iterator[tuple[str, type, Any]]:
    """Yield the name, defining class and value of each attribute of a service interface.

    Overridden attributes and special methods are left out.
    """
    seen: set[str] = set()
    for cls in interface.__mro__:
        if cls in (object, Protocol, Generic) or cls.__module__ in ("typing", "typing_extensions"):
            continue
        for name, attribute in vars(cls).items():
            # ``__call__`` is a method like any other, and ABCMeta adds names with the prefix ``_abc_``.
            dunder = name.startswith("__") and name.endswith("__") and name != "__call__"
            if name not in seen and not dunder and not name.startswith("_abc_"):
                seen.add(name)
                yield name, cls, attribute


def has_own_init(interface: type) -> bool:
    """Return True if a class that is not a Protocol defines or inherits an ``__init__`` written in Python."""
    init = interface.__init__  # type: ignore[misc]  # it is inspected, not called
    own = isinstance(init, FunctionType) and init.__module__ not in ("typing", "typing_extensions")
    return own and not getattr(interface, "_is_protocol", False)


def attributes_without_value(interface: type) -> Iterator[str]:
    """Yield the names of attributes that a service interface only annotates, such as ``x: int``."""
    for cls in interface.__mro__:
        if cls in (object, Protocol, Generic):
            continue
        for name, hint in get_annotations(cls, format=Format.FORWARDREF).items():
            constant = "ClassVar" in str(hint)
            if not constant and not hasattr(interface, name):
                yield name


def is_stub(function: object) -> bool:
    """Return True if a function's body is ``...``, ``pass``, a docstring or ``raise NotImplementedError``."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    # Equal bytecode may return different constants, so these are compared, too.
    stub_constants = [None, ..., function.__doc__, *_messages(code)]
    if any(not any(constant is one for one in stub_constants) for constant in code.co_consts):
        return False
    if code.co_names not in ((), ("NotImplementedError",)):
        return False
    documented = function.__doc__ is not None
    return code.co_code in _stub_codes(inspect.iscoroutinefunction(function), documented)


def _messages(code: CodeType) -> list[object]:
    """Return the string constants in a function that raises NotImplementedError, such as its message.

    There, a string is the error's message. In other functions it may be a return value.
    """
    raises = "NotImplementedError" in code.co_names
    return [constant for constant in code.co_consts if raises and isinstance(constant, str)]


@cache
def _stub_codes(asynchronous: bool, documented: bool) -> frozenset[bytes]:
    """Return the bytecodes of all forms of empty function bodies, such as ``...`` and ``pass``.

    The bytecode does not depend on a function's parameters.
    """
    define = "async def stub():" if asynchronous else "def stub():"
    bodies = [f"'doc'\n {body}" for body in (*_BODIES, "")] if documented else _BODIES
    codes = set()
    for body in bodies:
        space: dict[str, Any] = {}
        exec(f"{define}\n {body}\n", space)
        codes.add(space["stub"].__code__.co_code)
    return frozenset(codes)


def enclosing_names(frame: FrameType | None, *objects: object) -> dict[str, Any]:
    """Return the local variables of enclosing functions to which quoted type hints may refer.

    A frame only counts if its code contains one of the functions, because variables of other callers must
    never be used as types. No reference to a frame is stored.
    """
    functions = [thing for thing in objects if isinstance(thing, FunctionType)]
    wanted: list[object] = [function for function in functions if _mentioned(function)]
    scopes = [scope for function in functions for scope in _scopes(function)] if wanted else []
    spaces: list[dict[str, object]] = []
    while frame is not None and scopes:
        if (frame.f_code.co_qualname, id(frame.f_globals)) in scopes:
            spaces.append(frame.f_locals)
        frame = frame.f_back
    names: dict[str, object] = {}
    while wanted and spaces:
        for name in _mentioned(wanted.pop()) - names.keys():
            space = next((space for space in spaces if name in space), None)
            if space is not None:
                names[name] = space[name]
                wanted.append(space[name])  # the annotations of a record may mention others
    return names


def names_in_hints(interface: object) -> dict[str, Any]:
    """Return the objects that an interface's type hints name, if the interface is pickled by value.

    Interfaces of the main module, and interfaces inside functions, are pickled by value: another process
    cannot import them, so the copy there needs the named objects.
    """
    cls = get_origin(interface) or interface
    if not isinstance(cls, type) or (cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__):
        return {}
    names: dict[str, object] = {}
    space = vars(sys.modules[cls.__module__])
    wanted: list[object] = [attribute for _, _, attribute in methods_of(cls)]
    while wanted:
        for name in (_mentioned(wanted.pop()) & space.keys()) - names.keys():
            names[name] = space[name]
            wanted.append(space[name])
    return names


def _scopes(function: FunctionType) -> list[tuple[str, int]]:
    """Return the names of the functions and classes in which a function is nested.

    Each is paired with the id of the globals, because other modules may contain the same names.
    """
    parts = function.__qualname__.split(".")
    functions = [".".join(parts[:index]) for index, part in enumerate(parts) if part == "<locals>"]
    return [(name, id(function.__globals__)) for name in (*functions, ".".join(parts[:-1]))]


def _mentioned(thing: object) -> set[str]:
    """Return the names in the quoted type hints of a function or class, such as ``"list[Item]"``."""
    if not isinstance(thing, (type, FunctionType)):
        return set()
    annotations = get_annotations(thing, format=Format.FORWARDREF)
    texts = [repr(value) for value in annotations.values() if not isinstance(value, type)]
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
