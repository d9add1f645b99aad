"""Servers and credentials for models with OpenAI's API, and SDK clients.

The SDK is used for Azure and for clients that the user passes. Otherwise it is not even imported, and the
model uses ``aiservices.models.http``.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from inspect import signature
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from ..errors import AuthenticationError, DefinitionError, DefinitionProblem, ModelConnectionError
from ..http.base import (
    ApiKey,
    Credentials,
    DeadlineError,
    HttpRequest,
    PerLoop,
    display_url,
    key_function_credentials,
)
from ..presets import CHAT_RULES, PRESETS, Preset, preset_variable
from ..request_checks import REQUEST_CHECKS

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


# "openai", "azure", "ollama", or the name of a preset.
Provider: TypeAlias = str

_COMPATIBLE = Preset(base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY")
# OpenAI's own models, which limit the ids of calls.
_OPENAI = replace(
    _COMPATIBLE,
    capabilities=replace(_COMPATIBLE.capabilities, strict_schema=True),
    conversation=replace(CHAT_RULES, call_ids="(?s).{1,40}", call_id_length=40),
)
# The providers that are not in PRESETS.
_OTHERS = {
    "openai": _COMPATIBLE,
    "azure": _OPENAI,
    "ollama": Preset(base_url="", returned=("reasoning",)),
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server to which an OpenAI-compatible model sends its requests.

    Attributes:
        provider: The kind of server.
        base_url: The base URL of the requests; "" if the SDK client finds it itself, as for Azure.
        preset: What is known of the service.
        azure: True if the path of a request must name the Azure deployment.
        address_setting: The parameter or environment variable that has or can have the URL, for messages.
    """

    provider: Provider
    base_url: str
    preset: Preset
    azure: bool = False
    address_setting: str = "base_url"

    @property
    def is_openai(self) -> bool:
        """True if the server runs OpenAI's own models, with OpenAI's own parameters."""
        return self.preset is _OPENAI

    @property
    def address(self) -> str:
        """The URL of the model's server without credentials and query, for error messages and logs."""
        return display_url(self.base_url or os.environ.get("AZURE_OPENAI_ENDPOINT", ""))

    @property
    def key_advice(self) -> str:
        """Advice on how to set the API key, for use in error messages."""
        if self.provider == "azure":
            return "set AZURE_OPENAI_API_KEY or AZURE_OPENAI_AD_TOKEN, or pass api_key"
        variable = self.preset.key_variable
        return f"set {variable} or pass api_key" if variable else "pass the api_key that the server asks for"

    @property
    def start_advice(self) -> str:
        """Advice on how to start the server, for error messages; "" if no advice is known."""
        return "start Ollama with `ollama serve`" if self.address_setting == "OLLAMA_HOST" else ""

    @classmethod
    def of_provider(cls, provider: Provider, base_url: str | None) -> Endpoint:
        """Create the endpoint of a provider, with the URL from ``base_url``, the environment or a default.

        Raises DefinitionError if the URL is invalid.
        """
        preset = _OTHERS.get(provider) or PRESETS.get(provider)
        if preset is None:
            names = ", ".join(sorted((*_OTHERS, *PRESETS)))
            raise _definition_error(provider, f"the provider must be one of {names}")
        if base_url:
            check_url(base_url, "base_url", provider)
        if provider == "azure":
            return cls._of_azure(base_url or "")
        if not base_url and provider == "ollama":
            base_url = _ollama_url(os.environ.get("OLLAMA_HOST", ""))
            return cls(provider, base_url, preset, address_setting="OLLAMA_HOST")
        setting = "base_url"
        if not base_url:
            setting = preset_variable(provider, "BASE_URL")
            base_url = os.environ.get(setting) or preset.base_url
            check_url(base_url, setting, provider)
        if provider == "openai":
            return cls._of_openai(base_url)
        return cls(provider, base_url, preset, address_setting=setting)

    @classmethod
    def _of_azure(cls, base_url: str) -> Endpoint:
        return cls("azure", base_url, _OPENAI, azure="/deployments" not in base_url)

    @classmethod
    def _of_openai(cls, base_url: str) -> Endpoint:
        return cls("openai", base_url, _OPENAI if _is_openai_host(base_url) else _COMPATIBLE)

    @classmethod
    def of_client(cls, client: object) -> Endpoint:
        """Return the server to which a client of the openai SDK sends requests."""
        from openai import AsyncAzureOpenAI, AzureOpenAI

        base_url = str(getattr(client, "base_url", ""))
        is_azure = isinstance(client, AzureOpenAI | AsyncAzureOpenAI)
        return cls._of_azure(base_url) if is_azure else cls._of_openai(base_url)


