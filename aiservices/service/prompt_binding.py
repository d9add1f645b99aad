"""Render the arguments of a service call as chat messages; check prompt templates beforehand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import takewhile
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic_core import to_json

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Leniency
from output_parsers.types.node import OutputParser

from ..engine.output_format import INSTRUCTIONS_MARK, FewShotExample
from ..engine.plan import Invocation
from ..interface.decorators import ExampleSource, SystemSource, TemplateSource
from ..interface.parameters import Parameter, Role, by_name, invocation_parameters, is_async
from ..interface.templates import (
    FORMAT_INSTRUCTIONS,
    METHOD_TEMPLATE_NAMES,
    RECORD_TEMPLATE_NAMES,
    MediaMarks,
    Prompt,
    TemplateError,
    compile_prompt,
    field_names,
    record_prompt,
    render_value,
)
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.media import Media
from ..models.messages import Message, SystemMessage, UserMessage
from ..models.requests import list_to_messages

SystemText: TypeAlias = Prompt | Callable[[Mapping[str, object]], str | None]
_PLACEHOLDER = re.compile(r"\{\{\s?(\w+)")
_NO_ANNOTATION = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_TEMPLATE_ROLES = (None, Role.USER_NAME, Role.MEMORY_ID)  # of parameters that templates may show


class PlannedExample(NamedTuple):
    """A few-shot example of a service method whose prompt template has not been rendered yet.

    Attributes:
        values: The values for the template of the prompt.
        value: The answer.
    """

    values: Mapping[str, object]
    value: object


class PromptPlan(NamedTuple):
    """The prompt of a service method: compiled templates, parameters and few-shot examples.

    Attributes:
        qualname: The name of the method in messages, ``Service.method``.
        signature: The signature without ``self``.
        parameters: The parameters with their roles.
        role_names: The names of parameters whose role only one parameter can have, by role.
        context_names: The names of the ToolContext parameters.
        user: The template of the user message; None if an argument is the message.
        system: The system message: a template or a function of the arguments; None without one.
        message_parameter: The name of the parameter that is the user message; None if there is a template.
        it_parameter: The name of the parameter that ``{{it}}`` means; None if there are several.
        shows_memory_id: True if the prompt or the system message contains the memory id.
        examples: Few-shot examples.
        names: The names of all parameters if each can be passed by position or by name, else None.
        system_takes_invocation: True if the function for the system message takes the Invocation.
        system_is_async: True if this function is async.
        never_none: The names of the parameters whose types do not accept None.
    """

    qualname: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    role_names: Mapping[Role, str]
    context_names: tuple[str, ...]
    user: Prompt | None
    system: SystemText | None
    message_parameter: str | None
    it_parameter: str | None
    shows_memory_id: bool = False
    examples: tuple[PlannedExample, ...] = ()
    names: tuple[str, ...] | None = None
    system_takes_invocation: bool = False
    system_is_async: bool = False
    never_none: tuple[str, ...] = ()

    def bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """Return a dict from parameter names to the arguments of a call, filling in default values.

        Raises TypeError if they do not fit the signature, or if a required one is None.
        """
        arguments = self._bound(args, kwargs)
        for name in self.never_none:
            if arguments[name] is None:
                raise TypeError(f"{name} is None; if it is optional, add | None to its annotation")
        return arguments

    def _bound(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        names = self.names
        # Signature.bind takes longer than all other work on the arguments of a simple call.
        if names is not None:
            if not kwargs and len(args) == len(names):
                return dict(zip(names, args, strict=True))
            named = names[len(args) :]
            if len(args) + len(kwargs) == len(names) and all(name in kwargs for name in named):
                arguments = dict(zip(names, args, strict=False))
                for name in named:
                    arguments[name] = kwargs[name]
                return arguments
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    @property
    def task(self) -> str:
        """The instructions in the prompt: the paragraphs before its variables, or else those after them.

        Decision endpoints get them as the question.
        """
        if self.user is None:
            return ""
        paragraphs = _PARAGRAPHS.split(self.user.source.strip())
        before = list(takewhile(_is_plain, paragraphs))
        after = list(takewhile(_is_plain, reversed(paragraphs)))
        return "\n\n".join(before or reversed(after)) if len(before) < len(paragraphs) else ""

    @property
    def question_names(self) -> tuple[str, ...]:
        """The names of the parameters whose values the template of the user message shows."""
        variables = frozenset() if self.user is None else self.user.variables
        if "it" in variables and self.it_parameter is not None:
            variables |= {self.it_parameter}
        return tuple(p.name for p in self.parameters if p.role is None and p.name in variables)

    @property
    def fixed_system(self) -> str | None:
        """The text of the system message if its template has no variables."""
        if not isinstance(self.system, Prompt) or self.system.variables:
            return None
        return self.system.render({}, self.qualname)

    def messages(
        self, arguments: Mapping[str, Any], invocation: Invocation | None = None
    ) -> tuple[Message, ...]:
        """Return the chat messages of a service call: system message, history and user message.

        ``invocation`` is for a function that makes the system message.
        """
        names = self.role_names
        # The instructions depend on the strategy, which is only known when the request is sent.
        values = {**arguments, FORMAT_INSTRUCTIONS: INSTRUCTIONS_MARK}
        if invocation is not None:
            values[_INVOCATION] = invocation
        if self.it_parameter is not None:
            values["it"] = arguments[self.it_parameter]
        message_argument = arguments.get(self.message_parameter or "")
        user_name = arguments.get(names.get(Role.USER_NAME, ""))
        contents: tuple[str | Media, ...] = ()
        if isinstance(message_argument, UserMessage):
            user_name, contents = user_name or message_argument.name, message_argument.contents
        if Role.MEDIA in names:
            question = self._with_media(values, user_name, contents)
        else:
            question = UserMessage(self.user_text(values), user_name, contents)
        if self.system is None and Role.HISTORY not in names:
            return (question,)
        return (*self._earlier_messages(values, arguments), question)

    async def amessages(self, arguments: Mapping[str, Any], invocation: Invocation) -> tuple[Message, ...]:
        """Return the chat messages of a service call whose system message an async function makes."""
        make: Any = self.system  # an async function in this case
        text = await make({**arguments, _INVOCATION: invocation})
        return self._replace(system=lambda _: text).messages(arguments)

    def user_text(self, values: Mapping[str, object]) -> str:
        """Return the user message of a service call, with the arguments filled into the template."""
        if self.user is not None:
            return self.user.render(values, self.qualname)
        if self.message_parameter is None:
            return ""
        argument = values[self.message_parameter]
        return argument.text if isinstance(argument, UserMessage) else render_value(argument)

    def rendered_examples(self) -> tuple[FewShotExample, ...]:
        """Return the few-shot examples of a service method as pairs of prompt and answer.

        They are rendered for each call, because the template may use the current date.
        """
        return tuple([FewShotExample(self.user_text(one.values), one.value) for one in self.examples])

    def _earlier_messages(
        self, values: Mapping[str, object], arguments: Mapping[str, Any]
    ) -> tuple[Message, ...]:
        """Return the messages before the user message: the system message and the earlier conversation."""
        system: tuple[Message, ...] = ()
        if self.system is not None:
            text: str | None
            if isinstance(self.system, Prompt):
                text = self.system.render(values, self.qualname)
            else:
                text = self.system(values)
            if not isinstance(text, str | None):
                message = (
                    f"the function for the system message returned {type(text).__name__}; it must return "
                    "str or None"
                )
                raise TypeError(f"{self.qualname}: {message}")
            if text:  # providers refuse an empty one
                system = (SystemMessage(text),)
        if Role.HISTORY not in self.role_names:
            return system
        name = self.role_names[Role.HISTORY]
        problems: list[DefinitionProblem] = []
        history = list_to_messages(arguments[name] or (), f"{self.qualname}, {name}", problems)
        if problems:
            raise DefinitionError(problems)
        if system and any(isinstance(message, SystemMessage) for message in history):
            raise ValueError(
                f"{self.qualname}: the history has a system message, and so has the method; remove one"
            )
        return (*system, *history)

    def _with_media(
        self, values: dict[str, object], user_name: str | None, contents: tuple[str | Media, ...]
    ) -> UserMessage:
        """Return the user message of a service call, including images and other media from the arguments.

        Media appear where the template names them, or else after the text.
        """
        marks, before_text = MediaMarks(), 0
        for parameter in self.parameters:
            if parameter.name == self.message_parameter:
                before_text = len(marks.media)
            if parameter.role is not Role.MEDIA:
                continue
            name, value = parameter.name, values[parameter.name]
            location = f"{self.qualname}: the parameter {name}"
            values[name] = marks.mark(value, location)
            if name == self.it_parameter:
                values["it"] = values[name]
        text = self.user_text(values)
        parts = marks.split(text)
        if parts is None:
            if before_text:  # media that are declared before the text are sent before it
                media = marks.media
                return UserMessage(
                    text, user_name, (*contents, *media[:before_text], text, *media[before_text:])
                )
            return UserMessage(text, user_name, (*contents, *marks.media))
        text = "".join(part for part in parts if isinstance(part, str))
        # The instructions go into the text; the contents only say where the media are in it.
        without_mark = (
            part.replace(INSTRUCTIONS_MARK, "") if isinstance(part, str) else part for part in parts
        )
        return UserMessage(text, user_name, tuple(part for part in without_mark if part != ""))


_INVOCATION = "<invocation>"  # which is not the name of a parameter
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


def _is_plain(paragraph: str) -> bool:
    return "{{" not in paragraph and "{%" not in paragraph and "{#" not in paragraph


def _role_names(parameters: Sequence[Parameter]) -> dict[Role, str]:
    roles = [(one.role, one.name) for one in parameters]
    return {role: name for role, name in roles if role is not None and role is not Role.TOOL_CONTEXT}


def plan_prompt(
    user_source: TemplateSource | None,
    system_source: SystemSource | None,
    signature: inspect.Signature,
    parameters: Sequence[Parameter],
    qualname: str,
    problems: list[DefinitionProblem],
    *,
    title: str = "prompt",
) -> PromptPlan | None:
    """Compile the prompt templates of a service method, and check the parameters that they use.

    Adds each error to ``problems``, and returns None if there are errors. ``title`` names the template of the
    user message in the errors.
    """
    problem_count = len(problems)
    user = _compile(user_source, title, qualname, problems) if user_source else None
    system, used, takes_invocation = _plan_system(system_source, parameters, qualname, problems)
    _check_parameters(parameters, qualname, problems)
    if len(problems) > problem_count:
        return None
    template_names = _names_with(parameters, *_TEMPLATE_ROLES)
    data, media = _names_with(parameters, None), _names_with(parameters, Role.MEDIA)
    it_candidates = data or media
    used |= _check_template(
        user, template_names + media, it_candidates, parameters, title, qualname, problems
    )
    message_parameter = _user_message_parameter(user, parameters, used, qualname, problems)
    if user is None:
        used |= {message_parameter}
    it_parameter = it_candidates[0] if len(it_candidates) == 1 and "it" not in template_names else None
    if "it" in used and it_parameter is not None:
        used |= {it_parameter}
    if len(problems) == problem_count:
        problems += [_unused_problem(name, qualname) for name in data if name not in used]
    if len(problems) > problem_count:
        return None
    role_names = _role_names(parameters)
    return PromptPlan(
        qualname,
        signature,
        tuple(parameters),
        role_names,
        tuple(_names_with(parameters, Role.TOOL_CONTEXT)),
        user,
        system,
        message_parameter,
        it_parameter,
        role_names.get(Role.MEMORY_ID) in used,
        names=_names_of_usual(signature),
        system_takes_invocation=takes_invocation,
        system_is_async=is_async(system_source),
        never_none=tuple(p.name for p in parameters if _is_never_none(p, signature)),
    )


def _is_never_none(parameter: Parameter, signature: inspect.Signature) -> bool:
    default = signature.parameters[parameter.name].default
    is_data = parameter.role in (None, Role.USER_MESSAGE, Role.MEDIA) and default is not None
    return is_data and not _may_be_none(parameter.hint)


def _may_be_none(hint: object) -> bool:
    """Return True if an annotation accepts None, or if that is not known."""
    if hint is None or hint in (NoneType, Any, object) or isinstance(hint, (str, TypeVar, ForwardRef)):
        return True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return None in arguments
    if origin in (Union, UnionType):
        return any(map(_may_be_none, arguments))
    if origin is Annotated:
        return _may_be_none(arguments[0])
    # a NewType, or a type alias of Python 3.12
    inner = getattr(hint, "__supertype__", None) or getattr(origin or hint, "__value__", None)
    return inner is not None and _may_be_none(inner)


def docstring_problems(
    docstring: str, parameters: Sequence[Parameter], qualname: str
) -> list[DefinitionProblem]:
    """Return an error if a docstring may be a prompt without a decorator: "Summarize {{text}}".

    Other libraries send docstrings, so the author expects this one to be the prompt.
    """
    names = {parameter.name for parameter in parameters}
    name = next((name for name in _PLACEHOLDER.findall(docstring) if name in names), None)
    if name is None:
        return []
    message = (
        f"its docstring has {{{{{name}}}}}, but docstrings are not sent; write the prompt in @user_message"
    )
    return [DefinitionProblem(qualname, message)]


def plan_examples(
    sources: Sequence[ExampleSource],
    prompt: PromptPlan,
    parser: OutputParser[object] | None,
    problems: list[DefinitionProblem],
) -> tuple[PlannedExample, ...]:
    """Check the few-shot examples of a service method, and prepare them for its prompt."""
    examples = []
    for number, source in enumerate(sources, 1):
        location = prompt.qualname if len(sources) == 1 else f"{prompt.qualname}, example {number}"
        try:
            arguments = _example_arguments(source, prompt)
            value = example_value(source.value, parser)
        except (TypeError, ValueError) as error:
            problems.append(DefinitionProblem(location, f"its example does not fit: {error}"))
            continue
        values = {**arguments, FORMAT_INSTRUCTIONS: INSTRUCTIONS_MARK}
        if prompt.it_parameter is not None:
            values["it"] = arguments[prompt.it_parameter]
        examples.append(PlannedExample(values, value))
    return tuple(examples)


def _compile(
    source: TemplateSource, title: str, qualname: str, problems: list[DefinitionProblem]
) -> Prompt | None:
    try:
        return compile_prompt(source)
    except TemplateError as error:
        problems.append(DefinitionProblem(qualname, f"{title}: {error}"))
        return None


def _names_of_usual(signature: inspect.Signature) -> tuple[str, ...] | None:
    """Return the names of the parameters if all may be passed by position and by name, else None."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    return tuple(signature.parameters) if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} else None


