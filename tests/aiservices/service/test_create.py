"""``create`` implements an interface according to its signatures and prompts."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from importlib.metadata import EntryPoint
from typing import Annotated, Any, Generic, Protocol, TypeVar

import pytest

from aiservices import (
    AiMessage,
    AiServiceError,
    Capabilities,
    ChatOptions,
    ChatReply,
    ChatRequest,
    DefinitionError,
    FinishReason,
    History,
    JsonSchemaFormat,
    MemoryId,
    Message,
    OutputParser,
    ParserRegistry,
    Result,
    ScriptedChatModel,
    Strategy,
    SystemMessage,
    Target,
    ToolCall,
    ToolContext,
    ToolMessage,
    Usage,
    UserMessage,
    UserName,
    create,
    options,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.interceptors import Interceptor, Invocation, Proceed
from aiservices.memory import ChatMemory
from aiservices.models import BUILT_IN
from aiservices.service.methods import plan_of
from aiservices.structured_model import structured
from output_parsers import NumberStyle

T = TypeVar("T")
K = TypeVar("K")


class Sentiment(Enum):
    POSITIVE = "positive"
    NEGATIVE = "negative"


@dataclass
class Person:
    name: str
    age: int


class Judge(Protocol):
    @user_message("Is {{text}} good?")
    def good(self, text: str) -> bool: ...


class Parrot(ScriptedChatModel):
    """A model that always replies with the text after its provider's name, as in ``"parrot:yes"``."""

    def __init__(self, text: str) -> None:
        super().__init__(lambda request: text)
        self.text = text


def messages(model: ScriptedChatModel) -> tuple[Message, ...]:
    (request,) = model.requests
    return request.messages


def test_a_protocol_becomes_an_object_that_answers() -> None:
    model = ScriptedChatModel(["true"])
    assert (create(Judge, model).good("this"), messages(model)) == (True, (UserMessage("Is this good?"),))


def test_an_abstract_class_becomes_an_object_that_answers() -> None:
    class Extractor(ABC):
        @abstractmethod
        def person(self, text: str) -> Person: ...

    service = create(Extractor, ScriptedChatModel(['{"name": "Ann", "age": 42}']))
    assert service.person("Ann is 42") == Person("Ann", 42)


def test_a_plain_class_becomes_an_object_that_answers() -> None:
    class Analyzer:
        def sentiment(self, text: str) -> Sentiment:
            raise NotImplementedError

    assert create(Analyzer, ScriptedChatModel(["positive"])).sentiment("!") is Sentiment.POSITIVE


def test_a_service_is_an_instance_of_its_interface() -> None:
    class Analyzer:
        def sentiment(self, text: str) -> Sentiment: ...

    assert isinstance(create(Analyzer, ScriptedChatModel([])), Analyzer)


def test_a_service_has_name_module_and_docstring_of_its_interface() -> None:
    class Documented:
        """Does it."""

        def ask(self, text: str) -> str: ...

    cls = type(create(Documented, ScriptedChatModel([])))
    assert (cls.__name__, cls.__module__, cls.__doc__) == ("Documented", __name__, "Does it.")


def test_a_protocol_with_call_becomes_a_callable() -> None:
    class Classify(Protocol):
        def __call__(self, text: str) -> Sentiment: ...

    assert create(Classify, ScriptedChatModel(["negative"]))("awful") is Sentiment.NEGATIVE


class Extractor(Protocol[T]):
    @user_message("Extract from {{text}}")
    def extract(self, text: str) -> T: ...

    async def all(self, text: str) -> list[T]: ...


def test_a_generic_interface_is_filled_in() -> None:
    service = create(Extractor[Person], ScriptedChatModel(['{"name": "Ann", "age": 42}']))
    assert service.extract("Ann is 42") == Person("Ann", 42)


def test_a_variable_inside_another_type_is_filled_in() -> None:
    service = create(Extractor[int], ScriptedChatModel(["[1, 2]"]))
    assert asyncio.run(service.all("1 and 2")) == [1, 2]


