"""Skills: folders with instructions, files and scripts, which a model loads when it needs them.

``Skills`` shows a model the descriptions of the skills, and loads those that the model activates.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO, Annotated, Any, Literal

from output_parsers.result.errors import shorten
from output_parsers.types.target import Description

from .engine.plan import Invocation
from .interface.parameters import ToolDefinitionError
from .models.arguments import check_settings, checks_arguments, is_positive
from .models.errors import DefinitionError, DefinitionProblem, import_extra, require_extra
from .models.media import Image, Media
from .models.messages import ToolMessage
from .tools.tool import Tool, ToolException, ToolSource, tool, tools_of
from .tools.toolbox import Toolbox, ToolLimits, make_toolbox

__all__ = ["ScriptSettings", "Skill", "Skills"]


# --- One skill: the folder with its file SKILL.md ---

_log = logging.getLogger("aiservices")
_FILE_NAMES = ("SKILL.md", "skill.md")
_NAME = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_TOOL = re.compile(r"[^\s,(]++(?:\([^)]*+(?:\)|\Z))?")  # such as Read and Bash(git add:*)
_LONGEST_NAME, _LONGEST_DESCRIPTION, _LONGEST_COMPATIBILITY = 64, 1024, 500
_LARGEST_FILE = 10_000_000  # bytes


@checks_arguments
@dataclass(frozen=True)
class Skill:
    """Instructions for a kind of task, and the folder with the files that belong to them.

    ``Skill.read`` reads a skill from a folder.

    Attributes:
        name: The name, which is also the name of the folder.
        description: What the skill does and when to use it. The model always sees it.
        instructions: The text that the model gets when it activates the skill.
        folder: The folder with the files of the skill.
        license: The licence, or the name of its file.
        compatibility: What the skill needs, in words.
        allowed_tools: The tools that the skill recommends. This does not give them any permissions.
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
    def read(folder: str | Path, *, strict: bool = True) -> Skill:
        """Read a skill from a folder that contains a file ``SKILL.md``.

        Raises a DefinitionError that lists all problems in the file. Without ``strict``, problems with which
        the skill can be used, such as capital letters in its name or a colon in a text without quotes, are
        warnings in the log. Unknown fields are ignored.
        """
        folder = Path(folder).resolve()
        path = skill_file(folder)
        if path is None:
            raise _error(folder, "the folder has no file SKILL.md")
        try:
            text = path.read_text("utf-8-sig")
        except (OSError, ValueError) as error:
            raise _error(path, f"it cannot be read: {error}") from error
        front_matter, instructions = _split(text, path, strict=strict)
        problems, flaws = [*_problems(front_matter)], [*_flaws(front_matter, folder)]
        if strict:
            problems += flaws
        elif flaws:
            _log.warning("%s: %s", path, "; ".join(flaws))
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
        """Return the relative paths of the files in the folder, except SKILL.md and hidden files."""
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
        """Return the path of a file in the folder, or raise ToolException for a path that is not allowed.

        Absolute paths, ``..``, hidden files, and links that point outside the folder are not allowed.
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
    """Return the path of the file SKILL.md in a folder, or None if the file does not exist."""
    return next((folder / name for name in _FILE_NAMES if (folder / name).is_file()), None)


def _error(path: Path, message: str) -> DefinitionError:
    return DefinitionError([DefinitionProblem(str(path), message)])


_UNQUOTED = re.compile(r"^([\w-]+):[ \t]+([^\s\"'|>\[{&*!#%@`].*)$", re.MULTILINE)


def _quoted(match: re.Match[str]) -> str:
    value = match[2].rstrip()
    return f"{match[1]}: {json.dumps(value, ensure_ascii=False)}" if ": " in value else match[0]


def _split(text: str, path: Path, *, strict: bool) -> tuple[dict[str, Any], str]:
    """Split the text of SKILL.md into its front matter, as a dict, and the instructions."""
    yaml = import_extra("yaml", "skills", "Skills")
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != "---":
        raise _error(path, "it does not begin with front matter: a line ---, the name and the description")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        raise _error(path, "its front matter has no end: add a line ---")
    source = "\n".join(lines[1:end])
    if not strict:
        source = _UNQUOTED.sub(_quoted, source)
    try:
        # aliases could make a small file huge
        if any(isinstance(token, yaml.tokens.AliasToken) for token in yaml.scan(source)):
            raise _error(path, "its front matter has an alias (*name); write the text itself")
        front_matter = yaml.safe_load(source)
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


def _flaws(fields: Mapping[str, object], folder: Path) -> Iterator[str]:
    """Yield the violations of the format with which a skill can be used nevertheless."""
    name, description = fields.get("name"), fields.get("description")
    if isinstance(name, str):
        if not _NAME.fullmatch(name) or name != name.lower() or len(name) > _LONGEST_NAME:
            yield (
                f"the name is {shorten(repr(name), 80)}; it must have 1 to {_LONGEST_NAME} lower-case "
                "letters, digits and single hyphens between them"
            )
        elif name != folder.name:
            yield f"the name is {name}, but the name of the folder is {folder.name}; make them equal"
    if isinstance(description, str) and len(description) > _LONGEST_DESCRIPTION:
        yield f"the description has {len(description)} characters; it may have at most {_LONGEST_DESCRIPTION}"
    compatibility = fields.get("compatibility")
    if isinstance(compatibility, str) and len(compatibility) > _LONGEST_COMPATIBILITY:
        length = len(compatibility)
        yield f"compatibility has {length} characters; it may have at most {_LONGEST_COMPATIBILITY}"


def _problems(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the reasons why a skill cannot be used."""
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not name.strip():
        yield "it has no name; write name: with the name of the folder"
    if not isinstance(description, str) or not description.strip():
        yield "it has no description; write description: with what the skill does and when to use it"
    for key in ("license", "compatibility"):
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            yield f"{key} is {shorten(repr(value), 80)}; it must be a text"
    if not isinstance(fields.get("metadata") or {}, dict):
        yield "metadata is not a mapping of names to texts"
    tools = fields.get("allowed-tools") or ()
    if not isinstance(tools, str) and not (
        isinstance(tools, (list, tuple)) and all(isinstance(one, str) for one in tools)
    ):
        yield "allowed-tools is neither a text nor a list of texts"


