"""Says where an OpenAI-compatible model lives, and what that place takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from .base import Capabilities

__all__ = ["Place", "Provider", "place_at", "place_of"]

Provider: TypeAlias = Literal["openai", "azure", "ollama"]

_KEY_ADVICE = {
    "openai": "set OPENAI_API_KEY or pass api_key",
    "azure": "set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or pass api_key",
    "ollama": "pass the api_key that the server asks for",
}
_NO_OLLAMA_HOST = (
    'OLLAMA_HOST must be a host, with http:// or https:// and a port or without, as in "box:11434"'
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go.

    ``base_url`` is "" when the SDK is to find the address itself, as Azure's does. ``azure``: the address
    needs the deployment's name in its path. ``of_openai``: OpenAI's own models and parameters live there.
    """

    provider: Provider
    base_url: str
    azure: bool = False
    of_openai: bool = False

    @property
    def shown(self) -> str:
        """The address for messages and logs: without credentials and query."""
        parts = urlsplit(self.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", ""))
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")

    @property
    def key_advice(self) -> str:
        return _KEY_ADVICE[self.provider]

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(json_schema=True, strict_schema=self.of_openai, json_mode=True, tools=True)


def place_at(provider: Provider, base_url: str | None) -> Place:
    """The place that a provider and an address (or, without one, the environment) stand for.

    Raises ValueError when the address is none.
    """
    if provider == "azure":
        if base_url:
            _check(base_url, "base_url")
        return Place(provider, base_url or "", azure="/deployments" not in (base_url or ""), of_openai=True)
    if base_url:
        _check(base_url, "base_url")
    elif provider == "ollama":
        base_url = _ollama_url(os.environ.get("OLLAMA_HOST", ""))
    else:
        base_url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        _check(base_url, "OPENAI_BASE_URL")
    return Place(provider, base_url, of_openai=_is_openai_host(base_url))


def place_of(client: object) -> Place:
    """The place that a client of the SDK is set to."""
    from openai import AsyncAzureOpenAI, AzureOpenAI

    base_url = str(getattr(client, "base_url", ""))
    if isinstance(client, AzureOpenAI | AsyncAzureOpenAI):
        return Place("azure", base_url, azure="/deployments" not in base_url, of_openai=True)
    return Place("openai", base_url, of_openai=_is_openai_host(base_url))


def _check(base_url: str, name: str) -> None:
    """Raises ValueError for what is no address; ``name`` says where it stands."""
    # not quoted in messages, since it may hold credentials
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f'{name} must begin with http:// or https://, as in "http://localhost:8000/v1"')
    try:
        parts = urlsplit(base_url)
        fit = bool(parts.hostname) and parts.port != 0 and " " not in base_url
    except ValueError:
        fit = False
    if not fit:
        raise ValueError(f'{name} must be a URL with a host, as in "http://localhost:8000/v1"') from None


def _is_openai_host(base_url: str) -> bool:
    # OpenAI also has regional hosts (eu.api.openai.com); Azure serves OpenAI's API below azure.com
    host = "." + (urlsplit(base_url).hostname or "")
    return host.endswith((".api.openai.com", ".azure.com"))


def _ollama_url(host: str) -> str:
    """OLLAMA_HOST as Ollama reads it: scheme and port may be missing; 0.0.0.0 listens and is no target."""
    scheme, found, rest = host.strip().rpartition("://")
    default_port = {"http": 80, "https": 443}.get(scheme, 11434)
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or default_port
    except ValueError:
        raise ValueError(_NO_OLLAMA_HOST) from None
    name = {None: "localhost", "": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(
        parts.hostname, parts.hostname or ""
    )
    name = f"[{name}]" if ":" in name else name
    path = parts.path.rstrip("/")
    if " " in rest or (found and scheme not in ("http", "https")):
        raise ValueError(_NO_OLLAMA_HOST)
    return f"{scheme if found else 'http'}://{name}:{port}{path}/v1"
