"""A local server with the batch services of OpenAI, Anthropic and Gemini, and the faults that they have."""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Answer = Callable[[str], str]


@dataclass
class Faults:
    """What goes wrong.

    Attributes:
        polls: How often a batch is still running when it is asked for.
        expired: The share of requests that are not processed; they have no response, or one that says so.
        errors: The share of requests with a passing error (a status of 429 or 500).
        refused: Requests whose text matches have an error of their own (400).
        denied: Requests whose text matches have the error of a wrong key (401).
        late_files: How often a new file of OpenAI is not found; also how often the files with responses are
            missing in the batch.
        max_waiting: So many requests may wait in all batches; more are refused.
        lost_answers: How often the connection ends after a batch was created.
        busy: How often a request for a batch is refused with 503.
        shuffled: Responses come in any order.
        keeps: Nothing can be deleted.
        odd_lines: Lines that are among the responses, too.
    """

    polls: int = 1
    expired: float = 0.0
    errors: float = 0.0
    refused: str = ""
    denied: str = ""
    late_files: int = 0
    max_waiting: int | None = None
    lost_answers: int = 0
    busy: int = 0
    shuffled: bool = True
    keeps: bool = False
    odd_lines: tuple[str, ...] = ()


@dataclass
class Batch:
    """A batch on the server: its requests, and the responses when it has ended."""

    id: str
    kind: str
    name: str
    requests: dict[str, Any]
    created: float = field(default_factory=time.time)
    polls: int = 0
    state: str = "running"
    responses: dict[str, Any] = field(default_factory=dict)
    file: str = ""


class BatchServer:
    """The server. ``paid`` counts how often a request with the same id and body was processed."""

    def __init__(self, answer: Answer, faults: Faults | None = None, seed: int = 0) -> None:
        self.answer = answer
        self.faults = faults or Faults()
        self.random = random.Random(seed)
        self.lock = threading.RLock()
        self.files: dict[str, str] = {}
        self.file_misses: Counter[str] = Counter()
        self.batches: dict[str, Batch] = {}
        self.paid: Counter[str] = Counter()
        self.direct: list[str] = []
        self.cancelled: list[str] = []
        self.deleted: list[str] = []
        self.uploads = 0
        self.requests = 0
        outer = self

        class Handler(_Handler):
            owner = outer

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- batches ---

    def create(self, kind: str, name: str, requests: dict[str, Any]) -> Batch:
        with self.lock:
            batch = Batch(f"{kind}_{len(self.batches)}", kind, name, requests)
            waiting = sum(len(one.requests) for one in self.batches.values() if one.state == "running")
            limit = self.faults.max_waiting
            if limit is not None and waiting + len(requests) > limit:
                batch.state = "full"
            self.batches[batch.id] = batch
            return batch

    def asked(self, batch: Batch) -> None:
        """Count a question for the state; end the batch after the last one."""
        with self.lock:
            batch.polls += 1
            if batch.state == "running" and batch.polls > self.faults.polls:
                self.end(batch)

    def end(self, batch: Batch) -> None:
        batch.state = "ended"
        items = list(batch.requests.items())
        if self.faults.shuffled:
            self.random.shuffle(items)
        for custom_id, body in items:
            batch.responses[custom_id] = self._process(custom_id, body)

    def _process(self, custom_id: str, body: Any) -> tuple[int | None, Any]:
        if self.random.random() < self.faults.expired:
            return None, None
        if self.random.random() < self.faults.errors:
            return self.random.choice([429, 500]), {"error": {"type": "api_error", "message": "try later"}}
        text = prompt_of(body)
        if self.faults.refused and re.search(self.faults.refused, text):
            return 400, {"error": {"type": "invalid_request_error", "message": "the text is not allowed"}}
        if self.faults.denied and re.search(self.faults.denied, text):
            return 401, {"error": {"type": "authentication_error", "message": "the key is wrong"}}
        self.paid[f"{custom_id} {json.dumps(body, sort_keys=True)}"] += 1
        return 200, reply_body(body, self.answer(text))


_ANTHROPIC_ERRORS = {401: "authentication_error", 429: "rate_limit_error", 500: "api_error"}


