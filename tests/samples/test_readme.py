"""What the README shows is what happens."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from aiservices import DefinitionError, ScriptedChatModel, create, user_message

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
DECLARATION = BLOCKS[0][1].partition("class PersonExtractor")[0]
PERSON = '{"first_name": "John", "last_name": "Doe", "birth_date": "1968-07-04"}'


def executed(block: str, model: ScriptedChatModel, namespace: dict[str, Any]) -> None:
    """Run a block with a scripted model in place of the one that it would find."""
    code = re.sub(r"create\((\w+)\)", r"create(\1, scripted)", block)
    assert code.count("scripted") == 1
    exec(
        compile(code, "README.md", "exec", dont_inherit=True),
        namespace | {"scripted": model, "__name__": "readme"},
    )


def test_each_program_is_followed_by_what_it_prints() -> None:
    assert [language for language, _ in BLOCKS] == ["python", "text"] * 4


def test_the_example_prints_what_stands_under_it(capsys: pytest.CaptureFixture[str]) -> None:
    (_, program), (_, output) = BLOCKS[:2]
    model = ScriptedChatModel([PERSON])
    executed(program, model, {})
    assert capsys.readouterr().out == output
    assert model.requests[0].messages[0].text == (
        "Extract the person from this text.\n\nText: John Doe was born on the fourth of July 1968."
    )


def test_a_stream_and_a_structured_model_print_what_stands_under_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, program), (_, output) = BLOCKS[2:4]
    embedded = ScriptedChatModel([PERSON])
    monkeypatch.setattr("aiservices.structured.find_model", {"local": embedded}.get)
    executed(f"{DECLARATION}{program}", ScriptedChatModel([PERSON]), {})
    assert capsys.readouterr().out == output
    assert len(embedded.requests) == 1


def test_the_mistakes_are_told_as_they_stand_there() -> None:
    (_, program), (_, output) = BLOCKS[4:6]
    imports: dict[str, Any] = {}
    exec("from typing import Protocol\nfrom aiservices import create, user_message", imports)
    with pytest.raises(DefinitionError) as caught:
        executed(program, ScriptedChatModel([]), imports)
    assert f"aiservices.errors.DefinitionError: {caught.value}\n" == output


def test_the_parsing_prints_what_stands_under_it(capsys: pytest.CaptureFixture[str]) -> None:
    (_, program), (_, output) = BLOCKS[6:]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(f"{DECLARATION}{program}", "README.md", "exec", dont_inherit=True), namespace)
    assert capsys.readouterr().out == output


def test_the_interceptor_of_the_map_changes_the_answer() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {"replace": replace}
    exec(program, namespace)
    service = create(Greeter, ScriptedChatModel(["hello"]), interceptors=[namespace["shout"]])
    assert service.greet("Ada") == "HELLO"


class Greeter(Protocol):
    @user_message("Greet {{name}}.")
    def greet(self, name: str) -> str: ...


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_links_lead_to_files_that_are_there(document: str) -> None:
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_map_names_modules_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:aiservices|output_parsers|samples|tests|benchmarks)/[\w/.]*)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
