"""Puts contents into what a user said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..declare import TemplateSource
from ..errors import DefinitionError, Fault
from ..prompts import Prompt, TemplateFault, compile_prompt
from .content import Content

__all__ = ["Injection", "Injector", "listed"]

_TEMPLATE = "{{user_message}}\n\nAnswer using the following information:\n{{information}}"
_KNOWN = frozenset({"user_message", "information", "contents"})


class Injector(Protocol):
    """Gives the text of the user message with the contents in it; there is at least one."""

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str: ...


@dataclass(frozen=True, slots=True)
class Injection:
    """Renders a template of ``user_message``, ``information`` (the contents, listed) and ``contents``.

    The list has each content below its id and its ``metadata`` of these names. What is rendered into the
    template is never read as one. Raises DefinitionError when the template has a fault.
    """

    template: str = _TEMPLATE
    metadata: tuple[str, ...] = ()
    _prompt: Prompt = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            prompt = compile_prompt(TemplateSource(self.template))
        except TemplateFault as error:
            raise DefinitionError([Fault("Injection", str(error))]) from error
        unknown = sorted(prompt.variables - _KNOWN)
        if unknown:
            said = f"its template names {{{{{unknown[0]}}}}}, but knows: {', '.join(sorted(_KNOWN))}"
            raise DefinitionError([Fault("Injection", said)])
        object.__setattr__(self, "_prompt", prompt)

    def __call__(self, user_message: str, contents: Sequence[Content], /) -> str:
        given = {
            "user_message": user_message,
            "information": listed(contents, self.metadata),
            "contents": list(contents),
        }
        return self._prompt.render(given, "Injection")


def listed(contents: Sequence[Content], metadata: Sequence[str] = ()) -> str:
    """Contents as a model reads them: each below its id, with an empty line between."""
    return "\n\n".join(_listed(content, metadata) for content in contents)


def _listed(content: Content, metadata: Sequence[str]) -> str:
    known = [f"{name}: {content.metadata[name]}" for name in metadata if name in content.metadata]
    head = "; ".join([content.id, *known] if content.id else known)
    return f"[{head}]\n{content.text}" if head else content.text