def test_a_generic_interface_is_filled_in_through_inheritance() -> None:
    class Dates(Extractor[date], Protocol): ...

    service = create(Dates, ScriptedChatModel(["1968-07-04"]))
    assert service.extract("then") == date(1968, 7, 4)


def test_a_generic_interface_is_filled_in_through_two_generations() -> None:
    class Lists(Extractor[list[K]], Protocol[K]): ...

    class Ints(Lists[int], Protocol): ...

    assert create(Ints, ScriptedChatModel(["[1]"])).extract("1") == [1]


def test_a_generic_class_that_is_not_a_protocol_is_filled_in() -> None:
    class Reader(Generic[T]):
        def read(self, text: str) -> T:
            raise NotImplementedError

    assert create(Reader[int], ScriptedChatModel(["7"])).read("seven") == 7


def test_inherited_methods_are_implemented() -> None:
    class Child(Judge, Protocol):
        def bad(self, text: str) -> bool: ...

    service = create(Child, ScriptedChatModel(["true", "false"]))
    assert (service.good("x"), service.bad("x")) == (True, False)


def test_an_overriding_method_is_the_one_that_counts() -> None:
    class Child(Judge, Protocol):
        @user_message("Really, is {{text}} good?")
        def good(self, text: str) -> bool: ...

    model = ScriptedChatModel(["true"])
    create(Child, model).good("x")
    assert messages(model) == (UserMessage("Really, is x good?"),)


def test_a_real_method_is_kept_and_can_call_stubs() -> None:
    class Both(Protocol):
        def good(self, text: str) -> bool: ...

        def bad(self, text: str) -> bool:
            return not self.good(text)

    assert create(Both, ScriptedChatModel(["true"])).bad("x") is False


def test_real_static_and_class_methods_and_properties_are_kept() -> None:
    class Rich(Protocol):
        limit: int = 3

        def good(self, text: str) -> bool: ...

        @staticmethod
        def twice(text: str) -> str:
            return text * 2

        @classmethod
        def title(cls) -> str:
            return cls.__name__

        @property
        def size(self) -> int:
            return self.limit

    service = create(Rich, ScriptedChatModel([]))
    assert (service.twice("a"), service.title(), service.size) == ("aa", "Rich", 3)


def test_variable_arguments_are_one_list() -> None:
    class Cook(Protocol):
        def recipe(self, *ingredients: str) -> str: ...

    model = ScriptedChatModel(["salad"])
    create(Cook, model).recipe("cucumber", "tomato")
    assert messages(model) == (UserMessage("cucumber, tomato"),)


def test_keyword_only_positional_only_and_default_arguments_are_bound_as_in_python() -> None:
    class Translator(Protocol):
        @user_message("{{text}} in {{language}}, {{style}}")
        def translate(self, text: str, /, style: str = "plain", *, language: str = "English") -> str: ...

    model = ScriptedChatModel(["a", "b"])
    service = create(Translator, model)
    service.translate("hi")
    service.translate("hi", "warm", language="German")
    assert [request.messages[0].text for request in model.requests] == [
        "hi in English, plain",
        "hi in German, warm",
    ]


def test_keyword_arguments_of_any_name_are_one_record() -> None:
    class PersonForm(Protocol):
        @user_message("Fill in {{fields}}")
        def fill(self, **fields: str) -> str: ...

    model = ScriptedChatModel(["ok"])
    create(PersonForm, model).fill(name="Ann")
    assert messages(model) == (UserMessage('Fill in {"name": "Ann"}'),)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda service: service.good(), "Judge.good: missing a required argument: 'text'"),
        (lambda service: service.good("a", "b"), "Judge.good: too many positional arguments"),
        (
            lambda service: service.good(txt="a"),
            "Judge.good: got an unexpected keyword argument 'txt'; did you mean 'text'?",
        ),
        (
            lambda service: service.good("a", other=1),
            "Judge.good: got an unexpected keyword argument 'other'; the parameters are: text",
        ),
        (
            lambda service: service.good("a", options=ChatOptions(seed=1)),
            "Judge.good: got an unexpected keyword argument 'options'; to set options for one call, declare "
            "a parameter of type ChatOptions",
        ),
    ],
)
def test_wrong_arguments_are_a_type_error_that_names_the_method(
    call: Callable[[Any], object], message: str
) -> None:
    model = ScriptedChatModel([])
    with pytest.raises(TypeError) as caught:
        call(create(Judge, model))
    assert (str(caught.value), model.requests) == (message, [])


