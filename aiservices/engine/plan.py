"""Data classes for service calls: method settings, the request, its arguments and its progress.

The plan is made once, when the service is created. Each call makes an Invocation, which is frozen:
interceptors change it by making copies. Everything that changes during the call is in its CallState, which
all copies share.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import uuid4

from output_parsers.result.reading import Json, JsonObject, Reading, Verifier

from ..interface.decorators import CallContext, MemoryId
from ..interface.parameters import function_name
from ..models.base import ChatModel
from ..models.errors import (
    Attempt,
    AttemptPurpose,
    BudgetExceededError,
    DefinitionError,
    DefinitionProblem,
    InnerCall,
    ModelError,
    SuspendedCallError,
    total_cost,
    usage_of,
)
from ..models.media_policy import MediaPolicy
from ..models.messages import AiMessage, ChatReply, Message, ToolCall, Usage
from ..models.requests import ChatOptions, ChatRequest, WaitingTime
from ..tools.tool import ToolErrors, ToolRun, WaitingCallDecision
from ..tools.toolbox import ProvidedTools, Toolbox
from .budget import Account, Budget, CallRecord, Listener, Price, Remaining, active_accounts, estimated_usage
from .effects import Flow
from .model_route import ModelFailover, ModelRoute
from .output_format import FewShotExample, OutputFormat

if TYPE_CHECKING:  # imported late, because few methods have adjustments or cite their values
    from output_parsers.types.evidence import Check

    from ..decisions.calibration import Adjustment
    from .results import Answer

T = TypeVar("T")
RequestHook: TypeAlias = Callable[[ChatRequest], ChatRequest]


class Transform(NamedTuple):
    """A hook that receives a request and its service call, and returns the request to send.

    Attributes:
        function: Returns the request to send.
    """

    function: Callable[[ChatRequest, Invocation], ChatRequest]


class DecisionPlan(NamedTuple):
    """The probabilities of answers that a method needs.

    Attributes:
        is_required: True if the output type contains a Decision.
        is_wanted: True if the probabilities of answers are always requested.
        votes: The number of samples that replace missing probabilities; 0 for none.
        adjustments: Calibrations and thresholds, by the JSON path of the answer, with ``[]`` for an index.
        unsure: Ask the next model if the probability of an answer is lower; "threshold" for the threshold of
            the answer, None for only after errors.
        interceptor: Requests answers with probabilities; see ``aiservices/decisions/requests.py``.
    """

    is_required: bool = False
    is_wanted: bool = False
    votes: int = 0
    adjustments: Mapping[str, Adjustment] = {}
    unsure: float | Literal["threshold"] | None = None
    interceptor: Callable[[Invocation, Callable[[Invocation], Flow[Answer]]], Flow[Answer]] | None = None


class AnswerReader(Protocol):
    """Reads answers whose replies must have more than a value, such as the probabilities of a Decision.

    Attributes:
        is_required: True if the call fails without it.
    """

    is_required: bool

    def lacking(self, reply: ChatReply, request: ChatRequest) -> ModelError | None:
        """Return the error for a reply that lacks what its request wanted; None if it has all."""
        ...

    def refused(self, error: ModelError, request: ChatRequest) -> ModelError | None:
        """Return the error for a request that was refused because it wanted more; None for other errors."""
        ...

    def read(self, output_format: OutputFormat, reply: ChatReply) -> Flow[Reading[object]]:
        """Parse a reply."""
        ...


class CallPlan(NamedTuple):
    """The models, options and tools of one service method, which are the same in all its calls.

    Attributes:
        qualname: The name of the method in messages, ``Service.method``.
        output_type: The type of the answer.
        is_async: True if the call is awaited, so that tools and interceptors may be async.
        routes: The models to ask, in order, each with the strategies for the output type.
        options: The options of the service and the method.
        toolbox: The tools that the model may call; None if there are none.
        tool_errors: Functions that choose the text for the model when a tool call fails.
        tool_interceptors: The ToolInterceptor and ToolCheck objects around each tool call.
        transform: A function that changes each request just before it is sent.
        role_names: The names of the parameters that are the memory id, the name of the user and the id of the
            call, by their markers ``MemoryId``, ``UserName`` and ``CallId``.
        decisions: What the method needs of the probabilities of its answers.
        check: What is verified of the Cited values of the answer; None if it contains none.
        cites_lines: True if the model writes the numbers of lines instead of quotes.
        media: Which images, sounds and files callers may pass; None for all.
        user_template: The template of the user message; None if an argument is the message.
        question_names: The names of the parameters that the user message shows, for the search of retrieval.
        fixed_system: The system message if no argument changes it, so that input guards need not check it.
        has_system: True if the method has a system message, which each call adds.
    """

    qualname: str
    output_type: Any
    is_async: bool
    routes: tuple[ModelRoute, ...]
    options: ChatOptions = ChatOptions()
    toolbox: Toolbox | None = None
    tool_errors: ToolErrors = ToolErrors()
    tool_interceptors: tuple[object, ...] = ()
    transform: RequestHook | Transform | None = None
    role_names: Mapping[type, str] = {}
    decisions: DecisionPlan = DecisionPlan()
    check: Check | None = None
    cites_lines: bool = False
    media: MediaPolicy | None = None
    user_template: str | None = None
    question_names: tuple[str, ...] = ()
    fixed_system: str | None = None
    has_system: bool = False

    @property
    def returns_nothing(self) -> bool:
        """True if the service method returns None, so that it is called only for its tools' side effects."""
        return self.output_type in (None, NoneType)

    @property
    def has_memory_id(self) -> bool:
        """True if a parameter of the method is the memory id."""
        return MemoryId in self.role_names

    @property
    def model(self) -> ChatModel:
        """The first language model of a service method, tried before the fallback models."""
        return self.routes[0].model

    @property
    def output_format(self) -> OutputFormat:
        """The output format (schema, tool or prompt text) for the first request to the first model."""
        return self.routes[0].output_format(self.options.model)

    def invocation(self, request: ChatRequest, state: CallState) -> Invocation:
        """Create the Invocation of a service call from a chat request instead of method arguments."""
        hooks = () if self.transform is None else (self.transform,)
        return Invocation(self, request, state, self.routes, self.toolbox, hooks)


