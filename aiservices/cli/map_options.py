"""The options of the command ``map``, and their names in messages about the settings of ``map_rows``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

EngineName: TypeAlias = Literal["direct", "batch", "ray", "spark"]


class MapOptions(NamedTuple):
    """The options of the command ``map``, named as on the command line.

    Those that are not explained here are settings of ``map_rows``.

    Attributes:
        column: ``PARAMETER=COLUMN`` for parameters whose column has another name.
        max_money: The highest cost of the run, in US dollars.
        max_requests: The highest number of requests.
        max_tokens: The highest number of tokens.
        max_seconds: The longest duration of the run.
        rpm: Requests per minute.
        tpm: Tokens per minute.
        cache: The file of a response cache.
        engine: "direct", "batch" for the batch service of the provider, or "ray" or "spark" for their workers
            on this machine.
        progress: Show the progress.
    """

    key: str | None
    column: Sequence[str]
    delimiter: str | None
    encoding: str | None
    prefix: str | None
    error_column: str | None
    usage: bool
    explode: str | None
    nulls: Literal["error", "null"]
    limit: int | None
    max_money: float | None
    max_requests: int | None
    max_tokens: int | None
    max_seconds: float | None
    rpm: float | None
    tpm: float | None
    max_concurrency: int | None
    row_timeout: float | None
    max_failures: float | None
    journal: str | None
    restart: bool
    retry_failed: bool | None
    dedupe: bool
    review: str | None
    unsure_below: float | None
    reviewed: str | None
    cache: str | None
    engine: EngineName
    progress: bool


# The options by the names of the settings of map_rows. Those of a Budget have other names there, and
# max_tokens is also a name in messages of providers.
_BUDGET = ("max_money", "max_requests", "max_tokens", "max_seconds")
SETTINGS = {
    **{name: f"--{name.replace('_', '-')}" for name in MapOptions._fields if name not in _BUDGET},
    "columns": "--column",
    "to": "OUTPUT",
}
_LIMITS = {"requests_per_minute": "--rpm", "tokens_per_minute": "--tpm"}


def in_options(message: str) -> str:
    """Return a message about settings of ``map_rows`` in the words of the command line."""
    message = re.sub(r'columns=\{"(\w+)": [^}]*\}', r"--column \1=COLUMN", message)
    message = re.sub(r"budget=Budget\((\w+)=[^)]*\)", r"--max-\1", message)
    message = re.sub(
        r"engine=(Batch|Ray|Spark)Engine\([^)]*\)", lambda m: f"--engine {m[1].lower()}", message
    )
    names = "|".join(SETTINGS)
    message = re.sub(rf'\b({names})=("[^"]*"|[^\s,;)]*)', _option, message)
    # the name at the beginning of a message, and names that are not words of a sentence
    message = re.sub(rf"(?<=: )({names}) is (?=\S+[,;] )", lambda match: f"{SETTINGS[match[1]]} is ", message)
    rare = "|".join(name for name in SETTINGS if "_" in name)
    message = re.sub(rf"\b({rare})\b", lambda match: SETTINGS[match[1]], message)
    return re.sub(rf"\b({'|'.join(_LIMITS)})\b", lambda match: _LIMITS[match[1]], message)


def _option(match: re.Match[str]) -> str:
    option, value = SETTINGS[match[1]], match[2].rstrip(".")
    end = match[2][len(value) :]
    if value == "False":
        return f"--no-{option[2:]}{end}"
    value = value.strip('"')
    return f"{option} {value}{end}" if value not in ("", "True", "…") else f"{option}{end}"
