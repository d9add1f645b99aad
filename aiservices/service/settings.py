"""The keyword arguments of ``create``, the checks of their names and types, and the decorator ``options``.

``options`` sets these settings for one service method or for an interface.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from typing_extensions import Format, get_annotations

from ..interface.decorators import TemplateSource, declare
from ..models.arguments import checks_keywords
from ..models.requests import ChatOptions

if TYPE_CHECKING:
    from pathlib import Path

    from output_parsers.parser.type_parser import ParserFactory
    from output_parsers.prose.numbers import NumberStyle
    from output_parsers.result.reading import Leniency
    from output_parsers.types.evidence import Check, Cite

    from ..decisions.calibration import Calibration
    from ..documents.merging import By, Rule
    from ..documents.splitting import Split
    from ..engine.budget import Budget, Listener
    from ..engine.interceptor import Interceptor
    from ..engine.plan import Invocation, RequestHook
    from ..engine.response_cache import ResponseCache
    from ..engine.retry import Retry
    from ..engine.tool_execution import ToolCheck, ToolInterceptor
    from ..models.base import ChatModel
    from ..models.errors import DefinitionProblem, Strategy
    from ..models.limits import Limits
    from ..models.media_policy import MediaPolicy
    from ..models.requests import ChatOptions, ChatRequest, ReasoningEffort
    from ..tools.tool import ToolErrors, ToolSource
    from ..tools.toolbox import ToolLimits


class ServiceSettings(TypedDict, total=False):
    """The keyword arguments of ``create``, which implements an interface with a language model.

    Attributes:
        options: Options of the requests, such as the temperature. Methods may override them with
            ``@options``.
        strategy: How structured output is requested; by default the most reliable strategy that the model
            supports.
        leniency: How far answers may deviate from the requested format; by default ``Leniency.SAFE``. Methods
            may override it with ``@options``.
        number_style: Whether numbers in text have a decimal point or a decimal comma. A NumberStyle in the
            Annotated of a type has priority.
        system_message: A template, or a function of arguments of the call, which may be async, may also take
            the Invocation, and returns None for no system message. Methods with a system message of
            their own do not use it.
        user_message: A template for methods that have neither a prompt nor a parameter that is the user
            message. ``{{it}}`` is the only argument.
        parsers: Factories that make parsers for types before the built-in ones.
        tools: Functions, objects with ``@tool`` methods, or tool providers, which the model may call.
        tool_limits: The limits of tool use in one call.
        tool_errors: Functions that choose the text for the model when a tool call fails.
        tool_interceptors: Run around each tool call of the model, the first one outermost: functions of a
            ToolInvocation and ``proceed``, or ToolGuardrails.
        interceptors: Run around each call, the first one outermost.
        listeners: Functions that receive each event of a call.
        transform: A function that changes each request just before it is sent. It gets the request and, if
            it takes a second argument, the Invocation.
        budget: The limits of each call; by default 3 attempts.
        limits: The limits of requests to the models: per minute, by tokens and at the same time. All services
            with the same address and key share them.
        media: Which images, sounds and files callers may pass, in arguments and histories; None for all.
        cache: Answers repeated requests with stored replies.
        retry: Asks the model again when an answer cannot be read; None raises the error at once.
        calibration: Corrections of probabilities that ``calibrate`` of ``aiservices.testing`` has fitted: the
            path of their file, or a Calibration.
        thresholds: Minimum probabilities by method or field, such as ``{"triage.urgent": 0.8}``: above it a
            bool is True, or ``at()`` of a Decision returns the value.
        votes: The number of samples for a Decision if the model gives no probabilities; the shares
            of the answers are their probabilities.
        check: What is verified of Cited values: "value" (the default) for the quote and the value in it,
            "quote" for the quote alone, or "off". What is not found is a problem of the answer.
        cite: What the model writes for the quote of a Cited value: "quotes" (the default) for its words, or
            "lines" for line numbers, which then precede the sentences in the documents.
        localns: Names for string annotations that are not found in the module of the interface.
    """

    options: ChatOptions | None
    strategy: Strategy | str | None
    leniency: Leniency | None
    number_style: NumberStyle | None
    system_message: str | Callable[..., str | Awaitable[str | None] | None] | None
    user_message: str | None
    parsers: Sequence[ParserFactory]
    tools: Sequence[ToolSource]
    tool_limits: ToolLimits
    tool_errors: ToolErrors
    tool_interceptors: Sequence[ToolInterceptor | ToolCheck]
    interceptors: Sequence[Interceptor]
    listeners: Sequence[Listener]
    transform: RequestHook | Callable[[ChatRequest, Invocation], ChatRequest] | None
    budget: Budget | None
    limits: Limits | None
    media: MediaPolicy | None
    cache: ResponseCache | None
    retry: Retry | None
    calibration: str | Path | Calibration | None
    thresholds: Mapping[str, float] | None
    votes: int | None
    check: Check | None
    cite: Cite | None
    localns: Mapping[str, object] | None


_OPTIONS = (
    "temperature top_p max_tokens stop seed reasoning_effort timeout extra_body extra_headers service_tier "
    "cache server_tools tool_choice probabilities raw_events unknown_finish"
)
_MODEL = "pass a model object as the second argument, such as OpenAiChatModel(NAME, {name}=…)"
_NAMED_MODEL = 'pass the model as the second argument, as in create(Interface, "openai:NAME")'
# What to write instead of keyword arguments that other libraries have.
_EQUIVALENTS: dict[str, str] = {
    **{name: f"options=ChatOptions({name}=…)" for name in _OPTIONS.split()},
    **dict.fromkeys(("model_settings", "model_kwargs", "model_parameters"), "options=ChatOptions(…)"),
    **dict.fromkeys(("max_retries", "retries", "max_attempts", "attempts"), "budget=Budget(max_attempts=…)"),
    **dict.fromkeys(("usage_limits", "max_cost", "max_seconds"), "budget=Budget(…)"),
    **dict.fromkeys(("memory", "chat_memory", "memory_id", "checkpointer"), "interceptors=[ChatMemory()]"),
    **dict.fromkeys(("system_prompt", "system", "sys_prompt", "instructions", "persona"), "system_message=…"),
    **{
        name: _MODEL.format(name=name)
        for name in ("base_url", "api_key", "client", "async_client", "http", "capabilities", "organization")
    },
    **dict.fromkeys(("model_name", "llm", "chat_model", "deployment"), _NAMED_MODEL),
    **dict.fromkeys(
        ("guardrails", "guards", "validators", "output_guardrails"), "interceptors=[OutputGuardrails(…)]"
    ),
    "input_guardrails": "interceptors=[InputGuardrails(…)]",
    **dict.fromkeys(
        ("tool_guardrails", "tool_input_guardrails", "tool_output_guardrails"),
        "tool_interceptors=[ToolGuardrails(…)]",
    ),
    **dict.fromkeys(("moderation", "moderation_model", "moderator"), "interceptors=[Moderation(…)]"),
    **dict.fromkeys(
        ("retriever", "retrievers", "content_retriever", "retrieval_augmentor", "retrieval"),
        "interceptors=[RetrievalAugmentor(…)]",
    ),
    **dict.fromkeys(("callbacks", "callback", "hooks", "on_event"), "listeners=[…]"),
    "middleware": "interceptors=[…]",
    **dict.fromkeys(
        ("prompt", "user_prompt", "template"),
        'the decorator @user_message("…") on the method, or user_message=… for all methods',
    ),
    **dict.fromkeys(
        ("response_model", "output_type", "result_type", "response_format", "schema", "return_type"),
        "the return annotation of the method",
    ),
    **dict.fromkeys(("stream", "streaming"), "a method that returns Stream[T]"),
    **dict.fromkeys(
        ("history", "messages", "message_history", "chat_history"),
        "a parameter of the method with the type Annotated[list[Message], History]",
    ),
    **dict.fromkeys(
        ("max_iterations", "max_rounds", "max_iters", "max_steps", "max_turns"),
        "tool_limits=ToolLimits(max_rounds=…)",
    ),
    **dict.fromkeys(("verbose", "debug"), "listeners=[log_calls], from aiservices.call_log"),
    "mode": "strategy=…",
    "method": "strategy=…",
    "name": "the name of the interface class",
}
F = TypeVar("F", bound=Callable[..., Any])
_SEQUENCES = ("tools", "tool_interceptors", "interceptors", "listeners", "parsers")


def shows_settings(settings: Any) -> Callable[[F], F]:
    """Decorator of a function with ``**settings``: ``help`` and editors show each setting with its default.

    ``settings`` is the TypedDict whose docstring describes them.
    """

    def decorate(function: F) -> F:
        described = inspect.cleandoc(settings.__doc__ or "").partition("Attributes:\n")[2]
        indented = "\n".join(f"    {line}" if line else line for line in described.splitlines())
        docs = function.__doc__ or ""
        reference = f"        **settings: See ``{settings.__name__}``.\n"
        if reference in docs:
            docs = docs.replace(reference, f"{indented}\n")
        else:
            docs = f"{docs.rstrip()}\n\n    Keyword Args:\n{indented}\n    "
        function.__doc__ = docs
        signature = inspect.signature(function)
        settings_parameters = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=_default(name, hint), annotation=hint
            )
            for name, hint in _hints_of(settings).items()
        ]
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*own, *settings_parameters])  # type: ignore[attr-defined]
        return function

    return decorate


def _hints_of(settings: object) -> dict[str, str]:
    hints = get_annotations(settings, format=Format.FORWARDREF)
    return {name: getattr(hint, "__forward_arg__", None) or str(hint) for name, hint in hints.items()}


class _DisplayedDefault(str):
    """A default that is only displayed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


