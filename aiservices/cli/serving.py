"""The command ``serve``: a service over HTTP."""

from __future__ import annotations

from importlib.util import find_spec

from .failures import Failure, Mistake
from .services import find, make, methods_to_ask, model_named

__all__ = ["serve"]


def serve(target: str, model: str | None, host: str, port: int) -> None:
    """Serve until it is stopped. Raises Mistake, DefinitionError, and Failure when the port is taken."""
    for needed in ("fastapi", "uvicorn"):
        if find_spec(needed) is None:
            raise Mistake(
                f"serve needs {needed}, which is not installed: pip install 'aiservices[cli,fastapi]'"
            )
    found = find(target)
    if found.method:
        raise Mistake(f"a service is served as a whole: leave .{found.method} out")
    service = make(found, model_named(model))
    methods_to_ask(found, service)

    import uvicorn

    from ..integrations.fastapi import app

    try:
        uvicorn.run(app(service, interface=found.interface_of(service)), host=host, port=port)
    except SystemExit:
        raise Failure(f"nothing can be served at {host}:{port}; the lines above say why") from None
