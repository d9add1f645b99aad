"""Read one skill: a folder with a file SKILL.md, in the format of https://agentskills.io."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from output_parsers.result.errors import shorten

from ..models.errors import DefinitionError, DefinitionProblem
from ..models.extras import import_extra
from ..tools.tool import ToolException

_FILE_NAMES = ("SKILL.md", "skill.md")
_NAME = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_TOOL = re.compile(r"[^\s,(]+(?:\([^)]*\))?")  # such as Read and Bash(git add:*)
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1024, 500
_LARGEST_FILE = 10_000_000  # bytes


@dataclass(frozen=True)
class Skill:
    """Instructions for a kind of task, with the folder of their files.

    ``Skill.read`` reads it from a folder.

    Attributes:
        name: The name, which is also that of the folder.
        description: What the skill does and when to use it. The model always sees it.
        instructions: The text that the model gets when it activates the skill.
        folder: The folder with the files of the skill.
        license: The licence, or the name of its file.
        compatibility: What the skill needs, in words.
        allowed_tools: The tools that the skill recommends. They get no permissions by this.
        metadata: Other data about the skill, such as its author.
    """

    name: str
    description: str
    instructions: str = field(repr=False)
    folder: Path
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def read(folder: str | Path) -> Skill:
        """Read the skill in a folder with a file ``SKILL.md``.

        Raises DefinitionError with all problems of the file. Fields that are not in the format are ignored.
        """
        folder = Path(folder).resolve()
        path = skill_file(folder)
        if path is None:
            raise _error(folder, "the folder has no file SKILL.md")
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, ValueError) as error:
            raise _error(path, f"it cannot be read: {error}") from error
        front_matter, instructions = _split(text, path)
        problems = [*_problems(front_matter, folder)]
        if not instructions:
            problems.append("it has no instructions after the front matter")
        if problems:
            raise DefinitionError([DefinitionProblem(str(path), message) for message in problems])
        tools, metadata = front_matter.get("allowed-tools") or (), front_matter.get("metadata") or {}
        return Skill(
            front_matter["name"],
            " ".join(front_matter["description"].split()),
            instructions,
            folder,
            front_matter.get("license") or "",
            front_matter.get("compatibility") or "",
            tuple(_TOOL.findall(tools) if isinstance(tools, str) else tools),
            {str(key): str(value) for key, value in metadata.items()},
        )

    def files(self) -> list[str]:
        """Return the relative paths of the files in the folder, without SKILL.md and hidden files."""
        return sorted(self._walk(self.folder))

    def _walk(self, folder: Path) -> Iterator[str]:
        for entry in os.scandir(folder):
            if entry.name.startswith((".", "__pycache__")):
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(path)
            elif entry.is_file(follow_symlinks=False) and not (
                folder == self.folder and entry.name in _FILE_NAMES
            ):
                yield path.relative_to(self.folder).as_posix()

    def path_of(self, relative: str) -> Path:
        """Return the path of a file in the folder, or raise ToolException with a text for the model.

        Absolute paths, ``..``, hidden files, and links that lead out of the folder are refused.
        """
        pure = PurePosixPath(relative.replace("\\", "/"))
        parts = [part for part in pure.parts if part != "."]
        is_outside = pure.is_absolute() or not parts or ":" in parts[0] or "\0" in relative
        if is_outside or any(part.startswith(".") for part in parts):
            raise ToolException(f"{relative!r} is not a path in the folder of the skill {self.name}.")
        path, status = self.folder, None
        with suppress(OSError, RuntimeError):  # RuntimeError: links in a circle
            path = self.folder.joinpath(*parts).resolve(strict=True)
            status = path.stat() if path.is_relative_to(self.folder) else None
        if status is None or not stat.S_ISREG(status.st_mode):
            listed = ", ".join(self.files()[:50]) or "none"
            raise ToolException(
                f"The skill {self.name} has no file {relative!r}. Its files are: {shorten(listed, 2000)}."
            )
        if status.st_size > _LARGEST_FILE:
            raise ToolException(f"{relative} has {status.st_size:,} bytes, which is too much to read.")
        return path


def skill_file(folder: Path) -> Path | None:
    """Return the file SKILL.md of a folder; None if it has none."""
    return next((folder / name for name in _FILE_NAMES if (folder / name).is_file()), None)


def _error(path: Path, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(str(path), message)])


def _split(text: str, path: Path) -> tuple[dict[str, Any], str]:
    """Split SKILL.md into the fields of its front matter and the instructions."""
    yaml = import_extra("yaml", "skills", "Skills")
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != "---":
        raise _error(path, "it does not begin with front matter: a line ---, the name and the description")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise _error(path, "its front matter has no end: add a line ---")
    try:
        front_matter = yaml.safe_load("\n".join(lines[1:end]))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 2}"
        problem = getattr(error, "problem", None) or str(error)
        raise _error(
            path, f"its front matter is not valid YAML{line}: {problem}; put texts with a colon in quotes"
        ) from error
    if not isinstance(front_matter, dict):
        raise _error(path, "its front matter has no fields; write name: and description:")
    return front_matter, "\n".join(lines[end + 1 :]).strip()


def _problems(fields: Mapping[str, Any], folder: Path) -> Iterator[str]:
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str):
        yield "it has no name; write name: with the name of the folder"
    elif not _NAME.fullmatch(name) or name != name.lower() or len(name) > _LONGEST_NAME:
        yield (
            f"the name is {shorten(repr(name), 80)}; it must have 1 to {_LONGEST_NAME} lower-case letters, "
            "digits and single hyphens between them"
        )
    elif name != folder.name:
        yield f"the name is {name}, and that of the folder is {folder.name}; make them equal"
    if not isinstance(description, str) or not description.strip():
        yield "it has no description; write description: with what the skill does and when to use it"
    elif len(description) > _LONGEST_DESCRIPTION:
        yield f"the description has {len(description)} characters; it may have at most {_LONGEST_DESCRIPTION}"
    for key in ("license", "compatibility"):
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            yield f"{key} is {shorten(repr(value), 80)}; it must be a text"
    compatibility = fields.get("compatibility")
    if isinstance(compatibility, str) and len(compatibility) > _LONGEST_COMPATIBILITY:
        length = len(compatibility)
        yield f"compatibility has {length} characters; it may have at most {_LONGEST_COMPATIBILITY}"
    if not isinstance(fields.get("metadata") or {}, dict):
        yield "metadata is not a mapping of names to texts"
    tools = fields.get("allowed-tools") or ()
    if not isinstance(tools, str) and not (
        isinstance(tools, (list, tuple)) and all(isinstance(one, str) for one in tools)
    ):
        yield "allowed-tools is neither a text nor a list of texts"
