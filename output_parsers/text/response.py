"""AgentScope's way of parsing: a response in, the response with a dict out, and who sees which keys of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, overload

from .frame import TextParser

__all__ = ["DictParser", "Keys", "TextResponse"]

# True: all of them; False and None: nothing; a text: the value under that key; several: a dict of those.
Keys: TypeAlias = bool | str | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class TextResponse:
    """What a model answered: its text, what was parsed from it, and what else the caller knows about it."""

    text: str
    parsed: dict[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DictParser(TextParser[dict[str, Any]]):
    """A parser that gives a dict, of which memory, content and metadata get what ``keys_to_*`` says.

    ``True`` is the whole dict, ``False`` or ``None`` is None, a text is the value under that key, a
    sequence is a dict of those keys.
    """

    keys_to_memory: Keys = True
    keys_to_content: Keys = True
    keys_to_metadata: Keys = False

    @overload
    def parse(self, text: str) -> dict[str, Any]: ...
    @overload
    def parse(self, text: TextResponse) -> TextResponse: ...
    def parse(self, text: str | TextResponse) -> dict[str, Any] | TextResponse:
        """The dict of a text; or, as AgentScope's, for a response the same response with ``parsed`` filled.

        Raises OutputParsingError, and nothing else, when the text is unfit.
        """
        if isinstance(text, TextResponse):
            return replace(text, parsed=super().parse(text.text))
        return super().parse(text)

    def to_memory(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What is remembered. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_memory, "keys_to_memory", allow_missing)

    def to_content(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What others are told. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_content, "keys_to_content", allow_missing)

    def to_metadata(self, parsed: Mapping[str, Any], *, allow_missing: bool = False) -> Any:
        """What goes along. Raises ValueError for a key that is not there, unless it may be missing."""
        return _chosen(parsed, self.keys_to_metadata, "keys_to_metadata", allow_missing)


def _chosen(parsed: Mapping[str, Any], keys: Keys, option: str, allow_missing: bool) -> Any:
    if keys is None or isinstance(keys, bool):
        return dict(parsed) if keys else None
    wanted = (keys,) if isinstance(keys, str) else keys
    missing = [key for key in wanted if key not in parsed]
    if missing and not allow_missing:
        raise ValueError(
            f"{option} names {', '.join(missing)}, but the parsed reply has: {', '.join(parsed) or 'none'}; "
            "require these keys, or permit them to be missing"
        )
    if isinstance(keys, str):
        return parsed.get(keys)
    return {key: parsed[key] for key in keys if key in parsed}
