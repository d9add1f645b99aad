"""What the README shows is what happens."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from test_floors import FLOORS

from aiservices import (
    AiMessage,
    ChatReply,
    DefinitionError,
    Image,
    ScriptedChatModel,
    ToolCall,
    create,
    user_message,
)

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
DECLARATION = BLOCKS[0][1].partition("class PersonExtractor")[0]
PERSON = '{"first_name": "John", "last_name": "Doe", "birth_date": "1968-07-04"}'


(IN_STOCK,) = re.findall(r"^def in_stock.*?\n\n", README, re.MULTILINE | re.DOTALL)
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))


def executed(block: str, model: ScriptedChatModel, namespace: dict[str, Any]) -> None:
    """Run a block with a scripted model in place of the one that it would find, or names."""
    code = re.sub(r"create\((\w+)(?=\)|, interceptors)", r"create(\1, scripted", block)
    code = code.replace('"openai:gpt-5-mini"', "scripted")
    assert code.count("scripted") == 1
    exec(
        compile(code, "README.md", "exec", dont_inherit=True),
        namespace | {"scripted": model, "__name__": "readme"},
    )


def test_each_program_is_followed_by_what_it_prints() -> None:
    assert [language for language, _ in BLOCKS] == ["python", "text"] * 10


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
    (_, program), (_, output) = BLOCKS[-2:]
    namespace: dict[str, Any] = {"__name__": "readme"}
    exec(compile(f"{DECLARATION}{program}", "README.md", "exec", dont_inherit=True), namespace)
    assert capsys.readouterr().out == output


def called(tool: str, **arguments: object) -> ChatReply:
    return ChatReply(AiMessage("", (ToolCall("call_1", tool, json.dumps(arguments)),)))


def prints_its_output(section: str, model: ScriptedChatModel, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the program of a section on a scripted model, and compare what it prints."""
    program, output = re.findall(r"^```\w+\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL)
    executed(f"{DECLARATION}{IN_STOCK}{program}", model, {})
    assert capsys.readouterr().out == output


def test_the_tools_print_what_stands_under_them(capsys: pytest.CaptureFixture[str]) -> None:
    kept = called("put_aside", article="lamp", pieces=2)
    model = ScriptedChatModel([called("in_stock", article="lamp"), kept, "Two lamps are waiting for you."])
    prints_its_output("Tools", model, capsys)
    assert [message.text for message in model.requests[2].messages] == [
        "Please keep two lamps for me.",
        "",
        "3",
        "",
        "2 of lamp are put aside",
    ]


def test_the_memory_prints_what_stands_under_it(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedChatModel(["Hello Ann.", "Your name is Ann.", "You have not told me."])
    prints_its_output("Memory", model, capsys)
    assert [len(request.messages) for request in model.requests] == [1, 3, 1]


class Words:
    """An embedding model that knows two words."""

    def __init__(self, name: str) -> None:
        assert name == "text-embedding-3-small"

    def embed(self, texts: Sequence[str], /) -> Any:
        numpy = pytest.importorskip("numpy", reason='pip install "aiservices[retrieval]" first')
        return numpy.array([[float(word in text) for word in ("open", "return")] for text in texts], "f4")


def test_the_answer_with_sources_prints_what_stands_under_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiservices.retrieval.OpenAiEmbeddingModel", Words)
    model = ScriptedChatModel(["It opens at nine."])
    prints_its_output("Answers with sources", model, capsys)
    assert model.requests[0].messages[0].text == (
        "When does the shop open?\n\n"
        "Answer using the following information:\n[rule-1]\nThe shop opens at nine."
    )


def test_the_guards_print_what_stands_under_them(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedChatModel(['{"product": "tea", "discount": 90}', '{"product": "tea", "discount": 20}'])
    prints_its_output("Guards and moderation", model, capsys)
    assert [message.text for message in model.requests[1].messages] == [
        "Make an offer. The customer says: My password is ***. Is there tea?",
        '{"product": "tea", "discount": 90}',
        "No more than 20 % are possible.",
    ]


def test_the_agent_prints_what_stands_under_it(capsys: pytest.CaptureFixture[str]) -> None:
    answer = called("generate_response", response="Yes, three.", article="lamp", pieces=3)
    prints_its_output("Agents", ScriptedChatModel([called("in_stock", article="lamp"), answer]), capsys)


def test_the_image_prints_what_stands_under_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    picture = b"\x89PNG\r\n\x1a\n"
    monkeypatch.chdir(tmp_path)
    Path("receipt.png").write_bytes(picture)
    model = ScriptedChatModel(['{"value": "12.50"}'])
    prints_its_output("Images, sound and files", model, capsys)
    assert model.requests[0].messages[0].parts == (
        "What is the total of this receipt: ",
        Image(picture, "image/png", name="receipt.png"),
        "?",
    )


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    table = SECTIONS["Install"].partition("| Extra |")[2]
    named = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:] if row))
    assert set(named) == set(project["optional-dependencies"]) - {"dev"}


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


def test_the_map_has_the_floors_that_imports_are_held_to() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (\d) \| (.*?) \|", text, re.MULTILINE))
    shown = {
        int(floor): {name.strip("/") for name in re.findall(r"`(.*?)`", row)} for floor, row in rows.items()
    }
    floors = {floor: set(names.replace(".", "/").split()) - {"models"} for floor, names in FLOORS.items()}
    assert shown == floors


def test_the_map_names_the_packages_of_the_edge() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = text.partition("| Package | Job |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)/`", row.split("|")[1])}
    assert named == {path.parent.name for path in (ROOT / "aiservices").glob("*/__init__.py")}


def test_the_map_names_modules_that_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:aiservices|output_parsers|samples|tests|benchmarks)/[\w/.]*)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