# The defaults of settings that None would turn off.
_DEFAULTS: dict[str, object] = {
    "retry": _DisplayedDefault("Retry()"),
    "tool_limits": _DisplayedDefault("ToolLimits()"),
    "tool_errors": _DisplayedDefault("ToolErrors()"),
    "columns": _DisplayedDefault("{}"),
    "dedupe": True,
    "row_timeout": 600.0,
    "max_failures": 0.5,
    "nulls": "error",
    "progress": False,
}


def _default(name: str, hint: str) -> object:
    """Return what a signature shows as the default of a setting."""
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    if hint == "bool":
        return False
    if hint == "ChatOptions":
        return _DisplayedDefault("ChatOptions()")
    return () if hint.startswith("Sequence") and "None" not in hint else None


def check_keywords(function: str, settings: Mapping[str, object], accepted: Collection[str]) -> None:
    """Raise TypeError for an unknown keyword argument, and suggest what to write instead."""
    for name in settings:
        if name not in accepted:
            message = f"{function}() got an unexpected keyword argument {name!r}"
            similar = get_close_matches(name, accepted, 1, 0.8)
            if similar:
                raise TypeError(f"{message}; did you mean {similar[0]!r}?")
            equivalent = _EQUIVALENTS.get(name)
            setting = re.match(r"(\w+)=", equivalent or "")
            # some settings of create are not settings of other functions
            if equivalent is not None and (setting is None or setting[1] in accepted):
                verb = "" if equivalent.startswith("pass ") else "use "
                raise TypeError(f"{message}; instead, {verb}{equivalent}")
            raise TypeError(f"{message}; it takes: {', '.join(accepted)}")


