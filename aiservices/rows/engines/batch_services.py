"""Clients for the batch services of providers."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import ClassVar, Literal, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from output_parsers.result.reading import Json, JsonObject

from ...models.base import ChatModel, unwrap_model
from ...models.errors import BadRequestError, ModelError, ModelNotFoundError, RateLimitError
from ...models.http.base import HttpRequest
from ...models.http.model import HttpChatModel
from ...models.openai import OpenAiChatModel, OpenAiResponsesModel
from ...models.providers.anthropic import AnthropicChatModel
from ...models.providers.gemini import GeminiChatModel
from ..row import RowsError

T = TypeVar("T")
_MB = 2**20
_TRIES = 6  # the number of attempts for repeatable requests, such as asking for the state
_NAME = "aiservices"  # the key of the name in the metadata of OpenAI's batches
_MAX_LISTED = 1000  # batches that are looked through to find one again
_NOT_PROCESSED = ("batch_expired", "batch_cancelled", "batch_canceled")


class BatchRequest(NamedTuple):
    """A single request in a batch.

    Attributes:
        custom_id: The id that identifies the response to this request.
        digest: The request's hash.
        body: The JSON body of the HTTP request.
    """

    custom_id: str
    digest: str
    body: str


class BatchStatus(NamedTuple):
    """A batch's state at the provider, with the number of finished requests.

    Attributes:
        state: "running"; "ended" if responses can be read; "failed" if there will be none.
        message: Why it failed.
        done: The number of finished requests.
        total: The number of requests; 0 if the service does not say.
        is_queue_full: True if it failed because too many tokens wait in other batches.
    """

    state: Literal["running", "ended", "failed"]
    message: str = ""
    done: int = 0
    total: int = 0
    is_queue_full: bool = False


class BatchResponse(NamedTuple):
    """The provider's response to one request in a batch.

    Attributes:
        custom_id: The id of the request.
        status: The HTTP status; None if the request was not processed, so that it can be sent again.
        body: The body of the response.
    """

    custom_id: str
    status: int | None
    body: str = ""


class BatchService(ABC):
    """Base class of clients for the batch services of model providers.

    A client uses the credentials of a model.

    Attributes:
        max_requests: The maximum number of requests in a batch.
        max_bytes: The maximum total size of the requests in a batch.
        finds_by_name: True if ``find`` returns only the batch with the name; False if it returns batches of
            that time and size.
    """

    max_requests: ClassVar[int]
    max_bytes: ClassVar[int]
    finds_by_name: ClassVar[bool] = True

    def __init__(self, model: HttpChatModel, path: str, headers: Mapping[str, str], max_wait: float) -> None:
        self.model = model
        self._path = path
        self._headers = headers
        # Seconds before a request is sent again, if the service does not say how long to wait.
        self._waits = (*(min(2.0**count, max_wait) for count in range(_TRIES - 1)), None)

    @abstractmethod
    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        """Submit a batch, and return its id."""

    @abstractmethod
    async def status(self, batch_id: str) -> BatchStatus:
        """Return the current state of a batch."""

    @abstractmethod
    def responses(self, batch_id: str) -> AsyncGenerator[BatchResponse, None]:
        """Yield the responses of a finished batch, in any order."""

    @abstractmethod
    async def find(self, name: str, since: float, count: int) -> list[str]:
        """Return the ids of batches that may have been submitted under the given name.

        Args:
            name: The name of the batch.
            since: The earliest time of submission, in seconds since 1970.
            count: The number of requests in the batch.
        """

    @abstractmethod
    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch; responses to requests that are already finished remain available."""

    @abstractmethod
    async def delete(self, batch_id: str) -> None:
        """Delete what the provider keeps of a batch that has ended: its requests and responses."""

    async def _delete(self, path: str) -> None:
        await _content(self.model, HttpRequest(path, b"", self._headers, "DELETE"))

    async def _get(self, path: str) -> Json:
        """Return the JSON at a URL, retrying if the service is temporarily unavailable."""
        for wait in self._waits:
            try:
                return json.loads(await _content(self.model, HttpRequest(path, b"", self._headers, "GET")))
            except ModelError as error:
                if not error.retryable or wait is None:
                    raise
                await asyncio.sleep(getattr(error, "retry_after", None) or wait)
        raise AssertionError("the last try returns or raises")

    async def _post(self, path: str, data: object) -> Json:
        body = json.dumps(data, ensure_ascii=False).encode()
        return json.loads(await _content(self.model, HttpRequest(path, body, self._headers)))

    async def _lines(self, path: str) -> AsyncGenerator[Json, None]:
        """Download a JSONL file, and yield the objects of its lines, skipping lines without an id."""
        rest = b""
        async with aclosing(self.model.aread(HttpRequest(path, b"", self._headers, "GET"))) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    for value in _json_of(line):
                        yield value
        for value in _json_of(rest):
            yield value


