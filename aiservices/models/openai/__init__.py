"""Chat models for OpenAI, Azure OpenAI, Ollama and servers with the same API."""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self

from ...models.arguments import checks_arguments
from ..base import Capabilities
from ..errors import DefinitionError, DefinitionProblem
from ..http.api import ApiDialect
from ..http.base import ApiKey
from ..http.model import ClientSource, HttpChatModel, HttpClients, check_name
from ..requests import ChatOptions
from .chat import ChatDialect
from .client import Endpoint, Provider, SdkClients, read_credentials
from .responses import ResponsesDialect

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

__all__ = ["OpenAiChatModel", "OpenAiResponsesModel"]


_LOGGER = logging.getLogger("aiservices.openai")
_NO_OPTIONS = ChatOptions()


@checks_arguments
class OpenAiModel(HttpChatModel):
    """Base class of the chat models that use one of OpenAI's HTTP APIs.

    Args:
        model: The name of the model, or of the Azure deployment.
        provider: "openai", "azure", "ollama", or a service with a preset, such as "groq". It determines how
            the URL and the key are found.
        base_url: The URL of the server; by default the provider's, or the one in the environment.
        api_key: The key, or a function that returns it for each request, which may be asynchronous; by
            default the key in the environment.
        client: A client of the SDK for blocking calls. It is used as it is, except for its retries, and is
            not closed.
        async_client: The same for asynchronous calls.
        options: Options for all requests; those of a request have priority.
        capabilities: The features that the model supports, if the default for the server is wrong.
        log_level: The level at which requests and replies are logged, without keys.

    Raises DefinitionError if ``base_url`` is not a URL, or if ``options`` hold something that the API does
    not have. A missing key is an AuthenticationError of the first request.
    """

    _suffix: ClassVar[str] = ""

    def __init__(
        self,
        model: str,
        *,
        provider: Provider = "openai",
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        client: OpenAI | None = None,
        async_client: AsyncOpenAI | None = None,
        options: ChatOptions = _NO_OPTIONS,
        capabilities: Capabilities | None = None,
        log_level: int = logging.DEBUG,
    ) -> None:
        user_client = client or async_client
        if user_client is None:
            endpoint = Endpoint.of_provider(provider, base_url)
        else:
            endpoint = Endpoint.of_client(user_client)
        if endpoint.provider == "ollama":
            api_key = api_key or "ollama"  # a key must be sent, although Ollama does not check it
        prefix = f"{endpoint.provider}{self._suffix}"
        name = f"{prefix}:{model}"
        clients: ClientSource
        # Azure has sign-in methods and address rules that only its SDK client knows
        if user_client is not None or endpoint.provider == "azure":
            if callable(api_key):
                message = "api_key cannot be a function here; pass a client of the SDK with a token provider"
                raise DefinitionError([DefinitionProblem(name, message)])
            clients = SdkClients(name, endpoint, api_key, client, async_client)
        else:
            clients = HttpClients(name, endpoint.base_url, partial(read_credentials, name, endpoint, api_key))
        super().__init__(
            model,
            provider=prefix,
            dialect=self._dialect_of(endpoint),
            clients=clients,
            address=endpoint.address,
            key_advice=endpoint.key_advice,
            capabilities=capabilities or self._capabilities_of(endpoint, model),
            options=options,
            logger=_LOGGER,
            log_level=log_level,
            address_setting=endpoint.address_setting,
            start_advice=endpoint.start_advice,
        )
        self._endpoint = endpoint
        self.idempotency_header = endpoint.preset.idempotency_header

    @classmethod
    @abstractmethod
    def _dialect_of(cls, endpoint: Endpoint) -> ApiDialect:
        """Return the object that writes requests and parses replies in the API format of a server."""

    @classmethod
    @abstractmethod
    def _makes_images(cls, endpoint: Endpoint, model: str) -> bool:
        """Return True if a model on a server can answer with images."""

    @classmethod
    def _capabilities_of(cls, endpoint: Endpoint, model: str) -> Capabilities:
        """Return the features that a model supports on a server, derived from the model's name."""
        capabilities = endpoint.preset.capabilities
        return (
            replace(capabilities, image_output=True) if cls._makes_images(endpoint, model) else capabilities
        )

    @property
    def endpoint(self) -> str:
        return self._endpoint.address  # not cached, because the variable with Azure's URL may be set later

    def request_url(self, path: str) -> str:
        if self._endpoint.provider == "azure" and not self._endpoint.base_url:
            path = f"openai/{path.lstrip('/')}"  # the SDK adds it to AZURE_OPENAI_ENDPOINT
        return super().request_url(path)

    @classmethod
    def named(cls, name: str) -> Self:
        """Return an OpenAI chat model by name, hosted by OpenAI or by the server at OPENAI_BASE_URL."""
        return cls(check_name(name, f"openai{cls._suffix}:NAME"))

    @classmethod
    def azure(cls, name: str) -> Self:
        """Return the chat model of an Azure deployment, whose URL and key come from environment variables."""
        return cls(check_name(name, f"azure{cls._suffix}:NAME"), provider="azure")

    @classmethod
    def ollama(cls, name: str) -> Self:
        """Return an Ollama chat model by name, on this machine or on the machine that OLLAMA_HOST names."""
        return cls(check_name(name, f"ollama{cls._suffix}:NAME"), provider="ollama")

    @classmethod
    def preset(cls, provider: str, name: str) -> Self:
        """Return a chat model of a preconfigured service such as "groq", whose key is in the environment."""
        return cls(check_name(name, f"{provider}{cls._suffix}:NAME"), provider=provider)


