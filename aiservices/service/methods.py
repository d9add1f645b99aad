"""Implement the methods of a service, and call, resume or preview them from other code.

``preview`` returns the chat request of a method without sending it.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from functools import partial, wraps
from html import escape
from types import FunctionType, MappingProxyType, new_class
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, get_origin, overload

from output_parsers.result.reading import Json

from ..engine.approval import Approvals, SuspendedCall, resumed_invocation
from ..engine.budget import Budget, Listener
from ..engine.drivers import arun, astream, run, stream
from ..engine.effects import Emit, Flow
from ..engine.flows import hold_back
from ..engine.interceptor import Interceptor, InterceptorKind, attributes_of, interceptor_order_problems
from ..engine.model_route import ModelRoute
from ..engine.output_format import OutputFormat, without_instructions
from ..engine.pipeline import Pipeline
from ..engine.plan import CallPlan, Invocation, Transform
from ..engine.results import Answer, Result
from ..engine.retry import retry_problems
from ..engine.streams import Accepted, AsyncStream, ItemStream, Stream, TextChunks, aiterate, iterate
from ..engine.tool_execution import awaited_parts
from ..interface.decorators import CallContext, MemoryId, has_own_init
from ..interface.parameters import Role, function_name, is_async, memory_id_from_data, unwrapped
from ..models.base import ChatModel
from ..models.errors import (
    AiServiceError,
    DefinitionError,
    DefinitionProblem,
    MemoryIdError,
    Strategy,
    SuspendedCallError,
    hide_library_frames,
)
from ..models.messages import AiMessage, Message, SystemMessage, ToolMessage, UserMessage
from ..models.requests import (
    ChatOptions,
    ChatRequest,
    DecisionFormat,
    JsonSchemaFormat,
    Question,
    ToolSpecification,
)
from ..tools.tool import REMOTE_CALL, REMOTE_RESUME, SERVICE_METHOD, YIELDS_TEXT
from .compile import MethodPlan
from .signatures import ReturnShape

P = ParamSpec("P")
R = TypeVar("R")
Reduce: TypeAlias = Callable[[object], tuple[object, ...]]


def resume(
    method: Callable[P, R],
    state: SuspendedCall,
    approvals: Approvals = MappingProxyType({}),
    /,
    *,
    results: Mapping[str, object] = MappingProxyType({}),
    **tool_context: object,
) -> R:
    """Continue a service call after its tool calls were approved, and return the answer.

    The budget starts over, and routing starts again at the first model.

    Args:
        method: The method of a service that was called, or of a remote client.
        state: The state of the call, from ApprovalRequiredError.
        approvals: True or False for all pending tool calls, or a dict with True, False or Denied by the id of
            each of them. False and Denied also refuse calls of external tools.
        results: The results of external tools, by the id of each call: values of the return type of the tool,
            or JSON data that fits it.
        **tool_context: Values for tool parameters that the model does not see, by name, and the argument of
            a ``Tools`` parameter. They are not part of the state, except MemoryId and UserName.

    Raises:
        SuspendedCallError: The state belongs to another method, is damaged or has expired, or the service
            does not have the model that wrote the calls, or an external tool that was called.
        ValueError: There is not one decision or result for each pending call, or a result does not fit the
            return type of its tool.
        TypeError: A decision is not True, False or Denied.
        AlreadyResumedError: The state was resumed before. Only a service with a ChatMemory and a remote
            service detect this. Otherwise the same state runs the approved tools again.
    """
    remote = getattr(method, REMOTE_RESUME, None)
    if remote is not None:
        if tool_context:
            names = ", ".join(tool_context)
            raise TypeError(f"{names}: the server sets these values; a remote client cannot pass them")
        remote_value: R = remote(state, approvals, results)
        return remote_value
    service_method = service_method_of(method)
    try:
        value: R = service_method.resume(state, approvals, tool_context, results)
        return value
    except AiServiceError as error:
        hide_library_frames(error)
        raise


def invocation_to_resume(
    service_method: ServiceMethod,
    state: SuspendedCall,
    approvals: Approvals,
    tool_context: Mapping[str, object],
    results: Mapping[str, object],
) -> Invocation:
    """Return the Invocation of a suspended call, with the decisions about its tool calls."""
    plan = service_method.plan
    if "results" in plan.prompt.context_names and results:
        if isinstance(state, SuspendedCall) and state.external:
            raise TypeError(f"{plan.call.qualname} has a parameter called results, as resume has; rename it")
        tool_context, results = {**tool_context, "results": results}, {}
    toolbox, tools_name = plan.call.toolbox, plan.prompt.role_names.get(Role.TOOLS, "")
    if tools_name in tool_context:
        toolbox = plan.toolbox_with(tool_context[tools_name], plan.prompt.signature.parameters)
    invocation = resumed_invocation(plan.call, state, approvals, service_method.budget, results, toolbox)
    memory_id = _memory_id_of(state, plan)
    roles = {Role.MEMORY_ID: memory_id, Role.USER_NAME: state.user_name}
    arguments = {}
    for role, name in plan.prompt.role_names.items():
        # A stored None may mean that nothing was stored: pass it to tools only if the parameter allows it.
        argument = roles.get(role)
        may_be_none = role in roles and plan.prompt.signature.parameters[name].default is None
        if argument is not None or may_be_none:
            arguments[name] = argument
    examples = plan.prompt.rendered_examples()
    return replace(
        invocation,
        arguments={**arguments, **tool_context},
        tool_context=tool_context,
        examples=examples,
        memory_id=memory_id,
    )


def _memory_id_of(state: SuspendedCall, plan: MethodPlan) -> object:
    """Return the memory id of a suspended call, in the type of the method's parameter."""
    hint = next((one.hint for one in plan.prompt.parameters if one.role is Role.MEMORY_ID), None)
    if hint is None:
        return state.memory_id
    try:
        return memory_id_from_data(state.memory_id, hint)
    except (MemoryIdError, ValueError) as error:
        message = f"{plan.call.qualname}: the memory id of the suspended call is damaged: {error}"
        raise SuspendedCallError(message) from error


