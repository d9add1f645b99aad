"""AI agents that reason and call tools until they have an answer, similar to AgentScope's agents.

This module contains, from top to bottom, the agent, the order of its interceptors, its hooks, and the tool
``generate_response``, with which a model returns its text and the typed value. ``message`` contains ``Msg``.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypedDict, TypeForm

from output_parsers.json.scanner import parse_json_string
from output_parsers.json_schema.document import followed
from output_parsers.json_schema.parser import schema_parser
from output_parsers.parser.type_parser import TypeParser, parser_for
from output_parsers.result.errors import Problem
from output_parsers.result.reading import Cursor, Json, ValidationFailure, combine_failures
from output_parsers.types.node import Definitions, JsonSchema, Node, WrapperNode, schema_of, with_description
from output_parsers.types.records import normalize_key
from output_parsers.types.target import Target, type_name

from ..engine.approval import ApprovalRequiredError, Approvals, SuspendedCall
from ..engine.budget import Budget
from ..engine.drivers import arun, run
from ..engine.effects import CallModel, Effect, Emit, Flow, Run
from ..engine.flows import map_effects
from ..engine.interceptor import Interceptor, InterceptorKind, Proceed, attributes_of
from ..engine.pipeline import Pipeline
from ..engine.plan import CallPlan, CallState, Invocation
from ..engine.results import Answer
from ..engine.retry import Retry
from ..engine.streams import ToolStarted
from ..engine.tool_execution import ToolCheck, ToolInterceptor
from ..guesses import explains_guesses
from ..interface.parameters import function_name, is_async, unwrapped
from ..models.arguments import checks_arguments
from ..models.base import ChatModel
from ..models.errors import DefinitionError, DefinitionProblem, Strategy, ToolLimitError, counted
from ..models.media_policy import MediaPolicy
from ..models.messages import AiMessage, ChatReply, SystemMessage, ToolCall
from ..models.requests import ChatOptions, ChatRequest
from ..service.methods import CallPath, async_parts_of, never_awaited_problems
from ..service.planner import CallDefinition, Settings, find_chat_model, plan_call
from ..service.settings import check_types
from ..service.signatures import call_signature
from ..tools.tool import ToolErrors, ToolRun, ToolSource
from ..tools.toolbox import ToolLimits
from .message import (
    AgentInput,
    Msg,
    Round,
    merge_messages,
    resume_reply,
    save_trace,
    to_chat_messages,
    trace_of,
    with_system_texts,
)

if TYPE_CHECKING:
    from ..journal import StoredCall
    from ..service.recovery import Recoverable

__all__ = ["HookHandle", "Msg", "ReActAgent", "Round"]


T = TypeVar("T")
_NO_OPTIONS = ChatOptions()
_DEFAULT_TOOL_ERRORS = ToolErrors()
_DEFAULT_RETRY = Retry()
_NO_DECISIONS: Mapping[str, bool] = MappingProxyType({})


@checks_arguments
@explains_guesses(
    **dict.fromkeys(("run_sync", "run", "invoke", "chat", "ask", "step"), "reply(text)"),
    **dict.fromkeys(("arun", "ainvoke"), "await areply(text)"),
)
class ReActAgent:
    """An agent that reasons and calls tools until it can answer, similar to AgentScope's ReActAgent.

    In each round the model reasons and then either calls tools or answers. Raises a DefinitionError that
    lists all invalid arguments.

    Args:
        name: The name of the agent, which is also the name in its messages.
        system_message: The system message. It is plain text, not a template.
        model: The model, as in ``create``.
        tools: The tools, as in ``create``.
        max_rounds: The maximum number of rounds of a reply, including the round with the answer. If there is
            no answer by then, a ToolLimitError is raised.
        memory: An interceptor such as a ChatMemory, which makes the agent remember earlier replies. Several
            input messages are then stored as one, in which each text follows the name of its speaker.
        options: The options of requests, as in ``create``.
        budget: The limits of each reply, as in ``create``.
        retry: How unreadable answers are requested again, as in ``create``.
        interceptors: As in ``create``. Input guards come before the memory.
        tool_limits: As in ``create``, except that ``max_rounds`` limits the rounds.
        tool_errors: Functions that choose the text for the model when a tool fails, as in ``create``.
        tool_interceptors: Run around each tool call, as in ``create``.
        media: Which images, sounds and files messages may contain, as in ``create``.
    """

    def __init__(
        self,
        name: str,
        system_message: str,
        model: ChatModel | str | None = None,
        tools: Sequence[ToolSource] = (),
        *,
        max_rounds: int = 10,
        memory: Interceptor | None = None,
        options: ChatOptions = _NO_OPTIONS,
        budget: Budget | None = None,
        retry: Retry | None = _DEFAULT_RETRY,
        interceptors: Sequence[Interceptor] = (),
        tool_limits: ToolLimits | None = None,
        tool_errors: ToolErrors = _DEFAULT_TOOL_ERRORS,
        tool_interceptors: Sequence[ToolInterceptor | ToolCheck] = (),
        media: MediaPolicy | None = None,
    ) -> None:
        self.name = name
        self.max_rounds = max_rounds
        self._qualname = f"{name}.reply"
        self._system_message = SystemMessage(system_message)
        self._hooks = Hooks()
        self._has_memory = memory is not None
        plan_settings = {
            "options": options,
            "tools": tools,
            "tool_limits": tool_limits or ToolLimits(),
            "tool_errors": tool_errors,
            "tool_interceptors": tool_interceptors,
            "media": media,
        }
        path_settings = {"budget": budget, "retry": retry, "interceptors": interceptors}
        check_types(self._qualname, plan_settings | path_settings)
        settings = Settings.of(plan_settings, model)
        # the last round is for the answer, and the engine limits the rounds of tool calls
        limits = replace(settings.tool_limits, max_rounds=max(1, max_rounds - 1))
        self._settings = settings._replace(tool_limits=limits)
        ordered = _order_interceptors(memory, interceptors)
        retries = () if retry is None else (retry,)
        # hooks are innermost: they get each request of a retry, but no side questions of other interceptors
        inside = (self._report_round_limit, self._hooks, _text_of_untyped_response)
        path = CallPath(Pipeline((*ordered, *retries, *inside)), budget or Budget())
        self._pipeline, self._budget = path
        self._plans: dict[object, CallPlan] = {}
        self._check_settings(model, path)
        for one in ordered:
            attributes_of(one).add_service(name, name, has_default_conversation=True)

    @overload
    def reply(self, msg: AgentInput, output_type: None = ..., *, call_id: str | None = ...) -> Msg[None]: ...
    @overload
    def reply(self, msg: AgentInput, output_type: TypeForm[T], *, call_id: str | None = ...) -> Msg[T]: ...
    def reply(
        self, msg: AgentInput, output_type: object = None, *, call_id: str | None = None
    ) -> Msg[object]:
        """Let the agent reply to a string, a message with images or files, or other agents' messages.

        With ``output_type`` the agent ends by calling the tool ``generate_response``, whose parameters are
        the text ``response`` and the fields of the type; the value is the ``metadata`` of the answer. If the
        arguments do not fit the type, the model gets the problems and answers again. Without ``output_type``
        the first plain text is the answer. For a ``Decision``, and for a FallbackChatModel with ``unsure``,
        the model answers with JSON, because the arguments of tools have no probabilities. ``call_id`` is the
        id of a durable call, for an agent with the interceptor ``Durable``.

        Raises:
            DefinitionError: if a model does not support the type.
            ToolLimitError: if there is no answer after ``max_rounds`` rounds.
            ApprovalRequiredError: if a tool needs approval. ``resume`` continues with its ``state``.
            AiServiceError: the other errors of a service method.
        """
        invocation = self._invocation(msg, self._blocking_plan(output_type), call_id)
        return self._start(invocation)

    @overload
    async def areply(
        self, msg: AgentInput, output_type: None = ..., *, call_id: str | None = ...
    ) -> Msg[None]: ...
    @overload
    async def areply(
        self, msg: AgentInput, output_type: TypeForm[T], *, call_id: str | None = ...
    ) -> Msg[T]: ...
    async def areply(
        self, msg: AgentInput, output_type: object = None, *, call_id: str | None = None
    ) -> Msg[object]:
        """Let the agent reply asynchronously; its tools and hooks may be async functions."""
        invocation = self._invocation(msg, self._plan(output_type), call_id)
        return await self._astart(invocation)

    @overload
    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals = ...,
        output_type: None = ...,
        *,
        results: Mapping[str, object] = ...,
    ) -> Msg[None]: ...
    @overload
    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals = ...,
        *,
        output_type: TypeForm[T],
        results: Mapping[str, object] = ...,
    ) -> Msg[T]: ...
    @overload
    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        output_type: TypeForm[T],
        *,
        results: Mapping[str, object] = ...,
    ) -> Msg[T]: ...
    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals = _NO_DECISIONS,
        output_type: object = None,
        *,
        results: Mapping[str, object] = _NO_DECISIONS,
    ) -> Msg[object]:
        """Continue an agent's reply after a person approved or refused the pending tool calls.

        The trace contains the earlier rounds, and they count for ``max_rounds``. The budget starts again.
        Hooks also see the calls that are refused.

        Args:
            state: The ``state`` of the ApprovalRequiredError.
            approvals: True or False for all pending calls, or a dict with True, False or Denied by the id of
                each of them.
            output_type: The ``output_type`` of the reply.
            results: The results of external tools, as for the function ``resume``.

        Raises:
            SuspendedCallError: if the state belongs to another agent, or to a reply with another type, and
                the other errors of the function ``resume``.
            AlreadyResumedError: if the agent has a ChatMemory and the state was resumed before.
        """
        invocation = resume_reply(self._blocking_plan(output_type), self._budget, state, approvals, results)
        return self._start(invocation)

    @overload
    async def aresume(
        self,
        state: SuspendedCall,
        approvals: Approvals = ...,
        output_type: None = ...,
        *,
        results: Mapping[str, object] = ...,
    ) -> Msg[None]: ...
    @overload
    async def aresume(
        self,
        state: SuspendedCall,
        approvals: Approvals = ...,
        *,
        output_type: TypeForm[T],
        results: Mapping[str, object] = ...,
    ) -> Msg[T]: ...
    @overload
    async def aresume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        output_type: TypeForm[T],
        *,
        results: Mapping[str, object] = ...,
    ) -> Msg[T]: ...
    async def aresume(
        self,
        state: SuspendedCall,
        approvals: Approvals = _NO_DECISIONS,
        output_type: object = None,
        *,
        results: Mapping[str, object] = _NO_DECISIONS,
    ) -> Msg[object]:
        """Continue an agent's reply asynchronously after a person approved or refused pending tool calls."""
        invocation = resume_reply(self._plan(output_type), self._budget, state, approvals, results)
        return await self._astart(invocation)

    def preview_invocation(self, msg: AgentInput, output_type: object = None) -> Invocation:
        """Return the data of a ``reply`` call, from which its request can be shown without sending it."""
        return self._invocation(msg, self._plan(output_type))

    @overload
    def on(
        self,
        step: Literal["pre_reasoning"],
        hook: Callable[[ChatRequest], ChatRequest | Awaitable[ChatRequest | None] | None],
    ) -> HookHandle: ...
    @overload
    def on(
        self,
        step: Literal["post_reasoning"],
        hook: Callable[[ChatReply], ChatReply | Awaitable[ChatReply | None] | None],
    ) -> HookHandle: ...
    @overload
    def on(
        self, step: Literal["pre_acting"], hook: Callable[[ToolCall], Awaitable[None] | None]
    ) -> HookHandle: ...
    @overload
    def on(
        self,
        step: Literal["post_acting"],
        hook: Callable[[ToolRun], ToolRun | Awaitable[ToolRun | None] | None],
    ) -> HookHandle: ...
    def on(self, step: Step, hook: Hook) -> HookHandle:
        """Register a hook function that runs before or after the agent's model requests or tool calls.

        Reasoning is a request to the model, acting is a tool call. A hook gets the request, the reply, the
        tool call or the tool run. It may return a replacement, or None to change nothing; a "pre_acting" hook
        must return None. An exception of a hook ends the reply. Hooks may be async for ``areply``. Call
        ``remove()`` of the returned handle to remove the hook.
        """
        return self._hooks.add(step, hook)

    def _check_settings(self, model: ChatModel | str | None, path: CallPath) -> None:
        """Check the agent's settings, and find its language model.

        Raises a DefinitionError that lists all problems.
        """
        qualname, settings = self._qualname, self._settings
        problems = settings.options.problems(qualname)
        problems += never_awaited_problems("ToolErrors", settings.tool_errors.formatters)
        if self.max_rounds < 1:
            message = f"max_rounds is {self.max_rounds}; it must be at least 1"
            problems.append(DefinitionProblem(qualname, message))
        self._model = find_chat_model(model, settings, qualname, problems)
        plan = self._plan_reply(None, problems)
        problems += path.problems(qualname, () if plan is None else plan.routes)
        if problems or plan is None:
            raise DefinitionError(problems)
        self._plans[None] = plan
        self._async_parts = async_parts_of(plan, path.pipeline)

    def _invocation(self, msg: AgentInput, plan: CallPlan, call_id: str | None = None) -> Invocation:
        system, *messages = with_system_texts(self._system_message, to_chat_messages(self.name, msg))
        if self._has_memory:
            messages = [*merge_messages(self.name, messages)]
        request = ChatRequest((system, *messages), plan.options)
        return plan.invocation(request, CallState(self._budget, call_id=call_id))

    def _recoverable(self, output_type: object = None, *, is_async: bool) -> Recoverable:
        """Return how ``recover`` continues replies of the agent with an output type."""
        from ..service.recovery import Recoverable

        is_async = is_async or bool(self._awaited_names)
        plan = self._plan(output_type)._replace(is_async=is_async)

        def invocation(request: ChatRequest, _: object, call: StoredCall, context: object) -> Invocation:
            return plan.invocation(request, CallState(self._budget, call_id=call.id))

        start = self._astart if is_async else self._start
        return Recoverable(plan, self._pipeline, invocation, start, is_async)

    def _start(self, invocation: Invocation) -> Msg[object]:
        return self._to_msg(run(self._pipeline.flow(invocation)), invocation)

    async def _astart(self, invocation: Invocation) -> Msg[object]:
        return self._to_msg(await arun(self._pipeline.flow(invocation)), invocation)

    @property
    def _awaited_names(self) -> list[str]:
        return [*self._async_parts, *(f"the hook {name}" for name in self._hooks.async_names)]

    def _blocking_plan(self, output_type: object) -> CallPlan:
        """Return the models and tools for a blocking reply, or raise TypeError if a tool or hook is async."""
        names = ", ".join(self._awaited_names)
        if names:
            raise TypeError(f"{self._qualname}: {names} can only be awaited; use areply or aresume")
        return self._plan(output_type)._replace(is_async=False)

    def _plan(self, output_type: object) -> CallPlan:
        """Return the models and tools that an agent uses to create replies of a given output type."""
        try:
            if output_type not in self._plans:
                self._plans[output_type] = self._make_plan(output_type)
            return self._plans[output_type]
        except TypeError:  # metadata of the type cannot be hashed
            return self._make_plan(output_type)

    def _make_plan(self, output_type: object) -> CallPlan:
        problems: list[DefinitionProblem] = []
        plan = self._plan_reply(output_type, problems)
        if problems or plan is None:
            raise DefinitionError(problems)
        return plan

    def _plan_reply(self, output_type: object, problems: list[DefinitionProblem]) -> CallPlan | None:
        definition = CallDefinition(
            self._qualname,
            call_signature(str if output_type is None else output_type, self._qualname, problems),
            self._model,
            self._settings,
            make_parser=None if output_type is None else generate_response_parser,
            is_agent=True,
        )
        plan, _ = plan_call(definition, problems)
        if plan is not None:
            plan = plan._replace(fixed_system=self._system_message.text)
        if plan is None or plan.toolbox is None:
            return plan
        if GENERATE_RESPONSE in {tool.name for tool in plan.toolbox.declared}:
            message = f"a tool has the name {GENERATE_RESPONSE}, which is the name of the agent's own tool"
            problems.append(definition.problem(message))
        # the only round is for the answer
        return plan if self.max_rounds > 1 else plan._replace(toolbox=None)

    def _to_msg(self, answer: Answer, invocation: Invocation) -> Msg[object]:
        value = answer.value
        text, metadata = value if isinstance(value, GeneratedResponse) else (str(value), None)
        return Msg(self.name, text, metadata=metadata, trace=trace_of(invocation.state))

    def _report_round_limit(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        """Interceptor that adds advice to the error about too many rounds (``max_rounds``)."""
        try:
            return (yield from proceed(invocation))
        except ToolLimitError as error:
            if invocation.state.tool_rounds < self.max_rounds:  # another limit
                raise
            message = (
                f"{self._qualname}: no answer after {counted(self.max_rounds, 'round')}; raise max_rounds"
            )
            raise ToolLimitError(message, call=error.call) from error


def _order_interceptors(
    memory: Interceptor | None, interceptors: Sequence[Interceptor]
) -> tuple[Interceptor, ...]:
    """Sort an agent's interceptors into the order in which they must run, outermost first.

    Input guards come before the memory, so that it does not store what they remove. Input guards after a
    retrieval stay there, because they guard the retrieved text.
    """
    guards, inside, is_after_retrieval = list[Interceptor](), list[Interceptor](), False
    for one in interceptors:
        kind = attributes_of(one).kind
        is_after_retrieval = is_after_retrieval or kind is InterceptorKind.RETRIEVAL
        is_outside = kind is InterceptorKind.INPUT_GUARD and not is_after_retrieval
        is_outside = is_outside or kind is InterceptorKind.DURABLE
        (guards if is_outside else inside).append(one)
    return (save_trace, *guards, *(() if memory is None else (memory,)), _answer_as_text, *inside)


def _answer_as_text(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """Interceptor that turns the tool call containing an agent's final answer into a text message."""
    answer = yield from proceed(invocation)
    if not isinstance(answer.value, GeneratedResponse):
        return answer
    return replace(answer, messages=(*answer.messages[:-1], AiMessage(answer.value.response)))


def _text_of_untyped_response(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """Interceptor that treats a ``generate_response`` call as a text answer if no type was requested.

    A model may know the tool from AgentScope, which always offers it, or from an earlier reply with an output
    type.
    """
    if invocation.plan.output_format.strategy is not Strategy.TEXT:
        return (yield from proceed(invocation))

    def perform(effect: Effect) -> Flow[object]:
        reply = yield effect
        return _with_response_as_text(reply) if isinstance(effect, CallModel) else reply

    return (yield from map_effects(proceed(invocation), perform))


def _with_response_as_text(reply: ChatReply) -> ChatReply:
    """Convert a model's reply to plain text if it is a ``generate_response`` tool call with only text."""
    calls = reply.message.tool_calls
    if len(calls) != 1 or calls[0].name != GENERATE_RESPONSE:
        return reply
    try:
        arguments = json.loads(calls[0].arguments)
    except ValueError:
        return reply
    if not isinstance(arguments, dict) or arguments.keys() != {_RESPONSE}:
        return reply
    response = arguments[_RESPONSE]
    return replace(reply, message=AiMessage(response)) if isinstance(response, str) else reply


# --- Hooks ---

Step: TypeAlias = Literal["pre_reasoning", "post_reasoning", "pre_acting", "post_acting"]
Hook: TypeAlias = Callable[[Any], object]
# The type of a replacement that a hook may return; None if it may not return one.
_REPLACEMENT_TYPES: dict[Step, type | None] = {
    "pre_reasoning": ChatRequest,
    "post_reasoning": ChatReply,
    "pre_acting": None,
    "post_acting": ToolRun,
}


class HookHandle:
    """A handle that can remove a registered hook function from its agent."""

    def __init__(self, hooks: list[Hook], hook: Hook) -> None:
        self._hooks = hooks
        self._hook = hook

    def remove(self) -> None:
        """Remove the hook function from the agent; a second call does nothing."""
        self._hooks[:] = [hook for hook in self._hooks if hook is not self._hook]


class Hooks:
    """Interceptor that calls the user's hook functions around the agent's model requests and tool calls."""

    def __init__(self) -> None:
        self._by_step: dict[str, list[Hook]] = {step: [] for step in _REPLACEMENT_TYPES}

    def add(self, step: str, hook: Hook) -> HookHandle:
        """Register a hook function for an agent's step, such as "pre_acting" (before each tool call).

        Raises DefinitionError for an unknown step.
        """
        if step not in self._by_step:
            message = f"the step {step!r} is unknown; the steps are: {', '.join(self._by_step)}"
            raise DefinitionError([DefinitionProblem("ReActAgent.on", message)])
        own = partial(hook)  # a hook that was added twice gets two handles, and each removes it once
        self._by_step[step].append(own)
        return HookHandle(self._by_step[step], own)

    @property
    def async_names(self) -> list[str]:
        """The names of the agent's async hook functions, for error messages."""
        hooks = (hook for hooks in self._by_step.values() for hook in hooks)
        return [function_name(unwrapped(hook)) for hook in hooks if is_async(hook)]

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        return map_effects(proceed(invocation), self._perform)

    def _perform(self, effect: Effect) -> Flow[object]:
        """Execute a step of the agent, running the user's hooks around model requests and tool calls."""
        if isinstance(effect, CallModel):
            request = yield from self._call_hooks("pre_reasoning", effect.request)
            reply = yield effect._replace(request=request)
            return (yield from self._call_hooks("post_reasoning", reply))
        if isinstance(effect, Emit) and isinstance(effect.event, ToolStarted):
            yield from self._call_hooks("pre_acting", effect.event.call)
        outcome = yield effect
        is_run = isinstance(effect, Run) and effect.tool_call is not None
        if is_run and not isinstance(outcome.error, ApprovalRequiredError):
            return (yield from self._call_hooks("post_acting", outcome))
        return outcome

    def _call_hooks(self, step: Step, value: object) -> Flow[object]:
        """Call an agent's hook functions for one step in order; each receives the previous hook's changes."""
        for hook in tuple(self._by_step[step]):  # a copy, because a hook may remove itself
            replacement = yield Run(_call_of(hook, value))
            if replacement is not None:
                _check_replacement(step, hook, replacement)
                value = replacement
        return value


def _call_of(hook: Hook, value: object) -> Callable[[], object]:
    return wraps(unwrapped(hook))(lambda: hook(value))  # with the name of the hook, for errors


def _check_replacement(step: Step, hook: Hook, replacement: object) -> None:
    """Raise TypeError if an agent's hook function returned a value of the wrong type."""
    expected = _REPLACEMENT_TYPES[step]
    if expected is None or not isinstance(replacement, expected):
        allowed = "None" if expected is None else f"{expected.__name__} or None"
        name = function_name(unwrapped(hook))
        raise TypeError(
            f"the {step} hook {name} returned {type(replacement).__name__}; it may return {allowed}"
        )


# --- The tool generate_response ---

GENERATE_RESPONSE = "generate_response"
_RESPONSE = "response"
_RESPONSE_DESCRIPTION = "the answer in full, as it is to be read"
_DESCRIPTION = "Gives the final answer and ends the task. Call it once, when nothing is left to be done."


class GeneratedResponse(NamedTuple):
    """The arguments of ``generate_response``, a tool that the model calls to give the agent's final answer.

    Attributes:
        response: The answer's text.
        metadata: The value of the output type.
    """

    response: str
    metadata: object


def generate_response_parser(output_type: Any) -> TypeParser[GeneratedResponse]:
    """Return the parser for the arguments of ``generate_response``, the tool that gives the agent's answer.

    The arguments are ``response`` and the fields of the output type, or one field ``metadata`` if the type
    has no fields. Raises UnsupportedTypeError, and ValueError for a type with a field ``response``.
    """
    is_schema = isinstance(output_type, Mapping)
    node = (schema_parser(output_type) if is_schema else parser_for(output_type)).node
    if "properties" not in schema_of(node):
        make_type: Any = TypedDict  # as a value, since type checkers only know fixed fields
        node = _MetadataNode(parser_for(make_type("metadata", {"metadata": output_type})).node)
    elif _find_response_key(schema_of(node)["properties"]) is not None:
        raise ValueError(
            f"{type_name(output_type)} has a field {_RESPONSE!r}, which is a parameter of "
            f"{GENERATE_RESPONSE}; give it another name"
        )
    return _GenerateResponseParser(_GenerateResponseNode(node))


class _GenerateResponseParser(TypeParser[GeneratedResponse]):
    """Parses the arguments of ``generate_response``, the tool with which a model gives an agent's answer."""

    def __init__(self, node: _GenerateResponseNode) -> None:
        super().__init__(Target(Any, alias=GENERATE_RESPONSE), node)

    @cached_property
    def plain_text(self) -> bool:
        return False


class _GenerateResponseNode(Node[GeneratedResponse]):
    """Parses JSON that contains an agent's text in ``response`` and the fields of the output type."""

    kind = f"an object with {_RESPONSE!r}"

    def __init__(self, record: Node[object]) -> None:
        self._record = record
        self._text: Node[str] = parser_for(str).node

    @property
    def parts(self) -> tuple[Node[object], ...]:
        return (self._text, self._record)

    def parts_of(self, data: Json) -> dict[object, Node[object]]:
        record = self._record
        while isinstance(record, WrapperNode):
            record = record.inner
        return record.parts_of(data)

    def schema(self, definitions: Definitions) -> JsonSchema:
        fields = followed({"$defs": definitions.schemas}, self._record.schema(definitions))
        response = {"type": "string", "description": _RESPONSE_DESCRIPTION}
        schema = {
            **{key: value for key, value in fields.items() if key != "title"},
            "type": "object",
            # the text comes last, so that it cannot use up the tokens before the fields are written
            "properties": {**fields.get("properties", {}), _RESPONSE: response},
            "required": [*fields.get("required", ()), _RESPONSE],
        }
        return with_description(schema, _DESCRIPTION)  # not in the hint: it is about the tool

    def hint(self, enclosing: tuple[Node[object], ...] = ()) -> str:
        rows = self._record.hint((*enclosing, self))[1:-1].strip("\n")  # without the braces
        rows = rows if "\n" in rows or rows.startswith(" ") else f"  {rows},"
        return f'{{\n{rows}\n  "{_RESPONSE}": string,  // {_RESPONSE_DESCRIPTION}\n}}'

    def read(self, data: Json, cursor: Cursor) -> GeneratedResponse:
        if isinstance(data, str):
            data = parse_json_string(data, "{", cursor)
        if not isinstance(data, dict):
            raise cursor.failure(f"expected {self.kind}", data)
        key = _find_response_key(data)
        failures: list[ValidationFailure] = []  # of both parts, so that the model gets all problems at once
        response, metadata = "", None
        try:
            response = self._read_response(data, key, cursor)
        except ValidationFailure as failure:
            failures.append(failure)
        try:
            fields = {name: value for name, value in data.items() if name != key}
            metadata = self._record.read(fields, cursor)
        except ValidationFailure as failure:
            failures.append(failure)
        if failures:
            raise combine_failures(failures)
        return GeneratedResponse(response, metadata)

    def _read_response(self, data: dict[str, Json], key: str | None, cursor: Cursor) -> str:
        if key is None:
            message = f"the required field {_RESPONSE!r} is missing"
            raise ValidationFailure(Problem(cursor.child(_RESPONSE).path, message))
        if key != _RESPONSE:
            cursor.child(key).record("key in another form", key, _RESPONSE)
        return self._text.read(data[key], cursor.child(key))

    def write(self, value: object) -> Json:
        if not isinstance(value, GeneratedResponse):
            raise ValueError(f"expected {self.kind}, found {type(value).__name__}")
        return {_RESPONSE: value.response, **cast("dict[str, Json]", self._record.write(value.metadata))}


class _MetadataNode(WrapperNode[object]):
    """A parser that unwraps JSON such as ``{"metadata": 5}`` for output types such as int."""

    def read(self, data: Json, cursor: Cursor) -> object:
        return self.inner.read(data, cursor)["metadata"]

    def write(self, value: object) -> Json:
        return self.inner.write({"metadata": value})


def _find_response_key(fields: dict[str, object]) -> str | None:
    """Find the key "response" in a dict, or a variant such as "Response"; return None if it is missing."""
    if _RESPONSE in fields:
        return _RESPONSE
    return next((key for key in fields if normalize_key(key) == _RESPONSE), None)