def test_wrong_arguments_of_a_stream_are_reported_before_it_is_read() -> None:
    class Writer(Protocol):
        def write(self, text: str) -> Iterator[str]: ...

    wrong: Any = create(Writer, ScriptedChatModel([]))
    with pytest.raises(TypeError) as caught:
        wrong.write()
    assert str(caught.value) == "Writer.write: missing a required argument: 'text'"


def test_the_signature_of_a_method_is_that_of_its_stub() -> None:
    assert inspect.signature(create(Judge, ScriptedChatModel([])).good) == inspect.signature(
        Judge.good
    ).replace(parameters=list(inspect.signature(Judge.good).parameters.values())[1:])


def test_a_method_has_name_and_docstring_of_its_stub() -> None:
    class Documented(Protocol):
        def ask(self, text: str) -> str:
            """Ask it."""

    method = create(Documented, ScriptedChatModel([])).ask
    assert (method.__name__, method.__doc__) == ("ask", "Ask it.")


def test_an_async_method_is_known_as_a_coroutine_function() -> None:
    service = create(Extractor[int], ScriptedChatModel([]))
    assert [inspect.iscoroutinefunction(method) for method in (service.all, service.extract)] == [True, False]


def test_local_types_are_found_although_annotations_are_text() -> None:
    class Colour(Enum):
        RED = "red"

    @dataclass
    class Paint:
        colour: Colour

    class Painter(Protocol):
        @user_message("Paint {{text}}")
        def decorated(self, text: str) -> Paint: ...

        def plain(self, text: str) -> list[Paint]: ...

    service = create(Painter, ScriptedChatModel(['{"colour": "red"}', '[{"colour": "red"}]']))
    assert (service.decorated("it"), service.plain("it")) == (Paint(Colour.RED), [Paint(Colour.RED)])


def test_a_variable_of_the_caller_is_not_mistaken_for_a_type_of_its_name() -> None:
    Person = "somebody"
    service = create(People, ScriptedChatModel(['{"name": "Ann", "age": 42}']))
    assert (service.person(Person).age, Person) == (42, "somebody")


class People(Protocol):
    def person(self, text: str) -> Person: ...


def test_types_that_no_scope_defines_are_passed_in_localns() -> None:
    class Hidden(Protocol):
        def ask(self, text: str) -> Elsewhere: ...  # type: ignore[name-defined]  # noqa: F821

    service = create(Hidden, ScriptedChatModel(["7"]), localns={"Elsewhere": int})
    assert service.ask("x") == 7


def test_a_stub_without_a_prompt_sends_its_only_argument() -> None:
    class Chat(Protocol):
        def chat(self, text: str) -> str: ...

    model = ScriptedChatModel(["hello"])
    assert (create(Chat, model).chat("hi"), messages(model)) == ("hello", (UserMessage("hi"),))


def test_an_argument_can_be_marked_as_the_user_message() -> None:
    class Chat(Protocol):
        @system_message("Speak {{language}}")
        def chat(self, language: str, text: Annotated[str, UserMessage]) -> str: ...

    model = ScriptedChatModel(["hallo"])
    create(Chat, model).chat("German", "hi")
    assert messages(model) == (SystemMessage("Speak German"), UserMessage("hi"))


def test_what_the_system_message_uses_is_not_the_user_message() -> None:
    class Chat(Protocol):
        @system_message("Speak {{language}}")
        def chat(self, text: str, language: str) -> str: ...

    model = ScriptedChatModel(["hallo"])
    create(Chat, model).chat("hi", "German")
    assert messages(model) == (SystemMessage("Speak German"), UserMessage("hi"))