# --- The scripts of a skill ---

SCRIPTS = "scripts"  # the folder of a skill with its scripts
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "TEMP", "TMP")
_LARGEST_OUTPUT = 1_000_000  # characters of each stream


def _default_interpreters() -> Mapping[str, Sequence[str]]:
    return {".py": (sys.executable,), ".sh": ("bash",), ".js": ("node",)}


@checks_arguments
@dataclass(frozen=True)
class ScriptSettings:
    """Settings that allow a model to run skills' scripts with this process's permissions.

    Each script runs in the folder of its skill, without a shell. Its environment consists of variables such
    as PATH and HOME, and of ``env``. Raises DefinitionError for invalid settings.

    Attributes:
        timeout: Seconds after which a script, with the processes that it has started, is killed.
        needs_approval: True if each run must be approved.
        interpreters: The commands that run scripts, by the ending of the file. Other files are not run.
        env: Further variables of the environment.
    """

    timeout: float = 30.0
    needs_approval: bool = False
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=_default_interpreters)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        is_limited = is_positive(self.timeout) and math.isfinite(self.timeout)
        check_settings("ScriptSettings", ("timeout", self.timeout, is_limited, "it must be greater than 0"))

    def runs(self, path: str) -> bool:
        """Return True if a skill's file is a script that can be run."""
        return path.startswith(f"{SCRIPTS}/") and Path(path).suffix in self.interpreters

    def run(self, skill: Skill, script: str, arguments: Sequence[str], text: str) -> str:
        """Run a script with a string as its standard input, and return its output.

        Raises ToolException if the script cannot be run, fails, or takes too long.
        """
        path = skill.path_of(script)
        relative = path.relative_to(skill.folder).as_posix()  # the real path, if it is a link
        if not self.runs(relative):
            scripts = ", ".join(one for one in skill.files() if self.runs(one)) or "none"
            raise ToolException(f"{script} is not a script of {skill.name}. Its scripts are: {scripts}.")
        command = [*self.interpreters[path.suffix], str(path), *arguments]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            process = subprocess.Popen(
                command,
                cwd=skill.folder,
                env={**inherited, **self.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except (OSError, ValueError) as error:  # no interpreter, or a null character in an argument
            raise ToolException(f"{script} could not be started: {error}") from error
        output, errors, is_late = _communicate(process, text, self.timeout)
        if is_late:
            raise ToolException(f"{script} was stopped because it took more than {self.timeout:g} seconds.")
        if process.returncode:
            raise ToolException(
                f"{script} failed with the exit code {process.returncode}.\n{output}{errors}".rstrip()
            )
        return output or errors or "The script wrote nothing."


def _communicate(process: subprocess.Popen[str], text: str, timeout: float) -> tuple[str, str, bool]:
    """Send text to a process.

    Returns its output, its errors, and True if it was killed.

    Unlike ``Popen.communicate``, this keeps only the beginning of a long output, and does not wait for
    processes that keep the pipes open.
    """
    outputs: list[list[str]] = [[], []]
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    threads = [
        threading.Thread(target=_write, args=(process.stdin, text), daemon=True),
        threading.Thread(target=_read, args=(process.stdout, outputs[0]), daemon=True),
        threading.Thread(target=_read, args=(process.stderr, outputs[1]), daemon=True),
    ]
    for thread in threads:
        thread.start()
    is_late = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        _kill_group(process)  # also what a script has left in the background
        process.wait()
    for thread in threads:
        thread.join(1)
    return "".join(outputs[0]), "".join(outputs[1]), is_late


def _kill_group(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # all processes have ended
        os.killpg(process.pid, signal.SIGKILL)


def _write(pipe: IO[str], text: str) -> None:
    with suppress(OSError, ValueError), pipe:  # the script may not read it
        pipe.write(text)


def _read(pipe: IO[str], output: list[str]) -> None:
    length = 0
    with suppress(OSError, ValueError), pipe:
        while chunk := pipe.read(8192):
            if length < _LARGEST_OUTPUT:
                output.append(chunk)
            length += len(chunk)


# --- The tool provider ---

ACTIVATE, READ, RUN = "activate_skill", "read_skill_file", "run_skill_script"
_TITLE = "Skill: "
_MOST_FILES = 100  # the maximum number of files listed with the instructions
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NO_TOOLS: Mapping[str, Sequence[ToolSource]] = MappingProxyType({})


@checks_arguments
class Skills:
    """Skills that a model may use, passed as a tool: ``create(tools=[Skills.from_folder(path)])``.

    The model sees the names and descriptions of the skills in a tool ``activate_skill``, which returns a
    skill's instructions. Then it can read the files of the skill with ``read_skill_file``, call the tools
    that are scoped to it, and, if the program allows it, run its scripts with ``run_skill_script``. A skill
    stays active while its instructions are in the conversation: also after an approval, and in later calls if
    a ChatMemory keeps them. Raises a DefinitionError that lists all problems of the skills and the tools.

    Args:
        skills: The skills.
        tools: Tools that appear when a skill is activated, by the name of the skill.
        scripts: Allows the model to run scripts; None does not.
    """

    dynamic = True

    def __init__(
        self,
        skills: Iterable[Skill],
        *,
        tools: Mapping[str, Sequence[ToolSource]] = _NO_TOOLS,
        scripts: ScriptSettings | None = None,
    ) -> None:
        self.skills = _by_name(skills)
        is_settings = scripts is None or isinstance(scripts, ScriptSettings)
        check_settings("Skills", ("scripts", scripts, is_settings, "pass ScriptSettings()"))
        self._scripts = scripts
        unknown = [name for name in tools if name not in self.skills]
        problems = [
            f"tools names the skill {name}; the skills are: {', '.join(self.skills)}" for name in unknown
        ]
        self._scoped: dict[str, Toolbox] = {}
        own = list(self._own_tools())
        try:
            for name in self.skills:
                self._scoped[name] = make_toolbox(tuple(tools.get(name, ())), ToolLimits())
                providers = [type(one).__name__ for one in self._scoped[name].providers]
                problems += [f"{one} is a provider; pass tools for the skill {name}" for one in providers]
            scoped = [one for toolbox in self._scoped.values() for one in toolbox.tools.values()]
            # All that may be offered, for the checks of ``create``.
            self.toolbox = make_toolbox([*own, *scoped], ToolLimits())
        except ToolDefinitionError as error:
            problems.append(str(error))
        if problems:
            raise DefinitionError([DefinitionProblem("Skills", message) for message in problems])
        self._own = {one.name: one for one in own}

    @staticmethod
    def from_folder(
        *folders: str | Path,
        tools: Mapping[str, Sequence[ToolSource]] = _NO_TOOLS,
        scripts: ScriptSettings | None = None,
    ) -> Skills:
        """Read skills from folders that contain a file SKILL.md, or that have subfolders with one.

        The other arguments are the same as for the class. Needs the extra ``skills``.

        A skill that cannot be used is left out, with a warning in the log. Raises DefinitionError with all
        problems if a folder has no other skill.
        """
        require_extra("yaml", "skills", "Skills")
        problems: list[DefinitionProblem] = []
        skills: list[Skill] = []
        for folder in map(Path, folders):
            try:
                inside = sorted(folder.iterdir()) if skill_file(folder) is None else [folder]
            except OSError as error:
                problems.append(
                    DefinitionProblem(str(folder), f"the folder cannot be read: {error.strerror}")
                )
                continue
            skill_folders = [one for one in inside if one.is_dir() and skill_file(one) is not None]
            if not skill_folders:
                message = "it has no file SKILL.md, and no folder in it has one"
                problems.append(DefinitionProblem(str(folder), message))
            unreadable: list[DefinitionProblem] = []
            for one in skill_folders:
                try:
                    skills.append(Skill.read(one, strict=False))
                except DefinitionError as error:
                    unreadable += error.problems
            if len(skill_folders) > 1 and len(unreadable) < len(skill_folders):
                for problem in unreadable:  # one bad skill must not take the others away
                    _log.warning("a skill is left out: %s", problem)
            else:
                problems += unreadable
        if problems:
            raise DefinitionError(problems)
        return Skills(skills, tools=tools, scripts=scripts)

    def tools(self, invocation: Invocation) -> list[Tool]:
        """Return the tools that activate skills, and the tools of the skills that are active."""
        active = [name for name in _activated(invocation) if name in self.skills]
        visible = [self._own[ACTIVATE]]
        files = [path for name in active for path in self.skills[name].files()]
        if files:
            visible.append(self._own[READ])
        if self._scripts is not None and any(map(self._scripts.runs, files)):
            visible.append(self._own[RUN])
        for name in active:
            visible += self._scoped[name].tools.values()
        return visible

    def _own_tools(self) -> Iterable[Tool]:
        """Yield the tools that activate skills, read their files and run their scripts."""
        names: Any = Literal[tuple(self.skills)]
        catalog = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills.values())
        # In the parameter, because the description of a tool may only have 1,024 characters in some APIs.
        choice = Annotated[names, Description(f"the skill, one of:\n{catalog}")]
        name = Annotated[names, Description("the skill")]
        path = Annotated[str, Description("the path of the file in the folder of the skill")]
        arguments = Annotated[list[str], Description("the arguments of the command line")]
        text = Annotated[str, Description("the standard input")]

        def activate(skill: str) -> str:
            """Get the instructions of a skill. Do it before a task that the description of a skill fits."""
            return self._instructions_of(self.skills[skill])

        def read(skill: str, path: str) -> str | Media:
            """Read a file of a skill."""
            return _content_of(self.skills[skill].path_of(path), path)

        def run(skill: str, script: str, arguments: Sequence[str] = (), text: str = "") -> str:
            """Run a script of a skill, and get what it writes."""
            assert self._scripts is not None, "the tool is offered only if scripts are allowed"
            return self._scripts.run(self.skills[skill], script, list(arguments), text)

        activate.__annotations__ |= {"skill": choice}
        read.__annotations__ |= {"skill": name, "path": path}
        run.__annotations__ |= {"skill": name, "script": path, "arguments": arguments, "text": text}
        for function, tool_name in ((activate, ACTIVATE), (read, READ), (run, RUN)):
            [skill_tool] = tools_of(tool(name=tool_name)(function))
            if tool_name == RUN and self._scripts is not None:
                skill_tool = replace(skill_tool, needs_approval=self._scripts.needs_approval)
            yield skill_tool

    def _instructions_of(self, skill: Skill) -> str:
        files = skill.files()
        scripts = [path for path in files if self._scripts is not None and self._scripts.runs(path)]
        parts = [f"{_TITLE}{skill.name}", skill.instructions]  # _activated reads the first line
        for title, paths in ((f"Files, for {READ}", files), (f"Scripts, for {RUN}", scripts)):
            if paths:
                more = [f"- and {len(paths) - _MOST_FILES} more"] if len(paths) > _MOST_FILES else []
                lines = [f"- {path}" for path in paths[:_MOST_FILES]]
                parts.append("\n".join([f"{title}:", *lines, *more]))
        return "\n\n".join(parts)


def _by_name(skills: Iterable[Skill]) -> Mapping[str, Skill]:
    by_name: dict[str, Skill] = {}
    problems = []
    for skill in skills:
        other = by_name.setdefault(skill.name, skill)
        if other is not skill:
            problems.append(f"two skills are called {skill.name}: {other.folder} and {skill.folder}")
    if not by_name:
        problems.append("there are no skills; pass at least one")
    if problems:
        raise DefinitionError([DefinitionProblem("Skills", message) for message in problems])
    return MappingProxyType(by_name)


def _activated(invocation: Invocation) -> list[str]:
    """Return the names of the skills whose instructions the conversation already contains."""
    names: dict[str, None] = {}
    for message in (*invocation.request.messages, *invocation.state.tool_messages):
        if isinstance(message, ToolMessage) and message.name == ACTIVATE and not message.failed:
            first_line = message.text.partition("\n")[0]
            names[first_line.removeprefix(_TITLE)] = None
    return list(names)


def _content_of(path: Path, relative: str) -> str | Media:
    """Return a file's text or image for the model, or raise ToolException for other kinds of files."""
    try:
        if path.suffix.lower() in _IMAGES:
            return Image.from_path(path)
        return path.read_text("utf-8-sig")
    except ValueError as error:  # UnicodeDecodeError is one
        raise ToolException(f"{relative} is not a text.") from error
    except OSError as error:
        raise ToolException(f"{relative} cannot be read: {error.strerror}.") from error
