"""The stage ``stream``: objects, items and text in many small events, compared to other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import openai

from . import sdk_calls
from .clerk import Clerk, clerk
from .measure import Effort, Work, compare, cpu_only, measure
from .new_process import running_server
from .peer import PEERS, Peer, compare_with_peer
from .records import Customer, Customers
from .results import Comparison, Skipped, Stage
from .server import CHUNKS
from .values import records_data

_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_SIZES = {"10 KB": 10_000, "100 KB": 100_000}
_TYPED = "SDK typed stream"
_PARSED = "SDK stream(response_format=)"
_TARGET = 0.3
_GROWTH = 1.5
_TEXT_TARGET = 0.15


def run(effort: Effort, *, server_core: int | None = None, peers: Path | None = None) -> Stage:
    """Run the stage ``stream``. ``peers`` is the directory with the environments of other libraries."""
    with running_server(server_core) as base_url, ExitStack() as opened:
        client = opened.enter_context(sdk_calls.sdk_client(base_url))

        def of(model: str) -> Clerk:
            service, chat = clerk(model, base_url)
            opened.enter_context(chat)
            return service

        sizes = {name: min(size, effort.max_text_size) for name, size in _SIZES.items()}
        services = {name: of(_model(size, effort)) for name, size in sizes.items()}
        rows: list[Comparison | Skipped] = []
        for name, size in sizes.items():
            rows += _compare_with_sdk(name, size, services[name], client, effort)
        rows.append(_text(of("text"), client, effort))
        rows.append(_growth(services, effort))
        for peer in (peer for peer in PEERS if peer.stream):
            rows += _compare_with_peer(peer, peer.python(peers), sizes, services, base_url, effort)
    return Stage("stream", rows)


def _model(size: int, effort: Effort) -> str:
    """Return the model name by which the benchmark server knows how much to stream."""
    return f"records-{size}-{effort.chunks}"


def _compare_with_sdk(
    name: str, size: int, service: Clerk, client: openai.OpenAI, effort: Effort
) -> Iterator[Comparison]:
    model = _model(size, effort)
    right = Customers.model_validate({"records": records_data(size)})
    objects: Work = partial(_last_object, service)
    items: Work = partial(_all_items, service)
    typed: Work = partial(sdk_calls.stream_chunks, client, Customers, model, _TEXT)
    parsed: Work = partial(sdk_calls.stream_parsed, client, Customers, model, _TEXT)
    if objects() != right or items() != right.records or typed() != effort.chunks or parsed() != right:
        raise AssertionError(f"{name}: all of them must stream the same")
    yield Comparison.of(f"Stream[Customers], {name}", _TYPED, compare(objects, typed, effort), _TARGET)
    yield Comparison.of(f"Stream[Customers], {name}", _PARSED, compare(objects, parsed, effort))
    newest: Work = partial(_newest_records, service)
    yield Comparison.of(f"its newest record each time, {name}", _TYPED, compare(newest, typed, effort))
    yield Comparison.of(f"Iterator[Customer], {name}", _TYPED, compare(items, typed, effort), _TARGET)


def _last_object(service: Clerk) -> Customers:
    """Stream an object, read the value of each snapshot, and return the result."""
    stream = service.growing_customers(_TEXT)
    for snapshot in stream:
        _ = snapshot.value
    return stream.result().value


def _newest_records(service: Clerk) -> Any:
    """Stream an object, and read only the last record of each snapshot."""
    newest = None
    for snapshot in service.growing_customers(_TEXT):
        value: Any = snapshot.value
        if value is not None and value.records:
            newest = value.records[-1]
    return newest


def _all_items(service: Clerk) -> list[Customer]:
    return list(service.each_customer(_TEXT))


def _text(service: Clerk, client: openai.OpenAI, effort: Effort) -> Comparison:
    ours: Work = partial(_count_pieces, service)
    typed: Work = partial(sdk_calls.stream_words, client, _TEXT)
    if not ours() == typed() == CHUNKS:
        raise AssertionError("text: both of them must stream the same")
    return Comparison.of("Iterator[str]", _TYPED, compare(ours, typed, effort), _TEXT_TARGET)


def _count_pieces(service: Clerk) -> int:
    return sum(1 for _ in service.words(_TEXT))


def _growth(services: dict[str, Clerk], effort: Effort) -> Comparison:
    """Compare the CPU times of streaming a large and a small object in the same number of chunks."""
    (small, less), (large, more) = services.items()
    pairs = compare(partial(_last_object, more), partial(_last_object, less), effort)
    return Comparison.of(f"Stream[Customers], {large}", f"the same, {small}", cpu_only(pairs), _GROWTH)


def _compare_with_peer(
    peer: Peer,
    python: str | None,
    sizes: dict[str, int],
    services: dict[str, Clerk],
    base_url: str,
    effort: Effort,
) -> Iterator[Comparison | Skipped]:
    """Compare our stream in this process to that of a peer in its own process, after a warm-up."""
    smallest = _model(min(sizes.values()), effort)
    for name, size in sizes.items():
        theirs = peer.measure(python, "stream", base_url, _model(size, effort), smallest)
        ours = partial(measure, partial(_last_object, services[name]))
        case = f"Stream[Customers], {name}"
        yield compare_with_peer(peer, python, case, peer.stream, ours, theirs, effort, peer.stream_aim)