def check_url(base_url: str, setting: str, provider: str) -> None:
    """Raise DefinitionError if the server URL that a user configured is invalid.

    ``setting`` names the setting in the message.
    """
    # messages do not quote the URL, because it may contain credentials
    if not base_url.startswith(("http://", "https://")):
        raise _definition_error(
            provider, f'{setting} must begin with http:// or https://, as in "http://localhost:8000/v1"'
        )
    try:
        parts = urlsplit(base_url)
        valid = bool(parts.hostname) and parts.port != 0 and " " not in base_url
    except ValueError:
        valid = False
    if not valid:
        raise _definition_error(
            provider, f'{setting} must be a URL with a host, as in "http://localhost:8000/v1"'
        )


def _definition_error(location: str, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(location, message)])


def _is_openai_host(base_url: str) -> bool:
    # OpenAI also has regional hosts (eu.api.openai.com); Azure serves OpenAI's API below azure.com
    host = "." + (urlsplit(base_url).hostname or "")
    return host.endswith((".api.openai.com", ".azure.com"))


def _ollama_url(host: str) -> str:
    """Convert the environment variable OLLAMA_HOST, such as ``localhost``, to a complete base URL.

    The value may omit scheme and port, as in Ollama. 0.0.0.0 is an address to listen on, not one to connect
    to, so it becomes the loopback address.
    """
    invalid = _definition_error(
        "ollama",
        'OLLAMA_HOST must be a host, optionally with http:// or https:// and a port, as in "box:11434"',
    )
    scheme, separator, rest = host.strip().rpartition("://")
    default_port = {"http": 80, "https": 443}.get(scheme, 11434)
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or default_port
    except ValueError:
        raise invalid from None
    name = {None: "localhost", "": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(
        parts.hostname, parts.hostname or ""
    )
    name = f"[{name}]" if ":" in name else name
    path = parts.path.rstrip("/")
    if " " in rest or (separator and scheme not in ("http", "https")):
        raise invalid
    return f"{scheme if separator else 'http'}://{name}:{port}{path}/v1"


def read_credentials(model_name: str, endpoint: Endpoint, api_key: ApiKey | None) -> Credentials:
    """Read the API key and HTTP headers from environment variables, as the openai SDK does.

    OPENAI_API_KEY is used if ``api_key`` is None. OPENAI_ORG_ID and OPENAI_PROJECT_ID become headers, and
    so does each line "Name: value" of OPENAI_CUSTOM_HEADERS. Raises AuthenticationError if there is no
    valid key.
    """
    headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "aiservices"}
    others = _headers_of_environment() if endpoint.provider in _OTHERS else {}
    if callable(api_key):
        return key_function_credentials(
            api_key, {**headers, **others}, "authorization", "Bearer ", model_name
        )
    key = check_key(model_name, endpoint, _key_of_environment(endpoint) if api_key is None else api_key)
    return Credentials({**headers, "authorization": f"Bearer {key}", **others}, (key,))


def _headers_of_environment() -> dict[str, str]:
    headers: dict[str, str] = {}
    for header, variable in (
        ("openai-organization", "OPENAI_ORG_ID"),
        ("openai-project", "OPENAI_PROJECT_ID"),
    ):
        if value := os.environ.get(variable):
            headers[header] = value
    # last, so that they replace the headers above, as in the SDK
    for line in (os.environ.get("OPENAI_CUSTOM_HEADERS") or "").splitlines():
        header, colon, value = line.partition(":")
        if colon:
            headers[header.strip().lower()] = value.strip()
    return headers


def _key_of_environment(endpoint: Endpoint) -> str | None:
    """Return the API key from the environment; "none" for a server that may work without a key."""
    variable = endpoint.preset.key_variable or preset_variable(endpoint.provider, "API_KEY")
    return os.environ.get(variable) or ("none" if endpoint.preset.key_variable is None else None)


def check_key(model_name: str, endpoint: Endpoint, key: str | None) -> str:
    """Return the API key, or raise AuthenticationError if it is missing or has invalid characters."""
    if not key:
        raise AuthenticationError(f"{model_name}: no API key; {endpoint.key_advice}")
    if not (key.isascii() and key.isprintable()):
        raise AuthenticationError(
            f"{model_name}: the API key contains a line break or another character that is not allowed in a "
            f"key; {endpoint.key_advice}"
        )
    return key


def _check_clients(model_name: str, client: object, async_client: object) -> None:
    """Raise DefinitionError if an object that the user passed is not a client of the openai SDK."""
    problems = []
    for name, value, other in (("client", client, "async_client"), ("async_client", async_client, "client")):
        if value is None:
            continue
        from openai import AsyncOpenAI, OpenAI

        cls, other_cls = (OpenAI, AsyncOpenAI) if name == "client" else (AsyncOpenAI, OpenAI)
        if isinstance(value, other_cls):
            problems.append(f"{name} is {type(value).__name__}; pass it as {other}")
        elif not hasattr(value, "with_options"):
            problems.append(f"{name} is {type(value).__name__}; pass {cls.__name__}(…) of the openai SDK")
    if problems:
        raise DefinitionError([DefinitionProblem(model_name, message) for message in problems])


