"""Retrieval: the model searches a text with a tool and cites passages; a guard checks the citations."""

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

from .program import run

TEXT = Path(__file__).parent / "data" / "jargon.txt"


@dataclass
class Answer:
    """The answer, in one sentence."""

    answer: str
    sources: Annotated[list[int], Description("the numbers of the passages that support the answer")]


class Guide(Protocol):
    @system_message("Answer from the passages that the tool finds in the Jargon File, and from nothing else.")
    def answer(self, question: str) -> Result[Answer]: ...


def passages(text: str) -> list[Content]:
    """Split a text into passages with the heading of their section; the id of a passage is its number."""
    contents = list[Content]()
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        for piece in split(body, max_characters=1200):
            contents.append(Content(f"{heading}\n{piece.text}", str(len(contents) + 1)))
    return contents


def jargon_file(model: EmbeddingModel | None = None) -> EmbeddingRetriever:
    """Return a retriever for the Jargon File. The default embedding model runs here: all-MiniLM-L6-v2."""
    retriever = EmbeddingRetriever(model or SentenceTransformerModel.embedded(), max_results=10)
    retriever.add(passages(TEXT.read_text("utf-8")))
    return retriever


def cites_found_passages(answer: Answer, invocation: Invocation) -> Verdict:
    """A guard that rejects an answer with a citation of a passage that the tool did not return."""
    passages_by_id = contents_by_id(invocation.state.tool_runs)
    invented = [number for number in answer.sources if str(number) not in passages_by_id]
    if not invented:
        return passed()
    return reprompt(f"No passage {invented[0]} was found. These were: {', '.join(passages_by_id) or 'none'}.")


# The questions, the answers of a good model, and a part of the passage that supports the answer.
SCRIPT = {
    "Do hackers keep pets?": ("More often cats than dogs.", "cats than dogs"),
    "Where in America do most of them live?": ("Round Boston and San Francisco.", "Bay Area-to-Boston axis"),
}


def scripted() -> ScriptedChatModel:
    """Return a scripted model that searches, cites a wrong passage, and corrects the citation."""

    def reply(request: ChatRequest) -> ChatReply | str:
        question = next(message.text for message in request.messages if isinstance(message, UserMessage))
        answer, part = SCRIPT[question]
        results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if not results:
            call = ToolCall("call_1", "search_jargon_file", json.dumps({"query": question}))
            return ChatReply(AiMessage("", (call,)))
        if isinstance(request.messages[-1], ToolMessage):
            return json.dumps({"answer": answer, "sources": [999]})
        blocks = re.findall(r"^\[(\d+)\]\n(.*?)(?=^\[\d+\]\n|\Z)", results[0], re.MULTILINE | re.DOTALL)
        sources = [int(number) for number, text in blocks if part in text]
        return json.dumps({"answer": answer, "sources": sources})

    return ScriptedChatModel(reply)


def main(model: ChatModel | str | None = None, embeddings: EmbeddingModel | None = None) -> None:
    """Print answers with their sources. Without a model, a scripted one answers.

    Another model must support tools. Needs the extra ``retrieval``, and ``embeddings`` for the default
    embedding model.
    """
    search = retriever_tool(jargon_file(embeddings), "search_jargon_file")
    guards = OutputGuardrails(cites_found_passages, on="value")
    guide = create(Guide, model or scripted(), tools=[search], interceptors=[guards])
    for question in SCRIPT:
        result = guide.answer(question)
        print(f"{question} {result.value.answer}")
        passages_by_id = contents_by_id(result.tool_runs)
        print(f"  found: {', '.join(passages_by_id)}; requests: {len(result.attempts)}")
        for number in result.value.sources:
            heading, _, text = passages_by_id[str(number)].text.partition("\n")
            print(f"  [{number}] {heading}: {' '.join(text.split())[:60].rstrip()}…")


if __name__ == "__main__":
    run(main)
