"""Check the interface of a service, prepare its methods, and report all mistakes at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, NamedTuple, TypeVar, get_args, get_origin

from output_parsers.types.target import type_arguments_by_class, type_name

from ..documents.document import Document
from ..engine.budget import Budget
from ..engine.plan import CallPlan, CallState, Invocation
from ..interface.decorators import (
    Declaration,
    attributes_without_value,
    declaration_of,
    has_own_init,
    is_stub,
    methods_of,
)
from ..interface.parameters import Role, ToolDefinitionError
from ..interface.templates import Prompt
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.requests import ChatOptions, ChatRequest
from ..tools.toolbox import Toolbox, make_toolbox, tool_choice_problems, toolbox_problems
from .planner import (
    CallDefinition,
    Settings,
    answer_tool_problems,
    find_chat_model,
    find_strategy,
    plan_call,
)
from .prompt_binding import PromptPlan, docstring_problems, plan_examples, plan_prompt
from .signatures import MethodSignature, ReturnType, read_signature

if TYPE_CHECKING:
    from output_parsers.prose.numbers import NumberStyle

    from ..decisions.adjustments import Question
    from ..engine.interceptor import Interceptor


class MethodPlan(NamedTuple):
    """The models, prompt and return type of one service method, prepared once for all calls.

    Attributes:
        call: The plan for the engine.
        prompt: How arguments become messages.
        returns: How the value is returned to the caller.
        reading: The interceptor that reads a document in parts; None for most methods.
        number_style: The decimal sign of numbers in text, if the service has one.
    """

    call: CallPlan
    prompt: PromptPlan
    returns: ReturnType
    reading: Interceptor | None = None
    number_style: NumberStyle | None = None

    @property
    def question(self) -> Question:
        """The questions that the method asks the model, for calibrations."""
        from ..decisions.adjustments import Question  # few services have calibrations

        user, system = self.prompt.user, self.prompt.system

        return Question(
            self.call,
            user.source if user is not None else "",
            system.source if isinstance(system, Prompt) else "",
        )

    def _wrong_arguments(
        self, error: TypeError, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> TypeError:
        """Return an error with the name of the method for arguments that do not fit its signature."""
        from difflib import get_close_matches  # only errors need it

        parameters, message, advice = self.prompt.signature.parameters, str(error), ""
        unknown = next((name for name in kwargs if name not in parameters), None)
        if any(isinstance(value, ChatOptions) for value in (*args, *kwargs.values())):
            advice = "; to set options for one call, declare a parameter of type ChatOptions"
        elif unknown is not None and all(one.kind is not one.VAR_KEYWORD for one in parameters.values()):
            # Python names the argument that is missing first, which is the misspelt one.
            message = f"got an unexpected keyword argument {unknown!r}"
            similar = get_close_matches(unknown, parameters, 1)
            names = ", ".join(parameters) or "none"
            advice = f"; did you mean {similar[0]!r}?" if similar else f"; the parameters are: {names}"
        return TypeError(f"{self.call.qualname}: {message}{advice}")

    def _options_of_call(self, options: ChatOptions) -> ChatOptions:
        """Return the options for one call; raise DefinitionError if they are wrong."""
        call = self.call
        problems = options.problems(call.qualname)
        problems += tool_choice_problems(options, call.toolbox, call.qualname)
        if problems:
            raise DefinitionError(problems)
        return options.with_defaults(call.options)

    def invocation(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], budget: Budget
    ) -> Invocation:
        """Bind the arguments of a service call, and return its Invocation with the rendered messages.

        Raises TypeError if the arguments do not fit the signature.
        """
        call, prompt = self.call, self.prompt
        try:
            arguments = prompt.bind(args, kwargs)
        except TypeError as error:
            raise self._wrong_arguments(error, args, kwargs) from None
        names = prompt.role_names
        options = arguments.get(names.get(Role.OPTIONS, ""))
        options = call.options if options is None else self._options_of_call(options)
        toolbox = call.toolbox
        if toolbox is not None and Role.TOOLS in names:
            toolbox = self.toolbox_with(arguments[names[Role.TOOLS]], prompt.signature.parameters)
        tool_context = {}
        for name in prompt.context_names:
            tool_context[name] = arguments[name]
        is_late = prompt.system_takes_invocation or prompt.system_is_async
        messages = () if is_late else prompt.messages(arguments)
        invocation = Invocation(
            call,
            ChatRequest(messages, options, qualname=call.qualname),
            CallState(budget),
            call.routes,
            toolbox,
            () if call.transform is None else (call.transform,),
            arguments,
            arguments.get(names.get(Role.MEMORY_ID, "")),
            arguments.get(names.get(Role.USER_NAME, "")),
            tool_context,
            prompt.rendered_examples() if prompt.examples else (),
        )
        if not is_late:
            return invocation
        if prompt.system_is_async:
            return replace(invocation, late_messages=partial(prompt.amessages, arguments, invocation))
        return invocation.with_messages(prompt.messages(arguments, invocation))

    def toolbox_with(self, sources: object, parameter_names: Collection[str]) -> Toolbox:
        """Return the tools of the method, with the additional tools that a call passes as ``Tools``.

        Raises DefinitionError for invalid tools, and TypeError for a value that is not a list.
        """
        call = self.call
        assert call.toolbox is not None, "a method with a Tools parameter has a toolbox"
        if not sources and sources != "":
            return call.toolbox
        if isinstance(sources, str) or not isinstance(sources, Iterable):
            message = f"{self.prompt.role_names[Role.TOOLS]} has the type {type(sources).__name__}"
            raise TypeError(f"{call.qualname}: {message}; pass a list of tools")
        try:
            toolbox = make_toolbox(tuple(sources), call.toolbox.limits, None, call.toolbox)
        except ToolDefinitionError as error:
            raise DefinitionError([DefinitionProblem(call.qualname, str(error))]) from error
        problems = toolbox_problems(
            toolbox, parameter_names, call.role_names, is_async=call.is_async, qualname=call.qualname
        )
        problems += answer_tool_problems(toolbox, call.routes, self.returns, call.qualname)
        if problems:
            raise DefinitionError(problems)
        return toolbox


def compile_interface(
    interface: object, settings: Settings, problems: list[DefinitionProblem]
) -> dict[str, MethodPlan]:
    """Check the interface of a service, and return a dict from its method names to their plans.

    Adds all problems of the interface to ``problems``; the dict has the methods without problems.
    """
    cls = get_origin(interface) or interface
    name = type_name(interface)
    if not isinstance(cls, type) or cls is UnionType:
        message = "it is not a class; create takes a Protocol, an ABC or a class, and then a model"
        problems.append(DefinitionProblem(name, message))
        return {}
    settings = _with_declaration(settings, declaration_of(cls), name, problems)
    if _is_open(interface, cls, name, problems):
        return {}  # every method would report the same problem again
    models: dict[object, ChatModel | None] = {}  # each wrong model is reported once
    plans: dict[str, MethodPlan] = {}
    type_arguments = type_arguments_by_class(interface)
    stub_count = 0
    for method, owner, attribute in methods_of(cls):
        qualname = f"{cls.__name__}.{method}"
        if not _needs_implementation(attribute, qualname, problems):
            continue
        stub_count += 1
        own_model = declaration_of(attribute).model
        model, location = (settings.model, name) if own_model is None else (own_model, qualname)
        key = model if isinstance(model, str) else id(model)
        if key not in models:
            models[key] = find_chat_model(model, settings, location, problems)
        try:
            plans[method] = plan_method(
                attribute, qualname, settings, type_arguments.get(owner, {}), models[key]
            )
        except DefinitionError as error:
            problems.extend(error.problems)
    problems.extend(_construction_problems(cls, name))
    if not stub_count and not problems:
        problems.append(DefinitionProblem(name, "it has no method to implement: each has a body of its own"))
    return plans


def _is_open(interface: object, cls: type, name: str, problems: list[DefinitionProblem]) -> bool:
    """Return True, and add a problem, if type variables of a generic interface are not filled in."""
    variables = getattr(cls, "__parameters__", ())
    is_open = TypeVar in map(type, get_args(interface)) or (cls is interface and bool(variables))
    if is_open:
        names = ", ".join(variable.__name__ for variable in variables)
        example = f"{cls.__name__}[{', '.join('str' for _ in variables)}]"
        problems.append(DefinitionProblem(name, f"it is generic; fill in {names}, as in {example}"))
    return is_open


def _with_declaration(
    settings: Settings, declared: Declaration, name: str, problems: list[DefinitionProblem]
) -> Settings:
    """Return the settings of ``create``, changed by the decorators on the interface."""
    of_interface = settings.with_declaration(declared, name, problems)
    problems += settings.options.problems(name)
    if declared.examples:
        message = "an example belongs to a method; move it from the interface to a method"
        problems.append(DefinitionProblem(name, message))
    strategy = find_strategy(declared.strategy or settings.strategy, name, problems)
    return of_interface._replace(strategy=strategy)


def plan_method(
    function: Callable[..., object],
    qualname: str,
    settings: Settings,
    type_arguments: Mapping[object, object],
    model: ChatModel | None,
) -> MethodPlan:
    """Check one method of a service interface, and prepare its prompt, models and answer parser.

    ``type_arguments`` are the types for the type variables of a generic interface. Raises DefinitionError
    with all problems of the method.
    """
    problems: list[DefinitionProblem] = []
    declared = declaration_of(function)
    namespace = {**settings.namespace, **declared.namespace}
    settings = settings._replace(namespace=namespace).with_declaration(declared, qualname, problems)
    signature = read_signature(function, qualname, namespace, type_arguments, problems)
    prompt = _plan_prompt(function, declared, signature, settings, qualname, problems)
    strategy = find_strategy(declared.strategy, qualname, problems)
    task = "" if prompt is None else prompt.task
    definition = CallDefinition(qualname, signature, model, settings, strategy, task=task)
    call, parser = plan_call(definition, problems)
    reading = None if settings.split is None else _plan_reading(definition, declared, call, problems)
    if prompt is not None and declared.examples and not problems:
        prompt = prompt._replace(examples=plan_examples(declared.examples, prompt, parser, problems))
    if problems or prompt is None or signature.returns is None or call is None:
        raise DefinitionError(problems)
    user_template = None if prompt.user is None else prompt.user.source
    call = call._replace(
        user_template=user_template,
        question_names=prompt.question_names,
        fixed_system=prompt.fixed_system,
        has_system=prompt.system is not None,
    )
    return MethodPlan(call, prompt, signature.returns, reading, settings.parsers.number_style)


def _plan_reading(
    definition: CallDefinition,
    declared: Declaration,
    call: CallPlan | None,
    problems: list[DefinitionProblem],
) -> Interceptor | None:
    """Plan how a method reads its document in parts, or add problems."""
    from ..documents.merging import part_type, rule_problems  # few methods read long documents
    from ..documents.reading import SplitReading

    signature, settings = definition.signature, definition.settings
    parameters, returns = signature.parameters or (), signature.returns
    if returns is None or settings.split is None:
        return None
    names = [parameter.name for parameter in parameters if Document in parameter.parts]
    messages = []
    if len(names) != 1:
        actual = f"it has {len(names)}"
        messages.append(f"split needs one parameter of the type Document, or a list of them; {actual}")
    if returns.is_stream:
        messages.append("split does not work for streams, because the answer is known at the end")
    if declared.examples or definition.offers_tools:
        messages.append(
            "split does not work with examples and tools; remove them, as with @options(tools=[])"
        )
    if call is not None and call.decisions.is_required:
        messages.append("split does not work with Decision, because its probabilities cannot be merged")
    messages += rule_problems(returns.output_type, settings.merge)
    problems += [definition.problem(message) for message in messages]
    if messages:
        return None
    part_returns = returns._replace(output_type=part_type(returns.output_type))
    part = replace(definition, signature=signature._replace(returns=part_returns))
    part_call, _ = plan_call(part, problems)
    return None if part_call is None else SplitReading(settings.split, settings.merge, names[0], part_call)


def _plan_prompt(
    function: Callable[..., object],
    declared: Declaration,
    signature: MethodSignature,
    settings: Settings,
    qualname: str,
    problems: list[DefinitionProblem],
) -> PromptPlan | None:
    """Compile the templates of a method; None if the roles of its parameters are unknown."""
    parameters = signature.parameters
    if parameters is None:
        return None
    user, title = declared.user, "prompt"
    if user is None and not signature.has_role(Role.USER_MESSAGE):
        user, title = settings.user_message, "user message of the service"
    prompt = plan_prompt(
        user, settings.system_message, signature.signature, parameters, qualname, problems, title=title
    )
    if declared.user is None:
        problems += docstring_problems(function.__doc__ or "", parameters, qualname)
    return prompt


def _construction_problems(cls: type, name: str) -> list[DefinitionProblem]:
    """Return the reasons why an interface cannot be instantiated without arguments.

    ``create`` passes no arguments to ``__init__`` and sets no attributes.
    """
    message = "the attribute has no value, and a service cannot set it; give it a value or remove it"
    problems = [
        DefinitionProblem(f"{cls.__name__}.{attribute}", message)
        for attribute in attributes_without_value(cls)
    ]
    if has_own_init(cls):
        # mypy warns that a subclass may change __init__, but this class itself is instantiated
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        required = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
        if required:
            message = f"its __init__ needs {', '.join(required)}, and create calls it without arguments"
            problems.append(DefinitionProblem(name, message))
    return problems


def _needs_implementation(attribute: object, qualname: str, problems: list[DefinitionProblem]) -> bool:
    """Return True if an attribute is a method without a body, which the service must implement.

    Adds a problem for attributes that cannot be implemented.
    """
    if is_stub(attribute):
        return True
    inner = getattr(attribute, "fget", None) or getattr(attribute, "__func__", None)
    message = None
    if declaration_of(attribute) != Declaration():
        message = "it has a prompt and a body; write ... as the body of a method with a prompt"
    elif is_stub(inner):
        message = f"it is a {type(attribute).__name__} without a body; only plain methods can be implemented"
    elif getattr(attribute, "__isabstractmethod__", False):
        message = "it is abstract and has a body; keep one of them"
    if message is not None:
        problems.append(DefinitionProblem(qualname, message))
    return False