@dataclass(slots=True)
class CallState:
    """The progress of one service call: the requests sent and the tools run so far.

    All copies of an Invocation share it.

    Attributes:
        budget: The limits of the call.
        started_at: When the call began, by ``time.monotonic()``.
        attempts: All requests so far, each with its purpose.
        conversation: The messages of the first request, without rejected answers; None before it.
        text_streamed: True once a stream has yielded text to the user. After that, no answer is requested
            again.
        output_format: The format of the last request; None before the first.
        route: The model of the last request, with its strategies; None before the first.
        failovers: The choice of models so far, by the routes to choose from.
        tool_messages: The calls of tools and their results, in all rounds of this call.
        tool_runs: The tool calls that were executed.
        round_runs: The tool calls of a round that is not over which were executed.
        tool_rounds: The number of rounds of tool calls so far.
        tool_calls: The number of tool calls in them.
        resumed_messages: For a resumed call, the number of tool messages that were already sent; 0 for other
            calls.
        earlier_requests: For a resumed call, the number of requests before it waited; 0 for other calls.
        interceptor_data: JSON that interceptors keep while a call waits for approval, by names of their own.
        suspended_id: For a resumed call, the id of its state; "" for other calls.
        enclosing: What the call also counts for, the outermost first: the SharedBudgets of ``with`` blocks
            around it, and the calls whose tools make it.
        inner: The calls that its tools made; None before the first tool of a call that is not an inner call.
        inner_listeners: The listeners that receive the events of these calls.
        estimated_usage: The estimated tokens of replies whose usage is unknown, with the names of the models;
            empty if the budget limits neither tokens nor money.
        messages_without_state: The number of messages at the start of a request that are sent without the
            state of their provider, because the provider refused it.
        sources: The passages that retrieval has added to the prompt so far.
        id: An id of the call, for logs.
        undoable: The tool calls that can be undone, in the order in which they succeeded; None before the
            first tool.
        provided_tools: What the tool providers have returned so far; None before the first request.
        is_abandoned: True if the caller no longer waits for the answer. Then no further request is sent.
        streamed_reading: A function of the text of the reply that returns what a stream has already read of
            it, so that validators run once; None without a stream.
        verifier: Verifies the quotes of the answer that is requested; None if the answer has none.
        waiting: Measures how long its requests wait for their turn, which is not time of the call; None if
            nothing limits its time.
        call_id: The id of a durable call that has no ``CallId`` parameter; None for other calls.
        recording: The DurableCall that records a durable call; None for other calls.
        trace: What telemetry knows of the call, a TracedCall; None if the call is not traced.
    """

    budget: Budget
    started_at: float = field(default_factory=time.monotonic)
    attempts: list[Attempt] = field(default_factory=list)
    conversation: tuple[Message, ...] | None = None
    text_streamed: bool = False
    output_format: OutputFormat | None = None
    route: ModelRoute | None = None
    failovers: dict[tuple[ModelRoute, ...], ModelFailover] = field(default_factory=dict)
    tool_messages: list[Message] = field(default_factory=list)
    tool_runs: list[ToolRun] = field(default_factory=list)
    round_runs: tuple[ToolRun, ...] = ()
    tool_rounds: int = 0
    tool_calls: int = 0
    resumed_messages: int = 0
    earlier_requests: int = 0
    interceptor_data: JsonObject = field(default_factory=dict)
    suspended_id: str = ""
    enclosing: tuple[Account, ...] = field(default_factory=active_accounts.get)
    inner: list[CallRecord] | None = None
    inner_listeners: tuple[Listener, ...] = ()
    estimated_usage: tuple[tuple[str, Usage], ...] = ()
    messages_without_state: int = 0
    sources: tuple[Any, ...] = ()
    provided_tools: ProvidedTools | None = None
    undoable: list[Any] | None = None
    is_abandoned: bool = False
    streamed_reading: Callable[[str], Reading[object] | None] | None = None
    waiting: WaitingTime | None = None
    call_id: str | None = None
    recording: Any = None
    verifier: Verifier | None = None
    trace: Any = None
    _id: str = ""

    @property
    def id(self) -> str:
        """A random id of the service call, for logs and traces."""
        if not self._id:  # created on demand, because most calls do not need it
            self._id = uuid4().hex
        return self._id

    @property
    def enclosing_call(self) -> EnclosingCall | None:
        """The outer call whose tool made this call; None without an outer call."""
        calls = (account for account in reversed(self.enclosing) if isinstance(account, EnclosingCall))
        return next(calls, None)

    @property
    def seconds(self) -> float:
        """The seconds since the start of the service call."""
        return time.monotonic() - self.started_at

    @property
    def deadline(self) -> float | None:
        """The ``time.monotonic()`` value at which the call must end; None without a time limit."""
        own = own_deadline(self)
        if not self.enclosing:
            return own
        limits = [own, *(account.deadline for account in self.enclosing)]
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the time limit of the service call; None without a limit."""
        deadline = self.deadline
        return None if deadline is None else deadline - time.monotonic()

    @property
    def remaining(self) -> Remaining:
        """The amounts that the call may still use under its own budget, shared budgets and outer calls."""
        budget, seconds = self.budget, self.seconds_left
        used = sum(attempt.purpose is AttemptPurpose.ANSWER for attempt in self.attempts)
        own = Remaining(
            max(0, budget.max_attempts - used),
            None if seconds is None else max(0.0, seconds),
            None if budget.tokens is None else max(0, budget.tokens - self.tokens),
            None if budget.money is None else max(0.0, budget.money - self.money),
            None if budget.requests is None else max(0, budget.requests - self.requests),
        )
        for account in self.enclosing:
            own = account.limit_remaining(own)
        return own

    @property
    def tokens(self) -> int:
        """The number of input and output tokens that the call and its inner calls have used so far."""
        total = sum([call.tokens for call in self.inner]) if self.inner else 0
        for attempt in self.attempts:
            if attempt.reply is not None and attempt.reply.usage is not None:
                total += attempt.reply.usage.total_tokens
        for _, usage in self.estimated_usage:
            total += usage.total_tokens
        return total

    @property
    def money(self) -> float:
        """The cost of the call and its inner calls so far, without requests whose price is unknown."""
        total = sum([call.money for call in self.inner]) if self.inner else 0.0
        for attempt in self.attempts:
            if attempt.reply is not None and attempt.reply.usage is not None:
                # The provider may report a more exact name than the one that was requested.
                price = self.price_of(attempt.reply.model, attempt.model)
                total += 0.0 if price is None else price.of(attempt.reply.usage)
        for name, usage in self.estimated_usage:
            price = self.price_of(name)
            total += 0.0 if price is None else price.of(usage)
        return total

    @property
    def requests(self) -> int:
        """The number of requests that the call and its inner calls have made so far."""
        own = len(self.attempts)
        return own + sum([call.requests for call in self.inner]) if self.inner else own

    def price_of(self, *names: str) -> Price | None:
        """Return a model's price from the budget of this call or of an outer call; None if it is unknown."""
        price = self.budget.price_of(*names)
        for account in reversed(self.enclosing):
            price = price or account.price_of(*names)
        return price

    def own_cost(self, prices: Budget | None = None) -> float | None:
        """Return the cost of the call without its inner calls, or None if a price or usage is unknown.

        ``prices`` take precedence over the budget's prices. With them, estimated tokens count where a server
        reported none.
        """
        estimates = () if prices is None else self.estimated_usage
        used = [
            (attempt.reply.model, attempt.model, attempt.reply.usage)
            for attempt in self.attempts
            if attempt.reply is not None and not (attempt.reply.usage is None and estimates)
        ]
        total = 0.0
        for reported, name, usage in [*used, *((name, name, usage) for name, usage in estimates)]:
            price = (prices and prices.price_of(reported, name)) or self.price_of(reported, name)
            if price is None or usage is None:
                return None
            total += price.of(usage)
        return total

    @property
    def cost(self) -> float | None:
        """The cost of the call and its inner calls; None if one of the prices is unknown."""
        if not (self.budget.prices or self.enclosing or self.inner):
            return None  # the usual case
        return total_cost(self.own_cost(), self.inner_calls())

    def inner_calls(self) -> tuple[InnerCall, ...]:
        """Return the inner calls that the tools of the call have made so far."""
        return tuple([call.inner_call() for call in self.inner]) if self.inner else ()

    def count_requests(self, number: int = 1) -> None:
        """Count requests that are about to be sent against the SharedBudgets and calls around this call."""
        for account in self.enclosing:
            account.add_request(number)

    def add_attempt(self, attempt: Attempt, request: ChatRequest, discarded_characters: int = 0) -> None:
        """Record a model request with its reply, and correct impossible token counts.

        If the reply has no usage and the budget limits tokens or money, its token counts are estimated.
        ``discarded_characters`` is the length of received text that the reply does not contain.
        """
        reply = attempt.reply
        if reply is not None:
            if reply.usage is not None and not _is_possible(reply.usage):
                reply = replace(reply, usage=_valid_usage(reply.usage, attempt.model))
                attempt = attempt._replace(reply=reply)
            usage = reply.usage
            if usage is None and self.limits_usage:
                usage = estimated_usage(request, reply, discarded_characters)
                self.estimated_usage += ((attempt.model, usage),)
            for account in self.enclosing:
                # An enclosing call adds up the attempts of its inner calls when it needs the sum.
                if not isinstance(account, EnclosingCall):
                    account.add(usage or Usage(), self.budget, reply.model, attempt.model)
        self.attempts.append(attempt)

    @property
    def limits_usage(self) -> bool:
        """True if the budget of the call, a shared budget or an outer call limits tokens or cost."""
        if self.budget.limits_usage or not self.enclosing:
            return self.budget.limits_usage
        return any(account.limits_usage for account in self.enclosing)

    def with_deadline(self, request: ChatRequest) -> ChatRequest:
        """Return a copy of the chat request with the time limit of the service call as the deadline."""
        if self.waiting is None:
            return request
        return replace(request, deadline=self.deadline, waiting=WaitingTime(self.waiting))

    def set_purpose(self, purpose: AttemptPurpose, since: int) -> None:
        """Set the purpose (answer, tool round or side question) of the attempts from index ``since`` on."""
        for index in range(since, len(self.attempts)):
            self.attempts[index] = self.attempts[index]._replace(purpose=purpose)

    def exceeded(
        self, *, is_side_question: bool = False, own_only: bool = False
    ) -> BudgetExceededError | None:
        """Return an error if a limit on requests, time, tokens or cost has been reached, else None.

        Side questions are not limited by ``max_attempts``. With ``own_only`` the enclosing budgets are not
        checked.
        """
        budget = self.budget
        if self.is_abandoned:
            return BudgetExceededError("the caller is no longer waiting", limit="seconds")
        late = _late_error(self)
        if late is not None:
            return late
        used = 0  # rounds of tools and side questions do not count
        for attempt in self.attempts:
            used += attempt.purpose is AttemptPurpose.ANSWER
        if used >= budget.max_attempts and not is_side_question:
            return _exceeded("max_attempts", f"{used} of {budget.max_attempts} attempts used")
        if budget.requests is not None and self.requests >= budget.requests:
            return _exceeded("requests", f"{self.requests} of {budget.requests} requests sent")
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return _exceeded("tokens", f"{self.tokens} of {budget.tokens} tokens used")
        if budget.money is not None and self.money >= budget.money:
            return _exceeded("money", f"{self.money:.6g} of {budget.money:g} spent")
        return _enclosing_exceeded(self) if self.enclosing and not own_only else None

    def may_retry(self) -> bool:
        """Return True if the service call may send another request after an error or an invalid answer.

        It may not after a stream has yielded text, because the user already has a part of the first answer.
        """
        return not self.text_streamed and self.exceeded() is None


