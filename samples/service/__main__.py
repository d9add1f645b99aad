"""Serve the clerk over HTTP: ``python -m samples.service [--model MODEL | --scripted] [--port PORT]``.

The default is the model that AISERVICES_MODEL names, or the embedded one if it is not set. ``clerk.http`` has
requests for the endpoints, and http://127.0.0.1:8000/docs is a page to try them.
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
    """Return the FastAPI application. ``model`` is passed to ``create``.

    The endpoints answer GET requests too, so that they can be tried in the address bar of a browser.
    """
    return app(create(Clerk, model), paths=PATHS, allow_get=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the HTTP server until the process is stopped. Return 1 if no model is available."""
    parser = argparse.ArgumentParser(
        prog="python -m samples.service", description="Serve the clerk over HTTP."
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--model", help='the model, such as "local" or "openai:NAME"; default: the embedded model'
    )
    group.add_argument(
        "--scripted", action="store_true", help="use prepared answers, without a key or weights"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    try:
        service = application(scripted() if options.scripted else options.model)
    except DefinitionError as error:
        print(f"The service cannot start: {error}", file=sys.stderr)
        return 1
    uvicorn.run(service, host=options.host, port=options.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
