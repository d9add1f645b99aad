"""Tools are described to the model by their functions; some functions cannot be tools."""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Protocol

import pytest
from pydantic import Field
from tool_calling import tool_calls_reply

from aiservices import (
    AiMessage,
    BadRequestError,
    Capabilities,
    ChatOptions,
    ChatReply,
    DefinitionError,
    FinishReason,
    History,
    Image,
    MemoryId,
    Message,
    ScriptedChatModel,
    ToolCall,
    ToolContext,
    UserName,
    create,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.service.settings import options
from aiservices.tools.tool import ReturnBehavior, Tool, ToolDefinitionError, tool, tool_methods, tools_of
from aiservices.tools.toolbox import Toolbox, ToolLimits, make_toolbox
from output_parsers import Description, TypeParser, parser_for
from output_parsers.json_schema.parser import schema_parser

TOOLS = Capabilities(tools=True)


def one(source: Any, namespace: dict[str, Any] | None = None) -> Tool:
    (made_tool,) = tools_of(source, namespace)
    return made_tool


def parameters(source: Any) -> dict[str, Any]:
    """Return the properties in the JSON Schema of the arguments of a tool."""
    schema = one(source).arguments.schema
    assert schema is not None
    properties: dict[str, Any] = schema["properties"]
    return properties


def required(source: Any) -> list[str]:
    schema = one(source).arguments.schema
    assert schema is not None
    names: list[str] = schema["required"]
    return names


def problem(source: Any) -> str:
    with pytest.raises(ToolDefinitionError) as caught:
        make_toolbox([source], ToolLimits())
    return str(caught.value)


class Unit(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@dataclass
class Place:
    city: str
    country: str | None = None


# a function


def weather(city: str, days: int) -> str:
    """Tells the weather of a city."""
    return f"{city} {days}"


def test_a_plain_function_is_a_tool() -> None:
    made = one(weather)
    assert (made.name, made.description, made.function) == (
        "weather",
        "Tells the weather of a city.",
        weather,
    )
    assert (made.injected, made.asynchronous, made.return_behavior, made.timeout, made.needs_approval) == (
        {},
        False,
        ReturnBehavior.TO_LLM,
        None,
        False,
    )
    assert made.arguments.schema == {
        "type": "object",
        "title": "weather_arguments",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    }


def test_a_function_without_a_docstring_is_described_by_its_name() -> None:
    def ping() -> None: ...

    assert (one(ping).description, parameters(ping), required(ping)) == ("ping", {}, [])


def test_the_arguments_of_the_decorator_override_the_function() -> None:
    @tool(
        name="forecast",
        description="Forecasts.",
        return_behavior="immediate",
        timeout=2.5,
        needs_approval=True,
    )
    def weather(city: str) -> str:
        """Tells the weather."""
        return city

    made = one(weather)
    assert (made.name, made.description, made.return_behavior, made.timeout, made.needs_approval) == (
        "forecast",
        "Forecasts.",
        ReturnBehavior.IMMEDIATE,
        2.5,
        True,
    )


def test_the_metadata_of_a_tool_is_in_its_specification() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}

    @tool(metadata=cached)
    def weather(city: str) -> str:
        return city

    def news(city: str) -> str:
        return city

    offered = make_toolbox([weather, news], ToolLimits()).offered_to(Capabilities(tools=True))
    assert offered is not None
    assert [specification.metadata for specification in offered.tooling.tools] == [cached, {}]


def test_a_decorated_function_is_the_same_function() -> None:
    def plain(city: str) -> str:
        return city

    assert tool(plain) is plain
    assert tool(name="x")(plain) is plain


def test_the_decorator_takes_a_return_behaviour_that_exists() -> None:
    with pytest.raises(ValueError, match="'soon' is not a valid ReturnBehavior"):
        tool(return_behavior="soon")


# types


def test_each_argument_type_is_described_as_in_an_answer() -> None:
    def find(
        place: Place,
        unit: Unit,
        kind: Literal["a", "b"],
        tags: list[str],
        sizes: dict[str, int],
        pair: tuple[int, str],
    ) -> None: ...

    for name, form in (
        ("place", Place),
        ("unit", Unit),
        ("kind", Literal["a", "b"]),
        ("tags", list[str]),
        ("sizes", dict[str, int]),
        ("pair", tuple[int, str]),
    ):
        told = parser_for(form).schema  # type: ignore[arg-type]
        assert told is not None
        assert {**parameters(find)[name], "title": ""} == {**told, "title": ""}


def test_nested_values_reach_the_function_as_their_types() -> None:
    def find(place: Place, unit: Unit, near: list[Place]) -> None: ...

    text = '{"place": {"city": "Rome"}, "unit": "celsius", "near": [{"city": "Ostia", "country": "IT"}]}'
    assert one(find).arguments.parse(text) == {
        "place": Place("Rome"),
        "unit": Unit.CELSIUS,
        "near": [Place("Ostia", "IT")],
    }


def test_an_optional_argument_without_default_has_to_be_given() -> None:
    def find(city: str | None) -> None: ...

    assert (parameters(find), required(find)) == (
        {"city": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        ["city"],
    )


def test_constraints_are_in_the_schema_and_are_enforced() -> None:
    def find(days: Annotated[int, Field(ge=1, le=7, description="how many")]) -> None: ...

    assert parameters(find) == {
        "days": {"type": "integer", "minimum": 1, "maximum": 7, "description": "how many"}
    }
    with pytest.raises(ValueError, match="9"):
        one(find).arguments.parse('{"days": 9}')


def test_a_parameter_with_a_default_is_optional_and_its_default_is_described() -> None:
    def find(
        city: str,
        days: int = 3,
        unit: Literal["c", "f"] = "c",
        exact: bool = False,
        note: str | None = None,
        tags: tuple[str, ...] = (),
        share: Annotated[float, Description("Of all.")] = 0.5,
    ) -> None: ...

    assert required(find) == ["city"]
    assert {name: said.get("description") for name, said in parameters(find).items()} == {
        "city": None,
        "days": "Default: 3",
        "unit": 'Default: "c"',
        "exact": "Default: false",
        "note": None,
        "tags": None,
        "share": "Of all. Default: 0.5",
    }
    assert one(find).arguments.parse('{"city": "Rome"}') == {"city": "Rome"}


def test_annotations_in_quotes_may_use_local_names() -> None:
    @dataclass
    class Local:
        name: str

    def find(what: Local) -> None: ...

    assert one(find, {"Local": Local}).arguments.parse('{"what": {"name": "x"}}') == {"what": Local("x")}


# docstrings


def google(city: str, days: int, unit: str, deep: str) -> str:
    """Returns the weather.

    It knows all cities.

    Args:
        city: The city,
            in English: no other.
        days (int): How many days.

        deep (dict[str, int], optional): Nested.
    Returns:
        unit: not this.
    """
    return city


def numpy(city: str, days: int = 1) -> str:
    """Tells the weather.

    Parameters
    ----------
    city : str
        The city,
        in English.
    days : int, optional
        How many.

    Returns
    -------
    str
        The weather.
    """
    return city


def sphinx(city: str, days: int) -> str:
    """Tells the weather.

    :param city: The city,
        in English.
    :param int days: How many.
    :returns: The weather.
    """
    return city


def bare(city: str) -> str:
    """Tells the weather.

    city: The city, in English.
    """
    return city


@pytest.mark.parametrize(
    ("function", "description", "told"),
    [
        (
            google,
            "Returns the weather.\n\nIt knows all cities.",
            {"city": "The city, in English: no other.", "days": "How many days.", "deep": "Nested."},
        ),
        (numpy, "Tells the weather.", {"city": "The city, in English.", "days": "How many. Default: 1"}),
        (sphinx, "Tells the weather.", {"city": "The city, in English.", "days": "How many."}),
        (bare, "Tells the weather.\n\ncity: The city, in English.", {"city": "The city, in English."}),
    ],
)
def test_a_docstring_describes_the_tool_and_its_parameters(
    function: Callable[..., Any], description: str, told: dict[str, str]
) -> None:
    made = one(function)
    made_tool = {name: said.get("description") for name, said in parameters(function).items()}
    assert made.description == description
    assert {name: said for name, said in made_tool.items() if said} == {
        **told,
        **({"unit": "not this."} if function is google else {}),
    }


@pytest.mark.parametrize("word", ["Returns", "Raises", "Arguments", "Parameters", "Yields"])
def test_a_sentence_that_begins_as_a_section_does_is_a_sentence(word: str) -> None:
    def find() -> None: ...

    find.__doc__ = f"{word} what is asked for."
    assert one(find).description == f"{word} what is asked for."


def test_the_nearest_description_of_a_parameter_is_used() -> None:
    def find(city: Annotated[str, Description("from the annotation")]) -> None:
        """Finds.

        Args:
            city: from the docstring
        """

    assert parameters(find)["city"]["description"] == "from the annotation"


def test_a_long_docstring_of_blank_lines_is_read_at_once() -> None:
    def find(city: str) -> None: ...

    find.__doc__ = "Finds.\n" + " \n" * 50_000 + "Args:\n    city: A city."
    assert (one(find).description, parameters(find)["city"]["description"]) == ("Finds.", "A city.")


# callables that are not plain functions


class Shop:
    """A shop."""

    def __init__(self) -> None:
        self.sold: list[str] = []

    @tool
    def sell(self, what: str) -> str:
        """Sells."""
        self.sold.append(what)
        return "sold"

    @staticmethod
    @tool
    def price(what: str) -> int:
        """Tells a price."""
        return len(what)

    @tool
    @staticmethod
    def weight(what: str) -> int:
        """Tells a weight."""
        return len(what)

    @classmethod
    @tool(name="shop_name")
    def named(cls) -> str:
        """Tells its name."""
        return cls.__name__

    @tool
    @classmethod
    def kind(cls) -> str:
        """Tells its kind."""
        return cls.__name__

    def secret(self) -> str:
        raise AssertionError

    @property
    def broken(self) -> str:
        raise AssertionError("a property was read")


class BigShop(Shop):
    @tool
    def close(self) -> None:
        """Closes."""


def test_the_decorated_methods_of_an_object_are_tools() -> None:
    shop = Shop()
    made = {made_tool.name: made_tool for made_tool in tools_of(shop)}
    assert list(made) == ["kind", "shop_name", "price", "sell", "weight"]
    assert {name: made_tool.description for name, made_tool in made.items()} == {
        "kind": "Tells its kind.",
        "shop_name": "Tells its name.",
        "price": "Tells a price.",
        "sell": "Sells.",
        "weight": "Tells a weight.",
    }
    assert made["sell"].function(what="tea") == "sold"
    assert shop.sold == ["tea"]
    assert (made["price"].function(what="tea"), made["weight"].function(what="tea")) == (3, 3)
    assert (made["shop_name"].function(), made["kind"].function()) == ("Shop", "Shop")


def test_inherited_methods_are_tools_too() -> None:
    assert [made_tool.name for made_tool in tools_of(BigShop())] == [
        "close",
        "kind",
        "shop_name",
        "price",
        "sell",
        "weight",
    ]


def test_a_method_of_an_object_is_a_tool_by_itself() -> None:
    shop = Shop()
    assert [made_tool.name for made_tool in tools_of(shop.sell)] == ["sell"]
    assert parameters(shop.sell) == {"what": {"type": "string"}}


def test_a_method_of_an_object_can_be_given_another_name() -> None:
    shop = Shop()
    made = one(tool(name="vend", description="Vends.")(shop.sell))
    assert (made.name, made.description, made.function(what="tea"), shop.sold) == (
        "vend",
        "Vends.",
        "sold",
        ["tea"],
    )
    assert [made_tool.name for made_tool in tools_of(shop.sell)] == ["sell"]


class Caller:
    """Calls somebody."""

    def __call__(self, number: int) -> str:
        return str(number)


class AsyncCaller:
    """Calls somebody."""

    async def __call__(self, number: int) -> str:
        return str(number)


class DecoratedCaller:
    @tool
    def __call__(self, number: int) -> str:
        """Calls."""
        return str(number)


def test_an_object_that_can_be_called_is_a_tool() -> None:
    made = one(Caller())
    assert (made.name, made.description, made.asynchronous) == ("Caller", "Calls somebody.", False)
    assert parameters(Caller()) == {"number": {"type": "integer"}}
    assert one(AsyncCaller()).asynchronous
    decorated = one(DecoratedCaller())
    assert (decorated.name, decorated.description) == ("DecoratedCaller", "Calls.")


def test_a_partial_is_a_tool_without_the_bound_arguments() -> None:
    def search(key: str, text: str, limit: int = 5, *, region: str = "eu") -> str:
        """Searches.

        Args:
            text: What for.
        """
        return f"{key} {text} {limit} {region}"

    made = one(functools.partial(search, "secret", region="us"))
    assert (made.name, made.description) == ("search", "Searches.")
    assert made.arguments.schema is not None
    assert made.arguments.schema["properties"] == {
        "text": {"type": "string", "description": "What for."},
        "limit": {"type": "integer", "description": "Default: 5"},
    }
    assert made.function(text="x") == "secret x 5 us"


def test_a_partial_keeps_the_declaration_of_its_function() -> None:
    @tool(name="output_format", needs_approval=True, timeout=3)
    async def send(account: str, amount: int) -> None: ...

    made = one(functools.partial(send, account="1"))
    assert (made.name, made.needs_approval, made.timeout, made.asynchronous) == (
        "output_format",
        True,
        3,
        True,
    )


def test_a_decorator_with_wrapped_hides_nothing() -> None:
    def loud(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @loud
    @tool(needs_approval=True)
    async def find(city: str) -> str:
        """Finds."""
        return city

    made = one(find)
    assert (made.name, made.description, made.needs_approval, made.asynchronous) == (
        "find",
        "Finds.",
        True,
        True,
    )
    assert parameters(find) == {"city": {"type": "string"}}
    cached = functools.lru_cache(inspect.unwrap(find))
    assert parameters(cached) == {"city": {"type": "string"}}


def test_a_coroutine_function_is_asynchronous() -> None:
    async def find() -> None: ...

    assert one(find).asynchronous
    assert one(functools.partial(find)).asynchronous


def test_a_tool_may_be_made_by_hand_with_a_schema_of_its_own() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}},
        "required": ["city"],
        "additionalProperties": False,
    }
    arguments: TypeParser[Any] = schema_parser(schema)
    made = Tool("weather", "Tells it.", lambda city: city, arguments)
    offered = make_toolbox([made], ToolLimits()).offered_to(TOOLS)
    assert offered is not None
    (told,) = offered.tooling.tools
    assert (told.name, told.description, told.strict) == ("weather", "Tells it.", False)
    assert told.parameters["properties"] == schema["properties"]
    assert offered.parsers["weather"].parse('{"city": "Rome"}') == {"city": "Rome"}


WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def test_the_settings_of_the_function_hold_for_a_tool_with_a_schema() -> None:
    undone: list[str] = []

    def undo(city: str) -> None:
        undone.append(city)

    @tool(name="other", description="Other.", return_behavior="immediate", timeout=2, max_calls=3)
    def weather(city: str) -> str:
        return city

    made = Tool.from_schema(WEATHER, weather)
    assert (made.name, made.description) == ("weather", "Tells the weather.")
    assert (made.return_behavior, made.timeout, made.max_calls, made.return_type) == (
        ReturnBehavior.IMMEDIATE,
        2,
        3,
        str,
    )
    assert Tool.from_schema(WEATHER, tool(needs_approval=True)(weather)).needs_approval
    assert Tool.from_schema(WEATHER, tool(external=True)(weather)).external
    assert Tool.from_schema(WEATHER, tool(compensate=undo)(weather)).compensate is undo
    with pytest.raises(ToolDefinitionError, match="it must be greater than 0"):
        Tool.from_schema(WEATHER, tool(timeout=0)(weather))
    with pytest.raises(ToolDefinitionError, match="takes town, which is not a parameter of the tool"):
        Tool.from_schema(WEATHER, tool(compensate=lambda town: None)(weather))


def test_a_dict_with_an_invalid_schema_is_no_tool() -> None:
    for schema in (
        {"$ref": "#"},
        {"$ref": "#/$defs/A"},
        {"type": "objekt"},
        {"properties": {"a": {"items": 5}}},
    ):
        with pytest.raises(
            ToolDefinitionError, match="the dict does not describe a tool: the JSON Schema 'w' is invalid"
        ):
            Tool.from_schema({"name": "w", "parameters": schema}, print)


