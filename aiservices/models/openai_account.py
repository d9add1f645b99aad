"""Who asks OpenAI, and servers that speak as it does: the key, and what else goes into the headers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..errors import AuthenticationError
from .openai_place import Place

__all__ = ["Account", "checked_key"]


@dataclass(frozen=True, slots=True)
class Account:
    """``headers`` are those of every request, the key among them."""

    key: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, name: str, place: Place, api_key: str | None) -> Account:
        """From the environment, as the SDK reads it: OPENAI_API_KEY, OPENAI_ORG_ID, OPENAI_PROJECT_ID.

        OPENAI_CUSTOM_HEADERS has a "Name: value" in each line. Raises AuthenticationError without a key.
        """
        environment = os.environ.get
        key = checked_key(name, place, environment("OPENAI_API_KEY") if api_key is None else api_key)
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "aiservices",
        }
        for header, variable in (
            ("openai-organization", "OPENAI_ORG_ID"),
            ("openai-project", "OPENAI_PROJECT_ID"),
        ):
            if value := environment(variable):
                headers[header] = value
        for line in (environment("OPENAI_CUSTOM_HEADERS") or "").splitlines():
            header, colon, value = line.partition(":")
            if colon:
                headers[header.strip().lower()] = value.strip()
        return cls(key, headers)


def checked_key(name: str, place: Place, key: str | None) -> str:
    """The key, which must be one. Raises AuthenticationError."""
    if not key:
        raise AuthenticationError(f"{name}: no API key; {place.key_advice}")
    if not (key.isascii() and key.isprintable()):
        raise AuthenticationError(
            f"{name}: the API key holds a line end or another character that no key has; {place.key_advice}"
        )
    return key