def systems(interface: type[Any], **settings: Any) -> list[Message]:
    """Return the system messages that the methods ``one`` and ``two`` send."""
    model = ScriptedChatModel(["a", "b"])
    service = create(interface, model, **settings)
    service.one("x")
    service.two("x")
    return [request.messages[0] for request in model.requests]


@system_message("from the interface")
class Spoken(Protocol):
    @system_message("from the method")
    def one(self, text: str) -> str: ...

    def two(self, text: str) -> str: ...


def test_a_methods_system_message_wins_over_its_interfaces() -> None:
    assert systems(Spoken) == [SystemMessage("from the method"), SystemMessage("from the interface")]


def test_an_interfaces_system_message_wins_over_the_services() -> None:
    assert systems(Spoken, system_message="from the service") == [
        SystemMessage("from the method"),
        SystemMessage("from the interface"),
    ]


def test_the_services_system_message_is_for_methods_that_have_no_other() -> None:
    class Half(Protocol):
        @system_message("from the method")
        def one(self, text: str) -> str: ...

        def two(self, text: str) -> str: ...

    assert systems(Half, system_message="from the service") == [
        SystemMessage("from the method"),
        SystemMessage("from the service"),
    ]


def test_a_system_message_is_inherited() -> None:
    class Child(Spoken, Protocol): ...

    assert systems(Child) == [SystemMessage("from the method"), SystemMessage("from the interface")]


def test_a_dynamic_system_message_gets_the_arguments_that_it_names() -> None:
    class Chat(Protocol):
        @system_message(lambda language: f"Speak {language} {{{{text}}}}")
        def chat(self, text: str, language: str) -> str: ...

    model = ScriptedChatModel(["hallo"])
    create(Chat, model).chat("hi", "German")
    assert messages(model) == (SystemMessage("Speak German {{text}}"), UserMessage("hi"))


def test_a_dynamic_system_message_of_the_service_needs_no_argument() -> None:
    model = ScriptedChatModel(["true"])
    create(Judge, model, system_message=lambda: "Be strict").good("x")
    assert messages(model) == (SystemMessage("Be strict"), UserMessage("Is x good?"))


def test_a_dynamic_system_message_must_be_text() -> None:
    wrong: Any = lambda: 5  # noqa: E731
    with pytest.raises(TypeError) as caught:
        create(Judge, ScriptedChatModel([]), system_message=wrong).good("x")
    assert (
        str(caught.value)
        == "Judge.good: the function for the system message returned int; it must return str or None"
    )


def test_a_dynamic_system_message_may_be_missing() -> None:
    class Chat(Protocol):
        @system_message(lambda text: None if text == "hi" else f"You like {text}")
        @user_message("{{text}}")
        def chat(self, text: str) -> str: ...

    model = ScriptedChatModel(["Hello.", "Me too."])
    chat = create(Chat, model)
    chat.chat("hi")
    chat.chat("tea")
    assert [request.messages for request in model.requests] == [
        (UserMessage("hi"),),
        (SystemMessage("You like tea"), UserMessage("tea")),
    ]


def test_a_system_message_without_text_is_not_sent() -> None:
    class Chat(Protocol):
        @system_message("{% if polite %}Be polite{% endif %}")
        @user_message("{{text}}")
        def chat(self, text: str, polite: bool) -> str: ...

    model = ScriptedChatModel(["Hello."])
    create(Chat, model).chat("hi", False)
    assert messages(model) == (UserMessage("hi"),)


def test_a_system_message_of_instructions_is_not_sent_if_there_are_none() -> None:
    class Counter(Protocol):
        @system_message("{{format_instructions}}")
        @user_message("{{text}}")
        def count(self, text: str) -> int: ...

    model = ScriptedChatModel(['{"value": 1}'])
    create(Counter, model).count("hi")
    assert messages(model) == (UserMessage("hi"),)


