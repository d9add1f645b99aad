"""The file of a cassette: what was asked and what came, in order; written anew after each exchange."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from .cassette_miss import CassetteError, miss
from .request_json import shown
from .whole_file import write_whole

__all__ = ["CassetteMode", "Exchange", "Tape"]

_FORMAT = 1


class CassetteMode(StrEnum):
    """What is recorded.

    NONE: nothing; a request that was not recorded is an error. ONCE: everything where there is no file yet,
    else nothing. NEW: what was not recorded. ALL: everything, in the place of what was recorded.
    """

    NONE = "none"
    ONCE = "once"
    NEW = "new"
    ALL = "all"


@dataclass(eq=False)
class Exchange:
    """A request with its model's name, and what came: pieces, a reply, an error; all as plain JSON."""

    request: Mapping[str, Any]
    pieces: list[Any] = field(default_factory=list)
    reply: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        said = {"request": self.request, "pieces": self.pieces, "reply": self.reply, "error": self.error}
        return {name: value for name, value in said.items() if value not in (None, [])}


class Tape:
    """The exchanges of one file. Safe to use from several threads; the file is whole at each moment."""

    def __init__(self, path: Path, mode: CassetteMode) -> None:
        self.path = path
        self.mode = mode
        self._lock = threading.Lock()
        self.models: dict[str, dict[str, Any]] = {}
        self._exchanges: list[Exchange | None] = []  # None stands for one that has not come to its end
        self._waiting: list[Exchange] = []
        self._text = self._on_disk()
        self._recorded = self._text is not None and mode is not CassetteMode.ALL
        if self._text is not None and self._recorded:
            self._load(self._text)

    @property
    def plays_only(self) -> bool:
        """Whether no request reaches a model."""
        return self.mode is CassetteMode.NONE or (self.mode is CassetteMode.ONCE and self._recorded)

    @property
    def unplayed(self) -> int:
        """How many recorded exchanges were not asked for."""
        return len(self._waiting)

    def play(self, request: Mapping[str, Any]) -> Exchange | None:
        """The next recorded exchange of a request; None when it is to be recorded. Raises CassetteError."""
        key = shown(request)
        with self._lock:
            found = next((one for one in self._waiting if shown(one.request) == key), None)
            if found is not None:
                self._waiting.remove(found)
                return found
            if not self.plays_only:
                return None
            known = [one.request for one in self._exchanges if one is not None]
            raise CassetteError(miss(self.path, self.mode, self._recorded, request, known))

    @contextmanager
    def recording(self, request: Mapping[str, Any]) -> Iterator[Exchange]:
        """An exchange to be filled, in the order in which they begin; one with nothing in it is not kept."""
        exchange = Exchange(request)
        with self._lock:
            place = len(self._exchanges)
            self._exchanges.append(None)
        try:
            yield exchange
        finally:
            if exchange.reply is not None or exchange.error is not None or exchange.pieces:
                with self._lock:
                    self._exchanges[place] = exchange
                    self._save()

    def _on_disk(self) -> str | None:
        return self.path.read_text("utf-8") if self.path.exists() else None

    def _load(self, text: str) -> None:
        try:
            said = json.loads(text)
            if said["format"] != _FORMAT:
                raise CassetteError(
                    f"{self.path} has the format {said['format']}; this version reads {_FORMAT}"
                )
            self.models = dict(said["models"])
            self._exchanges = [Exchange(**one) for one in said["exchanges"]]
        except (ValueError, KeyError, TypeError) as error:
            raise CassetteError(
                f"{self.path} is no cassette: {error!r}; delete it and record it anew"
            ) from error
        self._waiting = [one for one in self._exchanges if one is not None]

    def _save(self) -> None:
        if self._on_disk() != self._text:
            raise CassetteError(
                f"{self.path} was written by somebody else while it was recorded; give each test a file of "
                "its own, and models that share one the same cassette: cassette.also(model)"
            )
        exchanges = [one.to_json() for one in self._exchanges if one is not None]
        said = {"format": _FORMAT, "models": self.models, "exchanges": exchanges}
        written = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
        # of half a character the escape is left, which JSON reads and UTF-8 can hold
        text = written.encode("utf-8", "backslashreplace").decode()
        write_whole(self.path, text)
        self._text = text
