"""Several models in the place of one: when one fails, the next is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager

from .base import Capabilities, ChatModel, find_model, members_of
from .errors import ModelError
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


class FallbackChatModel:
    """Asks the first model, and the next one when it fails; each is a ChatModel or a name.

    In a service each member is asked in the way that suits it best, and the budget of a call holds for all
    of them together: a member that failed gives way to the next at once; when all have failed, those that
    may work later are asked again after a wait. A reply that does not fit the type is no failure of its
    model: that is asked again, with the problems. Asked by itself, it tries each member once, in what all of
    them can do. Raises DefinitionError if a name does not name a model.
    """

    def __init__(self, first: ChatModel | str, *others: ChatModel | str) -> None:
        models = [find_model(model, "FallbackChatModel") for model in (first, *others)]
        self._members = tuple(member for model in models for member in members_of(model))

    @property
    def members(self) -> tuple[ChatModel, ...]:
        """The models, in the order in which they are asked."""
        return self._members

    @property
    def name(self) -> str:
        return " | ".join(member.name for member in self._members)

    @property
    def capabilities(self) -> Capabilities:
        """What all members can do."""
        all_can = [member.capabilities for member in self._members]
        return Capabilities(
            json_schema=all(can.json_schema for can in all_can),
            strict_schema=all(can.strict_schema for can in all_can),
            json_mode=all(can.json_mode for can in all_can),
            constrained=all(can.constrained for can in all_can),
            tools=all(can.tools for can in all_can),
            profile=all_can[0].profile,
        )

    def complete(self, request: ChatRequest) -> ChatReply:
        for member in self._members[:-1]:
            try:
                return member.complete(request)
            except ModelError:
                continue
        return self._members[-1].complete(request)

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        for member in self._members[:-1]:
            try:
                return await member.acomplete(request)
            except ModelError:
                continue
        return await self._members[-1].acomplete(request)

    def stream(self, request: ChatRequest) -> Generator[ReplyDelta, None, None]:
        for member in self._members:
            begun = False
            try:
                with _closing(member.stream(request)) as deltas:
                    for delta in deltas:
                        begun = True
                        yield delta
                return
            except ModelError:
                if begun or member is self._members[-1]:
                    raise

    async def astream(self, request: ChatRequest) -> AsyncGenerator[ReplyDelta, None]:
        for member in self._members:
            begun = False
            try:
                async with _aclosing(member.astream(request)) as deltas:
                    async for delta in deltas:
                        begun = True
                        yield delta
                return
            except ModelError:
                if begun or member is self._members[-1]:
                    raise


@contextmanager
def _closing(deltas: Iterator[ReplyDelta]) -> Iterator[Iterator[ReplyDelta]]:
    """Ends the request of a member with the block: its stream may be an iterator that has no ``close``."""
    try:
        yield deltas
    finally:
        close = getattr(deltas, "close", None)
        if close is not None:
            close()


@asynccontextmanager
async def _aclosing(deltas: AsyncIterator[ReplyDelta]) -> AsyncIterator[AsyncIterator[ReplyDelta]]:
    try:
        yield deltas
    finally:
        close = getattr(deltas, "aclose", None)
        if close is not None:
            await close()
