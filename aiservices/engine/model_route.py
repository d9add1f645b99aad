"""Choose the model for the next request, the strategy for structured output, and when to retry.

A ModelRoute is one model with its strategies for one type. It remembers for all calls what the provider
refused. A ModelFailover goes through the routes of one call. If the provider refuses a strategy, it tries the
next simpler one. If a model fails, it tries the next model. If all models have failed, it waits, and tries
those again that may recover.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ..models.base import Capabilities, ChatModel
from ..models.errors import ModelError, Strategy
from ..models.fallback import CircuitBreaker
from ..models.refusals import message_texts, refusal_text, refused_parameter
from ..models.requests import ChatRequest, JsonSchemaFormat
from .budget import Budget
from .output_format import OutputFormat

_MEMORY_SECONDS = 3600.0  # a server may be upgraded, so refusals are tried again after an hour
_LOGPROBS = "logprobs"  # the name of log probabilities among the refused features
_LONGEST_WAIT = 30.0  # seconds between two requests to one model, unless the provider asks for more
_LONGEST_REQUESTED_WAIT = 60.0  # seconds; a provider that requests more gets no further request
_SMALLEST_WAIT = 0.1  # seconds before a request that the provider asks to send again at once
_SAME_TIME = 0.005  # seconds; models that are ready within it keep their order
_UNSUPPORTED_STATUS = frozenset((400, 404, 405, 415, 422, 501))
_MAX_OTHER_ERRORS = 100
_INVALID_STATUS = frozenset((400, 422, 501))  # the request itself was not accepted
_TOO_LONG = ("context_length", "context length", "context window")
_NO_SERVER = "can handle the requested parameters"  # of OpenRouter: no endpoints found that …
# If the error of a provider contains one of these words, it refuses the strategy, not another part of the
# request.
_STRATEGY_WORDS = {
    Strategy.JSON_SCHEMA: (
        "response_format",
        "response format",
        "schema",
        "structured",
        "strict",
        "text.format",
        "guided",
        "json mode",
        "mime type",
        _NO_SERVER,
    ),
    Strategy.GRAMMAR: ("response_format", "schema", "grammar"),
    Strategy.OUTPUT_TOOL: ("tool", "function", _NO_SERVER),
    Strategy.JSON_MODE: (
        "response_format",
        "response format",
        "json_object",
        "json mode",
        "text.format",
        "mime type",
        _NO_SERVER,
    ),
}
_TOOL_WORDS = ("tool", "function")

# An error with one of these words is about something that each strategy sends.
_OTHER_PARTS = re.compile(
    r"temperature|top_[pk]|\bseed\b|penalty|logprob|reasoning|effort|service_tier"
    r"|\b(?>\w*?max_)\w*tokens"  # tried once in each word, because the time would be quadratic otherwise
    r"|parallel_tool_calls|\bstop\b|image|audio|video|\bfiles?\b|api.?key|quota|balance|billing|credit|safety"
    r"|polic[yi]|moderation|content.?filter|too (?:long|large|many)|exceed|tool_call_id|\broles?\b|alternat"
    r"|signature|thinking|thought|encrypted|model.{0,60}(?:not found|not exist)|(?:unknown|invalid) model"
)

# Errors with these words are about the schema, not about the strategy.
_SCHEMA_WORDS = (
    "invalid schema",
    "invalid_json_schema",
    "invalid_function_parameters",
    "schema is too complex",
    "compiled grammar is too large",
    "too many states",
    "output_config.format.schema",
)

# Reason and time, by the model name in the options (mostly ""), then by the name of the strategy option.
Unsupported = dict[str, dict[str, tuple[str, float]]]
_BY_ADDRESS: dict[tuple[str, str], Unsupported] = {}
_BY_MODEL: WeakKeyDictionary[ChatModel, Unsupported] = WeakKeyDictionary()


class StrategyOption(NamedTuple):
    """One strategy for requesting structured output from a model, such as JSON Schema in strict mode.

    Attributes:
        strategy: The strategy.
        strict: True to have the provider enforce the schema.
        reason: Why the strategy is possible.
    """

    strategy: Strategy
    strict: bool
    reason: str

    @property
    def name(self) -> str:
        return f"{self.strategy} in strict mode" if self.strict else str(self.strategy)


class StrategyFallbacks:
    """The strategies for requesting structured output from a model, in order of preference.

    The output format of a strategy is made when it is first used.

    Attributes:
        options: The strategies, best first.
        notes: Other reasons to report, such as that another model is left out.
    """

    def __init__(
        self,
        options: tuple[StrategyOption, ...],
        make: Callable[[StrategyOption, tuple[str, ...]], OutputFormat],
    ) -> None:
        self.options = options
        self.notes: tuple[str, ...] = ()
        self._make = make
        self._formats: dict[tuple[StrategyOption, str], OutputFormat] = {}

    def output_format(self, option: StrategyOption, refusal: str = "") -> OutputFormat:
        """Return the output format (schema, tool or prompt text) of a strategy.

        ``refusal`` is the reason why a better option is not used; "" if this is the best one.
        """
        output_format = self._formats.get((option, refusal))
        if output_format is None:
            reasons = (refusal, option.reason) if refusal else (option.reason,)
            output_format = self._make(option, reasons)
            if self.notes:
                output_format = output_format._replace(reasons=(*self.notes, *output_format.reasons))
            self._formats[option, refusal] = output_format
        return output_format

    def output_tool_names(self) -> set[str]:
        """Return the names of the tools that the model may call to give its final answer."""
        formats = [self.output_format(option) for option in self.options]
        return {one.tooling.choice for one in formats if one.tooling is not None}

    def prepare(self) -> None:
        """Prepare the preferred strategy in advance, to make the first call faster."""
        self.output_format(self.options[0])


def only_format(output_format: OutputFormat) -> StrategyFallbacks:
    """Return StrategyFallbacks with a single output format and no alternatives."""
    option = StrategyOption(output_format.strategy, False, output_format.reasons[0])
    return StrategyFallbacks((option,), lambda option, reasons: output_format)


class UnsupportedFeature(NamedTuple):
    """Records that a provider rejected a strategy for structured output, such as JSON Schema.

    Attributes:
        options: The names of the options that are skipped from now on.
        reason: The refusal in the words of the provider.
        method_only: True if it refused this one schema, or a combination with the tools of the method, or did
            not say what it refused; False if it refused the strategy for all methods.
        is_named: True if the provider named what it refuses.
    """

    options: tuple[str, ...]
    reason: str
    method_only: bool
    is_named: bool = True


class ModelRoute:
    """A model, and the strategies for requesting structured output from it, such as JSON Schema.

    The route remembers which strategies the provider refused. It does so once a simpler strategy was
    accepted, because only then it is known that the strategy was the reason. All services that use the model
    at its address share that knowledge, unless the provider refused only this schema.

    Attributes:
        model: The model.
        strategies: How structured output can be requested from it, best first.
        rest: Its circuit breaker, or None.
    """

    def __init__(
        self,
        model: ChatModel,
        strategies: StrategyFallbacks,
        rests: Mapping[int, CircuitBreaker] | None = None,
    ) -> None:
        """Create the route to a model.

        ``rests`` is given if the model belongs to a FallbackChatModel.
        """
        self.model = _in_turn(model)
        self.strategies = strategies
        self.rest = rests.get(id(model)) if rests else None
        self.strict_tools_refused = False
        self._unsupported_schema: Unsupported = {}
        self._unsupported = _unsupported_by(model)
        # Refusals of calls that failed before a simpler strategy was accepted, by the name of the model.
        self._unconfirmed: dict[str, tuple[UnsupportedFeature, ...]] = {}
        self._other_errors: set[str] = set()  # texts of errors for which no strategy was the reason

    @property
    def capabilities(self) -> Capabilities:
        """The features that a model supports, without strict tool schemas if its provider rejected them."""
        capabilities = self.model.capabilities
        return replace(capabilities, strict_schema=False) if self.strict_tools_refused else capabilities

    def logprobs(self, model_name: str | None) -> int:
        """Return how many alternative tokens to request for each token; 0 if the model cannot return any."""
        refused = _LOGPROBS in self._refused_options(model_name)
        return 0 if refused else self.model.capabilities.logprobs

    def refuse_logprobs(self, model_name: str | None, reason: str) -> str:
        """Record that the model returns no log probabilities; return the reason as one line."""
        reason = " ".join(reason.split())
        self._unsupported.setdefault(model_name or "", {})[_LOGPROBS] = reason, time.monotonic()
        return reason

    def why_no_logprobs(self, model_name: str | None) -> str:
        """Return why the model's replies do not include log probabilities."""
        reason = self._refused_options(model_name).get(_LOGPROBS)
        return reason or f"{self.model.name} gives no log probabilities"

    def best_option(self, model_name: str | None) -> tuple[StrategyOption, str]:
        """Return the best strategy that the provider has not rejected, with the reason for this choice.

        The second item says why the provider rejected a better option; "" if it did not reject any.
        """
        options = self.strategies.options
        if not self._unsupported and not self._unsupported_schema:
            return options[0], ""
        refused = self._refused_options(model_name)
        chosen = next((option for option in options if option.name not in refused), options[-1])
        better = options[: options.index(chosen)]
        reasons = [refused[option.name] for option in better if option.name in refused]
        return chosen, reasons[-1] if reasons else ""

    def output_format(self, model_name: str | None = None) -> OutputFormat:
        """Return the output format (schema, tool or prompt text) for the next request."""
        return self.strategies.output_format(*self.best_option(model_name))

    def fallback_after(
        self, refused: StrategyOption, error: ModelError, request: ChatRequest
    ) -> tuple[StrategyOption, UnsupportedFeature] | None:
        """Return the strategy to try after the provider rejected the given one; None if all were tried.

        Returns None if the error has another reason, or if there is no simpler option.
        """
        options, output_format = self.strategies.options, self.strategies.output_format
        tooling = output_format(refused).tooling
        has_tools = request.tooling is not None and len(request.tooling.tools) > (tooling is not None)
        refusal = _strategy_refusal(error, refused.strategy, request, has_tools=has_tools)
        if refusal is None or (not refusal.is_named and refusal.text in self._other_errors):
            return None
        index = options.index(refused)
        # A type that no strict mode can express is sent without "strict" either way: skip the same request.
        simpler = [
            option
            for option in options[index + 1 :]
            if not _sends_the_same(output_format(refused), output_format(option))
        ]
        if refused.strict and not refusal.tries_unstrict:
            simpler = [option for option in simpler if option.strategy is not refused.strategy]
        if not simpler:
            return None
        skipped = tuple(option.name for option in options[index : options.index(simpler[0])])
        reason = f"the provider refused {refused.name}: {_one_line(error)}"
        return simpler[0], UnsupportedFeature(skipped, reason, refusal.method_only, refusal.is_named)

    def unconfirmed(self, model_name: str | None) -> tuple[UnsupportedFeature, ...]:
        """Return what the provider refused in a call that failed before a simpler strategy succeeded."""
        return self._unconfirmed.get(model_name or "", ())

    def note_other_error(self, error: ModelError, request: ChatRequest) -> None:
        """Note that an error has another reason than the strategy, because it came with all of them."""
        if len(self._other_errors) >= _MAX_OTHER_ERRORS:
            self._other_errors.clear()
        self._other_errors.add(_provider_text(error, request))

    def set_unconfirmed(self, refusals: Iterable[UnsupportedFeature], model_name: str | None) -> None:
        """Note the refusals with which the next call begins, until one of its requests succeeds.

        Only those count in which the provider named what it refuses.
        """
        self._unconfirmed[model_name or ""] = tuple(one for one in refusals if one.is_named)

    def remember(self, refusals: Iterable[UnsupportedFeature], model_name: str | None) -> None:
        """Remember the strategies that the provider rejected, for later calls."""
        for refusal in refusals:
            unsupported = self._unsupported_schema if refusal.method_only else self._unsupported
            options = unsupported.setdefault(model_name or "", {})
            options.update(dict.fromkeys(refusal.options, (refusal.reason, time.monotonic())))

    def _refused_options(self, model_name: str | None) -> dict[str, str]:
        """Return the strategies that the provider rejected, each with the reason."""
        name, oldest = model_name or "", time.monotonic() - _MEMORY_SECONDS
        refused = {**self._unsupported.get(name, {}), **self._unsupported_schema.get(name, {})}
        return {option: reason for option, (reason, when) in refused.items() if when > oldest}


