"""The interceptor that checks the answers of the model with guard functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias, get_args

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Leniency, Reading, dump_json, strict_equal
from output_parsers.types.node import CustomNode
from output_parsers.types.records import EnvelopeNode

from ..engine.effects import CallModel, Effect, Flow
from ..engine.flows import map_effects, without_streaming
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.output_format import OutputFormat
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..interface.parameters import call_problem, function_name, is_async
from ..models.arguments import checks_arguments, is_at_least
from ..models.errors import DefinitionError, DefinitionProblem, Strategy
from ..models.messages import AiMessage, ChatReply, Message, ReplyDelta, ToolCall, ToolMessage, UserMessage
from .guard import (
    Guard,
    GuardFunction,
    GuardrailError,
    Passed,
    Reprompt,
    Rewritten,
    Subject,
    describe_async_guards,
    guard_failure,
    guard_name,
    guard_problems,
    guard_verdict,
    run_guard,
)
from .parts import Chunks, PartCheck
from .request_texts import GuardMessage, with_reasoning, with_text
from .texts import map_texts, texts_of

_MAX_ATTEMPTS = 3

# Returns a text, possibly rewritten, or None if it is rejected.
TextCheck: TypeAlias = Callable[[str], Flow[str | None]]


class _Rejection(NamedTuple):
    """The rejection of an answer: the name of the guard function, its verdict, and the checked text."""

    guard: str
    verdict: Reprompt
    text: str


@checks_arguments
class OutputGuardrails(BaseInterceptor):
    """Interceptor that checks each answer of the model with guard functions, one after the other.

    A guard is a function of the text or the value, and of the invocation. It returns one of these verdicts:

    - ``passed()`` accepts the answer.
    - ``rewritten(new)`` replaces it. A new text is parsed as the method's type; a new value must have that
      type.
    - ``retry(reason)`` sends the same request again.
    - ``reprompt(message)`` sends the rejected answer and the message, and the model answers again.
    - ``refused(message)`` raises a GuardrailError.

    Each guard gets what the guard before it returned, and all guards check a new answer. Tools do not run
    again for it. The attempts of the call contain rejected answers, a memory does not store them. Guards may
    be async in async calls; there, blocking guards run in a thread. Place OutputGuardrails after ChatMemory.
    Streams show nothing before an answer has passed.

    With ``chunks`` the guards check a text part by part, and a stream shows each part once all guards have
    passed or rewritten it. Blocking calls check the same parts. Once a stream has shown a part, no
    answer is requested again: a rejected part ends the call with a GuardrailError. Answers of other types
    than str are checked as a whole, also with ``chunks``.

    Args:
        guards: The guard functions. A ``Guard`` overrides ``on``.
        on: "text" to check text, "value" to check the typed value. Functions of text get each text in a value
            that is not a str. If it has no texts, they get the value as JSON; built-in guards then check only
            numbers.
        max_attempts: The maximum number of answers that the guards check, including the first; at most
            ``Budget.max_attempts``, which also counts failed requests. By default 3, or the budget if it is
            smaller. If all answers are rejected, the call raises a GuardrailError.
        chunks: Finds the parts: ``sentences()``, ``paragraphs()``, or a function that gets the text that has
            arrived, and returns the length of its first complete part, or 0. More text must not change that
            length.
    """

    position_name = InterceptorKind.OUTPUT_GUARD

    def __init__(
        self,
        *guards: GuardFunction,
        on: Subject = "text",
        max_attempts: int | None = None,
        chunks: Chunks | None = None,
    ) -> None:
        problems = guard_problems("OutputGuardrails", guards)
        if chunks is not None and (problem := call_problem(chunks, "text") or _async_problem(chunks)):
            problems.append(DefinitionProblem("OutputGuardrails", f"chunks {problem}"))
        if on not in get_args(Subject):
            message = f"on is {on!r}; it must be one of text, value"
            problems.append(DefinitionProblem("OutputGuardrails", message))
        if max_attempts is not None and not is_at_least(max_attempts, 1):
            message = f"max_attempts is {max_attempts!r}; it must be at least 1"
            problems.append(DefinitionProblem("OutputGuardrails", message))
        if problems:
            raise DefinitionError(problems)
        self._guards = guards
        # the built-in guards, which also check texts that are not the answer
        self._text_guards = [one for one in guards if isinstance(one, Guard) and one.on == "text"]
        self.async_parts = describe_async_guards(guards)
        self._on: Subject = on
        self.max_attempts = max_attempts
        self._chunks = chunks
        self.blocks_streaming = chunks is None  # otherwise each call decides

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        tool_messages, already_sent, rejected = invocation.state.tool_messages, invocation.messages_sent, 0
        while True:
            if self._chunks is None:
                answer = yield from proceed(invocation)
                outcome = yield from self.check(answer, invocation)
                check_text: TextCheck = partial(self.check_text, invocation=invocation)
            else:
                parts = _CheckedParts(self, self._chunks, invocation, rejected)
                answer = yield from map_effects(proceed(invocation), parts.perform)
                outcome = yield from parts.check(answer)
                check_text = parts.check_earlier_text
            if isinstance(outcome, Answer):
                return (yield from self.check_other_texts(outcome, invocation, check_text))
            rejected += 1
            self.check_limits(outcome, rejected, invocation)
            text = answer_text(answer, invocation)
            invocation = _request_again(invocation, already_sent, answer, text, outcome.verdict.message)
            # the rejected answer leaves the record of the call, so that a memory does not store it
            tool_messages[:] = _tool_rounds(answer.messages)
            already_sent = len(tool_messages)

    def check(self, answer: Answer, invocation: Invocation) -> Flow[Answer | _Rejection]:
        """Run all guard functions on an answer.

        Returns the answer, possibly rewritten, or a rejection.
        """
        written: Answer | None = None  # the answer whose value was written as JSON last
        value: _JsonValue | None = None
        for guard in self._guards:
            if not self.checks_text(guard):
                outcome = yield from _checked_value(guard, answer, invocation)
            else:
                if written is not answer:
                    value, written = _json_value(answer, invocation), answer
                outcome = yield from _checked_texts(guard, answer, value, invocation)
            if isinstance(outcome, _Rejection):
                return outcome
            answer = outcome
        if written is None:  # no guard of text
            return answer
        value = value if written is answer else _json_value(answer, invocation)
        return answer if value is None else _without_other_text(answer, value, invocation)

    def checks_text(self, guard: GuardFunction) -> bool:
        """Return True if a guard function checks text, and False if it checks the typed value."""
        return (guard.on if isinstance(guard, Guard) else self._on) == "text"

    def check_other_texts(self, answer: Answer, invocation: Invocation, check: TextCheck) -> Flow[Answer]:
        """Check texts other than the answer that are stored or shown: those before tool calls, and reasoning.

        ``check`` returns a text, possibly rewritten, or None to leave it out. Reasoning that a built-in guard
        does not accept is left out. What a built-in guard rewrites in arguments of tools is rewritten there.
        """
        if not any(map(self.checks_text, self._guards)):
            return answer
        replaced: dict[int, AiMessage] = {}
        for message in answer.messages_before_tools():
            changed = message
            if message.text.strip() and (text := (yield from check(message.text))) != message.text:
                changed = with_text(message, text or "")
            changed = yield from self._with_rewritten_arguments(changed, invocation)
            if changed is not message:
                replaced[id(message)] = changed
        final = answer.reply.message
        for message in (*answer.messages_before_tools(), final):
            if (yield from self._rejects_reasoning(message, invocation)):
                changed = replaced.get(id(message), message)
                replaced[id(message)] = with_reasoning(changed, None)
        if not replaced:
            return answer
        if id(final) in replaced:
            answer = replace(answer, reply=replace(answer.reply, message=replaced[id(final)], raw=None))
        recorded = invocation.state.tool_messages
        recorded[:] = [replaced.get(id(message), message) for message in recorded]
        messages = tuple(replaced.get(id(message), message) for message in answer.messages)
        return replace(answer, messages=messages)

    def _with_rewritten_arguments(self, message: AiMessage, invocation: Invocation) -> Flow[AiMessage]:
        """Return a message with the arguments of its tool calls as the built-in guards rewrite them.

        They have run, so no guard rejects them here; ToolGuardrails check them before.
        """
        calls = list(message.tool_calls)
        for index, call in enumerate(message.tool_calls):
            calls[index] = yield from self._with_rewritten_texts(call, invocation)
        if tuple(calls) == message.tool_calls:
            return message
        return replace(message, tool_calls=tuple(calls), state=None)

    def _with_rewritten_texts(self, call: ToolCall, invocation: Invocation) -> Flow[ToolCall]:
        toolbox = invocation.known_toolbox
        tool = None if toolbox is None else toolbox.tools.get(call.name)
        schema = (None if tool is None else tool.arguments.schema) or {}
        try:
            data = json.loads(call.arguments)
        except ValueError:
            data = call.arguments
        replacements: dict[str, str] = {}
        for original in texts_of(data, schema):
            text = original
            for guard in self._text_guards:
                verdict = yield from guard_verdict(guard, text, "output", invocation, invocation)
                text = verdict.text if isinstance(verdict, Rewritten) else text
            if text != original:
                replacements[original] = text
        if not replacements:
            return call
        data = map_texts(data, schema, partial(_replacement, replacements))
        return replace(call, arguments=data if isinstance(data, str) else dump_json(data))

    def _rejects_reasoning(self, message: AiMessage, invocation: Invocation) -> Flow[bool]:
        for guard in self._text_guards if message.reasoning else ():
            verdict = yield from guard_verdict(guard, message.reasoning, "output", invocation, invocation)
            if not isinstance(verdict, Passed):
                return True
        return False

    def check_text(self, text: str, invocation: Invocation) -> Flow[str | None]:
        """Run the guard functions of text; return the text, possibly rewritten, or None if it is rejected."""
        guards = filter(self.checks_text, self._guards)
        outcome = yield from _checked_part(guards, text, invocation)
        return outcome if isinstance(outcome, str) else None

    def check_part(self, part: str, invocation: Invocation) -> Flow[str | _Rejection]:
        """Run all guard functions on a part of an answer.

        Returns the part, possibly rewritten, or a rejection.
        """
        return (yield from _checked_part(self._guards, part, invocation))

    def check_limits(
        self, rejection: _Rejection, rejected: int, invocation: Invocation, *, has_streamed: bool = False
    ) -> None:
        """Raise GuardrailError if a limit forbids another model request after a rejected answer.

        ``has_streamed`` says that a stream has shown a part of the answer.
        """
        state = invocation.state
        may_ask_again = not has_streamed and state.may_retry()
        max_attempts = _MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts
        if rejected < max_attempts and may_ask_again:
            return
        name, reason = rejection.guard, rejection.verdict.reason
        answers = "its only answer" if rejected == 1 else f"all {rejected} answers"
        message = f"{invocation.plan.qualname}: the output guard {name} rejected {answers}: {reason}"
        if rejected < max_attempts:
            cause = state.exceeded() or "a stream has already handed out text"
            message = f"{message}; no further request: {cause}"
        raise GuardrailError(message, guard=name, stage="output", reason=reason, text=rejection.text)


class _CheckedParts:
    """Checks the parts of one answer, either while they are streamed or after a call without streaming."""

    def __init__(
        self, guards: OutputGuardrails, chunks: Chunks, invocation: Invocation, rejected: int
    ) -> None:
        """Prepare to check an answer.

        ``rejected`` is the number of answers that were rejected before.
        """
        self._guards = guards
        self._chunks = chunks
        self._invocation = invocation
        self._rejected = rejected
        self._streamed: PartCheck | None = None  # the parts of the reply that was streamed last
        self._replies: list[PartCheck] = []  # those of all replies that were streamed
        self._rejection: _Rejection | None = None

    def perform(self, effect: Effect) -> Flow[object]:
        """Perform an effect of the call, and stream only text that has been checked."""
        if not isinstance(effect, CallModel):
            return (yield effect)
        if not self._is_text():
            return (yield from without_streaming(effect))
        self._streamed = streamed = PartCheck(self._chunks, self._check_streamed)
        self._replies.append(streamed)
        stream_filter = partial(self._filter, streamed)
        return (yield effect._replace(policy=effect.policy.with_filter(stream_filter)))

    def check(self, answer: Answer) -> Flow[Answer | _Rejection]:
        """Run all guard functions on an answer.

        Returns the answer, possibly rewritten, or a rejection.
        """
        invocation, parts = self._invocation, self._streamed
        if not self._is_text():
            return (yield from self._guards.check(answer, invocation))
        text = answer_text(answer, invocation)
        if parts is None or not parts.is_complete or "".join(parts.original) != text or answer.tool_run:
            parts = yield from self._check_parts(text, answer.reply)
        if parts.is_rejected and self._rejection is not None:
            return self._rejection
        visible = "".join(parts.visible)
        return answer if visible == text else _with_text(answer, visible, invocation)

    def check_earlier_text(self, text: str) -> Flow[str | None]:
        """Check a text that the model wrote before a tool call; return what was shown of it, or None."""
        if not self._is_text():
            return (yield from self._guards.check_text(text, self._invocation))
        parts = next((one for one in self._replies if "".join(one.original) == text), None)
        if parts is None or not parts.is_complete:
            parts = yield from self._check_parts(text, ChatReply(AiMessage(text)))
        return None if parts.is_rejected else "".join(parts.visible)

    def _check_parts(self, text: str, reply: ChatReply) -> Flow[PartCheck]:
        parts = PartCheck(self._chunks, self._check_part)
        for flow in self._filter(parts, ReplyDelta(text, reply=reply)):
            yield from flow
        return parts

    def _is_text(self) -> bool:
        output_format = self._invocation.state.output_format or self._invocation.plan.output_format
        parser = output_format.parser
        is_text = output_format.strategy is Strategy.TEXT and parser is not None and parser.plain_text
        return is_text and self._invocation.plan.output_type is str  # a constraint needs the whole text

    def _filter(self, parts: PartCheck, delta: ReplyDelta) -> Iterator[Flow[ReplyDelta | None]]:
        try:
            yield from parts.filter(delta)
        except Exception as error:  # of the function that finds the parts: the flows run elsewhere
            name = function_name(self._chunks)
            raise guard_failure(name, "output", self._invocation, error, "".join(parts.original)) from error

    def _check_part(self, part: str) -> Flow[str | None]:
        outcome = yield from self._guards.check_part(part, self._invocation)
        if isinstance(outcome, str):
            return outcome
        self._rejection = outcome
        return None

    def _check_streamed(self, part: str) -> Flow[str | None]:
        """Check a part of a stream; raise GuardrailError if it is rejected and no retry is possible.

        Otherwise the rest of the reply is read without showing it, because the model gets the whole reply
        with the guard's message.
        """
        text = yield from self._check_part(part)
        if text is None and self._rejection is not None and self._streamed is not None:
            self._guards.check_limits(
                self._rejection,
                self._rejected + 1,
                self._invocation,
                has_streamed=any(self._streamed.visible),
            )
        return text


def _async_problem(chunks: Chunks) -> str | None:
    return "is async, and nothing awaits it; pass a plain function" if is_async(chunks) else None


def _request_again(
    invocation: Invocation, already_sent: int, answer: Answer, text: str, message: str | None
) -> Invocation:
    """Return a copy of the service call that requests a new answer in place of a rejected one.

    Its request contains the tool rounds so far, so the tools do not run again. With a message it also
    contains the rejected answer, whose text is ``text``, and the message. ``already_sent`` is the number of
    tool messages that the request contains already.
    """
    tool_rounds = _tool_rounds(answer.messages)[already_sent:]
    feedback = () if message is None else _feedback(answer, text, GuardMessage(message))
    return replace(invocation, request=invocation.request.plus(*tool_rounds, *feedback))


def _tool_rounds(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the tool calls and results that come before the final answer, as messages.

    A round whose tool result is the answer itself is part of the answer, and is left out.
    """
    if not messages:
        return ()
    answers = [index for index, message in enumerate(messages) if isinstance(message, AiMessage)]
    return tuple(messages[: answers[-1]]) if answers else ()


