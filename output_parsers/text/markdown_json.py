"""Reads the JSON object in a fenced block of a reply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from ..parsing import parser_for
from ..reading import show
from .frame import misfit
from .response import DictParser

__all__ = ["MarkdownJsonDictParser"]


@dataclass(frozen=True)
class MarkdownJsonDictParser(DictParser):
    """The JSON object in a fenced block, as AgentScope's, with the leniency of all that is read as JSON.

    >>> parser = MarkdownJsonDictParser({"thought": "what you think"}, required_keys=["thought"])
    >>> parser.parse('```json\\n{"thought": "Hm."}\\n```')
    {'thought': 'Hm.'}

    ``content_hint`` shows in the instruction what to write: a text as it is, a dict as JSON, a pydantic
    model as the form of its fields; a model also checks and converts the values. A missing fence is no fault;
    JSON that is cut off is, and so are two objects that differ, and a missing key of ``required_keys``.
    """

    content_hint: str | Mapping[str, Any] | type[BaseModel] = "{your_json_dictionary}"
    required_keys: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "required_keys", tuple(self.required_keys))

    def format_instructions(self) -> str:
        keys = f"\nIt must have these keys: {', '.join(self.required_keys)}." if self.required_keys else ""
        return f"Reply with a JSON object in a fenced block, as follows:\n```json\n{self._shown}\n```{keys}"

    @property
    def _shown(self) -> str:
        hint = self.content_hint
        if isinstance(hint, str):
            return hint
        if isinstance(hint, type):
            return parser_for(hint).hint
        return json.dumps(dict(hint), ensure_ascii=False)

    def _read(self, text: str) -> dict[str, Any]:
        if isinstance(self.content_hint, type):
            parsed = dict(parser_for(self.content_hint).parse(text))
        else:
            parsed = parser_for(dict[str, Any]).parse(text)
        missing = [key for key in self.required_keys if key not in parsed]
        if missing:
            raise misfit(f"these required keys are missing: {', '.join(missing)}", found=show(parsed))
        return parsed