class ModelState:
    """The state of one model during a service call, such as its failures and the time of the next retry.

    Attributes:
        route: The model with its strategies.
        model_name: Another name that the options give to the model; None to use its own.
        name: The full name of the model.
        option: The strategy option of the last request.
        failures: The number of failed requests, without those whose strategy was refused.
        ready_at: When the model may get a request, by ``time.monotonic()``; infinity if never again.
        refused_options: The options of requests that the model has refused in this call.
    """

    def __init__(self, route: ModelRoute, model_name: str | None) -> None:
        self.route = route
        self.model_name = model_name
        name = route.model.name
        self.name = (
            name if model_name is None else f"{name.rpartition(':')[0]}:{model_name}".removeprefix(":")
        )
        self.option = route.strategies.options[0]
        self.failures = 0
        self.ready_at = 0.0
        self.refused_options: dict[str, tuple[str, ...]] = {}
        self._refusals = list(route.unconfirmed(model_name))
        self._gave_up_strict_tools = False
        if self._refusals:
            skipped = {name for refusal in self._refusals for name in refusal.options}
            options = route.strategies.options
            self.option = next((option for option in options if option.name not in skipped), options[-1])

    @property
    def capabilities(self) -> Capabilities:
        """The features that the model supports, without strict tool schemas if it refused them."""
        capabilities = self.route.capabilities
        return replace(capabilities, strict_schema=False) if self._gave_up_strict_tools else capabilities

    def choose_format(self) -> OutputFormat:
        """Choose the output format (schema, tool or prompt text) of the next model request."""
        # After a refusal in this call the option stays, even if other calls learn of more refusals.
        if self._refusals:
            reason = self._refusals[-1].reason
        else:
            self.option, reason = self.route.best_option(self.model_name)
        return self.route.strategies.output_format(self.option, reason)

    def use_simpler_strategy(self, error: ModelError, request: ChatRequest, *, offers_tools: bool) -> bool:
        """Switch to a simpler strategy for structured output if the provider rejected the last one."""
        if error.status not in _UNSUPPORTED_STATUS:
            return False
        if offers_tools and self.capabilities.strict_schema and _refuses_strict_tools(error, request):
            self._gave_up_strict_tools = True
            return True
        fallback = self.route.fallback_after(self.option, error, request)
        if fallback is None:
            if self._refusals:  # the strategy may not have been the reason
                self.route.set_unconfirmed((), self.model_name)
                self.route.note_other_error(error, request)
            return False
        self.option, refusal = fallback
        self._refusals.append(refusal)
        self.route.set_unconfirmed(self._refusals, self.model_name)
        return True

    def succeeded(self) -> None:
        """After a successful request, remember which strategies the provider rejected before."""
        if self._refusals:
            self.route.remember(self._refusals, self.model_name)
            self.route.set_unconfirmed((), self.model_name)
        self.refused_options = {}  # the route remembers them from now on
        if self._gave_up_strict_tools:
            self.route.strict_tools_refused = True
        if self.route.rest is not None:
            self.route.rest.succeeded()


