"""A method taken apart once: everything a call needs, so that at call time no annotation is looked at."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

from ..interface.parameters import Parameter, Role
from ..interface.rendering import Placing
from ..interface.templates import FORMAT_INSTRUCTIONS, Prompt, render_argument
from ..models.base import ChatModel
from ..models.errors import DefinitionError
from ..models.messages import AiMessage, Message, SystemMessage, UserMessage
from ..models.requests import ChatOptions, ChatRequest
from ..tools.toolbox import Toolbox
from .budget import Budget, CallState
from .model_route import ModelRoute
from .output_format import INSTRUCTIONS_PLACE, FewShotExample, OutputFormat
from .results import Returns
from .tool_execution import ToolErrors

RequestTransformer: TypeAlias = Callable[[ChatRequest], ChatRequest]
_SINGLE = frozenset(Role) - {Role.TOOL_CONTEXT}  # of media, that there are some is enough
SystemText = Prompt | Callable[[Mapping[str, Any]], str]


class Example(NamedTuple):
    """What a method gives for some arguments, those of ``{{it}}`` and the instructions among them."""

    arguments: Mapping[str, Any]
    value: Any


class MethodPlan(NamedTuple):
    """One method of a service, ready to be called. ``where`` is its name in messages: ``Service.method``.

    ``signature`` is without ``self``; ``user`` is the template of the user message, or None when
    ``message_argument`` names the argument that is the message; ``it`` names the argument that
    ``{{it}}`` stands for. ``routes`` are the models that may be asked, one after the other, each with
    the ways to ask it. ``examples`` are what the method is shown to do before it is asked.
    """

    where: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    returns: Returns
    user: Prompt | None
    message_argument: str | None
    it: str | None
    system: SystemText | None
    routes: tuple[ModelRoute, ...]
    options: ChatOptions
    transform: RequestTransformer | None
    examples: tuple[Example, ...] = ()
    toolbox: Toolbox | None = None
    tool_errors: ToolErrors = ToolErrors()

    @property
    def model(self) -> ChatModel:
        """The model that is asked first."""
        return self.routes[0].model

    @property
    def wire(self) -> OutputFormat[Any]:
        """How it is asked now."""
        return self.routes[0].wire(self.options.model)

    def invocation(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], budget: Budget) -> Invocation:
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
            options = self._checked(roles[Role.OPTIONS]).with_defaults(options)
        request = ChatRequest(self._messages(values, roles), options)
        context = {p.name: values[p.name] for p in self.parameters if p.role is Role.TOOL_CONTEXT}
        shown = self.shown()
        return Invocation(self, values, request, CallState(budget), roles.get(Role.MEMORY_ID), context, shown)

    def shown(self) -> tuple[FewShotExample, ...]:
        """The examples as they are put before the question."""
        return tuple(FewShotExample(self._asked(one.arguments), one.value) for one in self.examples)

    def _checked(self, given: ChatOptions) -> ChatOptions:
        problems = given.problems(self.where)
        if problems:
            raise DefinitionError(problems)
        return given

    def _messages(self, values: Mapping[str, Any], roles: Mapping[Role, Any]) -> tuple[Message, ...]:
        if self.it is not None:
            values = {**values, "it": values[self.it]}
        said: list[Message] = []
        known = {**values, FORMAT_INSTRUCTIONS: INSTRUCTIONS_PLACE}
        system = self._system_text(known)
        history = self._history(roles.get(Role.HISTORY), system)
        if system is not None:
            said.append(SystemMessage(system))
        said.extend(history)
        if Role.MEDIA in roles:
            return (*said, self._with_media(known, self._speaker(values, roles)))
        given = known.get(self.message_argument or "")
        contents = given.contents if isinstance(given, UserMessage) else ()
        return (*said, UserMessage(self._asked(known), self._speaker(values, roles), contents))

    def _with_media(self, known: Mapping[str, Any], speaker: str | None) -> UserMessage:
        """The user message with its media: where the template names them, else after the text."""
        placing, shown = Placing(), {}
        for p in self.parameters:
            if p.role is Role.MEDIA:
                value, where = known[p.name], f"{self.where}: the parameter {p.name}"
                if value is None and not {None, NoneType} & set(p.types):
                    raise TypeError(f"{where} is None; annotate it with | None where a call may go without")
                shown[p.name] = placing.marked(value, where)
        if self.it in shown:
            shown["it"] = shown[self.it]
        text = self._asked({**known, **shown})
        said = placing.cut(text)
        if said is None:
            given = known.get(self.message_argument or "")
            before = given.contents if isinstance(given, UserMessage) else ()
            return UserMessage(text, speaker, (*before, *placing.media))
        text = "".join(part for part in said if isinstance(part, str))
        # the instructions are put into the text, of which the contents tell where media stand in it
        places = (p.replace(INSTRUCTIONS_PLACE, "") if isinstance(p, str) else p for p in said)
        return UserMessage(text, speaker, tuple(place for place in places if place != ""))

    def _asked(self, values: Mapping[str, Any]) -> str:
        """The text of the user message."""
        if self.user is not None:
            return self.user.render(values, self.where)
        if self.message_argument is None:
            return ""
        given = values[self.message_argument]
        return given.text if isinstance(given, UserMessage) else render_argument(given)

    def _speaker(self, values: Mapping[str, Any], roles: Mapping[Role, Any]) -> str | None:
        given = values.get(self.message_argument or "")
        named = given.name if isinstance(given, UserMessage) else None
        return roles.get(Role.USER_NAME) or named

    def _system_text(self, known: Mapping[str, Any]) -> str | None:
        if self.system is None:
            return None
        text = (
            self.system.render(known, self.where) if isinstance(self.system, Prompt) else self.system(known)
        )
        if not isinstance(text, str):
            said = f"the system message is {type(text).__name__}; the callable must return str"
            raise TypeError(f"{self.where}: {said}")
        return text

    def _history(self, given: Any, system: str | None) -> tuple[Message, ...]:
        """The messages said before. A conversation has one system message, so there must not be two."""
        messages = tuple(given or ())
        for message in messages:
            if not isinstance(message, (UserMessage, AiMessage, SystemMessage)):
                kind = type(message).__name__
                raise TypeError(f"{self.where}: the history holds {kind}; it takes messages")
            if isinstance(message, SystemMessage) and system is not None:
                said = "the history holds a system message, and the method has one; leave one of them out"
                raise ValueError(f"{self.where}: {said}")
        return messages


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call on its way: its plan, its arguments by name, the request to be made, and its account.

    ``toolbox`` are the tools that the next request offers. ``approvals`` says by its id of each tool call
    that waited whether it is approved; a text is the reason why not.
    """

    plan: MethodPlan
    arguments: Mapping[str, Any]
    request: ChatRequest
    state: CallState
    memory_id: Any
    tool_context: Mapping[str, Any]
    examples: tuple[FewShotExample, ...] = ()
    toolbox: Toolbox | None = None
    approvals: Mapping[str, bool | str] = field(default_factory=dict)

    @property
    def is_resumed(self) -> bool:
        """Whether the call waited for approval: its request holds what was put into it before."""
        tool_messages = self.state.tool_messages
        last = tool_messages[-1] if tool_messages else None
        return isinstance(last, AiMessage) and bool(last.tool_calls)

    @property
    def told(self) -> int:
        """How much of what was said with tools in this call is in the request by now."""
        return self.state.before if self.is_resumed else len(self.state.tool_messages)
