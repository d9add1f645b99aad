"""The ways in which a type can be asked of a model stand in one order, and each is made once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    Capabilities,
    ChatReply,
    DefinitionError,
    DefinitionProblem,
    ScriptedChatModel,
    Strategy,
    ToolCall,
    create,
)
from aiservices.engine.output_format import OutputFormat
from aiservices.engine.strategy_selection import (
    StrategyError,
    StrategyFallbacks,
    StrategyOption,
    only_format,
    select_strategies,
)
from output_parsers import TypeParser, parser_for

EVERYTHING = Capabilities(json_schema=True, strict_schema=True, json_mode=True, constrained=False, tools=True)
IN_PROCESS = Capabilities(json_schema=True, json_mode=True, constrained=True, tools=True)


@dataclass
class Person:
    name: str
    age: int


def ladder(form: Any, capabilities: Capabilities, asked: Strategy | None = None) -> StrategyFallbacks[Any]:
    return select_strategies(parser_for(form), capabilities, asked, "tiny")


def names(form: Any, capabilities: Capabilities, asked: Strategy | None = None) -> list[str]:
    return [rung.name for rung in ladder(form, capabilities, asked).rungs]


def test_the_whole_ladder_is_from_the_most_reliable_way_to_the_one_that_every_model_has() -> None:
    assert names(Person, EVERYTHING) == [
        "json_schema in strict mode",
        "json_schema",
        "output_tool in strict mode",
        "output_tool",
        "json_mode",
        "prompt",
    ]


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (Capabilities(), ["prompt"]),
        (Capabilities(json_mode=True), ["json_mode", "prompt"]),
        (Capabilities(tools=True), ["output_tool", "prompt"]),
        (
            Capabilities(tools=True, strict_schema=True),
            ["output_tool in strict mode", "output_tool", "prompt"],
        ),
        (Capabilities(json_schema=True), ["json_schema", "prompt"]),
        (Capabilities(json_schema=True, tools=True), ["json_schema", "output_tool", "prompt"]),
        (Capabilities(constrained=True), ["grammar", "prompt"]),
        (IN_PROCESS, ["grammar", "json_mode", "prompt"]),
    ],
)
def test_a_model_without_a_way_has_no_rung_for_it(capabilities: Capabilities, expected: list[str]) -> None:
    assert names(Person, capabilities) == expected


def test_every_ladder_ends_with_the_prompt_and_has_no_rung_twice() -> None:
    for flags in product((False, True), repeat=5):
        schema, strict, mode, constrained, tools = flags
        told = names(
            Person,
            Capabilities(
                json_schema=schema,
                strict_schema=strict,
                json_mode=mode,
                constrained=constrained,
                tools=tools,
            ),
        )
        assert (told[-1], len(told)) == ("prompt", len(set(told)))


def test_each_rung_says_what_makes_it_possible() -> None:
    assert [rung.why for rung in ladder(Person, EVERYTHING).rungs] == [
        "tiny takes a JSON Schema",
        "tiny takes a JSON Schema",
        "tiny calls tools",
        "tiny calls tools",
        "tiny has JSON mode",
        "the prompt can say it to every model",
    ]


def test_a_rung_says_what_the_model_lacks_of_those_above() -> None:
    rungs = ladder(Person, Capabilities(tools=True, json_mode=True)).rungs
    assert [rung.why for rung in rungs] == [
        "tiny takes no JSON Schema, but calls tools",
        "tiny takes no JSON Schema, but has JSON mode",
        "the prompt can say it to every model",
    ]


def test_a_strategy_that_was_asked_for_is_the_only_one_with_strict_mode_before() -> None:
    assert [
        names(Person, EVERYTHING, Strategy.JSON_SCHEMA),
        names(Person, EVERYTHING, Strategy.OUTPUT_TOOL),
        names(Person, EVERYTHING, Strategy.JSON_MODE),
        names(Person, EVERYTHING, Strategy.PROMPT),
    ] == [
        ["json_schema in strict mode", "json_schema"],
        ["output_tool in strict mode", "output_tool"],
        ["json_mode"],
        ["prompt"],
    ]


def test_what_was_asked_for_is_the_reason() -> None:
    assert {rung.why for rung in ladder(Person, EVERYTHING, Strategy.OUTPUT_TOOL).rungs} == {
        "it was asked for"
    }


@pytest.mark.parametrize(
    ("asked", "capabilities", "has"),
    [
        (Strategy.JSON_SCHEMA, Capabilities(), "none"),
        (Strategy.OUTPUT_TOOL, Capabilities(json_mode=True), "json_mode"),
        (Strategy.GRAMMAR, EVERYTHING, "json_schema, strict_schema, json_mode, tools"),
        (Strategy.JSON_MODE, Capabilities(constrained=True), "constrained"),
    ],
)
def test_what_a_model_cannot_do_cannot_be_asked_for(
    asked: Strategy, capabilities: Capabilities, has: str
) -> None:
    with pytest.raises(StrategyError) as caught:
        ladder(Person, capabilities, asked)
    assert str(caught.value) == (
        f"the strategy {asked} is not among what tiny can do; its capabilities: {has}"
    )


def test_structure_is_not_asked_for_as_text() -> None:
    with pytest.raises(StrategyError) as caught:
        ladder(Person, EVERYTHING, Strategy.TEXT)
    assert str(caught.value) == "the strategy text is for str; Person needs structure"


@pytest.mark.parametrize(
    "asked", [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.GRAMMAR, Strategy.JSON_MODE]
)
def test_text_is_not_asked_for_as_structure(asked: Strategy) -> None:
    with pytest.raises(StrategyError) as caught:
        ladder(str, EVERYTHING, asked)
    assert str(caught.value) == f"the strategy {asked} asks for structure, and the type is plain text"


@pytest.mark.parametrize("asked", [None, Strategy.TEXT, Strategy.PROMPT])
def test_text_is_the_one_way_to_ask_for_text(asked: Strategy | None) -> None:
    assert names(str, EVERYTHING, asked) == ["text"]


def test_a_strategy_that_no_model_of_a_service_has_is_a_fault_of_its_declaration() -> None:
    class People(Protocol):
        def person(self, text: str) -> Person: ...

    model = ScriptedChatModel([], capabilities=Capabilities(), name="tiny")
    with pytest.raises(DefinitionError) as caught:
        create(People, model, strategy="output_tool")
    said = "the strategy output_tool is not among what tiny can do; its capabilities: none"
    assert caught.value.problems == (DefinitionProblem("People.person", said),)


def test_the_wire_of_a_rung_asks_in_its_strategy_and_gives_its_reason_first() -> None:
    made = ladder(Person, EVERYTHING)
    wires = [made.wire(rung) for rung in made.rungs]
    assert [(wire.strategy, wire.reasons[0]) for wire in wires] == [
        (rung.strategy, rung.why) for rung in made.rungs
    ]


def test_a_refusal_stands_before_the_reason_of_the_rung() -> None:
    made = ladder(Person, EVERYTHING)
    assert made.wire(made.rungs[-1], "it was refused").reasons == (
        "it was refused",
        "the prompt can say it to every model",
    )


def test_a_wire_is_made_once() -> None:
    made = ladder(Person, EVERYTHING)
    rung = made.rungs[2]
    assert made.wire(rung) is made.wire(rung)
    assert made.wire(rung, "refused") is made.wire(rung, "refused")
    assert made.wire(rung, "refused") is not made.wire(rung)


def test_no_wire_is_made_before_it_is_needed() -> None:
    asked: list[StrategyOption] = []
    parser = parser_for(Person)
    assert isinstance(parser, TypeParser)

    def make(rung: StrategyOption, reasons: tuple[str, ...]) -> OutputFormat[Any]:
        asked.append(rung)
        return OutputFormat(rung.strategy, reasons, parser, lambda reply: parser.read(reply.text))

    rungs = (StrategyOption(Strategy.JSON_MODE, False, "a"), StrategyOption(Strategy.PROMPT, False, "b"))
    made = StrategyFallbacks(rungs, make)
    assert asked == []
    made.prepare()
    made.prepare()
    assert asked == [rungs[0]]


def test_a_ladder_of_one_has_its_wire_on_its_only_rung() -> None:
    wire = ladder(Person, Capabilities()).first
    made = only_format(wire)
    (rung,) = made.rungs
    assert (made.wire(rung), made.wire(rung, "refused"), rung.name) == (wire, wire, "prompt")


def test_a_schema_that_strict_mode_can_say_is_strict_on_the_strict_rungs_only() -> None:
    made = ladder(Person, EVERYTHING)
    sent = []
    for rung in made.rungs[:4]:
        wire = made.wire(rung)
        if wire.tooling is None:
            sent.append(getattr(wire.response_format, "strict", None))
        else:
            sent.append(wire.tooling.tools[0].strict)
    assert sent == [True, False, True, False]


@pytest.mark.parametrize("form", [int, list[Person], Person | None])
def test_what_is_no_object_travels_in_one_on_every_rung_but_the_prompt(form: Any) -> None:
    made = ladder(form, EVERYTHING)
    said = "the value travels in an object, under the key 'value'"
    assert [said in made.wire(rung).reasons for rung in made.rungs] == [True] * 5 + [False]


def test_the_wires_of_all_rungs_read_what_the_schema_asks_for() -> None:
    made = ladder(list[int], EVERYTHING)
    values = []
    for rung in made.rungs:
        wire = made.wire(rung)
        text = "[1, 2]" if rung.strategy is Strategy.PROMPT else '{"value": [1, 2]}'
        if wire.tooling is None:
            message = AiMessage(text)
        else:
            message = AiMessage("", (ToolCall("c", wire.tooling.choice, text),))
        values.append(wire.read(ChatReply(message)))
    assert [(reading.value, reading.coercions) for reading in values] == [([1, 2], ())] * 6


def test_each_rung_asks_for_less_than_the_one_above() -> None:
    order = [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.JSON_MODE, Strategy.PROMPT]
    for above, below in pairwise(ladder(Person, EVERYTHING).rungs):
        assert (order.index(above.strategy), not above.strict) < (
            order.index(below.strategy),
            not below.strict,
        )
