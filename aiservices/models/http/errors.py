"""The errors of providers' HTTP APIs, and how they become this package's ModelError exceptions."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from output_parsers.result.errors import shorten

from ..errors import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelServerError,
    ModelTimeoutError,
    RateLimitError,
)
from .base import (
    ENDED_EARLY,
    INVALID_HEADER,
    MAX_REPLY_BYTES,
    DeadlineError,
    ProxyError,
    ReplyTooLargeError,
    TransportError,
    display_url,
)

_MIN_SECRET_LENGTH = 8  # a shorter key ("ollama") protects nothing and may be an ordinary word of a message
_MAX_QUOTED = 300
# the texts of our blocking client, aiohttp and httpx2 for a body that ends too early
_CUT_SHORT = (
    ENDED_EARLY,
    "payload is not completed",
    "without sending complete message body",
)
# for errors that arrive within a stream, when the HTTP status was already a success
_STATUS_OF_CODE = {
    "authentication_error": 401,
    "bio_policy": 400,
    "context_length_exceeded": 400,
    "data_residency_mismatch": 400,
    "insufficient_quota": 429,
    "invalid_api_key": 401,
    "invalid_prompt": 400,
    "invalid_request_error": 400,
    "misalignment_policy_violation": 400,
    "model_not_found": 404,
    "not_found_error": 404,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
}


class UnsupportedRequestError(ValueError):
    """Raised when a chat request contains something that the provider's API does not support."""


class UnreadableReplyError(ValueError):
    """Raised when an HTTP response is not a valid reply of the provider's API; the message says why."""


class BrokenStreamError(Exception):
    """Raised when a streamed reply ends before it is complete."""


class ReportedError(Exception):
    """Raised when the provider sent a JSON error object (``payload``) instead of a reply."""

    def __init__(self, payload: object) -> None:
        super().__init__("the provider reported an error")
        self.payload = payload


# What reading a reply raises if it reports an error or does not have the shape that the reader expects.
REPLY_ERRORS = (ReportedError, AttributeError, LookupError, TypeError, ValueError)


class ErrorDetails(NamedTuple):
    """The parsed content of an HTTP error response, with the same fields for all providers.

    Attributes:
        message: The provider's text; "" if there is none.
        status: The HTTP status in the body of the error, if there is one. It is used for errors that arrive
            with a success status, as in streams.
        code_status: The HTTP status that belongs to the code of the error, such as 429 for
            "rate_limit_exceeded". It is used if ``status`` is None.
        quota_exceeded: The account has no quota left, so waiting does not help.
        request_id: The provider's id of the request.
        retry_after: Seconds that the provider asks to wait.
    """

    message: str
    status: int | None = None
    code_status: int | None = None
    quota_exceeded: bool = False
    request_id: str | None = None
    retry_after: float | None = None


# Reads the headers and the body of an error; the headers are empty for an error within a stream.
DetailsReader: TypeAlias = Callable[[Mapping[str, str], str], ErrorDetails]


def read_error_details(headers: Mapping[str, str], body: str) -> ErrorDetails:
    """Parse an HTTP error response in OpenAI's API format, which many servers use."""
    message, codes = _message_and_codes(body)
    return ErrorDetails(
        message,
        next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), None),
        next((_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE), None),
        "insufficient_quota" in codes,
        headers.get("x-request-id"),
        retry_after(headers),
    )


def _message_and_codes(body: str) -> tuple[str, list[str]]:
    try:
        data = from_json(body)
    except ValueError:
        return " ".join(body.split()), []
    if isinstance(data, dict):
        data = data.get("error") or data
    if not isinstance(data, dict):  # Ollama, for one, sends the text itself
        return str(data), []
    message = data.get("message") or data.get("detail") or ""
    codes = [str(data[key]) for key in ("code", "type") if data.get(key)]
    return message if isinstance(message, str) else to_json(message).decode(), codes


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait before a retry according to the HTTP response headers, or None.

    The headers have milliseconds, seconds or a date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - time.time())


