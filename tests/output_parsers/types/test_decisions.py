"""Decision and Scale: their values, their JSON, and the types that they refuse."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from output_parsers import Decision, OutputParsingError, Scale, UnsupportedTypeError, parser_for
from output_parsers.types.decisions import collect_decisions, values_with_details


class Team(Enum):
    BILLING = "billing"
    SALES = "sales"


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 4


class Shade(Enum):
    DARK = "dark"
    LIGHT = "light"


@dataclass
class Ticket:
    team: Decision[Team]
    severity: Scale[Severity]


class Model(BaseModel):
    team: Decision[Team]
    tag: Decision[Literal["a", "b"] | None]


class Typed(TypedDict):
    team: Decision[Team]


@dataclass
class Post:
    teams: Decision[list[Team]]
    tags: Decision[set[Literal["a", "b"]]]


SPAM = Decision(True, {True: 0.9, False: 0.1}, source="logprobs", seen=0.8)
TEAMS = Decision([Team.SALES], {Team.BILLING: 0.3, Team.SALES: 0.9}, source="logprobs", seen=0.7)
LEVEL = Scale(Severity.HIGH, {Severity.LOW: 0.1, Severity.MEDIUM: 0.3, Severity.HIGH: 0.6})


def test_a_decision_has_the_probability_of_its_value() -> None:
    assert (SPAM.value, SPAM.probability, round(SPAM.margin, 9)) == (True, 0.9, 0.8)
    assert (SPAM.at(0.9), SPAM.at(0.91)) == (True, None)


def test_the_value_of_a_decision_may_be_less_likely_than_another() -> None:
    decision = Decision("a", {"a": 0.4, "b": 0.6})
    assert (decision.probability, round(decision.margin, 9)) == (0.4, 0.2)


def test_a_decision_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"use its \.value, or \.at\(0\.9\) is not None"):
        bool(SPAM)


def test_a_decision_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        SPAM.value = False
    with pytest.raises(AttributeError, match="cannot be changed"):
        del SPAM.value
    with pytest.raises(TypeError):
        SPAM.probabilities[True] = 1.0  # type: ignore[index]


def test_a_value_needs_a_probability() -> None:
    with pytest.raises(ValueError, match="no entry for the value 'c'"):
        Decision("c", {"a": 0.4, "b": 0.6})


def test_probabilities_that_cannot_be_those_of_the_answers_are_an_error() -> None:
    wrong: list[tuple[Any, dict[Any, Any], str]] = [
        (
            True,
            {True: 0.6},
            "sum to 0.6, not to 1; pass the probability of each possible answer",
        ),
        ("a", {"a": 0.6, "b": 0.6}, "the probabilities sum to 1.2, not to 1"),
        (True, {1: 0.6, 0: 0.4}, "the probabilities have an entry for 1, which is not a bool"),
        (Team.SALES, {Team.SALES: 0.6, "billing": 0.4}, "an entry for 'billing', which is not a Team"),
        ([Team.SALES], {"sales": 0.6}, "an entry for 'sales', which is not a Team"),
        ("a", {"a": 1.6, "b": -0.6}, "the probability of 'a' is 1.6; it must be a number from 0 to 1"),
        (True, {True: math.nan, False: 0.4}, "the probability of True is nan"),
        (True, {True: "0.6", False: 0.4}, "the probability of True is '0.6'"),
        (True, {True: True, False: 0}, "the probability of True is True"),
        ([Team.SALES], {Team.SALES: 1.1}, "the probability of .* is 1.1"),
    ]
    for value, probabilities, message in wrong:
        with pytest.raises(ValueError, match=message):
            Decision(value, probabilities)
    for value, probabilities in (
        ("a", {"a": 0.33, "b": 0.33, "c": 0.33}),
        ([Team.SALES], {Team.SALES: 0.9, Team.BILLING: 0.2}),
        (None, {None: 0.6, Team.SALES: 0.4}),
        (1, {1: 0.3, 2: 0.7}),
    ):
        assert Decision(value, probabilities).probabilities == probabilities


def test_probabilities_of_options_that_the_type_does_not_have_cannot_be_written() -> None:
    decision = Decision("a", {"a": 0.6, "c": 0.4})
    with pytest.raises(ValueError, match='expected one of "a", "b", found \'c\''):
        parser_for(Decision[Literal["a", "b"]]).write(decision)


def test_a_decision_without_probabilities_has_only_a_value() -> None:
    decision = Decision(Team.SALES)
    assert (decision.value, dict(decision.probabilities)) == (Team.SALES, {})
    with pytest.raises(ValueError, match="has no probabilities"):
        _ = decision.probability
    with pytest.raises(ValueError, match="pass a threshold"):
        decision.at()


def test_equal_decisions_have_equal_values_and_probabilities() -> None:
    assert Decision(True) == SPAM
    assert Decision(True, {True: 0.8, False: 0.2}) != SPAM
    assert Decision(True) != Decision(1)
    assert Decision(Severity.HIGH) != LEVEL
    assert SPAM.__eq__(True) is NotImplemented
    assert hash(Decision(True)) == hash(SPAM)


def test_decisions_can_be_copied_and_pickled() -> None:
    for decision in (SPAM, LEVEL, TEAMS, Decision(Team.SALES), Decision([Team.SALES])):
        for other in (copy.deepcopy(decision), pickle.loads(pickle.dumps(decision))):
            assert (other, repr(other), type(other)) == (decision, repr(decision), type(decision))


def test_a_decision_has_a_short_representation() -> None:
    assert repr(SPAM) == "Decision(True, {True: 0.9, False: 0.1}, source='logprobs')"
    assert repr(Decision(1)) == "Decision(1)"


def test_a_scale_has_a_mean_and_the_probability_of_at_least_a_level() -> None:
    assert LEVEL.levels == (Severity.LOW, Severity.MEDIUM, Severity.HIGH)
    assert (round(LEVEL.mean, 9), LEVEL.most_likely) == (3.1, Severity.HIGH)
    assert round(LEVEL.at_least(Severity.MEDIUM), 9) == 0.9


def test_levels_that_are_not_numbers_count_by_position() -> None:
    assert Scale(Shade.DARK, {Shade.DARK: 0.75, Shade.LIGHT: 0.25}).mean == 0.25


# lists: a yes or no for each member


def test_a_list_is_as_certain_as_its_least_certain_member() -> None:
    assert (TEAMS.probability, round(TEAMS.margin, 9)) == (0.7, 0.4)
    assert (TEAMS.at(0.7), TEAMS.at(0.71)) == ([Team.SALES], None)
    assert Decision([], {Team.BILLING: 0.3, Team.SALES: 0.1}).probability == 0.7


def test_each_member_of_a_list_needs_a_probability() -> None:
    with pytest.raises(ValueError, match=r"no entry for the value <Team\.SALES"):
        Decision([Team.SALES], {Team.BILLING: 0.3})
    with pytest.raises(ValueError, match="has no probabilities"):
        _ = Decision([Team.SALES]).probability


def test_equal_lists_have_equal_members() -> None:
    assert Decision([Team.SALES]) == TEAMS
    assert Decision([Team.SALES, Team.BILLING]) != TEAMS
    assert hash(Decision([Team.SALES])) == hash(TEAMS)


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (Decision[list[Team]], '{"billing": false, "sales": true}', [Team.SALES]),
        (Decision[list[Team]], '{"sales": true, "billing": true}', [Team.BILLING, Team.SALES]),
        (Decision[list[Team]], '["sales", "billing"]', [Team.BILLING, Team.SALES]),
        (Decision[set[Team]], '{"billing": false, "sales": false}', set()),
        (Decision[frozenset[Literal[1, 2]]], '{"1": true, "2": false}', frozenset({1})),
        (Decision[list[Literal['say "a"', "b c"]]], '{"say \\"a\\"": true, "b c": false}', ['say "a"']),
        (Decision[list[Literal["a", "A"]]], '{"a": false, "A": true}', ["A"]),
        (Decision[list[Literal["", "ναι"]]], '{"": true, "ναι": true}', ["", "ναι"]),
    ],
)
def test_a_reply_says_for_each_member_whether_it_applies(tp: Any, text: str, value: object) -> None:
    parser = parser_for(tp)
    decision = parser.parse(text)
    assert (type(decision.value), decision.value) == (type(value), value)
    assert parser.parse(parser.write(decision)) == decision


def test_fields_may_be_lists_of_decisions() -> None:
    text = '{"teams": {"billing": false, "sales": true}, "tags": {"a": true, "b": true}}'
    parser = parser_for(Post)
    with collect_decisions() as decisions:
        post = parser.parse(text)
    assert (post.teams.value, post.tags.value) == ([Team.SALES], {"a", "b"})
    assert [decision.path for decision in decisions] == ["$.teams", "$.tags"]
    assert parser.write(post) == text


@pytest.mark.parametrize("text", ['["hr"]', '{"sales": true}', '{"billing": 1, "sales": true, "hr": true}'])
def test_each_member_must_be_answered(text: str) -> None:
    with pytest.raises(OutputParsingError):
        parser_for(Decision[list[Team]]).parse(text)


def test_the_schema_of_a_list_has_a_boolean_for_each_member() -> None:
    assert parser_for(Decision[list[Team]]).schema == {
        "type": "object",
        "title": "Team options",
        "properties": {"billing": {"type": "boolean"}, "sales": {"type": "boolean"}},
        "required": ["billing", "sales"],
        "additionalProperties": False,
    }
    assert parser_for(Decision[list[Team]]).hint == '{"billing": true | false, "sales": true | false}'


def test_another_program_gets_the_probability_of_each_member() -> None:
    parser = parser_for(Decision[list[Team]])
    with values_with_details():
        text = parser.write(TEAMS)
        other = parser.parse(text)
    assert '"value": ["sales"]' in text
    assert '{"value": "billing", "probability": 0.3}' in text
    assert (other, repr(other), other.seen) == (TEAMS, repr(TEAMS), 0.7)


# replies


@pytest.mark.parametrize(
    ("tp", "text", "values"),
    [
        (Decision[bool], "true", [True]),
        (Decision[Team], '"sales"', [Team.SALES]),
        (Decision[Team | None], "null", [None]),
        (Decision[Literal["a", "b"]], "b", ["b"]),
        (Ticket, '{"team": "sales", "severity": "HIGH"}', [Team.SALES, Severity.HIGH]),
        (Model, '{"team": "billing", "tag": null}', [Team.BILLING, None]),
        (Typed, '{"team": "billing"}', [Team.BILLING]),
        (list[Decision[bool]], "[true, false]", [True, False]),
    ],
)
def test_a_reply_contains_the_value_alone(tp: Any, text: str, values: list[object]) -> None:
    parser = parser_for(tp)
    with collect_decisions() as decisions:
        value = parser.parse(text)
    assert [decision.value for decision in decisions] == values
    assert parser.parse(parser.write(value)) == value


def test_the_schema_is_that_of_the_value() -> None:
    assert parser_for(Decision[bool]).schema == {"type": "boolean"}
    assert parser_for(Scale[Severity]).schema == parser_for(Severity).schema
    assert parser_for(Decision[Team]).hint == parser_for(Team).hint


def test_a_decision_knows_the_place_where_it_was_read() -> None:
    with collect_decisions() as decisions:
        parser_for(list[Ticket]).parse('[{"team": "sales", "severity": "LOW"}]')
    assert [decision.path for decision in decisions] == ["$[0].team", "$[0].severity"]
    assert SPAM.path == ""


def test_only_decisions_can_be_written_as_decisions() -> None:
    with pytest.raises(ValueError, match="expected a Decision, found True"):
        parser_for(Decision[bool]).write(True)  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", [SPAM, Decision(False)])
def test_another_program_can_get_the_probabilities_too(decision: Decision[bool]) -> None:
    parser = parser_for(Decision[bool])
    with values_with_details():
        text = parser.write(decision)
        other = parser.parse(text)
    assert (other, repr(other), other.seen) == (decision, repr(decision), decision.seen)
    assert parser.write(decision) == ("true" if decision.value else "false")


@pytest.mark.parametrize("text", ["true", '{"value": true}', '{"value": true, "probabilities": [1]}'])
def test_the_json_of_another_program_is_checked(text: str) -> None:
    with values_with_details(), pytest.raises(ValueError, match="expected a decision with its"):
        parser_for(Decision[bool]).parse(text)


def test_a_pydantic_model_writes_values_with_details() -> None:
    model = Model(team=Decision(Team.SALES, {Team.SALES: 0.7, Team.BILLING: 0.3}), tag=Decision("a"))
    assert model.model_dump(mode="json")["team"] == {
        "value": "sales",
        "probabilities": [
            {"value": "sales", "probability": 0.7},
            {"value": "billing", "probability": 0.3},
        ],
        "source": "",
        "calibrated": False,
        "seen": 1.0,
    }


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (Decision, "write what is decided"),
        (Decision[str], "it needs a bool, an Enum, a Literal"),
        (Decision[list[str]], r"needs an Enum or a Literal, as in Decision\[list\[Topic\]\]"),
        (Decision[list[bool]], r"write list\[Decision"),
        (Decision[list[Team] | None], "or a list of an Enum"),
        (Decision[Annotated[list[Team], Field(min_length=1)]], "cannot have constraints"),
        (Decision[list[Literal["a"] | Literal[1]]], "needs an Enum or a Literal"),
        (Decision[list[Literal[1, "1"]]], "have the same JSON key"),
        (Decision[list[Literal["a"]]], "at least two possible answers"),
        (Scale[list[Team]], "or a list of an Enum"),  # type: ignore[type-var]
        (Decision[Literal["a"]], "at least two possible answers"),
        (Decision[Literal[1, True]], "two of its answers are equal"),
        (Scale[bool], "a scale needs an Enum"),
    ],
)
def test_types_without_fixed_answers_are_refused(tp: Any, message: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=message):
        parser_for(tp)
