"""Get typed answers from a model without an interface, like LangChain's ``with_structured_output``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

from typing_extensions import TypeForm

from output_parsers.prose.numbers import NumberStyle
from output_parsers.result.reading import Leniency
from output_parsers.types.evidence import Check, Cite
from output_parsers.types.node import OutputParser

from .engine.approval import Approvals, SuspendedCall, resumed_invocation
from .engine.budget import Budget
from .engine.drivers import arun, run
from .engine.effects import Effect, Emit, Flow
from .engine.flows import map_effects, without_streaming
from .engine.interceptor import Interceptor, attributes_of
from .engine.model_route import ModelRoute
from .engine.output_format import FewShotExample
from .engine.pipeline import Pipeline
from .engine.plan import CallPlan, CallState, Invocation
from .engine.results import Answer
from .engine.retry import Retry
from .engine.streams import AsyncStream, Stream
from .engine.tool_execution import ToolCheck, ToolInterceptor
from .guesses import explains_guesses
from .models.arguments import checks_arguments
from .models.base import ChatModel
from .models.errors import (
    Attempt,
    AttemptPurpose,
    DefinitionError,
    DefinitionProblem,
    FinishError,
    ServiceOutputError,
    Strategy,
)
from .models.media_policy import MediaPolicy
from .models.messages import ChatReply
from .models.requests import ChatOptions, ChatRequest, MessageInput, to_messages
from .service.call_settings import CallSettings
from .service.compile import MethodPlan
from .service.create import create
from .service.methods import CallPath, async_parts_of, plan_of, start_stream
from .service.planner import CallDefinition, Settings, find_chat_model, find_strategy, plan_call
from .service.prompt_binding import example_value
from .service.settings import check_keywords, check_types, shows_settings
from .service.signatures import ReturnShape, call_signature
from .tools.tool import ToolSource
from .tools.toolbox import ToolLimits, tool_choice_problems

if TYPE_CHECKING:
    from .journal import StoredCall
    from .service.recovery import Recoverable

__all__ = ["Structured", "StructuredModel", "structured"]


T = TypeVar("T")
V = TypeVar("V")
StrategyName: TypeAlias = Strategy | Literal["json_schema", "function_calling", "json_mode"] | str
_NAME = "structured"  # in messages
_NO_OPTIONS = ChatOptions()
_NO_DECISIONS: Mapping[str, bool] = MappingProxyType({})
_LANGCHAIN_KEYS = {"raw": "reply", "parsed": "value", "parsing_error": "error"}
_LANGCHAIN_NAMES = {"function_calling": Strategy.OUTPUT_TOOL}


@explains_guesses(raw="reply", parsed="value", output="value", parsing_error="error")
@dataclass(frozen=True, slots=True)
class Structured(Mapping[str, Any], Generic[T]):
    """A typed answer with the model's original reply, or with the error if parsing failed.

    It is also a mapping with the keys that LangChain has: ``raw``, ``parsed`` and ``parsing_error``.

    Attributes:
        reply: The reply of the model.
        value: The typed value; None if the reply could not be read.
        error: Why the reply could not be read, with all attempts; None if it could.
    """

    reply: ChatReply
    value: T | None
    error: ServiceOutputError | FinishError | None

    def __getitem__(self, key: str) -> Any:
        """Return a part of the result by its name in LangChain: ``raw``, ``parsed`` or ``parsing_error``."""
        return getattr(self, _LANGCHAIN_KEYS[key])

    def __iter__(self) -> Iterator[str]:
        return iter(_LANGCHAIN_KEYS)

    def __len__(self) -> int:
        return len(_LANGCHAIN_KEYS)


@explains_guesses(
    **dict.fromkeys(("run_sync", "run", "predict", "create", "complete", "extract", "chat"), "invoke(text)"),
    **dict.fromkeys(("arun", "acreate", "acomplete"), "await ainvoke(text)"),
    batch="map_rows, or ainvoke with asyncio.gather",
)
class StructuredModel(Generic[T, V]):
    """A language model that answers with values of one type, such as a pydantic model.

    The methods raise the same errors as the methods of a service, and DefinitionError for invalid messages or
    options.
    """

    def __init__(
        self,
        definition: CallDefinition,
        plan: CallPlan,
        path: CallPath,
        examples: tuple[FewShotExample, ...],
        *,
        include_raw: bool,
    ) -> None:
        self._definition = definition
        self._plan = plan
        self._pipeline, self._budget = path
        self._examples = examples
        self._include_raw = include_raw

    def invoke(
        self, messages: MessageInput, *, options: ChatOptions = _NO_OPTIONS, call_id: str | None = None
    ) -> T:
        """Send a string or messages to the language model, and return the typed answer.

        ``call_id`` is the id of a durable call, for a model with the interceptor ``Durable``.
        """
        try:
            flow = self._pipeline.flow(self._invocation(messages, options, self._blocking_plan, call_id))
            return self._success(run(flow))
        except (ServiceOutputError, FinishError) as error:
            return self._failure(error)

    async def ainvoke(
        self, messages: MessageInput, *, options: ChatOptions = _NO_OPTIONS, call_id: str | None = None
    ) -> T:
        """Send a string or messages to the language model, and await the typed answer; see ``invoke``."""
        try:
            flow = self._pipeline.flow(self._invocation(messages, options, self._plan, call_id))
            return self._success(await arun(flow))
        except (ServiceOutputError, FinishError) as error:
            return self._failure(error)

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals = _NO_DECISIONS,
        *,
        results: Mapping[str, object] = _NO_DECISIONS,
    ) -> T:
        """Continue a call that waits for approvals, or for results of external tools.

        The arguments and errors are those of the function ``resume``. The type of the answer must be the type
        of the model that made the state.
        """
        return self._start(self._resumed(state, approvals, results, self._blocking_plan))

    async def aresume(
        self,
        state: SuspendedCall,
        approvals: Approvals = _NO_DECISIONS,
        *,
        results: Mapping[str, object] = _NO_DECISIONS,
    ) -> T:
        """Continue a call that waits for approvals or results; async version of ``resume``."""
        return await self._astart(self._resumed(state, approvals, results, self._plan))

    def stream(
        self, messages: MessageInput, *, options: ChatOptions = _NO_OPTIONS, call_id: str | None = None
    ) -> Stream[V]:
        """Send a string or messages to the language model, and stream the typed answer.

        The stream contains the value even with ``include_raw``. Its ``result()`` has the reply, and raises an
        error if the reply cannot be parsed.
        """
        plan = self._blocking_plan._replace(routes=self._streaming_routes)
        invocation = self._invocation(messages, options, plan, call_id)
        return cast("Stream[V]", start_stream(self._pipeline, invocation, is_async=False))

    def astream(
        self, messages: MessageInput, *, options: ChatOptions = _NO_OPTIONS, call_id: str | None = None
    ) -> AsyncStream[V]:
        """Send a string or messages to the language model, and stream the typed answer asynchronously."""
        plan = self._plan._replace(routes=self._streaming_routes)
        invocation = self._invocation(messages, options, plan, call_id)
        return cast("AsyncStream[V]", start_stream(self._pipeline, invocation, is_async=True))

    def preview_invocation(self, messages: MessageInput, *, options: ChatOptions = _NO_OPTIONS) -> Invocation:
        """Return the data of an ``invoke`` call, from which its request can be shown."""
        return self._invocation(messages, options, self._plan)

    @cached_property  # few of these models are streamed
    def _streaming_routes(self) -> tuple[ModelRoute, ...]:
        problems: list[DefinitionProblem] = []
        plan, _ = plan_call(self._definition.with_shape(ReturnShape.STREAM), problems)
        if problems or plan is None:
            raise DefinitionError(problems)
        return plan.routes

    @cached_property
    def _blocking_plan(self) -> CallPlan:
        """The models and tools for blocking calls, in which async tools are not allowed.

        Raises TypeError if a tool or an interceptor is async.
        """
        names = async_parts_of(self._plan, self._pipeline)
        if names:
            raise TypeError(f"structured: {', '.join(names)} can only be awaited; use ainvoke or astream")
        return self._plan._replace(is_async=False)

    def _invocation(
        self, messages: MessageInput, options: ChatOptions, plan: CallPlan, call_id: str | None = None
    ) -> Invocation:
        if not isinstance(options, ChatOptions):
            message = f"options has the type {type(options).__name__}; pass ChatOptions(…)"
            raise DefinitionError([DefinitionProblem(plan.qualname, message)])
        problems = options.problems(plan.qualname)
        problems += tool_choice_problems(options, plan.toolbox, plan.qualname)
        parsed = to_messages(messages, plan.qualname, problems)
        if problems:
            raise DefinitionError(problems)
        request = ChatRequest(parsed, options.with_defaults(plan.options))
        state = CallState(self._budget, call_id=call_id)
        return replace(plan.invocation(request, state), examples=self._examples)

    def _recoverable(self, *, is_async: bool) -> Recoverable:
        """Return how ``recover`` continues calls of the model."""
        from .service.recovery import Recoverable

        is_async = is_async or bool(async_parts_of(self._plan, self._pipeline))
        plan = self._plan if is_async else self._blocking_plan

        def invocation(request: ChatRequest, _: object, call: StoredCall, context: object) -> Invocation:
            state = CallState(self._budget, call_id=call.id)
            return replace(plan.invocation(request, state), examples=self._examples)

        start = self._astart if is_async else self._start
        return Recoverable(plan, self._pipeline, invocation, start, is_async)

    def _start(self, invocation: Invocation) -> T:
        try:
            return self._success(run(self._pipeline.flow(invocation)))
        except (ServiceOutputError, FinishError) as error:
            return self._failure(error)

    async def _astart(self, invocation: Invocation) -> T:
        try:
            return self._success(await arun(self._pipeline.flow(invocation)))
        except (ServiceOutputError, FinishError) as error:
            return self._failure(error)

    def _resumed(
        self, state: SuspendedCall, approvals: Approvals, results: Mapping[str, object], plan: CallPlan
    ) -> Invocation:
        invocation = resumed_invocation(plan, state, approvals, self._budget, results)
        return replace(invocation, examples=self._examples)

    def _success(self, answer: Answer) -> T:
        value = answer.value
        return cast("T", Structured(answer.reply, value, None) if self._include_raw else value)

    def _failure(self, error: ServiceOutputError | FinishError) -> T:
        reply = error.attempts[-1].reply if error.attempts else None
        if not self._include_raw or reply is None:
            raise error
        return cast("T", Structured(reply, None, error))


class StructuredSettings(TypedDict, total=False):
    """The options for a language model that answers with values of a given type.

    Attributes:
        strategy: How structured output is requested: a Strategy, or "json_schema", "function_calling" or
            "json_mode"; by default the most reliable strategy that the model supports.
        options: Options of the requests.
        budget: The limits of each call; by default 3 attempts.
        retry: Asks the model again when an answer cannot be read; None raises the error at once.
        interceptors: Run around each call, the first one outermost.
        media: Which images, sounds and files the messages may contain; None for all.
        tools: Functions, objects with ``@tool`` methods, or tool providers, which the model may call.
        tool_limits: The limits of tool use in one call.
        tool_interceptors: Run around each tool call of the model, the first one outermost.
        leniency: How far answers may deviate from the requested format; by default ``Leniency.SAFE``.
        number_style: Whether numbers in text have a decimal point or a decimal comma.
        check: What is verified of Cited values: "value" (the default), "quote" or "off".
        cite: What the model writes for the quotes of Cited values: "quotes" (the default) or "lines".
        examples: Few-shot examples: messages of the user, each with its answer, as a value or as JSON data.
        strict_keywords: True to refuse a JSON Schema with a misspelt keyword, instead of a warning.
    """

    strategy: StrategyName | None
    options: ChatOptions
    budget: Budget | None
    retry: Retry | None
    interceptors: Sequence[Interceptor]
    media: MediaPolicy | None
    tools: Sequence[ToolSource]
    tool_limits: ToolLimits
    tool_interceptors: Sequence[ToolInterceptor | ToolCheck]
    leniency: Leniency | None
    number_style: NumberStyle | None
    check: Check | None
    cite: Cite | None
    examples: Sequence[tuple[str, object]]
    strict_keywords: bool


@overload
def structured(
    model: ChatModel | str | None,
    output_type: Mapping[str, object],
    *,
    include_raw: Literal[False] = ...,
    **settings: Unpack[StructuredSettings],
) -> StructuredModel[dict[str, Any], dict[str, Any]]: ...
@overload
def structured(
    model: ChatModel | str | None,
    output_type: Mapping[str, object],
    *,
    include_raw: Literal[True],
    **settings: Unpack[StructuredSettings],
) -> StructuredModel[Structured[dict[str, Any]], dict[str, Any]]: ...
@overload
def structured(
    model: ChatModel | str | None,
    output_type: TypeForm[V],
    *,
    include_raw: Literal[False] = ...,
    **settings: Unpack[StructuredSettings],
) -> StructuredModel[V, V]: ...
@overload
def structured(
    model: ChatModel | str | None,
    output_type: TypeForm[V],
    *,
    include_raw: Literal[True],
    **settings: Unpack[StructuredSettings],
) -> StructuredModel[Structured[V], V]: ...
@checks_arguments
@shows_settings(StructuredSettings)
def structured(
    model: ChatModel | str | None,
    output_type: object,
    *,
    include_raw: bool = False,
    **settings: Unpack[StructuredSettings],
) -> object:
    """Return a language model that answers every message with a value of a given type.

    For example::

        people = structured("openai:gpt-5-mini", Person)
        people.invoke("John Doe was born on the fourth of July 1968.")

    Args:
        model: A ChatModel or a string, as in ``create``.
        output_type: A type that a method may return, or a dict: a JSON Schema, a function or response format
            of OpenAI, or a tool of Anthropic. The answers to a dict are plain JSON values.
        include_raw: True to return ``Structured`` objects, also for replies that cannot be read.
        **settings: See ``StructuredSettings``.

    Raises:
        DefinitionError: With all problems of the arguments.
    """
    check_keywords(_NAME, settings, ["include_raw", *StructuredSettings.__annotations__])
    check_types(_NAME, settings)
    plan_settings = Settings.of({**settings, "strategy": None}, model)
    problems = plan_settings.options.problems(_NAME)
    strategy = find_strategy(settings.get("strategy"), _NAME, problems, _LANGCHAIN_NAMES)
    signature = call_signature(output_type, _NAME, problems)
    chat_model = find_chat_model(model, plan_settings, _NAME, problems)
    definition = CallDefinition(_NAME, signature, chat_model, plan_settings, strategy)
    plan, parser = plan_call(definition, problems)
    path = CallSettings.of(settings).path
    problems += path.problems(_NAME, () if plan is None else plan.routes)
    if problems or plan is None:
        raise DefinitionError(problems)
    examples = _plan_examples(settings.get("examples", ()), parser)
    for one in path.pipeline.interceptors:
        attributes_of(one).add_service(_NAME, _NAME, has_default_conversation=True)
    return StructuredModel(definition, plan, path, examples, include_raw=include_raw)


def _plan_examples(
    examples: Sequence[tuple[str, object]], parser: OutputParser[object] | None
) -> tuple[FewShotExample, ...]:
    planned, problems = [], []
    for number, example in enumerate(examples, 1):
        location = f"{_NAME}, example {number}"
        if not (isinstance(example, tuple) and len(example) == 2 and isinstance(example[0], str)):
            message = f"{example!r} is not a tuple of a message and its answer"
            problems.append(DefinitionProblem(location, message))
            continue
        try:
            planned.append(FewShotExample(example[0], example_value(example[1], parser)))
        except (TypeError, ValueError) as error:
            problems.append(DefinitionProblem(location, f"its answer does not fit: {error}"))
    if problems:
        raise DefinitionError(problems)
    return tuple(planned)


# --- A question inside another call ---

_PIPELINE = Pipeline([Retry()])


class SideQuestion:
    """A service method that is called inside another service call, for example to rephrase a query.

    Its requests are recorded in the other call and count against the seconds, tokens and money of its budget,
    but not against its number of attempts. Streams do not show them. Raises DefinitionError like ``create``.
    """

    def __init__(self, interface: Any, method: str, model: ChatModel | str | None) -> None:
        self._plan: MethodPlan = plan_of(getattr(create(interface, model), method))

    def ask(self, invocation: Invocation | None, arguments: Mapping[str, object]) -> Flow[Any]:
        """Call a service method from inside another service call, and return the answer's value.

        ``invocation`` is the other call. Without it, the requests are not recorded anywhere.
        """
        question = self._plan.invocation((), arguments, Budget())
        if invocation is None:
            return (yield from hide_from_stream(_PIPELINE.flow(question))).value
        outer = invocation.state
        question = replace(question, state=state_within(outer))
        try:
            answer = yield from hide_from_stream(_PIPELINE.flow(question))
        finally:
            outer.attempts += map(_of_side_question, question.state.attempts[len(outer.attempts) :])
            outer.estimated_usage = question.state.estimated_usage
        return answer.value


def state_within(outer: CallState) -> CallState:
    """Return the state of a call that shares the budget of the service call around it.

    The requests of the other call do not count as attempts at the answer of this one.
    """
    return CallState(
        outer.budget,
        outer.started_at,
        [*map(_of_side_question, outer.attempts)],
        enclosing=outer.enclosing,
        inner=outer.inner,
        estimated_usage=outer.estimated_usage,
        is_abandoned=outer.is_abandoned,
        _id=outer.id,
    )


def _of_side_question(attempt: Attempt) -> Attempt:
    return attempt._replace(purpose=AttemptPurpose.SIDE_QUESTION)


def hide_from_stream(flow: Flow[T]) -> Flow[T]:
    """Run a part of a service call; the user's stream does not receive its events."""
    return map_effects(flow, _perform_hidden)


def _perform_hidden(effect: Effect) -> Flow[Any]:
    if isinstance(effect, Emit):
        effect = replace(effect, streamed=False)
    return (yield from without_streaming(effect))
