"""The stage ``call``: whole calls to a server on this machine, compared to the SDK and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from . import sdk_calls
from .clerk import Clerk, clerk
from .concurrent_calls import concurrent_calls
from .measure import Effort, Work, compare, measure_block
from .new_process import running_server
from .peer import PEERS, Peer, compare_with_peer
from .records import Customers, DataclassCustomers, Person, Truth
from .results import Comparison, Skipped, Stage
from .server import CUSTOMERS
from .values import PERSON

_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_CREATE = "SDK create + validate_json"
_PARSE = "SDK parse"
_MANY = f"{CUSTOMERS} records"
_OUR_PERSON = "our own Person"
_THREADS = 20


def run(effort: Effort, *, server_core: int | None = None, peers: Path | None = None) -> Stage:
    """Run the stage ``call``. ``peers`` is the directory with the environments of other libraries."""
    with running_server(server_core) as base_url:
        return Stage("call", list(_rows(effort, base_url, peers)))


def _rows(effort: Effort, base_url: str, peers: Path | None) -> Iterator[Comparison | Skipped]:
    with ExitStack() as opened:
        client = opened.enter_context(sdk_calls.sdk_client(base_url))

        def of(model: str) -> Clerk:
            service, chat = clerk(model, base_url)
            opened.enter_context(chat)
            return service

        people, truths, customers = map(of, ("person", "truth", "customers"))
        person: Work = partial(people.person, _TEXT)
        many: Work = partial(customers.customers, _TEXT)
        dataclasses: Work = partial(customers.dataclass_customers, _TEXT)
        threads = opened.enter_context(ThreadPoolExecutor(_THREADS))

        def in_threads(work: Work) -> Work:
            """Return a Work of one call in each of the threads at the same time."""
            return lambda: list(threads.map(lambda _: work(), range(_THREADS))).pop()

        create: Callable[..., Work] = partial(partial, sdk_calls.create_and_validate, client)
        parse: Callable[..., Work] = partial(partial, sdk_calls.parse, client)
        cases: tuple[tuple[str, Work, str, Work, float | None], ...] = (
            ("Person", person, _CREATE, create(Person, "person", _TEXT), 0.22),
            ("Result[Person]", partial(people.person_result, _TEXT), _OUR_PERSON, person, 1.05),
            ("bool", partial(truths.truth, _TEXT), _CREATE, create(Truth, "truth", _TEXT), 0.40),
            (_MANY, many, _CREATE, create(Customers, "customers", _TEXT), 0.45),
            (
                f"Person, {_THREADS} threads",
                in_threads(person),
                _CREATE,
                in_threads(create(Person, "person", _TEXT)),
                None,
            ),
            (f"{_MANY} as dataclasses", dataclasses, _CREATE, create(Customers, "customers", _TEXT), 0.40),
            ("Person", person, _PARSE, parse(Person, "person", _TEXT), None),
            (_MANY, many, _PARSE, parse(Customers, "customers", _TEXT), None),
        )
        for case, ours, baseline, baseline_run, target in cases:
            _check_equal(case, ours, baseline_run)
            yield Comparison.of(case, baseline, compare(ours, baseline_run, effort), target)
        yield from concurrent_calls(effort, base_url, _TEXT)
        for peer in PEERS:
            for case, ours, model in (("Person", person, "person"), (_MANY, many, "customers")):
                yield _compare_with_peer(peer, peer.python(peers), case, ours, (base_url, model), effort)


def _compare_with_peer(
    peer: Peer, python: str | None, case: str, ours: Work, request: tuple[str, str], effort: Effort
) -> Comparison | Skipped:
    """Compare our calls in this process to those of a peer in its own process."""
    seconds = effort.block_seconds
    theirs = peer.measure(python, "call", *request, str(seconds))
    return compare_with_peer(
        peer, python, case, peer.call, partial(measure_block, ours, seconds), theirs, effort
    )


def _check_equal(case: str, ours: Work, baseline_run: Work) -> None:
    """Raise AssertionError unless both sides return the same answer."""
    our_value, other = (_plain(work()) for work in (ours, baseline_run))
    if our_value != other or (case.startswith("Person") and our_value != PERSON):
        raise AssertionError(f"{case}: {our_value!r} and {other!r} must be equal")


def _plain(value: Any) -> Any:
    value = getattr(value, "value", value)
    if isinstance(value, DataclassCustomers):
        records = asdict(value)["records"]
        return {"records": [{k: v for k, v in record.items() if k != "note"} for record in records]}
    return value.model_dump() if hasattr(value, "model_dump") else value