class OpenAiChatModel(OpenAiModel):
    """An OpenAI, Azure, Ollama or compatible chat model, called through the chat completions API.

    Its names in ``create`` are ``"openai:NAME"``, ``"azure:DEPLOYMENT"`` and ``"ollama:NAME"``. Creating a
    model opens no connection and needs no key. Every call makes one HTTP request. ``timeout`` in the options
    limits each wait for the server, as in the SDK. ``max_tokens`` is sent as ``max_completion_tokens`` to
    api.openai.com and Azure, and as ``max_tokens`` to other servers; ``extra_body`` overrides both.

    The SDK is used for Azure and for ``client`` and ``async_client``, which are used as they are, except for
    their retries, and are not closed. The default ``capabilities`` are those of OpenAI for api.openai.com and
    Azure. Other servers are assumed to accept a JSON schema, but not OpenAI's strict schemas. Requests and
    replies go to the logger "aiservices.openai" at ``log_level``, without keys.

    Example:
        model = OpenAiChatModel("gpt-5-mini", options=ChatOptions(timeout=30))
    """

    @classmethod
    def _dialect_of(cls, endpoint: Endpoint) -> ApiDialect:
        return ChatDialect(endpoint)

    @classmethod
    def _makes_images(cls, endpoint: Endpoint, model: str) -> bool:
        image_models = endpoint.preset.image_models
        return image_models != "" and image_models in model


class OpenAiResponsesModel(OpenAiModel):
    """An OpenAI or Azure chat model, called through the Responses API (POST /responses).

    Its names in ``create`` are ``"openai-responses:NAME"`` and ``"azure-responses:DEPLOYMENT"``. The
    documentation of clients, capabilities, timeouts and logs in ``OpenAiChatModel`` also applies here.

    Requests tell the provider not to store the conversation: ``store`` is false unless ``extra_body`` sets
    it, and every request holds all messages, the system message as the first item of ``input``. Models that
    reason return their encrypted reasoning, which is kept in ``AiMessage.state`` and sent back. So they do
    not reason again after each tool call. ``AiMessage.reasoning`` holds the summaries of the reasoning, which
    OpenAI writes if ``extra_body={"reasoning": {"summary": "auto"}}`` is set, and the messages that a model
    writes while it works (the phase "commentary"). The members of ``reasoning`` and ``text`` in
    ``extra_body`` are added to those of ``reasoning_effort`` and the response format.

    The API has neither ``stop`` nor ``seed``, nor names of users. A request with one of them raises
    BadRequestError and is not sent; in ``options`` they raise DefinitionError.
    """

    _suffix = "-responses"

    @classmethod
    def _dialect_of(cls, endpoint: Endpoint) -> ApiDialect:
        return ResponsesDialect(endpoint)

    @classmethod
    def _makes_images(cls, endpoint: Endpoint, model: str) -> bool:
        # OpenAI's models call the tool image_generation
        return endpoint.address.startswith("https://api.openai.com")
