"""The command ``models``: which models can be named, what each needs, and the weights on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import NamedTuple

from ..models.weights import KNOWN, is_ready, models_folder, place_of
from .screen import heading, table
from .services import has_runtime

__all__ = ["PROVIDERS", "list_models"]


class Provider(NamedTuple):
    """A provider: how its models are named, and the variables that it looks at."""

    name: str
    written: str
    variables: tuple[str, ...]


_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")
_AZURE = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION")
PROVIDERS = (
    Provider("openai", "openai:NAME", _OPENAI),
    Provider("openai-responses", "openai-responses:NAME", _OPENAI),
    Provider("azure", "azure:DEPLOYMENT", _AZURE),
    Provider("azure-responses", "azure-responses:DEPLOYMENT", _AZURE),
    Provider("ollama", "ollama:NAME", ("OLLAMA_HOST",)),
    Provider("local", "local, local:NAME, local:PATH.gguf", ("AISERVICES_LOCAL_MODEL", "AISERVICES_CACHE")),
)
_DEFAULT = "AISERVICES_MODEL"


def list_models(*, as_json: bool) -> None:
    """Print what there is. Of a variable only whether it is set, never what it holds."""
    providers = [*PROVIDERS, *_of_packages()]
    if as_json:
        print(json.dumps(_as_dict(providers), indent=2))
        return
    rows = [
        (one.written, ", ".join(f"{name} ({_whether(name)})" for name in one.variables)) for one in providers
    ]
    table(("--model", "variables"), [*rows, ("fake", "answers are made up: no key, no weights")])
    print(f"\nWithout --model: {_without()}.\n")
    heading("weights of the embedded model")
    for weights in KNOWN:
        place = str(place_of(weights)) if is_ready(weights) else f"aiservices models pull {weights.name}"
        print(
            f"local:{weights.name}  {weights.size / 1e9:.1f} GB, {weights.memory / 1e9:.1f} GB of memory, "
            f"{weights.licence}: {place}"
        )
    if not has_runtime():
        print("They are run by a library that is not installed: pip install 'aiservices[local]'")


def _of_packages() -> Iterator[Provider]:
    """The providers that other packages add."""
    for point in entry_points(group="aiservices.models"):
        yield Provider(point.name, f"{point.name}:NAME", ())


def _whether(variable: str) -> str:
    return "set" if os.environ.get(variable) else "not set"


def _without() -> str:
    if os.environ.get(_DEFAULT):
        return f"what {_DEFAULT} names"
    if has_runtime():
        return f"the embedded model, since {_DEFAULT} is not set"
    return f"none, since {_DEFAULT} is not set and the embedded model is not installed"


def _as_dict(providers: list[Provider]) -> dict[str, object]:
    return {
        "providers": [
            {
                "name": one.name,
                "written": one.written,
                "variables": {name: bool(os.environ.get(name)) for name in one.variables},
            }
            for one in providers
        ],
        "default_is_set": bool(os.environ.get(_DEFAULT)),
        "embedded": {
            "installed": has_runtime(),
            "folder": str(models_folder()),
            "weights": [
                {
                    "name": weights.name,
                    "aliases": list(weights.aliases),
                    "bytes": weights.size,
                    "memory_bytes": weights.memory,
                    "licence": weights.licence,
                    "path": str(place_of(weights)) if is_ready(weights) else None,
                }
                for weights in KNOWN
            ],
        },
    }
