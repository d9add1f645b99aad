"""Skills are offered by their descriptions, and loaded when the model activates them."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from tool_calling import (
    CALL_KINDS,
    AsyncTextService,
    TextService,
    aadd,
    add,
    every_call_kind,
    messages_to,
    strict_provider,
    text_service,
    tool_calls_reply,
)

from aiservices import (
    ApprovalRequiredError,
    ChatReply,
    DefinitionError,
    MemoryId,
    ScriptedChatModel,
    SuspendedCall,
    ToolContext,
    ToolMessage,
    create,
    resume,
    user_message,
)
from aiservices.agents import ReActAgent
from aiservices.memory import ChatMemory
from aiservices.skills import ScriptSettings, Skill, Skills

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a skill that has files and scripts, and one that has only instructions."""
    files = {
        "greet/SKILL.md": "---\nname: greet\ndescription: Greets. Use it for greetings.\n---\nBe polite.",
        "sums/SKILL.md": "---\nname: sums\ndescription: Adds numbers.\n---\nRead references/how.md.",
        "sums/references/how.md": "Use scripts/add.py.",
        "sums/scripts/add.py": "import sys\nprint(sum(map(int, sys.argv[1:])) + len(sys.stdin.read()))\n",
        "sums/scripts/fail.py": "import sys\nprint('half')\nsys.exit('no numbers')\n",
        "sums/scripts/slow.sh": "sleep 30 & echo started; sleep 30\n",
        "sums/scripts/where.py": "import os\nprint(os.getcwd(), *map(os.environ.get, ('KEY', 'SECRET')))\n",
        "sums/scripts/many.py": "print('x' * 3_000_000)\n",
        "sums/scripts/silent.py": "",
        "sums/scripts/notes.txt": "",
        "sums/other.py": "print('outside of scripts')\n",
        "README.md": "Not a skill.",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "sums" / "logo.png").write_bytes(PNG)
    (tmp_path / "sums" / "data.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "drafts").mkdir()
    return tmp_path


def activates(skill: str, call_id: str = "a1") -> ChatReply:
    return tool_calls_reply(("activate_skill", json.dumps({"skill": skill}), call_id))


def reads(path: str, call_id: str = "r1", skill: str = "sums") -> tuple[str, str, str]:
    return ("read_skill_file", json.dumps({"skill": skill, "path": path}), call_id)


def runs(script: str, call_id: str = "x1", **more: Any) -> tuple[str, str, str]:
    return ("run_skill_script", json.dumps({"skill": "sums", "script": script, **more}), call_id)


def offered(model: ScriptedChatModel) -> list[list[str]]:
    return [
        [] if request.tooling is None else [one.name for one in request.tooling.tools]
        for request in model.requests
    ]


def result_of(skills: Skills, call: tuple[str, str, str]) -> ToolMessage:
    """Return the result of a call after the skill sums was activated."""
    model = strict_provider(activates("sums"), tool_calls_reply(call), "Done.")
    text_service(model, skills).ask("x")
    message = messages_to(model)[-1]
    assert isinstance(message, ToolMessage)
    return message


# activation


@every_call_kind
def test_an_activated_skill_gives_its_instructions_and_files(kind: str, folder: Path) -> None:
    model = strict_provider(activates("sums"), tool_calls_reply(reads("references/how.md")), "Done.")
    assert CALL_KINDS[kind](text_service(model, add, Skills.from_folder(folder))) == "Done."
    before = ["add", "activate_skill"]
    assert offered(model) == [before, [*before, "read_skill_file"], [*before, "read_skill_file"]]
    assert model.requests[0].tooling is not None
    (_, specification) = model.requests[0].tooling.tools
    schema = specification.parameters["properties"]["skill"]
    assert schema["enum"] == ["greet", "sums"]
    assert schema["description"] == (
        "the skill, one of:\n- greet: Greets. Use it for greetings.\n- sums: Adds numbers."
    )
    assert messages_to(model)[2].text == (
        "Skill: sums\n\nRead references/how.md.\n\nFiles, for read_skill_file:\n- data.bin\n- logo.png\n"
        "- other.py\n- references/how.md\n- scripts/add.py\n- scripts/fail.py\n- scripts/many.py\n"
        "- scripts/notes.txt\n- scripts/silent.py\n- scripts/slow.sh\n- scripts/where.py"
    )
    assert messages_to(model)[-1].text == "Use scripts/add.py."


def test_a_skill_without_files_offers_none(folder: Path) -> None:
    model = strict_provider(activates("greet"), "Done.")
    text_service(model, Skills.from_folder(folder)).ask("x")
    assert offered(model) == [["activate_skill"], ["activate_skill"]]
    assert messages_to(model)[-1].text == "Skill: greet\n\nBe polite."


def test_an_unknown_skill_is_not_activated(folder: Path) -> None:
    model = strict_provider(activates("dance"), "Done.")
    text_service(model, Skills.from_folder(folder)).ask("x")
    assert messages_to(model)[-1].text.startswith("The arguments cannot be read:")
    assert offered(model)[-1] == ["activate_skill"]


def test_scoped_tools_appear_with_their_skill(folder: Path) -> None:
    model = strict_provider(
        tool_calls_reply(("add", '{"a": 1, "b": 2}', "x1")),
        activates("greet"),
        activates("sums", "a2"),
        tool_calls_reply(("add", '{"a": 1, "b": 2}', "x2")),
        "Done.",
    )
    text_service(model, Skills.from_folder(folder, tools={"sums": [add]})).ask("x")
    assert messages_to(model)[2].text == "There is no tool add. The tools are: activate_skill."
    own = ["activate_skill", "read_skill_file", "add"]
    assert offered(model) == [*[["activate_skill"]] * 3, own, own]
    assert messages_to(model)[-1].text == "3"


def test_a_skill_stays_active_after_an_approval_and_in_later_calls(folder: Path) -> None:
    class Clerk(Protocol):
        @user_message("{{text}}")
        def ask(self, text: str, user: Annotated[str, MemoryId]) -> str: ...

    skills = Skills.from_folder(folder, scripts=ScriptSettings(needs_approval=True))
    model = strict_provider(
        activates("sums"), tool_calls_reply(runs("scripts/add.py", arguments=["1", "2"])), "3.", "Yes.", "No."
    )
    clerk = create(Clerk, model, tools=[skills], interceptors=[ChatMemory()])
    with pytest.raises(ApprovalRequiredError) as caught:
        clerk.ask("Add.", "ann")
    state = SuspendedCall.from_json(caught.value.state.to_json())
    assert resume(clerk.ask, state, True) == "3."
    assert messages_to(model)[-1].text == "3\n"
    clerk.ask("Sure?", "ann")
    clerk.ask("Sure?", "bob")
    active = ["activate_skill", "read_skill_file", "run_skill_script"]
    assert offered(model)[2:] == [active, active, ["activate_skill"]]


def test_an_agent_uses_skills(folder: Path) -> None:
    model = strict_provider(activates("greet"), "Good morning.")
    assert (
        ReActAgent("Eve", "Help.", model, [Skills.from_folder(folder)]).reply("x").content == "Good morning."
    )


def test_instructions_are_those_of_the_start(folder: Path) -> None:
    skills = Skills.from_folder(folder)
    (folder / "greet" / "SKILL.md").write_text("changed")
    model = strict_provider(activates("greet"), "Done.")
    text_service(model, skills).ask("x")
    assert messages_to(model)[-1].text == "Skill: greet\n\nBe polite."


# files


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("../README.md", "'../README.md' is not a path in the folder of the skill sums."),
        ("data.bin", "data.bin is not a text."),
        ("how.md", "The skill sums has no file 'how.md'. Its files are: data.bin, logo.png, other.py, "),
    ],
)
def test_a_file_that_cannot_be_read_is_told_to_the_model(folder: Path, path: str, text: str) -> None:
    message = result_of(Skills.from_folder(folder), reads(path))
    assert message.text.startswith(text)
    assert message.failed


