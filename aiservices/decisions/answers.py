"""Find the values in a reply or a type for which there are several possible answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from output_parsers.json.scanner import Spans, read_with_spans
from output_parsers.result.reading import Cursor, JsonSyntaxError, ValidationFailure
from output_parsers.types.constraints import ConstrainedNode, unwrapped
from output_parsers.types.containers import ListNode, UnionNode
from output_parsers.types.decisions import DecisionNode, MembersNode, options_of
from output_parsers.types.node import Node, WrapperNode
from output_parsers.types.records import EnvelopeNode, ObjectNode

YES_NO = ((False, False), (True, True))  # the possible answers to a yes/no question
_MAX_DEPTH = 8  # the maximum nesting depth of records
_MAX_STARTS = 20  # the maximum number of positions at which JSON may begin in a reply

Keys: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value in a JSON reply that the model chose from fixed answers, such as a bool or an Enum member.

    Attributes:
        path: Its JSON path.
        options: The possible answers: JSON value and Python value.
        start: Where its JSON text begins in the text of the reply.
        end: Where it ends.
        answer: The position of the option that it is.
        is_bare: True if the text is the answer itself, without quotes.
        is_decision: True if the type of the value is a Decision.
        list_path: If this is the yes or no for a member of a ``Decision[list[…]]``: the path of the list.
        member: This member.
    """

    path: str
    options: tuple[tuple[object, object], ...]
    start: int
    end: int
    answer: int
    is_bare: bool = False
    is_decision: bool = False
    list_path: str | None = None
    member: object = None


def answer_leaves(node: Node[object], text: str) -> list[Leaf]:
    """Return the values in a JSON reply for which the model chose between several possible answers.

    Returns an empty list if the text is not exactly the JSON of the type, with or without text around it.
    """
    for start in _starts(text):
        try:
            value, end, spans = read_with_spans(text, start)
        except JsonSyntaxError:
            continue
        if isinstance(value, (dict, list)) or not text[end:].strip():
            return list(_leaves(node, value, (), Cursor(), spans))
    options = options_of(node)
    bare = text.strip()
    labels = [data for data, _ in options or ()]
    if options is not None and bare in labels:
        start = text.index(bare)
        return [
            Leaf(
                "$",
                options,
                start,
                start + len(bare),
                labels.index(bare),
                is_bare=True,
                is_decision=isinstance(node, DecisionNode),
            )
        ]
    return []


def _starts(text: str) -> Iterator[int]:
    """Yield the indexes in a reply's text at which JSON may begin."""
    first = len(text) - len(text.lstrip())
    yield first
    count = 0
    for position, character in enumerate(text):
        if character in "{[" and position > first:
            yield position
            count += 1
            if count == _MAX_STARTS:
                return


def _leaves(node: Node[Any], value: Any, keys: Keys, cursor: Cursor, spans: Spans) -> Iterator[Leaf]:
    """Yield the values in a JSON reply that have several possible answers, and skip malformed parts."""
    node = unwrapped(node)
    if isinstance(node, DecisionNode) and isinstance(node.inner, MembersNode):
        yield from _member_leaves(node.inner, value, keys, cursor, spans)
        return
    options = options_of(node)
    if options is not None and keys in spans:
        positions = [index for index, (data, _) in enumerate(options) if same_json(data, value)]
        if len(options) > 1 and positions:
            is_decision = isinstance(node, DecisionNode)
            yield Leaf(cursor.path, options, *spans[keys], positions[0], is_decision=is_decision)
        return
    parts = node.parts_of(value)
    if parts:
        for key, part in parts.items():
            yield from _leaves(part, value[key], (*keys, key), cursor.child(key), spans)
    elif isinstance(node, (UnionNode, WrapperNode)):
        fitting = _fitting_part(node, value, cursor)
        if fitting is not None:
            yield from _leaves(fitting, value, keys, cursor, spans)


def _fitting_part(
    node: UnionNode | WrapperNode[object], value: object, cursor: Cursor
) -> Node[object] | None:
    """Return the only part of a node that reads the whole value; None if there are several."""
    is_envelope = isinstance(node, EnvelopeNode)
    fitting = [part for part in node.parts if is_envelope or _fits(part, value, cursor)]
    return fitting[0] if len(fitting) == 1 else None


def _member_leaves(
    node: MembersNode, value: object, keys: Keys, cursor: Cursor, spans: Spans
) -> Iterator[Leaf]:
    """Yield a yes/no answer for each option of a return type ``Decision[list[…]]``."""
    answers = value if isinstance(value, dict) else {}
    if not all(isinstance(answers.get(key), bool) for key, _ in node.options):
        return
    for key, member in node.options:
        path, span = cursor.child(key).path, spans[*keys, key]
        yield Leaf(path, YES_NO, *span, int(answers[key]), list_path=cursor.path, member=member)


def _fits(node: Node[object], value: object, cursor: Cursor) -> bool:
    try:
        node.read(value, Cursor(cursor.leniency))
    except (ValidationFailure, ValueError, TypeError):
        return False
    return True


def same_json(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


class PossibleAnswers(NamedTuple):
    """The values that a bool, Enum, Literal or Decision in a return type can have.

    Attributes:
        options: The JSON value and the Python value of each; empty for a ``Decision[list[…]]`` as a whole.
        is_decision: True if the type at this place is a Decision.
        list_path: For a member of a ``Decision[list[…]]``: the path of the list.
        member: This member.
    """

    options: tuple[tuple[object, object], ...]
    is_decision: bool
    list_path: str | None = None
    member: object = None


def answer_options(node: Node[object]) -> dict[str, PossibleAnswers]:
    """Return a dict from JSON paths of bool, Enum, Literal and Decision values to their possible answers.

    Paths of list items contain ``[]``. Each member of a ``Decision[list[…]]`` has its own path. Values inside
    unions and recursive types are left out.
    """
    answers: dict[str, PossibleAnswers] = {}

    def visit(node: Node[object], path: str, depth: int) -> None:
        while isinstance(node, ConstrainedNode):
            node = node.inner
        options = options_of(node)
        if isinstance(node, DecisionNode) and isinstance(node.inner, MembersNode):
            answers[path] = PossibleAnswers((), is_decision=True)
            for key, member in node.inner.options:
                answers[Cursor(path=path).child(key).path] = PossibleAnswers(YES_NO, False, path, member)
        elif options is not None and len(options) > 1:
            answers[path] = PossibleAnswers(options, isinstance(node, DecisionNode))
        elif isinstance(node, ObjectNode) and depth < _MAX_DEPTH:
            for field in node.spec.fields:
                visit(node.nodes[field.name], Cursor(path=path).child(field.keys[0]).path, depth + 1)
        elif isinstance(node, ListNode):
            visit(node.item, f"{path}[]", depth + 1)

    visit(node, "$", 0)
    return answers
