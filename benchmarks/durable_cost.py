"""The processor time of a durable call of one request, compared to the same call without a journal.

    python -m benchmarks.durable_cost

The model is a fake one, or a local server with OpenAI's API in another process. The figures are the medians
of the ratios of rounds, in which the kinds of calls alternate.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Protocol

from aiservices import CallId, Durable, Journal, OpenAiChatModel, ScriptedChatModel, create, user_message

from .records import Person
from .rows import server
from .values import PERSON

ROUNDS, CALLS = 9, 100


class Plain(Protocol):
    @user_message("Who is {{name}}?")
    def person(self, name: str) -> Person: ...


class Recorded(Protocol):
    @user_message("Who is {{name}}?")
    def person(self, name: str, call_id: Annotated[str | None, CallId] = None) -> Person: ...


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    gc.collect()
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - began) / CALLS


def ratios(model: Any, folder: Path) -> dict[str, float]:
    """Return the median ratio of each kind of call to a call without Durable."""
    numbers = count()
    plain = create(Plain, model)
    kinds: dict[str, Callable[[], object]] = {}
    for name in ("NORMAL", "FULL"):
        journal = Journal(folder / f"{id(model)}-{name}.db", synchronous=name)  # type: ignore[arg-type]
        service = create(Recorded, model, interceptors=[Durable(journal)])
        kinds[f"SQLite, {name}"] = lambda service=service: service.person("Ann", call_id=f"c{next(numbers)}")  # type: ignore[misc]
        kinds["without an id"] = lambda service=service: service.person("Ann")  # type: ignore[misc]
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(ROUNDS):
        bare = seconds(lambda: plain.person("Ann"))
        for name, call in kinds.items():
            found[name].append(seconds(call) / bare)
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    """Print the ratios with a fake model and with a local server."""
    with TemporaryDirectory() as folder, server() as url:
        models = {
            "a fake model": ScriptedChatModel(lambda request: json.dumps(PERSON)),
            "a local server": OpenAiChatModel("person", base_url=url, api_key="none"),
        }
        for name, model in models.items():
            for kind, ratio in ratios(model, Path(folder)).items():
                print(f"{name}, {kind}: {ratio:.2f}")


if __name__ == "__main__":
    main()
