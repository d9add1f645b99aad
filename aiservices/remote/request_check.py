"""Reject HTTP requests to unknown host names, and requests from web pages of other origins.

This module needs Starlette only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..models.errors import DefinitionProblem
from .problems import PROBLEM_MEDIA_TYPE, Problem, host_problem, origin_problem

_HOST_PATTERN = re.compile(r"\*|(\*\.)?[\w-]+(\.[\w-]+)*")
_PORT = re.compile(r":\d*$")
NO_STORE = {"Cache-Control": "no-store"}  # a model answers differently each time


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return an HTTP error response with a JSON body that describes the error (RFC 9457)."""
    all_headers = {**NO_STORE, **problem.headers, **(headers or {})}
    return Response(problem.json_bytes(), problem.status, all_headers, PROBLEM_MEDIA_TYPE)


class RequestCheck:
    """ASGI middleware that rejects requests for unknown host names or from web pages of other origins.

    Args:
        app: The application.
        allowed_hosts: The application's host names. None allows all.
        same_origin: True to reject browser requests that come from a web page of another origin.
    """

    def __init__(
        self, app: ASGIApp, *, allowed_hosts: Collection[str] | None = None, same_origin: bool = False
    ) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts
        self._same_origin = same_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "")
            problem = None
            if self._allowed_hosts is not None and not _is_allowed_host(host, self._allowed_hosts):
                problem = host_problem(host)
            elif self._same_origin and not _is_same_origin(scope["method"], headers):
                problem = origin_problem(headers.get("origin", "another origin"))
            if problem is not None:
                await problem_response(problem)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_problems(location: str, allowed_hosts: Collection[str] | None) -> list[DefinitionProblem]:
    """Return an error for each entry in the list of allowed hosts that is not a valid host name."""
    if isinstance(allowed_hosts, str):
        return [DefinitionProblem(location, f"allowed_hosts is a str; pass [{allowed_hosts!r}]")]
    return [
        DefinitionProblem(
            location,
            f"{host!r} is not a host name; pass one such as 'api.example.com', without port and path",
        )
        for host in allowed_hosts or ()
        if not _HOST_PATTERN.fullmatch(host)
    ]


def _is_allowed_host(host: str, allowed_hosts: Collection[str]) -> bool:
    """Return True if a request's Host header contains an IP address, localhost or an allowed host."""
    name = _PORT.sub("", host).strip("[]").rstrip(".").lower()
    try:
        ip_address(name)
    except ValueError:
        pass
    else:
        return True  # a web page can only rebind host names
    if name == "localhost" or name.endswith(".localhost"):
        return True
    for allowed in allowed_hosts:
        pattern = allowed.lower()
        if pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])):
            return True
    return False


def _is_same_origin(method: str, headers: Headers) -> bool:
    """Return False if a web page of another origin sent the request, unless a user followed a link.

    Links on other sites are allowed, because a GET request never calls a model on this server.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("same-origin", "none") or (is_link and method in ("GET", "HEAD"))
    # Browsers send Sec-Fetch-Site over HTTPS and to localhost, and Origin with each POST.
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
