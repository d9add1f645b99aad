"""What a model answers as it comes: in time, piece by piece, and whole at the end."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Generator
from typing import TYPE_CHECKING, TypeVar

from .errors import InvalidReplyError, ModelTimeoutError
from .messages import ChatReply, ReplyDelta

if TYPE_CHECKING:
    from .flow import Ask

__all__ = ["astreamed", "in_time", "streamed", "whole"]

T = TypeVar("T")


def streamed(need: Ask) -> Generator[ReplyDelta, None, ChatReply]:
    """The pieces of a reply, and at the end the whole. Raises ModelTimeoutError after the deadline."""
    reply = None
    deltas = need.model.stream(need.request)
    try:
        for delta in deltas:
            reply = delta.reply
            yield delta
            if reply is None:
                _check_time(need)
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()
    return whole(reply, need)


async def astreamed(need: Ask) -> AsyncGenerator[ReplyDelta, None]:
    """The pieces of a reply; the last one should have the whole. Raises ModelTimeoutError at the deadline."""
    deltas = need.model.astream(need.request)
    try:
        while (delta := await in_time(anext(deltas, None), need)) is not None:
            yield delta
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()


async def in_time(awaited: Awaitable[T], need: Ask) -> T:
    """What is awaited, or ModelTimeoutError when the deadline of the request comes first."""
    if need.request.deadline is None:
        return await awaited
    import asyncio

    limit = asyncio.timeout(need.request.deadline - time.monotonic())
    try:
        async with limit:
            return await awaited
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _too_late(need) from error


def whole(reply: ChatReply | None, need: Ask) -> ChatReply:
    """The reply that the last delta of a stream carried."""
    if reply is None:
        raise InvalidReplyError(f"the stream of {need.model.name} ended without the whole reply")
    return reply


def _check_time(need: Ask) -> None:
    if need.request.deadline is not None and time.monotonic() > need.request.deadline:
        raise _too_late(need)


def _too_late(need: Ask) -> ModelTimeoutError:
    said = f"{need.model.name}: the answer was not whole when the time for it was over"
    return ModelTimeoutError(said, retryable=True)
