"""The strategies for a type and a model have a fixed order, and each format is made once."""

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
from aiservices.engine.model_route import StrategyFallbacks, StrategyOption, only_format
from aiservices.engine.output_format import OutputFormat
from aiservices.engine.strategy_selection import (
    StrategyError,
    select_strategies,
)
from output_parsers import TypeParser, parser_for

EVERYTHING = Capabilities(json_schema=True, strict_schema=True, json_mode=True, constrained=False, tools=True)
IN_PROCESS = Capabilities(json_schema=True, json_mode=True, constrained=True, tools=True)


@dataclass
class Person:
    name: str
    age: int


def strategies_for(
    form: Any, capabilities: Capabilities, requested: Strategy | None = None
) -> StrategyFallbacks:
    return select_strategies(parser_for(form), capabilities, requested, "tiny")


def names(form: Any, capabilities: Capabilities, requested: Strategy | None = None) -> list[str]:
    return [strategy_option.name for strategy_option in strategies_for(form, capabilities, requested).options]


def test_the_whole_fallbacks_is_from_the_most_reliable_way_to_the_one_that_every_model_has() -> None:
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
def test_a_model_without_a_way_has_no_option_for_it(capabilities: Capabilities, expected: list[str]) -> None:
    assert names(Person, capabilities) == expected


def test_every_fallbacks_ends_with_the_prompt_and_has_no_option_twice() -> None:
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


def test_each_option_has_a_reason() -> None:
    assert [strategy_option.reason for strategy_option in strategies_for(Person, EVERYTHING).options] == [
        "tiny supports JSON Schema",
        "tiny supports JSON Schema",
        "tiny calls tools",
        "tiny calls tools",
        "tiny has JSON mode",
        "every model understands a prompt",
    ]


