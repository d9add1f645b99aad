"""Run a sample as a program: ``python -m samples.person``."""

from __future__ import annotations

import sys
from collections.abc import Callable

from aiservices import DefinitionError

_OTHER_MODELS = "AISERVICES_MODEL=openai:NAME selects another model, AISERVICES_MODEL=fake makes up answers"


def run(main: Callable[[], object]) -> None:
    """Run a sample. If it lacks a model or a package, print the choices in one line, and exit with 1."""
    try:
        main()
    except DefinitionError as error:
        if not error.unavailable:
            raise
        sys.exit(f"This sample has no model: {error.problems[0].message}. {_OTHER_MODELS}.")
    except ImportError as error:
        sys.exit(f"This sample lacks a package: {error}")