def test_history_stands_between_system_and_user_message() -> None:
    class Chat(Protocol):
        @system_message("Be brief")
        def chat(self, text: str, before: Annotated[list[Message], History]) -> str: ...

    model = ScriptedChatModel(["Ann"])
    create(Chat, model).chat("Who am I?", [UserMessage("I am Ann"), AiMessage("Hello")])
    assert messages(model) == (
        SystemMessage("Be brief"),
        UserMessage("I am Ann"),
        AiMessage("Hello"),
        UserMessage("Who am I?"),
    )


def test_no_history_is_nothing() -> None:
    class Chat(Protocol):
        def chat(self, text: str, before: Annotated[list[Message] | None, History] = None) -> str: ...

    model = ScriptedChatModel(["Ann"])
    create(Chat, model).chat("Who am I?")
    assert messages(model) == (UserMessage("Who am I?"),)


def test_a_history_of_something_else_is_reported() -> None:
    class Chat(Protocol):
        def chat(self, text: str, before: Annotated[list[Any], History]) -> str: ...

    with pytest.raises(TypeError) as caught:
        create(Chat, ScriptedChatModel([])).chat("hi", ["I am Ann"])
    assert str(caught.value) == (
        "Chat.chat, before, message 1: it is str; it must be a message, a pair of role and text, "
        "or a dict with role and content"
    )


