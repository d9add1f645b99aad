"""Golden files contain the requests of a service; missing arguments are made up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest

from aiservices import (
    Capabilities,
    ChatOptions,
    History,
    Image,
    MemoryId,
    Message,
    ScriptedChatModel,
    UserMessage,
    UserName,
    create,
    options,
    system_message,
    user_message,
)
from aiservices.memory import ChatMemory
from aiservices.testing import Golden, GoldenError
from aiservices.testing.fake import sample_arguments


@dataclass
class Order:
    article: str
    pieces: int


class Shop(Protocol):
    @system_message("Be brief")
    @user_message("Is {{text}} good?")
    @options(temperature=0, extra_headers={"Authorization": "Bearer secret"})
    def good(self, text: str) -> bool: ...

    def describe(self, text: str) -> str: ...


def shop() -> Shop:
    return create(Shop, ScriptedChatModel([], capabilities=Capabilities(json_schema=True)))


def test_a_golden_file_contains_all_methods_with_options_but_no_headers(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "shop.txt"
    Golden(path, update=True)(shop(), describe={"text": "tea"})
    assert (
        path.read_text("utf-8")
        == f"""\
Shop.describe → scripted
strategy: text (the type is plain text: the reply itself is the value)

[user]
tea

{"=" * 72}

Shop.good → scripted
strategy: json_schema (scripted supports JSON Schema; the value is sent in an object, under the key 'value')

[system]
Be brief

[user]
Is <text> good?

[schema]
{{
  "type": "object",
  "properties": {{
    "value": {{
      "type": "boolean"
    }}
  }},
  "required": [
    "value"
  ],
  "additionalProperties": false
}}

[options]
temperature: 0
"""
    )
    Golden(path, update=False)(shop(), describe={"text": "tea"})
    assert list(path.parent.iterdir()) == [path]


def test_the_error_for_a_missing_file_shows_what_would_be_sent(tmp_path: Path) -> None:
    with pytest.raises(GoldenError) as caught:
        Golden(tmp_path / "it.txt", update=False)(shop().describe, "tea")
    assert str(caught.value) == (
        f"there is no golden file {tmp_path / 'it.txt'} yet. What would be sent:\n\n"
        "Shop.describe → scripted\nstrategy: text (the type is plain text: the reply itself is the value)\n\n"
        "[user]\ntea\n\nLook at it, and accept it with pytest --update-golden"
    )


def test_drift_is_a_unified_diff(tmp_path: Path) -> None:
    path = tmp_path / "it.txt"
    Golden(path, update=True)(shop().describe, "tea")
    with pytest.raises(GoldenError) as caught:
        Golden(path, update=False)(shop().describe, "coffee")
    assert str(caught.value) == (
        f"what would be sent has changed:\n--- {path}\n+++ now\n@@ -2,4 +2,4 @@\n"
        " strategy: text (the type is plain text: the reply itself is the value)\n \n [user]\n-tea\n+coffee\n"
        "Accept it with pytest --update-golden"
    )
    assert path.read_text("utf-8").endswith("tea\n")


def test_an_unchanged_file_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "it.txt"
    Golden(path, update=True)(shop())
    before = path.stat().st_mtime_ns, path.stat().st_ino
    Golden(path, update=True)(shop())
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


class Wide(Protocol):
    @user_message("{{text}} {{order}} {{count}} {{tags}} {{size}}")
    def ask(
        self,
        text: str,
        order: Order,
        count: int,
        tags: list[str],
        who: Annotated[str, UserName],
        chat: Annotated[str, MemoryId],
        before: Annotated[list[Message], History],
        chosen: ChatOptions | None,
        size: int = 3,
    ) -> str: ...


def test_sample_arguments_fit_their_types_and_are_always_the_same() -> None:
    method = create(Wide, ScriptedChatModel([]), interceptors=[ChatMemory()]).ask
    made = sample_arguments(method)
    assert made == sample_arguments(method)
    kinds = {name: type(value).__name__ for name, value in made.items()}
    assert kinds == {
        "text": "str",
        "order": "Order",
        "count": "int",
        "tags": "list",
        "who": "str",
        "chat": "str",
        "before": "tuple",
        "chosen": "NoneType",
    }
    assert (made["text"], made["who"], made["chat"]) == ("<text>", "<who>", "<chat>")


def test_a_parameter_with_an_unresolvable_type_has_no_sample() -> None:
    class Inner(Protocol):
        @user_message("{{count}}")
        def ask(self, count: Number) -> str: ...

    Number = int
    method = create(Inner, ScriptedChatModel([])).ask
    with pytest.raises(TypeError) as caught:
        sample_arguments(method)
    assert str(caught.value) == (
        "Inner.ask: no argument can be made up for count; give the arguments: "
        "golden(service, ask={'count': …})"
    )

    class Outer(Protocol):
        def ask(self, message: UserMessage) -> str: ...

    assert sample_arguments(create(Outer, ScriptedChatModel([])).ask) == {"message": UserMessage("<message>")}


def test_the_error_for_a_parameter_without_a_sample_says_what_to_pass(tmp_path: Path) -> None:
    class Looking(Protocol):
        def look(self, text: str, picture: Image) -> str: ...

    service = create(Looking, ScriptedChatModel([]))
    golden = Golden(tmp_path / "it.txt", update=True)
    with pytest.raises(TypeError) as caught:
        golden(service)
    assert str(caught.value) == (
        "Looking.look: no argument can be made up for picture; give the arguments: "
        "golden(service, look={'picture': …})"
    )
    golden(service, look={"text": "what is it?", "picture": Image(b"\x89PNG\r\n\x1a\n", "image/png")})
    assert "[image/png, 8 bytes]" in (tmp_path / "it.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("subject", "arguments", "message"),
    [
        (
            len,
            {},
            "<built-in function len> is not a method of a service made by create; pass one",
        ),
        (3, {}, "3 is not a method of a service made by create; pass one"),
        (shop(), {"sell": {}}, "Shop has no method sell; name the arguments by method: describe, good"),
    ],
)
def test_a_subject_that_is_not_a_service_or_method_is_a_type_error(
    tmp_path: Path, subject: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        Golden(tmp_path / "it.txt", update=True)(subject, **arguments)
    assert str(caught.value) == message


def test_wrong_arguments_raise_the_same_error_as_the_call(tmp_path: Path) -> None:
    with pytest.raises(TypeError) as caught:
        Golden(tmp_path / "it.txt", update=True)(shop().good)
    assert str(caught.value) == "Shop.good: missing a required argument: 'text'"