def _feedback(answer: Answer, text: str, feedback: str) -> tuple[Message, ...]:
    """Return messages that show the model its rejected answer and explain what is wrong."""
    messages = answer.messages
    if answer.tool_run is not None:
        return (*map(_as_own, messages[len(_tool_rounds(messages)) :]), UserMessage(feedback))
    calls = answer.reply.message.tool_calls
    if calls and calls[0].arguments == text:
        # providers require a result for each call, so the feedback is sent as the result
        ai_message = AiMessage(GuardMessage(answer.reply.text), calls)
        return (ai_message, *(ToolMessage(call.id, call.name, feedback) for call in calls))
    return (AiMessage(GuardMessage(text)), UserMessage(feedback)) if text else (UserMessage(feedback),)


def _as_own(message: Message) -> Message:
    """Return a message of the model or a tool in a form that input guards do not take for a caller's."""
    return replace(message, text=GuardMessage(message.text))


def texts_to_moderate(answer: Answer, invocation: Invocation) -> tuple[str, ...]:
    """Return the texts that a moderator checks: those of the value, and all that a memory stores."""
    value = _json_value(answer, invocation)
    texts = [message.text for message in answer.messages_before_tools()]
    texts += [answer_text(answer, invocation)] if value is None else texts_of(value.data, value.schema)
    stored = answer.reply.message.text if answer.tool_run is None else answer.tool_run.text
    if value is not None and not (texts and _has_only({*texts, *_strings(value.parser.schema)}, stored)):
        texts.append(stored)
    return tuple(dict.fromkeys(text for text in texts if text.strip()))