def _names_with(parameters: Sequence[Parameter], *roles: Role | None) -> list[str]:
    """Return the names of the parameters that have one of the roles; None means data."""
    return [parameter.name for parameter in parameters if parameter.role in roles]


def _user_message_parameter(
    user: Prompt | None,
    parameters: Sequence[Parameter],
    used: Collection[str | None],
    qualname: str,
    problems: list[DefinitionProblem],
) -> str | None:
    """Return the name of the parameter that is the user message; None if the method has a prompt.

    ``used`` are the names of the parameters that templates use. Adds each error to ``problems``.
    """
    user_messages = _names_with(parameters, Role.USER_MESSAGE)
    if user is None:
        unused = [name for name in _names_with(parameters, None) if name not in used]
        media = _names_with(parameters, Role.MEDIA)
        return _message_parameter(user_messages, unused, media, qualname, problems)
    if user_messages:
        message = (
            f"it has a prompt, and the parameter {user_messages[0]} is the user message too; keep one of them"
        )
        problems.append(DefinitionProblem(qualname, message))
    return None


def _unused_problem(name: str, qualname: str) -> DefinitionProblem:
    message = (
        f"the parameter {name} is not used; write {{{{{name}}}}} in the prompt, or give it a role "
        "(MemoryId, UserName, CallId, History, ToolContext, Tools)"
    )
    return DefinitionProblem(qualname, message)


