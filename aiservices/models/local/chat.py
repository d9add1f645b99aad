"""A chat model that runs in this process, on llama.cpp, with no key and no network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from aiservices.errors import ModelNotFoundError
from aiservices.messages import ChatReply, ReplyDelta
from aiservices.models.base import Capabilities
from aiservices.models.weights import find_weights
from aiservices.requests import ChatOptions, ChatRequest

from .generation import Job, achunks, chunks
from .runtime import RuntimeSettings, loaded, unload
from .wire import Answer, body_of, form_of

__all__ = ["LocalChatModel"]

_NO_OPTIONS = ChatOptions()
# Weights that never called a tool by themselves, measured on twelve questions.
_TOO_SMALL_FOR_TOOLS = ("smollm2",)


class LocalChatModel:
    """A ChatModel on weights that lie on this machine.

    ``weights`` is a known name, the path of a GGUF file, or ``""`` for the default (what
    ``AISERVICES_LOCAL_MODEL`` names, else the most able weights that were pulled). Nothing is loaded
    before the first request, and models of the same weights and settings share what is loaded.
    ``context_tokens`` bounds the prompt and the reply together, ``threads`` defaults to llama.cpp's
    choice, and ``system_prompt`` is what a request without a system message gets.

    Answers do not vary (temperature 0) and have 1024 tokens at most unless the options say otherwise.
    Calls of tools are held to the schema of each; one reply has four at most, and none twice. SmolLM2 is too
    small to choose them, hence ``capabilities.tools`` is False for it. ``extra_headers`` mean nothing here.
    One request runs at a time; others wait for it.
    Raises LookupError, with what to do, when there are no such weights.
    """

    def __init__(
        self,
        weights: str | Path = "",
        *,
        options: ChatOptions = _NO_OPTIONS,
        context_tokens: int = 4096,
        threads: int | None = None,
        system_prompt: str = "You are a helpful assistant.",
    ) -> None:
        label, path = find_weights(weights)
        self._options = options
        self._system_prompt = system_prompt
        self._settings = RuntimeSettings(label, path, context_tokens, threads)

    @classmethod
    def named(cls, name: str) -> LocalChatModel:
        """The model that ``"local"`` (``name`` is empty) or ``"local:NAME"`` stands for."""
        return cls(name)

    @property
    def name(self) -> str:
        return f"local:{self._settings.label}"

    @property
    def capabilities(self) -> Capabilities:
        tools = self._settings.label not in _TOO_SMALL_FOR_TOOLS
        return Capabilities(json_schema=True, json_mode=True, constrained=True, tools=tools)

    def complete(self, request: ChatRequest) -> ChatReply:
        job, answer = self._job(request)
        with closing(chunks(job)) as arriving:
            for chunk in arriving:
                answer.take(chunk)
        return answer.reply()

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        job, answer = self._job(request)
        async with aclosing(achunks(job)) as arriving:
            async for chunk in arriving:
                answer.take(chunk)
        return answer.reply()

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        job, answer = self._job(request)
        with closing(chunks(job)) as arriving:
            for chunk in arriving:
                if (delta := answer.take(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=answer.reply())

    async def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        job, answer = self._job(request)
        async with aclosing(achunks(job)) as arriving:
            async for chunk in arriving:
                if (delta := answer.take(chunk)) is not None:
                    yield delta
        yield ReplyDelta(reply=answer.reply())

    def close(self) -> None:
        """Free the memory. A later request, of whichever model on these weights, loads them again."""
        unload(self._settings)

    def _job(self, request: ChatRequest) -> tuple[Job, Answer]:
        options = request.options.over(self._options)
        settings = self._settings if options.model is None else self._other(options.model)
        body = body_of(request, options, self._system_prompt)
        job = Job(partial(loaded, settings), body, form_of(request), options.timeout)
        return job, Answer(settings.label, settings.context_tokens, calls=request.tooling is not None)

    def _other(self, name: str) -> RuntimeSettings:
        try:
            label, path = find_weights(name)
        except LookupError as error:
            raise ModelNotFoundError(str(error)) from error
        return replace(self._settings, label=label, path=path)
