"""Claude with reasoning, a web search that Anthropic runs, a prompt cache, and a memory for all of it.

With ANTHROPIC_API_KEY, the sample asks Claude. Without the key, it prints the request.
"""

from __future__ import annotations

import os
from typing import Protocol

from aiservices import AnthropicChatModel, ChatModel, Result, create, options, preview, user_message
from aiservices.memory import ChatMemory

WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


class Researcher(Protocol):
    @options(reasoning_effort="high", server_tools=[WEB_SEARCH], cache="5m")
    @user_message("{{question}} Answer in one sentence.")
    def answer(self, question: str) -> Result[str]: ...


def main(model: ChatModel | None = None) -> None:
    """Print two answers with their searches and sources, or the first request if there is no key."""
    memory = ChatMemory(store_as_sent=True)
    researcher = create(Researcher, model or AnthropicChatModel("claude-sonnet-5"), interceptors=[memory])
    questions = "When was the Vermeer museum in Delft opened?", "What does a ticket cost?"
    if model is None and not os.environ.get("ANTHROPIC_API_KEY"):
        request = preview(researcher.answer, questions[0])
        print(request)
        print(f"\nreasoning: {request.options.reasoning_effort}, tools: {request.options.server_tools}")
        return
    for question in questions:
        result = researcher.answer(question)
        print(result.value)
        print(f"  reasoning: {result.reply.message.reasoning}")
        for run in result.server_tool_runs:
            print(f"  {run.name}: {run.input}")
        for citation in result.reply.citations:
            print(f"  source: {citation['title']}, {citation['url']}")
        usage = result.usage
        print(f"  {usage.input_tokens} tokens of input, {usage.cached_tokens} of them from the cache")


if __name__ == "__main__":
    main()