class ServiceMethod(NamedTuple):
    """A generated service method: its plan, its limits, and the function that runs a call.

    Attributes:
        plan: The plan of the method.
        budget: The limits of each call.
        start: Runs an invocation and returns what the method returns.
        shares_conversation: True if all callers share one conversation: there is a memory, but no memory id.
        is_streamed: True if the request is streamed.
        pipeline: The interceptors and listeners of the service and the method.
    """

    plan: MethodPlan
    budget: Budget
    start: Callable[[Invocation], object]
    shares_conversation: bool
    is_streamed: bool
    pipeline: Pipeline

    @property
    def call_plan(self) -> CallPlan:
        """The models, options and tools of the method."""
        return self.plan.call

    def resume(
        self,
        state: SuspendedCall,
        approvals: Approvals,
        tool_context: Mapping[str, object],
        results: Mapping[str, object],
    ) -> Any:
        """Continue a suspended call of the method, and return the method's result."""
        return self.start(invocation_to_resume(self, state, approvals, tool_context, results))


def service_method_of(method: object) -> ServiceMethod:
    """Return the ServiceMethod object of a generated method.

    Raises TypeError for other objects.
    """
    service_method = getattr(method, SERVICE_METHOD, None)
    if not isinstance(service_method, ServiceMethod):
        if hasattr(method, REMOTE_RESUME):
            raise TypeError(
                f"{getattr(method, '__qualname__', method)} is a method of a remote client; its prompt and "
                "model are known only where the service runs, so pass the method of the service there"
            )
        raise TypeError(f"{method!r} is not a method of a service made by create; pass one")
    return service_method


def plan_of(method: object) -> MethodPlan:
    """Return the plan (prompt, models and return type) of a generated service method.

    Raises TypeError for other functions.
    """
    return service_method_of(method).plan


def is_service_method(method: object) -> bool:
    """Return True if an object is a method that this library generated to call a language model."""
    return isinstance(getattr(method, SERVICE_METHOD, None), ServiceMethod)