def test_the_function_of_a_tool_with_a_schema_gets_what_the_model_does_not_see() -> None:
    class Desk(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, room: Annotated[str, MemoryId]) -> str: ...

    def weather(who: Annotated[str, MemoryId], **arguments: Any) -> str:
        return f"{who} {arguments}"

    model = ScriptedChatModel([tool_calls_reply(("weather", '{"city": "Rome"}')), "Done."])
    create(Desk, model, tools=[Tool.from_schema(WEATHER, weather)]).ask("x", "r1")
    assert model.requests[-1].messages[-1].text == "r1 {'city': 'Rome'}"


def test_annotations_that_are_unknown_do_not_matter_for_a_tool_with_a_schema() -> None:
    def weather(city: Unknown) -> str:  # type: ignore[name-defined]  # noqa: F821
        return str(city)

    assert Tool.from_schema(WEATHER, weather).injected == {}


# methods of other services


class Summaries(Protocol):
    """Sums up."""

    @tool(name="summarize", description="Sums a text up.")
    @user_message("Sum up: {{text}}")
    def short(
        self,
        text: str,
        conversation: Annotated[str, MemoryId],
        said: Annotated[list[Message], History] = [],  # noqa: B006
        settings: ChatOptions | None = None,
    ) -> str: ...

    async def plain(self, text: str) -> str:
        """Says it plainly."""
        ...


