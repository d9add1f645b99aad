"""Answer the requests of MCP servers: questions to the user (elicitation), and to a model (sampling).

The package ``mcp`` is imported late, so that importing this module does not need it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias

from ...engine.results import Result
from ...interface.decorators import History
from ...models.base import ChatModel
from ...models.errors import TruncatedError
from ...models.messages import Message, SystemMessage, UserMessage
from ...models.requests import ChatOptions

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult


class McpQuestion(NamedTuple):
    """A question that an MCP server asks the user while one of its tools runs.

    Attributes:
        server: The name of the server, as in error messages.
        message: The question.
        schema: The JSON Schema of the answer, an object of texts, numbers, booleans and choices; None if the
            user should open ``url`` instead.
        url: The address of a page that the user should open; None for a form.
    """

    server: str
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None


# The answer to a question: the fields of the form, True if the user has agreed to open the page, or None or
# False if the user declines.
McpAnswer: TypeAlias = Mapping[str, Any] | bool | None
AskUser: TypeAlias = Callable[[McpQuestion], McpAnswer | Awaitable[McpAnswer]]


class WrongAnswerError(ValueError):
    """Raised if the program answers the question of an MCP server with something else than it asks for."""


async def elicit(ask: AskUser, server: str, params: ElicitRequestParams) -> ElicitResult:
    """Ask the user a question of an MCP server, and return the answer in the form of the protocol.

    A blocking function runs in a thread. Raises WrongAnswerError and what ``ask`` raises.
    """
    from jsonschema import Draft202012Validator, ValidationError
    from mcp_types import ElicitRequestFormParams, ElicitResult

    if isinstance(params, ElicitRequestFormParams):
        question = McpQuestion(server, params.message, schema=params.requested_schema)
    else:
        question = McpQuestion(server, params.message, url=params.url)
    if inspect.iscoroutinefunction(ask):
        answer = await ask(question)
    else:
        answer = await asyncio.to_thread(ask, question)
        if inspect.isawaitable(answer):
            answer = await answer
    if answer is None or answer is False:
        return ElicitResult(action="decline")
    if question.schema is None:
        if answer is not True:
            raise WrongAnswerError(
                f"the answer is {answer!r}; return True if the user opens the page, else False"
            )
        return ElicitResult(action="accept")
    if not isinstance(answer, Mapping):
        raise WrongAnswerError(f"the answer is {answer!r}; return a dict of the fields, or None to decline")
    try:
        Draft202012Validator(question.schema).validate(dict(answer))
    except ValidationError as error:
        raise WrongAnswerError(
            f"the answer does not fit the schema: {error.json_path}: {error.message}"
        ) from error
    return ElicitResult(action="accept", content=dict(answer))


class McpSampling(Protocol):
    """The service that answers the requests of servers to a model; its name is in results and logs."""

    async def reply(
        self, history: Annotated[Sequence[Message], History], message: UserMessage, options: ChatOptions
    ) -> Result[str]: ...


class Sampler:
    """Answers the requests of MCP servers to a model, each as a service call.

    Raises DefinitionError if there is no such model.
    """

    def __init__(self, model: ChatModel | str) -> None:
        from ...service.create import create  # late: few programs let servers use a model

        self._service = create(McpSampling, model)

    async def reply(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Send the messages of a server to the model, or raise ValueError for unsupported messages."""
        from mcp_types import CreateMessageResult, TextContent

        from .contents import message_of, part_of

        if params.tools or params.tool_choice:
            raise ValueError("requests with tools are not supported")
        messages: list[Message] = [SystemMessage(params.system_prompt)] if params.system_prompt else []
        messages += [
            message_of(one.role, [part_of(block) for block in one.content_as_list]) for one in params.messages
        ]
        last = messages.pop() if messages else None
        if not isinstance(last, UserMessage):
            raise ValueError("the last message must be one of the user")
        options = ChatOptions(
            temperature=params.temperature,
            max_tokens=params.max_tokens,
            stop=tuple(params.stop_sequences) if params.stop_sequences else None,
        )
        try:
            result = await self._service.reply(messages, last, options)
        except TruncatedError as error:  # the server has set the limit
            model, text, stop_reason = error.attempts[-1].model, error.text, "maxTokens"
        else:
            model, text, stop_reason = result.reply.model, result.value, "endTurn"
        return CreateMessageResult(
            role="assistant", content=TextContent(text=text), model=model, stop_reason=stop_reason
        )