def test_a_history_may_be_message_dicts() -> None:
    class Chat(Protocol):
        def chat(self, text: str, before: Annotated[list[dict[str, Any]], History]) -> str: ...

    model = ScriptedChatModel(["Ann"])
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    before = [
        {"role": "user", "content": [{"type": "text", "text": "I am Ann"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {"role": "assistant", "content": "Hello"},
    ]
    create(Chat, model).chat("Who am I?", before)
    assert messages(model) == (
        UserMessage("I am Ann"),
        AiMessage("", (ToolCall("c", "look", "{}"),)),
        ToolMessage("c", "look", "done"),
        AiMessage("Hello"),
        UserMessage("Who am I?"),
    )


def test_the_name_of_the_user_goes_with_the_message() -> None:
    class Chat(Protocol):
        def chat(self, text: str, who: Annotated[str, UserName]) -> str: ...

    model = ScriptedChatModel(["hi"])
    create(Chat, model).chat("hello", "ann")
    assert messages(model) == (UserMessage("hello", name="ann"),)


def test_name_and_memory_id_may_stand_in_the_prompt() -> None:
    class Chat(Protocol):
        @user_message("{{who}} in {{room}}: {{text}}")
        def chat(self, text: str, who: Annotated[str, UserName], room: Annotated[int, MemoryId]) -> str: ...

    model = ScriptedChatModel(["hi"])
    create(Chat, model).chat("hello", "ann", 7)
    assert messages(model) == (UserMessage("ann in 7: hello", name="ann"),)


def test_it_is_the_only_argument_that_has_no_role() -> None:
    class Chat(Protocol):
        @user_message("> {{it}}")
        def chat(self, text: str, who: Annotated[str, UserName], room: Annotated[int, MemoryId]) -> str: ...

    model = ScriptedChatModel(["hi"])
    create(Chat, model, interceptors=[ChatMemory()]).chat("hello", "ann", 7)
    assert messages(model) == (UserMessage("> hello", name="ann"),)


def test_memory_id_and_tool_values_reach_interceptors_and_not_the_model() -> None:
    class Chat(Protocol):
        def chat(
            self, text: str, room: Annotated[int, MemoryId], key: Annotated[str, ToolContext]
        ) -> str: ...

    turns: list[Invocation] = []

    def keep(invocation: Invocation, proceed: Proceed) -> Any:
        turns.append(invocation)
        return (yield from proceed(invocation))

    model = ScriptedChatModel(["hi"])
    create(Chat, model, interceptors=[keep]).chat("hello", 7, "secret")
    assert (turns[0].memory_id, turns[0].tool_context, messages(model)) == (
        7,
        {"key": "secret"},
        (UserMessage("hello"),),
    )


@structured_prompt("A recipe of {{dish}}")
@dataclass
class CreateRecipe:
    dish: str


def test_one_method_takes_text_or_a_structured_prompt() -> None:
    class Cook(Protocol):
        def cook(self, prompt: str | CreateRecipe) -> str: ...

    model = ScriptedChatModel(["a", "b"])
    service = create(Cook, model)
    service.cook("tea")
    service.cook(CreateRecipe("soup"))
    assert [request.messages for request in model.requests] == [
        (UserMessage("tea"),),
        (UserMessage("A recipe of soup"),),
    ]


def test_the_request_transformer_has_the_last_word() -> None:
    def shout(request: ChatRequest) -> ChatRequest:
        return replace(request, messages=(UserMessage(request.messages[0].text.upper()),))

    model = ScriptedChatModel(["true"])
    create(Judge, model, transform=shout).good("x")
    assert messages(model) == (UserMessage("IS X GOOD?"),)


def test_options_of_call_method_interface_and_service_are_merged_and_the_nearer_wins() -> None:
    @options(temperature=0.2, top_p=0.2, max_tokens=20)
    class Chat(Protocol):
        @options(temperature=0.3, top_p=0.3)
        def chat(self, text: str, how: ChatOptions | None = None) -> str: ...

    model = ScriptedChatModel(["a", "b"])
    service = create(Chat, model, options=ChatOptions(temperature=0.1, top_p=0.1, max_tokens=10, seed=1))
    service.chat("x", ChatOptions(temperature=0.4))
    service.chat("x")
    assert [request.options for request in model.requests] == [
        ChatOptions(temperature=0.4, top_p=0.3, max_tokens=20, seed=1),
        ChatOptions(temperature=0.3, top_p=0.3, max_tokens=20, seed=1),
    ]


def test_the_model_of_a_method_wins_over_interface_and_service() -> None:
    interface_model, method_model = ScriptedChatModel(["interface"]), ScriptedChatModel(["method"])

    @options(model=interface_model)
    class Chat(Protocol):
        @options(model=method_model)
        def one(self, text: str) -> str: ...

        def two(self, text: str) -> str: ...

    service = create(Chat, ScriptedChatModel([]))
    assert (service.one("x"), service.two("x")) == ("method", "interface")


def test_no_model_is_needed_where_each_method_has_its_own() -> None:
    class Chat(Protocol):
        @options(model=ScriptedChatModel(["own"]))
        def one(self, text: str) -> str: ...

    assert create(Chat).one("x") == "own"


def test_a_model_string_is_looked_up_once_for_all_methods() -> None:
    class Two(Protocol):
        def one(self, text: str) -> str: ...

        def two(self, text: str) -> str: ...

    service = create(Two, "openai:gpt-x")
    assert plan_of(service.one).call.model is plan_of(service.two).call.model


def test_the_model_of_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "openai:gpt-x")
    assert plan_of(create(Judge).good).call.model.name == "openai:gpt-x"


def test_the_embedded_model_is_the_default_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiservices.models.registry.find_spec", lambda name: object())
    monkeypatch.setitem(BUILT_IN, "local", f"{__name__}:Parrot")
    assert isinstance(plan_of(create(Judge).good).call.model, Parrot)


def test_a_model_of_an_installed_package_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("parrot", f"{__name__}:Parrot", "aiservices.models")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    model = plan_of(create(Judge, "parrot:yes").good).call.model
    assert isinstance(model, Parrot)
    assert model.text == "yes"


def test_an_unknown_model_is_reported_with_the_models_of_installed_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    point = EntryPoint("parrot", "aiservices:ScriptedChatModel", "aiservices.models")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    with pytest.raises(DefinitionError) as caught:
        create(Judge, "parot:yes")
    assert str(caught.value).startswith(
        "Judge: the model 'parot:yes' is unknown: did you mean 'parrot:yes'? write PROVIDER:NAME"
    )


def test_the_strategy_of_a_method_wins_over_interface_and_service() -> None:
    @options(strategy="json_mode")
    class Counter(Protocol):
        @options(strategy=Strategy.PROMPT)
        def one(self, text: str) -> int: ...

        def two(self, text: str) -> int: ...

    service = create(Counter, ScriptedChatModel([]), strategy=Strategy.JSON_SCHEMA)
    assert [plan_of(method).call.output_format.strategy for method in (service.one, service.two)] == [
        Strategy.PROMPT,
        Strategy.JSON_MODE,
    ]


def test_the_strategy_of_a_service_is_passed_over_by_its_methods_that_return_text() -> None:
    class Mixed(Protocol):
        def text(self, text: str) -> str: ...

        def number(self, text: str) -> int: ...

    service = create(Mixed, ScriptedChatModel([]), strategy="json_mode")
    assert [plan_of(method).call.output_format.strategy for method in (service.text, service.number)] == [
        Strategy.TEXT,
        Strategy.JSON_MODE,
    ]


class Reversed:
    """Reads text backwards."""

    schema = None

    def format_instructions(self) -> str:
        return "Write backwards"

    def parse(self, text: str) -> str:
        return text[::-1]


def test_parsers_of_the_user_come_first() -> None:
    def backwards(target: Target, parsers: ParserRegistry) -> OutputParser[Any] | None:
        return Reversed() if target.type is str else None

    class Chat(Protocol):
        def chat(self, text: str) -> str: ...

    model = ScriptedChatModel(["olleh"])
    assert (create(Chat, model, parsers=[backwards]).chat("hi"), messages(model)) == (
        "hello",
        (UserMessage("hi\n\nWrite backwards"),),
    )


def test_a_result_has_the_value_and_everything_about_it() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> Result[int]: ...

    result = create(Counter, ScriptedChatModel(['{"value": 7}'], name="tiny")).count("a b c")
    assert (
        result.value,
        result.text,
        result.usage,
        result.finish_reason,
        result.model,
        result.strategy,
        result.coercions,
        [attempt.reply for attempt in result.attempts],
        result.seconds > 0,
    ) == (
        7,
        '{"value": 7}',
        Usage(3, 2),
        FinishReason.STOP,
        "tiny",
        Strategy.JSON_SCHEMA,
        (),
        [result.reply],
        True,
    )


def test_a_result_lists_the_coercions() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> Result[int]: ...

    result = create(Counter, ScriptedChatModel(["7"])).count("x")
    assert ([step.rule for step in result.coercions], result.value) == (["envelope left out"], 7)


def test_usage_of_a_result_is_zero_if_the_provider_reports_none() -> None:
    class Counter(Protocol):
        def count(self, text: str) -> Result[str]: ...

    assert create(Counter, ScriptedChatModel([ChatReply(AiMessage("x"))])).count("x").usage == Usage()


def test_the_message_of_the_model_can_be_had() -> None:
    class Chat(Protocol):
        def chat(self, text: str) -> AiMessage: ...

    message = AiMessage("hi", reasoning="they greet me")
    assert create(Chat, ScriptedChatModel([ChatReply(message)])).chat("hello") is message


def test_the_whole_reply_of_the_model_can_be_had() -> None:
    class Chat(Protocol):
        async def chat(self, text: str) -> ChatReply: ...

    reply = ChatReply(AiMessage("hi"), FinishReason.OTHER)
    assert asyncio.run(create(Chat, ScriptedChatModel([reply])).chat("hello")) is reply


def test_the_reply_can_be_had_with_its_result() -> None:
    class Chat(Protocol):
        def chat(self, text: str) -> Result[AiMessage]: ...

    result = create(Chat, ScriptedChatModel(["hi"])).chat("hello")
    assert (result.value, result.strategy) == (AiMessage("hi"), Strategy.TEXT)


def test_an_async_method_is_awaited() -> None:
    class Counter(Protocol):
        async def count(self, text: str) -> Result[int]: ...

    assert asyncio.run(create(Counter, ScriptedChatModel(["7"])).count("x")).value == 7


def test_async_calls_run_side_by_side() -> None:
    class Chat(Protocol):
        async def chat(self, text: str) -> str: ...

    service = create(Chat, ScriptedChatModel(lambda request: request.messages[0].text))

    async def both() -> list[str]:
        return await asyncio.gather(service.chat("a"), service.chat("b"))

    assert asyncio.run(both()) == ["a", "b"]


class Writer(Protocol):
    def write(self, text: str) -> Iterator[str]: ...

    def awrite(self, text: str) -> AsyncIterator[str]: ...


def test_text_is_streamed_as_it_arrives() -> None:
    assert list(create(Writer, ScriptedChatModel(["to be or not"])).write("x")) == [
        "to ",
        "be ",
        "or ",
        "not",
    ]


def test_text_is_streamed_asynchronously() -> None:
    async def texts() -> list[str]:
        return [piece async for piece in create(Writer, ScriptedChatModel(["to be"])).awrite("x")]

    assert asyncio.run(texts()) == ["to ", "be"]


def test_a_cut_off_stream_ends_in_an_error_after_its_text() -> None:
    model = ScriptedChatModel([ChatReply(AiMessage("to be"), FinishReason.LENGTH)])
    pieces: list[str] = []
    with pytest.raises(AiServiceError) as caught:
        pieces.extend(create(Writer, model).write("x"))
    assert str(caught.value) == (
        "Writer.write: the answer was cut off by a length limit; raise max_tokens or ask for less"
    )


def test_a_schema_goes_to_the_model_where_it_takes_one() -> None:
    model = ScriptedChatModel(['{"name": "Ann", "age": 42}'])
    create(People, model).person("x")
    form = model.requests[0].response_format
    assert isinstance(form, JsonSchemaFormat)
    assert (form.name, form.strict, form.schema["required"]) == ("Person", True, ["name", "age"])


def test_a_service_is_used_from_several_threads() -> None:
    model = ScriptedChatModel(lambda request: request.messages[0].text[-1])

    class Echo(Protocol):
        @user_message("{{format_instructions}} {{text}}")
        def last(self, text: str) -> Result[int]: ...

    service = create(Echo, model, strategy="prompt")
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: service.last(f"say {n % 10}"), range(100)))
    assert [(result.value, len(result.attempts)) for result in results] == [(n % 10, 1) for n in range(100)]


