"""A fake model answers with valid values, which are the same for the same seed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import pytest
from equivalence.return_types import CASES
from pydantic import BaseModel, Field, field_validator

from aiservices import (
    AsyncStream,
    Capabilities,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    JsonObjectFormat,
    JsonSchemaFormat,
    Result,
    Stream,
    Tooling,
    ToolSpecification,
    create,
    tool,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.testing import FakeChatModel

ROOT = Path(__file__).parents[3]
WAYS = {
    "strict schema": Capabilities(json_schema=True, strict_schema=True),
    "schema": Capabilities(json_schema=True),
    "tool": Capabilities(tools=True, strict_schema=True),
    "JSON mode": Capabilities(json_mode=True),
    "prompt": Capabilities(),
    "grammar": Capabilities(json_schema=True, constrained=True),
}


@dataclass
class Person:
    name: str
    age: Annotated[int, Field(ge=0, le=130)]
    mood: Literal["glad", "sad"]


class People(Protocol):
    @user_message("Who is this? {{text}}")
    def find(self, text: str) -> Person: ...


def asks_for(form: Any) -> Any:
    def ask(self: object, text: str) -> Any: ...

    ask.__annotations__["return"] = form
    return type("Asking", (Protocol,), {"ask": ask, "__module__": __name__})  # type: ignore[arg-type]


def test_a_made_up_record_satisfies_its_constraints() -> None:
    service = create(People, FakeChatModel(), retry=None)
    for number in range(50):
        person = service.find(f"person {number}")
        assert isinstance(person, Person)
        assert person.name
        assert 0 <= person.age <= 130
        assert person.mood in ("glad", "sad")


def test_the_same_request_gets_the_same_answer_in_any_order() -> None:
    first, second = create(People, FakeChatModel(3)), create(People, FakeChatModel(3))
    texts = [f"person {number}" for number in range(12)]
    one = [first.find(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        other = list(pool.map(second.find, reversed(texts)))
    assert one == other[::-1]
    assert len({repr(person) for person in one}) > 6


def test_another_seed_gives_other_answers() -> None:
    texts = [f"person {number}" for number in range(5)]
    answers = [[create(People, FakeChatModel(seed)).find(text) for text in texts] for seed in (1, 2)]
    assert answers[0] != answers[1]


def test_the_answer_is_the_same_in_another_process() -> None:
    program = """
from aiservices import ChatRequest, JsonSchemaFormat
from aiservices.testing import FakeChatModel

form = JsonSchemaFormat("v", {"type": "array", "items": {"type": "string"}, "minItems": 3})
print(FakeChatModel(7).complete(ChatRequest.of("x", response_format=form)).text)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("way", WAYS)
def test_every_type_is_answered_with_every_strategy_without_coercions(way: str) -> None:
    model = FakeChatModel(capabilities=WAYS[way])
    steps = {}
    for case in CASES:
        service = create(asks_for(Result[case.form]), model, retry=None)
        steps[case.name] = [*service.ask("tea").coercions, *service.ask("coffee").coercions]
    assert {name: taken for name, taken in steps.items() if taken} == {}


def test_streams_lists_and_async_methods_are_answered_alike() -> None:
    class Feed(Protocol):
        def text(self, about: str) -> str: ...
        def words(self, about: str) -> Iterator[str]: ...
        def people(self, about: str) -> Iterator[Person]: ...
        def growing(self, about: str) -> Stream[Person]: ...
        async def later(self, about: str) -> list[Person]: ...
        def awords(self, about: str) -> AsyncIterator[str]: ...
        def agrowing(self, about: str) -> AsyncStream[Person]: ...

    feed = create(Feed, FakeChatModel(), retry=None)

    async def awaited() -> tuple[list[Person], str, Person]:
        words = [word async for word in feed.awords("tea")]
        return await feed.later("tea"), "".join(words), (await feed.agrowing("tea").result()).value

    people, words, grown = asyncio.run(awaited())
    assert feed.text("tea") == "".join(feed.words("tea")) == words
    assert feed.growing("tea").result().value == grown
    assert all(isinstance(one, Person) for one in [*people, *feed.people("tea"), grown])
    assert people


