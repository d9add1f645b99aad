"""Turn a return type into questions for a decision endpoint, one for each bool, Enum and Literal in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.reading import Cursor, Json
from output_parsers.types.choices import BoolNode, ChoiceNode
from output_parsers.types.constraints import ConstrainedNode
from output_parsers.types.containers import ListNode
from output_parsers.types.decisions import DecisionNode, MembersNode, Scale, options_of
from output_parsers.types.node import Node, RecursiveNode
from output_parsers.types.records import ObjectNode
from output_parsers.types.unions import UnionNode

from ..models.base import DecisionLimits
from ..models.messages import Message, UserMessage
from ..models.questions import AnswerOption, DecisionFormat, Question

_YES_NO = (AnswerOption(False), AnswerOption(True))


class QuestionError(ValueError):
    """Raised when questions with fixed answers cannot determine a value of the requested type."""


def decision_format(parser: TypeParser[Any], task: str, limits: DecisionLimits) -> DecisionFormat:
    """Convert a return type to multiple-choice questions for a decision endpoint.

    ``task`` is the question of the prompt, without the data. Raises QuestionError if the type has a part
    that is not a choice, or if a question has more options than the endpoint accepts.
    """
    description = parser.target.description or ""
    questions = tuple(_questions(parser.node, description or task, task, (), Cursor()))
    if not questions:
        raise QuestionError("it has nothing to decide")
    for question in questions:
        limit = limits.levels if question.kind == "scale" else limits.options
        if len(question.options) > limit:
            kind = "levels" if question.kind == "scale" else "options"
            raise QuestionError(
                f"{question.path} has {len(question.options)} {kind}; the endpoint accepts {limit}"
            )
        if not question.text:
            raise QuestionError(
                f"{question.path} has no question: write it in the prompt in a paragraph of its own, without "
                'placeholders, or annotate the type, as in Annotated[Decision[bool], "Is it spam?"]'
            )
    return DecisionFormat(questions, task)


def without_task(messages: tuple[Message, ...], task: str) -> tuple[Message, ...]:
    """Remove the question from the last user message, because the endpoint receives it separately."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage):
            text = message.text.removeprefix(task) if task else message.text
            if text == message.text and task:
                text = message.text.removesuffix(task)
            return (*messages[:index], replace(message, text=text.strip()), *messages[index + 1 :])
    return messages


def _questions(
    node: Node[Any], text: str, task: str, keys: tuple[str, ...], cursor: Cursor
) -> Iterator[Question]:
    is_scale = False
    while isinstance(node, (DecisionNode, ConstrainedNode, RecursiveNode)):
        is_scale = is_scale or (isinstance(node, DecisionNode) and issubclass(node.cls, Scale))
        node = node.target if isinstance(node, RecursiveNode) else node.inner
    options = options_of(node)
    if isinstance(node, MembersNode):
        for (key, _), choice in zip(node.options, node.item.choices.choices, strict=True):
            question = _member_question(text, key, choice.description)
            yield Question(cursor.child(key).path, (*keys, key), "yes_no", question, _YES_NO)
    elif isinstance(node, BoolNode):
        yield Question(cursor.path, keys, "yes_no", text, _YES_NO)
    elif options is not None and len(options) > 1:
        descriptions = _descriptions(node)
        answers = [AnswerOption(data, descriptions.get(_key(data), "")) for data, _ in options]
        yield Question(cursor.path, keys, "scale" if is_scale else "choice", text, tuple(answers))
    elif isinstance(node, ListNode) and isinstance(node.item, ChoiceNode):
        for position, choice in enumerate(node.item.choices.choices):
            label = node.item.write(choice.value)
            if not isinstance(label, str):
                raise QuestionError(f"{cursor.path} is a list of options that are not texts")
            question = _member_question(text, label, choice.description)
            yield Question(f"{cursor.path}[{position}]", keys, "yes_no", question, _YES_NO, label)
    elif isinstance(node, ObjectNode):
        for field in node.spec.fields:
            key = field.keys[0]
            name = key.replace("_", " ")
            question = f"{task}\nAnswer for: {name}" if task else f"What is the {name}?"
            question = node.descriptions[field.name] or question
            try:
                yield from _questions(node.nodes[field.name], question, task, (*keys, key), cursor.child(key))
            except QuestionError:
                if field.required:
                    raise
    else:
        raise QuestionError(
            f"{cursor.path} is {node.kind}; a decision endpoint answers only bool, Enum, Literal, lists of "
            "an Enum, and records of them"
        )


def _member_question(text: str, label: str, description: str | None) -> str:
    """Return the yes/no question for one option of a list."""
    meaning = f" ({description})" if description else ""
    return f"{text}\nDoes this apply: {label}{meaning}?"


def _descriptions(node: Node[Any]) -> dict[str, str]:
    if isinstance(node, ChoiceNode):
        return {_key(node.write(choice.value)): choice.description or "" for choice in node.choices.choices}
    found: dict[str, str] = {}
    for option in node.options if isinstance(node, UnionNode) else ():
        found |= _descriptions(option)
    return found


def _key(data: Json) -> str:
    return repr(data)