def check_types(name: str, settings: Mapping[str, object]) -> None:
    """Raise DefinitionError if an argument of ``create`` has a wrong type, such as a wrong signature.

    ``name`` is the name of the service.
    """
    from ..models.errors import DefinitionError

    problems = type_problems(name, settings)
    if problems:
        raise DefinitionError(problems)


def type_problems(name: str, settings: Mapping[str, object]) -> list[DefinitionProblem]:
    """Return an error for each setting of a service or method that has the wrong type."""
    from ..models.errors import DefinitionProblem

    messages = [message for setting in settings.items() for message in _problems(*setting)]
    return [DefinitionProblem(name, message) for message in messages]


def _problems(setting: str, value: object) -> Iterator[str]:
    if value is None and setting not in ("tool_limits", "tool_errors", *_SEQUENCES):
        return
    kind, expected = type(value).__name__, _class_of(setting)
    if expected is not None and not isinstance(value, expected):
        yield f"{setting} has the type {kind}; pass {_with_article(expected.__name__)}"
    elif setting in _SEQUENCES:
        if isinstance(value, str) or not isinstance(value, Iterable):
            yield f"{setting} has the type {kind}; put it into a list"
        elif isinstance(value, Sequence):
            yield from _item_problems(setting, value)
    elif setting == "tool_errors":
        yield from _tool_errors_problems(cast("ToolErrors", value))
    else:
        yield from _other_problems(setting, value)


_VALUES_ALLOWED: dict[str, tuple[Callable[[object], bool], str]] = {
    "votes": (lambda value: isinstance(value, int) and 2 <= value <= 100, "a number from 2 to 100"),
    "check": (lambda value: value in ("value", "quote", "off"), '"value", "quote" or "off"'),
    "cite": (lambda value: value in ("quotes", "lines"), '"quotes" or "lines"'),
}