class ModelFailover:
    """Chooses the model for each request of a service call, and another model after a failure.

    ``current`` is the model to ask. After a failure the next model takes over at once. When all have failed,
    those that may recover are tried again in their order, each after its wait.

    Attributes:
        current: The model to ask.
        skipped: Why other models were skipped.
    """

    def __init__(self, routes: Sequence[ModelRoute], budget: Budget, model_name: str | None) -> None:
        """Prepare to try several models in order.

        ``model_name`` replaces the name of the first model.
        """
        self._budget = budget
        self._jitter = 0.0
        self._models: list[ModelState] = []
        for route in routes:
            self._models.append(ModelState(route, None if self._models else model_name))
        self.skipped: tuple[str, ...] = ()
        self.current = self._models[0] if routes[0].rest is None else self._awake(self._models)[0]

    def after_failure(
        self, error: ModelError, *, may_retry: bool, seconds_left: float | None
    ) -> float | None:
        """Choose the model to ask after a failed request, and return the seconds to wait before.

        Returns None if no model is left.
        """
        failed = self.current
        now = time.monotonic()
        failed.failures += 1
        models = self._models
        if failed.route.rest is not None:
            failed.route.rest.failed(error)
        wait = self._wait_before_retry(error, failed.failures) if may_retry else None
        failed.ready_at = math.inf if wait is None else now + wait
        if failed.route.rest is not None and may_retry:
            models = self._awake(sorted(models, key=lambda model: model.ready_at))
        first = min(models, key=lambda model: model.ready_at)
        if first.ready_at == math.inf or not may_retry:
            return None
        if first is not failed or wait is None:  # else the wait is exact, without the rounding of the clock
            wait = first.ready_at - now
        wait = max(0.0, wait)
        if seconds_left is not None and wait >= seconds_left:
            return None
        ready_at = max(now, first.ready_at) + _SAME_TIME
        ready = [model for model in models if model.ready_at <= ready_at]
        for model in ready:
            model.ready_at = 0.0
        # If several models are ready, take the one with the fewest failures, and the first of equals.
        self.current = min(ready, key=lambda model: model.failures)
        return wait

    def _awake(self, models: list[ModelState]) -> list[ModelState]:
        """Return a list with the first usable model that is not resting after failures; all if all rest."""
        skipped: list[str] = []
        for model in models:
            rest = model.route.rest
            if model.ready_at == math.inf:
                continue
            if rest is None or rest.admits():
                self.skipped = tuple(dict.fromkeys((*self.skipped, *skipped)))
                return [model]
            skipped.append(rest.describe())
        return models

    def _wait_before_retry(self, error: ModelError, failures: int) -> float | None:
        """Return the seconds to wait before the next request to the same model; None if that cannot help."""
        if not error.retryable:
            return None
        if error.retry_after is not None:
            smallest = min(self._budget.first_wait, _SMALLEST_WAIT)  # for "0", which asks to send at once
            return None if error.retry_after > _LONGEST_REQUESTED_WAIT else max(error.retry_after, smallest)
        if not self._jitter:
            from random import uniform  # loads OpenSSL's hashes, and few calls are retried

            # The same jitter within a call, so that chance does not change the order of its models.
            self._jitter = uniform(0.75, 1.0)
        wait: float = min(self._budget.first_wait * 2 ** (failures - 1), _LONGEST_WAIT)
        return wait * self._jitter


