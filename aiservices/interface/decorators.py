"""What a user writes on an interface: prompts, options and the roles of parameters."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from ..models.base import ChatModel
from ..models.requests import ChatOptions
from ..models.strategy import Strategy
from .stubs import enclosing_names

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_ATTRIBUTE = "__aiservices_declaration__"
_PROMPT_ATTRIBUTE = "__aiservices_prompt__"
# What was said of an interface is kept beside it: an attribute would be a member of a Protocol, which
# isinstance would then look for in a user's fake.
_INTERFACES: WeakKeyDictionary[type, Declaration] = WeakKeyDictionary()


class MemoryId:
    """Role of a parameter: which conversation this call belongs to. ``Annotated[str, MemoryId]``."""


class UserName:
    """Role of a parameter: the name of the user who speaks. ``Annotated[str, UserName]``."""


class History:
    """Role of a parameter: messages said before this one. ``Annotated[list[Message], History]``."""


class ToolContext:
    """Role of a parameter: a value for tools, retrievers and listeners that the model never sees."""


class TemplateSource(NamedTuple):
    """A prompt template as it was written: its text, or the file that holds it.

    ``beside`` is the file of the module that declares it, from whose folder the path of ``file`` goes.
    """

    text: str | None = None
    file: str | None = None
    beside: str | None = None


class ExampleSource(NamedTuple):
    """An example as it was written: the arguments of a call, and what it is to give."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    value: Any


SystemSource: TypeAlias = TemplateSource | Callable[..., str]


@dataclass(frozen=True, slots=True)
class Declaration:
    """All that decorators said about one method or interface."""

    user: TemplateSource | None = None
    system: SystemSource | None = None
    options: ChatOptions | None = None
    model: ChatModel | str | None = None
    strategy: Strategy | str | None = None
    namespace: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[ExampleSource, ...] = ()
    tools: tuple[Any, ...] | None = None


def user_message(template: str | None = None, *, from_file: str | Path | None = None) -> Callable[[F], F]:
    """The user message of a method, as a Jinja2 template: ``"Translate {{text}} into {{language}}"``.

    ``from_file`` names a file beside the module that declares the method. ``{{it}}`` is the only
    argument; ``{{format_instructions}}``, ``{{current_date}}``, ``{{current_time}}`` and
    ``{{current_date_time}}`` are always known. The function comes back unchanged.
    """
    return _declare(user=_source("user_message", template, from_file))


def system_message(
    template: str | Callable[..., str] | None = None, *, from_file: str | Path | None = None
) -> Callable[[Decorated], Decorated]:
    """The system message of a method, or of all methods of an interface that have none of their own.

    A template as in ``user_message``, or a callable that is given the arguments which it names and
    returns the text as it is to be sent.
    """
    source: SystemSource
    if callable(template):
        if from_file is not None:
            raise TypeError("system_message takes a template, a callable or from_file: one of them")
        source = template
    else:
        source = _source("system_message", template, from_file)
    return _declare(system=source)


def options(
    *,
    model: ChatModel | str | None = None,
    strategy: Strategy | str | None = None,
    tools: Sequence[Any] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: str | tuple[str, ...] | list[str] | None = None,
    seed: int | None = None,
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None,
    timeout: float | None = None,
    extra_body: Mapping[str, Any] | None = None,
    extra_headers: Mapping[str, str] | None = None,
) -> Callable[[Decorated], Decorated]:
    """How one method, or each method of an interface, is asked; see ChatOptions. ``timeout`` is in seconds.

    ``model`` is a ChatModel or a string such as ``"openai:NAME"``; ``strategy`` how structure is asked for;
    ``tools`` what the model may call, in the place of the tools of the service.
    """
    chosen = ChatOptions(
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        stop=(stop,) if isinstance(stop, str) else None if stop is None else tuple(stop),
        seed=seed,
        reasoning_effort=reasoning_effort,
        timeout=timeout,
        extra_body=extra_body,
        extra_headers=extra_headers,
    )
    given = None if tools is None else tuple(tools)
    return _declare(options=chosen, model=model, strategy=strategy, tools=given)


def example(*args: Any, returns: Any, **kwargs: Any) -> Callable[[F], F]:
    """Show the model what a method gives: ``@example("It's awful!", returns=False)``.

    The arguments are those of a call, without what has a role of its own; ``returns`` is the value, of an
    ``Iterator[Item]`` the list of the items. Examples are put before the question in the order in which
    they are written, in the form in which the answer is wanted. ``create`` checks that they fit.
    """

    def decorate(function: F) -> F:
        known = declaration_of(function)
        source = ExampleSource(args, kwargs, returns)
        _keep(dataclasses.replace(known, examples=(source, *known.examples)), function)
        return function

    return decorate


def structured_prompt(
    template: str | None = None, *, from_file: str | Path | None = None
) -> Callable[[C], C]:
    """Make a dataclass or model a prompt: where it is rendered, its template is, with its fields.

    ``@structured_prompt("Create a recipe of a {{dish}}")`` on a class with a field ``dish``.
    """
    source = _source("structured_prompt", template, from_file)

    def decorate(cls: C) -> C:
        setattr(cls, _PROMPT_ATTRIBUTE, source)
        return cls

    return decorate


def structured_prompt_of(cls: object) -> TemplateSource | None:
    """The template of a structured prompt class; None for all others."""
    found = getattr(cls, _PROMPT_ATTRIBUTE, None)
    return found if isinstance(found, TemplateSource) else None


def declaration_of(decorated: object) -> Declaration:
    """What was declared on a function, or on a class or the nearest of its bases; empty when nothing was."""
    if isinstance(decorated, type):
        found = next((_INTERFACES[cls] for cls in decorated.__mro__ if cls in _INTERFACES), None)
    else:
        found = getattr(decorated, _ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else Declaration()


def _source(decorator: str, template: str | None, from_file: str | Path | None) -> TemplateSource:
    if (template is None) == (from_file is None):
        raise TypeError(f"{decorator} takes a template or from_file: one of them")
    if from_file is not None:
        return TemplateSource(file=str(from_file), beside=sys._getframe(2).f_globals.get("__file__"))
    if not isinstance(template, str):
        raise TypeError(f"{decorator} takes its template as a str, not {type(template).__name__}")
    return TemplateSource(template)


def _keep(declaration: Declaration, decorated: object) -> None:
    if isinstance(decorated, type):
        _INTERFACES[decorated] = declaration
    else:
        setattr(decorated, _ATTRIBUTE, declaration)


def _declare(**said: Any) -> Callable[[Decorated], Decorated]:
    frame = sys._getframe(2)

    def decorate(decorated: Decorated) -> Decorated:
        known = declaration_of(decorated)
        around = enclosing_names(frame, decorated)
        news = {name: value for name, value in said.items() if value is not None}
        if "options" in news:
            news["options"] = news["options"].with_defaults(known.options)
        merged = dataclasses.replace(known, namespace={**known.namespace, **around}, **news)
        _keep(merged, decorated)
        return decorated

    return cast(Callable[[Decorated], Decorated], decorate)