class CallPath(NamedTuple):
    """The interceptors and listeners for the calls of a method, and the limits of each call."""

    pipeline: Pipeline
    budget: Budget

    def problems(self, location: str, routes: Iterable[ModelRoute]) -> Iterator[DefinitionProblem]:
        """Yield an error for each wrong limit, retry and order of interceptors; ``routes`` are the models."""
        interceptors = self.pipeline.interceptors
        yield from self.budget.problems(location, dict.fromkeys(route.model.name for route in routes))
        yield from retry_problems(location, interceptors, self.budget)
        yield from interceptor_order_problems(location, interceptors)


def implement(
    interface: type[object], plans: Mapping[str, MethodPlan], paths: Mapping[str, CallPath], reduce: Reduce
) -> type[object]:
    """Return a subclass of an interface in which the methods without a body call a model.

    A subclass of a generic interface, such as ``Box[int]``, keeps the arguments of its type.

    Each planned method replaces the method without a body of the same name. ``reduce`` returns what pickle
    stores of a service.
    """
    cls = get_origin(interface) or interface

    def body(namespace: dict[str, object]) -> None:
        namespace["__module__"] = cls.__module__
        namespace["__doc__"] = cls.__doc__
        if not has_own_init(cls):
            namespace["__init__"] = _init_without_arguments
        if not any("__repr__" in vars(base) for base in cls.__mro__[:-1]):
            models = ", ".join(dict.fromkeys(plan.call.model.name for plan in plans.values()))
            namespace["__repr__"] = lambda self: f"<{cls.__name__} service, model={models!r}>"
        if not any("__reduce__" in vars(base) or "__reduce_ex__" in vars(base) for base in cls.__mro__[:-1]):
            namespace["__reduce__"] = lambda self: reduce(self)
        for name, plan in plans.items():
            namespace[name] = _implement_method(getattr(cls, name), plan, *paths[name])

    return new_class(cls.__name__, (interface,), exec_body=body)


def _init_without_arguments(self: object) -> None:
    """Do nothing; replaces the ``__init__`` of Protocol classes, which can raise an error."""


def _implement_method(stub: FunctionType, plan: MethodPlan, pipeline: Pipeline, budget: Budget) -> object:
    start, invocation = start_function(plan, pipeline), plan.invocation

    def call(self: object, /, *args: object, **kwargs: object) -> object:
        try:
            return start(invocation(args, kwargs, budget))
        except AiServiceError as error:
            hide_library_frames(error)
            raise

    async def acall(self: object, /, *args: object, **kwargs: object) -> object:
        try:
            return await start(invocation(args, kwargs, budget))
        except AiServiceError as error:
            hide_library_frames(error)
            raise

    is_coroutine = plan.returns.is_async and not plan.returns.is_stream
    method: Any = wraps(stub)(acall if is_coroutine else call)
    method.__isabstractmethod__ = False  # ``wraps`` copied True from an abstract method
    if plan.returns.shape is ReturnShape.TEXT_STREAM:
        setattr(method, YIELDS_TEXT, True)
    shares_conversation = pipeline.remembers_callers and not plan.call.has_memory_id
    is_streamed = plan.returns.is_stream and not pipeline.blocks_streaming
    setattr(
        method, SERVICE_METHOD, ServiceMethod(plan, budget, start, shares_conversation, is_streamed, pipeline)
    )
    return method


def start_function(plan: MethodPlan, pipeline: Pipeline) -> Callable[[Invocation], Any]:
    """Return a function that runs a service call and returns the value, directly or as a stream."""
    flow = pipeline.flow
    match plan.returns.shape, plan.returns.is_async:
        case ReturnShape.VALUE, False:
            return lambda invocation: run(flow(invocation)).value
        case ReturnShape.VALUE, True:

            async def avalue(invocation: Invocation) -> object:
                return (await arun(flow(invocation))).value

            return avalue
        case ReturnShape.RESULT, False:
            return lambda invocation: result_of(run(flow(invocation)), invocation)
        case ReturnShape.RESULT, True:

            async def aresult(invocation: Invocation) -> object:
                return result_of(await arun(flow(invocation)), invocation)

            return aresult
        case ReturnShape.STREAM, is_async:
            return partial(start_stream, pipeline, is_async=is_async)
        case shape, is_async:
            source = TextChunks if shape is ReturnShape.TEXT_STREAM else ItemStream
            iterator = aiterate if is_async else iterate
            return lambda invocation: iterator(streaming_flow(pipeline, invocation), source(invocation))