def test_the_method_of_another_service_is_a_tool() -> None:
    service = create(Summaries, ScriptedChatModel(["Short."]), interceptors=[ChatMemory()])
    made = one(service.short)
    assert (made.name, made.description, made.injected, made.asynchronous) == (
        "summarize",
        "Sums a text up.",
        {"conversation": MemoryId},
        False,
    )
    assert parameters(service.short) == {"text": {"type": "string"}}
    assert made.function(text="x", conversation="c") == "Short."


def test_an_async_method_of_another_service_is_an_async_tool() -> None:
    service = create(Summaries, ScriptedChatModel(["Plain."]), interceptors=[ChatMemory()])
    made = one(service.plain)
    assert (made.name, made.description, made.asynchronous) == ("plain", "Says it plainly.", True)
    assert asyncio.run(made.function(text="x")) == "Plain."


def test_a_whole_service_has_the_tools_that_it_declares() -> None:
    assert [
        made_tool.name
        for made_tool in tools_of(create(Summaries, ScriptedChatModel([]), interceptors=[ChatMemory()]))
    ] == ["summarize"]


# parameters that the model does not see


def test_parameters_with_a_role_are_passed_and_not_described() -> None:
    def book(
        what: str,
        user: Annotated[str, ToolContext],
        memory: Annotated[int, MemoryId],
        speaker: Annotated[str | None, UserName] = None,
        tenant: Annotated[str, ToolContext()] | None = None,
    ) -> None: ...

    made = one(book)
    assert (parameters(book), made.injected) == (
        {"what": {"type": "string"}},
        {"user": ToolContext, "memory": MemoryId, "speaker": UserName, "tenant": ToolContext},
    )