def _other_problems(setting: str, value: object) -> Iterator[str]:
    from ..decisions.calibration import Calibration
    from ..interface.parameters import call_problem

    kind = type(value).__name__
    if setting == "transform":
        problem = call_problem(value, "request", may_take_invocation=True)
        if problem is not None:
            yield f"transform {problem}"
    elif setting == "system_message" and not (isinstance(value, (str, TemplateSource)) or callable(value)):
        yield f"{setting} has the type {kind}; pass a template or a function"
    elif setting == "user_message" and not isinstance(value, (str, TemplateSource)):
        yield f"user_message has the type {kind}; pass a template"
    elif setting == "calibration" and not isinstance(value, (str, PathLike, Calibration)):
        yield f"calibration has the type {kind}; pass the path of a file, or a Calibration"
    elif setting in _VALUES_ALLOWED:
        accepts, expected = _VALUES_ALLOWED[setting]
        if not accepts(value):
            yield f"{setting} is {value!r}; it must be {expected}"


def _tool_errors_problems(errors: ToolErrors) -> Iterator[str]:
    from ..interface.parameters import call_problem

    for field, function in errors.formatters.items():
        problem = call_problem(function, "run", may_take_invocation=True)
        if problem is not None:
            yield f"{field} of ToolErrors {problem}"


def _class_of(setting: str) -> type | None:
    """Return the class of a setting; None if it may have several types."""
    from output_parsers.prose.numbers import NumberStyle

    from ..engine.budget import Budget
    from ..engine.retry import Retry
    from ..tools.tool import ToolErrors
    from ..tools.toolbox import ToolLimits

    classes: dict[str, type] = {
        "options": ChatOptions,
        "tool_limits": ToolLimits,
        "tool_errors": ToolErrors,
        "budget": Budget,
        "retry": Retry,
        "localns": Mapping,
        "thresholds": Mapping,
        "number_style": NumberStyle,
    }
    return classes.get(setting) or _rare_class(setting)


def _rare_class(setting: str) -> type | None:
    """Return the class of a setting that few services have, and whose module is imported only for them."""
    if setting == "limits":
        from ..models.limits import Limits

        return Limits
    if setting == "media":
        from ..models.media_policy import MediaPolicy

        return MediaPolicy
    if setting == "cache":
        from ..engine.response_cache import ResponseCache

        return ResponseCache
    if setting == "split":
        from ..documents.splitting import Split

        return Split
    return None


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"


_PARAMETERS = {"interceptors": ("invocation", "proceed"), "listeners": ("event",)}


def _item_problems(setting: str, items: Sequence[object]) -> Iterator[str]:
    from ..interface.parameters import call_problem

    for item in items:
        if setting == "tool_interceptors":
            from ..tools.tool import interceptor_problem

            problem = interceptor_problem(item)
            if problem is not None:
                yield f"an item of tool_interceptors {problem}"
        if setting == "interceptors" and isinstance(item, type):
            yield f"an item of interceptors is the class {item.__name__}; pass {item.__name__}(…)"
        elif setting in _PARAMETERS:
            problem = call_problem(item, *_PARAMETERS[setting])
            if problem is not None:
                yield f"an item of {setting} {problem}"
        elif setting == "parsers" and not callable(item):
            yield (
                f"an item of parsers has the type {type(item).__name__}; pass functions of (target, registry)"
                ", or write Annotated[T, parser] as the return type"
            )


