"""Find and calibrate the probability of each possible answer, such as True and False.

The probabilities come from the tokens of the reply or from a decision endpoint. A token's probability is read
at the position where the possible answers begin to differ. A ``Calibration`` corrects the probabilities. It
is fitted to labelled examples and stored in a file.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from output_parsers.json.scanner import Spans, read_with_spans
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem
from output_parsers.result.reading import Coercion, Cursor, JsonSyntaxError, Reading, ValidationFailure
from output_parsers.types.constraints import ConstrainedNode, unwrapped
from output_parsers.types.containers import ListNode, UnionNode
from output_parsers.types.decisions import Decision, DecisionNode, MembersNode, collect_decisions, options_of
from output_parsers.types.node import Node, WrapperNode
from output_parsers.types.records import EnvelopeNode, ObjectNode

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import ChatReply, TokenLogprob
from .output_format import OutputFormat

_SPACES = b" \t\r\n"
_ENDS = b",]} \t\r\n"  # what may follow a JSON value
YES_NO = ((False, False), (True, True))  # the possible answers to a yes/no question
_MAX_DEPTH = 8  # the maximum nesting depth of records
_SMALLEST_SHARED = 0.01  # the probability of a token for which a further request is worth its time
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
    options: tuple[tuple[Any, object], ...]
    start: int
    end: int
    answer: int
    is_bare: bool = False
    is_decision: bool = False
    list_path: str | None = None
    member: object = None


class Probabilities(NamedTuple):
    """The probabilities of all possible answers to one question.

    Attributes:
        leaf: The answer that the reply gives, with the possible answers.
        shares: The probabilities of the possible answers, in their order; the sum is 1.
        seen: The share that the source reported for them, before they were scaled to the sum of 1.
        source: Where they come from, such as "logprobs" or "decisions".
    """

    leaf: Leaf
    shares: tuple[float, ...]
    seen: float
    source: str

    def by_value(self) -> dict[Any, float]:
        """Return the probability of each possible answer."""
        return {value: share for (_, value), share in zip(self.leaf.options, self.shares, strict=True)}

    @property
    def of_answer(self) -> float:
        """The probability of the answer that the model chose."""
        return self.shares[self.leaf.answer]


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
        positions = [index for index, (data, _) in enumerate(options) if _same_json(data, value)]
        if len(options) > 1 and positions:
            is_decision = isinstance(node, DecisionNode)
            yield Leaf(cursor.path, options, *spans[keys], positions[0], is_decision=is_decision)
        return
    parts = node.parts_of(value)
    for key, part in parts.items():
        yield from _leaves(part, value[key], (*keys, key), cursor.child(key), spans)
    if not parts and isinstance(node, (UnionNode, WrapperNode)):  # its parts read the same value
        is_envelope = isinstance(node, EnvelopeNode)
        fitting = [part for part in node.parts if is_envelope or _fits(part, value, cursor)]
        if len(fitting) == 1:
            yield from _leaves(fitting[0], value, keys, cursor, spans)


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


def _same_json(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


class SharedToken(NamedTuple):
    """An alternative to a token of the reply; more than one possible answer begins with it.

    Attributes:
        position: The position of the token that it wrote instead.
        token: The token.
        text: The text of the reply up to this position, and the token.
    """

    position: int
    token: bytes
    text: str


def shared_tokens(node: Node[object], reply: ChatReply) -> list[SharedToken]:
    """Return the alternative tokens of a reply with which more than one possible answer begins."""
    if not reply.logprobs:
        return []
    tokens = _Tokens(reply.logprobs, reply.text)
    for leaf in answer_leaves(node, reply.text):
        tokens.probabilities_of(leaf)
    shared = []
    for index, token in tokens.shared:
        begin = b"".join(one.token for one in reply.logprobs[:index])
        with suppress(UnicodeDecodeError):  # a token may end inside a character
            shared.append(SharedToken(index, token, (begin + token).decode()))
    return shared


def with_continuation(reply: ChatReply, shared: SharedToken, following: TokenLogprob) -> ChatReply:
    """Replace an alternative token with longer ones: the token plus each token that may follow it.

    ``following`` contains the tokens that may follow.
    """
    tokens = list(reply.logprobs)
    old = tokens[shared.position]
    alternatives = dict(old.alternatives)
    logprob = alternatives.pop(shared.token)
    for token, share in {**dict(following.alternatives), following.token: following.logprob}.items():
        text = shared.token + token
        total = _probability(logprob) * _probability(share)
        if text in alternatives:  # one token and two tokens may be the same text
            total += _probability(alternatives[text])
        alternatives[text] = math.log(total) if total else -math.inf
    tokens[shared.position] = old._replace(alternatives=tuple(alternatives.items()))
    return replace(reply, logprobs=tuple(tokens))


class PossibleAnswers(NamedTuple):
    """The values that a bool, Enum, Literal or Decision in a return type can have.

    Attributes:
        options: The JSON value and the Python value of each; empty for a ``Decision[list[…]]`` as a whole.
        is_decision: True if the type at this place is a Decision.
        list_path: For a member of a ``Decision[list[…]]``: the path of the list.
        member: This member.
    """

    options: tuple[tuple[Any, object], ...]
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


def find_probabilities(node: Node[object], reply: ChatReply) -> dict[str, Probabilities]:
    """Return a dict from JSON paths to the probabilities of the answers at these paths."""
    leaves = answer_leaves(node, reply.text) if reply.logprobs or reply.probabilities else []
    by_path: dict[str, Probabilities] = {}
    tokens = _Tokens(reply.logprobs, reply.text) if reply.logprobs else None
    for leaf in leaves:
        stated = (reply.probabilities or {}).get(leaf.path)
        if stated is not None:
            made = _of_endpoint(leaf, stated)
        else:
            made = None if tokens is None else tokens.probabilities_of(leaf)
        if made is not None:
            by_path[leaf.path] = made
    incomplete = {leaf.list_path for leaf in leaves if leaf.path not in by_path} - {None}
    return {path: one for path, one in by_path.items() if one.leaf.list_path not in incomplete}


def _of_endpoint(leaf: Leaf, stated: Sequence[tuple[object, float]]) -> Probabilities | None:
    shares = [sum(share for data, share in stated if _same_json(data, option)) for option, _ in leaf.options]
    return _scaled(leaf, shares, sum(shares), "decisions")


def _scaled(leaf: Leaf, shares: Sequence[float], seen: float, source: str) -> Probabilities | None:
    total = sum(shares)
    if not 0 < total < math.inf:
        return None
    return Probabilities(leaf, tuple(share / total for share in shares), min(1.0, seen), source)


class _Tokens:
    """The tokens of a model's reply, with their log probabilities and their positions in the text."""

    def __init__(self, logprobs: Sequence[TokenLogprob], text: str) -> None:
        self._text = text
        self._tokens = logprobs
        # Some tokens are not in the text, such as a mark before the answer.
        self._offset = b"".join(token.token for token in logprobs).rfind(text.encode())
        # Tokens that were not written and are the beginning of several options, by the positions of tokens.
        self.shared: list[tuple[int, bytes]] = []

    def probabilities_of(self, leaf: Leaf) -> Probabilities | None:
        """Return the probabilities of the possible answers for one value in the reply.

        Starting with all options, each token narrows down which options its text can still become. The
        alternatives of a token count for an option if they can become this option only. What several options
        share is split between them, but not counted as seen.
        """
        if self._offset < 0:
            return None
        start = self._offset + len(self._text[: leaf.start].encode())
        value = self._text[leaf.start : leaf.end].encode()
        written = [_spellings(data, is_bare=leaf.is_bare) for data, _ in leaf.options]
        shares, shared = [0.0] * len(written), 0.0
        possible, mass, position = list(range(len(written))), 1.0, 0
        for index, token in enumerate(self._tokens):
            begin, position = position, position + len(token.token)
            if position <= start:
                continue
            if begin >= start + len(value) + 1:
                break
            before = value[: max(0, begin - start)]  # the part of the value that earlier tokens contain
            lead = token.token[: max(0, start - begin)]  # the part of this token that comes before the value
            fitting: dict[bytes, list[int]] = {}  # the options that each possible token can become
            for text in (token.token, *dict(token.alternatives)):
                reached = _reached(text, lead, is_first=begin <= start)
                fitting[text] = [] if reached is None else _fitting(before + reached, possible, written)
            chosen = fitting.pop(token.token)
            shared += self._share(index, fitting, mass, shares)
            mass *= _probability(token.logprob)
            if len(chosen) <= 1:
                if chosen:
                    shares[chosen[0]] += mass
                return _scaled(leaf, shares, sum(shares) - shared, "logprobs") if chosen else None
            possible = chosen
        # the reply ended with the value, which is also the beginning of another option
        complete = [one for one in possible if value in written[one]]
        if len(complete) != 1:
            return None
        shares[complete[0]] += mass
        return _scaled(leaf, shares, sum(shares) - shared, "logprobs")

    def _share(
        self, index: int, fitting: Mapping[bytes, Sequence[int]], mass: float, shares: list[float]
    ) -> float:
        """Add the probability of each token that was not written to the options that it can become.

        Return what several options share. ``mass`` is the probability of the text before the token.
        """
        logprobs, shared = dict(self._tokens[index].alternatives), 0.0
        for text, options in fitting.items():
            part = mass * _probability(logprobs[text])
            for one in options:
                shares[one] += part / len(options)
            if len(options) > 1:
                shared += part
                if part >= _SMALLEST_SHARED:
                    self.shared.append((index, text))
        return shared


