"""Makes the calls of the table of faults and compares what they give with what is expected."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeAlias

from faulty_server import FaultyServer

from aiservices.models.errors import ModelError
from aiservices.models.http.model import HttpChatModel
from aiservices.models.messages import ChatReply, ReplyDelta
from aiservices.models.requests import ChatOptions, ChatRequest

from .dialects import KEY, Dialect
from .server import Http, Running, Scene, Serve
from .table import KINDS, STREAMS, Failure, Fault, Value

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MOST_TOKENS = 2**53
_THREADS = 4 * (os.cpu_count() or 1)  # most of the time is spent waiting


class Cell(NamedTuple):
    """A fault in one kind of call in one dialect."""

    fault: Fault
    dialect: Dialect
    kind: str

    def __str__(self) -> str:
        return f"{self.fault.name} · {self.dialect.name} · {self.kind}"


@dataclass(frozen=True)
class Outcome:
    """What a call gave.

    Attributes:
        result: A Value or a Failure; the text of any other exception.
        requests: The number of requests that arrived.
        problems: What is wrong with it apart from that.
    """

    result: Value | Failure | str
    requests: int
    problems: tuple[str, ...] = ()


def cells(faults: Iterable[Fault]) -> Iterator[Cell]:
    """Yield all cells of some faults."""
    for fault in faults:
        for dialect in fault.dialects:
            for kind in fault.kinds:
                yield Cell(fault, dialect, kind)


def check(chosen: Sequence[Cell]) -> dict[Cell, str]:
    """Make the calls of some cells at the same time, and return what is wrong, by cell."""
    with ThreadPoolExecutor(_THREADS) as pool:
        texts = pool.map(_problem, chosen)
        return {cell: text for cell, text in zip(chosen, texts, strict=True) if text}


def _problem(cell: Cell) -> str:
    """Make the call of a cell, and return what is wrong with its outcome, or ""."""
    fault = cell.fault
    outcome, next_outcome = _outcomes(cell)
    problems = list(outcome.problems)
    if not _fits(outcome.result, fault.expected):
        problems.append(f"gave {outcome.result}, not {fault.expected}")
    if outcome.requests != fault.requests:
        problems.append(f"sent {outcome.requests} requests, not {fault.requests}")
    if next_outcome != Outcome(Value(), 1):
        problems.append(f"the next call gave {next_outcome}")
    return "; ".join(problems)


def _fits(result: Value | Failure | str, expected: Value | Failure) -> bool:
    if isinstance(result, Value) and isinstance(expected, Value):
        return result.text == expected.text and expected.tokens in (None, result.tokens)
    if not (isinstance(result, Failure) and isinstance(expected, Failure)):
        return False
    if result.wait is None or expected.wait is None:
        return result == expected
    # a date has whole seconds, and time passes
    is_near = abs(result.wait - expected.wait) <= (3 if expected.wait > 60 else 0)
    return is_near and result == Failure(expected.error, expected.status, expected.retryable, result.wait)


def _outcomes(cell: Cell) -> tuple[Outcome, Outcome]:
    """Return what a call gave, and what the same model gave afterwards, when the server was right again."""
    running, key = Running(), cell.fault.key
    call = _CALLS[cell.kind]
    with FaultyServer() as server, asyncio.Runner() as runner:
        scene = Scene(cell.dialect, cell.kind in STREAMS, server.port)
        model = cell.dialect.model(f"http://127.0.0.1:{server.port}", KEY if key is None else key())

        def outcome(serve: Serve, timeout: float) -> Outcome:
            server.script[:] = running.track(serve(scene))
            before = len(server.requests)
            request = ChatRequest.of("Hello", options=ChatOptions(timeout=timeout))
            result, problems = _result(call, runner, model, request)
            running.wait()
            return Outcome(result, len(server.requests) - before, tuple(problems))

        try:
            return outcome(cell.fault.serve, cell.fault.timeout), outcome(Http(), 10.0)
        finally:
            runner.run(model.aclose())


Call: TypeAlias = Callable[[asyncio.Runner, HttpChatModel, ChatRequest], tuple[ChatReply, str]]


def _result(
    call: Call, runner: asyncio.Runner, model: HttpChatModel, request: ChatRequest
) -> tuple[Value | Failure | str, Iterable[str]]:
    try:
        reply, shown = call(runner, model, request)
    except ModelError as error:
        failure = Failure(type(error), error.status, error.retryable, error.retry_after)
        return failure, _problems_of_error(str(error))
    except Exception as error:
        return f"{type(error).__name__}: {error}", ()
    usage = reply.usage
    tokens = None if usage is None else (usage.input_tokens, usage.output_tokens)
    return Value(reply.text, tokens), _problems_of_reply(reply, shown)


def _complete(runner: asyncio.Runner, model: HttpChatModel, request: ChatRequest) -> tuple[ChatReply, str]:
    reply = model.complete(request)
    return reply, reply.text


def _acomplete(runner: asyncio.Runner, model: HttpChatModel, request: ChatRequest) -> tuple[ChatReply, str]:
    reply = runner.run(model.acomplete(request))
    return reply, reply.text


def _stream(runner: asyncio.Runner, model: HttpChatModel, request: ChatRequest) -> tuple[ChatReply, str]:
    with closing(model.stream(request)) as stream:
        return _joined(list(stream))


def _astream(runner: asyncio.Runner, model: HttpChatModel, request: ChatRequest) -> tuple[ChatReply, str]:
    async def read() -> list[ReplyDelta]:
        async with aclosing(model.astream(request)) as stream:
            return [delta async for delta in stream]

    return _joined(runner.run(read()))


_CALLS: dict[str, Call] = dict(zip(KINDS, (_complete, _acomplete, _stream, _astream), strict=True))


def _joined(deltas: list[ReplyDelta]) -> tuple[ChatReply, str]:
    assert deltas[-1].reply is not None
    return deltas[-1].reply, "".join(delta.text for delta in deltas)


def _problems_of_error(message: str) -> Iterator[str]:
    if KEY in message or "key-number" in message:
        yield "the message has the key"
    if _CONTROL.search(message):
        yield f"the message has control characters: {message!r}"


def _problems_of_reply(reply: ChatReply, shown: str) -> Iterator[str]:
    if shown != reply.text:
        yield f"the stream showed {shown!r}"
    for name, count in asdict(reply.usage).items() if reply.usage else ():
        if type(count) is not int or not 0 <= count < _MOST_TOKENS:
            yield f"{name} is {count!r}"
