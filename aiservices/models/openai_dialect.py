"""Says in what one API of OpenAI differs from the next: the path, the body, and the reading of what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..messages import ChatReply, Message
from ..requests import ChatOptions, ChatRequest
from .openai_events import EventReading
from .openai_place import Place

__all__ = ["Dialect", "UnsayableError"]


class UnsayableError(ValueError):
    """The request asks for what the API has no words for; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """An API, as the machinery of a model uses it.

    ``api`` and ``form`` name it and its answer in messages, ``suffix`` is what its models' names have
    after the provider's. ``path`` gives the path below the base URL for a model. ``body`` writes all of
    a request but its messages, a None for what is not asked for; it is given the effective options, with
    the model. ``streaming`` is what a streamed request says too. ``said`` writes the messages, and
    ``said_as`` is where they go. ``read`` and ``reading`` read a whole answer and a streamed one.
    ``lacks`` are the options that the API does not have; ``merged`` are the members of the body whose
    own members ``extra_body`` replaces one by one instead of all together.
    """

    api: str
    form: str
    suffix: str
    path: Callable[[Place, str], str]
    body: Callable[[ChatRequest, Place], dict[str, Any]]
    streaming: Mapping[str, Any]
    said_as: str
    said: Callable[[Sequence[Message]], list[dict[str, Any]]]
    read: Callable[[bytes], ChatReply]
    reading: type[EventReading]
    lacks: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()

    def check(self, options: ChatOptions) -> None:
        """Raises UnsayableError when an option is set that the API does not have."""
        for name in self.lacks:
            if getattr(options, name) not in (None, ()):
                raise UnsayableError(
                    f"{self.api} has no {name}; leave it out of ChatOptions, or use OpenAiChatModel"
                )