# --- The decorator options ---


Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@checks_keywords
def options(
    *,
    model: ChatModel | str | None = None,
    strategy: Strategy | str | None = None,
    leniency: Leniency | None = None,
    tools: Sequence[ToolSource] | None = None,
    interceptors: Sequence[Interceptor] | None = None,
    budget: Budget | None = None,
    retry: Retry | EllipsisType | None = ...,
    tool_limits: ToolLimits | None = None,
    tool_errors: ToolErrors | None = None,
    tool_interceptors: Sequence[ToolInterceptor | ToolCheck] | None = None,
    check: Check | None = None,
    cite: Cite | None = None,
    split: Split | None = None,
    merge: Mapping[str, Rule | By] | Rule | By | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: str | tuple[str, ...] | list[str] | None = None,
    seed: int | None = None,
    reasoning_effort: ReasoningEffort | None = None,
    cache: Literal["5m", "1h"] | None = None,
    server_tools: Sequence[Mapping[str, object]] | None = None,
    service_tier: str | None = None,
    tool_choice: str | None = None,
    probabilities: bool | None = None,
    raw_events: bool | None = None,
    unknown_finish: Literal["note", "raise"] | None = None,
    timeout: float | None = None,
    extra_body: Mapping[str, object] | None = None,
    extra_headers: Mapping[str, str] | None = None,
) -> Callable[[Decorated], Decorated]:
    """Decorator that sets request options, such as the temperature, for a service method or interface.

    Several ``@options`` of one method are merged; the upper one wins for the same option. An option of a
    method takes precedence over the same option of the interface, and that one over the argument of
    ``create``.

    Interceptors are merged: one of the method takes the place of those of the interface and of ``create``
    with the same ``position_name``, such as "input guard", and is added otherwise. Added ones get their place
    in the usual order, from the outside: input guards, moderation, memory, retrieval, checks of the answer.
    Those without a ``position_name`` are inside all others, in their order. ``create`` checks the order.

    Args:
        model: The model to ask: a ChatModel or a string such as ``"openai:NAME"``.
        strategy: How structured output is requested.
        leniency: How far answers may deviate from the requested format; by default ``Leniency.SAFE``.
        tools: The tools that the model may call, instead of those of the service.
        interceptors: Interceptors for the calls of the method, such as guardrails, moderation and memory.
        budget: The limits of each call, instead of those of the service.
        retry: Asks the model again when an answer cannot be read; None raises the error at once.
        tool_limits: The limits of tool use in one call, instead of those of the service.
        tool_errors: Functions that choose the text for the model when a tool call fails.
        tool_interceptors: Run around each tool call of the model, inside of those of the service.
        check: What is verified of Cited values: "value" for the quote and the value in it, "quote", or "off".
        split: How a document that is too long for one request is read in parts.
        merge: How the answers about parts are merged: a rule for each field, or one rule for a list or a
            value. See ``aiservices.documents``.
        cite: What the model writes for the quote of a Cited value: its words ("quotes"), or line numbers
            ("lines").
        temperature: The randomness of the answer, from 0 to 2.
        top_p: The probability mass from which tokens are sampled, from 0 to 1.
        max_tokens: The largest number of tokens that the model may generate.
        stop: One or more strings at which the model stops generating.
        seed: The seed of the sampling, for providers that support it.
        reasoning_effort: How much a reasoning model reasons before it answers.
        cache: How long the provider should keep the beginning of the request in its prompt cache.
        server_tools: Tools that the provider runs, such as a web search, as the provider documents them.
        service_tier: The tier of the provider that handles the request.
        tool_choice: Whether the model must call a tool in the first round: "auto", "required", "none", or the
            name of the tool.
        probabilities: True to request the probabilities of the answers, for ``Result.probabilities``.
        raw_events: True to get the events of streams as the provider sent them, in ``ReplyDelta.raw``.
        unknown_finish: "raise" for an error if a reply of text ends for an unknown reason; by default a note
            in ``Result.reasons`` says so.
        timeout: Seconds for each request.
        extra_body: Further fields for the body of the HTTP request, as the provider documents them.
        extra_headers: Further HTTP headers.
    """
    chat_options = ChatOptions(
        temperature=temperature,
        top_p=top_p,
        max_tokens=max_tokens,
        stop=(stop,) if isinstance(stop, str) else None if stop is None else tuple(stop),
        seed=seed,
        reasoning_effort=reasoning_effort,
        cache=cache,
        server_tools=None if server_tools is None else tuple(server_tools),
        service_tier=service_tier,
        tool_choice=tool_choice,
        probabilities=probabilities,
        raw_events=raw_events,
        unknown_finish=unknown_finish,
        timeout=timeout,
        extra_body=extra_body,
        extra_headers=extra_headers,
    )
    tool_sources = None if tools is None else tuple(tools)
    settings = {
        "interceptors": interceptors,
        "budget": budget,
        "tool_limits": tool_limits,
        "tool_errors": tool_errors,
        "tool_interceptors": tool_interceptors,
        "check": check,
        "cite": cite,
        "split": split,
        "merge": merge if merge is None or isinstance(merge, Mapping) else {"": merge},
    }
    call_settings: dict[str, object] = {name: one for name, one in settings.items() if one is not None}
    if retry is not ...:
        call_settings["retry"] = retry
    return declare(
        options=chat_options,
        model=model,
        strategy=strategy,
        leniency=leniency,
        tools=tool_sources,
        call_settings=call_settings or None,
    )