def test_an_image_is_sent_as_one(folder: Path) -> None:
    message = result_of(Skills.from_folder(folder), reads("logo.png"))
    (image,) = message.contents
    assert (image.media_type, image.data) == ("image/png", PNG)  # type: ignore[union-attr]


# scripts


@pytest.fixture
def scripts(folder: Path) -> Skills:
    return Skills.from_folder(folder, scripts=ScriptSettings(timeout=20, env={"KEY": "k"}))


def test_scripts_do_not_run_without_permission(folder: Path) -> None:
    message = result_of(Skills.from_folder(folder), runs("scripts/add.py"))
    assert (
        message.text == "There is no tool run_skill_script. The tools are: activate_skill, read_skill_file."
    )


@pytest.mark.parametrize(
    ("script", "more", "text"),
    [
        ("scripts/add.py", {"arguments": ["1", "2"]}, "3\n"),
        ("scripts/add.py", {"arguments": ["1", "2"], "text": "four"}, "7\n"),
        (
            "scripts/add.py",
            {"arguments": ["$(echo 1)"]},
            "scripts/add.py failed with the exit code 1.\nTraceback",
        ),
        ("scripts/fail.py", {}, "scripts/fail.py failed with the exit code 1.\nhalf\nno numbers"),
        ("scripts/silent.py", {}, "The script wrote nothing."),
        (
            "scripts/notes.txt",
            {},
            "scripts/notes.txt is not a script of sums. Its scripts are: scripts/add.py, ",
        ),
        ("other.py", {}, "other.py is not a script of sums. "),
        ("scripts/../other.py", {}, "'scripts/../other.py' is not a path in the folder of the skill sums."),
        ("/usr/bin/env", {}, "'/usr/bin/env' is not a path in the folder of the skill sums."),
        (
            "scripts/add.py",
            {"arguments": ["a\0b"]},
            "scripts/add.py could not be started: embedded null byte",
        ),
    ],
)
def test_a_script_gets_arguments_and_its_output_is_the_result(
    scripts: Skills, script: str, more: dict[str, Any], text: str
) -> None:
    assert result_of(scripts, runs(script, **more)).text.startswith(text)


