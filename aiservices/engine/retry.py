"""If an answer cannot be parsed, ask the model again for the whole answer or only the invalid fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem
from output_parsers.result.reading import Coercion, Json
from output_parsers.types.cited import cited_from
from output_parsers.types.validation import arguments_for_validators

from ..models.arguments import checks_arguments, is_at_least, is_count
from ..models.errors import DefinitionError, DefinitionProblem, ServiceOutputError
from ..models.messages import AiMessage, Message, ToolMessage, UserMessage
from .budget import Budget
from .effects import Emit, Flow
from .interceptor import BaseInterceptor, InterceptorKind, Proceed, attributes_of
from .model_route import ModelRoute
from .plan import Invocation
from .results import Answer
from .strategy_selection import select_strategies
from .streams import AnswerRejected

if TYPE_CHECKING:  # imported late, because few answers are repaired
    from output_parsers.patch import Patch

_MAX_PROBLEMS = 20  # the maximum number of problems in one message to the model
# The key of the state of a call under which two numbers are stored: of the messages in the request before an
# answer was rejected, and of the tool messages among them.
_STATE_KEY = "retry"

Mode = Literal["whole", "fields"]


@checks_arguments
@dataclass(frozen=True, slots=True)
class Retry(BaseInterceptor):
    """Interceptor that asks the model again if its answer does not fit the return type.

    The model sees its answer and what is wrong with it. ``create(retry=…)`` adds it as the innermost
    interceptor. With ``mode="fields"`` the ``reply`` of the Result is the last reply, which may contain only
    the repaired fields.

    Attributes:
        max_attempts: The maximum number of answers to request, including the first; at most
            ``Budget.max_attempts``, which also counts failed requests. None sets no limit other than the
            budget.
        mode: "whole" to request the whole answer again, "fields" to request only the wrong fields, which are
            then put into the answer. If the problem is not in single fields, the whole answer is requested.
        on_empty: True to ask again after an answer without text, if the method returns text. By default it is
            the value "". For other types an empty reply is never a value.
    """

    max_attempts: int | None = None
    mode: Mode = "whole"
    on_empty: bool = False

    position_name = InterceptorKind.RETRY

    def __post_init__(self) -> None:
        messages = []
        if self.max_attempts is not None and not is_at_least(self.max_attempts, 1):
            messages.append(f"max_attempts is {self.max_attempts!r}; it must be at least 1")
        if self.mode not in get_args(Mode):
            messages.append(f'mode is {self.mode!r}; it must be "whole" or "fields"')
        if messages:
            raise DefinitionError([DefinitionProblem("Retry", message) for message in messages])

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        original, messages_sent = invocation, 0
        if invocation.state.tool_messages:
            original, messages_sent = _before_rejected_answers(invocation)
        stored_data = invocation.state.interceptor_data
        step, answers = proceed, 0
        repair: FieldRepair | None = None
        while True:
            try:
                answer = yield from step(invocation)
                if self.on_empty and _has_no_text(answer):
                    raise _empty_answer(answer, invocation)
            except ServiceOutputError as error:
                stored_data.pop(_STATE_KEY, None)
                answers += 1
                if answers == self.max_attempts or not invocation.state.may_retry():
                    _add_exceeded_budget(error, invocation)
                    raise
                yield Emit(AnswerRejected(error), streamed=False)
                tool_messages = original.state.tool_messages[messages_sent:]
                # A decision gets its probabilities from the whole reply.
                if self.mode == "fields" and not original.plan.decisions.is_required:
                    repair = plan_field_repair(original, tool_messages, error, proceed, failed=repair)
                if repair is not None:
                    step, invocation = repair.request_fields, repair.invocation
                else:
                    step, invocation = proceed, _ask_again(original, tool_messages, error)
                    stored_data[_STATE_KEY] = [len(original.request.messages), messages_sent]
            else:
                stored_data.pop(_STATE_KEY, None)
                return answer


def _has_no_text(answer: Answer) -> bool:
    value = answer.value.text if isinstance(answer.value, AiMessage) else answer.value
    is_result = answer.tool_run is not None or answer.reply.message.contents
    return isinstance(value, str) and not is_result and (not value or value.isspace())


def _empty_answer(answer: Answer, invocation: Invocation) -> ServiceOutputError:
    """Return the error for an answer without text, which its attempt gets, too."""
    state, problem = invocation.state, Problem("$", "the answer is empty")
    error = ServiceOutputError(invocation.plan.qualname, answer.reply.text, (problem,), state.attempts)
    error.reply = answer.reply
    if state.attempts:  # an interceptor may answer without a request
        state.attempts[-1] = state.attempts[-1]._replace(error=error)
    return error


def _before_rejected_answers(invocation: Invocation) -> tuple[Invocation, int]:
    """Return the call without its rejected answers, and the number of its tool messages.

    Only a call that was suspended after a rejected answer, and then resumed, has rejected answers in its
    request.
    """
    counts = invocation.stored_data(_STATE_KEY, _two_counts) if invocation.is_resumed else None
    if counts is None:
        return invocation, invocation.messages_sent
    messages, messages_sent = counts
    request = replace(invocation.request, messages=invocation.request.messages[:messages])
    return replace(invocation, request=request), messages_sent


def _two_counts(data: Json) -> tuple[int, int]:
    messages, messages_sent = data
    if not all(is_count(count, 0) for count in data):
        raise ValueError("it must be two counts")
    return messages, messages_sent


def retry_problems(location: str, interceptors: Iterable[object], budget: Budget) -> list[DefinitionProblem]:
    """Return an error for each Retry or guard that needs more attempts than the budget allows."""
    problems = []
    for interceptor in interceptors:
        attributes = attributes_of(interceptor)
        name, limit = type(interceptor).__name__, attributes.max_attempts
        if attributes.kind.requests_again and isinstance(limit, int) and limit > budget.max_attempts:
            message = (
                f"{name}(max_attempts={limit}) exceeds the budget of {budget.max_attempts} requests; "
                f"pass budget=Budget(max_attempts={limit}), or a smaller number to {name}"
            )
            problems.append(DefinitionProblem(location, message))
    return problems


def _ask_again(
    original: Invocation, tool_messages: Sequence[Message], error: ServiceOutputError
) -> Invocation:
    text = format_problems(error.problems, "Answer again in full and fix these problems.")
    messages = (*tool_messages, *_rejected_answer(original, text))
    return replace(original, request=original.request.plus(*messages))


def format_problems(problems: Sequence[Problem], instruction: str) -> str:
    """Return a message that tells the model what is wrong with its answer and what to do."""
    lines = [f"- {problem}" for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        lines.append(f"- and {len(problems) - _MAX_PROBLEMS} more")
    return "\n".join(["That answer cannot be read:", *lines, instruction])


def _rejected_answer(invocation: Invocation, text: str) -> tuple[Message, ...]:
    """Return the chat messages for a retry: the model's invalid answer and a description of the error."""
    state = invocation.state
    reply = state.attempts[-1].reply if state.attempts else None  # an interceptor may reject its own answer
    output_format = state.output_format
    if reply is None:
        return (UserMessage(text),)
    # Calls of tools that were not offered are left out, because some providers reject them in a conversation.
    if reply.message.tool_calls and output_format is not None and output_format.tooling is not None:
        # Providers require a result for each tool call, so each gets the text.
        results = [ToolMessage(call.id, call.name, text) for call in reply.message.tool_calls]
        return (reply.message, *results)
    return (AiMessage(reply.text), UserMessage(text)) if reply.text else (UserMessage(text),)


