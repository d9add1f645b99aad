"""The interface of chat models, and the lookup of a model by a name such as "openai:gpt-5-mini"."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from .errors import DefinitionError, DefinitionProblem
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The features that a chat model supports, such as tool calls and JSON Schema output.

    Attributes:
        json_schema: The model accepts a JSON Schema for its answer.
        strict_schema: The provider enforces a JSON Schema, for answers and for tools, if the schema is within
            the subset that its strict mode accepts.
        requires_strict: The model accepts a JSON Schema for its answer only if the schema is in that subset.
        json_mode: The model can be made to answer with any JSON object.
        constrained: The schema is enforced while tokens are generated, so every answer fits it, but the model
            does not see the schema. The prompt then contains a short description of it.
        tools: The model calls tools, and can be made to call a certain tool.
        schema_with_tools: The model accepts a JSON Schema for its answer also while tools are offered.
        profile: The subset that the strict mode accepts, as a key of
            ``output_parsers.strict.profiles.PROFILES``.
    """

    json_schema: bool = False
    strict_schema: bool = False
    requires_strict: bool = False
    json_mode: bool = False
    constrained: bool = False
    tools: bool = False
    schema_with_tools: bool = True
    profile: str = "openai"


@runtime_checkable
class ChatModel(Protocol):
    """The interface of a chat model, which sends a request to a language model and returns the reply.

    Methods raise ModelError or a subclass. They do not retry: the service does.
    """

    @property
    def name(self) -> str:
        """The name of the model in errors, logs and price lists, such as ``"openai:gpt-5-mini"``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The features that the model supports, such as JSON Schema and tools."""
        ...

    def complete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the complete reply."""
        ...

    async def acomplete(self, request: ChatRequest) -> ChatReply:
        """Send a chat request and return the complete reply, without blocking the event loop.

        A model without an asynchronous client may use a worker thread.
        """
        ...

    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]:
        """Send a chat request and yield the pieces of the reply; the last piece has the complete reply.

        Closing the iterator ends the request.
        """
        ...

    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]:
        """Send a chat request and yield the pieces of the reply asynchronously."""
        ...


def members_of(model: ChatModel) -> tuple[ChatModel, ...]:
    """Return all models that a FallbackChatModel tries in turn; for another model, return just that model."""
    members: tuple[ChatModel, ...] = getattr(model, "members", ())
    return members or (model,)


# Named as text: importing the classes here would make every start of a program slower.
_BUILT_IN = {
    "openai": "aiservices.models.openai:OpenAiChatModel.named",
    "openai-responses": "aiservices.models.openai:OpenAiResponsesModel.named",
    "azure": "aiservices.models.openai:OpenAiChatModel.azure",
    "azure-responses": "aiservices.models.openai:OpenAiResponsesModel.azure",
    "anthropic": "aiservices.models.providers.anthropic:AnthropicChatModel.named",
    "gemini": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google": "aiservices.models.providers.gemini:GeminiChatModel.named",
    "google-vertex": "aiservices.models.providers.gemini:GeminiChatModel.vertex",
    "bedrock": "aiservices.models.providers.bedrock:BedrockChatModel.named",
    "ollama": "aiservices.models.openai:OpenAiChatModel.ollama",
    "local": "aiservices.models.local:LocalChatModel.named",
}


def find_model(model: ChatModel | str | None, location: str = "model") -> ChatModel:
    """Return the chat model for a name such as ``"openai:gpt-5"``, or a passed model object unchanged.

    For None, it returns the model that the environment variable ``AISERVICES_MODEL`` names. If that is not
    set, it returns the embedded model if its runtime is installed. Raises DefinitionError if there is no such
    model. ``location`` says in the message where the model was set.
    """
    try:
        if model is None:
            model = os.environ.get("AISERVICES_MODEL") or _embedded_model()
        if isinstance(model, str):
            provider, _, name = model.partition(":")
            return _find_factory(provider, model)(name)
    except DefinitionError as error:  # It was raised by the model class, which does not know the location.
        problems = [DefinitionProblem(location, problem.message) for problem in error.problems]
        raise DefinitionError(problems) from error
    except LookupError as error:
        message = str(error.args[0] if error.args else error)
        raise DefinitionError([DefinitionProblem(location, message)]) from error
    # A class has the same attributes as its objects, so it passes the isinstance check.
    if isinstance(model, ChatModel) and not isinstance(model, type):
        return model
    if isinstance(model, type):
        message = f"{model.__name__} is a class; pass an object of it"
    else:
        message = (
            f"{type(model).__name__} is not a ChatModel: it needs name, capabilities, complete, acomplete, "
            "stream and astream"
        )
    raise DefinitionError([DefinitionProblem(location, message)])


def _embedded_model() -> str:
    """Return the name of the model that runs in this process, or raise LookupError if it is not installed."""
    # find_spec does not import the runtime, which takes long and must wait for the first request.
    if find_spec("xllamacpp") is None:
        raise LookupError(
            'no model is set: pass model="openai:NAME" (or another) to create, set AISERVICES_MODEL, '
            'or install the embedded model with pip install "aiservices[local]"'
        )
    return "local"


_FAMILIES = {"gpt": "openai", "o": "openai", "claude": "anthropic", "gemini": "google"}


def _unknown_model(model: str, providers: list[str]) -> str:
    """Return the message for a model name whose provider is unknown, with a guess at what was meant."""
    from difflib import get_close_matches  # rarely needed

    provider, colon, name = model.partition(":" if ":" in model else "/")
    family = _FAMILIES.get(model.partition("-")[0].rstrip("0123456789"))
    close = get_close_matches(provider, providers, 1, 0.7)
    guess = ""
    if colon and close:
        guess = f"{close[0]}:{name}"
    elif not colon and family is not None:
        guess = f"{family}:{model}"
    advice = f"did you mean {guess!r}? " if guess else ""
    return (
        f'the model {model!r} is unknown: {advice}write PROVIDER:NAME, as in "openai:NAME", with one of '
        f"these providers: {', '.join(providers)}; for another server that speaks OpenAI's API pass "
        "OpenAiChatModel(NAME, base_url=…)"
    )


def _find_factory(provider: str, model: str) -> Callable[[str], ChatModel]:
    """Return the function that creates models of a provider, or raise LookupError if it is unknown."""
    targets = _BUILT_IN
    if provider not in targets:
        presets = import_module("aiservices.models.openai.presets").PRESETS
        if provider in presets:
            openai = import_module("aiservices.models.openai")
            return partial(openai.OpenAiChatModel.preset, provider)
        from importlib.metadata import entry_points  # It is slow to import and rarely needed.

        targets = targets | {point.name: point.value for point in entry_points(group="aiservices.models")}
        if provider not in targets:
            raise LookupError(_unknown_model(model, sorted({*targets, *presets})))
    module, _, attributes = targets[provider].partition(":")
    factory = import_module(module)
    for attribute in attributes.split("."):
        factory = getattr(factory, attribute)
    return factory  # type: ignore[return-value]  # An entry point may name anything.