def test_no_tool_is_called_unless_it_is_asked_for() -> None:
    def in_stock(article: str) -> int:
        raise AssertionError("the tool was called")

    model = FakeChatModel()
    assert create(People, model, tools=[in_stock], retry=None).find("x").name
    assert len(model.requests) == 1


@pytest.mark.parametrize("calls", [["in_stock", "put_aside"], "all"])
def test_tools_are_called_with_valid_arguments_before_the_answer(calls: Any) -> None:
    made: list[tuple[str, object]] = []

    @tool
    def in_stock(article: str) -> int:
        made.append(("in_stock", article))
        return 3

    @tool
    def put_aside(article: str, pieces: Annotated[int, Field(ge=1, le=5)]) -> str:
        assert 1 <= pieces <= 5
        made.append(("put_aside", article))
        return "done"

    class Shop(Protocol):
        def answer(self, text: str) -> Result[Person]: ...

    result = create(Shop, FakeChatModel(calls=calls), tools=[in_stock, put_aside], retry=None).answer("lamp")
    assert [name for name, _ in made] == ["in_stock", "put_aside"]
    assert all(isinstance(article, str) for _, article in made)
    assert [run.error for run in result.tool_runs] == [None, None]
    assert isinstance(result.value, Person)


def test_calling_a_tool_that_is_not_offered_is_an_error() -> None:
    service = create(People, FakeChatModel(calls=["buy"]), tools=[len_of])
    with pytest.raises(LookupError) as caught:
        service.find("x")
    assert (
        str(caught.value)
        == "fake should call the tool buy, which the request does not offer; it offers len_of"
    )


def len_of(text: str) -> int:
    """The length of a text."""
    return len(text)


class Isbn(BaseModel):
    number: str

    @field_validator("number")
    @classmethod
    def check(cls, number: str) -> str:
        if not number.startswith("978-"):
            raise ValueError("it must begin with 978-")
        return number


def test_a_value_that_cannot_be_guessed_can_be_given() -> None:
    service = create(asks_for(Isbn), FakeChatModel(values={Isbn: Isbn(number="978-3")}), retry=None)
    assert service.ask("x") == Isbn(number="978-3")


def test_values_by_type_need_a_request_with_a_parser() -> None:
    request = ChatRequest.of("x", response_format=JsonSchemaFormat("v", {"type": "object"}))
    with pytest.raises(LookupError) as caught:
        FakeChatModel(values={Isbn: Isbn(number="978-3")}).complete(request)
    assert str(caught.value) == (
        "fake has values by type, but the request does not say which type its answer has; "
        "code that builds a new request must keep its parser"
    )


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"response_format": JsonSchemaFormat("v", {"type": "integer"})}, int),
        ({"response_format": JsonObjectFormat()}, dict),
        ({"tooling": Tooling((ToolSpecification("t", "", {"type": "array"}),), "t")}, list),
        ({"tooling": Tooling((ToolSpecification("t", "", {"type": "array"}),), "required")}, list),
    ],
)
def test_a_request_without_a_parser_is_answered_by_its_schema(settings: Any, kind: type) -> None:
    message = FakeChatModel().complete(ChatRequest.of("x", **settings)).message
    assert isinstance(
        json.loads(message.tool_calls[0].arguments if message.tool_calls else message.text), kind
    )


def test_the_error_for_a_type_without_a_value_says_what_to_do() -> None:
    service = create(asks_for(Isbn), FakeChatModel(), retry=None)
    with pytest.raises(LookupError) as caught:
        service.ask("x")
    message = str(caught.value)
    assert message.startswith("no value of Isbn was found in 200 attempts; the last one gave: ")
    assert message.endswith("; pass a value in FakeChatModel(values={…})")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from aiservices.testing import strategy_of", "strategy_of"),
        (
            "from aiservices import UserMessage, ChatRequest\n"
            "    from aiservices.testing import FakeChatModel\n"
            "    FakeChatModel(draw=min).complete(ChatRequest((UserMessage('x'),)))",
            "FakeChatModel(draw=…)",
        ),
    ],
)
def test_without_hypothesis_the_error_names_the_extra_to_install(code: str, name: str) -> None:
    whole = (
        "import sys; sys.modules['hypothesis'] = None\n"
        f"try:\n    {code}\nexcept ImportError as error:\n    sys.stdout.buffer.write(str(error).encode())"
    )
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, check=True)
    assert done.stdout.decode() == f'{name} needs the package hypothesis: pip install "aiservices[testing]"'


