"""An agent with a search tool and a typed answer that cites the passages it is based on."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import log
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
    create,
    system_message,
    user_message,
)

# The Bill of Rights (1791). Each amendment is a passage; its number is the id.
AMENDMENTS = """\
Congress shall make no law respecting an establishment of religion, or prohibiting the free exercise \
thereof; or abridging the freedom of speech, or of the press; or the right of the people peaceably to \
assemble, and to petition the Government for a redress of grievances.
A well regulated Militia, being necessary to the security of a free State, the right of the people to \
keep and bear Arms, shall not be infringed.
No Soldier shall, in time of peace be quartered in any house, without the consent of the Owner, nor in \
time of war, but in a manner to be prescribed by law.
The right of the people to be secure in their persons, houses, papers, and effects, against unreasonable \
searches and seizures, shall not be violated, and no Warrants shall issue, but upon probable cause, \
supported by Oath or affirmation, and particularly describing the place to be searched, and the persons \
or things to be seized.
No person shall be held to answer for a capital, or otherwise infamous crime, unless on a presentment or \
indictment of a Grand Jury, except in cases arising in the land or naval forces, or in the Militia, when \
in actual service in time of War or public danger; nor shall any person be subject for the same offence \
to be twice put in jeopardy of life or limb; nor shall be compelled in any criminal case to be a witness \
against himself, nor be deprived of life, liberty, or property, without due process of law; nor shall \
private property be taken for public use, without just compensation.
In all criminal prosecutions, the accused shall enjoy the right to a speedy and public trial, by an \
impartial jury of the State and district wherein the crime shall have been committed, which district \
shall have been previously ascertained by law, and to be informed of the nature and cause of the \
accusation; to be confronted with the witnesses against him; to have compulsory process for obtaining \
witnesses in his favor, and to have the Assistance of Counsel for his defence.
In Suits at common law, where the value in controversy shall exceed twenty dollars, the right of trial \
by jury shall be preserved, and no fact tried by a jury, shall be otherwise re-examined in any Court of \
the United States, than according to the rules of the common law.
Excessive bail shall not be required, nor excessive fines imposed, nor cruel and unusual punishments \
inflicted.
The enumeration in the Constitution, of certain rights, shall not be construed to deny or disparage \
others retained by the people.
The powers not delegated to the United States by the Constitution, nor prohibited by it to the States, \
are reserved to the States respectively, or to the people.
"""
QUESTIONS = ("May the army put soldiers up in my house?", "Does a jury decide, and may I have a lawyer?")


@dataclass(frozen=True)
class Passage:
    id: int
    text: str


PASSAGES = [Passage(number, text) for number, text in enumerate(AMENDMENTS.splitlines(), 1)]


def words_of(text: str) -> set[str]:
    """Return the words of a text without a plural s."""
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower())}


def search(query: str) -> list[Passage]:
    """Find the passages of the Bill of Rights that match a query best.

    query: words that the passage is likely to contain
    """

    def weight(passage: Passage) -> float:
        # A word counts more if fewer passages contain it.
        shared = words_of(query) & words_of(passage.text)
        return sum(log(len(PASSAGES) / sum(word in words_of(p.text) for p in PASSAGES)) for word in shared)

    best = sorted(PASSAGES, key=weight, reverse=True)[:2]
    return [passage for passage in best if weight(passage) > 1]


@dataclass
class Response:
    """The final answer to the user."""

    answer: str
    sources: Annotated[list[int], Description("the ids of the passages that support the answer")]


class Lawyer(Protocol):
    @system_message("You answer questions on the Bill of Rights. Search it, and cite what you found.")
    @user_message("{{it}}")
    def answer(self, question: str) -> Result[Response]: ...


def scripted() -> ScriptedChatModel:
    """Return a scripted model that calls the search tool, then answers and cites the first result."""
    script = {
        QUESTIONS[0]: ("soldier quartered house", "In peace only if you consent; in war as the law says."),
        QUESTIONS[1]: ("jury trial counsel", "Yes to both, where you are accused of a crime."),
    }

    def reply(request: ChatRequest) -> ChatReply:
        question, last = request.messages[1].text, request.messages[-1]
        query, answer = script[question]
        if not isinstance(last, ToolMessage):
            return tool_call("search", {"query": query})
        ids = [passage["id"] for passage in json.loads(last.text)]
        return tool_call("Response", {"answer": answer, "sources": ids[:1]})

    return ScriptedChatModel(reply)


def tool_call(tool: str, arguments: dict[str, object]) -> ChatReply:
    """Return a reply that calls a tool."""
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def main(model: ChatModel | str | None = None) -> None:
    """Print the searches, the answers and the cited passages. Without a model, a scripted one answers."""
    lawyer = create(Lawyer, model or scripted(), tools=[search], strategy="output_tool")
    for question in QUESTIONS:
        result = lawyer.answer(question)
        print(question)
        for run in result.tool_runs:
            ids = ", ".join(str(passage.id) for passage in run.result or ())
            print(f"  {run.name}({run.call.arguments}) found {ids or 'nothing'}")
        print(f"  {result.value.answer}")
        for passage in PASSAGES:
            if passage.id in result.value.sources:
                print(f"  [{passage.id}] {passage.text[:80]}…")


if __name__ == "__main__":
    main()
