"""Decorators return functions and classes unchanged, and store a declaration for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pytest

from aiservices import (
    ChatOptions,
    DefinitionError,
    ScriptedChatModel,
    Strategy,
    options,
    structured_prompt,
    system_message,
    user_message,
)
from aiservices.interface.decorators import (
    Declaration,
    TemplateSource,
    declaration_of,
    enclosing_names,
    structured_prompt_of,
)


def test_a_decorated_function_comes_back_itself() -> None:
    def ask(self: object, text: str) -> bool: ...

    assert user_message("{{text}}")(system_message("s")(options(seed=1)(ask))) is ask


def test_a_decorated_class_comes_back_itself() -> None:
    class P(Protocol): ...

    assert system_message("s")(options(seed=1)(P)) is P


def test_all_declarations_of_a_function_are_stored() -> None:
    model = ScriptedChatModel([])

    @user_message("u")
    @system_message("s")
    @options(temperature=0, stop=["."], model=model, strategy="prompt")
    def ask(self: object) -> bool: ...

    assert declaration_of(ask) == Declaration(
        user=TemplateSource("u", None, __file__),
        system=TemplateSource("s", None, __file__),
        options=ChatOptions(temperature=0, stop=(".",)),
        model=model,
        strategy=Strategy.PROMPT,
    )


def test_nothing_is_declared_of_a_plain_function() -> None:
    def ask(self: object) -> bool: ...

    assert declaration_of(ask) == Declaration()


@pytest.mark.parametrize("thing", [5, "text", object()])
def test_nothing_is_declared_of_other_things(thing: object) -> None:
    assert declaration_of(thing) == Declaration()


def test_the_decorator_has_all_options_of_a_request() -> None:
    names = {field.name for field in fields(ChatOptions)}
    assert names <= set(signature(options).parameters)

    @options(cache="1h", server_tools=[{"type": "web_search"}], service_tier="flex", reasoning_effort="max")
    def method() -> None: ...

    assert declaration_of(method).options == ChatOptions(
        cache="1h", server_tools=({"type": "web_search"},), service_tier="flex", reasoning_effort="max"
    )


def test_repeated_options_are_merged_and_the_upper_decorator_wins() -> None:
    @options(temperature=0.0, seed=1)
    @options(temperature=1.0, max_tokens=5)
    def ask(self: object) -> bool: ...

    assert declaration_of(ask).options == ChatOptions(temperature=0.0, seed=1, max_tokens=5)


def test_a_second_user_message_is_an_error() -> None:
    with pytest.raises(DefinitionError) as caught:

        class Desk(Protocol):
            @user_message("Answer {{text}}")
            @system_message("Be brief.")
            @user_message("Translate {{text}}")
            def ask(self, text: str) -> str: ...

    assert str(caught.value) == "Desk.ask: it has @user_message twice; keep one of them"


def test_a_second_system_message_is_an_error() -> None:
    with pytest.raises(DefinitionError) as caught:

        @system_message("Be brief.")
        @system_message("Be kind.")
        class Desk(Protocol): ...

    assert str(caught.value) == "Desk: it has @system_message twice; keep one of them"


def test_a_second_structured_prompt_is_an_error() -> None:
    with pytest.raises(DefinitionError) as caught:

        @structured_prompt("Cook {{dish}}.")
        @structured_prompt("Bake {{dish}}.")
        @dataclass
        class Recipe:
            dish: str

    assert str(caught.value) == "Recipe: it has @structured_prompt twice; keep one of them"


def test_a_child_class_replaces_the_structured_prompt_of_its_parent() -> None:
    @structured_prompt("Cook {{dish}}.")
    @dataclass
    class Recipe:
        dish: str

    @structured_prompt("Bake {{dish}}.")
    class Cake(Recipe): ...

    assert structured_prompt_of(Cake) == TemplateSource("Bake {{dish}}.", None, __file__)


def test_a_decorator_can_be_kept_and_used_again() -> None:
    careful = options(temperature=0.0)

    @careful
    @options(seed=1)
    def one(self: object) -> bool: ...

    @careful
    def two(self: object) -> bool: ...

    assert (declaration_of(one).options, declaration_of(two).options) == (
        ChatOptions(temperature=0.0, seed=1),
        ChatOptions(temperature=0.0),
    )


def test_an_interface_inherits_the_declaration_of_its_nearest_base() -> None:
    @system_message("parent")
    class Parent(Protocol): ...

    class Child(Parent, Protocol): ...

    assert declaration_of(Child).system == TemplateSource("parent", None, __file__)


def test_the_declaration_of_a_child_does_not_change_its_parent() -> None:
    @system_message("parent")
    class Parent(Protocol): ...

    @system_message("child")
    class Child(Parent, Protocol): ...

    assert (declaration_of(Parent).system, declaration_of(Child).system) == (
        TemplateSource("parent", None, __file__),
        TemplateSource("child", None, __file__),
    )


def test_a_plain_fake_is_an_instance_of_a_decorated_runtime_protocol() -> None:
    @runtime_checkable
    @system_message("be brief")
    class Judge(Protocol):
        def good(self, text: str) -> bool: ...

    class Fake:
        def good(self, text: str) -> bool:
            return True

    assert isinstance(Fake(), Judge)


def test_a_system_message_can_be_a_callable() -> None:
    def by_text(text: str) -> str:
        return text

    @system_message(by_text)
    def ask(self: object, text: str) -> bool: ...

    assert declaration_of(ask).system is by_text


def test_a_file_is_stored_with_the_module_that_declares_it() -> None:
    @user_message(from_file=Path("prompts") / "ask.txt")
    def ask(self: object) -> bool: ...

    assert declaration_of(ask).user == TemplateSource(file="prompts/ask.txt", declared_in=__file__)


def test_a_structured_prompt_is_found_on_its_class_and_below() -> None:
    @structured_prompt("{{dish}}")
    @dataclass
    class Recipe:
        dish: str

    class Soup(Recipe): ...

    assert (structured_prompt_of(Recipe), structured_prompt_of(Soup)) == (
        TemplateSource("{{dish}}", None, __file__),
        TemplateSource("{{dish}}", None, __file__),
    )


def test_other_classes_are_not_structured_prompts() -> None:
    assert structured_prompt_of(str) is None


@pytest.mark.parametrize("decorator", [user_message, system_message, structured_prompt])
def test_a_prompt_needs_a_template_or_a_file(decorator: Any) -> None:
    with pytest.raises(TypeError) as caught:
        decorator()
    assert str(caught.value) == f"{decorator.__name__} takes either a template or from_file"


@pytest.mark.parametrize("decorator", [user_message, system_message, structured_prompt])
def test_a_prompt_takes_a_template_or_a_file_but_not_both(decorator: Any) -> None:
    with pytest.raises(TypeError) as caught:
        decorator("text", from_file="ask.txt")
    assert str(caught.value) == f"{decorator.__name__} takes either a template or from_file"


def test_a_system_message_takes_a_callable_or_a_file_but_not_both() -> None:
    with pytest.raises(TypeError) as caught:
        system_message(lambda: "s", from_file="ask.txt")
    assert str(caught.value) == "system_message takes one of a template, a callable and from_file"


def test_a_template_must_be_text() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError) as caught:
        user_message(wrong)
    assert str(caught.value) == "user_message takes its template as a str, not int"


def test_a_decorator_without_its_brackets_is_reported() -> None:
    def ask(self: object) -> bool: ...

    wrong: Any = ask
    with pytest.raises(TypeError) as caught:
        user_message(wrong)
    assert str(caught.value) == "user_message takes its template as a str, not function"


def test_names_come_from_the_scopes_that_enclose_a_function() -> None:
    class Item: ...

    class P:
        def ask(self, item: Item) -> Item: ...

    assert enclosing_names(sys._getframe(), P.ask) == {"Item": Item}


def test_names_that_a_local_record_mentions_are_found_with_it() -> None:
    class Part: ...

    class Whole:
        part: Part

    class P:
        def ask(self, text: str) -> Whole: ...

    assert enclosing_names(sys._getframe(), P.ask) == {"Whole": Whole, "Part": Part}


def test_a_local_alias_is_found() -> None:
    Items = list[int]

    class P:
        def ask(self, text: str) -> Items: ...

    assert enclosing_names(sys._getframe(), P.ask) == {"Items": Items}


def test_variables_of_callers_are_never_mistaken_for_types() -> None:
    def called_with_a_variable_of_that_name(Item: object) -> dict[str, Any]:
        return enclosing_names(sys._getframe(), interface())

    assert called_with_a_variable_of_that_name(5) == {}


def interface() -> Any:
    class P:
        def ask(self, text: str) -> Item: ...  # type: ignore[name-defined]  # noqa: F821

    return P.ask


def test_no_names_are_sought_when_no_annotation_is_text() -> None:
    def ask(self, text):  # type: ignore[no-untyped-def]
        ...

    assert enclosing_names(sys._getframe(), ask) == {}