def test_an_option_names_the_features_that_the_model_lacks() -> None:
    strategy_options = strategies_for(Person, Capabilities(tools=True, json_mode=True)).options
    assert [strategy_option.reason for strategy_option in strategy_options] == [
        "tiny does not support JSON Schema, but calls tools",
        "tiny does not support JSON Schema, but has JSON mode",
        "every model understands a prompt",
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


def test_a_requested_strategy_is_the_reason() -> None:
    assert {
        strategy_option.reason
        for strategy_option in strategies_for(Person, EVERYTHING, Strategy.OUTPUT_TOOL).options
    } == {"it was requested"}


@pytest.mark.parametrize(
    ("requested", "capabilities", "has"),
    [
        (Strategy.JSON_SCHEMA, Capabilities(), "none"),
        (Strategy.OUTPUT_TOOL, Capabilities(json_mode=True), "json_mode"),
        (Strategy.GRAMMAR, EVERYTHING, "json_schema, strict_schema, json_mode, tools"),
        (Strategy.JSON_MODE, Capabilities(constrained=True), "constrained"),
    ],
)
def test_an_unsupported_strategy_cannot_be_requested(
    requested: Strategy, capabilities: Capabilities, has: str
) -> None:
    with pytest.raises(StrategyError) as caught:
        strategies_for(Person, capabilities, requested)
    assert str(caught.value) == (f"tiny does not support the strategy {requested}; its capabilities: {has}")


def test_structure_is_not_asked_for_as_text() -> None:
    with pytest.raises(StrategyError) as caught:
        strategies_for(Person, EVERYTHING, Strategy.TEXT)
    assert str(caught.value) == "the strategy text is for str; Person needs a structured strategy"


@pytest.mark.parametrize(
    "requested", [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.GRAMMAR, Strategy.JSON_MODE]
)
def test_text_is_not_asked_for_as_structure(requested: Strategy) -> None:
    with pytest.raises(StrategyError) as caught:
        strategies_for(str, EVERYTHING, requested)
    assert (
        str(caught.value) == f"the strategy {requested} needs a structured type, and the type is plain text"
    )


@pytest.mark.parametrize("requested", [None, Strategy.TEXT, Strategy.PROMPT])
def test_text_is_the_one_way_to_ask_for_text(requested: Strategy | None) -> None:
    assert names(str, EVERYTHING, requested) == ["text"]


def test_a_strategy_that_no_model_of_a_service_has_is_a_problem_of_its_declaration() -> None:
    class People(Protocol):
        def person(self, text: str) -> Person: ...

    model = ScriptedChatModel([], capabilities=Capabilities(), name="tiny")
    with pytest.raises(DefinitionError) as caught:
        create(People, model, strategy="output_tool")
    said = "tiny does not support the strategy output_tool; its capabilities: none"
    assert caught.value.problems == (DefinitionProblem("People.person", said),)


def test_the_output_format_of_a_option_asks_in_its_strategy_and_gives_its_reason_first() -> None:
    made = strategies_for(Person, EVERYTHING)
    formats = [made.output_format(strategy_option) for strategy_option in made.options]
    assert [(output_format.strategy, output_format.reasons[0]) for output_format in formats] == [
        (strategy_option.strategy, strategy_option.reason) for strategy_option in made.options
    ]


def test_a_refusal_comes_before_the_reason_of_the_option() -> None:
    made = strategies_for(Person, EVERYTHING)
    assert made.output_format(made.options[-1], "it was refused").reasons == (
        "it was refused",
        "every model understands a prompt",
    )


def test_a_output_format_is_made_once() -> None:
    made = strategies_for(Person, EVERYTHING)
    strategy_option = made.options[2]
    assert made.output_format(strategy_option) is made.output_format(strategy_option)
    assert made.output_format(strategy_option, "refused") is made.output_format(strategy_option, "refused")
    assert made.output_format(strategy_option, "refused") is not made.output_format(strategy_option)


def test_no_output_format_is_made_before_it_is_needed() -> None:
    requested: list[StrategyOption] = []
    parser = parser_for(Person)
    assert isinstance(parser, TypeParser)

    def make(strategy_option: StrategyOption, reasons: tuple[str, ...]) -> OutputFormat:
        requested.append(strategy_option)
        return OutputFormat(strategy_option.strategy, reasons, parser, lambda reply: parser.read(reply.text))

    strategy_options = (
        StrategyOption(Strategy.JSON_MODE, False, "a"),
        StrategyOption(Strategy.PROMPT, False, "b"),
    )
    made = StrategyFallbacks(strategy_options, make)
    assert requested == []
    made.prepare()
    made.prepare()
    assert requested == [strategy_options[0]]


def test_a_fallbacks_of_one_has_its_output_format_on_its_only_option() -> None:
    prompt_only = strategies_for(Person, Capabilities())
    output_format = prompt_only.output_format(prompt_only.options[0])
    made = only_format(output_format)
    (strategy_option,) = made.options
    assert (
        made.output_format(strategy_option),
        made.output_format(strategy_option, "refused"),
        strategy_option.name,
    ) == (output_format, output_format, "prompt")


def test_a_schema_that_strict_mode_can_say_is_strict_on_the_strict_options_only() -> None:
    made = strategies_for(Person, EVERYTHING)
    sent = []
    for strategy_option in made.options[:4]:
        output_format = made.output_format(strategy_option)
        if output_format.tooling is None:
            sent.append(getattr(output_format.response_format, "strict", None))
        else:
            sent.append(output_format.tooling.tools[0].strict)
    assert sent == [True, False, True, False]


@pytest.mark.parametrize("form", [int, list[Person], Person | None])
def test_only_the_prompt_strategy_sends_a_value_without_an_envelope(form: Any) -> None:
    made = strategies_for(form, EVERYTHING)
    said = "the value is sent in an object, under the key 'value'"
    assert [said in made.output_format(strategy_option).reasons for strategy_option in made.options] == [
        True
    ] * 5 + [False]


def test_the_output_format_of_all_options_read_what_the_schema_asks_for() -> None:
    made = strategies_for(list[int], EVERYTHING)
    values = []
    for strategy_option in made.options:
        output_format = made.output_format(strategy_option)
        text = "[1, 2]" if strategy_option.strategy is Strategy.PROMPT else '{"value": [1, 2]}'
        if output_format.tooling is None:
            message = AiMessage(text)
        else:
            message = AiMessage("", (ToolCall("c", output_format.tooling.choice, text),))
        values.append(output_format.read(ChatReply(message)))
    assert [(reading.value, reading.coercions) for reading in values] == [([1, 2], ())] * 6


def test_each_option_asks_for_less_than_the_one_above() -> None:
    order = [Strategy.JSON_SCHEMA, Strategy.OUTPUT_TOOL, Strategy.JSON_MODE, Strategy.PROMPT]
    for above, below in pairwise(strategies_for(Person, EVERYTHING).options):
        assert (order.index(above.strategy), not above.strict) < (
            order.index(below.strategy),
            not below.strict,
        )