_reported_models: set[str] = set()


def own_deadline(state: CallState) -> float | None:
    """Return the ``time.monotonic()`` value at which the own budget of a call ends its time, or None."""
    seconds = state.budget.seconds
    if seconds is None:
        return None
    return state.started_at + seconds + (0.0 if state.waiting is None else state.waiting.seconds)


def time_exceeded(state: CallState) -> BudgetExceededError:
    """Return the error for a service call that has reached its time limit."""
    return _late_error(state) or _enclosing_exceeded(state) or _too_late(state)


def _late_error(state: CallState) -> BudgetExceededError | None:
    deadline = own_deadline(state)
    return _too_late(state) if deadline is not None and time.monotonic() >= deadline else None


def _too_late(state: CallState) -> BudgetExceededError:
    waited = 0.0 if state.waiting is None else state.waiting.seconds
    passed = f"{state.seconds - waited:.1f} of {state.budget.seconds or 0:g} seconds passed"
    return _exceeded("seconds", passed + (f", after {waited:.1f} in a queue" if waited >= 0.05 else ""))


def _enclosing_exceeded(state: CallState) -> BudgetExceededError | None:
    errors = (account.exceeded() for account in state.enclosing)
    return next((error for error in errors if error is not None), None)


def _is_possible(usage: Usage) -> bool:
    try:
        return (
            usage.cached_tokens >= 0
            and usage.cache_write_tokens >= 0
            and usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens
            and usage.output_tokens >= 0
            and usage.reasoning_tokens >= 0
        )
    except TypeError:  # the server sent strings instead of numbers
        return False


