"""Asks models of OpenAI, Azure and other servers that speak the Responses API."""

from __future__ import annotations

from .openai_dialect import Dialect
from .openai_model import OpenAiModel
from .openai_responses_body import responses_body, responses_items, responses_path
from .openai_responses_reply import read_response
from .openai_responses_stream import ResponseReading

__all__ = ["OpenAiResponsesModel"]


class OpenAiResponsesModel(OpenAiModel):
    """A chat model of OpenAI's or Azure's, by the Responses API (POST /responses).

    ``"openai-responses:NAME"`` and ``"azure-responses:DEPLOYMENT"`` stand for one. All that is said of
    creating, clients, capabilities, timeouts and logs in ``OpenAiChatModel`` holds here too.

    The provider is asked to keep nothing: ``store`` is false unless ``extra_body`` says otherwise, and
    every request brings the whole conversation, the system message as the first item of ``input``.
    ``include`` is not sent, since models that do not reason refuse it; reasoning is not sent back, so a
    model thinks anew after each tool call. ``AiMessage.reasoning`` holds the summaries of it, which OpenAI
    writes when ``extra_body={"reasoning": {"summary": "auto"}}`` asks for them, and what a model says on
    its way to the answer (the phase "commentary"). The members of ``reasoning`` and ``text`` in
    ``extra_body`` are put beside those of ``reasoning_effort`` and the response format.

    The API has neither ``stop`` nor ``seed``, and no names of users. A request with one of them is a
    BadRequestError and is not sent; in ``options`` they are a ValueError.
    """

    _dialect = Dialect(
        api="the Responses API",
        form="response of the Responses API",
        suffix="-responses",
        path=responses_path,
        body=responses_body,
        streaming={"stream": True},
        said_as="input",
        said=responses_items,
        read=read_response,
        reading=ResponseReading,
        lacks=("stop", "seed"),
        merged=("reasoning", "text"),
    )
