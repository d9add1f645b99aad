"""One skill is read from a folder with SKILL.md, and its files stay inside of the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from growth import MAX_GROWTH, growth

from aiservices import DefinitionError, ToolException
from aiservices.skills import Skill, Skills

FULL = """---
name: fill-forms
description: >
  Fills PDF forms. Use it when the user
  has a form.
license: Apache-2.0
compatibility: Requires pdftk
metadata:
  author: example-org
  version: 1.0
allowed-tools: Bash(git add:*), Bash(pdftk:*) Read
argument-hint: [path]
---

# Forms

Read references/fields.md first.
"""


def written(folder: Path, text: str = FULL, name: str = "SKILL.md") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder


def test_the_fields_of_the_front_matter_are_read(tmp_path: Path) -> None:
    skill = Skill.read(written(tmp_path / "fill-forms"))
    assert skill == Skill(
        "fill-forms",
        "Fills PDF forms. Use it when the user has a form.",
        "# Forms\n\nRead references/fields.md first.",
        (tmp_path / "fill-forms").resolve(),
        "Apache-2.0",
        "Requires pdftk",
        ("Bash(git add:*)", "Bash(pdftk:*)", "Read"),
        {"author": "example-org", "version": "1.0"},
    )


@pytest.mark.parametrize(
    ("tools", "read"),
    [("Read Write", ("Read", "Write")), ("\n  - Read\n  - Bash(x y)", ("Read", "Bash(x y)")), ("", ())],
)
def test_allowed_tools_may_be_a_text_or_a_list(tmp_path: Path, tools: str, read: tuple[str, ...]) -> None:
    text = f"---\nname: a\ndescription: b\nallowed-tools: {tools}\n---\nc"
    assert Skill.read(written(tmp_path / "a", text)).allowed_tools == read


def test_allowed_tools_without_closing_parentheses_are_read_in_linear_time(tmp_path: Path) -> None:
    def read(tools: str) -> None:
        text = f"---\nname: a\ndescription: b\nallowed-tools: {tools}\n---\nc"
        assert len(Skill.read(written(tmp_path / "a", text)).allowed_tools) == 1

    assert growth(read, "a(") <= MAX_GROWTH


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_a_byte_order_mark_and_other_letters_are_accepted(tmp_path: Path, end: str) -> None:
    text = f"\ufeff---{end}name: übung-1{end}description: 练习{end}---{end}Tu es.{end}"
    folder = tmp_path / "übung-1"
    folder.mkdir()
    (folder / "skill.md").write_bytes(text.encode())
    skill = Skill.read(folder)
    assert (skill.name, skill.description, skill.instructions) == ("übung-1", "练习", "Tu es.")


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("# Forms", ["it does not begin with front matter: a line ---, the name and the description"]),
        ("---\nname: a\n", ["its front matter has no end: add a line ---"]),
        (
            "---\nname: a\ndescription: Use: when\n---\nb",
            [
                "its front matter is not valid YAML, line 3: mapping values are not allowed here; put texts "
                "with a colon in quotes"
            ],
        ),
        ("---\n- a\n---\nb", ["its front matter has no fields; write name: and description:"]),
        (
            "---\nlicense: 5\n---\n",
            [
                "it has no name; write name: with the name of the folder",
                "it has no description; write description: with what the skill does and when to use it",
                "license is 5; it must be a text",
                "it has no instructions after the front matter",
            ],
        ),
        (
            "---\nname: b\ndescription: c\n---\nd",
            ["the name is b, but the name of the folder is a; make them equal"],
        ),
        (
            f"---\nname: a\ndescription: {'x' * 1025}\ncompatibility: {'y' * 501}\n---\nd",
            [
                "the description has 1025 characters; it may have at most 1024",
                "compatibility has 501 characters; it may have at most 500",
            ],
        ),
        (
            "---\nname: a\ndescription: b\nmetadata: [1]\nallowed-tools: {a: b}\n---\nd",
            [
                "metadata is not a mapping of names to texts",
                "allowed-tools is neither a text nor a list of texts",
            ],
        ),
    ],
)
def test_all_problems_of_a_file_are_reported(tmp_path: Path, text: str, messages: list[str]) -> None:
    folder = written(tmp_path / "a", text)
    with pytest.raises(DefinitionError) as caught:
        Skill.read(folder)
    assert [problem.message for problem in caught.value.problems] == messages
    assert {problem.location for problem in caught.value.problems} == {str((folder / "SKILL.md").resolve())}


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a--b", "a b", "", "x" * 65, "a/b"])
def test_a_name_that_the_format_does_not_allow_is_an_error(tmp_path: Path, name: str) -> None:
    folder = written(tmp_path / "a", f"---\nname: '{name}'\ndescription: b\n---\nd")
    with pytest.raises(
        DefinitionError, match="it must have 1 to 64 lower-case letters, digits and single hyp"
    ):
        Skill.read(folder)


def test_a_folder_without_the_file_and_a_file_that_is_no_text_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"the folder has no file SKILL\.md"):
        Skill.read(tmp_path)
    (tmp_path / "SKILL.md").write_bytes(b"---\n\xff\xfe\n---\n")
    with pytest.raises(DefinitionError, match="it cannot be read: 'utf-8' codec"):
        Skill.read(tmp_path)


# files


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    folder = written(tmp_path / "fill-forms")
    (tmp_path / "secret.txt").write_text("secret")
    for path in ("references/fields.md", "scripts/fill.py", ".env", ".git/config", "references/.hidden"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(path)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "inside.md").symlink_to(folder / "references" / "fields.md")
    (folder / "circle").symlink_to(folder / "circle")
    return Skill.read(folder)


def test_files_are_listed_without_hidden_ones_and_links(skill: Skill) -> None:
    assert skill.files() == ["references/fields.md", "scripts/fill.py"]


@pytest.mark.parametrize(
    "path",
    ["references/fields.md", "./references/./fields.md", "references\\fields.md", "inside.md", "SKILL.md"],
)
def test_a_file_in_the_folder_is_found(skill: Skill, path: str) -> None:
    found = skill.path_of(path)
    assert found.is_relative_to(skill.folder)
    assert found.name in ("fields.md", "SKILL.md")


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "references/../../secret.txt",
        "..\\secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "C:/secret.txt",
        "C:secret.txt",
        "link.txt",
        "folder/secret.txt",
        "folder",
        "references",
        "circle",
        ".env",
        ".git/config",
        "references/.hidden",
        "missing.md",
        "",
        ".",
        "a\0b",
        "x" * 5000,
        "~/secret.txt",
    ],
)
def test_no_path_leaves_the_folder(skill: Skill, path: str) -> None:
    with pytest.raises(ToolException):
        skill.path_of(path)


def test_what_is_not_a_plain_file_is_refused(skill: Skill) -> None:
    os.mkfifo(skill.folder / "pipe")
    with pytest.raises(ToolException, match="has no file 'pipe'"):
        skill.path_of("pipe")
    with (skill.folder / "large.bin").open("wb") as file:
        file.truncate(20_000_000)
    with pytest.raises(ToolException, match="20,000,000 bytes, which is too much"):
        skill.path_of("large.bin")


def test_a_missing_file_is_answered_with_those_that_exist(skill: Skill) -> None:
    with pytest.raises(ToolException) as caught:
        skill.path_of("fields.md")
    assert str(caught.value) == (
        "The skill fill-forms has no file 'fields.md'. Its files are: references/fields.md, scripts/fill.py."
    )


def test_a_bad_skill_takes_no_other_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "good", "---\nname: good\ndescription: b\n---\nc")
    written(tmp_path / "bad", "---\nname: bad\n---\nc")
    assert list(Skills.from_folder(tmp_path).skills) == ["good"]
    assert "a skill is left out" in caplog.text
    with pytest.raises(DefinitionError, match="it has no description"):
        Skills.from_folder(tmp_path / "bad")


def test_skills_of_a_folder_are_read_leniently(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "a", "---\nname: PDF-Forms\ndescription: Use: when a form: is there\n---\nc")
    [skill] = Skills.from_folder(tmp_path / "a").skills.values()
    assert (skill.name, skill.description) == ("PDF-Forms", "Use: when a form: is there")
    assert "lower-case letters" in caplog.text


def test_aliases_in_front_matter_are_refused(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: b\nmetadata:\n  x: &x [1]\n  y: [*x, *x]\n---\nc"
    with pytest.raises(DefinitionError, match="has an alias"):
        Skill.read(written(tmp_path / "a", text))
