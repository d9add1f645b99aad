"""A method taken apart once: everything a call needs, so that at call time no annotation is looked at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .budget import Budget, CallContext
from .errors import DefinitionError, Fault
from .messages import AiMessage, ChatOptions, ChatRequest, Message, SystemMessage, UserMessage
from .models.base import ChatModel
from .parameters import Parameter, Role
from .prompts import FORMAT_INSTRUCTIONS, Prompt, render_argument
from .returns import Returns
from .strategies import Wire

__all__ = ["MethodPlan", "SystemText", "Turn"]

_SINGLE = frozenset(Role) - {Role.TOOL_CONTEXT}
SystemText = Prompt | Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class MethodPlan:
    """One method of a service, ready to be called. ``where`` is its name in messages: ``Service.method``.

    ``signature`` is without ``self``; ``user`` is the template of the user message, or None when
    ``message_argument`` names the argument that is the message; ``it`` names the argument that
    ``{{it}}`` stands for.
    """

    where: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    returns: Returns
    user: Prompt | None
    message_argument: str | None
    it: str | None
    system: SystemText | None
    wire: Wire[Any]
    options: ChatOptions
    model: ChatModel

    def turn(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], budget: Budget) -> Turn:
        """Bind the arguments of a call and render its messages.

        Raises TypeError, as any call does, when the arguments do not fit the signature.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.where}: {error}") from None
        bound.apply_defaults()
        values = bound.arguments
        roles = {p.role: values[p.name] for p in self.parameters if p.role in _SINGLE}
        options = self.options
        if roles.get(Role.OPTIONS) is not None:
            options = roles[Role.OPTIONS].over(options)
        request = ChatRequest(self._messages(values, roles), options, self.wire.response_format)
        context = {p.name: values[p.name] for p in self.parameters if p.role is Role.TOOL_CONTEXT}
        return Turn(self, values, request, CallContext(budget), roles.get(Role.MEMORY_ID), context)

    def _messages(self, values: Mapping[str, Any], roles: Mapping[Role, Any]) -> tuple[Message, ...]:
        if self.it is not None:
            values = {**values, "it": values[self.it]}
        instructions = self.wire.instructions
        placed = False
        said: list[Message] = []
        known = {**values, FORMAT_INSTRUCTIONS: instructions}
        system = self._system_text(known)
        if system is not None:
            said.append(SystemMessage(system))
            placed = isinstance(self.system, Prompt) and FORMAT_INSTRUCTIONS in self.system.variables
        said.extend(self._history(roles.get(Role.HISTORY)))
        if self.user is None:
            text = render_argument(values[str(self.message_argument)])
        else:
            text = self.user.render(known, self.where)
            placed = placed or FORMAT_INSTRUCTIONS in self.user.variables
        if instructions and not placed:
            text = f"{text}\n\n{instructions}"
        return (*said, UserMessage(text, roles.get(Role.USER_NAME)))

    def _system_text(self, known: Mapping[str, Any]) -> str | None:
        if self.system is None:
            return None
        text = (
            self.system.render(known, self.where) if isinstance(self.system, Prompt) else self.system(known)
        )
        if not isinstance(text, str):
            fault = f"the system message is {type(text).__name__}; the callable must return str"
            raise DefinitionError([Fault(self.where, fault)])
        return text

    def _history(self, given: Any) -> tuple[Message, ...]:
        messages = tuple(given or ())
        for message in messages:
            if not isinstance(message, (UserMessage, AiMessage, SystemMessage)):
                fault = f"the history holds {type(message).__name__}; it takes messages"
                raise DefinitionError([Fault(self.where, fault)])
        return messages


@dataclass(frozen=True, slots=True)
class Turn:
    """One call on its way: its plan, its arguments by name, the request to be made, and its account."""

    plan: MethodPlan
    arguments: Mapping[str, Any]
    request: ChatRequest
    context: CallContext
    memory_id: Any
    tool_context: Mapping[str, Any]