def _fitting(text: bytes, possible: Sequence[int], written: Sequence[set[bytes]]) -> list[int]:
    """Return which of the possible options a text can become, given how JSON can represent each option."""
    return [one for one in possible if any(_can_become(text, spelling) for spelling in written[one])]


def _reached(text: bytes, lead: bytes, *, is_first: bool) -> bytes | None:
    """Return the part of a token that belongs to the value; None if the token ends before the value.

    White space before the value is layout, so tokens that differ only in this white space count the same.
    """
    if not is_first:
        return text
    stripped = lead.rstrip(_SPACES)
    if not text.startswith(stripped):
        return None
    rest = text[len(stripped) :]
    added = rest.lstrip(_SPACES)
    return added or None  # white space alone says nothing about the value


def _can_become(text: bytes, option: bytes) -> bool:
    """Return True if ``text`` is the beginning of an option, or an option followed by more text."""
    if option.startswith(text):
        return True
    return text.startswith(option) and (option[-1:] in b'"' or text[len(option)] in _ENDS)


def _spellings(data: Any, *, is_bare: bool) -> set[bytes]:
    """Return the texts by which JSON can represent an answer: with and without Unicode escapes."""
    if is_bare:
        return {data.encode()}
    return {json.dumps(data, ensure_ascii=is_ascii).encode() for is_ascii in (False, True)}


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0))  # a faulty server may send numbers that are too large


