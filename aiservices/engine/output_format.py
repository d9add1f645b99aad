"""Request a typed value from a model, by a JSON Schema, a tool or the prompt, and parse the reply.

An OutputFormat is for one type and one strategy. It contains what is added to a request (a schema, a tool,
JSON mode, or instructions in the prompt) and the function that reads the reply. Both are made together, so
that the reply is always read in the format that was requested.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from output_parsers.parser.type_parser import TypeParser
from output_parsers.result.errors import OutputParsingError, Problem, shorten
from output_parsers.result.reading import Coercion, Cursor, Json, JsonObject, Leniency, Reading, strict_equal
from output_parsers.types.choices import BoolNode, ChoiceNode
from output_parsers.types.constraints import ConstrainedNode
from output_parsers.types.containers import ListNode, UnionNode
from output_parsers.types.decisions import DecisionNode, MembersNode, Scale, options_of
from output_parsers.types.node import Node, OutputParser, RecursiveNode
from output_parsers.types.records import ObjectNode

from ..models.base import DecisionLimits
from ..models.conversation import system_count
from ..models.errors import Strategy
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
    AnswerOption,
    ChatRequest,
    DecisionFormat,
    ImageFormat,
    JsonObjectFormat,
    JsonSchemaFormat,
    Question,
    ResponseFormat,
    Tooling,
    ToolSpecification,
)

_LONGEST_DESCRIPTION = 1024  # characters that providers accept for a tool; the schema has the full text

# A rendered prompt has this mark where the template has {{format_instructions}}, because the strategy is only
# known when the request is sent. It is random in each process, so that no argument of a call can contain it.
INSTRUCTIONS_MARK = f"\ue000{os.urandom(8).hex()}\ue001"
_AnyMessage = TypeVar("_AnyMessage", bound=Message)


def without_instructions(message: _AnyMessage) -> _AnyMessage:
    """Return a message of a rendered prompt without the mark for the format instructions."""
    if INSTRUCTIONS_MARK not in message.text:
        return message
    return replace(message, text=message.text.replace(INSTRUCTIONS_MARK, "").strip())


class FewShotExample(NamedTuple):
    """A few-shot example: a user message and the answer that the model should give.

    Attributes:
        text: The text of the user message.
        value: The answer to it.
    """

    text: str
    value: object


class ObjectSchema(NamedTuple):
    """A JSON Schema for an object, with a parser for the objects that the model returns.

    Attributes:
        parser: Reads the object.
        schema: The JSON Schema of the object.
        strict: True to have the provider enforce the schema.
    """

    parser: TypeParser[object]
    schema: JsonObject
    strict: bool


class OutputFormat(NamedTuple):
    """The format in which a typed value is requested, for example a JSON Schema, and how to parse the reply.

    Attributes:
        strategy: The strategy that this format implements.
        reasons: Why the strategy was chosen.
        parser: Reads the text of the answer; None if the method returns the reply itself.
        read: Reads a whole reply. Raises OutputParsingError.
        response_format: The schema or JSON mode that is sent to the provider.
        tooling: The tool whose arguments are the answer.
        instructions: The text that is added to the prompt.
        is_streamed: False if the value is only part of an answer, so that streams must not show it.
        text_answers: Whether text is an answer too, if the model gives its answer by a tool: "no"; "also", if
            the arguments of the tool can express it as well; "only", if they cannot.
    """

    strategy: Strategy
    reasons: tuple[str, ...]
    parser: TypeParser[Any] | None
    read: Callable[[ChatReply], Reading[object]]
    response_format: ResponseFormat | None = None
    tooling: Tooling | None = None
    instructions: str = ""
    is_streamed: bool = True
    text_answers: Literal["no", "also", "only"] = "no"

    def prepare(
        self, request: ChatRequest, examples: Sequence[FewShotExample] = (), tools: Tooling | None = None
    ) -> ChatRequest:
        """Return a copy of a chat request with the schema, tool or instructions that ask for a typed value.

        Instructions replace their placeholder in the prompt; without a placeholder they follow the last user
        message. Examples follow the system message, with answers in the requested form. ``tools`` are offered
        together with the tool that gives the answer, with the ``tool_choice`` of the options.
        """
        messages, options = request.messages, request.options
        if options.tool_choice is not None:
            tools = None if tools is None else _with_choice(tools, options.tool_choice)
            options = replace(options, tool_choice=None)
        if isinstance(self.response_format, DecisionFormat):
            messages, examples = without_task(messages, self.response_format.task), ()
        if examples:
            messages = self._with_examples(messages, examples)
        return ChatRequest(
            self._with_instructions(messages),
            options,
            self.response_format if request.response_format is None else request.response_format,
            request.tooling or _combine(tools, self.tooling, self.text_answers),
            request.deadline,
            parser=self.parser,
            qualname=request.qualname,
            sources=request.sources,
        )

    def text_extractor(self) -> Callable[[ReplyDelta], str]:
        """Return a function that extracts the answer text from each part of a streamed reply."""
        if self.tooling is None:
            return attrgetter("text")
        name, indexes = self.tooling.choice, list[int]()

        def text_of(delta: ReplyDelta) -> str:
            for call in delta.tool_calls:
                if not indexes and call.name == name:  # other tools may be called before it
                    indexes.append(call.index)
            return "".join(call.arguments for call in delta.tool_calls if call.index in indexes)

        return text_of

    def _with_examples(
        self, messages: tuple[Message, ...], examples: Sequence[FewShotExample]
    ) -> tuple[Message, ...]:
        start = system_count(messages)
        if start == len(messages):  # there are only system messages
            start = 0
        example_messages: list[Message] = []
        for number, example in enumerate(examples, 1):
            text = self.parser.write(example.value) if self.parser is not None else str(example.value)
            example_messages.append(UserMessage(example.text))
            if self.tooling is None or (self.text_answers == "only" and isinstance(example.value, str)):
                example_messages.append(AiMessage(text))
            else:
                call = ToolCall(f"example_{number}", self.tooling.choice, text)
                example_messages.append(AiMessage("", (call,)))
                # Providers require a result after each tool call.
                example_messages.append(ToolMessage(call.id, call.name, "Answer accepted."))
        return (*messages[:start], *example_messages, *messages[start:])

    def _with_instructions(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        last_user_message = -1
        for index, message in enumerate(messages):
            if isinstance(message, (AiMessage, ToolMessage)):
                continue
            if INSTRUCTIONS_MARK in message.text:  # the template says where the instructions are
                replaced = map(self._replace_mark, messages)
                # without instructions, a system message may be empty, which providers refuse
                return tuple(one for one in replaced if one.text or not isinstance(one, SystemMessage))
            if isinstance(message, UserMessage):
                last_user_message = index
        if not self.instructions:
            return messages
        if last_user_message < 0:
            return (*messages, UserMessage(self.instructions))
        question = messages[last_user_message]
        question = replace(question, text=f"{question.text}\n\n{self.instructions}")
        return (*messages[:last_user_message], question, *messages[last_user_message + 1 :])

    def _replace_mark(self, message: Message) -> Message:
        if isinstance(message, (AiMessage, ToolMessage)) or INSTRUCTIONS_MARK not in message.text:
            return message
        return replace(message, text=message.text.replace(INSTRUCTIONS_MARK, self.instructions))


def text_format(parser: OutputParser[object], reason: str) -> OutputFormat:
    """Return an output format that asks for plain text and takes the answer from the reply's text."""
    typed = parser if isinstance(parser, TypeParser) else TypeParser.wrap(parser)
    instructions = parser.format_instructions()
    return OutputFormat(Strategy.TEXT, (reason,), typed, _text_reader(parser), instructions=instructions)