# problems


def untyped(city) -> None: ...  # type: ignore[no-untyped-def]


def any_number(*cities: str) -> None: ...


def any_name(**cities: str) -> None: ...


def unknown_name(city: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unreadable(what: Callable[[], int]) -> None: ...


def of_a_call(said: Annotated[list[Message], History]) -> None: ...


@tool(timeout=0)
def without_time() -> None: ...


@tool(name="get weather")
def spaced() -> None: ...


@tool(name="x" * 65)
def long_name() -> None: ...


NAMES = "use 1 to 64 characters of a-z, A-Z, 0-9, _ and -"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            untyped,
            "the parameter city of the tool untyped has no type annotation; annotate it",
        ),
        (any_number, "the tool any_number has the parameter *cities: 'str'; models pass arguments by name"),
        (any_name, "the tool any_name has the parameter **cities: 'str'; models pass arguments by name"),
        (
            unknown_name,
            "an annotation of the tool unknown_name cannot be resolved: name 'Nowhere' is not defined",
        ),
        (of_a_call, "the tool of_a_call needs said, which tools do not get; give it a default"),
        (without_time, "the timeout of the tool without_time is 0; it must be greater than 0"),
        (spaced, f"'get weather' is not a valid tool name; {NAMES}"),
        (long_name, f"'{'x' * 65}' is not a valid tool name; {NAMES}"),
        (lambda: None, f"'<lambda>' is not a valid tool name; {NAMES}"),
        (Shop, "Shop is a class; pass an object of it, or its methods"),
        (Place("x"), "Place has no tools: decorate its methods with @tool"),
        (
            SimpleNamespace(name="population", func=weather, args_schema=None),
            "population is a tool of LangChain; pass its function: population.func",
        ),
        ("weather", "str has no tools: decorate its methods with @tool"),
        ([weather], "a list is not a tool; pass its items: tools=[*LIST]"),
        (None, "NoneType has no tools: decorate its methods with @tool"),
        (asyncio, "module has no tools: decorate its methods with @tool"),
        (
            Shop.sell,
            "the parameter self of the tool sell has no type annotation; annotate it",
        ),
        (
            max,
            "the signature of the tool max is unknown: "
            "no signature found for builtin <built-in function max>",
        ),
    ],
)
def test_an_invalid_tool_is_refused_with_the_reason(source: Any, said: str) -> None:
    assert problem(source) == said


