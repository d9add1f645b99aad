"""Guard functions, which check messages, answers and tool calls, and the built-in guards."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import chain
from typing import Any, Literal, Protocol, TypeAlias, get_args

from ..engine.effects import Emit, Flow, Run
from ..engine.plan import Invocation
from ..interface.decorators import user_message
from ..interface.parameters import call_problem, function_name, is_async, is_generator_function
from ..models.arguments import checks_arguments
from ..models.base import ChatModel
from ..models.errors import AiServiceError, BudgetExceededError, DefinitionError, DefinitionProblem
from ..structured_model import SideQuestion
from .text_search import TextPatterns, folded_forms

Stage: TypeAlias = Literal["input", "output", "arguments", "result"]


@dataclass(frozen=True, slots=True)
class Passed:
    """The verdict of a guard function that accepts the checked text or value unchanged."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The verdict of a guard function that replaces the checked text or value.

    Attributes:
        new: The replacement, which the next guards check.
    """

    new: Any

    @property
    def text(self) -> str:
        """The replacement for a text; reading it raises TypeError if it is not a text."""
        if not isinstance(self.new, str):
            raise TypeError(f"it rewrote a text as {type(self.new).__name__}")
        return self.new


@dataclass(frozen=True, slots=True)
class Reprompt:
    """The verdict of a guard function that rejects an answer, so that the model must answer again.

    Attributes:
        reason: Why the answer was rejected, for errors and logs.
        message: A user message that the model gets after its rejected answer. None repeats the request
            unchanged.
    """

    reason: str
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The verdict of a guard function that ends the service call with a GuardrailError.

    Attributes:
        message: Why the text or value was refused.
    """

    message: str


Verdict: TypeAlias = Passed | Rewritten | Reprompt | Refused
_PASSED = Passed()


def passed() -> Verdict:
    """Return the verdict that accepts the checked text or value unchanged."""
    return _PASSED


def rewritten(new: object) -> Verdict:
    """Return the verdict that replaces the checked text or value with ``new``."""
    return Rewritten(new)


def retry(reason: str) -> Verdict:
    """Return the verdict that rejects an answer and repeats the model request.

    ``reason`` is for events and errors; the model does not receive it.
    """
    return Reprompt(reason)


def reprompt(message: str) -> Verdict:
    """Return the verdict that rejects an answer and tells the model why.

    The model gets its answer and ``message``, and answers again.
    """
    return Reprompt(message, message)


def refused(message: str) -> Verdict:
    """Return the verdict that ends the service call with a GuardrailError.

    ``message`` is the reason in the error.
    """
    return Refused(message)


@dataclass(slots=True)
class GuardrailRan:
    """Event for listeners: a guard function checked a user message, an answer or a tool call.

    Attributes:
        name: The name of the guard.
        stage: "input" or "output"; of tools "arguments" or "result".
        verdict: What the guard returned.
        invocation: The call; None in a stream.
        seconds: How long it took.
    """

    name: str
    stage: Stage
    verdict: Verdict
    _: KW_ONLY
    invocation: Invocation | None = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)


class GuardrailError(AiServiceError):
    """Raised when a guard function rejects a user message or an answer, or raises an exception itself.

    The guard refused a user message or an answer, rejected every answer, or raised an exception, which is
    the ``__cause__``.

    Attributes:
        guard: The name of the guard.
        stage: "input" or "output"; of tools "arguments" or "result".
        reason: The message of the guard's verdict, or the text of its exception.
        text: The text that the guard checked; "" if it checked the value. It is not in the message, which may
            be logged.
    """

    def __init__(self, message: str, *, guard: str, stage: Stage, reason: str, text: str = "") -> None:
        super().__init__(message)
        self.guard = guard
        self.stage = stage
        self.reason = reason
        self.text = text


Subject: TypeAlias = Literal["text", "value"]

# Gets the text or the value, and the invocation of the method; returns a verdict, or in async calls an
# awaitable of one. A generator function yields effects, as interceptors do. Any, because the type of the
# value depends on the method.
GuardFunction: TypeAlias = Callable[[Any, Invocation], Verdict | Awaitable[Verdict] | Flow[Verdict]]


@checks_arguments
@dataclass(frozen=True, slots=True)
class Guard:
    """A guard function with its name and what it checks: the text or the typed value.

    Attributes:
        function: Gets the text or the value, and the invocation (of a tool the ToolInvocation); returns a
            verdict.
        name: The name in errors and events. By default the name of the function.
        on: "text" to check text, "value" to check the typed value. Of a value that is not a str, a guard of
            text gets each text in it.
    """

    function: Callable[[Any, Any], Verdict | Awaitable[Verdict] | Flow[Verdict]]
    name: str = ""
    on: Subject = "text"

    def __call__(
        self, subject: object, invocation: object, /
    ) -> Verdict | Awaitable[Verdict] | Flow[Verdict]:
        return self.function(subject, invocation)