def _valid_usage(usage: Usage, model: str) -> Usage | None:
    """Fix impossible token counts, such as negative ones or fewer input tokens than cached tokens.

    Returns None if the counts are not numbers. The first impossible counts of each model are logged.
    """
    if model not in _reported_models:
        _reported_models.add(model)
        logging.getLogger("aiservices").warning("%s reported impossible token counts: %s", model, usage)
    try:
        counts = Usage(*[max(0, getattr(usage, one.name)) for one in fields(usage)])
        # Some servers do not count what was read from the cache or written to it as input.
        return replace(
            counts, input_tokens=max(counts.input_tokens, counts.cached_tokens + counts.cache_write_tokens)
        )
    except TypeError:
        return None


def _exceeded(limit: str, message: str) -> BudgetExceededError:
    return BudgetExceededError(f"budget exceeded: {message}; raise Budget({limit}=…)", limit=limit)


@dataclass(frozen=True, slots=True)
class Invocation(CallContext):
    """The data of one call of a service method, such as the chat request and the arguments.

    Attributes:
        plan: The models, options and tools of the method.
        request: The request to be made: messages and options. The engine adds the output format and the
            tools.
        state: The state of the call: attempts, messages of tools, data of interceptors.
        routes: The models to ask.
        toolbox: The tools that the model may call; None if there are none.
        request_hooks: Functions that see, and may change, each request just before it is sent, in this order.
        arguments: The arguments of the call, by parameter name.
        memory_id: The argument that is the memory id.
        user_name: The argument that is the name of the user.
        tool_context: The arguments that only tools, retrievers and listeners see, by parameter name.
        examples: Few-shot examples that are put before the user message.
        approvals: For each tool call that waited, by its id: True, False, Denied or an ExternalResult.
        answer_reader: Reads the answers instead of the output format; None for most calls.
        late_messages: Returns the messages of the request, if an async function makes the system message; the
            request has none until then.
    """

    plan: CallPlan
    request: ChatRequest
    state: CallState
    routes: tuple[ModelRoute, ...]
    toolbox: Toolbox | None = None
    request_hooks: tuple[RequestHook | Transform, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    memory_id: Any = None
    user_name: Any = None
    tool_context: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[FewShotExample, ...] = ()
    approvals: Mapping[str, WaitingCallDecision] = field(default_factory=dict)
    answer_reader: AnswerReader | None = None
    late_messages: Callable[[], Awaitable[tuple[Message, ...]]] | None = None

    def with_messages(self, messages: tuple[Message, ...]) -> Invocation:
        """Return a copy of the service call whose request has the given messages."""
        return replace(self, request=replace(self.request, messages=messages), late_messages=None)

    @property
    def id(self) -> str:
        """A random id of the service call, by which logs and listeners tell concurrent calls apart."""
        return self.state.id

    @property
    def qualname(self) -> str:
        """The name of the service and the method, as in "Service.method"."""
        return self.plan.qualname

    @property
    def known_toolbox(self) -> Toolbox | None:
        """The tools that the model may call, with those that providers have given so far."""
        provided = self.state.provided_tools
        return self.toolbox if provided is None else provided.toolbox

    @property
    def attempt_number(self) -> int:
        """The number of the latest request of the service call, counted from 1; 0 before the first."""
        number = self.state.earlier_requests
        for attempt in self.state.attempts:  # rounds of tools count; side questions of interceptors do not
            number += attempt.purpose is not AttemptPurpose.SIDE_QUESTION
        return number

    @property
    def remaining(self) -> Remaining:
        """The amounts that the call may still use, such as tokens or seconds. None means no limit."""
        return self.state.remaining

    @property
    def is_abandoned(self) -> bool:
        """True if the caller no longer waits for the answer.

        The service call has failed or was cancelled, or its stream was closed. A tool that runs in a thread
        can check it, because a thread cannot be stopped.
        """
        return self.state.is_abandoned

    @property
    def parent(self) -> Invocation | None:
        """The outer call whose tool made this call; None without an outer call."""
        enclosing = self.state.enclosing_call
        return None if enclosing is None else enclosing.invocation

    @property
    def parent_id(self) -> str | None:
        """The id of the outer call whose tool made this call; None without an outer call."""
        parent = self.parent
        return None if parent is None else parent.id

    @property
    def parent_tool_call(self) -> ToolCall | None:
        """The outer call's tool call that made this call; None without an outer call."""
        enclosing = self.state.enclosing_call
        return None if enclosing is None else enclosing.tool_call

    @property
    def sources(self) -> tuple[Any, ...]:
        """The retrieved passages that have been added to the service call's prompt so far."""
        return self.state.sources

    @property
    def is_resumed(self) -> bool:
        """True if the call was resumed and its approved tool calls have not run yet."""
        messages = self.state.tool_messages
        return bool(messages) and isinstance(messages[-1], AiMessage) and bool(messages[-1].tool_calls)

    @property
    def messages_sent(self) -> int:
        """The number of messages with tool calls or results that the chat request already contains."""
        messages = self.state.tool_messages
        if not messages:
            return 0
        return self.state.resumed_messages if self.is_resumed else len(messages)

    def stored_data(self, name: str, read: Callable[[Json], T]) -> T | None:
        """Return what an interceptor stored when the service call was suspended, or None.

        ``read`` converts the data from JSON. If it fails, the data is damaged, and SuspendedCallError is
        raised.
        """
        data = self.state.interceptor_data
        if name not in data:
            return None
        try:
            return read(data[name])
        except Exception as error:  # the data may be any JSON
            raise SuspendedCallError(
                f"{self.plan.qualname}: the suspended call is damaged: "
                f'$.kept["{name}"] is not what was stored there: {error!r}'
            ) from error

    def apply_request_hooks(self, request: ChatRequest) -> ChatRequest:
        """Call the request hooks in order, and return the modified request.

        Raises DefinitionError if a hook does not return a request.
        """
        for hook in self.request_hooks:
            if isinstance(hook, Transform):
                function: Callable[..., object] = hook.function
                request = hook.function(request, self)
            else:
                function, request = hook, hook(request)
            if not isinstance(request, ChatRequest):
                kind = type(request).__name__
                message = f"{function_name(function)} returned {kind}; it must return a ChatRequest"
                raise DefinitionError([DefinitionProblem(self.plan.qualname, message)])
        return request

    def with_request_hook(self, hook: RequestHook) -> Invocation:
        """Return a copy of the service call with an additional function that changes its requests."""
        return replace(self, request_hooks=(*self.request_hooks, hook))


class EnclosingCall:
    """An outer service call, whose budget also limits the inner calls made by its tools.

    Attributes:
        invocation: The call.
        tool_call: The call of the tool.
        is_over: True once the tool has taken too long, so that its calls are no longer awaited.
    """

    keeps_calls = True

    def __init__(self, invocation: Invocation, tool_call: ToolCall | None) -> None:
        self.invocation = invocation
        self.tool_call = tool_call
        self.is_over = False

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners of the outer call that also receive the events of inner calls."""
        return self.invocation.state.inner_listeners

    @property
    def deadline(self) -> float | None:
        """The time at which the outer call must end because of its own budget; None without a limit."""
        return own_deadline(self.invocation.state)

    @property
    def limits_usage(self) -> bool:
        """True if the budget of the outer call limits tokens or cost."""
        return self.invocation.state.budget.limits_usage

    def add_call(self, call: CallRecord) -> None:
        """Store the record of an inner call that a tool has just started."""
        assert self.invocation.state.inner is not None, "it was made before the tools started"
        self.invocation.state.inner.append(call)

    def add_request(self, count: int = 1) -> None:
        """Do nothing, because the records of inner calls already count their requests."""

    def add(self, usage: Usage, budget: Budget, *models: str, share: float = 1.0) -> None:
        """Add the tokens of a reply that belongs to no inner call, such as one from a batch."""
        self.invocation.state.estimated_usage += ((models[0], usage),)

    def price_of(self, *names: str) -> Price | None:
        """Return the price of a model from the budget of the outer call, or None."""
        return self.invocation.state.budget.price_of(*names)

    def limit_remaining(self, remaining: Remaining) -> Remaining:
        """Return a copy of ``remaining`` in which no amount is larger than the outer call may use."""
        state = self.invocation.state
        budget = state.budget
        return remaining.limited_to(budget, state.tokens, state.money, state.requests)

    def exceeded(self) -> BudgetExceededError | None:
        """Return an error if the outer call and its inner calls have used up the budget, else None."""
        qualname = self.invocation.plan.qualname
        if self.is_over:
            message = "the tool took too long, so the call no longer waits for it"
            return BudgetExceededError(f"{qualname}: {message}", limit="seconds")
        error = self.invocation.state.exceeded(is_side_question=True, own_only=True)
        return error and BudgetExceededError(f"{qualname}: {error}", limit=error.limit)


class RunningCall:
    """The record of a running service call, kept by its outer call and by shared budgets.

    Attributes:
        state: The state of the call.
        error: Why the call failed; None if it did not.
        seconds: Wall time of the call; None while it runs.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._qualname = invocation.plan.qualname
        self.state = invocation.state
        self.error: BaseException | None = None
        self.seconds: float | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the service call and its inner calls."""
        return self.state.tokens

    @property
    def money(self) -> float:
        """The cost of the service call and its inner calls, without requests whose price is unknown."""
        return self.state.money

    @property
    def requests(self) -> int:
        """The number of requests of the service call and its inner calls."""
        return self.state.requests

    def inner_call(self, prices: Budget | None = None) -> InnerCall:
        """Return a snapshot of the call's usage, as described in ``CallRecord``."""
        state = self.state
        attempts = tuple(state.attempts)  # copied, because another thread may append to it
        usage = usage_of(attempts)
        if prices is not None:
            for _, estimate in state.estimated_usage:
                usage = estimate if usage is None else usage + estimate
        return InnerCall(
            self._qualname,
            state.id,
            usage,
            state.own_cost(prices),
            state.seconds if self.seconds is None else self.seconds,
            self.error,
            tuple([call.inner_call(prices) for call in state.inner or ()]),
        )