def test_the_error_for_an_unsupported_type_names_the_tool_and_the_parameter() -> None:
    assert problem(unreadable).startswith("the tool unreadable: ")
    assert "unreadable_arguments.what" in problem(unreadable)


def test_a_parameter_with_media_is_refused() -> None:
    def show(pictures: list[Image]) -> None: ...

    assert problem(show) == (
        "the tool show: a model writes text, so it cannot write an object of Image (in "
        "show_arguments.pictures); use str, for example for a URL"
    )


class Row:
    pass


class Shape:
    pass


@dataclass
class Circle(Shape):
    radius: int


def test_a_result_that_cannot_be_written_as_json_is_refused() -> None:
    def find() -> Row: ...  # type: ignore[empty-body]

    def draw() -> Shape:
        return Circle(1)

    assert problem(find) == (
        "the tool find: it returns Row, which cannot be written as JSON for the model; return text, a "
        "dataclass or other data"
    )
    assert one(draw).return_type is Shape


def test_async_iterables_make_a_tool_async() -> None:
    async def count() -> AsyncIterator[int]:
        yield 1

    def stream() -> AsyncIterator[int]:
        return count()

    assert (one(count).asynchronous, one(stream).asynchronous) == (True, True)


def test_two_tools_of_one_name_are_a_fault() -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        make_toolbox([weather, tool(name="weather")(Shop().sell)], ToolLimits())
    assert (
        str(caught.value)
        == "two tools are called weather; rename one of them with tool(name=…) or McpTools(prefix=…)"
    )


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_rounds": 0}, "ToolLimits: max_rounds is 0; it must be at least 1"),
        ({"max_calls": 0}, "ToolLimits: max_calls is 0; it must be at least 1"),
        ({"max_concurrency": -1}, "ToolLimits: max_concurrency is -1; it must be at least 1"),
        ({"max_characters": 0}, "ToolLimits: max_characters is 0; it must be at least 1"),
        ({"timeout": 0}, "ToolLimits: timeout is 0; it must be greater than 0"),
        ({"timeout": float("nan")}, "ToolLimits: timeout is nan; it must be a number"),
    ],
)
def test_limits_that_permit_nothing_are_a_fault(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        ToolLimits(**limits)
    assert str(caught.value) == said


# a service with tools


class Asks(Protocol):
    def ask(self, text: str) -> str: ...


class Waits(Protocol):
    async def ask(self, text: str) -> str: ...


async def later(city: str) -> str:
    return city


def booked(what: str, user: Annotated[str, ToolContext], tenant: Annotated[str, ToolContext]) -> str:
    return what


def problems(interface: Any, tools: Any, capabilities: Capabilities = TOOLS) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        create(interface, ScriptedChatModel([], capabilities=capabilities), tools=tools)
    return [str(problem) for problem in caught.value.problems]


def test_create_reports_all_problems_of_tools() -> None:
    assert problems(Asks, [later, booked], Capabilities()) == [
        "Asks.ask: scripted does not support tools; remove them or use another model",
        "Asks.ask: the tool booked needs user, tenant, and the method has no such parameter; add user: "
        "Annotated[…, ToolContext]",
    ]
    assert problems(Asks, [Shop]) == ["Asks.ask: Shop is a class; pass an object of it, or its methods"]
    assert create(Waits, ScriptedChatModel([], capabilities=TOOLS), tools=[later]) is not None


def test_positional_only_parameters_are_passed_by_position() -> None:
    seen = []

    def note(city: str, days: int = 2, /, *, unit: str = "C") -> str:
        seen.append((city, days, unit))
        return city

    async def anote(city: str, days: int = 2, /, unit: str = "C") -> str:
        return note(city, days, unit=unit)

    for function in (note, anote):
        arguments = ('{"city": "Rome"}', '{"city": "Oslo", "days": 5, "unit": "F"}')
        calls = [tool_calls_reply((function.__name__, text)) for text in arguments]
        create(Asks, ScriptedChatModel([*calls, "x"], capabilities=TOOLS), tools=[function]).ask("x")
    assert seen == [("Rome", 2, "C"), ("Oslo", 5, "F")] * 2


def test_the_functions_of_a_tool_may_have_positional_only_parameters_too() -> None:
    undone = []

    def undo(city: str, result: str, /) -> None:
        undone.append((city, result))

    @tool(compensate=undo, needs_approval=lambda city, /: False)
    def note(city: str) -> str:
        return "noted"

    class Says(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str) -> str: ...

    model = ScriptedChatModel(
        [tool_calls_reply(("note", '{"city": "Rome"}')), BadRequestError("no")], capabilities=TOOLS
    )
    with pytest.raises(BadRequestError):
        create(Says, model, tools=[note], system_message=lambda text, /: text).ask("x")
    assert undone == [("Rome", "noted")]


class AsyncTools:
    async def tools(self, invocation: Any) -> list[Any]:
        return [weather]


class SomeTools:
    def tools(self, invocation: Any) -> list[Any]:
        return [weather]


def test_an_async_provider_is_for_async_methods() -> None:
    assert problems(Asks, [AsyncTools()]) == [
        "Asks.ask: AsyncTools.tools is async; only async methods can await it"
    ]


def test_the_class_of_a_provider_is_a_problem_and_not_nothing() -> None:
    assert problems(Asks, [SomeTools]) == [
        "Asks.ask: SomeTools is a class; pass an object of it, or its methods"
    ]


class Workshop:
    """An object with decorated methods and a method ``tools``, as a provider has."""

    def __init__(self) -> None:
        self.tools = ["hammer"]

    @tool
    def build(self, what: str) -> str:
        """Builds."""
        return what


class Lender:
    @tool
    def tools(self) -> list[str]:
        """Tells which tools can be borrowed."""
        return ["hammer"]


def test_an_object_with_decorated_methods_is_not_a_provider() -> None:
    for source, name in ((Workshop(), "build"), (Lender(), "tools")):
        box = make_toolbox([source], ToolLimits())
        assert (list(box.tools), box.providers) == ([name], ())


def test_a_provider_is_kept_for_the_calls() -> None:
    provider = SomeTools()
    box = make_toolbox([provider], ToolLimits())
    assert (box.tools, box.providers, box.offered_to(TOOLS)) == ({}, (provider,), None)


def calls(name: str, arguments: str = "{}", id: str = "c1") -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall(id, name, arguments),)), FinishReason.TOOL_CALLS)