def test_two_services_of_one_interface_do_not_share_anything() -> None:
    yes, no = create(Judge, ScriptedChatModel(["true"])), create(Judge, ScriptedChatModel(["false"]))
    assert (yes.good("x"), no.good("x")) == (True, False)


def test_the_plan_behind_a_method_can_be_looked_at() -> None:
    assert plan_of(create(Judge, ScriptedChatModel([])).good).call.qualname == "Judge.good"


def test_a_method_of_something_else_has_no_plan() -> None:
    with pytest.raises(TypeError) as caught:
        plan_of(len)
    assert (
        str(caught.value) == "<built-in function len> is not a method of a service made by create; pass one"
    )


def test_an_interceptor_can_be_an_object() -> None:
    class Counting:
        calls = 0

        def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Any:
            self.calls += 1
            return (yield from proceed(invocation))

    counting = Counting()
    interceptor: Interceptor = counting
    create(Judge, ScriptedChatModel(["true"]), interceptors=[interceptor]).good("x")
    assert counting.calls == 1


def test_no_model_is_asked_by_create() -> None:
    model = ScriptedChatModel([], capabilities=Capabilities())
    create(Judge, model)
    assert model.requests == []


def test_the_number_style_of_a_service_reads_numbers_in_text() -> None:
    class Prices(Protocol):
        @user_message("Price? {{text}}")
        def price(self, text: str) -> Decimal: ...

        @user_message("Price? {{text}}")
        def english(self, text: str) -> Annotated[Decimal, NumberStyle.POINT]: ...

    model = ScriptedChatModel(lambda request: '{"value": "1,234"}')
    prices = create(Prices, model, number_style=NumberStyle.COMMA)
    assert (prices.price("x"), prices.english("x")) == (Decimal("1.234"), Decimal("1234"))
    assert structured(model, Decimal, number_style=NumberStyle.COMMA).invoke("x") == Decimal("1.234")
    assert "decimal comma" in str(model.requests[-1].response_format)
    wrong: Any = "comma"
    with pytest.raises(DefinitionError, match="number_style has the type str; pass a NumberStyle"):
        create(Prices, model, number_style=wrong)
