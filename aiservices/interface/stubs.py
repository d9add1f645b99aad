"""Finds the methods of an interface that are to be implemented: those whose body says nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType, FunctionType
from typing import Any, Generic, Protocol

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
    """Each attribute of an interface with the class that defines it, overridden ones left out."""
    seen: set[str] = set()
    for cls in interface.__mro__:
        if cls in (object, Protocol, Generic) or cls.__module__ in ("typing", "typing_extensions"):
            continue
        for name, attribute in vars(cls).items():
            dunder = name.startswith("__") and name.endswith("__") and name != "__call__"
            if name not in seen and not dunder and not name.startswith("_abc_"):
                seen.add(name)
                yield name, cls, attribute


def has_own_init(interface: type) -> bool:
    """Whether a class says how its objects are made; a Protocol never does."""
    made = interface.__init__  # type: ignore[misc]  # it is looked at, not called
    own = isinstance(made, FunctionType) and made.__module__ not in ("typing", "typing_extensions")
    return own and not getattr(interface, "_is_protocol", False)


def attributes_without_value(interface: type) -> Iterator[str]:
    """The names that an interface annotates and gives no value: a service cannot have them."""
    for cls in interface.__mro__:
        if cls in (object, Protocol, Generic):
            continue
        for name, hint in get_annotations(cls, format=Format.FORWARDREF).items():
            constant = "ClassVar" in str(hint)
            if not constant and not hasattr(interface, name):
                yield name


def is_stub(function: object) -> bool:
    """Whether a body is ``...``, ``pass``, a docstring or ``raise NotImplementedError``, and no more."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    allowed = [None, ..., function.__doc__, *_messages(code)]
    if any(not any(constant is known for known in allowed) for constant in code.co_consts):
        return False
    if code.co_names not in ((), ("NotImplementedError",)):
        return False
    documented = function.__doc__ is not None
    return code.co_code in _stub_codes(inspect.iscoroutinefunction(function), documented)


def _messages(code: CodeType) -> list[Any]:
    """Texts that may stand in a raise; where nothing is raised, any text would be a value returned."""
    raises = "NotImplementedError" in code.co_names
    return [constant for constant in code.co_consts if raises and isinstance(constant, str)]


@cache
def _stub_codes(asynchronous: bool, documented: bool) -> frozenset[bytes]:
    """The bytecode of every stub: what a body compiles to does not depend on the parameters."""
    define = "async def stub():" if asynchronous else "def stub():"
    bodies = [f"'doc'\n {body}" for body in (*_BODIES, "")] if documented else _BODIES
    codes = set()
    for body in bodies:
        space: dict[str, Any] = {}
        exec(f"{define}\n {body}\n", space)
        codes.add(space["stub"].__code__.co_code)
    return frozenset(codes)


def enclosing_names(frame: FrameType | None, *written: object) -> dict[str, Any]:
    """The names that string annotations may use where functions were written: those of the scopes around.

    A frame counts when a function stands in its code, so that what callers have in their variables is
    never taken for a type. Only names that the annotations mention are kept, and no frame stays alive.
    """
    functions = [thing for thing in written if isinstance(thing, FunctionType)]
    wanted: list[object] = [function for function in functions if _mentioned(function)]
    scopes = [scope for function in functions for scope in _scopes(function)] if wanted else []
    spaces: list[dict[str, Any]] = []
    while frame is not None and scopes:
        if (frame.f_code.co_qualname, id(frame.f_globals)) in scopes:
            spaces.append(frame.f_locals)
        frame = frame.f_back
    found: dict[str, Any] = {}
    while wanted and spaces:
        for name in _mentioned(wanted.pop()) - found.keys():
            space = next((space for space in spaces if name in space), None)
            if space is not None:
                found[name] = space[name]
                wanted.append(space[name])  # a record may mention others
    return found


def _scopes(function: FunctionType) -> list[tuple[str, int]]:
    """The code around a function: the functions that it is local to, and the body of its class."""
    parts = function.__qualname__.split(".")
    around = [".".join(parts[:at]) for at, part in enumerate(parts) if part == "<locals>"]
    return [(name, id(function.__globals__)) for name in (*around, ".".join(parts[:-1]))]


def _mentioned(thing: object) -> set[str]:
    """The names in annotations that are, or hold, text."""
    if not isinstance(thing, (type, FunctionType)):
        return set()
    annotations = get_annotations(thing, format=Format.FORWARDREF)
    texts = [repr(value) for value in annotations.values() if not isinstance(value, type)]
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
