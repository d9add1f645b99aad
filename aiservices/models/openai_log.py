"""Logs requests and replies as they are, except for keys."""

from __future__ import annotations

import logging
from collections.abc import Mapping

__all__ = ["WireLog", "is_secret"]

_LOGGER = logging.getLogger("aiservices.openai")
_SECRET_ENDINGS = ("authorization", "key", "token", "secret", "cookie")


def is_secret(header: str) -> bool:
    """Whether a header holds something that nobody else may see."""
    return header.lower().endswith(_SECRET_ENDINGS)


class WireLog:
    """Writes to the logger "aiservices.openai" at one level; ``on`` tells whether anybody listens."""

    def __init__(self, level: int) -> None:
        self._level = level

    @property
    def on(self) -> bool:
        return _LOGGER.isEnabledFor(self._level)

    def request(self, where: str, headers: Mapping[str, object], body: bytes) -> None:
        _LOGGER.log(self._level, "%s: request %s %s", where, _shown(headers), _text(body))

    def reply(self, where: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        _LOGGER.log(self._level, "%s: reply %d %s %s", where, status, _shown(headers), _text(body))

    def piece(self, where: str, chunk: bytes) -> None:
        _LOGGER.log(self._level, "%s: piece of a stream %s", where, _text(chunk))


def _text(body: bytes) -> str:
    return body.decode(errors="replace")


def _shown(headers: Mapping[str, object]) -> dict[str, str]:
    # the SDK marks headers that it leaves out with values that are no texts
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    return {name: "[redacted]" if is_secret(name) else value for name, value in texts.items()}