def result_of(answer: Answer, invocation: Invocation) -> Result[object]:
    """Convert the answer of a service call to a Result, which also has its requests and duration."""
    state = invocation.state
    messages = [*map(without_instructions, state.conversation or invocation.request.messages)]
    if invocation.plan.has_system and messages and isinstance(messages[0], SystemMessage):
        del messages[0]  # each call adds it again
    return answer.result(state.attempts, state.seconds, state.cost, state.inner_calls(), messages)


def start_stream(
    pipeline: Pipeline, invocation: Invocation, *, is_async: bool
) -> Stream[object] | AsyncStream[object]:
    """Return the stream of a service call, whose request is sent when the stream is first read."""
    flow, make_result = streaming_flow(pipeline, invocation), partial(result_of, invocation=invocation)
    if is_async:
        return AsyncStream(astream(flow), make_result, invocation.state)
    return Stream(stream(flow), make_result, invocation.state)


def streaming_flow(pipeline: Pipeline, invocation: Invocation) -> Flow[None]:
    """Run a service call that is streamed, and emit the final answer as the last event.

    If an interceptor may change or refuse the answer, the stream yields nothing before it has decided.
    """
    flow = pipeline.flow(invocation)
    answer = yield from hold_back(flow) if pipeline.blocks_streaming else flow
    yield Emit(Accepted(answer))


def memory_id_problems(
    plans: Iterable[MethodPlan], interceptors: Iterable[Interceptor], listeners: Sequence[Listener]
) -> Iterator[DefinitionProblem]:
    """Yield an error for each method with a MemoryId parameter that nothing in the service uses."""
    if listeners or any(attributes_of(one).kind.uses_memory_id for one in interceptors):
        return
    for plan in plans:
        toolbox = plan.call.toolbox
        tools = () if toolbox is None else toolbox.tools.values()
        has_reader = (
            plan.prompt.shows_memory_id
            or plan.prompt.system_takes_invocation
            or isinstance(plan.call.transform, Transform)
            or (toolbox is not None and toolbox.providers)
            or any({MemoryId, CallContext} & set(tool.injected.values()) for tool in tools)
        )
        if not plan.call.has_memory_id or has_reader:
            continue
        name = plan.prompt.role_names[Role.MEMORY_ID]
        message = (
            f"{name} is the id of a conversation, and nothing uses it; add interceptors=[ChatMemory()], from "
            "aiservices.memory"
        )
        yield DefinitionProblem(plan.call.qualname, message)


def call_id_problems(
    plans: Iterable[MethodPlan], interceptors: Iterable[Interceptor]
) -> Iterator[DefinitionProblem]:
    """Yield an error for each method with a CallId parameter whose calls nothing records."""
    kinds = {attributes_of(one).kind for one in interceptors}
    if InterceptorKind.DURABLE in kinds or InterceptorKind.OTHER in kinds:
        return
    for plan in plans:
        name = plan.prompt.role_names.get(Role.CALL_ID)
        if name is not None:
            message = (
                f"{name} is the id of a durable call, and nothing records it; add "
                'interceptors=[Durable(Journal("calls.db"))]'
            )
            yield DefinitionProblem(plan.call.qualname, message)


def no_effect_problems(
    plans: Iterable[MethodPlan], interceptors: Iterable[Interceptor]
) -> Iterator[DefinitionProblem]:
    """Yield an error for each method that returns None although its calls have no effect."""
    if any(attributes_of(one).kind.has_effects for one in interceptors):
        return
    for plan in plans:
        call = plan.call
        is_pointless = call.toolbox is None and not call.options.server_tools
        if is_pointless and call.returns_nothing and plan.returns.shape is ReturnShape.VALUE:
            message = (
                "it returns None and has no tools, so a call would do nothing; pass tools, or annotate the "
                "type of the answer"
            )
            yield DefinitionProblem(call.qualname, message)


