"""How a command ends that cannot do what it was asked: exit codes, and words without a traceback."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import IntEnum

import typer

from .terminal import say

__all__ = ["ExitCode", "Failure", "Mistake", "meant", "reported"]


class ExitCode(IntEnum):
    """What a command says to the shell."""

    DONE = 0
    FAILED = 1  # the call failed, or the check found faults
    USAGE = 2  # what was typed, or the definition of the service, is wrong
    STOPPED = 130  # Ctrl+C


class Mistake(Exception):
    """What was typed cannot be done; the message says what to type instead."""


class Failure(Exception):
    """What was asked for was right, and did not work."""


@contextmanager
def reported(*, debug: bool, as_json: bool = False) -> Iterator[None]:
    """End the command with the exit code of the error that is raised inside, and say it on standard error.

    ``debug`` shows the traceback before it; ``as_json`` also writes the error as JSON to standard output.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise typer.Exit(ExitCode.STOPPED) from None
    except BrokenPipeError:  # who reads has seen enough, which the command line's own machinery knows
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        if as_json:
            print(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))
        say(f"error: {_said(error)}", file=sys.stderr)
        raise typer.Exit(_code_of(error)) from None


def _code_of(error: Exception) -> ExitCode:
    from ..errors import DefinitionError

    return ExitCode.USAGE if isinstance(error, (Mistake, DefinitionError)) else ExitCode.FAILED


def _said(error: Exception) -> str:
    from ..errors import AiServiceError

    if isinstance(error, (Mistake, Failure, AiServiceError)):
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows where)"


def meant(typed: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that is not known: the closest of those that are, or all of them."""
    close = get_close_matches(typed, known, 1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there are: {', '.join(known)}" if known else ""
