"""How the arguments of a method become its messages, checked against its templates."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from output_parsers.parser.type_parser import TypeParser
from output_parsers.types.node import OutputParser

from ..engine.output_format import INSTRUCTIONS_PLACE
from ..engine.plan import Example, SystemText
from ..interface.decorators import ExampleSource, SystemSource, TemplateSource
from ..interface.parameters import Parameter, Role
from ..interface.templates import (
    ALWAYS_KNOWN,
    FORMAT_INSTRUCTIONS,
    KNOWN_IN_RECORDS,
    Prompt,
    TemplateFault,
    compile_prompt,
    field_names,
    record_prompt,
)
from ..models.errors import DefinitionProblem

_SHOWN_ROLES = (None, Role.USER_NAME, Role.MEMORY_ID)


class PromptBinding(NamedTuple):
    """The templates of a method, and which argument is the message or ``{{it}}``."""

    user: Prompt | None
    system: SystemText | None
    message_argument: str | None
    it: str | None


def word(
    user_source: TemplateSource | None,
    system_source: SystemSource | None,
    parameters: Sequence[Parameter],
    where: str,
    problems: list[DefinitionProblem],
) -> PromptBinding | None:
    """The wording of a method; adds to the problems, and gives None, where there is none."""
    before = len(problems)
    user = _compiled(user_source, "prompt", where, problems) if user_source else None
    system, used = _system(system_source, parameters, where, problems)
    _check_parameters(parameters, where, problems)
    if len(problems) > before:
        return None
    shown = [p.name for p in parameters if p.role in _SHOWN_ROLES]
    data = [p.name for p in parameters if p.role is None]
    media = [p.name for p in parameters if p.role is Role.MEDIA]
    alone = data or media
    used = used | _checked(user, shown + media, alone, parameters, "prompt", where, problems)
    given = [p.name for p in parameters if p.role is Role.USER_MESSAGE]
    message = None
    if user is None:
        message = _message_argument(given, [name for name in data if name not in used], media, where, problems)
        used = used | {message}
    elif given:
        problem = f"it has a prompt, and the parameter {given[0]} is the user message too; keep one of them"
        problems.append(DefinitionProblem(where, problem))
    it = alone[0] if len(alone) == 1 and "it" not in shown else None
    if "it" in used and it is not None:
        used = used | {it}
    if len(problems) == before:
        problems.extend(_unused(data, used, where))
    return PromptBinding(user, system, message, it) if len(problems) == before else None


def _compiled(
    source: TemplateSource, what: str, where: str, problems: list[DefinitionProblem]
) -> Prompt | None:
    try:
        return compile_prompt(source)
    except TemplateFault as error:
        problems.append(DefinitionProblem(where, f"{what}: {error}"))
        return None


def _system(
    source: SystemSource | None,
    parameters: Sequence[Parameter],
    where: str,
    problems: list[DefinitionProblem],
) -> tuple[SystemText | None, frozenset[str | None]]:
    """The system message, and the parameters that it uses. It may use any of them, or none."""
    shown = [p.name for p in parameters if p.role in _SHOWN_ROLES]
    data = [p.name for p in parameters if p.role is None]
    if source is None:
        return None, frozenset()
    if isinstance(source, TemplateSource):
        prompt = _compiled(source, "system message", where, problems)
        return prompt, _checked(prompt, shown, data, parameters, "system message", where, problems)
    shown += [p.name for p in parameters if p.role is Role.MEDIA]  # it may ask what they are
    names = list(inspect.signature(source).parameters)
    problems.extend(
        DefinitionProblem(
            where, f"the system message callable takes {name}, {_not_a_parameter(name, shown, parameters)}"
        )
        for name in names
        if name not in shown
    )
    call = source

    def system(known: Mapping[str, Any]) -> str:
        return call(**{name: known[name] for name in names})

    return system, frozenset(names)


def _checked(
    prompt: Prompt | None,
    shown: list[str],
    data: list[str],
    parameters: Sequence[Parameter],
    what: str,
    where: str,
    problems: list[DefinitionProblem],
) -> frozenset[str | None]:
    """The names that a template uses; a fault for each that is no parameter."""
    if prompt is None:
        return frozenset()
    hidden = {p.name: p.role for p in parameters if p.role not in _SHOWN_ROLES and p.name not in shown}
    for name in sorted(prompt.variables - ALWAYS_KNOWN - set(shown)):
        if name == "it":
            if len(data) != 1:
                problem = (
                    f"the {what} names {{{{it}}}}, which stands for the only argument; there are {len(data)}"
                )
                problems.append(DefinitionProblem(where, problem))
        elif name in hidden:
            role = hidden[name]
            said = role.value if role is not None else ""
            problems.append(
                DefinitionProblem(
                    where, f"the {what} names {{{{{name}}}}}, but as {said} it is not for the prompt"
                )
            )
        else:
            said = _not_a_parameter(name, shown, parameters)
            problems.append(DefinitionProblem(where, f"the {what} names {{{{{name}}}}}, {said}"))
    return frozenset(prompt.variables)


def _not_a_parameter(name: str, shown: list[str], parameters: Sequence[Parameter]) -> str:
    forgotten = "" if parameters else "; has self been forgotten?"
    return f"but the parameters are: {_those(shown, name)}{forgotten}"


def _those(known: Sequence[str], name: str) -> str:
    """What may be named, and which of it was meant."""
    from difflib import get_close_matches  # only problems need it

    close = get_close_matches(name, known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"{', '.join(known) or 'none'}{meant}"


def _message_argument(
    given: list[str], free: list[str], media: list[str], where: str, problems: list[DefinitionProblem]
) -> str | None:
    """The argument that is the message; None, without a fault, where media are all that is said."""
    if given:
        return given[0]
    if len(free) == 1:
        return free[0]
    if media and not free:
        return None
    if not free:
        said = "it has no prompt and no argument that could be the user message; add @user_message"
    else:
        said = (
            f"it has no prompt and several arguments ({', '.join(free)}); say with @user_message how they "
            "make the user message"
        )
    problems.append(DefinitionProblem(where, said))
    return None


def _unused(data: list[str], used: frozenset[str | None], where: str) -> list[DefinitionProblem]:
    return [
        DefinitionProblem(
            where,
            f"the parameter {name} is not used; write {{{{{name}}}}} in the prompt, or give it a role "
            "(MemoryId, UserName, History, ToolContext)",
        )
        for name in data
        if name not in used
    ]


def _check_parameters(parameters: Sequence[Parameter], where: str, problems: list[DefinitionProblem]) -> None:
    for parameter in parameters:
        if parameter.name == FORMAT_INSTRUCTIONS:
            problems.append(
                DefinitionProblem(where, f"a parameter cannot have the name {FORMAT_INSTRUCTIONS}; rename it")
            )
        _check_records(parameter, where, problems)


def _check_records(parameter: Parameter, where: str, problems: list[DefinitionProblem]) -> None:
    """The templates of structured prompts are checked with the method that takes them."""
    for cls in parameter.types:
        if not isinstance(cls, type):
            continue
        try:
            prompt = record_prompt(cls)
        except TemplateFault as error:
            problems.append(DefinitionProblem(f"{where}, structured prompt {cls.__name__}", str(error)))
            continue
        if prompt is None:
            continue
        names = field_names(cls)
        for name in sorted(prompt.variables - KNOWN_IN_RECORDS - set(names)):
            problem = f"its template names {{{{{name}}}}}, but its fields are: {_those(names, name)}"
            problems.append(DefinitionProblem(f"{where}, structured prompt {cls.__name__}", problem))


def plan_examples(
    sources: Sequence[ExampleSource],
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    wording: PromptBinding,
    parser: OutputParser[Any] | None,
    where: str,
    problems: list[DefinitionProblem],
) -> tuple[Example, ...]:
    """The examples of a method; what is wrong with one goes to ``problems``."""
    found = []
    for number, source in enumerate(sources, 1):
        place = where if len(sources) == 1 else f"{where}, example {number}"
        try:
            arguments = _bound(source, signature, parameters)
            _check_shown({p.name: arguments.get(p.name) for p in parameters if p.role}, wording)
            _check(source.value, parser)
        except (TypeError, ValueError) as error:
            problems.append(DefinitionProblem(place, f"its example does not fit: {error}"))
            continue
        said = arguments if wording.it is None else {**arguments, "it": arguments[wording.it]}
        found.append(Example({**said, "format_instructions": INSTRUCTIONS_PLACE}, source.value))
    return tuple(found)


def _bound(
    source: ExampleSource, signature: inspect.Signature, parameters: Sequence[Parameter]
) -> dict[str, Any]:
    """The arguments by name; those of a role that templates may show are given by it. Raises TypeError."""
    with_role = {p.name: p.role for p in parameters if p.role not in (None, Role.USER_MESSAGE)}
    told = [
        p.replace(kind=p.KEYWORD_ONLY, default=None) if name in with_role else p
        for name, p in signature.parameters.items()
        if with_role.get(name) in (None, Role.USER_NAME, Role.MEMORY_ID)
    ]
    told.sort(key=lambda p: p.kind)
    bound = signature.replace(parameters=told).bind(*source.args, **source.kwargs)
    bound.apply_defaults()
    return {**dict.fromkeys(with_role), **bound.arguments}


def _check_shown(roles: dict[str, Any], wording: PromptBinding) -> None:
    """Raises TypeError where the prompt shows an argument with a role that the example does not give."""
    shown = () if wording.user is None else wording.user.variables
    missing = [name for name, value in roles.items() if value is None and name in shown]
    if missing:
        raise TypeError(f"the prompt shows {', '.join(missing)}, which it does not give")


def _check(value: Any, parser: OutputParser[Any] | None) -> None:
    """Raises ValueError where a model that wrote this value would not be read as having written it."""
    if parser is None:
        raise ValueError("the method hands back the reply itself, of which no example can be shown")
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    typed.write(value)
