"""Serves the clerk: ``python -m samples.service [--model MODEL | --scripted] [--port PORT]``.

Without a model it takes the embedded one, or what AISERVICES_MODEL names. ``clerk.http`` holds requests for
it, and http://127.0.0.1:8000/docs a page to try them on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import uvicorn
from fastapi import FastAPI

from aiservices import ChatModel, DefinitionError, create
from aiservices.integrations.fastapi import app

from .clerk import PATHS, Clerk
from .scripted import scripted


def application(model: ChatModel | str | None = None) -> FastAPI:
    """The whole application. ``model`` is as in ``create``."""
    return app(create(Clerk, model), paths=PATHS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until it is stopped; 1 when there is no model."""
    parser = argparse.ArgumentParser(
        prog="python -m samples.service", description="Serves the clerk over HTTP."
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--model", help='as in create: "local", "openai:NAME"; by default the embedded one')
    chosen.add_argument(
        "--scripted", action="store_true", help="answers that are written down: no key, no weights"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args(arguments)
    try:
        served = application(scripted() if given.scripted else given.model)
    except DefinitionError as error:
        print(f"It cannot be served: {error}", file=sys.stderr)
        return 1
    uvicorn.run(served, host=given.host, port=given.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
