"""Templates are compiled once, treat arguments as data, and report line and column of errors."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict

import pytest
from pydantic import BaseModel

from aiservices import (
    AiMessage,
    Capabilities,
    DefinitionError,
    Image,
    Message,
    ScriptedChatModel,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    create,
    preview,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.interface.decorators import TemplateSource
from aiservices.interface.templates import Prompt, TemplateError, compile_prompt, field_names, render_value

PROMPT_ONLY = Capabilities()


def prompt(text: str) -> Prompt:
    return compile_prompt(TemplateSource(text))


def rendered(template: str, /, **values: Any) -> str:
    return prompt(template).render(values, "P.m")


def fault(text: str) -> str:
    with pytest.raises(TemplateError) as caught:
        prompt(text)
    return str(caught.value)


def sent(interface: type[Any], *args: Any, capabilities: Capabilities = PROMPT_ONLY) -> list[str]:
    """Return the texts of the messages that the method ``ask`` sends."""
    model = ScriptedChatModel(["7"], capabilities=capabilities)
    create(interface, model).ask(*args)
    return [message.text for message in model.requests[0].messages]


def test_a_placeholder_is_replaced_by_its_value() -> None:
    assert rendered("Translate {{ text }} into {{language}}", text="hi", language="German") == (
        "Translate hi into German"
    )


def test_a_template_without_placeholders_is_sent_unchanged() -> None:
    class P(Protocol):
        @user_message("Say a number")
        def ask(self) -> str: ...

    assert sent(P) == ["Say a number"]


def test_it_is_the_only_argument() -> None:
    class P(Protocol):
        @user_message("Is {{it}} good?")
        def ask(self, text: str) -> str: ...

    assert sent(P, "this") == ["Is this good?"]


def test_it_is_all_of_the_variable_arguments() -> None:
    class P(Protocol):
        @user_message("Sort {{it}}")
        def ask(self, *items: str) -> str: ...

    assert sent(P, "b", "a") == ["Sort b, a"]


def test_it_in_the_system_message_is_the_only_argument_too() -> None:
    class P(Protocol):
        @system_message("Speak of {{it}}")
        @user_message("What of {{it}}?")
        def ask(self, text: str) -> str: ...

    assert sent(P, "tea") == ["Speak of tea", "What of tea?"]


def test_a_parameter_called_it_is_used_for_it() -> None:
    class P(Protocol):
        @user_message("{{it}} {{other}}")
        def ask(self, it: str, other: str) -> str: ...

    assert sent(P, "a", "b") == ["a b"]


def test_an_attribute_of_an_argument_can_be_named() -> None:
    class P(Protocol):
        @user_message("In {{day.year}}")
        def ask(self, day: date) -> str: ...

    assert sent(P, date(1968, 7, 4)) == ["In 1968"]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("current_date", r"\d{4}-\d\d-\d\d"),
        ("current_time", r"\d\d:\d\d:\d\d"),
        ("current_date_time", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"),
    ],
)
def test_the_clock_is_always_known(name: str, form: str) -> None:
    assert re.fullmatch(form, rendered(f"{{{{{name}}}}}"))


def test_the_clock_is_read_when_a_prompt_is_rendered() -> None:
    before = datetime.now().replace(microsecond=0)
    read = datetime.fromisoformat(rendered("{{current_date_time}}"))
    assert before <= read <= datetime.now()


def test_an_argument_wins_over_the_clock() -> None:
    class P(Protocol):
        @user_message("It is {{current_date}}")
        def ask(self, current_date: date) -> str: ...

    assert sent(P, date(1968, 7, 4)) == ["It is 1968-07-04"]


def test_format_instructions_stand_at_the_end_by_themselves() -> None:
    class P(Protocol):
        @user_message("How many in {{text}}?")
        def ask(self, text: str) -> int: ...

    assert sent(P, "a b") == ["How many in a b?\n\nReply with the value only, in this form: integer"]


def test_format_instructions_can_be_placed_in_the_prompt() -> None:
    class P(Protocol):
        @user_message("{{format_instructions}}. How many in {{text}}?")
        def ask(self, text: str) -> int: ...

    assert sent(P, "a b") == ["Reply with the value only, in this form: integer. How many in a b?"]


def test_format_instructions_can_be_placed_in_the_system_message() -> None:
    class P(Protocol):
        @system_message("{{format_instructions}}.")
        def ask(self, text: str) -> int: ...

    assert sent(P, "a b") == ["Reply with the value only, in this form: integer.", "a b"]


def test_placed_format_instructions_are_empty_where_the_schema_goes_another_way() -> None:
    class P(Protocol):
        @user_message("How many in {{text}}? {{format_instructions}}")
        def ask(self, text: str) -> int: ...

    assert sent(P, "a b", capabilities=Capabilities(json_schema=True)) == ["How many in a b? "]


@pytest.mark.parametrize(
    "text",
    ["{{text}}", "{{ language }}", "{% for x in y %}", "{{current_date}}", "{# note #}", "{{ 7 * 7 }}", "{{"],
)
def test_what_an_argument_contains_is_never_rendered(text: str) -> None:
    class P(Protocol):
        @user_message("Explain {{text}}")
        def ask(self, text: str) -> str: ...

    assert sent(P, text) == [f"Explain {text}"]


def test_what_an_argument_contains_is_never_rendered_when_it_is_the_message() -> None:
    class P(Protocol):
        def ask(self, text: str) -> str: ...

    assert sent(P, "Explain {{text}} and {% raw %}") == ["Explain {{text}} and {% raw %}"]


def test_what_an_argument_contains_is_never_rendered_in_the_system_message() -> None:
    class P(Protocol):
        @system_message("Speak {{language}}")
        def ask(self, text: str, language: str) -> str: ...

    assert sent(P, "hi", "{{text}}") == ["Speak {{text}}", "hi"]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_blank_text_is_text(text: str) -> None:
    class P(Protocol):
        def ask(self, text: str) -> str: ...

    assert sent(P, text) == [text]


def test_text_is_not_escaped() -> None:
    assert rendered("{{text}}", text="<b>&\"'") == "<b>&\"'"


def test_values_are_written_by_the_one_rule() -> None:
    class Colour(Enum):
        RED = "red"

    assert rendered("{{a}} {{b}} {{c}} {{d}}", a=None, b=True, c=[1, 2], d=Colour.RED) == "none true 1, 2 red"


def test_templates_have_loops() -> None:
    assert rendered("{% for item in items %}{{loop.index}}. {{item}}\n{% endfor %}", items=["a", "b"]) == (
        "1. a\n2. b\n"
    )


def test_templates_have_conditions() -> None:
    text = "{% if name %}Dear {{name}}{% else %}Hello{% endif %}"
    assert [rendered(text, name=name) for name in ("Ann", "")] == ["Dear Ann", "Hello"]


def test_templates_have_filters_and_names_of_their_own() -> None:
    assert rendered("{% set loud = text|upper %}{{loud}}!", text="hi") == "HI!"


def test_templates_have_ranges() -> None:
    assert rendered("{% for n in range(count) %}{{n}}{% endfor %}", count=3) == "012"


def test_a_parameter_may_have_the_name_of_a_function_of_templates() -> None:
    class P(Protocol):
        @user_message("{{range}} and {{dict}}")
        def ask(self, range: str, dict: str) -> str: ...

    assert sent(P, "a", "b") == ["a and b"]


def test_a_template_is_dedented() -> None:
    text = """
        Sort these:
          {{text}}
        """
    assert rendered(text, text="b") == "Sort these:\n  b"


def test_variables_are_those_that_a_template_needs() -> None:
    assert prompt("{% for x in a %}{{x}}{{b}}{% endfor %}{{current_date}}").variables == {
        "a",
        "b",
        "current_date",
    }


def test_a_template_is_compiled_once() -> None:
    assert prompt("the same {{text}}") is prompt("the same {{text}}")


def test_a_prompt_is_read_from_a_file_next_to_the_module() -> None:
    class P(Protocol):
        @user_message(from_file="prompts/greet.txt")
        def ask(self, name: str) -> str: ...

    assert sent(P, "Ann") == ["Grüß Ann"]


def test_a_prompt_is_read_from_an_absolute_path(tmp_path: Path) -> None:
    file = tmp_path / "ask.txt"
    file.write_text("\nGrüß {{name}}\n", "utf-8")

    class P(Protocol):
        @user_message(from_file=file)
        def ask(self, name: str) -> str: ...

    assert sent(P, "Ann") == ["Grüß Ann"]


def test_the_system_message_of_an_interface_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "system.txt"
    file.write_text("Be brief", "utf-8")

    @system_message(from_file=file)
    class P(Protocol):
        def ask(self, name: str) -> str: ...

    assert sent(P, "Ann") == ["Be brief", "Ann"]


def test_a_changed_file_is_read_again_by_the_next_create(tmp_path: Path) -> None:
    file = tmp_path / "ask.txt"

    class P(Protocol):
        @user_message(from_file=file)
        def ask(self, name: str) -> str: ...

    file.write_text("Hello {{name}}")
    first = sent(P, "Ann")
    file.write_text("Bye {{name}}")
    assert (first, sent(P, "Ann")) == (["Hello Ann"], ["Bye Ann"])


def test_a_missing_file_is_reported_with_the_folder_that_its_path_is_relative_to() -> None:
    with pytest.raises(TemplateError) as caught:
        compile_prompt(TemplateSource(file="nowhere.txt", declared_in=__file__))
    assert str(caught.value) == (
        "the template file 'nowhere.txt' cannot be read (No such file or directory); "
        "its path is relative to the folder of the module that declares the interface"
    )


def test_a_file_without_a_module_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    file = tmp_path / "ask.txt"
    file.write_text("Hello")
    assert compile_prompt(TemplateSource(file=str(file))).source == "Hello"


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_template_is_a_problem(text: str) -> None:
    assert fault(text) == "the template is empty"


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("Hello {{ name", 1, 7, "unexpected end of template, expected 'end of print statement'"),
        ("a\nb {{ x y }}", 2, 3, "expected token 'end of print statement', got 'y'"),
        ("{{ a }} {{ b + }}", 1, 9, "unexpected 'end of print statement'"),
        ("{% for x in y %}{{ x + }}{% endfor %}", 1, 17, "unexpected 'end of print statement'"),
        ("{{ a }} {{ b|shout }}", 1, 9, "No filter named 'shout'"),
        ("{{ a is shouted }}", 1, 1, "No test named 'shouted'"),
        ("{{ a }}{% shout %}", 1, 8, "Encountered unknown tag 'shout'"),
        ("{{ a }} {% endfor %}", 1, 9, "Encountered unknown tag 'endfor'"),
        ("{{\n  a +\n}}", 3, 1, "unexpected 'end of print statement'"),
        ("a {# b", 1, 3, "Missing end of comment tag"),
        ("a\n{{ 'b }}", 2, 4, 'unexpected char "\'" at 5'),
    ],
)
def test_bad_syntax_is_reported_with_line_and_column(text: str, line: int, column: int, reason: str) -> None:
    assert fault(text) == f"the template has an error in line {line}, column {column}: {reason}"


def test_an_open_block_is_reported_with_its_position() -> None:
    assert fault("a {% if x %}b") == (
        "the template has an error in line 1, column 3: Unexpected end of template. Jinja "
        "was looking for the "
        "following tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is 'if'"
    )


@pytest.mark.parametrize("text", ["{% import 'other' as o %}", "{% extends 'other' %}"])
def test_a_template_cannot_import_or_extend_another(text: str) -> None:
    assert fault(text) == "the template imports or extends another; include it, or write its text here"


@pytest.mark.parametrize(
    "include",
    [
        "{% include it %}",
        "{% include ['a', 'b'] %}",
        "{% include 'a' ignore missing %}",
        "{% include 'a' without context %}",
        "{%- include 'a' ~ 'b' %}",
    ],
)
def test_an_include_is_the_name_of_one_file(include: str) -> None:
    assert fault(f"Hi\n{include}") == (
        'the template has an include in line 2 that is not {% include "FILE" %}; write the name of one file, '
        "in quotes, and nothing else"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a module, with files that templates include."""
    inside = tmp_path / "inside"
    (inside / "prompts").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "rules.txt").write_text("Be polite to {{name}}.\n\n{% include 'prompts/more.txt' %}\n")
    (inside / "prompts" / "more.txt").write_text("\nIt is {{day}}: {{item}}\n")
    (inside / "loop.txt").write_text("{% include 'loop.txt' %}")
    (inside / "wrong.txt").write_text("a\n{% if %}")
    return inside