def unchecked_media_problems(
    plans: Iterable[MethodPlan], interceptors: Sequence[Interceptor]
) -> Iterator[DefinitionProblem]:
    """Yield an error for each method with media, such as images, that an interceptor cannot check."""
    for plan in plans:
        parts = [part for p in plan.prompt.parameters if p.role is Role.MEDIA for part in p.parts]
        for interceptor in interceptors:
            classes = attributes_of(interceptor).unchecked_media
            kinds = dict.fromkeys(part.kind for part in parts if part in classes)
            if kinds:
                name = type(interceptor).__name__
                message = (
                    f"{name} cannot check {' or '.join(kinds)}; pass a moderator whose media_types include "
                    'it, or let it pass unchecked with media="skip"'
                )
                yield DefinitionProblem(plan.call.qualname, message)


def async_in_blocking_problems(
    location: str,
    plans: Mapping[str, MethodPlan],
    interceptors: Iterable[Interceptor],
    listeners: Iterable[Listener],
) -> Iterator[DefinitionProblem]:
    """Yield an error for each async interceptor or listener of a service that has blocking methods."""
    blocking = ", ".join(name for name, plan in plans.items() if not plan.returns.is_async)
    if not blocking:
        return
    for name in async_names(interceptors, listeners):
        message = f"{name} is async; only async methods can await it, and these are blocking: {blocking}"
        yield DefinitionProblem(location, message)


def async_names(interceptors: Iterable[Interceptor], listeners: Iterable[Listener]) -> list[str]:
    """Return the names of the interceptors and listeners that must be awaited."""
    names = [name for one in interceptors for name in attributes_of(one).async_parts]
    return names + [f"the listener {function_name(unwrapped(one))}" for one in listeners if is_async(one)]


def async_parts_of(plan: CallPlan, pipeline: Pipeline) -> list[str]:
    """Return the names of the tool providers, interceptors and listeners that only async calls can await."""
    toolbox = plan.toolbox
    tools, providers = ((), ()) if toolbox is None else (toolbox.declared, toolbox.providers)
    names = [f"{type(one).__name__}.tools" for one in providers if is_async(one.tools)]
    names += awaited_parts(tools, plan.tool_interceptors)
    return names + async_names(pipeline.interceptors, pipeline.listeners)


def never_awaited_problems(location: str, functions: Mapping[str, object]) -> Iterator[DefinitionProblem]:
    """Yield an error for each async function passed to a setting that needs a non-async function."""
    for name, function in functions.items():
        if is_async(function):
            message = f"{name} is an async function, and nothing awaits it; make it a plain function"
            yield DefinitionProblem(location, message)


# --- Acall and call ---

T = TypeVar("T")


