"""A host name whose resolution takes long: calls end in time, and nothing waits for the resolver."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="a library is compiled and preloaded"
)

RESOLVER = """
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **found) {
    sleep(5);
    return EAI_NONAME;
}
"""

SCRIPT = """
import asyncio, inspect, json, time
from aiservices.models.errors import ModelTimeoutError
from aiservices.models.openai import OpenAiChatModel
from aiservices.models.requests import ChatOptions, ChatRequest

hello = ChatRequest.of("Hello", options=ChatOptions(timeout=0.2))

def model():
    return OpenAiChatModel("m", base_url="http://slow.test/v1", api_key="k")

def ask():
    with model() as asked:
        asked.complete(hello)

def tell():
    with model() as asked:
        list(asked.stream(hello))

async def ask_async():
    async with model() as asked:
        await asked.acomplete(hello)

async def tell_async():
    async with model() as asked:
        [delta async for delta in asked.astream(hello)]

async def cancel():
    async with model() as asked:
        await asyncio.wait_for(asked.acomplete(ChatRequest.of("Hello")), 0.2)

seconds = []
for call in (ask, tell, ask_async, tell_async, cancel):
    start = time.monotonic()
    try:
        asyncio.run(call()) if inspect.iscoroutinefunction(call) else call()
    except (ModelTimeoutError, TimeoutError):
        seconds.append(time.monotonic() - start)
print(json.dumps(seconds))
"""


def test_calls_end_in_time_while_a_host_name_is_resolved(run: Any, tmp_path: Path) -> None:
    library, source = tmp_path / "resolver.so", tmp_path / "resolver.c"
    source.write_text(RESOLVER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    seconds = run(SCRIPT, LD_PRELOAD=str(library))
    assert len(seconds) == 5
    assert max(seconds) < 4
