"""The command ``python -m benchmarks [STAGE]``, which runs the benchmarks.

Options: ``[--rounds N] [--out FILE] [--show_imports] [--peers DIR] [--model MODEL]``.

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
    cold_start_stage,
    conversation_stage,
    create_stage,
    import_stage,
    instructions,
    parse_stage,
    plot,
    providers_stage,
    scaling,
    stream_stage,
)
from .accuracy import Scores
from .cpu_pinning import choose_cores, pin_to_core
from .measure import QUICK, Effort
from .results import Stage, lines

_STAGES = ("import", "create", "call", "conversation", "stream", "providers", "parse", "cold", "accuracy")
_ACCURACY = "accuracy"  # takes many minutes, and measures answers instead of times
_COMMANDS: dict[str, Callable[[list[str]], None]] = {"plot": plot.main, "instructions": instructions.main}
_PACKAGES = ("openai", "pydantic", "pydantic_core", "json_repair")


def main(arguments: list[str] | None = None) -> None:
    """Run a stage of the benchmarks, or one of the commands ``plot`` and ``instructions``."""
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in _COMMANDS:
        _COMMANDS[words[0]](words[1:])
    else:
        _measure(_options().parse_args(words))


def _measure(options: argparse.Namespace) -> None:
    effort = QUICK if options.quick else Effort()
    if options.rounds is not None:
        effort = replace(effort, rounds=options.rounds)
    cores = None if options.quick or options.stage == _ACCURACY else choose_cores()
    if cores is not None:
        pin_to_core(cores[0])
    server_core = None if cores is None else cores[1]
    stages: dict[str, tuple[Callable[[], Stage | Scores], ...]] = {
        "import": (lambda: import_stage.run(effort, show_imports=options.why, peers=options.peers),),
        "create": (lambda: create_stage.run(effort),),
        "call": (lambda: call_stage.run(effort, server_core=server_core, peers=options.peers),),
        "conversation": (lambda: conversation_stage.run(effort, server_core=server_core),),
        "stream": (lambda: stream_stage.run(effort, server_core=server_core, peers=options.peers),),
        "providers": (lambda: providers_stage.run(effort, server_core=server_core),),
        "parse": (lambda: parse_stage.run(effort), lambda: scaling.run(effort)),
        "cold": (lambda: cold_start_stage.run(effort, server_core=server_core),),
        _ACCURACY: (lambda: accuracy.run(options.model, progress=partial(print, flush=True)),),
    }
    results = []
    for name in [name for name in stages if name != _ACCURACY] if options.stage == "all" else [options.stage]:
        for run in stages[name]:
            results.append(run())
            print("\n".join(_lines(results[-1])), flush=True)
    if options.out is not None:
        figures = {**_machine(effort), "stages": {stage.name: stage.as_data() for stage in results}}
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Time ratios with their spread.")
    parser.add_argument("stage", nargs="?", default="all", choices=(*_STAGES, "all"))
    parser.add_argument("--rounds", type=_positive, help="how often each pair is measured (default: 15)")
    parser.add_argument("--out", type=Path, help="write all figures to this JSON file")
    parser.add_argument(
        "--why", action="store_true", help="also list the modules that take the most import time"
    )
    parser.add_argument("--peers", type=Path, help="the directory with the environments of other libraries")
    parser.add_argument("--model", default="local", help="the model for the accuracy stage (default: local)")
    parser.add_argument("--quick", action="store_true", help="one tiny round, to check that the stages run")
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
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
