"""What providers enforce of a JSON Schema, each as its own documents say."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Limits(NamedTuple):
    """How large a schema may be; None where no limit is published."""

    depth: int | None = None  # objects inside of objects, the root being the first
    properties: int | None = None  # of all objects together
    enum_values: int | None = None  # of all enums together
    long_enum: int | None = None  # values from which on the text of one enum of strings is limited ...
    long_enum_text: int | None = None  # ... to so many characters
    text: int | None = None  # characters of all names, enum values and const values together
    optional: int | None = None  # properties that are not required
    unions: int | None = None  # properties that are a union


class Profile(NamedTuple):
    """The part of JSON Schema that a provider enforces while a model writes."""

    name: str
    keywords: frozenset[str]  # what may be sent at all, and is enforced
    formats: frozenset[str]  # values of ``format`` that may be sent
    closed_objects: bool  # additionalProperties must be false
    all_required: bool  # each property must be required
    object_root: bool  # the root must be an object
    any_of_root: bool  # the root may be an anyOf
    any_json: bool  # ``{}`` stands for any JSON
    recursion: bool  # a definition may refer to itself
    enum_kinds: frozenset[str] = frozenset(("boolean", "number", "string"))  # whose enums may be sent
    whole_patterns: bool = False  # a pattern must begin with ^ and end with $
    bounds_of_numbers: bool = True  # minimum and its kin hold for numbers too, not for integers alone
    most_min_items: int | None = None  # the greatest minItems that is enforced
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
    recursion=True,
    limits=Limits(
        depth=10,
        properties=5000,
        enum_values=1000,
        long_enum=250,
        long_enum_text=15_000,
        text=120_000,
    ),
)

# Google, "Structured outputs" and the reference of GenerationConfig.responseJsonSchema: anyOf and oneOf are
# one, enums are of strings and numbers, cyclic references are unrolled to a degree, and that only
# in properties that are not required; no const, no pattern.
GEMINI = Profile(
    name="gemini",
    keywords=_words(
        "type properties required additionalProperties items prefixItems enum anyOf description title "
        "$ref $defs format minimum maximum minItems maxItems"
    ),
    formats=_words("date-time date time"),
    closed_objects=False,
    all_required=False,
    object_root=False,
    any_of_root=True,
    any_json=False,
    recursion=True,
    enum_kinds=frozenset(("number", "string")),
)

# Anthropic, "Structured outputs", section "JSON Schema limitations", and transform_schema in its Python SDK:
# no recursion, no bounds, minItems only 0 or 1; 24 optional properties and 16 unions in a request.
ANTHROPIC = Profile(
    name="anthropic",
    keywords=_words(_CORE + "format minItems"),
    formats=_words(_FORMATS + " uri"),
    closed_objects=True,
    all_required=False,
    object_root=True,
    any_of_root=False,
    any_json=False,
    recursion=False,
    most_min_items=1,
    limits=Limits(optional=24, unions=16),
)

# llama.cpp, grammars/README.md, "JSON Schemas → GBNF": prefixItems is broken, bounds hold for integers only,
# patterns are of the whole text, and what is not supported is passed over in silence.
LLAMA_CPP = Profile(
    name="llama.cpp",
    keywords=_words(_CORE + _BOUNDS + "minLength maxLength pattern format minItems maxItems"),
    formats=_words("date time date-time uuid"),
    closed_objects=False,
    all_required=False,
    object_root=False,
    any_of_root=True,
    any_json=True,
    recursion=True,
    whole_patterns=True,
    bounds_of_numbers=False,
)

# vLLM with xgrammar, has_xgrammar_unsupported_json_features in vllm/v1/structured_output/backend_xgrammar.py:
# no multipleOf, no uniqueItems, no contains; patternProperties and propertyNames only where they stand alone.
VLLM = Profile(
    name="vllm",
    keywords=_words(_CORE + _BOUNDS + "prefixItems minLength maxLength pattern format minItems maxItems"),
    formats=_words(_FORMATS + " uri uri-reference uri-template json-pointer relative-json-pointer"),
    closed_objects=False,
    all_required=False,
    object_root=False,
    any_of_root=True,
    any_json=True,
    recursion=True,
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {profile.name: profile for profile in (OPENAI, GEMINI, ANTHROPIC, LLAMA_CPP, VLLM)}
)
