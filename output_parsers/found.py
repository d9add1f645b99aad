"""What a room that reads plain text hands back, and the wrapping around a value that means nothing."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

__all__ = ["Found", "Unreadable", "join_rules", "unwrap"]

T = TypeVar("T")


class Found(NamedTuple, Generic[T]):
    """A value read from text. ``rule`` names the steps that it took, None when the text was the value."""

    value: T
    rule: str | None = None


class Unreadable(ValueError):  # it says what the text is, beside Found
    """A text does not plainly hold the value; the message says why in a few words."""


# Longest first, so that "**42**" does not lose one star of each pair.
_PAIRS = (
    ("\\boxed{", "}"),
    ("```", "```"),
    ("**", "**"),
    ("__", "__"),
    ("\\(", "\\)"),
    ("\\[", "\\]"),
    ('"', '"'),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
    ("«", "»"),
    ("`", "`"),
    ("*", "*"),
    ("_", "_"),
    ("$", "$"),
)
_LAYERS = 6  # deeper wrapping is no reply, and each layer copies the text


def unwrap(text: str) -> tuple[str, str | None]:
    """The text without white space, quotes, markup and full stop; the rule, unless only white space went."""
    bare = text.strip().strip("\ufeff").strip()
    before = bare
    for _ in range(_LAYERS):
        inner = _without_layer(bare)
        if inner == bare:
            break
        bare = inner
    return bare, None if bare == before else "quotes, markup or full stop"


def _without_layer(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    for opening, closing in _PAIRS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            return text[len(opening) : -len(closing)].strip()
    return text


def join_rules(*rules: str | None) -> str | None:
    """The names of the steps that were taken, each once, in their order."""
    return ", ".join(dict.fromkeys(rule for rule in rules if rule)) or None