def answer_text(answer: Answer, invocation: Invocation) -> str:
    """Return a model's answer as text: the reply's text, or the JSON arguments of a tool call.

    The value may differ from the reply: a tool returned it, fields were repaired, or another interceptor
    replaced it. In that case the text is the value, a str as it is and other values as a model would write
    them.
    """
    output_format = _format_of(answer, invocation)
    if output_format is None:
        return _write(answer.value, invocation)
    reply = answer.reply
    return reply.message.tool_calls[0].arguments if _is_tool_call(reply, output_format) else reply.text


def _checked_part(
    guards: Iterable[GuardFunction], part: str, invocation: Invocation
) -> Flow[str | _Rejection]:
    """Run guard functions on a text that is not parsed; return the text, possibly rewritten."""
    for guard in guards:
        verdict = yield from run_guard(guard, part, "output", invocation)
        if isinstance(verdict, Reprompt):
            return _Rejection(guard_name(guard), verdict, part)
        if isinstance(verdict, Rewritten):
            try:
                part = verdict.text
            except TypeError as error:
                raise guard_failure(guard_name(guard), "output", invocation, error, part) from error
    return part


def _checked_value(guard: GuardFunction, answer: Answer, invocation: Invocation) -> Flow[Answer | _Rejection]:
    """Run a guard function on the typed value of an answer; return the answer, possibly with a new value."""
    verdict = yield from run_guard(guard, answer.value, "output", invocation)
    if isinstance(verdict, Reprompt):
        return _Rejection(guard_name(guard), verdict, answer.value if isinstance(answer.value, str) else "")
    if not isinstance(verdict, Rewritten):
        return answer
    try:
        return _with_value(answer, verdict.new, invocation)
    except (OutputParsingError, ValueError, TypeError) as error:
        raise guard_failure(guard_name(guard), "output", invocation, error) from error


