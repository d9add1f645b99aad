"""Asks models of OpenAI, Azure, Ollama and every server that speaks their chat completions."""

from __future__ import annotations

from .openai_chat_body import chat_body, chat_messages, chat_path
from .openai_chat_reply import read_reply
from .openai_chat_stream import ChatReading
from .openai_dialect import Dialect
from .openai_model import OpenAiModel

__all__ = ["OpenAiChatModel"]


class OpenAiChatModel(OpenAiModel):
    """A chat model of OpenAI's, Azure's, Ollama's or a compatible server, by the API of chat completions.

    ``"openai:NAME"``, ``"azure:DEPLOYMENT"`` and ``"ollama:NAME"`` stand for one.
    Creating one opens nothing and needs no key: the SDK is imported and the client made at the first
    request. Every call makes one HTTP request; the SDK's own retries are off. ``timeout`` bounds each
    wait for the server, as the SDK has it. ``max_tokens`` is sent as ``max_completion_tokens`` to
    api.openai.com and Azure, and as ``max_tokens`` to other servers; ``extra_body`` overrides both.

    ``client`` and ``async_client`` are used as they are, but for their retries, and are not closed.
    ``capabilities`` are by default those of OpenAI for api.openai.com and Azure; of other servers it
    is assumed that they take a JSON schema, but not that they know its strict form. Requests and
    replies go to the logger "aiservices.openai" at ``log_level``, without keys.
    """

    _dialect = Dialect(
        api="the chat completions API",
        form="chat completion",
        suffix="",
        path=chat_path,
        body=chat_body,
        streaming={"stream": True, "stream_options": {"include_usage": True}},
        said_as="messages",
        said=chat_messages,
        read=read_reply,
        reading=ChatReading,
    )