def test_a_script_runs_in_the_folder_of_its_skill_with_few_variables(
    scripts: Skills, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s")
    assert result_of(scripts, runs("scripts/where.py")).text == f"{(folder / 'sums').resolve()} k None\n"


def test_a_link_out_of_the_scripts_is_not_run(scripts: Skills, folder: Path) -> None:
    (folder / "sums" / "scripts" / "link.py").symlink_to(folder / "sums" / "other.py")
    assert result_of(scripts, runs("scripts/link.py")).text.startswith(
        "scripts/link.py is not a script of sums."
    )


def test_a_script_that_takes_too_long_is_killed_with_its_children(folder: Path) -> None:
    skills = Skills.from_folder(folder, scripts=ScriptSettings(timeout=0.5))
    started_at = time.monotonic()
    message = result_of(skills, runs("scripts/slow.sh"))
    assert message.text == "scripts/slow.sh was stopped because it took more than 0.5 seconds."
    assert time.monotonic() - started_at < 10


def test_what_a_script_leaves_in_the_background_ends_with_it(folder: Path) -> None:
    (folder / "sums" / "scripts" / "leave.sh").write_text("(sleep 1; echo late > late.txt) &\necho done\n")
    assert (
        result_of(Skills.from_folder(folder, scripts=ScriptSettings()), runs("scripts/leave.sh")).text
        == "done\n"
    )
    time.sleep(1.5)
    assert not (folder / "sums" / "late.txt").exists()


def test_a_long_output_is_not_kept(scripts: Skills) -> None:
    message = result_of(scripts, runs("scripts/many.py"))
    assert len(message.text) < 101_000
    assert "[The result is cut here" in message.text


def test_the_program_names_the_interpreters(folder: Path) -> None:
    (folder / "sums" / "scripts" / "hello.xyz").write_text("print('hello')")
    settings = ScriptSettings(interpreters={".xyz": [sys.executable, "-u"]})
    skills = Skills.from_folder(folder, scripts=settings)
    assert result_of(skills, runs("scripts/hello.xyz")).text == "hello\n"
    missing = Skills.from_folder(folder, scripts=ScriptSettings(interpreters={".xyz": ["no-such-program"]}))
    assert result_of(missing, runs("scripts/hello.xyz")).text.startswith(
        "scripts/hello.xyz could not be started:"
    )


def test_a_script_does_not_block_the_event_loop(folder: Path) -> None:
    (folder / "sums" / "scripts" / "wait.sh").write_text("sleep 0.5; echo done\n")
    model = strict_provider(activates("sums"), tool_calls_reply(runs("scripts/wait.sh")), "Done.")
    service = create(AsyncTextService, model, tools=[Skills.from_folder(folder, scripts=ScriptSettings())])

    async def both() -> int:
        call, ticks = asyncio.ensure_future(service.ask("x")), 0
        while not call.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks

    assert asyncio.run(both()) > 20


# definitions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder: Skills.from_folder(folder / "none"),
            "the folder cannot be read: No such file or directory",
        ),
        (
            lambda folder: Skills.from_folder(folder / "drafts"),
            "it has no file SKILL.md, and no folder in it has one",
        ),
        (lambda folder: Skills.from_folder(), "there are no skills; pass at least one"),
        (lambda folder: Skills.from_folder(folder, folder / "sums"), "two skills are called sums: "),
        (
            lambda folder: Skills.from_folder(folder, tools={"sum": [add]}),
            "tools names the skill sum; the skills are: greet, sums",
        ),
        (
            lambda folder: Skills.from_folder(folder, tools={"sums": [add], "greet": [add]}),
            "two tools are called add; rename one of them with tool(name=…)",
        ),
        (lambda folder: Skills.from_folder(folder, tools={"sums": [5]}), "int has no tools"),
        (
            lambda folder: Skills.from_folder(folder, tools={"sums": [Skills.from_folder(folder)]}),
            "Skills is a provider; pass tools for the skill sums",
        ),
        (lambda folder: Skills.from_folder(folder, scripts=True), "scripts is True; pass ScriptSettings()"),  # type: ignore[arg-type]
        (lambda folder: ScriptSettings(timeout=0), "timeout is 0; it must be greater than 0"),
        (lambda folder: ScriptSettings(timeout=float("inf")), "timeout is inf; it must be greater than 0"),
    ],
)
def test_wrong_settings_are_reported_at_the_start(
    folder: Path, make: Callable[[Path], object], message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        make(folder)
    assert message in str(caught.value)


def test_the_problems_of_all_skills_are_reported_at_once(folder: Path) -> None:
    for name in ("greet", "sums"):
        (folder / name / "SKILL.md").write_text("no front matter")
    with pytest.raises(DefinitionError) as caught:
        Skills.from_folder(folder)
    assert len(caught.value.problems) == 2


def test_create_checks_the_scoped_tools(folder: Path) -> None:
    def needs_user(user: Annotated[str, ToolContext]) -> str:
        return user

    skills = Skills.from_folder(folder, tools={"sums": [needs_user]})
    with pytest.raises(DefinitionError, match="the tool needs_user needs user, and the method has no such"):
        create(TextService, strict_provider(), tools=[skills])
    create(TextService, strict_provider(), tools=[Skills.from_folder(folder, tools={"sums": [aadd]})])


def test_skills_may_be_made_in_the_program(tmp_path: Path) -> None:
    skill = Skill("greet", "Greets.", "Say hello.", tmp_path)
    model = strict_provider(activates("greet"), "Done.")
    text_service(model, Skills([skill])).ask("x")
    assert messages_to(model)[-1].text == "Skill: greet\n\nSay hello."