# Type checkers take the first overload that fits. The last one is for methods that return a value or a
# Result. For mypy it overlaps with the others: a value may have any type.
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, Stream[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncStream[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, AsyncStream[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncStream[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]: ...
@overload
def acall(  # type: ignore[overload-overlap]
    method: Callable[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs
) -> AsyncIterator[T]: ...
@overload
def acall(
    method: Callable[P, Coroutine[object, object, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[object, object, T]: ...
@overload
def acall(method: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, T]: ...
def acall(method: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """Call a blocking service method from async code and await its value::

        ticket = await acall(desk.ticket, text="My screen is dark.")
        async for snapshot in acall(desk.growing, text="My screen is dark."): ...

    The call is really async: requests do not block the event loop, and async tools that appear during the
    call can be awaited. A method that returns a Stream or an Iterator gives an AsyncStream or an
    AsyncIterator, which is not awaited. An async method is called as it is.

    Args:
        method: A method of a service that ``create`` made, or of a remote client.
        *args: The arguments of the method.
        **kwargs: More arguments, by name.

    Raises:
        TypeError: It is another function, or one with a decorator that would be skipped.
    """
    return _call(method, args, kwargs, is_async=True)


@overload
def call(method: Callable[P, AsyncStream[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
@overload
def call(method: Callable[P, Stream[T]], /, *args: P.args, **kwargs: P.kwargs) -> Stream[T]: ...
@overload
def call(method: Callable[P, AsyncIterator[T]], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]: ...
@overload
def call(method: Callable[P, Coroutine[object, object, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
def call(method: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def call(method: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """Call an async service method from blocking code, and return its value::

        ticket = call(async_desk.ticket, text="My screen is dark.")

    No event loop is needed. A method that returns an AsyncStream or an AsyncIterator gives a Stream or an
    Iterator. A blocking method is called as it is.

    Args:
        method: A method of a service that ``create`` made, or of a remote client.
        *args: The arguments of the method.
        **kwargs: More arguments, by name.

    Raises:
        DefinitionError: A tool, an interceptor or a listener is async, so only async code can await it.
        TypeError: It is another function, or one with a decorator that would be skipped.
    """
    return _call(method, args, kwargs, is_async=False)


def _call(
    method: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object], *, is_async: bool
) -> object:
    remote = getattr(method, REMOTE_CALL, None)
    if remote is not None:
        return remote(args, kwargs, is_async=is_async)
    if is_service_method(getattr(method, "__wrapped__", None)):
        # functools.wraps copies the attributes of the method, so only the decorator is lost
        name = getattr(method, "__qualname__", method)
        raise TypeError(f"{name} has a decorator, which would be skipped; call it, or pass the method itself")
    service_method = service_method_of(method)
    plan = service_method.plan
    if plan.returns.is_async is is_async:
        return method(*args, **kwargs)
    try:
        if not is_async:
            _check_blocking(plan.call, service_method.pipeline)
        other = plan._replace(
            call=plan.call._replace(is_async=is_async), returns=plan.returns._replace(is_async=is_async)
        )
        start = start_function(other, service_method.pipeline)
        started = start(other.invocation(args, kwargs, service_method.budget))
    except AiServiceError as error:
        hide_library_frames(error)
        raise
    return _awaited(started) if is_async and not plan.returns.is_stream else started


def _check_blocking(plan: CallPlan, pipeline: Pipeline) -> None:
    """Raise DefinitionError if an async method has async tools or interceptors, which need an event loop."""
    message = "is async, so blocking code cannot call the method; await it"
    problems = [
        DefinitionProblem(plan.qualname, f"{name} {message}") for name in async_parts_of(plan, pipeline)
    ]
    if problems:
        raise DefinitionError(problems)


async def _awaited(started: Awaitable[T]) -> T:
    try:
        return await started
    except AiServiceError as error:
        hide_library_frames(error)
        raise


# --- Previewing a request ---


_ROLE_NAMES: dict[type, str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AiMessage: "assistant",
    ToolMessage: "tool",
}


class Preview(NamedTuple):
    """The first chat request of a service call; ``str()`` converts it to readable text.

    Attributes:
        method: The name of the method, ``Service.method``.
        model: The name of the model.
        messages: The messages.
        options: The options of the request.
        strategy: How structured output is requested.
        reasons: Why the strategy was chosen.
        schema: The JSON Schema that is sent to the provider; None if none is sent.
        strict: True if the provider enforces the schema.
        tools: The tools that the model may call, including the one by which it gives its answer.
        tool_choice: Whether the model must call a tool: "auto", "required", "none" or the name of a tool.
        questions: The questions that a decision endpoint gets about the messages.
    """

    method: str
    model: str
    messages: tuple[Message, ...]
    options: ChatOptions
    strategy: Strategy
    reasons: tuple[str, ...]
    schema: Mapping[str, Json] | None
    strict: bool
    tools: tuple[ToolSpecification, ...] = ()
    tool_choice: str = "auto"
    questions: tuple[Question, ...] = ()

    def __repr__(self) -> str:
        messages = f"{len(self.messages)} message{'' if len(self.messages) == 1 else 's'}"
        return f"<Preview of {self.method}: {messages} to {self.model}, strategy {self.strategy}>"

    def __rich_repr__(self) -> Iterator[str]:
        yield str(self)

    def _repr_html_(self) -> str:
        """Return the text of the preview for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [f"{self.method} → {self.model}", f"strategy: {self.strategy} ({'; '.join(self.reasons)})"]
        for message in self.messages:
            lines += ["", f"[{_ROLE_NAMES[type(message)]}]", *_content_lines(message)]
        answers_by_tool = any(tool.parameters == self.schema for tool in self.tools)
        if self.schema is not None and not answers_by_tool:
            strict = ", strict" if self.strict else ""
            lines += ["", f"[schema{strict}]", json.dumps(self.schema, indent=2, ensure_ascii=False)]
        for tool in self.tools:
            strict = ", strict" if tool.strict else ""
            parameters = json.dumps(tool.parameters, indent=2, ensure_ascii=False)
            purpose = ", gives the answer" if tool.parameters == self.schema else ""
            lines += ["", f"[tool {tool.name}{strict}{purpose}]", tool.description, parameters]
        for question in self.questions:
            options = [
                f"- {json.dumps(o.value, ensure_ascii=False)} {o.description}" for o in question.options
            ]
            lines += ["", f"[question {question.path}, {question.kind}]", question.text]
            lines += [line.rstrip() for line in options]
        if self.tools:
            lines += ["", f"tool choice: {self.tool_choice}"]
        return "\n".join(lines)


class PreviewedRequest(NamedTuple):
    """The first chat request of a service call, with the model that would receive it.

    Attributes:
        preview: The parts of the request for people.
        model: The model.
        request: The request.
    """

    preview: Preview
    model: ChatModel
    request: ChatRequest


def preview(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Preview:
    """Return the first request that a service method would send, without sending it.

    ``method`` may also be ``reply`` of a ReActAgent, or ``invoke`` of the model that ``structured`` returns.
    No API key is needed.

    Raises TypeError for any other ``method``, and for arguments that do not fit it.
    """
    return preview_request(method, *args, **kwargs).preview


def preview_request(method: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> PreviewedRequest:
    """Return the first request that a service method would send, with the model that would receive it."""
    make_invocation = getattr(getattr(method, "__self__", None), "preview_invocation", None)
    if make_invocation is not None:
        invocation: Invocation = make_invocation(*args, **kwargs)
    else:
        invocation = plan_of(method).invocation(args, kwargs, Budget())  # any budget, because nothing is sent
        if invocation.late_messages is not None:
            from ..engine.background_loop import run_in_background

            invocation = invocation.with_messages(run_in_background(invocation.late_messages()))
    plan, route, toolbox = invocation.plan, invocation.routes[0], invocation.toolbox
    output_format = route.output_format(invocation.request.options.model)
    offered = None if toolbox is None else toolbox.offered_to(route.model.capabilities)
    tooling = None if offered is None else offered.tooling
    request = output_format.prepare(invocation.request, invocation.examples, tooling)
    request = invocation.apply_request_hooks(request)
    schema, strict = _schema(request, output_format)
    prompt = Preview(
        plan.qualname,
        route.model.name,
        request.messages,
        request.options,
        output_format.strategy,
        output_format.reasons,
        schema,
        strict,
        () if request.tooling is None else request.tooling.tools,
        "auto" if request.tooling is None else request.tooling.choice,
        request.response_format.questions if isinstance(request.response_format, DecisionFormat) else (),
    )
    return PreviewedRequest(prompt, route.model, request)


def _content_lines(message: Message) -> list[str]:
    calls = message.tool_calls if isinstance(message, AiMessage) else ()
    call_lines = [f"{call.name}({call.arguments})" for call in calls]
    if not isinstance(message, SystemMessage) and message.contents:
        return [*[str(part) for part in message.parts], *call_lines]
    return [message.text, *call_lines] if message.text or not call_lines else call_lines


def _schema(request: ChatRequest, output_format: OutputFormat) -> tuple[Mapping[str, object] | None, bool]:
    """Return the JSON Schema sent with a request, and True if the provider enforces it (strict mode)."""
    response_format = request.response_format
    if isinstance(response_format, JsonSchemaFormat):
        return response_format.schema, response_format.strict
    if output_format.tooling is not None:
        (tool,) = output_format.tooling.tools
        return tool.parameters, tool.strict
    return None, False
