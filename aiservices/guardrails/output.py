"""Shows guards what the model answers before anybody else sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Reading, strict_equal

from ..engine.effects import Flow
from ..engine.output_format import OutputFormat
from ..engine.pipeline import Answer, Proceed
from ..engine.plan import Invocation
from ..models.errors import DefinitionError, DefinitionProblem
from ..models.messages import AiMessage, ChatReply, Message, ToolMessage, UserMessage
from .guard import (
    Guard,
    GuardFunction,
    GuardrailError,
    On,
    Reprompt,
    Rewritten,
    awaited,
    check_guards,
    failed,
    judged,
    name_of,
)
from .input import Told


def without_answer(said: Sequence[Message]) -> tuple[Message, ...]:
    """The rounds of tools before an answer, without it; a result that is the answer goes with its round."""
    if not said:
        return ()
    answers = [at for at, message in enumerate(said) if isinstance(message, AiMessage)]
    return tuple(said[: answers[-1]]) if answers else ()


def asked_again(
    invocation: Invocation, since: int, answer: Answer, text: str, message: str | None
) -> Invocation:
    """The turn that has an answer given again: after what was said with tools, which do not run again.

    ``since`` is how much of that is in the request by now. With a message the model is shown its answer, and
    told that; ``text`` is what the answer says.
    """
    before = without_answer(answer.said)[since:]
    told = () if message is None else _rejected(answer, text, Told(message))
    return replace(invocation, request=invocation.request.plus(*before, *told))


def _rejected(answer: Answer, text: str, told: str) -> tuple[Message, ...]:
    """The answer, and what is said of it."""
    said = answer.said
    if said and isinstance(said[-1], ToolMessage):
        return (*said[len(without_answer(said)) :], UserMessage(told))
    calls = answer.reply.message.tool_calls
    if calls and calls[0].arguments == text:
        shown = AiMessage(answer.reply.text, calls)
        return (shown, *(ToolMessage(call.id, call.name, told) for call in calls))
    return (AiMessage(text), UserMessage(told)) if text else (UserMessage(told),)


def text_of(answer: Answer, invocation: Invocation) -> str:
    """What the model wrote: its text, or the arguments of the tool whose call is the answer.

    Where the value is not what the reply says (it is the result of a tool, or was mended, or made by another
    interceptor) it is the value: a str as it is, all else as a model would write it.
    """
    wire = _wire_of(answer, invocation)
    if wire is None:
        return _written(answer.value, invocation)
    return answer.reply.message.tool_calls[0].arguments if _calls(answer.reply, wire) else answer.reply.text


def with_text(answer: Answer, text: str, invocation: Invocation) -> Answer:
    """The answer that says ``text`` instead, which is read again. Raises OutputParsingError."""
    wire = _wire_of(answer, invocation)
    reply = _saying(answer.reply, text, keeps_call=_calls(answer.reply, wire))
    reading = (
        (wire or invocation.plan.wire).read(reply) if _reads(wire, invocation) else _read(text, invocation)
    )
    return _said(answer, reply, text, reading)


def with_value(answer: Answer, value: Any, invocation: Invocation) -> Answer:
    """The answer with another value, and its text written anew. Raises ValueError for one of another type."""
    if not _is_like(value, answer.value, invocation):
        raise ValueError(f"{value!r} is no value of the method's type")
    text = _written(value, invocation)
    return _said(
        answer, _saying(answer.reply, text, keeps_call=False), text, Reading(value, answer.coercions)
    )


def _wire_of(answer: Answer, invocation: Invocation) -> OutputFormat[Any] | None:
    """The wire that reads the reply as the value; None where the value came about in another way."""
    wire = invocation.state.wire
    if wire is None or (answer.said and isinstance(answer.said[-1], ToolMessage)):
        return None
    try:
        return wire if strict_equal(wire.read(answer.reply).value, answer.value) else None
    except OutputParsingError:
        return None


def _calls(reply: ChatReply, wire: OutputFormat[Any] | None) -> bool:
    """Whether the answer is the call of a tool."""
    return wire is not None and wire.tooling is not None and bool(reply.message.tool_calls)


def _reads(wire: OutputFormat[Any] | None, invocation: Invocation) -> bool:
    """Whether a whole reply has to be read, and not a text."""
    return wire is not None or invocation.plan.wire.parser is None


def _read(text: str, invocation: Invocation) -> Reading[Any]:
    parser = invocation.plan.wire.parser
    assert parser is not None, "a reply is read where there is none"
    return parser.read(text)


def _written(value: Any, invocation: Invocation) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (AiMessage, ChatReply)):
        return value.text
    parser = invocation.plan.wire.parser
    try:
        return str(value) if parser is None else parser.write(value)
    except ValueError:  # a parser of the user's, whose texts only it knows
        return str(value)


def _is_like(value: Any, before: Any, invocation: Invocation) -> bool:
    """Whether a value is of the method's type; by its class where the type cannot be written."""
    parser = invocation.plan.wire.parser
    if parser is None:
        return type(value) is type(before)
    try:
        parser.write(value)
    except ValueError:
        try:
            parser.write(before)
        except ValueError:
            return type(value) is type(before)
        return False
    return True