def _checked_texts(
    guard: GuardFunction, answer: Answer, value: _JsonValue | None, invocation: Invocation
) -> Flow[Answer | _Rejection]:
    """Run a guard function on the text of an answer; return the answer, possibly rewritten.

    If the value is not text, the guard gets each text in it. If it has none, a number is the text, and for
    functions of users any value. Choices are words of the program, which built-in guards do not check.
    """
    texts = [answer_text(answer, invocation)] if value is None else texts_of(value.data, value.schema)
    is_whole = value is None
    if value is not None and not texts and (not isinstance(guard, Guard) or value.is_number):
        texts, is_whole = [value.text], True
    replacements: dict[str, str] = {}
    for text in texts:
        outcome = yield from _checked_part((guard,), text, invocation)
        if isinstance(outcome, _Rejection):
            return outcome
        if outcome is not text:
            replacements[text] = outcome
    if not replacements:
        return answer
    try:
        if value is None:
            return _with_text(answer, replacements[texts[0]], invocation)
        if is_whole:
            return _with_value(answer, value.parser.parse(replacements[texts[0]]), invocation)
        return _with_value(answer, value.with_texts(replacements), invocation)
    except (OutputParsingError, ValueError, TypeError) as error:
        raise guard_failure(guard_name(guard), "output", invocation, error) from error


