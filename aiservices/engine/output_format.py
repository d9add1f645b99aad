"""The ways in which structure is asked for: what each sends, and the reading that undoes exactly that."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, shorten
from output_parsers.result.reading import Coercion, Reading, strict_equal
from output_parsers.types.node import OutputParser

from ..models.messages import (
    AiMessage,
    ChatReply,
    Message,
    ReplyDelta,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ..models.requests import (
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    ResponseFormat,
    Tooling,
    ToolSpecification,
)
from ..models.strategy import Strategy

T = TypeVar("T")


def tool_reader(parser: TypeParser[T], name: str) -> Callable[[ChatReply], Reading[T]]:
    """The reading of the calls of the tool ``name``.

    Several calls that give the same value are one; a model that answers in text instead is understood, and
    both are noted. Raises OutputParsingError.
    """

    def read(reply: ChatReply) -> Reading[T]:
        calls = reply.message.tool_calls
        if len(calls) == 1 and calls[0].name == name:
            return parser.read(calls[0].arguments)
        if not calls:
            reading = parser.read(reply.message.text)
            return _noted(reading, f"text instead of a call of {name}")
        return _of_several(parser, calls, name)

    return read


def _of_several(parser: TypeParser[T], calls: tuple[ToolCall, ...], name: str) -> Reading[T]:
    text = "\n".join(call.arguments for call in calls)
    others = [call.name for call in calls if call.name != name]
    if others:
        said = f"expected a call of {name} and no other; the model called {', '.join(others)}"
        raise OutputParsingError(text, [Problem("$", said)])
    first, *rest = (parser.read(call.arguments) for call in calls)
    if not all(strict_equal(first.value, other.value) for other in rest):
        said = f"expected one call of {name}; the model called it {len(calls)} times with different answers"
        raise OutputParsingError(text, [Problem("$", said)])
    return _noted(first, f"{len(calls)} equal calls of {name}")


def _noted(reading: Reading[T], rule: str) -> Reading[T]:
    return replace(reading, coercions=(Coercion("$", rule, "", ""), *reading.coercions))


_LONGEST_DESCRIPTION = 1024  # characters that providers take of a tool; the schema has it whole

# Stands in a rendered prompt where the template had {{format_instructions}}, until it is known in which way
# the model is asked. No argument of a call can hold it by accident or on purpose: it differs in each process.
INSTRUCTIONS_PLACE = f"\ue000{os.urandom(8).hex()}\ue001"


class FewShotExample(NamedTuple):
    """An example that the model is shown: what the user says, and the value that answers it."""

    text: str
    value: Any


class OutputFormat(NamedTuple, Generic[T]):
    """One type on its way to a model and back, in one strategy.

    ``response_format``, ``tooling`` and ``instructions`` are what is sent; ``read`` undoes exactly that.
    ``parser`` reads the text of which ``piece`` gives a part, while the reply is written; None when the
    method hands back the reply itself. Not ``shown``: it is a part of the answer, of which a stream shows
    nothing. ``takes_text``: text is an answer too, so that no tool has to be called. ``reasons`` says why
    this strategy was chosen.
    """

    strategy: Strategy
    reasons: tuple[str, ...]
    parser: TypeParser[T] | None
    read: Callable[[ChatReply], Reading[T]]
    response_format: ResponseFormat | None = None
    tooling: Tooling | None = None
    instructions: str = ""
    shown: bool = True
    takes_text: bool = False

    def prepare(
        self, request: ChatRequest, examples: Sequence[FewShotExample] = (), tools: Tooling | None = None
    ) -> ChatRequest:
        """The request with what this strategy adds: the form of the answer, the tool, the instructions.

        The instructions go where the template has a place for them, else to the end of the last message
        of the user. Examples come after the system message, in the form in which the answer is wanted.
        ``tools`` stand beside the one that gives the answer, where there is one.
        """
        messages = request.messages
        if examples:
            first = next((at for at, said in enumerate(messages) if not isinstance(said, SystemMessage)), 0)
            shown = [said for number, one in enumerate(examples, 1) for said in self._shown(one, number)]
            messages = (*messages[:first], *shown, *messages[first:])
        return ChatRequest(
            self._instructed(messages),
            request.options,
            self.response_format if request.response_format is None else request.response_format,
            request.tooling or _side_by_side(tools, self.tooling, self.takes_text),
            request.deadline,
            self.parser,
        )

    def pieces(self) -> Callable[[ReplyDelta], str]:
        """What each piece of one reply adds to the text that ``parser`` reads."""
        if self.tooling is None:
            return lambda delta: delta.text
        name, places = self.tooling.choice, list[int]()

        def piece(delta: ReplyDelta) -> str:
            for call in delta.tool_calls:
                if not places and call.name == name:  # other tools may be called before it
                    places.append(call.index)
            return "".join(call.arguments for call in delta.tool_calls if call.index in places)

        return piece

    def _shown(self, example: FewShotExample, number: int) -> tuple[Message, ...]:
        """An example as a part of the conversation."""
        text = self.parser.write(example.value) if self.parser is not None else str(example.value)
        if self.tooling is None:
            return UserMessage(example.text), AiMessage(text)
        call = ToolCall(f"example_{number}", self.tooling.choice, text)
        return (
            UserMessage(example.text),
            AiMessage("", (call,)),
            ToolMessage(call.id, call.name, "The answer was taken."),
        )

    def _instructed(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if any(INSTRUCTIONS_PLACE in message.text for message in messages):
            return tuple(self._filled(message) for message in messages)
        if not self.instructions:
            return messages
        last = max((at for at, said in enumerate(messages) if isinstance(said, UserMessage)), default=None)
        if last is None:
            return (*messages, UserMessage(self.instructions))
        told = messages[last]
        told = replace(told, text=f"{told.text}\n\n{self.instructions}")
        return (*messages[:last], told, *messages[last + 1 :])

    def _filled(self, message: Message) -> Message:
        if not isinstance(message, (SystemMessage, UserMessage)):
            return message
        return replace(message, text=message.text.replace(INSTRUCTIONS_PLACE, self.instructions))


@lru_cache(maxsize=256)
def _side_by_side(tools: Tooling | None, output: Tooling | None, takes_text: bool) -> Tooling | None:
    """The tools of a method and the one that gives its answer; where text is none, one must be called.

    Kept, since what stays the same from call to call is written once.
    """
    if tools is None or output is None:
        return tools or output
    return Tooling((*tools.tools, *output.tools), "auto" if takes_text else "required")


def text_wire(parser: OutputParser[T], why: str) -> OutputFormat[T]:
    """The reply itself is the value, as the parser reads it."""
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    instructions = parser.format_instructions()
    return OutputFormat(Strategy.TEXT, (why,), typed, _reader(parser), instructions=instructions)


def wire_of_reply(read: Callable[[ChatReply], T]) -> OutputFormat[T]:
    """The wire of a method that hands back the reply itself, or a part of it."""
    why = "the method returns the reply itself"
    return OutputFormat(Strategy.TEXT, (why,), None, lambda reply: Reading(read(reply)))


class ObjectSchema(NamedTuple, Generic[T]):
    """A type as a JSON object: who reads it, its schema, and whether that is sent as strict."""

    parser: TypeParser[T]
    schema: Mapping[str, Any]
    strict: bool


def schema_wire(form: ObjectSchema[T], name: str, reasons: tuple[str, ...]) -> OutputFormat[T]:
    """The provider is given the schema."""
    asked = JsonSchemaFormat(_schema_name(name), form.schema, strict=form.strict)
    return OutputFormat(Strategy.JSON_SCHEMA, reasons, form.parser, _reader(form.parser), asked)


def tool_wire(form: ObjectSchema[T], name: str, reasons: tuple[str, ...]) -> OutputFormat[T]:
    """The model is to call a tool whose parameters are the schema."""
    said = form.schema.get("description") or "Gives the answer. Call it once, with the whole answer."
    tool = ToolSpecification(
        _schema_name(name), shorten(said, _LONGEST_DESCRIPTION), form.schema, strict=form.strict
    )
    tooling = Tooling((tool,), tool.name, parallel_calls=False)
    read = tool_reader(form.parser, tool.name)
    return OutputFormat(Strategy.OUTPUT_TOOL, reasons, form.parser, read, tooling=tooling)


def grammar_wire(form: ObjectSchema[T], name: str, reasons: tuple[str, ...]) -> OutputFormat[T]:
    """Decoding is constrained by the schema, and the prompt hints at it."""
    reasons = (*reasons, "the prompt gets a hint, for the model does not read the schema")
    asked = JsonSchemaFormat(_schema_name(name), form.schema, strict=True)
    parser = form.parser
    return OutputFormat(Strategy.GRAMMAR, reasons, parser, _reader(parser), asked, None, _hinted(parser))


def json_mode_wire(parser: TypeParser[T], reasons: tuple[str, ...]) -> OutputFormat[T]:
    """The provider is asked for JSON, and the prompt says which."""
    form = JsonObjectFormat()
    return OutputFormat(Strategy.JSON_MODE, reasons, parser, _reader(parser), form, None, _hinted(parser))


def prompt_wire(parser: TypeParser[T], reasons: tuple[str, ...]) -> OutputFormat[T]:
    """The prompt alone says what is wanted."""
    instructions = parser.format_instructions()
    return OutputFormat(Strategy.PROMPT, reasons, parser, _reader(parser), instructions=instructions)


def _hinted(parser: TypeParser[Any]) -> str:
    return f"Reply with JSON only: {parser.hint}"


def _schema_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:60] or "value"


def _reader(parser: OutputParser[T]) -> Callable[[ChatReply], Reading[T]]:
    if isinstance(parser, TypeParser):
        read = parser.read
        return lambda reply: read(reply.message.text)
    return lambda reply: Reading(parser.parse(reply.message.text))
