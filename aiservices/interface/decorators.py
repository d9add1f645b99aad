"""Decorators for service interfaces and methods, and markers for parameters, such as MemoryId.

The decorators only store their arguments. ``service.compile`` reads them when a service is created.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.requests import ChatOptions
from ..models.strategy import Strategy
from .stubs import enclosing_names

if TYPE_CHECKING:
    from output_parsers.result.reading import Leniency

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

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


class History:
    """Marks a method parameter that contains the earlier messages: ``Annotated[list[Message], History]``."""


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

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    value: Any


SystemSource: TypeAlias = TemplateSource | Callable[..., str | None]


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
    namespace: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[ExampleSource, ...] = ()
    tools: tuple[Any, ...] | None = None
    call_settings: Mapping[str, Any] = field(default_factory=dict)


def user_message(template: str | None = None, *, from_file: str | Path | None = None) -> Callable[[F], F]:
    """Decorator that sets the user message of a service method as a Jinja2 template.

    ``{{it}}`` stands for the only argument. ``{{format_instructions}}``, ``{{current_date}}``,
    ``{{current_time}}`` and ``{{current_date_time}}`` are always available. ``{% include "rules.txt" %}``
    inserts a file, relative to the folder of the module that declares the method::

        @user_message("Translate {{text}} into {{language}}.")
        def translate(self, text: str, language: str) -> str: ...

    Args:
        template: The template.
        from_file: A file with the template instead, relative to the module that declares the method.
    """
    return declare(user=_source("user_message", template, from_file))


def system_message(
    template: str | Callable[..., str | None] | None = None, *, from_file: str | Path | None = None
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
    # Anything may be called like the attribute, for example on a proxy that has all attributes.
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
