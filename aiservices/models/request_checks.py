"""Functions that are called before each request to a model, such as the guard of the pytest plugin."""

from __future__ import annotations

from collections.abc import Callable

# Each gets the name of the model and the address of its server, which is None for a model in this process.
# It raises an exception to prevent the request.
REQUEST_CHECKS: list[Callable[[str, str | None], None]] = []