def prompt_of(body: Any) -> str:
    """Return the text of the last message of a request."""
    messages = body.get("messages") or body.get("input") or body.get("contents")
    if isinstance(messages, str):
        return messages
    last = messages[-1]
    content = last.get("content", last.get("parts"))
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def reply_body(body: Any, text: str) -> Any:
    """Return a reply in the format of the API that a request is for."""
    if "contents" in body:
        return {
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
            "modelVersion": "gemini-x",
            "responseId": "r",
        }
    if "input" in body:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": body["model"],
            "status": "completed",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                }
            ],
            "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        }
    if "max_tokens" in body and "response_format" not in body and "stop" not in body:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 2},
        }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


class _QuietServer(ThreadingHTTPServer):
    request_queue_size = 128  # a client whose connection does not fit waits for a second

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback if a client has closed its connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    owner: BatchServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are sent apart

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_DELETE(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["content-length"] or 0)))

    def _answer(self, body: bytes) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.owner.lock:
            self.owner.requests += 1
            outcome = self._route(parts.path, query, body)
        if outcome is None:
            self.close_connection = True
            return
        status, data = outcome
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _route(self, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any] | None:
        server, is_post = self.owner, self.command == "POST"
        if "batch" in path.lower() and server.faults.busy:
            server.faults.busy -= 1
            return 503, {"error": {"message": "busy", "type": "server_error"}}
        if self.command == "DELETE":
            return self._delete(path.rpartition("/v1/")[2].removeprefix("messages/"))
        if path == "/v1/files":
            return self._upload(body)
        if found := re.fullmatch(r"/v1/files/(.+)/content", path):
            server.file_misses[found[1]] += 1
            if server.file_misses[found[1]] <= server.faults.late_files:
                return 404, {"error": {"message": f"No such File object: {found[1]}"}}
            return 200, server.files[found[1]].encode()
        if path.startswith("/v1/messages/batches"):
            return self._anthropic(path.removeprefix("/v1/messages/batches").strip("/"), query, body)
        if path.startswith("/v1/batches"):
            return self._openai(path.removeprefix("/v1/batches").strip("/"), query, body)
        if path.endswith(":batchGenerateContent") or "/batches" in path:
            return self._gemini(path, body)
        assert is_post
        data = json.loads(body)
        server.direct.append(prompt_of(data))
        return 200, reply_body(data, server.answer(prompt_of(data)))

    def _delete(self, path: str) -> tuple[int, Any]:
        server, name = self.owner, path.rpartition("/")[2]
        if server.faults.keeps:
            return 500, {"error": {"message": "cannot be deleted", "type": "server_error"}}
        server.deleted.append(name)
        is_known = server.files.pop(name, None) is not None or name in {
            id.rpartition("/")[2] for id in server.batches
        }
        return (200, {"deleted": True}) if is_known else (404, {"error": {"message": "no such file"}})

    def _created(self, batch: Batch, data: Any) -> tuple[int, Any] | None:
        if self.owner.faults.lost_answers:
            self.owner.faults.lost_answers -= 1
            return None
        return 200, data

    # --- OpenAI ---

    def _upload(self, body: bytes) -> tuple[int, Any]:
        border = body.split(b"\r\n", 1)[0]
        parts = body.split(border)
        (content,) = [part.split(b"\r\n\r\n", 1)[1] for part in parts if b'name="file"' in part]
        assert any(b'name="purpose"\r\n\r\nbatch' in part for part in parts)
        file = f"file-{self.owner.uploads}"
        self.owner.uploads += 1
        self.owner.files[file] = content.removesuffix(b"\r\n").decode()
        return 200, {"id": file, "object": "file", "bytes": len(content), "created_at": 0, "filename": "x",
                     "purpose": "batch", "status": "processed"}  # fmt: skip

    def _openai(self, rest: str, query: dict[str, str], body: bytes) -> tuple[int, Any] | None:
        server = self.owner
        own = {batch.id: batch for batch in server.batches.values() if batch.kind == "batch"}
        if self.command == "POST" and not rest:
            data = json.loads(body)
            file = data["input_file_id"]
            server.file_misses[file] += 1
            if server.file_misses[file] <= server.faults.late_files:
                return 400, {"error": {"message": f"No such file: {file}", "type": "invalid_request_error"}}
            lines = [json.loads(line) for line in server.files[file].splitlines()]
            assert {line["url"] for line in lines} == {data["endpoint"]}
            requests = {line["custom_id"]: line["body"] for line in lines}
            assert len(requests) == len(lines)
            batch = server.create("batch", data["metadata"]["aiservices"], requests)
            batch.file = file
            return self._created(batch, self._openai_batch(batch, data["endpoint"]))
        if not rest:
            ids = sorted(own, key=lambda id: own[id].created, reverse=True)
            start = ids.index(query["after"]) + 1 if "after" in query else 0
            page = ids[start : start + min(2, int(query.get("limit", "20")))]
            data = [self._openai_batch(own[id]) for id in page]
            more = start + len(page) < len(ids)
            return 200, {
                "object": "list",
                "data": data,
                "has_more": more,
                "last_id": page[-1] if page else None,
            }
        batch = own.get(rest.removesuffix("/cancel"))
        if batch is None:
            return 404, {"error": {"message": f"No batch {rest}", "type": "invalid_request_error"}}
        if rest.endswith("/cancel"):
            server.cancelled.append(batch.id)
            if batch.state == "running":
                batch.state = "cancelled"
        else:
            server.asked(batch)
        return 200, self._openai_batch(batch)

    def _openai_batch(self, batch: Batch, endpoint: str = "/v1/chat/completions") -> Any:
        server, state = self.owner, batch.state
        answered = sum(status == 200 for status, _ in batch.responses.values())
        data: dict[str, Any] = {
            "id": batch.id,
            "input_file_id": batch.file,
            "object": "batch",
            "endpoint": endpoint,
            "completion_window": "24h",
            "status": {"running": "in_progress", "full": "failed", "ended": "completed"}.get(state, state),
            "created_at": int(batch.created),
            "metadata": {"aiservices": batch.name},
            "request_counts": {
                "total": len(batch.requests),
                "completed": answered,
                "failed": len(batch.responses) - answered,
            },
        }
        if state == "full":
            error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": None}
            data["errors"] = {"object": "list", "data": [error]}
        if state == "ended":
            good, bad = [], []
            server.file_misses[f"id of {batch.id}"] += 1
            for custom_id, (status, content) in batch.responses.items():
                line: dict[str, Any] = {
                    "id": "batch_req",
                    "custom_id": custom_id,
                    "response": None,
                    "error": None,
                }
                if status is None:
                    line["error"] = {"code": "batch_expired", "message": "not executed within 24 hours"}
                else:
                    line["response"] = {"status_code": status, "request_id": "r", "body": content}
                (good if status == 200 else bad).append(json.dumps(line))
            for name, lines in (("output", good), ("error", bad)):
                if not lines:  # a batch may have only an error file
                    continue
                server.files[f"{batch.id}-{name}"] = "\n".join([*server.faults.odd_lines, *lines]) + "\n"
                if server.file_misses[f"id of {batch.id}"] > server.faults.late_files:
                    data[f"{name}_file_id"] = f"{batch.id}-{name}"
        return data

    # --- Anthropic ---

    def _anthropic(self, rest: str, query: dict[str, str], body: bytes) -> tuple[int, Any] | None:
        server = self.owner
        own = {batch.id: batch for batch in server.batches.values() if batch.kind == "msgbatch"}
        if self.command == "POST" and not rest:
            lines = json.loads(body)["requests"]
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", line["custom_id"]) for line in lines)
            batch = server.create("msgbatch", "", {line["custom_id"]: line["params"] for line in lines})
            if batch.state == "full":
                del server.batches[batch.id]
                error = {"type": "rate_limit_error", "message": "too many requests wait in batches"}
                return 429, {"type": "error", "error": error}
            return self._created(batch, self._anthropic_batch(batch))
        if not rest:
            ids = sorted(own, key=lambda id: own[id].created, reverse=True)
            start = ids.index(query["after_id"]) + 1 if "after_id" in query else 0
            page = ids[start : start + 2]
            more = start + len(page) < len(ids)
            data = [self._anthropic_batch(own[id]) for id in page]
            first, last = (page[0], page[-1]) if page else (None, None)
            return 200, {"data": data, "has_more": more, "first_id": first, "last_id": last}
        batch = own.get(rest.removesuffix("/cancel").removesuffix("/results"))
        if batch is None:
            return 404, {"type": "error", "error": {"type": "not_found_error", "message": "no such batch"}}
        if rest.endswith("/results"):
            lines = [json.dumps(self._anthropic_line(*item)) for item in batch.responses.items()]
            return 200, ("\n".join([*server.faults.odd_lines, *lines]) + "\n").encode()
        if rest.endswith("/cancel"):
            server.cancelled.append(batch.id)
            if batch.state == "running":
                batch.state = "ended"
                batch.responses = dict.fromkeys(batch.requests, (None, None))
        else:
            server.asked(batch)
        return 200, self._anthropic_batch(batch)

    def _anthropic_batch(self, batch: Batch) -> Any:
        ended = batch.state == "ended"
        statuses = [status for status, _ in batch.responses.values()]
        created = datetime.fromtimestamp(batch.created, UTC).isoformat()
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                "processing": 0 if ended else len(batch.requests),
                "succeeded": statuses.count(200),
                "errored": len([status for status in statuses if status not in (None, 200)]),
                "canceled": 0,
                "expired": statuses.count(None),
            },
            "created_at": created,
            "expires_at": created,
            "ended_at": created if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.owner.url}/v1/messages/batches/{batch.id}/results" if ended else None,
        }

    def _anthropic_line(self, custom_id: str, response: tuple[int | None, Any]) -> Any:
        status, content = response
        if status is None:
            result: Any = {"type": "expired"}
        elif status == 200:
            result = {"type": "succeeded", "message": content}
        else:
            kind = _ANTHROPIC_ERRORS.get(status, "invalid_request_error")
            error = {"type": kind, "message": content["error"]["message"]}
            result = {"type": "errored", "error": {"type": "error", "error": error, "request_id": None}}
        return {"custom_id": custom_id, "result": result}

    # --- Gemini ---

    def _gemini(self, path: str, body: bytes) -> tuple[int, Any] | None:
        server = self.owner
        own = {batch.id: batch for batch in server.batches.values() if batch.kind == "batches/x"}
        if path.endswith(":batchGenerateContent"):
            data = json.loads(body)["batch"]
            lines = data["inputConfig"]["requests"]["requests"]
            requests = {line["metadata"]["key"]: line["request"] for line in lines}
            batch = server.create("batches/x", data["displayName"], requests)
            if batch.state == "full":
                del server.batches[batch.id]
                error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "too many requests wait"}
                return 429, {"error": error}
            return self._created(batch, self._gemini_batch(batch))
        if path.endswith("/batches"):
            return 200, {"operations": [self._gemini_batch(batch) for batch in own.values()]}
        name = path[path.index("batches/") :]
        batch = own.get(name.removesuffix(":cancel"))
        if batch is None:
            return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "no such batch"}}
        if name.endswith(":cancel"):
            server.cancelled.append(batch.id)
            if batch.state == "running":
                batch.state = "cancelled"
            return 200, {}
        server.asked(batch)
        return 200, self._gemini_batch(batch)

    def _gemini_batch(self, batch: Batch) -> Any:
        names = {"running": "RUNNING", "ended": "SUCCEEDED", "cancelled": "CANCELLED"}
        metadata: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": "models/gemini-x",
            "displayName": batch.name,
            "state": f"BATCH_STATE_{names[batch.state]}",
            "name": batch.id,
            "createTime": datetime.fromtimestamp(batch.created, UTC).isoformat(),
            "batchStats": {"requestCount": str(len(batch.requests)),
                           "pendingRequestCount": str(len(batch.requests) - len(batch.responses))},
        }  # fmt: skip
        if batch.state == "ended":
            lines = [
                {"metadata": {"key": key}, **({"response": content} if status == 200 else
                 {"error": {"code": {None: 4, 401: 16, 429: 8, 500: 13}.get(status, 3),
                            "message": "expired" if content is None else content["error"]["message"]}})}
                for key, (status, content) in batch.responses.items()
            ]  # fmt: skip
            metadata["output"] = {"inlinedResponses": {"inlinedResponses": lines}}
        return {"name": batch.id, "metadata": metadata, "done": batch.state != "running"}
