"""An agent that reasons, acts with its tools, and ends with a text and a typed value in one reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial, wraps
from itertools import takewhile
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypedDict, TypeForm

from output_parsers.parser.registry import parser_for
from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import Problem, UnsupportedTypeError
from output_parsers.result.reading import Cursor, Json, ValidationFailure, combine_failures
from output_parsers.types.containers import opened
from output_parsers.types.node import Definitions, JsonSchema, Node, schema_of
from output_parsers.types.records import plain_key
from output_parsers.types.target import Description, Target, type_name

from ..engine.approval import SuspendedCall
from ..engine.budget import Budget
from ..engine.effects import CallModel, Effect, Emit, Flow, Gather, Run, arun, map_effects, run
from ..engine.events import ToolStarted
from ..engine.model_route import ModelRoute
from ..engine.output_format import OutputFormat
from ..engine.pipeline import Interceptor, Pipeline, Proceed
from ..engine.plan import CallPlan, CallState, Invocation
from ..engine.results import Answer
from ..engine.retry import Retry
from ..engine.strategy_selection import StrategyError, StrategyFallbacks, StrategyOption, select_strategies
from ..interface.parameters import function_name, is_async, unwrapped
from ..models.base import ChatModel, find_model, members_of
from ..models.errors import DefinitionError, DefinitionProblem, ToolLimitError
from ..models.messages import AiMessage, ChatReply, SystemMessage, ToolCall
from ..models.requests import ChatOptions, ChatRequest
from ..models.strategy import Strategy
from ..service.create import interceptor_order_problems
from ..tools.tool import ToolErrors, ToolRun, ToolSource
from ..tools.toolbox import Toolbox, ToolLimits, plan_toolbox
from .message import Approvals, Heard, Msg, keeping, messages_for, resumed, together, trace_of

FINISH = "generate_response"
_RESPONSE = "response"
_SAID = "the answer in full, as it is to be read"
_WISH = "Gives the final answer and ends the task. Call it once, when nothing is left to be done."


class FinishFault(TypeError):  # becomes a Fault once it is known where it stands
    """A type whose fields cannot stand beside the text of the answer."""


class Finished(NamedTuple):
    """What the finish function was called with: the text, and the value of the type."""

    response: str
    metadata: Any


class FinishNode(Node[Finished]):
    """``{"response": …, **fields}``: the fields of a record beside the text."""

    kind = f"an object with {_RESPONSE!r}"

    def __init__(self, record: Node[Any]) -> None:
        self._record = record
        self._text: Node[str] = parser_for(str).node

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._text, self._record)

    def schema(self, definitions: Definitions) -> JsonSchema:
        fields = _in_place(self._record.schema(definitions), definitions)
        response = {"type": "string", "description": _SAID}
        return {
            **{key: said for key, said in fields.items() if key != "title"},
            "type": "object",
            "properties": {_RESPONSE: response, **fields.get("properties", {})},
            "required": [_RESPONSE, *fields.get("required", ())],
        }

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        rows = self._record.hint((*within, self))[1:-1].strip("\n")  # those between the braces
        rows = rows if "\n" in rows or rows.startswith(" ") else f"  {rows},"
        return f'{{\n  "{_RESPONSE}": string,  // {_SAID}\n{rows}\n}}'

    def read(self, found: Json, at: Cursor) -> Finished:
        found = opened(found, "{", at)
        if not isinstance(found, dict):
            raise at.failure(f"expected {self.kind}", found)
        key = _key_of_response(found)
        misfits: list[ValidationFailure] = []
        response, metadata = "", None
        try:
            response = self._response(found, key, at)
        except ValidationFailure as misfit:
            misfits.append(misfit)
        try:
            metadata = self._record.read({name: value for name, value in found.items() if name != key}, at)
        except ValidationFailure as misfit:
            misfits.append(misfit)
        if misfits:
            raise combine_failures(misfits)
        return Finished(response, metadata)

    def _response(self, found: dict[str, Json], key: str | None, at: Cursor) -> str:
        if key is None:
            said = f"the required field {_RESPONSE!r} is missing"
            raise ValidationFailure(Problem(at.child(_RESPONSE).path, said))
        if key != _RESPONSE:
            at.child(key).record("key in another form", key, _RESPONSE)
        return self._text.read(found[key], at.child(key))

    def write(self, value: Any) -> Json:
        if not isinstance(value, Finished):
            raise ValueError(f"expected {self.kind}, found {type(value).__name__}")
        return {_RESPONSE: value.response, **cast("dict[str, Json]", self._record.write(value.metadata))}


class FinishParser(TypeParser[Finished]):
    """The arguments of the finish function → what it was called with."""

    def __init__(self, node: FinishNode) -> None:
        super().__init__(Target(Any, (Description(_WISH),), alias=FINISH), node)

    @cached_property
    def plain_text(self) -> bool:
        return False


def finish_parser(form: Any) -> TypeParser[Finished]:
    """The parser of the arguments of ``generate_response(response, **fields)``.

    The fields are those of ``form``, a record of any kind; a type that is no record is one field,
    ``metadata``. Raises UnsupportedTypeError, and FinishFault for a record with a field ``response``.
    """
    node = parser_for(form).node
    if "properties" not in schema_of(node):
        node = _Only(parser_for(cast("Any", TypedDict("metadata", {"metadata": form}))).node)  # type: ignore[operator]
    elif _key_of_response(schema_of(node)["properties"]) is not None:
        raise FinishFault(
            f"{type_name(form)} has a field {_RESPONSE!r}, which is that of {FINISH}; give it another name"
        )
    return FinishParser(FinishNode(node))


def finish_ladder(parser: TypeParser[Any], model: ChatModel) -> StrategyFallbacks[Any]:
    """The ways of asking a model; where it calls tools, the finish function comes first."""
    every = select_strategies(parser, model.capabilities, None, model.name)
    if parser.schema is not None and model.capabilities.tools:
        by_tool = select_strategies(parser, model.capabilities, Strategy.OUTPUT_TOOL, model.name).options
        others = (rung for rung in every.options if rung.strategy is not Strategy.OUTPUT_TOOL)
        every = StrategyFallbacks((*by_tool, *others), partial(_wire, every))
    every.prepare()
    return every


def _wire(
    ladder: StrategyFallbacks[Any], rung: StrategyOption, reasons: tuple[str, ...]
) -> OutputFormat[Any]:
    wire = ladder.output_format(rung)
    return wire._replace(reasons=(*reasons[:-1], *wire.reasons))


def as_spoken(invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
    """The answer as it was spoken: a memory is to hold the text, and not the call that gave it."""
    answer = yield from proceed(invocation)
    if not isinstance(answer.value, Finished):
        return answer
    return replace(answer, messages=(*answer.messages[:-1], AiMessage(answer.value.response)))


class _Only(Node[Any]):
    """The value of the only field of a record."""

    def __init__(self, record: Node[Any]) -> None:
        self._record = record
        self.kind = record.kind

    @property
    def parts(self) -> tuple[Node[Any], ...]:
        return (self._record,)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return self._record.schema(definitions)

    def hint(self, within: tuple[Node[Any], ...] = ()) -> str:
        return self._record.hint(within)

    def read(self, found: Json, at: Cursor) -> Any:
        return self._record.read(found, at)["metadata"]

    def write(self, value: Any) -> Json:
        return self._record.write({"metadata": value})


def _key_of_response(found: dict[str, Any]) -> str | None:
    if _RESPONSE in found:
        return _RESPONSE
    return next((key for key in found if plain_key(key) == _RESPONSE), None)


def _in_place(schema: JsonSchema, definitions: Definitions) -> JsonSchema:
    """A schema that may be a reference, as it is where it leads to."""
    if "$ref" not in schema:
        return schema
    return definitions.schemas[schema["$ref"].rpartition("/")[2]]


def around(
    where: str,
    memory: Interceptor | None,
    interceptors: Sequence[Interceptor],
    problems: list[DefinitionProblem],
) -> tuple[Interceptor, ...]:
    """The interceptors of an agent and its memory, the outermost first; what is wrong goes to ``problems``.

    Guards of what is heard stand before the memory, so that it does not keep what they take out; those behind
    a retrieval stay there, since they guard what was retrieved.
    """
    early = list(takewhile(lambda one: _kind(one) != "retrieval", interceptors))
    guards = [one for one in early if _kind(one) == "input guard"]
    inside = [one for one in early if _kind(one) != "input guard"] + list(interceptors[len(early) :])
    outside = [*guards, *(() if memory is None else (memory,))]
    problems += interceptor_order_problems(where, [*outside, *inside])
    return (keeping, *outside, as_spoken, *inside)


def _kind(interceptor: Interceptor) -> object:
    return getattr(interceptor, "position_name", None)


Step: TypeAlias = Literal["pre_reasoning", "post_reasoning", "pre_acting", "post_acting"]
Hook: TypeAlias = Callable[[Any], Any]
# What a hook may put in the place of what it was given.
_GIVES: dict[Step, type | None] = {
    "pre_reasoning": ChatRequest,
    "post_reasoning": ChatReply,
    "pre_acting": None,
    "post_acting": ToolRun,
}


class HookHandle:
    """A hook that was put in; ``remove`` takes it out."""

    def __init__(self, hooks: list[Hook], hook: Hook) -> None:
        self._hooks = hooks
        self._hook = hook

    def remove(self) -> None:
        """Take the hook out; to do so again does nothing."""
        self._hooks[:] = [hook for hook in self._hooks if hook is not self._hook]


class Hooks:
    """An interceptor that calls the hooks of an agent."""

    def __init__(self) -> None:
        self._of: dict[str, list[Hook]] = {step: [] for step in _GIVES}

    def add(self, step: str, hook: Hook) -> HookHandle:
        """Put a hook in. Raises ValueError for a step that there is not."""
        if step not in self._of:
            raise ValueError(f"there is no step {step!r}; there are: {', '.join(self._of)}")
        own = partial(hook)  # so that one that was put in twice is taken out once
        self._of[step].append(own)
        return HookHandle(self._of[step], own)

    @property
    def asynchronous(self) -> list[str]:
        """The names of those that have to be awaited."""
        hooks = (hook for hooks in self._of.values() for hook in hooks)
        return [function_name(unwrapped(hook)) for hook in hooks if is_async(hook)]

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        return map_effects(proceed(invocation), self._fulfilled)

    def _fulfilled(self, need: Effect) -> Flow[Any]:
        """The outcome of a need, with the hooks around those that are a step."""
        if isinstance(need, CallModel):
            request = yield from self._passed("pre_reasoning", need.request)
            reply = yield need._replace(request=request)
            return (yield from self._passed("post_reasoning", reply))
        if isinstance(need, Emit) and isinstance(need.event, ToolStarted):
            yield from self._passed("pre_acting", need.event.call)
        outcome = yield need
        if isinstance(need, Gather):
            changed = []
            for one in outcome:
                is_run = isinstance(one, ToolRun)
                changed.append((yield from self._passed("post_acting", one)) if is_run else one)
            return changed
        return outcome

    def _passed(self, step: Step, value: Any) -> Flow[Any]:
        """A value as the hooks of a step leave it."""
        for hook in tuple(self._of[step]):
            changed = yield Run(_named(hook, value))
            if changed is not None:
                _check(step, hook, changed)
                value = changed
        return value


def _named(hook: Hook, value: Any) -> Callable[[], Any]:
    """The call of a hook, which what goes wrong names by it."""
    return wraps(unwrapped(hook))(lambda: hook(value))


def _check(step: Step, hook: Hook, changed: Any) -> None:
    kind = _GIVES[step]
    if kind is None or not isinstance(changed, kind):
        wanted = "None" if kind is None else f"{kind.__name__} or None"
        said = f"the {step} hook {function_name(unwrapped(hook))} returned {type(changed).__name__}"
        raise TypeError(f"{said}; it may return {wanted}")


T = TypeVar("T")
_NO_OPTIONS = ChatOptions()
_NO_ERRORS = ToolErrors()
_ASKED_AGAIN = Retry()


class ReActAgent:
    """An agent in AgentScope's terms, on the tool loop that services have.

    ``model`` and ``tools`` are as in ``create``; ``system_message`` is text, no template. In each iteration the
    model reasons, and either calls tools or answers; after ``max_rounds`` without an answer there is a
    ToolLimitError. ``memory``, such as a ChatMemory, makes it remember the replies before; what several said
    is then one message, each after the speaker's name. ``interceptors``, ``budget``, ``retry``, ``options``
    and ``tool_errors`` are those of ``create``, and ``tool_limits`` too, but for its rounds. Input guards
    stand before the memory. Raises DefinitionError with all problems.
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
        retry: Retry | None = _ASKED_AGAIN,
        interceptors: Sequence[Interceptor] = (),
        tool_limits: ToolLimits | None = None,
        tool_errors: ToolErrors = _NO_ERRORS,
    ) -> None:
        self.name = name
        self.max_rounds = max_rounds
        self._where = f"{name}.reply"
        self._system = SystemMessage(system_message)
        self._options = options
        self._tool_errors = tool_errors
        self._budget = budget or Budget()
        self._hooks = Hooks()
        limits = replace(tool_limits or ToolLimits(), max_rounds=max(1, max_rounds - 1))
        self._remembers = memory is not None
        problems: list[DefinitionProblem] = []
        ordered = around(self._where, memory, interceptors, problems)
        self._members, self._toolbox = self._checked(model, tools, limits, problems)
        again = () if retry is None else (retry,)
        self._pipeline = Pipeline((*ordered, *again, self._within_iters, self._hooks))
        self._plans: dict[Any, CallPlan] = {}

    @overload
    def reply(self, msg: Heard, output_type: None = ...) -> Msg[None]: ...
    @overload
    def reply(self, msg: Heard, output_type: TypeForm[T]) -> Msg[T]: ...
    def reply(self, msg: Heard, output_type: Any = None) -> Msg[Any]:
        """The answer to a text, to a message with media, or to what others said.

        With ``output_type`` the agent ends by calling ``generate_response``, whose parameters are the
        text ``response`` and the fields of the model; its value is the ``metadata`` of the answer. A call
        that does not fit is answered with its problems. Without one the first plain text is the answer.

        Raises DefinitionError for a type that cannot be asked for, ToolLimitError, and what a service raises:
        where a tool needs approval, an ApprovalRequiredError, with whose ``state`` ``resume`` goes on.
        """
        invocation = self._turn(msg, self._blocking(output_type))
        return self._said(run(self._pipeline.flow(invocation)), invocation)

    @overload
    async def areply(self, msg: Heard, output_type: None = ...) -> Msg[None]: ...
    @overload
    async def areply(self, msg: Heard, output_type: TypeForm[T]) -> Msg[T]: ...
    async def areply(self, msg: Heard, output_type: Any = None) -> Msg[Any]:
        """As ``reply``, awaited; tools and hooks may be async."""
        invocation = self._turn(msg, self._plan(output_type))
        return self._said(await arun(self._pipeline.flow(invocation)), invocation)

    @overload
    def resume(self, state: SuspendedCall, approvals: Approvals, output_type: None = ...) -> Msg[None]: ...
    @overload
    def resume(self, state: SuspendedCall, approvals: Approvals, output_type: TypeForm[T]) -> Msg[T]: ...
    def resume(self, state: SuspendedCall, approvals: Approvals, output_type: Any = None) -> Msg[Any]:
        """The answer of a reply that waited for approval, in another process too.

        ``approvals`` are as in ``aiservices.resume``, ``output_type`` is that of the reply. The rounds
        before the wait are in the trace and count for ``max_rounds``; the budget begins anew. A call that is
        not approved is a step for hooks too. Raises ValueError for the state of another agent, or of a reply
        with another type, and what ``aiservices.resume`` raises.
        """
        invocation = resumed(self._blocking(output_type), self._budget, state, approvals)
        return self._said(run(self._pipeline.flow(invocation)), invocation)

    @overload
    async def aresume(
        self, state: SuspendedCall, approvals: Approvals, output_type: None = ...
    ) -> Msg[None]: ...
    @overload
    async def aresume(
        self, state: SuspendedCall, approvals: Approvals, output_type: TypeForm[T]
    ) -> Msg[T]: ...
    async def aresume(self, state: SuspendedCall, approvals: Approvals, output_type: Any = None) -> Msg[Any]:
        """As ``resume``, awaited."""
        invocation = resumed(self._plan(output_type), self._budget, state, approvals)
        return self._said(await arun(self._pipeline.flow(invocation)), invocation)

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
    def on(self, step: Any, hook: Hook) -> HookHandle:
        """Have ``hook`` called before or after each step; ``remove()`` of what comes back ends that.

        Reasoning is a request to the model, acting the run of a tool. What a hook returns takes the place of
        what it was given: another request, reply or run; None leaves it. Of a call it must return None.
        What it raises ends the reply. It may be async for ``areply``.
        """
        return self._hooks.add(step, hook)

    def _checked(
        self,
        model: ChatModel | str | None,
        tools: Sequence[ToolSource],
        limits: ToolLimits,
        problems: list[DefinitionProblem],
    ) -> tuple[tuple[ChatModel, ...], Toolbox | None]:
        problems += self._options.problems(self._where)
        if self.max_rounds < 1:
            problems.append(
                DefinitionProblem(self._where, f"max_rounds is {self.max_rounds}; it must be at least 1")
            )
        members: tuple[ChatModel, ...] = ()
        try:
            members = members_of(find_model(model, self._where))
        except DefinitionError as error:
            problems.extend(error.problems)
        toolbox = plan_toolbox(
            tools, limits, (), members, is_async=True, qualname=self._where, problems=problems
        )
        if toolbox is not None and FINISH in toolbox.tools:
            problems.append(
                DefinitionProblem(self._where, f"a tool has the name {FINISH}, by which the agent answers")
            )
        problems += self._budget.problems(self._where, dict.fromkeys(one.name for one in members))
        if problems:
            raise DefinitionError(problems)
        return members, toolbox if self.max_rounds > 1 else None  # the only iteration is for the answer

    def _turn(self, msg: Heard, plan: CallPlan) -> Invocation:
        said = messages_for(self.name, msg)
        said = together(self.name, said) if self._remembers else said
        request = ChatRequest((self._system, *said), self._options)
        return plan.invocation(request, CallState(self._budget))

    def _blocking(self, output_type: Any) -> CallPlan:
        """How the model is asked in a call that blocks. Raises TypeError for what cannot run in it."""
        tools = () if self._toolbox is None else self._toolbox.tools.values()
        awaited = [f"the tool {tool.name}" for tool in tools if tool.asynchronous]
        awaited += [f"the hook {name}" for name in self._hooks.asynchronous]
        if awaited:
            raise TypeError(f"{self._where}: {', '.join(awaited)} can only be awaited; use areply or aresume")
        plan = self._plan(output_type)
        return plan._replace(is_async=False)

    def _plan(self, output_type: Any) -> CallPlan:
        """How the model is asked for a type in calls that are awaited, made once for each."""
        try:
            if output_type not in self._plans:
                self._plans[output_type] = self._planned(output_type)
            return self._plans[output_type]
        except TypeError:  # what its metadata holds has no hash
            return self._planned(output_type)

    def _planned(self, output_type: Any) -> CallPlan:
        try:
            parser = parser_for(str) if output_type is None else finish_parser(output_type)
            routes = tuple(ModelRoute(model, finish_ladder(parser, model)) for model in self._members)
        except (FinishFault, UnsupportedTypeError, StrategyError) as error:
            raise DefinitionError([DefinitionProblem(self._where, str(error))]) from error
        form = str if output_type is None else output_type
        return CallPlan(
            qualname=self._where,
            output_type=form,
            is_async=True,
            routes=routes,
            options=self._options,
            toolbox=self._toolbox,
            tool_errors=self._tool_errors,
        )

    def _said(self, answer: Answer, invocation: Invocation) -> Msg[Any]:
        value = answer.value if isinstance(answer.value, Finished) else Finished(str(answer.value), None)
        return Msg(self.name, value.response, value.metadata, trace=trace_of(invocation.state))

    def _within_iters(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        try:
            return (yield from proceed(invocation))
        except ToolLimitError as error:
            if invocation.state.tool_rounds < self.max_rounds:
                raise
            said = f"{self._where}: there is no answer after {self.max_rounds} iterations; raise max_rounds"
            raise ToolLimitError(said, call=error.call) from error
