"""The interceptor that checks what callers send with guard functions."""

from __future__ import annotations

from dataclasses import replace

from ..engine.effects import Flow
from ..engine.interceptor import BaseInterceptor, InterceptorKind, Proceed
from ..engine.plan import Invocation
from ..engine.results import Answer
from ..models.errors import DefinitionError
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
from .request_texts import request_texts


class InputGuardrails(BaseInterceptor):
    """Interceptor that checks the user message with guard functions, one after the other.

    A guard is a function of the text and the invocation. It returns ``passed()``, ``rewritten(text)`` or
    ``refused(message)``; a refusal raises a GuardrailError. Each guard gets the text that the guard before it
    returned. Guards may be async in async calls; there, blocking guards run in a thread.

    All texts of the request that callers influence are checked: user messages, a system message with
    variables, the messages of a ``History``, names of users and files, and text files. ``invocation`` has the
    arguments, and its plan the template of the user message.

    The model and the interceptors after this one get only the rewritten texts. So place InputGuardrails
    before ChatMemory, otherwise the memory stores the original. Text that a retrieval adds is checked only if
    this interceptor comes after the retrieval. Messages that a memory adds were checked in their own calls. A
    call that is resumed after an approval is not checked again.
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
            messages = list(invocation.request.messages)
            for checked in request_texts(invocation):
                text = yield from _checked_input(guard, checked.text, invocation)
                if text is not checked.text:
                    messages[checked.position] = checked.changed(messages[checked.position], text)
            request = replace(invocation.request, messages=tuple(messages))
            invocation = replace(invocation, request=request)
        return (yield from proceed(invocation))


def _checked_input(guard: GuardFunction, text: str, invocation: Invocation) -> Flow[str]:
    """Run a guard function on a text of the request; return the text, possibly rewritten."""
    verdict = yield from run_guard(guard, text, "input", invocation)
    try:
        if isinstance(verdict, Reprompt):
            raise TypeError("the model has not answered yet; use refused(…) or rewritten(…)")
        return verdict.text if isinstance(verdict, Rewritten) else text
    except TypeError as error:
        raise guard_failure(guard_name(guard), "input", invocation, error, text) from error
