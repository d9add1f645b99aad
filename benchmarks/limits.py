"""How much of a server's hidden limit a LimitedChatModel uses, and how many requests are refused.

``python -m benchmarks.limits [SECONDS]`` starts a local HTTP server for each kind of limit, sends requests
from 64 tasks, learns for the first half of the time, and measures in the second half.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from aiservices import ChatRequest, LimitedChatModel, OpenAiChatModel

_BODY = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }
).encode()


class Kind(NamedTuple):
    """A limit of a server.

    Attributes:
        title: What it is.
        per_second: Requests per second that it accepts; 0 for a limit of requests in flight.
        burst: Requests that it accepts at once.
        window: The seconds of a window in which all its requests may come at once; 0 for none.
        in_flight: Requests that it accepts at the same time; 0 for any number.
        retry_after: True if a refusal says how long to wait.
        outage: After so many seconds it refuses everything for two seconds, again and again; 0 for never.
        change: The requests per second after a quarter of the time; 0 for no change.
        clients: The number of processes that send requests with the same key.
        tokens: True for a limit of tokens: a request has 20 to 180, and 100 count as one request.
        delay: The seconds until the server answers.
    """

    title: str
    per_second: float = 0.0
    burst: float = 10.0
    window: float = 0.0
    in_flight: int = 0
    retry_after: bool = False
    outage: float = 0.0
    change: float = 0.0
    clients: int = 1
    tokens: bool = False
    delay: float = 0.05

    def allowed(self) -> float:
        """Return the requests per second that the server accepts at the end, or those in flight."""
        if self.in_flight:
            return float(self.in_flight)
        share = 1 - 2 / (self.outage + 2) if self.outage else 1.0
        return (self.change or self.per_second) * share


KINDS = (
    Kind("100 requests a second", 100),
    Kind("200 requests a second", 200),
    Kind("100 requests a second, with Retry-After", 100, retry_after=True),
    Kind("600 requests in each 10 seconds", 60, window=10),
    Kind("20 requests at the same time", in_flight=20),
    Kind("100 a second, an outage of 2 s after every 15 s", 100, outage=15),
    Kind("100 a second, later 40", 100, change=40),
    Kind("40 a second, later 100", 40, change=100),
    Kind("100 a second, two processes with one key", 100, clients=2),
    Kind("10,000 tokens a second, at most 1,000 at once", 100, tokens=True),
    Kind(
        "10,000 tokens a second, at most 50,000 at once, requests of 20 to 180", 100, burst=500, tokens=True
    ),
)


class _Server:
    def __init__(self, kind: Kind, seconds: float) -> None:
        self.kind = kind
        self.accepted: list[float] = []
        self.costs: list[float] = []
        self.refused: list[float] = []
        self.busy: list[float] = []  # how long each request was in flight here
        self._start = self._at = time.monotonic()
        self._change_at = self._start + seconds / 4
        self._left, self._count, self._in_flight = kind.burst, 0, 0

    def accept(self, cost: float) -> float | None:
        """Return None for a request that is accepted, else the seconds to wait."""
        now, kind = time.monotonic(), self.kind
        rate = kind.change if kind.change and now >= self._change_at else kind.per_second
        if kind.outage:
            since = (now - self._start) % (kind.outage + 2)
            if since > kind.outage:
                return kind.outage + 2 - since
        if kind.in_flight:
            return None if self._in_flight < kind.in_flight else 0.1
        if kind.window:
            if now - self._at > kind.window:
                self._at, self._count = now, 0
            self._count += 1
            return None if self._count <= rate * kind.window else self._at + kind.window - now
        self._left = min(kind.burst, self._left + (now - self._at) * rate)
        self._at = now
        if self._left < cost:
            return (cost - self._left) / rate
        self._left -= cost
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                text = json.loads(await reader.readexactly(length))["messages"][0]["content"]
                cost = len(text) / 100 if self.kind.tokens else 1.0
                wait = self.accept(cost)
                if wait is None:
                    self._in_flight += 1
                    begun = time.monotonic()
                    await asyncio.sleep(self.kind.delay)
                    self._in_flight -= 1
                    self.accepted.append(time.monotonic())
                    self.costs.append(cost)
                    self.busy.append(self.accepted[-1] - begun)
                    status, body, extra = "200 OK", _BODY, ""
                else:
                    self.refused.append(time.monotonic())
                    status, body = "429 Too Many Requests", b'{"error": {"message": "slow down"}}'
                    extra = f"retry-after-ms: {wait * 1000:.0f}\r\n" if self.kind.retry_after else ""
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{extra}"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def _send(url: str, seconds: float, sizes: tuple[int, int] = (5, 5)) -> None:
    """Send requests with texts of this number of characters."""
    random = Random(7)

    async def run() -> None:
        model = LimitedChatModel(OpenAiChatModel("m", base_url=url, api_key="k"))
        end = time.monotonic() + seconds

        async def work() -> None:
            while time.monotonic() < end:
                await model.acomplete(ChatRequest.of("x" * random.randint(*sizes)))

        tasks = [asyncio.create_task(work()) for _ in range(64)]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def measure(
    kind: Kind, seconds: float, send: Callable[..., None] = _send, *arguments: object
) -> tuple[float, float]:
    """Return the share of the allowed requests that was used, and the share that was refused.

    ``send`` sends requests to a URL for some seconds; it runs in a process of its own.
    """

    async def run() -> tuple[float, float]:
        server = _Server(kind, seconds)
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        start: Callable[..., multiprocessing.Process] = multiprocessing.get_context("spawn").Process
        clients = [start(target=send, args=(url, seconds + 1, *arguments)) for _ in range(kind.clients)]
        for client in clients:
            client.start()
        while not server.accepted:
            if not any(client.is_alive() for client in clients):
                raise RuntimeError("the client ended before its first request")
            await asyncio.sleep(0.01)
        middle, end = server.accepted[0] + seconds / 2, server.accepted[0] + seconds
        await asyncio.sleep(end - time.monotonic())
        for client in clients:
            client.terminate()
            client.join()
        uses = server.busy if kind.in_flight else server.costs
        measured = [use for one, use in zip(server.accepted, uses, strict=True) if middle <= one < end]
        accepted, used = len(measured), sum(measured)
        refused = sum(middle <= one < end for one in server.refused)
        return used / (kind.allowed() * seconds / 2), refused / (accepted + refused)

    return asyncio.run(run())


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    print(f"Measured for {seconds / 2:g} seconds, after as many for learning\n")
    print("| limit of the server | used | refused |\n|---|---|---|")
    for kind in KINDS:
        used, refused = measure(kind, seconds, _send, (20, 180) if kind.tokens else (5, 5))
        print(f"| {kind.title} | {used:.1%} | {refused:.2%} |", flush=True)


if __name__ == "__main__":
    main()