# --- Reading replies with probabilities ---

_INDEX = re.compile(r"\[\d+\]")


class Adjustment(NamedTuple):
    """The calibrations and the threshold that are applied to the probabilities of one answer.

    Attributes:
        method: The method, for error messages.
        calibrations: The calibrations of the answer, one for each model and source; may be empty.
        on_mismatch: What happens if no calibration is for the reply's model: "error" or "raw".
        threshold: For a bool: the probability from which it is True. For a Decision: the probability from
            which ``at()`` returns the value; None to use the threshold of the calibration.
        members: For a ``Decision[list[…]]``: the calibrations of its members, if each has some.
    """

    method: str = ""
    calibrations: tuple[CalibrationEntry, ...] = ()
    on_mismatch: str = "error"
    threshold: float | None = None
    members: tuple[tuple[CalibrationEntry, ...], ...] = ()

    @property
    def accepted_from(self) -> float | None:
        """The lowest probability at which an answer is accepted, from a threshold or the calibration."""
        if self.threshold is not None:
            return self.threshold
        promised = [_promised(entries) for entries in self.members or (self.calibrations,)]
        return None if None in promised else max(value for value in promised if value is not None)

    def calibration_for(self, path: str, source: str, model: str) -> CalibrationEntry | None:
        """Return the calibration for a reply's model and source of probabilities, or None.

        Raises DefinitionError if all calibrations are for other models or sources, unless ``on_mismatch`` is
        "raw".
        """
        for entry in self.calibrations:
            if entry.model == model and _kind(entry.source) == _kind(source):
                return entry
        if self.calibrations and self.on_mismatch == "error":
            calibrated = ", ".join(f"{entry.model} ({entry.source})" for entry in self.calibrations)
            message = (
                f"{path} is calibrated for {calibrated}, and the reply is from {model} ({source}); "
                'calibrate it for this model, or pass Calibration.read(FILE, on_mismatch="raw")'
            )
            raise DefinitionError([DefinitionProblem(self.method, message)])
        return None


