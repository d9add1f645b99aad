"""Says what a provider's strict mode cannot say of a type, and what is done about it."""

from __future__ import annotations

from typing import Any

from .encoding import Finding, encode, encoded
from .parser import TypeParser
from .profiles import OPENAI, PROFILES, Profile
from .registry import DEFAULT_REGISTRY

__all__ = ["Finding", "lint"]


def lint(form_or_schema: Any, profile: Profile | str = OPENAI) -> list[Finding]:
    """What of a Python type, a TypeParser or a JSON Schema (a dict) a profile does not say by itself.

    A finding that is not ``lossless`` means that strict mode is given up. Raises UnsupportedTypeError
    for a type that nothing reads, and ValueError for a profile that is not known.
    """
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise ValueError(f"no profile is named {profile!r}; there are: {', '.join(PROFILES)}")
        profile = PROFILES[profile]
    if isinstance(form_or_schema, dict):
        return list(encode(form_or_schema, profile).findings)
    parser = form_or_schema
    if not isinstance(parser, TypeParser):
        parser = DEFAULT_REGISTRY.parser_for(form_or_schema)
    if not isinstance(parser, TypeParser):
        return list(encode(dict(parser.schema or {"type": "string"}), profile).findings)
    return list(encoded(parser, profile)[1].findings)