def _plan_system(
    source: SystemSource | None,
    parameters: Sequence[Parameter],
    qualname: str,
    problems: list[DefinitionProblem],
) -> tuple[SystemText | None, frozenset[str | None], bool]:
    """Compile the system message of a service method.

    Also returns the names of the parameters it uses, and True if it is a function that takes the invocation.
    """
    names = [p.name for p in parameters if p.role in _TEMPLATE_ROLES]
    data = [p.name for p in parameters if p.role is None]
    if source is None:
        return None, frozenset(), False
    if isinstance(source, TemplateSource):
        prompt = _compile(source, "system message", qualname, problems)
        used = _check_template(prompt, names, data, parameters, "system message", qualname, problems)
        return prompt, used, False
    return _plan_system_function(source, parameters, names, qualname, problems)


def _plan_system_function(
    source: Callable[..., str | Awaitable[str | None] | None],
    parameters: Sequence[Parameter],
    names: list[str],
    qualname: str,
    problems: list[DefinitionProblem],
) -> tuple[SystemText, frozenset[str | None], bool]:
    # a function decides what it shows of media and of values that are for tools
    names += [p.name for p in parameters if p.role in (Role.MEDIA, Role.TOOL_CONTEXT)]
    # an argument of the method may be called "invocation", too
    invocation_names = [
        name
        for name in invocation_parameters(source)
        if name not in names or inspect.signature(source).parameters[name].annotation is not _NO_ANNOTATION
    ]
    unknown = [
        parameter
        for parameter in inspect.signature(source).parameters.values()
        if parameter.name not in (*names, *invocation_names) and parameter.kind not in _VARIADIC
    ]
    function_parameters = {name: name for name in inspect.signature(source).parameters if name in names}
    function_parameters.update(dict.fromkeys(invocation_names, _INVOCATION))
    problems.extend(
        DefinitionProblem(
            qualname,
            f"the function for the system message takes {parameter.name}, "
            f"{_not_a_parameter(parameter.name, names, parameters)}",
        )
        for parameter in unknown
        if parameter.default is parameter.empty
    )
    function: Callable[..., object] = by_name(source)

    def system(values: Mapping[str, object]) -> Any:
        return function(**{name: values[parameter] for name, parameter in function_parameters.items()})

    return system, frozenset(function_parameters.values()), bool(invocation_names)


