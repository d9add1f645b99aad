"""An agent that reasons, acts with its tools, and ends with a text and a typed value in one reply."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, overload

from typing_extensions import TypeForm

from output_parsers.errors import UnsupportedTypeError
from output_parsers.parsing import parser_for

from ..approval import TurnState
from ..budget import Budget, CallContext
from ..errors import DefinitionError, Fault, ToolLimitError
from ..flow import Flow, arun, run
from ..ladder import StrategyFault
from ..messages import ChatReply, SystemMessage, ToolCall
from ..models.base import ChatModel, find_model, members_of
from ..pipeline import Answer, Interceptor, Pipeline, Proceed
from ..plan import MethodPlan, Turn
from ..requests import ChatOptions, ChatRequest
from ..retry import Retry
from ..returns import Returns, Shape
from ..route import Route
from ..tool_run import ToolErrors, ToolRun
from ..toolbox import Toolbox, ToolLimits, plan_toolbox
from ..tools import ToolSource
from .around import around
from .generate_response import FINISH, Finished, FinishFault, finish_ladder, finish_parser
from .hooks import Hook, HookHandle, Hooks
from .msg import Heard, Msg, messages_for, together
from .waiting import Approvals, resumed, trace_of

__all__ = ["ReActAgent"]

T = TypeVar("T")
_NO_OPTIONS = ChatOptions()
_NO_ERRORS = ToolErrors()
_ASKED_AGAIN = Retry()


class ReActAgent:
    """An agent in AgentScope's terms, on the tool loop that services have.

    ``model`` and ``tools`` are as in ``create``; ``sys_prompt`` is text, no template. In each iteration the
    model reasons, and either calls tools or answers; after ``max_iters`` without an answer there is a
    ToolLimitError. ``memory``, such as a ChatMemory, makes it remember the replies before; what several said
    is then one message, each after the speaker's name. ``interceptors``, ``budget``, ``retry``, ``options``
    and ``tool_errors`` are those of ``create``, and ``tool_limits`` too, but for its rounds. Input guards
    stand before the memory. Raises DefinitionError with all faults.
    """

    def __init__(
        self,
        name: str,
        sys_prompt: str,
        model: ChatModel | str | None = None,
        tools: Sequence[ToolSource] = (),
        *,
        max_iters: int = 10,
        memory: Interceptor | None = None,
        options: ChatOptions = _NO_OPTIONS,
        budget: Budget | None = None,
        retry: Retry | None = _ASKED_AGAIN,
        interceptors: Sequence[Interceptor] = (),
        tool_limits: ToolLimits | None = None,
        tool_errors: ToolErrors = _NO_ERRORS,
    ) -> None:
        self.name = name
        self.max_iters = max_iters
        self._where = f"{name}.reply"
        self._system = SystemMessage(sys_prompt)
        self._options = options
        self._tool_errors = tool_errors
        self._budget = budget or Budget()
        self._hooks = Hooks()
        limits = replace(tool_limits or ToolLimits(), rounds=max(1, max_iters - 1))
        self._remembers = memory is not None
        faults: list[Fault] = []
        ordered = around(self._where, memory, interceptors, faults)
        self._members, self._toolbox = self._checked(model, tools, limits, faults)
        again = () if retry is None else (retry,)
        self._pipeline = Pipeline((*ordered, *again, self._within_iters, self._hooks))
        self._plans: dict[Any, MethodPlan] = {}

    @overload
    def reply(self, msg: Heard, structured_model: None = ...) -> Msg[None]: ...
    @overload
    def reply(self, msg: Heard, structured_model: TypeForm[T]) -> Msg[T]: ...
    def reply(self, msg: Heard, structured_model: Any = None) -> Msg[Any]:
        """The answer to a text, to a message with media, or to what others said.

        With ``structured_model`` the agent ends by calling ``generate_response``, whose parameters are the
        text ``response`` and the fields of the model; its value is the ``metadata`` of the answer. A call
        that does not fit is answered with its problems. Without one the first plain text is the answer.

        Raises DefinitionError for a type that cannot be asked for, ToolLimitError, and what a service raises:
        where a tool needs approval, an ApprovalRequiredError, with whose ``state`` ``resume`` goes on.
        """
        turn = self._turn(msg, self._blocking(structured_model))
        return self._said(run(self._pipeline.flow(turn)), turn)

    @overload
    async def areply(self, msg: Heard, structured_model: None = ...) -> Msg[None]: ...
    @overload
    async def areply(self, msg: Heard, structured_model: TypeForm[T]) -> Msg[T]: ...
    async def areply(self, msg: Heard, structured_model: Any = None) -> Msg[Any]:
        """As ``reply``, awaited; tools and hooks may be async."""
        turn = self._turn(msg, self._plan(structured_model))
        return self._said(await arun(self._pipeline.flow(turn)), turn)

    @overload
    def resume(self, state: TurnState, approvals: Approvals, structured_model: None = ...) -> Msg[None]: ...
    @overload
    def resume(self, state: TurnState, approvals: Approvals, structured_model: TypeForm[T]) -> Msg[T]: ...
    def resume(self, state: TurnState, approvals: Approvals, structured_model: Any = None) -> Msg[Any]:
        """The answer of a reply that waited for approval, in another process too.

        ``approvals`` are as in ``aiservices.resume``, ``structured_model`` is that of the reply. The rounds
        before the wait are in the trace and count for ``max_iters``; the budget begins anew. A call that is
        not approved is a step for hooks too. Raises ValueError for the state of another agent, or of a reply
        with another type, and what ``aiservices.resume`` raises.
        """
        turn = resumed(self._blocking(structured_model), self._budget, state, approvals)
        return self._said(run(self._pipeline.flow(turn)), turn)

    @overload
    async def aresume(
        self, state: TurnState, approvals: Approvals, structured_model: None = ...
    ) -> Msg[None]: ...
    @overload
    async def aresume(
        self, state: TurnState, approvals: Approvals, structured_model: TypeForm[T]
    ) -> Msg[T]: ...
    async def aresume(self, state: TurnState, approvals: Approvals, structured_model: Any = None) -> Msg[Any]:
        """As ``resume``, awaited."""
        turn = resumed(self._plan(structured_model), self._budget, state, approvals)
        return self._said(await arun(self._pipeline.flow(turn)), turn)

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
        faults: list[Fault],
    ) -> tuple[tuple[ChatModel, ...], Toolbox | None]:
        faults += self._options.faults(self._where)
        if self.max_iters < 1:
            faults.append(Fault(self._where, f"max_iters is {self.max_iters}; it must be at least 1"))
        members: tuple[ChatModel, ...] = ()
        try:
            members = members_of(find_model(model))
        except LookupError as error:
            faults.append(Fault(self._where, str(error.args[0])))
        toolbox = plan_toolbox(
            tools, limits, (), members, asynchronous=True, where=self._where, faults=faults
        )
        if toolbox is not None and FINISH in toolbox.tools:
            faults.append(Fault(self._where, f"a tool has the name {FINISH}, by which the agent answers"))
        faults += self._budget.faults(self._where, dict.fromkeys(one.name for one in members))
        if faults:
            raise DefinitionError(faults)
        return members, toolbox if self.max_iters > 1 else None  # the only iteration is for the answer

    def _turn(self, msg: Heard, plan: MethodPlan) -> Turn:
        said = messages_for(self.name, msg)
        said = together(self.name, said) if self._remembers else said
        request = ChatRequest((self._system, *said), self._options)
        return Turn(plan, {}, request, CallContext(self._budget), None, {})

    def _blocking(self, structured_model: Any) -> MethodPlan:
        """How the model is asked in a call that blocks. Raises TypeError for what cannot run in it."""
        tools = () if self._toolbox is None else self._toolbox.tools.values()
        awaited = [f"the tool {tool.name}" for tool in tools if tool.asynchronous]
        awaited += [f"the hook {name}" for name in self._hooks.asynchronous]
        if awaited:
            raise TypeError(f"{self._where}: {', '.join(awaited)} can only be awaited; use areply or aresume")
        plan = self._plan(structured_model)
        return plan._replace(returns=plan.returns._replace(asynchronous=False))

    def _plan(self, structured_model: Any) -> MethodPlan:
        """How the model is asked for a type in calls that are awaited, made once for each."""
        try:
            if structured_model not in self._plans:
                self._plans[structured_model] = self._planned(structured_model)
            return self._plans[structured_model]
        except TypeError:  # what its metadata holds has no hash
            return self._planned(structured_model)

    def _planned(self, structured_model: Any) -> MethodPlan:
        try:
            parser = parser_for(str) if structured_model is None else finish_parser(structured_model)
            routes = tuple(Route(model, finish_ladder(parser, model)) for model in self._members)
        except (FinishFault, UnsupportedTypeError, StrategyFault) as error:
            raise DefinitionError([Fault(self._where, str(error))]) from error
        form = str if structured_model is None else structured_model
        return MethodPlan(
            where=self._where,
            signature=inspect.Signature(),
            parameters=(),
            returns=Returns(form, Shape.VALUE, asynchronous=True),
            user=None,
            message_argument=None,
            it=None,
            system=None,
            routes=routes,
            options=self._options,
            transform=None,
            toolbox=self._toolbox,
            tool_errors=self._tool_errors,
        )

    def _said(self, answer: Answer, turn: Turn) -> Msg[Any]:
        value = answer.value if isinstance(answer.value, Finished) else Finished(str(answer.value), None)
        return Msg(self.name, value.response, value.metadata, trace=trace_of(turn.context))

    def _within_iters(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        try:
            return (yield from proceed(turn))
        except ToolLimitError as error:
            if turn.context.rounds < self.max_iters:
                raise
            said = f"{self._where}: there is no answer after {self.max_iters} iterations; raise max_iters"
            raise ToolLimitError(said, call=error.call) from error