def included(folder: Path, text: str) -> Prompt:
    return compile_prompt(TemplateSource(text, declared_in=str(folder / "module.py")))


def test_an_include_inserts_a_file_beside_the_module(folder: Path) -> None:
    template = included(folder, "{% for item in items %}{% include 'rules.txt' %}!{% endfor %} {{it}}")
    assert template.variables == {"items", "name", "day", "it"}
    values = {"items": ["{{it}}"], "name": "Ann", "day": "Monday", "it": "x"}
    assert template.render(values, "S.m") == "Be polite to Ann.\n\nIt is Monday: {{it}}! x"


def test_included_files_are_read_once(folder: Path) -> None:
    template = included(folder, "{% include 'prompts/more.txt' %}")
    (folder / "prompts" / "more.txt").write_text("changed")
    assert template.render({"day": "Monday", "item": 1}, "S.m") == "It is Monday: 1"
    assert included(folder, "{% include 'prompts/more.txt' %}").render({}, "S.m") == "changed"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../secret.txt", "the template includes '../secret.txt', which is not in the folder of the module"),
        ("link.txt", "the template includes 'link.txt', which is not in the folder of the module"),
        ("/etc/passwd", "the template includes '/etc/passwd', which is not in the folder of the module"),
        ("loop.txt", "the template file 'loop.txt' includes itself"),
        ("none.txt", "the template file 'none.txt' cannot be read (No such file or directory)"),
        ("wrong.txt", "the template file 'wrong.txt' has an error in line 2, column 1: "),
    ],
)
def test_an_include_that_cannot_be_read_is_reported(folder: Path, name: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        included(folder, f"{{% include '{name}' %}}")
    assert str(caught.value).startswith(message)


@system_message("{% include 'prompts/greet.txt' %}")
class Greeter(Protocol):
    @user_message("Please: {% include 'prompts/greet.txt' %}")
    def ask(self, name: str) -> str: ...

    def other(self, name: str) -> str: ...


def test_templates_of_methods_and_services_include_files_of_their_module() -> None:
    greeter = create(Greeter, "fake", user_message="Now: {% include 'prompts/greet.txt' %}")
    for service in (greeter, pickle.loads(pickle.dumps(greeter))):
        asked = [message.text for message in preview(service.ask, "Ann").messages]
        assert asked == ["Grüß Ann", "Please: Grüß Ann"]
        other = [message.text for message in preview(service.other, "Bob").messages]
        assert other == ["Grüß Bob", "Now: Grüß Bob"]


def test_messages_are_readable_text() -> None:
    class Summary(Protocol):
        @user_message("Summarize:\n{{past}}")
        def ask(self, past: list[Message]) -> str: ...

    past = [
        SystemMessage("Be kind."),
        UserMessage("Hello", "Ann"),
        UserMessage("Look:", contents=(Image.from_url("https://example.com/a.png"),)),
        AiMessage("I look.", (ToolCall("c1", "look", '{"at": "a"}'),)),
        ToolMessage("c1", "look", "a cat"),
        AiMessage("A cat."),
    ]
    assert sent(Summary, past) == [
        "Summarize:\nsystem: Be kind.\nuser Ann: Hello\nuser: Look: [image/png, "
        'https://example.com/a.png]\nassistant: I look.\nassistant calls look({"at": "a"})\n'
        "tool look: a cat\nassistant: A cat."
    ]


@pytest.mark.parametrize("text", ["{{ it.__class__ }}", "{{ it.__class__.__mro__[1].__subclasses__() }}"])
def test_the_insides_of_python_are_out_of_reach(text: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        rendered(text, it="x")
    assert str(caught.value) == (
        "P.m: the prompt cannot be rendered: access to attribute '__class__' of 'str' object is unsafe."
    )


def test_a_missing_attribute_of_a_value_is_reported_with_the_method() -> None:
    with pytest.raises(DefinitionError) as caught:
        rendered("{{ it.nme }}", it="x")
    assert str(caught.value) == "P.m: the prompt cannot be rendered: 'str object' has no attribute 'nme'"


def test_an_error_of_a_value_is_the_cause_of_the_error() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("broken")

    with pytest.raises(DefinitionError) as caught:
        rendered("{{ it }}", it=Broken())
    assert (str(caught.value), repr(caught.value.__cause__)) == (
        "P.m: the prompt cannot be rendered: broken",
        "RuntimeError('broken')",
    )


@structured_prompt("Create a recipe of a {{dish}} that can be prepared using only {{ingredients}}")
@dataclass
class CreateRecipe:
    dish: str
    ingredients: list[str]


def test_a_structured_prompt_is_its_template_with_its_fields() -> None:
    class P(Protocol):
        def ask(self, prompt: CreateRecipe) -> str: ...

    assert sent(P, CreateRecipe("salad", ["cucumber", "feta"])) == [
        "Create a recipe of a salad that can be prepared using only cucumber, feta"
    ]


def test_what_the_fields_of_a_structured_prompt_contain_is_never_rendered() -> None:
    class P(Protocol):
        def ask(self, prompt: CreateRecipe) -> str: ...

    assert sent(P, CreateRecipe("{{ingredients}}", ["{{dish}}"])) == [
        "Create a recipe of a {{ingredients}} that can be prepared using only {{dish}}"
    ]


def test_a_structured_prompt_is_rendered_inside_a_prompt() -> None:
    class P(Protocol):
        @user_message("Please. {{it}}!")
        def ask(self, prompt: CreateRecipe) -> str: ...

    assert sent(P, CreateRecipe("salad", ["feta"])) == [
        "Please. Create a recipe of a salad that can be prepared using only feta!"
    ]


def test_structured_prompts_can_be_looped_over() -> None:
    assert rendered("{% for each in all %}- {{each}}\n{% endfor %}", all=[CreateRecipe("soup", ["tea"])]) == (
        "- Create a recipe of a soup that can be prepared using only tea\n"
    )


SOUP = CreateRecipe("soup", ["tea"])
SOUP_TEXT = "Create a recipe of a soup that can be prepared using only tea"


def test_structured_prompts_in_a_list_are_paragraphs() -> None:
    class P(Protocol):
        def ask(self, prompts: list[CreateRecipe]) -> str: ...

    class Q(Protocol):
        @user_message("Do: {{prompts}}")
        def ask(self, *prompts: str | CreateRecipe) -> str: ...

    assert (sent(P, [SOUP]), sent(P, [SOUP, SOUP])) == ([SOUP_TEXT], [f"{SOUP_TEXT}\n\n{SOUP_TEXT}"])
    assert sent(Q, "Hurry.", SOUP) == [f"Do: Hurry.\n\n{SOUP_TEXT}"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"first": SOUP}, f'{{"first": "{SOUP_TEXT}"}}'),
        ([[SOUP]], f'[["{SOUP_TEXT}"]]'),
        ({SOUP_TEXT}, SOUP_TEXT),
        ((), ""),
    ],
)
def test_structured_prompts_inside_json_are_texts(value: object, text: str) -> None:
    assert rendered("{{value}}", value=value) == text


