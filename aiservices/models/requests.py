"""What a model is asked for: the options, the form of the answer, the tools, and all of it as one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import DefinitionProblem
from .messages import AiMessage, Message, SystemMessage, UserMessage

if TYPE_CHECKING:
    from output_parsers.parser.type_parser import TypeParser


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How a model is to answer; None leaves the choice to whoever is further away.

    Options are set on the model, the service, the method and the call; the nearer one wins, field by
    field. ``timeout`` is in seconds for each wait for the server; ``extra_body`` and ``extra_headers`` go
    to the provider as they are and are merged key by key. ``model`` names another model of the same
    provider.
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    timeout: float | None = None
    extra_body: Mapping[str, Any] | None = None
    extra_headers: Mapping[str, str] | None = None

    def over(self, further: ChatOptions | None) -> ChatOptions:
        """These options where they say something, the further ones where they do not."""
        if further is None or further == ChatOptions():
            return self
        merged: dict[str, Any] = {}
        for option in fields(self):
            near, far = getattr(self, option.name), getattr(further, option.name)
            if isinstance(near, Mapping) and isinstance(far, Mapping):
                merged[option.name] = {**far, **near}
            else:
                merged[option.name] = far if near is None else near
        return ChatOptions(**merged)

    def problems(self, where: str) -> list[DefinitionProblem]:
        """What is wrong with these values, each with what to do."""
        problems = []
        limits = (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0))
        for name, low, high in limits:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                problems.append(
                    DefinitionProblem(where, f"{name} is {value!r}; it must be from {low:g} to {high:g}")
                )
        for name in ("max_tokens", "timeout"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                problems.append(DefinitionProblem(where, f"{name} is {value!r}; it must be greater than 0"))
        return problems


@dataclass(frozen=True, eq=False)
class JsonSchemaFormat:
    """The answer must be JSON that fits ``schema``; ``strict`` asks the provider to enforce it."""

    name: str
    schema: Mapping[str, Any]
    _: KW_ONLY
    strict: bool = False


@dataclass(frozen=True, eq=False)
class JsonObjectFormat:
    """The answer must be a JSON object, of whatever shape ("JSON mode")."""


ResponseFormat: TypeAlias = JsonSchemaFormat | JsonObjectFormat


@dataclass(frozen=True, eq=False)
class ToolSpecification:
    """A tool that a model may call: ``parameters`` is the JSON Schema of its arguments, an object.

    ``strict`` asks the provider to enforce the schema.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    _: KW_ONLY
    strict: bool = False


@dataclass(frozen=True, eq=False)
class Tooling:
    """The tools of a request. ``choice`` is "auto", "required" (some tool), or the name of the one to call.

    ``parallel_calls`` permits several calls in one answer.
    """

    tools: tuple[ToolSpecification, ...]
    choice: str = "auto"
    _: KW_ONLY
    parallel_calls: bool = True


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a model is asked: the messages, the options, the form that the answer must have, and the tools.

    ``deadline`` is when the answer must be whole, by ``time.monotonic()``: the budget of the call ends then.
    ``parser`` reads the answer, where it is known: a model that makes answers up writes what it reads.
    """

    messages: tuple[Message, ...]
    options: ChatOptions = ChatOptions()
    response_format: ResponseFormat | None = None
    tooling: Tooling | None = None
    deadline: float | None = None
    parser: TypeParser[Any] | None = field(default=None, compare=False, repr=False)

    def plus(self, *messages: Message) -> ChatRequest:
        """The same request with messages added at its end."""
        return replace(self, messages=self.messages + messages)

    @staticmethod
    def of(messages: str | Sequence[Message], **settings: Any) -> ChatRequest:
        """A request from a text (one user message) or from messages."""
        said = (UserMessage(messages),) if isinstance(messages, str) else tuple(messages)
        return ChatRequest(said, **settings)


# One text of the user, or messages; a pair or a dict of role and text is a message too.
Said: TypeAlias = str | Message | Sequence[Message | tuple[str, str] | Mapping[str, Any]]

_ROLES: dict[Any, type[SystemMessage | UserMessage | AiMessage]] = {
    "system": SystemMessage,
    "developer": SystemMessage,
    "user": UserMessage,
    "human": UserMessage,
    "assistant": AiMessage,
    "ai": AiMessage,
}
_FORMS = "a message, a pair of role and text, or a dict with role and content"


def messages_of(said: Said, where: str, problems: list[DefinitionProblem]) -> tuple[Message, ...]:
    """What is said as messages; what is wrong with any of them goes to ``problems``."""
    if isinstance(said, str):
        return (UserMessage(said),)
    if isinstance(said, Message):
        return (said,)
    if isinstance(said, (bytes, Mapping)) or not isinstance(said, Iterable):
        wanted = f"it takes a text, a message, or a list in which each is {_FORMS}"
        problems.append(DefinitionProblem(where, f"what is said is {type(said).__name__}; {wanted}"))
        return ()
    messages = []
    for number, one in enumerate(said, 1):
        message = _message(one, f"{where}, message {number}", problems)
        if message is not None:
            messages.append(message)
    if not messages and not problems:
        problems.append(DefinitionProblem(where, "nothing is said; give at least one message"))
    return tuple(messages)


def _message(said: Any, where: str, problems: list[DefinitionProblem]) -> Message | None:
    if isinstance(said, Message):
        return said
    if isinstance(said, Mapping):
        role, text = said.get("role"), said.get("content")
    elif isinstance(said, (tuple, list)) and len(said) == 2:
        role, text = said
    else:
        problems.append(DefinitionProblem(where, f"it is {type(said).__name__}; it must be {_FORMS}"))
        return None
    known = isinstance(role, str) and role in _ROLES
    if not known:
        problems.append(
            DefinitionProblem(where, f"the role {role!r} is unknown; there are: {', '.join(_ROLES)}")
        )
    if not isinstance(text, str):
        problems.append(DefinitionProblem(where, f"its content is {type(text).__name__}; it must be text"))
        return None
    return _ROLES[role](text) if known else None
