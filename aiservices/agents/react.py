"""An agent that reasons, acts with its tools, and ends with a text and a typed value in one reply."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, overload

from typing_extensions import TypeForm

from output_parsers.errors import UnsupportedTypeError
from output_parsers.parse import parser_for
from output_parsers.parser import TypeParser

from ..budget import Budget, CallContext
from ..errors import DefinitionError, Fault, ToolLimitError
from ..flow import Flow, arun, run
from ..ladder import Ladder, Rung, StrategyFault, ladder_for
from ..messages import AiMessage, ChatReply, SystemMessage, ToolCall
from ..models.base import ChatModel, find_model, members_of
from ..pipeline import Answer, Interceptor, Pipeline, Proceed
from ..plan import MethodPlan, Turn
from ..requests import ChatOptions, ChatRequest
from ..retry import Retry
from ..returns import Returns, Shape
from ..route import Route
from ..strategies import Wire
from ..strategy import Strategy
from ..tool_run import ToolErrors, ToolRun
from ..toolbox import Toolbox, ToolLimits, plan_toolbox
from ..tools import ToolSource
from .generate_response import FINISH, Finished, FinishFault, finish_parser
from .hooks import Hook, HookHandle, Hooks
from .msg import Heard, Msg, messages_for, rounds_of

__all__ = ["ReActAgent"]

T = TypeVar("T")
_NO_OPTIONS = ChatOptions()
_NO_ERRORS = ToolErrors()
_ASKED_AGAIN = Retry()
_TEXT = object()  # stands for the plan of replies that are text


class ReActAgent:
    """An agent in AgentScope's terms, on the tool loop that services have.

    ``model`` and ``tools`` are as in ``create``; ``sys_prompt`` is text, no template. In each iteration the
    model reasons, and either calls tools or answers; after ``max_iters`` without an answer there is a
    ToolLimitError. ``memory``, such as a ChatMemory, makes it remember what was said in the replies before.
    ``interceptors``, ``budget``, ``retry``, ``options`` and ``tool_errors`` are those of ``create``, and
    ``tool_limits`` too, but for its rounds. Raises DefinitionError with all faults.
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
        self._members, self._toolbox = self._checked(model, tools, limits)
        around = (*([] if memory is None else [memory]), _as_spoken, *interceptors)
        again = () if retry is None else (retry,)
        self._pipeline = Pipeline((*around, *again, self._within_iters, self._hooks))
        self._plans: dict[Any, MethodPlan] = {}

    @overload
    def reply(self, msg: Heard, structured_model: None = ...) -> Msg[None]: ...
    @overload
    def reply(self, msg: Heard, structured_model: TypeForm[T]) -> Msg[T]: ...
    def reply(self, msg: Heard, structured_model: Any = None) -> Msg[Any]:
        """The answer to a text, or to what others said.

        With ``structured_model`` the agent ends by calling ``generate_response``, whose parameters are the
        text ``response`` and the fields of the model; its value is the ``metadata`` of the answer. A call
        that does not fit is answered with its problems. Without one the first plain text is the answer.

        Raises DefinitionError for a type that cannot be asked for, ToolLimitError, and what a service raises.
        """
        tools = () if self._toolbox is None else self._toolbox.tools.values()
        awaited = [tool.name for tool in tools if tool.asynchronous]
        if awaited:
            raise TypeError(f"{self._where}: the tool {', '.join(awaited)} is async; use areply")
        turn = self._turn(msg, structured_model, asynchronous=False)
        return self._said(run(self._pipeline.flow(turn)), turn)

    @overload
    async def areply(self, msg: Heard, structured_model: None = ...) -> Msg[None]: ...
    @overload
    async def areply(self, msg: Heard, structured_model: TypeForm[T]) -> Msg[T]: ...
    async def areply(self, msg: Heard, structured_model: Any = None) -> Msg[Any]:
        """As ``reply``, awaited; tools and hooks may be async."""
        turn = self._turn(msg, structured_model, asynchronous=True)
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
        what it was given: another request, reply or run; None leaves it, and a call is left in any case.
        What it raises ends the reply. It may be async for ``areply``.
        """
        return self._hooks.add(step, hook)

    def _checked(
        self, model: ChatModel | str | None, tools: Sequence[ToolSource], limits: ToolLimits
    ) -> tuple[tuple[ChatModel, ...], Toolbox | None]:
        faults = self._options.faults(self._where)
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
        for tool in () if toolbox is None else toolbox.tools.values():
            if tool.needs_approval:
                said = f"the tool {tool.name} needs approval, for which an agent cannot wait; use a service"
                faults.append(Fault(self._where, said))
        if self.max_iters == 1:
            toolbox = None  # the only iteration is for the answer
        faults += self._budget.faults(self._where, dict.fromkeys(one.name for one in members))
        if faults:
            raise DefinitionError(faults)
        return members, toolbox

    def _turn(self, msg: Heard, structured_model: Any, *, asynchronous: bool) -> Turn:
        plan = self._plan(structured_model)
        plan = plan._replace(returns=plan.returns._replace(asynchronous=asynchronous))
        request = ChatRequest((self._system, *messages_for(self.name, msg)), self._options)
        return Turn(plan, {}, request, CallContext(self._budget), None, {})

    def _plan(self, structured_model: Any) -> MethodPlan:
        """How the model is asked for a type, made once for each."""
        key = _TEXT if structured_model is None else structured_model
        try:
            if key not in self._plans:
                self._plans[key] = self._planned(structured_model)
            return self._plans[key]
        except TypeError:  # what its metadata holds has no hash
            return self._planned(structured_model)

    def _planned(self, structured_model: Any) -> MethodPlan:
        try:
            parser = parser_for(str) if structured_model is None else finish_parser(structured_model)
            routes = tuple(Route(model, _ladder(parser, model)) for model in self._members)
        except (FinishFault, UnsupportedTypeError, StrategyFault) as error:
            raise DefinitionError([Fault(self._where, str(error))]) from error
        return MethodPlan(
            where=self._where,
            signature=inspect.Signature(),
            parameters=(),
            returns=Returns(str if structured_model is None else structured_model, Shape.VALUE, False),
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
        trace = rounds_of(turn.context.attempts, turn.context.tool_runs)
        return Msg(self.name, value.response, value.metadata, trace=trace)

    def _within_iters(self, turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
        try:
            return (yield from proceed(turn))
        except ToolLimitError as error:
            if turn.context.rounds < self.max_iters:
                raise
            said = f"{self._where}: there is no answer after {self.max_iters} iterations; raise max_iters"
            raise ToolLimitError(said, call=error.call) from error


def _ladder(parser: TypeParser[Any], model: ChatModel) -> Ladder[Any]:
    """The ways of asking a model; where it calls tools, the finish function comes first."""
    every = ladder_for(parser, model.capabilities, None, model.name)
    if parser.schema is not None and model.capabilities.tools:
        by_tool = ladder_for(parser, model.capabilities, Strategy.OUTPUT_TOOL, model.name).rungs
        others = (rung for rung in every.rungs if rung.strategy is not Strategy.OUTPUT_TOOL)
        every = Ladder((*by_tool, *others), partial(_wire, every))
    every.prepare()
    return every


def _wire(ladder: Ladder[Any], rung: Rung, reasons: tuple[str, ...]) -> Wire[Any]:
    wire = ladder.wire(rung)
    return wire._replace(reasons=(*reasons[:-1], *wire.reasons))


def _as_spoken(turn: Turn, proceed: Proceed, /) -> Flow[Answer]:
    """The answer as it was spoken: a memory is to hold the text, and not the call that gave it."""
    answer = yield from proceed(turn)
    if not isinstance(answer.value, Finished):
        return answer
    return replace(answer, said=(*answer.said[:-1], AiMessage(answer.value.response)))
