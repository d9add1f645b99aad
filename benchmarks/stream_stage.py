"""Objects, items and text that arrive in many small events, beside the SDK's streams and other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import openai

from . import hand
from .clerk import Clerk, clerk
from .fresh import serving
from .measure import Effort, Work, by_cpu, compare, timed
from .peer import PEERS, Peer, beside
from .records import Customer, Customers
from .results import Comparison, Skipped, Stage
from .server import CHUNKS
from .values import records_of

__all__ = ["run"]

_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_SIZES = {"10 KB": 10_000, "100 KB": 100_000}
_TYPED = "SDK typed stream"
_HELPED = "SDK stream(response_format=)"
_TARGET = 0.3
_GROWTH = 1.5
_TEXT_TARGET = 0.15


def run(effort: Effort, *, server_core: int | None = None, peers: Path | None = None) -> Stage:
    """The stage ``stream``; ``peers`` is a directory of environments that have other libraries."""
    with serving(server_core) as base_url, ExitStack() as opened:
        client = opened.enter_context(hand.sdk(base_url))

        def of(model: str) -> Clerk:
            service, chat = clerk(model, base_url)
            opened.enter_context(chat)
            return service

        sizes = {name: min(size, effort.largest) for name, size in _SIZES.items()}
        services = {name: of(_model(size, effort)) for name, size in sizes.items()}
        rows: list[Comparison | Skipped] = []
        for name, size in sizes.items():
            rows += _beside_the_sdk(name, size, services[name], client, effort)
        rows.append(_text(of("text"), client, effort))
        rows.append(_growth(services, effort))
        for peer in (peer for peer in PEERS if peer.stream):
            rows += _beside(peer, peer.python(peers), sizes, services, base_url, effort)
    return Stage("stream", rows)


def _model(size: int, effort: Effort) -> str:
    """What the server goes by."""
    return f"records-{size}-{effort.chunks}"


def _beside_the_sdk(
    name: str, size: int, service: Clerk, client: openai.OpenAI, effort: Effort
) -> Iterator[Comparison]:
    model = _model(size, effort)
    right = Customers.model_validate({"records": records_of(size)})
    objects: Work = partial(_last_object, service)
    items: Work = partial(_all_items, service)
    typed: Work = partial(hand.stream_typed, client, Customers, model, _TEXT)
    helped: Work = partial(hand.stream_helped, client, Customers, model, _TEXT)
    if objects() != right or items() != right.records or typed() != effort.chunks or helped() != right:
        raise AssertionError(f"{name}: all of them should stream the same")
    yield Comparison.of(f"Stream[Customers], {name}", _TYPED, compare(objects, typed, effort), _TARGET)
    yield Comparison.of(f"Stream[Customers], {name}", _HELPED, compare(objects, helped, effort))
    newest: Work = partial(_newest_records, service)
    yield Comparison.of(f"its newest record each time, {name}", _TYPED, compare(newest, typed, effort))
    yield Comparison.of(f"Iterator[Customer], {name}", _TYPED, compare(items, typed, effort), _TARGET)


def _last_object(service: Clerk) -> Customers:
    """The result, when the value of each snapshot was looked at."""
    stream = service.growing_customers(_TEXT)
    for snapshot in stream:
        _ = snapshot.value
    return stream.result().value


def _newest_records(service: Clerk) -> Any:
    """The last of the records in each snapshot: so much of a view is built as it takes to show it."""
    newest = None
    for snapshot in service.growing_customers(_TEXT):
        shown: Any = snapshot.value
        if shown is not None and shown.records:
            newest = shown.records[-1]
    return newest


def _all_items(service: Clerk) -> list[Customer]:
    return list(service.each_customer(_TEXT))


def _text(service: Clerk, client: openai.OpenAI, effort: Effort) -> Comparison:
    ours: Work = partial(_count, service)
    typed: Work = partial(hand.stream_words, client, _TEXT)
    if not ours() == typed() == CHUNKS:
        raise AssertionError("text: both of them should stream the same")
    return Comparison.of("Iterator[str]", _TYPED, compare(ours, typed, effort), _TEXT_TARGET)


def _count(service: Clerk) -> int:
    return sum(1 for _ in service.words(_TEXT))


def _growth(services: dict[str, Clerk], effort: Effort) -> Comparison:
    """The processor's time for a chunk of the larger object beside one of the smaller, equally many."""
    (small, less), (large, more) = services.items()
    pairs = compare(partial(_last_object, more), partial(_last_object, less), effort)
    return Comparison.of(f"Stream[Customers], {large}", f"the same, {small}", by_cpu(pairs), _GROWTH)


def _beside(
    peer: Peer,
    python: str | None,
    sizes: dict[str, int],
    services: dict[str, Clerk],
    base_url: str,
    effort: Effort,
) -> Iterator[Comparison | Skipped]:
    """Ours in this process, the peer in its own, where it has streamed once before."""
    smallest = _model(min(sizes.values()), effort)
    for name, size in sizes.items():
        theirs = peer.timed(python, "stream", base_url, _model(size, effort), smallest)
        ours = partial(timed, partial(_last_object, services[name]))
        case = f"Stream[Customers], {name}"
        yield beside(peer, python, case, peer.stream, ours, theirs, effort, peer.stream_aim)
