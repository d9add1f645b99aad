"""Turns what went wrong with a request into the tree of model errors."""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

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
from ..http.base import ProxyError, TransportError
from .api_spec import UnsayableError
from .sse import ReportedError, UnreadableReplyError

_SHORTEST_SECRET = 8  # a shorter key ("ollama") guards nothing, and may be an ordinary word of a message
_SHOWN_AT_MOST = 300
# what urllib3, http.client, aiohttp and httpx2 say when a body ends too early
_CUT_SHORT = (
    "ended prematurely",
    "IncompleteRead(",
    "payload is not completed",
    "without sending complete message body",
)
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


@dataclass(frozen=True, slots=True)
class Blame:
    """Who was asked, as messages name it, and what messages must not show.

    ``where`` names the model and the address, ``secrets`` are the keys in use, ``key_advice`` says how
    to give a key, ``timeout`` is the one asked for, in seconds, ``form`` what an answer should have been.
    """

    where: str
    secrets: tuple[str, ...] = ()
    key_advice: str = ""
    timeout: float | None = None
    form: str = "chat completion"

    def failure(self, error: Exception) -> ModelError:
        """What an exception of the SDK or its transport means."""
        response = getattr(error, "response", None)
        if response is not None:
            said, codes = _said(response.text)
            return self._of_status(response.status_code, said, codes, response.headers, response.text)
        chain = list(_chain(error))
        if any("Timeout" in type(link).__name__ for link in chain):
            waited = "in time" if self.timeout is None else f"within {self.timeout:g} s"
            return ModelTimeoutError(
                self._say(f"no answer {waited}; set a longer timeout in ChatOptions or ask for less"),
                retryable=True,
            )
        return ModelConnectionError(self._say(_broken(chain)), retryable=True)

    def too_late(self) -> ModelTimeoutError:
        """The answer had begun, but was not whole in time."""
        return ModelTimeoutError(
            self._say("the answer was not whole when the time for it was over; ask for less"), retryable=True
        )

    def broken_stream(self, text: str) -> ModelConnectionError:
        """The stream ended early; ``text`` is what came so far, and is the error's ``body``."""
        return ModelConnectionError(
            self._say(
                f"the stream ended after {len(text)} characters, before the answer was whole; ask again"
            ),
            retryable=True,
            body=text,
        )

    def unreadable(self, error: UnreadableReplyError | ReportedError, raw: bytes) -> ModelError:
        """A reply came with a good status, but it is an error or no answer."""
        if isinstance(error, ReportedError):
            return self._reported(error.payload)
        body = self._without_secrets(raw.decode(errors="replace"))
        start = body[:_SHOWN_AT_MOST] + ("…" if len(body) > _SHOWN_AT_MOST else "")
        return InvalidReplyError(
            self._say(f"the answer is no {self.form}: {error}; check base_url. It begins: {start!r}"),
            body=body,
        )

    def unwritable(self, error: Exception) -> BadRequestError:
        """The request has no JSON form, or asks for what the API does not have."""
        if isinstance(error, UnsayableError):
            return BadRequestError(self._say(str(error)))
        return BadRequestError(
            self._say(
                f"the request has no JSON form: {error}; texts must be valid Unicode, values plain JSON"
            )
        )

    def _reported(self, payload: Any) -> ModelError:
        body = to_json(payload).decode()
        said, codes = _said(body)
        numbers = [int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600]
        known = [_STATUS_OF_CODE[code] for code in codes if code in _STATUS_OF_CODE]
        error = self._of_status((numbers + known + [500])[0], said, codes, {}, body)
        error.status = numbers[0] if numbers else None
        return error

    def _of_status(
        self, status: int, said: str, codes: list[str], headers: Mapping[str, str], body: str
    ) -> ModelError:
        spent = "insufficient_quota" in codes
        kind, meaning, advice, retryable = _meaning(status, spent, self.key_advice)
        should_retry = headers.get("x-should-retry")
        wait = _retry_after(headers)
        if wait is not None and kind is RateLimitError and not spent:
            advice = f"wait {wait:g} s or {advice}"
        said = self._without_secrets(said)
        said = said[:_SHOWN_AT_MOST] + "…" if len(said) > _SHOWN_AT_MOST else said
        return kind(
            self._say(f"{status} {meaning}{': ' + said if said else ''}; {advice}"),
            status=status,
            request_id=headers.get("x-request-id"),
            retryable=should_retry == "true" if should_retry in ("true", "false") else retryable,
            retry_after=wait,
            body=self._without_secrets(body),
        )

    def _say(self, text: str) -> str:
        return f"{self.where}: {self._without_secrets(text)}"

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[redacted]")
        return text