def _json_of(line: bytes) -> list[object]:
    try:
        value = json.loads(line)
    except ValueError:
        return []
    return [value] if isinstance(value, dict) and isinstance(value.get("custom_id"), str) else []


async def _content(model: HttpChatModel, request: HttpRequest) -> bytes:
    async with aclosing(model.aread(request)) as pieces:
        return b"".join([piece async for piece in pieces])


class OpenAiBatches(BatchService):
    """Client for OpenAI's batch service, which reads requests from an uploaded file."""

    max_requests = 50_000
    max_bytes = 190 * _MB

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        url = urlsplit(self.model.request_url(self._path)).path
        lines = (
            f'{{"custom_id":{json.dumps(one.custom_id)},"method":"POST","url":{json.dumps(url)},"body":{one.body}}}'
            for one in requests
        )
        file = await self._upload(f"{name}.jsonl", "\n".join(lines).encode())
        batch = {
            "input_file_id": file,
            "endpoint": url,
            "completion_window": "24h",
            "metadata": {_NAME: name},
        }
        for wait in self._waits:
            try:
                created: str = (await self._post("batches", batch))["id"]
                return created
            except (BadRequestError, ModelNotFoundError) as error:
                # A file is not visible at once.
                if file not in str(error) or wait is None:
                    raise
                await asyncio.sleep(wait)
        raise AssertionError("the last try returns or raises")

    async def _upload(self, name: str, content: bytes) -> str:
        border = uuid4().hex
        head = (
            f'--{border}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{border}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{border}--\r\n".encode()
        headers = {**self._headers, "content-type": f"multipart/form-data; boundary={border}"}
        file: str = json.loads(await _content(self.model, HttpRequest("files", body, headers)))["id"]
        return file

    async def status(self, batch_id: str) -> BatchStatus:
        batch = await self._get(f"batches/{quote(batch_id)}")
        counts, state = batch.get("request_counts") or {}, batch["status"]
        done = counts.get("completed", 0) + counts.get("failed", 0)
        if state == "failed":
            errors = (batch.get("errors") or {}).get("data") or []
            message = "; ".join(str(error.get("message")) for error in errors[:3])
            is_queue_full = any(error.get("code") == "token_limit_exceeded" for error in errors)
            return BatchStatus("failed", message, is_queue_full=is_queue_full)
        ended = state in ("completed", "expired", "cancelled")
        return BatchStatus("ended" if ended else "running", "", done, counts.get("total", 0))

    async def responses(self, batch_id: str) -> AsyncGenerator[BatchResponse, None]:
        for file in await self._response_files(batch_id):
            for wait in self._waits:
                try:
                    async for line in self._lines(f"files/{quote(file)}/content"):
                        yield _openai_response(line)
                    break
                except ModelNotFoundError:  # a file is not visible at once
                    if wait is None:
                        raise
                    await asyncio.sleep(wait)

    async def _response_files(self, batch_id: str) -> list[str]:
        """Return the ids of the files that contain a finished batch's responses and errors.

        The files may be missing at first. Waiting for them avoids sending and paying for the requests again.
        """
        completed = failed = 0
        for wait in self._waits:
            batch = await self._get(f"batches/{quote(batch_id)}")
            output, errors = batch.get("output_file_id"), batch.get("error_file_id")
            counts = batch.get("request_counts") or {}
            completed, failed = counts.get("completed", 0), counts.get("failed", 0)
            if output or not (completed or (failed and not errors)):
                return [file for file in (output, errors) if file]
            if wait is None:
                break
            await asyncio.sleep(wait)
        raise RowsError(
            f"the batch {batch_id} has no file of responses yet, although {completed + failed:,} of its "
            "requests are finished; make the same call again later"
        )

    async def find(self, name: str, since: float, count: int) -> list[str]:
        after: str | None = None
        for _ in range(_MAX_LISTED // 100):
            query = {"limit": "100", **({"after": after} if after else {})}
            page = await self._get(f"batches?{urlencode(query)}")
            batches = page.get("data") or []
            batch_ids = [batch["id"] for batch in batches if (batch.get("metadata") or {}).get(_NAME) == name]
            if batch_ids:
                return batch_ids
            if not page.get("has_more") or not batches or batches[-1].get("created_at", since) < since:
                return []
            after = batches[-1]["id"]
        return []

    async def cancel(self, batch_id: str) -> None:
        await self._post(f"batches/{quote(batch_id)}/cancel", {})

    async def delete(self, batch_id: str) -> None:
        batch = await self._get(f"batches/{quote(batch_id)}")
        for name in ("input_file_id", "output_file_id", "error_file_id"):
            if batch.get(name):
                with suppress(ModelNotFoundError):
                    await self._delete(f"files/{quote(batch[name])}")


def _openai_response(line: JsonObject) -> BatchResponse:
    response, error = line.get("response"), line.get("error")
    if response:
        return BatchResponse(line["custom_id"], response["status_code"], json.dumps(response.get("body")))
    if not error or error.get("code") in _NOT_PROCESSED:
        return BatchResponse(line["custom_id"], None)
    return BatchResponse(line["custom_id"], 400, json.dumps({"error": error}))


class AnthropicBatches(BatchService):
    """Client for Anthropic's batch service, called Message Batches."""

    max_requests = 100_000
    max_bytes = 240 * _MB
    finds_by_name = False
    _STATUSES: ClassVar[Mapping[str, int]] = {
        "authentication_error": 401,
        "billing_error": 402,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        items = ",".join(
            f'{{"custom_id":{json.dumps(one.custom_id)},"params":{one.body}}}' for one in requests
        )
        body = f'{{"requests":[{items}]}}'.encode()
        request = HttpRequest(f"{self._path}/batches", body, self._headers)
        created: str = json.loads(await _content(self.model, request))["id"]
        return created

    async def status(self, batch_id: str) -> BatchStatus:
        batch = await self._get(f"{self._path}/batches/{quote(batch_id)}")
        counts = batch["request_counts"]
        total = sum(counts.values())
        if batch["processing_status"] == "ended" and batch.get("archived_at"):
            return BatchStatus("failed", f"its results were deleted at {batch['archived_at']}")
        state: Literal["ended", "running"] = "ended" if batch["processing_status"] == "ended" else "running"
        return BatchStatus(state, "", total - counts.get("processing", 0), total)

    async def responses(self, batch_id: str) -> AsyncGenerator[BatchResponse, None]:
        async for line in self._lines(f"{self._path}/batches/{quote(batch_id)}/results"):
            result = line.get("result") or {}
            if result.get("type") == "succeeded":
                yield BatchResponse(line["custom_id"], 200, json.dumps(result["message"]))
            elif result.get("type") == "errored":
                kind = str(((result.get("error") or {}).get("error") or {}).get("type"))
                status = self._STATUSES.get(kind, 400)
                yield BatchResponse(line["custom_id"], status, json.dumps(result.get("error")))
            else:  # canceled or expired
                yield BatchResponse(line["custom_id"], None)

    async def find(self, name: str, since: float, count: int) -> list[str]:
        # A message batch has no name: the ids of its requests, which are read later, identify it.
        batch_ids: list[str] = []
        after: str | None = None
        for _ in range(_MAX_LISTED // 100):
            query = {"limit": "100", **({"after_id": after} if after else {})}
            page = await self._get(f"{self._path}/batches?{urlencode(query)}")
            for batch in page.get("data") or []:
                if _seconds(batch["created_at"]) < since - 60:
                    return batch_ids
                if sum(batch["request_counts"].values()) == count:
                    batch_ids.append(batch["id"])
            if not page.get("has_more"):
                break
            after = page["last_id"]
        return batch_ids

    async def cancel(self, batch_id: str) -> None:
        await self._post(f"{self._path}/batches/{quote(batch_id)}/cancel", {})

    async def delete(self, batch_id: str) -> None:
        await self._delete(f"{self._path}/batches/{quote(batch_id)}")


class GeminiBatches(BatchService):
    """Client for Gemini's batch service, which takes a whole batch in a single HTTP request."""

    max_requests = 10_000
    max_bytes = 18 * _MB

    async def submit(self, name: str, requests: Sequence[BatchRequest]) -> str:
        items = ",".join(
            f'{{"request":{one.body},"metadata":{{"key":{json.dumps(one.custom_id)}}}}}' for one in requests
        )
        body = (
            f'{{"batch":{{"displayName":{json.dumps(name)},'
            f'"inputConfig":{{"requests":{{"requests":[{items}]}}}}}}}}'
        )
        path = self._path.removesuffix(":generateContent") + ":batchGenerateContent"
        request = HttpRequest(path, body.encode(), self._headers)
        created: str = json.loads(await _content(self.model, request))["name"]
        return created

    def _path_of(self, batch_id: str) -> str:
        return f"{self._path.partition('models/')[0]}{quote(batch_id)}"

    async def status(self, batch_id: str) -> BatchStatus:
        batch = await self._get(self._path_of(batch_id))
        data = batch.get("metadata") or {}
        stats = data.get("batchStats") or {}
        total, pending = int(stats.get("requestCount", 0)), int(stats.get("pendingRequestCount", 0))
        # The names of states begin with JOB_STATE_ or BATCH_STATE_.
        state = str(data.get("state", "")).partition("STATE_")[2]
        if state == "FAILED":
            message = (batch.get("error") or {}).get("message") or "the service does not say why"
            return BatchStatus("failed", str(message))
        ended = state in ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "EXPIRED", "CANCELLED")
        return BatchStatus("ended" if ended else "running", "", total - pending, total)

    async def responses(self, batch_id: str) -> AsyncGenerator[BatchResponse, None]:
        batch = await self._get(self._path_of(batch_id))
        output = (batch.get("metadata") or {}).get("output") or batch.get("response") or {}
        for one in (output.get("inlinedResponses") or {}).get("inlinedResponses") or []:
            key, error = (one.get("metadata") or {}).get("key"), one.get("error")
            if key is None:
                continue
            if error:
                yield BatchResponse(
                    key, _HTTP_STATUSES.get(error.get("code"), 400), json.dumps({"error": error})
                )
            else:
                yield BatchResponse(key, 200, json.dumps(one.get("response")))

    async def find(self, name: str, since: float, count: int) -> list[str]:
        token: str | None = None
        for _ in range(_MAX_LISTED // 100):
            query = {"pageSize": "100", **({"pageToken": token} if token else {})}
            page = await self._get(f"{self._path_of('batches')}?{urlencode(query)}")
            for batch in page.get("operations") or []:
                if (batch.get("metadata") or {}).get("displayName") == name:
                    return [batch["name"]]
            token = page.get("nextPageToken")
            if not token:
                break
        return []

    async def cancel(self, batch_id: str) -> None:
        await self._post(f"{self._path_of(batch_id)}:cancel", {})

    async def delete(self, batch_id: str) -> None:
        await self._delete(self._path_of(batch_id))


# The HTTP status of each code of google.rpc.Status; HTTP codes are used as they are.
_HTTP_STATUSES: Mapping[object, int] = {
    3: 400,
    4: 504,
    5: 404,
    7: 403,
    8: 429,
    13: 500,
    14: 503,
    16: 401,
    **{code: code for code in (400, 401, 403, 404, 408, 409, 413, 429, 500, 502, 503, 504)},
}


def _seconds(time: str) -> float:
    moment = datetime.fromisoformat(time)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# The client for the provider's batch service, by the class of the model.
_SERVICES: Mapping[type[HttpChatModel], type[BatchService]] = {
    OpenAiChatModel: OpenAiBatches,
    OpenAiResponsesModel: OpenAiBatches,
    AnthropicChatModel: AnthropicBatches,
    GeminiChatModel: GeminiBatches,
}
# Models of these classes whose servers have no batch service.
_WITHOUT_SERVICE = ("azure:", "azure-responses:", "google-vertex:", "vertex:")
BATCH_PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini")  # for messages


def _service_of(model: object) -> type[BatchService] | None:
    return next((service for cls, service in _SERVICES.items() if isinstance(model, cls)), None)


def batch_model(model: ChatModel) -> HttpChatModel | None:
    """Unwrap a model, and return it if its provider has a batch service; otherwise return None."""
    inner = unwrap_model(model)
    if not isinstance(inner, HttpChatModel) or not inner.has_own_clients or _service_of(inner) is None:
        return None
    return None if inner.name.startswith(_WITHOUT_SERVICE) else inner


def batch_service(
    model: HttpChatModel, path: str, headers: Mapping[str, str], max_wait: float
) -> BatchService:
    """Return a client for the batch service of a model's provider.

    Failed status requests are repeated after at most ``max_wait`` seconds.
    """
    return (_service_of(model) or OpenAiBatches)(model, path, headers, max_wait)


def may_send_again(response: BatchResponse) -> bool:
    """Return True if a batch request was not processed, or failed with a temporary error."""
    return response.status is None or response.status in (408, 409, 429) or response.status >= 500


def is_queue_full(error: ModelError) -> bool:
    """Return True if an error means that the provider currently accepts no more batches."""
    return isinstance(error, RateLimitError) and error.retryable