def reply_format(read: Callable[[ChatReply], object]) -> OutputFormat:
    """Return an output format for methods that return the model's reply itself instead of a typed value."""
    reason = "the method returns the reply itself"
    return OutputFormat(Strategy.TEXT, (reason,), None, lambda reply: Reading(read(reply)))


def image_format(*, several: bool) -> OutputFormat:
    """Return an output format for methods that return the image, or several images, in the model's reply."""

    def read(reply: ChatReply) -> Reading[object]:
        images = reply.message.images
        count = len(images)
        if count == 0 or (count > 1 and not several):
            received = f"{count} images" if count else "no image"
            expected = "at least one image" if several else "one image"
            raise OutputParsingError(reply.text, [Problem("$", f"expected {expected}", received)])
        return Reading(list(images) if several else images[0])

    return OutputFormat(Strategy.TEXT, ("the model answers with images",), None, read, ImageFormat())


def schema_format(schema: ObjectSchema, name: str, reasons: tuple[str, ...]) -> OutputFormat:
    """Return an output format that sends a JSON Schema to the provider, and parses the reply as JSON."""
    response_format = JsonSchemaFormat(_schema_name(name), schema.schema, strict=schema.strict)
    read = _text_reader(schema.parser)
    return OutputFormat(Strategy.JSON_SCHEMA, reasons, schema.parser, read, response_format)