def _meaning(status: int, spent: bool, key_advice: str) -> tuple[type[ModelError], str, str, bool]:
    """The error of a status, what it says, what to do about it, and whether to try again."""
    if status == 401:
        return AuthenticationError, "the key is not accepted", key_advice, False
    if status == 403:
        return AuthenticationError, "not permitted", "check what the key may do", False
    if status == 404:
        return ModelNotFoundError, "not found", "check the model's name and base_url", False
    if status == 408:
        return ModelTimeoutError, "the server waited too long", "ask again", True
    if status == 429 and spent:
        return RateLimitError, "the quota is spent", "check plan and billing of the account", False
    if status == 429:
        return RateLimitError, "too many requests", "ask less often", True
    if status >= 500:
        return ModelServerError, "the server failed", "ask again later", True
    if status >= 400:
        return BadRequestError, "the request is not accepted", "change what it says is wrong", status == 409
    return InvalidReplyError, "no answer", "check base_url", False


def _said(body: str) -> tuple[str, list[str]]:
    """The message in the body of an error, and its codes and types; providers nest them differently."""
    try:
        data = from_json(body)
    except ValueError:
        return " ".join(body.split()), []
    if isinstance(data, dict):
        data = data.get("error") or data
    if not isinstance(data, dict):
        return str(data), []
    said = data.get("message") or data.get("detail") or ""
    codes = [str(data[key]) for key in ("code", "type") if data.get(key)]
    return said if isinstance(said, str) else to_json(said).decode(), codes


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait that the headers ask for: milliseconds, seconds or a date."""
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


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what caused it, and so on; of a group, the first member.

    Not its context, which may be an error that the caller was handling. The HTTP libraries drop the
    cause at one place, but keep it as an argument.
    """
    while error is not None:
        yield error
        wrapped = error.exceptions if isinstance(error, BaseExceptionGroup) else error.args
        inner = next((one for one in wrapped if isinstance(one, BaseException)), None)
        error = inner or error.__cause__


def _broken(chain: list[BaseException]) -> str:
    """What broke a connection, and what to do, from the chain of exceptions."""
    for link in chain:
        if isinstance(link, ProxyError):
            return f"the proxy failed ({link}); check HTTPS_PROXY, HTTP_PROXY and NO_PROXY"
        if isinstance(link, ConnectionRefusedError):
            return "connection refused; check base_url and that the server runs"
        if isinstance(link, socket.gaierror):
            return "the host name is unknown; check base_url and the network"
        if isinstance(link, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not trusted ({link.verify_message}); check base_url and the certificates"
            )
        if getattr(link, "reason", None) == "WRONG_VERSION_NUMBER":
            return "the server does not speak TLS; check https in base_url"
        if any(words in str(link) for words in _CUT_SHORT):
            return "the connection was cut before the answer was whole; ask again, and check the network"
        if isinstance(link, TransportError):
            return f"{link}; check the key and extra_headers"
    # the inner exception knows more than the SDK's "Connection error." or "Connection aborted."
    inner = chain[1] if len(chain) > 1 else chain[0]
    if "Illegal header" in str(inner):  # its text quotes the header, which may hold the key
        return "a header holds what HTTP does not allow, as a line end; check the key and extra_headers"
    said = shorten(" ".join(str(inner).split()), _SHOWN_AT_MOST)
    return f"the connection failed ({type(inner).__name__}: {said}); check base_url and the network"