def guard_name(guard: GuardFunction) -> str:
    """Return the name of a guard function for error messages and events."""
    if isinstance(guard, Guard):
        return guard.name or guard_name(guard.function)
    return function_name(guard)


def guard_problems(owner: str, guards: Sequence[GuardFunction]) -> list[DefinitionProblem]:
    """Return an error for each mistake in a list of guards, such as an object that is not callable."""
    if not guards:
        message = "no guard was passed; pass functions of (subject, invocation) that return a verdict"
        return [DefinitionProblem(owner, message)]
    problems = []
    for number, guard in enumerate(guards, 1):
        if not callable(guard):
            message = f"guards must be functions of (subject, invocation), but number {number} is {guard!r}"
            problems.append(DefinitionProblem(owner, message))
            continue
        if isinstance(guard, Guard) and guard.on not in get_args(Subject):
            message = f"on is {guard.on!r} for {guard_name(guard)}; it must be one of text, value"
            problems.append(DefinitionProblem(owner, message))
        problem = call_problem(_function_of(guard), "subject", "invocation")
        if problem is not None:
            problems.append(DefinitionProblem(owner, f"guard number {number} {problem}"))
    return problems


def describe_async_guards(guards: Sequence[GuardFunction]) -> tuple[str, ...]:
    """Return text about the async guards of a blocking method, for an error message."""
    return tuple(f"the guard {guard_name(guard)}" for guard in guards if is_async(_function_of(guard)))


def run_guard(guard: GuardFunction, subject: object, stage: Stage, invocation: Invocation) -> Flow[Verdict]:
    """Call a guard function and return its verdict, or raise GuardrailError if the guard refuses.

    Also raises GuardrailError if the guard raises, or returns something other than a verdict. A
    BudgetExceededError is raised unchanged.
    """
    verdict = yield from guard_verdict(guard, subject, stage, invocation, invocation)
    if isinstance(verdict, Refused):
        name = guard_name(guard)
        message = f"{invocation.plan.qualname}: the {stage} guard {name} refused: {verdict.message}"
        text = subject if isinstance(subject, str) else ""
        raise GuardrailError(message, guard=name, stage=stage, reason=verdict.message, text=text)
    return verdict


def guard_verdict(
    guard: Any, subject: object, stage: Stage, invocation: Invocation, context: object
) -> Flow[Verdict]:
    """Call a guard function, report its verdict to event listeners, and return the verdict.

    ``context`` is the second argument of the guard. Raises GuardrailError if the guard raises, or returns
    something other than a verdict. A BudgetExceededError is raised unchanged.
    """
    name, started_at = guard_name(guard), time.monotonic()
    try:
        if is_generator_function(_function_of(guard)):
            verdict = yield from guard(subject, context)
        else:
            verdict = yield _call_effect(guard, name, subject, context)
        if not isinstance(verdict, Verdict):
            expected = "it must return passed(), rewritten(…), retry(…), reprompt(…) or refused(…)"
            raise TypeError(f"{expected}, but it returned {verdict!r}")
    except BudgetExceededError:
        raise
    except Exception as error:
        raise guard_failure(name, stage, invocation, error, subject) from error
    seconds = time.monotonic() - started_at
    yield Emit(GuardrailRan(name, stage, verdict, seconds=seconds), streamed=False)
    return verdict


def guard_failure(
    name: str, stage: Stage, invocation: Invocation, error: Exception, subject: object = ""
) -> GuardrailError:
    """Return the GuardrailError to raise for an exception from a guard function."""
    reason = f"{type(error).__name__}: {error}"
    message = f"{invocation.plan.qualname}: the {stage} guard {name} failed: {reason}"
    text = subject if isinstance(subject, str) else ""
    return GuardrailError(message, guard=name, stage=stage, reason=reason, text=text)


def _call_effect(guard: Any, name: str, subject: object, context: object) -> Run:
    def call_guard() -> object:
        return guard(subject, context)

    call_guard.__qualname__ = name  # errors of the drivers name the function by it
    return Run(call_guard, in_thread=not is_async(_function_of(guard)))


def _function_of(guard: GuardFunction) -> GuardFunction:
    return _function_of(guard.function) if isinstance(guard, Guard) else guard


# Makes the verdict of a guard that found a problem from a message: refused, reprompt or retry.
VerdictFactory = Callable[[str], Verdict]


