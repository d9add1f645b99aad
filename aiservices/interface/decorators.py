"""Decorators for service interfaces and methods, and markers for parameters, such as MemoryId.

The decorators only store their arguments. ``service.compile`` reads them when a service is created. This
module also finds the methods without a body in an interface, and resolves the names in their type hints.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections import ChainMap
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast, get_origin
from weakref import WeakKeyDictionary

from typing_extensions import Format, get_annotations

from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.requests import ChatOptions

if TYPE_CHECKING:
    from output_parsers.result.reading import Leniency


F = TypeVar("F", bound=Callable[..., object])
C = TypeVar("C", bound=type)
Decorated = TypeVar("Decorated", bound=Callable[..., object])

_ATTRIBUTE = "__aiservices_declaration__"
_PROMPT_ATTRIBUTE = "__aiservices_prompt__"
# The decorators that a method or class can have once, by the field that they set.
_ONCE = {"user": "user_message", "system": "system_message"}
# Declarations of classes are not stored as attributes. An attribute would become a member of a Protocol, and
# isinstance would then require it of the fakes in users' tests.
_INTERFACES: WeakKeyDictionary[type, Declaration] = WeakKeyDictionary()


class MemoryId:
    """Marks the parameter that contains the conversation id: ``Annotated[str, MemoryId]``."""


class UserName:
    """Marks the parameter of a method that contains the user's name: ``Annotated[str, UserName]``."""


class CallId:
    """Marks the parameter of a method that is the id of a durable call: ``Annotated[str, CallId]``.

    The model does not see it. A call with the same id continues, or returns the stored answer; see
    ``Durable``.
    """


class History:
    """Marks a method parameter that receives earlier messages: ``Annotated[list[Message], History]``."""


class ToolContext:
    """Marks a method parameter that tools, retrievers and listeners can read, but the model cannot."""


class Tools:
    """Marks a method parameter that adds tools to a single call: ``Annotated[Sequence[Any], Tools]``."""


class CallContext:
    """The base class of ``Invocation``; a tool parameter of this type receives the current service call."""

    __slots__ = ()


class TemplateSource(NamedTuple):
    """A prompt template before compilation: its text, or the name of its file.

    Attributes:
        text: The template itself; None if it is in a file.
        file: The path of the file.
        declared_in: The declaring module's file. ``file``, and the files that the template
            includes, are relative to its folder.
    """

    text: str | None = None
    file: str | None = None
    declared_in: str | None = None


