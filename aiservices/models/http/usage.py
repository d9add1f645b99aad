"""Read the token counts and the finish reasons of replies. Each API states its own words as data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache

from ..messages import AiMessage, FinishReason, Usage

_LARGEST_COUNT = 2**53  # a larger number is a mistake of the server


class UsageFields:
    """The fields in which an API reports token counts; a dot leads into an object.

    The counts of all fields of a group are added up.

    Args:
        input: The fields that together are all input tokens, cached ones included.
        output: The fields that together are all output tokens, reasoning included.
        cached: The input tokens that were read from a cache.
        reasoning: The output tokens that were spent on reasoning.
        written: The input tokens that were written to a cache.

    Attributes:
        paths: For each field, the position of its count in a Usage, its key and its member.
    """

    def __init__(
        self,
        input: tuple[str, ...],
        output: tuple[str, ...],
        cached: tuple[str, ...] = (),
        reasoning: tuple[str, ...] = (),
        written: tuple[str, ...] = (),
    ) -> None:
        groups = (input, output, cached, reasoning, written)
        self.paths = [
            (position, *name.partition(".")[::2]) for position, names in enumerate(groups) for name in names
        ]


def read_usage(usage: object, fields: UsageFields) -> Usage | None:
    """Convert the token counts of a reply to a Usage object; None without token counts.

    A count that is not a number is 0: an odd count must not discard an answer that was paid for.
    """
    if not usage or not isinstance(usage, dict):
        return None
    counts = [0, 0, 0, 0, 0]
    for position, key, member in fields.paths:
        count = usage.get(key)
        if count is None:
            continue
        if member:
            count = count.get(member) if type(count) is dict else None
        if type(count) is int and 0 <= count < _LARGEST_COUNT:
            counts[position] += count
        elif count is not None:
            counts[position] += _odd_count(count, str(usage))
    return Usage(*counts)


def counts_of(usage: object) -> dict[str, object]:
    """Return a copy of the token counts in an event of a stream; empty for anything but an object."""
    return dict(usage) if isinstance(usage, Mapping) else {}


@lru_cache(maxsize=64)
def _warn_once(usage: str) -> None:
    logging.getLogger("aiservices").warning("a provider reported impossible token counts: %s", usage)


def _odd_count(count: object, usage: str) -> int:
    """Convert a count that is not a usual integer, such as ``"3"`` or ``3.0``; return 0 for anything else."""
    if isinstance(count, int):
        _warn_once(usage)
    try:
        number = float(count) if isinstance(count, (str, float)) else 0.0
        return int(number) if 0 <= number < _LARGEST_COUNT else 0
    except ValueError:
        return 0


def finish_reasons(**words: str) -> dict[str, FinishReason]:
    """Return the finish reasons by the words of an API: ``stop="end_turn eos"`` gives two words for STOP."""
    return {word: FinishReason(reason) for reason, text in words.items() for word in text.split()}


def read_finish_reason(
    word: object, reasons: Mapping[str, FinishReason], message: AiMessage | None = None
) -> FinishReason:
    """Return the finish reason for a provider's word: OTHER for an unknown word, STOP without a word.

    ``reasons`` are the words of the API, in lower case. With ``message``, a complete message with tool calls
    ends with TOOL_CALLS: not all APIs have a word for that.
    """
    is_missing = word is None or word == ""
    reason = FinishReason.STOP if is_missing else reasons.get(str(word).lower(), FinishReason.OTHER)
    calls_tools = message is not None and message.tool_calls
    return FinishReason.TOOL_CALLS if calls_tools and reason is FinishReason.STOP else reason
