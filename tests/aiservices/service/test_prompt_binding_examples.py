"""``@example`` adds answers of a method before the question, in the requested output format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    AiMessage,
    AsyncStream,
    Capabilities,
    ChatOptions,
    ChatReply,
    DefinitionError,
    History,
    Message,
    OutputParsingError,
    Problem,
    Result,
    ScriptedChatModel,
    Stream,
    SystemMessage,
    ToolCall,
    ToolContext,
    ToolMessage,
    UserMessage,
    UserName,
    create,
    example,
    options,
    preview,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.interceptors import Answer, Flow, Invocation, Proceed
from output_parsers import ItemError

SCHEMA = Capabilities(json_schema=True)
STRICT = Capabilities(json_schema=True, strict_schema=True)
GRAMMAR = Capabilities(constrained=True)
TOOLS = Capabilities(tools=True)
JSON_MODE = Capabilities(json_mode=True)
NOTHING = Capabilities()


class Sentiment(Enum):
    POSITIVE = 1
    """Glad."""
    NEGATIVE = 2


@dataclass
class Person:
    name: str
    age: int | None = None


ANN, BOB = Person("Ann", 31), Person("Bob")
ANN_TEXT, BOB_TEXT = '{"name": "Ann", "age": 31}', '{"name": "Bob", "age": null}'


def sent_messages(
    interface: Any, capabilities: Capabilities, *args: Any, **kwargs: Any
) -> tuple[Message, ...]:
    """Return the messages that the method ``ask`` of an interface sends."""
    service = create(interface, ScriptedChatModel([], capabilities=capabilities))
    return preview(service.ask, *args, **kwargs).messages


def problems(interface: Any, capabilities: Capabilities = SCHEMA) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        create(interface, ScriptedChatModel([], capabilities=capabilities))
    return [str(problem) for problem in caught.value.problems]


# in each strategy


class People(Protocol):
    @system_message("Be exact.")
    @user_message("Who is it? {{text}}")
    @example("Ann is 31.", returns=ANN)
    @example("It is Bob.", returns=BOB)
    def ask(self, text: str) -> Person: ...


def as_text(*, end: str = "", ann: str = ANN_TEXT, bob: str = BOB_TEXT) -> tuple[Message, ...]:
    return (
        SystemMessage("Be exact."),
        UserMessage("Who is it? Ann is 31."),
        AiMessage(ann),
        UserMessage("Who is it? It is Bob."),
        AiMessage(bob),
        UserMessage("Who is it? x" + end),
    )


HINT = '{"name": string, "age"?: integer | null}'


@pytest.mark.parametrize(
    ("capabilities", "end"),
    [
        (SCHEMA, ""),
        (STRICT, ""),
        (GRAMMAR, f"\n\nReply with JSON only: {HINT}"),
        (JSON_MODE, f"\n\nReply with JSON only: {HINT}"),
        (NOTHING, f"\n\nReply with JSON only, in this form:\n{HINT}"),
    ],
    ids=["schema", "strict", "grammar", "json mode", "prompt"],
)
def test_examples_come_after_the_system_message_in_their_order(capabilities: Capabilities, end: str) -> None:
    assert sent_messages(People, capabilities, "x") == as_text(end=end)


def test_with_an_output_tool_the_examples_are_answered_calls() -> None:
    assert sent_messages(People, TOOLS, "x") == (
        SystemMessage("Be exact."),
        UserMessage("Who is it? Ann is 31."),
        AiMessage("", (ToolCall("example_1", "Person", ANN_TEXT),)),
        ToolMessage("example_1", "Person", "Answer accepted."),
        UserMessage("Who is it? It is Bob."),
        AiMessage("", (ToolCall("example_2", "Person", BOB_TEXT),)),
        ToolMessage("example_2", "Person", "Answer accepted."),
        UserMessage("Who is it? x"),
    )


class Moods(Protocol):
    @example("It's awful!", returns=Sentiment.NEGATIVE)
    def ask(self, text: str) -> Sentiment: ...


@pytest.mark.parametrize(
    ("capabilities", "text"),
    [(SCHEMA, '{"value": "NEGATIVE"}'), (JSON_MODE, '{"value": "NEGATIVE"}'), (NOTHING, "NEGATIVE")],
)
def test_a_member_is_written_as_the_prompt_shows_it(capabilities: Capabilities, text: str) -> None:
    assert sent_messages(Moods, capabilities, "x")[:2] == (UserMessage("It's awful!"), AiMessage(text))


class Counts(Protocol):
    @example("a", returns={"a": 1})
    def ask(self, text: str) -> dict[str, int]: ...


@pytest.mark.parametrize(
    ("capabilities", "text"),
    [(SCHEMA, '{"a": 1}'), (STRICT, '{"value": [{"key": "a", "value": 1}]}'), (NOTHING, '{"a": 1}')],
)
def test_a_value_is_written_in_the_encoding_that_is_asked_for(capabilities: Capabilities, text: str) -> None:
    assert sent_messages(Counts, capabilities, "x")[1] == AiMessage(text)


def test_text_is_shown_as_it_is() -> None:
    class Poet(Protocol):
        @example("rose", returns='A "rose".\n')
        def ask(self, text: str) -> str: ...

    assert sent_messages(Poet, STRICT, "x") == (
        UserMessage("rose"),
        AiMessage('A "rose".\n'),
        UserMessage("x"),
    )


# in each shape


class Shapes(Protocol):
    @example("a", returns=ANN)
    def told(self, text: str) -> Result[Person]: ...

    @example("a", returns=ANN)
    async def awaited(self, text: str) -> Person: ...

    @example("a", returns=ANN)
    def grown(self, text: str) -> Stream[Person]: ...

    @example("a", returns=ANN)
    def agrown(self, text: str) -> AsyncStream[Person]: ...


class Lists(Protocol):
    @example("a", returns=[ANN, BOB])
    def each(self, text: str) -> Iterator[Person]: ...

    @example("a", returns=[ANN, BOB])
    def aeach(self, text: str) -> AsyncIterator[Person]: ...

    @example("a", returns=[ANN, BOB])
    def kept(self, text: str) -> Iterator[Person | ItemError]: ...


class Texts(Protocol):
    @example("a", returns="b c")
    def pieces(self, text: str) -> Iterator[str]: ...

    @example("a", returns="b c")
    def grown(self, text: str) -> Stream[str]: ...


@pytest.mark.parametrize(
    ("interface", "text"),
    [(Shapes, ANN_TEXT), (Lists, f'{{"value": [{ANN_TEXT}, {BOB_TEXT}]}}'), (Texts, "b c")],
)
def test_what_a_method_hands_back_it_is_in_makes_no_difference(interface: Any, text: str) -> None:
    service = create(interface, ScriptedChatModel([], capabilities=SCHEMA))
    for name in (name for name in vars(interface) if not name.startswith("_")):
        messages = preview(getattr(service, name), "x").messages
        assert messages == (UserMessage("a"), AiMessage(text), UserMessage("x")), name


# in each template


def test_examples_come_before_the_history() -> None:
    class Chat(Protocol):
        @system_message("s")
        @user_message("{{text}}")
        @example("a", returns=1)
        def ask(self, text: str, said: Annotated[list[Message], History]) -> int: ...

    assert sent_messages(Chat, NOTHING, "x", [UserMessage("h"), AiMessage("i")])[:-1] == (
        SystemMessage("s"),
        UserMessage("a"),
        AiMessage("1"),
        UserMessage("h"),
        AiMessage("i"),
    )


def test_examples_come_after_a_system_message_of_the_history() -> None:
    class Chat(Protocol):
        @user_message("{{text}}")
        @example("a", returns=1)
        def ask(self, text: str, said: Annotated[list[Message], History]) -> int: ...

    assert sent_messages(Chat, SCHEMA, "x", [SystemMessage("s"), UserMessage("h")]) == (
        SystemMessage("s"),
        UserMessage("a"),
        AiMessage('{"value": 1}'),
        UserMessage("h"),
        UserMessage("x"),
    )


def test_the_instructions_stand_where_the_template_has_them() -> None:
    class Placed(Protocol):
        @user_message("[{{format_instructions}}] {{it}}")
        @example("a", returns=1)
        def ask(self, text: str) -> int: ...

    said = "Reply with the value only, in this form: integer"
    messages = (UserMessage(f"[{said}] a"), AiMessage("1"), UserMessage(f"[{said}] x"))
    assert sent_messages(Placed, NOTHING, "x") == messages
    messages = (UserMessage("[] a"), AiMessage('{"value": 1}'), UserMessage("[] x"))
    assert sent_messages(Placed, SCHEMA, "x") == messages


def test_the_instructions_may_stand_in_the_system_message_alone() -> None:
    class Placed(Protocol):
        @system_message("[{{format_instructions}}]")
        @example("a", returns=1)
        def ask(self, text: str) -> int: ...

    assert [message.text for message in sent_messages(Placed, NOTHING, "x")] == [
        "[Reply with the value only, in this form: integer]",
        "a",
        "1",
        "x",
    ]


@structured_prompt("Create a recipe of a {{dish}} with {{ingredients}}")
@dataclass
class Wish:
    dish: str
    ingredients: list[str]


def test_a_structured_prompt_is_rendered_in_an_example_as_in_a_call() -> None:
    class Cook(Protocol):
        @example(Wish("soup", ["salt", "water"]), returns=["Boil."])
        def ask(self, wish: Wish) -> list[str]: ...

    assert [message.text for message in sent_messages(Cook, SCHEMA, Wish("salad", ["oil"]))] == [
        "Create a recipe of a soup with salt, water",
        '{"value": ["Boil."]}',
        "Create a recipe of a salad with oil",
    ]


def test_arguments_of_an_example_are_those_of_a_call() -> None:
    class Cook(Protocol):
        @user_message("{{n}} x {{first}}, {{more}}, {{unit}}, {{extra}}")
        @example(2, "a", "b", "c", unit="kg", size=3, returns=1)
        @example(n=2, first="a", returns=1)
        def ask(self, n: int, first: str, *more: str, unit: str = "g", **extra: int) -> int: ...

    texts = [message.text for message in sent_messages(Cook, SCHEMA, 1, "x")]
    assert (texts[0], texts[2]) == ('2 x a, b, c, kg, {"size": 3}', "2 x a, , g, {}")


def test_the_values_of_an_example_are_never_rendered() -> None:
    class Echo(Protocol):
        @user_message("say {{it}}")
        @example("{{text}} {{format_instructions}}", returns="{{text}}")
        def ask(self, text: str) -> str: ...

    assert sent_messages(Echo, SCHEMA, "x")[:2] == (
        UserMessage("say {{text}} {{format_instructions}}"),
        AiMessage("{{text}}"),
    )


def test_parameters_with_a_role_are_left_out() -> None:
    class Chat(Protocol):
        @user_message("{{text}}")
        @example("a", returns=1)
        def ask(
            self,
            user: Annotated[str, UserName],
            text: str,
            key: Annotated[str, ToolContext],
            how: ChatOptions,
        ) -> int: ...

    messages = sent_messages(Chat, SCHEMA, "Ann", "x", "key", ChatOptions())
    assert messages == (UserMessage("a"), AiMessage('{"value": 1}'), UserMessage("x", "Ann"))


class Greeter(Protocol):
    @user_message("{{user}} says: {{text}}")
    @example("a", user="Bob", returns=1)
    def ask(self, user: Annotated[str, UserName], text: str) -> int: ...


def test_an_example_passes_a_role_that_the_prompt_shows_by_name() -> None:
    messages = sent_messages(Greeter, SCHEMA, "Ann", "x")
    assert [message.text for message in messages] == ["Bob says: a", '{"value": 1}', "Ann says: x"]


def test_a_role_that_the_prompt_shows_must_not_be_left_out() -> None:
    """The prompt would contain ``None says: a``."""

    class Left(Protocol):
        @user_message("{{user}} says: {{text}}")
        @example("a", returns=1)
        def ask(self, user: Annotated[str, UserName], text: str) -> int: ...

    assert [problem.partition(":")[0] for problem in problems(Left)] == ["Left.ask"]


def test_a_message_of_the_user_may_be_an_argument() -> None:
    class Chat(Protocol):
        @example(UserMessage("a"), returns=1)
        def ask(self, message: UserMessage) -> int: ...

    assert sent_messages(Chat, SCHEMA, UserMessage("x"))[:2] == (UserMessage("a"), AiMessage('{"value": 1}'))


def test_the_other_decorators_may_stand_on_any_side_of_it() -> None:
    class Mixed(Protocol):
        @example("a", returns=1)
        @user_message("[{{it}}]")
        @example("b", returns=2)
        @options(temperature=0)
        @example("c", returns=3)
        def ask(self, text: str) -> int: ...

    service = create(Mixed, ScriptedChatModel([], capabilities=SCHEMA))
    seen = preview(service.ask, "x")
    assert [message.text for message in seen.messages if isinstance(message, UserMessage)] == [
        "[a]",
        "[b]",
        "[c]",
        "[x]",
    ]
    assert seen.options == ChatOptions(temperature=0)


def test_local_types_are_resolved_if_the_only_decorator_is_an_example() -> None:
    @dataclass
    class Local:
        n: int

    class Maker(Protocol):
        @example("a", returns=Local(1))
        def ask(self, text: str) -> Local: ...

    assert sent_messages(Maker, SCHEMA, "x")[1] == AiMessage('{"n": 1}')


# in a call


def test_the_request_of_a_turn_has_no_examples() -> None:
    """Memory stores only the messages of the conversation."""
    seen: list[Any] = []

    def watching(invocation: Invocation, proceed: Proceed) -> Flow[Answer]:
        seen.append((invocation.request.messages, [one.text for one in invocation.examples]))
        return (yield from proceed(invocation))

    model = ScriptedChatModel([ANN_TEXT], capabilities=SCHEMA)
    assert create(People, model, interceptors=[watching]).ask("x") == ANN
    texts = ["Who is it? Ann is 31.", "Who is it? It is Bob."]
    assert seen == [((SystemMessage("Be exact."), UserMessage("Who is it? x")), texts)]
    assert model.requests[0].messages == as_text()


def test_a_whole_answer_is_asked_for_again_with_the_examples() -> None:
    model = ScriptedChatModel(["none", ANN_TEXT], capabilities=SCHEMA)
    assert create(People, model).ask("x") == ANN
    assert model.requests[1].messages[:6] == as_text()


# what does not fit


PLACE = "its example does not fit: "


def test_wrong_arguments_are_reported() -> None:
    class Wrong(Protocol):
        @user_message("{{a}} {{b}}")
        @example("x", returns=1)
        @example("x", "y", "z", returns=1)
        @example("x", "y", c="z", returns=1)
        @example(returns=1)
        def ask(self, a: str, b: str) -> int: ...

    assert problems(Wrong) == [
        f"Wrong.ask, example 1: {PLACE}missing a required argument: 'b'",
        f"Wrong.ask, example 2: {PLACE}too many positional arguments",
        f"Wrong.ask, example 3: {PLACE}got an unexpected keyword argument 'c'",
        f"Wrong.ask, example 4: {PLACE}missing a required argument: 'a'",
    ]


@pytest.mark.parametrize(
    ("of", "value", "said"),
    [
        (bool, "no", "expected true or false, found 'no'"),
        (int, "5", "'5' is read as 5"),
        (Sentiment, "NEGATIVE", 'expected one of "POSITIVE", "NEGATIVE", found \'NEGATIVE\''),
        (Person, {"age": 31}, "$.name: the required field 'name' is missing"),
        (Person, None, "expected an object (Person), found None"),
        (list[Person], ANN, "expected an array, found Person(name='Ann', age=31)"),
        (dict[str, int], [1], "expected an object, found [1]"),
        (date, "1968-07-04", "'1968-07-04' is read as datetime.date(1968, 7, 4)"),
        (str, 5, "expected text, found 5"),
        (Iterator[Person], ANN, "expected an array, found Person(name='Ann', age=31)"),
        (Iterator[str], ["a"], "expected text, found ['a']"),
        (AiMessage, "a", "the method returns the reply itself, for which there are no examples"),
        (ChatReply, "a", "the method returns the reply itself, for which there are no examples"),
    ],
)
def test_a_value_that_is_not_of_the_type_is_reported(of: Any, value: Any, said: str) -> None:
    class Wrong(Protocol):
        @example("x", returns=value)
        def ask(self, text: str) -> of: ...

    assert problems(Wrong) == [f"Wrong.ask: {PLACE}{said}"]


def test_problems_of_examples_are_reported_with_those_of_other_methods() -> None:
    class Wrong(Protocol):
        @example("x", returns="a")
        @example("x", returns=1)
        @example(returns=2)
        def one(self, text: str) -> int: ...

        @user_message("{{nobody}}")
        def two(self, text: str) -> int: ...

    assert [problem.partition(": ")[0] for problem in problems(Wrong)][:2] == [
        "Wrong.one, example 1",
        "Wrong.one, example 3",
    ]


def test_an_example_on_an_interface_is_reported() -> None:
    """No method would use it."""

    @example("a", returns=1)
    class Whole(Protocol):
        def ask(self, text: str) -> int: ...

    assert problems(Whole) != []


class Upper:
    schema = None

    def format_instructions(self) -> str:
        return "in capitals"

    def parse(self, text: str) -> str:
        if not text.isupper():
            raise OutputParsingError(text, [Problem("$", "expected capitals", text)])
        return text


class Loud(str):
    pass


@pytest.mark.parametrize("value", ["ABC", "abc"])
def test_a_parser_of_the_users_checks_the_examples_too(value: str) -> None:
    class Shout(Protocol):
        @example("a", returns=value)
        def ask(self, text: str) -> Loud: ...

    def factory(target: Any, *_: Any) -> Any:
        return Upper() if target.type is Loud else None

    def made() -> Any:
        return create(Shout, ScriptedChatModel([]), parsers=[factory])

    if value.isupper():
        messages = preview(made().ask, "x").messages
        assert messages == (UserMessage("a"), AiMessage("ABC"), UserMessage("x\n\nin capitals"))
    else:
        with pytest.raises(DefinitionError, match="expected capitals, found abc"):
            made()