@dataclass(frozen=True, slots=True)
class ErrorMapper:
    """Converts exceptions of HTTP requests to ModelErrors, with secrets such as API keys removed.

    Attributes:
        label: The model and its address; every message starts with it.
        secrets: Texts that messages must not contain, such as API keys.
        key_advice: How to set a valid key, for messages.
        timeout: The timeout of the call, in seconds.
        reply_name: The name of a valid reply in messages, as in "the reply is not a chat completion".
        read_details: Parses an error in the format of the provider.
        address_setting: The parameter or environment variable with the server's address, for messages.
        start_advice: How to start the server, if it runs on the user's machine.
    """

    label: str
    secrets: tuple[str, ...] = ()
    key_advice: str = ""
    timeout: float | None = None
    reply_name: str = "chat reply"
    read_details: DetailsReader = read_error_details
    address_setting: str = "base_url"
    start_advice: str = ""

    def from_exception(self, error: Exception) -> ModelError:
        """Convert an exception of an HTTP client or the openai SDK to a ModelError."""
        response = getattr(error, "response", None)
        if response is not None:
            details = self._details(response.headers, response.text)
            return self._from_status(response.status_code, details, response.headers, response.text)
        chain = list(_cause_chain(error))
        if any(isinstance(link, DeadlineError) for link in chain):
            return self.reply_too_late()
        if any(isinstance(link, ReplyTooLargeError) for link in chain):
            return InvalidReplyError(
                self._message(f"the reply is larger than {MAX_REPLY_BYTES >> 20} MB; {self._check_address}")
            )
        # By name, because the classes belong to four HTTP libraries, most of which are not imported.
        if any("Timeout" in type(link).__name__ for link in chain):
            limit = "in time" if self.timeout is None else f"within {self.timeout:g} s"
            return ModelTimeoutError(
                self._message(f"no reply {limit}; set a longer timeout in ChatOptions or ask for less"),
                retryable=True,
            )
        return ModelConnectionError(self._message(self._connection_problem(chain)), retryable=True)

    def reply_too_late(self) -> ModelTimeoutError:
        """Return the error for a model reply that was not complete before the deadline of the call."""
        return ModelTimeoutError(
            self._message("the reply was not complete before the timeout; ask for less"), retryable=True
        )

    def broken_stream(self, text: str) -> ModelConnectionError:
        """Return the error for a streamed reply that ended too early; ``text`` is the part that arrived."""
        return ModelConnectionError(
            self._message(
                f"the stream ended after {len(text)} characters, before the reply was complete; try again"
            ),
            retryable=True,
            body=text,
        )

    def unusable_reply(self, error: Exception, body: bytes) -> ModelError:
        """Return the error for an HTTP response that has a success status but is not a valid model reply."""
        if isinstance(error, ReportedError):
            return self._from_payload(error.payload)
        reason = str(error)
        if not isinstance(error, UnreadableReplyError):
            reason = f"it has an unexpected shape ({type(error).__name__}: {error})"
        text = self.redacted(body.decode(errors="replace"))
        start = text[:_MAX_QUOTED] + ("…" if len(text) > _MAX_QUOTED else "")
        # It is usually an error page of a proxy or for a wrong path, whose beginning shows the reason.
        return InvalidReplyError(
            self._message(
                f"the reply is not a {self.reply_name}: {reason}; {self._check_address}. It begins: {start!r}"
            ),
            body=text,
        )

    def invalid_request(self, error: Exception) -> BadRequestError:
        """Return the error for a chat request that was not sent because it is invalid or not supported."""
        if isinstance(error, UnsupportedRequestError):
            return BadRequestError(self._message(str(error)))
        return BadRequestError(
            self._message(
                f"the request cannot be written as JSON: {error}; "
                "texts must be valid Unicode, values plain JSON"
            )
        )

    @property
    def _check_address(self) -> str:
        return f"check {self.address_setting}"

    def _connection_problem(self, chain: list[BaseException]) -> str:
        """Describe for an error message why an HTTP connection failed, and what to do about it."""
        for link in chain:
            if isinstance(link, ProxyError):
                return f"the proxy failed ({link}); check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
            if isinstance(link, ConnectionRefusedError):
                if self.start_advice:
                    return f"connection refused; {self.start_advice}, or set {self.address_setting}"
                return f"connection refused; {self._check_address} and that the server runs"
            if isinstance(link, socket.gaierror):
                return f"the host name is unknown; {self._check_address} and the network"
            if isinstance(link, ssl.SSLCertVerificationError):
                return (
                    f"its certificate is not trusted ({link.verify_message}); "
                    f"{self._check_address} and the certificates"
                )
            if getattr(link, "reason", None) == "WRONG_VERSION_NUMBER":
                return f"the server does not speak TLS; check https in {self.address_setting}"
            if any(text in str(link) for text in _CUT_SHORT):
                return (
                    "the connection was cut before the reply was complete; try again, and check the network"
                )
            if isinstance(link, TransportError):
                return f"{link}; check the key and extra_headers"
        # the inner exception says more than the SDK's "Connection error." or "Connection aborted."
        inner = chain[1] if len(chain) > 1 else chain[0]
        if "Illegal header" in str(inner):  # its text quotes the header, which may contain the key
            return f"{INVALID_HEADER}; check the key and extra_headers"
        text = shorten(" ".join(str(inner).split()), _MAX_QUOTED)
        return (
            f"the connection failed ({type(inner).__name__}: {text}); {self._check_address} and the network"
        )

    def _details(self, headers: Mapping[str, str], body: str) -> ErrorDetails:
        try:
            return self.read_details(headers, body)
        except (AttributeError, LookupError, TypeError, ValueError):
            # The error came from a proxy and not from the provider, so it has another format.
            return read_error_details(headers, body)

    def _from_payload(self, payload: object) -> ModelError:
        body = to_json(payload).decode()
        details = self._details({}, body)
        error = self._from_status(details.status or details.code_status or 500, details, {}, body)
        error.status = details.status  # the HTTP status was a success
        return error

    def _from_status(
        self, status: int, details: ErrorDetails, headers: Mapping[str, str], body: str
    ) -> ModelError:
        error_type, summary, advice, retryable = _classify(status, details.quota_exceeded, self.key_advice)
        wait = details.retry_after
        if wait is not None and error_type is RateLimitError and retryable:
            advice = f"wait {wait:g} s or {advice}"
        message = self.redacted(details.message)
        message = message[:_MAX_QUOTED] + "…" if len(message) > _MAX_QUOTED else message
        if status in (301, 302, 303, 307, 308) and (location := _location(headers)):
            summary = f"redirected to {location}"
            advice = "set base_url to that address if it is the right server"
        should_retry = headers.get("x-should-retry")  # OpenAI and Anthropic use it to overrule the status
        return error_type(
            self._message(f"{status} {summary}{': ' + message if message else ''}; {advice}"),
            status=status,
            request_id=details.request_id,
            retryable=should_retry == "true" if should_retry in ("true", "false") else retryable,
            retry_after=wait,
            body=self.redacted(body),
        )

    def _message(self, text: str) -> str:
        return f"{self.label}: {self.redacted(text)}"

    def redacted(self, text: str) -> str:
        """Replace secrets, such as the API key, in text from a server."""
        for secret in self.secrets:
            if len(secret) >= _MIN_SECRET_LENGTH:
                text = text.replace(secret, "[redacted]")
        return text


