"""Whom TLS connections trust."""

from __future__ import annotations

import os
import ssl
import sys
from functools import cache

from .base import TransportError

__all__ = ["ssl_context"]


@cache
def ssl_context() -> ssl.SSLContext:
    """The one context of this process: making one reads hundreds of certificates.

    SSL_CERT_FILE and SSL_CERT_DIR are read when it is made; else the system's own store is asked on macOS and
    Windows, and elsewhere the certificates where OpenSSL has them, or those of certifi where there are none.
    Raises TransportError when what these variables name cannot be read.
    """
    asked = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if any(asked):
        try:
            return ssl.create_default_context(cafile=asked[0] or None, capath=asked[1] or None)
        except OSError as error:
            raise TransportError(
                f"the certificates that SSL_CERT_FILE and SSL_CERT_DIR name cannot be read: {error}"
            ) from error
    if sys.platform in ("darwin", "win32"):
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and os.listdir(paths.capath)):
        return ssl.create_default_context()
    import certifi

    return ssl.create_default_context(cafile=certifi.where())
