"""A command-line program that downloads and lists the weights of the embedded llama.cpp model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .weights import WEIGHTS, ProgressLine, WeightsError, is_ready, pull, weights_path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command-line program that manages model weights, and return its exit code.

    The code is 0 on success, 1 if the weights cannot be downloaded, 2 for unknown weights, and 130 after
    Ctrl-C. Other wrong arguments end the program with 2.
    """
    options = _argument_parser().parse_args(arguments)
    if options.command == "list":
        _print_weights()
        return 0
    try:
        print(pull(options.name, ProgressLine()))
    except (LookupError, WeightsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, WeightsError) else 2
    except KeyboardInterrupt:
        print("\nstopped; run the command again to continue", file=sys.stderr)
        return 130
    return 0


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m aiservices.models.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the known weights, and which of them are on this machine")
    puller = commands.add_parser("pull", help="download weights, verify their SHA-256, print their path")
    puller.add_argument("name", metavar="NAME", help=", ".join(weights.name for weights in WEIGHTS))
    return parser


def _print_weights() -> None:
    for weights in WEIGHTS:
        location = str(weights_path(weights)) if is_ready(weights) else "not pulled"
        print(f"{weights.name:<20} {weights.needs}: {location}")


if __name__ == "__main__":
    sys.exit(main())