def _in_turn(model: ChatModel) -> ChatModel:
    """Return the model, with a queue in front of it if it limits the requests at a time.

    A model with the attribute ``has_queue`` has one itself.
    """
    if model.capabilities.max_concurrency is None or getattr(model, "has_queue", False):
        return model
    from ..models.limits import PermitChatModel, QueuedChatModel  # few models have such a limit

    return model if isinstance(model, PermitChatModel) else QueuedChatModel(model)


def _unsupported_by(model: ChatModel) -> Unsupported:
    """Return the features, such as JSON Schema, that a model's provider is known to reject.

    Models with the same name and server address share this record.
    """
    endpoint = getattr(model, "endpoint", None)
    if isinstance(endpoint, str):
        return _BY_ADDRESS.setdefault((model.name, endpoint), {})
    try:
        return _BY_MODEL.setdefault(model, {})
    except TypeError:  # an object with slots or without a hash cannot be a weak key
        return {}


def _provider_text(error: ModelError, request: ChatRequest) -> str:
    """Return what the provider itself says in an error, without quotations of the request, in lower case."""
    return refusal_text(error, message_texts(request.messages))


class _Refusal(NamedTuple):
    """A provider's refusal of a strategy: see UnsupportedFeature. ``text`` is the provider's message."""

    text: str
    method_only: bool
    is_named: bool
    tries_unstrict: bool


