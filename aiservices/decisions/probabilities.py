"""Find the probability of each possible answer, such as True and False.

The probabilities come from the tokens of the reply or from a decision endpoint. A token's probability is read
at the position where the possible answers begin to differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from output_parsers.result.reading import Json
from output_parsers.types.node import Node

from ..models.messages import ChatReply, TokenLogprob
from .answers import Leaf, answer_leaves, same_json

_SPACES = b" \t\r\n"
_ENDS = b",]} \t\r\n"  # what may follow a JSON value
_SMALLEST_SHARED = 0.01  # the probability of a token for which a further request is worth its time


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

    def by_value(self) -> dict[object, float]:
        """Return the probability of each possible answer."""
        return {value: share for (_, value), share in zip(self.leaf.options, self.shares, strict=True)}

    @property
    def of_answer(self) -> float:
        """The probability of the answer that the model chose."""
        return self.shares[self.leaf.answer]


def find_probabilities(node: Node[object], reply: ChatReply) -> dict[str, Probabilities]:
    """Return a dict from JSON paths to the probabilities of the answers at these paths."""
    leaves = answer_leaves(node, reply.text) if reply.logprobs or reply.probabilities else []
    by_path: dict[str, Probabilities] = {}
    tokens = _Tokens(reply.logprobs, reply.text) if reply.logprobs else None
    for leaf in leaves:
        stated = (reply.probabilities or {}).get(leaf.path)
        if stated is not None:
            probabilities = _of_endpoint(leaf, stated)
        else:
            probabilities = None if tokens is None else tokens.probabilities_of(leaf)
        if probabilities is not None:
            by_path[leaf.path] = probabilities
    incomplete = {leaf.list_path for leaf in leaves if leaf.path not in by_path} - {None}
    return {path: one for path, one in by_path.items() if one.leaf.list_path not in incomplete}


def _of_endpoint(leaf: Leaf, stated: Sequence[tuple[object, float]]) -> Probabilities | None:
    shares = [sum(share for data, share in stated if same_json(data, option)) for option, _ in leaf.options]
    return _scaled(leaf, shares, sum(shares), "decisions")


def _scaled(leaf: Leaf, shares: Sequence[float], seen: float, source: str) -> Probabilities | None:
    total = sum(shares)
    if not 0 < total < math.inf:
        return None
    return Probabilities(leaf, tuple(share / total for share in shares), min(1.0, seen), source)


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


def _spellings(data: Json, *, is_bare: bool) -> set[bytes]:
    """Return the texts by which JSON can represent an answer: with and without Unicode escapes."""
    if is_bare:
        return {data.encode()}
    return {json.dumps(data, ensure_ascii=is_ascii).encode() for is_ascii in (False, True)}


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0))  # a faulty server may send numbers that are too large
