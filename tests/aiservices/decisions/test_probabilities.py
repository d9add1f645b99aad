"""Probabilities of answers: read from the tokens of a reply, or from a decision endpoint."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from aiservices import AiMessage, ChatReply, TokenLogprob
from aiservices.decisions.answers import answer_leaves
from aiservices.decisions.probabilities import Probabilities, find_probabilities
from output_parsers import Decision, parser_for

Token = str | dict[str, float]
Topic = Literal["billing", "bug", "support"]


def tokens(*parts: Token) -> tuple[TokenLogprob, ...]:
    """Make tokens; of a dict with probabilities, the first token is the one in the reply."""
    made = []
    for part in parts:
        shares = {part: 1.0} if isinstance(part, str) else part
        alternatives = tuple((text.encode(), math.log(share)) for text, share in shares.items())
        made.append(TokenLogprob(*alternatives[0], alternatives))
    return tuple(made)


def found(tp: Any, *parts: Token, envelope: bool = False) -> dict[str, Probabilities]:
    logprobs = tokens(*parts)
    text = b"".join(token.token for token in logprobs).decode()
    parser = parser_for(tp)
    node = parser.with_envelope().node if envelope else parser.node
    return find_probabilities(node, ChatReply(AiMessage(text.strip()), logprobs=logprobs))


def shares(probabilities: Probabilities) -> dict[object, float]:
    assert sum(probabilities.shares) == pytest.approx(1)
    return {value: round(share, 3) for value, share in probabilities.by_value().items()}


def test_a_boolean_is_decided_by_one_token() -> None:
    of_value = found(
        bool, '{"', "value", '":', {" true": 0.7, " false": 0.28, ' "': 0.02}, "}", envelope=True
    )
    (one,) = of_value.values()
    assert (list(of_value), shares(one), round(one.seen, 3)) == (
        ["$.value"],
        {True: 0.714, False: 0.286},
        0.98,
    )


def test_white_space_and_the_end_of_the_object_may_be_in_the_token() -> None:
    parts = ('{"value":', {" true}": 0.7, " false": 0.2, " false}": 0.05, "true": 0.01})
    (one,) = found(bool, *parts, envelope=True).values()
    assert shares(one) == {True: 0.74, False: 0.26}


def test_options_that_begin_alike_are_decided_by_a_later_token() -> None:
    parts = ('{"value": "', {"b": 0.6, "support": 0.39}, {"illing": 0.9, "ug": 0.1}, '"}')
    (one,) = found(Topic, *parts, envelope=True).values()
    assert shares(one) == {"billing": 0.545, "bug": 0.061, "support": 0.394}
    assert one.seen == pytest.approx(0.99)


def test_what_several_options_share_is_split_and_not_seen() -> None:
    (one,) = found(Topic, '{"value": "', {"support": 0.6, "b": 0.39}, '"}', envelope=True).values()
    assert shares(one) == {"billing": 0.197, "bug": 0.197, "support": 0.606}
    assert one.seen == pytest.approx(0.6)


def test_an_option_may_be_the_beginning_of_another() -> None:
    (one,) = found(Literal[1, 10, 2], {"1": 0.8, "2": 0.1}, {"0": 0.3, "\n": 0.7}).values()
    assert shares(one) == {1: 0.622, 10: 0.267, 2: 0.111}
    (one,) = found(Literal[1, 10, 2], {"1": 0.8, "2": 0.1}).values()  # the reply ends there
    assert shares(one) == {1: 0.889, 10: 0.0, 2: 0.111}


def test_a_token_may_be_part_of_a_character() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    logprobs = (
        TokenLogprob(b'"caf', 0.0),
        TokenLogprob(first, math.log(0.6), ((first, math.log(0.6)), (b"e", math.log(0.4)))),
        TokenLogprob(second, 0.0, ((second, 0.0),)),
        TokenLogprob(b'"', 0.0),
    )
    reply = ChatReply(AiMessage('"café"'), logprobs=logprobs)
    (one,) = find_probabilities(parser_for(Literal["café", "cafe"]).node, reply).values()
    assert shares(one) == {"café": 0.6, "cafe": 0.4}


def test_an_answer_without_quotes_is_read() -> None:
    (one,) = found(Literal["ja", "nein"], {"ja": 0.8, "ne": 0.1, "no": 0.05}).values()
    assert shares(one) == {"ja": 0.889, "nein": 0.111}


@dataclass
class Ticket:
    urgent: bool
    topics: list[Topic]
    text: str
    next: Topic | None


def test_all_answers_in_a_record_are_read() -> None:
    of_value = found(
        Ticket,
        '```json\n{"urgent": ',
        {"true": 0.6, "false": 0.4},
        ', "topics": ["',
        {"bug": 0.5, "billing": 0.3, "sup": 0.2},
        '"], "text": "{\\"urgent\\": false}", "next":',
        {" null": 0.5, ' "': 0.5},
        "}\n```",
    )
    assert {path: shares(one) for path, one in of_value.items()} == {
        "$.urgent": {True: 0.6, False: 0.4},
        "$.topics[0]": {"billing": 0.3, "bug": 0.5, "support": 0.2},
        # The other half begins one of three options, so it is split between them.
        "$.next": {"billing": 0.167, "bug": 0.167, "support": 0.167, None: 0.5},
    }
    assert of_value["$.next"].seen == pytest.approx(0.5)


@pytest.mark.parametrize(
    "text",
    [
        '{"urgent": true, "topics": []',
        '{"urgent": true, "urgent": false}',
        "{'urgent': true}",
        "",
        "{,}",
        "yes",
    ],
)
def test_text_that_is_not_exact_json_has_no_leaves(text: str) -> None:
    assert answer_leaves(parser_for(Ticket).node, text) == []


def test_the_value_of_an_unknown_key_is_not_the_answer_of_a_field() -> None:
    class Open(BaseModel, extra="allow"):
        flags: dict[str, bool] = {}

    assert answer_leaves(parser_for(Open).node, '{"urgent": true}') == []
    assert [leaf.path for leaf in answer_leaves(parser_for(Open).node, '{"flags": {"urgent": true}}')] == [
        "$.flags.urgent"
    ]


def test_tokens_that_are_not_those_of_the_text_are_not_used() -> None:
    reply = ChatReply(AiMessage("true"), logprobs=tokens("false"))
    assert find_probabilities(parser_for(bool).node, reply) == {}


def test_a_mark_before_the_answer_may_be_missing_in_the_text() -> None:
    reply = ChatReply(AiMessage("true"), logprobs=tokens("Answer: ", {"true": 0.8, "false": 0.2}))
    (one,) = find_probabilities(parser_for(bool).node, reply).values()
    assert shares(one) == {True: 0.8, False: 0.2}


def test_the_probabilities_of_an_endpoint_are_taken_as_they_are() -> None:
    reply = ChatReply(AiMessage("true"), probabilities={"$": ((False, 0.03), (True, 0.96))})
    (one,) = find_probabilities(parser_for(bool).node, reply).values()
    assert (shares(one), one.source, round(one.seen, 2)) == ({True: 0.97, False: 0.03}, "decisions", 0.99)


class Name(Enum):
    QUOTED = 'say "hi"'
    ACCENT = "née"
    OTHER = "日本"
    LOWER = "yes"
    UPPER = "YES"


@given(st.sampled_from(list(Name)), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_any_split_into_tokens_gives_sums_of_one(name: Name, random: Any) -> None:
    written = json.dumps({"value": name.value}, ensure_ascii=False).encode()
    parts: list[TokenLogprob] = []
    rest = written
    while rest:
        size = random.randint(1, 4)
        others = tuple((random.choice([b"y", b"Y", b'"', b"n", b"s", b"}", b" "]), -3.0) for _ in range(3))
        parts.append(TokenLogprob(rest[:size], -0.1, ((rest[:size], -0.1), *others)))
        rest = rest[size:]
    reply = ChatReply(AiMessage(written.decode()), logprobs=tuple(parts))
    of_value = find_probabilities(parser_for(Decision[Name]).with_envelope().node, reply)
    (one,) = of_value.values()
    assert sum(one.shares) == pytest.approx(1)
    assert 0 < one.seen <= 1
    assert one.leaf.options[one.leaf.answer][1] is name


def test_many_options_are_read_in_time() -> None:
    names = [f"option {number}" for number in range(255)]
    choice = Literal[tuple(names)]  # type: ignore[valid-type]
    parts = ('{"value": "option', {" 2": 0.5, " 1": 0.5}, {"5": 0.6, '"': 0.4}, {"4": 0.5, '"': 0.5}, '"}')
    (one,) = found(choice, *parts, envelope=True).values()
    assert one.leaf.options[one.leaf.answer][1] == "option 254"
    assert sum(one.shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("tp", "parts"),
    [
        (Literal["é", "e"], ('{"value": "', {"\\u00e9": 0.6, "e": 0.4}, '"}')),
        (Literal["😀", "x"], ('{"value": "', {"\\ud83d": 0.6, "x": 0.4}, '\\ude00"}')),
        (Literal['say "a"', 'say "b"'], ('{"value": "say \\"', {"a": 0.6, "b": 0.4}, '\\""}')),
        (Literal["US", "us"], ('{"value": "', {"US": 0.6, "us": 0.4}, '"}')),
        (Literal["", "a"], ('{"value": "', {'"}': 0.6, "a": 0.4})),
        (Literal["null", None], ('{"value": ', {'"null"': 0.6, "null": 0.4}, "}")),
        (Literal[1, "1"], ('{"value": ', {"1": 0.6, '"1"': 0.4}, "}")),
        (Literal["ναι", "όχι"], ('{"value": "', {"ν": 0.6, "ό": 0.4}, 'αι"}')),
    ],
)
def test_odd_options_are_told_apart(tp: Any, parts: tuple[Token, ...]) -> None:
    (one,) = found(tp, *parts, envelope=True).values()
    assert [round(share, 9) for share in one.shares] == [0.6, 0.4]
    assert one.seen == pytest.approx(1)


@pytest.mark.parametrize("logprob", [1e6, math.inf, 5.0, 0.0])
def test_impossible_log_probabilities_do_not_break_the_sum(logprob: float) -> None:
    tokens = (
        TokenLogprob(b'{"value": "', logprob),
        TokenLogprob(b"a", logprob, ((b"b", logprob), (b"x", math.nan))),
        TokenLogprob(b'"}', logprob),
    )
    node = parser_for(Literal["a", "b"]).with_envelope().node
    reply = ChatReply(AiMessage('{"value": "a"}'), logprobs=tokens)
    (one,) = find_probabilities(node, reply).values()
    assert one.shares == (0.5, 0.5)
