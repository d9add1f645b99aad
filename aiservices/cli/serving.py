"""The command ``serve``: a service over HTTP, with a page to try it."""

from __future__ import annotations

from importlib.util import find_spec

from .failures import Failure, Mistake
from .services import find, make, methods_to_ask, model_named

__all__ = ["serve"]


_OF_THIS_MACHINE = ["localhost", "127.0.0.1", "[::1]", "::1"]


def serve(target: str, model: str | None, host: str, port: int) -> None:
    """Serve the endpoints, and the page that tries them, until it is stopped.

    Raises Mistake, DefinitionError, and Failure when the port is taken."""
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
    from fastapi.middleware.trustedhost import TrustedHostMiddleware

    from ..integrations.fastapi import app
    from ..page import mount

    interface = found.interface_of(service)
    web = app(service, interface=interface)
    mount(web, service, interface=interface)
    if host in _OF_THIS_MACHINE:  # else a site that a browser here visits could ask by a name of its own
        web.add_middleware(TrustedHostMiddleware, allowed_hosts=_OF_THIS_MACHINE)
    try:
        uvicorn.run(web, host=host, port=port)
    except SystemExit:
        raise Failure(f"nothing can be served at {host}:{port}; the lines above say why") from None
