"""A chat model that records what another one answers, and replays it without asking."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher, unified_diff
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..models import errors
from ..models.base import Capabilities, ChatModel, find_model
from ..models.messages import ChatReply, ReplyDelta
from ..models.requests import ChatRequest
from ..models.scripted import ScriptedChatModel
from .serialization import (
    delta_from_json,
    delta_to_json,
    reply_from_json,
    reply_to_json,
    request_to_json,
    shown,
    without_secrets,
    write_whole,
)

_LONGEST_DIFF = 60  # lines


class CassetteError(Exception):
    """A request that cannot be answered from what was recorded, or a file that is no cassette."""


def miss(
    path: Path, mode: str, recorded: bool, asked: Mapping[str, Any], known: Sequence[Mapping[str, Any]]
) -> str:
    """The message for a request without a reply, with what to do."""
    if not recorded:
        return (
            f"{path} does not exist, and in the mode {mode} nothing is recorded; "
            'record it with the mode "once" (pytest --cassettes=once)'
        )
    same = sum(shown(one) == shown(asked) for one in known)
    advice = 'record what is new with the mode "new" (pytest --cassettes=new), or all of it with "all"'
    if same:
        times = "once" if same == 1 else f"{same} times"
        return f"{path}: this request was recorded {times}, and is asked once more; {advice}"
    if not known:
        return f"{path} holds no exchange; {advice}"
    place, nearest = max(enumerate(known, 1), key=lambda one: _likeness(one[1], asked))
    lines = unified_diff(
        shown(nearest).splitlines(), shown(asked).splitlines(), "recorded", "asked", lineterm=""
    )
    diff = list(lines)
    left = len(diff) - _LONGEST_DIFF
    more = [f"… and {left} more lines"] if left > 0 else []
    return "\n".join(
        [
            f"{path} has no reply to this request; {advice}.",
            f"The nearest of what was recorded is exchange {place} of {len(known)}:",
            *diff[:_LONGEST_DIFF],
            *more,
        ]
    )


def _likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    return SequenceMatcher(None, shown(one).splitlines(), shown(other).splitlines(), autojunk=False).ratio()


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


_LONGEST_WAIT = 60.0  # seconds; what asks for more was not asked again
_OF_ERRORS = ("status", "request_id", "retryable", "retry_after", "body")


class CassetteChatModel:
    """Replays the exchanges in the file at ``path``, and records those with ``model`` as ``mode`` says.

    A request is known again by its messages, its options, the form of the answer and the tools. Equal
    requests get what was recorded for them, in its order. Timeouts and headers are neither kept nor compared;
    keys are removed, by their names, their forms, and as the environment has them. ``redact`` is given each
    text before it is kept or compared: it removes what else is secret, or differs from run to run. Replies
    come without ``raw``. ModelErrors are recorded too; what is replayed asks nobody to wait.

    Without a model it only plays, with the name and the capabilities of the one that was recorded. Raises
    CassetteError for a request that is not in the file and not to be recorded, with what differs from the
    nearest one, and for a file that is no cassette. Safe to use from several threads.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        model: ChatModel | str | None = None,
        *,
        mode: CassetteMode | str = CassetteMode.ONCE,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._begin(Tape(Path(path), CassetteMode(mode)), model, redact)

    def also(self, model: ChatModel | str) -> CassetteChatModel:
        """A cassette of another model, whose exchanges are in the same file."""
        other = CassetteChatModel.__new__(CassetteChatModel)
        other._begin(self._tape, model, self._redact)
        return other

    def _begin(self, tape: Tape, model: ChatModel | str | None, redact: Callable[[str], str]) -> None:
        self._tape, self._redact = tape, redact
        self._model = None if model is None else find_model(model)
        if self._model is None:
            self._name, self._capabilities = self._recorded_model()
        else:
            self._name, self._capabilities = self._model.name, self._model.capabilities
            tape.models[self._name] = asdict(self._capabilities)

    def _recorded_model(self) -> tuple[str, Capabilities]:
        tape, models = self._tape, self._tape.models
        if not tape.plays_only:
            said = f"to record to {tape.path}, pass the model that is to be asked"
            raise CassetteError(f'{said}; with mode="none" none is needed')
        if not models:
            raise CassetteError(miss(tape.path, tape.mode, tape.path.exists(), {}, []))
        if len(models) != 1:
            raise CassetteError(
                f"{tape.path} holds the models {', '.join(models)}; pass the model that is meant"
            )
        ((name, can),) = models.items()
        return name, Capabilities(**can)

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def unplayed(self) -> int:
        """How many recorded exchanges of the file were not asked for so far."""
        return self._tape.unplayed

    def complete(self, request: ChatRequest) -> ChatReply:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            return self._reply(played)
        with self._recording(asked) as exchange:
            reply = self._asks.complete(request)
            exchange.reply = self._public(reply_to_json(reply))
            return reply

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            return self._reply(played)
        with self._recording(asked) as exchange:
            reply = await self._asks.acomplete(request)
            exchange.reply = self._public(reply_to_json(reply))
            return reply

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            yield from self._deltas(played, request)
            return
        with self._recording(asked) as exchange, closing(_generator(self._asks.stream(request))) as deltas:
            for delta in deltas:
                self._keep(exchange, delta)
                yield delta

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        asked = self._asked(request)
        played = self._tape.play(asked)
        if played is not None:
            for delta in self._deltas(played, request):
                yield delta
            return
        with self._recording(asked) as exchange:
            async with aclosing(_agenerator(self._asks.astream(request))) as deltas:
                async for delta in deltas:
                    self._keep(exchange, delta)
                    yield delta

    @property
    def _asks(self) -> ChatModel:
        assert self._model is not None, "what has no model only plays"
        return self._model

    def _asked(self, request: ChatRequest) -> dict[str, Any]:
        asked: dict[str, Any] = self._public({"model": self._name, **request_to_json(request)})
        return asked

    def _public(self, said: Any) -> Any:
        return without_secrets(said, self._redact)

    @contextmanager
    def _recording(self, asked: dict[str, Any]) -> Iterator[Exchange]:
        with self._tape.recording(asked) as exchange:
            try:
                yield exchange
            except errors.ModelError as error:
                told = {name: getattr(error, name) for name in _OF_ERRORS if getattr(error, name) is not None}
                exchange.error = self._public({"type": type(error).__name__, "message": str(error), **told})
                raise

    def _keep(self, exchange: Exchange, delta: ReplyDelta) -> None:
        if delta.reply is not None:
            exchange.reply = self._public(reply_to_json(delta.reply))
        else:
            exchange.pieces.append(self._public(delta_to_json(delta)))

    def _reply(self, exchange: Exchange) -> ChatReply:
        if exchange.error is not None:
            raise _error(exchange.error)
        if exchange.reply is None:
            raise CassetteError(
                f"{self._tape.path}: the stream of this request was left before its end when it was "
                "recorded, and its whole reply is not known; record it anew"
            )
        return reply_from_json(exchange.reply)

    def _deltas(self, exchange: Exchange, request: ChatRequest) -> Iterator[ReplyDelta]:
        if not exchange.pieces and exchange.reply is not None:  # it was recorded as a whole
            yield from ScriptedChatModel([reply_from_json(exchange.reply)]).stream(request)
            return
        for piece in exchange.pieces:
            yield delta_from_json(piece)
        yield ReplyDelta(reply=self._reply(exchange))


def _error(said: Any) -> errors.ModelError:
    """The error that was recorded; one that was asked again after a while may be asked again at once."""
    fields = dict(said)
    kind = getattr(errors, fields.pop("type"), errors.ModelError)
    if fields.get("retryable") and fields.get("retry_after", 0.0) <= _LONGEST_WAIT:
        fields["retry_after"] = 0.0
    error: errors.ModelError = kind(fields.pop("message"), **fields)
    return error


def _generator(deltas: Iterator[ReplyDelta]) -> Generator[ReplyDelta, None, None]:
    """An iterator that can be closed, be it one that cannot."""
    try:
        yield from deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


async def _agenerator(deltas: Any) -> AsyncGenerator[ReplyDelta, None]:
    try:
        async for delta in deltas:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