def tool_format(schema: ObjectSchema, name: str, reasons: tuple[str, ...]) -> OutputFormat:
    """Return an output format in which the model calls a tool, whose arguments are the typed value."""
    description = schema.schema.get("description") or "Gives the answer. Call it once, with the whole answer."
    tool = ToolSpecification(
        _schema_name(name), shorten(description, _LONGEST_DESCRIPTION), schema.schema, strict=schema.strict
    )
    tooling = Tooling((tool,), tool.name, parallel_calls=False)
    read = _tool_call_reader(schema.parser, tool.name)
    return OutputFormat(Strategy.OUTPUT_TOOL, reasons, schema.parser, read, tooling=tooling)


def grammar_format(schema: ObjectSchema, name: str, reasons: tuple[str, ...]) -> OutputFormat:
    """Return an output format for servers that force the model to follow a JSON Schema.

    It also describes the schema in the prompt, because the model does not see it.
    """
    reasons = (*reasons, "the prompt has a hint, because the model does not see the schema")
    parser = schema.parser
    response_format = JsonSchemaFormat(_schema_name(name), schema.schema, strict=True)
    read = _text_reader(parser)
    return OutputFormat(Strategy.GRAMMAR, reasons, parser, read, response_format, None, _hint(parser))


def json_mode_format(parser: TypeParser[object], reasons: tuple[str, ...]) -> OutputFormat:
    """Return an output format that uses the provider's JSON mode, and describes the type in the prompt."""
    mode = JsonObjectFormat()
    return OutputFormat(Strategy.JSON_MODE, reasons, parser, _text_reader(parser), mode, None, _hint(parser))


def prompt_format(parser: TypeParser[object], reasons: tuple[str, ...]) -> OutputFormat:
    """Return an output format that requests JSON only through instructions in the prompt."""
    instructions = parser.format_instructions()
    return OutputFormat(Strategy.PROMPT, reasons, parser, _text_reader(parser), instructions=instructions)


def question_format(
    parser: TypeParser[object], questions: DecisionFormat, reasons: tuple[str, ...]
) -> OutputFormat:
    """Return an output format that asks a decision endpoint questions, and reads its answers as JSON."""
    return OutputFormat(Strategy.DECISION, reasons, parser, _text_reader(parser), questions)


def _text_reader(parser: OutputParser[object]) -> Callable[[ChatReply], Reading[object]]:
    """Return a function that parses the typed answer in the text of a model's reply.

    If a reply calls tools that were not offered, the text around the calls is read only if it cannot be a
    mere announcement ("Let me look that up."). That is recorded as a coercion.
    """
    reads_json = isinstance(parser, TypeParser) and not parser.node.any_text
    read_text = parser.read if isinstance(parser, TypeParser) else lambda text: Reading(parser.parse(text))

    def read(reply: ChatReply) -> Reading[object]:
        text, calls = reply.message.text, reply.message.tool_calls
        if not calls:
            return read_text(text)
        if not (reads_json and text.strip()):
            raise _unexpected_call_error(reply)
        return _with_coercion(parser, read_text(text), text, f"text beside a call of {_names_of(calls)}")

    return read


def _unexpected_call_error(reply: ChatReply) -> OutputParsingError:
    names = _names_of(reply.message.tool_calls)
    message = f"expected the answer as text; the model called {names}, which was not offered"
    return OutputParsingError(reply.message.text, [Problem("$", message)])


def _names_of(calls: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(call.name for call in calls))


