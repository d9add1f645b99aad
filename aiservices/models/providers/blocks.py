"""What the APIs of Anthropic, Gemini and Amazon Bedrock share: their messages are lists of blocks."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from pydantic_core import from_json

from output_parsers.result.reading import JsonObject

from ..base import Capabilities
from ..conversation import ConversationRules, ConversationWriter, system_count
from ..errors import ModelError, Remedy
from ..http.api import ApiDialect, CallSettings, own_words
from ..http.base import Credentials, HttpRequest, display_url
from ..http.model import HttpChatModel, HttpClients
from ..http.replies import (
    EventDecoder,
    EventStreamReader,
    StreamReader,
    UnsupportedRequestError,
    is_json_object,
    parse_object,
)
from ..media import Media
from ..messages import (
    AiMessage,
    ChatReply,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from ..requests import ChatOptions

# Converts the JSON of a whole reply, also of one that was streamed.
ReplyMaker: TypeAlias = Callable[[JsonObject], ChatReply]


class BlockChatModel(HttpChatModel):
    """Base class of the chat models with an API whose messages are lists of blocks.

    Args:
        model: The name of the model.
        provider: The part before the colon in the names of such models.
        url: The URL of the server.
        dialect: Makes the dialect for a server.
        credentials: Returns the credentials; its argument is the name of the model in error messages.
        key_advice: How to set a key, for error messages.
        capabilities: The features that the model supports.
        options: Options for all requests.
        log_level: The level at which requests and replies are logged.
    """

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        url: str,
        dialect: type[BlockDialect],
        credentials: Callable[[str], Credentials],
        key_advice: str,
        capabilities: Capabilities,
        options: ChatOptions,
        log_level: int,
    ) -> None:
        address, name = display_url(url), f"{provider}:{model}"
        super().__init__(
            model,
            provider=provider,
            dialect=dialect(f"{dialect.api} at {address}"),
            clients=HttpClients(name, url, partial(credentials, name)),
            address=address,
            key_advice=key_advice,
            capabilities=capabilities,
            options=options,
            logger=logging.getLogger(f"aiservices.{dialect.api}"),
            log_level=log_level,
        )


class BlockDialect(ApiDialect):
    """Base class for the formats of APIs whose messages are lists of blocks.

    Args:
        provider: The API and its address, to recognize the state of messages that came from there.

    Attributes:
        api: The name of the API, in the state of messages and in the name of the logger.
        api_name: The API in error messages.
        rules: What the API requires of the messages of a request.
        state_errors: Words in its errors about provider state that does not fit the conversation; the
            wording may change.
        model_role: The role of the model's messages.
        content: The member of a message with its blocks.
    """

    api: ClassVar[str]
    api_name: ClassVar[str]
    rules: ClassVar[ConversationRules]
    state_errors: ClassVar[tuple[str, ...]]
    model_role: ClassVar[str] = "assistant"
    content: ClassVar[str] = "content"
    _variant: ClassVar[str] = ""  # tells dialects of a server apart that write messages in different ways

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def read_reply(self, body: bytes, headers: Mapping[str, str], settings: CallSettings) -> ChatReply:
        return self._reply(settings, headers, parse_object(body), body)

    def stream_reader(self, headers: Mapping[str, str], settings: CallSettings) -> StreamReader:
        return self._event_reader(partial(self._reply, settings, headers))

    def remedy(self, error: ModelError, settings: CallSettings, request: HttpRequest) -> Remedy:
        text = own_words(error, request)
        if any(words in text for words in self.state_errors):
            return "drop state"
        text = text.replace("_", "")  # some APIs write toolChoice
        error.refused_options = {name: () for name, word in settings.refusable.items() if word in text}
        return "send again" if error.refused_options else ""

    @abstractmethod
    def _reply(
        self, settings: CallSettings, headers: Mapping[str, str], data: JsonObject, body: bytes | None = None
    ) -> ChatReply:
        """Convert the JSON of a whole reply."""

    @abstractmethod
    def _event_reader(self, reply: ReplyMaker) -> StreamReader:
        """Return a parser of a streamed reply."""

    # --- Messages ---

    def writer(self, rules: ConversationRules | None = None) -> Callable[[Sequence[Message]], bytes]:
        """Return a function that writes the messages of a request, without the system messages at the start.

        ``rules`` are those of the model, if they are not those of the API.
        """
        write = ConversationWriter(
            rules or self.rules, self._provider, self._encode, variant=self._variant, content=self.content
        )
        return lambda messages: write(messages[system_count(messages) :])

    def _encode(self, message: Message) -> tuple[str, Sequence[object]]:
        """Return the role of a message and its blocks."""
        if isinstance(message, AiMessage):
            parts = message.parts_for(self._provider)
            return self.model_role, self._answer(message) if parts is None else self._returned(parts, message)
        if isinstance(message, ToolMessage):
            return "user", self._result(message)
        if isinstance(message, SystemMessage):  # where the API takes it; others are messages of the user
            return "system", [self._block(message.text)]
        return "user", self._user(message)

    def _returned(self, parts: Sequence[JsonObject], message: AiMessage) -> Sequence[object]:
        """Return the blocks of a message that came from this API."""
        return parts

    def _answer(self, message: AiMessage) -> list[JsonObject]:
        """Return the blocks of a message of the model that another API sent."""
        blocks = [self._block(message.text)] if message.text.strip() else []
        return [*blocks, *(self._call(call) for call in message.tool_calls)]

    def _user(self, message: UserMessage) -> list[JsonObject]:
        blocks = [self._block(part) for part in message.parts]
        if not blocks:
            raise UnsupportedRequestError(
                f"a user message is blank, and {self.api_name} refuses blank messages"
            )
        return blocks if message.name is None else [self._block(f"{message.name}:"), *blocks]

    @abstractmethod
    def _block(self, part: str | Media) -> JsonObject:
        """Convert text, an image or a file, or raise UnsupportedRequestError."""

    @abstractmethod
    def _call(self, call: ToolCall) -> JsonObject:
        """Convert a tool call of a message that another API sent."""

    @abstractmethod
    def _result(self, message: ToolMessage) -> list[JsonObject]:
        """Convert the result of a tool call."""


def leading_system(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the system messages at the start of a conversation."""
    return [message.text for message in messages[: system_count(messages)]]