def test_tools_may_come_as_a_generator() -> None:
    model = ScriptedChatModel([calls("weather", '{"city": "Rome", "days": 1}'), "Fine."], capabilities=TOOLS)
    assert create(Asks, model, tools=(one for one in [weather])).ask("x") == "Fine."  # type: ignore[call-overload]


def test_a_function_in_the_place_of_a_list_is_a_problem() -> None:
    assert problems(Asks, weather) == ["Asks: tools has the type function; put it into a list"]


def test_string_annotations_of_tools_may_use_the_local_names_of_the_caller_of_create() -> None:
    @dataclass
    class Inside:
        name: str

    def find(what: Inside) -> str:
        return what.name

    model = ScriptedChatModel([calls("find", '{"what": {"name": "x"}}'), "Found."], capabilities=TOOLS)
    assert create(Asks, model, tools=[find]).ask("x") == "Found."


@dataclass
class Person:
    name: str
    seen: list[str] = field(default_factory=list)


class Finds(Protocol):
    def find(self, text: str) -> Person: ...


def person(name: str) -> str:
    return name


def test_a_tool_with_the_name_of_the_tool_that_answers_is_a_problem() -> None:
    tools = [tool(name="Person")(functools.partial(person))]
    assert problems(Finds, tools) == [
        "Finds.find: the tool Person has the name of the tool that gives the answer; rename it"
    ]