class _JsonValue(NamedTuple):
    """The value of an answer as JSON data, and the JSON Schema of the data."""

    data: object
    schema: Mapping[str, object]
    parser: TypeParser[object]
    value: object

    @property
    def text(self) -> str:
        """The value as text, for a value without texts in it."""
        return self.data if isinstance(self.data, str) else dump_json(self.data)

    @property
    def is_number(self) -> bool:
        """True for a number that is not one of a few choices."""
        is_number = isinstance(self.data, (int, float, Decimal)) and not isinstance(self.data, bool)
        return is_number and self.schema.keys().isdisjoint(("enum", "const", "anyOf"))

    def with_texts(self, replacements: Mapping[str, str]) -> object:
        """Return the value with other texts, or raise OutputParsingError if they do not fit the type."""
        self.parser.write(self.value)  # an error if the text is not the whole value, as for secrets
        data = map_texts(self.data, self.schema, partial(_replacement, replacements))
        node = self.parser.node
        if isinstance(node, EnvelopeNode):
            data = {node.field: data}
        return self.parser.parse(dump_json(data), Leniency.SAFE)


def _json_value(answer: Answer, invocation: Invocation) -> _JsonValue | None:
    """Return the value of an answer as JSON; None for text, messages, and values of custom parsers."""
    parser = invocation.plan.output_format.parser
    if not isinstance(parser, TypeParser) or parser.plain_text or isinstance(parser.node, CustomNode):
        return None
    node, data, schema = parser.node, parser.node.write(answer.value), parser.schema or {}
    if isinstance(node, EnvelopeNode):
        inner = schema["properties"][node.field]
        data, schema = data[node.field], {**inner, "$defs": schema.get("$defs", {})}
    return _JsonValue(data, schema, parser, answer.value)