def _promised(entries: Sequence[CalibrationEntry]) -> float | None:
    return next((entry.threshold["value"] for entry in entries if entry.threshold is not None), None)


def _kind(source: str) -> str:
    return source.partition("(")[0]  # "votes(4)" and "votes(5)" are one kind


class ProbableReading(NamedTuple):
    """A value read from a model's reply, with the probabilities of the answers in it.

    Attributes:
        reading: The value and the coercions.
        probabilities: The probabilities of the possible answers, by JSON path.
        certainty: The lowest probability of an answer in the value, with its JSON path; None if no
            probability is known.
        notes: Why there are no probabilities.
        source: Where the probabilities come from; "" if there are none.
        decisions: The decisions in the value that have probabilities.
        doubt: An answer whose probability is below its threshold: the probability, the JSON path and the
            threshold. None if there is none.
    """

    reading: Reading[object]
    probabilities: dict[str, dict[Any, float]]
    certainty: tuple[float, str] | None
    notes: tuple[str, ...] = ()
    source: str = ""
    decisions: tuple[Decision[Any], ...] = ()
    doubt: tuple[float, str, float] | None = None


def read_with_probabilities(
    output_format: OutputFormat,
    reply: ChatReply,
    *,
    required: bool,
    adjustments: Mapping[str, Adjustment],
) -> ProbableReading:
    """Parse a reply to a value whose Decision objects contain the probabilities of the answers.

    ``adjustments`` are the calibrations and thresholds by JSON path, with ``[]`` for each index. Raises
    OutputParsingError if the probabilities of a decision cannot be read and are ``required``.
    """
    parser = output_format.parser
    probabilities = {} if parser is None else find_probabilities(parser.node, reply)
    if parser is None or not probabilities:
        with collect_decisions() as decisions:
            reading = output_format.read(reply)
        if decisions and required:
            raise _missing(reply.text, [decision.path for decision in decisions])
        has_none = not reply.logprobs and not reply.probabilities
        notes = ("no probabilities: the reply has none" if has_none else "no probabilities for this text",)
        return ProbableReading(reading, {}, None, notes)
    return complete_reading(
        parser,
        reply.text,
        probabilities,
        lambda: output_format.read(reply),
        adjustments,
        required=required,
        model=reply.model,
    )


def complete_reading(
    parser: TypeParser[object],
    text: str,
    probabilities: Mapping[str, Probabilities],
    read: Callable[[], Reading[object]],
    adjustments: Mapping[str, Adjustment],
    *,
    required: bool,
    model: str,
) -> ProbableReading:
    """Apply calibrations and thresholds to an answer's probabilities, then parse the answer.

    ``read`` parses the text as it is. Where a calibration or a threshold changes an answer, the changed text
    is parsed instead. ``model`` is the name of the model that answered.
    """
    root = parser.node
    prefix = f"$.{root.field}" if isinstance(root, EnvelopeNode) else "$"

    def adjustment(path: str) -> Adjustment:
        return adjustments.get(_INDEX.sub("[]", _public(path, prefix))) or Adjustment()

    answers = {
        path: _adjusted(one, _public(path, prefix), adjustment(path), model)
        for path, one in probabilities.items()
    }
    changed = [answer for answer in answers.values() if answer.is_changed]
    with collect_decisions() as decisions:
        reading = parser.read(_rewritten(text, changed)) if changed else read()
    groups = _by_decision(answers)
    # By path: a union may have read the same decision more than once.
    complete = {one.path: one for one in decisions if one.path in groups}
    missing = [one.path for one in decisions if one.path not in groups]
    if missing and required:
        raise _missing(text, missing)
    # not the threshold of a bool, from which it is True
    accepted_from = {answer.path: answer.promised for answer in answers.values()}
    for decision in filter(lambda one: one.path in groups, decisions):
        threshold = _complete(decision, groups[decision.path], adjustment(decision.path).threshold)
        accepted_from |= dict.fromkeys((answer.path for answer in groups[decision.path]), threshold)
    return _with_probabilities(reading, list(answers.values()), tuple(complete.values()), accepted_from)