def test_one_parameter_takes_text_or_a_structured_prompt() -> None:
    class P(Protocol):
        def ask(self, prompt: str | CreateRecipe) -> str: ...

    assert (sent(P, "a {{dish}}"), sent(P, CreateRecipe("soup", ["tea"]))) == (
        ["a {{dish}}"],
        ["Create a recipe of a soup that can be prepared using only tea"],
    )


def test_a_structured_prompt_knows_the_clock() -> None:
    @structured_prompt("{{dish}} of {{current_date}}")
    class Dish(BaseModel):
        dish: str

    class P(Protocol):
        def ask(self, prompt: Dish) -> str: ...

    assert re.fullmatch(r"soup of \d{4}-\d\d-\d\d", sent(P, Dish(dish="soup"))[0])


def test_a_structured_prompt_is_read_from_a_file_next_to_its_module() -> None:
    @structured_prompt(from_file="prompts/greet.txt")
    class Greeting(NamedTuple):
        name: str

    class P(Protocol):
        def ask(self, prompt: Greeting) -> str: ...

    assert sent(P, Greeting("Ann")) == ["Grüß Ann"]


def test_a_structured_prompt_inside_another_is_rendered() -> None:
    @structured_prompt("Twice: {{first}} {{first}}")
    @dataclass
    class Twice:
        first: CreateRecipe

    class P(Protocol):
        def ask(self, prompt: Twice) -> str: ...

    once = "Create a recipe of a soup that can be prepared using only tea"
    assert sent(P, Twice(CreateRecipe("soup", ["tea"]))) == [f"Twice: {once} {once}"]


