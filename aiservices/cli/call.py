"""The command ``call``: asks a model through a method, and prints what comes as it comes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from rich.live import Live
from rich.text import Text

from output_parsers import ItemError

from ..engine.events import CallCompleted
from ..engine.results import Result, Shape
from ..integrations.fastapi.contract import Method, contract_of
from ..service.create import result_of
from .console import output, say
from .services import Mistake, find, make, methods_to_ask, model_named
from .values import account_of, account_text, for_people, read_arguments

T = TypeVar("T")


def in_step(runner: asyncio.Runner, items: AsyncIterable[T]) -> Iterator[T]:
    """What an asynchronous iterator gives, one by one, for a loop that is none."""
    iterator = aiter(items)
    while True:
        try:
            item = runner.run(_next(iterator))
        except StopAsyncIteration:
            return
        yield item


async def _next(iterator: AsyncIterator[T]) -> T:
    return await anext(iterator)


def watched(snapshots: Iterable[Any]) -> None:
    """Show a value while it is written, on a terminal, and take it away when it is whole."""
    console = output()
    if not console.is_terminal:
        for _ in snapshots:
            pass
        return
    with Live(console=console, transient=True) as live:
        for snapshot in snapshots:
            shown = json.dumps(snapshot.to_python(), indent=2, ensure_ascii=False, default=str)
            live.update(Text("\n".join(shown.splitlines()[1 - console.height :])))


_NO_ACCOUNT = "the account is not known: the program made the service, and the method returns no Result"


class _Account:
    """A listener that keeps how the answer was got."""

    def __init__(self) -> None:
        self.result: Result[Any] | None = None

    def __call__(self, event: Any) -> None:
        if isinstance(event, CallCompleted):
            self.result = result_of(event.answer, event.invocation)

    def as_json(self) -> dict[str, Any] | None:
        return None if self.result is None else account_of(self.result)


class _Printing(NamedTuple):
    """How the answer of one method is printed."""

    method: Method
    told: _Account
    runner: asyncio.Runner
    verbose: bool
    as_json: bool

    def value(self, value: Any) -> None:
        """Print the whole answer."""
        codec = self.method.value
        if not self.as_json:
            say(for_people(value, codec))
        elif self.verbose:
            print(f'{{"value": {codec.write(value)}, "account": {json.dumps(self.told.as_json())}}}')
        else:
            print(codec.write(value))

    def item(self, item: Any) -> None:
        """Print one item in one line."""
        codec = self.method.value
        if not isinstance(item, ItemError):
            say(codec.write(item) if self.as_json else for_people(item, codec, indent=None))
            return
        said = f"item {item.index} does not fit: {'; '.join(map(str, item.problems))}: {item.text}"
        if self.as_json:
            print(json.dumps({"error": {"type": "ItemError", "message": said}}), flush=True)
        say(said, file=sys.stderr)

    def piece(self, text: str) -> None:
        """Print a piece of a text."""
        if not self.as_json:
            say(text, end="")

    def account(self) -> None:
        """Print how the answer was got."""
        known = self.told.as_json()
        say(_NO_ACCOUNT if known is None else account_text(known), file=sys.stderr)


def call(target: str, model: str | None, typed: Sequence[str], *, verbose: bool, as_json: bool) -> None:
    """Call the method and print its answer; with ``verbose`` the account of the call too.

    Raises Mistake, DefinitionError, and what the call raises.
    """
    found = find(target)
    told = _Account()
    service = make(found, model_named(model), [told])
    names = methods_to_ask(found, service)
    if len(names) > 1:
        raise Mistake(f"say which method; put .METHOD behind {target}: {', '.join(names)}")
    method = contract_of(found.interface_of(service)).methods[names[0]]
    args, kwargs = method.bound(read_arguments(typed, method))
    with asyncio.Runner() as runner:
        printing = _Printing(method, told, runner, verbose, as_json)
        _print(getattr(service, names[0])(*args, **kwargs), printing)
    if verbose and not as_json:
        printing.account()


def _print(answer: Any, to: _Printing) -> None:
    """Print what a method handed back, each shape in its way."""
    shape, runner, awaited = to.method.returns.shape, to.runner, to.method.returns.asynchronous
    if shape is Shape.ITEMS:
        for item in in_step(runner, answer) if awaited else answer:
            to.item(item)
        if to.as_json and to.verbose:
            print(json.dumps({"account": to.told.as_json()}))
    elif shape is Shape.TEXT_STREAM:
        pieces = []
        for piece in in_step(runner, answer) if awaited else answer:
            pieces.append(piece)
            to.piece(piece)
        if to.as_json:
            to.value("".join(pieces))
        else:
            print()
    elif shape is Shape.STREAM:
        watched(in_step(runner, answer) if awaited else iter(answer))
        result = runner.run(answer.result()) if awaited else answer.result()
        to.told.result = result
        to.value(result.value)
    else:
        value = runner.run(answer) if awaited else answer
        if shape is Shape.RESULT:
            to.told.result, value = value, value.value
        to.value(value)