def _with_probabilities(
    reading: Reading[object],
    answers: Sequence[_Answer],
    decisions: tuple[Decision[Any], ...],
    accepted_from: Mapping[str, float | None],
) -> ProbableReading:
    """Return a value with the probabilities of its answers.

    ``accepted_from`` are the thresholds by the paths of the answers.
    """
    coercions = [_coercion(answer) for answer in answers if answer.is_changed]
    certainties = [(answer.probabilities.of_answer, answer.path) for answer in answers]
    limits = [(share, path, accepted_from[path]) for share, path in certainties]
    return ProbableReading(
        replace(reading, coercions=(*coercions, *reading.coercions)) if coercions else reading,
        {answer.path: answer.probabilities.by_value() for answer in answers},
        min(certainties, default=None),
        source=answers[0].probabilities.source,
        decisions=decisions,
        doubt=min(
            ((share, path, limit) for share, path, limit in limits if limit is not None and share < limit),
            default=None,
        ),
    )


class _Answer(NamedTuple):
    """An answer in a reply, after its calibration and threshold were applied.

    Attributes:
        path: Its JSON path in the value.
        written: The answer that the reply gives.
        entry: Its calibration, if it has one.
        probabilities: Its probabilities after the calibration, with the answer that they give.
    """

    path: str
    written: Leaf
    entry: CalibrationEntry | None
    probabilities: Probabilities

    @property
    def is_changed(self) -> bool:
        """True if the calibration or the threshold gives another answer."""
        return self.written != self.probabilities.leaf

    @property
    def promised(self) -> float | None:
        """The probability from which its calibration accepts it."""
        return None if self.entry is None else _promised((self.entry,))


def _by_decision(answers: Mapping[str, _Answer]) -> dict[str, list[_Answer]]:
    """Return the answers by the path of their decision, which is that of the list for its members."""
    groups: dict[str, list[_Answer]] = {}
    for path, answer in answers.items():
        groups.setdefault(answer.written.list_path or path, []).append(answer)
    return groups


def _complete(decision: Decision[Any], answers: Sequence[_Answer], threshold: float | None) -> float | None:
    """Give a decision the probabilities of its answers, and return the probability that accepts it."""
    promised = [answer.promised for answer in answers]
    if threshold is None and None not in promised:
        # For a list: the promises of all members hold at the highest of their thresholds.
        threshold = max(limit for limit in promised if limit is not None)
    first = answers[0].probabilities
    is_list = first.leaf.list_path is not None
    decision.complete(
        {answer.written.member: answer.probabilities.shares[1] for answer in answers}
        if is_list
        else first.by_value(),
        first.source,
        min(answer.probabilities.seen for answer in answers),
        calibrated=all(answer.entry is not None for answer in answers),
        threshold=threshold,
    )
    return threshold


def _coercion(answer: _Answer) -> Coercion:
    old, new = answer.written, answer.probabilities.leaf
    return Coercion(
        answer.path,
        "answer by its calibrated probability or threshold",
        json.dumps(old.options[old.answer][0], ensure_ascii=False),
        json.dumps(new.options[new.answer][0], ensure_ascii=False),
    )


def _public(path: str, prefix: str) -> str:
    """Return the JSON path of a value in the answer, without the path of the wrapper object that was sent."""
    return f"${path.removeprefix(prefix).removeprefix('$')}"


def _adjusted(one: Probabilities, path: str, adjustment: Adjustment, model: str) -> _Answer:
    """Apply a calibration and a threshold to an answer's probabilities, and change the answer to match."""
    entry = adjustment.calibration_for(path, one.source, model)
    leaf, shares, threshold = one.leaf, one.shares, adjustment.threshold
    if entry is not None and entry.calibrator.kind != "none":
        shares = entry.calibrator.apply(shares)
        leaf = replace(leaf, answer=shares.index(max(shares)))
    if threshold is not None and not leaf.is_decision:
        values = [value for _, value in leaf.options]
        leaf = replace(leaf, answer=values.index(shares[values.index(True)] >= threshold))
    return _Answer(path, one.leaf, entry, one._replace(leaf=leaf, shares=shares))


