"""The protocol of a chat model, and finding one by its name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, runtime_checkable

from .errors import DefinitionError, DefinitionProblem
from .messages import ChatReply, ReplyDelta
from .requests import ChatRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a model can be asked for.

    ``json_schema``: an answer that fits a schema. ``strict_schema``: the provider enforces its strict
    subset when asked, of answers and of tools. ``json_mode``: any JSON object. ``constrained``: answers
    are constrained while they are decoded, so a schema always holds, but the model does not read it: a
    short hint in the prompt tells it what is wanted. ``tools``: it calls tools, and can be told to call
    a certain one. ``profile`` is the key in ``output_parsers.profiles.PROFILES`` of what its strict mode
    takes.
    """

    json_schema: bool = False
    strict_schema: bool = False
    json_mode: bool = False
    constrained: bool = False
    tools: bool = False
    profile: str = "openai"


@runtime_checkable
class ChatModel(Protocol):
    """Answers requests. Raises ModelError and its kin, and makes one attempt only: retries are the caller's.

    A model that is not asynchronous by nature may answer ``acomplete`` from a thread. A stream yields
    deltas, and its last delta carries the whole reply; closing it ends the request.
    """

    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    def complete(self, request: ChatRequest) -> ChatReply: ...
    async def acomplete(self, request: ChatRequest) -> ChatReply: ...
    def stream(self, request: ChatRequest) -> Iterator[ReplyDelta]: ...
    def astream(self, request: ChatRequest) -> AsyncIterator[ReplyDelta]: ...


def members_of(model: ChatModel) -> tuple[ChatModel, ...]:
    """The models that a model stands for, in the order in which they are asked: mostly itself."""
    members: tuple[ChatModel, ...] = getattr(model, "members", ())
    return members or (model,)


_BUILT_IN = {
    "openai": "aiservices.models.openai:OpenAiChatModel.named",
    "openai-responses": "aiservices.models.openai:OpenAiResponsesModel.named",
    "azure": "aiservices.models.openai:OpenAiChatModel.azure",
    "azure-responses": "aiservices.models.openai:OpenAiResponsesModel.azure",
    "ollama": "aiservices.models.openai:OpenAiChatModel.ollama",
    "local": "aiservices.models.local:LocalChatModel.named",
}


def find_model(model: ChatModel | str | None, location: str = "model") -> ChatModel:
    """Return a model: the object itself, or the model that a string such as ``"openai:NAME"`` names.

    With None it is the model that the environment variable ``AISERVICES_MODEL`` names, or else the embedded
    model if its runtime is installed. Raises DefinitionError, with ``location`` as the place of the problem,
    if that gives no model.
    """
    try:
        return _find(model)
    except DefinitionError as error:  # by the constructor of a model, which does not know the place
        raise DefinitionError([DefinitionProblem(location, one.message) for one in error.problems]) from error
    except LookupError as error:
        message = str(error.args[0] if error.args else error)
        raise DefinitionError([DefinitionProblem(location, message)]) from error


def _find(model: ChatModel | str | None) -> ChatModel:
    if model is None:
        model = os.environ.get("AISERVICES_MODEL") or _embedded()
    if not isinstance(model, str):
        if isinstance(model, type):
            raise LookupError(f"{model.__name__} is a class; pass an object of it")
        if isinstance(model, ChatModel):
            return model
        raise LookupError(
            f"{type(model).__name__} is not a ChatModel: it needs name, capabilities, complete, acomplete, "
            "stream and astream"
        )
    provider, _, name = model.partition(":")
    return _factory(provider, model)(name)


def _embedded() -> str:
    if find_spec("xllamacpp") is None:
        raise LookupError(
            'no model is set: pass model="openai:NAME" (or another) to create, set AISERVICES_MODEL, '
            'or install the embedded model with pip install "aiservices[local]"'
        )
    return "local"


def _factory(provider: str, asked: str) -> Callable[[str], ChatModel]:
    target = _BUILT_IN.get(provider)
    known = dict(_BUILT_IN)
    if target is None:
        from importlib.metadata import entry_points  # slow to import, and seldom asked

        known |= {point.name: point.value for point in entry_points(group="aiservices.models")}
        target = known.get(provider)
    if target is None:
        raise LookupError(
            f"the model {asked!r} is unknown: its provider must be one of {', '.join(sorted(known))}, "
            'as in "openai:NAME"'
        )
    module, _, attribute = target.partition(":")
    found = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value]  # what an entry point names is known only when it is loaded
