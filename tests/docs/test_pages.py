"""Every program in the documentation runs and prints the output that the page shows."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from docs.replies import REPLIES
from docs.running import DOCS, ROOT, PageRun, blocks_of, path_of, run_page
from docs.stand_ins import provide_for
from loopback import Loopback, Reply, error
from typer.main import get_command

from aiservices import AiServiceError, ChatRequest, Image, ModelError, OpenAiChatModel, UserMessage
from aiservices.cli.main import application

FOREIGN = (
    "LangChain4j",
    "OpenAI SDK",
    "instructor",
    "pydantic-ai",
    "LangChain",
    "LlamaIndex",
    "DSPy",
    "BAML",
    "langextract",
    "magentic",
    "AgentScope",
)
MOVE = sorted(page for page in REPLIES if page.startswith(("move/", "coming-from")))
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def run_with_replies(page: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> PageRun:
    provide_for(page, monkeypatch, folder)
    return run_page(page, REPLIES[page], monkeypatch, folder, FOREIGN)


@pytest.mark.parametrize("page", REPLIES)
def test_each_program_prints_the_output_that_the_page_shows(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run_with_replies(page, monkeypatch, tmp_path)
    for expected, printed in result.outputs:
        assert printed == expected
    assert result.unused_replies == 0


def test_each_page_with_programs_is_run_by_a_test() -> None:
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    programs = [page for page in PAGES if blocks_of(page) and page not in REPLIES]
    names = {page: (f'"{page}"', f'"{page.rpartition("/")[2]}"') for page in programs}
    assert [page for page in programs if not any(name in tests for name in names[page])] == []


def test_programs_of_other_libraries_have_titles_and_are_valid_python() -> None:
    blocks = [block for page in MOVE for block in blocks_of(page)]
    assert {block.title for block in blocks} == {*FOREIGN, "aiservices", ""}
    for block in blocks:
        if block.title in FOREIGN and block.language == "python":
            ast.parse(block.text)


def test_each_how_to_page_is_in_the_index() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", path_of("how-to/index.md").read_text("utf-8")))
    assert {f"how-to/{name}" for name in listed} == {page for page in PAGES if page.startswith("how-to/")} - {
        "how-to/index.md"
    }


COMMANDS = sorted(
    {
        line
        for page in REPLIES
        for block in blocks_of(page)
        if block.language == "console"
        for line in block.text.splitlines()
    }
)
SHELL_COMMANDS = ("cd", "echo", "export", "mkdir", "pytest", "source")


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_exists(command: str) -> None:
    program, *arguments = command.split()
    if program in SHELL_COMMANDS or (program == "python" and arguments[0].endswith(".py")):
        return  # the latter are run with their page
    if program == "pip":
        groups = re.findall(r"\[([\w,]+)\]", command)
        assert {extra for group in groups for extra in group.split(",")} <= extras()
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    elif program == "aiservices":
        command_line = get_command(application).commands[arguments[0]]
        command_line.make_context(arguments[0], arguments[1:])
    else:
        assert [program, *arguments[:2]] == ["python", "-m", "venv"]
        assert find_spec("venv")


def test_the_production_page_lists_the_environment_variables_that_the_code_reads() -> None:
    pattern = re.compile(r"""(?:environ\.get\(\s*|environ\[|_VARIABLE = )"([A-Z][A-Z0-9_]+)\"""")
    sources = [path.read_text("utf-8") for path in (ROOT / "aiservices").rglob("*.py")]
    read_by_code = {name for source in sources for name in pattern.findall(source)}
    page = path_of("how-to/production.md").read_text("utf-8")
    listed = re.findall(r"`([A-Z][A-Z0-9_]+)`", page)
    assert "AISERVICES_MODEL" in read_by_code
    assert sorted(read_by_code - set(listed)) == []


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_the_extras_are_those_of_the_package() -> None:
    table = path_of("install.md").read_text("utf-8").partition("| Extra |")[2]
    named = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:] if row))
    assert set(named) == extras() - {"dev", "bench"}


