"""Questions with a fixed set of answers, for models that answer with probabilities instead of text.

A decision endpoint gets a text and a list of questions, and returns a probability for each possible answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from .messages import AiMessage, ChatReply, Distribution, Usage


class AnswerOption(NamedTuple):
    """One possible answer to a question.

    Attributes:
        value: The answer as a JSON value: a string, a number, a boolean or null.
        description: What the answer means, for the model; "" if the value says it.
    """

    value: Any
    description: str = ""


class Question(NamedTuple):
    """A question with a fixed set of answers.

    Attributes:
        path: The JSON path of the answer in the typed value, such as ``"$.team"``.
        keys: The object keys that lead to the answer; empty if the answer is the whole value.
        kind: "yes_no", "choice" (one of several options) or "scale" (levels from low to high).
        text: The question.
        options: The possible answers. Those of a yes/no question are false and true.
        member: For a list of options that is asked for with one yes/no question each: the option of this
            question; None for other questions.
    """

    path: str
    keys: tuple[str, ...]
    kind: Literal["yes_no", "choice", "scale"]
    text: str
    options: tuple[AnswerOption, ...]
    member: str | None = None


@dataclass(frozen=True, eq=False)
class DecisionFormat:
    """The response format of a chat request whose answers must be chosen from fixed options.

    Attributes:
        questions: The questions about the messages of the request.
        task: The question of the prompt, which is not part of the last message; "" if there is none.
    """

    questions: tuple[Question, ...]
    task: str = ""


def decision_reply(
    questions: Sequence[Question],
    answers: Sequence[Sequence[float] | None],
    *,
    usage: Usage | None = None,
    model: str = "",
    id: str = "",
    raw: bytes | None = None,
) -> ChatReply:
    """Make the reply of a decision endpoint: the JSON of the most likely answers, and their probabilities.

    ``answers`` has the probabilities of the options of each question, in their order; None if the model
    refused the question. Refused questions that null does not answer make the whole reply a refusal.
    """
    value: Any = None
    refused: list[str] = []
    distributions: dict[str, Distribution] = {}
    for question, probabilities in zip(questions, answers, strict=True):
        answer: Any = None
        if probabilities is not None:
            total = sum(probabilities)
            shares = [probability / total for probability in probabilities]
            options = [option.value for option in question.options]
            distributions[question.path] = tuple(zip(options, shares, strict=True))
            answer = options[shares.index(max(shares))]
        elif all(option.value is not None for option in question.options):
            refused.append(question.path)
        value = _with_answer(value, question, answer)
    refusal = f"the model refused to answer {', '.join(refused)}" if refused else None
    message = AiMessage(json.dumps(value, ensure_ascii=False))
    return ChatReply(
        message, usage=usage, model=model, id=id, refusal=refusal, raw=raw, probabilities=distributions
    )


def _with_answer(value: Any, question: Question, answer: Any) -> Any:
    """Return a JSON value with an answer put at the place of its question."""
    if question.member is not None:
        place = value
        for key in question.keys:
            place = place.get(key) if isinstance(place, Mapping) else None
        members = place if isinstance(place, list) else []
        answer = [*members, question.member] if answer else members
    if not question.keys:
        return answer
    whole: dict[str, Any] = {} if value is None else value
    place = whole
    for key in question.keys[:-1]:
        place = place.setdefault(key, {})
    place[question.keys[-1]] = answer
    return whole