def _check_template(
    prompt: Prompt | None,
    names: list[str],
    it_candidates: list[str],
    parameters: Sequence[Parameter],
    title: str,
    qualname: str,
    problems: list[DefinitionProblem],
) -> frozenset[str | None]:
    """Return the variables of a prompt template, and report those that are not method parameters.

    ``names`` are the parameters that the template may use, and ``title`` names the template in problems.
    """
    if prompt is None:
        return frozenset()
    hidden = {p.name: p.role for p in parameters if p.role not in _TEMPLATE_ROLES and p.name not in names}
    for name in sorted(prompt.variables - METHOD_TEMPLATE_NAMES - set(names)):
        if name == "it":
            if len(it_candidates) == 1:
                continue
            detail = f", which stands for the only argument; there are {len(it_candidates)}"
        elif name in hidden:
            role = hidden[name]
            detail = f", but a {role.value if role is not None else ''} parameter is not for the prompt"
            if role is Role.HISTORY:
                detail += "; a parameter of the type list[Message] without History can be used there"
        else:
            detail = f", {_not_a_parameter(name, names, parameters)}"
        problems.append(DefinitionProblem(qualname, f"the {title} uses {{{{{name}}}}}{detail}"))
    return frozenset(prompt.variables)


def _not_a_parameter(name: str, names: list[str], parameters: Sequence[Parameter]) -> str:
    no_parameters = "" if parameters else "; is self missing?"
    return f"but the parameters are: {_names_with_hint(names, name)}{no_parameters}"