class ExampleSource(NamedTuple):
    """A few-shot example from the decorator ``@example``: method arguments with the expected result."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    value: object


SystemSource: TypeAlias = TemplateSource | Callable[..., str | Awaitable[str | None] | None]


@dataclass(frozen=True, slots=True)
class Declaration:
    """The settings that decorators like ``@system_message`` declare for a service method or interface.

    Attributes:
        user: The template of the user message.
        system: The system message: a template or a function.
        options: Options of the requests.
        model: The model to ask.
        strategy: How structured output is requested.
        leniency: How far answers may deviate from the requested format.
        namespace: Names for string annotations, from the scopes around the declaration.
        examples: Few-shot examples.
        tools: The tools that replace those of the service.
        call_settings: Settings of ``create`` for the method or interface, by name, such as the interceptors.
    """

    user: TemplateSource | None = None
    system: SystemSource | None = None
    options: ChatOptions | None = None
    model: ChatModel | str | None = None
    strategy: Strategy | str | None = None
    leniency: Leniency | None = None
    namespace: Mapping[str, object] = field(default_factory=dict)
    examples: tuple[ExampleSource, ...] = ()
    tools: tuple[object, ...] | None = None
    call_settings: Mapping[str, Any] = field(default_factory=dict)


def user_message(template: str | None = None, *, from_file: str | Path | None = None) -> Callable[[F], F]:
    """Decorator that sets the user message of a service method as a Jinja2 template.

    ``{{it}}`` is the only argument. ``{{format_instructions}}``, ``{{current_date}}``, ``{{current_time}}``
    and ``{{current_date_time}}`` are always available. ``{% include "rules.txt" %}``
    inserts a file, relative to the folder of the module that declares the method::

        @user_message("Translate {{text}} into {{language}}.")
        def translate(self, text: str, language: str) -> str: ...

    Args:
        template: The template.
        from_file: A file with the template instead, relative to the module that declares the method.
    """
    return declare(user=_source("user_message", template, from_file))


def system_message(
    template: str | Callable[..., str | Awaitable[str | None] | None] | None = None,
    *,
    from_file: str | Path | None = None,
) -> Callable[[Decorated], Decorated]:
    """Decorator that sets the system message of a service method, or of all methods of an interface.

    Args:
        template: A template as in ``user_message``, or a function that returns the text, or None for no
            system message. The function gets the arguments of the call that have the names of its parameters.
        from_file: A file with the template instead, relative to the module that declares the method.
    """
    source: SystemSource
    if callable(template):
        if from_file is not None:
            raise TypeError("system_message takes one of a template, a callable and from_file")
        source = template
    else:
        source = _source("system_message", template, from_file)
    return declare(system=source)


def example(*args: object, returns: object, **kwargs: object) -> Callable[[F], F]:
    """Decorator that adds a few-shot example to a service method: arguments and the expected result.

    Examples are put before the question, in the order in which they are written and in the requested output
    format. ``create`` checks that they fit the method.

    Args:
        *args: The arguments of the call, without parameters that have a role.
        returns: The result; for ``Iterator[Item]`` the list of the items.
        **kwargs: More arguments, by name.
    """

    def decorate(function: F) -> F:
        declaration = declaration_of(function)
        source = ExampleSource(args, kwargs, returns)
        # Decorators run from the bottom up, so this example is written before those that are already stored.
        _store(dataclasses.replace(declaration, examples=(source, *declaration.examples)), function)
        return function

    return decorate


def structured_prompt(
    template: str | None = None, *, from_file: str | Path | None = None
) -> Callable[[C], C]:
    """Decorator that sets the prompt template for objects of a class.

    The class is a dataclass or a pydantic model, and the template uses its fields::

        @structured_prompt("Create a recipe of a {{dish}}.")
        @dataclass
        class CreateRecipe:
            dish: str

    Several structured prompts in a list or in ``*args`` become paragraphs. ``from_file`` is the path of a
    file with the template, as in ``user_message``.
    """
    source = _source("structured_prompt", template, from_file)

    def decorate(cls: C) -> C:
        if _PROMPT_ATTRIBUTE in vars(cls):
            raise _repeated("structured_prompt", cls)
        setattr(cls, _PROMPT_ATTRIBUTE, source)
        return cls

    return decorate


def structured_prompt_of(cls: object) -> TemplateSource | None:
    """Return the prompt template that ``@structured_prompt`` set for a class, or None."""
    source = getattr(cls, _PROMPT_ATTRIBUTE, None)
    return source if isinstance(source, TemplateSource) else None


def declaration_of(decorated: object) -> Declaration:
    """Return the settings that this library's decorators stored on a function or class.

    A class without decorators has the declaration of its nearest decorated base class.
    """
    if isinstance(decorated, type):
        declaration = next((_INTERFACES[cls] for cls in decorated.__mro__ if cls in _INTERFACES), None)
    else:
        declaration = getattr(decorated, _ATTRIBUTE, None)
    # Any object may have an attribute of this name, for example a proxy that has all attributes.
    return declaration if isinstance(declaration, Declaration) else Declaration()


def _source(decorator: str, template: str | None, from_file: str | Path | None) -> TemplateSource:
    if (template is None) == (from_file is None):
        raise TypeError(f"{decorator} takes either a template or from_file")
    declared_in = sys._getframe(2).f_globals.get("__file__")
    if from_file is not None:
        return TemplateSource(file=str(from_file), declared_in=declared_in)
    if not isinstance(template, str):
        raise TypeError(f"{decorator} takes its template as a str, not {type(template).__name__}")
    return TemplateSource(template, declared_in=declared_in)


def _own_declaration(decorated: object) -> Declaration:
    """Return the settings that decorators stored on a function or class, without those of base classes."""
    if isinstance(decorated, type):
        return _INTERFACES.get(decorated, Declaration())
    return declaration_of(decorated)


def _repeated(decorator: str, decorated: object) -> DefinitionError:
    """Create the error for a decorator that was applied twice to the same method or class."""
    name = getattr(decorated, "__qualname__", type(decorated).__name__).rpartition("<locals>.")[2]
    location = ".".join(name.split(".")[-2:])
    return DefinitionError([DefinitionProblem(location, f"it has @{decorator} twice; keep one of them")])


def _store(declaration: Declaration, decorated: object) -> None:
    if isinstance(decorated, type):
        _INTERFACES[decorated] = declaration
    else:
        setattr(decorated, _ATTRIBUTE, declaration)


def declare(**settings: Any) -> Callable[[Decorated], Decorated]:
    """Create a decorator that stores settings (fields of a Declaration) for a method or an interface.

    Values that are None are left out. The function that calls this one must be called by the user's code.
    """
    frame = sys._getframe(2)  # of the module, class or function that contains the decorator

    def decorate(decorated: Decorated) -> Decorated:
        earlier = declaration_of(decorated)
        own = _own_declaration(decorated)
        for name, decorator in _ONCE.items():
            if name in settings and getattr(own, name) is not None:
                raise _repeated(decorator, decorated)
        local_names = enclosing_names(frame, decorated)
        changes = {name: value for name, value in settings.items() if value is not None}
        if "options" in changes:
            changes["options"] = changes["options"].with_defaults(earlier.options)
        if "call_settings" in changes:
            changes["call_settings"] = {**earlier.call_settings, **changes["call_settings"]}
        merged = dataclasses.replace(earlier, namespace={**earlier.namespace, **local_names}, **changes)
        _store(merged, decorated)
        return decorated

    return cast(Callable[[Decorated], Decorated], decorate)


# --- Methods without a body, and names in type hints ---


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
    """Return all strings in a function that raises NotImplementedError, to recognize an error message.

    There, a string is the error's message. In other functions it may be a return value.
    """
    raises = "NotImplementedError" in code.co_names
    return [constant for constant in code.co_consts if raises and isinstance(constant, str)]


@cache
def _stub_codes(asynchronous: bool, documented: bool) -> frozenset[bytes]:
    """Return the bytecode of each kind of empty function body, such as ``...`` and ``pass``.

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


