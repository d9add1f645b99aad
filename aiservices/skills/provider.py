"""``Skills``: offers skills to a model by their descriptions, and loads those that it activates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from output_parsers.types.target import Description

from ..engine.plan import Invocation
from ..interface.parameters import ToolDefinitionError
from ..models.errors import DefinitionError, DefinitionProblem, check_settings
from ..models.extras import require_extra
from ..models.media import Image, Media
from ..models.messages import ToolMessage
from ..tools.tool import Tool, ToolException, ToolSource, tool, tools_of
from ..tools.toolbox import Toolbox, ToolLimits, make_toolbox
from .scripts import ScriptSettings
from .skill import Skill, skill_file

ACTIVATE, READ, RUN = "activate_skill", "read_skill_file", "run_skill_script"
_TITLE = "Skill: "
_MOST_FILES = 100  # that are listed with the instructions
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NO_TOOLS: Mapping[str, Sequence[ToolSource]] = MappingProxyType({})


class Skills:
    """Skills that a model may use. Pass them as a tool: ``create(tools=[Skills.from_folder(path)])``.

    The model sees the names and descriptions of the skills in a tool ``activate_skill``, which returns the
    instructions of one. Then it can read the files of the skill with ``read_skill_file``, call the tools that
    are scoped to it, and, if the program allows it, run its scripts with ``run_skill_script``. A skill stays
    active while its instructions are in the conversation: also after an approval, and in later calls if a
    ChatMemory keeps them. Raises DefinitionError with all problems of the skills and the tools.

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
        """Read skills from folders: each is a skill, with a file SKILL.md, or contains folders of skills.

        The other arguments are those of the class. Needs the extra ``skills``.

        Raises DefinitionError with all problems of the skills.
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
            found = [one for one in inside if one.is_dir() and skill_file(one) is not None]
            if not found:
                message = "it has no file SKILL.md, and no folder in it has one"
                problems.append(DefinitionProblem(str(folder), message))
            for one in found:
                try:
                    skills.append(Skill.read(one))
                except DefinitionError as error:
                    problems += error.problems
        if problems:
            raise DefinitionError(problems)
        return Skills(skills, tools=tools, scripts=scripts)

    def tools(self, invocation: Invocation) -> list[Tool]:
        """Return the tools for the next request of a call: those of the skills that are active by then."""
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
        """Make the tools of which the parameters name the skills."""
        names: Any = Literal[tuple(self.skills)]
        catalog = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills.values())
        # In the parameter, because the description of a tool may only have 1,024 characters in some APIs.
        choice = Annotated[names, Description(f"the skill, one of:\n{catalog}")]
        name = Annotated[names, Description("the skill")]
        path = Annotated[str, Description("the path of the file in the folder of the skill")]
        arguments = Annotated[list[str], Description("the arguments of the command line")]
        text = Annotated[str, Description("the standard input")]

        def activate(skill: Any) -> str:
            """Get the instructions of a skill. Do it before a task that the description of a skill fits."""
            return self._instructions_of(self.skills[skill])

        def read(skill: Any, path: str) -> str | Media:
            """Read a file of a skill."""
            return _content_of(self.skills[skill].path_of(path), path)

        def run(skill: Any, script: str, arguments: Any = (), text: str = "") -> str:
            """Run a script of a skill, and get what it writes."""
            assert self._scripts is not None, "the tool is offered only if scripts are allowed"
            return self._scripts.run(self.skills[skill], script, list(arguments), text)

        activate.__annotations__ |= {"skill": choice}
        read.__annotations__ |= {"skill": name, "path": path}
        run.__annotations__ |= {"skill": name, "script": path, "arguments": arguments, "text": text}
        for function, tool_name in ((activate, ACTIVATE), (read, READ), (run, RUN)):
            [made] = tools_of(tool(name=tool_name)(function))
            if tool_name == RUN and self._scripts is not None:
                made = replace(made, needs_approval=self._scripts.needs_approval)
            yield made

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
    """Return the names of the skills whose instructions are in the conversation."""
    names: dict[str, None] = {}
    for message in (*invocation.request.messages, *invocation.state.tool_messages):
        if isinstance(message, ToolMessage) and message.name == ACTIVATE and not message.failed:
            first_line = message.text.partition("\n")[0]
            names[first_line.removeprefix(_TITLE)] = None
    return list(names)


def _content_of(path: Path, relative: str) -> str | Media:
    """Return the content of a file for the model, or raise ToolException if it is no text and no image."""
    try:
        if path.suffix.lower() in _IMAGES:
            return Image.from_path(path)
        return path.read_text("utf-8-sig")
    except ValueError as error:  # UnicodeDecodeError is one
        raise ToolException(f"{relative} is not a text.") from error
    except OSError as error:
        raise ToolException(f"{relative} cannot be read: {error.strerror}.") from error
