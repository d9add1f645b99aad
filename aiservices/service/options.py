"""The decorator ``options``, which sets options and settings for a service method or an interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..interface.decorators import declare
from ..models.requests import ChatOptions

if TYPE_CHECKING:  # a program that only declares interfaces does not import the engine
    from output_parsers.result.reading import Leniency

    from ..engine.budget import Budget
    from ..engine.pipeline import Interceptor
    from ..engine.retry import Retry
    from ..engine.tool_execution import ToolCheck, ToolInterceptor
    from ..models.base import ChatModel
    from ..models.requests import ReasoningEffort
    from ..models.strategy import Strategy
    from ..tools.tool import ToolErrors, ToolSource
    from ..tools.toolbox import ToolLimits

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


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
    timeout: float | None = None,
    extra_body: Mapping[str, object] | None = None,
    extra_headers: Mapping[str, str] | None = None,
) -> Callable[[Decorated], Decorated]:
    """Decorator that sets request options, such as the temperature, for a service method or interface.

    Several ``@options`` of one method are merged; where they set the same option, the upper one applies. An
    option of a method takes precedence over the same option of the interface, and that one over the argument
    of ``create``.

    Interceptors are merged: one of the method takes the place of those of the interface and of ``create``
    with the same ``position_name``, such as "input guard", and is added otherwise. Added ones get their place
    in the usual order, from the outside: input guards, moderation, memory, retrieval, checks of the answer.
    Those without a ``position_name`` are inside of all others, in their order. ``create`` checks the order.

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