def _tool_call_reader(parser: TypeParser[object], name: str) -> Callable[[ChatReply], Reading[object]]:
    """Return a function that parses the typed answer in the tool call of a model's reply.

    Several calls with the same value are accepted, and so is text instead of a call. Both are recorded as
    coercions.
    """

    def read(reply: ChatReply) -> Reading[object]:
        calls = reply.message.tool_calls
        if len(calls) == 1 and calls[0].name == name:
            return parser.read(calls[0].arguments)
        if not calls:
            text = reply.message.text
            return _with_coercion(parser, parser.read(text), text, f"text instead of a call of {name}")
        return _read_several_calls(parser, calls, name)

    return read


def tool_or_text_reader(
    record: TypeParser[object], name: str, parser: TypeParser[object]
) -> Callable[[ChatReply], Reading[object]]:
    """Return a function that parses a reply as a record if it contains a tool call, and as text otherwise.

    ``parser`` is the parser of the union of the record and ``str``; it reads the text.
    """
    read_calls = _tool_call_reader(record, name)

    def read(reply: ChatReply) -> Reading[object]:
        return read_calls(reply) if reply.message.tool_calls else parser.read(reply.message.text)

    return read


def _read_several_calls(
    parser: TypeParser[object], calls: tuple[ToolCall, ...], name: str
) -> Reading[object]:
    text = "\n".join(call.arguments for call in calls)
    others = [call.name for call in calls if call.name != name]
    if others:
        message = f"expected a call of {name} and no other; the model called {', '.join(others)}"
        raise OutputParsingError(text, [Problem("$", message)])
    first, *rest = (parser.read(call.arguments) for call in calls)
    if not all(strict_equal(first.value, other.value) for other in rest):
        message = (
            f"expected one call of {name}; the model called it {len(calls)} times with different answers"
        )
        raise OutputParsingError(text, [Problem("$", message)])
    return _with_coercion(parser, first, text, f"{len(calls)} equal calls of {name}")


def _with_coercion(
    parser: OutputParser[object], reading: Reading[object], text: str, rule: str
) -> Reading[object]:
    """Record one more coercion, such as "2 equal calls", for a parsed answer.

    Raises OutputParsingError if the leniency of the parser does not allow it.
    """
    if isinstance(parser, TypeParser) and parser.leniency is Leniency.NONE:
        raise OutputParsingError(text, [Problem("$", f"{rule} is not permitted with Leniency.NONE")])
    return replace(reading, coercions=(Coercion("$", rule, "", ""), *reading.coercions))


# Cached, because the models prepare equal tooling only once.
@lru_cache(maxsize=256)
def _combine(
    tools: Tooling | None, output_tool: Tooling | None, text_answers: Literal["no", "also", "only"]
) -> Tooling | None:
    """Return a service method's tools and the tool by which the model gives its answer."""
    if output_tool is None:
        return tools
    if tools is None:
        return replace(output_tool, choice="auto") if text_answers == "only" else output_tool
    if tools.choice == "none":  # it must answer
        return _combine(None, output_tool, text_answers)
    if tools.choice != "auto":  # it must not answer yet
        return tools
    # The model must call some tool, unless text is an answer too.
    return Tooling((*tools.tools, *output_tool.tools), "required" if text_answers == "no" else "auto")


@lru_cache(maxsize=256)
def _with_choice(tools: Tooling, choice: str) -> Tooling:
    return replace(tools, choice=choice)


def _hint(parser: TypeParser[object]) -> str:
    return f"Reply with JSON only: {parser.hint}"


def _schema_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "_", name).strip("_")[:60] or "value"


# --- Questions for a decision endpoint ---

_YES_NO = (AnswerOption(False), AnswerOption(True))


class QuestionError(ValueError):
    """Raised when multiple-choice questions cannot determine a value of the requested type."""


