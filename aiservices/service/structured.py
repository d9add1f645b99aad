"""Typed answers without an interface: a model that answers each message with a value of one type."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from typing_extensions import TypeForm

from output_parsers.parser.registry import parser_for
from output_parsers.result.errors import UnsupportedTypeError
from output_parsers.types.node import OutputParser

from ..engine.budget import Budget, CallState
from ..engine.effects import arun, astream, run, stream
from ..engine.model_route import ModelRoute
from ..engine.pipeline import Answer, Interceptor, Pipeline
from ..engine.plan import Invocation, MethodPlan
from ..engine.results import Result, Returns, Shape
from ..engine.retry import Retry
from ..engine.strategy_selection import StrategyFallbacks, StrategyFault, ladder_for
from ..engine.streams import AsyncStream, Stream
from ..models.base import ChatModel, find_model, members_of
from ..models.errors import DefinitionError, DefinitionProblem, FinishError, ServiceOutputError
from ..models.messages import ChatReply
from ..models.requests import ChatOptions, ChatRequest, MessageInput, to_messages
from ..models.strategy import Strategy
from .create import result_of, to_the_end

T = TypeVar("T")
V = TypeVar("V")
Method: TypeAlias = Strategy | Literal["json_schema", "function_calling", "json_mode"] | str
_NO_OPTIONS = ChatOptions()
_ASKED_AGAIN = Retry()
_METHODS = {"function_calling": Strategy.OUTPUT_TOOL}  # what LangChain calls it


@dataclass(frozen=True, slots=True)
class Structured(Generic[T]):
    """An answer with what it was read from: ``raw`` is the reply, ``parsed`` the value.

    When it could not be read, or the model did not finish it, ``parsed`` is None and ``parsing_error`` says
    why; it holds all attempts with their usage.
    """

    raw: ChatReply
    parsed: T | None
    parsing_error: ServiceOutputError | FinishError | None


class StructuredModel(Generic[T, V]):
    """A model that answers with one type: made by ``structured``.

    ``invoke`` gives a ``T``. Raises what a method of a service raises: ServiceOutputError, FinishError and
    its kin, ModelError and its kin, BudgetExceededError; DefinitionError, with all problems, for messages or
    options that are none.
    """

    def __init__(
        self, ways: _Ways, plan: MethodPlan, pipeline: Pipeline, budget: Budget, *, include_raw: bool
    ) -> None:
        self._ways = ways
        self._plan = plan
        self._pipeline = pipeline
        self._budget = budget
        self._include_raw = include_raw

    def invoke(self, said: MessageInput, *, options: ChatOptions = _NO_OPTIONS) -> T:
        """The answer to a text, or to messages."""
        invocation = self._turn(said, options, self._plan)
        try:
            return self._handed_back(run(self._pipeline.flow(invocation)), invocation)
        except (ServiceOutputError, FinishError) as error:
            return self._failed(error)

    async def ainvoke(self, said: MessageInput, *, options: ChatOptions = _NO_OPTIONS) -> T:
        """As ``invoke``, awaited."""
        invocation = self._turn(said, options, self._plan)
        try:
            return self._handed_back(await arun(self._pipeline.flow(invocation)), invocation)
        except (ServiceOutputError, FinishError) as error:
            return self._failed(error)

    def stream(self, said: MessageInput, *, options: ChatOptions = _NO_OPTIONS) -> Stream[V]:
        """The value while it is written; its ``result()`` is the whole."""
        invocation = self._turn(said, options, self._plan_of_streams)
        flow = to_the_end(self._pipeline, invocation)
        return Stream(stream(flow), lambda answer: cast("Result[V]", result_of(answer, invocation)))

    def astream(self, said: MessageInput, *, options: ChatOptions = _NO_OPTIONS) -> AsyncStream[V]:
        """As ``stream``, for an event loop."""
        invocation = self._turn(said, options, self._plan_of_streams)
        flow = to_the_end(self._pipeline, invocation)
        return AsyncStream(astream(flow), lambda answer: cast("Result[V]", result_of(answer, invocation)))

    @cached_property
    def _plan_of_streams(self) -> MethodPlan:
        return self._plan._replace(routes=self._ways.routes(growing=True))

    def _turn(self, said: MessageInput, options: ChatOptions, plan: MethodPlan) -> Invocation:
        problems = options.problems(plan.where)
        messages = to_messages(said, plan.where, problems)
        if problems:
            raise DefinitionError(problems)
        request = ChatRequest(messages, options.with_defaults(plan.options))
        return Invocation(plan, {}, request, CallState(self._budget), None, {})

    def _handed_back(self, answer: Answer, invocation: Invocation) -> T:
        value = answer.value
        return cast("T", Structured(answer.reply, value, None) if self._include_raw else value)

    def _failed(self, error: ServiceOutputError | FinishError) -> T:
        reply = error.attempts[-1].reply if error.attempts else None
        if not self._include_raw or reply is None:
            raise error
        return cast("T", Structured(reply, None, error))


@overload
def structured(
    model: ChatModel | str | None,
    schema: Mapping[str, Any],
    *,
    include_raw: Literal[False] = ...,
    method: Method | None = ...,
    options: ChatOptions = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    interceptors: Sequence[Interceptor] = ...,
) -> StructuredModel[dict[str, Any], dict[str, Any]]: ...
@overload
def structured(
    model: ChatModel | str | None,
    schema: Mapping[str, Any],
    *,
    include_raw: Literal[True],
    method: Method | None = ...,
    options: ChatOptions = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    interceptors: Sequence[Interceptor] = ...,
) -> StructuredModel[Structured[dict[str, Any]], dict[str, Any]]: ...
@overload
def structured(
    model: ChatModel | str | None,
    schema: TypeForm[V],
    *,
    include_raw: Literal[False] = ...,
    method: Method | None = ...,
    options: ChatOptions = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    interceptors: Sequence[Interceptor] = ...,
) -> StructuredModel[V, V]: ...
@overload
def structured(
    model: ChatModel | str | None,
    schema: TypeForm[V],
    *,
    include_raw: Literal[True],
    method: Method | None = ...,
    options: ChatOptions = ...,
    budget: Budget | None = ...,
    retry: Retry | None = ...,
    interceptors: Sequence[Interceptor] = ...,
) -> StructuredModel[Structured[V], V]: ...
def structured(
    model: ChatModel | str | None,
    schema: Any,
    *,
    include_raw: bool = False,
    method: Method | None = None,
    options: ChatOptions = _NO_OPTIONS,
    budget: Budget | None = None,
    retry: Retry | None = _ASKED_AGAIN,
    interceptors: Sequence[Interceptor] = (),
) -> Any:
    """A model that answers with values of ``schema``, as LangChain's ``with_structured_output`` makes one.

    ``schema`` is any type that a method may return (a pydantic model, a dataclass, a TypedDict, ``int``,
    ``list[Person]`` …), a JSON Schema as a dict, or the dict of an OpenAI function; the last two give plain
    dicts. With ``include_raw`` an answer is a ``Structured``, and one that cannot be read does not raise.
    ``method`` says how structure is asked for: "json_schema", "function_calling", "json_mode", or a Strategy;
    by default the most reliable way that the model has. All else is as with ``create``.
    Raises DefinitionError with all problems.
    """
    where = "structured"
    problems = options.problems(where)
    asked = _strategy(method, where, problems)
    parser = _parser(schema, where, problems)
    members = _members(model, where, problems)
    ways = None if parser is None else _Ways(parser, members, asked)
    routes = () if ways is None else ways.checked(where, problems)
    budget = budget or Budget()
    problems += budget.problems(where, dict.fromkeys(route.model.name for route in routes))
    if problems or ways is None:
        raise DefinitionError(problems)
    returns = Returns(schema, Shape.VALUE, asynchronous=False)
    plan = MethodPlan(where, inspect.Signature(), (), returns, None, None, None, None, routes, options, None)
    pipeline = Pipeline(interceptors if retry is None else (*interceptors, retry))
    return StructuredModel(ways, plan, pipeline, budget, include_raw=include_raw)


def _parser(schema: Any, where: str, problems: list[DefinitionProblem]) -> OutputParser[Any] | None:
    try:
        if not isinstance(schema, Mapping):
            return parser_for(schema)
        from output_parsers.json_schema.parser import function_schema, is_function, schema_parser

        if not is_function(schema):
            return schema_parser(schema)
        name, description, parameters = function_schema(schema)
        said = {} if description is None else {"description": description}
        return schema_parser({**parameters, **said}, name=name)
    except (TypeError, ValueError) as error:
        problems.append(DefinitionProblem(where, str(error)))
        return None


def _members(
    model: ChatModel | str | None, where: str, problems: list[DefinitionProblem]
) -> tuple[ChatModel, ...]:
    try:
        return members_of(find_model(model, where))
    except DefinitionError as error:
        problems.extend(error.problems)
        return ()


class _Ways(NamedTuple):
    """How each model is asked for the type."""

    parser: OutputParser[Any]
    members: tuple[ChatModel, ...]
    asked: Strategy | None

    def routes(self, *, growing: bool = False) -> tuple[ModelRoute, ...]:
        """The models in their order; ``growing`` says that the value is shown while it is written."""
        return tuple(ModelRoute(member, self._ladder(member, growing)) for member in self.members)

    def checked(self, where: str, problems: list[DefinitionProblem]) -> tuple[ModelRoute, ...]:
        """The same, ready to be asked; what stands against it goes to ``problems``."""
        before = len(problems)
        for member in self.members:
            try:
                self._ladder(member, growing=False)
            except StrategyFault as error:
                problems.append(DefinitionProblem(where, str(error)))
        if len(problems) > before:
            return ()
        routes = self.routes()
        try:
            for route in routes:
                route.ladder.prepare()
        except UnsupportedTypeError as error:
            problems.append(DefinitionProblem(where, str(error)))
        return routes

    def _ladder(self, member: ChatModel, growing: bool) -> StrategyFallbacks[Any]:
        return ladder_for(self.parser, member.capabilities, self.asked, member.name, growing=growing)


def _strategy(method: Method | None, where: str, problems: list[DefinitionProblem]) -> Strategy | None:
    if method is None:
        return None
    try:
        return _METHODS.get(method) or Strategy(method)
    except (ValueError, TypeError):  # what has no hash is no name
        known = ", ".join([*Strategy, *_METHODS])
        problems.append(DefinitionProblem(where, f"the method {method!r} is unknown; there are: {known}"))
        return None
