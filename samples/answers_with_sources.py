"""Answers from a real text: the model looks for passages itself, and cites those that it was shown."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from aiservices import (
    AiMessage,
    ChatModel,
    ChatReply,
    ChatRequest,
    Description,
    Result,
    ScriptedChatModel,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    system_message,
)
from aiservices.guardrails import OutputGuardrails, Verdict, passed, reprompt
from aiservices.interceptors import Invocation
from aiservices.retrieval import (
    Content,
    EmbeddingModel,
    EmbeddingRetriever,
    SentenceTransformerModel,
    contents_by_id,
    retriever_tool,
    split,
)

TEXT = Path(__file__).parent / "data" / "jargon.txt"


@dataclass
class Answer:
    """The answer, in one sentence."""

    answer: str
    sources: Annotated[list[int], Description("the numbers of the passages that say so")]


class Guide(Protocol):
    @system_message("Answer from the passages that the tool finds in the Jargon File, and from nothing else.")
    def answer(self, question: str) -> Result[Answer]: ...


def passages(text: str) -> list[Content]:
    """The sections of a text in pieces, each with its heading in front; the id of a piece is its number."""
    found = list[Content]()
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        for piece in split(body, max_characters=1200):
            found.append(Content(f"{heading}\n{piece.text}", str(len(found) + 1)))
    return found


def jargon_file(model: EmbeddingModel | None = None) -> EmbeddingRetriever:
    """The passages, found by their meaning. By default they are embedded here, with all-MiniLM-L6-v2."""
    retriever = EmbeddingRetriever(model or SentenceTransformerModel.embedded(), max_results=10)
    retriever.add(passages(TEXT.read_text("utf-8")))
    return retriever


def cited(answer: Answer, invocation: Invocation) -> Verdict:
    """Has the model answer again where it cites what the tool did not find in this call."""
    found = contents_by_id(invocation.state.tool_runs)
    invented = [number for number in answer.sources if str(number) not in found]
    if not invented:
        return passed()
    return reprompt(f"No passage {invented[0]} was found. These were: {', '.join(found) or 'none'}.")


# What is asked, what a sensible model answers, and a part of the passage that says so.
SCRIPT = {
    "Do hackers keep pets?": ("More often cats than dogs.", "cats than dogs"),
    "Where in America do most of them live?": ("Round Boston and San Francisco.", "Bay Area-to-Boston axis"),
}


def scripted() -> ScriptedChatModel:
    """A model that searches, cites at first a number that it never saw, and then what it was shown."""

    def reply(request: ChatRequest) -> ChatReply | str:
        asked = next(message.text for message in request.messages if isinstance(message, UserMessage))
        answer, part = SCRIPT[asked]
        shown = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if not shown:
            call = ToolCall("call_1", "search_jargon_file", json.dumps({"query": asked}))
            return ChatReply(AiMessage("", (call,)))
        if isinstance(request.messages[-1], ToolMessage):
            return json.dumps({"answer": answer, "sources": [999]})
        blocks = re.findall(r"^\[(\d+)\]\n(.*?)(?=^\[\d+\]\n|\Z)", shown[0], re.MULTILINE | re.DOTALL)
        sources = [int(number) for number, text in blocks if part in text]
        return json.dumps({"answer": answer, "sources": sources})

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None, embeddings: EmbeddingModel | None = None) -> None:
    """Print answers with their sources. Without a model a scripted one is asked; another has to call tools.

    Needs the extra ``retrieval`` and, for the embeddings by default, ``embeddings``.
    """
    search = retriever_tool(jargon_file(embeddings), "search_jargon_file")
    guards = OutputGuardrails(cited, on="value")
    guide = create(Guide, model or scripted(), tools=[search], interceptors=[guards])
    for question in SCRIPT:
        result = guide.answer(question)
        print(f"{question} {result.value.answer}")
        found = contents_by_id(result.tool_runs)
        print(f"  found: {', '.join(found)}; requests: {len(result.attempts)}")
        for number in result.value.sources:
            heading, _, text = found[str(number)].text.partition("\n")
            print(f"  [{number}] {heading}: {' '.join(text.split())[:60].rstrip()}…")


if __name__ == "__main__":
    main()
