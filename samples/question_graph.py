"""Ask a question and judge the answer, until one is right: in one process, or a step in each process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from aiservices import ChatModel, ScriptedChatModel, create, user_message
from aiservices.memory import ChatMemory, SqliteChatMemoryStore


@dataclass
class Verdict:
    correct: bool
    comment: str


class Quiz(Protocol):
    @user_message("Ask a simple question that has one right answer, and that you have not asked yet.")
    def ask(self) -> str: ...

    @user_message("Is the answer right?\n\nQuestion: {{question}}\nAnswer: {{answer}}")
    def judge(self, question: str, answer: str) -> Verdict: ...


def play(quiz: Quiz, reply: Callable[[str], str]) -> None:
    """Ask until an answer is right."""
    verdict = None
    while verdict is None or not verdict.correct:
        question = quiz.ask()
        verdict = quiz.judge(question, reply(question))
        print(f"{'Right!' if verdict.correct else 'Wrong.'} {verdict.comment}")


def step(quiz: Quiz, state: Path, answer: str | None = None) -> None:
    """Judge the answer to the question in a file, and ask the next question."""
    if answer is not None:
        verdict = quiz.judge(state.read_text("utf-8"), answer)
        print(f"{'Right!' if verdict.correct else 'Wrong.'} {verdict.comment}")
        if verdict.correct:
            state.unlink()
            return
    state.write_text(quiz.ask(), "utf-8")
    print(state.read_text("utf-8"))


def open_quiz(model: ChatModel | str, store: SqliteChatMemoryStore) -> Quiz:
    """Return the quiz, which remembers its questions in the store."""
    return create(Quiz, model, interceptors=[ChatMemory(store=store)])


def scripted() -> ScriptedChatModel:
    """Return a scripted model that asks three questions."""

    def verdict(correct: bool, comment: str) -> str:
        return json.dumps({"correct": correct, "comment": comment})

    return ScriptedChatModel(
        [
            "What is the capital of France?",
            verdict(False, "It is Paris."),
            "How many legs has a spider?",
            verdict(True, "Spiders have eight legs."),
        ]
    )


def scripted_answers() -> Iterator[str]:
    """Yield the answers of a player."""
    yield from ("Lyon", "eight")


def main(model: ChatModel | str | None = None) -> None:
    """Play in one process, and in steps. Without a model, a scripted one plays with itself."""
    answers = scripted_answers()

    def reply(question: str) -> str:
        answer = next(answers) if model is None else input(f"{question} ")
        print(f"{question} {answer}")
        return answer

    with TemporaryDirectory() as folder:
        with SqliteChatMemoryStore(Path(folder, "quiz.db")) as store:
            play(open_quiz(model or scripted(), store), reply)
        if model is None:
            chat_model = scripted()
            for answer in (None, *scripted_answers()):  # each with a store of its own, as a process would
                with SqliteChatMemoryStore(Path(folder, "steps.db")) as store:
                    step(open_quiz(chat_model, store), Path(folder, "question.txt"), answer)


if __name__ == "__main__":
    main(*sys.argv[1:2])