def enclosing_names(frame: FrameType | None, *objects: object) -> dict[str, object]:
    """Return the local variables of enclosing functions to which quoted type hints may refer.

    A frame only counts if its code contains one of the functions, because variables of other callers must
    never be used as types. No reference to a frame is stored.
    """
    functions = [thing for thing in objects if isinstance(thing, FunctionType)]
    pending: list[object] = [function for function in functions if _mentioned(function)]
    scopes = [scope for function in functions for scope in _scopes(function)] if pending else []
    spaces: list[dict[str, object]] = []
    while frame is not None and scopes:
        if (frame.f_code.co_qualname, id(frame.f_globals)) in scopes:
            spaces.append(frame.f_locals)
        frame = frame.f_back
    values, names = ChainMap(*spaces), dict[str, object]()
    while pending:
        for name in _mentioned(pending.pop()) - names.keys():
            if name in values:
                names[name] = values[name]
                pending.append(values[name])  # the annotations of a record may mention others
    return names


def names_in_hints(interface: object) -> dict[str, object]:
    """Return the objects that an interface's type hints refer to, if the interface is pickled by value.

    Interfaces of the main module, and interfaces inside functions, are pickled by value: another process
    cannot import them, so the copy there needs the named objects.
    """
    cls = get_origin(interface) or interface
    if not isinstance(cls, type) or (cls.__module__ != "__main__" and "<locals>" not in cls.__qualname__):
        return {}
    names: dict[str, object] = {}
    space = vars(sys.modules[cls.__module__])
    pending: list[object] = [attribute for _, _, attribute in methods_of(cls)]
    while pending:
        for name in (_mentioned(pending.pop()) & space.keys()) - names.keys():
            names[name] = space[name]
            pending.append(space[name])
    return names


def _scopes(function: FunctionType) -> list[tuple[str, int]]:
    """Return the names of the functions and classes in which a function is nested.

    Each is paired with the id of the globals, because other modules may contain the same names.
    """
    parts = function.__qualname__.split(".")
    functions = [".".join(parts[:index]) for index, part in enumerate(parts) if part == "<locals>"]
    return [(name, id(function.__globals__)) for name in (*functions, ".".join(parts[:-1]))]


def _mentioned(thing: object) -> set[str]:
    """Return the names that appear in quoted type hints of a function or class, such as ``"list[Item]"``."""
    if not isinstance(thing, (type, FunctionType)):
        return set()
    annotations = get_annotations(thing, format=Format.FORWARDREF)
    texts = [repr(value) for value in annotations.values() if not isinstance(value, type)]
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