def _saying(reply: ChatReply, text: str, *, keeps_call: bool) -> ChatReply:
    """The reply with another text, and nothing left of the first one."""
    calls = reply.message.tool_calls if keeps_call else ()
    message = AiMessage("", (replace(calls[0], arguments=text),)) if calls else AiMessage(text)
    return replace(reply, message=message, raw=None)


def _said(answer: Answer, reply: ChatReply, text: str, reading: Reading[Any]) -> Answer:
    """The answer as if the model had said so."""
    if answer.said and isinstance(answer.said[-1], ToolMessage):  # the result of a tool is the answer
        said = (*answer.said[:-1], replace(answer.said[-1], text=text))
        return replace(answer, value=reading.value, coercions=reading.coercions, said=said)
    said = (*answer.said[:-1], reply.message) if answer.said else ()
    return replace(answer, value=reading.value, reply=reply, coercions=reading.coercions, said=said)


class _Rejection(NamedTuple):
    """Which guard wants another answer, and why."""

    guard: str
    verdict: Reprompt


class OutputGuardrails:
    """Shows each answer to guards, one after the other, before anybody else sees it.

    A guard is a function of what the model wrote (``on="text"``) or of the typed value (``on="value"``), and
    of the turn. It gives ``passed()``; ``rewritten(new)``: a text is read again as the method's type, a value
    must be of that type; ``retry(reason)``: the model answers the same request again; ``reprompt(message)``:
    it is shown its answer, and told that; or ``refused(message)``, which is a GuardrailError, as is an answer
    that is rejected after ``max_retries`` further ones. Those are bounded by the budget of the call as well.
    A ``Guard`` says by itself what it is shown, whatever ``on`` says here.

    The guard after it is shown what it passed on; another answer is shown to all of them. What was rejected
    is in the attempts, but not in what memory keeps, and what was rewritten is only there as it was at first;
    tools do not run again. A guard may be async in async calls; one that is not runs in a thread there. An
    interceptor; put it after ChatMemory. Streams show nothing before an answer has passed.
    """

    blocks_streaming = True
    position_name = "output guard"

    def __init__(self, *guards: GuardFunction, on: On = "text", max_retries: int = 2) -> None:
        problems = check_guards("OutputGuardrails", guards)
        if on not in get_args(On):
            problems.append(
                DefinitionProblem("OutputGuardrails", f"on is {on!r}; it must be one of text, value")
            )
        if max_retries < 0:
            said = f"max_retries is {max_retries}; it must not be negative"
            problems.append(DefinitionProblem("OutputGuardrails", said))
        if problems:
            raise DefinitionError(problems)
        self._guards = guards
        self.awaits = awaited(guards)
        self._on: On = on
        self._max_retries = max_retries

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        tool_messages, since, made = invocation.state.tool_messages, invocation.told, 0
        while True:
            answer = yield from proceed(invocation)
            outcome = yield from self._judge(answer, invocation)
            if isinstance(outcome, Answer):
                return outcome
            made += 1
            self._check_again(outcome, made, invocation)
            text = text_of(answer, invocation)
            invocation = asked_again(invocation, since, answer, text, outcome.verdict.message)
            tool_messages[:] = without_answer(answer.said)
            since = len(tool_messages)

    def _judge(self, answer: Answer, invocation: Invocation) -> Flow[Answer | _Rejection]:
        """The answer as the guards pass it on, or who rejects it."""
        text: str | None = None  # known once a guard wants it, as a reply is read for it
        for guard in self._guards:
            on = guard.on if isinstance(guard, Guard) else self._on
            if on == "text" and text is None:
                text = text_of(answer, invocation)
            verdict = yield from judged(guard, text if on == "text" else answer.value, "output", invocation)
            if isinstance(verdict, Rewritten):
                answer, text = _rewritten(answer, verdict, on, guard, invocation), None
            elif isinstance(verdict, Reprompt):
                return _Rejection(name_of(guard), verdict)
        return answer

    def _check_again(self, rejection: _Rejection, made: int, invocation: Invocation) -> None:
        """Raise GuardrailError when the model must not be asked again."""
        context = invocation.state
        may = context.may_ask_again()
        if made <= self._max_retries and may:
            return
        name, reason = rejection.guard, rejection.verdict.reason
        answers = "its only answer" if made == 1 else f"all {made} answers"
        said = f"{invocation.plan.where}: the output guard {name} rejected {answers}: {reason}"
        error = GuardrailError(said, guard=name, where="output", reason=reason)
        if made <= self._max_retries:
            why = context.exceeded() or "a stream has handed out text"
            error.add_note(f"not asked again: {why}")
        raise error


def _rewritten(
    answer: Answer, verdict: Rewritten, on: On, guard: GuardFunction, invocation: Invocation
) -> Answer:
    try:
        if on == "value":
            return with_value(answer, verdict.new, invocation)
        if not isinstance(verdict.new, str):
            raise TypeError(f"it rewrote a text as {type(verdict.new).__name__}")
        return with_text(answer, verdict.new, invocation)
    except (OutputParsingError, ValueError, TypeError) as error:
        raise failed(name_of(guard), "output", invocation, error) from error
