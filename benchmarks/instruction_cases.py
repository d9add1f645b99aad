"""The calls whose instructions callgrind counts: ``python -m benchmarks.instruction_cases CASE…``.

Before and after each block of calls it calls ``os.getppid``, which nothing else does. Callgrind writes its
counts whenever that function is called.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from json import scanner

from pydantic import BaseModel

from . import server
from .canned_model import canned_service
from .measure import Work
from .records import Customers, Person, Truth

MARK = "getppid"
_TEXT = "Grace Hopper, 45 years old and married, is 1.68 m tall."
_EVENTS = {"model": "records-10000-200", "stream": True}


class _PlainDecoder(json.JSONDecoder):
    """The pure Python JSON decoder of the standard library, as a baseline that runs in the interpreter."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_string = json.decoder.py_scanstring  # type: ignore[attr-defined]  # absent from the stubs
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]  # absent from the stubs


_DECODE = _PlainDecoder().decode


def _person() -> tuple[Work, Work]:
    return partial(canned_service({"model": "person"}).person, _TEXT), _reading("person", Person)


def _result() -> tuple[Work, Work]:
    return partial(canned_service({"model": "person"}).person_result, _TEXT), _reading("person", Person)


def _truth() -> tuple[Work, Work]:
    return partial(canned_service({"model": "truth"}).truth, _TEXT), _reading("truth", Truth)


def _customers() -> tuple[Work, Work]:
    return partial(canned_service({"model": "customers"}).customers, _TEXT), _reading("customers", Customers)


def _stream() -> tuple[Work, Work]:
    service = canned_service(_EVENTS)
    payloads = [event.removeprefix(b"data: ").decode() for event in server.events(_EVENTS)[:-1]]

    def ours() -> Customers:
        stream = service.growing_customers(_TEXT)
        for snapshot in stream:
            _ = snapshot.value
        return stream.result().value

    def read_in_python() -> Customers:
        deltas = [_DECODE(data.strip())["choices"][0]["delta"] for data in payloads]
        return Customers.model_validate_json("".join(delta.get("content", "") for delta in deltas))

    return ours, read_in_python


def _reading(model: str, tp: type[BaseModel]) -> Work:
    body = server.completion({"model": model}).decode()

    def read_in_python() -> BaseModel:
        return tp.model_validate_json(_DECODE(body)["choices"][0]["message"]["content"])

    return read_in_python


@dataclass(frozen=True, slots=True)
class Case:
    """A call whose instructions are counted.

    Attributes:
        make: Returns the call and the baseline: pure Python that reads the same reply.
        calls: The number of calls in the smaller block.
    """

    make: Callable[[], tuple[Work, Work]]
    calls: int

    @property
    def blocks(self) -> tuple[int, int]:
        """Return the numbers of calls in two blocks, whose difference excludes constant costs."""
        return self.calls, 3 * self.calls


CASES = {
    "Person": Case(_person, 10),
    "Result[Person]": Case(_result, 10),
    "bool": Case(_truth, 10),
    "50 records": Case(_customers, 5),
    "Stream[Customers], 200 events": Case(_stream, 1),
}


def main() -> None:
    gc.disable()  # its cost depends on all objects of the process
    for case in map(CASES.__getitem__, sys.argv[1:]):
        for work in case.make():
            _count(work, case.blocks)


def _count(work: Work, blocks: tuple[int, int]) -> None:
    for _ in range(2 * min(blocks)):  # fills caches and lets the interpreter specialize the code
        work()
    os.getppid()
    for calls in blocks:
        for _ in range(calls):
            work()
        os.getppid()


if __name__ == "__main__":
    main()
