"""Custom factories come first, at the root and inside records; an unsupported type raises an error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from output_parsers import (
    OutputParser,
    OutputParsingError,
    ParserRegistry,
    Problem,
    Target,
    TypeParser,
    UnsupportedTypeError,
    parser_for,
)

T = TypeVar("T")


class Celsius:
    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and other.degrees == self.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)


class CelsiusParser:
    """Reads ``21 °C``."""

    schema = None

    def format_instructions(self) -> str:
        return "degrees with\nthe sign °C"

    def parse(self, text: str) -> Celsius:
        number, sign, rest = text.partition(" °C")
        if not sign or rest or not number.strip("-").isdigit():
            raise OutputParsingError(text, [Problem("$", "expected degrees", text)])
        return Celsius(float(number))


def celsius(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
    return CelsiusParser() if target.type is Celsius else None


@dataclass
class Weather:
    city: str
    outside: Celsius


@dataclass
class Place:
    weather: Weather | None
    all: list[Celsius]


class Reading(BaseModel):
    degrees: float


REGISTRY = ParserRegistry((celsius,))


def refusal_of(make: Callable[[], object]) -> str:
    with pytest.raises(UnsupportedTypeError) as error:
        make()
    return str(error.value)


def test_a_factory_reads_its_type_at_the_root() -> None:
    assert REGISTRY.parser_for(Celsius).parse("21 °C") == Celsius(21)


@pytest.mark.parametrize(
    ("tp", "text", "value"),
    [
        (list[Celsius], '["21 °C"]', [Celsius(21)]),
        (dict[str, Celsius], '{"in": "21 °C"}', {"in": Celsius(21)}),
        (dict[Celsius, int], '{"21 °C": 1}', {Celsius(21): 1}),
        (Celsius | None, "null", None),
        (Celsius | None, "21 °C", Celsius(21)),
        (Weather, '{"city": "Bonn", "outside": "-3 °C"}', Weather("Bonn", Celsius(-3))),
        (
            Place,
            '{"weather": {"city": "Bonn", "outside": "-3 °C"}, "all": ["1 °C"]}',
            Place(Weather("Bonn", Celsius(-3)), [Celsius(1)]),
        ),
    ],
)
def test_a_factory_reads_its_type_inside_another(tp: Any, text: str, value: object) -> None:
    assert REGISTRY.parser_for(tp).parse(text) == value


def test_an_error_of_a_custom_parser_is_a_problem_with_its_path() -> None:
    with pytest.raises(OutputParsingError) as error:
        REGISTRY.parser_for(Place).parse('{"weather": null, "all": ["1 °C", 7]}')
    assert error.value.problems == (Problem("$.all[1]", "expected degrees", "7"),)


def test_a_custom_parser_appears_in_the_schema_and_the_hint() -> None:
    parser = REGISTRY.parser_for(Weather)
    assert isinstance(parser, TypeParser)
    assert parser.schema == {
        "type": "object",
        "title": "Weather",
        "properties": {"city": {"type": "string"}, "outside": {"type": "string"}},
        "required": ["city", "outside"],
        "additionalProperties": False,
    }
    assert parser.hint == '{"city": string, "outside": string (degrees with the sign °C)}'


def test_a_custom_parser_gets_all_digits_of_a_number() -> None:
    texts: list[str] = []

    class Keeping(CelsiusParser):
        def parse(self, text: str) -> Celsius:
            texts.append(text)
            return Celsius(0)

    registry = ParserRegistry((lambda target, _: Keeping() if target.type is Celsius else None,))
    registry.parser_for(list[Celsius]).parse('[0.1000000000000000055, {"é": [1, true]}]')
    assert texts == ["0.1000000000000000055", '{"\\u00e9": [1, true]}']


def test_a_factory_can_build_on_the_parser_that_the_type_has_without_it() -> None:
    class Doubled:
        schema = None

        def __init__(self, inner: OutputParser[int]) -> None:
            self.inner = inner

        def format_instructions(self) -> str:
            return self.inner.format_instructions()

        def parse(self, text: str) -> int:
            return 2 * self.inner.parse(text)

    def doubling(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
        return Doubled(parsers.parser_for(int, after=doubling)) if target.type is int else None

    registry = ParserRegistry((doubling,))
    assert registry.parser_for(int).parse("forty two") == 84
    assert registry.parser_for(list[int]).parse("[1, 2]") == [2, 4]


def test_factories_that_were_added_later_are_tried_first() -> None:
    called: list[str] = []

    def recording(name: str) -> Callable[[Target, ParserRegistry], None]:
        return lambda target, _: called.append(name)

    registry = ParserRegistry((recording("first"),)).with_factories(recording("second"), recording("third"))
    registry.parser_for(int)
    assert called == ["second", "third", "first"]


def test_with_factories_does_not_change_the_registry() -> None:
    registry = ParserRegistry()
    other = registry.with_factories(celsius)
    assert other.parser_for(Celsius).parse("1 °C") == Celsius(1)
    assert refusal_of(lambda: registry.parser_for(Celsius)).startswith("no parser reads Celsius; tried:")


def test_an_error_of_a_factory_is_raised() -> None:
    def broken(target: Target, parsers: ParserRegistry) -> None:
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        ParserRegistry((broken,)).parser_for(int)


def test_a_parser_is_created_once() -> None:
    registry = ParserRegistry()
    assert registry.parser_for(list[int]) is registry.parser_for(list[int])


BUILT_IN = (
    "scalars, dates and times, choices, decisions, citations, sequences, mappings, unions, records, pydantic"
)
ADVICE = "Use a type that one of them reads, or add a ParserFactory for it"


@pytest.mark.parametrize(
    ("tp", "message"),
    [
        (Celsius, f"no parser reads Celsius; tried: {BUILT_IN}. {ADVICE}"),
        (list[Celsius], f"no parser reads Celsius (in list[Celsius]); tried: {BUILT_IN}. {ADVICE}"),
        (
            Place,
            "no parser reads Celsius (in Weather.outside, in Weather | None, in Place.weather); "
            f"tried: {BUILT_IN}. {ADVICE}",
        ),
        (Callable[[], int], f"no parser reads Callable[[], int]; tried: {BUILT_IN}. {ADVICE}"),
        (
            T,
            "no parser reads ~T: it is not bound to a type here; write the type in its place; "
            f"tried: type variables. {ADVICE}",
        ),
        (
            list["Nowhere"],  # type: ignore[name-defined]  # noqa: F821
            "no parser reads 'Nowhere' (in list['Nowhere']): name 'Nowhere' is not defined; "
            f"tried: forward references. {ADVICE}",
        ),
        ([], f"no parser reads []; tried: {BUILT_IN}. {ADVICE}"),
        (5, f"no parser reads 5; tried: {BUILT_IN}. {ADVICE}"),
    ],
)
def test_the_error_for_an_unsupported_type_names_its_place_and_what_was_tried(tp: Any, message: str) -> None:
    assert refusal_of(lambda: ParserRegistry().parser_for(tp)) == message


def test_the_factories_that_were_tried_are_named() -> None:
    assert refusal_of(lambda: REGISTRY.parser_for(Callable)) == (
        f"no parser reads Callable; tried: celsius, {BUILT_IN}. {ADVICE}"
    )


def test_local_names_are_resolved_with_a_namespace() -> None:
    class Node(BaseModel):  # the parsers have a class of this name too
        x: int

    parser = ParserRegistry().parser_for(list["Node"], namespace={"Node": Node})
    assert parser.parse('[{"x": 1}]') == [Node(x=1)]


def test_a_local_model_may_refer_to_other_local_classes() -> None:
    class Outer(BaseModel):
        inner: Inner

    class Inner(BaseModel):
        x: int

    parser = ParserRegistry().parser_for(Outer, namespace={"Inner": Inner})
    assert parser.parse('{"inner": {"x": 1}}') == Outer.model_validate({"inner": {"x": 1}})


def test_a_local_alias_may_refer_to_other_local_classes() -> None:
    class Leaf(BaseModel):
        x: int

    Leaves = TypeAliasType("Leaves", "list[Leaf]")
    parser = ParserRegistry().parser_for(list[Leaves], namespace={"Leaf": Leaf})
    assert parser.parse('[[{"x": 1}]]') == [[Leaf(x=1)]]


def test_names_in_a_class_are_resolved_in_its_own_module() -> None:
    module = ModuleType("elsewhere")
    sys.modules["elsewhere"] = module
    source = "class Record(TypedDict):\n    place: 'Place'\nclass Place(TypedDict):\n    x: int\n"
    try:
        exec(f"from typing import TypedDict\n{source}", module.__dict__)
        alias = TypeAliasType("alias", list[module.Record])  # this module has a Place too
        assert ParserRegistry().parser_for(alias).parse('[{"place": {"x": 1}}]') == [{"place": {"x": 1}}]
    finally:
        del sys.modules["elsewhere"]


def test_a_dict_with_unhashable_keys_is_refused() -> None:
    class Listing(CelsiusParser):
        def parse(self, text: str) -> Any:
            return [text]

    registry = ParserRegistry((lambda target, _: Listing() if target.type is Celsius else None,))
    with pytest.raises(OutputParsingError) as error:
        registry.parser_for(dict[Celsius, int]).parse('{"x": 1}')
    assert error.value.problems == (
        Problem("$.x", "expected a key that a dict can hold: unhashable type: 'list'", '"x"'),
    )


Bound = TypeVar("Bound", bound=int)
Either = TypeVar("Either", int, str)


def test_a_type_variable_is_read_as_its_bound_or_its_constraints() -> None:
    assert parser_for(list[Bound]).hint == "[integer, ...]"
    assert parser_for(list[Either]).hint == "[integer | string, ...]"


def test_a_generic_alias_in_a_string_is_resolved() -> None:
    tp = TypeAliasType("Lists", list[T] | None, type_params=(T,))
    assert ParserRegistry().parser_for(tp[int]).parse("[1]") == [1]


def test_a_custom_parser_can_be_wrapped() -> None:
    parser = TypeParser.wrap(CelsiusParser(), "Celsius")
    assert parser.parse("21 °C") == Celsius(21)
    assert parser.with_envelope().parse('{"value": "21 °C"}') == Celsius(21)
    with pytest.raises(OutputParsingError) as error:
        parser.parse("warm")
    assert str(error.value) == "cannot read the text: $: expected degrees, found warm (the text: 'warm')"


@pytest.mark.parametrize(
    ("tp", "name"),
    [
        (int, "int"),
        (None, "None"),
        (list[int | None], "list[int | None]"),
        (dict[str, Reading], "dict[str, Reading]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (TypeAliasType("Ages", dict[str, int]), "Ages"),
    ],
)
def test_a_parser_has_the_name_of_its_type(tp: Any, name: str) -> None:
    assert parser_for(tp).name == name


def union_of_itself(levels: int) -> Any:
    tp: Any = int
    for _ in range(levels):
        tp = list[tp] | dict[str, tp] | tp
    return tp


def chain_of_aliases(levels: int) -> Any:
    tp: Any = int
    for level in range(levels):
        tp = TypeAliasType(f"Level{level}", list[tp] | dict[str, tp])  # type: ignore[misc]
    return tp


@pytest.mark.parametrize("nest", [union_of_itself, chain_of_aliases])
def test_a_type_that_is_used_twice_at_each_level_is_built_once(nest: Callable[[int], Any]) -> None:
    def count_calls(levels: int) -> int:
        tp = nest(levels)
        calls = 0

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            parser = ParserRegistry().parser_for(tp)
            with pytest.raises(OutputParsingError):
                parser.parse("[" * levels + '"x"' + "]" * levels)
        finally:
            sys.setprofile(None)
        return calls

    assert count_calls(8) < 4 * count_calls(4)


def test_equal_types_that_are_written_in_another_order_keep_their_order() -> None:
    parser = ParserRegistry().parser_for(tuple[int | str, str | int])
    assert parser.format_instructions().endswith("[integer | string, string | integer]")


def test_an_alias_has_the_names_of_the_alias_around_it() -> None:
    class Inner(BaseModel):
        x: int

    class Other(BaseModel):
        y: int

    shared = list["Leaf"]  # type: ignore[name-defined]  # noqa: F821
    aliases = []
    for name, leaf in (("One", Inner), ("Two", Other)):
        sys.modules[leaf.__name__] = module = ModuleType(leaf.__name__)
        module.__dict__.update(Leaf=leaf, TypeAliasType=TypeAliasType, shared=shared)
        exec(f"{name} = TypeAliasType({name!r}, dict[str, shared])", module.__dict__)
        aliases.append(getattr(module, name))
    try:
        parser = ParserRegistry().parser_for(tuple[*aliases])
    finally:
        del sys.modules["Inner"], sys.modules["Other"]
    one, two = parser.parse('[{"a": [{"x": 1}]}, {"a": [{"y": 2}]}]')
    assert (one, two) == ({"a": [Inner(x=1)]}, {"a": [Other(y=2)]})