def _names_with_hint(names: Sequence[str], unknown_name: str) -> str:
    """Return valid names for an error message, with a hint such as "did you mean text?"."""
    from difflib import get_close_matches  # only error messages need it

    close = get_close_matches(unknown_name, names, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{', '.join(names) or 'none'}{hint}"


def _message_parameter(
    user_messages: list[str],
    unused: list[str],
    media: list[str],
    qualname: str,
    problems: list[DefinitionProblem],
) -> str | None:
    """Return the name of the parameter that contains the user message; None if there are only media."""
    if user_messages:
        return user_messages[0]
    if len(unused) == 1:
        return unused[0]
    if media and not unused:
        return None
    if not unused:
        message = "it has no prompt and no argument that could be the user message; add @user_message"
    else:
        names = ", ".join(unused)
        message = f"it has no prompt and several arguments ({names}); write the prompt with @user_message"
    problems.append(DefinitionProblem(qualname, message))
    return None


def _check_parameters(
    parameters: Sequence[Parameter], qualname: str, problems: list[DefinitionProblem]
) -> None:
    for parameter in parameters:
        if parameter.name == FORMAT_INSTRUCTIONS:
            message = f"a parameter cannot be called {FORMAT_INSTRUCTIONS}; rename it"
            problems.append(DefinitionProblem(qualname, message))
        for cls in dict.fromkeys(parameter.parts):
            if isinstance(cls, type):
                _check_structured_prompt(cls, qualname, problems)


def _check_structured_prompt(cls: type, qualname: str, problems: list[DefinitionProblem]) -> None:
    """Check that the template of a ``@structured_prompt`` class uses only the fields of the class."""
    location = f"{qualname}, structured prompt {cls.__name__}"
    try:
        prompt = record_prompt(cls)
    except TemplateError as error:
        problems.append(DefinitionProblem(location, str(error)))
        return
    if prompt is None:
        return
    names = field_names(cls)
    for name in sorted(prompt.variables - RECORD_TEMPLATE_NAMES - set(names)):
        message = f"its template uses {{{{{name}}}}}, but its fields are: {_names_with_hint(names, name)}"
        problems.append(DefinitionProblem(location, message))


def _example_arguments(source: ExampleSource, prompt: PromptPlan) -> dict[str, object]:
    """Bind the arguments of a few-shot example to the parameters of the service method.

    An example contains no arguments for parameters with a role, except those that templates can use. Raises
    TypeError if the arguments do not fit, or if the prompt uses one that is missing.
    """
    with_role = {p.name: p.role for p in prompt.parameters if p.role not in (None, Role.USER_MESSAGE)}
    accepted = [
        p.replace(kind=p.KEYWORD_ONLY, default=None) if name in with_role else p
        for name, p in prompt.signature.parameters.items()
        if with_role.get(name) in _TEMPLATE_ROLES
    ]
    accepted.sort(key=lambda p: p.kind)
    bound = prompt.signature.replace(parameters=accepted).bind(*source.args, **source.kwargs)
    bound.apply_defaults()
    arguments = {**dict.fromkeys(with_role), **bound.arguments}
    used = () if prompt.user is None else prompt.user.variables
    with_any_role = [p.name for p in prompt.parameters if p.role]
    missing = [name for name in with_any_role if arguments.get(name) is None and name in used]
    if missing:
        raise TypeError(f"the prompt uses {', '.join(missing)}, which the example does not contain")
    return arguments


def example_value(value: object, parser: OutputParser[object] | None) -> object:
    """Convert the answer of a few-shot example to the return type; a dict is parsed as JSON data.

    Raises ValueError if it does not fit the return type of the method.
    """
    if parser is None:
        raise ValueError("the method returns the reply itself, for which there are no examples")
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    try:
        typed.write(value)
    except ValueError:
        if not isinstance(value, dict):
            raise
        try:
            return typed.parse(to_json(value).decode(), Leniency.NONE)
        except OutputParsingError as error:
            raise ValueError("; ".join(map(str, error.problems))) from None
    return value
