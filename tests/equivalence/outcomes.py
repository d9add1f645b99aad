"""What a case gives at an entry point, in a form that can be compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel

from aiservices import AiMessage, AiServiceError, Cited, Document, Message, OutputParsingError, Result, Usage
from output_parsers.result.reading import Coercion

# The lenient steps of a strategy: where the value was, not how it was read.
_FORM = re.compile("text instead of a call of |(envelope|encoding) left out$|(value|object) in an envelope$")

__all__ = ["Outcome", "of_error", "of_result", "of_value", "typed"]


class Outcome(NamedTuple):
    """The result of one case at one entry point. None means that an entry point does not report it.

    Attributes:
        value: The value with the types of all of its parts; None after an error.
        error: The class of the error; None after a value.
        coercions: The lenient steps of reading.
        requests: How many requests were sent to a model.
        usage: The tokens of all requests.
        messages: The new messages of the call: the text of each, or "an answer" if it calls no tools.
        message: The message of the error, which is not compared.
    """

    value: Any = None
    error: str | None = None
    coercions: tuple[str, ...] | None = None
    requests: int | None = None
    usage: Usage | None = None
    messages: tuple[str, ...] | None = None
    message: str = ""

    def differences(self, other: Outcome) -> str:
        """Describe what both tell and what is not the same; "" if nothing differs."""
        if self[:2] != other[:2]:
            return f"{_short(self)} instead of {_short(other)}"
        pairs = zip(Outcome._fields[2:6], self[2:6], other[2:6], strict=True)
        different = [
            f"{name} {one!r} instead of {two!r}"
            for name, one, two in pairs
            if one is not None and two is not None and one != two
        ]
        return "; ".join(different)


def of_value(value: Any, coercions: Iterable[Coercion] | None = None) -> Outcome:
    rules = None
    if coercions is not None:
        rules = tuple(coercion.rule for coercion in coercions if not _FORM.match(coercion.rule))
    return Outcome(typed(value), coercions=rules)


def of_result(result: Result[Any]) -> Outcome:
    outcome = of_value(result.value, result.coercions)
    messages = tuple(map(_text_of, result.new_messages)) or None  # results from another process have none
    return outcome._replace(requests=len(result.attempts), usage=result.usage, messages=messages)


def _text_of(message: Message) -> str:
    is_answer = isinstance(message, AiMessage) and message.text and not message.tool_calls
    return "an answer" if is_answer else message.text


def of_error(error: Exception) -> Outcome:
    """Return the class of an error, and what it says about its requests."""
    name = type(error).__name__
    if isinstance(error, OutputParsingError):  # parsers and services have a class each
        name = "OutputParsingError"
    if not isinstance(error, AiServiceError) or not error.attempts:
        return Outcome(error=name, message=str(error))
    return Outcome(error=name, requests=len(error.attempts), usage=error.usage, message=str(error))


def typed(value: Any) -> Any:
    """A value together with the types of all of its parts, so that True is not 1 and 1 is not 1.0."""
    kind = type(value)
    if isinstance(value, Mapping):
        return kind, [(typed(key), typed(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return kind, sorted((typed(item) for item in value), key=repr)
    if isinstance(value, datetime):  # pydantic has time zones of its own
        return kind, value.isoformat()
    if isinstance(value, Cited):  # its place depends on the entry point
        return kind, [("value", typed(value.value)), ("quote", typed(value.quote))]
    if isinstance(value, Document):
        return kind, [("text", typed(value.text)), ("name", typed(value.name)), ("pages", typed(value.pages))]
    names = _fields(value)
    if names:
        return kind, [(name, typed(getattr(value, name))) for name in names]
    if isinstance(value, (list, tuple)):
        return kind, [typed(item) for item in value]
    return kind, repr(value)


def _fields(value: Any) -> list[str]:
    if isinstance(value, BaseModel):
        return [*type(value).model_fields, *(value.model_extra or {})]
    for attribute in ("__dataclass_fields__", "__struct_fields__", "_fields"):
        names = getattr(type(value), attribute, None)
        if names is not None:
            return list(names)
    return [field.name for field in getattr(type(value), "__attrs_attrs__", ())]


def _short(outcome: Outcome) -> str:
    text = f"{outcome.error} ({outcome.message})" if outcome.error else _plain(outcome.value)
    return text if len(text) < 200 else f"{text[:200]}…"


def _plain(typed_value: Any) -> str:
    kind, inner = typed_value
    if isinstance(inner, str):
        return f"{kind.__name__} {inner}"
    return f"{kind.__name__}({', '.join(_plain(part) if _is_typed(part) else _pair(part) for part in inner)})"


def _is_typed(part: Any) -> bool:
    return isinstance(part[0], type)


def _pair(part: Any) -> str:
    key, value = part
    return f"{key if isinstance(key, str) else _plain(key)}: {_plain(value)}"