def _rewritten(text: str, changed: Sequence[_Answer]) -> str:
    """Return the text of a model's reply with some answers replaced by other answers."""
    for answer in sorted(changed, key=lambda one: -one.written.start):
        old, new = answer.written, answer.probabilities.leaf
        data = new.options[new.answer][0]
        written = str(data) if old.is_bare else json.dumps(data, ensure_ascii=False)
        text = f"{text[: old.start]}{written}{text[old.end :]}"
    return text


def _missing(text: str, paths: Sequence[str]) -> OutputParsingError:
    message = "its probabilities cannot be read from this reply"
    return OutputParsingError(text, [Problem(path, message) for path in paths])


# --- Calibration ---


FORMAT = 1
_SMALLEST = 1e-6  # no probability is 0 or 1: examples cannot prove that
Kind: TypeAlias = Literal["none", "platt", "temperature", "isotonic"]


def logit(probability: float) -> float:
    """Return the logarithm of the odds of a probability."""
    clipped = min(max(probability, _SMALLEST), 1 - _SMALLEST)
    return math.log(clipped / (1 - clipped))


def sigmoid(value: float) -> float:
    """Convert log-odds (the logarithm of the odds) to a probability."""
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    odds = math.exp(value)
    return odds / (1 + odds)


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Corrects the probabilities that a model gives for the possible answers to one question.

    Attributes:
        kind: "platt" (a slope and an offset for the logit of the second of two answers), "temperature" (an
            inverse temperature, and an offset for each answer), "isotonic" (steps for the probability of
            the second of two answers), or "none".
        parameters: The numbers of the correction. For "isotonic", the limits of the steps and their values.
    """

    kind: Kind = "none"
    parameters: tuple[float, ...] = ()

    def apply(self, probabilities: Sequence[float]) -> tuple[float, ...]:
        """Return the corrected probabilities of the possible answers, which add up to 1."""
        match self.kind:
            case "platt":
                slope, offset = self.parameters
                second = sigmoid(slope * logit(probabilities[1]) + offset)
                return _clipped((1 - second, second))
            case "isotonic":
                count = len(self.parameters) // 2
                step = bisect_right(self.parameters[1:count], probabilities[1])
                second = self.parameters[count + step]
                return _clipped((1 - second, second))
            case "temperature":
                factor, *offsets = self.parameters
                logs = [
                    factor * math.log(max(share, _SMALLEST)) + offset
                    for share, offset in zip(probabilities, offsets, strict=True)
                ]
                highest = max(logs)
                return _clipped([math.exp(value - highest) for value in logs])
            case _:
                return tuple(probabilities)


def _clipped(shares: Sequence[float]) -> tuple[float, ...]:
    total = sum(shares)
    clipped = [min(max(share / total, _SMALLEST), 1 - _SMALLEST) for share in shares]
    total = sum(clipped)
    return tuple(share / total for share in clipped)


@dataclass(frozen=True, slots=True)
class CalibrationEntry:
    """The correction for the probabilities of one answer of a method, and how accurate the answers are.

    Attributes:
        method: The method, ``Service.method``.
        path: The JSON path of the answer.
        question: The SHA-256 hash of the prompt and the description of the answer.
        options: The possible answers as JSON values.
        source: Where the probabilities came from, such as "logprobs".
        model: The model, as its replies name it.
        n: The number of labelled examples.
        calibrator: The correction of the probabilities.
        before: Measures of the probabilities as they were: "brier", "log_loss", "auroc", "ece" and
            "ece_if_perfect".
        after: The same measures of the corrected probabilities, each from a correction that was fitted
            without the example.
        threshold: The probability from which an answer is accepted: its "value", the promised "error" and
            "confidence", the "coverage" and the "upper" bound of the error; None if no threshold keeps it.
        made: The date.
    """

    method: str
    path: str
    question: str
    options: tuple[Any, ...]
    source: str
    model: str
    n: int
    calibrator: Calibrator
    before: Mapping[str, float | None] = field(default_factory=dict)
    after: Mapping[str, float | None] = field(default_factory=dict)
    threshold: Mapping[str, float] | None = None
    made: str = ""


@dataclass(frozen=True)
class Calibration:
    """Corrections for the answer probabilities of a service, applied by ``create(calibration=…)``.

    Attributes:
        entries: The calibrations of single answers.
        on_mismatch: What happens if a reply comes from another model or source: "error", or "raw" to use its
            probabilities as they are.
    """

    entries: tuple[CalibrationEntry, ...]
    on_mismatch: Literal["error", "raw"] = "error"

    def __post_init__(self) -> None:
        if self.on_mismatch not in ("error", "raw"):
            message = f'on_mismatch is {self.on_mismatch!r}; it must be "error" or "raw"'
            raise DefinitionError([DefinitionProblem("Calibration", message)])

    @classmethod
    def read(cls, path: str | Path, *, on_mismatch: Literal["error", "raw"] = "error") -> Calibration:
        """Read calibrations from a JSON file; raise DefinitionError if the file is missing or damaged."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
            if data["format"] != FORMAT:
                raise ValueError(f"it has the format {data['format']!r}, this version reads {FORMAT}")
            entries = tuple(map(_entry_from_dict, data["calibrations"]))
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
            raise DefinitionError([DefinitionProblem(str(path), problem)]) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            problem = f"it is not a calibration file: {reason}"
            raise DefinitionError([DefinitionProblem(str(path), problem)]) from error
        return cls(entries, on_mismatch)

    def write(self, path: str | Path) -> None:
        """Write the calibrations to a JSON file, keeping the other calibrations that it already contains."""
        target = Path(path)
        others = Calibration.read(target).entries if target.exists() else ()
        merged = {_key(entry): entry for entry in (*others, *self.entries)}
        data = {"format": FORMAT, "calibrations": [asdict(merged[key]) for key in sorted(merged)]}
        target.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def find(self, method: str, path: str) -> tuple[CalibrationEntry, ...]:
        """Return the calibrations for an answer, one for each model and source of probabilities."""
        return tuple(entry for entry in self.entries if (entry.method, entry.path) == (method, path))

    def __str__(self) -> str:
        return "\n".join(map(_entry_text, self.entries)) or "no calibrations"