class Typed(TypedDict):
    a: int
    b: str


class Model(BaseModel):
    a: int
    b: str = ""


@dataclass
class Data:
    a: int
    b: str


@pytest.mark.parametrize("cls", [Typed, Model, Data])
def test_the_fields_of_a_record_are_known_by_name(cls: Callable[..., Any]) -> None:
    assert field_names(cls) == ["a", "b"]


@pytest.mark.parametrize("name", ["../outside.txt", "inner/../../outside.txt"])
def test_a_relative_path_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "module.py").touch()
    with pytest.raises(TemplateError, match="is not in the folder of the module"):
        compile_prompt(TemplateSource(file=name, declared_in=str(folder / "module.py")))
    source = f"{{% include {str(tmp_path / 'outside.txt')!r} %}}"
    with pytest.raises(TemplateError, match="is not in the folder of the module"):
        compile_prompt(TemplateSource(source, declared_in=str(folder / "module.py")))


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "ask.txt").write_text("Hello", "utf-8-sig")
    assert compile_prompt(TemplateSource(file=str(tmp_path / "ask.txt"))).source == "Hello"


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), [b"x"]])
def test_bytes_are_not_text_for_a_prompt(value: object) -> None:
    with pytest.raises(TypeError, match="is not text; pass value"):
        render_value(value)
