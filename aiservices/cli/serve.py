"""The command ``serve``: an HTTP server for one service, with a page to try its methods."""

from __future__ import annotations

from importlib.util import find_spec

from .errors import CommandFailedError, UsageError
from .services import find_target, make_service, model_from_option

_LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]", "::1"]


def serve(target_name: str, model: str | None, host: str, port: int) -> None:
    """Serve the endpoints of a service and the page to try them, until the process is stopped.

    Raises UsageError, DefinitionError, and CommandFailedError if the server cannot start.
    """
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise UsageError(
                f"serve needs {package}, which is not installed: pip install 'aiservices[cli,fastapi]'"
            )
    target = find_target(target_name)
    if target.method:
        raise UsageError(f"only a whole service can be served: leave .{target.method} out")
    service = make_service(target, model_from_option(model))

    import uvicorn
    from fastapi.middleware.trustedhost import TrustedHostMiddleware

    from ..integrations.fastapi import app
    from ..integrations.playground import mount

    interface = target.interface_of(service)
    web_app = app(service, interface=interface)
    mount(web_app, service, interface=interface)
    if host in _LOOPBACK_HOSTS:
        # Against DNS rebinding: a web page could reach this server by a host name that resolves to loopback.
        web_app.add_middleware(TrustedHostMiddleware, allowed_hosts=_LOOPBACK_HOSTS)
    try:
        uvicorn.run(web_app, host=host, port=port)
    except SystemExit:
        raise CommandFailedError(f"cannot serve at {host}:{port}; the lines above say why") from None
