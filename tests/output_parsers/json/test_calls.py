"""Tool calls that a model wrote as text, in the formats of the model families."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Optional

import pytest
from pydantic import BaseModel

from output_parsers import ItemReader, OutputParsingError, PartialReader, parse
from output_parsers.tool_calls import JsonOutputToolsParser, PydanticToolsParser


@dataclass
class Person:
    name: str
    age: int


@dataclass
class Note:
    text: str
    replies: list[Note]


class Trip(BaseModel):
    city: str
    nights: int = 1
    price: float | None = None
    tags: list[str] = []


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _call(name: str, arguments: dict[str, Any], key: str = "arguments") -> str:
    return json.dumps({"name": name, key: arguments}, ensure_ascii=False)


def _parameters(arguments: dict[str, Any], form: str) -> str:
    return "".join(
        form.format(key, _text(value), str(isinstance(value, str)).lower())
        for key, value in arguments.items()
    )


def _invoke(name: str, arguments: dict[str, Any], section: str) -> str:
    parameters = _parameters(arguments, '<parameter name="{0}">{1}</parameter>\n')
    return f'<{section}>\n<invoke name="{name}">\n{parameters}</invoke>\n</{section}>'


def _gemma(arguments: dict[str, Any], quote: str) -> str:
    return ",".join(
        f"{key}:{quote}{value}{quote}" if isinstance(value, str) else f"{key}:{_text(value)}"
        for key, value in arguments.items()
    )


def _keywords(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in arguments.items())


FORMATS: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "Hermes": lambda name, args: f"<tool_call>\n{_call(name, args)}\n</tool_call>",
    "Hermes, not closed": lambda name, args: f"<tool_call>\n{_call(name, args)}",
    "Qwen3-Coder": lambda name, args: (
        f"<tool_call>\n<function={name}>\n"
        + _parameters(args, "<parameter={0}>\n{1}\n</parameter>\n")
        + "</function>\n</tool_call>"
    ),
    "GLM": lambda name, args: (
        f"<tool_call>{name}\n"
        + _parameters(args, "<arg_key>{0}</arg_key>\n<arg_value>{1}</arg_value>\n")
        + "</tool_call>"
    ),
    "invoke": lambda name, args: _invoke(name, args, "function_calls"),
    "MiniMax": lambda name, args: _invoke(name, args, "minimax:tool_call"),
    "DSML": lambda name, args: (
        f'<｜DSML｜function_calls>\n<｜DSML｜invoke name="{name}">\n'
        + _parameters(args, '<｜DSML｜parameter name="{0}" string="{2}">{1}</｜DSML｜parameter>\n')
        + "</｜DSML｜invoke>\n</｜DSML｜function_calls>"
    ),
    "DeepSeek V3": lambda name, args: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{_text(args)}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "DeepSeek V3.1": lambda name, args: (
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{_text(args)}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>"
    ),
    "Kimi": lambda name, args: (
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
        f"{_text(args)}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "Llama": lambda name, args: f"<|python_tag|>{_call(name, args, 'parameters')}",
    "Llama function": lambda name, args: f"<function={name}>{_text(args)}</function>",
    "Mistral": lambda name, args: f"[TOOL_CALLS]{name}[ARGS]{_text(args)}",
    "Cohere": lambda name, args: (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": '
        f'"{name}", "parameters": {_text(args)}}}]<|END_ACTION|>'
    ),
    "gpt-oss": lambda name, args: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_text(args)}<|call|>"
    ),
    "FunctionGemma": lambda name, args: (
        f"<start_function_call>call:{name}{{{_gemma(args, '<escape>')}}}<end_function_call>"
    ),
    "Gemma 4": lambda name, args: f"<|tool_call>call:{name}{{" + _gemma(args, '<|"|>') + "}<tool_call|>",
    "functools": lambda name, args: f"functools[{_call(name, args)}]",
    "OpenAI": lambda name, args: json.dumps(
        {"type": "function", "function": {"name": name, "arguments": args}}
    ),
    "OpenAI, arguments as text": lambda name, args: json.dumps(
        {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
    ),
}
ALONE: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "Python": lambda name, args: f"{name}({_keywords(args)})",
    "tool_code": lambda name, args: f"```tool_code\n{name}({_keywords(args)})\n```",
    "Python in a list": lambda name, args: f"[{name}({_keywords(args)})]<|eot|>",
    "LFM2": lambda name, args: f"<|tool_call_start|>[{name}({_keywords(args)})]<|tool_call_end|>",
    "printed": lambda name, args: f"```tool_code\nprint(default_api.{name}({_keywords(args)}))\n```",
    "after reasoning": lambda name, args: f"<think>(b)</think>\n<tool_call>{_call(name, args)}</tool_call>",
    "after analysis": lambda name, args: (
        "<|channel|>analysis<|message|>I call it.<|end|><|start|>assistant<|channel|>commentary"
        f" to=functions.{name} <|constrain|>json<|message|>{_text(args)}<|call|>"
    ),
    "Anthropic": lambda name, args: json.dumps({"type": "tool_use", "id": "1", "name": name, "input": args}),
}
ROME = {"city": "Rome", "nights": 3, "price": 12.5, "tags": ["a", "b"]}
CASES: list[tuple[Any, str, dict[str, Any]]] = [
    (Person, "Person", {"name": 'Zoë "Z" O\'Neil', "age": 34}),
    (Trip, "Trip", ROME),
    (Trip, "Trip", {"city": "Oslo"}),
]


def test_a_record_is_read_from_a_call_of_a_tool_with_its_name_in_all_formats() -> None:
    for format_name, write in {**FORMATS, **ALONE}.items():
        for type_, name, arguments in CASES:
            text, value = write(name, arguments), type_(**arguments)
            assert parse(type_, text) == value, format_name
            assert parse(list[type_], text) == [value], format_name
            partial: PartialReader[Any] = PartialReader(type_)
            items = ItemReader(type_)
            streamed = []
            for start in range(0, len(text), 7):
                partial.feed(text[start : start + 7])
                streamed += items.feed(text[start : start + 7])
            assert partial.finish().value == value, format_name
            assert streamed + items.finish() == [value], format_name
            for other in ("Animal", "get_weather"):
                for tp in (type_, list[type_], Optional[type_]):  # noqa: UP045
                    with pytest.raises(OutputParsingError):
                        parse(tp, write(other, arguments))


def test_several_calls_are_a_list_and_never_a_part_of_it() -> None:
    for format_name, write in FORMATS.items():
        text = "\n".join(write("Trip", arguments) for arguments in (ROME, {"city": "Oslo"}))
        assert parse(list[Trip], text) == [Trip(**ROME), Trip(city="Oslo")], format_name
        with pytest.raises(OutputParsingError):
            parse(Trip, text)
        for damaged in (
            text.replace("Trip", "Tr{p", 1),
            f"{text}\n<tool_call>",
        ):
            with pytest.raises(OutputParsingError):
                parse(list[Trip], damaged)
    one, two = "Person(name='Ann', age=3)", "Person(name='Bo', age=-1)"
    assert parse(list[Person], f"[{one}, {two}]") == [Person("Ann", 3), Person("Bo", -1)]


@dataclass
class Folder:
    path: str
    price: Decimal


@pytest.mark.parametrize(
    ("arguments", "path", "price"),
    [
        ("path='a', price=12345678901234567890.12", "a", "12345678901234567890.12"),
        ("path='é', price=-0.10", "é", "-0.10"),
        ("path='a',\n price=+1_000.5e400", "a", "1000.5e400"),
        (r"path=r'C:\new', price=1", r"C:\new", "1"),
        (r"path=R'\frac{1}{2}', price=1", r"\frac{1}{2}", "1"),
        (r"path='C:\\new', price=1", r"C:\new", "1"),
        (r"path='caf\xe9\n', price=1", "café\n", "1"),
    ],
)
def test_numbers_of_a_call_in_python_keep_their_digits_and_raw_strings_their_backslashes(
    arguments: str, path: str, price: str
) -> None:
    for form in ("Folder({})", "```python\nFolder({})\n```", "<think>So.</think>\nFolder({})"):
        folder = parse(Folder, form.format(arguments))
        assert (folder.path, str(folder.price)) == (path, str(Decimal(price)))
    assert parse(list[Folder], f"[Folder({arguments})]") == [folder]


def test_a_backslash_that_was_lost_beside_a_raw_string_is_an_error() -> None:
    class Move(BaseModel):
        source: str
        target: str

    for code in (r"Move(source=r'C:\new', target='C:\new')", r"Move(source='\frac', target=r'a')"):
        with pytest.raises(OutputParsingError):
            parse(Move, code)
    assert parse(Move, r"Move(source='C:\new', target='b')") == Move(source=r"C:\new", target="b")


def test_a_call_in_python_has_only_literals_and_no_strings_side_by_side() -> None:
    class Team(BaseModel):
        lead: Trip
        size: int | None

    text = "Team(lead=Trip(city='Rome', price=0.1), size=null)"
    assert parse(Team, text) == Team(lead=Trip(city="Rome", price=0.1), size=None)
    for code in (
        "Person(name='Ann' 'Lee', age=3)",
        "Person(name=name, age=3)",
        "Person(name='Ann', age=1 + 2)",
        "Person('Ann', 3)",
        "Person(name='Ann', age=3, **more)",
        "Person(name='Ann', name='Bo', age=3)",
        "Person(name=f'{x}', age=3)",
        "Person(name=Animal(name='Rex'), age=3)",
        "Person(name='Ann', age=3",
    ):
        with pytest.raises(OutputParsingError):
            parse(Person, code)


def test_calls_that_are_cut_off_or_denied_are_errors() -> None:
    for text in (
        "<tool_call>\n<function=Trip>\n<parameter=city>\nRome\n</parameter>\n<parameter=nights>\n3",
        "<tool_call>\n<function=Trip>\n<parameter=city>\nRome\n<parameter=nights>\n3\n</parameter>\n</function>",
        "<tool_call>Trip\n<arg_key>city</arg_key><arg_value>Rome</arg_value><arg_key>nights</arg_key>",
        '<tool_call>{"name": "Trip", "arguments": {"city": "Rome"',
        'For example: <tool_call>{"name": "Trip", "arguments": {"city": "Rome"}}</tool_call>',
        '<tool_call>{"name": "Trip", "arguments": {"city": "Rome"}}</tool_call> This is wrong.',
    ):
        with pytest.raises(OutputParsingError):
            parse(Trip, text)
    call = '<tool_call>{"name": "Person", "arguments": {"name": "Ann", "age": 3}}</tool_call>'
    assert parse(Person, f"I'll call the tool now.\n{call}") == Person("Ann", 3)
    for intention in (
        "I'll call the wrong tool.",
        "I'll call the tool with dummy data.",
    ):
        with pytest.raises(OutputParsingError):
            parse(Person, f"{intention}\n{call}")
    closed = '<tool_call>\n{"name": "Person", "arguments": {"name": "Ann", "age": 3}\n</tool_call>'
    assert parse(Person, closed) == Person("Ann", 3)


def test_an_object_with_the_keys_of_a_call_is_a_record_with_these_fields() -> None:
    @dataclass
    class Step:
        name: str
        arguments: dict[str, int]

    assert parse(Step, '{"name": "add", "arguments": {"a": 1}}') == Step("add", {"a": 1})


def test_a_call_in_a_string_of_a_record_is_text() -> None:
    call = "<tool_call><function=Note><parameter=text>x</parameter></function></tool_call>"
    assert parse(Note, json.dumps({"text": call, "replies": []})) == Note(call, [])


def test_one_call_is_a_list_of_one_record_also_of_several_classes() -> None:
    for text in (_call("Person", {"name": "Ann", "age": 3}), 'Person(name="Ann", age=3)'):
        assert parse(list[Person | Trip], text) == parse(list[Person], text) == [Person("Ann", 3)]
        assert parse(list[Person | Trip], f"[{text}]") == [Person("Ann", 3)]


def test_parsers_of_tool_calls_read_the_same_formats() -> None:
    for format_name, write in FORMATS.items():
        text = write("Trip", ROME)
        assert PydanticToolsParser(tools=[Trip]).parse(text) == [Trip(**ROME)], format_name
    calls = JsonOutputToolsParser().parse(FORMATS["Qwen3-Coder"]("now", {"zone": "CET"}))
    assert calls == [{"type": "now", "args": {"zone": "CET"}}]