def test_the_error_page_lists_all_errors() -> None:
    for module in (
        "documents.files",
        "documents.merging",
        "guardrails",
        "journal",
        "integrations.mcp",
        "journal.store",
        "memory",
        "models.local.weights",
        "moderation",
        "rows",
    ):
        import_module(f"aiservices.{module}")
    import_module("aiservices.integrations.fastapi.remote_client")
    import_module("aiservices.integrations.mcp.connection")
    listed = set(re.findall(r"[├└]── (\w+)", path_of("errors.md").read_text("utf-8")))
    assert listed == {
        kind.__name__
        for kind in kinds_of(AiServiceError)
        if kind.__name__.endswith("Error") and kind.__name__[0] != "_"
    }


def test_each_error_can_be_imported_from_the_module_that_the_error_page_names() -> None:
    tree = path_of("errors.md").read_text("utf-8").split("```")[1]
    missing = []
    for name, text in re.findall(r"^[│├└─ ]*(\w+) *(.*)$", tree, re.MULTILINE):
        named = re.search(r"\((aiservices\.[\w.]+)", text)
        module = import_module(named[1] if named else "aiservices")
        if not hasattr(module, name):
            missing.append(name)
    assert missing == []


ERROR_REPLIES = {
    "AuthenticationError": [error(401, "…"), error(403, "…")],
    "ModelNotFoundError": [error(404, "…")],
    "RateLimitError": [error(429, "…")],
    "BadRequestError": [error(400, "…")],
    "ModelServerError": [error(503, "…")],
}


@pytest.mark.parametrize(
    ("kind", "reply"), [(kind, reply) for kind in ERROR_REPLIES for reply in ERROR_REPLIES[kind]]
)
def test_the_error_page_shows_the_messages_of_provider_errors(
    kind: str, reply: Reply, loopback: Loopback
) -> None:
    loopback.reply(reply)
    model = OpenAiChatModel("gpt-5-mini", base_url=loopback.base_url, api_key="k")
    with pytest.raises(ModelError) as caught:
        model.complete(ChatRequest((UserMessage("Hello"),)))
    message = str(caught.value).removeprefix(f"openai:gpt-5-mini at {loopback.base_url}: ")
    assert f"| `{kind}` | {message} |" in path_of("errors.md").read_text("utf-8")


def kinds_of(error: type[Exception]) -> set[type[Exception]]:
    own_errors = {kind for kind in error.__subclasses__() if kind.__module__.startswith("aiservices")}
    return own_errors.union(*map(kinds_of, own_errors))


def test_a_call_of_the_first_example_sends_its_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request = run_with_replies("README.md", monkeypatch, tmp_path).requests[0]
    assert request.messages[0].text.startswith(
        "Extract the person from this text.\n\nText: John Doe was born on the fourth of July 1968."
    )


def test_the_model_receives_the_results_of_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests = run_with_replies("how-to/approvals.md", monkeypatch, tmp_path).requests
    assert [message.text for message in requests[2].messages] == [
        "Please keep two lamps for me.",
        "",
        "3",
        "",
        "reserved: 2 of lamp",
    ]
    assert requests[4].messages[-1].text == "The call was not approved: we are closed today."


def test_the_memory_keeps_the_messages_of_visitors_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = run_with_replies("how-to/memory.md", monkeypatch, tmp_path).requests
    assert [len(request.messages) for request in requests] == [1, 3, 1, 1, 1, 3, 3, 1, 3]


def test_retrieved_passages_are_in_the_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests = run_with_replies("how-to/retrieval.md", monkeypatch, tmp_path).requests
    assert requests[0].messages[0].text == (
        "When does the shop open?\n\n"
        "Answer using the following information:\n[rule-1]\nThe shop opens at nine."
    )


def test_the_guards_mask_the_message_and_explain_the_rejection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = run_with_replies("how-to/guardrails.md", monkeypatch, tmp_path).requests
    assert [message.text for message in requests[1].messages] == [
        "Make an offer. The customer says: My password is ***. Is there tea?",
        '{"product": "tea", "discount": 90}',
        "No more than 20 % are possible.",
    ]


def test_the_image_is_at_its_position_in_the_prompt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    request, _ = run_with_replies("how-to/files.md", monkeypatch, tmp_path).requests
    assert request.messages[0].parts == (
        "What is the total of this receipt: ",
        Image(b"\x89PNG\r\n\x1a\n", "image/png", name="receipt.png"),
        "?",
    )
