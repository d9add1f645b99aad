"""``create`` reports every problem of a declaration at once: where it is, what it is, and what to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

import pytest
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    AsyncStream,
    Audio,
    Capabilities,
    ChatOptions,
    ChatReply,
    DefinitionError,
    History,
    Image,
    MemoryId,
    Result,
    ScriptedChatModel,
    Stream,
    ToolCall,
    ToolContext,
    Usage,
    UserMessage,
    UserName,
    create,
    options,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.models import BUILT_IN
from aiservices.models.presets import PRESETS

T = TypeVar("T")
K = TypeVar("K")
TRIED = (
    "tried: scalars, dates and times, choices, decisions, citations, sequences, mappings, unions, records, "
    "pydantic. Use a type that one of them reads, or add a ParserFactory for it"
)


def problems(interface: Any, model: Any = None, **settings: Any) -> str:
    """Return the whole message of the error that ``create`` raises, and check that no model is called."""
    scripted = ScriptedChatModel([])
    with pytest.raises(DefinitionError) as caught:
        create(interface, scripted if model is None else model, **settings)
    assert scripted.requests == []
    return str(caught.value)


def test_a_docstring_that_looks_like_a_prompt_is_reported() -> None:
    class Translator(Protocol):
        def translate(self, text: str) -> str:
            """Translate {{ text }}"""
            ...

    assert problems(Translator) == (
        "Translator.translate: its docstring has {{text}}, but docstrings are not sent; write the prompt "
        "in @user_message"
    )


def test_a_docstring_may_have_placeholders_beside_a_prompt_or_of_other_names() -> None:
    class Translator(Protocol):
        @user_message("Translate {{text}}")
        def translate(self, text: str) -> str:
            """Sends "Translate {{text}}"."""
            ...

        def ask(self, text: str) -> str:
            """Answers with {{name}} as a placeholder, and {text} in braces."""
            ...

    model = ScriptedChatModel(["a", "b"])
    translator = create(Translator, model)
    assert (translator.translate("x"), translator.ask("y")) == ("a", "b")


def test_an_unknown_placeholder_is_reported_with_the_closest_parameter() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{nme}}")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: the prompt uses {{nme}}, but the parameters are: name; did you mean name?"
    )


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("Greet {{xyz}}", "the prompt uses {{xyz}}, but the parameters are: first, last"),
        (
            "Greet {{it}}",
            "the prompt uses {{it}}, which stands for the only argument; there are 2",
        ),
    ],
)
def test_a_placeholder_for_none_of_several_parameters_is_reported(template: str, message: str) -> None:
    class Greeter(Protocol):
        @user_message(template)
        def greet(self, first: str, last: str) -> str: ...

    assert problems(Greeter) == f"Greeter.greet: {message}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "Greet {{name}}",
            "the prompt uses {{name}}, but the parameters are: none; is self missing?",
        ),
        (
            "Greet {{it}}",
            "the prompt uses {{it}}, which stands for the only argument; there are 0",
        ),
    ],
)
def test_a_placeholder_without_any_parameter_is_reported(template: str, message: str) -> None:
    class Greeter(Protocol):
        @user_message(template)
        def greet(self) -> str: ...

    assert problems(Greeter) == f"Greeter.greet: {message}"


def test_a_missing_self_is_not_suspected_if_the_method_has_other_parameters() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{name}}")
        def greet(self, earlier: Annotated[list[Any], History]) -> str: ...

    assert problems(Greeter) == "Greeter.greet: the prompt uses {{name}}, but the parameters are: none"


def test_an_unknown_placeholder_in_the_system_message_is_reported() -> None:
    class Greeter(Protocol):
        @system_message("Speak {{langauge}}")
        @user_message("Greet {{name}}")
        def greet(self, name: str, language: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: the system message uses {{langauge}}, but the parameters are: name, language; "
        "did you mean language?"
    )


def test_a_placeholder_for_self_is_reported() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{self}} and {{name}}")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == "Greeter.greet: the prompt uses {{self}}, but the parameters are: name"


def test_a_placeholder_for_a_tool_context_is_reported() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{name}} with {{key}}")
        def greet(self, name: str, key: Annotated[str, ToolContext]) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: the prompt uses {{key}}, but a ToolContext parameter is not for the prompt"
    )


def test_an_unused_parameter_is_reported() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{name}}")
        def greet(self, name: str, language: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: the parameter language is not used; write {{language}} in the prompt, or give it a "
        "role (MemoryId, UserName, CallId, History, ToolContext, Tools)"
    )


def test_a_parameter_cannot_have_the_name_of_the_format_instructions() -> None:
    class Greeter(Protocol):
        @user_message("Greet {{format_instructions}}")
        def greet(self, format_instructions: str) -> str: ...

    assert problems(Greeter) == ("Greeter.greet: a parameter cannot be called format_instructions; rename it")


def test_a_missing_return_annotation_is_reported() -> None:
    class Judge(Protocol):
        def good(self, text: str): ...  # type: ignore[no-untyped-def]

    assert problems(Judge) == "Judge.good: it has no return annotation; annotate the type of the answer"


def test_a_type_that_no_parser_reads_is_reported_with_what_was_tried() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Socket: ...

    assert problems(Judge) == f"Judge.good: no parser reads Socket; {TRIED}"


def test_a_type_that_no_parser_reads_is_reported_inside_another() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> list[Socket]: ...

    assert problems(Judge) == f"Judge.good: no parser reads Socket (in list[Socket]); {TRIED}"


def test_a_type_that_no_parser_reads_is_reported_inside_a_record() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Plug: ...

    assert problems(Judge) == (
        f"Judge.good: no parser reads Socket (in dict[str, Socket], in Plug.sockets); {TRIED}"
    )


class Socket:
    def __init__(self, number: int) -> None:
        self.number = number


@dataclass
class Plug:
    sockets: dict[str, Socket]


def test_a_stub_without_a_prompt_and_without_an_argument_is_reported() -> None:
    class Judge(Protocol):
        def good(self) -> bool: ...

    assert problems(Judge) == (
        "Judge.good: it has no prompt and no argument that could be the user message; add @user_message"
    )


def test_a_stub_without_a_prompt_and_with_several_arguments_is_reported() -> None:
    class Judge(Protocol):
        def better(self, one: str, other: str) -> bool: ...

    assert problems(Judge) == (
        "Judge.better: it has no prompt and several arguments (one, other); write the "
        "prompt with @user_message"
    )


def test_a_prompt_and_an_argument_that_is_the_message_are_reported() -> None:
    class Judge(Protocol):
        @user_message("Is it good?")
        def good(self, text: Annotated[str, UserMessage]) -> bool: ...

    assert problems(Judge) == (
        "Judge.good: it has a prompt, and the parameter text is the user message too; keep one of them"
    )


def test_two_roles_on_one_parameter_are_reported() -> None:
    class Judge(Protocol):
        def good(self, text: str, who: Annotated[str, MemoryId, UserName]) -> bool: ...

    assert problems(Judge) == (
        "Judge.good: the parameter who has two roles: MemoryId and UserName; keep one of them"
    )


def test_one_role_on_two_parameters_is_reported() -> None:
    class Judge(Protocol):
        def good(
            self, text: str, a: Annotated[list[Any], History], b: Annotated[list[Any], History]
        ) -> bool: ...

    assert problems(Judge) == "Judge.good: the parameters a and b have the same role, History"


def test_an_annotation_that_cannot_be_resolved_is_reported() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821

    assert problems(Judge) == (
        "Judge.good: an annotation cannot be resolved: name 'Nowhere' is not defined; define the name, or "
        "pass it in localns"
    )


def test_an_annotation_that_is_not_an_expression_is_reported() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> bool: ...

    Judge.good.__annotations__["return"] = "list["
    assert problems(Judge).startswith(
        "Judge.good: an annotation cannot be resolved: Forward reference must be"
    )


def test_bad_template_syntax_is_reported_with_line_and_column() -> None:
    class Greeter(Protocol):
        @user_message("Greet\nthis {{ name")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: prompt: the template has an error in line 2, column 6: unexpected end of template, "
        "expected 'end of print statement'"
    )


def test_bad_syntax_of_the_system_message_is_reported() -> None:
    class Greeter(Protocol):
        @system_message("{% if %}")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: system message: the template has an error in line 1, column 1: Expected an "
        "expression, got 'end of statement block'"
    )


def test_an_empty_template_is_reported() -> None:
    class Greeter(Protocol):
        @user_message(" ")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == "Greeter.greet: prompt: the template is empty"


def test_a_missing_template_file_is_reported() -> None:
    class Greeter(Protocol):
        @user_message(from_file="prompts/gret.txt")
        def greet(self, name: str) -> str: ...

    assert problems(Greeter) == (
        "Greeter.greet: prompt: the template file 'prompts/gret.txt' cannot be read (No such file or "
        "directory); its path is relative to the folder of the module that declares the interface"
    )


@pytest.mark.parametrize("return_type", [Result, Result[T]])  # type: ignore[valid-type]
def test_a_result_without_an_argument_is_reported(return_type: Any) -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Any: ...

    Judge.good.__annotations__["return"] = return_type
    assert problems(Judge) == "Judge.good: Result needs the type of its value, as in Result[bool]"


@pytest.mark.parametrize(
    ("return_type", "name", "item"),
    [
        (Iterator[str], "Iterator", "str"),
        (AsyncIterator[int], "AsyncIterator", "int"),
        (Iterator, "Iterator", "str"),
    ],
)
def test_an_async_def_that_returns_an_iterator_is_reported(return_type: Any, name: str, item: str) -> None:
    class Writer(Protocol):
        async def write(self, text: str) -> Any: ...

    Writer.write.__annotations__["return"] = return_type
    assert problems(Writer) == (
        f"Writer.write: async def with {name} is a coroutine that returns an iterator; "
        f"write def and AsyncIterator[{item}]"
    )


def test_an_iterator_of_nothing_is_reported() -> None:
    class Writer(Protocol):
        def write(self, text: str) -> Iterator: ...  # type: ignore[type-arg]

    assert problems(Writer) == "Writer.write: Iterator needs the type of its items, as in Iterator[str]"


def test_a_stream_of_nothing_is_reported() -> None:
    class Writer(Protocol):
        def write(self, text: str) -> Stream: ...  # type: ignore[type-arg]

    assert problems(Writer) == "Writer.write: Stream needs the type of its value, as in Stream[bool]"


def test_a_coroutine_of_a_stream_is_reported() -> None:
    class Writer(Protocol):
        async def write(self, text: str) -> AsyncStream[int]: ...

    assert problems(Writer) == (
        "Writer.write: async def with AsyncStream[int] is a coroutine that returns a stream; write def"
    )


def test_an_awaitable_is_reported() -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Awaitable[bool]: ...

    assert problems(Judge) == (
        "Judge.good: it returns Awaitable[bool]; write async def and the type of the awaited value"
    )


@pytest.mark.parametrize(
    ("return_type", "whole", "part"),
    [
        (list[AiMessage], "list[AiMessage]", "AiMessage"),
        (ChatReply | None, "ChatReply | None", "ChatReply"),
        (Result[Result[int]], "Result[Result[int]]", "Result[int]"),
        (dict[str, list[AiMessage]], "dict[str, list[AiMessage]]", "AiMessage"),
        (Result[list[AiMessage]], "Result[list[AiMessage]]", "AiMessage"),
    ],
)
def test_a_type_that_describes_the_reply_cannot_be_part_of_the_answer(
    return_type: Any, whole: str, part: str
) -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Any: ...

    Judge.good.__annotations__["return"] = return_type
    assert problems(Judge) == (
        f"Judge.good: it returns {whole}, but {part} describes the whole reply and cannot "
        f"be part of another type"
    )


@pytest.mark.parametrize(
    ("return_type", "whole", "part"),
    [
        (Usage, "Usage", "Usage"),
        (Result[Usage], "Result[Usage]", "Usage"),
        (list[ToolCall] | None, "list[ToolCall] | None", "ToolCall"),
        (UserMessage, "UserMessage", "UserMessage"),
    ],
)
def test_what_belongs_to_the_reply_is_not_made_up_by_the_model(
    return_type: Any, whole: str, part: str
) -> None:
    class Judge(Protocol):
        def good(self, text: str) -> Any: ...

    Judge.good.__annotations__["return"] = return_type
    assert problems(Judge) == (
        f"Judge.good: it returns {whole}, but a model would make up the {part}; return AiMessage, "
        "ChatReply or Result, which have what belongs to the reply"
    )


class Judge(Protocol):
    def good(self, text: str) -> bool: ...


PROVIDERS = (
    'write PROVIDER:NAME, as in "openai:NAME", with one of these providers: '
    f"{', '.join(sorted([*BUILT_IN, *PRESETS]))}; for another server that speaks OpenAI's API pass "
    "OpenAiChatModel(NAME, base_url=…)"
)


def test_an_unknown_model_is_reported_with_the_providers() -> None:
    assert problems(Judge, "nothing") == f"Judge: the model 'nothing' is unknown: {PROVIDERS}"
    assert problems(Judge, "gpt-5") == (
        "Judge: the model 'gpt-5' is unknown: did you mean 'openai:gpt-5'? write PROVIDER:NAME; the command "
        "aiservices providers lists the providers"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("gemini-3-flash", "google:gemini-3-flash"),
        ("o3", "openai:o3"),
        ("openai/gpt-5", "openai:gpt-5"),
        ("antropic:claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
    ],
)
def test_the_error_suggests_the_provider_of_a_model(written: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in problems(Judge, written)


def test_an_object_that_is_not_a_model_is_reported() -> None:
    assert problems(Judge, 5) == (
        "Judge: int is not a ChatModel; pass one. It needs name, capabilities, complete, acomplete, stream "
        "and astream"
    )


def test_the_class_of_a_model_is_reported() -> None:
    assert problems(Judge, ScriptedChatModel) == "Judge: ScriptedChatModel is a class; pass an object of it"


def test_a_missing_model_is_reported_with_how_to_set_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiservices.models.registry.find_spec", lambda name: None)
    with pytest.raises(DefinitionError) as caught:
        create(Judge)
    assert str(caught.value) == (
        'Judge: no model is set: pass one, as in create(Interface, "openai:NAME") or, for made-up answers, '
        '"fake", or set AISERVICES_MODEL; the embedded model is not installed: '
        'pip install "aiservices[local]"'
    )


def test_an_unknown_model_of_one_method_is_reported_for_that_method() -> None:
    class Mixed(Protocol):
        @options(model="nowhere:x")
        def good(self, text: str) -> bool: ...

        def bad(self, text: str) -> bool: ...

    assert problems(Mixed) == (f"Mixed.good: the model 'nowhere:x' is unknown: {PROVIDERS}")


def test_options_out_of_range_are_reported_where_they_were_set() -> None:
    @options(temperature=3)
    class Ranged(Protocol):
        @options(max_tokens=0)
        def good(self, text: str) -> bool: ...

        @options(top_p=1.5)
        def bad(self, text: str) -> bool: ...

    assert problems(Ranged, options=ChatOptions(timeout=0)) == (
        "4 problems:\n"
        "  - Ranged: temperature is 3; it must be from 0 to 2\n"
        "  - Ranged: timeout is 0; it must be greater than 0\n"
        "  - Ranged.good: max_tokens is 0; it must be an integer greater than 0\n"
        "  - Ranged.bad: top_p is 1.5; it must be from 0 to 1"
    )


STRATEGIES = "json_schema, output_tool, grammar, json_mode, prompt, decision, text"
UNKNOWN = f"the strategy 'magic' is unknown; use one of: {STRATEGIES}"


def test_an_unknown_strategy_of_the_service_is_reported() -> None:
    assert problems(Judge, strategy="magic") == f"Judge: {UNKNOWN}"


def test_an_unknown_strategy_of_the_interface_is_reported() -> None:
    @options(strategy="magic")
    class Magic(Protocol):
        def good(self, text: str) -> bool: ...

    assert problems(Magic) == f"Magic: {UNKNOWN}"


def test_an_unknown_strategy_of_a_method_is_reported() -> None:
    class Magic(Protocol):
        @options(strategy="magic")
        def good(self, text: str) -> bool: ...

    assert problems(Magic) == f"Magic.good: {UNKNOWN}"


def test_a_strategy_that_the_model_does_not_support_is_reported() -> None:
    model = ScriptedChatModel([], capabilities=Capabilities(json_mode=True))
    assert problems(Judge, model, strategy="json_schema") == (
        "Judge.good: scripted does not support the strategy json_schema; its capabilities: json_mode"
    )


def test_a_generic_interface_left_open_is_reported() -> None:
    class Extractor(Protocol[T]):
        def extract(self, text: str) -> T: ...

    assert problems(Extractor) == "Extractor: it is generic; fill in T, as in Extractor[str]"


def test_a_generic_interface_of_two_variables_left_open_is_reported() -> None:
    class Pairs(Protocol[T, K]):
        def one(self, text: str) -> T: ...

        def other(self, text: str) -> K: ...

    assert problems(Pairs[int, K]) == (  # type: ignore[valid-type]
        "Pairs[int, K]: it is generic; fill in T, K, as in Pairs[str, str]"
    )


def test_a_generic_parent_left_open_is_reported() -> None:
    class Extractor(Protocol[T]):
        def extract(self, text: str) -> T: ...

    class Child(Extractor, Protocol): ...  # type: ignore[type-arg]

    assert problems(Child) == (
        "Child.extract: no parser reads ~T: it is not bound to a type here; write the type "
        "in its place; tried: "
        "type variables. Use a type that one of them reads, or add a ParserFactory for it"
    )


def test_a_prompt_with_a_body_is_reported() -> None:
    class Judge(Protocol):
        @user_message("Is {{text}} good?")
        def good(self, text: str) -> bool:
            return True

    assert (
        problems(Judge)
        == "Judge.good: it has a prompt and a body; write ... as the body of a method with a prompt"
    )


def test_an_abstract_property_is_reported() -> None:
    class Judge(ABC):
        @property
        @abstractmethod
        def name(self) -> str: ...

        @abstractmethod
        def good(self, text: str) -> bool: ...

    assert problems(Judge) == (
        "Judge.name: it is a property without a body; only plain methods can be implemented"
    )


def test_an_abstract_method_with_a_body_is_reported() -> None:
    class Judge(ABC):
        @abstractmethod
        def name(self) -> str:
            return "judge"

        @abstractmethod
        def good(self, text: str) -> bool: ...

    assert problems(Judge) == ("Judge.name: it is abstract and has a body; keep one of them")


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_stub_that_is_not_a_plain_method_is_reported(kind: Any) -> None:
    class Judge(Protocol):
        @kind
        def name(self) -> str: ...

        def good(self, text: str) -> bool: ...

    assert problems(Judge) == (
        f"Judge.name: it is a {kind.__name__} without a body; only plain methods can be implemented"
    )


def test_an_interface_without_stubs_is_reported() -> None:
    class Done:
        def good(self, text: str) -> bool:
            return True

    assert problems(Done) == "Done: it has no method to implement: each has a body of its own"


@pytest.mark.parametrize(
    ("interface", "name"), [("Judge", "'Judge'"), (int | str, "int | str"), (None, "None")]
)
def test_an_interface_that_is_not_a_class_is_reported(interface: Any, name: str) -> None:
    assert problems(interface) == (
        f"{name}: it is not a class; create takes a Protocol, an ABC or a class, and then a model"
    )


def test_a_system_message_callable_that_takes_something_else_is_reported() -> None:
    class Judge(Protocol):
        @system_message(lambda txt: str(txt))
        def good(self, text: str) -> bool: ...

    assert problems(Judge) == (
        "Judge.good: the function for the system message takes txt, but the parameters "
        "are: text; did you mean text?"
    )


@dataclass
class Gallery:
    pictures: list[Image]
    next: Gallery | None = None


class Poster(BaseModel):
    gallery: Gallery | None


def test_a_return_type_with_media_is_reported() -> None:
    class Draw(Protocol):
        def draw(self, text: str) -> Image: ...

        def posters(self, text: str) -> Iterator[Poster]: ...

        async def speak(self, text: str) -> Result[dict[str, Audio]]: ...

    advice = "use str, for example for a URL"
    assert problems(Draw) == (
        "3 problems:\n"
        "  - Draw.draw: it returns Image; a model writes text, so it cannot write an object of Image; "
        f"{advice}, or a model that makes images\n"
        "  - Draw.posters: it returns Poster; a model writes text, so it cannot write an object of Image (in "
        f"Gallery.pictures); {advice}\n"
        "  - Draw.speak: it returns dict[str, Audio]; a model writes text, so it cannot write an object of "
        f"Audio; {advice}"
    )


def test_a_structured_prompt_with_an_unknown_field_is_reported() -> None:
    @structured_prompt("A recipe of {{dsh}} for {{it}} {{format_instructions}}")
    @dataclass
    class Recipe:
        dish: str

    class Cook(Protocol):
        def cook(self, recipe: str | Recipe) -> str: ...

    start = "Cook.cook, structured prompt Recipe: its template uses"
    assert problems(Cook) == (
        "3 problems:\n"
        f"  - {start} {{{{dsh}}}}, but its fields are: dish; did you mean dish?\n"
        f"  - {start} {{{{format_instructions}}}}, but its fields are: dish\n"
        f"  - {start} {{{{it}}}}, but its fields are: dish"
    )


def test_a_structured_prompt_inside_a_list_is_checked() -> None:
    @structured_prompt("A recipe of {{dsh}}")
    @dataclass
    class Recipe:
        dish: str

    class Cook(Protocol):
        def cook(self, recipes: list[Recipe | str]) -> str: ...

    assert problems(Cook) == (
        "Cook.cook, structured prompt Recipe: its template uses {{dsh}}, but its fields are: "
        "dish; did you mean dish?"
    )


def test_a_structured_prompt_with_bad_syntax_is_reported() -> None:
    @structured_prompt("A recipe of {{dish")
    @dataclass
    class Recipe:
        dish: str

    class Cook(Protocol):
        def cook(self, recipe: Recipe) -> str: ...

    assert problems(Cook) == (
        "Cook.cook, structured prompt Recipe: the template has an error in line 1, column 13: unexpected end "
        "of template, expected 'end of print statement'"
    )


def test_a_structured_prompt_without_its_file_is_reported() -> None:
    @structured_prompt(from_file="nowhere.txt")
    @dataclass
    class Recipe:
        dish: str

    class Cook(Protocol):
        def cook(self, recipe: Recipe) -> str: ...

    assert problems(Cook) == (
        "Cook.cook, structured prompt Recipe: the template file 'nowhere.txt' cannot be read (No such file "
        "or directory); its path is relative to the folder of the module that declares the interface"
    )


def test_all_problems_of_an_interface_are_reported_at_once() -> None:
    class Wrong(Protocol):
        @user_message("Is {{txt}} good?")
        def good(self, text: str, who: Annotated[str, MemoryId]) -> Socket: ...

        @options(temperature=-1)
        def bad(self, text: str) -> Iterator[None]: ...

        async def write(self, text: str) -> Iterator[str]: ...

    assert problems(Wrong, "nowhere", strategy="magic") == (
        "7 problems:\n"
        f"  - Wrong: {UNKNOWN}\n"
        f"  - Wrong: the model 'nowhere' is unknown: {PROVIDERS}\n"
        "  - Wrong.good: the prompt uses {{txt}}, but the parameters are: text, who; did you mean text?\n"
        f"  - Wrong.good: no parser reads Socket; {TRIED}\n"
        "  - Wrong.bad: temperature is -1; it must be from 0 to 2\n"
        "  - Wrong.bad: Iterator[None] has no items; return None, Result[None] or Stream[None]\n"
        "  - Wrong.write: async def with Iterator is a coroutine that returns an iterator; write def and "
        "AsyncIterator[str]"
    )


def test_the_error_has_a_list_of_the_problems() -> None:
    class Wrong(Protocol):
        def good(self, text: str) -> None: ...

        def bad(self, text: str) -> None: ...

    with pytest.raises(DefinitionError) as caught:
        create(Wrong, ScriptedChatModel([]))
    assert [problem.location for problem in caught.value.problems] == ["Wrong.good", "Wrong.bad"]
