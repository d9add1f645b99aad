"""The texts of a call in which the quotes of its answer must stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from output_parsers.types.evidence import Check, Sources

from ..documents.document import Document
from ..models.messages import UserMessage

if TYPE_CHECKING:
    from .plan import Invocation

PROMPT = "prompt"  # the name of the text of the messages, if nothing else is a source


def sources_of(invocation: Invocation, check: Check) -> Sources:
    """Return the texts in which the quotes of a call's answer are searched.

    These are the documents among the arguments, or else the texts, and the passages that retrieval has found.
    If there are none, it is the text of the user messages.
    """
    roles = {*invocation.plan.role_names.values(), *invocation.tool_context}
    shown = {name: value for name, value in invocation.arguments.items() if name not in roles}
    found = [*_documents(shown, (Document,))] or [*_documents(shown, (str,))]
    found += [(content.metadata.get("source") or content.id, content.text) for content in invocation.sources]
    if not found:
        messages = (one.text for one in invocation.request.messages if isinstance(one, UserMessage))
        found = [(PROMPT, "\n\n".join(messages))]
    documents: dict[str, Document] = {}
    for name, source in found:
        unique, number = str(name), 1
        while unique in documents:
            number += 1
            unique = f"{name} ({number})"
        documents[unique] = source if isinstance(source, Document) else Document(source)
    return Sources(documents, check)


def _documents(
    arguments: Mapping[str, object], types: tuple[type, ...]
) -> Iterator[tuple[str, Document | str]]:
    for name, argument in arguments.items():
        if isinstance(argument, types) and isinstance(argument, (Document, str)):
            yield getattr(argument, "name", "") or name, argument
        elif isinstance(argument, Mapping):
            yield from _documents({f"{name}.{key}": one for key, one in argument.items()}, types)
        elif isinstance(argument, Iterable) and not isinstance(argument, (str, bytes)):
            items = enumerate(argument) if isinstance(argument, (list, tuple)) else ()
            yield from _documents({f"{name}[{index}]": one for index, one in items}, types)
