"""The JSON Schema features that each provider supports in its strict mode.

A ``Profile`` such as ``OPENAI`` is an argument of ``output_parsers.lint.lint``. The facts come from the
providers' documentation. A new provider needs one ``Profile`` here, with the source of its facts in a
comment, and an entry in ``PROFILES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["ANTHROPIC", "GEMINI", "LLAMA_CPP", "OPENAI", "PROFILES", "VLLM", "Limits", "Profile"]


class Limits(NamedTuple):
    """A provider's size limits for a JSON Schema.

    None means that the provider does not publish a limit.

    Attributes:
        depth: Objects nested in one another, the root included.
        properties: Properties of all objects together.
        enum_values: Values of all enums together.
        long_enum: The number of strings from which on an enum is limited by ``long_enum_text``.
        long_enum_text: Characters of all strings in such a long enum.
        text: Characters of all names, enum values and const values together.
        optional: Properties that are not required.
        unions: Properties that are a union.
    """

    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    long_enum: int | None = None
    long_enum_text: int | None = None
    text: int | None = None
    optional: int | None = None
    unions: int | None = None


class Profile(NamedTuple):
    """The JSON Schema features that a provider supports in its strict mode.

    Attributes:
        name: The name of the profile in ``PROFILES``.
        keywords: The keywords that may be sent and are enforced.
        formats: The values of ``format`` that may be sent.
        closed_objects: True if ``additionalProperties`` must be false.
        all_required: True if every property must be required.
        object_root: True if the root must be an object.
        any_of_root: True if the root may be an ``anyOf``.
        any_json: True if ``{}`` is accepted as a schema for any JSON.
        recursion: True if a definition may refer to itself.
        enum_kinds: The JSON types whose enums may be sent.
        whole_patterns: True if a pattern must begin with ``^`` and end with ``$``.
        bounds_of_numbers: False if bounds such as ``minimum`` are enforced for integers only.
        max_min_items: The greatest ``minItems`` that is enforced. None without a limit.
        limits: How large a schema may be.
    """

    name: str
    keywords: frozenset[str]
    formats: frozenset[str]
    # The defaults describe a grammar engine, which accepts schemas of every shape.
    closed_objects: bool = False
    all_required: bool = False
    object_root: bool = False
    any_of_root: bool = True
    any_json: bool = True
    recursion: bool = True
    enum_kinds: frozenset[str] = frozenset(("boolean", "number", "string"))
    whole_patterns: bool = False
    bounds_of_numbers: bool = True
    max_min_items: int | None = None
    limits: Limits = Limits()


_CORE = "type properties required additionalProperties items enum const anyOf description title $ref $defs "
_BOUNDS = "maximum exclusiveMaximum minimum exclusiveMinimum "
_FORMATS = "date-time time date duration email hostname ipv4 ipv6 uuid"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# OpenAI, guide "Structured model outputs", section "Supported schemas": 5000 properties, 10 levels, 1000 enum
# values, 15000 characters in an enum of more than 250 strings, 120000 characters of names and values.
OPENAI = Profile(
    name="openai",
    keywords=_words(_CORE + _BOUNDS + "pattern format multipleOf minItems maxItems"),
    formats=_words(_FORMATS),
    closed_objects=True,
    all_required=True,
    object_root=True,
    any_of_root=False,
    any_json=False,
    limits=Limits(
        depth=10,
        properties=5000,
        enum_values=1000,
        long_enum=250,
        long_enum_text=15_000,
        text=120_000,
    ),
)

# Google, "Structured outputs" and the reference of GenerationConfig.responseJsonSchema: anyOf and oneOf mean
# the same, enums are of strings and numbers, and cyclic references are unrolled to a limited depth, only in
# properties that are not required. const and pattern are not supported.
GEMINI = Profile(
    name="gemini",
    keywords=_words(
        "type properties required additionalProperties items prefixItems enum anyOf description title "
        "$ref $defs format minimum maximum minItems maxItems"
    ),
    formats=_words("date-time date time"),
    any_json=False,
    enum_kinds=frozenset(("number", "string")),
)

# Anthropic, "Structured outputs", section "JSON Schema limitations", and transform_schema in its Python SDK:
# no recursion, no bounds, minItems only 0 or 1; 24 optional properties and 16 unions in a request.
ANTHROPIC = Profile(
    name="anthropic",
    keywords=_words(_CORE + "format minItems"),
    formats=_words(_FORMATS + " uri"),
    closed_objects=True,
    object_root=True,
    any_of_root=False,
    any_json=False,
    recursion=False,
    max_min_items=1,
    limits=Limits(optional=24, unions=16),
)

# llama.cpp, grammars/README.md, "JSON Schemas → GBNF": prefixItems is broken, bounds hold for integers only,
# patterns must match the whole text, and unsupported keywords are silently ignored.
LLAMA_CPP = Profile(
    name="llama.cpp",
    keywords=_words(_CORE + _BOUNDS + "minLength maxLength pattern format minItems maxItems"),
    formats=_words("date time date-time uuid"),
    whole_patterns=True,
    bounds_of_numbers=False,
)

# vLLM with xgrammar, has_xgrammar_unsupported_json_features in vllm/v1/structured_output/backend_xgrammar.py:
# no multipleOf, no uniqueItems, no contains; patternProperties and propertyNames only without other keywords.
VLLM = Profile(
    name="vllm",
    keywords=_words(_CORE + _BOUNDS + "prefixItems minLength maxLength pattern format minItems maxItems"),
    formats=_words(_FORMATS + " uri uri-reference uri-template json-pointer relative-json-pointer"),
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {profile.name: profile for profile in (OPENAI, GEMINI, ANTHROPIC, LLAMA_CPP, VLLM)}
)