def _without_other_text(answer: Answer, value: _JsonValue, invocation: Invocation) -> Answer:
    """Return a copy of an answer whose reply has no text that the guards have not seen.

    What a model writes around a value, or in fields that the type does not have, is not part of the value.
    """
    if answer.tool_run is not None:
        return answer
    message = answer.reply.message
    words = {*_strings(value.data), *_strings(value.parser.schema), value.text}
    written = (message.text, *(call.arguments for call in message.tool_calls))
    if all(_has_only(words, text) for text in written):
        return answer
    return _with_written_value(answer, answer.value, invocation)


def _replacement(replacements: Mapping[str, str], text: str) -> str:
    return replacements.get(text, text)


def _has_only(words: set[str], text: str) -> bool:
    """Return True if a text is empty, one of the words, or JSON whose strings are all among them."""
    if not text.strip() or text.strip() in words:
        return True
    try:
        return words >= set(_strings(json.loads(text)))
    except ValueError:
        return False


def _strings(data: object) -> list[str]:
    return texts_of(data, {})


def _with_text(answer: Answer, text: str, invocation: Invocation) -> Answer:
    """Return a copy of an answer with a new text, and with the value parsed from that text."""
    output_format = _format_of(answer, invocation)
    reply = _reply_with(answer.reply, text, keep_call=_is_tool_call(answer.reply, output_format))
    parser = invocation.plan.output_format.parser
    if output_format is not None:
        reading = output_format.read(reply)
    elif parser is None:  # the method returns a message or a reply, which is not parsed from a text
        reading = invocation.plan.output_format.read(reply)
    else:
        reading = parser.read(text)
    return _answer_with(answer, reply, text, reading)


