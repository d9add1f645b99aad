"""Check user messages with guard functions before the model receives them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..engine.effects import Flow
from ..engine.output_format import INSTRUCTIONS_MARK
from ..engine.pipeline import Proceed
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..models.errors import DefinitionError
from ..models.media import interleave
from ..models.messages import UserMessage
from .guard import (
    GuardFunction,
    Reprompt,
    Rewritten,
    describe_async_guards,
    guard_failure,
    guard_name,
    guard_problems,
    run_guard,
)


class InputGuardrails:
    """Middleware that checks the user message with guard functions, one after the other.

    A guard is a function of the text and the invocation. It returns ``passed()``, ``rewritten(text)`` or
    ``refused(message)``; a refusal raises a GuardrailError. Each guard gets the text that the guard before it
    returned. Guards may be async in async calls; there, blocking guards run in a thread.

    The model and the interceptors after this one get only the rewritten text. So place InputGuardrails before
    ChatMemory, otherwise the memory stores the original. Text that a retrieval adds is checked only if this
    interceptor comes after the retrieval. Earlier messages of the conversation are not checked. A call that
    is resumed after an approval is not checked again.
    """

    position_name = "input guard"

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
        """Return a copy of the call with different text in the user message, keeping its images and files."""
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