@checks_arguments
def ensure(predicate: Callable[[Any], bool], message: str, *, otherwise: VerdictFactory = reprompt) -> Guard:
    """Return a guard function that rejects an answer if ``predicate`` is false for the typed value.

    Args:
        predicate: A function of the typed value. It must not be async.
        message: The message to the model if the predicate is false.
        otherwise: Makes the verdict if the predicate is false: ``reprompt``, ``retry`` or ``refused``.
    """
    if inspect.iscoroutinefunction(predicate):
        problem = 'the predicate is async; write an async guard instead, with on="value"'
        raise DefinitionError([DefinitionProblem("ensure", problem)])

    def guard(value: object, invocation: Invocation) -> Verdict:
        return passed() if predicate(value) else otherwise(message)

    return Guard(guard, "ensure", "value")


@checks_arguments
def max_length(max_characters: int, *, on: Subject = "text", otherwise: VerdictFactory = refused) -> Guard:
    """Return a guard function that rejects text with more than ``max_characters`` characters.

    In a value that is not a str, each text is measured. ``otherwise`` makes the verdict for text that
    is too long: ``refused``, ``retry`` or ``reprompt``. ``on`` changes nothing.
    """
    if max_characters < 1:
        problem = f"max_characters is {max_characters}; it must be at least 1"
        raise DefinitionError([DefinitionProblem("max_length", problem)])

    def guard(text: str, invocation: Invocation) -> Verdict:
        if len(text) <= max_characters:
            return passed()
        return otherwise(f"the text has {len(text)} characters; at most {max_characters} are allowed")

    return Guard(guard, "max_length")


@checks_arguments
def forbidden(
    *words: str | re.Pattern[str], on: Subject = "text", otherwise: VerdictFactory = refused
) -> Guard:
    """Return a guard function that rejects text containing forbidden words or patterns.

    Words match as whole words, in scripts without spaces anywhere. Upper case, compatibility forms of
    characters (NFKC), invisible characters and the escapes of JSON do not hide a word. ``otherwise`` makes
    the verdict for forbidden text: ``refused``, ``retry`` or ``reprompt``. ``on`` changes nothing.
    """
    patterns = TextPatterns("forbidden", words)

    def guard(text: str, invocation: Invocation) -> Verdict:
        match = patterns.find(text)
        return passed() if match is None else otherwise(f"the text contains {match}, which is forbidden")

    return Guard(guard, "forbidden")


@checks_arguments
def masked(*words: str | re.Pattern[str], by: str = "***") -> Guard:
    """Return a guard function that masks words and patterns in text, for example with ``***``.

    It finds words as ``forbidden`` does. ``by`` is the replacement.
    """
    patterns = TextPatterns("masked", words)

    def guard(text: str, invocation: Invocation) -> Verdict:
        new = patterns.mask(text, by)
        return passed() if new == text else rewritten(new)

    return Guard(guard, "masked")


@checks_arguments
def no_injection(*phrases: str, otherwise: VerdictFactory = refused) -> Guard:
    """Return a guard function that rejects text with typical prompt injection phrases.

    The guard is a heuristic. It knows some English phrases, such as "ignore all previous instructions", and
    the given ones, and finds them as ``forbidden`` finds words. It misses other wordings and also
    rejects text that only quotes such a phrase. Use it as one defense among others. ``otherwise`` makes the
    verdict, ``refused`` by default.
    """
    own_phrases = TextPatterns("no_injection", phrases) if phrases else None

    def guard(text: str, invocation: Invocation) -> Verdict:
        texts = [form.text for form in folded_forms(text)]
        is_injection = any(pattern.search(one) for one in texts for pattern in _INJECTIONS)
        if is_injection or (own_phrases is not None and own_phrases.find(text) is not None):
            return otherwise("the text seems to override the instructions of the model")
        return passed()

    return Guard(guard, "no_injection")


_INSTRUCTIONS = "(?:instructions?|prompts?|rules|messages?|directions|guidelines|directives|context)"
_EARLIER = "(?:previous|prior|above|earlier|preceding|foregoing|former|system|initial|original)"
_INJECTIONS = [
    re.compile(phrase)
    for phrase in (
        "\\b(?:ignore|disregard|forget|override|bypass|skip|neglect) (?:all |any )?(?:of )?"
        f"(?:the |your |my |these |those )?{_EARLIER} {_INSTRUCTIONS}\\b",
        f"\\b(?:ignore|disregard|forget) (?:all (?:of )?)?your {_INSTRUCTIONS}\\b",
        "\\b(?:ignore|disregard|forget) (?:everything|anything|all|what) "
        "(?:above|before|you were told|you have been told)\\b",
        "\\b(?:reveal|show|print|repeat|output|tell me|give me) (?:me )?(?:all of )?"
        f"(?:your|the) (?:system|initial|hidden|original|secret) {_INSTRUCTIONS}",
        "\\byou are (?:now |no longer )(?:dan\\b|in developer mode|jailbroken|unrestricted|bound by)",
        "\\bnew (?:system )?instructions ?:",
        "<\\|(?:im_start|im_end|system|endoftext)\\|>",
    )
]