def _mentions(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _strategy_refusal(
    error: ModelError, strategy: Strategy, request: ChatRequest, *, has_tools: bool
) -> _Refusal | None:
    """Return how an error refuses a strategy, such as JSON mode; None if it is about something else.

    A request that is invalid for an unnamed reason counts as a refusal, too: whether the strategy was the
    reason shows in the next request.
    """
    if error.status not in _UNSUPPORTED_STATUS or strategy not in _STRATEGY_WORDS:
        return None
    text = _provider_text(error, request)
    if _mentions(text, _TOO_LONG):  # such an error may mention the length of tools or schemas
        return None
    is_bad_schema = _mentions(text, _SCHEMA_WORDS)
    tries_unstrict = is_bad_schema or "strict" in text
    is_combination = has_tools and _mentions(text, _TOOL_WORDS)
    if is_combination or _mentions(text, _STRATEGY_WORDS[strategy]):
        is_of_method = is_bad_schema or (is_combination and strategy is not Strategy.OUTPUT_TOOL)
        return _Refusal(text, is_of_method, True, tries_unstrict)
    is_response = error.body is not None and error.status in _INVALID_STATUS
    if not is_response or _OTHER_PARTS.search(refused_parameter(error) or text):
        return None
    return _Refusal(text, True, False, tries_unstrict)


def _refuses_strict_tools(error: ModelError, request: ChatRequest) -> bool:
    text = _provider_text(error, request)
    return "strict" in text and "tool" in text


def refuses_logprobs(error: ModelError, request: ChatRequest) -> bool:
    """Return True if an error means that log probabilities are not available from the model."""
    return error.status in _UNSUPPORTED_STATUS and "logprob" in _provider_text(error, request)


def _one_line(error: ModelError) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:199] + "…"


def _sends_the_same(first: OutputFormat, second: OutputFormat) -> bool:
    return first.strategy is second.strategy and _is_strict(first) == _is_strict(second)


def _is_strict(output_format: OutputFormat) -> bool:
    response_format = output_format.response_format
    tools = () if output_format.tooling is None else output_format.tooling.tools
    return (isinstance(response_format, JsonSchemaFormat) and response_format.strict) or any(
        tool.strict for tool in tools
    )
