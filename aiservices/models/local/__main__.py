"""The command ``python -m aiservices.models.local``: pulls the embedded model's weights, lists them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .download import ProgressLine, WeightsError, pull
from .weights import KNOWN, is_ready, place_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 when it worked, 1 when the weights cannot be had, 2 when it was mistyped."""
    asked = _parser().parse_args(arguments)
    if asked.command == "list":
        _list()
        return 0
    try:
        print(pull(asked.name, ProgressLine()))
    except (LookupError, WeightsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; run it again to go on where it stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m aiservices.models.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the known weights, and which of them are on this machine")
    puller = commands.add_parser("pull", help="get weights, check their SHA-256, print their path")
    puller.add_argument("name", metavar="NAME", help=", ".join(weights.name for weights in KNOWN))
    return parser


def _list() -> None:
    for weights in KNOWN:
        where = str(place_of(weights)) if is_ready(weights) else "not pulled"
        print(
            f"{weights.name:<20} {weights.size / 1e9:.1f} GB, {weights.memory / 1e9:.1f} GB of memory, "
            f"{weights.licence}: {where}"
        )


if __name__ == "__main__":
    sys.exit(main())
