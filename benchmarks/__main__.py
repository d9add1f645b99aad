"""``python -m benchmarks [STAGE] [--rounds N] [--out FILE] [--why] [--peers DIR] [--model MODEL]``.

Or ``python -m benchmarks plot FILE --to FILE``, or ``python -m benchmarks instructions [--accept]``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from . import (
    accuracy,
    call_stage,
    cold_stage,
    conversation_stage,
    create_stage,
    import_stage,
    instructions,
    parse_stage,
    plot,
    scaling,
    stream_stage,
)
from .accuracy import Scores
from .cores import pin, two_cores
from .measure import QUICK, Effort
from .results import Stage, lines

__all__ = ["main"]

_STAGES = ("import", "create", "call", "conversation", "stream", "parse", "cold", "accuracy", "all")
_APART = "accuracy"  # asks a model for many minutes, and is about answers instead of times
_COMMANDS: dict[str, Callable[[list[str]], None]] = {"plot": plot.main, "instructions": instructions.main}
_MEASURED_WITH = ("openai", "pydantic", "pydantic_core", "json_repair")


def main(arguments: list[str] | None = None) -> None:
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] in _COMMANDS:
        _COMMANDS[given[0]](given[1:])
    else:
        _measure(_options().parse_args(given))


def _measure(asked: argparse.Namespace) -> None:
    effort = QUICK if asked.quick else Effort()
    if asked.rounds is not None:
        effort = replace(effort, rounds=asked.rounds)
    cores = None if asked.quick or asked.stage == _APART else two_cores()
    if cores is not None:
        pin(cores[0])
    server_core = None if cores is None else cores[1]
    stages: dict[str, tuple[Callable[[], Stage | Scores], ...]] = {
        "import": (lambda: import_stage.run(effort, why=asked.why, peers=asked.peers),),
        "create": (lambda: create_stage.run(effort),),
        "call": (lambda: call_stage.run(effort, server_core=server_core, peers=asked.peers),),
        "conversation": (lambda: conversation_stage.run(effort, server_core=server_core),),
        "stream": (lambda: stream_stage.run(effort, server_core=server_core, peers=asked.peers),),
        "parse": (lambda: parse_stage.run(effort), lambda: scaling.run(effort)),
        "cold": (lambda: cold_stage.run(effort, server_core=server_core),),
        _APART: (lambda: accuracy.run(asked.model, progress=partial(print, flush=True)),),
    }
    done = []
    for name in [name for name in stages if name != _APART] if asked.stage == "all" else [asked.stage]:
        for run in stages[name]:
            done.append(run())
            print("\n".join(_lines(done[-1])), flush=True)
    if asked.out is not None:
        told = {**_machine(effort), "stages": {stage.name: stage.as_data() for stage in done}}
        asked.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios of cost, with their spread.")
    parser.add_argument("stage", nargs="?", default="all", choices=_STAGES)
    parser.add_argument("--rounds", type=_positive, help="how often each pair is measured (15)")
    parser.add_argument("--out", type=Path, help="a file for all figures as JSON")
    parser.add_argument("--why", action="store_true", help="the modules that importing spends its time on")
    parser.add_argument("--peers", type=Path, help="a directory of environments that have other libraries")
    parser.add_argument("--model", default="local", help="the model whose answers are judged (local)")
    parser.add_argument("--quick", action="store_true", help="one tiny round: shows that it runs, no more")
    return parser


def _lines(stage: Stage | Scores) -> Iterable[str]:
    return stage.lines() if isinstance(stage, Scores) else lines(stage)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return number


def _machine(effort: Effort) -> dict[str, object]:
    return {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rounds": effort.rounds,
        "versions": {name: _version(name) for name in _MEASURED_WITH},
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
