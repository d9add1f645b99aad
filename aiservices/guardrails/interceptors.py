"""Interceptors that check user messages, answers and tool calls with guard functions.

An answer is checked as a whole, or part by part while it is streamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, get_args

from output_parsers.result.errors import OutputParsingError
from output_parsers.result.reading import Reading, strict_equal

from ..engine.effects import CallModel, Effect, Flow, map_effects, without_streaming
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.output_format import INSTRUCTIONS_MARK, OutputFormat
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..engine.tool_execution import ToolInvocation
from ..interface.parameters import call_problem, function_name, is_async
from ..models.errors import DefinitionError, DefinitionProblem, Strategy, ToolError, is_at_least
from ..models.media import interleave
from ..models.messages import AiMessage, ChatReply, Message, ReplyDelta, ToolMessage, UserMessage
from ..tools.tool import ReturnBehavior, ToolRun
from .guard import (
    Guard,
    GuardFunction,
    GuardrailError,
    Refused,
    Reprompt,
    Rewritten,
    Stage,
    Subject,
    Verdict,
    describe_async_guards,
    guard_failure,
    guard_name,
    guard_problems,
    guard_verdict,
    passed,
    run_guard,
    texts_in,
)

# --- User messages ---


class InputGuardrails(BaseInterceptor):
    """Middleware that checks the user message with guard functions, one after the other.

    A guard is a function of the text and the invocation. It returns ``passed()``, ``rewritten(text)`` or
    ``refused(message)``; a refusal raises a GuardrailError. Each guard gets the text that the guard before it
    returned. Guards may be async in async calls; there, blocking guards run in a thread.

    The model and the interceptors after this one get only the rewritten text. So place InputGuardrails before
    ChatMemory, otherwise the memory stores the original. Text that a retrieval adds is checked only if this
    interceptor comes after the retrieval. Earlier messages of the conversation are not checked. A call that
    is resumed after an approval is not checked again.
    """

    position_name = InterceptorKind.INPUT_GUARD

    def __init__(self, *guards: GuardFunction) -> None:
        problems = guard_problems("InputGuardrails", guards)
        if problems:
            raise DefinitionError(problems)
        self._guards = guards
        self.async_parts = describe_async_guards(guards)

    def __call__(self, invocation: Invocation, proceed: Proceed, /) -> Flow[Answer]:
        for guard in () if invocation.is_resumed else self._guards:
            # searched for each guard, because the guard before may have rewritten it
            user_text = find_user_text(invocation)
            if user_text is None:
                break
            verdict = yield from run_guard(guard, user_text.text, "input", invocation)
            if isinstance(verdict, Rewritten) and isinstance(verdict.new, str):
                invocation = user_text.replace_text(verdict.new, invocation)
            elif isinstance(verdict, Rewritten):
                error = TypeError(f"it rewrote a text as {type(verdict.new).__name__}")
                raise guard_failure(guard_name(guard), "input", invocation, error, user_text.text)
            elif isinstance(verdict, Reprompt):
                error = TypeError("the model has not answered yet; use refused(…) or rewritten(…)")
                raise guard_failure(guard_name(guard), "input", invocation, error, user_text.text)
        return (yield from proceed(invocation))


_PRIVATE_USE = range(0xE000, 0xF8FF)  # Unicode characters without a meaning of their own


class GuardMessage(str):
    """The text of a user message that requests a new answer after a guard function rejected the previous one.

    Input guards do not check it.
    """

    __slots__ = ()


class UserText(NamedTuple):
    """The text of the user message in a chat request, as guard functions receive it.

    Attributes:
        text: The text, in which one private-use character stands for the mark of the format instructions, so
            that guards neither see nor change the mark.
        position: The index of the message in the request.
        placeholder: That private-use character; "" if the message has no mark.
    """

    text: str
    position: int
    placeholder: str

    def replace_text(self, text: str, invocation: Invocation) -> Invocation:
        """Return a copy of the service call with another text in the user message."""
        if self.placeholder:
            text = text.replace(self.placeholder, INSTRUCTIONS_MARK)
        messages = list(invocation.request.messages)
        original = messages[self.position]
        assert isinstance(original, UserMessage), "find_user_text only returns positions of user messages"
        contents = tuple(interleave(text, original.contents)) if original.contents else ()
        messages[self.position] = replace(original, text=text, contents=contents)
        return replace(invocation, request=replace(invocation.request, messages=tuple(messages)))


def find_user_text(invocation: Invocation) -> UserText | None:
    """Return the text of the last user message in a chat request, or None if there is none."""
    messages = invocation.request.messages
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, UserMessage) and not isinstance(message.text, GuardMessage):
            if INSTRUCTIONS_MARK not in message.text:
                return UserText(message.text, position, "")
            # any character that the text does not contain can stand for the mark
            placeholder = next(char for char in map(chr, _PRIVATE_USE) if char not in message.text)
            text = message.text.replace(INSTRUCTIONS_MARK, placeholder)
            return UserText(text, position, placeholder)
    return None


# --- Answers ---


# --- Splitting a streamed text into parts ---

# Gets the text that has arrived, and returns the length of its first complete part; 0 if there is none yet.
# More text after it must not change the length, so that the parts do not depend on how a reply arrives.
Chunks: TypeAlias = Callable[[str], int]

_WINDOW = 256  # characters that are searched for the end of a part at least

# The end of a sentence is decided by the character after it, so that more text cannot change it.
_SENTENCE_END = re.compile(
    r"""\n
    | (?<=[.!?…]) ["'”’»)\]*_]{0,3} \s
    | (?<=[。！？]) [」』”’）]{0,3} (?=[^」』”’）])""",
    re.VERBOSE,
)
_PARAGRAPH_END = re.compile(r"\n[ \t\r]*\n")
_VISIBLE = re.compile(r"\S")


def sentences() -> Chunks:
    """Return a function that splits streamed text into sentences, for ``OutputGuardrails(chunks=...)``.

    A sentence ends after ``.``, ``!``, ``?`` or ``…`` with white space behind it, after ``。``, ``！`` or
    ``？``, and at the end of a line. An abbreviation such as "Dr. " is a part of its own.
    """
    return _first_part(_SENTENCE_END)


def paragraphs() -> Chunks:
    """Return a function that splits streamed text into paragraphs, for ``OutputGuardrails(chunks=...)``.

    A paragraph ends at an empty line.
    """
    return _first_part(_PARAGRAPH_END)


def _first_part(end: re.Pattern[str]) -> Chunks:
    def length(text: str) -> int:
        visible = _VISIBLE.search(text)  # a part has more than white space
        part_end = None if visible is None else end.search(text, visible.end())
        return 0 if part_end is None else part_end.end()

    return length


class TextParts:
    """Splits text that arrives in pieces into complete parts, such as sentences.

    It takes time in proportion to the length of the text: a long incomplete part is searched again only when
    it has grown by a quarter.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._text = ""
        self._start = 0  # the start of the first incomplete part
        self._searched = 0  # the number of characters from there that contain no end of a part
        self._pieces: list[str] = []
        self._length = 0  # the total length of the pieces
        self._is_first = True

    def add(self, text: str) -> None:
        """Add the next piece of the text."""
        self._pieces.append(text)
        self._length += len(text)

    def complete(self, *, is_last: bool) -> Iterator[tuple[str, bool]]:
        """Yield the parts, such as sentences, that are now complete; at the end also the rest.

        The second item is False for white space at the end of the text, which is not checked.
        """
        left = len(self._text) - self._start + self._length
        if not is_last and self._searched >= _WINDOW and left < self._searched * 5 // 4:
            return
        self._text = "".join((self._text[self._start :], *self._pieces))
        self._start = self._length = 0
        self._pieces.clear()
        while length := self._next_length():
            part = self._text[self._start : self._start + length]
            self._start += length
            self._is_first = False
            yield part, True
        if is_last:
            rest = self._text[self._start :]
            if rest or self._is_first:
                yield rest, self._is_first or not rest.isspace()

    def _next_length(self) -> int:
        """Return the length of the next complete part; 0 if no part is complete yet."""
        left = len(self._text) - self._start
        while self._searched < left:
            window = min(left, max(_WINDOW, 2 * self._searched))
            length = self._chunks(self._text[self._start : self._start + window])
            if type(length) is not int or not 0 <= length <= window:
                raise ValueError(
                    f"it returned {length!r} for a text of {window} characters; it must return the length of "
                    "the first complete part, or 0"
                )
            self._searched = 0 if length else window
            if length:
                return length
        return 0


class PartCheck:
    """Checks the parts of one streamed reply with guards, and collects the text that may be shown.

    Attributes:
        original: The reply as the model wrote it, so far.
        visible: The parts after the guards changed them.
        is_rejected: True after a guard rejected a part. Then nothing more is shown.
        is_complete: True after the end of the reply.
    """

    def __init__(self, chunks: Chunks, check: Callable[[str], Flow[str | None]]) -> None:
        """Create a check for streamed text.

        ``check`` returns the text to show, possibly rewritten, or None to reject it.
        """
        self._parts = TextParts(chunks)
        self._check = check
        self.original: list[str] = []
        self.visible: list[str] = []
        self.is_rejected = False
        self.is_complete = False

    def filter(self, delta: ReplyDelta) -> Iterator[Flow[ReplyDelta | None]]:
        """Yield a flow for each part that is now complete; the flow returns the text to show."""
        self.original.append(delta.text)
        self.is_complete = delta.reply is not None
        if self.is_rejected:
            return
        others = delta._replace(text="", reply=None, raw=None)  # the event has the text, too
        if others != ReplyDelta():
            yield _unchecked(others)
        self._parts.add(delta.text)
        for part, is_checked in self._parts.complete(is_last=self.is_complete):
            yield self._show(part, is_checked=is_checked)
            if self.is_rejected:
                return
        if delta.reply is not None:
            yield _unchecked(ReplyDelta(reply=self._reply_with_streamed_text(delta.reply)))

    def _reply_with_streamed_text(self, reply: ChatReply) -> ChatReply:
        """Return a copy of a reply with only the shown text, because other fields may quote the original."""
        message = AiMessage("".join(self.visible), reply.message.tool_calls)
        return ChatReply(message, reply.finish_reason, reply.usage, reply.model, reply.id)

    def _show(self, part: str, *, is_checked: bool) -> Flow[ReplyDelta | None]:
        text = (yield from self._check(part)) if is_checked else part
        if text is None:
            self.is_rejected = True
            return None
        self.visible.append(text)
        return ReplyDelta(text) if text else None


def _unchecked(delta: ReplyDelta) -> Flow[ReplyDelta]:
    yield from ()
    return delta


_MAX_ATTEMPTS = 3


class _Rejection(NamedTuple):
    """The rejection of an answer: the name of the guard function, its verdict, and the checked text."""

    guard: str
    verdict: Reprompt
    text: str


class OutputGuardrails(BaseInterceptor):
    """Middleware that checks each answer of the model with guard functions, one after the other.

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
    passed or rewritten it. Blocking calls check the same parts. Once a stream has shown a part, the model is
    not asked again: a rejected part ends the call with a GuardrailError. Answers of other types than str are
    checked as a whole, also with ``chunks``.

    Args:
        guards: The guard functions. A ``Guard`` overrides ``on``.
        on: "text" to check what the model wrote, "value" to check the typed value.
        max_attempts: How many answers the guards check, the first one included; at most
            ``Budget.max_attempts``, which also counts failed requests. By default 3, or the budget if it is
            smaller. If all answers are rejected, the call raises a GuardrailError.
        chunks: Finds the parts: ``sentences()``, ``paragraphs()``, or a function that gets the text that has
            arrived, and returns the length of its first complete part, 0 if there is none yet. More text must
            not change that length.
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
            else:
                parts = _CheckedParts(self, self._chunks, invocation, rejected)
                answer = yield from map_effects(proceed(invocation), parts.perform)
                outcome = yield from parts.check(answer)
            if isinstance(outcome, Answer):
                return outcome
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
        text: str | None = None  # determined when a guard needs it, since that parses the reply again
        for guard in self._guards:
            on = guard.on if isinstance(guard, Guard) else self._on
            if on == "text" and text is None:
                text = answer_text(answer, invocation)
            subject = text if on == "text" else answer.value
            verdict = yield from run_guard(guard, subject, "output", invocation)
            if isinstance(verdict, Rewritten):
                answer, text = _rewritten_answer(answer, verdict, on, guard, invocation), None
            elif isinstance(verdict, Reprompt):
                return _Rejection(guard_name(guard), verdict, subject if isinstance(subject, str) else "")
        return answer

    def check_part(self, part: str, invocation: Invocation) -> Flow[str | _Rejection]:
        """Run all guard functions on a part of an answer.

        Returns the part, possibly rewritten, or a rejection.
        """
        for guard in self._guards:
            verdict = yield from run_guard(guard, part, "output", invocation)
            if isinstance(verdict, Reprompt):
                return _Rejection(guard_name(guard), verdict, part)
            if isinstance(verdict, Rewritten):
                try:
                    part = verdict.text
                except TypeError as error:
                    raise guard_failure(guard_name(guard), "output", invocation, error, part) from error
        return part

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
            message = f"{message}; not asked again: {cause}"
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
        self._rejection: _Rejection | None = None

    def perform(self, effect: Effect) -> Flow[Any]:
        """Perform an effect of the call, and stream only text that has been checked."""
        if not isinstance(effect, CallModel):
            return (yield effect)
        if not self._is_text():
            return (yield from without_streaming(effect))
        self._streamed = streamed = PartCheck(self._chunks, self._check_streamed)
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
            parts = PartCheck(self._chunks, self._check_part)
            for flow in self._filter(parts, ReplyDelta(text, reply=answer.reply)):
                yield from flow
        if parts.is_rejected and self._rejection is not None:
            return self._rejection
        visible = "".join(parts.visible)
        return answer if visible == text else _with_text(answer, visible, invocation)

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
        return (*messages[len(_tool_rounds(messages)) :], UserMessage(feedback))
    calls = answer.reply.message.tool_calls
    if calls and calls[0].arguments == text:
        # providers require a result for each call, so the feedback is sent as the result
        ai_message = AiMessage(answer.reply.text, calls)
        return (ai_message, *(ToolMessage(call.id, call.name, feedback) for call in calls))
    return (AiMessage(text), UserMessage(feedback)) if text else (UserMessage(feedback),)


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


def _rewritten_answer(
    answer: Answer, verdict: Rewritten, on: Subject, guard: GuardFunction, invocation: Invocation
) -> Answer:
    """Return a copy of an answer with the new text or value that a guard function has returned.

    Raises GuardrailError if the new text or value does not fit the return type.
    """
    try:
        if on == "value":
            return _with_value(answer, verdict.new, invocation)
        return _with_text(answer, verdict.text, invocation)
    except (OutputParsingError, ValueError, TypeError) as error:
        raise guard_failure(guard_name(guard), "output", invocation, error) from error


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
    text = _write(value, invocation)
    reply = _reply_with(answer.reply, text, keep_call=False)
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


# --- Tool calls ---


# Gets the arguments, a text or the result, and the tool call. Any, because their types depend on the tool.
ToolGuardFunction: TypeAlias = Callable[[Any, ToolInvocation], Verdict | Awaitable[Verdict] | Flow[Verdict]]


class ToolGuardrails:
    """Checks the arguments and the results of tools with guard functions, one after the other.

    Pass it in ``create(…, tool_interceptors=[…])`` for all tools of a service, or in
    ``@tool(interceptors=[…])`` for one tool. Its guards run after all other interceptors, so the tool gets
    exactly the arguments that they checked, and the model the results. If a guard rewrites the arguments, all
    guards check them again.

    A guard returns ``passed()``, ``rewritten(new)`` or ``refused(message)``. The model receives the message
    of a refusal as the result of its call, and a tool whose arguments were refused does not run. An exception
    in a guard ends the call with a GuardrailError. Guards may be async in async calls; there, blocking guards
    run in a thread.

    Args:
        arguments: Functions of the arguments and the ToolInvocation. The arguments are a mapping by parameter
            name. A ``Guard`` with ``on="text"``, such as ``forbidden(…)``, gets each text in the arguments
            instead. For a tool that needs approval they also run before a person is asked.
        results: Functions of the text that the model will receive and the ToolInvocation. A ``Guard`` with
            ``on="value"`` gets the result itself, if the tool did not fail.
    """

    def __init__(
        self,
        *,
        arguments: Sequence[ToolGuardFunction] = (),
        results: Sequence[ToolGuardFunction] = (),
    ) -> None:
        guards: tuple[Any, ...] = (*arguments, *results)
        problems = guard_problems("ToolGuardrails", guards)
        if problems:
            raise DefinitionError(problems)
        self._argument_guards: tuple[Any, ...] = tuple(arguments)
        self._result_guards: tuple[Any, ...] = tuple(results)
        self.async_parts = describe_async_guards(guards)

    def check_arguments(self, call: ToolInvocation) -> Flow[ToolInvocation | ToolRun]:
        """Check the arguments of a tool call.

        Returns the call, possibly with new arguments, or a ToolRun that replaces the call.
        """
        for guard in self._argument_guards:
            verdict: Verdict
            if isinstance(guard, Guard) and guard.on == "text":
                verdict = yield from _check_texts(guard, call)
            else:
                verdict = yield from _verdict(
                    guard, MappingProxyType(dict(call.arguments)), "arguments", call
                )
            if isinstance(verdict, Refused):
                return call.refuse(verdict.message)
            if isinstance(verdict, Rewritten):
                try:
                    call = replace(call, arguments=dict(verdict.new))
                    call.written_arguments()
                except (TypeError, ValueError, ToolError) as error:
                    raise _failure(guard, "arguments", call, error) from error
        return call

    def check_result(self, call: ToolInvocation, run: ToolRun) -> Flow[ToolRun]:
        """Check the result of a tool call, and return a ToolRun with the result or an error."""
        for guard in self._result_guards:
            on_value = isinstance(guard, Guard) and guard.on == "value"
            if on_value and run.error is not None:
                continue
            verdict = yield from _verdict(guard, run.result if on_value else run.text, "result", call)
            if isinstance(verdict, Refused):
                error = ToolError(verdict.message, call=call.call)
                run = run._replace(result=None, text=verdict.message, error=error, contents=())
            elif isinstance(verdict, Rewritten):
                try:
                    run = (
                        _with_run_value(call, run, verdict.new)
                        if on_value
                        else _with_run_text(call, run, verdict.text)
                    )
                except TypeError as error:
                    raise _failure(guard, "result", call, error) from error
        return run


def _verdict(guard: object, subject: object, stage: Stage, call: ToolInvocation) -> Flow[Verdict]:
    verdict = yield from guard_verdict(guard, subject, stage, call.invocation, call)
    if isinstance(verdict, Reprompt):
        error = TypeError("a tool is not asked again; use refused(…) or rewritten(…)")
        raise _failure(guard, stage, call, error)
    return verdict


def _check_texts(guard: Guard, call: ToolInvocation) -> Flow[Verdict]:
    """Check each string in a tool call's arguments, but not the parameter names."""
    data: dict[str, object] = json.loads(call.written_arguments())
    replacements: dict[str, str] = {}
    for text in dict.fromkeys(text for value in data.values() for text in texts_in(value)):
        verdict = yield from _verdict(guard, text, "arguments", call)
        if isinstance(verdict, Refused):
            return verdict
        if isinstance(verdict, Rewritten):
            try:
                replacements[text] = verdict.text
            except TypeError as error:
                raise _failure(guard, "arguments", call, error) from error
    if not replacements:
        return passed()
    written = json.dumps({name: _replaced(value, replacements) for name, value in data.items()})
    try:
        return Rewritten(call.parser.parse(written))
    except OutputParsingError as error:
        raise _failure(guard, "arguments", call, error) from error


def _replaced(data: object, replacements: Mapping[str, str]) -> object:
    if isinstance(data, str):
        return replacements.get(data, data)
    if isinstance(data, list):
        return [_replaced(item, replacements) for item in data]
    if isinstance(data, dict):
        return {replacements.get(key, key): _replaced(value, replacements) for key, value in data.items()}
    return data


def _with_run_value(call: ToolInvocation, run: ToolRun, value: object) -> ToolRun:
    return call.answer(value)._replace(arguments=run.arguments, seconds=run.seconds)


def _with_run_text(call: ToolInvocation, run: ToolRun, text: str) -> ToolRun:
    if run.result == run.text:
        return run._replace(text=text, result=text)
    if run.error is None and call.tool.return_behavior is not ReturnBehavior.TO_LLM:
        message = 'the result of this tool may be the answer, so its text is not enough; use on="value"'
        raise TypeError(message)
    return run._replace(text=text)


def _failure(guard: Any, stage: Stage, call: ToolInvocation, error: Exception) -> GuardrailError:
    return guard_failure(f"{guard_name(guard)} of the tool {call.name}", stage, call.invocation, error)
