"""Measure how much memory the first call and a stream of 100 KB take, with this library and with the SDKs.

Each client runs in a new process. The number is the largest resident memory, without that of the interpreter.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from statistics import median

_MODELS = {"Claude": "claude-sonnet-5", "Gemini": "gemini-3-pro"}
_QUESTION = "Who is meant? Grace Hopper, 45 years old and married, is 1.68 m tall."
_LONG = "Write 100000 characters."
_ROUNDS = 5


def _ours(name: str, url: str) -> str:
    from aiservices import AnthropicChatModel, ChatModel, ChatRequest, GeminiChatModel

    model: ChatModel
    if name == "Claude":
        model = AnthropicChatModel(_MODELS[name], base_url=url, api_key="k")
    else:
        model = GeminiChatModel(_MODELS[name], base_url=f"{url}/v1beta", api_key="k")
    model.complete(ChatRequest.of(_QUESTION))
    return "".join(delta.text for delta in model.stream(ChatRequest.of(_LONG)))


def _anthropic(name: str, url: str) -> str:
    import anthropic

    client = anthropic.Anthropic(api_key="k", base_url=url, max_retries=0)
    client.messages.create(
        model=_MODELS[name], max_tokens=99, messages=[{"role": "user", "content": _QUESTION}]
    )
    with client.messages.stream(
        model=_MODELS[name], max_tokens=99, messages=[{"role": "user", "content": _LONG}]
    ) as stream:
        return "".join(stream.text_stream)


def _google(name: str, url: str) -> str:
    from google import genai

    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url))
    client.models.generate_content(model=_MODELS[name], contents=_QUESTION)
    chunks = client.models.generate_content_stream(model=_MODELS[name], contents=_LONG)
    return "".join(chunk.text or "" for chunk in chunks)


_CLIENTS: dict[str, dict[str, Callable[[str, str], str]]] = {
    "Claude": {"aiservices": _ours, "anthropic": _anthropic},
    "Gemini": {"aiservices": _ours, "google-genai": _google},
}


def _measure(name: str, client: str, url: str) -> None:
    """Print the memory in KB that a client adds to this process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = _CLIENTS[name][client](name, url)
    assert len(text) > 90_000, len(text)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def main() -> None:
    """Print the memory of each client, and how much of that of the SDK this library takes."""
    if len(sys.argv) > 1:
        _measure(*sys.argv[1:])
        return
    from .new_process import run_in_new_process, running_server

    with running_server(None, module="benchmarks.providers_stage") as base_url:
        url = base_url.removesuffix("/v1")
        for name, clients in _CLIENTS.items():
            found = {}
            for client in clients:
                arguments = ("-m", "benchmarks.provider_memory", name, client, url)
                runs = [int(run_in_new_process(*arguments)[0]) for _ in range(_ROUNDS)]
                found[client] = median(runs)
            ours, theirs = found.values()
            numbers = ", ".join(f"{client} {kilobytes / 1024:.0f} MB" for client, kilobytes in found.items())
            print(f"{name}: {numbers}; ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