def _key(entry: CalibrationEntry) -> tuple[str, str, str, str]:
    return entry.method, entry.path, entry.model, entry.source


def _entry_from_dict(data: Mapping[str, Any]) -> CalibrationEntry:
    entry = CalibrationEntry(**data)
    calibrator = Calibrator(data["calibrator"]["kind"], tuple(data["calibrator"]["parameters"]))
    entry = replace(entry, calibrator=calibrator, options=tuple(data["options"]))
    if calibrator.kind not in get_args(Kind):
        raise ValueError(f"the kind {calibrator.kind!r} is unknown")
    shares = [1 / len(entry.options)] * len(entry.options)
    if not math.isclose(sum(calibrator.apply(shares)), 1):  # also fails for a wrong number of parameters
        raise ValueError(f"the parameters of {entry.method} {entry.path} are wrong")
    return entry


def _entry_text(entry: CalibrationEntry) -> str:
    lines = [
        f"{entry.method} {entry.path}: {entry.n} examples, {entry.model}, {entry.source}",
        f"  calibration: {entry.calibrator.kind}",
    ]
    for name, label in (
        ("brier", "Brier score"),
        ("log_loss", "log loss"),
        ("auroc", "AUROC"),
        ("ece", "calibration error"),
        ("ece_if_perfect", "  of perfect probabilities"),
    ):
        before, after = entry.before.get(name), entry.after.get(name)
        if before is not None and after is not None:
            lines.append(f"  {label:28} {before:.3f} -> {after:.3f}")
    if entry.threshold is None:
        lines.append("  threshold: none keeps the error below the limit; label more examples")
    else:
        lines.append(
            "  threshold: {value:.2f} answers {coverage:.0%} with an error of at most {error:.0%} "
            "(confidence {confidence:.0%}, bound {upper:.1%})".format_map(entry.threshold)
        )
    return "\n".join(lines)