# --- Guards for answers with sources ---

_IN_BRACKETS = re.compile(r"(?<![\w`])\[([^\[\]`]+)\](?!\()")
_IN_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_IDS = re.compile(r"[^\s,;]+")
_LIKE_AN_ID = re.compile(r"(?=.*[^\W\d]).*[-_:#./]\d+")


def _cited_ids(text: str, ids: Collection[str]) -> list[str]:
    """Return the ids in brackets in a text: known ones, and words with a number at their end."""
    cited = []
    for inside in _IN_BRACKETS.findall(_IN_CODE.sub(" ", text)):
        words = [inside.strip(), *(word.rstrip(":.") for word in _IDS.findall(inside))]
        cited += [word for word in words if word in ids or (" " not in word and _LIKE_AN_ID.fullmatch(word))]
    return list(dict.fromkeys(cited))


@checks_arguments
def known_citations(*, required: bool = False, otherwise: VerdictFactory = reprompt) -> Guard:
    """Return a guard function that rejects answers which cite unknown sources, such as ``[rule-9]``.

    Known are the ids of ``Invocation.sources`` and of what search tools found. A citation is an id in
    brackets, or several. Unknown ids are recognized by a number at their end, as in ``guide-7``; links of
    Markdown and code are not citations. Place the OutputGuardrails after the RetrievalAugmentor.

    Args:
        required: Also reject a text without a citation.
        otherwise: Makes the verdict: ``reprompt``, ``retry`` or ``refused``.
    """

    def guard(text: str, invocation: Invocation) -> Verdict:
        excerpts = (getattr(run.result, "contents", ()) for run in invocation.state.tool_runs)
        contents = chain(invocation.sources, *excerpts)
        sources = {content.id for content in contents if getattr(content, "id", "")}
        cited = _cited_ids(text, sources)
        unknown = [id for id in cited if id not in sources]
        ids = ", ".join(sorted(sources)) or "none"
        if unknown:
            return otherwise(f"Your answer cites [{unknown[0]}], which is not a source. Sources: {ids}")
        if required and not cited:
            return otherwise(f"Cite the source of each statement by its id in brackets. Sources: {ids}")
        return passed()

    return Guard(guard, "known_citations")


_UNSUPPORTED = (
    "The sources do not support your answer. State only what they say, and say so if they do not answer the "
    "question."
)


class _Judge(Protocol):
    @user_message(
        "Do the sources support the answer? They support it if each statement of the answer is in them or "
        "follows from them. An answer without such a statement is supported, too, for example a greeting, a "
        "question, or an answer that says that the information is missing.\n\n"
        "Sources:\n{{sources}}\n\nAnswer:\n{{answer}}"
    )
    def supports(self, sources: str, answer: str) -> bool: ...


@checks_arguments
def grounded(
    model: ChatModel | str | None = None,
    *,
    otherwise: VerdictFactory = reprompt,
    without_sources: Literal["refuse", "pass"] = "refuse",
) -> Guard:
    """Return a guard function that rejects answers which the retrieved sources do not support.

    It asks a model whether all statements of the answer are in ``Invocation.sources``. The requests are
    attempts of the call, as side questions: they count against its time, tokens and money. Place the
    OutputGuardrails after the RetrievalAugmentor. If the judging model fails, the call raises a
    GuardrailError.

    Args:
        model: The model that judges, also a decision endpoint. By default the model of the environment.
        otherwise: Makes the verdict for an unsupported answer: ``reprompt``, ``retry`` or ``refused``.
        without_sources: What happens to the answer of a call without sources: "refuse" raises a
            GuardrailError, "pass" accepts it. No request is sent.
    """
    if without_sources not in ("refuse", "pass"):
        message = f"without_sources is {without_sources!r}; it must be one of refuse, pass"
        raise DefinitionError([DefinitionProblem("grounded", message)])
    judge = SideQuestion(_Judge, "supports", model)

    def guard(answer: object, invocation: Invocation) -> Flow[Verdict]:
        if not invocation.sources:
            if without_sources == "pass":
                return passed()
            return refused("no sources were retrieved, so nothing supports the answer")
        texts = [f"[{number}] {source.text}" for number, source in enumerate(invocation.sources, 1)]
        arguments = {"sources": "\n\n".join(texts), "answer": answer}
        is_supported: bool = yield from judge.ask(invocation, arguments)
        return passed() if is_supported else otherwise(_UNSUPPORTED)

    return Guard(guard, "grounded", "value")
