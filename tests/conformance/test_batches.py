"""The official SDKs read the local batch server of the tests, which simulates the services."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import google.genai
import openai
from batch_server import BatchServer, Faults
from google.genai.types import HttpOptions, JobState


def echo(prompt: str) -> str:
    return prompt.upper()


def finish(server: BatchServer) -> None:
    """End all batches."""
    for batch in server.batches.values():
        server.end(batch)


def test_the_openai_sdk_reads_a_batch() -> None:
    lines = [
        {
            "custom_id": name,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "gpt-x", "messages": [{"role": "user", "content": name}]},
        }
        for name in ("a", "b", "no")
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    with (
        BatchServer(echo, Faults(refused="no")) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
    ):
        file = client.files.create(file=("x.jsonl", content), purpose="batch")
        batch = client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"aiservices": "name"},
        )
        assert batch.status == "in_progress"
        finish(server)
        batch = client.batches.retrieve(batch.id)
        assert (batch.status, batch.metadata) == ("completed", {"aiservices": "name"})
        assert batch.output_file_id is not None
        assert batch.error_file_id is not None
        good = client.files.content(batch.output_file_id).text.splitlines()
        bad = client.files.content(batch.error_file_id).text.splitlines()
        assert [one.id for one in client.batches.list()] == [batch.id]
        assert client.batches.cancel(batch.id).id == batch.id
    answers = {
        line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"]
        for line in map(json.loads, good)
    }
    assert answers == {"a": "A", "b": "B"}
    assert json.loads(bad[0])["response"]["status_code"] == 400


def test_the_anthropic_sdk_reads_a_batch() -> None:
    requests: list[Any] = [
        {
            "custom_id": name,
            "params": {
                "model": "claude-x",
                "max_tokens": 10,
                "messages": [{"role": "user", "content": name}],
            },
        }
        for name in ("a", "no")
    ]
    with (
        BatchServer(echo, Faults(refused="no")) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        batch = client.messages.batches.create(requests=requests)
        assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 2)
        finish(server)
        batch = client.messages.batches.retrieve(batch.id)
        counts = batch.request_counts
        assert (batch.processing_status, counts.succeeded, counts.errored) == ("ended", 1, 1)
        results = {one.custom_id: one.result for one in client.messages.batches.results(batch.id)}
        assert [one.id for one in client.messages.batches.list()] == [batch.id]
    assert results["a"].type == "succeeded"
    assert [block.type == "text" and block.text for block in results["a"].message.content] == ["A"]
    assert results["no"].type == "errored"
    assert results["no"].error.error.message == "the text is not allowed"


def test_the_google_sdk_reads_a_batch() -> None:
    with BatchServer(echo, Faults(refused="no")) as server:
        options = HttpOptions(base_url=server.url, api_version="v1beta")
        client = google.genai.Client(api_key="k", http_options=options)
        job = client.batches.create(
            model="gemini-x",
            src=[{"contents": name, "metadata": {"key": name}} for name in ("a", "no")],
            config={"display_name": "name"},
        )
        assert job.state is JobState.JOB_STATE_RUNNING
        finish(server)
        assert job.name is not None
        job = client.batches.get(name=job.name)
        client.close()
    assert (job.state, job.display_name) == (JobState.JOB_STATE_SUCCEEDED, "name")
    assert job.dest is not None
    answers = {
        (one.metadata or {})["key"]: (one.response and one.response.text, one.error and one.error.message)
        for one in job.dest.inlined_responses or []
    }
    assert answers == {"a": ("A", None), "no": (None, "the text is not allowed")}
