"""Whole calls to a server on this machine, beside the SDK used by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from . import hand
from .clerk import Clerk, clerk
from .concurrent_calls import concurrent_calls
from .fresh import serving
from .measure import Effort, Work, compare
from .records import Customers, Person, Truth
from .results import Comparison, Skipped, Stage
from .server import CUSTOMERS
from .values import PERSON

__all__ = ["run"]

_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_CREATE = "SDK create + validate_json"
_TARGET = 0.75


def run(effort: Effort, *, server_core: int | None = None) -> Stage:
    """The stage ``call``."""
    with serving(server_core) as base_url:
        return Stage("call", list(_rows(effort, base_url)))


def _rows(effort: Effort, base_url: str) -> Iterator[Comparison | Skipped]:
    with ExitStack() as opened:
        client = opened.enter_context(hand.sdk(base_url))

        def of(model: str) -> Clerk:
            service, chat = clerk(model, base_url)
            opened.enter_context(chat)
            return service

        people, truths, customers = map(of, ("person", "truth", "customers"))
        create: Callable[..., Work] = partial(partial, hand.create_typed, client)
        parse: Callable[..., Work] = partial(partial, hand.parse_typed, client)
        cases: tuple[tuple[str, Work, str, Work, float | None], ...] = (
            ("Person", partial(people.person, _TEXT), _CREATE, create(Person, "person", _TEXT), _TARGET),
            (
                "Result[Person]",
                partial(people.person_with_all, _TEXT),
                _CREATE,
                create(Person, "person", _TEXT),
                _TARGET,
            ),
            ("bool", partial(truths.truth, _TEXT), _CREATE, create(Truth, "truth", _TEXT), _TARGET),
            (
                f"{CUSTOMERS} records",
                partial(customers.customers, _TEXT),
                _CREATE,
                create(Customers, "customers", _TEXT),
                _TARGET,
            ),
            ("Person", partial(people.person, _TEXT), "SDK parse", parse(Person, "person", _TEXT), None),
            (
                f"{CUSTOMERS} records",
                partial(customers.customers, _TEXT),
                "SDK parse",
                parse(Customers, "customers", _TEXT),
                None,
            ),
        )
        for case, ours, against, floor, target in cases:
            _check(case, ours, floor)
            yield Comparison.of(case, against, compare(ours, floor, effort), target)
    yield concurrent_calls(effort, base_url, _TEXT)


def _check(case: str, ours: Work, floor: Work) -> None:
    """Both sides must have got the same answer, or there is nothing to compare."""
    mine, other = (_plain(work()) for work in (ours, floor))
    if mine != other or (case == "Person" and mine != PERSON):
        raise AssertionError(f"{case}: {mine!r} and {other!r} should be equal")


def _plain(value: Any) -> Any:
    value = getattr(value, "value", value)
    return value.model_dump() if hasattr(value, "model_dump") else value