# The settings that the SDK reads itself and that select the account or the deployment.
_SDK_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_ORG_ID",
    "OPENAI_PROJECT_ID",
    "OPENAI_CUSTOM_HEADERS",
    "OPENAI_API_VERSION",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
)


class SdkClients:
    """The openai SDK clients of one chat model, each created when it is first needed.

    Clients that the user passes are used as they are and are never closed. Others are created when they
    are first needed: one for blocking calls, and one for each event loop.

    Args:
        model_name: The name of the model in error messages.
        endpoint: The server of the model.
        api_key: The API key; if None, the SDK reads it from the environment.
        client: A client for blocking calls that the user passed, or None.
        async_client: A client for asynchronous calls that the user passed, or None.
    """

    def __init__(
        self,
        model_name: str,
        endpoint: Endpoint,
        api_key: str | None,
        client: OpenAI | None,
        async_client: AsyncOpenAI | None,
    ) -> None:
        _check_clients(model_name, client, async_client)
        self.model_name = model_name
        self._endpoint = endpoint
        self._api_key = api_key
        self._user_client = client
        self._user_async_client = async_client
        self._own_client: OpenAI | None = None
        self._own_async_clients: PerLoop[AsyncOpenAI] = PerLoop(
            lambda: self._make("AsyncOpenAI"), lambda client: client.close(), _abandon
        )
        self._lock = Lock()

    @property
    def address(self) -> str:
        """The URL of the model's server, without credentials."""
        return self._endpoint.address

    @property
    def account(self) -> str:
        """A hash of the API key, to tell accounts of a provider apart; "" if the key is unknown."""
        key = self._api_key or ""
        return hashlib.blake2b(key.encode(), digest_size=8).hexdigest() if key else ""

    @property
    def destination(self) -> str:
        """The whole URL and the headers of all requests, or the settings from which the SDK makes them."""
        client = self._user_client or self._user_async_client
        if client is not None:
            headers = {name: one for name, one in client.default_headers.items() if isinstance(one, str)}
            query, url = sorted(client.default_query.items()), str(client.base_url)
            return repr((url, query, client.api_key, sorted(headers.items())))
        return repr((self._endpoint.base_url, self._api_key, *map(os.environ.get, _SDK_VARIABLES)))

    def sync_client(self) -> SdkClient:
        """Return the openai SDK client for blocking calls.

        Raises AuthenticationError without a key.
        """
        for check in REQUEST_CHECKS:
            check(self.model_name, self.address)
        if self._user_client is not None:
            return SdkClient(self._user_client)
        self._refuse_other_kind("client", "OpenAI", self._user_async_client)
        with self._lock:
            if self._own_client is None:
                self._own_client = self._make("OpenAI")
            return SdkClient(self._own_client)

    async def async_client(self) -> SdkClient:
        """Return the openai SDK client for the running event loop.

        Raises AuthenticationError without a key.
        """
        for check in REQUEST_CHECKS:
            check(self.model_name, self.address)
        if self._user_async_client is not None:
            return SdkClient(self._user_async_client)
        self._refuse_other_kind("async_client", "AsyncOpenAI", self._user_client)
        return SdkClient(await self._own_async_clients.get())

    def close(self) -> None:
        """Close the openai SDK client for blocking calls, unless the client was passed by the user."""
        with self._lock:
            client, self._own_client = self._own_client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the openai SDK clients for blocking calls and for the running event loop."""
        self.close()
        await self._own_async_clients.aclose()

    def _refuse_other_kind(self, parameter: str, sdk_class: str, other: object) -> None:
        # a client of the other kind cannot be made from it: its proxies, certificates and hooks would be lost
        if other is not None:
            passed = "async_client" if parameter == "client" else "client"
            raise _definition_error(
                self.model_name,
                f"{passed} was passed, but this call needs {parameter}; "
                f"pass {parameter}={sdk_class}(...) too",
            )

    def _make(self, sdk_class: str) -> Any:  # the class is chosen by name
        import openai

        if self._endpoint.provider == "azure":
            sdk_class = sdk_class.replace("OpenAI", "AzureOpenAI")
        try:
            # without retries, because the budget of a call decides about them
            client = getattr(openai, sdk_class)(
                base_url=self._endpoint.base_url or None, api_key=self._api_key, max_retries=0
            )
        except openai.OpenAIError as error:
            raise AuthenticationError(
                f"{self.model_name}: no API key; {self._endpoint.key_advice}"
            ) from error
        except ValueError as error:  # how the SDK's Azure client reports a missing variable
            raise ModelConnectionError(
                f"{self.model_name}: {error}; set AZURE_OPENAI_ENDPOINT and OPENAI_API_VERSION"
            ) from error
        # without a key, the SDK would send an administrator's key, which is not valid for models
        check_key(self.model_name, self._endpoint, client.api_key)
        return client


def _abandon(client: AsyncOpenAI) -> None:
    """Do nothing, because an SDK client does not have to be closed after its event loop."""


class SdkClient(NamedTuple):
    """An HTTP client that sends requests through a client of the openai SDK.

    So the proxies, certificates, hooks and authentication of the SDK client are used.

    Attributes:
        sdk: The client of the SDK.
    """

    sdk: Any  # OpenAI or AsyncOpenAI: the methods of the second are awaitable

    @property
    def headers(self) -> Mapping[str, object]:
        """The HTTP headers of every request, for log messages."""
        headers: Mapping[str, object] = self.sdk.default_headers | self.sdk.auth_headers
        return headers

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret strings, such as the API key, that error messages must not contain."""
        key = getattr(self.sdk, "api_key", None)
        return (key,) if isinstance(key, str) else ()

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """The types of exceptions that sending a request or reading a response can raise."""
        return sdk_failures()

    def post(
        self, request: HttpRequest, timeout: float | None, *, unread: bool, deadline: float | None = None
    ) -> Any:
        """Send an HTTP POST request with the openai SDK.

        Returns the response, or an awaitable for an async client.

        The HTTP library limits each wait for the server. So a blocking call checks the deadline itself when a
        piece of the body arrives; an asynchronous call is cancelled at its deadline.
        """
        settings: dict[str, Any] = {"max_retries": 0}  # a client of the user may have other settings
        if deadline is not None:
            seconds = max(deadline - time.monotonic(), 0.001)
            timeout = seconds if timeout is None else min(timeout, seconds)
        if timeout is not None:
            settings["timeout"] = timeout
        if request.headers:
            settings["headers"] = request.headers
        types = _sdk_types()
        body = {types.body_argument: request.body}
        is_bounded = deadline is not None and not hasattr(self.sdk, "__aenter__")
        response = self.sdk.post(
            request.path, cast_to=types.response, options=settings, stream=unread or is_bounded, **body
        )
        return _BoundedResponse(response, deadline) if is_bounded and deadline is not None else response