def test_usage_is_counted_in_words_and_the_model_named() -> None:
    reply = create(asks_for(ChatReply), FakeChatModel(name="dummy")).ask("is it so")
    assert (reply.model, reply.finish_reason) == ("dummy", FinishReason.STOP)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (3, len(reply.text.split()))


def test_the_model_records_its_requests() -> None:
    model = FakeChatModel()
    create(People, model).find("Ann")
    assert [request.messages[0].text for request in model.requests] == ["Who is this? Ann"]


def test_a_request_for_text_is_answered() -> None:
    assert FakeChatModel().complete(ChatRequest.of("hello")).text


@dataclass(frozen=True)
class Loudness:
    capitals: int


class LoudnessParser:
    """A parser that counts capital letters, and cannot write values."""

    schema = None

    def format_instructions(self) -> str:
        return "in capitals"

    def parse(self, text: str) -> Loudness:
        return Loudness(len(text))


def test_a_type_with_a_custom_parser_is_answered() -> None:
    def for_loudness(target: Any, registry: Any) -> Any:
        return LoudnessParser() if target.type is Loudness else None

    model = FakeChatModel()
    service = create(asks_for(Result[Loudness]), model, parsers=[for_loudness], retry=None)
    result = service.ask("x")
    assert result.value == Loudness(len(result.text))
    assert result.text


class TwoTexts(Protocol):
    def title(self, text: str) -> str: ...

    def body(self, text: str) -> str: ...

    def number(self, text: str) -> int: ...

    def reply(self, text: str) -> ChatReply: ...


def test_unused_values_are_the_keys_that_no_request_has_used() -> None:
    model = FakeChatModel(values={"TwoTexts.tittle": "A title", str: "any text", "TwoTexts.reply": "hello"})
    texts = create(TwoTexts, model)
    assert (texts.title("x"), model.unused_values) == ("any text", ["TwoTexts.tittle", "TwoTexts.reply"])
    assert (texts.reply("x").text, model.unused_values) == ("hello", ["TwoTexts.tittle"])


def test_values_are_selected_by_method_before_type() -> None:
    model = FakeChatModel(values={"TwoTexts.title": "A title", str: "any text", "TwoTexts.reply": "hello"})
    service = create(TwoTexts, model)
    assert (service.title("x"), service.body("x"), service.reply("x").text) == (
        "A title",
        "any text",
        "hello",
    )


def test_a_wrong_value_is_named() -> None:
    for key, name in (("TwoTexts.number", "'TwoTexts.number'"), (int, "int")):
        with pytest.raises(DefinitionError) as caught:
            create(TwoTexts, FakeChatModel(values={key: "many"})).number("x")
        assert str(caught.value) == (
            f"FakeChatModel(values={{{name}: …}}): 'many' is not read as int: $.value: expected an integer, "
            'found "many"'
        )
    with pytest.raises(DefinitionError, match="FakeChatModel: values has the key 'title'; write it as in"):
        FakeChatModel(values={"title": "x"})


def test_tools_are_called_in_each_turn_of_a_conversation() -> None:
    def stock(article: str) -> int:
        return 3

    class Shop(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str) -> Result[str]: ...

    shop = create(Shop, FakeChatModel(calls=["stock"]), tools=[stock], interceptors=[ChatMemory()])
    assert [len(shop.ask("How many?").tool_runs) for _ in range(3)] == [1, 1, 1]


def test_without_hypothesis_all_other_names_can_be_imported() -> None:
    code = "import sys; sys.modules['hypothesis'] = None\nfrom aiservices.testing import *; print(evaluate)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "function evaluate" in done.stdout, done.stderr