def called_tools(messages: Sequence[Message]) -> list[str]:
    """Return the names of the tools that earlier messages call; some APIs require their declarations."""
    answers = [message for message in messages if isinstance(message, AiMessage)]
    return sorted({call.name for answer in answers for call in answer.tool_calls})


class BlockStreamReader(EventStreamReader):
    """Base class of parsers of streams whose events begin, extend and end numbered blocks.

    Args:
        reply: Converts the whole reply, as in one that is not streamed.
        decoder: Splits the bytes into events; None for server-sent events.
    """

    def __init__(self, reply: ReplyMaker, decoder: EventDecoder | None = None) -> None:
        super().__init__(decoder)
        self._make_reply = reply
        self._blocks: dict[int, JsonObject] = {}
        self._pieces: dict[int, list[str]] = {}  # of the text or the arguments of a block
        self._call_indexes: dict[int, int] = {}
        self._places: dict[int, int] = {}  # where a block is in _blocks, if another one had its index before

    def _place(self, index: int) -> int:
        """Return the key in ``_blocks`` of the block that has this index now."""
        return self._places.get(index, index)

    def _new_place(self, index: int) -> int:
        """Return the key in ``_blocks`` for a new block. Some servers give all blocks the same index."""
        place = self._places[index] = max(self._blocks) + 1 if index in self._blocks else index
        return place

    @abstractmethod
    def _complete_block(self, index: int) -> JsonObject:
        """Return a block with all pieces."""

    @abstractmethod
    def _tool_call(self, block: JsonObject) -> ToolCall:
        """Return the tool call of a complete block."""

    def _complete_blocks(self) -> list[JsonObject]:
        return [self._complete_block(index) for index in sorted(self._blocks)]

    def _arguments(self, index: int, *, is_cut_off: bool) -> object:
        """Return the arguments of a tool call: as text if they are not JSON, so that the model gets an error.

        They are an empty object if the reply was cut off within them.
        """
        text = "".join(self._pieces[index])
        try:
            return from_json(text or "{}")
        except ValueError:
            return {} if is_cut_off else text

    def _start_call(self, index: int, name: str) -> ReplyDelta:
        call = self._call_indexes[index] = len(self._call_indexes)
        return ReplyDelta(tool_calls=(ToolCallDelta(call, name, ""),))

    def _add_arguments(self, index: int, name: str, piece: str) -> ReplyDelta | None:
        self._pieces[index].append(piece)
        if index not in self._call_indexes or not piece:  # a tool that the provider runs
            return None
        return ReplyDelta(tool_calls=(ToolCallDelta(self._call_indexes[index], name, piece),))

    def _end_call(self, index: int) -> ReplyDelta | None:
        call = self._tool_call(self._complete_block(index))
        if not is_json_object(call.arguments):  # the reply was cut off here, or is wrong: its end decides
            return None
        return ReplyDelta(tool_calls=(ToolCallDelta(self._call_indexes[index], call.name, "", call),))

    def _add_text(self, text: str) -> ReplyDelta | None:
        return ReplyDelta(text) if text else None
