"""A target such as MODULE:SERVICE.method names a service, or raises a helpful error."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import CommandRun


def error(run: CommandRun, target: str, *more: str) -> str:
    code, out, err = run("show", target, *more)
    assert (code, out) == (2, "")
    return err.removeprefix("error: ").removesuffix("\n")


def test_a_function_that_creates_a_service_gets_the_model_of_the_option(
    run: CommandRun, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "model: ollama:x\n" in run("show", "shop:made.price", "-m", "ollama:x").out
    monkeypatch.setenv("AISERVICES_MODEL", "openai:gpt-5-mini")
    assert "model: openai:gpt-5-mini\n" in run("show", "shop:made.price").out
    assert "model: scripted\n" in run("show", "shop:scripted_one.price").out


def test_the_error_for_a_missing_module_suggests_a_similar_one(run: CommandRun, shop: Path) -> None:
    assert error(run, "shp:Shop") == f"there is no module shp in {shop}; did you mean shop?"
    assert error(run, "samples.sentimnt:X").endswith("; did you mean samples.sentiment?")
    assert error(run, "none.py:Shop") == f"there is no file {shop / 'none.py'}"


def test_the_error_for_a_missing_service_lists_the_services(run: CommandRun, shop: Path) -> None:
    names = (
        "Shop, Detailed, priced, detailed, loose, listed, items, "
        "spoken, result, echo, Eye, Loops, Quiet, Wrong, Open"
    )
    assert error(run, "shop:Shp") == "shop has no Shp; did you mean Shop?"
    assert error(run, "shop:xyzzy").startswith(f"shop has no xyzzy; there are: {names}")
    assert error(run, "shop:SOMETHING").startswith(
        f"shop:SOMETHING is not a service, but a value of type int; services in shop: {names}"
    )
    assert error(run, "shop:Size").startswith(
        "shop:Size is not a service, but a class; services in shop: Shop, "
    )
    assert error(run, "samples.sentiment") == (
        "name a service of samples.sentiment: samples.sentiment:SentimentAnalyzer"
    )
    assert error(run, "samples.table") == "name a service of samples.table: it has none"


def test_the_error_for_a_missing_method_suggests_a_similar_one(run: CommandRun) -> None:
    assert error(run, "samples.sentiment:SentimentAnalyzer.is_positiv") == (
        "SentimentAnalyzer has no method is_positiv; did you mean is_positive?"
    )


def test_a_model_is_refused_for_a_service_that_cannot_use_it(run: CommandRun, shop: Path) -> None:
    assert error(run, "shop:detailed", "-m", "fake") == (
        "detailed is a service that already has a model; omit --model, or give the interface instead"
    )
    assert (
        error(run, "shop:scripted_one", "-m", "fake") == "scripted_one has no parameter model; omit --model"
    )


def test_a_function_that_does_not_create_a_service_is_refused(run: CommandRun, shop: Path) -> None:
    assert error(run, "shop:needs") == (
        "needs needs arguments (colour); name a function without required parameters"
    )
    assert error(run, "shop:stock_of_nothing") == (
        "stock_of_nothing() returns an object of type int, which create did not make"
    )


def test_an_unknown_provider_is_an_error(run: CommandRun) -> None:
    assert error(run, "samples.sentiment:SentimentAnalyzer", "-m", "opnai:x").startswith(
        "SentimentAnalyzer: the model 'opnai:x' is unknown: did you mean 'openai:x'? write PROVIDER:NAME"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nothing_like_it\n",
            "ModuleNotFoundError: No module named 'nothing_like_it' ({file}, line 1)",
        ),
        ("\nraise RuntimeError('no')\n", "RuntimeError: no ({file}, line 2)"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3 ({file}, line 2)"),
        (
            "from fractions import Fraction\n\nHALF = Fraction('half')\n",
            "ValueError: Invalid literal for Fraction: 'half' ({file}, line 3)",
        ),
        (
            "from aiservices import user_message\n\nuser_message(3)\n",
            "TypeError: user_message takes its template as a str, not int ({file}, line 3)",
        ),
        ("def f(:\n", "SyntaxError: invalid syntax (broken.py, line 1)"),
    ],
)
def test_the_error_for_a_failed_import_names_the_line(
    run: CommandRun, shop: Path, text: str, message: str
) -> None:
    file = shop / "broken.py"
    file.write_text(text, "utf-8")
    assert error(run, "broken:X") == f"the module broken cannot be imported: {message.format(file=file)}"


def test_a_file_in_a_package_has_its_relative_imports(
    run: CommandRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "inner_desk"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text('PROMPT = "Sort {{text}}."\n')
    (package / "desk.py").write_text(
        "from typing import Protocol\n"
        "from aiservices import user_message\n"
        "from .words import PROMPT\n"
        "class Desk(Protocol):\n"
        "    @user_message(PROMPT)\n"
        "    def sort(self, text: str) -> int: ...\n"
    )
    monkeypatch.chdir(package)
    assert "\n[user]\nSort {{text}}.\n" in run("show", "desk.py:Desk").out


def test_a_file_with_the_name_of_another_module_is_refused(run: CommandRun, shop: Path) -> None:
    import json

    (shop / "json.py").write_text("")
    assert error(run, "./json.py:X") == (
        f"{shop / 'json.py'} would be imported as json, which is {json.__file__}; give the file another name"
    )