def decision_format(parser: TypeParser[object], task: str, limits: DecisionLimits) -> DecisionFormat:
    """Convert a return type to multiple-choice questions for a decision endpoint.

    ``task`` is the question of the prompt, without the data. Raises QuestionError if the type has a part
    that is not a choice, or if a question has more options than the endpoint accepts.
    """
    description = parser.target.description or ""
    questions = tuple(_questions(parser.node, description or task, task, (), Cursor()))
    if not questions:
        raise QuestionError("it has nothing to decide")
    for question in questions:
        limit = limits.levels if question.kind == "scale" else limits.options
        if len(question.options) > limit:
            kind = "levels" if question.kind == "scale" else "options"
            raise QuestionError(
                f"{question.path} has {len(question.options)} {kind}; the endpoint accepts {limit}"
            )
        if not question.text:
            raise QuestionError(
                f"{question.path} has no question: write it in the prompt in a paragraph of its own, without "
                'placeholders, or annotate the type, as in Annotated[Decision[bool], "Is it spam?"]'
            )
    return DecisionFormat(questions, task)


def without_task(messages: tuple[Message, ...], task: str) -> tuple[Message, ...]:
    """Remove the question from the last user message, because decision endpoints receive it separately."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage):
            text = message.text.removeprefix(task) if task else message.text
            if text == message.text and task:
                text = message.text.removesuffix(task)
            return (*messages[:index], replace(message, text=text.strip()), *messages[index + 1 :])
    return messages


def _questions(
    node: Node[object], text: str, task: str, keys: tuple[str, ...], cursor: Cursor
) -> Iterator[Question]:
    node, is_scale = _inner_node(node)
    options = options_of(node)
    if isinstance(node, MembersNode):
        for (key, _), choice in zip(node.options, node.item.choices.choices, strict=True):
            question = _member_question(text, key, choice.description)
            yield Question(cursor.child(key).path, (*keys, key), "yes_no", question, _YES_NO)
    elif isinstance(node, BoolNode):
        yield Question(cursor.path, keys, "yes_no", text, _YES_NO)
    elif options is not None and len(options) > 1:
        descriptions = _descriptions(node)
        answers = [AnswerOption(data, descriptions.get(_key(data), "")) for data, _ in options]
        yield Question(cursor.path, keys, "scale" if is_scale else "choice", text, tuple(answers))
    elif isinstance(node, ListNode) and isinstance(node.item, ChoiceNode):
        for position, choice in enumerate(node.item.choices.choices):
            label = node.item.write(choice.value)
            if not isinstance(label, str):
                raise QuestionError(f"{cursor.path} is a list of options that are not texts")
            question = _member_question(text, label, choice.description)
            yield Question(f"{cursor.path}[{position}]", keys, "yes_no", question, _YES_NO, label)
    elif isinstance(node, ObjectNode):
        yield from _questions_of_fields(node, task, keys, cursor)
    else:
        raise QuestionError(
            f"{cursor.path} is {node.kind}; a decision endpoint answers only bool, Enum, Literal, lists of "
            "an Enum, and records of them"
        )


def _inner_node(node: Node[object]) -> tuple[Node[object], bool]:
    """Return the node inside of wrappers, and True if the answer is on a scale."""
    is_scale = False
    while isinstance(node, (DecisionNode, ConstrainedNode, RecursiveNode)):
        is_scale = is_scale or (isinstance(node, DecisionNode) and issubclass(node.cls, Scale))
        node = node.target if isinstance(node, RecursiveNode) else node.inner
    return node, is_scale


def _questions_of_fields(
    node: ObjectNode, task: str, keys: tuple[str, ...], cursor: Cursor
) -> Iterator[Question]:
    for field in node.spec.fields:
        key = field.keys[0]
        name = key.replace("_", " ")
        question = f"{task}\nAnswer for: {name}" if task else f"What is the {name}?"
        question = node.descriptions[field.name] or question
        try:
            yield from _questions(node.nodes[field.name], question, task, (*keys, key), cursor.child(key))
        except QuestionError:
            if field.required:
                raise


def _member_question(text: str, label: str, description: str | None) -> str:
    """Return the yes/no question that asks whether one option belongs to the answer list."""
    meaning = f" ({description})" if description else ""
    return f"{text}\nDoes this apply: {label}{meaning}?"


def _descriptions(node: Node[object]) -> dict[str, str]:
    if isinstance(node, ChoiceNode):
        return {_key(node.write(choice.value)): choice.description or "" for choice in node.choices.choices}
    descriptions: dict[str, str] = {}
    for option in node.options if isinstance(node, UnionNode) else ():
        descriptions |= _descriptions(option)
    return descriptions


def _key(data: Json) -> str:
    return repr(data)
