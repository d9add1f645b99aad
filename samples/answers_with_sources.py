"""Answers from a text of one's own: the model looks for passages itself, and cites them by their ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiservices import ChatModel, Result, create, system_message
from aiservices.retrieval import (
    EmbeddingModel,
    EmbeddingRetriever,
    SentenceTransformerModel,
    found_by,
    retriever_tool,
    split,
)

TEXT = Path(__file__).parent / "data" / "lighthouse.txt"
QUESTION = "What do the keepers do against the death of migrating birds, and has it helped?"


@dataclass
class Answer:
    """The answer, in at most three sentences, and the ids of the passages that it rests on."""

    text: str
    sources: list[str]


class Guide(Protocol):
    @system_message("Answer from the passages that the tool finds in the handbook, and from nothing else.")
    def answer(self, question: str) -> Result[Answer]: ...


def handbook(model: EmbeddingModel | None = None) -> EmbeddingRetriever:
    """The passages of the handbook. By default they are embedded here, with all-MiniLM-L6-v2."""
    retriever = EmbeddingRetriever(model or SentenceTransformerModel.embedded(), limit=4)
    retriever.add(split(TEXT.read_text("utf-8"), "handbook", size=700))
    return retriever


def main(model: ChatModel | str | None = None, embeddings: EmbeddingModel | None = None) -> None:
    """Print an answer with its sources. ``model`` is as in ``create``, and has to call tools.

    Needs the extras ``retrieval`` and, for the embeddings by default, ``embeddings``.
    """
    search = retriever_tool(handbook(embeddings), "search_handbook")
    result = create(Guide, model, tools=[search]).answer(QUESTION)
    print(result.value.text)
    found = found_by(result.tool_runs)
    for id in result.value.sources:
        passage = found.get(id)
        print(f"[{id}]", "was never found" if passage is None else " ".join(passage.text.split())[:80])


if __name__ == "__main__":
    main()