def _classify(status: int, quota_exceeded: bool, key_advice: str) -> tuple[type[ModelError], str, str, bool]:
    """Map an HTTP error status to an exception class, a reason, advice, and whether a retry may help."""
    if status == 401:
        return AuthenticationError, "the key is not accepted", key_advice, False
    if status == 403:
        return AuthenticationError, "not permitted", "check the permissions of the key", False
    if status == 404:
        return ModelNotFoundError, "not found", "check the model's name and base_url", False
    if status == 408:
        return ModelTimeoutError, "the server ended the request with a timeout", "try again", True
    if status == 402 or (status == 429 and quota_exceeded):
        return RateLimitError, "the quota is used up", "check plan and billing of the account", False
    if status == 429:
        return RateLimitError, "too many requests", "send fewer requests", True
    if status == 424:  # a status that only Bedrock uses
        return ModelServerError, "the model failed", "try again later", True
    if status == 501:
        return ModelServerError, "not supported by the server", "check the model's name and base_url", False
    if status >= 500:
        return ModelServerError, "the server failed", "try again later", True
    if status >= 400:
        return (
            BadRequestError,
            "the request is not accepted",
            "fix what the message reports",
            status == 409,
        )
    return InvalidReplyError, "unexpected status", "check base_url", False


def _location(headers: Mapping[str, str]) -> str:
    """Return the URL to which an HTTP response redirects, without its query; "" if the URL is invalid."""
    try:
        return display_url(headers.get("location", ""))
    except ValueError:
        return ""


def _cause_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of its cause, and so on.

    In an exception group, the first member counts as the cause. The context of an error is left out: it may
    be an error that the caller was handling. The HTTP libraries drop the cause in one case, but keep it as an
    argument.
    """
    while error is not None:
        yield error
        nested = error.exceptions if isinstance(error, BaseExceptionGroup) else error.args
        inner = next((argument for argument in nested if isinstance(argument, BaseException)), None)
        error = inner or error.__cause__
