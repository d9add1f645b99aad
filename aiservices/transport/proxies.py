"""Which proxy the environment wants for an address, and how it fails."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from .base import TransportError

__all__ = ["ProxyError", "proxy_of"]


class ProxyError(OSError):
    """The proxy cannot be reached, or refuses; the message has no credentials."""


def proxy_of(url: str) -> str | None:
    """The proxy for ``url``: by HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, or the system's settings.

    Raises TransportError when it is no HTTP proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # NO_PROXY names a host with or without its port, and that of IPv6 without brackets
    hosts = (parts.netloc.rpartition("@")[2], parts.hostname or "")
    if not proxy or any(proxy_bypass(host) for host in hosts):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    kind = urlsplit(proxy).scheme
    if kind not in ("http", "https"):
        raise TransportError(
            f"the environment asks for a {kind.upper()} proxy; set an HTTP proxy, except the host by "
            "NO_PROXY, or pass a client of the SDK's that goes through the proxy"
        )
    return proxy