class _BoundedResponse:
    """An HTTP response of the openai SDK; reading it after the deadline raises an error.

    Attributes:
        status_code: The HTTP status.
        headers: The headers.
    """

    def __init__(self, response: Any, deadline: float) -> None:
        self._response = response
        self._deadline = deadline
        self.status_code: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def content(self) -> bytes:
        """The whole body of the HTTP response; raises DeadlineError if the body arrives too late."""
        try:
            return b"".join(self.iter_bytes())
        finally:
            self.close()

    def iter_bytes(self) -> Iterator[bytes]:
        """Yield the pieces of the HTTP response body, or raise DeadlineError if one arrives too late."""
        for piece in self._response.iter_bytes():
            if time.monotonic() > self._deadline:
                raise DeadlineError
            yield piece

    def close(self) -> None:
        """Close the connection of the HTTP response unless the body was read to its end."""
        self._response.close()


class _SdkTypes(NamedTuple):
    """A class and a parameter name of the openai SDK that differ between its versions.

    Attributes:
        response: The response class of its HTTP library, for unparsed responses.
        body_argument: The parameter of ``post`` that takes the body as bytes.
    """

    response: type[Any]
    body_argument: str


@cache
def _sdk_types() -> _SdkTypes:
    # importing the SDK takes most of a second, so this waits for the first request
    import openai

    # openai 3 uses httpx2, openai 2 uses httpx; bytes were passed as `body` before they were `content`
    http_library = openai.DefaultHttpxClient.__mro__[-2].__module__.partition(".")[0]
    takes_content = "content" in signature(openai.OpenAI.post).parameters
    return _SdkTypes(import_module(http_library).Response, "content" if takes_content else "body")


def sdk_failures() -> tuple[type[Exception], ...]:
    """Return the types of the exceptions that the openai SDK and its HTTP library can raise.

    Call it after a failure, because it imports the SDK. The SDK wraps the errors of its HTTP library while it
    sends, but not while a stream is read. A client of the user may use another HTTP library.
    """
    import openai

    # a library that is not loaded cannot have raised anything
    modules = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    failures = [error for module in modules for error in (module.RequestError, module.InvalidURL)]
    if "anyio" in sys.modules:
        failures.append(sys.modules["anyio"].EndOfStream)
    return (openai.OpenAIError, OSError, *failures)