def _add_exceeded_budget(error: ServiceOutputError, invocation: Invocation) -> None:
    """Add to an error message why no further request is possible, such as too many tokens used."""
    exceeded = invocation.state.exceeded()
    if exceeded is not None and exceeded.limit != "max_attempts":
        error.args = (f"{error}; no further request: {exceeded}",)


class FieldRepair:
    """Corrects an invalid answer by asking the model for new values of the invalid fields.

    ``invocation`` is the call that requests the new values. ``parser`` reads the whole answer.
    """

    def __init__(
        self, patch: Patch[object], error: ServiceOutputError, invocation: Invocation, proceed: Proceed
    ) -> None:
        self._patch = patch
        self._error = error
        self._proceed = proceed
        self.invocation = invocation
        self.parser: TypeParser[object] = patch.whole

    def request_fields(self, invocation: Invocation) -> Flow[Answer]:
        """Request new values for the invalid fields of an answer, and return the corrected answer.

        Raises ServiceOutputError with the text and the problems of the whole answer if the new values cannot
        be read or do not fit.
        """
        rejected, attempts = self._error, invocation.state.attempts
        qualname = invocation.plan.qualname
        try:
            answer = yield from self._proceed(invocation)
        except ServiceOutputError as error:
            raise ServiceOutputError(
                qualname, rejected.text, rejected.problems, attempts
            ) from error.__cause__
        try:
            verifier = invocation.state.verifier
            with cited_from(verifier), arguments_for_validators(invocation.arguments):
                reading = self._patch.read(answer.value)
            if verifier is not None:
                verifier.resolve()
        except OutputParsingError as error:
            attempts[-1] = attempts[-1]._replace(error=error)
            raise ServiceOutputError(qualname, error.text, error.problems, attempts) from error.__cause__
        repaired = [Coercion(path, "requested again", "", "") for path in self._patch.paths]
        coercions = (*repaired, *answer.coercions, *reading.coercions)
        # The conversation gets the whole answer, not the fields alone.
        messages = (*answer.messages[:-1], AiMessage(self._patch.text(answer.value)))
        return replace(answer, value=reading.value, coercions=coercions, messages=messages)


def plan_field_repair(
    original: Invocation,
    tool_messages: Sequence[Message],
    error: ServiceOutputError,
    proceed: Proceed,
    *,
    failed: FieldRepair | None,
) -> FieldRepair | None:
    """Prepare a request that asks the model to rewrite only the invalid fields of its answer.

    Returns None if the whole answer must be written again. ``tool_messages`` are the tool messages since the
    request of ``original``; ``failed`` is the repair that raised the error, or None for another request.
    """
    from output_parsers.patch import patch_for

    state = original.state
    if state.output_format is None or state.route is None:
        return None
    parser = state.output_format.parser if failed is None else failed.parser
    patch = None if parser is None else patch_for(parser, error.text, error.problems)
    if patch is None:
        return None
    # The same model repairs its answer, by the same strategy.
    model = state.route.model
    strategies = select_strategies(
        patch.parts, model.capabilities, state.output_format.strategy, model.name, is_streamed=False
    )
    text = format_problems(error.problems, "Write only these parts again and fix the problems.")
    if failed is not None:
        conversation: tuple[Message, ...] = (AiMessage(error.text), UserMessage(text))
    else:
        conversation = _rejected_answer(original, text)
    invocation = replace(
        original,
        request=original.request.plus(*tool_messages, *conversation),
        routes=(ModelRoute(model, strategies),),
        toolbox=None,
        examples=(),  # examples show whole answers, not single fields
    )
    return FieldRepair(patch, error, invocation, proceed)
