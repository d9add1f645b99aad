"""The lookup of a chat model by its name, such as ``"openai:gpt-5-mini"``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from . import BUILT_IN
from .arguments import checks_arguments
from .base import ChatModel
from .errors import DefinitionError, DefinitionProblem, UnavailableError, install_command

if TYPE_CHECKING:
    from .presets import Preset

# The functions that were passed to register_provider, by the names of the providers.
REGISTERED: dict[str, Callable[[str], ChatModel]] = {}


@checks_arguments
def register_provider(name: str, provider: Preset | Callable[[str], ChatModel]) -> None:
    """Register a provider of models under a name, so that ``"name:MODEL"`` selects its models.

    Raises DefinitionError if the name belongs to a built-in provider, or has a colon.

    Args:
        name: The part before the colon in the names of its models. It replaces a service of the same name.
        provider: For a service with OpenAI's chat completions API its address, the variable of its key, and
            what it supports. For other APIs a function that returns the model for the text after the colon.
    """
    if name in BUILT_IN or not name or ":" in name:
        reason = "is the name of a built-in provider" if name in BUILT_IN else "must be text without a colon"
        raise DefinitionError([DefinitionProblem("register_provider", f"{name!r} {reason}")])
    from .presets import PRESETS, Preset  # few programs need them

    if isinstance(provider, Preset):
        REGISTERED.pop(name, None)
        PRESETS[name] = provider
    elif callable(provider):
        REGISTERED[name] = provider
    else:
        message = f"provider has the type {type(provider).__name__}; pass a Preset or a function of a name"
        raise DefinitionError([DefinitionProblem("register_provider", message)])


def find_model(model: ChatModel | str | None, location: str = "model") -> ChatModel:
    """Return the chat model for a name such as ``"openai:gpt-5"``; return a model object unchanged.

    For None, it returns the model that the environment variable ``AISERVICES_MODEL`` names. If that is not
    set, it returns the embedded model if its runtime is installed. Raises DefinitionError if there is no such
    model. ``location`` says in the message where the model was set.
    """
    introduction = ""
    try:
        if model is None:
            model = os.environ.get("AISERVICES_MODEL")
            if not model:
                introduction = _NO_MODEL
                model = _embedded_model()
        if isinstance(model, str):
            provider, _, name = model.partition(":")
            return _find_factory(provider, model)(name)
    except DefinitionError as error:  # It was raised by the model class, which does not know the location.
        problems = [
            problem._replace(location=location, message=introduction + problem.message)
            for problem in error.problems
        ]
        raise DefinitionError(problems) from None
    except LookupError as error:
        message = introduction + str(error.args[0] if error.args else error)
        unavailable = isinstance(error, UnavailableError)
        cause = error if isinstance(error, (KeyError, IndexError)) else None  # a mistake in a factory
        raise DefinitionError([DefinitionProblem(location, message, unavailable)]) from cause
    # A class has the same attributes as its objects, so it passes the isinstance check.
    if isinstance(model, ChatModel) and not isinstance(model, type):
        return model
    if isinstance(model, type):
        message = f"{model.__name__} is a class; pass an object of it"
    else:
        message = (
            f"{type(model).__name__} is not a ChatModel; pass one. It needs name, capabilities, complete, "
            "acomplete, stream and astream"
        )
    raise DefinitionError([DefinitionProblem(location, message)])


_NO_MODEL = (
    'no model is set: pass one, as in create(Interface, "openai:NAME") or, for made-up answers, "fake", '
    "or set AISERVICES_MODEL; "
)


def _embedded_model() -> str:
    """Return the name of the embedded llama.cpp model, or raise LookupError if it is not installed."""
    # find_spec does not import the runtime, which takes long and must wait for the first request.
    if find_spec("xllamacpp") is None:
        raise UnavailableError(f"the embedded model is not installed: {install_command('local')}")
    return "local"


def _unknown_model(model: str, providers: list[str]) -> str:
    """Return the error message for an unknown provider in a model name, with a suggestion."""
    from difflib import get_close_matches  # rarely needed

    from .presets import PROVIDERS

    provider, colon, name = model.partition(":" if ":" in model else "/")
    begin = model.partition("-")[0].rstrip("0123456789")
    family = next((one.name for one in PROVIDERS if begin in one.families), None)
    close = get_close_matches(provider, providers, 1, 0.7)
    without_name = get_close_matches(model, ("fake", "local"), 1, 0.7)
    guess = ""
    if colon and close:
        guess = f"{close[0]}:{name}"
    elif not colon and without_name:
        guess = without_name[0]
    elif not colon and family is not None:
        guess = f"{family}:{model}"
    if guess:
        return (
            f"the model {model!r} is unknown: did you mean {guess!r}? write PROVIDER:NAME; the command "
            "aiservices providers lists the providers"
        )
    return (
        f'the model {model!r} is unknown: write PROVIDER:NAME, as in "openai:NAME", with one of '
        f"these providers: {', '.join(providers)}; for another server that speaks OpenAI's API pass "
        "OpenAiChatModel(NAME, base_url=…)"
    )


def _find_factory(provider: str, model: str) -> Callable[[str], ChatModel]:
    """Return the function that creates models of a provider, or raise LookupError for an unknown provider."""
    targets = BUILT_IN
    if provider not in targets:
        if provider in REGISTERED:
            return REGISTERED[provider]
        from .presets import PRESETS

        if provider in PRESETS:
            from .openai import OpenAiChatModel  # only for programs that use it

            return partial(OpenAiChatModel.preset, provider)
        from importlib.metadata import entry_points  # slow to import and rarely needed

        targets = targets | {point.name: point.value for point in entry_points(group="aiservices.models")}
        if provider not in targets:
            raise LookupError(_unknown_model(model, sorted({*targets, *REGISTERED, *PRESETS})))
    module, _, attributes = targets[provider].partition(":")
    factory = import_module(module)
    for attribute in attributes.split("."):
        factory = getattr(factory, attribute)
    return factory  # type: ignore[return-value]  # An entry point may name anything.
