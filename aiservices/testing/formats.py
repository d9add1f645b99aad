"""Makes up strings of the forms that a JSON Schema calls by a name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

from .source import Source

__all__ = ["FORMATS"]

_DAYS = (date(1970, 1, 1).toordinal(), date(2069, 12, 31).toordinal())
_SECONDS = 24 * 60 * 60
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _date(source: Source) -> date:
    return date.fromordinal(source.integer(*_DAYS))


def _time(source: Source) -> time:
    return (datetime.min + timedelta(seconds=source.integer(0, _SECONDS - 1))).time()


def _duration(source: Source) -> str:
    minutes = source.integer(0, 7 * 24 * 60)
    return f"P{minutes // 1440}DT{minutes % 1440 // 60}H{minutes % 60}M"


def _name(source: Source) -> str:
    return "".join(source.one_of(_LETTERS) for _ in range(source.integer(3, 8)))


FORMATS: dict[str | None, Callable[[Source], str]] = {
    "date": lambda source: _date(source).isoformat(),
    "time": lambda source: _time(source).isoformat(),
    "date-time": lambda source: datetime.combine(_date(source), _time(source)).isoformat(),
    "duration": _duration,
    "uuid": lambda source: str(UUID(int=source.integer(0, 2**128 - 1), version=4)),
    "email": lambda source: f"{_name(source)}@example.com",
    "name-email": lambda source: f"{_name(source)}@example.com",
    "hostname": lambda source: f"{_name(source)}.example.com",
    "uri": lambda source: f"https://example.com/{_name(source)}",
    "ipv4": lambda source: str(IPv4Address(source.integer(0, 2**32 - 1))),
    "ipv6": lambda source: str(IPv6Address(source.integer(0, 2**128 - 1))),
    "path": lambda source: f"{_name(source)}/{_name(source)}",
    "file-path": lambda source: f"{_name(source)}/{_name(source)}",
    "directory-path": _name,
    "integer": lambda source: str(source.integer(0, 1_000)),
    "fraction": lambda source: f"{source.integer(0, 100)}/{source.integer(1, 100)}",
    "json-string": lambda source: str(source.integer(0, 100)),
}
