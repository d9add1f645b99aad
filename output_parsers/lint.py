"""Find the parts of a type or JSON Schema that a provider's strict mode does not support.

``lint(Person, "openai")`` returns findings such as
``Person.tags: uniqueItems: not sent; enforced when read``.
"""

from __future__ import annotations

from typing import Any

from .json_schema.parser import close_objects
from .parser.type_parser import DEFAULT_REGISTRY, TypeParser
from .profiles import OPENAI, PROFILES, Profile
from .strict.codec import Finding
from .strict.encode import encode, encode_parser

__all__ = ["Finding", "lint"]


def lint(type_or_schema: Any, profile: Profile | str = OPENAI) -> list[Finding]:
    """Return a list of the features of a type that a provider's strict mode does not support.

    A finding that is not ``lossless`` means that strict mode cannot be used for the type.

    Args:
        type_or_schema: A Python type, a TypeParser, or a JSON Schema as a dict.
        profile: A profile or its name, such as ``"openai"``.

    Raises:
        UnsupportedTypeError: No parser can read the type.
        ValueError: The profile name is unknown.
    """
    if isinstance(profile, str):
        if profile not in PROFILES:
            raise ValueError(
                f"there is no profile named {profile!r}; the profiles are: {', '.join(PROFILES)}"
            )
        profile = PROFILES[profile]
    if isinstance(type_or_schema, dict):
        return list(encode(close_objects(type_or_schema), profile).findings)
    parser = type_or_schema
    if not isinstance(parser, TypeParser):
        parser = DEFAULT_REGISTRY.parser_for(type_or_schema)
    if not isinstance(parser, TypeParser):  # a user's own parser has a schema only
        return list(encode(dict(parser.schema or {"type": "string"}), profile).findings)
    return list(encode_parser(parser, profile)[1].findings)