class Own(Protocol):
    @options(tools=[weather])
    def one(self, text: str) -> str: ...

    @options(tools=[])
    def none(self, text: str) -> str: ...

    def all(self, text: str) -> str: ...


def test_a_method_may_have_tools_in_the_place_of_those_of_the_service() -> None:
    model = ScriptedChatModel(lambda request: "x", capabilities=TOOLS)
    service = create(Own, model, tools=[person])
    service.one("x")
    service.none("x")
    service.all("x")
    told = [
        None if request.tooling is None else [made.name for made in request.tooling.tools]
        for request in model.requests
    ]
    assert told == [["weather"], None, ["person"]]


def test_the_methods_that_are_tools_are_found_without_reading_properties() -> None:
    assert len(tool_methods(Shop())) == 5


def test_tools_are_strict_if_the_provider_enforces_schemas() -> None:
    strict = Capabilities(tools=True, strict_schema=True)

    def find(city: str, days: int = 3, tags: dict[str, int] | None = None) -> None: ...

    box = make_toolbox([find], ToolLimits())
    offered = box.offered_to(strict)
    assert offered is not None
    (told,) = offered.tooling.tools
    assert told.strict
    assert set(told.parameters["required"]) == {"city", "days", "tags"}
    assert "title" not in told.parameters
    assert box.offered_to(strict) is offered
    text = '{"city": "Rome", "days": null, "tags": [{"key": "a", "value": 1}]}'
    assert offered.parsers["find"].parse(text) == {"city": "Rome", "tags": {"a": 1}}


def test_a_toolbox_takes_further_tools_but_none_twice() -> None:
    box = Toolbox().with_tools([one(weather)])
    assert list(box.tools) == ["weather"]
    with pytest.raises(ToolDefinitionError, match="two tools are called weather"):
        box.with_tools([one(weather)])


def test_a_sync_function_that_returns_an_awaitable_is_not_async() -> None:
    def find() -> Awaitable[str]:
        raise AssertionError

    assert not one(find).asynchronous


def test_a_default_that_does_not_fit_its_type_is_an_error() -> None:
    def limited(n: Annotated[int, Field(le=127)] = 300) -> str:
        return str(n)

    def typed(m: int = "old") -> str:  # type: ignore[assignment]  # the mistake under test
        return str(m)

    for function, message in [
        (limited, "the tool limited: the default of n is 300: input should be less than or equal to 127"),
        (typed, "the tool typed: the default of m is 'old': expected an integer"),
    ]:
        with pytest.raises(ToolDefinitionError) as caught:
            tools_of(function)
        assert str(caught.value).splitlines()[-1].endswith(message)


def test_a_default_that_is_not_of_the_type_but_stands_for_no_value_is_accepted() -> None:
    def accepted(t: float = 5, at_most: float = math.inf, d: str = None) -> str:  # type: ignore[assignment]  # noqa: RUF013  # as older code writes it
        return f"{t} {at_most} {d}"

    assert [tool.name for tool in tools_of(accepted)] == ["accepted"]