def _with_value(answer: Answer, value: object, invocation: Invocation) -> Answer:
    """Return a copy of an answer with another value, or raise ValueError for a value of a wrong type."""
    if not _has_type_of_method(value, answer.value, invocation):
        raise ValueError(f"{value!r} is not a value of the method's type")
    return _with_written_value(answer, value, invocation)


def _with_written_value(answer: Answer, value: object, invocation: Invocation) -> Answer:
    """Return a copy of an answer with a value, and with a reply that has nothing else."""
    text, output_format = _write(value, invocation), invocation.state.output_format
    reply = _reply_with(answer.reply, text, keep_call=_is_tool_call(answer.reply, output_format))
    return _answer_with(answer, reply, text, Reading(value, answer.coercions))


def _format_of(answer: Answer, invocation: Invocation) -> OutputFormat | None:
    """Return the output format of the reply, or None if the answer differs from the reply."""
    output_format = invocation.state.output_format
    if output_format is None or answer.tool_run is not None:
        return None
    try:
        return output_format if strict_equal(output_format.read(answer.reply).value, answer.value) else None
    except OutputParsingError:
        return None


def _is_tool_call(reply: ChatReply, output_format: OutputFormat | None) -> bool:
    """Return True if the model gave its answer by calling a tool instead of writing text."""
    return output_format is not None and output_format.tooling is not None and bool(reply.message.tool_calls)


def _write(value: object, invocation: Invocation) -> str:
    """Convert a return value to text as a model would write it, for example as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (AiMessage, ChatReply)):
        return value.text
    parser = invocation.plan.output_format.parser
    try:
        return str(value) if parser is None else parser.write(value)
    except ValueError:  # parsers of the user may be unable to write
        return str(value)


def _has_type_of_method(value: object, original: object, invocation: Invocation) -> bool:
    """Return True if a guard function's replacement value fits the return type of the service method.

    A parser that cannot even write the original value cannot tell; then both values must have the same class.
    """
    parser = invocation.plan.output_format.parser
    if parser is None:
        return type(value) is type(original)
    try:
        parser.write(value)
    except ValueError:
        try:
            parser.write(original)
        except ValueError:
            return type(value) is type(original)
        return False
    return True


def _reply_with(reply: ChatReply, text: str, *, keep_call: bool) -> ChatReply:
    """Return a copy of a model's reply with different text, or different arguments in its tool call."""
    calls = reply.message.tool_calls if keep_call else ()
    message = AiMessage("", (replace(calls[0], arguments=text),)) if calls else AiMessage(text)
    return replace(reply, message=message, raw=None)


def _answer_with(answer: Answer, reply: ChatReply, text: str, reading: Reading[object]) -> Answer:
    """Return a copy of an answer with a new value and a matching reply or tool result."""
    messages = answer.messages
    if answer.tool_run is not None:
        call_id = answer.tool_run.call.id
        messages = tuple(
            replace(one, text=text) if isinstance(one, ToolMessage) and one.call_id == call_id else one
            for one in messages
        )
        return replace(answer, value=reading.value, coercions=reading.coercions, messages=messages)
    messages = (*messages[:-1], reply.message) if messages else ()
    return replace(answer, value=reading.value, reply=reply, coercions=reading.coercions, messages=messages)
